//! `/proc/diskstats`: counters of every block device and partition.

use std::collections::HashMap;

use spindoctor_model::Unavailable;
use spindoctor_model::host::DiskStat;

use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// Block devices.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/diskstats",
    help: "how many reads, writes and flushes the disks did, and how long they took",
    cost: "one small file",
    needs: "",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.disks = reading(collect(target), now),
};

/// Bytes in a sector of this file, whatever the device's own sectors are
/// (Linux, Documentation/admin-guide/iostats.rst; include/linux/blk_types.h, SECTOR_SIZE).
const SECTOR_BYTES: u64 = 512;

fn collect(target: &Target) -> Result<Vec<DiskStat>, Unavailable> {
    let path = target.proc.join("diskstats");
    let text = kernel_file::read(&path)?;
    let disks = parse_diskstats(&text);
    if disks.is_empty() && !text.trim().is_empty() {
        return Err(kernel_file::unknown_form(&path));
    }
    Ok(disks)
}

/// Reads `/proc/diskstats` (iostats.rst); lines without times are left out.
///
/// ```text
///    8       0 sda 25354637 34367663 1003346126 18492372 28444756 11134226 505697032 63877960 0 9653880 82621804
/// ```
///
/// After major, minor and name: reads, reads merged, sectors, ms; the same of writes; in flight,
/// ms busy, ms weighted; from 4.18 four of discards, from 5.5 flushes and their ms. Partitions
/// before 2.6.25 had four numbers and no times.
///
/// Where NVMe has several controllers for a disk, or may have, `nvme0n1` is what file systems lie on, and `nvme0c0n1` is a path to it
/// (drivers/nvme/host/multipath.c). Before Linux 6.4 the kernel counts on the paths alone, and the disk's own line has zeros:
///
/// ```text
///    0       0 nvme0c0n1 900100 10 14401600 45005 120500 3 1928000 8200 4 52000 61300
///  259       1 nvme0n1 0 0 0 0 0 0 0 0 0 0 0
/// ```
///
/// Its counters are then those of its paths. From 6.4 on it has its own, and its paths count the same I/O again: they are left out.
pub fn parse_diskstats(text: &str) -> Vec<DiskStat> {
    let (mut disks, mut of_paths) = (Vec::new(), HashMap::<String, DiskStat>::new());
    for disk in lines(text) {
        match disk_of_path(&disk.name) {
            Some(name) => {
                let of_disk = of_paths.remove(&name).map_or_else(|| disk.clone(), |all| both(all, &disk));
                of_paths.insert(name, of_disk);
            }
            None => disks.push(disk),
        }
    }
    for disk in &mut disks {
        if let Some(paths) = of_paths.remove(&disk.name).filter(|_| disk.reads == 0 && disk.writes == 0) {
            *disk = DiskStat { name: std::mem::take(&mut disk.name), ..paths };
        }
    }
    // A path without its disk: no line is lost.
    let mut alone: Vec<DiskStat> = of_paths.into_values().collect();
    alone.sort_by(|a, b| a.name.cmp(&b.name));
    disks.extend(alone);
    disks
}

/// The disk that a path of NVMe's leads to: `nvme0n1` of `nvme0c33n1`, of subsystem 0, controller 33 and namespace 1.
fn disk_of_path(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let are_numbers = [subsystem, controller, namespace].iter().all(is_number);
    are_numbers.then(|| format!("nvme{subsystem}n{namespace}"))
}

/// What two paths did. One of them was busy for as long as the busier one at least: at the same time or one after the other, no line says.
fn both(one: DiskStat, other: &DiskStat) -> DiskStat {
    let sum = |count: fn(&DiskStat) -> u64| count(&one).saturating_add(count(other));
    let sum_of_some = |count: fn(&DiskStat) -> Option<u64>| Some(count(&one)?.saturating_add(count(other)?));
    DiskStat {
        reads: sum(|disk| disk.reads),
        read_bytes: sum(|disk| disk.read_bytes),
        read_us: sum(|disk| disk.read_us),
        writes: sum(|disk| disk.writes),
        written_bytes: sum(|disk| disk.written_bytes),
        write_us: sum(|disk| disk.write_us),
        in_flight: sum(|disk| disk.in_flight),
        busy_us: one.busy_us.max(other.busy_us),
        flushes: sum_of_some(|disk| disk.flushes),
        flush_us: sum_of_some(|disk| disk.flush_us),
        name: one.name,
    }
}

