//! `large-commit`: one large transaction's binary log cache is copied while all commits wait.

mod long_sync;

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Finding, Remedy, Root, SessionTime, TimeClass, Window};

use super::commit_sync_bound::{self, is_in_commit};
use super::disk_full;
use super::storage_stalled;
use crate::below::threads_below;
use crate::sessions::{at_work, shortened, transaction};
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks, stall};
use long_sync::LongSync;

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
               Binlog_cache_disk_use counts caches that did not fit into memory.\n\n\
               Or one write or sync for a group of commits takes a second and more and five times the median of the others (it is one \
               where its thread or a session of its group has not moved, or is in the same transaction), such \
               stand for a tenth of the time, the server wrote 10 MB meanwhile and shortly before, and one transaction has changed a \
               hundred rows and twenty times as many as any other in half of the lists, and is in that group.\n\n\
               Of a list and a status that somebody captured: four \
               sessions in commit or more, and one of them is ACTIVE (PREPARED) with 100,000 undo log entries or more.",
    looks_alike: "Commits that wait for the sync of small groups are commit-sync-bound: all of their syncs are long, or none \
                  is. A disk that hardly answers is storage-stalled. Many transactions whose caches go to temporary files because \
                  binlog_cache_size is small are log-cache-pressure.",
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
    rule: Rule::TimeOrCapture(evaluate, of_status),
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

/// Undo log entries of a transaction whose cache is large: of a hundred bytes each, ten megabytes of binary log. By judgement.
const LARGE: u64 = 100_000;

/// Sessions in commit, from which on a list that somebody captured shows more than a few that happen to commit. By judgement.
const CROWD: f64 = 4.0;

/// What a process list and InnoDB's status of one moment say without stacks: many stand in their commit, and the transaction of one of
/// them, which is prepared, has changed far more rows than a commit's group is made for.
fn of_status(window: &Window) -> Option<Finding> {
    let sample = window.samples.iter().rev().find(|sample| sample.server.innodb_status.value().is_some())?;
    let status = sample.server.innodb_status.value().filter(|_| window.is_given())?;
    let prepared = status.transactions.transactions.iter().filter(|one| one.is_prepared);
    let largest = prepared.max_by_key(|one| one.undo_entries.unwrap_or(0))?;
    let changed = largest.undo_entries.filter(|&entries| entries >= LARGE)?;
    let id = largest.connection_id?;
    // One that XA prepared rests until its coordinator decides.
    let threads = window.latest(|sample| &sample.server.threads)?;
    let thread = at_work(threads).find(|thread| thread.connection_id == Some(id))?;
    let time = crate::session_time(window)?;
    let waits = InClasses::from_time(&time, &[TimeClass::Commit, TimeClass::CommitOrder])?;
    if waits.sessions < CROWD || disk_full::is_seen(window) {
        return None;
    }
    let headline = format!("{:.1} sessions wait in commit while {}", waits.sessions, whose(Some(thread)));
    Some(
        waits
            .draft(&CAUSE, headline)
            .why(
                "InnoDB has prepared it, and what it changed is now copied into the binary log in one piece: no other commit can go on \
                 meanwhile. One look does not say how far that is.",
            )
            .evidence(Evidence::new("its undo log entries", changed as f64, "", "SHOW ENGINE INNODB STATUS").expected(format!("< {LARGE}")))
            .remedy(split())
            .remedy_if(threshold(window))
            .remedy_if(smaller_images(window))
            .root(Some(root(thread)))
            .explains(&[commit_sync_bound::CAUSE.name, storage_stalled::CAUSE.name])
            .finding(),
    )
}

/// `connection 20 commits a large transaction (INSERT INTO big SELECT ...)`
fn whose(thread: Option<&ServerThread>) -> String {
    match thread {
        Some(thread) => format!(
            "connection {} commits a large transaction ({})",
            thread.connection_id.unwrap_or(0),
            shortened(thread.statement.as_deref().unwrap_or("its statement is not listed"))
        ),
        None => "a large transaction commits".to_owned(),
    }
}

fn root(thread: &ServerThread) -> Root {
    Root {
        thread_os_id: thread.thread_os_id,
        connection_id: thread.connection_id,
        user: thread.user.clone(),
        statement: thread.statement.clone().unwrap_or_default(),
        stack: Vec::new(),
    }
}

