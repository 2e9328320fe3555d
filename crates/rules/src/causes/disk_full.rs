//! `disk-full`: a file system is full, and commits wait until somebody frees space on it.

mod temporary;

use spindoctor_model::host::DataDirectory;
use spindoctor_model::number::{self, bytes};
use spindoctor_model::stack::Profile;
use spindoctor_model::{
    Evidence, Finding, KnownBy, Remedy, SessionTime, TimeClass, TroubleKind, Unavailable, Window,
};

use super::{commit_sync_bound, server_stopped, storage_stalled};
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use temporary::{is_temporary, of_full_table, of_room, of_temporary_table};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "disk-full",
    title: "a file system is full, and commits wait until somebody frees space on it",
    what: "A write into the binary log, a MyISAM or Aria table, or a temporary file finds no space. The server does not give up: \
           the thread sleeps for a minute, tries again, and writes to its error log that it waits for someone to free space. It \
           holds the log's mutex meanwhile. InnoDB's own files give an error instead (The table is full), and so do sorts in tmpdir.",
    why_it_hurts: "Behind the one thread that waits, all commits and DDL stand, while connections are accepted and reads are \
                   answered: the server looks healthy. After space is freed it can take a minute until the thread looks again.",
    evidence: "Sessions in wait_for_free_space (MariaDB: mariadb_sleep_for_space) by their stacks, or in the state Waiting for disk space; \
               else less than a megabyte free where the data or the binary log are, while a fifth of the session time is in commits, \
               writes, or waits without a name; or an error log that was given ends with it, or with a temporary table whose index is \
               damaged (126, 1034). A warning where tmpdir is filled (less than a megabyte free, or less than 16 and half of its file \
               system) while temporary files are made, or where the server refused a statement of spindoctor's own for want of room for \
               its temporary table (1114, 1021, 28). The estimate is the share of those that wait for space and of the commits.",
    looks_alike: "Storage that hangs stands in the kernel, in write or fsync, with space free: storage-stalled. A lock of FLUSH \
                  TABLES WITH READ LOCK stops commits too: global-lock-pileup.",
    remedies: "Free space where the files are. Binary logs are the first choice where replicas and backups have read them: PURGE \
               BINARY LOGS TO, not rm. Then old backups, dumps, logs of other programs; then a larger volume. Afterwards \
               binlog_expire_logs_seconds (before MySQL 8.0 and MariaDB 10.6: expire_logs_days), and an alarm at 80 %.",
    safety: "PURGE BINARY LOGS of a log that a replica has not read breaks that replica; the statement itself waits where another \
             thread holds the log's mutex, and then only removing other files helps. Never remove files of InnoDB, nor binary logs \
             by hand. KILL of the sessions that wait frees nothing; a restart on a full disk may fail.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/full-disk.html",
        "https://dev.mysql.com/doc/refman/8.4/en/purge-binary-logs.html",
        "mysys/errors.cc, wait_for_free_space",
    ],
    costs: Costs::Waits(&[TimeClass::DiskFull]),
    explains_time: &[
        TimeClass::DiskFull,
        TimeClass::Commit,
        TimeClass::CommitOrder,
        TimeClass::CommitDelay,
        TimeClass::Write,
        TimeClass::Mutex,
        TimeClass::Other,
    ],
    stacks: Stacks::Standing(WAITS),
    rule: Rule::TimeOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Less free than this is none: a write takes more at once. Chosen, not derived: file systems keep a few blocks back.
const FULL_BYTES: u64 = 1 << 20;

/// Of the session time, what stands behind a disk that is full where nobody was seen to wait for space.
const SHARE: f64 = 0.2;

/// What stands where a thread waits for space.
const BEHIND: &[TimeClass] = &[
    TimeClass::DiskFull,
    TimeClass::Commit,
    TimeClass::CommitOrder,
    TimeClass::CommitDelay,
    TimeClass::Write,
    TimeClass::Mutex,
];

/// Functions that sleep until there is space.
const WAITS: &[&str] = &["wait_for_free_space", "mariadb_sleep_for_space"];

