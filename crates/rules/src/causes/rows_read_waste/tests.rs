//! Statements that scan, with and without a summary that has them.

use spindoctor_model::Reading::NotAsked;
use spindoctor_model::mysql::ServerThread;

use super::*;
use crate::testing::{Build, Rows, answer, session, transaction};

const SCAN: &str = "SELECT * FROM orders WHERE note = ?";

/// Twelve scans a second of a table of 200,000 rows, 150 ms each.
pub(crate) fn fires() -> Window {
    Build::busy("8.0.36")
        .digest_scans(SCAN, 12.0, 150_000.0, Rows { examined: 200_000.0, sent: 2.0 }, 1.0)
        .window()
}

/// A sum over a range of an index, and a scan of a small table.
pub(crate) fn near_miss() -> Window {
    Build::busy("8.0.36")
        .digest("SELECT SUM ( k ) FROM orders WHERE id BETWEEN ? AND ?", 12.0, 50_000.0, 100_000.0, 1.0)
        .digest_scans(
            "SELECT * FROM settings WHERE name = ?",
            400.0,
            300.0,
            Rows { examined: 200.0, sent: 1.0 },
            1.0,
        )
        .window()
}

pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
}

fn found(window: &Window) -> Finding {
    match evaluate(window) {
        Outcome::Fired(finding) => finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_statement_and_its_share_of_the_time_are_named() {
    let finding = found(&fires());
    assert!(
        finding.headline.contains("200,000 read for 2 returned by SELECT * FROM orders"),
        "{}",
        finding.headline
    );
    assert!(finding.score > 0.2 && finding.score < 0.5, "{}", finding.score);
}

#[test]
fn a_scan_in_runs_of_an_event_that_overlap_is_said_to_be_so() {
    let finding = |name: &str| {
        let run = |id: u64| ServerThread {
            name: name.into(),
            time_s: (40 - id) as f64,
            ..session(id, "Connect", "executing", "SELECT * FROM orders WHERE note = 'late'")
        };
        let window = Build::busy("9.7.4")
            .digest_scans(SCAN, 12.0, 150_000.0, Rows { examined: 200_000.0, sent: 2.0 }, 1.0)
            .sessions(|_| (20..24).map(run).collect());
        found(&window.window())
    };
    let of_event = finding("thread/sql/event_worker");
    assert!(of_event.headline.ends_with(", in runs of an event of the scheduler"), "{}", of_event.headline);
    assert!(of_event.remedies[0].statement.contains("information_schema.EVENTS"), "{:?}", of_event.remedies);
    let of_clients = finding("thread/sql/one_connection");
    assert!(!format!("{of_clients:?}").contains("information_schema.EVENTS"), "{of_clients:?}");
}

#[test]
fn an_index_may_be_there_and_of_no_use_to_what_a_statement_compares() {
    let finding = found(&fires());
    let said = &finding.remedies[0].why;
    assert!(said.contains("possible_keys") && said.contains("quote the value"), "{said}");
    let joined = explain_it("SELECT a.k FROM a JOIN b ON a.code = b.code").why;
    assert!(joined.contains("collation"), "{joined}");
    let compares_nothing = explain_it("SELECT k FROM a ORDER BY k LIMIT ?").why;
    assert!(!compares_nothing.contains("possible_keys"), "{compares_nothing}");
}

/// Its rows are counted for the INSERT, whose own plan shows nothing.
#[test]
fn a_trigger_that_scans_is_looked_for_where_an_insert_reads_rows() {
    let window = Build::busy("5.7.22").digest_scans(
        "INSERT INTO orders VALUES ( ... )",
        12.0,
        150_000.0,
        Rows { examined: 200_000.0, sent: 0.0 },
        1.0,
    );
    let finding = found(&window.window());
    assert!(finding.why.contains("A trigger of its table does"), "{}", finding.why);
    assert!(finding.remedies[0].statement.starts_with("SHOW TRIGGERS"), "{:?}", finding.remedies);
}

/// A reporting server: ten seconds each, on all of its CPUs.
#[test]
fn what_sums_up_whole_tables_reads_them_for_that() {
    let scanning = |text: &str| {
        let rows = Rows { examined: 1e7, sent: 30.0 };
        evaluate(&Build::busy("8.0.36").digest_scans(text, 0.4, 1e7, rows, 1.0).window())
    };
    for text in [
        "SELECT DAY , SUM ( `x` ) FROM `facts` GROUP BY DAY",
        "SELECT COUNT ( * ) FROM `facts`",
        "SELECT DISTINCT `customer` FROM `facts` ORDER BY `customer` LIMIT ?",
    ] {
        assert_eq!(scanning(text), Outcome::Clear, "{text}");
    }
    for text in [
        // With a condition, an index may find the rows.
        "SELECT DAY , SUM ( `x` ) FROM `facts` WHERE `c` = ? GROUP BY DAY",
        "SELECT `a` . `k` , COUNT ( * ) FROM `a` JOIN `b` USING ( `k` ) GROUP BY `a` . `k`",
        // An index has it at its end.
        "SELECT MAX ( `x` ) FROM `facts`",
        // What the server cut may be its condition.
        "SELECT DAY , SUM ( `x` ) , SUM ( `y` ) FROM `facts` ...",
    ] {
        assert!(matches!(scanning(text), Outcome::Fired(_)), "{text}");
    }
    // The summary has an execution when it ends; until then the counters and the list of threads show it.
    let running = |text: &'static str| {
        let report = move |id| ServerThread { time_s: 30.0, ..session(id, "Query", "executing", text) };
        evaluate(&without_summary().sessions(move |_| (20..24).map(report).collect()).window())
    };
    assert_eq!(running("SELECT day, SUM(x) FROM facts GROUP BY day"), Outcome::Clear);
    assert!(matches!(running("SELECT SUM(x) FROM facts WHERE c = 7"), Outcome::Fired(_)));
    let Outcome::Fired(summed) = scanning("SELECT SUM ( `x` ) FROM `facts` WHERE `c` = ?") else { panic!() };
    assert!(summed.why.contains("Where they are most of the table, that is its work"), "{}", summed.why);
}

#[test]
fn one_report_on_an_idle_host_is_a_note_at_most() {
    let window = Build::busy("8.0.36")
        .digest_scans(SCAN, 0.5, 300_000.0, Rows { examined: 400_000.0, sent: 2.0 }, 1.0)
        .window();
    match evaluate(&window) {
        Outcome::Clear => {}
        Outcome::Fired(finding) => assert_eq!(finding.severity, spindoctor_model::Severity::Note),
        other => panic!("{other:?}"),
    }
}

/// As sysbench leaves it on 5.6.14: two connections scan by prepared statements, and no summary has them.
fn prepared(bytes_sent_per_s: f64) -> Build {
    Build::busy("5.6.14")
        .digest("SELECT c FROM t WHERE id = ?", 10.0, 100.0, 1.0, 1.0)
        .counter("Handler_read_rnd_next", 6e6)
        .counter("Innodb_rows_read", 6e6)
        .counter("Com_stmt_execute", 30.0)
        .counter("Questions", 60.0)
        .counter("Rows_sent", 10.0)
        .sessions(|_| vec![session(20, "Execute", "Sending data", "")])
        .counter("Bytes_sent", bytes_sent_per_s)
}

#[test]
fn scans_by_prepared_statements_are_found_where_no_summary_has_them() {
    let finding = found(&prepared(3_000.0).window());
    assert!(finding.headline.contains("by prepared statements"), "{}", finding.headline);
    assert!(finding.evidence.iter().any(|evidence| evidence.reading == "prepared statements executed"));
    // A dump beside them sends what it reads.
    assert!(matches!(evaluate(&prepared(60e6).window()), Outcome::Clear));
    // MariaDB counts the rows of all of them together, and has no text to look at.
    let text = StatementDigest::WITHOUT_TEXT;
    let together =
        prepared(3_000.0).digest_scans(text, 150.0, 16_000.0, Rows { examined: 20_000.0, sent: 0.0 }, 1.0);
    let finding = found(&together.window());
    assert!(finding.headline.contains("by prepared statements"), "{}", finding.headline);
}

#[test]
fn scans_that_take_little_of_the_cpu_do_not_explain_that_it_is_full() {
    let explains = |rows_per_s: f64| {
        let window = prepared(3_000.0).counter("Handler_read_rnd_next", rows_per_s).window();
        found(&window).explains
    };
    assert_eq!(explains(6e6), ["cpu-saturated"]);
    assert!(explains(3e5).is_empty());
}

/// Four clients look rows up by a column without an index, and nothing else: 81 rows are read for each returned.
fn scanning(build: Build, each: f64) -> Build {
    let per_s = 9e6;
    build
        .counter("Handler_read_rnd_next", per_s)
        .counter("Innodb_rows_read", per_s)
        .counter("Rows_sent", per_s / each)
        .counter("Questions", 900.0)
        .counter("Select_scan", 900.0)
        .sessions(|_| {
            (20..24)
                .map(|id| session(id, "Query", "Sending data", "SELECT c FROM t WHERE k = 5000"))
                .collect()
        })
}

/// A server that does not count the rows that it sends.
fn without_rows_sent(build: Build) -> Build {
    build.words("Rows_sent", "")
}

#[test]
fn scans_that_are_nearly_all_of_the_work_are_waste_at_fewer_rows_for_each_returned() {
    let of = |build: Build| evaluate(&build.window());
    let without_summary = || Build::busy("10.11.19-MariaDB").each(|_, server, _| server.digests = NotAsked);
    let with_summary = || scanning(Build::busy("10.11.19-MariaDB"), 81.0);
    let unseen = with_summary().sessions(|_| Vec::new());
    // Prepared, beside statements that the summary has.
    let prepared = with_summary()
        .counter("Com_stmt_execute", 900.0)
        .counter("Bytes_sent", 14e6)
        .sessions(|_| (20..24).map(|id| session(id, "Execute", "Sending data", "")).collect());
    for build in [scanning(without_summary(), 81.0), with_summary(), unseen, prepared] {
        let finding = found(&build.window());
        assert!(finding.headline.contains("81 for each row returned"), "{}", finding.headline);
        assert!(finding.severity > spindoctor_model::Severity::Note, "{}", finding.score);
    }
    // A fifteenth of the rows is wanted.
    assert_eq!(of(scanning(without_summary(), 15.0)), Outcome::Clear);
    // The same beside other work that takes most of the CPU.
    let beside = scanning(without_summary(), 81.0).counter("Handler_read_rnd_next", 9e5);
    assert_eq!(of(beside.counter("Rows_sent", 9e5 / 81.0)), Outcome::Clear);
    // A dump, of which MySQL counts the rows by statement alone.
    let dump = scanning(Build::busy("8.0.36"), 81.0).sessions(|_| Vec::new());
    let dump = dump.digest_scans("SELECT * FROM t", 900.0, 1_900.0, Rows { examined: 1e4, sent: 1e4 }, 1.0);
    assert_eq!(of(without_rows_sent(dump)), Outcome::Clear);
    // Small tables, and a report that groups.
    assert_eq!(of(scanning(without_summary(), 81.0).counter("Select_scan", 90_000.0)), Outcome::Clear);
    let report = "SELECT k, COUNT(*) FROM t GROUP BY k";
    let report = scanning(without_summary(), 81.0)
        .sessions(move |_| (20..24).map(|id| session(id, "Query", "Sending data", report)).collect());
    assert_eq!(of(report), Outcome::Clear);
}

/// As sysbench's oltp_read_only does: sums over ranges of an index, a hundred rows each, and the temporary tables of its DISTINCT.
#[test]
fn sums_over_ranges_of_an_index_are_no_scans_however_many_rows_they_read() {
    let read_only = Build::busy("10.11.19-MariaDB")
        .each(|_, server, _| server.digests = NotAsked)
        .counter("Handler_read_next", 9e6)
        .counter("Innodb_rows_read", 9e6)
        .counter("Handler_read_rnd_next", 2e6)
        .counter("Rows_sent", 6e6)
        .counter("Select_scan", 0.0);
    assert_eq!(evaluate(&read_only.window()), Outcome::Clear);
    let sums_alone = Build::busy("10.11.19-MariaDB")
        .each(|_, server, _| server.digests = NotAsked)
        .counter("Handler_read_next", 9e6)
        .counter("Innodb_rows_read", 9e6)
        .counter("Handler_read_rnd_next", 0.0)
        .counter("Rows_sent", 9e4);
    assert_eq!(evaluate(&sums_alone.window()), Outcome::Clear);
}

/// A GROUP BY of a text by an index: each row is written or found in a temporary table, whose rows are then read back.
#[test]
fn rows_that_are_read_back_from_temporary_tables_are_no_scans() {
    let groups = |scans_per_s, written_per_s| {
        let window = Build::busy("10.5.23-MariaDB")
            .each(|_, server, _| server.digests = NotAsked)
            .counter("Handler_read_next", 325_000.0)
            .counter("Innodb_rows_read", 325_000.0)
            .counter("Handler_read_rnd_next", 246_000.0)
            .counter("Handler_tmp_write", written_per_s)
            .counter("Handler_tmp_update", 82_000.0)
            .counter("Created_tmp_tables", 88.0)
            .counter("Select_scan", scans_per_s)
            .counter("Rows_sent", 1_770.0);
        evaluate(&window.window())
    };
    assert_eq!(groups(6.0, 327_000.0), Outcome::Clear);
    // Tables that scans fill, and few rows that are written.
    for (scans_per_s, written_per_s) in [(80.0, 327_000.0), (6.0, 90_000.0)] {
        assert!(matches!(groups(scans_per_s, written_per_s), Outcome::Fired(_)), "{scans_per_s}");
    }
}

#[test]
fn executions_that_the_summary_calls_so_are_statements_too() {
    let window = Build::busy("9.7.4")
        .digest_scans(
            "EXECUTE SELECT `c` FROM `t` WHERE `pad` = ?",
            12.0,
            150_000.0,
            Rows { examined: 200_000.0, sent: 2.0 },
            1.0,
        )
        .window();
    let finding = found(&window);
    assert!(finding.headline.contains("returned by SELECT `c` FROM `t`"), "{}", finding.headline);
    assert!(finding.remedies[0].statement.starts_with("EXPLAIN SELECT"), "{}", finding.remedies[0].statement);
}

/// One session counts pairs of rows for minutes, beside clients that are well served; so many threads wait for a CPU.
fn runs_on(queued_cpus: f64) -> Window {
    let pairs = "SELECT COUNT(*) FROM a JOIN b ON a.k < b.k";
    let clients = |at: usize| at.is_multiple_of(3).then(|| session(31, "Query", "executing", "SELECT 1"));
    without_summary()
        .without_profile()
        .runs(1.2, queued_cpus)
        .sessions(move |at| {
            let report =
                ServerThread { time_s: 70.0 + at as f64, ..session(20, "Query", "executing", pairs) };
            std::iter::once(report).chain(clients(at)).collect()
        })
        .window()
}

#[test]
fn one_statement_that_runs_on_is_a_note_while_the_others_are_well_served() {
    let finding = found(&runs_on(0.02));
    assert_eq!(finding.severity, spindoctor_model::Severity::Note, "{}", finding.score);
    assert_eq!(
        finding.headline,
        "One statement of connection 20 reads 3,000,000 rows a second by scans and takes about 0.6 CPUs: SELECT COUNT(*) FROM a \
         JOIN b ON a.k < b.k"
    );
    assert!(finding.evidence.iter().any(|evidence| evidence.reading == "CPUs that the scans take"));
    // Five threads wait for a CPU meanwhile.
    assert!(found(&runs_on(5.0)).score > 0.1, "{}", found(&runs_on(5.0)).score);
}

fn without_summary() -> Build {
    Build::busy("10.11.19-MariaDB")
        .counter("Handler_read_rnd_next", 3e6)
        .counter("Innodb_rows_read", 3.1e6)
        .counter("Rows_sent", 30.0)
        .each(|_, server, _| server.digests = NotAsked)
}

#[test]
fn a_literal_behind_a_comment_is_in_no_finding() {
    let statement = "SELECT /* it's */ name FROM t WHERE email = 'alice@example.com'";
    let window =
        without_summary().sessions(move |_| vec![session(20, "Query", "Sending data", statement)]).window();
    let finding = found(&window);
    assert!(finding.headline.contains("SELECT name FROM t"), "{}", finding.headline);
    let all = serde_json::to_string(&finding).unwrap();
    assert!(!all.contains("alice"), "{all}");
}

#[test]
fn without_the_summary_the_counters_show_and_the_thread_list_names_the_statement() {
    let window = without_summary()
        .sessions(|at| {
            vec![session(
                20,
                "Query",
                "Sending data",
                &format!("SELECT * FROM orders WHERE note = 'x{at}' LIMIT 5"),
            )]
        })
        .window();
    let finding = found(&window);
    assert!(
        finding.headline.ends_with("SELECT * FROM orders WHERE note = ? LIMIT ?"),
        "{}",
        finding.headline
    );
    assert!((0.1..0.2).contains(&finding.score), "{}", finding.score);
}

#[test]
fn who_reads_whole_tables_because_that_is_its_work_wastes_nothing() {
    let of = |statement: &'static str| {
        let window = without_summary().sessions(move |_| vec![session(20, "Query", "", statement)]);
        evaluate(&window.window())
    };
    for statement in [
        "ALTER TABLE orders ENGINE = InnoDB, ALGORITHM = COPY",
        "/* nightly */ ANALYZE TABLE orders",
        "CREATE INDEX noted ON orders (note)",
        "LOAD DATA INFILE 'orders.csv' INTO TABLE orders",
    ] {
        assert_eq!(of(statement), Outcome::Clear, "{statement}");
    }
    // What has no plan of its own is not asked for one.
    let Outcome::Fired(finding) = of("CALL close_the_day()") else { panic!("a procedure that scans") };
    assert!(!finding.remedies[0].statement.starts_with("EXPLAIN"), "{finding:#?}");
}

