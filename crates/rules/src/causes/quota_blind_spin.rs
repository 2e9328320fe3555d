//! `quota-blind-spin`: the commit spin of MySQL 8.0 and later counts CPUs that the quota does not grant.

use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window, window};

use super::{cpu_saturated, cpu_throttled};
use crate::commit_spin::CommitSpin;
use crate::commits::commits_per_s;
use crate::draft::Draft;
use crate::redo_sync::redo_sync;
use crate::spin_samples::{SpinSamples, Whose};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "quota-blind-spin",
    title: "the server's adaptive spinning counts CPUs that the quota does not grant",
    what: "A commit in MySQL 8.0 and later waits until its redo is written or flushed. Before it sleeps, the \
           thread spins: up to 250,000 rounds of one PAUSE each. Whether it may spin depends on how busy the \
           server believes the machine to be. Its own user CPU must be at or above \
           innodb_log_spin_cpu_abs_lwm (80 % of one CPU), and below innodb_log_spin_cpu_pct_hwm (50 %) of all \
           CPUs it counts. It counts the CPUs in its affinity mask. A CFS quota (CPUQuota=, docker --cpus, \
           Kubernetes limits) is not in that mask, so under a quota of 1 CPU on a host of 6 the server sees \
           itself at 17 % at most, for ever below 50 %, and spins on.",
    why_it_hurts: "Spinning pays while CPUs are idle. Under a quota no CPU time is idle: each spun microsecond \
                   is taken from a statement, and when the quota is used up every thread stops until the next \
                   period. In the published case 21 % of the CPU went into the spin, and throughput rose by \
                   35 % (3,462 to 4,677 transactions a second) once the mark was right.",
    evidence: "What is read: N, the CPUs that the server itself counts: n_cpu of its live srv_cpu_usage, or the metric cpu_n; never \
               the host's own count. Q, the quota along the whole cgroup path. The server's user CPU (utime_abs) in each sample.\n\n\
               The spin window is [lwm, hwm * N) in percent of one CPU. It fires when a third or more of the samples lie in the part \
               of that window that the corrected mark max(1, floor(50 * Q / N)) closes, and commits happen. Where CPU samples were \
               taken, a fiftieth of them must lie in the loop.\n\n\
               The estimate is the share of the CPU samples in the loop. Without them: where log_on_flush_no_waits and \
               log_on_flush_waits are enabled, they show how many commits ended their wait without sleeping; with log_flush_avg_time \
               the spun time can be computed. Otherwise it is estimated after the published case, and says so.\n\n\
               Clear without a quota, with innodb_log_writer_threads=OFF or innodb_flush_log_at_trx_commit=0 (no commit spin at \
               all), on MariaDB (at most one short delay), where 100 * Q <= lwm (it never spins), and where one flush takes longer \
               than innodb_log_wait_for_flush_spin_hwm (400 us: slow disks switch the flush spin off).",
    looks_alike: "ut_delay in a profile is the latch spin, another loop with other settings \
                  (innodb_sync_spin_loops, innodb_spin_wait_delay): see spin-burn. A cpuset instead of a quota \
                  is counted rightly. Throttling without spinning is cpu-throttled alone. MySQL 9.3 to 9.6 \
                  read the quota for some sizes and may count it already; 9.7 does not: container_aware there \
                  is about memory only. That is why N is read from the server, not computed.",
    remedies: "Set innodb_log_spin_cpu_pct_hwm to max(1, floor(50 * Q / N)), so that it means half of what is \
               granted. If the quota changes, compute it again. Where the corrected mark times N is not above \
               the low-water mark, the setting means never spin, which is right for a quota below 1.6 CPUs. \
               Better than a quota: a cpuset of whole CPUs, which the server does count.",
    safety: "The variable is dynamic, global, takes effect within a second, and is undone by setting the old \
             value. It changes the commit wait only, never what is durable. Without a quota, too low a mark \
             costs commit latency at low concurrency. Keep it with SET PERSIST once proved.",
    references: &[
        "Published case: MySQL 8.0 under CPUQuota=100% on 6 CPUs, adaptive spinning in log_write_up_to (3,462 to 4,677 TPS)",
        "MySQL 8.0 source, log0write.cc: log_max_spins_when_waiting_in_user_thread, log_wait_for_flush",
        "MySQL 8.0 source, srv0srv.cc: srv_update_cpu_usage",
        "MySQL Reference Manual: innodb_log_spin_cpu_pct_hwm, innodb_log_spin_cpu_abs_lwm",
    ],
    costs: Costs::Cpu,
    explains_time: &[
        TimeClass::Spin,
        TimeClass::CpuQueue,
        TimeClass::CpuQuota,
        TimeClass::Commit,
        TimeClass::Latch,
    ],
    stacks: Stacks::Spinning(Whose::Commit),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From this share of samples in the blind part of the spin window on, it fires: below a third the
