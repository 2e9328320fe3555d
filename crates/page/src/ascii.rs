//! Text for a terminal, a mail or a log whose locale has ASCII alone, such as `LANG=C`.
//!
//! In: a finished text. Out: the same in ASCII, with its columns where they were as far as that can be. Whether it is
//! needed, the program says.

use unicode_width::UnicodeWidthChar as _;

/// A gap between two columns that stays one: with a single space, two numbers would read as one.
const GAP: usize = 2;

/// A text in ASCII. Blocks, bars, curves and frames become one character each; a sign that needs two or three, such as
/// `->`, takes its room from the next gap between two columns. What has no ASCII form becomes `?`.
pub fn ascii(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    // Columns by which the line is longer than it was, and spaces that are not yet written.
    let (mut ahead, mut spaces) = (0_usize, 0_usize);
    for character in text.chars() {
        if character == ' ' {
            spaces += 1;
            continue;
        }
        let taken = ahead.min(spaces.saturating_sub(GAP));
        shown.extend(std::iter::repeat_n(' ', spaces - taken));
        (ahead, spaces) = (ahead - taken, 0);
        match character {
            '\n' => ahead = 0,
            _ if character.is_ascii() => {}
            _ => {
                let columns = character.width().unwrap_or(0).max(1);
                match signs(character) {
                    Some(signs) => {
                        shown.push_str(signs);
                        ahead += signs.len().saturating_sub(columns);
                    }
                    None => shown.extend(std::iter::repeat_n('?', columns)),
                }
                continue;
            }
        }
        shown.push(character);
    }
    shown.extend(std::iter::repeat_n(' ', spaces));
    shown
}

/// One ASCII character in place of one cell of a screen, whose room is fixed: of a sign that needs more, the first.
pub fn cell(symbol: &str) -> char {
    let Some(character) = symbol.chars().next() else { return ' ' };
    match character.is_ascii() {
        true => character,
        false => signs(character).and_then(|signs| signs.chars().next()).unwrap_or('?'),
    }
}

/// What stands for a character that results are drawn with.
fn signs(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{a0}' => " ",
        '…' => "...",
        '→' => "->",
        '←' => "<-",
        '↔' => "<->",
        '↑' | '▲' => "^",
        '↓' | '▼' => "v",
        '±' => "+-",
        '≥' => ">=",
        '≤' => "<=",
        '≠' => "!=",
        '≈' => "~",
        '×' => "x",
        '÷' => "/",
        'µ' | 'μ' => "u",
        '²' => "2",
        '·' => ".",
        '•' => "*",
        '●' => "o",
        '–' | '—' => "-",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        '›' => ">",
        '‹' => "<",
        // Bars: full, and the part of a character at their end.
        '█' => "#",
        '▉' | '▊' | '▋' | '▌' => "=",
        '▍' | '▎' | '▏' => "-",
        '▓' => "=",
        '▒' => "-",
        '░' => ".",
        // Curves: the more ink, the higher.
        '▁' => "_",
        '▂' => ".",
        '▃' => ":",
        '▄' => "-",
        '▅' => "=",
        '▆' => "+",
        '▇' => "*",
        // Frames, lines and what is not yet filled.
        '━' | '═' => "=",
        '─' | '╌' | '┄' | '┈' | '╴' | '╶' => "-",
        '│' | '┃' | '║' | '╎' => "|",
        '┆' | '┊' => ":",
        '\u{2500}'..='\u{257f}' => "+",
        // Braille, of which curves are made: by the number of its dots.
        '\u{2800}'..='\u{28ff}' => match u32::from(character).count_ones() - 0x2800_u32.count_ones() {
            0 => " ",
            1 | 2 => ".",
            3..=5 => ":",
            _ => "#",
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn a_cell_of_a_screen_stays_one() {
        let drawn = ["▁", "█", "│", "→", "…", "日", "a", "e\u{301}", ""];
        assert_eq!(drawn.map(cell).iter().collect::<String>(), "_#|-.?ae ");
    }

    #[test]
    fn signs_of_results_are_written_in_ascii() {
        assert_eq!(ascii("max_connections 151 → 1000 …"), "max_connections 151 -> 1000 ...");
        assert_eq!(ascii("3 µs ±2 %, ≥ 5 × 2, 1–2"), "3 us +-2 %, >= 5 x 2, 1-2");
    }

    #[test]
    fn what_is_drawn_keeps_its_columns() {
        for (drawn, expected) in [
            ("████▓▓▒▒░░ 99 %", "####==--.. 99 %"),
            ("▁▂▃▄▅▆▇█", "_.:-=+*#"),
            ("··┆··├─●─┤··", "..:..+-o-+.."),
            ("├─ 12\n│  └─ 13", "+- 12\n|  +- 13"),
            ("⠀⠁⠇⣿", " .:#"),
            ("watching ━━╌╌", "watching ==--"),
            ("time▼ id▲", "timev id^"),
        ] {
            assert_eq!(ascii(drawn), expected);
            assert_eq!(drawn.width(), expected.len(), "{drawn}");
        }
    }

    #[test]
    fn a_longer_sign_takes_its_room_from_the_next_gap_of_its_line() {
        assert_eq!(ascii("SELECT a…     12   3"), "SELECT a...   12   3");
        assert_eq!(ascii("a → b    …\nc    d"), "a -> b   ...\nc    d");
        // Two numbers never touch.
        assert_eq!(ascii("12…  5"), "12...  5");
    }

    #[test]
    fn what_is_not_ours_becomes_a_question_mark_for_each_column() {
        assert_eq!(ascii("WHERE name = 'Zoë 日本'  x"), "WHERE name = 'Zo? ????'  x");
        assert_eq!(ascii("plain \x1b[1mtext\x1b[0m\n"), "plain \x1b[1mtext\x1b[0m\n");
        assert!(ascii("🐬 e\u{301} \u{202e}").is_ascii());
    }
}
