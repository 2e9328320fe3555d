//! What a whole run takes of a server that is as busy as it can be: its start, its end, and all between.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use spindoctor_lab::load::{Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::counter::Counter;
use crate::page::Row;
use crate::paired::Spread;
use crate::program::Whole;
use crate::quads::Quads;
use crate::recorder::ground::Ground;
use crate::wait_graph::pile_up;
use crate::{Bench, Benchmark, progress};

/// A command whose whole runs are measured.
struct WholeRun {
    name: &'static str,
    arguments: &'static [&'static str],
    /// How long a window is: its run ends within it.
    window: Duration,
    /// Quads of twelve runs that were asked for. A window is long, and all of them are to take twelve minutes at most.
    quads: usize,
}

const WHOLE_RUNS: [WholeRun; 2] = [
    WholeRun {
        name: "`doctor --duration 10s`",
        arguments: &["doctor", "--duration", "10s", "--json", "--fail-on", "never"],
        window: Duration::from_secs(11),
        quads: 5,
    },
    WholeRun {
        name: "the first 5 s of `stacks --hz 10`",
        arguments: &["stacks", "--hz", "10", "--duration", "5s", "--json"],
        window: Duration::from_millis(5_500),
        quads: 4,
    },
];

/// What the clients do, and the server's status that counts it.
const LOADS: [(Workload, &str); 2] =
    [(Workload::OltpPointSelect, "Com_select"), (Workload::OltpUpdateIndex, "Com_update")];
/// The user of the runs on the server.
const USER: &str = "looker";
/// The clients have started.
const WARM_UP: Duration = Duration::from_secs(5);
/// Between two windows.
const SETTLE: Duration = Duration::from_millis(300);
/// What a run may take of the throughput.
const MOST: f64 = 0.01;

/// Sessions that want one row while `doctor` looks for its first line.
const WAITERS: u64 = 256;
/// How often it does.
const FIRST_LINES: usize = 3;
/// What the line has in it.
const PRELIMINARY: &str = "preliminary";
/// Where the evidence is overwhelming, the first line comes within this time.
const SOON: Duration = Duration::from_secs(3);
/// After that it is not waited for.
const PATIENCE: Duration = Duration::from_secs(6);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "whole-runs",
    of: &[
        "crates/collect",
        "crates/profile",
        "crates/rules",
        "crates/stacks",
        "crates/spindoctor/src/doctor",
        "crates/spindoctor/src/stacks",
    ],
    minutes: 12,
    story: "What a user meets: 256 clients of sysbench on a MySQL with its data in memory, on the same CPUs as \
            spindoctor; the CPUs are never idle. In some windows a command is started at the beginning, and ends \
            in them; in the others nothing is started. Windows of 11 s with `doctor --duration 10s`, and of 5.5 s \
            with `stacks --hz 10 --duration 5s`, come in quads: without, with, with, without, or the other way \
            round in turn; the first two windows of a quad are a pair, and so are the last two. The loss of a pair \
            is 1 minus the ratio of its window with to the one without. How the CPUs' speed is weighed, and what \
            the numbers are, stands under throughput; of so few pairs the intervals are wide, and that of the mean \
            is too narrow. Fixed before the run, for twelve runs: of each load five quads of `doctor` and four of \
            `stacks`. The CPU time is what the kernel counted at the end of each run; the server's, what its \
            statements took there as the server counts it by user. *The first preliminary line*: 256 sessions of \
            an otherwise idle server want a row that another holds; from the start of `doctor` until it has \
            printed a line with this word, on standard output or on standard error, neither of which is a \
            terminal.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (workload, counts) in LOADS {
        let mut ground = Ground::with(bench, Which::Mysql, 0, workload, None).await?;
        ground.admit(USER).await?;
        tokio::time::sleep(WARM_UP).await;
        let mut counter = Counter::start(&ground.server, counts).await?;
        let load = workload.name().unwrap_or_default();
        for whole in &WHOLE_RUNS {
            rows.extend(measure(bench, &mut ground, &mut counter, whole, load).await?);
        }
        drop(counter);
        ground.stop().await?;
    }
    rows.push(first_line(bench).await?);
    Ok(rows)
}

