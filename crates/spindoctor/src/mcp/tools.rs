//! What can be asked: one list, from which the protocol's description and the command lines come. Pure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Described, ToolAnnotations};
use serde_json::{Value, json};

/// Seconds that a server is watched, where the question does not say.
const SECONDS: u64 = 10;
/// And at most: an assistant waits for the answer.
const MOST_SECONDS: u64 = 60;
/// Rows of a table at most.
const MOST_ROWS: u64 = 100;
/// Characters of an argument at most: a pattern, a time, a name.
const LONGEST: usize = 500;

/// What a question becomes.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask {
    /// A command line, without the program's name; of the server where the first word is a command of it.
    Command(Vec<String>),
    /// The list of events of a recording.
    Events(PathBuf),
}

/// What a tool needs to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The live server.
    Server,
    /// A recording.
    Recording,
    /// Neither.
    Nothing,
}

/// One of the questions.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    about: &'static str,
    of: Of,
    /// Its arguments: name, what it is, its type in JSON, whether it must be there.
    arguments: &'static [Argument],
    /// The question with its arguments, which are of the right types.
    ask: fn(&Given<'_>) -> Result<Ask, String>,
}

/// An argument.
#[derive(Clone, Copy)]
struct Argument {
    name: &'static str,
    about: &'static str,
    kind: Kind,
    is_needed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// A whole number from 1 to this.
    Number(u64),
}

const fn text(name: &'static str, about: &'static str) -> Argument {
    Argument { name, about, kind: Kind::Text, is_needed: false }
}

const fn needed(argument: Argument) -> Argument {
    Argument { is_needed: true, ..argument }
}

const DURATION: Argument = Argument {
    name: "seconds",
    about: "how long to watch the server: 3 to 60, 10 by default",
    kind: Kind::Number(MOST_SECONDS),
    is_needed: false,
};
const ROWS: Argument = Argument {
    name: "rows",
    about: "rows of each table, 10 by default",
    kind: Kind::Number(MOST_ROWS),
    is_needed: false,
};
const RECORDING: Argument = text("recording", "the recording's file name, as the tool `recordings` lists it");
const FROM: Argument =
    text("from", "from this time on: 2026-07-01T09:30:00Z, 09:30 (UTC), or -10m before the end");
const TO: Argument = text("to", "up to this time");

