//! A server that spins far too long on its latches, under load: its settings measured one by one, and two of them compared.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use super::set;
use crate::page::Verdict;
use crate::paired::{Interval, Spread, short};
use crate::{Bench, progress};

/// What the latch spin is made of.
pub(super) const VARIABLES: [&str; 3] =
    ["innodb_sync_spin_loops", "innodb_spin_wait_delay", "innodb_spin_wait_pause_multiplier"];
/// What the server starts with: forty times as long as it should be.
pub(super) const MIS_SET: [&str; 3] = ["30", "100", "100"];
/// Settings that a tuner finds are to do so much of what the best of a grid does.
pub(super) const LEAST_OF_BEST: f64 = 0.95;

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// Two settings are compared in shorter windows and more of them: a shared machine drifts within seconds, and what a quad
/// compares then lies close together.
const COMPARED: Duration = Duration::from_millis(400);
const COMPARED_SETTLE: Duration = Duration::from_millis(150);
/// So many settings are measured again.
const AGAIN: usize = 8;
/// Quads from one line of progress to the next.
const SHOWN_EVERY: usize = 24;

/// How long a setting is left alone after it was made, and how long it is measured then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) settle: Duration,
    pub(super) measure: Duration,
}

/// The server, its clients, and a session that changes its settings.
pub(super) struct Spinning {
    /// The benchmark, for its progress.
    name: &'static str,
    pub(super) server: Server,
    pub(super) load: Load,
    pub(super) asked: Conn,
}

/// What its clients do.
pub(super) fn load_spec() -> LoadSpec {
    LoadSpec { workload: Workload::OltpUpdateIndex, threads: 64, rate: None, tables: TABLES }
}

impl Spinning {
    /// Starts all of it. Without a binary log and writer threads no commit spins: what spins waits for a latch.
    pub(super) async fn start(bench: &Bench, name: &'static str) -> anyhow::Result<Self> {
        let mut options: Vec<String> =
            VARIABLES.iter().zip(MIS_SET).map(|(name, value)| format!("--{name}={value}")).collect();
        options.extend(["--disable-log-bin", "--innodb-log-writer-threads=OFF"].map(str::to_owned));
        let spec = ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() };
        let server = Server::start(&bench.home, &spec, &progress).await?;
        let load = Load::start(server.socket(), load_spec())?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let asked = server.connect().await?;
        Ok(Self { name, server, load, asked })
    }

    /// Ends all of it.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.asked.disconnect().await?;
        self.load.stop().await;
        self.server.stop()?;
        Ok(())
    }

    /// The settings with the highest middle of their measurements, and how long the first pass over all of them took. Each
    /// pass is in random order; from the second on only the best [`AGAIN`] are measured, as the best of all is looked for.
    pub(super) async fn best_of(
        &mut self,
        points: &[Vec<String>],
        passes: u32,
        times: Times,
    ) -> anyhow::Result<(Vec<String>, Duration)> {
        let mut measured: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
        let mut best: Vec<usize> = (0..points.len()).collect();
        let (begun, mut pass_took) = (Instant::now(), Duration::ZERO);
        for pass in 1..=passes {
            progress(&format!("{}: the grid, pass {pass} of {passes}", self.name));
            for at in shuffled(&mut self.asked, best.len()).await? {
                self.load.check()?;
                let point = best[at];
                measured[point].push(self.rate(&points[point], times).await?);
            }
            if pass == 1 {
                pass_took = begun.elapsed();
            }
            let middle = |point: &usize| Spread::from_values(&measured[*point]).median;
            best.sort_by(|one, other| middle(other).total_cmp(&middle(one)));
            best.truncate(AGAIN);
        }
        let best = best.first().context("the grid has points")?;
        Ok((points[*best].clone(), pass_took))
    }

    /// Throughput of the second settings against the first, in quads: the middle and the mean.
    pub(super) async fn compare(
        &mut self,
        one: &[String],
        other: &[String],
        quads: usize,
    ) -> anyhow::Result<(Interval, Interval)> {
        let mut ratios = Vec::new();
        for quad in 0..quads {
            if quad % SHOWN_EVERY == 0 {
                let (other, one) = (other.join(" "), one.join(" "));
                progress(&format!("{}: {other} against {one}, quad {} of {quads}", self.name, quad + 1));
            }
            let order = if quad % 2 == 0 { [false, true, true, false] } else { [true, false, false, true] };
            let (mut first, mut second) = (0.0, 0.0);
            for is_other in order {
                self.load.check()?;
                let values = if is_other { other } else { one };
                let times = Times { settle: COMPARED_SETTLE, measure: COMPARED };
                let rate = self.rate(values, times).await?;
                *(if is_other { &mut second } else { &mut first }) += rate;
            }
            ratios.push(second / first);
        }
        let (middle, mean) = (Interval::of_symmetric(&ratios), Interval::of_mean(&ratios));
        middle.zip(mean).context("too few quads for an interval")
    }

    /// Commits a second with these settings.
    async fn rate(&mut self, values: &[String], times: Times) -> anyhow::Result<f64> {
        set(&mut self.asked, &VARIABLES, values).await?;
        tokio::time::sleep(times.settle).await;
        updates_per_s(&mut self.asked, times.measure).await
    }
}

/// Updates a second in a window that begins now; each commits.
pub(super) async fn updates_per_s(asked: &mut Conn, window: Duration) -> anyhow::Result<f64> {
    let (begun, before) = updates(asked).await?;
    tokio::time::sleep(window).await;
    let (ended, after) = updates(asked).await?;
    ensure!(after > before, "the load has stopped");
    Ok((after - before) / (ended - begun).as_secs_f64())
}

async fn updates(asked: &mut Conn) -> anyhow::Result<(Instant, f64)> {
    let row: Option<(String, String)> = asked.query_first("SHOW GLOBAL STATUS LIKE 'Com_update'").await?;
    let count = row.and_then(|(_, count)| count.parse().ok()).context("the server counts no updates")?;
    Ok((Instant::now(), count))
}

/// Numbers below `count` in random order; the server rolls the dice.
async fn shuffled(asked: &mut Conn, count: usize) -> anyhow::Result<Vec<usize>> {
    let mut dice: Vec<(f64, usize)> = Vec::new();
    for number in 0..count {
        let die: Option<f64> = asked.query_first("SELECT RAND()").await?;
        dice.push((die.unwrap_or_default(), number));
    }
    dice.sort_by(|one, other| one.0.total_cmp(&other.0));
    Ok(dice.into_iter().map(|(_, number)| number).collect())
}

/// Whether settings that do so much of what the best of a grid does are near enough to it.
pub(super) fn is_near(of_best: Interval) -> Verdict {
    match of_best {
        Interval { low, .. } if low >= LEAST_OF_BEST => Verdict::Reached,
        Interval { high, .. } if high < LEAST_OF_BEST => Verdict::Missed,
        _ => Verdict::Open,
    }
}

/// `1.05 (1.03 to 1.07); mean 1.06 (1.04 to 1.08)`
pub(super) fn ratio_text((middle, mean): (Interval, Interval)) -> String {
    let text = |interval: Interval| {
        format!("{} ({} to {})", short(interval.middle), short(interval.low), short(interval.high))
    };
    format!("{}; mean {}", text(middle), text(mean))
}
