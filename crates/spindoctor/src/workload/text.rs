//! A workload for the terminal: the consumers of time, the phases inside statements, and the panel.

use anstyle::AnsiColor;
use unicode_width::UnicodeWidthStr as _;

use super::keys::Group;
use super::panel::Line;
use super::split::{Part, Split};
use super::tally::{By, Counted};
use super::view::{Workload, share};
use super::words::{at_once, behind_text, caught_up_text, cost_text, head, log_text, shown_text};
use crate::common::words::severity_word;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened, wrapped};

/// Rows of the kinds beside the first.
const OTHERS_SHOWN: usize = 5;
/// The slowest statements that are shown.
const SLOWEST_SHOWN: usize = 5;
/// Statements whose phases are shown.
const SPLIT_SHOWN: usize = 3;
/// Columns of a share, of how many at once, of a time.
const SHARE: i32 = 8;
const AT_ONCE: i32 = 9;
const TIME: i32 = 12;
/// Fewer sightings of threads inside statements are not split: a share of thirty is known to ten points or so (its standard
/// error at one half is 9), of six not at all.
const SPLIT_LEAST_SEEN: u64 = 30;
/// A phase that takes less of a statement is not named beside it.
const PART_NAMED: f64 = 0.05;
/// Where what stands beside a reading of the panel begins, and where its value ends.
const READING: usize = 28;
const VALUE: usize = 12;

/// What of a workload is shown.
#[derive(Debug, Clone)]
pub struct Selection {
    /// What the time is split by, the first in more detail.
    pub by: Vec<By>,
    /// Rows of the first.
    pub top: usize,
}

impl Default for Selection {
    fn default() -> Self {
        Self { by: By::ALL.to_vec(), top: 10 }
    }
}

/// The workload as text.
pub fn render(workload: &Workload, shown: &Selection, look: Look) -> String {
    let mut page = Page::new(look);
    page.line_with_right(&safe(&head(workload)), &at_once(workload), STRONG, STRONG);
    let counted = &workload.counted;
    if let Some(pattern) = &workload.grep {
        let text = format!(
            "{} of the time goes into what matches {pattern}",
            number::percent(share(counted, counted.matching))
        );
        page.hanging("", "  ", &safe(&text), STRONG);
    }
    replica(&mut page, workload);
    if counted.seen == 0 {
        page.blank();
        let nobody = if workload.of_replica {
            "No applier was at work."
        } else {
            "No statement was seen in any look."
        };
        page.paragraph("", nobody, AnsiColor::Green.on_default().bold());
    }
    let mut first = true;
    for by in &shown.by {
        let Some((_, groups)) = counted.groups.iter().find(|(known, _)| known == by) else { continue };
        if !first && !is_worth_telling(groups) {
            continue;
        }
        kind(&mut page, counted, *by, groups, if first { shown.top } else { OTHERS_SHOWN.min(shown.top) });
        first = false;
    }
    few_sightings(&mut page, workload);
    slowest(&mut page, workload);
    match &workload.split {
        Ok(split) if split.seen > 0 => phases(&mut page, split),
        Ok(_) => {}
        Err(why) => {
            page.blank();
            page.hanging("", "  ", &safe(&format!("inside statements: not known: {why}")), QUIET);
        }
    }
    if !workload.of_replica {
        readings(&mut page, &workload.panel);
    }
    if !workload.findings.is_empty() {
        page.blank();
        for finding in &workload.findings {
            let text =
                format!("{}: {} ({})", severity_word(finding.severity), finding.headline, finding.cause);
            page.hanging("", "  ", &safe(&text), STRONG);
            if let Some(remedy) = finding.remedies.first() {
                page.hanging("    ", "    ", &safe(&format!("do: {}", remedy.statement)), PLAIN);
            }
        }
    }
    page.blank();
    for note in &workload.notes {
        page.hanging("", "  ", &safe(note), QUIET);
    }
    if let Some(cost) = &workload.cost {
        page.paragraph("", &format!("cost: {}", cost_text(cost)), QUIET);
    }
    page.finish()
}

/// False where there is nothing but one group, or nothing but what has no name.
fn is_worth_telling(groups: &[Group]) -> bool {
    groups.len() > 1 || groups.first().is_some_and(|group| group.key != "(none)")
}

