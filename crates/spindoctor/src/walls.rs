//! The walls between the rooms, checked in the code: which room may use what of which other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
/// What all rooms stand on; it knows none of them.
const FLOOR: &str = "common";
/// What starts the rooms, and may know all of them.
const ABOVE: [&str; 6] = ["main.rs", "lib.rs", "commands.rs", "fuzzing.rs", "walls.rs", "plain_words.rs"];
/// Which room shows what is another's noun. What is no room's noun stands in `common`, or in a crate below the program.
const SHOWS: [(&str, &str, &str); 13] = [
    ("bundle", "incident", "a bundle has the report of its recording"),
    ("doctor", "locks", "a diagnosis has the wait graph beside it"),
    ("fleet", "top", "`fleet top` is the same screens, of many servers"),
    ("incident", "doctor", "a stall's page has its diagnosis"),
    ("incident", "locks", "and who blocked whom in it"),
    ("incident", "workload", "and which statements changed, as `workload --diff` compares them"),
    ("lab", "doctor", "`lab run` ends with a diagnosis"),
    ("lab", "locks", "and with a wait graph, where the scenario is a pile-up"),
    ("lab", "tune", "`lab tune` shows trials as `tune` does"),
    ("sweep", "lab", "it sweeps over the lab's servers"),
    ("top", "host", "a screen is the host's report"),
    ("top", "locks", "a screen is the wait graph"),
    ("tune", "doctor", "a plan shows the host as a diagnosis does"),
];
/// The crates, each with what it may use; what stands on a line uses only what stands above it.
const CRATES: [(&str, &[&str]); 22] = [
    ("model", &[]),
    ("safefile", &[]),
    ("sql", &[]),
    ("wire", &[]),
    ("corpus", &[]),
    ("giving-back", &[]),
    ("predict", &[]),
    ("page", &["model"]),
    ("statements", &["model", "sql"]),
    ("rules", &["model", "sql", "statements"]),
    ("sessions", &["model", "rules", "sql"]),
    ("stalls", &["model", "sql"]),
    ("record", &["model", "safefile", "sql"]),
    ("stacks", &["model", "safefile"]),
    ("profile", &["model", "page", "sql", "stacks"]),
    ("export", &["model", "page", "record", "rules", "safefile", "sessions"]),
    ("collect", &["model", "sql", "stacks", "wire"]),
    ("captures", &["collect", "model", "rules", "sql", "stacks"]),
    ("fleet", &["collect", "model", "safefile", "sql", "wire"]),
    ("tune", &["collect", "model", "rules", "safefile"]),
    ("lab", &["collect", "corpus", "model", "rules", "tune"]),
    (
        "spindoctor",
        &[
            "captures",
            "collect",
            "export",
            "fleet",
            "lab",
            "model",
            "page",
            "predict",
            "profile",
            "record",
            "rules",
            "safefile",
            "sessions",
            "sql",
            "stacks",
            "stalls",
            "statements",
            "tune",
        ],
    ),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn rooms() -> BTreeSet<String> {
    let entries = fs::read_dir(SOURCE).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.filter(|path| path.join("mod.rs").is_file());
    let names = folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name != FLOOR).collect()
}

/// Each `crate::...` of a text, up to what is no name: `crate::locks::html`, of `use crate::locks::{a, b}` two.
fn paths(text: &str) -> Vec<Vec<String>> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        let path: Vec<String> =
            rest[..end].split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        match rest[end..].strip_prefix('{').and_then(|list| list.split_once('}')) {
            Some((list, _)) if rest[..end].ends_with("::") || end == 0 => {
                for name in list.split(',').filter_map(|name| name.split_whitespace().next()) {
                    let names = name.split("::").map(str::to_owned);
                    found.push(path.iter().cloned().chain(names).collect());
                }
            }
            _ => found.push(path),
        }
    }
    found
}

/// Who uses what of which room: the file, its own room, and the path.
fn uses_of_rooms() -> Vec<(String, String, Vec<String>)> {
    let rooms = rooms();
    let mut all = Vec::new();
    files(Path::new(SOURCE), &mut all);
    let mut uses = Vec::new();
    for file in all {
        let name = file.strip_prefix(SOURCE).unwrap().to_string_lossy().into_owned();
        let home = name.split('/').next().unwrap().to_owned();
        for path in paths(&fs::read_to_string(&file).unwrap()) {
            if path.first().is_some_and(|room| rooms.contains(room) && *room != home) {
                uses.push((name.clone(), home.clone(), path));
            }
        }
    }
    uses
}

