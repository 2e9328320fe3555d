//! Logs of a server that what collected them wrote in JSON: an object a line, or a list of objects, each with a line of the log in it.
//!
//! ```text
//! {"log":"2024-05-02T08:01:40.123456Z 0 [Note] InnoDB: ...\n","stream":"stderr","time":"..."}      docker, containerd, fluent-bit
//! {"MESSAGE":"2024-05-02 08:01:40 0 [Note] InnoDB: ...","_SYSTEMD_UNIT":"mariadb.service"}          journalctl -o json
//! [{"textPayload": "2024-05-02T08:01:40.123456Z 0 [Note] InnoDB: ...", "timestamp": "..."}]         Cloud Logging
//! {"events": [{"message": "2024-05-02T08:01:40.123456Z 0 [Note] InnoDB: ...", "timestamp": 1}]}     CloudWatch
//! {"LogFileData": "2024-05-02 ...\n2024-05-02 ...\n", "Marker": "0"}                                RDS
//! ```
//!
//! What MySQL 8 writes in JSON itself (`log_sink_json`) `log_lines` reads.

use serde_json::Value;

use crate::log_lines::is_of_log;
use crate::{clock, json, slow_log, status};

/// Names of the text in such an object. That which is looked for first stands first.
const NAMES: [&str; 9] =
    ["log", "message", "MESSAGE", "textPayload", "@message", "LogFileData", "line", "msg", "body"];
/// Objects in objects that are looked into: `{"hits": {"hits": [{"_source": {"message": ...}}]}}`.
const DEEPEST: usize = 5;
/// Lines above the first object: a prompt, what a tool says of itself.
const ABOVE: usize = 20;

/// The log that such a text holds; None for other texts.
pub(crate) fn as_text(text: &str) -> Option<String> {
    let begins = text.lines().take(ABOVE).any(|line| line.trim_start().starts_with(['{', '[']));
    if !begins || !NAMES.iter().any(|name| text.contains(&format!("\"{name}\""))) {
        return None;
    }
    let mut texts = by_line(text).or_else(|| by_value(text))?;
    let times: Vec<_> = texts.iter().filter_map(|text| clock::time(text)).collect();
    if times.first() > times.last() {
        // Some tools print the last one first.
        texts.reverse();
    }
    // A runtime parts long lines: it writes the end of a line where there is one.
    let has_ends = texts.iter().any(|text| text.ends_with('\n'));
    let end = if has_ends { "" } else { "\n" };
    let whole: String = texts.iter().flat_map(|text| [text.as_str(), end]).collect();
    let is_of_server = |line: &str| {
        is_of_log(line) || slow_log::is_head(line) || status::is_of_status(line) || is_own_json(line)
    };
    whole.lines().any(is_of_server).then_some(whole)
}

/// True for a line that the server wrote in JSON.
fn is_own_json(line: &str) -> bool {
    line.starts_with('{') && line.contains("\"err_code\"")
}

/// The texts of a log with an object a line. A line that is none stays as it is.
fn by_line(text: &str) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    // Places of lines that stay as they are, and lines that have a text in them.
    let mut plain = Vec::new();
    let mut read = 0_usize;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let is_object =
            line.trim_start().starts_with('{') && !is_own_json(line) && json::has_few_values(line);
        let value = is_object.then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        let before = texts.len();
        if let Some(value) = value {
            collect(&value, DEEPEST, &mut texts);
        }
        if texts.len() > before {
            read += 1;
        } else {
            plain.push(texts.len());
            texts.push(line.to_owned());
        }
    }
    if texts.iter().any(|text| text.ends_with('\n')) {
        plain.iter().for_each(|at| texts[*at].push('\n'));
    }
    (read > plain.len()).then_some(texts)
}

/// The texts of a list of objects, or of objects without anything between them.
fn by_value(text: &str) -> Option<Vec<String>> {
    if !json::has_few_values(text) {
        return None;
    }
    let mut texts = Vec::new();
    for value in serde_json::Deserializer::from_str(text.trim()).into_iter::<Value>() {
        collect(&value.ok()?, DEEPEST, &mut texts);
    }
    (!texts.is_empty()).then_some(texts)
}

