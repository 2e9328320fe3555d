//! `checkpoint-stall`: the redo log is too small for the write rate, and pages are flushed in a hurry.

use spindoctor_model::mysql::ServerSample;
use spindoctor_model::number::bytes;
use spindoctor_model::window::Series;
use spindoctor_model::{
    Evidence, Finding, Remedy, TimeClass, TroubleKind, Unavailable, Window, redo_log, window,
};

use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::sessions::mean;
use crate::stall::{LATCH_WAITS, Look, Stall, nobody};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

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
    evidence: "The checkpoint age in each sample: Innodb_redo_log_current_lsn less checkpoint_lsn (MySQL 8.0.30 \
               and later), Innodb_checkpoint_age (MariaDB, Percona), the metric log_lsn_checkpoint_age where it \
               is enabled, or the LOG section of the InnoDB status. The limit: Innodb_checkpoint_max_age, the \
               metric log_max_modified_age_sync, or computed from the capacity as the server does. The redo rate \
               over the window, and from it the time in which the log is filled once. And the stops themselves: \
               sessions whose stacks wait for room in the log (log_free_check_wait), and the metric \
               log_on_file_space_waits where it is enabled. It fires when the log is filled within ten minutes and \
               the age is at 7/8 of the limit or more in half of the samples, or stops were counted between half \
               of them, or on average two sessions and a tenth of those at work wait for room. A log that is filled \
               within a minute is flushed all the time, and on a slow disk that alone blocks writers: as many \
               that wait for a page, while the stacks show the page cleaner in the middle of writing one, are the \
               same stall. The estimate is the share of the sessions at work that wait for room or for such a page, or \
               half the share of samples at the limit where that is more: an estimate, because a thread that is \
               stopped blocks others elsewhere. An error log that was given and ends with a full redo log is enough.",
    looks_alike: "Innodb_log_waits counts waits for the log buffer in memory, another thing: raise \
                  innodb_log_buffer_size for that. Commits that wait for fsync are commit-sync-bound. A high age \
                  that does not change on a server that writes little is a lazy checkpoint, not a stall. Threads \
                  that flush pages to get a free one wait for the buffer pool, not for the log.",
    remedies: "A larger redo log: room for an hour of writing lets the flushing even out. MySQL 8.0.30 and later: \
               innodb_redo_log_capacity; MariaDB 10.9 and later: innodb_log_file_size; both while the server \
               runs. Before those: innodb_log_file_size in the option file and a clean restart. If storage idles \
               meanwhile, innodb_io_capacity and innodb_io_capacity_max let the background flush sooner.",
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
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From this share of the limit on InnoDB flushes by age and not by plan (max_modified_age_async).
const AT_LIMIT: f64 = 7.0 / 8.0;

/// Share of samples at the limit, or with stops since the one before. A burst that runs into it once is not a log too
/// small.
const SAMPLES_AT_LIMIT: f64 = 0.5;

/// Counts the threads that were stopped until there was room in the log. It is off by default, and does not grow on a
/// server whose log is large enough.
const STOPS: &str = "log_on_file_space_waits";

/// Functions that wait for room in the log, and for nothing else that sessions wait for in crowds.
const WAITS_FOR_ROOM: &[&str] = &[
    "log_free_check_wait",              // MySQL 8.0 and later
    "log_checkpoint_margin",            // before, and MariaDB
    "log_preflush_pool_modified_pages", // before
    "buf_flush_wait_flushed",           // MariaDB 10.5 and later
];

/// Sessions that are blocked by the log alone.
const LOOK: Look = Look {
    does: &[],
    waits: |names| names.iter().any(|name| WAITS_FOR_ROOM.contains(name)),
    waits_beside: nobody,
};

/// Sessions that wait for a page, and the thread that writes one. A page that is written is latched until its changes are in the log
/// on disk and its copy is in the doublewrite buffer (MySQL: buf0flu.cc, buf_flush_page), and one that waits to change it
/// keeps all others from reading it.
const FLUSHED: Look = Look {
    does: &["buf_flush_page"],
    waits: nobody,
    waits_beside: |names| {
        names.contains(&"buf_page_get_gen") && names.iter().any(|name| LATCH_WAITS.contains(name))
    },
};

