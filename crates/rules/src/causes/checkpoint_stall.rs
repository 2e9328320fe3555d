//! `checkpoint-stall`: the redo log is too small for the write rate, and pages are flushed in a hurry.

mod backup;
mod filling;
mod larger_log;
mod one_reading;
mod stopped;
#[cfg(test)]
pub(crate) mod tests;

use spindoctor_model::number::bytes;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, TroubleKind, Unavailable, Window};

use crate::draft::Draft;
use crate::logged;
use crate::rank::{NOTE, WARNING_FROM};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

pub(crate) use filling::{Filling, filling};
use larger_log::larger_log;
use stopped::{STOPS, Stopped};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "checkpoint-stall",
    title: "the redo log is too small for the write rate: sync flushing",
    what: "The redo log is a ring. Its oldest part can be overwritten only when the changes in it have reached \
           the data files, and the checkpoint has moved on. The checkpoint age is how much of the ring is in \
           use. Near 7/8 of what is usable InnoDB flushes harder, near 15/16 it flushes everything old at once, \
           and at the limit every thread that wants to write waits until pages are on disk. A ring that is too \
           small for the write rate lives at these limits.",
    why_it_hurts: "Writes go at the speed of random page flushing instead of sequential logging, in stops and \
                   starts. A page that is changed again and again is written each time round the ring, where a \
                   larger log would write it once.",
    evidence: "What is read: the checkpoint age in each sample: Innodb_redo_log_current_lsn less checkpoint_lsn (MySQL 8.0.30 and \
               later), Innodb_checkpoint_age (MariaDB, Percona), the metric log_lsn_checkpoint_age where it is enabled, or the LOG \
               section of the InnoDB status. The limit: Innodb_checkpoint_max_age, the metric log_max_modified_age_sync, or computed \
               from the capacity as the server does. The redo rate over the window, and from it the time in which the log is filled \
               once. And the stops themselves: sessions whose stacks wait for room in the log (log_free_check_wait), and the metric \
               log_on_file_space_waits where it is enabled.\n\n\
               It fires when the log is filled within ten minutes and the age is at 7/8 of the limit or more in half of the samples, \
               or stops were counted between half of them, or on average two sessions and a tenth of those at work wait for room. A \
               log that is filled within a minute is flushed all the time, and on a slow disk that alone blocks writers: as many \
               that wait for a page, while the stacks show the page cleaner in the middle of writing one, are the same stall. An \
               error log that was given and ends with a full redo log is enough. So is the log of xtrabackup or mariabackup that says that \
               the server had written over redo log before it was copied: a warning that costs no session time.\n\n\
               The estimate is the share of the sessions at work that wait for room or for such a page, or half the share of samples \
               at the limit where that is more: an estimate, because a thread that is stopped blocks others elsewhere. It is a note where the \
               age stays below the limit, no stop was counted, and stacks show two sessions or more that wait, none of them for room.",
    looks_alike: "Innodb_log_waits counts waits for the log buffer in memory, another thing: raise \
                  innodb_log_buffer_size for that. Commits that wait for fsync are commit-sync-bound. A high age \
                  that does not change on a server that writes little is a lazy checkpoint, not a stall. Threads \
                  that flush pages to get a free one wait for the buffer pool, not for the log.",
    remedies: "A larger redo log: room for an hour of writing lets the flushing even out. MySQL 8.0.30 and later: \
               innodb_redo_log_capacity; MariaDB 10.9 and later: innodb_log_file_size; both while the server \
               runs. Before those: innodb_log_file_size in the option file and a clean restart. If storage idles \
               meanwhile, innodb_io_capacity and innodb_io_capacity_max let the background flush sooner. A backup that was overtaken: \
               a larger redo log as well, a faster target for it, or an archive of the redo log (innodb_redo_log_archive_dirs, MySQL \
               8.0.17 and later; xtrabackup --redo-log-arch-dir).",
    safety: "Growing is safe while running and needs the disk space. Crash recovery reads the part of the log in \
             use and takes longer with a larger one: minutes for tens of gigabytes on fast storage. Shrinking \
             back is done the same way, and waits for a checkpoint.",
    references: &[
        "MySQL Reference Manual: Redo Log, Configuring Redo Log Capacity",
        "MySQL 8.0 source, log0files_capacity.cc (7/8 and 15/16 of the soft capacity)",
        "MariaDB Knowledge Base: innodb_log_file_size (dynamic from 10.9)",
        "Domas Mituzas, on performance stalls: Fuzzy checkpoint stalls the server",
    ],
    costs: Costs::Waits(&[TimeClass::LogSpace]),
    explains_time: &[
        TimeClass::LogSpace,
        TimeClass::FreePage,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::Commit,
        TimeClass::Write,
    ],
    stacks: Stacks::Standing(&[
        "log_free_check_wait", // 8.0 and later
        "log_checkpoint_margin",
        "log_preflush_pool_modified_pages",
        "buf_flush_wait_flushed",
        "log_buffer_reserve",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// From this share of the limit on InnoDB flushes by age and not by plan (max_modified_age_async).
const AT_LIMIT: f64 = 7.0 / 8.0;

/// Share of samples at the limit, or with stops since the one before. A burst that runs into it once is not a log too
/// small.
const SAMPLES_AT_LIMIT: f64 = 0.5;

/// A log that takes longer than this to fill once gives the flushing time enough: at that pace a high
/// age is a choice of the flusher.
const FILLED_WITHIN_S: f64 = 600.0;

/// What a sample at the limit costs: about half of the writing, as an estimate.
const LOST_AT_LIMIT: f64 = 0.5;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// What an error log ends with, a backup's log among them, or how full the log was in the one reading that was given.
fn of_capture(window: &Window) -> Option<Finding> {
    of_log(window).or_else(|| one_reading::full(window))
}

/// What an error log ends with: `Redo log writer is waiting for a new redo log file` (MySQL 8.0.30), `The age of the last checkpoint
/// is ...` (to 5.7, MariaDB). How long writers stood it does not say.
fn of_log(window: &Window) -> Option<Finding> {
    let Some((trouble, times)) = logged::at_the_end(window, TroubleKind::RedoLogFull) else {
        return backup::overtaken(window);
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "The redo log had no room left for what was written")
            .why("Who changes something waits until pages are on disk and a part of the log can be written again.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(larger_log_anywhere())
            .finding(),
    )
}

/// A larger log, in the words of every version.
fn larger_log_anywhere() -> Remedy {
    Remedy {
        statement: "A larger redo log: innodb_redo_log_capacity (MySQL 8.0.30 and later), innodb_log_file_size elsewhere".into(),
        why: "Room for an hour of writing lets the flushing even out.".into(),
        dynamic: true,
        risk: "It takes disk space, and crash recovery reads more; before MySQL 8.0.30 and MariaDB 10.9 the server has to be \
               restarted."
            .into(),
        undo: "The size before, the same way.".into(),
    }
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Filling { ratios, mean_ratio, at_limit, limit, per_s, filled_in_s, age_by, limit_by } =
        filling(window)?;
    let stopped = Stopped::from_window(window, filled_in_s);
    let full = at_limit.max(stopped.counted());
    let queue = stopped.queue_ratio();
    if (full < SAMPLES_AT_LIMIT && queue.is_none()) || filled_in_s > FILLED_WITHIN_S {
        return Ok(None);
    }
    let stops = [STOPS, "buffer_flush_sync_waits"]
        .into_iter()
        .find_map(|name| Some((name, window.metric_growth(name)?)));
    let most_ratio = ratios.iter().map(|&(_, ratio)| ratio).fold(0.0, f64::max);
    // Adaptive flushing keeps the age there, below the limit, on a server that is well set up.
    let nobody_waits = most_ratio < 1.0 && stopped.nobody();
    let how_full = match at_limit {
        _ if nobody_waits => "is nearly full, and no session waits for room in it",
        at_limit if at_limit < SAMPLES_AT_LIMIT => "runs full again and again",
        _ => "is full",
    };
    let score = if nobody_waits { NOTE } else { (LOST_AT_LIMIT * full).max(queue.unwrap_or_default()) };
    let meanwhile = match nobody_waits {
        true => "pages are flushed by age, and what sessions wait for is something else",
        false => "writers wait while old pages are flushed to make room",
    };
    let how_much = match mean_ratio {
        full if full >= AT_LIMIT => format!("{:.0} %", full * 100.0),
        _ => format!("up to {:.0} %", most_ratio * 100.0),
    };
    let of_limit = Evidence::new("checkpoint age, share of the limit", mean_ratio, "ratio", age_by);
    // A mean that is below the bound is not what speaks for the cause.
    let of_limit = if mean_ratio >= AT_LIMIT { of_limit.expected("< 0.87") } else { of_limit };
    let mut draft = Draft::new(
        &CAUSE,
        score,
        format!("The redo log {how_full}: {how_much} of what is usable, filled once in {filled_in_s:.0} s"),
    )
    .why(format!(
        "The server writes {} of redo a second into {} of usable log; {meanwhile}.",
        bytes(per_s),
        bytes(limit)
    ))
    .evidence(of_limit.series(ratios))
    .evidence_if((at_limit >= SAMPLES_AT_LIMIT).then(|| {
        Evidence::new("samples at 7/8 of the limit or more", at_limit, "ratio", age_by).expected("< 0.5")
    }))
    .evidence(Evidence::new("limit of the checkpoint age", limit, "bytes", limit_by))
    .evidence(Evidence::new("redo written", per_s, "bytes/s", age_by))
    .evidence(Evidence::new("the log is filled once in", filled_in_s, "s", "computed").expected("> 600"));
    if let Some(seen) = stopped.seen.as_ref().filter(|stall| stall.waiting > 0.0) {
        let [waiting, share] = seen.evidence("sessions that wait for room in the log");
        draft = draft.evidence(waiting).evidence(share);
    }
    if let Some(behind) = &stopped.behind_flushes {
        let [waiting, share] = behind.evidence("sessions that wait for a page while one is written");
        draft = draft.evidence(waiting).evidence(share);
    }
    Ok(Some(
        draft
            .evidence_if(
                window
                    .status_per_s("Innodb_buffer_pool_pages_flushed")
                    .map(|pages| Evidence::new("pages flushed", pages, "1/s", "SHOW GLOBAL STATUS")),
            )
            .evidence_if(stops.map(|(name, count)| {
                Evidence::new("stops counted", count, "", &format!("INNODB_METRICS {name}"))
            }))
            .remedy(larger_log(window, per_s))
            .explains(syncs_of_the_cleaner(window))
            .finding(),
    ))
}

/// Commits that need no sync wait for one only because pages are flushed in a hurry.
fn syncs_of_the_cleaner(window: &Window) -> &'static [&'static str] {
    match window.variable_number("innodb_flush_log_at_trx_commit") {
        Some(at_commit) if at_commit != 1.0 => &[super::commit_sync_bound::CAUSE.name],
        _ => &[],
    }
}
