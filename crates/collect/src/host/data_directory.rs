//! `/proc/PID/cwd`: the server's data directory, and the room on its file system.
//!
//! MySQL and MariaDB change into their data directory at start and stay there.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

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
    let room = rustix::fs::statvfs(seen_by(target, folder)).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Bytes on disk of the undo tablespaces in a folder that the server names: the implicit ones (`undo_001`) and those that were
/// made (`*.ibu`), whose names InnoDB wants so. None where the folder cannot be read.
///
/// Cost: one look at the folder, which is the data directory unless `innodb_undo_directory` is set: an entry for each schema.
pub fn undo_bytes_in(target: &Target, folder: &str) -> Option<u64> {
    let entries = std::fs::read_dir(seen_by(target, folder)).ok()?;
    let is_undo = |name: &str| {
        name.ends_with(".ibu")
            || name
                .strip_prefix("undo_")
                .or_else(|| name.strip_prefix("undo"))
                .is_some_and(|number| number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    // Not through links: the entries' own sizes, in blocks of 512 bytes whatever the file system's are (stat(2)).
    let bytes = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_undo))
        .filter_map(|entry| Some(entry.metadata().ok()?.blocks().saturating_mul(512)));
    Some(bytes.fold(0, u64::saturating_add))
}

/// `root` leads into the server's own file system; a relative name is one below its data directory.
fn seen_by(target: &Target, folder: &str) -> PathBuf {
    match folder.strip_prefix('/') {
        Some(below_root) => target.process("root").join(below_root),
        None => target.process("cwd").join(folder),
    }
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
        let path = folder.path().to_string_lossy().into_owned();
        assert_eq!(undo_bytes_in(&here, &path), Some(0));
        for name in ["undo_001", "undo002", "x.ibu", "undo_log.txt", "ibdata1", "undo_0001"] {
            std::fs::write(folder.path().join(name), [1; 8192]).unwrap();
        }
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("y.ibu")).unwrap();
        assert_eq!(undo_bytes_in(&here, &path), Some(3 * 8192));
        assert_eq!(undo_bytes_in(&here, "/nowhere/at/all"), None);
        let root = tempfile::tempdir().unwrap();
        let nobody = super::super::testing::target(root.path());
        assert!(collect(&nobody).unwrap_err().because.starts_with("there is no "));
    }
}
