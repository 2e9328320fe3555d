//! What a server would do with other settings on other hardware: a discrete-event simulation of threads over
//! spin-then-block latches. Pure: no I/O, no clock; the same seed gives the same answer.
//!
//! In: measurements with the machine and settings that they were made with ([`Ground`]). [`fit()`] finds the six declared
//! parameters ([`PARAMETERS`]); [`predict`] answers for other hardware and settings, beside today's, and refuses what it
//! has no ground for. [`compare()`] ranks several settings. [`simulate`] is one world with so many connections.
//!
//! Beside it, [`WaitTimes`] says for how long to spin by how long waits were seen to last.
//!
//! How it compares with published tables, also where it fails, is in `tests/published.rs`.

mod answer;
mod assumption;
mod compare;
mod fit;
mod ground;
mod outcome;
mod queue;
mod rng;
mod settings;
mod sim;
mod spin_budget;
mod world;

pub use answer::{Answer, LEFT_OUT, Question, Row, Sensitivity, predict};
pub use assumption::Assumption;
pub use compare::{At, Compared, compare};
pub use fit::{Fit, Fitted, fit, rms_log_error};
pub use ground::{Ground, Measured, PARAMETERS, Parameter, Parameters, Workload};
pub use outcome::Outcome;
pub use settings::{Flavor, Settings};
pub use sim::{Effort, simulate};
pub use spin_budget::{SpinBudget, WaitTimes};
pub use world::{CommitSpin, Hardware, Latch, RedoLog, Spread, Step, Work, World};
