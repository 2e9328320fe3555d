//! The report for a terminal: readable at 80 columns, colour only as an accent, so that a pipe, a
//! mail or a ticket loses nothing.

use anstyle::{AnsiColor, Style};
use spindoctor_model::{Diagnosis, Evidence, Finding, NotExamined, Remedy, Root, Severity, Value};
use unicode_width::UnicodeWidthStr;

use super::captured;
use super::view::{
    WITHOUT_ACCOUNT, explained_here, findings_counted, not_examined_together, proof, root_named, seen_s,
    stacks_text,
};
use crate::common::session_time;
use crate::common::words::{cost_text, interruption_text, server_named, server_place, severity_word};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened, wrapped};

/// Where a finding's body begins.
const INDENT: usize = 4;
/// A label longer than this stands on a line of its own.
const WIDEST_LABEL: usize = 26;
/// Columns of a statement that a terminal report shows; JSON and HTML have all of it.
const STATEMENT_SHOWN: usize = 240;
/// Frames of a call stack that a terminal report shows.
const FRAMES_SHOWN: usize = 8;

/// The diagnosis as text.
pub fn render(diagnosis: &Diagnosis, look: Look) -> String {
    let mut page = Page::new(look);
    head(&mut page, diagnosis);
    for (at, found) in diagnosis.findings.iter().enumerate() {
        page.blank();
        let command = proof(found).filter(|_| diagnosis.given.is_empty());
        finding(&mut page, at + 1, found, &explained_here(found, diagnosis), command.as_deref());
    }
    if diagnosis.findings.is_empty() {
        page.blank();
        nothing_found(&mut page, diagnosis);
    }
    page.blank();
    if !diagnosis.findings.is_empty() && !diagnosis.clear.is_empty() {
        page.paragraph(
            "",
            &format!("clear: {}", number::counted(diagnosis.clear.len() as u64, "cause", "causes")),
            QUIET,
        );
    }
    if !diagnosis.given.is_empty() {
        captured::not_examined(&mut page, diagnosis);
        return page.finish();
    }
    not_examined(&mut page, &diagnosis.not_examined);
    if let Some(stacks) = stacks_text(diagnosis) {
        page.paragraph("", &format!("stacks: {stacks}"), QUIET);
    }
    page.paragraph("", &format!("cost: {}", cost_text(&diagnosis.cost)), QUIET);
    page.finish()
}

fn head(page: &mut Page, diagnosis: &Diagnosis) {
    if !diagnosis.given.is_empty() {
        captured::head(page, diagnosis);
        return;
    }
    let server = &diagnosis.server;
    let mut parts = vec![format!("{} on {}", server_named(server), server_place(server))];
    parts.extend(server.pid.map(|pid| format!("pid {pid}")));
    parts.push(number::tenths(diagnosis.window.seconds));
    parts.extend(server.threads.map(|threads| number::counted(threads, "thread", "threads")));
    page.line_with_right(&safe(&parts.join(", ")), &findings_counted(diagnosis), STRONG, STRONG);
    if let Some(interrupted) = &diagnosis.interrupted {
        let text = interruption_text(interrupted, diagnosis.window.seconds);
        page.paragraph("", &safe(&text), AnsiColor::Red.on_default().bold());
    }
    let host = &diagnosis.host;
    if let Some(because) = &host.unavailable {
        page.paragraph("", &format!("host not read: {}", safe(because)), QUIET);
    }
    if let Some(time) = &diagnosis.time {
        page.blank();
        session_time::print(page, time);
    }
}

fn finding(page: &mut Page, rank: usize, finding: &Finding, explained: &[&str], proof: Option<&str>) {
    let accent = match finding.severity {
        Severity::Critical => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Note => AnsiColor::Cyan.on_default(),
    };
    let lead = format!("{rank} {:<8}  ", severity_word(finding.severity));
    page.headline(&lead, accent, &safe(&finding.headline), &safe(&finding.cause));

    let rows = Rows::new(&finding.evidence);
    for evidence in &finding.evidence {
        rows.evidence(page, evidence);
    }
    if let Some(root) = &finding.root {
        rows.root(page, root);
    }
    if !finding.why.is_empty() {
        rows.labelled(page, "why", &safe(&finding.why), PLAIN);
    }
    if !explained.is_empty() {
        rows.labelled(page, "explains", &safe(&explained.join(", ")), PLAIN);
    }
    for remedy in &finding.remedies {
        rows.remedy(page, remedy);
    }
    if let Some(command) = proof {
        rows.labelled(page, "prove", &safe(command), PLAIN);
    }
}

