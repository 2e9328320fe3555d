//! What each step does. One step is one statement on the server, one write to the disk, or one thing that happens to a
//! process; what a server does within one statement is one step, but for `SET GLOBAL a = .., b = ..`, which looks at all its
//! conditions first and then changes one variable after the other.

mod guardian;
mod outside;
mod put_back;
mod recover;
mod server;
mod tuner;

use crate::protocol::Protocol;
use crate::state::{
    At, Author, FlightStep, Guardian, GuardianAt, Holder, Journal, Lock, MOST_VARIABLES, Recover, RecoverAt,
    Run, State, Step, TUNERS, Tuner, Value, Wrong,
};

/// How long a tuner waits for the lock, in ticks: `GUARDIAN_WORKS` in `heartbeat.rs`.
const LOCK_WAIT: u8 = 1;
/// How long the EVENT of another may take to go: `LEFTOVER` in `apply/recover.rs`.
const LEFTOVER: u8 = 5;
/// How long putting back is tried: `PUT_BACK` in `apply/restore.rs`.
const PUT_BACK: u8 = 10;
/// How long a rehearsal may take: `REHEARSAL` in `apply/switch.rs`.
const REHEARSAL: u8 = 4;
/// Counters of time stop here.
const LONG: u8 = 12;

/// What may happen in a run, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// How many variables are taken.
    pub variables: u8,
    /// How many values a tuner sets.
    pub sets: u8,
    /// Kills, stops, lost networks, restarts, crashes, a scheduler that is switched off: how many.
    pub faults: u8,
    /// How often a DBA sets something.
    pub dba: u8,
    /// How often somebody runs `--recover`.
    pub recoveries: u8,
    /// A second tuner comes, on the same host or on another.
    pub second: Option<Place>,
    /// An account without privileges takes the lock.
    pub stranger: bool,
    /// The server runs EVENTs.
    pub scheduler: bool,
    /// The option file has the value that is tried.
    pub configured_is_new: bool,
    /// A statement may take as long as it likes.
    pub is_slow: bool,
}

/// Where the second tuner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It sees the first one's journal.
    SameHost,
    /// It does not.
    OtherHost,
}

/// The protocol in a scope: what stateright is given.
#[derive(Debug, Clone, Copy)]
pub struct GivingBack {
    /// What the processes do.
    pub protocol: Protocol,
    /// What may happen.
    pub scope: Scope,
}

impl Journal {
    /// True where a value is not the old one, and may be the tuner's doing.
    pub fn is_ours(&self, variable: usize, value: Value, protocol: &Protocol) -> bool {
        value != self.original[variable]
            && (self.set[variable] & value.bit() != 0
                || (self.is_changing && protocol.anything_while_changing))
    }
}

const NO_JOURNAL: Journal = Journal {
    original: [Value::Old; MOST_VARIABLES],
    set: [0; MOST_VARIABLES],
    is_changing: false,
    is_kept: false,
    has_event: false,
    boot: 0,
    is_durable: true,
};

const NEW_GUARDIAN: Guardian =
    Guardian { run: Run::Runs, at: GuardianAt::Listens, silence: 0, journal: None, by: None };

impl State {
    fn new(scope: &Scope) -> Self {
        let tuner = Tuner {
            run: Run::Absent,
            at: At::Lock,
            journal: NO_JOURNAL,
            current: [Value::Old; MOST_VARIABLES],
            sets: 0,
            keeps: false,
            waited: 0,
            boot: 0,
            has_guardian: false,
            is_uncertain: false,
            is_closed: false,
            by: None,
        };
        let guardian =
            Guardian { run: Run::Absent, at: GuardianAt::Listens, silence: 0, journal: None, by: None };
        Self {
            values: [Value::Old; MOST_VARIABLES],
            persisted: [None; MOST_VARIABLES],
            configured: if scope.configured_is_new { Value::New } else { Value::Configured },
            boot: 0,
            scheduler: scope.scheduler,
            lock: None,
            events: [None; TUNERS],
            event_runs: [None; TUNERS],
            flights: [None; TUNERS],
            network: true,
            disk: [None; TUNERS],
            tuners: [Tuner { run: Run::Runs, ..tuner }, tuner],
            guardians: [guardian; TUNERS],
            recover: Recover { at: RecoverAt::Absent, own: 0, by: None, waited: 0, boot: 0 },
            faults: scope.faults,
            dba: scope.dba,
            recoveries: scope.recoveries,
            stranger: scope.stranger,
            second: scope.second.is_some(),
            right: [Value::Old; MOST_VARIABLES],
            also: [0; MOST_VARIABLES],
            author: [Author::Nobody; MOST_VARIABLES],
            overdue: 0,
            wrong: None,
        }
    }

    fn holder(&self) -> Option<Holder> {
        self.lock.map(|lock| lock.holder)
    }

    fn take_lock(&mut self, holder: Holder) -> bool {
        let is_free = self.lock.is_none();
        if is_free {
            self.lock = Some(Lock { holder, silent: 0 });
        }
        is_free
    }

    fn release(&mut self, holder: Holder) {
        if self.holder() == Some(holder) {
            self.lock = None;
        }
    }

