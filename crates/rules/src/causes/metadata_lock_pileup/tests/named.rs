//! Without a list of locks: the table that the statements name, and what speaks for the one transaction.

use super::*;

/// Nobody lists locks.
fn unread(build: Build) -> Build {
    build.each(|_, server, _| {
        server.metadata_locks = spindoctor_model::Reading::Unavailable(Unavailable::because("no plugin"));
    })
}

/// Connection 7 idles in a transaction in this schema, 8 wants to run a DDL, 20 to 29 wait behind it.
fn behind(ddl: &'static str, others: &'static str, schema: &'static str) -> Build {
    let of_schema = move |session: ServerThread| ServerThread { schema: schema.into(), ..session };
    let sessions = move |_| {
        let mut sessions = vec![session(7, "Sleep", "", ""), session(8, "Query", WAITS, ddl)];
        sessions.extend((20..30).map(|id| session(id, "Query", WAITS, others)));
        sessions.into_iter().map(of_schema).collect()
    };
    unread(Build::busy("10.11.19-MariaDB").sessions(sessions)).each(|at_s, server, _| {
        server.transactions = answer(at_s, vec![transaction(7, "RUNNING", 61.0)]);
    })
}

#[test]
fn the_table_is_the_one_that_the_ddl_and_all_who_wait_name() {
    let headline = |ddl, others, schema| found(&behind(ddl, others, schema).window()).headline;
    const ALTER: &str = "ALTER TABLE sbtest1 ADD COLUMN d INT";
    assert_eq!(
        headline(ALTER, "SELECT c FROM sbtest1 WHERE id = 1", ""),
        "Connection 7 most likely blocks 11 sessions that want the metadata lock of sbtest1: it is idle in transaction"
    );
    let sequence = headline(
        "ALTER SEQUENCE order_no CACHE 5000",
        "INSERT INTO orders VALUES (NEXT VALUE FOR order_no, 4)",
        "shop",
    );
    assert!(sequence.contains("that want the metadata lock of shop.order_no: "), "{sequence}");
    // One that wants something else may wait for something else.
    let other = headline(ALTER, "UPDATE other SET k = 1", "");
    assert!(!other.contains("sbtest1"), "{other}");
    let of_two = headline("DROP TABLE sbtest1, other", "SELECT c FROM sbtest1", "");
    assert!(!of_two.contains("metadata lock of"), "{of_two}");
}

#[test]
fn a_ddl_at_work_names_the_table_too_and_so_do_statements_without_one() {
    const CHANGE: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
    let with = |ddl: Option<&'static str>| {
        let sessions = move |_| {
            let ddl = ddl.map(|ddl| session(8, "Query", "copy to tmp table", ddl));
            ddl.into_iter().chain((20..26).map(|id| session(id, "Query", WAITS, CHANGE))).collect()
        };
        found(&unread(Build::busy("10.11.19-MariaDB").sessions(sessions)).window()).headline
    };
    let at_work = with(Some("ALTER TABLE sbtest1 ENGINE = InnoDB"));
    assert!(at_work.contains("that want the metadata lock of sbtest1: it runs ALTER TABLE"), "{at_work}");
    assert_eq!(with(None), "6 sessions wait for the metadata lock, most likely of sbtest1");
}

#[test]
fn nobody_waits_for_a_table_of_information_schema_itself() {
    const READS: &str = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'sbtest'";
    let sessions = |_| (20..26).map(|id| session(id, "Query", WAITS, READS)).collect();
    let headline = found(&unread(Build::busy("10.11.19-MariaDB").sessions(sessions)).window()).headline;
    assert_eq!(headline, "6 sessions wait for the metadata lock");
}

#[test]
fn it_is_said_whether_the_one_transaction_is_older_or_names_the_table() {
    let build = || behind("ALTER TABLE sbtest1 ADD COLUMN d INT", "SELECT c FROM sbtest1", "");
    let older = found(&build().window());
    assert!(older.why.contains("this one alone is older than the wait"), "{}", older.why);
    assert!(!older.why.contains("names the table"), "{}", older.why);
    // Another one is older as well.
    let naming = found(
        &build()
            .each(|at_s, server, _| {
                server.transactions =
                    answer(at_s, vec![transaction(7, "RUNNING", 61.0), transaction(9, "RUNNING", 90.0)]);
                if let spindoctor_model::Reading::Available { value: threads, .. } = &mut server.threads {
                    threads[0].last_statement = Some("SELECT c FROM sbtest1 WHERE id = 5".into());
                    threads.push(session(9, "Sleep", "", ""));
                }
            })
            .window(),
    );
    assert_eq!(naming.root.as_ref().and_then(|root| root.connection_id), Some(7), "{}", naming.headline);
    assert!(naming.why.contains("this one alone names the table"), "{}", naming.why);
    assert!(naming.remedies[0].why.contains("names the table"), "{}", naming.remedies[0].why);
}

