//! Swap space in a file, for the memory of one server.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cgroup::Groups;
use crate::command::run;
use crate::error::{Error, Result};
use crate::home::Home;

/// What the file's name begins with; the id of the lab's process follows.
const PREFIX: &str = "swap-";

/// Swap space for the processes of a control group. Dropping it takes their limit away first, so that what is in swap fits into
/// memory again.
#[derive(Debug)]
pub(crate) struct Swap {
    file: PathBuf,
    groups: Groups,
}

impl Swap {
    /// Makes a file of that size and gives it to the kernel.
    ///
    /// # Errors
    /// The file cannot be made, or the kernel does not take it: that needs root, and a file system on a disk.
    pub(crate) fn start(home: &Home, groups: Groups, bytes: u64) -> Result<Self> {
        remove_left(home.root());
        let swap = Self { file: home.root().join(format!("{PREFIX}{}", std::process::id())), groups };
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&swap.file);
        let file = file.map_err(Error::file("create", &swap.file))?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|error| Error::file("make room for", &swap.file)(error.into()))?;
        run(Command::new("mkswap").arg(&swap.file))?;
        run(Command::new("swapon").arg(&swap.file))?;
        Ok(swap)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _all = self.groups.limit_memory(None);
        // What cannot be taken away now is taken away by the next one.
        take_away(&self.file);
    }
}

fn take_away(file: &Path) {
    let _is_off = run(Command::new("swapoff").arg(file));
    let _removed = fs::remove_file(file);
}

/// Takes away what killed labs left.
fn remove_left(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            take_away(&entry.path());
        }
    }
}
