//! A bundle: an archive (tar, usually within gzip) of a part of a recording and of texts about it, for somebody else to look
//! at.
//!
//! It may come from anywhere: it is recognised by its content, nothing of it is written but its recording, into a
//! file of this program's own choosing, and what is read of it is bounded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_page::safe::safe;
use tar::{Archive, EntryType, Header};

use super::passing::PassingFolder;

/// The folder that all of a bundle is in.
const FOLDER: &str = "spindoctor-bundle";
/// What it says about itself.
const MANIFEST: &str = "manifest.json";
/// Its recording.
pub const RECORDING: &str = "recording.spindoctor";
/// Name and version of the format.
pub const SCHEMA: &str = "spindoctor.bundle/1";
/// The two bytes that every gzip file begins with (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// A block of a tar file (POSIX, pax, ustar interchange format).
const BLOCK: usize = 512;

/// A recording in a bundle is no larger: three days of a busy server, at 150 MiB a day.
pub const MOST_RECORDING_BYTES: u64 = 512 << 20;
/// All of a bundle, unpacked.
const MOST_BYTES: u64 = MOST_RECORDING_BYTES + (64 << 20);
/// Its manifest.
const MOST_MANIFEST_BYTES: u64 = 1 << 20;
/// Files and folders in it: a bundle has one or two dozen.
const MOST_ENTRIES: usize = 500;

/// What a bundle says about itself: `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of spindoctor that wrote it.
    #[serde(default)]
    pub written_by: String,
    /// When.
    pub made: Timestamp,
    /// The server of its recording: version and host.
    #[serde(default)]
    pub server: String,
    /// The recording's first instant here.
    pub from: Timestamp,
    /// Its last.
    pub to: Timestamp,
    /// The event that it is about, where it is about one.
    #[serde(default)]
    pub event: Option<u64>,
    /// True where statements may have their literals.
    pub literals: bool,
    /// What is in it, the manifest left out.
    pub files: Vec<Listed>,
    /// What is not in it, and why.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name, below the bundle's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// What it is.
    #[serde(default)]
    pub about: String,
}

/// What a bundle does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What would be there.
    pub what: String,
    /// Why it is not.
    pub because: String,
}

/// A text for a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Its name, below the bundle's folder.
    pub name: String,
    /// What it is.
    pub about: &'static str,
    /// The text.
    pub bytes: Vec<u8>,
}

/// Writes a bundle: its manifest, its recording, its texts. With gzip where that is wanted.
pub fn write(
    out: impl Write,
    is_compressed: bool,
    manifest: &Manifest,
    recording: &Path,
    texts: &[Text],
) -> anyhow::Result<()> {
    let about = serde_json::to_vec_pretty(manifest).context("could not write what the bundle has in it")?;
    let mtime = manifest.made.as_second().max(0).unsigned_abs();
    let fill = |out: &mut dyn Write| -> io::Result<()> {
        let mut archive = tar::Builder::new(out);
        add(&mut archive, MANIFEST, mtime, about.len() as u64, about.as_slice())?;
        for text in texts {
            add(&mut archive, &text.name, mtime, text.bytes.len() as u64, text.bytes.as_slice())?;
        }
        let file = File::open(recording)?;
        let bytes = file.metadata()?.len();
        add(&mut archive, RECORDING, mtime, bytes, file.take(bytes))?;
        archive.finish()
    };
    let mut out = out;
    if is_compressed {
        let mut gzip = GzEncoder::new(out, Compression::default());
        fill(&mut gzip)?;
        out = gzip.finish()?;
    } else {
        fill(&mut out)?;
    }
    Ok(out.flush()?)
}

fn add<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    mtime: u64,
    bytes: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_mtime(mtime);
    header.set_size(bytes);
    archive.append_data(&mut header, format!("{FOLDER}/{name}"), content)
}

/// True where a file begins as a bundle does; false for a pipe, which can be read only once.
pub fn is_one(file: &Path) -> bool {
    let first_block = || -> io::Result<Vec<u8>> {
        let mut block = Vec::new();
        if std::fs::metadata(file)?.is_file() {
            unpacked(File::open(file)?)?.take(BLOCK as u64).read_to_end(&mut block)?;
        }
        Ok(block)
    };
    first_block().is_ok_and(|block| is_begin(&block))
}

