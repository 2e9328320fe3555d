//! The documentation against the catalogue.

use spindoctor_rules::CAUSES;

#[test]
fn the_readme_lists_the_causes_of_the_catalogue() {
    let readme = include_str!("../../../README.md");
    let row = |line: &&str| line.starts_with("| `");
    let section = readme.split("\n## What it finds\n").nth(1).expect("the section is there");
    let table: Vec<&str> = section.lines().skip_while(|line| !row(line)).take_while(row).collect();
    let catalogue: Vec<String> =
        CAUSES.iter().map(|cause| format!("| `{}` | {} |", cause.name, cause.title)).collect();
    assert_eq!(table, catalogue, "the table should be:\n{}", catalogue.join("\n"));
}

#[test]
fn every_text_of_a_cause_is_written() {
    for cause in CAUSES {
        let references = cause.references.iter().map(|&reference| ("References", reference));
        for (heading, text) in cause.documentation().into_iter().chain(references) {
            assert!(!text.contains("TO WRITE"), "{}: {heading} is the template's", cause.name);
        }
    }
}
