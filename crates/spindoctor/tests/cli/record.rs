//! `record` on real servers: what it keeps of a stall, and what survives.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use spindoctor_lab::injection::{self, Injected};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::scenario::{self, Suffered};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::{Event, EventHead, Profile};
use spindoctor_record::Recording;

use crate::lab::{self, in_runtime};
use crate::running::{Running, process, wait_until};
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
    lab::start(&ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() }).await
}

fn command(server: &Server, file: &Path) -> Command {
    process(&format!("record --no-defaults -u root -S {} -o {}", server.socket().display(), file.display()))
}

/// How many samples a recording has.
pub(crate) fn samples(file: &Path) -> usize {
    let Ok(recording) = Recording::open(file) else { return 0 };
    let Ok(Some((from, to))) = recording.extent() else { return 0 };
    recording.samples(from, to).map_or(0, |samples| samples.len())
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
        let recorder = Running::start_unread(&mut command);
        let lock = injection::find("read-lock").expect("the lab knows it");
        let mut made = Vec::new();
        let caught = loop {
            let (begun, enough) = (Instant::now(), samples(file) + LEARNT_FROM_SAMPLES);
            while samples(file) < enough {
                assert!(begun.elapsed() < PATIENCE, "{} samples, not {enough}", samples(file));
                tokio::time::sleep(LOOKS_EVERY).await;
            }
            made.push(lock.make(&server, Duration::from_secs(3)).await.expect("the lock"));
            match event_of(&made, file).await {
                None if made.len() < 3 => {}
                caught => break caught,
            }
        };
        recorder.end();
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

/// The cause of an event that this overload has a part in; waits as long as its diagnosis may take.
async fn cause_of(suffered: &Suffered, file: &Path) -> Option<String> {
    let begun = Instant::now();
    loop {
        let heads = Recording::open(file).expect("a recording").events().expect("events");
        let is_of = |head: &&EventHead| {
            head.began <= suffered.ended && head.ended.is_some_and(|ended| ended >= suffered.asked)
        };
        let caught = heads.iter().filter(is_of).find_map(|head| head.cause.clone());
        if caught.is_some() || begun.elapsed() > CLOSES_WITHIN {
            return caught;
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// A recording reads the threads' clocks twice a minute: of a stall of seconds the snapshots say who was runnable.
#[test]
fn an_overload_of_seconds_is_named_by_its_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("overload.rec");
    in_runtime(async {
        let home = Home::open().expect("the lab has a folder");
        let scenario = scenario::find("cpu-saturated").expect("the lab knows it");
        let calm = scenario.calm(&home, &Which::Mysql, &|_| {}).await.expect("a calm server");
        let recorder = Running::start_unread(&mut command(calm.server(), &file));
        let mut cause = None;
        // One of two has to be caught: how many of them are is the benchmarks' matter.
        for _ in 0..2 {
            let (begun, enough) = (Instant::now(), samples(&file) + LEARNT_FROM_SAMPLES);
            while samples(&file) < enough {
                assert!(begun.elapsed() < PATIENCE, "{} samples, not {enough}", samples(&file));
                tokio::time::sleep(LOOKS_EVERY).await;
            }
            let suffered = calm.suffer().await.expect("an overload");
            cause = cause_of(&suffered, &file).await;
            if cause.is_some() {
                break;
            }
        }
        recorder.end();
        calm.stop().expect("it stops");
        assert_eq!(cause.as_deref(), Some("cpu-saturated"));
    });
}

/// What recorders survive, of a server that nobody uses.
mod calm {
    use super::*;

    /// All of these record one server at once: they wait for samples.
    #[test]
    fn a_recording_survives_a_kill_a_second_recorder_and_a_hang_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = in_runtime(server(Which::Mysql));
        std::thread::scope(|scope| {
            let (server, folder) = (&server, folder.path());
            scope.spawn(move || goes_on_after_a_kill(server, &folder.join("killed.rec")));
            scope.spawn(move || refuses_a_second_recorder(server, &folder.join("one.rec")));
            scope.spawn(move || goes_on_after_a_hang_up(server, &folder.join("again.rec")));
            scope.spawn(move || assert!(!says_silent(&mut command(server, &folder.join("short.rec")))));
        });
        server.stop().expect("it stops");
    }

    /// A connection that is accepted, and then nothing: no error says why there is no server.
    #[test]
    fn a_server_that_never_answers_is_spoken_of_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = silent.local_addr().expect("its address").port();
        let file = folder.path().join("silent.rec");
        let line = format!("record --no-defaults -u root -h 127.0.0.1 -P {port} -o {}", file.display());
        assert!(says_silent(&mut process(&line)));
    }

    #[test]
    fn what_is_waited_for_is_said_before_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = silent.local_addr().expect("its address").port();
        let said = |server: &str, name: &str| {
            let file = folder.path().join(name);
            let line = format!("record --no-defaults -u root {server} --duration 3s -o {}", file.display());
            let output = process(&line).output().expect("the program runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
            said
        };
        let text = said(&format!("-h 127.0.0.1 -P {port}"), "silent.rec");
        assert!(text.contains(&format!("silent.rec from 127.0.0.1:{port}\n")), "{text}");
        assert!(text.contains(&format!("waiting for 127.0.0.1:{port} to answer\n")), "{text}");
        let socket = folder.path().join("none.sock").display().to_string();
        let text = said(&format!("-S {socket}"), "none.rec");
        assert!(text.contains(&format!("there is no server socket {socket}; ")), "{text}");
        assert!(!text.contains("waiting for"), "{text}");
    }

    /// True where a short recording ends with the words that the server never answered.
    fn says_silent(recorder: &mut Command) -> bool {
        let output = recorder.args(["--duration", "3s"]).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let end = said.lines().rfind(|line| line.contains(" and ") && line.contains(" sample"));
        let end = end.unwrap_or_else(|| panic!("{said}"));
        end.ends_with("has not answered in all this time")
    }

    fn segments(file: &Path) -> usize {
        Recording::open(file).and_then(|recording| recording.segments()).map_or(0, |all| all.len())
    }

    /// A recorder that is killed loses no more than the last moments, and the next one goes on.
    fn goes_on_after_a_kill(server: &Server, file: &Path) {
        let killed = Running::start_unread(&mut command(server, file));
        wait_until(PATIENCE, "a fifth sample", || samples(file) >= 5);
        killed.kill();
        let kept = samples(file);
        assert!(kept >= 5, "only {kept} samples were kept");

        let next = Running::start_unread(&mut command(server, file));
        wait_until(PATIENCE, "a sample of the next recorder", || samples(file) > kept);
        next.end();
        assert_eq!(segments(file), 2, "each recorder has a segment of its own");
    }

    /// The second one is shown who has the file.
    fn refuses_a_second_recorder(server: &Server, file: &Path) {
        let first = Running::start_unread(&mut command(server, file));
        wait_until(PATIENCE, "a sample", || samples(file) > 0);
        let second = command(server, file).output().expect("the program runs");
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(2), "{said}");
        assert!(said.contains(&first.id().to_string()), "{said}");
        first.end();
    }

    fn goes_on_after_a_hang_up(server: &Server, file: &Path) {
        let recorder = Running::start_unread(&mut command(server, file));
        wait_until(PATIENCE, "a second sample", || samples(file) > 1);
        recorder.signal(Signal::HUP);
        wait_until(PATIENCE, "a second segment", || segments(file) == 2);
        recorder.end();
    }
}
