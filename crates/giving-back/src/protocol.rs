//! What the tuner, its guardian, its EVENT and `--recover` do, switch by switch: as the program has it, or with a bug planted.

/// The protocol. [`Protocol::PROGRAM`] is what `crates/tune` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// What will be set is in the journal and in the EVENT before it is set.
    pub announces: bool,
    /// The statement that sets asks for the lease.
    pub set_asks_for_lease: bool,
    /// The statement that sets compares with what was read back last.
    pub set_compares: bool,
    /// While a new value is being set, whatever the variable has counts as the tuner's doing.
    pub anything_while_changing: bool,
    /// The tuner reads the values before it announces, and ends where they are not its own.
    pub looks_before_announcing: bool,
    /// What is read back after a SET and is not what was set is somebody else's.
    pub knows_what_it_set: bool,
    /// What was set stays in the journal where somebody else has set one of the variables since.
    pub remembers_what_was_set: bool,
    /// A value that was announced and not set is taken out of the journal again.
    pub retracts: bool,
    /// The probe of the account's rights compares, too.
    pub probe_compares: bool,
    /// So does the EVENT's rehearsal.
    pub rehearsal_compares: bool,
    /// Processes that put back look whether the value is the tuner's.
    pub back_looks: bool,
    /// And compare in the very statement.
    pub back_compares: bool,
    /// And ask in it whether they still have the lock that they took.
    pub back_asks_for_lock: bool,
    /// The EVENT compares.
    pub event_compares: bool,
    /// The EVENT asks who has the lease.
    pub event_asks_for_lease: bool,
    /// The EVENT is dropped after the values are back.
    pub event_goes_last: bool,
    /// The journal is removed after the values are back.
    pub journal_goes_last: bool,
    /// Each tuner's EVENT has a name of its own.
    pub own_event_names: bool,
    /// Who gives back waits until the tuner's connection runs no statement.
    pub awaits_flight: bool,
    /// Who gives back does so beside a lock that another connection holds, which is not the tuner's.
    pub needs_no_lock_of_stranger: bool,
    /// That right ends within a second, and a tuner that cleared something up waits for so long.
    pub foreign_right_ends: bool,
    /// Seconds of silence after which the server closes a connection that puts back; none is eight hours.
    pub back_idle_s: Option<u8>,
    /// Seconds of silence after which the server closes the lease's connection.
    pub lease_idle_s: u8,
    /// Seconds of silence after which a guardian takes the tuner for gone.
    pub guardian_silence_s: u8,
    /// A journal that is gone is not written again.
    pub save_needs_file: bool,
    /// A tuner that keeps a value asks for the lease once more when the EVENT is gone: only then it was not too late.
    pub keep_asks_again: bool,
    /// What is written is on disk when the next step begins.
    pub syncs: bool,
    /// A process that puts back asks whether the server was restarted.
    pub asks_for_restart: bool,
    /// The next tuner puts back what a dead one left, before it reads the old values.
    pub clears_up: bool,
}

impl Protocol {
    /// As `crates/tune` has it.
    pub const PROGRAM: Self = Self {
        announces: true,
        set_asks_for_lease: true,
        set_compares: true,
        anything_while_changing: false,
        looks_before_announcing: true,
        knows_what_it_set: true,
        remembers_what_was_set: true,
        retracts: true,
        probe_compares: true,
        rehearsal_compares: true,
        back_looks: true,
        back_compares: true,
        back_asks_for_lock: true,
        event_compares: true,
        event_asks_for_lease: true,
        event_goes_last: true,
        journal_goes_last: true,
        own_event_names: true,
        awaits_flight: true,
        needs_no_lock_of_stranger: true,
        foreign_right_ends: true,
        back_idle_s: Some(2),
        lease_idle_s: 4,
        guardian_silence_s: 5,
        save_needs_file: true,
        keep_asks_again: true,
        syncs: true,
        asks_for_restart: true,
        clears_up: true,
    };
}
