//! A plan for the terminal: what could be changed and why, and what was checked and needs no change. Readable at 80
//! columns.

use anstyle::AnsiColor;
use spindoctor_model::{Left, Plan, Proposal};
use spindoctor_rules::proposals::UNDO_TABLESPACES;
use unicode_width::UnicodeWidthStr;

use super::view::{cost_text, counted, left, readable, title, trial_of};
use crate::common::words::{interruption_text, server_named, server_place};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened};

/// Where what a label says begins, after its indent.
const COLUMN: usize = 8;

/// Where the reason begins that a family is left for.
const FAMILY: usize = 23;

/// The plan as text.
pub fn render(plan: &Plan, look: Look) -> String {
    let mut page = Page::new(look);
    head(&mut page, plan);
    for (at, proposed) in plan.proposals.iter().enumerate() {
        page.blank();
        proposal(&mut page, at + 1, proposed);
    }
    page.blank();
    if plan.proposals.is_empty() && plan.left.iter().any(|left| left.examined) {
        let style = AnsiColor::Green.on_default().bold();
        page.paragraph(
            "",
            "Nothing to change: no setting is called for by what this server does now.",
            style,
        );
        page.blank();
    }
    families(&mut page, "checked, no change needed", left(plan, true));
    families(&mut page, "could not be checked", left(plan, false));
    if !plan.elsewhere.is_empty() {
        page.paragraph("", "found, and no setting here cures it (see spindoctor doctor):", QUIET);
        for other in &plan.elsewhere {
            entry(&mut page, &other.cause, &other.headline);
        }
        page.blank();
    }
    let mut tried = plan.proposals.iter().filter(|proposal| trial_of(proposal).is_some());
    let is_any = tried.clone().next().is_some();
    let text = match is_any && tried.all(is_files) {
        true => "Nothing was changed. Files are made only for who names them, as above.",
        false => "Nothing was changed. spindoctor tune --apply tries what is above, keeps what helps.",
    };
    if is_any {
        page.paragraph("", text, PLAIN);
    }
    page.paragraph("", &format!("cost: {}", cost_text(plan)), QUIET);
    page.finish()
}

fn head(page: &mut Page, plan: &Plan) {
    let server = &plan.server;
    let mut parts = vec![format!("{} on {}", server_named(server), server_place(server))];
    parts.extend(server.pid.map(|pid| format!("pid {pid}")));
    parts.push(number::tenths(plan.window.seconds));
    parts.extend(server.threads.map(|threads| number::counted(threads, "thread", "threads")));
    page.line_with_right(&safe(&parts.join(", ")), &counted(plan), STRONG, STRONG);
    if let Some(interrupted) = &plan.interrupted {
        let text = interruption_text(interrupted, plan.window.seconds);
        page.paragraph("", &safe(&text), AnsiColor::Red.on_default().bold());
    }
    if let Some(because) = &plan.host.unavailable {
        page.paragraph("", &format!("host not read: {}", safe(because)), QUIET);
    }
}

fn proposal(page: &mut Page, rank: usize, proposal: &Proposal) {
    let remedy = &proposal.remedy;
    let lead = format!("{rank} ");
    let lost = proposal.score.map_or(String::new(), |score| format!("about {} lost", number::percent(score)));
    let named = format!("{}: {}", proposal.family, title(&proposal.family));
    page.headline(&lead, AnsiColor::Cyan.on_default().bold(), &safe(&named), &lost);
    match proposal.changes.is_empty() || proposal.not_tried.is_some() || is_files(proposal) {
        true => page.field("do", &safe(&remedy.statement), COLUMN),
        false => changes(page, proposal),
    }
    for (label, text) in [("why", &remedy.why), ("risk", &remedy.risk), ("cost", &proposal.cost)] {
        if !text.is_empty() {
            page.field(label, &safe(text), COLUMN);
        }
    }
    if !remedy.dynamic {
        page.field("note", "needs a restart", COLUMN);
    }
    if !remedy.undo.is_empty() {
        page.field("undo", &safe(&remedy.undo), COLUMN);
    }
    if let Some(cause) = &proposal.cause {
        page.field("found", &safe(&format!("{cause} (spindoctor explain {cause})")), COLUMN);
    }
    match (trial_of(proposal), &proposal.not_tried) {
        (Some(command), _) => {
            // For copying: broken as a shell lets it, and nowhere else.
            let pad = " ".repeat(COLUMN - "prove".len());
            let (indent, further) = (" ".repeat(COLUMN + 4), " ".repeat(COLUMN + 8));
            let room = page.look.width.saturating_sub(indent.len());
            let command = match safe(&command) {
                long if long.width() > room => long.replace(" --only ", &format!(" \\\n{further}--only ")),
                short => short,
            };
            page.push(&format!("    {}{pad}{command}", page.paint(QUIET, "prove")));
        }
        (None, Some(why)) => page.field("prove", &safe(&format!("not by a trial: {why}")), COLUMN),
        (None, None) => {}
    }
}

/// True where it makes files: by statements, for which `tune`'s own name is none that the server has.
fn is_files(proposal: &Proposal) -> bool {
    proposal.changes.iter().any(|change| change.variable == UNDO_TABLESPACES)
}

/// Each variable on a line: `innodb_log_spin_cpu_pct_hwm  50 → 8`.
fn changes(page: &mut Page, proposal: &Proposal) {
    let widest = proposal.changes.iter().map(|change| change.variable.width()).max().unwrap_or(0);
    for (at, change) in proposal.changes.iter().enumerate() {
        let pad = " ".repeat(widest.saturating_sub(change.variable.width()));
        let both = readable(change, &change.from).zip(readable(change, &change.to));
        let read = both.map_or(String::new(), |(from, to)| format!(" ({from} → {to})"));
        let text = format!("{}{pad}  {} → {}{read}", change.variable, change.from, change.to);
        page.field(if at == 0 { "set" } else { "" }, &safe(&text), COLUMN);
    }
}

fn families<'a>(page: &mut Page, heading: &str, left: impl Iterator<Item = &'a Left>) {
    let mut left = left.peekable();
    if left.peek().is_none() {
        return;
    }
    page.paragraph("", &format!("{heading}:"), QUIET);
    for family in left {
        let unlock = match family.unlock.is_empty() {
            true => String::new(),
            false => format!("; to enable: {}", family.unlock),
        };
        entry(page, &family.family, &format!("{}{unlock}", family.because));
    }
    page.blank();
}

fn entry(page: &mut Page, name: &str, text: &str) {
    page.field(&shortened(&safe(name), FAMILY - 3), &safe(text), FAMILY);
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tune::plan::examples;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn a_server_under_a_quota_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::quota(), TERMINAL));
    }

    #[test]
    fn undo_tablespaces_are_shown_with_their_disk_and_how_they_are_tried() {
        insta::assert_snapshot!(render(&examples::undo(), TERMINAL));
    }

    #[test]
    fn a_healthy_server_is_shown_what_was_looked_at() {
        insta::assert_snapshot!(render(&examples::healthy(), TERMINAL));
    }

    #[test]
    fn hostile_strings_steer_nothing_and_no_text_is_wider_than_the_terminal() {
        let text = render(&examples::hostile(), TERMINAL);
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{text}");
        for plan in [examples::quota(), examples::undo(), examples::healthy(), examples::hostile()] {
            for width in [50, 80, 100] {
                let text = render(&plan, Look { width, colour: false });
                for line in text.lines().filter(|line| !line.contains("--only")) {
                    assert!(line.width() <= width, "{width} columns: {line}");
                }
            }
        }
    }
}
