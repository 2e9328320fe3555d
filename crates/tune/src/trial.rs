//! One trial: quads of blocks with the old and the new setting, until the interval decides or the time is up.
//!
//! In: a [`Bench`], a [`Candidate`], and chance as a closure. Out: a [`Trial`], also where it had to end early: then it
//! is inconclusive, and `why` says what happened. The server has the old setting afterwards, if it still accepts one.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::number::whole;
use spindoctor_model::trial::{Budget, TRIAL_SCHEMA};
use spindoctor_model::{Block, Change, ServerVersion, Trial, Verdict};
use tokio::time::Instant;

use crate::bench::{Bench, BlockTimes, Ended, Event, Outcome, Values, Wanted, Writer};
use crate::statistics::budget;
use crate::statistics::drift::Drift;
use crate::statistics::harm::Harm;
use crate::statistics::quads::{Order, Quantity};
use crate::statistics::timing::{Pace, Timing};
use crate::statistics::verdict::{Judgement, Look, Terms, judge};
use crate::sweep::{ENOUGH_TRANSACTIONS, STARVED};
use crate::variables::{Refused, Settles, Variable, find};

/// Quads after which more would not help: the interval for one look is as wide as a fifth of the noise of one quad then.
/// Most trials end long before, when all is known precisely enough.
const MOST_QUADS: u32 = 400;
/// A trial that helps goes on up to so many quads while its interval is wider than [`WIDE`]: the first interval that
/// decides is the widest that can, and two quads more make it half as wide.
const QUADS_TO_HELP: u32 = 12;
/// The end of an interval over its beginning, as a ratio of ratios, from which on it says little of how much.
const WIDE: f64 = 1.25;
/// Quads in a row that were spoilt before the trial is given up.
const MOST_SPOILT: u32 = 3;

/// A change that can be tried on this server, checked against the list of variables.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// As they were proposed, with values as the server prints them.
    pub changes: Vec<Change>,
    /// What is set in old blocks.
    pub old: Values,
    /// What is set in new blocks.
    pub new: Values,
}

impl Candidate {
    /// Checks the changes.
    ///
    /// # Errors
    /// A variable is not on the list or fixed here, or the new value is out of range.
    pub fn checked(changes: &[Change], version: ServerVersion) -> Result<Self, Refused> {
        let mut checked = Self { changes: Vec::new(), old: Vec::new(), new: Vec::new() };
        for change in changes {
            let variable = find(&change.variable)?;
            let to = variable.value(version, &change.to)?;
            checked.old.push((variable, change.from.clone()));
            checked.new.push((variable, to.clone()));
            checked.changes.push(Change {
                variable: variable.name.to_owned(),
                from: change.from.clone(),
                to,
            });
        }
        Ok(checked)
    }

    /// How long the slowest of its variables takes to act.
    pub fn settles(&self) -> Settles {
        slowest(self.new.iter().map(|(variable, _)| *variable))
    }
}

/// The slowest of some variables.
pub fn slowest<'a>(variables: impl Iterator<Item = &'a Variable>) -> Settles {
    let rank = |settles: Settles| match settles {
        Settles::AtOnce => 0,
        Settles::Caches => 1,
        Settles::Flushing => 2,
    };
    variables.map(|variable| variable.settles).max_by_key(|settles| rank(*settles)).unwrap_or(Settles::AtOnce)
}

/// How long blocks and trials last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Settled after each change; none: from the measured autocorrelation.
    pub settle: Option<Duration>,
    /// Measured in each block; none: from the measured autocorrelation.
    pub measure: Option<Duration>,
    /// Whose server it is.
    pub pace: Pace,
}

impl Times {
    /// Those of a block, from the load's own movement.
    pub fn block(&self, series: &[f64], settles: Settles) -> (BlockTimes, Timing) {
        let timing = Timing::from_rates(series, 1.0, settles, self.pace);
        let seconds = Duration::from_secs_f64;
        let times = BlockTimes {
            settle: self.settle.unwrap_or(seconds(timing.settle_s)),
            measure: self.measure.unwrap_or(seconds(timing.measure_s)).max(Duration::from_millis(100)),
        };
        (times, timing)
    }

    /// How long the load is to be looked at before: long enough to see how long it remembers, where that is asked for.
    pub fn look(&self) -> Duration {
        match (self.settle, self.measure) {
            (Some(_), Some(_)) => Duration::from_secs(5),
            // statistics::timing wants 20 rates at least.
            _ => Duration::from_secs(30),
        }
    }
}

