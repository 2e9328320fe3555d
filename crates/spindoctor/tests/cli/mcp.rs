//! `mcp`, as an assistant's program uses it: lines of JSON-RPC on standard input and output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use spindoctor_record::{Writer, WriterOptions};

use crate::lab::{on_both, with_server};
use crate::program::{complained, printed};
use crate::running::process;

/// A session with an assistant's program.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Session {
    fn begin(line: &str) -> Self {
        let mut child = process(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        let mut session = Self { child, input, output: BufReader::new(output), next: 0 };
        let client = json!({"name": "test", "version": "1"});
        let begun = session.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        );
        assert_eq!(begun["result"]["serverInfo"]["name"], "spindoctor", "{begun:#}");
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("it reads");
        input.flush().expect("it reads");
    }

    /// A request, and its answer.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).expect("it answers") > 0, "it ended before its answer");
            let answer: Value = serde_json::from_str(&line).expect("nothing but messages on standard output");
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// The names of the tools.
    fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().expect("a list");
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// The text of a tool's answer, and whether it is an error.
    fn call(&mut self, name: &str, arguments: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer:#}"));
        (text.to_owned(), result["isError"] == true)
    }

    fn json(&mut self, name: &str, arguments: &Value) -> Value {
        let (text, is_error) = self.call(name, arguments);
        assert!(!is_error, "{name}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{name}: {why}: {text}"))
    }

    /// Standard input ends: so does the program.
    fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "the end of its input is no success: {status}");
    }
}

#[test]
fn the_help_of_mcp_is_this() {
    let (help, code) = printed("mcp --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}

/// Whether it has this schema, of whatever version.
fn is_of(value: &Value, schema: &str) -> bool {
    value["schema"].as_str().is_some_and(|own| own.starts_with(schema))
}

#[test]
fn an_assistant_asks_a_live_server_and_gets_what_the_commands_print() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let line = format!("mcp --no-defaults -u root -S {}", server.socket().display());
            let mut session = Session::begin(&line);
            let tools = session.tools();
            let is_offered = |name: &str| tools.iter().any(|tool| tool == name);
            assert!(is_offered("doctor") && !is_offered("report"), "{which:?}: {tools:?}");
            let diagnosis = session.json("doctor", &json!({"seconds": 3}));
            assert!(is_of(&diagnosis, "spindoctor.diagnosis/"), "{which:?}: {diagnosis:#}");
            let locks = session.json("locks", &json!({}));
            assert!(is_of(&locks, "spindoctor.locks/"), "{which:?}: {locks:#}");
            let workload = session.json("workload", &json!({"seconds": 3, "rows": 5}));
            assert_eq!(workload["schema"], "spindoctor.workload/1", "{which:?}: {workload:#}");
            session.end();
        });
    });
}

fn recording(file: &Path) {
    let writer = Writer::open(file, WriterOptions::default()).expect("a recording");
    drop(writer);
}

#[test]
fn a_recording_that_is_not_there_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.rec");
    std::fs::write(&text, "SELECT 1;\n".repeat(1000)).expect("a file");
    for (file, reason) in [
        ("/nonexistent/db17.rec".to_owned(), "there is no recording at /nonexistent/db17.rec"),
        (text.display().to_string(), "it is not a SQLite database"),
    ] {
        let (message, code) = complained(&format!("mcp --no-server --recording {file}"));
        assert_eq!((code, message.lines().count()), (2, 1), "{message}");
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn what_cannot_be_asked_gets_one_clear_line_and_the_session_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("db17.rec");
    recording(&file);
    let mut session = Session::begin(&format!("mcp --no-server --recording {}", file.display()));
    let tools = session.tools();
    assert!(
        tools.iter().any(|tool| tool == "report") && !tools.iter().any(|tool| tool == "doctor"),
        "{tools:?}"
    );
    for (name, arguments, why) in [
        ("events", json!({"recording": "/etc/passwd"}), "there is no recording"),
        ("events", json!({}), "recording is missing"),
        ("report", json!({"recording": "db17.rec", "html": "/tmp/x.html"}), "is not an argument"),
        ("report", json!({"recording": "db17.rec"}), "has no sample yet"),
        ("report", json!({"recording": "db17.rec", "from": "--html=/tmp/x.html"}), "is not a unit of time"),
        ("top_statements", json!({"recording": "db17.rec", "rows": 1_000_000}), "1 to 100"),
        ("explain", json!({"cause": "spin-bum"}), "spin-burn"),
        ("explain", json!({"cause": "--help"}), "there is no cause"),
    ] {
        let (text, is_error) = session.call(name, &arguments);
        assert!(is_error && text.contains(why), "{name}: {text}");
    }
    let answer = session.ask("tools/call", &json!({"name": "tune", "arguments": {"apply": true}}));
    assert!(
        answer["error"]["message"].as_str().is_some_and(|why| why.contains("there is no tool")),
        "{answer:#}"
    );
    let listed = session.json("recordings", &json!({}));
    assert_eq!(listed[0]["recording"], "db17.rec");
    assert_eq!(session.json("events", &json!({"recording": "db17.rec"}))["events"], json!([]));
    let explained = session.json("explain", &json!({"cause": "spin-burn"}));
    assert!(explained.to_string().contains("spin-burn"));
    session.end();
}
