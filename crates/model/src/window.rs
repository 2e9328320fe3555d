//! A window: samples in order of time, and the rates between them.
//!
//! The first and the last sample hold every source that could be read; those between hold the
//! cheap ones, so that a rule sees what came and went and a report can draw it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::diagnosis::Cost;
use crate::error_log::LoggedTrouble;
use crate::host::HostSample;
use crate::mysql::ServerSample;
use crate::plan_now::PlanNow;
use crate::reading::{Reading, Unavailable};
use crate::readings::{About, AnyReading};
use crate::server::ServerIdentity;
use crate::stack::Profile;

/// What all sources said at about one instant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds from the start of the window.
    pub at_s: f64,
    /// The server's part.
    pub server: ServerSample,
    /// The host's part.
    pub host: HostSample,
}

impl Sample {
    /// Counts all its times from an instant that lies `by_s` seconds earlier.
    pub fn shift(&mut self, by_s: f64) {
        self.at_s += by_s;
        self.server.shift(by_s);
        self.host.shift(by_s);
    }

    /// Every reading of the server and of the host, with what is known of it.
    pub fn readings(&self) -> impl Iterator<Item = (&'static About, &dyn AnyReading)> {
        self.server.readings().chain(self.host.readings())
    }

    /// What is known of every reading, in the order of [`Sample::readings`].
    pub fn about_readings() -> impl Iterator<Item = &'static About> {
        let server = ServerSample::READINGS.iter().map(|reading| &reading.about);
        server.chain(HostSample::READINGS.iter().map(|reading| &reading.about))
    }

    /// Gives each reading to `change`, with what is known of it.
    pub fn change_readings(&mut self, mut change: impl FnMut(&'static About, &mut dyn AnyReading)) {
        ServerSample::READINGS.iter().for_each(|field| change(&field.about, field.get_mut(&mut self.server)));
        HostSample::READINGS.iter().for_each(|field| change(&field.about, field.get_mut(&mut self.host)));
    }

    /// Fills what it did not ask for, and what holds on, with what an earlier sample knew.
    pub fn fill(&mut self, earlier: &Self) {
        let at_s = self.at_s;
        for field in ServerSample::READINGS.iter().filter(|field| field.about.holds_on()) {
            field.get_mut(&mut self.server).fill(at_s, field.get(&earlier.server));
        }
        for field in HostSample::READINGS.iter().filter(|field| field.about.holds_on()) {
            field.get_mut(&mut self.host).fill(at_s, field.get(&earlier.host));
        }
    }
}

/// Samples of one server over some seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    /// Whose samples these are.
    pub server: ServerIdentity,
    /// When the first sample was begun.
    pub start: Timestamp,
    /// How long the server was to be watched, seconds; None where that was not limited, or not kept.
    pub asked_s: Option<f64>,
    /// Samples in order of time; at least one.
    pub samples: Vec<Sample>,
    /// Every thread's stack, again and again over the window, and samples of what ran on a CPU.
    pub profile: Reading<Profile>,
    /// The plan of a statement whose plan changed, asked after the last sample where a rule named one.
    #[serde(skip_serializing_if = "Reading::is_not_asked")]
    pub plan_now: Reading<PlanNow>,
    /// What the server's error log says of trouble, where it was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_log: Vec<LoggedTrouble>,
    /// What taking them cost.
    pub cost: Cost,
}

/// A reading that changed over the window: both ends and the time between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change<'a, T> {
    /// The first value.
    pub first: &'a T,
    /// The last value.
    pub last: &'a T,
    /// Seconds between the two answers; above zero.
    pub seconds: f64,
}

/// Why a reading is missing whose source was due in no sample of the window.
pub const NOT_ASKED_FOR: &str = "it was not asked for";

/// Why a reading is missing in a window that was made of what somebody captured: nobody asked a server for it.
pub const NOT_GIVEN: &str = "not in what was given";

/// Answers come a little early or late: two that are so much of the asked time apart will do. Samples are on a fixed grid,
/// and an answer within it moves by what the sources before it took, a fraction of a second.
const EARLY: f64 = 0.7;

