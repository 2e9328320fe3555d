//! The running statements of all servers as a table: every row, under titles. Columns are as wide as their widest cell;
//! where it is known how wide the terminal is, the last one is cut to it.

use unicode_width::UnicodeWidthStr as _;

use crate::top::{Align, Listing};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{short_address, shortened};

/// Between two columns.
const GAP: &str = "  ";
/// No column but the last is wider than this.
const WIDEST: usize = 40;
/// The last column is not cut to less.
const LEAST_REST: usize = 20;

/// The list as text; `columns` is how wide the terminal is, where it is one.
pub fn table(listing: &Listing, columns: Option<usize>) -> String {
    let titles = listing.heads.iter().map(|head| head.title.to_owned()).collect();
    let rows = listing.rows.iter().map(|row| row.cells.iter().map(|cell| safe(cell)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let last = listing.heads.len().saturating_sub(1);
    let mut widths = vec![0; listing.heads.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.width().min(WIDEST));
        }
    }
    let before: usize = widths[..last].iter().map(|width| width + GAP.len()).sum();
    let rest = columns.map_or(usize::MAX, |columns| columns.saturating_sub(before).max(LEAST_REST));
    let mut table = String::new();
    for line in &lines {
        let mut text = String::new();
        for (at, (cell, head)) in line.iter().zip(&listing.heads).enumerate() {
            if at == last {
                text.push_str(&cut(cell, rest));
                continue;
            }
            let cell = match head.align {
                Align::Address => short_address(cell, WIDEST),
                Align::Left | Align::Right => cut(cell, WIDEST),
            };
            let pad = " ".repeat(widths[at].saturating_sub(cell.width()));
            match head.align {
                Align::Left | Align::Address => text = text + &cell + &pad + GAP,
                Align::Right => text = text + &pad + &cell + GAP,
            }
        }
        table.push_str(text.trim_end());
        table.push('\n');
    }
    table
}

/// A text in so many columns, with an ellipsis where it is cut.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns { text.to_owned() } else { shortened(text, columns.saturating_sub(1)) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    use crate::top::{FleetState, board, fleet_examples};

    fn rendered(is_folded: bool, columns: Option<usize>) -> String {
        let (mut board, names) = (fleet_examples::board(), fleet_examples::names());
        let board::Standing::Answers { running, .. } = &mut board.servers[0] else { panic!("it answers") };
        Arc::make_mut(running).threads[1].user = "\u{1b}[31m".to_owned();
        let now = fleet_examples::now(&board);
        table(&FleetState::new(is_folded, "").listing(&board, &names, now), columns)
    }

    #[test]
    fn every_row_stands_under_its_titles_and_steers_nothing() {
        assert_eq!(
            rendered(false, None),
            "server    user        db     time  state         statement\n\
             db2:3306  report      shop   61 s  Sending data  SELECT sum(total) FROM orders WHERE day > ?\n\
             db1:3306  app         shop    2 s  executing     SELECT * FROM customer WHERE id = ?\n\
             db2:3306  app         shop    1 s  executing     SELECT * FROM customer WHERE id = ?\n\
             db1:3306  \\u{1b}[31m  shop  < 1 s  statistics    SELECT * FROM customer WHERE id = ?\n"
        );
    }

    #[test]
    fn servers_whose_long_addresses_differ_at_the_end_can_be_distinguished() {
        let (board, mut names) = (fleet_examples::board(), fleet_examples::names());
        for (at, name) in names.iter_mut().enumerate() {
            *name = format!("/home/dba/.cache/spindoctor/lab/servers/mysql-{at}/mysqld.sock");
        }
        let now = fleet_examples::now(&board);
        let table = table(&FleetState::new(false, "").listing(&board, &names, now), Some(80));
        for server in 0..2 {
            let cell = format!("…ndoctor/lab/servers/mysql-{server}/mysqld.sock  ");
            assert!(table.lines().any(|line| line.starts_with(&cell)), "{table}");
        }
        assert!(!table.contains("/home"), "{table}");
    }

    #[test]
    fn on_a_terminal_the_statement_is_cut() {
        let folded = rendered(true, Some(80));
        assert!(folded.lines().all(|line| line.width() <= 80) && folded.contains('…'), "{folded}");
        assert_eq!(folded.lines().count(), 3, "{folded}");
    }
}