    fn remove_journal(&mut self, t: usize) {
        if self.disk[t].take().is_some() {
            self.tuners[t].is_closed = true;
        }
    }

    fn accuse(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    /// True where the connection of a holder of the lock says nothing: its process is dead or stopped, or nothing comes through.
    fn is_mute(&self, holder: Holder) -> bool {
        let runs = |run| run == Run::Runs;
        let is_reachable = match holder {
            Holder::Stranger => return false,
            Holder::Lease(t) | Holder::Writer(t) => runs(self.tuners[usize::from(t)].run),
            Holder::Guardian(t) => runs(self.guardians[usize::from(t)].run),
            Holder::Recover => self.recover.at != RecoverAt::Absent,
        };
        !(is_reachable && self.network)
    }

    /// True where the process of a holder is gone for ever, so that its end reaches the server with the network.
    fn is_gone(&self, holder: Holder) -> bool {
        let gone = |run| matches!(run, Run::Killed | Run::Ended);
        match holder {
            Holder::Stranger => false,
            Holder::Lease(t) | Holder::Writer(t) => gone(self.tuners[usize::from(t)].run),
            Holder::Guardian(t) => gone(self.guardians[usize::from(t)].run),
            Holder::Recover => self.recover.at == RecoverAt::Absent,
        }
    }

    /// The end of connections whose process is gone reaches the server.
    fn hang_up(&mut self) {
        if self.network && self.holder().is_some_and(|holder| self.is_gone(holder)) {
            self.lock = None;
        }
    }

    /// True where a tuner is at work and has the lease.
    pub(crate) fn has_lease(&self, t: usize) -> bool {
        self.holder() == Some(Holder::Lease(t as u8))
    }
}

impl GivingBack {
    /// Where it begins.
    pub fn begin(&self) -> State {
        State::new(&self.scope)
    }

    pub(crate) fn variables(&self) -> usize {
        usize::from(self.scope.variables)
    }

    /// What may be next; some of it may turn out to be impossible.
    pub fn candidates(&self, state: &State, steps: &mut Vec<Step>) {
        for t in 0..TUNERS as u8 {
            steps.extend([
                Step::Tuner(t),
                Step::Guardian(t),
                Step::Respawn(t),
                Step::Flight(t),
                Step::Event(t),
            ]);
            steps.push(Step::Breaks(t));
            let tuner = &state.tuners[usize::from(t)];
            if tuner.at == At::Idle && tuner.run == Run::Runs {
                steps.extend([Step::Set(t), Step::GiveBack(t), Step::Keep(t)]);
            }
            steps.extend([Step::ContinueTuner(t), Step::ContinueGuardian(t)]);
            if state.faults > 0 {
                steps.extend([
                    Step::KillTuner(t),
                    Step::KillGuardian(t),
                    Step::StopTuner(t),
                    Step::StopGuardian(t),
                ]);
            }
        }
        steps.push(Step::Recover);
        steps.push(Step::NetworkUp);
        if state.faults > 0 {
            steps.extend([Step::NetworkDown, Step::Restart, Step::HostCrash, Step::SchedulerOff]);
        }
        if state.recoveries > 0 {
            steps.push(Step::StartRecover);
        }
        if state.second {
            steps.push(Step::StartSecond);
        }
        if state.dba > 0 {
            for variable in 0..self.scope.variables {
                for value in [Value::Dba, Value::New, Value::Old] {
                    steps.push(Step::Dba(variable, value));
                }
                steps.push(Step::DbaPersist(variable));
            }
        }
        steps.extend([Step::StrangerTakes, Step::StrangerReleases, Step::Tick]);
    }

    /// The state after a step; none where the step is impossible or changes nothing.
    pub fn after(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let is_possible = match step {
            Step::Tuner(t) => self.tuner(&mut next, usize::from(t)),
            Step::Set(t) => self.idle(&mut next, usize::from(t), step),
            Step::GiveBack(t) | Step::Keep(t) => self.idle(&mut next, usize::from(t), step),
            Step::Respawn(t) => self.respawn(&mut next, usize::from(t)),
            Step::Breaks(t) => self.breaks(&mut next, usize::from(t)),
            Step::Guardian(t) => self.guardian(&mut next, usize::from(t)),
            Step::Flight(t) => self.flight(&mut next, usize::from(t)),
            Step::Event(t) => self.event(&mut next, usize::from(t)),
            Step::Recover => self.recover(&mut next),
            Step::Tick => self.tick(&mut next),
            _ => self.outside(&mut next, step),
        };
        (is_possible && next != *state).then_some(next)
    }

    /// Steps that are taken before a second passes: by processes that run, and by the server.
    pub fn is_urgent(&self, state: &State, step: Step) -> bool {
        match step {
            // How long a statement takes is the server's business.
            Step::Flight(t) => {
                let is_begun = state.flights[usize::from(t)]
                    .is_some_and(|flight| matches!(flight.at, FlightStep::Evaluated { .. }));
                !(self.scope.is_slow && is_begun)
            }
            Step::Tuner(_) | Step::Guardian(_) | Step::Event(_) | Step::Recover | Step::Respawn(_) => true,
            _ => false,
        }
    }
}
