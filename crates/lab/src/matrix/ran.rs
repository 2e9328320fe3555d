//! The program, run as a user runs it, and what it printed.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Map, Value};

/// No command of the matrix takes that long on any machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How much of an answer stands in a failure.
const SHOWN: usize = 6_000;

/// What a command printed, and how it ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Ran {
    /// The words after the program's name.
    pub(super) words: Vec<String>,
    /// Standard output.
    pub(super) out: String,
    /// Standard error.
    pub(super) err: String,
    /// None where it did not end by itself.
    pub(super) code: Option<i32>,
}

impl Ran {
    pub(super) fn of_output(words: &[String], output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (out, err) = (text(output.stdout), text(output.stderr));
        Self { words: words.to_owned(), out, err, code: output.status.code() }
    }

    /// The answer for [`super::holds`]: the JSON that was printed, with the texts and the code beside it.
    pub(super) fn answer(&self) -> Value {
        let mut answer: Value = serde_json::from_str(&self.out).unwrap_or_default();
        if !answer.is_object() {
            answer = Value::Object(Map::new());
        }
        // Others that take the machine's CPUs are real where tests share it.
        for findings in ["/findings", "/diagnosis/findings"] {
            if let Some(Value::Array(findings)) = answer.pointer_mut(findings) {
                findings.retain(|finding| finding["cause"] != "noisy-neighbour");
            }
        }
        answer["stdout"] = self.out.as_str().into();
        answer["stderr"] = self.err.as_str().into();
        answer["exit"] = self.code.into();
        answer
    }

    /// All that was printed, for a failure.
    pub(super) fn shown(&self) -> String {
        let start = |text: &str| text.chars().take(SHOWN).collect::<String>();
        format!("{}: {:?}\n{}\n{}", self.words.join(" "), self.code, start(&self.out), start(&self.err))
    }
}

/// Runs the program with an empty home, no option file and no server in its environment.
pub(super) async fn run_program(program: &Path, words: &[String], folder: &Path) -> Ran {
    let output = command(program, words, folder).kill_on_drop(true).output();
    match tokio::time::timeout(PATIENCE, output).await {
        Ok(Ok(output)) => Ran::of_output(words, output),
        Ok(Err(error)) => Ran { err: error.to_string(), ..Ran::default() },
        Err(_) => Ran {
            words: words.to_owned(),
            err: format!("no answer within {} s", PATIENCE.as_secs()),
            ..Ran::default()
        },
    }
}

/// The same, not yet started. What it keeps goes to a folder of the row's.
pub(super) fn command(program: &Path, words: &[String], folder: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command
        .args(words)
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("XDG_STATE_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
