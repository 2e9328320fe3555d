//! `spindoctor connections` on real servers that clients connect to for each query.

use serde_json::Value;

use crate::lab::during;
use crate::program::{complained, spindoctor};

/// What it prints of a server of the lab that suffers.
fn look(server: &str) -> Value {
    let output = during("connection-churn", server, "connections --duration 3s --json");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}{said}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{said}"))
}

#[expect(clippy::print_stdout, reason = "skipped tests are printed")]
fn is_shown(look: &Value) {
    assert_eq!(look["schema"], "spindoctor.connections/1", "{look:#}");
    assert!(look["made_per_s"].as_f64().is_some_and(|made| made > 100.0), "{look:#}");
    assert!(look["threads"]["cache_hit_ratio"].as_f64().is_some_and(|hits| hits > 0.9), "{look:#}");
    assert!(look["lifetimes"][0]["closed_ratio"].as_f64().is_some_and(|closed| closed > 0.9), "{look:#}");
    assert!(look["queue"]["back_log"].as_u64().is_some_and(|back_log| back_log > 0), "{look:#}");
    assert_eq!(look["findings"][0]["cause"], "connection-churn", "{look:#}");
    assert_eq!(look["cost"]["threads_stopped"], 0, "{look:#}");
    if !rustix::process::geteuid().is_root() {
        println!("the accepting thread's time is not looked at: it needs root");
        return;
    }
    let accept = &look["accept"];
    assert!(accept["accounted_ratio"].as_f64().is_some_and(|ratio| ratio >= 0.95), "{accept:#}");
    assert!(accept["accepted"].as_u64().is_some_and(|accepted| accepted > 100), "{accept:#}");
    let shares = |list: &Value| -> f64 {
        list.as_array().into_iter().flatten().filter_map(|one| one["share"].as_f64()).sum()
    };
    for list in ["rows", "parts"] {
        let sum = shares(&accept[list]);
        assert!((0.99..1.01).contains(&sum), "{list} add up to {sum}: {accept:#}");
    }
    let has =
        |name: &str| accept["rows"].as_array().is_some_and(|rows| rows.iter().any(|row| row["name"] == name));
    for call in ["poll", "futex wake"] {
        assert!(has(call), "{call}: {accept:#}");
    }
    assert!(has("accept4") || has("accept"), "{accept:#}");
    assert!(look["cost"]["passes"].as_u64().is_some_and(|passes| passes > 0), "{look:#}");
}

#[test]
fn what_accepting_costs_mysql_is_accounted_for_and_who_connects_is_named() {
    let look = look("mysql");
    is_shown(&look);
    let who = &look["accounts"][0];
    assert_eq!(who["user"], "app", "{who}");
    assert!(who["statements_each"].as_f64().is_some_and(|each| (0.5..2.5).contains(&each)), "{who}");
}

#[test]
fn what_accepting_costs_mariadb_is_accounted_for() {
    let look = look("mariadb");
    is_shown(&look);
    let why = look["not_read"].as_array().and_then(|list| list.iter().find(|one| one["what"] == "accounts"));
    let unlock = why.and_then(|why| why["unlock"].as_str());
    assert!(unlock.is_some_and(|unlock| unlock.contains("performance_schema = ON")), "{look:#}");
}

#[test]
fn a_window_that_was_saved_is_shown_without_the_accepting_thread() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../rules/tests/windows/connection-churn.mysql-9.7.json.gz");
    let output = spindoctor(&format!("connections --window {file}")).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("connection-churn") && text.contains("not known: a saved window"), "{text}");
    let (why, code) = complained("connections --window /nonexistent/window.json");
    assert!(code == 2 && why.contains("/nonexistent/window.json"), "{why}");
}
