//! A statement that read some rows each time and reads others now, without and with what was asked about its plan.

use spindoctor_model::plan_now::{Index, PlanLine, PlanNow, TableStatistics};
use spindoctor_model::{ServerVersion, Value};

use super::*;
use crate::diagnose;
use crate::testing::{Build, answer, session};

const LOOKUP: &str = "SELECT `c` FROM `orders` WHERE `k` = ?";

/// A statement that read some rows each time until the window began, and then others.
#[derive(Clone, Copy)]
struct Turn {
    executed_before: f64,
    rows_before: f64,
    per_s: f64,
    each_ms: f64,
    rows: f64,
    scans: bool,
}

const TURN: Turn = Turn {
    executed_before: 400_000.0,
    rows_before: 3.0,
    per_s: 40.0,
    each_ms: 25.0,
    rows: 90_000.0,
    scans: true,
};

fn window(turn: Turn) -> Window {
    turned(Build::busy("9.7.4"), LOOKUP, turn).window()
}

fn turned(build: Build, text: &'static str, turn: Turn) -> Build {
    build.each(move |at_s, server, _| {
        let Reading::Available { value: digests, .. } = &mut server.digests else {
            return;
        };
        let ran = turn.per_s * at_s;
        let sum = |before: f64, after: f64| (turn.executed_before * before + ran * after) as u64;
        digests.push(StatementDigest {
            schema: "shop".into(),
            digest: "lookup".into(),
            text: text.into(),
            executions: sum(1.0, 1.0),
            total_ns: sum(200_000.0, turn.each_ms * 1e6),
            rows_examined: sum(turn.rows_before, turn.rows),
            rows_sent: sum(3.0, 3.0),
            full_scans: sum(0.0, if turn.scans { 1.0 } else { 0.0 }),
            ..StatementDigest::default()
        });
    })
}

pub(crate) fn fires() -> Window {
    window(TURN)
}

/// A few executions for values that many rows have: by the index, as always.
pub(crate) fn near_miss() -> Window {
    window(Turn { per_s: 2.0, rows: 20_000.0, scans: false, ..TURN })
}

/// A server without the summary.
pub(crate) fn missing() -> Window {
    Build::busy("10.11.18-MariaDB").each(|_, server, _| server.digests = Reading::NotAsked).window()
}

fn found(window: &Window) -> Option<Finding> {
    match evaluate(window) {
        Outcome::Fired(finding) => Some(finding),
        _ => None,
    }
}

#[test]
fn the_rows_before_and_after_are_named_with_where_to_look() {
    let finding = found(&fires()).unwrap();
    assert!(
        finding.headline.starts_with("A statement reads 90,000 rows each time, 3 until now"),
        "{}",
        finding.headline
    );
    assert!(finding.why.contains("dropped or made invisible"), "{}", finding.why);
    let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(
        statements,
        [
            "EXPLAIN SELECT `c` FROM `orders` WHERE `k` = ?",
            "SHOW INDEX FROM `orders`",
            "ANALYZE TABLE `orders`"
        ]
    );
    assert!(finding.score > 0.1, "{}", finding.score);
}

#[test]
fn another_index_is_a_change_where_many_executions_show_it() {
    let finding = found(&window(Turn { scans: false, ..TURN })).unwrap();
    assert!(finding.why.contains("another one"), "{}", finding.why);
    assert_eq!(finding.remedies.len(), 2);
}

/// MariaDB counts them together, and its list has their texts.
#[test]
fn prepared_statements_that_scan_now_are_a_change_and_others_than_before_are_none() {
    let of = |turn: Turn| {
        let sessions = |_| vec![session(20, "Execute", "Sending data", "SELECT c FROM orders WHERE k = 7")];
        let build = turned(Build::busy("10.11.18-MariaDB"), StatementDigest::WITHOUT_TEXT, turn);
        let window = build.sessions(sessions).window();
        assert_eq!(suspect(&window), None, "no text, no plan to ask about");
        found(&window)
    };
    let finding = of(TURN).unwrap();
    assert!(
        finding.headline.starts_with("Prepared statements read 90,000 rows each time, 3 until now, and take")
            && finding.headline.ends_with("; seen most: SELECT c FROM orders WHERE k = ?"),
        "{}",
        finding.headline
    );
    assert!(finding.why.contains("or other statements run than before"), "{}", finding.why);
    assert_eq!(finding.remedies[1].statement, "SHOW INDEX FROM `orders`");
    // A report by an index that runs in the night.
    assert_eq!(of(Turn { scans: false, ..TURN }), None);
}

