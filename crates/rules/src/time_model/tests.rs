//! Accounts of windows by lists, by stacks, and by both with the clocks of the kernel.

use spindoctor_model::host::{ProcessStat, ThreadStat};
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Finding, Reading, Severity};

use super::*;
use crate::causes::unnamed_wait;
use crate::diagnose;
use crate::testing::{Build, session};

/// Sessions in a state in each list, and nothing of the host.
fn listed(count: u64, state: &'static str) -> Window {
    let sessions = move |_| (0..count).map(|at| session(20 + at, "Query", state, "SELECT 1")).collect();
    Build::busy("8.0.36").sessions(sessions).remote().without_profile().window()
}

fn shares(window: &Window) -> Vec<(TimeClass, f64)> {
    let time = session_time(window).unwrap();
    time.classes.iter().map(|one| (one.class, (one.share * 100.0).round())).collect()
}

fn unnamed_wait(window: &Window) -> Option<Finding> {
    diagnose(window).findings.into_iter().find(|finding| finding.cause == unnamed_wait::CAUSE.name)
}

#[test]
fn sessions_that_wait_are_never_met_with_silence() {
    for (state, class) in [
        ("User lock", TimeClass::UserLock),
        ("Waiting for table level lock", TimeClass::TableLock),
        ("Locked", TimeClass::TableLock),
        ("Waiting for semi-sync ACK from replica", TimeClass::SemiSync),
        ("wsrep: replicating and certifying write set", TimeClass::Galera),
        ("Waiting for something unheard of", TimeClass::Other),
    ] {
        let window = listed(40, state);
        assert_eq!(shares(&window), [(class, 100.0)]);
        let findings = diagnose(&window).findings;
        assert_eq!(findings[0].severity, Severity::Critical, "{state}: {findings:#?}");
        assert!((findings[0].score - 1.0).abs() < 1e-6, "{state}");
    }
    let finding = unnamed_wait(&listed(40, "Waiting for something unheard of")).unwrap();
    assert!(finding.why.contains("Waiting for something unheard of"), "{}", finding.why);
}

#[test]
fn every_metadata_lock_is_one_whatever_it_is_of() {
    for state in [
        "Waiting for event metadata lock",
        "Waiting for foreign key metadata lock",
        "Waiting for check constraint metadata lock",
        "Waiting for spatial reference system metadata lock",
    ] {
        let window = listed(40, state);
        assert_eq!(shares(&window), [(TimeClass::MetadataLock, 100.0)], "{state}");
        assert_eq!(diagnose(&window).findings[0].cause, "metadata-lock-pileup", "{state}");
    }
}

#[test]
fn commits_that_wait_for_the_agreement_of_a_group_are_named_by_its_clock() {
    let of = |seconds_per_s: f64| {
        let build = Build::waiting(8, "waiting for handler commit");
        let window = build.counter("Gr_data_messages_sent_roundtrip_time_sum", seconds_per_s * 1e6);
        shares(&window.window())
    };
    assert_eq!(of(6.0), [(TimeClass::GroupReplication, 75.0), (TimeClass::Commit, 25.0)]);
    assert_eq!(of(9.0), [(TimeClass::GroupReplication, 100.0)], "no more than commit");
    assert_eq!(of(0.0), [(TimeClass::Commit, 100.0)]);
}

#[test]
fn sessions_that_the_list_calls_running_get_a_note_where_no_clock_says_whether_they_do() {
    let finding = unnamed_wait(&listed(40, "statistics")).unwrap();
    assert_eq!(finding.severity, Severity::Note);
    assert!(finding.why.contains("Whether these sessions work or wait"), "{}", finding.why);
    assert_eq!(unnamed_wait(&listed(3, "statistics")), None);
}

#[test]
fn a_note_explains_no_wait() {
    let time = session_time(&listed(40, "Waiting for global read lock")).unwrap();
    let mut finding = diagnose(&listed(40, "Waiting for global read lock")).findings.remove(0);
    assert_eq!(unnamed(&time, std::slice::from_ref(&finding)), 0.0);
    finding.severity = Severity::Note;
    assert_eq!(unnamed(&time, &[finding]), 1.0);
}

