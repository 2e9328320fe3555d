//! When MySQL 8.0 and later spin at a commit, as numbers: the window of user CPU in which a commit
//! spins, and the high-water mark that a CPU quota calls for.
//!
//! The rule of the server (`log_max_spins_when_waiting_in_user_thread`, log0write.cc): a committing
//! thread spins while `utime_abs >= innodb_log_spin_cpu_abs_lwm` and
//! `utime_pct < innodb_log_spin_cpu_pct_hwm`, where `utime_abs` is the server's user CPU in percent
//! of one CPU and `utime_pct = utime_abs / n_cpu`. The server's `n_cpu` knows the affinity mask, and
//! no quota.

use spindoctor_model::{Unavailable, Window};

/// From this share on, the server counts what it is granted (a quota of 3.9 on 4 CPUs).
const COUNTS_RIGHT: f64 = 0.9;

/// Percent of the granted CPUs up to which spinning is meant to go on: the default high-water mark.
pub const INTENDED_PCT: f64 = 50.0;

/// Below so many CPUs MySQL 9.5 and later do without threads of the redo log by themselves: 32 with the binary
/// log, without it up to 4 (MySQL Reference Manual, `innodb_log_writer_threads`).
const THREADS_FROM_CPUS_WITH_BINLOG: f64 = 32.0;
const NO_THREADS_UP_TO_CPUS: f64 = 4.0;

/// Whether so many CPUs are too few for threads of the redo log, by the server's own rule; with the rule in words.
pub fn too_few_for_log_threads(cpus: f64, binlog: bool) -> (bool, &'static str) {
    match binlog {
        true => (cpus < THREADS_FROM_CPUS_WITH_BINLOG, "from 32 CPUs on, with a binary log"),
        false => (cpus <= NO_THREADS_UP_TO_CPUS, "above 4 CPUs, without a binary log"),
    }
}

/// The settings of the commit spin on one server, with the CPUs it counts and is granted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommitSpin {
    /// CPUs that the server counts (`srv_cpu_usage.n_cpu`).
    pub counted_cpus: f64,
    /// CPUs that the quota grants.
    pub granted_cpus: f64,
    /// `innodb_log_spin_cpu_abs_lwm`, percent of one CPU.
    pub abs_lwm: f64,
    /// `innodb_log_spin_cpu_pct_hwm`, percent of the counted CPUs.
    pub pct_hwm: f64,
}

impl CommitSpin {
    /// Those of the window's server under its quota; None where no quota is set.
    ///
    /// # Errors
    /// That the quota, the settings or the CPUs that the server itself counts could not be read.
    pub fn under_quota(window: &Window) -> Result<Option<Self>, Unavailable> {
        let effective = window.need(|s| &s.host.effective_cpus)?;
        let Some(quota) = &effective.quota else {
            return Ok(None);
        };
        let Some((counted, _)) = window.server_counts_cpus() else {
            return Err(Unavailable::because("how many CPUs the server itself counts could not be read")
                .unlock(
                    "run spindoctor as root or as the server's user (it reads srv_cpu_usage), or \
                 SET GLOBAL innodb_monitor_enable = 'module_cpu'",
                ));
        };
        Ok(Some(Self {
            counted_cpus: f64::from(counted.max(1)),
            granted_cpus: effective.cpus.min(quota.cpus),
            abs_lwm: window.need_variable("innodb_log_spin_cpu_abs_lwm")?,
            pct_hwm: window.need_variable("innodb_log_spin_cpu_pct_hwm")?,
        }))
    }

    /// True where the server counts about as many CPUs as it is granted.
    pub fn counts_right(&self) -> bool {
        self.granted_cpus >= COUNTS_RIGHT * self.counted_cpus
    }

    /// User CPU at which spinning stops, percent of one CPU.
    pub fn stops_at_abs(&self) -> f64 {
        self.pct_hwm * self.counted_cpus
    }

    /// True where no commit ever spins under this quota: the low-water mark cannot be reached, or
    /// nothing lies between it and the high-water mark.
    pub fn never_spins(&self) -> bool {
        100.0 * self.granted_cpus <= self.abs_lwm || self.stops_at_abs() <= self.abs_lwm
    }

    /// True where spinning stops only at a usage that the quota does not permit.
    pub fn never_stops(&self) -> bool {
        self.stops_at_abs() >= 100.0 * self.granted_cpus
    }

    /// The high-water mark that means half of the granted CPUs: `max(1, floor(50 * Q / N))`.
    pub fn corrected_hwm(&self) -> f64 {
        self.hwm_meaning(INTENDED_PCT)
    }

    /// The high-water mark that means so many percent of the granted CPUs.
    pub fn hwm_meaning(&self, pct: f64) -> f64 {
        // The epsilon keeps 50 * 0.3 / 3 from becoming 4.
        (pct * self.granted_cpus / self.counted_cpus + 1e-9).floor().max(1.0)
    }

    /// The same server with the corrected high-water mark.
    #[must_use]
    pub fn corrected(&self) -> Self {
        Self { pct_hwm: self.corrected_hwm(), ..*self }
    }

    /// True where a commit spins at that user CPU, percent of one CPU.
    pub fn spins_at(&self, utime_abs: f64) -> bool {
        utime_abs >= self.abs_lwm && utime_abs < self.stops_at_abs()
    }

    /// True where a commit spins at that user CPU only because the server does not see the quota.
    pub fn spins_blindly_at(&self, utime_abs: f64) -> bool {
        self.spins_at(utime_abs) && !self.corrected().spins_at(utime_abs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(counted_cpus: f64, granted_cpus: f64) -> CommitSpin {
        CommitSpin { counted_cpus, granted_cpus, abs_lwm: 80.0, pct_hwm: 50.0 }
    }

    #[test]
    fn the_published_case_of_six_cpus_under_a_quota_of_one_comes_out() {
        let published = spin(6.0, 1.0);
        assert_eq!(published.corrected_hwm(), 8.0);
        assert!(published.spins_at(83.26) && published.never_stops() && !published.never_spins());
        assert!(published.spins_blindly_at(83.26));
        assert!(published.corrected().never_spins());
    }

    #[test]
    fn a_quota_below_the_low_water_mark_never_spins() {
        assert!(spin(2.0, 0.5).never_spins());
        assert!(spin(2.0, 0.8).never_spins());
        assert!(!spin(2.0, 1.0).never_spins());
    }

    #[test]
    fn a_server_that_counts_what_it_is_granted_needs_no_correction() {
        assert_eq!(spin(4.0, 4.0).corrected_hwm(), 50.0);
        assert!(!spin(4.0, 4.0).spins_blindly_at(150.0));
    }

    #[test]
    fn the_corrected_mark_is_at_least_one() {
        assert_eq!(spin(128.0, 0.5).corrected_hwm(), 1.0);
    }

    #[test]
    fn spinning_that_the_corrected_mark_permits_too_is_not_blind() {
        let wide = spin(64.0, 8.0);
        assert_eq!(wide.corrected_hwm(), 6.0);
        assert!(!wide.spins_blindly_at(300.0), "6 % of 64 CPUs are 384 % of one");
        assert!(wide.spins_blindly_at(500.0));
    }
}
