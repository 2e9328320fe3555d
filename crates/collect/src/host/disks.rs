//! `/proc/diskstats`: counters of every block device and partition.

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
pub fn parse_diskstats(text: &str) -> Vec<DiskStat> {
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
