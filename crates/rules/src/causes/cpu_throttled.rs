//! `cpu-throttled`: the cgroup's bandwidth control stops the server part of every period.

use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, TroubleKind, Unavailable, Window, window};

use super::cpu_saturated;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::run_queue::QueuedFor;
use crate::throttled::{Throttled, throttled};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "cpu-throttled",
    title: "the cgroup's bandwidth control stops the server part of every period",
    what: "CFS bandwidth control grants the cgroup so many microseconds of CPU in each period (100 ms by \
           default). When they are used up, every thread of the group stops until the next period begins, \
           whatever it holds. Any cgroup on the path from the root may set the limit, a Kubernetes pod or a \
           systemd slice as well as the server's own.",
    why_it_hurts: "A statement that needs 1 ms of CPU takes 50 ms when it falls into the stopped part. Worse, a \
                   thread may be stopped while it holds a latch or is the leader of a commit group: all that \
                   wait for it wait through the stop too. Many threads use a quota up early in the period, so \
                   more concurrency makes the stops longer.",
    evidence: "Growth of nr_periods, nr_throttled and throttled time (cpu.stat, v1 and v2) of the cgroup that \
               sets the tightest quota, over the window. It fires when 5 % or more of the periods were \
               throttled and the stops cost 2 % or more of the time. The estimate is the share of periods that were \
               throttled, times the part of such a period in which the CPUs that the server uses stood still; all threads that \
               could run waited then, and that part of their time in the run queue is the quota's. \
               nr_periods counts only periods in which the group ran, so an idle server shows none.",
    looks_alike: "A few throttled periods in a hundred are bursts, not a cause. The server may use its quota up \
                  with work that is not needed: when it spins because it does not see the quota, \
                  quota-blind-spin stands above; rows-read-waste, connection-churn and thread-cache-miss are \
                  other ways to waste a quota. Without a quota, too many runnable threads are cpu-saturated, \
                  and a hypervisor that gives the CPUs to others shows as steal.",
    remedies: "Cure what wastes CPU first. Then grant more: raise the quota, or replace it by a cpuset of whole \
               CPUs, which stops nobody in the middle of a period and which the server counts. A burst \
               allowance (cpu.max.burst, Linux 5.14) helps a server that is only now and then over its quota. \
               Fewer threads at once (a smaller pool) spread the same quota over the period.",
    safety: "Raising a limit takes effect at once and is undone by writing the old value. It takes CPU from \
             other work on the host. An orchestrator that owns the cgroup writes its own value back: change it \
             there.",
    references: &[
        "Linux kernel documentation: CFS Bandwidth Control; Control Group v2, cpu.stat and cpu.max",
        "Published case: MySQL 8.0 under CPUQuota=100% on 6 CPUs",
    ],
    costs: Costs::Waits(&[TimeClass::CpuQuota]),
    explains_time: &[TimeClass::CpuQuota, TimeClass::Commit, TimeClass::Latch, TimeClass::Mutex],
    stacks: Stacks::Running(&[]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What a `cpu.stat` that somebody gave counts since the group was made.
fn of_capture(window: &Window) -> Option<Finding> {
    let why = "When the quota of a period is used up every thread of the group stands until the next one. Counted since the group \
               was made: read it twice, ten seconds apart, to see whether it still does.";
    let remedy = Remedy {
        statement: "Raise the CPU quota of the group, or grant a cpuset instead".into(),
        why: "The server wants more CPU than it is granted, and every thread pays for it.".into(),
        dynamic: true,
        risk: "Takes CPU from other work on the host; an orchestrator may write its own value back.".into(),
        undo: "Set the quota back to what it was.".into(),
    };
    logged::printed(window, &CAUSE, TroubleKind::Throttled, WARNING_FROM, why, remedy)
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(found) = throttled(window)?.filter(Throttled::matters) else {
        return Ok(None);
    };
    let quota = window.need(|s| &s.host.effective_cpus)?.quota.clone().unwrap_or_default();
    let Throttled { periods, throttled, stopped_s, stopped_ratio } = found;
    let series: window::Series = window
        .all(|s| &s.host.throttling)
        .windows(2)
        .filter_map(|pair| {
            let periods = pair[1].1.periods.checked_sub(pair[0].1.periods).filter(|&grown| grown > 0)?;
            let throttled = pair[1].1.throttled_periods.checked_sub(pair[0].1.throttled_periods)?;
            Some((pair[1].0, throttled as f64 / periods as f64))
        })
        .collect();
    let more = (quota.cpus * 2.0).max(1.0);
    Ok(Some(
        Draft::new(
            &CAUSE,
            stopped_ratio,
            format!(
                "The quota of {:.1} CPUs stopped the server in {throttled:.0} of {periods:.0} periods",
                quota.cpus
            ),
        )
        .why(format!(
            "Each period grants {:.0} ms of CPU in {:.0} ms; the server used them up and stood still for the rest.",
            quota.quota_us as f64 / 1e3,
            quota.period_us as f64 / 1e3
        ))
        .evidence(
            Evidence::new("periods throttled", throttled / periods.max(1.0), "ratio", "cpu.stat")
                .expected("< 0.05")
                .series(series),
        )
        .evidence(Evidence::new("stopped, all CPUs", stopped_s, "s", "cpu.stat"))
        .evidence(Evidence::new("of the time in the run queue, by the quota", QueuedFor::from_window(window).quota, "ratio", "computed"))
        .evidence(Evidence::new("quota", quota.cpus, "CPUs", &format!("quota of {}", quota.cgroup)))
        .remedy(Remedy {
            statement: format!("Raise the CPU quota of {} to {more:.1} CPUs, or grant a cpuset instead", quota.cgroup),
            why: "The server wants more CPU than it is granted, and every thread pays for it.".into(),
            dynamic: true,
            risk: "Takes CPU from other work on the host; an orchestrator may write its own value back.".into(),
            undo: format!("Set the quota back to {:.1} CPUs.", quota.cpus),
        })
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    ))
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    pub(crate) fn fires() -> Window {
        Build::busy("8.0.36")
            .quota(2.0, 6)
            .throttled(38.0, 4.1)
            .variable("innodb_log_writer_threads", "OFF")
            .window()
    }

    /// A burst now and then.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36").quota(2.0, 6).throttled(3.0, 0.2).window()
    }

    /// A remote server: its host cannot be read.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").remote().window()
    }

    #[test]
    fn without_a_quota_it_is_clear_though_nothing_counts_throttling() {
        assert_eq!(evaluate(&Build::busy("8.0.36").window()), Outcome::Clear);
    }

    #[test]
    fn the_score_is_the_share_of_time_that_stood_still() {
        // 38 of 100 periods, in each 25 ms of 100 ms on 4 busy CPUs.
        let Outcome::Fired(finding) =
            evaluate(&Build::busy("8.0.36").quota(2.0, 4).throttled(38.0, 3.8).window())
        else {
            panic!()
        };
        assert!((finding.score - 0.095).abs() < 0.001, "{}", finding.score);
        assert!(finding.headline.contains("38 of 100 periods"), "{}", finding.headline);
    }
}
