//! MySQL's option files: which are read, in which order, and their settings.
//!
//! In: paths and group names. Out: settings in the order in which they count, the last one winning,
//! and notes on what was passed over. [`parse`] is pure and accepts anything. The rules are those of
//! `mysys/my_default.cc` (MySQL 8.0) and `mysys/my_default.c` (MariaDB 10.11); what an option means
//! is decided in [`super::target`].

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zeroize::{Zeroize as _, Zeroizing};

/// How deep `!include` may nest (my_default.cc, `max_recursion_level`).
const MAX_DEPTH: usize = 10;

/// How many files are read in all: two files that include each other's folder multiply.
const MAX_FILES: usize = 256;

/// What is read of one file: real ones have some KiB.
const MAX_BYTES: u64 = 16 << 20;

/// Lines that mean something, of all files: a server can be given less than a thousand options, and each line that is kept takes
/// some hundred bytes.
const MAX_LINES: usize = 10_000;

/// One line of an option file that means something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// `[client]`, as written.
    Group(String),
    /// `key = value`; None for a key without `=`. The key has `-` for each `_`.
    Option {
        /// The option's name, `loose-` and all.
        key: String,
        /// Its value, unquoted and with the escapes resolved.
        value: Option<String>,
    },
    /// `!include FILE`
    Include(PathBuf),
    /// `!includedir FOLDER`
    IncludeDir(PathBuf),
    /// `?include FILE` (MariaDB 11.4.10, 11.8.6): as `!include`, and the file need not exist.
    MayInclude(PathBuf),
    /// `?includedir FOLDER`: as `!includedir`, and the folder need not exist.
    MayIncludeDir(PathBuf),
    /// A line that MySQL would refuse, with the reason.
    Wrong(&'static str),
}

/// The lines of an option file that mean something, each with its number from 1.
///
/// Bytes that are not UTF-8 become the replacement character.
pub fn parse(text: &[u8]) -> Vec<(usize, Line)> {
    lines(&String::from_utf8_lossy(text)).collect()
}

fn lines(text: &str) -> impl Iterator<Item = (usize, Line)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, parse_line(line)?)))
}

fn parse_line(line: &str) -> Option<Line> {
    let line = line.trim_matches(is_space);
    let first = line.chars().next()?;
    match first {
        '#' | ';' => None,
        '!' => Some(parse_directive(&line[1..])),
        '?' => Some(match parse_directive(&line[1..]) {
            Line::Include(path) => Line::MayInclude(path),
            Line::IncludeDir(path) => Line::MayIncludeDir(path),
            _ => Line::Wrong("an unknown ? directive"),
        }),
        '[' => Some(match line.find(']') {
            Some(end) => Line::Group(line[1..end].trim_end_matches(is_space).to_owned()),
            None => Line::Wrong("a group without its closing ]"),
        }),
        _ => parse_option(line),
    }
}

/// `!includedir /etc/mysql/conf.d/`
fn parse_directive(text: &str) -> Line {
    let (word, path) = text.split_once(is_space).unwrap_or((text, ""));
    let path = path.trim_matches(is_space);
    match word {
        "include" | "includedir" if path.is_empty() => Line::Wrong("an !include without a path"),
        "include" => Line::Include(path.into()),
        "includedir" => Line::IncludeDir(path.into()),
        _ => Line::Wrong("an unknown ! directive"),
    }
}

/// `port = 3306   # comment`
fn parse_option(line: &str) -> Option<Line> {
    let line = without_comment(line);
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key, Some(unescape(unquote(value.trim_matches(is_space))))),
        None => (line, None),
    };
    let key = key.trim_matches(is_space);
    if key.is_empty() {
        return Some(Line::Wrong("a value without a name"));
    }
    Some(Line::Option { key: key.replace('_', "-"), value })
}

/// C's isspace in the C locale.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Cuts a `#` comment that stands outside of quotes (my_default.cc, `remove_end_comment`).
fn without_comment(line: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) if !escaped => quote = Some(c),
            ('"' | '\'', Some(open)) if !escaped && open == c => quote = None,
            ('#', None) => return line[..at].trim_end_matches(is_space),
            _ => {}
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    line
}

/// Removes one pair of quotes around the whole value.
fn unquote(value: &str) -> &str {
    ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value)
}

