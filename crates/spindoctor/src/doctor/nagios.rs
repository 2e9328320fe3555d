//! One line with performance data, as the Monitoring Plugins' development guidelines ask for:
//! `SPINDOCTOR STATE - text | 'label'=value[unit];warn;crit;min;max`, then more lines of text.
//! <https://www.monitoring-plugins.org/doc/guidelines.html>, sections 2.1 to 2.6.

use std::fmt::Write as _;

use spindoctor_model::{Diagnosis, Finding, Severity};

use super::view::{findings_counted, unexplained_interruption};
use crate::common::exit::NagiosState;
use crate::common::words::{interruption_text, server_named, server_place};
use spindoctor_page::safe;

/// The output and the state that goes with it. Notes alone are OK.
pub fn render(diagnosis: &Diagnosis) -> (String, NagiosState) {
    let cut_short = unexplained_interruption(diagnosis).is_some();
    let worst = diagnosis.findings.iter().map(|finding| finding.severity).max();
    let state = match worst {
        Some(Severity::Critical) => NagiosState::Critical,
        // Worse than a warning, and a plugin that did not see all cannot say OK.
        _ if cut_short => NagiosState::Unknown,
        None if diagnosis.clear.is_empty() => NagiosState::Unknown,
        Some(Severity::Warning) => NagiosState::Warning,
        Some(Severity::Note) | None => NagiosState::Ok,
    };
    let of = |severity| diagnosis.findings.iter().filter(|finding| finding.severity == severity).count();
    let summary = match diagnosis.findings.first() {
        Some(first) => format!("{}: {} ({})", findings_counted(diagnosis), first.headline, first.cause),
        None if diagnosis.clear.is_empty() => "no cause could be checked".to_owned(),
        None if !diagnosis.given.is_empty() => "no finding in what was given".to_owned(),
        None => format!(
            "no finding on {} at {}",
            server_named(&diagnosis.server),
            server_place(&diagnosis.server)
        ),
    };
    let summary = match &diagnosis.interrupted {
        Some(interrupted) => {
            format!("{summary}; {}", interruption_text(interrupted, diagnosis.window.seconds))
        }
        None => summary,
    };
    let lost = diagnosis.findings.iter().filter_map(Finding::estimated_loss).fold(0.0, f64::max);

    let mut output = format!("SPINDOCTOR {} - {}", word(state), plain(&summary));
    let _ = write!(
        output,
        " | critical={};;0;0 warning={};0;;0 note={};;;0 lost={:.1}%;;;0;100 not_examined={};;;0 server_busy={:.1}ms;;;0",
        of(Severity::Critical),
        of(Severity::Warning),
        of(Severity::Note),
        lost * 100.0,
        diagnosis.not_examined.len(),
        diagnosis.cost.server_busy_ms,
    );
    output.push('\n');
    for finding in diagnosis.findings.iter().skip(1) {
        let _ = writeln!(output, "{}", plain(&format!("{} ({})", finding.headline, finding.cause)));
    }
    (output, state)
}

/// What a plugin prints where there was an error.
pub fn unknown(reason: &str) -> String {
    format!("SPINDOCTOR {} - {}\n", word(NagiosState::Unknown), plain(reason))
}

fn word(state: NagiosState) -> &'static str {
    match state {
        NagiosState::Ok => "OK",
        NagiosState::Warning => "WARNING",
        NagiosState::Critical => "CRITICAL",
        NagiosState::Unknown => "UNKNOWN",
    }
}

/// One line without the bar that would begin performance data.
fn plain(text: &str) -> String {
    safe::safe(text).replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::doctor::examples;

    #[test]
    fn the_worst_finding_gives_the_state() {
        let (output, state) = render(&examples::suffering());
        assert_eq!(state, NagiosState::Critical);
        assert_eq!(
            output,
            "SPINDOCTOR CRITICAL - 3 findings: Commits burn 21 % of the CPU spinning: the server counts 6 CPUs, \
             the quota grants 1.0 (quota-blind-spin) | critical=1;;0;0 warning=1;0;;0 note=1;;;0 lost=21.0%;;;0;100 \
             not_examined=2;;;0 server_busy=31.0ms;;;0\n\
             201 connections wait for ALTER TABLE on sbtest.sbtest1, which waits for an idle transaction of 61 s \
             (metadata-lock-pileup)\n\
             Each commit waits 0.8 ms for fsync (commit-sync-bound)\n"
        );
        let (output, state) = render(&examples::healthy());
        assert_eq!(state, NagiosState::Ok);
        assert!(output.starts_with("SPINDOCTOR OK - no finding on MySQL 9.7.4 at db17 | critical=0;"));
    }

    #[test]
    fn a_server_that_was_lost_in_the_middle_is_unknown_unless_it_is_critical() {
        let (output, state) = render(&examples::interrupted());
        assert_eq!(state, NagiosState::Unknown);
        let text =
            "no finding on MySQL 9.7.4 at db17; interrupted after 4.1 s of 10 s: the server's process ended";
        assert!(output.starts_with(&format!("SPINDOCTOR UNKNOWN - {text} | ")), "{output}");
        let critical =
            Diagnosis { interrupted: examples::interrupted().interrupted, ..examples::suffering() };
        assert_eq!(render(&critical).1, NagiosState::Critical);
    }

    #[test]
    fn no_string_of_the_server_can_begin_performance_data_or_a_line() {
        let mut diagnosis = examples::hostile();
        diagnosis.findings[0].headline = "a|b\nc".to_owned();
        let (output, state) = render(&diagnosis);
        assert_eq!(state, NagiosState::Warning);
        assert_eq!(output.matches('|').count(), 1);
        assert_eq!(output.lines().count(), 1);
    }
}
