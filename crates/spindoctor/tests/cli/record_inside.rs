//! `record --when-inside`, `--when-slower` and `--when 'statement ~ ...'` on real servers.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mysql_async::prelude::Queryable as _;
use rustix::process::Signal;
use spindoctor_lab::{Server, ServerSpec, Which};
use spindoctor_model::{Event, EventHead, Profile};
use spindoctor_record::Recording;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::lab::{in_runtime, start};
use crate::program::printed;
use crate::running::{Running, process};
use crate::stacks::may_not_profile;

/// For what is not promised, on a machine that is on its knees.
const PATIENCE: Duration = Duration::from_secs(60);
/// An event closes five seconds after what it is of.
const CLOSES_WITHIN: Duration = Duration::from_secs(7);
/// What sessions are in while they sleep, on both servers.
const SLEEP: &str = "Item_func_sleep::val_int";

async fn server(which: Which) -> Server {
    start(&ServerSpec { which, ..ServerSpec::default() }).await
}

/// A recorder at work.
struct Recorder {
    process: Running,
    file: PathBuf,
    said: PathBuf,
}

impl Recorder {
    fn start(server: &Server, folder: &Path, flags: &[&str]) -> Self {
        let name = server.name();
        let (file, said) = (folder.join(format!("{name}.rec")), folder.join(format!("{name}.said")));
        let said_in = File::create(&said).expect("a file");
        let process = Running::start_unread(command(server.socket(), &file, flags).stderr(said_in));
        Self { process, file, said }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).expect("it can be read")
    }

    async fn says(&self, text: &str) {
        self.until(text, || self.said().contains(text)).await;
    }

    async fn until(&self, what: &str, is: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < PATIENCE, "{what} did not happen: {}", self.said());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn recording(&self) -> Recording {
        Recording::open(&self.file).expect("a recording")
    }

    /// The events that are over and name this. On a busy machine another stall may have opened them.
    fn events(&self, watched: &str) -> Vec<EventHead> {
        let Ok(recording) = Recording::open(&self.file) else { return Vec::new() };
        let mut heads = recording.events().expect("events");
        heads.retain(|head| head.stall.because.contains(watched) && head.ended.is_some());
        heads
    }

    fn event(&self, head: &EventHead) -> Event {
        self.recording().event(head.id).expect("it can be read").expect("it is there")
    }

    fn end(self) -> String {
        let Self { process, said, .. } = self;
        process.signal(Signal::TERM);
        let ended = process.ended();
        let said = std::fs::read_to_string(said).expect("it can be read");
        assert_eq!(ended.code, Some(0), "{said}");
        said
    }
}

fn command(socket: &Path, file: &Path, flags: &[&str]) -> Command {
    let line = format!("record --no-defaults -u root -S {} -o {}", socket.display(), file.display());
    let mut command = process(&line);
    command.args(flags);
    command
}

/// So many sessions are in one function for so long, all at once; when they were asked to.
async fn pile_up(server: &Server, sessions: usize, lasts: Duration) -> Timestamp {
    let mut connections = Vec::new();
    for _ in 0..sessions {
        connections.push(server.connect().await.expect("a session"));
    }
    let begun = Timestamp::now();
    let mut sleepers = JoinSet::new();
    for mut connection in connections {
        let sleep = format!("DO SLEEP({})", lasts.as_secs_f64());
        sleepers.spawn(async move {
            connection.query_drop(sleep).await.expect("it sleeps");
            connection.disconnect().await.expect("a goodbye");
        });
    }
    sleepers.join_all().await;
    begun
}

fn has(profile: Option<&Profile>, function: &str) -> bool {
    profile.is_some_and(|profile| profile.frames.iter().any(|frame| frame.name.contains(function)))
}

