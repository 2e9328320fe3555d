//! `noisy-neighbour`: other programs, or other virtual machines, have the CPUs that the server's threads wait for.

use std::collections::BTreeSet;

use spindoctor_model::host::{CpuTimes, OtherProgram};
use spindoctor_model::stack::ThreadState;
use spindoctor_model::window::Change;
use spindoctor_model::{
    Evidence, Finding, Remedy, SessionTime, Severity, TimeClass, TroubleKind, Unavailable, Window,
};

use crate::draft::Draft;
use crate::logged;
use crate::rank::{self, NOTE, WARNING_FROM};
use crate::run_queue::{Confined, Neighbours, QueuedFor, RunQueue, stolen_from_server};
use crate::throttled::throttled;
use crate::time_model::{FEW, SESSIONS, share_of};
use crate::{Cause, Costs, Outcome, Rule, Stacks, session_time};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "noisy-neighbour",
    title: "others have the CPUs that the server's threads wait for",
    what: "The host's CPUs are busy, most of that is not the server's work, and the server's threads wait in the run queue: \
           a backup, a batch job, another container, or another virtual machine on the same hardware (steal) has the CPUs.",
    why_it_hurts: "Every statement takes longer by the time that its thread is ready and has no CPU. A thread that is put off \
                   the CPU while it holds a latch or a row lock makes others wait too.",
    evidence: "/proc/stat: the CPUs that the server may use are 90 % busy or more, steal counted in, and a quarter of that or more is \
               neither the server's nor of its clients on this host (/proc/*/stat, and who holds the other ends of its connections); \
               where the clients are not known, 60 % or more are not the server's own. schedstat of the server's threads: they \
               wait for a CPU as long as they run, or longer, and a thread or more on average; what a quota stopped is left out. The \
               estimate is the part of their runnable time spent waiting; where threads are seen in a sync most of the time, commits \
               wait for storage and are not counted. Of it the score counts what they wait for others: these have that part of the busy \
               CPUs that the server may use, be it all of the host's or the few of a cpuset. It is a warning at most where fewer than \
               two threads wait, and a note where less than half a session is at work: a server with nothing to do loses nothing.\n\n\
               A thread whose CPU the hypervisor gives to another machine is in no queue, and the CPUs need not be full: it fires, too, where \
               steal takes a fifth of a CPU and of the time that the server's threads are to run. Of the steal the server has the part that \
               it has of what the machine's programs got.\n\n\
               Of a server on a part of the CPUs, by a cpuset or its affinity, the times of these CPUs count (the lines cpuN). Where \
               they were not the same CPUs all the time, or not as many as it may use, or an older version recorded it, others had at \
               least what the host's other CPUs cannot hold. Clients are known only where most of what others have of the host is on \
               the server's part.",
    looks_alike: "A server that fills the CPUs itself is cpu-saturated. A quota that stops the server while CPUs are idle is \
                  cpu-throttled. A neighbour at nice 19 takes what is left over, and the server's threads hardly wait.",
    remedies: "Find the neighbour (`top`, `systemd-cgtop`), and move it, stop it, or bound it: CPUWeight or cpu.shares of the two \
               control groups, a cpuset for each, nice 19 for batch work. Steal is another machine's work on the same \
               hardware: ask for another host.",
    safety: "A smaller weight only matters while CPUs are short, and is set back the same way. Stopping somebody else's job is \
             that job's loss: know what it is.",
    references: &[
        "Linux kernel documentation: /proc/stat; scheduler statistics (/proc/PID/task/TID/schedstat)",
        "Linux kernel documentation: Control Group v2, cpu.weight",
    ],
    costs: Costs::Waits(&[TimeClass::CpuTaken]),
    explains_time: &[TimeClass::CpuTaken, TimeClass::Latch, TimeClass::Mutex, TimeClass::Commit],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Below this the CPUs still have room.
const CPUS_BUSY: f64 = 0.9;

/// Up to this share of the busy time the CPUs are the others': clients on the same host, which take as much for a short
/// statement as the server does, are its load and no neighbour.
pub(super) const SERVERS_SHARE: f64 = 0.4;

/// The same for the server and its clients together, where these are known: a quarter of the CPUs taken by others makes a queue
/// longer by a third.
const SERVERS_SHARE_WITH_CLIENTS: f64 = 0.75;

/// Time in the run queue for each second on a CPU: as long again makes a statement take twice as long.
const QUEUED_PER_RUN: f64 = 1.0;