/// server is mostly too idle or too busy to spin, and crosses the window on its way.
const SAMPLES_BLIND: f64 = 1.0 / 3.0;

/// Commits a second that wait for the log. One spin burns some milliseconds at most (250,000 rounds of
/// 11 to 47 ns), typically far less: below ten a second that is not a twentieth of one CPU.
const COMMITS_PER_S: f64 = 10.0;

/// Share of the CPU samples below which commits do not spin, whatever the settings permit.
const SPINS: f64 = 0.02;

/// What the published case lost: 1 - 3462/4677. The estimate where no counter shows the spun time.
const PUBLISHED_LOSS: f64 = 0.26;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(version) = window.server.version else {
        return Err(window
            .missing(|s| &s.server.variables)
            .unwrap_or_else(|| Unavailable::because("the server's version is not known")));
    };
    if !version.mysql_at_least(8, 0, 0) {
        return Ok(None);
    }
    let variables = window.need(|s| &s.server.variables)?;
    if variables.switch("innodb_log_writer_threads") == Some(false)
        || variables.number("innodb_flush_log_at_trx_commit") == Some(0.0)
    {
        return Ok(None);
    }
    let Some(spin) = CommitSpin::under_quota(window)? else {
        return Ok(None);
    };
    if spin.counts_right() || spin.pct_hwm <= spin.corrected_hwm() || spin.never_spins() {
        return Ok(None);
    }
    let samples = SpinSamples::from_window(window).ok();
    let sampled = samples.as_ref().map(|samples| samples.share(Whose::Commit));
    // Samples show whether commits spin; without them the time of a flush shows whether they may.
    if sampled.map_or_else(|| flush_is_too_slow_to_spin(window), |share| share < SPINS) {
        return Ok(None);
    }
    let (utime, utime_by) = utime_abs(window).ok_or_else(|| {
        window
            .missing(|s| &s.host.process)
            .unwrap_or_else(|| Unavailable::because("its user CPU is not known"))
    })?;
    let commits_per_s = commits_per_s(window)?;
    let blind = utime.iter().filter(|&&(_, utime)| spin.spins_blindly_at(utime)).count();
    let blind_ratio = blind as f64 / utime.len().max(1) as f64;
    if blind_ratio < SAMPLES_BLIND || commits_per_s < COMMITS_PER_S {
        return Ok(None);
    }
    let quota = window.latest(|s| &s.host.effective_cpus).and_then(|effective| effective.quota.as_ref());
    let (counted, counted_by) =
        window.server_counts_cpus().expect("its quota was compared with what it counts");
    Ok(Some(finding(&Spinning {
        window,
        spin,
        counted,
        counted_by,
        quota_of: quota.map_or("", |quota| quota.cgroup.as_str()),
        utime,
        utime_by,
        blind_ratio,
        commits_per_s,
        sampled,
        log_threads: samples.map(|samples| samples.share(Whose::LogThreads)),
    })))
}