/// True where a thread was seen to wait for space, or there is none.
pub(super) fn is_seen(window: &Window) -> bool {
    let waits = |profile: &Profile| profile.frames.iter().any(|frame| WAITS.contains(&frame.name.as_str()));
    window.profile.value().is_some_and(waits)
        || window
            .latest(|sample| &sample.host.data_directory)
            .is_some_and(|data| Room::list(data).iter().any(Room::stops_commits))
}

/// What an error log ends with. It does not say how many wait: while the server waits for space, no commit goes on.
fn of_capture(window: &Window) -> Option<Finding> {
    const WHY: &str = "Nothing can be written there any more: where it holds the server's data or logs, commits wait or fail.";
    const WHY_NO_FILE: &str = "No file can be made there any more, however much space is free: where it holds the server's data, logs or \
                               temporary files, statements fail that need a new one.";
    let printed = || {
        let are_inodes = logged::at_the_end(window, TroubleKind::DiskFull)
            .is_some_and(|(trouble, _)| trouble.line.contains(" of its inodes "));
        let (why, free) = match are_inodes {
            true => (WHY_NO_FILE, free_inodes()),
            false => (WHY, free_space("What the server then writes finds space.")),
        };
        let printed = logged::printed(window, &CAUSE, TroubleKind::DiskFull, WARNING_FROM, why, free)?;
        Some(commits_behind_it(window).unwrap_or(printed))
    };
    // A server that says that it waits for space says more than a tool that lists file systems.
    let said = match logged::at_the_end(window, TroubleKind::WaitsForSpace) {
        Some(_) => of_log(window),
        None => printed().or_else(|| of_log(window)),
    };
    said.or_else(|| of_room(window))
}

/// Sessions have stood in commits for so long, seconds, that a slow disk alone is not why. By judgement.
const LONG_COMMIT_S: f64 = 10.0;

/// A tool says that the file system is full where the server's data or binary logs are, and a list of sessions given with it has some that
/// commit and have not come on.
fn commits_behind_it(window: &Window) -> Option<Finding> {
    const STATES: [&str; 4] =
        ["waiting for handler commit", "query end", "waiting for disk space", "committing"];
    let (trouble, _) = logged::at_the_end(window, TroubleKind::DiskFull)
        .filter(|(trouble, _)| !trouble.source.is_empty())?;
    let mount = trouble.line.split(" is ").next().filter(|mount| mount.starts_with('/') && *mount != "/")?;
    let is_there =
        |name: &str| window.variable(name).is_some_and(|path| std::path::Path::new(path).starts_with(mount));
    let is_of_server = ["datadir", "log_bin_basename", "innodb_log_group_home_dir"].into_iter().any(is_there);
    let commits = |thread: &&spindoctor_model::mysql::ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        thread.is_connection
            && thread.time_s >= LONG_COMMIT_S
            && STATES.iter().any(|one| state.starts_with(one))
    };
    let threads = window.latest(|sample| &sample.server.threads)?;
    let (count, longest_s) = threads
        .iter()
        .filter(commits)
        .fold((0_u64, 0.0_f64), |(count, s), one| (count + 1, s.max(one.time_s)));
    if !is_of_server || count == 0 {
        return None;
    }
    let at_work = threads.iter().filter(|thread| thread.is_connection && thread.command == "Query").count();
    let estimate = (count as f64 / at_work.max(1) as f64).clamp(CRITICAL_FROM, 1.0);
    let sessions = number::counted(count, "session has", "sessions have");
    let headline =
        format!("{mount} is full: {sessions} stood in a commit for up to {}", number::duration(longest_s));
    Some(
        Draft::new(&CAUSE, estimate, headline)
            .why(
                "The server's data or its binary log lie there. The one that writes the log sleeps a minute between its tries, and all \
                 other commits stand behind it.",
            )
            .evidence(Evidence::new("it says", trouble.line.clone(), "", &trouble.source))
            .evidence(Evidence::new("sessions that commit", count as f64, "", "thread list"))
            .evidence(Evidence::new("the longest", longest_s, "s", "thread list").expected(format!("< {LONG_COMMIT_S:.0}")))
            .remedy(free_space(TRIES_AGAIN))
            .explains(&[commit_sync_bound::CAUSE.name])
            .finding(),
    )
}

