//! systemd's lines about the unit of a server (src/core/service.c, src/core/job.c, src/systemctl): that it did not start, or not in time, and
//! how its process ended.
//!
//! ```text
//! Mar 02 03:11:10 db2 systemd[1]: mariadb.service: start operation timed out. Terminating.
//! Mar 02 03:12:41 db2 systemd[1]: mariadb.service: Main process exited, code=killed, status=6/ABRT
//! Mar 02 03:12:41 db2 systemd[1]: Failed to start MariaDB 10.6.12 database server.
//! Job for mysql.service failed because the control process exited with error code.
//! ```

use jiff::civil::DateTime;

use crate::kernel_log::{self, names_server};

/// What such a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The server's process ended as a program does that crashes.
    Crashed,
    /// The server's process ended by SIGKILL.
    Killed,
    /// The server's process ended by a signal that the line does not name.
    BySignal,
    /// systemd ended the server, because it had not started in time.
    Late,
    /// systemd killed the server, because it had not stopped in time.
    StoppedLate,
    /// systemd ended the unit's command that stops the server, because that took too long, and sent the server SIGTERM.
    StopEnded,
    /// systemd ended the server after a time limit that the line does not name.
    TimedOut,
    /// systemd starts the server no more, or again and again.
    Restarted,
    /// systemd could not run the server, or a command before it: its program.
    NotRun,
    /// The same: the view of files that the unit asks for.
    NoNamespace,
    /// The same: the user that the unit names.
    NoUser,
    /// The server did not start.
    NotStarted,
    /// The server has started.
    Started,
}

/// How the lines go on behind the unit, in lower case: all of it, and what that says. The first that fits counts.
const SIGNS: [(&[&str], Unit); 29] = [
    (&["main process exited, code=", "status=11/segv"], Unit::Crashed),
    (&["main process exited, code=", "status=6/abrt"], Unit::Crashed),
    (&["main process exited, code=", "status=7/bus"], Unit::Crashed),
    (&["main process exited, code=", "status=4/ill"], Unit::Crashed),
    (&["failed with result 'core-dump'"], Unit::Crashed),
    (&["main process exited, code=killed, status=9/kill"], Unit::Killed),
    (&["failed with result 'signal'"], Unit::BySignal),
    (&["process exited, code=exited", "status=203/exec"], Unit::NotRun),
    (&["process exited, code=exited", "status=127"], Unit::NotRun),
    (&["failed at step exec spawning "], Unit::NotRun),
    (&["process exited, code=exited", "status=226/namespace"], Unit::NoNamespace),
    (&["failed at step namespace spawning "], Unit::NoNamespace),
    (&["process exited, code=exited", "status=217/user"], Unit::NoUser),
    (&["failed at step user spawning "], Unit::NoUser),
    (&["start operation timed out"], Unit::Late),
    (&["start-pre operation timed out"], Unit::Late),
    (&["start-post operation timed out"], Unit::Late),
    (&["job for ", " failed because a timeout was exceeded"], Unit::Late),
    // `State 'stop-sigterm' timed out. Killing.`, and before systemd 228 without the quotes.
    (&["state 'stop-sigterm' timed out"], Unit::StoppedLate),
    (&["stop-sigterm timed out"], Unit::StoppedLate),
    (&["stopping timed out. killing"], Unit::StoppedLate),
    // Of a unit with a command to stop it: `Stopping timed out. Terminating.`, and from systemd 244 on `State 'stop' timed out. Terminating.`
    (&["stopping timed out"], Unit::StopEnded),
    (&["state 'stop' timed out"], Unit::StopEnded),
    (&["failed with result 'timeout'"], Unit::TimedOut),
    (&["start request repeated too quickly"], Unit::Restarted),
    (&["scheduled restart job, restart counter is at "], Unit::Restarted),
    (&["job for ", " failed because "], Unit::NotStarted),
    (&["failed to start "], Unit::NotStarted),
    (&["failed to restart "], Unit::NotStarted),
];

/// Names of units that have a server's name in theirs.
const OTHERS: [&str; 6] = ["exporter", "router", "maxscale", "backup", "proxy", "agent"];

