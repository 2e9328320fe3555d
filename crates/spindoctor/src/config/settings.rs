//! What configuration files say, held against the flags that the program has.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{anyhow, bail};
use clap::{Arg, Args as _, Command};
use spindoctor_collect::mysql::Secret;
use spindoctor_page::safe::safe;

use super::file::{self, Entry, Files, Outcome, Places};
use crate::common::flags::Connection;
use crate::common::names::nearest;

/// The section of the connection flags of all commands.
pub const CONNECTION: &str = "connection";
/// Flags that a command has besides its own: none of them is a key.
const NO_KEYS: [&str; 3] = ["help", "version", "config"];
/// Flags that make a command change a server, load it, or stop its threads, where without them it only reads: they are given each
/// time. A file that was forgotten must not do it.
const EACH_TIME: [(&[&str], &str); 15] = [
    (&["tune"], "apply"),
    (&["tune"], "watch"),
    (&["tune"], "recover"),
    (&["tune"], "persist"),
    (&["cache"], "evict"),
    (&["indexes"], "try"),
    (&["fleet", "query"], "write"),
    (&["fleet", "query"], "yes"),
    (&["sweep"], "yes-this-server"),
    (&["sweep"], "prepare"),
    (&["stacks"], "source"),
    (&["stacks"], "when-inside"),
    (&["stacks"], "when-slower"),
    (&["record"], "when-inside"),
    (&["record"], "when-slower"),
];

/// What the files say, each key one that the program knows.
#[derive(Debug)]
pub struct Settings {
    entries: Vec<Entry>,
    /// The files, a later one before an earlier one, and what became of each.
    pub files: Files,
}

impl Settings {
    /// Reads the files. Sections and keys are checked; values are checked by the command that they are for.
    pub fn load(places: &Places, program: &Command) -> anyhow::Result<Self> {
        let (entries, files) = file::read(places)?;
        Self::checked(entries, files, program)
    }

    /// The same of a file's text.
    pub fn from_text(text: &[u8], program: &Command) -> anyhow::Result<Self> {
        Self::checked(file::entries_of(text, Path::new("spindoctor.toml"))?, Vec::new(), program)
    }

    /// The same of what was read.
    pub fn checked(entries: Vec<Entry>, files: Files, program: &Command) -> anyhow::Result<Self> {
        for entry in &entries {
            expect_known(entry, program)?;
        }
        Ok(Self { entries, files })
    }

    /// What holds for a command, by its names (`fleet`, `query`): each key once. Its own section counts before one of the commands
    /// above it, that before `[connection]`; in each a later file before an earlier one.
    pub fn of_command(&self, path: &[String], command: &Command) -> Vec<&Entry> {
        let keys: BTreeSet<&str> = keys(command).collect();
        let connection = [CONNECTION.to_owned()];
        let sections = std::iter::once(&connection[..]).chain((1..=path.len()).map(|depth| &path[..depth]));
        let mut chosen: BTreeMap<&str, &Entry> = BTreeMap::new();
        for section in sections {
            let own = self.entries.iter().filter(|entry| entry.section == section);
            chosen.extend(own.filter(|entry| keys.contains(&*entry.key)).map(|entry| (&*entry.key, entry)));
        }
        chosen.into_values().collect()
    }

    /// The files that are there and that this account cannot read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter(|(_, outcome)| *outcome == Outcome::Unreadable).map(|(path, _)| &**path)
    }

    /// True where no file says anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The flag of a key.
pub fn flag_of<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(key))
}

/// The keys that a command's section may have, of itself alone.
fn keys(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(Arg::get_long).filter(|name| !NO_KEYS.contains(name))
}

/// True for a flag whose value is shown to nobody: a password, what may hold one, an address that is itself the permission.
pub fn is_secret(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<Secret>()
        || matches!(arg.get_long(), Some("webhook" | "otlp"))
}

