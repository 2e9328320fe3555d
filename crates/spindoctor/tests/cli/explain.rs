//! `spindoctor explain`.

use crate::program::{complained, printed};

#[test]
fn without_a_name_every_cause_is_listed_in_one_line() {
    let (list, code) = printed("explain");
    assert_eq!(code, 0);
    for cause in spindoctor_rules::CAUSES {
        assert!(list.lines().any(|line| line.starts_with(cause.name)), "{}", cause.name);
    }
}

#[test]
fn a_cause_is_explained_under_its_headings() {
    let (text, code) = printed("explain Connections-Exhausted");
    assert_eq!(code, 0);
    const HEADINGS: [&str; 7] = [
        "What it is",
        "What to do",
        "How safe that is",
        "Why it hurts",
        "Evidence",
        "What looks alike and is not it",
        "References",
    ];
    let headings: Vec<&str> = text.lines().filter(|line| HEADINGS.contains(line)).collect();
    assert_eq!(headings, HEADINGS, "{text}");
}

#[test]
fn an_unknown_cause_is_answered_with_its_neighbour_and_exit_2() {
    let (message, code) = complained("explain connection-exhausted");
    assert_eq!(code, 2);
    assert_eq!(
        message,
        "spindoctor: there is no cause named \"connection-exhausted\"; did you mean connections-exhausted?\n"
    );
}

#[test]
fn the_catalogue_is_there_for_machines() {
    let (json, code) = printed("explain --json");
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "spindoctor.causes/1");
    assert_eq!(json["causes"].as_array().unwrap().len(), spindoctor_rules::CAUSES.len());
}
