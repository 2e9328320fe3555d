//! `spindoctor fleet` against real servers, and against stub servers that misbehave.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::pileup::{Piled, find, pile_up};
use spindoctor_lab::stub::{Conduct, Stub, addresses, process_list, value};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use tempfile::TempDir;

use crate::live::with_server;
use crate::program::{printed, spindoctor};

/// A list of servers in a file.
pub(crate) struct List {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
}

impl List {
    pub(crate) fn from_text(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("servers");
        std::fs::write(&path, text).expect("a file");
        Self { folder, path }
    }
}

/// `spindoctor fleet query` of a list.
fn query(sql: &str, list: &List, flags: &[&str]) -> Run {
    let mut command = spindoctor("fleet query");
    command.arg(sql);
    ran(command, list, flags)
}

/// A command of `spindoctor fleet` over a list.
pub(crate) fn ran(mut command: assert_cmd::Command, list: &List, flags: &[&str]) -> Run {
    command.args(["--no-defaults", "--servers"]).arg(&list.path).args(flags);
    if !flags.contains(&"-u") {
        command.args(["-u", "app"]);
    }
    let begun = Instant::now();
    let output = command.output().expect("the program runs");
    Run { output, took: begun.elapsed() }
}

pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) took: Duration,
}

impl Run {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn json(&self) -> Vec<Value> {
        self.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

pub(crate) fn stub(conduct: Conduct) -> Stub {
    Stub::start(conduct).expect("stub servers")
}

/// Looks at sessions that pile up behind a row, on a server of each kind. They go on meanwhile, on a thread of their own.
pub(crate) fn with_pileups(look: impl FnOnce(&Piled, &Piled)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let _context = runtime.enter();
    let home = Home::open().expect("the lab has a folder");
    let row = find("row").expect("a pile-up");
    let piled = |which: &Which| runtime.block_on(pile_up(&home, row, which, &|_| {})).expect("a pile-up");
    let (mysql, mariadb) = (piled(&Which::Mysql), piled(&Which::Mariadb));
    look(&mysql, &mariadb);
}

#[test]
fn the_help_of_fleet_query_is_this() {
    let (help, code) = printed("fleet query --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn real_servers_of_both_kinds_answer_through_tls_sockets_and_tcp() {
    with_server(Which::Mysql, |mysql| {
        with_server(Which::Mariadb, |mariadb| {
            let list = List::from_text(&format!(
                "127.0.0.1:{} kind=mysql\nh=127.0.0.1,P={} kind=mariadb\n{} kind=socket\nmysql://root@localhost/?socket={}\n",
                mysql.port(),
                mariadb.port(),
                mysql.socket().display(),
                mariadb.socket().display(),
            ));
            let login = ["-u", "spindoctor", "-pspindoctor"];
            let tcp = [&login[..], &["--ordered", "--where", "kind=mysql,mariadb"]].concat();
            let run = query("SELECT @@port, 'a\tb', NULL, x'ff00'", &list, &tcp);
            let (first, second) = (mysql.port(), mariadb.port());
            assert_eq!(
                run.output.stdout,
                format!("127.0.0.1:{first}\t{first}\ta\\tb\tNULL\t")
                    .into_bytes()
                    .into_iter()
                    .chain(*b"\xff\\0\n")
                    .chain(format!("127.0.0.1:{second}\t{second}\ta\\tb\tNULL\t").into_bytes())
                    .chain(*b"\xff\\0\n")
                    .collect::<Vec<u8>>(),
                "{}",
                run.err()
            );
            assert_eq!((run.code(), run.err().as_str()), (Some(0), ""));

            // TLS, which MySQL makes for itself.
            let encrypted =
                [&login[..], &["--ssl-mode=REQUIRED", "--where", "kind=mysql", "--json"]].concat();
            let run = query("SHOW STATUS LIKE 'Ssl_cipher'", &list, &encrypted);
            let cipher = run.json()[0]["rows"][0][1].as_str().map(str::len);
            assert!(cipher.is_some_and(|length| length > 5), "{}{}", run.out(), run.err());
            let checked = [&login[..], &["--ssl-mode=VERIFY_CA", "--where", "kind=mysql"]].concat();
            let run = query("SELECT 1", &list, &checked);
            assert!(run.err().contains("connect: TLS failed: "), "{}", run.err());

            // Without TLS the password itself is not sent; what the server has in its cache needs none.
            let open = [&login[..], &["--ssl-mode=DISABLED", "--where", "kind=mysql"]].concat();
            assert_eq!(query("SELECT 1", &list, &open).code(), Some(0), "it is in the cache");
            let sockets = ["-u", "root", "--where", "kind!=mysql,mariadb", "--json"];
            let run = query("SELECT @@version", &list, &sockets);
            assert_eq!((run.code(), run.json().len()), (Some(0), 2), "{}", run.err());
        });
    });
}

#[test]
fn a_wrong_password_is_a_reason_and_is_not_repeated() {
    with_server(Which::Mysql, |server| {
        let list = List::from_text(&format!("127.0.0.1:{}\n", server.port()));
        let run = query("SELECT 1", &list, &["-u", "spindoctor", "-phunter2", "--json"]);
        assert_eq!(run.code(), Some(2));
        assert_eq!(run.json()[0]["reason"], "auth");
        assert!(
            run.err().contains("0 of 1 server answered") && run.err().contains("auth: error 1045"),
            "{}",
            run.err()
        );
        assert!(!run.err().contains("hunter2") && !run.out().contains("hunter2"));
    });
}

#[test]
fn nothing_is_written_without_write_whatever_the_statement_hides() {
    for which in [Which::Mysql, Which::Mariadb] {
        with_server(which, |server| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime
                .block_on(server.execute([
                    "CREATE DATABASE d",
                    "CREATE TABLE d.t (a INT)",
                    "CREATE FUNCTION d.f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO d.t VALUES (1); RETURN 1; END",
                    "CREATE VIEW d.v AS SELECT d.f() AS one",
                ]))
                .expect("a function that writes");
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
                assert_eq!(run.code(), Some(2), "{sql}: {}", run.err());
                assert!(run.err().contains("--write sends it anyway"), "{sql}: {}", run.err());
            }
            // What a view calls only the server sees, and refuses: 1792 in a transaction that is read only.
            let run = query("SELECT one FROM d.v", &list, &root);
            assert!(run.err().contains("query: error 1792"), "{}", run.err());
            // Nor can a second statement stand behind the first.
            let run = query("SELECT 1; DELETE FROM d.t", &list, &root);
            assert!(run.err().contains("it is more than one statement"), "{}", run.err());
            let run = query("SELECT COUNT(*) FROM d.t", &list, &root);
            assert!(run.out().ends_with("\t0\n"), "{}{}", run.out(), run.err());
        });
    }
}

#[test]
fn a_statement_that_takes_too_long_is_ended_on_the_server_too() {
    for which in [Which::Mysql, Which::Mariadb] {
        with_server(which, |server| {
            let list = List::from_text(&format!("{}\n", server.socket().display()));
            // Minutes of work that changes nothing: hundreds to the fourth power of rows.
            let long = "SELECT COUNT(CONCAT(a.ID, b.ID, c.ID)) FROM information_schema.COLLATIONS a, \
                        information_schema.COLLATIONS b, information_schema.COLLATIONS c, information_schema.COLLATIONS d";
            let run = query(long, &list, &["-u", "root", "--query-timeout", "500ms", "--json"]);
            assert!(run.took < Duration::from_secs(5), "{:?}", run.took);
            let answer = run.json().remove(0);
            assert!(answer["reason"] == "timeout", "{answer}");
            let left = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%CONCAT(a.ID, b.ID%' AND INFO \
                        NOT LIKE '%PROCESSLIST%'";
            let begun = Instant::now();
            loop {
                let run = query(left, &list, &["-u", "root"]);
                if run.out().ends_with("\t0\n") {
                    break;
                }
                assert!(begun.elapsed() < Duration::from_secs(15), "{}{}", run.out(), run.err());
            }
        });
    }
}

/// The server's state that a statement could change: settings, locks of users, tables, accounts.
fn state_of(server: &spindoctor_lab::Server) -> String {
    let ask = |sql: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(server.ask(sql)).expect("an answer").unwrap_or_default()
    };
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
    for which in [Which::Mysql, Which::Mariadb] {
        with_server(which, |server| {
            let list = List::from_text(&format!("{}\n", server.socket().display()));
            let before = state_of(server);
            for sql in harmless {
                let run = query(sql, &list, &["-u", "root"]);
                assert!(!run.err().contains("--write"), "{sql}: {}", run.err());
            }
            for sql in acting {
                let run = query(sql, &list, &["-u", "root"]);
                assert!(run.err().contains("--write"), "{sql}: {}{}", run.out(), run.err());
            }
            assert_eq!(state_of(server), before);
        });
    }
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (which, own) in [(Which::Mysql, MYSQL_ONLY), (Which::Mariadb, MARIADB_ONLY)] {
        with_server(which, |server| {
            let before = state_of(server);
            let is_mariadb = server.version().is_mariadb();
            runtime.block_on(async {
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
                    assert_eq!(after, state, "{name} on {}", server.version());
                    state = after;
                }
                assert!(answered > 300, "only {answered} calls were answered");
                // What does not pass is noticed here.
                for acting in [
                    "SELECT LAST_INSERT_ID(5)",
                    "SELECT @a := 5",
                    "SELECT GET_LOCK('spindoctor.test', 0)",
                    "USE mysql",
                ] {
                    assert!(spindoctor_sql::check_reads(acting).is_err(), "{acting}");
                    session.query_drop(acting).await.expect("an answer");
                    let after = session_state(&mut session, is_mariadb).await;
                    assert_ne!(after, state, "{acting}");
                    state = session_state(&mut session, is_mariadb).await;
                }
            });
            assert_eq!(state_of(server), before);
        });
    }
}

