//! Which statements are examined: those that run while the server is watched, with those that took most time by its summary; or those
//! of the command line.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use spindoctor_collect::dives::{Executed, Running};
use spindoctor_collect::mysql::Target;
use spindoctor_model::stack::Activity;
use spindoctor_sql::{Select, digest as normalised};
use spindoctor_stacks::{Profiler, ProfilerOptions, Taken};

use super::args::Indexes as Asked;
use super::run::{Looker, Refused};
use super::view::{NotExamined, pass_over};
use crate::common::progress::Progress;

/// Of the server's summary, what ran this long before counts, too.
const LATELY: Duration = Duration::from_secs(60);
/// Between two looks at what runs, at least.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Looks take no more than this part of the time: a process list visits every connection.
const LOOKING_AT_MOST: u32 = 20;
/// Between two looks at whether somebody pressed Ctrl-C.
const NAP: Duration = Duration::from_millis(50);
/// Snapshots of the stacks a second, at most: with each look.
const SNAPSHOTS_HZ: f64 = 10.0;
/// Different statements that are remembered.
const MOST_FOUND: usize = 200;

pub(super) fn start_profiler(pid: u32) -> Result<Profiler, String> {
    let options = ProfilerOptions {
        hz: SNAPSHOTS_HZ,
        frames: spindoctor_rules::FRAME_STATES,
        ..ProfilerOptions::default()
    };
    let mut profiler = Profiler::start(pid, options).map_err(|why| why.to_string())?;
    // The first one reads symbols: it makes no look late.
    profiler.snapshot().map_err(|why| why.to_string())?;
    Ok(profiler)
}

/// A snapshot of the threads, each with its statement.
fn snapshot(profiler: &mut Profiler, running: &[Running]) {
    if !matches!(profiler.snapshot(), Ok(Taken::Snapshot(_))) {
        return;
    }
    let activity = |one: &Running| {
        let digest_text = Some(normalised(&one.text));
        Some((one.thread_id?, Activity { digest_text, ..Activity::default() }))
    };
    let by_thread: HashMap<u32, Activity> = running.iter().filter_map(activity).collect();
    profiler.set_activities(&|thread| by_thread.get(&thread).cloned());
}

/// A statement to be examined.
pub(super) struct Found {
    pub(super) digest: String,
    pub(super) schema: String,
    pub(super) select: Select,
    /// How often it was seen in all looks.
    pub(super) seen: u64,
    /// The server's own digest, with what it had counted when the statement was first seen.
    counted: Option<(String, Instant, Executed)>,
    /// Executions a second since then, and the time of one, milliseconds.
    pub(super) rates: Option<(f64, f64)>,
}

/// The statements of the command line.
pub(super) fn given(asked: &Asked, target: &Target, passed: &mut Vec<NotExamined>) -> Vec<Found> {
    let schema = asked.database.clone().or_else(|| target.database.clone()).unwrap_or_default();
    let mut found = Vec::new();
    for text in &asked.statement {
        let digest = normalised(text);
        match Select::parse(text) {
            Ok(select) => {
                found.push(Found {
                    digest,
                    schema: schema.clone(),
                    select,
                    seen: 0,
                    counted: None,
                    rates: None,
                });
            }
            Err(because) => pass_over(passed, because, &digest, 0),
        }
    }
    found
}

