//! A CPU that ran one task in the kernel for many seconds and nothing else, by the kernel's log (kernel/watchdog.c, kernel/rcu).

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window, number};

use super::CAUSE;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;

/// The threads that wait for that CPU, and those that wait for what these have locked, do nothing meanwhile.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::CpuStuck)?;
    // Of several signs the others may have no time: an RCU stall, a hard lockup.
    let lines = || window.error_log.iter().filter(|other| other.kind == trouble.kind);
    let longest_s = lines().filter_map(|line| line.longest_s).reduce(f64::max);
    let how_long = longest_s.map_or_else(String::new, |s| format!(" for {}", number::duration(s)));
    let who = lines().rev().find_map(task).map_or_else(String::new, |name| format!(" ({name})"));
    let often = match times {
        0 | 1 => String::new(),
        _ => format!(", {}", number::counted(times, "time", "times")),
    };
    let which = (!trouble.detail.is_empty())
        .then(|| Evidence::new("which CPUs", trouble.detail.clone(), "", "error log"));
    Some(
        Draft::new(&CAUSE, WARNING_FROM, format!("A CPU was stuck in the kernel{how_long}{who}{often}"))
            .why(
                "Nothing else ran on that CPU: threads of the server that were ready waited for it, and others for what these had locked. On a \
                 virtual machine the hypervisor most often did not let the CPU run (too many of them on one host, a snapshot, a move to another \
                 host); on hardware it is a defect of the kernel, of a driver or of a file system.",
            )
            .evidence_if(which)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "A virtual machine: vmstat 1 (st), and the hypervisor's log of that time (CPUs that are promised more than once, \
                            snapshots, moves). Hardware: the functions below the line (Call Trace) name the driver or the file system; update \
                            the kernel and the firmware"
                    .into(),
                why: "No setting of the server lets the CPU go on.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .remedy(Remedy {
                statement: "Where it goes on: let a replica on another host take over, or move the virtual machine".into(),
                why: "The host is the cause, not the server.".into(),
                dynamic: true,
                risk: "Only one server may take writes: make this one read-only first, or fence it.".into(),
                ..Remedy::default()
            })
            .finding(),
    )
}

/// The task that ran there: `BUG: soft lockup - CPU#3 stuck for 23s! [mysqld:4711]`; a thread of the kernel has colons in its name.
fn task(line: &LoggedTrouble) -> Option<&str> {
    let (_, rest) = line.line.split_once("s! [")?;
    let (name, _) = rest.split_once(']')?.0.rsplit_once(':')?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use crate::testing::of_log as found;

    use super::*;

    #[test]
    fn a_stuck_cpu_is_a_warning_that_names_the_task() {
        let lockup = "watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [kworker/3:1:71]";
        let all = found(&[(TroubleKind::CpuStuck, lockup)]);
        assert_eq!((all.len(), all[0].severity), (1, Severity::Warning), "{all:#?}");
        assert_eq!(all[0].headline, "A CPU was stuck in the kernel (kworker/3:1)");
        let stall = (TroubleKind::CpuStuck, "rcu: INFO: rcu_sched self-detected stall on CPU");
        assert_eq!(found(&[stall])[0].headline, "A CPU was stuck in the kernel");
        assert_eq!(found(&[stall, stall])[0].headline, "A CPU was stuck in the kernel, 2 times");
    }
}