/// A neighbour with so much of what the neighbours have is the only one that counts.
const NEARLY_ALL: f64 = 0.9;

/// Neighbours that are named, the busiest.
const NAMED: usize = 3;

/// Threads that wait for a CPU on average, below which it is one now and then.
const QUEUED: f64 = 1.0;

/// Part of the time that its threads are to run, from which on steal is what holds them up: a fifth of it makes each statement take a
/// quarter longer on the CPU. Chosen.
const STOLEN_RATIO: f64 = 0.2;

/// CPUs below which steal is too little to be felt. Chosen.
const STOLEN_CPUS: f64 = 0.2;

/// What the sessions lose by a neighbour, for each second that they themselves wait for a CPU that it has: a thread that is put off
/// its CPU with a latch or a mutex lets others wait for it. Chosen, and checked on recorded servers: where latches are all that
/// is wrong beside a busy neighbour, sessions wait for them six times as long as for a CPU.
const WITH_LATCHES: f64 = 1.5;

/// Share of the snapshots with a thread in a sync or a write, from which on it is storage that the others wait for: a thread that is
/// back from the disk and waits for a CPU is runnable and no longer in it. Recorded servers whose sessions wait for writes to
/// storage show 0.63 to 1, neighbours on the CPUs none (MySQL 5.7 to 9.7, MariaDB 10.2 to 11.8, alone and beside busy neighbours).
const IN_WRITE: f64 = 0.5;

/// What is said where nothing says how busy the CPUs of a cpuset were.
const AT_LEAST: &str =
    " How busy each CPU was is not known: others had at least so much of those that the server may use.";

/// True where threads are in a sync or a write most of the time.
fn writes_are_slow(window: &Window) -> bool {
    let Some(profile) = window.profile.value() else { return false };
    let with_write: BTreeSet<u32> = profile
        .observations
        .iter()
        .filter(|seen| matches!(seen.state, ThreadState::Sync | ThreadState::DiskWrite))
        .map(|seen| seen.snapshot)
        .collect();
    !with_write.is_empty() && with_write.len() as f64 >= IN_WRITE * profile.snapshots.len() as f64
}

/// What `top` or `vmstat` shows: that others have the CPUs, on this host or below it.
fn of_capture(window: &Window) -> Option<Finding> {
    let (trouble, _) = logged::at_the_end(window, TroubleKind::CpusTaken)?;
    let (why, remedy) = match trouble.line.contains("(steal)") {
        true => (
            "This machine is a virtual one, and its hypervisor gives it no more: because others on the same hardware want the CPUs, or because \
             the instance has spent its CPU credits. Nothing that is set within it changes that.",
            another_machine(),
        ),
        false => ("The server's threads get what is left over.", bound(&[])),
    };
    logged::printed(window, &CAUSE, TroubleKind::CpusTaken, WARNING_FROM, why, remedy)
}