#[test]
fn what_a_rule_explains_is_not_without_a_name() {
    let window = listed(40, "Waiting for global read lock");
    let diagnosis = diagnose(&window);
    let causes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
    assert_eq!(causes, ["global-lock-pileup"]);
    assert_eq!(diagnosis.time.unwrap().unnamed, 0.0);
}

#[test]
fn who_sleeps_on_purpose_is_not_at_work() {
    let window = listed(40, "User sleep");
    let time = session_time(&window).unwrap();
    assert_eq!((time.session_seconds_per_second, time.sleeping), (0.0, 40.0));
    assert_eq!(time.classes, []);
    assert_eq!(unnamed_wait(&window), None);
}

#[test]
fn a_change_whose_trigger_sleeps_is_at_work_for_its_client() {
    let sessions =
        |_| (0..40).map(|at| session(20 + at, "Query", "User sleep", "UPDATE t SET k = 1")).collect();
    let by_list = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
    let by_stack = Build::busy("8.0.36")
        .sessions(|_| {
            (0..40).map(|at| session(400 + at, "Query", "User sleep", "UPDATE t SET k = 1")).collect()
        })
        .only_snapshots(&[
            (
                40,
                ThreadState::Condition,
                &["Interruptible_wait::wait", "Item_func_sleep::val_int", "dispatch_command", "do_command"],
            ),
            (10, ThreadState::NetworkIdle, &["vio_read", "do_command"]),
        ])
        .window();
    for window in [by_list, by_stack] {
        let time = session_time(&window).unwrap();
        assert_eq!((time.session_seconds_per_second, time.sleeping), (40.0, 0.0));
        let finding = unnamed_wait(&window).unwrap();
        assert!(finding.headline.contains("sessions sleep in a trigger"), "{finding:#?}");
    }
}

#[test]
fn one_session_that_waits_now_and_then_is_no_finding() {
    let sessions = |at: usize| {
        let state = if at == 3 { "User lock" } else { "executing" };
        vec![session(20, "Query", state, "SELECT 1"), session(21, "Query", "executing", "SELECT 1")]
    };
    let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
    assert_eq!(unnamed_wait(&window), None);
}

#[test]
fn a_list_that_says_running_is_believed_as_far_as_the_clocks_agree() {
    // Sixteen sessions execute, says the list; their threads (4311 to 4326) ran half a CPU, and queued for another.
    let sessions = |_| (0..16).map(|at| session(311 + at, "Query", "statistics", "SELECT 1")).collect();
    let window = Build::busy("8.0.36").counter("Innodb_row_lock_time", 0.0).sessions(sessions);
    let window = window.runs(0.8, 0.8).host_cpu(0.8, 3.2).without_profile().window();
    assert_eq!(
        shares(&window),
        [(TimeClass::Other, 90.0), (TimeClass::Cpu, 5.0), (TimeClass::CpuQueue, 5.0)]
    );
    let finding = unnamed_wait(&window).unwrap();
    assert!(finding.why.contains("statistics"), "{}", finding.why);
    // A state that a session keeps while it goes on is where the clocks say that it ran.
    let sessions = |_| (0..16).map(|at| session(311 + at, "Query", "closing tables", "SELECT 1")).collect();
    let window = Build::busy("8.0.36").sessions(sessions).runs(1.6, 14.4).host_cpu(1.6, 2.4);
    let window = window.without_profile().window();
    assert_eq!(shares(&window), [(TimeClass::CpuQueue, 90.0), (TimeClass::Cpu, 10.0)]);
}

