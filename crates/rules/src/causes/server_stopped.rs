//! `server-stopped`: a debugger, a signal or the freezer holds the server's threads.

mod by_signal;
mod crash;
mod logins;
mod moments;
mod start;
mod starting;
mod stuck_cpu;
mod versions;

use std::collections::BTreeSet;

use spindoctor_model::host::ProcessStat;
use spindoctor_model::{
    Evidence, Finding, NoSessionKind, Remedy, SessionTime, TimeClass, TroubleKind, Unavailable, Window,
    number,
};

use super::statements_refused;
use super::storage_stalled::{OneIo, look_at_the_device};
use crate::draft::Draft;
use crate::logged;
use crate::time_model::session_time;
use crate::{CAUSES, Cause, Costs, Outcome, Rule, Stacks};
use crate::{open_files, tcp_queues};

pub(super) use start::first_error;

use logins::Logins;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "server-stopped",
    title: "a debugger, a signal or the freezer holds the server's threads",
    what: "The kernel can hold a process still: after SIGSTOP or SIGTSTP (state T), while a debugger or tracer \
           has it (state t), or while a cgroup freezer does (docker pause, systemctl freeze, some snapshot \
           tools). Its sockets stay open, and the kernel goes on accepting connections for it, so clients hang \
           where they would be refused by a server that is down.",
    why_it_hurts: "Nothing moves at all. Clients hang without an error, pools fill, health checks that only open \
                   a port stay green, and a failover may not happen.",
    evidence: "The state of the process and of its threads in /proc, its tracer, the cgroup's freezer, in each \
               sample; and whether the server answered within the deadline. None of this needs a session. The \
               score is the share of samples in which it was held. A server that accepts a connection and does \
               not answer, while nothing of its process can be read, is reported too, and the finding says that \
               it may hang for another reason; where the stacks show that its logins wait for a name server or a plugin, these are named. \
               Profilers that stop the process for a sample (gdb, pt-pmp, \
               eu-stack) show as a part of the samples, or of the snapshots of its threads, from a twentieth of these on; one stop \
                of less than 2 s that is over, of a server that nothing traces, is a note. Other findings are its symptoms where it was held for \
                half of the samples, or at the end and does not answer or was held in the two last ones.\n\n\
               Of a captured error log: a crash (critical with damaged pages, or where it does not start again), a server that does not \
               start, with the reason, one that a signal or Kubernetes ended, and a CPU that the kernel found stuck in one task; of captured \
               stacks, a server that still starts, with what its main thread is at.",
    looks_alike: "A server under a tiny CPU quota answers late, not never: cpu-throttled. Threads in state D wait for storage: a full or \
                  failing disk. A server that refuses connections is down (connection refused) or full (connections-exhausted). One that \
                  has no file descriptor left lets nobody in: accept-bottleneck. A tracer that is attached and does not stop the process \
                  (strace) slows system calls, and is a note.",
    remedies: "Stopped by a signal: kill -CONT PID. Traced: end the tracer, by name of its process. Frozen: thaw \
               the cgroup (docker unpause, systemctl thaw). Find out who did it before the next one comes: a \
               cron job that profiles, a backup script, a person at a debugger.",
    safety: "SIGCONT is harmless to a process that is not stopped. Ending gdb with SIGTERM detaches it cleanly; \
             with SIGKILL the kernel detaches it, but a breakpoint that gdb had set stays in the code and kills \
             the server when it is reached. Thawing is what the freezer's owner would do at the end; its \
             snapshot may be spoilt.",
    references: &[
        "proc(5): process states; ptrace(2)",
        "Linux kernel documentation: cgroup freezer, cgroup.freeze",
        "Baron Schwartz, Three ways that the poor man's profiler can hurt MySQL (2011)",
    ],
    costs: Costs::Elsewhere,
    explains_time: TimeClass::ALL,
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What a hang costs that only the missing answer shows: all of the throughput, less the doubt.
pub(super) const SILENT_SCORE: f64 = 0.9;

