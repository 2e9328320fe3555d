//! A list of rows under heads: filtered and sorted here, once for all lists.

use std::cmp::Ordering;

use crate::top::state::ListState;
use crate::top::view::{Mood, Target};

/// Where a cell's text stands in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// The address of a server, at the left: one that is too long keeps what distinguishes it.
    Address,
    /// Numbers.
    Right,
}

/// Which way a list is sorted by a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The smallest first, or the first of the alphabet.
    Ascending,
    /// The largest first.
    Descending,
}

impl Direction {
    /// The character that marks it.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Ascending => "▲",
            Self::Descending => "▼",
        }
    }

    /// The other one.
    fn reversed(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its title.
    pub title: &'static str,
    /// Columns of the screen that it takes; 0 for all that is left.
    pub width: u16,
    /// Where its text stands.
    pub align: Align,
    /// It is shown where the screen has at least so many columns.
    pub from: u16,
    /// Of the one that the list is sorted by: which way.
    pub order: Option<Direction>,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// One text for each head.
    pub cells: Vec<String>,
    /// How it is to be taken.
    pub mood: Mood,
    /// What it stands for.
    pub target: Option<Target>,
}

/// What a list shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// What is listed, with the numbers that count most.
    pub title: String,
    /// The columns.
    pub heads: Vec<Head>,
    /// The rows that the filter leaves, in their order.
    pub rows: Vec<Row>,
    /// Rows before the filter.
    pub all: usize,
    /// Why there are none, where there are none.
    pub empty: String,
    /// Orders that there are.
    pub orders: usize,
    /// The row that is marked.
    pub selected: usize,
    /// What the rows must hold.
    pub filter: String,
}

/// How a column is sorted.
pub enum By<T> {
    /// It is not.
    Nothing,
    /// The largest first.
    Number(fn(&T) -> f64),
    /// The smallest first.
    Least(fn(&T) -> f64),
    /// In order of the alphabet.
    Text(fn(&T) -> &str),
}

impl<T> By<T> {
    /// Which way; none where it is not sorted by.
    fn direction(&self) -> Option<Direction> {
        match self {
            Self::Nothing => None,
            Self::Number(_) => Some(Direction::Descending),
            Self::Least(_) | Self::Text(_) => Some(Direction::Ascending),
        }
    }
}

/// A column of a kind of rows.
pub struct Column<T> {
    pub title: &'static str,
    pub width: u16,
    pub align: Align,
    pub from: u16,
    pub text: fn(&T) -> String,
    pub by: By<T>,
}

