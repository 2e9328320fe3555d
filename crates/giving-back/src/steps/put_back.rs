//! Putting back, which the tuner, its guardian and `--recover` do in the same steps.

use super::{GivingBack, Place};
use crate::state::{Author, Back, Event, FlightStep, Holder, Journal, Run, State, TUNERS, Value, Wrong};

impl GivingBack {
    /// The right to put back what tuner `t` changed: the lock, or that somebody else has it who is not that tuner.
    pub(super) fn right(&self, state: &mut State, t: usize, own: Holder) -> Option<Holder> {
        if state.take_lock(own) {
            return Some(own);
        }
        let lock = state.lock?;
        let is_foreign = lock.holder != Holder::Lease(t as u8);
        (self.protocol.needs_no_lock_of_stranger && is_foreign || lock.holder == own).then_some(lock.holder)
    }

    /// One step of putting back what tuner `t` changed, while the lock is held by whom it must be.
    pub(super) fn back(
        &self,
        state: &mut State,
        t: usize,
        at: Back,
        journal: Option<Journal>,
        by: Option<Holder>,
    ) -> Next {
        let Some(journal) = journal else { return Next::Gone };
        let first = if self.protocol.event_goes_last { Back::AwaitFlight } else { Back::DropEvent };
        // A lock is lost with its connection.
        let is_own = matches!(by, Some(Holder::Writer(_) | Holder::Guardian(_) | Holder::Recover));
        let is_asked = match at {
            Back::Reread | Back::Remove => false,
            Back::DropEvent => journal.has_event,
            _ => true,
        };
        if is_own && is_asked && state.holder() != by {
            return Next::Again;
        }
        Next::On(match at {
            Back::Reread => match state.disk[t] {
                None => return Next::Gone,
                // Its EVENT may have begun to put back: it may only be dropped with the journal.
                Some(journal) if journal.is_kept => Back::DropEvent,
                Some(_) if !self.protocol.journal_goes_last => {
                    state.remove_journal(t);
                    first
                }
                Some(_) => first,
            },
            Back::AwaitFlight => {
                if self.protocol.awaits_flight && is_busy(state, t) {
                    return Next::Waits;
                }
                Back::Read
            }
            Back::Read => {
                if self.protocol.asks_for_restart && journal.boot != state.boot {
                    Back::AskRight
                } else {
                    let ours = (0..self.variables()).fold(0, |bits, i| {
                        let is_ours = journal.is_ours(i, state.values[i], &self.protocol);
                        bits | u8::from(is_ours || !self.protocol.back_looks) << i
                    });
                    self.set_next(0, ours)
                }
            }
            Back::Set { next, ours } => {
                let i = usize::from(next);
                let has_right = !self.protocol.back_asks_for_lock || has_right(state, by);
                let is_ours = journal.is_ours(i, state.values[i], &self.protocol);
                if has_right && (is_ours || !self.protocol.back_compares) {
                    self.write_back(state, t, i, journal.original[i], true);
                }
                self.set_next(next + 1, ours)
            }
            Back::Verify => {
                if (0..self.variables()).any(|i| journal.is_ours(i, state.values[i], &self.protocol)) {
                    return Next::Again;
                }
                if self.protocol.event_goes_last { Back::AskRight } else { Back::Remove }
            }
            Back::AskRight => {
                if self.protocol.back_asks_for_lock && !has_right(state, by) {
                    return Next::Again;
                }
                Back::DropEvent
            }
            Back::DropEvent => {
                let by = match by {
                    Some(Holder::Lease(who)) => Some(usize::from(who)),
                    _ => None,
                };
                self.drop_event(state, t, by);
                let is_done = self.protocol.event_goes_last
                    || state.disk[t].is_none_or(|journal| journal.is_kept || journal.boot != state.boot);
                if is_done { Back::Remove } else { Back::AwaitFlight }
            }
            Back::Remove => {
                state.remove_journal(t);
                return Next::Gone;
            }
        })
    }

    /// The next variable that was seen to be ours.
    pub(super) fn set_next(&self, from: u8, ours: u8) -> Back {
        match (from..self.scope.variables).find(|i| ours & (1 << i) != 0) {
            Some(next) => Back::Set { next, ours },
            None => Back::Verify,
        }
    }

    /// A variable gets its old value from tuner `t`'s journal or EVENT.
    pub(super) fn write_back(&self, state: &mut State, t: usize, i: usize, value: Value, is_back: bool) {
        if state.values[i] == value {
            return;
        }
        match state.author[i] {
            Author::Dba if state.also[i] == 0 => state.accuse(Wrong::DbaOverwritten),
            // Of two tuners on two hosts that try the same value nobody can say whose it is.
            Author::Tuner(who)
                if usize::from(who) != t
                    && state.has_lease(usize::from(who))
                    && is_back
                    && self.scope.second != Some(Place::OtherHost) =>
            {
                state.accuse(Wrong::TunerOverwritten);
            }
            _ => {}
        }
        state.values[i] = value;
        if state.also[i] & value.bit() != 0 {
            // What the window allows has happened.
            state.right[i] = value;
        }
        state.author[i] = Author::Nobody;
    }

    /// The EVENT that goes by tuner `t`'s name.
    pub(super) fn event_named<'a>(&self, state: &'a mut State, t: usize) -> Option<&'a mut Event> {
        if self.protocol.own_event_names {
            state.events[t].as_mut()
        } else {
            state.events.iter_mut().flatten().next()
        }
    }

    /// `by` is the tuner that does it, where it is one.
    pub(super) fn drop_event(&self, state: &mut State, t: usize, by: Option<usize>) {
        let dropped = if self.protocol.own_event_names { t..t + 1 } else { 0..TUNERS };
        for who in dropped {
            let is_watched = state.has_lease(who) && by != Some(who) && state.tuners[who].run == Run::Runs;
            if state.events[who].take().is_some() && is_watched {
                state.accuse(Wrong::SwitchTaken);
            }
        }
    }
}

/// True while the lock is held by whom it must be. A right that has ended is none, also where nobody holds the lock.
fn has_right(state: &State, by: Option<Holder>) -> bool {
    by.is_some() && state.holder() == by
}

/// What comes after a step of putting back.
pub(super) enum Next {
    On(Back),
    /// All is back, or was before.
    Gone,
    /// It failed: from the beginning.
    Again,
    /// The server is not ready for it.
    Waits,
}

/// True while the server works on the last statement of a tuner.
pub(super) fn is_busy(state: &State, t: usize) -> bool {
    state.flights[t].is_some_and(|flight| matches!(flight.at, FlightStep::Evaluated { .. }))
}
