//! A made-up report for the tests of formats.

use spindoctor_model::host::MemoryStat;
use spindoctor_model::page_cache::{CachedFile, Descriptor, FileKind};

use super::plan::Kept;
use super::settings::Setting;
use super::view::{CacheReport, Changed, Cost, Eviction, Rate, SCHEMA, Server, kinds, others_bytes};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn file(path: &str, kind: FileKind, bytes: u64, cached_bytes: u64, direct: bool) -> CachedFile {
    CachedFile {
        path: path.into(),
        kind,
        bytes,
        cached_bytes: Some(cached_bytes),
        dirty_bytes: Some(if kind == FileKind::Binlog { 3 * MIB } else { 0 }),
        open: vec![Descriptor { fd: 9, direct, ..Descriptor::default() }],
        ..CachedFile::default()
    }
}

/// A server of the story from which this command comes: 72 GiB of memory, a buffer pool of 55.
pub fn logs_in_the_way() -> CacheReport {
    let files = vec![
        file("/var/lib/mysql/#innodb_redo/#ib_redo12", FileKind::Redo, GIB, GIB, false),
        file("/var/lib/mysql/binlog.000041", FileKind::Binlog, 6 * GIB, 6 * GIB, false),
        file("/var/lib/mysql/binlog.000042", FileKind::Binlog, 3 * GIB, 3 * GIB, false),
        file("/var/lib/mysql/ibdata1", FileKind::Data, 200 * GIB, 12 * MIB, true),
        file("/var/lib/mysql/undo_001", FileKind::Undo, 2 * GIB, 0, true),
    ];
    let memory = MemoryStat {
        total_bytes: 72 * GIB,
        available_bytes: 14 * GIB,
        cached_bytes: 13 * GIB,
        ..MemoryStat::default()
    };
    let mut kinds = kinds(&files);
    for kind in &mut kinds {
        kind.rate = Rate {
            read_bytes_per_s: (kind.kind == FileKind::Data).then_some(40e6),
            written_bytes_per_s: Some(12e6),
        };
    }
    CacheReport {
        schema: SCHEMA,
        server: Server {
            name: Some("MySQL 8.4.3 on db17".into()),
            pid: 4310,
            data_directory: "/var/lib/mysql".into(),
        },
        at: "2026-07-01T09:30:00Z".parse().expect("a time"),
        seconds: 0.5,
        look_ms: 61.0,
        method: "cachestat",
        others_bytes: others_bytes(&kinds, Some(&memory)),
        memory: Some(memory),
        kinds,
        storage: Some(Rate { read_bytes_per_s: Some(41e6), written_bytes_per_s: Some(48e6) }),
        rates_source: "performance_schema.file_summary_by_event_name",
        buffer_pool_bytes: Some(55 * GIB),
        evictable_bytes: 6 * GIB,
        eviction: None,
        kept: vec![Kept {
            kind: FileKind::Binlog,
            path: "/var/lib/mysql/binlog.000042".into(),
            files: 1,
            cached_bytes: 3 * GIB,
            because: "a replica reads it".into(),
        }],
        settings: vec![Setting {
            setting: "innodb_flush_method = O_DIRECT".into(),
            means: "data, undo and doublewrite files go around the page cache".into(),
        }],
        notes: Vec::new(),
        cost: Cost { server_queries: 8, server_busy_ms: 9.0, own_cpu_ms: 70.0 },
        files,
    }
}

/// The same after the logs were taken out.
pub fn logs_taken_out() -> CacheReport {
    let change = |kind, before, after| Changed {
        kind,
        before_bytes: before,
        after_bytes: after,
        dirty_bytes: Some(0),
    };
    CacheReport {
        eviction: Some(Eviction {
            files: 1,
            took_ms: 412.0,
            changes: vec![
                change(FileKind::Data, 12 * MIB, 12 * MIB),
                change(FileKind::Redo, GIB, GIB),
                change(FileKind::Binlog, 9 * GIB, 3 * GIB),
            ],
            failed: vec!["/var/lib/mysql/binlog.000040 is another file than a moment ago".into()],
        }),
        ..logs_in_the_way()
    }
}

/// A server of which little could be read, with names that would steer a terminal.
pub fn hostile() -> CacheReport {
    let mut report = logs_in_the_way();
    report.server.name = Some("MySQL\u{1b}[2J on x".into());
    report.files[0].path = "/data/\u{1b}[31m\n\u{202e}x".into();
    report.files[1].cached_bytes = None;
    report.kinds = kinds(&report.files);
    report.others_bytes = None;
    report.memory = None;
    report.notes = vec!["no right to read \u{9b}2J".into()];
    report.kept[0].path = "\u{1b}]0;x".into();
    report
}
