//! Statements whose plan changed: what the rule `plan-change` says of two readings of the summary by digest, half a minute apart. Pure.
//!
//! One reading with rare values looks like a change, and a change lasts: it is said when two spans in a row show it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::{
    Diagnosis, Finding, Reading, RecordedSample, Sample, Segment, StallKind, Value, Window,
};
use spindoctor_rules::causes::plan_change;
use spindoctor_rules::{CAUSES, Outcome};

use super::happened::Happened;
use super::question::Question;

/// The rule.
const RULE: &str = "plan-change";
/// A statement is said again when its plan was as it used to be for so long.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Statements whose plans changed that are looked through in one span.
const MOST: usize = 5;
/// A change lasts where the span after it has so large a part of its rows still.
const STILL: f64 = 0.5;

/// Watches the plans of statements in one segment.
#[derive(Default)]
pub struct Plans {
    segment: Segment,
    /// The last sample with digests, reduced to what the rule needs.
    before: Option<RecordedSample>,
    /// How many CPUs there are, as it was read last.
    cpus: Sample,
    /// The statements that showed a change in the last span, with the reading before it.
    suspects: BTreeMap<String, RecordedSample>,
    /// Those that were said, and when they showed it last.
    said: BTreeMap<String, Timestamp>,
    new: Option<Happened>,
}

impl Plans {
    /// From here on samples are of this segment.
    pub fn begin_segment(&mut self, segment: &Segment) {
        let said = std::mem::take(&mut self.said);
        *self = Self { segment: segment.clone(), said, ..Self::default() };
    }

    /// Takes what a sample has.
    pub fn read(&mut self, recorded: &RecordedSample) {
        if recorded.sample.host.effective_cpus.value().is_some() {
            self.cpus.host.effective_cpus = recorded.sample.host.effective_cpus.clone();
        }
        if recorded.sample.server.digests.value().is_none() {
            return;
        }
        let mut now =
            RecordedSample { at: recorded.at, segment: recorded.segment, sample: self.cpus.clone() };
        now.sample.at_s = recorded.sample.at_s;
        now.sample.server.digests = recorded.sample.server.digests.clone();
        if let Some(before) = self.before.replace(now.clone()) {
            self.confirm(&before, &now);
            self.suspect(&before, &now);
        }
    }

    /// A change that was not said yet.
    pub fn changed(&mut self) -> Option<Happened> {
        let happened = self.new.take()?;
        let finding = happened.diagnosis.as_ref().and_then(|diagnosis| diagnosis.findings.first());
        if let Some(text) = finding.and_then(statement) {
            self.said.insert(text.to_owned(), happened.ended);
        }
        Some(happened)
    }

    /// Looks whether those that showed a change in the span before do so in this one, too: by the reading before both, as executions
    /// by the new plan are in the sums by now.
    fn confirm(&mut self, before: &RecordedSample, now: &RecordedSample) {
        for (text, reference) in std::mem::take(&mut self.suspects) {
            if self.said.contains_key(&text) {
                continue;
            }
            let each = |first: &RecordedSample| rows_each(first, now, &text);
            let lasts = each(before).zip(each(&reference)).is_some_and(|(now, since)| now >= STILL * since);
            let window = self.window(&reference, now);
            if lasts && self.new.is_none() && changed(&window).contains(&text) {
                self.new = happened(&window, &text, reference.at, now.at);
            }
        }
    }

    fn suspect(&mut self, before: &RecordedSample, now: &RecordedSample) {
        self.said.retain(|_, last| now.at.duration_since(*last) < AGAIN_AFTER);
        for text in changed(&self.window(before, now)) {
            match self.said.get_mut(&text) {
                Some(last) => *last = now.at,
                None => drop(self.suspects.insert(text, before.clone())),
            }
        }
    }

    fn window(&self, before: &RecordedSample, now: &RecordedSample) -> Window {
        let mut samples = vec![before.sample.clone(), now.sample.clone()];
        samples.iter_mut().for_each(|sample| sample.shift(-before.sample.at_s));
        let server = self.segment.server.clone();
        Window { server, start: before.at, samples, ..Window::default() }
    }
}

/// The statements of which the rule says that their plans changed. It names the one that takes the most time; then it is asked
/// of the others.
fn changed(window: &Window) -> Vec<String> {
    let Some(rule) = CAUSES.iter().find(|cause| cause.name == RULE) else { return Vec::new() };
    let mut rest = window.clone();
    let mut changed = Vec::new();
    while changed.len() < MOST
        && let Outcome::Fired(finding) = rule.evaluate(&rest, None)
        && let Some(text) = statement(&finding)
    {
        keep(&mut rest, |digest| digest.text != text);
        changed.push(text.to_owned());
    }
    changed
}

/// Rows that each execution read between two readings; none where it was not executed.
fn rows_each(first: &RecordedSample, last: &RecordedSample, text: &str) -> Option<f64> {
    let sum = |recorded: &RecordedSample| {
        let digests = recorded.sample.server.digests.value()?.iter().filter(|digest| digest.text == text);
        Some(digests.fold((0, 0), |(executions, rows), digest| {
            (executions + digest.executions, rows + digest.rows_examined)
        }))
    };
    let (first, last) = (sum(first)?, sum(last)?);
    let executions = last.0.checked_sub(first.0).filter(|executions| *executions > 0)?;
    Some(last.1.saturating_sub(first.1) as f64 / executions as f64)
}

