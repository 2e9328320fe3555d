//! Simulated load as a probe sees it: an hour of one shape, with the noise of a busy shared machine, and stalls in it
//! whose beginning and kind are known.
//!
//! Time goes in steps of ten milliseconds. The pace drifts (15 to 30 % from one half second to the next), each step
//! scatters, and every twenty seconds or so everything stops for 50 to 100 ms: half of these stop the whole machine,
//! and the probe with it.

use fastrand::Rng;
use spindoctor_model::{Probe, StallKind};

use crate::judge::Made;

const STEP_S: f64 = 0.01;
const PROBE_EVERY_S: f64 = 0.1;
/// The probe gives an answer up after that long.
const DEADLINE_S: f64 = 1.0;
/// How fast the pace drifts: within half a second to something else.
const DRIFT_OVER_S: f64 = 0.5;

/// What the load does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Sixteen clients, five thousand statements a second.
    Steady,
    /// 256 clients on full CPUs: slow answers, late probes.
    Saturated,
    /// Short statements of a pool: hardly ever more than two run.
    Pool,
    /// Three clients now and then, and a long query sometimes.
    Idle,
    /// Eight threads that compute, then write, then rest.
    Batches,
    /// A job at each full minute runs forty threads and halves the pace of all others.
    Minutely,
}

/// What stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// Every statement waits for a lock; the probe does not.
    Statements,
    /// Commits wait, and reads go on.
    Commits,
    /// The whole server: the probe as well.
    Server,
    /// Sixty threads pile up, and the others go on.
    PileUp,
}

impl Standstill {
    /// The kinds that name it rightly. Where clients come as they please those who wait pile up, too.
    fn kinds(self) -> &'static [StallKind] {
        use StallKind::{CommitsStopped, NoAnswer, ProbeSlow, ThreadsRunning, ThroughputCollapsed};
        match self {
            Self::Statements => &[ThroughputCollapsed, ThreadsRunning],
            Self::Commits => &[CommitsStopped, ThreadsRunning],
            Self::Server => &[ThroughputCollapsed, ProbeSlow, NoAnswer],
            Self::PileUp => &[ThreadsRunning],
        }
    }
}

/// A stall that is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Injected {
    pub(crate) what: Standstill,
    pub(crate) began_s: f64,
    pub(crate) lasts_s: f64,
}

impl Injected {
    pub(crate) fn made(&self) -> Made {
        let ended_s = self.began_s + self.lasts_s;
        Made { kinds: self.what.kinds(), asked_s: self.began_s, held_s: self.began_s, ended_s }
    }

    fn is_at(&self, at_s: f64) -> bool {
        (self.began_s..self.began_s + self.lasts_s).contains(&at_s)
    }
}

/// What is usual is known by then.
const FIRST_S: f64 = 300.0;

/// Stalls of these lengths in turn, each so long after the one before, at any moment between two probes.
pub(crate) fn stalls(
    rng: &mut Rng,
    what: Standstill,
    lengths_s: &[f64],
    every_s: f64,
    until_s: f64,
) -> Vec<Injected> {
    let mut injected = Vec::new();
    let mut at_s = FIRST_S;
    for lasts_s in lengths_s.iter().copied().cycle() {
        let began_s = at_s + rng.f64();
        if began_s + lasts_s + every_s > until_s {
            return injected;
        }
        injected.push(Injected { what, began_s, lasts_s });
        at_s = began_s + lasts_s + every_s;
    }
    injected
}

/// The probes of a load with stalls in it.
pub(crate) fn probes(rng: &mut Rng, shape: Shape, injected: &[Injected], seconds: f64) -> Vec<Probe> {
    let mut server = Server::new(shape);
    let mut probes = Vec::new();
    let mut asked: Option<f64> = None;
    let mut next_s = 0.0;
    let mut answer_s = 0.0;
    for step in 0..(seconds / STEP_S) as u64 {
        let at_s = step as f64 * STEP_S;
        let machine_stands = server.step(rng, at_s, injected);
        if machine_stands {
            continue;
        }
        if asked.is_none() && at_s >= next_s {
            asked = Some(at_s);
            answer_s = server.answer_s(rng);
        }
        let Some(asked_s) = asked else { continue };
        let server_stands =
            injected.iter().any(|stall| stall.what == Standstill::Server && stall.is_at(at_s));
        let answered = !server_stands && at_s + STEP_S >= asked_s + answer_s;
        if answered || at_s - asked_s >= DEADLINE_S {
            let took_s = if answered { answer_s.max(at_s - asked_s) } else { DEADLINE_S };
            probes.push(server.probe(asked_s, took_s, answered));
            asked = None;
            next_s = next_s.max(asked_s) + PROBE_EVERY_S;
            if next_s <= at_s {
                next_s = (at_s / PROBE_EVERY_S).floor() * PROBE_EVERY_S + PROBE_EVERY_S;
            }
        }
    }
    probes
}

