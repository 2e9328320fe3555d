//! History lists that are long, that grow, and that delay those who change rows.

use spindoctor_model::innodb_status::{ListedTransaction, TransactionsSection};
use spindoctor_model::mysql::{ServerThread, Transaction};
use spindoctor_model::window::NOT_GIVEN;
use spindoctor_model::{Reading, Severity, Value};

use super::*;
use crate::testing::{Build, answer, session, transaction};

/// Eight sessions that change rows, four hundred a second, with a limit on the list.
fn limited(version: &str, length: f64) -> Build {
    Build::busy(version)
        .metric("trx_rseg_history_len", length, 40.0)
        .variable("innodb_max_purge_lag", "1000")
        .variable("innodb_max_purge_lag_delay", "300000")
        .counter("Handler_update", 400.0)
        .sessions(|_| {
            let works = (20..28).map(|id| session(id, "Query", "updating", "UPDATE t SET a = 1"));
            works.chain([session(12, "Sleep", "", "")]).collect()
        })
}

pub(crate) fn fires() -> Window {
    limited("8.0.36", 2_000.0)
        .each(|at_s, server, _| {
            server.transactions = answer(at_s, vec![transaction(12, "RUNNING", 30.0)]);
        })
        .window()
}

/// As long a list, and the limit is not passed.
pub(crate) fn near_miss() -> Window {
    limited("8.0.36", 500.0).window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").each(|_, server, _| server.innodb_metrics = Reading::NotAsked).window()
}

#[test]
fn one_status_with_a_long_list_and_an_old_transaction_is_enough() {
    let once = |length: f64, age_s: f64| {
        let mut window = Build::busy("8.0.36")
            .metric("trx_rseg_history_len", length, 0.0)
            .each(move |at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(12, "RUNNING", age_s)]);
                server.variables = Reading::NotAsked;
            })
            .window();
        let last = window.samples.len() - 1;
        window.samples.drain(..last);
        window
    };
    let live = |length: f64, age_s: f64| evaluate(&once(length, age_s));
    let given = |length: f64, age_s: f64| {
        let mut window = once(length, age_s);
        window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
        evaluate(&window)
    };
    let Outcome::Fired(finding) = live(9.4e6, 70_221.0) else { panic!() };
    assert!(finding.headline.starts_with("9.4 million"), "{}", finding.headline);
    assert!(finding.remedies[0].statement.contains("KILL 12"), "{:?}", finding.remedies);
    assert!(finding.evidence.iter().all(|evidence| evidence.reading != "it grows by"));
    for (length, age_s) in [(9.4e6, 3.0), (9.4e5, 70_221.0)] {
        assert!(matches!(live(length, age_s), Outcome::NotEnoughEvidence(_)), "{length} {age_s}");
    }
    // Of what somebody gave there is no second reading to come.
    let Outcome::Fired(finding) = given(97e6, 3.0) else { panic!() };
    assert!(finding.headline.starts_with("97.0 million"), "{}", finding.headline);
    assert!(finding.why.contains("Whether it grows is not said"), "{}", finding.why);
    assert!(matches!(given(9.4e5, 3.0), Outcome::NotEnoughEvidence(_)));
}

#[test]
fn a_status_with_nothing_but_a_long_list_is_enough() {
    let of = |length: u64| {
        let transactions =
            TransactionsSection { history_list_length: Some(length), ..TransactionsSection::default() };
        let status = InnodbStatus { transactions, ..InnodbStatus::default() };
        let mut window = Build::busy("5.7.44").without_profile().captured().window();
        window.samples.truncate(1);
        window.samples[0].server.innodb_status = answer(0.0, status);
        crate::diagnose(&window).findings.into_iter().find(|finding| finding.cause == CAUSE.name)
    };
    let finding = of(4_310_077).unwrap();
    assert_eq!(finding.evidence[0].source, "SHOW ENGINE INNODB STATUS");
    assert_eq!(finding.headline, "4.3 million transactions wait to be purged");
    assert!(finding.remedies[0].statement.contains("INNODB_TRX"), "{:?}", finding.remedies);
    assert_eq!(of(43_100), None);
}

fn found(window: &Window) -> Finding {
    match evaluate(window) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_that_build_old_versions_are_found_where_a_transaction_is_old_enough_to_want_them() {
    let reads = |part: f64, age_s: f64| {
        let reading =
            &["trx_undo_prev_version_build", "row_vers_build_for_consistent_read", "dispatch_command"];
        let window = Build::busy("8.0.36")
            .metric("trx_rseg_history_len", 20_000.0, 400.0)
            .sessions(|_| {
                (20..28).map(|id| session(id, "Query", "executing", "SELECT SUM(a) FROM t")).collect()
            })
            .running(1_000, part, reading)
            .each(move |at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(12, "RUNNING", age_s)]);
            })
            .window();
        evaluate(&window)
    };
    let Outcome::Fired(finding) = reads(0.9, 40.0) else { panic!() };
    assert_eq!(finding.headline, "Reads build old versions of rows, 90 % of the CPU of statements");
    assert!(finding.remedies[0].statement.contains("KILL 12"), "{:?}", finding.remedies);
    assert_eq!(finding.explains, ["cpu-saturated"]);
    for (part, age_s) in [(0.05, 40.0), (0.9, 1.0)] {
        assert_eq!(reads(part, age_s), Outcome::Clear, "{part} {age_s}");
    }
}

