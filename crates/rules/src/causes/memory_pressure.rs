//! `memory-pressure`: threads wait for memory that the kernel first takes back from somebody, without swap.

#[cfg(test)]
mod tests;

use spindoctor_model::host::{MemoryStat, ProcessStat};
use spindoctor_model::number::bytes;
use spindoctor_model::{
    Evidence, Finding, LoggedTrouble, Remedy, Sample, TimeClass, TroubleKind, Unavailable, Window,
};

use super::server_stopped;
use super::swapping::{self, Short, pressure, smaller_pool};
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "memory-pressure",
    title: "memory runs short, and threads wait while the kernel takes pages back",
    what: "Where a control group comes to its limit (memory.max, v1 memory.limit_in_bytes) or to memory.high, or the host has no \
           memory left, a thread that wants a page must first take one back from somebody: pages of files, the server's own \
           program among them, are dropped and read again. Above memory.high the kernel makes the thread sleep as well. Where \
           nothing can be taken back it ends a process.",
    why_it_hurts: "Any thread may be the one that has to look for memory, also while it holds a latch. The same pages are read from \
                   disk again and again, and throughput falls long before anything is written to swap. In the end the kernel \
                   ends the server.",
    evidence: "The control group uses 90 % of its limit or of memory.high, or less than a tenth of the host's memory is available; \
               and some task waits for memory in 5 % of the time or more (memory.pressure of the group, else of the host), or v1's \
               under_oom is 1. Shown with it: how often the group met its limit (memory.events, v1 memory.failcnt), VmRSS, what \
               the variables let the server take, and what others have. The estimate is the share of the time in which some task \
               waited. Buffers that are larger than the limit are a note before it comes to that, and so is anonymous and shared \
               memory of 90 % of the limit without free swap that the group may use: a warning from 95 % on, or where it grows in both \
               halves of the window, by more than fills the buffer pool, and reaches the limit so within ten minutes. Of a captured \
               log: a server that the kernel killed is a warning, and critical where the log ends with a start that failed.",
    looks_alike: "Pages of the server in swap that are read back are swapping. A full node of a host with room on others is \
                  numa-imbalance. A group that is full of page cache and gives it up at once makes nobody wait. Pages of tables that \
                  are not in the buffer pool are read by a call: read-io-bound.",
    remedies: "Let the server take less: a smaller innodb_buffer_pool_size, fewer connections, smaller buffers for each. Or grant more: \
               memory.max (systemd: MemoryMax=, Kubernetes: limits.memory), memory.high above what the server takes; or move away \
               who else uses the host's memory. A limit should leave a quarter beside the buffer pool.",
    safety: "innodb_buffer_pool_size is dynamic from MySQL 5.7.5 and MariaDB 10.2.2 on; making it smaller pushes pages out, and \
             statements wait for moments meanwhile. A larger limit takes memory from other work on the host.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/memory-use.html",
        "Linux kernel documentation: Control Group v2, memory.high, memory.max and memory.events; PSI",
        "Linux kernel documentation: Memory Resource Controller (v1), memory.failcnt and memory.oom_control",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::PageFault,
        TimeClass::Kernel,
        TimeClass::Read,
        TimeClass::Write,
        TimeClass::Commit,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::TableCache,
        TimeClass::Other,
    ],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// Share of the time in which some task waits for memory, from which on users notice: as of every wait that is a warning.
const STALLED: f64 = crate::rank::WARNING_FROM;

/// A note's score, whatever else: nobody waits yet.
const NOTE: f64 = 0.04;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// What lines of the kernel and of Kubernetes have, in lower case, where it was a control group's memory that was at an end.
/// OOMKilled is said of a container, and that is most often its limit.
const OF_GROUP: [&str; 4] = ["memory cgroup", "constraint_memcg", "mem_cgroup_out_of_memory", "oomkilled"];

/// What lines have, in lower case, that say that a process was killed: the kernel's, systemd's and those of Kubernetes.
const OF_KILL: [&str; 6] =
    ["kill process", "killed process", "task=", "'oom-kill'", "killed by the oom killer", "oomkilled"];

/// What lines of the kernel itself have, in lower case.
const OF_KERNEL: [&str; 5] =
    ["invoked oom-killer", "kill process", "killed process", "task=", "oom-kill:constraint="];

/// True where the kernel wrote the line, and not a tool, systemd or Kubernetes.
fn is_of_kernel(trouble: &LoggedTrouble) -> bool {
    trouble.source.is_empty() && has_any(&trouble.line.to_ascii_lowercase(), &OF_KERNEL)
}