/// What a line says of a server's unit; None for one of another program.
pub(crate) fn unit(line: &str) -> Option<Unit> {
    /// How a line begins that systemctl prints, and no log, before the unit.
    const OF_SYSTEMCTL: [&str; 3] = ["Job for ", "Failed to start ", "Failed to restart "];
    let is_of_systemctl = |line: &str| {
        let unit = OF_SYSTEMCTL.iter().find_map(|begin| line.strip_prefix(begin));
        unit.and_then(|unit| unit.split([' ', ':']).next()).is_some_and(|unit| unit.ends_with(".service"))
    };
    if is_dumped(line) {
        return Some(Unit::Crashed);
    }
    let words = match line.find("systemd[") {
        Some(at) => line[at..].split_once("]: ")?.1,
        None => Some(line.trim_start()).filter(|line| is_of_systemctl(line))?,
    };
    let words = words.to_ascii_lowercase();
    if !names_server(&words) || OTHERS.iter().any(|other| words.contains(other)) {
        return None;
    }
    let found = SIGNS.iter().find(|(signs, _)| signs.iter().all(|sign| words.contains(sign)));
    found.map(|(_, unit)| *unit).or_else(|| words.starts_with("started ").then_some(Unit::Started))
}

/// True for what systemd says of a server's process that dumped core (src/coredump): `systemd-coredump[71]: Process 4711 (mysqld) of user 27
/// dumped core.`
pub(crate) fn is_dumped(line: &str) -> bool {
    let of_server = |process: &str| ["(mysqld)", "(mariadbd)"].iter().any(|name| process.contains(name));
    line.split_once("Process ")
        .and_then(|(_, rest)| rest.split_once(" of user "))
        .is_some_and(|(process, rest)| of_server(process) && rest.contains(" dumped core"))
}

/// The time of a line of systemd's; `near` is one of the server's log, which has the year.
pub(crate) fn time(line: &str, near: Option<DateTime>) -> Option<DateTime> {
    line.contains(" systemd[").then(|| kernel_log::of_syslog(line, near)).flatten()
}

