//! A profile on disk: `FILE.spinprof`.
//!
//! A line of ASCII names the format and its version (`spindoctor profile 1`), so that `head -1` and `file` show what it
//! is; the gzip'd JSON of a [`Profile`] follows. Fields may be added within a version: a reader takes what it knows. A
//! version that this program does not know is refused.
//!
//! In: a profile, or a file from anybody. Out: the file, or a profile that every reader may trust: each place in a list
//! that it names is there, and its numbers are of this world.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use spindoctor_model::{Elements, Profile};

use crate::error::{Error, Result};

/// How every version's first line begins.
const MAGIC: &[u8] = b"spindoctor profile ";
/// The version that is written.
const VERSION: u32 = 1;
/// No profile is larger; a crafted gzip file could be.
const LARGEST_BYTES: u64 = 2 << 30;
/// And no file is: gzip makes such JSON at least ten times smaller.
const LARGEST_FILE_BYTES: u64 = 256 << 20;
/// The first line is no longer than this.
const LONGEST_LINE: usize = 64;

/// Writes a profile; an existing file is replaced.
///
/// # Errors
/// The file cannot be written.
pub fn save(path: &Path, profile: &Profile) -> Result<()> {
    let file = |error| Error::File { path: path.to_owned(), error };
    spindoctor_safefile::write(path, to_bytes(profile).map_err(file)?).map_err(file)
}

/// Reads a profile that [`save`] wrote.
///
/// # Errors
/// The file cannot be read, is not a profile, or is damaged.
pub fn load(path: &Path) -> Result<Profile> {
    let bytes = spindoctor_safefile::read_named(path, LARGEST_FILE_BYTES)
        .map_err(|error| Error::File { path: path.to_owned(), error })?;
    from_bytes(&bytes).map_err(|because| Error::ProfileFile { path: path.to_owned(), because })
}

fn to_bytes(profile: &Profile) -> std::io::Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    writeln!(bytes, "{VERSION}")?;
    let mut gzip = GzEncoder::new(bytes, Compression::fast());
    serde_json::to_writer(&mut gzip, profile)?;
    gzip.finish()
}

/// Reads the bytes of a file that [`save`] wrote.
///
/// # Errors
/// Why the bytes are no profile, in words that follow the file's name.
pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Profile, String> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err("is not a profile; `spindoctor stacks --save FILE.spinprof` writes one".to_owned());
    };
    let line_end = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n');
    let version = line_end.and_then(|end| std::str::from_utf8(&rest[..end]).ok()?.parse::<u32>().ok());
    let (Some(line_end), Some(version)) = (line_end, version) else {
        return Err("is a profile whose first line is damaged".to_owned());
    };
    if version != VERSION {
        return Err(format!(
            "is a profile of version {version}; this spindoctor reads version {VERSION}: \
             load it with the one that wrote it, or a newer one"
        ));
    }
    let packed = &rest[line_end + 1..];
    let json = spindoctor_safefile::read_unpacked(GzDecoder::new(packed), packed.len(), LARGEST_BYTES)
        .map_err(|error| format!("is cut short or damaged: {error}"))?;
    from_json(&json)
}

