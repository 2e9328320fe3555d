//! `/proc/PID/cwd`: the server's data directory, the room on its file system, and the disk below it.
//!
//! MySQL and MariaDB change into their data directory at start and stay there.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use spindoctor_model::Unavailable;
use spindoctor_model::host::{DataDirectory, FolderDisk};
use spindoctor_model::page_cache::FileKind;
use spindoctor_stacks::target_file::Root;

use super::source::{HostSource, Target, reading};
use super::{block_device, kernel_file};
use crate::pace::Pace;
use crate::source::Cadence;

/// The data directory.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/cwd",
    help: "room on the file system of the data directory, and the disk below it",
    cost: "one link, one statfs and one stat",
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
    let path = path.to_string_lossy().into_owned();
    let device = std::fs::metadata(&link).ok().map(|folder| folder.dev());
    Ok(DataDirectory {
        folders: vec![on_device(target, FileKind::Data, &path, device)],
        path,
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        undo_free_bytes: None,
        log_free_bytes: None,
        temporary_free_bytes: None,
        temporary_total_bytes: None,
    })
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What the server may still write, bytes.
    pub free_bytes: u64,
    /// Its size, bytes.
    pub total_bytes: u64,
}

/// The room where a folder lies that the server names: as the server sees it, relative to its data directory.
pub fn room_of(target: &Target, folder: &str) -> Option<Room> {
    let room = rustix::fs::fstatvfs(seen_by(target, folder)?).ok()?;
    Some(Room {
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
    })
}

/// Free bytes there.
pub fn free_bytes_of(target: &Target, folder: &str) -> Option<u64> {
    room_of(target, folder).map(|room| room.free_bytes)
}

/// On which disk a folder lies that the server names: as the server sees it, relative to its data directory.
pub fn disk_of(target: &Target, holds: FileKind, folder: &str) -> FolderDisk {
    let found = seen_by(target, folder).and_then(|folder| File::from(folder).metadata().ok());
    on_device(target, holds, folder, found.map(|folder| folder.dev()))
}

fn on_device(target: &Target, holds: FileKind, path: &str, device: Option<u64>) -> FolderDisk {
    let disk = match device {
        Some(device) => {
            block_device::whole_disk(target, rustix::fs::major(device), rustix::fs::minor(device))
        }
        None => Err(Unavailable::because("the folder cannot be looked at")),
    };
    let unknown = disk.as_ref().err().map(|why| why.because.clone());
    FolderDisk { holds, path: path.to_owned(), disk: disk.ok(), unknown }
}

