//! Room for temporary files: what is free in tmpdir, what is written there, and what was refused for want of it.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Remedy, Window};

use crate::own_answers;
use crate::sessions::Waiting;

/// Bytes that are free where temporary files are, where a sort of some size finds no room. A sort that failed has removed its file
/// before somebody looks, so that some are free. Chosen.
const LITTLE_BYTES: u64 = 16 << 20;

/// Less free than this is none, whatever the file system's size: a block or two is more. Chosen.
const NONE_BYTES: u64 = 1 << 20;

/// Free bytes in tmpdir, where they are few.
pub(crate) fn little(window: &Window) -> Option<u64> {
    let data = window.latest(|sample| &sample.host.data_directory)?;
    data.temporary_free_bytes.filter(|free| *free < LITTLE_BYTES)
}

/// The same where something fills it: a file system that is as small as that and next to empty is as somebody wanted it.
pub(crate) fn filled(window: &Window) -> Option<u64> {
    let total = window.latest(|sample| &sample.host.data_directory)?.temporary_total_bytes;
    little(window).filter(|&free| free < NONE_BYTES || total.is_some_and(|total| free < total / 2))
}

/// Temporary files and temporary tables on disk that were made, a second.
pub(crate) fn made_per_s(window: &Window) -> f64 {
    let made = ["Created_tmp_files", "Created_tmp_disk_tables"];
    made.iter().filter_map(|name| window.status_per_s(name)).sum()
}

/// Mean number of sessions at a sort or a temporary table, and their share of those at work, 0 to 1.
pub(crate) fn sessions(window: &Window) -> (f64, f64) {
    /// States of both servers (sql/mysqld.cc); MariaDB adds `on disk`, and says Aria where MySQL 5.x says MyISAM.
    const STATES: [&str; 6] = [
        "creating sort index",
        "sorting result",
        "creating tmp table",
        "copying to tmp table",
        "copying to group table",
        "converting heap to",
    ];
    let is_there = |thread: &ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        STATES.iter().any(|one| state.starts_with(one))
    };
    Waiting::count(window, is_there).map_or((0.0, 0.0), |found| (found.mean, found.lost_ratio()))
}

/// The error of a statement of spindoctor's own that found no room for its temporary table: number and message. It reads no table that
/// could be full itself.
pub(crate) fn refused(window: &Window) -> Option<(u32, &str)> {
    own_answers::errors(window).find(|(number, message)| is_without_room(*number, message))
}

/// `EE_DISK_FULL` (20), `ER_DISK_FULL` (1021), `ER_RECORD_FILE_FULL` (1114); and of `EE_WRITE` (3), `ER_ERROR_ON_WRITE` (1026) and
/// `ER_GET_ERRNO` (1030) those with the system's ENOSPC (28).
fn is_without_room(number: u32, message: &str) -> bool {
    const NO_SPACE: [&str; 4] = ["Errcode: 28", "errno: 28", "errno 28", "error 28"];
    match number {
        20 | 1021 | 1114 => true,
        3 | 1026 | 1030 => NO_SPACE.iter().any(|words| message.contains(words)),
        _ => false,
    }
}

/// To make room in tmpdir.
pub(crate) fn make_room(window: &Window) -> Remedy {
    Remedy {
        statement: format!(
            "df of tmpdir ({}): remove what other programs left there, or make it larger",
            window.variable("tmpdir").unwrap_or("SELECT @@tmpdir")
        ),
        why: "The next sort or temporary table that needs a file finds room.".into(),
        dynamic: true,
        risk: "Files of the server itself are not to be removed by hand.".into(),
        undo: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_without_room;

    #[test]
    fn only_errors_of_space_are_taken_for_it() {
        for (number, message) in [
            (1114, "The table '/tmp/#sql_84e_2' is full"),
            (
                1021,
                "Disk full (/mnt/#sql_15455_1.MAI); waiting for someone to free some space... (errno: 28)",
            ),
            (3, "Error writing file '/tmp/MYfd=31' (Errcode: 28 \"No space left on device\")"),
            (3, "Error writing file '/tmp/MYfd=31' (OS errno 28 - No space left on device)"),
            (1030, "Got error 28 \"No space left on device\" from storage engine Aria"),
        ] {
            assert!(is_without_room(number, message), "{message}");
        }
        for (number, message) in [
            (3, "Error writing file '/tmp/MYfd=31' (Errcode: 5 \"Input/output error\")"),
            (1030, "Got error 122 from storage engine"),
            (1205, "Lock wait timeout exceeded"),
        ] {
            assert!(!is_without_room(number, message), "{message}");
        }
    }
}
