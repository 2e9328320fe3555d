//! `/proc/*/io`: which other programs read and write most, and on which disks their files lie.
//!
//! What a process did counts for its parent once that has waited for it (`wait_task_zombie`, kernel/exit.c): of a script that starts one
//! `dd` after the other the script is seen. What began and ended unwaited for between two readings is not.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use spindoctor_model::Unavailable;
use spindoctor_model::host::{DiskUser, DiskUsers};

use super::other_programs::cgroup_of;
use super::process::{parse_io, parse_task_stat};
use super::source::{HostSource, Target, reading};
use super::{block_device, kernel_file};
use crate::pace::Pace;
use crate::source::Cadence;

/// What the other programs of the host read and write.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/*/io",
    help: "which other programs read and write most, and on which disks",
    cost: "one small file a process, and of the five that do most one for each open file; a tenth of a second of one CPU at most",
    needs: "root, for the processes of other users",
    cadence: Cadence::Ends,
    pace: Pace::never(),
    read: |target, sample, now| sample.disk_users = reading(collect(target), now),
};

/// Processes beyond these are not read.
const MOST_PROCESSES: usize = 20_000;
/// Nothing is read any more after so long: who else waits for this thread waits as long.
const LONGEST: Duration = Duration::from_millis(100);
/// The I/O of no process is read any more after so long: what is left is for the names and disks of those that did most. Chosen.
const LONGEST_COUNTING: Duration = Duration::from_millis(75);
/// Processes that may be refused before no more are asked for: who has no right to those has none to most others, and each refusal may be
/// a line of the host's audit log. Chosen.
const MOST_REFUSED: u64 = 32;
/// Processes of which more than their I/O is read, those that did most.
const MOST_LOOKED_AT: usize = 40;
/// Programs that are named.
const MOST_PROGRAMS: usize = 5;
/// Bytes a second below which a program is not named: what a disk of 100 I/Os a second does in four of them. Chosen.
const LEAST_BYTES_PER_S: f64 = 65_536.0;
/// Of a process with more open files it is not said on which disks they lie.
const MOST_FILES: usize = 256;
/// The first process: it waits for those that others left, and what they did in all their lives counts for it at once.
const INIT: u32 = 1;

/// What one reading found, for the next one to subtract.
#[derive(Debug)]
pub(super) struct Before {
    read: Instant,
    /// So far, by process id. Where an id has another process by now, what that did may count for less, and never for more.
    io: HashMap<u32, Bytes>,
    /// Processes that were there and not asked for.
    left_out: HashSet<u32>,
}

/// Bytes that a process had read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bytes {
    read: u64,
    written: u64,
}