/// What a server under this load loses to whole runs of a command, and what one takes.
async fn measure(
    bench: &Bench,
    ground: &mut Ground,
    counter: &mut Counter,
    whole: &WholeRun,
    load: &str,
) -> anyhow::Result<Vec<Row>> {
    let socket = ground.server.socket().display().to_string();
    let connection = ["--no-defaults", "-u", USER, "-S", &socket];
    let arguments: Vec<&str> = whole.arguments.iter().copied().chain(connection).collect();
    let mut all = Quads::in_pairs();
    let (mut own_s, mut server_s, mut took_s) = (Vec::new(), Vec::new(), Vec::new());
    let quads = (bench.runs * whole.quads / 12).max(1);
    for quad in 1..=quads {
        progress(&format!("whole-runs: {load}, {}, quad {quad} of {quads}", whole.name));
        let mut windows = Vec::with_capacity(4);
        for runs in all.order() {
            ground.load.check()?;
            let before = ground.server_cpu_s(USER).await?;
            tokio::time::sleep(SETTLE).await;
            let running = runs.then(|| bench.spindoctor.start_whole(&arguments)).transpose()?;
            windows.push(counter.window(whole.window).await?);
            if let Some(running) = running {
                let Whole { took, cpu } = running.await??;
                own_s.push(cpu.as_secs_f64());
                took_s.push(took.as_secs_f64());
                server_s.push(ground.server_cpu_s(USER).await? - before);
            }
        }
        all.push(&windows);
    }
    let late = took_s.iter().filter(|took_s| **took_s > whole.window.as_secs_f64()).count();
    let mut rows = all.rows(&format!("{}, {load}", whole.name), Some(MOST));
    let what = |what: &str| format!("{}, {load}: {what}", whole.name);
    let seconds = |seconds: &[f64]| Spread::from_values(seconds).text("s");
    rows.push(Row::plain(what("CPU time of a run"), seconds(&own_s)));
    rows.push(Row::plain(what("the server's CPU for its statements"), seconds(&server_s)));
    rows.push(Row::plain(what("from start to exit"), seconds(&took_s)));
    rows.push(Row::plain(what("ended after their window"), format!("{late} of {}", took_s.len())));
    Ok(rows)
}

/// How long `doctor` takes to its first preliminary line beside a pile-up.
async fn first_line(bench: &Bench) -> anyhow::Result<Row> {
    let spec = ServerSpec {
        tables: Some(Tables { count: 1, rows: 1_000 }),
        options: vec![
            "--max-connections=400".into(),
            "--back-log=400".into(),
            "--innodb-lock-wait-timeout=3600".into(),
        ],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let mut asked = server.connect().await?;
    let _sessions = pile_up(&server, &mut asked, WAITERS).await?;
    let mut seconds = Vec::new();
    for look in 1..=FIRST_LINES {
        progress(&format!("whole-runs: the first preliminary line, {look} of {FIRST_LINES}"));
        let mut command = bench.spindoctor.command();
        command.args(["doctor", "--duration", "10s", "--no-defaults", "-u", "root", "-S"]);
        command.arg(server.socket());
        let first = tokio::task::spawn_blocking(move || until_line_with(command, PRELIMINARY)).await??;
        seconds.extend(first.map(|first| first.as_secs_f64()));
    }
    drop(asked);
    server.stop()?;
    let what = format!("until the first preliminary line, {WAITERS} sessions behind a row");
    let goal = format!("<= {} s", SOON.as_secs());
    if seconds.len() < FIRST_LINES {
        let printed = seconds.len();
        return Ok(Row::goal(what, format!("{printed} of {FIRST_LINES} runs printed one"), goal, false));
    }
    let seconds = Spread::from_values(&seconds);
    Ok(Row::goal(what, seconds.text("s"), goal, seconds.median <= SOON.as_secs_f64()))
}

/// How long a command takes to print a line that has this word in it, in whatever case; None where it does not. It is ended then.
fn until_line_with(mut command: Command, word: &str) -> anyhow::Result<Option<Duration>> {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (send, lines) = channel();
    let output = child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>);
    let errors = child.stderr.take().map(|errors| Box::new(errors) as Box<dyn Read + Send>);
    for stream in output.into_iter().chain(errors) {
        let send = send.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if send.send((begun.elapsed(), line)).is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    let mut found = None;
    while let Ok((after, line)) = lines.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
        if line.to_lowercase().contains(word) {
            found = Some(after);
            break;
        }
    }
    // It may have ended by itself.
    let _gone = child.kill();
    child.wait()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_waited_for_on_both_streams() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            until_line_with(command, PRELIMINARY).unwrap()
        };
        assert!(shell("echo one; echo 'Preliminary: a row is held' >&2; exec sleep 60").is_some());
        assert!(shell("echo PRELIMINARY").is_some());
        assert_eq!(shell("echo one; echo two >&2"), None);
    }
}
