//! What repeats in a profile, each once: threads, frames, stacks, activities.
//!
//! In: values. Out: their place in a list. [`Keeping`] leaves out what nobody names any more.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use spindoctor_model::stack::{Activity, Frame, Observation, ProfiledThread, Stack};

/// A list without doubles.
#[derive(Debug, Default)]
pub(super) struct Interned<T> {
    list: Vec<T>,
    place: FxHashMap<T, u32>,
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

/// New tables in the making, which hold only what was asked to be kept. Modules stay as they are.
#[derive(Debug)]
pub(super) struct Keeping<'a> {
    old: &'a Tables,
    new: Tables,
    threads: Moved,
    stacks: Moved,
    activities: Moved,
}

/// Where things went: the new place by the old one.
#[derive(Debug)]
struct Moved(Vec<Option<u32>>);

impl Moved {
    fn to(&mut self, place: &mut u32, keep: impl FnOnce(u32) -> u32) {
        *place = *self.0[*place as usize].get_or_insert_with(|| keep(*place));
    }
}

impl<'a> Keeping<'a> {
    pub(super) fn from_tables(old: &'a Tables) -> Self {
        let nowhere = |len| Moved(vec![None; len]);
        Self {
            old,
            new: Tables::default(),
            threads: nowhere(old.threads.len()),
            stacks: nowhere(old.stacks.len()),
            activities: nowhere(old.activities.len()),
        }
    }

    /// Keeps what an observation names, and changes its places to the new ones.
    pub(super) fn observation(&mut self, observation: &mut Observation) {
        self.thread(&mut observation.thread);
        self.stack(&mut observation.stack);
        if let Some(place) = &mut observation.activity {
            self.activities
                .to(place, |place| self.new.activities.place(self.old.activities.get(place).clone()));
        }
    }

    pub(super) fn thread(&mut self, place: &mut u32) {
        self.threads.to(place, |place| self.new.threads.place(self.old.threads.get(place).clone()));
    }

    pub(super) fn stack(&mut self, place: &mut u32) {
        let Self { old, new, stacks, .. } = self;
        stacks.to(place, |place| {
            let Stack { frames, end } = old.stacks.get(place);
            let frames =
                frames.iter().map(|&frame| new.frames.place(old.frames.get(frame).clone())).collect();
            new.stacks.place(Stack { frames, end: end.clone() })
        });
    }

    pub(super) fn done(self) -> Tables {
        self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_new_places_and_the_rest_is_gone() {
        let mut tables = Tables::default();
        let thread = |tid| ProfiledThread { tid, name: format!("thread {tid}"), ..ProfiledThread::default() };
        let frame = |name: &str| Frame { name: name.to_owned(), ..Frame::default() };
        let mut stack_of = |names: &[&str]| {
            let frames = names.iter().map(|name| tables.frames.place(frame(name))).collect();
            tables.stacks.place(Stack { frames, ..Stack::default() })
        };
        let (gone, kept) = (stack_of(&["write", "main"]), stack_of(&["read", "main"]));
        assert_eq!((gone, kept, stack_of(&["read", "main"])), (0, 1, 1));
        tables.threads.place(thread(1));
        let second = tables.threads.place(thread(2));
        let mut observations = [Observation { thread: second, stack: kept, ..Observation::default() }; 2];

        let mut keeping = Keeping::from_tables(&tables);
        observations.iter_mut().for_each(|observation| keeping.observation(observation));
        let new = keeping.done();

        assert_eq!(observations[0], Observation::default());
        assert_eq!(observations[0], observations[1]);
        assert_eq!(new.threads.list(), [thread(2)]);
        assert_eq!(new.frames.list(), [frame("read"), frame("main")]);
        assert_eq!(new.stacks.list(), [Stack { frames: vec![0, 1], ..Stack::default() }]);
    }
}
