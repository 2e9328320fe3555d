//! `/sys/dev/block/MAJOR:MINOR`: which disk a file system lies on, and how many requests that disk handles at once. It is not a source
//! of a sample, because it does not change: sources that know a file or a folder ask it for their disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use spindoctor_model::Unavailable;

use super::Target;
use super::kernel_file;

/// A disk, as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// `sda`, as `/proc/diskstats` names it.
    pub name: String,
    /// True where the kernel takes it for a disk that turns.
    pub rotational: bool,
    /// Requests that the kernel queues for it at once.
    pub queued_requests: u64,
}

/// The disk below the server's data directory, in which its process stands.
///
/// # Errors
/// The directory is not on a disk of this host (memory, network, overlay), or the kernel does not say.
pub fn of_data(target: &Target) -> Result<BlockDevice, Unavailable> {
    let link = target.process("cwd");
    let device = std::fs::metadata(&link).map_err(|error| kernel_file::because(&link, &error))?.dev();
    of_number(target, rustix::fs::major(device), rustix::fs::minor(device))
}

fn of_number(target: &Target, major: u32, minor: u32) -> Result<BlockDevice, Unavailable> {
    let disk = folder_of_disk(target, major, minor)?;
    let number = |file: &str| -> Result<u64, Unavailable> {
        let path = disk.join("queue").join(file);
        kernel_file::read(&path)?.trim().parse().map_err(|_| kernel_file::unknown_form(&path))
    };
    Ok(BlockDevice {
        name: name_of(&disk),
        rotational: number("rotational")? == 1,
        queued_requests: number("nr_requests")?,
    })
}

/// The name of the whole disk whose counters in `/proc/diskstats` are those of a device that a file system is on.
///
/// # Errors
/// There is no such disk: the file system has no block device of this host (memory, network, overlay; btrfs and ZFS, which number
/// their devices themselves), or its device lies on others, where the same I/O is counted again (a loop device, LVM, RAID,
/// encryption).
pub(super) fn whole_disk(target: &Target, major: u32, minor: u32) -> Result<String, Unavailable> {
    let disk = folder_of_disk(target, major, minor)?;
    let name = name_of(&disk);
    let lies_on = |what: &str| Err(Unavailable::because(format!("{name} is {what}")));
    // Of a loop device that has a file, and of a disk that is made of others, the kernel says so (Documentation/ABI/testing/sysfs-block,
    // sysfs-block-loop).
    if disk.join("loop").is_dir() {
        return lies_on("a loop device: its file lies on another disk");
    }
    if std::fs::read_dir(disk.join("slaves")).is_ok_and(|mut below| below.next().is_some()) {
        return lies_on("a volume on other disks (LVM, RAID, encryption)");
    }
    if name.starts_with("ram") || name.starts_with("zram") {
        return lies_on("memory");
    }
    Ok(name)
}

/// The folder of the disk that a device is, or is a part of.
fn folder_of_disk(target: &Target, major: u32, minor: u32) -> Result<PathBuf, Unavailable> {
    let link = target.sys.join(format!("dev/block/{major}:{minor}"));
    let Ok(folder) = std::fs::canonicalize(&link) else {
        return Err(Unavailable::because("its files lie on no disk of this host"));
    };
    // A partition has no queue of its own: that of its disk is in the folder above.
    if folder.join("queue").is_dir() {
        return Ok(folder);
    }
    Ok(folder.parent().map(Path::to_owned).unwrap_or(folder))
}

/// The disk's name: a `/` in it is a `!` in the name of its folder.
fn name_of(disk: &Path) -> String {
    disk.file_name().map(|name| name.to_string_lossy().replace('!', "/")).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::testing::{put, target};
    use super::*;

    /// Makes a device below a root, with the files that its folder has.
    pub(crate) fn device(root: &Path, number: &str, place: &str, files: &[&str]) {
        let folder = root.join("sys/devices").join(place);
        std::fs::create_dir_all(&folder).unwrap();
        for file in files {
            put(&folder, file, "1\n");
        }
        std::fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        std::os::unix::fs::symlink(folder, root.join("sys/dev/block").join(number)).unwrap();
    }

    #[test]
    fn a_partition_is_shown_as_the_disk_that_it_is_of() {
        let root = tempfile::tempdir().unwrap();
        device(root.path(), "8:0", "pci/block/sda", &["queue/rotational", "queue/nr_requests"]);
        device(root.path(), "8:1", "pci/block/sda/sda1", &["partition"]);
        let sda = BlockDevice { name: "sda".into(), rotational: true, queued_requests: 1 };
        assert_eq!(of_number(&target(root.path()), 8, 0), Ok(sda.clone()));
        assert_eq!(of_number(&target(root.path()), 8, 1), Ok(sda));
        assert_eq!(whole_disk(&target(root.path()), 8, 1), Ok("sda".into()));
        let nowhere = of_number(&target(root.path()), 0, 27).unwrap_err();
        assert_eq!(nowhere.because, "its files lie on no disk of this host");
        assert_eq!(whole_disk(&target(root.path()), 0, 27), Err(nowhere));
    }

    #[test]
    fn what_lies_on_other_disks_is_no_disk_whose_counters_are_the_servers() {
        let root = tempfile::tempdir().unwrap();
        let queue = "queue/rotational";
        device(root.path(), "7:0", "virtual/block/loop0", &[queue, "loop/backing_file"]);
        device(root.path(), "7:1", "virtual/block/loop1", &[queue]);
        device(root.path(), "253:0", "virtual/block/dm-0", &[queue, "slaves/sda2"]);
        device(root.path(), "252:0", "virtual/block/zram0", &[queue]);
        device(root.path(), "104:0", "pci/block/cciss!c0d0", &[queue, "slaves/.keep"]);
        std::fs::remove_file(root.path().join("sys/devices/pci/block/cciss!c0d0/slaves/.keep")).unwrap();
        let disk = |major, minor| whole_disk(&target(root.path()), major, minor);
        assert!(disk(7, 0).unwrap_err().because.starts_with("loop0 is a loop device"));
        assert!(disk(253, 0).unwrap_err().because.starts_with("dm-0 is a volume on other disks"));
        assert_eq!(disk(252, 0).unwrap_err().because, "zram0 is memory");
        assert_eq!(disk(104, 0).as_deref(), Ok("cciss/c0d0"));
    }

    #[test]
    fn a_process_that_is_not_there_is_a_reason() {
        let root = tempfile::tempdir().unwrap();
        assert!(of_data(&target(root.path())).unwrap_err().because.starts_with("there is no "));
        // Wherever the test stands, it does not panic.
        let _here = of_data(&Target::live(std::process::id()));
    }
}