/// A trial that is over.
#[derive(Debug)]
pub struct Tried {
    /// What it says.
    pub trial: Trial,
    /// Why it ended early, where it did.
    pub ended: Option<Ended>,
}

/// Compares the new setting with the old one until the interval decides, or until `until`.
///
/// `below` gives a random whole number below its argument.
pub async fn run<W: Writer>(
    bench: &mut Bench<'_, W>,
    candidate: &Candidate,
    times: &Times,
    terms: &Terms,
    until: Instant,
    below: &mut dyn FnMut(usize) -> usize,
) -> Tried {
    let (start, begun) = (Timestamp::now(), bench.elapsed());
    let (block_times, timing) = times.block(bench.series(), candidate.settles());
    let mut under_way = UnderWay {
        candidate,
        times: block_times,
        terms,
        blocks: Vec::new(),
        quad: 0,
        notes: Vec::new(),
        begun,
        look: Look::Cut,
        decided: None,
        budget: None,
    };
    if times.measure.is_none() && timing.is_too_short() {
        under_way.notes.push(format!(
            "the load remembers for {:.0} s, longer than a block can make up for: intervals are wider for it",
            timing.autocorrelation_s
        ));
    }
    let ended = under_way.quads(bench, until, below).await.err();
    let put_back = match &ended {
        // A tuner that lost the lease or the server cannot set anything; the dead man's switch does.
        Some(Ended::Lost(_) | Ended::Restarted | Ended::NotSet(_)) => Ok(()),
        _ => bench.set(&candidate.old).await,
    };
    let ended = ended.or(put_back.err());
    under_way.finish(bench, ended, start)
}

/// A trial that goes on.
struct UnderWay<'a> {
    candidate: &'a Candidate,
    times: BlockTimes,
    terms: &'a Terms,
    blocks: Vec<Block>,
    quad: u32,
    notes: Vec<String>,
    begun: Duration,
    /// How it ended, where no look before decided.
    look: Look,
    /// The look that decided. It is not repeated: the last look's share of the error is for trials that went on to the end.
    decided: Option<Judgement>,
    budget: Option<(Quantity, Budget)>,
}

