//! `swapping`: sessions wait for pages of the server's own memory that were swapped out.

use spindoctor_model::host::{MemoryStat, ProcessStat};
use spindoctor_model::number::{bytes, whole};
use spindoctor_model::window::Change;
use spindoctor_model::{Evidence, Finding, Remedy, SessionTime, TimeClass, TroubleKind, Unavailable, Window};

use super::{
    commit_sync_bound, cpu_saturated, index_dive_waste, noisy_neighbour, read_io_bound, server_stopped,
    write_io_bound,
};
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::time_model::{InClasses, is_worth_a_finding, share_of};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "swapping",
    title: "sessions wait for the server's own memory, which was swapped out",
    what: "Where the server, its control group or the host needs more memory than there is, the kernel writes pages of memory to \
           swap. A thread that touches such a page stands in a page fault until the page is read again, and another page is \
           written out for it. The server knows nothing of that: it holds latches and locks meanwhile.",
    why_it_hurts: "What should take a hundred nanoseconds takes a read from disk, anywhere in the code, also while a latch is held \
                   that everybody wants. The buffer pool, which is to save reads from disk, is itself read from disk.",
    evidence: "Sessions that wait for a page fault by their stacks: the kernel has them wait for a disk, and no function that reads \
               is innermost. From 5 % of the session time and half a session on, and a megabyte of the server in swap (VmSwap). \
               The estimate adds the waits for latches, mutexes and opening tables: who holds these stands in a page fault. \
               Where the stacks have no names, ten major page faults a second while a fifth of the session time is in waits \
               without a name. Where swap lies in compressed memory (zram) nobody waits for a disk: then 5,000 major page faults a \
               second while the kernel has two fifths of the server's CPU time; the estimate is that part of the time that sessions \
               are on a CPU or wait for one.",
    looks_alike: "Pages of tables that are not in the buffer pool are read by a call: read-io-bound. Memory in swap that nobody touches costs nothing.",
    remedies: "Give the server less to do with memory, or more memory: a smaller innodb_buffer_pool_size is better than one that \
               is swapped; then buffers of each session times max_connections, and performance_schema. Raise the control group's \
               limit, or move the other programs away. On a host that has memory to spare vm.swappiness=1, and swapoff and \
               swapon bring back what was swapped out before.",
    safety: "innodb_buffer_pool_size is dynamic from MySQL 5.7.5 and MariaDB 10.2.2 on; making it smaller pushes pages out, and \
             statements wait for moments meanwhile. swapoff reads everything back at once: only where it fits into memory, \
             else the kernel ends a process.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/memory-use.html",
        "proc_pid_status(5), VmSwap; proc_pid_stat(5), majflt",
        "Linux kernel documentation: vm.swappiness; Control Group v2, memory.max and memory.swap.max",
    ],
    costs: Costs::Waits(&[TimeClass::PageFault]),
    explains_time: &[
        TimeClass::PageFault,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::TableCache,
        TimeClass::Other,
        // Where swap lies in compressed memory.
        TimeClass::Cpu,
        TimeClass::Kernel,
        TimeClass::CpuQueue,
        TimeClass::CpuTaken,
    ],
    stacks: Stacks::Nothing,
    rule: Rule::TimeOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Who waits for a page from a disk, and who waits for what such a thread holds.
const OF_FAULTS: [TimeClass; 5] =
    [TimeClass::PageFault, TimeClass::Latch, TimeClass::Mutex, TimeClass::TableCache, TimeClass::Other];

/// Less of a server in swap are pages that it used when it started. Chosen, not derived.
pub(super) const SWAPPED_BYTES: u64 = 1 << 20;

/// Major page faults a second below which waits without a name are something else: of ten milliseconds each, ten are a tenth of
/// one session. Chosen, not derived.
pub(super) const FAULTS_PER_S: f64 = 10.0;

/// A control group that uses this part of its limit is what is short; the kernel swaps only near the limit.
pub(super) const NEAR_LIMIT: f64 = 0.9;

/// A host with less than this part of its memory available is short of it. Chosen, not derived.
const AVAILABLE: f64 = 0.1;

