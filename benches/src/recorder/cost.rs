//! The recorder's use of CPU, memory and disk, beside its peers.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use spindoctor_lab::load::Workload;
use spindoctor_record::Recording;

use super::ground::Ground;
use super::looker::{LOOKERS, Looker, Looking, bytes_below, recording};
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// Transactions a second of all clients: each of twenty statements.
const RATE: u32 = 50;
/// All have started, and the recorder's first minute, in which it asks everything, is over.
const WARM_UP: Duration = Duration::from_secs(75);
/// Results are per minute: the recorder's file grows in minutes.
const MINUTE: Duration = Duration::from_secs(60);
/// Its probes a second: ten, but for what a busy machine makes late. Chosen, not derived.
const LEAST_PROBES: f64 = 9.9;
const DAY_S: f64 = 86_400.0;
const MIB: f64 = 1_048_576.0;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorder",
    of: super::OF,
    minutes: 5,
    story: "A MySQL with 1,000 connections: 744 idle, 256 of sysbench's oltp_read_write with 1,000 statements a \
            second in all. `spindoctor record`, with its probe ten times a second and its ring of stacks, \
            dolphie's daemon at one second, Debian's mysqld_exporter, scraped each second as Prometheus would, and \
            pt-stalk look at it at the same time, each as a user of its own. From 75 s after their start on, by \
            the minute: CPU time of the program and all that it starts; what is resident, the most of any second, \
            of spindoctor from its start on; the CPU time of their statements on the server, as the server counts \
            it by user; how much their files grow (the recorder's: pages in use). The exporter keeps nothing, \
            Prometheus would; pt-stalk keeps something after a trigger, which never comes here. How often the \
            recorder probed the server and took a snapshot for its ring is what its recording counts in whole \
            minutes. *CPU together* is that of the program and that of the server for it.",
    run: |bench| Box::pin(run(bench)),
};

/// One that looks, and what was seen of it.
struct Watched {
    looker: Looker,
    label: String,
    looking: Looking,
    core: Vec<f64>,
    server: Vec<f64>,
    resident_mib: Vec<f64>,
    bytes: u64,
}

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut ground = Ground::start(bench, Workload::OltpReadWrite, Some(RATE)).await?;
    let folder = tempfile::Builder::new().prefix("spindoctor-recorder-").tempdir()?;
    let mut all = Vec::new();
    let mut rows = Vec::new();
    for looker in LOOKERS {
        let Some(text) = looker.label(bench) else {
            rows.push(Row::plain(format!("{looker:?}"), "not installed: script/bench installs it"));
            continue;
        };
        ground.admit(looker.user()).await?;
        let looking = looker.start(bench, ground.server.socket(), folder.path())?;
        let (core, server, resident_mib) = (Vec::new(), Vec::new(), Vec::new());
        all.push(Watched { looker, label: text, looking, core, server, resident_mib, bytes: 0 });
    }
    let warm = Instant::now() + WARM_UP;
    while Instant::now() < warm {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for watched in all.iter_mut().filter(|watched| watched.looker == Looker::Record) {
            let (_, resident_mib) = watched.taken()?;
            watched.resident_mib.push(resident_mib);
        }
    }
    for watched in &mut all {
        watched.bytes = watched.kept_bytes()?;
    }
    let begun = Instant::now();
    let minutes = bench.runs.div_ceil(4);
    for minute in 1..=minutes {
        progress(&format!("recorder: minute {minute} of {minutes}"));
        ground.load.check()?;
        watch(&mut ground, &mut all).await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let beside = beside(&all);
    let others = all.iter().filter(|watched| watched.looker != Looker::Record);
    let others = others.map(|watched| (watched.label.clone(), watched.together().median));
    let best = others.min_by(|one, other| one.1.total_cmp(&other.1));
    for watched in all {
        rows.extend(watched.rows(seconds, best.as_ref())?);
    }
    rows.extend(beside);
    ground.stop().await?;
    Ok(rows)
}

/// A minute of all of them.
async fn watch(ground: &mut Ground, all: &mut [Watched]) -> anyhow::Result<()> {
    let mut before = Vec::new();
    for watched in all.iter_mut() {
        let server_s = ground.server_cpu_s(watched.looker.user()).await?;
        before.push((Instant::now(), watched.taken()?.0, server_s));
    }
    let until = Instant::now() + MINUTE;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for watched in all.iter_mut() {
            let (_, resident_mib) = watched.taken()?;
            watched.resident_mib.push(resident_mib);
        }
    }
    for (watched, (begun, cpu_s, server_s)) in all.iter_mut().zip(before) {
        let server_s = ground.server_cpu_s(watched.looker.user()).await? - server_s;
        let cpu_s = watched.taken()?.0 - cpu_s;
        let seconds = begun.elapsed().as_secs_f64();
        watched.core.push(100.0 * cpu_s / seconds);
        watched.server.push(100.0 * server_s / seconds);
    }
    Ok(())
}

