//! The output of the lab: its lists, a scenario's run, and the score as text and as a Markdown page.

use std::fmt::Write as _;
use std::time::Duration;

use spindoctor_lab::Listed;
use spindoctor_lab::experiment::Experiment;
use spindoctor_lab::scenario::{RunOutcome, SCENARIOS, Scenario, Score, Tally};
use spindoctor_lab::storm::{self, Round, Storm};
use spindoctor_model::Tuning;

use crate::doctor::text as doctor_text;
use crate::tune::text;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, one_line};

/// The scenarios, the experiments, and the servers that are up.
pub fn lists(scenarios: &[&Scenario], experiments: &[&Experiment], servers: &[Listed], look: Look) -> String {
    let mut page = Page::new(look);
    let first = |story: &'static str| one_line(story.split_once(". ").map_or(story, |(first, _)| first));
    for scenario in scenarios {
        page.entry(scenario.name, &first(scenario.story), 23);
    }
    if !experiments.is_empty() {
        page.blank();
        page.paragraph("", "Experiments, each a trial with its interval:", QUIET);
    }
    for experiment in experiments {
        page.entry(experiment.name, &first(experiment.story), 23);
    }
    if !experiments.is_empty() {
        page.entry(storm::NAME, &first(storm::STORY), 23);
    }
    if !scenarios.is_empty() {
        page.blank();
        if servers.is_empty() {
            page.paragraph("", "No server of the lab is up; `spindoctor lab up` starts one.", QUIET);
        }
    }
    for server in servers {
        page.entry(&server.name, &safe(&line(server)), 12);
        // Commands are for copying: never broken over two lines.
        page.push(&format!("    spindoctor doctor -u root -S {}", server.socket.display()));
        if server.stays {
            page.push(&format!("    spindoctor lab down {}", server.name));
        }
    }
    page.finish()
}

fn line(server: &Listed) -> String {
    let mut parts = vec![server.version.to_string()];
    parts.push(server.pid.map_or("not running".to_owned(), |pid| format!("pid {pid}")));
    parts.push(format!("port {}", server.port));
    parts.extend(server.quota_cpus.map(|cpus| format!("quota {cpus} CPUs")));
    parts.push(format!("data in {}", server.data.display()));
    if !server.stays {
        parts.push("belongs to a running command".to_owned());
    }
    parts.join(", ")
}

/// An experiment, and what its trial says.
pub fn experiment(experiment: &Experiment, tuning: &Tuning, look: Look) -> String {
    let mut page = Page::new(look);
    page.paragraph("", &format!("experiment {}", experiment.name), STRONG);
    page.paragraph("    ", &one_line(experiment.story), QUIET);
    page.blank();
    page.append(&text::render(tuning, look));
    page.finish()
}

/// What each setting sustained of a storm, and what broke first beyond it.
pub fn storm(storm: &Storm, look: Look) -> String {
    let mut page = Page::new(look);
    page.paragraph("", &format!("{} on {}", storm::NAME, storm.server), STRONG);
    page.paragraph("    ", &one_line(storm::STORY), QUIET);
    page.blank();
    page.table(
        &[("setting", -22), ("sustained", 12), ("too many", 11), ("what breaks first", -30)],
        storm.settings.iter().map(|setting| {
            let rate = |rate: Option<f64>| {
                rate.map_or_else(|| "-".to_owned(), |rate| number::quantity(rate.round(), "1/s"))
            };
            let breaks = match setting.breaks {
                Some(breaks) => breaks.text(),
                None if setting.is_complete => "nothing did",
                None => "nothing until time was over",
            };
            vec![
                setting.setting.to_owned(),
                rate(setting.sustained_per_s),
                rate(setting.broken_per_s),
                breaks.to_owned(),
            ]
        }),
    );
    page.blank();
    for setting in &storm.settings {
        if let Some(best) = setting.best() {
            page.field(setting.setting, &as_it_went(best), 24);
        }
        if let Some(broken) = setting.first_broken() {
            let name = if setting.best().is_some() { "" } else { setting.setting };
            page.field(name, &as_it_broke(broken), 24);
        }
        if !setting.is_complete {
            page.field("", "the time was over before the highest rate was found; --max-time gives more", 24);
        }
    }
    if !storm.not_tried.is_empty() {
        let text = format!(
            "Not tried, as the time was over (--max-time gives more): {}.",
            storm.not_tried.join(", ")
        );
        page.paragraph("", &text, STRONG);
    }
    page.paragraph(
        "",
        "The clients ran on the same CPUs, through the unix socket: rates are for comparing settings.",
        QUIET,
    );
    page.finish()
}

