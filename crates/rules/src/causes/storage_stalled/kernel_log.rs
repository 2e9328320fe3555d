//! What the kernel's own log says of disks, file systems and the threads that waited for them.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window, number};

use super::{CAUSE, let_a_replica_take_over, look_at_the_device, unfreeze};
use crate::draft::Draft;
use crate::logged;
use crate::rank::{NOTE, WARNING_FROM};

/// What the log ends with, the worst first. It does not say whether the server's files are there: a warning at most.
pub(super) fn of_log(window: &Window) -> Option<Finding> {
    broken(window)
        .or_else(|| fails(window))
        .or_else(|| late(window))
        .or_else(|| hung(window))
        .or_else(|| degraded(window))
}

/// A file system that takes no more writes.
fn broken(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::FileSystemBroken)?;
    let headline = format!("A file system is damaged or read-only by the kernel{}", on(trouble));
    let why = "After an error the kernel stops writes to a file system, so that the damage does not grow. Where the server's files are there it \
               cannot commit, and ends or hangs; a restart does not help before the file system is mended.";
    let mend = Remedy {
        statement: "findmnt -T DATADIR says whether it is the server's. If so: stop the server, look at the disk (dmesg, smartctl -a), copy what \
                    can be read, umount, xfs_repair or fsck -f, mount, start"
            .into(),
        why: "The file system is writable again when it is in order; mount -o remount,rw before that writes into the damage.".into(),
        dynamic: false,
        risk: "A repair may drop damaged files: copy first, or make the server again from a replica or a backup.".into(),
        undo: String::new(),
    };
    let draft = Draft::new(&CAUSE, WARNING_FROM, headline).why(why);
    Some(with_lines(draft, window, trouble, times).remedy(mend).remedy(let_a_replica_take_over()).finding())
}

/// A disk that answers with errors.
fn fails(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::DiskFails)?;
    let headline = format!("A disk fails: it answers reads or writes with errors{}", on(trouble));
    let why = "What was read or written there failed. A server whose file it was gets error 5 (EIO): the statement fails, or InnoDB ends the server, \
               because it cannot know what is on the disk.";
    let replace = Remedy {
        statement: "smartctl -a of the disk; lsblk and findmnt -T DATADIR say whether it is the server's. If so: copy the data to another disk, or \
                    make the server again there from a replica or a backup"
            .into(),
        why: "A disk with errors gets more of them.".into(),
        dynamic: true,
        risk: "Reading all of a failing disk may be its last work: the data folder first.".into(),
        undo: String::new(),
    };
    let draft = Draft::new(&CAUSE, WARNING_FROM, headline).why(why);
    Some(
        with_lines(draft, window, trouble, times).remedy(replace).remedy(let_a_replica_take_over()).finding(),
    )
}

/// A disk that does not answer in time.
fn late(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::DiskLate)?;
    let headline = format!("A disk did not answer, and the kernel gave requests up{}", on(trouble));
    let why = "The kernel waits for 30 s and more before it gives a request up, and resets the controller then. Sessions that needed that page or \
               file were blocked as long.";
    let draft = Draft::new(&CAUSE, WARNING_FROM, headline).why(why);
    let draft = with_lines(draft, window, trouble, times);
    Some(draft.remedy(look_at_the_device()).remedy(let_a_replica_take_over()).finding())
}

/// Threads that waited in the kernel for minutes.
fn hung(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::HungInKernel)?;
    let who = trouble
        .line
        .split_once("INFO: task ")
        .and_then(|(_, rest)| rest.split(" blocked").next())
        // The number follows the name, which may have colons itself, as of a thread of the kernel.
        .and_then(|task| task.rsplit_once(':'))
        .map_or("a program", |(name, _)| name);
    let why = "The kernel says so of a thread that has waited in it without a break, nearly always for a disk or a file system that \
               does not answer. The functions below the line say for which.";
    // The kernel names the time that was over when it looked.
    let how_long = trouble
        .longest_s
        .map_or_else(|| "minutes".to_owned(), |s| format!("{} or more", number::duration(s)));
    let which = (!trouble.detail.is_empty())
        .then(|| Evidence::new("which threads", trouble.detail.clone(), "", "error log"));
    let headline = format!("A thread of {who} stood in the kernel for {how_long}");
    let draft = Draft::new(&CAUSE, WARNING_FROM, headline).why(why).evidence_if(which);
    let draft = with_lines(draft, window, trouble, times);
    Some(draft.remedy(look_at_the_device()).remedy(unfreeze()).remedy(let_a_replica_take_over()).finding())
}