/// What the finding is made of.
struct Spinning<'a> {
    window: &'a Window,
    spin: CommitSpin,
    counted: u32,
    counted_by: &'static str,
    /// The cgroup that sets it.
    quota_of: &'a str,
    utime: window::Series,
    utime_by: &'static str,
    blind_ratio: f64,
    commits_per_s: f64,
    /// Share of the CPU samples that lie in the commit's spin loop.
    sampled: Option<f64>,
    /// The same of the redo log's own threads.
    log_threads: Option<f64>,
}

fn finding(found: &Spinning<'_>) -> Finding {
    let Spinning { window, spin, blind_ratio, .. } = found;
    let mean_utime = crate::sessions::mean(found.utime.iter().map(|&(_, utime)| utime)).max(1.0);
    let computed = spun_cpus(window).map(|cpus| (cpus * 100.0 / mean_utime).min(1.0));
    let measured = found.sampled.or(computed);
    let score = measured.unwrap_or(PUBLISHED_LOSS * blind_ratio);
    let hwm = spin.pct_hwm;
    let corrected = spin.corrected_hwm();
    let (counted, granted) = (found.counted, spin.granted_cpus);
    let highest_pct = 100.0 * granted / spin.counted_cpus;
    let never = spin.corrected().never_spins();
    Draft::new(
        &CAUSE,
        score,
        match measured {
            Some(share) => format!(
                "Commits burn about {:.0} % of the CPU spinning: the server counts {counted} CPUs, the quota \
                 grants {granted:.1}",
                share * 100.0
            ),
            None => format!("Commits spin: the server counts {counted} CPUs, the quota grants {granted:.1}"),
        },
    )
    .why(format!(
        "It spins while user CPU is at or above {:.0} % of one CPU and below {hwm:.0} % of {counted} CPUs; under \
         this quota it {} {highest_pct:.0} %. {}",
        spin.abs_lwm,
        if spin.never_stops() { "can never pass" } else { "stops at" },
        match (found.sampled, computed) {
            (Some(_), _) => "The share spun is that of the CPU samples in its loop.",
            (None, Some(_)) => {
                "The share spun is computed from the commits that did not sleep and the time of one flush."
            }
            (None, None) => "How much it spins is an estimate after a published case: neither CPU samples nor counters show it.",
        },
    ))
    .evidence(Evidence::new("server believes", counted, "CPUs", found.counted_by))
    .evidence(
        Evidence::new("effective CPUs", granted, "CPUs", &format!("quota of {}", found.quota_of))
            .expected(format!(">= {counted}")),
    )
    .evidence(
        Evidence::new("user CPU of one CPU", mean_utime, "%", found.utime_by)
            .expected(format!("< {:.0} or >= {:.0}", spin.abs_lwm, spin.stops_at_abs()))
            .series(found.utime.clone()),
    )
    .evidence(Evidence::new("samples it spins in", *blind_ratio, "ratio", found.utime_by).expected("0"))
    .evidence(Evidence::new("commits", found.commits_per_s, "1/s", "SHOW GLOBAL STATUS"))
    .evidence_if(found.sampled.map(|share| {
        Evidence::new("spin share", share, "ratio", "CPU samples").expected("< 0.02")
    }))
    .evidence_if(found.log_threads.filter(|&share| share >= SPINS).map(|share| {
        Evidence::new("redo log threads' spin", share, "ratio", "CPU samples").expected("< 0.02")
    }))
    .evidence_if(no_wait_ratio(window).map(|ratio| {
        Evidence::new("waits without sleep", ratio, "ratio", "INNODB_METRICS log_on_*")
    }))
    .evidence_if(window.latest(|s| &s.host.pause).map(|pause| {
        Evidence::new("one PAUSE", pause.ns, "ns", "measured here")
    }))
    .remedy(Remedy {
        statement: format!("SET GLOBAL innodb_log_spin_cpu_pct_hwm = {corrected:.0}"),
        why: if never {
            format!(
                "Half of {granted:.1} CPUs is {corrected:.0} % of {counted}. The low-water mark \
                 ({:.0} % of one CPU) is not below that, so with this setting a commit never spins.",
                spin.abs_lwm
            )
        } else {
            format!("Half of {granted:.1} CPUs is {corrected:.0} % of {counted}: spinning stops where it was meant to.")
        },
        dynamic: true,
        risk: crate::proposals::risks::SPINS_LESS_FOR_THE_LOG.into(),
        undo: format!("SET GLOBAL innodb_log_spin_cpu_pct_hwm = {hwm:.0}"),
    })
    .remedy(Remedy {
        statement: format!("Grant whole CPUs by a cpuset of {:.0} instead of a quota", granted.ceil()),
        why: "The server counts a cpuset rightly, and no thread is stopped in the middle of a period.".into(),
        dynamic: false,
        risk: "The container's definition changes; the CPUs may be shared with others.".into(),
        undo: "Set the quota again.".into(),
    })
    .explains(&[cpu_throttled::CAUSE.name, cpu_saturated::CAUSE.name])
    .finding()
}

