//! Results on standard output. A reader that closes the pipe early has what it wanted.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::Access;

/// Whoever read our output went away: a success, told as an error so that nothing more is done.
#[derive(Debug)]
pub(crate) struct ClosedPipe;

impl fmt::Display for ClosedPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the output's reader went away")
    }
}

impl std::error::Error for ClosedPipe {}

/// Writes a finished result to standard output.
pub(crate) fn print(result: &str) -> anyhow::Result<()> {
    print_bytes(result.as_bytes())
}

/// Writes a finished result that need not be text to standard output.
pub(crate) fn print_bytes(result: &[u8]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(result).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
        Err(error) => Err(anyhow::Error::new(error).context("could not write to standard output")),
        Ok(()) => Ok(()),
    }
}

/// Fails where a file could not be written, without touching it: better before the work than after it.
pub(crate) fn expect_writable(file: &Path) -> anyhow::Result<()> {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let asked = if file.exists() { file } else { folder };
    let writable = rustix::fs::access(asked, Access::WRITE_OK).map_err(std::io::Error::from);
    writable.and(if file.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(()) }).with_context(
        || format!("{} cannot be written; check that its folder exists and is writable", file.display()),
    )
}

/// Writes one line for people to standard error; a note that cannot be written is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
