//! The machine that something was measured on, as far as it decides what a server's spinning costs: two measurements
//! of one server on two machines differ in this first.

use serde::{Deserialize, Serialize};

use crate::host::{CpuModel, PauseLatency};
use crate::number;

/// A machine. What could not be read is none, never zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Which CPU it has.
    pub cpu: Option<CpuModel>,
    /// CPUs on which the server's threads may run: online, in its cpuset and in its affinity mask.
    pub cpus: Option<u32>,
    /// CPU time that its control groups grant it, CPUs; none without a quota.
    pub quota_cpus: Option<f64>,
    /// How long one PAUSE took on those CPUs when the measurement began.
    pub pause: Option<PauseLatency>,
    /// The kernel's release, as `uname -r` prints it: `3.10.0-229.el7.x86_64`.
    pub kernel: Option<String>,
}

impl Machine {
    /// Its CPU by name and, where that is known, microarchitecture: `Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz
    /// (Skylake-SP)`.
    pub fn cpu_text(&self) -> Option<String> {
        let cpu = self.cpu.as_ref()?;
        let name = match &cpu.microarchitecture {
            Some(known) if !cpu.name.contains(known.as_str()) => format!("{} ({known})", cpu.name),
            _ => cpu.name.clone(),
        };
        Some(if cpu.virtualised { format!("{name}, virtual") } else { name })
    }

    /// Its PAUSE: `47.1 ns, 140 cycles`.
    pub fn pause_text(&self) -> Option<String> {
        let pause = self.pause.as_ref()?;
        let ns = number::quantity(pause.ns, "ns");
        Some(match pause.core_cycles {
            Some(cycles) => format!("{ns}, {} cycles", number::whole(cycles)),
            None => ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_by_what_is_known_of_it() {
        let cpu = CpuModel {
            name: "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz".to_owned(),
            microarchitecture: Some("Skylake-SP".to_owned()),
            ..CpuModel::default()
        };
        let pause = PauseLatency { ns: 47.1, core_cycles: Some(140.2), ..PauseLatency::default() };
        let machine = Machine { cpu: Some(cpu), pause: Some(pause), ..Machine::default() };
        assert_eq!(
            machine.cpu_text().as_deref(),
            Some("Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz (Skylake-SP)")
        );
        assert_eq!(machine.pause_text().as_deref(), Some("47.1 ns, 140 cycles"));
        assert_eq!((Machine::default().cpu_text(), Machine::default().pause_text()), (None, None));
    }
}
