//! The part of a sample, or of a probe, that is drawn and compared: a few numbers of one instant.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Event, Probe, ProbeFailure, RecordedSample, Sample, Segment};

use spindoctor_record::span::Span;

/// A few numbers of one instant; none where they were not read. Counters are cumulative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// The segment that its counters belong to.
    pub segment: u64,
    /// True for an answer to the probe, of which there are ten a second.
    pub is_probe: bool,
    /// From a cheap question to its answer, milliseconds.
    pub answer_ms: Option<f64>,
    /// Statements that run, spindoctor's own left out.
    pub threads_running: Option<f64>,
    /// Statements: `Questions`; in all of an incident whose probes count them, `Queries`.
    pub questions: Option<f64>,
    /// `Queries`, of a sample.
    pub queries: Option<f64>,
    /// `Handler_commit`.
    pub commits: Option<f64>,
    /// CPU time of the server's process, microseconds.
    pub cpu_us: Option<f64>,
    /// Redo between the last checkpoint and now.
    pub checkpoint_age_bytes: Option<f64>,
}

impl Point {
    /// Of a sample.
    pub fn of_sample(recorded: &RecordedSample) -> Self {
        let RecordedSample { at, segment, sample } = recorded;
        let status = sample.server.status.value();
        let number = |name: &str| status?.number(name);
        let took_ms = match sample.server.status.outcome() {
            spindoctor_model::Outcome::Answered { took_ms } => Some(took_ms),
            _ => None,
        };
        let process = sample.host.process.value();
        Self {
            at: *at,
            segment: *segment,
            is_probe: false,
            answer_ms: took_ms,
            // The one that runs SHOW GLOBAL STATUS is spindoctor's.
            threads_running: number("threads_running").map(|running| (running - 1.0).max(0.0)),
            questions: number("questions"),
            queries: number("queries"),
            commits: number("handler_commit"),
            cpu_us: process.map(|process| (process.user_us + process.system_us) as f64),
            checkpoint_age_bytes: checkpoint_age_bytes(sample, status),
        }
    }

    fn of_probe(probe: &Probe, began: Timestamp, segment: u64) -> Option<Self> {
        let at_s = Duration::try_from_secs_f64(probe.at_s).ok()?;
        let number = |counter: Option<u64>| counter.map(|counter| counter as f64);
        // A refusal is quick, and no answer.
        let was_waited_for = probe.answered || probe.failure == Some(ProbeFailure::NoAnswer);
        Some(Self {
            at: began.checked_add(at_s).ok()?,
            segment,
            is_probe: true,
            answer_ms: was_waited_for.then_some(probe.took_ms),
            threads_running: number(probe.threads_running),
            questions: number(probe.questions),
            queries: None,
            commits: number(probe.commits),
            cpu_us: None,
            checkpoint_age_bytes: number(probe.checkpoint_age_bytes),
        })
    }

    /// Without the readings of the probe; statements and commits stay where it has none of them.
    fn without_probed(self, has_statements: bool, has_commits: bool) -> Self {
        let questions = self.questions.filter(|_| !has_statements);
        let commits = self.commits.filter(|_| !has_commits);
        Self {
            at: self.at,
            segment: self.segment,
            cpu_us: self.cpu_us,
            questions,
            commits,
            ..Self::default()
        }
    }
}

/// A sample's counters are read this long before or after its time at most, besides the time to answer.
const AROUND: Duration = Duration::from_millis(300);
/// Statements by which two counters may differ that nobody but spindoctor moves: one for each probe, and some for each sample.
const OWN_STATEMENTS: f64 = 20.0;

fn checkpoint_age_bytes(sample: &Sample, status: Option<&NamedValues>) -> Option<f64> {
    let number = |name: &str| status?.number(name);
    let of_ends = || {
        let ends = (number("innodb_redo_log_current_lsn")?, number("innodb_redo_log_checkpoint_lsn")?);
        Some(ends.0 - ends.1)
    };
    let printed = || Some(sample.server.innodb_status.value()?.log.checkpoint_age_bytes()? as f64);
    number("innodb_checkpoint_age").or_else(of_ends).or_else(printed).filter(|age| *age >= 0.0)
}

