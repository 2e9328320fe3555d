//! The progress of a window, on standard error: one line that is rewritten on a terminal, a line now and then in a
//! file. It is removed from the terminal when it is dropped.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use super::terminal::in_characters_of_locale;
use spindoctor_page::number;

/// A log gets a line this often: a window of the usual length has one, one of an hour is seen to live.
const LOGGED_EVERY: Duration = Duration::from_secs(30);
/// Characters of the bar.
const BAR: usize = 20;

/// Progress towards the end of a window.
pub struct Progress {
    total: Duration,
    terminal: bool,
    next_logged: Duration,
    counted: (&'static str, &'static str),
}

impl Progress {
    /// Nothing done yet.
    pub fn new(total: Duration) -> Self {
        Self {
            total,
            terminal: std::io::stderr().is_terminal(),
            next_logged: Duration::ZERO,
            counted: ("sample", "samples"),
        }
    }

    /// What is counted, one and many of them.
    pub fn counting(mut self, one: &'static str, many: &'static str) -> Self {
        self.counted = (one, many);
        self
    }

    /// So much time has gone by, and so many samples were taken.
    pub fn show(&mut self, elapsed: Duration, taken: usize) {
        let elapsed = elapsed.min(self.total);
        if self.terminal {
            write(&format!("\r\x1b[K{}", line(elapsed, self.total, taken, self.counted)));
        } else if elapsed >= self.next_logged {
            self.next_logged = elapsed + LOGGED_EVERY;
            write(&format!("spindoctor: watching, {}\n", counts(elapsed, self.total, taken, self.counted)));
        }
    }

    /// Frees the line for something else.
    pub fn clear(&self) {
        if self.terminal {
            write("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Progress that cannot be written is lost, and nothing else is.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(in_characters_of_locale(text).as_bytes()).and_then(|()| stderr.flush());
}

fn line(elapsed: Duration, total: Duration, taken: usize, counted: (&str, &str)) -> String {
    let done = (elapsed.as_secs_f64() / total.as_secs_f64().max(f64::EPSILON) * BAR as f64) as usize;
    let done = done.min(BAR);
    format!(
        "watching {}{} {}",
        "━".repeat(done),
        "╌".repeat(BAR - done),
        counts(elapsed, total, taken, counted)
    )
}

fn counts(elapsed: Duration, total: Duration, taken: usize, counted: (&str, &str)) -> String {
    format!(
        "{} of {}, {}",
        number::duration(elapsed.as_secs_f64().round()),
        number::duration(total.as_secs_f64()),
        number::counted(taken as u64, counted.0, counted.1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_how_far_it_is() {
        let ten = Duration::from_secs(10);
        assert_eq!(
            line(Duration::from_millis(5_400), ten, 6, ("sample", "samples")),
            "watching ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌ 5 s of 10 s, 6 samples"
        );
        assert_eq!(
            line(ten, ten, 11, ("snapshot", "snapshots")),
            "watching ━━━━━━━━━━━━━━━━━━━━ 10 s of 10 s, 11 snapshots"
        );
    }
}
