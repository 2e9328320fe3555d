//! Ways through the model that can be played on a real server, in which statements are held and let go one by one. What nobody
//! can hold there is taken at once: an EVENT's body, what a server does within a `SET`, what a process does without asking the
//! server before it ends.

use std::collections::HashSet;

use fastrand::Rng;

use crate::state::{At, Back, GuardianAt, Holder, RecoverAt, Run, State, Step};
use crate::steps::GivingBack;

/// A second costs a second.
const MOST_TICKS: usize = 8;
/// Longer ones say no more.
const MOST_STEPS: usize = 120;

/// One way, from the beginning until everybody has ended or waits for good.
pub type Way = Vec<Step>;

/// What kind of step it is: the step, and where who takes it is.
pub fn kind(state: &State, step: Step) -> String {
    match step {
        Step::Tuner(t) => format!("tuner {:?}", state.tuners[usize::from(t)].at),
        Step::Guardian(t) => format!("guardian {:?}", state.guardians[usize::from(t)].at),
        Step::Recover => format!("recover {:?}", state.recover.at),
        Step::Flight(t) => format!("server {:?}", state.flights[usize::from(t)].map(|flight| flight.at)),
        Step::Event(t) => format!("EVENT {:?}", state.event_runs[usize::from(t)].map(|run| run.at)),
        step => format!("{step:?}"),
    }
}

/// So many ways, chosen from many that chance made so that they cover the kinds of steps, and which follows which.
pub fn chosen(model: &GivingBack, seed: u64, count: usize) -> Vec<Way> {
    let mut rng = Rng::with_seed(seed);
    let mut made: Vec<(Way, Vec<(String, String)>)> = Vec::new();
    while made.len() < count * 12 {
        if let Some(way) = walk(model, &mut rng) {
            let mut state = model.begin();
            let mut kinds = vec![String::new()];
            for step in &way {
                kinds.push(kind(&state, *step));
                state = model.after(&state, *step).unwrap_or(state);
            }
            let pairs = kinds.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
            made.push((way, pairs));
        }
    }
    let mut seen = HashSet::new();
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let new = |pairs: &Vec<(String, String)>| pairs.iter().filter(|pair| !seen.contains(*pair)).count();
        let Some(best) = (0..made.len()).max_by_key(|at| new(&made[*at].1)) else { break };
        let (way, pairs) = made.swap_remove(best);
        seen.extend(pairs);
        chosen.push(way);
    }
    chosen
}

/// How many kinds of steps, and how many pairs that follow each other, are in these ways.
pub fn coverage(model: &GivingBack, ways: &[Way]) -> (usize, usize) {
    let (mut kinds, mut pairs) = (HashSet::new(), HashSet::new());
    for way in ways {
        let mut state = model.begin();
        let mut before = String::new();
        for step in way {
            let kind = kind(&state, *step);
            pairs.insert((before, kind.clone()));
            kinds.insert(kind.clone());
            before = kind;
            state = model.after(&state, *step).unwrap_or(state);
        }
    }
    (kinds.len(), pairs.len())
}

/// One way by chance; none where it came to what cannot be played.
fn walk(model: &GivingBack, rng: &mut Rng) -> Option<Way> {
    let mut state = model.begin();
    let mut way = Way::new();
    let mut ticks = 0;
    let mut is_crashed = false;
    while way.len() < MOST_STEPS {
        let mut steps = Vec::new();
        model.candidates(&state, &mut steps);
        let possible: Vec<(Step, State)> = steps
            .into_iter()
            .filter(|step| is_playable(&state, *step, is_crashed))
            .filter_map(|step| Some((step, model.after(&state, step)?)))
            .collect();
        let forced = possible.iter().find(|(step, _)| is_at_once(&state, *step)).cloned();
        let (step, next) = match forced {
            Some(forced) => forced,
            None => {
                let weight = |step: Step| match step {
                    Step::Tuner(_) | Step::Guardian(_) | Step::Recover | Step::Flight(_) | Step::Event(_) => {
                        12
                    }
                    Step::Set(_) => 10,
                    Step::Tick => 12,
                    Step::ContinueTuner(_) | Step::ContinueGuardian(_) | Step::NetworkUp => 3,
                    Step::GiveBack(_) | Step::Keep(_) => 2,
                    _ => 1,
                };
                let total: usize = possible.iter().map(|(step, _)| weight(*step)).sum();
                if total == 0 {
                    break;
                }
                let mut at = rng.usize(..total);
                possible.into_iter().find(|(step, _)| {
                    let weight = weight(*step);
                    let is_it = at < weight;
                    at = at.wrapping_sub(weight);
                    is_it
                })?
            }
        };
        is_crashed |= step == Step::HostCrash;
        if step == Step::Tick {
            ticks += 1;
            if ticks > MOST_TICKS {
                return is_quiet(&state).then_some(way);
            }
            if state.recover.at != RecoverAt::Absent {
                return None;
            }
        }
        // It waits for a guardian that is at work, and kills it after two seconds.
        if step == Step::Tuner(0)
            && state.tuners[0].at == At::Home
            && matches!(state.guardians[0].run, Run::Runs)
            && state.guardians[0].at != GuardianAt::Listens
        {
            return None;
        }
        // Beside a lock of somebody else's nothing is asked before these are taken away.
        let is_beside =
            [next.tuners[0].by, next.guardians[0].by, next.recover.by].contains(&Some(Holder::Stranger));
        if is_beside && next.disk[0].is_some_and(|journal| journal.is_kept || journal.boot != next.boot) {
            return None;
        }
        way.push(step);
        state = next;
        if is_quiet(&state) {
            return Some(way);
        }
    }
    None
}

