//! What the model remembers: the server, the disk, every process, and what should be true.

use std::fmt;

/// At most so many variables are taken.
pub const MOST_VARIABLES: usize = 2;
/// The tuners: the one that is watched, and a second one that comes later.
pub const TUNERS: usize = 2;

/// A variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// The one before the trial.
    Old,
    /// The first that the trial tries.
    New,
    /// The second that it tries.
    Newer,
    /// A third value, of the DBA.
    Dba,
    /// What the option file says: the value after a restart.
    Configured,
}

impl Value {
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Who holds the user lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The lease's connection of a tuner.
    Lease(u8),
    /// The connection on which a tuner puts back after it lost the lease.
    Writer(u8),
    /// A guardian, while it puts back.
    Guardian(u8),
    /// `tune --recover`.
    Recover,
    /// An account without any privilege.
    Stranger,
}

/// The user lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Whose connection.
    pub holder: Holder,
    /// For how many ticks nothing from it has reached the server.
    pub silent: u8,
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    /// Not started.
    Absent,
    /// It runs.
    Runs,
    /// SIGSTOP.
    Stopped,
    /// SIGKILL, or the host crashed.
    Killed,
    /// It ended by itself.
    Ended,
}

/// A journal on disk, or what a process remembers of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Journal {
    /// What the variables had.
    pub original: [Value; MOST_VARIABLES],
    /// Bits of the values that the tuner may have set.
    pub set: [u8; MOST_VARIABLES],
    /// Whether a value is being set right now.
    pub is_changing: bool,
    /// The tuner decided to leave the values as they are.
    pub is_kept: bool,
    /// An EVENT may stand on the server.
    pub has_event: bool,
    /// In which life of the server it was written.
    pub boot: u8,
    /// It is on disk for good; false in a planted bug only.
    pub is_durable: bool,
}

/// A tuner's EVENT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// What its body knows.
    pub body: Journal,
    /// The rehearsal, which drops itself at its first run.
    pub is_rehearsal: bool,
    /// The scheduler has to run it in this tick.
    pub is_due: bool,
}

/// An EVENT's body that is being executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventRun {
    /// The server worked on the tuner's last statement when it began.
    pub is_busy: bool,
    /// The body as it was when it began.
    pub body: Journal,
    /// What is next.
    pub at: EventStep,
}

/// A statement of an EVENT's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventStep {
    /// `IF @@GLOBAL.x IN (...) THEN SET GLOBAL x = ...`
    PutBack(u8),
    /// `IF undone = 0 THEN DROP EVENT`
    Drop,
}

/// A tuner's `SET GLOBAL` on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flight {
    /// What is set.
    pub value: [Value; MOST_VARIABLES],
    /// What each variable must have for it.
    pub expected: [Value; MOST_VARIABLES],
    /// In which life of the server it was sent.
    pub boot: u8,
    /// How far it is.
    pub at: FlightStep,
}

/// How far a `SET GLOBAL` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlightStep {
    /// The server has not looked at it yet.
    Sent,
    /// Its conditions were looked at; the next variable to be changed.
    Evaluated {
        /// All of them hold: the variables will be changed.
        holds: bool,
        /// The next variable.
        next: u8,
    },
    /// The answer is on its way back.
    Done {
        /// Whether its conditions held.
        was_set: bool,
    },
}

/// What putting a journal's values back is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Back {
    /// Read the journal again, under the lock.
    Reread,
    /// Does the server still work on the tuner's last statement?
    AwaitFlight,
    /// Read the values.
    Read,
    /// Set a variable; bits of those that were seen to be ours.
    Set {
        /// Which.
        next: u8,
        /// Bits.
        ours: u8,
    },
    /// Read them again.
    Verify,
    /// Is the lock still held by whom it must be?
    AskRight,
    /// Drop the EVENT.
    DropEvent,
    /// Remove the journal.
    Remove,
}

