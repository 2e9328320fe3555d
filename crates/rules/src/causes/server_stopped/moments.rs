//! A server that is stopped for moments, as a sampler of stacks does it: samples a second apart miss that, snapshots do not.

use std::collections::BTreeMap;

use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Evidence, Finding, Remedy, Window, number};

use super::{CAUSE, OVER_SCORE, detach};
use crate::draft::Draft;
use crate::rank::WARNING_FROM;

/// Snapshots that are too few to give a share.
const SNAPSHOTS: usize = 20;

/// One stop that takes so long costs more than a note, seconds. By judgement: a sampler takes about a second for the stacks of some
/// hundred threads.
const LONG_S: f64 = 2.0;

/// Of the snapshots, the part from which on they are those of a stall, which `record` takes of it alone: its one stop is what it was.
const STALL: f64 = 0.5;

/// Of a snapshot's threads, the part that must be stopped: a signal stops all of them, and takes a moment to reach each.
const MOST: f64 = 0.5;

/// A finding where snapshots show it for a twentieth of the time, and no sample showed the process stopped. One short stop that is over
/// is a note, but where a tracer was seen: what stops a server again and again goes on doing it, and a tracer that is there may.
pub(super) fn found(window: &Window, tracer: Option<u32>) -> Option<Finding> {
    let stops = Stops::from_window(window).filter(|stops| stops.ratio >= WARNING_FROM)?;
    let who = tracer.map_or_else(String::new, |tracer| format!("; process {tracer} traces it"));
    let longest = number::tenths(stops.longest_s);
    let headline = match stops.times {
        1 => {
            let or_more = if stops.goes_on { " or more" } else { "" };
            format!("The server was stopped once, for {longest}{or_more}{who}")
        }
        times => format!(
            "The server is stopped for moments, {times} times and {:.0} % of the time in all{who}",
            stops.ratio * 100.0
        ),
    };
    let is_over = stops.is_one_that_is_over() && tracer.is_none();
    let score = if is_over { OVER_SCORE } else { stops.ratio };
    Some(
        Draft::new(&CAUSE, score, headline)
        .why(
            "In these snapshots a signal, a debugger or the freezer held its threads, and in the others they ran. Samplers of stacks that \
             stop the process do that (pt-pmp, gdb, pstack, eu-stack), and scripts around snapshots of a disk. Every client waits meanwhile.",
        )
        .evidence(Evidence::new("snapshots in which its threads were stopped", stops.ratio, "ratio", "stacks").expected("0"))
        .evidence(Evidence::new("stops", stops.times as f64, "", "stacks").expected("0"))
        .evidence(Evidence::new("the longest stop", stops.longest_s, "s", "stacks"))
        .evidence_if(tracer.map(|tracer| {
            Evidence::new("traced by process", f64::from(tracer), "", "/proc/PID/status TracerPid").expected("0")
        }))
        .remedy_if(tracer.map(detach))
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

/// The stops that the snapshots show.
struct Stops {
    /// The part of the snapshots in which most threads were stopped, 0 to 1.
    ratio: f64,
    /// How many there were: snapshots one after the other show one.
    times: usize,
    /// From the first snapshot of the longest to the one after it, or to the last of all, seconds.
    longest_s: f64,
    /// True where the last snapshot shows one: it may go on.
    goes_on: bool,
}

impl Stops {
    /// None of too few snapshots.
    fn from_window(window: &Window) -> Option<Self> {
        let profile = window.profile.value()?;
        let mut threads: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        for seen in &profile.observations {
            let (stopped, all) = threads.entry(seen.snapshot).or_default();
            *stopped += usize::from(seen.state == ThreadState::Stopped);
            *all += 1;
        }
        if threads.len() < SNAPSHOTS {
            return None;
        }
        let at_s = |at: u32| profile.snapshots.get(at as usize).map_or(0.0, |cost| cost.at_us as f64 / 1e6);
        let (mut held, mut times, mut longest_s) = (0_usize, 0_usize, 0.0_f64);
        let mut since_s: Option<f64> = None;
        for (&snapshot, &(stopped, all)) in &threads {
            let is_held = stopped as f64 >= MOST * all as f64;
            let now_s = at_s(snapshot);
            held += usize::from(is_held);
            times += usize::from(is_held && since_s.is_none());
            if let Some(since_s) = since_s {
                longest_s = longest_s.max(now_s - since_s);
            }
            since_s = is_held.then_some(since_s.unwrap_or(now_s));
        }
        Some(Self { ratio: held as f64 / threads.len() as f64, times, longest_s, goes_on: since_s.is_some() })
    }

    /// True for a short one that is over.
    fn is_one_that_is_over(&self) -> bool {
        self.times == 1 && self.longest_s < LONG_S && self.ratio < STALL && !self.goes_on
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Reading, Severity};

    use super::super::examples::near_miss;
    use super::*;
    use crate::testing::Build;

    /// Twenty snapshots of six threads, one each half second: in some of them most are stopped.
    fn stopped_in(is_stopped: impl Fn(u32) -> bool) -> Window {
        let frames: &[&str] = &["poll", "do_command"];
        let mut window =
            Build::busy("10.5.23-MariaDB").only_snapshots(&[(6, ThreadState::NetworkIdle, frames)]).window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        for seen in profile.observations.iter_mut().filter(|seen| is_stopped(seen.snapshot)) {
            seen.state = ThreadState::Stopped;
        }
        window
    }

    #[test]
    fn a_server_that_is_stopped_again_and_again_is_said_to_be_for_moments() {
        let finding = found(&stopped_in(|at| matches!(at, 2 | 9 | 16)), None).unwrap();
        assert_eq!(
            finding.headline,
            "The server is stopped for moments, 3 times and 15 % of the time in all"
        );
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(found(&stopped_in(|_| false), None), None);
        assert_eq!(found(&near_miss(), None), None);
    }

    #[test]
    fn one_stop_of_a_second_is_a_note_and_a_long_one_a_stall_or_one_that_goes_on_is_more() {
        let second = found(&stopped_in(|at| matches!(at, 6 | 7)), None).unwrap();
        assert_eq!(second.headline, "The server was stopped once, for 1 s");
        assert_eq!(second.severity, Severity::Note);
        // Who stopped it is still there.
        let traced = found(&stopped_in(|at| matches!(at, 6 | 7)), Some(77)).unwrap();
        assert_eq!(traced.headline, "The server was stopped once, for 1 s; process 77 traces it");
        assert_eq!(traced.severity, Severity::Warning);
        assert!(traced.remedies[0].statement.contains("process 77"), "{:?}", traced.remedies);
        let long = found(&stopped_in(|at| at < 10), Some(77)).unwrap();
        assert_eq!(long.headline, "The server was stopped once, for 5 s; process 77 traces it");
        assert_eq!(long.severity, Severity::Critical);
        // A recording's snapshots of a stall of a second, twenty-five in a second.
        let mut stall = stopped_in(|at| (1..19).contains(&at));
        let Reading::Available { value: profile, .. } = &mut stall.profile else { panic!() };
        profile.snapshots.iter_mut().for_each(|cost| cost.at_us /= 12);
        assert_eq!(found(&stall, None).unwrap().severity, Severity::Critical);
        let goes_on = found(&stopped_in(|at| at >= 18), None).unwrap();
        assert_eq!(goes_on.headline, "The server was stopped once, for 500 ms or more");
        assert_eq!(goes_on.severity, Severity::Warning);
    }
}
