//! `spindoctor config`: the configuration file, beside option files, the environment and flags; where each value comes from.
//!
//! A key of the file is the name of a flag, and its value becomes that flag's default: `file` reads the files, `settings`
//! holds them against the program's own flags, `line` puts them together with a command line, and `run` shows the result.
//! No flag is declared here: everything is read from clap's `Command`.

mod args;
mod file;
mod json;
mod line;
mod run;
mod settings;
mod text;
mod view;

pub use args::Config;
pub use file::Places;
pub use line::{Refused, config_flag, configured, is_configured};
pub use run::run;
pub use settings::Settings;