/// Where a tuner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// Asks for the lock.
    Lock,
    /// Puts back what another tuner left, where its journal is here.
    Clear(Back),
    /// Waits until no EVENT of another is left.
    AwaitEvent,
    /// Reads the old values.
    Read,
    /// Sets each variable to the value that was read: may this account?
    Probe,
    /// Starts the guardian.
    Guard,
    /// Writes the journal.
    Journal,
    /// Makes the rehearsal.
    Rehearse,
    /// Waits for its end.
    AwaitRehearsal,
    /// Makes the EVENT.
    Arm,
    /// All is armed: sets, waits, keeps, or puts back.
    Idle,
    /// Looks whether the values are those that it knows.
    Look,
    /// And whether it has the lease.
    LookLease,
    /// Writes into the journal what will be set.
    Announce,
    /// Informs the EVENT.
    Alter,
    /// Sends the SET.
    Send,
    /// Waits for its answer, and reads back.
    ReadBack,
    /// Writes into the journal what is set: in a planted bug only.
    Settle,
    /// Informs the EVENT: in a planted bug only.
    AlterAgain,
    /// Writes into the journal that it was not set.
    Retract,
    /// Informs the EVENT.
    AlterBack,
    /// Asks who has the lock, before it puts back.
    Regain,
    /// Puts back.
    Restore(Back),
    /// Looks whether the values are those that it knows, before it keeps.
    LookToKeep,
    /// And whether it has the lease.
    AskToKeep,
    /// Writes into the journal that the values are kept.
    Keep,
    /// Asks once more.
    AskAgain,
    /// Drops the EVENT of kept values.
    KeepDrop,
    /// Removes the journal of kept values.
    KeepRemove,
    /// Sends the guardian home.
    Home,
    /// Gives the lock back.
    Release,
    /// No more.
    End,
}

/// A tuner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tuner {
    /// The process.
    pub run: Run,
    /// Where it is.
    pub at: At,
    /// What it will write into its journal next, as it remembers it.
    pub journal: Journal,
    /// The values as last read back.
    pub current: [Value; MOST_VARIABLES],
    /// How many values it has set.
    pub sets: u8,
    /// Values are kept: what comes after the EVENT and the journal are gone.
    pub keeps: bool,
    /// Ticks spent waiting where it is.
    pub waited: u8,
    /// In which life of the server its connections were made.
    pub boot: u8,
    /// A guardian was started.
    pub has_guardian: bool,
    /// Its journal was removed.
    pub is_closed: bool,
    /// A SET was sent, and it is not known whether it was done.
    pub is_uncertain: bool,
    /// Who must hold the lock while it puts back.
    pub by: Option<Holder>,
}

/// Where a guardian is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuardianAt {
    /// Hears the tuner.
    Listens,
    /// The tuner is gone: tries to get the lock.
    Tries,
    /// Has it, or needs none, and puts back.
    Back(Back),
    /// Gives the lock back, and ends.
    Release,
}

/// A guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guardian {
    /// The process.
    pub run: Run,
    /// Where it is.
    pub at: GuardianAt,
    /// For how many ticks nothing reached it.
    pub silence: u8,
    /// The journal as it read it last.
    pub journal: Option<Journal>,
    /// Who must hold the lock while it puts back.
    pub by: Option<Holder>,
}

/// Where `tune --recover` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Nobody runs it.
    Absent,
    /// Asks for the lock.
    Lock,
    /// Puts a journal back: whose.
    Back(u8, Back),
    /// Waits until no EVENT is left.
    AwaitEvent,
}

/// `tune --recover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recover {
    /// Where.
    pub at: RecoverAt,
    /// Bits of the journals that were there when it began.
    pub own: u8,
    /// Who must hold the lock while it puts back.
    pub by: Option<Holder>,
    /// Ticks spent waiting.
    pub waited: u8,
    /// In which life of the server its connection was made.
    pub boot: u8,
}

/// Who wrote a variable last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Author {
    /// Nobody: it is as it was.
    Nobody,
    /// A tuner, trying something.
    Tuner(u8),
    /// The DBA.
    Dba,
}

