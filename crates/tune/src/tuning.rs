//! From proposals to the kept setting: a race between the candidates, a search around the winner, and a trial of it on
//! fresh quads. Only that trial decides, because luck is part of the search.
//!
//! In: a [`Bench`], proposals in the order in which they are trusted (the model's guess first), and until when. Out: a
//! [`Tuned`]. The server has its old settings afterwards, if it still accepts any; the caller keeps the winner.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::trial::TRIAL_SCHEMA;
use spindoctor_model::{Block, Change, Proposal, Trial, Tuning, Verdict};
use thiserror::Error;
use tokio::time::Instant;

use crate::bench::{Bench, BlockTimes, Ended, Event, Outcome, Values, Wanted, Writer};
use crate::statistics::search::{Race, Standing, score};
use crate::statistics::verdict::{Look, Terms, judge};
use crate::trial::{Candidate, Times, Tried, run as try_candidate, slowest};
use crate::variables::{Values as Range, Variable, find};

/// Quads that the deciding trial should have time for: with three quantities the interval is finite from seven on, and the
/// eighth makes it half as wide.
const QUADS_RESERVED: u32 = 8;
/// Proposals that are raced at first, beside the present settings and all of them together: a round of more takes minutes.
const MOST_PROPOSALS: usize = 5;
/// Neighbours of a winner that are raced with it.
const MOST_NEIGHBOURS: usize = 6;
/// Rounds of the race between the proposals.
const MOST_ROUNDS: usize = 6;
/// Rounds of a race around a winner: the differences there are small, and the deciding trial needs the time.
const MOST_ROUNDS_NEAR: usize = 3;
/// How often the neighbourhood of a winner is searched: each time a value can move by its factor.
const MOST_STEPS: usize = 4;
/// By which factor a number moves from one neighbour to the next.
const FACTOR: u64 = 2;
/// The same for how long a latch spins, whose sensible values span three decades (0.1 to 100 us); a factor of two there
/// is worth less than the noise.
const SPIN_FACTOR: u64 = 8;
/// What decides how long a latch spins. A pause lasts delay times multiplier PAUSEs (`ut_delay` of MySQL 8.0.16 and
/// later), so that these two are one number: the first of them that is changed moves.
const SPIN_PAUSE: [&str; 2] = ["innodb_spin_wait_pause_multiplier", "innodb_spin_wait_delay"];
const SPIN_LOOPS: &str = "innodb_sync_spin_loops";
/// A neighbour takes a winner's place where it leads by this part of what would have sent the winner home: by one
/// standard error or so. That claims nothing, and the deciding trial is against the old settings.
const LEADS_AT: f64 = 0.5;
/// A proposal must be better than the present settings by this much (1 %, the least effect worth having) to help.
const WORTH_HAVING: f64 = 0.01;
/// Rounds in a row that were spoilt before a race is given up.
const MOST_SPOILT: usize = 3;

/// How a tuning ended.
#[derive(Debug)]
pub struct Tuned {
    /// What was found; the caller, who keeps or puts back, fills in `settings`.
    pub tuning: Tuning,
    /// What the deciding trial compared.
    pub candidate: Candidate,
    /// Why it ended early, where it did.
    pub ended: Option<Ended>,
}

