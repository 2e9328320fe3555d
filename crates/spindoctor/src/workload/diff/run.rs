//! Gets the two sides, compares them, shows how they differ.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use spindoctor_statements::{Span, changes};

use super::operand::Operand;
use super::{json, saved, text};
use crate::common::exit::ExitStatus;
use crate::common::{bundle, output, terminal};
use crate::workload::args::Workload as Asked;
use crate::workload::run::span;
use crate::workload::{live, stored};

/// What a SQLite file begins with (its format, section 1.3).
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
/// So much of a file says what it is.
const HEAD_BYTES: u64 = 64;

/// Compares.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    let before = match asked.diff.first() {
        Some(operand) => side(asked, operand)?,
        None => bail!("--diff needs a file to compare with"),
    };
    let after = match asked.diff.get(1) {
        Some(operand) => side(asked, operand)?,
        None => span(&live::look(asked)?),
    };
    let changes = changes(&before, &after);
    output::print(&match asked.json {
        true => json::render(&before, &after, &changes).context("could not write the comparison as JSON")?,
        false => {
            text::render(&before, &after, &changes, usize::from(asked.top), terminal::wide_look_of_stdout())
        }
    })?;
    Ok(ExitStatus::Done)
}

/// One side, by what its file holds.
fn side(asked: &Asked, operand: &Operand) -> anyhow::Result<Span> {
    let name = operand.file.display();
    let head = head(&operand.file).with_context(|| format!("could not read {name}"))?;
    if head.starts_with(SQLITE_MAGIC) || bundle::is_one(&operand.file) {
        return Ok(span(&stored::recording(asked, &operand.file, (operand.from, operand.to))?));
    }
    if operand.is_part() {
        bail!("{name} is not a recording, so it has no part from one time to another");
    }
    if saved::is_one(&head) {
        let mut bytes = Vec::new();
        File::open(&operand.file)
            .and_then(|file| file.take(saved::LARGEST_BYTES).read_to_end(&mut bytes))
            .with_context(|| format!("could not read {name}"))?;
        return saved::read(&bytes).with_context(|| format!("{name} cannot be compared"));
    }
    Ok(span(&stored::captured(asked, &operand.file)?))
}

/// The first bytes; none of what can be read only once.
fn head(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if std::fs::metadata(file)?.is_file() {
        File::open(file)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    }
    Ok(head)
}
