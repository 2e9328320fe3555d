//! The frame of every page: no network, no script, no font; light and dark as the reader's
//! system is set; printable. Every text of a server goes through [`safe`](crate::safe::safe) and maud's escaping.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("html.css");

/// Nothing may be fetched or run, whatever a hostile string might try.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A self-contained page, in the style of all pages and what it needs beyond that.
pub fn page(title: &str, own_style: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(concat!("spindoctor ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(own_style)) }
            }
            body { (body) }
        }
    }
    .into_string()
}

/// A text in which flags (`--persist`) stay whole: a browser breaks a line behind each hyphen.
pub fn prose(text: &str) -> Markup {
    html! {
        @for (place, word) in text.split(' ').enumerate() {
            @if place > 0 { " " }
            @if word.starts_with("--") { span.flag { (word) } } @else { (word) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_one_word_and_other_text_is_escaped_and_as_it_was() {
        assert_eq!(
            prose("Kept: <x>. --persist keeps it.").into_string(),
            "Kept: &lt;x&gt;. <span class=\"flag\">--persist</span> keeps it."
        );
    }
}
