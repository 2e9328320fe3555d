//! What a profile waits for: conditions on status variables and on readings of the host, and commits that stop.
//!
//! In: conditions as the user typed them, and what was read ten times a second. Out: whether one of them holds now, in
//! words. Pure: nothing here asks a server.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use spindoctor_model::HostSample;
use spindoctor_model::mysql::NamedValues;
use spindoctor_stacks::capture::trigger::When;

use crate::report::number;

/// Rates are taken over this long: a counter that grows once a second would jump at ten checks a second.
const RATE_OVER_S: f64 = 1.0;
/// No rate over less than half of that.
const LEAST_RATE_OVER_S: f64 = 0.5;
/// Commits that stop for so long are a stall: the longest fsync of a healthy disk is far shorter.
const STALLED_FOR_S: f64 = 1.0;
/// In how long a time before the stall there must have been commits: a server that nobody writes to does not stall.
const BUSY_WITHIN_S: f64 = 10.0;
/// `Threads_running` counts the session that asks; besides it, this many must run. One alone may be a long query.
const LEAST_RUNNING: f64 = 3.0;

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

/// The load average stands in a file of its own.
const LOAD: &str = "host.load";

/// `NAME > NUMBER`, `NAME/s < NUMBER`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
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
    pub(crate) fn is_of_host(&self) -> bool {
        self.name.starts_with("host.")
    }

    /// The status variable, or the reading of the host.
    pub(crate) fn name(&self) -> &str {
        &self.name
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
        let bound = number.ok_or_else(|| wrong(&format!("{bound:?} is no number")))? * factor;
        Ok(Self { name: name.to_owned(), is_rate, comparison, bound })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign =
            COMPARISONS.iter().find(|(_, known)| *known == self.comparison).map_or("", |(sign, _)| *sign);
        let rate = if self.is_rate { "/s" } else { "" };
        write!(f, "{}{rate} {sign} {}", self.name, number::plain(self.bound))
    }
}

/// A function that is watched inside the server, and what is waited for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watchpoint {
    /// As a stack shows it, or as the symbol table has it.
    pub(crate) function: String,
    /// How many threads at once, or how long one.
    pub(crate) when: When,
}

impl fmt::Display for Watchpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Inside(threads) => write!(f, "more than {threads} threads in {}", self.function),
            When::Slower(time) => {
                let time = number::quantity(time.as_secs_f64() * 1e3, "ms");
                write!(f, "a thread in {} for {time}", self.function)
            }
        }
    }
}

/// What was read at one instant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// Seconds from the first check.
    pub(crate) at_s: f64,
    /// What the server said; or why it said nothing. None where nobody asked it.
    pub(crate) status: Option<Result<NamedValues, String>>,
    /// What the kernel said, where it was asked.
    pub(crate) host: HostSample,
    /// The load average, where it was asked for.
    pub(crate) load: Option<f64>,
}

impl Reading {
    fn number(&self, name: &str) -> Option<f64> {
        if name == LOAD {
            return self.load;
        }
        match HOST_READINGS.iter().find(|(known, _)| *known == name) {
            Some((_, of)) => of(&self.host),
            None => self.status.as_ref()?.as_ref().ok()?.number(name),
        }
    }
}

/// What is waited for, and what was read lately.
#[derive(Debug, Default)]
pub(crate) struct Trigger {
    conditions: Vec<Condition>,
    when_stalled: bool,
    /// The oldest first; as long as the longest look back.
    lately: VecDeque<Reading>,
}

/// The status variables that tell a stall: what ends a transaction, and who runs.
const COMMITS: [&str; 3] = ["Handler_commit", "Com_commit", "Com_rollback"];
const RUNNING: &str = "Threads_running";

impl Trigger {
    /// Fires where any of these holds.
    pub(crate) fn new(conditions: Vec<Condition>, when_stalled: bool) -> Self {
        Self { conditions, when_stalled, lately: VecDeque::new() }
    }

