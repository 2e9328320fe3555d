//! The result of one query: the first result set, the effect of the statement, or the server's error.

use crate::failure::Failure;
use crate::piece::Columns;
use crate::wire::answer::{Done, Item};
use crate::wire::rows::Rows;

/// The part of an answer that came and was not handed on.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// The columns, once they came.
    pub(crate) columns: Option<Columns>,
    /// True once the first result set is over: of a CALL, the first one counts.
    is_over: bool,
    /// Rows.
    pub(crate) rows: Rows,
    /// What a statement without rows did.
    pub(crate) done: Done,
    /// The server's error.
    pub(crate) error: Option<Failure>,
}

impl Reply {
    /// Takes the next item of the answer.
    pub(crate) fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Description => {}
            Item::Columns(columns) if self.columns.is_none() => self.columns = Some(columns.into()),
            Item::Columns(_) => self.is_over = true,
            Item::Row(row) if !self.is_over => self.rows.push_packet(row),
            Item::Rows(rows, count) if !self.is_over => self.rows.push_run(rows, count),
            Item::Row(_) | Item::Rows(..) => {}
            Item::End(done) => {
                self.is_over = self.columns.is_some();
                if self.columns.is_none() {
                    self.done = done;
                }
            }
            Item::Error(error) => self.error = Some(Failure::of_statement(&error)),
        }
    }
}