/// What ours and its statements take, as a part of what each of the others takes.
fn beside(all: &[Watched]) -> Vec<Row> {
    let ours = all.iter().find(|watched| watched.looker == Looker::Record).map(Watched::together);
    let others = all.iter().filter(|watched| watched.looker != Looker::Record);
    let ratio = |other: &Watched| {
        let ratio = ours.as_ref()?.median / other.together().median;
        let what = format!("CPU together, spindoctor / {}", other.label);
        Some(Row::plain(what, format!("{} times", short(ratio))))
    };
    others.filter_map(ratio).collect()
}

impl Watched {
    /// CPU of the program and of the server for it, percent of a core.
    fn together(&self) -> Spread {
        let minutes: Vec<f64> =
            self.core.iter().zip(&self.server).map(|(core, server)| core + server).collect();
        Spread::from_values(&minutes)
    }

    /// CPU time so far, seconds, and what is resident, MiB.
    fn taken(&mut self) -> anyhow::Result<(f64, f64)> {
        let taken = self.looking.taken().with_context(|| self.label.clone())?;
        Ok((taken.cpu_s, taken.resident_mib))
    }

    /// Bytes that it keeps by now.
    fn kept_bytes(&self) -> anyhow::Result<u64> {
        let folder = &self.looking.folder;
        match self.looker {
            // Pages that are free are written to again.
            Looker::Record => Ok(Recording::open(&recording(folder))?.used_bytes()?),
            _ => Ok(bytes_below(folder)),
        }
    }

    /// `best` is the cheapest of the others, with what it takes of a core.
    fn rows(self, seconds: f64, best: Option<&(String, f64)>) -> anyhow::Result<Vec<Row>> {
        let together = self.together();
        let grown_mib = (self.kept_bytes()? as f64 - self.bytes as f64) / MIB;
        let file = recording(&self.looking.folder);
        let Self { looker, label: text, looking, core, server, resident_mib, .. } = self;
        let (core, server, resident) =
            (Spread::from_values(&core), Spread::from_values(&server), Spread::from_values(&resident_mib));
        looking.end().with_context(|| text.clone())?;
        let mib_a_day = match looker {
            Looker::Record | Looker::Dolphie => Some(grown_mib * DAY_S / seconds),
            Looker::Exporter | Looker::PtStalk => None,
        };
        let (what, cores) = (|what: &str| format!("{text}: {what}"), core.text("% of a core"));
        let memory = format!("{} MiB", short(resident.most));
        let is_ours = looker == Looker::Record;
        let mut rows = match is_ours {
            true => vec![
                Row::goal(what("CPU"), cores, "<= 1 %", core.median <= 1.0),
                Row::goal(what("resident memory"), memory, "<= 48 MiB", resident.most <= 48.0),
            ],
            false => vec![Row::plain(what("CPU"), cores), Row::plain(what("resident memory"), memory)],
        };
        if let Some(mib_a_day) = mib_a_day {
            let kept = format!("{} MiB", short(mib_a_day));
            rows.push(match is_ours {
                true => Row::goal(what("on disk, a day"), kept, "<= 150 MiB", mib_a_day <= 150.0),
                false => Row::plain(what("on disk, a day"), kept),
            });
        }
        rows.push(Row::plain(what("the server's CPU for it"), server.text("% of a core")));
        let measured = together.text("% of a core");
        rows.push(match is_ours {
            true => {
                let row = Row::goal(what("CPU together"), measured, "<= 1 %", together.median <= 1.0);
                match best {
                    Some((name, core)) => {
                        row.beside(format!("{name}: {} % of a core", short(*core)), core / together.median)
                    }
                    None => row,
                }
            }
            false => Row::plain(what("CPU together"), measured),
        });
        if is_ours {
            let (probes, snapshots) = (a_second(&file, "probe")?, a_second(&file, "stacks")?);
            let number = |a_second: Option<f64>| a_second.map_or_else(|| "not counted".to_owned(), short);
            let is_reached = probes.is_some_and(|probes| probes >= LEAST_PROBES);
            let goal = format!(">= {LEAST_PROBES}");
            rows.push(Row::goal(what("probes a second"), number(probes), goal, is_reached));
            rows.push(Row::plain(what("snapshots of its ring a second"), number(snapshots)));
        }
        Ok(rows)
    }
}

/// How often a recorder did what its recording counts under this name, a second, in its whole minutes; None where it has none.
fn a_second(file: &Path, counted: &str) -> anyhow::Result<Option<f64>> {
    let recording = Recording::open(file)?;
    let (from, to) = recording.extent()?.context("nothing was recorded")?;
    // A minute that begins after the first sample is whole, but for the last one.
    let mut minutes = recording.costs(from, to)?;
    minutes.retain(|cost| cost.source == counted);
    minutes.pop();
    let asked: u64 = minutes.iter().map(|cost| cost.asked).sum();
    let seconds = MINUTE.as_secs_f64() * minutes.len() as f64;
    Ok((!minutes.is_empty()).then(|| asked as f64 / seconds))
}
