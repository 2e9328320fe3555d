//! Settings of a live server, changed only by trials and put back whatever happens.
//!
//! In: a server, and proposed changes ([`spindoctor_model::Proposal`]). Out: a [`Trial`](spindoctor_model::Trial) with
//! its interval and verdict. What is computed ([`statistics`], [`variables`]) does no I/O; what is written to a server,
//! [`apply`] writes, and nothing else.
//!
//! # A trial's trip
//!
//! ```text
//! window -> proposals -> candidates -> blocks -> quads -> interval -> verdict -> report
//! ```
//!
//! 1. **A proposal is a finding's remedy, or what settings and hardware alone call for.** `crates/rules/src/proposals/`
//!    has one file per family of cures, each a pure function from a window and its findings to `Propose`, `Leave` with
//!    the reason, or why it could not look. `FAMILIES` names them all. Values come from the causes' remedies and from
//!    the numbers that the causes are judged by (`commit_spin.rs`, `latch_spin.rs`): there is no second copy of a
//!    formula. `tune --plan` ends here: it prints `rules::proposals::plan`.
//! 2. **The list decides what may be tried.** `crates/tune/src/variables.rs` holds every variable that may be changed,
//!    with its range by version and how long it takes to act. What is not on it is never changed; a live test holds the
//!    list against both servers.
//! 3. **Settings are lent, not taken.** `crates/tune/src/apply/` is the only code that writes to a server. Before the
//!    first change the lease stands (`lease.rs`: a user lock, so that there is one tuner), the journal is on disk
//!    (`journal.rs`), and a dead man's switch is armed: an EVENT on the server that has been rehearsed, and a guardian
//!    (`guardian.rs`), a process of its own. Every change asks for the lease, and compares the value that stands, in
//!    the statement that makes it. A process that puts back does so where the server still has what the tuner set. The
//!    whole protocol is written down in its `mod.rs`. **The giving back is modelled.** `crates/giving-back` has every
//!    process, the server, the disk and the network as a state and its steps; stateright looks at every order of them
//!    within a scope (so many kills, stops, cut networks, restarts, crashes, changes of a DBA, other tuners), and each
//!    of some thirty planted bugs must be found. What is proved, what is assumed and the time that is promised stand in
//!    its `lib.rs`, the numbers in its CHECKED.md (`make prove`). `crates/tune/tests/replay.rs` goes ways of the model
//!    on real servers, statement by statement, and compares after each (`make replay` goes many).
//! 4. **Blocks are driven and measured.** `bench.rs` sets, waits, measures; `measure/` reads the counters at both ends of a
//!    block; `guard.rs` ends it at once where a limit is passed. `trial.rs` strings blocks into quads by a coin.
//! 5. **Numbers decide.** `statistics/` is pure: order of blocks, lengths from the autocorrelation, the interval for every look
//!    and for the planned one, the margins, the time that the noise calls for, the test for harm, drift, the verdict over
//!    three quantities, the race between candidates. Chance comes from the caller. `simulated.rs` judges trials of which the
//!    truth is known; `spindoctor-benches truth-table` counts how often the verdict is wrong.
//! 6. **The search picks, a trial decides.** `tuning.rs` races the candidates, looks around the winner, and measures the
//!    winner again on fresh quads. Only that trial's verdict keeps a setting. The `Tuning` is logged (`log.rs`), and the
//!    formats in `crates/spindoctor/src/tune/` draw it.
//!
//! **Undo tablespaces are files, not variables.** `undo/` has their names, room and journal; `apply/undo.rs` makes and drops
//! them, and has the protocol. A trial compares two values of `innodb_rollback_segments` with all of them in place.
//!
//! `crates/tune/src/sweep/` is the grid of `spindoctor sweep` and what its runs say together, pure; the command drives
//! sysbench through the lab's `load` and sets through `apply`. `crates/lab/src/experiment/` has the published cures, each one
//! trial on a throw-away server.
//!
//! `governor.rs` is `tune --watch`: from the readings of a second to the settings that are due, pure; the command reads and
//! applies.

pub mod apply;
pub mod bench;
pub mod governor;
pub mod guard;
pub mod guardian;
mod heartbeat;
pub mod interrupt;
pub mod journal;
pub mod lease;
pub mod log;
pub mod measure;
pub mod statistics;
pub mod sweep;
pub mod trial;
pub mod tuning;
pub mod undo;
pub mod variables;
