//! `storage-stalled`: storage hardly answers: one I/O takes a second and more, and sessions are blocked behind it.

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, TroubleKind, Unavailable, Window};

use super::{
    checkpoint_stall, commit_sync_bound, file_extension_stall, free_page_wait, index_lock, latch_pileup,
};
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::sessions::mean;
use crate::stack_evidence::is_name;
use crate::time_model::tables;
use crate::{Cause, Costs, Outcome, Rule, Stacks, spin_samples};

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
               statements that changed rows). The number that stand divided by the I/Os completed in a second is the time of one I/O \
               (Little's law), and the same of syncs alone, because writes end in the page cache. It fires at a second or \
               more, where fewer than ten I/Os a second end, and two or more sessions at work are blocked. The estimate is their share of the sessions at work. \
               Or one write or sync of a commit, of a binary log on storage of its own, stands in one thread for 3 s, and fewer changes ended \
               than sessions are blocked. Without stacks, InnoDB's text: I/O is under way and none ended in the time of its averages, 3 s or more.",
    looks_alike: "A disk that is slow and answers takes milliseconds, not seconds: commit-sync-bound, checkpoint-stall, \
                  file-extension-stall. A process that a signal or the freezer holds does no I/O either: server-stopped. A \
                  full disk: the server waits for room and says so in its error log.",
    remedies: "Look at the device: the kernel's log (dmesg), its error counters (smartctl, multipath), the volume's credit, \
               what else writes to it, limits of the control group (io.max). A file system that a backup froze for its snapshot and \
               did not let go: fsfreeze --unfreeze. Let a replica on other storage take over: \
               the server cannot be helped from inside, and a restart has to read from the same disk.",
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
        TimeClass::Other,
    ],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
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

/// Snapshots below which no mean is given.
const ENOUGH: usize = 5;

/// I/Os completed, as InnoDB counts them.
const OF_INNODB: [&str; 3] = ["Innodb_data_reads", "Innodb_data_writes", "Innodb_data_fsyncs"];

/// Statements that change rows, each an I/O, or a part of one that a group shares, where another log is synced, or where
/// the writes of the redo log are not counted, as on MariaDB. Handler_commit is no measure of them:
/// it counts what the server commits in its own dictionary, too.
const CHANGES: [&str; 5] = ["Com_commit", "Com_insert", "Com_update", "Com_delete", "Com_replace"];

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

/// What the kernel's own log says of threads that waited in it.
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::HungInKernel)?;
    let who = trouble
        .line
        .split_once("INFO: task ")
        .and_then(|(_, rest)| rest.split(':').next())
        .unwrap_or("a program");
    let why = "The kernel says so of a thread that has waited in it without a break, nearly always for a disk or a file system that \
               does not answer. The functions below the line say for which.";
    let draft =
        Draft::new(&CAUSE, WARNING_FROM, format!("A thread of {who} stood in the kernel for minutes"));
    let draft = draft.why(why).evidence_all(logged::evidence(trouble, times).into_iter());
    Some(draft.remedy(look_at_the_device()).remedy(unfreeze()).remedy(let_a_replica_take_over()).finding())
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

/// What InnoDB's text prints of I/O that does not end.
struct Printed {
    /// `1 flush of the redo log`, each kind of I/O that is under way.
    under_way: Vec<String>,
    count: u64,
    over_s: u64,
    /// The longest wait for a latch.
    waited_s: f64,
}