/// What is over costs nothing now.
const OVER_SCORE: f64 = 0.04;

/// A tracer that does not stop the process costs system calls, not throughput one could estimate.
const TRACED_SCORE: f64 = 0.04;

/// From this share of the samples on it was held for most of the time: what else was seen is what comes of that. In less of them the
/// server ran while the rest was seen, as where somebody looks with a debugger at a server in trouble. By judgement.
const MOSTLY: f64 = 0.5;

/// Samples at the end in which it is held that are more than a look: a sampler takes about a second for the stacks of some hundred
/// threads, and samples are a second apart. By judgement.
const GOES_ON: usize = 2;

/// True for a server that lets nobody in, and of which nothing else is known to be wrong.
pub(crate) fn is_of_logins(finding: &Finding) -> bool {
    finding.cause == CAUSE.name && finding.is_elsewhere
}

/// True for a server that was held in a part of the samples, or of the snapshots, alone: what it did in the others has causes of its own.
pub(crate) fn is_held_at_times(finding: &Finding) -> bool {
    // A share of the time is evidence of a server that is held, not of one that crashed.
    let has_share = || finding.evidence.iter().any(|one| one.unit == "ratio");
    finding.cause == CAUSE.name && finding.score < MOSTLY && has_share()
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// What an error log ends with: a start that failed, a crash, a signal that ended the server, a round of the page cleaner that took minutes
/// and wrote nothing, or a CPU that the kernel found stuck; and captured stacks of a server that still starts.
fn of_log(window: &Window) -> Option<Finding> {
    start::refused(window)
        .or_else(|| crash::found(window))
        .or_else(|| start::newer_pages(window))
        .or_else(|| start::ended(window))
        .or_else(|| by_signal::alone(window))
        .or_else(|| did_not_run(window))
        .or_else(|| stuck_cpu::found(window))
        .or_else(|| starting::found(window))
}

/// True where a log alone makes a finding of it: a crash, or a start that failed, with its reason.
pub(super) fn is_in_log(window: &Window) -> bool {
    of_log(window).is_some()
}

/// True where the finding of a server that crashed, or ended at its start, has the remedies of damaged pages.
pub(super) fn has_damage(window: &Window) -> bool {
    let explains_it =
        |finding: Finding| finding.explains.iter().any(|cause| cause == statements_refused::CAUSE.name);
    logged::at_the_end(window, TroubleKind::PageDamaged).is_some() && of_log(window).is_some_and(explains_it)
}

/// It is over when it is logged.
fn did_not_run(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::DidNotRun)?;
    let longest = trouble.longest_s.map_or_else(|| "a while".to_owned(), number::duration);
    Some(
        Draft::new(&CAUSE, OVER_SCORE, format!("The server's threads did not run for {longest}; they run again"))
            .why("The page cleaner, which wakes up each second, woke up that much later and had written nothing: no disk was waited \
                  for. A machine that was suspended or moved, and a process that was stopped or frozen, look like this.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "Look at that time in the logs of the machine and of its host: suspend and resume, a snapshot or a move of \
                            the virtual machine, docker pause"
                    .into(),
                why: "Clients hung for as long, and nothing in the server can prevent it.".into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                ..Remedy::default()
            })
            .finding(),
    )
}

/// Why no other cause may be called clear where the server was held at the end of the window, or gave no answer: what its counters did
/// not do then says nothing.
pub(crate) fn held_at_the_end(window: &Window) -> Option<&'static str> {
    let is_held = window.latest(|s| &s.host.process).is_some_and(|process| held(process).is_some());
    let is_silent =
        || window.server.no_session.as_ref().is_some_and(|refusal| refusal.kind == NoSessionKind::Silent);
    match is_held {
        true => Some("the server is stopped"),
        false => is_silent().then_some("the server does not answer"),
    }
}

