//! The flags of `spindoctor mcp`.

use std::path::PathBuf;

use clap::Args;

use crate::common::flags::Connection;

/// `spindoctor mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// Answer questions about this recording, too, by its file's name; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub recording: Vec<PathBuf>,

    /// Ask no server: recordings only
    #[arg(long, requires = "recording")]
    pub no_server: bool,

    #[command(flatten)]
    pub connection: Connection,
}
