//! `commit-sync-bound`: commits wait for the redo log or the binary log to reach storage.

mod by_stacks;
mod same_sync;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::page_cache::FileKind;
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{
    Evidence, Finding, Remedy, Root, TimeClass, TroubleKind, Unavailable, Window, number,
};

use super::{cluster_partition, commit_delay_set, disk_full, semi_sync_wait};
use crate::commits::commits_per_s;
use crate::disk_users::BusyDisk;
use crate::draft::{Draft, set_back};
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::redo_sync::{CommitQueue, FROM_COMMITS, redo_has_another_disk, redo_sync_behind};
use crate::replication_group;
use crate::sessions::{Waiting, mean};
use crate::stall::{LATCH_WAITS, Look, Stall, nobody};
use crate::time_model::{InClasses, wait_class};
use crate::wait_graph::root_at_the_end;
use crate::{Cause, Costs, Outcome, Rule, Stacks};
use by_stacks::{FROM_STACKS, snapshots_in_sync, sync_by_stacks};

pub(super) use same_sync::SameSync;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "commit-sync-bound",
    title: "commits wait for fsync of redo or binary log",
    what: "A durable commit is on disk before the client hears of it: one fsync of the redo log \
           (innodb_flush_log_at_trx_commit=1) and one of the binary log (sync_binlog=1). Commits that come \
           together share one fsync (group commit), so with few clients every transaction pays for a whole one, \
           and with many the rate is groups a second, whatever else the server could do.",
    why_it_hurts: "Sessions stand in line for a disk that can do only so many syncs a second: 100 on a rotating \
                   disk, a thousand on a network volume, tens of thousands on storage with a protected cache. \
                   Each waiting commit keeps its row locks, so the line grows sideways.",
    evidence: "Sessions whose state is a commit (waiting for handler commit, Commit, statement COMMIT) in each \
               sample; syncs of the redo log a second; the time of one, from performance_schema's file waits \
               (on by default in MySQL; of the binary log alone where the redo log's syncs take less than a tenth of its), or the metric log_flush_avg_time; where the server does not time it, from the \
               share of samples with a session in commit while CPU is to be had, from the disks' own \
               times, or from stacks: the share of snapshots with a sync divided by the syncs that are counted, or how long snapshots \
               show one in which its thread, or a session of its group, has not moved. It \
               fires when two or more sessions on average are in commit, they are 30 % or more of the sessions \
               at work, one sync takes 300 us or more, and the logs are being written half of the time. The \
               score is the share of sessions in commit times the share of time the logs are busy.\n\n\
               Where neither \
               log is synced at commit it fires by the stacks alone: two sessions and a tenth of those at work wait \
               to write the redo log while another thread, as a rule the page cleaner, syncs it.\n\n\
               Beside it stands the disk below the logs, where it is busy, or where that is unknown (a volume, a loop device, an \
               overlay) the only busy one that does what the server asks for, and the part of it that the server's process has: where \
               that is well below a half, others are named first, and the programs that read and write most by /proc/*/io.",
    looks_alike: "Commits of many sessions on fast storage (50 us a sync) queue for a moment and are no trouble. \
                  With commits burning CPU instead of sleeping, see quota-blind-spin. Waiting for semi-sync ACK \
                  is the network and the replica. Waiting for commit lock is a backup: global-lock-pileup. A \
                  full redo log stops writes, not commits: checkpoint-stall.",
    remedies: "Where others have most of the disk: find and bound them. Storage with a power-protected write cache, for the redo and \
               binary logs at least. Fewer commits: \
               several rows or statements to a transaction. On MySQL 5.7 and later \
               binlog_group_commit_sync_delay of some hundred microseconds makes larger groups when many \
               sessions commit; on MariaDB binlog_commit_wait_count and _usec. Giving up durability \
               (innodb_flush_log_at_trx_commit=2, sync_binlog=0) only where a replica or the source of the data \
               makes it good.",
    safety: "Group commit delays are dynamic and add their time to each commit: measure. Without \
             innodb_flush_log_at_trx_commit=1 a crash of the host loses up to a second of transactions that \
             clients saw succeed; without sync_binlog=1 replicas may have transactions that the source lost. \
             All of these are dynamic and undone by setting the old value.",
    references: &[
        "MySQL Reference Manual: innodb_flush_log_at_trx_commit, sync_binlog, binlog_group_commit_sync_delay",
        "MariaDB Knowledge Base: Group Commit for the Binary Log",
        "Domas Mituzas, Logs memory pressure",
    ],
    costs: Costs::Waits(&[TimeClass::Commit, TimeClass::CommitOrder]),
    explains_time: &[TimeClass::Commit, TimeClass::CommitOrder, TimeClass::Write],
    stacks: Stacks::Standing(&[
        "MYSQL_BIN_LOG::ordered_commit",
        "log_write_up_to",
        // MariaDB
        "MYSQL_BIN_LOG::queue_for_group_commit",
        "MYSQL_BIN_LOG::trx_group_commit_leader",
        "ha_commit_trans",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Sessions in commit on average. Below two nobody queues: each pays for its own sync.
const IN_COMMIT: f64 = 2.0;

/// Share of the sessions at work that are in commit.
const IN_COMMIT_RATIO: f64 = 0.3;

/// One sync of this length is slow: protected caches and good flash take 20 to 150 us.
const SLOW_SYNC_US: f64 = 300.0;

/// Without threads of the log (innodb_log_writer_threads=OFF, the default on few CPUs from MySQL 9.5 on) one mutex is held
/// over a sync: a commit that only writes waits for the sync of the page cleaner, which may write no page that is newer than
/// the log (MySQL: log0write.cc, log_write_up_to; buf0flu.cc, buf_flush_write_block_low).
const SYNC_OF_ANOTHER: Look = Look {
    does: &["Log_file_handle::fsync"],
    waits: |names| names.contains(&"log_write_up_to") && names.iter().any(|name| LATCH_WAITS.contains(name)),
    waits_beside: nobody,
};

/// Share of the time in which a log is being written or synced: below half, commits wait for something
/// else.
const LOGS_BUSY: f64 = 0.5;

/// What `iostat -x` shows: that the disk has no time left for writes, not who waits.
fn of_capture(window: &Window) -> Option<Finding> {
    let why = "A disk that is busy all the time and keeps each write for milliseconds has a queue: where it holds the logs, each \
               commit waits in it for its sync.";
    let remedy = Remedy {
        statement: "Find who writes to that disk (`pidstat -d 1`), and whether sessions wait: SHOW FULL PROCESSLIST beside it".into(),
        why: "Backups, temporary files and other programs can be moved; commits of a server can be made fewer.".into(),
        dynamic: true,
        ..Remedy::default()
    };
    logged::printed(window, &CAUSE, TroubleKind::BusyWriting, WARNING_FROM, why, remedy)
        .or_else(|| of_stacks(window))
}

/// Functions below which a thread syncs the log for a commit, and the file that each is of.
const SYNCS: [(&str, &str); 5] = [
    ("MYSQL_BIN_LOG::sync_binlog_file", "binary log"),
    ("fil_flush_file_redo", "redo log"),
    ("log_write_up_to", "redo log"),
    ("log_t::flush", "redo log"),
    ("log_flusher", "redo log"),
];

/// Sessions in commit, from which on stacks that somebody captured show more than a part of a server. By judgement.
const CROWD: f64 = 4.0;

/// Stacks that somebody captured of commits that stand behind a sync which one of them does.
fn of_stacks(window: &Window) -> Option<Finding> {
    let profile = window.profile.value().filter(|_| window.is_given())?;
    let names = |frames: &[u32]| -> Vec<&str> {
        frames.iter().filter_map(|&at| Some(profile.frames.get(at as usize)?.name.as_str())).collect()
    };
    let time = crate::session_time(window)?;
    let commits = InClasses::from_time(&time, &[TimeClass::Commit])?;
    let file = profile.stacks.iter().find_map(|stack| {
        let names = names(&stack.frames);
        let syncs = names.iter().any(|name| name.contains("fsync") || name.contains("fdatasync"));
        SYNCS.iter().find(|(function, _)| syncs && names.contains(function)).map(|(_, file)| *file)
    })?;
    if commits.sessions < CROWD {
        return None;
    }
    Some(
        commits
            .draft(
                &CAUSE,
                format!("{} in commit while one of them syncs the {file}", number::counted(commits.sessions.round() as u64, "session stands", "sessions stand")),
            )
            .why(format!(
                "Commits go to disk in groups: one session writes and syncs the {file} for all, and the others wait for it or for the next \
                 turn. One look does not say how long a sync takes: `iostat -x 1`, or a second look, does."
            ))
            .remedy(Remedy {
                statement: format!("iostat -x 1 on the device of the {file}; a second `thread apply all bt` some seconds later"),
                why: "A sync of some milliseconds and more, or the same thread in it again, is a slow or busy disk.".into(),
                dynamic: true,
                risk: "The server is stopped while gdb reads, for seconds.".into(),
                undo: String::new(),
            })
            .remedy(faster_storage())
            .finding(),
    )
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// Why nothing says how long a sync takes. On the server's own host it is the disks that do not.
fn no_sync_time(window: &Window) -> Unavailable {
    let seen = snapshots_in_sync(window).map_or_else(String::new, |(seen, all)| {
        format!(
            "; {seen} of {all} snapshots show a thread in one, which may be one long sync or many short ones"
        )
    });
    let unknown = format!("sessions are in commit, and no source shows how long one sync takes{seen}");
    let disks = window.need(|sample| &sample.host.disks).err();
    match (window.server.pid, disks) {
        (Some(_), Some(why)) => {
            Unavailable::because(format!("{unknown}: {}", why.because)).unlock("switch performance_schema on")
        }
        (Some(_), None) => Unavailable::because(unknown).unlock("switch performance_schema on"),
        (None, _) => Unavailable::because(unknown)
            .unlock("run spindoctor on the server's host (disk times), or switch performance_schema on"),
    }
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let redo = window.need_variable("innodb_flush_log_at_trx_commit")?;
    let variables = window.need(|s| &s.server.variables)?;
    let binlog = variables.switch("log_bin") == Some(true) && variables.number("sync_binlog") == Some(1.0);
    if redo != 1.0 && !binlog {
        return Ok(behind_another(window));
    }
    let waiting = Waiting::count(window, is_in_commit)?;
    let ratio = waiting.lost_ratio();
    if waiting.mean < IN_COMMIT || ratio < IN_COMMIT_RATIO {
        return Ok(None);
    }
    // No sync, however long, is what commits wait for then.
    if disk_full::is_seen(window) {
        return Ok(None);
    }
    let samples_ratio = mean(waiting.series.iter().map(|&(_, waiting)| f64::from(u8::from(waiting > 0.0))));
    let queue = CommitQueue { mean: waiting.mean, samples_ratio };
    let Some(sync) = redo_sync_behind(window, queue).or_else(|| sync_by_stacks(window)) else {
        return Err(no_sync_time(window));
    };
    // Commits that wait for something else count as long syncs where nothing but their number and their time is known.
    let is_something_else = || {
        commit_delay_set::is_long(window)
            || semi_sync_wait::is_seen(window)
            || cluster_partition::group_lacks_a_majority(window)
            || replication_group::is_member(window)
    };
    if sync.source == FROM_COMMITS && is_something_else() {
        return Err(no_sync_time(window));
    }
    if sync.mean_us < SLOW_SYNC_US || sync.busy_ratio < LOGS_BUSY {
        return Ok(None);
    }
    let is_mariadb = window.server.version.is_some_and(spindoctor_model::ServerVersion::is_mariadb);
    let (logs, log, synced): (_, _, &[FileKind]) = match (binlog, sync.is_of_binlog) {
        (_, true) => ("binary log", "binary log", &[FileKind::Binlog]),
        (true, false) => ("redo and binary log", "log", &[FileKind::Redo, FileKind::Binlog]),
        (false, false) => ("redo log", "log", &[FileKind::Redo]),
    };
    let disk = BusyDisk::from_window(window, sync.busy_ratio * LOGS_BUSY, synced);
    let syncs = match sync.source.as_str() {
        FROM_STACKS => Evidence::new("syncs of commits that were seen", sync.per_s, "1/s", "stacks"),
        _ if sync.is_of_binlog => Evidence::new("syncs of the binary log", sync.per_s, "1/s", &sync.source),
        _ => Evidence::new("syncs of the redo log", sync.per_s, "1/s", "SHOW GLOBAL STATUS"),
    };
    Ok(Some(
        Draft::new(
            &CAUSE,
            ratio * sync.busy_ratio,
            format!(
                "{:.1} sessions on average wait in commit: one sync of the {log} takes {:.1} ms{}",
                waiting.mean,
                sync.mean_us / 1e3,
                disk.as_ref().map_or_else(String::new, BusyDisk::in_headline)
            ),
        )
        .why(format!(
            "The {logs} must be on disk before a commit returns; {:.0} syncs a second keep {} busy {:.0} % of \
             the time.{}",
            sync.per_s,
            if sync.is_of_binlog { "it" } else { "the logs" },
            sync.busy_ratio * 100.0,
            disk.as_ref().map_or_else(String::new, BusyDisk::in_words)
        ))
        .evidence(
            Evidence::new("sessions in commit", waiting.mean, "", "thread list, state")
                .expected(format!("< {IN_COMMIT:.0}"))
                .series(waiting.series.clone()),
        )
        .evidence(
            Evidence::new("share of the sessions at work", ratio, "ratio", "thread list")
                .expected(format!("< {IN_COMMIT_RATIO}")),
        )
        .evidence(Evidence::new("one sync", sync.mean_us / 1e3, "ms", &sync.source).expected("< 0.3"))
        .evidence(syncs)
        .evidence(Evidence::new("time the logs are busy", sync.busy_ratio, "ratio", sync.busy_source).expected("< 0.5"))
        .evidence_if(
            commits_per_s(window).ok().map(|per_s| Evidence::new("commits", per_s, "1/s", "SHOW GLOBAL STATUS Com_*")),
        )
        .evidence_all(disk.iter().flat_map(BusyDisk::evidence))
        .remedies(disk.iter().flat_map(BusyDisk::remedies))
        .remedy(match sync.is_of_binlog && redo_has_another_disk(window) {
            true => beside_the_redo_log(),
            false => faster_storage(),
        })
        .remedy_if((binlog && !is_mariadb).then(|| Remedy {
            statement: "SET GLOBAL binlog_group_commit_sync_delay = 300".into(),
            why: "Commits wait 300 us for company and share one sync.".into(),
            dynamic: true,
            risk: crate::proposals::risks::COMMITS_LATER.into(),
            undo: set_back(window, "binlog_group_commit_sync_delay"),
        }))
        .remedy_if(sync.is_of_binlog.then(|| Remedy {
            statement: "SET GLOBAL sync_binlog = 100".into(),
            why: "The binary log is then synced once for a hundred groups of commits.".into(),
            dynamic: true,
            risk: "A crash of the host loses transactions from the binary log that clients saw succeed and InnoDB has: replicas miss them."
                .into(),
            undo: "SET GLOBAL sync_binlog = 1".into(),
        }))
        .remedy_if((!sync.is_of_binlog).then(|| Remedy {
            statement: format!("SET GLOBAL innodb_flush_log_at_trx_commit = 2{}", if binlog { ", sync_binlog = 100" } else { "" }),
            why: "The logs are then synced now and then, and commits only write them.".into(),
            dynamic: true,
            risk: "A crash of the host loses up to a second of transactions that clients saw succeed. Only where \
                   that can be made good."
                .into(),
            undo: format!(
                "SET GLOBAL innodb_flush_log_at_trx_commit = {redo:.0}{}",
                if binlog { ", sync_binlog = 1" } else { "" }
            ),
        }))
        .root(root_at_the_end(window, &[LockKind::CommitQueue]).filter(is_of_the_server))
        .finding(),
    ))
}

/// Commits that need no sync and wait for the sync of another thread; none where no stacks show it.
fn behind_another(window: &Window) -> Option<Finding> {
    let stall = Stall::count(window, SYNC_OF_ANOTHER).ok().flatten()?;
    if !stall.matters() || stall.doing == 0.0 {
        return None;
    }
    let [waiting, share] = stall.evidence("sessions that wait to write the redo log");
    Some(
        Draft::new(
            &CAUSE,
            stall.ratio(),
            format!(
                "{:.1} sessions on average wait to write the redo log, which another thread syncs",
                stall.held_up
            ),
        )
        .why(
            "Commits need not wait for a sync here. Without threads of its own for the log the server holds one mutex \
             over each sync, and the page cleaner syncs the log before it writes pages: a thread that writes to the log \
             waits for the disk.",
        )
        .evidence(waiting)
        .evidence(share)
        .evidence(Evidence::new("snapshots with a sync of the redo log", stall.seen_ratio, "ratio", "stacks"))
        .remedy_if((window.variable("innodb_log_writer_threads") == Some("OFF")).then(|| Remedy {
            statement: "SET GLOBAL innodb_log_writer_threads = ON".into(),
            why: "Threads of the log then write and sync it, and a commit that need not be on disk waits for the write \
                  alone."
                .into(),
            dynamic: true,
            risk: "The threads spin for a while: with few CPUs, or a quota, that takes CPU time from the clients.".into(),
            undo: "SET GLOBAL innodb_log_writer_threads = OFF".into(),
        }))
        .remedy(faster_storage())
        .root(stall.root(window).filter(is_of_the_server))
        .finding(),
    )
}

/// True for a thread of the server's own. The session that syncs for a group is one of many that commit in turn: it is no culprit, and
/// nothing is gained where somebody ends it.
fn is_of_the_server(root: &Root) -> bool {
    root.connection_id.is_none()
}

fn faster_storage() -> Remedy {
    Remedy {
        statement: "Put the redo and binary logs on storage with a power-protected write cache".into(),
        why: "A sync then ends when the cache has it, in tens of microseconds.".into(),
        dynamic: false,
        risk: "A cache that only claims to be protected loses transactions when the power goes.".into(),
        undo: "Move the logs back.".into(),
    }
}

fn beside_the_redo_log() -> Remedy {
    Remedy {
        statement: "Put the binary log on a disk as quick as the redo log's (log_bin in the option file names its path)".into(),
        why: "The redo log's syncs take next to nothing: commits wait for the binary log's disk alone.".into(),
        dynamic: false,
        risk: "The server is restarted; its index file (log_bin_index) has the paths of the old files, which stay where they are.".into(),
        undo: "Set log_bin back, and restart.".into(),
    }
}

/// True for a session that commits: by its state, or by its statement where the state says little.
pub(super) fn is_in_commit(thread: &ServerThread) -> bool {
    // MariaDB 10.6 on: the statement has ended but for its answer, which waits until another thread has synced the log for
    // it (sql_parse.cc, dispatch_command; net_serv.cc, wait_for_pending_ops).
    const ANSWER_HELD_BACK: &str = "updating status";
    let commits = || {
        let statement = thread.statement.as_deref().unwrap_or_default().trim_start();
        statement.get(..6).is_some_and(|verb| verb.eq_ignore_ascii_case("commit"))
    };
    match wait_class(&thread.state, &[]) {
        Some(TimeClass::GlobalLock) => false,
        Some(TimeClass::Commit) => true,
        _ => thread.state.eq_ignore_ascii_case(ANSWER_HELD_BACK) || commits(),
    }
}

#[cfg(test)]
pub(crate) mod examples;
