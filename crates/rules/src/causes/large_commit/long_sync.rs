//! A group of commits that waits for one long sync: what a large transaction wrote has to reach the disk before anybody's commit does.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::{Evidence, Window};

use super::super::commit_sync_bound::{SameSync, is_in_commit};
use super::super::storage_stalled::{self, Stretch, stretches};
use super::COPYING;
use crate::below::Below;
use crate::sessions::{at_work, session};

/// Functions in which the session that leads a group of commits writes and syncs the logs for it: sql/binlog.cc, sql/log.cc (MySQL 5.6
/// to 9.7, MariaDB 10.1 on).
const LEADS: &[&str] = &[
    "MYSQL_BIN_LOG::ordered_commit",
    "MYSQL_BIN_LOG::sync_binlog_file",
    "MYSQL_BIN_LOG::flush_and_sync",
    "MYSQL_BIN_LOG::trx_group_commit_leader",
];

/// One write or sync of that length is none of a few commits, where the disk works: as of storage-stalled.
const LONG_S: f64 = 1.0;

/// And so many times as long as the median of the others. Chosen: on a disk that is slow at a steady pace the longest of a hundred syncs
/// was three times as long (0.3 s by snapshots, of others of 0.1 s).
const LONGER: f64 = 5.0;

/// Bytes that the server wrote in the time of such a sync and shortly before, from which on the sync has much to do: ten megabytes, as
/// of a cache that is copied. By judgement.
const MUCH_BYTES: f64 = 10e6;

/// What is shorter is not measured by snapshots that are taken ten times a second.
const SHOWN_S: f64 = 0.1;

/// Seconds before the sync in which what it brings to the disk is written to the page cache. By judgement.
const BEFORE_S: f64 = 2.0;

/// A transaction that has changed so many rows, and so many times as many as any other of its list, is a large one. Chosen.
const ROWS: u64 = 100;
const TIMES_AS_MANY: u64 = 20;

/// Share of the lists of transactions in which it must be so.
const MOSTLY: f64 = 0.5;

/// What is seen of it.
pub(super) struct LongSync<'w> {
    /// The longest, as far as it is known to be one.
    longest_s: f64,
    /// The median of the others.
    others_s: f64,
    /// Share of the time in which one of a second or more stood.
    pub(super) ratio: f64,
    /// What the server wrote meanwhile and shortly before, where that can be read.
    written: Option<f64>,
    /// Whose transaction is by far the largest.
    pub(super) culprit: &'w ServerThread,
    /// Rows that it had changed.
    rows: u64,
}

impl<'w> LongSync<'w> {
    /// None where syncs are short or may be, or all of them are long, or nobody's transaction is far larger than those of others.
    pub(super) fn from_window(window: &'w Window, profile: &Profile) -> Option<Self> {
        let leads = Below::new(profile, LEADS);
        let counts = |one: &Observation| {
            matches!(one.state, ThreadState::Sync | ThreadState::DiskWrite) && leads.has(one)
        };
        let same = SameSync::new(window, profile);
        let mut all: Vec<(f64, Stretch)> =
            stretches(profile, counts).into_iter().map(|one| (same.known_s(&one), one)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let ((longest_s, longest), others) = all.split_first()?;
        let mut others_s: Vec<f64> = others.iter().map(|(_, one)| one.seconds()).collect();
        others_s.sort_by(|a, b| b.total_cmp(a));
        let others_s = others_s.get(others_s.len() / 2).copied().unwrap_or_default();
        let ratio = share_of_snapshots(profile, &all);
        let is_long = *longest_s >= LONG_S && *longest_s >= LONGER * others_s;
        if !is_long || ratio < COPYING || storage_stalled::hangs(window) {
            return None;
        }
        let written = written(window, longest);
        if written.is_some_and(|bytes| bytes < MUCH_BYTES) {
            return None;
        }
        let (culprit, rows) = far_larger(window)?;
        let tid = profile.threads.get(longest.thread as usize).map(|thread| u64::from(thread.tid));
        // Its own thread stands in that sync, or it commits meanwhile: another may lead the group that it is in.
        let syncs = tid.is_some() && tid == culprit.thread_os_id;
        (syncs || commits_meanwhile(window, culprit, longest)).then_some(Self {
            longest_s: *longest_s,
            others_s,
            ratio,
            written,
            culprit,
            rows,
        })
    }

    /// The mechanism, with its numbers.
    pub(super) fn why(&self) -> String {
        let written = self.written.map_or_else(String::new, |bytes| {
            format!(
                " The server wrote {} meanwhile and shortly before: that sync brings them to the disk.",
                spindoctor_model::number::bytes(bytes)
            )
        });
        let others = match self.others_s {
            few if few < SHOWN_S => "most others a tenth of a second or less".to_owned(),
            others_s => format!("most others {others_s:.1} s or less"),
        };
        format!(
            "Commits go to the disk in groups, and one session writes and syncs for all. One such I/O took {:.1} s and {others}: as long \
             as it takes no other commit goes on.{written} By far the most rows were changed by connection {}.",
            self.longest_s,
            self.culprit.connection_id.unwrap_or(0)
        )
    }

    /// Its readings.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let longest =
            Evidence::new("the longest write or sync for a group of commits", self.longest_s, "s", "stacks");
        let readings = [
            Some(longest.expected("< 1")),
            Some(Evidence::new("the median of the others", self.others_s, "s", "stacks")),
            Some(Evidence::new("time in which one of a second or more stood", self.ratio, "ratio", "stacks")),
            self.written.map(|bytes| {
                Evidence::new(
                    "written by the server in that time and 2 s before",
                    bytes,
                    "bytes",
                    "/proc/PID/io",
                )
            }),
            Some(Evidence::new("rows changed by its transaction", self.rows as f64, "", "INNODB_TRX")),
        ];
        readings.into_iter().flatten().collect()
    }
}

