//! Results on standard output. A reader that closes the pipe early has what it wanted.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::de::IgnoredAny;
use spindoctor_page::formats::{self, Format};
use spindoctor_page::safe::without_error_numbers;

use super::terminal;

/// The reader of our output closed it: a success, returned as an error so that nothing more is done.
#[derive(Debug)]
pub struct ClosedPipe;

impl fmt::Display for ClosedPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the output's reader went away")
    }
}

impl std::error::Error for ClosedPipe {}

/// Writes a finished result to standard output, in the characters of the locale. JSON stays as it is, and so does what is
/// captured.
pub fn print(result: &str) -> anyhow::Result<()> {
    match is_json(result) || CAPTURED.with_borrow(Option::is_some) {
        true => print_bytes(result.as_bytes()),
        false => print_bytes(terminal::in_characters_of_locale(result).as_bytes()),
    }
}

/// Writes a finished result in the format of this name: `text` is for people, others are as they are.
pub fn print_format(name: &str, result: &[u8]) -> anyhow::Result<()> {
    match std::str::from_utf8(result) {
        Ok(text) if name == "text" => print(text),
        _ => print_bytes(result),
    }
}

/// True for values of JSON, one or a line each: no text for people is that.
fn is_json(result: &str) -> bool {
    let mut values = serde_json::Deserializer::from_str(result).into_iter::<IgnoredAny>();
    result.starts_with(['{', '[']) && values.all(|value| value.is_ok())
}

