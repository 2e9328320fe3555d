//! The parts of `sql_mode` that decide where a literal ends.

/// What a backslash in a quoted text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backslash {
    /// It escapes what follows: the default of the servers.
    Escapes,
    /// It is a letter as any other: `NO_BACKSLASH_ESCAPES`.
    IsText,
    /// Not known: a text that ends at different places under the two is hidden to its end.
    #[default]
    Unknown,
}

/// What stands in double quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DoubleQuotes {
    /// A text: the default of the servers.
    Text,
    /// A name: `ANSI_QUOTES`. A backslash in it is a letter.
    Name,
    /// Not known: it is hidden as a text would be.
    #[default]
    Unknown,
}

/// How a server reads quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mode {
    /// What a backslash does.
    pub backslash: Backslash,
    /// What stands in double quotes.
    pub double_quotes: DoubleQuotes,
}

impl Mode {
    /// Nothing is known: whatever is a literal under one of the modes counts as one.
    pub const UNKNOWN: Self = Self { backslash: Backslash::Unknown, double_quotes: DoubleQuotes::Unknown };

    /// Every mode that a session may have. Under `ANSI_QUOTES` and `NO_BACKSLASH_ESCAPES` each of the two is set or not.
    pub const ALL: [Self; 4] = [
        Self { backslash: Backslash::Escapes, double_quotes: DoubleQuotes::Text },
        Self { backslash: Backslash::Escapes, double_quotes: DoubleQuotes::Name },
        Self { backslash: Backslash::IsText, double_quotes: DoubleQuotes::Text },
        Self { backslash: Backslash::IsText, double_quotes: DoubleQuotes::Name },
    ];

    /// From the value of the variable `sql_mode`.
    pub fn from_variable(sql_mode: &str) -> Self {
        let has = |wanted: &str| sql_mode.split(',').any(|mode| mode.trim().eq_ignore_ascii_case(wanted));
        // The combinations contain it; servers name it beside them, but not every copy of a variable does.
        let is_ansi = ["ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"];
        Self {
            backslash: if has("NO_BACKSLASH_ESCAPES") { Backslash::IsText } else { Backslash::Escapes },
            double_quotes: if is_ansi.into_iter().any(has) { DoubleQuotes::Name } else { DoubleQuotes::Text },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_from_the_variable() {
        assert_eq!(Mode::from_variable(""), Mode::ALL[0]);
        assert_eq!(
            Mode::from_variable("REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ANSI"),
            Mode::ALL[1]
        );
        assert_eq!(Mode::from_variable("STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES"), Mode::ALL[2]);
        assert_eq!(Mode::from_variable("no_backslash_escapes, ansi"), Mode::ALL[3]);
    }
}
