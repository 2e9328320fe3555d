//! The screens, in the order of their tabs.

use clap::ValueEnum;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Screen {
    /// Is it slow now, since when, who waits for what, which statement, is it the host
    Overview,
    /// The process list, with what each thread waits for
    Threads,
    /// Statements by digest: how often, how long, how many rows
    Queries,
    /// What the server's threads waited for, by event
    Waits,
    /// Who blocks whom, and what would free them
    Locks,
    /// What the kernel grants and takes: CPUs, throttling, pressure, memory, disks
    Host,
    /// The channels of a replica
    Replication,
    /// Stalls that were seen, with their causes
    Events,
    /// Sessions at work over time: what they did or waited for, second by second, and in which statement
    Load,
    /// The keys
    Help,
}

impl Screen {
    /// Those with a tab, in order: the first has the key 1.
    pub const TABS: [Self; 9] = [
        Self::Overview,
        Self::Threads,
        Self::Queries,
        Self::Waits,
        Self::Locks,
        Self::Host,
        Self::Replication,
        Self::Events,
        Self::Load,
    ];

    /// The word on its tab.
    pub fn word(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Threads => "threads",
            Self::Queries => "queries",
            Self::Waits => "waits",
            Self::Locks => "locks",
            Self::Host => "host",
            Self::Replication => "replication",
            Self::Events => "events",
            Self::Load => "load",
            Self::Help => "help",
        }
    }

    /// The one that is so many tabs further; from help, as from the first.
    pub fn further(self, by: isize) -> Self {
        let at = Self::TABS.iter().position(|tab| *tab == self).unwrap_or(0) as isize;
        Self::TABS[(at + by).rem_euclid(Self::TABS.len() as isize) as usize]
    }
}
