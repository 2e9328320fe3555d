//! Conditions on status variables and on readings of the host, as a user types them after `--when`.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use spindoctor_model::HostSample;

/// Rates are taken over this long: a counter that grows once a second would jump at ten checks a second.
const RATE_OVER_S: f64 = 1.0;
/// Rates are not computed over less than half of that.
const LEAST_RATE_OVER_S: f64 = 0.5;

/// What the kernel counts for a trigger, by the name that a condition has for it. Counters grow for ever: `/s` makes
/// a rate of them.
type HostReading = (&'static str, fn(&HostSample) -> Option<f64>);

const HOST_READINGS: &[HostReading] = &[
    ("host.runnable", |host| Some(host.cpu_times.value()?.runnable as f64)),
    ("host.blocked", |host| Some(host.cpu_times.value()?.blocked as f64)),
    ("host.steal_s", |host| Some(host.cpu_times.value()?.steal_us as f64 / 1e6)),
    ("host.context_switches", |host| Some(host.cpu_times.value()?.context_switches as f64)),
    ("host.cpu_s", |host| {
        let process = host.process.value()?;
        Some((process.user_us + process.system_us) as f64 / 1e6)
    }),
    ("host.threads", |host| Some(host.process.value()?.threads as f64)),
    ("host.resident_bytes", |host| Some(host.process.value()?.resident_bytes as f64)),
    ("host.swapped_bytes", |host| Some(host.process.value()?.swapped_bytes as f64)),
    ("host.major_faults", |host| Some(host.process.value()?.major_faults as f64)),
    ("host.read_bytes", |host| Some(host.process.value()?.read_bytes? as f64)),
    ("host.written_bytes", |host| Some(host.process.value()?.written_bytes? as f64)),
    ("host.throttled_s", |host| Some(host.throttling.value()?.throttled_us as f64 / 1e6)),
    ("host.throttled_periods", |host| Some(host.throttling.value()?.throttled_periods as f64)),
    ("host.cpu_pressure_s", |host| Some(host.pressure.value()?.cpu_some_us? as f64 / 1e6)),
    ("host.io_pressure_s", |host| Some(host.pressure.value()?.io_some_us? as f64 / 1e6)),
    ("host.memory_pressure_s", |host| Some(host.pressure.value()?.memory_some_us? as f64 / 1e6)),
];

/// The load average is in a file of its own, which no sample holds.
pub const LOAD: &str = "host.load";

/// `NAME > NUMBER`, `NAME/s < NUMBER`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    name: String,
    is_rate: bool,
    comparison: Comparison,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Longer ones first: `>=` begins with `>`.
const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

impl Condition {
    /// True where the host is asked and not the server.
    pub fn is_of_host(&self) -> bool {
        self.name.starts_with("host.")
    }

    /// The status variable, or the reading of the host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host's reading that it is about; None where it is about none, or the kernel does not report it.
    pub fn of_host(&self, host: &HostSample) -> Option<f64> {
        HOST_READINGS.iter().find(|(known, _)| *known == self.name).and_then(|(_, of)| of(host))
    }

    /// Why it can never hold, where the server answers or the kernel does and there is no such reading.
    pub fn cannot_hold(&self) -> String {
        match self.is_of_host() {
            true => format!("the kernel does not report {} here", self.name),
            false => format!("the server has no status variable {} that is a number", self.name),
        }
    }

    fn holds(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Above => value > self.bound,
            Comparison::AtLeast => value >= self.bound,
            Comparison::Below => value < self.bound,
            Comparison::AtMost => value <= self.bound,
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("{what}; write NAME > NUMBER or NAME/s < NUMBER: 'Threads_running > 50'");
        let (at, sign, comparison) = COMPARISONS
            .into_iter()
            .filter_map(|(sign, comparison)| Some((text.find(sign)?, sign, comparison)))
            .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())))
            .ok_or_else(|| wrong("there is no >, >=, < or <= in it"))?;
        let (name, bound) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (name, is_rate) = match name.strip_suffix("/s") {
            Some(name) => (name.trim_end(), true),
            None => (name, false),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(wrong(&format!("{name:?} is no name of a status variable")));
        }
        let known = |(known, _): &HostReading| *known == name;
        if name.starts_with("host.") && name != LOAD && !HOST_READINGS.iter().any(known) {
            let names: Vec<&str> = HOST_READINGS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name} is no reading of the host; there are {LOAD}, {}", names.join(", ")));
        }
        let (digits, factor) = match bound.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&bound[..at], 1e3),
            Some((at, 'M')) => (&bound[..at], 1e6),
            Some((at, 'G')) => (&bound[..at], 1e9),
            _ => (bound, 1.0),
        };
        let number = digits.trim_end().parse::<f64>().ok().filter(|number| number.is_finite());
        let bound = number.ok_or_else(|| wrong(&format!("{bound:?} is not a number")))? * factor;
        Ok(Self { name: name.to_owned(), is_rate, comparison, bound })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign =
            COMPARISONS.iter().find(|(_, known)| *known == self.comparison).map_or("", |(sign, _)| *sign);
        let rate = if self.is_rate { "/s" } else { "" };
        write!(f, "{}{rate} {sign} {}", self.name, shown(self.bound))
    }
}

