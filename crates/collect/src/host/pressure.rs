//! `/proc/pressure/{cpu,io,memory}`: time in which tasks of the host waited for a CPU, storage or memory.

use std::path::{Path, PathBuf};

use spindoctor_model::host::Pressure;
use spindoctor_model::{HostSample, Unavailable};

use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::{Answer, Cadence};

/// Pressure of the whole host.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/pressure",
    help: "how long tasks of the host stood still for want of CPU, storage or memory",
    cost: "three small files",
    needs: "a kernel with CONFIG_PSI that was not started with psi=0",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read,
};

fn read(target: &Target, sample: &mut HostSample, now: &dyn Fn() -> Answer) {
    let folder = target.proc.join("pressure");
    sample.pressure = reading(collect(|resource| folder.join(resource)), now);
}

/// Reads the three files, wherever they are. A resource that the kernel does not watch stays None;
/// Unavailable where it watches none.
pub(super) fn collect(file_of: impl Fn(&str) -> PathBuf) -> Result<Pressure, Unavailable> {
    let [cpu, io, memory] = ["cpu", "io", "memory"].map(|resource| stalls(&file_of(resource)));
    if let (Err(unavailable), Err(_), Err(_)) = (&cpu, &io, &memory) {
        let unlock = "start the kernel with psi=1 (it needs CONFIG_PSI)";
        return Err(Unavailable { unlock: Some(unlock.into()), ..unavailable.clone() });
    }
    let [cpu, io, memory] = [cpu, io, memory].map(Result::unwrap_or_default);
    Ok(Pressure {
        cpu_some_us: cpu.some_us,
        io_some_us: io.some_us,
        io_full_us: io.full_us,
        memory_some_us: memory.some_us,
        memory_full_us: memory.full_us,
        cgroup: None,
    })
}

fn stalls(path: &Path) -> Result<Stalls, Unavailable> {
    Ok(parse_pressure(&kernel_file::read(path)?))
}

/// Microseconds stalled so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// At least one task stood still.
    pub some_us: Option<u64>,
    /// All tasks that were not idle stood still.
    pub full_us: Option<u64>,
}

/// Reads `some avg10=0.10 avg60=2.00 avg300=3.85 total=15` and the same line with `full`.
pub fn parse_pressure(text: &str) -> Stalls {
    let total = |kind| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
    };
    Stalls { some_us: total("some "), full_us: total("full ") }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, tree};
    use super::*;

    #[test]
    fn the_hosts_pressure_is_read() {
        let root = tree("written/host-processes");
        let folder = root.path().join("proc/pressure");
        assert_eq!(
            collect(|resource| folder.join(resource)).unwrap(),
            Pressure {
                cpu_some_us: Some(4_200_123),
                io_some_us: Some(310_044),
                io_full_us: Some(280_011),
                memory_some_us: Some(77),
                memory_full_us: Some(55),
                cgroup: None,
            }
        );
    }

    #[test]
    fn a_kernel_without_psi_says_how_to_get_it() {
        let unavailable = collect(|resource| format!("/nowhere/{resource}").into()).unwrap_err();
        assert_eq!(unavailable.because, "there is no /nowhere/cpu");
        assert!(unavailable.unlock.is_some_and(|unlock| unlock.contains("psi=1")));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_pressure);
    }
}
