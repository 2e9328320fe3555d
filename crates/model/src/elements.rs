//! How many elements the lists of a document have, counted before memory is taken for them: for documents that may come from
//! anybody. A struct of which nothing is written (`{}`) is two bytes of text and some hundred of memory.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Text of each such element, on average, at least: in the 119 windows of `crates/rules/tests/windows` it is from 106 bytes on.
const LEAST_BYTES: usize = 48;
/// So many may be shorter: a hand-written document is small.
const FEW: u64 = 10_000;

/// The elements of all lists of a document that are lists, maps or null, the document itself in whatever format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elements {
    count: u64,
    /// False for what is no list, map or null.
    is_built: bool,
}

impl Elements {
    /// Fails where a document of so many bytes has more of them than what was saved ever has.
    ///
    /// # Errors
    /// Why, in words that follow "it is damaged".
    pub fn check(self, bytes: usize) -> Result<(), String> {
        let most = FEW + (bytes / LEAST_BYTES) as u64;
        match self.count > most {
            true => Err(format!(
                "its lists have {} elements in {bytes} bytes, which are empty or nearly so",
                self.count
            )),
            false => Ok(()),
        }
    }

    const SCALAR: Self = Self { count: 0, is_built: false };
}

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counting)
    }
}

struct Counting;

impl<'de> Visitor<'de> for Counting {
    type Value = Elements;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Elements, E> {
        Ok(Elements::SCALAR)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Elements, E> {
        Ok(Elements::SCALAR)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Elements, E> {
        Ok(Elements::SCALAR)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Elements, E> {
        Ok(Elements::SCALAR)
    }

    fn visit_str<E>(self, _: &str) -> Result<Elements, E> {
        Ok(Elements::SCALAR)
    }

    fn visit_unit<E>(self) -> Result<Elements, E> {
        Ok(Elements { count: 0, is_built: true })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Elements, A::Error> {
        let mut count = 0_u64;
        while let Some(element) = list.next_element::<Elements>()? {
            count += element.count + u64::from(element.is_built);
        }
        Ok(Elements { count, is_built: true })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Elements, A::Error> {
        let mut count = 0_u64;
        while map.next_key::<IgnoredAny>()?.is_some() {
            count += map.next_value::<Elements>()?.count;
        }
        Ok(Elements { count, is_built: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(json: &str) -> u64 {
        serde_json::from_str::<Elements>(json).unwrap().count
    }

    #[test]
    fn what_memory_is_taken_for_is_counted_wherever_it_stands() {
        assert_eq!(count(r#"{"a": 1, "b": "text", "c": null, "d": {}, "e": [1, -2.5, true, "x"]}"#), 0);
        assert_eq!(count(r#"{"samples": [{}, {"lists": [null, [], {"deep": [{}]}]}]}"#), 2 + 3 + 1);
    }

    #[test]
    fn a_document_of_empty_elements_is_refused_and_one_that_says_something_is_not() {
        let list = |element: &str| format!("[{}]", vec![element; 30_000].join(","));
        let check = |json: &str| serde_json::from_str::<Elements>(json).unwrap().check(json.len());
        for empty in ["{}", "[]", "null", r#"{"a":1}"#] {
            assert!(check(&list(empty)).unwrap_err().contains("30000 elements"), "{empty}");
        }
        // An observation of a profile, the shortest of what there are many of.
        let seen = r#"{"snapshot":1,"thread":2,"stack":3,"state":"running","spin":null,"activity":null}"#;
        assert_eq!(check(&list(seen)), Ok(()));
    }
}