/// `spindoctor-bundle/` as the name in a header.
fn is_begin(block: &[u8]) -> bool {
    let name = block.strip_prefix(FOLDER.as_bytes());
    block.len() == BLOCK && &block[257..262] == b"ustar" && name.is_some_and(|rest| rest[0] == b'/')
}

/// The content of an archive, whether it is within gzip or not.
fn unpacked(file: File) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::new(file);
    let is_compressed = file.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// A bundle whose recording lies in a folder of our own, which goes when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    /// What it says about itself.
    pub manifest: Manifest,
    /// Where its recording is.
    pub folder: PassingFolder,
}

/// Reads a bundle to its end, and writes its recording where nobody else can read it. Nothing else of it is written.
///
/// # Errors
/// It is cut, damaged, larger than any bundle, or holds what no bundle has: a link, a device, a name that leads elsewhere.
pub fn unpack(file: &Path) -> anyhow::Result<Unpacked> {
    let failed = || format!("{} is a bundle that cannot be used", file.display());
    let folder = PassingFolder::for_recording(RECORDING)
        .context("could not make a folder for the recording of the bundle")?;
    let content = File::open(file).and_then(unpacked).with_context(failed)?;
    let manifest = read(content, &folder.recording).with_context(failed)?;
    Ok(Unpacked { manifest, folder })
}

/// Its manifest; the recording goes to that file.
fn read(content: impl Read, recording: &Path) -> anyhow::Result<Manifest> {
    const CUT: &str = "it is cut short or damaged";
    let mut archive = Archive::new(Bounded { content, left: MOST_BYTES });
    let mut manifest = None;
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    // As they are: no header changes the name or the length of another.
    for (at, entry) in archive.entries().context(CUT)?.raw(true).enumerate() {
        ensure!(at < MOST_ENTRIES, "it has more than {MOST_ENTRIES} files");
        let mut entry = entry.context(CUT)?;
        let Some(name) = name(&entry.path_bytes(), entry.header().entry_type())? else { continue };
        let bytes = entry.header().entry_size().context(CUT)?;
        let most = match name.as_str() {
            MANIFEST => MOST_MANIFEST_BYTES,
            RECORDING => MOST_RECORDING_BYTES,
            _ => MOST_BYTES,
        };
        ensure!(bytes <= most, "{} in it has more than {} MiB", safe(&name), most >> 20);
        ensure!(!found.contains_key(&name), "{} is in it twice", safe(&name));
        match name.as_str() {
            MANIFEST => {
                let mut json = Vec::new();
                entry.read_to_end(&mut json).context(CUT)?;
                manifest = Some(manifest_of(&json)?);
            }
            RECORDING => {
                let mut file =
                    spindoctor_safefile::create(recording).context("its recording could not be unpacked")?;
                let copied = io::copy(&mut entry, &mut file).context(CUT)?;
                ensure!(copied == bytes, "{CUT}");
            }
            _ => {}
        }
        found.insert(name, bytes);
    }
    // To its end: only there gzip says whether all of it is right.
    io::copy(&mut archive.into_inner(), &mut io::sink()).context(CUT)?;
    let manifest = manifest.with_context(|| format!("it has no {MANIFEST}"))?;
    ensure!(found.contains_key(RECORDING), "{CUT}: {RECORDING} is not in it");
    for listed in &manifest.files {
        ensure!(found.get(&listed.name) == Some(&listed.bytes), "{CUT}: {} is not whole", safe(&listed.name));
    }
    Ok(manifest)
}

/// The name of a file below the bundle's folder; none for a folder.
fn name(path: &[u8], kind: EntryType) -> anyhow::Result<Option<String>> {
    let shown = safe(&String::from_utf8_lossy(path));
    match kind {
        EntryType::Regular | EntryType::Directory => {}
        _ => bail!("{shown} in it is neither a file nor a folder"),
    }
    let parts: Option<Vec<&str>> =
        std::str::from_utf8(path).ok().map(|path| path.trim_end_matches('/').split('/').collect());
    let is_plain = |part: &&str| !part.is_empty() && !matches!(*part, "." | "..") && !part.contains('\0');
    match parts.as_deref() {
        Some([FOLDER, below @ ..]) if below.iter().all(is_plain) => {
            Ok((kind == EntryType::Regular && !below.is_empty()).then(|| below.join("/")))
        }
        _ => bail!("{shown} in it is a name that no bundle has"),
    }
}