/// What helps against steal: of an instance that has spent its CPU credits it is all that is seen.
pub(super) fn another_machine() -> Remedy {
    Remedy {
        statement: "Look at the instance's CPU credits where it has any (CPUCreditBalance of T2 to T4g, a B series, an e2 or shared-core machine): \
                    unlimited credits, or an instance with CPUs of its own. With credits left, or none by its kind: stop and start the \
                    instance, which may bring it to another host, or ask who runs the hypervisor"
            .into(),
        why: "The CPUs that are missing are taken below this machine: a weight or a cpuset within it shares out what is left.".into(),
        dynamic: true,
        risk: "Stop and start interrupts the server; another instance, or unlimited credits, cost money.".into(),
        undo: "The size before, the same way.".into(),
    }
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let queue = RunQueue::from_window(window)?;
    // Where nobody read what a quota did, it may be that.
    throttled(window)?;
    let queued_for = QueuedFor::from_window(window);
    // Who is stopped by the quota waits for nobody.
    let queued = queue.queued * (1.0 - queued_for.quota);
    let host = window.need_change(|s| &s.host.cpu_times)?;
    let stolen_us = grown(&host, |times| times.steal_us);
    let busy_us = grown(&host, |times| times.user_us + times.system_us) + stolen_us;
    let idle_us = grown(&host, |times| times.idle_us + times.iowait_us);
    let busy = busy_us / (busy_us + idle_us).max(1.0);
    let confined = Confined::from_window(window, queue.running);
    let (busy, busy_cpus) = match &confined {
        Some(confined) => (confined.busy(queue.running), queue.running + confined.others),
        None => (busy, busy_us / host.seconds / 1e6),
    };
    let neighbours = Neighbours::from_window(window);
    let clients_cpus = neighbours.as_ref().map_or(0.0, |found| found.clients_cpus);
    let servers = (queue.running + clients_cpus) / busy_cpus.max(f64::MIN_POSITIVE);
    let servers_share = neighbours.as_ref().map_or(SERVERS_SHARE, |_| SERVERS_SHARE_WITH_CLIENTS);
    let waits_behind_others = busy >= CPUS_BUSY
        && servers <= servers_share
        && queued >= QUEUED
        && queued >= QUEUED_PER_RUN * queue.running;
    if !waits_behind_others {
        return Ok(by_steal(window, &queue));
    }
    // Of the time in which no quota stopped them; what it costs is of all their time.
    let ratio = queued / (queued + queue.running).max(f64::MIN_POSITIVE);
    let cost = queued / queue.runnable().max(f64::MIN_POSITIVE);
    let stolen = confined.as_ref().map_or(stolen_us / host.seconds / 1e6, |confined| confined.stolen);
    let others = busy_cpus - stolen - queue.running - clients_cpus;
    let (programs, likely) = neighbours.map(|found| (found.programs, found.likely)).unwrap_or_default();
    let is_steal = stolen > others;
    let who = match programs.first() {
        _ if is_steal => "Other virtual machines have".into(),
        Some(program) if program.cpus >= NEARLY_ALL * others => format!("{} has", program.name),
        Some(program) => format!("Other programs ({} {:.1}) have", program.name, program.cpus),
        None => "Other programs have".into(),
    };
    let time = session_time(window);
    // What the threads wait is not what the sessions lose: most of these may stand in something else. Where no clock of the kernel
    // says what those that ran did, it may be all of theirs.
    let most_of_sessions = time.as_ref().map_or(1.0, |time| {
        WITH_LATCHES * share_of(time, TimeClass::CpuTaken) + share_of(time, TimeClass::Running)
    });
    let score = match () {
        // It then costs no more than the wait for a CPU that the account counts.
        () if writes_are_slow(window) => 0.0,
        () if is_at_rest(time.as_ref()) => cost.min(NOTE),
        () => cost.min(most_of_sessions),
    };
    let most = if queued < FEW { Severity::Warning } else { Severity::Critical };
    Ok(Some(
        Draft::new(
            &CAUSE,
            score,
            format!(
                "{who} {:.1} CPUs while {:.1} threads of the server wait for one",
                if is_steal { stolen } else { others },
                queued
            ),
        )
        .severity(rank::severity(score).min(most))
        .why(format!(
            "The server got {:.1} CPUs, and its threads waited for a CPU in {:.0} % of the time in which they could have run.{}",
            queue.running,
            ratio * 100.0,
            confined.as_ref().map_or_else(String::new, |confined| format!(
                "{} It may run on {:.0} of the host's {:.0} CPUs alone.",
                if confined.is_counted { "" } else { AT_LEAST },
                confined.allowed,
                confined.online
            ))
        ))
        .evidence(Evidence::new("CPUs of other programs", others.max(0.0), "CPUs", "/proc/stat"))
        .evidence(Evidence::new("CPUs of other virtual machines", stolen, "CPUs", "/proc/stat steal"))
        .evidence(
            Evidence::new("the server's part of the busy CPUs", servers, "ratio", queue.source)
                .expected(format!("> {servers_share}")),
        )
        .evidence(
            Evidence::new("time runnable without a CPU", ratio, "ratio", queue.source).expected("< 0.5"),
        )
        .evidence(Evidence::new("of the time in the run queue, behind others", queued_for.others, "ratio", "computed"))
        .evidence(Evidence::new(
            if confined.is_some() { "CPUs that it may use busy" } else { "host CPUs busy" },
            busy,
            "ratio",
            "/proc/stat",
        ))
        .evidence_all(programs.iter().take(NAMED).map(|program| {
            Evidence::new(&format!("CPUs of {}", description(program)), program.cpus, "CPUs", "/proc/*/stat")
        }))
        .evidence_all(likely.iter().take(NAMED).map(|program| {
            let reading = format!("CPUs of {}, of the whole host", description(program));
            Evidence::new(&reading, program.cpus, "CPUs", "/proc/*/stat")
        }))
        .remedy(match likely.first() {
            _ if is_steal => another_machine(),
            Some(_) => bound_one_of(&likely),
            None => bound(&programs),
        })
        .remedy_if(confined.map(|_| more_cpus()))
        .finding(),
    ))
}

