//! `spindoctor fleet query` of stub servers that misbehave, and what all tests of `spindoctor fleet` share.

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;
use spindoctor_lab::stub::{Conduct, Stub, addresses, process_list, value};
use tempfile::TempDir;

use crate::lab::{on_both, with_server};
use crate::program::{printed, spindoctor};
use crate::running::{Running, process};

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
pub(crate) fn query(sql: &str, list: &List, flags: &[&str]) -> Run {
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

    /// Its lines, each of which is JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

pub(crate) fn stub(conduct: Conduct) -> Stub {
    Stub::start(conduct).expect("stub servers")
}

/// `spindoctor fleet query` that goes on, once it has printed three answers of stub servers whose value is 1.
pub(crate) fn answering(list: &List, flags: &[&str]) -> Running {
    let mut command = process("fleet query --no-defaults -u app");
    let mut running = Running::start(command.arg("SELECT 1").args(flags).arg("--servers").arg(&list.path));
    for _ in 0..3 {
        let line = running.line().expect("an answer");
        assert!(line.ends_with("\t1"), "{line}");
    }
    running
}

#[test]
fn the_help_of_fleet_query_is_this() {
    let (help, code) = printed("fleet query --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}

#[test]
fn a_statement_that_takes_too_long_is_ended_on_the_server_too() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let list = List::from_text(&format!("{}\n", server.socket().display()));
            // Minutes of work that changes nothing: hundreds to the fourth power of rows.
            let long = "SELECT COUNT(CONCAT(a.ID, b.ID, c.ID)) FROM information_schema.COLLATIONS a, \
                        information_schema.COLLATIONS b, information_schema.COLLATIONS c, information_schema.COLLATIONS d";
            let run = query(long, &list, &["-u", "root", "--query-timeout", "500ms", "--json"]);
            assert!(run.took < Duration::from_secs(5), "{which:?}: {:?}", run.took);
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
    });
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
    assert_eq!(run.code(), Some(1), "{}{}", run.out(), run.err());
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
    let run = query("SELECT 1", &list, &[]);
    assert_eq!(run.code(), Some(2), "nobody answered: {}{}", run.out(), run.err());
    let run = query("SELECT 1", &list, &["--where", "role=y"]);
    assert!(run.code() == Some(2) && run.err().contains("--where leaves none of 1 server"), "{}", run.err());
    let run = query("SELECT 1", &List::from_text("# nobody\n"), &[]);
    assert!(run.code() == Some(2) && run.err().contains("no server in the list"), "{}", run.err());
    let run = query("SELECT 1", &List::from_text("db1\nroot:hunter2@db2\n"), &[]);
    assert!(run.err().contains("line 2 of the list") && !run.err().contains("hunter2"), "{}", run.err());
    let (out, code) = printed("fleet query SELECT");
    assert_eq!(code, 2, "without a list: {out}");
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
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
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
    assert_eq!(run.code(), Some(2), "{}{}", run.out(), run.err());
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
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes are not Parquet", bytes.len());
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
    assert_eq!(servers.len(), 12 * rows, "rows are missing, or there twice");
    let expected: Vec<String> = addresses(12).map(|address| format!("{address}:{}", stubs.port())).collect();
    let mut chunks = servers.chunks(rows).zip(&expected);
    let is_in_order = chunks.all(|(chunk, server)| chunk.iter().all(|one| one == server));
    assert!(is_in_order, "rows are not in the order of {expected:?}");
    let run = query("SHOW FULL PROCESSLIST", &list, &["--json"]);
    let objects = run.json();
    assert!(objects.len() > 12, "{} parts of 12 answers", objects.len());
    let counted: usize = objects.iter().filter_map(|object| Some(object["rows"].as_array()?.len())).sum();
    assert_eq!(counted, 12 * rows, "rows are missing, or there twice");
    let last = objects.iter().filter(|object| object["ms"].is_number()).count();
    assert_eq!(last, 12, "each server has one last part");
}

#[test]
fn a_reader_that_has_enough_ends_it_well() {
    let stubs = stub(Conduct::Answer(process_list(3_000_000)));
    let list = List::from_text(&stubs.list(50));
    let mut command = process("fleet query --no-defaults -u app");
    let mut running = Running::start(command.arg("SHOW FULL PROCESSLIST").arg("--servers").arg(&list.path));
    let first = running.line().expect("a line");
    assert!(first.starts_with("127.0.0."), "{first}");
    running.close_output();
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn ctrl_c_prints_what_came_and_names_who_was_not_waited_for() {
    let good = stub(Conduct::Answer(value("v", "1")));
    let hang = stub(Conduct::HangWhenAsked);
    let list = List::from_text(&(good.list(3) + &hang.list(3)));
    let running = answering(&list, &["--query-timeout", "60s", "--connections", "5"]);
    // By then the others are asked.
    std::thread::sleep(Duration::from_millis(300));
    let ended = running.interrupted();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let text = &ended.err;
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
    let out = list.folder.path().join("x").display().to_string();
    std::fs::write(&out, "old").expect("a file");
    let run = query("SELECT 1", &list, &["-o", &out]);
    assert_eq!(run.out(), "", "it is printed beside the file: {}", run.err());
    let text = std::fs::read_to_string(&out).expect("text");
    assert_eq!(text.lines().count(), 2, "{text}");
}
