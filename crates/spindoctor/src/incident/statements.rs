//! The statements that ran during the stall, compared with the baseline before: without their literals.
//!
//! Running sessions are counted in the stacks, where the event has some, else in the lists of threads: a statement that
//! hangs is seen there while it hangs. The server's digests show how many ended, and in what time.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::{Event, Profile, Window};

use spindoctor_sql::{comparable, digest};
use spindoctor_statements::grown;

use spindoctor_profile::{By, Choice, View};
use spindoctor_record::span::{Span, after};

/// Statements that are listed.
const LISTED: usize = 12;

/// What ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Statements {
    /// The statements of which the most ran at once come first.
    pub rows: Vec<Row>,
    /// Where it was counted who ran at once; empty where nobody could.
    pub at_once_by: &'static str,
    /// The time between the two readings of the digests that lie around the stall; none without them.
    pub digests_over: Option<Span>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Without its literals.
    pub text: String,
    /// In the calm.
    pub before: Load,
    /// In the stall.
    pub during: Load,
}

/// How a statement ran.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// How many threads were in it at once, on average.
    pub at_once: Option<f64>,
    /// How many ended, a second.
    pub ended_per_s: Option<f64>,
    /// How long those took that ended, milliseconds.
    pub mean_ms: Option<f64>,
}

/// By statement: its text, and how many were in it at once.
type AtOnce = HashMap<String, (String, f64)>;
/// By statement: how many ended a second, and their mean time in milliseconds.
type Ended = HashMap<String, (String, f64, f64)>;

impl Statements {
    /// What ran in a stall, of its event and of the windows before and around it.
    pub fn from_windows(
        stall: Span,
        event: Option<&Event>,
        calm: Option<&Window>,
        around: Option<&Window>,
    ) -> Self {
        let (before, during, at_once_by) = at_once(stall, event, calm, around);
        let around_ended = around.and_then(|window| ended_around(window, stall));
        let calm_ended = calm.and_then(|window| {
            let readings = digest_readings(window);
            Some(ended(readings.first()?, readings.last()?))
        });
        let digests_over = around_ended.as_ref().map(|(span, _)| *span);
        let during_ended = around_ended.map(|(_, ended)| ended).unwrap_or_default();
        let calm_ended = calm_ended.unwrap_or_default();
        let is_counted = digests_over.is_some();

        let mut keys: HashSet<&String> = during.keys().chain(before.keys()).collect();
        // Of what nobody was seen in, what took the most time of the server is worth a line.
        keys.extend(during_ended.keys());
        let load = |key: &String, at_once: &AtOnce, ended: &Ended, is_counted: bool| {
            let ended = ended.get(key);
            Load {
                at_once: (!at_once_by.is_empty()).then(|| at_once.get(key).map_or(0.0, |(_, count)| *count)),
                ended_per_s: match ended {
                    Some((_, per_s, _)) => Some(*per_s),
                    None => is_counted.then_some(0.0),
                },
                mean_ms: ended.map(|(_, _, mean_ms)| *mean_ms),
            }
        };
        let mut rows: Vec<Row> = keys
            .into_iter()
            .map(|key| Row {
                // As the server quotes it, where it does.
                text: [&during_ended, &calm_ended]
                    .into_iter()
                    .find_map(|ended| ended.get(key).map(|(text, ..)| text))
                    .or_else(|| [&during, &before].into_iter().find_map(|at_once| Some(&at_once.get(key)?.0)))
                    .cloned()
                    .unwrap_or_default(),
                before: load(key, &before, &calm_ended, calm.is_some() && !calm_ended.is_empty()),
                during: load(key, &during, &during_ended, is_counted),
            })
            .collect();
        let weight = |row: &Row| {
            let busy = |load: &Load| load.ended_per_s.unwrap_or(0.0) * load.mean_ms.unwrap_or(0.0) / 1e3;
            (row.during.at_once.unwrap_or(0.0), busy(&row.during))
        };
        rows.sort_by(|a, b| {
            let (a_weight, b_weight) = (weight(a), weight(b));
            (b_weight.0.total_cmp(&a_weight.0))
                .then(b_weight.1.total_cmp(&a_weight.1))
                .then_with(|| a.text.cmp(&b.text))
        });
        rows.truncate(LISTED);
        Self { rows, at_once_by, digests_over }
    }
}

