//! The guardian: it waits for the end of the tuner, and then puts back.

use super::GivingBack;
use super::put_back::Next;
use crate::state::{Back, Guardian, GuardianAt, Holder, Run, State};

impl GivingBack {
    pub(super) fn guardian(&self, state: &mut State, t: usize) -> bool {
        let me = Holder::Guardian(t as u8);
        if state.guardians[t].run != Run::Runs {
            return false;
        }
        let is_reachable = state.tuners[t].run == Run::Runs;
        let has_ended = matches!(state.tuners[t].run, Run::Killed | Run::Ended);
        match state.guardians[t].at {
            GuardianAt::Listens => {
                let is_silent = state.guardians[t].silence >= self.protocol.guardian_silence_s;
                if !(has_ended || is_silent) {
                    return false;
                }
                state.guardians[t].at = GuardianAt::Tries;
            }
            GuardianAt::Tries => {
                let Some(journal) = state.disk[t] else {
                    state.guardians[t].run = Run::Ended;
                    return true;
                };
                state.guardians[t].journal = Some(journal);
                if is_reachable {
                    state.guardians[t].at = GuardianAt::Listens;
                    state.guardians[t].silence = 0;
                } else if state.network
                    && let Some(by) = self.right(state, t, me)
                {
                    state.guardians[t].by = Some(by);
                    state.guardians[t].at = GuardianAt::Back(Back::Reread);
                } else {
                    return false;
                }
            }
            GuardianAt::Back(Back::Remove) => {
                state.remove_journal(t);
                state.guardians[t].at = GuardianAt::Release;
            }
            GuardianAt::Back(back) => {
                let has_event = state.guardians[t].journal.is_some_and(|journal| journal.has_event);
                if !state.network && (back != Back::DropEvent || has_event) {
                    return false;
                }
                if back == Back::Reread {
                    state.guardians[t].journal = state.disk[t];
                }
                let Guardian { journal, by, .. } = state.guardians[t];
                state.guardians[t].at = match self.back(state, t, back, journal, by) {
                    Next::On(back) => GuardianAt::Back(back),
                    Next::Gone => GuardianAt::Release,
                    Next::Again => {
                        state.release(me);
                        GuardianAt::Tries
                    }
                    Next::Waits => return false,
                };
            }
            GuardianAt::Release => {
                state.guardians[t].run = Run::Ended;
                state.hang_up();
            }
        }
        true
    }
}
