//! From tokens to a value: a deserializer of serde. Names that the value's type does not have are skipped, and fields
//! that the tokens do not have get their default, as in JSON.

use std::cell::OnceCell;
use std::fmt::Display;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer as _, Visitor};
use serde::forward_to_deserialize_any;

use super::Undecodable;
use super::flat::{Flat, Shapes, Token};

impl de::Error for Undecodable {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The names of each shape's fields, put together when they are first wanted.
pub(crate) struct Names<'a> {
    shapes: &'a Shapes,
    names: Vec<OnceCell<Vec<String>>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(shapes: &'a Shapes) -> Self {
        Self { shapes, names: vec![OnceCell::new(); shapes.len()] }
    }

    fn fields(&self, shape: u32) -> &[String] {
        let own = || self.shapes.names(shape).into_iter().map(str::to_owned).collect();
        self.names.get(shape as usize).map_or(&[], |names| names.get_or_init(own))
    }
}

/// A list whose elements are passed over: it is read as empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    /// Its place among the tokens.
    list: usize,
    /// The place behind its last element.
    end: usize,
}

/// The place of the list to which these fields lead; none where they lead to something else.
pub(crate) fn find(flat: &Flat, names: &Names<'_>, fields: &[&str]) -> Option<Passed> {
    let mut at = 0;
    for field in fields {
        let Token::Record(shape) = *flat.tokens.get(at)? else { return None };
        let before = names.fields(shape).iter().position(|name| name == field)?;
        at = behind(flat, names, at + 1, before)?;
    }
    let Token::List(elements) = *flat.tokens.get(at)? else { return None };
    Some(Passed { list: at, end: behind(flat, names, at + 1, elements as usize)? })
}

/// The place behind so many values; none where the tokens end before.
fn behind(flat: &Flat, names: &Names<'_>, mut at: usize, values: usize) -> Option<usize> {
    let mut left = values;
    while left > 0 {
        left -= 1;
        left += match *flat.tokens.get(at)? {
            Token::List(elements) => elements as usize,
            Token::Record(shape) => names.fields(shape).len(),
            _ => 0,
        };
        at += 1;
    }
    Some(at)
}

/// The value that tokens stand for.
pub(crate) fn raise<T: DeserializeOwned>(
    flat: &Flat,
    names: &Names<'_>,
    passed: &[Passed],
) -> Result<T, Undecodable> {
    let mut raiser = Raiser { flat, names, passed, at: 0 };
    T::deserialize(&mut raiser)
}

struct Raiser<'a> {
    flat: &'a Flat,
    names: &'a Names<'a>,
    passed: &'a [Passed],
    at: usize,
}

impl Raiser<'_> {
    fn next(&mut self) -> Result<Token, Undecodable> {
        let token = self.flat.tokens.get(self.at).ok_or_else(|| Undecodable::new("it ends too early"))?;
        self.at += 1;
        Ok(*token)
    }
}

impl<'de> Deserializer<'de> for &mut Raiser<'_> {
    type Error = Undecodable;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Undecodable> {
        match self.next()? {
            Token::Null => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            // Types that count do not take what is signed, and those that are signed take both.
            Token::Int(value) => match u64::try_from(value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(value),
            },
            Token::Large(value) => visitor.visit_u64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(at, length) => visitor.visit_str(self.flat.text(at, length)),
            Token::List(elements) => {
                let list = self.at - 1;
                let passed = self.passed.iter().find(|passed| passed.list == list);
                self.at = passed.map_or(self.at, |passed| passed.end);
                let left = if passed.is_some() { 0 } else { elements };
                let mut list = Elements { raiser: self, left };
                let value = visitor.visit_seq(&mut list)?;
                list.skip()?;
                Ok(value)
            }
            Token::Record(shape) => {
                let names = self.names.fields(shape);
                visitor.visit_map(Fields { names: names.iter(), raiser: self })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Undecodable> {
        if self.flat.tokens.get(self.at) == Some(&Token::Null) {
            self.at += 1;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Undecodable> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Undecodable> {
        match self.next()? {
            Token::Text(at, length) => visitor.visit_enum(self.flat.text(at, length).into_deserializer()),
            Token::Record(shape) => match self.names.fields(shape) {
                [variant] => visitor.visit_enum(Variant { variant, raiser: self }),
                _ => Err(Undecodable::new("a choice in it has several names")),
            },
            _ => Err(Undecodable::new("a choice in it is none")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Elements<'a, 'b> {
    raiser: &'a mut Raiser<'b>,
    left: u32,
}

impl Elements<'_, '_> {
    /// Past the elements that the value's type did not want.
    fn skip(&mut self) -> Result<(), Undecodable> {
        while self.left > 0 {
            self.left -= 1;
            de::IgnoredAny::deserialize_from(self.raiser)?;
        }
        Ok(())
    }
}

/// `IgnoredAny` by the name of what it is for.
trait DeserializeFrom: Sized {
    fn deserialize_from(raiser: &mut Raiser<'_>) -> Result<Self, Undecodable>;
}

impl DeserializeFrom for de::IgnoredAny {
    fn deserialize_from(raiser: &mut Raiser<'_>) -> Result<Self, Undecodable> {
        de::Deserialize::deserialize(raiser)
    }
}

impl<'de> de::SeqAccess<'de> for &mut Elements<'_, '_> {
    type Error = Undecodable;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Undecodable> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.raiser).map(Some)
    }
}

struct Fields<'a, 'b> {
    names: std::slice::Iter<'a, String>,
    raiser: &'a mut Raiser<'b>,
}

impl<'de> de::MapAccess<'de> for Fields<'_, '_> {
    type Error = Undecodable;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Undecodable> {
        let Some(name) = self.names.next() else { return Ok(None) };
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Undecodable> {
        seed.deserialize(&mut *self.raiser)
    }
}

struct Variant<'a, 'b> {
    variant: &'a str,
    raiser: &'a mut Raiser<'b>,
}

impl<'de, 'a, 'b> de::EnumAccess<'de> for Variant<'a, 'b> {
    type Error = Undecodable;
    type Variant = Content<'a, 'b>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Undecodable> {
        let variant: de::value::StrDeserializer<'_, Undecodable> = self.variant.into_deserializer();
        Ok((seed.deserialize(variant)?, Content(self.raiser)))
    }
}

/// What an enum's variant holds.
struct Content<'a, 'b>(&'a mut Raiser<'b>);

impl<'de> de::VariantAccess<'de> for Content<'_, '_> {
    type Error = Undecodable;

    fn unit_variant(self) -> Result<(), Undecodable> {
        de::IgnoredAny::deserialize_from(self.0).map(|_| ())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Undecodable> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Undecodable> {
        self.0.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Undecodable> {
        self.0.deserialize_any(visitor)
    }
}
