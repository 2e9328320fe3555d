//! Errors of a log that have no meaning in the catalogue: how many, and the first and the last of them.

use std::borrow::Cow;

use crate::secrets;

/// Characters of an error that are shown.
const SHOWN: usize = 300;

/// `Plugin group_replication reported: 'The member ...'`, of which the quotes hold the message itself, without them.
fn of_plugin(words: &str) -> Cow<'_, str> {
    const SIGN: &str = " reported: '";
    match words.split_once(SIGN).filter(|(before, _)| before.contains("Plugin ")) {
        Some((before, message)) => {
            let message = message.trim_end();
            Cow::Owned(format!("{before} reported: {}", message.strip_suffix('\'').unwrap_or(message)))
        }
        None => Cow::Borrowed(words),
    }
}

/// Errors that have no meaning in the catalogue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unknown<'t> {
    count: u64,
    /// The first of them, of which the others often follow.
    first: &'t str,
    last: &'t str,
    /// The first that a server says since its last start began, and the one of these above the line with which that start ended.
    of_start: Option<&'t str>,
    above_end: Option<&'t str>,
}

/// An error as it is shown. What stands in quotes may be a customer's.
fn shown(words: &str) -> String {
    let sentence = spindoctor_sql::sentence_without_quotes(&of_plugin(words));
    secrets::without_passwords(&sentence).chars().take(SHOWN).collect()
}

impl<'t> Unknown<'t> {
    /// Counts one, by its words.
    pub(crate) fn add(&mut self, words: &'t str) {
        self.count += 1;
        if self.count == 1 {
            self.first = words;
        }
        self.last = words;
    }

    /// Takes one as a server's own, which may be why its start ends.
    pub(crate) fn add_of_start(&mut self, words: &'t str) {
        self.of_start = self.of_start.or(Some(words));
    }

    /// A start begins, or is over: what stands above it is no reason of what follows.
    pub(crate) fn begin_start(&mut self) {
        (self.of_start, self.above_end) = (None, None);
    }

    /// A line says that a start has ended.
    pub(crate) fn end_start(&mut self) {
        self.above_end = self.of_start;
    }

    /// The first error of a start that ended.
    pub(crate) fn of_ended_start(&self) -> Option<String> {
        self.above_end.map(shown)
    }

    /// In a sentence.
    pub(crate) fn sentence(&self) -> Option<String> {
        let (first, last) = (shown(self.first), shown(self.last));
        match self.count {
            0 => None,
            1 => Some(format!("1 error that is not known here: {first}")),
            count if first == last => Some(format!("{count} errors that are not known here: {first}")),
            count => {
                Some(format!("{count} errors that are not known here, the first: {first}; the last: {last}"))
            }
        }
    }
}