/// Resolves `\n \t \r \b \s \" \' \\`; any other escape stays as it is, as does one at the end.
fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\x08'),
            Some('s') => out.push(' '),
            Some(kept @ ('"' | '\'' | '\\')) => out.push(kept),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

/// One option as it was found.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    /// The group, in lower case.
    pub group: String,
    /// The name, with `-` for `_`.
    pub key: String,
    /// The value; None for a key alone.
    pub value: Option<String>,
    /// Where it stands: `/etc/my.cnf line 12`.
    pub origin: String,
}

impl std::fmt::Debug for Setting {
    /// Without the value: it may be a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {} ({})", self.group, self.key, self.origin)
    }
}

impl Drop for Setting {
    /// It may be a password.
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

/// What the option files said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// In the order in which they count: a later one replaces an earlier one.
    pub settings: Vec<Setting>,
    /// What was passed over, and why.
    pub notes: Vec<String>,
}

/// Reads option files one after another.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The groups that are wanted, in lower case.
    groups: &'a [String],
    /// Stands for `/` in the paths of `!include`.
    root: &'a Path,
    found: Settings,
    /// The files that are being read now, outermost first.
    open: Vec<PathBuf>,
    files: usize,
    lines: usize,
}

impl<'a> Reader<'a> {
    /// A reader of these groups (in lower case); absolute paths in `!include` are below `root`.
    pub fn new(groups: &'a [String], root: &'a Path) -> Self {
        Self { groups, root, found: Settings::default(), open: Vec::new(), files: 0, lines: 0 }
    }

    /// What was found.
    pub fn finish(self) -> Settings {
        self.found
    }

    /// Reads a file that need not exist.
    ///
    /// One that cannot be read is passed over, as MySQL does, with a note unless it is not there.
    pub fn read_if_there(&mut self, path: &Path) {
        match self.read(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                self.note(format!("cannot read the option file {}: {error}", path.display()));
            }
            _ => {}
        }
    }

    /// Reads a file that must be readable, and everything that it includes.
    ///
    /// A file that everyone may write is passed over with a note, as MySQL does.
    pub fn read(&mut self, path: &Path) -> std::io::Result<()> {
        let identity = path.canonicalize()?;
        let meta = fs::metadata(&identity)?;
        if !meta.is_file() {
            return Err(std::io::Error::other("it is not a file"));
        }
        if meta.permissions().mode() & 0o002 != 0 {
            self.note(format!("the option file {} is passed over: everyone may write it", path.display()));
            return Ok(());
        }
        if self.open.contains(&identity) {
            self.note(format!("{} includes itself; the inner one is passed over", path.display()));
            return Ok(());
        }
        if self.open.len() > MAX_DEPTH || self.files >= MAX_FILES {
            self.note(format!("{} is passed over: too many !include", path.display()));
            return Ok(());
        }
        let mut text = Zeroizing::new(Vec::new());
        fs::File::open(&identity)?.take(MAX_BYTES).read_to_end(&mut text)?;
        self.files += 1;
        self.open.push(identity);
        self.take(path, &text);
        self.open.pop();
        Ok(())
    }

    /// Takes the text of a file; the path is for the notes.
    pub(crate) fn take(&mut self, path: &Path, text: &[u8]) {
        let mut group: Option<String> = None;
        for (number, line) in lines(&String::from_utf8_lossy(text)) {
            let origin = || format!("{} line {number}", path.display());
            self.lines += 1;
            if self.lines > MAX_LINES {
                // The files that include this one end at their next line, without a note of their own.
                if self.lines == MAX_LINES + 1 {
                    self.note(format!(
                        "{} and all after it is passed over: option files with more than {MAX_LINES} lines are not read",
                        origin()
                    ));
                }
                return;
            }
            match line {
                Line::Group(name) => group = Some(name.to_ascii_lowercase()),
                Line::Option { key, value } => match &group {
                    Some(name) if self.groups.contains(name) => {
                        let setting = Setting { group: name.clone(), key, value, origin: origin() };
                        self.found.settings.push(setting);
                    }
                    Some(_) => {}
                    None => self.note(format!("{}: an option before the first group", origin())),
                },
                Line::MayInclude(path) => self.read_if_there(&self.below_root(&path)),
                Line::MayIncludeDir(folder) if !self.below_root(&folder).exists() => {}
                Line::Include(path) => {
                    let path = self.below_root(&path);
                    if let Err(error) = self.read(&path) {
                        self.note(format!("{}: cannot include {}: {error}", origin(), path.display()));
                    }
                }
                Line::IncludeDir(folder) | Line::MayIncludeDir(folder) => {
                    let folder = self.below_root(&folder);
                    match option_files_in(&folder) {
                        Ok(paths) => paths.iter().for_each(|path| self.read_if_there(path)),
                        Err(error) => {
                            self.note(format!("{}: cannot include {}: {error}", origin(), folder.display()));
                        }
                    }
                }
                Line::Wrong(what) => self.note(format!("{}: {what}", origin())),
            }
        }
    }

    fn below_root(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn note(&mut self, note: String) {
        self.found.notes.push(note);
    }
}