/// What the error log ends with.
fn of_log(window: &Window) -> Option<Finding> {
    let waits = logged::at_the_end(window, TroubleKind::WaitsForSpace);
    let failed = || logged::at_the_end(window, TroubleKind::DiskFull);
    let Some((trouble, times)) = waits.or_else(failed) else { return of_full_table(window) };
    let path = path(&trouble.line);
    if let Some(path) = path.filter(|path| is_temporary(path)) {
        return Some(of_temporary_table(path, waits.is_some(), logged::evidence(trouble, times)));
    }
    let of = path.map_or_else(String::new, |path| format!(" of {path}"));
    let ends_its_start = logged::at_the_end(window, TroubleKind::NotStarted).is_some();
    let (score, headline, why, then) = match waits {
        None if ends_its_start => (
            CRITICAL_FROM,
            format!("The server does not start: the file system{of} is full"),
            "At its start a server writes its temporary tablespace, logs and files of its own, and ends where one of them has no room.",
            "The server then finds space for what it writes at its start: start it again.",
        ),
        Some(_) => (
            CRITICAL_FROM,
            format!("The file system{of} is full: the server waits until space is freed"),
            "The thread that writes sleeps a minute between its tries, and every commit may wait behind it.",
            TRIES_AGAIN,
        ),
        None => (
            WARNING_FROM,
            format!("The file system{of} is full: writes failed"),
            "What could not be written was given up with an error.",
            "What is written after that finds space; statements that failed are for their clients to repeat.",
        ),
    };
    let draft = Draft::new(&CAUSE, score, headline).why(why);
    let draft = draft.evidence_all(logged::evidence(trouble, times).into_iter());
    let draft = match ends_its_start {
        true => draft.explains(&[server_stopped::CAUSE.name]),
        false => draft,
    };
    Some(draft.remedy(free_space(then)).finding())
}

/// The file that a line of the log names.
///
/// ```text
/// mysqld: Disk is full writing './binlog.000812' (Errcode: 28 - No space left on device)
/// [InnoDB] Write to file ./ibtmp1 failed at offset 314572800
/// The table '/tmp/#sql_84e_2' is full
/// ```
fn path(line: &str) -> Option<&str> {
    let is_path =
        |word: &&str| word.starts_with("./") && word.len() > 2 || word.starts_with('/') && word.len() > 1;
    line.split(['\'', '"']).skip(1).step_by(2).find(is_path).or_else(|| {
        let words = line
            .split(|c: char| c.is_whitespace() || c == '\'' || c == '"')
            .map(|word| word.trim_start_matches(['(', '`']).trim_end_matches([',', '.', ':', ';', ')', '`']));
        words.into_iter().find(is_path)
    })
}

/// What follows where a thread waits for space.
const TRIES_AGAIN: &str = "The thread that waits tries again within a minute, and all commits go on.";

/// How the remedy begins that makes room.
pub(crate) const FREES_SPACE: &str = "Free space on that file system";

fn free_space(then: &str) -> Remedy {
    Remedy {
        statement: format!(
            "{FREES_SPACE}: move old backups, dumps and logs of other programs away, or make the volume larger"
        ),
        why: then.into(),
        dynamic: true,
        risk: "Files of the server itself are not to be removed by hand.".into(),
        undo: String::new(),
    }
}

