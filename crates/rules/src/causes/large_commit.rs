//! `large-commit`: one large transaction's binary log cache is copied while all commits wait.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Remedy, Root, SessionTime, TimeClass, Window};

use super::commit_sync_bound::{self, is_in_commit};
use super::disk_full;
use super::storage_stalled;
use crate::below::threads_below;
use crate::sessions::{at_work, shortened, transaction};
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks, stall};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "large-commit",
    title: "one large transaction's binary log cache is copied while all commits wait",
    what: "A transaction collects its events in a cache of its own, in memory up to binlog_cache_size and in a temporary file \
           beyond. At its commit the whole cache is copied into the binary log under one mutex (LOCK_log), because the events \
           of a transaction stand together there. A cache of a gigabyte is a gigabyte to read, to write and to sync.",
    why_it_hurts: "Every other commit waits until the copy has ended, however small it is: for seconds nothing commits, then all go \
                   on at once. Their states say that they commit, and the disk looks slow though it writes at full speed. \
                   Replicas then apply the same transaction in one piece and fall behind.",
    evidence: "Sessions in commit, from 5 % of the session time and half a session on, and a thread in MYSQL_BIN_LOG::write_cache \
               for a tenth of the time or more, by its stacks and CPU samples. The transaction is the one in commit that changed \
               the most rows, or is the oldest, in most of the samples: on MySQL another session may copy its cache for it. \
               Binlog_cache_disk_use counts caches that did not fit into memory.",
    looks_alike: "Commits that wait for the sync of small groups are commit-sync-bound. A disk that hardly answers is \
                  storage-stalled. Many transactions whose caches go to temporary files because binlog_cache_size is small are \
                  log-cache-pressure.",
    remedies: "Split the statement: a few thousand rows, or some megabytes of binary log, for each commit. On MariaDB 11.7 and \
               later binlog_large_commit_threshold makes a large cache file the next binary log instead of copying it. On MySQL \
               binlog_row_image = MINIMAL logs no columns that did not change, which is most of it where rows have a large JSON \
               or BLOB column.",
    safety: "Splitting a statement changes what others see in between. Readers of the binary log that need whole rows (change data \
             capture) do not work with MINIMAL. A KILL during the copy does not stop it.",
    references: &[
        "https://jira.mariadb.org/browse/MDEV-32014",
        "https://dev.mysql.com/doc/refman/8.4/en/replication-options-binary-log.html",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Commit, TimeClass::CommitOrder, TimeClass::Mutex],
    stacks: Stacks::Standing(COPIES),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What copies a cache into the binary log, with LOCK_log held: sql/binlog.cc, sql/log.cc (MySQL 5.5 to 9.7, MariaDB 10.1 on).
const COPIES: &[&str] =
    &["MYSQL_BIN_LOG::write_cache", "MYSQL_BIN_LOG::do_write_cache", "Event_log::write_cache"];

/// Share of the time in which a cache is being copied, from which on commits wait for it. Chosen, not derived: small caches are copied
/// too, by many commits one after the other, and nobody waits long for one.
const COPYING: f64 = 0.1;

/// Share of the samples with a commit in which one transaction must be the largest, before it is named.
const MOSTLY: f64 = 0.5;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::Commit, TimeClass::CommitOrder]) else {
        return Outcome::Clear;
    };
    let profile = match stall::profile(window) {
        Ok(profile) => profile,
        Err(missing) => return Outcome::NotEnoughEvidence(missing),
    };
    let copying = threads_below(profile, COPIES).min(1.0);
    if copying < COPYING {
        return Outcome::Clear;
    }
    // The one that copies waits for space.
    if disk_full::is_seen(window) {
        return Outcome::Clear;
    }
    let culprit = largest(window);
    let whose = match &culprit {
        Some(thread) => format!(
            "connection {} commits a large transaction ({})",
            thread.connection_id.unwrap_or(0),
            shortened(thread.statement.as_deref().unwrap_or("its statement is not listed"))
        ),
        None => "a large transaction commits".to_owned(),
    };
    let of_disk = window.status_growth("Binlog_cache_disk_use").filter(|&caches| caches > 0.0);
    let status = "SHOW GLOBAL STATUS Binlog_cache_disk_use";
    Outcome::Fired(
        waits
            .draft(&CAUSE, format!("{:.1} sessions wait in commit while {whose}", waits.sessions))
            .why(format!(
                "For {:.0} % of the time a thread copied a transaction's cache into the binary log, and no other commit can go on \
                 meanwhile.",
                copying * 100.0
            ))
            .evidence(
                Evidence::new("time in which a cache is copied", copying, "ratio", "stacks and CPU samples")
                    .expected(format!("< {COPYING}")),
            )
            .evidence_if(of_disk.map(|caches| Evidence::new("caches that went to a file", caches, "", status)))
            .remedy(Remedy {
                statement: "Split the statement into transactions of a few thousand rows".into(),
                why: "Each then has a cache of some megabytes, and the others commit in between.".into(),
                dynamic: true,
                risk: "A change of the job; others see its parts one by one.".into(),
                undo: String::new(),
            })
            .remedy_if(threshold(window))
            .remedy_if(smaller_images(window))
            .root(culprit.map(|thread| Root {
                thread_os_id: thread.thread_os_id,
                connection_id: thread.connection_id,
                user: thread.user.clone(),
                statement: thread.statement.clone().unwrap_or_default(),
                stack: Vec::new(),
            }))
            .explains(&[commit_sync_bound::CAUSE.name, storage_stalled::CAUSE.name])
            .finding(),
    )
}

