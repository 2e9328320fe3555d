//! Spin settings that do not fit a server's CPUs, from settings and numbers of CPUs alone: for users who have only SQL
//! and a list of the CPUs that each server is granted. Whether any thread spins is not known here, so the result is not
//! a finding.

use spindoctor_model::host::PauseLatency;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerVersion, Window};

use crate::commit_spin::{CommitSpin, too_few_for_log_threads};
use crate::latch_spin::LatchSpin;

const HWM: &str = "innodb_log_spin_cpu_pct_hwm";
const WRITER_THREADS: &str = "innodb_log_writer_threads";

/// A setting that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Misfit {
    /// The variable.
    pub variable: &'static str,
    /// Its value now.
    pub value: String,
    /// The value that fits.
    pub fits: String,
    /// Why, with the numbers of CPUs that it rests on.
    pub why: String,
}

/// The settings that do not fit the CPUs that the server counts (the metric `cpu_n`) or is granted; none where neither is
/// known. MariaDB's commits do not spin, and neither do those of MySQL before 8.0.
pub fn misfits(window: &Window) -> Vec<Misfit> {
    let spins = window.server.version.is_some_and(|version| version.mysql_at_least(8, 0, 0));
    if !spins || is_off(window, WRITER_THREADS) {
        return Vec::new();
    }
    [mark(window), threads(window)].into_iter().flatten().collect()
}

/// The mark at which commits stop spinning, where the server counts more CPUs than it is granted.
fn mark(window: &Window) -> Option<Misfit> {
    let spin = CommitSpin::under_quota(window).ok()??;
    let fits = spin.corrected_hwm();
    if spin.counts_right() || spin.never_spins() || spin.pct_hwm <= fits {
        return None;
    }
    Some(Misfit {
        variable: HWM,
        value: format!("{:.0}", spin.pct_hwm),
        fits: format!("{fits:.0}"),
        why: format!(
            "the server counts {:.0} CPUs, {} {} granted",
            spin.counted_cpus,
            spin.granted_cpus,
            if spin.granted_cpus == 1.0 { "is" } else { "are" }
        ),
    })
}

/// Threads of the redo log, which spin while they wait for work, on CPUs that are too few for them.
fn threads(window: &Window) -> Option<Misfit> {
    let value = window.variable(WRITER_THREADS)?;
    let granted = window.latest(|s| &s.host.effective_cpus).map(|effective| effective.cpus);
    let counted = window.server_counts_cpus().map(|(cpus, _)| f64::from(cpus));
    let cpus = granted.into_iter().chain(counted).reduce(f64::min)?;
    let (too_few, rule) = too_few_for_log_threads(cpus, !is_off(window, "log_bin"));
    too_few.then(|| Misfit {
        variable: WRITER_THREADS,
        value: value.to_owned(),
        fits: "OFF".to_owned(),
        why: format!("MySQL 9.5 and later has threads of the redo log {rule}"),
    })
}

/// The settings that [`latch_misfits`] needs.
pub const LATCH_SETTINGS: [&str; 3] =
    ["innodb_sync_spin_loops", "innodb_spin_wait_delay", "innodb_spin_wait_pause_multiplier"];

/// The settings of the latch spin that do not fit a PAUSE of this length: a full spin lasts four times as long as the defaults
/// were meant to give it or more, or a quarter or less. None where a setting is not known, and none where spinning is switched
/// off.
pub fn latch_misfits(version: ServerVersion, variables: &NamedValues, pause: &PauseLatency) -> Vec<Misfit> {
    let spin = |pause: &PauseLatency| LatchSpin::new(version, variables, pause).ok();
    // MariaDB takes half as many PAUSEs where it counts many ticks in one. Where nobody counted them both must not fit.
    let spins = match (version.is_mariadb(), pause.tsc_ticks, pause.instruction.as_str()) {
        (true, None, instruction) if instruction != "isb" => {
            [f64::INFINITY, 0.0].map(|ticks| spin(&PauseLatency { tsc_ticks: Some(ticks), ..pause.clone() }))
        }
        _ => [spin(pause), spin(pause)],
    };
    let [Some(first), Some(other)] = spins else { return Vec::new() };
    if [first, other].iter().any(|spin| spin.mean_us() == 0.0 || !spin.is_far_off()) {
        return Vec::new();
    }
    let why = format!(
        "a full spin lasts {:.0} us with a PAUSE of {:.1} ns, {:.0} were meant",
        first.mean_us(),
        pause.ns,
        first.as_meant().mean_us()
    );
    let misfit = |correction: crate::latch_spin::Correction| Misfit {
        variable: correction.variable,
        value: format!("{:.0}", correction.from),
        fits: format!("{:.0}", correction.to),
        why: why.clone(),
    };
    first.corrected().into_iter().map(misfit).collect()
}

