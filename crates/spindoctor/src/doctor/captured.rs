//! `doctor --from`: files that somebody captured, to a window, and how a report says what they were.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use flate2::read::MultiGzDecoder;
use spindoctor_captures::{
    Kind, LONGEST_BYTES, NOT_GIVEN, Part, Text, collections, recognise, say_hints, window,
};
use spindoctor_model::diagnosis::GivenDocument;
use spindoctor_model::{Diagnosis, Window};
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{PLAIN, Page, QUIET, STRONG};
use tar::{Archive, EntryType};

use crate::common::stalls::day_and_time;
use crate::common::words::from_what_was_given;
use crate::common::{bundle, recorded, session, session_time, window_file};

use super::view::findings_counted;

/// Files that are read: a pt-stalk folder has some fifty for each collection.
const MOST_FILES: usize = 2_000;
/// Entries of folders that are looked at.
const MOST_ENTRIES: usize = 20_000;
/// Folders within folders.
const DEEPEST: usize = 6;
/// Bytes read in all: the working memory is some times as much.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes of an archive that are unpacked, those of files that are left out among them.
const MOST_UNPACKED: u64 = 512 << 20;
/// After so much text it is said what is read: an error log took 0.4 s for each MiB before its signs were looked for in one pass.
const SAID_AFTER_BYTES: usize = 4 << 20;
/// Bytes of a header in an archive (POSIX, pax).
const BLOCK: usize = 512;
/// Documents that a report lists.
const LISTED: usize = 24;

/// What a report calls a file that is a window by itself.
const SAVED_WINDOW: &str = "saved window";
/// And one that has a recording.
const BUNDLE: &str = "bundle";

/// A window of what was captured, and what that was.
pub struct Captured {
    pub window: Window,
    pub given: Vec<GivenDocument>,
}

/// Reads what was named.
///
/// # Errors
/// A file cannot be read, or nothing of it is known.
pub fn load(names: &[PathBuf]) -> anyhow::Result<Captured> {
    let mut reader = Reader::default();
    for name in names {
        reader.named(name)?;
    }
    let Reader { mut parts, saved, notes, .. } = reader;
    if let Some((document_of_it, window)) = saved {
        let why = format!("not used: a {} is diagnosed by itself", document_of_it.kind);
        let mut given = vec![document_of_it];
        given.extend(parts.iter().map(|part| GivenDocument { says: vec![why.clone()], ..document(part) }));
        return Ok(Captured { window, given });
    }
    if !parts.iter().any(|part| part.kind != Kind::Unknown) {
        match parts.first() {
            Some(part) => bail!(
                "nothing in {} was recognised; it begins with {:?} (known: InnoDB status, process lists, error and slow query logs, errors \
                 of clients, global status and variables, option files, replica status, lists of locks, stacks, tools of the system)",
                part.name,
                safe(&part.begins)
            ),
            None => {
                let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
                bail!("there is nothing to read in {}{notes}", display(names))
            }
        }
    }
    say_hints(&mut parts);
    let mut given: Vec<GivenDocument> = parts.iter().map(document).collect();
    if let Some(first) = given.first_mut() {
        first.says.extend(notes);
    }
    let mut windows: Vec<(String, Window, f64)> = collections(&parts)
        .into_iter()
        .map(|collection| {
            let window = window(collection.parts.iter().map(|at| &parts[*at]));
            let worst = spindoctor_rules::diagnose(&window)
                .findings
                .iter()
                .map(|finding| finding.score)
                .fold(-1.0, f64::max);
            (collection.name, window, worst)
        })
        .collect();
    let worst = (0..windows.len())
        .max_by(|one, other| windows[*one].2.total_cmp(&windows[*other].2))
        .unwrap_or_default();
    if windows.len() > 1 {
        let names: Vec<&str> =
            windows.iter().map(|(name, ..)| if name.is_empty() { "the rest" } else { name }).collect();
        let note = format!(
            "{} collections ({}): the one with the costliest finding is shown, {}; give its files alone for another one",
            names.len(),
            names.join(", "),
            names[worst]
        );
        if let Some(first) = given.first_mut() {
            first.says.insert(0, note);
        }
    }
    Ok(Captured { window: windows.swap_remove(worst).1, given })
}

