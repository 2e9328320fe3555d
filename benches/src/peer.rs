//! The tools that people use today, installed from Debian.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

/// A tool that prints the stack of every thread of a process.
pub(crate) struct Peer {
    /// Its command.
    pub(crate) name: &'static str,
    /// Its arguments, before the process id.
    arguments: &'static [&'static str],
}

/// gdb as the poor man's profiler calls it.
pub(crate) const GDB: Peer = Peer {
    name: "gdb",
    arguments: &["-nx", "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt", "-p"],
};
/// elfutils' eu-stack.
pub(crate) const EU_STACK: Peer = Peer { name: "eu-stack", arguments: &["-p"] };
/// perf, for its CPU samples.
pub(crate) const PERF: Peer = Peer { name: "perf", arguments: &[] };
/// MariaDB's client, for its queries.
pub(crate) const MARIADB: Peer = Peer { name: "mariadb", arguments: &[] };
/// All of them.
pub(crate) const PEERS: &[Peer] = &[GDB, EU_STACK, PERF, MARIADB];

impl Peer {
    /// `gdb 13.1`: the name, and the number in the first line of `--version`.
    pub(crate) fn version(&self) -> Option<String> {
        let output = Command::new(self.name).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number =
            text.lines().next()?.split_whitespace().rfind(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
        Some(format!("{} {}", self.name, number.trim_end_matches(',')))
    }

    /// Prints the stacks of so many threads at least into nothing: how long that took, milliseconds.
    pub(crate) async fn stacks_ms(&self, pid: u32, threads: usize) -> anyhow::Result<f64> {
        let mut command = Command::new(self.name);
        // gdb would ask a server for debug information.
        command.args(self.arguments).arg(pid.to_string()).env_remove("DEBUGINFOD_URLS").stdin(Stdio::null());
        let begun = Instant::now();
        let output = tokio::task::spawn_blocking(move || command.output())
            .await?
            .with_context(|| format!("could not run {}", self.name))?;
        let took = begun.elapsed();
        let innermost = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"#0 "));
        let printed = innermost.count();
        ensure!(
            printed >= threads,
            "{} printed the stacks of {printed} threads: {}",
            self.name,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(took.as_secs_f64() * 1e3)
    }
}
