//! What each step does. One step is one statement on the server, one write to the disk, or one thing that happens to a
//! process; what a server does within one statement is one step, but for `SET GLOBAL a = .., b = ..`, which looks at all its
//! conditions first and then changes one variable after the other.

use crate::protocol::Protocol;
use crate::state::{
    At, Author, Back, Event, EventRun, EventStep, Flight, FlightStep, Guardian, GuardianAt, Holder, Journal,
    Lock, MOST_VARIABLES, Recover, RecoverAt, Run, State, Step, TUNERS, Tuner, Value, Wrong,
};

/// How long a tuner waits for the lock, in ticks: `GUARDIAN_WORKS` in `heartbeat.rs`.
const LOCK_WAIT: u8 = 1;
/// How long the EVENT of another may take to go: `LEFTOVER` in `apply.rs`.
const LEFTOVER: u8 = 5;
/// How long putting back is tried: `PUT_BACK` in `apply.rs`.
const PUT_BACK: u8 = 10;
/// How long a rehearsal may take: `REHEARSAL` in `apply.rs`.
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
            self.lock = Some(Lock { holder, silent: 0, age: 0 });
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
        let is_heard = match holder {
            Holder::Stranger => return false,
            Holder::Lease(t) | Holder::Writer(t) => runs(self.tuners[usize::from(t)].run),
            Holder::Guardian(t) => runs(self.guardians[usize::from(t)].run),
            Holder::Recover => self.recover.at != RecoverAt::Absent,
        };
        !(is_heard && self.network)
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

    // The tuner.

    fn idle(&self, state: &mut State, t: usize, step: Step) -> bool {
        let tuner = &mut state.tuners[t];
        if tuner.run != Run::Runs || tuner.at != At::Idle {
            return false;
        }
        match step {
            Step::Set(_) if tuner.sets < self.scope.sets => {
                let value = wanted(tuner);
                let is_known = value[..self.variables()] == tuner.journal.original[..self.variables()];
                for (set, value) in tuner.journal.set.iter_mut().zip(value) {
                    *set |= value.bit();
                }
                tuner.journal.is_changing = true;
                tuner.at = match (is_known || !self.protocol.announces, self.protocol.looks_before_announcing)
                {
                    (true, _) => At::Send,
                    (false, true) => At::Look,
                    (false, false) => At::Announce,
                };
                true
            }
            Step::GiveBack(_) => {
                tuner.at = At::Regain;
                true
            }
            Step::Keep(_) if tuner.sets > 0 => {
                tuner.at = At::LookToKeep;
                true
            }
            _ => false,
        }
    }

    fn respawn(&self, state: &mut State, t: usize) -> bool {
        let tuner = &state.tuners[t];
        let has_ended = matches!(state.guardians[t].run, Run::Killed | Run::Ended);
        let is_over = matches!(tuner.at, At::Home | At::Release | At::End);
        if tuner.run != Run::Runs || !tuner.has_guardian || !has_ended || is_over || !state.network {
            return false;
        }
        state.guardians[t] = NEW_GUARDIAN;
        true
    }

    /// No answer for ten seconds: the server has closed the lease's connection long since.
    fn breaks(&self, state: &mut State, t: usize) -> bool {
        let is_waiting = matches!(
            state.tuners[t].at,
            At::Look
                | At::LookLease
                | At::Alter
                | At::Send
                | At::ReadBack
                | At::AlterBack
                | At::LookToKeep
                | At::AskToKeep
                | At::KeepDrop
                | At::Restore(_)
        );
        if state.network || state.has_lease(t) || state.tuners[t].run != Run::Runs || !is_waiting {
            return false;
        }
        self.fails(state, t);
        true
    }

    /// A tuner's statement failed with its connection.
    fn fails(&self, state: &mut State, t: usize) {
        let me = t as u8;
        if state.tuners[t].at == At::KeepDrop {
            state.tuners[t].journal.is_kept = false;
            self.save(state, t, false);
        }
        if !matches!(state.tuners[t].at, At::ReadBack | At::Restore(_)) && state.flights[t].is_none() {
            // Nothing was sent.
        } else if state.tuners[t].at == At::ReadBack {
            state.tuners[t].is_uncertain = true;
        }
        state.tuners[t].at = At::Regain;
        state.tuners[t].waited = 0;
        if state.network {
            state.release(Holder::Writer(me));
        }
    }

    /// Writes what a tuner remembers; false where the file is gone and is not made again.
    fn save(&self, state: &mut State, t: usize, is_first: bool) -> bool {
        if !is_first && self.protocol.save_needs_file && state.disk[t].is_none() {
            return false;
        }
        if state.tuners[t].is_closed {
            state.accuse(Wrong::JournalRaised);
        }
        state.disk[t] = Some(Journal { is_durable: self.protocol.syncs, ..state.tuners[t].journal });
        true
    }

    fn tuner(&self, state: &mut State, t: usize) -> bool {
        if state.tuners[t].run != Run::Runs {
            return false;
        }
        let at = state.tuners[t].at;
        match at {
            // What needs no server.
            At::End => false,
            At::Journal | At::Announce | At::Settle | At::Retract | At::Keep | At::KeepRemove | At::Home => {
                self.tuner_alone(state, t, at)
            }
            At::Restore(Back::Remove) => {
                state.remove_journal(t);
                state.tuners[t].at = At::Home;
                true
            }
            // Where there is no EVENT, nothing is asked of the server.
            At::Alter | At::AlterBack | At::KeepDrop | At::Restore(Back::DropEvent)
                if !state.tuners[t].journal.has_event && self.protocol.event_goes_last =>
            {
                state.tuners[t].at = match at {
                    At::Alter => At::Send,
                    At::AlterBack => At::Regain,
                    At::KeepDrop if self.protocol.keep_asks_again => At::AskAgain,
                    At::KeepDrop => {
                        self.kept(state, t);
                        At::KeepRemove
                    }
                    _ => At::Restore(Back::Remove),
                };
                true
            }
            At::Clear(Back::Remove) => {
                state.remove_journal(1 - t);
                state.tuners[t].at = At::AwaitEvent;
                state.tuners[t].waited = 0;
                true
            }
            _ if !state.network => false,
            At::Idle => {
                // A heartbeat that fails, or a look at the values.
                let is_lost = !state.has_lease(t) || state.tuners[t].boot != state.boot;
                let is_foreign = (0..self.variables()).any(|i| state.values[i] != state.tuners[t].current[i]);
                if is_lost || is_foreign {
                    state.tuners[t].at = At::Regain;
                }
                is_lost || is_foreign
            }
            _ if state.tuners[t].boot != state.boot => self.lost_connection(state, t),
            _ => self.tuner_on_server(state, t, at),
        }
    }

    fn tuner_alone(&self, state: &mut State, t: usize, at: At) -> bool {
        let me = t as u8;
        let or_regain = |is_saved, at| if is_saved { at } else { At::Regain };
        match at {
            At::Journal => {
                self.save(state, t, true);
                state.tuners[t].at = At::Idle;
                if state.scheduler {
                    // Before it is on the server.
                    state.tuners[t].journal.has_event = true;
                    self.save(state, t, false);
                    state.tuners[t].at = At::Rehearse;
                }
            }
            At::Announce => state.tuners[t].at = or_regain(self.save(state, t, false), At::Alter),
            At::Settle => state.tuners[t].at = or_regain(self.save(state, t, false), At::AlterAgain),
            At::Retract => state.tuners[t].at = or_regain(self.save(state, t, false), At::AlterBack),
            At::Keep => {
                state.tuners[t].journal.is_kept = true;
                if self.save(state, t, false) {
                    // From here on both are right, until it is done.
                    for i in 0..self.variables() {
                        if state.author[i] == Author::Tuner(me) {
                            state.also[i] |= state.values[i].bit();
                        }
                    }
                    state.tuners[t].at = At::KeepDrop;
                } else {
                    state.tuners[t].journal.is_kept = false;
                    state.tuners[t].at = At::Regain;
                }
            }
            At::KeepRemove => {
                state.remove_journal(t);
                state.tuners[t].keeps = true;
                state.tuners[t].at = At::Home;
            }
            At::Home => {
                let guardian = &mut state.guardians[t];
                if guardian.run == Run::Runs && guardian.at == GuardianAt::Listens {
                    guardian.run = Run::Ended;
                } else if guardian.run == Run::Stopped {
                    // It is killed after a while.
                    guardian.run = Run::Killed;
                    state.hang_up();
                }
                state.tuners[t].at = At::Release;
            }
            _ => return false,
        }
        true
    }

    /// What a tuner does when the server was restarted under its connections.
    fn lost_connection(&self, state: &mut State, t: usize) -> bool {
        let boot = state.boot;
        state.flights[t] = None;
        state.tuners[t].boot = boot;
        match state.tuners[t].at {
            At::Lock => {}
            At::Clear(_) | At::AwaitEvent | At::Read | At::Probe | At::Guard => self.end(state, t),
            At::Release => self.end(state, t),
            At::AskAgain => state.tuners[t].at = At::KeepRemove,
            _ => self.fails(state, t),
        }
        true
    }

    /// The process ends: its connections and its pipe are closed.
    fn end(&self, state: &mut State, t: usize) {
        state.tuners[t].at = At::End;
        state.tuners[t].run = Run::Ended;
        state.hang_up();
    }

    fn tuner_on_server(&self, state: &mut State, t: usize, at: At) -> bool {
        let me = t as u8;
        let lease = Some(Holder::Lease(me));
        let sees_other = self.scope.second == Some(Place::SameHost);
        let or_regain = |is_right, at| if is_right { at } else { At::Regain };
        match at {
            At::Lock => {
                if state.take_lock(Holder::Lease(me)) {
                    let is_left = sees_other && self.protocol.clears_up && state.disk[1 - t].is_some();
                    state.tuners[t].at = if is_left { At::Clear(Back::Reread) } else { At::AwaitEvent };
                    state.tuners[t].waited = 0;
                } else if state.tuners[t].waited > LOCK_WAIT {
                    self.end(state, t);
                } else {
                    return false;
                }
            }
            At::Clear(back) => {
                let journal = state.disk[1 - t];
                match self.back(state, 1 - t, back, journal, lease) {
                    Next::On(back) => state.tuners[t].at = At::Clear(back),
                    Next::Gone => {
                        state.tuners[t].at = At::AwaitEvent;
                        state.tuners[t].waited = 0;
                    }
                    Next::Again if state.has_lease(t) => state.tuners[t].at = At::Clear(Back::Reread),
                    Next::Again => self.end(state, t),
                    Next::Waits => return false,
                }
            }
            At::AwaitEvent => {
                // Where something was cleared up, whoever gave back beside this lease has ended after a second.
                if self.protocol.foreign_right_ends
                    && sees_other
                    && state.tuners[t].waited == 0
                    && state.tuners[1 - t].run != Run::Absent
                {
                    return false;
                }
                // A body that has begun ends within milliseconds: before another tuner has taken what it needs.
                if state.events.iter().all(Option::is_none) && state.event_runs.iter().all(Option::is_none) {
                    state.tuners[t].at = At::Read;
                } else if state.tuners[t].waited > LEFTOVER {
                    self.end(state, t);
                } else {
                    return false;
                }
            }
            At::Read => {
                let (values, boot) = (state.values, state.boot);
                let tuner = &mut state.tuners[t];
                tuner.journal = Journal { original: values, boot, ..NO_JOURNAL };
                tuner.current = values;
                tuner.at = At::Probe;
                if state.has_lease(t) {
                    // What a DBA set before is an old value like any other.
                    state.author = [Author::Nobody; MOST_VARIABLES];
                }
            }
            At::Probe => {
                let original = state.tuners[t].journal.original;
                let stands = (0..self.variables()).all(|i| state.values[i] == original[i]);
                if !self.protocol.probe_compares {
                    for (i, value) in original.into_iter().enumerate().take(self.variables()) {
                        self.write_back(state, t, i, value, false);
                    }
                } else if !stands || !state.has_lease(t) {
                    self.end(state, t);
                    return true;
                }
                state.tuners[t].at = At::Guard;
            }
            At::Guard => {
                state.guardians[t] = NEW_GUARDIAN;
                state.tuners[t].has_guardian = true;
                state.tuners[t].at = At::Journal;
            }
            At::Rehearse => {
                let body = state.tuners[t].journal;
                if !self.protocol.own_event_names && state.events.iter().any(Option::is_some) {
                    state.tuners[t].at = At::Regain;
                } else {
                    state.events[t] = Some(Event { body, is_rehearsal: true, is_due: false });
                    state.tuners[t].at = At::AwaitRehearsal;
                    state.tuners[t].waited = 0;
                }
            }
            At::AwaitRehearsal => {
                if state.events[t].is_none() {
                    state.tuners[t].at = At::Arm;
                } else if state.tuners[t].waited > REHEARSAL {
                    // The guardian alone.
                    self.drop_event(state, t, Some(t));
                    state.tuners[t].journal.has_event = false;
                    self.save(state, t, false);
                    state.tuners[t].at = At::Idle;
                } else {
                    return false;
                }
            }
            At::Arm => {
                let body = state.tuners[t].journal;
                let is_taken = !self.protocol.own_event_names && state.events[1 - t].is_some();
                if !is_taken {
                    state.events[t] = Some(Event { body, is_rehearsal: false, is_due: false });
                }
                state.tuners[t].at = or_regain(!is_taken, At::Idle);
            }
            At::Look | At::LookToKeep => {
                let current = state.tuners[t].current;
                let stands = (0..self.variables()).all(|i| state.values[i] == current[i]);
                let then = if at == At::Look { At::LookLease } else { At::AskToKeep };
                if at == At::Look && !stands {
                    self.forget(&mut state.tuners[t]);
                }
                state.tuners[t].at = or_regain(stands, then);
            }
            At::LookLease => {
                if !state.has_lease(t) {
                    self.forget(&mut state.tuners[t]);
                }
                state.tuners[t].at = or_regain(state.has_lease(t), At::Announce);
            }
            At::Alter | At::AlterAgain | At::AlterBack => {
                let body = state.tuners[t].journal;
                let then = match at {
                    At::Alter => At::Send,
                    At::AlterBack => At::Regain,
                    _ => At::Idle,
                };
                if !body.has_event {
                    state.tuners[t].at = then;
                } else if let Some(event) = self.event_named(state, t) {
                    *event = Event { body, ..*event };
                    state.tuners[t].at = then;
                } else {
                    state.tuners[t].at = At::Regain;
                }
            }
            At::Send => {
                let tuner = &mut state.tuners[t];
                let (value, expected, boot) = (wanted(tuner), tuner.current, tuner.boot);
                tuner.at = At::ReadBack;
                state.flights[t] = Some(Flight { value, expected, boot, at: FlightStep::Sent });
            }
            At::ReadBack => {
                let Some(FlightStep::Done { was_set }) = state.flights[t].map(|flight| flight.at) else {
                    return false;
                };
                state.flights[t] = None;
                let value = wanted(&state.tuners[t]);
                let values = state.values;
                let is_set = was_set && (0..self.variables()).all(|i| values[i] == value[i]);
                let tuner = &mut state.tuners[t];
                tuner.journal.is_changing = false;
                if was_set && self.protocol.knows_what_it_set {
                    tuner.current = value;
                } else if was_set {
                    tuner.current = values;
                }
                if is_set {
                    tuner.sets += 1;
                    tuner.at = if self.protocol.announces { At::Idle } else { At::Settle };
                } else if (was_set && self.protocol.remembers_what_was_set)
                    || !self.protocol.retracts
                    || value[..self.variables()] == tuner.journal.original[..self.variables()]
                {
                    // Somebody else set it, or the lease is lost: the trial ends.
                    tuner.at = At::Regain;
                } else {
                    self.forget(tuner);
                    tuner.at = At::Retract;
                }
            }
            At::Regain => {
                let by = if state.has_lease(t) { lease } else { self.right(state, t, Holder::Writer(me)) };
                if by.is_some() {
                    state.tuners[t].by = by;
                    state.tuners[t].at = At::Restore(Back::Reread);
                } else if state.tuners[t].waited > PUT_BACK {
                    self.end(state, t);
                } else {
                    return false;
                }
                state.tuners[t].waited = 0;
            }
            At::Restore(back) => {
                let tuner = state.tuners[t];
                let mut journal = tuner.journal;
                if !tuner.is_uncertain && self.protocol.announces {
                    // While it lives it knows what it set last.
                    journal.set = tuner.current.map(Value::bit);
                }
                state.tuners[t].at = match self.back(state, t, back, Some(journal), tuner.by) {
                    Next::On(back) => At::Restore(back),
                    Next::Gone => At::Home,
                    Next::Again => At::Regain,
                    Next::Waits => return false,
                };
            }
            At::AskToKeep => state.tuners[t].at = or_regain(state.has_lease(t), At::Keep),
            At::AskAgain => {
                // Lost meanwhile: nothing is said, and nothing put back, for others may go by what stands already.
                if state.has_lease(t) {
                    self.kept(state, t);
                }
                state.tuners[t].at = At::KeepRemove;
            }
            At::KeepDrop => {
                self.drop_event(state, t, Some(t));
                if self.protocol.keep_asks_again {
                    state.tuners[t].at = At::AskAgain;
                } else {
                    self.kept(state, t);
                    state.tuners[t].at = At::KeepRemove;
                }
            }
            At::Release => {
                state.release(Holder::Lease(me));
                state.release(Holder::Writer(me));
                self.end(state, t);
            }
            _ => return false,
        }
        true
    }

    /// What was added last was not set.
    fn forget(&self, tuner: &mut Tuner) {
        let value = wanted(tuner);
        tuner.journal.is_changing = false;
        for (set, value) in tuner.journal.set.iter_mut().zip(value) {
            *set &= !value.bit();
        }
    }

    /// A tuner says that its values are kept.
    fn kept(&self, state: &mut State, t: usize) {
        for i in 0..self.variables() {
            if state.author[i] != Author::Dba {
                state.right[i] = state.tuners[t].current[i];
                state.also[i] = 0;
                // The guardian of a tuner that was cut off on another host may undo it.
                if self.scope.second == Some(Place::OtherHost) {
                    state.also[i] |= Value::Old.bit();
                }
            }
        }
    }

    // Putting back, by whomever.

    /// The right to put back what tuner `t` changed: the lock, or that somebody else has it for a second who is not that tuner.
    fn right(&self, state: &mut State, t: usize, own: Holder) -> Option<Holder> {
        if state.take_lock(own) {
            return Some(own);
        }
        let lock = state.lock?;
        let is_foreign = lock.holder != Holder::Lease(t as u8) && lock.age >= self.protocol.foreign_s;
        (self.protocol.needs_no_lock_of_stranger && is_foreign || lock.holder == own).then_some(lock.holder)
    }

    /// One step of putting back what tuner `t` changed, while the lock is held by whom it must be.
    fn back(
        &self,
        state: &mut State,
        t: usize,
        at: Back,
        journal: Option<Journal>,
        by: Option<Holder>,
    ) -> Next {
        let Some(journal) = journal else { return Next::Gone };
        let first = if self.protocol.event_goes_last { Back::AwaitFlight } else { Back::DropEvent };
        // A lock is lost with its connection.
        let is_own = matches!(by, Some(Holder::Writer(_) | Holder::Guardian(_) | Holder::Recover));
        let is_asked = match at {
            Back::Reread | Back::Remove => false,
            Back::DropEvent => journal.has_event,
            _ => true,
        };
        if is_own && is_asked && state.holder() != by {
            return Next::Again;
        }
        Next::On(match at {
            Back::Reread => match state.disk[t] {
                None => return Next::Gone,
                // Its EVENT may have begun to put back: it may only be dropped with the journal.
                Some(journal) if journal.is_kept => Back::DropEvent,
                Some(_) if !self.protocol.journal_goes_last => {
                    state.remove_journal(t);
                    first
                }
                Some(_) => first,
            },
            Back::AwaitFlight => {
                if self.protocol.awaits_flight && is_busy(state, t) {
                    return Next::Waits;
                }
                Back::Read
            }
            Back::Read => {
                if self.protocol.asks_for_restart && journal.boot != state.boot {
                    Back::AskRight
                } else {
                    let ours = (0..self.variables()).fold(0, |bits, i| {
                        let is_ours = journal.is_ours(i, state.values[i], &self.protocol);
                        bits | u8::from(is_ours || !self.protocol.back_looks) << i
                    });
                    self.set_next(0, ours)
                }
            }
            Back::Set { next, ours } => {
                let i = usize::from(next);
                let has_right = !self.protocol.back_asks_for_lock || state.holder() == by;
                let is_ours = journal.is_ours(i, state.values[i], &self.protocol);
                if has_right && (is_ours || !self.protocol.back_compares) {
                    self.write_back(state, t, i, journal.original[i], true);
                }
                self.set_next(next + 1, ours)
            }
            Back::Verify => {
                if (0..self.variables()).any(|i| journal.is_ours(i, state.values[i], &self.protocol)) {
                    return Next::Again;
                }
                if self.protocol.event_goes_last { Back::AskRight } else { Back::Remove }
            }
            Back::AskRight => {
                if self.protocol.back_asks_for_lock && state.holder() != by {
                    return Next::Again;
                }
                Back::DropEvent
            }
            Back::DropEvent => {
                let by = match by {
                    Some(Holder::Lease(who)) => Some(usize::from(who)),
                    _ => None,
                };
                self.drop_event(state, t, by);
                let is_done = self.protocol.event_goes_last
                    || state.disk[t].is_none_or(|journal| journal.is_kept || journal.boot != state.boot);
                if is_done { Back::Remove } else { Back::AwaitFlight }
            }
            Back::Remove => {
                state.remove_journal(t);
                return Next::Gone;
            }
        })
    }

    /// The next variable that was seen to be ours.
    fn set_next(&self, from: u8, ours: u8) -> Back {
        match (from..self.scope.variables).find(|i| ours & (1 << i) != 0) {
            Some(next) => Back::Set { next, ours },
            None => Back::Verify,
        }
    }

    /// A variable gets its old value from tuner `t`'s journal or EVENT.
    fn write_back(&self, state: &mut State, t: usize, i: usize, value: Value, is_back: bool) {
        if state.values[i] == value {
            return;
        }
        match state.author[i] {
            Author::Dba if state.also[i] == 0 => state.accuse(Wrong::DbaOverwritten),
            // Of two tuners on two hosts that try the same value nobody can tell whose it is.
            Author::Tuner(who)
                if usize::from(who) != t
                    && state.has_lease(usize::from(who))
                    && is_back
                    && self.scope.second != Some(Place::OtherHost) =>
            {
                state.accuse(Wrong::TunerOverwritten);
            }
            _ => {}
        }
        state.values[i] = value;
        if state.also[i] & value.bit() != 0 {
            // What the window allows has happened.
            state.right[i] = value;
        }
        state.author[i] = Author::Nobody;
    }

    /// The EVENT that goes by tuner `t`'s name.
    fn event_named<'a>(&self, state: &'a mut State, t: usize) -> Option<&'a mut Event> {
        if self.protocol.own_event_names {
            state.events[t].as_mut()
        } else {
            state.events.iter_mut().flatten().next()
        }
    }

    /// `by` is the tuner that does it, where it is one.
    fn drop_event(&self, state: &mut State, t: usize, by: Option<usize>) {
        let dropped = if self.protocol.own_event_names { t..t + 1 } else { 0..TUNERS };
        for who in dropped {
            let is_watched = state.has_lease(who) && by != Some(who) && state.tuners[who].run == Run::Runs;
            if state.events[who].take().is_some() && is_watched {
                state.accuse(Wrong::SwitchTaken);
            }
        }
    }

    // The guardian.

    fn guardian(&self, state: &mut State, t: usize) -> bool {
        let me = Holder::Guardian(t as u8);
        if state.guardians[t].run != Run::Runs {
            return false;
        }
        let is_heard = state.tuners[t].run == Run::Runs;
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
                if is_heard {
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

    // The server.

    fn flight(&self, state: &mut State, t: usize) -> bool {
        let Some(flight) = state.flights[t] else { return false };
        let is_orphan = matches!(state.tuners[t].run, Run::Killed | Run::Ended);
        if flight.boot != state.boot {
            return false;
        }
        match flight.at {
            FlightStep::Sent => {
                if !state.network {
                    return false;
                }
                let asks = self.protocol.set_asks_for_lease;
                let compares = self.protocol.set_compares;
                let may = !asks || state.has_lease(t);
                let is_expected = (0..self.variables()).all(|i| state.values[i] == flight.expected[i]);
                let holds = may && (is_expected || !compares);
                let at = FlightStep::Evaluated { holds, next: 0 };
                state.flights[t] = Some(Flight { at, ..flight });
            }
            FlightStep::Evaluated { holds, next } => {
                let i = usize::from(next);
                if i < self.variables() {
                    if holds {
                        self.set(state, t, i, flight.value[i]);
                    }
                    let at = FlightStep::Evaluated { holds, next: next + 1 };
                    state.flights[t] = Some(Flight { at, ..flight });
                } else {
                    let at = FlightStep::Done { was_set: holds };
                    state.flights[t] = (!is_orphan).then_some(Flight { at, ..flight });
                }
            }
            FlightStep::Done { .. } => return false,
        }
        true
    }

    /// A variable gets a value that tuner `t` tries.
    fn set(&self, state: &mut State, t: usize, i: usize, value: Value) {
        if state.values[i] == value {
            return;
        }
        if state.author[i] == Author::Dba && state.also[i] == 0 {
            state.accuse(Wrong::DbaOverwritten);
        }
        if !self.protocol.set_asks_for_lease && !state.has_lease(t) {
            state.accuse(Wrong::SetWithoutLease);
        }
        state.values[i] = value;
        state.author[i] = Author::Tuner(t as u8);
    }

    fn event(&self, state: &mut State, t: usize) -> bool {
        let Some(run) = state.event_runs[t] else {
            let Some(event) = state.events[t] else { return false };
            if !event.is_due || !state.scheduler {
                return false;
            }
            state.events[t] = Some(Event { is_due: false, ..event });
            if event.is_rehearsal {
                if !self.protocol.rehearsal_compares && state.has_lease(t) {
                    for i in 0..self.variables() {
                        self.write_back(state, t, i, event.body.original[i], false);
                    }
                }
                state.events[t] = None;
                return true;
            }
            if self.protocol.event_asks_for_lease && state.has_lease(t) {
                return true;
            }
            let is_restarted = self.protocol.asks_for_restart && event.body.boot != state.boot;
            let at = if is_restarted { EventStep::Drop } else { EventStep::PutBack(0) };
            state.event_runs[t] = Some(EventRun { is_busy: is_busy(state, t), body: event.body, at });
            return true;
        };
        match run.at {
            EventStep::PutBack(next) => {
                let i = usize::from(next);
                let is_ours = run.body.is_ours(i, state.values[i], &self.protocol);
                if is_ours || !self.protocol.event_compares {
                    self.write_back(state, t, i, run.body.original[i], true);
                }
                let at =
                    if i + 1 < self.variables() { EventStep::PutBack(next + 1) } else { EventStep::Drop };
                state.event_runs[t] = Some(EventRun { at, ..run });
            }
            EventStep::Drop => {
                state.event_runs[t] = None;
                let is_left = run.at == EventStep::Drop
                    && run.body.boot == state.boot
                    && (0..self.variables()).any(|i| run.body.is_ours(i, state.values[i], &self.protocol));
                if !(is_left || self.protocol.awaits_flight && run.is_busy) {
                    self.drop_event(state, t, None);
                }
            }
        }
        true
    }

    // `--recover`.

    fn recover(&self, state: &mut State) -> bool {
        if !state.network || state.recover.at == RecoverAt::Absent {
            return false;
        }
        if state.recover.boot != state.boot {
            state.recover.at = RecoverAt::Absent;
            return true;
        }
        let me = Holder::Recover;
        let Recover { own, by, .. } = state.recover;
        let next_journal = |from: usize| {
            (from..TUNERS)
                .find(|t| own & (1 << t) != 0)
                .map_or(RecoverAt::AwaitEvent, |t| RecoverAt::Back(t as u8, Back::Reread))
        };
        match state.recover.at {
            RecoverAt::Absent => return false,
            RecoverAt::Lock => {
                // The lock of a tuner whose journal was here when it began is respected.
                let tuner = (0..TUNERS).find(|t| own & (1 << t) != 0 && state.has_lease(*t));
                let right = match tuner {
                    Some(_) => None,
                    None if own == 0 => state.take_lock(me).then_some(me),
                    None => self.right(state, usize::MAX, me),
                };
                if let Some(by) = right {
                    state.recover.by = Some(by);
                    state.recover.at = next_journal(0);
                    state.recover.waited = 0;
                } else if state.recover.waited > LEFTOVER {
                    state.recover.at = RecoverAt::Absent;
                } else {
                    return false;
                }
            }
            RecoverAt::Back(t, back) => {
                let t = usize::from(t);
                let journal = state.disk[t];
                state.recover.at = match self.back(state, t, back, journal, by) {
                    Next::On(back) => RecoverAt::Back(t as u8, back),
                    Next::Gone => next_journal(t + 1),
                    Next::Again if state.recover.waited > LEFTOVER => {
                        state.release(me);
                        RecoverAt::Absent
                    }
                    Next::Again => RecoverAt::Lock,
                    Next::Waits => return false,
                };
            }
            RecoverAt::AwaitEvent => {
                if state.events.iter().all(Option::is_none) || state.recover.waited > LEFTOVER {
                    state.recover.at = RecoverAt::Absent;
                    state.hang_up();
                } else {
                    return false;
                }
            }
        }
        true
    }

    // Everything else.

    fn outside(&self, state: &mut State, step: Step) -> bool {
        let running = |run| run == Run::Runs;
        let there = |run| matches!(run, Run::Runs | Run::Stopped);
        match step {
            Step::StartRecover => {
                if state.recover.at != RecoverAt::Absent {
                    return false;
                }
                state.recoveries -= 1;
                let own = (0..TUNERS).filter(|t| state.disk[*t].is_some()).fold(0, |own, t| own | 1 << t);
                let boot = state.boot;
                state.recover = Recover { at: RecoverAt::Lock, own, by: None, waited: 0, boot };
            }
            Step::StartSecond => {
                state.second = false;
                state.tuners[1].run = Run::Runs;
                state.tuners[1].boot = state.boot;
            }
            Step::Dba(i, value) => {
                let i = usize::from(i);
                if state.values[i] == value {
                    return false;
                }
                state.dba -= 1;
                self.dba_sets(state, i, value);
            }
            Step::DbaPersist(i) => {
                let i = usize::from(i);
                state.dba -= 1;
                state.persisted[i] = Some(Value::Dba);
                self.dba_sets(state, i, Value::Dba);
            }
            Step::StrangerTakes => {
                if !state.stranger || !state.take_lock(Holder::Stranger) {
                    return false;
                }
                state.stranger = false;
            }
            Step::StrangerReleases => {
                if state.holder() != Some(Holder::Stranger) {
                    return false;
                }
                state.lock = None;
            }
            Step::KillTuner(t) => {
                let tuner = &mut state.tuners[usize::from(t)];
                if !there(tuner.run) {
                    return false;
                }
                tuner.run = Run::Killed;
                self.fault(state);
            }
            Step::KillGuardian(t) => {
                let guardian = &mut state.guardians[usize::from(t)];
                if !there(guardian.run) {
                    return false;
                }
                guardian.run = Run::Killed;
                self.fault(state);
            }
            Step::StopTuner(t) => {
                let tuner = &mut state.tuners[usize::from(t)];
                if !running(tuner.run) {
                    return false;
                }
                tuner.run = Run::Stopped;
                self.fault(state);
            }
            Step::StopGuardian(t) => {
                let guardian = &mut state.guardians[usize::from(t)];
                if !running(guardian.run) {
                    return false;
                }
                guardian.run = Run::Stopped;
                self.fault(state);
            }
            Step::ContinueTuner(t) => {
                let t = usize::from(t);
                if state.tuners[t].run != Run::Stopped {
                    return false;
                }
                state.tuners[t].run = Run::Runs;
                state.overdue = 0;
                // Its line is the first thing that the guardian hears.
                state.guardians[t].silence = 0;
            }
            Step::ContinueGuardian(t) => {
                let guardian = &mut state.guardians[usize::from(t)];
                if guardian.run != Run::Stopped {
                    return false;
                }
                guardian.run = Run::Runs;
                state.overdue = 0;
            }
            Step::NetworkDown => {
                if !state.network {
                    return false;
                }
                state.network = false;
                self.fault(state);
            }
            Step::NetworkUp => {
                if state.network {
                    return false;
                }
                state.network = true;
                state.overdue = 0;
                state.hang_up();
            }
            Step::Restart => {
                if state.boot > 1 {
                    return false;
                }
                state.boot += 1;
                for i in 0..self.variables() {
                    let value = state.persisted[i].unwrap_or(state.configured);
                    state.values[i] = value;
                    state.right[i] = value;
                    state.also[i] = 0;
                    state.author[i] = Author::Nobody;
                }
                state.lock = None;
                state.event_runs = [None; TUNERS];
                state.flights = [None; TUNERS];
                self.fault(state);
            }
            Step::HostCrash => {
                for t in 0..TUNERS {
                    if t == 1 && self.scope.second == Some(Place::OtherHost) {
                        continue;
                    }
                    if there(state.tuners[t].run) {
                        state.tuners[t].run = Run::Killed;
                    }
                    if there(state.guardians[t].run) {
                        state.guardians[t].run = Run::Killed;
                    }
                    if state.disk[t].is_some_and(|journal| !journal.is_durable) {
                        state.disk[t] = None;
                    }
                }
                state.recover.at = RecoverAt::Absent;
                // Nobody tells the server.
                state.faults -= 1;
                state.overdue = 0;
            }
            Step::SchedulerOff => {
                if !state.scheduler {
                    return false;
                }
                state.scheduler = false;
                self.fault(state);
            }
            _ => return false,
        }
        true
    }

    fn fault(&self, state: &mut State) {
        state.faults -= 1;
        // The promise counts from what happened last.
        state.overdue = 0;
        state.hang_up();
    }

    fn dba_sets(&self, state: &mut State, i: usize, value: Value) {
        state.also[i] = 0;
        for t in 0..TUNERS {
            let tuner = &state.tuners[t];
            let is_there = matches!(tuner.run, Run::Runs | Run::Stopped);
            let memory = (is_there && tuner.at != At::Lock).then_some(tuner.journal);
            let known = [
                state.disk[t],
                state.events[t].map(|event| event.body),
                state.event_runs[t].map(|run| run.body),
                state.guardians[t].journal,
                memory,
            ];
            for journal in known.into_iter().flatten() {
                // Nobody can tell the DBA's value from the tuner's; or it comes between the server's look and its change.
                let is_being_set = state.flights[t].is_some_and(|flight| {
                    matches!(flight.at, FlightStep::Evaluated { holds, next } if holds && usize::from(next) <= i)
                });
                if journal.is_ours(i, value, &self.protocol) || is_being_set {
                    state.also[i] |= journal.original[i].bit();
                }
            }
        }
        state.values[i] = value;
        state.right[i] = value;
        state.author[i] = Author::Dba;
    }

    fn tick(&self, state: &mut State) -> bool {
        let mut steps = Vec::with_capacity(64);
        self.candidates(state, &mut steps);
        let before = state.clone();
        if steps.iter().any(|step| self.is_urgent(&before, *step) && self.after(&before, *step).is_some()) {
            return false;
        }
        state.overdue = if self.is_due(state) { (state.overdue + 1).min(LONG) } else { 0 };
        let is_mute = state.holder().is_some_and(|holder| state.is_mute(holder));
        if let Some(lock) = &mut state.lock {
            let limit = match lock.holder {
                Holder::Lease(_) => Some(self.protocol.lease_idle_s),
                Holder::Stranger => None,
                _ => self.protocol.back_idle_s,
            };
            lock.age = (lock.age + 1).min(self.protocol.foreign_s);
            lock.silent = if is_mute { (lock.silent + 1).min(LONG) } else { 0 };
            if limit.is_some_and(|limit| lock.silent >= limit) {
                state.lock = None;
            } else if limit.is_none() {
                lock.silent = 0;
            }
        }
        if self.protocol.foreign_right_ends {
            let own = |by: Option<Holder>, own| by.filter(|by| *by == own);
            for t in 0..TUNERS {
                let me = t as u8;
                state.guardians[t].by = own(state.guardians[t].by, Holder::Guardian(me));
                if state.tuners[t].by != Some(Holder::Lease(me)) {
                    state.tuners[t].by = own(state.tuners[t].by, Holder::Writer(me));
                }
            }
            state.recover.by = own(state.recover.by, Holder::Recover);
        }
        for t in 0..TUNERS {
            if let Some(event) = &mut state.events[t] {
                event.is_due = state.scheduler;
            }
            let is_silent = state.tuners[t].run == Run::Stopped;
            let guardian = &mut state.guardians[t];
            if guardian.run == Run::Runs {
                let most = self.protocol.guardian_silence_s;
                guardian.silence = if is_silent { (guardian.silence + 1).min(most) } else { 0 };
            }
            let tuner = &mut state.tuners[t];
            let waits = matches!(tuner.at, At::Lock | At::AwaitEvent | At::AwaitRehearsal | At::Regain);
            if tuner.run == Run::Runs && waits {
                tuner.waited = (tuner.waited + 1).min(LONG);
            }
        }
        if state.recover.at != RecoverAt::Absent {
            state.recover.waited = (state.recover.waited + 1).min(LONG);
        }
        true
    }

    /// True where values are the tuner's that nobody has the right to any more, and somebody is there to put them back.
    pub(crate) fn is_due(&self, state: &State) -> bool {
        (0..TUNERS).any(|t| {
            let is_at_work = state.tuners[t].run == Run::Runs && state.network && state.has_lease(t);
            let is_changed = (0..self.variables())
                .any(|i| state.author[i] == Author::Tuner(t as u8) && !self.is_right(state, i));
            let is_slow = state.flights[t].is_some();
            let event = state.events[t].is_some() && state.scheduler;
            let guardian = state.guardians[t].run == Run::Runs && state.network;
            is_changed && !is_at_work && !is_slow && (event || guardian)
        })
    }

    /// True where a variable has the value that it should have.
    pub(crate) fn is_right(&self, state: &State, i: usize) -> bool {
        state.values[i] == state.right[i] || state.also[i] & state.values[i].bit() != 0
    }
}

/// What comes after a step of putting back.
enum Next {
    On(Back),
    /// All is back, or was before.
    Gone,
    /// It failed: from the beginning.
    Again,
    /// The server is not ready for it.
    Waits,
}

/// True while the server works on the last statement of a tuner.
fn is_busy(state: &State, t: usize) -> bool {
    state.flights[t].is_some_and(|flight| matches!(flight.at, FlightStep::Evaluated { .. }))
}

/// What a tuner sets next.
fn wanted(tuner: &Tuner) -> [Value; MOST_VARIABLES] {
    match tuner.sets {
        0 => [Value::New; MOST_VARIABLES],
        1 => tuner.journal.original,
        _ => [Value::Newer; MOST_VARIABLES],
    }
}
