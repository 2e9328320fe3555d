//! `tune --recover`: it puts back by the journals that are on its host.

use super::put_back::Next;
use super::{GivingBack, LEFTOVER};
use crate::state::{Back, Holder, Recover, RecoverAt, State, TUNERS};

impl GivingBack {
    pub(super) fn recover(&self, state: &mut State) -> bool {
        if !state.network || state.recover.at == RecoverAt::Absent {
            return false;
        }
        if state.recover.boot != state.boot {
            state.recover.at = RecoverAt::Absent;
            return true;
        }
        let me = Holder::Recover;
        let Recover { own, by, .. } = state.recover;
        let next_journal = |from: usize| {
            (from..TUNERS)
                .find(|t| own & (1 << t) != 0)
                .map_or(RecoverAt::AwaitEvent, |t| RecoverAt::Back(t as u8, Back::Reread))
        };
        match state.recover.at {
            RecoverAt::Absent => return false,
            RecoverAt::Lock => {
                // The lock of a tuner whose journal was here when it began is respected.
                let tuner = (0..TUNERS).find(|t| own & (1 << t) != 0 && state.has_lease(*t));
                let right = match tuner {
                    Some(_) => None,
                    None if own == 0 => state.take_lock(me).then_some(me),
                    None => self.right(state, usize::MAX, me),
                };
                if let Some(by) = right {
                    state.recover.by = Some(by);
                    state.recover.at = next_journal(0);
                    state.recover.waited = 0;
                } else if state.recover.waited > LEFTOVER {
                    state.recover.at = RecoverAt::Absent;
                } else {
                    return false;
                }
            }
            RecoverAt::Back(t, back) => {
                let t = usize::from(t);
                let journal = state.disk[t];
                state.recover.at = match self.back(state, t, back, journal, by) {
                    Next::On(back) => RecoverAt::Back(t as u8, back),
                    Next::Gone => next_journal(t + 1),
                    Next::Again if state.recover.waited > LEFTOVER => {
                        state.release(me);
                        RecoverAt::Absent
                    }
                    Next::Again => RecoverAt::Lock,
                    Next::Waits => return false,
                };
            }
            RecoverAt::AwaitEvent => {
                if state.events.iter().all(Option::is_none) || state.recover.waited > LEFTOVER {
                    state.recover.at = RecoverAt::Absent;
                    state.hang_up();
                } else {
                    return false;
                }
            }
        }
        true
    }
}
