//! `server<TAB>cell<TAB>cell`, as pmysql prints it: for grep, awk, sort.
//!
//! Tabs, line ends, backslashes and zeros within a cell are `\t`, `\n`, `\\`, `\0` and NULL is `NULL`, as
//! `mysql --batch` has them. On a terminal what steers it becomes visible.

use std::io::IsTerminal as _;

use spindoctor_fleet::wire::rows::Row;

use super::part::{Format, Part};
use spindoctor_page::safe::safe;

/// Rows behind the names of their servers.
pub struct Tab {
    is_seen: bool,
}

impl Tab {
    /// For standard output: a terminal, a file or a pipe.
    pub fn new() -> Self {
        Self { is_seen: std::io::stdout().is_terminal() }
    }
}

impl Format for Tab {
    fn part(&mut self, part: &Part<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let begin = out.len();
        out.reserve(part.rows.bytes() + part.rows.len() * part.server.map_or(0, str::len));
        if !self.is_seen {
            let separators = plain(part, out);
            // Nearly no cell has anything special. Cells are a few bytes each, and all of them are looked through much faster
            // at once: what is special beside the separators stood in a cell.
            if special(&out[begin..]) == separators {
                return Ok(());
            }
            out.truncate(begin);
            rows(part, out, escape);
            return Ok(());
        }
        rows(part, out, |out, cell| {
            let mut escaped = Vec::with_capacity(cell.len());
            escape(&mut escaped, cell);
            out.extend_from_slice(safe(&String::from_utf8_lossy(&escaped)).as_bytes());
        });
        Ok(())
    }
}

/// Adds the rows of a part, their cells as they are. How many tabs and line ends stand between them.
fn plain(part: &Part<'_>, out: &mut Vec<u8>) -> usize {
    let Some(server) = part.server else { return rows(part, out, Vec::extend_from_slice) };
    let mut separators = 0;
    for one in part.rows.iter() {
        let begin = out.len();
        out.extend_from_slice(server.as_bytes());
        let cells = out.len();
        out.extend_from_slice(one.packet());
        match tabs_for_lengths(&mut out[cells..]) {
            Some(tabs) => separators += tabs,
            None => {
                out.truncate(begin);
                separators += row(Some(server), one, out, &mut Vec::extend_from_slice);
            }
        }
        out.push(b'\n');
        separators += 1;
    }
    separators
}

/// Makes text of a row as the wire has it, where it is: the length before each cell is one byte, and so is the tab that takes
/// its place. How many tabs; None where a cell is NULL or longer than one byte can say.
fn tabs_for_lengths(cells: &mut [u8]) -> Option<usize> {
    let (mut at, mut tabs) = (0, 0);
    while let Some(length) = cells.get_mut(at) {
        if *length > 0xfa {
            return None;
        }
        at += 1 + usize::from(*length);
        *length = b'\t';
        tabs += 1;
    }
    Some(tabs)
}

/// Adds the rows of a part, their cells as `put` adds them. How many tabs and line ends stand between them.
fn rows(part: &Part<'_>, out: &mut Vec<u8>, mut put: impl FnMut(&mut Vec<u8>, &[u8])) -> usize {
    let mut separators = 0;
    for one in part.rows.iter() {
        separators += row(part.server, one, out, &mut put) + 1;
        out.push(b'\n');
    }
    separators
}

/// Adds a row without its line end. How many tabs stand in it.
fn row(
    server: Option<&str>,
    row: Row<'_>,
    out: &mut Vec<u8>,
    put: &mut impl FnMut(&mut Vec<u8>, &[u8]),
) -> usize {
    let mut tabs = 0;
    let mut is_first = true;
    if let Some(server) = server {
        out.extend_from_slice(server.as_bytes());
        is_first = false;
    }
    for cell in row.cells() {
        if !is_first {
            out.push(b'\t');
            tabs += 1;
        }
        is_first = false;
        match cell {
            None => out.extend_from_slice(b"NULL"),
            Some(bytes) => put(out, bytes),
        }
    }
    tabs
}

/// How many bytes of a text are written otherwise within a cell.
fn special(bytes: &[u8]) -> usize {
    // The count of a chunk fits a byte: the compiler then adds many bytes at once.
    let of_chunk = |chunk: &[u8]| {
        chunk.iter().fold(0_u8, |count, &byte| {
            count + u8::from((byte == b'\t') | (byte == b'\n') | (byte == b'\\') | (byte == 0))
        })
    };
    bytes.chunks(128).map(|chunk| usize::from(of_chunk(chunk))).sum()
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0 => out.extend_from_slice(b"\\0"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_fleet::piece::Columns;
    use spindoctor_fleet::wire::rows::Rows;

    use super::*;

    use crate::fleet::testing::printed;

    #[test]
    fn every_row_is_a_line_that_begins_with_its_server() {
        let (out, _) = printed(Tab { is_seen: false });
        let expected: &[u8] = b"db1:3306\t7\tSELECT\\t1,\\n\"x\\\\y\"\n\
            db2:3306\t12\tNULL\ndb2:3306\t13\t\n\
            db1:3306\t8\t\x1b[2J\xff\n\
            db3:3306\t1\t0.50\ta\n";
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected));
    }

    #[test]
    fn a_row_that_is_made_text_of_where_it_is_is_the_same_text() {
        let text = "x".repeat(250);
        let longer = "y".repeat(251);
        let cells: [&[Option<&str>]; 4] = [
            &[Some("7"), Some(""), Some(&text)],
            &[Some("7"), None, Some("a")],
            &[Some("7"), Some(&longer), Some("a")],
            &[None, Some("b\\"), Some("c")],
        ];
        let mut rows = Rows::default();
        for row in cells {
            rows.push(row.iter().map(|cell| cell.map(str::as_bytes)));
        }
        let columns = Columns::default();
        let part = Part { server: Some("db1"), columns: &columns, rows: &rows, part: 0, end: None };
        let (mut quick, mut slow) = (Vec::new(), Vec::new());
        let separators = super::rows(&part, &mut slow, Vec::extend_from_slice);
        assert_eq!(plain(&part, &mut quick), separators);
        assert_eq!(String::from_utf8_lossy(&quick), String::from_utf8_lossy(&slow));
        assert_eq!(separators, 4 * 4);
    }

    #[test]
    fn a_terminal_is_not_steered() {
        let (out, _) = printed(Tab { is_seen: true });
        assert!(!out.contains(&0x1b) && String::from_utf8(out).unwrap().contains("\\u{1b}[2J"));
    }
}
