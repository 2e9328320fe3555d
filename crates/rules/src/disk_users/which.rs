//! Which disk is the server's: the one that its folders lie on, where that is known; else the only one that can be.

use spindoctor_model::Window;
use spindoctor_model::host::DiskStat;
use spindoctor_model::page_cache::FileKind;

use super::{BUSY, BusyDisk, Bytes};

/// The part of what the server read and wrote that its disk has done at least. Some of what is written to the page cache reaches the
/// disk after the window. Chosen.
const DONE: f64 = 0.5;

/// Disks that lie upon one another (a volume, what it is made of; a loop device, the disk with its file) do the same but for so much.
/// Chosen.
const SAME: f64 = 1.25;

/// The disks below the server's folders of these kinds, each with the first of these folders; None where one of them is unknown.
pub(crate) fn known_disks<'a>(window: &'a Window, holds: &[FileKind]) -> Option<Vec<(&'a str, &'a str)>> {
    let data = window.latest(|sample| &sample.host.data_directory)?;
    let mut disks: Vec<(&str, &str)> = Vec::new();
    for folder in data.folders.iter().filter(|folder| holds.contains(&folder.holds)) {
        let disk = folder.disk.as_deref()?;
        // Relative names count from the data directory, and most are `./`.
        let path = if folder.path.starts_with('/') { folder.path.as_str() } else { data.path.as_str() };
        if !disks.iter().any(|(known, _)| *known == disk) {
            disks.push((disk, path));
        }
    }
    (!disks.is_empty()).then_some(disks)
}

/// The folder of the server's data, where its logs are in it too: with logs elsewhere it is open which disk is whose.
pub(crate) fn data_folder(window: &Window) -> Option<&str> {
    let folder = window.variable("datadir").filter(|folder| !folder.is_empty())?;
    let is_elsewhere = |name: &str| {
        window.variable(name).is_some_and(|place| place.starts_with('/') && !place.starts_with(folder))
    };
    let logs = ["log_bin_basename", "innodb_log_group_home_dir"];
    (!logs.into_iter().any(is_elsewhere)).then_some(folder)
}

/// The folder on a disk that was inferred.
pub(super) fn likely_folder<'a>(window: &'a Window, holds: &[FileKind]) -> Option<&'a str> {
    if holds.contains(&FileKind::Temporary) { window.variable("tmpdir") } else { data_folder(window) }
}

/// Disks that are no parts of others, and not in memory.
pub(super) fn whole(disks: &[DiskStat]) -> impl Iterator<Item = &DiskStat> {
    let is_part = move |disk: &DiskStat| disks.iter().any(|whole| is_part_of(&disk.name, &whole.name));
    disks.iter().filter(move |disk| !is_part(disk) && !is_in_memory(&disk.name))
}

/// The busiest of these disks.
pub(super) fn busiest<'a>(disks: impl Iterator<Item = &'a BusyDisk>) -> Option<&'a BusyDisk> {
    disks.max_by(|a, b| a.under_way().total_cmp(&b.under_way()))
}

/// The busiest one that does what the server asks for, where but one does: no reading says on which disk the server's files are.
pub(super) fn inferred(disks: &[BusyDisk], of_server: Bytes) -> Option<&BusyDisk> {
    // One that is quick may be the server's, beside a busy one that is not.
    let can_be_it = |disk: &&BusyDisk| {
        disk.bytes.sum() > 0.0
            && disk.bytes.read >= DONE * of_server.read
            && disk.bytes.written >= DONE * of_server.written
    };
    let candidates = || disks.iter().filter(can_be_it);
    let most = busiest(candidates())?;
    let is_same = |other: &BusyDisk| {
        let (less, more) = (other.bytes.sum().min(most.bytes.sum()), other.bytes.sum().max(most.bytes.sum()));
        more <= SAME * less
    };
    (most.busy_ratio >= BUSY && candidates().all(is_same)).then_some(most)
}

/// True for `sda1` of `sda`, and `nvme0n1p2` of `nvme0n1`: a part of a disk is no disk beside it.
pub(super) fn is_part_of(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let number = match disk.ends_with(|c: char| c.is_ascii_digit()) {
        true => rest.strip_prefix('p'),
        false => Some(rest),
    };
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// True for what the kernel keeps in memory.
fn is_in_memory(name: &str) -> bool {
    name.starts_with("ram") || name.starts_with("zram")
}