/// All of them, in the order in which they are listed.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "doctor",
        about: "Diagnose the live server: where its sessions' time goes, ranked causes of lost time with evidence and remedies, and \
                what could not be examined. The first thing to ask when a server is slow.",
        of: Of::Server,
        arguments: &[DURATION],
        ask: |given| Ok(command(&["doctor", "--json", "--duration", &given.seconds()?])),
    },
    Tool {
        name: "locks",
        about: "Who blocks whom on the live server now: the root of each pile-up over all kinds of locks, who waits behind it, and \
                what would free them.",
        of: Of::Server,
        arguments: &[],
        ask: |_| Ok(command(&["locks", "--json"])),
    },
    Tool {
        name: "host",
        about: "What the host gives the live server: effective CPUs, quota and throttling, PAUSE latency, memory, disks.",
        of: Of::Server,
        arguments: &[],
        ask: |_| Ok(command(&["host", "--json"])),
    },
    Tool {
        name: "workload",
        about: "What statements spend the live server's time on, by digest, table, user, host, state, wait and tag, without literals; \
                what is read and sent.",
        of: Of::Server,
        arguments: &[
            DURATION,
            ROWS,
            text("grep", "count only statements that match this regular expression"),
        ],
        ask: |given| {
            let mut line = vec!["workload".into(), "--json".into(), "--duration".into(), given.seconds()?];
            given.add(&mut line, "rows", "--top");
            given.add(&mut line, "grep", "--grep");
            Ok(Ask::Command(line))
        },
    },
    Tool {
        name: "recordings",
        about: "The recordings that can be asked about: file names, from when to when.",
        of: Of::Nothing,
        arguments: &[],
        // Answered where the list is known.
        ask: |_| Ok(command(&[])),
    },
    Tool {
        name: "events",
        about: "The stalls and restarts of a recording, newest first: number, when, why, cause.",
        of: Of::Recording,
        arguments: &[needed(RECORDING)],
        ask: |given| Ok(Ask::Events(given.recording("recording")?.to_owned())),
    },
    Tool {
        name: "report",
        about: "The report of an event of a recording, or of a time of it: numbers before and during, diagnosis, statements, settings \
                that changed, who blocked whom.",
        of: Of::Recording,
        arguments: &[
            needed(RECORDING),
            Argument {
                name: "event",
                about: "the event's number; without it and without a time, the worst one",
                kind: Kind::Number(u64::MAX),
                is_needed: false,
            },
            FROM,
            TO,
        ],
        ask: |given| {
            let has = |name: &str| given.arguments.contains_key(name);
            if has("event") && (has("from") || has("to")) {
                return Err("name an event or a time, not both".to_owned());
            }
            let mut line = vec!["report".into(), "--json".into()];
            given.add(&mut line, "event", "--event");
            given.add(&mut line, "from", "--from");
            given.add(&mut line, "to", "--to");
            line.push("--".into());
            line.push(path(given.recording("recording")?)?);
            Ok(Ask::Command(line))
        },
    },
    Tool {
        name: "top_statements",
        about: "What statements spent their time on in a part of a recording.",
        of: Of::Recording,
        arguments: &[needed(RECORDING), FROM, TO, ROWS],
        ask: |given| {
            let mut line = vec!["workload".into(), "--json".into(), "--recording".into()];
            line.push(path(given.recording("recording")?)?);
            given.add(&mut line, "from", "--from");
            given.add(&mut line, "to", "--to");
            given.add(&mut line, "rows", "--top");
            Ok(Ask::Command(line))
        },
    },
    Tool {
        name: "compare_statements",
        about: "How the statements of one time of a recording differ from those of another: calls, time, rows read, scans, waits, with \
                intervals; new and gone ones. Finds plans that changed.",
        of: Of::Recording,
        arguments: &[
            needed(text("before", "the recording's file name")),
            text("before_from", "from this time on"),
            text("before_to", "up to this time"),
            text("after", "another recording's file name; the same one by default"),
            text("after_from", "from this time on"),
            text("after_to", "up to this time"),
        ],
        ask: |given| {
            let side = |name: &str, from: &str, to: &str| -> Result<String, String> {
                let file = path(given.recording(name)?)?;
                let (from, to) = (given.text(from).unwrap_or_default(), given.text(to).unwrap_or_default());
                Ok(if from.is_empty() && to.is_empty() { file } else { format!("{file}@{from}..{to}") })
            };
            let after = if given.text("after").is_some() { "after" } else { "before" };
            let before = side("before", "before_from", "before_to")?;
            let after = side(after, "after_from", "after_to")?;
            Ok(Ask::Command(vec!["workload".into(), "--json".into(), "--diff".into(), before, after]))
        },
    },
    Tool {
        name: "explain",
        about: "What a cause means: mechanism, evidence, what looks alike, remedies and how safe they are. Without a name, all causes.",
        of: Of::Nothing,
        arguments: &[text("cause", "its name, as a diagnosis gives it: row-lock-pileup")],
        ask: |given| {
            let mut line = vec!["explain".into(), "--json".into(), "--".into()];
            line.extend(given.text("cause").map(str::to_owned));
            Ok(Ask::Command(line))
        },
    },
];

/// The arguments of a question, with the recordings that may be named.
pub struct Given<'a> {
    arguments: &'a JsonObject,
    recordings: &'a [PathBuf],
}

