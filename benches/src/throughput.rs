//! The throughput that a fully loaded server loses to spindoctor.

use std::time::{Duration, Instant};

use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};
use spindoctor_stacks::profiler::usual_most_cpu_percent;

use crate::counter::Counter;
use crate::halting::Halting;
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::quads::Quads;
use crate::{Bench, Benchmark, progress};

const CLIENTS: u32 = 256;
const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// After its start, before it is first halted: symbols are read, what is usual is known.
const WARM_UP: Duration = Duration::from_secs(5);
/// After it was halted or went on, before a window begins.
const SETTLE: Duration = Duration::from_millis(50);
/// How long each window is. Short, as a shared machine drifts: what a quad compares lies within some seconds.
const WINDOW: Duration = Duration::from_millis(400);
/// How long its CPU time is taken where it is not halted.
const UNHALTED: Duration = Duration::from_secs(10);

/// What is run beside the load, and how much of the throughput it may take.
pub(crate) struct Looker {
    pub(crate) name: &'static str,
    /// Arguments of spindoctor; none where nothing is run.
    pub(crate) arguments: Option<&'static [&'static str]>,
    pub(crate) goal_ratio: Option<f64>,
    /// How many snapshots a second it is to take at least, where it takes any.
    pub(crate) least_snapshots: Option<f64>,
    /// Quads to a run that was asked for: a smaller goal needs more.
    pub(crate) quads: usize,
}

const LOOKERS: &[Looker] = &[
    Looker { name: "nothing", arguments: None, goal_ratio: None, least_snapshots: None, quads: 3 },
    Looker {
        name: "`stacks --hz 10`",
        arguments: Some(&["stacks", "--hz", "10", "--duration", "1h", "--json"]),
        goal_ratio: Some(0.01),
        least_snapshots: Some(9.0),
        quads: 10,
    },
    Looker {
        name: "`stacks --hz 100`",
        arguments: Some(&["stacks", "--hz", "100", "--duration", "1h", "--json"]),
        goal_ratio: Some(0.05),
        least_snapshots: Some(80.0),
        quads: 6,
    },
    Looker {
        name: "`doctor`",
        arguments: Some(&["doctor", "--duration", "1h", "--json"]),
        goal_ratio: Some(0.01),
        least_snapshots: None,
        quads: 6,
    },
];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "throughput",
    of: &[
        "crates/collect",
        "crates/profile",
        "crates/stacks",
        "crates/spindoctor/src/doctor",
        "crates/spindoctor/src/stacks",
    ],
    minutes: 12,
    story: "256 clients of sysbench's oltp_point_select on a MySQL with its data in memory, on the same CPUs as \
            the clients and spindoctor: the CPUs are never idle, and no lock adds noise of its own. spindoctor \
            runs throughout; it is halted (SIGSTOP, and its perf events disabled) and goes on in quads of windows \
            of 0.4 s: without, with, with, without, or the other way round in turn. What counts the queries runs \
            before all others (SCHED_FIFO). The bound on the CPU time of `stacks` (`--max-cpu`) counts the time in \
            which it is halted, so here it is given half of what it has where none is named: its own CPU time in \
            the windows and in 10 s in which it has all of its bound and is not halted stand below. What fell due \
            while it was halted is done at once when it goes on, so the windows with `doctor` hold more samples of \
            it than one a second. What a whole run costs, its start included, stands under whole-runs. The loss of \
            a quad is 1 minus the ratio of its windows with to those without. How fast the CPUs of a shared \
            machine are changes by far more than what is looked for: each runs a loop of some 50 us every 4 ms, \
            and as much of a quad's loss as follows from the loops' times (a straight line with the least squares) \
            is taken off; the same without that stands below. The middle of all quads stands first (Hodges and \
            Lehmann), with an interval that holds it in 95 of 100 cases (signed ranks), then the mean, with the \
            interval of a moving-block bootstrap. *Reached* means that the whole interval of the middle lies \
            within the goal. Fixed before the run, for twelve runs: 36 quads of nothing, 120 of `stacks --hz 10`, \
            72 of `stacks --hz 100` and of `doctor`. Lost to nothing is the difference that the method cannot \
            distinguish from zero on this machine: nothing is started, and the same is computed. How many \
            snapshots a second were taken is from a run of 10 s. Own CPU time is a part of what all CPUs have.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec {
        tables: Some(TABLES),
        options: vec!["--max-connections=400".into()],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let workload = Workload::OltpPointSelect;
    let mut load =
        Load::start(server.socket(), LoadSpec { workload, threads: CLIENTS, rate: None, tables: TABLES })?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut counter = Counter::start(&server, "Com_select").await?;
    let mut rows = Vec::new();
    for looker in LOOKERS {
        rows.extend(lost_to(bench, looker, &server, &mut load, &mut counter).await?);
    }
    drop(counter);
    load.stop().await;
    server.stop()?;
    Ok(rows)
}

