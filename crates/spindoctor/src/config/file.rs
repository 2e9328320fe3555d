//! Configuration files: where they are, which are trusted, and what stands in them, with its line.

use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, anyhow, bail};
use spindoctor_page::safe::safe;
use spindoctor_safefile::{Refusal, read_trusted};
use toml_edit::{Document, Item, TableLike, Value};

/// The variable that names the file, where no flag does.
pub const VARIABLE: &str = "SPINDOCTOR_CONFIG";
/// The file of the machine.
const OF_MACHINE: &str = "/etc/spindoctor/spindoctor.toml";
/// The file of a user, below `$XDG_CONFIG_HOME` or `~/.config` (XDG Base Directory Specification 0.8).
const OF_USER: &str = "spindoctor/spindoctor.toml";
/// What is read of one file: the example with all of its comments has some 4 KiB.
const MOST_BYTES: u64 = 256 << 10;
/// Named instead of a file, it means none, as for git and others.
const NO_FILE: &str = "/dev/null";

/// Where configuration files are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The files, a later one before an earlier one.
    pub files: Vec<PathBuf>,
    /// Who named the only one; it must be there then.
    pub named_by: Option<&'static str>,
}

impl Places {
    /// That of the flag `--config`, else that of the environment, else those of the machine and of the user.
    pub fn from_process(flag: Option<OsString>) -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::new(flag, set(VARIABLE), set("XDG_CONFIG_HOME"), set("HOME"))
    }

    fn new(
        flag: Option<OsString>,
        variable: Option<OsString>,
        config_home: Option<OsString>,
        home: Option<OsString>,
    ) -> Self {
        let named = flag.map(|file| (file, "--config")).or(variable.map(|file| (file, VARIABLE)));
        if let Some((file, by)) = named {
            let files = if file == NO_FILE { Vec::new() } else { vec![file.into()] };
            return Self { files, named_by: Some(by) };
        }
        // A path that is not absolute is to be ignored, says the specification.
        let of_user = config_home.map(PathBuf::from).filter(|folder| folder.is_absolute());
        let of_user = of_user.or(home.map(|home| PathBuf::from(home).join(".config")));
        let files =
            std::iter::once(PathBuf::from(OF_MACHINE)).chain(of_user.map(|folder| folder.join(OF_USER)));
        Self { files: files.collect(), named_by: None }
    }
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was read.
    Read,
    /// There is none.
    Missing,
    /// This account may not read it: it is as if there were none.
    Unreadable,
}

/// The files, a later one before an earlier one, with what became of each.
pub type Files = Vec<(PathBuf, Outcome)>;

/// A key of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The names of the tables that it stands in: `fleet`, `query`.
    pub section: Vec<String>,
    /// Its name.
    pub key: String,
    /// What it is set to.
    pub value: Given,
    /// The file.
    pub file: Rc<Path>,
    /// The line of the file, from 1.
    pub line: usize,
}

/// A value of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Given {
    /// `true` or `false`.
    Switch(bool),
    /// A text, number or time, as the flag would have it.
    One(String),
    /// Several.
    List(Vec<String>),
}

impl fmt::Debug for Given {
    /// Without the texts: one may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(is) => write!(f, "Switch({is})"),
            Self::One(_) => f.write_str("One(..)"),
            Self::List(values) => write!(f, "List({})", values.len()),
        }
    }
}

impl Given {
    /// The values as texts.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Switch(is) => vec![is.to_string()],
            Self::One(text) => vec![text.clone()],
            Self::List(texts) => texts.clone(),
        }
    }
}

impl Entry {
    /// Where it stands: `/etc/spindoctor/spindoctor.toml:7`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// The section as the file has it: `[fleet.query]`.
    pub fn heading(&self) -> String {
        format!("[{}]", self.section.join("."))
    }
}