fn has_any(line: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| line.contains(sign))
}

/// Where the kernel's list of who has how much memory stands: below the line that begins its report, above the one that ends it.
fn list_of_tasks(trouble: &LoggedTrouble) -> &'static str {
    if !is_of_kernel(trouble) {
        return "";
    }
    match has_any(&trouble.line.to_ascii_lowercase(), &OF_KILL) {
        true => " (the kernel's list of tasks above that line)",
        false => " (the kernel's list of tasks below that line)",
    }
}

/// True where a log ends with a server that the kernel killed because no memory was left. The report of a kill begins with who asked for
/// memory last, which need not be who is killed.
pub(super) fn was_killed(window: &Window) -> bool {
    let is_kill = |other: &LoggedTrouble| {
        other.kind == TroubleKind::KilledForMemory && has_any(&other.line.to_ascii_lowercase(), &OF_KILL)
    };
    logged::at_the_end(window, TroubleKind::KilledForMemory).is_some() && window.error_log.iter().any(is_kill)
}

/// What a log ends with: the kernel ended a server because no memory was left (mm/oom_kill.c). It is over when it is logged, unless the
/// server did not start again.
fn of_log(window: &Window) -> Option<Finding> {
    let Some((trouble, times)) = logged::at_the_end(window, TroubleKind::KilledForMemory) else {
        return refused(window);
    };
    let all = || window.error_log.iter().filter(|other| other.kind == TroubleKind::KilledForMemory);
    let lines: Vec<String> = all().map(|other| other.line.to_ascii_lowercase()).collect();
    let has = |signs: &[&str]| lines.iter().any(|line| has_any(line, signs));
    let of = match has(&OF_GROUP) {
        true => "its control group",
        false if all().any(is_of_kernel) => "the host",
        // systemd has the same words for both.
        false => "the host or its control group",
    };
    // Where lines say why it did not start, or that it crashed, that is a finding of its own.
    let ended = match was_killed(window) && !server_stopped::is_in_log(window) {
        true => logged::at_the_end(window, TroubleKind::NotStarted),
        false => None,
    };
    // The system may have refused memory to the start, too.
    let refused = ended.and_then(|_| logged::at_the_end(window, TroubleKind::NoMemory));
    let (headline, why) = match (was_killed(window), ended) {
        (true, Some(_)) => (
            format!(
                "The kernel killed the server, because {of} had no memory left, and it did not start again"
            ),
            "It kills the process with the most memory. Every connection was lost. A start needs the memory of the buffer pool, and more \
             for the recovery, and ends where it gets none.",
        ),
        (true, None) => (
            format!("The kernel killed the server: {of} had no memory left"),
            "It kills the process with the most memory. Every connection was lost, and the server had to recover.",
        ),
        (false, _) => (
            format!(
                "The kernel looked for a process to kill, because {of} had no memory left for the server"
            ),
            "It kills the process with the most memory; whether that was the server, the lines below say.",
        ),
    };
    let score = if ended.is_some() { CRITICAL_FROM } else { WARNING_FROM };
    Some(
        Draft::new(&CAUSE, score, headline)
            .why(why)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .evidence_if(refused.map(|(refused, _)| {
                Evidence::new("memory that its start did not get", refused.line.clone(), "", "error log")
            }))
            .evidence_if(ended.map(|(end, _)| {
                Evidence::new("it did not start", end.line.clone(), "", "error log")
            }))
            .remedy(Remedy {
                statement: format!(
                    "Lower innodb_buffer_pool_size{} by what is missing, or give the group or host more memory; look at who else has some{}",
                    if ended.is_some() { " in the option file" } else { "" },
                    list_of_tasks(trouble)
                ),
                why: "What buffers, connections and others take together must fit, with a tenth to spare.".into(),
                dynamic: ended.is_none(),
                risk: "A smaller pool reads more from disk.".into(),
                undo: match ended {
                    Some(_) => "innodb_buffer_pool_size as it was".into(),
                    None => "SET GLOBAL innodb_buffer_pool_size to what it was".into(),
                },
            })
            .remedy_if(ended.filter(|_| refused.is_none()).map(|_| server_stopped::first_error()))
            .finding(),
    )
}