/// Share of the snapshots in which one of these stood that is known to be long.
fn share_of_snapshots(profile: &Profile, all: &[(f64, Stretch)]) -> f64 {
    let long: Vec<&Stretch> =
        all.iter().filter(|(known_s, _)| *known_s >= LONG_S).map(|(_, one)| one).collect();
    let stands = |at_s: f64| long.iter().any(|one| (one.since_s..=one.until_s).contains(&at_s));
    let seen = profile.snapshots.iter().filter(|cost| stands(cost.at_us as f64 / 1e6)).count();
    seen as f64 / profile.snapshots.len().max(1) as f64
}

/// Bytes that the server's process wrote from [`BEFORE_S`] before a sync to its end; None where they cannot be read.
fn written(window: &Window, sync: &Stretch) -> Option<f64> {
    let (begun_s, _) = window.profile.timed()?;
    let (from_s, to_s) = (begun_s + sync.since_s - BEFORE_S, begun_s + sync.until_s);
    let readings = window.all(|sample| &sample.host.process);
    let mut sum: Option<f64> = None;
    for pair in readings.windows(2) {
        let &[(earlier_s, before), (later_s, after)] = pair else { continue };
        let (Some(before), Some(after)) = (before.written_bytes, after.written_bytes) else { continue };
        if earlier_s < to_s && later_s > from_s {
            *sum.get_or_insert(0.0) += after.saturating_sub(before) as f64;
        }
    }
    sum
}

/// The session at work whose transaction has changed many rows, and far more than any other, in most of the lists; and how many.
fn far_larger(window: &Window) -> Option<(&ServerThread, u64)> {
    let mut seen: BTreeMap<u64, (usize, &ServerThread, u64)> = BTreeMap::new();
    let mut lists = 0_usize;
    for sample in &window.samples {
        let Some(transactions) = sample.server.transactions.value().filter(|all| !all.is_empty()) else {
            continue;
        };
        lists += 1;
        let mut rows: Vec<(u64, Option<u64>)> =
            transactions.iter().map(|one| (one.rows_modified, one.connection_id)).collect();
        rows.sort_unstable();
        let Some((most, Some(id))) = rows.pop() else { continue };
        let next = rows.last().map_or(0, |(rows, _)| *rows);
        if most < ROWS || most < next.saturating_mul(TIMES_AS_MANY) {
            continue;
        }
        let Some(thread) = session(&sample.server, id).filter(|thread| thread.is_at_work()) else { continue };
        let entry = seen.entry(id).or_insert((0, thread, 0));
        entry.0 += 1;
        entry.2 = entry.2.max(most);
    }
    let (times, thread, rows) = seen.into_values().max_by_key(|(times, _, _)| *times)?;
    (times as f64 >= MOSTLY * lists as f64).then_some((thread, rows))
}

/// True for a session that a list shows in its commit while that sync stood.
fn commits_meanwhile(window: &Window, culprit: &ServerThread, sync: &Stretch) -> bool {
    let begun_s = window.profile.timed().map_or(0.0, |(begun_s, _)| begun_s);
    let lists = window.all(|sample| &sample.server.threads);
    lists
        .iter()
        .filter(|(at_s, _)| (begun_s + sync.since_s..=begun_s + sync.until_s).contains(at_s))
        .flat_map(|(_, threads)| at_work(threads))
        .filter(|thread| thread.connection_id.is_some() && thread.connection_id == culprit.connection_id)
        .any(is_in_commit)
}