/// What `vmstat` shows: that the host swaps, not that the server does.
fn of_capture(window: &Window) -> Option<Finding> {
    let why = "Pages that were swapped out are read from a disk before the thread that needs them goes on. `grep VmSwap /proc/PID/status` says \
               how much of the server is among them.";
    let (full, _) = logged::at_the_end(window, TroubleKind::Swapping)?;
    let statement = match full.line.contains("the server itself has") {
        true => {
            "Lower innodb_buffer_pool_size, and the memory for each connection (max_connections, sort_buffer_size, tmp_table_size): \
             sys.memory_global_by_current_bytes says what has it"
        }
        false => {
            "Find who took the memory (`top`, sorted by RES), and lower innodb_buffer_pool_size or the other program's share"
        }
    };
    let remedy = Remedy {
        statement: statement.into(),
        why: "What is in use must fit into memory.".into(),
        dynamic: true,
        risk: "A smaller pool reads more from disk.".into(),
        undo: "SET GLOBAL innodb_buffer_pool_size to what it was".into(),
    };
    let mut finding = logged::printed(window, &CAUSE, TroubleKind::Swapping, WARNING_FROM, why, remedy)?;
    // The pages come from the same disks, and everyone's reads and syncs stand behind them.
    let behind = [commit_sync_bound::CAUSE.name, read_io_bound::CAUSE.name, write_io_bound::CAUSE.name];
    finding.explains.extend(behind.map(str::to_owned));
    Some(finding)
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let process = match window.need_change(|sample| &sample.host.process) {
        Ok(process) => process,
        Err(missing) => return Outcome::NotEnoughEvidence(missing),
    };
    if process.last.swapped_bytes < SWAPPED_BYTES {
        return Outcome::Clear;
    }
    let faults_per_s =
        process.last.major_faults.saturating_sub(process.first.major_faults) as f64 / process.seconds;
    let named = InClasses::from_time(time, &[TimeClass::PageFault])
        .and_then(|_| InClasses::from_time(time, &OF_FAULTS));
    let counted = faults_per_s >= FAULTS_PER_S;
    let Some(waits) = named.or_else(|| InClasses::without_a_name(time).filter(|_| counted)) else {
        if let Some(finding) = on_cpus(window, time, &process, faults_per_s) {
            return Outcome::Fired(finding);
        }
        return match counted && InClasses::are_vague(time) {
            true => Outcome::NotEnoughEvidence(Unavailable::because(
                "nobody looked at the threads, so it is open how long sessions wait for page faults",
            )),
            false => Outcome::Clear,
        };
    };
    let swapped = bytes(process.last.swapped_bytes as f64);
    let headline = format!(
        "{:.1} sessions wait for memory that was swapped out: {swapped} of the server are in swap, with {} major page faults a second",
        waits.sessions,
        whole(faults_per_s)
    );
    let draft = waits.draft(&CAUSE, headline).explains(&[server_stopped::CAUSE.name]);
    let short = Short::from_memory(window.latest(|sample| &sample.host.memory));
    Outcome::Fired(with_memory(draft, window, &process, faults_per_s, short).remedy(short.remedy()).finding())
}

/// Major page faults a second that cost CPU time worth naming where no disk is waited for: to bring a page back from compressed memory
/// and push another out takes some ten microseconds. Chosen.
const CPU_FAULTS_PER_S: f64 = 5_000.0;

/// And the part of the server's CPU time that the kernel has then. One that is at work and well has a tenth to a third of it there. Chosen.
const KERNEL_RATIO: f64 = 0.4;