/// How the kernel holds the process, if it does.
fn held(process: &ProcessStat) -> Option<&'static str> {
    match process.state.as_str() {
        _ if process.frozen => Some("frozen by its cgroup"),
        "t" => Some("stopped by a tracer"),
        "T" => Some("stopped by a signal"),
        _ => None,
    }
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let processes = window.all(|s| &s.host.process);
    let silent = window
        .server
        .no_session
        .as_ref()
        .filter(|refusal| refusal.kind == NoSessionKind::Silent)
        .map(|refusal| refusal.because.as_str());
    if processes.is_empty() {
        return match (silent, &window.server.no_pid) {
            (Some(because), _) => Ok(Some(silent_finding(window, because, None))),
            // A server that answers at both ends of the window and elsewhere is not stopped.
            (None, _) if answered_at_the_end(window) => Ok(None),
            (None, Some(no_pid)) => Err(no_pid.clone()),
            (None, None) => Err(window.missing(|s| &s.host.process).unwrap_or_default()),
        };
    }
    let series: Vec<(f64, f64)> = processes
        .iter()
        .map(|&(at_s, process)| (at_s, f64::from(u8::from(held(process).is_some()))))
        .collect();
    let held_ratio = crate::sessions::mean(series.iter().map(|&(_, held)| held));
    let Some((latest, how)) =
        processes.iter().rev().find_map(|&(_, process)| Some((process, held(process)?)))
    else {
        let traced = processes.iter().rev().find_map(|&(_, process)| process.tracer_pid);
        // What keeps clients out is then known, and is no hang: accept-bottleneck.
        let silent = silent.filter(|_| {
            open_files::keep_logins_out(window).is_none() || OneIo::longest_of_all(window).hangs()
        });
        return Ok(match (silent, traced) {
            (Some(because), _) => {
                Some(silent_finding(window, because, processes.last().map(|&(_, process)| process)))
            }
            (None, traced) => moments::found(window, traced).or_else(|| traced.map(traced_finding)),
        });
    };
    let goes_on = silent.is_some() || series.iter().rev().take(GOES_ON).all(|&(_, held)| held > 0.0);
    let explained = if held_ratio >= MOSTLY || goes_on { everything_else() } else { Vec::new() };
    let pid = window.server.pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let tracers: BTreeSet<u32> = processes.iter().filter_map(|&(_, process)| process.tracer_pid).collect();
    let by = latest.tracer_pid.map_or_else(String::new, |tracer| match tracers.len() {
        0 | 1 => format!(" (process {tracer})"),
        many => format!(" ({many} processes one after the other, {tracer} the last)"),
    });
    let headline = if held_ratio >= 1.0 {
        format!("The server is stopped: it is {how}{by}")
    } else {
        format!("The server was {how}{by} in {:.0} % of the samples", held_ratio * 100.0)
    };
    let is_there = |tracer| processes.last().is_some_and(|&(_, process)| process.tracer_pid == Some(tracer));
    let remedy = match (how, latest.tracer_pid) {
        (_, Some(_)) if tracers.len() > 1 => end_what_starts(
            "End what starts tracers of the server again and again",
            "Each traced the server for a moment: a loop or a job starts them, and to end one of them ends nothing.",
        ),
        (_, Some(tracer)) if !is_there(tracer) => end_what_starts(
            &format!("Process {tracer} no longer traces the server: where another one does, end what starts them"),
            "Who looks at stacks again and again starts a tracer each time, and it has ended before anybody can end it.",
        ),
        (_, Some(tracer)) => Remedy {
            statement: format!("End the tracer: kill {tracer}"),
            why: "The kernel lets the process go when its tracer detaches or ends.".into(),
            dynamic: true,
            risk: "A breakpoint that a debugger leaves behind kills the server when it is reached: let it detach."
                .into(),
            undo: String::new(),
        },
        ("frozen by its cgroup", None) => Remedy {
            statement: "Thaw the server's cgroup: docker unpause, systemctl thaw, or echo 0 > cgroup.freeze (v1: \
                        echo THAWED > freezer.state)"
                .into(),
            why: "The freezer holds every thread until the group is thawed.".into(),
            dynamic: true,
            risk: "A snapshot or another job may rely on the server being frozen.".into(),
            undo: "Freeze it again.".into(),
        },
        _ => Remedy {
            statement: format!("kill -CONT {pid}"),
            why: "SIGCONT lets a process go on that SIGSTOP or SIGTSTP stopped.".into(),
            dynamic: true,
            risk: "It may have been stopped on purpose.".into(),
            undo: format!("kill -STOP {pid}"),
        },
    };
    Ok(Some(
        Draft::new(&CAUSE, held_ratio, headline)
            .why("While the kernel holds it no thread of the server runs; its port still accepts connections, and clients hang.")
            .evidence(
                Evidence::new("samples in which it was held", held_ratio, "ratio", "/proc/PID/stat")
                    .expected("0")
                    .series(series),
            )
            .evidence(Evidence::new("state of the process", latest.state.clone(), "", "/proc/PID/stat").expected("S or R"))
            .evidence_if(latest.tracer_pid.map(|tracer| {
                Evidence::new("traced by process", f64::from(tracer), "", "/proc/PID/status TracerPid").expected("0")
            }))
            .evidence_if(silent.map(|because| Evidence::new("session", because, "", "connect").expected("an answer")))
            .evidence_if(tcp_queues::unread(window))
            .remedy(remedy)
            .explains(&explained)
            .finding(),
    ))
}

