//! A command line and the configuration files together: what the line does not say, a key of a file says.
//!
//! A key becomes its flag's default, so that clap parses it as it parses the flag. A key gives way where the line has the flag
//! itself, one that excludes it, or another of the same choice; it counts as if it were typed where the line lacks what it must
//! have. Values of a connection are no defaults: a DSN or an option file that the line names counts before them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches as _};
use spindoctor_collect::mysql::ConnectFlags;
use spindoctor_page::safe::safe;

use super::file::{Entry, Given};
use super::settings::{Settings, connection_command, flag_of, is_secret};
use crate::common::flags::Connection;
use crate::common::session::connect_flags;

/// Why there is nothing to do.
#[derive(Debug)]
pub enum Refused {
    /// The command line is wrong, or asks for help.
    Usage(clap::Error),
    /// A configuration file is wrong.
    Configuration(anyhow::Error),
}

impl From<clap::Error> for Refused {
    fn from(error: clap::Error) -> Self {
        Self::Usage(error)
    }
}

/// A command line with what the files say.
#[derive(Debug)]
pub struct Configured<'a> {
    /// What clap made of both.
    pub matches: ArgMatches,
    /// The command's names: `fleet`, `query`.
    pub path: Vec<String>,
    /// The keys that hold, by their names.
    pub used: BTreeMap<&'a str, &'a Entry>,
    /// What the files say of the connection: it counts after the command line's.
    pub connection: ConnectFlags,
}

impl Configured<'_> {
    /// What belongs to the command itself.
    pub fn own(&self) -> &ArgMatches {
        own(&self.matches, &self.path)
    }
}

/// The command that a line names, and where its own arguments begin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    path: Vec<String>,
    begin: usize,
}

impl Named {
    fn find(program: &Command, line: &[OsString]) -> Self {
        let mut named = Self { path: Vec::new(), begin: 1 };
        let (mut command, mut words) = (program, line.iter().enumerate().skip(1));
        while command.has_subcommands()
            && let Some((at, word)) = words.next()
        {
            if word == "--config" {
                words.next();
            } else if let Some(inner) = word.to_str().and_then(|word| command.find_subcommand(word)) {
                named.path.push(inner.get_name().to_owned());
                named.begin = at + 1;
                command = inner;
            } else if !word.as_encoded_bytes().starts_with(b"-") {
                break;
            }
        }
        named
    }
}

/// The file that `--config` names in a line.
pub fn config_flag(line: &[OsString]) -> Option<OsString> {
    let mut words = line.iter().skip(1).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().cloned();
        }
        if let Some(file) = word.as_encoded_bytes().strip_prefix(b"--config=") {
            return Some(OsStr::from_bytes(file).to_owned());
        }
    }
    None
}

/// True where the line names a command that configuration files have a say in: not the one that shows them, and none that people
/// do not type.
pub fn is_configured(program: &Command, line: &[OsString]) -> bool {
    let path = Named::find(program, line).path;
    let first = path.first().and_then(|first| program.find_subcommand(first));
    first.is_some_and(|command| command.get_name() != "config" && !command.is_hide_set())
}

/// Puts a command line and the files together.
pub fn configured<'a>(
    program: &Command,
    line: &[OsString],
    settings: &'a Settings,
) -> Result<Configured<'a>, Refused> {
    let Named { path, begin } = Named::find(program, line);
    let command = path.iter().try_fold(program, |command, name| command.find_subcommand(name));
    let Some(command) = command.filter(|command| !command.has_subcommands()) else {
        let matches = program.clone().try_get_matches_from(line)?;
        return Ok(Configured { matches, path, used: BTreeMap::new(), connection: ConnectFlags::default() });
    };
    let entries = settings.of_command(&path, command);
    check(command, &entries).map_err(Refused::Configuration)?;

    // A switch that a file turns on is turned off with `--switch=false`.
    let switches: Vec<&str> = entries
        .iter()
        .filter(|entry| entry.value == Given::Switch(true))
        .filter_map(|entry| flag_of(command, &entry.key))
        .filter(|arg| is_switch(arg))
        .map(|arg| arg.get_id().as_str())
        .collect();
    let program = changed(program.clone(), &path, &mut |mut command| {
        for id in &switches {
            command = command.mut_arg(id, with_value);
        }
        command
    });
    let (given, line, typed) = parsed(&program, line, begin, command, &entries)?;
    let holding = holding(command, &entries, own(&given, &path), &typed).map_err(Refused::Configuration)?;

    let flag = |entry: &Entry| flag_of(command, &entry.key);
    let (logins, others): (Vec<&Entry>, Vec<&Entry>) =
        holding.iter().copied().partition(|entry| flag(entry).is_some_and(is_login));
    let others = others.into_iter().filter(|entry| !typed.contains(&entry.key));
    // What the flag means without a value is no default that could be named.
    let (bare, defaults): (Vec<&Entry>, Vec<&Entry>) = others.partition(|entry| {
        entry.value == Given::Switch(true) && flag(entry).is_some_and(takes_value_or_none)
    });
    let line = with_words(&line, begin, command, &bare);
    let program = changed(program, &path, &mut |mut command| {
        for entry in &defaults {
            if let Some(id) = flag(entry).map(|arg| arg.get_id().as_str().to_owned()) {
                command = command.mut_arg(id, |arg| with_default(arg, &entry.value));
            }
        }
        command
    });
    let matches = program.try_get_matches_from(line)?;
    let connection = connection(&logins)?;
    let used = holding.into_iter().map(|entry| (&*entry.key, entry)).collect();
    Ok(Configured { matches, path, used, connection })
}

