//! README, the book in `docs/` and the other pages of the repository: links lead somewhere, files that they name are there, commands
//! are ones that the program takes, README and the entries of the changelog stay short, and the book has all of its pages and one for each
//! command.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use crate::commands;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// README is one page: what is longer belongs to the book.
const README_MOST_BYTES: usize = 12 * 1024;
/// An entry of the changelog is one subject: three lines of a terminal of 80 columns at most. Chosen: longer ones had several.
const ENTRY_MOST_CHARACTERS: usize = 240;
/// What an example may have in place of a command.
const PLACEHOLDERS: [&str; 3] = ["COMMAND", "COMMAND...", "..."];
/// Any program: it stands for a placeholder.
const ANY_PROGRAM: &str = "true";

/// All Markdown files, by their path in the repository.
fn pages() -> BTreeMap<PathBuf, String> {
    fn add(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(Path::new(WORKSPACE).join(folder)).expect("a folder of the repository") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let path = folder.join(&name);
            if entry.file_type().expect("its type").is_dir() {
                if name != "target" && !name.starts_with('.') {
                    add(&path, pages);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.insert(path, fs::read_to_string(entry.path()).expect("a text"));
            }
        }
    }
    let mut pages = BTreeMap::new();
    add(Path::new(""), &mut pages);
    pages
}

fn is_of_book(page: &Path) -> bool {
    page.starts_with("docs/src")
}

/// A page's text without what stands between fences, and what stands there.
fn prose_and_code(text: &str) -> (String, Vec<String>) {
    let (mut prose, mut code) = (String::new(), Vec::new());
    let mut fenced: Option<String> = None;
    for line in text.lines() {
        match (&mut fenced, line.trim_start().starts_with("```")) {
            (Some(block), true) => {
                code.push(std::mem::take(block));
                fenced = None;
            }
            (Some(block), false) => *block += &format!("{line}\n"),
            (None, true) => fenced = Some(String::new()),
            (None, false) => prose += &format!("{line}\n"),
        }
    }
    assert!(fenced.is_none(), "a fence that does not end: {text}");
    (prose, code)
}

/// Prose without its code spans, and those.
fn words_and_spans(prose: &str) -> (String, Vec<String>) {
    let (mut words, mut spans) = (String::new(), Vec::new());
    for (at, part) in prose.split('`').enumerate() {
        if at % 2 == 0 {
            words += part;
        } else {
            spans.push(part.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    (words, spans)
}

/// Where the links and pictures of a page lead.
fn links(text: &str) -> Vec<String> {
    let words = words_and_spans(&prose_and_code(text).0).0;
    words.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose_and_code(text).0.lines().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|number| format!("{anchor}-{number}")).find(|other| !anchors.contains(other));
        anchors.insert(if anchors.contains(&anchor) { again.expect("a number") } else { anchor });
    }
    anchors
}

/// `docs/src/commands/../cost.md` as `docs/src/cost.md`.
fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().expect("a folder").to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{link} leads out of the repository"),
            other => path.push(other),
        }
    }
    path
}

/// Why a link of this page leads nowhere.
fn broken(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { resolved(page, file) };
    if !Path::new(WORKSPACE).join(&target).exists() {
        return Some("no such file".to_owned());
    }
    if is_of_book(page) && !is_of_book(&target) {
        return Some("not a page of the book: include it there".to_owned());
    }
    let text = pages.get(&target).map(String::as_str).unwrap_or_default();
    let included = text.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}"));
    let text = included.map_or(text, |file| &pages[&resolved(&target, file)]);
    (!anchor.is_empty() && !anchors(text).contains(anchor)).then(|| "no such heading".to_owned())
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (page, text) in &pages {
        for link in links(text) {
            read += 1;
            if let Some(why) = broken(page, &link, &pages) {
                wrong.push(format!("{}: {link}: {why}", page.display()));
            }
        }
    }
    assert!(read > 200, "{read} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let text = "# A page\n\n## Why, and how?\n\n[a](b.md) ![c](d.png)\n```\n[x](y)\n```\n`[z](0)` [e](#why-and-how)\n";
    assert_eq!(links(text), ["b.md", "d.png", "#why-and-how"]);
    assert_eq!(
        anchors(&format!("{text}# A page\n")).into_iter().collect::<Vec<_>>(),
        ["a-page", "a-page-1", "why-and-how"]
    );
    let pages = BTreeMap::from([
        (PathBuf::from("README.md"), text.to_owned()),
        (PathBuf::from("docs/src/cost.md"), String::new()),
    ]);
    let of = |page: &str, link: &str| broken(Path::new(page), link, &pages);
    assert_eq!(of("README.md", "https://example.net/#x"), None);
    assert_eq!(of("README.md", "#why-and-how"), None);
    assert_eq!(of("docs/src/cost.md", "limits.md"), None);
    assert!(of("README.md", "#why").is_some());
    assert!(of("README.md", "docs/src/missing.md").is_some());
    assert!(of("docs/src/cost.md", "../../README.md").is_some());
}

