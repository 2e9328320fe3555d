//! `spindoctor top`: the terminal view of a server, live or of a recording at any instant of it.
//!
//! ```text
//! Feed -> Moment -> view::Content -> draw -> ratatui's buffer
//!                      ^
//!   keys, mouse -> State
//! ```
//!
//! [`Feed`](feed::Feed) is the only part that reads anything: a live server, a recording, or one window. What it says of an
//! instant is a [`Moment`](moment::Moment). [`State`](state::State) is what the person at the keyboard chose. From the two,
//! `view` computes what is shown and `draw` puts it into a buffer of any size; both are pure, so a test draws every screen
//! without a terminal.
//!
//! `fleet top` has the same parts: a [`Board`] is the last answer of all servers, [`FleetState`] the user's choices.
//!
//! # A screen's trip
//!
//! ```text
//! feed -> moment -> what is shown -> a buffer of any size
//!                         ^
//!                keys -> state
//! ```
//!
//! `crates/spindoctor/src/top/`: a `Feed` alone reads (`live.rs`: endless sampling into a ring of ten minutes, with
//! the recorder's stall detectors on its probe; `replay.rs`: a recording; `still.rs`: one window). `Moment` is what it says of
//! one instant, so live and replay have the same screens. `view/` computes rates, lists and the verdict from moment and
//! `State` (what the keys chose); `draw/` puts them into a buffer. All three are pure: tests draw every screen at every size,
//! hostile strings among them, and `draw/canvas.rs` is the one place where text is escaped and cut.

mod args;
pub mod board;
mod clipboard;
mod draw;
#[cfg(test)]
mod examples;
mod feed;
mod fleet;
#[cfg(test)]
pub mod fleet_examples;
mod jump;
mod live;
mod moment;
mod mouse;
mod once;
mod peak;
mod point;
mod replay;
mod ring;
mod run;
mod screen;
mod stalls;
mod state;
mod still;
mod terminal;
mod view;

pub use args::Top;
pub use board::Board;
pub use draw::{Drawn, Theme, draw_fleet};
pub use fleet::{FleetFacts, FleetState};
pub use run::run;
pub use state::Flow;
pub use terminal::{GiveBack, LOOK_AROUND, ended_by_signal, may_be_held_down};
pub use view::{Align, Listing};