/// Bytes on disk of the undo tablespaces in a folder that the server names: the implicit ones (`undo_001`) and those that were
/// made (`*.ibu`), whose names InnoDB wants so. None where the folder cannot be read.
///
/// Cost: one look at the folder, which is the data directory unless `innodb_undo_directory` is set: an entry for each schema.
pub fn undo_bytes_in(target: &Target, folder: &str) -> Option<u64> {
    let folder = seen_by(target, folder)?;
    let entries = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
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

/// A folder as the server sees it: absolute names, and links on the way, count from the root of the server's own file system;
/// relative names from its data directory.
fn seen_by(target: &Target, folder: &str) -> Option<OwnedFd> {
    let path = Path::new(folder);
    let is_above = path.components().any(|part| part == Component::ParentDir);
    let found = if path.is_absolute() {
        Root::at(&target.process("root")).ok()?.find(path)
    } else if is_above {
        let data = std::fs::read_link(target.process("cwd")).ok()?;
        Root::at(&target.process("root")).ok()?.find(&data.join(path))
    } else {
        Root::at(&target.process("cwd")).ok()?.find(path)
    };
    found.ok()
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
        let room = room_of(&here, &folder.path().to_string_lossy()).unwrap();
        assert!(room.total_bytes >= room.free_bytes && room.total_bytes > 0, "{room:?}");
        assert!(free_bytes_of(&here, "./src").is_some() && free_bytes_of(&here, "/nowhere/at/all").is_none());
        let path = folder.path().to_string_lossy().into_owned();
        assert_eq!(undo_bytes_in(&here, &path), Some(0));
        for name in ["undo_001", "undo002", "x.ibu", "undo_log.txt", "ibdata1", "undo_0001"] {
            std::fs::write(folder.path().join(name), [1; 8192]).unwrap();
        }
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("y.ibu")).unwrap();
        assert_eq!(undo_bytes_in(&here, &path), Some(3 * 8192));
        assert_eq!(undo_bytes_in(&here, "/nowhere/at/all"), None);
        assert!(free_bytes_of(&here, "../collect/src").is_some());
        let root = tempfile::tempdir().unwrap();
        let nobody = super::super::testing::target(root.path());
        assert!(collect(&nobody).unwrap_err().because.starts_with("there is no "));
    }

    #[test]
    fn a_folder_is_on_the_disk_of_its_file_system_and_where_that_has_none_it_says_so() {
        let host = tempfile::tempdir().unwrap();
        let data = host.path().join("own/data");
        std::fs::create_dir_all(data.join("redo")).unwrap();
        std::fs::create_dir_all(host.path().join("proc/7")).unwrap();
        std::os::unix::fs::symlink(host.path().join("own"), host.path().join("proc/7/root")).unwrap();
        std::os::unix::fs::symlink(&data, host.path().join("proc/7/cwd")).unwrap();
        let server = Target::under(7, host.path().join("proc"), host.path().join("sys"));
        let of_data = || collect(&server).unwrap().folders.remove(0);
        assert_eq!((of_data().holds, of_data().disk), (FileKind::Data, None));
        assert_eq!(of_data().unknown.as_deref(), Some("its files lie on no disk of this host"));
        // The file system that the test stands on becomes a partition of a disk.
        let device = std::fs::metadata(&data).unwrap().dev();
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        super::super::block_device::tests::device(host.path(), &number, "pci/block/sdb/sdb1", &["partition"]);
        assert_eq!((of_data().disk.as_deref(), of_data().unknown), (Some("sdb"), None));
        for folder in ["./redo", "/data/redo"] {
            let redo = disk_of(&server, FileKind::Redo, folder);
            assert_eq!((redo.path.as_str(), redo.disk.as_deref()), (folder, Some("sdb")));
        }
        let nowhere = disk_of(&server, FileKind::Binlog, "/nowhere");
        assert_eq!(
            (nowhere.disk, nowhere.unknown.as_deref()),
            (None, Some("the folder cannot be looked at"))
        );
    }

    #[test]
    fn a_link_of_the_server_leads_to_where_the_server_would_go() {
        let host = tempfile::tempdir().unwrap();
        let own = host.path().join("own");
        std::fs::create_dir_all(own.join("data/undo")).unwrap();
        std::fs::write(own.join("data/undo/undo_001"), [1; 8192]).unwrap();
        std::os::unix::fs::symlink("/data/undo", own.join("undo")).unwrap();
        // There is a /proc here, and none below the server's root.
        std::os::unix::fs::symlink("/proc", own.join("lost")).unwrap();
        std::fs::create_dir_all(host.path().join("proc/7")).unwrap();
        std::os::unix::fs::symlink(&own, host.path().join("proc/7/root")).unwrap();
        std::os::unix::fs::symlink(own.join("data"), host.path().join("proc/7/cwd")).unwrap();
        let server = Target::under(7, host.path().join("proc"), host.path().join("sys"));
        for folder in ["/undo", "/data/undo/", "undo", "./undo"] {
            assert_eq!(undo_bytes_in(&server, folder), Some(8192), "{folder}");
            assert!(free_bytes_of(&server, folder).is_some(), "{folder}");
        }
        assert_eq!((undo_bytes_in(&server, "/lost"), free_bytes_of(&server, "/lost")), (None, None));
    }
}
