//! What happens from outside: a DBA, a stranger, faults; and time.

use super::{GivingBack, LONG, Place};
use crate::state::{At, Author, FlightStep, Holder, Recover, RecoverAt, Run, State, Step, TUNERS, Value};

impl GivingBack {
    pub(super) fn outside(&self, state: &mut State, step: Step) -> bool {
        self.somebody_comes(state, step) || self.something_fails(state, step)
    }

    /// Somebody starts a process, sets a variable or takes the lock.
    fn somebody_comes(&self, state: &mut State, step: Step) -> bool {
        match step {
            Step::StartRecover => {
                if state.recover.at != RecoverAt::Absent {
                    return false;
                }
                state.recoveries -= 1;
                let own = (0..TUNERS).filter(|t| state.disk[*t].is_some()).fold(0, |own, t| own | 1 << t);
                let boot = state.boot;
                state.recover = Recover { at: RecoverAt::Lock, own, by: None, waited: 0, boot };
            }
            Step::StartSecond => {
                state.second = false;
                state.tuners[1].run = Run::Runs;
                state.tuners[1].boot = state.boot;
            }
            Step::Dba(i, value) => {
                let i = usize::from(i);
                if state.values[i] == value {
                    return false;
                }
                state.dba -= 1;
                self.dba_sets(state, i, value);
            }
            Step::DbaPersist(i) => {
                let i = usize::from(i);
                state.dba -= 1;
                state.persisted[i] = Some(Value::Dba);
                self.dba_sets(state, i, Value::Dba);
            }
            Step::StrangerTakes => {
                if !state.stranger || !state.take_lock(Holder::Stranger) {
                    return false;
                }
                state.stranger = false;
            }
            Step::StrangerReleases => {
                if state.holder() != Some(Holder::Stranger) {
                    return false;
                }
                state.lock = None;
            }
            _ => return false,
        }
        true
    }

    /// A fault, or the end of one.
    fn something_fails(&self, state: &mut State, step: Step) -> bool {
        let running = |run| run == Run::Runs;
        let there = |run| matches!(run, Run::Runs | Run::Stopped);
        match step {
            Step::KillTuner(t) => {
                let tuner = &mut state.tuners[usize::from(t)];
                if !there(tuner.run) {
                    return false;
                }
                tuner.run = Run::Killed;
                self.fault(state);
            }
            Step::KillGuardian(t) => {
                let guardian = &mut state.guardians[usize::from(t)];
                if !there(guardian.run) {
                    return false;
                }
                guardian.run = Run::Killed;
                self.fault(state);
            }
            Step::StopTuner(t) => {
                let tuner = &mut state.tuners[usize::from(t)];
                if !running(tuner.run) {
                    return false;
                }
                tuner.run = Run::Stopped;
                self.fault(state);
            }
            Step::StopGuardian(t) => {
                let guardian = &mut state.guardians[usize::from(t)];
                if !running(guardian.run) {
                    return false;
                }
                guardian.run = Run::Stopped;
                self.fault(state);
            }
            Step::ContinueTuner(t) => {
                let t = usize::from(t);
                if state.tuners[t].run != Run::Stopped {
                    return false;
                }
                state.tuners[t].run = Run::Runs;
                state.overdue = 0;
                // Its line is the first thing that the guardian hears.
                state.guardians[t].silence = 0;
            }
            Step::ContinueGuardian(t) => {
                let guardian = &mut state.guardians[usize::from(t)];
                if guardian.run != Run::Stopped {
                    return false;
                }
                guardian.run = Run::Runs;
                state.overdue = 0;
            }
            Step::NetworkDown => {
                if !state.network {
                    return false;
                }
                state.network = false;
                self.fault(state);
            }
            Step::NetworkUp => {
                if state.network {
                    return false;
                }
                state.network = true;
                state.overdue = 0;
                state.hang_up();
            }
            Step::Restart => {
                if state.boot > 1 {
                    return false;
                }
                state.boot += 1;
                for i in 0..self.variables() {
                    let value = state.persisted[i].unwrap_or(state.configured);
                    state.values[i] = value;
                    state.right[i] = value;
                    state.also[i] = 0;
                    state.author[i] = Author::Nobody;
                }
                state.lock = None;
                state.event_runs = [None; TUNERS];
                state.flights = [None; TUNERS];
                self.fault(state);
            }
            Step::HostCrash => {
                for t in 0..TUNERS {
                    if t == 1 && self.scope.second == Some(Place::OtherHost) {
                        continue;
                    }
                    if there(state.tuners[t].run) {
                        state.tuners[t].run = Run::Killed;
                    }
                    if there(state.guardians[t].run) {
                        state.guardians[t].run = Run::Killed;
                    }
                    if state.disk[t].is_some_and(|journal| !journal.is_durable) {
                        state.disk[t] = None;
                    }
                }
                state.recover.at = RecoverAt::Absent;
                // The server does not learn of it.
                state.faults -= 1;
                state.overdue = 0;
            }
            Step::SchedulerOff => {
                if !state.scheduler {
                    return false;
                }
                state.scheduler = false;
                self.fault(state);
            }
            _ => return false,
        }
        true
    }