/// True where the last sample holds an answer of the server.
fn answered_at_the_end(window: &Window) -> bool {
    window.samples.last().is_some_and(|sample| sample.server.status.value().is_some())
}

/// A standing server explains whatever else is seen of it.
fn everything_else() -> Vec<&'static str> {
    CAUSES.iter().map(|cause| cause.name).filter(|&name| name != CAUSE.name).collect()
}

fn silent_finding(window: &Window, because: &str, process: Option<&ProcessStat>) -> Finding {
    // The kernel shows where its threads stand, whether or not it answers.
    let io = OneIo::longest_of_all(window);
    let time = session_time(window);
    if let Some(logins) = time.as_ref().filter(|_| !io.hangs()).and_then(Logins::from_time) {
        return logins.finding(because, process, seen(time));
    }
    let headline = match process {
        None => "The server accepts connections and does not answer: stopped, frozen or hanging".to_owned(),
        Some(_) if io.hangs() => format!(
            "The server does not answer: a thread has stood in one I/O for {:.1} s or more, and others wait behind it",
            io.seconds
        ),
        Some(_) => "The server does not answer, though nothing holds its process: it hangs inside".to_owned(),
    };
    let why = match process {
        None => {
            "Its process cannot be read from here, so what holds it is not known. Before it greets a client it looks up the name of that \
             client's host, unless skip_name_resolve is set, and a login may wait for PAM, LDAP or an audit plugin: where that hangs, \
             its unix socket answers, and so do sessions that are logged in."
        }
        Some(_) if io.hangs() => {
            "What holds a thread in the kernel for so long is below the server: a disk, a network file system, a file system that \
             is frozen or full. What the thread has locked meanwhile is free when its I/O ends."
        }
        Some(_) => {
            "Its process is neither stopped, traced nor frozen; a full disk or a lock that is never given back \
                    can do this."
        }
    };
    let draft = Draft::new(&CAUSE, SILENT_SCORE, headline)
        .why(why)
        .evidence(Evidence::new("session", because, "", "connect").expected("an answer"))
        .evidence_if(process.map(state_of))
        .evidence_all(if io.hangs() { io.evidence() } else { Vec::new() }.into_iter())
        .evidence_all(seen(time).into_iter());
    let draft = if io.hangs() { draft.remedy(look_at_the_device()) } else { draft };
    draft
        .remedy(Remedy {
            statement: "On the server's host: look at the process's state (ps -o stat,wchan -p PID), the free disk space, \
                        and the error log"
                .into(),
            why: "State T or t: stopped or traced. D: waiting for storage. S: it waits for itself.".into(),
            dynamic: true,
            ..Remedy::default()
        })
        .finding()
}