/// Memory that the system did not give: at a start, or to a statement (errors 1037 and 1041).
fn refused(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::NoMemory)?;
    let is_pool = window.error_log.iter().any(|other| {
        other.kind == TroubleKind::NoMemory && other.line.to_ascii_lowercase().contains("buffer pool")
    });
    let headline = match is_pool {
        true => "The server does not start: the system gives it no memory for its buffer pool",
        false => "The system refused memory to the server",
    };
    let has_ended = logged::at_the_end(window, TroubleKind::NotStarted).is_some();
    Some(
        Draft::new(&CAUSE, if has_ended { CRITICAL_FROM } else { WARNING_FROM }, headline)
            .why(
                "What the buffer pool, connections and other programs take together is more than the host, or the limit of the container, \
                 has. Errors below such a line, as of a storage engine that is not known, follow from it.",
            )
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "Lower innodb_buffer_pool_size in the option file, or give the host or container more memory: free -m; ulimit -v; \
                            /sys/fs/cgroup/.../memory.max"
                    .into(),
                why: "What buffers, connections and others take together must fit, with a tenth to spare.".into(),
                dynamic: false,
                risk: "A smaller pool reads more from disk.".into(),
                undo: "innodb_buffer_pool_size as it was".into(),
            })
            .finding(),
    )
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let memory = window.need(|s| &s.host.memory)?;
    let process = window.need_change(|s| &s.host.process)?;
    let faults_per_s =
        process.last.major_faults.saturating_sub(process.first.major_faults) as f64 / process.seconds;
    if process.last.swapped_bytes >= swapping::SWAPPED_BYTES && faults_per_s >= swapping::FAULTS_PER_S {
        return Ok(None);
    }
    let short = Short::from_memory(Some(memory));
    let granted = memory.cgroup_bound_bytes().unwrap_or(memory.total_bytes);
    let fixed = fixed_bytes(window);
    if short == Short::Nothing {
        let too_large = fixed.filter(|&fixed| granted > 0 && fixed > granted as f64);
        return Ok(too_large.map(|fixed| will_be_short(window, memory, process.last, fixed, granted)));
    }
    let stalled = pressure(window);
    let is_waited = memory.is_under_oom || stalled.is_some_and(|share| share >= STALLED);
    let near = if is_waited { None } else { near_limit(window, memory, process.last, fixed) };
    if near.is_some() {
        return Ok(near);
    }
    let Some(share) = stalled.or(memory.is_under_oom.then_some(1.0)) else {
        return Err(Unavailable::because("how long tasks waited for memory could not be read")
            .unlock("a kernel with pressure stall information (CONFIG_PSI, not started with psi=0)"));
    };
    if share < STALLED && !memory.is_under_oom {
        return Ok(None);
    }
    let used = memory.cgroup_used_bytes.filter(|_| short == Short::Group);
    let headline = match used {
        Some(used) => format!(
            "The control group uses {} of the {} that it may, and some task waits for memory {:.0} % of the time",
            bytes(used as f64),
            bytes(granted as f64),
            share * 100.0
        ),
        None => format!(
            "{} of the host's {} of memory are left, and some task waits for memory {:.0} % of the time",
            bytes(memory.available_bytes as f64),
            bytes(memory.total_bytes as f64),
            share * 100.0
        ),
    };
    let free = granted as f64 * (1.0 - swapping::NEAR_LIMIT);
    let draft = Draft::new(&CAUSE, share, headline)
        .why(format!(
            "The server has {} resident{}. {} are others' and page cache.",
            bytes(process.last.resident_bytes as f64),
            fixed.map_or_else(String::new, |fixed| format!(
                ", and its variables reserve {} for buffers that all share",
                bytes(fixed)
            )),
            bytes(others_bytes(memory, process.last, short))
        ))
        .evidence(
            Evidence::new("time in which some task waited for memory", share, "ratio", "memory.pressure")
                .expected(format!("< {STALLED}")),
        )
        .evidence(Evidence::new("major page faults", faults_per_s, "1/s", "/proc/PID/stat majflt"));
    Ok(Some(
        with_memory(draft, window, memory, process.last, fixed)
            .remedy_if(smaller_pool(
                window,
                free as u64,
                "A tenth of what it may use is then free for what it reads, and nobody waits for that.",
            ))
            .remedy(short.remedy())
            .explains(&[server_stopped::CAUSE.name])
            .finding(),
    ))
}

/// Part of the limit from which on memory that stays is a warning though it does not grow: of 1 GiB some 50 MiB are left. Chosen.
const KEPT_WARNING: f64 = 0.95;

/// Seconds within which it must reach the limit, as it grows now, to be a warning. Chosen.
const FULL_WITHIN_S: f64 = 600.0;

/// Part of the limit by which it must grow within each half of a window to be said to grow at all: a connection's buffers come and go.
/// Chosen.
const GROWS: f64 = 0.0025;

/// Part of the window from which on two readings lie far enough apart to say how it grew. Chosen.
const APART: f64 = 0.5;

