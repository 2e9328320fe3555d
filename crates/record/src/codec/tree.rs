//! The places that a value's type has, each with its column and its last value.

use std::collections::HashMap;

use super::column::Last;
use super::flat::Shapes;
use super::reading::Layout;

/// Fields that distinguish one row of a list from another: rows are compared with the row that had the same of them
/// before. A list whose records have none of them is compared row by row.
const KEYS: [&str; 9] = [
    "internal_id",
    "connection_id",
    "thread_os_id",
    "tid",
    "id",
    "name",
    "event",
    "text",
    "waiting_connection_id",
];

/// Which fields of a shape distinguish its rows.
pub(crate) fn keys(shape: u32, shapes: &Shapes) -> Vec<bool> {
    shapes.names(shape).iter().map(|name| KEYS.contains(name)).collect()
}

/// Times, and the digits behind the point that they keep. Of answers microseconds: a clock that is read beside a
/// question to a server is no better than that. Of how long a thread is in its state milliseconds: MariaDB reports
/// microseconds of what began at another instant than its answer.
const ROUNDED: [(&str, u8); 3] = [("at_s", 6), ("took_ms", 3), ("time_s", 3)];

/// How many columns a place has: values; order of rows; and where that is written, which of them came as expected.
pub(crate) fn columns_of_a_place(layout: Layout) -> usize {
    if layout == Layout::ManyWithExpected { 3 } else { 2 }
}

/// A place in a value's type, with a column of its own: `server.threads[].state`. `C` is the column.
#[derive(Debug, Default)]
pub(crate) struct Node<C> {
    pub(crate) column: C,
    /// Which row of the list before a row goes on from.
    pub(crate) order: C,
    /// Whether a row came as expected.
    pub(crate) expected: C,
    /// Digits that its floats are rounded to.
    pub(crate) digits: Option<u8>,
    fields: Vec<(String, u32)>,
    element: Option<u32>,
    layouts: Vec<(u32, Places)>,
}

/// Where the fields of one shape stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// For each field: its node, and its place among all fields that the node's records ever had.
    pub(crate) fields: Vec<(u32, u32)>,
}

/// All places, in the order in which they were first met: the same on both sides.
#[derive(Debug)]
pub(crate) struct Tree<C> {
    pub(crate) nodes: Vec<Node<C>>,
}

/// The place of the whole value.
pub(crate) const ROOT: u32 = 0;

impl<C: Default> Tree<C> {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::default()] }
    }

    pub(crate) fn node(&mut self, node: u32) -> &mut Node<C> {
        &mut self.nodes[node as usize]
    }

    /// The place of a list's elements.
    pub(crate) fn element(&mut self, list: u32) -> u32 {
        if let Some(element) = self.node(list).element {
            return element;
        }
        let new = self.add(None);
        self.node(list).element = Some(new);
        new
    }

    /// Where the fields of a record are. Borrowed: [`Tree::give_back`] returns it.
    pub(crate) fn layout(&mut self, node: u32, shape: u32, shapes: &Shapes) -> Places {
        let layouts = &mut self.node(node).layouts;
        if let Some((_, layout)) = layouts.iter_mut().find(|(known, _)| *known == shape) {
            return std::mem::take(layout);
        }
        let mut layout = Places::default();
        for name in shapes.names(shape) {
            let fields = &self.node(node).fields;
            let known = fields.iter().position(|(known, _)| known == name);
            let place = known.unwrap_or(fields.len());
            let field = match known {
                Some(place) => self.node(node).fields[place].1,
                None => {
                    let new = self.add(Some(name));
                    self.node(node).fields.push((name.to_owned(), new));
                    new
                }
            };
            layout.fields.push((field, place as u32));
        }
        self.node(node).layouts.push((shape, Places::default()));
        layout
    }

    /// Where the fields of a record are, where that is known already.
    pub(crate) fn known_layout(&self, node: u32, shape: u32) -> Option<&Places> {
        let layouts = &self.nodes.get(node as usize)?.layouts;
        layouts.iter().find(|(known, _)| *known == shape).map(|(_, layout)| layout)
    }

    pub(crate) fn give_back(&mut self, node: u32, shape: u32, layout: Places) {
        if let Some((_, place)) = self.node(node).layouts.iter_mut().find(|(known, _)| *known == shape) {
            *place = layout;
        }
    }

    fn add(&mut self, name: Option<&str>) -> u32 {
        let digits = ROUNDED.iter().find(|(rounded, _)| Some(*rounded) == name).map(|(_, digits)| *digits);
        self.nodes.push(Node { digits, ..Node::default() });
        self.nodes.len() as u32 - 1
    }
}

/// What was last in a place, and in those below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    pub(crate) last: Last,
    pub(crate) fields: Vec<Slot>,
    pub(crate) rows: Option<Box<Rows>>,
    /// Of a row: whether it came as expected the last time.
    pub(crate) was_expected: bool,
}

impl Slot {
    /// Everything in it has come as expected; so have the fields that the record had once and has not now. How many places
    /// that are.
    pub(crate) fn go_on(&mut self) -> usize {
        self.last.go_on();
        1 + self.fields.iter_mut().map(Slot::go_on).sum::<usize>()
    }

    /// The place of a field.
    pub(crate) fn field(&mut self, place: u32) -> &mut Slot {
        let place = place as usize;
        if self.fields.len() <= place {
            self.fields.resize_with(place + 1, Slot::default);
        }
        &mut self.fields[place]
    }
}

/// The rows of a list as they were last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    pub(crate) slots: Vec<Slot>,
    /// The fields that distinguish each row from the others; the writer's only.
    pub(crate) keys: Vec<u64>,
    /// Where the latest of them was in the list before.
    pub(crate) order: Last,
}

/// For each row of a list that row of the list before that has the same key; none where there is none.
///
/// No row is taken twice. In most lists rows keep their order, so the next row is tried first.
pub(crate) fn match_rows(before: &[u64], now: &[u64]) -> Vec<Option<u32>> {
    let mut places: Option<HashMap<u64, Vec<u32>>> = None;
    let mut taken = vec![false; before.len()];
    let mut next = 0;
    now.iter()
        .map(|key| {
            if before.get(next) == Some(key) && !taken[next] {
                taken[next] = true;
                next += 1;
                return Some(next as u32 - 1);
            }
            let places = places.get_or_insert_with(|| {
                let mut places: HashMap<u64, Vec<u32>> = HashMap::with_capacity(before.len());
                for (place, key) in before.iter().enumerate().rev() {
                    places.entry(*key).or_default().push(place as u32);
                }
                places
            });
            let candidates = places.get_mut(key)?;
            let found = loop {
                let candidate = candidates.pop()?;
                if !taken[candidate as usize] {
                    break candidate;
                }
            };
            taken[found as usize] = true;
            next = found as usize + 1;
            Some(found)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_again_wherever_they_went() {
        assert_eq!(match_rows(&[1, 2, 3], &[1, 2, 3]), [Some(0), Some(1), Some(2)]);
        assert_eq!(match_rows(&[1, 2, 3], &[2, 3, 4]), [Some(1), Some(2), None]);
        assert_eq!(match_rows(&[1, 2, 3], &[3, 1]), [Some(2), Some(0)]);
        assert_eq!(match_rows(&[5, 5], &[5, 5, 5]), [Some(0), Some(1), None]);
        assert_eq!(match_rows(&[], &[1]), [None]);
    }
}
