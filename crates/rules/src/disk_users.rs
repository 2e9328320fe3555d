//! The disk that the server waits for, how busy it is, how much of what it does is the server's, and who else uses it.
//!
//! In: the counters of the host's disks, of the server's process and of other programs, and the disks below the server's folders. Where
//! these are unknown (a volume, a loop device, an overlay), the disk is the one that does as much as the server asks for and is busy,
//! where but one does as much. What a disk does beyond what the server's process has read and written is of others: no culprit need be
//! found for that.

mod others;
mod which;

use spindoctor_model::host::{DiskStat, ProcessStat};
use spindoctor_model::page_cache::FileKind;
use spindoctor_model::window::Change;
use spindoctor_model::{Evidence, Remedy, Window, number};

use others::{Other, Others};
pub(crate) use which::{data_folder, known_disks};

/// A disk with an I/O under way for such a share of the time has hardly any left. Chosen: `iostat` of disks that their users called
/// full shows 90 to 100 %.
const BUSY: f64 = 0.8;

/// Below this part the server is the smaller user of a disk.
const HALF: f64 = 0.5;

/// What a file system may write for each block that a small sync has: ext4's journal adds a descriptor, an inode, a bitmap and a commit
/// block to the block itself (Documentation/filesystems/ext4/journal.rst), and one more for luck. They are not counted as the
/// server's.
const JOURNAL: f64 = 6.0;

/// Part of what a disk does now that others may read, and may write: the server then has half of it at least. Chosen.
const LEFT_TO_OTHERS: f64 = 0.25;

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
    /// Reads and writes under way, on average.
    reads_under_way: f64,
    writes_under_way: f64,
    reads_per_s: f64,
    writes_per_s: f64,
    /// Milliseconds of one read, and of one write, where there are some.
    read_ms: Option<f64>,
    write_ms: Option<f64>,
    bytes: Bytes,
    of_server: Bytes,
    /// The folder of the server's that is there.
    folder: Option<String>,
    /// That folder's file system says that it is this disk.
    is_known: bool,
    others: Others,
}