#[test]
fn what_keeps_threads_off_the_cpus_is_distinguished() {
    let busy = || {
        let sessions = |_| (0..16).map(|at| session(311 + at, "Query", "executing", "SELECT 1")).collect();
        // Without threads of the log no commit spins under a quota.
        let build = Build::busy("8.0.36").variable("innodb_log_writer_threads", "OFF");
        build.sessions(sessions).without_profile()
    };
    let own = busy().runs(4.0, 12.0).host_cpu(4.0, 0.0).window();
    assert_eq!(shares(&own), [(TimeClass::CpuQueue, 75.0), (TimeClass::Cpu, 25.0)]);
    let beside_others = busy().runs(1.0, 15.0).host_cpu(4.0, 0.0).window();
    assert_eq!(
        shares(&beside_others),
        [(TimeClass::CpuTaken, 70.0), (TimeClass::CpuQueue, 23.0), (TimeClass::Cpu, 6.0)]
    );
    // Half of each period is over when the quota of two CPUs is used up on four; then all sixteen wait.
    let stopped = busy().quota(2.0, 4).throttled(100.0, 20.0).runs(2.0, 14.0).host_cpu(2.0, 2.0).window();
    assert_eq!(
        shares(&stopped),
        [(TimeClass::CpuQuota, 50.0), (TimeClass::CpuQueue, 38.0), (TimeClass::Cpu, 13.0)]
    );
    let findings = diagnose(&stopped).findings;
    assert_eq!(findings[0].cause, "cpu-throttled");
    assert!((findings[0].score - 0.5).abs() < 0.01, "{findings:#?}");
    // Both: each has its own part.
    let both = busy().quota(2.0, 4).throttled(100.0, 20.0).runs(1.0, 15.0).host_cpu(4.0, 0.0).window();
    let found: Vec<(String, f64)> =
        diagnose(&both).findings.into_iter().map(|one| (one.cause, (one.score * 100.0).round())).collect();
    assert_eq!(found[..2], [("cpu-throttled".into(), 50.0), ("noisy-neighbour".into(), 33.0)]);
}

/// Some of sixteen wait for a sync, and a quota stops the others for half of each period.
#[test]
fn of_a_quota_and_commits_the_larger_share_comes_first() {
    let first = |committing: u64| {
        let sessions = move |_| {
            let state = |at| if at < committing { "waiting for handler commit" } else { "executing" };
            (0..16).map(|at| session(311 + at, "Query", state(at), "UPDATE t SET a = 1")).collect()
        };
        let ready = (16 - committing) as f64;
        let window = Build::busy("8.0.36")
            .variable("innodb_log_writer_threads", "OFF")
            .counter("Innodb_os_log_fsyncs", 180.0)
            .file_wait("wait/io/file/innodb/innodb_log_file", 360.0, 2400.0)
            .sessions(sessions)
            .without_profile()
            .quota(2.0, 4)
            .throttled(100.0, 20.0)
            .runs(2.0_f64.min(ready), (ready - 2.0).max(0.0))
            .host_cpu(2.0, 2.0);
        let findings = diagnose(&window.window()).findings;
        let place = |cause: &str| findings.iter().position(|finding| finding.cause == cause);
        (place("cpu-throttled"), place("commit-sync-bound"))
    };
    assert_eq!(first(6), (Some(0), Some(1)));
    assert_eq!(first(13), (Some(1), Some(0)));
}

#[test]
fn a_list_that_sees_few_sessions_work_on_full_cpus_does_not_hide_those_that_wait_for_one() {
    let sessions = |_| {
        let state = |at| if at < 5 { "Query" } else { "Sleep" };
        (0..16).map(|at| session(311 + at, state(at), "", "SELECT 1")).collect()
    };
    let window = Build::busy("8.0.36").sessions(sessions).runs(1.6, 11.2).without_profile().window();
    let time = session_time(&window).unwrap();
    assert!((time.session_seconds_per_second - 12.8).abs() < 0.1, "{time:?}");
}

