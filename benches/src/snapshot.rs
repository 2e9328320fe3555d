//! Every thread's stack of a server with 1,000 connections, beside gdb and eu-stack.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::{Server, ServerSpec};

use crate::page::Row;
use crate::paired::{Spread, short};
use crate::peer::{EU_STACK, GDB};
use crate::program::Ran;
use crate::{Bench, Benchmark, progress};

/// Connections of the server.
const CONNECTIONS: usize = 1000;
/// Between two turns of all connections, each of which takes some 0.1 s.
const PAUSE: Duration = Duration::from_millis(400);
/// Between two turns of some of them: each takes its turn between two snapshots, of which there are ten a second.
const SHORT_PAUSE: Duration = Duration::from_millis(40);
/// From its start on, before its CPU time counts: symbols are read, every stack was walked once.
const STARTED: Duration = Duration::from_secs(2);
/// For so long it counts.
const COUNTED: Duration = Duration::from_secs(9);

/// So many connections run something between two snapshots, and so much CPU time a snapshot may take then: walking a thousand
/// threads and comparing two counters of each takes some 0.2 ms, copying and walking a stack some microseconds. Chosen, not derived.
struct Case {
    moved: usize,
    most_ms: f64,
}

const CASES: [Case; 2] = [Case { moved: 50, most_ms: 0.5 }, Case { moved: 256, most_ms: 2.0 }];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "snapshot",
    of: &["crates/profile", "crates/stacks", "crates/spindoctor/src/stacks"],
    minutes: 5,
    story: "A MySQL with 1,000 connections. `spindoctor stacks --hz 2` for 10 s: the time of one snapshot is from \
            the first thread read to the last frame named. *At rest*: no connection runs anything, and nearly \
            every stack is known from the snapshot before. *Moved*: each connection runs `DO 0` every half second, \
            so that every stack is copied and walked again. *The first snapshot* is the whole command, from its \
            start to its exit, with one snapshot and nothing known before. gdb and eu-stack are whole commands \
            too: the server is stopped while they run. eu-stack, which takes more than a minute, runs once. *50 \
            and 256 of 1,000 connections move*: so many run `DO 0` between each two snapshots of `spindoctor \
            stacks --hz 10 --max-cpu 100`. Where the time goes: until all threads are read and the stacks of those \
            that moved are copied, and until these are walked and their frames named. The CPU time is all that \
            spindoctor took in 9 s, from 2 s after its start on, divided by the snapshots: what it asks the server \
            once a second and its CPU samples are in it. The server is Debian's: stripped, 75 MiB.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec {
        options: vec![format!("--max-connections={}", CONNECTIONS + 50), "--back-log=1000".into()],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let pid = server.pid().to_string();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(server.connect().await?);
    }
    let mut measured = Measured::default();
    let rounds = bench.runs.div_ceil(3);
    for round in 1..=rounds {
        progress(&format!("snapshot: round {round} of {rounds}"));
        let once = bench.spindoctor.run(&["stacks", "--pid", &pid, "--json", "--once"]).await?;
        measured.first_ms.push(once.took.as_secs_f64() * 1e3);
        let ran = bench.spindoctor.run(&looking(&pid)).await?;
        measured.rest_ms.push(ran.number("/snapshot_ms/p50")?);
        measured.stopped += ran.number("/threads_stopped")?;
        let wanted = Rc::new(Cell::new(true));
        let talking = chat(connections, PAUSE, Rc::clone(&wanted));
        let looking = async {
            let ran = bench.spindoctor.run(&looking(&pid)).await;
            wanted.set(false);
            ran
        };
        let (talked, ran) = tokio::join!(talking, looking);
        connections = talked?;
        let ran = ran?;
        measured.moved_ms.push(ran.number("/snapshot_ms/p50")?);
        measured.moved_percent.push(moved_percent(&ran)?);
        measured.stopped += ran.number("/threads_stopped")?;
        measured.threads = ran.number("/threads")?;
        measured.resident_mib.push(ran.resident_mib);
        measured.gdb_ms.push(GDB.stacks_ms(server.pid(), CONNECTIONS).await?);
        if measured.eu_stack_ms.len() < bench.runs.div_ceil(12) {
            measured.eu_stack_ms.push(EU_STACK.stacks_ms(server.pid(), CONNECTIONS).await?);
        }
        for (case, costs) in CASES.iter().zip(&mut measured.costs) {
            let resting = connections.split_off(case.moved);
            let cost = costs_of_one(bench, &pid, &mut connections).await?;
            connections.extend(resting);
            costs.push(cost);
        }
    }
    drop(connections);
    server.stop()?;
    Ok(measured.rows())
}

fn looking(pid: &str) -> [&str; 8] {
    ["stacks", "--pid", pid, "--json", "--hz", "2", "--duration", "10s"]
}

/// What one snapshot costs.
struct Cost {
    moved_percent: f64,
    /// Until all threads are read and the stacks of those that moved are copied, milliseconds.
    copied_ms: f64,
    /// Until the last frame is named.
    named_ms: f64,
    /// CPU time of all that spindoctor does, divided by the snapshots.
    cpu_ms: f64,
}