#[test]
fn writing_goes_in_waves_stops_at_the_first_trouble_and_is_logged() {
    with_server(Which::Mysql, |server| {
        let stubs = stub(Conduct::Deny);
        let list = List::from_text(&format!("{}\n{}", server.socket().display(), stubs.list(4)));
        let log = list.folder.path().join("log/writes.jsonl");
        let log_flag = format!("--log={}", log.display());
        let create = "CREATE DATABASE made_by_fleet";
        // There is no terminal to ask on.
        let mut unasked = Command::new("setsid");
        unasked
            .arg("--wait")
            .arg(spindoctor("").get_program())
            .args(["fleet", "query", create, "--write", "-u", "root"]);
        let output = unasked.arg("--no-defaults").arg("--servers").arg(&list.path).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--yes does not ask"));

        let run =
            query(create, &list, &["-u", "root", "--write", "--yes", "--wave", "1,2", "--json", &log_flag]);
        assert_eq!(run.code(), Some(1), "{}", run.err());
        let answers = run.json();
        assert_eq!((answers.len(), &answers[0]["rows"][0][0]), (3, &Value::from(1)), "{}", run.out());
        assert!(run.err().contains("stopped after wave 2 of 3: 2 servers failed"), "{}", run.err());
        assert!(run.err().contains("not asked\n    127.0.0.3:"), "{}", run.err());
        let text = std::fs::read_to_string(&log).expect("a log");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
        assert_eq!(events, ["wave", "done", "wave", "failed", "failed"]);
        assert_eq!(lines[0]["statement"], create);
        assert_eq!(lines[3]["outcome"], "not done");
    });
}

