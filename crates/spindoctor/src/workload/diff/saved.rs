//! A span on disk, `spindoctor.statements/1`: what `workload --save` wrote. It has statements without literals, and counts.

use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use spindoctor_statements::Span;
use std::io::Write as _;

/// Name and version of the format.
const SCHEMA: &str = "spindoctor.statements/1";
/// No span is larger than this: 4,000 statements in 96 parts; a crafted file could be.
pub const LARGEST_BYTES: u64 = 256 << 20;
/// The two bytes that every gzip file begins with (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    span: &'a Span,
}

#[derive(Deserialize)]
struct Stored {
    schema: String,
    #[serde(default)]
    span: Option<Span>,
}

/// Writes a span; an existing file of the user's own is replaced.
pub fn write(file: &Path, span: &Span) -> anyhow::Result<()> {
    let json = serde_json::to_vec(&Written { schema: SCHEMA, span })
        .context("could not write the statements as JSON")?;
    let written = match file.extension().is_some_and(|extension| extension == "gz") {
        false => spindoctor_safefile::write(file, json),
        true => {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            gzip.write_all(&json)
                .and_then(|()| gzip.finish())
                .and_then(|bytes| spindoctor_safefile::write(file, bytes))
        }
    };
    written.with_context(|| format!("could not save the statements as {}", file.display()))
}

/// True for what may be such a file: JSON, or gzip.
pub fn is_one(head: &[u8]) -> bool {
    head.starts_with(&GZIP_MAGIC) || head.trim_ascii_start().starts_with(b"{")
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// It is something else, or damaged.
pub fn read(bytes: &[u8]) -> anyhow::Result<Span> {
    let unpacked;
    let json = match bytes.starts_with(&GZIP_MAGIC) {
        false => bytes,
        true => {
            unpacked =
                spindoctor_safefile::read_unpacked(MultiGzDecoder::new(bytes), bytes.len(), LARGEST_BYTES)
                    .context("it is a gzip file that is cut short or damaged")?;
            unpacked.as_slice()
        }
    };
    let stored: Stored = serde_json::from_slice(json)
        .context("it is neither a recording nor a list of statements; `workload --save FILE` writes one")?;
    if stored.schema != SCHEMA {
        bail!(
            "it says it holds {:?}; a comparison reads {SCHEMA:?}, recordings and process lists",
            stored.schema
        );
    }
    match stored.span {
        Some(span) if span.is_whole() => Ok(span),
        _ => bail!("it is damaged"),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_statements::Tally;

    use super::*;

    fn span() -> Span {
        let mut tally = Tally::new("db1");
        tally.look([("SELECT c FROM t WHERE id = ?", "commit")].into_iter());
        tally.finish(None, 1.0)
    }

    #[test]
    fn a_span_comes_back_from_both_kinds_of_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.json", "a.json.gz"] {
            let file = folder.path().join(name);
            write(&file, &span()).unwrap();
            let bytes = std::fs::read(&file).unwrap();
            assert!(is_one(&bytes) && bytes.starts_with(&GZIP_MAGIC) == name.ends_with("gz"));
            assert_eq!(read(&bytes).unwrap(), span());
        }
    }

    #[test]
    fn what_is_no_saved_span_is_refused_with_a_reason() {
        let refused = |bytes: &[u8]| format!("{:#}", read(bytes).unwrap_err());
        assert!(refused(b"{}").contains("neither a recording"), "{}", refused(b"{}"));
        assert!(refused(br#"{"schema": "spindoctor.workload/1"}"#).contains("spindoctor.workload/1"));
        assert!(refused(br#"{"schema": "spindoctor.statements/1"}"#).contains("damaged"));
        // A number that names no statement.
        let json = serde_json::to_string(&Written { schema: SCHEMA, span: &span() }).unwrap();
        let wrong = json.replace("\"seen\":{\"0\":1}", "\"seen\":{\"7\":1}");
        assert_ne!(wrong, json);
        assert!(refused(wrong.as_bytes()).contains("damaged"));
        assert!(refused(b"\x1f\x8b\x08\x00\x00").contains("cut short"));
    }
}
