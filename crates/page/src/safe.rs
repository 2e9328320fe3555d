//! Characters that must never reach a terminal or a browser.

use std::fmt::Write as _;

/// Text from a server or a file made safe to show on one line: line breaks and tabs become a space,
/// everything that steers a terminal or reorders text (escape sequences, C1 controls, bidirectional
/// overrides, invisible characters) becomes visible as `\u{1b}`.
pub fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => shown.push(' '),
            _ if steers(character) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
            }
            _ => shown.push(character),
        }
    }
    shown
}

/// A line for people without the system's error numbers: Rust writes `No such file or directory (os error 2)`, and the words say it all.
pub fn without_error_numbers(line: &str) -> String {
    let mut parts = line.split(" (os error ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => shown.push_str(rest),
            _ => {
                shown.push_str(" (os error ");
                shown.push_str(part);
            }
        }
    }
    shown
}

/// JSON made safe to print on a terminal: what [`safe`] makes visible is written as `\u001b`, which
/// means the same to a machine. serde_json has escaped the C0 controls already; its own line breaks stay.
pub fn safe_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && (steers(character) || matches!(character, '\u{2028}' | '\u{2029}')) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// True for characters that a terminal or browser acts on instead of showing
/// (Unicode 15 general categories Cc and Cf, as far as they hide or reorder text).
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_error_stay_and_its_number_goes() {
        let error = std::io::Error::from_raw_os_error(2);
        assert!(error.to_string().contains("os error"), "what the standard library writes");
        let line = format!("cannot read /x: {error}; cannot read /y: {error}");
        assert_eq!(
            without_error_numbers(&line),
            "cannot read /x: No such file or directory; cannot read /y: No such file or directory"
        );
        for kept in ["", "a (os error x)", "a (os error 2", "(os error 2)"] {
            assert_eq!(without_error_numbers(kept), kept);
        }
    }

    #[test]
    fn what_steers_a_terminal_becomes_visible() {
        assert_eq!(safe("a\x1b[31mb\u{9b}2J"), "a\\u{1b}[31mb\\u{9b}2J");
        assert_eq!(safe("admin\u{202e}txt"), "admin\\u{202e}txt");
        assert_eq!(safe("SELECT\n\t1 -- 🐬 ü"), "SELECT  1 -- 🐬 ü");
    }

    #[test]
    fn json_stays_json_when_made_safe() {
        let hostile = "x\u{1b}[2J\u{9b}y\u{202e}\u{e0041}🐬\n";
        let json = safe_json(&serde_json::to_string_pretty(&[hostile]).unwrap());
        assert!(!json.chars().any(|c| c != '\n' && steers(c)));
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), [hostile]);
    }
}
