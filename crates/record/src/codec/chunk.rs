//! A chunk: the rows of its values folded into one, and compressed.
//!
//! ```text
//! byte 0      the version of this layout: 1, or 2 where each row of a list says whether it came as expected
//! byte 1      0: many values; 1: one value (layout 1), whose lists do not remember their rows
//! then        zstd, with its checksum, over:
//!     number of values
//!     shapes: how many; each the number of the shape without its last field, and that field's name
//!     texts:  how many; each its length and bytes
//!     columns: how many; the length of each; the bytes of each
//! ```
//!
//! A row is not compressed. It holds its additions to shapes, texts and columns; each column's number is written as its
//! distance from the one before.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flat::Flat;
use super::flatten::NotFlat;
use super::raise::{Names, Passed, find, raise};
use super::reading::{Decoder, Layout, parts};
use super::varint::{Bytes, put, put_bytes};
use super::writing::Encoder;
use super::{MOST_BYTES, MOST_VALUES, Undecodable};

impl Layout {
    /// The first two bytes.
    fn head(self) -> [u8; 2] {
        match self {
            Self::One => [1, 1],
            Self::Many => [1, 0],
            Self::ManyWithExpected => [2, 0],
        }
    }

    fn from_head(head: [u8; 2]) -> Option<Self> {
        [Self::One, Self::Many, Self::ManyWithExpected].into_iter().find(|layout| layout.head() == head)
    }
}

/// zstd's level for chunks: see `examples/size.rs` for what others give.
const LEVEL: i32 = 9;

/// One chunk from the rows of all its values, in order, as they were written.
pub(crate) fn fold(layout: Layout, rows: &[impl AsRef<[u8]>]) -> Result<Vec<u8>, Undecodable> {
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
    let mut chunk = layout.head().to_vec();
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

/// The body of a chunk, and how it was written.
fn body(chunk: &[u8]) -> Result<(Layout, Vec<u8>), Undecodable> {
    let [layout, kind, compressed @ ..] = chunk else { return Err(Undecodable::new("it is empty")) };
    let layout = Layout::from_head([*layout, *kind])
        .ok_or_else(|| Undecodable::new("its first bytes are not those of a chunk"))?;
    // The frame says how long its content is; what says more than any chunk has is damaged.
    let length = zstd::zstd_safe::get_frame_content_size(compressed).ok().flatten();
    let length =
        length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= MOST_BYTES);
    let length = length.ok_or_else(|| Undecodable::new("its length is damaged"))?;
    let body = zstd::bulk::decompress(compressed, length).map_err(|error| Undecodable(error.to_string()))?;
    Ok((layout, body))
}

/// How a value that begins with a number is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is passed over.
    Skip,
    /// It is read.
    Take,
    /// Neither it nor what follows it is wanted: values are in order of their numbers.
    End,
}

/// A value of a chunk that may be read.
pub(crate) struct Raw<'a> {
    /// The number that it begins with; none where it begins with something else.
    pub(crate) first: Option<i64>,
    flat: &'a Flat,
    names: &'a Names<'a>,
}

impl Raw<'_> {
    /// The value, as this type.
    pub(crate) fn raise<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        raise(self.flat, self.names, &[])
    }

    /// The value, as this type, with these lists empty; each is named by the fields that lead to it. Their elements are not
    /// read.
    pub(crate) fn raise_without<'b, T: DeserializeOwned>(
        &self,
        lists: impl Iterator<Item = &'b [&'b str]>,
    ) -> Result<T, Undecodable> {
        let passed: Vec<Passed> = lists.filter_map(|fields| find(self.flat, self.names, fields)).collect();
        raise(self.flat, self.names, &passed)
    }
}

