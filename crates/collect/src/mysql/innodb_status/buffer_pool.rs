//! Section BUFFER POOL AND MEMORY: the pool as a whole, in pages.

use spindoctor_model::innodb_status::BufferPool;

use super::Unknown;
use super::line::{numbers, squeeze};

/// Starts of lines that are known and say nothing that is kept.
const NOT_READ: &[&str] = &[
    "Total memory allocated",
    "Total large memory allocated",
    "Dictionary memory allocated",
    "Internal hash tables",
    "Adaptive hash index ",
    "Page hash ",
    "Dictionary cache ",
    "File system ",
    "Lock system ",
    "Recovery system ",
    "Threads ",
    "innodb_io_pattern ",
    "Buffer pool size, bytes ",
    "Old database pages ",
    "Percent of dirty pages",
    "Max dirty pages percent",
    "Percent pages dirty",
    "Pages made young ",
    "Buffer pool hit rate ",
    "No buffer pool page gets",
    "Pages read ahead ",
    "LRU len: ",
    "I/O sum[",
    "AWE: ",
];

/// Reads the section.
pub(super) fn parse(lines: &[&str], unknown: &mut Unknown) -> BufferPool {
    let mut section = BufferPool::default();
    for raw in lines {
        let line = squeeze(raw);
        // Buffer pool size        720896
        if let Some([pages]) = numbers(&line, "Buffer pool size {}") {
            section.pages = Some(pages);
        } else if let Some([pages]) = numbers(&line, "Free buffers {}") {
            section.free_pages = Some(pages);
        } else if let Some([pages]) = numbers(&line, "Database pages {}") {
            section.database_pages = Some(pages);
        } else if let Some([pages]) = numbers(&line, "Modified db pages {}") {
            section.dirty_pages = Some(pages);
        } else if let Some([reads]) = numbers(&line, "Pending reads {}") {
            section.pending_reads = Some(reads);
        // Pending writes: LRU 0, flush list 34, single page 0
        // Pending writes: LRU 0, flush list 0                     (MariaDB 10.6 and later)
        } else if let Some([lru, flush_list, single]) =
            numbers(&line, "Pending writes: LRU {}, flush list {}, single page {}")
        {
            section.pending_lru_writes = Some(lru);
            section.pending_flush_list_writes = Some(flush_list);
            section.pending_single_page_writes = Some(single);
        } else if let Some([lru, flush_list]) = numbers(&line, "Pending writes: LRU {}, flush list {}") {
            section.pending_lru_writes = Some(lru);
            section.pending_flush_list_writes = Some(flush_list);
        // Pages read 28593890, created 5375161, written 154670836
        } else if let Some([read, created, written]) = numbers(&line, "Pages read {}, created {}, written {}")
        {
            section.pages_read = Some(read);
            section.pages_created = Some(created);
            section.pages_written = Some(written);
        // 0.09 reads/s, 0.25 creates/s, 7.49 writes/s             and the like
        } else if !line.is_empty()
            && !line.ends_with("/s")
            && !NOT_READ.iter().any(|start| line.starts_with(start))
        {
            unknown.note(raw);
        }
    }
    section
}
