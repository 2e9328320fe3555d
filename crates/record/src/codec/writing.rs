//! From values to rows.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use rustc_hash::FxHasher;
use serde::Serialize;

use super::column::{Last, Value, Written, decimal, rounded, whole_number};
use super::flat::{Flat, Shapes, Token};
use super::flatten::{NotFlat, flatten};
use super::reading::Layout;
use super::tree::{self, ROOT, Rows, Slot, Tree, columns_of_a_place, match_rows};
use super::varint::{put, put_bytes};

/// Encodes the values of one chunk, one after the other.
#[derive(Debug)]
pub(crate) struct Encoder {
    flat: Flat,
    shapes: Shapes,
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    tree: Tree<Written>,
    root: Slot,
    /// By shape: which fields distinguish its rows.
    keys: HashMap<u32, Vec<bool>>,
    layout: Layout,
    /// What is in rows already.
    written_shapes: usize,
    written_texts: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::with_layout(Layout::ManyWithExpected)
    }
}

impl Encoder {
    /// For values that are written in this way.
    pub(crate) fn with_layout(layout: Layout) -> Self {
        let shapes = Shapes::default();
        Self {
            flat: Flat::default(),
            written_shapes: shapes.len(),
            shapes,
            texts: Vec::new(),
            numbers: HashMap::new(),
            tree: Tree::new(),
            root: Slot::default(),
            keys: HashMap::new(),
            layout,
            written_texts: 0,
        }
    }

    /// The row of the next value: it means something together with those before only.
    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<Vec<u8>, NotFlat> {
        let mut flat = std::mem::take(&mut self.flat);
        let mut root = std::mem::take(&mut self.root);
        flat.clear();
        flatten(value, &mut flat, &mut self.shapes)?;
        self.put(&flat, &mut 0, ROOT, &mut root);
        self.flat = flat;
        self.root = root;
        Ok(self.row())
    }

    /// What was added since the last row: shapes, texts, and of each column its bytes.
    fn row(&mut self) -> Vec<u8> {
        let mut row = Vec::new();
        put(&mut row, (self.shapes.len() - self.written_shapes) as u128);
        for shape in self.written_shapes..self.shapes.len() {
            let (shorter, name) = self.shapes.written(shape as u32);
            put(&mut row, shorter.into());
            put_bytes(&mut row, name.as_bytes());
        }
        self.written_shapes = self.shapes.len();
        put(&mut row, (self.texts.len() - self.written_texts) as u128);
        for text in &self.texts[self.written_texts..] {
            put_bytes(&mut row, text.as_bytes());
        }
        self.written_texts = self.texts.len();
        let mut before = 0;
        let columns = columns_of_a_place(self.layout);
        for (node, place) in self.tree.nodes.iter_mut().enumerate() {
            for (which, column) in
                [&mut place.column, &mut place.order, &mut place.expected].into_iter().enumerate()
            {
                if !column.bytes.is_empty() {
                    let number = node * columns + which;
                    put(&mut row, (number - before) as u128);
                    put_bytes(&mut row, &column.bytes);
                    column.bytes.clear();
                    before = number;
                }
            }
        }
        row
    }

    /// Puts the value that begins at a token, and all that is in it, into the columns.
    fn put(&mut self, flat: &Flat, at: &mut usize, node: u32, slot: &mut Slot) {
        let Some(token) = flat.tokens.get(*at) else { return };
        *at += 1;
        let value = self.value(flat, *token, node, slot);
        self.tree.node(node).column.push(&mut slot.last, value);
        match value {
            Value::Record(shape) => {
                let layout = self.tree.layout(node, shape, &self.shapes);
                for (field, place) in &layout.fields {
                    self.put(flat, at, *field, slot.field(*place));
                }
                self.tree.give_back(node, shape, layout);
            }
            Value::List(length) if self.layout != Layout::One => self.put_rows(flat, at, node, slot, length),
            Value::List(length) => {
                let element = self.tree.element(node);
                let mut rows = slot.rows.take().unwrap_or_default();
                if rows.slots.is_empty() {
                    rows.slots.push(Slot::default());
                }
                for _ in 0..length {
                    self.put(flat, at, element, &mut rows.slots[0]);
                }
                slot.rows = Some(rows);
            }
            _ => {}
        }
    }

    /// Puts a list's rows, each beside the row that it was before.
    fn put_rows(&mut self, flat: &Flat, at: &mut usize, node: u32, slot: &mut Slot, length: u32) {
        let element = self.tree.element(node);
        let keys = self.keys(flat, *at, length);
        let mut before = slot.rows.take().unwrap_or_default();
        if before.keys == keys {
            self.put_order(node, &mut before.order, (0..length).map(Some));
            for row in &mut before.slots {
                self.put_row(flat, at, node, element, row);
            }
            slot.rows = Some(before);
            return;
        }
        let matches = match_rows(&before.keys, &keys);
        self.put_order(node, &mut before.order, matches.iter().copied());
        let mut slots: Vec<Slot> = Vec::with_capacity(keys.len());
        for found in matches {
            // A row that is new is like the one above it.
            let mut row = match found {
                Some(place) => std::mem::take(&mut before.slots[place as usize]),
                None => slots.last().cloned().unwrap_or_default(),
            };
            self.put_row(flat, at, node, element, &mut row);
            slots.push(row);
        }
        *before = Rows { slots, keys, order: before.order };
        slot.rows = Some(before);
    }

