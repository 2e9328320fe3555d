//! `sweep` with real servers and real clients.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spindoctor_lab::{ServerSpec, Which};

use crate::lab::{runtime, start, with_lab};
use crate::program::printed;

/// For what is not promised, on a machine that is on its knees.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program, with what the lab and sysbench need, and a folder for its journals and runs: not that of the person who
/// works on this machine.
fn sweep(state: &Path, line: &str) -> assert_cmd::Command {
    let mut command = with_lab(&format!("sweep --no-defaults {line}"));
    command.env("XDG_STATE_HOME", state);
    command
}

fn runs_in(file: &Path) -> usize {
    // The first line says what they were made with.
    fs::read_to_string(file).unwrap_or_default().matches('\n').count().saturating_sub(1)
}

#[test]
fn a_sweep_that_is_killed_goes_on_with_the_runs_that_are_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("runs.jsonl");
    let line = format!(
        "--set innodb_sync_spin_loops=30,60 --threads 1,2 --runs 1 --seconds 1 --warmup 1 --tables 4 --json --resume {}",
        file.display()
    );
    let asked = sweep(folder.path(), &line);
    let mut killed = Command::new(asked.get_program())
        .args(asked.get_args())
        .env_clear()
        .envs(asked.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    let begun = Instant::now();
    while runs_in(&file) < 2 {
        assert!(begun.elapsed() < PATIENCE, "{} runs", runs_in(&file));
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let before = fs::read_to_string(&file).expect("it is there");
    let kept = runs_in(&file);

    let output = sweep(folder.path(), &line).output().expect("the program runs");
    let notes = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(notes.contains(&format!("{} of 4 runs to make", 4 - kept)), "{notes}");
    assert!(fs::read_to_string(&file).expect("it is there").starts_with(&before));
    let sweep: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(sweep["schema"], "spindoctor.sweep/1");
    assert_eq!(sweep["cells"].as_array().map(Vec::len), Some(4));
    for line in sweep["lines"].as_array().expect("a list") {
        for point in line["points"].as_array().expect("a list") {
            for quantity in ["transactions_per_s", "p95_ms", "cpu_us_per_query"] {
                assert!(point[quantity]["median"].as_f64().is_some_and(|median| median > 0.0), "{point}");
            }
        }
    }
}

#[test]
fn a_server_that_is_named_is_swept_when_it_is_meant_and_has_its_settings_back() {
    let runtime = runtime();
    let spec = ServerSpec { which: Which::Mariadb, ..ServerSpec::default() };
    let server = runtime.block_on(start(&spec));
    let folder = tempfile::tempdir().expect("a folder");
    let said = |line: &str| {
        let output = sweep(folder.path(), &format!("-u root -S {} {line}", server.socket().display()))
            .output()
            .expect("the program runs");
        (String::from_utf8_lossy(&output.stderr).into_owned(), output)
    };

    let (why, output) = said("--threads 2");
    assert!(output.status.code() == Some(2) && why.contains("--yes-this-server"), "{why}");
    let (why, output) = said("--threads 2 --yes-this-server");
    assert!(output.status.code() == Some(2) && why.contains("--prepare"), "{why}");

    runtime.block_on(server.execute(["CREATE DATABASE IF NOT EXISTS sbtest"])).expect("a database");
    let file = |ending: &str| folder.path().join(format!("sweep.{ending}"));
    let (notes, output) = said(&format!(
        "--yes-this-server --prepare --tables 1 --rows 1000 --threads 2 --runs 1 --seconds 1 --warmup 1 --csv \
         --set innodb-sync-spin-loops=60 --svg {} --png {} --html {}",
        file("svg").display(),
        file("png").display(),
        file("html").display()
    ));
    assert_eq!(output.status.code(), Some(0), "{notes}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.lines().any(|line| line.starts_with("60,2,1,")), "{table}");
    assert!(fs::read(file("png")).expect("a picture").starts_with(b"\x89PNG"));
    for ending in ["svg", "html"] {
        assert!(
            fs::read_to_string(file(ending)).expect("a file").contains("innodb_sync_spin_loops"),
            "{ending}"
        );
    }
    let loops = runtime.block_on(server.ask("SELECT @@GLOBAL.innodb_sync_spin_loops")).expect("it answers");
    assert_eq!(loops.as_deref(), Some("30"));

    let (why, output) =
        said("--yes-this-server --tables 1 --rows 2000 --threads 2 --runs 1 --seconds 1 --warmup 1");
    assert!(output.status.code() == Some(2) && why.contains("say --rows 1000"), "{why}");
}

#[test]
fn two_sweeps_are_compared_with_what_their_conditions_differ_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |name: &str, line: &str| {
        let line = format!("--runs 2 --seconds 1 --warmup 1 --tables 1 --rows 1000 --json {line}");
        let output = sweep(folder.path(), &line).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let file = folder.path().join(name);
        fs::write(&file, &output.stdout).expect("a file");
        file.display().to_string()
    };
    let a = made("a.json", "--threads 1,2 -- --table-open-cache=1000");
    let b = made("b.json", "--threads 2,4 --quota 0.5 -- --table-open-cache=1500");
    let html = folder.path().join("compared.html");
    let line = format!("--compare {a} {b} --json --html {}", html.display());
    let output = sweep(folder.path(), &line).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let compared: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(compared["schema"], "spindoctor.sweep-comparison/1");
    for side in ["a", "b"] {
        let hardware = &compared[side]["hardware"];
        assert!(hardware["cpu"]["name"].as_str().is_some_and(|name| !name.is_empty()), "{hardware}");
        assert!(hardware["pause"]["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{hardware}");
        assert!(hardware["kernel"].is_string(), "{hardware}");
        assert!(
            compared[side]["settings"].as_object().is_some_and(|all| all.len() > 200),
            "{}",
            compared[side]
        );
    }
    let differ: Vec<&str> = compared["differences"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|difference| difference["what"].as_str())
        .collect();
    assert!(["quota", "options", "table_open_cache"].iter().all(|what| differ.contains(what)), "{differ:?}");
    assert!(
        !differ.iter().any(|what| ["CPU", "kernel", "datadir", "port", "server_uuid"].contains(what)),
        "{differ:?}"
    );
    let points = compared["lines"][0]["points"].as_array().expect("a list");
    assert_eq!(points.len(), 1, "{points:?}");
    let ratio = &points[0]["ratios"]["transactions_per_s"];
    let number = |name: &str| ratio[name].as_f64().expect("a number");
    assert!(number("low") <= number("ratio") && number("ratio") <= number("high"), "{ratio}");
    assert_eq!(
        (&compared["only_a"][0]["threads"], &compared["only_b"][0]["threads"]),
        (&1.into(), &4.into())
    );
    let page = fs::read_to_string(&html).expect("a page").replace("<wbr>", "");
    assert!(page.contains("table_open_cache"));

    let other = made("other.json", "--threads 2 --workload oltp_update_index");
    let output = sweep(folder.path(), &format!("--compare {a} {other}")).output().expect("the program runs");
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("different workloads") && why.trim_end().lines().count() == 1, "{why}");
}

#[test]
fn quotas_sets_of_cpus_and_workloads_are_axes_too() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: control groups need root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let line = "--workload oltp_point_select,oltp_update_index --cpusets 0,node0 --quotas 0.1,none --threads 4 --runs 1 \
                --seconds 1 --warmup 1 --tables 1 --rows 1000 --json";
    let output = sweep(folder.path(), line).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let swept: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let axes: Vec<&str> = swept["grid"]["axes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|axis| axis["variable"].as_str())
        .collect();
    assert_eq!(axes, ["workload", "cpuset", "quota"]);
    let throughput = |workload: &str, cpuset: &str, quota: &str| {
        let value =
            |line: &Value, axis: usize| line["setting"][axis]["value"].as_str().unwrap_or("").to_owned();
        let wanted = [workload, cpuset, quota].map(str::to_owned);
        let lines = swept["lines"].as_array().expect("a list");
        let line = lines.iter().find(|line| [0, 1, 2].map(|axis| value(line, axis)) == wanted);
        let point = &line.expect("a line")["points"][0];
        // A client cannot do less than nothing, nor the mean be above the most.
        assert!(
            point["least_client_ratio"]["median"].as_f64().is_some_and(|least| (0.0..=1.0).contains(&least)),
            "{point}"
        );
        assert!(point["most_client_ratio"]["median"].as_f64().is_some_and(|most| most >= 0.99), "{point}");
        point["transactions_per_s"]["median"].as_f64().expect("a number")
    };
    for workload in ["oltp_point_select", "oltp_update_index"] {
        for cpuset in ["0", "node0"] {
            let (bound, free) = (throughput(workload, cpuset, "0.1"), throughput(workload, cpuset, "none"));
            assert!(
                free > 1.5 * bound,
                "{workload} on {cpuset}: {free} without a quota, {bound} with 0.1 CPUs"
            );
        }
    }
    let notes = swept["notes"].to_string();
    assert!(notes.contains("CPUs and quota changed while it ran"), "{notes}");
    let counted = swept["cells"][0]["cycles_per_query"].is_number();
    assert_ne!(counted, notes.contains("CPU cycles were not counted: "), "{notes}");
}

#[test]
fn what_cannot_be_swept_is_refused_before_a_server_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    for (line, reason) in [
        ("--set datadir=/tmp", "not on the list"),
        ("--set innodb_sync_spin_loops=1 --set innodb-sync-spin-loops=2", "given twice"),
        ("--svg /nonexistent/chart.svg", "cannot be written"),
        ("--compare /nonexistent/a.json /nonexistent/b.json", "could not open"),
        ("--compare a.json b.json --quota 1", "cannot be used with"),
        ("--cpusets 0,9999", "no list of CPUs"),
        ("--quotas 1 --quota 2", "cannot be used with"),
        ("--quotas 1 --yes-this-server", "cannot be used with"),
    ] {
        let output = sweep(folder.path(), line).output().expect("the program runs");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains(reason), "{line}: {why}");
        assert!(!why.contains("lab:"), "{why}");
    }
}

#[test]
fn the_help_of_sweep_is_this() {
    let (help, code) = printed("sweep --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}
