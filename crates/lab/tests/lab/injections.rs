//! Injections name causes that there are.

use spindoctor_lab::injection::INJECTIONS;

#[test]
fn every_label_is_a_cause_of_the_catalogue() {
    for injection in INJECTIONS {
        assert!(spindoctor_rules::find(injection.label).is_some(), "{}", injection.name);
    }
}