/// Share of the snapshots in which a page is being written from which on the disk is slow: one takes some microseconds.
const FLUSHES_RATIO: f64 = 0.3;

/// A log that is filled sooner than this is what pages are written for, whatever its age is when somebody looks: adaptive
/// flushing then has all of them written within a minute, and would otherwise leave most of them for many (an estimate; the
/// lab's stalls fill theirs in 3 to 20 s).
const FLUSHED_WITHIN_S: f64 = 60.0;

/// A log that takes longer than this to fill once gives the flushing time enough: at that pace a high
/// age is a choice of the flusher.
const FILLED_WITHIN_S: f64 = 600.0;

/// What a sample at the limit costs: about half of the writing, as an estimate.
const LOST_AT_LIMIT: f64 = 0.5;

/// Room for that long is asked for: bursts and the nightly batch even out over an hour.
const ROOM_FOR_S: f64 = 3600.0;

/// More redo than this is never asked for: recovery after a crash has to read it.
const MOST_BYTES: f64 = 64.0 * GIB;

/// Where the buffer pool is known, no more is asked for than it holds, and this: what is in the log is of pages that are dirty
/// in the pool (an estimate: a page that is changed often has more redo than its size).
const LEAST_BOUND_BYTES: f64 = GIB;

/// Share of the free disk that a larger log may take: the rest is for data.
const SHARE_OF_DISK: f64 = 0.5;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// What an error log ends with: `Redo log writer is waiting for a new redo log file` (MySQL 8.0.30), `The age of the last checkpoint
/// is ...` (to 5.7, MariaDB). How long writers stood it does not say.
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::RedoLogFull)?;
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "The redo log had no room left for what was written")
            .why("Who changes something waits until pages are on disk and a part of the log can be written again.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "A larger redo log: innodb_redo_log_capacity (MySQL 8.0.30 and later), innodb_log_file_size elsewhere".into(),
                why: "Room for an hour of writing lets the flushing even out.".into(),
                dynamic: true,
                risk: "It takes disk space, and crash recovery reads more; before MySQL 8.0.30 and MariaDB 10.9 the server has to be \
                       restarted."
                    .into(),
                undo: "The size before, the same way.".into(),
            })
            .finding(),
    )
}

/// How full the redo log is, and how fast it fills.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filling {
    /// The checkpoint age as a share of its limit, over time.
    ratios: Series,
    /// Its mean.
    pub(crate) mean_ratio: f64,
    /// Share of the samples at the limit.
    at_limit: f64,
    /// The limit of the checkpoint age, bytes.
    limit: f64,
    /// Redo written, bytes a second.
    per_s: f64,
    /// At that rate the limit is written once in so many seconds.
    pub(crate) filled_in_s: f64,
    age_by: &'static str,
    limit_by: &'static str,
}

/// What would show it: the metric that everybody with the right to PROCESS may read, or the text of the status.
const AGE_UNLOCK: &str = "SET GLOBAL innodb_monitor_enable = 'log_lsn_checkpoint_age', or where SHOW ENGINE INNODB STATUS is \
                          asked (fleet doctor does not) GRANT PROCESS";

/// How full the redo log is, or why that is not known.
pub(crate) fn filling(window: &Window) -> Result<Filling, Unavailable> {
    let (ages, age_by) = checkpoint_ages(window).ok_or_else(|| {
        window.missing(|s| &s.server.status).unwrap_or_else(|| {
            Unavailable::because("the checkpoint age could not be read").unlock(AGE_UNLOCK)
        })
    })?;
    let (limit, limit_by) = limit(window).ok_or_else(|| {
        window
            .missing(|s| &s.server.variables)
            .unwrap_or_else(|| Unavailable::because("the size of the redo log is not known"))
    })?;
    let per_s = redo_per_s(window)?;
    let ratios: Series = ages.iter().map(|&(at_s, age)| (at_s, age / limit.max(1.0))).collect();
    let at_limit = mean(ratios.iter().map(|&(_, ratio)| f64::from(u8::from(ratio >= AT_LIMIT))));
    let mean_ratio = mean(ratios.iter().map(|&(_, ratio)| ratio));
    let filled_in_s = limit / per_s.max(1.0);
    Ok(Filling { ratios, mean_ratio, at_limit, limit, per_s, filled_in_s, age_by, limit_by })
}