#[test]
fn who_waits_for_a_row_is_not_the_one_that_scans() {
    const CHANGE: &str = "UPDATE zebras SET k = k + 1 WHERE id = 1";
    let window = without_summary()
        .sessions(|_| {
            let mut sessions =
                vec![session(20, "Query", "Sending data", "SELECT * FROM orders WHERE note = 'x'")];
            sessions.extend((21..28).map(|id| session(id, "Query", "Updating", CHANGE)));
            sessions
        })
        .each(|at_s, server, _| {
            let waiting = (21..28).map(|id| transaction(id, "LOCK WAIT", 5.0)).collect();
            server.transactions = answer(at_s, waiting);
        });
    assert!(found(&window.window()).headline.contains("FROM orders"));
}

#[test]
fn workers_that_poll_an_empty_queue_without_a_pause_are_named_with_the_pause() {
    let poll = "SELECT `id` FROM `jobs` WHERE `state` = ? LIMIT ? FOR UPDATE SKIP LOCKED";
    let polling = |sent| evaluate(&Build::busy("8.0.36").digest(poll, 9_000.0, 150.0, 0.0, sent).window());
    let Outcome::Fired(finding) = polling(0.0) else { panic!("it should fire") };
    assert!(
        finding
            .headline
            .starts_with("9000 polls with SKIP LOCKED a second find no free row, 100 % of all such"),
        "{}",
        finding.headline
    );
    assert!(finding.severity > spindoctor_model::Severity::Note, "{}", finding.score);
    assert!(finding.why.contains("in a loop without a pause"), "{}", finding.why);
    assert!(finding.remedies[0].statement.contains("a pause after each poll"), "{:?}", finding.remedies);
    assert!(finding.remedies[1].statement.contains("LIMIT 1"), "{:?}", finding.remedies);
    assert_eq!(polling(1.0), Outcome::Clear, "a queue that is worked off");
    // Without the summary the statement seen most says so.
    let seen = without_summary().sessions(|_| {
        vec![session(
            20,
            "Query",
            "Sending data",
            "SELECT id FROM jobs WHERE state = 'new' FOR UPDATE SKIP LOCKED",
        )]
    });
    let finding = found(&seen.window());
    assert!(finding.why.contains("in a loop without a pause"), "{}", finding.why);
}