fn display(names: &[PathBuf]) -> String {
    names.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn document(part: &Part) -> GivenDocument {
    GivenDocument {
        file: part.name.clone(),
        kind: part.kind.name().to_owned(),
        is_recognised: part.kind != Kind::Unknown,
        version: part.version.map(|version| version.to_string()),
        time: part.time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S").to_string()),
        lines: part.lines as u64,
        says: part.says.clone(),
        begins: part.begins.clone(),
    }
}

/// What is a window by itself.
fn of_window(name: &str, kind: &str, window: &Window) -> GivenDocument {
    GivenDocument {
        file: name.to_owned(),
        kind: kind.to_owned(),
        is_recognised: true,
        version: window.server.version.map(|version| version.to_string()),
        ..GivenDocument::default()
    }
}

#[derive(Default)]
struct Reader {
    parts: Vec<Part>,
    /// What is a window by itself, and what it was.
    saved: Option<(GivenDocument, Window)>,
    notes: Vec<String>,
    files: usize,
    entries: usize,
    bytes: u64,
    /// Of the text that was read since it was said last.
    unsaid_bytes: usize,
}

impl Reader {
    fn named(&mut self, name: &Path) -> anyhow::Result<()> {
        if name.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .take(LONGEST_BYTES as u64 + 1)
                .read_to_end(&mut bytes)
                .context("could not read the standard input")?;
            return self.content("-", &bytes, None);
        }
        let about = fs::metadata(name).with_context(|| format!("could not read {}", name.display()))?;
        if about.is_dir() {
            let mut files = Vec::new();
            self.list(name, 0, &mut files)?;
            files.sort();
            let base = name.to_owned();
            for file in files {
                if self.files >= MOST_FILES || self.bytes >= MOST_BYTES {
                    self.note(format!("only the first {} of its files were read", self.files));
                    break;
                }
                let short = file.strip_prefix(&base).unwrap_or(&file).display().to_string();
                // One file that may not be read does not hide the others.
                if let Err(error) = self.file(&file, &short) {
                    self.note(format!("{error:#}"));
                }
            }
            return Ok(());
        }
        let short = name
            .file_name()
            .map_or_else(|| name.display().to_string(), |file| file.to_string_lossy().into_owned());
        if bundle::is_one(name) {
            return self.bundle(name, &short);
        }
        self.file(name, &short)
    }

    /// The window of a bundle: its recording says more than the texts beside it.
    fn bundle(&mut self, file: &Path, name: &str) -> anyhow::Result<()> {
        let opened = recorded::open(file)?;
        let Some(window) = opened.window_of_bundle()? else {
            bail!("the recording in {} has no sample", file.display());
        };
        let Some(manifest) = &opened.bundle else { return Ok(()) };
        let mut document = of_window(name, BUNDLE, &window);
        document.time = Some(window.start.strftime("%Y-%m-%dT%H:%M:%S").to_string());
        let (from, to) = (day_and_time(manifest.from), day_and_time(manifest.to));
        document.says.push(match manifest.event {
            Some(event) => format!("event {event} of a recording from {from} to {to}"),
            None => format!("a recording from {from} to {to}"),
        });
        document.says.extend(
            manifest
                .left_out
                .iter()
                .take(LISTED)
                .map(|left| format!("without {}: {}", left.what, left.because)),
        );
        self.saved.get_or_insert((document, window));
        Ok(())
    }

    fn list(&mut self, folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
        for entry in entries {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                self.note(format!("only {MOST_ENTRIES} of the entries of its folders were looked at"));
                break;
            }
            let Ok(entry) = entry else { continue };
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_file() {
                files.push(entry.path());
            } else if kind.is_dir()
                && depth < DEEPEST
                && let Err(error) = self.list(&entry.path(), depth + 1, files)
            {
                self.note(format!("{error:#}"));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: &str) -> anyhow::Result<()> {
        let failed = || format!("could not read {}", path.display());
        // A socket is not opened at all.
        if fs::metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
            bail!("{} is neither a file, a folder nor a pipe", path.display());
        }
        let mut file = spindoctor_safefile::open_named(path).with_context(failed)?;
        let about = file.metadata().with_context(failed)?;
        if !about.is_file() && !about.file_type().is_fifo() {
            bail!("{} is neither a file, a folder nor a pipe", path.display());
        }
        let length = about.len();
        let mut note = None;
        if length > LONGEST_BYTES as u64 {
            // Of a log the end counts.
            file.skip_to(length - LONGEST_BYTES as u64).with_context(failed)?;
            note = Some(format!(
                "only the last {} MiB of {} were read",
                LONGEST_BYTES >> 20,
                number::bytes(length as f64)
            ));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST_BYTES as u64).read_to_end(&mut bytes).with_context(failed)?;
        self.content(name, &bytes, note)
    }

    fn content(&mut self, name: &str, bytes: &[u8], note: Option<String>) -> anyhow::Result<()> {
        match archive(bytes) {
            Some(content) => self.archived(name, content),
            None => self.text(name, bytes, note),
        }
    }

    /// The files of an archive: what pt-stalk collected is often sent as one. An archive in an archive stays packed.
    fn archived(&mut self, name: &str, content: impl Read) -> anyhow::Result<()> {
        let mut archive = Archive::new(content.take(MOST_UNPACKED));
        for entry in archive.entries().with_context(|| format!("could not read {name}"))? {
            self.entries += 1;
            if self.entries > MOST_ENTRIES || self.files >= MOST_FILES || self.bytes >= MOST_BYTES {
                self.note(format!("only the first {} of the files in {name} were read", self.files));
                break;
            }
            let mut bytes = Vec::new();
            let read = entry.and_then(|mut entry| {
                let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                let is_file = entry.header().entry_type() == EntryType::Regular;
                if is_file {
                    entry.by_ref().take(LONGEST_BYTES as u64).read_to_end(&mut bytes)?;
                }
                Ok(is_file.then_some(path))
            });
            match read {
                Ok(Some(path)) => self.text(&path, &bytes, None)?,
                Ok(None) => {}
                Err(_) => {
                    self.note(format!("{name} is cut or damaged: what could be unpacked was read"));
                    break;
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, name: &str, bytes: &[u8], note: Option<String>) -> anyhow::Result<()> {
        self.files += 1;
        self.bytes += bytes.len() as u64;
        let text = Text::from_bytes(bytes);
        let begins = &text.text[..text.text.floor_char_boundary(200)];
        if begins.trim_start().starts_with('{') && begins.contains("spindoctor.window/") {
            let window = window_file::from_bytes(text.text.as_bytes())
                .with_context(|| format!("{name} cannot be used"))?;
            let document = of_window(name, SAVED_WINDOW, &window);
            self.saved.get_or_insert((document, window));
            return Ok(());
        }
        if self.is_long(text.text.len()) {
            session::note(&format!("reading {name} ({})", number::bytes(text.text.len() as f64)));
        }
        let mut parts = recognise(name, &text.text);
        match (parts.first_mut(), text.note) {
            (Some(first), said) => first.says.extend(note.into_iter().chain(said)),
            (None, Some(said)) => self.note(format!("{name}: {said}")),
            (None, None) => {}
        }
        self.parts.extend(parts);
        Ok(())
    }

    /// True where with so much more to read it takes seconds until something is said.
    fn is_long(&mut self, bytes: usize) -> bool {
        self.unsaid_bytes += bytes;
        let is_long = self.unsaid_bytes >= SAID_AFTER_BYTES;
        if is_long {
            self.unsaid_bytes = 0;
        }
        is_long
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < 5 && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The content of an archive, within gzip or not; None for bytes that are none.
fn archive(bytes: &[u8]) -> Option<Box<dyn Read + '_>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let unpacked = || -> Box<dyn Read + '_> {
        match bytes.starts_with(&GZIP) {
            true => Box::new(MultiGzDecoder::new(bytes)),
            false => Box::new(bytes),
        }
    };
    let mut block = [0; BLOCK];
    unpacked().read_exact(&mut block).ok()?;
    (&block[257..262] == b"ustar").then(unpacked)
}

/// The head of a report: what was given, a line for each document.
pub fn head(page: &mut Page, diagnosis: &Diagnosis) {
    let named = from_what_was_given(&diagnosis.server);
    page.line_with_right(&safe(&named), &findings_counted(diagnosis), STRONG, STRONG);
    let (known, unknown): (Vec<_>, Vec<_>) =
        diagnosis.given.iter().partition(|document| document.is_recognised);
    for document in known.iter().chain(&unknown).take(LISTED) {
        page.hanging("    ", "  ", &safe(&described(document)), QUIET);
        for said in &document.says {
            page.hanging("        ", "  ", &safe(said), PLAIN);
        }
    }
    if let Some(more) = diagnosis.given.len().checked_sub(LISTED).filter(|more| *more > 0) {
        page.paragraph(
            "    ",
            &format!("and {}", number::counted(more as u64, "document more", "documents more")),
            QUIET,
        );
    }
    if let Some(time) = &diagnosis.time {
        page.blank();
        session_time::print(page, time);
    }
}

/// `status.txt: InnoDB status, MySQL 5.7.21, 2018-02-12 09:52:22, 71 lines`
pub fn described(document: &GivenDocument) -> String {
    let mut parts = vec![format!("{}: {}", document.file, document.kind)];
    parts.extend(document.version.clone());
    parts.extend(document.time.as_ref().map(|time| time.replace('T', " ")));
    if document.lines > 0 {
        parts.push(number::counted(document.lines, "line", "lines"));
    }
    if !document.begins.is_empty() {
        parts.push(format!("begins with {:?}", document.begins));
    }
    parts.join(", ")
}

/// The verdict where no cause was found.
pub const NO_PROOF: &str = "No cause found in what was given; that does not prove that all was well.";

/// What is said where no cause was found.
pub fn nothing_found(page: &mut Page, diagnosis: &Diagnosis) {
    let count = diagnosis.clear.len() as u64;
    if count == 0 {
        page.paragraph(
            "",
            "No cause could be checked by what was given; nothing more is known about this server than stands above.",
            STRONG,
        );
        return;
    }
    page.paragraph("", NO_PROOF, STRONG);
    if diagnosis
        .given
        .iter()
        .any(|document| document.kind == Kind::ErrorLog.name() && !document.says.is_empty())
    {
        page.paragraph("", "What the error log says of trouble stands above.", PLAIN);
    }
    let looked = number::counted(count, "cause was", "causes were");
    page.paragraph("", &format!("{looked} checked and not seen in it:"), PLAIN);
    page.paragraph("    ", &diagnosis.clear.join(", "), QUIET);
}

/// What was not checked, and what to give for more.
pub fn not_examined(page: &mut Page, diagnosis: &Diagnosis) {
    let count = diagnosis.not_examined.len() as u64;
    if count == 0 {
        return;
    }
    let text =
        format!("not checked: {}, whose evidence is {NOT_GIVEN}", number::counted(count, "cause", "causes"));
    page.paragraph("", &text, QUIET);
    let is_given =
        |kind: Kind| diagnosis.given.iter().filter(|document| document.kind == kind.name()).count();
    let has_readings =
        diagnosis.given.iter().any(|document| document.says.iter().any(|said| said.ends_with(" readings")));
    let helps = [
        (is_given(Kind::ProcessList) == 0, "SHOW FULL PROCESSLIST\\G"),
        (is_given(Kind::InnodbStatus) == 0, "SHOW ENGINE INNODB STATUS\\G"),
        (is_given(Kind::GlobalVariables) == 0, "SHOW GLOBAL VARIABLES"),
        (is_given(Kind::GlobalStatus) < 2 && !has_readings, "SHOW GLOBAL STATUS twice, ten seconds apart"),
        (is_given(Kind::Stacks) == 0, "stacks of all threads (gdb, eu-stack, pt-pmp)"),
    ];
    let helps: Vec<&str> =
        helps.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect();
    let is_text = |document: &GivenDocument| ![SAVED_WINDOW, BUNDLE].contains(&document.kind.as_str());
    if !helps.is_empty() && diagnosis.given.iter().all(is_text) {
        page.hanging("", "  ", &format!("more would be known with: {}", helps.join("; ")), QUIET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_seconds_to_read_is_said_before_and_small_files_are_not() {
        let mut reader = Reader::default();
        let said: Vec<bool> =
            [1 << 20, 2 << 20, 1 << 20, 64 << 20, 1, 4 << 20].map(|bytes| reader.is_long(bytes)).to_vec();
        assert_eq!(said, [false, false, true, true, false, true]);
    }
}
