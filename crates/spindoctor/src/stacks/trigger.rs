//! The triggers of a profile: conditions on status variables and on readings of the host, and stalls.
//!
//! In: conditions as the user typed them, and readings ten times per second. Out: the condition that holds now, in
//! words. Conditions and the finding of stalls are those of the recorder (`spindoctor_record`). Pure: nothing here asks
//! a server.

use std::time::Duration;

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{HostSample, Probe, StallKind};
use spindoctor_stalls::condition::{Condition, LOAD, Tracked};
use spindoctor_stalls::{Baseline, StallChange, Stalls};

/// What was read at one instant.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Seconds from the first check to the question.
    pub at_s: f64,
    /// How long the server took to answer, or was waited for.
    pub took: Duration,
    /// What the server said; or why it said nothing. None where nobody asked it.
    pub status: Option<Result<NamedValues, String>>,
    /// What the kernel said, where it was asked.
    pub host: HostSample,
    /// The load average, where it was asked for.
    pub load: Option<f64>,
}

impl Reading {
    fn number(&self, condition: &Condition) -> Option<f64> {
        match condition.is_of_host() {
            true if condition.name() == LOAD => self.load,
            true => condition.of_host(&self.host),
            false => self.status.as_ref()?.as_ref().ok()?.number(condition.name()),
        }
    }

    /// As the finding of stalls takes it.
    fn probe(&self) -> Option<Probe> {
        let status = self.status.as_ref()?.as_ref().ok();
        let count = |name| status.and_then(|status| status.number(name)).map(|value| value as u64);
        Some(Probe {
            at_s: self.at_s,
            took_ms: self.took.as_secs_f64() * 1e3,
            answered: status.is_some(),
            // The session that asks is one of those that run.
            threads_running: count(RUNNING).map(|running| running.saturating_sub(1)),
            questions: count(STATEMENTS),
            commits: count(COMMITS),
            ..Probe::default()
        })
    }
}

/// What is waited for, and what was read lately.
#[derive(Debug)]
pub struct Trigger {
    conditions: Vec<Tracked>,
    stalls: Option<Stalls>,
}

/// The status variables that show a stall: what ends, and who runs.
const STATEMENTS: &str = "Questions";
const COMMITS: &str = "Handler_commit";
const RUNNING: &str = "Threads_running";

/// What is a stall to somebody who waits for one to look at: work stops, or the server does.
const WAITED_FOR: [StallKind; 3] =
    [StallKind::ThroughputCollapsed, StallKind::CommitsStopped, StallKind::NoAnswer];

impl Trigger {
    /// Fires where any of these holds.
    pub fn new(conditions: Vec<Condition>, when_stalled: bool) -> Self {
        Self {
            conditions: conditions.into_iter().map(Tracked::new).collect(),
            stalls: when_stalled.then(|| Stalls::new(Baseline::default(), Vec::new())),
        }
    }