/// Points of a chart: seconds from the start of the window, value.
pub type Series = Vec<(f64, f64)>;

impl Window {
    /// True for the window of what somebody captured: nobody connected to a server.
    pub fn is_given(&self) -> bool {
        self.server.no_pid.as_ref().is_some_and(|missing| missing.because == NOT_GIVEN)
    }

    /// Seconds from the first sample to the last.
    pub fn seconds(&self) -> f64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.at_s - first.at_s,
            _ => 0.0,
        }
    }

    /// The last seconds of it: the samples that were begun so long before the last one at most. What holds on and was read
    /// before them stands in the first of them.
    pub fn newest(&self, seconds: f64) -> Self {
        let last_s = self.samples.last().map_or(0.0, |last| last.at_s);
        let (before, of_it): (Vec<&Sample>, Vec<&Sample>) =
            self.samples.iter().partition(|sample| last_s - sample.at_s > seconds);
        let mut samples: Vec<Sample> = of_it.into_iter().cloned().collect();
        if let Some(first) = samples.first_mut() {
            before.iter().rev().for_each(|earlier| first.fill(earlier));
        }
        let begins_s = samples.first().map_or(0.0, |first| first.at_s);
        samples.iter_mut().for_each(|sample| sample.shift(-begins_s));
        let start =
            SignedDuration::try_from_secs_f64(begins_s).ok().and_then(|by| self.start.checked_add(by).ok());
        Self { start: start.unwrap_or(self.start), samples, ..self.clone() }
    }

    /// The latest value of a reading.
    pub fn latest<T>(&self, pick: impl Fn(&Sample) -> &Reading<T>) -> Option<&T> {
        self.samples.iter().rev().find_map(|sample| pick(sample).value())
    }

    /// Every value of a reading with its time, in order.
    pub fn all<T>(&self, pick: impl Fn(&Sample) -> &Reading<T>) -> Vec<(f64, &T)> {
        self.samples.iter().filter_map(|sample| pick(sample).timed()).collect()
    }

    /// First and last value of a reading; None with fewer than two.
    pub fn change<T>(&self, pick: impl Fn(&Sample) -> &Reading<T>) -> Option<Change<'_, T>> {
        let mut values = self.samples.iter().filter_map(|sample| pick(sample).timed());
        let (first_s, first) = values.next()?;
        let (last_s, last) = values.next_back()?;
        (last_s > first_s).then_some(Change { first, last, seconds: last_s - first_s })
    }

    /// The newest value of a reading and the newest one that is at least so many seconds older, or the oldest one where
    /// none is. None with fewer than two.
    ///
    /// So a window that holds a minute shows what happened in its last second; a source that answers every ten seconds
    /// is compared with its answer before.
    pub fn recent_change<T>(
        &self,
        at_least_s: f64,
        pick: impl Fn(&Sample) -> &Reading<T>,
    ) -> Option<Change<'_, T>> {
        let values = self.all(pick);
        let (&(last_s, last), before) = values.split_last()?;
        let is_older = |(first_s, _): &&(f64, &T)| last_s - first_s >= at_least_s * EARLY;
        let &(first_s, first) = before.iter().rev().find(is_older).or(before.first())?;
        (last_s > first_s).then_some(Change { first, last, seconds: last_s - first_s })
    }

    /// How fast a status counter grew of late, per second, over the time of [`Window::recent_change`]; None where it went
    /// back.
    pub fn recent_status_per_s(&self, name: &str, at_least_s: f64) -> Option<f64> {
        let change = self.recent_change(at_least_s, |s| &s.server.status)?;
        let growth = change.last.number(name)? - change.first.number(name)?;
        (growth >= 0.0).then(|| growth / change.seconds)
    }

    /// Why a reading has no value in any sample; None where it has one.
    ///
    /// A reading that was never asked for counts as unavailable.
    pub fn missing<T>(&self, pick: impl Fn(&Sample) -> &Reading<T>) -> Option<Unavailable> {
        if self.latest(&pick).is_some() {
            return None;
        }
        let reason = self.samples.iter().rev().find_map(|sample| pick(sample).unavailable());
        Some(reason.cloned().unwrap_or_else(|| Unavailable::because(NOT_ASKED_FOR)))
    }

    /// The latest value of a reading, or why there is none.
    ///
    /// # Errors
    /// Why the source could not be read, with what would unlock it.
    pub fn need<T>(&self, pick: impl Fn(&Sample) -> &Reading<T>) -> Result<&T, Unavailable> {
        match self.latest(&pick) {
            Some(value) => Ok(value),
            None => Err(self.missing(pick).unwrap_or_default()),
        }
    }

    /// First and last value of a reading, or why there are not two.
    ///
    /// # Errors
    /// Why the source could not be read, or that it answered only once.
    pub fn need_change<T>(
        &self,
        pick: impl Fn(&Sample) -> &Reading<T>,
    ) -> Result<Change<'_, T>, Unavailable> {
        match self.change(&pick) {
            Some(change) => Ok(change),
            None => Err(self.missing(pick).unwrap_or_else(|| {
                Unavailable::because("it was read only once, and a rate needs two readings")
            })),
        }
    }

    /// Growth of a status counter over the window, or why it has none.
    ///
    /// # Errors
    /// Why the status could not be read, that this server has no such counter, or that it went back.
    pub fn need_growth(&self, name: &str) -> Result<f64, Unavailable> {
        let change = self.need_change(|s| &s.server.status)?;
        let number = |values: &crate::mysql::NamedValues| {
            values
                .number(name)
                .ok_or_else(|| Unavailable::because(format!("this server has no status variable {name}")))
        };
        let growth = number(change.last)? - number(change.first)?;
        if growth < 0.0 {
            return Err(Unavailable::because(format!(
                "{name} went back within the window, as after FLUSH STATUS or a restart, or where connections end"
            )));
        }
        Ok(growth)
    }

    /// The number in a global variable, or why there is none.
    ///
    /// # Errors
    /// Why the variables could not be read, or that this server has no such variable.
    pub fn need_variable(&self, name: &str) -> Result<f64, Unavailable> {
        let variables = self.need(|s| &s.server.variables)?;
        variables
            .number(name)
            .ok_or_else(|| Unavailable::because(format!("this server has no variable {name}")))
    }

    /// The CPUs that the server itself counts, and where that was read: its live `srv_cpu_usage`, or
    /// the metric `cpu_n`. Never the host's count: the two differ wherever it matters.
    pub fn server_counts_cpus(&self) -> Option<(u32, &'static str)> {
        if let Some(usage) = self.latest(|s| &s.host.srv_cpu_usage) {
            return Some((usage.n_cpu, "srv_cpu_usage"));
        }
        // The metric is 0 until the server's master thread has updated it.
        let cpus = self.metric("cpu_n").filter(|&cpus| cpus >= 1.0)?;
        Some((cpus as u32, "INNODB_METRICS cpu_n"))
    }

    /// A global variable's text, latest.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.latest(|s| &s.server.variables)?.text(name)
    }

    /// A global variable's value, latest, as a statement that somebody is to run may have it: a number, a word, a list of words
    /// (`50`, `READ-COMMITTED`, `FILE,TABLE`). None for any other text: a server or a captured file could have any.
    pub fn variable_word(&self, name: &str) -> Option<&str> {
        let is_of_word =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | ',');
        self.variable(name).filter(|value| !value.is_empty() && value.chars().all(is_of_word))
    }

    /// A global variable's number, latest.
    pub fn variable_number(&self, name: &str) -> Option<f64> {
        self.need_variable(name).ok()
    }

    /// A status variable's value now (gauges: `Threads_running`).
    pub fn status(&self, name: &str) -> Option<f64> {
        self.latest(|s| &s.server.status)?.number(name)
    }

    /// How much a status counter grew over the window; None where it went back (a reset or restart).
    pub fn status_growth(&self, name: &str) -> Option<f64> {
        self.need_growth(name).ok()
    }

    /// How fast a status counter grew, per second.
    pub fn status_per_s(&self, name: &str) -> Option<f64> {
        let seconds = self.change(|s| &s.server.status)?.seconds;
        Some(self.status_growth(name)? / seconds)
    }

    /// A status gauge over time.
    pub fn status_series(&self, name: &str) -> Series {
        self.all(|s| &s.server.status)
            .into_iter()
            .filter_map(|(at_s, status)| Some((at_s, status.number(name)?)))
            .collect()
    }

    /// A status counter's rate between each two samples, at the time of the later one.
    pub fn status_rate_series(&self, name: &str) -> Series {
        rates(&self.status_series(name))
    }

    /// A metric's count, latest; None where it is absent or disabled.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let metric = self.latest(|s| &s.server.innodb_metrics)?.get(name)?;
        metric.enabled.then_some(metric.count)
    }

    /// How much an enabled metric's count grew over the window.
    pub fn metric_growth(&self, name: &str) -> Option<f64> {
        let change = self.change(|s| &s.server.innodb_metrics)?;
        let (first, last) = (change.first.get(name)?, change.last.get(name)?);
        let growth = last.count - first.count;
        (first.enabled && last.enabled && growth >= 0.0).then_some(growth)
    }
}

