//! A reading is declared once. This counts in how many files its name stands before anybody uses its value.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use spindoctor_model::{About, HostSample, ServerSample};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What a reading passes through on its way from the source to a recording, an export or a rule.
const ON_THE_WAY: [&str; 4] =
    ["crates/model/src", "crates/collect/src", "crates/record/src", "crates/export/src"];

/// Files and folders on the way that use the values of some readings, and name those for that.
const USERS: [&str; 20] = [
    // What shows an interruption, and shortcuts to the status and the variables.
    "model/src/interruption.rs",
    "model/src/window.rs",
    // Sources that are asked apart from the others, and what depends on their answers.
    "collect/src/activities.rs",
    "collect/src/asking.rs",
    "collect/src/follow/",
    "collect/src/gauges.rs",
    "collect/src/ground.rs",
    "collect/src/locks.rs",
    "collect/src/statements.rs",
    "collect/src/watch/",
    // What is kept apart or left out, what holds literals, what the overview draws.
    "record/src/cut.rs",
    "record/src/literals.rs",
    "record/src/overview.rs",
    "record/src/rare.rs",
    "record/src/statements.rs",
    "record/src/thin.rs",
    "record/src/writer/",
    // Tables and metrics of their own.
    "export/src/metrics/declared.rs",
    "export/src/rows.rs",
    "export/src/table.rs",
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of the files below these folders, by their path below `crates/`: no comments, no tests.
fn code(folders: &[PathBuf]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    folders.iter().for_each(|folder| rust_files(folder, &mut files));
    let is_of_tests = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        matches!(name, "examples" | "fixture" | "sample" | "testing" | "tests")
    };
    files.retain(|path| !is_of_tests(path));
    let code = files.into_iter().map(|path| {
        let text = fs::read_to_string(&path).expect("a file of the repository");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let below = path.strip_prefix(Path::new(ROOT).join("crates")).expect("it is below crates");
        (below.display().to_string(), lines.join("\n"))
    });
    code.collect()
}

fn words(code: &str) -> BTreeSet<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// True where a reading of a part (`server`, `host`) is named.
fn names(code: &str, part: &str, about: &About) -> bool {
    let About { name, kept, .. } = about;
    let quoted = [format!("\"{part}_{name}\""), format!("\"{kept}\""), format!("field(\"{name}\")")];
    let declared = [format!("        {name}: "), format!("pub mod {name};"), format!("    {name}::SOURCE,")];
    let is_line = |line: &str| {
        (line.starts_with(&declared[0]) && line.contains("=> ["))
            || declared[1..].iter().any(|one| line == one)
    };
    let is_field = |word: &str| {
        let of = ["sample", "server", "host", "s"].map(|owner| format!("{owner}.{name}"));
        of.iter().any(|of| of == word)
    };
    let accesses = || code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
    let of_part = || {
        accesses().any(|access| {
            let parts: Vec<&str> = access.split('.').collect();
            parts.windows(2).any(|pair| is_field(&pair.join(".")))
        })
    };
    quoted.iter().any(|quoted| code.contains(quoted)) || code.lines().any(is_line) || of_part()
}

fn readings() -> Vec<(&'static str, &'static About)> {
    let server = ServerSample::READINGS.iter().map(|reading| ("server", &reading.about));
    server.chain(HostSample::READINGS.iter().map(|reading| ("host", &reading.about))).collect()
}

#[test]
fn a_reading_stands_in_at_most_four_files_before_anybody_uses_its_value() {
    let code = code(&ON_THE_WAY.map(|folder| Path::new(ROOT).join(folder)));
    for (part, about) in readings() {
        let other = if part == "host" { "mysql" } else { "host" };
        let of_other = [format!("model/src/{other}.rs"), format!("collect/src/{other}/")];
        let places: Vec<&str> = code
            .iter()
            .filter(|(path, code)| {
                let is_used = USERS.iter().any(|user| path.contains(user));
                // The threads of the host and those of the server have one name.
                let is_other = of_other.iter().any(|other| path.starts_with(other));
                !is_used && !is_other && names(code, part, about)
            })
            .map(|(path, _)| path.as_str())
            .collect();
        // Transactions and threads are read for the sources that follow from them.
        let most = if ["server.transactions", "server.threads"].contains(&about.kept) { 5 } else { 4 };
        assert!((2..=most).contains(&places.len()), "{}: {places:#?}", about.kept);
    }
}

#[test]
fn nobody_keeps_a_second_list_of_the_readings() {
    let crates = fs::read_dir(Path::new(ROOT).join("crates")).expect("the crates");
    let sources = crates.map(|entry| entry.expect("a crate").path().join("src"));
    let code = code(&sources.filter(|folder| folder.is_dir()).collect::<Vec<_>>());
    let lists = |part: &str| {
        let names: Vec<&str> =
            readings().iter().filter(|(of, _)| *of == part).map(|(_, about)| about.name).collect();
        let lists = |code: &str| {
            let words = words(code);
            // A list forgets one or two.
            names.iter().filter(|name| words.contains(*name)).count() + 2 >= names.len()
        };
        code.iter().filter(|(_, code)| lists(code)).map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lists("server"), ["model/src/mysql.rs"]);
    assert_eq!(lists("host"), ["model/src/host.rs", "collect/src/host/mod.rs"]);
}

#[test]
fn contributing_names_the_files_that_a_new_source_touches() {
    let text = fs::read_to_string(Path::new(ROOT).join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let recipe = text.split("## ").find(|part| part.starts_with("Add a source")).expect("the recipe");
    for file in
        ["crates/model/src/host.rs", "crates/collect/src/host/", "SOURCES", "fuzz/fuzz_targets/procfs.rs"]
    {
        assert!(recipe.contains(file), "the recipe does not name {file}");
    }
    assert!(recipe.contains("four files"));
}
