//! Debian's main archive as the machine's own apt sources name it.
//!
//! In: `/etc/apt/sources.list` and `sources.list.d/*.{list,sources}`. Out: the archive's address, so
//! that no address is written here. Both formats of sources.list(5) are read.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// Who signs Debian's archive; package `debian-archive-keyring`.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Suites of Debian's archive, without `-updates`, `-backports` and the like.
const SUITES: [&str; 12] = [
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// One archive of the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
}

/// The address of Debian's main archive, from the folder `/etc/apt`.
pub(super) fn debian_archive(etc_apt: &Path) -> Result<String> {
    let mut entries = Vec::new();
    let list = etc_apt.join("sources.list");
    if let Ok(text) = fs::read_to_string(&list) {
        entries.extend(one_line_entries(&text));
    }
    let mut files: Vec<_> = fs::read_dir(etc_apt.join("sources.list.d"))
        .map(|folder| folder.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => entries.extend(one_line_entries(&text)),
            Some("sources") => entries.extend(deb822_entries(&text)),
            _ => {}
        }
    }
    choose(&entries).ok_or_else(|| {
        Error::NoArchive(format!(
            "no source of Debian's main archive is among those in {}",
            etc_apt.display()
        ))
    })
}

/// Those signed by Debian's keyring first: other archives use Debian's suite names too.
fn choose(entries: &[Entry]) -> Option<String> {
    let debian = || entries.iter().filter(|entry| is_main_archive(entry));
    let by_keyring = debian()
        .find(|entry| entry.signed_by.as_deref().is_some_and(|keyring| keyring.contains("/debian-archive-")));
    let by_address = || {
        debian()
            .find(|entry| entry.signed_by.is_none() && entry.uri.trim_end_matches('/').ends_with("/debian"))
    };
    by_keyring.or_else(by_address).map(|entry| entry.uri.clone())
}

fn is_main_archive(entry: &Entry) -> bool {
    entry.components.iter().any(|component| component == "main")
        && entry.suites.iter().any(|suite| SUITES.contains(&suite.as_str()))
}

/// Format is like `deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] http://host/debian bookworm main`.
fn one_line_entries(text: &str) -> Vec<Entry> {
    text.lines().filter_map(one_line_entry).collect()
}

fn one_line_entry(line: &str) -> Option<Entry> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => ("", rest),
    };
    let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    Some(Entry {
        uri,
        suites: vec![suite],
        components: words.collect(),
        signed_by: signed_by.map(str::to_owned),
    })
}

/// Format is stanzas of `Field: value` lines, with continuation lines indented.
fn deb822_entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let words = |wanted: &str| -> Vec<String> {
            let mut inside = false;
            let mut words = Vec::new();
            for line in stanza {
                let value = if line.starts_with([' ', '\t']) {
                    line
                } else {
                    let Some((field, value)) = line.split_once(':') else { continue };
                    inside = field.eq_ignore_ascii_case(wanted);
                    value
                };
                if inside {
                    words.extend(value.split_whitespace().map(str::to_owned));
                }
            }
            words
        };
        let disabled = words("Enabled").iter().any(|word| matches!(word.as_str(), "no" | "false" | "0"));
        if disabled || !words("Types").iter().any(|kind| kind == "deb") {
            continue;
        }
        for uri in words("URIs") {
            entries.push(Entry {
                uri,
                suites: words("Suites"),
                components: words("Components"),
                signed_by: words("Signed-By").into_iter().next(),
            });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(list: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sources.list"), list).unwrap();
        fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join("sources.list.d").join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn reads_the_stanzas_that_debian_12_images_have() {
        let folder = folder(
            "",
            &[(
                "debian.sources",
                "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n\
                 Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\nTypes: deb\n\
                 URIs: http://mirror.example/debian-security\nSuites: bookworm-security\nComponents: main\n",
            )],
        );
        assert_eq!(debian_archive(folder.path()).unwrap(), "http://mirror.example/debian");
    }

    #[test]
    fn reads_one_line_entries_and_leaves_out_security_and_source_entries() {
        let folder = folder(
            "# deb http://commented.example/debian bookworm main\n\
             deb-src http://src.example/debian bookworm main\n\
             deb http://mirror.example/debian-security bookworm-security main\n\
             deb [arch=amd64] http://mirror.example/debian/ bookworm main contrib\n",
            &[],
        );
        assert_eq!(debian_archive(folder.path()).unwrap(), "http://mirror.example/debian/");
    }

    #[test]
    fn an_archive_of_others_with_debian_suite_names_is_not_debian() {
        let folder = folder(
            "deb [signed-by=/etc/apt/keyrings/other.gpg] http://other.example/debian bookworm main\n",
            &[(
                "off.sources",
                "Enabled: no\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: sid\nComponents: main\n",
            )],
        );
        let error = debian_archive(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--basedir"), "{error}");
    }
}