/// Where swap lies in compressed memory the page faults take the CPUs, and no thread waits for a disk.
fn on_cpus(
    window: &Window,
    time: &SessionTime,
    process: &Change<'_, ProcessStat>,
    faults_per_s: f64,
) -> Option<Finding> {
    let grown =
        |count: fn(&ProcessStat) -> u64| count(process.last).saturating_sub(count(process.first)) as f64;
    let (user_us, system_us) = (grown(|process| process.user_us), grown(|process| process.system_us));
    let kernel = system_us / (user_us + system_us).max(1.0);
    if faults_per_s < CPU_FAULTS_PER_S || kernel < KERNEL_RATIO {
        return None;
    }
    let on_cpus: f64 = ON_CPUS.iter().map(|class| share_of(time, *class)).sum();
    let score = kernel * on_cpus;
    let short = Short::from_memory(window.latest(|sample| &sample.host.memory));
    let headline = format!(
        "{}{} major page faults a second, and the kernel has {:.0} % of the server's CPU time",
        if short == Short::Nothing { "" } else { "The server's memory does not fit: " },
        whole(faults_per_s),
        kernel * 100.0
    );
    let draft = Draft::new(&CAUSE, score, headline)
        .evidence(Evidence::new("the server's CPU time in the kernel", kernel, "ratio", "/proc/PID/stat"))
        .explains(&[
            server_stopped::CAUSE.name,
            cpu_saturated::CAUSE.name,
            noisy_neighbour::CAUSE.name,
            // Pages that a dive touches are brought back as all others are.
            index_dive_waste::CAUSE.name,
        ]);
    is_worth_a_finding(time, score).then(|| {
        let draft = with_memory(draft, window, process, faults_per_s, short);
        match short {
            // It may be that next to none of these pages were in swap: to bring all back costs, and may help nobody.
            Short::Nothing => draft.why(OF_SWAP_OR_FILES),
            _ => draft.remedy(short.remedy()),
        }
        .finding()
    })
}

/// What the faults are of where no memory is short: majflt counts both.
const OF_SWAP_OR_FILES: &str = "Memory is not short now. Each of these faults brings back a page that was swapped \
     out, or reads one of a file that is mapped: VmSwap and the host's pswpin (/proc/vmstat) say how many are of swap.";

/// Classes of sessions that are on a CPU, or wait for one.
const ON_CPUS: [TimeClass; 6] = [
    TimeClass::Running,
    TimeClass::Cpu,
    TimeClass::Kernel,
    TimeClass::CpuQueue,
    TimeClass::CpuTaken,
    TimeClass::PageFault,
];

/// The finding with what is known of the memory, and a pool that leaves more of it.
fn with_memory(
    draft: Draft,
    window: &Window,
    process: &Change<'_, ProcessStat>,
    faults_per_s: f64,
    short: Short,
) -> Draft {
    let memory = window.latest(|sample| &sample.host.memory);
    draft
        .why(short.why(memory))
        .evidence(
            Evidence::new("the server's memory in swap", process.last.swapped_bytes as f64, "bytes", "/proc/PID/status VmSwap")
                .expected("0"),
        )
        .evidence(Evidence::new("the server's memory that is resident", process.last.resident_bytes as f64, "bytes", "/proc/PID/status VmRSS"))
        .evidence(
            Evidence::new("major page faults", faults_per_s, "1/s", "/proc/PID/stat majflt").expected(format!("< {FAULTS_PER_S:.0}")),
        )
        .evidence_if(pressure(window).map(|share| {
            Evidence::new("time in which some task waited for memory", share, "ratio", "memory.pressure")
        }))
        .evidence_if(memory.and_then(|memory| {
            Some(Evidence::new("limit of the control group", memory.cgroup_limit_bytes? as f64, "bytes", "memory.max"))
        }))
        .evidence_if(memory.map(|memory| {
            Evidence::new("memory of the host that is available", memory.available_bytes as f64, "bytes", "/proc/meminfo MemAvailable")
        }))
        .remedy_if(smaller_pool(
            window,
            process.last.swapped_bytes,
            "What is in swap now then fits into memory. A page that is not in the pool is read once, by a thread that holds nothing.",
        ))
}

/// What is short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    /// The control group, which has a limit.
    Group,
    /// The host.
    Host,
    /// Nothing now: the pages were swapped out before.
    Nothing,
}

impl Short {
    pub(super) fn from_memory(memory: Option<&MemoryStat>) -> Self {
        let Some(memory) = memory else { return Self::Nothing };
        let near_limit = memory.cgroup_bound_bytes().zip(memory.cgroup_used_bytes);
        if near_limit.is_some_and(|(limit, used)| used as f64 >= NEAR_LIMIT * limit as f64) {
            return Self::Group;
        }
        if (memory.available_bytes as f64) < AVAILABLE * memory.total_bytes as f64 {
            return Self::Host;
        }
        Self::Nothing
    }