fn state_of(process: &ProcessStat) -> Evidence {
    Evidence::new("state of the process", process.state.clone(), "", "/proc/PID/stat").expected("S or R")
}

/// Classes of session time that are shown of a server that does not answer.
const SHOWN_FROM: f64 = 0.05;

/// Where the sessions of a server that does not answer stand.
fn seen(time: Option<SessionTime>) -> Vec<Evidence> {
    let classes = time.into_iter().flat_map(|time| time.classes);
    let parts = classes.filter(|one| one.share >= SHOWN_FROM).flat_map(|one| {
        let share = Evidence::new(
            &format!("session time in {}", one.class.label()),
            one.share,
            "ratio",
            one.known_by.name(),
        );
        let stands = one.seen.into_iter().filter(|(seen, _)| !seen.is_empty()).take(1);
        let stands = stands.map(|(seen, _)| Evidence::new("seen there", seen, "", one.known_by.name()));
        std::iter::once(share).chain(stands).collect::<Vec<_>>()
    });
    parts.collect()
}

fn traced_finding(tracer: u32) -> Finding {
    Draft::new(&CAUSE, TRACED_SCORE, format!("Process {tracer} traces the server"))
        .why("A tracer may stop the server at each system call, signal or breakpoint; it was not seen stopped.")
        .evidence(
            Evidence::new("traced by process", f64::from(tracer), "", "/proc/PID/status TracerPid").expected("0"),
        )
        .remedy(detach(tracer))
        .finding()
}

/// How the loop or the job is found whose tracers come and go.
fn end_what_starts(what: &str, why: &str) -> Remedy {
    Remedy {
        statement: format!(
            "{what}. On the server's host: ps -eo pid,ppid,lstart,args | grep -E 'pmp|gdb|pstack|stack|strace'; and the jobs of cron"
        ),
        why: why.into(),
        dynamic: true,
        risk: "Who started it may still need what it finds.".into(),
        undo: String::new(),
    }
}

