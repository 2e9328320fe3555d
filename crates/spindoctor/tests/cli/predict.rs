//! `spindoctor predict`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Reading, RecordedSample, Sample, ServerIdentity, ServerVersion};
use spindoctor_record::{Writer, WriterOptions};

use crate::program::{complained, printed};

/// Connections and transactions a second of a server with four CPUs.
const TABLE: &str = "threads tps\n1 10000\n2 19500\n4 36000\n8 37000\n16 36500\n";
const MEASURED: &str = "--server mysql-5.7 --workload reads --measured-on cpus=4,pause=4ns";

#[test]
fn a_quota_is_asked_about_and_what_has_no_ground_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.txt");
    fs::write(&table, TABLE).unwrap();
    let asked = format!("predict --fit {} {MEASURED}", table.display());

    let (json, code) = printed(&format!("{asked} --hardware quota=2 --threads 4,16 --json"));
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["schema"], "spindoctor.predict/1");
    assert_eq!(answer["fit"]["points"].as_array().unwrap().len(), 5);
    let rows = answer["answer"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let (today, proposed) = (&row["today"], &row["proposed"]);
        let ratio =
            proposed["throughput_per_s"].as_f64().unwrap() / today["throughput_per_s"].as_f64().unwrap();
        assert!((0.35..0.8).contains(&ratio), "{row}");
        assert!(proposed["cpus"].as_f64().unwrap() < 2.2, "{row}");
    }

    let (json, code) = printed(&format!("{asked} --hold-out 8 --json"));
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let threads = |points: &serde_json::Value| -> Vec<u64> {
        points.as_array().unwrap().iter().map(|point| point["threads"].as_u64().unwrap()).collect()
    };
    assert_eq!(threads(&answer["fit"]["points"]), [1, 2, 4, 16], "what is held out is not fitted");
    assert_eq!(threads(&answer["held_out"]), [8]);
    assert!(answer["held_out_rms_log_error"].as_f64().unwrap() < 0.2, "{json}");

    for (wrong, says) in [
        ("--hold-out 3", "no measurement at 3"),
        ("--set innodb_io_capacity=1", "does not know"),
        ("--set innodb_log_spin_cpu_pct_hwm=8", "has no"),
        ("--was innodb_sync_spin_loops=many", "not a number"),
    ] {
        let (message, code) = complained(&format!("{asked} {wrong}"));
        assert_eq!(code, 2);
        assert!(message.contains(says), "{message}");
    }
    let (message, code) = complained(&format!("{asked} --hardware cpus=8"));
    assert_eq!(code, 2);
    assert!(message.contains("--assume cpus"), "{message}");
    let (text, code) = printed(&format!("{asked} --hardware cpus=8 --assume cpus --threads 16"));
    assert_eq!(code, 0);
    assert!(text.contains("because you said so"), "{text}");
    let (message, _) =
        complained(&format!("predict --fit {} --measured-on cpus=4,pause=4ns", table.display()));
    assert!(message.contains("--server"), "{message}");
}

#[test]
fn of_several_settings_the_one_that_does_most_is_proposed_and_where_it_does_more_its_trial_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.txt");
    fs::write(&table, TABLE).unwrap();
    let asked = format!("predict --fit {} {MEASURED} --threads 4,16 --json", table.display());
    let (json, code) = printed(&format!("{asked} --set innodb_sync_spin_loops=0,30,200"));
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let compared = answer["compared"].as_array().unwrap();
    assert_eq!(compared.len(), 3);
    let ratio = |one: &serde_json::Value| one["ratio"].as_f64().unwrap();
    assert!(compared.is_sorted_by(|one, other| ratio(one) >= ratio(other)), "{json}");
    let default = compared.iter().find(|one| one["settings"]["spin_loops"] == 30.0).unwrap();
    assert_eq!(ratio(default), 1.0, "what was measured is one");
    assert_eq!(answer["settings"], compared[0]["settings"], "the answer is of the first");
    assert_eq!(compared[0]["rows"].as_array().unwrap().len(), 2);
    assert_eq!(
        compared[0]["rows"][1]["throughput_per_s"],
        answer["answer"]["rows"][1]["proposed"]["throughput_per_s"]
    );
    let trial = answer["trial"].as_str();
    assert_eq!(trial.is_some(), ratio(&compared[0]) >= 1.05, "{json}");
    assert!(trial.is_none_or(|trial| {
        trial.starts_with("spindoctor tune --apply --around --only innodb_sync_spin_loops=")
    }));

    let (json, _) = printed(&asked);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&answer["compared"], &answer["trial"]), (&serde_json::json!([]), &serde_json::Value::Null));
    let (message, code) = complained(&format!("{asked} --set innodb_sync_spin_loops=30,"));
    assert_eq!(code, 2);
    assert!(message.contains("VAR=V1,V2"), "{message}");
    let (message, code) = complained(&format!("{asked} --was quota=2"));
    assert_eq!(code, 2);
    assert!(message.contains("--measured-on"), "{message}");
}

/// A sweep of MySQL 9.7 on a machine of two CPUs (November 2026, point selects, other work beside it), whole and under a quota
/// of one.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../predict/tests/data");
const SWEPT: &str = "--measured-on cpus=2,pause=45ns";

