//! The first screen, in the order of questions at 3 a.m.: is the server slow now, since when, who waits for what, which
//! statement, is it the host.

use spindoctor_model::window::Series;
use spindoctor_model::{Diagnosis, Severity, TimeClass, Window, median};
use spindoctor_rules::replica::BUSY_DISK;

use super::verdict::Facts;
use super::waiting::is_at_work;
use super::{queries, replication, verdict, waits};
use crate::common::queries::Queries;
use crate::common::words::finding_in_a_line;
use crate::host::HostReport;
use crate::locks::of_newest as locks_of_newest;
use crate::top::moment::Moment;
use crate::top::point::{Chart, WRITES, series};
use crate::top::view as top_view;
use crate::top::view::{Mood, MoodText, missing_text, seconds};
use spindoctor_page::number;

/// Throttled in more than this share of its periods a server is held back: `cpu-throttled` begins to matter there.
const THROTTLED: f64 = 0.05;
/// Something waited for a CPU, a disk or memory for more than this share of the time.
const PRESSED: f64 = 0.25;
/// A hypervisor that takes more than this share of the CPUs takes part of the throughput.
const STEAL: f64 = 0.05;
/// The line of the CPUs that the kernel grants.
const CPUS: &str = "CPUs";
/// Spinning that takes more than this share of the CPU is worth a look: what `spin-burn` expects.
const SPINNING: f64 = 0.05;

/// The account of the sessions' time and the findings are of so many seconds: what is wrong now, and not a minute ago.
const RECENT_S: f64 = 10.0;
/// Findings that are shown below the first line.
const FINDINGS: usize = 3;

/// A number of the first lines with its course.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meter {
    /// What it is.
    pub label: &'static str,
    /// Now, with its unit.
    pub now: String,
    /// The median of the minutes before.
    pub before: String,
    /// What stands in place of a course, where there is none.
    pub note: String,
    /// Its course: seconds from now, value.
    pub series: Series,
    /// How it is to be taken.
    pub mood: Mood,
}

/// A part of something.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// How much of it, as text.
    pub value: String,
    /// What it is.
    pub label: String,
    /// How much of it, 0 to 1.
    pub share: f64,
    /// How it is to be taken.
    pub mood: Mood,
}

/// A block of the first screen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Block {
    /// What it is, with what counts most.
    pub title: String,
    /// Its lines.
    pub bars: Vec<Bar>,
    /// Why there are none, where there are none.
    pub empty: String,
}

/// A statement that takes time.
#[derive(Debug, Clone, PartialEq)]
pub struct TopQuery {
    /// Its share of all statements' time.
    pub share: String,
    /// Executions a second.
    pub per_s: String,
    /// Time of one.
    pub mean: String,
    /// Its text.
    pub text: String,
}

/// The first screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Is it slow now, since when, what blocks it.
    pub verdict: MoodText,
    /// What the rules find in the last seconds, the costliest first; without what the verdict says.
    pub findings: Vec<MoodText>,
    /// Throughput, latency, load.
    pub meters: Vec<Meter>,
    /// Over what the rates are.
    pub rates_over: String,
    /// Where the time of the sessions at work went in the last seconds.
    pub time: Block,
    /// The events that were waited for the longest.
    pub waits: Block,
    /// The host: what, and how it is.
    pub host: Vec<(&'static str, MoodText)>,
    /// Over what the statements are, and what they are.
    pub queries_title: String,
    /// The costliest statements.
    pub queries: Vec<TopQuery>,
    /// Why there are none, where there are none.
    pub queries_empty: String,
    /// The whole recording: seconds from now, queries a second.
    pub timeline: Series,
}

