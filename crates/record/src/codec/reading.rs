//! From chunks to values.

use super::column::{Last, Read, Value, to_float};
use super::flat::{Flat, Shapes, Token};
use super::tree::{ROOT, Rows, Slot, Tree};
use super::varint::Bytes;
use super::{DEEPEST, MOST_TOKENS, Undecodable};

/// Decodes the values of one chunk, one after the other.
pub(crate) struct Decoder<'a> {
    shapes: &'a Shapes,
    texts: &'a [&'a str],
    /// The bytes of each column, by its number; none are left of one that was begun.
    columns: Vec<&'a [u8]>,
    tree: Tree<Option<Read<'a>>>,
    root: Slot,
    remembers_rows: bool,
    /// Tokens that the chunk may still have.
    tokens_left: usize,
}

/// What a chunk consists of.
pub(crate) struct Parts<'a> {
    pub(crate) shapes: Shapes,
    pub(crate) texts: Vec<&'a str>,
    pub(crate) columns: Vec<&'a [u8]>,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(parts: &'a Parts<'a>, remembers_rows: bool) -> Self {
        Self {
            shapes: &parts.shapes,
            texts: &parts.texts,
            columns: parts.columns.clone(),
            tree: Tree::new(),
            root: Slot::default(),
            remembers_rows,
            tokens_left: MOST_TOKENS,
        }
    }

    /// The tokens of the next value.
    pub(crate) fn next(&mut self, flat: &mut Flat) -> Result<(), Undecodable> {
        flat.clear();
        let mut root = std::mem::take(&mut self.root);
        self.get(flat, ROOT, &mut root, 0)?;
        self.root = root;
        Ok(())
    }

    fn get(&mut self, flat: &mut Flat, node: u32, slot: &mut Slot, depth: usize) -> Result<(), Undecodable> {
        self.tokens_left = self.tokens_left.saturating_sub(1);
        if depth > DEEPEST || self.tokens_left == 0 {
            return Err(Undecodable::new("it is larger than any recording"));
        }
        let value = self.column(node, 0).next(&mut slot.last)?;
        match value {
            Value::Null => flat.tokens.push(Token::Null),
            Value::Bool(value) => flat.tokens.push(Token::Bool(value)),
            Value::Int(value) => flat.tokens.push(Token::Int(value)),
            Value::Large(value) => flat.tokens.push(Token::Large(value)),
            Value::Decimal(digits, units) => flat.tokens.push(Token::Float(to_float(digits, units))),
            Value::Float(bits) => flat.tokens.push(Token::Float(f64::from_bits(bits))),
            Value::Number(number) => flat.push_number(number),
            Value::Text(number) => {
                let text = self.texts.get(number as usize);
                flat.push_text(text.ok_or_else(|| Undecodable::new("a text in it is missing"))?);
            }
            Value::Record(shape) => {
                if self.shapes.fields(shape).is_none() {
                    return Err(Undecodable::new("the names of a record in it are missing"));
                }
                flat.tokens.push(Token::Record(shape));
                let layout = self.tree.layout(node, shape, self.shapes);
                for (field, place) in &layout.fields {
                    self.get(flat, *field, slot.field(*place), depth + 1)?;
                }
                self.tree.give_back(node, shape, layout);
            }
            Value::List(length) => {
                flat.tokens.push(Token::List(length));
                self.get_rows(flat, node, slot, length, depth)?;
            }
        }
        Ok(())
    }

    fn get_rows(
        &mut self,
        flat: &mut Flat,
        node: u32,
        slot: &mut Slot,
        length: u32,
        depth: usize,
    ) -> Result<(), Undecodable> {
        let element = self.tree.element(node);
        let mut before = slot.rows.take().unwrap_or_default();
        if !self.remembers_rows {
            if before.slots.is_empty() {
                before.slots.push(Slot::default());
            }
            for _ in 0..length {
                self.get(flat, element, &mut before.slots[0], depth + 1)?;
            }
            slot.rows = Some(before);
            return Ok(());
        }
        let places = self.places(node, &mut before.order, length, before.slots.len())?;
        let is_as_before = before.slots.len() == places.len()
            && places.iter().enumerate().all(|(row, place)| *place == Some(row));
        if is_as_before {
            for row in &mut before.slots {
                self.get(flat, element, row, depth + 1)?;
            }
            slot.rows = Some(before);
            return Ok(());
        }
        let mut slots: Vec<Slot> = Vec::new();
        for place in places {
            let mut row = match place {
                Some(place) => std::mem::take(&mut before.slots[place]),
                None => slots.last().cloned().unwrap_or_default(),
            };
            self.get(flat, element, &mut row, depth + 1)?;
            slots.push(row);
        }
        *before = Rows { slots, keys: Vec::new(), order: before.order };
        slot.rows = Some(before);
        Ok(())
    }

    /// For each row its place in the list before; none where it is new.
    fn places(
        &mut self,
        node: u32,
        last: &mut Last,
        length: u32,
        before: usize,
    ) -> Result<Vec<Option<usize>>, Undecodable> {
        if length as usize > self.tokens_left {
            return Err(Undecodable::new("it is larger than any recording"));
        }
        let column = self.column(node, 1);
        let mut places = Vec::with_capacity(length as usize);
        let mut next = 0_i64;
        for _ in 0..length {
            places.push(match column.next(last)? {
                Value::Int(off) => {
                    let place = next.wrapping_add(off);
                    next = place.wrapping_add(1);
                    let place = usize::try_from(place).ok().filter(|place| *place < before);
                    Some(place.ok_or_else(|| Undecodable::new("a row in it has no row before it"))?)
                }
                _ => None,
            });
        }
        Ok(places)
    }

    /// A place's column, or that of its rows' order.
    fn column(&mut self, node: u32, which: usize) -> &mut Read<'a> {
        let bytes = self.columns.get(node as usize * 2 + which).copied().unwrap_or_default();
        let place = &mut self.tree.nodes[node as usize];
        let column = if which == 0 { &mut place.column } else { &mut place.order };
        column.get_or_insert_with(|| Read::new(bytes))
    }
}

/// The parts of a chunk that is not compressed any more.
pub(crate) fn parts<'a>(bytes: &mut Bytes<'a>) -> Result<Parts<'a>, Undecodable> {
    let not_text = |_| Undecodable::new("a text in it is no text");
    let mut shapes = Shapes::default();
    for _ in 0..bytes.count()? {
        let shorter = u32::try_from(bytes.number()?).unwrap_or(u32::MAX);
        let name = std::str::from_utf8(bytes.bytes()?).map_err(not_text)?;
        if !shapes.add_written(shorter, name) {
            return Err(Undecodable::new("the names of a record in it are missing"));
        }
    }
    let mut texts = Vec::new();
    for _ in 0..bytes.count()? {
        texts.push(std::str::from_utf8(bytes.bytes()?).map_err(not_text)?);
    }
    let mut lengths = Vec::new();
    for _ in 0..bytes.count()? {
        lengths.push(bytes.count()?);
    }
    let columns = lengths.into_iter().map(|length| bytes.take(length)).collect::<Result<_, _>>()?;
    Ok(Parts { shapes, texts, columns })
}
