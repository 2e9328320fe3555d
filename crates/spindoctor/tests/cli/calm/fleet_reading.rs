//! What `spindoctor fleet query` may do to real servers without `--write`: nothing, whatever a statement hides.

use spindoctor_lab::Server;

use crate::fleet::{List, query};
use crate::lab::{in_runtime, on_both, with_server};

#[test]
fn nothing_is_written_without_write_whatever_the_statement_hides() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let made = [
                "CREATE DATABASE d",
                "CREATE TABLE d.t (a INT)",
                "CREATE FUNCTION d.f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO d.t VALUES (1); RETURN 1; END",
                "CREATE VIEW d.v AS SELECT d.f() AS one",
            ];
            in_runtime(server.execute(made)).expect("a function that writes");
            let list = List::from_text(&format!("{}\n", server.socket().display()));
            let root = ["-u", "root"];
            for sql in [
                "DELETE FROM d.t",
                "SET GLOBAL max_connections = 10",
                "/*! INSERT INTO d.t VALUES (2) */",
                "SELECT 1 INTO OUTFILE '/tmp/spindoctor-fleet'",
                "EXPLAIN ANALYZE DELETE FROM d.t",
                "SELECT d.f()",
            ] {
                let run = query(sql, &list, &root);
                assert_eq!(run.code(), Some(2), "{which:?}: {sql}: {}", run.err());
                assert!(run.err().contains("--write sends it anyway"), "{which:?}: {sql}: {}", run.err());
            }
            // What a view calls only the server sees, and refuses: 1792 in a transaction that is read only.
            let run = query("SELECT one FROM d.v", &list, &root);
            assert!(run.err().contains("query: error 1792"), "{which:?}: {}", run.err());
            // Nor can a second statement stand behind the first.
            let run = query("SELECT 1; DELETE FROM d.t", &list, &root);
            assert!(run.err().contains("it is more than one statement"), "{which:?}: {}", run.err());
            let run = query("SELECT COUNT(*) FROM d.t", &list, &root);
            assert!(run.out().ends_with("\t0\n"), "{which:?}: {}{}", run.out(), run.err());
        });
    });
}

/// The server's state that a statement could change: settings, locks of users, tables, accounts.
fn state_of(server: &Server) -> String {
    let ask = |sql: &str| in_runtime(server.ask(sql)).expect("an answer").unwrap_or_default();
    let variables = match server.version().is_mariadb() {
        true => "information_schema.GLOBAL_VARIABLES",
        false => "performance_schema.global_variables",
    };
    // What changes by itself is no change: the time, the last GTID, random seeds.
    let own = "VARIABLE_NAME NOT REGEXP 'time|gtid|rand_seed|pseudo|last_|identity|warning|error_count'";
    [
        ask(&format!(
            "SELECT SUM(CRC32(CONCAT(VARIABLE_NAME, '=', VARIABLE_VALUE))) FROM {variables} WHERE {own}"
        )),
        ask("SELECT IS_FREE_LOCK('spindoctor.test')"),
        ask("SELECT COUNT(*) FROM information_schema.TABLES"),
        ask("SELECT COUNT(*) FROM information_schema.ROUTINES"),
        ask("SELECT COUNT(*) FROM mysql.user"),
    ]
    .join("\n")
}

#[test]
fn what_is_asked_without_write_leaves_the_server_as_it_was() {
    let harmless = [
        "SELECT @@version, NOW(), USER(), CONNECTION_ID(), DATABASE()",
        "SELECT COUNT(*), MAX(TABLE_NAME), GROUP_CONCAT(ENGINE) FROM information_schema.TABLES",
        "SELECT LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS(), IS_FREE_LOCK('spindoctor.test'), IS_USED_LOCK('spindoctor.test')",
        "SHOW GLOBAL STATUS LIKE 'Threads%'",
        "SHOW FULL PROCESSLIST",
        "SHOW ENGINE INNODB STATUS",
        "DESCRIBE mysql.user",
        "EXPLAIN SELECT * FROM mysql.user",
        "WITH a AS (SELECT 1 AS n) SELECT * FROM a",
        "SELECT CAST('1' AS DECIMAL(10, 2)), REPLACE('a', 'a', 'b'), JSON_EXTRACT('[1]', '$[0]'), UUID(), RAND(5), MD5('x')",
        "HELP 'SELECT'",
    ];
    let acting = [
        "SELECT GET_LOCK('spindoctor.test', 0)",
        "SELECT GET_LOCK/**/('spindoctor.test', 0)",
        "SELECT SLEEP(0.1)",
        "SELECT BENCHMARK(10, 1)",
        "SELECT LOAD_FILE('/etc/passwd')",
        "SELECT LAST_INSERT_ID(5)",
        "SELECT 1 INTO @a",
        "SELECT @a := 5",
        "SELECT 1 INTO OUTFILE '/tmp/spindoctor.test'",
        "SELECT * FROM mysql.user FOR UPDATE",
        "SELECT mysql.stored(1)",
        "SELECT stored(1)",
        "EXPLAIN DELETE FROM mysql.user",
        "SET GLOBAL max_connections = 7",
        "FLUSH STATUS",
        "SELECT /*! GET_LOCK('spindoctor.test', 0) */",
        "SELECT 1; SET GLOBAL max_connections = 7",
    ];
    on_both(|which| {
        with_server(which.clone(), |server| {
            let list = List::from_text(&format!("{}\n", server.socket().display()));
            let before = state_of(server);
            for sql in harmless {
                let run = query(sql, &list, &["-u", "root"]);
                assert!(!run.err().contains("--write"), "{which:?}: {sql}: {}", run.err());
            }
            for sql in acting {
                let run = query(sql, &list, &["-u", "root"]);
                assert!(run.err().contains("--write"), "{which:?}: {sql}: {}{}", run.out(), run.err());
            }
            assert_eq!(state_of(server), before, "{which:?}: the server has changed");
        });
    });
}

