//! The additional suite: captures of other projects' servers and hosts, and what those projects' own programs make of
//! them. It runs where `../shared` lies beside the clone, as it does on CI; elsewhere each test says that it was skipped.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

mod host;
mod innodb_status;
mod option_file;
mod server;

use std::path::{Path, PathBuf};

/// A folder of the collection; None, with a line that says so, where there is none.
fn fixtures(below: &str) -> Option<PathBuf> {
    spindoctor_corpus::shared(&format!("fixtures/{below}"))
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}