/// Starts a source and a replica of it.
fn replicating(which: &Which, look: impl FnOnce(&Server, &Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::open().expect("the lab has a folder");
    let start = |id: u32| {
        let options = ["--server-id=ID", "--log-bin=binlog", "--report-host=127.0.0.1"];
        let options = options.map(|option| option.replace("ID", &id.to_string())).to_vec();
        let spec = ServerSpec { which: which.clone(), options, ..ServerSpec::default() };
        runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server")
    };
    let (source, replica) = (start(71), start(72));
    let statements: Vec<String> = match which {
        Which::Mysql => vec![
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', \
                 SOURCE_PASSWORD='repl', SOURCE_SSL=1",
                source.port()
            ),
            "START REPLICA".to_owned(),
        ],
        _ => vec![
            format!(
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='repl', MASTER_PASSWORD='repl'",
                source.port()
            ),
            "START SLAVE".to_owned(),
        ],
    };
    let account = ["CREATE USER repl@'%' IDENTIFIED BY 'repl'", "GRANT REPLICATION SLAVE ON *.* TO repl@'%'"];
    runtime.block_on(source.execute(account)).expect("an account");
    // SHOW REPLICAS wants REPLICATION SLAVE, MariaDB's REPLICATION MASTER ADMIN.
    runtime.block_on(source.execute(["GRANT ALL ON *.* TO spindoctor@'127.0.0.1'"])).expect("a grant");
    runtime.block_on(replica.execute(statements)).expect("a replica");
    look(&source, &replica);
}