/// Writers that were seen to stop, however old the checkpoint was when somebody looked: with a log of some megabytes it
/// runs to the limit and back within a second.
#[derive(Debug, Clone, Default)]
struct Stopped {
    /// Share of the times between two samples in which stops were counted; none where nothing counts them.
    counted_ratio: Option<f64>,
    /// Sessions in whose stacks it is seen; none where no stacks were taken, or they have no names.
    seen: Option<Stall>,
    /// Those that wait for a page that is written, where they are enough to be a queue and the log is the reason.
    behind_flushes: Option<Stall>,
}

impl Stopped {
    fn from_window(window: &Window, filled_in_s: f64) -> Self {
        let counts = window.all(|s| &s.server.innodb_metrics);
        let counts = counts.iter().filter_map(|&(at_s, metrics)| {
            let metric = metrics.get(STOPS).filter(|metric| metric.enabled)?;
            Some((at_s, metric.count))
        });
        let rates = window::rates(&counts.collect::<Series>());
        let grew = rates.iter().map(|&(_, per_s)| f64::from(u8::from(per_s > 0.0)));
        // Of one growth nobody knows whether it was a burst.
        let counted_ratio = (rates.len() > 1).then(|| mean(grew));
        let seen = |look| Stall::count(window, look).ok().flatten();
        let is_behind = |stall: &Stall| {
            filled_in_s <= FLUSHED_WITHIN_S && stall.matters() && stall.seen_ratio >= FLUSHES_RATIO
        };
        Self { counted_ratio, seen: seen(LOOK), behind_flushes: seen(FLUSHED).filter(is_behind) }
    }

    /// Share of the samples that count as full by what was counted.
    fn counted(&self) -> f64 {
        self.counted_ratio.unwrap_or_default()
    }

