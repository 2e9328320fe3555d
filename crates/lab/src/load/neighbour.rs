//! Another service on the machine: processes of another control group that use all CPU time they get.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::cgroup::{Groups, Limits};
use crate::error::{Error, Result};

/// What its group's name begins with; the id of the lab's process follows.
const PREFIX: &str = "spindoctor-lab-neighbour-";
/// Its group's weight against every other group's.
const WEIGHT: u32 = 6;

/// Enters the control groups and becomes the service: it compresses nothing at all, for ever.
const BIRTH: &str = r#"while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done
shift
exec "$@" gzip -9 < /dev/zero > /dev/null"#;

/// A service that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Neighbour {
    processes: Vec<Child>,
    groups: Groups,
}

impl Neighbour {
    /// Starts a service of so many processes, in a group with six times the usual weight.
    ///
    /// # Errors
    /// No control group can be made, which needs root, or a process cannot be started.
    pub(crate) fn start(processes: usize) -> Result<Self> {
        Self::with(processes, &Limits { weight: Some(WEIGHT), ..Limits::default() }, &[])
    }

    /// The same at the lowest priority, in the group of the lab itself.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(crate) fn polite(processes: usize) -> Result<Self> {
        Self::with(processes, &Limits::default(), &["nice", "-n", "19"])
    }

    fn with(processes: usize, limits: &Limits, by: &[&str]) -> Result<Self> {
        let groups = Groups::plan(&format!("{PREFIX}{}", std::process::id()), limits)?;
        remove_left(&groups);
        groups.create(limits)?;
        let mut neighbour = Self { processes: Vec::new(), groups };
        for _ in 0..processes {
            let mut command = Command::new("setpriv");
            // The kernel ends it with this thread, whatever ends that.
            command
                .args(["--pdeathsig", "KILL", "sh", "-c", BIRTH, "sh"])
                .args(neighbour.groups.doors())
                .arg("--")
                .args(by)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            neighbour.processes.push(command.spawn().map_err(Error::file("run", "setpriv".as_ref()))?);
        }
        Ok(neighbour)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _gone = process.kill();
            let _status = process.wait();
        }
        // One that cannot be removed now is removed by the next neighbour.
        let _removed = self.groups.remove();
    }
}

/// Removes the groups that killed labs left: their processes ended with them.
fn remove_left(groups: &Groups) {
    let Some(above) = groups.first().and_then(Path::parent) else { return };
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            let _removed = fs::remove_dir(entry.path());
        }
    }
}
