//! Sessions that wait for their commit behind an I/O, and how many I/Os end meanwhile.

use spindoctor_model::Reading;
use spindoctor_model::stack::ThreadState::{self, Condition, Sync};

use super::measured::CHANGES;
use super::*;
use crate::testing::{Build, session};

const SYNCS: &[&str] = &["fsync", "os_file_flush_func", "log_flusher"];
const COMMITS: &[&str] = &["pthread_cond_wait", "log_write_up_to", "trans_commit", "dispatch_command"];

fn committing(completed_per_s: f64) -> Build {
    CHANGES
        .iter()
        .fold(Build::busy("8.0.36"), |build, name| build.counter(name, 0.0))
        .counter("Innodb_data_fsyncs", completed_per_s)
        .counter("Innodb_os_log_fsyncs", completed_per_s)
        .only_snapshots(&[(1, Sync, SYNCS), (16, Condition, COMMITS)])
        .sessions(|_| {
            (20..36)
                .map(|id| session(id, "Query", "waiting for handler commit", "UPDATE t SET a = 1"))
                .collect()
        })
}

pub(crate) fn fires() -> Window {
    committing(0.2).log_syncs("wait/io/file/innodb/innodb_log_file", 0.2, 5e6).window()
}

/// A slow disk: a sync takes a tenth of a second, and ends.
pub(crate) fn near_miss() -> Window {
    committing(10.0).window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").without_profile().window()
}

#[test]
fn the_time_of_one_io_is_shown_and_stands_before_the_syncs_that_it_explains() {
    let diagnosis = crate::diagnose(&fires());
    let first = &diagnosis.findings[0];
    assert_eq!(first.cause, CAUSE.name);
    assert!(first.headline.contains("one I/O takes 5.0 s"), "{}", first.headline);
}

#[test]
fn not_one_io_in_the_window_lasts_longer_than_that() {
    let Outcome::Fired(finding) = evaluate(&committing(0.0).window()) else { panic!() };
    assert!(finding.headline.contains("one I/O takes 10.0 s"), "{}", finding.headline);
}

#[test]
fn statements_that_began_and_stand_are_no_ios_that_were_completed() {
    // 16 sessions; in 10 s 16 statements began, none ended, and no sync.
    let window = committing(0.0).counter("Com_update", 1.6).window();
    let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
    assert!(finding.headline.contains("one I/O takes 10.0 s"), "{}", finding.headline);
}

#[test]
fn a_file_that_is_extended_waits_for_storage_that_hangs_and_keeps_one_busy_that_does_not() {
    for (completed_per_s, hangs) in [(0.2, true), (0.7, false)] {
        let window = committing(completed_per_s).window();
        assert_eq!(super::hangs(&window), hangs);
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        let explains = finding.explains.iter().any(|cause| cause == file_extension_stall::CAUSE.name);
        assert_eq!(explains, hangs);
    }
}

/// A binary log on a file system that is frozen: InnoDB's own I/O goes on.
fn frozen_log(changes_per_s: f64) -> Window {
    const WRITES: &[&str] =
        &["write", "my_write", "MYSQL_BIN_LOG::ordered_commit", "trans_commit", "dispatch_command"];
    const QUEUES: &[&str] = &[
        "pthread_cond_wait",
        "Commit_stage_manager::enroll_for",
        "MYSQL_BIN_LOG::ordered_commit",
        "dispatch_command",
    ];
    committing(30.0)
        .counter("Com_update", changes_per_s)
        .only_snapshots(&[(1, ThreadState::DiskWrite, WRITES), (9, Condition, QUEUES)])
        .window()
}

#[test]
fn a_write_of_a_commit_that_does_not_end_is_named_though_other_storage_answers() {
    let Outcome::Fired(finding) = evaluate(&frozen_log(0.0)) else { panic!() };
    assert!(finding.headline.contains("one I/O of a commit has stood for"), "{}", finding.headline);
    assert!(finding.score > 0.9, "{}", finding.score);
    // Commits that end one after the other stand in the same functions.
    assert_eq!(evaluate(&frozen_log(5.0)), Outcome::Clear);
}