impl UnderWay<'_> {
    async fn quads<W: Writer>(
        &mut self,
        bench: &mut Bench<'_, W>,
        until: Instant,
        below: &mut dyn FnMut(usize) -> usize,
    ) -> Result<(), Ended> {
        let mut spoilt = 0;
        while self.quad < MOST_QUADS && Instant::now() + 4 * self.times.all() <= until {
            let order = Order::toss(|| below(2) == 1);
            match self.one_quad(bench, order).await? {
                Quad::Whole => spoilt = 0,
                Quad::Spoilt(what) => {
                    spoilt += 1;
                    if spoilt == MOST_SPOILT {
                        self.notes.push(format!("{MOST_SPOILT} quads in a row were spoilt: {what}"));
                        return Ok(());
                    }
                }
                Quad::Harmful => return Ok(()),
            }
            self.quad += 1;
            let judgement = judge(&self.blocks, Look::More, self.terms);
            bench.report(Event::Judged(&judgement));
            let is_enough = self.quad >= QUADS_TO_HELP || !is_wide(&judgement);
            if judgement.verdict.is_some_and(|verdict| verdict != Verdict::Helps || is_enough) {
                self.decided = Some(judgement);
                return Ok(());
            }
            self.plan(bench, until);
        }
        self.look = Look::Last;
        Ok(())
    }

    /// Says once how long it will take by the noise so far.
    fn plan<W: Writer>(&mut self, bench: &mut Bench<'_, W>, until: Instant) {
        let is_first = self.budget.is_none();
        let allowed = (bench.elapsed() - self.begun) + until.saturating_duration_since(Instant::now());
        let quad_s = (4 * self.times.all()).as_secs_f64();
        self.budget = budget::estimate(&self.blocks, quad_s, allowed.as_secs_f64(), self.terms);
        if let Some((of, budget)) = self.budget.as_ref().filter(|_| is_first) {
            bench.report(Event::Note(&budget::words(*of, budget)));
        }
    }

    async fn one_quad<W: Writer>(&mut self, bench: &mut Bench<'_, W>, order: Order) -> Result<Quad, Ended> {
        for is_new in order.is_new() {
            let candidate = self.candidate;
            let wanted = Wanted {
                what: &format!("quad {}", self.quad + 1),
                quad: self.quad,
                is_new,
                values: if is_new { &candidate.new } else { &candidate.old },
                old: &candidate.old,
                times: self.times,
            };
            match bench.block(&wanted).await? {
                Outcome::Measured(mut block) => {
                    block.at_s -= self.begun.as_secs_f64();
                    self.blocks.push(block);
                }
                Outcome::Spoilt(what) => {
                    self.notes.push(format!("quad {} was left out: {what}", self.quad + 1));
                    for block in self.blocks.iter_mut().filter(|block| block.quad == self.quad) {
                        block.left_out = Some(what.clone());
                    }
                    return Ok(Quad::Spoilt(what));
                }
            }
            let margin = self.terms.margins.ln(Quantity::Throughput);
            if is_new && Harm::from_blocks(&self.blocks, margin).is_some() {
                return Ok(Quad::Harmful);
            }
        }
        Ok(Quad::Whole)
    }

    fn finish<W: Writer>(mut self, bench: &Bench<'_, W>, ended: Option<Ended>, start: Timestamp) -> Tried {
        let judgement = self.decided.take().unwrap_or_else(|| judge(&self.blocks, self.look, self.terms));
        let Judgement { verdict, why, effects, quads, judged, missing, is_trade_off } = judgement;
        let (mut verdict, mut why) = (verdict.unwrap_or(Verdict::Inconclusive), why);
        if verdict == Verdict::Inconclusive
            && let Some((of, budget)) = &self.budget
        {
            self.notes.push(budget::words(*of, budget));
        }
        if let Some(ended) = &ended {
            // Whatever the blocks say so far, a trial that was broken off does not speak for a setting.
            if verdict != Verdict::Hurts {
                verdict = Verdict::Inconclusive;
            }
            why = format!("It was broken off: {ended}. {why}");
        }
        self.notes.extend(Drift::from_blocks(&self.blocks).notes());
        self.notes.extend(segment_waits(&self.blocks));
        self.notes.extend(fairness(&self.blocks));
        self.notes.extend(bench.meter().notes().iter().cloned());
        let joined = |pick: fn(&Change) -> &str| {
            let parts: Vec<&str> = self.candidate.changes.iter().map(pick).collect();
            parts.join(",")
        };
        let trial = Trial {
            schema: TRIAL_SCHEMA.to_owned(),
            server: bench.meter().server().clone(),
            start,
            seconds: (bench.elapsed() - self.begun).as_secs_f64(),
            variable: joined(|change| &change.variable),
            from: joined(|change| &change.from),
            to: joined(|change| &change.to),
            changes: self.candidate.changes.clone(),
            verdict,
            why,
            effect: effects,
            judged,
            missing: missing.into_iter().map(|of| of.field().to_owned()).collect(),
            trade_off: is_trade_off,
            budget: self.budget.map(|(_, budget)| budget),
            quads,
            kept: false,
            notes: self.notes,
            blocks: self.blocks,
        };
        Tried { trial, ended }
    }
}

/// The mean over the time of the blocks with one of the two values; none where one of them does not know it.
fn mean(blocks: &[Block], is_new: bool, pick: fn(&Block) -> Option<f64>) -> Option<f64> {
    let counted = blocks.iter().filter(|block| block.is_new == is_new && block.left_out.is_none());
    let (mut sum, mut seconds) = (0.0, 0.0);
    for block in counted {
        sum += pick(block)? * block.seconds;
        seconds += block.seconds;
    }
    (seconds > 0.0).then(|| sum / seconds)
}

/// How evenly connections were served with the old value and with the new one, in a sentence; none where that is not known. One that
/// starves is warned of as in a sweep.
fn fairness(blocks: &[Block]) -> Option<String> {
    let served = |is_new| mean(blocks, is_new, |block| Some(block.fairness?.mean));
    if served(false)?.min(served(true)?) < ENOUGH_TRANSACTIONS {
        return None;
    }
    let least = |is_new| mean(blocks, is_new, |block| block.fairness?.least_ratio());
    let spread = |is_new| mean(blocks, is_new, |block| block.fairness?.sd_ratio());
    let (old, new) = (least(false)?, least(true)?);
    let warning = if new < STARVED * old { ": connections may starve with the new one" } else { "" };
    Some(format!(
        "of the connections that committed, the least served did {old:.2} of their mean with the old value and {new:.2} with the new one, \
         with a standard deviation of {:.2} and {:.2} (performance_schema){warning}",
        spread(false)?,
        spread(true)?
    ))
}

