//! The settings that make a full spin last so long, by the formula of [`LatchSpin`].

use serde::Serialize;
use spindoctor_model::host::PauseLatency;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerVersion, Unavailable, Window};
use spindoctor_rules::latch_spin::LatchSpin;

const ROUNDS: &str = "innodb_sync_spin_loops";
const DELAY: &str = "innodb_spin_wait_delay";

/// The rounds and the delay that a server starts with (MySQL Reference Manual; MariaDB's sysvars). Of a delay of 1 MySQL
/// makes no PAUSE at all.
const DEFAULT_ROUNDS: f64 = 30.0;
const DEFAULT_DELAY: f64 = 6.0;
const DEFAULT_DELAY_OF_MARIADB: f64 = 4.0;

/// Rounds alone are changed where there are at least so many: of fewer one more or less is too much of the spin, and the latch
/// is looked at too rarely. The most are those of the published case.
const FEWEST_ROUNDS: f64 = 4.0;
const MOST_ROUNDS: f64 = 200.0;

/// Settings whose spin lasts within this of what is wanted are near enough: a place of the histogram is as wide.
const NEAR: f64 = 1.25;

/// The settings of a server's latch spin, as far as they can be tried out.
pub struct Settings<'a> {
    version: ServerVersion,
    variables: NamedValues,
    pause: &'a PauseLatency,
}

/// A variable that is to change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Its name.
    pub variable: &'static str,
    /// Its value now.
    pub from: f64,
    /// Its value then.
    pub to: f64,
}

impl<'a> Settings<'a> {
    /// Those of a window's server.
    ///
    /// # Errors
    /// What of them is not known, and why.
    pub fn from_window(window: &'a Window) -> Result<Self, Unavailable> {
        let version =
            window.server.version.ok_or_else(|| Unavailable::because("the server's version is not known"))?;
        let variables = window.need(|sample| &sample.server.variables)?.clone();
        let settings = Self { version, variables, pause: window.need(|sample| &sample.host.pause)? };
        LatchSpin::new(version, &settings.variables, settings.pause)?;
        Ok(settings)
    }

    /// How long a full spin lasts, microseconds.
    pub fn spin_us(&self) -> f64 {
        self.with(&[]).map_or(0.0, |spin| spin.mean_us())
    }

    /// What to change so that a full spin lasts about so long: nothing where it does. The first of these that comes near:
    /// the rounds alone, one variable of a round, or that from the defaults on.
    pub fn lasting(&self, us: f64) -> Vec<Change> {
        let ways = [Some(Vec::new()), self.rounds(us), self.round(us, &[]), self.round(us, &self.defaults())];
        let off = |way: &Vec<(&'static str, f64)>| {
            let lasts = self.with(way).map_or(0.0, |spin| spin.mean_us());
            let times = lasts / us;
            times.max(1.0 / times).max(NEAR)
        };
        let best =
            ways.into_iter().flatten().reduce(|best, way| if off(&way) < off(&best) { way } else { best });
        self.changed(&best.unwrap_or_default())
    }

    fn defaults(&self) -> [(&'static str, f64); 2] {
        let delay = if self.version.is_mariadb() { DEFAULT_DELAY_OF_MARIADB } else { DEFAULT_DELAY };
        [(DELAY, delay), (ROUNDS, DEFAULT_ROUNDS)]
    }

    /// Other rounds.
    fn rounds(&self, us: f64) -> Option<Vec<(&'static str, f64)>> {
        let rounds = (us / self.with(&[(ROUNDS, 1.0)])?.mean_us()).round();
        (FEWEST_ROUNDS..=MOST_ROUNDS).contains(&rounds).then(|| vec![(ROUNDS, rounds)])
    }

    /// One variable that makes each round shorter or longer, beside others that are set.
    fn round(&self, us: f64, beside: &[(&'static str, f64)]) -> Option<Vec<(&'static str, f64)>> {
        let mut set = beside.to_vec();
        if let Some(correction) = self.with(beside)?.lasting(us) {
            set.retain(|(variable, _)| *variable != correction.variable);
            set.push((correction.variable, correction.to));
        }
        Some(set)
    }

    /// The spin with other values of some variables.
    fn with(&self, set: &[(&'static str, f64)]) -> Option<LatchSpin> {
        let mut variables = self.variables.clone();
        for (variable, to) in set {
            variables.insert(variable, to.to_string());
        }
        LatchSpin::new(self.version, &variables, self.pause).ok()
    }

    /// Those that have another value now.
    fn changed(&self, set: &[(&'static str, f64)]) -> Vec<Change> {
        let change = |&(variable, to): &(&'static str, f64)| {
            let from = self.variables.number(variable)?;
            (from != to).then_some(Change { variable, from, to })
        };
        set.iter().filter_map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause() -> PauseLatency {
        PauseLatency { ns: 10.9, ..PauseLatency::default() }
    }

    fn settings<'a>(version: &str, values: &[(&str, &str)], pause: &'a PauseLatency) -> Settings<'a> {
        let version = ServerVersion::parse(version, "").unwrap();
        Settings { version, variables: values.iter().copied().collect(), pause }
    }

    fn mysql<'a>(rounds: &str, delay: &str, multiplier: &str, pause: &'a PauseLatency) -> Settings<'a> {
        const MULTIPLIER: &str = "innodb_spin_wait_pause_multiplier";
        settings("8.4.3", &[(ROUNDS, rounds), (DELAY, delay), (MULTIPLIER, multiplier)], pause)
    }

    fn to(changes: &[Change]) -> Vec<(&str, f64)> {
        changes.iter().map(|change| (change.variable, change.to)).collect()
    }

    #[test]
    fn rounds_are_the_first_choice_and_what_is_near_is_left_alone() {
        let pause = pause();
        let default = mysql("30", "6", "50", &pause);
        assert!((default.spin_us() - 40.9).abs() < 0.1);
        assert_eq!(to(&default.lasting(200.0)), [(ROUNDS, 147.0)]);
        assert_eq!(to(&default.lasting(10.0)), [(ROUNDS, 7.0)]);
        assert_eq!(default.lasting(45.0), []);
    }

    #[test]
    fn where_one_round_is_far_too_long_a_round_becomes_shorter() {
        let pause = pause();
        let mis_set = mysql("30", "100", "100", &pause);
        assert!(mis_set.spin_us() > 1_600.0);
        let changes = mis_set.lasting(10.0);
        assert_eq!(to(&changes), [(DELAY, 6.0), ("innodb_spin_wait_pause_multiplier", 12.0)]);
        let set: Vec<(&'static str, f64)> =
            changes.iter().map(|change| (change.variable, change.to)).collect();
        let lasts = mis_set.with(&set).unwrap().mean_us();
        assert!((lasts / 10.0 - 1.0).abs() < NEAR - 1.0, "{lasts}");
    }

    #[test]
    fn who_does_not_spin_at_all_begins_with_rounds() {
        let pause = pause();
        assert_eq!(to(&mysql("0", "6", "50", &pause).lasting(41.0)), [(ROUNDS, 30.0)]);
        // A delay of 1 is no PAUSE in any number of rounds.
        let without = mysql("30", "1", "50", &pause).lasting(41.0);
        assert_eq!(to(&without), [(DELAY, 6.0)]);
    }

    #[test]
    fn mariadb_has_no_multiplier_to_set() {
        let pause = pause();
        let mis_set = settings("11.4.5-MariaDB", &[(ROUNDS, "30"), (DELAY, "600")], &pause);
        assert_eq!(to(&mis_set.lasting(16.4)), [(DELAY, 1.0)]);
    }
}
