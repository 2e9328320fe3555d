//! From values to rows.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde::Serialize;

use super::column::{Last, Value, Written, decimal, rounded, whole_number};
use super::flat::{Flat, Shapes, Token};
use super::flatten::{NotFlat, flatten};
use super::tree::{self, ROOT, Rows, Slot, Tree, match_rows};
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
    /// By shape: which fields tell rows apart.
    keys: HashMap<u32, Vec<bool>>,
    /// False where no further value comes: then the rows of lists are not remembered.
    remembers_rows: bool,
    /// What is in rows already.
    written_shapes: usize,
    written_texts: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Encoder {
    /// For one value only.
    pub(super) fn of_one() -> Self {
        Self::new(false)
    }

    fn new(remembers_rows: bool) -> Self {
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
            remembers_rows,
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
        for (node, place) in self.tree.nodes.iter_mut().enumerate() {
            for (column, which) in [(&mut place.column, 0), (&mut place.order, 1)] {
                if !column.bytes.is_empty() {
                    let number = node * 2 + which;
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
            Value::List(length) if self.remembers_rows => self.put_rows(flat, at, node, slot, length),
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
                self.put(flat, at, element, row);
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
            self.put(flat, at, element, &mut row);
            slots.push(row);
        }
        *before = Rows { slots, keys, order: before.order };
        slot.rows = Some(before);
    }

    /// Tells how far each row's earlier place is from the one that comes next.
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

    /// What tells each of a list's rows from the others: a hash of its fields that name it, or its place.
    fn keys(&mut self, flat: &Flat, mut at: usize, length: u32) -> Vec<u64> {
        let mut keys = Vec::with_capacity(length as usize);
        for row in 0..length {
            let mut hasher = DefaultHasher::new();
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

fn hash_token(flat: &Flat, at: usize, hasher: &mut DefaultHasher) {
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