/// What a server that is as busy as it can be loses to a looker, in quads.
pub(crate) async fn lost_to(
    bench: &Bench,
    looker: &Looker,
    server: &Server,
    load: &mut Load,
    counter: &mut Counter,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let whole = unhalted_percent(bench, looker, server).await?;
    let looking = look(bench, looker, looker.halved().as_deref(), server).await?;
    let mut all = Quads::default();
    let mut alone = Vec::new();
    let mut own = Vec::new();
    let quads = bench.runs * looker.quads;
    for quad in 0..quads {
        if quad % looker.quads == 0 {
            progress(&format!("throughput: {}, quad {} of {quads}", looker.name, quad + 1));
        }
        load.check()?;
        let mut windows = Vec::with_capacity(4);
        for looks in all.order() {
            if let Some(looking) = &looking {
                if looks { looking.go_on()? } else { looking.halt()? }
            }
            tokio::time::sleep(SETTLE).await;
            let own_before = looking.as_ref().map(Halting::cpu).transpose()?;
            let window = counter.window(WINDOW).await?;
            if let (true, Some(looking), Some(before)) = (looks, &looking, own_before) {
                own.push(100.0 * (looking.cpu()? - before).as_secs_f64() / (WINDOW.as_secs_f64() * cpus()));
            }
            if !looks {
                alone.push(window.queries_per_s);
            }
            windows.push(window);
        }
        all.push(&windows);
    }
    drop(looking);
    rows.extend(all.rows(looker.name, looker.goal_ratio));
    if !own.is_empty() {
        let own = Spread::from_values(&own).text("% of all CPUs");
        rows.push(Row::plain("its own CPU time in the windows", own));
    }
    if let Some(whole) = whole {
        rows.push(Row::plain("and not halted", format!("{} % of all CPUs", short(whole))));
    }
    if let Some(hz) = looker.hz() {
        let taken = snapshots_a_second(bench, hz, server).await?;
        let (what, measured) = (format!("snapshots a second of {}", looker.name), short(taken));
        rows.push(match looker.least_snapshots {
            Some(least) => Row::goal(what, measured, format!(">= {least:.0}"), taken >= least),
            None => Row::plain(what, measured),
        });
    }
    rows.push(Row::plain("queries a second without it", Spread::from_values(&alone).text("1/s")));
    Ok(rows)
}

impl Looker {
    /// The snapshots a second that `stacks` is asked for; none of another command.
    fn hz(&self) -> Option<&'static str> {
        match self.arguments {
            Some(["stacks", "--hz", hz, ..]) => Some(*hz),
            _ => None,
        }
    }

    /// Half of what its snapshots may take of the CPUs where nobody says otherwise, percent. The bound counts the clock's time: it is
    /// halted half of it, takes nothing then, and would take twice as much in the windows with it.
    fn halved(&self) -> Option<String> {
        let hz = self.hz()?.parse().ok()?;
        Some((usual_most_cpu_percent(hz) / 2.0).to_string())
    }
}

fn cpus() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

/// How many it takes of those that were asked for: it takes fewer where they would cost too much.
async fn snapshots_a_second(bench: &Bench, hz: &str, server: &Server) -> anyhow::Result<f64> {
    let pid = server.pid().to_string();
    let ran =
        bench.spindoctor.run(&["stacks", "--hz", hz, "--duration", "10s", "--json", "--pid", &pid]).await?;
    Ok(ran.number("/snapshots")? / ran.number("/seconds")?)
}

/// Its own CPU time where it is not halted, as a part of what all CPUs have.
async fn unhalted_percent(bench: &Bench, looker: &Looker, server: &Server) -> anyhow::Result<Option<f64>> {
    let Some(looking) = look(bench, looker, None, server).await? else { return Ok(None) };
    let (begun, before) = (Instant::now(), looking.cpu()?);
    tokio::time::sleep(UNHALTED).await;
    let taken_s = (looking.cpu()? - before).as_secs_f64();
    Ok(Some(100.0 * taken_s / (begun.elapsed().as_secs_f64() * cpus())))
}

/// What looks, warm, until it is dropped; with this bound on its CPU time, percent, where there is one.
async fn look(
    bench: &Bench,
    looker: &Looker,
    most_cpu: Option<&str>,
    server: &Server,
) -> anyhow::Result<Option<Halting>> {
    let Some(arguments) = looker.arguments else { return Ok(None) };
    let socket = server.socket().display().to_string();
    let connection = ["--no-defaults", "-u", "root", "-S", &socket];
    let mut arguments: Vec<&str> = arguments.iter().copied().chain(connection).collect();
    arguments.extend(most_cpu.into_iter().flat_map(|percent| ["--max-cpu", percent]));
    let child = bench.spindoctor.start(&arguments)?;
    tokio::time::sleep(WARM_UP).await;
    Halting::new(child).map(Some)
}
