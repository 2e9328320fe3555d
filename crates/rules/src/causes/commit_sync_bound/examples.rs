//! Windows of commits that wait for syncs, and tests of what is said of them.

use spindoctor_model::Reading;
use spindoctor_model::host::FolderDisk;
use spindoctor_model::stack::ThreadState;

use super::*;
use crate::testing::{Build, session};

fn committing(version: &str) -> Build {
    Build::busy(version).counter("Innodb_os_log_fsyncs", 180.0).sessions(|_| {
        let mut sessions: Vec<_> = (20..30)
            .map(|id| session(id, "Query", "waiting for handler commit", "UPDATE t SET a = 1"))
            .collect();
        sessions.extend((30..33).map(|id| session(id, "Query", "updating", "UPDATE t SET a = 1")));
        sessions
    })
}

pub(crate) fn fires() -> Window {
    committing("8.0.36").file_wait("wait/io/file/innodb/innodb_log_file", 360.0, 2400.0).window()
}

/// The same crowd on storage that syncs in 50 us.
pub(crate) fn near_miss() -> Window {
    committing("8.0.36").file_wait("wait/io/file/innodb/innodb_log_file", 180.0, 50.0).window()
}

/// A remote MariaDB: nothing shows the time of a sync.
pub(crate) fn missing() -> Window {
    committing("10.11.19-MariaDB").remote().window()
}

