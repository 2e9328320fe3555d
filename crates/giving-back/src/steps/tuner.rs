//! The tuner: it takes settings, changes them, keeps them or gives them back.

use super::put_back::Next;
use super::{GivingBack, LEFTOVER, LOCK_WAIT, NEW_GUARDIAN, NO_JOURNAL, PUT_BACK, Place, REHEARSAL};
use crate::state::{
    At, Author, Back, Event, Flight, FlightStep, GuardianAt, Holder, Journal, MOST_VARIABLES, Run, State,
    Step, Tuner, Value, Wrong,
};

impl GivingBack {
    pub(super) fn idle(&self, state: &mut State, t: usize, step: Step) -> bool {
        let tuner = &mut state.tuners[t];
        if tuner.run != Run::Runs || tuner.at != At::Idle {
            return false;
        }
        match step {
            Step::Set(_) if tuner.sets < self.scope.sets => {
                let value = wanted(tuner);
                let is_known = value[..self.variables()] == tuner.journal.original[..self.variables()];
                for (set, value) in tuner.journal.set.iter_mut().zip(value) {
                    *set |= value.bit();
                }
                tuner.journal.is_changing = true;
                tuner.at = match (is_known || !self.protocol.announces, self.protocol.looks_before_announcing)
                {
                    (true, _) => At::Send,
                    (false, true) => At::Look,
                    (false, false) => At::Announce,
                };
                true
            }
            Step::GiveBack(_) => {
                tuner.at = At::Regain;
                true
            }
            Step::Keep(_) if tuner.sets > 0 => {
                tuner.at = At::LookToKeep;
                true
            }
            _ => false,
        }
    }

    pub(super) fn respawn(&self, state: &mut State, t: usize) -> bool {
        let tuner = &state.tuners[t];
        let has_ended = matches!(state.guardians[t].run, Run::Killed | Run::Ended);
        let is_over = matches!(tuner.at, At::Home | At::Release | At::End);
        if tuner.run != Run::Runs || !tuner.has_guardian || !has_ended || is_over || !state.network {
            return false;
        }
        state.guardians[t] = NEW_GUARDIAN;
        true
    }

    /// No answer for ten seconds: the server has closed the lease's connection long since.
    pub(super) fn breaks(&self, state: &mut State, t: usize) -> bool {
        let is_waiting = matches!(
            state.tuners[t].at,
            At::Look
                | At::LookLease
                | At::Alter
                | At::Send
                | At::ReadBack
                | At::AlterBack
                | At::LookToKeep
                | At::AskToKeep
                | At::KeepDrop
                | At::Restore(_)
        );
        if state.network || state.has_lease(t) || state.tuners[t].run != Run::Runs || !is_waiting {
            return false;
        }
        self.fails(state, t);
        true
    }

    /// A tuner's statement failed with its connection.
    pub(super) fn fails(&self, state: &mut State, t: usize) {
        let me = t as u8;
        if state.tuners[t].at == At::KeepDrop {
            state.tuners[t].journal.is_kept = false;
            self.save(state, t, false);
        }
        if !matches!(state.tuners[t].at, At::ReadBack | At::Restore(_)) && state.flights[t].is_none() {
            // Nothing was sent.
        } else if state.tuners[t].at == At::ReadBack {
            state.tuners[t].is_uncertain = true;
        }
        state.tuners[t].at = At::Regain;
        state.tuners[t].waited = 0;
        if state.network {
            state.release(Holder::Writer(me));
        }
    }

    /// Writes what a tuner remembers; false where the file is gone and is not made again.
    pub(super) fn save(&self, state: &mut State, t: usize, is_first: bool) -> bool {
        if !is_first && self.protocol.save_needs_file && state.disk[t].is_none() {
            return false;
        }
        if state.tuners[t].is_closed {
            state.accuse(Wrong::JournalRaised);
        }
        state.disk[t] = Some(Journal { is_durable: self.protocol.syncs, ..state.tuners[t].journal });
        true
    }