/// I/O is under way in InnoDB's text, and none ended in the time of its averages.
fn as_printed(window: &Window) -> Option<Finding> {
    let status = window.latest(|sample| &sample.server.innodb_status)?;
    // Of averages over an instant one cannot say that nothing ended.
    let over_s = status.averages_over_s.filter(|over_s| *over_s >= LEAST_AVERAGED_S)?;
    if status.ios_per_s? > 0.0 {
        return None;
    }
    let (pool, io) = (&status.buffer_pool, &status.file_io);
    let pages = [pool.pending_flush_list_writes, pool.pending_lru_writes, pool.pending_single_page_writes];
    let pages: u64 = pages.into_iter().flatten().sum();
    let kinds = [
        (
            status.log.pending_writes.unwrap_or(0).max(io.pending_log_fsyncs.unwrap_or(0)),
            "flush of the redo log",
            "flushes of the redo log",
        ),
        (pages, "page write", "page writes"),
        (io.pending_data_fsyncs.unwrap_or(0), "sync of a data file", "syncs of data files"),
        (pool.pending_reads.unwrap_or(0).max(io.pending_reads.unwrap_or(0)), "read", "reads"),
    ];
    let counted = kinds.iter().filter(|(count, ..)| *count > 0);
    let under_way: Vec<String> =
        counted.map(|&(count, one, many)| spindoctor_model::number::counted(count, one, many)).collect();
    let waits = status.semaphores.waiters.iter().filter(|wait| !wait.ended);
    let waited_s = waits.map(|wait| wait.waited_s).fold(0.0, f64::max);
    let count = kinds.iter().map(|(count, ..)| count).sum();
    let main_thread = status.row_operations.main_thread_state.as_deref().unwrap_or_default();
    let is_blocked = waited_s >= ONE_IO_S
        || main_thread.contains("flushing log")
        || main_thread.contains("making checkpoint");
    // One I/O of a quiet server may have begun just now.
    if count == 0 || count == 1 && !is_blocked {
        return None;
    }
    Some(printed_finding(window, &Printed { under_way, count, over_s, waited_s }))
}

/// Averages over so many seconds say that no I/O ended: an I/O that works takes a tenth of a second at most.
const LEAST_AVERAGED_S: u64 = 3;

fn printed_finding(window: &Window, printed: &Printed) -> Finding {
    let status = window.latest(|sample| &sample.server.innodb_status);
    let source = "SHOW ENGINE INNODB STATUS";
    let waiters =
        || status.into_iter().flat_map(|status| &status.semaphores.waiters).filter(|wait| !wait.ended);
    let held = waiters().find(|wait| !wait.locked_at.is_empty() && wait.holder_pthread_id.is_some());
    let free = status.and_then(|status| Some((status.buffer_pool.free_pages?, status.buffer_pool.pages?)));
    let main_thread = status.and_then(|status| status.row_operations.main_thread_state.clone());
    let Printed { under_way, count, over_s, waited_s } = printed;
    let is_plural = if *count == 1 { "is" } else { "are" };
    Draft::new(
        &CAUSE,
        1.0,
        format!("Storage does not answer: {} {is_plural} under way, and no I/O ended in {over_s} s", under_way.join(", ")),
    )
    .why(match held {
        Some(wait) => format!(
            "The thread that has the latch for which others wait took it at {}: it keeps it because its own I/O does not end.",
            wait.locked_at
        ),
        None => "What is under way does not end, though the server does nothing else meanwhile.".to_owned(),
    })
    .evidence(Evidence::new("I/O under way", under_way.join(", "), "", source).expected("0"))
    .evidence(Evidence::new("I/Os that ended, on average", 0.0, "1/s", source))
    .evidence(Evidence::new("over", *over_s as f64, "s", source))
    .evidence_if((*waited_s > 0.0).then(|| Evidence::new("longest wait for a latch", *waited_s, "s", source).expected("< 1")))
    .evidence_if(main_thread.map(|state| Evidence::new("InnoDB's main thread", state, "", source)))
    .evidence_if(free.map(|(free, all)| Evidence::new("free pages", format!("{free} of {all}"), "", source)))
    .remedy(Remedy {
        statement: "On the server's host: look at the device, or the network file system, that holds the data (dmesg, df, \
                    iostat -x 1, the volume's own health)"
            .into(),
        why: "The I/O stands below the server: no setting of it makes a disk answer.".into(),
        dynamic: true,
        ..Remedy::default()
    })
    .remedy(Remedy {
        statement: "Let a replica on other storage take over".into(),
        why: "The server cannot be helped from inside, and a restart has to read from the same disk.".into(),
        dynamic: true,
        risk: "The old source goes on writing when its disk comes back: fence it first.".into(),
        undo: "Let the old source follow as a replica.".into(),
    })
    .explains(&[
        latch_pileup::CAUSE.name,
        commit_sync_bound::CAUSE.name,
        checkpoint_stall::CAUSE.name,
        index_lock::CAUSE.name,
    ])
    .finding()
}