/// Reads the JSON of a profile.
///
/// # Errors
/// Why the text is no profile, in words that follow the file's name.
pub fn from_json(json: &[u8]) -> std::result::Result<Profile, String> {
    let elements: Elements = serde_json::from_slice(json).map_err(|error| format!("is damaged: {error}"))?;
    elements.check(json.len()).map_err(|because| format!("is damaged: {because}"))?;
    let profile: Profile = serde_json::from_slice(json).map_err(|error| format!("is damaged: {error}"))?;
    profile.check().map_err(|because| format!("is damaged: {because}"))?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use spindoctor_model::stack::{Frame, Observation, ProfiledThread, SnapshotCost, Stack};

    use super::*;

    fn profile() -> Profile {
        let mut profile = Profile { seconds: 10.0, hz: 10.0, ..Profile::default() };
        profile.threads.push(ProfiledThread {
            tid: 4351,
            name: "connection".to_owned(),
            ..ProfiledThread::default()
        });
        profile.frames.push(Frame { name: "log_write_up_to".to_owned(), ..Frame::default() });
        profile.stacks.push(Stack { frames: vec![0, 0], ..Stack::default() });
        for at in 0..100 {
            profile.snapshots.push(SnapshotCost { at_us: at * 100_000, ..SnapshotCost::default() });
            profile.observations.push(Observation { snapshot: at as u32, ..Observation::default() });
        }
        profile
    }

    fn refused(content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.spinprof");
        fs::write(&path, content).unwrap();
        load(&path).unwrap_err().to_string()
    }

    #[test]
    fn a_profile_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.spinprof");
        for profile in [profile(), Profile::default()] {
            save(&path, &profile).unwrap();
            assert_eq!(load(&path).unwrap(), profile);
        }
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        assert!(refused(b"").contains("is not a profile; `spindoctor stacks --save"));
        assert!(refused(b"{}").contains("is not a profile"));
        assert!(refused(b"spindoctor profile one\n").contains("first line is damaged"));
        assert!(refused(b"spindoctor profile 1").contains("first line is damaged"));
        assert!(refused(b"spindoctor profile 2\nxyz").contains("is a profile of version 2"));
        assert!(refused(b"spindoctor profile 1\nxyz").contains("cut short or damaged"));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_refused_and_never_a_panic() {
        let whole = to_bytes(&profile()).unwrap();
        for cut in 0..whole.len() {
            let message = refused(&whole[..cut]);
            let is_explained = message.contains("is not a profile") || message.contains("damaged");
            assert!(is_explained, "cut at {cut}: {message}");
        }
    }

    #[test]
    fn a_profile_that_names_what_is_not_in_it_is_refused() {
        let spoils: [fn(&mut Profile); 5] = [
            |profile| profile.observations[0].stack = 9,
            |profile| profile.observations[0].thread = 9,
            |profile| profile.observations[0].snapshot = 999,
            |profile| profile.stacks[0].frames.push(9),
            |profile| profile.frames[0].module = Some(0),
        ];
        for spoil in spoils {
            let mut profile = profile();
            spoil(&mut profile);
            let message = refused(&to_bytes(&profile).unwrap());
            assert!(message.ends_with("it names something that is not in it"), "{message}");
        }
    }

    #[test]
    fn a_small_file_of_very_many_empty_stacks_is_refused_before_it_takes_memory() {
        let json = format!(r#"{{"stacks":[{}]}}"#, vec!["{}"; 100_000].join(","));
        let mut gzip = GzEncoder::new(b"spindoctor profile 1\n".to_vec(), Compression::best());
        gzip.write_all(json.as_bytes()).unwrap();
        let message = refused(&gzip.finish().unwrap());
        assert!(message.contains("100000 elements"), "{message}");
        let mut bomb = GzEncoder::new(b"spindoctor profile 1\n".to_vec(), Compression::best());
        bomb.write_all(&vec![b' '; 8 << 20]).unwrap();
        let message = refused(&bomb.finish().unwrap());
        assert!(message.contains("unpacks to more than"), "{message}");
    }

    #[test]
    fn a_profile_with_times_that_cannot_be_is_refused() {
        let spoils: [fn(&mut Profile); 4] = [
            |profile| profile.hz = -1.0,
            |profile| profile.seconds = 1e300,
            |profile| profile.snapshots[0].at_us = u64::MAX,
            |profile| profile.snapshots[0].stopped_us = u64::MAX,
        ];
        for spoil in spoils {
            let mut profile = profile();
            spoil(&mut profile);
            let message = refused(&to_bytes(&profile).unwrap());
            assert!(message.ends_with("a time or a rate that cannot be"), "{message}");
        }
    }
}
