//! Redo logs that are filled at different rates, and how old the checkpoint is.

use spindoctor_model::Reading;
use spindoctor_model::mysql::InnodbMetric;
use spindoctor_model::stack::ThreadState;

use super::*;
use crate::testing::{Build, answer};

/// 100 MiB of redo log, 8 MB of redo a second.
pub(crate) fn fires() -> Window {
    Build::busy("8.0.36").lsn(1e9, 84e6, 8e6).window()
}

/// The same age on a server that hardly writes.
pub(crate) fn near_miss() -> Window {
    Build::busy("8.0.36").lsn(1e9, 84e6, 50e3).window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
}

fn found(window: &Window) -> Finding {
    match evaluate(window) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

/// A sawtooth whose teeth are shorter than a second: looked at in between, it is at three quarters of the limit.
fn between_two_stops() -> Build {
    Build::busy("9.7.4").lsn(1e9, 65e6, 8e6)
}

#[test]
fn a_log_is_never_advised_larger_than_the_buffer_pool_and_a_mean_below_its_bound_is_no_evidence() {
    // 10.6 MB of redo a second would take 38 GB for an hour; the host has 24 GiB, the pool 12.
    let maria = |pool: &str| {
        Build::busy("11.4.10-MariaDB")
            .lsn(1e9, 84e6, 10.6e6)
            .gauge("Innodb_checkpoint_age", 84e6)
            .gauge("Innodb_checkpoint_max_age", 90e6)
            .counter("Innodb_lsn_current", 10.6e6)
            .variable("innodb_log_file_size", "100663296")
            .variable("innodb_buffer_pool_size", pool)
            .window()
    };
    let statement = |pool| found(&maria(pool)).remedies[0].statement.clone();
    assert_eq!(statement("12884901888"), "SET GLOBAL innodb_log_file_size = 12884901888");
    assert_eq!(statement("134217728"), "SET GLOBAL innodb_log_file_size = 1073741824");
    let below = found(&between_two_stops().snapshots(&[(6, ThreadState::Sleep, WAITS)]).window());
    assert!(below.headline.contains("up to "), "{}", below.headline);
    assert!(below.evidence[0].expected.is_empty(), "{:?}", below.evidence[0]);
}

const WAITS: &[&str] = &[
    "clock_nanosleep",
    "log_free_check_wait",
    "row_upd",
    "row_update_for_mysql",
    "ha_innobase::update_row",
    "dispatch_command",
];

#[test]
fn sessions_that_wait_for_room_are_a_stall_however_old_the_checkpoint_is() {
    assert_eq!(evaluate(&between_two_stops().window()), Outcome::Clear);
    let waiting = |sessions| {
        let threads = [(sessions, ThreadState::Sleep, WAITS)];
        between_two_stops().snapshots(&threads).window()
    };
    let finding = found(&waiting(6));
    assert_eq!(finding.score, 0.75, "six of eight");
    assert!(finding.headline.contains("runs full again and again"), "{}", finding.headline);
    // One that waits now and then is no queue.
    assert_eq!(evaluate(&waiting(1)), Outcome::Clear);
    // A disk that answers nothing: nobody writes, so no log would be large enough.
    let threads = [(6, ThreadState::Sleep, WAITS)];
    let silent = Build::busy("9.7.4").lsn(1e9, 65e6, 5e3).snapshots(&threads).window();
    assert_eq!(evaluate(&silent), Outcome::Clear);
}

#[test]
fn a_log_that_is_nearly_full_is_a_note_while_sessions_wait_for_something_else() {
    use spindoctor_model::Severity::{Critical, Note};
    const COMMITS: &[&str] =
        &["pthread_cond_wait", "log_write_up_to", "trx_commit_complete_for_mysql", "dispatch_command"];
    const WRITER: &[&str] = &["clock_nanosleep", "log_writer_wait_on_checkpoint", "log_writer"];
    let severity = |age: f64, beside: &[(u32, ThreadState, &[&str])]| {
        let commits: (u32, ThreadState, &[&str]) = (10, ThreadState::Condition, COMMITS);
        let threads = [&[commits][..], beside].concat();
        found(&Build::busy("8.0.36").lsn(1e9, age, 8e6).snapshots(&threads).window()).severity
    };
    assert_eq!(severity(78e6, &[]), Note);
    // One is seen that waits for room, or the log's own thread does.
    assert_eq!(severity(78e6, &[(1, ThreadState::Sleep, WAITS)]), Critical);
    assert_eq!(severity(78e6, &[(1, ThreadState::Sleep, WRITER)]), Critical);
    // At the limit everything old is flushed at once.
    assert_eq!(severity(88e6, &[]), Critical);
}

/// The log is too small, and who is not stopped by that fills the CPUs.
#[test]
fn full_cpus_stand_behind_a_log_that_stops_sessions() {
    let threads = [(6, ThreadState::Sleep, WAITS)];
    let window = between_two_stops().snapshots(&threads).runs(4.0, 8.0).host_cpu(4.0, 0.0).window();
    let causes: Vec<String> =
        crate::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
    assert_eq!(causes[0], CAUSE.name, "{causes:?}");
}

#[test]
fn sessions_that_wait_for_pages_of_a_hurried_page_cleaner_are_the_same_stall() {
    const WAITS: &[&str] =
        &["futex", "sync_array_wait_event", "rw_lock_x_lock_func", "buf_page_get_gen", "dispatch_command"];
    const FLUSHES: &[&str] = &["futex", "dblwr::write", "buf_flush_page", "buf_flush_do_batch"];
    let window = |redo_per_s, flushing| {
        let threads: [(u32, ThreadState, &[&str]); 2] =
            [(6, ThreadState::Lock, WAITS), (flushing, ThreadState::Condition, FLUSHES)];
        Build::busy("9.7.4")
            .lsn(1e9, 55e6, redo_per_s)
            .variable("innodb_flush_log_at_trx_commit", "2")
            .snapshots(&threads)
            .window()
    };
    let finding = found(&window(4e6, 1));
    assert_eq!(
        (finding.score, finding.explains.as_slice()),
        (0.75, ["commit-sync-bound".to_owned()].as_slice())
    );
    // They wait for one another's changes, or the log is large enough.
    assert_eq!(evaluate(&window(4e6, 0)), Outcome::Clear);
    assert_eq!(evaluate(&window(0.4e6, 1)), Outcome::Clear);
}

#[test]
fn stops_that_are_counted_again_and_again_are_a_stall_and_one_burst_is_none() {
    let counting = |count: fn(f64) -> f64| {
        between_two_stops()
            .each(move |at_s, server, _| {
                let metric = InnodbMetric { count: count(at_s), enabled: true };
                server.innodb_metrics = answer(at_s, [(STOPS.to_owned(), metric)].into());
            })
            .window()
    };
    // Every other second.
    let finding = found(&counting(|at_s| 100.0 + 32.0 * (at_s / 2.0).floor()));
    assert_eq!(finding.score, LOST_AT_LIMIT * 0.5);
    assert!(finding.evidence.iter().any(|evidence| evidence.reading == "stops counted"));
    assert_eq!(evaluate(&counting(|at_s| if at_s < 5.0 { 100.0 } else { 132.0 })), Outcome::Clear);
}

#[test]
fn room_for_an_hour_is_asked_for_in_whole_gigabytes() {
    let remedy = found(&fires()).remedies.remove(0);
    assert_eq!(remedy.statement, "SET GLOBAL innodb_redo_log_capacity = 28991029248");
    assert_eq!(remedy.undo, "SET GLOBAL innodb_redo_log_capacity = 104857600");
    assert!(remedy.dynamic);
}

#[test]
fn a_small_disk_bounds_what_is_asked_for() {
    let on = |free_bytes| {
        Build::busy("8.0.36")
            .lsn(1e9, 84e6, 8e6)
            .each(move |at_s, _, host| {
                let room = spindoctor_model::host::DataDirectory { free_bytes, ..Default::default() };
                host.data_directory = crate::testing::answer(at_s, room);
            })
            .window()
    };
    let asked = |free| found(&on(free)).remedies.remove(0).statement;
    assert_eq!(asked(1 << 40), "SET GLOBAL innodb_redo_log_capacity = 28991029248");
    assert_eq!(asked(2 << 30), "SET GLOBAL innodb_redo_log_capacity = 1140850688");
    assert_eq!(asked(1 << 20), "SET GLOBAL innodb_redo_log_capacity = 104857600");
}

#[test]
fn each_server_gets_the_variable_that_it_has() {
    let maria = |version| {
        Build::busy(version)
            .gauge("Innodb_checkpoint_age", 79e6)
            .counter("Innodb_os_log_written", 8e6)
            .window()
    };
    let new = found(&maria("10.11.19-MariaDB")).remedies.remove(0);
    assert!(new.dynamic && new.statement.starts_with("SET GLOBAL innodb_log_file_size"), "{}", new.statement);
    let old = found(&maria("10.6.12-MariaDB")).remedies.remove(0);
    assert!(!old.dynamic && old.statement.contains("restart"), "{}", old.statement);
}

/// One reading that somebody gave, of a log of 100 MiB.
fn one_reading(build: Build) -> Window {
    let mut window = build.remote().without_profile().window();
    let last = window.samples.len() - 1;
    window.samples.drain(..last);
    window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
    window
}

#[test]
fn one_reading_that_was_given_shows_a_full_log() {
    let at = |age: f64, free: f64| {
        one_reading(
            Build::busy("8.0.36")
                .lsn(1e9, age, 8e6)
                .gauge("Innodb_buffer_pool_pages_total", 65_528.0)
                .gauge("Innodb_buffer_pool_pages_free", free)
                .gauge("Innodb_buffer_pool_pages_dirty", 9_000.0)
                .gauge("Innodb_buffer_pool_wait_free", 0.0),
        )
    };
    let found = |age, free| of_capture(&at(age, free));
    let full = found(85e6, 4_000.0).expect("a finding");
    assert!(full.headline.starts_with("The redo log is full: 81.1 MiB since"), "{}", full.headline);
    assert_eq!(full.severity, spindoctor_model::Severity::Warning);
    // At 7/8 it is one where the pool has no free page, and else a note.
    assert_eq!(found(79e6, 8.0).map(|finding| finding.severity), Some(spindoctor_model::Severity::Warning));
    assert_eq!(found(79e6, 4_000.0).map(|finding| finding.severity), Some(spindoctor_model::Severity::Note));
    assert_eq!(found(50e6, 8.0), None);
    // A log of another size: no checkpoint is that old.
    assert_eq!(found(3e9, 8.0), None);
    // A live server has two readings.
    assert_eq!(of_capture(&Build::busy("8.0.36").lsn(1e9, 85e6, 50e3).window()), None);
}

#[test]
fn the_status_alone_says_how_full_the_log_is() {
    let of_version = |version: &str, files: Option<&'static str>, free_pages: u64| {
        let build = Build::busy(version).each(move |at_s, server, _| {
            let mut status = spindoctor_model::InnodbStatus::default();
            status.log.current_lsn = Some(5_000_000_000);
            status.log.checkpoint_lsn = Some(4_904_000_000);
            status.buffer_pool.pages = Some(65_528);
            status.buffer_pool.free_pages = Some(free_pages);
            server.innodb_status = answer(at_s, status);
            let mut variables = vec![("innodb_log_file_size", "100663296")];
            variables.extend(files.map(|files| ("innodb_log_files_in_group", files)));
            server.variables = answer(at_s, spindoctor_model::mysql::NamedValues::from_iter(variables));
            server.status = Reading::Unavailable(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            server.innodb_metrics =
                Reading::Unavailable(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        });
        of_capture(&one_reading(build))
    };
    let at = |files, free_pages| of_version("5.7.44", files, free_pages);
    let severity = |finding: Option<Finding>| finding.map(|finding| finding.severity);
    let unknown = at(None, 0).expect("a finding");
    assert!(unknown.why.contains("innodb_log_files_in_group"), "{}", unknown.why);
    assert_eq!(severity(Some(unknown)), Some(spindoctor_model::Severity::Warning));
    assert_eq!(severity(at(None, 9_000)), Some(spindoctor_model::Severity::Note), "there may be two files");
    assert_eq!(severity(at(Some("1"), 9_000)), Some(spindoctor_model::Severity::Warning));
    assert_eq!(at(Some("2"), 0), None);
    // No free page is usual to 5.5.
    assert_eq!(severity(of_version("5.5.62", None, 0)), Some(spindoctor_model::Severity::Note));
}

#[test]
fn the_log_section_of_percona_server_has_its_own_limit() {
    let build = Build::busy("5.6.30").each(|at_s, server, _| {
        let mut status = spindoctor_model::InnodbStatus::default();
        status.log.current_lsn = Some(5_000_000_000);
        status.log.checkpoint_lsn = Some(4_921_000_000);
        status.log.checkpoint_max_age_bytes = Some(80_576_000);
        server.innodb_status = answer(at_s, status);
        for reading in [&mut server.variables, &mut server.status] {
            *reading = Reading::Unavailable(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        }
        server.innodb_metrics =
            Reading::Unavailable(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
    });
    let found = of_capture(&one_reading(build)).expect("a finding");
    assert!(found.headline.contains("98 % of what is usable"), "{}", found.headline);
}

/// The metric says from which age on everything old is flushed: 15/16 of that is no such age.
#[test]
fn of_the_age_of_sync_flushing_no_sixteenth_is_taken_off_again() {
    let severity = |age: f64| {
        let build = Build::busy("8.0.20")
            .lsn(1e9, age, 8e6)
            .gauge("Innodb_buffer_pool_pages_total", 65_528.0)
            .gauge("Innodb_buffer_pool_pages_free", 4_000.0)
            .gauge("Innodb_buffer_pool_pages_dirty", 9_000.0)
            .gauge("Innodb_buffer_pool_wait_free", 0.0);
        let build = build.each(|at_s, server, _| {
            let metric = InnodbMetric { count: 80e6, enabled: true };
            server.innodb_metrics = answer(at_s, [("log_max_modified_age_sync".to_owned(), metric)].into());
        });
        of_capture(&one_reading(build)).map(|finding| finding.severity)
    };
    assert_eq!(severity(76e6), Some(spindoctor_model::Severity::Note));
    assert_eq!(severity(81e6), Some(spindoctor_model::Severity::Warning));
}
