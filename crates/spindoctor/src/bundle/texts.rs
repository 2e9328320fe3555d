//! The texts of a bundle: its report, stacks, variables and status, each from the recording that is in it, and README.txt,
//! which says what is here and what is not.

use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Event, Profile, Window};
use spindoctor_page::safe::safe;
use spindoctor_page::text::Look;
use spindoctor_page::{formats, number};
use spindoctor_profile::formats::FORMATS;
use spindoctor_profile::{Choice, View};
use spindoctor_record::Recording;

use crate::common::bundle::{LeftOut, Listed, Manifest, RECORDING, Text};
use crate::common::stalls::day_and_time;
use crate::incident;

/// Events whose stacks are here as texts; the recording has those of all.
const MOST_EVENTS: usize = 20;

/// What goes into a bundle beside its recording.
#[derive(Debug, Default)]
pub struct Pack {
    /// The texts.
    pub texts: Vec<Text>,
    /// What is not there, and why.
    pub left_out: Vec<LeftOut>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

impl Pack {
    /// Adds a text under a name below the bundle's folder.
    pub fn add(&mut self, name: impl Into<String>, about: &'static str, text: impl Into<Vec<u8>>) {
        self.texts.push(Text { name: name.into(), about, bytes: text.into() });
    }

    /// Says that something is not there.
    pub fn leave_out(&mut self, what: &str, because: &str) {
        self.left_out.push(LeftOut { what: what.to_owned(), because: safe(because) });
    }

    /// Adds a line of what a reader has to know.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

/// The report of the event, or without one of the whole part, as text and as a page.
pub fn add_report(pack: &mut Pack, recording: &Recording, file: &Path, event: Option<u64>) {
    match incident::pages(recording, file, event) {
        Ok((text, page)) => {
            pack.add("report.txt", "the report: `spindoctor report`", text);
            pack.add("report.html", "the same as a page for a browser", page);
        }
        Err(why) => pack.leave_out("the report", &format!("{why:#}")),
    }
}

/// The stacks of events, folded.
pub fn add_stacks(pack: &mut Pack, events: &[Event]) {
    let before = pack.texts.len();
    for event in events.iter().take(MOST_EVENTS) {
        for (phase, profile) in [("before", &event.before), ("during", &event.during)] {
            if let Some(folded) = profile.as_ref().and_then(folded) {
                let name = format!("stacks/event-{}-{phase}.folded", event.head.id);
                pack.add(name, "stacks, one a line with its count, for flame graphs", folded);
            }
        }
    }
    if pack.texts.len() == before {
        pack.leave_out("stacks", "the recording has none of this time: it takes them in events");
    } else if events.len() > MOST_EVENTS {
        pack.note(format!(
            "stacks are here as texts of the first {MOST_EVENTS} events; the recording has those of all"
        ));
    }
}

fn folded(profile: &Profile) -> Option<Vec<u8>> {
    let view = View::new(profile, &Choice::default()).ok()?;
    let format = formats::by_name(FORMATS, "folded")?;
    (format.render)(&view, Look::of_file()).ok().filter(|folded| !folded.is_empty())
}

/// The variables as they were at the end, and the status at both ends: the counters' growth is what happened between.
pub fn add_values(pack: &mut Pack, window: &Window) {
    match window.latest(|sample| &sample.server.variables) {
        Some(variables) => {
            pack.add("variables.txt", "SHOW GLOBAL VARIABLES, at the end", values(variables));
        }
        None => pack.leave_out("variables", "the recording has none of this time"),
    }
    let statuses = window.all(|sample| &sample.server.status);
    let (Some((_, first)), Some((_, last))) = (statuses.first(), statuses.last()) else {
        return pack.leave_out("the server's status", "the recording has none of this time");
    };
    pack.add("status-begin.txt", "SHOW GLOBAL STATUS, at the beginning", values(first));
    pack.add("status-end.txt", "SHOW GLOBAL STATUS, at the end", values(last));
}

/// As `mysql --batch` prints them: what is no name or value does not end a line.
fn values(values: &NamedValues) -> String {
    let mut text = String::from("Variable_name\tValue\n");
    for (name, value) in values.iter() {
        let _ = writeln!(text, "{}\t{}", safe(name), safe(value));
    }
    text
}

/// What a bundle is about, and until when.
pub struct Head<'a> {
    /// The server: version and host.
    pub server: &'a str,
    /// The first sample and the last.
    pub ends: (Timestamp, Timestamp),
    /// How many there are.
    pub samples: u64,
    /// The event that it is about.
    pub event: Option<u64>,
    /// How many events there are.
    pub events: u64,
    /// True where literals were kept.
    pub literals: bool,
}

impl Head<'_> {
    /// `MySQL 9.7.4 on db17, 2026-07-01 09:25:00 UTC to ..., 420 samples, 1 event`
    pub fn line(&self) -> String {
        let (from, to) = self.ends;
        format!(
            "{}, {} to {}, {}, {}",
            safe(self.server),
            day_and_time(from),
            day_and_time(to),
            number::counted(self.samples, "sample", "samples"),
            number::counted(self.events, "event", "events"),
        )
    }