#[test]
fn a_thread_that_moves_between_snapshots_stands_in_no_single_io() {
    let longest_s = |is_unmoved: fn(ThreadState) -> bool| {
        let mut window = committing(0.0).window();
        let spindoctor_model::Reading::Available { value: profile, .. } = &mut window.profile else {
            panic!()
        };
        profile.observations.iter_mut().for_each(|one| one.unmoved = is_unmoved(one.state));
        OneIo::longest_of_all(&window).seconds
    };
    assert_eq!(longest_s(|_| true), 9.5);
    assert_eq!(longest_s(|state| state != Sync), 0.0);
    // The source does not know.
    assert_eq!(longest_s(|_| false), 9.5);
}

/// Four statements that read or write a file of which InnoDB counts nothing, while InnoDB has hardly anything to do; of their threads some
/// have not moved since the snapshot before, and those of idle sessions never have where the source knows it.
fn of_another_file(
    state: ThreadState,
    names: &[&str],
    is_known: bool,
    is_unmoved: fn(u32) -> bool,
) -> Window {
    const IDLE: &[&str] = &["poll", "vio_io_wait", "net_read_packet", "do_command"];
    let mut window = super::measured::OF_INNODB
        .iter()
        .chain(&CHANGES)
        .fold(Build::busy("10.11.19-MariaDB"), |build, name| build.counter(name, 0.1))
        .only_snapshots(&[(4, state, names), (2, ThreadState::NetworkIdle, IDLE)])
        .window();
    let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
    for one in &mut profile.observations {
        one.unmoved = is_known && one.snapshot > 0 && (one.thread >= 4 || is_unmoved(one.snapshot));
    }
    window
}

#[test]
fn ios_of_files_that_no_counter_has_are_a_hang_where_one_of_them_stands_for_a_second() {
    let scan: &[&str] =
        &["pread64", "my_pread", "_mi_read_rnd_static_record", "handler::ha_rnd_next", "dispatch_command"];
    let rocks: &[&str] =
        &["pread64", "rocksdb::PosixRandomAccessFile::Read", "handler::ha_rnd_next", "dispatch_command"];
    let sort: &[&str] =
        &["write", "my_write", "my_b_flush_io_cache", "merge_many_buff", "filesort", "dispatch_command"];
    let opens: &[&str] = &["__libc_open64", "my_open", "open_table_def", "open_tables", "dispatch_command"];
    let closes: &[&str] = &["__close_nocancel", "my_close", "close_thread_tables", "dispatch_command"];
    let of_innodb: &[&str] =
        &["pread64", "os_file_read_func", "buf_read_page", "row_search_mvcc", "dispatch_command"];
    let read = [scan, rocks, opens].map(|names| (ThreadState::DiskRead, names));
    let written = [sort, closes].map(|names| (ThreadState::DiskWrite, names));
    for (state, names) in read.into_iter().chain(written) {
        // Each snapshot sees another of many short I/Os.
        let many = of_another_file(state, names, true, |_| false);
        assert_eq!(evaluate(&many), Outcome::Clear, "{names:?}");
        assert!(!hangs(&many), "{names:?}");
        // A hang leaves its thread where it is, and so it looks where the source does not know.
        let hung = of_another_file(state, names, true, |_| true);
        assert!(matches!(evaluate(&hung), Outcome::Fired(_)) && hangs(&hung), "{names:?}");
        let unknown = of_another_file(state, names, false, |_| false);
        assert!(matches!(evaluate(&unknown), Outcome::Fired(_)), "{names:?}");
    }
    // What InnoDB ends is counted, so that its threads may move: a sync waits for many blocks.
    let counted = of_another_file(ThreadState::DiskRead, of_innodb, true, |_| false);
    assert!(matches!(evaluate(&counted), Outcome::Fired(_)));
}

