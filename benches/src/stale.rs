//! Which sections of the page are older than what they measure.
//!
//! In: a section's text, and which files git has changed since a commit. Out: why it is to be measured again. A section is current
//! where each of its runs names its commit, no file that its numbers come from has changed since, and its method is described as in
//! the code.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;

use crate::machine::git;
use crate::{BENCHMARKS, Benchmark, page};

/// Where numbers do not come from: tests and what they read, and pages.
const NOT_MEASURED: [&str; 4] = ["/tests/", "/snapshots/", "/fixtures/", "/examples/"];
/// The same, by the end of a file's path.
const NOT_MEASURED_ENDS: [&str; 4] = ["/tests.rs", "/examples.rs", ".snap", ".md"];
/// Files that are named where more have changed.
const NAMED: usize = 2;

/// Why a section is to be measured again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The page has no such section.
    NotMeasured,
    /// It does not say of which commit a run was.
    NoCommit,
    /// A run was of a tree that was in no commit: changes since this one were in it.
    UncommittedCode(String),
    /// git does not know the commit of a run.
    UnknownCommit(String),
    /// Its story is not that of the code.
    OtherMethod,
    /// Files that it measures have changed.
    Changed { since: String, files: Vec<String> },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMeasured => write!(f, "was never measured"),
            Self::NoCommit => write!(f, "names no commit"),
            Self::UncommittedCode(commit) => {
                write!(f, "was measured with changes since {commit} in no commit")
            }
            Self::UnknownCommit(commit) => write!(f, "was measured at {commit}, which git does not know"),
            Self::OtherMethod => write!(f, "its method is described otherwise in the code"),
            Self::Changed { since, files } => {
                write!(
                    f,
                    "since {since}: {}",
                    files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")
                )?;
                match files.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

/// Benchmarks whose sections are to be measured again, in the order of the page.
///
/// # Errors
/// The page cannot be read.
pub(crate) fn sections(page: &Path) -> anyhow::Result<Vec<(&'static Benchmark, Reason)>> {
    let text = std::fs::read_to_string(page).with_context(|| format!("could not read {}", page.display()))?;
    let stale = |benchmark: &&'static Benchmark| {
        let section = page::text_under(&text, benchmark.name);
        reason(section, benchmark.story, benchmark.of, &changed_since).map(|reason| (*benchmark, reason))
    };
    Ok(BENCHMARKS.iter().filter_map(stale).collect())
}

/// Why a section with this text is to be measured again, whose numbers come from these files and folders; None where it is not.
/// `changed_since` gives the files that have changed since a commit, and None where there is no such commit.
fn reason(
    section: Option<&str>,
    story: &str,
    of: &[&str],
    changed_since: &dyn Fn(&str) -> Option<Vec<String>>,
) -> Option<Reason> {
    let Some(section) = section else { return Some(Reason::NotMeasured) };
    let mut commits = Vec::new();
    for run in page::runs(section) {
        match run.commit.map(|commit| (commit, commit.strip_suffix(" and changes"))) {
            None => return Some(Reason::NoCommit),
            Some((_, Some(commit))) => return Some(Reason::UncommittedCode(commit.to_owned())),
            Some((commit, None)) => commits.push(commit),
        }
    }
    if commits.is_empty() {
        return Some(Reason::NoCommit);
    }
    for commit in commits {
        let Some(mut files) = changed_since(commit) else {
            return Some(Reason::UnknownCommit(commit.to_owned()));
        };
        files.retain(|file| is_measured(file, of));
        if !files.is_empty() {
            return Some(Reason::Changed { since: commit.to_owned(), files });
        }
    }
    (!section.starts_with(story)).then_some(Reason::OtherMethod)
}

