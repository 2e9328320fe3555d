//! `spindoctor workload` on real servers, on recordings and on files.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{ServerSpec, Which};
use spindoctor_model::mysql::{ServerThread, StatementDigest};
use spindoctor_model::{Reading, RecordedSample, Sample, ServerIdentity};
use spindoctor_record::{Writer, WriterOptions};

use crate::lab::{during, in_runtime, on_both, runtime, start};
use crate::program::{complained, json, printed};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };

fn groups<'a>(seen: &'a Value, by: &str) -> Vec<&'a Value> {
    seen["groups"].as_array().expect("a list").iter().filter(|group| group["by"] == by).collect()
}

#[test]
fn the_help_of_workload_is_this() {
    let (help, code) = printed("workload --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}

#[test]
fn what_a_busy_server_runs_is_shown_with_its_panel_its_phases_and_its_cost() {
    for which in [Which::Mysql, Which::Mariadb] {
        let runtime = runtime();
        let spec = ServerSpec { which: which.clone(), tables: Some(TABLES), ..ServerSpec::default() };
        let server = runtime.block_on(start(&spec));
        let load = LoadSpec { workload: Workload::OltpReadWrite, threads: 8, rate: None, tables: TABLES };
        let load = runtime.block_on(async {
            let load = Load::start(server.socket(), load).expect("sysbench");
            // On a starved machine its clients take seconds to connect.
            let begun = Instant::now();
            while load.since(begun).is_none() {
                assert!(begun.elapsed() < Duration::from_secs(30), "{which:?}: sysbench reports nothing");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            load
        });
        let line =
            format!("workload -u root -S {} --no-defaults --duration 6s --json", server.socket().display());
        if which == Which::Mysql {
            // A server whose owner wants to know what its threads wait for.
            let keep = "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_waits_current'";
            runtime.block_on(server.execute([keep])).expect("a switch");
        }
        let seen = std::thread::scope(|scope| {
            let run = |statements: &'static [&'static str]| {
                in_runtime(server.execute(statements.iter().copied())).expect("it runs");
            };
            scope.spawn(move || run(&["DO GET_LOCK('held', 0)", "DO SLEEP(5)"]));
            // Somebody who waits for it for four seconds and more, with a tag: an overloaded machine samples rarely.
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                run(&["SELECT GET_LOCK('held', 4.5), 'secret' /*route='%2Fcart'*/"]);
            });
            // Work inside the server: sysbench's clients are quick, and are at work only while the machine lets them. It ends by
            // itself, so that a command that fails is shown at once.
            let until = Instant::now() + Duration::from_secs(7);
            scope.spawn(move || {
                while Instant::now() < until {
                    run(&["DO BENCHMARK(300000, SHA2('x', 512))"]);
                }
            });
            json(&line)
        });
        runtime.block_on(load.stop());
        assert_eq!(seen["schema"], "spindoctor.workload/1");
        assert!(seen["samples"].as_u64().is_some_and(|looks| looks >= 4), "{which:?}: {seen:#}");
        let digests = groups(&seen, "digest");
        assert!(
            digests.iter().any(|group| group["key"].as_str().is_some_and(|key| key.contains("sbtest"))),
            "{seen:#}"
        );
        let total: f64 = digests.iter().filter_map(|group| group["share"].as_f64()).sum();
        assert!((total - 1.0).abs() < 1e-6, "{which:?}: {total}");
        let users = groups(&seen, "user");
        // How many of the load's eight are seen at once is the machine's.
        for user in ["app", "root"] {
            assert!(users.iter().any(|group| group["key"] == user), "{which:?}: {users:#?}");
        }
        assert!(
            groups(&seen, "tag").iter().any(|group| group["key"] == "route=/cart"),
            "{which:?}: {seen:#}"
        );
        // MySQL shows the event, MariaDB the state.
        let wait = if which == Which::Mysql { "lock/metadata/sql/mdl" } else { "user lock" };
        assert!(groups(&seen, "wait").iter().any(|group| group["key"] == wait), "{which:?}: {seen:#}");
        let slowest = &seen["slowest"][0];
        assert!(
            slowest["ran_ms"].as_f64().is_some_and(|ms| (500.0..6_000.0).contains(&ms)),
            "{which:?}: {slowest}"
        );
        assert!(!seen.to_string().contains("secret"), "{which:?}: a literal is shown");
        let rows =
            seen["panel"].as_array().expect("a panel").iter().find(|line| line["reading"] == "rows read");
        assert!(
            rows.and_then(|line| line["value"].as_f64()).is_some_and(|rows| rows > 1_000.0),
            "{which:?}: {seen:#}"
        );
        assert!(seen["cost"]["server_cpu_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{which:?}: {seen:#}");
        assert_eq!(seen["cost"]["threads_stopped"], 0, "{which:?}: {seen:#}");
        // Without the right to examine the process, the reason is shown.
        let split = &seen["inside_statements"];
        match rustix::process::geteuid().is_root() {
            true => {
                assert!(split["seen"].as_u64().is_some_and(|seen| seen > 0), "{which:?}: {seen:#}");
                // One session computes all the time, and two wait; a look takes one of the CPUs.
                assert!(split["on_cpu"].as_f64().is_some_and(|share| share > 0.02), "{which:?}: {seen:#}");
            }
            false => assert!(split.is_object() || !seen["not_known"][0].is_null(), "{which:?}: {seen:#}"),
        }
    }
}

#[test]
fn what_a_replica_applies_is_shown_by_table_event_and_wait() {
    on_both(|which| {
        let (server, kind) = if which == Which::Mysql { ("mysql", "row update") } else { ("mariadb", "") };
        let output = during("replica-lag", server, "workload --replica --duration 4s --json");
        let (text, notes) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{server}: {text}{notes}");
        let seen: Value = serde_json::from_str(&text).expect("JSON");
        let channel = &seen["replica"][0];
        assert_eq!(channel["shape"], "lagging by itself", "{server}: {seen:#}");
        let rate = |name: &str| channel[name].as_f64().expect("a rate");
        assert!(rate("received_bytes_per_s") > rate("applied_bytes_per_s"), "{server}: {channel:#}");
        let table = groups(&seen, "table");
        assert!(table[0]["key"].as_str().is_some_and(|key| key.ends_with("plain")), "{server}: {seen:#}");
        let types = groups(&seen, "type");
        assert!(types[0]["key"].as_str().is_some_and(|key| key.contains(kind)), "{server}: {seen:#}");
        assert!(
            seen["findings"]
                .as_array()
                .is_some_and(|found| found.iter().any(|f| f["cause"] == "replica-lag")),
            "{server}: {seen:#}"
        );
    });
}

/// A stall in which the recorder looked 2.7 times a second, in a calm with a look a second: counted by looks there would be 8.1
/// statements at once, where there were 5.9.
#[test]
fn a_recording_is_counted_by_time_and_not_by_looks() {
    const STALL: std::ops::Range<i64> = 17_000..43_000;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("db.spindoctor");
    let keep_for = Duration::from_secs(100 * 365 * 86_400);
    let mut writer =
        Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).expect("a recording");
    let begin: Timestamp = "2026-07-01T09:29:00Z".parse().expect("a time that is written here");
    let segment = writer.begin_segment(begin, ServerIdentity::default());
    let calm = (0..60).map(|second| second * 1_000).filter(|ms| !STALL.contains(ms));
    // 27 looks in ten seconds, at least one in each.
    let stall = (0..70).map(|look| 17_000 + look * 10_000 / 27);
    let mut looks: Vec<i64> = calm.chain(stall).collect();
    looks.sort_unstable();
    let (mut all, mut at_once) = (0, 0);
    for ms in looks {
        let running = if STALL.contains(&ms) { 11 } else { 2 };
        (all, at_once) = (all + 1, at_once + running);
        let thread = |id: u64| ServerThread {
            connection_id: Some(id),
            is_connection: true,
            command: "Query".to_owned(),
            statement: Some("UPDATE t SET a = ?".to_owned()),
            ..ServerThread::default()
        };
        let at_s = ms as f64 / 1_000.0;
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.threads =
            Reading::Available { at_s, took_ms: 1.0, value: (1..=running).map(thread).collect() };
        let at = begin + Duration::from_millis(ms.unsigned_abs());
        writer.write_sample(RecordedSample { at, segment, sample }).expect("room");
    }
    drop(writer);
    let by_looks = f64::from(u32::try_from(at_once).expect("few")) / f64::from(all);
    assert_eq!((by_looks * 10.0).round(), 81.0);
    let seen = json(&format!("workload --recording {} --json", file.display()));
    assert_eq!(seen["statements_at_once"], 5.9, "{seen:#}");
}

