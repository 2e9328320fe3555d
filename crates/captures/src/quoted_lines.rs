//! CSV whose cells in quotes have line ends of their own: each row in a line.

use crate::rows::{header_of, quoted_cells};

/// Lines of a statement in quotes. By judgement.
const MOST_LINES: usize = 40;

/// The lines of a text, with blanks for the line ends within cells of CSV below a head.
pub(crate) fn in_one_line(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| ['"', '\''].into_iter().any(|quote| is_open(line, quote))) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut list: Option<(char, usize)> = None;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if let Some(names) = mark(line).and_then(|mark| Some((mark, header_of(line)?.len()))) {
            list = Some(names);
        }
        match list.and_then(|(mark, wanted)| row(&lines[at..], mark, wanted)) {
            Some((row, taken)) => {
                all.push(row);
                at += taken;
            }
            None => {
                all.push(line.clone());
                at += 1;
            }
        }
    }
    all
}

/// What parts the names of a head.
fn mark(line: &str) -> Option<char> {
    [',', ';'].into_iter().find(|mark| line.contains(*mark) && !line.contains('|'))
}

fn is_open(line: &str, quote: char) -> bool {
    line.matches(quote).count() % 2 == 1
}

/// The row that begins in the first of these lines and ends in another, and how many lines it has.
fn row(lines: &[String], mark: char, wanted: usize) -> Option<(String, usize)> {
    let first = lines.first()?;
    let begins_cell = |quote: char| {
        first.starts_with(quote)
            || ["", " "].iter().any(|blank| first.contains(&format!("{mark}{blank}{quote}")))
    };
    let quote = ['"', '\''].into_iter().find(|quote| is_open(first, *quote) && begins_cell(*quote))?;
    let mut whole = first.clone();
    for (more, line) in lines.iter().enumerate().skip(1).take(MOST_LINES) {
        whole.push(' ');
        whole.push_str(line.trim_start());
        if is_open(line, quote) {
            // A statement whose own quotes are not doubled has commas that look as if they parted cells.
            let is_row = quoted_cells(&whole, mark, wanted).len() >= wanted;
            return is_row.then_some((whole, more + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_in_quotes_has_line_ends_and_the_row_is_one() {
        let text = "\"Id\",\"User\",\"Command\",\"Time\",\"State\",\"Info\"\n\
                    \"7\",\"app\",\"Query\",\"3\",\"altering table\",\"ALTER TABLE a\n\n  ADD b INT COMMENT \"\"x\"\"\"\n\
                    \"8\",\"app\",\"Query\",\"3\",\"\",\"SELECT 'it''s'\"\nit's \"all\n";
        let rows = in_one_line(text.lines().map(str::to_owned).collect());
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert_eq!(quoted_cells(&rows[1], ',', 6)[5], "ALTER TABLE a  ADD b INT COMMENT \"x\"");
        let plain = "Id, User, Command, Time, State, Info, Progress\n7, 'app', 'Query', 3, 'copy to tmp table', 'CREATE TABLE a (\n\
                     b int COMMENT 'it is b',\n...\n) SELECT * FROM c', 12.500\n";
        let rows = in_one_line(plain.lines().map(str::to_owned).collect());
        assert_eq!(rows.len(), 2, "{rows:?}");
        let read = crate::recognise("x", plain);
        let Some(crate::part::Said::Threads(threads)) =
            read.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said).next()
        else {
            panic!("no sessions in {read:?}")
        };
        let statement = threads[0].statement.as_deref().unwrap_or_default();
        assert!(statement.starts_with("CREATE TABLE a ("), "{threads:?}");
        let semicolons = text.replace("\",\"", "\";\"");
        assert_eq!(in_one_line(semicolons.lines().map(str::to_owned).collect()).len(), 4);
    }
}
