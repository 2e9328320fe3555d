//! Parts that several rooms share: flags, sessions, output, exit codes, the terminal. It uses no room.

#[cfg(test)]
pub mod browser;
pub mod bundle;
pub mod event_window;
pub mod exit;
pub mod flags;
pub mod latch_waits;
pub mod load;
pub mod local_time;
pub mod moment;
pub mod names;
pub mod output;
pub mod passing;
pub mod progress;
pub mod queries;
pub mod recorded;
pub mod runtime;
pub mod session;
pub mod session_time;
pub mod stalls;
pub mod terminal;
pub mod wait_states;
pub mod watchpoint;
pub mod window_file;
pub mod words;