/// The file's lines, each as it stands.
fn lines(text: &str) -> Vec<DiskStat> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let _numbers = (words.next()?.parse::<u32>().ok()?, words.next()?.parse::<u32>().ok()?);
            let name = words.next()?.to_owned();
            let counters: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let [
                reads,
                _,
                read_sectors,
                read_ms,
                writes,
                _,
                written_sectors,
                write_ms,
                in_flight,
                busy_ms,
                _,
                rest @ ..,
            ] = counters.as_slice()
            else {
                return None;
            };
            let us = |ms: u64| ms.saturating_mul(1_000);
            Some(DiskStat {
                name,
                reads: *reads,
                read_bytes: read_sectors.saturating_mul(SECTOR_BYTES),
                read_us: us(*read_ms),
                writes: *writes,
                written_bytes: written_sectors.saturating_mul(SECTOR_BYTES),
                write_us: us(*write_ms),
                in_flight: *in_flight,
                busy_us: us(*busy_ms),
                flushes: rest.get(4).copied(),
                flush_us: rest.get(5).copied().map(us),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, part};
    use super::*;

    fn disk<'a>(disks: &'a [DiskStat], name: &str) -> &'a DiskStat {
        disks.iter().find(|disk| disk.name == name).unwrap()
    }

    #[test]
    fn all_generations_of_the_file_are_read() {
        let of = |kernel| parse_diskstats(&part("written/host-disks-of-three-kernels", kernel));
        let disks = of("linux-2.6.32");
        let sda = disk(&disks, "sda");
        assert_eq!((sda.reads, sda.read_bytes, sda.read_us), (25_001, 1_003_008 * 512, 18_100_000));
        assert_eq!((sda.writes, sda.written_bytes), (28_400, 505_600 * 512));
        assert_eq!((sda.write_us, sda.busy_us, sda.flushes), (63_800_000, 96_500_000, None));
        // With discards, and with flushes.
        assert_eq!(disk(&of("linux-4.19"), "sdb").flushes, None);
        let disks = of("linux-5.15");
        let nvme = disk(&disks, "nvme0n1");
        assert_eq!((nvme.in_flight, nvme.flushes, nvme.flush_us), (4, Some(7_777), Some(4_321_000)));
        assert_eq!(disks.len(), 2);
    }

    /// Reads, writes and milliseconds busy.
    fn line(name: &str, reads: u64, writes: u64, busy_ms: u64) -> String {
        format!(
            "259 0 {name} {reads} 0 {reads} {reads} {writes} 0 {writes} {writes} 1 {busy_ms} 9 0 0 0 0 7 70\n"
        )
    }

    #[test]
    fn a_disk_whose_paths_count_in_its_place_has_their_counters() {
        let of = |text: String| {
            let disks = parse_diskstats(&text);
            let counts = |disk: DiskStat| (disk.name, disk.reads, disk.writes, disk.busy_us, disk.flushes);
            disks.into_iter().map(counts).collect::<Vec<_>>()
        };
        let named = |name: &str, reads: u64, writes: u64, busy_us: u64, flushes: u64| {
            (name.to_owned(), reads, writes, busy_us, Some(flushes))
        };
        let one = line("nvme0c0n1", 50, 40, 90) + &line("nvme0n1", 0, 0, 0) + &line("sda", 3, 4, 5);
        assert_eq!(of(one), [named("nvme0n1", 50, 40, 90_000, 7), named("sda", 3, 4, 5_000, 7)]);
        let two = line("nvme2c0n1", 50, 40, 90) + &line("nvme2n1", 0, 0, 0) + &line("nvme2c1n1", 1, 2, 10);
        assert_eq!(of(two), [named("nvme2n1", 51, 42, 90_000, 14)]);
        // A newer kernel counts on both.
        let newer = line("nvme0c0n1", 50, 40, 90) + &line("nvme0n1", 49, 40, 88);
        assert_eq!(of(newer), [named("nvme0n1", 49, 40, 88_000, 7)]);
        // Another namespace's.
        let other = line("nvme0c0n2", 50, 40, 90) + &line("nvme0n1", 0, 0, 0);
        assert_eq!(of(other), [named("nvme0n1", 0, 0, 0, 7), named("nvme0c0n2", 50, 40, 90_000, 7)]);
    }

    #[test]
    fn a_path_is_distinguished_from_a_disk_by_its_name() {
        assert_eq!(disk_of_path("nvme0c33n1").as_deref(), Some("nvme0n1"));
        for name in ["nvme0n1", "nvme0n1p2", "nvme0c1", "nvmecn", "sdc", "nvme0c1n1p1"] {
            assert_eq!(disk_of_path(name), None, "{name}");
        }
    }

    #[test]
    fn partitions_of_very_old_kernels_have_no_times_and_are_left_out() {
        let disks = parse_diskstats(&part("written/host-old-kernel", "proc/diskstats"));
        let names: Vec<_> = disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["hda", "sda"]);
    }

    #[test]
    fn counters_of_a_captured_host_grow() {
        for (server, host) in spindoctor_corpus::captures("host-of-a-throttled-server").unwrap() {
            let at = |name| parse_diskstats(&host.part(name).unwrap().text);
            let (before, after) = (at("proc/diskstats"), at("later/proc/diskstats"));
            assert!(!before.is_empty() && before.len() == after.len(), "{server}");
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.name, after.name, "{server}");
                assert!(
                    after.reads >= before.reads && after.written_bytes >= before.written_bytes,
                    "{server}"
                );
            }
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_diskstats);
        never_panics(|text| parse_diskstats(&format!("8 0 sda {text}")));
    }
}
