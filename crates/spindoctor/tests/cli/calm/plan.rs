//! `spindoctor tune --plan`: of recorded servers that suffer, and of real ones that do not.

use serde_json::Value;

use crate::lab::{on_both, with_server};
use crate::program::{complained, printed};

fn recorded(name: &str) -> String {
    format!("{}/../rules/tests/windows/{name}.json.gz", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_recorded_server_that_spins_under_a_quota_gets_a_plan_as_text_json_and_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("plan.html");
    let line = format!("tune --window {}", recorded("quota-blind-spin.stacks-mysql-9.7"));
    let (text, code) = printed(&format!("{line} --html {}", page.display()));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("innodb_log_spin_cpu_pct_hwm  50 → 25"), "{text}");
    assert!(text.contains("spindoctor tune --apply --only innodb_log_spin_cpu_pct_hwm=25"), "{text}");
    assert!(text.contains("checked, no change needed:"), "{text}");
    assert!(std::fs::read_to_string(page).is_ok_and(|page| page.starts_with("<!DOCTYPE html>")));
    let (json, _) = printed(&format!("{line} --json"));
    let plan: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(plan["schema"], "spindoctor.plan/1");
    assert_eq!(plan["proposals"][0]["changes"][0]["to"], "25");
    let (other, _) = printed(&format!("{line} --only thread_cache_size"));
    assert!(!other.contains("innodb_log_spin_cpu_pct_hwm"), "{other}");
}

#[test]
fn what_cannot_be_planned_is_one_clear_line() {
    for (asked, text) in [
        ("tune --plan --only innodb_spin_wait_delay=3", "--apply"),
        ("tune --plan --only datadir", "not on the list"),
        ("tune --window /nonexistent/window.json", "could not read the window file"),
    ] {
        let (message, code) = complained(asked);
        assert_eq!(code, 2, "{asked}: {message}");
        assert!(message.contains(text) && message.lines().count() == 1, "{asked}: {message}");
    }
}

#[test]
fn idle_servers_get_no_proposal_and_are_shown_what_was_looked_at() {
    on_both(|which| {
        with_server(which, |server| {
            let socket = server.socket().display();
            let (json, code) =
                printed(&format!("tune -u root -S {socket} --no-defaults --duration 1s --json"));
            assert_eq!(code, 0, "{json}");
            let plan: Value = serde_json::from_str(&json).expect("JSON");
            assert_eq!(plan["server"]["pid"], server.pid(), "{json}");
            assert_eq!(plan["proposals"], Value::Array(Vec::new()), "{json}");
            assert_eq!(plan["left"].as_array().map(Vec::len), Some(12), "{json}");
        });
    });
}