/// Twenty minutes: a lookup reads three rows each time for ten, and then the whole table; an update goes on as it was.
#[test]
fn two_parts_of_a_recording_are_compared_by_statement() {
    const LOOKUP: &str = "SELECT `c` FROM `orders` WHERE `k` = ?";
    const UPDATE: &str = "UPDATE `orders` SET `c` = ? WHERE `id` = ?";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("db.spindoctor");
    let keep_for = Duration::from_secs(100 * 365 * 86_400);
    let mut writer =
        Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).expect("a recording");
    let begin: Timestamp = "2026-07-01T09:00:00Z".parse().expect("a time that is written here");
    let segment = writer.begin_segment(begin, ServerIdentity::default());
    let mut digests = [LOOKUP, UPDATE].map(|text| StatementDigest {
        schema: "shop".into(),
        digest: text.len().to_string(),
        text: text.into(),
        executions: 1_000_000,
        ..StatementDigest::default()
    });
    let mut rng = fastrand::Rng::with_seed(5);
    for second in 0..1_200_u64 {
        let is_slow = second >= 600;
        let lookups = 40 + rng.u64(0..20);
        let (each_ns, rows) = if is_slow { (60_000_000, 30_000) } else { (200_000, 3) };
        let updates = 90 + rng.u64(0..20);
        for (digest, (ran, each_ns, rows)) in
            digests.iter_mut().zip([(lookups, each_ns, rows), (updates, 4_000_000, 1)])
        {
            digest.executions += ran;
            digest.total_ns += ran * each_ns * rng.u64(80..120) / 100;
            digest.rows_examined += ran * rows;
            digest.rows_sent += ran;
        }
        let thread = |(id, text): (u64, &str)| ServerThread {
            connection_id: Some(id),
            is_connection: true,
            command: "Query".to_owned(),
            statement: Some(text.to_owned()),
            ..ServerThread::default()
        };
        let lookups = if is_slow { rng.usize(2..5) } else { 0 };
        let running = (0..lookups)
            .map(|_| "select c from orders where k = ?")
            .chain((rng.f64() < 0.4).then_some("update orders set c = ? where id = ?"));
        let at_s = second as f64;
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.threads =
            Reading::Available { at_s, took_ms: 1.0, value: (1..).zip(running).map(thread).collect() };
        if second.is_multiple_of(30) {
            sample.server.digests = Reading::Available { at_s, took_ms: 1.0, value: digests.to_vec() };
        }
        let at = begin + Duration::from_secs(second);
        writer.write_sample(RecordedSample { at, segment, sample }).expect("room");
    }
    drop(writer);
    let part = |from_to: &str| format!("{}@{from_to}", file.display());
    let line = format!("workload --diff {} {}", part("09:00..09:09:59"), part("09:10..09:19:59"));
    let seen = json(&format!("{line} --json"));
    assert_eq!(
        (seen["schema"].as_str(), seen["changed"].as_u64()),
        (Some("spindoctor.workload-diff/1"), Some(1))
    );
    let first = &seen["statements"][0];
    assert_eq!(first["statement"].as_str(), Some(LOOKUP), "{seen:#}");
    assert!(first["reads_other_rows"] == true && first["verdict"] == "changed", "{first:#}");
    let times = first["rows_read_each"]["times"].as_f64().expect("a factor");
    assert!((times - 10_000.0).abs() < 1.0, "{times}");
    let (text, code) = printed(&line);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("reads 10,000 times the rows each time"), "{text}");

    // A calm time against a calm one, and a saved one against the recording.
    let saved = folder.path().join("calm.json");
    let (said, code) =
        printed(&format!("workload --recording {} --to 09:05 --save {}", file.display(), saved.display()));
    assert_eq!(code, 0, "{said}");
    let seen = json(&format!("workload --diff {} {} --json", saved.display(), part("09:05..09:09:59")));
    assert_eq!(seen["changed"].as_u64(), Some(0), "{seen:#}");
    let (text, _) = printed(&format!("workload --diff {} {}", saved.display(), part("09:05..09:09:59")));
    assert!(text.starts_with("No "), "{text}");
}

