//! What a score says, as text and as the page of the repository: how often the right cause comes first, what stands in its
//! place, false alarms, silence, and how far a finding's score is from what was lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use spindoctor_lab::Strength;
use spindoctor_lab::scenario::{NEAR_MISSES, SCENARIOS};
use spindoctor_lab::score::ScoredRun;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, STRONG, one_line};

/// How far a score may be from the measured loss (0 to 1), and still be near it.
const NEAR: f64 = 0.15;
/// Share of the sessions' time that may go unexplained.
const UNNAMED: f64 = 0.10;

/// Under which conditions the runs were made.
pub struct Conditions<'a> {
    /// How long each window was.
    pub window: Duration,
    /// The machine, in a phrase.
    pub machine: &'a str,
    /// The commit that the program was built from, where it is known.
    pub commit: Option<&'a str>,
    /// The seed of all draws.
    pub seed: u64,
}

/// So many of so many, and what was counted.
struct Count {
    what: &'static str,
    goal: &'static str,
    right: usize,
    of: usize,
}

impl Count {
    fn over<'a>(
        what: &'static str,
        goal: &'static str,
        runs: impl Iterator<Item = &'a ScoredRun>,
        is_right: impl Fn(&ScoredRun) -> bool,
    ) -> Self {
        let (mut right, mut of) = (0, 0);
        for run in runs {
            of += 1;
            right += usize::from(is_right(run));
        }
        Self { what, goal, right, of }
    }

    fn share(&self) -> String {
        percent(self.right, self.of)
    }

    fn interval(&self) -> String {
        let (low, high) = wilson(self.right, self.of);
        format!("{:.0} to {:.0} %", 100.0 * low, 100.0 * high)
    }
}

/// What is counted over all runs, each with its goal. A run that could not be made counts in none.
fn counts(runs: &[ScoredRun]) -> Vec<Count> {
    let made = || runs.iter().filter(|run| run.error.is_none());
    let ill = || made().filter(|run| run.label.is_some());
    let alone = || ill().filter(|run| run.second_label.is_none());
    let strong = |strength| alone().filter(move |run| run.case.strength == strength);
    let fine = || made().filter(|run| run.label.is_none());
    let explained = |run: &ScoredRun| run.unnamed.is_none_or(|unnamed| unnamed < UNNAMED);
    vec![
        Count::over("severe: the right cause first", "95 %", strong(Strength::Severe), ScoredRun::is_right),
        Count::over("severe: among the first two", "", strong(Strength::Severe), |run| run.is_among(2)),
        Count::over("mild: the right cause first", "80 %", strong(Strength::Mild), ScoredRun::is_right),
        Count::over("mild: among the first two", "", strong(Strength::Mild), |run| run.is_among(2)),
        Count::over(
            "two causes at once: both named",
            "90 %",
            ill().filter(|run| run.second_label.is_some()),
            ScoredRun::is_right,
        ),
        Count::over("healthy or nearly so: nothing above a note", "99 %", fine(), ScoredRun::is_right),
        Count::over("ill, and nothing found", "at most 1 %", ill(), ScoredRun::is_silent),
        Count::over("less than 10 % of the time without a name", "all", made(), explained),
        Count::over(
            "score within 0.15 of the measured loss",
            "80 %",
            losses(runs).into_iter().map(|(run, ..)| run),
            |run| score_and_loss(run).is_some_and(|(score, lost)| (score - lost).abs() <= NEAR),
        ),
        Count::over("an answer within 2 s after the window", "all", made(), |run| {
            run.verdict_s <= WINDOW_AND_ANSWER_S
        }),
    ]
}

/// A window of 10 s and 2 s for the answer.
const WINDOW_AND_ANSWER_S: f64 = 12.0;

/// The label's score, and the share of the sessions' time that its victims took by their own clients' clocks.
fn score_and_loss(run: &ScoredRun) -> Option<(f64, f64)> {
    let label = run.label.as_ref()?;
    let score = run.found.iter().find(|found| found.cause == *label).map_or(0.0, |found| found.score);
    Some((score, run.lost?))
}