/// The server's own threads wait for a CPU where no session does.
fn is_at_rest(time: Option<&SessionTime>) -> bool {
    time.is_some_and(|time| time.session_seconds_per_second < SESSIONS)
}

/// CPUs that the hypervisor gave to others while the server's threads were on them; None where that is little.
fn by_steal(window: &Window, queue: &RunQueue) -> Option<Finding> {
    let stolen = stolen_from_server(window, queue.running)?;
    let ratio = stolen / (stolen + queue.running).max(f64::MIN_POSITIVE);
    if ratio < STOLEN_RATIO || stolen < STOLEN_CPUS {
        return None;
    }
    // What that is of the sessions' time the account says.
    let score = if is_at_rest(session_time(window).as_ref()) { ratio.min(NOTE) } else { ratio };
    let most = if stolen < FEW { Severity::Warning } else { Severity::Critical };
    Some(
        Draft::new(
            &CAUSE,
            score,
            format!(
                "Other virtual machines have {stolen:.1} CPUs: steal takes {:.0} % of the time that the server's threads are to run",
                ratio * 100.0
            ),
        )
        .severity(rank::severity(score).min(most))
        .why(format!(
            "The server got {:.1} CPUs. While the hypervisor gives a CPU to another machine, the thread on it is still called running: \
             no queue shows that it waits, and each statement takes longer.",
            queue.running
        ))
        .evidence(
            Evidence::new("CPUs of other virtual machines", stolen, "CPUs", "/proc/stat steal")
                .expected(format!("< {STOLEN_CPUS}")),
        )
        .evidence(
            Evidence::new("of the time that its threads are to run", ratio, "ratio", "/proc/stat steal")
                .expected(format!("< {STOLEN_RATIO}")),
        )
        .evidence(Evidence::new("CPUs used by the server", queue.running, "CPUs", queue.source))
        .remedy(another_machine())
        .finding(),
    )
}

/// Let the server use the CPUs that are free.
fn more_cpus() -> Remedy {
    Remedy {
        statement: "Let the server run on more CPUs: cpuset.cpus of its control group, or AllowedCPUs= and CPUAffinity= of its unit".into(),
        why: "It may use a part of the host's CPUs alone, and others run on these, too.".into(),
        dynamic: true,
        risk: "What is to have the other CPUs for itself shares them with the server then.".into(),
        undo: "Set the list back.".into(),
    }
}

/// Find the neighbour and give it less.
pub(super) fn bound(programs: &[&OtherProgram]) -> Remedy {
    let how = "CPUWeight=10 of its unit, or a cpuset";
    Remedy {
        statement: match programs.first() {
            Some(program) => format!("Bound {} (process {}): {how}", description(program), program.pid),
            None => format!("Find who has the CPUs (`top`, `systemd-cgtop`), and bound it: {how}"),
        },
        why: "The server's threads wait for CPUs that others have.".into(),
        dynamic: true,
        risk: "The other work takes longer.".into(),
        undo: "Set the weight back to 100.".into(),
    }
}

/// The same where which CPUs these had is not known.
fn bound_one_of(likely: &[&OtherProgram]) -> Remedy {
    let named: Vec<String> = likely
        .iter()
        .take(NAMED)
        .map(|program| {
            format!("{} (process {}) had {:.2} CPUs", description(program), program.pid, program.cpus)
        })
        .collect();
    let general = bound(&[]);
    Remedy {
        statement: format!("{}. Of the whole host, {}: taskset -cp PID shows where each may run", general.statement, named.join(", ")),
        why: "The server's threads wait for CPUs that others have. Which CPUs a program had is not read: one of these is likely.".into(),
        ..general
    }
}

/// `8 processes of gzip in /batch`.
fn description(program: &OtherProgram) -> String {
    let place = if program.cgroup.is_empty() { String::new() } else { format!(" in {}", program.cgroup) };
    let count = match program.processes {
        0 | 1 => String::new(),
        many => format!("{many} processes of "),
    };
    format!("{count}{}{place}", program.name)
}

