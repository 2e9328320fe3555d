//! `report` and `export` of a recording: what they print, what they write, and what a browser makes of the page.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{
    Event, EventHead, Probe, Reading, RecordedSample, Sample, ServerIdentity, ServerVersion, Stall, StallKind,
};
use spindoctor_record::{Writer, WriterOptions};

use crate::program::{complained, printed, spindoctor};
use crate::screen::is_installed;

/// A host name that would run a script and turn text around.
const HOSTILE: &str = "db\u{202e}<script>document.title='owned'</script>";

fn at(second: u64) -> Timestamp {
    let begin: Timestamp = "2026-07-01T09:29:00Z".parse().expect("a time that is written here");
    begin + Duration::from_secs(second)
}

/// Ninety seconds of a server whose commits stop from the sixtieth second to the sixty-third.
pub(crate) fn recording(folder: &Path) -> PathBuf {
    let file = folder.join("db.spindoctor");
    // Its samples are of a day that is long past.
    let keep_for = Duration::from_secs(100 * 365 * 86_400);
    let mut writer =
        Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).expect("a recording");
    let server = ServerIdentity {
        version: ServerVersion::parse("9.7.4", ""),
        version_text: "9.7.4".to_owned(),
        hostname: HOSTILE.to_owned(),
        ..ServerIdentity::default()
    };
    let segment = writer.begin_segment(at(0), server);
    let commits = |second: u64| {
        if second > 60 { 60_000 - 1_000 + 1_000 * second.saturating_sub(62).max(1) } else { 1_000 * second }
    };
    for second in 0..90 {
        let at_s = second as f64;
        let mut sample = Sample { at_s, ..Sample::default() };
        let status = [
            ("Handler_commit", commits(second)),
            ("Questions", 5 * commits(second)),
            ("Threads_running", if (60..63).contains(&second) { 200 } else { 9 }),
            ("Uptime", 1_000 + second),
        ];
        let value: NamedValues = status.map(|(name, value)| (name, value.to_string())).into_iter().collect();
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        if second % 30 == 0 {
            let connections = if second == 0 { "151" } else { "1000" };
            let value = [("max_connections", connections), ("sync_binlog", "1")].into_iter().collect();
            sample.server.variables = Reading::Available { at_s, took_ms: 1.0, value };
        }
        writer.write_sample(RecordedSample { at: at(second), segment, sample }).expect("room");
    }
    let head = EventHead {
        id: writer.new_event(),
        segment,
        began: at(60),
        ended: Some(at(63)),
        stall: Stall {
            kind: StallKind::CommitsStopped,
            because: "no commit for 1.1 s while 199 threads run".to_owned(),
            began_s: 60.0,
            seen_s: 61.1,
        },
        ..EventHead::default()
    };
    let probe = |tenth: u32| Probe {
        at_s: 50.0 + f64::from(tenth) / 10.0,
        took_ms: 0.4,
        answered: true,
        threads_running: Some(9),
        ..Probe::default()
    };
    let event = Event { head, probes: (0..130).map(probe).collect(), ..Event::default() };
    writer.write_event(event).expect("room");
    file
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn the_worst_event_is_shown_and_its_page_is_written_where_it_is_wanted() {
    let folder = folder();
    let (file, page) = (recording(folder.path()), folder.path().join("incident.html"));
    let (text, code) = printed(&format!("report {} --html {}", file.display(), page.display()));
    assert_eq!(code, 0);
    assert!(text.starts_with("Commits stopped for 3 s"), "{text}");
    assert!(text.contains("no commit for 1.1 s while 199 threads run"), "{text}");
    assert!(text.contains("max_connections 151 → 1000"), "{text}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("Over time") && page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn the_recordings_of_each_version_are_reported_in_every_form() {
    let folder = folder();
    for version in ["v1", "v2"] {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/tests/recordings");
        // A copy: SQLite makes files beside one that it reads.
        let file = folder.path().join(format!("{version}.spindoctor"));
        std::fs::copy(format!("{kept}/{version}.spindoctor"), &file).expect("a copy");
        let page = folder.path().join("page.html");
        for form in [format!("--html {}", page.display()), "--json".to_owned()] {
            let (text, code) = printed(&format!("report {} {form}", file.display()));
            assert!(code == 0 && text.contains("39 sessions wait for one row"), "{version} {form}: {text}");
        }
        let page = std::fs::read_to_string(page).expect("the page");
        assert!(page.contains("39 sessions wait for one row"), "{page}");
    }
}

#[test]
fn the_time_of_this_machines_clock_stands_beside_utc_for_people_and_not_for_programs() {
    let folder = folder();
    let file = recording(folder.path());
    let page = folder.path().join("page.html");
    let in_zone = |form: &str| {
        let output = spindoctor(&format!("report {} {form}", file.display()))
            .env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
            .output()
            .expect("the program runs");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let text = in_zone(&format!("--html {}", page.display()));
    assert!(text.contains("times are UTC; it began at 09:30:00 UTC (11:30:00 CEST)"), "{text}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("(11:30:00 CEST)"), "{page}");
    let json = in_zone("--json");
    assert!(json.contains("2026-07-01T09:30:00Z") && !json.contains("CEST"), "{json}");
}

#[test]
fn without_a_name_the_page_is_written_here_under_a_plain_one() {
    let folder = folder();
    let file = recording(folder.path());
    let output = spindoctor(&format!("report {}", file.display()))
        .current_dir(folder.path())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(0));
    let note = String::from_utf8_lossy(&output.stderr);
    assert_eq!(note, "page: incident-dbscriptdocumenttitleownedscript-20260701T093000Z.html\n");
    assert!(folder.path().join(note.trim_start_matches("page: ").trim_end()).is_file());
}

#[test]
fn a_stretch_is_shown_with_its_events_and_as_json() {
    let folder = folder();
    let file = recording(folder.path());
    let (json, code) =
        printed(&format!("report {} --from 09:29:30 --to 2026-07-01T09:30:10Z --json", file.display()));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &json["schema"]), (0, &Value::from("spindoctor.incident/1")));
    assert_eq!(json["events"][0]["id"], 1);
    assert_eq!(json["title"], "1 event in 40 s");
    assert!(json["timeline"].as_array().is_some_and(|tracks| tracks.len() >= 4), "{json}");
}