/// What to do where a file system can hold no more files.
fn free_inodes() -> Remedy {
    Remedy {
        statement: "df -i; du --inodes -xS / | sort -n | tail: find the folder with the many files, as of sessions, mail or caches, and \
                    remove those that nobody needs"
            .into(),
        why: "Each file that goes gives one back.".into(),
        dynamic: true,
        risk: "Files of the server itself are not to be removed by hand.".into(),
        undo: String::new(),
    }
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let rooms = match window.need(|sample| &sample.host.data_directory) {
        Ok(data) => Some(Room::list(data)),
        Err(_) => None,
    };
    let full = rooms.as_ref().and_then(|rooms| rooms.iter().find(|room| room.free_bytes < FULL_BYTES));
    let stops_commits = full.is_some_and(Room::stops_commits);
    let share = |class| time.classes.iter().find(|one| one.class == class).map_or(0.0, |one| one.share);
    let waits_for_space = share(TimeClass::DiskFull) > 0.0;
    let nameless =
        time.classes.iter().any(|one| one.class == TimeClass::Other && one.known_by == KnownBy::Inferred);
    let classes: Vec<TimeClass> =
        BEHIND.iter().copied().chain((nameless && stops_commits).then_some(TimeClass::Other)).collect();
    let waits = match (waits_for_space, stops_commits) {
        (true, _) => InClasses::from_time(time, &classes),
        (false, true) => InClasses::from_share(time, &classes, SHARE),
        (false, false) if rooms.is_none() && share(TimeClass::Commit) >= SHARE => {
            return Outcome::NotEnoughEvidence(
                window
                    .missing(|sample| &sample.host.data_directory)
                    .unwrap_or_else(|| Unavailable::because("how much space is free was not read")),
            );
        }
        (false, false) => None,
    };
    waits.map_or(Outcome::Clear, |waits| {
        Outcome::Fired(finding(window, &waits, full, rooms.as_deref().unwrap_or_default()))
    })
}

fn finding(window: &Window, waits: &InClasses<'_>, full: Option<&Room>, rooms: &[Room]) -> Finding {
    let place = full.map_or("A file system".to_owned(), |room| format!("The file system of {}", room.what));
    let free = full.map_or_else(String::new, |room| format!(" ({} free)", bytes(room.free_bytes as f64)));
    let oldest_log = window.variable("log_bin_basename").map(|base| base.rsplit('/').next().unwrap_or(base));
    waits
        .draft(&CAUSE, format!("{place} is full{free}: {:.1} sessions wait until space is freed", waits.sessions))
        .why(
            "The thread that writes the log sleeps a minute between its tries and holds the log's mutex, so every commit waits \
             behind it. The server's error log says which file it is.",
        )
        .evidence_all(
            rooms.iter().map(|room| {
                Evidence::new(&format!("free space of {}", room.what), room.free_bytes as f64, "bytes", "statvfs")
                    .expected(format!("> {}", bytes(FULL_BYTES as f64)))
            }),
        )
        .remedy(free_space(TRIES_AGAIN))
        .remedy_if(oldest_log.map(|base| Remedy {
            statement: format!(
                "SHOW BINARY LOGS, then PURGE BINARY LOGS TO {}, the oldest that a replica still needs",
                spindoctor_sql::quoted(&format!("{base}.NNNNNN"))
            ),
            why: format!(
                "Binary logs that every replica and backup has read are the server's own files that can go. Afterwards a lower {} keeps \
                 fewer of them.",
                expires_logs(window)
            ),
            dynamic: true,
            risk: "A replica that has not read them is broken. The statement waits itself while a commit holds the log's mutex: \
                   free space elsewhere first."
                .into(),
            undo: String::new(),
        }))
        .explains(&[commit_sync_bound::CAUSE.name, storage_stalled::CAUSE.name])
        .finding()
}

/// The variable that says for how long binary logs are kept: that in seconds is there from MySQL 8.0.1 and MariaDB 10.6.1 on.
fn expires_logs(window: &Window) -> &'static str {
    match window.server.version {
        Some(version) if version.mysql_at_least(8, 0, 1) || version.mariadb_at_least(10, 6, 1) => {
            "binlog_expire_logs_seconds"
        }
        Some(_) => "expire_logs_days",
        None => "binlog_expire_logs_seconds (before MySQL 8.0 and MariaDB 10.6: expire_logs_days)",
    }
}

/// Space where the server keeps something.
struct Room {
    what: &'static str,
    free_bytes: u64,
}