fn losses(runs: &[ScoredRun]) -> Vec<(&ScoredRun, f64, f64)> {
    let made = runs.iter().filter(|run| run.error.is_none() && run.second_label.is_none());
    made.filter_map(|run| score_and_loss(run).map(|(score, lost)| (run, score, lost))).collect()
}

/// One scenario on one server, at one strength.
#[derive(Default)]
struct Row {
    label: Option<String>,
    right: usize,
    of: usize,
    /// What came first in its place, and how often.
    otherwise: BTreeMap<String, usize>,
}

fn rows(runs: &[ScoredRun]) -> BTreeMap<(usize, String, String), Row> {
    let place = |name: &str| SCENARIOS.iter().chain(NEAR_MISSES).position(|scenario| scenario.name == name);
    let mut rows: BTreeMap<(usize, String, String), Row> = BTreeMap::new();
    for run in runs {
        let kind = match (&run.case.second, run.case.strength) {
            (Some(_), _) => format!("{}, with a second cause", run.case.scenario),
            (None, Strength::Mild) => format!("{}, mild", run.case.scenario),
            (None, Strength::Severe) => run.case.scenario.clone(),
        };
        let key = (place(&run.case.scenario).unwrap_or(usize::MAX), kind, run.case.flavor.to_string());
        let row = rows.entry(key).or_default();
        row.label.clone_from(&run.label);
        row.of += 1;
        row.right += usize::from(run.is_right());
        if !run.is_right() {
            *row.otherwise.entry(otherwise(run)).or_default() += 1;
        }
    }
    rows
}

/// What a run that was not right said.
fn otherwise(run: &ScoredRun) -> String {
    match (&run.error, run.found.is_empty()) {
        (Some(error), _) => format!("not made: {}", one_line(&safe(error))),
        (None, true) => "nothing found".to_owned(),
        (None, false) => {
            let found =
                run.found.iter().map(|one| format!("{} ({:?})", one.cause, one.severity).to_lowercase());
            found.collect::<Vec<_>>().join(", ")
        }
    }
}

/// The score as text.
pub fn text(runs: &[ScoredRun], look: Look) -> String {
    let mut page = Page::new(look);
    page.table(
        &[("what", -44), ("right", 6), ("of", 5), ("share", 8), ("goal", 12)],
        counts(runs).iter().map(|count| {
            vec![
                count.what.to_owned(),
                count.right.to_string(),
                count.of.to_string(),
                count.share(),
                count.goal.to_owned(),
            ]
        }),
    );
    page.blank();
    for ((_, scenario, server), row) in rows(runs) {
        for (what, count) in row.otherwise {
            page.hanging("", "  ", &format!("{scenario} on {server}: {what} ({count} of {})", row.of), PLAIN);
        }
    }
    page.blank();
    let right = runs.iter().filter(|run| run.is_right()).count();
    page.paragraph(
        "",
        &format!(
            "{right} of {} named the right cause first, of two causes both",
            number::counted(runs.len() as u64, "run", "runs")
        ),
        STRONG,
    );
    page.finish()
}