/// What a session may have that another one does not: its variables, those of the user, locks, an id that was given last.
async fn session_state(session: &mut mysql_async::Conn, is_mariadb: bool) -> Vec<String> {
    use mysql_async::prelude::Queryable as _;
    let variables = if is_mariadb {
        "information_schema.SESSION_VARIABLES"
    } else {
        "performance_schema.session_variables"
    };
    let mut questions = vec![
        // Values that change by themselves, and those of the last statement, are not changes.
        format!(
            "SELECT SUM(CRC32(CONCAT(VARIABLE_NAME, '=', VARIABLE_VALUE))) FROM {variables} WHERE VARIABLE_NAME NOT REGEXP \
             'time|gtid|rand_seed|last_gtid|warning_count|error_count|statement_id'"
        ),
        "SELECT CONCAT_WS(',', LAST_INSERT_ID(), @@identity, DATABASE(), @a)".to_owned(),
        // It says how many there were.
        "SELECT RELEASE_ALL_LOCKS()".to_owned(),
        "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = CONNECTION_ID()"
            .to_owned(),
    ];
    if !is_mariadb {
        questions.push(
            "SELECT GROUP_CONCAT(VARIABLE_NAME) FROM performance_schema.user_variables_by_thread".to_owned(),
        );
    }
    let mut state = Vec::new();
    for question in questions {
        let answer: Option<mysql_async::Row> = session.query_first(question).await.expect("an answer");
        state.push(format!("{:?}", answer.map(mysql_async::Row::unwrap)));
    }
    state
}

/// Every function that passes, with every handful of arguments that the server takes: the session is as it was.
#[test]
fn no_function_that_passes_changes_the_session() {
    use mysql_async::prelude::Queryable as _;
    use spindoctor_sql::reading::functions::{BOTH, MARIADB_ONLY, MYSQL_ONLY};
    const ARGUMENTS: [&str; 9] = [
        "",
        "1",
        "'a'",
        "'spindoctor.test', 0",
        "'a', 'b'",
        "NULL, 5",
        "'[1]', '$[0]', 2",
        "'a', 1, 2, 'b'",
        "DISTINCT TABLE_NAME",
    ];
    on_both(|which| {
        with_server(which, |server| {
            let before = state_of(server);
            let is_mariadb = server.version().is_mariadb();
            let own = if is_mariadb { MARIADB_ONLY } else { MYSQL_ONLY };
            in_runtime(async {
                let mut session = server.connect().await.expect("a session");
                let mut state = session_state(&mut session, is_mariadb).await;
                let mut answered = 0;
                for name in BOTH.iter().chain(own) {
                    for arguments in ARGUMENTS {
                        let sql = format!("SELECT {name}({arguments})");
                        if spindoctor_sql::check_reads(&sql).is_ok() {
                            answered += u32::from(session.query_drop(&sql).await.is_ok());
                        }
                    }
                    let after = session_state(&mut session, is_mariadb).await;
                    assert_eq!(after, state, "{name} changed the session on {}", server.version());
                    state = after;
                }
                assert!(answered > 300, "{}: only {answered} calls were answered", server.version());
                // What does not pass is noticed here.
                for acting in [
                    "SELECT LAST_INSERT_ID(5)",
                    "SELECT @a := 5",
                    "SELECT GET_LOCK('spindoctor.test', 0)",
                    "USE mysql",
                ] {
                    assert!(spindoctor_sql::check_reads(acting).is_err(), "{acting} passes");
                    session.query_drop(acting).await.expect("an answer");
                    let after = session_state(&mut session, is_mariadb).await;
                    assert_ne!(after, state, "{acting} changed nothing that is looked at");
                    state = session_state(&mut session, is_mariadb).await;
                }
            });
            assert_eq!(state_of(server), before, "{} has changed", server.version());
        });
    });
}