/// True for a file that is one of these, or lies below one, and is no test, no page, and nothing that tests read.
fn is_measured(file: &str, of: &[&str]) -> bool {
    let is_in = |folder: &&str| {
        file.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    of.iter().any(is_in)
        && !NOT_MEASURED.iter().any(|part| file.contains(part))
        && !NOT_MEASURED_ENDS.iter().any(|end| file.ends_with(end))
}

/// Files that are not what they were in a commit, by their paths in the repository; None where git does not know it.
fn changed_since(commit: &str) -> Option<Vec<String>> {
    let names = git(&["diff", "--name-only", "--no-renames", commit, "--"])?;
    Some(names.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORY: &str = "How.";
    const OF: [&str; 2] = ["crates/stacks", "crates/spindoctor/src/stacks"];

    fn measured(runs: &str) -> String {
        format!("{STORY}\n\n{runs}\n\n| what | measured | goal | reached |\n")
    }

    fn at(commit: &str) -> String {
        measured(&format!("Measured with spindoctor 0.1.0{commit}, 2026-11-28, on a machine; took 3 min."))
    }

    /// Of two commits one is the newest, and the stacks changed after the other.
    fn changed(commit: &str) -> Option<Vec<String>> {
        let files: &[&str] = match commit {
            "5ae2e0981c" => {
                &["crates/stacks/src/unwind.rs", "crates/spindoctor/src/stacks/run.rs", "README.md"]
            }
            "e74775831e" => {
                &["crates/stacks/tests/spin.rs", "crates/stacks-of-hay/src/lib.rs", "crates/top/src/lib.rs"]
            }
            _ => return None,
        };
        Some(files.iter().map(|file| (*file).to_owned()).collect())
    }

    fn reason_of(section: Option<&str>) -> Option<Reason> {
        reason(section, STORY, &OF, &changed)
    }

    #[test]
    fn a_section_is_stale_where_what_it_measures_has_changed_since_its_commit() {
        assert_eq!(reason_of(Some(&at(" (commit e74775831e)"))), None);
        let files: Vec<String> =
            ["crates/stacks/src/unwind.rs", "crates/spindoctor/src/stacks/run.rs"].map(str::to_owned).into();
        assert_eq!(
            reason_of(Some(&at(" (commit 5ae2e0981c)"))),
            Some(Reason::Changed { since: "5ae2e0981c".to_owned(), files })
        );
    }

    #[test]
    fn a_section_that_does_not_say_of_which_code_it_is_is_stale() {
        assert_eq!(reason_of(None), Some(Reason::NotMeasured));
        assert_eq!(reason_of(Some(&at(""))), Some(Reason::NoCommit));
        assert_eq!(reason_of(Some(STORY)), Some(Reason::NoCommit));
        let uncommitted = Some(Reason::UncommittedCode("e74775831e".to_owned()));
        assert_eq!(reason_of(Some(&at(" (commit e74775831e and changes)"))), uncommitted);
        assert_eq!(
            reason_of(Some(&at(" (commit 0000000000)"))),
            Some(Reason::UnknownCommit("0000000000".to_owned()))
        );
        let otherwise = at(" (commit e74775831e)").replace(STORY, "Otherwise.");
        assert_eq!(reason_of(Some(&otherwise)), Some(Reason::OtherMethod));
    }

    #[test]
    fn every_run_of_a_section_counts() {
        let first = "Measured with spindoctor 0.1.0 (commit 5ae2e0981c), 2026-11-28, on a machine.";
        let again = "a measured again with spindoctor 0.1.0 (commit e74775831e), 2026-11-29, on a machine.";
        let reason = reason_of(Some(&measured(&format!("{first}\n\n{again}"))));
        assert!(matches!(reason, Some(Reason::Changed { since, .. }) if since == "5ae2e0981c"));
    }

    #[test]
    fn a_reason_names_two_files_and_counts_the_others() {
        let files: Vec<String> = ["a.rs", "b.rs", "c.rs", "d.rs"].map(str::to_owned).into();
        let reason =
            |files: &[String]| Reason::Changed { since: "5ae2e0981c".to_owned(), files: files.to_vec() };
        assert_eq!(reason(&files[..2]).to_string(), "since 5ae2e0981c: a.rs, b.rs");
        assert_eq!(reason(&files).to_string(), "since 5ae2e0981c: a.rs, b.rs and 2 more");
    }
}