impl Bytes {
    fn sum(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    fn and(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// What processes have read and written so far.
#[derive(Debug, Default)]
struct Counts {
    io: HashMap<u32, Bytes>,
    /// Processes that we have no right to look at.
    refused: u64,
    /// Processes that were not asked for.
    left_out: HashSet<u32>,
}

impl Counts {
    /// Of our own user's processes first, whose files we may read: refusals of others leave none of them out. And of the newest first,
    /// which have the highest numbers until these begin at the lowest again: what began of late is more often what a host is busy with
    /// than what has run for months.
    fn newest_first(
        mut pids: Vec<u32>,
        is_ours: impl Fn(u32) -> bool,
        read: impl Fn(u32) -> std::io::Result<Vec<u8>>,
        has_time: impl Fn() -> bool,
    ) -> Self {
        let mut counts = Self::default();
        pids.sort_by_cached_key(|&pid| (!is_ours(pid), std::cmp::Reverse(pid)));
        for pid in pids {
            if counts.io.len() >= MOST_PROCESSES || counts.refused >= MOST_REFUSED || !has_time() {
                counts.left_out.insert(pid);
                continue;
            }
            match read(pid) {
                Ok(text) => {
                    let counted = parse_io(&kernel_file::into_text(text));
                    if let (Some(read), Some(written)) = (counted.read_bytes, counted.written_bytes) {
                        counts.io.insert(pid, Bytes { read, written });
                    }
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => counts.refused += 1,
                // It ended since the folder was listed.
                Err(_) => {}
            }
        }
        counts
    }
}

/// The user whose process it is; None where it has ended. Of one that changed its user it is root (proc_pid_inode, fs/proc/base.c).
fn owner(target: &Target, pid: u32) -> Option<u32> {
    Some(std::fs::metadata(target.proc.join(pid.to_string())).ok()?.uid())
}

fn collect(target: &Target) -> Result<DiskUsers, Unavailable> {
    let begun = Instant::now();
    collect_while(target, |within| begun.elapsed() < within)
}

fn collect_while(target: &Target, has_time: impl Fn(Duration) -> bool) -> Result<DiskUsers, Unavailable> {
    let entries =
        std::fs::read_dir(&target.proc).map_err(|error| kernel_file::because(&target.proc, &error))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pids = pids.filter(|&pid| pid != target.pid && pid != INIT).collect();
    let read = |pid: u32| kernel_file::read_bytes(&target.proc.join(format!("{pid}/io")));
    let user = rustix::process::geteuid();
    let is_ours = |pid: u32| user.is_root() || owner(target, pid) == Some(user.as_raw());
    let Counts { io, refused, left_out } =
        Counts::newest_first(pids, is_ours, read, || has_time(LONGEST_COUNTING));
    if io.is_empty() && refused > 0 {
        return Err(kernel_file::no_right_to("read what other processes read and write"));
    }
    if io.is_empty() && left_out.is_empty() {
        return Err(Unavailable::because("the kernel does not count what processes read and write"));
    }
    let (read, unread) = (Instant::now(), refused + left_out.len() as u64);
    let now = Before { read, io: io.clone(), left_out: left_out.clone() };
    let Some(before) = target.disk_users_before(now) else {
        return Ok(DiskUsers { unread, ..DiskUsers::default() });
    };
    let over_s = read.duration_since(before.read).as_secs_f64().max(1e-3);
    // Who waits for a child that ended has from then on all that the child ever did (kernel/exit.c, wait_task_zombie): of that, what
    // it had done before is nobody's of this stretch. Which process waited is not known.
    let gone = before.io.iter().filter(|(pid, _)| !io.contains_key(pid) && !left_out.contains(pid));
    let gone = gone.fold(Bytes::default(), |all, (_, one)| all.and(*one));
    let did = io.into_iter().filter_map(|(pid, now)| {
        // One that began since counts from its birth; one that was left out before is left out.
        let is_new = !before.left_out.contains(&pid);
        let first = before.io.get(&pid).copied().or_else(|| is_new.then(Bytes::default))?;
        Some((pid, now.since(first).since(gone)))
    });
    let (programs, unnamed) = most(target, did.collect(), over_s, || has_time(LONGEST));
    Ok(DiskUsers { over_s, programs, unread: unread + unnamed })
}

/// The programs that did most, with what else is said of them; and of how many processes there was no time to see what they are.
fn most(
    target: &Target,
    mut processes: Vec<(u32, Bytes)>,
    over_s: f64,
    has_time: impl Fn() -> bool,
) -> (Vec<DiskUser>, u64) {
    processes.retain(|(_, did)| did.sum() > 0);
    processes.sort_by_key(|&(pid, did)| (std::cmp::Reverse(did.sum()), pid));
    let mut by_program: BTreeMap<(String, String), Vec<(u32, Bytes)>> = BTreeMap::new();
    let mut unnamed = 0;
    for (pid, did) in processes.into_iter().take(MOST_LOOKED_AT) {
        if !has_time() {
            unnamed += 1;
            continue;
        }
        let stat = kernel_file::read(&target.proc.join(format!("{pid}/stat"))).ok();
        let Some(stat) = stat.and_then(|text| parse_task_stat(&text)) else { continue };
        if !stat.is_of_kernel {
            by_program.entry((stat.name, cgroup_of(target, pid))).or_default().push((pid, did));
        }
    }
    let programs = by_program.into_iter().map(|((name, cgroup), of)| {
        let per_s =
            |bytes: fn(&Bytes) -> u64| of.iter().map(|(_, did)| bytes(did) as f64).sum::<f64>() / over_s;
        DiskUser {
            name,
            cgroup,
            pid: of.first().map_or(0, |&(pid, _)| pid),
            processes: of.len() as u64,
            read_bytes_per_s: per_s(|did| did.read),
            written_bytes_per_s: per_s(|did| did.written),
            disks: None,
        }
    });
    let all = |program: &DiskUser| program.read_bytes_per_s + program.written_bytes_per_s;
    let mut programs: Vec<_> = programs.filter(|program| all(program) >= LEAST_BYTES_PER_S).collect();
    programs.sort_by(|a, b| all(b).total_cmp(&all(a)));
    programs.truncate(MOST_PROGRAMS);
    for program in &mut programs {
        program.disks = disks_of(target, program.pid, &has_time);
    }
    (programs, unnamed)
}

/// The disks below the files that a process has open; None where that cannot be said, or there is no time to see all. No file is touched
/// for it: one on a network file system that does not answer would keep us waiting.
fn disks_of(target: &Target, pid: u32, has_time: impl Fn() -> bool) -> Option<Vec<String>> {
    let folder = target.proc.join(pid.to_string());
    let mounts = parse_mounts(&kernel_file::read(&folder.join("mountinfo")).ok()?);
    let entries = std::fs::read_dir(folder.join("fdinfo")).ok()?;
    let files: Vec<_> = entries.flatten().take(MOST_FILES + 1).collect();
    if files.len() > MOST_FILES {
        return None;
    }
    let mount_of = |file: &std::fs::DirEntry| parse_mount_id(&kernel_file::read(&file.path()).ok()?);
    // Pipes and sockets are on mounts that are in no list.
    let used: BTreeSet<u32> = files.iter().take_while(|_| has_time()).filter_map(mount_of).collect();
    if !has_time() {
        return None;
    }
    let mut disks = BTreeSet::new();
    for mount in used.iter().filter_map(|id| mounts.get(id)) {
        match mount.major {
            0 if mount.may_be_on_a_disk() => return None,
            0 => {}
            major => {
                disks.insert(block_device::whole_disk(target, major, mount.minor).ok()?);
            }
        }
    }
    // It has closed its files, writes to a device itself, or its files lie elsewhere.
    (!disks.is_empty()).then(|| disks.into_iter().collect())
}

/// A file system that a process sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Its device; 0 where it has none of its own.
    pub major: u32,
    /// Its number among those of the same kind.
    pub minor: u32,
    /// `ext4`.
    pub file_system: String,
}

impl Mounted {
    /// True for those that number their devices themselves and may lie on a disk all the same, or are another host's: what goes there
    /// counts as the process's, too.
    fn may_be_on_a_disk(&self) -> bool {
        const SUCH: [&str; 13] = [
            "9p", "aufs", "bcachefs", "btrfs", "ceph", "cifs", "lustre", "nfs", "nfs4", "overlay", "smb3",
            "virtiofs", "zfs",
        ];
        SUCH.contains(&self.file_system.as_str()) || self.file_system.starts_with("fuse")
    }
}

/// Reads `/proc/PID/mountinfo` (proc_pid_mountinfo(5)): each mount by its id.
///
/// ```text
/// 27 22 254:16 / /var/lib/mysql\040data rw,noatime shared:7 - xfs /dev/vdb rw,attr2
/// ```
pub fn parse_mounts(text: &str) -> HashMap<u32, Mounted> {
    let of_line = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split_ascii_whitespace();
        let id = mount.next()?.parse::<u32>().ok()?;
        let (major, minor) = mount.nth(1)?.split_once(':')?;
        let file_system = file_system.split_ascii_whitespace().next()?.to_owned();
        Some((id, Mounted { major: major.parse().ok()?, minor: minor.parse().ok()?, file_system }))
    };
    text.lines().filter_map(of_line).collect()
}

/// Reads the mount of `/proc/PID/fdinfo/N` (proc_pid_fdinfo(5)): `mnt_id:\t27`.
pub fn parse_mount_id(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::block_device::tests::device;
    use super::super::testing::{never_panics, put, target};
    use super::*;

    /// Process 7 is the server's.
    fn process(root: &Path, pid: u32, name: &str, read: u64, written: u64) {
        let folder = format!("proc/{pid}");
        let flags = if name.starts_with("kworker") { OF_KERNEL } else { 4_194_560 };
        put(
            root,
            &format!("{folder}/stat"),
            &format!("{pid} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n"),
        );
        put(root, &format!("{folder}/cgroup"), "0::/system.slice/backup.service\n");
        let io = format!("rchar: 1\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 0\n");
        put(root, &format!("{folder}/io"), &io);
    }

    const OF_KERNEL: u64 = 69_238_880;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/root rw\n\
                          24 1 0:24 / /dev rw - devtmpfs udev rw\n\
                          27 22 8:17 / /srv rw - xfs /dev/sdb1 rw\n\
                          28 22 253:0 / /volume rw - xfs /dev/dm-0 rw\n\
                          29 22 0:50 / /layers rw - overlay overlay rw\n\
                          30 22 0:61 / /far rw - nfs4 db9:/far rw\n";

    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        device(root.path(), "8:1", "pci/block/sda/sda1", &["partition"]);
        device(root.path(), "8:17", "pci/block/sdb/sdb1", &["partition"]);
        device(root.path(), "253:0", "virtual/block/dm-0", &["queue/rotational", "slaves/sda2"]);
        root
    }

    fn opens(root: &Path, pid: u32, mounts: &[u32]) {
        put(root, &format!("proc/{pid}/mountinfo"), MOUNTS);
        for (fd, mount) in mounts.iter().enumerate() {
            put(
                root,
                &format!("proc/{pid}/fdinfo/{fd}"),
                &format!("pos:\t0\nflags:\t0100001\nmnt_id:\t{mount}\n"),
            );
        }
    }

    #[test]
    fn who_writes_is_named_with_its_disk_whatever_cpu_it_uses_and_the_server_and_the_kernel_are_not() {
        let root = host();
        let server = target(root.path());
        let all = |round: u64| {
            process(root.path(), 7, "mysqld", 0, round << 30);
            process(root.path(), 1, "systemd", 0, round << 30);
            process(root.path(), 40, "dd", 4096, 5_000 + (round << 24));
            process(root.path(), 41, "dd", 4096, 5_000);
            process(root.path(), 50, "kworker/u8:1", 0, round << 25);
        };
        all(0);
        opens(root.path(), 40, &[24, 27, 900]);
        assert_eq!(collect(&server), Ok(DiskUsers::default()));
        all(1_000);
        let found = collect(&server).unwrap();
        assert!(found.over_s > 0.0 && found.unread == 0, "{found:?}");
        let [dd] = &found.programs[..] else { panic!("{found:?}") };
        assert_eq!((dd.name.as_str(), dd.pid, dd.processes), ("dd", 40, 1));
        assert_eq!(dd.cgroup, "/system.slice/backup.service");
        assert!(dd.written_bytes_per_s > 65_536.0 && dd.read_bytes_per_s <= 0.0, "{dd:?}");
        assert_eq!(dd.disks.as_deref(), Some(&["sdb".to_owned()][..]));
    }

    #[test]
    fn what_does_hardly_anything_is_not_named_and_the_one_that_does_most_stands_first() {
        let root = host();
        for (pid, name) in [(40, "cp"), (41, "rsync"), (42, "quiet"), (43, "cp")] {
            process(root.path(), pid, name, 0, 0);
        }
        let wrote = |pid, written| (pid, Bytes { read: 0, written });
        let did = vec![wrote(40, 1 << 20), wrote(41, 3 << 20), wrote(42, 4_096), wrote(43, 9 << 20)];
        let (programs, _) = most(&target(root.path()), did, 10.0, || true);
        let named: Vec<_> = programs.iter().map(|one| (one.name.as_str(), one.pid, one.processes)).collect();
        assert_eq!(named, [("cp", 43, 2), ("rsync", 41, 1)]);
        assert!((programs[0].written_bytes_per_s - 1_048_576.0).abs() < 1.0, "{programs:?}");
    }

    #[test]
    fn where_files_lie_on_a_volume_or_a_layer_the_disk_is_unknown() {
        let root = host();
        let disks = |pid, mounts: &[u32]| {
            opens(root.path(), pid, mounts);
            disks_of(&target(root.path()), pid, || true)
        };
        assert_eq!(disks(40, &[22, 27, 22]), Some(vec!["sda".to_owned(), "sdb".to_owned()]));
        assert_eq!((disks(41, &[22, 28]), disks(42, &[27, 29]), disks(43, &[24])), (None, None, None));
        assert_eq!((disks(44, &[]), disks_of(&target(root.path()), 99, || true)), (None, None));
        assert_eq!(disks(46, &[22, 30]), None, "what goes to another host counts, too");
        assert_eq!(disks(45, &[22; MOST_FILES + 1]), None);
    }

    #[test]
    fn what_there_was_no_time_for_is_said_and_does_not_count_from_its_birth_later() {
        let root = host();
        let server = target(root.path());
        process(root.path(), 40, "rsync", 0, 1 << 40);
        process(root.path(), 41, "rsync", 0, 1 << 40);
        let turns = std::cell::Cell::new(0);
        let once = |_: Duration| turns.replace(turns.get() + 1) == 0;
        assert_eq!(collect_while(&server, once).unwrap().unread, 1);
        let found = collect(&server).unwrap();
        assert_eq!((found.programs.len(), found.unread), (0, 0), "{found:?}");
    }

    #[test]
    fn where_time_is_short_the_newest_processes_are_read() {
        let asked = std::cell::RefCell::new(Vec::new());
        let read = |pid: u32| -> std::io::Result<Vec<u8>> {
            asked.borrow_mut().push(pid);
            Ok(b"read_bytes: 1\nwrite_bytes: 2\n".to_vec())
        };
        let counts =
            Counts::newest_first(vec![40, 4_000, 3, 700], |_| true, read, || asked.borrow().len() < 2);
        assert_eq!((counts.io.len(), counts.left_out), (2, HashSet::from([40, 3])));
        assert_eq!(*asked.borrow(), [4_000, 700]);
    }

    /// What it did in all its life is not taken off what others did.
    #[test]
    fn a_process_that_there_was_no_time_for_has_not_ended() {
        let root = host();
        let server = target(root.path());
        let all = |written| {
            process(root.path(), 40, "rsync", 0, 1 << 40);
            process(root.path(), 41, "dd", 0, written);
        };
        all(0);
        collect(&server).unwrap();
        all(1 << 30);
        process(root.path(), 42, "cp", 0, 1 << 31);
        let turns = std::cell::Cell::new(0);
        let twice = |within: Duration| within == LONGEST || turns.replace(turns.get() + 1) < 2;
        let found = collect_while(&server, twice).unwrap();
        let named: Vec<_> = found.programs.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((named, found.unread), (vec!["cp", "dd"], 1));
    }

    #[test]
    fn who_has_no_right_to_look_at_others_stops_asking() {
        let asked = std::cell::Cell::new(0);
        let refuse = |_: u32| -> std::io::Result<Vec<u8>> {
            asked.set(asked.get() + 1);
            Err(ErrorKind::PermissionDenied.into())
        };
        let counts = Counts::newest_first((2..1_002).collect(), |_| false, refuse, || true);
        assert_eq!(
            (counts.refused, counts.left_out.len() as u64, asked.get()),
            (MOST_REFUSED, 1_000 - MOST_REFUSED, MOST_REFUSED)
        );
        assert!(counts.io.is_empty());
    }

    #[test]
    fn refusals_leave_out_no_process_of_our_own_user() {
        let ours = |pid: u32| [3, 40].contains(&pid);
        let read = |pid: u32| -> std::io::Result<Vec<u8>> {
            match ours(pid) {
                true => Ok(b"read_bytes: 1\nwrite_bytes: 2\n".to_vec()),
                false => Err(ErrorKind::PermissionDenied.into()),
            }
        };
        let counts = Counts::newest_first((2..1_002).collect(), ours, read, || true);
        assert_eq!((counts.io.len(), counts.refused), (2, MOST_REFUSED));
    }

    #[test]
    fn what_there_was_no_time_to_name_is_said() {
        let root = host();
        let server = target(root.path());
        let all = |written| {
            process(root.path(), 40, "dd", 0, written);
            process(root.path(), 41, "cp", 0, written);
            process(root.path(), 42, "quiet", 0, 0);
        };
        all(0);
        collect(&server).unwrap();
        all(1 << 30);
        let found = collect_while(&server, |within| within < LONGEST).unwrap();
        assert_eq!((found.programs.len(), found.unread), (0, 2), "{found:?}");
        opens(root.path(), 40, &[27]);
        assert_eq!(disks_of(&server, 40, || false), None);
    }

    #[test]
    fn what_a_child_did_before_it_ended_is_not_its_parents_of_now() {
        let root = host();
        let server = target(root.path());
        process(root.path(), 40, "bash", 0, 1 << 20);
        process(root.path(), 41, "rsync", 0, 40 << 30);
        collect(&server).unwrap();
        std::fs::remove_dir_all(root.path().join("proc/41")).unwrap();
        // It wrote 1 MiB more, ended, and bash waited for it.
        process(root.path(), 40, "bash", 0, (1 << 20) + (40 << 30) + (1 << 20));
        let found = collect(&server).unwrap();
        let [bash] = &found.programs[..] else { panic!("{found:?}") };
        let written = bash.written_bytes_per_s * found.over_s;
        assert!((written - 1_048_576.0).abs() < 1.0, "{written}");
    }

    #[test]
    fn a_kernel_that_counts_nothing_is_a_reason() {
        let root = host();
        put(root.path(), "proc/40/stat", "40 (dd) S 1\n");
        assert!(collect(&target(root.path())).unwrap_err().because.contains("does not count"));
    }

    #[test]
    fn this_process_is_counted_beside_another() {
        let parent = rustix::process::getppid().map_or(2, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        let live = Target::live(parent);
        assert!(collect(&live).is_ok() && collect(&live).unwrap().over_s > 0.0);
        // Whatever it has open, it does not panic.
        let _disks = disks_of(&live, std::process::id(), || true);
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        assert_eq!(parse_mounts(MOUNTS)[&27], Mounted { major: 8, minor: 17, file_system: "xfs".into() });
        assert_eq!(parse_mount_id("pos:\t0\nmnt_id:\t27\nino:\t4\n"), Some(27));
        never_panics(parse_mounts);
        never_panics(parse_mount_id);
    }
}