/// Every third number of connections is held out: chosen before anything was fitted. Others are further off: of 2
/// connections, where this server is at its best, the model has a quarter less.
#[test]
fn held_out_points_of_a_sweep_are_within_15_per_cent() {
    let (json, code) =
        printed(&format!("predict --fit {DATA}/point-select-2-cpus.json {SWEPT} --hold-out 3,8,32 --json"));
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let held_out = answer["held_out"].as_array().unwrap();
    assert_eq!(held_out.len(), 3);
    for point in held_out {
        let off = point["model_per_s"].as_f64().unwrap() / point["measured_per_s"].as_f64().unwrap() - 1.0;
        println!("{point}: {off:+.3}");
        assert!(off.abs() <= 0.15, "{point}: {off:+.3}");
    }
}

/// Within 5 % where the quota is what limits; with 2 connections, which hardly meet it, the model has a quarter too much.
#[test]
fn a_quota_of_one_of_two_cpus_is_answered_and_was_measured() {
    let quota = fs::read_to_string(format!("{DATA}/point-select-2-cpus-quota-1.json")).unwrap();
    let measured: serde_json::Value = serde_json::from_str(&quota).unwrap();
    assert_eq!(measured["quota_cpus"], 1.0);
    let (json, code) = printed(&format!(
        "predict --fit {DATA}/point-select-2-cpus.json {SWEPT} --hardware quota=1 --threads 2,8,32 --json"
    ));
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let points = measured["lines"][0]["points"].as_array().unwrap();
    let rows = answer["answer"]["rows"].as_array().unwrap();
    assert_eq!((points.len(), rows.len()), (3, 3));
    for (point, row) in points.iter().zip(rows) {
        assert_eq!(point["threads"], row["threads"]);
        let measured_per_s = point["transactions_per_s"]["median"].as_f64().unwrap();
        let off = row["proposed"]["throughput_per_s"].as_f64().unwrap() / measured_per_s - 1.0;
        println!("{} connections: {off:+.3}", row["threads"]);
        let most = if row["threads"] == 2 { 0.3 } else { 0.15 };
        assert!(off.abs() <= most, "{row}: {off:+.3}");
    }
}

/// A recording of a server with so many sessions at work, and so many statements a second, for a hundred seconds each.
fn recording(folder: &Path, loads: &[(u64, u64)]) -> PathBuf {
    let file = folder.join("db.spindoctor");
    // Its samples are of a day that is long past.
    let keep_for = Duration::from_secs(100 * 365 * 86_400);
    let mut writer =
        Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).expect("a recording");
    let server = ServerIdentity {
        version: ServerVersion::parse("9.7.4", ""),
        version_text: "9.7.4".to_owned(),
        ..ServerIdentity::default()
    };
    let begin: Timestamp = "2026-07-01T09:00:00Z".parse().expect("a time that is written here");
    let segment = writer.begin_segment(begin, server);
    let mut questions = 0;
    for (second, (running, per_s)) in (0..).zip(loads.iter().flat_map(|load| [load; 100])) {
        questions += per_s;
        let at_s = second as f64;
        let mut sample = Sample { at_s, ..Sample::default() };
        let status = [("Threads_running", running + 1), ("Questions", questions), ("Uptime", 1_000 + second)];
        let value: NamedValues = status.map(|(name, value)| (name, value.to_string())).into_iter().collect();
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        if second == 0 {
            let value =
                [("innodb_sync_spin_loops", "30"), ("innodb_spin_wait_delay", "6")].into_iter().collect();
            sample.server.variables = Reading::Available { at_s, took_ms: 1.0, value };
        }
        let at = begin + Duration::from_secs(second);
        writer.write_sample(RecordedSample { at, segment, sample }).expect("room");
    }
    drop(writer);
    file
}

#[test]
fn a_recording_is_fitted_by_how_many_sessions_were_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path(), &[(1, 10_000), (2, 19_500), (4, 36_000), (8, 37_000), (16, 36_500)]);
    let asked = format!("predict --fit {} --measured-on cpus=4,pause=4ns", file.display());
    let (json, code) = printed(&format!("{asked} --hardware quota=2 --json"));
    assert_eq!(code, 0);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let points = answer["fit"]["points"].as_array().unwrap();
    let seen: Vec<_> = points
        .iter()
        .map(|it| (it["threads"].as_u64().unwrap(), it["measured_per_s"].as_f64().unwrap()))
        .collect();
    assert_eq!(seen, [(1, 10_000.0), (2, 19_500.0), (4, 36_000.0), (8, 37_000.0), (16, 36_500.0)], "{json}");
    assert!(answer["recorded"].as_str().unwrap().contains("50 slices of 10 s"), "{json}");
    assert_eq!(answer["ground"]["workload"], "reads");
    let (text, code) = printed(&asked);
    assert_eq!(code, 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("recorded 2026-07-01 09:00:00 UTC to"), "{text}");
    assert!(text.contains("a transaction is one statement"), "{text}");
}

#[test]
fn a_recording_of_an_even_load_is_no_ground() {
    let folder = tempfile::tempdir().unwrap();
    let file = recording(folder.path(), &[(8, 37_000), (9, 37_500)]);
    let (message, code) =
        complained(&format!("predict --fit {} --measured-on cpus=4,pause=4ns", file.display()));
    assert_eq!(code, 2);
    assert!(message.contains("its load is too even") && message.contains("spindoctor sweep"), "{message}");
    // Cut in the middle of its first page.
    let cut = folder.path().join("cut.spindoctor");
    fs::write(&cut, &fs::read(&file).unwrap()[..600]).unwrap();
    let (message, code) =
        complained(&format!("predict --fit {} --measured-on cpus=4,pause=4ns", cut.display()));
    assert_eq!((code, message.trim_end().lines().count()), (2, 1), "{message}");
    assert!(message.contains("cut.spindoctor") && !message.contains("UTF-8"), "{message}");
}
