//! Two profiles compared: which functions' shares grew or shrank. Pure.
//!
//! Shares, not counts: two profiles rarely have the same length.

use std::collections::HashMap;

use super::counted::{Counted, Label};
use super::tree::functions;

/// One function in both profiles; shares from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed<'a> {
    /// What it is called.
    pub label: Label<'a>,
    /// Share with it at the innermost place, before and after.
    pub own: (f64, f64),
    /// Share with it anywhere, before and after.
    pub total: (f64, f64),
}

impl Changed<'_> {
    /// By how much its own share grew; negative where it shrank.
    pub fn own_change(&self) -> f64 {
        self.own.1 - self.own.0
    }
}

/// Observations in all.
pub fn total(stacks: &[Counted<'_>]) -> u64 {
    stacks.iter().map(|stack| stack.count).sum()
}

/// Every function of either profile, the one whose own share changed most first.
pub fn changes<'a>(before: &[Counted<'a>], after: &[Counted<'a>]) -> Vec<Changed<'a>> {
    let mut shares: HashMap<Label<'a>, [f64; 4]> = HashMap::new();
    for (at, stacks) in [before, after].into_iter().enumerate() {
        let all = total(stacks).max(1) as f64;
        for function in functions(stacks) {
            let share = shares.entry(function.label).or_default();
            share[at] = function.own as f64 / all;
            share[at + 2] = function.total as f64 / all;
        }
    }
    let mut changes: Vec<Changed<'a>> = shares
        .into_iter()
        .map(|(label, [own_before, own_after, total_before, total_after])| Changed {
            label,
            own: (own_before, own_after),
            total: (total_before, total_after),
        })
        .collect();
    changes.sort_by(|a, b| {
        b.own_change()
            .abs()
            .total_cmp(&a.own_change().abs())
            .then_with(|| (b.total.1 - b.total.0).abs().total_cmp(&(a.total.1 - a.total.0).abs()))
            .then_with(|| a.label.cmp(&b.label))
    });
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::{Choice, View};

    #[test]
    fn shares_are_compared_and_not_counts() {
        let (before, after) = (examples::busy(), examples::busy_twice());
        let choice = Choice::default();
        let (before, after) = (View::new(&before, &choice).unwrap(), View::new(&after, &choice).unwrap());
        let changes = changes(&before.counted(), &after.counted());
        assert!(changes.iter().all(|change| change.own_change() == 0.0), "{changes:?}");
    }

    #[test]
    fn what_changed_most_stands_first() {
        let (before, after) = (examples::busy(), examples::calmer());
        let choice = Choice::default();
        let (before, after) = (View::new(&before, &choice).unwrap(), View::new(&after, &choice).unwrap());
        let changes = changes(&before.counted(), &after.counted());
        assert!(changes[0].own_change().abs() >= changes[1].own_change().abs());
        let wait = changes.iter().find(|change| change.label.name == "futex_wait_queue").unwrap();
        assert!(wait.own_change() < 0.0, "{wait:?}");
    }
}
