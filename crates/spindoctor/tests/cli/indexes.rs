//! `spindoctor indexes` on real servers, and on bad days.

use serde_json::Value;
use spindoctor_lab::load::Tables;
use spindoctor_lab::{Home, Server, ServerSpec, Which};

use crate::program::{complained, printed, spindoctor};

const TABLES: Tables = Tables { count: 1, rows: 10_000 };
/// Two hundred values are estimated from statistics.
const VALUES: u32 = 190;

/// A list of values that two indexes alike could serve.
fn statement() -> String {
    let values: Vec<String> = (0..VALUES).map(|at| (TABLES.rows / 2 - VALUES + 2 * at).to_string()).collect();
    format!("SELECT id FROM sbtest1 WHERE k IN ({}) LIMIT 1", values.join(", "))
}

fn run(server: &Server, sql: &str, rest: &str) -> (String, String, i32) {
    let line = format!("indexes -u root -S {} --no-defaults {rest}", server.socket().display());
    let output = spindoctor(&line).args(["--statement", sql]).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr), output.status.code().expect("no signal ended it"))
}

fn json(server: &Server, sql: &str, rest: &str) -> Value {
    let (text, notes, code) = run(server, sql, &format!("--json {rest}"));
    assert_eq!(code, 0, "{text}{notes}");
    serde_json::from_str(&text).expect("JSON")
}

fn candidate<'a>(one: &'a Value, kind: &str) -> &'a Value {
    let candidates = one["candidates"].as_array().expect("a list");
    candidates.iter().find(|text| text["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {one:#}"))
}

/// What is found once the pages of all runs can be counted: a server that has just built an index asks for many itself,
/// for some seconds.
fn found_when_quiet(server: &Server) -> Value {
    let ask = || json(server, &statement(), "--database sbtest --try --try-time 2s");
    let are_shown = |found: &Value| {
        let one = &found["statements"][0];
        let of_runs = ["force", "ignore", "limit"].map(|kind| &candidate(one, kind)["tried"]["pages"]);
        let of_plans = [&one["planning"]["as_it_is"]["pages"], &one["pages"]["for_the_plan"]];
        of_runs.iter().chain(&of_plans).all(|pages| !pages.is_null())
    };
    let mut found = ask();
    for _ in 0..4 {
        if are_shown(&found) {
            break;
        }
        found = ask();
    }
    found
}

