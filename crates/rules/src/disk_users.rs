//! The disk that the server most likely waits for, how busy it is, and how much of what it does is the server's.
//!
//! In: the counters of the host's disks and of the server's process. No reading says on which disk the server's files are: it is the
//! one that does as much as the server asks for and is busy, where but one does as much.

use spindoctor_model::host::{DiskStat, ProcessStat};
use spindoctor_model::window::Change;
use spindoctor_model::{Evidence, Remedy, Window, number};

/// A disk with an I/O under way for such a share of the time has hardly any left. Chosen: `iostat` of disks that their users called
/// full shows 90 to 100 %.
const BUSY: f64 = 0.8;

/// The part of what the server read and wrote that its disk has done at least. Some of what is written to the page cache reaches the
/// disk after the window. Chosen.
const DONE: f64 = 0.5;

/// Disks that lie upon one another (a volume, what it is made of) do the same but for so much. Chosen.
const SAME: f64 = 1.25;

/// Below this part the server is the smaller user of a disk.
const HALF: f64 = 0.5;

/// What a file system may write for each block that a small sync has: ext4's journal adds a descriptor, an inode, a bitmap and a commit
/// block to the block itself (Documentation/filesystems/ext4/journal.rst), and one more for luck. They are not counted as the
/// server's.
const JOURNAL: f64 = 6.0;

/// A program that is no client and has so many CPUs may be who writes: what watches a host has less. Chosen.
const WRITER_CPUS: f64 = 0.05;

/// Part of a disk's I/Os, from which on a kind of them is shown. Chosen.
const SHOWN: f64 = 0.05;

/// What is read and written in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bytes {
    read: f64,
    written: f64,
}

impl Bytes {
    fn sum(self) -> f64 {
        self.read + self.written
    }

    fn of_server(change: &Change<'_, ProcessStat>) -> Option<Self> {
        let per_s =
            |first: Option<u64>, last: Option<u64>| Some(last?.checked_sub(first?)? as f64 / change.seconds);
        let Change { first, last, .. } = change;
        Some(Self {
            read: per_s(first.read_bytes, last.read_bytes)?,
            written: per_s(first.written_bytes, last.written_bytes)?,
        })
    }
}

/// A disk that is busy, and what the server has of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BusyDisk {
    /// `sdb`.
    pub(crate) name: String,
    /// Share of the time in which an I/O was under way.
    busy_ratio: f64,
    /// I/Os under way, on average.
    under_way: f64,
    reads_per_s: f64,
    writes_per_s: f64,
    /// Milliseconds of one read, and of one write, where there are some.
    read_ms: Option<f64>,
    write_ms: Option<f64>,
    bytes: Bytes,
    of_server: Bytes,
    /// The folder of the server's that is there.
    folder: Option<String>,
    /// A program beside the server is at work that is none of its clients.
    beside_another: bool,
}

impl BusyDisk {
    /// The only one on which so many I/Os can have been under way on average; None where there is none, or which it is cannot be said.
    pub(crate) fn from_window(window: &Window, least_under_way: f64) -> Option<Self> {
        let disks = window.change(|sample| &sample.host.disks)?;
        let of_server = Bytes::of_server(&window.change(|sample| &sample.host.process)?)?;
        let is_part = |disk: &DiskStat| disks.last.iter().any(|whole| is_part_of(&disk.name, &whole.name));
        let between = |last: &DiskStat| {
            let first = disks.first.iter().find(|first| first.name == last.name)?;
            Self::between(first, last, disks.seconds, of_server)
        };
        // One that is quick may be the server's, beside a busy one that is not.
        let can_be_it = |disk: &Self| {
            disk.bytes.sum() > 0.0
                && disk.bytes.read >= DONE * of_server.read
                && disk.bytes.written >= DONE * of_server.written
        };
        let candidates: Vec<Self> = disks
            .last
            .iter()
            .filter(|disk| !is_part(disk) && !is_in_memory(&disk.name))
            .filter_map(between)
            .filter(can_be_it)
            .collect();
        let most = candidates.iter().max_by(|a, b| a.under_way.total_cmp(&b.under_way))?;
        let is_same = |other: &Self| {
            let (less, more) =
                (other.bytes.sum().min(most.bytes.sum()), other.bytes.sum().max(most.bytes.sum()));
            more <= SAME * less
        };
        let is_it =
            most.busy_ratio >= BUSY && most.under_way >= least_under_way && candidates.iter().all(is_same);
        is_it.then(|| Self {
            folder: data_folder(window).map(str::to_owned),
            beside_another: is_beside_another(window),
            ..most.clone()
        })
    }