/// The first screen of a moment.
pub fn build(moment: &Moment, window: &Window, over_s: f64) -> Overview {
    let locks = locks_of_newest(window);
    let queries = queries::from_window(window, over_s);
    let zero = moment.sampled_at().or(moment.at).unwrap_or_default();
    let course = |chart| series(&moment.points, chart, zero);
    let charts = [Chart::Queries, Chart::Writes, Chart::Running, Chart::Cpus].map(course);
    let host = HostReport::of_last(window, over_s);
    let diagnosis = spindoctor_rules::diagnose(&window.newest(RECENT_S));
    let threads = window.latest(|s| &s.server.threads);
    let at_work = threads.map(|threads| threads.iter().filter(|thread| is_at_work(thread)).count());
    let before =
        |series: &Series| median(series.iter().filter(|(at, _)| *at < -over_s).map(|(_, value)| *value));
    let queries_now = window.recent_status_per_s("Questions", over_s);
    let host_lines = host_lines(moment, window, &host);
    let seen = Facts {
        locks: locks.as_ref(),
        queries_now,
        queries_median: before(&charts[0]),
        at_work,
        host: in_trouble(&host_lines),
        finding: diagnosis.findings.first().filter(|finding| finding.severity >= Severity::Warning),
    };
    let verdict = verdict::line(moment, window, &seen);
    let findings = findings(&diagnosis, &verdict);
    let [queries_course, writes_course, running_course, cpus_course] = charts;
    let rate =
        |per_s: Option<f64>| per_s.map_or_else(|| "-".to_owned(), |s| format!("{} /s", queries::rate(s)));
    let count = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number::plain);
    let others = |running: f64| (running - 1.0).max(0.0);
    let cpus = host.server_cpu.as_ref().map(|cpu| cpu.user_cpus + cpu.system_cpus);
    let granted = host.effective_cpus.as_ref().map(|granted| granted.cpus);
    let meters = vec![
        Meter {
            label: "queries",
            now: rate(queries_now),
            before: rate(before(&queries_course)),
            mood: if verdict.mood == Mood::Warn { Mood::Warn } else { Mood::Strong },
            series: queries_course,
            ..Meter::default()
        },
        Meter {
            label: "writes",
            now: rate(writes_per_s(window, over_s)),
            before: rate(before(&writes_course)),
            mood: Mood::Strong,
            series: writes_course,
            ..Meter::default()
        },
        latency(queries.as_ref()),
        Meter {
            label: "running",
            now: count(window.status("Threads_running").map(others)),
            before: count(before(&running_course).map(others)),
            mood: Mood::Strong,
            series: running_course.into_iter().map(|(at, running)| (at, others(running))).collect(),
            ..Meter::default()
        },
        Meter {
            label: "CPU used",
            now: cpus.map_or_else(|| "-".to_owned(), |cpus| format!("{cpus:.2}")),
            before: before(&cpus_course).map_or_else(|| "-".to_owned(), |cpus| format!("{cpus:.2}")),
            mood: if cpus.zip(granted).is_some_and(|(used, granted)| used > granted * 0.9) {
                Mood::Warn
            } else {
                Mood::Strong
            },
            note: match cpus {
                Some(_) => String::new(),
                None => missing_host(window),
            },
            series: cpus_course,
        },
    ];
    Overview {
        verdict,
        findings,
        meters,
        rates_over: seconds(
            window.recent_change(over_s, |s| &s.server.status).map_or(over_s, |change| change.seconds),
        ),
        time: time(window, &diagnosis, at_work),
        waits: top_waits(window, over_s),
        host: host_lines,
        queries_title: match &queries {
            Ok(queries) => format!("top queries over {}", seconds(queries.seconds)),
            Err(_) => "top queries".to_owned(),
        },
        queries_empty: match &queries {
            Ok(queries) if queries.all.is_empty() => queries::NONE_ENDED.to_owned(),
            Ok(_) => queries::NONE_OF_CLIENTS.to_owned(),
            Err(why) => format!("not known: {why}"),
        },
        queries: queries.map(|queries| top_queries(&queries)).unwrap_or_default(),
        timeline: moment
            .overview
            .iter()
            .map(|(at, value)| ((*at - zero).total(jiff::Unit::Second).unwrap_or(0.0), *value))
            .collect(),
    }
}

fn writes_per_s(window: &Window, over_s: f64) -> Option<f64> {
    let rates = WRITES.iter().filter_map(|name| window.recent_status_per_s(name, over_s));
    rates.reduce(|a, b| a + b)
}

fn latency(queries: Result<&Queries<'_>, &String>) -> Meter {
    let mean_ms = queries.ok().and_then(Queries::mean_ms);
    Meter {
        label: "latency",
        now: mean_ms.map_or_else(|| "-".to_owned(), |ms| number::quantity(ms, "ms")),
        before: String::new(),
        note: match queries {
            Ok(queries) if mean_ms.is_some() => {
                format!("mean of a statement over {}", seconds(queries.seconds))
            }
            Ok(_) => "no statement ended".to_owned(),
            Err(why) => format!("not known: {why}"),
        },
        mood: Mood::Strong,
        series: Series::new(),
    }
}

