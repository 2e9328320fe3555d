//! [`StallKind::CheckpointAge`](spindoctor_model::StallKind): the redo log is so full that writers must wait.
//!
//! The limit is the one that the rules judge by (`spindoctor_model::redo_log`): there InnoDB flushes everything old at
//! once, or writers wait for room. MariaDB may stay at its limit for long while few sessions write: it flushes a little
//! at each statement. Where no statement is running, no session waits for room.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{InnodbMetric, NamedValues};
use spindoctor_model::{Probe, ServerSample, ServerVersion, number, redo_log};

use super::Sight;
use super::recent::Recent;

/// From this share of the limit on the next writes reach it. Flushing by age, which is gentler, begins at 14/15 of the
/// limit (7/8 against 15/16 of the capacity), and a steady load may live there.
const STALLS_RATIO: f64 = 0.98;
/// It is over where flushing by age would end, too,
const OVER_RATIO: f64 = 0.93;
/// or where no session has waited for it for so long: MariaDB's log stays full when the load is gone.
const LET_GO_AFTER_S: f64 = 5.0;
/// One reading may be between two steps of the checkpoint: two in a row.
const LEAST_READINGS: u32 = 2;
/// And over this long. With a log of some megabytes MySQL lets the age come to the limit every few seconds, and is back
/// at a third of it after 0.1 to 0.2 s, while no session waits.
const LEAST_S: f64 = 0.4;
/// A log that is this often full within ten minutes is too small as a matter of course: that is a finding, and no event.
const HABIT_OVER_S: f64 = 600.0;
const HABIT_RATIO: f64 = 0.1;
/// This many readings show it: ten seconds.
const ENOUGH_READINGS: usize = 100;
/// It is checked again this often.
const HABIT_EVERY_S: f64 = 1.0;

/// Watches the checkpoint's age.
#[derive(Debug)]
pub(super) struct CheckpointAge {
    version: Option<ServerVersion>,
    status: Option<NamedValues>,
    metrics: Option<BTreeMap<String, InnodbMetric>>,
    variables: Option<NamedValues>,
    limit_bytes: Option<f64>,
    full: Recent,
    computed_s: f64,
    is_habit: bool,
    readings: u32,
    since_s: f64,
    /// When a session last waited for it.
    held_s: f64,
    lasts: Option<Sight>,
}

impl CheckpointAge {
    pub(super) fn new() -> Self {
        Self {
            version: None,
            status: None,
            metrics: None,
            variables: None,
            limit_bytes: None,
            full: Recent::over(HABIT_OVER_S),
            computed_s: f64::NEG_INFINITY,
            is_habit: false,
            readings: 0,
            since_s: 0.0,
            held_s: f64::NEG_INFINITY,
            lasts: None,
        }
    }

    /// Another server, or another start of it.
    pub(super) fn for_version(version: Option<ServerVersion>) -> Self {
        Self { version, ..Self::new() }
    }

    /// What the limit is computed from: each source as it was last read.
    pub(super) fn learn(&mut self, server: &ServerSample) {
        const LIMITS: [&str; 2] = ["Innodb_checkpoint_max_age", "Innodb_redo_log_capacity_resized"];
        const METRIC: &str = "log_max_modified_age_sync";
        const VARIABLES: [&str; 5] = [
            "innodb_page_size",
            "innodb_redo_log_capacity",
            "innodb_thread_concurrency",
            "innodb_log_file_size",
            "innodb_log_files_in_group",
        ];
        let of = |values: &NamedValues, names: &[&str]| {
            names.iter().filter_map(|name| Some((*name, values.text(name)?))).collect::<NamedValues>()
        };
        if let Some(status) = server.status.value() {
            self.status = Some(of(status, &LIMITS));
        }
        if let Some(metric) = server.innodb_metrics.value().and_then(|metrics| metrics.get(METRIC)) {
            self.metrics = Some(BTreeMap::from([(METRIC.to_owned(), metric.clone())]));
        }
        if let Some(variables) = server.variables.value() {
            self.variables = Some(of(variables, &VARIABLES));
        }
        let limit = redo_log::checkpoint_limit(
            self.version,
            self.status.as_ref(),
            self.metrics.as_ref(),
            self.variables.as_ref(),
        );
        self.limit_bytes = limit.map(|(bytes, _)| bytes).filter(|bytes| *bytes > 0.0);
    }

    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        let (Some(age), Some(limit)) = (probe.checkpoint_age_bytes, self.limit_bytes) else {
            return self.lasts.clone();
        };
        let ratio = age as f64 / limit;
        let is_full = ratio >= STALLS_RATIO;
        let holds_up = is_full && probe.threads_running != Some(0);
        if holds_up {
            self.held_s = probe.at_s;
        }
        if ratio < OVER_RATIO || probe.at_s - self.held_s >= LET_GO_AFTER_S {
            self.lasts = None;
        }
        if holds_up && self.readings == 0 {
            self.since_s = probe.at_s;
        }
        self.readings = if holds_up { self.readings + 1 } else { 0 };
        let stays = self.readings >= LEAST_READINGS && probe.at_s - self.since_s >= LEAST_S;
        if stays && !self.is_habit && self.lasts.is_none() {
            self.lasts = Some(Sight {
                began_s: self.since_s,
                because: format!(
                    "{:.0} % of the redo log's limit of {} are in use",
                    ratio * 100.0,
                    number::bytes(limit)
                ),
            });
        }
        self.full.push(probe.at_s, f64::from(u8::from(is_full)));
        if probe.at_s - self.computed_s >= HABIT_EVERY_S {
            self.computed_s = probe.at_s;
            let full = self.full.iter().filter(|&(_, full)| full > 0.0).count();
            self.is_habit =
                self.full.len() >= ENOUGH_READINGS && full as f64 >= HABIT_RATIO * self.full.len() as f64;
        }
        self.lasts.clone()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::*;

