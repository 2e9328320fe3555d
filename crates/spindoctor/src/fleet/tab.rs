//! `server<TAB>cell<TAB>cell`, as pmysql prints it: for grep, awk, sort.
//!
//! Cells are as `mysql --batch` has them ([`spindoctor_fleet::lines`]). On a terminal what steers it becomes visible.

use std::io::IsTerminal as _;

use spindoctor_fleet::lines::{escape, lines, lines_with};

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
        if !self.is_seen {
            lines(part.server, part.rows, out);
            return Ok(());
        }
        lines_with(part.server, part.rows, out, |out, cell| {
            let mut escaped = Vec::with_capacity(cell.len());
            escape(&mut escaped, cell);
            out.extend_from_slice(safe(&String::from_utf8_lossy(&escaped)).as_bytes());
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
    fn a_terminal_is_not_steered() {
        let (out, _) = printed(Tab { is_seen: true });
        assert!(!out.contains(&0x1b) && String::from_utf8(out).unwrap().contains("\\u{1b}[2J"));
    }
}
