//! Which parts of logs may leave the page cache, and why the others stay. Pure.
//!
//! In: the server's files with its descriptors of them, and what it says of its logs. Out: parts, and a reason for each
//! log that stays. A log is evicted only where there is proof that nobody will read it soon:
//!
//! - a binary log, where it is older than each one that the server has open for reading: a replica's dump thread reads
//!   through a descriptor of its own. Of the one that is written, the last part stays;
//! - a relay log, where it is older than the one that the channel's applier reads;
//! - a redo log file, as far as it lies behind the checkpoint: a crash recovery begins there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::Serialize;
use spindoctor_collect::file_facts::FileFacts;
use spindoctor_model::page_cache::{CachedFile, FileKind};

/// What stays of the binary log that is written, where no replica reads it: one that comes back after a moment reads from
/// where it stopped. A second of the fastest writers seen; chosen, not derived.
const TAIL_BYTES: u64 = 64 << 20;

/// The kernel keeps and drops whole pages; on aarch64 they may be this large.
const PAGE_BYTES: u64 = 64 << 10;

/// Bytes before the first record of a redo log file (MySQL 8.0.30, log0constants.h: LOG_FILE_HDR_SIZE, four blocks of 512).
const REDO_HEADER_BYTES: u64 = 2_048;

/// InnoDB writes no part of a page that is not cached where it pads writes to this size at least: the kernel would have to
/// read the page first. (innodb_log_write_ahead_size, 8,192 by default.)
const PADDED_FROM: f64 = 4_096.0;

/// A part of a file that may leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The file's place in the list.
    pub file: usize,
    /// From where to where.
    pub range: Range<u64>,
}

/// Logs that stay for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// What they are.
    pub kind: FileKind,
    /// The first of them.
    pub path: String,
    /// How many.
    pub files: u64,
    /// What of them is in the page cache.
    pub cached_bytes: u64,
    /// Why they stay.
    pub because: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What may leave.
    pub parts: Vec<Part>,
    /// What stays.
    pub kept: Vec<Kept>,
    /// The files among it, each with its reason: the parts of one file are one file.
    counted: BTreeSet<(String, String)>,
}

impl Plan {
    /// What may leave, where cached pages lie evenly in their files.
    pub fn evictable_bytes(&self, files: &[CachedFile]) -> u64 {
        let cached = self.parts.iter().map(|part| {
            let file = &files[part.file];
            let length = part.range.end.min(file.bytes).saturating_sub(part.range.start);
            let share = length as f64 / file.bytes.max(1) as f64;
            (file.cached_bytes.unwrap_or_default() as f64 * share) as u64
        });
        cached.sum()
    }

    fn leave(&mut self, log: &Log<'_>, range: Range<u64>) {
        if log.file.is_in_memory || log.file.is_deleted {
            self.keep(log.file, "");
        } else if !range.is_empty() {
            self.parts.push(Part { file: log.place, range });
        }
    }

    fn keep(&mut self, file: &CachedFile, because: impl Into<String>) {
        let because = if file.is_in_memory {
            "it lies on a file system in memory: the page cache is where it lives".to_owned()
        } else if file.is_deleted {
            "it is deleted already, and goes when the server closes it".to_owned()
        } else {
            because.into()
        };
        if !self.counted.insert((file.path.clone(), because.clone())) {
            return;
        }
        let cached_bytes = file.cached_bytes.unwrap_or_default();
        let is_same = |kept: &&mut Kept| kept.kind == file.kind && kept.because == because;
        match self.kept.iter_mut().find(is_same) {
            Some(kept) => {
                kept.files += 1;
                kept.cached_bytes += cached_bytes;
            }
            None => self.kept.push(Kept {
                kind: file.kind,
                path: file.path.clone(),
                files: 1,
                cached_bytes,
                because,
            }),
        }
    }
}

