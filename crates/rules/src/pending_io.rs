//! I/O of files that InnoDB's text shows under way.

use spindoctor_model::{InnodbStatus, number};

/// A kind of I/O, and how many of it were under way when the text was printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) count: u64,
    one: &'static str,
    many: &'static str,
}

impl Pending {
    /// The same where another section counts as many, or more.
    pub(crate) fn at_least(self, count: u64) -> Self {
        Self { count: self.count.max(count), ..self }
    }
}

/// What the sections BUFFER POOL AND MEMORY, LOG and FILE I/O show under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingIo {
    pub(crate) reads: Pending,
    /// As the buffer pool counts them.
    pub(crate) page_writes: Pending,
    pub(crate) log_flushes: Pending,
    pub(crate) data_syncs: Pending,
    /// All writes of data files, as the section FILE I/O counts them.
    pub(crate) file_writes: u64,
}

impl PendingIo {
    /// As the text prints it.
    pub(crate) fn from_status(status: &InnodbStatus) -> Self {
        let (pool, io) = (&status.buffer_pool, &status.file_io);
        let pages =
            [pool.pending_flush_list_writes, pool.pending_lru_writes, pool.pending_single_page_writes];
        let reads = pool.pending_reads.unwrap_or(0).max(io.pending_reads.unwrap_or(0));
        let flushes = status.log.pending_writes.unwrap_or(0).max(io.pending_log_fsyncs.unwrap_or(0));
        let pending = |count, one, many| Pending { count, one, many };
        Self {
            reads: pending(reads, "read", "reads"),
            page_writes: pending(pages.into_iter().flatten().sum(), "page write", "page writes"),
            log_flushes: pending(flushes, "flush of the redo log", "flushes of the redo log"),
            data_syncs: pending(
                io.pending_data_fsyncs.unwrap_or(0),
                "sync of a data file",
                "syncs of data files",
            ),
            file_writes: io.pending_writes.unwrap_or(0),
        }
    }
}

/// Those that are under way: `18 reads`, `1 page write`.
pub(crate) fn named(kinds: &[Pending]) -> Vec<String> {
    let under_way = kinds.iter().filter(|kind| kind.count > 0);
    under_way.map(|kind| number::counted(kind.count, kind.one, kind.many)).collect()
}