/// What is listed, before anything is filtered or sorted.
pub struct Listed<T> {
    pub title: String,
    pub items: Vec<T>,
    /// The title of the column that the items come sorted by, and which way; none where the server's order is kept.
    pub order: Option<(&'static str, Direction)>,
    pub empty: String,
    pub mood: fn(&T) -> Mood,
    pub target: fn(&T) -> Option<Target>,
}

impl<T> Listed<T> {
    /// The list as the person wants it: what the filter leaves, by the order that was chosen. The items' own order is the
    /// first one.
    pub fn shown(mut self, columns: &[Column<T>], state: &ListState) -> Listing {
        let all = self.items.len();
        let needle = state.filter.to_lowercase();
        if !needle.is_empty() {
            let holds =
                |item: &T| columns.iter().any(|column| (column.text)(item).to_lowercase().contains(&needle));
            self.items.retain(holds);
        }
        let by: Vec<usize> =
            (0..columns.len()).filter(|&at| !matches!(columns[at].by, By::Nothing)).collect();
        // The first order is the items' own.
        let orders = by.len() + 1;
        let order = state.order % orders;
        let sorted_by = order.checked_sub(1).map(|at| by[at]);
        if let Some(at) = sorted_by {
            let compare = |a: &T, b: &T| match &columns[at].by {
                By::Nothing => Ordering::Equal,
                By::Number(number) => number(b).total_cmp(&number(a)),
                By::Least(number) => number(a).total_cmp(&number(b)),
                By::Text(text) => text(a).cmp(text(b)),
            };
            self.items.sort_by(compare);
        }
        if state.is_reversed {
            self.items.reverse();
        }
        let order_of = |at: usize, column: &Column<T>| {
            let direction = match (sorted_by, self.order) {
                (Some(sorted_by), _) if sorted_by == at => column.by.direction(),
                (None, Some((title, direction))) if title == column.title => Some(direction),
                _ => None,
            };
            direction.map(|direction| if state.is_reversed { direction.reversed() } else { direction })
        };
        let heads = columns.iter().enumerate().map(|(at, column)| Head {
            title: column.title,
            width: column.width,
            align: column.align,
            from: column.from,
            order: order_of(at, column),
        });
        let rows: Vec<Row> = self
            .items
            .iter()
            .map(|item| Row {
                cells: columns.iter().map(|column| (column.text)(item)).collect(),
                mood: (self.mood)(item),
                target: (self.target)(item),
            })
            .collect();
        Listing {
            title: self.title,
            heads: heads.collect(),
            selected: state.selected.min(rows.len().saturating_sub(1)),
            rows,
            all,
            empty: self.empty,
            orders,
            filter: state.filter.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<(&str, f64)>; 2] = [
        Column {
            title: "name",
            width: 0,
            align: Align::Left,
            from: 0,
            text: |item| item.0.to_owned(),
            by: By::Text(|item| item.0),
        },
        Column {
            title: "number",
            width: 8,
            align: Align::Right,
            from: 0,
            text: |item| item.1.to_string(),
            by: By::Number(|item| item.1),
        },
    ];

    fn listing(state: &ListState) -> Listing {
        let items = vec![("Beech", 2.0), ("alder", 1.0), ("Cedar", 3.0)];
        let listed = Listed {
            title: String::new(),
            items,
            order: Some(("number", Direction::Descending)),
            empty: String::new(),
            mood: |_| Mood::Plain,
            target: |_| None,
        };
        listed.shown(&COLUMNS, state)
    }

    fn names(state: &ListState) -> Vec<String> {
        listing(state).rows.into_iter().map(|row| row.cells[0].clone()).collect()
    }

    #[test]
    fn a_list_comes_in_its_own_order_and_in_each_of_its_columns() {
        let order = |order, is_reversed| names(&ListState { order, is_reversed, ..ListState::default() });
        assert_eq!(order(0, false), ["Beech", "alder", "Cedar"]);
        assert_eq!(order(1, false), ["Beech", "Cedar", "alder"]);
        assert_eq!(order(2, false), ["Cedar", "Beech", "alder"]);
        assert_eq!(order(2, true), ["alder", "Beech", "Cedar"]);
    }

    #[test]
    fn the_column_that_a_list_is_sorted_by_is_marked_with_its_direction() {
        let marks = |order, is_reversed| {
            let listing = listing(&ListState { order, is_reversed, ..ListState::default() });
            let marks: Vec<&str> =
                listing.heads.iter().map(|head| head.order.map_or("", Direction::mark)).collect();
            marks.join("|")
        };
        assert_eq!(marks(0, false), "|▼", "the list's own order");
        assert_eq!((marks(1, false), marks(2, false)), ("▲|".to_owned(), "|▼".to_owned()));
        assert_eq!((marks(0, true), marks(1, true)), ("|▲".to_owned(), "▼|".to_owned()));
    }

    #[test]
    fn a_filter_looks_into_every_column_in_any_case() {
        let filtered = |filter: &str| names(&ListState { filter: filter.to_owned(), ..ListState::default() });
        assert_eq!(filtered("AL"), ["alder"]);
        assert_eq!(filtered("3"), ["Cedar"]);
        assert!(filtered("oak").is_empty());
    }
}