/// Samples, and the event's probes in place of the same readings of samples: there are ten probes per second.
///
/// The time to answer is of one question only, as the two take their own times: of an event the probe's, else that of the
/// samples.
pub fn merged(
    mut points: Vec<Point>,
    event: Option<&Event>,
    segments: &[Segment],
    is_stretch: bool,
) -> Vec<Point> {
    let Some(event) = event else { return points };
    let Some(segment) = segments.iter().find(|segment| segment.id == event.head.segment) else {
        return points;
    };
    let mut probes: Vec<Point> =
        event.probes.iter().filter_map(|probe| Point::of_probe(probe, segment.began, segment.id)).collect();
    let (Some(first), Some(last)) = (probes.first(), probes.last()) else { return points };
    let probed = Span::new(first.at, last.at);
    let has_commits = probes.iter().any(|probe| probe.commits.is_some());
    // Of the two counters of the samples that one which the probes count, too.
    let counters: [fn(&Point) -> Option<f64>; 2] = [|point| point.questions, |point| point.queries];
    let counter = counters.into_iter().find(|of| goes_along(&points, of, &probes));
    match counter {
        Some(of) => points.iter_mut().for_each(|point| point.questions = of(point)),
        None => probes.iter_mut().for_each(|probe| probe.questions = None),
    }
    for point in &mut points {
        let answer_ms = point.answer_ms.filter(|_| is_stretch);
        if probed.contains(point.at) {
            *point = point.without_probed(counter.is_some(), has_commits);
        }
        point.answer_ms = answer_ms;
    }
    if is_stretch {
        probes.iter_mut().for_each(|probe| probe.answer_ms = None);
    }
    points.extend(probes);
    points.sort_by_key(|point| point.at);
    points
}