/// A condition with what was read for it lately.
#[derive(Debug)]
pub struct Tracked {
    condition: Condition,
    /// Times and values, the oldest first; as long as a rate looks back.
    lately: VecDeque<(f64, f64)>,
}

impl Tracked {
    /// Nothing read yet.
    pub fn new(condition: Condition) -> Self {
        Self { condition, lately: VecDeque::new() }
    }

    /// What it is about.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Forgets what was read: the server's counters start from zero again.
    pub fn forget(&mut self) {
        self.lately.clear();
    }

    /// Whether it holds with this value, and why in words. Times are seconds, and grow.
    pub fn check(&mut self, at_s: f64, value: f64) -> Option<String> {
        self.lately.push_back((at_s, value));
        // One reading before the span stays: the rate is taken from it.
        while self.lately.get(1).is_some_and(|&(second_s, _)| second_s <= at_s - RATE_OVER_S) {
            self.lately.pop_front();
        }
        let value = self.value()?;
        self.condition.holds(value).then(|| format!("{}: it is {}", self.condition, shown(value)))
    }

    fn value(&self) -> Option<f64> {
        let &(at_s, value) = self.lately.back()?;
        if !self.condition.is_rate {
            return Some(value);
        }
        let &(before_s, before) =
            self.lately.front().filter(|(oldest_s, _)| *oldest_s <= at_s - LEAST_RATE_OVER_S)?;
        // A server that was restarted counts from zero: no rate until there are two readings of the new one.
        let grown = value - before;
        (grown >= 0.0).then(|| grown / (at_s - before_s))
    }
}

/// A number as a condition shows it: one decimal where it has any.
fn shown(number: f64) -> String {
    match number.fract() == 0.0 {
        true => format!("{number:.0}"),
        false => format!("{number:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read_as_it_is_written() {
        for (text, shown) in [
            ("Threads_running>50", "Threads_running > 50"),
            (" Com_commit/s  <= 1.5k", "Com_commit/s <= 1500"),
            ("host.load >= 8.5", "host.load >= 8.5"),
            ("host.written_bytes/s > 100M", "host.written_bytes/s > 100000000"),
        ] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), shown);
        }
        for (text, reason) in [
            ("Threads_running", "there is no >"),
            ("> 5", "is no name of a status variable"),
            ("a b > 5", "is no name of a status variable"),
            ("x' > 5", "is no name of a status variable"),
            ("Threads_running > many", "\"many\" is not a number"),
            ("Threads_running > inf", "is not a number"),
            ("Threads_running > ", "is not a number"),
            ("host.lod > 5", "there are host.load, host.runnable"),
        ] {
            let refused = text.parse::<Condition>().unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn a_rate_is_taken_over_a_second_and_not_between_two_checks() {
        let mut tracked = Tracked::new("Com_commit/s > 100".parse().unwrap());
        for tenth in 0..=20 {
            // Fifty at once every half second: 500 a second between two checks, 100 over a second.
            let commits = f64::from(tenth / 5 * 50);
            assert_eq!(tracked.check(f64::from(tenth) / 10.0, commits), None, "{tenth}");
        }
        assert!(tracked.check(2.1, 800.0).is_some());
        let mut restarted = Tracked::new("Com_commit/s < 1".parse().unwrap());
        assert_eq!(restarted.check(0.0, 1e6), None);
        assert_eq!(restarted.check(1.0, 3.0), None, "a restart is no rate");
    }
}
