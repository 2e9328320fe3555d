//! The server's limit of open files: whether it is reached, what holds the files, and what to do about it.

use spindoctor_model::host::OpenFiles;
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, NoSessionKind, Remedy, Window};

/// A limit with room for some thousand tables and as many connections. Chosen.
const ENOUGH: u64 = 65_536;

/// The last reading in which the server could open hardly any more: they come and go with the connections.
pub(crate) fn at_the_limit(window: &Window) -> Option<&OpenFiles> {
    let readings = window.all(|sample| &sample.host.open_files);
    readings.into_iter().rev().map(|(_, files)| files).find(|files| files.few_are_left())
}

/// The same of a server that accepts no session: what it has no descriptor for stays in the queue before it.
pub(crate) fn keep_logins_out(window: &Window) -> Option<&OpenFiles> {
    let is_silent = window.server.no_session.as_ref().is_some_and(|no| no.kind == NoSessionKind::Silent);
    at_the_limit(window).filter(|_| is_silent)
}

/// `1024 of 1024 files are open`, for a headline.
pub(crate) fn said(files: &OpenFiles) -> String {
    format!("{} of {} files are open", whole(files.open as f64), whole(files.limit.unwrap_or(0) as f64))
}

/// The reading, and what the server itself counts of it.
pub(crate) fn evidence(window: &Window, files: &OpenFiles) -> Vec<Evidence> {
    let counted = |name: &str, reading: &str| {
        let source = format!("SHOW GLOBAL STATUS {name}");
        window.status(name).map(|count| Evidence::new(reading, count, "", &source))
    };
    let below = |limit: u64| format!("< {}", whole(limit as f64));
    let open = Evidence::new("open files", files.open, "", "/proc/PID/fd");
    let open = match files.limit {
        Some(limit) => open.expected(below(limit)),
        None => open,
    };
    [
        Some(open),
        files.limit.map(|limit| Evidence::new("limit of open files", limit, "", "/proc/PID/limits")),
        files.sockets.map(|sockets| Evidence::new("of them connections", sockets, "", "/proc/PID/fd")),
        counted("Threads_connected", "connections"),
        counted("Open_tables", "open tables"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What to do, what helps at once first.
pub(crate) fn remedies(window: &Window) -> Vec<Remedy> {
    let files = at_the_limit(window);
    let pid = window.server.pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let limit = files.and_then(|files| files.limit);
    let more = enough(limit);
    let at_once = Remedy {
        statement: format!("prlimit --pid {pid} --nofile={more}:{more}"),
        why: "The running server may open more files at once: logins go on within a second, and tables can be opened.".into(),
        dynamic: true,
        risk: "Only root can raise it beyond the hard limit. The server goes on to size its table cache by the limit that it was \
               started with. Each open file takes kernel memory, some hundred bytes."
            .into(),
        undo: match limit {
            Some(limit) => format!("prlimit --pid {pid} --nofile={limit}:"),
            None => format!("prlimit --pid {pid} --nofile with the values that `prlimit --pid {pid}` shows before"),
        },
    };
    let cache = window.variable_number("table_open_cache").filter(|tables| *tables >= 2.0);
    let fewer_tables = Remedy {
        statement: match cache {
            Some(tables) => format!("SET GLOBAL table_open_cache = {:.0}", (tables / 2.0).floor()),
            None => "SET GLOBAL table_open_cache = half of what it is, in a session that is open already".into(),
        },
        why: "Each InnoDB table is at least one open file, a MyISAM table one and one more for each session that has it open. The server \
              closes those that nobody uses."
            .into(),
        dynamic: true,
        risk: "Tables are opened more often; with too small a cache that costs time in each statement.".into(),
        undo: match cache {
            Some(tables) => format!("SET GLOBAL table_open_cache = {tables:.0}"),
            None => "SET GLOBAL table_open_cache to what it was.".into(),
        },
    };
    let fewer_connections = Remedy {
        statement: "End connections that rest, or make the clients' pools smaller; max_connections below the limit of open files".into(),
        why: "Each connection is an open file, and they are most of those that the server has.".into(),
        dynamic: true,
        risk: "Clients that do not connect again by themselves see a lost connection.".into(),
        undo: String::new(),
    };
    let are_connections =
        files.is_some_and(|files| files.sockets.is_some_and(|sockets| sockets > files.open / 2));
    let fewer = if are_connections { fewer_connections } else { fewer_tables };
    vec![at_once, at_the_start(window), fewer]
}

/// Twice the limit, and no less than what is enough for most servers.
fn enough(limit: Option<u64>) -> u64 {
    limit.map_or(ENOUGH, |limit| limit.saturating_mul(2).max(ENOUGH))
}

/// The limit that the server gets with its next start.
pub(crate) fn at_the_start(window: &Window) -> Remedy {
    let more = enough(at_the_limit(window).and_then(|files| files.limit));
    Remedy {
        statement: format!(
            "LimitNOFILE={more} in the server's unit (systemctl edit; in a container --ulimit nofile={more}), open_files_limit = {more} \
             in its option file, and a restart"
        ),
        why: "At its start the server sets its limit as its options say, within what the unit allows, and sizes its caches of tables by \
              what it got: SHOW GLOBAL VARIABLES LIKE 'open_files_limit'."
            .into(),
        dynamic: false,
        risk: "The server is down meanwhile.".into(),
        undo: "The old values, and a restart.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    fn window(sockets: Option<u64>) -> Window {
        Build::busy("10.11.19-MariaDB").open_files(1_020, 1_024, sockets).window()
    }

    #[test]
    fn what_holds_most_of_the_files_decides_what_is_to_be_fewer() {
        let fewer = |sockets| remedies(&window(sockets))[2].statement.clone();
        assert_eq!(fewer(Some(40)), "SET GLOBAL table_open_cache = 2000");
        assert!(fewer(Some(900)).starts_with("End connections that rest"), "{}", fewer(Some(900)));
        let first = &remedies(&window(None))[0];
        assert_eq!(first.statement, "prlimit --pid 4310 --nofile=65536:65536");
        assert_eq!(first.undo, "prlimit --pid 4310 --nofile=1024:");
    }

    #[test]
    fn files_that_are_left_are_no_limit() {
        let at = |open, limit| {
            at_the_limit(&Build::busy("9.7.4").open_files(open, limit, None).window()).is_some()
        };
        assert!(at(1_014, 1_024) && at(2_000, 1_024), "a limit may be lowered below what is open");
        assert!(!at(1_000, 1_024));
        assert!(at_the_limit(&Build::busy("9.7.4").window()).is_none());
    }
}
