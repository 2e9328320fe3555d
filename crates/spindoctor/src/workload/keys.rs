//! The groups of one kind while they are counted; their number is bounded.

use std::collections::HashMap;

/// What stands where there is nothing to name.
const NONE: &str = "(none)";

/// Keys of one kind that are counted separately; what comes after them is [`OTHERS`]. Ids of requests are not keys.
pub(super) const MOST_KEYS: usize = 20_000;

/// States of one key that are counted separately.
pub(super) const MOST_STATES: usize = 30;

/// Where there is no room for another key.
pub(super) const OTHERS: &str = "(others)";

/// One key of a kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// What it is.
    pub key: String,
    /// How often it was seen.
    pub seen: u64,
    /// By state, how often, the most first.
    pub states: Vec<(String, u64)>,
    /// The longest time that a statement of it was seen to run so far, seconds.
    pub slowest_s: f64,
}

/// Groups of one kind while they are counted.
#[derive(Debug, Default)]
pub(super) struct Keys {
    places: HashMap<String, usize>,
    groups: Vec<Group>,
}

impl Keys {
    pub(super) fn count(&mut self, key: &str, state: &str, seconds: f64) {
        let key = if key.is_empty() { NONE } else { key };
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let key = if self.groups.len() < MOST_KEYS { key } else { OTHERS };
                *self.places.entry(key.to_owned()).or_insert_with(|| {
                    self.groups.push(Group { key: key.to_owned(), ..Group::default() });
                    self.groups.len() - 1
                })
            }
        };
        let group = &mut self.groups[place];
        group.seen += 1;
        group.slowest_s = group.slowest_s.max(seconds);
        let is_full = group.states.len() >= MOST_STATES;
        let known = |name: &str| group.states.iter().position(|(known, _)| known == name);
        match known(state).or_else(|| if is_full { known(OTHERS) } else { None }) {
            Some(place) => group.states[place].1 += 1,
            None => group.states.push((if is_full { OTHERS } else { state }.to_owned(), 1)),
        }
    }

    pub(super) fn finish(mut self) -> Vec<Group> {
        for group in &mut self.groups {
            group.states.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        }
        self.groups.sort_by(|a, b| b.seen.cmp(&a.seen).then_with(|| a.key.cmp(&b.key)));
        self.groups
    }
}