/// Why nothing was tried.
#[derive(Debug, Error, Clone)]
pub enum NothingTried {
    /// Nothing that can be tried was proposed.
    #[error("there is nothing to try: {0}")]
    NoCandidate(String),
    /// It ended before a candidate could be chosen.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// How to tune.
#[derive(Debug, Clone, Copy)]
pub struct TuningOptions {
    /// How long blocks last.
    pub times: Times,
    /// What the deciding trial is judged by.
    pub terms: Terms,
    /// When it must be over.
    pub until: Instant,
    /// False: no search, the first proposal is tried as it is.
    pub search: bool,
}

/// Tries what is proposed.
///
/// `below` gives a random whole number below its argument.
///
/// # Errors
/// That there was nothing to try, or no candidate was left before the deciding trial.
pub async fn tune<W: Writer>(
    bench: &mut Bench<'_, W>,
    proposals: &[Proposal],
    options: &TuningOptions,
    below: &mut dyn FnMut(usize) -> usize,
) -> Result<Tuned, NothingTried> {
    let version = bench.meter().version();
    let mut passed_over = Vec::new();
    let mut candidates: Vec<Candidate> = Vec::new();
    for proposal in proposals.iter().filter(|proposal| !proposal.changes.is_empty()) {
        match (&proposal.not_tried, Candidate::checked(&proposal.changes, version)) {
            (Some(why), _) => passed_over.push(format!("{}: {why}", proposal.family)),
            (None, Err(why)) => passed_over.push(format!("{}: {why}", proposal.family)),
            (None, Ok(candidate)) => candidates.push(candidate),
        }
    }
    if candidates.is_empty() {
        let why = match passed_over.as_slice() {
            [] => "no change of a variable is proposed for this server".to_owned(),
            passed_over => passed_over.join("; "),
        };
        return Err(NothingTried::NoCandidate(why));
    }
    let mut search = Search { bench, options, below, trials: Vec::new(), notes: passed_over };
    let chosen = match options.search {
        true => search.choose(candidates).await,
        false => Ok(candidates.swap_remove(0)),
    };
    let Search { trials: searched, notes, .. } = search;
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(ended) => return Err(ended.into()),
    };
    let Tried { mut trial, ended } =
        try_candidate(bench, &chosen, &options.times, &options.terms, options.until, below).await;
    trial.notes.extend(notes);
    trial.notes.push(format!("guard rails: {}", bench.rails().descriptions().join(", ")));
    let tuning = Tuning { decided: trial, proposals: proposals.to_vec(), searched, settings: Vec::new() };
    Ok(Tuned { tuning, candidate: chosen, ended })
}

/// The search, with what it leaves behind.
struct Search<'s, 'b, W> {
    bench: &'s mut Bench<'b, W>,
    options: &'s TuningOptions,
    below: &'s mut dyn FnMut(usize) -> usize,
    trials: Vec<Trial>,
    notes: Vec<String>,
}

/// One setting in a race: what it changes; nothing is the present setting.
#[derive(Debug, Clone, PartialEq)]
struct Arm {
    changes: Vec<Change>,
}

/// A race that is over.
struct Raced {
    standings: Vec<Standing>,
    /// Arms that hit a guard rail.
    tripped: Vec<usize>,
}

impl<W: Writer> Search<'_, '_, W> {
    /// The candidate that deserves the deciding trial.
    async fn choose(&mut self, candidates: Vec<Candidate>) -> Result<Candidate, Ended> {
        let version = self.bench.meter().version();
        let checked = |arm: &Arm| Candidate::checked(&arm.changes, version).ok();
        let mut arms: Vec<Arm> = vec![Arm { changes: Vec::new() }];
        arms.extend(candidates.iter().take(MOST_PROPOSALS).map(|one| Arm { changes: one.changes.clone() }));
        if candidates.len() > MOST_PROPOSALS {
            self.notes.push(format!(
                "{} proposals were not raced, the least urgent ones; `--only` tries one of them",
                candidates.len() - MOST_PROPOSALS
            ));
        }
        let mut best = arms[1].clone();
        if arms.len() > 2 {
            let all: Vec<usize> = (1..arms.len()).collect();
            arms.push(together(&arms, &all));
            let guess = arms.len() - 1;
            match self.race("all proposals", &arms, guess, MOST_ROUNDS).await? {
                None => best = arms[guess].clone(),
                Some(raced) => {
                    let behind =
                        |arm: usize| raced.standings.iter().find(|of| of.arm == arm).map(|of| of.behind);
                    let present = behind(0).unwrap_or(f64::NEG_INFINITY);
                    let helping: Vec<usize> = (1..guess)
                        .filter(|&arm| behind(arm).is_some_and(|behind| behind > present + WORTH_HAVING))
                        .collect();
                    let of_changes = raced.standings.iter().map(|of| of.arm).find(|&arm| arm != 0);
                    // Where the race left none but the present setting, the guess that hit no rail goes into the trial, which says that it is no better.
                    let fallback = (1..arms.len()).rev().find(|arm| !raced.tripped.contains(arm));
                    let Some(winner) = of_changes.or(fallback) else {
                        return Err(Ended::NotSet(
                            "every proposal hit a guard rail; the old settings are back".to_owned(),
                        ));
                    };
                    best = arms[winner].clone();
                    // Those that help alone, together: where one of the others spoils the union of all.
                    if helping.len() > 1 && helping.len() < all.len() && winner != guess {
                        let rivals = [best.clone(), together(&arms, &helping)];
                        if let Some(raced) =
                            self.race("what helps alone, together", &rivals, 1, MOST_ROUNDS_NEAR).await?
                            && let Some(first) = raced.standings.first()
                        {
                            best = rivals[first.arm].clone();
                        }
                    }
                }
            }
        }
        let mut moves = moves(&best);
        for step in 0..MOST_STEPS {
            moves.retain(|way| way.from(&best).is_some_and(|arm| checked(&arm).is_some()));
            moves.truncate(MOST_NEIGHBOURS);
            if moves.is_empty() {
                break;
            }
            let mut rivals = vec![best.clone()];
            rivals.extend(moves.iter().filter_map(|way| way.from(&best)));
            let what = if step == 0 { "around the winner" } else { "further on" };
            let Some(raced) = self.race(what, &rivals, 0, MOST_ROUNDS_NEAR).await? else { break };
            let better = better_than_the_first(&raced.standings);
            let Some(first) = better.first() else { break };
            best = rivals[*first].clone();
            moves = better.iter().map(|arm| moves[arm - 1]).collect();
        }
        checked(&best).ok_or_else(|| Ended::NotSet("the winner's values are refused".to_owned()))
    }

