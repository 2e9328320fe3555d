//! Section LOG: the redo log's sequence numbers.

use spindoctor_model::innodb_status::LogSection;

use super::Unknown;
use super::line::{numbers, squeeze, two_words, values};

/// Starts of lines that are known and say nothing that is kept.
const NOT_READ: &[&str] = &[
    "Log capacity used ",
    "Log buffer assigned up to ",
    "Log buffer completed up to ",
    "Log written up to ",
    "Added dirty pages up to ",
    "Log minimum file id is ",
    "Log maximum file id is ",
    "Max checkpoint age ",
    "Checkpoint age ",
    "Modified age ",
    "log sync callers: ",
    "log sync syncers: ",
    "Log tracking ",
    "Log tracked up to ",
    "Max tracked LSN age ",
];

/// Reads the section.
pub(super) fn parse(lines: &[&str], unknown: &mut Unknown) -> LogSection {
    let mut section = LogSection::default();
    for raw in lines {
        let line = squeeze(raw);
        // Log sequence number 125 3934414864          (up to 5.1)
        // Log sequence number          32368884       (8.0)
        if let Some([lsn]) = values(&line, "Log sequence number {}") {
            section.current_lsn = two_words(lsn);
        } else if let Some([lsn]) = values(&line, "Log flushed up to {}") {
            section.flushed_lsn = two_words(lsn);
        // Pages flushed up to 445926                  (5.6 and later)
        } else if let Some([lsn]) = values(&line, "Pages flushed up to {}") {
            section.pages_flushed_lsn = two_words(lsn);
        } else if let Some([lsn]) = values(&line, "Last checkpoint at {}") {
            section.checkpoint_lsn = two_words(lsn);
        // Log capacity                 104857600      (9.x)
        } else if let Some([bytes]) = numbers(&line, "Log capacity {}") {
            section.capacity_bytes = Some(bytes);
        // Max checkpoint age    80826164               (Percona Server 5.x)
        } else if let Some([bytes]) = numbers(&line, "Max checkpoint age {}") {
            section.checkpoint_max_age_bytes = Some(bytes);
        // 0 pending log writes, 0 pending chkp writes     (up to 5.6)
        // 0 pending log flushes, 0 pending chkp writes    (5.7)
        } else if let Some([writes]) =
            numbers(&line, "{} pending log writes, ").or_else(|| numbers(&line, "{} pending log flushes, "))
        {
            section.pending_writes = Some(writes);
        // 15 log i/o's done, 0.00 log i/o's/second
        } else if let Some([ios]) = numbers(&line, "{} log i/o's done, ") {
            section.ios = Some(ios);
        } else if !line.is_empty() && !NOT_READ.iter().any(|start| line.starts_with(start)) {
            unknown.note(raw);
        }
    }
    section
}
