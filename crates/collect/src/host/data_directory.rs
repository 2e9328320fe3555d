//! `/proc/PID/cwd`: the server's data directory, and the room on its file system.
//!
//! MySQL and MariaDB change into their data directory at start and stay there.

use spindoctor_model::Unavailable;
use spindoctor_model::host::DataDirectory;

use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// The data directory.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/cwd",
    help: "room on the file system of the data directory",
    cost: "one link and one statfs",
    needs: "root or the server's user",
    cadence: Cadence::Ends,
    pace: Pace::host(60, 600),
    read: |target, sample, now| sample.data_directory = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<DataDirectory, Unavailable> {
    let link = target.process("cwd");
    let path = std::fs::read_link(&link).map_err(|error| kernel_file::because(&link, &error))?;
    // Through the link, and not by its text: the server may live in a file system of its own.
    let room = rustix::fs::statvfs(&link).map_err(|error| kernel_file::because(&link, &error.into()))?;
    Ok(DataDirectory {
        path: path.to_string_lossy().into_owned(),
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        undo_free_bytes: None,
        log_free_bytes: None,
        temporary_free_bytes: None,
    })
}

/// Free bytes where a folder lies that the server names: as the server sees it, relative to its data directory.
pub fn free_bytes_of(target: &Target, folder: &str) -> Option<u64> {
    // `root` leads into the server's own file system; a relative name is one below its data directory.
    let seen = match folder.strip_prefix('/') {
        Some(below_root) => target.process("root").join(below_root),
        None => target.process("cwd").join(folder),
    };
    let room = rustix::fs::statvfs(&seen).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_where_a_process_stands_is_read_and_a_process_that_is_not_there_is_said() {
        let own = collect(&Target::live(std::process::id())).unwrap();
        assert_eq!(own.path, std::env::current_dir().unwrap().to_string_lossy());
        assert!(own.total_bytes >= own.free_bytes && own.total_bytes > 0, "{own:?}");
        let here = Target::live(std::process::id());
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        assert!(free_bytes_of(&here, &folder.path().to_string_lossy()).is_some());
        assert!(free_bytes_of(&here, "./src").is_some() && free_bytes_of(&here, "/nowhere/at/all").is_none());
        let root = tempfile::tempdir().unwrap();
        let nobody = super::super::testing::target(root.path());
        assert!(collect(&nobody).unwrap_err().because.starts_with("there is no "));
    }
}
