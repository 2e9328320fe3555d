//! Windows of many servers to one diagnosis of all: the servers in trouble and what it costs, the servers with odd
//! settings, spin settings that do not fit, and what could not be checked where. Pure.
//!
//! A window is judged by the rules when it comes ([`add`](super::gathering::Gathering::add)) and dropped; of each
//! server only the content of the report is kept. In the end all is put in order
//! ([`finish`](super::gathering::Gathering::finish)).

use std::collections::BTreeSet;

use spindoctor_fleet::peers::Compared;
use spindoctor_model::{Finding, Severity};
use spindoctor_rules::spin_fit::Misfit;

use super::cpus::CpuGroup;

/// What there is to say of all servers. Servers are their places in the list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetDiagnosis {
    /// Servers of which there is a window.
    pub judged: usize,
    /// Causes found, the costliest server's first.
    pub troubles: Vec<Trouble>,
    /// Versions with their servers, the most frequent first.
    pub versions: Vec<(String, Vec<usize>)>,
    /// Settings of servers against those of their peers.
    pub settings: Compared,
    /// Servers by their CPU, the largest group first; those whose PAUSE is known.
    pub cpus: Vec<CpuGroup>,
    /// Spin settings that do not fit the CPUs, each with its servers, the most frequent first.
    pub misfits: Vec<(Misfit, Vec<usize>)>,
    /// What could not be examined, and where, the most frequent reason first.
    pub unexamined: Vec<Unexamined>,
    /// Statements that were sent.
    pub queries: u64,
    /// From each of them to its answer, summed, milliseconds: an upper bound of all servers' own time.
    pub busy_ms: f64,
}

/// A cause, and the servers that it was found on.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    /// Its name in the catalogue.
    pub cause: String,
    /// Each server's finding, the costliest first; at least one.
    pub found: Vec<(usize, Finding)>,
}

impl Trouble {
    /// How severe it is where it is worst.
    pub fn severity(&self) -> Severity {
        self.found[0].1.severity
    }

    /// The share of its time or throughput that the costliest server loses, 0 to 1; of notes only a place in the order.
    pub fn worst(&self) -> f64 {
        self.found[0].1.score
    }
}

/// Causes that could not be examined for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexamined {
    /// Why not.
    pub because: String,
    /// What would unlock it; empty where nothing would.
    pub unlock: String,
    /// The causes, in the catalogue's order.
    pub causes: Vec<String>,
    /// The servers.
    pub servers: Vec<usize>,
}

impl FleetDiagnosis {
    /// Servers with a finding above a note.
    pub fn in_trouble(&self) -> usize {
        self.with(|finding| finding.severity > Severity::Note).len()
    }

    /// Servers with notes and nothing above.
    pub fn noted(&self) -> usize {
        self.with(|_| true).len() - self.in_trouble()
    }

    fn with(&self, is_wanted: impl Fn(&Finding) -> bool) -> BTreeSet<usize> {
        let found = self.troubles.iter().flat_map(|trouble| &trouble.found);
        found.filter(|(_, finding)| is_wanted(finding)).map(|(server, _)| *server).collect()
    }
}