/// True where a counter of the samples is what the probes count: in each sample that is between two probes it is between what
/// those say. `Queries` counts the statements within routines, too, and `Questions` does not: which of the two the probes have
/// depends on the server and on what recorded it. False where no sample is among probes: then nobody knows.
fn goes_along(points: &[Point], of: impl Fn(&Point) -> Option<f64>, probes: &[Point]) -> bool {
    let counted: Vec<(Timestamp, f64)> =
        probes.iter().filter_map(|probe| Some((probe.at, probe.questions?))).collect();
    let is_between = |point: &Point| {
        let count = of(point)?;
        let took = Duration::try_from_secs_f64(point.answer_ms.unwrap_or_default() / 1e3).unwrap_or_default();
        let read = Span::new(point.at, point.at).widened(AROUND.saturating_add(took));
        let (_, least) = counted.get(counted.partition_point(|(at, _)| *at < read.from).checked_sub(1)?)?;
        let (_, most) = counted.get(counted.partition_point(|(at, _)| *at <= read.to))?;
        Some((least - OWN_STATEMENTS..=most + OWN_STATEMENTS).contains(&count))
    };
    let mut each = points.iter().filter_map(is_between).peekable();
    each.peek().is_some() && each.all(|is_between| is_between)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{EventHead, Reading};

    use super::*;

    fn recorded(at: i64, values: &[(&str, &str)]) -> RecordedSample {
        let mut sample = Sample::default();
        let value = values.iter().copied().collect();
        sample.server.status = Reading::Available { at_s: 0.0, took_ms: 0.7, value };
        RecordedSample { at: Timestamp::from_second(at).unwrap(), segment: 1, sample }
    }

    #[test]
    fn a_sample_shows_what_its_server_has_and_leaves_its_own_session_out() {
        let point = Point::of_sample(&recorded(5, &[("Threads_running", "1"), ("Questions", "7")]));
        assert_eq!((point.threads_running, point.questions, point.commits), (Some(0.0), Some(7.0), None));
        assert_eq!(point.answer_ms, Some(0.7));
        let age = |values: &[(&str, &str)]| Point::of_sample(&recorded(5, values)).checkpoint_age_bytes;
        let ends = [("Innodb_redo_log_current_lsn", "500"), ("Innodb_redo_log_checkpoint_lsn", "200")];
        assert_eq!(age(&ends), Some(300.0));
        assert_eq!(age(&[("Innodb_checkpoint_age", "9")]), Some(9.0));
        assert_eq!(age(&[]), None);
    }

    #[test]
    fn a_connection_that_is_refused_at_once_is_no_quick_answer() {
        let answer_ms = |answered, failure| {
            let probe = Probe { at_s: 1.0, took_ms: 0.1, answered, failure, ..Probe::default() };
            Point::of_probe(&probe, Timestamp::UNIX_EPOCH, 1).unwrap().answer_ms
        };
        assert_eq!(answer_ms(true, None), Some(0.1));
        assert_eq!(answer_ms(false, Some(ProbeFailure::NoAnswer)), Some(0.1), "it took longer than that");
        for failure in [ProbeFailure::Refused, ProbeFailure::Closed, ProbeFailure::TooManyConnections] {
            assert_eq!(answer_ms(false, Some(failure)), None, "{failure:?}");
        }
    }

    #[test]
    fn probes_stand_in_place_of_samples_of_the_same_time() {
        let points: Vec<Point> =
            (0..5).map(|at| Point::of_sample(&recorded(at, &[("Questions", "7")]))).collect();
        let probe = |at_s| Probe { at_s, took_ms: 0.2, answered: true, ..Probe::default() };
        let event = Event {
            head: EventHead { segment: 1, ..EventHead::default() },
            probes: vec![probe(1.5), probe(2.5)],
            ..Event::default()
        };
        let segments = [Segment { id: 1, ..Segment::default() }];
        let of = |is_stretch| {
            let points: Vec<Point> = Vec::clone(&points);
            merged(points, Some(&event), &segments, is_stretch)
        };
        let answers = |merged: &[Point]| -> Vec<(f64, Option<f64>)> {
            let at_s = |point: &Point| point.at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
            merged.iter().map(|point| (at_s(point), point.answer_ms)).collect()
        };
        let text = of(false);
        let (probe, sample) = (Some(0.2), Some(0.7));
        assert_eq!(
            answers(&text),
            [(0.0, None), (1.0, None), (1.5, probe), (2.0, None), (2.5, probe), (3.0, None), (4.0, None)]
        );
        assert_eq!((text[3].threads_running, text[3].questions), (None, Some(7.0)), "probes without a count");
        assert_eq!(
            answers(&of(true)),
            [
                (0.0, sample),
                (1.0, sample),
                (1.5, None),
                (2.0, sample),
                (2.5, None),
                (3.0, sample),
                (4.0, sample)
            ]
        );
    }

    /// Six seconds of samples with 100 questions a second, in the middle of which there are probes.
    fn with_probes(
        queries_per_s: u32,
        probe_counts: impl Fn(f64) -> u64,
        commits: Option<u64>,
    ) -> Vec<Point> {
        let points = (0..6_u32).map(|at| {
            let values = [
                ("Questions", (at * 100).to_string()),
                ("Queries", (7_000_000 + at * queries_per_s).to_string()),
                ("Handler_commit", "4".to_owned()),
            ];
            Point::of_sample(&recorded(
                at.into(),
                &values.each_ref().map(|(name, value)| (*name, value.as_str())),
            ))
        });
        let probe = |tenth: u32| {
            let at_s = f64::from(tenth) / 10.0 + 0.05;
            let questions = Some(probe_counts(at_s));
            Probe { at_s, took_ms: 0.2, answered: true, questions, commits, ..Probe::default() }
        };
        let event = Event {
            head: EventHead { segment: 1, ..EventHead::default() },
            probes: (10..40).map(probe).collect(),
            ..Event::default()
        };
        merged(points.collect(), Some(&event), &[Segment { id: 1, ..Segment::default() }], false)
    }

    /// Statements a second from each point to the next that has a count.
    fn rates(points: &[Point]) -> Vec<f64> {
        let counts: Vec<(Timestamp, f64)> =
            points.iter().filter_map(|point| Some((point.at, point.questions?))).collect();
        let rate = |pair: &[(Timestamp, f64)]| {
            (pair[1].1 - pair[0].1) / pair[1].0.duration_since(pair[0].0).as_secs_f64()
        };
        counts.windows(2).map(rate).collect()
    }

    #[test]
    fn statements_of_an_incident_are_of_one_counter_whichever_the_probes_have() {
        let are = |rates: &[f64], per_s: f64| rates.iter().all(|rate| (rate - per_s).abs() <= 0.2 * per_s);
        let questions = rates(&with_probes(3_000, |at_s| (at_s * 100.0) as u64, None));
        assert!(questions.len() > 30 && are(&questions, 100.0), "{questions:?}");
        // Thirty statements within each routine that is called.
        let queries = rates(&with_probes(3_000, |at_s| 7_000_000 + (at_s * 3_000.0) as u64, None));
        assert!(queries.len() > 30 && are(&queries, 3_000.0), "{queries:?}");
        // A session of the probe that goes on from Questions and counts Queries, and one that has lost its place.
        for others in [
            rates(&with_probes(3_000, |at_s| (at_s * 3_000.0) as u64, None)),
            rates(&with_probes(
                100,
                |at_s| if at_s < 2.5 { 7_000_000 } else { 0 } + (at_s * 100.0) as u64,
                None,
            )),
        ] {
            assert_eq!(others, [100.0; 5], "the samples' own");
        }
    }

    #[test]
    fn commits_stay_where_the_probe_has_none() {
        let commits = |points: &[Point]| points.iter().filter_map(|point| point.commits).collect::<Vec<_>>();
        assert_eq!(commits(&with_probes(100, |_| 1, None)), [4.0; 6]);
        let probed = commits(&with_probes(100, |_| 1, Some(3)));
        assert_eq!(probed.len(), 34, "those of 30 probes, and of the samples around them");
    }
}
