//! A server under its load, with settings that may be changed: blocks of time are measured on it, one after the other.
//!
//! In: a [`Meter`] that reads, a [`Writer`] that sets, and how long. Out: [`Block`]s, or why there is none ([`Ended`]).
//! This module holds the clock, the guard rails and all errors while a block runs. Other modules decide which blocks
//! are compared, and what follows.

use std::time::Duration;

use spindoctor_model::Block;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::apply::Settings;
use crate::guard::{Rail, Rails, Trip};
use crate::measure::{Counters, MeasureError, Meter, Rates};
use crate::statistics::verdict::Judgement;
use crate::variables::Variable;

/// What is set in a block: variables with their values.
pub type Values = Vec<(&'static Variable, String)>;

/// From one look at a running block to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Fewer statements a second than this are no load: a quad of a minute would compare 300 with 300, and by chance alone they
/// differ by 8 %.
const LEAST_LOAD_PER_S: f64 = 10.0;
/// A server that answers for so long nothing of what is watched has stopped: no block waits longer for it. Ten times the
/// slowest of those answers on a server with thousands of connections ([`crate::measure`]), and more where its own are slower.
const SILENCE: Duration = Duration::from_secs(5);
/// As many times as the slowest answer before.
const SILENCE_FACTOR: u32 = 3;
/// How long a server that hit a guard rail, or lost its load, may take to be as before.
const RECOVERY: Duration = Duration::from_secs(60);
/// So many seconds in a row within the rails mean that it is as before.
const CALM_SECONDS: u32 = 3;
/// A server that is calm so soon after the old values came back was hurt by the new ones.
const BLAMED_WITHIN: Duration = Duration::from_secs(10);

/// Who changes the server's settings: [`Settings`]; in tests of the engine, whatever keeps the promise.
pub trait Writer {
    /// Sets all of them and reads them back, or none; also where a value is the same as now.
    fn set(&mut self, values: &[(&'static Variable, String)]) -> impl Future<Output = Result<(), String>>;

    /// Why nothing can be set any more, once that is so.
    fn lost(&self) -> Option<String>;

    /// Looks whether everything is as it was set: somebody else may have set something meanwhile.
    fn check(&mut self) -> impl Future<Output = Result<(), String>> {
        std::future::ready(Ok(()))
    }
}

impl Writer for Settings {
    async fn set(&mut self, values: &[(&'static Variable, String)]) -> Result<(), String> {
        Settings::set(self, values).await.map_err(|error| error.to_string())
    }

    fn lost(&self) -> Option<String> {
        Settings::lost(self)
    }

    async fn check(&mut self) -> Result<(), String> {
        Settings::check(self).await.map_err(|error| error.to_string())
    }
}

/// How long a block settles and is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTimes {
    /// After the change, before it is measured.
    pub settle: Duration,
    /// Measured.
    pub measure: Duration,
}

impl BlockTimes {
    /// Both together.
    pub fn all(self) -> Duration {
        self.settle + self.measure
    }
}

/// Why a block, and with it a trial, ended before its time. The server may have either setting then: set the old one.
#[derive(Debug, Error, Clone)]
pub enum Ended {
    /// Somebody asked for it: Ctrl-C, SIGTERM.
    #[error("interrupted")]
    Stopped,
    /// A guard rail was hit with the new setting; the old one is back, and the server is calm again.
    #[error("a guard rail ended it with the new setting: {0}")]
    Tripped(Trip),
    /// A guard rail was hit, and the old setting did not mend it.
    #[error("{0}; that went on with the old setting, so it is not the new one's doing")]
    Trouble(Trip),
    /// Undo grew by more than it may: the tablespaces that were made are to be given back.
    #[error("{0}")]
    UndoFull(Trip),
    /// The load went away, and did not come back.
    #[error("the load went away: {per_s:.1} statements a second are left; run it again when there is load")]
    LoadGone {
        /// Statements a second that are left.
        per_s: f64,
    },
    /// The server was restarted: it has the values that it starts with.
    #[error("the server was restarted in the middle; it has the settings now that it starts with")]
    Restarted,
    /// The server does not answer.
    #[error("the server stopped answering: {0}")]
    Lost(String),
    /// The server did not take the setting, the lease is lost, or somebody else set a variable meanwhile.
    #[error("{0}")]
    NotSet(String),
    /// The time that it had is over; the old setting is to be set.
    #[error("the time that --max-time gives was over")]
    TimeUp,
}

impl From<MeasureError> for Ended {
    fn from(error: MeasureError) -> Self {
        Self::Lost(error.to_string())
    }
}

/// What happens meanwhile, for a line on the terminal.
#[derive(Debug)]
pub enum Event<'a> {
    /// The server is looked at as it is.
    Looking {
        /// For so long.
        seconds: f64,
    },
    /// A block begins.
    Begun(&'a Wanted<'a>),
    /// A block was measured.
    Measured(&'a Block),
    /// A quad is over.
    Judged(&'a Judgement),
    /// A round of the search is over.
    Raced {
        /// Which one, from 1.
        round: usize,
        /// Settings that are still in it.
        remaining: usize,
    },
    /// Something that the user should know.
    Note(&'a str),
}

/// A block that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What it belongs to: `quad 3`, `search, round 2`.
    pub what: &'a str,
    /// Which quad or round, from 0.
    pub quad: u32,
    /// True with the new setting, which may have the same value as the old one.
    pub is_new: bool,
    /// What is set.
    pub values: &'a [(&'static Variable, String)],
    /// What is set at once where a guard rail is hit.
    pub old: &'a [(&'static Variable, String)],
    /// How long it takes.
    pub times: BlockTimes,
}

/// What became of a block.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Block),
    /// The load went away or the server was in trouble, and not by the new setting; it is as before now. The block is to
    /// be measured again, in a new quad. Says what happened.
    Spoilt(String),
}

/// A server, ready to be measured under changing settings.
pub struct Bench<'a, W> {
    meter: &'a mut Meter,
    writer: &'a mut W,
    stop: watch::Receiver<bool>,
    report: &'a mut dyn FnMut(Event<'_>),
    begun: Instant,
    rails: Rails,
    series: Vec<f64>,
    load_per_s: f64,
    last: Option<Counters>,
    /// The slowest answer of the look.
    slowest: Duration,
    /// When it must be over.
    until: Option<Instant>,
}

