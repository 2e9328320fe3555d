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
    /// What the source was last asked to leave out.
    asked: Option<u64>,
    /// A walk wanted more than the source was asked for.
    is_wrong: bool,
}

impl StackEnds {
    /// A stack was walked: where its outermost frame begins, if the walk came there, with the thread's pointer; and
    /// whether all of it was copied.
    pub(super) fn seen(&mut self, outermost: Option<(u64, u64)>, whole: bool) {
        match outermost {
            Some((sp, pointer)) if self.asked.is_none() => {
                // The first thread's stack lies elsewhere.
                if let Some(below) = pointer.checked_sub(sp).filter(|&below| below <= FARTHEST) {
                    self.least = Some(self.least.map_or(below, |least| least.min(below)));
                }
            }
            Some(_) => {}
            None => self.is_wrong |= !whole && self.asked.is_some_and(|asked| asked > 0),
        }
    }

    /// Gives them to the source, once after the first snapshot, and again when they were wrong.
    pub(super) fn announce(&mut self, source: &mut dyn Capture) {
        let now = match self.asked {
            None => self.least,
            Some(_) if self.is_wrong => Some(0),
            Some(_) => None,
        };
        if let Some(bytes) = now {
            self.is_wrong = false;
            self.asked = Some(bytes);
            source.stacks_end_below_thread_pointer(bytes);
        }
    }
}

/// The variables of a thread may be so many, at most: glibc puts larger ones elsewhere only when a library brings them.
const FARTHEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::StackSource;

    use super::*;
    use crate::capture::{Looked, RawThread};
    use crate::error::Result;

    /// A source that only notes what it is asked.
    #[derive(Default)]
    struct Asked(Vec<u64>);

    impl Capture for Asked {
        fn source(&self) -> StackSource {
            StackSource::Bpf
        }

        fn look(&mut self, _each: &mut dyn FnMut(&RawThread, &[u8])) -> Result<Looked> {
            Ok(Looked::default())
        }

        fn stacks_end_below_thread_pointer(&mut self, bytes: u64) {
            self.0.push(bytes);
        }
    }

    #[test]
    fn the_least_of_the_first_snapshot_is_reported_once_and_taken_back_once_where_it_is_wrong() {
        let (mut ends, mut source) = (StackEnds::default(), Asked::default());
        ends.announce(&mut source);
        assert!(source.0.is_empty());

        // The first thread's outermost frame lies above its pointer; one walk did not come to the end.
        for seen in [Some((0x9000, 0x8000)), Some((0x7000, 0x7a00)), Some((0x5000, 0x5980)), None] {
            ends.seen(seen, true);
        }
        ends.announce(&mut source);
        ends.seen(Some((0x3000, 0x3100)), false);
        ends.announce(&mut source);
        assert_eq!(source.0, [0x980]);

        for _ in 0..2 {
            ends.seen(None, false);
            ends.announce(&mut source);
        }
        assert_eq!(source.0, [0x980, 0]);
    }

    #[test]
    fn a_walk_that_was_cut_in_a_whole_copy_is_not_the_bound_s_fault() {
        let (mut ends, mut source) = (StackEnds::default(), Asked::default());
        ends.seen(Some((0x7000, 0x7a00)), true);
        ends.announce(&mut source);
        ends.seen(None, true);
        ends.announce(&mut source);
        assert_eq!(source.0, [0xa00]);
    }
}
