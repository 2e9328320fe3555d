//! `/proc/diskstats`: counters of every block device and partition.

use spindoctor_model::host::DiskStat;
use spindoctor_model::{HostSample, Unavailable};

use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::source::{Answer, Cadence};

/// Block devices.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/diskstats",
    help: "how many reads, writes and flushes the disks did, and how long they took",
    cost: "one small file",
    needs: "",
    cadence: Cadence::EverySample,
    read,
};

/// Bytes in a sector of this file, whatever the device's own sectors are
/// (Linux, Documentation/admin-guide/iostats.rst; include/linux/blk_types.h, SECTOR_SIZE).
const SECTOR_BYTES: u64 = 512;

fn read(target: &Target, sample: &mut HostSample, now: &dyn Fn() -> Answer) {
    sample.disks = reading(collect(target), now);
}

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
    use super::super::testing::{FIXTURES, never_panics};
    use super::*;

    fn fixture(name: &str) -> String {
        std::fs::read_to_string(format!("{FIXTURES}/{name}")).unwrap()
    }

    fn disk<'a>(disks: &'a [DiskStat], name: &str) -> &'a DiskStat {
        disks.iter().find(|disk| disk.name == name).unwrap()
    }

    #[test]
    fn all_generations_of_the_file_are_read() {
        let disks = parse_diskstats(&fixture("procfs/prometheus-procfs/proc/diskstats"));
        assert_eq!(disks.len(), 52);
        let sda = disk(&disks, "sda");
        assert_eq!(
            (sda.reads, sda.read_bytes, sda.read_us),
            (25_354_637, 1_003_346_126 * 512, 18_492_372_000)
        );
        assert_eq!((sda.writes, sda.written_bytes), (28_444_756, 505_697_032 * 512));
        assert_eq!((sda.write_us, sda.busy_us, sda.flushes), (63_877_960_000, 9_653_880_000, None));
        // With discards, and with flushes.
        assert_eq!(disk(&disks, "sdb").flushes, None);
        let sdc = disk(&disks, "sdc");
        assert_eq!((sdc.flushes, sdc.flush_us), (Some(127), Some(182_000)));
    }

    #[test]
    fn partitions_of_very_old_kernels_have_no_times_and_are_left_out() {
        let disks = parse_diskstats(&fixture("diskstats/pmp-diskstats-003.txt"));
        let names: Vec<_> =
            disks.iter().map(|disk| disk.name.as_str()).filter(|name| name.starts_with("sd")).collect();
        assert_eq!(names, ["sda", "sdb"]);
    }

    /// Percona Toolkit's pt-diskstats is the second opinion: its rates over the same samples,
    /// printed with one decimal.
    #[test]
    fn the_rates_are_those_of_pt_diskstats() {
        for name in ["diskstats-001", "diskstats-005"] {
            let samples = samples(&fixture(&format!("diskstats/pt-{name}.txt")));
            let expected = fixture(&format!("diskstats/expected/all_{name}.txt"));
            let mut compared = 0;
            for line in expected.lines().filter(|line| !line.contains("#ts")) {
                let cells: Vec<&str> = line.split_whitespace().collect();
                let at: f64 = cells[0].parse().unwrap();
                let (start, first) = &samples[0];
                let end = samples.iter().position(|(ts, _)| ((ts - start) - at).abs() < 0.06).unwrap();
                let (before_ts, before) = &samples[end - 1];
                let (after_ts, after) = &samples[end];
                assert_eq!(first.len(), after.len());
                let (before, after) = (disk(before, cells[1]), disk(after, cells[1]));
                let seconds = after_ts - before_ts;
                let of = |of: fn(&DiskStat) -> u64| (of(after) - of(before)) as f64;
                // rd_mb_s and wr_mb_s are MiB; rd_cnc is time of reads over time.
                let columns = [
                    (2, of(|disk| disk.reads) / seconds),
                    (4, of(|disk| disk.read_bytes) / seconds / 1_048_576.0),
                    (6, of(|disk| disk.read_us) / seconds / 1e6),
                    (8, of(|disk| disk.writes) / seconds),
                    (10, of(|disk| disk.written_bytes) / seconds / 1_048_576.0),
                    (12, of(|disk| disk.write_us) / seconds / 1e6),
                    (15, after.in_flight as f64),
                ];
                for (column, ours) in columns {
                    let theirs: f64 = cells[column].parse().unwrap();
                    assert!((ours - theirs).abs() <= 0.051, "{name} {line}: column {column}: {ours} here");
                    compared += 1;
                }
            }
            assert!(compared > 60, "{name}: only {compared} numbers were compared");
        }
    }

    /// The collected file of pt-diskstats: samples, each under a line `TS seconds`.
    fn samples(text: &str) -> Vec<(f64, Vec<DiskStat>)> {
        text.split("TS ")
            .skip(1)
            .map(|sample| {
                let (ts, disks) = sample.split_once('\n').unwrap();
                (ts.split(' ').next().unwrap().parse().unwrap(), parse_diskstats(disks))
            })
            .collect()
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(parse_diskstats);
        never_panics(|text| parse_diskstats(&format!("8 0 sda {text}")));
    }
}