/// Connection 11 is at work for 2 s, 12 rests for 900 s, 20 to 29 wait for 60 s, in one schema.
fn beside_one_that_rests(at_work: &'static str, waits: &'static str, opened_s: Option<f64>) -> Finding {
    let sessions = move |_| {
        let rests = ServerThread { time_s: 900.0, ..session(12, "Sleep", "", "") };
        let works = ServerThread { time_s: 2.0, ..session(11, "Query", "Sending data", at_work) };
        let waiting = (20..30).map(|id| ServerThread { time_s: 60.0, ..session(id, "Query", WAITS, waits) });
        let all = waiting.chain([rests, works]);
        all.map(|thread| ServerThread { schema: "shop".into(), ..thread }).collect()
    };
    let window = unread(Build::busy("10.11.19-MariaDB").sessions(sessions)).each(move |at_s, server, _| {
        let reads = |age_s| Transaction { rows_modified: 0, ..transaction(11, "RUNNING", age_s) };
        server.transactions = answer(at_s, opened_s.map(reads).into_iter().collect());
    });
    found(&window.window())
}

#[test]
fn who_goes_on_where_others_wait_has_locked_the_table_and_not_who_rests() {
    const DUMP: &str = "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t5`";
    const INSERT: &str = "INSERT INTO t1 VALUES (1)";
    const SELECT: &str = "SELECT a FROM t1 WHERE id = 4";
    for (at_work, waits, opened_s, holder) in [
        // mysqldump --lock-tables reads table by table, each in a transaction of its own.
        (DUMP, INSERT, None, 11),
        (DUMP, "ALTER TABLE t1 ADD b INT", None, 11),
        ("INSERT INTO t1 VALUES (2)", INSERT, None, 11),
        ("UPDATE t1 SET a = 1", SELECT, None, 11),
        ("SELECT * FROM t1", SELECT, None, 11),
        // With --single-transaction it has no lock of a table; and LOCK TABLES ... READ lets others read.
        (DUMP, INSERT, Some(80.0), 12),
        (DUMP, SELECT, None, 12),
        ("SELECT * FROM t1", INSERT, None, 12),
        ("UPDATE other.t1 SET a = 1", INSERT, None, 12),
        ("UPDATE t2 SET a = 1", "INSERT INTO t2 SELECT * FROM t1", None, 12),
    ] {
        let finding = beside_one_that_rests(at_work, waits, opened_s);
        let root = finding.root.as_ref().and_then(|root| root.connection_id);
        assert_eq!(root, Some(holder), "{at_work}, {waits}, {opened_s:?}: {}", finding.headline);
        assert!(finding.headline.contains("most likely"), "{}", finding.headline);
    }
    let dump = beside_one_that_rests(DUMP, INSERT, None);
    assert_eq!(dump.remedies[0].statement, "KILL 11");
    assert!(dump.why.contains("dumps its schema"), "{}", dump.why);
}

/// With --single-transaction in its first table: its transaction is as old as its statement, as of one that has locked its tables.
#[test]
fn a_dump_that_may_have_no_lock_is_not_ended_where_another_session_rests() {
    const DUMP: &str = "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t5`";
    for waits in ["INSERT INTO t1 VALUES (1)", "ALTER TABLE t1 ADD b INT"] {
        let finding = beside_one_that_rests(DUMP, waits, Some(2.0));
        let root = finding.root.as_ref().and_then(|root| root.connection_id);
        assert!(!matches!(root, Some(11 | 12)), "{waits}: {}", finding.headline);
        let mut statements = finding.remedies.iter().map(|remedy| remedy.statement.as_str());
        assert!(
            !statements.any(|one| ["KILL 11", "KILL 12"].contains(&one)),
            "{waits}: {:?}",
            finding.remedies
        );
    }
}

/// Of a child that is inserted its parent's row is looked at, and who locked the parent keeps that out; the other changes the child alone.
#[test]
fn who_goes_on_by_another_statement_may_use_fewer_tables_and_is_not_named() {
    let finding = beside_one_that_rests("UPDATE t1 SET a = 1", "INSERT INTO t1 VALUES (1)", None);
    let root = finding.root.as_ref().and_then(|root| root.connection_id);
    assert_eq!(root, None, "{}", finding.headline);
    assert!(!finding.remedies.iter().any(|one| one.statement.starts_with("KILL")), "{:?}", finding.remedies);
}