/// The values of a chunk, in order, as `read` reads them: of values that begin with a number only the wanted ones.
pub(crate) fn samples<T>(
    chunk: &[u8],
    mut wish: impl FnMut(i64) -> Wish,
    read: impl Fn(&Raw<'_>) -> Result<T, Undecodable>,
) -> Result<Vec<T>, Undecodable> {
    let (layout, body) = body(chunk)?;
    let mut bytes = Bytes(&body);
    let count = bytes.count()?;
    if count > MOST_VALUES || layout == Layout::One {
        return Err(Undecodable::new("it is larger than any recording"));
    }
    let parts = parts(&mut bytes)?;
    let names = Names::new(&parts.shapes);
    let mut decoder = Decoder::new(&parts, layout);
    let mut flat = Flat::default();
    let mut values = Vec::new();
    for _ in 0..count {
        let (mut first, mut is_over) = (None, false);
        let mut is_wanted = |number| {
            let wish = wish(number);
            (first, is_over) = (Some(number), wish == Wish::End);
            wish == Wish::Take
        };
        let is_whole = decoder.next(&mut flat, &mut is_wanted)?;
        if is_over {
            break;
        }
        if is_whole {
            values.push(read(&Raw { first, flat: &flat, names: &names })?);
        }
    }
    Ok(values)
}

/// The numbers that a chunk's values begin with.
pub(crate) fn times(chunk: &[u8]) -> Result<Vec<i64>, Undecodable> {
    let mut times = Vec::new();
    let note = |time| {
        times.push(time);
        Wish::Skip
    };
    samples(chunk, note, |_| Ok(()))?;
    Ok(times)
}

/// One value as bytes.
pub(crate) fn pack(value: &impl Serialize) -> Result<Vec<u8>, NotFlat> {
    let row = Encoder::with_layout(Layout::One).push(value)?;
    fold(Layout::One, &[row]).map_err(|error| NotFlat(error.to_string()))
}

/// The value again.
pub(crate) fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, Undecodable> {
    let (layout, body) = body(packed)?;
    let mut bytes = Bytes(&body);
    bytes.count()?;
    let parts = parts(&mut bytes)?;
    let mut flat = Flat::default();
    Decoder::new(&parts, layout).next(&mut flat, &mut |_| true)?;
    raise(&flat, &Names::new(&parts.shapes), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct Row {
        id: u64,
        name: String,
        time_s: f64,
        state: Option<String>,
        ran: u64,
        parts: Vec<u64>,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct Second {
        after_ms: i64,
        rows: Vec<Row>,
    }

    /// Threads that sleep, some that work, and one that comes and goes.
    fn seconds() -> Vec<Second> {
        let row = |second: u64, id: u64| {
            let is_busy = id.is_multiple_of(7) && !(second + id).is_multiple_of(3);
            Row {
                id,
                name: format!("thread {id}"),
                time_s: if is_busy { 0.0 } else { second as f64 },
                state: is_busy.then(|| "executing".to_owned()),
                ran: if is_busy { second * second } else { 5 },
                parts: if second > 6 && id == 3 { vec![second] } else { Vec::new() },
            }
        };
        let ids = |second: u64| (0..40).filter(move |id| *id != 9 || second.is_multiple_of(4));
        let of = |second: u64| Second {
            after_ms: second as i64 * 1000,
            rows: ids(second).map(|id| row(second, id)).collect(),
        };
        (0..12).map(of).collect()
    }

    fn folded(layout: Layout) -> (Vec<u8>, usize) {
        let mut encoder = Encoder::with_layout(layout);
        let rows: Vec<Vec<u8>> = seconds().iter().map(|second| encoder.push(second).unwrap()).collect();
        (fold(layout, &rows).unwrap(), rows.iter().map(Vec::len).sum())
    }

    fn read(chunk: &[u8], wish: impl FnMut(i64) -> Wish) -> Result<Vec<Second>, Undecodable> {
        let second = |raw: &Raw<'_>| raw.raise();
        samples(chunk, wish, second)
    }

    #[test]
    fn either_layout_brings_all_values_back_and_those_that_are_wanted_alone() {
        for layout in [Layout::Many, Layout::ManyWithExpected] {
            let (chunk, _) = folded(layout);
            assert_eq!(read(&chunk, |_| Wish::Take).unwrap(), seconds());
            let wish = |after_ms| match after_ms {
                ..4_000 => Wish::Skip,
                4_000..=6_000 => Wish::Take,
                _ => Wish::End,
            };
            assert_eq!(read(&chunk, wish).unwrap(), seconds()[4..=6]);
            assert_eq!(read(&chunk, |_| Wish::End).unwrap(), []);
            assert_eq!(
                times(&chunk).unwrap(),
                seconds().iter().map(|second| second.after_ms).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn rows_that_come_as_expected_take_no_more_than_before() {
        let (many, with_expected) = (folded(Layout::Many).1, folded(Layout::ManyWithExpected).1);
        assert!(with_expected <= many, "{with_expected} bytes instead of {many}");
    }

    #[test]
    fn what_is_damaged_is_reported_and_never_read_for_ever() {
        let (chunk, _) = folded(Layout::ManyWithExpected);
        let whole = body(&chunk).unwrap().1;
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                let mut chunk = Layout::ManyWithExpected.head().to_vec();
                chunk.append(&mut compress(&damaged).unwrap());
                // It may be readable, and says something else then.
                let _read = read(&chunk, |_| Wish::Take);
            }
        }
        assert!(read(&[3, 0, 0], |_| Wish::Take).is_err());
    }
}
