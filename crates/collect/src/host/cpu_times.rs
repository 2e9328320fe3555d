//! `/proc/stat`: CPU times of the whole host and of the CPUs that the server may run on, threads runnable and blocked, context
//! switches.

use std::path::Path;

use spindoctor_model::Unavailable;
use spindoctor_model::host::{AllowedCpus, CpuTimes};

use super::cpu_list::{CpuSet, format_cpu_list};
use super::kernel_file;
use super::process::TICK_US;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// CPU times of the whole host.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/stat",
    help: "how busy the host's CPUs are, those that the server may run on apart, and how much the hypervisor takes away",
    cost: "one small file",
    needs: "",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.cpu_times = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<CpuTimes, Unavailable> {
    let path = target.proc.join("stat");
    let text = kernel_file::read(&path)?;
    let times = parse_cpu_times(&text).ok_or_else(|| kernel_file::unknown_form(&path))?;
    // The server's status was read just before, and says which they are.
    let allowed = target.allowed().and_then(|allowed| parse_allowed(&text, &allowed));
    Ok(CpuTimes { allowed, ..times })
}

/// CPU times of the machine that spindoctor itself runs on; None where it has no `/proc`.
pub fn of_this_machine() -> Option<CpuTimes> {
    parse_cpu_times(&kernel_file::read(Path::new("/proc/stat")).ok()?)
}

/// Reads `/proc/stat`; None where it has no `cpu` line with at least user, nice, system and idle.
///
/// The line is `cpu  user nice system idle iowait irq softirq steal guest guest_nice` in ticks;
/// the kernel counts guest time in user and guest_nice in nice already. Older kernels end earlier.
pub fn parse_cpu_times(text: &str) -> Option<CpuTimes> {
    let times = parse_times(line(text, "cpu")?)?;
    let count = |name| line(text, name).and_then(|mut words| words.next()?.parse().ok()).unwrap_or(0);
    Some(CpuTimes {
        runnable: count("procs_running"),
        blocked: count("procs_blocked"),
        context_switches: count("ctxt"),
        ..times
    })
}

/// Adds up the lines `cpuN`, in the form of the line `cpu`, of the CPUs that the server may run on. None where these are all that
/// have a line, or none of them; a CPU that is offline has no line.
pub fn parse_allowed(text: &str, allowed: &CpuSet) -> Option<AllowedCpus> {
    let (mut counted, mut has_others) = (CpuSet::new(), false);
    let (mut busy_us, mut steal_us) = (0_u64, 0_u64);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        let Some(cpu) = number else { continue };
        if allowed.contains(&cpu) {
            let times = parse_times(words)?;
            busy_us = busy_us.saturating_add(times.busy_us());
            steal_us = steal_us.saturating_add(times.steal_us);
            counted.insert(cpu);
        } else {
            has_others = true;
        }
    }
    (has_others && !counted.is_empty()).then(|| AllowedCpus {
        cpus: format_cpu_list(&counted),
        count: u32::try_from(counted.len()).unwrap_or(u32::MAX),
        busy_us,
        steal_us,
    })
}

/// The times of one line, of the words after its name.
fn parse_times<'a>(words: impl Iterator<Item = &'a str>) -> Option<CpuTimes> {
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, rest @ ..] = ticks.as_slice() else { return None };
    let us = |ticks: u64| ticks.saturating_mul(TICK_US);
    let rest = |at: usize| us(rest.get(at).copied().unwrap_or(0));
    Some(CpuTimes {
        user_us: us(*user).saturating_add(us(*nice)),
        system_us: us(*system).saturating_add(rest(1)).saturating_add(rest(2)),
        idle_us: us(*idle),
        iowait_us: rest(0),
        steal_us: rest(3),
        ..CpuTimes::default()
    })
}

/// The words after a line's first word.
fn line<'a>(text: &'a str, name: &str) -> Option<impl Iterator<Item = &'a str>> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then_some(words)
    })
}

#[cfg(test)]
mod tests {
    use super::super::process;
    use super::super::testing::{never_panics, part, put, target};
    use super::*;
    use crate::source::Answer;

    /// Six CPUs, of which CPU 3 is offline.
    const SIX: &str = "cpu  150 0 75 900 0 0 0 40 0 0\ncpu0 10 0 5 100 0 0 0 0 0 0\ncpu1 20 1 5 100 7 0 0 0 0 0\n\
        cpu2 30 0 5 100 0 2 3 8 0 0\ncpu4 40 0 5 100 0 0 0 16 0 0\ncpu5 50 0 5 100 0 0 0 16 0 0\nintr 5 1 1\nctxt 5\n";

