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