fn grown(change: &Change<'_, CpuTimes>, count: fn(&CpuTimes) -> u64) -> f64 {
    count(change.last).saturating_sub(count(change.first)) as f64
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::host::ThreadStat;

    use super::*;
    use crate::testing::{Build, answer, session};

    pub(crate) fn fires() -> Window {
        Build::busy("9.7.4").runs(1.0, 6.0).host_cpu(3.95, 0.05).window()
    }

    /// The same CPUs are busy with others, and the server's threads get theirs when they want one.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4").runs(1.0, 0.3).host_cpu(3.95, 0.05).window()
    }

    /// A remote server.
    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").remote().window()
    }

    /// Two sessions on a machine of four CPUs, each of which runs for two fifths of the time; of the rest so many CPUs are stolen.
    fn with_steal(stolen: f64) -> Build {
        let list = |_| (400..402).map(|id| session(id, "Query", "executing", "SELECT 1")).collect::<Vec<_>>();
        let build = Build::busy("8.0.36").sessions(list).host_cpu(0.8, 3.2 - stolen);
        build.each(move |at_s, _, host| {
            let ran_ns = (0.4 * at_s * 1e9) as u64;
            let thread = |tid| ThreadStat { tid, name: "connection".into(), ran_ns, ..ThreadStat::default() };
            host.threads = answer(at_s, [4400, 4401].map(thread).into());
            if let Reading::Available { value, .. } = &mut host.cpu_times {
                value.steal_us = (stolen * at_s * 1e6) as u64;
            }
        })
    }

    #[test]
    fn steal_is_found_where_no_queue_shows_it() {
        let runs: &[(u32, ThreadState, &[&str])] =
            &[(2, ThreadState::Running, &["row_search_mvcc", "dispatch_command", "do_command"])];
        for window in
            [with_steal(1.2).only_snapshots(runs).window(), with_steal(1.2).without_profile().window()]
        {
            let diagnosis = crate::diagnose(&window);
            let finding = &diagnosis.findings[0];
            assert_eq!((finding.cause.as_str(), finding.severity), (CAUSE.name, Severity::Warning));
            assert!(
                finding.headline.starts_with("Other virtual machines have 1.2 CPUs: steal takes 60 %"),
                "{}",
                finding.headline
            );
            assert!(finding.remedies[0].statement.starts_with("Look at the instance's CPU credits"));
            // It is no time on a CPU, and no wait without a name.
            let time = diagnosis.time.as_ref().unwrap();
            let taken = share_of(time, TimeClass::CpuTaken);
            assert!((taken - 0.6).abs() < 0.01, "{time:?}");
            assert!(diagnosis.findings.iter().all(|found| found.cause != "unnamed-wait"));
        }
        assert_eq!(evaluate(&with_steal(0.02).only_snapshots(runs).window()), Outcome::Clear);
        assert_eq!(evaluate(&with_steal(0.1).without_profile().window()), Outcome::Clear);
    }

    #[test]
    fn of_the_steal_the_server_has_its_part_alone() {
        // Others on this machine run on three CPUs, and lose most of what is stolen.
        let beside = with_steal(1.2).each(|at_s, _, host| {
            if let Reading::Available { value, .. } = &mut host.cpu_times {
                value.user_us = (3.8 * at_s * 1e6) as u64;
                value.idle_us = 0;
            }
        });
        let stolen = stolen_from_server(&beside.window(), 0.8).unwrap();
        assert!((stolen - 1.2 * 0.8 / 3.8).abs() < 1e-6, "{stolen}");
    }

    /// As where a virtual machine is moved while it runs: of four CPUs nobody takes nine.
    #[test]
    fn a_count_of_steal_that_jumped_is_no_neighbour() {
        let jumped = with_steal(0.0).each(|at_s, _, host| {
            if let Reading::Available { value, .. } = &mut host.cpu_times
                && at_s >= 5.0
            {
                value.steal_us = 90_000_000;
            }
        });
        let window = jumped.without_profile().window();
        assert_eq!((evaluate(&window), stolen_from_server(&window, 0.8)), (Outcome::Clear, None));
        let time = crate::session_time(&window).unwrap();
        assert_eq!(share_of(&time, TimeClass::CpuTaken), 0.0, "{time:?}");
    }

    /// One of four CPUs is the server's, and a program with a real-time priority has two thirds of it.
    #[test]
    fn a_neighbour_on_the_part_of_the_cpus_that_the_server_may_use_is_one_though_the_host_has_idle_ones() {
        let on = |cpuset: Option<u32>| {
            let build = Build::busy("8.0.31").runs(0.34, 5.5).host_cpu(1.1, 2.9);
            let build = build.other_programs(&[program("rtpoller", 0.65, Some(false))]);
            let build = match cpuset {
                Some(allowed) => build.confined(allowed, 4, Some(1.0)),
                None => build,
            };
            evaluate(&build.without_profile().window())
        };
        let Outcome::Fired(finding) = on(Some(1)) else { panic!("it fires") };
        assert!(
            finding.headline.starts_with("rtpoller has 0.7 CPUs while 5.5 threads"),
            "{}",
            finding.headline
        );
        assert!(finding.why.ends_with("It may run on 1 of the host's 4 CPUs alone."), "{}", finding.why);
        assert!(finding.remedies[1].statement.contains("cpuset"), "{:?}", finding.remedies);
        assert_eq!(on(None), Outcome::Clear);
    }

    /// A server on two of eight CPUs, which used 0.7 of them: of the host and of these so many were busy.
    fn on_two_of_eight(host_busy: f64, busy: Option<f64>) -> Build {
        let build = Build::busy("9.7.4").runs(0.7, 6.0).host_cpu(host_busy, 8.0 - host_busy);
        build.confined(2, 8, busy).without_profile()
    }

    #[test]
    fn what_keeps_other_cpus_busy_is_no_neighbour_of_a_server_that_may_not_use_them() {
        let idle = on_two_of_eight(6.9, Some(0.8)).window();
        assert_eq!(evaluate(&idle), Outcome::Clear);
        let behind_others = QueuedFor::from_window(&idle).others;
        assert!((behind_others - 0.125).abs() < 0.01, "{behind_others}");
        let Outcome::Fired(finding) = evaluate(&on_two_of_eight(6.9, Some(2.0)).window()) else {
            panic!("others have 1.3 of its two CPUs")
        };
        assert!(finding.headline.starts_with("Other programs have 1.3 CPUs"), "{}", finding.headline);
        assert!(!finding.why.contains("at least"), "{}", finding.why);
    }

    /// A window of an older version.
    #[test]
    fn without_a_count_of_each_cpu_others_have_at_least_what_the_other_cpus_cannot_hold() {
        assert_eq!(evaluate(&on_two_of_eight(6.9, None).window()), Outcome::Clear);
        let Outcome::Fired(finding) = evaluate(&on_two_of_eight(7.9, None).window()) else {
            panic!("others have 7.2 of eight CPUs")
        };
        assert!(finding.headline.starts_with("Other programs have 1.2 CPUs"), "{}", finding.headline);
        assert!(finding.why.contains("others had at least so much"), "{}", finding.why);
    }

    #[test]
    fn sums_of_different_cpus_are_not_compared() {
        let moved = on_two_of_eight(6.9, Some(2.0)).each(|at_s, _, host| {
            if let Reading::Available { value, .. } = &mut host.cpu_times
                && let Some(sum) = value.allowed.as_mut().filter(|_| at_s > 4.0)
            {
                sum.cpus = "2-3".into();
            }
        });
        assert_eq!(evaluate(&moved.window()), Outcome::Clear);
        // Offline for a part of the window.
        let fewer = on_two_of_eight(6.9, Some(2.0)).each(|at_s, _, host| {
            if let Reading::Available { value, .. } = &mut host.cpu_times {
                value.allowed = value.allowed.take().filter(|_| (at_s - 5.0).abs() > 0.1);
            }
        });
        assert_eq!(evaluate(&fewer.window()), Outcome::Clear);
    }

    /// A container's `/proc/stat` may number its CPUs from 0 on.
    #[test]
    fn a_sum_of_other_cpus_than_the_server_may_use_is_no_count_of_these() {
        let of_one = on_two_of_eight(6.9, Some(2.0)).each(|_, _, host| {
            if let Reading::Available { value, .. } = &mut host.cpu_times
                && let Some(sum) = value.allowed.as_mut()
            {
                sum.count = 1;
            }
        });
        assert_eq!(evaluate(&of_one.window()), Outcome::Clear);
    }

    #[test]
    fn clients_on_cpus_that_the_server_may_not_use_are_none_of_what_keeps_its_own_busy() {
        let elsewhere = [program("sysbench", 6.0, Some(true))];
        let window = on_two_of_eight(6.9, Some(2.0)).other_programs(&elsewhere).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!("others have 1.3 of its two CPUs") };
        assert!(finding.headline.starts_with("Other programs have 1.3 CPUs"), "{}", finding.headline);
        let behind_others = QueuedFor::from_window(&window).others;
        assert!((behind_others - 0.65).abs() < 0.01, "{behind_others}");
        // They are the server's load on its own CPUs, and no more than what others have of these.
        let beside = [program("sysbench", 1.5, Some(true))];
        let window = on_two_of_eight(2.1, Some(2.0)).other_programs(&beside).window();
        assert_eq!(evaluate(&window), Outcome::Clear);
        assert_eq!(QueuedFor::from_window(&window).others, 0.0);
    }

    /// They may be what has the rest of the server's CPUs, while another program has those beside them.
    #[test]
    fn where_clients_are_is_open_while_most_of_what_others_have_is_on_other_cpus() {
        let programs = [program("php-fpm", 0.8, Some(true)), program("gzip", 4.9, Some(false))];
        let build = Build::busy("9.7.4").runs(1.2, 6.0).host_cpu(6.9, 1.1).confined(2, 8, Some(2.0));
        let window = build.without_profile().other_programs(&programs).window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }

    #[test]
    fn a_program_that_may_have_other_cpus_is_not_said_to_be_the_neighbour_but_a_likely_one() {
        let beside = |host_busy| {
            let build = on_two_of_eight(host_busy, Some(2.0));
            let build = build.other_programs(&[program("gzip", host_busy - 0.75, Some(false))]);
            let Outcome::Fired(finding) = evaluate(&build.window()) else { panic!("it fires") };
            (finding.headline, finding.remedies[0].statement.clone())
        };
        let (headline, remedy) = beside(6.9);
        assert!(headline.starts_with("Other programs have 1.3 CPUs"), "{headline}");
        assert!(remedy.starts_with("Find who has the CPUs"), "{remedy}");
        let likely = "Of the whole host, 8 processes of gzip in /batch (process 77) had 6.15 CPUs: taskset";
        assert!(remedy.contains(likely), "{remedy}");
        let (headline, remedy) = beside(2.1);
        assert!(headline.starts_with("gzip has 1.3 CPUs"), "{headline}");
        assert!(remedy.starts_with("Bound 8 processes of gzip"), "{remedy}");
    }

    #[test]
    fn commits_that_wait_for_storage_are_not_the_neighbours() {
        let of = |state| {
            let threads: &[(u32, ThreadState, &[&str])] =
                &[(1, state, &["fdatasync", "my_sync", "dispatch_command"])];
            let window =
                Build::busy("9.7.4").runs(1.0, 6.0).host_cpu(3.95, 0.05).only_snapshots(threads).window();
            match evaluate(&window) {
                Outcome::Fired(finding) => finding.score,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(of(ThreadState::Sync), 0.0);
        assert!(of(ThreadState::Runnable) > 0.8);
    }

    #[test]
    fn latches_that_most_sessions_wait_for_have_a_finding_of_their_own() {
        let latch: &[&str] =
            &["futex_wait", "sync_array_wait_event", "rw_lock_s_lock_spin", "dispatch_command"];
        let mut threads = vec![(1, ThreadState::Runnable, &["row_search_mvcc", "dispatch_command"][..])];
        threads.extend((2..10).map(|tid| (tid, ThreadState::Futex, latch)));
        let list =
            |_| (0..9).map(|at| session(311 + at, "Query", "executing", "SELECT 1")).collect::<Vec<_>>();
        let window = Build::busy("9.7.4")
            .sessions(list)
            .runs(0.5, 1.3)
            .host_cpu(3.95, 0.05)
            .only_snapshots(&threads)
            .window();
        let findings = crate::diagnose(&window).findings;
        let score =
            |cause: &str| findings.iter().find(|found| found.cause == cause).map_or(0.0, |found| found.score);
        assert!(score(CAUSE.name) < 0.25, "{findings:#?}");
        assert!(score("unnamed-wait") + score("latch-pileup") > 0.5, "{findings:#?}");
    }

    #[test]
    fn it_is_as_severe_as_there_are_sessions_that_lose_something() {
        // So many threads wait for a CPU, and so many sessions are at work.
        let of = |queued, sessions: u64| {
            let list = move |_| {
                (0..sessions).map(|at| session(311 + at, "Query", "executing", "SELECT 1")).collect()
            };
            let build = Build::busy("9.7.4").sessions(list).runs(0.1, queued).host_cpu(3.95, 0.05);
            let findings = crate::diagnose(&build.without_profile().window()).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.severity)
        };
        // One long query beside builds, and a server at rest, whose own threads wake up in the queue.
        assert_eq!(of(1.5, 1), Some(Severity::Warning));
        assert_eq!(of(1.0, 0), Some(Severity::Note));
        assert_eq!(of(9.0, 12), Some(Severity::Critical));
        // Where no account says how many are at work.
        let alone = |queued| {
            let build = Build::busy("9.7.4").runs(0.1, queued).host_cpu(3.95, 0.05).without_profile();
            let window =
                build.each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked).window();
            let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
            finding.severity
        };
        assert_eq!((alone(1.5), alone(6.0)), (Severity::Warning, Severity::Critical));
    }

    fn program(name: &str, cpus: f64, is_client: Option<bool>) -> OtherProgram {
        OtherProgram { name: name.into(), cgroup: "/batch".into(), pid: 77, processes: 8, cpus, is_client }
    }

    #[test]
    fn a_neighbour_is_named_and_clients_on_the_host_are_none() {
        // The server has 1.6 of four CPUs, which leaves open whose the others are.
        let beside = |programs: &[OtherProgram]| {
            let build = Build::busy("9.7.4").runs(1.6, 9.0).host_cpu(3.95, 0.05);
            evaluate(&build.other_programs(programs).window())
        };
        let clients = program("php-fpm", 0.8, Some(true));
        let Outcome::Fired(finding) = beside(&[program("gzip", 1.2, Some(false)), clients.clone()]) else {
            panic!()
        };
        assert!(
            finding.headline.starts_with("Other programs (gzip 1.2) have 1.6 CPUs while 9.0 threads"),
            "{}",
            finding.headline
        );
        let Outcome::Fired(alone) = beside(&[program("gzip", 1.5, Some(false)), clients]) else { panic!() };
        assert!(alone.headline.starts_with("gzip has 1.6 CPUs while"), "{}", alone.headline);
        let statement = &finding.remedies[0].statement;
        assert!(
            statement.starts_with("Bound 8 processes of gzip in /batch (process 77): CPUWeight"),
            "{statement}"
        );
        assert_eq!(beside(&[program("php-fpm", 2.3, Some(true))]), Outcome::Clear);
        // Nobody may see who is connected, or who has the CPUs: as if nobody had looked.
        assert_eq!(beside(&[program("gzip", 2.3, None)]), Outcome::Clear);
        assert_eq!(beside(&[]), Outcome::Clear);
        assert_eq!(beside(&[program("gzip", 0.4, Some(false))]), Outcome::Clear);
        let half_seen = [program("gzip", 1.2, Some(false)), program("php-fpm", 0.8, None)];
        assert_eq!(beside(&half_seen), Outcome::Clear);
    }

    #[test]
    fn what_a_quota_stopped_is_left_out_of_what_it_shows() {
        // Sixteen threads want a CPU; half of the time all are stopped, which is eight of the fifteen that wait on average.
        let window =
            Build::busy("9.7.4").quota(2.0, 4).throttled(100.0, 20.0).runs(1.0, 15.0).host_cpu(3.95, 0.05);
        let Outcome::Fired(finding) = evaluate(&window.window()) else { panic!() };
        assert!(finding.headline.contains("while 7.0 threads"), "{}", finding.headline);
        assert!(finding.why.contains("in 88 % of the time"), "{}", finding.why);
        assert!((finding.score - 7.0 / 16.0).abs() < 0.01, "{}", finding.score);
    }

    #[test]
    fn steal_has_no_remedy_within_the_machine() {
        let of = |line: &str| {
            let trouble = spindoctor_model::LoggedTrouble {
                kind: TroubleKind::CpusTaken,
                times: 1,
                line: line.to_owned(),
                source: "vmstat".into(),
                ..Default::default()
            };
            let window = Window { error_log: vec![trouble], ..Window::default() };
            of_capture(&window).map(|finding| finding.remedies[0].statement.clone())
        };
        let stolen = of("Other virtual machines have 44 % of this one's CPUs (steal)").expect("a remedy");
        assert!(stolen.contains("CPU credits") && !stolen.contains("CPUWeight"), "{stolen}");
        let others = of("Other programs use 7.2 CPUs").expect("a remedy");
        assert!(others.contains("CPUWeight"), "{others}");
    }

    #[test]
    fn a_server_that_fills_the_cpus_itself_has_no_neighbour() {
        assert_eq!(
            evaluate(&Build::busy("9.7.4").runs(3.6, 12.0).host_cpu(3.8, 0.2).window()),
            Outcome::Clear
        );
    }
}
