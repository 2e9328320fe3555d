//! The exit codes, and nothing else that ends the program.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; for `doctor`, nothing at or above `--fail-on` |
//! | 1 | findings at or above `--fail-on`; for `fleet`, some servers did not answer |
//! | 2 | error; for `fleet`, no server answered |
//! | any | `lab run NAME -- COMMAND`: the command's own |
//! | 0 to 3 | `doctor --nagios`: OK, WARNING, CRITICAL, UNKNOWN, as the Monitoring Plugins' guidelines have them |

use std::io::ErrorKind;
use std::process::{ExitCode, Termination};

use super::output;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Done.
    Done,
    /// Findings at or above the threshold.
    Findings,
    /// Done for some servers and not for others.
    Partly,
    /// An error.
    Failed,
    /// The exit code of a command that was run for the user.
    Command(u8),
    /// A state for a monitoring system.
    Nagios(NagiosState),
}

/// The states of the Monitoring Plugins' guidelines, with their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NagiosState {
    /// Nothing above a note.
    Ok = 0,
    /// The worst finding is a warning.
    Warning = 1,
    /// The worst finding is critical.
    Critical = 2,
    /// An error.
    Unknown = 3,
}

impl Termination for ExitStatus {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Findings | Self::Partly => 1,
            Self::Failed => 2,
            Self::Command(code) => code,
            Self::Nagios(state) => state as u8,
        })
    }
}

/// What clap has to say: help and version are results, everything else is a mistake.
pub fn of_usage(usage: &clap::Error) -> ExitStatus {
    match usage.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !usage.use_stderr() => {
            output::note(&format!("spindoctor: could not write to standard output: {error}"));
            ExitStatus::Failed
        }
        _ if usage.use_stderr() => ExitStatus::Failed,
        _ => ExitStatus::Done,
    }
}
