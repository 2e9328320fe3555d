//! The most harmful kinds of stalls, on real servers, and the events that `spindoctor record` has of them.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, Signal, kill_process};
use spindoctor_lab::Which;
use spindoctor_lab::scenario::{Scenario, Suffered, with_onset};
use spindoctor_model::{Event, EventHead, Flavor};
use spindoctor_record::Recording;

use crate::page::Row;
use crate::paired::Spread;
use crate::recorder::stall_heads;
use crate::{Bench, Benchmark, progress};

/// The usual values come from a minute of it.
const LEARNS: Duration = Duration::from_secs(75);
/// Stalls that come again every half minute are a habit of the load, and no longer what harms it.
const RESTS: Duration = Duration::from_secs(47);
/// After the last one: an event closes five seconds after its stall, and is then diagnosed.
const ENDS: Duration = Duration::from_secs(15);
/// An event begins within so much of the truth.
const WITHIN: SignedDuration = SignedDuration::from_secs(1);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorded-scenarios",
    of: crate::recorder::OF_ITS_EVENTS,
    minutes: 23,
    story: "The stalls that the second seed names, overload and hung I/O, made on servers that are calm under a \
            steady load: `spindoctor record` runs for 75 s, then the server suffers for 6 to 12 s: once with \
            twelve runs, and with more of them again after 52 s of calm. A stall is caught where there is an event \
            whose first cause is the scenario's label, with stacks from before the clients felt anything, and \
            which begins between a second before the stall was asked for and a second after a client first waited \
            for 200 ms. What was not caught stands in brackets. Other events are those that no stall belongs to.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for scenario in with_onset() {
        for (which, flavor) in [(Which::Mysql, Flavor::Mysql), (Which::Mariadb, Flavor::Mariadb)] {
            if scenario.flavors.contains(&flavor) && bench.wants(scenario.name) {
                rows.extend(suffers(bench, scenario, &which).await?);
            }
        }
    }
    Ok(rows)
}

/// One server, recorded, which suffers again and again.
async fn suffers(bench: &Bench, suffering: &'static Scenario, which: &Which) -> anyhow::Result<Vec<Row>> {
    let scenario = suffering.name;
    let calm = suffering.calm(&bench.home, which, &progress).await?;
    let server = calm.server().version().to_string();
    let folder = tempfile::Builder::new().prefix("spindoctor-recorded-").tempdir()?;
    let file = folder.path().join(format!("{scenario}.rec"));
    let recorder = Recorder::start(bench, calm.server().socket(), &file)?;
    progress(&format!("recorded-scenarios: {scenario} on {server}: learns what is usual"));
    tokio::time::sleep(LEARNS).await;
    let mut all = Vec::new();
    for stall in 0..bench.runs.div_ceil(12) {
        if stall > 0 {
            tokio::time::sleep(RESTS).await;
        }
        all.push(calm.suffer().await?);
    }
    tokio::time::sleep(ENDS).await;
    recorder.end()?;
    calm.stop()?;

    let label = suffering.label.context("a scenario without a label")?;
    let recording = Recording::open(&file)?;
    let heads = stall_heads(&recording)?;
    let (mut late_s, mut missed) = (Vec::new(), Vec::new());
    for suffered in &all {
        match judge(&recording, &heads, suffered, label)? {
            Ok(late) => late_s.push(late),
            Err(why) => missed.push(why),
        }
    }
    let others = heads.iter().filter(|head| all.iter().all(|suffered| !belongs(head, suffered))).count();
    if !missed.is_empty() || others > 0 {
        let kept = folder.keep();
        progress(&format!(
            "recorded-scenarios: {scenario} on {server}: {}: {}; other events: {others}",
            kept.display(),
            if missed.is_empty() { "all caught".to_owned() } else { missed.join("; ") }
        ));
    }
    let text = match missed.is_empty() {
        true => format!("{} of {}", late_s.len(), all.len()),
        false => format!("{} of {} ({})", late_s.len(), all.len(), missed.join("; ")),
    };
    let goal = format!("{} of {}", all.len(), all.len());
    let mut rows = vec![Row::goal(format!("{scenario}, {server}: caught"), text, goal, missed.is_empty())];
    if !late_s.is_empty() {
        rows.push(Row::plain(
            format!("{scenario}, {server}: from when it was felt to the event's beginning"),
            Spread::from_values(&late_s).text("s"),
        ));
    }
    if others > 0 {
        rows.push(Row::plain(format!("{scenario}, {server}: other events"), others.to_string()));
    }
    Ok(rows)
}

/// How much later than the truth the event begins, seconds; or why the stall counts as missed.
fn judge(
    recording: &Recording,
    heads: &[EventHead],
    suffered: &Suffered,
    label: &str,
) -> anyhow::Result<Result<f64, String>> {
    let felt = suffered.felt.unwrap_or(suffered.asked);
    let Some(head) = heads.iter().find(|head| belongs(head, suffered)) else {
        return Ok(Err("no event".to_owned()));
    };
    let late = head.began.duration_since(felt);
    let Event { before, diagnosis, .. } =
        recording.event(head.id)?.with_context(|| format!("event {} is not whole", head.id))?;
    let has_stacks = before.is_some_and(|before| !before.snapshots.is_empty() && before.start <= felt);
    let cause =
        head.cause.as_deref().unwrap_or(if diagnosis.is_some() { "no cause" } else { "no diagnosis" });
    Ok(match () {
        () if cause != label => Err(cause.to_owned()),
        () if head.began < suffered.asked - WITHIN || late > WITHIN => {
            Err(format!("begins {:+.1} s", late.as_secs_f64()))
        }
        () if !has_stacks => Err("no stacks from before".to_owned()),
        () => Ok(late.as_secs_f64()),
    })
}

/// True for an event with a part of this stall in it.
fn belongs(head: &EventHead, suffered: &Suffered) -> bool {
    let ended = head.ended.unwrap_or(Timestamp::MAX);
    head.began <= suffered.ended + WITHIN && ended >= suffered.asked - WITHIN
}

/// A recorder that ends with this.
struct Recorder(Child);

impl Recorder {
    fn start(bench: &Bench, socket: &Path, file: &Path) -> anyhow::Result<Self> {
        let (socket, file) = (socket.display().to_string(), file.display().to_string());
        let arguments = ["record", "--no-defaults", "-u", "root", "-S", &socket, "-o", &file];
        Ok(Self(bench.spindoctor.start(&arguments)?))
    }

    /// Has it write what it has, and end.
    fn end(mut self) -> anyhow::Result<()> {
        ensure!(self.0.try_wait()?.is_none(), "the recorder has ended by itself");
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        ensure!(self.0.wait()?.success(), "the recorder failed");
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}