struct Server {
    shape: Shape,
    questions: u64,
    commits: u64,
    running: u64,
    drift: f64,
    dip_until_s: f64,
    dip_is_of_machine: bool,
    next_dip_s: f64,
    phase_until_s: f64,
    phase: usize,
    piled_up: f64,
}

impl Server {
    fn new(shape: Shape) -> Self {
        Self {
            shape,
            questions: 1_000_000,
            commits: 100_000,
            running: 0,
            drift: 0.0,
            dip_until_s: 0.0,
            dip_is_of_machine: false,
            next_dip_s: 5.0,
            phase_until_s: 0.0,
            phase: 0,
            piled_up: 0.0,
        }
    }

    /// Ten milliseconds of work; true where the whole machine stood still.
    fn step(&mut self, rng: &mut Rng, at_s: f64, injected: &[Injected]) -> bool {
        let keep = (-STEP_S / DRIFT_OVER_S).exp();
        self.drift = self.drift * keep + normal(rng) * 0.2 * (1.0 - keep * keep).sqrt();
        if at_s >= self.next_dip_s {
            self.dip_until_s = at_s + 0.05 + 0.05 * rng.f64();
            self.dip_is_of_machine = rng.bool();
            self.next_dip_s = at_s + 5.0 + 30.0 * rng.f64();
        }
        let in_dip = at_s < self.dip_until_s;
        let (per_s, running) = self.load(rng, at_s);
        let stalls = |what| injected.iter().any(|stall| stall.what == what && stall.is_at(at_s));
        let all_stand = stalls(Standstill::Statements) || stalls(Standstill::Server);
        let piles_up = stalls(Standstill::PileUp);
        let pace = if in_dip || all_stand { 0.0 } else { (self.drift + 0.1 * normal(rng)).exp() };
        let done = poisson(rng, per_s * STEP_S * pace);
        self.questions += done;
        if !stalls(Standstill::Commits) {
            self.commits += poisson(rng, done as f64 * 0.4);
        }
        // Those who wait add up, as fast as they come, to all clients that there are.
        let waits = all_stand || stalls(Standstill::Commits) || piles_up;
        let most = if piles_up { 60.0 } else { self.clients() };
        self.piled_up = if waits { (self.piled_up + per_s * STEP_S + 6.0).min(most) } else { 0.0 };
        self.running = running.max(self.piled_up) as u64;
        in_dip && self.dip_is_of_machine
    }

    fn clients(&self) -> f64 {
        match self.shape {
            Shape::Saturated => 256.0,
            Shape::Pool => 100.0,
            Shape::Steady | Shape::Minutely => 16.0,
            Shape::Idle => 3.0,
            Shape::Batches => 8.0,
        }
    }

    /// Statements a second, and threads that run.
    fn load(&mut self, rng: &mut Rng, at_s: f64) -> (f64, f64) {
        let between = |rng: &mut Rng, least: f64, most: f64| (least + (most - least) * rng.f64()).round();
        match self.shape {
            Shape::Steady => (5_000.0, between(rng, 4.0, 16.0)),
            Shape::Saturated => (3_000.0, between(rng, 200.0, 256.0)),
            Shape::Pool => (5_000.0, between(rng, 0.0, 2.0)),
            Shape::Idle => {
                if at_s >= self.phase_until_s {
                    self.phase = rng.usize(0..4);
                    self.phase_until_s = at_s + 30.0 * rng.f64();
                }
                (30.0, self.phase as f64)
            }
            Shape::Batches => {
                if at_s >= self.phase_until_s {
                    self.phase = (self.phase + 1) % 3;
                    let longest_s = [12.0, 1.5, 3.0][self.phase];
                    self.phase_until_s = at_s + longest_s * (0.2 + 0.8 * rng.f64());
                }
                [(2.0, 0.0), (2.0, 8.0), (2_000.0, 8.0)][self.phase]
            }
            Shape::Minutely => match at_s % 60.0 {
                second if second < 3.5 => (1_000.0, between(rng, 36.0, 48.0)),
                _ => (2_000.0, between(rng, 2.0, 6.0)),
            },
        }
    }

    fn answer_s(&self, rng: &mut Rng) -> f64 {
        match self.shape {
            Shape::Saturated => (0.008 * normal(rng).exp()).min(0.09),
            _ => (0.001 * (0.5 * normal(rng)).exp()).min(0.02),
        }
    }

    fn probe(&self, at_s: f64, took_s: f64, answered: bool) -> Probe {
        let asked = |value| answered.then_some(value);
        Probe {
            at_s,
            took_ms: took_s * 1e3,
            answered,
            failure: None,
            threads_running: asked(self.running),
            threads_connected: asked(300),
            questions: asked(self.questions),
            commits: asked(self.commits),
            checkpoint_age_bytes: None,
        }
    }
}

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

fn poisson(rng: &mut Rng, mean: f64) -> u64 {
    if mean > 30.0 {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0) as u64;
    }
    let (limit, mut product, mut count) = ((-mean).exp(), rng.f64(), 0);
    while product > limit {
        product *= rng.f64();
        count += 1;
    }
    count
}
