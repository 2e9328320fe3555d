//! The output of the lab: its lists, and a scenario's run.

use std::path::PathBuf;

use spindoctor_lab::experiment::Experiment;
use spindoctor_lab::scenario::{RunOutcome, Scenario};
use spindoctor_lab::storm::{self, Round, Storm};
use spindoctor_lab::{Known, Listed};
use spindoctor_model::Tuning;

use crate::doctor::text as doctor_text;
use crate::tune::text;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, Page, QUIET, STRONG, one_line};

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
        page.push(&format!("    mysql -h 127.0.0.1 -P {} -u spindoctor -pspindoctor", server.port));
        if server.stays {
            page.push(&format!("    spindoctor lab down {}", server.name));
        }
    }
    page.finish()
}

/// The servers that can be had by name, each with the folder that it is in, or where it would come from.
pub fn known(servers: &[(&Known, Option<PathBuf>)], look: Look) -> String {
    let mut page = Page::new(look);
    for (known, folder) in servers {
        let version = format!("{} {}", known.flavor, known.version);
        let place = match folder {
            Some(folder) => format!("in {}", safe(&folder.display().to_string())),
            None => format!("not installed; {}", known.origin()),
        };
        let also = known.also.map_or_else(String::new, |also| format!(" (also: {also})"));
        // Folders and coordinates are for copying: never broken over two lines.
        page.push(&format!("{:<14}{version:<17}{place}{also}", known.name));
    }
    let mut missing: Vec<&str> =
        servers.iter().filter(|(_, folder)| folder.is_none()).map(|(known, _)| known.needs()).collect();
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        page.blank();
        page.paragraph(
            "",
            "`spindoctor lab install NAME` installs one; `--server NAME` does so when it is first used.",
            QUIET,
        );
        for needs in missing {
            page.paragraph("", needs, QUIET);
        }
    }
    page.finish()
}

fn line(server: &Listed) -> String {
    let mut parts = vec![server.version.to_string()];
    parts.push(server.pid.map_or("not running".to_owned(), |pid| format!("pid {pid}")));
    // Root is let in by the socket alone.
    parts.push(format!("port {} for user spindoctor with password spindoctor", server.port));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_up_is_listed_with_the_account_that_its_port_lets_in() {
        let server = Listed {
            name: "mysql".to_owned(),
            version: spindoctor_model::ServerVersion::parse("9.7.4", "").unwrap(),
            pid: Some(4310),
            socket: PathBuf::from("/tmp/lab/mysql/sock"),
            port: 21_306,
            data: PathBuf::from("/tmp/lab/mysql/data"),
            quota_cpus: None,
            started: jiff::Timestamp::UNIX_EPOCH,
            stays: true,
        };
        let text = lists(&[], &[], &[server], Look::of_file());
        let words = one_line(&text);
        assert!(words.contains("port 21306 for user spindoctor with password spindoctor"), "{text}");
        let by_socket = "    spindoctor doctor -u root -S /tmp/lab/mysql/sock";
        let over_tcp = "    mysql -h 127.0.0.1 -P 21306 -u spindoctor -pspindoctor";
        for command in [by_socket, over_tcp, "    spindoctor lab down mysql"] {
            assert!(text.lines().any(|line| line == command), "{text}");
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
}