/// A replica's applier that finds no key: its rows are in the counters of all, and in no summary.
#[test]
fn rows_that_a_replicas_applier_reads_are_blamed_on_no_statement() {
    const APPLIES: &[&str] = &[
        "row_search_mvcc",
        "handler::ha_rnd_next",
        "Rows_log_event::do_table_scan_and_update",
        "Rows_log_event::do_apply_event",
    ];
    const READS: &[&str] = &["row_search_mvcc", "handler::ha_rnd_next", "sub_select"];
    const CLIENT: &str = "SELECT name FROM customers WHERE id = 5";
    let replica = |build: Build| {
        build.each(|_, server, _| {
            if let spindoctor_model::Reading::Available { value: threads, .. } = &mut server.threads {
                threads.push(ServerThread {
                    name: "thread/sql/slave_sql".into(),
                    thread_os_id: Some(4312),
                    user: "system user".into(),
                    command: "Connect".into(),
                    ..ServerThread::default()
                });
            }
        })
    };
    let client = without_summary().sessions(|_| vec![session(20, "Query", "Sending data", CLIENT)]);
    for build in [prepared(3_000.0), client] {
        let finding = found(&replica(build).running(1000, 0.9, APPLIES).window());
        assert!(finding.headline.contains("most of them by the replica's applier"), "{}", finding.headline);
        let all = serde_json::to_string(&finding).unwrap();
        assert!(!all.contains("prepared statements") && !all.contains("customers"), "{all}");
        assert!(finding.remedies[0].statement.contains("a primary key"), "{:?}", finding.remedies);
        // Hardly anyone waits for a CPU.
        assert_eq!(finding.severity, spindoctor_model::Severity::Note, "{}", finding.score);
    }
    let headline = |build: Build| found(&build.window()).headline;
    // Where the samples say that it is not the applier, or there is none, it is not it; where they say nothing, it may be.
    let said = headline(replica(prepared(3_000.0)).running(1000, 0.9, READS));
    assert!(said.ends_with("by prepared statements, of which this server's summary has none"), "{said}");
    let said = headline(prepared(3_000.0).without_profile());
    assert!(said.ends_with("by prepared statements, of which this server's summary has none"), "{said}");
    let said = headline(replica(prepared(3_000.0)).without_profile());
    assert!(said.contains("or by the replica's applier"), "{said}");
}

#[test]
fn nothing_is_computed_from_a_counter_that_is_not_there() {
    let scans = || {
        Build::busy("10.11.19-MariaDB")
            .each(|_, server, _| server.digests = NotAsked)
            .counter("Handler_read_rnd_next", 9e6)
            .words("Innodb_rows_read", "")
            .words("Rows_sent", "")
            .sessions(|_| Vec::new())
    };
    let by_statement = found(&scans().counter("Questions", 900.0).window());
    assert!(by_statement.headline.contains("10,000 for each statement"), "{}", by_statement.headline);
    let queries = scans().words("Questions", "").counter("Queries", 900.0);
    assert_eq!(found(&queries.window()).headline, by_statement.headline);
    let without = evaluate(&scans().words("Questions", "").window());
    assert!(matches!(without, Outcome::NotEnoughEvidence(_)), "{without:?}");
}
