//! [`StallKind::InsideFunction`] and [`StallKind::SlowFunction`]: what watchpoints in functions of the server see.
//!
//! A stall of one kind lasts for as long as any watchpoint of that kind sees something.

use spindoctor_model::StallKind;

use super::Sight;

/// What each watchpoint sees now: few, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Functions {
    seen: Vec<(StallKind, usize, Sight)>,
}

impl Functions {
    /// A watchpoint sees something since then, or no more.
    pub(super) fn look(
        &mut self,
        kind: StallKind,
        watchpoint: usize,
        seen: Option<(f64, String)>,
    ) -> Option<Sight> {
        self.seen.retain(|(_, other, _)| *other != watchpoint);
        let seen = seen.map(|(began_s, because)| (kind, watchpoint, Sight { began_s, because }));
        self.seen.extend(seen);
        self.seen.iter().find(|(of, _, _)| *of == kind).map(|(_, _, sight)| sight.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_lasts_for_as_long_as_one_of_its_kind_is_seen() {
        let mut functions = Functions::default();
        let mut look = |kind, watchpoint, seen: Option<f64>| {
            functions.look(kind, watchpoint, seen.map(|at| (at, "f".to_owned()))).map(|sight| sight.began_s)
        };
        let (inside, slow) = (StallKind::InsideFunction, StallKind::SlowFunction);
        assert_eq!(look(inside, 0, Some(1.0)), Some(1.0));
        assert_eq!(look(inside, 1, Some(2.0)), Some(1.0));
        assert_eq!(look(slow, 2, Some(3.0)), Some(3.0));
        assert_eq!(look(inside, 0, None), Some(2.0));
        assert_eq!(look(inside, 1, None), None);
        assert_eq!(look(slow, 2, None), None);
    }
}