#[test]
fn a_statement_that_has_come_and_waits_for_a_cpu_to_be_read_is_at_work() {
    let window = Build::busy("8.0.36")
        .only_snapshots(&[
            (12, ThreadState::Runnable, &["vio_read", "do_command"]),
            (1, ThreadState::DiskRead, &["pread64", "dispatch_command", "do_command"]),
            (30, ThreadState::NetworkIdle, &["vio_read", "do_command"]),
        ])
        .remote()
        .window();
    assert_eq!(session_time(&window).unwrap().session_seconds_per_second, 13.0);
}

#[test]
fn no_more_sessions_are_at_work_than_there_are() {
    // Each of sixteen threads (4400 to 4415) waits in every snapshot, and the clocks have twelve of them in the CPUs' queue.
    let waits: &[&str] = &["thr_lock", "dispatch_command", "do_command"];
    let window = Build::busy("8.0.36").host_cpu(0.0, 4.0).only_snapshots(&[(16, ThreadState::Lock, waits)]);
    let window = window.each(|at_s, _, host| {
        let thread = |tid| ThreadStat { tid, run_queue_ns: (at_s * 0.75e9) as u64, ..ThreadStat::default() };
        host.threads = Reading::Available { at_s, took_ms: 1.0, value: (4400..4416).map(thread).collect() };
    });
    assert_eq!(shares(&window.window()), [(TimeClass::CpuQueue, 75.0), (TimeClass::TableLock, 25.0)]);
}

#[test]
fn in_a_stall_of_a_recording_the_servers_clock_says_how_many_of_the_runnable_threads_ran() {
    // Of twelve that the snapshots show runnable three have a CPU; no thread's clock was read twice.
    let reads: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];
    let recorded = |threads: &[(u32, ThreadState, &[&str])]| {
        let sessions = |_| (0..16).map(|at| session(311 + at, "Query", "executing", "SELECT 1")).collect();
        let build = Build::busy("8.0.36").sessions(sessions).host_cpu(3.0, 0.0).only_snapshots(threads);
        let build = build.each(|at_s, _, host| {
            host.threads = Reading::NotAsked;
            let value = ProcessStat { user_us: (3.0 * at_s * 1e6) as u64, ..ProcessStat::default() };
            host.process = Reading::Available { at_s, took_ms: 1.0, value };
        });
        build.window()
    };
    let runnable =
        [(12, ThreadState::Runnable, reads), (4, ThreadState::Lock, &["thr_lock", "dispatch_command"][..])];
    let window = recorded(&runnable);
    assert_eq!(
        shares(&window),
        [(TimeClass::CpuQueue, 56.0), (TimeClass::TableLock, 25.0), (TimeClass::Cpu, 19.0)]
    );
    let all = recorded(&[(32, ThreadState::Runnable, reads)]);
    let findings = diagnose(&all).findings;
    assert_eq!(findings[0].cause, "cpu-saturated", "{findings:#?}");
    assert!(!findings.iter().any(|finding| finding.cause == unnamed_wait::CAUSE.name), "{findings:#?}");
}