/// The line as clap reads it without any default of a file. Where something is missing that a file has, that is put in as if it
/// were typed: the line then, and the names of what was put in.
fn parsed(
    program: &Command,
    line: &[OsString],
    begin: usize,
    command: &Command,
    entries: &[&Entry],
) -> Result<(ArgMatches, Vec<OsString>, BTreeSet<String>), clap::Error> {
    let error = match program.clone().try_get_matches_from(line) {
        Ok(matches) => return Ok((matches, line.to_vec(), BTreeSet::new())),
        Err(error) => error,
    };
    let missing = missing(&error);
    let filling: Vec<&Entry> = entries.iter().copied().filter(|entry| missing.contains(&entry.key)).collect();
    if filling.is_empty() {
        return Err(error);
    }
    let filled = with_words(line, begin, command, &filling);
    let matches = program.clone().try_get_matches_from(&filled)?;
    Ok((matches, filled, filling.iter().map(|entry| entry.key.clone()).collect()))
}

/// The line with these keys as if they were typed, before what was.
fn with_words(line: &[OsString], begin: usize, command: &Command, entries: &[&Entry]) -> Vec<OsString> {
    let words = entries.iter().flat_map(|entry| words(flag_of(command, &entry.key), entry));
    line[..begin].iter().cloned().chain(words).chain(line[begin..].iter().cloned()).collect()
}

/// The long flags that an error says are missing: of `<--servers <FILE>|--discover <SERVER>>` both.
fn missing(error: &clap::Error) -> BTreeSet<String> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return BTreeSet::new();
    }
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(named)) => named.join(" "),
        Some(ContextValue::String(named)) => named.clone(),
        _ => String::new(),
    };
    let words = named.split(|c: char| !c.is_alphanumeric() && c != '-');
    words.filter_map(|word| Some(word.strip_prefix("--")?.to_owned())).collect()
}

/// The keys that hold beside what the line says. Two keys that exclude each other are an error.
fn holding<'a>(
    command: &Command,
    entries: &[&'a Entry],
    own: &ArgMatches,
    typed: &BTreeSet<String>,
) -> anyhow::Result<Vec<&'a Entry>> {
    // A group knows its flags once the command is built; -h is the host.
    let mut built = command.clone().disable_help_flag(true);
    built.build();
    let given: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| own.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine))
        .filter(|arg| !arg.get_long().is_some_and(|name| typed.contains(name)))
        .collect();
    let mut holding: Vec<(&Entry, &Arg)> = Vec::new();
    for entry in entries {
        let Some(arg) = flag_of(command, &entry.key) else { continue };
        let gives_way = given.iter().any(|other| {
            arg == *other || excludes(command, arg, other) || is_same_choice(&built, arg, other)
        });
        if gives_way {
            continue;
        }
        let is_on = |entry: &Entry| entry.value != Given::Switch(false);
        let other = holding.iter().find(|(entry, other)| is_on(entry) && excludes(command, arg, other));
        if let Some((other, _)) = other.filter(|_| is_on(entry)) {
            return Err(anyhow!(
                "{}: {} cannot be used with {} ({}): take one of them out",
                safe(&entry.place()),
                entry.key,
                other.key,
                safe(&other.place())
            ));
        }
        holding.push((*entry, arg));
    }
    Ok(holding.into_iter().map(|(entry, _)| entry).collect())
}

/// True where clap takes only one of the two; `no-X` excludes `X`.
fn excludes(command: &Command, one: &Arg, other: &Arg) -> bool {
    let says = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
    let denies = |one: &Arg, other: &Arg| {
        one.get_long()
            .and_then(|name| name.strip_prefix("no-"))
            .is_some_and(|name| other.get_long() == Some(name))
    };
    says(one, other) || says(other, one) || denies(one, other) || denies(other, one)
}

