//! The program that is measured, run as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Pid;
use serde_json::Value;
use spindoctor_lab::kept;
use tokio::task::JoinHandle;

use crate::cpu_time;

/// How often the memory of a running program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The built program.
pub(crate) struct Spindoctor {
    path: PathBuf,
}

/// What a run of it took and printed.
pub(crate) struct Ran {
    /// From start to exit.
    pub(crate) took: Duration,
    /// The most that was resident, MiB.
    pub(crate) resident_mib: f64,
    /// What it printed, as JSON.
    pub(crate) json: Value,
}

/// What a whole run took that printed nothing to anybody.
pub(crate) struct Whole {
    /// From start to exit.
    pub(crate) took: Duration,
    /// Its CPU time.
    pub(crate) cpu: Duration,
}

impl Ran {
    /// A number of the JSON.
    pub(crate) fn number(&self, pointer: &str) -> anyhow::Result<f64> {
        self.json
            .pointer(pointer)
            .and_then(Value::as_f64)
            .with_context(|| format!("spindoctor printed no {pointer}"))
    }
}

impl Spindoctor {
    /// The program at this path.
    pub(crate) fn at(path: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| format!("{}: build it first", path.display()))?;
        Ok(Self { path })
    }

    /// `spindoctor 0.1.0`
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        let output = Command::new(&self.path).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The version, and a number that another build does not have.
    pub(crate) fn build(&self) -> anyhow::Result<String> {
        Ok(format!("{} {:016x}", self.version()?, kept::number_of_build(&self.path)?))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A run of it, to be given arguments.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.path)
    }

    /// Starts it; what it prints goes nowhere. It ends with this program, however that ends.
    pub(crate) fn start(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(&self.path).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.spawn()?)
    }

    /// Starts it; what it prints goes nowhere. What is given back ends with it.
    pub(crate) fn start_whole(
        &self,
        arguments: &[&str],
    ) -> anyhow::Result<JoinHandle<anyhow::Result<Whole>>> {
        let begun = Instant::now();
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let arguments = arguments.join(" ");
        Ok(tokio::task::spawn_blocking(move || {
            let (status, cpu) = cpu_time::until_end(child)?;
            ensure!(status.success(), "spindoctor {arguments} failed: {status}");
            Ok(Whole { took: begun.elapsed(), cpu })
        }))
    }

    /// Runs it to its end; it must print JSON.
    pub(crate) async fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        Ok(self.run_beside(arguments, |_| Ok(())).await?.0)
    }

    /// The same, and what it takes of a core once its start is over: its CPU time from so long after its start on, for so long,
    /// as a part of that time. It must run for longer.
    pub(crate) async fn run_counting(
        &self,
        arguments: &[&str],
        after: Duration,
        lasts: Duration,
    ) -> anyhow::Result<(Ran, f64)> {
        self.run_beside(arguments, move |pid| {
            std::thread::sleep(after);
            let (begun, before) = (Instant::now(), cpu_time::so_far(pid)?);
            std::thread::sleep(lasts);
            Ok((cpu_time::so_far(pid)? - before).as_secs_f64() / begun.elapsed().as_secs_f64())
        })
        .await
    }

    /// Runs it to its end, and this beside it from its start on, which ends sooner.
    async fn run_beside<T: Send + 'static>(
        &self,
        arguments: &[&str],
        beside: impl FnOnce(Pid) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<(Ran, T)> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The load's clients may live on this thread: what blocks gets another.
        let (output, took, resident_mib, beside) = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let child = command.spawn()?;
            let status = format!("/proc/{}/status", child.id());
            let watched = std::thread::spawn(move || most_resident_mib(&status));
            let beside = beside(Pid::from_child(&child));
            let output = child.wait_with_output()?;
            anyhow::Ok((output, begun.elapsed(), watched.join().unwrap_or(f64::NAN), beside))
        })
        .await??;
        ensure!(
            output.status.success(),
            "spindoctor {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        let json = serde_json::from_slice(&output.stdout).context("spindoctor printed no JSON")?;
        Ok((Ran { took, resident_mib, json }, beside?))
    }
}

/// The most that was resident until the process ended.
fn most_resident_mib(status: &str) -> f64 {
    let mut most = 0.0_f64;
    while let Some(resident) = fs::read_to_string(status).ok().as_deref().and_then(resident_mib) {
        most = most.max(resident);
        std::thread::sleep(LOOK);
    }
    most
}

/// `VmHWM:     53692 kB`; a process that has ended has none.
fn resident_mib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}