    /// Share of the sessions at work that wait for room or for a page that is written, where they are enough to be a queue.
    fn queue_ratio(&self) -> Option<f64> {
        let for_room = self.seen.as_ref().filter(|stall| stall.matters());
        let queues: Vec<f64> =
            [for_room, self.behind_flushes.as_ref()].into_iter().flatten().map(Stall::ratio).collect();
        (!queues.is_empty()).then(|| queues.iter().sum::<f64>().min(1.0))
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
    let how_full = if at_limit < SAMPLES_AT_LIMIT { "runs full again and again" } else { "is full" };
    let stops = [STOPS, "buffer_flush_sync_waits"]
        .into_iter()
        .find_map(|name| Some((name, window.metric_growth(name)?)));
    let most_ratio = ratios.iter().map(|&(_, ratio)| ratio).fold(0.0, f64::max);
    let how_much = match mean_ratio {
        full if full >= AT_LIMIT => format!("{:.0} %", full * 100.0),
        _ => format!("up to {:.0} %", most_ratio * 100.0),
    };
    let of_limit = Evidence::new("checkpoint age, share of the limit", mean_ratio, "ratio", age_by);
    // A mean that is below the bound is not what speaks for the cause.
    let of_limit = if mean_ratio >= AT_LIMIT { of_limit.expected("< 0.87") } else { of_limit };
    let mut draft = Draft::new(
        &CAUSE,
        (LOST_AT_LIMIT * full).max(queue.unwrap_or_default()),
        format!(
            "The redo log {how_full}: {how_much} of what is usable, filled once in {filled_in_s:.0} s"
        ),
    )
    .why(format!(
        "The server writes {} of redo a second into {} of usable log; writers wait while old pages are flushed \
         to make room.",
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

/// Bytes between the last checkpoint and the newest redo, over time.
fn checkpoint_ages(window: &Window) -> Option<(Series, &'static str)> {
    let of_status = |pick: &dyn Fn(&ServerSample) -> Option<f64>| -> Series {
        window.samples.iter().filter_map(|sample| Some((sample.at_s, pick(&sample.server)?))).collect()
    };
    let by_lsn = of_status(&|server| {
        let status = server.status.value()?;
        let current = status.number("Innodb_redo_log_current_lsn")?;
        Some((current - status.number("Innodb_redo_log_checkpoint_lsn")?).max(0.0))
    });
    if !by_lsn.is_empty() {
        return Some((by_lsn, "SHOW GLOBAL STATUS Innodb_redo_log_*"));
    }
    let by_age = of_status(&|server| server.status.value()?.number("Innodb_checkpoint_age"));
    if !by_age.is_empty() {
        return Some((by_age, "SHOW GLOBAL STATUS Innodb_checkpoint_age"));
    }
    let by_metric = of_status(&|server| {
        let metric = server.innodb_metrics.value()?.get("log_lsn_checkpoint_age")?;
        metric.enabled.then_some(metric.count)
    });
    if !by_metric.is_empty() {
        return Some((by_metric, "INNODB_METRICS log_lsn_checkpoint_age"));
    }
    let by_text = of_status(&|server| Some(server.innodb_status.value()?.log.checkpoint_age_bytes()? as f64));
    (!by_text.is_empty()).then_some((by_text, "SHOW ENGINE INNODB STATUS"))
}

/// The checkpoint age at which InnoDB flushes at once or stops writers, whichever comes first.
fn limit(window: &Window) -> Option<(f64, &'static str)> {
    redo_log::checkpoint_limit(
        window.server.version,
        window.latest(|s| &s.server.status),
        window.latest(|s| &s.server.innodb_metrics),
        window.latest(|s| &s.server.variables),
    )
}

/// Bytes of redo written a second.
fn redo_per_s(window: &Window) -> Result<f64, Unavailable> {
    for name in ["Innodb_redo_log_current_lsn", "Innodb_lsn_current", "Innodb_os_log_written"] {
        if let Some(per_s) = window.status_per_s(name) {
            return Ok(per_s);
        }
    }
    let text: Series = window
        .all(|s| &s.server.innodb_status)
        .iter()
        .filter_map(|&(at_s, status)| Some((at_s, status.log.current_lsn? as f64)))
        .collect();
    window::rates(&text)
        .last()
        .map(|&(_, per_s)| per_s)
        .ok_or_else(|| Unavailable::because("how much redo is written could not be read"))
}

fn larger_log(window: &Window, per_s: f64) -> Remedy {
    let version = window.server.version;
    let is = |mysql: bool, at_least: (u16, u16, u16)| {
        let (major, minor, patch) = at_least;
        version.is_some_and(|v| match mysql {
            true => v.mysql_at_least(major, minor, patch),
            false => v.mariadb_at_least(major, minor, patch),
        })
    };
    let (variable, dynamic) = if is(true, (8, 0, 30)) {
        ("innodb_redo_log_capacity", true)
    } else {
        ("innodb_log_file_size", is(false, (10, 9, 0)))
    };
    let now = window.variable_number(variable).unwrap_or(0.0);
    let files = if variable == "innodb_log_file_size" {
        window.variable_number("innodb_log_files_in_group").unwrap_or(1.0).max(1.0)
    } else {
        1.0
    };
    // At least four times as much, or the next window looks the same; rounded up to whole gigabytes.
    let pool = window.variable_number("innodb_buffer_pool_size");
    let bound = pool.map_or(MOST_BYTES, |pool| pool.clamp(LEAST_BOUND_BYTES, MOST_BYTES)) / files;
    let wanted = (per_s * ROOM_FOR_S / files).min(bound).max((4.0 * now).min(MOST_BYTES));
    let rounded =
        if wanted >= GIB { (wanted / GIB).ceil() * GIB } else { (wanted / (64.0 * MIB)).ceil() * 64.0 * MIB };
    let room = window.latest(|s| &s.host.data_directory).map_or(f64::INFINITY, |d| d.free_bytes as f64);
    let most = now + SHARE_OF_DISK * room / files;
    let rounded =
        if rounded > most { ((most / (64.0 * MIB)).floor() * 64.0 * MIB).max(now) } else { rounded };
    let setting = format!("{variable} = {rounded:.0}");
    Remedy {
        statement: if dynamic {
            format!("SET GLOBAL {setting}")
        } else {
            format!("Set {setting} in the option file, and restart the server cleanly")
        },
        why: format!(
            "{} hold {} of this writing; flushing evens out.",
            bytes(rounded * files),
            match rounded * files / per_s.max(1.0) {
                long if long >= 5400.0 => format!("{:.0} hours", long / 3600.0),
                short => format!("{:.0} minutes", short / 60.0),
            }
        ),
        dynamic,
        risk: format!("Takes {} of disk, and recovery after a crash takes longer.", bytes(rounded * files)),
        undo: if dynamic {
            format!("SET GLOBAL {variable} = {now:.0}")
        } else {
            format!("{variable} = {now:.0}")
        },
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::InnodbMetric;
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::{Build, answer};

    /// 100 MiB of redo log, 8 MB of redo a second.
    pub(crate) fn fires() -> Window {
        Build::busy("8.0.36").lsn(1e9, 84e6, 8e6).window()
    }

    /// The same age on a server that hardly writes.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36").lsn(1e9, 84e6, 50e3).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    /// A sawtooth whose teeth are shorter than a second: looked at in between, it is at three quarters of the limit.
    fn between_two_stops() -> Build {
        Build::busy("9.7.4").lsn(1e9, 65e6, 8e6)
    }

    #[test]
    fn a_log_is_never_advised_larger_than_the_buffer_pool_and_a_mean_below_its_bound_is_no_evidence() {
        // 10.6 MB of redo a second would take 38 GB for an hour; the host has 24 GiB, the pool 12.
        let maria = |pool: &str| {
            Build::busy("11.4.10-MariaDB")
                .lsn(1e9, 84e6, 10.6e6)
                .gauge("Innodb_checkpoint_age", 84e6)
                .gauge("Innodb_checkpoint_max_age", 90e6)
                .counter("Innodb_lsn_current", 10.6e6)
                .variable("innodb_log_file_size", "100663296")
                .variable("innodb_buffer_pool_size", pool)
                .window()
        };
        let statement = |pool| found(&maria(pool)).remedies[0].statement.clone();
        assert_eq!(statement("12884901888"), "SET GLOBAL innodb_log_file_size = 12884901888");
        assert_eq!(statement("134217728"), "SET GLOBAL innodb_log_file_size = 1073741824");
        let below = found(&between_two_stops().snapshots(&[(6, ThreadState::Sleep, WAITS)]).window());
        assert!(below.headline.contains("up to "), "{}", below.headline);
        assert!(below.evidence[0].expected.is_empty(), "{:?}", below.evidence[0]);
    }

    const WAITS: &[&str] = &[
        "clock_nanosleep",
        "log_free_check_wait",
        "row_upd",
        "row_update_for_mysql",
        "ha_innobase::update_row",
        "dispatch_command",
    ];

    #[test]
    fn sessions_that_wait_for_room_are_a_stall_however_old_the_checkpoint_is() {
        assert_eq!(evaluate(&between_two_stops().window()), Outcome::Clear);
        let waiting = |sessions| {
            let threads = [(sessions, ThreadState::Sleep, WAITS)];
            between_two_stops().snapshots(&threads).window()
        };
        let finding = found(&waiting(6));
        assert_eq!(finding.score, 0.75, "six of eight");
        assert!(finding.headline.contains("runs full again and again"), "{}", finding.headline);
        // One that waits now and then is no queue.
        assert_eq!(evaluate(&waiting(1)), Outcome::Clear);
        // A disk that answers nothing: nobody writes, so no log would be large enough.
        let threads = [(6, ThreadState::Sleep, WAITS)];
        let silent = Build::busy("9.7.4").lsn(1e9, 65e6, 5e3).snapshots(&threads).window();
        assert_eq!(evaluate(&silent), Outcome::Clear);
    }

    /// The log is too small, and who is not stopped by that fills the CPUs.
    #[test]
    fn full_cpus_stand_behind_a_log_that_stops_sessions() {
        let threads = [(6, ThreadState::Sleep, WAITS)];
        let window = between_two_stops().snapshots(&threads).runs(4.0, 8.0).host_cpu(4.0, 0.0).window();
        let causes: Vec<String> =
            crate::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
        assert_eq!(causes[0], CAUSE.name, "{causes:?}");
    }

    #[test]
    fn sessions_that_wait_for_pages_of_a_hurried_page_cleaner_are_the_same_stall() {
        const WAITS: &[&str] = &[
            "futex",
            "sync_array_wait_event",
            "rw_lock_x_lock_func",
            "buf_page_get_gen",
            "dispatch_command",
        ];
        const FLUSHES: &[&str] = &["futex", "dblwr::write", "buf_flush_page", "buf_flush_do_batch"];
        let window = |redo_per_s, flushing| {
            let threads: [(u32, ThreadState, &[&str]); 2] =
                [(6, ThreadState::Lock, WAITS), (flushing, ThreadState::Condition, FLUSHES)];
            Build::busy("9.7.4")
                .lsn(1e9, 55e6, redo_per_s)
                .variable("innodb_flush_log_at_trx_commit", "2")
                .snapshots(&threads)
                .window()
        };
        let finding = found(&window(4e6, 1));
        assert_eq!(
            (finding.score, finding.explains.as_slice()),
            (0.75, ["commit-sync-bound".to_owned()].as_slice())
        );
        // They wait for one another's changes, or the log is large enough.
        assert_eq!(evaluate(&window(4e6, 0)), Outcome::Clear);
        assert_eq!(evaluate(&window(0.4e6, 1)), Outcome::Clear);
    }

    #[test]
    fn stops_that_are_counted_again_and_again_are_a_stall_and_one_burst_is_none() {
        let counting = |count: fn(f64) -> f64| {
            between_two_stops()
                .each(move |at_s, server, _| {
                    let metric = InnodbMetric { count: count(at_s), enabled: true };
                    server.innodb_metrics = answer(at_s, [(STOPS.to_owned(), metric)].into());
                })
                .window()
        };
        // Every other second.
        let finding = found(&counting(|at_s| 100.0 + 32.0 * (at_s / 2.0).floor()));
        assert_eq!(finding.score, LOST_AT_LIMIT * 0.5);
        assert!(finding.evidence.iter().any(|evidence| evidence.reading == "stops counted"));
        assert_eq!(evaluate(&counting(|at_s| if at_s < 5.0 { 100.0 } else { 132.0 })), Outcome::Clear);
    }

    #[test]
    fn room_for_an_hour_is_asked_for_in_whole_gigabytes() {
        let remedy = found(&fires()).remedies.remove(0);
        assert_eq!(remedy.statement, "SET GLOBAL innodb_redo_log_capacity = 28991029248");
        assert_eq!(remedy.undo, "SET GLOBAL innodb_redo_log_capacity = 104857600");
        assert!(remedy.dynamic);
    }

    #[test]
    fn a_small_disk_bounds_what_is_asked_for() {
        let on = |free_bytes| {
            Build::busy("8.0.36")
                .lsn(1e9, 84e6, 8e6)
                .each(move |at_s, _, host| {
                    let room = spindoctor_model::host::DataDirectory { free_bytes, ..Default::default() };
                    host.data_directory = crate::testing::answer(at_s, room);
                })
                .window()
        };
        let asked = |free| found(&on(free)).remedies.remove(0).statement;
        assert_eq!(asked(1 << 40), "SET GLOBAL innodb_redo_log_capacity = 28991029248");
        assert_eq!(asked(2 << 30), "SET GLOBAL innodb_redo_log_capacity = 1140850688");
        assert_eq!(asked(1 << 20), "SET GLOBAL innodb_redo_log_capacity = 104857600");
    }

    #[test]
    fn each_server_gets_the_variable_that_it_has() {
        let maria = |version| {
            Build::busy(version)
                .gauge("Innodb_checkpoint_age", 79e6)
                .counter("Innodb_os_log_written", 8e6)
                .window()
        };
        let new = found(&maria("10.11.19-MariaDB")).remedies.remove(0);
        assert!(
            new.dynamic && new.statement.starts_with("SET GLOBAL innodb_log_file_size"),
            "{}",
            new.statement
        );
        let old = found(&maria("10.6.12-MariaDB")).remedies.remove(0);
        assert!(!old.dynamic && old.statement.contains("restart"), "{}", old.statement);
    }
}