#[test]
fn who_waits_for_a_page_that_is_being_written_waits_for_the_disk() {
    const WAITS: &[&str] = &[
        "os_event::wait_low",
        "sync_array_wait_event",
        "rw_lock_x_lock_func",
        "Buf_fetch::single_page",
        "buf_page_get_gen",
        "row_upd_step",
        "dispatch_command",
        "do_command",
    ];
    const WRITES: &[&str] =
        &["io_submit", "Fil_shard::do_io", "Double_write::write_to_datafile", "Double_write::flush_to_disk"];
    const OTHER: &[&str] = &["sync_array_wait_event", "rw_lock_sx_lock_func", "btr_cur_search_to_nth_level"];
    let latch_of_index = [OTHER, &["dispatch_command", "do_command"][..]].concat();
    let of = |waits: &[&str], writes| {
        let threads = [(10, ThreadState::Lock, waits), (1, writes, WRITES)];
        shares(&Build::busy("8.0.36").remote().only_snapshots(&threads).window())
    };
    assert_eq!(of(WAITS, ThreadState::DiskWrite), [(TimeClass::Write, 100.0)]);
    // Nothing is being written, or it is no page that they wait for.
    assert_eq!(of(WAITS, ThreadState::Condition), [(TimeClass::Latch, 100.0)]);
    assert_eq!(of(&latch_of_index, ThreadState::DiskWrite), [(TimeClass::Latch, 100.0)]);
    // Who is at the latch in one snapshot and gone in the next waits for a page that many want, while one goes on that may have
    // it; with none the page can only be with who writes, however far apart the snapshots are.
    let of_the_moment = |others: &[(u32, ThreadState, &[&str])]| {
        let threads = [&[(10, ThreadState::Lock, WAITS), (1, ThreadState::Sync, WRITES)], others].concat();
        let mut window = Build::busy("8.0.36").remote().only_snapshots(&threads).window();
        if let Reading::Available { value: profile, .. } = &mut window.profile {
            profile.observations.retain(|seen| seen.thread >= 10 || seen.snapshot % 2 == seen.thread % 2);
        }
        shares(&window)
    };
    let going_on: &[&str] = &["row_upd_step", "dispatch_command", "do_command"];
    assert_eq!(of_the_moment(&[]), [(TimeClass::Write, 100.0)]);
    let waits = |shares: &[(TimeClass, f64)]| shares.iter().map(|(class, _)| *class).collect::<Vec<_>>();
    for state in [ThreadState::Running, ThreadState::Runnable, ThreadState::DiskRead] {
        let shares = of_the_moment(&[(1, state, going_on)]);
        assert!(waits(&shares).contains(&TimeClass::Latch), "{state:?}: {shares:?}");
        assert!(!waits(&shares).contains(&TimeClass::Write), "{state:?}: {shares:?}");
    }
    // And where no other cause of the disk says so, it has one of its own: never silence.
    let window = Build::busy("8.0.36")
        .only_snapshots(&[(10, ThreadState::Lock, WAITS), (1, ThreadState::DiskWrite, WRITES)]);
    let findings = crate::diagnose(&window.window()).findings;
    let causes: Vec<_> = findings.iter().map(|finding| finding.cause.as_str()).collect();
    assert_eq!(causes, [crate::causes::write_io_bound::CAUSE.name]);
    let seen = |one: &spindoctor_model::Evidence| {
        format!("{:?}", one.value).contains("a page that is being written")
    };
    assert!(findings[0].evidence.iter().any(seen), "{findings:#?}");
}

#[test]
fn an_event_is_a_session_at_work_and_who_logs_in_another() {
    let of = |thread: ServerThread| {
        let sessions =
            move |_| (4..8).map(|id| ServerThread { connection_id: Some(id), ..thread.clone() }).collect();
        shares(&Build::busy("8.0.36").remote().without_profile().sessions(sessions).window())
    };
    let event = session(4, "Connect", "Waiting for table metadata lock", "SELECT COUNT(*) FROM t");
    assert_eq!(of(event), [(TimeClass::MetadataLock, 100.0)]);
    assert_eq!(of(session(4, "Connect", "login", "")), [(TimeClass::Login, 100.0)]);
    let at_work = &["row_search_mvcc", "Event_job_data::execute", "Event_worker_thread::run"];
    let window = Build::busy("8.0.36").remote().only_snapshots(&[(12, ThreadState::Lock, at_work)]);
    assert_eq!(session_time(&window.window()).unwrap().session_seconds_per_second.round(), 12.0);
}

#[test]
fn waits_in_an_engine_without_names_are_row_locks_as_far_as_innodb_counts_them() {
    const STANDS: &[&str] =
        &["mariadbd+0x12", "handler::ha_index_read_map", "dispatch_command", "do_command"];
    let window = |waited_ms_per_s| {
        let window = Build::busy("10.11.8-MariaDB")
            .counter("Innodb_row_lock_waits", 20.0)
            .counter("Innodb_row_lock_time", waited_ms_per_s)
            .sessions(|_| Vec::new())
            .remote();
        window.only_snapshots(&[(4, ThreadState::Lock, STANDS)]).window()
    };
    let of = |waited_ms_per_s| shares(&window(waited_ms_per_s));
    assert_eq!(of(3000.0), [(TimeClass::RowLock, 75.0), (TimeClass::Other, 25.0)]);
    assert_eq!(of(9000.0), [(TimeClass::RowLock, 100.0)]);
    assert_eq!(of(0.0), [(TimeClass::Other, 100.0)]);
    // No list and no stack says it of a session.
    assert_eq!(session_time(&window(9000.0)).unwrap().classes[0].known_by, KnownBy::Inferred);
}

