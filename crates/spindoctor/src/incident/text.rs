//! An incident for the terminal: what happened, the first cause and what to do, and the numbers. The page has the rest.

use unicode_width::UnicodeWidthStr as _;

use super::loads_html;
use super::view::Incident;
use super::words::{change_text, changes_title, compared_text, load_text, nothing_changed};
use crate::common::load::{Layer, averages, in_layer, sessions, stands_on};
use crate::common::local_time::beside;
use crate::common::session_time;
use crate::common::stalls::{day_and_time, event_lasted, time};
use crate::doctor::{explained_here, finding_text};
use crate::workload::in_few_words;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened};

/// Statements that a terminal shows; the page has more.
const STATEMENTS_SHOWN: usize = 4;
/// Where a field's text begins.
const COLUMN: usize = 17;

/// The incident as text.
pub fn render(incident: &Incident, look: Look) -> String {
    let mut page = Page::new(look);
    page.line_with_right(&incident.title(), &whose(incident), STRONG, QUIET);
    let began = incident.scope.stall.from;
    let local = beside(began);
    if !local.is_empty() {
        page.paragraph("", &format!("times are UTC; it began at {}{local}", time(began)), QUIET);
    }
    let diagnosis = incident.diagnosis.as_ref();
    match diagnosis.and_then(|diagnosis| Some((diagnosis, diagnosis.findings.first()?))) {
        Some((diagnosis, first)) => {
            page.paragraph("", &safe(&incident.sentence_before_finding()), PLAIN);
            page.blank();
            finding_text(&mut page, 1, first, &explained_here(first, diagnosis), None);
        }
        None => page.paragraph("", &safe(&incident.sentence()), PLAIN),
    }
    numbers(&mut page, incident);
    time_of_sessions(&mut page, incident);
    loads(&mut page, incident);
    events(&mut page, incident);
    statements(&mut page, incident);
    changes(&mut page, incident);
    if let Some(last) = incident.settings.changes.first() {
        page.blank();
        page.paragraph("", "settings that changed", STRONG);
        for change in incident.settings.changes.iter().take(STATEMENTS_SHOWN) {
            let [from, to] = [&change.from, &change.to].map(|value| value.as_deref().unwrap_or("none"));
            let text = format!("{} {from} → {to}, seen {}", change.name, day_and_time(change.at));
            page.hanging("    ", "  ", &safe(&text), if change == last { PLAIN } else { QUIET });
        }
    }
    for gap in &incident.gaps {
        page.blank();
        let to = gap.to.map_or_else(|| "on".to_owned(), |to| format!("to {}", time(to)));
        page.paragraph(
            "",
            &safe(&format!("not recorded from {} {to}: {}", time(gap.from), gap.because)),
            QUIET,
        );
    }
    if !incident.unrecorded.is_empty() {
        page.blank();
        let sources: usize = incident.unrecorded.iter().map(|one| one.sources.len()).sum();
        let text = number::counted(sources as u64, "source was", "sources were");
        page.paragraph("", &format!("{text} not recorded; the page names them"), QUIET);
    }
    page.finish()
}

fn whose(incident: &Incident) -> String {
    let server = &incident.server;
    let place = if server.hostname.is_empty() { &server.address } else { &server.hostname };
    match server.version {
        Some(version) => safe(&shortened(&format!("{version} on {place}"), 40)),
        None => safe(&shortened(place, 40)),
    }
}

fn numbers(page: &mut Page, incident: &Incident) {
    if incident.numbers.is_empty() {
        return;
    }
    page.blank();
    let rows = incident.numbers.iter().map(|row| {
        let [before, during] = compared_text(row);
        vec![row.name.to_owned(), before, during, change_text(row.before, row.during)]
    });
    page.table(&[("", -18), ("before", 14), ("during", 18), ("change", 14)], rows);
}

fn time_of_sessions(page: &mut Page, incident: &Incident) {
    let Some(during) = &incident.time.during else { return };
    page.blank();
    if let Some(before) = &incident.time.before {
        page.field("time before", &session_time::line(before), COLUMN);
    }
    page.field("time during", &session_time::line(during), COLUMN);
}