#[test]
fn replicas_are_found_from_their_source() {
    for which in [Which::Mysql, Which::Mariadb] {
        replicating(&which, |source, replica| {
            let line = format!(
                "fleet servers --no-defaults -u spindoctor -pspindoctor --discover 127.0.0.1:{}",
                source.port()
            );
            let expected = format!(
                "127.0.0.1:{} role=source\n127.0.0.1:{} role=replica\n",
                source.port(),
                replica.port()
            );
            let begun = Instant::now();
            // A replica takes a moment to come.
            loop {
                let (text, code) = printed(&line);
                if text == expected {
                    break;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "{which:?} {code}: {text}");
                std::thread::sleep(Duration::from_millis(200));
            }
        });
    }
}

#[test]
fn each_trouble_is_shown_once_with_its_servers_and_holds_nobody_up() {
    let good = stub(Conduct::Answer(value("v", "ON")));
    let slow = stub(Conduct::Slow(Duration::from_millis(300), value("v", "OFF")));
    let hang = stub(Conduct::Hang);
    let hang_when_asked = stub(Conduct::HangWhenAsked);
    let full = stub(Conduct::Full);
    let deny = stub(Conduct::Deny);
    let cut_off = stub(Conduct::CutOff(process_list(4000)));
    let babble = stub(Conduct::Babble(b"\x05\0\0\x01\xfcabcd".to_vec()));
    let no_mysql = stub(Conduct::NoMysql(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    let refuse_set = stub(Conduct::RefuseSet);
    // Nobody listens where somebody just did.
    let dead = stub(Conduct::Hang).port();
    let mut text = good.list(50) + &slow.list(2) + &format!("127.0.0.9:{dead}\n127.0.0.8:{dead}\n");
    for one in [&hang, &hang_when_asked, &full, &deny, &cut_off, &babble, &no_mysql, &refuse_set] {
        text.push_str(&one.list(1));
    }
    let list = List::from_text(&text);
    let run = query("SELECT 1", &list, &["--connect-timeout", "1s", "--query-timeout", "1s", "--group"]);
    assert_eq!(run.code(), Some(1));
    // The login is quick and the answer never comes: the deadlines do not add up by more than the login.
    assert!(run.took < Duration::from_millis(1700), "{:?}", run.took);
    let port = slow.port();
    assert_eq!(
        run.out(),
        format!("50 servers: ON\n2 servers: OFF\n    127.0.0.1:{port}, 127.0.0.2:{port}\n"),
    );
    let line = run.err();
    let counted = "52 of 62 servers answered in ";
    assert!(line.contains(counted) && line.contains("; connect 4, auth 1, timeout 2, query 3\n"), "{line}");
    for expected in [
        format!(
            "connect: connection refused: nothing listens there\n    127.0.0.9:{dead}, 127.0.0.8:{dead}\n"
        ),
        format!(
            "timeout: no connection within 1 s: the server hangs, or a firewall drops the packets\n    127.0.0.1:{}\n",
            hang.port()
        ),
        format!("timeout: no answer within 1 s\n    127.0.0.1:{}\n", hang_when_asked.port()),
        format!("connect: error 1040: Too many connections\n    127.0.0.1:{}\n", full.port()),
        format!(
            "auth: error 1045: Access denied for user 'app'@'localhost'\n    127.0.0.1:{}\n",
            deny.port()
        ),
        format!(
            "query: the server closed the connection before its answer was whole\n    127.0.0.1:{}\n",
            cut_off.port()
        ),
        format!(
            "query: it does not speak MySQL's protocol: an answer that begins with nothing known\n    127.0.0.1:{}\n",
            babble.port()
        ),
    ] {
        assert!(line.contains(&expected), "{expected} in {line}");
    }
    assert!(line.contains("connect: it does not speak MySQL's protocol: "), "{line}");
    assert!(
        line.contains("query: not asked: SET SESSION autocommit = 1, transaction_read_only = 1"),
        "{line}"
    );
}

#[test]
fn nobody_answering_is_exit_2_and_so_is_a_list_without_servers() {
    let dead = stub(Conduct::Hang).port();
    let list = List::from_text(&format!("127.0.0.1:{dead} role=x\n"));
    assert_eq!(query("SELECT 1", &list, &[]).code(), Some(2));
    let run = query("SELECT 1", &list, &["--where", "role=y"]);
    assert!(run.code() == Some(2) && run.err().contains("--where leaves none of 1 server"), "{}", run.err());
    let run = query("SELECT 1", &List::from_text("# nobody\n"), &[]);
    assert!(run.code() == Some(2) && run.err().contains("no server in the list"), "{}", run.err());
    let run = query("SELECT 1", &List::from_text("db1\nroot:hunter2@db2\n"), &[]);
    assert!(run.err().contains("line 2 of the list") && !run.err().contains("hunter2"), "{}", run.err());
    let (_, code) = printed("fleet query SELECT");
    assert_eq!(code, 2, "no list at all");
}

#[test]
fn lists_come_from_files_standard_input_and_commands() {
    let stubs = stub(Conduct::Answer(value("v", "1")));
    let port = stubs.port();
    let mut command = spindoctor("fleet query SELECT --no-defaults -u app --servers - --ordered");
    command.arg("--servers-from").arg(format!("printf '127.0.0.3:{port} a=b\\n127.0.0.1:{port}\\n'"));
    let output = command
        .env("PATH", "/usr/bin:/bin")
        .write_stdin(format!("127.0.0.1:{port} x=y\n127.0.0.2:{port}\n"))
        .output()
        .expect("the program runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(out, format!("127.0.0.1:{port}\t1\n127.0.0.2:{port}\t1\n127.0.0.3:{port}\t1\n"));
    let mut failing = spindoctor("fleet query SELECT --servers-from false");
    let output = failing.env("PATH", "/usr/bin:/bin").output().expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn sql_runs_over_all_answers_and_parquet_has_them() {
    let stubs = stub(Conduct::Answer(process_list(20_000)));
    let list = List::from_text(&stubs.list(30).replace('\n', " dc=ams\n"));
    let sql = "SELECT dc, count(*) AS n, max(Time) AS longest, count(DISTINCT server) AS servers \
               FROM answers JOIN servers USING (server) WHERE Command = 'query'";
    let run = query("SHOW FULL PROCESSLIST", &list, &["--sql", sql, "--json"]);
    assert_eq!(run.code(), Some(0), "{}", run.err());
    let rows = 20_000 / 190;
    assert_eq!(run.json(), [serde_json::json!({"dc": "ams", "n": 30 * rows, "longest": 59, "servers": 30})]);
    let run = query("SHOW FULL PROCESSLIST", &list, &["--sql", "SELECT nothing FROM answers"]);
    assert_eq!(run.code(), Some(2));
    assert!(
        run.err().contains("answers (server, Id, User, Host, db, Command, Time, State, Info)"),
        "{}",
        run.err()
    );

    let file = list.folder.path().join("answers.parquet");
    let run =
        query("SHOW FULL PROCESSLIST", &list, &["--format", "parquet", "--out", &file.display().to_string()]);
    assert_eq!((run.code(), run.out().as_str()), (Some(0), ""), "{}", run.err());
    let bytes = std::fs::read(&file).expect("a file");
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn large_answers_come_whole_in_parts_and_in_order() {
    let stubs = stub(Conduct::Answer(process_list(3_000_000)));
    let list = List::from_text(&stubs.list(12));
    let rows = 3_000_000 / 190;
    let run = query("SHOW FULL PROCESSLIST", &list, &["--ordered"]);
    assert_eq!(run.code(), Some(0), "{}", run.err());
    let out = run.out();
    let servers: Vec<&str> = out.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(servers.len(), 12 * rows);
    let expected: Vec<String> = addresses(12).map(|address| format!("{address}:{}", stubs.port())).collect();
    assert!(servers.chunks(rows).zip(&expected).all(|(chunk, server)| chunk.iter().all(|s| s == server)));
    let run = query("SHOW FULL PROCESSLIST", &list, &["--json"]);
    let objects = run.json();
    assert!(objects.len() > 12, "parts");
    let counted: usize = objects.iter().filter_map(|object| Some(object["rows"].as_array()?.len())).sum();
    assert_eq!(counted, 12 * rows);
    assert_eq!(objects.iter().filter(|object| object["ms"].is_number()).count(), 12);
}

#[test]
fn a_reader_that_has_enough_ends_it_well() {
    let stubs = stub(Conduct::Answer(process_list(3_000_000)));
    let list = List::from_text(&stubs.list(50));
    let mut child = Command::new(spindoctor("").get_program())
        .args(["fleet", "query", "SHOW FULL PROCESSLIST", "--no-defaults", "-u", "app", "--servers"])
        .arg(&list.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut first).expect("a line");
    assert!(first.starts_with("127.0.0."), "{first}");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn ctrl_c_prints_what_came_and_names_who_was_not_waited_for() {
    let good = stub(Conduct::Answer(value("v", "1")));
    let hang = stub(Conduct::HangWhenAsked);
    let list = List::from_text(&(good.list(3) + &hang.list(3)));
    let mut child = Command::new(spindoctor("").get_program())
        .args(["fleet", "query", "SELECT 1", "--no-defaults", "-u", "app", "--query-timeout", "60s"])
        .args(["--connections", "5", "--servers"])
        .arg(&list.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    for _ in 0..3 {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert!(line.ends_with("\t1\n"), "{line}");
    }
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let mut text = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut text).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "{text}");
    assert!(text.contains("3 of 6 servers answered") && text.contains("interrupted 3"), "{text}");
    assert!(text.contains(&format!("127.0.0.3:{}", hang.port())), "{text}");
}

#[test]
fn all_together_take_no_longer_than_they_may() {
    let good = stub(Conduct::Answer(value("v", "1")));
    let hang = stub(Conduct::HangWhenAsked);
    // One of the silent ones has its turn when the time is over.
    let list = List::from_text(&(good.list(3) + &hang.list(2)));
    let run = query("SELECT 1", &list, &["--within", "500ms", "--connections", "1"]);
    assert_eq!((run.code(), run.out().lines().count()), (Some(1), 3), "{}", run.err());
    assert!(run.took >= Duration::from_millis(500) && run.took < Duration::from_secs(5), "{:?}", run.took);
    let text = run.err();
    assert!(text.contains("3 of 5 servers answered") && text.contains("timeout 1, not asked 1"), "{text}");
    assert!(text.contains("timeout: no answer when the 0.5 s for all servers were over"), "{text}");
}

#[test]
fn limits_of_connections_and_of_their_rate_are_kept() {
    let slow = stub(Conduct::Slow(Duration::from_millis(200), value("v", "1")));
    let list = List::from_text(&slow.list(12));
    // Six rounds of two.
    let run = query("SELECT 1", &list, &["--connections", "2"]);
    assert!(run.code() == Some(0) && run.took >= Duration::from_millis(1200), "{:?}", run.took);
    let run = query("SELECT 1", &list, &["--per-second", "20"]);
    assert!(run.code() == Some(0) && run.took >= Duration::from_millis(11 * 50 + 200), "{:?}", run.took);
    // All at once.
    let run = query("SELECT 1", &list, &[]);
    assert!(run.took < Duration::from_millis(1000), "{:?}", run.took);
    // One host, two ports at a time: the same address twice is one host.
    let same: String = (0..4).map(|at| format!("h=127.0.0.1,P={},D=d{at}\n", slow.port())).collect();
    let run = query("SELECT 1", &List::from_text(&same), &["--per-host", "1"]);
    assert!(run.code() == Some(0) && run.took >= Duration::from_millis(800), "{:?} {}", run.took, run.err());
}

#[test]
fn a_list_of_many_is_answered_by_all() {
    let stubs = stub(Conduct::Answer(value("v", "ON")));
    let list = List::from_text(&stubs.list(3000));
    let run = query("SELECT @@x", &list, &["--group"]);
    assert_eq!((run.code(), run.out().as_str()), (Some(0), "3000 servers: ON\n"), "{}", run.err());
}

#[test]
fn every_format_can_be_had() {
    let stubs = stub(Conduct::Answer(value("v", "a,b")));
    let list = List::from_text(&stubs.list(2));
    let port = stubs.port();
    let of = |format: &str| query("SELECT 1", &list, &["--ordered", "--format", format]).out();
    assert_eq!(of("csv"), format!("server,v\r\n127.0.0.1:{port},\"a,b\"\r\n127.0.0.2:{port},\"a,b\"\r\n"));
    let width = format!("127.0.0.1:{port}").len();
    assert_eq!(
        of("table"),
        format!("{:<width$}  v\n127.0.0.1:{port}  a,b\n127.0.0.2:{port}  a,b\n", "server")
    );
    let mut file = std::fs::File::create(list.folder.path().join("x")).expect("a file");
    file.write_all(b"old").expect("written");
    let out = list.folder.path().join("x").display().to_string();
    assert_eq!(query("SELECT 1", &list, &["-o", &out]).out(), "");
    assert_eq!(std::fs::read_to_string(&out).expect("text").lines().count(), 2);
}
