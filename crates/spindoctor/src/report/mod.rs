//! The formats of a diagnosis. Each is a function from a finished [`Diagnosis`] to text; none reads
//! anything, decides anything or knows the others.

pub(crate) mod cache;
pub(crate) mod connections;
pub(crate) mod fleet;
pub(crate) mod host;
pub(crate) mod html;
pub(crate) mod incident;
pub(crate) mod indexes;
pub(crate) mod json;
pub(crate) mod lab;
pub(crate) mod locks;
pub(crate) mod nagios;
pub(crate) mod number;
pub(crate) mod page;
pub(crate) mod stacks;
pub(crate) mod sweep;
pub(crate) mod text;
pub(crate) mod tune;
pub(crate) mod workload;

#[cfg(test)]
pub(crate) mod sample;

use spindoctor_model::diagnosis::DiagnosedServer;
use spindoctor_model::{Cost, Diagnosis, Finding, Interruption, NotExamined, Root, Severity};
use unicode_width::UnicodeWidthChar as _;

/// The word for a severity; the one that must not be overlooked stands out without colour too.
fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "CRITICAL",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// `2 findings`, `1 finding`, `no finding`; without one, `interrupted` where not all was seen.
fn findings_counted(diagnosis: &Diagnosis) -> String {
    match diagnosis.findings.len() {
        0 if diagnosis.interrupted.is_some() => "interrupted".to_owned(),
        0 => "no finding".to_owned(),
        count => number::counted(count as u64, "finding", "findings"),
    }
}

/// What cut the window short and no finding explains: the diagnosis is of a part only.
pub(crate) fn unexplained_interruption(diagnosis: &Diagnosis) -> Option<&Interruption> {
    let explained = diagnosis.findings.iter().any(|finding| finding.cause == "server-stopped");
    diagnosis.interrupted.as_ref().filter(|_| !explained)
}

/// `interrupted after 4.1 s of 10 s: the server's process ended`.
fn interruption_told(interrupted: &Interruption, window_s: f64) -> String {
    let (after, of) = (window_told(interrupted.at_s), window_told(interrupted.of_s.unwrap_or(window_s)));
    format!("interrupted after {after} of {of}: {}", interrupted.because)
}

/// The command that tries on this server what a finding advises to set: `spindoctor tune --apply --only NAME=VALUE`. None
/// where nothing of it is a variable that may be tried.
fn proof(finding: &Finding) -> Option<String> {
    let assignments = finding.remedies.iter().filter_map(|remedy| {
        let (name, value) = remedy.statement.strip_prefix("SET GLOBAL ")?.split_once(" = ")?;
        let variable = spindoctor_tune::variables::find(name).ok()?;
        let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric());
        (remedy.dynamic && is_plain).then(|| format!(" --only {}={value}", variable.name))
    });
    let assignments: String = assignments.collect();
    (!assignments.is_empty()).then(|| format!("spindoctor tune --apply{assignments}"))
}

/// How long the server was seen, seconds.
fn seen_s(diagnosis: &Diagnosis) -> f64 {
    diagnosis.interrupted.as_ref().map_or(diagnosis.window.seconds, |interrupted| interrupted.at_s)
}

/// `MySQL 8.0.36`, or that the server never said.
fn server_named(server: &DiagnosedServer) -> String {
    match (server.flavor, server.version.as_deref()) {
        (Some(flavor), Some(version)) => format!("{flavor} {version}"),
        (Some(flavor), None) => flavor.to_string(),
        (None, Some(version)) => version.to_owned(),
        (None, None) => "A server that does not answer".to_owned(),
    }
}

/// The host's name, or the address where the server never said its host.
fn server_place(server: &DiagnosedServer) -> &str {
    if server.hostname.is_empty() { &server.address } else { &server.hostname }
}