    pub(super) fn tuner(&self, state: &mut State, t: usize) -> bool {
        if state.tuners[t].run != Run::Runs {
            return false;
        }
        let at = state.tuners[t].at;
        match at {
            // What needs no server.
            At::End => false,
            At::Journal | At::Announce | At::Settle | At::Retract | At::Keep | At::KeepRemove | At::Home => {
                self.tuner_alone(state, t, at)
            }
            At::Restore(Back::Remove) => {
                state.remove_journal(t);
                state.tuners[t].at = At::Home;
                true
            }
            // Where there is no EVENT, nothing is asked of the server.
            At::Alter | At::AlterBack | At::KeepDrop | At::Restore(Back::DropEvent)
                if !state.tuners[t].journal.has_event && self.protocol.event_goes_last =>
            {
                state.tuners[t].at = match at {
                    At::Alter => At::Send,
                    At::AlterBack => At::Regain,
                    At::KeepDrop if self.protocol.keep_asks_again => At::AskAgain,
                    At::KeepDrop => {
                        self.kept(state, t);
                        At::KeepRemove
                    }
                    _ => At::Restore(Back::Remove),
                };
                true
            }
            At::Clear(Back::Remove) => {
                state.remove_journal(1 - t);
                state.tuners[t].at = At::AwaitEvent;
                state.tuners[t].waited = 0;
                true
            }
            _ if !state.network => false,
            At::Idle => {
                // A heartbeat that fails, or a look at the values.
                let is_lost = !state.has_lease(t) || state.tuners[t].boot != state.boot;
                let is_foreign = (0..self.variables()).any(|i| state.values[i] != state.tuners[t].current[i]);
                if is_lost || is_foreign {
                    state.tuners[t].at = At::Regain;
                }
                is_lost || is_foreign
            }
            _ if state.tuners[t].boot != state.boot => self.lost_connection(state, t),
            _ => self.tuner_on_server(state, t, at),
        }
    }

    pub(super) fn tuner_alone(&self, state: &mut State, t: usize, at: At) -> bool {
        let me = t as u8;
        match at {
            At::Journal => {
                self.save(state, t, true);
                state.tuners[t].at = At::Idle;
                if state.scheduler {
                    // Before it is on the server.
                    state.tuners[t].journal.has_event = true;
                    self.save(state, t, false);
                    state.tuners[t].at = At::Rehearse;
                }
            }
            At::Announce => state.tuners[t].at = or_regain(self.save(state, t, false), At::Alter),
            At::Settle => state.tuners[t].at = or_regain(self.save(state, t, false), At::AlterAgain),
            At::Retract => state.tuners[t].at = or_regain(self.save(state, t, false), At::AlterBack),
            At::Keep => {
                state.tuners[t].journal.is_kept = true;
                if self.save(state, t, false) {
                    // From here on both are right, until it is done.
                    for i in 0..self.variables() {
                        if state.author[i] == Author::Tuner(me) {
                            state.also[i] |= state.values[i].bit();
                        }
                    }
                    state.tuners[t].at = At::KeepDrop;
                } else {
                    state.tuners[t].journal.is_kept = false;
                    state.tuners[t].at = At::Regain;
                }
            }
            At::KeepRemove => {
                state.remove_journal(t);
                state.tuners[t].keeps = true;
                state.tuners[t].at = At::Home;
            }
            At::Home => {
                let guardian = &mut state.guardians[t];
                if guardian.run == Run::Runs && guardian.at == GuardianAt::Listens {
                    guardian.run = Run::Ended;
                } else if guardian.run == Run::Stopped {
                    // It is killed after a while.
                    guardian.run = Run::Killed;
                    state.hang_up();
                }
                state.tuners[t].at = At::Release;
            }
            _ => return false,
        }
        true
    }

