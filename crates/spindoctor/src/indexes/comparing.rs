//! Measures what a candidate brings: the statement as it is and as it would be, run by turns.

use std::time::{Duration, Instant};

use spindoctor_collect::dives::{Index, PlanLine};
use spindoctor_collect::mysql::QueryError;
use spindoctor_collect::mysql::optimizer_trace::{How, RangeAnalysis};
use spindoctor_page::number;
use spindoctor_sql::Select;
use spindoctor_tune::statistics::quads::Order;

use super::estimates::{Candidate, Estimates, Try};
use super::run::{Looker, Refused};
use super::trial::{
    Block, Quad, Tried, compared, fingerprint, is_decided, is_quiet, of_a_run, runs_of_block, verdict,
};

/// A statement that is expected to read more rows is not run.
const MOST_ROWS_READ: f64 = 1e6;

/// An answer of more rows is not asked for again and again.
const MOST_ROWS: u64 = 10_000;

/// Quads of a trial, at most: an interval hardly gets narrower behind that.
const MOST_QUADS: usize = 20;

impl Looker<'_> {
    /// Tries a candidate; why not, where nothing came of it.
    pub(super) async fn try_out(
        &mut self,
        select: &Select,
        candidate: &Candidate,
        plan: &[PlanLine],
        indexes: &[(String, Vec<Index>)],
    ) -> anyhow::Result<Result<Tried, String>> {
        let rows: f64 = plan.iter().map(|line| line.rows.unwrap_or(1.0).max(1.0)).product();
        if rows > MOST_ROWS_READ {
            let rows = number::plain(rows.round());
            return Ok(Err(format!("the optimizer expects it to read {rows} rows: it is not run")));
        }
        let tried = self.compare(select, candidate, indexes).await;
        // However it ended, the session is as it was.
        if !self.dives.session().is_broken() {
            let ended = self.dives.end().await;
            let reset = self.dives.set_dive_limit(None).await;
            drop(self.settled(ended.and(reset).map_err(Refused::from))?);
        }
        self.settled(tried)
    }

    async fn compare(
        &mut self,
        select: &Select,
        candidate: &Candidate,
        indexes: &[(String, Vec<Index>)],
    ) -> Result<Tried, Refused> {
        let old = Variant { text: &select.text, limit: None };
        let new = match &candidate.how {
            Try::Text(text) => Variant { text, limit: None },
            Try::Limit(limit) => Variant { text: &select.text, limit: Some(*limit) },
        };
        let others_per_s = self.others().await?;
        let begun = Instant::now();

        self.dives.begin().await?;
        let (_, rows) = self.dives.run(old.text).await?;
        let answer = fingerprint(&rows);
        if answer.0 > MOST_ROWS {
            let rows = number::plain(answer.0 as f64);
            return Err(Refused::Because(format!(
                "its answer has {rows} rows: it is not run again and again"
            )));
        }
        let (warm, _) = self.dives.run(old.text).await?;
        let counted = self.dives.run_counted(old.text).await?;
        self.dives.set_dive_limit(new.limit).await?;
        let (rows, traced) = self.dives.run_traced(new.text).await?;
        self.trial_runs += 3 + u64::from(counted.is_some());
        if fingerprint(&rows) != answer {
            return Err(Refused::Because(other_rows(select)));
        }
        let (dives, skipped) = dives_of(select, traced, indexes, new.limit.unwrap_or(self.limit));
        self.dives.end().await?;

        let runs = runs_of_block(warm.as_secs_f64());
        let mut quads = Vec::new();
        let mut same_rows = true;
        while quads.len() < MOST_QUADS
            && begun.elapsed() < self.asked.try_time
            && !is_decided(&quads)
            && same_rows
        {
            let mut quad = Quad::default();
            let (mut olds, mut news) = (0, 0);
            self.dives.begin().await?;
            // The rows are those of this transaction.
            let mut answer = None;
            for is_new in Order::toss(fastrand::bool).is_new() {
                let variant = if is_new { &new } else { &old };
                let (block, same) = self.block(variant, runs, others_per_s, &mut answer).await?;
                same_rows &= same;
                let (blocks, at) =
                    if is_new { (&mut quad.new, &mut news) } else { (&mut quad.old, &mut olds) };
                blocks[*at] = block;
                *at += 1;
            }
            self.dives.end().await?;
            quads.push(quad);
        }
        if !same_rows {
            return Err(Refused::Because(other_rows(select)));
        }
        let time_ms = compared(&quads, |block| Some(block.run_s * 1e3)).ok_or_else(|| {
            Refused::Because("there was no time for a single quad; --try-time 10s".to_owned())
        })?;
        // Others may have begun, or woken up, meanwhile.
        let others_per_s = others_per_s.max(self.others().await?);
        let pages = compared(&quads, |block| block.pages)
            .filter(|pages| is_quiet(pages.before, time_ms.before, others_per_s))
            .filter(|pages| is_quiet(pages.after, time_ms.after, others_per_s));
        Ok(Tried {
            quads: quads.len() as u64,
            runs: 4 * quads.len() as u64 * u64::from(runs),
            same_rows,
            rows: answer.0,
            dives,
            skipped,
            time_ms,
            pages,
            pages_from_disk: pages.and(compared(&quads, |block| block.from_disk)),
            verdict: verdict(&quads),
            pages_for_rows: counted.map(|counted| counted.requested),
            pages_not_counted: pages.is_none().then(|| why_no_pages(others_per_s)),
        })
    }

    /// A block of runs; false where one had other rows than those before it.
    async fn block(
        &mut self,
        variant: &Variant<'_>,
        runs: u32,
        others_per_s: f64,
        answer: &mut Option<(u64, u64)>,
    ) -> Result<(Block, bool), QueryError> {
        self.dives.set_dive_limit(variant.limit).await?;
        let (before, begun) = (self.dives.pages().await?, Instant::now());
        let mut time = Duration::ZERO;
        let mut is_same = true;
        for _ in 0..runs {
            let (took, rows) = self.dives.run(variant.text).await?;
            time += took;
            let found = fingerprint(&rows);
            is_same &= *answer.get_or_insert(found) == found;
        }
        let (took_s, after) = (begun.elapsed().as_secs_f64(), self.dives.pages().await?);
        self.trial_runs += u64::from(runs);
        let run_s = time.as_secs_f64() / f64::from(runs);
        let pages = of_a_run(after.requested - before.requested, runs, took_s, others_per_s);
        let from_disk = pages.map(|_| ((after.from_disk - before.from_disk) / f64::from(runs)).max(0.0));
        Ok((Block { run_s, pages, from_disk }, is_same))
    }
}

/// What is run.
struct Variant<'a> {
    text: &'a str,
    limit: Option<u64>,
}

/// Ranges that were looked up for a run, and whether dives were skipped for a forced index; by the run's own trace.
fn dives_of(
    select: &Select,
    traced: Result<Vec<RangeAnalysis>, String>,
    indexes: &[(String, Vec<Index>)],
    limit: u64,
) -> (Option<u64>, bool) {
    let Ok(analyses) = traced else { return (None, false) };
    let skipped = analyses.iter().flat_map(|one| &one.indexes).any(|one| one.how == Some(How::Skipped));
    (Some(Estimates::from_analyses(select, &analyses, &[], indexes, limit).dives), skipped)
}

/// Why pages are not counted.
pub(super) fn why_no_pages(others_per_s: f64) -> String {
    format!(
        "no session has its own count of pages, and others ask for {} pages a second meanwhile: try a quiet server or a replica",
        number::plain(others_per_s.round())
    )
}

fn other_rows(select: &Select) -> String {
    match select.has_limit && !select.is_ordered {
        true => "the rows are others: LIMIT without ORDER BY takes those that a plan finds first".to_owned(),
        false => "the rows are not the same".to_owned(),
    }
}