    /// True where there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.stalls.is_none()
    }

    /// The status variables that it needs.
    pub fn status_variables(&self) -> Vec<String> {
        let conditions = self.conditions.iter().map(Tracked::condition);
        let of_server = conditions.filter(|condition| !condition.is_of_host());
        let mut names: Vec<String> = of_server.map(|condition| condition.name().to_owned()).collect();
        if self.stalls.is_some() {
            names.extend([STATEMENTS, COMMITS, RUNNING].map(str::to_owned));
        }
        names
    }

    /// True where it needs the host.
    pub fn needs_host(&self) -> bool {
        self.conditions.iter().any(|tracked| tracked.condition().is_of_host())
    }

    /// Whether it fires with this reading, and why in words.
    ///
    /// # Errors
    /// The server answers and has no such status variable, or the kernel has no such reading: it could never fire.
    pub fn check(&mut self, reading: &Reading) -> Result<Option<String>, String> {
        let answered = !matches!(reading.status, Some(Err(_)));
        let mut held = None;
        for tracked in &mut self.conditions {
            match reading.number(tracked.condition()) {
                Some(value) => {
                    let holds = tracked.check(reading.at_s, value);
                    held = held.or(holds);
                }
                None if tracked.condition().is_of_host() || answered => {
                    return Err(tracked.condition().cannot_hold());
                }
                None => {}
            }
        }
        Ok(self.stalled(reading).or(held))
    }

    /// What is stopped now; with the server's own words where it does not answer.
    fn stalled(&mut self, reading: &Reading) -> Option<String> {
        let changes = self.stalls.as_mut()?.probe(&reading.probe()?);
        let stall = changes.into_iter().find_map(|change| match change {
            StallChange::Opened(stall) if WAITED_FOR.contains(&stall.kind) => Some(stall),
            StallChange::Opened(_) | StallChange::Over(..) => None,
        })?;
        Some(match &reading.status {
            Some(Err(why)) => format!("the server answers no more: {why}"),
            Some(Ok(_)) | None => stall.because,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(at_s: f64, values: &[(&str, f64)]) -> Reading {
        let values = values.iter().map(|(name, value)| (*name, value.to_string()));
        Reading { at_s, status: Some(Ok(values.collect())), ..Reading::default() }
    }

    fn silent(at_s: f64) -> Reading {
        Reading { at_s, status: Some(Err("no answer in 1.0 s".to_owned())), ..Reading::default() }
    }

    fn when(condition: &str) -> Trigger {
        Trigger::new(vec![condition.parse().unwrap()], false)
    }

    #[test]
    fn it_fires_at_the_first_reading_that_holds_and_says_which() {
        let mut trigger = when("Threads_running > 50");
        assert_eq!(trigger.check(&status(0.0, &[("Threads_running", 50.0)])), Ok(None));
        let fired = trigger.check(&status(0.1, &[("Threads_running", 51.0)])).unwrap().unwrap();
        assert_eq!(fired, "Threads_running > 50: it is 51");
    }

    #[test]
    fn the_load_average_is_looked_at_where_it_was_asked_for() {
        let mut trigger = when("host.load > 8");
        let load = |load| Reading { load: Some(load), ..Reading::default() };
        assert!(trigger.needs_host() && trigger.status_variables().is_empty());
        assert_eq!(trigger.check(&load(7.5)), Ok(None));
        assert_eq!(trigger.check(&load(9.0)).unwrap().unwrap(), "host.load > 8: it is 9");
    }

    #[test]
    fn a_name_that_the_server_does_not_have_is_refused_and_not_waited_for() {
        let refused = when("Thread_running > 5").check(&status(0.0, &[])).unwrap_err();
        assert!(refused.contains("no status variable Thread_running"), "{refused}");
        let mut not_yet = when("Threads_running > 5");
        assert_eq!(not_yet.check(&silent(0.0)), Ok(None), "a server that does not answer may do so later");
    }

    /// A server that does a thousand statements and a hundred commits a second for so long.
    fn busy(trigger: &mut Trigger, seconds: u32) {
        for tenth in 0..seconds * 10 {
            assert_eq!(trigger.check(&counted(tenth, tenth, tenth)), Ok(None), "{tenth}");
        }
    }

    fn counted(tenth: u32, statements: u32, commits: u32) -> Reading {
        status(
            f64::from(tenth) / 10.0,
            &[
                ("Questions", f64::from(statements) * 100.0),
                ("Handler_commit", f64::from(commits) * 10.0),
                ("Threads_running", 40.0),
            ],
        )
    }

    #[test]
    fn commits_that_stop_while_threads_run_and_read_are_a_stall() {
        let mut trigger = Trigger::new(Vec::new(), true);
        busy(&mut trigger, 30);
        let fired = (300..310).find_map(|tenth| trigger.check(&counted(tenth, tenth, 299)).unwrap());
        assert_eq!(fired.as_deref(), Some("no commit for 0.3 s while 39 threads run"));
    }

    #[test]
    fn a_server_that_answers_no_more_is_a_stall_and_one_that_never_did_is_not() {
        let mut trigger = Trigger::new(Vec::new(), true);
        assert_eq!(trigger.check(&silent(0.0)), Ok(None));
        assert_eq!(trigger.check(&counted(10, 5, 2)), Ok(None));
        let fired = trigger.check(&silent(2.0)).unwrap().unwrap();
        assert_eq!(fired, "the server answers no more: no answer in 1.0 s");
    }

    #[test]
    fn the_live_host_has_every_reading_that_a_condition_may_name() {
        let target = spindoctor_collect::host::Target::live(std::process::id());
        let host = spindoctor_collect::gauges::read_host(&target);
        for name in ["host.runnable", "host.cpu_s", "host.threads", "host.context_switches"] {
            let condition: Condition = format!("{name} > 0").parse().unwrap();
            assert!(condition.of_host(&host).is_some(), "{name}");
        }
    }
}