fn collect(value: &Value, deepest: usize, texts: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            // The server's own object in JSON is a line of its own.
            let is_own = map.contains_key("err_code");
            match NAMES.iter().find_map(|name| map.get(*name)?.as_str()).filter(|_| !is_own) {
                Some(text) => texts.push(text.to_owned()),
                None if deepest > 0 => map.values().for_each(|value| collect(value, deepest - 1, texts)),
                None => {}
            }
        }
        Value::Array(list) if deepest > 0 => list.iter().for_each(|value| collect(value, deepest - 1, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    const LINES: [&str; 7] = [
        "2024-05-02T08:01:40.100000Z 0 [Note] InnoDB: page_cleaner: 1000ms intended loop took 7691ms. The settings might not be optimal.",
        "2024-05-02T08:02:41.100000Z 0 [Warning] InnoDB: A long semaphore wait:",
        "--Thread 140406675191552 has waited at row0purge.cc line 862 for 241.00 seconds the semaphore:",
        "S-lock on RW-latch at 0x3ca8738 created in file dict0dict.cc line 1183",
        "a writer (thread id 140406373218048) has reserved it in mode  exclusive",
        "number of readers 0, waiters flag 1, lock_word: 0",
        "2024-05-02T08:03:42.100000Z 7 [ERROR] Disk is full writing './binlog.000411' (Errcode: 28 - No space left on device)",
    ];

    #[test]
    fn a_log_in_json_says_what_the_log_does_whatever_wrote_the_json() {
        let plain = LINES.join("\n") + "\n";
        let wanted = recognise("x", &plain);
        assert_eq!(wanted.len(), 1, "{wanted:?}");
        let each = |object: &dyn Fn(&str) -> Value| LINES.map(|line| object(line).to_string());
        let docker = |line: &str| json!({"log": format!("{line}\n"), "stream": "stderr", "time": "2024-05-02T08:01:40.1Z"});
        let cloud = |line: &&str| json!({"severity": "INFO", "textPayload": line, "timestamp": "2024-05-02T08:01:40Z"});
        let events = LINES.map(|line| json!({"ingestionTime": 17, "message": line, "timestamp": 17}));
        let hits = LINES.map(|line| json!({"_source": {"message": line}}));
        let own = json!({"err_code": 10907, "label": "Error", "msg": "Disk is full writing 'b'", "prio": 1, "subsystem": "Server",
                         "thread": 8, "time": "2024-05-02T08:03:42.100000Z"});
        let in_own_json = json!({"log": format!("{own}\n")});
        for text in [
            each(&docker).join("\n"),
            each(&docker).concat(),
            format!(
                "Defaulted container \"db\" out of: db, logs\n{}\n",
                each(&|line| json!({"log": line})).join("\n")
            ),
            each(&|line| json!({"date": 1.5, "log": line})).join("\n"),
            each(&|line| json!({"log": line, "file": "/var/lib/mysql/mysqld-error.log"})).join("\n"),
            each(&|line| json!({"MESSAGE": line, "_PID": "4711"})).join("\n"),
            serde_json::to_string_pretty(&LINES.iter().rev().map(cloud).collect::<Vec<_>>()).unwrap(),
            serde_json::to_string_pretty(&json!({"events": events, "nextForwardToken": "f/1"})).unwrap(),
            json!({"hits": {"hits": hits}}).to_string(),
            json!({"LogFileData": plain, "Marker": "0", "AdditionalDataPending": false}).to_string(),
        ] {
            let found = recognise("x", &text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!((found[0].kind, &found[0].says), (Kind::ErrorLog, &wanted[0].says), "{text}");
        }
        assert_eq!(recognise("x", &in_own_json.to_string())[0].kind, Kind::ErrorLog);
    }

    #[test]
    fn what_holds_no_line_of_a_server_stays_as_it_is() {
        for text in [
            r#"{"log": "GET /cart 200\n", "stream": "stdout"}"#,
            r#"[{"id": 7, "message": "hello"}]"#,
            r#"{"message": "#,
            "[mysqld]\nlog = 7\n",
            r#"[{"processlist_id": 7, "sql_text": "DO 1", "msg": "x"}]"#,
        ] {
            assert_eq!(as_text(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "(\\{\"log\": \"|\\{|\\}|\\[|\\]|\"|,|:|\"message\"|\\\\n|\n|[ -~é]){0,40}") {
            let _read = recognise("x", &text);
        }
    }
}
