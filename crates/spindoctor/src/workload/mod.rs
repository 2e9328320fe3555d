//! `spindoctor workload`: what statements spend their time on.
//!
//! # A workload's trip
//!
//! ```text
//! live server, recording, captured file -> Sighting -> Tally -> Counted \
//!                         status, replica -> Window -> panel, shape -> Workload -> report
//!                                    stacks -> Profile -> Split     /
//! ```
//!
//! 1. **Looks.** `collect::statements` reads the running statements, as often as the command says; of a long text its
//!    beginning and its end, where tags are. The cost for the server is the CPU time of the thread that serves the
//!    session (`schedstat`), which no queue for the CPUs distorts; `workload/pace.rs` (pure) spaces the samples by it.
//!    A recording's lists of threads and a captured file (`workload/captured.rs`) are samples too.
//! 2. **Counting** (`crates/spindoctor/src/workload/tally.rs`) is pure and bounded: each statement that is seen counts once for
//!    its digest, table, user and so on. `statement.rs` takes a text apart: digest, type, table, tags of its comments.
//! 3. **The panel** (`panel.rs`) is computed from a `Window` with the server's status, live or recorded, and says what is odd
//!    in words; each threshold has its source beside it. The rules see the same window.
//! 4. **Inside statements.** A snapshot of the stacks follows some samples and gets the list of who ran what.
//!    `rules::phases` knows which functions mean parsing, optimizing, reading and so on; `split.rs` counts.
//! 5. **Two times, compared.** Whatever was counted has its statements in parts of the time (`spindoctor_statements::Span`);
//!    `workload/diff` gets two of them, from a recording, a file, a saved one, or the live server, and shows how they differ.
//! 6. **A replica.** `rules::replica` has the shape of its lag, when it will have caught up, and what an applier's state means
//!    in both vocabularies; the cause `replica-lag` and `workload --replica` rest on it alike.

mod args;
mod captured;
mod diff;
#[cfg(test)]
mod examples;
mod json;
mod keys;
mod live;
mod pace;
mod panel;
mod run;
mod split;
mod statement;
mod stored;
mod tally;
mod text;
mod view;
mod words;

pub use args::Workload;
pub use captured::Captured;
pub use diff::{in_few_words, value};
pub use run::run;
pub use stored::span_of;
