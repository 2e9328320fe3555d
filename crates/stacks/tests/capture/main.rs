//! The sources of snapshots on real processes: what they see, what they leave alone, and what they refuse.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

mod bad_days;
mod calls;
mod locks;
mod same_view;
mod target;
mod trigger;
mod waits;
