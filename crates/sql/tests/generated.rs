//! Generated statements: no literal and no comment of any of them comes through, whatever its quotes, its comments, the
//! session's `sql_mode`, and the place where the server cut the text.

use proptest::prelude::*;
use spindoctor_sql::{Backslash, CUT, DoubleQuotes, Mode, digest, first_table, kind, shape};

/// Stands in every text and comment of a generated statement, and nowhere else.
const SECRET: char = 'ž';
/// The digit of every number of a generated statement, and of nothing else.
const SECRET_DIGIT: char = '7';

/// A piece of a statement: made without the mode, written as a session of one mode has to write it.
#[derive(Debug, Clone)]
enum Piece {
    Code(&'static str),
    Backquoted(String),
    /// An introducer, the quote, the characters, whether a quote is doubled or escaped where both may be.
    Text(&'static str, char, Vec<char>, bool),
    Number(&'static str),
    Block(String),
    Line(&'static str, String),
    /// A comment that this server runs, or skips.
    Executed(&'static str, Vec<Piece>),
    Skipped(&'static str, String),
}

fn write(piece: &Piece, mode: Mode, out: &mut String) {
    match piece {
        Piece::Code(code) => out.push_str(code),
        Piece::Backquoted(name) => out.push_str(&format!("`{}`", name.replace('`', "``"))),
        Piece::Text(introducer, quote, chars, escapes) => {
            // A name in double quotes has no introducer, and no backslash escapes in it.
            let is_name = *quote == '"' && mode.double_quotes == DoubleQuotes::Name;
            let can_escape = mode.backslash == Backslash::Escapes && !is_name;
            out.push_str(if is_name { "" } else { introducer });
            out.push(*quote);
            for &c in chars {
                match c {
                    c if is_name && c == SECRET => out.push('n'),
                    '\\' if can_escape => out.push_str("\\\\"),
                    c if c == *quote && can_escape && *escapes => out.extend(['\\', c]),
                    c if c == *quote => out.extend([c, c]),
                    c => out.push(c),
                }
            }
            out.push(*quote);
        }
        Piece::Number(number) => out.push_str(number),
        Piece::Block(text) => out.push_str(&format!("/*{}*/", text.replace("*/", "* /"))),
        Piece::Line(begin, text) => out.push_str(&format!("{begin}{}\n", text.replace('\n', " "))),
        Piece::Executed(mark, pieces) => {
            out.push_str(mark);
            pieces.iter().for_each(|piece| {
                out.push(' ');
                write(piece, mode, out);
            });
            out.push_str(" */");
        }
        Piece::Skipped(mark, text) => {
            out.push_str(&format!("{mark} {}*/", text.replace("*/", "* /").replace("/*", "/ *")));
        }
    }
    out.push(' ');
}

fn texts() -> impl Strategy<Value = String> {
    // Beginning with a blank: `!`, `+` and `M!` would make another kind of comment of it.
    proptest::collection::vec(
        prop::sample::select(vec![
            '\'', '"', '`', '\\', SECRET, 'a', '=', '*', '/', '-', '#', ' ', '!', '$', '\n', '\u{a0}', '(',
            '@',
        ]),
        0..12,
    )
    .prop_map(|chars| format!(" {}", chars.into_iter().collect::<String>()))
}

fn plain() -> impl Strategy<Value = Piece> {
    let code = prop::sample::select(vec![
        "SELECT",
        "name",
        "FROM t1",
        "WHERE a =",
        "IN (",
        ",",
        ")",
        "(",
        "AND",
        "INSERT INTO `t` VALUES",
        "--x",
        "/ *",
        "@v",
        "@@w",
        "x",
        "N",
        "_utf8",
        ".",
        "a.b",
        "\\N",
        "?",
        ";",
        "0",
        "UPDATE",
        "e",
        "5e",
        "* /",
    ]);
    let quotes = prop::sample::select(vec!['\'', '"']);
    let introducers =
        prop::sample::select(vec!["", "", "", "N", "x", "b", "_utf8mb4", "_latin1 ", "n", "abc"]);
    let numbers = prop::sample::select(vec![
        "7", "77.7", ".7", "7e7", "7.7e-7", "0x77", "0b77", "-7", "7.", "a=7", "0xc7",
    ]);
    prop_oneof![
        4 => code.prop_map(Piece::Code),
        1 => "[a`'\"\\\\/*# -]{0,6}".prop_map(Piece::Backquoted),
        4 => (introducers, quotes, texts(), any::<bool>())
            .prop_map(|(introducer, quote, text, escapes)| Piece::Text(introducer, quote, text.chars().collect(), escapes)),
        2 => numbers.prop_map(Piece::Number),
        2 => texts().prop_map(Piece::Block),
        1 => (prop::sample::select(vec!["#", "--", "-- ", "--\t"]), texts()).prop_map(|(begin, text)| Piece::Line(begin, text)),
        1 => texts().prop_map(|text| Piece::Skipped("/*!99999", text)),
        1 => texts().prop_map(|text| Piece::Skipped("/*M!100100", text)),
        1 => texts().prop_map(|text| Piece::Skipped("/*+", text.replace(['`', '"'], "'"))),
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        9 => plain(),
        1 => (prop::sample::select(vec!["/*!", "/*!40001", "/*!80013", "/*M!", "/*M!100100"]), proptest::collection::vec(plain(), 0..4))
            .prop_map(|(mark, pieces)| Piece::Executed(mark, pieces)),
    ];
    proptest::collection::vec(piece, 0..14)
}

/// All that the crate says of a text, but its tags, which come from comments.
fn said(text: &str) -> Vec<String> {
    vec![shape(text), digest(text), kind(text), first_table(text).unwrap_or_default(), digest(&digest(text))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_literal_and_no_comment_comes_through(
        pieces in pieces(), mode in prop::sample::select(Mode::ALL.to_vec()), cut in any::<prop::sample::Index>(), cuts in 0..4,
    ) {
        let mut text = String::new();
        pieces.iter().for_each(|piece| write(piece, mode, &mut text));
        let chars: Vec<char> = text.chars().collect();
        let at = cut.index(chars.len() + 1);
        let text: String = match cuts {
            0 => text,
            1 => chars[..at].iter().collect(),
            // As the collector cuts a long text: both ends.
            2 => chars[..at].iter().collect::<String>() + CUT + &chars[at..].iter().collect::<String>(),
            _ => chars[..at].iter().collect::<String>() + "...",
        };
        for said in said(&text) {
            prop_assert!(!said.contains([SECRET, SECRET_DIGIT]), "{mode:?}\n{text}\n{said}");
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,80}", pieces in "['\"`/*!M+#$.0-9eExX\\\\ \n-]{0,40}") {
        said(&text);
        said(&pieces);
        spindoctor_sql::tags(&text);
        spindoctor_sql::tags(&pieces);
        spindoctor_sql::tags(&format!("{pieces}{CUT}{text}"));
        let _ = spindoctor_sql::check_reads(&format!("SELECT {pieces}"));
        let _ = spindoctor_sql::check_reads(&text);
    }
}

#[test]
fn the_shape_keeps_what_shows_statements_apart() {
    for mode in [Mode::UNKNOWN, Mode::ALL[0]] {
        let lexed = spindoctor_sql::lex("UPDATE t1 SET a = 'b' WHERE c = 5", mode);
        assert_eq!(lexed.tokens.len(), 10);
    }
    assert_ne!(digest("SELECT a FROM t1"), digest("SELECT a FROM t2"));
}