#[test]
fn a_statement_that_always_read_so_much_or_has_no_past_is_no_change() {
    assert!(found(&window(Turn { rows_before: 60_000.0, ..TURN })).is_none());
    assert!(found(&window(Turn { executed_before: 60.0, ..TURN })).is_none());
    assert!(found(&window(Turn { rows: 900.0, ..TURN })).is_none());
}

#[test]
fn the_statement_that_is_asked_about_is_the_one_that_is_named() {
    let table = TableName { schema: "shop".into(), name: "orders".into() };
    let expected =
        Suspect { schema: "shop".into(), digest: "lookup".into(), text: LOOKUP.into(), table: Some(table) };
    assert_eq!(suspect(&fires()), Some(expected));
    assert_eq!(suspect(&near_miss()), None);
    assert_eq!(suspect(&missing()), None);
}

fn index(name: &str, columns: &[&str], is_hidden: bool) -> Index {
    let columns = columns.iter().map(|&column| column.to_owned()).collect();
    Index { name: name.into(), columns, is_hidden, is_btree: true, ..Index::default() }
}

/// Of the statement of [`window`], asked just after its ten seconds: how it is read, the indexes of its table, and how old the
/// statistics of the table are.
fn asked(line: PlanLine, indexes: Vec<Index>, age_s: f64) -> PlanNow {
    PlanNow {
        explained: answer(10.1, vec![line]),
        indexes: answer(10.1, indexes),
        statistics: answer(10.1, TableStatistics { rows: Some(98_765), age_s }),
        ..suspect(&fires()).unwrap().unknown()
    }
}

/// A scan that is expected to read as many rows as are read.
fn scan() -> PlanLine {
    PlanLine { table: "orders".into(), access: "ALL".into(), rows: Some(90_123.0), ..PlanLine::default() }
}

fn by_index(key: &str, rows: f64) -> PlanLine {
    PlanLine { access: "ref".into(), key: Some(key.into()), rows: Some(rows), ..scan() }
}

fn found_with(mut window: Window, plan: PlanNow) -> Finding {
    window.plan_now = answer(10.1, plan);
    found(&window).unwrap()
}

/// What a finding says of the plan now.
fn said<'a>(finding: &'a Finding, reading: &str) -> Vec<&'a str> {
    let texts = finding.evidence.iter().filter(|one| one.reading == reading).map(|one| match &one.value {
        Value::Text(text) => text.as_str(),
        Value::Number(_) => "a number",
    });
    texts.collect()
}

/// Long before the change.
const OLD: f64 = 300_000.0;

#[test]
fn an_index_that_the_optimizer_may_not_use_is_named_and_given_back() {
    let indexes = || vec![index("PRIMARY", &["id"], false), index("by_k", &["k"], true)];
    let finding = found_with(fires(), asked(scan(), indexes(), OLD));
    assert!(
        finding.headline.starts_with("Index by_k is invisible: a statement reads 90,000 rows each time"),
        "{}",
        finding.headline
    );
    assert!(finding.why.starts_with("Index by_k (k) of shop.orders is invisible"), "{}", finding.why);
    let first = &finding.remedies[0];
    assert_eq!(first.statement, "ALTER TABLE `shop`.`orders` ALTER INDEX `by_k` VISIBLE");
    assert_eq!(first.undo, "ALTER TABLE `shop`.`orders` ALTER INDEX `by_k` INVISIBLE");
    let scan_now = "full scan (ALL) of orders, 90,123 rows estimated, possible keys none";
    assert_eq!(said(&finding, "plan now"), [scan_now]);
    assert_eq!(said(&finding, "indexes of shop.orders"), ["PRIMARY (id), by_k (k) invisible"]);

    let mut window = fires();
    window.server.version = ServerVersion::parse("10.11.18-MariaDB", "");
    let finding = found_with(window, asked(scan(), indexes(), OLD));
    assert!(finding.headline.starts_with("Index by_k is ignored"), "{}", finding.headline);
    assert_eq!(finding.remedies[0].statement, "ALTER TABLE `shop`.`orders` ALTER INDEX `by_k` NOT IGNORED");
}

#[test]
fn a_hidden_index_is_not_blamed_where_another_serves_as_well() {
    let indexes = vec![index("by_k", &["k"], true), index("by_k_and_c", &["K", "c"], false)];
    let finding = found_with(fires(), asked(scan(), indexes, OLD));
    assert!(finding.headline.starts_with("A statement reads"), "{}", finding.headline);
    let indexes = vec![index("by_c", &["c"], true), index("by_k", &["k"], false)];
    let finding = found_with(fires(), asked(scan(), indexes, OLD));
    assert!(finding.headline.starts_with("A statement reads"), "{}", finding.headline);
}

