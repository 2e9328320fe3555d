//! The command line: clap's types and their help. No behaviour.

use std::ffi::OsString;

use clap::{ArgAction, Args, Parser, Subcommand};

/// Finds where a running MySQL or MariaDB server loses time, shows who holds up whom, and says what to do.
#[derive(Debug, Parser)]
#[command(name = "spindoctor", version, disable_help_flag = true, disable_help_subcommand = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 findings at or above --fail-on, 2 could not do it.")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print help (-h means the server's host, as with any MySQL client)
    #[arg(long, action = ArgAction::Help, global = true, help_heading = "Help")]
    help: Option<bool>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell what a cause is, what it rests on and what to do; without a name, list all causes
    Explain(Explain),
}

/// `spindoctor explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the cause, as `doctor` prints it: row-lock-pileup
    pub(crate) cause: Option<String>,

    /// Print JSON (schema spindoctor.causes/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// The command line as the user typed it.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(arguments)
}
