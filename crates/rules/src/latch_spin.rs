//! How long a thread spins on a latch before it sleeps, as numbers, and the settings that make the spin last as long as
//! intended.
//!
//! MySQL (`TTASEventMutex::spin_and_try_lock`, sync0rw.cc, ut0ut.cc): up to `innodb_sync_spin_loops` rounds
//! of `ut_delay(k)`, k uniform from 0 to `innodb_spin_wait_delay` - 1, each k times
//! `innodb_spin_wait_pause_multiplier` PAUSEs, 50 where the server has no such variable (before 8.0.16, but for builds that
//! have it patched in). MariaDB (my_cpu.h, srw_lock.cc): a quarter
//! of its own multiplier times `innodb_spin_wait_delay` PAUSEs in each round; the multiplier is 200, or 100
//! where it found at start-up that a PAUSE takes more than 30 ticks.

use spindoctor_model::host::PauseLatency;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerVersion, Unavailable, Window};

/// One PAUSE on the CPUs for which the defaults were chosen (Intel before Skylake), nanoseconds.
const PAUSE_OF_DEFAULTS_NS: f64 = 10.9;

/// Ticks of a PAUSE above which MariaDB takes its smaller multiplier (MDEV-19845).
const MARIADB_SLOW_PAUSE_TICKS: f64 = 30.0;

/// The greatest `innodb_spin_wait_pause_multiplier` (MySQL Reference Manual).
const MOST_MULTIPLIER: f64 = 100.0;

/// The greatest `innodb_spin_wait_delay` of MySQL 8.0.28 and later, the least of all (MySQL Reference Manual).
const MOST_DELAY: f64 = 1_000.0;

/// A full spin within these times of what the defaults were meant to give it fits. Longer, it is too long no matter which thread
/// holds the latch (`spin-burn`); shorter, too short (`spin-too-short`).
const FITS: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// Where nothing shows whether any thread spins, the settings must be this far off to speak alone: four times is what the
/// published case measured between CPUs, and less is common where nothing is wrong.
const FAR_OFF: f64 = 4.0;

/// The settings of the latch spin on one server, with the PAUSE of its CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatchSpin {
    /// `innodb_sync_spin_loops`.
    loops: f64,
    /// `innodb_spin_wait_delay`.
    delay: f64,
    /// PAUSEs in each unit of delay; on MariaDB a quarter of its multiplier.
    multiplier: f64,
    /// One PAUSE, nanoseconds.
    pub pause_ns: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The multiplier is a variable: MySQL 8.0.16 and later, and older builds into which it was patched.
    Multiplier,
    /// It is none: MySQL before.
    Fixed,
    Mariadb,
}

impl LatchSpin {
    /// The settings of the window's server.
    pub(crate) fn from_window(window: &Window) -> Result<Self, Unavailable> {
        let Some(version) = window.server.version else {
            return Err(Unavailable::because("the server's version is not known"));
        };
        Self::new(version, window.need(|s| &s.server.variables)?, window.need(|s| &s.host.pause)?)
    }

    /// From the server's variables and the PAUSE of its CPUs.
    ///
    /// # Errors
    /// That one of the variables is missing.
    pub fn new(
        version: ServerVersion,
        variables: &NamedValues,
        pause: &PauseLatency,
    ) -> Result<Self, Unavailable> {
        let number = |name: &str| {
            variables
                .number(name)
                .ok_or_else(|| Unavailable::because(format!("the server has no variable {name}")))
        };
        const MULTIPLIER: &str = "innodb_spin_wait_pause_multiplier";
        let (kind, multiplier) = if version.is_mariadb() {
            let slow = pause.tsc_ticks.is_some_and(|ticks| ticks > MARIADB_SLOW_PAUSE_TICKS);
            (Kind::Mariadb, if slow { 100.0 } else { 200.0 } / 4.0)
        } else if let Some(multiplier) = variables.number(MULTIPLIER) {
            (Kind::Multiplier, multiplier)
        } else if version.mysql_at_least(8, 0, 16) {
            (Kind::Multiplier, number(MULTIPLIER)?)
        } else {
            (Kind::Fixed, 50.0)
        };
        Ok(Self {
            loops: number("innodb_sync_spin_loops")?,
            delay: number("innodb_spin_wait_delay")?,
            multiplier,
            pause_ns: pause.ns,
            kind,
        })
    }

    /// PAUSEs in one round, on average.
    fn pauses_per_round(&self) -> f64 {
        match self.kind {
            Kind::Mariadb => self.delay * self.multiplier,
            Kind::Multiplier | Kind::Fixed => (self.delay - 1.0).max(0.0) / 2.0 * self.multiplier,
        }
    }

