//! Other programs that write to a server's disk, and need hardly any CPU for it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result};

/// Bytes of each file, which is written again and again.
const FILE_BYTES: u32 = 64 << 20;

/// One dd after the other writes the file past the page cache, each block through to the disk before the next: who waits uses no CPU.
const BIRTH: &str =
    r#"while dd if=/dev/zero of="$1" bs="$2" count="$3" oflag=direct,dsync conv=notrunc; do :; done"#;

/// They write until this is dropped.
#[derive(Debug)]
pub(crate) struct DiskWriters {
    processes: Vec<Child>,
}

impl DiskWriters {
    /// Starts so many, with a file of each in a folder: who removes the folder removes the files.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(crate) fn start(folder: &Path, writers: u32, block_bytes: u32) -> Result<Self> {
        let mut started = Self { processes: Vec::new() };
        for writer in 1..=writers {
            let mut command = Command::new("setpriv");
            // The kernel ends it with this thread, whatever ends that; the dd of that moment ends with its file.
            command
                .args(["--pdeathsig", "KILL", "sh", "-c", BIRTH, "sh"])
                .arg(folder.join(format!("other-program-{writer}")))
                .args([block_bytes, FILE_BYTES / block_bytes].map(|number| number.to_string()))
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            started.processes.push(command.spawn().map_err(Error::file("run", "setpriv".as_ref()))?);
        }
        Ok(started)
    }
}

impl Drop for DiskWriters {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // The shell, and its dd.
            let _gone = kill_process_group(Pid::from_child(process), Signal::KILL);
            let _status = process.wait();
        }
    }
}
