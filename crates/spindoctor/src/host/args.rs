//! `spindoctor host`.

use std::path::PathBuf;

use clap::Args;

use crate::common::flags::Connection;

/// `spindoctor host`.
#[derive(Debug, Args)]
pub struct Host {
    /// Show the host of a saved window instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote"])]
    pub window: Option<PathBuf>,

    /// Print JSON (schema spindoctor.host/1)
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub connection: Connection,
}