fn manifest_of(json: &[u8]) -> anyhow::Result<Manifest> {
    #[derive(Deserialize)]
    struct Labelled {
        schema: String,
    }
    let damaged = || format!("its {MANIFEST} is damaged");
    let schema = serde_json::from_slice::<Labelled>(json).with_context(damaged)?.schema;
    ensure!(
        schema == SCHEMA,
        "it says it is {:?}, and this version of spindoctor reads {SCHEMA:?} only",
        safe(&schema)
    );
    serde_json::from_slice(json).with_context(damaged)
}

/// A content of which no more than that is read.
struct Bounded<R> {
    content: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::other(format!("it unpacks to more than {} MiB", MOST_BYTES >> 20)))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn manifest(files: Vec<Listed>) -> Manifest {
        let at: Timestamp = "2026-07-01T09:30:00Z".parse().unwrap();
        Manifest {
            schema: SCHEMA.to_owned(),
            written_by: "0".to_owned(),
            made: at,
            server: String::new(),
            from: at,
            to: at,
            event: Some(3),
            literals: false,
            files,
            left_out: Vec::new(),
        }
    }

    fn listed(name: &str, bytes: u64) -> Listed {
        Listed { name: name.to_owned(), bytes, about: String::new() }
    }

    const CONTENT: &[u8] = b"a recording's bytes";

    /// A bundle as [`write`] makes it.
    fn bundle(folder: &Path, is_compressed: bool) -> PathBuf {
        let recording = folder.join("r");
        std::fs::write(&recording, CONTENT).unwrap();
        let text = Text { name: "README.txt".to_owned(), about: "", bytes: b"text".to_vec() };
        let manifest = manifest(vec![listed("README.txt", 4), listed(RECORDING, CONTENT.len() as u64)]);
        let file = folder.join(if is_compressed { "b.tar.gz" } else { "b.tar" });
        write(File::create(&file).unwrap(), is_compressed, &manifest, &recording, &[text]).unwrap();
        file
    }

    #[test]
    fn a_bundle_comes_back_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        for is_compressed in [true, false] {
            let file = bundle(folder.path(), is_compressed);
            assert!(is_one(&file));
            let unpacked = unpack(&file).unwrap();
            assert_eq!(unpacked.manifest.event, Some(3));
            assert_eq!(std::fs::read(&unpacked.folder.recording).unwrap(), CONTENT);
            let place = unpacked.folder.recording.clone();
            drop(unpacked);
            assert!(!place.parent().unwrap().exists());
        }
        let other = folder.path().join("other");
        for content in [&b""[..], b"SQLite format 3\0", b"\x1f\x8b\x08\x00\x00", b"spindoctor-bundle/x"] {
            std::fs::write(&other, content).unwrap();
            assert!(!is_one(&other), "{content:?}");
        }
        assert!(!is_one(folder.path()) && !is_one(Path::new("/dev/null")));
    }

    #[test]
    fn a_bundle_that_is_cut_anywhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for is_compressed in [true, false] {
            let whole = std::fs::read(bundle(folder.path(), is_compressed)).unwrap();
            let file = folder.path().join("cut");
            // A tar file ends with two blocks of zeros, of which none has to be there.
            let ends = whole.len() - if is_compressed { 0 } else { 2 * BLOCK };
            for bytes in (1..ends).step_by(100).chain([ends - 1]) {
                std::fs::write(&file, &whole[..bytes]).unwrap();
                if is_one(&file) {
                    let refused = format!("{:#}", unpack(&file).unwrap_err());
                    assert!(
                        refused.contains("cannot be used") && !refused.contains('\n'),
                        "{bytes}: {refused}"
                    );
                }
            }
        }
    }

    /// An entry of an archive that nobody well-meaning made.
    struct Odd {
        name: &'static [u8],
        kind: EntryType,
        says_bytes: u64,
        content: Vec<u8>,
    }

    fn file(name: &'static [u8], content: &[u8]) -> Odd {
        let says_bytes = content.len() as u64;
        Odd { name, kind: EntryType::Regular, says_bytes, content: content.to_vec() }
    }

    /// Why an archive of a manifest and these is refused.
    fn refused(entries: &[Odd]) -> String {
        let json = serde_json::to_vec(&manifest(Vec::new())).unwrap();
        let first = file(b"spindoctor-bundle/manifest.json", &json);
        let mut bytes = Vec::new();
        for entry in std::iter::once(&first).chain(entries) {
            let mut header = Header::new_ustar();
            header.as_old_mut().name[..entry.name.len()].copy_from_slice(entry.name);
            header.set_entry_type(entry.kind);
            header.set_size(entry.says_bytes);
            header.set_mode(0o600);
            header.set_cksum();
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(&entry.content);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join(RECORDING);
        let message = match read(bytes.as_slice(), &recording) {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.len() <= 1 && !message.contains(['\n', '\u{1b}']), "{left:?} {message}");
        message
    }

    #[test]
    fn an_archive_with_what_no_bundle_has_is_refused_in_one_line() {
        const HERE: &[u8] = b"spindoctor-bundle/recording.spindoctor";
        let recording = || file(HERE, CONTENT);
        assert_eq!(refused(&[recording()]), "");
        let of_kind = |kind| Odd { kind, ..file(HERE, b"") };
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Block, EntryType::Fifo]
        {
            assert!(refused(&[of_kind(kind)]).contains("neither a file nor a folder"), "{kind:?}");
        }
        for kind in
            [EntryType::GNULongName, EntryType::GNUSparse, EntryType::XHeader, EntryType::XGlobalHeader]
        {
            assert!(refused(&[of_kind(kind), recording()]).contains("neither"), "{kind:?}");
        }
        for name in [
            &b"/etc/passwd"[..],
            b"spindoctor-bundle/../recording.spindoctor",
            b"spindoctor-bundle/./a",
            b"spindoctor-bundle//a",
            b"../spindoctor-bundle/a",
            b"other/recording.spindoctor",
            b"spindoctor-bundle/\xff",
            b"\x1b[2J",
        ] {
            assert!(refused(&[file(name, b""), recording()]).contains("no bundle has"), "{name:?}");
        }
        assert!(refused(&[recording(), recording()]).contains("in it twice"));
        assert!(refused(&[]).contains("recording.spindoctor is not in it"));
        let long = |says_bytes| Odd { says_bytes, ..recording() };
        assert!(refused(&[long(MOST_RECORDING_BYTES + 1)]).contains("more than 512 MiB"));
        assert!(refused(&[long(1 << 20)]).contains("cut short"));
        let many: Vec<Odd> = (0..MOST_ENTRIES)
            .map(|_| Odd { kind: EntryType::Directory, ..file(b"spindoctor-bundle/a", b"") })
            .collect();
        assert!(refused(&many).contains("more than 500 files"));
    }

    #[test]
    fn a_file_that_unpacks_to_more_than_a_bundle_ever_does_is_not_read_to_its_end() {
        /// Zeros without an end, behind the head of a file.
        struct Endless(Vec<u8>, u64);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let head = self.0.len().min(buffer.len());
                buffer[..head].copy_from_slice(&self.0[..head]);
                self.0.drain(..head);
                buffer[head..].fill(0);
                self.1 += buffer.len() as u64;
                Ok(buffer.len())
            }
        }
        let mut endless = Endless(Vec::new(), 0);
        let folder = tempfile::tempdir().unwrap();
        let error = read(&mut endless, &folder.path().join("r")).unwrap_err();
        assert!(format!("{error:#}").contains("more than 576 MiB"), "{error:#}");
        assert!(endless.1 < MOST_BYTES + (1 << 20));
    }

    #[test]
    fn a_bundle_of_a_later_version_is_refused_by_its_name() {
        let refused = |json: &str| format!("{:#}", manifest_of(json.as_bytes()).unwrap_err());
        assert!(refused(r#"{"schema": "spindoctor.bundle/2"}"#).contains(r#"it is "spindoctor.bundle/2""#));
        assert!(refused(r#"{"schema": "spindoctor.bundle/1"}"#).contains("is damaged"));
        assert!(refused("{").contains("is damaged"));
    }
}