fn split() -> Remedy {
    Remedy {
        statement: "Split the statement into transactions of a few thousand rows".into(),
        why: "Each then has a cache of some megabytes, and the others commit in between.".into(),
        dynamic: true,
        risk: "A change of the job; others see its parts one by one.".into(),
        undo: String::new(),
    }
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::Commit, TimeClass::CommitOrder]) else {
        return Outcome::Clear;
    };
    let profile = match stall::profile(window) {
        Ok(profile) => profile,
        Err(missing) => return Outcome::NotEnoughEvidence(missing),
    };
    // The one that copies waits for space.
    if disk_full::is_seen(window) {
        return Outcome::Clear;
    }
    let copying = threads_below(profile, COPIES).min(1.0);
    if copying < COPYING {
        let long = LongSync::from_window(window, profile);
        return long.map_or(Outcome::Clear, |long| Outcome::Fired(syncs_long(window, &waits, &long)));
    }
    let culprit = largest(window);
    let whose = whose(culprit);
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
            .remedy(split())
            .remedy_if(threshold(window))
            .remedy_if(smaller_images(window))
            .root(culprit.map(root))
            .explains(&[commit_sync_bound::CAUSE.name, storage_stalled::CAUSE.name])
            .finding(),
    )
}

/// What a large transaction wrote is synced while all others wait.
fn syncs_long(window: &Window, waits: &InClasses<'_>, long: &LongSync<'_>) -> Finding {
    let headline =
        format!("{:.1} sessions wait in commit: most likely {}", waits.sessions, whose(Some(long.culprit)));
    let of_disk = window.status("Binlog_cache_disk_use").filter(|&caches| caches > 0.0);
    let status = "SHOW GLOBAL STATUS Binlog_cache_disk_use";
    waits
        .draft(&CAUSE, headline)
        .why(long.why())
        .evidence_all(long.evidence().into_iter())
        .evidence_if(
            of_disk.map(|caches| {
                Evidence::new("caches that went to a file, since the start", caches, "", status)
            }),
        )
        .remedy(split())
        .remedy_if(smaller_images(window))
        .root(Some(root(long.culprit)))
        .explains(&[commit_sync_bound::CAUSE.name, storage_stalled::CAUSE.name])
        .finding()
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
    use spindoctor_model::stack::{Frame, ThreadState};
    use spindoctor_model::{Reading, Unavailable};

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

    const SYNC: &[&str] = &[
        "fdatasync",
        "MYSQL_BIN_LOG::flush_and_sync",
        "MYSQL_BIN_LOG::trx_group_commit_leader",
        "ha_commit_trans",
        "dispatch_command",
    ];
    const QUEUES: &[&str] = &[
        "pthread_cond_wait",
        "MYSQL_BIN_LOG::queue_for_group_commit",
        "ha_commit_trans",
        "dispatch_command",
    ];

    /// A batch, whose thread syncs for 3 s and now and then for a moment, and eight others that commit behind it.
    fn syncs(written_mb: u64, rows: u64, stands_in: fn(u32) -> bool) -> Outcome {
        syncs_of(written_mb, rows, stands_in, |_| ())
    }

    /// The same, changed.
    fn syncs_of(
        written_mb: u64,
        rows: u64,
        stands_in: fn(u32) -> bool,
        change: impl Fn(&mut Window),
    ) -> Outcome {
        let state = "Commit";
        let mut window = Build::busy("10.5.23-MariaDB")
            .sessions(move |_| {
                let small =
                    (401..409).map(|id| session(id, "Query", state, "UPDATE t SET a = 1 WHERE id = 7"));
                small
                    .chain([session(400, "Query", state, "UPDATE docs SET v = REPEAT('x', 200000)")])
                    .collect()
            })
            .each(move |at_s, server, host| {
                let mut transactions: Vec<_> = (401..409).map(|id| transaction(id, "RUNNING", 1.0)).collect();
                transactions.push(spindoctor_model::mysql::Transaction {
                    rows_modified: rows,
                    ..transaction(400, "RUNNING", 1.0)
                });
                server.transactions = answer(at_s, transactions);
                if let Reading::Available { value: process, .. } = &mut host.process {
                    process.written_bytes = Some(written_mb * at_s as u64 * 1_000_000);
                }
            })
            .only_snapshots(&[(1, ThreadState::Sync, SYNC), (8, ThreadState::Condition, QUEUES)])
            .window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        let syncs = profile.observations.iter_mut().filter(|one| one.state == ThreadState::Sync);
        syncs.filter(|one| !stands_in(one.snapshot)).for_each(|one| one.state = ThreadState::Running);
        change(&mut window);
        let time = crate::session_time(&window).unwrap();
        evaluate(&window, &time)
    }

    /// Of snapshots that are taken each half second: a sync of 3 s, and four that one of them shows.
    fn one_is_long(at: u32) -> bool {
        matches!(at, 2..=8 | 10 | 12 | 14 | 16)
    }

    #[test]
    fn a_sync_of_what_a_large_transaction_wrote_is_what_the_group_waits_for() {
        let Outcome::Fired(finding) = syncs(20, 300, one_is_long) else { panic!() };
        assert!(
            finding.headline.contains(
                "sessions wait in commit: most likely connection 400 commits a large transaction (UPDATE docs SET"
            ),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("took 3.0 s and most others a tenth"), "{}", finding.why);
        assert_eq!(finding.root.and_then(|root| root.connection_id), Some(400));
    }

    #[test]
    fn a_long_sync_alone_is_nobodys() {
        // No transaction is far larger, the server has written little, or all syncs are as long.
        assert_eq!(syncs(20, 5, one_is_long), Outcome::Clear);
        assert_eq!(syncs(1, 300, one_is_long), Outcome::Clear);
        assert_eq!(syncs(20, 300, |at| !matches!(at, 6 | 13)), Outcome::Clear);
    }

    #[test]
    fn short_syncs_that_follow_one_another_are_no_long_one() {
        // The batch is in another transaction in each list: it commits again and again.
        let commits_on = |window: &mut Window| {
            for sample in &mut window.samples {
                let Reading::Available { value: transactions, .. } = &mut sample.server.transactions else {
                    continue;
                };
                let batch = transactions.iter_mut().filter(|one| one.connection_id == Some(400));
                batch.for_each(|one| one.id = format!("{:.0}", 9_400.0 + sample.at_s));
            }
        };
        assert_eq!(syncs_of(20, 300, one_is_long, commits_on), Outcome::Clear);
        // Another may sync for it, whose thread does not move, or behind whom the others do not.
        for state in [ThreadState::Sync, ThreadState::Condition] {
            let outcome = syncs_of(20, 300, one_is_long, |window| {
                commits_on(window);
                let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
                profile.observations.iter_mut().for_each(|one| one.unmoved = one.state == state);
            });
            let Outcome::Fired(finding) = outcome else { panic!("{state:?}") };
            assert!(finding.why.contains("took 3.0 s"), "{}", finding.why);
        }
    }

    #[test]
    fn a_cache_that_is_not_copied_for_want_of_space_is_not_large() {
        let mut window = fires();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        profile.frames.push(Frame { name: "wait_for_free_space".into(), ..Frame::default() });
        let time = crate::session_time(&window).unwrap();
        assert_eq!(evaluate(&window, &time), Outcome::Clear);
    }

    /// A list and a status of one moment that somebody gave: nine sessions in commit, one of them with so many undo log entries.
    fn given(undo_entries: u64) -> Window {
        use spindoctor_model::innodb_status::{InnodbStatus, ListedTransaction};
        let mut window = copies(0.4)
            .without_profile()
            .each(move |at_s, server, _| {
                let mut status = InnodbStatus::default();
                status.transactions.transactions = vec![ListedTransaction {
                    id: "9020".into(),
                    active: true,
                    is_prepared: true,
                    active_s: Some(50.0),
                    connection_id: Some(20),
                    undo_entries: Some(undo_entries),
                    ..ListedTransaction::default()
                }];
                server.innodb_status = answer(at_s, status);
            })
            .window();
        window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        window.profile = Reading::Unavailable(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        window
    }

    #[test]
    fn a_prepared_transaction_with_many_rows_is_what_a_captured_queue_of_commits_waits_for() {
        let time = |window: &Window| crate::session_time(window);
        let window = given(800_000);
        let Outcome::Fired(finding) = CAUSE.evaluate(&window, time(&window).as_ref()) else { panic!() };
        assert!(
            finding.headline.contains("while connection 20 commits a large transaction"),
            "{}",
            finding.headline
        );
        assert_eq!(finding.root.and_then(|root| root.connection_id), Some(20));
        let few = given(900);
        assert!(!matches!(CAUSE.evaluate(&few, time(&few).as_ref()), Outcome::Fired(_)));
        // A live server is asked for its stacks.
        let mut live = given(800_000);
        live.server.no_pid = None;
        assert!(!matches!(CAUSE.evaluate(&live, time(&live).as_ref()), Outcome::Fired(_)));
    }

    #[test]
    fn without_stacks_nothing_is_said_of_a_queue_of_commits() {
        let window = copies(0.4).without_profile().window();
        let time = crate::session_time(&window).unwrap();
        assert!(matches!(evaluate(&window, &time), Outcome::NotEnoughEvidence(_)));
    }
}