    /// What a tuner does when the server was restarted under its connections.
    pub(super) fn lost_connection(&self, state: &mut State, t: usize) -> bool {
        let boot = state.boot;
        state.flights[t] = None;
        state.tuners[t].boot = boot;
        match state.tuners[t].at {
            At::Lock => {}
            At::Clear(_) | At::AwaitEvent | At::Read | At::Probe | At::Guard => self.end(state, t),
            At::Release => self.end(state, t),
            At::AskAgain => state.tuners[t].at = At::KeepRemove,
            _ => self.fails(state, t),
        }
        true
    }

    /// The process ends: its connections and its pipe are closed.
    pub(super) fn end(&self, state: &mut State, t: usize) {
        state.tuners[t].at = At::End;
        state.tuners[t].run = Run::Ended;
        state.hang_up();
    }

    pub(super) fn tuner_on_server(&self, state: &mut State, t: usize, at: At) -> bool {
        match at {
            At::Lock
            | At::Clear(_)
            | At::AwaitEvent
            | At::Read
            | At::Probe
            | At::Guard
            | At::Rehearse
            | At::AwaitRehearsal
            | At::Arm => self.takes(state, t, at),
            At::Look
            | At::LookToKeep
            | At::LookLease
            | At::Alter
            | At::AlterAgain
            | At::AlterBack
            | At::Send
            | At::ReadBack => self.changes(state, t, at),
            _ => self.keeps_or_gives_back(state, t, at),
        }
    }

    /// From the lock to the EVENT that is armed.
    fn takes(&self, state: &mut State, t: usize, at: At) -> bool {
        let me = t as u8;
        let sees_other = self.scope.second == Some(Place::SameHost);
        match at {
            At::Lock => {
                if state.take_lock(Holder::Lease(me)) {
                    let is_left = sees_other && self.protocol.clears_up && state.disk[1 - t].is_some();
                    state.tuners[t].at = if is_left { At::Clear(Back::Reread) } else { At::AwaitEvent };
                    state.tuners[t].waited = 0;
                } else if state.tuners[t].waited > LOCK_WAIT {
                    self.end(state, t);
                } else {
                    return false;
                }
            }
            At::Clear(back) => {
                let journal = state.disk[1 - t];
                match self.back(state, 1 - t, back, journal, Some(Holder::Lease(me))) {
                    Next::On(back) => state.tuners[t].at = At::Clear(back),
                    Next::Gone => {
                        state.tuners[t].at = At::AwaitEvent;
                        state.tuners[t].waited = 0;
                    }
                    Next::Again if state.has_lease(t) => state.tuners[t].at = At::Clear(Back::Reread),
                    Next::Again => self.end(state, t),
                    Next::Waits => return false,
                }
            }
            At::AwaitEvent => {
                // Where something was cleared up, a process that gave back beside this lease has ended after a second.
                if self.protocol.foreign_right_ends
                    && sees_other
                    && state.tuners[t].waited == 0
                    && state.tuners[1 - t].run != Run::Absent
                {
                    return false;
                }
                // A body that has begun ends within milliseconds: before another tuner has taken what it needs.
                if state.events.iter().all(Option::is_none) && state.event_runs.iter().all(Option::is_none) {
                    state.tuners[t].at = At::Read;
                } else if state.tuners[t].waited > LEFTOVER {
                    self.end(state, t);
                } else {
                    return false;
                }
            }
            At::Read => {
                let (values, boot) = (state.values, state.boot);
                let tuner = &mut state.tuners[t];
                tuner.journal = Journal { original: values, boot, ..NO_JOURNAL };
                tuner.current = values;
                tuner.at = At::Probe;
                if state.has_lease(t) {
                    // What a DBA set before is an old value like any other.
                    state.author = [Author::Nobody; MOST_VARIABLES];
                }
            }
            At::Probe => {
                let original = state.tuners[t].journal.original;
                let stands = (0..self.variables()).all(|i| state.values[i] == original[i]);
                if !self.protocol.probe_compares {
                    for (i, value) in original.into_iter().enumerate().take(self.variables()) {
                        self.write_back(state, t, i, value, false);
                    }
                } else if !stands || !state.has_lease(t) {
                    self.end(state, t);
                    return true;
                }
                state.tuners[t].at = At::Guard;
            }
            At::Guard => {
                state.guardians[t] = NEW_GUARDIAN;
                state.tuners[t].has_guardian = true;
                state.tuners[t].at = At::Journal;
            }
            At::Rehearse => {
                let body = state.tuners[t].journal;
                if !self.protocol.own_event_names && state.events.iter().any(Option::is_some) {
                    state.tuners[t].at = At::Regain;
                } else {
                    state.events[t] = Some(Event { body, is_rehearsal: true, is_due: false });
                    state.tuners[t].at = At::AwaitRehearsal;
                    state.tuners[t].waited = 0;
                }
            }
            At::AwaitRehearsal => {
                if state.events[t].is_none() {
                    state.tuners[t].at = At::Arm;
                } else if state.tuners[t].waited > REHEARSAL {
                    // The guardian alone.
                    self.drop_event(state, t, Some(t));
                    state.tuners[t].journal.has_event = false;
                    self.save(state, t, false);
                    state.tuners[t].at = At::Idle;
                } else {
                    return false;
                }
            }
            At::Arm => {
                let body = state.tuners[t].journal;
                let is_taken = !self.protocol.own_event_names && state.events[1 - t].is_some();
                if !is_taken {
                    state.events[t] = Some(Event { body, is_rehearsal: false, is_due: false });
                }
                state.tuners[t].at = or_regain(!is_taken, At::Idle);
            }
            _ => return false,
        }
        true
    }

