//! A server that is stopped for moments, as a sampler of stacks does it: samples a second apart miss that, snapshots do not.

use std::collections::BTreeMap;

use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Evidence, Finding, Remedy, Window};

use super::CAUSE;
use crate::draft::Draft;
use crate::rank::WARNING_FROM;

/// Snapshots that are too few to give a share.
const SNAPSHOTS: usize = 20;

/// Of a snapshot's threads, the part that must be stopped: a signal stops all of them, and takes a moment to reach each.
const MOST: f64 = 0.5;

/// A finding where snapshots show it for a twentieth of the time, and no sample showed the process stopped.
pub(super) fn found(window: &Window, tracer: Option<u32>) -> Option<Finding> {
    let ratio = ratio(window).filter(|ratio| *ratio >= WARNING_FROM)?;
    let who = tracer.map_or_else(String::new, |tracer| format!("; process {tracer} traces it"));
    Some(
        Draft::new(
            &CAUSE,
            ratio,
            format!("The server is stopped for moments, {:.0} % of the time in all{who}", ratio * 100.0),
        )
        .why(
            "In these snapshots a signal, a debugger or the freezer held its threads, and between them they ran. Samplers of stacks that stop \
             the process do that (pt-pmp, gdb, pstack, eu-stack), and scripts around snapshots of a disk. Every client waits meanwhile.",
        )
        .evidence(Evidence::new("snapshots in which its threads were stopped", ratio, "ratio", "stacks").expected("0"))
        .evidence_if(tracer.map(|tracer| {
            Evidence::new("traced by process", f64::from(tracer), "", "/proc/PID/status TracerPid").expected("0")
        }))
        .remedy(Remedy {
            statement: "On the server's host: ps -eo pid,lstart,args | grep -E 'pmp|gdb|pstack|stack|strace|freeze'; and the jobs of cron"
                .into(),
            why: "It lists who may do it. Where nobody does: bpftrace -e 'tracepoint:signal:signal_generate /args->sig == 19/ \
                  { printf(\"%s %d\\n\", comm, pid) }' shows who sends the signal."
                .into(),
            dynamic: true,
            risk: "It only reads.".into(),
            undo: String::new(),
        })
        .finding(),
    )
}

/// The part of the snapshots in which most threads were stopped, 0 to 1; None of too few.
fn ratio(window: &Window) -> Option<f64> {
    let profile = window.profile.value()?;
    let mut threads: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for seen in &profile.observations {
        let (stopped, all) = threads.entry(seen.snapshot).or_default();
        *stopped += usize::from(seen.state == ThreadState::Stopped);
        *all += 1;
    }
    let held = threads.values().filter(|(stopped, all)| *stopped as f64 >= MOST * *all as f64).count();
    (threads.len() >= SNAPSHOTS).then(|| held as f64 / threads.len() as f64)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Reading, Severity};

    use super::super::examples::near_miss;
    use super::*;
    use crate::testing::Build;

    /// Twenty snapshots of six threads, of which some are stopped.
    fn stopped_in(snapshots: u32) -> Window {
        let frames: &[&str] = &["poll", "do_command"];
        let mut window =
            Build::busy("10.5.23-MariaDB").only_snapshots(&[(6, ThreadState::NetworkIdle, frames)]).window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        for seen in profile.observations.iter_mut().filter(|seen| seen.snapshot < snapshots) {
            seen.state = ThreadState::Stopped;
        }
        window
    }

    #[test]
    fn a_server_that_is_stopped_for_a_part_of_the_snapshots_is_said_to_be_and_once_is_nothing() {
        let finding = found(&stopped_in(3), None).unwrap();
        assert_eq!(finding.headline, "The server is stopped for moments, 15 % of the time in all");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(found(&stopped_in(10), Some(77)).unwrap().headline.ends_with("process 77 traces it"));
        assert_eq!(found(&stopped_in(0), None), None);
        assert_eq!(found(&near_miss(), None), None);
    }
}
