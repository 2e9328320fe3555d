//! The terminal: how wide it is, whether it wants colour, and which characters it has.
//!
//! A pipe and a file are as wide as `COLUMNS` says, else [`DEFAULT_WIDTH`]. A terminal knows its own width.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal;

use std::os::fd::AsFd;

use ratatui::buffer::Buffer;
use spindoctor_page::ascii::{self, ascii};
use spindoctor_page::csv::Reader;
use spindoctor_page::text::{DEFAULT_WIDTH, Look};

/// Longer lines are hard to read.
const WIDEST: usize = 100;

/// No tree needs more than this.
const WIDEST_TREE: usize = 240;

/// Narrower than this the columns of evidence fall apart.
const NARROWEST: usize = 50;

/// The look that standard output can show: <https://no-color.org>, a dumb terminal and a pipe have no colour.
pub fn look_of_stdout() -> Look {
    look_up_to(WIDEST)
}

/// The same for what is looked at and not read, such as a tree of long names: as wide as the terminal.
pub fn wide_look_of_stdout() -> Look {
    look_up_to(WIDEST_TREE)
}

fn look_up_to(widest: usize) -> Look {
    let stdout = std::io::stdout();
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Look { width: width(&stdout).min(widest), colour: stdout.is_terminal() && !unwanted }
}

/// Who reads CSV that goes to standard output or to a file: a file is for people, and so is a terminal; a pipe is for
/// programs.
pub fn csv_reader(raw: bool, is_file: bool) -> Reader {
    match raw || !is_file && !std::io::stdout().is_terminal() {
        true => Reader::Programs,
        false => Reader::People,
    }
}

/// Rows of standard output, where it is a terminal that reports them.
pub fn rows_of_stdout() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (stdout.is_terminal() && size.ws_row > 0).then(|| usize::from(size.ws_row))
}

/// Columns of standard output, where it is a terminal that reports them.
pub fn columns_of_stdout() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (stdout.is_terminal() && size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// A text for people in the characters of the locale: where that is not UTF-8, in ASCII.
pub fn in_characters_of_locale(text: &str) -> Cow<'_, str> {
    match has_utf8() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(ascii(text)),
    }
}

/// A drawn screen in the characters of the locale, each in its cell.
pub fn in_cells_of_locale(screen: &mut Buffer) {
    if has_utf8() {
        return;
    }
    for cell in &mut screen.content {
        if !cell.symbol().is_ascii() {
            let shown = ascii::cell(cell.symbol());
            cell.set_char(shown);
        }
    }
}

fn has_utf8() -> bool {
    is_utf8(|variable| std::env::var_os(variable))
}

/// Columns and lines of standard output: as a terminal reports them, else from `COLUMNS` and `LINES`; None where neither says.
pub fn size_of_stdout() -> (Option<usize>, Option<usize>) {
    let asked = |variable| {
        let asked: Option<usize> = std::env::var(variable).ok().and_then(|asked| asked.trim().parse().ok());
        asked.filter(|asked| *asked > 0)
    };
    (columns_of_stdout().or_else(|| asked("COLUMNS")), rows_of_stdout().or_else(|| asked("LINES")))
}

/// True where the locale's characters are UTF-8. Of `LC_ALL`, `LC_CTYPE` and `LANG` the first that is set and not empty
/// decides (POSIX, Environment Variables, 8.2). `C` and `POSIX` are ASCII; of a name without a character set, such as
/// `de_DE`, glibc makes one of ISO 8859. Where none is set, POSIX says `C`; but most containers, services and cron jobs set
/// none, and what reads their output knows UTF-8, so that this is UTF-8.
fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    set.is_none_or(|locale| {
        // `language_TERRITORY.codeset@modifier`
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        let codeset = locale.split_once('.').map_or("", |(_, codeset)| codeset);
        matches!(codeset.split('@').next(), Some("utf-8" | "utf8"))
    })
}

/// The width of a terminal that reports one, else the one that `COLUMNS` asks for.
fn width(stdout: impl AsFd) -> usize {
    let reported = rustix::termios::tcgetwinsize(stdout).map_or(0, |size| usize::from(size.ws_col));
    let asked = std::env::var("COLUMNS").ok();
    width_from(reported, asked.as_deref()).max(NARROWEST)
}

/// The same of what is known; a terminal that has no size reports 0.
fn width_from(reported: usize, asked: Option<&str>) -> usize {
    let asked = asked.and_then(|columns| columns.trim().parse().ok());
    let known = (reported > 0).then_some(reported).or(asked);
    known.filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_as_wide_as_it_is_asked_to_be_and_a_terminal_as_it_is() {
        assert_eq!(width_from(0, Some("60")), 60);
        assert_eq!(width_from(120, Some("60")), 120);
        for no_width in [None, Some(""), Some("0"), Some("-1"), Some("wide"), Some("99999999999999999999999")]
        {
            assert_eq!(width_from(0, no_width), DEFAULT_WIDTH, "{no_width:?}");
        }
    }

    #[test]
    fn the_first_of_the_locales_variables_that_says_something_decides() {
        let is_utf8_with = |set: &[(&str, &str)]| {
            is_utf8(|wanted| {
                set.iter().find(|(name, _)| *name == wanted).map(|(_, value)| OsString::from(value))
            })
        };
        assert!(is_utf8_with(&[]));
        for locale in ["C.UTF-8", "en_US.UTF-8", "de_DE.utf8", "de_DE.utf8@euro"] {
            assert!(is_utf8_with(&[("LANG", locale)]), "{locale}");
        }
        for locale in ["C", "POSIX", "de_DE.ISO-8859-1", "de_DE.ISO8859-15@euro", "de_DE", "de_DE@euro"] {
            assert!(!is_utf8_with(&[("LANG", locale)]), "{locale}");
        }
        assert!(!is_utf8_with(&[("LC_ALL", "C"), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C.UTF-8")]));
        assert!(is_utf8_with(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]));
        assert!(!is_utf8_with(&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")]));
    }
}