#[test]
fn what_the_recording_does_not_have_is_shown_with_what_it_has() {
    let folder = folder();
    let file = recording(folder.path());
    for (flags, reason) in [
        ("--event 7", "has no event 7; the last is 1"),
        ("--from 2027-01-01T00:00:00Z", "is after --to"),
        ("--from 2025-01-01T00:00:00Z --to 2025-01-02T00:00:00Z", "it reaches from 2026-07-01 09:29:00 UTC"),
    ] {
        let (why, code) = complained(&format!("report {} {flags}", file.display()));
        assert!(code == 2 && why.contains(reason), "{flags}: {why}");
    }
    let (why, code) = complained("report /nonexistent/db.spindoctor");
    assert!(code == 2 && why.lines().count() == 1, "{why}");
}

#[test]
fn every_table_is_exported_and_reads_back() {
    let folder = folder();
    let (file, out) = (recording(folder.path()), folder.path().join("out"));
    let (text, code) = printed(&format!("export {} --out {}", file.display(), out.display()));
    assert_eq!(code, 0);
    let rows = |name: &str| {
        let file = std::fs::File::open(out.join(format!("{name}.parquet"))).expect("the file");
        SerializedFileReader::new(file).expect("Parquet").metadata().file_metadata().num_rows()
    };
    // Four numbers of each status, and how long each answer took.
    assert_eq!(rows("samples"), 90 * 5 + 3);
    assert_eq!((rows("events"), rows("probes"), rows("segments"), rows("gaps")), (1, 130, 1, 0));
    assert_eq!(rows("settings"), 3);
    assert!(text.lines().any(|line| line.starts_with("samples") && line.contains("453 rows")), "{text}");
    let left: Vec<_> = std::fs::read_dir(&out).expect("a folder").filter_map(Result::ok).collect();
    assert!(left.iter().all(|file| !file.file_name().to_string_lossy().ends_with(".partial")));
}

#[test]
fn a_recording_is_laid_out_by_day_and_server_and_a_hostile_name_stays_in_its_folder() {
    let folder = folder();
    let (file, out) = (recording(folder.path()), folder.path().join("history"));
    let line = format!("export {} --out {} --layout dated", file.display(), out.display());
    let (text, code) = printed(&format!("{line} --table events --table samples --table gaps"));
    assert_eq!((code, text.lines().count()), (0, 2), "{text}");
    let day = out.join("events/date=2026-07-01");
    let only = |folder: &Path| {
        let mut entries = std::fs::read_dir(folder).expect("a folder");
        let entry = entries.next().expect("an entry").expect("an entry");
        assert!(entries.next().is_none(), "{}", folder.display());
        entry.path()
    };
    let server = only(&day);
    let name = server.file_name().and_then(|name| name.to_str()).expect("text");
    assert!(name.starts_with("server=db%E2%80%AE%3Cscript%3E"), "{name}");
    let events = std::fs::File::open(only(&server)).expect("the file");
    let events = SerializedFileReader::new(events).expect("Parquet");
    assert_eq!(events.metadata().file_metadata().num_rows(), 1);
    let (why, code) = complained(&format!("{line} --from 09:30"));
    assert!(code == 2 && why.contains("leave --from and --to out"), "{why}");
}

