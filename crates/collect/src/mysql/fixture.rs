//! Rows for the tests of parsers: answers of the corpus, and those that are written down in a test.

use super::rows::Rows;
use super::source::Source;

/// What a source answered in each capture of a trouble, by the server's name: where it was asked and answered.
pub(super) fn captures(trouble: &str, source: &Source) -> Vec<(String, Rows)> {
    answers(trouble, source.name)
}

/// The same of any part of a capture.
pub(super) fn answers(trouble: &str, part: &str) -> Vec<(String, Rows)> {
    let captures = spindoctor_corpus::captures(trouble).unwrap();
    assert!(!captures.is_empty(), "the corpus has no {trouble}");
    captures
        .into_iter()
        .filter_map(|(server, document)| Some((server, from_table(document.table(part)?))))
        .collect()
}

/// An answer written down in a test: its columns, and the cells of each row; `NULL` is NULL.
pub(crate) fn rows(columns: &[&str], cells: &[&[&str]]) -> Rows {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    let cell = |&cell: &&str| (cell != "NULL").then(|| cell.to_owned());
    Rows::new(columns, cells.iter().map(|row| row.iter().map(cell).collect()).collect())
}

/// The same, tabbed with a header line; `NULL` is NULL.
pub(super) fn tabbed(text: &str) -> Rows {
    from_table(spindoctor_corpus::Table::of_text(text))
}

fn from_table(table: spindoctor_corpus::Table) -> Rows {
    Rows::new(table.columns, table.rows)
}