fn kind(page: &mut Page, counted: &Counted, by: By, groups: &[Group], rows: usize) {
    let title = match by {
        By::Digest => "statement",
        By::Tag => "tag",
        by => by.name(),
    };
    page.blank();
    page.paragraph("", &format!("time by {title}"), STRONG);
    let is_wide = by == By::Digest;
    let taken = SHARE + AT_ONCE + TIME + 2;
    let width = i32::try_from(page.look.width).unwrap_or(80).saturating_sub(taken).max(20);
    let columns = [("share", SHARE), ("at once", AT_ONCE), ("slowest", TIME), (title, -width)];
    let row = |group: &Group| {
        let slowest = match group.slowest_s {
            seconds if seconds > 0.0 => number::duration((seconds * 1e3).round() / 1e3),
            _ => String::new(),
        };
        let at_once = group.seen as f64 / counted.looks.max(1) as f64;
        let mut name = safe(&group.key);
        // What it is mostly at, where there is room.
        let state = group.states.first().filter(|(state, _)| is_wide && !state.is_empty());
        if let Some((state, seen)) = state
            && name.width() + state.width() + 12 < usize::try_from(width).unwrap_or(0)
        {
            name = format!(
                "{name}   [{} {}]",
                safe(state),
                number::percent(*seen as f64 / group.seen.max(1) as f64)
            );
        }
        vec![
            number::percent(share(counted, group.seen)),
            number::plain((at_once * 100.0).round() / 100.0),
            slowest,
            name,
        ]
    };
    page.table(&columns, groups.iter().take(rows).map(row));
    if let Some(more) = groups.get(rows..).filter(|more| !more.is_empty()) {
        let seen: u64 = more.iter().map(|group| group.seen).sum();
        let text = format!(
            "{:>7} in {} more",
            number::percent(share(counted, seen)),
            number::plain(more.len() as f64)
        );
        page.paragraph("", &text, QUIET);
    }
}

/// Where few statements were seen: that it is so, and what the server counted itself.
fn few_sightings(page: &mut Page, workload: &Workload) {
    if !workload.has_few_sightings() {
        return;
    }
    let counted = &workload.counted;
    page.blank();
    let seen = format!(
        "too few sightings: {} seen in {}, so the shares above say little",
        number::counted(counted.seen, "statement was", "statements were"),
        number::counted(counted.looks, "look", "looks")
    );
    if workload.by_server.is_empty() {
        let text = format!("{seen}; look for longer (--duration 1m)");
        return page.hanging("", "  ", &text, STRONG);
    }
    page.hanging("", "  ", &format!("{seen}; what the server counted itself:"), STRONG);
    let width =
        i32::try_from(page.look.width).unwrap_or(80).saturating_sub(SHARE + 2 * AT_ONCE + TIME + 2).max(20);
    let columns =
        [("share", SHARE), ("at once", AT_ONCE), ("each", TIME), ("/s", AT_ONCE), ("statement", -width)];
    let rows = workload.by_server.iter().take(OTHERS_SHOWN).map(|one| {
        vec![
            number::percent(one.share),
            number::plain((one.at_once * 100.0).round() / 100.0),
            number::duration(one.mean_ms / 1e3),
            number::plain((one.per_s * 10.0).round() / 10.0),
            safe(&one.statement),
        ]
    });
    page.table(&columns, rows);
}

fn slowest(page: &mut Page, workload: &Workload) {
    let slowest: Vec<_> = workload.counted.slowest.iter().take(SLOWEST_SHOWN).collect();
    if slowest.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("", "slowest single statements", STRONG);
    let width = i32::try_from(page.look.width).unwrap_or(80).saturating_sub(TIME + 12 + 14 + 2).max(20);
    let columns = [("ran for", TIME), ("connection", 12), ("user", -12), ("statement", -width)];
    let rows = slowest.into_iter().map(|slow| {
        vec![
            number::duration((slow.seconds * 1e3).round() / 1e3),
            slow.connection_id.map_or_else(String::new, |id| id.to_string()),
            safe(&slow.user),
            safe(shown_text(workload, slow)),
        ]
    });
    page.table(&columns, rows);
}

fn phases(page: &mut Page, split: &Split) {
    page.blank();
    let snapshots = number::counted(split.snapshots, "snapshot", "snapshots");
    if split.seen < SPLIT_LEAST_SEEN {
        let seen = number::counted(split.seen, "time", "times");
        let text = format!(
            "inside statements: not enough data, threads were seen there {seen} in {snapshots}, and {SPLIT_LEAST_SEEN} are needed; \
             look for longer (--duration 1m)"
        );
        return page.hanging("", "  ", &text, QUIET);
    }
    page.paragraph("", &format!("inside statements, by the stacks of {snapshots}"), STRONG);
    let columns = [("share", SHARE), ("on CPU", AT_ONCE), ("", -40)];
    let row = |part: &Part| {
        vec![number::percent(part.share), number::percent(part.on_cpu), part.phase.name().to_owned()]
    };
    page.table(&columns, split.parts.iter().map(row));
    let text = format!(
        "{} on a CPU, {} ready and waiting for one",
        number::percent(split.on_cpu),
        number::percent(split.for_cpu)
    );
    page.paragraph("  ", &text, QUIET);
    let text = split.statements.iter().filter(|statement| statement.seen >= SPLIT_LEAST_SEEN);
    for statement in text.take(SPLIT_SHOWN) {
        let named: Vec<String> = statement
            .parts
            .iter()
            .filter(|part| part.share >= PART_NAMED)
            .map(|part| format!("{} {}", part.phase.name(), number::percent(part.share)))
            .collect();
        let of_all = number::percent(statement.share);
        let room = page.look.width.saturating_sub(12);
        let line = format!("{of_all:>7}  {}", shortened(&safe(&statement.digest), room));
        page.push(&line);
        page.hanging("         ", "", &named.join(", "), QUIET);
    }
}

