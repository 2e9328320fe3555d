//! `tune --watch --by-waits` on a server that spins far too long: how soon it spins as well as the best of a grid, whether it
//! stays there, and what its probes cost.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mysql_async::Conn;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use spindoctor_lab::Server;
use spindoctor_lab::load::{Login, measure};
use spindoctor_model::Fairness;

use super::spin_settings::{
    LEAST_OF_BEST, MIS_SET, Spinning, Times, VARIABLES, is_near, load_spec, ratio_text, updates_per_s,
};
use super::{connection, set, settings};
use crate::counter::Counter;
use crate::page::Row;
use crate::paired::short;
use crate::quads;
use crate::{Bench, Benchmark, progress};

/// How long it is watched, and after how long it is to spin as well as the best.
const WATCHED: Duration = Duration::from_mins(10);
const FOLLOWED: Duration = Duration::from_secs(60);
/// Spins from none to forty times the default: rounds, delay, multiplier.
const GRID: [[u32; 3]; 16] = [
    [0, 6, 50],
    [30, 1, 50],
    [30, 6, 1],
    [30, 6, 2],
    [30, 6, 5],
    [4, 6, 50],
    [30, 6, 10],
    [10, 6, 50],
    [30, 6, 25],
    [30, 6, 50],
    [30, 6, 100],
    [100, 6, 50],
    [30, 25, 50],
    [200, 6, 50],
    [30, 50, 100],
    [30, 100, 100],
];
const PASSES: u32 = 4;
const TIMES: Times = Times { settle: Duration::from_millis(300), measure: Duration::from_millis(900) };
/// Quads to a run that was asked for.
const QUADS: usize = 5;

/// Probes stand in short turns for 5 s of every 15. From when the first of them is seen: two windows with them, one when they
/// are gone and what was found has been set, one before they come again, and when they are looked for again.
const WINDOW: Duration = Duration::from_millis(2_200);
const AFTER: Duration = Duration::from_millis(5_600);
const BEFORE: Duration = Duration::from_millis(11_000);
const AGAIN: Duration = Duration::from_millis(13_400);
/// How often they are looked for.
const PEEK: Duration = Duration::from_millis(20);
/// The goal of what they cost.
const MOST_LOST: f64 = 0.01;

/// How long the clients' transactions are counted, one by one, and the warm-up before.
const COUNTED: Duration = Duration::from_secs(8);
const WARM_UP: Duration = Duration::from_secs(1);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "by-waits",
    of: &["crates/tune", "crates/stacks", "crates/spindoctor/src/tune"],
    minutes: 14,
    story: "The server and load of `mis-set-spin`: 64 clients of sysbench's oltp_update_index, innodb_sync_spin_loops 30, \
            innodb_spin_wait_delay 100 and innodb_spin_wait_pause_multiplier 100. `spindoctor tune --watch --by-waits` runs for \
            ten minutes and is then ended by SIGTERM. What it had set 60 s after its start is compared with the best of a grid of \
            16 spins, from none to forty times the default, each measured for 0.9 s and the best eight three times more, in random order, \
            and with the mis-set ones, in quads of windows of 0.4 s: the middle of the ratios of throughput with an interval that holds it in 95 \
            of 100 cases. A spin that is set again after it was left is a step back; ten minutes are to have none. What the probes \
            cost: they stand for 5 s of every 15; the loss is 1 minus the throughput of two windows of 2.2 s with them by the mean of \
            one such window before they come and one after they are gone, from the second minute on, looks after which another spin was \
            set left out; the counting session runs before all others (SCHED_FIFO). Whether probes stand is seen by the watch's open \
            BPF links. Fairness is counted by sysbench's clients themselves, 8 s with each of the two settings, without a watch. All \
            of this was fixed before the first run.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut spinning = Spinning::start(bench, "by-waits").await?;
    let watched = watch(bench, &mut spinning).await?;
    let is_back = settings(&mut spinning.asked, &VARIABLES).await? == MIS_SET;

    let mis_set = MIS_SET.map(str::to_owned);
    let spins = spins(&watched.changes);
    let by_then = spins.iter().rfind(|spin| spin.at <= FOLLOWED);
    let followed = by_then.map_or(mis_set.to_vec(), |spin| spin.values.clone());
    let points: Vec<Vec<String>> = GRID.iter().map(|point| point.map(|it| it.to_string()).to_vec()).collect();
    let (best, _) = spinning.best_of(&points, PASSES, TIMES).await?;
    let of_best = spinning.compare(&best, &followed, bench.runs * QUADS).await?;
    let of_mis_set = spinning.compare(&mis_set, &followed, bench.runs).await?;

    let Spinning { server, load, mut asked, .. } = spinning;
    load.stop().await;
    let fair =
        [fairness(&server, &mut asked, &mis_set).await?, fairness(&server, &mut asked, &followed).await?];
    asked.disconnect().await?;
    server.stop()?;

    let first =
        spins.first().map_or("never".to_owned(), |spin| format!("{} s", short(spin.at.as_secs_f64())));
    let steps_back = steps_back(&spins);
    let both = |ratio: fn(&Fairness) -> Option<f64>| {
        let text = |fair: &Option<Fairness>| {
            fair.as_ref().and_then(ratio).map_or_else(|| "not counted".to_owned(), short)
        };
        fair.iter().map(text).collect::<Vec<_>>().join("; ")
    };
    Ok(vec![
        Row::plain("the first other spin was set after", first),
        Row::plain("loops, delay, multiplier after 60 s", followed.join(", ")),
        Row::plain("best of the grid", best.join(", ")),
        Row {
            what: "throughput, after 60 s / best of the grid".into(),
            measured: ratio_text(of_best),
            peer: None,
            goal: Some((format!(">= {LEAST_OF_BEST}"), is_near(of_best.0))),
        },
        Row::plain("throughput, after 60 s / mis-set", ratio_text(of_mis_set)),
        Row::plain("spins that were set in ten minutes", spins.len().to_string()),
        Row::goal("steps back among them", steps_back.to_string(), "0", steps_back == 0),
        quads::row("throughput lost while its probes stand".into(), &watched.losses, Some(MOST_LOST)),
        Row::plain("looks in which that was measured", watched.losses.len().to_string()),
        Row::plain("least served client by the mean, mis-set; after 60 s", both(Fairness::least_ratio)),
        Row::plain("standard deviation of the clients by the mean", both(Fairness::sd_ratio)),
        Row::goal("old values back at its end", if is_back { "yes" } else { "no" }, "yes", is_back),
    ])
}

