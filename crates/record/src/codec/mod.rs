//! Values as bytes: small, self-describing, and readable for ever.
//!
//! A value is flattened to tokens (`flatten`), each token goes to the column of its place (`tree`), and a column holds
//! the values that could not be predicted (`column`). Names of fields and texts are kept once a chunk. So a chunk says
//! itself what is in it: a reader takes the fields that it knows, skips those that it does not, and gives a default to
//! those that are not there.
//!
//! A chunk is written a row at a time: a row holds what its sample adds to the names, the texts and the columns. Folding
//! puts each column's pieces together and compresses the whole; nothing is decoded for it.

mod chunk;
mod column;
mod flat;
mod flatten;
mod raise;
mod reading;
mod tree;
mod varint;
mod writing;

use serde::{Deserialize, Serialize};
use spindoctor_model::Sample;
use thiserror::Error;

pub(crate) use chunk::{Raw, Wish, fold, pack, samples, times, unpack};
pub(crate) use reading::Layout;
pub(crate) use writing::Encoder;

/// The content of one second of a chunk.
#[derive(Debug, Serialize)]
pub(crate) struct Second<'a> {
    /// When the sample was begun, from the first of the chunk on.
    pub(crate) after_ms: i64,
    pub(crate) sample: &'a Sample,
}

/// The same when it is read.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ReadSecond {
    pub(crate) after_ms: i64,
    pub(crate) sample: Sample,
}

/// Why bytes cannot be read, in one clause.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Undecodable(String);

impl Undecodable {
    pub(crate) fn new(because: &str) -> Self {
        Self(because.to_owned())
    }
}

/// Lists and records within each other, at most: the model has a third of it.
const DEEPEST: usize = 48;
/// Tokens of a chunk, at most: a bound for damaged bytes. A minute with a thousand connections has one and a half million.
const MOST_TOKENS: usize = 32 << 20;
/// Values of a chunk, at most: likewise.
const MOST_VALUES: usize = 10_000;
/// Bytes of a chunk that is not compressed, at most: likewise.
const MOST_BYTES: usize = 256 << 20;
