//! A tuning for the terminal: what was changed, by how much it helped or hurt, with its interval drawn, and what the
//! server has now.

use anstyle::{AnsiColor, Style};
use spindoctor_model::{Effect, Trial, Tuning, Verdict};
use unicode_width::UnicodeWidthStr;

use super::view::{
    Leaning, QUANTITIES, change, changes_text, interval, margin, needs_text, place, scale, shown_word,
    verdict_text,
};
use crate::common::words::{server_named, server_place};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};

/// Columns of the label of a quantity, of one of its means, and of its interval in words.
const LABEL: usize = 12;
const MEAN: usize = 11;
/// The narrowest picture of an interval that shows anything.
const NARROWEST: usize = 12;
/// Trials of the search that are listed; JSON and HTML have all.
const SEARCHED_SHOWN: usize = 12;

/// The tuning as text.
pub fn render(tuning: &Tuning, look: Look) -> String {
    let mut page = Page::new(look);
    let trial = &tuning.decided;
    head(&mut page, trial);
    page.blank();
    changes(&mut page, trial);
    page.blank();
    table(&mut page, trial);
    page.blank();
    page.paragraph("", &safe(&trial.why), PLAIN);
    if let Some(needs) = needs_text(trial) {
        page.paragraph("", &needs, PLAIN);
    }
    for (at, line) in tuning.settings.iter().enumerate() {
        page.hanging("", "  ", &safe(line), if at == 0 { STRONG } else { PLAIN });
    }
    if !tuning.searched.is_empty() {
        page.blank();
        searched(&mut page, tuning);
    }
    if !trial.notes.is_empty() {
        page.blank();
        for note in &trial.notes {
            page.hanging("", "  ", &format!("note: {}", safe(note)), QUIET);
        }
    }
    page.finish()
}

fn head(page: &mut Page, trial: &Trial) {
    let server = &trial.server;
    let mut parts = vec![format!("{} on {}", server_named(server), server_place(server))];
    parts.extend(server.pid.map(|pid| format!("pid {pid}")));
    parts.push(number::duration(trial.seconds.round()));
    parts.push(number::counted(u64::from(trial.quads), "quad", "quads"));
    let style = match trial.verdict {
        Verdict::Helps => AnsiColor::Green.on_default().bold(),
        Verdict::Hurts => AnsiColor::Red.on_default().bold(),
        Verdict::NoSignificantEffect | Verdict::Inconclusive => STRONG,
    };
    page.line_with_right(&safe(&parts.join(", ")), &verdict_text(trial), STRONG, style);
}

fn changes(page: &mut Page, trial: &Trial) {
    let widest = trial.changes.iter().map(|change| change.variable.width()).max().unwrap_or(0);
    for change in &trial.changes {
        let pad = " ".repeat(widest.saturating_sub(change.variable.width()));
        page.paragraph(
            "",
            &safe(&format!("{}{pad}  {} → {}", change.variable, change.from, change.to)),
            PLAIN,
        );
    }
}

