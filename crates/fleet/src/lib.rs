//! Many servers at once: who they are, asking them all, merging what they answer.
//!
//! In: a list of servers ([`list`], [`discover`]), a selection of it ([`select`]) and one [`statement`]. [`ask`] asks
//! them all on one asynchronous runtime, a task for each, within [`schedule`]'s limits, and sends [`piece::Piece`]s:
//! rows as they came over the [`wire`], in bounded memory. Out: whatever takes pieces, in the order of the list where
//! that is wanted ([`order`]), folded where answers are equal ([`group`]), or as a table to ask SQL of ([`store`]);
//! and who did not answer, and why ([`failure`]).
//!
//! Statements that may change something go in [`waves`] and are kept in a [`log`].
//!
//! More than one statement: [`examine`] makes a window of each server for the rules, [`peers`] says who is set otherwise than
//! the others, [`running`] follows what all servers run, over connections that stay.

pub mod ask;
mod deadline;
pub mod discover;
pub mod examine;
pub mod failure;
pub mod group;
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
