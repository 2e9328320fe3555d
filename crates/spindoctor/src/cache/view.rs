//! The page cache's content, from the listed files to a report. Pure.
//!
//! In: readings of the server's files, the server's answers about them, the host's memory. Out: a [`CacheReport`],
//! serialised as `spindoctor.cache/1` and shown by `text`.

use jiff::Timestamp;
use serde::Serialize;
use spindoctor_collect::file_facts::Traffic;
use spindoctor_model::host::MemoryStat;
use spindoctor_model::page_cache::{CachedFile, FileKind};

use super::plan::Kept;
use super::settings;
use super::settings::{Opened, Setting};

/// Name and version of the serialised form.
pub const SCHEMA: &str = "spindoctor.cache/1";

/// Who fills the page cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheReport {
    pub schema: &'static str,
    pub server: Server,
    pub at: Timestamp,
    /// How long the rates were watched, seconds.
    pub seconds: f64,
    /// What one look at all files took, milliseconds.
    pub look_ms: f64,
    /// The kernel's call that showed what is cached.
    pub method: &'static str,
    pub memory: Option<MemoryStat>,
    /// Each kind of file that there is.
    pub kinds: Vec<Kind>,
    /// What of the page cache holds other files than the server's; None where some of the server's have no count.
    pub others_bytes: Option<u64>,
    /// What the server's process read from and wrote to storage.
    pub storage: Option<Rate>,
    /// The counters that the kinds' rates are of.
    pub rates_source: &'static str,
    pub buffer_pool_bytes: Option<u64>,
    /// What of the logs nobody will read soon: `--evict logs` takes it out.
    pub evictable_bytes: u64,
    /// What was taken out.
    pub eviction: Option<Eviction>,
    /// Logs that stay, and why.
    pub kept: Vec<Kept>,
    pub settings: Vec<Setting>,
    /// What could not be read, and what else is to be known.
    pub notes: Vec<String>,
    pub cost: Cost,
    pub files: Vec<CachedFile>,
}

/// Whose files they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Server {
    /// `MySQL 9.7.4 on db17`; none where there was no session.
    pub name: Option<String>,
    pub pid: u32,
    /// The data directory.
    pub data_directory: String,
}

/// What the look cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    pub server_queries: u64,
    pub server_busy_ms: f64,
    pub own_cpu_ms: f64,
}

/// All files of a kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kind {
    pub kind: FileKind,
    pub files: u64,
    pub bytes: u64,
    /// None where the kernel does not say of one of them.
    pub cached_bytes: Option<u64>,
    pub dirty_bytes: Option<u64>,
    pub opened: Option<Opened>,
    pub rate: Rate,
}

/// Bytes a second; None where nobody counts them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rate {
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
}

/// What was taken out of the page cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Eviction {
    /// Files that a part was taken out of.
    pub files: u64,
    pub took_ms: f64,
    /// What the cache held before and after, by kind.
    pub changes: Vec<Changed>,
    /// What did not work.
    pub failed: Vec<String>,
}

/// Before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Changed {
    pub kind: FileKind,
    pub before_bytes: u64,
    pub after_bytes: u64,
    /// Of what stays, this is to be written yet.
    pub dirty_bytes: Option<u64>,
}

impl Eviction {
    /// What logs hold less than before. The server wrote on meanwhile.
    pub fn freed_bytes(&self) -> u64 {
        let logs = self.changes.iter().filter(|change| change.kind.is_log());
        logs.map(|change| change.before_bytes.saturating_sub(change.after_bytes)).sum()
    }
}

/// Each kind of file that there is, in the order of reports.
pub fn kinds(files: &[CachedFile]) -> Vec<Kind> {
    FileKind::ALL
        .into_iter()
        .filter_map(|kind| {
            let of_kind: Vec<&CachedFile> = files.iter().filter(|file| file.kind == kind).collect();
            let sum = |pick: fn(&CachedFile) -> Option<u64>| {
                of_kind.iter().map(|file| pick(file)).sum::<Option<u64>>()
            };
            (!of_kind.is_empty()).then(|| Kind {
                kind,
                files: of_kind.len() as u64,
                bytes: of_kind.iter().map(|file| file.bytes).sum(),
                cached_bytes: sum(|file| file.cached_bytes),
                dirty_bytes: sum(|file| file.dirty_bytes),
                opened: settings::opened(files, kind),
                rate: Rate::default(),
            })
        })
        .collect()
}

/// What of the page cache holds other files: what the host has of it without the server's files.
pub fn others_bytes(kinds: &[Kind], memory: Option<&MemoryStat>) -> Option<u64> {
    let of_server = kinds.iter().map(|kind| kind.cached_bytes).sum::<Option<u64>>()?;
    Some(memory?.cached_bytes.saturating_sub(of_server))
}