    fn why(self, memory: Option<&MemoryStat>) -> String {
        let memory = memory.cloned().unwrap_or_default();
        match self {
            Self::Group => format!(
                "The limit of its control group, {}, is smaller than what the server needs, so the kernel swaps one page out for \
                 each that it reads.",
                bytes(memory.cgroup_bound_bytes().unwrap_or_default() as f64)
            ),
            Self::Host => format!(
                "Of the host's {} of memory {} are available: the programs on it need more than there is.",
                bytes(memory.total_bytes as f64),
                bytes(memory.available_bytes as f64)
            ),
            Self::Nothing => "Memory is not short now: the pages were swapped out before, and each is read when it is touched.".into(),
        }
    }

    pub(super) fn remedy(self) -> Remedy {
        let (statement, why) = match self {
            Self::Group => (
                "Raise the memory limit of the server's control group (memory.max; systemd: MemoryMax=, Kubernetes: limits.memory)",
                "The server then keeps its memory.",
            ),
            Self::Host => (
                "Find what else uses the host's memory (`ps -eo rss,comm --sort -rss`), and move or bound it",
                "The server then keeps its memory.",
            ),
            Self::Nothing => (
                "sysctl vm.swappiness=1, then swapoff -a && swapon -a",
                "What was swapped out comes back at once, and the kernel swaps only where it must.",
            ),
        };
        Remedy {
            statement: statement.into(),
            why: why.into(),
            dynamic: true,
            risk: match self {
                Self::Nothing => {
                    "swapoff reads all of it back: where it does not fit, the kernel ends a process.".into()
                }
                _ => "The others have less memory.".into(),
            },
            undo: match self {
                Self::Nothing => "sysctl vm.swappiness=60".into(),
                _ => "Set it back.".into(),
            },
        }
    }
}

/// A buffer pool that is smaller by so much; None where too little of it would be left.
pub(super) fn smaller_pool(window: &Window, by_bytes: u64, why: &str) -> Option<Remedy> {
    let pool_bytes = window.variable_number("innodb_buffer_pool_size")?;
    let smaller = pool_bytes - by_bytes as f64;
    // A pool of less than half of what it was is no cure, it is another server.
    (smaller >= pool_bytes / 2.0).then(|| Remedy {
        statement: format!("SET GLOBAL innodb_buffer_pool_size = {smaller:.0}"),
        why: why.into(),
        dynamic: true,
        risk: "Pages are pushed out of the pool while it shrinks, and statements wait for moments.".into(),
        undo: format!("SET GLOBAL innodb_buffer_pool_size = {pool_bytes:.0}"),
    })
}