thread_local! {
    /// Where results of this thread go instead of standard output, while somebody captures them.
    static CAPTURED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// What some work on this thread prints, as text: for a program that has standard output for something else.
pub fn captured(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<String> {
    CAPTURED.set(Some(Vec::new()));
    let done = work();
    let printed = CAPTURED.take().unwrap_or_default();
    done.map(|()| String::from_utf8_lossy(&printed).into_owned())
}

/// Writes a finished result that need not be text to standard output.
pub fn print_bytes(result: &[u8]) -> anyhow::Result<()> {
    let is_captured = CAPTURED.with_borrow_mut(|captured| match captured {
        Some(printed) => {
            printed.extend_from_slice(result);
            true
        }
        None => false,
    });
    if is_captured {
        return Ok(());
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(result).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
        Err(error) => Err(anyhow::Error::new(error).context("could not write to standard output")),
        Ok(()) => Ok(()),
    }
}

/// Endings of files that a command here writes, or that people expect of one: such a name on another kind of file is a mistake.
const ENDINGS: &[&str] = &[
    "csv", "dot", "folded", "gv", "gz", "htm", "html", "jpeg", "jpg", "json", "jsonl", "md", "parquet", "pb",
    "pdf", "png", "spinprof", "sqlite", "svg", "tar", "tgz", "tsv", "txt", "xls", "xlsx", "xml", "zip",
];

/// What each database of SQLite begins with, and so each recording.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Fails where a file could not be written, without touching it: better before the work than after it. So does a name that
/// ends as files of another kind do, and a recording, whatever its name is: nothing that is written here takes its place.
pub fn expect_writable(file: &Path, endings: &[&str]) -> anyhow::Result<()> {
    expect_named(file, endings)?;
    spindoctor_safefile::expect_writable(file).with_context(|| {
        format!("{} cannot be written; check that its folder exists and is writable", file.display())
    })?;
    if is_database(file) {
        bail!(
            "{} is there and is a database, as each recording is, so it is not replaced; name another file",
            file.display()
        );
    }
    Ok(())
}

fn is_database(file: &Path) -> bool {
    let mut begins = [0_u8; DATABASE.len()];
    std::fs::metadata(file).is_ok_and(|found| found.is_file())
        && File::open(file).and_then(|mut file| file.read_exact(&mut begins)).is_ok()
        && begins.as_slice() == DATABASE
}

/// Fails where a name ends as files of another kind do, and for `-`, which would be a file of that name. With no endings any
/// name will do.
pub fn expect_named(file: &Path, endings: &[&str]) -> anyhow::Result<()> {
    let shown = file.display();
    if file == Path::new("-") {
        bail!("- is not standard output here; give the name of a file (./- for one of that name)");
    }
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let Some(ending) = ending.filter(|ending| !endings.is_empty() && ENDINGS.contains(&ending.as_str()))
    else {
        return Ok(());
    };
    if !endings.contains(&ending.as_str()) {
        bail!(
            "{shown} ends in .{ending}, which this does not write; its name may end in {}",
            listed(endings)
        );
    }
    Ok(())
}

/// Fails where a folder is to be made whose name is that of a file: `export --out tables.xlsx`.
pub fn expect_folder(folder: &Path) -> anyhow::Result<()> {
    let is_meant = folder.as_os_str().as_encoded_bytes().ends_with(b"/") || folder.is_dir();
    let ending = folder.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.filter(|ending| !is_meant && ENDINGS.contains(&ending.as_str())) {
        Some(ending) => bail!(
            "{} would be a folder, but .{ending} is the ending of a file; a file's name ends in .parquet or .csv, \
             a folder's in /",
            folder.display()
        ),
        None => Ok(()),
    }
}

fn listed(endings: &[&str]) -> String {
    // Two formats may have one ending.
    let mut listed: Vec<String> = Vec::new();
    for ending in endings.iter().map(|ending| format!(".{ending}")) {
        if !listed.contains(&ending) {
            listed.push(ending);
        }
    }
    listed.join(", ")
}

/// Writes a file, readable for its owner alone. No link of somebody else's is followed, and nothing of somebody else's is
/// overwritten. `what` completes "could not write ... to FILE".
pub fn write_file(file: &Path, bytes: impl AsRef<[u8]>, what: &str) -> anyhow::Result<()> {
    spindoctor_safefile::write(file, bytes)
        .with_context(|| format!("could not write {what} to {}", file.display()))
}

/// The format of the name that was given, else the one that the file's name ends in, else the first.
pub fn chosen_format<R>(
    formats: &'static [Format<R>],
    name: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<&'static Format<R>> {
    match (name, file) {
        (Some(name), _) => formats::by_name(formats, name).with_context(|| format!("{name} is not a format")),
        (None, file) => {
            let by_file = file.and_then(|file| formats::by_extension(formats, &file.to_string_lossy()));
            Ok(by_file.unwrap_or(&formats[0]))
        }
    }
}

/// Fails where the file of a result could not be written, or its name ends in none of the formats: with a format that is
/// named, it may end in anything.
pub fn expect_format_writable<R>(
    file: &Path,
    formats: &'static [Format<R>],
    is_named: bool,
) -> anyhow::Result<()> {
    let endings = formats.iter().map(|format| format.extension.rsplit('.').next().unwrap_or_default());
    let endings: Vec<&str> = if is_named { Vec::new() } else { endings.collect() };
    expect_writable(file, &endings)
}

/// Endings of a page.
pub const HTML: &[&str] = &["html", "htm"];

/// Endings of a saved window.
pub const WINDOW: &[&str] = &["json", "gz"];

/// Endings of a page for people who read it in a repository.
pub const MARKDOWN: &[&str] = &["md"];

/// Writes one line for people to standard error; a note that cannot be written is lost.
pub fn note(line: &str) {
    let _ = writeln!(
        std::io::stderr().lock(),
        "{}",
        terminal::in_characters_of_locale(&without_error_numbers(line))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_captured_is_not_printed_and_an_error_stays_one() {
        let printed = captured(|| print("a").and_then(|()| print_bytes(b"b\xff")));
        assert_eq!(printed.unwrap(), "ab\u{fffd}");
        assert!(captured(|| bail!("no")).is_err());
        assert!(CAPTURED.with_borrow(Option::is_none));
    }

    #[test]
    fn json_is_not_taken_for_text() {
        for json in ["{\"a\": \"→\"}\n", "[\n  1\n]\n", "{\"a\": 1}\n{\"a\": 2}\n"] {
            assert!(is_json(json), "{json}");
        }
        for text in ["", "a → b\n", "{1} is the first\n", "[a]\n", "{}\n→\n"] {
            assert!(!is_json(text), "{text}");
        }
    }

    #[test]
    fn a_name_that_ends_as_another_kind_of_file_is_refused() {
        let named = |file: &str| expect_named(Path::new(file), HTML).map_err(|error| error.to_string());
        for good in ["page.html", "page.HTM", "page", "/dev/null", "db17.example.com", "./-"] {
            assert_eq!(named(good), Ok(()), "{good}");
        }
        assert!(named("page.svg").unwrap_err().contains(".html, .htm"));
        assert!(named("-").unwrap_err().contains("not standard output"));
        expect_named(Path::new("any.svg"), &[]).unwrap();
    }

    #[test]
    fn a_recording_is_not_replaced_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        expect_writable(&file, HTML).unwrap();
        for page in ["", "<!DOCTYPE html>", "SQLite format 3"] {
            std::fs::write(&file, page).unwrap();
            expect_writable(&file, HTML).unwrap();
        }
        std::fs::write(&file, [DATABASE, b"and so on"].concat()).unwrap();
        for endings in [HTML, &[]] {
            let refused = expect_writable(&file, endings).unwrap_err().to_string();
            assert!(refused.contains("so it is not replaced"), "{refused}");
        }
    }

    #[test]
    fn a_folder_that_is_named_like_a_file_is_refused() {
        assert!(
            expect_folder(Path::new("ex.xlsx")).unwrap_err().to_string().contains("ends in .parquet or .csv")
        );
        for good in ["ex.xlsx/", "tables", "/srv/db17.example.com", "."] {
            expect_folder(Path::new(good)).unwrap();
        }
    }

    #[test]
    fn what_is_written_is_the_owners_alone_and_follows_nobody_elses_link() {
        use std::os::unix::fs::{MetadataExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        write_file(&file, "page", "the page").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        if !rustix::process::geteuid().is_root() {
            println!("not run: giving a link to somebody else needs root");
            return;
        }
        let link = folder.path().join("link.html");
        symlink(&file, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), Some(65_534)).unwrap();
        assert!(expect_writable(&link, HTML).is_err());
        assert!(write_file(&link, "other", "the page").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "page");
    }
}
