//! Text within XML, as SVG has it.

use crate::safe::safe;

/// Text on one line; what steers a terminal or a browser is made visible, and what XML cannot hold is replaced.
#[must_use]
pub fn text(text: &str) -> String {
    safe(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// The same with its line breaks.
#[must_use]
pub fn lines(lines: &str) -> String {
    let lines: Vec<String> = lines.split('\n').map(text).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_element() {
        let hostile = "</text><script>&\"]]>\u{1b}\u{ffff}\nx";
        assert_eq!(text(hostile), "&lt;/text&gt;&lt;script&gt;&amp;&quot;]]&gt;\\u{1b}\u{fffd} x");
        assert_eq!(lines(hostile), "&lt;/text&gt;&lt;script&gt;&amp;&quot;]]&gt;\\u{1b}\u{fffd}\nx");
    }
}