impl<W> std::fmt::Debug for Bench<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("server", self.meter.server()).finish_non_exhaustive()
    }
}

/// How a stretch of seconds ended.
enum Stretch {
    /// After its time: the readings at its ends.
    Over(Box<(Counters, Counters)>),
    /// At a guard rail.
    Hit(Trip),
}

impl<'a, W: Writer> Bench<'a, W> {
    /// Looks at the server as it is, for so long: what its load does from second to second, and where its guard rails are.
    ///
    /// # Errors
    /// That there is no load, no answer, or that it was interrupted.
    pub async fn open(
        meter: &'a mut Meter,
        writer: &'a mut W,
        look: Duration,
        stop: watch::Receiver<bool>,
        report: &'a mut dyn FnMut(Event<'_>),
    ) -> Result<Self, Ended> {
        let mut seconds: Vec<(Counters, Rates)> = Vec::new();
        let begun = Instant::now();
        report(Event::Looking { seconds: look.as_secs_f64() });
        let mut stop = stop;
        let mut before = meter.read().await?;
        let mut slowest = begun.elapsed();
        let (first, mut next) = (before.clone(), Instant::now());
        while begun.elapsed() < look {
            next += EVERY;
            pause_until(next, &mut stop).await?;
            let asked = Instant::now();
            let now = meter.read().await?;
            slowest = slowest.max(asked.elapsed());
            let rates = now.since(&before).ok_or(Ended::Restarted)?;
            seconds.push((now.clone(), rates));
            before = now;
        }
        let load_per_s = before.since(&first).map_or(0.0, |rates| rates.throughput_per_s);
        if load_per_s < LEAST_LOAD_PER_S {
            return Err(Ended::LoadGone { per_s: load_per_s });
        }
        let rails = Rails::from_baseline(&seconds).ok_or(Ended::LoadGone { per_s: load_per_s })?;
        let series = seconds.iter().map(|(_, rates)| rates.throughput_per_s).collect();
        let (last, until) = (Some(before), None);
        Ok(Self { meter, writer, stop, report, begun, rails, series, load_per_s, last, slowest, until })
    }

    /// Sets when measuring must end: a block that still runs then is broken off.
    pub fn end_at(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Sets the limit of [`Rail::Undo`]: all undo together may take `budget_bytes` more than `bytes_before`.
    pub fn guard_undo(&mut self, bytes_before: u64, budget_bytes: u64) {
        self.rails.guard_undo(bytes_before, budget_bytes);
    }

    /// Sets the values, lets them settle, and measures.
    ///
    /// # Errors
    /// Why the trial has to end. The server may have either setting then.
    pub async fn block(&mut self, wanted: &Wanted<'_>) -> Result<Outcome, Ended> {
        (self.report)(Event::Begun(wanted));
        self.set(wanted.values).await?;
        self.rails.begin();
        let BlockTimes { settle, measure } = wanted.times;
        let at = Instant::now();
        let mut from = None;
        if !settle.is_zero() {
            match self.stretch(at + settle, None).await? {
                Stretch::Over(ends) => from = Some(ends.1),
                Stretch::Hit(trip) => return self.recover(trip, wanted).await.map(Outcome::Spoilt),
            }
        }
        let at_s = self.begun.elapsed().as_secs_f64();
        let ends = match self.stretch(at + settle + measure, from).await? {
            Stretch::Over(ends) => ends,
            Stretch::Hit(trip) => return self.recover(trip, wanted).await.map(Outcome::Spoilt),
        };
        let rates = ends.1.since(&ends.0).ok_or(Ended::Restarted)?;
        let block = Block {
            quad: wanted.quad,
            is_new: wanted.is_new,
            at_s,
            seconds: rates.seconds,
            throughput_per_s: rates.throughput_per_s,
            p95_ms: rates.p95_ms,
            cpu_us_per_query: rates.cpu_us_per_query,
            errors_per_s: rates.errors_per_s,
            loop_ns: rates.loop_ns,
            segment_waits_per_s: rates.segment_waits_per_s,
            segment_wait_ms_per_s: rates.segment_wait_ms_per_s,
            fairness: rates.fairness,
            left_out: None,
        };
        (self.report)(Event::Measured(&block));
        Ok(Outcome::Measured(block))
    }

    /// A guard rail was hit: the old values at once, then calm is waited for. The trip names who caused it.
    async fn recover(&mut self, trip: Trip, wanted: &Wanted<'_>) -> Result<String, Ended> {
        self.set(wanted.old).await?;
        (self.report)(Event::Note(&format!("a guard rail was hit, the old setting is back: {trip}")));
        if trip.rail == Rail::Undo {
            // The old setting takes no byte back; the end of the trial does.
            return Err(Ended::UndoFull(trip));
        }
        let back = Instant::now();
        let (mut calm, mut calm_since) = (0, back);
        self.rails.begin();
        let mut before = self.read().await?;
        let mut next = Instant::now();
        while calm < CALM_SECONDS {
            next += EVERY;
            match self.pause_until(next).await {
                // Whether the server calms down is not waited for: it has the old setting again.
                Err(Ended::TimeUp) if wanted.is_new => return Err(Ended::Tripped(trip)),
                paused => paused?,
            }
            let now = self.read().await?;
            let rates = now.since(&before).ok_or(Ended::Restarted)?;
            if self.rails.is_within(&now, &rates) {
                if calm == 0 {
                    calm_since = Instant::now();
                }
                calm += 1;
            } else {
                calm = 0;
            }
            if back.elapsed() > RECOVERY {
                return Err(match trip.rail {
                    Rail::Collapse => Ended::LoadGone { per_s: rates.throughput_per_s },
                    _ => Ended::Trouble(trip),
                });
            }
            before = now;
        }
        if wanted.is_new && calm_since - back <= BLAMED_WITHIN {
            return Err(Ended::Tripped(trip));
        }
        Ok(match wanted.is_new {
            true => format!("{trip}; that went on for a while with the old setting"),
            false => format!("{trip}, with the old setting"),
        })
    }

    /// Sets values, for a block or at the end.
    ///
    /// # Errors
    /// That they were not taken.
    pub async fn set(&mut self, values: &[(&'static Variable, String)]) -> Result<(), Ended> {
        match self.writer.set(values).await {
            Ok(()) => Ok(()),
            Err(why) => Err(self.why_lost(why).await),
        }
    }

    /// Reads once a second until then, with an eye on the guard rails.
    async fn stretch(&mut self, until: Instant, from: Option<Counters>) -> Result<Stretch, Ended> {
        let first = match from {
            Some(known) => known,
            None => match self.read_or_trip().await? {
                Ok(first) => first,
                Err(trip) => return Ok(Stretch::Hit(trip)),
            },
        };
        let mut before = first.clone();
        let mut next = Instant::now();
        loop {
            next += EVERY;
            // A rest shorter than half a second joins the second before it: rates of moments are noise.
            let due = if until.saturating_duration_since(next) < EVERY / 2 { until } else { next };
            self.pause_until(due).await?;
            if let Some(why) = self.writer.lost() {
                return Err(self.why_lost(why).await);
            }
            if let Err(why) = self.writer.check().await {
                return Err(self.why_lost(why).await);
            }
            let now = match self.read_or_trip().await? {
                Ok(now) => now,
                Err(trip) => return Ok(Stretch::Hit(trip)),
            };
            let rates = now.since(&before).ok_or(Ended::Restarted)?;
            if let Some(trip) = self.rails.check(&now, &rates) {
                return Ok(Stretch::Hit(trip));
            }
            if due == until {
                return Ok(Stretch::Over(Box::new((first, now))));
            }
            before = now;
        }
    }

    /// Sleeps until then, but not beyond the time that it has.
    async fn pause_until(&mut self, instant: Instant) -> Result<(), Ended> {
        match self.until {
            Some(until) if until < instant => {
                pause_until(until, &mut self.stop).await?;
                Err(Ended::TimeUp)
            }
            _ => pause_until(instant, &mut self.stop).await,
        }
    }

    /// A lost lease is most often a restart, which the counters show better.
    async fn why_lost(&mut self, why: String) -> Ended {
        match self.read().await {
            Err(ended @ Ended::Restarted) => ended,
            _ => Ended::NotSet(why),
        }
    }

    /// Reads, or hits the rail: a server that does not answer must not keep the setting that may be the reason.
    async fn read_or_trip(&mut self) -> Result<Result<Counters, Trip>, Ended> {
        let limit = SILENCE.max(SILENCE_FACTOR * self.slowest);
        match timeout(limit, self.read()).await {
            Ok(read) => read.map(Ok),
            Err(_) => {
                self.meter.give_up();
                let (reading, baseline) = (limit.as_secs_f64(), self.slowest.as_secs_f64());
                Ok(Err(Trip { rail: Rail::Silence, reading, limit: reading, baseline }))
            }
        }
    }

    async fn read(&mut self) -> Result<Counters, Ended> {
        let mut stop = self.stop.clone();
        let now = tokio::select! {
            biased;
            () = stopped(&mut stop) => return Err(Ended::Stopped),
            now = self.meter.read() => now?,
        };
        let is_other = self.last.as_ref().is_some_and(|last| now.is_of_another_start(last));
        self.last = Some(now.clone());
        if is_other { Err(Ended::Restarted) } else { Ok(now) }
    }

    /// Statements a second of each second of the look, in order: the load's own movement.
    pub fn series(&self) -> &[f64] {
        &self.series
    }

    /// Statements a second over the look.
    pub fn load_per_s(&self) -> f64 {
        self.load_per_s
    }

    /// What is watched while blocks run.
    pub fn rails(&self) -> &Rails {
        &self.rails
    }

    /// What reads the server's counters.
    pub fn meter(&self) -> &Meter {
        self.meter
    }

    /// Reports to the user.
    pub fn report(&mut self, event: Event<'_>) {
        (self.report)(event);
    }

    /// Since the look began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Sleeps until then, or ends at once when it is to stop.
async fn pause_until(instant: Instant, stop: &mut watch::Receiver<bool>) -> Result<(), Ended> {
    tokio::select! {
        biased;
        () = stopped(stop) => Err(Ended::Stopped),
        () = sleep_until(instant) => Ok(()),
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could ask for it.
        std::future::pending::<()>().await;
    }
}
