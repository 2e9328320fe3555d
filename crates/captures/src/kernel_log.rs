//! Lines of the kernel's log that concern a server: killed for want of memory, threads that hang, disks that fail.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::civil::DateTime;
use spindoctor_model::{TroubleKind, number};

use crate::{clock, denials};

/// The time of a line of the kernel's log, by its clock, which may be that of another time zone than the server's log has:
/// `[Tue Mar 12 03:10:11 2024] ` (dmesg -T), `Mar 12 03:10:11 db1 kernel: ` of the year that the server's log has, `2024-03-12T03:10:11 db1
/// kernel: `. None where it has none, or counts the seconds since the start.
pub(crate) fn time(line: &str, near: Option<DateTime>) -> Option<DateTime> {
    let line = line.trim_start();
    if let Some((time, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // The day of the week is in the language of who read the log.
        let (_, date) = time.trim().split_once(' ')?;
        return DateTime::strptime("%b %e %H:%M:%S %Y", date.trim_start()).ok();
    }
    if !is_of_kernel(line) {
        return None;
    }
    of_syslog(line, near).or_else(|| denials::time(line))
}

/// The time that the system's log puts before a line: `Mar 12 03:10:11`, of the year that the server's log has, or with its date.
pub(crate) fn of_syslog(line: &str, near: Option<DateTime>) -> Option<DateTime> {
    const LENGTH: usize = 15;
    let without_year = || {
        let year = near?.year();
        DateTime::strptime("%Y %b %e %H:%M:%S", format!("{year} {}", line.get(..LENGTH)?)).ok()
    };
    clock::time(line).or_else(without_year)
}

/// True for a line of the kernel's log.
pub(crate) fn is_of_kernel(line: &str) -> bool {
    line.contains(" kernel: ")
        || line.contains("Kernel panic - not syncing")
        || is_kill_for_memory(line)
        || is_killed_for_memory(line)
        || is_hung(line)
        || is_lockup(line)
        || is_disk_trouble(line)
        || denials::is_denial(line)
}

/// How the kernel's lines begin of a CPU on which one task ran for many seconds and nothing else (kernel/watchdog.c, kernel/workqueue.c,
/// kernel/rcu/tree_stall.h): `watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [mysqld:4711]`.
const LOCKUPS: [&str; 5] = [
    "soft lockup - CPU#",
    "hard LOCKUP on cpu",
    "workqueue lockup - pool",
    "self-detected stall on CPU",
    "detected stalls on CPUs",
];

/// True for such a line.
pub(crate) fn is_lockup(line: &str) -> bool {
    LOCKUPS.iter().any(|sign| line.contains(sign))
}

/// The kernel's line of a thread that has waited in it without a break (kernel/hung_task.c): `INFO: task mysqld:2211 blocked for more than
/// 120 seconds.`
pub(crate) const HUNG_IN_KERNEL: &str = " blocked for more than ";

/// Stands for that line where it is of a server, or of a thread of the kernel's that writes for all.
pub(crate) const HUNG_OF_SERVER: &str = "INFO: task mysqld";

/// What the kernel's lines about a disk mean.
pub(crate) const DISK_ERRORS: &str =
    "a disk answered the kernel with errors: what was read or written there failed";
/// What its lines about requests that it gave up mean.
const LATE_DISK: &str = "a disk did not answer for so long that the kernel gave requests up";
/// What its lines about a file system that it writes to no more mean.
pub(crate) const READ_ONLY: &str = "the kernel made a file system read-only after an error";
/// What its lines about a file system that is not in order mean.
const BROKEN: &str = "the kernel found a file system damaged, or stopped it";
/// What its lines about a disk that an array works on without mean.
const DEGRADED: &str = "a software RAID lost a disk, and works on without it";

/// Lines about disks and file systems: what a line has of each, all of it, what that means, and the trouble that causes rest on. The
/// first that fits counts. Of block/blk-core.c (behind `blk_update_request: ` or `end_request: ` in older versions), fs/buffer.c, fs/ext4,
/// fs/jbd2, fs/xfs, drivers/scsi, drivers/ata, drivers/nvme/host/pci.c, drivers/md and fs/nfs.
pub(crate) const DISKS: [(&[&str], &str, TroubleKind); 26] = [
    (&["I/O error, dev "], DISK_ERRORS, TroubleKind::DiskFails),
    (&[" medium error, dev "], DISK_ERRORS, TroubleKind::DiskFails),
    (&[" target error, dev "], DISK_ERRORS, TroubleKind::DiskFails),
    // `Buffer I/O error on dev dm-1`, and in older versions `on device sda1`
    (&["Buffer I/O error on dev"], DISK_ERRORS, TroubleKind::DiskFails),
    (&["lost page write due to I/O error on "], DISK_ERRORS, TroubleKind::DiskFails),
    (&["XFS (", "log I/O error"], DISK_ERRORS, TroubleKind::DiskFails),
    (&["metadata I/O error in "], DISK_ERRORS, TroubleKind::DiskFails),
    (&["rejecting I/O to offline device"], DISK_ERRORS, TroubleKind::DiskFails),
    (&["Sense Key : Medium Error"], DISK_ERRORS, TroubleKind::DiskFails),
    (&["Sense Key : Hardware Error"], DISK_ERRORS, TroubleKind::DiskFails),
    (&["ata", ": exception Emask 0x"], DISK_ERRORS, TroubleKind::DiskFails),
    (&["Remounting filesystem read-only"], READ_ONLY, TroubleKind::FileSystemBroken),
    (&["BTRFS", "): forced readonly"], READ_ONLY, TroubleKind::FileSystemBroken),
    (&["EXT4-fs error (device "], BROKEN, TroubleKind::FileSystemBroken),
    (&["Aborting journal on device "], BROKEN, TroubleKind::FileSystemBroken),
    (&["XFS (", "Unmount and run xfs_repair"], BROKEN, TroubleKind::FileSystemBroken),
    (&["xfs_do_force_shutdown("], BROKEN, TroubleKind::FileSystemBroken),
    (&["xfs_force_shutdown("], BROKEN, TroubleKind::FileSystemBroken),
    (&["XFS (", "hutting down filesystem"], BROKEN, TroubleKind::FileSystemBroken),
    (&["XFS (", " has been shut down due to "], BROKEN, TroubleKind::FileSystemBroken),
    (&["XFS (", " unmount the filesystem and rectify"], BROKEN, TroubleKind::FileSystemBroken),
    (&["nvme", " QID ", " timeout, aborting"], LATE_DISK, TroubleKind::DiskLate),
    (&["nvme", " QID ", " timeout, reset controller"], LATE_DISK, TroubleKind::DiskLate),
    (&["nvme", ": controller is down; will reset"], LATE_DISK, TroubleKind::DiskLate),
    (&["nfs: server ", " not responding"], LATE_DISK, TroubleKind::DiskLate),
    (&["md/raid", ": Disk failure on "], DEGRADED, TroubleKind::RaidDegraded),
];

/// Which of these a line is.
pub(crate) fn disk_entry(line: &str) -> Option<usize> {
    DISKS.iter().position(|(signs, ..)| signs.iter().all(|sign| line.contains(sign)))
}

/// The server of NFS of which a line says that it answers again.
pub(crate) fn nfs_answers(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("nfs: server ")?;
    rest.trim_end().strip_suffix(" OK")
}

/// True for a line about a disk that fails or does not answer, or a file system that is broken.
pub(crate) fn is_disk_trouble(line: &str) -> bool {
    disk_entry(line).is_some()
}

/// True for that line.
pub(crate) fn is_hung(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.contains("info: task ") && line.contains(HUNG_IN_KERNEL)
}

/// True for that line of a server's thread, by its names in all versions, or of one that writes for all programs.
pub(crate) fn is_hung_server(line: &str) -> bool {
    const NAMES: [&str; 14] = [
        "mysqld",
        "mariadbd",
        "connection",
        "ib_",
        "jbd2/",
        "kworker/",
        "flush-",
        "xfsaild/",
        "xfs-",
        "kjournald",
        "dm",
        "md",
        "txg_sync",
        "nfsd",
    ];
    let line = line.to_ascii_lowercase();
    let task = line.split_once("info: task ").map(|(_, rest)| rest);
    is_hung(&line) && task.is_some_and(|task| NAMES.iter().any(|name| task.starts_with(name)))
}

/// True for the kernel's line that says that it killed a server for want of memory (mm/oom_kill.c): `Out of memory: Killed process 4711
/// (mysqld) total-vm:...`, `Memory cgroup out of memory: Kill process 4711 (mariadbd) score ...`, and to Linux 5.0 `Killed process 4711,
/// UID 498, (mysqld) total-vm:...` after that. And for `mysqld invoked oom-killer: gfp_mask=...`, with which its report begins.
pub(crate) fn is_kill_for_memory(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let is_server =
        |text: &str| ["(mysqld)", "(mariadbd)", "(mysqld.bin)"].iter().any(|server| text.contains(server));
    line.split_once("out of memory: kill").is_some_and(|(_, rest)| is_server(rest))
        || line.contains("killed process ") && is_server(&line)
        || line.contains("oom-kill:constraint=")
            && ["task=mysqld", "task=mariadbd"].iter().any(|task| line.contains(task))
        || ["mysqld invoked oom-killer", "mariadbd invoked oom-killer", "mysqld.bin invoked oom-killer"]
            .iter()
            .any(|begin| line.contains(begin))
        || is_unit_killed(&line)
        || is_container_killed(&line)
}

/// True for the kernel's line that says that it killed a program for want of memory, whichever it was.
pub(crate) fn is_killed_for_memory(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["out of memory: killed process ", "out of memory: kill process "].iter().any(|sign| line.contains(sign))
}

/// True for a name of a unit, a container or an image that is a server's.
pub(crate) fn names_server(text: &str) -> bool {
    ["mysql", "mariadb", "percona", "pxc"].iter().any(|name| text.contains(name))
}

/// True for such a name that is not of a program beside a server: `mysqld-exporter`, `mysql-backup-283`.
pub(crate) fn is_name_of_server(text: &str) -> bool {
    const BESIDE: [&str; 7] = ["exporter", "router", "proxy", "backup", "operator", "agent", "client"];
    names_server(text) && !BESIDE.iter().any(|program| text.contains(program))
}

/// systemd's lines about a unit of which the kernel killed a process (src/core/unit.c, service.c), in lower case:
/// `mysql.service: A process of this unit has been killed by the OOM killer.`, `mariadb.service: Failed with result 'oom-kill'.`
fn is_unit_killed(line: &str) -> bool {
    let signs = ["killed by the oom killer", "failed with result 'oom-kill'"];
    let unit = line.split_once(".service: ").map(|(before, _)| before.rsplit(' ').next().unwrap_or(before));
    signs.iter().any(|sign| line.contains(sign)) && unit.is_some_and(is_name_of_server)
}

/// Kubernetes' reason for the end of a container, in lower case, in a line that names the container: `mysql-0  0/1  OOMKilled  3`.
fn is_container_killed(line: &str) -> bool {
    // Docker says of each container whether it was: `"OOMKilled":false`.
    let is_no = |rest: &str| rest.trim_start_matches(['"', ':', '=', ' ']).starts_with("false");
    let mut names = line.split([' ', '\t', '"', ',', '\'']);
    line.split_once("oomkilled").is_some_and(|(_, rest)| !is_no(rest)) && names.any(is_name_of_server)
}

/// True for a line of which something is said.
fn is_trouble(line: &str) -> bool {
    is_kill_for_memory(line)
        || is_hung(line)
        || is_lockup(line)
        || is_disk_trouble(line)
        || denials::is_denial(line)
}

/// The lines of a text, those of the kernel that a terminal wrapped in one again: where two lines together say what neither says alone.
pub(crate) fn whole_lines(lines: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    /// No terminal that a log is read in has fewer columns. By judgement.
    const NARROWEST: usize = 40;
    let is_of_kernel = |line: &str| {
        let begins = ["[", "Out of memory: ", "Memory cgroup out of memory: ", "INFO: task ", "type=AVC "];
        begins.iter().any(|begin| line.starts_with(begin)) || line.contains("kernel: ")
    };
    let whole = |line: &str, next: &str| -> Option<String> {
        if line.len() < NARROWEST || !is_of_kernel(line) || is_trouble(line) || is_trouble(next) {
            return None;
        }
        // Within a word, or at a blank, which the terminal leaves out.
        [format!("{line}{next}"), format!("{line} {next}")].into_iter().find(|joined| is_trouble(joined))
    };
    let mut all = Vec::with_capacity(lines.len());
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        match lines.peek().and_then(|next| whole(&line, next)) {
            Some(whole) => {
                lines.next();
                all.push(Cow::Owned(whole));
            }
            None => all.push(line),
        }
    }
    all
}

