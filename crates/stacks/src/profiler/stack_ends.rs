//! How far below their thread pointers the stacks of a program's threads end, learnt by walking them.
//!
//! In: where the walks of a snapshot ended. Out: a bound for what has to be copied. Between the end of a thread's stack
//! and its thread pointer lie the variables of the thread, which glibc lays out alike in each: of an idle thread's stack
//! they are half.

use crate::capture::Capture;

/// What is known.
#[derive(Debug, Default)]
pub(super) struct StackEnds {
    /// The least that was seen in the first snapshot.
    least: Option<u64>,
    /// What the source was told.
    told: Option<u64>,
    /// A walk wanted more than the source was asked for.
    is_wrong: bool,
}

impl StackEnds {
    /// A stack was walked: where its outermost frame begins, if the walk came there, with the thread's pointer; and
    /// whether all of it was copied.
    pub(super) fn seen(&mut self, outermost: Option<(u64, u64)>, whole: bool) {
        match outermost {
            Some((sp, pointer)) if self.told.is_none() => {
                // The first thread's stack lies elsewhere.
                if let Some(below) = pointer.checked_sub(sp).filter(|&below| below <= FARTHEST) {
                    self.least = Some(self.least.map_or(below, |least| least.min(below)));
                }
            }
            Some(_) => {}
            None => self.is_wrong |= !whole && self.told.is_some_and(|told| told > 0),
        }
    }

    /// Tells the source, once after the first snapshot, and when that was wrong.
    pub(super) fn tell(&mut self, source: &mut dyn Capture) {
        let now = match self.told {
            None => self.least,
            Some(_) if self.is_wrong => Some(0),
            Some(_) => None,
        };
        if let Some(bytes) = now {
            self.is_wrong = false;
            self.told = Some(bytes);
            source.stacks_end_below_thread_pointer(bytes);
        }
    }
}

/// The variables of a thread may be so many, at most: glibc puts larger ones elsewhere only when a library brings them.
const FARTHEST: u64 = 1 << 20;
