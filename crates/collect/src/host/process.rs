//! `/proc/PID/stat`, `status` and `io`, and the cgroup freezer: whether the process exists and runs, and what it has
//! used.

use spindoctor_model::Unavailable;
use spindoctor_model::host::ProcessStat;

use super::source::{HostSource, Target, reading};
use super::{cgroup, kernel_file};
use crate::pace::Pace;
use crate::source::Cadence;

/// The server's process.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/stat",
    help: "the server's state, CPU time, memory, and what holds it: a debugger, a signal, the freezer",
    cost: "five small files",
    needs: "root or the server's user for bytes read and written",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.process = reading(collect(target), now),
};

/// Microseconds in a tick of `/proc`: `USER_HZ` is 100 on x86-64 and aarch64
/// (Linux, include/uapi/asm-generic/param.h).
pub(crate) const TICK_US: u64 = 10_000;

fn collect(target: &Target) -> Result<ProcessStat, Unavailable> {
    let path = target.process("stat");
    let stat = parse_task_stat(&kernel_file::read(&path)?).ok_or_else(|| kernel_file::unknown_form(&path))?;
    let status = parse_status(&kernel_file::read(&target.process("status"))?);
    // Only root and the server's user may read it.
    let io = kernel_file::read(&target.process("io")).map(|text| parse_io(&text)).unwrap_or_default();
    target.keep_allowed(status.cpus_allowed);
    Ok(ProcessStat {
        name: stat.name,
        state: stat.state,
        user_us: stat.user_us,
        system_us: stat.system_us,
        threads: stat.threads,
        resident_bytes: status.resident_bytes,
        swapped_bytes: status.swapped_bytes,
        major_faults: stat.major_faults,
        tracer_pid: status.tracer_pid,
        frozen: is_frozen(target),
        read_bytes: io.read_bytes,
        written_bytes: io.written_bytes,
    })
}

/// What `stat` of a process or of one of its threads says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskStat {
    /// Process or thread id.
    pub id: u32,
    /// `comm`.
    pub name: String,
    /// State letter.
    pub state: String,
    /// Major page faults.
    pub major_faults: u64,
    /// User CPU, microseconds.
    pub user_us: u64,
    /// System CPU, microseconds.
    pub system_us: u64,
    /// Threads of the process.
    pub threads: u64,
    /// When it started, ticks since boot: with the id, it names the process for ever.
    pub started_ticks: u64,
    /// The CPU that it ran on last; none where an old kernel does not say it.
    pub last_cpu: Option<u32>,
    /// True for a thread of the kernel: `kworker/0:1`, `jbd2/sda1-8`.
    pub is_of_kernel: bool,
}

/// The flag of a thread of the kernel: `PF_KTHREAD` (Linux, include/linux/sched.h).
const OF_KERNEL: u64 = 0x0020_0000;

/// Reads `PID (comm) S ppid ...` (proc_pid_stat(5)). The name may hold spaces and parentheses, so
/// it ends at the last parenthesis.
pub fn parse_task_stat(text: &str) -> Option<TaskStat> {
    let (id, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // proc_pid_stat(5) counts from 1 and the state is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(TaskStat {
        id: id.trim().parse().ok()?,
        name: name.to_owned(),
        state: (*fields.first()?).to_owned(),
        major_faults: number(12)?,
        user_us: number(14)?.saturating_mul(TICK_US),
        system_us: number(15)?.saturating_mul(TICK_US),
        threads: number(20)?,
        started_ticks: number(22)?,
        last_cpu: number(39).and_then(|cpu| cpu.try_into().ok()),
        is_of_kernel: number(9).is_some_and(|flags| flags & OF_KERNEL != 0),
    })
}

/// What is taken from `status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessStatus {
    /// `VmRSS`; zero for a process without memory (a zombie).
    pub resident_bytes: u64,
    /// `VmSwap`.
    pub swapped_bytes: u64,
    /// `TracerPid`, where one traces it.
    pub tracer_pid: Option<u32>,
    /// The last number of `Uid`: as whom it opens files and sockets.
    pub uid: Option<u32>,
    /// `Cpus_allowed_list`.
    pub cpus_allowed: Option<super::cpu_list::CpuSet>,
}

/// Reads `/proc/PID/status`.
pub fn parse_status(text: &str) -> ProcessStatus {
    let mut status = ProcessStatus::default();
    for (name, value) in named_values(text) {
        match name {
            "VmRSS" => status.resident_bytes = kilobytes(value).unwrap_or(0),
            "VmSwap" => status.swapped_bytes = kilobytes(value).unwrap_or(0),
            "TracerPid" => status.tracer_pid = value.parse().ok().filter(|&pid| pid != 0),
            "Uid" => status.uid = value.split_ascii_whitespace().next_back().and_then(|uid| uid.parse().ok()),
            "Cpus_allowed_list" => status.cpus_allowed = super::cpu_list::parse_cpu_list(value),
            _ => {}
        }
    }
    status
}

/// What is taken from `io`: storage, not the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessIo {
    /// `read_bytes`.
    pub read_bytes: Option<u64>,
    /// `write_bytes`.
    pub written_bytes: Option<u64>,
}

/// Reads `/proc/PID/io`.
pub fn parse_io(text: &str) -> ProcessIo {
    let find = |wanted| named_values(text).find(|(name, _)| *name == wanted)?.1.parse().ok();
    ProcessIo { read_bytes: find("read_bytes"), written_bytes: find("write_bytes") }
}

