//! The words that stay out of names, comments, messages and pages, checked in every source file of the workspace, in the book, in
//! the pages beside it, and in what packages and scripts say.

use std::fs;
use std::path::{Path, PathBuf};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Riddles to a reader whose first language is another; the plain word stands behind each.
const WORDS: [(&str, &str); 18] = [
    ("told", "shown, listed, reported"),
    ("tells", "shows, says, reports"),
    ("heard", "received"),
    ("whoever", "the reader, the caller, a session that"),
    ("seldom", "rarely"),
    ("dear", "expensive"),
    ("dearer", "more expensive"),
    ("anew", "again"),
    ("stands still", "is stopped, does not change"),
    ("stand still", "stop, do not change"),
    ("who burns", "what uses"),
    ("nobody came", "no connections"),
    ("nobody made a connection", "no connections"),
    ("could not be told", "inconclusive so far"),
    ("looks a second", "samples per second"),
    ("who holds up whom", "who blocks whom"),
    ("suffer a known cause", "reproduce a known problem"),
    ("the calm that it is compared with", "baseline"),
];
/// It means nothing at the end of a sentence.
const NEITHER: (&str, &str) = ("neither", "name what does not hold");
/// Names that say nothing of what they hold.
const NAMES: [(&str, &str); 4] = [
    ("fn of", "from_status, for_server, new"),
    ("struct Seen", "a noun"),
    ("struct Shown", "a noun"),
    ("enum Shown", "a noun"),
];
/// Files with such a word for a reason: names in JSON stay as they are, and the measured accuracy is that of the rules' files.
const ALLOWED: [(&str, &str); 7] = [
    ("crates/spindoctor/src/plain_words.rs", ""),
    ("crates/rules/src/causes/replica_lag.rs", "neither"),
    ("crates/rules/src/causes/thread_cache_miss.rs", "dearer"),
    ("crates/rules/src/time_model/explained.rs", "who burns"),
    ("crates/spindoctor/src/incident/json.rs", "told"),
    ("crates/spindoctor/src/indexes/trial.rs", "told"),
    ("crates/spindoctor/src/indexes/view.rs", "told"),
];

/// The words of a text, in lower case: `window_text` and `WindowText` are two words each.
fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut was_lower = false;
    for letter in text.chars() {
        if !letter.is_alphabetic() || (letter.is_uppercase() && was_lower) {
            words.push(' ');
        }
        if letter.is_alphabetic() {
            words.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words
}

/// The words of these that a line has.
fn found(line: &str) -> Vec<&'static str> {
    let own = format!(" {} ", words(line).split_whitespace().collect::<Vec<_>>().join(" "));
    let in_text = WORDS.iter().filter(|(word, _)| own.contains(&format!(" {word} ")));
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let in_names =
        NAMES.iter().filter(|(name, _)| line.split(name).skip(1).any(|rest| !rest.is_empty() && ends(rest)));
    let at_end = line.split(NEITHER.0).skip(1).any(|rest| rest.starts_with(['.', ';']));
    in_text.chain(in_names).map(|(word, _)| *word).chain(at_end.then_some(NEITHER.0)).collect()
}

/// What is written by people in a folder: sources and pages, or where all of it is so, every file.
fn files(folder: &Path, is_all: bool, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, is_all, all);
        } else if is_all || path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            all.push(path);
        }
    }
}

/// Pages beside the book. Those of measurements are written by programs, and say what ran then.
const PAGES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "Makefile",
    "deny.toml",
    ".config/nextest.toml",
];

#[test]
fn names_comments_messages_and_pages_are_in_plain_words() {
    let workspace = Path::new(WORKSPACE);
    let mut all = Vec::new();
    for folder in ["crates", "benches", "fuzz/fuzz_targets", "docs/src"] {
        files(&workspace.join(folder), false, &mut all);
    }
    for folder in ["packaging", "script", ".github"] {
        files(&workspace.join(folder), true, &mut all);
    }
    all.extend(PAGES.map(|page| workspace.join(page)));
    let names = all.iter().map(|path| path.strip_prefix(workspace).unwrap().to_string_lossy().into_owned());
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (path, name) in all.iter().zip(names).filter(|(_, name)| !name.contains("/tests/")) {
        read += 1;
        let is_allowed =
            |word| ALLOWED.iter().any(|(file, of)| *file == name && (*of == word || of.is_empty()));
        for (at, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            for word in found(line).into_iter().filter(|word| !is_allowed(*word)) {
                let all = WORDS.iter().chain(&NAMES).chain([&NEITHER]);
                let instead = all.filter(|(of, _)| *of == word).map(|(_, instead)| *instead).next();
                wrong.push(format!("{name}:{}: {word} (instead: {})", at + 1, instead.unwrap_or_default()));
            }
        }
    }
    assert!(read > 500, "{read} files");
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn such_words_are_found_in_names_and_in_text() {
    for (word, _) in WORDS {
        // A phrase may have another of the words in it.
        let found = found(&format!("/// The server {word}, and more."));
        assert!(found.contains(&word), "{word}: {found:?}");
    }
    assert_eq!(found("/// The second belongs to neither."), ["neither"]);
    assert!(found("It is neither slow nor idle.").is_empty());
    assert_eq!(found("let window_told = ToldList::new(untold);"), ["told"]);
    assert_eq!(found("    pub fn of(window: &Window) -> Self {"), ["fn of"]);
    assert_eq!(found("fn of<'a>(lines: &'a [Line]) {"), ["fn of"]);
    assert_eq!(found("struct Seen {"), ["struct Seen"]);
    assert!(found("fn offset(&self) { struct SeenStall; let dearth = \"a foretold story\"; }").is_empty());
}
