//! The flags of `spindoctor sweep`.

use clap::Args;

use super::Connection;

/// `spindoctor sweep`.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub(crate) connection: Connection,
}
