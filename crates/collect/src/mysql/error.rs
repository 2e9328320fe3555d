//! The errors between here and an answer of the server, in one line each.
//!
//! Every message says what happened and what to check. None holds a password: neither the target's
//! nor one that stood in a URL or an option file.

use std::path::PathBuf;
use std::time::Duration;

use spindoctor_model::{NoSession, NoSessionKind, Unavailable};
use thiserror::Error;

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// An option file that was asked for by name cannot be read.
    #[error("cannot read the option file {path}: {reason}; check the path and its permissions")]
    OptionFile {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// A flag, option, DSN or URL does not mean anything.
    #[error("{option}: {reason}")]
    BadOption {
        /// Where it stood: `--port`, `port in /etc/my.cnf`, `the DSN`.
        option: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The socket file does not exist.
    #[error(
        "there is no server socket {path}; check that the server runs and where its socket is (-S), or use TCP (-h 127.0.0.1)"
    )]
    NoSocket {
        /// The path that was tried.
        path: PathBuf,
    },
    /// The socket file may not be opened.
    #[error(
        "the socket {path} may not be opened: {reason}; use another user of this host, or TCP (-h 127.0.0.1)"
    )]
    SocketDenied {
        /// The path that was tried.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Nobody listens.
    #[error(
        "nothing listens on {address}: connection refused; check that the server runs, and its host and port or socket"
    )]
    Refused {
        /// What was tried.
        address: String,
    },
    /// The name has no address.
    #[error("the host of {address} has no address: {reason}; check its name (-h)")]
    UnknownHost {
        /// What was tried.
        address: String,
        /// The resolver's words.
        reason: String,
    },
    /// The network does not lead there, or another failure of the system.
    #[error("cannot reach {address}: {reason}; check the host, the port and the firewall between")]
    Unreachable {
        /// What was tried.
        address: String,
        /// The system's words.
        reason: String,
    },
    /// Something may listen, and said nothing within the deadline.
    #[error(
        "{address} did not answer within {} s; the server may hang or be stopped, or a firewall drops the packets",
        .after.as_secs_f64()
    )]
    Silent {
        /// What was tried.
        address: String,
        /// The deadline.
        after: Duration,
    },
    /// Earlier questions have no answer yet.
    #[error(
        "{address} has not answered {questions} of spindoctor's questions since they were given up; no other is asked before one of \
         them ends, so that a server that hangs is not filled with connections"
    )]
    Unanswered {
        /// What was tried.
        address: String,
        /// How many.
        questions: usize,
    },
    /// The other end closed the connection before the login was done.
    #[error(
        "{address} closed the connection during login; the server may be starting, stopping, out of memory or at its limit of open files: look into its error log"
    )]
    Closed {
        /// What was tried.
        address: String,
    },
    /// Something answered that does not speak the protocol.
    #[error("{address} does not speak MySQL's protocol ({reason}); check the port")]
    NotMysql {
        /// What was tried.
        address: String,
        /// What was wrong with the answer.
        reason: String,
    },
    /// A proxy answers: each statement may go to another of the servers behind it.
    #[error(
        "{address} is a proxy ({because}): its answers may come from several servers; connect to one of them by its own address"
    )]
    Proxy {
        /// What was tried.
        address: String,
        /// What shows it: its name, or its number of the connection.
        because: String,
    },
    /// Another server answers than before at the same address.
    #[error(
        "{address} leads to the server {now} now, and led to {before} before: several servers are behind it; connect to one of them by its own address"
    )]
    OtherServer {
        /// What was tried.
        address: String,
        /// The server that answered before, by its own names.
        before: String,
        /// The one that answers now.
        now: String,
    },
    /// Wrong user or password (1045, 1698, and the like).
    #[error(
        "{address} refused the login: {message}; check the user (-u), the password (-p) and from which host the account may come"
    )]
    Denied {
        /// What was tried.
        address: String,
        /// The server's error number.
        code: u16,
        /// The server's words; they name the account, never the password.
        message: String,
    },
    /// Error 1040: `max_connections` is reached.
    #[error(
        "{address} has no connection left: {message}; free one, raise max_connections, or use the admin_address or extra_port"
    )]
    TooManyConnections {
        /// What was tried.
        address: String,
        /// The server's words.
        message: String,
    },
    /// The account's own limit is reached (1203, 1226).
    #[error(
        "{address} grants this account no more connections: {message}; check MAX_USER_CONNECTIONS of the account"
    )]
    AccountLimit {
        /// What was tried.
        address: String,
        /// The server's words.
        message: String,
    },
    /// This host is blocked or not allowed at all (1129, 1130).
    #[error(
        "{address} does not admit this host: {message}; check the account's host part, or FLUSH HOSTS after many failed connects"
    )]
    HostNotAllowed {
        /// What was tried.
        address: String,
        /// The server's words.
        message: String,
    },
    /// TLS was demanded here and the server offers none.
    #[error(
        "{address} offers no TLS and --ssl-mode={mode} demands it; switch TLS on at the server, or use --ssl-mode=PREFERRED"
    )]
    TlsNotOffered {
        /// What was tried.
        address: String,
        /// The mode that demands it.
        mode: &'static str,
    },
    /// The TLS handshake failed.
    #[error("TLS with {address} failed: {reason}; {advice}")]
    Tls {
        /// What was tried.
        address: String,
        /// The TLS library's words.
        reason: String,
        /// What to check.
        advice: &'static str,
    },
    /// The account's way of login is not known here.
    ///
    /// MySQL draws a plugin by lot for an account that does not exist, so that nobody can find out which accounts
    /// exist.
    #[error(
        "{address}: the login asks for the plugin {plugin}, which spindoctor cannot; the account does not exist, or it needs caching_sha2_password or mysql_native_password"
    )]
    Plugin {
        /// What was tried.
        address: String,
        /// The server's name for it.
        plugin: String,
    },
    /// The server wants the password itself, and has not proved who it is: it does not get it.
    #[error("{address}: {because}")]
    PasswordWithheld {
        /// What was tried.
        address: String,
        /// What it wants, and what to do.
        because: String,
    },
    /// Any other error of the server during login.
    #[error("{address} refused the connection with error {code}: {message}")]
    Server {
        /// What was tried.
        address: String,
        /// The server's error number.
        code: u16,
        /// The server's words.
        message: String,
    },
}