    /// Races arms for so many rounds at most; the first is what the others are compared with in the report. None where
    /// there is no time for a round beside the deciding trial.
    async fn race(
        &mut self,
        what: &str,
        arms: &[Arm],
        guess: usize,
        most_rounds: usize,
    ) -> Result<Option<Raced>, Ended> {
        let (start, begun) = (Timestamp::now(), self.bench.elapsed());
        let variables = variables_of(arms);
        let settles = slowest(variables.iter().map(|(variable, _)| *variable));
        let (times, _) = self.options.times.block(self.bench.series(), settles);
        let until = self.options.until - (4 * QUADS_RESERVED * times.all()).min(self.left());
        let values: Vec<Values> = arms.iter().map(|arm| values(arm, &variables)).collect();
        let plan = RoundPlan { what, values: &values, old: &variables, times };
        let mut race = Race::new(arms.len(), guess);
        let mut measured: Vec<(usize, Block)> = Vec::new();
        let mut tripped: Vec<usize> = Vec::new();
        let mut dropped: Vec<(usize, usize)> = Vec::new();
        let mut spoilt = 0;
        while race.rounds() < most_rounds && !race.is_over() && spoilt < MOST_SPOILT {
            let blocks = 2 * u32::try_from(race.remaining().len()).unwrap_or(u32::MAX);
            if Instant::now() + times.all().saturating_mul(blocks) > until {
                break;
            }
            let order = race.next_round(&mut *self.below).to_vec();
            match self.round(&plan, race.rounds(), &order, &mut tripped).await? {
                Some(round) => {
                    spoilt = 0;
                    let scores: Vec<Option<f64>> =
                        round.iter().map(|block| block.as_ref().and_then(score)).collect();
                    measured.extend(order.iter().zip(round).filter_map(|(arm, block)| Some((*arm, block?))));
                    dropped.extend(race.record(&scores).into_iter().map(|arm| (arm, race.rounds())));
                    self.bench
                        .report(Event::Raced { round: race.rounds(), remaining: race.remaining().len() });
                }
                None => spoilt += 1,
            }
        }
        if race.rounds() == 0 {
            self.notes.push(format!(
                "no time was left to search ({what}): a round takes {:.0} s and the deciding trial {:.0} s; give more with --max-time",
                (times.all() * 2 * u32::try_from(arms.len()).unwrap_or(1)).as_secs_f64(),
                (4 * QUADS_RESERVED * times.all()).as_secs_f64()
            ));
            return Ok(None);
        }
        let standings = race.standings();
        // All of them are compared with the first on the same blocks.
        let candidates = u32::try_from(arms.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let terms = Terms { candidates, ..self.options.terms };
        let report = RaceReport { what, arms, variables: &variables, rounds: race.rounds(), start, terms };
        let seconds = (self.bench.elapsed() - begun).as_secs_f64();
        for arm in 1..arms.len() {
            let standing = standings.iter().find(|standing| standing.arm == arm);
            let fate = match standing {
                Some(of) if standings.first() == Some(of) => "it won the race".to_owned(),
                Some(of) => format!(
                    "it stayed in the race to its end, {:.1} % behind the winner (give or take {:.1} %)",
                    -100.0 * of.behind,
                    100.0 * of.give_or_take
                ),
                None if tripped.contains(&arm) => "it hit a guard rail and dropped out".to_owned(),
                None => {
                    let round =
                        dropped.iter().find(|(dropped, _)| *dropped == arm).map_or(0, |(_, round)| *round);
                    format!("it dropped out after round {round}")
                }
            };
            let mut trial = report.trial(arm, &measured, &fate, begun);
            trial.server = self.bench.meter().server().clone();
            trial.seconds = seconds;
            self.trials.push(trial);
        }
        Ok(Some(Raced { standings, tripped }))
    }

    fn left(&self) -> Duration {
        self.options.until.saturating_duration_since(Instant::now())
    }

    /// One round: the blocks in their order, none for an arm that hit a guard rail. None in all where it was spoilt by
    /// something else.
    async fn round(
        &mut self,
        plan: &RoundPlan<'_>,
        round: usize,
        order: &[usize],
        tripped: &mut Vec<usize>,
    ) -> Result<Option<Vec<Option<Block>>>, Ended> {
        let RoundPlan { values, old, times, .. } = *plan;
        let what = format!("search ({}), round {}", plan.what, round + 1);
        let mut blocks = Vec::with_capacity(order.len());
        for &arm in order {
            if tripped.contains(&arm) {
                blocks.push(None);
                continue;
            }
            let wanted = Wanted {
                what: &what,
                quad: u32::try_from(round).unwrap_or(u32::MAX),
                is_new: values[arm].iter().zip(old).any(|(one, other)| one.1 != other.1),
                values: &values[arm],
                old,
                times,
            };
            match self.bench.block(&wanted).await {
                Ok(Outcome::Measured(block)) => blocks.push(Some(block)),
                Ok(Outcome::Spoilt(why)) => {
                    self.notes.push(format!("{what} was measured again: {why}"));
                    return Ok(None);
                }
                Err(Ended::Tripped(trip)) => {
                    self.notes.push(format!("{what}: {trip}"));
                    tripped.push(arm);
                    blocks.push(None);
                }
                Err(ended) => {
                    if matches!(
                        ended,
                        Ended::Stopped | Ended::LoadGone { .. } | Ended::Trouble(_) | Ended::TimeUp
                    ) {
                        self.bench.set(old).await?;
                    }
                    return Err(ended);
                }
            }
        }
        Ok(Some(blocks))
    }
}

/// What the rounds of one race have in common.
struct RoundPlan<'a> {
    /// Which race it is: `around the winner`.
    what: &'a str,
    /// What each arm sets.
    values: &'a [Values],
    /// The values before the race.
    old: &'a Values,
    times: BlockTimes,
}