fn is_off(window: &Window, switch: &str) -> bool {
    window.variable(switch).is_some_and(|value| value.eq_ignore_ascii_case("OFF"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    /// The server counts four CPUs.
    fn server(version: &str) -> Build {
        Build::busy(version)
            .variable("innodb_log_spin_cpu_abs_lwm", "80")
            .variable(HWM, "50")
            .variable(WRITER_THREADS, "OFF")
    }

    fn misfits_of(build: Build) -> Vec<(&'static str, String, String)> {
        misfits(&build.window()).into_iter().map(|m| (m.variable, m.fits, m.why)).collect()
    }

    #[test]
    fn the_mark_of_a_server_that_counts_more_than_it_is_granted_does_not_fit() {
        let threads = |build: Build| build.variable(WRITER_THREADS, "ON");
        let found = misfits_of(threads(server("8.0.36").quota(1.0, 4)));
        assert_eq!(found[0].0, HWM);
        assert_eq!(
            (found[0].1.as_str(), found[0].2.as_str()),
            ("12", "the server counts 4 CPUs, 1 is granted")
        );
        assert!(
            misfits_of(threads(server("8.0.36").quota(4.0, 4))).iter().all(|(variable, ..)| *variable != HWM)
        );
        let set = threads(server("8.0.36").quota(1.0, 4)).variable(HWM, "12");
        assert!(misfits_of(set).iter().all(|(variable, ..)| *variable != HWM));
    }

    #[test]
    fn threads_of_the_redo_log_do_not_fit_few_cpus() {
        let with = |binlog: &str| server("8.0.36").variable(WRITER_THREADS, "ON").variable("log_bin", binlog);
        for binlog in ["ON", "OFF"] {
            let found = misfits_of(with(binlog));
            assert_eq!(
                (found.len(), found[0].0, found[0].1.as_str()),
                (1, WRITER_THREADS, "OFF"),
                "{binlog}"
            );
        }
        let sixteen = |binlog: &str| with(binlog).counted_cpus(16, 160.0).quota(16.0, 16);
        assert_eq!(misfits_of(sixteen("ON")).len(), 1);
        assert_eq!(misfits_of(sixteen("OFF")), []);
    }

    #[test]
    fn where_no_commit_spins_everything_fits() {
        assert_eq!(misfits_of(server("8.0.36").quota(1.0, 4)), []);
        assert_eq!(misfits_of(server("10.11.19-MariaDB").variable(WRITER_THREADS, "ON").quota(1.0, 4)), []);
    }

    fn latch(version: &str, settings: &[(&str, &str)], pause: &PauseLatency) -> Vec<(&'static str, String)> {
        let version = ServerVersion::parse(version, "").unwrap();
        let found = latch_misfits(version, &settings.iter().copied().collect(), pause);
        found.into_iter().map(|misfit| (misfit.variable, misfit.fits)).collect()
    }

    fn lasting(ns: f64) -> PauseLatency {
        PauseLatency { ns, ..PauseLatency::default() }
    }

    const DEFAULTS: [(&str, &str); 3] = [
        ("innodb_sync_spin_loops", "30"),
        ("innodb_spin_wait_delay", "6"),
        ("innodb_spin_wait_pause_multiplier", "50"),
    ];

    #[test]
    fn a_latch_spin_that_is_far_from_what_was_meant_does_not_fit_its_pause() {
        let misfit = |ns| latch("8.0.36", &DEFAULTS, &lasting(ns));
        assert_eq!(misfit(66.0), [("innodb_spin_wait_pause_multiplier", "8".to_owned())]);
        assert_eq!(misfit(25.9), [], "2.4 times as long: common where nothing is wrong");
        assert_eq!(misfit(10.9), []);
        let of =
            |name, value| DEFAULTS.map(|(other, as_is)| (other, if other == name { value } else { as_is }));
        let multiplier =
            |ns, value| latch("8.0.36", &of("innodb_spin_wait_pause_multiplier", value), &lasting(ns));
        assert_eq!(multiplier(66.0, "5"), [], "the published cure");
        assert_eq!(multiplier(10.9, "5"), [("innodb_spin_wait_pause_multiplier", "50".to_owned())]);
        assert_eq!(
            latch("8.0.36", &of("innodb_sync_spin_loops", "0"), &lasting(66.0)),
            [],
            "it is switched off"
        );
        assert_eq!(latch("8.0.36", &DEFAULTS[1..], &lasting(66.0)), [], "a setting that nobody knows");
        // Before 8.0.16 there is no multiplier, unless it was patched in.
        assert_eq!(
            latch("5.7.44", &DEFAULTS[..2], &lasting(66.0)),
            [("innodb_spin_wait_delay", "2".to_owned())]
        );
        assert_eq!(latch("5.7.26", &of("innodb_spin_wait_pause_multiplier", "5"), &lasting(66.0)), []);
    }

    #[test]
    fn where_nobody_counted_ticks_mariadb_must_be_far_off_whatever_it_found() {
        let settings = [("innodb_sync_spin_loops", "30"), ("innodb_spin_wait_delay", "4")];
        let misfit = |ns, ticks, instruction: &str| {
            let pause = PauseLatency { tsc_ticks: ticks, instruction: instruction.to_owned(), ..lasting(ns) };
            latch("10.11.19-MariaDB", &settings, &pause)
        };
        // With 200 a full spin is six times as long, with 100 three times.
        assert_eq!(misfit(66.0, None, "pause"), []);
        assert_eq!(misfit(66.0, Some(20.0), "pause"), [("innodb_spin_wait_delay", "1".to_owned())]);
        assert_eq!(misfit(66.0, Some(140.0), "pause"), []);
        assert_eq!(
            misfit(66.0, None, "isb"),
            [("innodb_spin_wait_delay", "1".to_owned())],
            "aarch64 has none to count"
        );
        assert_eq!(misfit(100.0, None, ""), [("innodb_spin_wait_delay", "1".to_owned())]);
    }

    #[test]
    fn where_nobody_knows_the_cpus_nothing_is_said() {
        let unknown = server("8.0.36").variable(WRITER_THREADS, "ON").each(|_, server, host| {
            host.effective_cpus = spindoctor_model::Reading::NotAsked;
            host.srv_cpu_usage = spindoctor_model::Reading::NotAsked;
            server.innodb_metrics = spindoctor_model::Reading::NotAsked;
        });
        assert_eq!(misfits_of(unknown), []);
    }
}
