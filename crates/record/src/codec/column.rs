//! One column: the values of one place in every sample of a chunk, stored as the values that could not be predicted.
//!
//! Most readings of a server are the same as a second before, or grow by the same amount. So each value is predicted
//! from the one before it in the same place, and only surprises are written: the number of values that came as
//! predicted, then the difference of the next one. A column that comes as predicted to the end costs nothing.

use super::Undecodable;
use super::varint::{Bytes, put, unzigzag, zigzag};

/// A value in one place. Numbers are distinguished by how they are written, so that each comes back as it was.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Large(u64),
    /// A number with so many digits behind the point, in units of the last one. Zero digits: a float that is whole.
    Decimal(u8, i64),
    /// Any other float, its bits.
    Float(u64),
    /// A text that is a whole number: `SHOW STATUS` gives nothing else.
    Number(i64),
    /// Place in the chunk's texts.
    Text(u32),
    List(u32),
    Record(u32),
}

impl Value {
    /// The number in it, and what has to be the same for two of them to be compared.
    fn number(self) -> Option<(i64, (u8, u8))> {
        match self {
            Self::Int(number) => Some((number, (0, 0))),
            Self::Number(number) => Some((number, (1, 0))),
            Self::Decimal(digits, number) => Some((number, (2, digits))),
            _ => None,
        }
    }

    fn with_number(self, number: i64) -> Self {
        match self {
            Self::Int(_) => Self::Int(number),
            Self::Number(_) => Self::Number(number),
            Self::Decimal(digits, _) => Self::Decimal(digits, number),
            other => other,
        }
    }
}

/// What is known of one place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Last {
    pub(crate) value: Value,
    /// By how much it changed the last time.
    step: i64,
}

impl Last {
    /// Known to have been that.
    pub(crate) fn from_value(value: Value) -> Self {
        Self { value, step: 0 }
    }

    /// What comes in a row that comes as expected: what was there, or as much more as it was then.
    pub(crate) fn expected(&self) -> Value {
        match self.value.number() {
            Some((number, _)) => self.value.with_number(number.wrapping_add(self.step)),
            None => self.value,
        }
    }

    /// That has come.
    pub(crate) fn go_on(&mut self) {
        self.value = self.expected();
    }
}

/// Ways to predict a number, from the one before it: it stays; it grows as it did; it grows as its neighbour in the
/// list just did.
const WAYS: usize = 3;
/// How fast old surprises are forgotten: the weight of the newest is one in 2^4.
const MEMORY: u32 = 4;

/// The state of a column, for the writer and the reader.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Foresight {
    /// How large each way's surprises have been lately, in bits.
    surprises: [u32; WAYS],
    /// By how much the latest value of the column changed.
    step: i64,
}

impl Foresight {
    /// What comes next in a place.
    fn foresee(&self, last: &Last) -> Value {
        let Some((number, _)) = last.value.number() else { return last.value };
        let least = self.surprises.iter().enumerate().min_by_key(|(_, bits)| **bits);
        last.value.with_number(number.wrapping_add(self.steps(last)[least.map_or(0, |(way, _)| way)]))
    }

    fn steps(&self, last: &Last) -> [i64; WAYS] {
        [0, last.step, self.step]
    }

    /// Takes in what came.
    fn learn(&mut self, last: &mut Last, value: Value) {
        let step = match (last.value.number(), value.number()) {
            (Some((before, kind)), Some((now, same))) if kind == same => {
                let step = now.wrapping_sub(before);
                let steps = self.steps(last);
                for (bits, foreseen) in self.surprises.iter_mut().zip(steps) {
                    let surprise = 64 - zigzag(step.wrapping_sub(foreseen)).leading_zeros();
                    *bits = *bits - (*bits >> MEMORY) + surprise;
                }
                self.step = step;
                step
            }
            _ => 0,
        };
        *last = Last { value, step };
    }
}

/// What a written number begins with, in its two lowest bits.
const FORESEEN: u128 = 0;
const OFF_BY: u128 = 1;
const OTHER: u128 = 2;
const TEXT: u128 = 3;

/// What follows [`OTHER`].
const NULL: u64 = 0;
const FALSE: u64 = 1;
const TRUE: u64 = 2;
const INT: u64 = 3;
const LARGE: u64 = 4;
const FLOAT: u64 = 5;
const NUMBER: u64 = 6;
const LIST: u64 = 7;
const RECORD: u64 = 8;
/// And the digits behind the point are added.
const DECIMAL: u64 = 9;

