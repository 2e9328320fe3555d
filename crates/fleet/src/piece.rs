//! A part of one server's answer: it goes from the tasks that ask to the code that merges and writes.

use std::sync::Arc;

use crate::failure::Failure;
use crate::wire::answer::Column;
use crate::wire::rows::Rows;

/// Columns of an answer, shared by its pieces.
pub type Columns = Arc<[Column]>;

/// A part of one server's answer, in the order in which they came. A small answer is one piece.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The server's place in the list that was asked.
    pub server: usize,
    /// The columns; none where there was no answer.
    pub columns: Columns,
    /// Rows.
    pub rows: Rows,
    /// The place of this piece in the answer, from 0.
    pub part: u32,
    /// How the answer ended; None where more of it follows.
    pub end: Option<Result<Ended, Failure>>,
}

/// How a whole answer came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Milliseconds from the first packet to the last.
    pub ms: f64,
    /// What the server says it is: `9.7.4`.
    pub version: Arc<str>,
}

impl Piece {
    /// A server that gave no answer at all, or no whole one.
    pub fn failed(server: usize, part: u32, failure: Failure) -> Self {
        Self { server, columns: Columns::default(), rows: Rows::default(), part, end: Some(Err(failure)) }
    }

    /// Bytes that it holds in memory, nearly.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + size_of::<Self>()
    }
}
