//! A restart of the server under the recorder is an event that says so.

use std::path::Path;
use std::time::{Duration, Instant};

use spindoctor_lab::{Server, ServerSpec};
use spindoctor_model::{EventHead, StallKind};
use spindoctor_record::Recording;

use crate::lab::{in_runtime, on_both, start};
use crate::program::printed;
use crate::running::{Running, process};

const PATIENCE: Duration = Duration::from_secs(60);
/// Some seconds of calm first, and between two restarts.
const SAMPLES_BETWEEN: usize = 4;

pub(super) fn record(server: &Server, recording: &Path) -> Running {
    let (socket, file) = (server.socket().display(), recording.display());
    let line = format!("record --no-defaults -u root -S {socket} --no-stacks -o {file}");
    Running::start_unread(&mut process(&line))
}

/// Samples that hold an answer of the server.
pub(super) fn answered(file: &Path) -> usize {
    let Ok(recording) = Recording::open(file) else { return 0 };
    let Ok(Some((from, to))) = recording.extent() else { return 0 };
    let samples = recording.samples(from, to).unwrap_or_default();
    samples.iter().filter(|recorded| recorded.sample.server.status.value().is_some()).count()
}

pub(super) fn heads(file: &Path) -> Vec<EventHead> {
    Recording::open(file).and_then(|recording| recording.events()).unwrap_or_default()
}

pub(super) async fn wait_until(what: &str, file: &Path, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(
            begun.elapsed() < PATIENCE,
            "{what} did not happen; {} samples with an answer, {:#?}",
            answered(file),
            heads(file)
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[test]
fn each_restart_is_an_event_with_both_processes_and_no_failed_connection() {
    on_both(|which| {
        in_runtime(async {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("r.rec");
            let mut server = start(&ServerSpec { which, ..ServerSpec::default() }).await;
            let recorder = record(&server, &file);
            let mut pids = vec![server.pid()];
            for _ in 0..2 {
                let enough = answered(&file) + SAMPLES_BETWEEN;
                wait_until("samples", &file, || answered(&file) >= enough).await;
                server.restart().await.expect("it comes back");
                pids.push(server.pid());
                wait_until("an event", &file, || {
                    heads(&file).len() == pids.len() - 1
                        && heads(&file).iter().all(|head| head.ended.is_some())
                })
                .await;
            }
            recorder.end();
            let heads = heads(&file);
            assert_eq!(heads.len(), 2, "{heads:#?}");
            for (head, pids) in heads.iter().zip(pids.windows(2)) {
                assert_eq!(head.stall.kind, StallKind::Restarted, "{head:#?}");
                let because = &head.stall.because;
                let said =
                    [format!("process {} (started 20", pids[0]), format!("process {} (started 20", pids[1])];
                assert!(said.iter().all(|said| because.contains(said)), "{because}");
                assert!(because.contains("unknown"), "nobody knows whether it crashed: {because}");
                assert!(head.ended.is_some_and(|ended| ended > head.began), "{head:#?}");
            }
            let page = folder.path().join("event.html");
            let (report, _) =
                printed(&format!("report {} --event 1 --html {}", file.display(), page.display()));
            assert!(report.contains("The server was restarted"), "{report}");
            assert!(!report.contains("No cause"), "{report}");
            server.stop().expect("it stops");
        });
    });
}
