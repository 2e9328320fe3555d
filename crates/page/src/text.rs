//! A page of text as it grows: wrapped to the terminal, aligned, coloured where colour is wanted.
//!
//! Everything is laid out as plain text first and coloured afterwards, so a colour never counts as width.

use anstyle::Style;
use textwrap::{Options, WordSplitter, WrapAlgorithm};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

/// Columns where the width is not known: what a mail, a ticket and an old terminal can show.
pub const DEFAULT_WIDTH: usize = 80;

/// How a text report is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// True for ANSI colours.
    pub colour: bool,
}

impl Look {
    /// The look of a file.
    pub fn of_file() -> Self {
        Self { width: DEFAULT_WIDTH, colour: false }
    }
}

/// The column behind the longest of these names, for [`Page::entry`].
pub fn column_behind<'a>(names: impl IntoIterator<Item = &'a str>) -> usize {
    names.into_iter().map(UnicodeWidthStr::width).max().unwrap_or(0) + 2
}

/// For what supports and is not the message.
pub const QUIET: Style = Style::new().dimmed();
/// For the message.
pub const STRONG: Style = Style::new().bold();
/// For all other text.
pub const PLAIN: Style = Style::new();

/// The page as it grows, one finished line at a time.
pub struct Page {
    /// How it is to look.
    pub look: Look,
    out: String,
}

impl Page {
    /// An empty page.
    pub fn new(look: Look) -> Self {
        Self { look, out: String::new() }
    }

    /// The finished page.
    pub fn finish(self) -> String {
        self.out
    }

