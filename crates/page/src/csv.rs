//! One cell of comma-separated values (RFC 4180), for people or for programs.
//!
//! People open such files in spreadsheets and terminals, and others chose the content of a cell: a statement, a user's
//! name, a row of a customer. A spreadsheet runs a cell that begins as a formula, and a terminal obeys escape
//! sequences. For people both are made harmless; programs get each byte as it is (`--raw-csv`, or a pipe).

use std::borrow::Cow;

use super::safe::safe;

/// Who reads the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A spreadsheet or a terminal: no formula, nothing that steers.
    People,
    /// A program that wants each byte.
    Programs,
}

/// Adds a cell of text. An empty one is quoted, which distinguishes it from a missing one.
pub fn cell(text: &[u8], reader: Reader, out: &mut Vec<u8>) {
    let text = match reader {
        Reader::Programs => Cow::Borrowed(text),
        Reader::People => harmless(text),
    };
    if !text.is_empty() && !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        out.extend_from_slice(&text);
        return;
    }
    out.push(b'"');
    for &byte in &*text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// The text with what steers a terminal made visible (`\u{1b}`), and with an apostrophe before what a spreadsheet would
/// take for a formula: it shows the rest as text. A number is none.
fn harmless(text: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n');
    let begins_formula =
        |first: char| matches!(first, '=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '＝' | '＋' | '－' | '＠');
    let may_begin = text.first().is_some_and(|&first| !first.is_ascii() || begins_formula(char::from(first)));
    if !may_begin && text.iter().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let text = String::from_utf8_lossy(text);
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    let formula = !is_number && text.chars().next().is_some_and(begins_formula);
    // A tab stays visible as one, and lines stay lines: they are in quotes.
    let lines: Vec<String> =
        text.split('\n').map(|line| safe(&line.replace('\t', "\\t").replace('\r', "\\r"))).collect();
    let apostrophe = if formula { "'" } else { "" };
    Cow::Owned(format!("{apostrophe}{}", lines.join("\n")).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8], reader: Reader) -> String {
        let mut out = Vec::new();
        cell(text, reader, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn formulas_and_escape_sequences_are_harmless_for_people() {
        for (text, expected) in [
            ("=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1:A9)", "'@SUM(A1:A9)"),
            ("\t=1", "'\\t=1"),
            ("\r=1", "'\\r=1"),
            ("\n=1", "\"'\n=1\""),
            ("＝1+1", "'＝1+1"),
            ("=1,\"x\"", "\"'=1,\"\"x\"\"\""),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("a\u{9b}2J\u{202e}", "a\\u{9b}2J\\u{202e}"),
            ("a\tb", "a\\tb"),
            // Numbers and plain text stay as they are.
            ("-5", "-5"),
            ("+1.5e3", "+1.5e3"),
            ("a=1", "a=1"),
            ("SELECT 1", "SELECT 1"),
            ("üñ 🐬", "üñ 🐬"),
            ("", "\"\""),
            ("-", "'-"),
            ("-inf", "'-inf"),
        ] {
            assert_eq!(written(text.as_bytes(), Reader::People), expected, "{text:?}");
        }
        assert_eq!(written(b"\xff\x1b", Reader::People), "\u{fffd}\\u{1b}");
    }

    #[test]
    fn programs_get_each_byte() {
        assert_eq!(written(b"=1\x1b", Reader::Programs), "=1\x1b");
        assert_eq!(written(b"a,\"b\"\nc", Reader::Programs), "\"a,\"\"b\"\"\nc\"");
        let mut out = Vec::new();
        cell(b"\xff\x00", Reader::Programs, &mut out);
        assert_eq!(out, b"\xff\x00");
    }
}