    /// What is said of literals.
    pub fn literals(&self) -> &'static str {
        match self.literals {
            true => {
                "Statements have their literals, as far as the recording or the server had them: customers' data may be in here."
            }
            false => {
                "Statements are without their literals, tables without defaults and comments. Names of hosts, users, tables and \
                 columns are in here, and the values of the server's variables: look through it before you send it."
            }
        }
    }
}

/// README.txt.
pub fn readme(head: &Head<'_>, pack: &Pack, recording_bytes: u64) -> String {
    let mut text = format!("A bundle of spindoctor {}\n\n{}\n", env!("CARGO_PKG_VERSION"), head.line());
    if let Some(event) = head.event {
        let _ = writeln!(text, "It is about event {event}.");
    }
    let _ = writeln!(text, "\n{}\n\nIn here:", textwrap::fill(head.literals(), 100));
    for listed in listed(pack, recording_bytes) {
        let _ = writeln!(
            text,
            "  {:<32} {:>9}  {}",
            listed.name,
            number::bytes(listed.bytes as f64),
            listed.about
        );
    }
    if !pack.left_out.is_empty() {
        text += "\nNot in here:\n";
        for left in &pack.left_out {
            let _ = writeln!(text, "  {}: {}", left.what, left.because);
        }
    }
    for note in &pack.notes {
        let _ = writeln!(text, "\nNote: {note}");
    }
    text += "\nThe archive need not be unpacked. It stands for its recording in every command that takes one:\n\
             \n  spindoctor report BUNDLE\n  spindoctor top --replay BUNDLE\n  spindoctor workload --recording BUNDLE\n  \
             spindoctor export BUNDLE --out FOLDER\n  spindoctor doctor --from BUNDLE\n";
    text
}

/// What is in a bundle, its manifest and README.txt left out.
pub fn listed(pack: &Pack, recording_bytes: u64) -> Vec<Listed> {
    let texts = pack.texts.iter().map(|text| Listed {
        name: text.name.clone(),
        bytes: text.bytes.len() as u64,
        about: text.about.to_owned(),
    });
    let recording = Listed {
        name: RECORDING.to_owned(),
        bytes: recording_bytes,
        about: "the recording's part, a recording of its own".to_owned(),
    };
    texts.chain([recording]).collect()
}

/// What the command prints when it has written a bundle.
pub fn summary(file: &Path, bytes: u64, manifest: &Manifest, head: &Head<'_>, notes: &[String]) -> String {
    let name = safe(&file.display().to_string());
    let mut text = format!("{name}, {}: {}\n", number::bytes(bytes as f64), head.line());
    for listed in &manifest.files {
        let _ = writeln!(
            text,
            "  {:<32} {:>9}  {}",
            listed.name,
            number::bytes(listed.bytes as f64),
            listed.about
        );
    }
    for left in &manifest.left_out {
        let _ = writeln!(text, "without {}: {}", left.what, left.because);
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text + head.literals() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_neither_ends_its_line_nor_steers_a_terminal() {
        let named: NamedValues = [("a", "x\ny\u{1b}[2J"), ("b", "")].into_iter().collect();
        assert_eq!(values(&named), "Variable_name\tValue\na\tx y\\u{1b}[2J\nb\t\n");
    }

    #[test]
    fn the_readme_says_what_is_in_and_what_is_not() {
        let mut pack = Pack::default();
        pack.add("report.txt", "the report", "text");
        pack.leave_out("plans", "no server\nwas named");
        pack.note("of another host".to_owned());
        let at = Timestamp::UNIX_EPOCH;
        let head = Head {
            server: "MySQL 9.7 on db\u{1b}",
            ends: (at, at),
            samples: 7,
            event: Some(3),
            events: 1,
            literals: false,
        };
        let text = readme(&head, &pack, 1024);
        for part in [
            "MySQL 9.7 on db\\u{1b}, 1970",
            "about event 3",
            "without their literals",
            "report.txt",
            "recording.spindoctor",
            "plans: no server was named",
            "of another host",
            "doctor --from",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