/// Ten pile-ups of 300 ms, and one more after a restart of the server. What takes the CPUs, a start and what is looked at
/// afterwards, is beside no pile-up of the other server.
async fn ten_are_ten_events(which: Which, folder: &Path, both: &Barrier) {
    let mut server = server(which).await;
    let watched = format!("{SLEEP}:3");
    let recorder = Recorder::start(&server, folder, &["--when-inside", &watched]);
    recorder.says("watching for more than 3 threads in Item_func_sleep::val_int").await;
    both.wait().await;
    // Stacks from before it are of a snapshot a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut planted = Vec::new();
    for _ in 0..10 {
        planted.push(pile_up(&server, 6, Duration::from_millis(300)).await);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let seen = || recorder.events("more than 3 threads in Item_func_sleep::val_int: ");
    recorder.until("the tenth event", || seen().len() >= 10).await;
    both.wait().await;
    let heads = seen();
    assert_eq!(heads.len(), 10, "{heads:#?}");
    for (head, planted) in heads.iter().zip(planted) {
        let late_s = head.began.duration_since(planted).as_secs_f64();
        assert!(late_s < 1.5 && head.ended.is_some_and(|ended| ended > planted), "{late_s} {head:?}");
        let event = recorder.event(head);
        let (before, during) = (event.before.as_ref(), event.during.as_ref());
        assert!(before.is_some_and(|before| !before.snapshots.is_empty()), "no stacks from before {head:?}");
        assert!(has(during, "Item_func_sleep"), "{head:?} has no stacks of it");
        let is_before = event.probes.iter().any(|probe| probe.at_s < head.stall.began_s);
        assert!(is_before, "no probe from before {head:?}");
    }
    assert!(heads.iter().any(|head| head.stall.because.contains(", 6 at most")), "{heads:#?}");
    assert!(!has(recorder.event(&heads[0]).before.as_ref(), "Item_func_sleep"), "it is from before");

    server.restart().await.expect("it starts again");
    // Nobody says when the probes stand again.
    let begun = Instant::now();
    while seen().len() < 11 {
        assert!(begun.elapsed() < PATIENCE, "nothing is seen in the new process: {}", recorder.said());
        pile_up(&server, 6, Duration::from_millis(300)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    let file = recorder.file.clone();
    let (from, to) = recorder.recording().extent().expect("it can be read").expect("there are samples");
    // Costs are of whole minutes.
    let from = from - Duration::from_mins(1);
    let said = recorder.end();
    assert!(said.contains("the watchpoints were hit"), "{said}");
    let costs = Recording::open(&file).and_then(|recording| recording.costs(from, to)).expect("costs");
    let hits: u64 = costs.iter().filter(|cost| cost.source == "functions").map(|cost| cost.asked).sum();
    assert!(hits >= 120, "{hits} of ten times six calls: {costs:?}");
    let (text, code) = printed(&format!("report {} --event {} --json", file.display(), heads[4].id));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("more than 3 threads in Item_func_sleep::val_int: "), "{text}");
    server.stop().expect("it stops");
}

#[test]
fn ten_pile_ups_of_300_ms_in_one_function_are_ten_events_with_stacks_from_before() {
    if may_not_profile() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Both servers at once: their recorders wait, for the most part. One that fails ends the other.
    in_runtime(async {
        let both = Barrier::new(2);
        tokio::join!(
            ten_are_ten_events(Which::Mysql, folder.path(), &both),
            ten_are_ten_events(Which::Mariadb, folder.path(), &both),
        );
    });
}

#[test]
fn a_function_that_is_called_too_often_is_left_alone_for_a_while() {
    if may_not_profile() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    in_runtime(async {
        let server = server(Which::Mysql).await;
        let recorder =
            Recorder::start(&server, folder.path(), &["--when-inside", "Item_func_plus::int_op:50"]);
        recorder.says("watching for more than 50 threads").await;
        let flood = "SELECT BENCHMARK(1000000, 1 + CONNECTION_ID())";
        server.ask(flood).await.expect("an answer");
        recorder.says("not watching for more than 50 threads in Item_func_plus::int_op for 60 s").await;
        server.ask(flood).await.expect("an answer");
        let said = recorder.end();
        assert!(said.contains("times a second"), "{said}");
        server.stop().expect("it stops");
    });
}

/// Of servers that nobody uses; no time is asserted.
mod calm {
    use super::*;

    /// How many bytes of the server's code are other than in its file: breakpoints.
    fn breakpoints(pid: u32) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps");
        let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).expect("its program");
        let file = File::open(format!("/proc/{pid}/exe")).expect("its program");
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let code = maps
            .lines()
            .filter(|line| line.contains(" r-xp ") && line.ends_with(program.to_str().expect("UTF-8")));
        code.map(|line| {
            let mut words = line.split_whitespace();
            let (from, to) = words.next().and_then(|range| range.split_once('-')).expect("a range");
            let (from, to, offset) = (number(from), number(to), number(words.nth(1).expect("an offset")));
            let mut bytes = [vec![0; (to - from) as usize], vec![0; (to - from) as usize]];
            memory.read_exact_at(&mut bytes[0], from).expect("code can be read");
            let read = file.read_at(&mut bytes[1], offset).expect("the file can be read");
            bytes[0][..read].iter().zip(&bytes[1]).filter(|(one, other)| one != other).count()
        })
        .sum()
    }

    #[test]
    fn a_recorder_that_is_killed_leaves_no_probe() {
        if may_not_profile() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        in_runtime(async {
            let server = server(Which::Mysql).await;
            let before = breakpoints(server.pid());
            let slower = format!("{SLEEP}:100ms");
            let recorder = Recorder::start(&server, folder.path(), &["--when-slower", &slower]);
            recorder.says("watching for a thread in Item_func_sleep::val_int for 100 ms").await;
            recorder.until("a probe", || breakpoints(server.pid()) > before).await;
            pile_up(&server, 1, Duration::from_millis(400)).await;
            let seen = || recorder.events("a thread in Item_func_sleep::val_int for 100 ms: thread ");
            recorder.until("an event", || !seen().is_empty()).await;

            recorder.process.signal(Signal::KILL);
            recorder.until("no probe", || breakpoints(server.pid()) == before).await;
            pile_up(&server, 1, Duration::from_millis(10)).await;
            server.stop().expect("it stops");
        });
    }

    #[test]
    fn a_statement_that_is_watched_for_is_an_event_without_its_literals() {
        let folder = tempfile::tempdir().expect("a folder");
        in_runtime(async {
            let server = server(Which::Mariadb).await;
            let flags = ["--no-stacks", "--when", "statement ~ /hunter[0-9]/ for 1 s"];
            let recorder = Recorder::start(&server, folder.path(), &flags);
            recorder.says("recording into").await;
            let seen = || recorder.events("statement ~ /hunter[0-9]/ for 1 s: connection ");
            let begun = Instant::now();
            while seen().is_empty() {
                assert!(begun.elapsed() < PATIENCE, "{}", recorder.said());
                let asks = || server.ask("SELECT SLEEP(4), 'hunter2'");
                let (one, other) = tokio::join!(asks(), asks());
                one.and(other).expect("an answer");
                let asked = Instant::now();
                while seen().is_empty() && asked.elapsed() < CLOSES_WITHIN {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            let because = seen()[0].stall.because.clone();
            let shape = ": SELECT SLEEP(?), ?, in 2 sessions at most";
            assert!(because.contains(shape), "{because}");
            assert!(!recorder.end().contains("hunter2"));
            server.stop().expect("it stops");
        });
    }

    #[test]
    fn what_cannot_be_watched_is_one_line_and_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("refused.rec");
        let refused = |socket: &Path, flags: &[&str]| {
            let output = command(socket, &file, flags).stderr(Stdio::piped()).output().expect("it runs");
            let said = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(2), "{said}");
            said
        };
        let nowhere = Path::new("/nonexistent");
        let said = refused(nowhere, &["--when-inside", "f:1", "--remote"]);
        assert!(said.contains("functions are watched where the server runs"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let said = refused(nowhere, &["--when", "statement ~ /(/ for 5 s"]);
        assert!(said.contains("unclosed group"), "{said}");
        if may_not_profile() {
            return;
        }
        let server = in_runtime(server(Which::Mysql));
        let said = refused(server.socket(), &["--when-inside", "no_such_function:1"]);
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains("it has no function named no_such_function"), "{said}");
        server.stop().expect("it stops");
    }
}
