//! Every parser of what others wrote has a fuzz target: `fuzz/PARSERS` says which, and is held against the code here.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Public functions that parse by their name: `parse`, `parse_maps`, `decode`, `unpack`, `from_bytes`, `from_json`.
const NAMES: [&str; 4] = ["parse", "decode", "unpack", "from_"];

/// What these names are used for besides.
fn is_parser(name: &str) -> bool {
    match name.strip_prefix("from_") {
        Some(from) => matches!(from, "bytes" | "json" | "str" | "text"),
        None => NAMES.iter().any(|prefix| name.starts_with(prefix)),
    }
}

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn listed() -> Vec<[String; 3]> {
    let list = read("fuzz/PARSERS");
    let rows = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|line| {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        fields.try_into().unwrap_or_else(|_| panic!("not three fields: {line}"))
    })
    .collect()
}

/// The names of the targets.
fn targets() -> Vec<String> {
    let files = fs::read_dir(Path::new(ROOT).join("fuzz/fuzz_targets")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|file| file.strip_suffix(".rs").unwrap().to_owned()).collect()
}

#[test]
fn every_public_parser_of_outside_data_has_a_fuzz_target() {
    let listed: BTreeSet<(String, String)> =
        listed().into_iter().map(|[file, name, _]| (file, name)).collect();
    let targets: String =
        targets().iter().map(|target| read(format!("fuzz/fuzz_targets/{target}.rs"))).collect();
    let mut missing = Vec::new();
    for package in fs::read_dir(Path::new(ROOT).join("crates")).unwrap() {
        let folder = package.unwrap().path();
        // The lab and the tests' corpus read what they made themselves.
        if folder.ends_with("lab") || folder.ends_with("corpus") || !folder.join("src").is_dir() {
            continue;
        }
        let mut files = Vec::new();
        // Nothing else of the program can be called from outside.
        match folder.ends_with("spindoctor") {
            true => files.push(folder.join("src/fuzzing.rs")),
            false => sources(&folder.join("src"), &mut files),
        }
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let short = file.strip_prefix(Path::new(ROOT).join("crates")).unwrap().display().to_string();
            for line in text.lines() {
                let Some(rest) = line.trim_start().strip_prefix("pub fn ") else { continue };
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let module = file.file_stem().unwrap().to_str().unwrap();
                let is_called = targets.contains(&format!("{module}::{name}("));
                if is_parser(&name) && !is_called && !listed.contains(&(short.clone(), name.clone())) {
                    missing.push(format!("{short}\t{name}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in fuzz/PARSERS:\n{}", missing.join("\n"));
}

#[test]
fn every_listed_parser_is_there_and_its_target_calls_it() {
    for [file, name, target] in listed() {
        let source = read(format!("crates/{file}"));
        assert!(source.contains(&format!("fn {name}")), "{file} has no {name}");
        if target == "-" {
            continue;
        }
        let code = read(format!("fuzz/fuzz_targets/{target}.rs"));
        // `text.parse::<Condition>()` is `from_str`; a journal's reader is its type.
        let called = match (name.as_str(), target.as_str()) {
            ("from_str", _) => "parse::<",
            ("read", "journal") => "Journal",
            (name, _) => name,
        };
        assert!(code.contains(called), "the target {target} does not call {name} of {file}");
    }
}

#[test]
fn every_target_is_listed_and_built() {
    let manifest = read("fuzz/Cargo.toml");
    let listed: BTreeSet<String> = listed().into_iter().map(|[_, _, target]| target).collect();
    for target in targets() {
        assert!(listed.contains(&target), "the target {target} is not in fuzz/PARSERS");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target} is not in fuzz/Cargo.toml");
        assert!(
            Path::new(ROOT).join("fuzz/seeds").join(&target).is_dir()
                || read("script/fuzz").contains(&format!("{target})")),
            "the target {target} has no seeds"
        );
    }
}
