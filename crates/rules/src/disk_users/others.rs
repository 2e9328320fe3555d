//! Who else uses the server's disk, by what programs read and write, and what of the rest may be the server's own after all.

use spindoctor_model::host::DiskUser;
use spindoctor_model::{Evidence, Window, number};

use super::Bytes;

/// A program that is no client and has so many CPUs may be who writes: what watches a host has less. Chosen.
const WRITER_CPUS: f64 = 0.05;

/// Programs that are shown.
const SHOWN: usize = 3;

/// A program beside the server that reads and writes, on this disk for all that is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Other {
    /// `2 processes of rsync in /system.slice/backup.service`.
    pub(super) description: String,
    pub(super) pid: u32,
    /// Its unit, where its control group is one of systemd's and the server is in another: what bounds the unit must not bound the server.
    pub(super) unit: Option<String>,
    pub(super) bytes: Bytes,
    /// All its files are on this disk; where that is not so, on which they are is unknown, or it has files on others too.
    pub(super) is_there: bool,
}

/// What is known of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Others {
    /// Those that do most first.
    pub(super) programs: Vec<Other>,
    /// Processes whose I/O was not read; None where that of none was.
    pub(super) unread: Option<u64>,
    /// A program beside the server that is none of its clients has CPUs.
    pub(super) runs: bool,
    /// Bytes a second that may have been written to the page cache before the window, at most; None where that cannot be said.
    pub(super) from_before: Option<f64>,
}

impl Others {
    pub(super) fn from_window(window: &Window, disk: &str) -> Self {
        let counted = window.latest(|sample| &sample.host.disk_users).filter(|found| found.over_s > 0.0);
        let of_server = window.latest(|sample| &sample.host.effective_cpus).map(|cpus| cpus.cgroup.as_str());
        let other = |program: &DiskUser| {
            let is_apart = of_server.is_some_and(|group| !is_within(group, &program.cgroup));
            let may_be = program.disks.as_ref().is_none_or(|disks| disks.iter().any(|one| one == disk));
            may_be.then(|| Other {
                description: description(program),
                pid: program.pid,
                unit: unit(&program.cgroup).filter(|_| is_apart),
                bytes: Bytes { read: program.read_bytes_per_s, written: program.written_bytes_per_s },
                is_there: program.disks.as_ref().is_some_and(|disks| disks.len() == 1),
            })
        };
        Self {
            programs: counted.into_iter().flat_map(|found| &found.programs).filter_map(other).collect(),
            unread: counted.map(|found| found.unread),
            runs: runs(window),
            from_before: written_before(window),
        }
    }

    /// Bytes a second of those that are there, and of those that may be.
    pub(super) fn seen(&self) -> (f64, f64) {
        let there = self.programs.iter().filter(|one| one.is_there);
        (there.map(|one| one.bytes.sum()).sum(), self.programs.iter().map(|one| one.bytes.sum()).sum())
    }

    /// True where a program may have done it, as far as was read: by its I/O, or where that of some was not read, by its CPUs.
    pub(super) fn may_have_done(&self, bytes: f64) -> bool {
        self.seen().1 >= bytes || self.unread != Some(0) && self.runs
    }

    pub(super) fn evidence(&self) -> impl Iterator<Item = Evidence> {
        self.programs.iter().take(SHOWN).map(|one| {
            let place = if one.is_there { "" } else { ", on any disk" };
            let reading = format!("{} (process {}) reads and writes{place}", one.description, one.pid);
            Evidence::new(&reading, one.bytes.sum(), "bytes/s", "/proc/*/io")
        })
    }

    /// For the end of a sentence on what is not the server's: that not all programs were read.
    pub(super) fn unread_in_words(&self) -> String {
        match self.unread {
            Some(unread) if unread > 0 && self.programs.is_empty() => format!(
                " What {} other processes read and write could not be read: run as root to see whose it is.",
                number::whole(unread as f64)
            ),
            _ => String::new(),
        }
    }
}

/// `2 processes of rsync in /system.slice/backup.service`.
fn description(program: &DiskUser) -> String {
    let place = if program.cgroup.is_empty() { String::new() } else { format!(" in {}", program.cgroup) };
    let count = match program.processes {
        0 | 1 => String::new(),
        many => format!("{many} processes of "),
    };
    format!("{count}{}{place}", program.name)
}

/// True for a control group that is another one or below it.
fn is_within(group: &str, other: &str) -> bool {
    group.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The unit of systemd's that a control group is: a name that may stand in a command.
pub(super) fn unit(cgroup: &str) -> Option<String> {
    let name = cgroup.rsplit('/').next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '_' | '-' | ':');
    let is_unit = name.ends_with(".service") || name.ends_with(".scope");
    (is_unit && !name.starts_with('-') && name.chars().all(is_plain)).then(|| name.to_owned())
}

/// True where the host's list of programs has one that is no client of the server and may be who writes.
fn runs(window: &Window) -> bool {
    window.latest(|sample| &sample.host.other_programs).is_some_and(|found| {
        found.programs.iter().any(|one| one.is_client == Some(false) && one.cpus >= WRITER_CPUS)
    })
}

/// A process counts what it writes when that goes to the page cache, a disk when it comes from there: what was written before the window
/// is no more than what was not on storage yet in it.
fn written_before(window: &Window) -> Option<f64> {
    let memory = window.change(|sample| &sample.host.memory)?;
    // Memory is swapped out by the kernel, and counts for no process.
    if memory.first.swap_out_pages != memory.last.swap_out_pages {
        return None;
    }
    let readings = window.all(|sample| &sample.host.memory);
    let unwritten: Option<Vec<u64>> = readings.iter().map(|(_, memory)| memory.unwritten_bytes).collect();
    Some(unwritten?.into_iter().max()? as f64 / memory.seconds)
}
