//! The flags of `spindoctor package-files`.

use std::path::PathBuf;

use clap::Args;

/// `spindoctor package-files`.
#[derive(Debug, Args)]
pub struct PackageFiles {
    /// Where to: made where there is none
    pub folder: PathBuf,
}
