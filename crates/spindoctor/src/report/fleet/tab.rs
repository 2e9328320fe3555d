//! `server<TAB>cell<TAB>cell`, as pmysql prints it: for grep, awk, sort.
//!
//! Tabs, line ends, backslashes and zeros within a cell are `\t`, `\n`, `\\`, `\0` and NULL is `NULL`, as
//! `mysql --batch` has them. On a terminal what steers it becomes visible.

use std::io::IsTerminal as _;

use super::{Format, Part};
use crate::terminal::safe;

/// Rows behind the names of their servers.
pub(super) struct Tab {
    is_seen: bool,
}

impl Tab {
    /// For standard output, whatever that is.
    pub(super) fn new() -> Self {
        Self { is_seen: std::io::stdout().is_terminal() }
    }
}

impl Format for Tab {
    fn part(&mut self, part: &Part<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let begin = out.len();
        out.reserve(part.rows.bytes() + part.rows.len() * part.server.map_or(0, str::len));
        if !self.is_seen {
            let separators = rows(part, out, Vec::extend_from_slice);
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

/// Adds the rows of a part, their cells as `put` adds them. How many tabs and line ends stand between them.
fn rows(part: &Part<'_>, out: &mut Vec<u8>, mut put: impl FnMut(&mut Vec<u8>, &[u8])) -> usize {
    let mut separators = 0;
    for row in part.rows.iter() {
        let mut is_first = true;
        if let Some(server) = part.server {
            out.extend_from_slice(server.as_bytes());
            is_first = false;
        }
        for cell in row.cells() {
            if !is_first {
                out.push(b'\t');
                separators += 1;
            }
            is_first = false;
            match cell {
                None => out.extend_from_slice(b"NULL"),
                Some(bytes) => put(out, bytes),
            }
        }
        out.push(b'\n');
        separators += 1;
    }
    separators
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
    use super::super::testing::printed;
    use super::*;

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
    fn a_terminal_is_not_steered() {
        let (out, _) = printed(Tab { is_seen: true });
        assert!(!out.contains(&0x1b) && String::from_utf8(out).unwrap().contains("\\u{1b}[2J"));
    }
}