/// A rate that was sustained.
fn as_it_went(round: &Round) -> String {
    format!(
        "at {}: half within {}, 99 % within {}; {} threads made; {}",
        number::quantity(round.rate.round(), "1/s"),
        number::quantity(round.p50_ms, "ms"),
        number::quantity(round.p99_ms, "ms"),
        number::quantity(round.threads_created_per_s.round(), "1/s"),
        who_was_busy(round),
    )
}

/// A rate that was too high: what became of the clients that were not served in time.
fn as_it_broke(round: &Round) -> String {
    let mut became: Vec<(u64, &str)> =
        round.failures.iter().map(|(failure, count)| (*count, failure.text())).collect();
    became.push((round.late(), "were served late"));
    became.retain(|(count, _)| *count > 0);
    became.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let became: Vec<String> =
        became.iter().map(|(count, what)| format!("{} {what}", number::plain(*count as f64))).collect();
    format!(
        "at {}: of {}, {}; {}",
        number::quantity(round.rate.round(), "1/s"),
        number::counted(round.due, "client", "clients"),
        became.join(", "),
        who_was_busy(round),
    )
}

fn who_was_busy(round: &Round) -> String {
    format!(
        "accepting thread busy {}, the clients took {} of the CPUs, {} were idle",
        number::percent(round.accept_busy_ratio),
        number::percent(round.clients_cpu_ratio),
        number::percent(round.idle_cpu_ratio),
    )
}

/// A scenario, what the rules made of it, and whether that was right.
pub fn run(scenario: &Scenario, outcome: &RunOutcome, look: Look) -> String {
    let mut page = Page::new(look);
    page.paragraph("", &format!("scenario {} on {}", outcome.scenario, outcome.server), STRONG);
    page.paragraph("    ", &one_line(scenario.story), QUIET);
    page.blank();
    page.field("seen before", &safe(&outcome.seen_before), 14);
    let after = outcome.seen_after.as_deref().unwrap_or("it had ended");
    page.field("seen after", &safe(after), 14);
    page.blank();
    page.append(&doctor_text::render(&outcome.diagnosis, look));
    page.blank();
    page.paragraph("", &verdict(outcome), STRONG);
    page.finish()
}

fn verdict(outcome: &RunOutcome) -> String {
    let first = outcome.diagnosis.findings.first().map_or("nothing", |finding| &finding.cause);
    match (outcome.label, outcome.named_first) {
        (Some(label), true) => format!("right: {label} was named first"),
        (Some(label), false) => format!("wrong: {label} should have been named first, and {first} was"),
        (None, true) => "right: nothing above a note was found".to_owned(),
        (None, false) => format!("wrong: nothing above a note should have been found, and {first} was"),
    }
}

/// The score in a table.
pub fn score(score: &Score, look: Look) -> String {
    let mut page = Page::new(look);
    page.table(
        &[("scenario", -24), ("server", -16), ("right", 8), ("of", 5)],
        score.tallies.iter().map(|tally| {
            vec![
                tally.scenario.to_owned(),
                tally.flavor.to_string(),
                tally.named_first.to_string(),
                tally.runs.len().to_string(),
            ]
        }),
    );
    for tally in &score.tallies {
        for (what, count) in mistakes(tally) {
            page.hanging(
                "",
                "  ",
                &format!("{} on {}: {what} ({count})", tally.scenario, tally.flavor),
                PLAIN,
            );
        }
    }
    page.blank();
    page.paragraph("", &summary(score), STRONG);
    page.finish()
}

/// The score as a page for the repository. Runs that an `earlier` page counts are counted too, where they were of the
/// same version, on the same machine and day, with windows as long.
pub fn score_markdown(score: &Score, window: Duration, machine: &str, earlier: &str) -> String {
    let about = format!(
        "How often the diagnosis named first what a real server was made to suffer (`make score`). A run is right \
         when the scenario's label is the first finding; `healthy` when nothing above a note is found. \
         Windows of {}, spindoctor {}, {} on {machine}.",
        number::duration(window.as_secs_f64()),
        env!("CARGO_PKG_VERSION"),
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
    );
    let mut rows = if earlier.contains(&about) { rows_of(earlier) } else { Vec::new() };
    for tally in &score.tallies {
        let otherwise: Vec<String> =
            mistakes(tally).into_iter().map(|(what, count)| format!("{what} ({count})")).collect();
        let row = ScoreRow {
            what: [
                tally.scenario.to_owned(),
                tally.label.unwrap_or("none").to_owned(),
                tally.flavor.to_string(),
            ],
            right: tally.named_first,
            runs: tally.runs.len(),
            otherwise: otherwise.join("; ").replace('|', "\\|"),
        };
        match rows.iter_mut().find(|known| known.what == row.what) {
            Some(known) => known.add(row),
            None => rows.push(row),
        }
    }
    let mut page = format!(
        "# Accuracy\n\n{about}\n\n{}\n\n**{}**\n\n",
        coverage(&rows),
        share_right(rows.iter().map(|row| row.right).sum(), rows.iter().map(|row| row.runs).sum())
    );
    page.push_str("| scenario | label | server | right | runs | otherwise |\n|---|---|---|---:|---:|---|\n");
    for ScoreRow { what: [scenario, label, server], right, runs, otherwise } in rows {
        let _ = writeln!(page, "| {scenario} | {label} | {server} | {right} | {runs} | {otherwise} |");
    }
    page
}

