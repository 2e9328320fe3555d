//! `spindoctor fleet` of real servers: the ways in, a wrong password, replicas, and writes that go in waves.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use spindoctor_lab::stub::Conduct;
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::fleet::{List, query, stub};
use crate::lab::{on_both, runtime, start, with_server};
use crate::program::{printed, spindoctor};

#[test]
fn real_servers_of_both_kinds_answer_through_tls_sockets_and_tcp_and_a_wrong_password_is_a_reason() {
    with_server(Which::Mysql, |mysql| {
        with_server(Which::Mariadb, |mariadb| answer_through_tls_sockets_and_tcp(mysql, mariadb));
        gives_a_wrong_password_as_a_reason_and_does_not_repeat_it(mysql);
    });
}

fn answer_through_tls_sockets_and_tcp(mysql: &Server, mariadb: &Server) {
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
    let encrypted = [&login[..], &["--ssl-mode=REQUIRED", "--where", "kind=mysql", "--json"]].concat();
    let run = query("SHOW STATUS LIKE 'Ssl_cipher'", &list, &encrypted);
    let cipher = run.json()[0]["rows"][0][1].as_str().map(str::len);
    assert!(cipher.is_some_and(|length| length > 5), "{}{}", run.out(), run.err());
    let checked = [&login[..], &["--ssl-mode=VERIFY_CA", "--where", "kind=mysql"]].concat();
    let run = query("SELECT 1", &list, &checked);
    assert!(run.err().contains("connect: TLS failed: "), "{}", run.err());

    // Without TLS the password itself is not sent; what the server has in its cache needs none.
    let open = [&login[..], &["--ssl-mode=DISABLED", "--where", "kind=mysql"]].concat();
    let run = query("SELECT 1", &list, &open);
    assert_eq!(run.code(), Some(0), "it is not in the cache: {}", run.err());
    let sockets = ["-u", "root", "--where", "kind!=mysql,mariadb", "--json"];
    let run = query("SELECT @@version", &list, &sockets);
    assert_eq!((run.code(), run.json().len()), (Some(0), 2), "{}", run.err());
}

fn gives_a_wrong_password_as_a_reason_and_does_not_repeat_it(server: &Server) {
    let list = List::from_text(&format!("127.0.0.1:{}\n", server.port()));
    let run = query("SELECT 1", &list, &["-u", "spindoctor", "-phunter2", "--json"]);
    let (out, line) = (run.out(), run.err());
    assert_eq!(run.code(), Some(2), "{out}{line}");
    assert_eq!(run.json()[0]["reason"], "auth", "{out}{line}");
    assert!(line.contains("0 of 1 server answered") && line.contains("auth: error 1045"), "{line}");
    assert!(!line.contains("hunter2") && !out.contains("hunter2"), "{out}{line}");
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
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--yes does not ask"), "{said}");

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
        assert_eq!(events, ["wave", "done", "wave", "failed", "failed"], "{text}");
        assert_eq!(lines[0]["statement"], create, "{text}");
        assert_eq!(lines[3]["outcome"], "not done", "{text}");
    });
}

/// Starts a source and a replica of it.
fn replicating(which: &Which, look: impl FnOnce(&Server, &Server)) {
    let runtime = runtime();
    let start = |id: u32| {
        let options = ["--server-id=ID", "--log-bin=binlog", "--report-host=127.0.0.1"];
        let options = options.map(|option| option.replace("ID", &id.to_string())).to_vec();
        let spec = ServerSpec { which: which.clone(), options, ..ServerSpec::default() };
        runtime.block_on(start(&spec))
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
    on_both(|which| {
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
    });
}
