//! MariaDB's `information_schema.INNODB_SYS_SEMAPHORE_WAITS` (10.1 to 10.5): the waits for latches of a status, in a row each.

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait, Semaphores};

/// True for the columns of such a list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    ["thread_id", "wait_time", "wait_type", "created_file"]
        .iter()
        .all(|name| columns.iter().any(|column| column == name))
}

/// A status that says what the list does.
pub(crate) fn status(rows: &Rows) -> InnodbStatus {
    let waiters = rows.iter().filter_map(|row| wait(&row)).collect();
    InnodbStatus { semaphores: Semaphores { waiters, ..Semaphores::default() }, ..InnodbStatus::default() }
}

fn wait(row: &Row<'_>) -> Option<SemaphoreWait> {
    let pthread_id: u64 = row.number("thread_id")?;
    // Nobody waits for oneself: a writer that waits for readers is printed as the writer.
    let holder = |name: &&str| row.number::<u64>(name).filter(|holder| *holder > 0 && *holder != pthread_id);
    let place = |file: &str, line: &str| {
        let name = file_name(row, file);
        let line = row.number::<u32>(line).filter(|line| *line > 0 && !name.is_empty())?;
        Some(format!("{name}:{line}"))
    };
    Some(SemaphoreWait {
        pthread_id,
        at_file: file_name(row, "file"),
        at_line: row.number("line").unwrap_or(0),
        waited_s: row.number("wait_time").unwrap_or(0.0_f64).max(0.0),
        kind: kind(row.text("wait_type").unwrap_or_default()),
        address: row.string("wait_object"),
        name: row.string("object_name"),
        created_file: file_name(row, "created_file"),
        created_line: row.number("created_line"),
        holder_pthread_id: ["holder_thread_id", "writer_thread"].iter().find_map(holder),
        readers: row.number("readers"),
        locked_at: place("last_writer_file", "last_writer_line")
            .or_else(|| place("holder_file", "holder_line"))
            .unwrap_or_default(),
        ..SemaphoreWait::default()
    })
}

/// A source file without its folders.
fn file_name(row: &Row<'_>, column: &str) -> String {
    row.text(column).and_then(|file| file.rsplit('/').next()).unwrap_or_default().to_owned()
}

/// `MUTEX`, `RW_LOCK_S`, `RW_LOCK_X`, `RW_LOCK_X_WAIT`, `RW_LOCK_SX`
fn kind(wait_type: &str) -> SemaphoreKind {
    match wait_type.trim().to_ascii_uppercase().as_str() {
        kind if kind.contains("MUTEX") => SemaphoreKind::Mutex,
        kind if kind.contains("WAIT") => SemaphoreKind::WaitExclusive,
        kind if kind.ends_with("SX") => SemaphoreKind::SharedExclusive,
        kind if kind.ends_with("_X") || kind.ends_with("EXCLUSIVE") => SemaphoreKind::Exclusive,
        kind if kind.ends_with("_S") || kind.ends_with("SHARED") => SemaphoreKind::Shared,
        _ => SemaphoreKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recognise, window};

    #[test]
    fn a_list_of_waits_for_latches_says_who_has_the_latch() {
        let list = "*************************** 1. row ***************************\n       THREAD_ID: 140001\n     OBJECT_NAME: \n\
                    \x20           FILE: btr0cur.cc\n            LINE: 6219\n       WAIT_TIME: 244\n       WAIT_TYPE: RW_LOCK_S\n\
                    HOLDER_THREAD_ID: 140002\n    CREATED_FILE: buf0buf.cc\n    CREATED_LINE: 1221\n         READERS: 0\n\
                    LAST_WRITER_FILE: row0row.cc\nLAST_WRITER_LINE: 1301\n";
        let parts = recognise("x", list);
        let window = window(&parts);
        let status = window.latest(|sample| &sample.server.innodb_status).expect("a status");
        let [wait] = &status.semaphores.waiters[..] else { panic!("{status:?}") };
        assert_eq!((wait.pthread_id, wait.holder_pthread_id, wait.waited_s), (140_001, Some(140_002), 244.0));
        assert_eq!((wait.created_file.as_str(), wait.created_line), ("buf0buf.cc", Some(1221)));
        assert_eq!((wait.kind, wait.locked_at.as_str()), (SemaphoreKind::Shared, "row0row.cc:1301"));
    }

    #[test]
    fn every_kind_of_wait_is_known() {
        for (text, wanted) in [
            ("MUTEX", SemaphoreKind::Mutex),
            ("RW_LOCK_X", SemaphoreKind::Exclusive),
            ("RW_LOCK_X_WAIT", SemaphoreKind::WaitExclusive),
            ("RW_LOCK_SX", SemaphoreKind::SharedExclusive),
            ("another", SemaphoreKind::Unknown),
        ] {
            assert_eq!(kind(text), wanted, "{text}");
        }
    }
}
