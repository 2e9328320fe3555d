//! A terminal's text without what steers the terminal (ECMA-48): colours, movements of the cursor, character sets, titles of windows;
//! with what was typed and taken back taken back.

use std::borrow::Cow;
use std::str::Chars;

/// Parameters of one sequence are shorter.
const LONGEST: usize = 32;
/// Titles of windows, links and the like, characters.
const LONGEST_STRING: usize = 4_096;

/// True for a character that steers a terminal. Ends of lines and tabs are text.
fn steers(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t' | '\r')
}

/// The text alone.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    match without_escapes(text) {
        Cow::Borrowed(text) => without_bare_colours(text),
        Cow::Owned(text) => Cow::Owned(without_bare_colours(&text).into_owned()),
    }
}

/// How a page shows an ESC, where it does.
const SHOWN_ESCAPES: [&str; 6] = ["^[", "#033", "\\033", "\\x1b", "\\e", "\u{241b}"];

/// Colours of which a page dropped the ESC, or shows it: `[[0;31m!![0m] Joins performed without indexes`.
fn without_bare_colours(text: &str) -> Cow<'_, str> {
    /// What ends a colour stands so often in a text that has them.
    const FEW: usize = 3;
    if text.matches("[0m").take(FEW).count() < FEW {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('[') {
        plain.push_str(before);
        let digits =
            behind.bytes().take(LONGEST).take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        match behind[digits..].strip_prefix('m').filter(|_| digits > 0) {
            Some(behind) => {
                if let Some(shown) = SHOWN_ESCAPES.iter().find(|shown| plain.ends_with(**shown)) {
                    plain.truncate(plain.len() - shown.len());
                }
                rest = behind;
            }
            None => {
                plain.push('[');
                rest = behind;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => escape(&mut letters),
            '\u{9b}' => sequence(&mut letters),
            // A backspace: `man` prints a letter twice for a bold one.
            '\x08' => {
                if !plain.ends_with(['\n', '\t']) {
                    plain.pop();
                }
            }
            letter if steers(letter) => {}
            letter => plain.push(letter),
        }
    }
    Cow::Owned(plain)
}

/// What stands behind an ESC.
fn escape(letters: &mut Chars<'_>) {
    let before = letters.clone();
    match letters.next() {
        Some('[') => sequence(letters),
        Some(']' | 'P' | 'X' | '^' | '_') => string(letters),
        // `ESC ( B`: a character set.
        Some(' '..='/') => {
            let before = letters.clone();
            if !letters.next().is_some_and(|last| ('0'..='~').contains(&last)) {
                *letters = before;
            }
        }
        Some('0'..='~') => {}
        _ => *letters = before,
    }
}

/// `1;31m`, up to the letter that says what it does. What is longer is text.
fn sequence(letters: &mut Chars<'_>) {
    let before = letters.clone();
    for letter in letters.by_ref().take(LONGEST) {
        match letter {
            '@'..='~' => return,
            ' '..='?' => {}
            _ => break,
        }
    }
    *letters = before;
}

/// `0;a title`, up to BEL or `ESC \`. What has no end is text.
fn string(letters: &mut Chars<'_>) {
    let before = letters.clone();
    let mut was_escape = false;
    for letter in letters.by_ref().take(LONGEST_STRING) {
        match letter {
            '\x07' | '\u{9c}' => return,
            '\\' if was_escape => return,
            '\n' => break,
            _ => {}
        }
        was_escape = letter == '\x1b';
    }
    *letters = before;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_no_part_of_a_cell() {
        let coloured = "\x1b]0;ops@db7: ~\x07| Id | State |\n| 7 | \x1b[1;31mupdating\x1b(B\x1b[m |\n\x1b[K\x1b[?25l\u{9b}2J\x07end\n";
        assert_eq!(plain(coloured), "| Id | State |\n| 7 | updating |\nend\n");
        let link = "\x1b]8;;http://a/b\x1b\\text\x1b]8;;\x1b\\ and \x1b7more\x1b8\n";
        assert_eq!(plain(link), "text and more\n");
    }

    #[test]
    fn what_was_typed_and_taken_back_is_gone_and_bold_letters_are_one() {
        assert_eq!(plain("mysql> show prx\x08 \x08ocesslist;\n\x08x\n"), "mysql> show processlist;\nx\n");
        assert_eq!(plain("N\x08NA\x08AM\x08ME\n"), "NAME\n");
    }

    #[test]
    fn colours_of_which_a_page_dropped_or_shows_the_escape_are_no_text() {
        let wanted = "[!!] Joins: 9\n[OK] fine\n[--] Up for: 3d\n";
        for escape in ["", "^[", "#033", "\\033", "\\x1b", "\u{241b}", "\x1b"] {
            let text = format!(
                "[{escape}[0;31m!!{escape}[0m] Joins: 9\n[{escape}[0;32mOK{escape}[0m] fine\n[{escape}[1;34m--{escape}[0m] Up for: 3d\n"
            );
            assert_eq!(plain(&text), wanted, "{escape:?}");
        }
        for text in ["a[10m b[0m c[0m\n", "[0 m] [12] [m [0m\n", wanted] {
            assert_eq!(plain(text), text);
        }
        let tuner = " >>  MySQLTuner 1.9.9\n[[0;31m!![0m] Joins: 9\n[[0;32mOK[0m] a\n[[0;32mOK[0m] b\n";
        assert_eq!(crate::recognise("a.txt", tuner)[0].says[1..], ["Joins: 9"]);
    }

    #[test]
    fn what_has_no_end_is_text_and_text_stays_as_it_is() {
        assert_eq!(plain("\x1b]0;no end\nnext\n"), "0;no end\nnext\n");
        assert_eq!(plain("a\x1b[9"), "a9");
        let text = "a\tb\nc é\n";
        assert!(matches!(plain(text), Cow::Borrowed(same) if same == text));
    }

    proptest! {
        #[test]
        fn nothing_that_steers_is_left(text in "(?s)(\x1b\\[|\x1b\\]|\x1b|\x08|\x07|\u{9b}|[0-9;mK]|\n|.){0,60}") {
            let left: Vec<char> = plain(&text).chars().filter(|letter| steers(*letter)).collect();
            prop_assert!(left.is_empty(), "{left:?}");
        }
    }
}
