//! What must hold in every state, and the checker's runs.

use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model, Property};

use crate::state::{At, Run, State, Step};
use crate::steps::GivingBack;

/// The promise in ticks of a second: `docs/src/commands/tune.md` says five seconds.
pub const PROMISED: u8 = 5;

impl GivingBack {
    /// True where every value that is not right stands in a journal or an EVENT with the old one, so that `--recover` alone
    /// brings it back.
    pub fn is_recoverable(&self, state: &State) -> bool {
        (0..self.variables()).all(|i| {
            self.is_right(state, i) || {
                let disk =
                    state.disk.iter().flatten().filter(|journal| journal.is_durable && !journal.is_kept);
                let events = state.events.iter().flatten().filter(|event| !event.is_rehearsal);
                let mut known = disk.chain(events.map(|event| &event.body));
                known.any(|journal| {
                    let old = journal.original[i];
                    journal.boot == state.boot
                        && journal.is_ours(i, state.values[i], &self.protocol)
                        && (old == state.right[i] || state.also[i] & old.bit() != 0)
                })
            }
        })
    }

    /// True where a tuner that has ended by itself left nothing.
    fn leaves_nothing(&self, state: &State) -> bool {
        state.tuners.iter().enumerate().all(|(t, tuner)| {
            let is_over = tuner.run == Run::Ended && tuner.at == At::End && tuner.waited == 0;
            !(is_over && state.has_lease(t))
        })
    }
}

impl Model for GivingBack {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if state.wrong.is_none() {
            self.candidates(state, actions);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        self.after(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nobody overwrites what is not theirs", |_, state: &State| {
                state.wrong.is_none()
            }),
            Property::always("what is changed stands in a journal or an EVENT", Self::is_recoverable),
            Property::always("given back within the promised time", |_, state: &State| {
                state.overdue <= PROMISED
            }),
            Property::always("no lease outlives its tuner", Self::leaves_nothing),
        ]
    }
}

/// What a run of the checker said.
#[derive(Debug)]
pub struct Checked {
    /// States that were looked at, repeated ones too.
    pub states: usize,
    /// Different states.
    pub unique: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Each property that does not hold, with the shortest way to where it does not.
    pub broken: Vec<(&'static str, Vec<Step>)>,
}

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every state that can be reached.
    Whole,
    /// No more than is needed to find something that is wrong.
    UntilBroken,
}

/// Looks at states, those that are reached by few steps first.
pub fn check(model: GivingBack, extent: Extent) -> Checked {
    let begun = Instant::now();
    let mut checker = model.checker().threads(1);
    if extent == Extent::UntilBroken {
        checker = checker.finish_when(HasDiscoveries::Any);
    }
    let checker = checker.spawn_bfs().join();
    let mut broken: Vec<_> =
        checker.discoveries().into_iter().map(|(name, path)| (name, path.into_actions())).collect();
    broken.sort_by_key(|(name, _)| *name);
    Checked {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: begun.elapsed(),
        broken,
    }
}

/// A way, step by step, with what each step leads to.
pub fn describe(model: &GivingBack, way: &[Step]) -> Vec<String> {
    let mut state = model.begin();
    let mut lines = Vec::new();
    for step in way {
        let before = state.clone();
        let Some(next) = model.after(&state, *step) else {
            lines.push(format!("{step}: impossible"));
            return lines;
        };
        state = next;
        let at = match step {
            Step::Tuner(t) => format!(" {:?}", before.tuners[usize::from(*t)].at),
            Step::Guardian(t) => format!(" {:?}", before.guardians[usize::from(*t)].at),
            Step::Event(t) => format!(" {:?}", before.event_runs[usize::from(*t)].map(|run| run.at)),
            Step::Flight(t) => format!(" {:?}", before.flights[usize::from(*t)].map(|flight| flight.at)),
            Step::Recover => format!(" {:?}", before.recover.at),
            _ => String::new(),
        };
        let holder = state.lock.map(|lock| lock.holder);
        lines.push(format!(
            "{step}{at}: values {:?}, lock {holder:?}, EVENT {:?}, journal {:?}",
            &state.values[..model.variables()],
            state.events.map(|event| event.is_some()),
            state.disk.map(|journal| journal.is_some()),
        ));
    }
    lines
}
