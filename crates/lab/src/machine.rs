//! The machine on which a number was measured, for the documents that show the number.

use std::fs;

/// `AMD EPYC 9B45, 2 CPUs, 24 GiB, Linux 6.18.5`, as far as `/proc` says.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cpu =
        field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|total| total.strip_suffix(" kB")?.parse::<u64>().ok())
        .map_or(0, |kib| (kib + (1 << 19)) >> 20);
    format!("{cpu}, {cpus} CPUs, {memory} GiB, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}