    /// From the look at the values to reading them back; keeping begins with the same look.
    fn changes(&self, state: &mut State, t: usize, at: At) -> bool {
        match at {
            At::Look | At::LookToKeep => {
                let current = state.tuners[t].current;
                let stands = (0..self.variables()).all(|i| state.values[i] == current[i]);
                let then = if at == At::Look { At::LookLease } else { At::AskToKeep };
                if at == At::Look && !stands {
                    self.forget(&mut state.tuners[t]);
                }
                state.tuners[t].at = or_regain(stands, then);
            }
            At::LookLease => {
                if !state.has_lease(t) {
                    self.forget(&mut state.tuners[t]);
                }
                state.tuners[t].at = or_regain(state.has_lease(t), At::Announce);
            }
            At::Alter | At::AlterAgain | At::AlterBack => {
                let body = state.tuners[t].journal;
                let then = match at {
                    At::Alter => At::Send,
                    At::AlterBack => At::Regain,
                    _ => At::Idle,
                };
                if !body.has_event {
                    state.tuners[t].at = then;
                } else if let Some(event) = self.event_named(state, t) {
                    *event = Event { body, ..*event };
                    state.tuners[t].at = then;
                } else {
                    state.tuners[t].at = At::Regain;
                }
            }
            At::Send => {
                let tuner = &mut state.tuners[t];
                let (value, expected, boot) = (wanted(tuner), tuner.current, tuner.boot);
                tuner.at = At::ReadBack;
                state.flights[t] = Some(Flight { value, expected, boot, at: FlightStep::Sent });
            }
            At::ReadBack => {
                let Some(FlightStep::Done { was_set }) = state.flights[t].map(|flight| flight.at) else {
                    return false;
                };
                state.flights[t] = None;
                let value = wanted(&state.tuners[t]);
                let values = state.values;
                let is_set = was_set && (0..self.variables()).all(|i| values[i] == value[i]);
                let tuner = &mut state.tuners[t];
                tuner.journal.is_changing = false;
                if was_set && self.protocol.knows_what_it_set {
                    tuner.current = value;
                } else if was_set {
                    tuner.current = values;
                }
                if is_set {
                    tuner.sets += 1;
                    tuner.at = if self.protocol.announces { At::Idle } else { At::Settle };
                } else if (was_set && self.protocol.remembers_what_was_set)
                    || !self.protocol.retracts
                    || value[..self.variables()] == tuner.journal.original[..self.variables()]
                {
                    // Somebody else set it, or the lease is lost: the trial ends.
                    tuner.at = At::Regain;
                } else {
                    self.forget(tuner);
                    tuner.at = At::Retract;
                }
            }
            _ => return false,
        }
        true
    }

