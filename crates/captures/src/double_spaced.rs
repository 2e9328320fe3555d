//! Lists of a few rows of which a page or a mail put an empty line behind each: with those lines the rows were looks of one session each,
//! or no rows at all below their head. And tables whose rows `grep` parted.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::rows::header_of;
use crate::{headless, spaced};

/// Rows without a head: of fewer each may be all that one look showed.
const FEW: usize = 3;

/// The lines without such empty ones.
pub(crate) fn closed_up(lines: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    let mut goes = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let (last, is_list) = run(&lines, at);
        if is_list {
            (at + 1..last).step_by(2).for_each(|empty| goes[empty] = true);
        }
        at = last + 1;
    }
    // What grep prints between lines that did not follow each other.
    let is_framed = |line: &Cow<'_, str>| line.trim_start().starts_with('|');
    for (at, three) in lines.windows(3).enumerate() {
        goes[at + 1] |= three[1].trim() == "--" && is_framed(&three[0]) && is_framed(&three[2]);
    }
    lines.into_iter().zip(goes).filter_map(|(line, goes)| (!goes).then_some(line)).collect()
}

/// The place of the last row of those that begin here and have an empty line between them, and whether they are one list. Two looks may
/// show one session twice; one list does not.
fn run(lines: &[Cow<'_, str>], at: usize) -> (usize, bool) {
    let next = |at: usize| {
        let empty = lines.get(at + 1).filter(|line| line.trim().is_empty());
        empty.and(lines.get(at + 2)).filter(|line| !line.trim().is_empty())
    };
    let first: &str = &lines[at];
    let Some(second) = next(at) else { return (at, false) };
    let tabs = first.matches('\t').count();
    let is_below_head =
        |line: &str| tabs > 0 && line.matches('\t').count() == tabs || connection(line).is_some();
    let mut last = at;
    if is_below_head(second) && header_of(first).is_some() {
        while next(last).is_some_and(|line| is_below_head(line)) {
            last += 2;
        }
        return (last, true);
    }
    let mut ids: BTreeSet<String> = connection(first).into_iter().collect();
    if ids.is_empty() {
        return (at, false);
    }
    while let Some(id) = next(last).and_then(|line| connection(line))
        && ids.insert(id)
    {
        last += 2;
    }
    let is_row = |at: Option<usize>| at.and_then(|at| connection(lines.get(at)?)).is_some();
    let is_part = is_row(at.checked_sub(1)) || is_row(last.checked_add(1));
    (last, ids.len() >= FEW && !is_part)
}

/// The number of the session that a row of a process list without its head has.
fn connection(line: &str) -> Option<String> {
    headless::connection(line).or_else(|| spaced::connection(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;
    use crate::threads::testing::sessions;

    const HEAD: &str = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n\n";

    fn rows(mark: &str, ids: &[u64]) -> String {
        let row = |id: &u64| {
            let cells = [
                "app",
                "10.0.0.1:33",
                "shop",
                "Query",
                "50",
                "Waiting for table level lock",
                "UPDATE t SET a = 1",
            ];
            format!("{id}{mark}{}\n\n", cells.join(mark))
        };
        ids.iter().map(row).collect()
    }

    #[test]
    fn rows_with_an_empty_line_behind_each_are_one_list() {
        for text in [
            rows("\t", &[12, 13, 14]),
            rows(",", &[12, 13, 14]),
            rows(" ", &[12, 13, 14]),
            format!("{HEAD}{}", rows("\t", &[12, 13, 14])),
            format!("{}{}", HEAD.replace('\t', ","), rows(",", &[12, 13, 14])),
        ] {
            let parts = recognise("x", &text);
            assert_eq!(parts.iter().map(|part| part.moments.len()).sum::<usize>(), 1, "{text}: {parts:?}");
            assert_eq!(sessions(&text).len(), 3, "{text}");
        }
        assert_eq!(sessions(&format!("{HEAD}{}", rows("\t", &[12]))).len(), 1);
    }

    #[test]
    fn looks_stay_apart() {
        let lines =
            |text: &str| closed_up(text.lines().map(|line| Cow::Owned(line.to_owned())).collect()).len();
        assert_eq!(lines(&rows("\t", &[12, 12, 12])), 6, "the same session");
        assert_eq!(lines(&rows("\t", &[12, 13])), 4, "few");
        let one = rows("\t", &[15]);
        let text = format!("{}{}{one}", rows("\t", &[12, 13, 14]), one.trim_end().to_owned() + "\n");
        assert_eq!(lines(&text), text.lines().count(), "the last look has two rows");
        assert_eq!(lines("a\n\nb\n\nc\n\n"), 6);
    }
}