/// Adds the descriptors that a later look saw: a dump thread that was between two files has one again.
pub fn add_descriptors(files: &mut [CachedFile], later: &[CachedFile]) {
    let open: BTreeMap<(u64, u64), &CachedFile> =
        later.iter().filter(|file| !file.open.is_empty()).map(|file| (file.id, file)).collect();
    for file in files {
        let Some(again) = open.get(&file.id) else { continue };
        let new = again.open.iter().filter(|descriptor| {
            !file.open.iter().any(|known| known.fd == descriptor.fd && known.reads == descriptor.reads)
        });
        let new: Vec<_> = new.copied().collect();
        file.open.extend(new);
    }
}

/// Decides.
pub fn plan(files: &[CachedFile], facts: Option<&FileFacts>) -> Plan {
    let mut plan = Plan::default();
    let mut groups: BTreeMap<(FileKind, &str), Vec<Log<'_>>> = BTreeMap::new();
    for (place, file) in files.iter().enumerate().filter(|(_, file)| file.kind.is_log()) {
        // Also one that is not cached, or deleted: its readers show what is needed next.
        group(&mut groups, place, file);
    }
    for ((kind, stem), mut logs) in groups {
        logs.sort_by_key(|log| log.number);
        match kind {
            FileKind::Binlog => binlogs(&mut plan, &logs, readers(files), facts),
            FileKind::Relay => relay_logs(&mut plan, stem, &logs, facts),
            _ => redo_logs(&mut plan, &logs, facts),
        }
    }
    // What is not cached needs not leave.
    plan.parts.retain(|part| files[part.file].cached_bytes != Some(0));
    plan.kept.retain(|kept| kept.cached_bytes > 0);
    plan
}

/// A log with its number; a redo log file has none.
#[derive(Debug, Clone, Copy)]
struct Log<'a> {
    place: usize,
    number: u64,
    file: &'a CachedFile,
}

impl Log<'_> {
    /// Somebody reads it through a descriptor that cannot write.
    fn is_read(&self) -> bool {
        self.file.open.iter().any(|descriptor| descriptor.reads && !descriptor.writes)
    }

    fn is_written(&self) -> bool {
        self.file.open.iter().any(|descriptor| descriptor.writes)
    }
}

/// Puts a log beside those of the same name, number apart.
fn group<'a>(groups: &mut BTreeMap<(FileKind, &'a str), Vec<Log<'a>>>, place: usize, file: &'a CachedFile) {
    let (stem, number) = match (file.kind, file.path.rsplit_once('.')) {
        (FileKind::Binlog | FileKind::Relay, Some((stem, number))) => {
            (stem, number.parse().unwrap_or(u64::MAX))
        }
        _ => ("", 0),
    };
    groups.entry((file.kind, stem)).or_default().push(Log { place, number, file });
}

/// Descriptors through which binary logs are read.
fn readers(files: &[CachedFile]) -> u64 {
    let binlogs = files.iter().filter(|file| file.kind == FileKind::Binlog);
    binlogs.flat_map(|file| &file.open).filter(|descriptor| descriptor.reads && !descriptor.writes).count()
        as u64
}