/// The programs that are named of a table of tasks. By judgement.
const SHOWN: usize = 4;

/// Who had the memory when the kernel ran out of it, by the last table of tasks that it printed (mm/oom_kill.c, dump_tasks):
///
/// ```text
/// [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
/// [   4711]    27  4711  3456789  2345678       19087360        0             0 mysqld
/// ```
///
/// Processes of one name count together; what they share counts more than once.
pub(crate) fn who_had_memory(text: &str) -> Option<String> {
    let is_head = |line: &str| line.contains(" total_vm ") && line.contains(" oom_score_adj ");
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().rposition(|line| is_head(line))?;
    let mut programs: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for (name, bytes) in lines[head + 1..].iter().map_while(|line| task(line)) {
        let (sum, count) = programs.entry(name).or_default();
        *sum += bytes;
        *count += 1;
    }
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by(|(_, (one, _)), (_, (other, _))| other.total_cmp(one));
    let shown: Vec<String> = programs
        .iter()
        .take(SHOWN)
        .map(|(name, (bytes, count))| {
            let several = if *count > 1 { format!(" ({count} processes)") } else { String::new() };
            format!("{name} {}{several}", number::bytes(*bytes))
        })
        .collect();
    (!shown.is_empty()).then(|| format!("memory was with {} then, by the kernel's table", shown.join(", ")))
}

