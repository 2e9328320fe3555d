//! Rows as they came: `LENGTH[4] CELLS` one after the other, each cell with its length before it, `fb` for NULL.
//!
//! Nothing is copied cell by cell until somebody writes it somewhere.

use std::sync::{Mutex, PoisonError};

use crate::bytes::{Bytes, put_text};

/// Rows that came together and are at least this many bytes lie in memory that is used again.
const MANY_BYTES: usize = 16 << 10;
/// Memory of so many answers' parts is kept to be used again,
const MOST_SPARE: usize = 16;
/// each of no more than this: more was one row's, and is rarely wanted.
const MOST_SPARE_BYTES: usize = 1 << 20;

/// Memory of rows that are gone. The allocator would give it back to the kernel each time and ask for it again, and the
/// kernel clear each page: hundreds of MiB of rows pass through a few of these.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Rows of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    bytes: Vec<u8>,
    count: usize,
}

impl Rows {
    /// How many.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a row as the wire has it. Its cells were counted.
    #[inline]
    pub fn push_packet(&mut self, payload: &[u8]) {
        self.bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.count += 1;
    }

    /// Adds so many rows as they are kept here. Their cells were counted.
    pub fn push_run(&mut self, rows: &[u8], count: usize) {
        if self.bytes.capacity() == 0 && rows.len() >= MANY_BYTES {
            self.bytes = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        }
        self.bytes.extend_from_slice(rows);
        self.count += count;
    }

    /// Adds a row of cells.
    pub fn push<'a>(&mut self, cells: impl IntoIterator<Item = Option<&'a [u8]>>) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        for cell in cells {
            match cell {
                Some(text) => put_text(&mut self.bytes, text),
                None => self.bytes.push(0xfb),
            }
        }
        let length = (self.bytes.len() - begin - 4) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    /// Gives memory back that no row takes: for rows that are kept for a while.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        Self::in_run(&self.bytes)
    }

    /// The rows of a run as it is handed on ([`crate::answer::Item::Rows`]), in order.
    pub fn in_run(run: &[u8]) -> impl Iterator<Item = Row<'_>> {
        let mut bytes = Bytes::new(run);
        std::iter::from_fn(move || {
            let length = bytes.u32()?;
            bytes.take(length as usize).map(Row)
        })
    }

    /// As it is kept outside of memory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As it was kept outside of memory.
    pub fn from_bytes(bytes: Vec<u8>, count: usize) -> Self {
        Self { bytes, count }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if (MANY_BYTES..=MOST_SPARE_BYTES).contains(&self.bytes.capacity()) {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < MOST_SPARE {
                self.bytes.clear();
                spare.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a>(&'a [u8]);

impl<'a> Row<'a> {
    /// A row as the wire has it. Its cells were counted.
    pub fn of_packet(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// The cells in order; None is NULL.
    pub fn cells(self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut bytes = Bytes::new(self.0);
        std::iter::from_fn(move || bytes.cell())
    }

    /// The row as the wire had it: equal rows have equal bytes.
    pub fn packet(self) -> &'a [u8] {
        self.0
    }
}

/// True where a row has so many cells and nothing else.
#[inline]
pub fn has_cells(payload: &[u8], columns: usize) -> bool {
    let (mut at, mut cells) = (0, 0);
    while let Some(&first) = payload.get(at) {
        at += match first {
            length @ 0..=0xfa => 1 + usize::from(length),
            0xfb => 1,
            _ => {
                let mut bytes = Bytes::new(&payload[at..]);
                let Some(_) = bytes.text() else { return false };
                payload.len() - at - bytes.rest().len()
            }
        };
        cells += 1;
    }
    at == payload.len() && cells == columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in() {
        let mut rows = Rows::default();
        rows.push([Some(b"a".as_slice()), None, Some(b"")]);
        rows.push_packet(b"\x01b\xfb\xfb");
        assert_eq!((rows.len(), rows.bytes()), (2, 4 + 4 + 4 + 4));
        let cells: Vec<Vec<Option<&[u8]>>> = rows.iter().map(|row| row.cells().collect()).collect();
        assert_eq!(cells, [vec![Some(b"a".as_slice()), None, Some(b"")], vec![Some(b"b"), None, None]]);
        assert_eq!(Rows::from_bytes(rows.as_bytes().to_vec(), 2), rows);
    }

    #[test]
    fn a_row_with_more_or_fewer_cells_is_reported() {
        assert!(has_cells(b"\x01a\xfb", 2));
        assert!(has_cells(b"\xfc\x02\0ab\0", 2) && !has_cells(b"\xfc\x02\0a", 1) && !has_cells(b"\xff", 1));
        assert!(!has_cells(b"\x01a\xfb", 1) && !has_cells(b"\x01a\xfb", 3) && !has_cells(b"\x05a", 1));
    }
}