impl ConnectError {
    /// True where a person has to mend something before a login can work: trying again soon brings nothing, and may lock the
    /// account. False for what may pass by itself: a server that is down, starting, full, silent or out of reach.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NoSocket { .. }
            | Self::SocketDenied { .. }
            | Self::Refused { .. }
            | Self::UnknownHost { .. }
            | Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Unanswered { .. }
            | Self::Closed { .. }
            | Self::NotMysql { .. }
            | Self::OtherServer { .. }
            | Self::TooManyConnections { .. }
            | Self::AccountLimit { .. } => false,
            // The account's way to log in is not to be had: 1251, 1275 and 1524 (mysqld_error.h). Others pass: 1047 a Galera
            // node that is not ready, 1053 shutting down, 3032 offline mode.
            Self::Server { code, .. } => matches!(code, 1251 | 1275 | 1524),
            _ => true,
        }
    }

    /// True where the server may count this refusal against the account, and lock it: 1045 access denied, 1698 denied without
    /// a password.
    pub fn is_wrong_password(&self) -> bool {
        matches!(self, Self::Denied { code: 1045 | 1698, .. })
    }

    /// The refusals that are themselves a reading of the server: it hangs, or it is full.
    ///
    /// The host's sources are read all the same, and a rule may make a finding of it.
    pub fn as_no_session(&self) -> Option<NoSession> {
        let kind = match self {
            Self::Silent { .. } | Self::Unanswered { .. } => NoSessionKind::Silent,
            Self::TooManyConnections { .. } => NoSessionKind::TooManyConnections,
            _ => return None,
        };
        Some(NoSession { kind, because: self.to_string() })
    }
}

/// Why a statement has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// A privilege is missing (1044, 1142, 1227, and the like).
    #[error("no privilege: {message}")]
    Denied {
        /// The server's error number.
        code: u16,
        /// The server's words; they name the privilege.
        message: String,
    },
    /// This server has no such table, variable, command or column (1146, 1109, 1193, and the like).
    #[error("this server does not have it: {message}")]
    Unsupported {
        /// The server's error number.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// The server ended the statement at its time limit; the session goes on.
    #[error("the server ended the statement at its limit of {} s", .after.as_secs_f64())]
    TooLong {
        /// The limit.
        after: Duration,
    },
    /// A lock was not granted in time (1205): somebody holds what the statement needs.
    #[error("a lock was not granted in time: {message}")]
    LockWait {
        /// The server's words.
        message: String,
    },
    /// No answer within the deadline. The session is broken; connect again.
    #[error("no answer in {} s; the server hangs, is stopped or overloaded", .after.as_secs_f64())]
    NoAnswer {
        /// The deadline.
        after: Duration,
    },
    /// The session broke at an earlier statement: nothing was asked.
    #[error("not asked: the connection was given up after an earlier statement; connect again")]
    Broken,
    /// The server went away in the middle (shutdown, crash, KILL).
    #[error(
        "the server closed the connection: {reason}; it was shut down, crashed, or the connection was killed"
    )]
    Gone {
        /// The system's or the server's words.
        reason: String,
    },
    /// The session is with another server than before, or than the other sessions are by now: it was given up.
    #[error(
        "this is the server {now}, where {before} was asked before: several servers are behind one address; connect to one of them by its own"
    )]
    OtherServer {
        /// The server that was asked before, by its own names.
        before: String,
        /// The one that would answer now.
        now: String,
    },
    /// What comes is no answer, or larger than any. The session is broken; connect again.
    #[error("the answer of {address} cannot be taken: {what}; the connection was given up")]
    TooMuch {
        /// What was asked.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// Any other error of the server.
    #[error("the server answered with error {code}: {message}")]
    Server {
        /// The server's error number.
        code: u16,
        /// The server's words.
        message: String,
    },
}

impl QueryError {
    /// The error as the reason why a source has no reading; `grant` is what would unlock a denied one.
    pub(crate) fn into_unavailable(self, grant: &str) -> Unavailable {
        let unavailable = Unavailable::because(self.to_string());
        match self {
            Self::Denied { .. } if !grant.is_empty() => unavailable.unlock(grant),
            _ => unavailable,
        }
    }

    /// The error with the GRANT that would unlock a denied one, for those to whom it is all that comes of a question.
    #[must_use]
    pub(crate) fn with_grant(self, grant: &str) -> Self {
        match self {
            Self::Denied { code, message } if !grant.is_empty() => {
                Self::Denied { code, message: format!("{message}; {grant}") }
            }
            other => other,
        }
    }

    /// True when the session is of no more use.
    pub(crate) fn breaks_session(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer { .. }
                | Self::Broken
                | Self::Gone { .. }
                | Self::OtherServer { .. }
                | Self::TooMuch { .. }
        )
    }
}
