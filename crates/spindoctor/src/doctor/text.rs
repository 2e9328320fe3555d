//! The report for a terminal: readable at 80 columns, colour only as an accent, so that a pipe, a
//! mail or a ticket loses nothing.

use anstyle::AnsiColor;
use spindoctor_model::{Diagnosis, NotExamined, Profile};

use super::captured;
use super::finding_text::finding_text;
use super::view::{
    WITHOUT_ACCOUNT, explained_here, findings_counted, latches_text, not_examined_together, proof, seen_s,
    stacks_text,
};
use crate::common::session_time;
use crate::common::words::{cost_text, interruption_text, server_named, server_place};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};

/// The diagnosis as text.
pub fn render(diagnosis: &Diagnosis, look: Look) -> String {
    render_with(diagnosis, None, look)
}

/// The same, with the latches of the profile that was taken for it.
pub fn render_with(diagnosis: &Diagnosis, profile: Option<&Profile>, look: Look) -> String {
    let mut page = Page::new(look);
    head(&mut page, diagnosis);
    for (at, found) in diagnosis.findings.iter().enumerate() {
        page.blank();
        let command = proof(found).filter(|_| diagnosis.given.is_empty());
        finding_text(&mut page, at + 1, found, &explained_here(found, diagnosis), command.as_deref());
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
    if let Some(latches) = profile.and_then(latches_text) {
        page.paragraph("", &format!("latches: {}", safe(&latches)), QUIET);
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

#[cfg(test)]
mod tests {
    use super::*;

    use unicode_width::UnicodeWidthStr as _;

    use crate::doctor::examples;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn latches_stand_below_the_stacks_where_any_is_waited_for() {
        use spindoctor_profile::examples as profiles;
        let with = |profile: &Profile| render_with(&examples::suffering(), Some(profile), TERMINAL);
        assert!(with(&profiles::contended()).contains("latches: rollback segment 1.00 threads asleep"));
        assert_eq!(with(&profiles::busy()), render(&examples::suffering(), TERMINAL));
    }

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
