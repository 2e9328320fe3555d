//! The body of a web hook, with fields of the message in it: `{"text": "{hostname}: {headline}"}`.

use std::str::FromStr;

use super::message::Message;

/// A text with fields, each a name between braces. Other braces are text, so that JSON can be written as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(String),
}

impl Template {
    /// The text with the fields of a message, each as it stands within a text of JSON: no value ends the text that it stands in.
    pub fn fill(&self, message: &Message) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Field(name) => {
                    let value = message.field(name).unwrap_or_default();
                    let quoted = serde_json::Value::String(value).to_string();
                    quoted[1..quoted.len() - 1].to_owned()
                }
            })
            .collect()
    }
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = Vec::new();
        let mut rest = text;
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let mut before = String::new();
        while let Some(open) = rest.find('{') {
            let (text, behind) = (&rest[..open], &rest[open + 1..]);
            before.push_str(text);
            match behind.split_once('}') {
                Some((name, after)) if is_name(name) => {
                    if !Message::FIELDS.contains(&name) {
                        return Err(format!(
                            "{{{name}}} is not a field; there are {}",
                            Message::FIELDS.join(", ")
                        ));
                    }
                    parts.push(Part::Text(std::mem::take(&mut before)));
                    parts.push(Part::Field(name.to_owned()));
                    rest = after;
                }
                _ => {
                    before.push('{');
                    rest = behind;
                }
            }
        }
        before.push_str(rest);
        parts.push(Part::Text(before));
        match parts.iter().any(|part| matches!(part, Part::Field(_))) {
            true => Ok(Self { parts }),
            false => Err(format!("it names no field; there are {}", Message::FIELDS.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::examples::message;
    use super::*;

    #[test]
    fn fields_are_filled_and_no_value_leaves_the_text_that_it_stands_in() {
        let template: Template =
            r#"{"text": "{hostname} {id}: {headline}", "blocks": [{}]}"#.parse().unwrap();
        let filled = template.fill(&message());
        let json: serde_json::Value = serde_json::from_str(&filled).unwrap();
        assert_eq!(json["text"], "db17 7: 39 sessions wait for one row of \"shop\".\"orders\"\n");
        assert!(json["blocks"][0].is_object());
    }

    #[test]
    fn a_field_that_does_not_exist_is_refused_with_those_that_do() {
        let refused = |text: &str| text.parse::<Template>().unwrap_err();
        assert!(refused(r#"{"text": "{hostnam}"}"#).contains("hostname"));
        assert!(refused("hello").contains("names no field"));
    }
}