/// A live server before and after its index is hidden: on both, with their own words for that.
#[test]
fn a_plan_that_changed_is_named_by_two_looks_at_a_live_server() {
    on_both(|which| {
        let hide = if which == Which::Mysql { "INVISIBLE" } else { "IGNORED" };
        let spec = ServerSpec {
            which: which.clone(),
            tables: Some(TABLES),
            options: vec!["--performance-schema=ON".to_owned()],
            ..ServerSpec::default()
        };
        let server = in_runtime(start(&spec));
        let folder = tempfile::tempdir().expect("a folder");
        let saved = folder.path().join("before.json.gz");
        let look =
            format!("-u root -S {} --no-defaults --no-stacks --duration 6s", server.socket().display());
        let hide = format!("ALTER TABLE sbtest.sbtest1 ALTER INDEX k_1 {hide}");
        let is_over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            for statement in [
                "SELECT c FROM sbtest.sbtest1 WHERE k = 5000",
                "UPDATE sbtest.sbtest2 SET k = k + 1 WHERE id = 7",
            ] {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || {
                    in_runtime(async {
                        while !is_over.load(Ordering::Relaxed) {
                            server.execute([statement; 200]).await.expect("it runs");
                        }
                    });
                });
            }
            let (before, code) = printed(&format!("workload {look} --save {}", saved.display()));
            let hidden = in_runtime(server.execute([hide.as_str()]));
            let (text, _) = printed(&format!("workload {look} --diff {} --json", saved.display()));
            // Before anything may panic: the sessions end with the scope.
            is_over.store(true, Ordering::Relaxed);
            hidden.expect("the index is hidden");
            assert_eq!(code, 0, "{which:?}: {before}");
            serde_json::from_str::<Value>(&text).expect("JSON")
        });
        let first = &seen["statements"][0];
        assert!(
            first["statement"].as_str().is_some_and(|text| text.contains("sbtest1")),
            "{which:?}: {seen:#}"
        );
        assert_eq!(first["verdict"], "changed", "{which:?}: {seen:#}");
        assert_eq!(first["reads_other_rows"], true, "{which:?}: {seen:#}");
        assert!(
            first["scanning_share"]["after"].as_f64().is_some_and(|share| share > 0.9),
            "{which:?}: {first:#}"
        );
        let all = std::fs::read(&saved).expect("it is there");
        assert!(all.starts_with(&[0x1f, 0x8b]), "{which:?}: {} bytes are not packed", all.len());
    });
}