/// Rates per second between each two points of a counter; points where it went back are left out.
pub fn rates(counter: &[(f64, f64)]) -> Series {
    counter
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0 && pair[1].1 >= pair[0].1)
        .map(|pair| (pair[1].0, (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::NamedValues;

    fn sample(at_s: f64, questions: &str) -> Sample {
        let value = NamedValues::from_iter([("Questions", questions)]);
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        sample
    }

    #[test]
    fn rates_are_between_the_answers_and_a_reset_counter_has_none() {
        let mut window =
            Window { samples: vec![sample(0.0, "100"), sample(2.0, "300")], ..Window::default() };
        assert_eq!(window.status_per_s("questions"), Some(100.0));
        window.samples.push(sample(4.0, "50"));
        assert_eq!(window.status_per_s("questions"), None);
        assert_eq!(window.status_rate_series("questions"), vec![(2.0, 100.0)]);
    }

    #[test]
    fn what_happened_of_late_is_distinguished_from_the_newest_answers() {
        let window = Window {
            samples: vec![sample(0.0, "0"), sample(10.0, "1000"), sample(10.9, "1090")],
            ..Window::default()
        };
        let rate = |at_least_s| window.recent_status_per_s("Questions", at_least_s).map(f64::round);
        assert_eq!(rate(1.0), Some(100.0));
        assert_eq!(window.recent_change(1.0, |s| &s.server.status).map(|c| c.seconds.round()), Some(1.0));
        assert_eq!(window.recent_change(5.0, |s| &s.server.status).map(|c| c.seconds.round()), Some(11.0));
        assert_eq!(rate(f64::INFINITY), Some(100.0));
        let one = Window { samples: vec![sample(0.0, "0")], ..Window::default() };
        assert_eq!(one.recent_status_per_s("Questions", 1.0), None);
    }

    #[test]
    fn a_reading_that_was_never_asked_for_is_missing_with_a_reason() {
        let window = Window { samples: vec![Sample::default()], ..Window::default() };
        assert_eq!(window.missing(|s| &s.host.numa).unwrap().because, "it was not asked for");
    }

    #[test]
    fn a_window_survives_json() {
        let mut window = Window { samples: vec![sample(0.0, "1")], ..Window::default() };
        let text = serde_json::to_string(&window).unwrap();
        assert!(!text.contains("plan_now"), "{text}");
        assert_eq!(serde_json::from_str::<Window>(&text).unwrap(), window);
        window.plan_now = Reading::Available { at_s: 10.0, took_ms: 1.0, value: PlanNow::default() };
        let text = serde_json::to_string(&window).unwrap();
        assert_eq!(serde_json::from_str::<Window>(&text).unwrap(), window);
    }
}
