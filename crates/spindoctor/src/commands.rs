//! The command line, and the one list of commands: help, dispatch and the tests of both follow it. A new command is a room
//! and a line here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use spindoctor_collect::mysql::{Secret, environment};
use spindoctor_page::safe::safe;

use crate::common::exit::ExitStatus;
use crate::common::flags::Connection;
use crate::common::output;
use crate::config::{Places, Refused, Settings};
use crate::help::{self, Page};
use crate::{
    bundle, cache, config, connections, doctor, explain, export, fleet, host, incident, indexes, lab, locks,
    manual, mcp, predict, record, stacks, sweep, top, tune, workload,
};

/// Finds where a MySQL or MariaDB server loses time, and says what to do.
#[derive(Debug, Parser)]
#[command(name = "spindoctor", version, disable_help_flag = true, disable_help_subcommand = true)]
#[command(arg_required_else_help = true, max_term_width = 90)]
#[command(help_template = "{about}\n\n{usage-heading} {usage}\n\nCommands:\n{subcommands}{after-help}")]
#[command(after_help = "`spindoctor help COMMAND`: its flags. `spindoctor help connection`: the server.\n\
    Exit codes: 0 done, 1 findings at or above --fail-on, 2 error.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Read this configuration file instead of the usual ones
    #[arg(long, value_name = "FILE", global = true, display_order = 999, hide_short_help = true)]
    config: Option<PathBuf>,

    /// Print help (-h HOST is the server's host)
    #[arg(long, action = ArgAction::HelpShort, global = true, display_order = 1000)]
    help: Option<bool>,
}

/// Makes the type of all commands and their dispatch of the list.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident($flags:ty) => $run:path,)*) => {
        /// The commands, in the order in which help names them.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$about])* $name(Box<$flags>),)*
        }

        /// Runs the command that was asked for.
        pub fn run(cli: Cli) -> anyhow::Result<ExitStatus> {
            match cli.command {
                $(Command::$name(asked) => $run(&asked),)*
            }
        }
    };
}

commands! {
    /// Diagnose a server: ranked findings, evidence, what to do
    Doctor(doctor::Doctor) => doctor::run,
    /// Show what the host grants the server: CPUs, PAUSE, memory, disks
    Host(host::Host) => host::run,
    /// Show what every thread does, without stopping one; flame graphs
    Stacks(stacks::Stacks) => stacks::run,
    /// Show who blocks whom, now, and what would free them
    Locks(locks::Locks) => locks::run,
    /// Show who fills the page cache; take logs out and keep them out
    Cache(cache::Cache) => cache::run,
    /// Show what accepting connections costs, and who connects
    Connections(connections::Connections) => connections::run,
    /// Record every second of a server, and each stall from before it
    Record(record::Record) => record::run,
    /// Watch a server, or look at any second of a recording
    Top(top::Top) => top::run,
    /// Show what statements spend their time on; compare two times
    Workload(workload::Workload) => workload::run,
    /// Show what index dives cost, per statement; try what spares them
    Indexes(indexes::Indexes) => indexes::run,
    /// Find better settings by trials on this server; keep or undo them
    Tune(tune::Tune) => tune::run,
    /// What `tune` starts beside itself: it puts the old values back when `tune` is killed
    #[command(hide = true)]
    TuneGuardian(tune::Guardian) => tune::guard,
    /// Measure a grid of settings and client counts with sysbench
    Sweep(sweep::Sweep) => sweep::run,
    /// Predict what other settings or hardware would do, by a model
    Predict(predict::Predict) => predict::run,
    /// Write an incident report from a recording: one HTML page
    Report(incident::Report) => incident::run,
    /// Write tables of a recording as Parquet or CSV
    Export(export::Export) => export::run,
    /// Pack a part of a recording into one file, to send to somebody
    Bundle(bundle::Bundle) => bundle::run,
    /// Ask, diagnose and watch many servers at once
    #[command(subcommand)]
    Fleet(fleet::Fleet) => fleet::run,
    /// Answer an assistant's questions (MCP, on standard input)
    Mcp(mcp::Mcp) => mcp,
    /// Explain a cause: problem, evidence, what to do; or list all
    Explain(explain::Explain) => explain::run,
    /// Show the configuration: each value and where it comes from
    #[command(subcommand)]
    Config(config::Config) => configuration,
    /// Start throw-away servers and reproduce a known problem on them
    #[command(subcommand)]
    Lab(lab::Lab) => lab::run,
    /// Write manual pages and completions, for packages
    #[command(hide = true)]
    PackageFiles(manual::PackageFiles) => package_files,
}