/// What the trials of one race have in common.
struct RaceReport<'a> {
    what: &'a str,
    arms: &'a [Arm],
    variables: &'a Values,
    rounds: usize,
    start: Timestamp,
    terms: Terms,
}

impl RaceReport<'_> {
    /// An arm against the first, as a trial that decides nothing.
    fn trial(&self, arm: usize, measured: &[(usize, Block)], fate: &str, begun: Duration) -> Trial {
        let blocks: Vec<Block> = measured
            .iter()
            .filter(|(of, _)| *of == arm || *of == 0)
            .map(|(of, block)| Block {
                is_new: *of == arm,
                at_s: block.at_s - begun.as_secs_f64(),
                ..block.clone()
            })
            .collect();
        // A race ends where its blocks say so: no look of it is planned.
        let judgement = judge(&blocks, Look::Cut, &self.terms);
        let (from, to) = (values(&self.arms[0], self.variables), values(&self.arms[arm], self.variables));
        let changes: Vec<Change> = from
            .iter()
            .zip(&to)
            .filter(|(from, to)| from.1 != to.1)
            .map(|((variable, from), (_, to))| Change {
                variable: variable.name.to_owned(),
                from: from.clone(),
                to: to.clone(),
            })
            .collect();
        let joined = |pick: fn(&Change) -> &str| changes.iter().map(pick).collect::<Vec<_>>().join(",");
        Trial {
            schema: TRIAL_SCHEMA.to_owned(),
            server: spindoctor_model::diagnosis::DiagnosedServer::default(),
            start: self.start,
            seconds: 0.0,
            variable: joined(|change| &change.variable),
            from: joined(|change| &change.from),
            to: joined(|change| &change.to),
            verdict: Verdict::Inconclusive,
            why: format!(
                "Search ({}), {} rounds of {} settings: {fate}. It decides nothing.",
                self.what,
                self.rounds,
                self.arms.len()
            ),
            effect: judgement.effects,
            judged: judgement.judged,
            missing: judgement.missing.into_iter().map(|of| of.field().to_owned()).collect(),
            trade_off: false,
            budget: None,
            quads: judgement.quads,
            kept: false,
            notes: Vec::new(),
            blocks,
            changes,
        }
    }
}

