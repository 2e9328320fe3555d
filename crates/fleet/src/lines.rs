//! Rows as lines: `server<TAB>cell<TAB>cell`, as pmysql prints them.
//!
//! Tabs, line ends, backslashes and zeros within a cell are `\t`, `\n`, `\\`, `\0` and NULL is `NULL`, as
//! `mysql --batch` has them. Here and not in the program, which is built for size: `fleet query` prints hundreds of megabytes
//! a second this way (`fleet-query` in BENCHMARKS.md).

use crate::wire::rows::{Row, Rows};

/// Adds a line for each row, behind the name of its server where there is one.
pub fn lines(server: Option<&str>, rows: &Rows, out: &mut Vec<u8>) {
    let begin = out.len();
    out.reserve(rows.bytes() + rows.len() * server.map_or(0, str::len));
    let separators = plain(server, rows, out);
    // Nearly no cell has anything special. Cells are a few bytes each, and all of them are looked through much faster at
    // once: what is special beside the separators stood in a cell.
    if special(&out[begin..]) != separators {
        out.truncate(begin);
        lines_with(server, rows, out, escape);
    }
}

/// Adds the rows, their cells as they are. How many tabs and line ends stand between them.
fn plain(server: Option<&str>, rows: &Rows, out: &mut Vec<u8>) -> usize {
    let Some(server) = server else { return lines_with(server, rows, out, Vec::extend_from_slice) };
    let mut separators = 0;
    for one in rows.iter() {
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

/// Adds the rows, a line for each, their cells as `put` adds them. How many tabs and line ends stand between the cells.
pub fn lines_with(
    server: Option<&str>,
    rows: &Rows,
    out: &mut Vec<u8>,
    mut put: impl FnMut(&mut Vec<u8>, &[u8]),
) -> usize {
    let mut separators = 0;
    for one in rows.iter() {
        separators += row(server, one, out, &mut put) + 1;
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

/// What is written otherwise within a cell.
const SPECIAL: [u8; 4] = [b'\t', b'\n', b'\\', 0];

/// How many bytes of a text are written otherwise within a cell. A release's link for size makes no loop over many bytes at
/// once of what is written as one; memchr's counts are such loops. They go over a part that stays in the CPU's nearest cache.
fn special(bytes: &[u8]) -> usize {
    let of_part =
        |part: &[u8]| SPECIAL.iter().map(|&byte| memchr::memchr_iter(byte, part).count()).sum::<usize>();
    bytes.chunks(CACHED_BYTES).map(of_part).sum()
}

/// Half of the smallest first cache of data that today's servers have: 32 KiB.
const CACHED_BYTES: usize = 16 << 10;

/// Adds a cell's bytes, those that would end a cell or a line as `mysql --batch` writes them.
pub fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
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
    use super::*;

    /// Four rows: short cells, a NULL, a cell whose length takes more than one byte, and a backslash.
    fn rows() -> Rows {
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
        rows
    }

    #[test]
    fn a_row_that_is_made_text_of_where_it_is_is_the_same_text() {
        let (mut quick, mut slow) = (Vec::new(), Vec::new());
        let separators = lines_with(Some("db1"), &rows(), &mut slow, Vec::extend_from_slice);
        assert_eq!(plain(Some("db1"), &rows(), &mut quick), separators);
        assert_eq!(String::from_utf8_lossy(&quick), String::from_utf8_lossy(&slow));
        assert_eq!(separators, 4 * 4);
    }

    #[test]
    fn lines_are_added_and_what_would_break_them_is_escaped() {
        let mut out = b"before\n".to_vec();
        lines(Some("db1"), &rows(), &mut out);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (5, "before", "db1\t7\tNULL\ta"));
        assert_eq!(lines[4], "db1\tNULL\tb\\\\\tc");
    }
}
