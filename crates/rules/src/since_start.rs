//! What a single `SHOW GLOBAL STATUS` that somebody gave says: counters of all time since the server started, as means. Of two that are
//! all that was given, what was added between them.
//!
//! A mean of days above a rule's threshold is trouble that comes again and again; below it nothing follows, for what is bad now may
//! be hidden in it. Nothing says whether it goes on, and each finding says so.

use spindoctor_model::number::{self, whole};
use spindoctor_model::{Evidence, Finding, Remedy, Window};

use crate::Cause;
use crate::draft::Draft;
use crate::rank::WARNING_FROM;

/// A server that was started less than this ago, seconds, fills its caches.
const LEAST_S: f64 = 3_600.0;

/// Why none of this is about now.
const WHY: &str = "It is a mean since the server started, and says that it happens, not that it happens now: read the status twice, \
                   ten seconds apart.";

/// Why it is not known what that costs.
const BETWEEN: &str = "The counters say that it happens, not what it costs: SHOW FULL PROCESSLIST says how many of the sessions stand in it.";

/// The status and how long it counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SinceStart<'a> {
    window: &'a Window,
    seconds: f64,
    /// True where it counted between two readings, and not since the server started.
    is_between: bool,
}

impl<'a> SinceStart<'a> {
    /// None of a window with two readings, which shows what happens now, of one of a live server, and of a server that has just
    /// been started.
    pub(crate) fn from_window(window: &'a Window) -> Option<Self> {
        let uptime_s = window.status("Uptime").filter(|&uptime_s| uptime_s >= LEAST_S)?;
        let is_one = window.is_given() && window.change(|sample| &sample.server.status).is_none();
        is_one.then_some(Self { window, seconds: uptime_s, is_between: false })
    }

    /// The same, or what was added between two readings beside which there is no list of sessions: for causes whose cost is the time that
    /// sessions spend, which no status says.
    pub(crate) fn or_between(window: &'a Window) -> Option<Self> {
        let between = || {
            let seconds = window.change(|sample| &sample.server.status)?.seconds;
            let is_all = window.is_given()
                && window.latest(|sample| &sample.server.threads).is_none()
                && window.profile.value().is_none();
            is_all.then_some(Self { window, seconds, is_between: true })
        };
        Self::from_window(window).or_else(between)
    }

    /// A counter.
    pub(crate) fn count(&self, name: &str) -> Option<f64> {
        match self.is_between {
            true => self.window.status_growth(name),
            false => self.window.status(name),
        }
    }

    /// How often it counted in a second.
    pub(crate) fn per_s(&self, name: &str) -> Option<f64> {
        Some(self.count(name)? / self.seconds)
    }

    /// The finding, with the counters that it rests on.
    pub(crate) fn finding(&self, cause: &Cause, what: &str, counters: &[&str], remedy: Remedy) -> Finding {
        let since = number::duration(self.seconds);
        let (when, why) = match self.is_between {
            true => (format!("Between the first and the last reading, {since} apart,"), BETWEEN),
            false => (format!("Since the server started, {since} ago,"), WHY),
        };
        let evidence = counters
            .iter()
            .filter_map(|name| Some(Evidence::new(name, whole(self.count(name)?), "", "SHOW GLOBAL STATUS")));
        Draft::new(cause, WARNING_FROM, format!("{when} {what}"))
            .why(why)
            .evidence_all(evidence)
            .remedy(remedy)
            .finding()
    }
}

