//! What is checked: how much may happen in a run, and the bugs that are planted to see that the checker finds them.

use crate::protocol::Protocol;
use crate::steps::{Place, Scope};

/// One tuner on a server with EVENTs, to which nothing happens.
pub const CALM: Scope = Scope {
    variables: 1,
    sets: 1,
    faults: 0,
    dba: 0,
    recoveries: 0,
    second: None,
    stranger: false,
    scheduler: true,
    configured_is_new: false,
    is_slow: false,
};

/// What `make test` checks, whole: every state that can be reached.
pub const SHORT: &[(&str, Scope)] = &[
    ("two faults", Scope { faults: 2, ..CALM }),
    ("two faults, no EVENT", Scope { faults: 2, scheduler: false, ..CALM }),
    ("two faults, the option file has the new value", Scope { faults: 2, configured_is_new: true, ..CALM }),
    ("two faults, two variables, slow statements", Scope { faults: 2, variables: 2, is_slow: true, ..CALM }),
    ("a fault and a DBA, three values", Scope { faults: 1, dba: 1, sets: 3, ..CALM }),
    ("a fault and a DBA, two variables", Scope { faults: 1, dba: 1, variables: 2, ..CALM }),
    ("two faults and a DBA, no EVENT", Scope { faults: 2, dba: 1, scheduler: false, ..CALM }),
    ("a fault and --recover", Scope { faults: 1, recoveries: 1, ..CALM }),
    ("a fault and a stranger who takes the lock", Scope { faults: 1, stranger: true, ..CALM }),
    ("a fault, a stranger and --recover", Scope { faults: 1, stranger: true, recoveries: 1, ..CALM }),
    ("a fault and a second tuner", Scope { faults: 1, second: Some(Place::SameHost), ..CALM }),
    (
        "a fault and a second tuner on another host",
        Scope { faults: 1, second: Some(Place::OtherHost), ..CALM },
    ),
];

/// What takes longer.
pub const DEEP: &[(&str, Scope)] = &[
    ("three faults", Scope { faults: 3, ..CALM }),
    ("four faults, no EVENT", Scope { faults: 4, scheduler: false, ..CALM }),
    ("two faults and a DBA", Scope { faults: 2, dba: 1, ..CALM }),
    ("a fault and a DBA who sets twice", Scope { faults: 1, dba: 2, ..CALM }),
    ("two faults and --recover, no EVENT", Scope { faults: 2, recoveries: 1, scheduler: false, ..CALM }),
    ("two faults and --recover", Scope { faults: 2, recoveries: 1, ..CALM }),
    (
        "a fault, a DBA, a stranger and --recover",
        Scope { faults: 1, dba: 1, stranger: true, recoveries: 1, ..CALM },
    ),
    ("two faults and a stranger", Scope { faults: 2, stranger: true, ..CALM }),
    ("two faults and a second tuner", Scope { faults: 2, second: Some(Place::SameHost), ..CALM }),
    (
        "two faults and a second tuner, no EVENT",
        Scope { faults: 2, second: Some(Place::SameHost), scheduler: false, ..CALM },
    ),
    ("a fault, a DBA and a second tuner", Scope { faults: 1, dba: 1, second: Some(Place::SameHost), ..CALM }),
];

/// Where it is known not to hold, as [`crate`] says under what is assumed: it must be found there, or the words are out of date.
pub const LIMITS: &[(&str, Scope)] = &[(
    "two faults and a second tuner on another host",
    Scope { faults: 2, second: Some(Place::OtherHost), ..CALM },
)];

/// A bug that is planted.
#[derive(Debug, Clone, Copy)]
pub struct Planted {
    /// What is wrong then.
    pub what: &'static str,
    /// Plants it.
    pub plant: fn(&mut Protocol),
    /// Where it shows.
    pub scope: Scope,
}