/// The lines `Name: value` of `/proc/PID/status`, `/proc/meminfo` and their like.
pub(crate) fn named_values(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.trim(), value.trim()))
}

/// The bytes in `123 kB`.
pub(crate) fn kilobytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// True where the freezer holds the process, whichever cgroup on its path is frozen.
///
/// Both files show the state in effect, ancestors included: v1 `freezer.state` is `FREEZING` or `FROZEN`, v2
/// `cgroup.events` says `frozen 1`. Neither exists in a root cgroup, which cannot be frozen.
fn is_frozen(target: &Target) -> bool {
    let leaf_file = |controller, file| {
        let cgroup = cgroup::find(target, controller).ok()??;
        kernel_file::read(&cgroup.levels.first()?.folder.join(file)).ok()
    };
    leaf_file("freezer", "freezer.state").is_some_and(|state| parse_freezer_state(&state))
        || leaf_file(cgroup::UNIFIED, "cgroup.events").is_some_and(|events| parse_cgroup_frozen(&events))
}

/// Reads v1 `freezer.state`.
pub fn parse_freezer_state(text: &str) -> bool {
    matches!(text.trim(), "FROZEN" | "FREEZING")
}

/// Reads `frozen` of v2 `cgroup.events`.
pub fn parse_cgroup_frozen(text: &str) -> bool {
    text.lines().any(|line| line.split_ascii_whitespace().eq(["frozen", "1"]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, process, put, target, tree};
    use super::*;

    #[test]
    fn a_process_is_read_whole() {
        let root = tree("written/host-processes");
        assert_eq!(
            collect(&process(root.path(), 4100)).unwrap(),
            ProcessStat {
                name: "mysqld".into(),
                state: "S".into(),
                user_us: 1_234_560_000,
                system_us: 78_900_000,
                threads: 5,
                resident_bytes: 812_344 * 1024,
                swapped_bytes: 512 * 1024,
                major_faults: 31,
                tracer_pid: None,
                frozen: false,
                read_bytes: Some(1_048_576),
                written_bytes: Some(7_340_032),
            }
        );
    }

    #[test]
    fn a_name_may_hold_spaces_and_parentheses() {
        let root = tree("written/host-processes");
        let text = std::fs::read_to_string(process(root.path(), 4300).process("stat")).unwrap();
        assert_eq!(parse_task_stat(&text).unwrap().name, "my (sql) d) x");
    }

    #[test]
    fn negative_fields_of_kernel_threads_are_no_obstacle() {
        let root = tree("written/host-processes");
        let text = std::fs::read_to_string(process(root.path(), 4400).process("stat")).unwrap();
        let stat = parse_task_stat(&text).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.state.as_str(), stat.started_ticks, stat.is_of_kernel),
            ("kworker/0:1H-kb", "I", 5, true)
        );
        let text = std::fs::read_to_string(process(root.path(), 4100).process("stat")).unwrap();
        assert!(!parse_task_stat(&text).unwrap().is_of_kernel);
    }

    #[test]
    fn a_process_that_is_gone_says_so() {
        let root = tree("written/host-processes");
        assert!(collect(&process(root.path(), 1)).unwrap_err().because.starts_with("there is no "));
    }

    #[test]
    fn a_tracer_is_named() {
        assert_eq!(parse_status("State:\tt (tracing stop)\nTracerPid:\t77\n").tracer_pid, Some(77));
        assert_eq!(parse_status("TracerPid:\t0\n").tracer_pid, None);
    }

    #[test]
    fn sockets_are_those_of_the_last_id() {
        assert_eq!(parse_status("Uid:\t0\t0\t0\t999\n").uid, Some(999));
        assert_eq!(parse_status("Uid:\t\n").uid, None);
    }

    #[test]
    fn the_v1_freezer_is_seen() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "3:freezer:/db\n0::/\n");
        put(root.path(), "sys/fs/cgroup/freezer/db/freezer.state", "FROZEN\n");
        let target = target(root.path());
        assert!(is_frozen(&target));
        put(root.path(), "sys/fs/cgroup/freezer/db/freezer.state", "THAWED\n");
        assert!(!is_frozen(&target));
    }

    #[test]
    fn the_v2_freezer_is_seen() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/db\n");
        put(root.path(), "sys/fs/cgroup/db/cgroup.events", "populated 1\nfrozen 1\n");
        let target = target(root.path());
        assert!(is_frozen(&target));
        put(root.path(), "sys/fs/cgroup/db/cgroup.events", "populated 1\nfrozen 0\n");
        assert!(!is_frozen(&target));
    }

    #[test]
    fn the_kernel_ticks_a_hundred_times_a_second() {
        assert_eq!(rustix::param::clock_ticks_per_second() * TICK_US, 1_000_000);
    }

    #[test]
    fn this_process_answers() {
        let process = collect(&Target::live(std::process::id())).unwrap();
        assert!(["R", "S"].contains(&process.state.as_str()), "{}", process.state);
        assert!(process.resident_bytes > 100_000 && process.threads >= 1 && !process.frozen);
        assert!(process.read_bytes.is_some());
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_task_stat);
        never_panics(parse_status);
        never_panics(parse_io);
        never_panics(parse_freezer_state);
        never_panics(parse_cgroup_frozen);
    }
}