/// What one snapshot costs where these connections run something between two of them.
async fn costs_of_one(bench: &Bench, pid: &str, moving: &mut Vec<Conn>) -> anyhow::Result<Cost> {
    let arguments = ["stacks", "--pid", pid, "--json", "--hz", "10", "--max-cpu", "100", "--duration", "12s"];
    let wanted = Rc::new(Cell::new(true));
    let talking = chat(std::mem::take(moving), SHORT_PAUSE, Rc::clone(&wanted));
    let looking = async {
        let ran = bench.spindoctor.run_counting(&arguments, STARTED, COUNTED).await;
        wanted.set(false);
        ran
    };
    let (talked, ran) = tokio::join!(talking, looking);
    *moving = talked?;
    let (ran, cores) = ran?;
    let snapshots_per_s = ran.number("/snapshots")? / ran.number("/seconds")?;
    Ok(Cost {
        moved_percent: moved_percent(&ran)?,
        copied_ms: ran.number("/capture_ms/p50")?,
        named_ms: ran.number("/snapshot_ms/p50")?,
        cpu_ms: 1e3 * cores / snapshots_per_s,
    })
}

fn moved_percent(ran: &Ran) -> anyhow::Result<f64> {
    Ok(100.0 - 100.0 * ran.number("/unmoved")? / ran.number("/observations")?)
}

/// What each round measured.
#[derive(Default)]
struct Measured {
    threads: f64,
    first_ms: Vec<f64>,
    rest_ms: Vec<f64>,
    moved_ms: Vec<f64>,
    moved_percent: Vec<f64>,
    resident_mib: Vec<f64>,
    stopped: f64,
    gdb_ms: Vec<f64>,
    eu_stack_ms: Vec<f64>,
    costs: [Vec<Cost>; CASES.len()],
}

impl Measured {
    fn rows(&self) -> Vec<Row> {
        let (rest, moved) = (Spread::from_values(&self.rest_ms), Spread::from_values(&self.moved_ms));
        let (first, memory) = (Spread::from_values(&self.first_ms), Spread::from_values(&self.resident_mib));
        let (gdb, eu_stack) = (Spread::from_values(&self.gdb_ms), Spread::from_values(&self.eu_stack_ms));
        let times = |peer: &Spread, ours: &Spread| peer.median / ours.median;
        let peer = |peer: &Spread| format!("gdb: {} ms", short(peer.median));
        let text = |times: f64| format!("{} times", short(times));
        let mut rows = vec![
            Row::plain("threads", format!("{:.0}", self.threads)),
            Row::goal("one snapshot, at rest", rest.text("ms"), "<= 10 ms", rest.median <= 10.0)
                .beside(peer(&gdb), times(&gdb, &rest)),
            Row::goal("one snapshot, moved", moved.text("ms"), "<= 10 ms", moved.median <= 10.0)
                .beside(peer(&gdb), times(&gdb, &moved)),
            Row::plain("threads that had moved", Spread::from_values(&self.moved_percent).text("%")),
            Row::goal("threads stopped", format!("{:.0}", self.stopped), "0", self.stopped == 0.0),
            Row::goal(
                "the first snapshot, the whole command",
                first.text("ms"),
                "<= 300 ms",
                first.median <= 300.0,
            )
            .beside(peer(&gdb), times(&gdb, &first)),
            Row::goal("resident memory", memory.text("MiB"), "<= 150 MiB", memory.most <= 150.0),
            Row::plain("gdb `thread apply all bt`, at rest", gdb.text("ms")),
            Row::goal("gdb / at rest", text(times(&gdb, &rest)), ">= 300 times", times(&gdb, &rest) >= 300.0),
            Row::plain("eu-stack, at rest", eu_stack.text("ms")),
            Row::goal(
                "eu-stack / at rest",
                text(times(&eu_stack, &rest)),
                ">= 20 times",
                times(&eu_stack, &rest) >= 20.0,
            ),
            Row::goal(
                "eu-stack / moved",
                text(times(&eu_stack, &moved)),
                ">= 20 times",
                times(&eu_stack, &moved) >= 20.0,
            ),
        ];
        for (case, costs) in CASES.iter().zip(&self.costs) {
            rows.extend(case.rows(costs));
        }
        rows
    }
}

impl Case {
    /// Where the time of a snapshot goes, and the CPU time that it takes.
    fn rows(&self, costs: &[Cost]) -> [Row; 4] {
        let spread = |of: fn(&Cost) -> f64| Spread::from_values(&costs.iter().map(of).collect::<Vec<_>>());
        let what = |what: &str| format!("{} of 1,000 connections move: {what}", self.moved);
        let cpu = spread(|cost| cost.cpu_ms);
        [
            Row::plain(what("threads that had moved"), spread(|cost| cost.moved_percent).text("%")),
            Row::plain(
                what("until threads are read and stacks copied"),
                spread(|cost| cost.copied_ms).text("ms"),
            ),
            Row::plain(what("until the last frame is named"), spread(|cost| cost.named_ms).text("ms")),
            Row::goal(
                what("CPU time of one snapshot"),
                cpu.text("ms"),
                format!("<= {} ms", self.most_ms),
                cpu.median <= self.most_ms,
            ),
        ]
    }
}

/// Every connection asks for nothing, one after the other, with a pause after each turn of all, while it is wanted.
async fn chat(
    mut connections: Vec<Conn>,
    pause: Duration,
    wanted: Rc<Cell<bool>>,
) -> mysql_async::Result<Vec<Conn>> {
    while wanted.get() {
        for connection in &mut connections {
            connection.query_drop("DO 0").await?;
        }
        tokio::time::sleep(pause).await;
    }
    Ok(connections)
}