#[test]
fn the_delay_is_the_servers_own_and_the_old_transaction_is_named() {
    let finding = found(&fires());
    // (2400 / 1000 - 0.5) * 10 ms.
    assert!(finding.headline.contains("sleeps up to 19 ms"), "{}", finding.headline);
    assert_eq!(finding.remedies[0].statement, "KILL 12");
    assert!(finding.why.contains("open for 30 s (connection 12)"), "{}", finding.why);
}

#[test]
fn a_list_that_is_short_again_has_delayed_those_before() {
    let finding = found(&limited("8.0.36", 3_000.0).metric("trx_rseg_history_len", 3_000.0, -300.0).window());
    // (3000 / 1000 - 0.5) * 10 ms, and nothing at the end.
    assert!(finding.headline.contains("slept up to 25 ms: 3000 transactions waited"), "{}", finding.headline);
    let mean = finding.evidence.iter().find(|e| e.reading == "its mean over the window").unwrap();
    let Value::Number(mean_us) = mean.value else { panic!("{:?}", mean.value) };
    assert!((5_000.0..20_000.0).contains(&mean_us), "{mean_us}");
}

#[test]
fn a_list_that_swings_about_its_limit_delays_still() {
    let finding = found(&limited("8.0.36", 1_010.0).metric("trx_rseg_history_len", 1_010.0, -2.0).window());
    assert!(finding.headline.contains("sleeps up to 5 ms"), "{}", finding.headline);
    assert!(finding.why.contains("removes less than is made"), "{}", finding.why);
}

#[test]
fn mariadb_delays_nobody_while_nothing_is_purged() {
    let purged = |each_s: u64| {
        let long = limited("10.11.19-MariaDB", 0.0).gauge("Innodb_history_list_length", 2_400.0);
        long.each(move |at_s, server, _| {
            let purge_done = Some(100 + (at_s as u64) * each_s);
            let transactions = TransactionsSection { purge_done, ..TransactionsSection::default() };
            server.innodb_status = answer(at_s, InnodbStatus { transactions, ..InnodbStatus::default() });
        })
    };
    assert!(found(&purged(5).window()).headline.contains("sleeps up to 19 ms"));
    let held_back = found(&purged(0).window());
    assert!(held_back.headline.contains("as soon as purge goes on"), "{}", held_back.headline);
    assert_eq!(held_back.severity, Severity::Warning);
    assert_eq!(held_back.remedies[0].statement, "SET GLOBAL innodb_max_purge_lag = 0");
}

#[test]
fn a_list_of_a_million_that_grows_is_a_warning_and_one_that_shrinks_is_none() {
    let long = |per_s| Build::busy("8.0.36").metric("trx_rseg_history_len", 2e6, per_s).window();
    let finding = found(&long(3_000.0));
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.remedies[0].statement.contains("innodb_purge_batch_size"), "{:?}", finding.remedies);
    assert_eq!(evaluate(&long(-3_000.0)), Outcome::Clear);
}

/// The list grows; connection 7 rests in a transaction of an hour, 8 reads; and the read views that the status prints.
fn two(isolation_of_7: &'static str, reads_s: f64, views: &[(u64, Option<u64>)]) -> Finding {
    let views = views.to_vec();
    let open = |id, age_s, isolation: &str| Transaction {
        isolation: Some(isolation.into()),
        ..transaction(id, "RUNNING", age_s)
    };
    let printed = |&(id, view_order): &(u64, Option<u64>)| ListedTransaction {
        connection_id: Some(id),
        view_order,
        ..ListedTransaction::default()
    };
    let window = Build::busy("8.0.36")
        .metric("trx_rseg_history_len", 2e6, 3_000.0)
        .sessions(move |_| {
            let reads = session(8, "Query", "executing", "SELECT SUM(a) FROM t");
            vec![session(7, "Sleep", "", ""), ServerThread { time_s: reads_s, ..reads }]
        })
        .each(move |at_s, server, _| {
            let both = vec![open(7, 3_600.0, isolation_of_7), open(8, reads_s, "REPEATABLE READ")];
            server.transactions = answer(at_s, both);
            let transactions = TransactionsSection {
                transactions: views.iter().map(printed).collect(),
                ..TransactionsSection::default()
            };
            server.innodb_status = answer(at_s, InnodbStatus { transactions, ..InnodbStatus::default() });
        });
    found(&window.window())
}

#[test]
fn who_has_the_oldest_read_view_is_ended_and_not_who_is_only_open_for_longest() {
    for (isolation, views, ended, is_sure) in [
        // At READ COMMITTED a view goes with its statement.
        ("READ COMMITTED", &[][..], "KILL 8", false),
        ("REPEATABLE READ", &[], "KILL 7", false),
        // A transaction that has only written has none.
        ("REPEATABLE READ", &[(7, None), (8, Some(0x2345))], "KILL 8", true),
        ("REPEATABLE READ", &[(7, Some(0x51d)), (8, Some(0x2345))], "KILL 7", true),
        // The status leaves transactions out that do not fit.
        ("REPEATABLE READ", &[(8, Some(0x2345))], "KILL 7", false),
    ] {
        let finding = two(isolation, 400.0, views);
        assert_eq!(finding.remedies[0].statement, ended, "{isolation}, {views:?}");
        assert_eq!(finding.why.contains("has the oldest read view"), is_sure, "{}", finding.why);
        assert_eq!(finding.remedies[0].why.starts_with("Look first"), !is_sure, "{:?}", finding.remedies);
    }
    for views in [&[][..], &[(7, None), (8, Some(0x2345))]] {
        let finding = two("READ COMMITTED", 4.0, views);
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
        assert!(finding.why.starts_with("No old transaction holds purge back"), "{}", finding.why);
    }
}