    /// The same where the server writes to another folder than that of its data.
    pub(crate) fn below(self, folder: Option<&str>) -> Self {
        Self { folder: folder.map(str::to_owned), ..self }
    }

    /// What it did from one reading to another; None where a counter went back.
    fn between(first: &DiskStat, last: &DiskStat, seconds: f64, of_server: Bytes) -> Option<Self> {
        let grown = |count: fn(&DiskStat) -> u64| Some(count(last).checked_sub(count(first))? as f64);
        let (reads, writes) = (grown(|disk| disk.reads)?, grown(|disk| disk.writes)?);
        let (read_us, write_us) = (grown(|disk| disk.read_us)?, grown(|disk| disk.write_us)?);
        let ms = |us: f64, count: f64| {
            (count > 0.0 && count >= SHOWN * (reads + writes)).then(|| us / 1e3 / count)
        };
        Some(Self {
            name: last.name.clone(),
            busy_ratio: (grown(|disk| disk.busy_us)? / 1e6 / seconds).min(1.0),
            under_way: (read_us + write_us) / 1e6 / seconds,
            reads_per_s: reads / seconds,
            writes_per_s: writes / seconds,
            read_ms: ms(read_us, reads),
            write_ms: ms(write_us, writes),
            bytes: Bytes {
                read: grown(|disk| disk.read_bytes)? / seconds,
                written: grown(|disk| disk.written_bytes)? / seconds,
            },
            of_server,
            folder: None,
            beside_another: false,
        })
    }

    /// The share of what it does that is not the server's, 0 to 1, where that is most of it.
    pub(crate) fn of_others(&self) -> Option<f64> {
        let all = self.bytes.sum();
        let surely = self.read_by_others() + (self.bytes.written - JOURNAL * self.of_server.written).max(0.0);
        (all > 0.0 && surely >= HALF * all).then(|| (1.0 - self.of_server.sum() / all).clamp(0.0, 1.0))
    }

    fn read_by_others(&self) -> f64 {
        (self.bytes.read - self.of_server.read).max(0.0)
    }

    /// The same where it may stand in a headline: what is written may be the server's own, from before the window,
    /// unless a program is there that may have written it. Who reads does so now.
    fn of_known_others(&self) -> Option<f64> {
        self.of_others().filter(|_| self.beside_another || self.read_by_others() >= HALF * self.bytes.sum())
    }

    /// For the end of a headline: that others have most of the disk; else nothing.
    pub(crate) fn in_headline(&self) -> String {
        self.of_known_others().map_or_else(String::new, |share| {
            format!(
                ", and most likely others have {} of what disk {} does",
                number::whole_percent(share),
                self.name
            )
        })
    }

    /// For the end of a `why`: which disk it is, and what it does.
    pub(crate) fn in_words(&self) -> String {
        let folder = self.folder.as_ref().map_or_else(String::new, |folder| format!(" (below {folder})"));
        let kinds = [("read", self.reads_per_s, self.read_ms), ("write", self.writes_per_s, self.write_ms)];
        let takes = kinds.into_iter().filter_map(|(kind, per_s, ms)| {
            let (per_s, ms) = (number::whole(per_s), number::plain(ms?));
            Some(format!(", {per_s} {kind}s a second of {ms} ms each"))
        });
        let others = self.of_others().map_or_else(String::new, |_| {
            format!(
                " Of {} that it reads and writes in a second the server has asked for {}: the rest is somebody else's, or was written \
                 to the page cache before and comes to the disk now.",
                number::bytes(self.bytes.sum()),
                number::bytes(self.of_server.sum())
            )
        });
        format!(
            " The disk is most likely {}{folder}: it is busy {} of the time{}.{others}",
            self.name,
            number::whole_percent(self.busy_ratio),
            takes.collect::<String>()
        )
    }

