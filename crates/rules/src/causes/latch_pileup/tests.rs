//! Waits that InnoDB's text prints, put together by hand.

use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait};

use super::*;
use crate::testing::{Build, answer};

fn wait(pthread_id: u64, holder: Option<u64>, waited_s: f64) -> SemaphoreWait {
    SemaphoreWait {
        pthread_id,
        holder_pthread_id: holder,
        waited_s,
        kind: SemaphoreKind::Exclusive,
        readers: Some(u64::from(holder.is_none())),
        held_mode: Some("exclusive".into()),
        created_file: "dict0dict.cc".into(),
        created_line: Some(1183),
        ..SemaphoreWait::default()
    }
}

fn waits(waiters: &[SemaphoreWait]) -> Window {
    let waiters = waiters.to_vec();
    Build::busy("5.7.40")
        .each(move |at_s, server, _| {
            let semaphores = Semaphores { waiters: waiters.clone(), ..Semaphores::default() };
            server.innodb_status = answer(at_s, InnodbStatus { semaphores, ..InnodbStatus::default() });
        })
        .window()
}

pub(crate) fn fires() -> Window {
    waits(&[wait(1, Some(2), 934.0), wait(2, None, 934.0)])
}

/// A busy server.
pub(crate) fn near_miss() -> Window {
    waits(&[wait(1, Some(2), 1.0), wait(3, Some(2), 0.0)])
}

pub(crate) fn missing() -> Window {
    Build::busy("5.7.40")
        .each(|_, server, _| server.innodb_status = spindoctor_model::Reading::NotAsked)
        .window()
}

