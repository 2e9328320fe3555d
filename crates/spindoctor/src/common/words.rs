//! Words that several commands use for a server, a diagnosis and its window.

use spindoctor_model::diagnosis::DiagnosedServer;

use spindoctor_model::{Cost, Finding, Interruption, Severity};

use spindoctor_page::number;

/// The word for a severity; the one that must not be overlooked stands out without colour too.
pub fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "CRITICAL",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// `row-lock-pileup (84 %): 12 sessions wait for ...`.
pub fn finding_in_a_line(finding: &Finding) -> String {
    let loss =
        finding.estimated_loss().map_or_else(String::new, |loss| format!(" ({})", number::percent(loss)));
    format!("{}{loss}: {}", finding.cause, finding.headline)
}

/// `interrupted after 4.1 s of 10 s: the server's process ended`.
pub fn interruption_text(interrupted: &Interruption, window_s: f64) -> String {
    let (after, of) =
        (number::tenths(interrupted.at_s), number::tenths(interrupted.of_s.unwrap_or(window_s)));
    format!("interrupted after {after} of {of}: {}", interrupted.because)
}

/// `MySQL 8.0.36`, or that the server never said.
pub fn server_named(server: &DiagnosedServer) -> String {
    match (server.flavor, server.version.as_deref()) {
        (Some(flavor), Some(version)) => format!("{flavor} {version}"),
        (Some(flavor), None) => flavor.to_string(),
        (None, Some(version)) => version.to_owned(),
        (None, None) if server.address == spindoctor_captures::WHAT_WAS_GIVEN => {
            "A server of unknown version".to_owned()
        }
        (None, None) => "A server that does not answer".to_owned(),
    }
}

/// The host's name, or the address where the server never said its host.
pub fn server_place(server: &DiagnosedServer) -> &str {
    if server.hostname.is_empty() { &server.address } else { &server.hostname }
}

/// The title of a diagnosis of captured files: spindoctor had no session.
pub fn from_what_was_given(server: &DiagnosedServer) -> String {
    format!("{}, from what was given", server_named(server))
}

/// What the examination cost, in one clause.
pub fn cost_text(cost: &Cost) -> String {
    let stopped = match cost.threads_stopped {
        0 => "no thread stopped".to_owned(),
        count => format!("{} stopped", number::counted(count, "thread", "threads")),
    };
    format!(
        "{}, answered in {}, own CPU {}, {stopped}",
        number::counted(cost.server_queries, "query", "queries"),
        number::quantity(cost.server_busy_ms.ceil(), "ms"),
        number::quantity(cost.own_cpu_ms.ceil(), "ms"),
    )
}