impl Looker<'_> {
    /// Watches what runs for as long as was asked for; gives the statements that may be examined. `passed` gets the others.
    pub(super) async fn watch(
        &mut self,
        passed: &mut Vec<NotExamined>,
        mut profiler: Option<&mut Profiler>,
    ) -> anyhow::Result<Vec<Found>> {
        let mut found: Vec<Found> = Vec::new();
        let mut refused: HashMap<String, (String, u64)> = HashMap::new();
        // Samples rarely catch short statements; the server has counted them all.
        self.costliest(LATELY, &mut found, &mut refused).await?;
        let begun = Instant::now();
        let mut snapshot_due = Duration::ZERO;
        let mut bar = Progress::new(self.asked.duration).counting("look", "looks");
        while begun.elapsed() < self.asked.duration {
            let asked_at = Instant::now();
            let running =
                self.dives.running().await.context("the server does not show the running statements")?;
            let took = asked_at.elapsed();
            self.looks += 1;
            if let Some(profiler) = profiler.as_deref_mut().filter(|_| begun.elapsed() >= snapshot_due) {
                snapshot_due = begun.elapsed() + profiler.interval();
                snapshot(profiler, &running);
            }
            for one in running {
                self.seen(&one.schema, &one.text, 1, &mut found, &mut refused).await?;
            }
            bar.show(begun.elapsed(), usize::try_from(self.looks).unwrap_or(usize::MAX));
            let rest = BETWEEN_LOOKS.saturating_sub(took).max(took * LOOKING_AT_MOST);
            let until = Instant::now() + rest.min(self.asked.duration.saturating_sub(begun.elapsed()));
            match profiler.as_deref_mut() {
                Some(profiler) => rest_until(profiler, until).await,
                None => tokio::time::sleep_until(until.into()).await,
            }
        }
        drop(bar);
        self.seconds = begun.elapsed().as_secs_f64();
        self.costliest(self.asked.duration, &mut found, &mut refused).await?;
        for one in &mut found {
            one.rates = self.rates(one).await?;
        }
        for (digest, (because, seen)) in refused {
            pass_over(passed, because, &digest, seen);
        }
        Ok(found)
    }

    /// Adds the statements that took most time lately, by the server's summary.
    async fn costliest(
        &mut self,
        within: Duration,
        found: &mut Vec<Found>,
        refused: &mut HashMap<String, (String, u64)>,
    ) -> anyhow::Result<()> {
        let costliest = self.dives.costliest(within, usize::from(self.asked.top)).await;
        for one in costliest.context("the server stopped answering")? {
            self.seen(&one.schema, &one.text, 0, found, refused).await?;
        }
        Ok(())
    }

    /// Counts a statement that was seen.
    async fn seen(
        &mut self,
        schema: &str,
        text: &str,
        times: u64,
        found: &mut Vec<Found>,
        refused: &mut HashMap<String, (String, u64)>,
    ) -> anyhow::Result<()> {
        if self.asked.grep.as_ref().is_some_and(|grep| !grep.is_match(text)) {
            return Ok(());
        }
        let digest = normalised(text);
        let known = found.iter_mut().find(|one| one.digest == digest && one.schema == schema);
        if let Some(known) = known {
            known.seen += times;
            // Of a list that varies, the longest is examined.
            if text.len() > known.select.text.len()
                && let Ok(select) = Select::parse(text)
            {
                known.select = select;
            }
            return Ok(());
        }
        match Select::parse(text) {
            Ok(select) if found.len() < MOST_FOUND => {
                let counted = self.counted(schema, text).await?;
                found.push(Found {
                    digest,
                    schema: schema.to_owned(),
                    select,
                    seen: times,
                    counted,
                    rates: None,
                });
            }
            Ok(_) => {}
            Err(because) => {
                if refused.len() < MOST_FOUND || refused.contains_key(&digest) {
                    refused.entry(digest).or_insert((because, 0)).1 += times;
                }
            }
        }
        Ok(())
    }

    /// What the server counts of a statement from now on.
    async fn counted(
        &mut self,
        schema: &str,
        text: &str,
    ) -> anyhow::Result<Option<(String, Instant, Executed)>> {
        // Without a default database the server takes no digest of a text that names tables alone.
        let used = self.dives.use_schema(schema).await.map_err(Refused::from);
        if self.settled(used)?.is_err() {
            return Ok(None);
        }
        let digest = self.dives.digest(text).await.context("the server stopped answering")?;
        let Some(digest) = digest else { return Ok(None) };
        let executed = self.dives.executed(schema, &digest).await.context("the server stopped answering")?;
        Ok(executed.map(|executed| (digest, Instant::now(), executed)))
    }

    /// Executions a second and the time of one, milliseconds, since the statement was first seen.
    async fn rates(&mut self, one: &Found) -> anyhow::Result<Option<(f64, f64)>> {
        let Some((digest, since, before)) = &one.counted else { return Ok(None) };
        let seconds = since.elapsed().as_secs_f64();
        let after = self.dives.executed(&one.schema, digest).await.context("the server stopped answering")?;
        Ok(after.and_then(|after| {
            let executions = after.executions - before.executions;
            (executions > 0.0 && seconds > 0.0)
                .then(|| (executions / seconds, (after.seconds - before.seconds).max(0.0) / executions * 1e3))
        }))
    }
}

/// Rests, and keeps reading the CPU samples, whose buffers are small; Ctrl-C works meanwhile.
async fn rest_until(profiler: &mut Profiler, until: Instant) {
    while Instant::now() < until {
        profiler.rest(until.min(Instant::now() + NAP));
        tokio::task::yield_now().await;
    }
}