/// Writes what packages have beside the program, made from the commands of this list.
fn package_files(asked: &manual::PackageFiles) -> anyhow::Result<ExitStatus> {
    manual::run(asked, &help::program(Cli::command(), Page::All))
}

/// Shows the configuration of the commands of this list.
fn configuration(asked: &config::Config) -> anyhow::Result<ExitStatus> {
    config::run(asked, &help::program(Cli::command(), Page::Short))
}

/// Serves an assistant with what the other commands print.
fn mcp(asked: &mcp::Mcp) -> anyhow::Result<ExitStatus> {
    mcp::run(asked, printed)
}

/// What a command line prints, of the server of this connection.
fn printed(line: Vec<String>, connection: Connection) -> anyhow::Result<String> {
    let line = std::iter::once("spindoctor".to_owned()).chain(line).map(OsString::from);
    let mut cli = parse(line).map_err(|error| anyhow::anyhow!(error.render().to_string()))?;
    match &mut cli.command {
        Command::Doctor(asked) => asked.connection = connection,
        Command::Host(asked) => asked.connection = connection,
        Command::Locks(asked) => asked.connection = connection,
        Command::Workload(asked) => asked.connection = connection,
        Command::Report(_) | Command::Explain(_) => {}
        _ => anyhow::bail!("it is not a question"),
    }
    output::captured(|| run(cli).map(drop))
}

/// The command line as the user typed it.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let (page, line) = help::asked(arguments);
    from_matches(&help::program(Cli::command(), page).try_get_matches_from(with_long_password(line))?)
}

/// The same, with what configuration files say where the user typed nothing.
pub fn parse_configured(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Refused> {
    let (page, line) = help::asked(arguments);
    let line = with_long_password(line);
    let program = help::program(Cli::command(), page);
    let typed = program.clone().try_get_matches_from(&line);
    if let Some(refused) = behind_password(&line).and_then(|word| taken_for(&typed, word)) {
        return Err(Refused::Usage(clap::Error::raw(ErrorKind::InvalidValue, refused)));
    }
    // Help needs no file, and nothing that a file says makes an unknown flag one that is known.
    let is_final = typed.as_ref().is_err_and(|error| {
        !matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::TooManyValues)
    });
    if is_final || !config::is_configured(&program, &line) {
        return Ok(from_matches(&typed?)?);
    }
    let places = Places::from_process(config::config_flag(&line));
    let settings = Settings::load(&places, &program).map_err(Refused::Configuration)?;
    for path in settings.unreadable() {
        let path = safe(&path.display().to_string());
        output::note(&format!(
            "spindoctor: this account cannot read {path}: what it says does not hold here"
        ));
    }
    if settings.is_empty() {
        return Ok(from_matches(&typed?)?);
    }
    let configured = config::configured(&program, &line, &settings)?;
    environment::keep_configured(configured.connection);
    Ok(from_matches(&configured.matches)?)
}

/// Whether a configuration file of this text has nothing that the program does not take, with this command line.
pub fn takes_configuration(text: &[u8], line: &[&str]) -> bool {
    let program = Cli::command();
    let line: Vec<OsString> = line.iter().map(OsString::from).collect();
    Settings::from_text(text, &program)
        .is_ok_and(|settings| config::configured(&program, &line, &settings).is_ok())
}

fn from_matches(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    if let Command::Config(asked) = &mut cli.command {
        let config::Config::Show(show) = asked.as_mut();
        show.file = cli.config.take().map(PathBuf::into_os_string);
    }
    Ok(cli)
}

/// `-pSECRET` as `--password=SECRET` and `-p` as `--password`: MySQL's clients take the value attached or
/// not at all, a form of short option that clap does not have.
fn with_long_password(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut options_ended = false;
    arguments
        .into_iter()
        .map(|argument| {
            options_ended |= argument == "--";
            match argument.to_str() {
                Some("-p") if !options_ended => "--password".into(),
                Some(text) if !options_ended && text.starts_with("-p") => {
                    format!("--password={}", &text[2..]).into()
                }
                _ => argument,
            }
        })
        .collect()
}

/// A password that was typed behind a space would be looked up as a host, and shown in the error about it.
const PASSWORD_BEHIND_SPACE: &str = "a password stands right behind -p, without a space, and -p alone asks for it: what stands \
    behind the space would be taken for the server and is not used; name a server with -h\n";
/// And it would be sent to all servers as the statement.
const STATEMENT_BEHIND_PASSWORD: &str = "a password stands right behind -p, without a space, and -p alone asks for it: what \
    stands behind the space would be taken for the statement and is not sent; write the statement before -p\n";

