//! The frame of every page: no network, no script, no font; light and dark as the reader's
//! system is set; printable. Every text of a server goes through [`safe`](crate::safe::safe()) and maud's escaping; [`breakable`] does
//! both, and says where a browser may break its names.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::safe::safe;

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

/// Letters up to which a word of a sentence stays whole: the narrowest box of a page has room for as many on a telephone.
const WHOLE: usize = 24;

/// Behind these a name may be broken.
const SIGNS: [char; 7] = ['_', '.', '/', ',', '(', ':', '='];

/// A text of the server, made safe. A browser may break its long names behind a sign within them (`performance_schema.` and
/// `replication_group_members`), and only where no such part fits into a line anywhere.
pub fn breakable(text: &str) -> Markup {
    broken(text, WHOLE)
}

/// The same in a cell with room for a few letters: its short names may be broken so, too.
pub fn narrow(text: &str) -> Markup {
    broken(text, 0)
}

fn broken(text: &str, whole: usize) -> Markup {
    let text = safe(text);
    html! {
        @for (place, word) in text.split(' ').enumerate() {
            @if place > 0 { " " }
            @if word.chars().count() > whole {
                @for (at, part) in parts(word).into_iter().enumerate() {
                    @if at > 0 { wbr; }
                    (part)
                }
            } @else { (word) }
        }
    }
}

/// The parts of a word between which it may be broken. A number stays whole (`31,204`), and so do signs that stand together (`::`).
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut before) = (0, None);
    let mut letters = word.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|&(_, next)| next);
        let is_digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
        let ends_part = SIGNS.contains(&letter) && next.is_some_and(|next| !SIGNS.contains(&next));
        if ends_part && before.is_some() && !(is_digit(before) && is_digit(next)) {
            let end = at + letter.len_utf8();
            parts.push(&word[begin..end]);
            begin = end;
        }
        before = Some(letter);
    }
    parts.push(&word[begin..]);
    parts
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

/// A text whose addresses (`https://...`) are links; long names in it may be broken.
pub fn linked(text: &str) -> Markup {
    html! {
        @for (place, word) in text.split(' ').enumerate() {
            @if place > 0 { " " }
            @if word.starts_with("https://") { a href=(safe(word)) rel="noreferrer" { (breakable(word)) } } @else { (breakable(word)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_may_be_broken_behind_a_sign_and_nowhere_else() {
        let sentence = "SELECT MEMBER_HOST FROM performance_schema.replication_group_members";
        assert_eq!(
            breakable(sentence).into_string(),
            "SELECT MEMBER_HOST FROM performance_<wbr>schema.<wbr>replication_<wbr>group_<wbr>members"
        );
        let of = |text: &str| narrow(text).into_string();
        assert_eq!(of("innodb_spin_wait_delay=6"), "innodb_<wbr>spin_<wbr>wait_<wbr>delay=<wbr>6");
        assert_eq!(of("/var/lib/mysql/a.ibd"), "/var/<wbr>lib/<wbr>mysql/<wbr>a.<wbr>ibd");
        assert_eq!(
            of("galera::ReplicatorSMM::cert(x,y)"),
            "galera::<wbr>ReplicatorSMM::<wbr>cert(<wbr>x,<wbr>y)"
        );
        for whole in ["31,204", "10.0.0.17:3306", "8.0.36", "A sentence ends.", "_", "", "a  b"] {
            assert_eq!(of(whole), whole);
        }
        assert_eq!(of("a_<b>\u{202e}"), "a_<wbr>&lt;b&gt;\\u{202e}");
    }

    /// Relative luminance of `#rrggbb` or `#rgb` (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let digits = colour.trim_start_matches('#');
        let wide: String = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => digits.to_owned(),
        };
        let part = |at: usize| {
            let part = f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    #[test]
    fn every_colour_of_a_text_can_be_read_on_every_ground_light_dark_and_in_print() {
        /// WCAG 2.2, success criterion 1.4.3, level AA.
        const LEAST: f64 = 4.5;
        let blocks: Vec<&str> =
            STYLE.split(":root {").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect();
        assert_eq!(blocks.len(), 3, "light, dark, print");
        for block in blocks {
            let colour = |name: &str| {
                let (_, rest) =
                    block.split_once(&format!("--{name}: ")).unwrap_or_else(|| panic!("no {name}"));
                rest.split(';').next().unwrap()
            };
            for text in ["ink", "quiet", "critical", "warning", "note", "good"] {
                for ground in ["page", "card", "code"] {
                    let (one, other) = (luminance(colour(text)), luminance(colour(ground)));
                    let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                    assert!(contrast >= LEAST, "--{text} on --{ground}: {contrast:.2} in {block}");
                }
            }
        }
    }

    #[test]
    fn an_address_is_a_link_and_nothing_else_is() {
        assert_eq!(
            linked("https://example.net/a (b)").into_string(),
            "<a href=\"https://example.net/a\" rel=\"noreferrer\">https://example.net/a</a> (b)"
        );
        let hostile = linked("https://x\"><script>\u{202e} javascript:alert(1) http://x").into_string();
        assert!(!hostile.contains("<script") && !hostile.contains('\u{202e}'), "{hostile}");
        assert_eq!(hostile.matches("<a ").count(), 1, "{hostile}");
    }

    #[test]
    fn a_flag_is_one_word_and_other_text_is_escaped_and_as_it_was() {
        assert_eq!(
            prose("Kept: <x>. --persist keeps it.").into_string(),
            "Kept: &lt;x&gt;. <span class=\"flag\">--persist</span> keeps it."
        );
    }
}
