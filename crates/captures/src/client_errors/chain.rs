//! Errors that a program prints more than once: where one exception is the cause of the next, drivers and frameworks say each in turn.
//!
//! ```text
//! MySQLdb.OperationalError: (2006, 'Server has gone away')
//!
//! The above exception was the direct cause of the following exception:
//!
//! django.db.utils.OperationalError: (2006, 'Server has gone away')
//! ```

use super::is_of_trace;

/// The errors of a chain of exceptions, as far as its lines were read.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The entries of the catalogue that its lines had.
    had: Vec<usize>,
    /// A line says that what follows is of the exception above.
    is_linked: bool,
    /// The line above is the cause of another exception: the functions of one stand between two of a chain.
    is_cause_above: bool,
}

impl Chain {
    /// Takes a line, with the entry of the catalogue that it is. True where an exception of the same chain had that entry before.
    pub(crate) fn repeats(&mut self, line: &str, entry: Option<usize>) -> bool {
        const LINKS: [&str; 2] = ["The above exception was ", "During handling of the above exception"];
        let bare = line.trim_start();
        let is_cause = bare.starts_with("Caused by: ");
        let is_cause_above = std::mem::replace(&mut self.is_cause_above, is_cause);
        let Some(entry) = entry else {
            let goes_on = line.is_empty() || bare.len() < line.len() || is_of_trace(line);
            if LINKS.iter().any(|link| bare.starts_with(link)) {
                self.is_linked = true;
            } else if !goes_on {
                *self = Self::default();
            }
            return false;
        };
        let is_next =
            is_cause && !is_cause_above || bare.starts_with("Next ") && bare.contains("Exception: ");
        let is_linked = std::mem::take(&mut self.is_linked) || is_next;
        if !is_linked {
            self.had.clear();
        }
        let is_known = self.had.contains(&entry);
        if !is_known {
            self.had.push(entry);
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use crate::error_log::read;

    #[test]
    fn an_error_that_a_chain_of_exceptions_says_twice_is_one() {
        let python = "MySQLdb.OperationalError: (1205, 'Lock wait timeout exceeded; try restarting transaction')\n\n\
                      The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  \
                      File \"a.py\", line 7, in execute\n    return self.execute()\n\
                      django.db.utils.OperationalError: (1205, 'Lock wait timeout exceeded; try restarting transaction')\n";
        let java = "java.sql.SQLException: Lock wait timeout exceeded; try restarting transaction\n\tat a.b.C.d(C.java:7)\n\
                    Caused by: java.sql.SQLTransientException: Lock wait timeout exceeded; try restarting transaction\n\t... 9 more\n";
        let times = |text: &str| read(text).troubles.iter().map(|trouble| trouble.times).collect::<Vec<_>>();
        for text in [python, java] {
            assert_eq!(times(text), [1], "{text}");
            assert_eq!(times(&text.repeat(2)), [2], "{text}");
            let parts = crate::recognise("x", &format!("It says:\n{text}"));
            let log = parts.iter().find(|part| part.kind == crate::Kind::ErrorLog);
            assert!(log.is_some_and(|log| !log.says[0].contains("times")), "{parts:#?}");
        }
        // The head of the second exception is not known, and what caused it is another failure.
        let second = java.replacen(
            "java.sql.SQLException: Lock wait timeout exceeded; try restarting transaction",
            "a.B: no",
            1,
        );
        assert_eq!(times(&format!("{java}{second}")), [2]);
        // What somebody searched a log for: each line is of a chain of its own.
        let cause =
            "Caused by: java.sql.SQLException: Lock wait timeout exceeded; try restarting transaction\n";
        assert_eq!(times(&cause.repeat(3)), [3]);
    }
}