#[test]
fn one_table_of_a_stretch_is_exported_as_csv() {
    let folder = folder();
    let (file, out) = (recording(folder.path()), folder.path().join("events.csv"));
    let line = format!("export {} --out {} --table events", file.display(), out.display());
    assert_eq!(printed(&line).1, 0);
    let csv = std::fs::read_to_string(&out).expect("the file");
    assert!(csv.contains(",2026-07-01T09:30:00.000Z,2026-07-01T09:30:03.000Z,commits_stopped,"), "{csv}");
    assert_eq!(printed(&format!("{line} --to 09:29:30")).1, 0);
    assert_eq!(std::fs::read_to_string(&out).expect("the file").lines().count(), 1);
    let (why, code) = complained(&format!("{line} --table gaps"));
    assert!(code == 2 && why.contains("several tables need a folder"), "{why}");
}

#[test]
fn a_browser_shows_the_incident_and_runs_nothing() {
    if !is_installed("chromium") {
        return;
    }
    let folder = folder();
    let (file, page) = (recording(folder.path()), folder.path().join("incident.html"));
    printed(&format!("report {} --html {}", file.display(), page.display()));
    let browser = |arguments: &[&str]| {
        Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(arguments)
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("chromium runs")
    };
    let dom = browser(&["--dump-dom"]).stdout;
    let dom = String::from_utf8_lossy(&dom);
    assert!(dom.contains("Commits stopped for 3 s") && dom.contains("<polyline"), "{dom}");
    assert!(!dom.contains("<title>owned") && !dom.contains("<script"), "{dom}");
    let picture = folder.path().join("page.png");
    browser(&["--window-size=400,900", &format!("--screenshot={}", picture.display())]);
    assert!(std::fs::read(picture).expect("a picture").starts_with(b"\x89PNG"));
}

#[test]
fn the_help_of_report_is_this() {
    let (help, code) = printed("report --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn the_help_of_export_is_this() {
    let (help, code) = printed("export --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

/// Of a server that looks rows up: eight minutes of each of two days that lie a week apart. On the second day the statement reads a
/// thousand times the rows, and ten sessions are at work in it.
fn two_days(folder: &Path) -> PathBuf {
    use spindoctor_model::mysql::{ServerThread, StatementDigest};
    const LOOKUP: &str = "SELECT `c` FROM `orders` WHERE `k` = ?";
    const WEEK_S: u64 = 7 * 86_400;
    let file = folder.join("days.spindoctor");
    let keep_for = Duration::from_secs(100 * 365 * 86_400);
    let mut writer =
        Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).expect("a recording");
    let segment = writer.begin_segment(at(0), ServerIdentity::default());
    let mut digest = StatementDigest {
        schema: "shop".to_owned(),
        digest: "lookup".to_owned(),
        text: LOOKUP.to_owned(),
        ..StatementDigest::default()
    };
    for (from, rows, running) in [(0, 5, 1), (WEEK_S, 5_000, 10)] {
        for second in 0..480 {
            let at_s = (from + second) as f64;
            let mut sample = Sample { at_s, ..Sample::default() };
            let session = |id: u64| ServerThread {
                connection_id: Some(id),
                command: "Query".to_owned(),
                statement: Some("SELECT c FROM orders WHERE k = ?".to_owned()),
                ..ServerThread::default()
            };
            let value = (20..20 + running).map(session).collect();
            sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value };
            digest.executions += 100;
            digest.rows_examined += 100 * rows;
            digest.rows_sent += 500;
            digest.total_ns += 1_000_000_000 * running;
            if second % 30 == 0 {
                sample.server.digests =
                    Reading::Available { at_s, took_ms: 1.0, value: vec![digest.clone()] };
            }
            writer.write_sample(RecordedSample { at: at(from + second), segment, sample }).expect("room");
        }
    }
    file
}

#[test]
fn a_stretch_is_compared_with_the_same_time_a_week_ago() {
    let folder = folder();
    let file = two_days(folder.path());
    let page = folder.path().join("page.html");
    let asked = "--from 2026-07-08T09:31:00Z --to 2026-07-08T09:35:00Z";
    let (text, code) = printed(&format!("report {} {asked} --html {}", file.display(), page.display()));
    assert_eq!(code, 0);
    let title = "statements that changed, against the same time a week ago (from 2026-07-01";
    let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(title), "{text}");
    assert!(words.contains("reads 1000 times the rows each time, 9 more at work at once"), "{text}");
    assert!(words.contains("against the time before it"), "{text}");
    assert!(words.contains("No statement is new, gone or changed beyond chance."), "{text}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("Statements that changed, against the same time a week ago"), "{page}");
    let (json, _) = printed(&format!("report {} {asked} --json", file.display()));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let week = &json["statements_changed"][1];
    assert_eq!(week["against"], "week_ago", "{week:#}");
    assert_eq!(week["comparison"]["statements"][0]["verdict"], "changed", "{week:#}");
}
