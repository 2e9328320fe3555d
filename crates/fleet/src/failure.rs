//! Why a server did not answer: a reason to count by, and one sentence without the server's name, so that servers
//! with the same trouble are reported together.

use std::collections::BTreeMap;

use serde::Serialize;
use thiserror::Error;

use crate::wire::connection::{OpenError, Trouble};
use crate::wire::login::Refused;
use crate::wire::{ServerError, Wrong};

/// What kind of trouble it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// No connection came about.
    Connect,
    /// The login was refused.
    Auth,
    /// A deadline passed, here or on the server.
    Timeout,
    /// The statement failed, or the connection broke while it ran.
    Query,
    /// The user did not want to wait.
    Interrupted,
}

impl Reason {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Auth => "auth",
            Self::Timeout => "timeout",
            Self::Query => "query",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why one server did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct Failure {
    /// What kind of trouble.
    pub reason: Reason,
    /// What happened, and what to check.
    pub error: String,
    /// The server's error number, where it was the server's.
    pub code: Option<u16>,
    /// True where trying again at once may help: nothing was asked yet.
    pub passing: bool,
    /// True where a statement was sent and nobody knows what became of it.
    pub unknown: bool,
}

impl Failure {
    /// A failure of this kind, with the sentence for the user.
    pub fn new(reason: Reason, error: impl Into<String>) -> Self {
        Self { reason, error: error.into(), code: None, passing: false, unknown: false }
    }

    /// No connection, which another try may bring.
    pub fn connect(error: impl Into<String>) -> Self {
        Self { passing: true, ..Self::new(Reason::Connect, error) }
    }

    /// The statement was sent, and its outcome did not come.
    #[must_use]
    pub fn outcome_unknown(self) -> Self {
        Self { unknown: true, ..self }
    }

    /// The system's error before the login was done.
    pub fn of_connecting(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::connect("connection refused: nothing listens there"),
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => Self::connect("the server closed the connection during the login"),
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                Self::new(Reason::Connect, "there is no such socket")
            }
            ErrorKind::PermissionDenied => Self::new(
                Reason::Connect,
                "the socket may not be opened: this user may not read its folder or write the socket",
            ),
            _ => Self::connect(error.to_string()),
        }
    }

    /// The system's error while the statement ran.
    pub fn of_asking(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let message = match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                "the server closed the connection before its answer was whole".to_owned()
            }
            _ => format!("the connection broke: {error}"),
        };
        Self::new(Reason::Query, message).outcome_unknown()
    }

    /// A server's error in place of a login.
    pub fn of_refusal(error: &ServerError) -> Self {
        let ServerError { code, message } = error;
        let message = format!("error {code}: {message}");
        let failure = match code {
            // Numbers: mysqld_error.h. 1040, 1203, 1226: no connection left; 1129, 1130: this host is not admitted.
            1040 | 1203 | 1226 => Self::connect(message),
            1129 | 1130 => Self::new(Reason::Connect, message),
            _ => Self::new(Reason::Auth, message),
        };
        Self { code: Some(*code), ..failure }
    }

    /// A server's error in place of an answer.
    pub fn of_statement(error: &ServerError) -> Self {
        let ServerError { code, message } = error;
        // max_execution_time (MySQL 3024), max_statement_time (MariaDB 1969), KILL QUERY (1317), a lock (1205).
        let reason = match code {
            3024 | 1969 | 1205 => Reason::Timeout,
            _ => Reason::Query,
        };
        Self { code: Some(*code), ..Self::new(reason, format!("error {code}: {message}")) }
    }

    /// What the other end sent was no MySQL.
    pub fn of_wrong(wrong: Wrong, logged_in: bool) -> Self {
        let message = format!("it does not speak MySQL's protocol: {wrong}");
        match logged_in {
            true => Self::new(Reason::Query, message).outcome_unknown(),
            false => Self::new(Reason::Connect, message),
        }
    }

    /// No connection.
    pub fn of_open(error: OpenError) -> Self {
        match error {
            OpenError::UnknownHost(why) => Self::connect(format!("the host's name has no address: {why}")),
            OpenError::Unreachable(error) | OpenError::Broken(error) => Self::of_connecting(&error),
            OpenError::TlsNotOffered(mode) => {
                let message = format!("the server offers no TLS, and --ssl-mode={} demands it", mode.name());
                Self::new(Reason::Connect, message)
            }
            OpenError::Tls(why) => {
                Self::new(Reason::Connect, format!("TLS failed: {why}; check --ssl-mode and --ssl-ca"))
            }
            OpenError::TlsOptions(why) => Self::new(Reason::Connect, format!("TLS: {why}")),
            OpenError::Refused(Refused::Server(error)) => Self::of_refusal(&error),
            OpenError::Refused(Refused::Wrong(wrong)) | OpenError::Wrong(wrong) => {
                Self::of_wrong(wrong, false)
            }
            OpenError::Refused(refused) => Self::new(Reason::Auth, refused.to_string()),
        }
    }

    /// No answer, or none to the end.
    pub fn of_trouble(trouble: Trouble) -> Self {
        match trouble {
            Trouble::System(error) => Self::of_asking(&error),
            Trouble::Wrong(wrong) => Self::of_wrong(wrong, true),
        }
    }
}