/// Before and after, by kind.
pub fn changes(before: &[CachedFile], after: &[CachedFile]) -> Vec<Changed> {
    let after = kinds(after);
    let change = |kind: Kind| {
        let after = after.iter().find(|after| after.kind == kind.kind);
        Some(Changed {
            kind: kind.kind,
            before_bytes: kind.cached_bytes?,
            after_bytes: after.and_then(|after| after.cached_bytes)?,
            dirty_bytes: after.and_then(|after| after.dirty_bytes),
        })
    };
    kinds(before).into_iter().filter_map(change).collect()
}

/// Puts the rates between two readings of the counters into the kinds. Binary and relay logs that nobody counts have grown
/// by what was written to them.
pub fn add_rates(kinds: &mut [Kind], first: &Traffic, last: &Traffic, grown: &[CachedFile], seconds: f64) {
    if seconds <= 0.0 {
        return;
    }
    let per_s = |first: Option<u64>, last: Option<u64>| Some(last?.checked_sub(first?)? as f64 / seconds);
    for kind in kinds {
        let counted = |traffic: &Traffic| traffic.of.get(&kind.kind).copied().unwrap_or_default();
        let ((read_first, written_first), (read_last, written_last)) = (counted(first), counted(last));
        kind.rate = Rate {
            read_bytes_per_s: per_s(read_first, read_last),
            written_bytes_per_s: per_s(written_first, written_last),
        };
        if kind.rate.written_bytes_per_s.is_none() && matches!(kind.kind, FileKind::Binlog | FileKind::Relay)
        {
            let now = grown.iter().filter(|file| file.kind == kind.kind).map(|file| file.bytes).sum::<u64>();
            // Purged meanwhile, it is unknown.
            kind.rate.written_bytes_per_s = per_s(Some(kind.bytes), Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(kind: FileKind, bytes: u64, cached: Option<u64>) -> CachedFile {
        CachedFile {
            kind,
            bytes,
            cached_bytes: cached,
            dirty_bytes: cached.map(|_| 0),
            ..CachedFile::default()
        }
    }

    #[test]
    fn files_are_added_up_by_kind_and_one_without_a_count_leaves_the_sum_unknown() {
        let files = [
            file(FileKind::Binlog, 100, Some(50)),
            file(FileKind::Binlog, 100, Some(100)),
            file(FileKind::Data, 7, None),
            file(FileKind::Data, 7, Some(7)),
        ];
        let kinds = kinds(&files);
        assert_eq!(
            kinds.iter().map(|kind| kind.kind).collect::<Vec<_>>(),
            [FileKind::Data, FileKind::Binlog]
        );
        assert_eq!((kinds[0].files, kinds[0].bytes, kinds[0].cached_bytes), (2, 14, None));
        assert_eq!((kinds[1].bytes, kinds[1].cached_bytes), (200, Some(150)));
        let memory = MemoryStat { cached_bytes: 1_000, ..MemoryStat::default() };
        assert_eq!(others_bytes(&kinds, Some(&memory)), None);
        assert_eq!(others_bytes(&kinds[1..], Some(&memory)), Some(850));
    }

    #[test]
    fn rates_are_of_counters_and_of_logs_that_grow() {
        let files = [file(FileKind::Binlog, 100, Some(50)), file(FileKind::Redo, 100, Some(50))];
        let traffic = |written| Traffic { of: [(FileKind::Redo, (None, Some(written)))].into(), source: "" };
        let mut kinds = kinds(&files);
        add_rates(&mut kinds, &traffic(1_000), &traffic(3_000), &[file(FileKind::Binlog, 140, None)], 2.0);
        let rate = |written| Rate { read_bytes_per_s: None, written_bytes_per_s: Some(written) };
        assert_eq!((kinds[0].rate, kinds[1].rate), (rate(1_000.0), rate(20.0)));
        // A counter that went back shows nothing.
        add_rates(&mut kinds, &traffic(3_000), &traffic(1_000), &[], 2.0);
        assert_eq!((kinds[0].rate, kinds[1].rate), (Rate::default(), Rate::default()));
    }

    #[test]
    fn only_what_logs_lost_was_freed() {
        let before = [file(FileKind::Binlog, 100, Some(100)), file(FileKind::Data, 100, Some(100))];
        let after = [file(FileKind::Binlog, 100, Some(20)), file(FileKind::Data, 100, Some(90))];
        let changes = changes(&before, &after);
        let eviction = Eviction { files: 1, took_ms: 1.0, changes, failed: Vec::new() };
        assert_eq!(eviction.freed_bytes(), 80);
    }
}
