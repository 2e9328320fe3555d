//! The flags of `spindoctor config`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// `spindoctor config`.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Show each value and where it comes from: default, configuration file, option file, environment, flag
    Show(Box<Show>),
}

/// `spindoctor config show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Print JSON (schema spindoctor.config/1)
    #[arg(long)]
    pub json: bool,

    /// A command, with flags of it: record --keep 3d [default: what the files say of all commands]
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub line: Vec<String>,

    /// What `--config` names before the command.
    #[arg(skip)]
    pub file: Option<OsString>,
}
