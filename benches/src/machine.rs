//! The machine that the numbers are of, and the versions of what was measured.

use std::fs;

use crate::peer;
use crate::program::Spindoctor;

/// What to know of the machine.
pub(crate) struct Machine {
    cpu: String,
    cpus: usize,
    memory_gib: u64,
    kernel: String,
    spindoctor: String,
    peers: Vec<String>,
}

impl Machine {
    /// Reads it.
    pub(crate) fn read(spindoctor: &Spindoctor) -> anyhow::Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&fs::read_to_string("/proc/meminfo")?, "MemTotal")
            .and_then(|total| total.strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(Self {
            cpu: field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory.map_or(0, |kib| (kib + (1 << 19)) >> 20),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            spindoctor: spindoctor.version()?,
            peers: peer::PEERS.iter().filter_map(peer::Peer::version).collect(),
        })
    }

    /// In a sentence.
    pub(crate) fn told(&self) -> String {
        format!(
            "{}, {} on {}, {} CPUs, {} GiB, Linux {}; peers: {}",
            self.spindoctor,
            jiff::Timestamp::now().strftime("%Y-%m-%d"),
            self.cpu,
            self.cpus,
            self.memory_gib,
            self.kernel,
            self.peers.join(", ")
        )
    }
}