    const LIMIT: u64 = 80_000_000;

    fn knowing() -> CheckpointAge {
        let value = NamedValues::from_iter([("Innodb_checkpoint_max_age", LIMIT.to_string())]);
        let status = Reading::Available { at_s: 0.0, took_ms: 1.0, value };
        let mut age = CheckpointAge::new();
        age.learn(&ServerSample { status, ..ServerSample::default() });
        age
    }

    fn look(age: &mut CheckpointAge, at_s: f64, ratio: f64) -> Option<Sight> {
        let bytes = (ratio * LIMIT as f64) as u64;
        let threads_running = Some(3);
        let checkpoint_age_bytes = Some(bytes);
        age.look(&Probe { at_s, answered: true, threads_running, checkpoint_age_bytes, ..Probe::default() })
    }

    #[test]
    fn a_full_log_is_a_stall_until_it_has_room_again() {
        let mut age = knowing();
        assert_eq!(look(&mut age, 0.0, 0.94), None, "flushing by age holds nobody up");
        assert_eq!(look(&mut age, 0.1, 0.985), None);
        for later_s in [0.2, 0.3, 0.4] {
            assert_eq!(look(&mut age, later_s, 0.99), None, "a step of the checkpoint may be under way");
        }
        let seen = look(&mut age, 0.6, 0.99).unwrap();
        assert_eq!(
            (seen.began_s, seen.because.as_str()),
            (0.1, "99 % of the redo log's limit of 76.3 MiB are in use")
        );
        assert!(look(&mut age, 0.7, 0.95).is_some());
        assert_eq!(look(&mut age, 0.8, 0.9), None);
    }

    #[test]
    fn a_sawtooth_that_only_touches_the_limit_is_none() {
        let mut age = knowing();
        for tenth in 0..3000 {
            let ratio = 0.3 + 0.0078 * f64::from(tenth % 90);
            assert_eq!(look(&mut age, f64::from(tenth) / 10.0, ratio), None);
        }
    }

    #[test]
    fn a_full_log_that_nobody_waits_for_is_none() {
        let full = |tenth: u32, running| Probe {
            at_s: f64::from(tenth) / 10.0,
            answered: true,
            threads_running: Some(running),
            checkpoint_age_bytes: Some(LIMIT),
            ..Probe::default()
        };
        let mut age = knowing();
        // Below the readings that make a habit of it.
        for tenth in 0..60 {
            assert_eq!(age.look(&full(tenth, u64::from(tenth % 4 == 0))), None);
        }
        let sights: Vec<_> = (60..66).map(|tenth| age.look(&full(tenth, 2))).collect();
        assert_eq!(sights.iter().flatten().next().map(|sight| sight.began_s), Some(6.0));
        // The load is gone, and the log stays as it is.
        assert!(age.look(&full(70, 0)).is_some());
        assert_eq!(age.look(&full(116, 0)), None);
    }

    #[test]
    fn a_log_that_is_full_as_a_matter_of_course_is_no_event_again_and_again() {
        let mut age = knowing();
        let mut events = 0;
        for tenth in 0..6000 {
            let before = age.lasts.is_some();
            let ratio = if tenth % 40 < 8 { 0.99 } else { 0.8 };
            events += u32::from(look(&mut age, f64::from(tenth) / 10.0, ratio).is_some() && !before);
        }
        assert!(events <= 5, "{events}");
    }

    #[test]
    fn without_a_limit_nothing_is_said() {
        let mut age = CheckpointAge::new();
        assert_eq!(look(&mut age, 0.0, 5.0), None);
        assert_eq!(look(&mut age, 0.1, 5.0), None);
    }
}
