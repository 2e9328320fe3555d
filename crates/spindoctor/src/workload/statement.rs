//! What a statement's text tells: its shape, its type, its first table, and the tags in its comments.
//!
//! In: a text as the server shows it, perhaps cut in its middle. Out: plain data. It needs no grammar.

use percent_encoding::percent_decode_str;
use spindoctor_collect::mysql::perf_schema_threads::CUT;
use spindoctor_record::literals::normalised;

use crate::profile::statement::first_table;

/// Tags of one statement that are looked at; a framework adds a handful.
const MOST_TAGS: usize = 16;
/// Characters of a tag's value that are kept.
const LONGEST_VALUE: usize = 100;

/// A statement, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Statement {
    /// Without literals and comments.
    pub(crate) digest: String,
    /// `SELECT`, `UPDATE`; empty where the text begins with no word.
    pub(crate) kind: String,
    /// The first table that it names; empty where it names none.
    pub(crate) table: String,
    /// `key=value` of its comments, in their order.
    pub(crate) tags: Vec<(String, String)>,
}

impl Statement {
    /// Of a text.
    pub(crate) fn of(text: &str) -> Self {
        // What stands behind the cut is for its comments: where a literal was cut, the rest would be read inside out.
        let digest = normalised(text.split_once(CUT).map_or(text, |(head, _)| head));
        Self {
            kind: kind(&digest),
            table: first_table(&digest).unwrap_or_default(),
            tags: tags(text),
            digest,
        }
    }

    /// Of a digest that the server or a recording gives, which has no comments any more.
    pub(crate) fn of_digest(digest: &str) -> Self {
        let digest = digest.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            kind: kind(&digest),
            table: first_table(&digest).unwrap_or_default(),
            tags: Vec::new(),
            digest,
        }
    }
}

/// The first word, in capitals; `(SELECT ...) UNION ...` begins with a bracket.
fn kind(digest: &str) -> String {
    let word = digest.trim_start_matches(|c: char| c == '(' || c.is_whitespace());
    let end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
    word[..end].to_ascii_uppercase()
}

/// `key=value` pairs of all comments of a text, values decoded: those of sqlcommenter (`/*route='%2Fcart',db='x'*/`), of
/// marginalia (`/*application:shop,controller:cart*/`), and plain ones (`-- job=17 shard=3`).
pub(crate) fn tags(text: &str) -> Vec<(String, String)> {
    let mut tags = Vec::new();
    for comment in comments(text) {
        pairs(comment, &mut tags);
    }
    tags.truncate(MOST_TAGS);
    tags
}

/// The comments of a statement, without what begins and ends them. Quoted texts are passed over.
fn comments(text: &str) -> Vec<&str> {
    let (head, tail) = text.split_once(CUT).unwrap_or((text, ""));
    let mut found = Vec::new();
    let mut rest = head;
    while let Some(at) = rest.find(['\'', '"', '`', '/', '-', '#']) {
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("/*") {
            let (inside, after) = comment.split_once("*/").unwrap_or((comment, ""));
            // `/*! ... */` and `/*+ ... */` are no comments: the server reads them.
            if !inside.starts_with(['!', '+']) {
                found.push(inside);
            }
            rest = after;
        } else if rest.starts_with('#') || is_dash_comment(rest) {
            let line = rest.lines().next().unwrap_or_default();
            found.push(line.trim_start_matches(['-', '#']));
            rest = &rest[line.len()..];
        } else if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"' | '`')) {
            rest = after_quoted(rest, quote);
        } else {
            rest = &rest[1..];
        }
    }
    // Of the end of a text nobody knows whether it begins in a quoted text or in a comment: its last comment is taken.
    if let Some((inside, _)) = tail.rsplit_once("*/") {
        found.push(match inside.rsplit_once("/*") {
            Some((_, comment)) => comment,
            // Its first pair is cut.
            None => inside.split_once(',').map_or("", |(_, whole)| whole),
        });
    }
    found
}

/// MySQL wants a blank behind the dashes.
fn is_dash_comment(rest: &str) -> bool {
    rest.strip_prefix("--").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// What follows a quoted text; nothing where its end is missing.
fn after_quoted(rest: &str, quote: char) -> &str {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote != '`' {
            chars.next();
        } else if c == quote {
            return &rest[at + 1..];
        }
    }
    ""
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

    fn told(text: &str) -> Vec<String> {
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
            ("SELECT 5--3, 'it''s' /*a=1*/", vec!["a=1"]),
            ("SELECT 1 /* see http://x.example/y?z=1 */", vec!["z=1"]),
            ("SELECT 1 /* no pair */", vec![]),
            ("SELECT 1 /*a='unfinished", vec!["a=unfinished"]),
            ("SELECT 'unfinished /*a=1*/", vec![]),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn of_a_text_that_was_cut_the_tags_at_its_end_are_read() {
        let text = format!("SELECT a FROM t WHERE b = 'long{CUT}er' AND c = 1 /*route='%2Fcart'*/");
        let statement = Statement::of(&text);
        assert_eq!(statement.digest, "SELECT a FROM t WHERE b = ?");
        assert_eq!(statement.tags, [("route".to_owned(), "/cart".to_owned())]);
        let within = format!("SELECT 1 /*a='1',b='{CUT}2',c='3'*/");
        assert_eq!(tags(&within).last(), Some(&("c".to_owned(), "3".to_owned())));
    }

    #[test]
    fn a_statement_is_taken_apart() {
        let statement = Statement::of("/* x */ update `shop`.`stock` set n = n - 1 where id = 7");
        assert_eq!(statement.digest, "update `shop`.`stock` set n = n - ? where id = ?");
        assert_eq!((statement.kind.as_str(), statement.table.as_str()), ("UPDATE", "stock"));
        assert_eq!(Statement::of("(SELECT 'from x' FROM t)").table, "t");
        assert_eq!(Statement::of("COMMIT").table, "");
        assert_eq!(Statement::of(""), Statement::default());
        let digest = Statement::of_digest("SELECT `c` FROM `t`\n WHERE `id` = ?");
        assert_eq!(
            (digest.digest.as_str(), digest.table.as_str()),
            ("SELECT `c` FROM `t` WHERE `id` = ?", "t")
        );
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
            Statement::of(text);
            Statement::of(&format!("{text}{CUT}{text}"));
        }
    }
}