/// User CPU in percent of one CPU over time: as the server itself computes it, or as the kernel counts.
fn utime_abs(window: &Window) -> Option<(window::Series, &'static str)> {
    let own: window::Series =
        window.all(|s| &s.host.srv_cpu_usage).iter().map(|&(at_s, usage)| (at_s, usage.utime_abs)).collect();
    if own.len() >= 3 {
        return Some((own, "srv_cpu_usage.utime_abs"));
    }
    // The server computes the same from getrusage, once a second.
    let used: Vec<(f64, f64)> =
        window.all(|s| &s.host.process).iter().map(|&(at_s, p)| (at_s, p.user_us as f64 / 1e4)).collect();
    let rates = window::rates(&used);
    (!rates.is_empty()).then_some((rates, "/proc/PID/stat"))
}

/// True where flush waits do not spin because a flush takes too long for it.
///
/// The server compares its own mean (the metric `log_flush_avg_time`). Other sources time more than the
/// sync: the write, or the rest of a period in which the quota was used up. They must show twice as much.
fn flush_is_too_slow_to_spin(window: &Window) -> bool {
    if window.variable_number("innodb_flush_log_at_trx_commit") != Some(1.0) {
        return false;
    }
    let limit_us = window.variable_number("innodb_log_wait_for_flush_spin_hwm").unwrap_or(400.0);
    match window.metric("log_flush_avg_time").filter(|&mean_us| mean_us > 0.0) {
        Some(mean_us) => mean_us >= limit_us,
        None => redo_sync(window).is_some_and(|sync| sync.mean_us >= 2.0 * limit_us),
    }
}

/// Share of the waits for the log that ended without sleeping, where the metrics are enabled.
fn no_wait_ratio(window: &Window) -> Option<f64> {
    let grown = |name: &str| window.metric_growth(name);
    let (flush, write) = ("log_on_flush", "log_on_write");
    let pick = |kind: &str| Some((grown(&format!("{kind}_no_waits"))?, grown(&format!("{kind}_waits"))?));
    let (awake, asleep) = [pick(flush), pick(write)]
        .into_iter()
        .flatten()
        .fold((0.0, 0.0), |(awake, asleep), (more_awake, more_asleep)| {
            (awake + more_awake, asleep + more_asleep)
        });
    (awake + asleep > 0.0).then(|| awake / (awake + asleep))
}

