//! A profile on disk: `FILE.spinprof`.
//!
//! A line of ASCII names the format and its version (`spindoctor profile 1`), so that `head -1` and `file` tell what
//! it is; behind it stands the gzip'd JSON of [`Profile`]. Fields may be added within a version: a reader takes what
//! it knows. A version that this program does not know is refused.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use spindoctor_model::Profile;

/// How every version's first line begins.
const MAGIC: &[u8] = b"spindoctor profile ";
/// The version that is written.
const VERSION: u32 = 1;
/// No profile is larger; a crafted gzip file could be.
const LARGEST_BYTES: u64 = 2 << 30;
/// The first line is no longer than this.
const LONGEST_LINE: usize = 64;

/// Writes a profile; an existing file is replaced.
pub(crate) fn save(path: &Path, profile: &Profile) -> anyhow::Result<()> {
    let bytes = to_bytes(profile)?;
    fs::write(path, bytes).with_context(|| format!("could not save the profile as {}", path.display()))
}

fn to_bytes(profile: &Profile) -> anyhow::Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    writeln!(bytes, "{VERSION}")?;
    let mut gzip = GzEncoder::new(bytes, Compression::fast());
    serde_json::to_writer(&mut gzip, profile).context("could not write the profile as JSON")?;
    Ok(gzip.finish()?)
}

/// Reads a profile that [`save`] wrote.
pub(crate) fn load(path: &Path) -> anyhow::Result<Profile> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("could not read the profile {name}"))?;
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        bail!("{name} is no profile; `spindoctor stacks --save FILE.spinprof` writes one");
    };
    let line_end = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n');
    let version = line_end.and_then(|end| std::str::from_utf8(&rest[..end]).ok()?.parse::<u32>().ok());
    let (Some(line_end), Some(version)) = (line_end, version) else {
        bail!("{name} is a profile whose first line is damaged");
    };
    ensure!(
        version == VERSION,
        "{name} is a profile of version {version}; this spindoctor reads version {VERSION}: load it with the one that wrote it, or a newer one"
    );
    let mut json = Vec::new();
    GzDecoder::new(&rest[line_end + 1..])
        .take(LARGEST_BYTES)
        .read_to_end(&mut json)
        .with_context(|| format!("the profile {name} is cut short or damaged"))?;
    let profile: Profile =
        serde_json::from_slice(&json).with_context(|| format!("the profile {name} is damaged"))?;
    ensure!(is_whole(&profile), "the profile {name} is damaged: it names something that is not in it");
    Ok(profile)
}

/// True where every place in a list that the profile names is there.
fn is_whole(profile: &Profile) -> bool {
    let within = |at: u32, len: usize| (at as usize) < len;
    profile.frames.iter().all(|frame| frame.module.is_none_or(|module| within(module, profile.modules.len())))
        && profile.stacks.iter().all(|stack| stack.frames.iter().all(|at| within(*at, profile.frames.len())))
        && profile.observations.iter().chain(&profile.cpu_samples).all(|seen| {
            within(seen.thread, profile.threads.len())
                && within(seen.stack, profile.stacks.len())
                && within(seen.snapshot, profile.snapshots.len())
                && seen.activity.is_none_or(|activity| within(activity, profile.activities.len()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::sample;

    fn refused(content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.spinprof");
        fs::write(&path, content).unwrap();
        format!("{:#}", load(&path).unwrap_err())
    }

    #[test]
    fn a_profile_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.spinprof");
        for profile in [sample::busy(), sample::hostile(), Profile::default()] {
            save(&path, &profile).unwrap();
            assert_eq!(load(&path).unwrap(), profile);
        }
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        assert!(refused(b"").contains("is no profile; `spindoctor stacks --save"));
        assert!(refused(b"{}").contains("is no profile"));
        assert!(refused(b"spindoctor profile one\n").contains("first line is damaged"));
        assert!(refused(b"spindoctor profile 1").contains("first line is damaged"));
        assert!(refused(b"spindoctor profile 2\nxyz").contains("is a profile of version 2"));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_refused_and_never_a_panic() {
        let whole = to_bytes(&sample::busy()).unwrap();
        for cut in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let message = refused(&whole[..cut]);
            assert!(
                message.contains("is no profile") || message.contains("damaged"),
                "cut at {cut}: {message}"
            );
        }
    }

    #[test]
    fn a_profile_that_names_what_is_not_in_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.spinprof");
        let mut spoilt = sample::busy();
        spoilt.observations[0].stack = 9_999;
        save(&path, &spoilt).unwrap();
        let message = format!("{:#}", load(&path).unwrap_err());
        assert!(message.contains("names something that is not in it"), "{message}");
    }
}