/// All of them.
pub const PLANTED: &[Planted] = &[
    Planted {
        what: "the journal is written after the SET",
        plant: |protocol| protocol.announces = false,
        scope: Scope { faults: 1, ..CALM },
    },
    Planted {
        what: "the SET does not ask for the lease",
        plant: |protocol| protocol.set_asks_for_lease = false,
        scope: Scope { faults: 1, ..CALM },
    },
    Planted {
        what: "the SET does not compare",
        plant: |protocol| protocol.set_compares = false,
        scope: Scope { dba: 1, ..CALM },
    },
    Planted {
        what: "anything counts as the tuner's while it sets, and it does not look before",
        plant: |protocol| {
            protocol.anything_while_changing = true;
            protocol.looks_before_announcing = false;
        },
        scope: Scope { faults: 1, dba: 1, ..CALM },
    },
    Planted {
        what: "what is read back after a SET counts as what was set",
        plant: |protocol| protocol.knows_what_it_set = false,
        scope: Scope { dba: 1, ..CALM },
    },
    Planted {
        what: "of two values that were set both are forgotten when a DBA changes one",
        plant: |protocol| protocol.remembers_what_was_set = false,
        scope: Scope { faults: 1, dba: 1, variables: 2, ..CALM },
    },
    Planted {
        what: "what was not set stays announced",
        plant: |protocol| protocol.retracts = false,
        scope: Scope { faults: 2, second: Some(Place::OtherHost), ..CALM },
    },
    Planted {
        what: "the probe writes what was read before",
        plant: |protocol| protocol.probe_compares = false,
        scope: Scope { dba: 1, ..CALM },
    },
    Planted {
        what: "the rehearsal writes what was read before",
        plant: |protocol| protocol.rehearsal_compares = false,
        scope: Scope { dba: 1, ..CALM },
    },
    Planted {
        what: "guardian, tuner and --recover put back without comparing",
        plant: |protocol| {
            protocol.back_looks = false;
            protocol.back_compares = false;
        },
        scope: Scope { faults: 1, dba: 1, ..CALM },
    },
    Planted {
        what: "they compare when they read, and not in the SET",
        plant: |protocol| protocol.back_compares = false,
        scope: Scope { faults: 1, dba: 1, ..CALM },
    },
    Planted {
        what: "the EVENT does not compare",
        plant: |protocol| protocol.event_compares = false,
        scope: Scope { faults: 1, dba: 1, ..CALM },
    },
    Planted {
        what: "the EVENT does not ask for the lease",
        plant: |protocol| protocol.event_asks_for_lease = false,
        scope: CALM,
    },
    Planted {
        what: "the EVENT is dropped before the values are back",
        plant: |protocol| {
            protocol.event_goes_last = false;
            protocol.journal_goes_last = false;
        },
        scope: Scope { faults: 2, ..CALM },
    },
    Planted {
        what: "the journal is removed before the values are back",
        plant: |protocol| protocol.journal_goes_last = false,
        scope: Scope { faults: 2, scheduler: false, ..CALM },
    },
    Planted {
        what: "all EVENTs have one name",
        plant: |protocol| protocol.own_event_names = false,
        scope: Scope { faults: 1, second: Some(Place::SameHost), ..CALM },
    },
    Planted {
        what: "nobody waits for the SET that the server still works on",
        plant: |protocol| protocol.awaits_flight = false,
        scope: Scope { faults: 1, ..CALM },
    },
    Planted {
        what: "a stranger with the lock keeps everybody from giving back",
        plant: |protocol| protocol.needs_no_lock_of_stranger = false,
        scope: Scope { faults: 1, stranger: true, scheduler: false, ..CALM },
    },
    Planted {
        what: "a connection that gives back lives for eight hours, and nobody gives back beside it",
        plant: |protocol| {
            protocol.back_idle_s = None;
            protocol.needs_no_lock_of_stranger = false;
        },
        scope: Scope { faults: 3, scheduler: false, ..CALM },
    },
    Planted {
        what: "the lease outlives its tuner by eight seconds",
        plant: |protocol| protocol.lease_idle_s = 8,
        scope: Scope { faults: 1, ..CALM },
    },
    Planted {
        what: "the guardian waits for eight seconds",
        plant: |protocol| protocol.guardian_silence_s = 8,
        scope: Scope { faults: 1, scheduler: false, ..CALM },
    },
    Planted {
        what: "a journal that is gone is written again",
        plant: |protocol| protocol.save_needs_file = false,
        scope: Scope { faults: 1, ..CALM },
    },
    Planted {
        what: "kept is said without asking for the lease again",
        plant: |protocol| protocol.keep_asks_again = false,
        scope: Scope { faults: 1, ..CALM },
    },
    Planted {
        what: "the journal is not synced",
        plant: |protocol| protocol.syncs = false,
        scope: Scope { faults: 1, scheduler: false, ..CALM },
    },
    Planted {
        what: "nobody asks whether the server was restarted",
        plant: |protocol| protocol.asks_for_restart = false,
        scope: Scope { faults: 1, configured_is_new: true, ..CALM },
    },
    Planted {
        what: "the next tuner does not put back what a dead one left",
        plant: |protocol| protocol.clears_up = false,
        scope: Scope { faults: 2, second: Some(Place::SameHost), scheduler: false, ..CALM },
    },
];

/// Those that take longer to find.
pub const PLANTED_DEEP: &[Planted] = &[
    Planted {
        what: "a tuner announces without looking for the lease",
        plant: |protocol| protocol.looks_before_announcing = false,
        scope: Scope { faults: 2, second: Some(Place::SameHost), ..CALM },
    },
    Planted {
        what: "they go on without the lock",
        plant: |protocol| protocol.back_asks_for_lock = false,
        scope: Scope { faults: 2, second: Some(Place::SameHost), scheduler: false, ..CALM },
    },
];