    /// For how long a latch that stays taken is spun on before its waiter sleeps, on average, microseconds.
    pub fn mean_us(&self) -> f64 {
        self.loops * self.pauses_per_round() * self.pause_ns / 1e3
    }

    /// How many times as long as it was meant to a full spin lasts.
    pub(crate) fn times_meant(&self) -> f64 {
        self.mean_us() / self.as_meant().mean_us()
    }

    /// True where a full spin lasts about as long as it was meant to.
    pub(crate) fn fits(&self) -> bool {
        FITS.contains(&self.times_meant())
    }

    /// True where it lasts so much longer that it is wrong whatever latch it is for.
    pub(crate) fn is_too_long(&self) -> bool {
        self.times_meant() > *FITS.end()
    }

    /// True where it lasts less than that.
    pub(crate) fn is_too_short(&self) -> bool {
        self.times_meant() < *FITS.start()
    }

    /// True where the settings are so far off that they speak alone.
    pub(crate) fn is_far_off(&self) -> bool {
        let times = self.times_meant();
        times.max(1.0 / times) >= FAR_OFF
    }

    /// The server's defaults on the CPUs for which they were chosen.
    pub fn as_meant(&self) -> Self {
        let (delay, multiplier) = match self.kind {
            Kind::Mariadb => (4.0, 50.0),
            Kind::Multiplier | Kind::Fixed => (6.0, 50.0),
        };
        Self { loops: 30.0, delay, multiplier, pause_ns: PAUSE_OF_DEFAULTS_NS, kind: self.kind }
    }

    /// Settings that spin as long on this CPU as the defaults did on those they were chosen for, as
    /// variables with their values, now and then; only those that change.
    pub(crate) fn corrected(&self) -> Vec<Correction> {
        let meant = self.as_meant();
        let shorter = meant.pause_ns / self.pause_ns;
        let (delay, multiplier) = match self.kind {
            Kind::Multiplier => {
                (meant.delay, (meant.multiplier * shorter).round().clamp(1.0, MOST_MULTIPLIER))
            }
            // The mean number of PAUSEs in a round grows with delay - 1.
            Kind::Fixed => (((meant.delay - 1.0) * shorter).round().max(1.0) + 1.0, self.multiplier),
            Kind::Mariadb => {
                let pauses = meant.delay * meant.multiplier * shorter;
                ((pauses / self.multiplier).round().max(1.0), self.multiplier)
            }
        };
        let mut corrections = vec![
            Correction { variable: "innodb_spin_wait_delay", from: self.delay, to: delay },
            Correction { variable: "innodb_sync_spin_loops", from: self.loops, to: meant.loops },
        ];
        if self.kind == Kind::Multiplier {
            let variable = "innodb_spin_wait_pause_multiplier";
            corrections.insert(1, Correction { variable, from: self.multiplier, to: multiplier });
        }
        corrections.retain(|correction| correction.from != correction.to);
        corrections
    }

    /// True where loops, delay and multiplier are those that the server starts with.
    pub fn is_default(&self) -> bool {
        let Self { loops, delay, multiplier, .. } = self.as_meant();
        (self.loops, self.delay) == (loops, delay)
            && (self.kind == Kind::Mariadb || self.multiplier == multiplier)
    }

    /// The one variable that makes a full spin last about so long, rounds left alone; none where it has that value.
    pub fn lasting(&self, mean_us: f64) -> Option<Correction> {
        let pauses = mean_us * 1e3 / (self.loops * self.pause_ns);
        let (variable, from, to, most) = match self.kind {
            Kind::Multiplier => {
                let to = pauses * 2.0 / (self.delay - 1.0);
                ("innodb_spin_wait_pause_multiplier", self.multiplier, to, MOST_MULTIPLIER)
            }
            Kind::Fixed => {
                ("innodb_spin_wait_delay", self.delay, pauses * 2.0 / self.multiplier + 1.0, MOST_DELAY)
            }
            Kind::Mariadb => ("innodb_spin_wait_delay", self.delay, pauses / self.multiplier, MOST_DELAY),
        };
        // Of a spin without a PAUSE no setting makes a long one.
        let to = Some(to.round().clamp(1.0, most)).filter(|_| self.mean_us() > 0.0 && to.is_finite());
        Some(Correction { variable, from, to: to? }).filter(|correction| correction.from != correction.to)
    }

    /// More rounds, up to a bound, so that a full spin lasts so many times longer; none where that changes nothing.
    pub(crate) fn longer(&self, times: f64, most_loops: f64) -> Vec<Correction> {
        let to = (self.loops * times).round().min(most_loops);
        let longer = Correction { variable: "innodb_sync_spin_loops", from: self.loops, to };
        Vec::from_iter((to > self.loops).then_some(longer))
    }