impl Given<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    fn seconds(&self) -> Result<String, String> {
        match self.arguments.get("seconds").and_then(Value::as_u64).unwrap_or(SECONDS) {
            seconds if seconds < 3 => Err("seconds must be 3 to 60".to_owned()),
            seconds => Ok(format!("{seconds}s")),
        }
    }

    /// `--flag=value`: a value that begins with a hyphen is no flag.
    fn add(&self, line: &mut Vec<String>, name: &str, flag: &str) {
        let value = match self.arguments.get(name) {
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => self.text(name).map(str::to_owned),
        };
        line.extend(value.map(|value| format!("{flag}={value}")));
    }

    /// The recording of that file name: one of those that were named at the beginning, and no other file.
    fn recording(&self, name: &str) -> Result<&Path, String> {
        let wanted = self.text(name).ok_or_else(|| format!("{name} is missing"))?;
        let found = self.recordings.iter().find(|file| file_name(file) == wanted);
        found.map(PathBuf::as_path).ok_or_else(|| {
            let known: Vec<String> = self.recordings.iter().map(|file| file_name(file)).collect();
            format!("there is no recording {wanted:?}; there are {}", known.join(", "))
        })
    }
}

/// What a recording is called.
pub fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

fn path(file: &Path) -> Result<String, String> {
    file.to_str().map(str::to_owned).ok_or_else(|| "its path is no UTF-8".to_owned())
}

fn command(words: &[&str]) -> Ask {
    Ask::Command(words.iter().map(|word| (*word).to_owned()).collect())
}

impl Tool {
    /// True where it can be asked: there is a server, or a recording.
    pub fn is_there(&self, has_server: bool, has_recordings: bool) -> bool {
        match self.of {
            Of::Server => has_server,
            Of::Recording => has_recordings,
            Of::Nothing => true,
        }
    }

    /// As the protocol describes it.
    pub fn described(&self) -> Described {
        let properties: JsonObject = self
            .arguments
            .iter()
            .map(|argument| {
                let value = match argument.kind {
                    Kind::Text => json!({"type": "string", "description": argument.about}),
                    Kind::Number(most) => {
                        json!({"type": "integer", "minimum": 1, "maximum": most, "description": argument.about})
                    }
                };
                (argument.name.to_owned(), value)
            })
            .collect();
        let needed: Vec<&str> = self
            .arguments
            .iter()
            .filter(|argument| argument.is_needed)
            .map(|argument| argument.name)
            .collect();
        let schema = json!({
            "type": "object", "properties": properties, "required": needed, "additionalProperties": false,
        });
        let schema = match schema {
            Value::Object(fields) => fields,
            _ => JsonObject::new(),
        };
        Described::new(self.name, self.about, Arc::new(schema))
            .with_annotations(ToolAnnotations::new().read_only(true))
    }

