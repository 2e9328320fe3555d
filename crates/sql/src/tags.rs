//! The tags that applications put into comments.
//!
//! A comment may hold anything. What is shown of comments is this alone, where somebody asks for it: values of
//! `key=value` pairs.

use percent_encoding::percent_decode_str;

use crate::CUT;
use crate::mode::Mode;
use crate::tokens::{End, Kind, lex};

/// Tags of one statement that are looked at; a framework adds a handful.
const MOST_TAGS: usize = 16;
/// Characters of a tag's value that are kept.
const LONGEST_VALUE: usize = 100;

/// `key=value` pairs of all comments of a text, values decoded: those of sqlcommenter (`/*route='%2Fcart',db='x'*/`), of
/// marginalia (`/*application:shop,controller:cart*/`), and plain ones (`-- job=17 shard=3`).
pub fn tags(text: &str) -> Vec<(String, String)> {
    let mut tags = Vec::new();
    for comment in comments(text) {
        pairs(comment, &mut tags);
    }
    tags.truncate(MOST_TAGS);
    tags
}

/// The comments of a statement, without what begins and ends them.
fn comments(text: &str) -> Vec<&str> {
    let (head, tail) = text.split_once(CUT).map_or((text, None), |(head, tail)| (head, Some(tail)));
    let lexed = lex(head, Mode::UNKNOWN);
    let mut found: Vec<&str> = lexed
        .tokens
        .iter()
        .filter(|token| token.kind == Kind::Comment)
        .map(|token| match token.text.strip_prefix("/*") {
            Some(block) => block.strip_suffix("*/").unwrap_or(block),
            None => token.text.trim_start_matches(['-', '#']),
        })
        .collect();
    let rest = &head[lexed.end_at..];
    match (tail, lexed.end) {
        // Of the end of a text nobody knows whether it begins in a quoted text or in a comment: its last comment is taken.
        (Some(tail), _) => {
            if let Some((inside, _)) = tail.rsplit_once("*/") {
                found.push(match inside.rsplit_once("/*") {
                    Some((_, comment)) => comment,
                    // Its first pair is cut.
                    None => inside.split_once(',').map_or("", |(_, whole)| whole),
                });
            }
        }
        // A text that ends with `*/` ends with a comment, whatever the quotes before it mean.
        (None, End::Ambiguous) => {
            if let Some(inside) = rest.trim_end().strip_suffix("*/")
                && let Some((_, comment)) = inside.rsplit_once("/*")
                && !comment.starts_with(['!', '+', 'M'])
            {
                found.push(comment);
            }
        }
        (None, End::Cut) => {
            if let Some(comment) =
                rest.strip_prefix("/*").filter(|inside| !inside.starts_with(['!', '+', 'M']))
            {
                found.push(comment);
            }
        }
        (None, End::Whole) => {}
    }
    found
}

fn pairs(comment: &str, tags: &mut Vec<(String, String)>) {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '%');
    let mut rest = comment;
    while tags.len() < MOST_TAGS {
        let Some(at) = rest.find(is_key) else { return };
        rest = &rest[at..];
        let end = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        rest = after;
        let Some(value) = rest.strip_prefix(['=', ':']) else { continue };
        // `http://` is no pair.
        if rest.starts_with("://") || key.is_empty() {
            continue;
        }
        let (value, after) = value_of(value);
        rest = after;
        if !value.is_empty() {
            tags.push((decoded(key), decoded(value)));
        }
    }
}

/// A value and what follows it: quoted, or up to the next comma, semicolon or blank.
fn value_of(text: &str) -> (&str, &str) {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let mut chars = text.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if c == quote {
                return (&text[1..at], &text[at + 1..]);
            }
        }
        return (&text[1..], "");
    }
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, ',' | ';')).unwrap_or(text.len());
    text.split_at(end)
}

/// `%2Fcart` as `/cart`, `\'` as `'`.
fn decoded(text: &str) -> String {
    let text = text.replace("\\'", "'");
    percent_decode_str(&text).decode_utf8_lossy().chars().take(LONGEST_VALUE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        tags(text).into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn tags_of_sqlcommenter_marginalia_and_of_ones_own_are_read() {
        for (text, expected) in [
            (
                "SELECT 1 /*action='%2Fparam*d',controller='index',traceparent='00-5bd6-01'*/",
                vec!["action=/param*d", "controller=index", "traceparent=00-5bd6-01"],
            ),
            ("SELECT 1 /*application:shop,controller:cart*/", vec!["application=shop", "controller=cart"]),
            ("/* job=17 shard=3 */ DELETE FROM t", vec!["job=17", "shard=3"]),
            ("SELECT 1 -- team=search\n FROM t # who=cron", vec!["team=search", "who=cron"]),
            ("SELECT '/* not=this */', `/*nor=this*/` FROM t /*but='this\\'s'*/", vec!["but=this's"]),
            ("SELECT /*+ MAX_EXECUTION_TIME(x=1) */ 1 /*!50000 a=b */", vec![]),
            ("SELECT /*!80013 a=b */ 1 /*M! c=d */", vec![]),
            ("SELECT 5--3, 'it''s' /*a=1*/", vec!["a=1"]),
            (r"SELECT 'O\'Brien, mail=alice' /*a=1*/", vec!["a=1"]),
            (r"SELECT 'O\'Brien, mail=alice' -- /*a=1", vec![]),
            ("SELECT 1 /* see http://x.example/y?z=1 */", vec!["z=1"]),
            ("SELECT 1 /* no pair */", vec![]),
            ("SELECT 1 /*a='unfinished", vec!["a=unfinished"]),
            ("SELECT 'unfinished /*a=1*/", vec![]),
        ] {
            assert_eq!(lines(text), expected, "{text}");
        }
    }

    #[test]
    fn of_a_text_that_was_cut_the_tags_at_its_end_are_read() {
        let text = format!("SELECT a FROM t WHERE b = 'long{CUT}er' AND c = 1 /*route='%2Fcart'*/");
        assert_eq!(lines(&text), ["route=/cart"]);
        let within = format!("SELECT 1 /*a='1',b='{CUT}2',c='3'*/");
        assert_eq!(tags(&within).last(), Some(&("c".to_owned(), "3".to_owned())));
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in [
            "/*",
            "--",
            "-- ",
            "#",
            "'",
            "`",
            "/*ä=ü*/",
            "/*=*/",
            "/*%=%*/",
            "\u{1f42c}/*a=\u{1f42c}",
            "/**/",
        ] {
            tags(text);
            tags(&format!("{text}{CUT}{text}"));
        }
    }
}
