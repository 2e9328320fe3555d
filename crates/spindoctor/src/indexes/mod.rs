//! `spindoctor indexes`: the cost of the optimizer's index dives, and how to save them.
//!
//! # A dive's trip
//!
//! ```text
//! what runs -> Select -> EXPLAIN, trace, indexes -> Estimates -> candidates -> quads of runs -> Tried
//! ```
//!
//! 1. **What may be asked about.** `crates/sql/src/select.rs` takes a text apart without a grammar and refuses what it does not
//!    know: a plain SELECT of tables comes through, with functions from a list, and nothing with a subquery, which EXPLAIN may
//!    run. `collect::dives` looks that each table is one of InnoDB's and no view. Texts come from the process list, whole, for
//!    performance_schema cuts them where lists get long.
//! 2. **What was estimated.** `collect/src/mysql/optimizer_trace.rs` reads the optimizer's own trace of an EXPLAIN;
//!    `indexes/estimates.rs` puts it beside the plan and the tables' indexes: which were dived into, how often, which
//!    without use, what would save the dives, and on which conditions FORCE INDEX does. What planning takes is the time
//!    of EXPLAIN, and the growth of InnoDB's count of pages around some of them: that count is the server's, so it is
//!    shown only where others read little.
//! 3. **What sparing brings** (`--try`). Blocks of runs with and without the change, in quads that a coin orders, each quad in one
//!    read-only snapshot, every answer compared (`indexes/comparing.rs`). `indexes/trial.rs` has the arithmetic, `tune::statistics::interval` the intervals.
//! 4. **Stacks** are taken beside the looks; `rules::dives` counts who stands below the range optimizer, and the cause
//!    `index-dive-waste` judges the same profile.

mod args;
mod comparing;
mod estimates;
#[cfg(test)]
mod examples;
mod run;
mod text;
mod trial;
mod view;
mod watching;

pub use args::Indexes;
pub use run::run;