    /// Puts one row of the list at a node. Of one that came as expected, that alone is written, and nothing is learnt.
    fn put_row(&mut self, flat: &Flat, at: &mut usize, list: u32, element: u32, row: &mut Slot) {
        if self.layout == Layout::Many {
            return self.put(flat, at, element, row);
        }
        let mut end = *at;
        let is_expected = self.is_expected(flat, &mut end, element, row);
        let mut last = Last::from_value(Value::Bool(row.was_expected));
        self.tree.node(list).expected.push(&mut last, Value::Bool(is_expected));
        row.was_expected = is_expected;
        if is_expected {
            row.go_on();
            *at = end;
        } else {
            self.put(flat, at, element, row);
        }
    }

    /// Whether the value that begins at a token is what is expected in its place, with all that is in it. Where it is,
    /// `at` is behind it.
    fn is_expected(&self, flat: &Flat, at: &mut usize, node: u32, slot: &Slot) -> bool {
        let Some(token) = flat.tokens.get(*at) else { return false };
        *at += 1;
        let expected = slot.last.expected();
        match *token {
            Token::Null => expected == Value::Null,
            Token::Bool(value) => expected == Value::Bool(value),
            Token::Int(value) => expected == Value::Int(value),
            Token::Large(value) => expected == Value::Large(value),
            Token::Float(value) => {
                let digits = self.tree.nodes[node as usize].digits;
                let value = digits.map_or(value, |digits| rounded(value, digits));
                expected == decimal(value, slot.last.value)
            }
            Token::Text(at, length) => match expected {
                Value::Text(last) => &*self.texts[last as usize] == flat.text(at, length),
                Value::Number(number) => whole_number(flat.text(at, length)) == Some(number),
                _ => false,
            },
            // A list has rows of its own.
            Token::List(length) => length == 0 && expected == Value::List(0),
            Token::Record(shape) => {
                expected == Value::Record(shape)
                    && self.tree.known_layout(node, shape).is_some_and(|layout| {
                        layout.fields.iter().all(|(field, place)| {
                            let below = slot.fields.get(*place as usize);
                            below.is_some_and(|below| self.is_expected(flat, at, *field, below))
                        })
                    })
            }
        }
    }

    /// Writes how far each row's earlier place is from the one that comes next.
    fn put_order(&mut self, node: u32, last: &mut Last, places: impl Iterator<Item = Option<u32>>) {
        let column = &mut self.tree.node(node).order;
        let mut next = 0;
        for place in places {
            let value = match place {
                Some(place) => {
                    let off = i64::from(place) - next;
                    next = i64::from(place) + 1;
                    Value::Int(off)
                }
                None => Value::Null,
            };
            column.push(last, value);
        }
    }

    /// What distinguishes each of a list's rows from the others: a hash of its fields that name it, or its place.
    fn keys(&mut self, flat: &Flat, mut at: usize, length: u32) -> Vec<u64> {
        let mut keys = Vec::with_capacity(length as usize);
        for row in 0..length {
            let mut hasher = FxHasher::default();
            let mut is_named = false;
            match flat.tokens.get(at) {
                Some(Token::Record(shape)) => {
                    at += 1;
                    let names = self.keys.entry(*shape).or_insert_with(|| tree::keys(*shape, &self.shapes));
                    for is_key in names {
                        if *is_key {
                            is_named = true;
                            hash_token(flat, at, &mut hasher);
                        }
                        skip(flat, &self.shapes, &mut at);
                    }
                }
                _ => skip(flat, &self.shapes, &mut at),
            }
            keys.push(if is_named { hasher.finish() } else { row.into() });
        }
        keys
    }

    fn value(&mut self, flat: &Flat, token: Token, node: u32, slot: &Slot) -> Value {
        match token {
            Token::Null => Value::Null,
            Token::Bool(value) => Value::Bool(value),
            Token::Int(value) => Value::Int(value),
            Token::Large(value) => Value::Large(value),
            Token::Float(value) => {
                let digits = self.tree.node(node).digits;
                decimal(digits.map_or(value, |digits| rounded(value, digits)), slot.last.value)
            }
            Token::List(length) => Value::List(length),
            Token::Record(shape) => Value::Record(shape),
            Token::Text(at, length) => {
                let text = flat.text(at, length);
                match slot.last.value {
                    Value::Text(last) if &*self.texts[last as usize] == text => Value::Text(last),
                    _ => whole_number(text).map_or_else(|| Value::Text(self.number_of(text)), Value::Number),
                }
            }
        }
    }

    /// A text's place among the chunk's texts.
    fn number_of(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }
}

fn hash_token(flat: &Flat, at: usize, hasher: &mut FxHasher) {
    match flat.tokens.get(at) {
        Some(Token::Int(number)) => number.hash(hasher),
        Some(Token::Text(at, length)) => flat.text(*at, *length).hash(hasher),
        other => other.map(std::mem::discriminant).hash(hasher),
    }
}

/// Goes past a value.
fn skip(flat: &Flat, shapes: &Shapes, at: &mut usize) {
    let mut left = 1_usize;
    while left > 0 {
        left -= 1;
        match flat.tokens.get(*at) {
            Some(Token::List(length)) => left += *length as usize,
            Some(Token::Record(shape)) => left += shapes.fields(*shape).unwrap_or(0) as usize,
            _ => {}
        }
        *at += 1;
    }
}