/// The score as a page for the repository.
pub fn markdown(runs: &[ScoredRun], conditions: &Conditions<'_>) -> String {
    let days = |pick: fn(&[ScoredRun]) -> Option<jiff::Timestamp>| {
        pick(runs).map_or(String::new(), |time| time.strftime("%Y-%m-%d").to_string())
    };
    let first = days(|runs| runs.iter().map(|run| run.ended).min());
    let last = days(|runs| runs.iter().map(|run| run.ended).max());
    let when = if first == last { first } else { format!("{first} to {last}") };
    let commit = conditions.commit.map_or(String::new(), |commit| format!(" (commit {commit})"));
    let mut page = format!(
        "# Accuracy\n\nHow often the diagnosis names first what a real server was made to suffer (`make score`). The numbers of \
         each run are drawn at random from ranges: how many sessions, texts or prepared statements, what else the server does, \
         whether there is a second cause. Windows of {}, spindoctor {}{commit}, {when} on {}, seed {}.\n\n{}\n\n",
        number::duration(conditions.window.as_secs_f64()),
        env!("CARGO_PKG_VERSION"),
        conditions.machine,
        conditions.seed,
        coverage(runs),
    );
    page.push_str("| what | runs | of | share | 95 % interval | goal |\n|---|---:|---:|---:|---:|---:|\n");
    for count in counts(runs) {
        let Count { what, goal, right, of } = &count;
        let _ =
            writeln!(page, "| {what} | {right} | {of} | {} | {} | {goal} |", count.share(), count.interval());
    }
    page.push_str(&beside_the_counts(runs));
    page.push_str(
        "\n## Scenario by scenario\n\nA run is right when the label comes first; with a second cause when both are named; without \
         a label when nothing above a note is found.\n\n| scenario | label | server | right | runs | otherwise |\n\
         |---|---|---|---:|---:|---|\n",
    );
    for ((_, scenario, server), Row { label, right, of, otherwise }) in rows(runs) {
        let otherwise: Vec<String> =
            otherwise.iter().map(|(what, count)| format!("{what} ({count})")).collect();
        let _ = writeln!(
            page,
            "| {scenario} | {} | {server} | {right} | {of} | {} |",
            label.unwrap_or("none".to_owned()),
            otherwise.join("; ").replace('|', "\\|")
        );
    }
    page.push_str(&confusion(runs));
    page
}

/// False alarms in time, and how the scores lie beside the losses.
fn beside_the_counts(runs: &[ScoredRun]) -> String {
    let fine: Vec<&ScoredRun> =
        runs.iter().filter(|run| run.error.is_none() && run.label.is_none()).collect();
    let hours = fine.iter().map(|run| run.verdict_s).sum::<f64>() / 3600.0;
    let alarms = fine.iter().filter(|run| !run.is_right()).count();
    let mut text = format!(
        "\nHealthy servers were watched for {:.0} minutes in all, with {}.",
        60.0 * hours,
        number::counted(alarms as u64, "false alarm", "false alarms")
    );
    let (scores, lost): (Vec<f64>, Vec<f64>) =
        losses(runs).iter().map(|(_, score, lost)| (*score, *lost)).unzip();
    if let (Some(rank), Some(slope)) = (rank_correlation(&scores, &lost), slope(&lost, &scores)) {
        let _ = write!(
            text,
            " A finding's score against the loss that its victims' clients measured: slope {slope:.2}, rank correlation \
             {rank:.2}, {}.",
            number::counted(scores.len() as u64, "run", "runs")
        );
    }
    text.push('\n');
    text
}

/// What came first where it was not the label.
fn confusion(runs: &[ScoredRun]) -> String {
    let mut pairs: BTreeMap<(String, String), usize> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.error.is_none() && run.second_label.is_none() && !run.is_right())
    {
        let label = run.label.clone().unwrap_or("nothing".to_owned());
        let first = run.found.first().map_or("nothing".to_owned(), |found| found.cause.clone());
        *pairs.entry((label, first)).or_default() += 1;
    }
    if pairs.is_empty() {
        return String::new();
    }
    let mut text =
        "\n## Taken for something else\n\n| it was | first came | runs |\n|---|---|---:|\n".to_owned();
    for ((label, first), count) in pairs {
        let _ = writeln!(text, "| {label} | {first} | {count} |");
    }
    text
}

/// What such a count says, and what it does not: in front of the tables, so that nobody takes it for more.
pub fn coverage(runs: &[ScoredRun]) -> String {
    covers(
        SCENARIOS
            .iter()
            .chain(NEAR_MISSES)
            .filter(|one| runs.iter().any(|run| run.case.scenario == one.name))
            .count(),
        runs.len(),
        runs.iter().filter(|run| run.error.is_some()).count(),
    )
}

fn covers(scenarios: usize, runs: usize, not_made: usize) -> String {
    format!(
        "**What this covers.** {scenarios} of the {} scenarios of the lab, {runs} runs, of which {not_made} could not be made. \
         The scenarios are the makers' own: the rules were written with them in view, so this shows that little broke, and not how \
         often the diagnosis is right on servers that the makers never saw.",
        SCENARIOS.len() + NEAR_MISSES.len(),
    )
}