impl BusyDisk {
    /// The disk below the server's folders of these kinds, where so many I/Os were under way on it on average; where their disks are
    /// unknown, the only one on which so many can have been. None where there is none, or which it is cannot be said.
    pub(crate) fn from_window(window: &Window, least_under_way: f64, holds: &[FileKind]) -> Option<Self> {
        let disks = window.change(|sample| &sample.host.disks)?;
        let of_server = Bytes::of_server(&window.change(|sample| &sample.host.process)?)?;
        let between = |last: &DiskStat| {
            let first = disks.first.iter().find(|first| first.name == last.name)?;
            Self::between(first, last, disks.seconds, of_server)
        };
        let all: Vec<Self> = which::whole(disks.last).filter_map(between).collect();
        let known = known_disks(window, holds);
        let folder_on = |disk: &Self| {
            let (_, folder) = known.as_ref()?.iter().find(|(name, _)| *name == disk.name)?;
            Some(*folder)
        };
        let found = match &known {
            Some(_) => which::busiest(all.iter().filter(|disk| folder_on(disk).is_some()))?,
            None => which::inferred(&all, of_server)?,
        };
        let folder = folder_on(found).or_else(|| which::likely_folder(window, holds));
        (found.busy_ratio >= BUSY && found.under_way() >= least_under_way).then(|| Self {
            folder: folder.map(str::to_owned),
            is_known: known.is_some(),
            others: Others::from_window(window, &found.name),
            ..found.clone()
        })
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
            reads_under_way: read_us / 1e6 / seconds,
            writes_under_way: write_us / 1e6 / seconds,
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
            is_known: false,
            others: Others::default(),
        })
    }

    /// I/Os under way, on average.
    fn under_way(&self) -> f64 {
        self.reads_under_way + self.writes_under_way
    }

    /// What it does beyond what the server asks for.
    fn rest(&self) -> f64 {
        (self.bytes.sum() - self.of_server.sum()).max(0.0)
    }

    /// The share of what it does that is not the server's, 0 to 1, where that is most of it.
    pub(crate) fn of_others(&self) -> Option<f64> {
        let all = self.bytes.sum();
        let (seen, _) = self.others.seen();
        let surely = (self.read_by_others() + self.written_by_others(0.0)).max(seen.min(self.rest()));
        (all > 0.0 && surely >= HALF * all).then(|| (self.rest() / all).clamp(0.0, 1.0))
    }

    fn read_by_others(&self) -> f64 {
        (self.bytes.read - self.of_server.read).max(0.0)
    }

    /// Without what a file system adds to the server's writes, and without so much from before the window.
    fn written_by_others(&self, from_before: f64) -> f64 {
        (self.bytes.written - JOURNAL * self.of_server.written - from_before).max(0.0)
    }

    /// True where others have most of it now, known or not: what was written may be the server's own, from before the window, and
    /// there was not so much. Who reads does so now.
    fn is_surely_shared(&self) -> bool {
        let written = self.others.from_before.map_or(0.0, |before| self.written_by_others(before));
        self.read_by_others() + written >= HALF * self.bytes.sum()
    }

    /// The share of others where it may stand in a headline: it is sure, or a program is there that may have done it.
    fn of_known_others(&self) -> Option<f64> {
        self.of_others().filter(|_| self.is_surely_shared() || self.others.may_have_done(HALF * self.rest()))
    }

    /// The program that has most of what is not the server's.
    fn culprit(&self) -> Option<&Other> {
        self.others.programs.first().filter(|one| one.bytes.sum() >= HALF * self.rest())
    }

    /// Share of the time of its I/Os that is the server's, by the bytes of each kind; None where there were none.
    fn time_of_server(&self) -> Option<f64> {
        let part = |server: f64, all: f64| if all > 0.0 { (server / all).min(1.0) } else { 0.0 };
        let reads = self.reads_under_way * part(self.of_server.read, self.bytes.read);
        let writes = self.writes_under_way * part(self.of_server.written, self.bytes.written);
        (self.under_way() > 0.0).then(|| (reads + writes) / self.under_way())
    }

    /// For the end of a headline: that others have most of the disk, and who; else nothing.
    pub(crate) fn in_headline(&self) -> String {
        let Some(share) = self.of_known_others() else { return String::new() };
        let likely = if self.is_known && self.is_surely_shared() { "" } else { "most likely " };
        let who = self.culprit().map_or_else(String::new, |one| {
            let likely = if one.is_there { "most of it" } else { "most likely" };
            format!(", {likely} {} (process {})", one.description, one.pid)
        });
        format!(
            ", and {likely}others have {} of what disk {} does{who}",
            number::whole_percent(share),
            self.name
        )
    }

    /// For the end of a `why`: which disk it is, and what it does.
    pub(crate) fn in_words(&self) -> String {
        let folder = self.folder.as_ref().map_or_else(String::new, |folder| format!(" (below {folder})"));
        let likely = if self.is_known { "" } else { "most likely " };
        let kinds = [("read", self.reads_per_s, self.read_ms), ("write", self.writes_per_s, self.write_ms)];
        let takes = kinds.into_iter().filter_map(|(kind, per_s, ms)| {
            let (per_s, ms) = (number::whole(per_s), number::plain(ms?));
            Some(format!(", {per_s} {kind}s a second of {ms} ms each"))
        });
        let others = self.of_others().map_or_else(String::new, |_| {
            let whose = match self.is_surely_shared() {
                true => "the rest is somebody else's",
                false => {
                    "the rest is somebody else's, or was written to the page cache before and comes to the disk now"
                }
            };
            format!(
                " Of {} that it reads and writes in a second the server has asked for {}: {whose}.{}",
                number::bytes(self.bytes.sum()),
                number::bytes(self.of_server.sum()),
                self.others.unread_in_words()
            )
        });
        format!(
            " The disk is {likely}{}{folder}: it is busy {} of the time{}.{others}",
            self.name,
            number::whole_percent(self.busy_ratio),
            takes.collect::<String>()
        )
    }

    /// Its readings.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        let source = "/proc/diskstats";
        let ms = |reading: &str, ms: Option<f64>| ms.map(|ms| Evidence::new(reading, ms, "ms", source));
        let name = if self.is_known { "the disk" } else { "the disk, most likely" };
        let of_time = |ratio: f64| {
            Evidence::new("the server's part of the time of its I/Os, by bytes", ratio, "ratio", "computed")
        };
        let readings = [
            Some(Evidence::new(name, self.name.clone(), "", source)),
            Some(Evidence::new("time it is busy", self.busy_ratio, "ratio", source)),
            Some(Evidence::new("its I/Os", self.reads_per_s + self.writes_per_s, "1/s", source)),
            ms("one read takes", self.read_ms),
            ms("one write takes", self.write_ms),
            Some(Evidence::new("it reads and writes", self.bytes.sum(), "bytes/s", source)),
            Some(Evidence::new("of that the server", self.of_server.sum(), "bytes/s", "/proc/PID/io")),
            self.time_of_server().map(of_time),
        ];
        let others = self.of_others().is_some().then(|| self.others.evidence());
        readings.into_iter().flatten().chain(others.into_iter().flatten()).collect()
    }

    /// What finds and bounds those who have most of it.
    pub(crate) fn remedies(&self) -> Vec<Remedy> {
        let Some(share) = self.of_known_others() else { return Vec::new() };
        let name = &self.name;
        let culprit = self.culprit();
        let find = Remedy {
            statement: match culprit {
                Some(one) => format!(
                    "On the server's host: look at {} (process {}), which reads and writes {} a second, and move it to another disk, stop \
                     it or bound it; iotop -oP shows it",
                    one.description,
                    one.pid,
                    number::bytes(one.bytes.sum())
                ),
                None => format!(
                    "On the server's host: iotop -oP, or pidstat -d 1, says who else reads and writes on {name}"
                ),
            },
            why: format!(
                "{} of what it does is most likely not the server's: that is gone when its owner is moved, stopped or bounded. What \
                 kworker and jbd2 threads write they write for others.",
                number::whole_percent(share)
            ),
            dynamic: true,
            ..Remedy::default()
        };
        let unit = culprit.and_then(|one| one.unit.as_deref()).unwrap_or("UNIT");
        let pid = culprit.map_or_else(|| "PID".to_owned(), |one| one.pid.to_string());
        // systemd counts in thousands (systemd.resource-control(5)).
        let most = format!("{:.0}K", (LEFT_TO_OTHERS * self.bytes.sum() / 1e3).max(1.0));
        let bound = Remedy {
            statement: format!(
                "Bound it: systemctl set-property --runtime {unit} IOReadBandwidthMax=\"/dev/{name} {most}\" \
                 IOWriteBandwidthMax=\"/dev/{name} {most}\" (io.max of its control group), or ionice -c 3 -p {pid} where the disk's scheduler \
                 is BFQ"
            ),
            why: "That is a quarter of what the disk does now for reads, and one for writes: the server then has half of it at least, and no \
                  setting of it need change."
                .into(),
            dynamic: true,
            risk: "That program takes longer; a backup or a log that must keep up may not.".into(),
            undo: format!(
                "systemctl set-property --runtime {unit} IOReadBandwidthMax= IOWriteBandwidthMax=; ionice -c 2 -n 4 -p {pid}"
            ),
        };
        vec![find, bound]
    }
}

