//! The catalogue's pages in the book, `docs/src/causes.md` and `docs/src/causes/`: written from [`CAUSES`] by `script/causes`,
//! and held against it here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use spindoctor_rules::{CAUSES, Cause};

/// `script/causes` sets it: the pages are then written, not compared.
const WRITE: &str = "SPINDOCTOR_WRITE_CAUSES";
/// Where the list of all causes begins in the table of contents.
const LIST: &str = "- [The causes](causes.md)";

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src")
}

/// A blank within code: lines are not broken there.
const KEPT_BLANK: char = '\u{a0}';

/// A word as Markdown: names of settings and functions as code, names of causes and addresses as links, and nothing that
/// Markdown reads as its own.
fn word(word: &str, of: &str) -> String {
    if word.contains('`') {
        return word.to_owned();
    }
    if word.starts_with("https://") {
        return format!("<{word}>");
    }
    let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let Some((before, after)) = word.split_once(core).filter(|_| !core.is_empty()) else {
        return escaped(word);
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_=@.:-".contains(c);
    let linked = if core != of && CAUSES.iter().any(|cause| cause.name == core) {
        format!("[{core}]({core}.md)")
    } else if core.contains('_') && core.chars().all(is_name) {
        format!("`{core}`")
    } else {
        escaped(core)
    };
    format!("{}{linked}{}", escaped(before), escaped(after))
}

fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| "\\*_<>[]|".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A paragraph of a cause as lines of Markdown.
fn paragraph(text: &str, of: &str) -> String {
    let mut is_code = false;
    let whole: String = text
        .chars()
        .map(|c| {
            is_code ^= c == '`';
            if is_code && c.is_whitespace() { KEPT_BLANK } else { c }
        })
        .collect();
    let mut lines = String::new();
    let mut length = 0;
    for word in whole.split([' ', '\n']).filter(|each| !each.is_empty()).map(|each| word(each, of)) {
        if length > 0 && length + word.len() > 120 {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        length += word.len();
        lines.push_str(&word);
    }
    lines.replace(KEPT_BLANK, " ")
}

/// A text of a cause: its paragraphs, as a blank line parts them.
fn paragraphs(text: &str, of: &str) -> String {
    text.split("\n\n").map(|each| paragraph(each, of)).collect::<Vec<_>>().join("\n\n")
}

fn page(cause: &Cause) -> String {
    let mut page = format!("# {}\n\n{}.\n", cause.name, sentence(&paragraph(cause.title, cause.name)));
    for (heading, text) in cause.documentation() {
        page += &format!("\n## {heading}\n\n{}\n", paragraphs(text, cause.name));
    }
    page += "\n## References\n\n";
    for reference in cause.references {
        page += &format!("- {}\n", paragraph(reference, cause.name).replace('\n', "\n  "));
    }
    page + &format!("\n`spindoctor explain {}` prints this page.\n", cause.name)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn table() -> String {
    let mut page = "# The causes\n\nWhat `spindoctor doctor` looks for, in the order of its catalogue. `spindoctor explain CAUSE` prints \
                    each page.\n\n| cause | in one line |\n|---|---|\n"
        .to_owned();
    for cause in CAUSES {
        page += &format!(
            "| [`{}`](causes/{}.md) | {} |\n",
            cause.name,
            cause.name,
            cause.title.split_whitespace().map(|each| word(each, each)).collect::<Vec<_>>().join(" ")
        );
    }
    page
}

/// The table of contents with the list of these causes in it.
fn contents(of_today: &str) -> String {
    let is_cause = |line: &str| line.starts_with("  - [") && line.contains("](causes/");
    let mut lines: Vec<String> = of_today.lines().filter(|line| !is_cause(line)).map(str::to_owned).collect();
    let at = lines.iter().position(|line| line == LIST).expect("the table of contents has the causes") + 1;
    let causes = CAUSES.iter().map(|cause| format!("  - [{}](causes/{}.md)", cause.name, cause.name));
    lines.splice(at..at, causes);
    lines.join("\n") + "\n"
}

#[test]
fn the_book_has_a_page_of_each_cause() {
    let folder = pages();
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).expect("SUMMARY.md");
    let mut due: BTreeMap<PathBuf, String> = CAUSES
        .iter()
        .map(|cause| (folder.join("causes").join(cause.name).with_extension("md"), page(cause)))
        .collect();
    let entries = fs::read_dir(folder.join("causes")).into_iter().flatten();
    let left: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| !due.contains_key(path)).collect();
    due.insert(folder.join("causes.md"), table());
    due.insert(folder.join("SUMMARY.md"), contents(&summary));
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(folder.join("causes")).expect("the folder");
        left.iter().for_each(|path| fs::remove_file(path).expect("a page of a cause that is no more"));
        due.iter().for_each(|(path, text)| fs::write(path, text).expect("a page"));
        return;
    }
    let mut old: Vec<&PathBuf> = due
        .iter()
        .filter(|(path, text)| fs::read_to_string(path).ok().as_ref() != Some(text))
        .map(|(path, _)| path)
        .collect();
    old.extend(&left);
    assert!(
        old.is_empty(),
        "these pages are not what the catalogue says; script/causes writes them: {old:#?}"
    );
}

#[test]
fn what_markdown_would_read_as_its_own_is_escaped() {
    assert_eq!(
        paragraph("[lwm, hwm * N) <b> of innodb_purge_threads=4, (spin-burn); a|b", "cpu-saturated"),
        r"\[lwm, hwm \* N) \<b\> of `innodb_purge_threads=4`, ([spin-burn](spin-burn.md)); a\|b"
    );
    assert_eq!(
        paragraph("spin-burn in A::b_c). `Waiting for <x>`, https://a.b/c_d#e", "spin-burn"),
        "spin-burn in `A::b_c`). `Waiting for <x>`, <https://a.b/c_d#e>"
    );
}

#[test]
fn paragraphs_of_a_text_stay_apart() {
    assert_eq!(paragraphs("It reads\nn_cpu.\n\nIt fires.", "spin-burn"), "It reads `n_cpu`.\n\nIt fires.");
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