/// 209 of 210 are not 100 %: rounded down, in tenths.
fn percent(right: usize, of: usize) -> String {
    if of == 0 {
        return "no run".to_owned();
    }
    let tenths = 1000 * right / of;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} %"),
        (whole, tenth) => format!("{whole}.{tenth} %"),
    }
}

/// Wilson's 95 % interval for a share (E. B. Wilson, 1927).
fn wilson(right: usize, of: usize) -> (f64, f64) {
    /// Of the standard normal distribution, 2.5 % lie beyond.
    const Z: f64 = 1.959_964;
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (of as f64, right as f64 / of as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

/// Spearman's rank correlation; equal values share their mean rank. None with fewer than three pairs, or where one side is all the
/// same.
fn rank_correlation(left: &[f64], right: &[f64]) -> Option<f64> {
    correlation(&ranks(left), &ranks(right))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: f64| {
        let below = values.iter().filter(|other| **other < value).count();
        let same = values.iter().filter(|other| **other == value).count();
        below as f64 + (same as f64 + 1.0) / 2.0
    };
    values.iter().map(|value| rank(*value)).collect()
}

fn correlation(left: &[f64], right: &[f64]) -> Option<f64> {
    let (both, left, right) = moments(left, right)?;
    (left > 0.0 && right > 0.0).then(|| both / (left * right).sqrt())
}

/// Slope of the least squares' line of `y` over `x`. None with fewer than three pairs, or where all `x` are the same.
fn slope(x: &[f64], y: &[f64]) -> Option<f64> {
    let (both, of_x, _) = moments(x, y)?;
    (of_x > 0.0).then(|| both / of_x)
}

/// Sums of products of the distances from the means: of both, of the left, of the right.
fn moments(left: &[f64], right: &[f64]) -> Option<(f64, f64, f64)> {
    if left.len() < 3 {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (of_left, of_right) = (mean(left), mean(right));
    let pairs = || left.iter().zip(right).map(|(l, r)| (l - of_left, r - of_right));
    Some((
        pairs().map(|(l, r)| l * r).sum(),
        pairs().map(|(l, _)| l * l).sum(),
        pairs().map(|(_, r)| r * r).sum(),
    ))
}

#[cfg(test)]
mod tests {
    use spindoctor_lab::score::{Case, Found};
    use spindoctor_model::{Flavor, Severity};

    use super::*;

    /// A run of a scenario, and the causes that were found with their scores.
    fn run(scenario: &str, found: &[(&str, Severity, f64)]) -> ScoredRun {
        let label = SCENARIOS.iter().find(|one| one.name == scenario).and_then(|one| one.label);
        ScoredRun {
            build: "spindoctor 0.1.0 1".to_owned(),
            ended: "2026-07-01T09:30:00Z".parse().unwrap(),
            case: Case {
                scenario: scenario.to_owned(),
                flavor: Flavor::Mysql,
                server: None,
                strength: Strength::Severe,
                second: None,
                seed: 7,
            },
            label: label.map(str::to_owned),
            second_label: None,
            seen: "8 threads wait".to_owned(),
            found: found
                .iter()
                .map(|(cause, severity, score)| Found {
                    cause: (*cause).to_owned(),
                    severity: *severity,
                    score: *score,
                })
                .collect(),
            unnamed: Some(0.02),
            lost: None,
            verdict_s: 11.0,
            error: None,
        }
    }

    fn examples() -> Vec<ScoredRun> {
        let row = ("row-lock-pileup", Severity::Critical, 0.9);
        let wrong = ("cpu-saturated", Severity::Warning, 0.4);
        let mut mild = run("row-lock-pileup", &[("row-lock-pileup", Severity::Warning, 0.12)]);
        mild.case.strength = Strength::Mild;
        mild.lost = Some(0.11);
        let mut both = run("row-lock-pileup", &[row, ("user-lock-pileup", Severity::Note, 0.05)]);
        both.case.second = Some("user-lock-pileup".to_owned());
        both.second_label = Some("user-lock-pileup".to_owned());
        vec![
            ScoredRun { lost: Some(0.8), ..run("row-lock-pileup", &[row]) },
            ScoredRun { lost: Some(0.9), ..run("row-lock-pileup", &[wrong, row]) },
            run("row-lock-pileup", &[]),
            mild,
            both,
            run("healthy", &[("cpu-saturated", Severity::Note, 0.1)]),
            run("healthy", &[wrong]),
            ScoredRun { error: Some("no server\nhere | there".to_owned()), ..run("cpu-throttled", &[]) },
        ]
    }

    fn conditions() -> Conditions<'static> {
        let window = Duration::from_secs(10);
        Conditions { window, machine: "a machine", commit: Some("0123abc"), seed: 1 }
    }

    #[test]
    fn of_two_causes_either_may_be_the_larger() {
        let (row, user) = ("row-lock-pileup", "user-lock-pileup");
        let found = |causes: &[&'static str]| {
            let found: Vec<_> = causes.iter().map(|&cause| (cause, Severity::Warning, 0.5)).collect();
            let mut both = run(row, &found);
            both.second_label = Some(user.to_owned());
            both
        };
        assert!(found(&[user, row]).is_right() && found(&[row, user]).is_right());
        assert!(!found(&[row]).is_right() && !found(&[user]).is_right());
    }

    #[test]
    fn the_score_counts_what_was_right_and_names_what_was_not() {
        insta::assert_snapshot!(text(&examples(), Look { width: 80, colour: false }));
    }

    #[test]
    fn the_page_has_each_count_with_its_interval_and_no_broken_cell() {
        let scenarios = format!("of the {} scenarios", SCENARIOS.len() + NEAR_MISSES.len());
        insta::assert_snapshot!(
            markdown(&examples(), &conditions()).replace(&scenarios, "of the N scenarios")
        );
    }

    #[test]
    fn the_page_in_the_repository_says_what_it_covers() {
        let page = include_str!("../../../../ACCURACY.md");
        let coverage = page.split_once("**What this covers.** ").map(|(_, rest)| rest).unwrap();
        let mut numbers =
            coverage.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        let (covered, _all, runs, not_made) =
            (numbers.next().unwrap(), numbers.next(), numbers.next().unwrap(), numbers.next().unwrap());
        let line = covers(covered, runs, not_made);
        assert!(page.contains(&line), "run `make score`, or put this into ACCURACY.md: {line}");
        let doctor = include_str!("../../../../docs/src/commands/doctor.md");
        assert!(!doctor.contains("share of its time that was lost"));
    }

    #[test]
    fn an_interval_of_few_runs_is_wide() {
        assert!((wilson(7, 7).0 - 0.6457).abs() < 0.001, "{:?}", wilson(7, 7));
        assert!((wilson(212, 213).0 - 0.9739).abs() < 0.001, "{:?}", wilson(212, 213));
        assert_eq!(wilson(0, 0), (0.0, 1.0));
        assert_eq!(percent(209, 210), "99.5 %");
        assert_eq!(percent(210, 210), "100 %");
        assert_eq!(percent(0, 0), "no run");
    }

    #[test]
    fn ranks_and_slopes_are_those_of_the_textbooks() {
        // Spearman: the order is the same, whatever the distances; equal values share their rank.
        assert_eq!(rank_correlation(&[1.0, 2.0, 30.0], &[0.1, 0.2, 0.3]), Some(1.0));
        assert_eq!(rank_correlation(&[3.0, 2.0, 1.0], &[0.1, 0.2, 0.3]), Some(-1.0));
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(slope(&[0.0, 1.0, 2.0], &[1.0, 1.5, 2.0]), Some(0.5));
        assert_eq!(slope(&[0.0, 1.0], &[1.0, 1.5]), None);
        assert_eq!(slope(&[1.0, 1.0, 1.0], &[1.0, 1.5, 2.0]), None);
    }
}
