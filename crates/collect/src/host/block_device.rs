//! `/sys/dev/block/MAJOR:MINOR/queue`: how many requests a disk handles at once. Callers compare it with the reads that
//! a server has pending; it is not a source of a sample, because it does not change.

use std::os::unix::fs::MetadataExt as _;

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
    let link = target.sys.join(format!("dev/block/{major}:{minor}"));
    let Ok(folder) = std::fs::canonicalize(&link) else {
        return Err(Unavailable::because("its files lie on no disk of this host"));
    };
    // A partition has no queue of its own: that of its disk is in the folder above.
    let disk =
        if folder.join("queue").is_dir() { folder.as_path() } else { folder.parent().unwrap_or(&folder) };
    let name = disk.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let number = |file: &str| -> Result<u64, Unavailable> {
        let path = disk.join("queue").join(file);
        kernel_file::read(&path)?.trim().parse().map_err(|_| kernel_file::unknown_form(&path))
    };
    Ok(BlockDevice { name, rotational: number("rotational")? == 1, queued_requests: number("nr_requests")? })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{put, target};
    use super::*;

    #[test]
    fn a_partition_is_shown_as_the_disk_that_it_is_of() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "sys/devices/pci/block/sda/queue/rotational", "1\n");
        put(root.path(), "sys/devices/pci/block/sda/queue/nr_requests", "64\n");
        put(root.path(), "sys/devices/pci/block/sda/sda1/partition", "1\n");
        put(root.path(), "sys/dev/block/readme", "");
        for (number, place) in [("8:0", "block/sda"), ("8:1", "block/sda/sda1")] {
            std::os::unix::fs::symlink(
                root.path().join("sys/devices/pci").join(place),
                root.path().join("sys/dev/block").join(number),
            )
            .unwrap();
        }
        let sda = BlockDevice { name: "sda".into(), rotational: true, queued_requests: 64 };
        assert_eq!(of_number(&target(root.path()), 8, 0), Ok(sda.clone()));
        assert_eq!(of_number(&target(root.path()), 8, 1), Ok(sda));
        let nowhere = of_number(&target(root.path()), 0, 27).unwrap_err();
        assert_eq!(nowhere.because, "its files lie on no disk of this host");
    }

    #[test]
    fn a_process_that_is_not_there_is_a_reason() {
        let root = tempfile::tempdir().unwrap();
        assert!(of_data(&target(root.path())).unwrap_err().because.starts_with("there is no "));
        // Wherever the test stands, it does not panic.
        let _here = of_data(&Target::live(std::process::id()));
    }
}