    /// What ends with the lock given back.
    fn keeps_or_gives_back(&self, state: &mut State, t: usize, at: At) -> bool {
        let me = t as u8;
        match at {
            At::Regain => {
                let by = if state.has_lease(t) {
                    Some(Holder::Lease(me))
                } else {
                    self.right(state, t, Holder::Writer(me))
                };
                if by.is_some() {
                    state.tuners[t].by = by;
                    state.tuners[t].at = At::Restore(Back::Reread);
                } else if state.tuners[t].waited > PUT_BACK {
                    self.end(state, t);
                } else {
                    return false;
                }
                state.tuners[t].waited = 0;
            }
            At::Restore(back) => {
                let tuner = state.tuners[t];
                let mut journal = tuner.journal;
                if !tuner.is_uncertain && self.protocol.announces {
                    // While it lives it knows what it set last.
                    journal.set = tuner.current.map(Value::bit);
                }
                state.tuners[t].at = match self.back(state, t, back, Some(journal), tuner.by) {
                    Next::On(back) => At::Restore(back),
                    Next::Gone => At::Home,
                    Next::Again => At::Regain,
                    Next::Waits => return false,
                };
            }
            At::AskToKeep => state.tuners[t].at = or_regain(state.has_lease(t), At::Keep),
            At::AskAgain => {
                // Lost meanwhile: nothing is said, and nothing put back, for others may go by what stands already.
                if state.has_lease(t) {
                    self.kept(state, t);
                }
                state.tuners[t].at = At::KeepRemove;
            }
            At::KeepDrop => {
                self.drop_event(state, t, Some(t));
                if self.protocol.keep_asks_again {
                    state.tuners[t].at = At::AskAgain;
                } else {
                    self.kept(state, t);
                    state.tuners[t].at = At::KeepRemove;
                }
            }
            At::Release => {
                state.release(Holder::Lease(me));
                state.release(Holder::Writer(me));
                self.end(state, t);
            }
            _ => return false,
        }
        true
    }

    /// What was added last was not set.
    pub(super) fn forget(&self, tuner: &mut Tuner) {
        let value = wanted(tuner);
        tuner.journal.is_changing = false;
        for (set, value) in tuner.journal.set.iter_mut().zip(value) {
            *set &= !value.bit();
        }
    }

    /// A tuner says that its values are kept.
    pub(super) fn kept(&self, state: &mut State, t: usize) {
        for i in 0..self.variables() {
            if state.author[i] != Author::Dba {
                state.right[i] = state.tuners[t].current[i];
                state.also[i] = 0;
                // The guardian of a tuner that was cut off on another host may undo it.
                if self.scope.second == Some(Place::OtherHost) {
                    state.also[i] |= Value::Old.bit();
                }
            }
        }
    }
}

/// The next step where all is as it should be; else the tuner gives back.
fn or_regain(is_right: bool, next: At) -> At {
    if is_right { next } else { At::Regain }
}

/// What a tuner sets next.
pub(super) fn wanted(tuner: &Tuner) -> [Value; MOST_VARIABLES] {
    match tuner.sets {
        0 => [Value::New; MOST_VARIABLES],
        1 => tuner.journal.original,
        _ => [Value::Newer; MOST_VARIABLES],
    }
}