/// Statements by class: as many of the largest classes as leave room for a statement.
fn loads(page: &mut Page, incident: &Incident) {
    /// Columns for sessions in all, for those of a class, and the least that a statement needs.
    const SESSIONS: usize = 12;
    const CLASS: (usize, usize) = (9, 16);
    const LEAST: usize = 28;
    let (load, when) = incident.loads.table();
    let statements = load.statements();
    if statements.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("", &format!("sessions at work, {when}: {}", averages(load)), STRONG);
    let all = loads_html::columns(load);
    let mut left = page.look.width.saturating_sub(SESSIONS + LEAST);
    let width = |layer: &Layer| (layer.label().width() + 3).clamp(CLASS.0, CLASS.1);
    let layers: Vec<&Layer> = all
        .iter()
        .take_while(|layer| {
            let fits = width(layer) <= left;
            left = left.saturating_sub(width(layer));
            fits
        })
        .collect();
    let rest = (left + LEAST).saturating_sub(2) as i32;
    let mut columns = vec![("sessions", SESSIONS as i32)];
    columns.extend(layers.iter().map(|layer| (layer.label(), width(layer) as i32)));
    columns.push(("statement", -rest));
    let rows = statements.iter().take(STATEMENTS_SHOWN).map(|statement| {
        let in_all = load.sessions_of(statement);
        let mut cells = vec![sessions(in_all)];
        cells.extend(layers.iter().map(|layer| {
            sessions(in_layer(&all, layer, |class| load.sessions_in(statement, class), in_all))
        }));
        cells.push(if statement.text.is_empty() { "(none shown)".to_owned() } else { safe(&statement.text) });
        cells
    });
    page.table(&columns, rows);
    page.paragraph("    ", &safe(&stands_on(load)), QUIET);
}

fn events(page: &mut Page, incident: &Incident) {
    if incident.events.is_empty() || (!incident.scope.is_asked && incident.events.len() == 1) {
        return;
    }
    page.blank();
    for head in &incident.events {
        let lead = format!("event {}", head.id);
        let mut text = format!("{}, {}: {}", time(head.began), event_lasted(head), head.stall.kind.title());
        if let Some(cause) = &head.cause {
            text = format!("{text} ({cause})");
        }
        page.entry(&lead, &safe(&text), (lead.width() + 2).max(COLUMN - 4));
    }
}

fn statements(page: &mut Page, incident: &Incident) {
    let rows: Vec<_> = incident.statements.rows.iter().take(STATEMENTS_SHOWN).collect();
    if rows.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("", "what ran", STRONG);
    for row in rows {
        let [at_once, ended, mean] = load_text(&row.during);
        let mut line = Vec::new();
        for (value, what) in [(at_once, "at once"), (ended, "ended"), (mean, "mean")] {
            if !value.is_empty() {
                line.push(format!("{value} {what}"));
            }
        }
        let text = shortened(&safe(&row.text), page.look.width.saturating_sub(8));
        page.paragraph("    ", &text, PLAIN);
        page.paragraph("      ", &line.join(", "), QUIET);
    }
}

/// The statements that changed, against each earlier time that there is.
fn changes(page: &mut Page, incident: &Incident) {
    for compared in &incident.changes {
        page.blank();
        page.paragraph("", &safe(&changes_title(compared)), STRONG);
        let mut changed = compared.changed().peekable();
        if changed.peek().is_none() {
            page.hanging("    ", "    ", &nothing_changed(compared), QUIET);
        }
        for change in changed.take(STATEMENTS_SHOWN) {
            let text = shortened(&safe(&change.statement), page.look.width.saturating_sub(8));
            page.paragraph("    ", &text, PLAIN);
            page.paragraph("      ", &in_few_words(change), QUIET);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::incident::examples;

    fn text(incident: &Incident) -> String {
        render(incident, Look { width: 80, colour: false })
    }

    #[test]
    fn a_stall_reads_well_at_80_columns() {
        let text = text(&examples::pileup());
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_stretch_with_events_and_a_gap_reads_well_at_80_columns() {
        let text = text(&examples::stretch());
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn an_event_with_a_long_number_stands_on_the_line_of_its_words() {
        let mut incident = examples::stretch();
        incident.events[0].id = 12_345_678;
        let text = text(&incident);
        assert!(text.lines().any(|line| line.starts_with("event 12345678  ") && line.len() > 20), "{text}");
    }

    #[test]
    fn hostile_strings_steer_nothing() {
        let text = text(&examples::hostile());
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{text}");
    }
}