/// What ends the tracing.
fn detach(tracer: u32) -> Remedy {
    Remedy {
        statement: format!("Ask who runs process {tracer}, and have it detach"),
        why: "Tracing costs each traced system call several switches, and a tracer may stop the server at any of them.".into(),
        dynamic: true,
        ..Remedy::default()
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::{LoggedTrouble, Severity};

    use super::*;
    use crate::diagnose;
    use crate::tcp_queues::tests::{queue, with};
    use crate::testing::{Build, answer};

    fn state(build: Build, state: &'static str, tracer: Option<u32>, frozen: bool) -> Build {
        build.each(move |at_s, _, host| {
            host.process = answer(
                at_s,
                ProcessStat { state: state.into(), tracer_pid: tracer, frozen, ..ProcessStat::default() },
            );
        })
    }

    /// SIGSTOP, and no session can be had.
    pub(crate) fn fires() -> Window {
        state(Build::busy("8.0.36").no_session(NoSessionKind::Silent), "T", None, false).window()
    }

    /// Asleep like any server.
    pub(crate) fn near_miss() -> Window {
        state(Build::busy("8.0.36"), "S", None, false).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").no_session(NoSessionKind::TooManyConnections).remote().window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_that_nobody_reads_are_evidence_of_a_server_that_is_held() {
        let unread = || (1..=5).map(|at| queue(at, 0, 40, 0)).collect();
        let build = state(Build::busy("8.0.36"), "T", None, false);
        let finding = found(&with(build, unread(), unread()).window());
        assert!(
            finding.evidence.iter().any(|one| one.reading.starts_with("connections with a request unread")),
            "{:?}",
            finding.evidence
        );
    }

    /// Where the line ends of a log were lost, a text of any length stands behind the number.
    #[test]
    fn of_a_crash_the_signal_is_its_number_alone() {
        let headline = |line: &str| {
            let crash = spindoctor_model::LoggedTrouble {
                kind: TroubleKind::Crashed,
                times: 1,
                line: line.into(),
                ..Default::default()
            };
            of_log(&Window { error_log: vec![crash], ..Window::default() }).unwrap().headline
        };
        assert_eq!(headline("mysqld got signal 11 ;"), "The server crashed (signal 11)");
        assert_eq!(
            headline("mysqld got signal 6 This could be because you hit a bug"),
            "The server crashed (signal 6)"
        );
        assert_eq!(headline("Assertion failure: buf0buf.cc:1"), "The server crashed");
        assert_eq!(headline("mysqld got signal ;"), "The server crashed");
    }

    #[test]
    fn a_crash_with_pages_that_are_newer_than_the_redo_log_says_so() {
        let logged = |kind, line: &str| LoggedTrouble {
            kind,
            times: 1,
            line: line.to_owned(),
            ..LoggedTrouble::default()
        };
        let crash = logged(TroubleKind::Crashed, "mysqld got signal 6 ;");
        let page = logged(TroubleKind::PagesNewer, "log sequence number 99 is in the future!");
        let finding = of_log(&Window { error_log: vec![crash, page], ..Window::default() }).unwrap();
        assert!(finding.headline.contains("newer than its redo log"), "{}", finding.headline);
        assert!(finding.remedies[0].statement.contains("new data folder"), "{:?}", finding.remedies);
    }

    #[test]
    fn a_crash_with_damaged_pages_or_without_a_start_is_critical() {
        let found = |troubles: &[(TroubleKind, &str)]| {
            let logged = |(kind, line): &(TroubleKind, &str)| LoggedTrouble {
                kind: *kind,
                times: 1,
                line: (*line).to_owned(),
                ..LoggedTrouble::default()
            };
            of_log(&Window { error_log: troubles.iter().map(logged).collect(), ..Window::default() }).unwrap()
        };
        let crash = (TroubleKind::Crashed, "mysqld got signal 6 ;");
        assert_eq!(found(&[crash]).severity, Severity::Warning);
        let page = (TroubleKind::PageDamaged, "Database page corruption on disk or a failed file read");
        let damaged = found(&[page, crash]);
        assert_eq!(damaged.severity, Severity::Critical);
        assert!(damaged.remedies[0].statement.starts_with("Copy the whole data directory"), "{damaged:#?}");
        assert!(damaged.remedies[1].statement.contains("innodb_force_recovery = 1"), "{damaged:#?}");
        let ended = found(&[crash, (TroubleKind::NotStarted, "[ERROR] Aborting")]);
        assert_eq!(ended.severity, Severity::Critical);
        assert_eq!(ended.headline, "The server crashed (signal 6), and does not start");
    }

    #[test]
    fn the_headline_of_a_crash_names_where_the_server_died() {
        let crash = |line: &str, detail: &str| LoggedTrouble {
            kind: TroubleKind::Crashed,
            times: 1,
            line: line.into(),
            detail: detail.into(),
            ..LoggedTrouble::default()
        };
        let last = crash("mysqld got signal 11 ;", "it died in dict_index_t::clear");
        let error_log = vec![last.clone()];
        assert_eq!(
            of_log(&Window { error_log, ..Window::default() }).unwrap().headline,
            "The server crashed (signal 11): it died in dict_index_t::clear"
        );
        let error_log = vec![last, crash("mysqld got signal 6 ;", "")];
        assert_eq!(
            of_log(&Window { error_log, ..Window::default() }).unwrap().headline,
            "The server crashed (signal 11), 2 times in this log: it died in dict_index_t::clear"
        );
    }

    #[test]
    fn a_stopped_server_leaves_nothing_else_clear() {
        let diagnosis = diagnose(&fires());
        assert_eq!(diagnosis.findings[0].cause, CAUSE.name);
        assert_eq!(diagnosis.findings[0].remedies[0].statement, "kill -CONT 4310");
        assert_eq!(diagnosis.clear, Vec::<String>::new());
    }

    #[test]
    fn a_server_that_hangs_in_one_io_says_where_and_who_waits() {
        use spindoctor_model::stack::ThreadState::{DiskWrite, Futex};
        let silent = || {
            state(Build::busy("8.0.36").no_session(NoSessionKind::Silent), "S", None, false)
                .each(|_, server, _| server.status = spindoctor_model::Reading::NotAsked)
        };
        let alone =
            silent().only_snapshots(&[(12, Futex, &["pthread_mutex_lock", "get_it", "dispatch_command"])]);
        let hangs = found(&alone.window());
        assert!(hangs.headline.contains("hangs inside"), "{}", hangs.headline);
        assert!(
            hangs.evidence.iter().any(|one| one.reading == "session time in mutex"),
            "{:?}",
            hangs.evidence
        );
        let writes = &["write", "my_write", "write_slow", "dispatch_command"][..];
        let waits = &["pthread_mutex_lock", "write_slow", "dispatch_command"][..];
        let in_io = found(&silent().only_snapshots(&[(1, DiskWrite, writes), (12, Futex, waits)]).window());
        assert!(in_io.headline.contains("stood in one I/O"), "{}", in_io.headline);
        let stands = in_io.evidence.iter().find(|one| one.reading == "it stands in");
        assert!(format!("{stands:?}").contains("my_write < write_slow"), "{stands:?}");
    }

    #[test]
    fn a_server_whose_logins_wait_for_a_name_server_does_not_hang_inside() {
        use spindoctor_model::stack::ThreadState::{Condition, NetworkIdle, Running};
        let asks: &[&str] =
            &["poll", "send_dg", "getnameinfo", "ip_to_hostname", "check_connection", "handle_connection"];
        let runs: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];
        let waits: &[&str] = &["pthread_cond_wait", "wait_for_it", "dispatch_command", "do_command"];
        let silent = |logins, running, waiting| {
            let build = state(Build::busy("8.0.36").no_session(NoSessionKind::Silent), "S", None, false);
            let threads =
                [(logins, NetworkIdle, asks), (running, Running, runs), (waiting, Condition, waits)];
            build.only_snapshots(&threads).window()
        };
        let alone = found(&silent(40, 0, 0));
        assert!(alone.headline.contains("asks a name server"), "{}", alone.headline);
        assert!(!alone.headline.contains("go on"), "{}", alone.headline);
        let beside = found(&silent(40, 5, 0));
        assert!(beside.headline.ends_with("; sessions that are logged in go on"), "{}", beside.headline);
        assert!(beside.remedies[0].statement.contains("skip_name_resolve"), "{:?}", beside.remedies);
        assert_eq!(beside.severity, Severity::Critical);
        let said = serde_json::to_string(&diagnose(&silent(40, 5, 0)).findings).unwrap();
        assert!(!said.contains("hangs inside") && !said.contains("unnamed-wait"), "{said}");
        // What else waits is no part of it.
        let causes: Vec<String> =
            diagnose(&silent(40, 5, 30)).findings.into_iter().map(|finding| finding.cause).collect();
        assert_eq!(causes[0], CAUSE.name);
        assert!(causes.contains(&"unnamed-wait".to_owned()), "{causes:?}");
        assert!(found(&silent(10, 5, 30)).headline.contains("hangs inside"));
    }

    #[test]
    fn each_holder_has_its_own_remedy() {
        let traced = found(&state(Build::busy("8.0.36"), "t", Some(77), false).window());
        assert!(traced.remedies[0].statement.contains("kill 77"), "{}", traced.remedies[0].statement);
        let frozen = found(&state(Build::busy("8.0.36"), "S", None, true).window());
        assert!(frozen.headline.contains("frozen"), "{}", frozen.headline);
        assert!(frozen.remedies[0].statement.contains("thaw"));
    }

    #[test]
    fn a_profiler_that_stops_it_now_and_then_costs_its_share() {
        let window = Build::busy("8.0.36")
            .each(|at_s, _, host| {
                let stopped = (at_s as usize).is_multiple_of(4);
                host.process = answer(
                    at_s,
                    ProcessStat {
                        state: if stopped { "t" } else { "S" }.into(),
                        tracer_pid: stopped.then_some(77),
                        ..ProcessStat::default()
                    },
                );
            })
            .window();
        let finding = found(&window);
        assert!((finding.score - 3.0 / 11.0).abs() < 1e-9, "{}", finding.score);
        assert!(finding.headline.contains("27 % of the samples"), "{}", finding.headline);
        // It has gone, and what starts it may not have.
        let statement = &finding.remedies[0].statement;
        assert!(statement.starts_with("Process 77 no longer traces the server"), "{statement}");
    }

    #[test]
    fn of_tracers_one_after_the_other_what_starts_them_is_to_be_ended() {
        let window = Build::busy("8.0.36")
            .each(|at_s, _, host| {
                let process = ProcessStat {
                    state: "t".into(),
                    tracer_pid: Some(if at_s < 5.0 { 77 } else { 84 }),
                    ..ProcessStat::default()
                };
                host.process = answer(at_s, process);
            })
            .window();
        let finding = found(&window);
        assert!(
            finding.headline.ends_with("(2 processes one after the other, 84 the last)"),
            "{}",
            finding.headline
        );
        let statement = &finding.remedies[0].statement;
        assert!(
            statement.starts_with("End what starts tracers") && !statement.contains("kill"),
            "{statement}"
        );
    }

    #[test]
    fn a_look_with_a_debugger_hides_nothing_of_what_it_looks_at() {
        let looked_at = |mut window: Window, held: std::ops::Range<usize>| {
            for sample in &mut window.samples[held] {
                let traced =
                    ProcessStat { state: "t".into(), tracer_pid: Some(77), ..ProcessStat::default() };
                sample.host.process = answer(sample.at_s, traced);
            }
            diagnose(&window).findings
        };
        let pileup = || (super::super::row_lock_pileup::CAUSE.examples.fires)();
        // In the middle, and at the very end.
        for held in [4..5, 10..11] {
            let findings = looked_at(pileup(), held);
            assert_eq!(findings[0].cause, "row-lock-pileup", "{findings:#?}");
            assert_eq!(findings[0].severity, diagnose(&pileup()).findings[0].severity, "{findings:#?}");
            let stopped = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
            assert!((stopped.score - 1.0 / 11.0).abs() < 1e-9, "{stopped:#?}");
        }
        for held in [0..11, 9..11] {
            assert_eq!(looked_at(pileup(), held)[0].cause, CAUSE.name);
        }
        let waits = &["pthread_cond_wait", "wait_for_it", "dispatch_command", "do_command"][..];
        let unnamed = || {
            let waiting = (12, spindoctor_model::stack::ThreadState::Condition, waits);
            Build::busy("8.0.36").only_snapshots(&[waiting]).window()
        };
        let names = |findings: Vec<Finding>| -> Vec<String> {
            findings.into_iter().map(|finding| finding.cause).collect()
        };
        assert_eq!(names(looked_at(unnamed(), 4..5))[0], "unnamed-wait");
        let held = names(looked_at(unnamed(), 0..11));
        assert!(held[0] == CAUSE.name && !held.contains(&"unnamed-wait".to_owned()), "{held:?}");
    }

    #[test]
    fn a_silent_server_is_reported_with_what_is_known_of_its_process() {
        let remote = found(&Build::busy("8.0.36").no_session(NoSessionKind::Silent).remote().window());
        assert!(remote.headline.contains("stopped, frozen or hanging"), "{}", remote.headline);
        let hangs = found(&Build::busy("8.0.36").no_session(NoSessionKind::Silent).window());
        assert!(hangs.headline.contains("hangs inside"), "{}", hangs.headline);
    }

    #[test]
    fn a_tracer_that_stops_nothing_is_a_note() {
        let finding = found(&state(Build::busy("8.0.36"), "S", Some(77), false).window());
        assert_eq!(finding.severity, spindoctor_model::Severity::Note);
    }

    #[test]
    fn a_remote_server_that_answers_is_clear() {
        assert_eq!(evaluate(&Build::busy("8.0.36").remote().window()), Outcome::Clear);
    }
}