/// A line of the watch.
#[derive(Debug, Deserialize)]
struct Change {
    variable: String,
    to: String,
    why: String,
}

/// What ten minutes of watching gave.
struct Watched {
    /// When each line came, since the start.
    changes: Vec<(Duration, Change)>,
    /// Of each look that counts, the part of the throughput that was lost while probes stood.
    losses: Vec<f64>,
}

async fn watch(bench: &Bench, spinning: &mut Spinning) -> anyhow::Result<Watched> {
    let mut counter = Counter::start(&spinning.server, "Com_update").await?;
    let mut watch = Watch::start(bench, &spinning.server)?;
    let end = watch.begun + WATCHED;
    let mut losses = Vec::new();
    // Throughput before the look, and the lines that there were by then.
    let mut before: Option<(f64, usize)> = None;
    while let Some(probed) = watch.until_probed(end).await? {
        spinning.load.check()?;
        let since = probed - watch.begun;
        progress(&format!("by-waits: {} s, {} lines so far", since.as_secs(), watch.changes.len()));
        let asked = &mut counter.conn;
        let with = (updates_per_s(asked, WINDOW).await? + updates_per_s(asked, WINDOW).await?) / 2.0;
        tokio::time::sleep_until((probed + AFTER).into()).await;
        let after = updates_per_s(asked, WINDOW).await?;
        let lines = watch.read()?;
        if let Some((rate, lines_before)) = before
            && lines_before == lines
            && since >= FOLLOWED
        {
            losses.push(1.0 - with / f64::midpoint(rate, after));
        }
        tokio::time::sleep_until((probed + BEFORE).into()).await;
        before = Some((updates_per_s(asked, WINDOW).await?, watch.read()?));
        tokio::time::sleep_until((probed + AGAIN).into()).await;
    }
    ensure!(before.is_some(), "the watch set no probes");
    Ok(Watched { changes: watch.end()?, losses })
}

/// A `tune --watch --by-waits` that runs; it is ended where this is dropped.
struct Watch {
    child: Child,
    begun: Instant,
    lines: Receiver<(Instant, Change)>,
    changes: Vec<(Duration, Change)>,
}

impl Watch {
    fn start(bench: &Bench, server: &Server) -> anyhow::Result<Self> {
        let begun = Instant::now();
        // It ends with this program, however that ends.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(bench.spindoctor.command().get_program())
            .args(["tune", "--watch", "--by-waits", "--json"])
            .args(connection(server))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let printed = BufReader::new(child.stdout.take().context("its output is piped")?);
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in printed.lines().map_while(Result::ok) {
                if let Ok(change) = serde_json::from_str(&line)
                    && send.send((Instant::now(), change)).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { child, begun, lines, changes: Vec::new() })
    }