#[test]
fn what_all_rooms_stand_on_knows_no_room() {
    let rooms = rooms();
    let upward: Vec<_> = uses_of_rooms()
        .into_iter()
        .filter(|(_, home, _)| !rooms.contains(home) && !ABOVE.contains(&home.as_str()))
        .collect();
    assert!(upward.is_empty(), "{upward:#?}");
}

/// The names that a room's `pub use` lines give.
fn given(says: &str) -> BTreeSet<String> {
    let lists = says.split("pub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let items = lists.filter_map(|(list, _)| list.split_once("::"));
    let names = items.flat_map(|(_, items)| items.split(|c: char| !c.is_alphanumeric() && c != '_'));
    names.map(str::to_owned).collect()
}

#[test]
fn no_room_uses_what_another_keeps_to_itself() {
    let mut wrong = Vec::new();
    for (file, _, path) in uses_of_rooms() {
        let [room, name, ..] = path.as_slice() else { continue };
        let says = fs::read_to_string(Path::new(SOURCE).join(room).join("mod.rs")).unwrap();
        let is_kept = says.lines().any(|line| line == format!("mod {name};"));
        if is_kept && !given(&says).contains(name) {
            wrong.push(format!("{file}: {}", path.join("::")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn rooms_go_round_in_no_circle() {
    let rooms = rooms();
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, home, path) in uses_of_rooms() {
        if rooms.contains(&home) {
            below.entry(home).or_default().insert(path[0].clone());
        }
    }
    // A room that uses only rooms outside of circles is in none.
    let mut sound: BTreeSet<String> = BTreeSet::new();
    loop {
        let next = rooms.iter().find(|room| {
            !sound.contains(*room) && below.get(*room).is_none_or(|used| used.is_subset(&sound))
        });
        match next {
            Some(room) => sound.insert(room.clone()),
            None => break,
        };
    }
    let circle: Vec<_> = rooms.difference(&sound).map(|room| (room, &below[room])).collect();
    assert!(circle.is_empty(), "these use each other: {circle:#?}");
}

#[test]
fn a_room_uses_another_only_where_it_shows_its_noun() {
    let rooms = rooms();
    let used: BTreeSet<_> = uses_of_rooms()
        .into_iter()
        .filter(|(_, home, _)| rooms.contains(home))
        .map(|(_, home, path)| (home, path[0].clone()))
        .collect();
    let known = SHOWS.map(|(home, room, _)| (home.to_owned(), room.to_owned()));
    assert_eq!(used, BTreeSet::from(known));
}

#[test]
fn every_crate_uses_only_what_stands_below_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let crates: BTreeMap<String, String> = entries
        .filter_map(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, fs::read_to_string(path.join("Cargo.toml")).ok()?))
        })
        .collect();
    assert!(crates.keys().map(String::as_str).eq(BTreeSet::from(CRATES.map(|(name, _)| name))));
    let picture = fs::read_to_string(folder.join("../ARCHITECTURE.md")).unwrap();
    for (at, (name, below)) in CRATES.iter().enumerate() {
        let (_, rest) = crates[*name].split_once("\n[dependencies]").unwrap_or_default();
        let used: BTreeSet<&str> = rest
            .lines()
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.strip_prefix("spindoctor-")?.split('.').next())
            .collect();
        assert_eq!(used, below.iter().copied().collect(), "{name}");
        let stands_above = |other: &&str| !CRATES[..at].iter().any(|(above, _)| above == other);
        assert!(!below.iter().any(stands_above), "{name}");
        assert!(picture.contains(&format!("| `crates/{name}` |")), "ARCHITECTURE.md does not know {name}");
    }
}

#[test]
fn every_room_has_its_flags_its_work_and_a_word_about_itself() {
    for room in rooms() {
        let folder = Path::new(SOURCE).join(&room);
        for file in ["args.rs", "run.rs"] {
            assert!(folder.join(file).is_file(), "{room} has no {file}");
        }
        let says = fs::read_to_string(folder.join("mod.rs")).unwrap();
        assert!(says.starts_with("//! `spindoctor "), "{room}/mod.rs does not say what command it is");
    }
}

/// The rules decide from readings, and the crates below read: nothing of the program opens the kernel's files.
#[test]
fn nothing_here_reads_the_kernels_files() {
    // It takes the password out of this process's own environment.
    const OWN_PROCESS: &str = "secrecy.rs";
    let mut all = Vec::new();
    files(Path::new(SOURCE), &mut all);
    for file in all {
        let name = file.strip_prefix(SOURCE).unwrap().to_string_lossy().into_owned();
        if [OWN_PROCESS, "walls.rs"].contains(&name.as_str()) || name.ends_with("examples.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for open in ["Path::new(\"/proc", "Path::new(\"/sys", "(\"/proc/", "(\"/sys/"] {
            assert!(!code.contains(open), "{name} has {open}");
        }
    }
}
