//! A value as a row of tokens: the content of its JSON, without the braces.

/// One token. A record is followed by the values of its fields, a list by its elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond what an `i64` holds.
    Large(u64),
    Float(f64),
    /// Place and length in [`Flat::text`].
    Text(u32, u32),
    /// How many elements.
    List(u32),
    /// Place in [`Shapes`].
    Record(u32),
}

/// A value's tokens, and the texts in it.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    pub(crate) tokens: Vec<Token>,
    pub(crate) text: String,
    /// True while nothing is taken in: what comes is of no use to anybody.
    pub(crate) is_closed: bool,
}

impl Flat {
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.text.clear();
        self.is_closed = false;
    }

    pub(crate) fn push(&mut self, token: Token) {
        if !self.is_closed {
            self.tokens.push(token);
        }
    }

    pub(crate) fn push_text(&mut self, text: &str) {
        if self.is_closed {
            return;
        }
        let at = self.text.len() as u32;
        self.text.push_str(text);
        self.tokens.push(Token::Text(at, text.len() as u32));
    }

    /// A number as a text.
    pub(crate) fn push_number(&mut self, number: i64) {
        use std::fmt::Write as _;
        if self.is_closed {
            return;
        }
        let at = self.text.len();
        let _ = write!(self.text, "{number}");
        self.tokens.push(Token::Text(at as u32, (self.text.len() - at) as u32));
    }

    /// The text of a token; empty where it is not in this value.
    pub(crate) fn text(&self, at: u32, length: u32) -> &str {
        self.text.get(at as usize..at as usize + length as usize).unwrap_or_default()
    }
}

/// The names of records' fields, in their order: a tree in which each step is one more field, so that the place where a
/// record's fields end names them all.
#[derive(Debug)]
pub(crate) struct Shapes(Vec<Shape>);

#[derive(Debug)]
struct Shape {
    /// The shape without the last field.
    shorter: u32,
    /// The last field.
    name: String,
    fields: u32,
    longer: Vec<u32>,
    /// Which of `longer` was taken last: it will be again.
    likely: u32,
}

/// The record without fields.
pub(crate) const NO_FIELDS: u32 = 0;

impl Default for Shapes {
    fn default() -> Self {
        Self(vec![Shape {
            shorter: NO_FIELDS,
            name: String::new(),
            fields: 0,
            longer: Vec::new(),
            likely: 0,
        }])
    }
}

impl Shapes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The shape with one field more.
    pub(crate) fn longer(&mut self, shape: u32, name: &str) -> u32 {
        let from = &self.0[shape as usize];
        if from.likely != NO_FIELDS && self.0[from.likely as usize].name == name {
            return from.likely;
        }
        let known = from.longer.iter().copied().find(|longer| self.0[*longer as usize].name == name);
        let longer = known.unwrap_or_else(|| self.add(shape, name));
        self.0[shape as usize].likely = longer;
        longer
    }

    fn add(&mut self, shorter: u32, name: &str) -> u32 {
        let new = self.0.len() as u32;
        let fields = self.0[shorter as usize].fields + 1;
        self.0.push(Shape { shorter, name: name.to_owned(), fields, longer: Vec::new(), likely: NO_FIELDS });
        self.0[shorter as usize].longer.push(new);
        new
    }

    /// Adds a shape as it was written; false where the shorter one is none.
    pub(crate) fn add_written(&mut self, shorter: u32, name: &str) -> bool {
        let is_known = (shorter as usize) < self.0.len();
        if is_known {
            self.add(shorter, name);
        }
        is_known
    }

    /// What [`Shapes::add_written`] wants.
    pub(crate) fn written(&self, shape: u32) -> (u32, &str) {
        let shape = &self.0[shape as usize];
        (shape.shorter, &shape.name)
    }

    /// How many fields a record of a shape has; none where there is no such shape.
    pub(crate) fn fields(&self, shape: u32) -> Option<u32> {
        self.0.get(shape as usize).map(|shape| shape.fields)
    }

    /// The names of a shape's fields, in order.
    pub(crate) fn names(&self, shape: u32) -> Vec<&str> {
        let mut names = Vec::new();
        let mut at = shape;
        while at != NO_FIELDS {
            let shape = &self.0[at as usize];
            names.push(shape.name.as_str());
            at = shape.shorter;
        }
        names.reverse();
        names
    }
}
