//! What a server's error log, or the errors that its clients print, say of logins that were refused.

use spindoctor_model::{Finding, Remedy, TroubleKind, Window};

use super::named::Named;
use super::{CAUSE, forget_hosts, shrink};
use crate::draft::{Draft, set_back};
use crate::logged;
use crate::rank::WARNING_FROM;

/// What was logged or printed last. It does not say how many of the logins were refused.
pub(super) fn of_log(window: &Window) -> Option<Finding> {
    without_thread(window).or_else(|| blocked_host(window)).or_else(|| account_limit(window))
}

/// The system gave the server no thread (error 11, EAGAIN) or no memory for one (12, ENOMEM).
fn without_thread(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NoThread)?;
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "The server refused logins: the system gave it no thread for a new connection")
            .why("Each connection has a thread. Error 11 is a limit: of processes for the server's user, of tasks for its unit or \
                  container, of threads for the host; error 12 is memory.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "grep -E 'processes|stack' /proc/PID/limits; cat /sys/fs/cgroup/.../pids.max pids.current; sysctl \
                            kernel.threads-max kernel.pid_max vm.max_map_count"
                    .into(),
                why: "The smallest of these limits is the one. In a systemd unit they are LimitNPROC and TasksMax.".into(),
                dynamic: true,
                risk: "Looking is safe; a unit's limits hold after its restart, prlimit --pid PID --nproc=N at once.".into(),
                undo: String::new(),
            })
            .finding(),
    )
}

/// A host of clients that broke off as many handshakes in a row as are allowed (error 1129).
fn blocked_host(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::HostBlocked)?;
    let raise = Remedy {
        statement: "SET GLOBAL max_connect_errors = 10000, and look for what breaks off on that host: a load balancer's check that opens the \
                    port and closes it, a scanner, a client without TLS or with too short a timeout"
            .into(),
        why: "Without that the host is blocked again when as many have broken off.".into(),
        dynamic: true,
        risk: "A scanner may try for longer.".into(),
        undo: set_back(window, "max_connect_errors"),
    };
    let headline = format!("The server refuses all logins of a host: {}", Named::HostBlocked.headline());
    let draft = Draft::new(&CAUSE, WARNING_FROM, headline).why(Named::HostBlocked.why());
    let draft = draft.evidence_all(logged::evidence(trouble, times).into_iter());
    Some(draft.remedy(forget_hosts(window)).remedy(raise).finding())
}

/// An account that has as many connections as it may have, or made as many in the hour (errors 1203 and 1226).
fn account_limit(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::AccountLimit)
        .filter(|(trouble, _)| trouble.line.contains("connections"))?;
    let raise = Remedy {
        statement: "SHOW CREATE USER of the account; ALTER USER 'NAME'@'HOST' WITH MAX_USER_CONNECTIONS N (or MAX_CONNECTIONS_PER_HOUR N); where \
                    the account has none of its own: SET GLOBAL max_user_connections = N"
            .into(),
        why: "The next login is let in.".into(),
        dynamic: true,
        risk: "More of its statements may run at once, and all accounts together may reach max_connections.".into(),
        undo: "The same with the number before.".into(),
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Logins of an account are refused: it has as many connections as it may have")
            .why("The server has room for others: the limit is the account's own, or max_user_connections of all accounts.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(shrink())
            .remedy(raise)
            .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{LoggedTrouble, Severity};

    use super::*;

    fn found(kind: TroubleKind, line: &str) -> Vec<Finding> {
        let trouble = LoggedTrouble { kind, times: 1, line: line.to_owned(), ..LoggedTrouble::default() };
        crate::diagnose(&Window { error_log: vec![trouble], ..Window::default() }).findings
    }

    #[test]
    fn errors_of_clients_say_why_logins_are_refused_and_what_to_do() {
        for (kind, line, statement) in [
            (
                TroubleKind::HostBlocked,
                "Host '10.0.0.7' is blocked because of many connection errors",
                "TRUNCATE TABLE performance_schema.host_cache (MariaDB",
            ),
            (
                TroubleKind::AccountLimit,
                "User shop already has more than 'max_user_connections' active connections",
                "Look at what holds the account's connections",
            ),
            (TroubleKind::NoThread, "Can't create a new thread (errno 11)", "grep -E 'processes|stack'"),
        ] {
            let all = found(kind, line);
            assert_eq!(all.len(), 1, "{all:#?}");
            assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Warning), "{line}");
            assert!(all[0].remedies[0].statement.starts_with(statement), "{:?}", all[0].remedies);
        }
    }

    #[test]
    fn statements_of_the_hour_are_no_logins() {
        let line = "User 'shop' has exceeded the 'max_questions' resource (current value: 9000)";
        let all = found(TroubleKind::AccountLimit, line);
        assert_eq!(all.iter().map(|one| one.cause.as_str()).collect::<Vec<_>>(), ["statements-refused"]);
    }
}
