//! How full the redo log is, and how fast it fills.

use spindoctor_model::mysql::ServerSample;
use spindoctor_model::window::Series;
use spindoctor_model::{Unavailable, Window, redo_log, window};

use super::AT_LIMIT;
use crate::sessions::mean;

/// How full the redo log is, and how fast it fills.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filling {
    /// The checkpoint age as a share of its limit, over time.
    pub(super) ratios: Series,
    /// Its mean.
    pub(crate) mean_ratio: f64,
    /// Share of the samples at the limit.
    pub(super) at_limit: f64,
    /// The limit of the checkpoint age, bytes.
    pub(super) limit: f64,
    /// Redo written, bytes a second.
    pub(super) per_s: f64,
    /// At that rate the limit is written once in so many seconds.
    pub(crate) filled_in_s: f64,
    pub(super) age_by: &'static str,
    pub(super) limit_by: &'static str,
}

/// A page of InnoDB, where nobody says another size.
const PAGE_BYTES: f64 = 16_384.0;

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

/// Bytes between the last checkpoint and the newest redo, over time.
pub(super) fn checkpoint_ages(window: &Window) -> Option<(Series, &'static str)> {
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
pub(super) fn limit(window: &Window) -> Option<(f64, &'static str)> {
    redo_log::checkpoint_limit(
        window.server.version,
        window.latest(|s| &s.server.status),
        window.latest(|s| &s.server.innodb_metrics),
        window.latest(|s| &s.server.variables),
    )
    .or_else(|| limit_in_text(window))
}

/// What the LOG section itself says of the limit, or of the capacity.
fn limit_in_text(window: &Window) -> Option<(f64, &'static str)> {
    let log = &window.latest(|s| &s.server.innodb_status)?.log;
    let above_zero = |bytes: Option<u64>| bytes.filter(|&bytes| bytes > 0).map(|bytes| bytes as f64);
    let by_capacity = || {
        let limit = redo_log::limit_of_capacity(above_zero(log.capacity_bytes)?, 0.0, PAGE_BYTES);
        Some((limit, "computed from SHOW ENGINE INNODB STATUS Log capacity"))
            .filter(|(limit, _)| *limit > 0.0)
    };
    above_zero(log.checkpoint_max_age_bytes)
        .map(|limit| (limit, "SHOW ENGINE INNODB STATUS Max checkpoint age"))
        .or_else(by_capacity)
}

/// Bytes of redo written a second.
pub(super) fn redo_per_s(window: &Window) -> Result<f64, Unavailable> {
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