    fn allowed(list: &str) -> Option<AllowedCpus> {
        parse_allowed(SIX, &super::super::cpu_list::parse_cpu_list(list).unwrap())
    }

    #[test]
    fn the_cpus_that_the_server_may_run_on_are_added_up() {
        // User and nice 51, system, irq and softirq 15, steal 8; idle and iowait are no work.
        let two = AllowedCpus { cpus: "1-2".into(), count: 2, busy_us: 740_000, steal_us: 80_000 };
        assert_eq!(allowed("1-2"), Some(two));
        // The sum says of which CPUs it is: the one that is offline is none of them.
        assert_eq!(allowed("2-4,9").map(|sum| (sum.cpus, sum.count)), Some(("2,4".into(), 2)));
    }

    #[test]
    fn a_server_that_may_run_on_all_cpus_online_or_whose_cpus_have_no_line_has_no_sum() {
        assert_eq!(allowed("0-127"), None);
        assert_eq!(allowed("3"), None);
        assert_eq!(allowed(""), None);
    }

    #[test]
    fn many_cpus_make_one_sum() {
        let line = |cpu: u32| format!("cpu{cpu} 1 0 1 5 0 0 0 0 0 0\n");
        let text: String =
            std::iter::once("cpu  512 0 512 2560\n".to_owned()).chain((0..512).map(line)).collect();
        let even: CpuSet = (0..512).step_by(2).collect();
        let sum = parse_allowed(&text, &even).unwrap();
        assert_eq!((sum.count, sum.busy_us), (256, 256 * 20_000));
        assert!(sum.cpus.starts_with("0,2,4,") && sum.cpus.ends_with(",510"));
    }

    #[test]
    fn which_cpus_it_may_run_on_is_asked_again_with_each_sample() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/stat", SIX);
        put(root.path(), "proc/7/stat", "7 (mysqld) S 1 7 7 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 9 0 5 1 1\n");
        let target = target(root.path());
        let read = |mask: &str| {
            put(root.path(), "proc/7/status", &format!("VmRSS:\t5 kB\nCpus_allowed_list:\t{mask}\n"));
            let mut sample = spindoctor_model::HostSample::default();
            for source in [process::SOURCE, SOURCE] {
                (source.read)(&target, &mut sample, &Answer::default);
            }
            assert!(sample.process.value().is_some());
            sample.cpu_times.value().unwrap().allowed.clone().map(|sum| sum.cpus)
        };
        assert_eq!(read("0-7"), None);
        assert_eq!(read("4-5"), Some("4-5".to_owned()));
        assert_eq!(read("0,4"), Some("0,4".to_owned()));
    }

    #[test]
    fn old_kernels_without_guest_nice_are_read() {
        let text = part("written/host-old-kernel", "proc/stat");
        assert_eq!(
            parse_cpu_times(&text).unwrap(),
            CpuTimes {
                user_us: (310_500 + 2_500) * 10_000,
                system_us: (104_000 + 1_700 + 8_300) * 10_000,
                idle_us: 98_007_000_000,
                iowait_us: 612_000_000,
                steal_us: 0,
                runnable: 3,
                blocked: 1,
                context_switches: 77_001_234,
                allowed: None,
            }
        );
    }

    #[test]
    fn steal_is_kept_apart() {
        let times =
            parse_cpu_times("cpu  1 2 3 4 5 6 7 8 9 10\nctxt 11\nprocs_running 12\nprocs_blocked 13\n");
        let times = times.unwrap();
        assert_eq!((times.steal_us, times.system_us, times.user_us), (80_000, 160_000, 30_000));
        assert_eq!((times.context_switches, times.runnable, times.blocked), (11, 12, 13));
    }

    #[test]
    fn a_stat_without_a_cpu_line_is_refused() {
        assert_eq!(parse_cpu_times("cpu0 1 2 3 4\nctxt 5\n"), None);
        assert_eq!(parse_cpu_times("cpu  1 2 3\n"), None);
    }

    #[test]
    fn this_host_answers() {
        let times = collect(&Target::live(std::process::id())).unwrap();
        assert!(times.user_us > 0 && times.idle_us > 0 && times.context_switches > 0 && times.runnable >= 1);
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_cpu_times);
        never_panics(|text| parse_allowed(text, &CpuSet::from([0])));
    }
}