/// An array that works on with a disk less: nobody waits yet.
fn degraded(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::RaidDegraded)?;
    let headline = format!("A software RAID works on without a disk{}", on(trouble));
    let draft = Draft::new(&CAUSE, NOTE, headline)
        .why("Its data are whole, and the next disk that fails may take them. While it is rebuilt, reads and writes take longer.");
    let rebuild = Remedy {
        statement: "cat /proc/mdstat; mdadm --detail /dev/mdN; replace the disk, and mdadm --add the new one".into(),
        why: "The array copies the data to the new disk by itself.".into(),
        dynamic: true,
        risk: "Look at the name of the disk twice: a whole one that is taken out is the end of the array. /proc/sys/dev/raid/speed_limit_max \
               bounds what the copy takes of the disks."
            .into(),
        undo: String::new(),
    };
    Some(with_lines(draft, window, trouble, times).remedy(rebuild).finding())
}

/// The line, how often there is one, and the last of each other kind that the kernel's log has.
fn with_lines(draft: Draft, window: &Window, trouble: &LoggedTrouble, times: u64) -> Draft {
    const KINDS: [TroubleKind; 5] = [
        TroubleKind::FileSystemBroken,
        TroubleKind::DiskFails,
        TroubleKind::DiskLate,
        TroubleKind::HungInKernel,
        TroubleKind::RaidDegraded,
    ];
    let others = KINDS.iter().filter(|kind| **kind != trouble.kind);
    let others = others.filter_map(|kind| logged::at_the_end(window, *kind));
    draft.evidence_all(logged::evidence(trouble, times).into_iter()).evidence_all(
        others.map(|(other, _)| Evidence::new("beside it", other.line.clone(), "", "error log")),
    )
}

