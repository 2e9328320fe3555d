//! `spindoctor connections`: the cost of accepting connections.
//!
//! # The accepted connection's trip
//!
//! 1. **Borders.** Of the one thread that accepts, the kernel counts every system call and all that lies between them
//!    (`crates/stacks/src/capture/calls.rs`, `bpf/calls.bpf.c`): two tracepoints, so each nanosecond is in one number. They are
//!    passed by every thread of the machine; what that costs is measured and counted, and it ends where the budget is spent.
//! 2. **Between them** CPU samples of this thread alone (`CpuSampler::start_on_thread`); `thread_time.rs` ties both together.
//! 3. **Account** (`crates/rules/src/accept_time.rs`, pure): which call and which function is for what; waiting for
//!    clients is not work. Time without a name is a row of its own, and `accounted_ratio` says how much has one.
//! 4. **Who connects** (`rules/src/connections.rs`, pure): from the server's counts of each account. Connections that
//!    nobody saw count too: ids are given out in order, so each one that is seen shows when it was made.
//! 5. `crates/spindoctor/src/connections/view.rs` puts it beside the window's other readings; the formats are beside it.
//!
//! `crates/lab/src/storm/` makes storms: `search.rs` finds the highest rate and says what broke (pure), `clients.rs`
//! comes. All clients are one thread's, whose own time is counted: a late client cannot judge a server. The server is
//! read over a session that was opened before, because a storm lets no new one in.

mod args;
mod dot;
mod formats;
mod json;
mod run;
mod text;
mod view;

pub use args::Connections;
pub use run::run;
