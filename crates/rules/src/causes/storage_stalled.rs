//! `storage-stalled`: storage hardly answers: one I/O takes a second and more, and sessions are blocked behind it.

mod in_turns;
mod kernel_log;
mod measured;
mod one_io;
mod printed;
#[cfg(test)]
mod tests;

use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::{checkpoint_stall, commit_sync_bound, file_extension_stall, free_page_wait, index_lock};
use crate::disk_users::evidence_of_known_disks;
use crate::draft::Draft;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use measured::{Measured, measure};
pub(super) use one_io::{OneIo, Stretch, stretches, unmoved};
use printed::as_printed;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "storage-stalled",
    title: "storage hardly answers: one I/O takes a second and more",
    what: "A disk, a controller, a network volume or the limit of a control group holds I/Os back for seconds: a failing \
           device that retries, a path that is lost, a volume out of burst credit, a snapshot of the file system. The \
           threads stand in the kernel, in read, write or fsync, and nobody can end them.",
    why_it_hurts: "Every session that needs the page, the file or the log waits behind that one I/O. Within a second all sessions that \
                   write are blocked, and soon those that only read.",
    evidence: "Stacks of all threads, ten times a second: how many stand in read, write or fsync of a file on average. \
               And how many I/Os the server completed meanwhile (Innodb_data_reads, _writes and _fsyncs, and groups of \
               statements that changed rows). Of files that these leave out (temporary files, other engines' tables, logs), and of open and close, \
               a thread counts that stands in one I/O for a second and more. The number that stand divided by the I/Os completed in a second is the time of one I/O \
               (Little's law), and the same of syncs alone, because writes end in the page cache. It fires at a second or \
               more, where fewer than ten I/Os a second end, and two or more sessions at work are blocked. The estimate is their share of the sessions at work. \
               Or one write or sync of a commit, of a binary log on storage of its own, stands in one thread for 3 s, and fewer changes ended \
               than sessions are blocked. Without stacks, InnoDB's text: I/O is under way and none ended in the time of its averages, 3 s or more.\n\n\
               Storage may hang in turns: an I/O stands for a second or more while two or more sessions at work are blocked, \
               /proc/diskstats shows seconds in which a disk has I/Os under way and ends none, and in the rest that disk ends ten a \
               second and more. Or the disk below the server's folders is at rest in those seconds, the server ends fewer than ten I/Os, and more in \
               the rest: a frozen file system or a limit of the control group holds them. Such an I/O is one of InnoDB's or of a binary log, in \
               which its thread has not moved for 0.7 s and more, and no file is made larger meanwhile. The estimate is the session time in \
               those hangs.\n\n\
               Of a captured log of the kernel: threads that waited in it for minutes, disks that fail or do not answer, file systems that it \
               stopped.",
    looks_alike: "A disk that is slow and answers takes milliseconds, not seconds: commit-sync-bound, checkpoint-stall, \
                  file-extension-stall. A process that a signal or the freezer holds does no I/O either: server-stopped. A \
                  full disk: the server waits for room and says so in its error log.",
    remedies: "Look at the device: the kernel's log (dmesg), its error counters (smartctl, multipath), the volume's credit, \
               what else writes to it, limits of the control group (io.max). A file system that a backup froze for its snapshot and \
               did not let go: fsfreeze --unfreeze. Of storage that hangs in turns: what stops it every few seconds. Let a replica \
               on other storage take over: the server cannot be helped from inside, and a restart has to read from the same disk.",
    safety: "Looking is safe. A server that stands in the kernel does not end, with SIGKILL either, before its I/O does. \
             Fail over with the old source fenced: when the disk comes back it goes on writing where it stood.",
    references: &[
        "Domas Mituzas, on performance stalls: where single I/O request done is escalated to table or instance lockup",
        "Linux kernel documentation: hung tasks, blkio and io.max, pressure stall information",
        "J. D. C. Little, A Proof for the Queuing Formula L = lambda W (1961)",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::Read,
        TimeClass::Write,
        TimeClass::Commit,
        TimeClass::LogSpace,
        TimeClass::FreePage,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::TableCache,
        TimeClass::Other,
    ],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, kernel_log::of_log),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// An I/O of that length is no slow disk: the slowest that works, one that spins and is busy, takes a tenth.
const ONE_IO_S: f64 = 1.0;

/// I/Os that end in a second, from which on a disk works, however long its queue is: one that spins does a hundred. Storage that
/// hardly answers ended 0.4 and 3.9 a second in the recorded windows.
const ANSWERS_PER_S: f64 = 10.0;

/// From here on storage hangs. Below, four megabytes written to extend a file, and the syncs behind them, may be all that it
/// is busy with, and file-extension-stall says more: 1.1 s were seen in the lab's scenario on a disk of 20 writes a second.
/// Chosen, not derived.
const HANGS_S: f64 = 3.0;

/// Threads that stand in I/O on average: one, half of the time. A server's own threads sync now and then while nobody
/// waits.
const STANDING: f64 = 0.5;

/// Sessions at work that are blocked, on average.
const HELD_UP: f64 = 2.0;

/// What to look at below the server.
pub(super) fn look_at_the_device() -> Remedy {
    Remedy {
    statement: "On the server's host: look at the device (dmesg, smartctl, multipath -ll, iostat -x 1) and at io.max of \
                the server's control group"
        .into(),
    why: "The I/O stands in the kernel: what holds it is below the server.".into(),
    dynamic: true,
    ..Remedy::default()
}
}

