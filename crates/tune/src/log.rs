//! The log of all trials: one line of JSON for each tuning, beside the journals, so that a production server is not
//! tested again for a known result.
//!
//! In: a folder and a [`Tuning`]. Out: a line in `trials.jsonl` there. A file that has grown large is renamed to
//! `trials.1.jsonl`, which replaces the one before.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use spindoctor_model::Tuning;
use spindoctor_safefile::Folder;

/// The file.
const NAME: &str = "trials.jsonl";
/// The one before.
const BEFORE: &str = "trials.1.jsonl";
/// A file this large is set aside: some hundred tunings of 30 kB.
const MOST_BYTES: u64 = 8 << 20;

/// Adds a tuning to the log in that folder, which is made where it is missing. Says which file has it.
///
/// # Errors
/// The folder or the file cannot be written, or is not this account's own.
pub fn append(folder: &Path, tuning: &Tuning) -> io::Result<PathBuf> {
    append_up_to(folder, tuning, MOST_BYTES)
}

fn append_up_to(folder: &Path, tuning: &Tuning, most_bytes: u64) -> io::Result<PathBuf> {
    let opened = Folder::private(folder)?;
    let mut line = serde_json::to_vec(tuning)?;
    line.push(b'\n');
    let mut file = opened.append(NAME)?;
    if file.metadata()?.len() >= most_bytes {
        opened.rename(NAME, BEFORE)?;
        file = opened.append(NAME)?;
    }
    // One write: two programs that log at once do not mix their lines.
    file.write_all(&line)?;
    Ok(folder.join(NAME))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use spindoctor_model::diagnosis::DiagnosedServer;
    use spindoctor_model::trial::TRIAL_SCHEMA;
    use spindoctor_model::{Effects, Trial, Verdict};

    use super::*;

    fn tuning() -> Tuning {
        let decided = Trial {
            schema: TRIAL_SCHEMA.to_owned(),
            server: DiagnosedServer::default(),
            start: jiff::Timestamp::UNIX_EPOCH,
            seconds: 1.0,
            variable: "innodb_spin_wait_delay".to_owned(),
            from: "100".to_owned(),
            to: "6".to_owned(),
            changes: Vec::new(),
            verdict: Verdict::Helps,
            why: String::new(),
            effect: Effects::default(),
            judged: Vec::new(),
            missing: Vec::new(),
            trade_off: false,
            budget: None,
            quads: 7,
            kept: true,
            notes: Vec::new(),
            blocks: Vec::new(),
        };
        Tuning { decided, proposals: Vec::new(), searched: Vec::new(), settings: Vec::new() }
    }

    #[test]
    fn each_tuning_is_a_line_that_comes_back_and_a_large_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made/for/it");
        let path = append(&folder, &tuning()).unwrap();
        append(&folder, &tuning()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let read: Vec<Tuning> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [tuning(), tuning()]);
        append_up_to(&folder, &tuning(), 10).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert_eq!(fs::read_to_string(folder.join(BEFORE)).unwrap(), text);
    }

    #[test]
    fn a_link_or_a_second_name_in_the_place_of_the_log_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "as it was").unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        std::os::unix::fs::symlink(&victim, state.join(NAME)).unwrap();
        assert!(append(&state, &tuning()).unwrap_err().to_string().contains("symbolic link"));
        fs::remove_file(state.join(NAME)).unwrap();
        fs::hard_link(&victim, state.join(NAME)).unwrap();
        assert!(append(&state, &tuning()).unwrap_err().to_string().contains("2 names"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    }
}
