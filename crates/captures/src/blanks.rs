//! Lists of locks and of transactions whose tabs a page made single blanks: with tabs again.
//!
//! ```text
//! REQUESTING_ENGINE_TRANSACTION_ID REQUESTING_THREAD_ID BLOCKING_ENGINE_TRANSACTION_ID BLOCKING_THREAD_ID
//! 2166 61 2160 58
//! ```
//!
//! A row has as many words as its head; a time has two of them, and what is too much is of the last column, where that is a record's or
//! a statement's. `spaced` does it for process lists.

use crate::rows::header_of;
use crate::table_kind::{TableKind, kind};

/// The lines of a text, with such lists as a client prints them in batch mode.
pub(crate) fn with_tabs(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| head(line).is_some()) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut names: Option<Vec<String>> = None;
    for (at, line) in lines.iter().enumerate() {
        let new = head(line).filter(|names| lines.get(at + 1).is_some_and(|next| row(next, names).is_some()));
        if let Some(new) = new {
            all.push(new.join("\t"));
            names = Some(new);
            continue;
        }
        let row = names.as_ref().and_then(|names| row(line, names));
        if row.is_none() {
            names = None;
        }
        all.push(row.unwrap_or_else(|| line.clone()));
    }
    all
}

/// The names of a head with single blanks between them.
fn head(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    if !line.contains('_') || line.contains(['\t', '|', ',', ';']) || line.contains("  ") {
        return None;
    }
    let names = header_of(line)?;
    let is_of_locks = matches!(
        kind(&names)?,
        TableKind::LockWaits
            | TableKind::TableLockWaits
            | TableKind::DataLocks
            | TableKind::MetadataLocks
            | TableKind::MetadataLockInfo
            | TableKind::Transactions
            | TableKind::ThreadIds
    );
    is_of_locks.then_some(names)
}

fn row(line: &str, names: &[String]) -> Option<String> {
    /// Columns whose values may have several words.
    const LONG: [&str; 6] = [
        "lock_data",
        "trx_query",
        "waiting_query",
        "blocking_query",
        "sql_kill_blocking_connection",
        "processlist_info",
    ];
    if line.trim().is_empty() || line.contains('\t') {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match words.last_mut() {
            Some(date) if is_date(date) && is_time(word) => {
                date.push(' ');
                date.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    // The source of a lock is empty where the server was built so.
    let source = names.iter().position(|name| name == "source");
    if let Some(source) = source.filter(|_| words.len() + 1 == names.len()) {
        words.insert(source, "NULL".to_owned());
    }
    let last = names.len() - 1;
    if words.len() > names.len() && LONG.contains(&names[last].as_str()) {
        let rest = words.split_off(last).join(" ");
        words.push(rest);
    }
    (words.len() == names.len()).then(|| words.join("\t"))
}

fn is_date(word: &str) -> bool {
    word.len() == "2024-05-02".len() && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn is_time(word: &str) -> bool {
    word.contains(':') && word.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Said;
    use crate::recognise;

    #[test]
    fn locks_and_waits_with_single_blanks_name_who_has_the_lock() {
        let text = "ENGINE ENGINE_LOCK_ID ENGINE_TRANSACTION_ID THREAD_ID OBJECT_SCHEMA OBJECT_NAME INDEX_NAME LOCK_TYPE LOCK_MODE LOCK_STATUS LOCK_DATA\n\
                    INNODB 71:4:12 71 91 shop stock PRIMARY RECORD X,REC_NOT_GAP WAITING 5, 7\n\
                    INNODB 70:4:12 70 90 shop stock PRIMARY RECORD X,REC_NOT_GAP GRANTED 5, 7\n\n\
                    REQUESTING_ENGINE_TRANSACTION_ID REQUESTING_THREAD_ID BLOCKING_ENGINE_TRANSACTION_ID BLOCKING_THREAD_ID\n71 91 70 90\n";
        let parts = recognise("x", text);
        let said: Vec<&Said> =
            parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said).collect();
        let waits: Vec<_> = said
            .iter()
            .filter_map(|said| if let Said::LockWaits(waits) = said { waits.first() } else { None })
            .collect();
        assert_eq!(waits.len(), 2, "{parts:?}");
        assert_eq!((waits[0].table.as_str(), waits[0].record.as_str()), ("shop.stock", "5, 7"));
        assert!(waits.iter().all(|wait| wait.blocking_transaction == "70"), "{waits:?}");
        assert!(
            parts.iter().any(|part| part.says.iter().any(|says| says.contains("THREAD_ID = 90"))),
            "{parts:?}"
        );
    }

    #[test]
    fn times_have_two_words_and_a_source_may_be_empty() {
        let of = |text: &str| with_tabs(text.lines().map(str::to_owned).collect());
        assert_eq!(
            of(
                "wait_started waiting_trx_id waiting_pid blocking_trx_id blocking_pid\n2024-05-02 08:01:40 11 5 12 6\n"
            )[1],
            "2024-05-02 08:01:40\t11\t5\t12\t6"
        );
        let locks = "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME LOCK_TYPE LOCK_STATUS SOURCE OWNER_THREAD_ID\nTABLE shop stock EXCLUSIVE PENDING 60\n";
        assert_eq!(of(locks)[1], "TABLE\tshop\tstock\tEXCLUSIVE\tPENDING\tNULL\t60");
        let prose = "the waiting_pid and the blocking_pid\nare not here\n";
        assert_eq!(of(prose), prose.lines().collect::<Vec<_>>());
    }
}