/// What holds writes back that no device does.
fn unfreeze() -> Remedy {
    Remedy {
        statement: "Where a backup froze the file system for its snapshot and never let it go: fsfreeze --unfreeze MOUNTPOINT".into(),
        why: "Whatever writes to a frozen file system stands in the kernel until it is let go."
            .into(),
        dynamic: true,
        risk: "A snapshot that is still being taken is spoilt.".into(),
        undo: "fsfreeze --freeze MOUNTPOINT".into(),
    }
}

/// What helps while the disk does not answer.
fn let_a_replica_take_over() -> Remedy {
    Remedy {
        statement: "Let a replica on other storage take over".into(),
        why: "No setting of the server makes its disk answer.".into(),
        dynamic: true,
        risk: "The old source goes on writing when its disk comes back: fence it first.".into(),
        undo: "Let the old source follow as a replica.".into(),
    }
}

fn evaluate(window: &Window) -> Outcome {
    match examine(window) {
        // Without stacks InnoDB's own text may say it.
        Err(missing) => match as_printed(window) {
            Some(finding) => Outcome::Fired(finding),
            None => Outcome::NotEnoughEvidence(missing),
        },
        examined => examined.into(),
    }
}

/// True where storage hangs, and a file that is being extended waits for it as all others do.
pub(super) fn hangs(window: &Window) -> bool {
    measure(window).is_ok_and(|it| {
        it.one_io_s >= HANGS_S && it.completed / it.seconds < ANSWERS_PER_S
            || in_turns::in_turns(window, &it.standing).is_some()
    })
}

/// How long all tasks of the host waited for I/O.
fn pressure(window: &Window) -> Option<Evidence> {
    let change = window.change(|sample| &sample.host.pressure)?;
    let stalled_us = change.last.io_full_us?.checked_sub(change.first.io_full_us?)?;
    let ratio = stalled_us as f64 / 1e6 / change.seconds;
    Some(Evidence::new("time in which all tasks waited for I/O", ratio, "ratio", "/proc/pressure/io"))
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let measured = measure(window)?;
    let answers = measured.completed / measured.seconds >= ANSWERS_PER_S;
    let standing = &measured.standing;
    if standing.in_io < STANDING || measured.one_io_s < ONE_IO_S || answers || standing.held_up < HELD_UP {
        return Ok(of_commits(&measured).or_else(|| in_turns::finding(window, &measured)));
    }
    let Measured { standing, seconds, completed, synced, one_io_s, .. } = measured;
    let share = (standing.held_up / standing.at_work.max(1.0)).min(1.0);
    Ok(Some(
        Draft::new(
            &CAUSE,
            share,
            format!(
                "Storage hardly answers: one I/O takes {one_io_s:.1} s, and {:.1} sessions on average are blocked",
                standing.held_up
            ),
        )
        .why(format!(
            "{:.1} threads on average stand in read, write or fsync, and the server completed {} I/Os in \
             {seconds:.0} s.",
            standing.in_io,
            spindoctor_model::number::whole(completed)
        ))
        .evidence(
            Evidence::new("threads in read, write or fsync", standing.in_io, "", "stacks").series(standing.series.clone()),
        )
        .evidence(
            Evidence::new("I/Os completed", completed / seconds, "1/s", "SHOW GLOBAL STATUS Innodb_data_*, Com_*"),
        )
        .evidence(Evidence::new("of these syncs", synced / seconds, "1/s", "SHOW GLOBAL STATUS Innodb_data_fsyncs"))
        .evidence(Evidence::new("one I/O", one_io_s, "s", "computed").expected("< 1"))
        .evidence(Evidence::new("sessions at work that are blocked", standing.held_up, "", "stacks").expected("< 2"))
        .evidence_if(pressure(window))
        .evidence_all(evidence_of_known_disks(window).into_iter())
        .remedy(look_at_the_device())
        .remedy(unfreeze())
        .remedy(let_a_replica_take_over())
        .explains(&[
            commit_sync_bound::CAUSE.name,
            checkpoint_stall::CAUSE.name,
            free_page_wait::CAUSE.name,
            index_lock::CAUSE.name,
        ])
        .explains(if one_io_s >= HANGS_S { &[file_extension_stall::CAUSE.name] } else { &[] })
        .finding(),
    ))
}

/// One I/O of a commit does not end, and all commits queue behind it.
fn of_commits(measured: &Measured) -> Option<Finding> {
    let Measured { standing, one_commit_s, .. } = measured;
    if *one_commit_s < HANGS_S || standing.in_commit < HELD_UP {
        return None;
    }
    let share = (standing.in_commit / standing.at_work.max(1.0)).min(1.0);
    let headline = format!(
        "Storage does not answer: one I/O of a commit has stood for {one_commit_s:.1} s or more, and {:.1} sessions on average wait \
         for their commit",
        standing.in_commit
    );
    let why = "One thread stands in a write or sync of the log that commits share, and no change ended meanwhile: all others queue \
               behind it. Where only the binary log lies on that storage, reads go on.";
    let draft = Draft::new(&CAUSE, share, headline).why(why);
    Some(
        draft
            .evidence_all(standing.one_commit.evidence().into_iter())
            .evidence(
                Evidence::new("sessions at their commit", standing.in_commit, "", "stacks").expected("< 2"),
            )
            .remedy(look_at_the_device())
            .remedy(unfreeze())
            .remedy(let_a_replica_take_over())
            .explains(&[commit_sync_bound::CAUSE.name])
            .finding(),
    )
}