/// Reads all files, a later one behind an earlier one; with what became of each.
pub fn read(places: &Places) -> anyhow::Result<(Vec<Entry>, Files)> {
    let (mut entries, mut outcomes) = (Vec::new(), Vec::new());
    for path in &places.files {
        let outcome = match read_trusted(path, MOST_BYTES) {
            Ok(bytes) => {
                entries.extend(entries_of(&bytes, path)?);
                Outcome::Read
            }
            Err(error) if is_refusal(&error) => {
                return Err(anyhow!(
                    "the configuration file {} is not read: {}; --config {NO_FILE} goes without a file",
                    safe(&path.display().to_string()),
                    safe(&error.to_string())
                ));
            }
            Err(error) if places.named_by.is_some() => {
                let by = places.named_by.unwrap_or_default();
                return Err(anyhow::Error::new(error).context(format!(
                    "the configuration file {} of {by} cannot be read; check its path and permissions",
                    safe(&path.display().to_string())
                )));
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Outcome::Missing
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Outcome::Unreadable,
            Err(error) => {
                return Err(anyhow::Error::new(error))
                    .with_context(|| format!("the configuration file {} cannot be read", path.display()));
            }
        };
        outcomes.push((path.clone(), outcome));
    }
    Ok((entries, outcomes))
}

fn is_refusal(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.downcast_ref::<Refusal>().is_some())
}

/// All keys of a file's text, in its order.
pub fn entries_of(bytes: &[u8], path: &Path) -> anyhow::Result<Vec<Entry>> {
    let file: Rc<Path> = path.into();
    let shown = safe(&path.display().to_string());
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = line_at(bytes, error.valid_up_to());
        anyhow!("{shown}:{line}: not UTF-8; save the file as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text.as_bytes(), span.start));
        anyhow!("{shown}:{line}: not TOML: {}", safe(error.message()))
    })?;
    let mut entries = Vec::new();
    add(&mut entries, document.as_table(), &mut Vec::new(), (text, &file))?;
    Ok(entries)
}

