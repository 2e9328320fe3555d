//! One finding for a terminal, in the order of a person who has to act: what is wrong, which thread blocks the others, what to
//! do with its risk and undo, why, and last what it rests on.

use anstyle::{AnsiColor, Style};
use spindoctor_model::{Evidence, Finding, Remedy, Root, Severity, Value};
use unicode_width::UnicodeWidthStr as _;

use super::view::{root_named, undo};
use crate::common::words::severity_word;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{PLAIN, Page, QUIET, STRONG, shortened, wrapped};

/// Where a finding's body begins.
const INDENT: usize = 4;
/// As wide as the longest label before the evidence: `statement`.
const LABEL_WIDTH: usize = 9;
/// The name of a reading that is longer than this stands on a line of its own.
const WIDEST_LABEL: usize = 26;
/// Columns of a statement that a terminal report shows; JSON and HTML have all of it.
const STATEMENT_SHOWN: usize = 240;
/// Frames of a call stack that a terminal report shows.
const FRAMES_SHOWN: usize = 8;

/// Adds a finding to the page: its place among the findings, what of the diagnosis it explains, and the command that tries
/// what it advises, where there is one.
pub fn finding_text(
    page: &mut Page,
    rank: usize,
    finding: &Finding,
    explained: &[&str],
    proof: Option<&str>,
) {
    let accent = match finding.severity {
        Severity::Critical => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Note => AnsiColor::Cyan.on_default(),
    };
    let lead = format!("{rank} {:<8}  ", severity_word(finding.severity));
    page.headline(&lead, accent, &safe(&finding.headline), &safe(&finding.cause));

    let acts = Rows { indent: INDENT, label_width: LABEL_WIDTH };
    if let Some(root) = &finding.root {
        acts.labelled(page, "root", &safe(&root_named(root)), STRONG);
        if !root.statement.is_empty() {
            acts.labelled(page, "statement", &shortened(&safe(&root.statement), STATEMENT_SHOWN), PLAIN);
        }
    }
    for remedy in &finding.remedies {
        acts.remedy(page, remedy);
    }
    if let Some(command) = proof {
        acts.labelled(page, "prove", &safe(command), PLAIN);
    }
    if !finding.why.is_empty() {
        acts.labelled(page, "why", &safe(&finding.why), PLAIN);
    }
    if !explained.is_empty() {
        acts.labelled(page, "explains", &safe(&explained.join(", ")), PLAIN);
    }
    evidence(page, finding);
}

fn evidence(page: &mut Page, finding: &Finding) {
    let stack = finding.root.as_ref().map(stack_text).filter(|stack| !stack.is_empty());
    if finding.evidence.is_empty() && stack.is_none() {
        return;
    }
    page.paragraph(&" ".repeat(INDENT), "evidence", QUIET);
    let widest = |texts: &mut dyn Iterator<Item = String>, limit: usize| {
        texts.map(|text| text.width()).filter(|width| *width <= limit).max().unwrap_or(0)
    };
    let labels = &mut finding.evidence.iter().map(|evidence| safe(&evidence.reading));
    let rows = Rows { indent: INDENT + 2, label_width: widest(labels, WIDEST_LABEL).max("stack".len()) };
    let value_width = widest(&mut finding.evidence.iter().map(shown_value), 16).max(6);
    for evidence in &finding.evidence {
        rows.evidence(page, evidence, value_width);
    }
    if let Some(stack) = stack {
        rows.labelled(page, "stack", &stack, QUIET);
    }
}

/// Labels in a column of their own, and what they say.
#[derive(Clone, Copy)]
struct Rows {
    indent: usize,
    label_width: usize,
}

impl Rows {
    fn evidence(self, page: &mut Page, evidence: &Evidence, value_width: usize) {
        let mut said = shown_value(evidence);
        let mut rest = Vec::new();
        if !evidence.expected.is_empty() {
            rest.push(format!("(expected {})", safe(&number::expected(&evidence.expected, &evidence.unit))));
        }
        if evidence.series.len() > 2 {
            rest.push(sparkline(&evidence.series));
        }
        if !rest.is_empty() {
            said.extend(std::iter::repeat_n(' ', value_width.saturating_sub(said.width())));
            said = format!("{said}  {}", rest.join("  "));
        }
        self.row(page, &safe(&evidence.reading), &said, PLAIN, &safe(&evidence.source));
    }

    fn remedy(self, page: &mut Page, remedy: &Remedy) {
        self.labelled(page, "do", &safe(&remedy.statement), STRONG);
        let restart = (!remedy.dynamic).then_some("needs a restart");
        let said = [Some(remedy.why.as_str()), restart].into_iter().flatten().filter(|text| !text.is_empty());
        let said: Vec<String> = said.map(|text| sentence(&safe(text))).collect();
        if !said.is_empty() {
            self.labelled(page, "", &said.join(" "), PLAIN);
        }
        if !remedy.risk.is_empty() {
            self.labelled(page, "risk", &sentence(&safe(&remedy.risk)), PLAIN);
        }
        if let Some(undo) = undo(remedy) {
            self.labelled(page, "undo", &safe(undo), PLAIN);
        }
    }

    fn labelled(self, page: &mut Page, label: &str, text: &str, style: Style) {
        self.row(page, label, text, style, "");
    }

    /// One row; the source stands at the right edge, below the text where it has no room beside it.
    fn row(self, page: &mut Page, label: &str, text: &str, style: Style, source: &str) {
        let column = self.indent + self.label_width + 2;
        let mut lead = " ".repeat(self.indent);
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
            let is_last = at + 1 == lines.len() && !source.is_empty();
            let fits = free >= source.width() + 2;
            if is_last && fits {
                printed.push_str(&" ".repeat(free - source.width()));
                printed.push_str(&page.paint(QUIET, source));
            }
            page.push(&printed);
            if is_last && !fits {
                for line in wrapped(source, page.look.width.saturating_sub(column)) {
                    let free = page.look.width.saturating_sub(line.width());
                    page.push(&format!("{}{}", " ".repeat(free), page.paint(QUIET, &line)));
                }
            }
        }
    }
}

/// The innermost frames of a root's call stack.
fn stack_text(root: &Root) -> String {
    let frames: Vec<_> = root.stack.iter().take(FRAMES_SHOWN).map(|frame| safe(frame)).collect();
    let more = if root.stack.len() > FRAMES_SHOWN { " < …" } else { "" };
    format!("{}{more}", frames.join(" < "))
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
