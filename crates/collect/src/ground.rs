//! The CPUs under a server, read again and again: how many it is granted and counts, their model, their PAUSE.
//!
//! In: the server's process. Out: a [`HostSample`] with the readings that were due, the rest `NotAsked`. It also reads
//! some settings of the server, in one statement.

use std::time::Instant;

use spindoctor_model::host::EffectiveCpus;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{HostSample, Machine};

use crate::host::{self, HostSource};
use crate::mysql::{QueryError, Session};

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Quota, cpuset, and the server's own count: some ten small files and 40 bytes of its memory.
    Cpus,
    /// The CPU's model and its PAUSE, too: the kernel writes a block for each CPU, and up to four of the server's CPUs
    /// are busy for about 1 ms each.
    Whole,
}

const CPUS: [&HostSource; 2] = [&host::effective_cpus::SOURCE, &host::srv_cpu_usage::SOURCE];
const REST: [&HostSource; 2] = [&host::cpu_model::SOURCE, &host::pause::SOURCE];

/// Reads it now.
pub fn read(target: &host::Target, depth: Depth) -> HostSample {
    let (mut sample, begun) = (HostSample::default(), Instant::now());
    let rest: &[&HostSource] = if depth == Depth::Whole { &REST } else { &[] };
    for source in CPUS.iter().chain(rest) {
        source.read_into(&mut sample, target, begun);
    }
    sample
}

/// The machine that a server runs on, for what is measured on it: all of [`Depth::Whole`], and the kernel's release.
pub fn machine(target: &host::Target) -> Machine {
    let sample = read(target, Depth::Whole);
    let cpus = sample.effective_cpus.value();
    Machine {
        cpu: sample.cpu.value().cloned(),
        cpus: cpus.map(EffectiveCpus::allowed),
        quota_cpus: cpus.and_then(|cpus| Some(cpus.quota.as_ref()?.cpus)),
        pause: sample.pause.value().cloned(),
        kernel: host::kernel_release(target),
    }
}

/// These global variables, as the server has them now; those that it does not know are missing.
///
/// Cost: the server reads some 700 variables from memory, about 1 ms, and sends a few.
///
/// # Errors
/// The server refuses, or does not answer.
pub async fn variables(session: &mut Session, names: &[&'static str]) -> Result<NamedValues, QueryError> {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let statement = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", quoted.join(", "));
    let rows = session.query(&statement).await?;
    Ok(rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1)?))).collect())
}

/// All global variables, as the server has them now.
///
/// Cost: the server reads some 700 variables from memory, about 1 ms, and sends them, some 30 KB.
///
/// # Errors
/// The server refuses, or does not answer.
pub async fn all_variables(session: &mut Session) -> Result<NamedValues, QueryError> {
    let rows = session.query("SHOW GLOBAL VARIABLES").await?;
    Ok(rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1)?))).collect())
}

/// How many CPUs the server counts by its own metric, where somebody has enabled that (`module_cpu`).
///
/// Cost: the server fills a table of some 300 counters from memory, about 1 ms.
///
/// # Errors
/// The server refuses, or does not answer.
pub async fn counted_cpus(session: &mut Session) -> Result<Option<u32>, QueryError> {
    let rows = session
        .query("SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'cpu_n' AND STATUS = 'enabled'")
        .await?;
    // It is 0 until the server's master thread has updated it.
    Ok(rows.first().and_then(|row| row.at(0)?.parse().ok()).filter(|&cpus| cpus > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_due_is_read() {
        let target = host::Target::live(std::process::id());
        let cpus = read(&target, Depth::Cpus);
        assert!(cpus.effective_cpus.value().is_some() && cpus.pause.value().is_none());
        let whole = read(&target, Depth::Whole);
        assert!(whole.pause.value().is_some() && whole.cpu.value().is_some());
    }

    #[test]
    fn a_machine_is_its_cpu_its_pause_and_its_kernel() {
        let machine = machine(&host::Target::live(std::process::id()));
        assert!(machine.cpu_text().is_some() && machine.pause_text().is_some(), "{machine:?}");
        assert!(machine.cpus.is_some_and(|cpus| cpus > 0), "{machine:?}");
        let kernel = machine.kernel.expect("it has a release");
        assert!(kernel.starts_with(|c: char| c.is_ascii_digit()) && !kernel.ends_with('\n'), "{kernel:?}");
    }
}