/// What such a count says, and what it does not: in front of the table, so that nobody takes it for more.
fn coverage(rows: &[ScoreRow]) -> String {
    let covered =
        SCENARIOS.iter().filter(|scenario| rows.iter().any(|row| row.what[0] == scenario.name)).count();
    let (right, runs) = rows.iter().fold((0, 0), |(right, runs), row| (right + row.right, runs + row.runs));
    let fewest = rows.iter().min_by_key(|row| row.runs).map_or((0, 0), |row| (row.right, row.runs));
    format!(
        "**What this covers.** {covered} of the {} scenarios of the lab. They are the makers' own: the rules were written with \
         them in view, so this shows that nothing broke, and not how often the diagnosis is right on servers that the makers \
         never saw. It counts the code of that day, not what was changed since. With 95 % confidence at least {:.1} % of such \
         runs are right (the lower end of Wilson's interval); of a single row with {} of {} right, at least {:.0} %.",
        SCENARIOS.len(),
        wilson_lower(right, runs) * 100.0,
        fewest.0,
        fewest.1,
        wilson_lower(fewest.0, fewest.1) * 100.0
    )
}

/// The lower end of Wilson's 95 % interval for a share (E. B. Wilson, 1927).
fn wilson_lower(right: usize, runs: usize) -> f64 {
    /// Of the standard normal distribution, 2.5 % lie beyond.
    const Z: f64 = 1.959_964;
    if runs == 0 {
        return 0.0;
    }
    let (n, share) = (runs as f64, right as f64 / runs as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((middle - half) / (1.0 + Z * Z / n)).max(0.0)
}

/// A line of the page's table.
struct ScoreRow {
    /// Scenario, label, server.
    what: [String; 3],
    right: usize,
    runs: usize,
    otherwise: String,
}

impl ScoreRow {
    fn add(&mut self, more: Self) {
        self.right += more.right;
        self.runs += more.runs;
        let otherwise = [std::mem::take(&mut self.otherwise), more.otherwise];
        self.otherwise =
            otherwise.iter().filter(|what| !what.is_empty()).cloned().collect::<Vec<_>>().join("; ");
    }
}

/// The lines of a page that [`score_markdown`] wrote.
fn rows_of(page: &str) -> Vec<ScoreRow> {
    let row = |line: &str| {
        // Five cells that hold no bar, and what is left.
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.splitn(6, " | ");
        let mut cell = || cells.next().map(|cell| cell.trim().to_owned());
        let what = [cell()?, cell()?, cell()?];
        let (right, runs) = (cell()?.parse().ok()?, cell()?.parse().ok()?);
        Some(ScoreRow { what, right, runs, otherwise: cell().unwrap_or_default() })
    };
    page.lines().filter_map(row).collect()
}

fn summary(score: &Score) -> String {
    let runs = score.tallies.iter().map(|tally| tally.runs.len()).sum();
    share_right(score.tallies.iter().map(|tally| tally.named_first).sum(), runs)
}

/// 209 of 210 are not 100 %: rounded down, in tenths.
fn share_right(right: usize, runs: usize) -> String {
    let tenths = (1000 * right).checked_div(runs).unwrap_or(0);
    let share = match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    };
    format!("{right} of {} right: {share} %", number::counted(runs as u64, "run", "runs"))
}