/// The waits for rollback segments with the old value and with the new one, in a sentence; none where they are not known.
fn segment_waits(blocks: &[Block]) -> Option<String> {
    let taken = |is_new| mean(blocks, is_new, |block| block.segment_waits_per_s);
    let (old, new) = (taken(false)?, taken(true)?);
    let times = format!(
        "the mutexes of rollback segments were taken {} times a second with the old value, {} with the new one",
        whole(old),
        whole(new)
    );
    let waited = |is_new| mean(blocks, is_new, |block| block.segment_wait_ms_per_s);
    Some(match (waited(false), waited(true)) {
        (Some(old), Some(new)) => format!(
            "waits for rollback segments: {old:.1} ms a second with the old value, {new:.1} ms with the new one, all sessions together (performance_schema; {times})"
        ),
        _ => format!("waits for rollback segments are counted and not timed: {times} (performance_schema)"),
    })
}

/// True where the interval of throughput says little of how much it is.
fn is_wide(judgement: &Judgement) -> bool {
    let bounds = judgement.effects.throughput.and_then(|effect| Some(effect.high? / effect.low?));
    bounds.is_none_or(|ratio| ratio > WIDE)
}

/// How a quad ended.
enum Quad {
    Whole,
    Spoilt(String),
    /// It was ended early: the new setting loses throughput.
    Harmful,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_rollback_segments_are_compared_where_every_block_knows_them() {
        let block = |is_new, per_s: Option<f64>, ms_per_s: Option<f64>, seconds| Block {
            is_new,
            seconds,
            segment_waits_per_s: per_s,
            segment_wait_ms_per_s: ms_per_s,
            ..Block::default()
        };
        let old =
            [block(false, Some(8_000.0), Some(12.0), 1.0), block(false, Some(9_000.0), Some(15.0), 2.0)];
        let new = [block(true, Some(9_500.0), Some(0.4), 3.0)];
        let note = segment_waits(&[&old[..], &new[..]].concat()).unwrap();
        assert!(note.contains("14.0 ms a second with the old value, 0.4 ms with the new one"), "{note}");
        assert!(note.contains("8667 times a second with the old value, 9500 with the new one"), "{note}");
        // Off is not nothing.
        assert_eq!(segment_waits(&[&old[..], &[block(true, None, None, 3.0)]].concat()), None);
        assert_eq!(segment_waits(&old), None);
        let untimed = segment_waits(&[block(false, Some(1.0), None, 1.0), block(true, Some(2.0), None, 1.0)]);
        assert!(untimed.unwrap().contains("counted and not timed"));
        let left_out = Block { left_out: Some("x".into()), ..block(true, None, None, 1.0) };
        assert!(segment_waits(&[&old[..], &new[..], &[left_out]].concat()).is_some());
    }

    #[test]
    fn how_evenly_connections_are_served_is_compared_and_a_starving_one_is_a_warning() {
        use spindoctor_model::Fairness;
        let block = |is_new, mean: f64, least: u64| Block {
            is_new,
            seconds: 2.0,
            fairness: Some(Fairness { mean, sd: 0.1 * mean, least: Some(least), most: Some(300) }),
            ..Block::default()
        };
        let even = fairness(&[block(false, 200.0, 160), block(true, 250.0, 200)]).unwrap();
        assert!(
            even.contains("did 0.80 of their mean with the old value and 0.80 with the new one"),
            "{even}"
        );
        assert!(even.contains("deviation of 0.10 and 0.10") && !even.contains("starve"), "{even}");
        let starved = fairness(&[block(false, 200.0, 160), block(true, 250.0, 50)]).unwrap();
        assert!(starved.contains("may starve"), "{starved}");
        assert_eq!(fairness(&[block(false, 10.0, 8), block(true, 10.0, 2)]), None, "too few to say");
        assert_eq!(fairness(&[block(false, 200.0, 160)]), None);
        let unknown = Block { is_new: true, seconds: 2.0, ..Block::default() };
        assert_eq!(fairness(&[block(false, 200.0, 160), unknown]), None);
    }
}
