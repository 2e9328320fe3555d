//! The cells of a row: of a frame, of CSV.

use crate::heads::is_number;

/// The cells of a framed row, without what parts them.
pub(crate) fn framed(line: &str) -> Vec<&str> {
    let line = line.trim();
    let inside = line.strip_prefix('|').unwrap_or(line);
    inside.strip_suffix('|').unwrap_or(inside).split('|').map(str::trim).collect()
}

/// The rows of a line into which several were joined, as where a page lost the line ends: each as wide as the head, with the blank
/// that was a line end between them, and a number in front. None where it is one row.
pub(super) fn rows_of_line(cells: &[String], wanted: usize) -> Option<Vec<Vec<String>>> {
    // A width and the blank behind it, again and again; behind the last stands none.
    let is_whole = wanted >= 2 && cells.len() > wanted && (cells.len() + 1).is_multiple_of(wanted + 1);
    let rows = || cells.chunks(wanted + 1);
    let is_row = |row: &[String]| {
        row.first().is_some_and(|cell| is_number(cell.trim()))
            && row.get(wanted).is_none_or(|blank| blank.trim().is_empty())
    };
    (is_whole && rows().all(is_row)).then(|| rows().map(|row| row[..wanted].to_vec()).collect())
}

/// The cells of a row of CSV, as many as wanted where one way of reading its quotes gives so many.
pub(crate) fn quoted_cells(line: &str, mark: char, wanted: usize) -> Vec<String> {
    let cells = quoted(line, mark, true);
    if cells.len() == wanted {
        return cells;
    }
    // Some tools write texts in quotes without doubling the quotes within them.
    let plain = quoted(line, mark, false);
    if plain.len() == wanted { plain } else { cells }
}

/// The cells of a row of CSV. A quote closes before a mark or at the end of the line alone; of two in front of a mark the second
/// closes where quotes are not doubled.
fn quoted(line: &str, mark: char, is_doubled: bool) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    // Some tools quote as SQL does: the first cell that is quoted shows it.
    let quote =
        line.split(mark).find_map(|cell| cell.trim_start().chars().next().filter(|c| "'\"".contains(*c)));
    let quote = quote.unwrap_or('"');
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let Some(cell) = cells.last_mut() else { break };
        let rest = letters.as_str();
        let ends = |rest: &str| {
            let rest = rest.trim_start_matches(' ');
            rest.is_empty() || rest.starts_with(mark)
        };
        match letter {
            letter if letter == quote && is_quoted => match rest.strip_prefix(quote) {
                Some(behind) if is_doubled || !ends(behind) => {
                    cell.push(quote);
                    letters.next();
                }
                _ if ends(rest) => is_quoted = false,
                _ => cell.push(letter),
            },
            letter if letter == quote && cell.trim().is_empty() => {
                is_quoted = true;
                cell.clear();
            }
            '\\' if is_quoted => cell.extend(letters.next()),
            letter if letter == mark && !is_quoted => cells.push(String::new()),
            letter => cell.push(letter),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use crate::rows::tests::cells;

    #[test]
    fn cells_in_single_quotes_are_read_where_the_first_cell_is_a_number() {
        let rows = cells(
            "Id, User, Command, Time, State, Info\n\
             177, 'app', 'Query', 23994, 'Waiting for table metadata lock', 'SELECT a FROM t WHERE b = 'x' AND c = 'y''\n\
             178, 'app', 'Query', 3, '', 'SELECT ''a, b'''\n",
        );
        assert_eq!(rows[0][1].1, "app");
        assert_eq!(rows[0][4].1, "Waiting for table metadata lock");
        assert_eq!(rows[0][5].1, "SELECT a FROM t WHERE b = 'x' AND c = 'y'");
        assert_eq!(rows[1][5].1, "SELECT 'a, b'");
        let more = cells("Id, User, Info, Time\n5, 'app', 'SELECT 'x'', 7\n");
        assert_eq!((more[0][2].1.as_str(), more[0][3].1.as_str()), ("7", "SELECT 'x'"));
    }
}