/// What was found instead, and how often, in the order in which it came up.
fn mistakes(tally: &Tally) -> Vec<(String, usize)> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for run in tally.runs.iter().filter(|run| !run.named_first) {
        let what = match (&run.error, run.found.is_empty()) {
            (Some(error), _) => one_line(&safe(error)),
            (None, true) => "nothing found".to_owned(),
            (None, false) => run.found.join(", "),
        };
        match counted.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => counted.push((what, 1)),
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use spindoctor_lab::scenario::ScoredRun;
    use spindoctor_model::Flavor;

    use super::*;

    fn sample() -> Score {
        let run = |named_first, found: &[&str]| ScoredRun {
            named_first,
            found: found.iter().map(|cause| (*cause).to_owned()).collect(),
            seen: "8 threads wait".to_owned(),
            error: None,
        };
        let failed = ScoredRun { error: Some("no server\nhere | there".to_owned()), ..run(false, &[]) };
        let tally = |label, runs: Vec<ScoredRun>| Tally {
            scenario: label,
            label: Some(label),
            flavor: Flavor::Mysql,
            named_first: runs.iter().filter(|run| run.named_first).count(),
            runs,
        };
        let wrong = ["cpu-saturated (warning)", "row-lock-pileup (note)"];
        Score {
            tallies: vec![
                tally(
                    "row-lock-pileup",
                    vec![run(true, &["row-lock-pileup"]), run(false, &wrong), run(false, &wrong)],
                ),
                tally("cpu-throttled", vec![run(true, &["cpu-throttled"]), failed]),
            ],
        }
    }

    #[test]
    fn a_storm_shows_what_each_setting_sustained_and_what_broke() {
        use spindoctor_lab::storm::{Breaks, Failure, StormSetting};
        let round = |rate, in_time, failures: &[(Failure, u64)]| Round {
            rate,
            seconds: 2.0,
            due: 8_000,
            in_time,
            p50_ms: 1.2,
            p99_ms: 12.5,
            failures: failures.iter().copied().collect(),
            threads_created_per_s: 20.0,
            accept_busy_ratio: 0.4,
            clients_cpu_ratio: 0.3,
            idle_cpu_ratio: 0.25,
            ..Round::default()
        };
        let setting = |setting, sustained_per_s, breaks: Option<Breaks>, is_complete, rounds| StormSetting {
            setting,
            options: &[],
            sustained_per_s,
            broken_per_s: breaks.map(|_| 4_000.0),
            breaks,
            is_complete,
            rounds,
        };
        let sent_away = [(Failure::TooManyConnections, 412), (Failure::TimedOut, 7)];
        let sample = Storm {
            server: "MySQL 9.7.4".into(),
            settings: vec![
                setting(
                    "as installed",
                    Some(2_000.0),
                    Some(Breaks::MaxConnections),
                    true,
                    vec![round(2_000.0, 8_000, &[]), round(4_000.0, 7_500, &sent_away)],
                ),
                setting(
                    "back_log 8",
                    None,
                    Some(Breaks::BackLog),
                    true,
                    vec![round(250.0, 0, &[(Failure::QueueFull, 8_000)])],
                ),
                setting("thread_cache_size 0", Some(500.0), None, false, vec![round(500.0, 8_000, &[])]),
            ],
            not_tried: vec!["pool-of-threads"],
        };
        insta::assert_snapshot!(storm(&sample, Look { width: 80, colour: false }));
    }

    #[test]
    fn the_score_counts_what_was_right_and_names_what_was_not() {
        insta::assert_snapshot!(score(&sample(), Look { width: 80, colour: false }));
    }

    #[test]
    fn the_markdown_page_has_a_row_for_each_scenario_and_no_broken_cell() {
        let page = score_markdown(&sample(), Duration::from_secs(10), "a machine", "");
        assert!(page.contains("**2 of 5 runs right: 40 %**"), "{page}");
        assert!(page.contains(
            "| row-lock-pileup | row-lock-pileup | MySQL | 1 | 3 | cpu-saturated (warning), row-lock-pileup (note) (2) |"
        ), "{page}");
        assert!(page.contains("| 1 | 2 | no server here \\| there (1) |"), "{page}");
    }

    #[test]
    fn the_page_in_the_repository_says_what_it_covers() {
        let page = include_str!("../../../../ACCURACY.md");
        let coverage = coverage(&rows_of(page));
        assert!(page.contains(&coverage), "run `make score`, or put this into ACCURACY.md: {coverage}");
        assert!(coverage.contains("of the lab. They are the makers' own"), "{coverage}");
        let readme = include_str!("../../../../README.md");
        assert!(!readme.contains("share of its time that was lost"));
    }

    #[test]
    fn a_lower_bound_is_far_below_a_hundred_percent_for_few_runs() {
        assert!((wilson_lower(7, 7) - 0.6457).abs() < 0.001, "{}", wilson_lower(7, 7));
        assert!((wilson_lower(212, 213) - 0.9739).abs() < 0.001, "{}", wilson_lower(212, 213));
        assert_eq!(wilson_lower(0, 0), 0.0);
    }

    #[test]
    fn runs_are_added_to_those_of_the_same_day_and_machine_and_a_miss_is_no_hundred_percent() {
        let window = Duration::from_secs(10);
        let page = score_markdown(&sample(), window, "a machine", "");
        let again = score_markdown(&sample(), window, "a machine", &page);
        assert!(again.contains("**4 of 10 runs right: 40 %**"), "{again}");
        assert!(
            again.contains("| 2 | 4 | no server here \\| there (1); no server here \\| there (1) |"),
            "{again}"
        );
        assert_eq!(score_markdown(&sample(), window, "another", &page), page.replace("a machine", "another"));
        assert_eq!(share_right(209, 210), "209 of 210 runs right: 99.5 %");
        assert_eq!(share_right(210, 210), "210 of 210 runs right: 100 %");
    }
}