fn binlogs(plan: &mut Plan, logs: &[Log<'_>], readers: u64, facts: Option<&FileFacts>) {
    let connected = facts.and_then(|facts| facts.dump_threads).unwrap_or(0);
    if connected > readers {
        for log in logs {
            plan.keep(
                log.file,
                format!(
                    "{connected} replicas are connected and {readers} descriptors read binary logs: one of them is \
                     between two files"
                ),
            );
        }
        return;
    }
    let newest = logs.last().map_or(0, |log| log.number);
    let needed = logs.iter().filter(|log| log.is_read()).map(|log| log.number).min();
    for log in logs {
        let is_active = log.number == newest || log.is_written();
        match needed {
            Some(needed) if log.number >= needed => {
                let reason = match log.is_read() {
                    true => "a replica reads it",
                    false => "a replica that reads an older one comes to it next",
                };
                plan.keep(log.file, reason);
            }
            _ if is_active => {
                let end = log.file.bytes.saturating_sub(TAIL_BYTES) / PAGE_BYTES * PAGE_BYTES;
                plan.leave(log, 0..end);
                if end == 0 {
                    plan.keep(
                        log.file,
                        "it is written, and its last 64 MiB stay for a replica that connects again",
                    );
                }
            }
            _ => plan.leave(log, 0..log.file.bytes),
        }
    }
}

fn relay_logs(plan: &mut Plan, stem: &str, logs: &[Log<'_>], facts: Option<&FileFacts>) {
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let text = match facts.map(|facts| &facts.relay) {
        Some(Ok(channels)) => {
            let number =
                |file: &str| file.rsplit_once('.').filter(|(of, _)| *of == name)?.1.parse::<u64>().ok();
            let of_this: Vec<u64> = channels.iter().filter_map(|channel| number(&channel.file)).collect();
            of_this.into_iter().min().ok_or("no channel says how far it is applied".to_owned())
        }
        Some(Err(why)) => Err(format!("how far it is applied is not known: {}", why.because)),
        None => Err("without a session nobody says how far it is applied".to_owned()),
    };
    let read = logs.iter().filter(|log| log.is_read()).map(|log| log.number).min();
    let newest = logs.last().map_or(0, |log| log.number);
    for log in logs {
        match &text {
            Err(why) => plan.keep(log.file, why.clone()),
            Ok(applied)
                if log.number < *applied
                    && read.is_none_or(|read| log.number < read)
                    && log.number < newest =>
            {
                plan.leave(log, 0..log.file.bytes);
            }
            Ok(_) => plan.keep(log.file, "the applier reads it, or comes to it"),
        }
    }
}

fn redo_logs(plan: &mut Plan, logs: &[Log<'_>], facts: Option<&FileFacts>) {
    for log in logs {
        match redo_log(log, facts) {
            Ok(range) if !range.is_empty() => plan.leave(log, range),
            Ok(_) => plan.keep(log.file, "no page of it lies behind the checkpoint"),
            Err(why) => plan.keep(log.file, why),
        }
    }
}

/// The part of a redo log file that lies behind the checkpoint.
fn redo_log(log: &Log<'_>, facts: Option<&FileFacts>) -> Result<Range<u64>, String> {
    let name = log.file.path.rsplit('/').next().unwrap_or_default();
    if !name.starts_with("#ib_redo") {
        return Err(
            "it is written in a circle: a page that has left is read again before a part of it is written"
                .into(),
        );
    }
    let facts = facts.ok_or("without a session nobody says where the checkpoint is")?;
    let padded = facts.variables.number("innodb_log_write_ahead_size");
    if !padded.is_some_and(|bytes| bytes >= PADDED_FROM) {
        return Err("innodb_log_write_ahead_size is below 4096: a page that has left is read again before a part of it is \
                    written"
            .into());
    }
    if log.is_read() {
        return Err("the server reads it".into());
    }
    if name.ends_with("_tmp") && !log.is_written() {
        // A spare file, to be written from its beginning on.
        return Ok(0..log.file.bytes);
    }
    let files = facts.redo.as_ref().map_err(|why| format!("the checkpoint is not known: {}", why.because))?;
    let checkpoint = facts.checkpoint_lsn.ok_or("the server does not say where the checkpoint is")?;
    let file = files.iter().find(|file| file.name == name).ok_or("the server does not say what is in it")?;
    if file.end_lsn <= checkpoint && !log.is_written() {
        return Ok(0..log.file.bytes);
    }
    let behind = checkpoint.saturating_sub(file.start_lsn);
    let end = (REDO_HEADER_BYTES + behind).min(log.file.bytes) / PAGE_BYTES * PAGE_BYTES;
    // The header's page is written again and again.
    Ok(PAGE_BYTES.min(end)..end)
}

#[cfg(test)]
mod tests {
    use spindoctor_collect::file_facts::{RedoFile, RelayPosition};
    use spindoctor_model::Unavailable;
    use spindoctor_model::page_cache::Descriptor;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn log(path: &str, kind: FileKind, open: &[Descriptor]) -> CachedFile {
        let bytes = 100 * MIB;
        CachedFile {
            path: path.into(),
            kind,
            bytes,
            cached_bytes: Some(bytes),
            open: open.to_vec(),
            id: (1, path.len() as u64 * 1_000 + u64::from(path.as_bytes()[path.len() - 1])),
            ..CachedFile::default()
        }
    }

    const READS: Descriptor =
        Descriptor { fd: 40, position_bytes: 0, reads: true, writes: false, direct: false };
    const WRITES: Descriptor =
        Descriptor { fd: 41, position_bytes: 0, reads: false, writes: true, direct: false };

    fn binlogs(open: [&[Descriptor]; 4]) -> Vec<CachedFile> {
        let logs = open.iter().zip(1..);
        logs.map(|(open, at)| log(&format!("/data/binlog.00000{at}"), FileKind::Binlog, open)).collect()
    }

    fn facts() -> FileFacts {
        FileFacts {
            variables: [("innodb_log_write_ahead_size", "8192")].into_iter().collect(),
            dump_threads: Some(0),
            relay: Ok(Vec::new()),
            redo: Ok(Vec::new()),
            checkpoint_lsn: Some(1_000 * MIB),
        }
    }

    fn leaves(files: &[CachedFile], facts: &FileFacts) -> Vec<(usize, u64, u64)> {
        let parts = plan(files, Some(facts)).parts;
        parts.into_iter().map(|part| (part.file, part.range.start / MIB, part.range.end / MIB)).collect()
    }

    #[test]
    fn where_no_replica_reads_all_but_the_end_of_the_last_binary_log_leaves() {
        let files = binlogs([&[], &[], &[], &[WRITES]]);
        assert_eq!(leaves(&files, &facts()), [(0, 0, 100), (1, 0, 100), (2, 0, 100), (3, 0, 36)]);
    }

    #[test]
    fn what_the_slowest_replica_reads_stays_and_all_after_it() {
        let files = binlogs([&[], &[READS], &[], &[WRITES, READS]]);
        let facts = FileFacts { dump_threads: Some(2), ..facts() };
        assert_eq!(leaves(&files, &facts), [(0, 0, 100)]);
        let plan = plan(&files, Some(&facts));
        let reasons: Vec<_> = plan.kept.iter().map(|kept| (kept.files, kept.because.as_str())).collect();
        assert_eq!(
            reasons,
            [(2, "a replica reads it"), (1, "a replica that reads an older one comes to it next")]
        );
        assert_eq!(plan.evictable_bytes(&files), 100 * MIB);
    }

    #[test]
    fn a_replica_that_is_between_two_files_keeps_all_of_them() {
        let files = binlogs([&[], &[], &[], &[WRITES, READS]]);
        let facts = FileFacts { dump_threads: Some(2), ..facts() };
        assert_eq!(leaves(&files, &facts), []);
        assert!(plan(&files, Some(&facts)).kept[0].because.contains("between two files"));
    }

    #[test]
    fn a_file_in_memory_is_counted_once_whatever_of_it_stays() {
        let mut files = binlogs([&[], &[], &[], &[WRITES]]);
        files.drain(..2);
        for file in &mut files {
            (file.is_in_memory, file.bytes, file.cached_bytes) = (true, MIB, Some(MIB));
        }
        let kept = plan(&files, Some(&facts())).kept;
        assert_eq!((kept.len(), kept[0].files, kept[0].cached_bytes), (1, 2, 2 * MIB), "{kept:?}");
    }

    #[test]
    fn a_later_look_adds_the_descriptors_that_it_saw() {
        let mut files = binlogs([&[], &[], &[], &[WRITES]]);
        let later = binlogs([&[], &[READS], &[], &[WRITES]]);
        add_descriptors(&mut files, &later);
        assert_eq!((files[1].open.len(), files[3].open.len()), (1, 1));
        assert_eq!(leaves(&files, &facts()), [(0, 0, 100)]);
    }

    #[test]
    fn a_file_that_is_purged_and_still_read_keeps_all_after_it() {
        let mut files = binlogs([&[READS], &[], &[], &[WRITES]]);
        files[0].is_deleted = true;
        assert_eq!(leaves(&files, &facts()), []);
    }

    #[test]
    fn a_file_that_is_read_and_not_cached_is_needed_all_the_same() {
        let mut files = binlogs([&[], &[READS], &[], &[WRITES]]);
        files[1].cached_bytes = Some(0);
        assert_eq!(leaves(&files, &facts()), [(0, 0, 100)]);
    }

    fn relay_logs(open: [&[Descriptor]; 3]) -> Vec<CachedFile> {
        let logs = open.iter().zip(1..);
        logs.map(|(open, at)| log(&format!("/data/relay-bin-east.00000{at}"), FileKind::Relay, open))
            .collect()
    }

    fn applied(file: &str) -> FileFacts {
        let position = RelayPosition { channel: "east".into(), file: file.into() };
        FileFacts { relay: Ok(vec![position]), ..facts() }
    }

    #[test]
    fn relay_logs_leave_that_are_applied() {
        let files = relay_logs([&[], &[READS], &[WRITES]]);
        assert_eq!(leaves(&files, &applied("relay-bin-east.000002")), [(0, 0, 100)]);
        // The descriptor is older than the position: the applier is about to read there.
        assert_eq!(leaves(&files, &applied("relay-bin-east.000003")), [(0, 0, 100)]);
        assert_eq!(
            leaves(&relay_logs([&[], &[], &[WRITES]]), &applied("relay-bin-east.000003")),
            [(0, 0, 100), (1, 0, 100)]
        );
    }

    #[test]
    fn relay_logs_stay_where_nobody_says_how_far_they_are_applied() {
        let files = relay_logs([&[], &[], &[WRITES]]);
        for facts in [
            applied("relay-bin-west.000003"),
            FileFacts { relay: Err(Unavailable::because("denied")), ..facts() },
        ] {
            assert_eq!(leaves(&files, &facts), []);
        }
        assert_eq!(plan(&files, None).parts, []);
    }

    fn redo(name: &str, open: &[Descriptor]) -> CachedFile {
        log(&format!("/data/#innodb_redo/{name}"), FileKind::Redo, open)
    }

    #[test]
    fn of_the_redo_log_leaves_what_lies_behind_the_checkpoint() {
        let files = [
            redo("#ib_redo1", &[]),
            redo("#ib_redo2", &[WRITES]),
            redo("#ib_redo3_tmp", &[]),
            redo("#ib_redo4", &[]),
        ];
        let file = |name: &str, start: u64| RedoFile {
            name: name.into(),
            start_lsn: start * MIB,
            end_lsn: (start + 100) * MIB,
        };
        let redo = Ok(vec![file("#ib_redo1", 850), file("#ib_redo2", 950), file("#ib_redo4", 1_050)]);
        let facts = FileFacts { redo, ..facts() };
        assert_eq!(leaves(&files, &facts), [(0, 0, 100), (1, 0, 50), (2, 0, 100)]);
        let plan_of_all = plan(&files, Some(&facts));
        let partly = &plan_of_all.parts[1].range;
        assert!(partly.start >= 4_096 && partly.end <= 50 * MIB + REDO_HEADER_BYTES, "{partly:?}");
        let small = [("innodb_log_write_ahead_size", "512")].into_iter().collect();
        assert_eq!(leaves(&files, &FileFacts { variables: small, ..facts }), []);
    }

    #[test]
    fn a_redo_log_that_is_written_in_a_circle_stays() {
        let files = [log("/data/ib_logfile0", FileKind::Redo, &[WRITES])];
        assert_eq!(leaves(&files, &facts()), []);
        assert!(plan(&files, Some(&facts())).kept[0].because.contains("in a circle"));
    }

    #[test]
    fn data_files_and_those_in_memory_are_never_in_a_plan() {
        let mut files = binlogs([&[], &[], &[], &[WRITES]]);
        files.iter_mut().for_each(|file| file.is_in_memory = true);
        files.push(log("/data/shop/orders.ibd", FileKind::Data, &[]));
        files.push(log("/data/undo_001", FileKind::Undo, &[]));
        let plan = plan(&files, Some(&facts()));
        assert_eq!(plan.parts, []);
        assert_eq!((plan.kept.len(), plan.kept[0].files), (1, 4));
    }
}