pub(super) fn found(window: &Window) -> Finding {
    match evaluate(window) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn advice_on_the_servers_host_does_not_send_the_user_there() {
    let mut window = missing();
    let unlock = |window: &Window| match evaluate(window) {
        Outcome::NotEnoughEvidence(why) => (why.because, why.unlock.unwrap_or_default()),
        other => panic!("{other:?}"),
    };
    assert!(unlock(&window).1.contains("the server's host"));
    // Its data are on a tmpfs.
    window.server.pid = Some(42);
    for sample in &mut window.samples {
        let why = Unavailable::because("its files lie on no disk of this host");
        sample.host.disks = spindoctor_model::Reading::Unavailable(why);
    }
    let (because, unlock) = unlock(&window);
    assert!(because.contains("no disk of this host") && !unlock.contains("host"), "{because} {unlock}");
}

#[test]
fn the_time_of_a_sync_and_the_crowd_are_named() {
    let finding = found(&fires());
    assert!(
        finding.headline.starts_with("10 sessions on average wait in commit: one sync"),
        "{}",
        finding.headline
    );
    assert_eq!(finding.severity, spindoctor_model::Severity::Critical);
}

#[test]
fn the_disks_show_where_the_server_does_not_and_the_cpus_are_busy() {
    let window =
        committing("10.11.19-MariaDB").disk(180.0, 1500.0, 4000.0).host_cpu(3.0, 1.0).runs(1.8, 9.0).window();
    let finding = found(&window);
    assert!(finding.evidence.iter().any(|evidence| evidence.source == "/proc/diskstats"));
}

#[test]
fn a_queue_in_commit_on_an_idle_host_shows_the_time_of_a_sync() {
    let idle = |syncs| {
        committing("10.11.19-MariaDB").counter("Innodb_os_log_fsyncs", syncs).host_cpu(0.4, 3.6).window()
    };
    assert!(found(&idle(27.0)).headline.contains("takes 37.0 ms"), "{}", found(&idle(27.0)).headline);
    assert_eq!(evaluate(&idle(6000.0)), Outcome::Clear);
}

#[test]
fn commits_of_a_replication_group_do_not_show_how_long_a_sync_takes() {
    let of = |group: &str| {
        let window = committing("8.0.36")
            .each(|_, server, _| server.waits = spindoctor_model::Reading::NotAsked)
            .variable("group_replication_group_name", group)
            .host_cpu(0.4, 3.6);
        evaluate(&window.window())
    };
    assert!(matches!(of(""), Outcome::Fired(_)), "{:?}", of(""));
    let of_member = of("6a1f0c52-3f0e-4c8e-9d53-0f9b7f1d2c11");
    assert!(matches!(of_member, Outcome::NotEnoughEvidence(_)), "{of_member:?}");
}

#[test]
fn answers_that_wait_for_the_log_are_in_commit() {
    let window = committing("10.11.19-MariaDB")
        .counter("Innodb_os_log_fsyncs", 1.2)
        .sessions(|_| {
            (20..36).map(|id| session(id, "Query", "Updating status", "UPDATE t SET a = 1")).collect()
        })
        .host_cpu(0.1, 3.9)
        .window();
    assert!(found(&window).headline.starts_with("16 sessions on average wait in commit"));
}

#[test]
fn logs_that_are_not_synced_at_commit_clear_it() {
    let window = committing("8.0.36")
        .file_wait("wait/io/file/innodb/innodb_log_file", 360.0, 2400.0)
        .variable("innodb_flush_log_at_trx_commit", "2")
        .variable("sync_binlog", "0")
        .window();
    assert_eq!(evaluate(&window), Outcome::Clear);
}

const CLEANER: &[&str] = &[
    "fdatasync",
    "Log_file_handle::fsync",
    "log_write_up_to",
    "buf_flush_page",
    "buf_flush_page_cleaner_thread",
];
const WRITER: &[&str] =
    &["futex", "mutex_enter_inline", "log_write_up_to", "trx_commit_complete_for_mysql", "dispatch_command"];

#[test]
fn commits_that_need_no_sync_wait_for_that_of_the_page_cleaner() {
    let window = |threads: &[(u32, ThreadState, &[&str])]| {
        Build::busy("9.7.0")
            .variable("innodb_flush_log_at_trx_commit", "2")
            .variable("sync_binlog", "0")
            .variable("innodb_log_writer_threads", "OFF")
            .snapshots(threads)
            .window()
    };
    let cleaner = (1, ThreadState::Sync, CLEANER);
    let finding = found(&window(&[(6, ThreadState::Futex, WRITER), cleaner]));
    assert_eq!(finding.score, 0.75, "six of eight");
    assert_eq!(finding.remedies[0].statement, "SET GLOBAL innodb_log_writer_threads = ON");
    assert_eq!(finding.root.unwrap().stack.last().map(String::as_str), CLEANER.last().copied());
    assert_eq!(evaluate(&window(&[(1, ThreadState::Futex, WRITER), cleaner])), Outcome::Clear);
    // Nobody syncs: they wait for one another's writes.
    assert_eq!(evaluate(&window(&[(6, ThreadState::Futex, WRITER)])), Outcome::Clear);
}

const LEADS: &[&str] = &[
    "fdatasync",
    "my_sync",
    "MYSQL_BIN_LOG::sync_binlog_file",
    "MYSQL_BIN_LOG::ordered_commit",
    "ha_commit_trans",
    "dispatch_command",
];
const FOLLOWS: &[&str] = &[
    "pthread_cond_wait",
    "Commit_stage_manager::enroll_for",
    "MYSQL_BIN_LOG::ordered_commit",
    "ha_commit_trans",
    "dispatch_command",
];

/// Ten sessions in commit, whose threads the stacks show: one syncs for a group.
pub(super) fn in_groups(build: Build) -> Build {
    build.only_snapshots(&[(1, ThreadState::Sync, LEADS), (9, ThreadState::Condition, FOLLOWS)]).sessions(
        |_| (400..410).map(|id| session(id, "Query", "waiting for handler commit", "COMMIT")).collect(),
    )
}

#[test]
fn who_syncs_for_a_group_is_no_culprit() {
    let log = "wait/io/file/innodb/innodb_log_file";
    let window = in_groups(Build::busy("8.0.36")).file_wait(log, 360.0, 2400.0).window();
    assert_eq!(found(&window).root, None);
    let thread = Root { thread_os_id: Some(4310), ..Root::default() };
    assert!(is_of_the_server(&thread));
    assert!(!is_of_the_server(&Root { connection_id: Some(400), ..thread }));
}

#[test]
fn who_else_writes_to_the_disk_stands_before_faster_storage() {
    let log = "wait/io/file/innodb/innodb_log_file";
    let of = |of_disk| {
        let build =
            crate::disk_users::tests::beside_a_copy(committing("8.0.36").file_wait(log, 360.0, 2400.0));
        found(&crate::disk_users::tests::disks(build, (0.0, 1.3), &[("sdb", 0.0, of_disk)]).window())
    };
    let shared = of(25.0);
    assert!(shared.headline.ends_with("others have 95 % of what disk sdb does"), "{}", shared.headline);
    assert!(shared.remedies[0].statement.contains("iotop -oP"));
    assert_eq!(of(2.0).remedies[0], faster_storage());
}

/// The redo log on one disk and the binary log on another, or on one whose disk is unknown.
fn logs_on(build: Build, redo: &'static str, binlog: Option<&'static str>) -> Build {
    crate::disk_users::tests::data_on(build, Some(redo)).each(move |_, _, host| {
        if let Reading::Available { value: data, .. } = &mut host.data_directory {
            data.folders.push(FolderDisk {
                holds: FileKind::Binlog,
                path: "/srv/log".into(),
                disk: binlog.map(str::to_owned),
                ..FolderDisk::default()
            });
        }
    })
}

const REDO: &str = "wait/io/file/innodb/innodb_log_file";
const BINLOG: &str = "wait/io/file/sql/binlog";

#[test]
fn a_binary_log_on_a_slow_disk_is_what_commits_wait_for_though_the_redo_log_is_quick() {
    let build = || {
        let build = committing("9.7.4").variable("log_bin", "ON").variable("sync_binlog", "1");
        logs_on(build, "sda", Some("sdb")).file_wait(REDO, 360.0, 2.0).log_syncs(REDO, 180.0, 1.5)
    };
    let with = |binlog_us: f64| evaluate(&build().log_syncs(BINLOG, 5.0, binlog_us).window());
    let Outcome::Fired(finding) = with(190_000.0) else { panic!("it fires") };
    assert!(finding.headline.ends_with("one sync of the binary log takes 190.0 ms"), "{}", finding.headline);
    let remedies: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert!(remedies[0].starts_with("Put the binary log on a disk"), "{remedies:?}");
    assert!(remedies.contains(&"SET GLOBAL sync_binlog = 100"), "{remedies:?}");
    assert!(!remedies.iter().any(|remedy| remedy.contains("innodb_flush_log_at_trx_commit")), "{remedies:?}");
    assert_eq!(with(100.0), Outcome::Clear);
}

#[test]
fn the_logs_are_said_to_lie_on_two_disks_where_these_are_known_and_commits_sync_both() {
    let first = |durability: &'static str, redo_per_s: f64, binlog: Option<&'static str>| {
        let build = committing("9.7.4").variable("log_bin", "ON").variable("sync_binlog", "1");
        let build = build.variable("innodb_flush_log_at_trx_commit", durability);
        let build = logs_on(build, "sda", binlog).log_syncs(REDO, redo_per_s, 1.5);
        let finding = found(&build.log_syncs(BINLOG, 5.0, 190_000.0).window());
        assert!(finding.headline.contains("one sync of the binary log"), "{}", finding.headline);
        finding.remedies[0].clone()
    };
    assert_eq!(first("1", 6.0, Some("sdb")), beside_the_redo_log());
    // One disk; a disk that is unknown; a redo log that commits do not sync; one whose writes are synchronous (O_DSYNC).
    assert_eq!(first("1", 6.0, Some("sda")), faster_storage());
    assert_eq!(first("1", 6.0, None), faster_storage());
    assert_eq!(first("2", 6.0, Some("sdb")), faster_storage());
    assert_eq!(first("1", 0.0, Some("sdb")), faster_storage());
}

#[test]
fn a_writer_without_cpu_on_the_disk_of_the_redo_log_is_named_and_one_on_another_disk_is_not() {
    use crate::disk_users::tests::{beside_a_quiet_writer, data_on, disks};
    let of = |writes_to: &'static str, of_disk| {
        let build = committing("8.0.36").file_wait("wait/io/file/innodb/innodb_log_file", 360.0, 2400.0);
        let build = beside_a_quiet_writer(data_on(build, Some("sdb")), 25.0, Some(&[writes_to]));
        found(&disks(build, (0.0, 1.3), &[("sda", 0.0, 25.0), ("sdb", 0.0, of_disk)]).window())
    };
    let shared = of("sdb", 26.0);
    let dd = "most of it dd in /system.slice/backup.service (process 40)";
    assert!(shared.headline.ends_with(dd), "{}", shared.headline);
    let beside = of("sda", 2.0);
    assert!(!beside.headline.contains("others"), "{}", beside.headline);
    assert!(beside.why.contains("The disk is sdb"), "{}", beside.why);
    assert_eq!(beside.remedies[0], faster_storage());
}
