//! Which servers of a list: `role=replica`, `dc=ams,fra`, `role!=source`, `server=db1*`, `canary`.
//!
//! Conditions are joined by and; the values of one by or. `*` stands for any text. `server` is the server's name.

use std::collections::BTreeMap;
use std::str::FromStr;

/// A condition on a server's tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    tag: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Is(Vec<String>),
    IsNot(Vec<String>),
    Exists,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values = |text: &str| text.split(',').map(|value| value.trim().to_owned()).collect();
        let (tag, test) = match text.split_once('=') {
            Some((tag, value)) => match tag.strip_suffix('!') {
                Some(tag) => (tag, Test::IsNot(values(value))),
                None => (tag, Test::Is(values(value))),
            },
            None => (text, Test::Exists),
        };
        let tag = tag.trim();
        if tag.is_empty() {
            return Err("a tag is wanted: role=replica, dc=ams,fra, role!=source, server=db1*".to_owned());
        }
        Ok(Self { tag: tag.to_owned(), test })
    }
}

impl Condition {
    /// Whether a server with this name and these tags is meant.
    pub fn holds(&self, name: &str, tags: &BTreeMap<String, String>) -> bool {
        let value = match self.tag.as_str() {
            "server" => Some(name),
            tag => tags.get(tag).map(String::as_str),
        };
        match (&self.test, value) {
            (Test::Exists, value) => value.is_some(),
            (Test::Is(_), None) => false,
            (Test::IsNot(_), None) => true,
            (Test::Is(wanted), Some(value)) => wanted.iter().any(|pattern| matches(pattern, value)),
            (Test::IsNot(unwanted), Some(value)) => !unwanted.iter().any(|pattern| matches(pattern, value)),
        }
    }
}

/// Whether a text is of a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pattern.rsplit_once('*').map(|(_, last)| last) else { return rest.is_empty() };
    let middle = pattern.matches('*').count() - 1;
    for part in parts.take(middle) {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: &str) -> bool {
        let tags = BTreeMap::from([("role".into(), "replica".into()), ("dc".into(), "ams".into())]);
        condition.parse::<Condition>().unwrap().holds("db17:3306", &tags)
    }

    #[test]
    fn conditions_look_at_tags_and_the_name() {
        for yes in [
            "role=replica",
            "dc=fra,ams",
            "role!=source",
            "rack!=7",
            "dc",
            "server=db17:3306",
            "server=db1*",
            "server=*06",
            "server=d*7*6",
            "dc=*",
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in
            ["role=source", "dc=fra", "role!=replica,source", "rack=7", "rack", "server=db1", "server=db*8"]
        {
            assert!(!holds(no), "{no}");
        }
        assert!("=x".parse::<Condition>().is_err() && "".parse::<Condition>().is_err());
    }

    #[test]
    fn a_star_is_any_text_and_parts_do_not_overlap() {
        assert!(matches("a*a", "aa") && !matches("a*a", "a"));
        assert!(matches("**", "") && matches("a*b*c", "a-b-b-c") && !matches("a*b*c", "acb"));
    }
}