/// The session whose transaction is the largest of those in commit, in most of the lists.
fn largest(window: &Window) -> Option<&ServerThread> {
    let mut seen: BTreeMap<u64, (usize, &ServerThread)> = BTreeMap::new();
    let mut lists = 0;
    for sample in &window.samples {
        let threads = sample.server.threads.value().map(Vec::as_slice).unwrap_or_default();
        let size = |thread: &ServerThread| {
            let transaction = transaction(&sample.server, thread.connection_id?)?;
            Some((transaction.rows_modified, transaction.age_s))
        };
        let in_commit = at_work(threads).filter(|thread| is_in_commit(thread));
        let sized = in_commit.filter_map(|thread| Some((size(thread)?, thread)));
        let most = sized.max_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let Some((id, thread)) = most.and_then(|(_, thread)| Some((thread.connection_id?, thread))) else {
            continue;
        };
        lists += 1;
        seen.entry(id).or_insert((0, thread)).0 += 1;
    }
    let (_, (times, thread)) = seen.into_iter().max_by_key(|(_, (times, _))| *times)?;
    (times as f64 >= MOSTLY * f64::from(lists)).then_some(thread)
}

/// MariaDB 11.7 renames a large cache instead of copying it.
fn threshold(window: &Window) -> Option<Remedy> {
    let now = window.variable_number("binlog_large_commit_threshold")?;
    Some(Remedy {
        statement: "SET GLOBAL binlog_large_commit_threshold = 10485760".into(),
        why: "The file of a cache above 10 MiB becomes the next binary log as it is: nothing is copied."
            .into(),
        dynamic: true,
        risk: "Each such transaction begins a new binary log.".into(),
        undo: format!("SET GLOBAL binlog_large_commit_threshold = {now:.0}"),
    })
}

/// Without the columns that did not change, where they are logged.
fn smaller_images(window: &Window) -> Option<Remedy> {
    window.variable("binlog_row_image").filter(|image| image.eq_ignore_ascii_case("FULL"))?;
    Some(Remedy {
        statement: "SET SESSION binlog_row_image = MINIMAL in the job".into(),
        why: "An UPDATE then logs the key and the changed columns instead of each row twice.".into(),
        dynamic: true,
        risk: "Readers of the binary log that need whole rows (change data capture) do not work with it; replicas need a primary \
               key on the table."
            .into(),
        undo: "SET SESSION binlog_row_image = FULL".into(),
    })
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::stack::{Frame, ThreadState};

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// MySQL 9.7.
    const COPY: &[&str] = &[
        "write",
        "my_b_flush_io_cache",
        "MYSQL_BIN_LOG::write_cache",
        "binlog_cache_data::flush",
        "MYSQL_BIN_LOG::ordered_commit",
        "dispatch_command",
    ];
    const WAIT: &[&str] = &[
        "pthread_cond_wait",
        "Commit_stage_manager::enroll_for",
        "MYSQL_BIN_LOG::ordered_commit",
        "dispatch_command",
    ];

    /// A job that writes to the disk so many of twenty snapshots long, and eight others that commit.
    fn copies(ratio: f64) -> Build {
        let state = "waiting for handler commit";
        Build::busy("9.7.4")
            .sessions(move |_| {
                let small = (21..29).map(|id| session(id, "Query", state, "UPDATE t SET a = 1 WHERE id = 7"));
                small.chain([session(20, "Query", state, "INSERT INTO big SELECT * FROM small")]).collect()
            })
            .each(|at_s, server, _| {
                let mut transactions: Vec<_> = (21..29).map(|id| transaction(id, "RUNNING", 1.0)).collect();
                transactions.push(spindoctor_model::mysql::Transaction {
                    rows_modified: 800_000,
                    ..transaction(20, "RUNNING", 50.0)
                });
                server.transactions = answer(at_s, transactions);
            })
            .cpu_samples(1000, ratio, COPY)
            .snapshots(&[(8, ThreadState::Lock, WAIT)])
            .variable("binlog_row_image", "FULL")
    }

    pub(crate) fn fires() -> Window {
        copies(0.4).window()
    }

    /// Small caches are copied all the time.
    pub(crate) fn near_miss() -> Window {
        copies(0.02).window()
    }

    /// No stack was taken, and the threads were not listed.
    pub(crate) fn missing() -> Window {
        copies(0.4)
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }

    #[test]
    fn the_session_whose_transaction_is_the_largest_is_named_and_how_to_split_it() {
        let diagnosis = crate::diagnose(&fires());
        let finding = &diagnosis.findings[0];
        assert!(
            finding.headline.contains("connection 20 commits a large transaction (INSERT INTO big SELECT"),
            "{}",
            finding.headline
        );
        assert!(finding.remedies[0].statement.starts_with("Split the statement"));
        assert!(finding.remedies.iter().any(|remedy| remedy.statement.contains("MINIMAL")));
        assert!(diagnosis.findings.iter().all(|finding| finding.cause != "storage-stalled"));
    }

    #[test]
    fn a_cache_that_is_not_copied_for_want_of_space_is_not_large() {
        let mut window = fires();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        profile.frames.push(Frame { name: "wait_for_free_space".into(), ..Frame::default() });
        let time = crate::session_time(&window).unwrap();
        assert_eq!(evaluate(&window, &time), Outcome::Clear);
    }

    #[test]
    fn without_stacks_nothing_is_said_of_a_queue_of_commits() {
        let window = copies(0.4).without_profile().window();
        let time = crate::session_time(&window).unwrap();
        assert!(matches!(evaluate(&window, &time), Outcome::NotEnoughEvidence(_)));
    }
}