/// Words that statements begin with (MySQL 8.4 Reference Manual, chapter 15).
const BEGIN_OF_STATEMENTS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "BINLOG",
    "CACHE",
    "CALL",
    "CHANGE",
    "CHECK",
    "CHECKSUM",
    "CLONE",
    "CREATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DO",
    "DROP",
    "EXPLAIN",
    "FLUSH",
    "GRANT",
    "HELP",
    "IMPORT",
    "INSERT",
    "INSTALL",
    "KILL",
    "LOAD",
    "OPTIMIZE",
    "PURGE",
    "RENAME",
    "REPAIR",
    "REPLACE",
    "RESET",
    "REVOKE",
    "SELECT",
    "SET",
    "SHOW",
    "START",
    "STOP",
    "TABLE",
    "TRUNCATE",
    "UNINSTALL",
    "UPDATE",
    "VALUES",
    "WITH",
];

/// The word behind a `-p` without a value, where it is not a flag, a URL or a DSN.
fn behind_password(line: &[OsString]) -> Option<&str> {
    let line = line.iter().take_while(|argument| *argument != "--");
    let mut pairs = line.clone().zip(line.skip(1));
    let (_, word) = pairs.find(|(flag, _)| *flag == "--password")?;
    word.to_str().filter(|word| !word.starts_with('-') && !word.contains("://") && !word.contains('='))
}

/// What is said of a word that would be the server's address, the statement, or a part of the complaint about the line; none
/// of one that is nothing of this.
fn taken_for(typed: &Result<ArgMatches, clap::Error>, word: &str) -> Option<&'static str> {
    match typed {
        Ok(matches) if target(matches).is_some_and(|target| target.expose() == word) => {
            Some(PASSWORD_BEHIND_SPACE)
        }
        Ok(matches) if statement(matches).is_some_and(|statement| statement == word) => {
            (!is_statement(word)).then_some(STATEMENT_BEHIND_PASSWORD)
        }
        Ok(_) => None,
        Err(error) => {
            (error.use_stderr() && error.to_string().contains(word)).then_some(PASSWORD_BEHIND_SPACE)
        }
    }
}

/// True for what can only be a statement: a word that one begins with, and more.
fn is_statement(text: &str) -> bool {
    let has_more = text.trim().contains(char::is_whitespace);
    has_more && BEGIN_OF_STATEMENTS.contains(&spindoctor_sql::kind(text).as_str())
}

/// The server's address of the command that was typed.
fn target(matches: &ArgMatches) -> Option<&Secret> {
    match matches.subcommand() {
        Some((_, inner)) => target(inner),
        None => matches.try_get_one::<Secret>("target").ok().flatten(),
    }
}

