//! Windows recorded from real servers with a known cause, through every rule.
//!
//! `tests/windows/CAUSE.WHATEVER.json[.gz]`: the name up to the first dot is the cause that must come
//! first; `healthy` is a server about which nothing above a note may be said. `spindoctor lab run
//! SCENARIO --save-window FILE` makes them.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files fails")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;
use spindoctor_model::{About, Finding, Sample, Severity, Unavailable, Window};
use spindoctor_rules::proposals::{FAMILIES, plan};
use spindoctor_rules::{CAUSES, diagnose};

#[derive(Deserialize)]
struct Stored {
    window: Window,
}

/// Every recorded window with the label in its name.
fn recorded() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/windows");
    let mut files: Vec<(String, PathBuf)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            let (label, rest) = name.split_once('.')?;
            (rest.ends_with("json") || rest.ends_with("json.gz")).then(|| (label.to_owned(), path))
        })
        .collect();
    files.sort();
    files
}

fn load(path: &Path) -> Window {
    let bytes = fs::read(path).unwrap();
    let mut json = Vec::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut json).unwrap();
    } else {
        json = bytes;
    }
    serde_json::from_slice::<Stored>(&json).unwrap().window
}

/// Recorded while other programs had most of the machine's two CPUs (1.4 to 1.9, by /proc/stat): that and the label come first, as
/// the sessions lose more by one or the other.
const BESIDE_OTHER_WORK: &[&str] = &[
    "index-lock.mysql-9.7.json.gz",
    "large-commit.mariadb-10.11.json.gz",
    "large-commit.mysql-9.7.json.gz",
    "purge-lag.mariadb-10.11.json.gz",
    "rows-read-waste.prepared-mysql-5.6.json.gz",
    "rows-read-waste.prepared-mysql-5.7.json.gz",
    "rows-read-waste.prepared-mysql-8.0.33.json.gz",
    "rows-read-waste.prepared-mysql-9.7.json.gz",
];

/// Numbers of five and more digits that a sentence has without separators. What names something is no number: a connection, a
/// thread, and a word of a statement or a setting.
fn ungrouped(sentence: &str) -> Vec<&str> {
    const NAMED_BY: [&str; 6] = ["connection", "thread", "pid", "process", "id", "is"];
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let is_name = |before: &str| NAMED_BY.contains(&before.to_ascii_lowercase().as_str());
    let numbers = words.iter().enumerate().filter(|(at, _)| *at == 0 || !is_name(words[at - 1]));
    numbers
        .map(|(_, word)| word.trim_matches(|c: char| ",.;:()".contains(c)))
        .filter(|word| word.len() >= 5 && word.chars().all(|c| c.is_ascii_digit()))
        .collect()
}

/// Sentences of a diagnosis with such numbers.
fn sentences_with_ungrouped_numbers(findings: &[Finding]) -> Vec<String> {
    let said = |finding: &Finding| {
        let remedies = finding.remedies.iter().flat_map(|remedy| [remedy.why.clone(), remedy.risk.clone()]);
        remedies.chain([finding.headline.clone(), finding.why.clone()]).collect::<Vec<_>>()
    };
    let sentences =
        findings.iter().flat_map(|finding| said(finding).into_iter().map(|one| (&finding.cause, one)));
    sentences
        .filter(|(_, sentence)| !ungrouped(sentence).is_empty())
        .map(|(cause, sentence)| format!("{cause}: {sentence}"))
        .collect()
}

#[test]
fn a_number_without_thousands_apart_is_found() {
    assert_eq!(ungrouped("Connection 12345 reads 200000 rows, 20,000 at once (99999)"), ["200000", "99999"]);
}

