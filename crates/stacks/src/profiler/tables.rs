//! What repeats in a profile, each once: threads, frames, stacks, activities.
//!
//! In: values. Out: their place in a list. [`Tables::keep`] leaves out what nobody names any more.

use std::collections::HashMap;
use std::hash::Hash;

use spindoctor_model::stack::{Activity, Frame, Observation, ProfiledThread, Stack};

/// A list without doubles.
#[derive(Debug, Default)]
pub(super) struct Interned<T> {
    list: Vec<T>,
    place: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Interned<T> {
    pub(super) fn place(&mut self, value: T) -> u32 {
        if let Some(&place) = self.place.get(&value) {
            return place;
        }
        // Nobody has four billion stacks; a profile that had would be out of memory long before.
        let place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(value.clone());
        self.place.insert(value, place);
        place
    }

    pub(super) fn get(&self, place: u32) -> &T {
        &self.list[place as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn list(&self) -> &[T] {
        &self.list
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) threads: Interned<ProfiledThread>,
    pub(super) frames: Interned<Frame>,
    pub(super) stacks: Interned<Stack>,
    pub(super) activities: Interned<Activity>,
}

impl Tables {
    /// New tables that hold what these places name, which are changed to the new ones. Modules stay as they are.
    pub(super) fn keep<'a>(
        &self,
        observations: impl Iterator<Item = &'a mut Observation>,
        stacks: impl Iterator<Item = &'a mut u32>,
    ) -> Self {
        let mut new = Self::default();
        let mut moved: HashMap<u32, u32> = HashMap::new();
        for observation in observations {
            observation.thread = new.threads.place(self.threads.get(observation.thread).clone());
            observation.stack = self.keep_stack(observation.stack, &mut new, &mut moved);
            observation.activity =
                observation.activity.map(|place| new.activities.place(self.activities.get(place).clone()));
        }
        for stack in stacks {
            *stack = self.keep_stack(*stack, &mut new, &mut moved);
        }
        new
    }

    fn keep_stack(&self, place: u32, new: &mut Self, moved: &mut HashMap<u32, u32>) -> u32 {
        *moved.entry(place).or_insert_with(|| {
            let Stack { frames, end } = self.stacks.get(place);
            let frames =
                frames.iter().map(|&frame| new.frames.place(self.frames.get(frame).clone())).collect();
            new.stacks.place(Stack { frames, end: end.clone() })
        })
    }
}