#[test]
fn an_index_that_nobody_has_is_missed() {
    let finding = found_with(fires(), asked(scan(), vec![index("PRIMARY", &["id"], false)], OLD));
    assert!(finding.why.contains("no index of shop.orders begins with k"), "{}", finding.why);
    assert_eq!(finding.remedies[0].statement, "ALTER TABLE `shop`.`orders` ADD INDEX (`k`)");
    // What an index of an expression serves is not known; a plan that scans no table misses none.
    let expression = || vec![index("upper", &["(expression)"], false)];
    for plan in [asked(scan(), expression(), OLD), asked(by_index("PRIMARY", 90_000.0), Vec::new(), OLD)] {
        let finding = found_with(fires(), plan);
        assert!(!finding.why.contains("begins with"), "{}", finding.why);
    }
}

#[test]
fn statistics_that_are_no_older_than_the_change_are_the_reason() {
    // 400,000 executions read 3 rows each before, and 3,600,000 rows a second are read now: it began a third of a second before the
    // window, or later.
    let indexes = || vec![index("by_c", &["c"], false), index("by_k", &["k"], false)];
    let finding =
        found_with(window(Turn { scans: false, ..TURN }), asked(by_index("by_c", 2.0), indexes(), 8.0));
    assert!(finding.why.contains("statistics of shop.orders were computed 8 s before"), "{}", finding.why);
    let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
    assert_eq!(
        statements,
        [
            "ANALYZE TABLE `shop`.`orders`",
            "FORCE INDEX (`by_k`) behind `orders` in the statement",
            "EXPLAIN SELECT `c` FROM `orders` WHERE `k` = ?"
        ]
    );
    assert_eq!(said(&finding, "plan now"), ["orders by index by_c (ref), 2 rows estimated"]);
    // A quarter of a minute before, the plan was as it used to be.
    let finding =
        found_with(window(Turn { scans: false, ..TURN }), asked(by_index("by_c", 2.0), indexes(), 25.0));
    assert!(finding.why.contains("another one"), "{}", finding.why);
}

#[test]
fn where_indexes_and_statistics_are_as_they_were_other_values_are_asked_for() {
    let indexes = || vec![index("by_k", &["k"], false)];
    let finding = found_with(fires(), asked(scan(), indexes(), OLD));
    assert!(finding.why.contains("other values are asked for"), "{}", finding.why);
    assert_eq!(
        finding.remedies[0].statement,
        "SELECT `k`, COUNT(*) FROM `shop`.`orders` GROUP BY `k` ORDER BY COUNT(*) DESC LIMIT 10"
    );
    assert!(finding.remedies[0].risk.contains("98,765 rows"), "{}", finding.remedies[0].risk);
    // The optimizer expects few: it is wrong, or the one that was explained is not the one that reads so much.
    let finding = found_with(fires(), asked(by_index("by_k", 5.0), indexes(), OLD));
    assert!(!finding.why.contains("older than the change"), "{}", finding.why);
}

#[test]
fn what_was_asked_in_vain_is_listed_and_the_finding_is_as_without_it() {
    let plain = diagnose(&fires());
    assert!(plain.not_examined.is_empty(), "{:?}", plain.not_examined);
    let mut window = fires();
    window.plan_now = Reading::Unavailable(Unavailable::because("no session"));
    let listed = diagnose(&window);
    assert_eq!(listed.findings, plain.findings);
    assert_eq!(listed.not_examined[0].because, "the plan as it is now: no session");

    let mut plan = suspect(&window).unwrap().unknown();
    plan.fail(&Unavailable::because("no privilege").unlock("GRANT SELECT ON `shop`.`orders` TO app"));
    window.plan_now = answer(10.1, plan);
    let listed = diagnose(&window);
    assert_eq!(listed.findings, plain.findings);
    let [missing] = &listed.not_examined[..] else { panic!("{:?}", listed.not_examined) };
    assert!(
        missing.because.starts_with("EXPLAIN of the statement: no privilege; the indexes of its table: ")
    );
    assert_eq!(missing.unlock, "GRANT SELECT ON `shop`.`orders` TO app");
    // What was asked about another statement says nothing of this one.
    window.plan_now = answer(10.1, PlanNow { digest: "other".into(), ..asked(scan(), Vec::new(), 1.0) });
    assert_eq!(diagnose(&window).findings, plain.findings);
}