/// Where the server's files lie: what their disks did, and who else may have used them. Nothing where the disks are unknown.
pub(crate) fn evidence_of_known_disks(window: &Window) -> Vec<Evidence> {
    let (Some(known), Some(disks)) =
        (known_disks(window, FILES_OF_SERVER), window.change(|sample| &sample.host.disks))
    else {
        return Vec::new();
    };
    let busy_ratio = |name: &str| {
        let busy_us = |all: &[DiskStat]| Some(all.iter().find(|disk| disk.name == name)?.busy_us);
        Some(busy_us(disks.last)?.checked_sub(busy_us(disks.first)?)? as f64 / 1e6 / disks.seconds)
    };
    let of_disk = |(name, folder): (&str, &str)| {
        let reading = format!("time that {name}, below {folder}, is busy");
        let busy =
            busy_ratio(name).map(|ratio| Evidence::new(&reading, ratio.min(1.0), "ratio", "/proc/diskstats"));
        busy.into_iter().chain(Others::from_window(window, name).evidence().collect::<Vec<_>>())
    };
    let mut all: Vec<Evidence> = Vec::new();
    for one in known.into_iter().flat_map(of_disk) {
        // A program of which it is unknown where its files lie may be on each.
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// What sessions wait for: data and logs.
pub(crate) const FILES_OF_SERVER: &[FileKind] =
    &[FileKind::Data, FileKind::Undo, FileKind::Redo, FileKind::Binlog];

#[cfg(test)]
pub(crate) mod tests;
