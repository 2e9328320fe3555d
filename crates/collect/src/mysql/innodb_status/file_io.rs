//! Section FILE I/O: what is on its way to and from the disks.

use spindoctor_model::innodb_status::FileIo;

use super::Unknown;
use super::line::{numbers, squeeze, values, whole};

/// Starts and contents of lines that are known and say nothing that is kept.
const NOT_READ: &[&str] = &["I/O thread ", "ibuf aio reads"];

/// Reads the section.
pub(super) fn parse(lines: &[&str], unknown: &mut Unknown) -> FileIo {
    let mut section = FileIo::default();
    let mut always_printed = false;
    for raw in lines {
        let line = squeeze(raw);
        // Pending normal aio reads: 45, aio writes: 0,                                       (5.0)
        // Pending normal aio reads: 0 [0, 0, 0, 0] , aio writes: 0 [0, 0, 0, 0] ,            (5.5)
        // Pending normal aio reads: [0, 0, 0, 0] , aio writes: [0, 0, 0, 0] ,                (5.7 and later)
        if let Some([reads, writes]) = values(&line, "Pending normal aio reads:{}, aio writes:{}") {
            always_printed = true;
            section.pending_reads = pending(reads);
            section.pending_writes = pending(writes.trim_end_matches([',', ' ']));
        // Pending flushes (fsync) log: 0; buffer pool: 0
        } else if let Some([log, data]) = numbers(&line, "Pending flushes (fsync) log: {}; buffer pool: {}") {
            section.pending_log_fsyncs = Some(log);
            section.pending_data_fsyncs = Some(data);
        // Pending flushes (fsync): 0                                                         (MariaDB 10.6 and later)
        } else if let Some([all]) = numbers(&line, "Pending flushes (fsync): {}") {
            section.pending_data_fsyncs = Some(all);
        // 28 OS file reads, 19 OS file writes, 14 OS fsyncs
        } else if let Some([reads, writes, fsyncs]) =
            numbers(&line, "{} OS file reads, {} OS file writes, {} OS fsyncs")
        {
            section.os_reads = Some(reads);
            section.os_writes = Some(writes);
            section.os_fsyncs = Some(fsyncs);
        // 1 pending reads, 0 pending writes                      (MariaDB 10.5 and later, where any)
        } else if let Some([reads, writes]) = numbers(&line, "{} pending reads, {} pending writes") {
            section.pending_reads = Some(reads);
            section.pending_writes = Some(writes);
        } else if line.contains(" avg bytes/read, ") {
            // The rates come last. MariaDB prints the line on pending I/O above them only where there is some, since
            // 10.5 (os_aio_print, os0file.cc): by now its absence means none.
            if !always_printed {
                section.pending_reads.get_or_insert(0);
                section.pending_writes.get_or_insert(0);
            }
        // 0 pending preads, 1 pending pwrites                    (synchronous I/O, up to 5.5)
        } else if !line.is_empty()
            && numbers::<2>(&line, "{} pending preads, {} pending pwrites").is_none()
            && !NOT_READ.iter().any(|start| line.starts_with(start))
        {
            unknown.note(raw);
        }
    }
    section
}

/// The total where it is printed, or the sum over the threads.
fn pending(text: &str) -> Option<u64> {
    let (total, threads) = text.split_once('[').unwrap_or((text, ""));
    let total = total.trim();
    if !total.is_empty() {
        return whole(total);
    }
    let threads = threads.strip_suffix(']')?;
    threads
        .split(',')
        .try_fold(0_u64, |sum, thread| whole(thread.trim()).and_then(|number| sum.checked_add(number)))
}