/// The two columns of a finding's body: labels and what they say.
struct Rows {
    label_width: usize,
    value_width: usize,
}

impl Rows {
    fn new(evidence: &[Evidence]) -> Self {
        let widest = |texts: &mut dyn Iterator<Item = String>, limit: usize| {
            texts.map(|text| text.width()).filter(|width| *width <= limit).max().unwrap_or(0)
        };
        Self {
            label_width: widest(&mut evidence.iter().map(|e| safe(&e.reading)), WIDEST_LABEL).max(9),
            value_width: widest(&mut evidence.iter().map(shown_value), 16).max(6),
        }
    }

    fn evidence(&self, page: &mut Page, evidence: &Evidence) {
        let mut said = shown_value(evidence);
        let mut rest = Vec::new();
        if !evidence.expected.is_empty() {
            rest.push(format!("(expected {})", safe(&number::expected(&evidence.expected, &evidence.unit))));
        }
        if evidence.series.len() > 2 {
            rest.push(sparkline(&evidence.series));
        }
        if !rest.is_empty() {
            said.extend(std::iter::repeat_n(' ', self.value_width.saturating_sub(said.width())));
            said = format!("{said}  {}", rest.join("  "));
        }
        self.row(page, &safe(&evidence.reading), &said, PLAIN, &safe(&evidence.source));
    }

    fn root(&self, page: &mut Page, root: &Root) {
        self.labelled(page, "root", &safe(&root_named(root)), STRONG);
        if !root.statement.is_empty() {
            self.labelled(page, "statement", &shortened(&safe(&root.statement), STATEMENT_SHOWN), PLAIN);
        }
        if !root.stack.is_empty() {
            let frames: Vec<_> = root.stack.iter().take(FRAMES_SHOWN).map(|frame| safe(frame)).collect();
            let more = if root.stack.len() > FRAMES_SHOWN { " < …" } else { "" };
            self.labelled(page, "stack", &format!("{}{more}", frames.join(" < ")), QUIET);
        }
    }

    fn remedy(&self, page: &mut Page, remedy: &Remedy) {
        self.labelled(page, "do", &safe(&remedy.statement), STRONG);
        let mut text = Vec::new();
        if !remedy.why.is_empty() {
            text.push(safe(&remedy.why));
        }
        if !remedy.risk.is_empty() {
            text.push(format!("Risk: {}", safe(&remedy.risk)));
        }
        if !remedy.dynamic {
            text.push("Needs a restart.".to_owned());
        }
        if !text.is_empty() {
            self.labelled(
                page,
                "",
                &text.iter().map(|part| sentence(part)).collect::<Vec<_>>().join(" "),
                QUIET,
            );
        }
        if !remedy.undo.is_empty() {
            self.labelled(page, "undo", &safe(&remedy.undo), PLAIN);
        }
    }

    fn labelled(&self, page: &mut Page, label: &str, text: &str, style: Style) {
        self.row(page, label, text, style, "");
    }

    /// One row; the source goes to the right edge where there is room for it.
    fn row(&self, page: &mut Page, label: &str, text: &str, style: Style, source: &str) {
        let column = INDENT + self.label_width + 2;
        let mut lead = " ".repeat(INDENT);
        if label.width() > self.label_width {
            page.paragraph(&lead, label, QUIET);
            lead = " ".repeat(column);
        } else {
            let pad = self.label_width - label.width() + 2;
            lead = format!("{lead}{}{}", page.paint(QUIET, label), " ".repeat(pad));
        }
        let lines = wrapped(text, page.look.width.saturating_sub(column));
        for (at, line) in lines.iter().enumerate() {
            let mut printed =
                format!("{}{}", if at == 0 { lead.as_str() } else { "" }, page.paint(style, line));
            if at > 0 {
                printed.insert_str(0, &" ".repeat(column));
            }
            let free = page.look.width.saturating_sub(column + line.width());
            if at + 1 == lines.len() && !source.is_empty() && free >= source.width() + 2 {
                printed.push_str(&" ".repeat(free - source.width()));
                printed.push_str(&page.paint(QUIET, source));
            }
            page.push(&printed);
        }
    }
}