/// How often systemd has started a server again, by its counter, where that is more than once.
pub(crate) fn restarts(text: &str) -> Option<String> {
    const COUNTER: &str = "restart counter is at ";
    let is_of_server = |line: &&str| line.contains(COUNTER) && unit(line) == Some(Unit::Restarted);
    let (_, rest) = text.lines().rev().find(is_of_server)?.split_once(COUNTER)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let count = digits.parse::<u64>().ok().filter(|count| *count > 1)?;
    Some(format!(
        "by its counter systemd has started the server again {count} times: it ends again and again"
    ))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Finding, Severity, TroubleKind};

    use super::*;
    use crate::{recognise, window};

    fn findings(text: &str) -> Vec<Finding> {
        spindoctor_rules::diagnose(&window(&recognise("a.txt", text))).findings
    }

    #[test]
    fn a_line_is_of_a_server_by_its_unit_or_its_name_and_not_by_its_host() {
        let of = |words: &str| unit(&format!("Mar 02 03:12:41 mysql-7 systemd[1]: {words}"));
        assert_eq!(
            of("mysqld.service: Main process exited, code=dumped, status=11/SEGV"),
            Some(Unit::Crashed)
        );
        assert_eq!(of("mysqld.service: main process exited, code=killed, status=9/KILL"), Some(Unit::Killed));
        assert_eq!(of("mariadb.service: Start operation timed out. Terminating."), Some(Unit::Late));
        assert_eq!(
            of("Failed to start mariadb.service - MariaDB 10.11.6 database server."),
            Some(Unit::NotStarted)
        );
        assert_eq!(of("Started MySQL Community Server."), Some(Unit::Started));
        assert_eq!(
            of("mysql.service: Scheduled restart job, restart counter is at 7."),
            Some(Unit::Restarted)
        );
        assert_eq!(of("Failed to start nginx.service."), None);
        assert_eq!(of("Failed to start Prometheus exporter of MySQL."), None);
        assert_eq!(of("mysql.service: Consumed 3.1s CPU time."), None);
        let job = "Job for mysql.service failed because the control process exited with error code.";
        assert_eq!(unit(job), Some(Unit::NotStarted));
        assert_eq!(of("mysqld_agent.service: Main process exited, code=killed, status=9/KILL"), None);
        let masked = "Failed to start mysql.service: Unit mysql.service is masked.";
        assert_eq!(unit(masked), Some(Unit::NotStarted));
        assert_eq!(unit("Failed to start MySQL in our tests"), None);
        let dumped =
            "Mar 02 03:12:41 db2 systemd-coredump[71]: Process 4711 (mysqld) of user 27 dumped core.";
        assert_eq!(unit(dumped), Some(Unit::Crashed));
        assert_eq!(unit(&dumped.replace("mysqld", "haproxy")), None);
    }

    #[test]
    fn a_server_of_which_systemd_alone_speaks_does_not_start_until_it_has_started() {
        let failed = "Mar 02 03:12:41 db2 systemd[1]: mariadb.service: Main process exited, code=exited, status=1/FAILURE\n\
                      Mar 02 03:12:41 db2 systemd[1]: Failed to start MariaDB 10.6.12 database server.\n";
        let found = findings(failed);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((found[0].cause.as_str(), found[0].severity), ("server-stopped", Severity::Critical));
        assert!(found[0].headline.starts_with("The server does not start"), "{}", found[0].headline);
        let started = "Mar 02 03:20:00 db2 systemd[1]: Started MariaDB 10.6.12 database server.\n";
        assert!(findings(&format!("{failed}{started}")).is_empty());
    }

    #[test]
    fn a_stop_that_took_too_long_says_who_ended_the_server_and_the_end_of_it_once() {
        let line = |words: &str| format!("Mar 02 03:12:41 db2 systemd[1]: mysql.service: {words}\n");
        let (ended, failed) =
            (line("Stopping timed out. Terminating."), line("Failed with result 'timeout'."));
        let found = findings(&format!("{ended}{failed}"));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(
            found[0].headline,
            "systemd ended the stop of the server, because it took longer than TimeoutStopSec"
        );
        assert!(
            found[0].remedies[0].statement.contains("TimeoutStopSec=infinity"),
            "{:?}",
            found[0].remedies
        );
        let says = |text: &str| crate::error_log::read(text).says;
        assert_eq!(says(&format!("{ended}{failed}")).len(), 1, "{:?}", says(&failed));
        // The same in newer versions, and the end that systemd made of it.
        let killed = line("State 'stop-sigterm' timed out. Killing.");
        let all = [line("State 'stop' timed out. Terminating."), killed, failed.clone()].concat();
        let found = findings(&all);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].headline.starts_with("systemd killed the server (SIGKILL)"),
            "{}",
            found[0].headline
        );
        assert!(!found[0].headline.contains("times"), "{}", found[0].headline);
        assert_eq!(says(&all).len(), 1, "{:?}", says(&all));
        assert!(says(&failed)[0].contains("TimeoutStopSec"), "{:?}", says(&failed));
        let started = "Mar 02 03:20:00 db2 systemd[1]: Started MySQL Community Server.\n";
        let over = format!("{ended}{failed}{started}");
        assert_eq!(findings(&over), []);
        assert!(says(&over)[0].ends_with("; that is over"), "{:?}", says(&over));
    }

    #[test]
    fn a_unit_whose_program_cannot_be_run_says_why() {
        for (words, begins) in [
            ("Control process exited, code=exited, status=203/EXEC", "systemd could not run the server"),
            ("Main process exited, code=exited status=127", "systemd could not run the server"),
            (
                "Failed at step EXEC spawning /usr/sbin/mysqld: No such file",
                "systemd could not run the server",
            ),
            ("Main process exited, code=exited, status=226/NAMESPACE", "systemd could not give the server"),
            (
                "Failed at step NAMESPACE spawning /usr/bin/install: Permission denied",
                "systemd could not give",
            ),
            ("Main process exited, code=exited, status=217/USER", "systemd did not find the user"),
        ] {
            let log = format!("Mar 02 03:12:41 db2 systemd[1]: mariadb.service: {words}\n");
            let says = crate::error_log::read(&log).says;
            assert!(says.len() == 1 && says[0].starts_with(begins), "{words}: {says:?}");
            let failed = "Mar 02 03:12:41 db2 systemd[1]: Failed to start MariaDB 10.6.12 database server.\n";
            assert!(findings(&format!("{log}{failed}"))[0].headline.starts_with("The server does not start"));
        }
        let other = "Mar 02 03:12:41 db2 systemd[1]: nginx.service: Main process exited, code=exited, status=203/EXEC";
        assert_eq!(unit(other), None);
    }

    #[test]
    fn a_crash_is_counted_once_where_the_server_says_it_too() {
        let by_systemd = "Mar 02 03:12:41 db2 systemd[1]: mariadb.service: Main process exited, code=dumped, status=6/ABRT\n";
        assert_eq!(findings(by_systemd)[0].headline, "The server crashed");
        let both = format!("240302  3:12:40 [ERROR] mariadbd got signal 6 ;\n{by_systemd}");
        let log = crate::error_log::read(&both);
        let crashes: Vec<u64> = log
            .troubles
            .iter()
            .filter(|trouble| trouble.kind == TroubleKind::Crashed)
            .map(|trouble| trouble.times)
            .collect();
        assert_eq!(crashes, [1]);
    }

    #[test]
    fn a_crash_that_systemd_saw_by_a_clock_of_another_time_zone_is_at_the_end() {
        let log = "2023-03-12 11:24:55 0 [ERROR] WSREP: something\n\
                   Mar 12 09:24:58 db2 systemd[1]: mariadb.service: main process exited, code=killed, status=11/SEGV\n";
        let crashed = crate::error_log::read(log).troubles;
        assert_eq!((crashed[0].kind, crashed[0].before_end_s), (TroubleKind::Crashed, Some(0.0)));
    }

    #[test]
    fn a_server_that_systemd_starts_again_and_again_says_how_often_and_when() {
        let line = |at: u32, clock: &str| {
            format!(
                "Mar 12 {clock} db2 systemd[1]: mariadb.service: Scheduled restart job, restart counter is at {at}.\n"
            )
        };
        let lines = [line(811, "03:11:12"), line(812, "03:11:17")].concat();
        let log = format!("2023-03-12  3:11:10 0 [Note] a line of the server\n{lines}");
        let says = crate::error_log::read(&log).says;
        assert_eq!(
            says,
            [
                "systemd started the server again after it had ended, 2 times, last at 2023-03-12 03:11:17",
                "by its counter systemd has started the server again 812 times: it ends again and again",
            ]
        );
        assert_eq!(restarts(&line(1, "03:11:12")), None);
        assert_eq!(restarts(&line(7, "03:11:12").replace("mariadb", "nginx")), None);
    }

    #[test]
    fn a_start_that_took_too_long_says_so() {
        let says = crate::error_log::read(
            "Mar 02 03:11:10 db2 systemd[1]: mariadb.service: start operation timed out. Terminating.\n",
        )
        .says;
        assert!(says[0].contains("TimeoutStartSec"), "{says:?}");
        for words in [
            "mariadb.service: start operation timed out. Terminating.",
            "mysql.service: start-pre operation timed out. Terminating.",
            "Job for mysqld.service failed because a timeout was exceeded.",
        ] {
            let log = format!(
                "Mar 02 03:11:10 db2 systemd[1]: {words}\nMar 02 03:12:41 db2 systemd[1]: Failed to start MySQL server.\n"
            );
            let found = findings(&log);
            assert_eq!(found.len(), 1, "{words}: {found:#?}");
            let headline = "The server does not start: systemd gave up waiting for it (TimeoutStartSec)";
            assert_eq!(found[0].headline, headline, "{words}");
            let killed = "Mar 02 03:12:40 db2 systemd[1]: mysql.service: Main process exited, code=killed, status=9/KILL\n";
            let says = crate::error_log::read(&format!("{log}{killed}")).says;
            assert!(!says.iter().any(|said| said.contains("SIGKILL")), "{says:?}");
        }
    }
}