/// The statement that a finding of the rule names.
fn statement(finding: &Finding) -> Option<&str> {
    let evidence = finding.evidence.iter().find(|evidence| evidence.reading == "statement")?;
    match &evidence.value {
        Value::Text(text) => Some(text),
        Value::Number(_) => None,
    }
}

/// What the rules say of this statement, and of no other: its share is of all statements' time.
fn happened(window: &Window, text: &str, began: Timestamp, ended: Timestamp) -> Option<Happened> {
    let mut window = window.clone();
    let others = changed(&window).into_iter().filter(|other| other != text).collect::<Vec<_>>();
    keep(&mut window, |digest| !others.contains(&digest.text));
    let diagnosis = diagnosis(&window);
    diagnosis.findings.first()?;
    let because =
        "a statement reads far more rows each time than it did, in two readings of the summary".to_owned();
    let question = plan_change::suspect(&window).map(|suspect| Box::new(Question { suspect, window }));
    let diagnosis = Some(diagnosis);
    Some(Happened { kind: StallKind::PlanChanged, began, ended, because, diagnosis, question })
}

/// What the rule says of a window, and no other.
pub fn diagnosis(window: &Window) -> Diagnosis {
    let mut diagnosis = spindoctor_rules::diagnose(window);
    diagnosis.findings.retain(|finding| finding.cause == RULE);
    diagnosis
}

fn keep(window: &mut Window, mut is_kept: impl FnMut(&StatementDigest) -> bool) {
    for sample in &mut window.samples {
        if let Reading::Available { value: digests, .. } = &mut sample.server.digests {
            digests.retain(&mut is_kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a statement did in half a minute: executions, and rows of each.
    type Span = (u64, u64);

    /// The event that the recorder makes of these spans, each with a reading at its end; the first reading is after the first.
    fn said(spans: &[Span], others: &[Span]) -> Vec<(f64, f64, Option<String>)> {
        let mut plans = Plans::default();
        let mut sums = [(0, 0), (0, 0)];
        let mut said = Vec::new();
        for (half_minute, (span, other)) in (0_u32..).zip(spans.iter().zip(others)) {
            for (sum, (executions, rows)) in sums.iter_mut().zip([span, other]) {
                *sum = (sum.0 + executions, sum.1 + executions * rows);
            }
            let digest = |name: &str, (executions, rows_examined): Span| StatementDigest {
                digest: name.into(),
                text: format!("SELECT `c` FROM `{name}` WHERE `k` = ?"),
                executions,
                rows_examined,
                total_ns: rows_examined * 1_000 + executions * 10_000,
                ..StatementDigest::default()
            };
            let at_s = f64::from(half_minute) * 30.0;
            let value = vec![digest("orders", sums[0]), digest("stock", sums[1])];
            let mut recorded = RecordedSample::default();
            recorded.at += SignedDuration::from_secs_f64(at_s);
            recorded.sample.at_s = at_s;
            recorded.sample.server.digests = Reading::Available { at_s, took_ms: 1.0, value };
            plans.read(&recorded);
            let since_s = |at: Timestamp| at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
            said.extend(plans.changed().map(|happened| {
                // It is asked about the statement that is said.
                let asked = happened.question.as_ref().map(|question| question.suspect.text.clone());
                let finding = happened.diagnosis.and_then(|diagnosis| diagnosis.findings.into_iter().next());
                let text = finding.as_ref().and_then(statement).map(str::to_owned);
                assert_eq!(asked, text);
                (since_s(happened.began), since_s(happened.ended), text)
            }));
        }
        said
    }

    const CALM: Span = (3_000, 3);
    const OTHERS: [Span; 8] = [(500, 10); 8];

    #[test]
    fn a_plan_that_changed_is_said_once_though_the_sums_follow_it() {
        let changed = (3_000, 8_000);
        let said = said(&[CALM, CALM, changed, changed, changed, changed, changed, changed], &OTHERS);
        let text = Some("SELECT `c` FROM `orders` WHERE `k` = ?".to_owned());
        assert_eq!(said, [(30.0, 90.0, text)]);
    }

    #[test]
    fn rare_values_in_one_reading_are_no_change() {
        let spans = [CALM, CALM, (60, 8_000), CALM, CALM, CALM, CALM, CALM];
        assert_eq!(said(&spans, &OTHERS), []);
        let then_nothing = [CALM, CALM, (60, 8_000), (0, 0), (0, 0), (0, 0), (0, 0), CALM];
        assert_eq!(said(&then_nothing, &OTHERS), []);
    }

    #[test]
    fn of_two_statements_each_is_said() {
        let changed = (3_000, 8_000);
        let spans = [CALM, CALM, changed, changed, changed, changed, changed, changed];
        let said = said(
            &spans,
            &[
                (500, 10),
                (500, 10),
                (500, 10),
                (500, 9_000),
                (500, 9_000),
                (500, 9_000),
                (500, 10),
                (500, 10),
            ],
        );
        let of = |name: &str| {
            said.iter().filter(|(.., text)| text.as_ref().is_some_and(|t| t.contains(name))).count()
        };
        assert_eq!((of("orders"), of("stock"), said.len()), (1, 1, 2), "{said:?}");
    }
}
