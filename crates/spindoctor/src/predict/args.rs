//! The flags of `spindoctor predict`.

use std::path::PathBuf;

use clap::Args;
use spindoctor_predict::{Assumption, Flavor, Hardware, Workload};

use crate::common::flags::{one_of, seconds, whole};

/// `spindoctor predict`.
#[derive(Debug, Args)]
pub struct Predict {
    /// What was measured: JSON of `sweep --json`, a recording, or a table of connections and transactions a second, a line each
    #[arg(long, value_name = "FILE")]
    pub fit: PathBuf,

    /// The machine that it was measured on: cpus=24,numa=2,pause=3.4ns,quota=2 [default: as the sweep says]
    #[arg(long, value_name = "LIST", value_parser = Machine::parse, default_value = "", hide_default_value = true)]
    pub measured_on: Machine,

    /// Whose server it was [default: as the sweep says]
    #[arg(long, value_name = "NAME", value_parser = one_of(SERVERS))]
    pub server: Option<Flavor>,

    /// What its clients did [default: as the sweep says]
    #[arg(long, value_name = "NAME", value_parser = one_of(WORKLOADS))]
    pub workload: Option<Workload>,

    /// A setting that the server had while it was measured, where that is not the default or the sweep has several; also quota,
    /// cpuset and workload of a sweep that varied them
    #[arg(long, hide_short_help = true, value_name = "VAR=VALUE", value_parser = setting)]
    pub was: Vec<(String, String)>,

    /// How long one write and sync of the redo log took
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "100us", value_parser = time_ns)]
    pub flush: f64,

    /// The machine that is asked about, as --measured-on; what is not named is as measured, quota=none is no quota
    #[arg(long, value_name = "LIST", value_parser = Machine::parse, default_value = "", hide_default_value = true)]
    pub hardware: Machine,

    /// A setting that is asked about, or several values of it: VAR=V1,V2; given more than once, each with each
    #[arg(long, value_name = "VAR=VALUES", value_parser = settings)]
    pub set: Vec<(String, Vec<String>)>,

    /// What you take for granted of a machine beyond the measured one: cpus, numa, pause, quota
    #[arg(long, hide_short_help = true, value_name = "LIST", value_delimiter = ',', value_parser = one_of(ASSUMPTIONS))]
    pub assume: Vec<Assumption>,

    /// Numbers of connections whose measurements the fit does not get; they stand beside what the model says of them
    #[arg(long, hide_short_help = true, value_name = "LIST", value_delimiter = ',', value_parser = whole::<u32>(0, u32::MAX))]
    pub hold_out: Vec<u32>,

    /// Numbers of connections [default: those that were measured]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = whole::<u32>(1, 10_000))]
    pub threads: Vec<u32>,

    /// The same seed gives the same answer
    #[arg(long, hide_short_help = true, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub seed: u64,

    /// Print JSON (schema spindoctor.predict/1)
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Write a chart as SVG, too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,
}

/// Names of servers.
pub const SERVERS: &[(&str, &str, Flavor)] = &[
    ("mysql-5.5", "before 5.6", Flavor::Mysql55),
    ("mysql-5.7", "5.6 and 5.7", Flavor::Mysql57),
    ("mysql-8.0", "8.0 and later", Flavor::Mysql80),
    ("mariadb", "MariaDB, 10.6 and later", Flavor::Mariadb),
];

/// Names of workloads.
const WORKLOADS: &[(&str, &str, Workload)] = &[
    ("reads", "short transactions that only read", Workload::Reads),
    ("writes", "short transactions that write and commit", Workload::Writes),
];

/// Names of assumptions.
const ASSUMPTIONS: &[(&str, &str, Assumption)] = &[
    ("cpus", "more CPUs are as fast as the measured ones", Assumption::Cpus),
    ("numa", "moving a cache line between nodes costs what it costs elsewhere", Assumption::Numa),
    ("pause", "a CPU with another PAUSE is the same in all else", Assumption::Pause),
    ("quota", "nothing but the quota limited the server", Assumption::Quota),
];