/// A group that is nearly full of memory that the kernel cannot take back, without swap: nobody waits, and the next growth ends the server.
fn near_limit(
    window: &Window,
    memory: &MemoryStat,
    process: &ProcessStat,
    fixed: Option<f64>,
) -> Option<Finding> {
    let limit = memory.cgroup_limit_bytes.filter(|&limit| limit > 0)? as f64;
    let kept = memory.cgroup_kept_bytes?;
    let ratio = kept as f64 / limit;
    if ratio < swapping::NEAR_LIMIT || memory.swap_left_bytes() > 0 {
        return None;
    }
    let left = (limit - kept as f64).max(0.0);
    let grows = growth_per_s(window, limit).is_some_and(|per_s| left <= per_s * FULL_WITHIN_S);
    let score = if grows || ratio >= KEPT_WARNING { WARNING_FROM } else { NOTE };
    let headline = format!(
        "The server's control group has {:.0} % of its limit of {} in memory that the kernel cannot take back: at the limit it ends the server",
        ratio * 100.0,
        bytes(limit)
    );
    let pool = window.variable_number("innodb_buffer_pool_size").unwrap_or(0.0);
    let draft = Draft::new(&CAUSE, score, headline)
        .why(format!(
            "It is no page cache, and {}. {} are left. The buffer pool is {}.",
            match memory.swap_free_bytes {
                0 => "there is no free swap to write it to",
                _ => "the group may write no more of it to swap",
            },
            bytes(left),
            bytes(pool)
        ))
        .evidence(Evidence::new("memory that stays", kept as f64, "bytes", "memory.stat"))
        .evidence_if(memory.cgroup_swap_left_bytes.map(|left| {
            let source = "memory.swap.max, v1 memory.memsw.limit_in_bytes";
            Evidence::new("swap that the group may still use", left as f64, "bytes", source)
        }));
    let pool_is_most = pool >= kept as f64 / 2.0;
    let by_bytes = (kept as f64 - 0.75 * limit).max(0.0) as u64;
    let smaller = if pool_is_most {
        smaller_pool(window, by_bytes, "A quarter of the limit is left for connections.")
    } else {
        None
    };
    Some(
        with_memory(draft, window, memory, process, fixed)
            .remedy(Remedy {
                statement: "MySQL 5.7 and later: SELECT * FROM sys.memory_by_thread_by_current_bytes LIMIT 5; MariaDB: SELECT ID, USER, MEMORY_USED \
                            FROM information_schema.PROCESSLIST ORDER BY MEMORY_USED DESC LIMIT 5"
                    .into(),
                why: "It says which session has the memory: what it drops, or all that it has where it ends, is free at once.".into(),
                dynamic: true,
                risk: "It only reads.".into(),
                undo: String::new(),
            })
            .remedy_if(smaller)
            .remedy(Short::Group.remedy())
            .finding(),
    )
}

/// How fast memory that stays grows, bytes a second; None where it does not in both halves of the window, as after one large statement.
/// The free pages of the buffer pool count as if they were filled: what fills them ends with them. Two readings have no halves: it is their
/// growth where they are half of the window apart or more, as of a recording that keeps few.
fn growth_per_s(window: &Window, limit: f64) -> Option<f64> {
    let free_bytes = |sample: &Sample| {
        let status = sample.server.status.value()?;
        Some(status.number("Innodb_buffer_pool_pages_free")? * status.number("Innodb_page_size")?)
    };
    let is_known = window.samples.iter().any(|sample| free_bytes(sample).is_some());
    let of_sample = |sample: &Sample| {
        let (at_s, memory) = sample.host.memory.timed()?;
        let free = if is_known { free_bytes(sample)? } else { 0.0 };
        Some((at_s, memory.cgroup_kept_bytes? as f64 + free))
    };
    let all: Vec<(f64, f64)> = window.samples.iter().filter_map(of_sample).collect();
    let (&(from_s, from), &(to_s, to)) = (all.first()?, all.last()?);
    let least = GROWS * limit;
    let per_s = (to - from) / (to_s - from_s);
    if all.len() == 2 {
        let is_far = to_s > from_s && to_s - from_s >= APART * window.seconds();
        return (is_far && to - from >= 2.0 * least).then_some(per_s);
    }
    let from_middle = |&&(at_s, _): &&(f64, f64)| (at_s - f64::midpoint(from_s, to_s)).abs();
    let &(_, middle) = all.iter().min_by(|a, b| from_middle(a).total_cmp(&from_middle(b)))?;
    (middle - from >= least && to - middle >= least).then_some(per_s)
}

