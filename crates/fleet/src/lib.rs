//! Many servers at once: their list, the query to all of them, the merging of their answers.
//!
//! In: a list of servers ([`list`], [`discover`]), a selection of it ([`select`]) and one [`statement`]. [`ask`] asks
//! them all on one asynchronous runtime, a task for each, within [`schedule`]'s limits, and sends [`piece::Piece`]s:
//! rows as they came over the [`wire`], in bounded memory. Out: whatever takes pieces, in the order of the list where
//! that is wanted ([`order`]), folded where answers are equal ([`group`]), or as a table to ask SQL of ([`store`]); and
//! the servers that did not answer, with the reason ([`failure`]).
//!
//! Statements that may change something go in [`waves`] and are kept in a [`log`].
//!
//! More than one statement: [`examine`] makes a window of each server for the rules, [`peers`] finds servers with other
//! settings than the rest, [`running`] follows the running statements of all servers, over connections that stay.
//!
//! # A fleet's trip
//!
//! ```text
//! list, discovery -> selection -> schedule -> connection -> pieces -> order, groups, store -> format
//! ```
//!
//! 1. **Who.** `crates/fleet/src/list.rs` reads lists, `discover.rs` follows replicas and members, `select.rs` keeps those with
//!    the right tags. The program makes a `Target` of each (`crates/spindoctor/src/fleet/servers.rs`): option files are read once.
//! 2. **What.** A `Statement` without `--write` must be seen to read, and its session is made read only before it is sent;
//!    `statement.rs` says what each guard stops and what it does not.
//! 3. **Asking.** `ask.rs` runs a task for each server on the caller's runtime, which has a thread for each CPU where a query is
//!    asked; `schedule.rs` decides who is next, pure. The deadline of a query counts the time in which the server is waited for, and no other.
//! 4. **The protocol is our own** (`crates/wire`), and all commands speak it: bytes in, meaning out, fuzzed. A driver (the lab's) takes
//!    each cell into an allocation and each packet twice through a parser, which is several times the network's time for long
//!    answers. `connection.rs` there moves the bytes: all connections read into one buffer, and a row is copied once, from there
//!    into the piece that it travels in.
//! 5. **Pieces** go in batches to a thread that writes (`outbox.rs`). When it is behind, nothing is read: memory is bounded by
//!    the batches that wait, not by what servers say. `order.rs` keeps what comes too early in a file without a name.
//! 6. **Merging** is pure but for SQLite: `group.rs` folds equal answers by a hash that does not depend on the order of rows,
//!    `store.rs` makes one table of all. The formats in `crates/spindoctor/src/fleet/` add bytes part by part.
//! 7. **Writing** is another way through the same: waves (`waves.rs`), and a log in which a wave stands before it begins.
//! 8. **A diagnosis of all** (`fleet doctor`): `examine.rs` looks at each server twice over one session. The sources
//!    are `collect`'s, asked over our connections (`sources.rs`); between the looks their answers are kept as they
//!    came. A window goes to the rules on a thread of the program, which keeps its summary (`fleet/doctor/`) and drops
//!    it. The host's readings are unavailable, so causes that need it say so; CPUs come from a tag. A replica's status
//!    is asked last and given up after a second: it waits while somebody stops the replica. `peers.rs` finds servers
//!    with other settings than servers of the same series and role.
//! 9. **What all of them run** (`fleet top`): `running.rs` keeps a connection to each server, looks spread over the
//!    interval, and passes on each answer; `top/board.rs` holds the last of each, and the screens are computed from it
//!    as those of `top` are.
//!
//! A turn for each server within the limits (`turns.rs`), a session with its deadline (`session.rs`, `deadline.rs`) are common to
//! all three.
//!
//! What is asked again and again (`--repeat`, and discovery, which asks each server several statements) goes over connections that
//! stay (`kept.rs`), where the limits allow one to each server; otherwise a login with TLS resumes the session of the one before.
//!
//! `crates/lab/src/stub.rs` has the servers that tests and benchmarks ask by the thousand, those that misbehave, and those that
//! answer as a healthy MySQL would (`stub/mysql.rs`).

pub mod ask;
mod deadline;
pub mod discover;
pub mod examine;
pub mod failure;
pub mod group;
mod kept;
pub mod lines;
pub mod list;
pub mod log;
pub mod order;
mod outbox;
pub mod peers;
pub mod piece;
mod reply;
pub mod running;
pub mod schedule;
pub mod select;
mod session;
mod sources;
pub mod statement;
pub mod store;
mod turns;
pub mod waves;

pub use spindoctor_wire as wire;