/// What must never happen, and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A tuner changed a variable without the lease.
    SetWithoutLease,
    /// A DBA's value was overwritten outside of the named windows.
    DbaOverwritten,
    /// A value that another tuner set, under its lease, was overwritten.
    TunerOverwritten,
    /// The EVENT of a tuner that has the lease was dropped by somebody else.
    SwitchTaken,
    /// A journal that was removed stands there again.
    JournalRaised,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The variables.
    pub values: [Value; MOST_VARIABLES],
    /// What SET PERSIST wrote.
    pub persisted: [Option<Value>; MOST_VARIABLES],
    /// What the option file says.
    pub configured: Value,
    /// Which life of the server.
    pub boot: u8,
    /// The scheduler of events runs.
    pub scheduler: bool,
    /// The user lock.
    pub lock: Option<Lock>,
    /// The EVENT of each tuner.
    pub events: [Option<Event>; TUNERS],
    /// Those that are being executed.
    pub event_runs: [Option<EventRun>; TUNERS],
    /// SETs on their way.
    pub flights: [Option<Flight>; TUNERS],
    /// The network between the server and the tuner's host.
    pub network: bool,
    /// Journals on disk.
    pub disk: [Option<Journal>; TUNERS],
    /// The tuners.
    pub tuners: [Tuner; TUNERS],
    /// Their guardians.
    pub guardians: [Guardian; TUNERS],
    /// Somebody who runs `tune --recover`.
    pub recover: Recover,
    /// Faults that may still happen.
    pub faults: u8,
    /// SETs that the DBA may still do.
    pub dba: u8,
    /// How often `--recover` may still be run.
    pub recoveries: u8,
    /// Whether the stranger may still take the lock.
    pub stranger: bool,
    /// Whether a second tuner may still come.
    pub second: bool,
    /// What each variable should have were there no trial.
    pub right: [Value; MOST_VARIABLES],
    /// Bits of what it may have, too, by a window that is named.
    pub also: [u8; MOST_VARIABLES],
    /// Who wrote it last.
    pub author: [Author; MOST_VARIABLES],
    /// Ticks since the giving back was due with a switch alive.
    pub overdue: u8,
    /// What must never happen, and did.
    pub wrong: Option<Wrong>,
}

/// A step of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A tuner goes on.
    Tuner(u8),
    /// A tuner that is idle: sets the next value.
    Set(u8),
    /// Puts back.
    GiveBack(u8),
    /// Keeps.
    Keep(u8),
    /// A tuner gives up waiting for an answer.
    Breaks(u8),
    /// A tuner starts another guardian for one that ended.
    Respawn(u8),
    /// A guardian goes on.
    Guardian(u8),
    /// The server goes on with a SET.
    Flight(u8),
    /// The scheduler starts an EVENT, or goes on with one.
    Event(u8),
    /// `--recover` is started.
    StartRecover,
    /// It goes on.
    Recover,
    /// The second tuner is started.
    StartSecond,
    /// The DBA sets a variable.
    Dba(u8, Value),
    /// The DBA sets and persists it.
    DbaPersist(u8),
    /// The stranger gets the lock.
    StrangerTakes,
    /// And gives it back.
    StrangerReleases,
    /// SIGKILL.
    KillTuner(u8),
    /// SIGKILL.
    KillGuardian(u8),
    /// SIGSTOP.
    StopTuner(u8),
    /// SIGSTOP.
    StopGuardian(u8),
    /// SIGCONT.
    ContinueTuner(u8),
    /// SIGCONT.
    ContinueGuardian(u8),
    /// Nothing comes through.
    NetworkDown,
    /// It does again.
    NetworkUp,
    /// The server is restarted, or killed and started.
    Restart,
    /// The tuner's host loses its power and starts again.
    HostCrash,
    /// `SET GLOBAL event_scheduler = OFF`
    SchedulerOff,
    /// A second passes.
    Tick,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