    pub(super) fn fault(&self, state: &mut State) {
        state.faults -= 1;
        // The promise counts from what happened last.
        state.overdue = 0;
        state.hang_up();
    }

    pub(super) fn dba_sets(&self, state: &mut State, i: usize, value: Value) {
        state.also[i] = 0;
        for t in 0..TUNERS {
            let tuner = &state.tuners[t];
            let is_there = matches!(tuner.run, Run::Runs | Run::Stopped);
            let memory = (is_there && tuner.at != At::Lock).then_some(tuner.journal);
            let known = [
                state.disk[t],
                state.events[t].map(|event| event.body),
                state.event_runs[t].map(|run| run.body),
                state.guardians[t].journal,
                memory,
            ];
            for journal in known.into_iter().flatten() {
                // Nobody can distinguish the DBA's value from the tuner's; or it comes between the server's look and its change.
                let is_being_set = state.flights[t].is_some_and(|flight| {
                    matches!(flight.at, FlightStep::Evaluated { holds, next } if holds && usize::from(next) <= i)
                });
                if journal.is_ours(i, value, &self.protocol) || is_being_set {
                    state.also[i] |= journal.original[i].bit();
                }
            }
        }
        state.values[i] = value;
        state.right[i] = value;
        state.author[i] = Author::Dba;
    }

    pub(super) fn tick(&self, state: &mut State) -> bool {
        let mut steps = Vec::with_capacity(64);
        self.candidates(state, &mut steps);
        let before = state.clone();
        if steps.iter().any(|step| self.is_urgent(&before, *step) && self.after(&before, *step).is_some()) {
            return false;
        }
        state.overdue = if self.is_due(state) { (state.overdue + 1).min(LONG) } else { 0 };
        let is_mute = state.holder().is_some_and(|holder| state.is_mute(holder));
        if let Some(lock) = &mut state.lock {
            let limit = match lock.holder {
                Holder::Lease(_) => Some(self.protocol.lease_idle_s),
                Holder::Stranger => None,
                _ => self.protocol.back_idle_s,
            };
            lock.silent = if is_mute { (lock.silent + 1).min(LONG) } else { 0 };
            if limit.is_some_and(|limit| lock.silent >= limit) {
                state.lock = None;
            } else if limit.is_none() {
                lock.silent = 0;
            }
        }
        if self.protocol.foreign_right_ends {
            let own = |by: Option<Holder>, own| by.filter(|by| *by == own);
            for t in 0..TUNERS {
                let me = t as u8;
                state.guardians[t].by = own(state.guardians[t].by, Holder::Guardian(me));
                if state.tuners[t].by != Some(Holder::Lease(me)) {
                    state.tuners[t].by = own(state.tuners[t].by, Holder::Writer(me));
                }
            }
            state.recover.by = own(state.recover.by, Holder::Recover);
        }
        for t in 0..TUNERS {
            if let Some(event) = &mut state.events[t] {
                event.is_due = state.scheduler;
            }
            let is_silent = state.tuners[t].run == Run::Stopped;
            let guardian = &mut state.guardians[t];
            if guardian.run == Run::Runs {
                let most = self.protocol.guardian_silence_s;
                guardian.silence = if is_silent { (guardian.silence + 1).min(most) } else { 0 };
            }
            let tuner = &mut state.tuners[t];
            let waits = matches!(tuner.at, At::Lock | At::AwaitEvent | At::AwaitRehearsal | At::Regain);
            if tuner.run == Run::Runs && waits {
                tuner.waited = (tuner.waited + 1).min(LONG);
            }
        }
        if state.recover.at != RecoverAt::Absent {
            state.recover.waited = (state.recover.waited + 1).min(LONG);
        }
        true
    }

    /// True where values are the tuner's that nobody has the right to any more, and somebody is there to put them back.
    pub(crate) fn is_due(&self, state: &State) -> bool {
        (0..TUNERS).any(|t| {
            let is_at_work = state.tuners[t].run == Run::Runs && state.network && state.has_lease(t);
            let is_changed = (0..self.variables())
                .any(|i| state.author[i] == Author::Tuner(t as u8) && !self.is_right(state, i));
            let is_slow = state.flights[t].is_some();
            let event = state.events[t].is_some() && state.scheduler;
            let guardian = state.guardians[t].run == Run::Runs && state.network;
            is_changed && !is_at_work && !is_slow && (event || guardian)
        })
    }

    /// True where a variable has the value that it should have.
    pub(crate) fn is_right(&self, state: &State, i: usize) -> bool {
        state.values[i] == state.right[i] || state.also[i] & state.values[i].bit() != 0
    }
}
