//! Puts pieces into the order of the list. What comes too early is kept: in memory as long as it is little, in a file
//! without a name otherwise, so that no server waits with its answer for another one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use crate::piece::Piece;
use crate::wire::rows::Rows;

/// Rows that are kept in memory, bytes.
const IN_MEMORY_BYTES: usize = 32 << 20;

/// Pieces on their way into order.
#[derive(Debug)]
pub struct Ordering {
    /// The servers, in the order in which they are wanted; those before `next` are done.
    servers: Vec<usize>,
    next: usize,
    kept: BTreeMap<usize, Vec<Kept>>,
    in_memory: usize,
    most_in_memory: usize,
    file: Option<File>,
    file_bytes: u64,
}

#[derive(Debug)]
enum Kept {
    Here(Piece),
    /// Without its rows, which are in the file.
    There {
        piece: Piece,
        at: u64,
        bytes: usize,
        rows: usize,
    },
}

impl Ordering {
    /// An order of these servers.
    pub fn new(servers: Vec<usize>) -> Self {
        Self {
            servers,
            next: 0,
            kept: BTreeMap::new(),
            in_memory: 0,
            most_in_memory: IN_MEMORY_BYTES,
            file: None,
            file_bytes: 0,
        }
    }

    /// Takes a piece; gives those that are due now, in order.
    pub fn add(&mut self, piece: Piece, due: &mut Vec<Piece>) -> io::Result<()> {
        if self.servers.get(self.next) != Some(&piece.server) {
            let server = piece.server;
            let kept = self.keep(piece)?;
            self.kept.entry(server).or_default().push(kept);
            return Ok(());
        }
        let is_end = piece.end.is_some();
        due.push(piece);
        if is_end {
            self.next += 1;
            self.catch_up(due)?;
        }
        Ok(())
    }

    /// All that is left, in order: for when no more will come.
    pub fn rest(&mut self, due: &mut Vec<Piece>) -> io::Result<()> {
        while self.next < self.servers.len() {
            self.next += 1;
            self.catch_up(due)?;
        }
        Ok(())
    }

    /// Gives what was kept of the next servers, as far as they are whole, and of the first that is not.
    fn catch_up(&mut self, due: &mut Vec<Piece>) -> io::Result<()> {
        while let Some(server) = self.servers.get(self.next) {
            let Some(kept) = self.kept.remove(server) else { return Ok(()) };
            let mut is_whole = false;
            for kept in kept {
                let piece = self.fetch(kept)?;
                is_whole |= piece.end.is_some();
                due.push(piece);
            }
            if !is_whole {
                return Ok(());
            }
            self.next += 1;
        }
        Ok(())
    }

    fn keep(&mut self, mut piece: Piece) -> io::Result<Kept> {
        if self.in_memory + piece.rows.bytes() <= self.most_in_memory {
            self.in_memory += piece.rows.bytes();
            return Ok(Kept::Here(piece));
        }
        let rows = std::mem::take(&mut piece.rows);
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        let file = self.file.as_mut().expect("it was made");
        let at = self.file_bytes;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(rows.as_bytes())?;
        self.file_bytes += rows.bytes() as u64;
        Ok(Kept::There { piece, at, bytes: rows.bytes(), rows: rows.len() })
    }

    fn fetch(&mut self, kept: Kept) -> io::Result<Piece> {
        match kept {
            Kept::Here(piece) => {
                self.in_memory -= piece.rows.bytes();
                Ok(piece)
            }
            Kept::There { mut piece, at, bytes, rows } => {
                let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
                let mut text = vec![0; bytes];
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(&mut text)?;
                piece.rows = Rows::from_bytes(text, rows);
                Ok(piece)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::{Columns, Ended};

    fn piece(server: usize, text: &str, is_end: bool) -> Piece {
        let mut rows = Rows::default();
        rows.push([Some(text.as_bytes())]);
        let end = is_end.then(|| Ok(Ended { ms: 1.0, version: "9".into() }));
        Piece { server, columns: Columns::default(), rows, part: 0, end }
    }

    fn texts(due: &mut Vec<Piece>) -> Vec<String> {
        due.drain(..)
            .flat_map(|piece| {
                let texts = piece
                    .rows
                    .iter()
                    .map(|row| String::from_utf8_lossy(row.cells().next().unwrap().unwrap()).into_owned());
                texts.collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn pieces_come_out_in_the_order_of_the_list_also_from_the_file() {
        for most_in_memory in [usize::MAX, 12, 0] {
            let mut ordering = Ordering { most_in_memory, ..Ordering::new(vec![7, 3, 5]) };
            let mut due = Vec::new();
            ordering.add(piece(5, "5a", false), &mut due).unwrap();
            ordering.add(piece(3, "3a", false), &mut due).unwrap();
            ordering.add(piece(5, "5b", true), &mut due).unwrap();
            assert!(due.is_empty());
            ordering.add(piece(7, "7a", false), &mut due).unwrap();
            assert_eq!(texts(&mut due), ["7a"], "the first one's pieces do not wait");
            ordering.add(piece(7, "7b", true), &mut due).unwrap();
            assert_eq!(texts(&mut due), ["7b", "3a"]);
            ordering.add(piece(3, "3b", true), &mut due).unwrap();
            assert_eq!(texts(&mut due), ["3b", "5a", "5b"]);
        }
    }

    #[test]
    fn what_is_left_comes_in_order_when_no_more_will() {
        let mut ordering = Ordering::new(vec![1, 2, 3]);
        let mut due = Vec::new();
        ordering.add(piece(3, "3", true), &mut due).unwrap();
        ordering.add(piece(2, "2", false), &mut due).unwrap();
        ordering.rest(&mut due).unwrap();
        assert_eq!(texts(&mut due), ["2", "3"]);
    }
}