fn line_at(text: &[u8], offset: usize) -> usize {
    1 + text[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

fn add(
    entries: &mut Vec<Entry>,
    table: &dyn TableLike,
    section: &mut Vec<String>,
    (text, file): (&str, &Rc<Path>),
) -> anyhow::Result<()> {
    for (key, item) in table.iter() {
        let at = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
        let line = at.map_or(1, |span| line_at(text.as_bytes(), span.start));
        let fail = |why: &str| anyhow!("{}:{line}: {}: {why}", safe(&file.display().to_string()), safe(key));
        if let Some(inner) = item.as_table_like() {
            section.push(key.to_owned());
            add(entries, inner, section, (text, file))?;
            section.pop();
            continue;
        }
        let value = match item {
            Item::Value(Value::Boolean(is)) => Given::Switch(*is.value()),
            Item::Value(Value::Array(array)) => {
                let values =
                    array.iter().map(|value| one(value).ok_or_else(|| fail("a list has texts or numbers")));
                Given::List(values.collect::<anyhow::Result<_>>()?)
            }
            Item::Value(value) => Given::One(one(value).ok_or_else(|| fail("a text or a number is wanted"))?),
            _ => bail!(fail("a section stands once: write it with one pair of brackets")),
        };
        entries.push(Entry {
            section: section.clone(),
            key: key.to_owned(),
            value,
            file: file.clone(),
            line,
        });
    }
    Ok(())
}

fn one(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        Value::Datetime(time) => Some(time.value().to_string()),
        Value::Boolean(_) | Value::Array(_) | Value::InlineTable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn entries(text: &str) -> Result<Vec<Entry>, String> {
        entries_of(text.as_bytes(), Path::new("/x.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_have_their_section_their_line_and_a_value_as_the_flag_would_have_it() {
        let text = "# a comment\n[record]\nkeep = \"14d\"\nwhen = [\n  'a > 1',\n  \"b > 2\",\n]\nno-stacks = true\n\n\
                    [fleet]\nquery.connections = 5_0\nfilter = { top = 2.5 }\n";
        let found: Vec<(String, String, Given, usize)> = entries(text)
            .unwrap()
            .into_iter()
            .map(|entry| (entry.heading(), entry.key, entry.value, entry.line))
            .collect();
        let one = |text: &str| Given::One(text.to_owned());
        let record = || "[record]".to_owned();
        assert_eq!(
            found,
            [
                (record(), "keep".to_owned(), one("14d"), 3),
                (record(), "when".to_owned(), Given::List(vec!["a > 1".to_owned(), "b > 2".to_owned()]), 4),
                (record(), "no-stacks".to_owned(), Given::Switch(true), 8),
                ("[fleet.query]".to_owned(), "connections".to_owned(), one("50"), 11),
                ("[fleet.filter]".to_owned(), "top".to_owned(), one("2.5"), 12),
            ]
        );
        assert_eq!(entries("\u{feff}[a]\nb = 1\n").unwrap()[0].line, 2);
    }

    #[test]
    fn what_is_wrong_is_one_line_with_its_place() {
        for (text, line, part) in [
            ("[record]\nkeep = 14d\n", 2, "not TOML"),
            ("[record\n", 1, "not TOML"),
            ("[a]\nb = 1\nb = 2\n", 3, "duplicate key"),
            ("[[record]]\nkeep = '1d'\n", 1, "stands once"),
            ("[a]\nb = [[1]]\n", 2, "a list has texts"),
            ("[a]\nb = [true]\n", 2, "a list has texts"),
        ] {
            let why = entries(text).unwrap_err();
            assert!(why.contains(&format!("/x.toml:{line}: ")) && why.contains(part), "{text}: {why}");
            assert!(!why.contains('\n'), "{why}");
        }
        let why = entries_of(b"[a]\n# \xff\n", Path::new("/x.toml")).unwrap_err().to_string();
        assert!(why.contains(":2: not UTF-8"), "{why}");
    }

    #[test]
    fn the_flag_counts_before_the_environment_and_that_before_the_usual_places() {
        let text = |text: &str| Some(OsString::from(text));
        let usual = Places::new(None, None, None, text("/home/a"));
        assert_eq!(
            usual.files,
            [Path::new(OF_MACHINE), Path::new("/home/a/.config/spindoctor/spindoctor.toml")]
        );
        let elsewhere = Places::new(None, None, text("/c"), text("/home/a"));
        assert_eq!(elsewhere.files[1], Path::new("/c/spindoctor/spindoctor.toml"));
        assert_eq!(Places::new(None, None, text("c"), text("/home/a")), usual);
        assert_eq!(Places::new(None, None, None, None).files, [Path::new(OF_MACHINE)]);
        let named = Places::new(text("f"), text("v"), None, text("/home/a"));
        assert_eq!((named.files, named.named_by), (vec![PathBuf::from("f")], Some("--config")));
        let named = Places::new(None, text("v"), None, None);
        assert_eq!((named.files, named.named_by), (vec![PathBuf::from("v")], Some(VARIABLE)));
        assert_eq!(Places::new(text(NO_FILE), text("v"), None, None).files, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_usual_file_may_be_missing_and_a_named_one_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "[doctor]\nduration = '5s'\n").unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o644)).unwrap();
        let places = |names: &[&str], named_by| Places {
            files: names.iter().map(|name| at(name)).collect(),
            named_by,
        };
        let (entries, outcomes) = read(&places(&["none", "a/b", "a"], None)).unwrap();
        assert_eq!(entries.len(), 1);
        let outcomes: Vec<Outcome> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Missing, Outcome::Missing, Outcome::Read]);
        let why = format!("{:#}", read(&places(&["none"], Some("--config"))).unwrap_err());
        assert!(why.contains("none of --config cannot be read"), "{why}");
        for named_by in [None, Some(VARIABLE)] {
            fs::set_permissions(at("a"), fs::Permissions::from_mode(0o666)).unwrap();
            let why = format!("{:#}", read(&places(&["a"], named_by)).unwrap_err());
            assert!(why.contains("run chmod go-w"), "{why}");
        }
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(at("a"), vec![b'#'; 1 + usize::try_from(MOST_BYTES).unwrap()]).unwrap();
        assert!(format!("{:#}", read(&places(&["a"], None)).unwrap_err()).contains("262144 bytes"));
    }
}