/// Share of the time in which some task waited for memory, 0 to 1: of the server's control group, else of the host.
pub(super) fn pressure(window: &Window) -> Option<f64> {
    let of_group = window.change(|sample| &sample.host.cgroup_pressure);
    let change = of_group.or_else(|| window.change(|sample| &sample.host.pressure))?;
    let stalled_us = change.last.memory_some_us?.checked_sub(change.first.memory_some_us?)?;
    Some(stalled_us as f64 / 1e6 / change.seconds)
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::stack::ThreadState::{DiskRead, Lock};

    use super::*;
    use crate::testing::Build;

    const FAULTS: &[&str] = &["rec_get_offsets", "row_search_mvcc", "dispatch_command", "do_command"];
    const READS: &[&str] =
        &["pread64", "buf_read_page_low", "row_search_mvcc", "dispatch_command", "do_command"];
    const LOCK: &[&str] = &["lock_wait", "row_search_mvcc", "dispatch_command", "do_command"];

    /// What the control group may use.
    const LIMIT: u64 = 3 << 30;

    fn swaps(build: Build, swapped_bytes: u64) -> Build {
        build.each(|at_s, _, host| {
            if let Reading::Available { value: process, .. } = &mut host.process {
                process.swapped_bytes = swapped_bytes;
                process.resident_bytes = 3 << 30;
                process.major_faults = (at_s * 200.0) as u64;
            }
            if let Reading::Available { value: memory, .. } = &mut host.memory {
                memory.cgroup_limit_bytes = Some(LIMIT);
                memory.cgroup_used_bytes = Some(LIMIT - 4096);
            }
        })
    }

    fn at(frames: &[&str], swapped_bytes: u64) -> Window {
        let build = Build::busy("8.0.36").variable("innodb_buffer_pool_size", "4294967296");
        swaps(build.only_snapshots(&[(12, DiskRead, frames), (3, Lock, LOCK)]), swapped_bytes).window()
    }

    pub(crate) fn fires() -> Window {
        at(FAULTS, 1 << 30)
    }

    /// Some of the server is in swap, and what sessions wait for are reads of tables.
    pub(crate) fn near_miss() -> Window {
        at(READS, 1 << 30)
    }

    /// A remote server.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").remote().window()
    }

    #[test]
    fn what_is_short_and_a_pool_that_fits_are_named() {
        let Outcome::Fired(finding) = CAUSE.evaluate(&fires(), crate::session_time(&fires()).as_ref()) else {
            panic!()
        };
        assert!(
            finding.headline.contains("1 GiB of") && finding.headline.contains("200 major"),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("control group"), "{}", finding.why);
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL innodb_buffer_pool_size = 3221225472");
    }

    /// Sessions that work, with so many page faults a second and so much of the CPU time in the kernel, and the group that uses so
    /// many bytes.
    fn compressed(faults_per_s: f64, kernel: f64, used_bytes: u64) -> Option<Finding> {
        use spindoctor_model::stack::ThreadState::Running;
        const WORK: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];
        let build = swaps(Build::busy("8.0.36").only_snapshots(&[(6, Running, WORK)]), 180 << 20);
        let window = build.each(move |at_s, _, host| {
            let Reading::Available { value: process, .. } = &mut host.process else { panic!() };
            process.major_faults = (at_s * faults_per_s) as u64;
            process.user_us = (at_s * 1e6 * (1.0 - kernel)) as u64;
            process.system_us = (at_s * 1e6 * kernel) as u64;
            let Reading::Available { value: memory, .. } = &mut host.memory else { panic!() };
            memory.cgroup_used_bytes = Some(used_bytes);
            (memory.total_bytes, memory.available_bytes) = (64 << 30, 32 << 30);
        });
        let window = window.window();
        match CAUSE.evaluate(&window, crate::session_time(&window).as_ref()) {
            Outcome::Fired(finding) => Some(finding),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    }

    #[test]
    fn swap_in_compressed_memory_is_found_by_what_it_takes_of_the_cpus() {
        let finding = compressed(43_000.0, 0.6, LIMIT).unwrap();
        let begins = "The server's memory does not fit: 43,000 major page faults a second";
        assert!(finding.headline.starts_with(begins), "{}", finding.headline);
        assert!(finding.why.contains("control group"), "{}", finding.why);
        assert!(finding.score > 0.3, "{}", finding.score);
        assert!(compressed(43_000.0, 0.2, LIMIT).is_none() && compressed(500.0, 0.6, LIMIT).is_none());
    }

    #[test]
    fn faults_while_memory_is_free_may_be_of_files_and_no_remedy_empties_swap() {
        let finding = compressed(43_000.0, 0.6, LIMIT / 2).unwrap();
        assert!(finding.headline.starts_with("43,000 major page faults a second"), "{}", finding.headline);
        assert!(finding.why.contains("of a file"), "{}", finding.why);
        assert!(
            finding.remedies.iter().all(|one| !one.statement.contains("swapoff")),
            "{:?}",
            finding.remedies
        );
    }

    #[test]
    fn page_faults_without_swap_are_not_swapping() {
        let window = at(FAULTS, 0);
        assert_eq!(CAUSE.evaluate(&window, crate::session_time(&window).as_ref()), Outcome::Clear);
    }

    #[test]
    fn memory_that_is_free_now_asks_for_no_other_limit() {
        assert_eq!(Short::from_memory(None), Short::Nothing);
        let memory =
            |available_bytes| MemoryStat { total_bytes: 100, available_bytes, ..MemoryStat::default() };
        assert_eq!(Short::from_memory(Some(&memory(50))), Short::Nothing);
        assert_eq!(Short::from_memory(Some(&memory(5))), Short::Host);
    }
}
