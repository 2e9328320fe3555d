//! What a fleet answered, in one file per format. A format takes parts of answers as they come and adds bytes; it
//! keeps as little as it can.

use spindoctor_fleet::failure::Failure;
use spindoctor_fleet::piece::{Columns, Ended, Piece};
use spindoctor_fleet::wire::rows::Rows;

/// A part of an answer.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Whose; None for the result of `--sql`.
    pub server: Option<&'a str>,
    /// The columns; none of an answer that did not come.
    pub columns: &'a Columns,
    /// Rows.
    pub rows: &'a Rows,
    /// Its place in the answer, from 0.
    pub part: u32,
    /// How the answer ended; None where more follows.
    pub end: Option<&'a Result<Ended, Failure>>,
}

impl<'a> Part<'a> {
    /// A piece of a server's answer.
    pub fn from_piece(server: &'a str, piece: &'a Piece) -> Self {
        let Piece { server: _, columns, rows, part, end } = piece;
        Self { server: Some(server), columns, rows, part: *part, end: end.as_ref() }
    }

    /// Rows of a result that is no server's.
    pub fn of_result(columns: &'a Columns, rows: &'a Rows) -> Self {
        Self { server: None, columns, rows, part: 0, end: None }
    }

    /// True where there is something to show: an answer without columns is none.
    pub fn is_answer(&self) -> bool {
        !self.columns.is_empty()
    }
}

/// A way to print answers.
pub trait Format: Send {
    /// Adds a part.
    fn part(&mut self, part: &Part<'_>, out: &mut Vec<u8>) -> anyhow::Result<()>;

    /// Adds what was kept.
    fn finish(&mut self, _out: &mut Vec<u8>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Notes for the user beside the answers.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
