//! The server: statements that are under way, and the EVENT.

use super::GivingBack;
use super::put_back::is_busy;
use crate::state::{Author, Event, EventRun, EventStep, Flight, FlightStep, Run, State, Value, Wrong};

impl GivingBack {
    pub(super) fn flight(&self, state: &mut State, t: usize) -> bool {
        let Some(flight) = state.flights[t] else { return false };
        let is_orphan = matches!(state.tuners[t].run, Run::Killed | Run::Ended);
        if flight.boot != state.boot {
            return false;
        }
        match flight.at {
            FlightStep::Sent => {
                if !state.network {
                    return false;
                }
                let asks = self.protocol.set_asks_for_lease;
                let compares = self.protocol.set_compares;
                let may = !asks || state.has_lease(t);
                let is_expected = (0..self.variables()).all(|i| state.values[i] == flight.expected[i]);
                let holds = may && (is_expected || !compares);
                let at = FlightStep::Evaluated { holds, next: 0 };
                state.flights[t] = Some(Flight { at, ..flight });
            }
            FlightStep::Evaluated { holds, next } => {
                let i = usize::from(next);
                if i < self.variables() {
                    if holds {
                        self.set(state, t, i, flight.value[i]);
                    }
                    let at = FlightStep::Evaluated { holds, next: next + 1 };
                    state.flights[t] = Some(Flight { at, ..flight });
                } else {
                    let at = FlightStep::Done { was_set: holds };
                    state.flights[t] = (!is_orphan).then_some(Flight { at, ..flight });
                }
            }
            FlightStep::Done { .. } => return false,
        }
        true
    }

    /// A variable gets a value that tuner `t` tries.
    pub(super) fn set(&self, state: &mut State, t: usize, i: usize, value: Value) {
        if state.values[i] == value {
            return;
        }
        // A DBA who set the old value, after another or none, gets it back with the trial's end like any other.
        let is_old = state.values[i] == state.tuners[t].journal.original[i];
        if state.author[i] == Author::Dba && state.also[i] == 0 && !is_old {
            state.accuse(Wrong::DbaOverwritten);
        }
        if !self.protocol.set_asks_for_lease && !state.has_lease(t) {
            state.accuse(Wrong::SetWithoutLease);
        }
        state.values[i] = value;
        state.author[i] = Author::Tuner(t as u8);
    }

    pub(super) fn event(&self, state: &mut State, t: usize) -> bool {
        let Some(run) = state.event_runs[t] else {
            let Some(event) = state.events[t] else { return false };
            if !event.is_due || !state.scheduler {
                return false;
            }
            state.events[t] = Some(Event { is_due: false, ..event });
            if event.is_rehearsal {
                if !self.protocol.rehearsal_compares && state.has_lease(t) {
                    for i in 0..self.variables() {
                        self.write_back(state, t, i, event.body.original[i], false);
                    }
                }
                state.events[t] = None;
                return true;
            }
            if self.protocol.event_asks_for_lease && state.has_lease(t) {
                return true;
            }
            let is_restarted = self.protocol.asks_for_restart && event.body.boot != state.boot;
            let at = if is_restarted { EventStep::Drop } else { EventStep::PutBack(0) };
            state.event_runs[t] = Some(EventRun { is_busy: is_busy(state, t), body: event.body, at });
            return true;
        };
        match run.at {
            EventStep::PutBack(next) => {
                let i = usize::from(next);
                let is_ours = run.body.is_ours(i, state.values[i], &self.protocol);
                if is_ours || !self.protocol.event_compares {
                    self.write_back(state, t, i, run.body.original[i], true);
                }
                let at =
                    if i + 1 < self.variables() { EventStep::PutBack(next + 1) } else { EventStep::Drop };
                state.event_runs[t] = Some(EventRun { at, ..run });
            }
            EventStep::Drop => {
                state.event_runs[t] = None;
                let is_left = run.at == EventStep::Drop
                    && run.body.boot == state.boot
                    && (0..self.variables()).any(|i| run.body.is_ours(i, state.values[i], &self.protocol));
                if !(is_left || self.protocol.awaits_flight && run.is_busy) {
                    self.drop_event(state, t, None);
                }
            }
        }
        true
    }
}