/// Failures of a run, those alike together.
#[derive(Debug, Default)]
pub struct Failures {
    by_error: BTreeMap<(Reason, String), Vec<usize>>,
}

impl Failures {
    /// Adds the failure of a server.
    pub fn add(&mut self, server: usize, failure: &Failure) {
        self.by_error.entry((failure.reason, failure.error.clone())).or_default().push(server);
    }

    /// How many servers failed.
    pub fn len(&self) -> usize {
        self.by_error.values().map(Vec::len).sum()
    }

    /// True where no server failed.
    pub fn is_empty(&self) -> bool {
        self.by_error.is_empty()
    }

    /// How many of each reason, for those that happened.
    pub fn by_reason(&self) -> BTreeMap<Reason, usize> {
        let mut counts = BTreeMap::new();
        for ((reason, _), servers) in &self.by_error {
            *counts.entry(*reason).or_default() += servers.len();
        }
        counts
    }

    /// Each error with its servers in the order of the list; within a reason, the most frequent first.
    pub fn alike(&self) -> Vec<(Reason, &str, Vec<usize>)> {
        let mut alike: Vec<(Reason, &str, Vec<usize>)> = self
            .by_error
            .iter()
            .map(|((reason, error), servers)| {
                let mut servers = servers.clone();
                servers.sort_unstable();
                (*reason, error.as_str(), servers)
            })
            .collect();
        alike.sort_by(|a, b| (a.0, b.2.len(), a.1).cmp(&(b.0, a.2.len(), b.1)));
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_failures_stand_together_with_the_most_frequent_first() {
        let mut failures = Failures::default();
        let refused = Failure::of_connecting(&std::io::ErrorKind::ConnectionRefused.into());
        let denied = ServerError { code: 1045, message: "Access denied".to_owned() };
        for server in [9, 3] {
            failures.add(server, &refused);
        }
        failures.add(4, &Failure::connect("x"));
        failures.add(1, &Failure::of_refusal(&denied));
        assert_eq!(failures.len(), 4);
        assert_eq!(failures.by_reason(), BTreeMap::from([(Reason::Connect, 3), (Reason::Auth, 1)]));
        let alike = failures.alike();
        assert_eq!(alike[0], (Reason::Connect, "connection refused: nothing listens there", vec![3, 9]));
        assert_eq!(alike[1].2, [4]);
        assert_eq!(alike[2], (Reason::Auth, "error 1045: Access denied", vec![1]));
    }

    #[test]
    fn what_the_server_ended_at_its_limit_is_a_timeout() {
        for code in [3024, 1969, 1205] {
            let error = ServerError { code, message: String::new() };
            assert_eq!(Failure::of_statement(&error).reason, Reason::Timeout);
        }
        let error = ServerError { code: 1064, message: String::new() };
        assert_eq!(Failure::of_statement(&error).reason, Reason::Query);
    }
}