/// The file or folder of the repository that a code span names: `crates/tune/src/apply.rs::a_test` names the file. None for one
/// with a placeholder, as in `crates/collect/src/host/NAME.rs`.
fn named_file(span: &str) -> Option<&str> {
    const FOLDERS: [&str; 6] = ["crates/", "packaging/", "script/", "corpus/", "fuzz/", "benches/"];
    let file = span.split(' ').next()?.split("::").next()?;
    let mut parts = file.split(['/', '.']);
    let is_placeholder = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let is_ours = FOLDERS.iter().any(|folder| file.starts_with(folder));
    // `PROVENANCE.tsv` and `PARSERS` are files.
    let is_file = Path::new(WORKSPACE).join(file).exists();
    (is_ours && (is_file || !parts.any(is_placeholder))).then_some(file)
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (page, text) in pages().iter().filter(|(page, _)| !page.ends_with("CHANGELOG.md")) {
        for span in words_and_spans(&prose_and_code(text).0).1 {
            if let Some(file) = named_file(&span) {
                read += 1;
                if !Path::new(WORKSPACE).join(file).exists() {
                    wrong.push(format!("{}: {file}", page.display()));
                }
            }
        }
    }
    assert!(read > 150, "{read} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_that_is_gone_is_found_and_a_placeholder_is_none() {
    assert_eq!(named_file("crates/tune/src/gone.rs::a_test"), Some("crates/tune/src/gone.rs"));
    assert_eq!(named_file("script/dist --musl"), Some("script/dist"));
    assert_eq!(named_file("fuzz/PARSERS"), Some("fuzz/PARSERS"));
    for other in [
        "crates/collect/src/host/NAME.rs",
        "crates/spindoctor/src/NOUN/",
        "/usr/bin/spindoctor",
        "tune --apply",
    ] {
        assert_eq!(named_file(other), None, "{other}");
    }
}

#[test]
fn the_book_has_every_page_of_its_folder_and_no_other() {
    let pages = pages();
    let contents = Path::new("docs/src/SUMMARY.md");
    let listed: BTreeSet<PathBuf> =
        links(&pages[contents]).iter().map(|link| resolved(contents, link)).collect();
    let there = pages.keys().filter(|page| is_of_book(page) && *page != contents).cloned().collect();
    assert_eq!(listed, there);
}

#[test]
fn every_command_has_its_page_and_its_line_in_readme() {
    let pages = pages();
    let readme = links(&pages[Path::new("README.md")]);
    let program = commands::Cli::command();
    let names =
        program.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let mut wrong = Vec::new();
    for name in names {
        let page = format!("docs/src/commands/{name}.md");
        let heading = format!("# spindoctor {name}\n");
        if !pages.get(Path::new(&page)).is_some_and(|text| text.starts_with(&heading)) {
            wrong.push(format!("{page} is missing, or has another heading"));
        }
        if !readme.contains(&page) {
            wrong.push(format!("README.md does not lead to {page}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn readme_is_one_page() {
    let bytes = pages()[Path::new("README.md")].len();
    assert!(
        bytes <= README_MOST_BYTES,
        "{bytes} bytes, at most {README_MOST_BYTES}: the rest belongs to docs/"
    );
}

#[test]
fn an_entry_of_the_changelog_is_one_line() {
    let pages = pages();
    let text = &pages[Path::new("CHANGELOG.md")];
    let entries = text.lines().filter(|line| line.starts_with("- ")).count();
    assert!(entries > 300, "{entries} entries");
    let wrong: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.starts_with([' ', '*'])
                || line.starts_with('-') && line.chars().count() > ENTRY_MOST_CHARACTERS
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "more than one line, or than {ENTRY_MOST_CHARACTERS} characters:\n{}",
        wrong.join("\n")
    );
}

/// What is wrong with a line of a table that ends with its proofs, each a code span `FILE::TEST`.
fn unproved(row: &str, is_test: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [_, _, shown_by] = cells[..] else { return vec![format!("not three cells: {row}")] };
    let spans = words_and_spans(shown_by).1;
    let proofs: Vec<(&str, &str)> = spans.iter().filter_map(|span| span.split_once("::")).collect();
    let mut wrong: Vec<String> = proofs
        .iter()
        .filter(|(file, test)| !is_test(file, test))
        .map(|proof| format!("no test {proof:?}"))
        .collect();
    if proofs.is_empty() || cells.iter().any(|cell| cell.is_empty()) {
        wrong.push(format!("an empty cell or no proof: {row}"));
    }
    wrong
}

#[test]
fn every_proof_of_the_audit_is_a_test() {
    let page = fs::read_to_string(Path::new(WORKSPACE).join("docs/src/audit.md")).expect("the page");
    let is_test = |file: &str, test: &str| {
        let text = fs::read_to_string(Path::new(WORKSPACE).join(file)).unwrap_or_default();
        text.split("#[test]").chain(text.split("#[tokio::test]")).skip(1).any(|rest| {
            let function = rest.split_once('{').map_or(rest, |(head, _)| head);
            function.contains(&format!("fn {test}()"))
        })
    };
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| the text |")).collect();
    assert!(rows.len() > 40, "{} rows", rows.len());
    let wrong: Vec<String> = rows.iter().flat_map(|row| unproved(row, is_test)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_row_without_its_proof_is_found() {
    let wrong = |row: &str| unproved(row, |file, test| (file, test) == ("a.rs", "b")).len();
    assert_eq!(wrong("| x | `spindoctor top` | `a.rs::b`, by itself |"), 0);
    for row in [
        "| x | y | |",
        "| x | y | `a.rs` |",
        "| x | | `a.rs::b` |",
        "| x | y | `a.rs::c` |",
        "| x | `a.rs::b` |",
    ] {
        assert_eq!(wrong(row), 1, "{row}");
    }
}

/// A line of a shell as its words, up to a comment or to what is another command.
fn shell_words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quote, mut inside) = (None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => words.last_mut().expect("a word with a quote").push(c),
            (None, '#') if !inside => break,
            (None, '|' | '>' | ';' | '&') => {
                // `2>` is no argument.
                if inside && words.last().is_some_and(|word| word == "2") {
                    words.pop();
                }
                break;
            }
            (None, c) if c.is_whitespace() => inside = false,
            (None, c) => {
                if !std::mem::replace(&mut inside, true) {
                    words.push(String::new());
                }
                match c {
                    '\'' | '"' => quote = Some(c),
                    c => words.last_mut().expect("it was just begun").push(c),
                }
            }
        }
    }
    words
}

/// The commands of a page, each with whether it is one in full: a line between fences that begins with the program's name
/// is; code in the text that does names a command, and may leave out what it takes.
fn examples(text: &str) -> Vec<(String, bool)> {
    let (prose, code) = prose_and_code(text);
    let joined = code.join("\n").replace("\\\n", " ");
    let lines = joined.lines().map(|line| (line.strip_prefix("$ ").unwrap_or(line).to_owned(), true));
    let spans = words_and_spans(&prose).1.into_iter().map(|span| (span, false));
    let is_command = |line: &str| {
        line.strip_prefix("spindoctor ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_graphic()))
    };
    lines.chain(spans).filter(|(line, _)| is_command(line)).collect()
}

/// What the program says against this command line.
fn refused(words: &[String], in_full: bool) -> Option<String> {
    let is_placeholder = |word: &String| PLACEHOLDERS.contains(&word.as_str());
    if words.iter().take(2).any(is_placeholder) {
        return None;
    }
    let (own, other) = match words.iter().position(|word| word == "--") {
        Some(at) => (&words[..=at], &words[at + 1..]),
        None => (words, &words[..0]),
    };
    if other.first().is_some_and(|first| first == "spindoctor") {
        let own = [own, &[ANY_PROGRAM.to_owned()]].concat();
        return refused(other, in_full).or_else(|| refused(&own, in_full));
    }
    let known = words.iter().map(|word| if is_placeholder(word) { ANY_PROGRAM } else { word });
    let error = commands::parse(known.map(OsString::from)).err()?;
    let is_only_a_part = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) || error.to_string().contains("a value is required");
    (error.use_stderr() && (in_full || !is_only_a_part)).then(|| error.to_string())
}

#[test]
fn every_command_of_the_pages_is_one_that_the_program_takes() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (page, text) in pages().iter().filter(|(page, _)| !page.ends_with("CHANGELOG.md")) {
        for (example, in_full) in examples(text) {
            read += 1;
            if let Some(why) = refused(&shell_words(&example), in_full) {
                wrong.push(format!("{}: {example}\n    {}", page.display(), why.trim()));
            }
        }
    }
    assert!(read > 150, "{read} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words after the program's name that stand in a text outside of code: a command there is none that a test reads.
fn named_in_prose(text: &str) -> Vec<&str> {
    let prose = text.split('`').step_by(2);
    let pairs = prose.flat_map(|part| part.split_whitespace().zip(part.split_whitespace().skip(1)));
    pairs
        .filter(|(name, _)| *name == "spindoctor")
        .map(|(_, word)| word.trim_end_matches(|c: char| c.is_ascii_punctuation()))
        .collect()
}

#[test]
fn commands_that_the_causes_name_stand_in_code_marks() {
    assert_eq!(named_in_prose("`spindoctor top` and spindoctor locks, spindoctor takes"), ["locks", "takes"]);
    for cause in spindoctor_rules::CAUSES {
        for (heading, text) in cause.documentation() {
            for word in named_in_prose(text) {
                let words = ["spindoctor".to_owned(), word.to_owned()];
                assert!(refused(&words, false).is_some(), "{}: {heading}: spindoctor {word}", cause.name);
            }
        }
    }
}

#[test]
fn a_command_that_the_program_does_not_take_is_found() {
    let words = |line: &str| shell_words(line);
    assert_eq!(
        words("spindoctor fleet query 'SELECT 1' --servers f 2>/dev/null | head # x"),
        ["spindoctor", "fleet", "query", "SELECT 1", "--servers", "f"]
    );
    assert_eq!(words("a b#c \"d  e\"f # g"), ["a", "b#c", "d  ef"]);
    let takes = |line: &str, in_full| refused(&shell_words(line), in_full).is_none();
    assert!(takes("spindoctor doctor -h db17 -u spindoctor -p # any server", true));
    assert!(takes("spindoctor COMMAND --help", true));
    assert!(takes("spindoctor lab run healthy -- COMMAND...", true));
    assert!(takes("spindoctor report", false) && !takes("spindoctor report", true));
    assert!(!takes("spindoctor doctor --no-such-flag", false));
    assert!(!takes("spindoctor lab run healthy -- spindoctor doctr", true));
    let text =
        "`spindoctor\nlab list` x\n```\n$ spindoctor a \\\n  b\nspindoctor: no\nspindoctor ─┬─ lab\n```\n";
    assert_eq!(
        examples(text),
        [("spindoctor a    b".to_owned(), true), ("spindoctor lab list".to_owned(), false)]
    );
}
