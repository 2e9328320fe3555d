//! What is taken for granted about a machine beyond the one that was measured: nothing, until it is declared.

use serde::{Deserialize, Serialize};

use crate::world::Hardware;

/// One thing that measurements on another machine cannot say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assumption {
    /// More CPUs than were measured.
    Cpus,
    /// More NUMA nodes than were measured.
    Numa,
    /// Another PAUSE: another generation of CPU.
    Pause,
    /// A larger quota than was measured, or none.
    Quota,
}

impl Assumption {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cpus, Self::Numa, Self::Pause, Self::Quota];

    /// Its name for people who declare it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Numa => "numa",
            Self::Pause => "pause",
            Self::Quota => "quota",
        }
    }

    /// What is assumed, in a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Self::Cpus => {
                "more CPUs are as fast as those that were measured, and get into each other's way as much"
            }
            Self::Numa => "moving a cache line between NUMA nodes costs what it costs on other machines",
            Self::Pause => "a CPU with another PAUSE is the same in all else",
            Self::Quota => "without the quota that was measured, nothing else limits the server",
        }
    }

    pub(crate) fn refusal(self) -> String {
        let what = match self {
            Self::Cpus => "more CPUs than were measured",
            Self::Numa => "more NUMA nodes than were measured",
            Self::Pause => "another PAUSE than was measured",
            Self::Quota => "a larger quota than was measured",
        };
        format!("no ground for {what}, unless you assume that {}: --assume {}", self.text(), self.name())
    }
}

/// What must be assumed to go from one machine to the other.
pub(crate) fn needed(measured: &Hardware, asked: &Hardware) -> Vec<Assumption> {
    let quota = |hardware: &Hardware| hardware.quota_cpus.unwrap_or(f64::INFINITY);
    let beyond = |assumption: &Assumption| match assumption {
        Assumption::Cpus => asked.cpus > measured.cpus,
        Assumption::Numa => asked.numa_nodes > measured.numa_nodes,
        Assumption::Pause => asked.pause_ns != measured.pause_ns,
        Assumption::Quota => quota(asked) > quota(measured),
    };
    Assumption::ALL.into_iter().filter(beyond).collect()
}
