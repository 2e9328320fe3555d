//! A chunk: the rows of its values folded into one, and compressed.
//!
//! ```text
//! byte 0      the version of this layout: 1
//! byte 1      0: many values; 1: one value, whose lists do not remember their rows
//! then        zstd, with its checksum, over:
//!     number of values
//!     shapes: how many; each the number of the shape without its last field, and that field's name
//!     texts:  how many; each its length and bytes
//!     columns: how many; the length of each; the bytes of each
//! ```
//!
//! A row is not compressed: shapes, texts, and columns as far as it adds to them, each with how far its number is from
//! the one before.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flat::Flat;
use super::flatten::NotFlat;
use super::raise::{Names, raise};
use super::reading::{Decoder, parts};
use super::varint::{Bytes, put, put_bytes};
use super::writing::Encoder;
use super::{MOST_BYTES, MOST_VALUES, Undecodable};

const LAYOUT: u8 = 1;
const MANY: u8 = 0;
const ONE: u8 = 1;
/// zstd's level for chunks: see `examples/size.rs` for what others give.
const LEVEL: i32 = 9;

/// One chunk from the rows of all its values, in order.
pub(crate) fn fold(rows: &[Vec<u8>]) -> Result<Vec<u8>, Undecodable> {
    fold_as(MANY, rows)
}

fn fold_as(kind: u8, rows: &[impl AsRef<[u8]>]) -> Result<Vec<u8>, Undecodable> {
    let (mut shapes, mut shape_bytes) = (0, Vec::new());
    let (mut texts, mut text_bytes) = (0, Vec::new());
    let mut columns: Vec<Vec<u8>> = Vec::new();
    for row in rows {
        let mut row = Bytes(row.as_ref());
        let new = row.count()?;
        shapes += new;
        for _ in 0..new {
            put(&mut shape_bytes, row.number()?);
            put_bytes(&mut shape_bytes, row.bytes()?);
        }
        let new = row.count()?;
        texts += new;
        for _ in 0..new {
            put_bytes(&mut text_bytes, row.bytes()?);
        }
        let mut number = 0_usize;
        while !row.0.is_empty() {
            number = number.saturating_add(row.count()?);
            let bytes = row.bytes()?;
            if number > MOST_COLUMNS {
                return Err(Undecodable::new("it has more columns than any recording"));
            }
            if columns.len() <= number {
                columns.resize_with(number + 1, Vec::new);
            }
            columns[number].extend_from_slice(bytes);
        }
    }
    let mut body = Vec::new();
    put(&mut body, rows.len() as u128);
    put(&mut body, shapes as u128);
    body.append(&mut shape_bytes);
    put(&mut body, texts as u128);
    body.append(&mut text_bytes);
    put(&mut body, columns.len() as u128);
    for column in &columns {
        put(&mut body, column.len() as u128);
    }
    for column in &columns {
        body.extend_from_slice(column);
    }
    let mut chunk = vec![LAYOUT, kind];
    chunk.append(&mut compress(&body)?);
    Ok(chunk)
}

/// Columns that a chunk may have: a bound for damaged bytes. A sample has two or three thousand.
const MOST_COLUMNS: usize = 1 << 20;

fn compress(body: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let compressed = || -> std::io::Result<Vec<u8>> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        compressor.compress(body)
    };
    compressed().map_err(|error| Undecodable(format!("it cannot be compressed: {error}")))
}

/// The body of a chunk of one kind.
fn body(kind: u8, chunk: &[u8]) -> Result<Vec<u8>, Undecodable> {
    let [layout, found, compressed @ ..] = chunk else { return Err(Undecodable::new("it is empty")) };
    if *layout != LAYOUT || *found != kind {
        return Err(Undecodable::new("its first bytes are not those of a chunk"));
    }
    // The frame says how long its content is; what says more than any chunk has is damaged.
    let length = zstd::zstd_safe::get_frame_content_size(compressed).ok().flatten();
    let length =
        length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= MOST_BYTES);
    let length = length.ok_or_else(|| Undecodable::new("its length is damaged"))?;
    zstd::bulk::decompress(compressed, length).map_err(|error| Undecodable(error.to_string()))
}

/// The values of a chunk, in order.
pub(crate) fn samples<T: DeserializeOwned>(chunk: &[u8]) -> Result<Vec<T>, Undecodable> {
    let body = body(MANY, chunk)?;
    let mut bytes = Bytes(&body);
    let count = bytes.count()?;
    if count > MOST_VALUES {
        return Err(Undecodable::new("it is larger than any recording"));
    }
    let parts = parts(&mut bytes)?;
    let names = Names::new(&parts.shapes);
    let mut decoder = Decoder::new(&parts, true);
    let mut flat = Flat::default();
    let mut values = Vec::new();
    for _ in 0..count {
        decoder.next(&mut flat)?;
        values.push(raise(&flat, &names)?);
    }
    Ok(values)
}

/// One value as bytes.
pub(crate) fn pack(value: &impl Serialize) -> Result<Vec<u8>, NotFlat> {
    let row = Encoder::of_one().push(value)?;
    fold_as(ONE, &[row]).map_err(|error| NotFlat(error.to_string()))
}

/// The value again.
pub(crate) fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, Undecodable> {
    let body = body(ONE, packed)?;
    let mut bytes = Bytes(&body);
    bytes.count()?;
    let parts = parts(&mut bytes)?;
    let mut flat = Flat::default();
    Decoder::new(&parts, false).next(&mut flat)?;
    raise(&flat, &Names::new(&parts.shapes))
}
