//! What `sort | uniq -c` prints of a column of a process list, as a list that a client prints.
//!
//! ```text
//!     312 Waiting for table metadata lock
//!      14 Sending data
//! ```

use crate::counted::{group, is_command, is_list, is_state};
use crate::heads::{COMMANDS, STATEMENTS, is_number};

/// The lines of a text, with what `sort | uniq -c` printed of states or commands, and lists of states whose tabs a page made blanks, as a
/// client prints them in batch mode.
pub(crate) fn with_heads(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| counted_line(line).is_some() || is_spaced_head(line)) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 2);
    let mut at = 0;
    while at < lines.len() {
        let spaced: Vec<(u64, &str)> = match is_spaced_head(&lines[at]) {
            true => lines[at + 1..].iter().map_while(|line| spaced_row(line)).collect(),
            false => Vec::new(),
        };
        let run: Vec<(u64, &str)> = match spaced.is_empty() {
            true => lines[at..].iter().map_while(|line| counted_line(line)).collect(),
            false => Vec::new(),
        };
        let (rows, group, taken) = match (group_of(&run), spaced.is_empty()) {
            (_, false) => (&spaced, "state", spaced.len() + 1),
            (Some(group), true) => (&run, group, run.len()),
            (None, true) => {
                let taken = run.len().max(1);
                all.extend_from_slice(&lines[at..at + taken]);
                at += taken;
                continue;
            }
        };
        all.push(format!("{group}\tCOUNT(*)"));
        for (count, text) in rows {
            let text = labelled(text).1;
            // The head of the column was counted, too.
            if !text.eq_ignore_ascii_case(group) {
                let text = if text.is_empty() { "NULL" } else { text };
                all.push(format!("{text}\t{count}"));
            }
        }
        // Where the list ends.
        all.push(String::new());
        at += taken;
    }
    all
}

/// `    312 Waiting for table metadata lock`: a number, and what there is so often.
fn counted_line(line: &str) -> Option<(u64, &str)> {
    /// No state is as long.
    const LONGEST: usize = 120;
    let line = line.trim();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    if line.len() > LONGEST || digits > 7 || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    // With more behind it in other columns it is the row of a session: `5\tSending data\tSELECT a`.
    if rest.trim().contains('\t') || is_of_session(rest.trim()) {
        return None;
    }
    Some((line[..digits].parse().ok()?, rest.trim()))
}

/// True where blanks part further columns from the first, or a command and its statement stand behind it.
fn is_of_session(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_statement = |word: &str| {
        word == "NULL" || STATEMENTS.iter().any(|statement| word.eq_ignore_ascii_case(statement))
    };
    text.contains("  ")
        || words.windows(2).skip(1).any(|pair| COMMANDS.contains(&pair[0]) && is_statement(pair[1]))
}

/// The column that a line of `\G` is of, where such lines were counted: `State: Sending data`.
fn labelled(text: &str) -> (Option<&'static str>, &str) {
    let label = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    match label.and_then(|(name, value)| Some((group(&name.to_ascii_lowercase())?, value))) {
        Some((group, value)) => (Some(group), value),
        None => (None, text),
    }
}

/// What lines that are counted are: states or commands, or what their labels say.
fn group_of(run: &[(u64, &str)]) -> Option<&'static str> {
    /// Fewer words alone may be anything.
    const FEW: usize = 2;
    let texts: Vec<(Option<&'static str>, &str)> = run.iter().map(|(_, text)| labelled(text)).collect();
    let label = texts.first().and_then(|(label, _)| *label);
    if texts.iter().any(|(other, _)| *other != label) {
        return None;
    }
    let is_head =
        |text: &str| ["state", "command", "null", ""].iter().any(|head| text.eq_ignore_ascii_case(head));
    let named: Vec<&str> = texts.iter().map(|(_, text)| *text).filter(|text| !is_head(text)).collect();
    let states = named.iter().filter(|text| is_state(text)).count();
    let commands = named.iter().filter(|text| is_command(text)).count();
    let has_words = named.iter().any(|text| is_state(text) && text.contains(' '));
    match label {
        Some("state") if states * 2 >= named.len() && states > 0 => label,
        Some("command" | "user" | "host" | "db") => label,
        Some(_) => None,
        None if states * 2 >= named.len() && (has_words || states >= FEW) => Some("state"),
        None if commands * 2 >= named.len() && commands >= FEW => Some("command"),
        None => None,
    }
}

/// `state COUNT(*)`, with blanks alone between the two.
fn is_spaced_head(line: &str) -> bool {
    let names: Vec<String> = line.split_whitespace().take(3).map(str::to_ascii_lowercase).collect();
    let is_state_first = names.first().is_some_and(|name| group(name) == Some("state"));
    !line.contains(['\t', '|'])
        && names.len() == 2
        && is_state_first
        && names[1].ends_with(')')
        && is_list(&names)
}

/// `Waiting for table metadata lock 312`
fn spaced_row(line: &str) -> Option<(u64, &str)> {
    let line = line.trim();
    let (text, count) = line.rsplit_once(' ').unwrap_or(("", line));
    Some((count.parse().ok().filter(|_| is_number(count))?, text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    #[test]
    fn a_number_before_a_state_and_a_statement_is_a_session_s() {
        let list = "id\tState\tinfo\n5\tSending data\tSELECT a FROM b\n7\tWaiting for table flush\tSELECT a FROM c\n";
        let parts = recognise("x", list);
        assert_eq!(parts[0].kind, Kind::ProcessList, "{parts:?}");
        assert!(parts[0].says.contains(&"2 sessions".to_owned()), "{parts:?}");
        assert_eq!(counted_line("5\tSending data"), Some((5, "Sending data")));
        for session in ["5    Sending data    Query    SELECT a", "5 Sending data Query select a FROM b"] {
            assert_eq!(counted_line(session), None, "{session}");
        }
    }
}