/// Who the root thread is: `connection 12, thread 4351, user app`.
fn root_named(root: &Root) -> String {
    let mut parts = Vec::new();
    if let Some(connection) = root.connection_id {
        parts.push(format!("connection {connection}"));
    }
    if let Some(thread) = root.thread_os_id {
        parts.push(format!("thread {thread}"));
    }
    if !root.user.is_empty() {
        parts.push(format!("user {}", root.user));
    }
    if parts.is_empty() { "a thread that the server does not name".to_owned() } else { parts.join(", ") }
}

/// What the examination cost, in one clause.
fn cost_told(cost: &Cost) -> String {
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

/// `100 snapshots; of 1250 CPU samples 74 % were spinning: commits 68 %, redo log threads 6 %`
fn stacks_told(diagnosis: &Diagnosis) -> Option<String> {
    let profile = diagnosis.profile?;
    let snapshots = number::counted(profile.snapshots, "snapshot", "snapshots");
    let samples = number::counted(profile.cpu_samples, "CPU sample", "CPU samples");
    let Some(spin) = profile.spin else { return Some(format!("{snapshots}, {samples}")) };
    let told: Vec<String> = spin
        .named()
        .into_iter()
        .filter(|(_, share)| *share >= SPIN_TOLD)
        .map(|(whose, share)| format!("{whose} {}", number::percent(share)))
        .collect();
    Some(match told.is_empty() {
        true => format!("{snapshots}; of {samples} {} were spinning", number::percent(spin.all())),
        false => format!(
            "{snapshots}; of {samples} {} were spinning: {}",
            number::percent(spin.all()),
            told.join(", ")
        ),
    })
}

/// A share of the CPU samples that is told apart.
const SPIN_TOLD: f64 = 0.005;

/// The other findings of the diagnosis that this one explains.
fn explained_here<'a>(finding: &'a Finding, diagnosis: &Diagnosis) -> Vec<&'a str> {
    let is_found = |cause: &&str| diagnosis.findings.iter().any(|other| other.cause == *cause);
    finding.explains.iter().map(String::as_str).filter(is_found).collect()
}

/// Causes that were not examined for one and the same reason, in the order of the first of each.
struct NotExaminedTogether<'a> {
    causes: Vec<&'a str>,
    because: &'a str,
    unlock: &'a str,
}

fn not_examined_together(not_examined: &[NotExamined]) -> Vec<NotExaminedTogether<'_>> {
    let mut together: Vec<NotExaminedTogether<'_>> = Vec::new();
    for missing in not_examined {
        let same = |known: &&mut NotExaminedTogether<'_>| {
            known.because == missing.because && known.unlock == missing.unlock
        };
        match together.iter_mut().find(same) {
            Some(known) => known.causes.push(&missing.cause),
            None => together.push(NotExaminedTogether {
                causes: vec![&missing.cause],
                because: &missing.because,
                unlock: &missing.unlock,
            }),
        }
    }
    together
}

/// Seconds of a window, to a tenth.
fn window_told(seconds: f64) -> String {
    number::duration((seconds * 10.0).round() / 10.0)
}

/// Cuts a text after so many columns, and says so.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character.width().unwrap_or(0);
        if used > columns {
            return format!("{}…", &text[..at]);
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Remedy;

    use super::*;

    #[test]
    fn what_can_be_tried_is_proved_with_one_command_and_nothing_else_gets_one() {
        let mut finding = sample::suffering().findings.swap_remove(0);
        let set =
            |statement: &str| Remedy { statement: statement.into(), dynamic: true, ..Remedy::default() };
        finding.remedies = vec![
            set("SET GLOBAL innodb_spin_wait_delay = 6"),
            set("SET GLOBAL innodb_spin_wait_pause_multiplier = 50"),
            set("SET GLOBAL read_only = 1"),
            set("KILL 12"),
        ];
        assert_eq!(
            proof(&finding).unwrap(),
            "spindoctor tune --apply --only innodb_spin_wait_delay=6 --only innodb_spin_wait_pause_multiplier=50"
        );
        finding.remedies.drain(..2);
        assert_eq!(proof(&finding), None);
    }
}