/// Who was in which statement at once, before and during, and where it was counted.
fn at_once(
    stall: Span,
    event: Option<&Event>,
    calm: Option<&Window>,
    around: Option<&Window>,
) -> (AtOnce, AtOnce, &'static str) {
    let stacks = event.and_then(|event| Some((event.before.as_ref()?, event.during.as_ref()?)));
    if let Some((before, during)) = stacks
        && let (Some(before), Some(during)) = (in_stacks(before), in_stacks(during))
    {
        return (before, during, "the stacks of the event");
    }
    let during = around.map(|window| in_thread_lists(window, Some(stall))).unwrap_or_default();
    let before = calm.map(|window| in_thread_lists(window, None)).unwrap_or_default();
    let is_read = around.is_some_and(|window| window.latest(|sample| &sample.server.threads).is_some());
    (before, during, if is_read { "the lists of threads" } else { "" })
}

/// None where the profile knows of no statement.
fn in_stacks(profile: &Profile) -> Option<AtOnce> {
    let view = View::new(profile, &Choice { by: By::Digest, ..Choice::default() }).ok()?;
    let snapshots = profile.snapshots.len().max(1) as f64;
    let mut at_once = AtOnce::new();
    for seen in &view.observations {
        let Some(activity) = view.activity(seen) else { continue };
        let line = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let text = line(&activity.digest_text)
            .or_else(|| line(&activity.statement).map(|statement| digest(&statement)));
        let runs = activity.command.as_deref().is_none_or(|command| command != "Sleep");
        if let (Some(text), true) = (text, runs) {
            at_once.entry(comparable(&text)).or_insert((text, 0.0)).1 += 1.0 / snapshots;
        }
    }
    Some(at_once)
}

/// Of the lists of a span, or of the nearest one after its beginning where none lies in it.
fn in_thread_lists(window: &Window, span: Option<Span>) -> AtOnce {
    let lists = window.all(|sample| &sample.server.threads);
    let at = |at_s: f64| time_of(window, at_s);
    let mut wanted: Vec<_> =
        lists.iter().filter(|(at_s, _)| span.is_none_or(|span| span.contains(at(*at_s)))).collect();
    if wanted.is_empty() {
        wanted.extend(lists.iter().find(|(at_s, _)| span.is_some_and(|span| at(*at_s) >= span.from)));
    }
    let mut at_once = AtOnce::new();
    for (_, threads) in &wanted {
        for thread in threads.iter().filter(|thread| thread.command != "Sleep") {
            let text = thread.digest_text.clone().or_else(|| thread.statement.as_deref().map(digest));
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                at_once.entry(comparable(&text)).or_insert((text, 0.0)).1 += 1.0 / wanted.len() as f64;
            }
        }
    }
    at_once
}

fn time_of(window: &Window, at_s: f64) -> Timestamp {
    after(window.start, std::time::Duration::try_from_secs_f64(at_s).unwrap_or_default())
}

/// A reading of the digests, and when it was taken, seconds from the start of its window.
type DigestReading<'a> = (f64, &'a Vec<StatementDigest>);

fn digest_readings(window: &Window) -> Vec<DigestReading<'_>> {
    window.all(|sample| &sample.server.digests)
}

/// What ended between the last reading before a stall and the first after it: a statement is counted when it ends, and
/// those that hang end with the stall.
fn ended_around(window: &Window, stall: Span) -> Option<(Span, Ended)> {
    let readings = digest_readings(window);
    let at = |reading: &&DigestReading<'_>| time_of(window, reading.0);
    let first = readings.iter().rev().find(|reading| at(reading) <= stall.from).or(readings.first())?;
    let last = readings.iter().find(|reading| at(reading) >= stall.to).or(readings.last())?;
    let span = Span::new(at(&first), at(&last));
    (span.seconds() > 0.0).then(|| (span, ended(first, last)))
}