fn missing_host(window: &Window) -> String {
    match &window.server.no_pid {
        Some(why) => format!("the host is not read: {}", missing_text(why)),
        None => top_view::no_change(window, |s| &s.host.process),
    }
}

/// Where the time of the sessions at work went, the most first.
fn time(window: &Window, diagnosis: &Diagnosis, at_work: Option<usize>) -> Block {
    let threads = match window.need(|s| &s.server.threads) {
        Ok(threads) => threads,
        Err(why) => {
            return Block {
                title: "sessions at work".to_owned(),
                empty: missing_text(&why),
                ..Block::default()
            };
        }
    };
    let connections = threads.iter().filter(|thread| thread.is_connection).count();
    let title = format!(
        "{} at work of {}: where time goes",
        number::plain(at_work.unwrap_or(0) as f64),
        number::plain(connections as f64)
    );
    let classes = diagnosis.time.as_ref().map(|time| time.classes.as_slice()).unwrap_or_default();
    let bars = classes.iter().map(|one| Bar {
        value: number::percent(one.share),
        label: one.class.label().to_owned(),
        share: one.share,
        mood: if is_a_lock(one.class) { Mood::Warn } else { Mood::Plain },
    });
    let empty = if connections == 0 { "nobody is connected" } else { "all connections rest" };
    Block { title, bars: bars.collect(), empty: empty.to_owned() }
}

/// True where one session waits for what another one holds.
fn is_a_lock(class: TimeClass) -> bool {
    use TimeClass::{AutoIncrementLock, GlobalLock, MetadataLock, RowLock, TableLock, UserLock};
    matches!(class, RowLock | AutoIncrementLock | MetadataLock | TableLock | UserLock | GlobalLock)
}

/// The findings in a line each. The verdict says the first one where it is no stall and no lock.
fn findings(diagnosis: &Diagnosis, verdict: &MoodText) -> Vec<MoodText> {
    let lines = diagnosis.findings.iter().map(|finding| {
        let mood = if finding.severity >= Severity::Warning { Mood::Warn } else { Mood::Quiet };
        MoodText::new(finding_in_a_line(finding), mood)
    });
    lines.filter(|line| line.text != verdict.text).take(FINDINGS).collect()
}

fn top_waits(window: &Window, over_s: f64) -> Block {
    match waits::waits(window, over_s) {
        Ok((waits, seconds)) => Block {
            title: format!("top waits over {}", top_view::seconds(seconds)),
            bars: waits
                .iter()
                .map(|wait| Bar {
                    value: number::percent(wait.share),
                    label: wait.event.to_owned(),
                    share: wait.share,
                    mood: Mood::Plain,
                })
                .collect(),
            empty: "nothing was waited for".to_owned(),
        },
        Err(why) => {
            Block { title: "top waits".to_owned(), empty: format!("not known: {why}"), ..Block::default() }
        }
    }
}

fn top_queries(queries: &Queries<'_>) -> Vec<TopQuery> {
    queries
        .all
        .iter()
        .filter(|query| !query.is_about_the_server)
        .map(|query| TopQuery {
            share: number::percent(query.share),
            per_s: format!("{} /s", queries::rate(query.per_s)),
            mean: number::quantity(query.mean_ms, "ms"),
            text: queries::text(query.digest),
        })
        .collect()
}