    /// The three settings in words: `30 rounds, delay 6, multiplier 50`.
    pub(crate) fn words(&self) -> String {
        let Self { loops, delay, multiplier, .. } = self;
        match self.kind {
            Kind::Multiplier => format!("{loops:.0} rounds, delay {delay:.0}, multiplier {multiplier:.0}"),
            Kind::Fixed | Kind::Mariadb => format!("{loops:.0} rounds, delay {delay:.0}"),
        }
    }
}

/// One variable that is to change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Its name.
    pub variable: &'static str,
    /// Its value now.
    pub from: f64,
    /// Its value then.
    pub to: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql(delay: f64, multiplier: f64, pause_ns: f64) -> LatchSpin {
        LatchSpin { loops: 30.0, delay, multiplier, pause_ns, kind: Kind::Multiplier }
    }

    #[test]
    fn the_defaults_last_41_us_where_a_pause_takes_11_ns_and_four_times_as_long_on_skylake() {
        assert!((mysql(6.0, 50.0, 10.9).mean_us() - 40.9).abs() < 0.1);
        assert!((mysql(6.0, 50.0, 47.0).mean_us() - 176.0).abs() < 1.0);
    }

    #[test]
    fn a_slow_pause_is_made_up_for_by_the_multiplier() {
        let spin = mysql(6.0, 50.0, 47.0);
        let corrected = spin.corrected();
        assert_eq!(corrected.len(), 1);
        assert_eq!((corrected[0].variable, corrected[0].to), ("innodb_spin_wait_pause_multiplier", 12.0));
        assert_eq!(mysql(6.0, 50.0, 10.9).corrected(), []);
        assert_eq!(mysql(6.0, 8.0, 5.3).corrected()[0].to, 100.0, "no server takes 103");
    }

    #[test]
    fn settings_far_from_the_defaults_go_back_to_them() {
        let names: Vec<_> =
            mysql(100.0, 100.0, 10.9).corrected().iter().map(|c| (c.variable, c.to)).collect();
        assert_eq!(names, [("innodb_spin_wait_delay", 6.0), ("innodb_spin_wait_pause_multiplier", 50.0)]);
    }

    #[test]
    fn one_variable_makes_a_spin_last_as_long_on_another_cpu() {
        let skylake = mysql(6.0, 50.0, 47.0);
        assert!(skylake.is_default() && !mysql(6.0, 51.0, 47.0).is_default());
        let shorter = skylake.lasting(40.9).unwrap();
        assert_eq!((shorter.variable, shorter.to), ("innodb_spin_wait_pause_multiplier", 12.0));
        assert_eq!(mysql(6.0, 50.0, 10.9).lasting(40.9), None);
        assert_eq!(mysql(1.0, 50.0, 10.9).lasting(40.9), None, "a delay of 1 has no PAUSE at all");
        let old = LatchSpin { kind: Kind::Fixed, ..skylake };
        assert_eq!(old.lasting(40.9).map(|c| (c.variable, c.to)), Some(("innodb_spin_wait_delay", 2.0)));
        let mariadb = LatchSpin { delay: 4.0, kind: Kind::Mariadb, ..skylake };
        assert_eq!(mariadb.lasting(65.4).map(|c| (c.variable, c.to)), Some(("innodb_spin_wait_delay", 1.0)));
    }

    #[test]
    fn a_multiplier_that_was_patched_into_5_7_counts_as_it_is_set() {
        let version = ServerVersion::parse("5.7.26-log", "").unwrap();
        let pause = PauseLatency { ns: 66.0, ..PauseLatency::default() };
        let of = |multiplier: Option<&str>| {
            let settings = [("innodb_sync_spin_loops", "30"), ("innodb_spin_wait_delay", "6")];
            let patched = multiplier.map(|to| ("innodb_spin_wait_pause_multiplier", to));
            LatchSpin::new(version, &settings.into_iter().chain(patched).collect(), &pause).unwrap()
        };
        let patched = of(Some("5"));
        assert!((patched.mean_us() - 24.75).abs() < 0.01, "{}", patched.mean_us());
        assert_eq!(patched.words(), "30 rounds, delay 6, multiplier 5");
        assert!(patched.corrected().iter().all(|c| c.variable == "innodb_spin_wait_pause_multiplier"));
        assert!((of(None).mean_us() - 247.5).abs() < 0.1);
    }

    #[test]
    fn before_8_0_16_and_on_mariadb_the_delay_makes_up_for_it() {
        let old = LatchSpin { kind: Kind::Fixed, ..mysql(6.0, 50.0, 47.0) };
        assert_eq!(old.corrected()[0].to, 2.0);
        let mariadb =
            LatchSpin { loops: 30.0, delay: 100.0, multiplier: 25.0, pause_ns: 43.0, kind: Kind::Mariadb };
        assert_eq!(mariadb.corrected()[0].to, 2.0);
    }
}