fn readings(page: &mut Page, panel: &Result<Vec<Line>, String>) {
    page.blank();
    let lines = match panel {
        Ok(lines) => lines,
        Err(why) => return page.hanging("", "  ", &safe(&format!("what is read: not known: {why}")), QUIET),
    };
    page.paragraph("", "what is read and sent", STRONG);
    let odd = AnsiColor::Yellow.on_default().bold();
    for line in lines {
        let lead = format!("  {:<26}{:>VALUE$}  ", line.reading, line.shown());
        let column = READING + VALUE + 2;
        let room = page.look.width.saturating_sub(column);
        // What is odd stands in a line of its own, so that it is not overlooked.
        let mut texts: Vec<(String, anstyle::Style)> = Vec::new();
        texts.extend(wrapped(&safe(&line.beside), room).into_iter().map(|text| (text, PLAIN)));
        if !line.odd.is_empty() {
            if line.beside.is_empty() {
                texts.clear();
            }
            texts.extend(wrapped(&safe(&line.odd), room).into_iter().map(|text| (text, odd)));
        }
        for (at, (text, style)) in texts.iter().enumerate() {
            let painted = page.paint(*style, text);
            match at {
                0 => page.push(&format!("{lead}{painted}")),
                _ => page.push(&format!("{}{painted}", " ".repeat(column))),
            }
        }
    }
}

fn replica(page: &mut Page, workload: &Workload) {
    let channels = match &workload.replica {
        Ok(channels) => channels,
        Err(why) if workload.of_replica => {
            let line = format!("how it keeps up is not known: {why}");
            return page.hanging("", "  ", &safe(&line), STRONG);
        }
        Err(_) => return,
    };
    for seen in channels {
        page.blank();
        let channel = &seen.channel;
        let name =
            if channel.name.is_empty() { String::new() } else { format!(", channel {}", channel.name) };
        let title = format!("replica of {}:{}{name}", channel.source_host, channel.source_port);
        page.line_with_right(&safe(&title), seen.shape.text(), STRONG, STRONG);
        page.field("lag", &safe(&behind_text(seen)), 12);
        if let Some(line) = log_text(seen) {
            page.field("binary log", &line, 12);
        }
        if let Some(line) = caught_up_text(seen) {
            page.field("caught up", &line, 12);
        }
        if let Some((number, error)) = channel.error() {
            let number = number.map_or_else(String::new, |number| format!("{number}: "));
            page.field(
                "error",
                &safe(&format!("{number}{}", spindoctor_sql::error_without_values(error))),
                12,
            );
        }
    }
    if workload.of_replica && workload.counted.resting > 0 {
        let all = workload.counted.resting + workload.counted.seen;
        let rested = number::percent(workload.counted.resting as f64 / all as f64);
        page.field("appliers", &format!("{rested} of their time they had nothing to apply"), 12);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::workload::examples;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn a_workload_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::busy(), &Selection::default(), TERMINAL));
    }

    #[test]
    fn a_replica_that_lags_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::replica(), &Selection::default(), TERMINAL));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_steers_it() {
        for (name, workload) in
            [("busy", examples::busy()), ("replica", examples::replica()), ("hostile", examples::hostile())]
        {
            for width in [60, 80, 100] {
                let text = render(&workload, &Selection::default(), Look { width, colour: false });
                for line in text.lines() {
                    assert!(line.width() <= width, "{name} at {width}: {line}");
                }
                assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{name}");
            }
        }
    }

    #[test]
    fn literals_are_shown_only_where_they_are_asked_for() {
        let mut workload = examples::busy();
        let text = render(&workload, &Selection::default(), TERMINAL);
        assert!(!text.contains("%x%") && text.contains("LIKE ?"), "{text}");
        workload.literals = true;
        let text = render(&workload, &Selection::default(), Look { width: 100, colour: false });
        assert!(text.contains("%x%"), "{text}");
    }
}
