//! The progress of the trials, on standard error: a line that is rewritten where that is a terminal, a line for each
//! quad where it is a file.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use spindoctor_tune::bench::Event;

use super::view::standing;
use crate::common::session::note;
use crate::common::terminal::in_characters_of_locale;
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// What the user sees meanwhile.
pub struct ProgressLine {
    most: Duration,
    begun: Instant,
    terminal: bool,
}

impl ProgressLine {
    /// Nothing done yet; it takes so long at most.
    pub fn new(most: Duration) -> Self {
        Self { most, begun: Instant::now(), terminal: std::io::stderr().is_terminal() }
    }

    /// Something happened.
    pub fn event(&self, event: &Event<'_>) {
        match event {
            Event::Looking { seconds } => {
                self.line(&format!("looking at the server as it is for {}", number::duration(*seconds)));
            }
            Event::Begun(wanted) => {
                let values: Vec<String> = wanted
                    .values
                    .iter()
                    .map(|(variable, value)| format!("{} = {value}", variable.name))
                    .collect();
                self.line(&format!("{}: {}", wanted.what, values.join(", ")));
            }
            Event::Measured(_) => {}
            Event::Judged(judgement) => self.note(&format!(
                "{}: {}",
                number::counted(u64::from(judgement.quads), "quad", "quads"),
                standing(&judgement.effects)
            )),
            Event::Raced { round, remaining } => self.note(&format!(
                "search, round {round}: {} in it",
                number::counted(*remaining as u64, "setting is still", "settings are still")
            )),
            Event::Note(what) => self.note(what),
        }
    }

    /// The line is gone.
    pub fn finish(&self) {
        if self.terminal {
            write("\r\x1b[K");
        }
    }

    /// The line of the moment, where there is a terminal; wider than that it would not be rewritten.
    fn line(&self, what: &str) {
        if self.terminal {
            let at = number::duration(self.begun.elapsed().as_secs_f64().round());
            let most = number::duration(self.most.as_secs_f64());
            let text: String = safe(&format!("{at} of at most {most}, {what}")).chars().take(78).collect();
            write(&format!("\r\x1b[K{text}"));
        }
    }

    fn note(&self, what: &str) {
        self.finish();
        note(what);
    }
}

/// Progress that cannot be written is lost, and nothing else is.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(in_characters_of_locale(text).as_bytes()).and_then(|()| stderr.flush());
}