fn nothing_found(page: &mut Page, diagnosis: &Diagnosis) {
    if !diagnosis.given.is_empty() {
        captured::nothing_found(page, diagnosis);
        return;
    }
    if diagnosis.clear.is_empty() {
        page.paragraph("", "No cause could be checked, so nothing is known about this server.", STRONG);
        return;
    }
    let looked = number::counted(diagnosis.clear.len() as u64, "cause was", "causes were");
    let (verdict, style) = match diagnosis.interrupted {
        Some(_) => ("Nothing found until then; what came after was not seen.", STRONG),
        None if diagnosis.time.is_none() => (WITHOUT_ACCOUNT, STRONG),
        None => ("Nothing found that costs this server time now.", AnsiColor::Green.on_default().bold()),
    };
    page.paragraph("", verdict, style);
    page.paragraph(
        "",
        &format!("{looked} checked over {}, none present:", number::tenths(seen_s(diagnosis))),
        PLAIN,
    );
    page.paragraph("    ", &diagnosis.clear.join(", "), QUIET);
}

fn not_examined(page: &mut Page, not_examined: &[NotExamined]) {
    if not_examined.is_empty() {
        return;
    }
    page.paragraph(
        "",
        &format!("not checked: {}", number::counted(not_examined.len() as u64, "cause", "causes")),
        QUIET,
    );
    for missing in not_examined_together(not_examined) {
        let mut text = format!("{}: {}", safe(&missing.causes.join(", ")), safe(missing.because));
        if !missing.unlock.is_empty() {
            text = format!("{text}; to enable: {}", safe(missing.unlock));
        }
        page.hanging("    ", "  ", &text, QUIET);
    }
}

fn shown_value(evidence: &Evidence) -> String {
    match &evidence.value {
        Value::Text(text) => {
            shortened(&safe(&number::value(&Value::Text(text.clone()), &evidence.unit)), STATEMENT_SHOWN)
        }
        number => safe(&number::value(number, &evidence.unit)),
    }
}

/// A text as a sentence, so that several can follow each other.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let mut line: String = match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    };
    if !line.ends_with(['.', '!', '?']) {
        line.push('.');
    }
    line
}

/// A curve in at most twelve characters, from zero (or the lowest, where it is below) to the highest.
fn sparkline(series: &[(f64, f64)]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const LONGEST: usize = 12;
    let per_bar = series.len().div_ceil(LONGEST);
    let means: Vec<f64> = series
        .chunks(per_bar)
        .map(|chunk| chunk.iter().map(|point| point.1).sum::<f64>() / chunk.len() as f64)
        .collect();
    let low = means.iter().copied().fold(0.0, f64::min);
    let high = means.iter().copied().fold(0.0, f64::max);
    let span = if high > low { high - low } else { 1.0 };
    means.iter().map(|mean| BARS[(((mean - low) / span) * 7.0).round().clamp(0.0, 7.0) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::doctor::examples;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn a_suffering_server_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::suffering(), TERMINAL));
    }

    #[test]
    fn a_healthy_server_is_shown_so_and_what_was_looked_at() {
        insta::assert_snapshot!(render(&examples::healthy(), TERMINAL));
    }

    #[test]
    fn a_server_that_was_lost_in_the_middle_is_not_shown_to_be_clear() {
        insta::assert_snapshot!(render(&examples::interrupted(), TERMINAL));
    }

    #[test]
    fn a_silent_server_is_a_finding_and_not_an_error() {
        insta::assert_snapshot!(render(&examples::silent(), TERMINAL));
    }

    #[test]
    fn hostile_strings_stay_inside_their_column_and_steer_nothing() {
        let text = render(&examples::hostile(), TERMINAL);
        insta::assert_snapshot!(text);
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for diagnosis in [examples::suffering(), examples::healthy(), examples::silent(), examples::hostile()]
        {
            for width in [50, 64, 80, 100] {
                for line in render(&diagnosis, Look { width, colour: false }).lines() {
                    assert!(line.width() <= width, "{width} columns: {line}");
                }
            }
        }
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = render(&examples::suffering(), Look { width: 80, colour: true });
        assert!(coloured.contains("\u{1b}["));
        let mut bare = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            bare.push_str(before);
            rest = after.split_once('m').expect("every sequence sets a colour").1;
        }
        assert_eq!(bare + rest, render(&examples::suffering(), TERMINAL));
    }
}