/// The `.cnf` files of a folder, sorted by name (my_default.cc sorts through `my_dir`).
fn option_files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "cnf"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn option(line: &str) -> (String, Option<String>) {
        match parse(line.as_bytes()).pop() {
            Some((_, Line::Option { key, value })) => (key, value),
            other => panic!("{line:?} is {other:?}"),
        }
    }

    fn value(line: &str) -> String {
        option(line).1.unwrap()
    }

    /// Groups, and names padded to 35.
    fn pretty(lines: &[(usize, Line)]) -> String {
        let mut out = String::new();
        for (_, line) in lines {
            match line {
                Line::Group(name) => out += &format!("\n[{name}]\n"),
                Line::Option { key, value } => {
                    out += &format!("{key:<35} = {}\n", value.as_deref().unwrap_or_default());
                }
                _ => {}
            }
        }
        out
    }

    /// The files of a document of the corpus.
    fn files(document: &str) -> Vec<(String, String)> {
        let parts = spindoctor_corpus::document(document).unwrap().parts;
        parts.into_iter().map(|part| (part.name, part.text + "\n")).collect()
    }

    #[test]
    fn reads_a_file_as_it_is_written_down_beside_it() {
        let files = files("written/option-files");
        let text = |name: &str| files.iter().find(|(file, _)| file == name).unwrap().1.as_str();
        assert_eq!(
            pretty(&parse(text("every-form.cnf").as_bytes())).trim(),
            text("every-form.expected").trim()
        );
    }

    #[test]
    fn every_file_of_the_corpus_has_groups_and_nothing_wrong() {
        let files = [files("written/option-files"), files("written/option-files-debian")].concat();
        let files: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".cnf")).collect();
        assert!(files.len() >= 8, "only {} files", files.len());
        for (name, text) in files {
            let lines = parse(text.as_bytes());
            assert!(lines.iter().any(|(_, line)| !matches!(line, Line::Wrong(_))), "{name}");
            for (number, line) in lines {
                assert!(!matches!(line, Line::Wrong(_)), "{name} {number}: {line:?}");
            }
        }
    }

    /// As `mariadbd --print-defaults` of 11.8.9 reads them.
    #[test]
    fn a_question_mark_includes_what_need_not_be_there() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "d/1.cnf", "[client]\nuser=folder\n");
        write(root.path(), "f.cnf", "[client]\nuser=file\n");
        let text = "[client]\nuser=own\n  ?includedir\t/d  \n?include /f.cnf\n?includedir /none\n?include /none.cnf\n";
        write(root.path(), "my.cnf", text);
        let found = read(root.path(), "my.cnf", &["client"]);
        assert_eq!(values(&found), ["own", "folder", "file"]);
        assert_eq!(found.notes, [""; 0], "what is not there need not be");
        write(root.path(), "odd.cnf", "[client]\n?includedir\n?something /d\n");
        assert_eq!(
            read(root.path(), "odd.cnf", &["client"]).notes.len(),
            2,
            "nothing is dropped without a word"
        );
    }

    #[test]
    fn quotes_comments_and_escapes_are_mysqls() {
        assert_eq!(value("password = se#cret"), "se");
        assert_eq!(value("password = \"se#cret\"  # comment"), "se#cret");
        assert_eq!(value("password='it''s'"), "it''s");
        assert_eq!(value(r#"password = "a\"b#c" # d"#), "a\"b#c");
        assert_eq!(value(r"prompt = \s\t\n\r\b\\x\y\"), " \t\n\r\x08\\x\\y\\");
        assert_eq!(value("password ="), "");
        assert_eq!(value("a = b = c"), "b = c");
        assert_eq!(option("skip_auto_rehash"), ("skip-auto-rehash".into(), None));
        assert_eq!(option("  loose_ssl_mode=REQUIRED\r").0, "loose-ssl-mode");
        assert_eq!(value("password = \""), "\"");
    }

    fn read(root: &Path, path: &str, groups: &[&str]) -> Settings {
        let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        let mut reader = Reader::new(&groups, root);
        reader.read_if_there(&root.join(path));
        reader.finish()
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn values(found: &Settings) -> Vec<&str> {
        found.settings.iter().map(|setting| setting.value.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn follows_debians_tree_of_includes() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files("written/option-files-debian") {
            write(root.path(), &path, &text);
        }
        std::os::unix::fs::symlink("mariadb.cnf", root.path().join("etc/mysql/my.cnf")).unwrap();
        let found = read(root.path(), "etc/mysql/my.cnf", &["client-server", "mysqldump", "mysqld"]);
        assert!(found.notes.is_empty(), "{:?}", found.notes);
        assert_eq!(values(&found)[..4], ["/run/mysqld/mysqld.sock", "-", "-", "16M"], "{:?}", found.settings);
        assert!(found.settings.iter().any(|s| s.group == "mysqld" && s.key == "bind-address"));
    }

    #[test]
    fn includes_are_read_in_place_sorted_and_only_cnf() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "my.cnf", "[client]\nuser=1\n!includedir /d\nuser=4\n");
        write(root.path(), "d/20.cnf", "[Client]\nuser=3\n[other]\nuser=x\n");
        write(root.path(), "d/10.cnf", "[client]\nuser=2\n");
        write(root.path(), "d/30.cnf.bak", "[client]\nuser=x\n");
        let found = read(root.path(), "my.cnf", &["client"]);
        assert_eq!(values(&found), ["1", "2", "3", "4"]);
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }

    #[test]
    fn a_loop_of_includes_ends_with_a_note() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a.cnf", "[client]\nuser=a\n!include /b.cnf\n");
        write(root.path(), "b.cnf", "[client]\nuser=b\n!include /a.cnf\n!includedir /\n");
        let found = read(root.path(), "a.cnf", &["client"]);
        assert_eq!(values(&found), ["a", "b"]);
        assert!(found.notes.iter().all(|note| note.contains("includes itself")), "{:?}", found.notes);
    }

    #[test]
    fn files_that_include_many_others_many_times_are_bounded() {
        let root = tempfile::tempdir().unwrap();
        for level in 0..12 {
            let next = format!("!include /{}.cnf\n", level + 1).repeat(8);
            write(root.path(), &format!("{level}.cnf"), &format!("[client]\nuser={level}\n{next}"));
        }
        let found = read(root.path(), "0.cnf", &["client"]);
        assert!(found.settings.len() <= MAX_FILES);
        assert!(found.notes.iter().any(|note| note.contains("too many")));
    }

    #[test]
    fn a_file_of_very_many_lines_takes_no_more_than_so_many_of_them() {
        for line in ["user=x\n", "=\n", "[client]\n"] {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), "a.cnf", &format!("[client]\n!include /b.cnf\n{line}{line}"));
            write(root.path(), "b.cnf", &format!("[client]\n{}", line.repeat(MAX_LINES + 100)));
            let found = read(root.path(), "a.cnf", &["client"]);
            assert!(found.settings.len() + found.notes.len() <= MAX_LINES, "{line}");
            let said: Vec<_> = found.notes.iter().filter(|note| note.contains("all after it")).collect();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains("b.cnf line 9999"), "{said:?}");
        }
    }

    #[test]
    fn a_file_that_everyone_may_write_is_passed_over_with_a_note() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "my.cnf", "[client]\nuser=x\n");
        fs::set_permissions(root.path().join("my.cnf"), fs::Permissions::from_mode(0o666)).unwrap();
        let found = read(root.path(), "my.cnf", &["client"]);
        assert!(found.settings.is_empty());
        assert!(found.notes[0].contains("everyone may write"), "{:?}", found.notes);
    }

    #[test]
    fn the_printed_form_of_a_setting_has_no_value() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "my.cnf", "[client]\npassword=topsecret\n");
        assert!(!format!("{:?}", read(root.path(), "my.cnf", &["client"])).contains("topsecret"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn odd_lines_are_read_without_a_panic(text in "[\\[\\]!a=\\\\'\"# \t\nüs-]{0,60}") {
            let _ = parse(text.as_bytes());
        }
    }
}
