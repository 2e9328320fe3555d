//! The terminal: how wide it is, and whether it wants colour.

use std::io::IsTerminal;

use std::os::fd::AsFd;

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

fn width(terminal: impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).max(NARROWEST),
        _ => DEFAULT_WIDTH,
    }
}
