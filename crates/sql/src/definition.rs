//! A table's definition without its literals.
//!
//! In: what `SHOW CREATE TABLE` prints. Out: the same with `?` for each text and each number that may be somebody's value:
//! defaults, the values of an ENUM, comments, what checks, generated columns and partitions compare with, passwords of a
//! connection. Lengths of types and of prefixes, and numbers of options, stay: they are the table's form.

use crate::mode::Mode;
use crate::tokens::{End, Kind, Token, lex};

/// Behind these, within the brackets of a table, numbers are values up to the end of their part of the definition.
const BEFORE_VALUES: &[&str] = &["default", "check", "as", "values"];

/// A definition with `?` for each value, without plain comments. None where it cannot be taken apart for certain.
///
/// ```
/// use spindoctor_sql::definition_without_literals;
/// assert_eq!(
///     definition_without_literals("CREATE TABLE `t` (`c` char(9) DEFAULT 'x' COMMENT 'y') AUTO_INCREMENT=7").as_deref(),
///     Some("CREATE TABLE `t` (`c` char(9) DEFAULT ? COMMENT ?) AUTO_INCREMENT=7")
/// );
/// ```
pub fn definition_without_literals(text: &str) -> Option<String> {
    without_literals(text, Place::default())
}

fn without_literals(text: &str, mut place: Place) -> Option<String> {
    let lexed = lex(text, Mode::UNKNOWN);
    if lexed.end != End::Whole || lexed.end_at != text.len() {
        return None;
    }
    let (mut out, mut end) = (String::new(), 0);
    for token in &lexed.tokens {
        out.push_str(&text[end..token.start]);
        end = token.end();
        match token.kind {
            Kind::Comment | Kind::Hint => {}
            Kind::Text => out.push('?'),
            // Some servers run it and others skip it: it is a part of the definition.
            Kind::Conditional => {
                let begin = token.text.find(|c: char| c.is_whitespace())?;
                let inner = token.text[begin..].strip_suffix("*/")?;
                out +=
                    &format!("{}{}*/", &token.text[..begin], without_literals(inner, Place::in_brackets())?);
            }
            Kind::Number if !place.is_of_the_form() => out.push('?'),
            _ => out.push_str(token.text),
        }
        place.pass(token);
    }
    out.push_str(&text[end..]);
    Some(out)
}

/// Where in a definition a token stands.
#[derive(Debug, Default)]
struct Place {
    /// Brackets that are open.
    depth: usize,
    /// Values stand here, until what was open then ends.
    values_since: Option<usize>,
    /// The three tokens before.
    before: [Before; 3],
}

/// What a token before is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Before {
    #[default]
    Other,
    Name,
    Number,
    Open,
    Comma,
    Equals,
}

impl Place {
    /// Where a part of a column's definition stands.
    fn in_brackets() -> Self {
        Self { depth: 1, ..Self::default() }
    }

    /// True where a number is the length of a type or prefix, `varchar(255)`, `decimal(10,2)`, or that of an option:
    /// `KEY_BLOCK_SIZE=8`.
    fn is_of_the_form(&self) -> bool {
        self.values_since.is_none()
            && matches!(
                self.before,
                [.., Before::Name, Before::Open]
                    | [Before::Open, Before::Number, Before::Comma]
                    | [.., Before::Name, Before::Equals]
            )
    }

    fn pass(&mut self, token: &Token<'_>) {
        if matches!(token.kind, Kind::Comment | Kind::Hint | Kind::Conditional | Kind::Executable) {
            return;
        }
        let is = if token.is_sign("(") {
            self.depth += 1;
            // The key of an expression: `((a + 5))`.
            if self.before[2] == Before::Open {
                self.values_since.get_or_insert(self.depth);
            }
            Before::Open
        } else if token.is_sign(")") {
            self.depth = self.depth.saturating_sub(1);
            if self.values_since.is_some_and(|since| self.depth < since) {
                self.values_since = None;
            }
            Before::Other
        } else if token.is_sign(",") {
            if self.values_since == Some(self.depth) && self.depth > 0 {
                self.values_since = None;
            }
            Before::Comma
        } else if token.is_sign("=") {
            Before::Equals
        } else if token.is_one_of(BEFORE_VALUES) && self.depth > 0 {
            self.values_since.get_or_insert(self.depth);
            Before::Other
        } else if token.is("partition") && self.depth == 0 {
            // What partitions compare with: to the end.
            self.values_since = Some(0);
            Before::Other
        } else if token.kind == Kind::Number {
            Before::Number
        } else if token.is_name() {
            Before::Name
        } else {
            Before::Other
        };
        self.before = [self.before[1], self.before[2], is];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_table_stays_and_its_values_go() {
        // MySQL 8.4 and MariaDB 11.8, shortened.
        for (definition, expected) in [
            (
                "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `d` decimal(10,2) DEFAULT '1.50',\n  KEY `k` (`c`(20),`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=31 DEFAULT CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 COMMENT='of alice'",
                "CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `d` decimal(10,2) DEFAULT ?,\n  KEY `k` (`c`(20),`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=31 DEFAULT CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 COMMENT=?",
            ),
            (
                "(`n` int(11) DEFAULT 4711, `e` enum('a','b') CHARACTER SET utf8mb4 DEFAULT _utf8mb4'a', `s` varchar(9) DEFAULT concat('x',5))",
                "(`n` int(11) DEFAULT ?, `e` enum(?,?) CHARACTER SET utf8mb4 DEFAULT ?, `s` varchar(9) DEFAULT concat(?,?))",
            ),
            (
                "(`g` int GENERATED ALWAYS AS ((`a` + 5)) STORED, CONSTRAINT `c` CHECK ((`a` > 17)), `v` char(3), KEY `f` (((`a` + 6) + abs(7)),`v`(2)))",
                "(`g` int GENERATED ALWAYS AS ((`a` + ?)) STORED, CONSTRAINT `c` CHECK ((`a` > ?)), `v` char(3), KEY `f` (((`a` + ?) + abs(?)),`v`(2)))",
            ),
            (
                "(`a` int /*!80023 INVISIBLE DEFAULT '5' */)\n/*!50100 PARTITION BY RANGE (`a`)\n(PARTITION p0 VALUES LESS THAN (10) COMMENT = 'x' ENGINE = InnoDB) */",
                "(`a` int /*!80023 INVISIBLE DEFAULT ? */)\n/*!50100 PARTITION BY RANGE (`a`)\n(PARTITION p0 VALUES LESS THAN (?) COMMENT = ? ENGINE = InnoDB) */",
            ),
            (
                "(`a` int) ENGINE=FEDERATED CONNECTION='mysql://u:secret@h/d/t' /* secret */",
                "(`a` int) ENGINE=FEDERATED CONNECTION=? ",
            ),
        ] {
            assert_eq!(definition_without_literals(definition).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_cannot_be_taken_apart_for_certain_is_not_shown() {
        for text in [
            "CREATE TABLE `t` (`c` char(9) DEFAULT 'x",
            r"(`c` int COMMENT 'a\', `d` int COMMENT 'b')",
            "(`c",
        ] {
            assert_eq!(definition_without_literals(text), None, "{text}");
        }
    }
}