    /// What a question becomes.
    ///
    /// # Errors
    /// An argument is missing, unknown, of another type, or too large; a recording is not one of these.
    pub fn asked(&self, arguments: &JsonObject, recordings: &[PathBuf]) -> Result<Ask, String> {
        for (name, value) in arguments {
            let Some(argument) = self.arguments.iter().find(|argument| argument.name == name.as_str()) else {
                let known: Vec<&str> = self.arguments.iter().map(|argument| argument.name).collect();
                return Err(format!(
                    "{name:?} is not an argument of {}; there are {}",
                    self.name,
                    known.join(", ")
                ));
            };
            let is_good = match (argument.kind, value) {
                (Kind::Text, Value::String(text)) => text.len() <= LONGEST && !text.contains('\0'),
                (Kind::Number(most), Value::Number(number)) => {
                    number.as_u64().is_some_and(|number| (1..=most).contains(&number))
                }
                _ => false,
            };
            if !is_good {
                return Err(match argument.kind {
                    Kind::Text => format!("{name} must be a text of at most {LONGEST} bytes"),
                    Kind::Number(u64::MAX) => format!("{name} must be a whole number from 1 on"),
                    Kind::Number(most) => format!("{name} must be a whole number from 1 to {most}"),
                });
            }
        }
        if let Some(missing) = self
            .arguments
            .iter()
            .find(|argument| argument.is_needed && !arguments.contains_key(argument.name))
        {
            return Err(format!("{} is missing", missing.name));
        }
        (self.ask)(&Given { arguments, recordings })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn asked(name: &str, arguments: Value) -> Result<Ask, String> {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let Value::Object(arguments) = arguments else { panic!("an object") };
        tool.asked(&arguments, &["/var/lib/spindoctor/db17.rec".into()])
    }

    fn line(words: &[&str]) -> Result<Ask, String> {
        Ok(command(words))
    }

    #[test]
    fn a_question_becomes_the_command_line_that_a_person_would_write() {
        assert_eq!(asked("doctor", json!({})), line(&["doctor", "--json", "--duration", "10s"]));
        assert_eq!(
            asked("workload", json!({"seconds": 5, "grep": "--literals"})),
            line(&["workload", "--json", "--duration", "5s", "--grep=--literals"])
        );
        assert_eq!(
            asked("report", json!({"recording": "db17.rec", "from": "-10m"})),
            line(&["report", "--json", "--from=-10m", "--", "/var/lib/spindoctor/db17.rec"])
        );
        assert_eq!(
            asked(
                "compare_statements",
                json!({"before": "db17.rec", "before_to": "09:00", "after_from": "09:10"})
            ),
            line(&[
                "workload",
                "--json",
                "--diff",
                "/var/lib/spindoctor/db17.rec@..09:00",
                "/var/lib/spindoctor/db17.rec@09:10..",
            ])
        );
        assert_eq!(
            asked("events", json!({"recording": "db17.rec"})),
            Ok(Ask::Events("/var/lib/spindoctor/db17.rec".into()))
        );
    }

    #[test]
    fn no_argument_reaches_another_file_or_another_flag() {
        for (name, arguments, why) in [
            ("events", json!({"recording": "/etc/passwd"}), "there is no recording"),
            ("events", json!({"recording": "../spindoctor/db17.rec"}), "there is no recording"),
            ("events", json!({}), "recording is missing"),
            ("report", json!({"recording": "db17.rec", "event": 3, "from": "-5m"}), "not both"),
            ("doctor", json!({"seconds": 0}), "1 to 60"),
            ("doctor", json!({"seconds": 2}), "3 to 60"),
            ("doctor", json!({"seconds": 86_400}), "1 to 60"),
            ("doctor", json!({"seconds": "10s; rm"}), "1 to 60"),
            ("doctor", json!({"html": "/root/.ssh/authorized_keys"}), "is not an argument"),
            ("locks", json!({"socket": "/tmp/other.sock"}), "is not an argument"),
            ("workload", json!({"grep": "x".repeat(LONGEST + 1)}), "at most"),
        ] {
            let refused = asked(name, arguments.clone()).unwrap_err();
            assert!(refused.contains(why), "{name} {arguments}: {refused}");
        }
        // What looks like a flag is the value of one, or a name that no cause has.
        let given = asked("report", json!({"recording": "db17.rec", "from": "--html=/x"}));
        assert_eq!(
            given,
            line(&["report", "--json", "--from=--html=/x", "--", "/var/lib/spindoctor/db17.rec"])
        );
    }

    /// Whatever the arguments are, clap takes the line for that command, and for nothing that writes.
    #[test]
    fn every_line_is_one_that_the_program_knows() {
        for tool in TOOLS.iter().filter(|tool| tool.name != "recordings") {
            let arguments: JsonObject = tool
                .arguments
                .iter()
                // Instead of it, a time is asked for.
                .filter(|argument| argument.name != "event")
                .map(|argument| {
                    let value = match argument.kind {
                        Kind::Number(_) => json!(5),
                        Kind::Text if argument.name.contains("from") || argument.name.contains("to") => {
                            json!("2026-07-01T09:30:00Z")
                        }
                        Kind::Text if argument.name == "cause" => json!("spin-burn"),
                        Kind::Text => json!("db17.rec"),
                    };
                    (argument.name.to_owned(), value)
                })
                .collect();
            let Ok(Ask::Command(words)) = tool.asked(&arguments, &["db17.rec".into()]) else { continue };
            let line = std::iter::once("spindoctor".to_owned()).chain(words).map(OsString::from);
            assert!(crate::commands::parse(line).is_ok(), "{}", tool.name);
        }
    }

    #[test]
    fn every_tool_only_reads_and_says_so() {
        for tool in TOOLS {
            let described = serde_json::to_value(tool.described()).unwrap();
            assert_eq!(described["annotations"]["readOnlyHint"], true, "{}", tool.name);
            assert_eq!(described["inputSchema"]["type"], "object");
        }
    }
}