/// And in sentences whose numbers have their thousands apart.
#[test]
fn every_recorded_window_is_diagnosed_as_its_label_says() {
    let mut wrong = Vec::new();
    for (label, path) in recorded() {
        let diagnosis = diagnose(&load(&path));
        wrong.extend(sentences_with_ungrouped_numbers(&diagnosis.findings));
        let found: Vec<(&str, Severity)> =
            diagnosis.findings.iter().map(|finding| (finding.cause.as_str(), finding.severity)).collect();
        let beside_others = BESIDE_OTHER_WORK.iter().any(|name| path.ends_with(name));
        let right = match label.as_str() {
            "healthy" => found.iter().all(|(_, severity)| *severity == Severity::Note),
            label if beside_others => {
                let first: Vec<&str> = found.iter().take(2).map(|(cause, _)| *cause).collect();
                first.contains(&"noisy-neighbour") && first.contains(&label)
            }
            label => found.first().is_some_and(|(cause, _)| *cause == label),
        };
        if !right {
            wrong.push(format!("{}: {found:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_missing_source_makes_no_finding_and_clears_no_cause_that_was_found() {
    // A thousand diagnoses: on all CPUs.
    let (all, next) = (recorded(), AtomicUsize::new(0));
    let look = || {
        while let Some((label, path)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            nothing_is_made_of_a_missing_source(label, path);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(look);
        }
    });
}

fn nothing_is_made_of_a_missing_source(label: &str, path: &Path) {
    let whole = load(path);
    let found = diagnose(&whole).findings;
    let known: Vec<&str> = found.iter().map(|finding| finding.cause.as_str()).collect();
    let weighty = |findings: &[Finding]| -> Vec<String> {
        let above_note = findings.iter().filter(|finding| finding.severity > Severity::Note);
        above_note.map(|finding| finding.cause.clone()).collect()
    };
    let explaining = weighty(&found);
    // What was never read there cannot be taken away.
    let read: BTreeSet<&str> = whole
        .samples
        .iter()
        .flat_map(|sample| sample.readings().filter(|(_, reading)| reading.value().is_some()))
        .map(|(about, _)| about.kept)
        .collect();
    for About { kept: source, .. } in Sample::about_readings() {
        if !read.contains(source) {
            continue;
        }
        let mut window = whole.clone();
        for sample in &mut window.samples {
            sample.change_readings(|about, reading| {
                if about.kept == *source {
                    reading.forget();
                    reading.fail(Unavailable::because("taken away"));
                }
            });
        }
        let diagnosis = diagnose(&window);
        // What a rule explained, and cannot any more or calls a note, is a wait without a name.
        let still = weighty(&diagnosis.findings);
        let is_left_over =
            |cause: &str| cause == "unnamed-wait" && !explaining.iter().all(|cause| still.contains(cause));
        // Whose a queue for the CPUs is goes by the server's part of them. Its own clock counts ticks, those of its threads count
        // nanoseconds: near a half the two do not agree, and the same queue has the other name.
        let is_same_queue = |cause: &str| {
            const OF_QUEUE: [&str; 2] = ["cpu-saturated", "noisy-neighbour"];
            *source == "host.threads"
                && OF_QUEUE.contains(&cause)
                && OF_QUEUE.iter().any(|other| known.contains(other))
        };
        let new = diagnosis.findings.iter().find(|finding| {
            finding.severity > Severity::Note
                && !known.contains(&finding.cause.as_str())
                && !is_left_over(&finding.cause)
                && !is_same_queue(&finding.cause)
        });
        assert!(new.is_none(), "{} without {source}, where {known:?} were known: {new:?}", path.display());
        assert!(
            !diagnosis.clear.iter().any(|clear| clear == label),
            "{} without {source} is clear",
            path.display()
        );
    }
}

/// Causes that no machine of two CPUs can make: on one, MySQL 9.7 commits no fewer updates with no spin at all. Latches that are waited for without an end: that is a server's bug, or one of its storage. And queues for a lock of
/// the kernel and for a mutex or latch of InnoDB's, which want more CPUs than two.
/// What wants two memory nodes, or a control group that is short of memory while nothing is swapped.
const NOT_RECORDED: &[&str] = &[
    "spin-too-short",
    "latch-pileup",
    "kernel-contention",
    "adaptive-hash-contention",
    "rollback-segment-contention",
    "transaction-system-contention",
    "buffer-pool-latch-contention",
    "numa-imbalance",
    "memory-pressure",
];

#[test]
fn every_cause_and_a_healthy_server_were_recorded() {
    let labels: BTreeSet<String> = recorded().into_iter().map(|(label, _)| label).collect();
    let names = CAUSES.iter().map(|cause| cause.name).filter(|name| !NOT_RECORDED.contains(name));
    for name in names.chain(["healthy"]) {
        assert!(labels.contains(name), "no window of {name} in tests/windows");
    }
}

#[test]
fn a_recorded_cause_that_a_setting_cures_gets_it_and_a_healthy_server_gets_none() {
    for (label, path) in recorded() {
        let plan = plan(&load(&path));
        let proposed: Vec<&str> = plan.proposals.iter().map(|proposal| proposal.family.as_str()).collect();
        if label == "healthy" {
            assert!(proposed.is_empty(), "{}: {:#?}", path.display(), plan.proposals);
        }
        for family in FAMILIES.iter().filter(|family| family.cures.contains(&label.as_str())) {
            assert!(proposed.contains(&family.name), "{}: {proposed:?}, {:#?}", path.display(), plan.left);
        }
        let families = FAMILIES.iter().filter(|family| {
            proposed.contains(&family.name) != plan.left.iter().any(|left| left.family == family.name)
        });
        assert_eq!(families.count(), FAMILIES.len(), "{}: a family is silent or says both", path.display());
    }
}

/// CPU that the server used between the first and the last sample for each count of a status variable, microseconds.
fn cpu_us_each(file: &str, counter: &str) -> f64 {
    let window = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/windows").join(file));
    let process = window.change(|sample| &sample.host.process).unwrap();
    let used_us = |stat: &spindoctor_model::host::ProcessStat| (stat.user_us + stat.system_us) as f64;
    let per_s = window.status_per_s(counter).unwrap();
    (used_us(process.last) - used_us(process.first)) / process.seconds / per_s
}

#[test]
fn what_work_costs_is_what_the_recorded_windows_show() {
    let is_about = |us: f64, expected_us: f64, what: &str| {
        println!("{what}: {us:.3} us");
        assert!(
            (us / expected_us - 1.0).abs() < 0.1,
            "{what}: {us:.3} us, the rule's comment says {expected_us}"
        );
    };
    let login = |server: &str| cpu_us_each(&format!("connection-churn.{server}.json.gz"), "Connections");
    let without_cache =
        |server: &str| cpu_us_each(&format!("thread-cache-miss.{server}.json.gz"), "Connections");
    let row =
        |server: &str| cpu_us_each(&format!("rows-read-waste.{server}.json.gz"), "Handler_read_rnd_next");
    let table =
        |server: &str| cpu_us_each(&format!("table-cache-contention.{server}.json.gz"), "Opened_tables");
    let (mysql, mariadb) = ("mysql-9.7", "mariadb-10.11");
    is_about(login(mysql), 200.0, "a login, MySQL");
    is_about(login(mariadb), 110.0, "a login, MariaDB");
    is_about(without_cache(mysql) - login(mysql), 120.0, "a thread, MySQL");
    is_about(without_cache(mariadb) - login(mariadb), 40.0, "a thread, MariaDB");
    is_about(row(mysql), 1.0 / 11.0, "a row, MySQL");
    is_about(row(mariadb), 1.0 / 15.0, "a row, MariaDB");
    is_about(table(mysql), 42.0, "a table, MySQL");
    is_about(table(mariadb), 39.0, "a table, MariaDB");
}

/// Where keys are data: names of variables, of counters.
const MAPS: [&str; 3] = ["server.status.value", "server.variables.value", "server.innodb_metrics.value"];

/// Adds the names of all that stands in a value, each with those that lead to it: `server.threads.value[].user`.
fn add_names(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if MAPS.contains(&path) { "*" } else { name };
                // The name of a reading's only choice that holds something.
                let path = match (name, path) {
                    ("available" | "unavailable", _) => path.to_owned(),
                    (_, "") => name.to_owned(),
                    _ => format!("{path}.{name}"),
                };
                add_names(value, &path, names);
            }
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| add_names(element, &format!("{path}[]"), names));
        }
        _ => drop(names.insert(path.to_owned())),
    }
}

#[test]
fn names_in_json_and_in_recordings_stay_as_they_are() {
    let mut names = BTreeSet::new();
    for (_, path) in recorded() {
        for sample in load(&path).samples {
            add_names(&serde_json::to_value(sample).unwrap(), "", &mut names);
        }
    }
    let readings = Sample::about_readings().map(|about| {
        let About { kept, exported, .. } = about;
        format!("{kept} in a sample and in costs, {exported} in exports")
    });
    let names: Vec<String> = readings.chain(names).collect();
    insta::assert_snapshot!(names.join("\n"));
}
