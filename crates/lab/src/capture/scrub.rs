//! Removes this machine from a capture: folders and the host's name are replaced by those of a usual server.

use std::path::Path;

use crate::error::{Error, Result};

/// What is replaced by what, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Scrub {
    pairs: Vec<(String, &'static str)>,
    /// The host's name: replaced where it is a word, as it may be short.
    host: String,
}

/// How a server is called that was captured.
const HOST: &str = "db1";

impl Scrub {
    /// Nothing but what belongs to the machine itself.
    pub(super) fn of_machine(lab: &Path) -> Self {
        let mut scrub = Self::default();
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        scrub.host = name.trim().to_owned();
        scrub.add(lab.display().to_string(), "/srv/lab");
        if let Some(home) = std::env::var_os("HOME") {
            scrub.add(format!("{}/", Path::new(&home).display()), "/home/");
        }
        scrub
    }

    /// Replaces this text, too: before those that were added earlier, which may be a part of it.
    pub(super) fn add(&mut self, text: String, by: &'static str) {
        // Shorter ones are in too many words.
        if text.len() > 3 {
            self.pairs.insert(0, (text, by));
        }
    }

    /// The text without this machine; an error where something of it is left.
    pub(super) fn scrub(&self, text: &str) -> Result<String> {
        let scrubbed = self.pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let scrubbed = replace_word(&scrubbed, &self.host, HOST);
        match self.pairs.iter().find(|(from, to)| !to.contains(from.as_str()) && scrubbed.contains(from)) {
            Some((left, _)) => Err(Error::Unable {
                what: "a capture without this machine's names",
                because: format!("{left} is still in it"),
            }),
            None => Ok(scrubbed),
        }
    }
}

/// Replaces a word that stands alone: no letter and no digit is beside it.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    if word.is_empty() {
        return text.to_owned();
    }
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let last = before.chars().next_back().or_else(|| replaced.chars().next_back());
        let beside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        replaced += before;
        replaced += if beside(last) || beside(after.chars().next()) { word } else { by };
        rest = after;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_host_name_is_replaced_where_it_is_a_word() {
        assert_eq!(
            replace_word("vm\tvm-relay kvm vmx /vm.log vm", "vm", "db1"),
            "db1\tdb1-relay kvm vmx /db1.log db1"
        );
    }

    #[test]
    fn what_was_added_last_is_replaced_first() {
        let mut scrub = Scrub::default();
        scrub.add("/dev/shm/lab-1".into(), "/srv");
        scrub.add("/dev/shm/lab-1/data".into(), "/var/lib/mysql");
        scrub.add("db".into(), "never");
        assert_eq!(scrub.scrub("/dev/shm/lab-1/data/db /dev/shm/lab-1").unwrap(), "/var/lib/mysql/db /srv");
    }
}