fn measure(window: &Window) -> Result<Measured, Unavailable> {
    let profile = match (window.profile.value(), window.profile.unavailable()) {
        (Some(profile), _) => profile,
        (None, Some(why)) => return Err(why.clone()),
        (None, None) => return Err(Unavailable::because("no stacks were taken")),
    };
    if profile.snapshots.len() < ENOUGH {
        return Err(Unavailable::because(format!(
            "only {} snapshots of the stacks were taken, {ENOUGH} are needed",
            profile.snapshots.len()
        ))
        .unlock("a longer window, --duration 10s"));
    }
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let synced = window.need_growth("Innodb_data_fsyncs")?;
    let growth = |names: &[&str]| names.iter().filter_map(|name| window.status_growth(name)).sum::<f64>();
    let standing = Standing::count(profile);
    // A statement is counted when it begins: as many as are at work have not ended.
    let changes = (growth(&CHANGES) - standing.at_work).max(0.0);
    // One sync of another log serves each session at work once, and one I/O all that stand behind it.
    let synced = synced.max(changes / standing.at_work.max(1.0));
    let behind_one_io = (standing.at_work / standing.in_io.max(1.0)).max(1.0);
    let completed = growth(&OF_INNODB) + changes / behind_one_io;
    // Less than one I/O in the window: it lasts longer than that.
    let one_s = |standing: f64, completed: f64| standing * seconds / completed.max(standing.max(1.0));
    let one_io_s = one_s(standing.in_io, completed).max(one_s(standing.in_sync, synced));
    let is_at_rest = changes < standing.in_commit.max(1.0);
    let one_commit_s = if is_at_rest { standing.one_commit.seconds } else { 0.0 };
    Ok(Measured { standing, seconds, completed, synced, one_io_s, one_commit_s })
}

/// What the I/Os of a window come to.
struct Measured {
    standing: Standing,
    seconds: f64,
    /// I/Os that ended.
    completed: f64,
    /// Syncs that ended.
    synced: f64,
    one_io_s: f64,
    /// How long one I/O of a commit has stood, where no change ended meanwhile; else 0. What InnoDB counts says nothing of a binary log
    /// on storage of its own.
    one_commit_s: f64,
}