    /// Its readings.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let source = "/proc/diskstats";
        let ms = |reading: &str, ms: Option<f64>| ms.map(|ms| Evidence::new(reading, ms, "ms", source));
        let readings = [
            Some(Evidence::new("the disk, most likely", self.name.clone(), "", source)),
            Some(Evidence::new("time it is busy", self.busy_ratio, "ratio", source)),
            Some(Evidence::new("its I/Os", self.reads_per_s + self.writes_per_s, "1/s", source)),
            ms("one read takes", self.read_ms),
            ms("one write takes", self.write_ms),
            Some(Evidence::new("it reads and writes", self.bytes.sum(), "bytes/s", source)),
            Some(Evidence::new("of that the server", self.of_server.sum(), "bytes/s", "/proc/PID/io")),
        ];
        readings.into_iter().flatten().collect()
    }

    /// What finds and bounds those who have most of it.
    pub(crate) fn remedies(&self) -> Vec<Remedy> {
        let Some(share) = self.of_known_others() else { return Vec::new() };
        let name = &self.name;
        let find = Remedy {
            statement: format!(
                "On the server's host: iotop -oP, or pidstat -d 1, says who else reads and writes on {name}"
            ),
            why: format!(
                "{} of what it does is most likely not the server's: that is gone when its owner is moved, stopped or bounded. What \
                 kworker and jbd2 threads write they write for others.",
                number::whole_percent(share)
            ),
            dynamic: true,
            ..Remedy::default()
        };
        let bound = Remedy {
            statement: format!(
                "Bound it: systemctl set-property --runtime UNIT IOReadBandwidthMax=\"/dev/{name} 4M\" \
                 IOWriteBandwidthMax=\"/dev/{name} 4M\" (io.max of its control group), or ionice -c 3 -p PID where the disk's scheduler \
                 is BFQ"
            ),
            why: "The server then has the rest of the disk, and no setting of it need change.".into(),
            dynamic: true,
            risk: "That program takes longer; a backup or a log that must keep up may not.".into(),
            undo: "systemctl set-property --runtime UNIT IOReadBandwidthMax= IOWriteBandwidthMax=; ionice -c 2 -n 4 -p PID".into(),
        };
        vec![find, bound]
    }
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

/// True where the host's list of programs has one that is no client of the server and may be who writes.
fn is_beside_another(window: &Window) -> bool {
    window.latest(|sample| &sample.host.other_programs).is_some_and(|found| {
        found.programs.iter().any(|one| one.is_client == Some(false) && one.cpus >= WRITER_CPUS)
    })
}