/// The commands that people type.
pub fn typed(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Each command that has flags of its own below this one, with its names.
pub fn leaves<'a>(command: &'a Command, path: &[String], found: &mut Vec<(Vec<String>, &'a Command)>) {
    for inner in typed(command) {
        let path = [path, &[inner.get_name().to_owned()]].concat();
        match inner.has_subcommands() {
            true => leaves(inner, &path, found),
            false => found.push((path, inner)),
        }
    }
}

/// The flags of a connection, by the name that they have as keys.
pub fn connection_command() -> Command {
    // -h is the host.
    Connection::augment_args(Command::new(CONNECTION)).disable_help_flag(true)
}

fn expect_known(entry: &Entry, program: &Command) -> anyhow::Result<()> {
    let (key, place) = (&*entry.key, safe(&entry.place()));
    let Some(first) = entry.section.first() else {
        let mut found = Vec::new();
        leaves(program, &[], &mut found);
        let having: Vec<String> = found
            .into_iter()
            .filter(|(_, command)| flag_of(command, key).is_some())
            .map(|(path, _)| format!("[{}]", path.join(".")))
            .collect();
        let below = match flag_of(&connection_command(), key) {
            Some(_) => format!("[{CONNECTION}]"),
            None if having.is_empty() => "[COMMAND], as in [record]".to_owned(),
            None => having.join(" or "),
        };
        bail!("{place}: {} stands in no section; write it below {below}", safe(key));
    };
    if *first == CONNECTION && entry.section.len() == 1 {
        let connection = connection_command();
        return expect_key(entry, &keys(&connection).collect(), "spindoctor help connection");
    }
    let mut command = program;
    for name in &entry.section {
        let Some(inner) = typed(command).find(|inner| inner.get_name() == name) else {
            let sections = typed(command).map(Command::get_name);
            let sections = sections.chain((command.get_name() == program.get_name()).then_some(CONNECTION));
            let hint = nearest(name, sections, "spindoctor help");
            bail!("{place}: there is no command for the section {}: {hint}", safe(&entry.heading()));
        };
        command = inner;
    }
    let mut below = Vec::new();
    match command.has_subcommands() {
        true => leaves(command, &entry.section, &mut below),
        false => below.push((entry.section.clone(), command)),
    }
    let is_each_time = |path: &[String]| {
        EACH_TIME.iter().any(|(command, flag)| path.iter().eq(command.iter()) && *flag == key)
    };
    if below.iter().any(|(path, _)| is_each_time(path)) {
        return Err(anyhow!(
            "{place}: {key} in {} is not taken from a file: it makes the command change a server, load it, or stop its \
             threads; take the line out, and give --{key} each time",
            entry.heading()
        ));
    }
    let names: BTreeSet<&str> = below.iter().flat_map(|(_, command)| keys(command)).collect();
    expect_key(entry, &names, &format!("spindoctor help {} --all", entry.section.join(" ")))
}

fn expect_key(entry: &Entry, names: &BTreeSet<&str>, list_command: &str) -> anyhow::Result<()> {
    if names.contains(&*entry.key) {
        return Ok(());
    }
    let hint = nearest(&entry.key, names.iter().copied(), list_command);
    bail!("{}: unknown key {} in {}: {hint}", safe(&entry.place()), safe(&entry.key), safe(&entry.heading()));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    fn settings(text: &str) -> Result<Settings, String> {
        let entries = file::entries_of(text.as_bytes(), Path::new("/x.toml")).unwrap();
        Settings::checked(entries, Vec::new(), &Cli::command()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_program_does_not_know_is_refused_with_what_was_meant() {
        for (text, expected) in [
            (
                "[record]\nmax_size = 1\n",
                "/x.toml:2: unknown key max_size in [record]: did you mean max-size?",
            ),
            (
                "[record]\nzzz = 1\n",
                "/x.toml:2: unknown key zzz in [record]: `spindoctor help record --all` lists all",
            ),
            ("[connection]\nusr = 1\n", "/x.toml:2: unknown key usr in [connection]: did you mean user?"),
            (
                "[recrod]\nkeep = 1\n",
                "/x.toml:2: there is no command for the section [recrod]: did you mean record?",
            ),
            (
                "[fleet.qery]\njson = true\n",
                "/x.toml:2: there is no command for the section [fleet.qery]: did you mean query?",
            ),
            (
                "[tune-guardian]\nx = 1\n",
                "/x.toml:2: there is no command for the section [tune-guardian]: did you mean tune?",
            ),
            ("keep = 1\n", "/x.toml:1: keep stands in no section; write it below [record]"),
            ("port = 1\n", "/x.toml:1: port stands in no section; write it below [connection]"),
            ("zzz = 1\n", "/x.toml:1: zzz stands in no section; write it below [COMMAND], as in [record]"),
            ("[doctor]\nhelp = true\n", "unknown key help in [doctor]"),
            ("[doctor]\nconfig = 'x'\n", "unknown key config in [doctor]"),
            ("[export]\nfile = 'x'\n", "unknown key file in [export]"),
            ("[doctor.x]\ny = 1\n", "there is no command for the section [doctor.x]"),
            ("[tune]\napply = true\n", "/x.toml:2: apply in [tune] is not taken from a file"),
            ("[stacks]\nsource = 'ptrace'\n", "/x.toml:2: source in [stacks] is not taken from a file"),
            ("[fleet]\nwrite = true\n", "write in [fleet] is not taken from a file"),
        ] {
            let why = settings(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
            assert!(!why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn the_flags_that_are_given_each_time_are_flags() {
        let program = Cli::command();
        let mut found = Vec::new();
        leaves(&program, &[], &mut found);
        for (path, flag) in EACH_TIME {
            let (_, command) = found.iter().find(|(names, _)| names.iter().eq(path.iter())).unwrap();
            assert!(flag_of(command, flag).is_some(), "{path:?} {flag}");
        }
    }

    #[test]
    fn a_commands_own_section_counts_first_and_a_later_file_before_an_earlier_one() {
        let one =
            "[connection]\nuser = 'c'\nhost = 'c'\n[fleet]\nuser = 'f'\nport = 1\n[fleet.query]\nport = 2\n";
        let mut entries = file::entries_of(one.as_bytes(), Path::new("/1")).unwrap();
        let two = "[connection]\nuser = 'd'\n[fleet.query]\nport = 3\n";
        entries.extend(file::entries_of(two.as_bytes(), Path::new("/2")).unwrap());
        let program = Cli::command();
        let settings = Settings::checked(entries, Vec::new(), &program).unwrap();
        let places = |path: &[&str]| -> Vec<String> {
            let mut command = &program;
            for name in path {
                command = command.find_subcommand(name).unwrap();
            }
            let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
            let chosen = settings.of_command(&path, command);
            chosen.iter().map(|entry| format!("{} {}", entry.key, entry.place())).collect()
        };
        assert_eq!(places(&["doctor"]), ["host /1:3", "user /2:2"]);
        assert_eq!(places(&["fleet", "query"]), ["port /2:4", "user /1:5"], "it has no flag --host");
        assert_eq!(places(&["fleet", "doctor"]), ["port /1:6", "user /1:5"]);
        assert_eq!(places(&["explain"]), Vec::<String>::new());
    }
}
