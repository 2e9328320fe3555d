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
