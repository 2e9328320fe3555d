//! The formats of `spindoctor tune --plan`. Each is a function from a finished [`Plan`] to text.

use spindoctor_model::{Change, Left, Plan, Proposal};
use spindoctor_rules::proposals::FAMILIES;

use crate::common::words;
use spindoctor_page::{json, number};

/// The plan as indented JSON: the schema `spindoctor.plan/1`, which is the model's [`Plan`] as it is.
pub fn to_json(plan: &Plan) -> serde_json::Result<String> {
    json::to_text(plan)
}

/// Variables that are amounts of bytes, which nobody reads as plain numbers.
const IN_BYTES: &[&str] = &["innodb_redo_log_capacity", "innodb_log_file_size", "innodb_max_undo_log_size"];

/// `no proposal`, `1 proposal`, `3 proposals`.
pub fn counted(plan: &Plan) -> String {
    match plan.proposals.len() {
        0 => "no proposal".to_owned(),
        count => number::counted(count as u64, "proposal", "proposals"),
    }
}

/// What a family is about, in a line; its name where it is not known.
pub fn title(family: &str) -> &str {
    FAMILIES.iter().find(|known| known.name == family).map_or(family, |known| known.title)
}

/// A value as people read it: `100 MiB` beside `104857600`; none where the server's own text says it best.
pub fn readable(change: &Change, value: &str) -> Option<String> {
    let bytes: f64 = value.parse().ok()?;
    IN_BYTES.contains(&change.variable.as_str()).then(|| number::bytes(bytes))
}

/// How the proposal is put to the proof; none where it cannot be tried.
pub fn trial_of(proposal: &Proposal) -> Option<String> {
    if proposal.not_tried.is_some() || proposal.changes.is_empty() {
        return None;
    }
    let only: Vec<String> =
        proposal.changes.iter().map(|change| format!("--only {}={}", change.variable, change.to)).collect();
    Some(format!("spindoctor tune --apply {}", only.join(" ")))
}

/// Families that were looked at, and those that could not be.
pub fn left(plan: &Plan, examined: bool) -> impl Iterator<Item = &Left> {
    plan.left.iter().filter(move |left| left.examined == examined)
}

/// What watching cost the server, in one clause.
pub fn cost_text(plan: &Plan) -> String {
    words::cost_text(&plan.cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tune::plan::examples;

    #[test]
    fn the_json_has_every_field_of_the_public_schema_and_comes_back() {
        for plan in [examples::quota(), examples::undo(), examples::healthy(), examples::hostile()] {
            let text = to_json(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
            assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        }
        let json: serde_json::Value = serde_json::from_str(&to_json(&examples::quota()).unwrap()).unwrap();
        assert_eq!(json["schema"], "spindoctor.plan/1");
        for field in ["server", "host", "window", "cost", "proposals", "left", "elsewhere", "interrupted"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["family", "changes", "remedy", "cost", "cause", "score", "not_tried"] {
            assert!(json["proposals"][0].get(field).is_some(), "{field}");
        }
        assert_eq!(json["proposals"][0]["changes"][0]["to"], "8");
    }

    #[test]
    fn a_proposal_says_how_it_is_tried_and_one_that_cannot_be_does_not() {
        assert_eq!(
            trial_of(&examples::quota().proposals[0]).as_deref(),
            Some("spindoctor tune --apply --only innodb_log_spin_cpu_pct_hwm=8")
        );
        assert_eq!(
            trial_of(&examples::undo().proposals[0]).as_deref(),
            Some(
                "spindoctor tune --apply --only undo_tablespaces=127 --only innodb_max_undo_log_size=576716800"
            )
        );
        let not_tried = Proposal {
            not_tried: Some("a session copies it".to_owned()),
            ..examples::quota().proposals.swap_remove(0)
        };
        assert_eq!(trial_of(&not_tried), None);
    }
}