/// A remedy that asks for a look, and costs nothing.
pub(crate) fn look(statement: impl Into<String>, why: &str) -> Remedy {
    Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        ..Remedy::default()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::window::NOT_GIVEN;
    use spindoctor_model::{Reading, Severity, Unavailable};

    use crate::testing::Build;

    /// What is found in one status with these counters, a day after the start.
    fn found(counters: &[(&str, f64)]) -> Vec<(String, Severity)> {
        let build =
            counters.iter().fold(Build::busy("8.0.36").gauge("Uptime", 86_400.0), |build, &(name, value)| {
                build.gauge(name, value)
            });
        let mut window = build.remote().without_profile().window();
        window.samples.truncate(1);
        window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
        let status = window.samples[0].server.status.clone();
        window.samples[0] = spindoctor_model::Sample::default();
        window.samples[0].server.status = status;
        window.samples[0].server.threads = Reading::Unavailable(Unavailable::because(NOT_GIVEN));
        crate::diagnose(&window)
            .findings
            .into_iter()
            .map(|finding| (finding.cause, finding.severity))
            .collect()
    }

    #[test]
    fn counters_of_all_time_that_are_far_beyond_a_threshold_are_findings() {
        for (counters, cause) in [
            (vec![("Innodb_buffer_pool_wait_free", 1_234_567.0)], "free-page-wait"),
            (vec![("Connection_errors_max_connections", 43_210.0)], "connections-exhausted"),
            (
                vec![("Created_tmp_disk_tables", 4e7), ("Created_tmp_tables", 4.2e7), ("Questions", 9e7)],
                "temporary-table-spill",
            ),
            (vec![("Opened_tables", 4e7), ("Questions", 9e7)], "table-cache-contention"),
            (
                vec![("Threads_created", 1.19e6), ("Connections", 1.2e6), ("Questions", 1e9)],
                "thread-cache-miss",
            ),
            (vec![("Threads_created", 12.0), ("Connections", 4e6), ("Questions", 9e6)], "connection-churn"),
            (vec![("Innodb_deadlocks", 2e5)], "deadlock-storm"),
            (vec![("Table_locks_waited", 9e5), ("Table_locks_immediate", 5e6)], "table-lock-pileup"),
            (vec![("Innodb_history_list_length", 1.2e7)], "purge-lag"),
        ] {
            assert_eq!(found(&counters), [(cause.to_owned(), Severity::Warning)]);
        }
    }

    #[test]
    fn what_was_added_between_two_readings_is_a_finding_where_nothing_else_was_given() {
        let found = |on_disk_per_s: f64, has_list: bool| {
            let build = Build::busy("8.0.36")
                .counter("Created_tmp_disk_tables", on_disk_per_s)
                .counter("Created_tmp_tables", 130.0);
            let mut window = build.remote().without_profile().window();
            window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
            for sample in &mut window.samples {
                let status = sample.server.status.clone();
                let threads = match has_list {
                    true => sample.server.threads.clone(),
                    false => Reading::Unavailable(Unavailable::because(NOT_GIVEN)),
                };
                let at_s = sample.at_s;
                *sample = spindoctor_model::Sample { at_s, ..spindoctor_model::Sample::default() };
                sample.server.status = status;
                sample.server.threads = threads;
            }
            let found = super::SinceStart::or_between(&window)?;
            assert!(found.is_between);
            let findings = crate::diagnose(&window).findings;
            findings.into_iter().find(|finding| finding.cause == "temporary-table-spill")
        };
        let finding = found(124.0, false).expect("a finding");
        assert!(finding.headline.contains("apart, 124 temporary tables a second"), "{}", finding.headline);
        assert_eq!(found(2.0, false), None);
        assert_eq!(found(124.0, true), None);
    }

    #[test]
    fn a_healthy_status_is_none() {
        let healthy = [
            ("Innodb_buffer_pool_wait_free", 12.0),
            ("Connection_errors_max_connections", 0.0),
            ("Created_tmp_disk_tables", 1_200.0),
            ("Created_tmp_tables", 1e5),
            ("Opened_tables", 2_200.0),
            ("Threads_created", 300.0),
            ("Connections", 1.2e5),
            ("Questions", 8.6e7),
            ("Innodb_deadlocks", 12.0),
            ("Table_locks_waited", 2.0),
            ("Table_locks_immediate", 5e6),
            ("Innodb_history_list_length", 1_200.0),
        ];
        assert_eq!(found(&healthy), []);
    }
}
