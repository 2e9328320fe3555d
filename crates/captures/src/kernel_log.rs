//! Lines of the kernel's log that concern a server: killed for want of memory, threads that hang, disks that fail.

use jiff::civil::DateTime;

use crate::clock;

/// The time of a line of the kernel's log, by its clock, which may be that of another time zone than the server's log has:
/// `[Tue Mar 12 03:10:11 2024] ` (dmesg -T), `Mar 12 03:10:11 db1 kernel: ` of the year that the server's log has, `2024-03-12T03:10:11 db1
/// kernel: `. None where it has none, or counts the seconds since the start.
pub(crate) fn time(line: &str, near: Option<DateTime>) -> Option<DateTime> {
    /// `Mar 12 03:10:11`
    const SYSLOG: usize = 15;
    let line = line.trim_start();
    if let Some((time, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return DateTime::strptime("%a %b %e %H:%M:%S %Y", time.trim()).ok();
    }
    if !is_of_kernel(line) {
        return None;
    }
    clock::time(line).or_else(|| {
        let year = near?.year();
        DateTime::strptime("%Y %b %e %H:%M:%S", format!("{year} {}", line.get(..SYSLOG)?)).ok()
    })
}

/// True for a line of the kernel's log.
pub(crate) fn is_of_kernel(line: &str) -> bool {
    line.contains(" kernel: ")
        || line.contains("Kernel panic - not syncing")
        || is_kill_for_memory(line)
        || is_hung(line)
        || is_disk_error(line)
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
pub(crate) const LATE_DISK: &str = "a disk did not answer for so long that the kernel gave requests up";

/// True for a line about a disk that fails: `I/O error, dev sda, sector 812` (block/blk-core.c; behind `blk_update_request: ` or
/// `end_request: ` in older versions), `Buffer I/O error on dev dm-1` (fs/buffer.c), `EXT4-fs error (device dm-1)`, `XFS (sda1): metadata
/// I/O error in ...`, `nvme nvme0: I/O 812 QID 7 timeout, aborting` (drivers/nvme/host/pci.c).
pub(crate) fn is_disk_error(line: &str) -> bool {
    const SIGNS: [&str; 6] = [
        "I/O error, dev ",
        " medium error, dev ",
        "Buffer I/O error on dev",
        "EXT4-fs error (device ",
        "metadata I/O error in ",
        "Remounting filesystem read-only",
    ];
    SIGNS.iter().any(|sign| line.contains(sign)) || is_late_disk(line)
}

/// True for a line of a request to a disk that the kernel gave up.
pub(crate) fn is_late_disk(line: &str) -> bool {
    line.contains("nvme")
        && line.contains(" QID ")
        && [" timeout, aborting", " timeout, reset controller"].iter().any(|sign| line.contains(sign))
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
    let is_server = |text: &str| ["(mysqld)", "(mariadbd)"].iter().any(|server| text.contains(server));
    line.split_once("out of memory: kill").is_some_and(|(_, rest)| is_server(rest))
        || line.contains("killed process ") && is_server(&line)
        || line.contains("oom-kill:constraint=")
            && ["task=mysqld", "task=mariadbd"].iter().any(|task| line.contains(task))
        || ["mysqld invoked oom-killer", "mariadbd invoked oom-killer"]
            .iter()
            .any(|begin| line.contains(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(text(&format!("[ 8123.1] {kill}"), Some(near)), None);
        assert_eq!(text("2024-03-12 03:10:11 0 [Note] ready", None), None);
    }
}