    /// One line as it is.
    pub fn push(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// Another finished page below this one.
    pub fn append(&mut self, finished: &str) {
        self.out.push_str(finished);
    }

    /// An empty line.
    pub fn blank(&mut self) {
        self.out.push('\n');
    }

    /// Text in a style, where colour is wanted.
    pub fn paint(&self, style: Style, text: &str) -> String {
        match self.look.colour && !style.is_plain() && !text.is_empty() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    /// Text wrapped to the width, each line indented.
    pub fn paragraph(&mut self, indent: &str, text: &str, style: Style) {
        for line in wrapped(text, self.look.width.saturating_sub(indent.width())) {
            let painted = self.paint(style, &line);
            self.push(&format!("{indent}{painted}"));
        }
    }

    /// Text wrapped to the width; every line after the first is indented further.
    pub fn hanging(&mut self, indent: &str, further: &str, text: &str, style: Style) {
        let width = self.look.width.saturating_sub(indent.width() + further.width());
        for (at, line) in wrapped(text, width).iter().enumerate() {
            let painted = self.paint(style, line);
            let further = if at == 0 { "" } else { further };
            self.push(&format!("{indent}{further}{painted}"));
        }
    }

    /// A name in a column of its own, and what there is to say of it. A name that is wider than the column stands on a line
    /// above it.
    pub fn entry(&mut self, name: &str, text: &str, column: usize) {
        let is_above = name.width() + 2 > column;
        let painted = self.paint(STRONG, name);
        if is_above {
            self.push(&painted);
        }
        let blank = " ".repeat(column);
        let lead = match is_above {
            true => blank.clone(),
            false => format!("{painted}{}", " ".repeat(column - name.width())),
        };
        for (at, line) in wrapped(text, self.look.width.saturating_sub(column)).iter().enumerate() {
            self.push(&format!("{}{line}", if at == 0 { &lead } else { &blank }));
        }
    }

    /// An indented label in a column of its own, and what it says. A label that is wider than the column stands on a line
    /// above it.
    pub fn field(&mut self, label: &str, text: &str, column: usize) {
        const INDENT: &str = "    ";
        let is_above = label.width() + 2 > column;
        if is_above {
            self.paragraph(INDENT, label, QUIET);
        }
        let label = if is_above { "" } else { label };
        let pad = column.saturating_sub(label.width());
        let lead = format!("{INDENT}{}{}", self.paint(QUIET, label), " ".repeat(pad));
        let column = INDENT.len() + column;
        for (at, line) in wrapped(text, self.look.width.saturating_sub(column)).iter().enumerate() {
            match at {
                0 => self.push(&format!("{lead}{line}")),
                _ => self.push(&format!("{}{line}", " ".repeat(column))),
            }
        }
    }

    /// A table: titles with the width of each column (negative: aligned to the left), and rows.
    /// A cell that is wider than its column is cut.
    pub fn table(&mut self, columns: &[(&str, i32)], rows: impl Iterator<Item = Vec<String>>) {
        let aligned = |cell: &str, width: i32| {
            let room = width.unsigned_abs() as usize;
            // One that fills its column would touch the one before it, and two numbers be read as one.
            let fills = width > 0 && cell.width() >= room;
            let cell = shortened(cell, room.saturating_sub(if fills { 2 } else { 1 }));
            let pad = " ".repeat(room.saturating_sub(cell.width()));
            if width < 0 { format!("  {cell}{pad}") } else { format!("{pad}{cell}") }
        };
        let titles: String = columns.iter().map(|(title, width)| aligned(title, *width)).collect();
        self.paragraph_as_is(&titles, QUIET);
        for row in rows {
            let line: String =
                row.iter().zip(columns).map(|(cell, (_, width))| aligned(cell, *width)).collect();
            self.paragraph_as_is(&line, PLAIN);
        }
    }

    fn paragraph_as_is(&mut self, line: &str, style: Style) {
        let painted = self.paint(style, line.trim_end());
        self.push(&painted);
    }

    /// A line with something at its right edge, which goes below where there is no room.
    pub fn line_with_right(&mut self, left: &str, right: &str, left_style: Style, right_style: Style) {
        let lines = wrapped(left, self.look.width);
        for (at, line) in lines.iter().enumerate() {
            let painted = self.paint(left_style, line);
            if at + 1 < lines.len() {
                self.push(&painted);
            } else {
                self.push_with_right(&painted, line.width(), right, right_style);
            }
        }
    }

    /// Severity, headline with a hanging indent, and the cause at the right edge of its last line.
    pub fn headline(&mut self, lead: &str, accent: Style, text: &str, cause: &str) {
        let lines = wrapped(text, self.look.width.saturating_sub(lead.width()));
        for (at, line) in lines.iter().enumerate() {
            let painted = self.paint(STRONG, line);
            let printed = match at {
                0 => format!("{}{painted}", self.paint(accent, lead)),
                _ => format!("{}{painted}", " ".repeat(lead.width())),
            };
            if at + 1 < lines.len() {
                self.push(&printed);
            } else {
                self.push_with_right(&printed, lead.width() + line.width(), cause, QUIET);
            }
        }
    }

    fn push_with_right(&mut self, painted: &str, width: usize, right: &str, style: Style) {
        let free = self.look.width.saturating_sub(width);
        let painted_right = self.paint(style, right);
        if free >= right.width() + 2 {
            self.push(&format!("{painted}{}{painted_right}", " ".repeat(free - right.width())));
        } else {
            self.push(painted);
            let indent = self.look.width.saturating_sub(right.width());
            self.push(&format!("{}{painted_right}", " ".repeat(indent)));
        }
    }
}

/// Text that was wrapped in its source as one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines of at most so many columns, broken at spaces but not between a number and its unit; a word
/// that is longer than a line is broken anywhere. At least one line, however empty.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    const UNITS: [&str; 16] = [
        "%", "ns", "µs", "ms", "s", "min", "h", "days", "B", "KiB", "MiB", "GiB", "TiB", "/s", "CPU", "CPUs",
    ];
    // No break space: textwrap breaks at the ASCII space alone.
    let mut glued = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        let unit = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        let after_number = glued.ends_with(|c: char| c.is_ascii_digit());
        if at > 0 {
            glued.push(if after_number && UNITS.contains(&unit) { '\u{a0}' } else { ' ' });
        }
        glued.push_str(word);
    }
    let options = Options::new(width.max(10))
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(&glued, options).into_iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

/// Cuts a text after so many columns, and says so.
pub fn shortened(text: &str, columns: usize) -> String {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character.width().unwrap_or(0);
        if used > columns {
            return format!("{}…", &text[..at]);
        }
    }
    text.to_owned()
}

/// The end of a text in so many columns, with an ellipsis before it: by their ends paths are distinguished.
pub fn ending(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let mut from = text.len();
    for (at, character) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(character.width().unwrap_or(0)) else { break };
        (left, from) = (rest, at);
    }
    format!("{}{}", if columns == 0 { "" } else { "…" }, &text[from..])
}

