//! The program that is measured, run as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use spindoctor_lab::kept;

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

    /// Runs it to its end; it must print JSON.
    pub(crate) async fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        let mut command = Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The load's clients may live on this thread: what blocks gets another.
        let (output, took, resident_mib) = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let child = command.spawn()?;
            let status = format!("/proc/{}/status", child.id());
            let watched = std::thread::spawn(move || most_resident_mib(&status));
            let output = child.wait_with_output()?;
            anyhow::Ok((output, begun.elapsed(), watched.join().unwrap_or(f64::NAN)))
        })
        .await??;
        ensure!(
            output.status.success(),
            "spindoctor {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        let json = serde_json::from_slice(&output.stdout).context("spindoctor printed no JSON")?;
        Ok(Ran { took, resident_mib, json })
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