/// Several arms as one; where two change the same variable, the first counts.
fn together(arms: &[Arm], which: &[usize]) -> Arm {
    let mut changes: Vec<Change> = Vec::new();
    for change in which.iter().flat_map(|&arm| &arms[arm].changes) {
        if !changes.iter().any(|known| known.variable == change.variable) {
            changes.push(change.clone());
        }
    }
    Arm { changes }
}

/// Every variable that an arm changes, with its value before.
fn variables_of(arms: &[Arm]) -> Values {
    let mut variables: Vec<(&'static Variable, String)> = Vec::new();
    for change in arms.iter().flat_map(|arm| &arm.changes) {
        if let Ok(variable) = find(&change.variable)
            && !variables.iter().any(|(known, _)| known.name == variable.name)
        {
            variables.push((variable, change.from.clone()));
        }
    }
    variables
}

/// What is set for an arm: every variable of the race, with the arm's value or the one before.
fn values(arm: &Arm, variables: &Values) -> Values {
    let of = |variable: &Variable, before: &str| {
        let changed = arm.changes.iter().find(|change| change.variable == variable.name);
        changed.map_or_else(|| before.to_owned(), |change| change.to.clone())
    };
    variables.iter().map(|(variable, before)| (*variable, of(variable, before))).collect()
}

/// The arms that lead the first by [`LEADS_AT`], the best first; the first itself is none of them.
fn better_than_the_first(standings: &[Standing]) -> Vec<usize> {
    let first = standings.iter().find(|of| of.arm == 0);
    let leads = |of: &&Standing| {
        // Who dropped out was further behind.
        first.is_none_or(|first| of.behind - first.behind > LEADS_AT * first.give_or_take)
    };
    standings.iter().filter(|of| of.arm != 0).filter(leads).map(|of| of.arm).collect()
}

/// A way from one setting to a neighbour: one of its numbers times or by a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    /// Which of the arm's changes.
    at: usize,
    factor: u64,
    is_up: bool,
}

impl Move {
    /// The neighbour, within the variable's range. None where the number does not move. None goes to 0, which means
    /// something else than little with most variables.
    fn from(self, arm: &Arm) -> Option<Arm> {
        let change = arm.changes.get(self.at)?;
        let number = change.to.parse::<u64>().ok()?;
        let Range::Numbers { from, to } = find(&change.variable).ok()?.values else { return None };
        let moved = match self.is_up {
            true => number.saturating_mul(self.factor),
            false => (number / self.factor).max(1),
        };
        let moved = moved.clamp(from, to);
        let is_on_its_way = if self.is_up { moved > number } else { moved < number };
        let mut neighbour = arm.clone();
        neighbour.changes[self.at].to = moved.to_string();
        is_on_its_way.then_some(neighbour)
    }
}