/// True where storage hangs, and a file that is being extended waits for it as all others do.
pub(super) fn hangs(window: &Window) -> bool {
    measure(window).is_ok_and(|it| it.one_io_s >= HANGS_S && it.completed / it.seconds < ANSWERS_PER_S)
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let measured = measure(window)?;
    let answers = measured.completed / measured.seconds >= ANSWERS_PER_S;
    let standing = &measured.standing;
    if standing.in_io < STANDING || measured.one_io_s < ONE_IO_S || answers || standing.held_up < HELD_UP {
        return Ok(of_commits(&measured));
    }
    let Measured { standing, seconds, completed, synced, one_io_s, .. } = measured;
    let share = (standing.held_up / standing.at_work.max(1.0)).min(1.0);
    let pressure = window.change(|s| &s.host.pressure).and_then(|change| {
        let stalled_us = change.last.io_full_us?.checked_sub(change.first.io_full_us?)?;
        Some(stalled_us as f64 / 1e6 / change.seconds)
    });
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
        .evidence_if(
            pressure.map(|ratio| Evidence::new("time in which all tasks waited for I/O", ratio, "ratio", "/proc/pressure/io")),
        )
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

/// Threads over the snapshots of a profile, means.
#[derive(Debug, Default)]
struct Standing {
    /// In read, write or fsync of a file.
    in_io: f64,
    /// Of these, in fsync.
    in_sync: f64,
    /// Sessions that run a statement.
    at_work: f64,
    /// Of these, those that neither run nor wait for a CPU.
    held_up: f64,
    /// Of these, those at their commit.
    in_commit: f64,
    /// The longest write or sync of a commit.
    one_commit: OneIo,
    /// The first over time.
    series: Series,
}

impl Standing {
    fn count(profile: &Profile) -> Self {
        let has_one_of = |functions: &[&str]| -> Vec<bool> {
            (0..profile.stacks.len() as u32)
                .map(|stack| {
                    let observation = Observation { stack, ..Observation::default() };
                    spin_samples::names(profile, &observation).any(|name| functions.contains(&name))
                })
                .collect()
        };
        let (runs_statement, commits) = (has_one_of(tables::STATEMENT), has_one_of(tables::COMMIT));
        let is = |such: &[bool], stack: u32| such.get(stack as usize).copied().unwrap_or_default();
        let at_s = |at: u32| profile.snapshots[at as usize].at_us as f64 / 1e6;
        let mut in_io = vec![0.0; profile.snapshots.len()];
        let (mut in_sync, mut at_work, mut held_up, mut in_commit) = (0.0, 0.0, 0.0, 0.0);
        for one in &profile.observations {
            let Some(count) = in_io.get_mut(one.snapshot as usize) else { continue };
            if is_io(one) {
                *count += 1.0;
            }
            in_sync += f64::from(u8::from(one.state == ThreadState::Sync));
            if is(&runs_statement, one.stack) {
                at_work += 1.0;
                let goes_on = matches!(one.state, ThreadState::Running | ThreadState::Runnable);
                held_up += f64::from(u8::from(!goes_on));
                in_commit += f64::from(u8::from(!goes_on && is(&commits, one.stack)));
            }
        }
        let snapshots = profile.snapshots.len() as f64;
        let one_commit = OneIo::longest(profile, |one| {
            matches!(one.state, ThreadState::DiskWrite | ThreadState::Sync) && is(&commits, one.stack)
        });
        Self {
            in_io: mean(in_io.iter().copied()),
            in_sync: in_sync / snapshots,
            at_work: at_work / snapshots,
            held_up: held_up / snapshots,
            in_commit: in_commit / snapshots,
            one_commit,
            series: in_io.iter().enumerate().map(|(at, &count)| (at_s(at as u32), count)).collect(),
        }
    }
}

/// True for a thread that reads, writes or syncs a file.
fn is_io(one: &Observation) -> bool {
    matches!(one.state, ThreadState::DiskRead | ThreadState::DiskWrite | ThreadState::Sync)
}

/// One I/O in which a thread stands: the same stack in each snapshot from the first to the last.
#[derive(Debug, Clone, Default)]
pub(super) struct OneIo {
    /// How long it has stood at least.
    pub(super) seconds: f64,
    /// The functions of the thread that have names, innermost first.
    pub(super) functions: String,
}

impl OneIo {
    /// True where no disk that works takes as long.
    pub(super) fn hangs(&self) -> bool {
        self.seconds >= HANGS_S
    }

    /// The longest of all threads.
    pub(super) fn longest_of_all(window: &Window) -> Self {
        window.profile.value().map_or_else(Self::default, |profile| Self::longest(profile, is_io))
    }

    /// The longest of those that count.
    fn longest(profile: &Profile, counts: impl Fn(&Observation) -> bool) -> Self {
        let at_s = |at: u32| profile.snapshots.get(at as usize).map_or(0.0, |cost| cost.at_us as f64 / 1e6);
        // Of each thread, its stack, and the first and the last snapshot in which it stood there.
        let mut stands: HashMap<u32, [u32; 3]> = HashMap::new();
        let mut longest: Option<(f64, u32)> = None;
        for one in profile.observations.iter().filter(|one| counts(one)) {
            let now = [one.stack, one.snapshot, one.snapshot];
            let [stack, since, last] = stands.entry(one.thread).or_insert(now);
            if *stack == one.stack && one.snapshot <= *last + 1 {
                *last = one.snapshot;
            } else {
                [*stack, *since, *last] = now;
            }
            let seconds = at_s(*last) - at_s(*since);
            if longest.is_none_or(|(before_s, _)| seconds > before_s) {
                longest = Some((seconds, one.stack));
            }
        }
        longest.map_or_else(Self::default, |(seconds, stack)| {
            let observation = Observation { stack, ..Observation::default() };
            let named = spin_samples::names(profile, &observation).filter(|name| is_name(name));
            Self { seconds, functions: named.take(SHOWN_FUNCTIONS).collect::<Vec<_>>().join(" < ") }
        })
    }

    /// It, as evidence.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let how_long = Evidence::new("one I/O has stood for", self.seconds, "s", "stacks").expected("< 1");
        let where_it_stands = Evidence::new("it stands in", self.functions.clone(), "", "stacks");
        std::iter::once(how_long).chain((!self.functions.is_empty()).then_some(where_it_stands)).collect()
    }
}