/// A row for each quantity: old, new, by how much, the interval and its margin in words, what is shown of it, and where
/// there is room a picture of the interval.
fn table(page: &mut Page, trial: &Trial) {
    let rows: Vec<_> = QUANTITIES
        .iter()
        .filter_map(|quantity| {
            Some((quantity, (quantity.of_effects)(&trial.effect)?, quantity.means(trial)?))
        })
        .collect();
    if rows.is_empty() {
        page.paragraph("", "Nothing could be compared.", QUIET);
        return;
    }
    let widest = |cell: &dyn Fn(&Effect) -> String, least: usize| {
        rows.iter().map(|(_, effect, _)| cell(effect).width()).max().unwrap_or(0).max(least)
    };
    let (words, changed) =
        (widest(&interval, "95 % interval".len()), widest(&|effect| change(effect.ratio), 6));
    let margins: Vec<(String, &str)> = rows
        .iter()
        .map(|(quantity, ..)| {
            let judged = quantity.judged(trial);
            judged.map_or((String::new(), ""), |judged| (margin(judged), shown_word(judged.shown)))
        })
        .collect();
    let shown = margins.iter().map(|(_, shown)| shown.width()).max().unwrap_or(0);
    let margin = margins.iter().map(|(margin, _)| margin.width()).max().unwrap_or(0).max("margin".len());
    let taken = LABEL + 2 * MEAN + 2 + changed + 2 + words;
    // On a narrow terminal the margin and what is shown stand below.
    let is_wide = taken + 2 + margin + 2 + shown <= page.look.width;
    let used = if is_wide { taken + 4 + margin + shown } else { taken };
    let picture = page.look.width.checked_sub(used + 2).filter(|width| *width >= NARROWEST);
    let titles = format!(
        "{:<LABEL$}{:>MEAN$}{:>MEAN$}  {:>changed$}  {:words$}{}",
        "",
        "old",
        "new",
        "change",
        "95 % interval",
        if is_wide && shown > 0 { "  margin" } else { "" },
    );
    page.push(&page.paint(QUIET, titles.trim_end()));
    let (least, most) = scale(&trial.effect);
    for ((quantity, effect, (old, new)), (margin_text, shown_text)) in rows.iter().zip(&margins) {
        let style = style(quantity.leaning(effect));
        let left = format!(
            "{:<LABEL$}{:>MEAN$}{:>MEAN$}  ",
            quantity.name,
            quantity.shown(*old),
            quantity.shown(*new)
        );
        let by = format!("{:>changed$}", change(effect.ratio));
        let text = interval(effect);
        let pad = |text: &str, to: usize| " ".repeat(to.saturating_sub(text.width()));
        let mut line = format!("{left}{}  {text}", page.paint(style, &by));
        if is_wide && shown > 0 {
            line = format!(
                "{line}{}  {margin_text}{}  {shown_text}",
                pad(&text, words),
                pad(margin_text, margin)
            );
        }
        if let Some(width) = picture {
            let last = if is_wide && shown > 0 { pad(shown_text, shown) } else { pad(&text, words) };
            line = format!("{line}{last}  {}", page.paint(style, &drawn(effect, least, most, width.min(40))));
        }
        page.push(&line);
    }
    if !is_wide && shown > 0 {
        let text: Vec<String> = rows
            .iter()
            .zip(&margins)
            .map(|((quantity, ..), (margin, shown))| format!("{} {shown} (margin {margin})", quantity.name))
            .collect();
        page.paragraph("", &text.join(", "), PLAIN);
    }
}

fn style(leaning: Leaning) -> Style {
    match leaning {
        Leaning::Better => AnsiColor::Green.on_default().bold(),
        Leaning::Worse => AnsiColor::Red.on_default().bold(),
        Leaning::Neither => PLAIN,
    }
}

/// An interval as a line: `·····┆···├─●─┤···`, with `┆` where nothing changes.
fn drawn(effect: &Effect, least: f64, most: f64, width: usize) -> String {
    let column = |ratio: f64| (place(ratio, least, most) * (width - 1) as f64).round() as usize;
    let mut cells = vec!['·'; width];
    cells[column(1.0)] = '┆';
    if let (Some(low), Some(high)) = (effect.low, effect.high) {
        let (low, high) = (column(low), column(high));
        cells[low..=high].fill('─');
        cells[low] = '├';
        cells[high] = '┤';
    }
    cells[column(effect.ratio)] = '●';
    cells.into_iter().collect()
}

fn searched(page: &mut Page, tuning: &Tuning) {
    let count = tuning.searched.len();
    page.paragraph(
        "",
        &format!("searched before: {}", number::counted(count as u64, "comparison", "comparisons")),
        QUIET,
    );
    for trial in tuning.searched.iter().take(SEARCHED_SHOWN) {
        let by =
            trial.effect.throughput.map_or(String::new(), |effect| format!("{:>9}  ", change(effect.ratio)));
        page.hanging("    ", "           ", &format!("{by}{}", safe(&changes_text(&trial.changes))), QUIET);
    }
    if count > SEARCHED_SHOWN {
        page.paragraph("    ", &format!("… {} more are in the JSON and HTML", count - SEARCHED_SHOWN), QUIET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tune::examples;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn a_setting_that_helps_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::helps(), TERMINAL));
    }

    #[test]
    fn a_quantity_without_evidence_is_named_with_the_time_that_it_needs() {
        insta::assert_snapshot!(render(&examples::not_enough_evidence(), Look { width: 100, colour: false }));
    }

    #[test]
    fn a_trial_that_was_broken_off_says_so() {
        insta::assert_snapshot!(render(&examples::broken_off(), TERMINAL));
    }

    #[test]
    fn hostile_strings_steer_nothing_and_no_table_is_wider_than_the_terminal() {
        let text = render(&examples::hostile(), TERMINAL);
        assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{text}");
        for tuning in [examples::helps(), examples::broken_off(), examples::not_enough_evidence()] {
            for width in [60, 80, 100] {
                for line in render(&tuning, Look { width, colour: false }).lines() {
                    assert!(line.width() <= width.max(76), "{width} columns: {line}");
                }
            }
        }
    }
}
