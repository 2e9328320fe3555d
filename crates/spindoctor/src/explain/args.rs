//! `spindoctor explain`.

use clap::Args;

/// `spindoctor explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Name of the cause, as `doctor` prints it: row-lock-pileup
    pub cause: Option<String>,

    /// Print JSON (schema spindoctor.causes/1)
    #[arg(long)]
    pub json: bool,
}
