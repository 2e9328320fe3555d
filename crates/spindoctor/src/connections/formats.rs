//! The formats of a report on accepting connections. Each is a function from finished [`Connections`] to text; none
//! reads anything or knows the others. The one list of them, [`FORMATS`], drives the command line and its help.

use super::view::Connections;
use super::{dot, json, text};
use spindoctor_page::formats;
use spindoctor_page::text::Look;

/// A way to write a look.
pub type Format = formats::Format<fn(&Connections, Look) -> anyhow::Result<String>>;

/// Every format, in the order in which help names them; the first is what a terminal gets.
pub const FORMATS: &[Format] = &[
    Format {
        name: "text",
        help: "tables for the terminal",
        extension: "txt",
        binary: false,
        render: |look, terminal| Ok(text::render(look, terminal)),
    },
    Format {
        name: "dot",
        help: "the accepting thread's time as a graph for graphviz",
        extension: "dot",
        binary: false,
        render: |look, _| Ok(dot::render(look)),
    },
    Format {
        name: "json",
        help: "schema spindoctor.connections/1",
        extension: "json",
        binary: false,
        render: |look, _| Ok(json::render(look)?),
    },
];

/// `web@10.0.0.7`; a user alone where the server counts by user.
pub fn account(user: &str, host: &str) -> String {
    if host.is_empty() { user.to_owned() } else { format!("{user}@{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::connections::view::sample;

    #[test]
    fn every_format_takes_every_look_and_shows_nothing_that_steers_a_terminal() {
        let looks = [sample::busy(), sample::remote(), sample::hostile()];
        for (format, look) in FORMATS.iter().flat_map(|format| looks.iter().map(move |look| (format, look))) {
            let text = (format.render)(look, Look::of_file()).unwrap();
            let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!text.is_empty() && !text.contains(steers), "{}: {text}", format.name);
        }
    }
}
