//! `record` on real servers: what it keeps of a stall, and what survives.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use spindoctor_lab::injection::{self, Injected};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::{Event, EventHead, Profile};
use spindoctor_record::Recording;

use crate::program::spindoctor;
use crate::top;

const TABLES: Tables = Tables { count: 2, rows: 1_000 };
/// For what is not promised, on a machine that is on its knees.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is usual has to be learnt first, from ten seconds, and two more; there is a sample a second.
const LEARNT_FROM_SAMPLES: usize = 12;
/// An event closes five seconds after its stall; then it is diagnosed. One that does not come is not waited for much longer.
const CLOSES_WITHIN: Duration = Duration::from_secs(20);
/// How often a test looks into a recording whose recorder is to have the machine for itself.
const LOOKS_EVERY: Duration = Duration::from_millis(300);

async fn server(which: Which) -> Server {
    let home = Home::open().expect("the lab has a folder");
    let spec = ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() };
    Server::start(&home, &spec, &|_| {}).await.expect("a server")
}

/// Starts to record; what it says goes nowhere.
fn start(server: &Server, file: &Path) -> Child {
    command(server, file).spawn().expect("the program runs")
}

fn command(server: &Server, file: &Path) -> Command {
    let line = format!("record --no-defaults -u root -S {} -o {}", server.socket().display(), file.display());
    let asked = spindoctor(&line);
    let mut command = Command::new(asked.get_program());
    command.args(asked.get_args()).env_clear().env("HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

fn end(mut child: Child) {
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

fn samples(file: &Path) -> usize {
    let Ok(recording) = Recording::open(file) else { return 0 };
    let Ok(Some((from, to))) = recording.extent() else { return 0 };
    recording.samples(from, to).map_or(0, |samples| samples.len())
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// The event that a global lock of three seconds made. How many of them make one is the benchmarks' matter: here one of
/// three has to, and what is kept of it is looked at.
fn stalled(which: Which, file: &Path) -> Event {
    in_runtime(async {
        let server = server(which).await;
        let load = Load::start(
            server.socket(),
            LoadSpec { workload: Workload::OltpReadWrite, threads: 8, rate: Some(40), tables: TABLES },
        )
        .expect("a load");
        let sent = file.with_extension("sent");
        let mut command = command(&server, file);
        command.args(["--on-event", &format!("tee -a '{}'", sent.display())]);
        let recorder = command.spawn().expect("the program runs");
        let lock = injection::find("read-lock").expect("the lab knows it");
        let mut made = Vec::new();
        let caught = loop {
            let (begun, enough) = (Instant::now(), samples(file) + LEARNT_FROM_SAMPLES);
            while samples(file) < enough {
                assert!(begun.elapsed() < PATIENCE, "{} samples", samples(file));
                tokio::time::sleep(LOOKS_EVERY).await;
            }
            made.push(lock.make(&server, Duration::from_secs(3)).await.expect("the lock"));
            match event_of(&made, file).await {
                None if made.len() < 3 => {}
                caught => break caught,
            }
        };
        end(recorder);
        load.stop().await;
        server.stop().expect("it stops");

        let caught = caught.unwrap_or_else(|| panic!("no event at any of {made:?}"));
        is_sent(&sent, &caught);
        let recording = Recording::open(file).expect("a recording");
        recording.event(caught.id).expect("it can be read").expect("it is there")
    })
}

/// The event reached the command that was to get it, with its cause and what to do.
fn is_sent(file: &Path, caught: &EventHead) {
    let sent = std::fs::read_to_string(file).expect("the command ran");
    let mut messages =
        sent.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let message = messages.find(|one| one["event"]["id"] == caught.id && one["event"]["phase"] == "over");
    let message = message.unwrap_or_else(|| panic!("event {} is not in {sent}", caught.id));
    assert_eq!(message["event"]["cause"].as_str(), caught.cause.as_deref(), "{message:#}");
    assert!(message["event"]["remedies"][0].is_string(), "{message:#}");
    assert!(message["server"]["version"].is_string(), "{message:#}");
}

/// Waits for the event of one of these stalls, with its diagnosis, as long as it may take.
async fn event_of(made: &[Injected], file: &Path) -> Option<EventHead> {
    let is_of = |head: &EventHead, stall: &Injected| {
        let is_then = head.began <= stall.ended && head.ended.is_some_and(|ended| ended >= stall.held);
        is_then && !head.stall.kind.is_of_an_instant()
    };
    let begun = Instant::now();
    loop {
        let heads = Recording::open(file).expect("a recording").events().expect("events");
        let found = heads.into_iter().find(|head| made.iter().any(|stall| is_of(head, stall)));
        let is_diagnosed = found.as_ref().is_some_and(|head| head.cause.is_some());
        if is_diagnosed || begun.elapsed() > CLOSES_WITHIN {
            return found;
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

fn snapshots(profile: Option<&Profile>) -> usize {
    profile.map_or(0, |profile| profile.snapshots.len())
}

fn is_kept_whole(event: &Event) {
    let Event { head, before, during, graphs, probes, .. } = event;
    assert_eq!(head.cause.as_deref(), Some("global-lock-pileup"), "{head:#?}");
    assert!(snapshots(before.as_ref()) > 0, "no stacks from before the stall");
    assert!(snapshots(during.as_ref()) > 1, "{} snapshots of the stall", snapshots(during.as_ref()));
    assert!(!graphs.is_empty(), "nobody looked who waits for whom");
    let before = probes.iter().filter(|probe| probe.at_s < head.stall.began_s).count();
    assert!(before > 20, "{before} probes from before the stall");
}

#[test]
fn a_stall_of_either_server_is_kept_with_its_cause_its_locks_and_stacks_from_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mysql, mariadb) = (folder.path().join("mysql.rec"), folder.path().join("mariadb.rec"));
    // Both at once: it is waiting, for the most part.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| is_kept_whole(&stalled(Which::Mariadb, &mariadb)));
        is_kept_whole(&stalled(Which::Mysql, &mysql));
        other.join().expect("MariaDB's is kept, too");
    });
    top::goes_to_the_stall_of(&mysql);
}

/// What recorders survive, of servers that nobody uses.
mod calm {
    use super::*;

    #[test]
    fn a_recorder_that_is_killed_loses_no_more_than_the_last_moments_and_the_next_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("killed.rec");
        let server = in_runtime(server(Which::Mysql));
        let mut killed = start(&server, &file);
        wait_until("a fifth sample", || samples(&file) >= 5);
        killed.kill().expect("it runs");
        killed.wait().expect("it ends");
        let kept = samples(&file);
        assert!(kept >= 5, "{kept} samples");

        let next = start(&server, &file);
        wait_until("a sample of the next recorder", || samples(&file) > kept);
        end(next);
        let segments = Recording::open(&file).expect("a recording").segments().expect("segments");
        assert_eq!(segments.len(), 2);
        server.stop().expect("it stops");
    }

    #[test]
    fn a_second_recorder_on_the_same_file_is_refused_and_shown_who_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("one.rec");
        let server = in_runtime(server(Which::Mysql));
        let first = start(&server, &file);
        wait_until("a sample", || samples(&file) > 0);
        let second = command(&server, &file).stderr(Stdio::piped()).output().expect("the program runs");
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(2), "{said}");
        assert!(said.contains(&first.id().to_string()), "{said}");
        end(first);
        server.stop().expect("it stops");
    }

    #[test]
    fn after_a_hang_up_the_recording_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("again.rec");
        let server = in_runtime(server(Which::Mysql));
        let recorder = start(&server, &file);
        wait_until("a second sample", || samples(&file) > 1);
        signal(&recorder, Signal::HUP);
        let segments =
            || Recording::open(&file).and_then(|recording| recording.segments()).map_or(0, |all| all.len());
        wait_until("a second segment", || segments() == 2);
        end(recorder);
        server.stop().expect("it stops");
    }
}
