//! A window on disk, `spindoctor.window/1`: `{"schema": ..., "window": ...}`, gzip where the name ends in `.gz`. A
//! saved window can be diagnosed again, elsewhere, by a later version.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use spindoctor_model::{Elements, Profile, Window};

/// Name and version of the format.
const SCHEMA: &str = "spindoctor.window/1";
/// No window is larger than this; a crafted gzip file could be.
const LARGEST_BYTES: u64 = 1 << 30;
/// Those of a day, one a second; a window of an hour is long. One that holds nothing is two bytes of JSON (`{}`) and four
/// kilobytes of memory, so that a file of a few kilobytes could take all that a host has.
const MOST_SAMPLES: usize = 86_400;
/// The two bytes that every gzip file begins with (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    window: &'a Window,
}

#[derive(Deserialize)]
struct Labelled {
    schema: String,
}

/// How many samples there are, before memory is taken for them.
#[derive(Deserialize)]
struct Counted {
    window: CountedWindow,
}

#[derive(Deserialize)]
struct CountedWindow {
    #[serde(default)]
    samples: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Stored {
    window: Window,
}

/// Writes a window; an existing file is replaced.
pub fn save(path: &Path, window: &Window) -> anyhow::Result<()> {
    let json = serde_json::to_vec(&Written { schema: SCHEMA, window })
        .context("could not write the window as JSON")?;
    let written = if path.extension().is_some_and(|extension| extension == "gz") {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&json)
            .and_then(|()| gzip.finish())
            .and_then(|bytes| spindoctor_safefile::write(path, bytes))
    } else {
        spindoctor_safefile::write(path, json)
    };
    written.with_context(|| format!("could not save the window as {}", path.display()))
}

/// Reads a window that [`save`] wrote.
pub fn load(path: &Path) -> anyhow::Result<Window> {
    let name = path.display();
    let bytes = spindoctor_safefile::read_named(path, LARGEST_BYTES)
        .with_context(|| format!("could not read the window file {name}"))?;
    from_bytes(&bytes).with_context(|| format!("{name} cannot be used"))
}

/// Reads the bytes of a file that [`save`] wrote.
pub fn from_bytes(bytes: &[u8]) -> anyhow::Result<Window> {
    let unpacked;
    let json = if bytes.starts_with(&GZIP_MAGIC) {
        unpacked = spindoctor_safefile::read_unpacked(MultiGzDecoder::new(bytes), bytes.len(), LARGEST_BYTES)
            .context("it is a gzip file that is cut short or damaged")?;
        unpacked.as_slice()
    } else {
        bytes
    };
    let schema = serde_json::from_slice::<Labelled>(json)
        .context("it is not a window file; `doctor --save-window FILE` writes one")?
        .schema;
    if schema != SCHEMA {
        bail!("it says it holds {schema:?}; this version of spindoctor reads {SCHEMA:?} only");
    }
    let counted: Counted = serde_json::from_slice(json).context("it is damaged")?;
    if counted.window.samples.len() > MOST_SAMPLES {
        bail!(
            "it holds {} samples, and no window has more than {MOST_SAMPLES}",
            counted.window.samples.len()
        );
    }
    let elements: Elements = serde_json::from_slice(json).context("it is damaged")?;
    if let Err(because) = elements.check(json.len()) {
        bail!("it is damaged: {because}");
    }
    let stored: Stored = serde_json::from_slice(json).context("it is damaged")?;
    if stored.window.samples.is_empty() {
        bail!("it holds no sample, so there is nothing to diagnose");
    }
    if let Some(Err(because)) = stored.window.profile.value().map(Profile::check) {
        bail!("it is damaged: {because}");
    }
    Ok(stored.window)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use spindoctor_model::Sample;

    use super::*;

    fn window() -> Window {
        Window {
            samples: vec![Sample::default(), Sample { at_s: 10.0, ..Sample::default() }],
            ..Window::default()
        }
    }

    fn refused(content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.json");
        fs::write(&path, content).unwrap();
        format!("{:#}", load(&path).unwrap_err())
    }

    #[test]
    fn a_window_comes_back_from_both_kinds_of_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["w.json", "w.json.gz"] {
            let path = folder.path().join(name);
            save(&path, &window()).unwrap();
            assert_eq!(load(&path).unwrap(), window());
            assert_eq!(fs::read(&path).unwrap().starts_with(&GZIP_MAGIC), name.ends_with("gz"));
        }
    }

    #[test]
    fn a_newer_schema_is_refused_by_name() {
        let message = refused(br#"{"schema": "spindoctor.window/2", "window": []}"#);
        assert!(message.contains(r#"says it holds "spindoctor.window/2""#), "{message}");
    }

    #[test]
    fn what_is_no_window_file_is_refused_with_a_reason() {
        assert!(refused(b"").contains("is not a window file"));
        assert!(refused(b"{}").contains("is not a window file"));
        assert!(
            refused(br#"{"schema": "spindoctor.window/1", "window": {"samples": 3}}"#).contains("is damaged")
        );
        assert!(refused(br#"{"schema": "spindoctor.window/1", "window": {}}"#).contains("holds no sample"));
        assert!(refused(b"\x1f\x8b\x08\x00\x00").contains("cut short or damaged"));
    }

    #[test]
    fn a_small_file_of_very_many_empty_samples_is_refused_before_it_takes_memory() {
        let samples = vec!["{}"; MOST_SAMPLES + 1].join(",");
        let json = format!(r#"{{"schema": "{SCHEMA}", "window": {{"samples": [{samples}]}}}}"#);
        let because = refused(json.as_bytes());
        assert!(because.contains("it holds 86401 samples"), "{because}");
    }

    #[test]
    fn so_is_one_of_very_many_empty_elements_of_any_list_and_one_that_unpacks_to_very_much() {
        let stacks = vec!["{}"; 100_000].join(",");
        let profile =
            format!(r#"{{"available": {{"at_s": 0, "took_ms": 0, "value": {{"stacks": [{stacks}]}}}}}}"#);
        let json =
            format!(r#"{{"schema": "{SCHEMA}", "window": {{"samples": [{{}}], "profile": {profile}}}}}"#);
        let because = refused(json.as_bytes());
        assert!(because.contains("100001 elements"), "{because}");
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![b' '; 8 << 20]).unwrap();
        let because = refused(&bomb.finish().unwrap());
        assert!(because.contains("it unpacks to more than"), "{because}");
    }
}