/// The address of a server in so many columns. A path and a numeric address are shown by their ends; a host's name, which
/// its beginning distinguishes, by its beginning and the port.
pub fn short_address(address: &str, columns: usize) -> String {
    /// Fewer columns of a name say nothing.
    const LEAST_NAME: usize = 4;
    if address.width() <= columns {
        return address.to_owned();
    }
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let (name, port) = match address.rsplit_once(':') {
        Some((name, port)) if is_port(port) => (name, &address[name.len()..]),
        _ => (address, ""),
    };
    let room = columns.saturating_sub(port.len() + 1);
    match address.contains('/') || !address.starts_with(char::is_alphabetic) || room < LEAST_NAME {
        true => ending(address, columns),
        false => format!("{}{port}", shortened(name, room)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_numeric_address_are_shown_by_their_ends_and_a_name_by_its_beginning_and_port() {
        for (address, shown) in [
            ("db1:3306", "db1:3306"),
            ("/run/mysqld/instance-7/mysqld.sock", "…stance-7/mysqld.sock"),
            ("255.255.255.255:65535", "255.255.255.255:65535"),
            ("[2001:db8:85a3::8a2e:370:7334]:3306", "…:8a2e:370:7334]:3306"),
            ("db17.eu-central.example.com:3306", "db17.eu-central…:3306"),
            ("db17.eu-central.example.com", "db17.eu-central.exam…"),
        ] {
            assert_eq!(short_address(address, 21), shown);
        }
        assert_eq!(short_address("db17.example.com:3306", 8), "…om:3306");
        for (columns, shown) in
            [(0, ""), (1, "…"), (2, "…"), (3, "…本"), (4, "…本"), (5, "…日本"), (8, "日本日本")]
        {
            assert_eq!(ending("日本日本", columns), shown);
        }
    }

    #[test]
    fn a_label_wider_than_its_column_has_a_line_of_its_own_and_no_line_is_too_wide() {
        let mut page = Page::new(Look { width: 60, colour: false });
        page.field("short", "some words", 10);
        page.field(
            "/run/mysqld/instance-7/mysqld.sock",
            "words that are many enough for two lines of it",
            10,
        );
        page.field(&"x".repeat(70), "words", 10);
        assert_eq!(
            page.finish(),
            format!(
                "    short     some words\n    /run/mysqld/instance-7/mysqld.sock\n              \
                 words that are many enough for two lines of it\n    {}\n    {}\n              words\n",
                "x".repeat(56),
                "x".repeat(14)
            )
        );
    }

    #[test]
    fn what_there_is_to_say_stands_in_one_column_whatever_the_names() {
        let names = ["spin-burn", "transaction-system-contention"];
        let page = |column| {
            let mut page = Page::new(Look { width: 60, colour: false });
            for name in names {
                page.entry(name, "words that are many enough for two lines", column);
            }
            page.finish()
        };
        let column = column_behind(names);
        assert_eq!((column, column_behind([])), (31, 2));
        let blank = " ".repeat(31);
        assert_eq!(
            page(column),
            format!(
                "spin-burn{}words that are many enough\n{blank}for two lines\n\
                 transaction-system-contention  words that are many enough\n{blank}for two lines\n",
                " ".repeat(22)
            )
        );
        let blank = " ".repeat(11);
        assert_eq!(
            page(11),
            format!(
                "spin-burn  words that are many enough for two lines\ntransaction-system-contention\n\
                 {blank}words that are many enough for two lines\n"
            )
        );
    }

    #[test]
    fn numbers_never_touch_each_other() {
        let mut page = Page::new(Look::of_file());
        let row = ["100 %", "1", "5 h 14 min 52 s"].map(str::to_owned).to_vec();
        page.table(&[("share", 8), ("at once", 9), ("slowest", 10)], std::iter::once(row));
        assert!(page.finish().contains("        1 5 h 14"), "one is no fifteen");
    }

    #[test]
    fn a_number_keeps_its_unit_when_a_line_breaks() {
        assert_eq!(wrapped("the host is idle 70 %; busy", 20), ["the host is idle", "70 %; busy"]);
        assert_eq!(wrapped("every one of them 100 ms, or", 21), ["every one of them", "100 ms, or"]);
        assert_eq!(wrapped("", 20), [""]);
    }
}