/// What was said of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Machine {
    /// Logical CPUs.
    pub cpus: Option<u32>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// One PAUSE, nanoseconds.
    pub pause_ns: Option<f64>,
    /// CPUs that a quota grants; the inner one is none for no quota.
    pub quota_cpus: Option<Option<f64>>,
}

impl Machine {
    /// `cpus=128,numa=4,pause=47ns,quota=2`
    fn parse(text: &str) -> Result<Self, String> {
        let mut machine = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part.split_once('=').ok_or("write NAME=VALUE: cpus=24,numa=2,pause=3.4ns")?;
            let value = value.trim();
            let count = |most: u32| match value.parse::<u32>() {
                Ok(number) if (1..=most).contains(&number) => Ok(number),
                _ => Err(format!("{name}: a number from 1 to {most} is wanted, not {value}")),
            };
            match name.trim() {
                "cpus" => machine.cpus = Some(count(4_096)?),
                "numa" => machine.numa_nodes = Some(count(64)?),
                "pause" => machine.pause_ns = Some(time_ns(value)?),
                "quota" if value == "none" => machine.quota_cpus = Some(None),
                "quota" => machine.quota_cpus = Some(Some(crate::common::flags::cpus(value)?)),
                other => return Err(format!("{other} is none of cpus, numa, pause and quota")),
            }
        }
        Ok(machine)
    }

    /// A machine as it was said, the rest as before.
    pub fn on(&self, before: &Hardware) -> Hardware {
        Hardware {
            cpus: self.cpus.unwrap_or(before.cpus),
            numa_nodes: self.numa_nodes.unwrap_or(before.numa_nodes),
            pause_ns: self.pause_ns.unwrap_or(before.pause_ns),
            quota_cpus: self.quota_cpus.unwrap_or(before.quota_cpus),
            ..before.clone()
        }
    }
}

/// `47ns`, `100us`, `2ms`, in nanoseconds.
fn time_ns(text: &str) -> Result<f64, String> {
    let ns = seconds(text, &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)], "ns, us or ms")? * 1e9;
    match (0.1..=1e9).contains(&ns) {
        true => Ok(ns),
        false => Err("it must be between 0.1ns and 1000ms".to_owned()),
    }
}

/// `innodb_sync_spin_loops=200`
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').map(|(variable, value)| (variable.trim(), value.trim())) {
        Some((variable, value)) if !variable.is_empty() && !value.is_empty() => {
            Ok((variable.to_owned(), value.to_owned()))
        }
        _ => Err("write VAR=VALUE: innodb_sync_spin_loops=200".to_owned()),
    }
}

/// `innodb_sync_spin_loops=0,30,200`
fn settings(text: &str) -> Result<(String, Vec<String>), String> {
    let (variable, values) = setting(text)?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    match values.iter().any(String::is_empty) {
        true => Err("write VAR=V1,V2: innodb_sync_spin_loops=30,200".to_owned()),
        false => Ok((variable, values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_what_is_named_and_the_rest_as_before() {
        let machine = Machine::parse("cpus=128,numa=4,pause=47ns,quota=2.5").unwrap();
        let before = Hardware::default();
        let now = machine.on(&before);
        assert_eq!((now.cpus, now.numa_nodes, now.quota_cpus), (128, 4, Some(2.5)));
        assert!((now.pause_ns - 47.0).abs() < 1e-9);
        assert_eq!(Machine::parse("").unwrap().on(&now), now);
        assert_eq!(Machine::parse("quota=none").unwrap().on(&now).quota_cpus, None);
        for wrong in ["cpus", "cpus=0", "cores=4", "pause=47", "pause=nanns", "quota=0"] {
            assert!(Machine::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_setting_has_a_name_and_a_value() {
        assert_eq!(setting("a = 1"), Ok(("a".to_owned(), "1".to_owned())));
        assert!(["a", "=1", "a="].iter().all(|wrong| setting(wrong).is_err()));
        assert_eq!(settings("a=1, 2"), Ok(("a".to_owned(), vec!["1".to_owned(), "2".to_owned()])));
        assert!(["a=1,", "a=,1", "a"].iter().all(|wrong| settings(wrong).is_err()));
    }
}