/// The ways to the settings around one: each of its numbers down and up.
fn moves(arm: &Arm) -> Vec<Move> {
    let changes = |name: &str| arm.changes.iter().any(|change| change.variable == name);
    let pause = SPIN_PAUSE.into_iter().find(|name| changes(name));
    let mut moves = Vec::new();
    for (at, change) in arm.changes.iter().enumerate() {
        let name = change.variable.as_str();
        let factor = match name {
            _ if Some(name) == pause || name == SPIN_LOOPS => SPIN_FACTOR,
            _ if SPIN_PAUSE.contains(&name) => continue,
            _ => FACTOR,
        };
        let ways = [false, true].map(|is_up| Move { at, factor, is_up });
        moves.extend(ways.into_iter().filter(|way| way.from(arm).is_some()));
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(changes: &[(&str, &str, &str)]) -> Arm {
        let change = |(variable, from, to): &(&str, &str, &str)| Change {
            variable: (*variable).to_owned(),
            from: (*from).to_owned(),
            to: (*to).to_owned(),
        };
        Arm { changes: changes.iter().map(change).collect() }
    }

    /// The settings around one, as they are written.
    fn around(winner: &Arm) -> Vec<String> {
        let text = |arm: Arm| arm.changes.into_iter().map(|change| change.to).collect::<Vec<_>>().join(" ");
        moves(winner).into_iter().filter_map(|way| way.from(winner)).map(text).collect()
    }

    #[test]
    fn a_winner_has_its_numbers_halved_and_doubled_within_their_range() {
        let winner = arm(&[
            ("innodb_thread_concurrency", "0", "600"),
            ("innodb_log_writer_threads", "ON", "OFF"),
            ("innodb_purge_batch_size", "300", "1"),
            ("innodb_max_purge_lag", "100", "0"),
        ]);
        assert_eq!(around(&winner), ["300 OFF 1 0", "1000 OFF 1 0", "600 OFF 2 0"]);
    }

    #[test]
    fn a_spin_of_delay_times_multiplier_is_one_number_and_moves_far() {
        let winner = arm(&[
            ("innodb_spin_wait_delay", "100", "6"),
            ("innodb_spin_wait_pause_multiplier", "100", "22"),
            ("innodb_sync_spin_loops", "30", "30"),
        ]);
        assert_eq!(around(&winner), ["6 2 30", "6 100 30", "6 22 3", "6 22 240"]);
        assert_eq!(around(&arm(&[("innodb_spin_wait_delay", "100", "6")])), ["1", "48"]);
    }

    #[test]
    fn a_neighbour_leads_from_one_standard_error_on() {
        let standing = |arm, behind, give_or_take| Standing { arm, behind, give_or_take };
        let led = |behind| {
            better_than_the_first(&[
                standing(2, 0.0, 0.0),
                standing(1, -0.01, 0.04),
                standing(0, behind, 0.04),
            ])
        };
        assert_eq!(led(-0.02), [] as [usize; 0]);
        assert_eq!(led(-0.025), [2]);
        assert_eq!(led(-0.035), [2, 1]);
        assert_eq!(better_than_the_first(&[standing(3, 0.0, 0.0)]), [3]);
        assert_eq!(better_than_the_first(&[standing(0, 0.0, 0.0), standing(1, -0.3, 0.1)]), [] as [usize; 0]);
    }

    #[test]
    fn each_arm_sets_every_variable_of_the_race() {
        let arms = [
            arm(&[]),
            arm(&[("innodb_spin_wait_delay", "100", "6")]),
            arm(&[("innodb_sync_spin_loops", "30", "15"), ("innodb_spin_wait_delay", "100", "8")]),
        ];
        let variables = variables_of(&arms);
        let of =
            |at: usize| values(&arms[at], &variables).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(
            (of(0), of(1), of(2)),
            (
                vec!["100".to_owned(), "30".to_owned()],
                vec!["6".to_owned(), "30".to_owned()],
                vec!["8".to_owned(), "15".to_owned()],
            )
        );
        let all = together(&arms, &[1, 2]);
        assert_eq!(all.changes.iter().map(|change| change.to.as_str()).collect::<Vec<_>>(), ["6", "15"]);
    }
}