impl Room {
    const TEMPORARY: &str = "temporary files";

    /// True where commits wait for space on it: a temporary file that does not find any ends its statement.
    fn stops_commits(&self) -> bool {
        self.free_bytes < FULL_BYTES && self.what != Self::TEMPORARY
    }

    fn list(data: &DataDirectory) -> Vec<Self> {
        let rooms = [
            ("the data directory", Some(data.free_bytes)),
            ("the binary log", data.log_free_bytes),
            (Self::TEMPORARY, data.temporary_free_bytes),
        ];
        rooms
            .into_iter()
            .filter_map(|(what, free_bytes)| Some(Self { what, free_bytes: free_bytes? }))
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState::{Condition, Sleep};
    use spindoctor_model::{LoggedTrouble, Reading, Severity};

    use super::*;
    use crate::testing::{Build, answer};

    const WAITS: &[&str] = &[
        "clock_nanosleep",
        "wait_for_free_space",
        "my_write",
        "MYSQL_BIN_LOG::ordered_commit",
        "dispatch_command",
        "do_command",
    ];
    const BEHIND_IT: &[&str] = &[
        "pthread_cond_wait",
        "MYSQL_BIN_LOG::ordered_commit",
        "trans_commit",
        "dispatch_command",
        "do_command",
    ];

    fn free(build: Build, free_bytes: u64) -> Build {
        build.each(|at_s, _, host| {
            let data = DataDirectory {
                path: "/var/lib/mysql".into(),
                total_bytes: 1 << 40,
                free_bytes: 1 << 39,
                log_free_bytes: Some(free_bytes),
                ..DataDirectory::default()
            };
            host.data_directory = answer(at_s, data);
        })
    }

    pub(crate) fn fires() -> Window {
        let build = Build::busy("8.0.36").only_snapshots(&[(1, Sleep, WAITS), (15, Condition, BEHIND_IT)]);
        free(build.variable("log_bin_basename", "/logs/binlog"), 0).window()
    }

    /// All commits stand, and there is space.
    pub(crate) fn near_miss() -> Window {
        free(Build::busy("8.0.36").only_snapshots(&[(16, Condition, BEHIND_IT)]), 1 << 30).window()
    }

    /// A remote server: nobody knows how much space it has.
    pub(crate) fn missing() -> Window {
        Build::waiting(16, "waiting for handler commit").window()
    }

    #[test]
    fn the_file_system_is_named_and_the_log_that_can_go() {
        let diagnosis = crate::diagnose(&fires());
        let finding = &diagnosis.findings[0];
        assert!(
            finding.headline.starts_with("The file system of the binary log is full (0 B free): 16.0"),
            "{}",
            finding.headline
        );
        assert!(finding.remedies[1].statement.contains("'binlog.NNNNNN'"), "{:?}", finding.remedies);
        assert_eq!(diagnosis.findings.len(), 1, "{:#?}", diagnosis.findings);
    }

    #[test]
    fn the_variable_that_lets_logs_expire_is_the_one_that_the_version_has() {
        for (version, name) in [
            ("5.7.44", "expire_logs_days"),
            ("8.0.36", "binlog_expire_logs_seconds"),
            ("10.5.27-MariaDB", "expire_logs_days"),
            ("10.6.19-MariaDB", "binlog_expire_logs_seconds"),
            ("11.4.3-MariaDB", "binlog_expire_logs_seconds"),
        ] {
            assert_eq!(expires_logs(&Build::busy(version).window()), name, "{version}");
        }
        assert!(expires_logs(&Window::default()).contains("expire_logs_days)"));
        let findings = crate::diagnose(&fires()).findings;
        let purge = &findings[0].remedies[1];
        assert!(purge.why.contains("a lower binlog_expire_logs_seconds keeps"), "{purge:?}");
    }

    #[test]
    fn a_disk_that_is_full_while_nobody_commits_costs_nobody_time() {
        let window = free(Build::busy("8.0.36"), 0).window();
        assert_eq!(CAUSE.evaluate(&window, crate::session_time(&window).as_ref()), Outcome::Clear);
    }

    #[test]
    fn an_error_log_alone_is_enough_where_it_ends_with_it() {
        let logged = |kind, before_end_s| {
            let mut window = missing();
            window.samples.iter_mut().for_each(|sample| sample.server.threads = Reading::NotAsked);
            let line = "Disk is full writing './binlog.000411' (OS errno 28)".to_owned();
            window.error_log =
                vec![LoggedTrouble { kind, times: 2, before_end_s, line, ..LoggedTrouble::default() }];
            let found = crate::diagnose(&window).findings;
            found.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.headline)
        };
        assert!(logged(TroubleKind::WaitsForSpace, Some(600.0)).unwrap().contains("waits until"));
        assert!(logged(TroubleKind::DiskFull, None).unwrap().contains("writes failed"));
        assert_eq!(logged(TroubleKind::WaitsForSpace, Some(7_200.0)), None, "that is over");
        assert_eq!(logged(TroubleKind::TooManyConnections, Some(0.0)), None);
    }

