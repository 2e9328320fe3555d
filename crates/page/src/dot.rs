//! Text within graphviz's double quotes.

use crate::safe::safe;
use crate::text::shortened;

/// Text inside double quotes: a backslash would begin `\n` and `\N`.
#[must_use]
pub fn text(text: &str) -> String {
    safe(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// The same, cut after so many columns.
#[must_use]
pub fn short_text(long: &str, columns: usize) -> String {
    text(&shortened(&safe(long), columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_quotes() {
        assert_eq!(text("a\"b\\n\u{1b}"), "a\\\"b\\\\n\\\\u{1b}");
        assert_eq!(short_text("abcdef", 3), "abc…");
    }
}
