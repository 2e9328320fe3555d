//! Whom a thread waits for in a call of a socket or a pipe, where that is not its client.
//!
//! The kernel shows one and the same call for all of these; the functions above it differ. In: names of functions. Out: a [`Peer`], or
//! none, and then it is the client. Pure.

use spindoctor_model::Remedy;

/// What is at the other end. Where functions of several stand on a stack, the last of these counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// A file that is a pipe, or one of a file system that a program serves.
    Pipe,
    /// Another server, that a statement asks.
    Server,
    /// The pipe into which the error log goes.
    ErrorLog,
}

/// Functions that read and write files as files are (mysys/my_read.c, my_write.c, my_fstream.c; libio of the C library): none of them is
/// called for the connection of a client, whose functions are vio's.
const FILES: &[&str] = &[
    "my_read",
    "my_write",
    "my_fread",
    "my_fwrite",
    "_IO_new_file_write",
    "_IO_new_file_underflow",
    "_IO_file_write",
];

/// How functions begin that ask another server: the client library (sql-common/client.cc), FEDERATED and FederatedX, Spider, CONNECT,
/// CLONE, and what a loadable function or a component calls: libpq, ODBC, curl, LDAP.
const SERVERS: &[&str] = &[
    "mysql_real_query",
    "mysql_real_connect",
    "mysql_send_query",
    "mysql_read_query_result",
    "mysql_store_result",
    "mysql_clone_",
    "cli_safe_read",
    "cli_read_",
    "cli_advanced_command",
    "ha_federated",
    "federatedx_io",
    "spider_db_",
    "ha_spider::",
    "ha_connect::",
    "MYSQLC::",
    "PQexec",
    "PQgetResult",
    "SQLExecDirect",
    "SQLFetch",
    "curl_easy_perform",
    "curl_multi_",
    "ldap_",
];

/// How functions begin that write to the error log (sql/log.cc, sql/server_component/log_builtins.cc).
const ERROR_LOG: &[&str] = &[
    "sql_print_",
    "vprint_msg_to_log",
    "print_buffer_to_file",
    "error_log_print",
    "log_line_submit",
    "log_write_errstream",
    "log_sink_",
];

impl Peer {
    /// Whom a function talks to; none where it says nothing of it.
    pub(crate) fn from_function(name: &str) -> Option<Self> {
        let begins = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
        match () {
            () if begins(ERROR_LOG) => Some(Self::ErrorLog),
            () if begins(SERVERS) => Some(Self::Server),
            () if FILES.contains(&name) => Some(Self::Pipe),
            () => None,
        }
    }

    /// Whom a thread talks to that stands in these functions.
    pub(crate) fn from_frames<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<Self> {
        names.into_iter().filter_map(Self::from_function).max()
    }

    /// What a thread does that waits for it.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Pipe => "waiting for the other end of a pipe",
            Self::Server => "waiting for another server",
            Self::ErrorLog => "writing to the error log, which takes nothing",
        }
    }

    /// What sessions do that wait for it.
    pub(crate) fn headline(self) -> &'static str {
        match self {
            Self::Pipe => "wait for the other end of a pipe, or for a file system that a program serves",
            Self::Server => "wait for another server that their statement asks",
            Self::ErrorLog => "write to the error log, which takes nothing",
        }
    }

    /// What that means.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Pipe => {
                "They read or write a file in a call that waits as for a pipe: LOAD DATA from a FIFO, a log that goes into a pipe, or files \
                 of FUSE. They go on when the program at the other end does."
            }
            Self::Server => {
                "Their statements use a table that is on another server (FEDERATED, Spider, CONNECT), or call a function that asks one, and \
                 that server, or the network to it, is late. Their clients wait for as long, and so does who wants what they have locked."
            }
            Self::ErrorLog => {
                "The error log goes into a pipe, as the server's standard error does in a container and under systemd, and the program that \
                 reads the pipe has stopped. Each session with something to log stands there, with the locks that it has."
            }
        }
    }

    /// Where to look, and what that shows.
    pub(crate) fn look(self) -> Remedy {
        let (statement, why) = match self {
            Self::Pipe => (
                "ls -l /proc/PID/fd; lsof -p PID",
                "They show which file is a pipe or belongs to FUSE, and lsof +E which program has its other end.",
            ),
            Self::Server => (
                "SELECT Server_name, Host, Port, Db FROM mysql.servers; SHOW CREATE TABLE of their tables; then SHOW FULL PROCESSLIST on the \
                 server that they name",
                "There it is seen what their statements wait for. KILL here takes effect when that server answers: end the statement there.",
            ),
            Self::ErrorLog => (
                "ls -l /proc/PID/fd/2; systemctl status systemd-journald, or the log driver of the container",
                "Start the program again that reads the pipe. Let log_error name a file, so that nothing but the disk can stop the log.",
            ),
        };
        Remedy {
            statement: statement.into(),
            why: why.into(),
            dynamic: true,
            risk: "They only read.".into(),
            undo: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_say_who_is_at_the_other_end_of_a_call() {
        for (frames, peer) in [
            (
                &["poll", "vio_io_wait", "vio_read", "my_net_read", "cli_safe_read", "mysql_real_query"][..],
                Some(Peer::Server),
            ),
            (
                &["recv", "vio_read", "federatedx_io_mysql::actual_query", "ha_federatedx::rnd_init"],
                Some(Peer::Server),
            ),
            (
                &["read", "my_read", "_my_b_cache_read", "READ_INFO::read_field", "mysql_load"],
                Some(Peer::Pipe),
            ),
            (&["write", "_IO_new_file_write", "vfprintf", "sql_print_warning"], Some(Peer::ErrorLog)),
            (&["poll", "vio_io_wait", "vio_read", "my_real_read", "my_net_read", "do_command"], None),
            (
                &[
                    "poll",
                    "vio_write",
                    "net_write_packet",
                    "Protocol_classic::end_row",
                    "mysql_execute_command",
                ],
                None,
            ),
        ] {
            assert_eq!(Peer::from_frames(frames.iter().copied()), peer, "{frames:?}");
        }
    }
}