/// CPUs spent spinning: flush waits that ended without sleeping, each for about one flush.
fn spun_cpus(window: &Window) -> Option<f64> {
    let seconds = window.change(|s| &s.server.innodb_metrics)?.seconds;
    let awake = window.metric_growth("log_on_flush_no_waits")?;
    let flush_us = window.metric("log_flush_avg_time").filter(|&us| us > 0.0)?;
    Some(awake * flush_us / 1e6 / seconds)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    /// Without CPU samples.
    fn quota() -> Build {
        Build::busy("8.0.36").quota(1.0, 6).counted_cpus(6, 83.3).without_profile()
    }

    pub(crate) fn fires() -> Window {
        quota().window()
    }

    /// The mark is already corrected.
    pub(crate) fn near_miss() -> Window {
        quota().variable("innodb_log_spin_cpu_pct_hwm", "8").window()
    }

    /// Nobody says how many CPUs the server counts.
    pub(crate) fn missing() -> Window {
        let mut window = quota().window();
        window.samples.iter_mut().for_each(|s| s.host.srv_cpu_usage = spindoctor_model::Reading::NotAsked);
        window
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_published_case_is_critical_and_gets_the_published_setting() {
        let finding = found(&fires());
        assert_eq!(finding.severity, spindoctor_model::Severity::Critical);
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 8");
        assert_eq!(finding.remedies[0].undo, "SET GLOBAL innodb_log_spin_cpu_pct_hwm = 50");
        assert!(finding.remedies[0].why.contains("never spins"), "{}", finding.remedies[0].why);
        assert!(finding.why.contains("can never pass 17 %"), "{}", finding.why);
    }

    #[test]
    fn cpu_samples_decide_how_much_is_spun_and_by_whom() {
        let sampled = |share| {
            quota()
                .cpu_samples(1000, share, &["log_write_up_to", "innobase_commit", "trans_commit_stmt"])
                .window()
        };
        let finding = found(&sampled(0.21));
        assert!((finding.score - 0.21).abs() < 0.001, "{finding:?}");
        assert!(finding.headline.starts_with("Commits burn about 21 % of the CPU"), "{}", finding.headline);
        let shown = &crate::diagnose(&sampled(0.21)).findings[0];
        let chain = "21 % log_write_up_to < innobase_commit < trans_commit_stmt < dispatch_command";
        assert!(shown.evidence.iter().any(|e| e.value == spindoctor_model::Value::Text(chain.into())));
        assert_eq!(evaluate(&sampled(0.01)), Outcome::Clear, "it may spin, and does not");
    }

    #[test]
    fn what_forbids_the_spin_clears_it() {
        for (what, window) in [
            ("writer threads off", quota().variable("innodb_log_writer_threads", "OFF").window()),
            ("commits do not wait", quota().variable("innodb_flush_log_at_trx_commit", "0").window()),
            ("low-water mark out of reach", quota().variable("innodb_log_spin_cpu_abs_lwm", "100").window()),
            ("idle server", quota().counted_cpus(6, 30.0).window()),
            ("MariaDB", Build::busy("10.11.19-MariaDB").quota(1.0, 6).window()),
            ("5.7", Build::busy("5.7.32").quota(1.0, 6).window()),
            ("counted rightly", Build::busy("9.4.0").quota(1.0, 6).counted_cpus(1, 83.3).window()),
            ("slow flushes", quota().metric("log_flush_avg_time", 900.0, 0.0).window()),
            ("nothing is written", quota().counter("Com_update", 0.0).window()),
        ] {
            assert_eq!(evaluate(&window), Outcome::Clear, "{what}");
        }
    }

    #[test]
    fn enabled_metrics_give_the_share_spun() {
        let window = quota()
            .metric("log_flush_avg_time", 100.0, 0.0)
            .metric("log_on_flush_no_waits", 0.0, 2000.0)
            .metric("log_on_flush_waits", 0.0, 100.0)
            .window();
        let finding = found(&window);
        assert!((finding.score - 0.24).abs() < 0.01, "{}", finding.score);
        assert!(finding.headline.contains("24 %"), "{}", finding.headline);
    }
}
