//! Results on standard output. A reader that closes the pipe early has what it wanted.

use std::fmt;
use std::io::{ErrorKind, Write as _};

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
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(result.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ClosedPipe.into()),
        Err(error) => Err(anyhow::Error::new(error).context("could not write to standard output")),
        Ok(()) => Ok(()),
    }
}

/// Writes one line for people to standard error; a note that cannot be written is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
