//! What a statement's text says: its shape, its type, its first table, and the tags in its comments.
//!
//! In: a text as the server shows it, perhaps cut in its middle. Out: plain data, of `spindoctor-sql`.

use spindoctor_sql::{digest, first_table, kind, tags};

/// A statement, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement {
    /// Without literals and comments.
    pub digest: String,
    /// `SELECT`, `UPDATE`; empty where the text begins with no word.
    pub kind: String,
    /// The first table that it names; empty where it names none.
    pub table: String,
    /// `key=value` of its comments, in their order.
    pub tags: Vec<(String, String)>,
}

impl Statement {
    /// Of a text.
    pub fn parse(text: &str) -> Self {
        Self {
            digest: digest(text),
            kind: kind(text),
            table: first_table(text).unwrap_or_default(),
            tags: tags(text),
        }
    }

    /// Of a digest that the server or a recording gives, which has no comments any more.
    pub fn of_digest(digest: &str) -> Self {
        let digest = digest.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            kind: kind(&digest),
            table: first_table(&digest).unwrap_or_default(),
            tags: Vec::new(),
            digest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_taken_apart() {
        let statement = Statement::parse("/* x */ update `shop`.`stock` set n = n - 1 where id = 7");
        assert_eq!(statement.digest, "update `shop`.`stock` set n = n - ? where id = ?");
        assert_eq!((statement.kind.as_str(), statement.table.as_str()), ("UPDATE", "stock"));
        assert_eq!(Statement::parse("(SELECT 'from x' FROM t)").table, "t");
        assert_eq!(Statement::parse("COMMIT").table, "");
        assert_eq!(Statement::parse(""), Statement::default());
        let digest = Statement::of_digest("SELECT `c` FROM `t`\n WHERE `id` = ?");
        assert_eq!(
            (digest.digest.as_str(), digest.table.as_str()),
            ("SELECT `c` FROM `t` WHERE `id` = ?", "t")
        );
    }
}