#[test]
fn the_help_of_indexes_is_this() {
    let (help, code) = printed("indexes --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn a_planted_list_of_values_in_two_indexes_alike_is_found_and_its_gain_is_measured() {
    for which in [Which::Mysql, Which::Mariadb] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let home = Home::open().expect("the lab has a folder");
        let spec = ServerSpec { which: which.clone(), tables: Some(TABLES), ..ServerSpec::default() };
        let server = runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server");
        let plant = ["CREATE INDEX k_and_c ON sbtest.sbtest1 (k, c)", "ANALYZE TABLE sbtest.sbtest1"];
        runtime.block_on(server.execute(plant)).expect("two indexes alike");
        let found = found_when_quiet(&server);
        assert_eq!(found["schema"], "spindoctor.indexes/1");
        let one = &found["statements"][0];
        assert_eq!(one["lists"][0]["values"], VALUES, "{which:?}: {found:#}");
        assert_eq!(
            (one["dives"].as_u64(), one["dives_in_vain"].as_u64()),
            (Some(380), Some(190)),
            "{which:?}: {one:#}"
        );
        let indexes = one["tables"][0]["indexes"].as_array().expect("a list");
        let in_vain: Vec<_> = indexes.iter().filter(|index| index["in_vain"] == true).collect();
        assert_eq!(in_vain.len(), 1, "{which:?}: {one:#}");
        assert!(
            in_vain[0]["alike"].as_str().is_some_and(|line| line.contains("begins with")),
            "{which:?}: {one:#}"
        );
        // Nobody else is there: pages can be counted. A dive asks for two pages at the least.
        let pages = |planned: &str| one["planning"][planned]["pages"].as_f64().unwrap_or(f64::NAN);
        assert!(pages("as_it_is") > 700.0, "{which:?}: {one:#}");
        assert!(pages("without_in_vain") < pages("as_it_is") * 0.7, "{which:?}: {one:#}");
        // So few are hidden by the server's own work just after its start, and then not shown.
        let without = &one["planning"]["without_list_dives"]["pages"];
        assert!(without.as_f64().is_none_or(|pages| pages < 100.0), "{which:?}: {one:#}");

        // One row is a page or two; the other pages of a run are its plan's.
        let of_a_run = |part: &str| one["pages"][part].as_f64().unwrap_or(f64::NAN);
        assert!(of_a_run("for_the_plan") > 700.0, "{which:?}: {one:#}");
        assert!(of_a_run("for_its_rows") < 60.0, "{which:?}: {one:#}");

        let ratio = |kind: &str, of: &str| candidate(one, kind)["tried"][of]["effect"]["ratio"].as_f64();
        for kind in ["force", "ignore", "limit"] {
            let tried = &candidate(one, kind)["tried"];
            assert_eq!(tried["same_rows"], true, "{which:?} {kind}: {one:#}");
            assert!(ratio(kind, "pages").is_some_and(|ratio| ratio < 0.7), "{which:?} {kind}: {one:#}");
        }
        assert_eq!(candidate(one, "limit")["tried"]["verdict"], "helps", "{which:?}: {one:#}");
        assert_eq!(candidate(one, "ignore")["tried"]["dives"], 190, "{which:?}: {one:#}");
        let forced = candidate(one, "force");
        // MySQL skips all dives for a forced index, MariaDB those into the others.
        let left = if server.version().is_mariadb() { 190 } else { 0 };
        assert_eq!(forced["tried"]["dives"], left, "{which:?}: {forced:#}");
        assert_eq!(forced["tried"]["skipped"], left == 0, "{which:?}: {forced:#}");
        assert!(found["cost"]["trial_runs"].as_u64().is_some_and(|runs| runs > 100), "{which:?}: {found:#}");

        // Looking runs nothing, shows no literal, and what is not harmless is not even explained.
        let (text, notes, code) = run(&server, &statement(), "--database sbtest");
        assert_eq!(code, 0, "{text}{notes}");
        assert!(text.contains("no statement was run") && text.contains("in vain"), "{text}");
        assert!(!text.contains(", 4812"), "{text}");
        runtime
            .block_on(server.execute(["CREATE VIEW sbtest.v AS SELECT * FROM sbtest.sbtest1"]))
            .expect("a view");
        for (sql, reason) in [
            ("SELECT id FROM v WHERE k IN (1, 2)", "a view"),
            ("SELECT SLEEP(9) FROM sbtest1", "SLEEP()"),
            ("SELECT id FROM sbtest1 FOR UPDATE", "FOR UPDATE"),
            ("SELECT id FROM nowhere", "not there"),
        ] {
            let refused = json(&server, sql, "--database sbtest --try");
            let because = refused["not_examined"][0]["because"].as_str().unwrap_or_default();
            assert!(because.contains(reason), "{which:?}: {sql}: {refused:#}");
            assert_eq!(refused["cost"]["trial_runs"], 0);
        }
    }
}

#[test]
fn what_cannot_be_asked_is_shown_with_exit_2() {
    for (line, reason) in [
        ("indexes -S /nonexistent/mysqld.sock --no-defaults", "/nonexistent/mysqld.sock"),
        ("indexes --statement x --duration 5s", "cannot be used with"),
        ("indexes --try-time 5s", "--try"),
        ("indexes --grep (", "unclosed"),
    ] {
        let (message, code) = complained(line);
        assert_eq!(code, 2, "{line}: {message}");
        assert!(message.contains(reason), "{line}: {message}");
    }
}