/// The name of a row of that table, and its resident memory, bytes.
fn task(line: &str) -> Option<(&str, f64)> {
    /// Of x86-64, and of most systems on aarch64.
    const PAGE_BYTES: f64 = 4096.0;
    // A time in brackets may stand before it.
    let (before, row) = line.rsplit_once(']')?;
    let id: u64 = before.rsplit_once('[')?.1.trim().parse().ok()?;
    let mut cells = row.split_whitespace();
    let [_uid, group, _total] = [cells.next()?, cells.next()?, cells.next()?];
    let pages: f64 = cells.next()?.parse::<u64>().ok()? as f64;
    (group.parse() == Ok(id)).then_some((cells.next_back()?, pages * PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_and_kubernetes_say_of_a_server_that_was_killed_is_a_kill() {
        for line in [
            "Mar 12 03:10:11 db1 systemd[1]: mysql.service: A process of this unit has been killed by the OOM killer.",
            "Mar 12 03:10:11 db1 systemd[1]: mariadb.service: Failed with result 'oom-kill'.",
            "mysql-0                 0/1     OOMKilled   3 (40s ago)   28m",
            "[ 3888.8] Out of memory: Kill process 11648 (mysqld.bin) score 383 or sacrifice child",
            "[ 3888.8] mysqld.bin invoked oom-killer: gfp_mask=0x24201ca, order=0, oom_score_adj=0",
        ] {
            assert_eq!(finding(line).0, "memory-pressure", "{line}");
        }
        for line in [
            "Mar 12 03:10:11 web1 systemd[1]: php-fpm.service: Failed with result 'oom-kill'.",
            "Mar 12 03:10:11 db1 systemd[1]: mysql.service: Failed with result 'exit-code'.",
            "Mar 12 03:10:11 db1 systemd[1]: mysqld_exporter.service: Failed with result 'oom-kill'.",
            "web-0                   0/1     OOMKilled   3 (40s ago)   28m",
            "mysqld-exporter-7d      0/1     OOMKilled   3 (40s ago)   28m",
        ] {
            assert!(!is_kill_for_memory(line), "{line}");
        }
    }

    #[test]
    fn a_cpu_that_is_stuck_is_a_finding_and_another_program_that_was_killed_is_said() {
        let says = |text: &str| {
            let parts = crate::recognise("dmesg", text);
            parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
        };
        for line in [
            "[ 8123.1] NMI watchdog: BUG: soft lockup - CPU#12 stuck for 23s! [mysqld:4711]",
            "Mar 12 10:11:12 db1 kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [ib_log_writer:4733]",
            "soft lockup - CPU#1 stuck for 22s! [mariadbd:71]",
            "[ 8123.1] INFO: rcu_sched self-detected stall on CPU { 7}  (t=60001 jiffies g=1122 c=1121 q=0)",
            "[ 8123.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        ] {
            let said = says(&format!("I found this:\n\n{line}\n"));
            assert!(said.starts_with("one task ran on a CPU"), "{line}: {said}");
            assert_eq!(finding(line).0, "server-stopped", "{line}");
        }
        for line in [
            "[ 8123.1] Out of memory: Killed process 4521 (java) total-vm:18452312kB, anon-rss:16124500kB",
            "Mar 12 10:11:12 db1 kernel: Out of memory: Kill process 44 (apache2) score 261 or sacrifice child",
        ] {
            let said = says(&format!("{line}\n"));
            assert!(said.starts_with("the kernel killed other programs"), "{line}: {said}");
            let parts = crate::recognise("dmesg", line);
            assert!(parts.iter().all(|part| part.moments.is_empty()), "{parts:?}");
        }
    }

    #[test]
    fn who_had_the_memory_is_read_from_the_last_table() {
        let head = "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name";
        let row = |id: u32, pages: u32, name: &str| {
            format!(
                "[Tue Mar 12 03:10:11 2024] [{id:>7}]    27 {id:>5}  3456789 {pages:>8}       19087360        0             0 {name}"
            )
        };
        let rows = [
            row(812, 99, "sshd"),
            row(4711, 2_345_678, "mysqld"),
            row(77, 262_144, "php-fpm"),
            row(78, 262_144, "php-fpm"),
        ];
        let text = format!(
            "{head}\n{}\n{head}\n{}\n[1.1] oom-kill:...\n",
            row(5, 9_999_999, "java"),
            rows.join("\n")
        );
        assert_eq!(
            who_had_memory(&text).as_deref(),
            Some(
                "memory was with mysqld 8.95 GiB, php-fpm 2 GiB (2 processes), sshd 396 KiB then, by the kernel's table"
            )
        );
        assert_eq!(who_had_memory(&rows.join("\n")), None, "a table without its head is none");
        assert_eq!(who_had_memory(&format!("{head}\n[ x] nothing")), None);
    }

    #[test]
    fn a_line_of_the_kernel_has_its_own_time() {
        let text = |line: &str, near| time(line, near).map(|time: DateTime| time.to_string());
        let kill = "Out of memory: Killed process 4711 (mysqld) total-vm:1kB";
        let near = DateTime::constant(2024, 3, 12, 8, 0, 0, 0);
        let wanted = Some("2024-03-12T03:10:11");
        assert_eq!(text(&format!("[Tue Mar 12 03:10:11 2024] {kill}"), None).as_deref(), wanted);
        assert_eq!(text(&format!("Mar 12 03:10:11 db1 kernel: {kill}"), Some(near)).as_deref(), wanted);
        assert_eq!(
            text(&format!("2024-03-12T03:10:11.5+00:00 db1 kernel: {kill}"), None).as_deref(),
            Some("2024-03-12T03:10:11.5")
        );
        assert_eq!(text(&format!("[Di Mar 12 03:10:11 2024] {kill}"), None).as_deref(), wanted);
        assert_eq!(
            text(&format!("[Tue Mar  5 03:10:11 2024] {kill}"), None).as_deref(),
            Some("2024-03-05T03:10:11")
        );
        assert_eq!(text(&format!("[ 8123.1] {kill}"), Some(near)), None);
        assert_eq!(text("2024-03-12 03:10:11 0 [Note] ready", None), None);
    }

    #[test]
    fn a_line_that_a_terminal_wrapped_is_whole_again_and_others_are_as_they_were() {
        const KILL: &str = "[Tue Mar 12 03:10:11 2024] Out of memory: Killed process 4711 (mysqld) total-vm:7823732kB, anon-rss:1kB";
        let whole = |text: &str| whole_lines(text.lines().map(Cow::from).collect()).join("\n");
        for width in 40..KILL.len() {
            let (line, rest) = KILL.split_at(width);
            assert!(is_trouble(&whole(&format!("before\n{line}\n{rest}\nafter"))), "{width}");
            let at_a_blank = format!("{}\n{}", line.trim_end(), rest.trim_start());
            assert!(is_trouble(&whole(&at_a_blank)), "{width}");
        }
        for text in [
            format!(
                "{KILL}\n[Tue Mar 12 03:10:12 2024] oom_reaper: reaped process 4711 (mysqld), now anon-rss:0kB"
            ),
            "an answer of a user: it ran out of memory: killed\nprocess 12 (java) of another host, as I said"
                .to_owned(),
            "2024-03-12 03:10:11 0 [Note] mysqld: ready for connections, all is well and\nso on".to_owned(),
        ] {
            assert_eq!(whole(&text), text);
        }
    }

    /// The cause and the headline of the one finding of such a line.
    fn finding(line: &str) -> (String, String) {
        let parts = crate::recognise("dmesg", &format!("{line}\n"));
        let mut all = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert_eq!(all.len(), 1, "{line}: {all:#?}");
        let first = all.remove(0);
        (first.cause, first.headline)
    }

    #[test]
    fn what_it_says_of_disks_and_file_systems_is_a_finding_that_names_the_device() {
        for (line, headline) in [
            (
                "blk_update_request: I/O error, dev sdb, sector 81234 op 0x0:(READ) flags 0x80700",
                "A disk fails",
            ),
            ("end_request: I/O error, dev sdb, sector 81234", "A disk fails"),
            ("blk_update_request: critical medium error, dev sdb, sector 9123 op 0x0:(READ)", "A disk fails"),
            ("Buffer I/O error on dev dm-1, logical block 8123, lost async page write", "A disk fails"),
            ("Buffer I/O error on device dm-1, logical block 8123", "A disk fails"),
            (
                "XFS (dm-1): metadata I/O error in \"xlog_iodone\" at daddr 0x9123 len 64 error 5",
                "A disk fails",
            ),
            (
                "EXT4-fs error (device dm-1): ext4_find_entry:1455: inode #812: comm mysqld",
                "A file system is damaged",
            ),
            ("EXT4-fs (dm-1): Remounting filesystem read-only", "A file system is damaged or read-only"),
            ("Aborting journal on device dm-1-8.", "A file system is damaged"),
            ("XFS (dm-1): Corruption detected. Unmount and run xfs_repair", "A file system is damaged"),
            (
                "XFS (dm-1): xfs_do_force_shutdown(0x2) called from line 1272 of file fs/xfs/xfs_log.c",
                "A file system is",
            ),
            ("XFS (dm-1): Log I/O Error Detected. Shutting down filesystem", "A file system is damaged"),
            ("XFS (dm-1): Filesystem has been shut down due to log error (0x2).", "A file system is damaged"),
            (
                "XFS (dm-1): Please unmount the filesystem and rectify the problem(s)",
                "A file system is damaged",
            ),
            ("nvme nvme0: I/O 123 QID 4 timeout, aborting", "A disk did not answer"),
            (
                "nvme nvme0: I/O tag 123 (107b) opcode 0x2 (I/O Cmd) QID 4 timeout, aborting req_op:READ(0)",
                "A disk did not",
            ),
            (
                "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
                "A disk did not answer",
            ),
            ("nfs: server nas-7 not responding, still trying", "A disk did not answer"),
            (
                "md/raid1:md0: Disk failure on sdc1, disabling device.",
                "A software RAID works on without a disk",
            ),
        ] {
            for before in [
                "[81234.123456] ",
                "[Tue Mar 12 03:10:11 2024] ",
                "Mar 12 03:10:11 db1 kernel: [81234.1] ",
                "",
            ] {
                let (cause, said) = finding(&format!("{before}{line}"));
                assert_eq!(cause, "storage-stalled", "{before}{line}");
                assert!(said.starts_with(headline) && said.ends_with(')'), "{before}{line}: {said}");
            }
        }
        for line in [
            "sd 2:0:0:0: rejecting I/O to offline device",
            "ata3.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
        ] {
            assert_eq!(finding(line).0, "storage-stalled", "{line}");
        }
    }

    #[test]
    fn lines_that_say_that_a_disk_is_well_are_no_trouble() {
        for line in [
            "[1.1] nvme nvme0: 8/0/0 default/read/poll queues",
            "[1.1] EXT4-fs (dm-1): mounted filesystem with ordered data mode. Opts: (null)",
            "[1.1] XFS (dm-1): Ending clean mount",
            "[1.1] md/raid1:md0: active with 2 out of 2 mirrors",
            "[1.1] nfs: server nas-7 OK",
        ] {
            assert!(!is_disk_trouble(line), "{line}");
        }
    }

    #[test]
    fn a_server_of_nfs_that_answers_again_is_no_trouble_any_more() {
        let late = "[Tue Mar 12 03:10:11 2024] nfs: server 10.0.0.9 not responding, still trying\n";
        assert_eq!(
            finding(late.trim_end()).1,
            "A disk did not answer, and the kernel gave requests up (10.0.0.9)"
        );
        let again = |server: &str| format!("{late}[Tue Mar 12 03:12:11 2024] nfs: server {server} OK\n");
        assert_eq!(crate::error_log::read(&again("10.0.0.9")).troubles, []);
        assert_eq!(crate::error_log::read(&again("10.0.0.7")).troubles.len(), 1);
    }
}