#[test]
fn a_quiet_server_whose_thread_syncs_alone_is_clear() {
    let window = committing(0.2).only_snapshots(&[(1, Sync, SYNCS)]).window();
    assert_eq!(evaluate(&window), Outcome::Clear);
}

/// The sync stands for two seconds twice, and the disk ends nothing in the second half of each, or few of them.
fn in_turns(ended_meanwhile: u64) -> Window {
    use spindoctor_model::host::DiskStat;
    let mut window = committing(300.0)
        .counter("Com_update", 300.0)
        .variable("datadir", "/srv/db/")
        .each(|at_s, _, host| {
            let is_quiet = |second: u64| matches!(second, 3 | 8);
            let seconds = at_s as u64;
            let writes: u64 =
                (0..seconds).map(|second| if is_quiet(second) { ended_meanwhile } else { 400 }).sum();
            let disk = |name: &str, writes, in_flight| DiskStat {
                name: name.into(),
                writes,
                in_flight,
                ..DiskStat::default()
            };
            // Another disk is at rest, and its counter of what is under way got stuck.
            let disks = vec![disk("sda", 7000, 1), disk("sdb", writes, u64::from(matches!(seconds, 4 | 9)))];
            host.disks = crate::testing::answer(at_s, disks);
        })
        .window();
    let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
    for one in profile.observations.iter_mut().filter(|one| one.state == Sync) {
        // Snapshots are taken each half second: from 2.5 to 4.5 s, and from 7.5 to 9.5 s.
        if !matches!(one.snapshot, 5..=9 | 15..=19) {
            one.state = ThreadState::Running;
        }
    }
    window
}

#[test]
fn storage_that_hangs_in_turns_and_is_quick_between_is_named_with_how_often_and_how_long() {
    let window = in_turns(0);
    let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
    assert!(
        finding.headline.starts_with(
            "Storage hangs in turns: 2 times in 10 s an I/O stood for a second or more, 2.0 s at the longest and 4.0 s in all"
        ),
        "{}",
        finding.headline
    );
    assert!(
        finding.why.starts_with("sdb, most likely the disk of the server's files, below /srv/db/"),
        "{}",
        finding.why
    );
    assert!(finding.explains.iter().any(|cause| cause == commit_sync_bound::CAUSE.name));
    assert!((finding.score - 0.5).abs() < 0.01, "ten of twenty snapshots: {}", finding.score);
    assert!(hangs(&window));
}

#[test]
fn long_ios_of_a_disk_that_ends_others_meanwhile_are_no_hang() {
    let window = in_turns(20);
    assert_eq!(evaluate(&window), Outcome::Clear);
    assert!(!hangs(&window));
}

/// The same where the file system is frozen or the control group limited: nothing comes to the disk, and the server's own I/Os stop. So
/// much of the time the disk is busy meanwhile.
fn held_in_turns(busy_then: f64, disk: Option<&'static str>) -> Window {
    use crate::disk_users::tests::{data_on, disks};
    let is_quiet = |second: u64| matches!(second, 3 | 4 | 8 | 9);
    let over = |at_s: f64, quiet: f64, other: f64| -> f64 {
        (0..at_s as u64).map(|second| if is_quiet(second) { quiet } else { other }).sum()
    };
    let build = disks(data_on(committing(0.0), disk), (0.0, 1.0), &[("sdb", 0.0, 2.0)]);
    let mut window = build
        .each(|at_s, server, host| {
            let Reading::Available { value: status, .. } = &mut server.status else { panic!() };
            for name in super::measured::OF_INNODB {
                status.insert(name, format!("{:.0}", over(at_s, 1.0, 200.0)));
            }
            status.insert("Com_update", format!("{:.0}", over(at_s, 1.0, 200.0)));
            let Reading::Available { value: disks, .. } = &mut host.disks else { panic!() };
            // Others on it go on.
            disks[0].writes = over(at_s, 12.0, 400.0) as u64;
            disks[0].busy_us = (over(at_s, busy_then, 0.9) * 1e6) as u64;
        })
        .window();
    let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
    for one in profile.observations.iter_mut().filter(|one| one.state == Sync) {
        if !matches!(one.snapshot, 6..=9 | 16..=19) {
            one.state = ThreadState::Running;
        }
        one.unmoved = matches!(one.snapshot, 7..=9 | 17..=19);
    }
    window
}

