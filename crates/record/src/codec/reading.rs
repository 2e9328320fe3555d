//! From chunks to values.

use super::column::{Last, Read, Value, to_float};
use super::flat::{Flat, Shapes, Token};
use super::tree::{ROOT, Rows, Slot, Tree, columns_of_a_place};
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
    layout: Layout,
    /// Tokens that the chunk may still have.
    tokens_left: usize,
}

/// What a chunk consists of.
pub(crate) struct Parts<'a> {
    pub(crate) shapes: Shapes,
    pub(crate) texts: Vec<&'a str>,
    pub(crate) columns: Vec<&'a [u8]>,
}

/// How values were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One value; its lists do not remember their rows.
    One,
    /// Many, as version 1 wrote them.
    Many,
    /// Many values; each row of a list says whether it came as expected.
    ManyWithExpected,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(parts: &'a Parts<'a>, layout: Layout) -> Self {
        Self {
            shapes: &parts.shapes,
            texts: &parts.texts,
            columns: parts.columns.clone(),
            tree: Tree::new(),
            root: Slot::default(),
            layout,
            tokens_left: MOST_TOKENS,
        }
    }

    /// The tokens of the next value; none of a record whose first field, a number, `is_wanted` does not want.
    pub(crate) fn next(
        &mut self,
        flat: &mut Flat,
        is_wanted: &mut dyn FnMut(i64) -> bool,
    ) -> Result<bool, Undecodable> {
        flat.clear();
        let mut root = std::mem::take(&mut self.root);
        let value = self.value(flat, ROOT, &mut root)?;
        match value {
            Value::Record(shape) => {
                let layout = self.tree.layout(ROOT, shape, self.shapes);
                for (nth, (field, place)) in layout.fields.iter().enumerate() {
                    self.get(flat, *field, root.field(*place), 1)?;
                    if let (0, Some(Token::Int(first))) = (nth, flat.tokens.last()) {
                        flat.is_closed = !is_wanted(*first);
                    }
                }
                self.tree.give_back(ROOT, shape, layout);
            }
            Value::List(length) => self.get_rows(flat, ROOT, &mut root, length, 0)?,
            _ => {}
        }
        self.root = root;
        Ok(!flat.is_closed)
    }

    fn get(&mut self, flat: &mut Flat, node: u32, slot: &mut Slot, depth: usize) -> Result<(), Undecodable> {
        if depth > DEEPEST {
            return Err(Undecodable::new("it is larger than any recording"));
        }
        match self.value(flat, node, slot)? {
            Value::Record(shape) => {
                let layout = self.tree.layout(node, shape, self.shapes);
                for (field, place) in &layout.fields {
                    self.get(flat, *field, slot.field(*place), depth + 1)?;
                }
                self.tree.give_back(node, shape, layout);
                Ok(())
            }
            Value::List(length) => self.get_rows(flat, node, slot, length, depth),
            _ => Ok(()),
        }
    }

    /// The next value of a place, without what is in it.
    fn value(&mut self, flat: &mut Flat, node: u32, slot: &mut Slot) -> Result<Value, Undecodable> {
        self.pay(1)?;
        let value = self.column(node, Which::Values).next(&mut slot.last)?;
        self.push(flat, value)?;
        Ok(value)
    }

    /// So many values were read: damaged bytes may claim more than there can be.
    fn pay(&mut self, values: usize) -> Result<(), Undecodable> {
        self.tokens_left = self.tokens_left.saturating_sub(values);
        if self.tokens_left == 0 {
            return Err(Undecodable::new("it is larger than any recording"));
        }
        Ok(())
    }

    fn push(&self, flat: &mut Flat, value: Value) -> Result<(), Undecodable> {
        match value {
            Value::Null => flat.push(Token::Null),
            Value::Bool(value) => flat.push(Token::Bool(value)),
            Value::Int(value) => flat.push(Token::Int(value)),
            Value::Large(value) => flat.push(Token::Large(value)),
            Value::Decimal(digits, units) => flat.push(Token::Float(to_float(digits, units))),
            Value::Float(bits) => flat.push(Token::Float(f64::from_bits(bits))),
            Value::Number(number) => flat.push_number(number),
            Value::Text(number) => {
                let text = self.texts.get(number as usize);
                flat.push_text(text.ok_or_else(|| Undecodable::new("a text in it is missing"))?);
            }
            Value::List(length) => flat.push(Token::List(length)),
            Value::Record(shape) if self.shapes.fields(shape).is_none() => {
                return Err(Undecodable::new("the names of a record in it are missing"));
            }
            Value::Record(shape) => flat.push(Token::Record(shape)),
        }
        Ok(())
    }

    /// A row, which may have come as expected.
    fn get_row(
        &mut self,
        flat: &mut Flat,
        list: u32,
        row: &mut Slot,
        depth: usize,
    ) -> Result<(), Undecodable> {
        let element = self.tree.element(list);
        if self.layout == Layout::ManyWithExpected {
            let mut last = Last::from_value(Value::Bool(row.was_expected));
            let expected = self.column(list, Which::Expected).next(&mut last)?;
            row.was_expected = expected == Value::Bool(true);
            if row.was_expected {
                self.pay(row.go_on())?;
                return if flat.is_closed { Ok(()) } else { self.get_expected(flat, element, row, depth) };
            }
        }
        self.get(flat, element, row, depth)
    }

    /// A value that has come as expected: it is in the slots already.
    fn get_expected(
        &mut self,
        flat: &mut Flat,
        node: u32,
        slot: &Slot,
        depth: usize,
    ) -> Result<(), Undecodable> {
        if depth > DEEPEST {
            return Err(Undecodable::new("it is larger than any recording"));
        }
        self.push(flat, slot.last.value)?;
        match slot.last.value {
            Value::Record(shape) => {
                let layout = self.tree.layout(node, shape, self.shapes);
                for (field, place) in &layout.fields {
                    let below = slot.fields.get(*place as usize);
                    let below = below.ok_or_else(|| Undecodable::new("a row in it has no row before it"))?;
                    self.get_expected(flat, *field, below, depth + 1)?;
                }
                self.tree.give_back(node, shape, layout);
                Ok(())
            }
            Value::List(1..) => Err(Undecodable::new("a row in it has rows that are not listed")),
            _ => Ok(()),
        }
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
        if self.layout == Layout::One {
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
                self.get_row(flat, node, row, depth + 1)?;
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
            self.get_row(flat, node, &mut row, depth + 1)?;
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
        let column = self.column(node, Which::Order);
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

    /// One of a place's columns.
    fn column(&mut self, node: u32, which: Which) -> &mut Read<'a> {
        let of_a_place = columns_of_a_place(self.layout);
        let number = (node as usize).saturating_mul(of_a_place) + which as usize;
        let bytes = self.columns.get(number).copied().unwrap_or_default();
        let place = &mut self.tree.nodes[node as usize];
        let column = match which {
            Which::Values => &mut place.column,
            Which::Order => &mut place.order,
            Which::Expected => &mut place.expected,
        };
        column.get_or_insert_with(|| Read::new(bytes))
    }
}

/// One of a place's columns, in their order.
#[derive(Debug, Clone, Copy)]
enum Which {
    Values,
    Order,
    Expected,
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
