//! What nodes of a Galera cluster voted about (Galera 4, gcs/src/gcs_group.cpp): how a statement ended on the one that asked for the vote.
//!
//! ```text
//! Member 0(db-a) initiates vote on e234baca-17b2-11ed:1025,cd3bd7de926232d8:  File '/l/slow.log' not found (OS errno 13), Error_code: 29;
//! ```

use spindoctor_model::{LoggedTrouble, TroubleKind};
use spindoctor_rules::causes::cluster_partition::IN_OTHER_WORDS;

use crate::vote_languages;

/// Characters of an error that are shown.
const LONGEST: usize = 200;

/// Says beside a node that leaves its cluster what the last vote was about.
pub(crate) fn add_detail(troubles: &mut [LoggedTrouble], text: &str) {
    let mut left = troubles.iter_mut().filter(|trouble| trouble.kind == TroubleKind::NodeDiffers).peekable();
    if let Some(mut error) = left.peek().and_then(|_| text.lines().rev().find_map(error)) {
        if vote_languages::sentence(text).is_some() {
            error = format!("{error}, {IN_OTHER_WORDS}");
        }
        left.for_each(|trouble| trouble.detail.clone_from(&error));
    }
}

/// The change that a line asks for a vote on, and the errors with which it ended.
pub(crate) fn asked(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(" initiates vote on ")?;
    let (change, rest) = rest.split_once(',')?;
    let (_, errors) = rest.split_once(':')?;
    Some((change, errors))
}

/// The error of a line that asks for a vote, without values of rows.
fn error(line: &str) -> Option<String> {
    /// How errors about files begin (mysys/errors.cc), whose names are no values.
    const OF_FILES: [&str; 2] = ["File '", "Can't create/write to file '"];
    let (_, error) = asked(line)?;
    let error = error.split(';').next().unwrap_or(error).trim();
    let is_of_file = OF_FILES.iter().any(|begin| error.starts_with(begin));
    let shown = if is_of_file { error.to_owned() } else { spindoctor_sql::error_without_values(error) };
    (!shown.is_empty()).then(|| shown.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use crate::{recognise, window};

    #[test]
    fn a_node_that_lost_a_vote_says_what_it_was_about_and_no_values() {
        let finding = |error: &str| {
            let text = format!(
                "2024-05-02T09:01:31.1Z 0 [Note] [MY-000000] [Galera] Member 0(db-a) initiates vote on e234baca-17b2:1025,cd3bd7de:  {error}\n\
                 2024-05-02T09:01:31.2Z 7 [ERROR] [MY-000000] [Galera] Inconsistency detected: Inconsistent by consensus on e234baca-17b2:1025\n"
            );
            spindoctor_rules::diagnose(&window(&recognise("a.txt", &text))).findings.remove(0)
        };
        let of_file =
            finding("File '/l/slow.log' not found (OS errno 13 - Permission denied), Error_code: 29;");
        assert!(of_file.headline.contains("a vote that it lost"), "{}", of_file.headline);
        let whole = format!("{of_file:?}");
        assert!(whole.contains("File '/l/slow.log' not found (OS errno 13"), "{whole}");
        assert!(!whole.contains("wsrep_on"), "{whole}");
        let of_row = finding("Duplicate entry 'secret' for key 'PRIMARY', Error_code: 1062;");
        assert!(!format!("{of_row:?}").contains("secret"), "{of_row:#?}");
        let with_compared = of_row.remedies.iter().any(|remedy| remedy.statement.contains("SST"));
        assert!(with_compared, "{of_row:#?}");
        let without = finding("").headline;
        assert!(without.starts_with("This node could not apply a change"), "{without}");
    }

    #[test]
    fn a_vote_about_one_error_in_two_languages_is_no_reason_for_an_sst() {
        let vote = |node: &str, error: &str| {
            format!(
                "2024-05-02 09:01:31 0 [Note] WSREP: Member 1({node}) initiates vote on e234baca-17b2:419,cd3bd7de:  {error}, Error_code: 1051;\n"
            )
        };
        let text = format!(
            "{}{}2024-05-02 09:01:31 2 [ERROR] WSREP: Inconsistency detected: Inconsistent by consensus on e234baca-17b2:419\n",
            vote("db3", "Unbekannte Tabelle 'shop.a'"),
            vote("db2", "Unknown table 'shop.a'"),
        );
        let found = spindoctor_rules::diagnose(&window(&recognise("a.txt", &text))).findings.remove(0);
        assert!(found.headline.contains("in different words"), "{}", found.headline);
        let remedies = format!("{:?}", found.remedies);
        assert!(remedies.contains("lc_messages") && !remedies.contains("SST"), "{remedies}");
        assert!(!remedies.contains("GRA_"), "{remedies}");
    }
}
