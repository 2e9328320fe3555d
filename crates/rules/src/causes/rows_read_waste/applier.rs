//! A replica's applier that reads tables whole: its rows are in the same counters as those of statements.

use spindoctor_model::{Remedy, Window};

use crate::below::is_below;
use crate::{applier_scans, replica};

/// What reads the next row of a table for a statement.
const SCANS: &[&str] = &[
    applier_scans::READS_NEXT,
    "TableScanIterator::Read",
    "rr_sequential", // MariaDB
];

/// Part of the CPU that scans take, from which on they are the applier's. Chosen: more than half is most.
pub(super) const MOST: f64 = 0.5;

/// CPU samples in scans below which they say nothing of whose they are. Chosen.
const SAMPLES: usize = 20;

/// Why it reads so much.
pub(super) const WHY: &str = "The source sends the rows that it changed, and the applier reads a table whole to find each of them: the table \
                              has no primary key or other unique one here that serves. Others lose by that what they wait for a CPU, and \
                              what the replica is behind (replica-lag). The CPU is an estimate, at five million rows a second.";

/// The applier's part of the CPU that scans take, 0 to 1. None where too few samples lie in scans.
pub(super) fn share(window: &Window) -> Option<f64> {
    let profile = window.profile.value()?;
    let (mut scanning, mut applying) = (0_usize, 0_usize);
    for sample in profile.samples() {
        let is_appliers = applier_scans::scans(profile, sample);
        applying += usize::from(is_appliers);
        scanning += usize::from(is_appliers || is_below(profile, sample, SCANS));
    }
    (scanning >= SAMPLES).then(|| applying as f64 / scanning as f64)
}

/// True where one is in the list of threads.
pub(super) fn is_there(window: &Window) -> bool {
    let threads = window.latest(|sample| &sample.server.threads);
    threads.is_some_and(|threads| threads.iter().any(replica::is_applier))
}

/// The kernel's ids of its threads.
pub(super) fn thread_os_ids(window: &Window) -> Vec<u64> {
    let threads = window.latest(|sample| &sample.server.threads).map(Vec::as_slice).unwrap_or_default();
    threads.iter().filter(|thread| replica::is_applier(thread)).filter_map(|one| one.thread_os_id).collect()
}

/// What ends the scans.
pub(super) fn key() -> Remedy {
    Remedy {
        statement: "spindoctor workload --replica, and a primary key on the source for the table that it shows".into(),
        why: "With a key the applier finds each row at once.".into(),
        dynamic: true,
        risk: "The first part only reads. A new key copies the table, here and on the source; an index on the replica alone helps as well \
               until then."
            .into(),
        undo: String::new(),
    }
}