    /// Takes what it has printed: how many lines that are in all.
    fn read(&mut self) -> anyhow::Result<usize> {
        if let Some(status) = self.child.try_wait()? {
            bail!("`tune --watch --by-waits` ended early: {status}");
        }
        let begun = self.begun;
        self.changes.extend(self.lines.try_iter().map(|(at, change)| (at - begun, change)));
        Ok(self.changes.len())
    }

    /// When its probes were seen next; none where the time was over before.
    async fn until_probed(&mut self, until: Instant) -> anyhow::Result<Option<Instant>> {
        while Instant::now() < until {
            self.read()?;
            if has_links(self.child.id())? {
                return Ok(Some(Instant::now()));
            }
            tokio::time::sleep(PEEK).await;
        }
        Ok(None)
    }

    /// Ends it; all of its lines.
    fn end(&mut self) -> anyhow::Result<Vec<(Duration, Change)>> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("could not end the watch")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the watch failed: {status}");
        // Its output has ended, and with it what reads it.
        let begun = self.begun;
        self.changes.extend(self.lines.iter().map(|(at, change)| (at - begun, change)));
        Ok(std::mem::take(&mut self.changes))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // It puts the old values back, and ends.
            let _asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _status = self.child.wait();
        }
    }
}

/// True while a process holds a BPF link: that of its probes, while they stand.
fn has_links(pid: u32) -> anyhow::Result<bool> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).context("the watch has ended")?;
    let is_link = |target: std::path::PathBuf| target.to_string_lossy().contains("bpf_link");
    // One that was closed meanwhile is none.
    Ok(open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(is_link)))
}

/// A spin that was set, and when.
#[derive(Debug, PartialEq)]
struct Spin {
    at: Duration,
    values: Vec<String>,
}

/// The spins that a watch set. What one decision changes stands in lines with the same reason.
fn spins(changes: &[(Duration, Change)]) -> Vec<Spin> {
    let mut values = MIS_SET.map(str::to_owned).to_vec();
    let mut spins: Vec<Spin> = Vec::new();
    let mut why = None;
    for (at, change) in changes {
        let Some(place) = VARIABLES.iter().position(|name| *name == change.variable) else { continue };
        values[place].clone_from(&change.to);
        match spins.last_mut() {
            Some(last) if why == Some(&change.why) => last.values.clone_from(&values),
            _ => spins.push(Spin { at: *at, values: values.clone() }),
        }
        why = Some(&change.why);
    }
    spins
}

/// How many of them were set before, or are what the server started with.
fn steps_back(spins: &[Spin]) -> usize {
    let was_before = |at: usize| {
        spins[at].values == MIS_SET || spins[..at].iter().any(|before| before.values == spins[at].values)
    };
    (0..spins.len()).filter(|at| was_before(*at)).count()
}

/// How evenly the clients are served with these settings; none where not each of them was counted.
async fn fairness(server: &Server, asked: &mut Conn, values: &[String]) -> anyhow::Result<Option<Fairness>> {
    progress(&format!("by-waits: each client's transactions with {}", values.join(" ")));
    set(asked, &VARIABLES, values).await?;
    let login = Login::Lab(server.socket());
    Ok(measure(login, load_spec(), WARM_UP, COUNTED, &mut |_| {}).await?.fairness)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at_s: u64, variable: &str, to: &str, why: &str) -> (Duration, Change) {
        let change = Change { variable: variable.to_owned(), to: to.to_owned(), why: why.to_owned() };
        (Duration::from_secs(at_s), change)
    }

    const DELAY: &str = "innodb_spin_wait_delay";
    const MULTIPLIER: &str = "innodb_spin_wait_pause_multiplier";

    #[test]
    fn lines_of_one_decision_are_one_spin_and_the_way_back_is_counted() {
        let mut changes = vec![
            change(20, DELAY, "6", "a"),
            change(20, MULTIPLIER, "12", "a"),
            change(21, "innodb_log_spin_cpu_pct_hwm", "25", "the quota"),
            change(50, MULTIPLIER, "5", "b"),
        ];
        let values = |spins: &[Spin]| -> Vec<String> { spins.iter().map(|it| it.values.join(" ")).collect() };
        let found = spins(&changes);
        assert_eq!(values(&found), ["30 6 12", "30 6 5"]);
        assert_eq!(found[1].at, Duration::from_secs(50));
        assert_eq!(steps_back(&found), 0);
        changes.extend([change(90, MULTIPLIER, "12", "c"), change(300, DELAY, "100", "d")]);
        changes.push(change(300, MULTIPLIER, "100", "d"));
        let found = spins(&changes);
        assert_eq!(values(&found)[2..], ["30 6 12", "30 100 100"]);
        assert_eq!(steps_back(&found), 2);
        assert_eq!(steps_back(&spins(&[])), 0);
    }
}
