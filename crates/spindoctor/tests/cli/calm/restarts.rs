//! A restart of the server under the recorder is an event that says so.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::{EventHead, StallKind};
use spindoctor_record::Recording;

use crate::program::{printed, spindoctor};

const PATIENCE: Duration = Duration::from_secs(60);
/// Some seconds of calm first, and between two restarts.
const SAMPLES_BETWEEN: usize = 4;

/// A recorder that does not outlive its test.
pub(super) struct Recorder(Child);

impl Recorder {
    /// Asks it to end, and waits until it has.
    pub(super) fn end(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

pub(super) fn record(server: &Server, recording: &Path) -> Recorder {
    let (socket, file) = (server.socket().display(), recording.display());
    let asked = spindoctor(&format!("record --no-defaults -u root -S {socket} --no-stacks -o {file}"));
    let mut command = Command::new(asked.get_program());
    command.args(asked.get_args()).env_clear().env("HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Recorder(command.spawn().expect("the program runs"))
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for which in [Which::Mysql, Which::Mariadb] {
        runtime.block_on(async {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("r.rec");
            let home = Home::open().expect("the lab has a folder");
            let spec = ServerSpec { which, ..ServerSpec::default() };
            let mut server = Server::start(&home, &spec, &|_| {}).await.expect("a server");
            let mut recorder = record(&server, &file);
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
    }
}