/// A column that is written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    foresight: Foresight,
    /// Values that came as foreseen, since the last surprise.
    foreseen: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Written {
    /// Adds the next value of a place.
    pub(crate) fn push(&mut self, last: &mut Last, value: Value) {
        let foreseen = self.foresight.foresee(last);
        if foreseen == value {
            self.foreseen += 1;
        } else {
            if self.foreseen > 0 {
                put(&mut self.bytes, u128::from(self.foreseen) << 2 | FORESEEN);
                self.foreseen = 0;
            }
            self.put_surprise(foreseen, value);
        }
        self.foresight.learn(last, value);
    }

    fn put_surprise(&mut self, foreseen: Value, value: Value) {
        let bytes = &mut self.bytes;
        if let (Some((expected, kind)), Some((number, same))) = (foreseen.number(), value.number())
            && kind == same
        {
            return put(bytes, u128::from(zigzag(number.wrapping_sub(expected))) << 2 | OFF_BY);
        }
        let mut other = |what: u64, number: Option<u64>| {
            put(bytes, u128::from(what) << 2 | OTHER);
            if let Some(number) = number {
                put(bytes, number.into());
            }
        };
        match value {
            Value::Null => other(NULL, None),
            Value::Bool(value) => other(if value { TRUE } else { FALSE }, None),
            Value::Int(value) => other(INT, Some(zigzag(value))),
            Value::Large(value) => other(LARGE, Some(value)),
            Value::Float(bits) => other(FLOAT, Some(bits)),
            Value::Number(value) => other(NUMBER, Some(zigzag(value))),
            Value::List(length) => other(LIST, Some(length.into())),
            Value::Record(shape) => other(RECORD, Some(shape.into())),
            Value::Decimal(digits, value) => other(DECIMAL + u64::from(digits), Some(zigzag(value))),
            Value::Text(text) => put(bytes, u128::from(text) << 2 | TEXT),
        }
    }
}

/// A column that is read.
#[derive(Debug, Default)]
pub(crate) struct Read<'a> {
    foresight: Foresight,
    foreseen: u64,
    bytes: Bytes<'a>,
}

impl<'a> Read<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: Bytes(bytes), ..Self::default() }
    }

    /// The next value of a place.
    pub(crate) fn next(&mut self, last: &mut Last) -> Result<Value, Undecodable> {
        let foreseen = self.foresight.foresee(last);
        let value = if self.foreseen > 0 {
            self.foreseen -= 1;
            foreseen
        } else if self.bytes.0.is_empty() {
            foreseen
        } else {
            self.surprise(foreseen)?
        };
        self.foresight.learn(last, value);
        Ok(value)
    }

    fn surprise(&mut self, foreseen: Value) -> Result<Value, Undecodable> {
        let written = self.bytes.number()?;
        let content =
            u64::try_from(written >> 2).map_err(|_| Undecodable::new("a number in it is too large"))?;
        let small =
            |number: u64| u32::try_from(number).map_err(|_| Undecodable::new("a number in it is too large"));
        match written & 3 {
            FORESEEN if content > 0 => {
                self.foreseen = content - 1;
                Ok(foreseen)
            }
            OFF_BY => match foreseen.number() {
                Some((number, _)) => Ok(foreseen.with_number(number.wrapping_add(unzigzag(content)))),
                None => Err(Undecodable::new("a number in it has nothing to count from")),
            },
            OTHER => Ok(match content {
                NULL => Value::Null,
                FALSE => Value::Bool(false),
                TRUE => Value::Bool(true),
                INT => Value::Int(unzigzag(self.bytes.u64()?)),
                LARGE => Value::Large(self.bytes.u64()?),
                FLOAT => Value::Float(self.bytes.u64()?),
                NUMBER => Value::Number(unzigzag(self.bytes.u64()?)),
                LIST => Value::List(small(self.bytes.u64()?)?),
                RECORD => Value::Record(small(self.bytes.u64()?)?),
                _ => {
                    let digits = u8::try_from(content - DECIMAL).ok().filter(|digits| *digits <= MOST_DIGITS);
                    let digits =
                        digits.ok_or_else(|| Undecodable::new("a kind of value in it is unknown"))?;
                    Value::Decimal(digits, unzigzag(self.bytes.u64()?))
                }
            }),
            TEXT => Ok(Value::Text(small(content)?)),
            _ => Err(Undecodable::new("a count in it is zero")),
        }
    }
}