/// The statement of the command that was typed, where it takes one without a flag.
fn statement(matches: &ArgMatches) -> Option<&String> {
    match matches.subcommand() {
        Some((_, inner)) => statement(inner),
        None => matches.try_get_one::<String>("sql").ok().flatten(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn doctor(line: &str) -> Result<doctor::Doctor, String> {
        let arguments = format!("spindoctor doctor {line}");
        match parse(arguments.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())?.command {
            Command::Doctor(doctor) => Ok(*doctor),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clap_finds_nothing_to_object_to() {
        Cli::command().debug_assert();
    }

    #[test]
    fn connection_flags_are_those_of_the_mysql_client() {
        let asked = doctor("-h db17 -P 3307 -u app -psecret --login-path=prod mysql://x").unwrap();
        let connection = asked.connection;
        assert_eq!(connection.host.as_deref(), Some("db17"));
        assert_eq!(connection.port, Some(3307));
        assert_eq!(connection.login.user.as_deref(), Some("app"));
        assert_eq!(connection.login.password, Some(Some(Secret::from("secret"))));
        assert_eq!(connection.login.login_path.as_deref(), Some("prod"));
        assert_eq!(connection.target, Some(Secret::from("mysql://x")));
        assert_eq!(doctor("-hdb17").unwrap().connection.host.as_deref(), Some("db17"));
    }

    #[test]
    fn a_password_without_a_value_is_asked_for_and_never_takes_the_next_word() {
        let asked = doctor("-p mysql://x").unwrap().connection;
        assert_eq!((asked.login.password, asked.target), (Some(None), Some(Secret::from("mysql://x"))));
        let password = |line| doctor(line).unwrap().connection.login.password;
        assert_eq!(password("--password x"), Some(None));
        assert_eq!(password("--password="), Some(Some(Secret::from(""))));
        assert_eq!(password(""), None);
    }

    #[test]
    fn a_word_behind_a_password_and_a_space_is_refused_without_the_word() {
        let refused = |line: &str| {
            let arguments = format!("spindoctor {line}");
            match parse_configured(arguments.split_whitespace().map(OsString::from)) {
                Err(Refused::Usage(usage)) => usage.to_string(),
                other => panic!("{line}: {other:?}"),
            }
        };
        for line in [
            "doctor -p topsecret",
            "doctor -u app --password topsecret --no-defaults",
            "doctor db17 -p topsecret",
        ] {
            let why = refused(line);
            assert!(!why.contains("topsecret") && why.trim_end().lines().count() == 1, "{line}: {why}");
            assert!(why.contains("right behind -p") && why.contains("with -h"), "{line}: {why}");
        }
        for line in
            ["doctor -p mysql://app@db17/", "doctor -p h=db17", "doctor db17 -p", "doctor -h db17 -p -u app"]
        {
            let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            assert_eq!(behind_password(&with_long_password(arguments)), None, "{line}");
        }
    }

    #[test]
    fn a_password_behind_a_space_is_not_sent_to_all_servers_as_the_statement() {
        let parsed = |word: &str| {
            let line = ["spindoctor", "fleet", "query", "--servers", "list", "-u", "app", "-p", word];
            parse_configured(line.map(OsString::from))
        };
        for word in ["topsecret", "Select2024!", "correct horse", "show"] {
            let why = match parsed(word) {
                Err(Refused::Usage(usage)) => usage.to_string(),
                other => panic!("{word}: {other:?}"),
            };
            assert!(!why.contains(word) && why.contains("is not sent"), "{word}: {why}");
        }
        for statement in ["SELECT @@version", "(select 1)", "/* ops */ SHOW REPLICA STATUS"] {
            assert!(parsed(statement).is_ok(), "{statement}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_answered_with_its_flag_and_its_range() {
        let why = |line: &str| {
            let arguments = format!("spindoctor {line}");
            parse(arguments.split_whitespace().map(OsString::from)).unwrap_err().to_string()
        };
        for (line, flag, range) in [
            ("doctor -P abc", "--port <PORT>", "from 0 to 65535"),
            ("doctor -P 70000", "--port <PORT>", "from 0 to 65535"),
            ("doctor --pid ''", "--pid <PID>", "from 0 to 4294967295"),
            ("sweep --threads 1,0", "--threads <LIST>", "from 1 to 10000"),
            ("workload --top many", "--top <COUNT>", "from 1 to 1000"),
        ] {
            let why = why(line);
            assert!(why.contains(flag) && why.contains(&format!("write a whole number {range}")), "{why}");
        }
    }

    #[test]
    fn no_flag_answers_in_the_words_of_the_library_that_reads_numbers() {
        fn lines(command: &clap::Command, above: &str, found: &mut Vec<String>) {
            for inner in command.get_subcommands() {
                let name = format!("{above} {}", inner.get_name());
                lines(inner, &name, found);
                let flags = inner.get_arguments().filter(|arg| arg.get_action().takes_values());
                found
                    .extend(flags.filter_map(clap::Arg::get_long).map(|flag| format!("{name} --{flag}=abc")));
            }
        }
        let mut found = Vec::new();
        lines(&Cli::command(), "spindoctor", &mut found);
        assert!(found.len() > 200, "{found:?}");
        for line in found {
            let Err(error) = parse(line.split(' ').map(OsString::from)) else { continue };
            let why = error.to_string();
            assert!(!why.contains("invalid digit") && !why.contains("invalid float"), "{line}: {why}");
        }
    }

    #[test]
    fn a_duration_has_a_unit_and_bounds() {
        let of = |text: &str| doctor(&format!("--duration {text}")).map(|asked| asked.duration);
        assert_eq!(of("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(of("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(of("3"), Ok(Duration::from_secs(3)));
        for (wrong, reason) in [
            ("3d", "is not a unit of time"),
            ("s", "is not a number"),
            ("0s", "between"),
            ("1e99s", "between"),
        ] {
            assert!(of(wrong).unwrap_err().contains(reason), "{wrong}");
        }
    }

    #[test]
    fn formats_and_sources_that_exclude_each_other_are_refused() {
        for line in ["--json --nagios", "--window w --remote", "--window w --pid 1", "--remote --pid 1"] {
            assert!(doctor(line).unwrap_err().contains("cannot be used with"), "{line}");
        }
    }
}
