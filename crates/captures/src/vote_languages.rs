//! Votes of Galera nodes (Galera 4, gcs/src/gcs_group.cpp) about one error in several languages: they compare its text, so that a node whose
//! lc_messages is another one loses the vote, and leaves with the same data.
//!
//! ```text
//! Member 2(db3) initiates vote on 8dde4cf6-89f1-11ed:419,b3743a02:  Tabelle 'a' ist unbekannt, Error_code: 1051;
//! Member 1(db2) initiates vote on 8dde4cf6-89f1-11ed:419,acab2faf:  Unknown table 'a', Error_code: 1051;
//! ```

use crate::votes;

/// What a node voted about: the change, and the error with which it ended there.
struct Vote<'l> {
    change: &'l str,
    code: &'l str,
    /// Its text, without names and values.
    words: String,
}

/// Votes that are kept: the last ones count, and a cluster has few nodes.
const MOST: usize = 64;

/// Says so of the last votes, where nodes ended one change with one error in different words.
pub(crate) fn sentence(text: &str) -> Option<String> {
    let votes: Vec<Vote<'_>> = text.lines().rev().filter_map(Vote::from_line).take(MOST).collect();
    let last = votes.first()?;
    let differs = |vote: &&Vote<'_>| vote.code == last.code && vote.words != last.words;
    votes.iter().filter(|vote| vote.change == last.change).find(differs)?;
    Some(format!(
        "the nodes ended the last change that they voted about with one error ({}) in different words, and a vote compares the words: lc_messages \
         is not the same on all nodes. Set it alike on each; their data need not differ",
        last.code
    ))
}

impl<'l> Vote<'l> {
    fn from_line(line: &'l str) -> Option<Self> {
        let (change, errors) = votes::asked(line)?;
        // Of several errors the first is that of the statement.
        let (words, rest) = errors.split_once(", Error_code: ")?;
        let code = rest.split(|c: char| !c.is_ascii_digit()).next().filter(|code| !code.is_empty())?;
        // Names stand in quotes in every language.
        let around_names: Vec<&str> = words.trim().split('\'').step_by(2).collect();
        Some(Self { change, code, words: spindoctor_sql::error_without_values(&around_names.join("''")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(node: &str, change: u64, error: &str) -> String {
        format!(
            "2024-03-04 10:11:12 0 [Note] WSREP: Member 1({node}) initiates vote on 8dde4cf6-89f1-11ed:{change},acab2faf:  {error};\n"
        )
    }

    #[test]
    fn a_vote_about_one_error_in_two_languages_is_said_and_one_about_values_is_not() {
        let english = vote("db2", 419, "Unknown table 'shop.a', Error_code: 1051");
        let german = vote("db3", 419, "Unbekannte Tabelle 'shop.a', Error_code: 1051; x, Error_code: 4173");
        for text in [format!("{english}{german}"), format!("{german}{english}")] {
            let says = sentence(&text).unwrap_or_default();
            assert!(says.contains("with one error (1051) in different words"), "{says}");
            assert_eq!(crate::error_log::read(&text).says, [says]);
        }
        for other in [
            vote("db3", 418, "Unbekannte Tabelle 'shop.a', Error_code: 1051"),
            vote("db3", 419, "Unbekannte Tabelle 'shop.a', Error_code: 1146"),
            vote("db3", 419, "Unknown table 'shop.b', Error_code: 1051"),
            vote("db3", 419, ""),
        ] {
            assert_eq!(sentence(&format!("{english}{other}")), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "( initiates vote on |1:2,|:| Error_code: |, Error_code: 7|é|'|\n){0,40}") {
            sentence(&text);
        }
    }
}
