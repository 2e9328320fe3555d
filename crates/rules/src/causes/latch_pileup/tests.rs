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

#[test]
fn a_ring_needs_a_restart_and_one_of_no_length_a_second_look_first() {
    let of_no_length = found(&waits(&[wait(1, Some(2), 0.0), wait(2, Some(1), 0.0)]));
    assert!(!of_no_length.headline.contains("restart"), "{}", of_no_length.headline);
    assert!(of_no_length.why.contains("two moments"), "{}", of_no_length.why);
    assert!(of_no_length.remedies[0].statement.contains("twice"), "{:?}", of_no_length.remedies);
    let finding = found(&waits(&[wait(1, Some(2), 9.0), wait(2, Some(1), 9.0)]));
    assert!(
        finding.headline.contains("2 threads wait for each other") && finding.score >= 1.0,
        "{}",
        finding.headline
    );
    assert!(finding.remedies[0].statement.contains("restart"), "{:?}", finding.remedies);
    // A third that waits for one of them is in no ring, and does not hide it.
    let finding = found(&waits(&[wait(3, Some(1), 9.0), wait(1, Some(2), 0.0), wait(2, Some(1), 0.0)]));
    assert!(finding.headline.starts_with("2 threads"), "{}", finding.headline);
}
