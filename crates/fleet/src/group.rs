//! Folds equal answers: most servers answer the same, and people look for the others.
//!
//! Two answers are equal when they have the same columns and the same rows, in any order: without ORDER BY a server
//! owes none. A hash of 128 bits is kept for each answer, and the rows once for each group if they are few.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::piece::{Columns, Piece};
use crate::wire::rows::Rows;

/// Rows of one group that are kept to be shown, bytes.
const SHOWN_BYTES: usize = 64 << 10;
/// Rows of all groups that are kept to be shown, bytes: ten thousand servers may all differ.
const ALL_SHOWN_BYTES: usize = 16 << 20;

/// Servers that answered the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The servers, in the order of the list.
    pub servers: Vec<usize>,
    /// The columns.
    pub columns: Columns,
    /// The rows, as far as they are shown.
    pub rows: Rows,
    /// How many rows there are.
    pub count: u64,
}

/// Answers on their way into groups.
pub struct Groups {
    states: [RandomState; 2],
    running: HashMap<usize, Running>,
    places: HashMap<Key, usize>,
    groups: Vec<Group>,
    shown: usize,
}

type Key = (Vec<String>, u64, [u64; 2]);

#[derive(Default)]
struct Running {
    sums: [u64; 2],
    count: u64,
    rows: Rows,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            states: [RandomState::new(), RandomState::new()],
            running: HashMap::new(),
            places: HashMap::new(),
            groups: Vec::new(),
            shown: 0,
        }
    }
}

impl Groups {
    /// Takes a piece. An answer that failed belongs to no group.
    pub fn add(&mut self, piece: &Piece) {
        let running = self.running.entry(piece.server).or_default();
        for row in piece.rows.iter() {
            for (sum, state) in running.sums.iter_mut().zip(&self.states) {
                let mut hasher = state.build_hasher();
                hasher.write(row.packet());
                // A sum does not depend on the order of the rows.
                *sum = sum.wrapping_add(hasher.finish());
            }
            if running.rows.bytes() + row.packet().len() <= SHOWN_BYTES {
                running.rows.push_packet(row.packet());
            }
        }
        running.count += piece.rows.len() as u64;
        let Some(end) = &piece.end else { return };
        let Some(running) = self.running.remove(&piece.server) else { return };
        if end.is_err() {
            return;
        }
        let names = piece.columns.iter().map(|column| column.name.clone()).collect();
        let key = (names, running.count, running.sums);
        let place = *self.places.entry(key).or_insert_with(|| {
            let fits = self.shown + running.rows.bytes() <= ALL_SHOWN_BYTES;
            let rows = if fits { running.rows } else { Rows::default() };
            self.shown += rows.bytes();
            self.groups.push(Group {
                servers: Vec::new(),
                columns: piece.columns.clone(),
                rows,
                count: running.count,
            });
            self.groups.len() - 1
        });
        self.groups[place].servers.push(piece.server);
    }

    /// The groups, the largest first.
    pub fn finish(mut self) -> Vec<Group> {
        for group in &mut self.groups {
            group.servers.sort_unstable();
        }
        self.groups.sort_by_key(|group| (std::cmp::Reverse(group.servers.len()), group.servers[0]));
        self.groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, Reason};
    use crate::piece::Ended;
    use crate::wire::answer::{Column, Kind};

    fn piece(server: usize, texts: &[&str], is_end: bool) -> Piece {
        let mut rows = Rows::default();
        for text in texts {
            rows.push([Some(text.as_bytes())]);
        }
        let columns = [Column { name: "v".to_owned(), kind: Kind::Text }].into();
        let end = is_end.then(|| Ok(Ended { ms: 1.0, version: "9".into() }));
        Piece { server, columns, rows, part: 0, end }
    }

    #[test]
    fn equal_answers_fold_in_any_order_and_however_they_were_cut() {
        let mut groups = Groups::default();
        groups.add(&piece(4, &["OFF"], true));
        groups.add(&piece(0, &["a", "b"], true));
        groups.add(&piece(9, &["b"], false));
        groups.add(&piece(2, &["b", "a"], true));
        groups.add(&piece(9, &["a"], true));
        groups.add(&Piece::failed(3, 0, Failure::new(Reason::Query, "no")));
        let groups = groups.finish();
        let servers: Vec<&[usize]> = groups.iter().map(|group| group.servers.as_slice()).collect();
        assert_eq!(servers, [[0, 2, 9].as_slice(), &[4]]);
        assert_eq!((groups[0].count, groups[0].rows.len()), (2, 2));
    }

    #[test]
    fn a_row_twice_is_not_a_row_once() {
        let mut groups = Groups::default();
        groups.add(&piece(0, &["a"], true));
        groups.add(&piece(1, &["a", "a"], true));
        groups.add(&piece(2, &[], true));
        assert_eq!(groups.finish().len(), 3);
    }

    #[test]
    fn long_answers_are_distinguished_by_what_is_not_shown() {
        let long = "x".repeat(SHOWN_BYTES);
        let mut groups = Groups::default();
        groups.add(&piece(0, &["a", &long, "b"], true));
        groups.add(&piece(1, &["a", &long, "c"], true));
        let groups = groups.finish();
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].count, groups[0].rows.len()), (3, 2));
    }
}
