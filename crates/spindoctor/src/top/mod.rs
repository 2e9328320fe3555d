//! The terminal view of a server: live, or of a recording at any instant of it.
//!
//! ```text
//! Feed -> Moment -> view::Shown -> draw -> ratatui's buffer
//!                      ^
//!          keys -> State
//! ```
//!
//! [`Feed`] is the only part that reads anything: a live server, a recording, or one window. What it says of an instant is
//! a [`Moment`]. [`State`] is what the person at the keyboard chose. From the two, `view` computes what is shown and `draw`
//! puts it into a buffer of any size; both are pure, so a test draws every screen without a terminal.
//!
//! `fleet top` is the same with other words: a [`Board`] is what all servers said last, [`FleetState`] what was chosen.

mod board;
mod draw;
mod feed;
mod fleet;
#[cfg(test)]
pub(crate) mod fleet_sample;
pub(crate) mod jump;
mod moment;
mod point;
mod ring;
#[cfg(test)]
mod sample;
mod screen;
mod state;
mod still;
mod view;

pub(crate) use board::Board;
#[cfg(test)]
pub(crate) use board::Standing;
pub(crate) use draw::{Drawn, Theme, draw, draw_fleet};
pub(crate) use feed::{Extent, Feed};
pub(crate) use fleet::{FleetFacts, FleetState};
pub(crate) use moment::Moment;
pub(crate) use point::Point;
pub(crate) use ring::Ring;
pub(crate) use screen::Screen;
pub(crate) use state::{Clock, Facts, Flow, State};
pub(crate) use still::Still;
pub(crate) use view::{Align, Listing, Queries, Shown, is_about_the_server, wait_of_state};