    #[test]
    fn a_full_disk_beside_a_start_that_failed_is_critical_and_explains_it() {
        let logged = |kind, line: &str| LoggedTrouble {
            kind,
            times: 1,
            line: line.to_owned(),
            ..LoggedTrouble::default()
        };
        let full =
            logged(TroubleKind::DiskFull, "Write to file ./ibtmp1 failed. Operating system error number 28.");
        let ended = logged(TroubleKind::NotStarted, "[ERROR] Aborting");
        let found = |error_log| of_log(&Window { error_log, ..Window::default() }).unwrap();
        let finding = found(vec![full.clone(), ended]);
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.headline.starts_with("The server does not start: "), "{}", finding.headline);
        assert_eq!(finding.explains, [server_stopped::CAUSE.name]);
        assert_eq!(found(vec![full]).severity, Severity::Warning);
    }

    #[test]
    fn a_file_system_without_inodes_is_not_freed_of_bytes() {
        let found = |line: &str| {
            let error_log = vec![LoggedTrouble {
                kind: TroubleKind::DiskFull,
                times: 1,
                line: line.to_owned(),
                source: "df".to_owned(),
                ..LoggedTrouble::default()
            }];
            of_capture(&Window { error_log, ..Window::default() }).unwrap()
        };
        let inodes = found("/var has 100% of its inodes in use: each file takes one");
        assert!(inodes.remedies[0].statement.starts_with("df -i"), "{inodes:#?}");
        assert!(inodes.why.starts_with("No file can be made"), "{inodes:#?}");
        assert!(found("/var is 100% full").remedies[0].statement.starts_with("Free space"));
    }

    #[test]
    fn a_full_file_system_of_the_server_is_why_commits_stand() {
        let found = |mount: &'static str, state: &'static str| {
            let mut window = Build::busy("8.0.36")
                .variable("datadir", "/var/lib/mysql/")
                .sessions(move |_| {
                    let mut session = crate::testing::session(8, "Query", state, "COMMIT");
                    session.time_s = 188.0;
                    vec![session]
                })
                .window();
            let line = format!("{mount} is 100% full");
            let source = "df".to_owned();
            window.error_log = vec![LoggedTrouble {
                kind: TroubleKind::DiskFull,
                times: 1,
                line,
                source,
                ..LoggedTrouble::default()
            }];
            of_capture(&window).unwrap().headline
        };
        assert_eq!(
            found("/var/lib", "waiting for handler commit"),
            "/var/lib is full: 1 session has stood in a commit for up to 3 min 8 s"
        );
        assert_eq!(found("/backup", "waiting for handler commit"), "/backup is 100% full");
        assert_eq!(found("/var/lib", "updating"), "/var/lib is 100% full");
        let of = path(
            "`ERROR 1021 (HY000): Disk full (/mnt/#sql_15455_1.MAI); waiting for someone to free some space... (errno: 28)`",
        );
        assert!(of.is_some_and(is_temporary), "{of:?}");
    }
}
