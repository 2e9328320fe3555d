//! Each value of a command and where it comes from; pure but for the option files, which are read.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches as _};
use spindoctor_collect::mysql::origins::{self, origins};
use spindoctor_collect::mysql::{ConnectFlags, Environment};

use super::file::{Entry, Files};
use super::line::{Configured, Refused, changed, check, configured};
use super::settings::{CONNECTION, Settings, connection_command, flag_of, is_secret, leaves};
use crate::common::flags::{Connection, Login};
use crate::common::session::{connect_flags, login_flags};

/// Stands for a value that is not shown.
const HIDDEN: &str = "***";

/// What is shown.
#[derive(Debug)]
pub struct Report {
    /// The files, a later one before an earlier one, with what became of each.
    pub files: Files,
    /// The values, command by command, in the order of the flags.
    pub values: Vec<Value>,
}

/// One value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The command, as it is typed: `fleet query`.
    pub command: String,
    /// The flag's name.
    pub name: String,
    /// What it is; nothing where it is not set, `***` for what is secret.
    pub values: Vec<String>,
    /// Where that comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The program.
    Default,
    /// A configuration file.
    File {
        /// `/etc/spindoctor/spindoctor.toml:7`
        place: String,
        /// `[record]`
        section: String,
    },
    /// An option file of MySQL's.
    OptionFile {
        /// `/etc/my.cnf line 12`
        place: String,
        /// `client`
        group: String,
    },
    /// A variable of the environment.
    Environment(&'static str),
    /// The command line, as a flag.
    Flag,
    /// The command line, as a DSN or URL.
    Target,
}

impl Origin {
    fn from_entry(entry: &Entry) -> Self {
        Self::File { place: entry.place(), section: entry.heading() }
    }
}

impl Report {
    /// What the files say of every command, each value held against its flag.
    pub fn of_files(settings: &Settings, program: &Command) -> anyhow::Result<Self> {
        let connection = connection_command();
        let mut commands = vec![(vec![CONNECTION.to_owned()], &connection)];
        leaves(program, &[], &mut commands);
        let mut values = Vec::new();
        for (path, command) in commands {
            let entries = settings.of_command(&path, command);
            check(command, &entries)?;
            // What holds for all is listed once.
            let own = entries
                .into_iter()
                .filter(|entry| (entry.section[0] == CONNECTION) == (path[0] == CONNECTION));
            values.extend(own.map(|entry| Value {
                command: path.join(" "),
                name: entry.key.clone(),
                values: hidden(flag_of(command, &entry.key), entry.value.texts()),
                origin: Origin::from_entry(entry),
            }));
        }
        Ok(Self { files: settings.files.clone(), values })
    }

    /// Every value of the command that the line names.
    pub fn of_line(settings: &Settings, program: &Command, line: &[OsString]) -> Result<Self, Refused> {
        let mut commands = Vec::new();
        leaves(program, &[], &mut commands);
        let asking = commands
            .iter()
            .fold(program.clone(), |program, (path, _)| changed(program, path, &mut needing_nothing));
        let configured = configured(&asking, line, settings)?;
        let mut values = Vec::new();
        if let Some((path, command)) = commands.iter().find(|(path, _)| *path == configured.path) {
            let found = connection(command, configured.own(), &configured).map_err(Refused::Configuration)?;
            let mut found: BTreeMap<&str, origins::Value> =
                found.into_iter().map(|value| (value.name, value)).collect();
            for (arg, name) in command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?))) {
                let (shown, origin) = match found.remove(name) {
                    Some(value) => of_connection(value, &configured),
                    None => {
                        let (shown, origin) = of_flag(arg, name, &configured);
                        (hidden(Some(arg), shown), origin)
                    }
                };
                values.push(Value { command: path.join(" "), name: name.to_owned(), values: shown, origin });
            }
            // What only option files and DSNs say.
            let others = found.into_values().filter(|value| value.origin != origins::Origin::Default);
            values.extend(others.map(|value| {
                let name = value.name.to_owned();
                let (values, origin) = of_connection(value, &configured);
                Value { command: path.join(" "), name, values, origin }
            }));
        }
        Ok(Self { files: settings.files.clone(), values })
    }
}

/// A command whose values can be shown before all is there that it needs.
fn needing_nothing(command: Command) -> Command {
    let groups: Vec<String> = command.get_groups().map(|group| group.get_id().as_str().to_owned()).collect();
    let command = command.mut_args(|arg| arg.required(false));
    groups.iter().fold(command, |command, group| command.mut_group(group, |group| group.required(false)))
}

fn hidden(arg: Option<&Arg>, values: Vec<String>) -> Vec<String> {
    match arg.is_some_and(is_secret) && !values.is_empty() {
        true => vec![HIDDEN.to_owned()],
        false => values,
    }
}

/// The values of the connection, where the command makes one: they come from more places than flags and files.
fn connection(
    command: &Command,
    own: &ArgMatches,
    configured: &Configured<'_>,
) -> anyhow::Result<Vec<origins::Value>> {
    let has = |key: &str| flag_of(command, key).is_some();
    let flags = match (has("host"), has("login-path")) {
        (true, _) => connect_flags(&Connection::from_arg_matches(own)?),
        (false, true) => ConnectFlags {
            port: own.get_one::<u16>("port").copied(),
            ..login_flags(&Login::from_arg_matches(own)?)
        },
        (false, false) => return Ok(Vec::new()),
    };
    let environment =
        Environment { configured: configured.connection.clone(), ..Environment::from_process() };
    let mut found = origins(&flags, &environment)?;
    // Of a fleet, lists say who the servers are, and its limits are flags with defaults of their own.
    found.retain(|value| {
        has("host") || !["host", "socket", "connect-timeout", "query-timeout"].contains(&value.name)
    });
    Ok(found)
}

fn of_connection(value: origins::Value, configured: &Configured<'_>) -> (Vec<String>, Origin) {
    let origin = match value.origin {
        origins::Origin::Configured => {
            configured.used.get(value.name).map_or(Origin::Default, |entry| Origin::from_entry(entry))
        }
        origins::Origin::Default => Origin::Default,
        origins::Origin::Flag => Origin::Flag,
        origins::Origin::Target => Origin::Target,
        origins::Origin::OptionFile { place, group } => Origin::OptionFile { place, group },
        origins::Origin::Environment(variable) => Origin::Environment(variable),
    };
    (value.shown.into_iter().collect(), origin)
}

fn of_flag(arg: &Arg, name: &str, configured: &Configured<'_>) -> (Vec<String>, Origin) {
    if let Some(entry) = configured.used.get(name) {
        return (entry.value.texts(), Origin::from_entry(entry));
    }
    let (own, id) = (configured.own(), arg.get_id().as_str());
    let raw = own.get_raw(id).into_iter().flatten();
    let origin = match own.value_source(id) {
        Some(ValueSource::CommandLine) => Origin::Flag,
        _ => Origin::Default,
    };
    (raw.map(|value| value.to_string_lossy().into_owned()).collect(), origin)
}
