//! A verdict before the window's end, where it cannot be mistaken: who waits for a diagnosis of an outage need not wait for ten
//! seconds to know where to look.

use std::io::IsTerminal as _;
use std::time::Duration;

use spindoctor_model::{Diagnosis, Severity};
use spindoctor_page::safe::safe;
use spindoctor_page::text::wrapped;

use crate::common::{output, terminal};

/// After two intervals of a second or a little less, with half of one for the server's answers: the verdict is there within three seconds.
pub const AFTER: Duration = Duration::from_millis(2_500);

/// The first finding in a line, where it is critical; what is milder may look otherwise after the whole window.
pub fn verdict(diagnosis: &Diagnosis) -> Option<String> {
    let first = diagnosis.findings.first().filter(|first| first.severity == Severity::Critical)?;
    let seconds = diagnosis.window.seconds;
    Some(format!("after {seconds:.1} s, preliminary: {} ({})", first.headline, first.cause))
}

/// Prints it on standard error, on a terminal in lines that break between words.
pub fn say(verdict: &str) {
    let text = format!("spindoctor: {}", safe(verdict));
    if !std::io::stderr().is_terminal() {
        return output::note(&text);
    }
    for line in wrapped(&text, terminal::look_of_stdout().width) {
        output::note(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::examples;

    #[test]
    fn a_critical_finding_is_said_early_and_no_other() {
        let mut diagnosis = examples::suffering();
        diagnosis.window.seconds = 2.04;
        let first = &diagnosis.findings[0];
        let expected = format!("after 2.0 s, preliminary: {} ({})", first.headline, first.cause);
        assert_eq!(verdict(&diagnosis), Some(expected));
        diagnosis.findings[0].severity = Severity::Warning;
        assert_eq!(verdict(&diagnosis), None);
        assert_eq!(verdict(&examples::healthy()), None);
    }
}