/// True where both are of a group that is declared as a choice; clap makes another one, with a capital, of each struct.
fn is_same_choice(built: &Command, one: &Arg, other: &Arg) -> bool {
    let mut choices =
        built.get_groups().filter(|group| group.get_id().as_str().starts_with(|c: char| c.is_lowercase()));
    choices.any(|group| {
        let has = |arg: &Arg| group.get_args().any(|id| id == arg.get_id());
        has(one) && has(other)
    })
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// True for a value of which a DSN or an option file may say something else.
fn is_login(arg: &Arg) -> bool {
    arg.get_help_heading() == Some("Connection") && !matches!(arg.get_long(), Some("pid" | "remote"))
}

/// A switch that may have the value `false`.
fn with_value(arg: Arg) -> Arg {
    let arg = arg.action(ArgAction::Set).num_args(0..=1).require_equals(true);
    arg.default_missing_value("true").default_value("false")
}

/// The flag with the key's value as its default.
fn with_default(arg: Arg, value: &Given) -> Arg {
    match value {
        Given::One(text) => arg.default_value(OsString::from(text)),
        Given::List(texts) => arg.default_values(texts.iter().map(OsString::from)),
        Given::Switch(true) => arg.default_value("true"),
        Given::Switch(false) => arg,
    }
}

fn takes_value_or_none(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.min_values() == 0) && !is_switch(arg)
}

fn takes_several(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
        || arg.get_value_delimiter().is_some()
        || arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

/// A key as it would be typed.
fn words(arg: Option<&Arg>, entry: &Entry) -> Vec<OsString> {
    let Some(arg) = arg else { return Vec::new() };
    let with = |text: &String| OsString::from(format!("--{}={text}", entry.key));
    match &entry.value {
        Given::One(text) => vec![with(text)],
        Given::List(texts) if arg.get_num_args().is_some_and(|range| range.max_values() > 1) => {
            std::iter::once(format!("--{}", entry.key).into())
                .chain(texts.iter().map(OsString::from))
                .collect()
        }
        Given::List(texts) => texts.iter().map(with).collect(),
        Given::Switch(true) => vec![format!("--{}", entry.key).into()],
        Given::Switch(false) => Vec::new(),
    }
}

/// Holds the values against the flags' own parsers: an error has the place of the first that is wrong.
pub fn check(command: &Command, entries: &[&Entry]) -> anyhow::Result<()> {
    for entry in entries {
        let Some(arg) = flag_of(command, &entry.key) else { continue };
        let wrong = match &entry.value {
            Given::Switch(_) if !is_switch(arg) && !takes_value_or_none(arg) => {
                "a value is wanted, not true or false"
            }
            Given::One(_) | Given::List(_) if is_switch(arg) => "it is a switch: true or false",
            Given::List(_) if !takes_several(arg) => "one value is wanted, not a list",
            _ => "",
        };
        let wrong = match wrong {
            "" => parse_error(command, arg, entry),
            wrong => Some(wrong.to_owned()),
        };
        if let Some(wrong) = wrong {
            return Err(anyhow!("{}: {} in {}: {wrong}", safe(&entry.place()), entry.key, entry.heading()));
        }
    }
    Ok(())
}

/// What the flag's parser says against a value. What else the command may need is not asked here.
fn parse_error(command: &Command, arg: &Arg, entry: &Entry) -> Option<String> {
    let alone = command.clone().no_binary_name(true).disable_help_flag(true);
    let error = alone.try_get_matches_from(words(Some(arg), entry)).err()?;
    let is_value = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::TooManyValues
            | ErrorKind::TooFewValues
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::NoEquals
            | ErrorKind::InvalidUtf8
    );
    if !is_value {
        return None;
    }
    if is_secret(arg) {
        return Some("its value is not one that the flag takes".to_owned());
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first: Vec<&str> = first.trim_start_matches("error: ").split_whitespace().collect();
    Some(safe(&first.join(" ")))
}

/// The values of a connection, parsed as the flags are.
fn connection(entries: &[&Entry]) -> Result<ConnectFlags, clap::Error> {
    let command = connection_command().no_binary_name(true);
    let words: Vec<OsString> =
        entries.iter().flat_map(|entry| words(flag_of(&command, &entry.key), entry)).collect();
    let matches = command.try_get_matches_from(words)?;
    Ok(connect_flags(&Connection::from_arg_matches(&matches)?))
}

/// A program in which the command of these names is another.
pub fn changed(command: Command, path: &[String], change: &mut dyn FnMut(Command) -> Command) -> Command {
    match path.split_first() {
        Some((first, rest)) => command.mut_subcommand(first, |inner| changed(inner, rest, change)),
        None => change(command),
    }
}

fn own<'a>(matches: &'a ArgMatches, path: &[String]) -> &'a ArgMatches {
    path.iter().fold(matches, |matches, name| matches.subcommand_matches(name).unwrap_or(matches))
}

#[cfg(test)]
mod tests;
