//! `checkpoint-stall`: the redo log is too small for the write rate, and pages are flushed in a hurry.

use spindoctor_model::mysql::ServerSample;
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Finding, Remedy, Unavailable, Window, redo_log, window};

use crate::draft::Draft;
use crate::sessions::mean;
use crate::{Cause, Outcome, Stacks};

/// The catalogue entry.
pub(crate) const CAUSE: Cause = Cause {
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
               over the window, and from it the time in which the log is filled once. It fires when the age is \
               at 7/8 of the limit or more in half of the samples and the log is filled within ten minutes. \
               The score is half the share of samples at the limit: an estimate, because no counter that is on \
               by default counts the stops; log_on_file_space_waits and buffer_flush_sync_waits do where they \
               are enabled.",
    looks_alike: "Innodb_log_waits counts waits for the log buffer in memory, another thing: raise \
                  innodb_log_buffer_size for that. Commits that wait for fsync are commit-sync-bound. A high age \
                  that stands still on a server that writes little is a lazy checkpoint, not a stall. Threads \
                  that flush pages to get a free one are free-page-wait.",
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
    stacks: Stacks::Standing(&[
        "log_free_check_wait", // 8.0 and later
        "log_checkpoint_margin",
        "log_preflush_pool_modified_pages",
        "buf_flush_wait_flushed",
        "log_buffer_reserve",
    ]),
    evaluate,
};

/// From this share of the limit on InnoDB flushes by age and not by plan (max_modified_age_async).
const AT_LIMIT: f64 = 7.0 / 8.0;

/// Share of samples at the limit. A burst that runs into it once is not a log too small.
const SAMPLES_AT_LIMIT: f64 = 0.5;

/// A log that takes longer than this to fill once gives the flushing time enough: at that pace a high
/// age is a choice of the flusher.
const FILLED_WITHIN_S: f64 = 600.0;

/// What a sample at the limit costs: about half of the writing, as an estimate.
const LOST_AT_LIMIT: f64 = 0.5;

/// Room for that long is asked for: bursts and the nightly batch even out over an hour.
const ROOM_FOR_S: f64 = 3600.0;

/// More redo than this is never asked for: recovery after a crash has to read it.
const MOST_BYTES: f64 = 64.0 * GIB;

/// Share of the free disk that a larger log may take: the rest is for data.
const SHARE_OF_DISK: f64 = 0.5;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
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

/// How full the redo log is, or why that is not known.
pub(crate) fn filling(window: &Window) -> Result<Filling, Unavailable> {
    let (ages, age_by) = checkpoint_ages(window).ok_or_else(|| {
        window.missing(|s| &s.server.status).unwrap_or_else(|| {
            Unavailable::because("the checkpoint age could not be read")
                .unlock("GRANT PROCESS (for SHOW ENGINE INNODB STATUS)")
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

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Filling { ratios, mean_ratio, at_limit, limit, per_s, filled_in_s, age_by, limit_by } =
        filling(window)?;
    if at_limit < SAMPLES_AT_LIMIT || filled_in_s > FILLED_WITHIN_S {
        return Ok(None);
    }
    let stops = ["log_on_file_space_waits", "buffer_flush_sync_waits"]
        .into_iter()
        .find_map(|name| Some((name, window.metric_growth(name)?)));
    Ok(Some(
        Draft::new(
            &CAUSE,
            LOST_AT_LIMIT * at_limit,
            format!(
                "The redo log is full: {:.0} % of what is usable, filled once in {filled_in_s:.0} s",
                mean_ratio * 100.0
            ),
        )
        .why(format!(
            "The server writes {} of redo a second into {} of usable log; writers wait while old pages are flushed \
             to make room.",
            bytes(per_s),
            bytes(limit)
        ))
        .evidence(
            Evidence::new("checkpoint age, share of the limit", mean_ratio, "ratio", age_by)
                .expected("< 0.87")
                .series(ratios),
        )
        .evidence(Evidence::new("limit of the checkpoint age", limit, "bytes", limit_by))
        .evidence(Evidence::new("redo written", per_s, "bytes/s", age_by))
        .evidence(Evidence::new("the log is filled once in", filled_in_s, "s", "computed").expected("> 600"))
        .evidence_if(
            window
                .status_per_s("Innodb_buffer_pool_pages_flushed")
                .map(|pages| Evidence::new("pages flushed", pages, "1/s", "SHOW GLOBAL STATUS")),
        )
        .evidence_if(
            stops.map(|(name, count)| Evidence::new("stops counted", count, "", &format!("INNODB_METRICS {name}"))),
        )
        .remedy(larger_log(window, per_s))
        .finding(),
    ))
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
    let wanted = (per_s * ROOM_FOR_S / files).max(4.0 * now).min(MOST_BYTES);
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

fn bytes(amount: f64) -> String {
    match amount {
        large if large >= GIB => format!("{:.1} GiB", large / GIB),
        medium if medium >= MIB => format!("{:.1} MiB", medium / MIB),
        small => format!("{:.0} KiB", small / 1024.0),
    }
}

#[cfg(test)]
pub(crate) mod cases {
    use super::*;
    use crate::testing::Build;

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
