//! How much memory a program holds while it runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

/// The memory of a program that is looked at is read so often.
const LOOK: Duration = Duration::from_millis(2);

/// The most that is resident while a command runs, to its end, MiB.
pub(super) fn most_mib(command: &mut Command) -> anyhow::Result<f64> {
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0_f64;
    while child.try_wait()?.is_none() {
        most = most.max(now_mib(Path::new(&status)).unwrap_or(0.0));
        std::thread::sleep(LOOK);
    }
    ensure!(most > 0.0, "it was gone before it was looked at");
    Ok(most)
}

/// `VmHWM:     53692 kB`
fn now_mib(status: &Path) -> Option<f64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}
