//! From a value to its tokens: a serializer of serde.

use std::fmt::Display;

use serde::ser::{self, Serialize};
use thiserror::Error;

use super::flat::{Flat, NO_FIELDS, Shapes, Token};

/// The plain data of the model serializes without fail; a map with keys that are no texts does not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct NotFlat(pub(crate) String);

impl ser::Error for NotFlat {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Appends a value's tokens.
pub(crate) fn flatten(value: &impl Serialize, flat: &mut Flat, shapes: &mut Shapes) -> Result<(), NotFlat> {
    value.serialize(&mut Flattener { flat, shapes })
}

struct Flattener<'a> {
    flat: &'a mut Flat,
    shapes: &'a mut Shapes,
}

impl Flattener<'_> {
    fn put(&mut self, token: Token) -> Result<(), NotFlat> {
        self.flat.tokens.push(token);
        Ok(())
    }

    /// A record of one field: how an enum's variant with content is written.
    fn begin_variant(&mut self, variant: &str) {
        let shape = self.shapes.longer(NO_FIELDS, variant);
        self.flat.tokens.push(Token::Record(shape));
    }
}

/// An unfinished list or record; its token is corrected at its end.
struct Open<'a, 'b> {
    flattener: &'a mut Flattener<'b>,
    at: usize,
    elements: u32,
    shape: u32,
}

impl<'a, 'b> Open<'a, 'b> {
    fn begin(flattener: &'a mut Flattener<'b>) -> Self {
        let at = flattener.flat.tokens.len();
        flattener.flat.tokens.push(Token::Null);
        Self { flattener, at, elements: 0, shape: NO_FIELDS }
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), NotFlat> {
        self.shape = self.flattener.shapes.longer(self.shape, name);
        value.serialize(&mut *self.flattener)
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), NotFlat> {
        self.elements += 1;
        value.serialize(&mut *self.flattener)
    }

    fn end_record(self) -> Result<(), NotFlat> {
        self.flattener.flat.tokens[self.at] = Token::Record(self.shape);
        Ok(())
    }

    fn end_list(self) -> Result<(), NotFlat> {
        self.flattener.flat.tokens[self.at] = Token::List(self.elements);
        Ok(())
    }
}

impl<'a, 'b> ser::Serializer for &'a mut Flattener<'b> {
    type Ok = ();
    type Error = NotFlat;
    type SerializeSeq = Open<'a, 'b>;
    type SerializeTuple = Open<'a, 'b>;
    type SerializeTupleStruct = Open<'a, 'b>;
    type SerializeTupleVariant = Open<'a, 'b>;
    type SerializeMap = Open<'a, 'b>;
    type SerializeStruct = Open<'a, 'b>;
    type SerializeStructVariant = Open<'a, 'b>;

    fn serialize_bool(self, value: bool) -> Result<(), NotFlat> {
        self.put(Token::Bool(value))
    }

    fn serialize_i8(self, value: i8) -> Result<(), NotFlat> {
        self.put(Token::Int(value.into()))
    }

    fn serialize_i16(self, value: i16) -> Result<(), NotFlat> {
        self.put(Token::Int(value.into()))
    }

    fn serialize_i32(self, value: i32) -> Result<(), NotFlat> {
        self.put(Token::Int(value.into()))
    }

    fn serialize_i64(self, value: i64) -> Result<(), NotFlat> {
        self.put(Token::Int(value))
    }

    fn serialize_u8(self, value: u8) -> Result<(), NotFlat> {
        self.put(Token::Int(value.into()))
    }

    fn serialize_u16(self, value: u16) -> Result<(), NotFlat> {
        self.put(Token::Int(value.into()))
    }

    fn serialize_u32(self, value: u32) -> Result<(), NotFlat> {
        self.put(Token::Int(value.into()))
    }

    fn serialize_u64(self, value: u64) -> Result<(), NotFlat> {
        self.put(i64::try_from(value).map_or(Token::Large(value), Token::Int))
    }

    fn serialize_f32(self, value: f32) -> Result<(), NotFlat> {
        self.put(Token::Float(value.into()))
    }

    fn serialize_f64(self, value: f64) -> Result<(), NotFlat> {
        self.put(Token::Float(value))
    }

    fn serialize_char(self, value: char) -> Result<(), NotFlat> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), NotFlat> {
        self.flat.push_text(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), NotFlat> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), NotFlat> {
        self.put(Token::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotFlat> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NotFlat> {
        self.put(Token::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), NotFlat> {
        self.put(Token::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), NotFlat> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), NotFlat> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotFlat> {
        self.begin_variant(variant);
        value.serialize(self)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Self::SerializeSeq, NotFlat> {
        Ok(Open::begin(self))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, NotFlat> {
        Ok(Open::begin(self))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, NotFlat> {
        Ok(Open::begin(self))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, NotFlat> {
        self.begin_variant(variant);
        Ok(Open::begin(self))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Self::SerializeMap, NotFlat> {
        Ok(Open::begin(self))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, NotFlat> {
        Ok(Open::begin(self))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, NotFlat> {
        self.begin_variant(variant);
        Ok(Open::begin(self))
    }
}

/// serde has four kinds of lists; all are one here.
macro_rules! lists {
    ($($kind:ident $element:ident),*) => {$(
        impl ser::$kind for Open<'_, '_> {
            type Ok = ();
            type Error = NotFlat;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFlat> {
                self.element(value)
            }

            fn end(self) -> Result<(), NotFlat> {
                self.end_list()
            }
        }
    )*};
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

impl ser::SerializeMap for Open<'_, '_> {
    type Ok = ();
    type Error = NotFlat;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotFlat> {
        // The key becomes a token like any text, and is taken out again as a name.
        key.serialize(&mut *self.flattener)?;
        let Some(Token::Text(at, length)) = self.flattener.flat.tokens.pop() else {
            return Err(NotFlat("a map's key is no text".to_owned()));
        };
        let name = self.flattener.flat.text(at, length);
        self.shape = self.flattener.shapes.longer(self.shape, name);
        self.flattener.flat.text.truncate(at as usize);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotFlat> {
        value.serialize(&mut *self.flattener)
    }

    fn end(self) -> Result<(), NotFlat> {
        self.end_record()
    }
}

/// A struct, and a variant of an enum with fields of its own.
macro_rules! records {
    ($($kind:ident),*) => {$(
        impl ser::$kind for Open<'_, '_> {
            type Ok = ();
            type Error = NotFlat;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), NotFlat> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), NotFlat> {
                self.end_record()
            }
        }
    )*};
}

records!(SerializeStruct, SerializeStructVariant);