    /// True where there is nothing to wait for.
    pub(crate) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && !self.when_stalled
    }

    /// The status variables that it needs.
    pub(crate) fn status_variables(&self) -> Vec<String> {
        let of_server = self.conditions.iter().filter(|condition| !condition.is_of_host());
        let mut names: Vec<String> = of_server.map(|condition| condition.name().to_owned()).collect();
        if self.when_stalled {
            names.extend(COMMITS.iter().chain([&RUNNING]).map(|name| (*name).to_owned()));
        }
        names
    }

    /// True where it needs the host.
    pub(crate) fn needs_host(&self) -> bool {
        self.conditions.iter().any(Condition::is_of_host)
    }

    /// Whether it fires with this reading, and why in words.
    ///
    /// # Errors
    /// The server answers and has no such status variable, or the kernel has no such reading: it could never fire.
    pub(crate) fn check(&mut self, reading: Reading) -> Result<Option<String>, String> {
        let answered = !matches!(reading.status, Some(Err(_)));
        for condition in &self.conditions {
            if reading.number(condition.name()).is_none() && (condition.is_of_host() || answered) {
                return Err(match condition.is_of_host() {
                    true => format!("the kernel does not tell {} here", condition.name()),
                    false => {
                        format!("the server has no status variable {} that is a number", condition.name())
                    }
                });
            }
        }
        self.lately.push_back(reading);
        let now_s = self.now().at_s;
        while self
            .lately
            .front()
            .is_some_and(|oldest| oldest.at_s < now_s - BUSY_WITHIN_S - STALLED_FOR_S - 1.0)
        {
            self.lately.pop_front();
        }
        let held = self.conditions.iter().find_map(|condition| {
            let value = self.value(condition)?;
            condition.holds(value).then(|| format!("{condition}: it is {}", number::plain(value)))
        });
        Ok(held.or_else(|| self.stalled().filter(|_| self.when_stalled)))
    }

    fn now(&self) -> &Reading {
        self.lately.back().expect("a reading was added before anybody looks")
    }

    fn value(&self, condition: &Condition) -> Option<f64> {
        let now = self.now();
        let value = now.number(condition.name())?;
        if !condition.is_rate {
            return Some(value);
        }
        let before =
            self.lately.iter().rev().find(|before| before.at_s <= now.at_s - RATE_OVER_S).or_else(|| {
                self.lately.front().filter(|oldest| oldest.at_s <= now.at_s - LEAST_RATE_OVER_S)
            })?;
        // A server that was restarted counts from zero: no rate until there are two readings of the new one.
        let grown = value - before.number(condition.name())?;
        (grown >= 0.0).then(|| grown / (now.at_s - before.at_s))
    }

    /// Commits that stopped while threads run; or a server that answered and does so no more.
    fn stalled(&self) -> Option<String> {
        let now = self.now();
        let commits =
            |reading: &Reading| COMMITS.iter().map(|name| reading.number(name)).sum::<Option<f64>>();
        let Some(count) = commits(now) else {
            let why = now.status.as_ref()?.as_ref().err()?;
            let answered_before = self.lately.iter().any(|before| commits(before).is_some());
            return answered_before.then(|| format!("the server answers no more: {why}"));
        };
        let flat = |reading: &&Reading| {
            commits(reading) == Some(count)
                && reading.number(RUNNING).is_some_and(|running| running > LEAST_RUNNING)
        };
        let since_s = self.lately.iter().rev().take_while(flat).last()?.at_s;
        let was_busy = self.lately.iter().any(|before| {
            before.at_s >= since_s - BUSY_WITHIN_S && commits(before).is_some_and(|before| before < count)
        });
        let flat_s = now.at_s - since_s;
        (was_busy && flat_s >= STALLED_FOR_S).then(|| {
            let running = now.number(RUNNING).unwrap_or_default() - 1.0;
            format!("no commit for {flat_s:.1} s while {} threads run", number::plain(running))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(at_s: f64, values: &[(&str, f64)]) -> Reading {
        let values = values.iter().map(|(name, value)| (*name, value.to_string()));
        let values: NamedValues =
            values.collect::<Vec<_>>().iter().map(|(name, value)| (*name, value.as_str())).collect();
        Reading { at_s, status: Some(Ok(values)), ..Reading::default() }
    }

    fn silent(at_s: f64) -> Reading {
        Reading { at_s, status: Some(Err("no answer in 1.0 s".to_owned())), ..Reading::default() }
    }

    fn when(condition: &str) -> Trigger {
        Trigger::new(vec![condition.parse().unwrap()], false)
    }

    #[test]
    fn a_condition_is_read_as_it_is_written() {
        for (text, shown) in [
            ("Threads_running>50", "Threads_running > 50"),
            (" Com_commit/s  <= 1.5k", "Com_commit/s <= 1500"),
            ("host.load >= 8", "host.load >= 8"),
            ("host.written_bytes/s > 100M", "host.written_bytes/s > 100,000,000"),
        ] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), shown);
        }
        for (text, reason) in [
            ("Threads_running", "there is no >"),
            ("> 5", "is no name of a status variable"),
            ("a b > 5", "is no name of a status variable"),
            ("x' > 5", "is no name of a status variable"),
            ("Threads_running > many", "\"many\" is no number"),
            ("Threads_running > inf", "is no number"),
            ("Threads_running > ", "is no number"),
            ("host.lod > 5", "there are host.load, host.runnable"),
        ] {
            let refused = text.parse::<Condition>().unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn it_fires_at_the_first_reading_that_holds_and_says_which() {
        let mut trigger = when("Threads_running > 50");
        assert_eq!(trigger.check(status(0.0, &[("Threads_running", 50.0)])), Ok(None));
        let fired = trigger.check(status(0.1, &[("Threads_running", 51.0)])).unwrap().unwrap();
        assert_eq!(fired, "Threads_running > 50: it is 51");
    }

    #[test]
    fn a_rate_is_taken_over_a_second_and_not_between_two_checks() {
        let mut trigger = when("Com_commit/s > 100");
        for tenth in 0..=20 {
            // Fifty at once every half second: 500 a second between two checks, 100 over a second.
            let commits = f64::from(tenth / 5 * 50);
            let reading = status(f64::from(tenth) / 10.0, &[("Com_commit", commits)]);
            assert_eq!(trigger.check(reading), Ok(None), "{tenth}");
        }
        assert!(trigger.check(status(2.1, &[("Com_commit", 800.0)])).unwrap().is_some());
        let mut restarted = when("Com_commit/s < 1");
        assert_eq!(restarted.check(status(0.0, &[("Com_commit", 1e6)])), Ok(None));
        assert_eq!(restarted.check(status(1.0, &[("Com_commit", 3.0)])), Ok(None), "a restart is no rate");
    }

    #[test]
    fn a_name_that_the_server_does_not_have_is_refused_and_not_waited_for() {
        let refused = when("Thread_running > 5").check(status(0.0, &[])).unwrap_err();
        assert!(refused.contains("no status variable Thread_running"), "{refused}");
        let mut not_yet = when("Threads_running > 5");
        assert_eq!(not_yet.check(silent(0.0)), Ok(None), "a server that does not answer may do so later");
    }

    const BUSY: [(&str, f64); 3] = [("Com_commit", 0.0), ("Com_rollback", 0.0), ("Threads_running", 40.0)];

    fn commits(at_s: f64, count: f64, running: f64) -> Reading {
        status(at_s, &[BUSY[0], BUSY[1], ("Handler_commit", count), ("Threads_running", running)])
    }

    #[test]
    fn commits_that_stop_for_a_second_while_threads_run_are_a_stall() {
        let mut trigger = Trigger::new(Vec::new(), true);
        for tenth in 0..10 {
            assert_eq!(trigger.check(commits(f64::from(tenth) / 10.0, f64::from(tenth), 40.0)), Ok(None));
        }
        for tenth in 10..19 {
            assert_eq!(trigger.check(commits(f64::from(tenth) / 10.0, 9.0, 40.0)), Ok(None), "{tenth}");
        }
        let fired = trigger.check(commits(2.0, 9.0, 40.0)).unwrap().unwrap();
        assert_eq!(fired, "no commit for 1.1 s while 39 threads run");
    }

    #[test]
    fn a_server_that_nobody_writes_to_does_not_stall_and_one_long_query_is_none() {
        for running in [40.0, 2.0] {
            let mut trigger = Trigger::new(Vec::new(), true);
            let moved = if running < 3.0 { 1.0 } else { 0.0 };
            assert_eq!(trigger.check(commits(0.0, 5.0 - moved, running)), Ok(None));
            for second in 1..30 {
                assert_eq!(trigger.check(commits(f64::from(second), 5.0, running)), Ok(None), "{running}");
            }
        }
    }

    #[test]
    fn a_server_that_answers_no_more_is_a_stall_and_one_that_never_did_is_not() {
        let mut trigger = Trigger::new(Vec::new(), true);
        assert_eq!(trigger.check(silent(0.0)), Ok(None));
        assert_eq!(trigger.check(commits(1.0, 5.0, 2.0)), Ok(None));
        let fired = trigger.check(silent(2.0)).unwrap().unwrap();
        assert_eq!(fired, "the server answers no more: no answer in 1.0 s");
    }

    #[test]
    fn the_live_host_has_every_reading_that_a_condition_may_name() {
        let target = spindoctor_collect::host::Target::live(std::process::id());
        let host = spindoctor_collect::gauges::read_host(&target);
        for name in ["host.runnable", "host.cpu_s", "host.threads", "host.context_switches"] {
            let (_, of) = HOST_READINGS.iter().find(|(known, _)| *known == name).unwrap();
            assert!(of(&host).is_some(), "{name}");
        }
    }
}