/// True for `sda1` of `sda`, and `nvme0n1p2` of `nvme0n1`: a part of a disk is no disk beside it.
fn is_part_of(name: &str, disk: &str) -> bool {
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

#[cfg(test)]
pub(crate) mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::host::OtherProgram;

    use super::*;
    use crate::testing::{Build, answer};

    const MB: f64 = 1e6;

    /// A disk that is busy all the time: name, MB that it reads and writes a second, in I/Os of 16 KB of 20 ms each.
    fn busy(name: &str, read: f64, written: f64, at_s: f64) -> DiskStat {
        let count = |mb: f64| (mb * MB * at_s / 16_384.0) as u64;
        DiskStat {
            name: name.into(),
            reads: count(read),
            read_bytes: (read * MB * at_s) as u64,
            read_us: count(read) * 20_000,
            writes: count(written),
            written_bytes: (written * MB * at_s) as u64,
            write_us: count(written) * 20_000,
            busy_us: (at_s * 1e6) as u64,
            ..DiskStat::default()
        }
    }

    /// A server that reads and writes so many MB a second, and disks that do so many.
    pub(crate) fn disks(build: Build, server: (f64, f64), disks: &[(&'static str, f64, f64)]) -> Build {
        build.variable("datadir", "/srv/db/").each(|at_s, _, host| {
            let busy = |&(name, read, written): &(&str, f64, f64)| busy(name, read, written, at_s);
            host.disks = answer(at_s, disks.iter().map(busy).collect());
            if let Reading::Available { value: process, .. } = &mut host.process {
                process.read_bytes = Some((server.0 * MB * at_s) as u64);
                process.written_bytes = Some((server.1 * MB * at_s) as u64);
            }
        })
    }

    /// What copies files beside the server.
    pub(crate) fn beside_a_copy(build: Build) -> Build {
        let copy =
            OtherProgram { name: "cp".into(), cpus: 0.2, is_client: Some(false), ..OtherProgram::default() };
        build.other_programs(&[copy])
    }

    fn found(server: (f64, f64), of_disks: &[(&'static str, f64, f64)]) -> Option<BusyDisk> {
        BusyDisk::from_window(&disks(Build::busy("8.0.36"), server, of_disks).window(), 1.0)
    }

    #[test]
    fn who_has_less_than_half_of_its_disk_reads_so_with_how_to_find_the_others() {
        let disk = found((2.8, 0.0), &[("sdb", 6.5, 0.0), ("sdb1", 6.5, 0.0)]).unwrap();
        assert_eq!(disk.in_headline(), ", and most likely others have 57 % of what disk sdb does");
        let words = disk.in_words();
        assert!(words.contains("most likely sdb (below /srv/db/): it is busy 100 % of the time"), "{words}");
        assert!(words.contains("397 reads a second of 20 ms each"), "{words}");
        assert!(disk.remedies()[0].statement.contains("iotop -oP"));
        assert!(disk.evidence().iter().any(|one| one.unit == "ms"));
    }

    #[test]
    fn its_own_disk_is_the_servers_and_a_journal_is_no_other_program() {
        let own = found((6.0, 0.0), &[("sdb", 6.5, 0.0)]).unwrap();
        assert_eq!((own.of_others(), own.in_headline().as_str(), own.remedies().len()), (None, "", 0));
        // Small syncs, and the journal's blocks beside them.
        let journal = found((0.0, 0.4), &[("sdb", 0.0, 1.8)]).unwrap();
        assert_eq!(journal.of_others(), None);
        let copied = found((0.0, 1.3), &[("sdb", 0.0, 25.0)]).unwrap();
        assert!(copied.of_others().is_some_and(|share| share > 0.9));
    }

    /// They may be its own, from before the window.
    #[test]
    fn writes_are_said_to_be_of_others_in_a_headline_where_a_program_is_seen_that_may_write() {
        let written = |build: Build| {
            let window = disks(build, (0.0, 1.3), &[("sdb", 0.0, 25.0)]).window();
            BusyDisk::from_window(&window, 1.0).unwrap()
        };
        let own = written(Build::busy("8.0.36"));
        assert_eq!((own.in_headline().as_str(), own.remedies().len()), ("", 0));
        assert!(own.in_words().contains("or was written to the page cache before"), "{}", own.in_words());
        let copied = written(beside_a_copy(Build::busy("8.0.36")));
        assert!(copied.in_headline().contains("others have 95 %"), "{}", copied.in_headline());
        assert_eq!(copied.remedies().len(), 2);
    }

    #[test]
    fn a_quick_disk_that_may_be_the_servers_leaves_it_open_whether_a_busy_one_is() {
        let of_disks: &[(&'static str, f64, f64)] = &[("sda", 0.0, 1.5), ("sdb", 0.0, 25.0)];
        let build = disks(Build::busy("8.0.36"), (0.0, 1.3), of_disks).each(|_, _, host| {
            let Reading::Available { value: disks, .. } = &mut host.disks else { panic!() };
            disks[0].busy_us /= 10;
            disks[0].write_us /= 10;
        });
        assert_eq!(BusyDisk::from_window(&build.window(), 1.0), None);
    }

    #[test]
    fn the_folder_of_the_data_is_not_named_where_the_logs_are_elsewhere() {
        let of = |place: &str| {
            let build =
                Build::busy("8.0.36").variable("datadir", "/srv/db/").variable("log_bin_basename", place);
            data_folder(&build.window()).map(str::to_owned)
        };
        assert_eq!(of("/srv/db/binlog").as_deref(), Some("/srv/db/"));
        assert_eq!(of("/logs/binlog"), None);
    }

    #[test]
    fn which_disk_it_is_is_not_guessed_at_where_two_could_be() {
        assert_eq!(found((2.8, 0.0), &[("sda", 60.0, 0.0), ("sdb", 6.5, 0.0)]), None);
        // A volume and the disk that it lies upon.
        assert!(found((2.8, 0.0), &[("sda", 6.6, 0.0), ("dm-0", 6.5, 0.0)]).is_some());
        // It does less than the server asks for.
        assert_eq!(found((9.0, 0.0), &[("sdb", 3.0, 0.0)]), None);
    }

    #[test]
    fn parts_of_disks_are_distinguished_from_disks_with_numbers() {
        for (name, disk, is_part) in [
            ("sda1", "sda", true),
            ("nvme0n1p2", "nvme0n1", true),
            ("loop10", "loop1", false),
            ("sdaa", "sda", false),
            ("sda", "sda", false),
        ] {
            assert_eq!(is_part_of(name, disk), is_part, "{name} of {disk}");
        }
    }
}