/// Lines of the host that are worth a look now. What the server counts of CPUs does not change from second to second.
fn in_trouble(lines: &[(&'static str, MoodText)]) -> Vec<&'static str> {
    let is_bad =
        |(label, text): &&(&str, MoodText)| *label != CPUS && matches!(text.mood, Mood::Warn | Mood::Alarm);
    lines.iter().filter(is_bad).map(|(label, _)| *label).collect()
}

/// The host in a few lines, what hurts most often first; each fits in half of a window of 80 columns.
fn host_lines(moment: &Moment, window: &Window, host: &HostReport) -> Vec<(&'static str, MoodText)> {
    let mut lines = Vec::new();
    if let Some(granted) = &host.effective_cpus {
        let why = match &granted.quota {
            Some(quota) if quota.cpus <= granted.cpus => " (quota)",
            _ => "",
        };
        let believes =
            host.server_believes_cpus.map_or_else(String::new, |cpus| format!(", server counts {cpus}"));
        let mood = match host.server_believes_cpus {
            Some(cpus) if f64::from(cpus) > granted.cpus => Mood::Warn,
            _ => Mood::Plain,
        };
        lines.push((CPUS, MoodText::new(format!("{}{why}{believes}", number::plain(granted.cpus)), mood)));
    }
    if let Some(throttled) = &host.throttled {
        lines.push((
            "throttled",
            match throttled.periods {
                0 => MoodText::new("no quota", Mood::Quiet),
                periods => {
                    let share = throttled.throttled_periods as f64 / periods as f64;
                    let mood = if share > THROTTLED { Mood::Alarm } else { Mood::Plain };
                    MoodText::new(format!("in {} of its periods", number::percent(share)), mood)
                }
            },
        ));
    }
    if let Some(cpu) = &host.host_cpu {
        let busy = number::percent(cpu.user_ratio + cpu.system_ratio);
        let mood = if cpu.steal_ratio > STEAL { Mood::Warn } else { Mood::Plain };
        let waits = number::percent(cpu.iowait_ratio);
        let text = match cpu.steal_ratio > STEAL {
            true => format!("{busy} busy, steal {}", number::percent(cpu.steal_ratio)),
            false => format!("{busy} busy, I/O wait {waits}"),
        };
        lines.push(("host", MoodText::new(text, mood)));
    }
    if let Some(pressure) = &host.pressure {
        let parts = [
            ("CPU", pressure.cpu_some_ratio),
            ("I/O", pressure.io_some_ratio),
            ("mem", pressure.memory_some_ratio),
        ];
        let most = parts.iter().filter_map(|(_, ratio)| *ratio).fold(0.0, f64::max);
        let parts: Vec<String> = parts
            .iter()
            .filter_map(|(what, ratio)| Some(format!("{what} {}", number::percent((*ratio)?))))
            .collect();
        lines.push((
            "pressure",
            MoodText::new(parts.join(", "), if most > PRESSED { Mood::Warn } else { Mood::Plain }),
        ));
    }
    if let Some(disk) = host.disks.iter().flatten().max_by(|a, b| a.busy_ratio.total_cmp(&b.busy_ratio)) {
        let each = disk.flush_ms.map(|ms| ("flush", ms)).or(disk.write_ms.map(|ms| ("write", ms)));
        let each =
            each.map_or_else(String::new, |(what, ms)| format!(", {what} {}", number::quantity(ms, "ms")));
        let mood = if disk.busy_ratio > BUSY_DISK { Mood::Warn } else { Mood::Plain };
        lines.push((
            "disk",
            MoodText::new(format!("{} {}{each}", disk.name, number::percent(disk.busy_ratio)), mood),
        ));
    }
    if let Some(memory) = &host.memory {
        let text = format!(
            "{} of {} free",
            number::bytes(memory.available_bytes as f64),
            number::bytes(memory.total_bytes as f64)
        );
        lines.push(("memory", MoodText::new(text, Mood::Plain)));
    }
    if lines.is_empty() {
        lines.push(("host", MoodText::new(missing_host(window), Mood::Quiet)));
    }
    lines.push((
        "spinning",
        match moment.spin_share {
            Some(share) => {
                let mood = if share > SPINNING { Mood::Warn } else { Mood::Plain };
                MoodText::new(format!("{} of the server's CPU", number::percent(share)), mood)
            }
            None => MoodText::new("CPU not sampled now", Mood::Quiet),
        },
    ));
    for channel in window.latest(|s| &s.server.replication).into_iter().flatten() {
        let behind = channel
            .behind_s
            .map_or_else(|| replication::does(channel), |s| format!("{} behind", number::duration(s)));
        lines.push(("replica", MoodText::new(behind, replication::mood(channel))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::top::examples;

    #[test]
    fn the_time_of_the_sessions_has_the_classes_of_doctor() {
        let moment = examples::busy();
        let overview = build(&moment, moment.window.as_ref().unwrap(), 1.0);
        assert_eq!(overview.time.title, "6 at work of 36: where time goes");
        let classes: Vec<&str> = overview.time.bars.iter().map(|bar| bar.label.as_str()).collect();
        assert!(classes.contains(&"commit"), "{classes:?}");
        let sum: f64 = overview.time.bars.iter().map(|bar| bar.share).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
}