/// Digits behind the point that a decimal may have: microseconds of seconds.
const MOST_DIGITS: u8 = 6;
const UNITS: [f64; MOST_DIGITS as usize + 1] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
/// Beyond this a float has no place for every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A float as a decimal that becomes the same float again, where there is one; preferably with as many digits as the
/// last value in its place.
pub(crate) fn decimal(float: f64, last: Value) -> Value {
    let like_last = match last {
        Value::Decimal(digits, _) => digits,
        _ => 0,
    };
    [like_last, 0, 3, MOST_DIGITS]
        .into_iter()
        .find_map(|digits| {
            let units = (float * UNITS[usize::from(digits)]).round();
            let decimal = Value::Decimal(digits, units as i64);
            let is_exact = units.abs() < EXACT && to_float(digits, units as i64).to_bits() == float.to_bits();
            is_exact.then_some(decimal)
        })
        .unwrap_or(Value::Float(float.to_bits()))
}

/// A float rounded to so many digits behind the point.
pub(crate) fn rounded(float: f64, digits: u8) -> f64 {
    let units = (float * UNITS[usize::from(digits)]).round();
    if units.abs() < EXACT { units / UNITS[usize::from(digits)] } else { float }
}

/// The float of a decimal.
pub(crate) fn to_float(digits: u8, units: i64) -> f64 {
    units as f64 / UNITS[usize::from(digits.min(MOST_DIGITS))]
}

/// A text as a number, where the number is written as that text again.
pub(crate) fn whole_number(text: &str) -> Option<i64> {
    /// No more digits than every such number has in an `i64`.
    const DIGITS: usize = 18;
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_plain = matches!(digits, [b'1'..=b'9', ..]) || text == "0";
    (is_plain && digits.len() <= DIGITS && digits.iter().all(u8::is_ascii_digit))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come_back(values: &[(usize, Value)]) -> usize {
        let mut places = [Last::default(); 4];
        let mut column = Written::default();
        for (place, value) in values {
            column.push(&mut places[*place], *value);
        }
        let mut places = [Last::default(); 4];
        let mut read = Read::new(&column.bytes);
        for (place, value) in values {
            assert_eq!(read.next(&mut places[*place]).unwrap(), *value);
        }
        column.bytes.len()
    }

    #[test]
    fn what_stays_and_what_grows_steadily_costs_next_to_nothing() {
        let stays: Vec<_> = (0..1000).map(|at| (at % 4, Value::Number(7))).collect();
        assert!(come_back(&stays) <= 12);
        let grows: Vec<_> = (0..1000).map(|at| (at % 4, Value::Int(at as i64 / 4 * 1000))).collect();
        assert!(come_back(&grows) <= 24, "{}", come_back(&grows));
    }

    #[test]
    fn floats_and_texts_come_back_as_they_were() {
        for float in [0.0, -0.0, 1.5, 0.1, 12.345_678, 1e300, f64::NAN, f64::INFINITY, -7.25, 1.0 / 3.0] {
            let back = match decimal(float, Value::Null) {
                Value::Decimal(digits, units) => to_float(digits, units),
                Value::Float(bits) => f64::from_bits(bits),
                other => panic!("{other:?}"),
            };
            assert_eq!(back.to_bits(), float.to_bits(), "{float}");
        }
        assert!(matches!(decimal(12.345_678, Value::Null), Value::Decimal(6, 12_345_678)));
        for (text, number) in
            [("0", Some(0)), ("-5", Some(-5)), ("05", None), ("-0", None), ("", None), ("1e3", None)]
        {
            assert_eq!(whole_number(text), number, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_values_come_back(values in proptest::collection::vec((0..4_usize, 0..7_u8, proptest::prelude::any::<i64>()), 0..60)) {
            let values: Vec<_> = values.into_iter().map(|(place, kind, number)| (place, match kind {
                0 => Value::Null,
                1 => Value::Int(number),
                2 => Value::Number(number % 10),
                3 => Value::Decimal(3, number % 100),
                4 => Value::Large(number.cast_unsigned()),
                5 => Value::Text(number as u32),
                _ => Value::Bool(number > 0),
            })).collect();
            come_back(&values);
        }
    }
}