/// ` (sdb)`: the device that a line names, as in `I/O error, dev sdb, sector 9`, `EXT4-fs error (device dm-1): ...`, `XFS (dm-0): ...`,
/// `nvme nvme0: ...`, `Disk failure on sdb1, disabling device`. Empty where it names none.
fn on(trouble: &LoggedTrouble) -> String {
    const BEGINS: [&str; 9] = [
        "(device ",
        ", dev ",
        " on device ",
        " on dev ",
        "Disk failure on ",
        "EXT4-fs (",
        "XFS (",
        "nvme nvme",
        "nfs: server ",
    ];
    let rest = BEGINS.iter().find_map(|begin| {
        let (_, rest) = trouble.line.split_once(begin)?;
        Some(if *begin == "nvme nvme" { format!("nvme{rest}") } else { rest.to_owned() })
    });
    // An address has dots.
    let is_nfs = trouble.line.contains("nfs: server ");
    let ends = |c: char| [',', ':', ')', ' '].contains(&c) || c == '.' && !is_nfs;
    let device = rest.as_deref().and_then(|rest| rest.split(ends).next());
    // A journal is called by its device and the number of its inode: `Aborting journal on device sdc1-8.`
    let is_journal = trouble.line.contains("journal on device ");
    let device = device.map(|device| match device.rsplit_once('-').filter(|_| is_journal) {
        Some((device, inode)) if inode.bytes().all(|byte| byte.is_ascii_digit()) => device,
        _ => device,
    });
    device.filter(|device| !device.is_empty()).map_or_else(String::new, |device| format!(" ({device})"))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;

    /// The finding of a log of the kernel that ends with these.
    fn found(troubles: &[(TroubleKind, &str)]) -> Finding {
        let logged = |(kind, line): &(TroubleKind, &str)| LoggedTrouble {
            kind: *kind,
            times: 2,
            line: (*line).to_owned(),
            ..LoggedTrouble::default()
        };
        let window = Window { error_log: troubles.iter().map(logged).collect(), ..Window::default() };
        let mut all = crate::diagnose(&window).findings;
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    #[test]
    fn each_trouble_of_a_disk_is_one_finding_that_names_the_device() {
        for (kind, line, device, severity) in [
            (TroubleKind::DiskFails, "I/O error, dev sdb, sector 812", "(sdb)", Severity::Warning),
            (
                TroubleKind::DiskFails,
                "Buffer I/O error on dev dm-1, logical block 8",
                "(dm-1)",
                Severity::Warning,
            ),
            (
                TroubleKind::FileSystemBroken,
                "EXT4-fs error (device dm-3): x:1: y",
                "(dm-3)",
                Severity::Warning,
            ),
            (
                TroubleKind::FileSystemBroken,
                "EXT4-fs (sda1): Remounting filesystem",
                "(sda1)",
                Severity::Warning,
            ),
            (
                TroubleKind::FileSystemBroken,
                "XFS (dm-0): Corruption detected. Unmount",
                "(dm-0)",
                Severity::Warning,
            ),
            (
                TroubleKind::DiskLate,
                "nvme nvme0: controller is down; will reset",
                "(nvme0)",
                Severity::Warning,
            ),
            (
                TroubleKind::DiskLate,
                "nfs: server nas-7 not responding, still trying",
                "(nas-7)",
                Severity::Warning,
            ),
            (
                TroubleKind::DiskLate,
                "nfs: server 10.0.0.9 not responding, still trying",
                "(10.0.0.9)",
                Severity::Warning,
            ),
            (
                TroubleKind::RaidDegraded,
                "md/raid1:md0: Disk failure on sdc1, disabling",
                "(sdc1)",
                Severity::Note,
            ),
        ] {
            let finding = found(&[(kind, line)]);
            assert_eq!((finding.cause.as_str(), finding.severity), (CAUSE.name, severity), "{line}");
            assert!(finding.headline.ends_with(device), "{line}: {}", finding.headline);
        }
    }

    #[test]
    fn a_journal_is_named_by_its_device() {
        let on = |line: &str| on(&LoggedTrouble { line: line.to_owned(), ..LoggedTrouble::default() });
        assert_eq!(on("Aborting journal on device sdc1-8."), " (sdc1)");
        assert_eq!(on("Aborting journal on device dm-3-8."), " (dm-3)");
        assert_eq!(on("Buffer I/O error on device dm-3, logical block 7"), " (dm-3)");
    }

    #[test]
    fn the_worst_is_the_headline_and_the_others_are_its_evidence() {
        let finding = found(&[
            (TroubleKind::HungInKernel, "INFO: task mysqld:2211 blocked for more than 120 seconds."),
            (TroubleKind::DiskFails, "I/O error, dev sdb, sector 812"),
            (TroubleKind::FileSystemBroken, "XFS (sdb1): xfs_do_force_shutdown(0x2) called"),
        ]);
        assert_eq!(finding.headline, "A file system is damaged or read-only by the kernel (sdb1)");
        let beside: Vec<_> = finding.evidence.iter().filter(|one| one.reading == "beside it").collect();
        assert_eq!(beside.len(), 2, "{beside:?}");
        let hung =
            found(&[(TroubleKind::HungInKernel, "INFO: task mysqld:2211 blocked for more than 120 s")]);
        assert_eq!(hung.headline, "A thread of mysqld stood in the kernel for minutes");
        let of_kernel =
            found(&[(TroubleKind::HungInKernel, "INFO: task kworker/u4:2:71 blocked for more than 241 s")]);
        assert_eq!(of_kernel.headline, "A thread of kworker/u4:2 stood in the kernel for minutes");
    }
}