/// Functions of a stack that are shown.
const SHOWN_FUNCTIONS: usize = 4;

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState::{Condition, Sync};

    use super::*;
    use crate::testing::{Build, session};

    const SYNCS: &[&str] = &["fsync", "os_file_flush_func", "log_flusher"];
    const COMMITS: &[&str] = &["pthread_cond_wait", "log_write_up_to", "trans_commit", "dispatch_command"];

    fn committing(completed_per_s: f64) -> Build {
        CHANGES
            .iter()
            .fold(Build::busy("8.0.36"), |build, name| build.counter(name, 0.0))
            .counter("Innodb_data_fsyncs", completed_per_s)
            .counter("Innodb_os_log_fsyncs", completed_per_s)
            .only_snapshots(&[(1, Sync, SYNCS), (16, Condition, COMMITS)])
            .sessions(|_| {
                (20..36)
                    .map(|id| session(id, "Query", "waiting for handler commit", "UPDATE t SET a = 1"))
                    .collect()
            })
    }

    pub(crate) fn fires() -> Window {
        committing(0.2).log_syncs("wait/io/file/innodb/innodb_log_file", 0.2, 5e6).window()
    }

    /// A slow disk: a sync takes a tenth of a second, and ends.
    pub(crate) fn near_miss() -> Window {
        committing(10.0).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").without_profile().window()
    }

    #[test]
    fn the_time_of_one_io_is_shown_and_stands_before_the_syncs_that_it_explains() {
        let diagnosis = crate::diagnose(&fires());
        let first = &diagnosis.findings[0];
        assert_eq!(first.cause, CAUSE.name);
        assert!(first.headline.contains("one I/O takes 5.0 s"), "{}", first.headline);
    }

    #[test]
    fn not_one_io_in_the_window_lasts_longer_than_that() {
        let Outcome::Fired(finding) = evaluate(&committing(0.0).window()) else { panic!() };
        assert!(finding.headline.contains("one I/O takes 10.0 s"), "{}", finding.headline);
    }

    #[test]
    fn statements_that_began_and_stand_are_no_ios_that_were_completed() {
        // 16 sessions; in 10 s 16 statements began, none ended, and no sync.
        let window = committing(0.0).counter("Com_update", 1.6).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        assert!(finding.headline.contains("one I/O takes 10.0 s"), "{}", finding.headline);
    }

    #[test]
    fn a_file_that_is_extended_waits_for_storage_that_hangs_and_keeps_one_busy_that_does_not() {
        for (completed_per_s, hangs) in [(0.2, true), (0.7, false)] {
            let window = committing(completed_per_s).window();
            assert_eq!(super::hangs(&window), hangs);
            let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
            let explains = finding.explains.iter().any(|cause| cause == file_extension_stall::CAUSE.name);
            assert_eq!(explains, hangs);
        }
    }

    /// A binary log on a file system that is frozen: InnoDB's own I/O goes on.
    fn frozen_log(changes_per_s: f64) -> Window {
        const WRITES: &[&str] =
            &["write", "my_write", "MYSQL_BIN_LOG::ordered_commit", "trans_commit", "dispatch_command"];
        const QUEUES: &[&str] = &[
            "pthread_cond_wait",
            "Commit_stage_manager::enroll_for",
            "MYSQL_BIN_LOG::ordered_commit",
            "dispatch_command",
        ];
        committing(30.0)
            .counter("Com_update", changes_per_s)
            .only_snapshots(&[(1, ThreadState::DiskWrite, WRITES), (9, Condition, QUEUES)])
            .window()
    }

    #[test]
    fn a_write_of_a_commit_that_does_not_end_is_named_though_other_storage_answers() {
        let Outcome::Fired(finding) = evaluate(&frozen_log(0.0)) else { panic!() };
        assert!(finding.headline.contains("one I/O of a commit has stood for"), "{}", finding.headline);
        assert!(finding.score > 0.9, "{}", finding.score);
        // Commits that end one after the other stand in the same functions.
        assert_eq!(evaluate(&frozen_log(5.0)), Outcome::Clear);
    }

    #[test]
    fn a_quiet_server_whose_thread_syncs_alone_is_clear() {
        let window = committing(0.2).only_snapshots(&[(1, Sync, SYNCS)]).window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }
}