fn found(window: &Window) -> Finding {
    match CAUSE.evaluate(window, None) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_latch_that_the_waiter_has_itself_is_a_read_that_does_not_end_or_a_defect() {
    let itself = |kind, at_file: &str| SemaphoreWait {
        kind,
        at_file: at_file.into(),
        created_file: "buf0buf.cc".into(),
        readers: Some(0),
        ..wait(1, None, 412.0)
    };
    let defect = found(&waits(&[itself(SemaphoreKind::Exclusive, "ibuf0ibuf.cc")]));
    assert!(
        defect.headline.ends_with("thread 1 wants and has itself: it never gets it"),
        "{}",
        defect.headline
    );
    assert!(defect.remedies[0].statement.ends_with("then restart the server"), "{:?}", defect.remedies);
    let read = found(&waits(&[itself(SemaphoreKind::Shared, "buf0buf.cc")]));
    assert!(
        read.headline.ends_with("reads that page from disk, and the read does not end"),
        "{}",
        read.headline
    );
    assert_eq!(read.remedies[0].statement, look_at_the_device().statement);
    // A writer that waits until readers leave is printed as the latch's writer, too.
    let waits_for_readers = SemaphoreWait {
        held_mode: Some("wait exclusive".into()),
        ..itself(SemaphoreKind::WaitExclusive, "x.cc")
    };
    assert!(!found(&waits(&[waits_for_readers])).headline.contains("itself"));
}

#[test]
fn io_under_way_beside_a_latch_that_is_kept_for_long_is_said() {
    let with_io = |waited_s| {
        let window = waits(&[wait(1, None, waited_s)]);
        let mut window = window;
        for sample in &mut window.samples {
            if let spindoctor_model::Reading::Available { value, .. } = &mut sample.server.innodb_status {
                value.file_io.pending_reads = Some(18);
            }
        }
        found(&window)
    };
    let long = with_io(14.0);
    assert!(long.why.contains("18 reads were under way"), "{}", long.why);
    assert_eq!(long.remedies[0].statement, look_at_the_device().statement);
    assert!(!with_io(3.0).why.contains("under way"));
}

#[test]
fn a_log_that_ends_with_a_long_wait_is_enough() {
    let mut window = missing();
    let line = "[ERROR] [FATAL] InnoDB: innodb_fatal_semaphore_wait_threshold was exceeded for dict_sys.latch. Please";
    let kind = TroubleKind::LatchWait;
    window.error_log = vec![spindoctor_model::LoggedTrouble {
        kind,
        times: 1,
        before_end_s: Some(0.0),
        line: line.into(),
        ..Default::default()
    }];
    assert_eq!(found(&window).headline, "Threads waited for minutes for InnoDB's dictionary latch");
    window.error_log[0].before_end_s = Some(90_000.0);
    assert!(matches!(CAUSE.evaluate(&window, None), Outcome::NotEnoughEvidence(_)), "it is long over");
}

#[test]
fn a_chain_ends_at_the_latch_whose_readers_nobody_names() {
    let finding = found(&fires());
    assert!(
        finding.headline.contains("thread 2, behind which they wait, itself waits"),
        "{}",
        finding.headline
    );
    assert!(finding.why.contains("1 reader leaves"), "{}", finding.why);
}

/// gdb stops a server; where spindoctor can look itself, nobody is sent to it.
#[test]
fn a_server_that_runs_is_not_stopped_for_its_stacks() {
    let last = |window: &Window| found(window).remedies.pop().unwrap();
    let mut window = fires();
    assert!(!window.is_given());
    assert!(last(&window).statement.starts_with("spindoctor stacks"), "{:?}", last(&window));
    assert!(last(&window).risk.contains("no thread"));
    window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
    assert!(last(&window).statement.starts_with("gdb"), "{:?}", last(&window));
}

/// Two threads that wait for each other, for so long.
fn ring(waited_s: f64) -> [SemaphoreWait; 2] {
    [wait(1, Some(2), waited_s), wait(2, Some(1), waited_s)]
}

#[test]
fn a_ring_that_has_lasted_needs_a_restart() {
    for waited_s in [NOTE_S, 9.0] {
        let finding = found(&waits(&ring(waited_s)));
        assert!(
            finding.headline.starts_with("2 threads wait for each other") && finding.score >= 1.0,
            "{}",
            finding.headline
        );
        assert!(finding.remedies[0].statement.contains("restart"), "{:?}", finding.remedies);
    }
    // A third that waits for one of them is in no ring, and does not hide it.
    let [one, other] = ring(9.0);
    let finding = found(&waits(&[wait(3, Some(1), 9.0), one, other]));
    assert!(finding.headline.starts_with("2 threads"), "{}", finding.headline);
}

/// The list of a live server is not of one moment, however often it shows such waits: those of a ring grow.
#[test]
fn a_ring_of_waits_that_have_just_begun_is_none_unless_somebody_captured_it() {
    for waited_s in [0.0, 1.0] {
        let mut window = waits(&ring(waited_s));
        assert_eq!(CAUSE.evaluate(&window, None), Outcome::Clear, "{waited_s} s");
        window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        assert!(found(&window).headline.ends_with("only a restart frees them"), "{waited_s} s");
    }
}

#[test]
fn who_waits_for_long_at_a_ring_that_has_not_lasted_waits_for_a_thread() {
    let [one, other] = ring(0.0);
    let finding = found(&waits(&[wait(3, Some(1), 9.0), one, other]));
    assert!(finding.headline.ends_with("which thread 1 has"), "{}", finding.headline);
    assert!(!finding.remedies.iter().any(|remedy| remedy.statement.contains("restart")), "{finding:?}");
    assert!(finding.score < 1.0, "{}", finding.score);
    // One of the two has waited for long, and the other has just begun.
    let finding = found(&waits(&[wait(1, Some(2), 9.0), wait(2, Some(1), 0.0)]));
    assert!(finding.headline.ends_with("which thread 2 has"), "{}", finding.headline);
}

/// Sessions that wait for a free page stood first as a ring of latches.
#[test]
fn what_stands_behind_a_ring_that_has_not_lasted_is_named_by_other_causes() {
    use spindoctor_model::stack::ThreadState::{Lock, Running};
    let first = |mut window: Window| {
        for sample in &mut window.samples {
            let semaphores = Semaphores { waiters: ring(0.0).to_vec(), ..Semaphores::default() };
            let status = InnodbStatus { semaphores, ..InnodbStatus::default() };
            sample.server.innodb_status = answer(sample.at_s, status);
        }
        let findings = crate::diagnose(&window).findings;
        assert!(findings.iter().all(|finding| finding.cause != CAUSE.name), "{findings:#?}");
        findings.into_iter().next().map(|finding| finding.cause)
    };
    let of_pages = super::super::free_page_wait::examples::fires();
    assert_eq!(first(of_pages).as_deref(), Some("free-page-wait"));
    let waits: &[&str] = &["sync_array_wait_event", "row_upd", "dispatch_command", "do_command"];
    let runs: &[&str] = &["row_upd", "dispatch_command", "do_command"];
    let of_a_latch = Build::busy("8.0.36").remote().only_snapshots(&[(10, Lock, waits), (30, Running, runs)]);
    assert_eq!(first(of_a_latch.window()).as_deref(), Some("unnamed-wait"));
}
