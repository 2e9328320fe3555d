//! [`StallKind::ThroughputCollapsed`](spindoctor_model::StallKind): statements stop ending, or end far more slowly for
//! seconds, while threads run.

use spindoctor_model::Probe;

use super::Sight;
use super::collapse::{Collapse, LEAST_PER_S, LEAST_RUNNING};
use super::interval::Interval;
use super::recent::Recent;
use super::threads_running::Crowd;

/// A throughput that sinks without stopping is measured over this long: shorter dips are noise.
const SAG_OVER_S: f64 = 3.0;
/// What is usual there, and what the load itself does every minute, is taken from this much time.
const SAG_USUAL_OVER_S: f64 = 600.0;
/// And from this long at least: jobs that run every minute have come several times.
const SAG_ENOUGH_S: f64 = 300.0;
/// It must sink below this share of the usual,
const SAG_RATIO: f64 = 0.4;
/// and below this share of the lowest that was there without a stall.
const SAG_BELOW_LOWEST: f64 = 0.6;
/// Waiting threads add up: so many times the usual number run, and so many more.
const SAG_RUNNING_RATIO: f64 = 1.5;
/// It is over at this share of the usual.
const SAG_OVER_RATIO: f64 = 0.6;

/// Watches `Questions`.
#[derive(Debug)]
pub(super) struct Throughput {
    collapse: Collapse,
    sag: Sag,
}

impl Throughput {
    pub(super) fn new() -> Self {
        Self { collapse: Collapse::new(["no statement ended", "statements"]), sag: Sag::new() }
    }

    /// `crowd`: how many threads run at its end.
    pub(super) fn look(&mut self, probe: &Probe, interval: Option<&Interval>, crowd: Crowd) -> Option<Sight> {
        let collapsed = self.collapse.look_at(interval, |interval| interval.questions, crowd);
        let sagged = self.sag.look(probe, collapsed.is_some());
        collapsed.or(sagged)
    }

    /// True while it may be a stall, and is not known to be one.
    pub(super) fn is_unsure(&self) -> bool {
        self.collapse.is_unsure()
    }
}

/// The mean over some seconds.
#[derive(Debug)]
struct Sag {
    began_s: Option<f64>,
    counts: Recent,
    means: Recent,
    running: Recent,
    mean_s: f64,
    lasts: Option<Lasts>,
}

#[derive(Debug)]
struct Lasts {
    sight: Sight,
    usual_per_s: f64,
    seen_s: f64,
}

impl Sag {
    fn new() -> Self {
        Self {
            began_s: None,
            counts: Recent::over(SAG_OVER_S),
            means: Recent::over(SAG_USUAL_OVER_S),
            running: Recent::over(SAG_USUAL_OVER_S),
            mean_s: 0.0,
            lasts: None,
        }
    }

    fn look(&mut self, probe: &Probe, is_stalled: bool) -> Option<Sight> {
        let now_s = probe.at_s;
        if let (true, Some(questions), Some(running)) =
            (probe.answered, probe.questions, probe.threads_running)
        {
            let count = questions as f64;
            if self.counts.iter().next_back().is_some_and(|(_, before)| before > count) {
                *self = Self::new();
            }
            self.began_s.get_or_insert(now_s);
            self.counts.push(now_s, count);
            self.judge(now_s, running as f64, is_stalled);
        }
        self.lasts.as_ref().map(|lasts| lasts.sight.clone())
    }

    fn judge(&mut self, now_s: f64, running: f64, is_stalled: bool) {
        let is_due = now_s - self.mean_s >= SAG_OVER_S / 4.0;
        let Some((first_s, first)) = self.counts.iter().next() else { return };
        let Some((last_s, last)) = self.counts.iter().next_back() else { return };
        if !is_due || last_s - first_s < 0.8 * SAG_OVER_S {
            return;
        }
        self.mean_s = now_s;
        let per_s = (last - first) / (last_s - first_s);
        if let Some(lasts) = &self.lasts {
            // What lasts as long as the time from which the usual value is taken is the usual value now.
            if now_s - lasts.seen_s >= SAG_USUAL_OVER_S {
                *self = Self::new();
            } else if per_s >= SAG_OVER_RATIO * lasts.usual_per_s {
                self.lasts = None;
            }
            return;
        }
        let knows = self.began_s.is_some_and(|began_s| now_s - began_s >= SAG_ENOUGH_S);
        // Means that share time with this one sink with it.
        let before = self.means.iter().filter(|&(at_s, _)| at_s <= now_s - SAG_OVER_S);
        let lowest_per_s = before.map(|(_, per_s)| per_s).reduce(f64::min);
        let usual = (self.means.median(), lowest_per_s, self.running.median());
        if let (true, (Some(usual_per_s), Some(lowest_per_s), Some(usual_running))) = (knows, usual)
            && usual_per_s >= LEAST_PER_S
            && per_s < SAG_RATIO * usual_per_s
            && per_s < SAG_BELOW_LOWEST * lowest_per_s
            && running >= SAG_RUNNING_RATIO * usual_running + LEAST_RUNNING
        {
            let because = format!(
                "{per_s:.0} statements/s ended for {SAG_OVER_S:.0} s instead of {usual_per_s:.0} while {running:.0} threads run"
            );
            let sight = Sight { began_s: first_s, because };
            self.lasts = Some(Lasts { sight, usual_per_s, seen_s: now_s });
            return;
        }
        if !is_stalled {
            self.means.push(now_s, per_s);
            self.running.push(now_s, running);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::interval::Intervals;
    use super::*;

    fn run(
        (throughput, intervals): &mut (Throughput, Intervals),
        from_s: f64,
        to_s: f64,
        per_s: f64,
        running: u64,
        count: &mut f64,
    ) -> Option<f64> {
        let mut seen = None;
        let mut at_s = from_s;
        while at_s < to_s {
            *count += per_s * 0.1;
            let probe = Probe {
                at_s,
                took_ms: 1.0,
                answered: true,
                threads_running: Some(running),
                questions: Some(*count as u64),
                ..Probe::default()
            };
            let interval = intervals.next(&probe);
            if throughput.look(&probe, interval.as_ref(), Crowd::Usual).is_some() {
                seen.get_or_insert(at_s);
            }
            at_s += 0.1;
        }
        seen
    }

    #[test]
    fn statements_that_end_at_a_third_of_their_pace_are_a_stall_where_threads_add_up() {
        for (running, stalls) in [(40, true), (9, false)] {
            let (mut throughput, mut count) = ((Throughput::new(), Intervals::new()), 0.0);
            assert_eq!(run(&mut throughput, 0.0, 310.0, 1000.0, 8, &mut count), None);
            let seen = run(&mut throughput, 310.0, 320.0, 330.0, running, &mut count);
            assert_eq!(seen.is_some_and(|seen_s| seen_s < 315.0), stalls, "{running}: {seen:?}");
        }
    }

    #[test]
    fn a_sag_that_the_load_itself_makes_every_minute_is_none() {
        let (mut throughput, mut count) = ((Throughput::new(), Intervals::new()), 0.0);
        for minute in 0..15 {
            let at_s = f64::from(minute) * 60.0;
            assert_eq!(run(&mut throughput, at_s, at_s + 55.0, 1000.0, 8, &mut count), None);
            assert_eq!(
                run(&mut throughput, at_s + 55.0, at_s + 60.0, 330.0, 40, &mut count),
                None,
                "{minute}"
            );
        }
    }
}