/// Buffers that do not fit, before they are filled.
fn will_be_short(
    window: &Window,
    memory: &MemoryStat,
    process: &ProcessStat,
    fixed: f64,
    granted: u64,
) -> Finding {
    let draft = Draft::new(
        &CAUSE,
        NOTE,
        format!(
            "The server's variables reserve {} for buffers, and it may use {}",
            bytes(fixed),
            bytes(granted as f64)
        ),
    )
    .why("Buffers take memory as they are filled: nobody waits yet. When they are full the kernel swaps, or ends the server.");
    with_memory(draft, window, memory, process, Some(fixed))
        .remedy_if(smaller_pool(
            window,
            (fixed - 0.75 * granted as f64).max(0.0) as u64,
            "A quarter of what it may use is left for connections and for what else the server needs.",
        ))
        .remedy(if memory.cgroup_bound_bytes().is_some() {
            Short::Group.remedy()
        } else {
            Short::Host.remedy()
        })
        .finding()
}

/// Who has how much of the memory.
fn with_memory(
    draft: Draft,
    window: &Window,
    memory: &MemoryStat,
    process: &ProcessStat,
    fixed: Option<f64>,
) -> Draft {
    let of_bytes = |name: &str, value: u64, source: &str| Evidence::new(name, value as f64, "bytes", source);
    let hits = window.change(|s| &s.host.memory).and_then(|change| {
        let met = change.last.cgroup_limit_hits?.checked_sub(change.first.cgroup_limit_hits?)?;
        Some(met as f64 / change.seconds)
    });
    let kills = memory.cgroup_oom_kills.filter(|&kills| kills > 0);
    let connected = window.status("Threads_connected");
    draft
        .evidence(of_bytes(
            "the server's memory that is resident",
            process.resident_bytes,
            "/proc/PID/status VmRSS",
        ))
        .evidence_if(
            memory
                .cgroup_limit_bytes
                .map(|limit| of_bytes("limit of the control group", limit, "memory.max")),
        )
        .evidence_if(
            memory
                .cgroup_high_bytes
                .map(|high| of_bytes("where the kernel throttles it", high, "memory.high")),
        )
        .evidence_if(
            memory
                .cgroup_used_bytes
                .map(|used| of_bytes("used by the control group", used, "memory.current")),
        )
        .evidence_if(hits.map(|hits| {
            Evidence::new("it met its limit", hits, "1/s", "memory.events, v1 memory.failcnt").expected("0")
        }))
        .evidence_if(kills.map(|kills| {
            Evidence::new("processes of the group that the kernel ended", kills, "", "memory.events")
        }))
        .evidence(of_bytes(
            "memory of the host that is available",
            memory.available_bytes,
            "/proc/meminfo MemAvailable",
        ))
        .evidence_if(fixed.map(|fixed| {
            Evidence::new("buffers that all sessions share", fixed, "bytes", "SHOW GLOBAL VARIABLES")
        }))
        .evidence_if(each_session_bytes(window).zip(connected).map(|(each, connected)| {
            Evidence::new(
                "buffers of the sessions, at most",
                each * connected,
                "bytes",
                "SHOW GLOBAL VARIABLES, Threads_connected",
            )
        }))
}

/// What others have: of the control group all that is not the server's, of the host all that is neither its nor available.
fn others_bytes(memory: &MemoryStat, process: &ProcessStat, short: Short) -> f64 {
    let used = match (short, memory.cgroup_used_bytes) {
        (Short::Group, Some(used)) => used,
        _ => memory.total_bytes.saturating_sub(memory.available_bytes),
    };
    used.saturating_sub(process.resident_bytes) as f64
}

/// Bytes of the buffers that all sessions share, as the variables set them.
fn fixed_bytes(window: &Window) -> Option<f64> {
    const SHARED: &[&str] =
        &["innodb_log_buffer_size", "key_buffer_size", "query_cache_size", "aria_pagecache_buffer_size"];
    let pool = window.variable_number("innodb_buffer_pool_size")?;
    Some(pool + SHARED.iter().filter_map(|name| window.variable_number(name)).sum::<f64>())
}

/// Bytes that one session may take for its buffers, each of them once.
fn each_session_bytes(window: &Window) -> Option<f64> {
    const OWN: &[&str] =
        &["sort_buffer_size", "join_buffer_size", "read_buffer_size", "read_rnd_buffer_size", "thread_stack"];
    let sizes: Vec<f64> = OWN.iter().filter_map(|name| window.variable_number(name)).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}