fn ended(first: &DigestReading<'_>, last: &DigestReading<'_>) -> Ended {
    let seconds = last.0 - first.0;
    if seconds <= 0.0 {
        return Ended::new();
    }
    // One text may stand there once for each schema.
    let mut sums: HashMap<String, (&str, f64, f64)> = HashMap::new();
    for grown in grown(first.1, last.1, seconds).iter().filter(|grown| !grown.digest.text.is_empty()) {
        let text = grown.digest.text.as_str();
        let sum = sums.entry(comparable(text)).or_insert((text, 0.0, 0.0));
        sum.1 += grown.by.executions;
        sum.2 += grown.by.total_ns;
    }
    sums.into_iter()
        .map(|(key, (text, executions, total_ns))| {
            (key, (text.to_owned(), executions / seconds, total_ns / executions / 1e6))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::ServerThread;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    use crate::incident::examples;

    fn digest(text: &str, executions: u64, total_ms: u64) -> StatementDigest {
        StatementDigest {
            schema: "shop".to_owned(),
            digest: text.to_owned(),
            text: text.to_owned(),
            first_seen_s: Some(5_000.0),
            executions,
            total_ns: total_ms * 1_000_000,
            ..StatementDigest::default()
        }
    }

    fn sample_with(at_s: f64, digests: Vec<StatementDigest>, statements: &[&str]) -> Sample {
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.digests = Reading::Available { at_s, took_ms: 1.0, value: digests };
        let threads = statements.iter().map(|statement| ServerThread {
            command: "Query".to_owned(),
            statement: Some((*statement).to_owned()),
            ..ServerThread::default()
        });
        sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value: threads.collect() };
        sample
    }

    fn window(samples: Vec<Sample>) -> Window {
        Window { start: examples::at(0.0), samples, ..Window::default() }
    }

    const SELECT: &str = "SELECT `c` FROM `t` WHERE `id` = ?";

    #[test]
    fn what_hangs_is_seen_in_the_threads_and_what_ended_is_counted_in_the_digests() {
        let calm = window(vec![
            sample_with(0.0, vec![digest(SELECT, 100, 100)], &[]),
            sample_with(10.0, vec![digest(SELECT, 1_100, 1_100)], &["SELECT c FROM t WHERE id = 7"]),
        ]);
        let around = window(vec![
            sample_with(10.0, vec![digest(SELECT, 1_100, 1_100)], &[]),
            sample_with(12.0, Vec::new(), &["SELECT c FROM t WHERE id = 8", "SELECT c FROM t WHERE id = 9"]),
            sample_with(14.0, vec![digest(SELECT, 1_104, 5_100)], &[]),
        ]);
        let stall = Span::new(examples::at(11.0), examples::at(13.0));
        let statements = Statements::from_windows(stall, None, Some(&calm), Some(&around));
        let [row] = statements.rows.as_slice() else { panic!("{:?}", statements.rows) };
        assert_eq!(row.text, SELECT);
        assert_eq!(row.before, Load { at_once: Some(0.5), ended_per_s: Some(100.0), mean_ms: Some(1.0) });
        assert_eq!(row.during, Load { at_once: Some(2.0), ended_per_s: Some(1.0), mean_ms: Some(1_000.0) });
    }

    #[test]
    fn a_digest_that_was_below_the_bound_before_is_not_given_its_whole_life() {
        let readings = [(0.0, vec![]), (2.0, vec![digest(SELECT, 9_000_000, 9_000_000)])];
        assert!(ended(&(0.0, &readings[0].1), &(2.0, &readings[1].1)).is_empty());
        let mut new = digest("SELECT ?", 4, 8);
        new.first_seen_s = Some(1.0);
        assert_eq!(ended(&(0.0, &vec![]), &(2.0, &vec![new]))[&comparable("SELECT ?")].1, 2.0);
    }

    #[test]
    fn a_prepared_statement_that_runs_is_the_one_that_the_server_counts() {
        let counted = digest("EXECUTE UPDATE `t` SET `k` = `k` + ? WHERE `id` = ?", 100, 100);
        let later = StatementDigest { executions: 104, total_ns: 500_000_000, ..counted.clone() };
        let running = ["UPDATE t SET k=k+? WHERE id=?", "SELECT a  FROM u"];
        let around = window(vec![
            sample_with(0.0, vec![counted], &[]),
            sample_with(2.0, Vec::new(), &running),
            sample_with(4.0, vec![later], &[]),
        ]);
        let statements = Statements::from_windows(
            Span::new(examples::at(1.0), examples::at(3.0)),
            None,
            None,
            Some(&around),
        );
        let text: Vec<_> =
            statements.rows.iter().map(|row| (row.text.as_str(), row.during.ended_per_s)).collect();
        assert_eq!(
            text,
            [
                ("EXECUTE UPDATE `t` SET `k` = `k` + ? WHERE `id` = ?", Some(1.0)),
                ("SELECT a FROM u", Some(0.0))
            ]
        );
    }

    #[test]
    fn without_any_reading_there_is_no_row_and_no_claim() {
        let stall = Span::new(examples::at(1.0), examples::at(2.0));
        assert_eq!(Statements::from_windows(stall, None, None, None), Statements::default());
    }

    #[test]
    fn stacks_of_the_event_are_preferred() {
        let incident = examples::pileup();
        assert_eq!(incident.statements.at_once_by, "the stacks of the event");
        assert!(incident.statements.rows[0].during.at_once.unwrap() > 0.0);
    }
}