#[test]
fn a_captured_file_shows_shares_and_the_slowest_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("replication-sample");
    let mut file = std::fs::File::create(&path).expect("it can be made");
    for at in 0..100 {
        let line = match at {
            0..60 => "UPDATE big SET a = 1 WHERE b = 'x'".to_owned(),
            _ => format!("INSERT INTO small VALUES ({at}) /* feature=likes */"),
        };
        writeln!(file, "{line}").expect("it can be written");
    }
    let line = |rest: &str| format!("workload --file {} {rest}", path.display());
    let seen = json(&line("--replica --json"));
    assert_eq!((seen["samples"].as_u64(), seen["groups"][0]["share"].as_f64()), (Some(100), Some(0.6)));
    assert_eq!(groups(&seen, "table")[0]["key"], "big");
    // Sixty looks in a row are one statement that ran for six seconds.
    assert_eq!(seen["slowest"][0]["ran_ms"].as_f64().map(f64::round), Some(5_900.0));
    let liked = json(&line("--grep feature=likes --json"));
    assert_eq!(liked["matching_share"].as_f64(), Some(0.4));
    let (text, code) = printed(&line("--by tag"));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("time by tag") && text.contains("feature=likes"), "{text}");
    assert!(!text.contains("time by statement"), "{text}");
}

#[test]
fn what_cannot_be_read_is_shown_with_exit_2() {
    for (line, reason) in [
        ("workload --file /nonexistent/sample", "could not open"),
        ("workload --file /dev/null", "has no process list"),
        ("workload --recording /nonexistent/spindoctor.rec", "/nonexistent/spindoctor.rec"),
        ("workload -S /nonexistent/mysqld.sock --no-defaults", "/nonexistent/mysqld.sock"),
        ("workload --file x --recording y", "cannot be used with"),
        ("workload --by nothing", "invalid value"),
        ("workload --grep (", "unclosed"),
        ("workload --diff /nonexistent/a /dev/null", "could not read /nonexistent/a"),
        ("workload --diff /dev/null /dev/null", "has no process list"),
        ("workload --diff /etc/hostname@09:00..09:10 /dev/null", "is not a recording"),
        ("workload --diff a@soon..later b", "09:30"),
        ("workload --diff a --recording b", "cannot be used with"),
        ("workload --save /nonexistent/a.json --file /dev/null", "/nonexistent/a.json cannot be written"),
        ("workload --save a.csv --file /dev/null", "ends in .csv"),
    ] {
        let (message, code) = complained(line);
        assert_eq!(code, 2, "{line}: {message}");
        assert!(message.contains(reason), "{line}: {message}");
    }
}