#[test]
fn stacks_decide_where_there_are_any() {
    let window = Build::busy("8.0.36")
        .sessions(|_| (0..40).map(|at| session(400 + at, "Query", "updating", "UPDATE t")).collect())
        .only_snapshots(&[
            (30, ThreadState::Lock, &["thr_lock", "mysql_lock_tables", "dispatch_command", "do_command"]),
            (10, ThreadState::Condition, &["Item_func_sleep::val_int", "dispatch_command", "do_command"]),
            (50, ThreadState::NetworkIdle, &["vio_read", "do_command"]),
            (5, ThreadState::Condition, &["os_event::wait_low", "srv_worker_thread"]),
        ])
        .window();
    let time = session_time(&window).unwrap();
    // Of the forty that are listed, the stacks say that ten sleep.
    assert_eq!(time.sleeping, 10.0);
    assert_eq!(time.classes[0].class, TimeClass::TableLock);
    assert_eq!(time.classes[0].seen[0].0, "thr_lock < mysql_lock_tables < dispatch_command");
    assert!(time.classes[0].share > 0.9, "{time:?}");
}

#[test]
fn a_lock_of_the_whole_server_is_none_of_a_table_where_no_list_names_the_thread_or_is_near() {
    const STANDS: &[&str] = &[
        "MDL_wait::timed_wait",
        "MDL_context::acquire_lock",
        "open_table",
        "dispatch_command",
        "do_command",
    ];
    let classes = |states: &'static [&'static str], has_threads: bool, every: usize| {
        let sessions = move |at: usize| {
            let of = |(at, state): (u64, &&str)| ServerThread {
                // The threads of the snapshots are 4400 and those that follow.
                thread_os_id: has_threads.then_some(4400 + at),
                ..session(20 + at, "Query", state, "UPDATE t SET a = 1")
            };
            if at.is_multiple_of(every) { (0..).zip(states).map(of).collect() } else { Vec::new() }
        };
        let threads = [(states.len() as u32, ThreadState::Lock, STANDS)];
        shares(&Build::busy("5.6.14").remote().sessions(sessions).only_snapshots(&threads).window())
    };
    const GLOBAL: &[&str] = &["Waiting for global read lock"; 4];
    const TABLE: &[&str] = &["Waiting for table metadata lock"; 4];
    assert_eq!(classes(GLOBAL, false, 1), [(TimeClass::GlobalLock, 100.0)]);
    assert_eq!(classes(TABLE, false, 1), [(TimeClass::MetadataLock, 100.0)]);
    // A list in three seconds.
    assert_eq!(classes(GLOBAL, true, 3), [(TimeClass::GlobalLock, 100.0)]);
    const MIXED: &[&str] = &["Waiting for commit lock", "Waiting for table metadata lock"];
    assert_eq!(classes(MIXED, true, 3), [(TimeClass::MetadataLock, 50.0), (TimeClass::GlobalLock, 50.0)]);
}

#[test]
fn a_server_at_its_best_has_an_account_and_no_finding() {
    let window = Build::busy("8.0.36").window();
    assert!(session_time(&window).is_some());
    assert_eq!(unnamed_wait(&window), None);
}

#[test]
fn without_lists_and_stacks_there_is_no_account() {
    let window = Build::busy("8.0.36").remote().without_profile();
    let window = window.each(|_, server, _| server.threads = Reading::NotAsked).window();
    assert_eq!(session_time(&window), None);
}