/// The same with another profile.
fn held_with(change: impl FnOnce(&mut spindoctor_model::Profile)) -> Outcome {
    let mut window = held_in_turns(0.05, Some("sdb"));
    let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
    change(profile);
    evaluate(&window)
}

#[test]
fn an_io_that_may_be_many_short_ones_is_not_held_above_a_disk_that_is_at_rest() {
    assert!(matches!(held_with(|_| ()), Outcome::Fired(_)));
    // Its thread ran between the snapshots, or the source does not know.
    let moved = held_with(|profile| profile.observations.iter_mut().for_each(|one| one.unmoved = false));
    assert_eq!(moved, Outcome::Clear);
    // A sync that wakes its thread once is one, too.
    let woken = held_with(|profile| {
        profile.observations.iter_mut().for_each(|one| one.unmoved &= !matches!(one.snapshot, 7 | 17));
    });
    assert!(matches!(woken, Outcome::Fired(_)));
}

#[test]
fn an_io_of_another_file_says_nothing_of_the_disk_of_the_servers_own() {
    let below = |caller: &str| {
        held_with(|profile| {
            profile.frames[1].name = "my_sync".into();
            profile.frames[2].name = caller.into();
        })
    };
    assert_eq!(below("File_query_log::write_slow"), Outcome::Clear);
    assert!(matches!(below("MYSQL_BIN_LOG::sync_binlog_file"), Outcome::Fired(_)));
}

/// Seen of a disk that a control group limits to twenty writes a second: each step is some I/Os of the server, and few end.
#[test]
fn a_file_that_is_made_larger_and_what_waits_behind_it_are_no_hang_of_a_disk_that_is_at_rest() {
    for function in
        ["Fil_shard::space_extend", "fil_space_extend", "os_file_set_size", "__GI_posix_fallocate64"]
    {
        assert_eq!(
            held_with(|profile| profile.frames[2].name = function.into()),
            Outcome::Clear,
            "{function}"
        );
    }
    let beside = |snapshots: fn(u32) -> bool| {
        held_with(|profile| {
            profile.frames[3].name = "fil_space_extend".into();
            for one in
                profile.observations.iter_mut().filter(|one| one.thread == 1 && snapshots(one.snapshot))
            {
                one.state = ThreadState::DiskWrite;
            }
        })
    };
    assert_eq!(beside(|at| matches!(at, 6..=9 | 16..=19)), Outcome::Clear);
    // It began to be made larger when the I/O stood already for a second.
    assert!(matches!(beside(|at| matches!(at, 9 | 19)), Outcome::Fired(_)));
}

#[test]
fn what_holds_the_servers_io_above_a_disk_that_is_at_rest_is_found_in_turns() {
    let Outcome::Fired(finding) = evaluate(&held_in_turns(0.05, Some("sdb"))) else { panic!() };
    assert!(finding.headline.starts_with("Storage hangs in turns: 2 times in 10 s"), "{}", finding.headline);
    assert!(
        finding.why.starts_with("sdb, the disk of the server's files, below /srv/db/, was at rest for 4 s"),
        "{}",
        finding.why
    );
    assert!(finding.evidence.iter().any(|one| one.reading == "time that sdb, below /srv/db/, is busy"));
    // The disk works: it is one large write that others wait for.
    assert_eq!(evaluate(&held_in_turns(0.95, Some("sdb"))), Outcome::Clear);
    // Where the disk is unknown nobody can say that it was at rest.
    assert_eq!(evaluate(&held_in_turns(0.05, None)), Outcome::Clear);
}