/// True where everybody has ended, and nothing that is left changes any more.
fn is_quiet(state: &State) -> bool {
    let is_over = |run| matches!(run, Run::Absent | Run::Killed | Run::Ended);
    is_over(state.tuners[0].run)
        && is_over(state.guardians[0].run)
        && state.recover.at == RecoverAt::Absent
        && state.flights[0].is_none()
        && state.network
        && (state.events[0].is_none() || !state.scheduler)
        && state.lock.is_none_or(|lock| lock.holder == Holder::Stranger)
}

/// Steps that follow the one before without anybody being able to come between.
fn is_at_once(state: &State, step: Step) -> bool {
    match step {
        Step::Respawn(_) => true,
        Step::Tuner(_) => {
            let tuner = &state.tuners[0];
            matches!(
                tuner.at,
                At::Guard
                    | At::Journal
                    | At::KeepRemove
                    | At::Home
                    | At::Release
                    | At::Restore(Back::Remove)
                    | At::AwaitEvent
            ) || (tuner.at == At::Regain && state.has_lease(0))
                || (tuner.at == At::Restore(Back::Reread) && tuner.by == Some(Holder::Lease(0)))
                || (tuner.at == At::Restore(Back::Reread) && state.disk[0].is_none())
                || tuner.boot != state.boot
        }
        Step::Guardian(_) => {
            matches!(state.guardians[0].at, GuardianAt::Release | GuardianAt::Back(Back::Remove))
        }
        Step::Recover => {
            state.recover.boot != state.boot
                || matches!(state.recover.at, RecoverAt::AwaitEvent | RecoverAt::Back(_, Back::Remove))
        }
        Step::Event(_) => state.event_runs[0].is_some(),
        Step::Flight(_) => state.flights[0].is_some_and(|flight| flight.at != crate::state::FlightStep::Sent),
        _ => false,
    }
}

/// True where a step can be played on a real server.
fn is_playable(state: &State, step: Step, is_crashed: bool) -> bool {
    let (tuner, guardian) = (&state.tuners[0], &state.guardians[0]);
    let is_taking = matches!(
        tuner.at,
        At::Lock
            | At::AwaitEvent
            | At::Read
            | At::Probe
            | At::Guard
            | At::Journal
            | At::Rehearse
            | At::AwaitRehearsal
            | At::Arm
    );
    let is_back = matches!(guardian.at, GuardianAt::Back(_)) && guardian.run != Run::Ended;
    // The right beside a foreign lock ends after two seconds, of which the model makes the end of one.
    let is_beside = [tuner.by, guardian.by, state.recover.by].contains(&Some(Holder::Stranger));
    // An EVENT's run takes up to a second, which is half of what a silent giver's connection has.
    let gives_back =
        state.lock.is_some_and(|lock| !matches!(lock.holder, Holder::Lease(_) | Holder::Stranger));
    let may_run_event = state.events[0].is_some() && state.scheduler;
    match step {
        Step::StopTuner(_) | Step::StopGuardian(_) | Step::NetworkDown | Step::HostCrash
            if is_beside || (gives_back && may_run_event) =>
        {
            false
        }
        // It would wait for ten seconds.
        Step::Breaks(_) | Step::StartSecond => false,
        // What it hears first is chance.
        Step::ContinueTuner(_) => {
            guardian.run != Run::Runs
                || (guardian.at == GuardianAt::Listens && guardian.silence < 4)
                || is_back
        }
        Step::StopTuner(_) => {
            !matches!(tuner.at, At::Rehearse | At::AwaitRehearsal)
                && guardian.run != Run::Stopped
                && !is_crashed
        }
        Step::StopGuardian(_) => {
            !is_crashed && (tuner.run == Run::Runs || guardian.at != GuardianAt::Listens)
        }
        // It notices within half a second that the lease is lost.
        Step::Set(_) | Step::GiveBack(_) | Step::Keep(_) => {
            state.lock.map(|lock| lock.holder) == Some(Holder::Lease(0)) && tuner.boot == state.boot
        }
        Step::KillTuner(_) => !is_crashed,
        Step::KillGuardian(_) => !is_crashed && state.network,
        Step::NetworkDown => !is_crashed && !is_taking && tuner.run != Run::Ended,
        Step::Restart => {
            !is_back && !is_taking && state.recover.at == RecoverAt::Absent && state.network && !is_crashed
        }
        Step::HostCrash => state.network && !is_taking && state.recover.at == RecoverAt::Absent,
        Step::SchedulerOff => !is_taking,
        Step::StartRecover => {
            state.network
                && state.lock.is_none()
                && matches!(tuner.run, Run::Killed | Run::Ended | Run::Stopped)
        }
        _ => true,
    }
}
