//! `/proc/stat`: CPU times of the whole host, threads runnable and blocked, context switches.

use std::path::Path;

use spindoctor_model::Unavailable;
use spindoctor_model::host::CpuTimes;

use super::kernel_file;
use super::process::TICK_US;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// CPU times of the whole host.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/stat",
    help: "how busy the host's CPUs are, and how much the hypervisor takes away",
    cost: "one small file",
    needs: "",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.cpu_times = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<CpuTimes, Unavailable> {
    let path = target.proc.join("stat");
    parse_cpu_times(&kernel_file::read(&path)?).ok_or_else(|| kernel_file::unknown_form(&path))
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
    let ticks: Vec<u64> = line(text, "cpu")?.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, rest @ ..] = ticks.as_slice() else { return None };
    let us = |ticks: u64| ticks.saturating_mul(TICK_US);
    let rest = |at: usize| us(rest.get(at).copied().unwrap_or(0));
    let count = |name| line(text, name).and_then(|mut words| words.next()?.parse().ok()).unwrap_or(0);
    Some(CpuTimes {
        user_us: us(*user).saturating_add(us(*nice)),
        system_us: us(*system).saturating_add(rest(1)).saturating_add(rest(2)),
        idle_us: us(*idle),
        iowait_us: rest(0),
        steal_us: rest(3),
        runnable: count("procs_running"),
        blocked: count("procs_blocked"),
        context_switches: count("ctxt"),
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
    use super::super::testing::{never_panics, part};
    use super::*;

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
    }
}
