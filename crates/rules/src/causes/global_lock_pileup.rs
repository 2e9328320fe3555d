//! `global-lock-pileup`: FLUSH TABLES WITH READ LOCK, backup locks, LOCK INSTANCE.

use spindoctor_model::mysql::{ServerSample, ServerThread};
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{
    Evidence, Finding, Remedy, Sample, SessionTime, TimeClass, Unavailable, Window, number,
};

use super::{connections_exhausted, monitoring_overload, thread_pool_starved};
use crate::draft::Draft;
use crate::killing;
use crate::sessions::{self, Waiting};
use crate::time_model::InClasses;
use crate::wait_graph::{TABLE_FLUSH, Verdict};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "global-lock-pileup",
    title: "FLUSH TABLES WITH READ LOCK, backup locks, LOCK INSTANCE",
    what: "A few statements lock the whole server. FLUSH TABLES WITH READ LOCK takes the global read lock (no \
           write begins), waits until no statement uses an old copy of any table, then takes the commit lock \
           (no commit ends). LOCK INSTANCE FOR BACKUP (MySQL 8.0) and BACKUP STAGE (MariaDB 10.4) keep DDL \
           out, and in their last stages commits. Backup tools and replica set-up issue them. The worst case \
           is a FLUSH that itself waits for a long query: it already holds the global lock, so every write on \
           the server queues behind somebody's report.",
    why_it_hurts: "All writes of the server stop, or all commits, or all DDL, for as long as the holder likes. A \
                   backup tool that hangs or a client that forgot UNLOCK TABLES leaves it so.",
    evidence: "Sessions in the states Waiting for global read lock, Waiting for commit lock, Waiting for backup \
               lock, Waiting for table flush, in each sample; metadata_locks of type GLOBAL, COMMIT and BACKUP. \
               It fires when sessions wait in about half of the samples, or where the stacks see them wait for 5 % of the \
               session time and half a session on average. The root is the owner of a granted \
               global lock other than the intention lock that every write takes; where that owner itself waits \
               for tables to be flushed, the root is the longest-running statement that is not waiting. \
               Without a list of locks a session that runs one of these statements is named, or none. The estimate \
               is the share of the sessions' working time spent waiting.",
    looks_alike: "Waits for the metadata lock of one table are metadata-lock-pileup. Waiting for table flush also \
                  follows ANALYZE TABLE or FLUSH TABLES of one table that a long query still uses (before MySQL \
                  8.0.24 for ANALYZE): then one table is stuck, not all; the root is the long query either way. \
                  read_only and super_read_only refuse writes, they make nobody wait for long.",
    remedies: "Holder at rest: UNLOCK TABLES (UNLOCK INSTANCE, BACKUP STAGE END) in its session, or KILL it: the \
               locks go with the session. A FLUSH that waits: end the long query, or the FLUSH. Take backups \
               with a tool that needs the lock only for an instant, from a replica, and with a limit on its wait \
               (--ftwrl-wait-timeout and the like).",
    safety: "KILL of the holder spoils the backup that it was taking; it rolls back nothing. KILL of a long \
             SELECT loses only that query. lock_wait_timeout limits how long a FLUSH waits, per session.",
    references: &[
        "MySQL Reference Manual: FLUSH TABLES WITH READ LOCK; LOCK INSTANCE FOR BACKUP",
        "MariaDB Knowledge Base: BACKUP STAGE",
    ],
    costs: Costs::Waits(&[TimeClass::GlobalLock]),
    explains_time: &[TimeClass::GlobalLock, TimeClass::MetadataLock, TimeClass::TableCache],
    stacks: Stacks::Standing(&[
        "MDL_wait::timed_wait",
        "Global_read_lock::wait_if_global_read_lock", // up to 5.1
    ]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Sessions waiting on average: one in half of the samples. A backup takes the locks for an instant and is
/// seen in one sample at most.
const WAITERS: f64 = 0.5;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    examine(window, time).into()
}

fn examine(window: &Window, time: &SessionTime) -> Result<Option<Finding>, Unavailable> {
    let waiting = Waiting::count(window, waits)?;
    let account = InClasses::from_time(time, &[TimeClass::GlobalLock]);
    if waiting.mean < WAITERS && account.is_none() {
        return Ok(None);
    }
    let (waiters, lost_ratio) = waiting.with_account(account.as_ref());
    let (sample, culprit) = Verdict::from_most_samples(window, &[LockKind::Global, LockKind::Backup], waits);
    // It holds nothing global: a FLUSH that waits for it does.
    let through_flush = culprit.as_ref().is_some_and(|culprit| culprit.root.object == TABLE_FLUSH);
    let is_a_guess = culprit.as_ref().is_some_and(Verdict::is_a_guess);
    let root = culprit.as_ref().map(Verdict::described);
    let states = states(sample);
    // A FLUSH without a lock makes copies of tables old: a session that opens one waits for who still uses it, and not for the FLUSH.
    let takes_a_lock = |flush: &ServerThread| {
        flush
            .statement
            .as_deref()
            .is_none_or(|statement| statement.to_ascii_lowercase().contains("read lock"))
    };
    let is_locked = flusher(&sample.server).is_some_and(takes_a_lock)
        || sample.server.threads.value().into_iter().flatten().any(waits_for_the_server);
    let unlock = window
        .missing(|s| &s.server.metadata_locks)
        .and_then(|missing| missing.unlock)
        .filter(|_| culprit.is_none() || is_a_guess);
    // Nobody waits but the one that wants the lock: what it waits for is elsewhere.
    let is_alone =
        || sample.server.threads.value().into_iter().flatten().filter(|thread| waits(thread)).count() == 1;
    let alone = flusher(&sample.server).filter(|_| culprit.is_none() && is_alone());
    let frees = |id: &u64| killing::frees(&sample.server, *id);
    // Of several that wait, one may want the whole server, and the others wait behind it.
    let wanting = flusher(&sample.server).filter(|_| culprit.is_none() && is_locked);
    // It has the first of its two locks: who waits for that waits for it, and it for commits.
    let has_half =
        wanting.filter(|flush| flush.state.to_ascii_lowercase().starts_with("waiting for commit lock"));
    let began_before = |writer: &&ServerThread| wanting.is_some_and(|flush| writer.time_s >= flush.time_s);
    let kept_by = wanting
        .and_then(|_| oldest_writer(&sample.server))
        .filter(|writer| alone.is_some() || began_before(writer));
    let headline = match (&culprit, &root) {
        (Some(culprit), Some(root)) => format!(
            "Connection {} {} {}: it {}",
            culprit.connection_id,
            match () {
                () if through_flush => "makes FLUSH wait, which blocks",
                () if is_a_guess => "most likely blocks",
                () => "blocks",
            },
            number::counted(waiters as u64, "session", "sessions"),
            match root.statement.as_str() {
                idle if idle.starts_with("idle") && is_a_guess =>
                    "alone was there before they began to wait".to_owned(),
                _ if is_a_guess => format!("is a dump at work, {}", sessions::doing(root)),
                idle if idle.starts_with("idle") => "holds a global lock and is idle".to_owned(),
                _ => sessions::doing(root),
            }
        ),
        _ => match alone {
            Some(flush) => format!(
                "Connection {} has waited{} to lock the whole server, {}",
                flush.connection_id.map_or_else(|| "(unknown)".to_owned(), |id| id.to_string()),
                // A list may have no times.
                if flush.time_s > 0.0 {
                    format!(" {}", number::duration(flush.time_s))
                } else {
                    String::new()
                },
                match kept_by {
                    Some(writer) => format!(
                        "most likely for connection {}, which runs {}",
                        writer.connection_id.unwrap_or_default(),
                        sessions::shortened(writer.statement.as_deref().unwrap_or_default())
                    ),
                    None => "for a statement that the list does not show".to_owned(),
                }
            ),
            None if !is_locked => format!(
                "{} until nobody uses the old copy of a table any more",
                number::counted(waiters as u64, "session waits", "sessions wait")
            ),
            None if has_half.is_some() && kept_by.is_none() => format!(
                "{} for a lock of the whole server: connection {} has half of it and waits for commits ({})",
                number::counted(waiters as u64, "session waits", "sessions wait"),
                has_half.and_then(|flush| flush.connection_id).unwrap_or_default(),
                sessions::shortened(
                    has_half.and_then(|flush| flush.statement.as_deref()).unwrap_or_default()
                )
            ),
            None => format!(
                "{} for a lock of the whole server{}",
                number::counted(waiters as u64, "session waits", "sessions wait"),
                kept_by.map_or_else(String::new, |writer| format!(
                    "; most likely connection {} keeps a FLUSH from it: it runs {}",
                    writer.connection_id.unwrap_or_default(),
                    sessions::shortened(writer.statement.as_deref().unwrap_or_default())
                ))
            ),
        },
    };
    let before = match (&culprit, alone) {
        (None, None) => sessions::there_before(&sample.server, waits, false),
        _ => String::new(),
    };
    Ok(Some(
        Draft::new(&CAUSE, lost_ratio, headline)
            .why(match &culprit {
                Some(_) if through_flush && !is_locked => {
                    "A FLUSH has made the copies of its tables old that statements use: a session that opens one of them waits until this \
                     statement gives its copy back. Ending the FLUSH frees nobody else."
                }
                Some(_) if through_flush => {
                    "A FLUSH TABLES holds the global lock already and waits for this statement to give its table \
                     back; every write queues behind the FLUSH."
                }
                Some(_) if is_a_guess && root.as_ref().is_some_and(|root| root.statement.starts_with("idle")) => {
                    "Who holds the lock could not be read. It is inferred: this session alone was there before the first of them began to \
                     wait, and rests."
                }
                Some(_) if is_a_guess => {
                    "Who holds the lock could not be read. It is inferred: this session alone dumps tables, and a dump without \
                     --single-transaction locks the whole server from its beginning to its end. It reads table by table, so that the time \
                     of its statement is that of one table."
                }
                Some(_) => "Its lock is of the whole server; everyone else's statement has to wait until it is given back.",
                None if kept_by.is_some() => {
                    "A FLUSH waits until no statement changes anything and no commit is under way; a SELECT ... FOR UPDATE counts as a \
                     change. Of those that are at work this one has run longest. Once the FLUSH has a part of its locks, every write \
                     waits behind it."
                }
                None if has_half.is_some() => {
                    "A statement that locks the whole server takes two locks: it has the first, the global read lock, and waits for the \
                     second until each commit under way has ended. A commit that itself waits for the first, or for its turn behind such a \
                     one as the workers of a replica do, never ends: only the end of that statement opens the ring."
                }
                None if alone.is_some() => {
                    "It waits until no statement changes anything and no commit is under way. The session that it waits for is not among \
                     the sessions that were read: the whole list, and metadata_locks, would show it. Once it has a part of its \
                     locks, every write waits behind it."
                }
                None if !is_locked => {
                    "After a FLUSH TABLE or an ANALYZE a session that opens the table waits until all who use its old copy are done: a long \
                     statement, or a session that has the table by LOCK TABLES ... WRITE. Which one it is the list does not show."
                }
                None => {
                    "The thread list does not show who holds the lock; the list of metadata locks would. `spindoctor locks` looks \
                     for it in the last statements of idle sessions, where performance_schema keeps them."
                }
            }
            .to_owned()
                + &before)
            .evidence_if(unlock.map(|unlock| Evidence::new("what would name the holder", unlock, "", "metadata locks")))
            .evidence(
                Evidence::new("sessions waiting for a global lock", waiting.mean, "", "thread list, state")
                    .expected("0")
                    .series(waiting.series.clone()),
            )
            .evidence(
                Evidence::new("share of the sessions at work", waiting.lost_ratio(), "ratio", "thread list")
                    .expected("0"),
            )
            .evidence_if(account.map(|account| {
                Evidence::new("sessions that wait so", account.sessions, "", account.source())
            }))
            .evidence(Evidence::new("they are", states, "", "thread list, state"))
            .remedy_if(culprit.as_ref().and_then(|culprit| {
                let why = match () {
                    () if through_flush => "The FLUSH gets its tables, does its work, and everyone goes on.",
                    () if is_a_guess => "The locks go with the session, if it is this one that has them: look whose it is before.",
                    () => "The locks go with the session.",
                };
                // Whose statement locks the server itself, or has ended and left the locks, spoils what it locked for.
                let locks_itself = sessions::session(&sample.server, culprit.connection_id)
                    .and_then(|thread| thread.statement.as_deref())
                    .is_none_or(spindoctor_sql::locks_the_server);
                let is_statement = culprit.root.free_with.as_deref().is_some_and(|end| end.starts_with("KILL QUERY"));
                let risk = if through_flush || (is_statement && !locks_itself) {
                    "That statement is lost; what it changed is rolled back."
                } else {
                    SPOILT
                };
                let remedy = culprit.remedy(why)?;
                // A dump keeps its lock from one statement to the next.
                let (statement, risk) = match is_a_guess {
                    true => (remedy.statement.replacen("KILL QUERY", "KILL", 1), SPOILT),
                    false => (remedy.statement, risk),
                };
                Some(Remedy { statement, risk: risk.into(), ..remedy })
            }))
            .remedy_if(kept_by.and_then(|writer| writer.connection_id).filter(frees).map(|id| Remedy {
                statement: format!("KILL QUERY {id}"),
                why: "The FLUSH gets its lock, and everyone goes on when it gives it back.".into(),
                dynamic: true,
                risk: "That statement is lost; what it changed is rolled back.".into(),
                undo: String::new(),
            }))
            .remedy_if(end_flushers(&sample.server).filter(|_| is_locked))
            .remedy_if(alone.is_some().then(|| Remedy {
                statement: "SET SESSION lock_wait_timeout = 60 in the session of the backup".into(),
                why: "It gives up after a minute, and lets go of what it holds, where the default is a year.".into(),
                dynamic: true,
                risk: "The backup fails when somebody works for longer than that.".into(),
                undo: String::new(),
            }))
            .remedy_if(alone.is_some().then(|| Remedy {
                statement: "Backup locks in place of FLUSH TABLES WITH READ LOCK: LOCK INSTANCE FOR BACKUP (MySQL 8.0), BACKUP \
                            STAGE (MariaDB 10.4), LOCK TABLES FOR BACKUP (Percona Server 5.6 to 8.0)"
                    .into(),
                why: "They do not wait for statements that read or change rows of InnoDB.".into(),
                dynamic: true,
                risk: "The backup tool must know them.".into(),
                undo: String::new(),
            }))
            .remedy_if(sessions::listing_locks(window).filter(|_| culprit.is_none() && alone.is_none()))
            .remedy_if((culprit.is_none() && alone.is_none() && has_half.is_none()).then(|| Remedy {
                statement: if is_locked {
                    "UNLOCK TABLES (or UNLOCK INSTANCE, BACKUP STAGE END) in the session that locked"
                } else {
                    "End the statement that has used the table longest (KILL QUERY), or UNLOCK TABLES in the session that has it locked"
                }
                .into(),
                why: if is_locked { "It gives the locks back at once." } else { "Who waits then opens the table again." }.into(),
                dynamic: true,
                risk: if is_locked {
                    "The backup that it was taking is spoilt."
                } else {
                    "That statement is lost; what the table was locked for is no longer protected."
                }
                .into(),
                undo: String::new(),
            }))
            .root(root)
            .explains(&[
                connections_exhausted::CAUSE.name,
                thread_pool_starved::CAUSE.name,
                monitoring_overload::CAUSE.name,
            ])
            .finding(),
    ))
}

/// What the end of a session costs that holds a lock of the whole server.
const SPOILT: &str = "The backup or whatever it locked for is spoilt; an open transaction is rolled back.";

/// True for a session that waits for a lock of the whole server, or for tables to be flushed.
fn waits(thread: &ServerThread) -> bool {
    let state = thread.state.to_ascii_lowercase();
    [
        "waiting for global read lock",
        "waiting for commit lock",
        "waiting for backup lock",
        "waiting for binlog lock",
        "waiting for table flush",
        "waiting for global metadata lock",
        "waiting for release of readlock",
    ]
    .iter()
    .any(|wait| state.starts_with(wait))
}

/// True for one that waits for a lock of the whole server, and not for tables to be flushed alone.
fn waits_for_the_server(thread: &ServerThread) -> bool {
    waits(thread) && !thread.state.to_ascii_lowercase().starts_with("waiting for table flush")
}

/// The statement at work that has run longest of those that change rows or lock them to do so: a lock of the whole server waits for
/// them, and not for who reads.
fn oldest_writer(server: &ServerSample) -> Option<&ServerThread> {
    let writers = sessions::at_work(server.threads.value()?).filter(|thread| {
        !waits(thread) && thread.statement.as_deref().is_some_and(spindoctor_sql::locks_rows)
    });
    writers.max_by(|one, other| one.time_s.total_cmp(&other.time_s))
}

/// The waiting states with their counts.
fn states(sample: &Sample) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for thread in sample.server.threads.value().into_iter().flatten().filter(|thread| waits(thread)) {
        match counts.iter_mut().find(|(state, _)| *state == thread.state) {
            Some((_, count)) => *count += 1,
            None => counts.push((&thread.state, 1)),
        }
    }
    counts.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}

/// A FLUSH, backup or lock statement that waits.
fn flusher(server: &ServerSample) -> Option<&ServerThread> {
    server.threads.value()?.iter().find(|thread| waits(thread) && locks_all(thread))
}

/// Statements whose end is proposed at most.
const ENDED: usize = 8;

/// Ending all statements that want to lock the whole server and wait: of each that stays the next statements wait.
fn end_flushers(server: &ServerSample) -> Option<Remedy> {
    let waiting = server.threads.value()?.iter().filter(|thread| waits(thread) && locks_all(thread));
    let ids = waiting.filter_map(|thread| thread.connection_id).filter(|id| killing::frees(server, *id));
    let kills: Vec<String> = ids.take(ENDED).map(|id| format!("KILL {id}")).collect();
    (!kills.is_empty()).then(|| Remedy {
        statement: kills.join("; "),
        why: "It ends what locks the server while it waits.".into(),
        dynamic: true,
        risk: "The backup, or the program that switches the server to read-only, fails.".into(),
        undo: "Run it again at a quieter time.".into(),
    })
}

/// True for a statement that locks the whole server.
fn locks_all(thread: &ServerThread) -> bool {
    thread.statement.as_deref().is_some_and(spindoctor_sql::locks_the_server)
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::MetadataLock;

    use super::*;
    use crate::testing::{Build, answer, session};

    fn lock(connection: u64, object_type: &str, lock_type: &str, granted: bool) -> MetadataLock {
        MetadataLock {
            object_type: object_type.into(),
            lock_type: lock_type.into(),
            granted,
            owner_internal_id: Some(connection + 40),
            ..MetadataLock::default()
        }
    }

    fn writers(state: &str) -> Vec<ServerThread> {
        (20..40).map(|id| session(id, "Query", state, "UPDATE sbtest1 SET k = 1 WHERE id = 1")).collect()
    }

    /// Connection 7 took FLUSH TABLES WITH READ LOCK and went away.
    pub(crate) fn fires() -> Window {
        Build::busy("8.0.36")
            .sessions(|_| {
                let mut sessions = writers("Waiting for global read lock");
                sessions.push(session(7, "Sleep", "", ""));
                sessions
            })
            .each(|at_s, server, _| {
                let mut locks = vec![
                    lock(50, "GLOBAL", "INTENTION_EXCLUSIVE", true),
                    lock(7, "GLOBAL", "SHARED", true),
                    lock(7, "COMMIT", "SHARED", true),
                ];
                locks.extend((20..40).map(|id| lock(id, "GLOBAL", "INTENTION_EXCLUSIVE", false)));
                server.metadata_locks = answer(at_s, locks);
            })
            .window()
    }

    /// A backup takes the lock for an instant.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36")
            .sessions(|at| match at {
                3 => vec![session(20, "Query", "Waiting for commit lock", "COMMIT")],
                _ => vec![session(20, "Query", "executing", "COMMIT")],
            })
            .window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn found(window: &Window) -> Finding {
        match CAUSE.evaluate(window, crate::session_time(window).as_ref()) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_root_is_the_idle_holder_of_the_global_lock_and_no_writer() {
        let finding = found(&fires());
        assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(7));
        assert_eq!(finding.headline, "Connection 7 blocks 20 sessions: it holds a global lock and is idle");
        assert_eq!(finding.remedies[0].statement, "KILL 7");
    }

    #[test]
    fn where_the_flush_itself_waits_the_root_is_the_long_query() {
        let window = Build::busy("10.11.19-MariaDB")
            .sessions(|_| {
                let mut sessions = writers("Waiting for backup lock");
                sessions.push(session(7, "Query", "Waiting for table flush", "FLUSH TABLES WITH READ LOCK"));
                let mut report = session(9, "Query", "Sending data", "SELECT SLEEP(600) FROM sbtest1");
                report.time_s = 600.0;
                sessions.extend([report, session(10, "Query", "Sending data", "SELECT 1")]);
                sessions
            })
            .window();
        let finding = found(&window);
        assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(9));
        let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(statements, ["KILL QUERY 9", "KILL 7"]);
    }

    #[test]
    fn whose_change_a_flush_waits_for_is_named_though_others_queue_behind_it() {
        let found_with = |change_s: f64| {
            let window = Build::busy("10.11.19-MariaDB").sessions(move |_| {
                let mut sessions = writers("Waiting for backup lock");
                let flush = session(7, "Query", "Waiting for backup lock", "FLUSH TABLES WITH READ LOCK");
                let change = session(9, "Query", "User sleep", "UPDATE stock SET n = SLEEP(50) WHERE id = 1");
                sessions.extend([
                    ServerThread { time_s: 5.0, ..flush },
                    ServerThread { time_s: change_s, ..change },
                ]);
                sessions
            });
            found(&window.window())
        };
        let finding = found_with(9.0);
        assert!(
            finding.headline.contains("most likely connection 9 keeps a FLUSH from it"),
            "{}",
            finding.headline
        );
        let kills: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).take(2).collect();
        assert_eq!(kills, ["KILL QUERY 9", "KILL 7"]);
        // What began after the FLUSH is not what it waits for.
        let finding = found_with(2.0);
        assert!(!finding.headline.contains("connection 9"), "{}", finding.headline);
    }

    #[test]
    fn a_statement_that_changes_rows_spoils_no_backup_when_it_is_ended() {
        let window = Build::busy("9.7.4")
            .sessions(|_| {
                let mut sessions = writers("Waiting for global read lock");
                sessions.push(session(
                    7,
                    "Query",
                    "Waiting for global read lock",
                    "FLUSH TABLES WITH READ LOCK",
                ));
                sessions.push(session(
                    9,
                    "Query",
                    "User sleep",
                    "UPDATE stock SET n = SLEEP(50) WHERE id = 1",
                ));
                sessions
            })
            .each(|at_s, server, _| {
                let mut locks =
                    vec![lock(9, "GLOBAL", "INTENTION_EXCLUSIVE", true), lock(7, "GLOBAL", "SHARED", false)];
                locks.extend((20..40).map(|id| lock(id, "GLOBAL", "INTENTION_EXCLUSIVE", false)));
                server.metadata_locks = answer(at_s, locks);
            })
            .window();
        let finding = found(&window);
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(9));
        let remedy = &finding.remedies[0];
        assert!(
            remedy.statement == "KILL QUERY 9" && remedy.risk.starts_with("That statement is lost"),
            "{remedy:?}"
        );
    }

    /// Writers that have waited for 3 s, and sessions that have rested for so long; nobody lists locks.
    fn rested(resting: &[(u64, f64)]) -> Finding {
        let sessions: Vec<ServerThread> = resting
            .iter()
            .map(|&(id, time_s)| ServerThread { time_s, ..session(id, "Sleep", "", "") })
            .chain(writers("Waiting for backup lock"))
            .collect();
        let unread = Unavailable::because("no plugin").unlock("INSTALL SONAME 'metadata_lock_info'");
        let window =
            Build::busy("10.11.19-MariaDB").sessions(move |_| sessions.clone()).each(|_, server, _| {
                server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
            });
        found(&window.window())
    }

    #[test]
    fn an_idle_holder_that_no_list_names_is_who_alone_was_there_before_they_began_to_wait() {
        // Alone, and beside one that came to rest later.
        for resting in [&[(7, 3.2)][..], &[(7, 3.2), (8, 1.0)]] {
            let finding = rested(resting);
            assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(7), "{resting:?}");
            assert_eq!(
                finding.headline,
                "Connection 7 most likely blocks 20 sessions: it alone was there before they began to wait"
            );
            assert_eq!(finding.remedies[0].statement, "KILL 7");
            assert!(finding.why.contains("It is inferred"), "{}", finding.why);
            let reads = finding.evidence.iter().map(|evidence| evidence.reading.as_str());
            assert!(reads.clone().any(|reading| reading == "what would name the holder"));
        }
    }

    #[test]
    fn an_idle_holder_that_may_be_any_of_several_stays_unnamed() {
        // Who read until the first write came to rest later than who locked the server: near to the waits is no evidence.
        for resting in [
            &[(7, 3.2), (8, 4.0)][..],
            &[(6, 3600.0), (7, 6.0), (8, 3.1)],
            &[(7, 60.0), (8, 90.0)],
            &[(7, 1.0)],
            &[],
        ] {
            let finding = rested(resting);
            assert_eq!(finding.root, None, "{resting:?}");
            let kills = finding.remedies.iter().any(|remedy| remedy.statement.starts_with("KILL"));
            assert!(!kills, "{resting:?}: {:?}", finding.remedies);
            assert!(finding.remedies.iter().any(|remedy| remedy.statement.starts_with("UNLOCK TABLES")));
        }
        assert!(rested(&[(7, 3.2), (8, 4.0)]).why.contains("One of these was there before"));
    }

    /// A report uses a table that a plain FLUSH TABLES made old, and twenty readers wait to open it.
    #[test]
    fn to_end_a_flush_that_locks_nothing_is_no_remedy() {
        let behind = |flush: &'static str, state: &'static str| {
            let window = Build::busy("5.7.22").sessions(move |_| {
                let mut sessions = vec![
                    ServerThread {
                        time_s: 60.0,
                        ..session(7, "Query", "User sleep", "SELECT COUNT(*) FROM sbtest1")
                    },
                    ServerThread { time_s: 9.0, ..session(8, "Query", "Waiting for table flush", flush) },
                ];
                sessions
                    .extend(writers(state).into_iter().map(|thread| ServerThread { time_s: 5.0, ..thread }));
                sessions
            });
            found(&window.window())
        };
        let kills = |finding: &Finding| {
            let kills = finding.remedies.iter().filter(|remedy| remedy.statement.starts_with("KILL"));
            kills.map(|remedy| remedy.statement.clone()).collect::<Vec<_>>()
        };
        let plain = behind("FLUSH TABLES", "Waiting for table flush");
        assert_eq!(kills(&plain), ["KILL QUERY 7"]);
        assert!(plain.why.contains("frees nobody else"), "{}", plain.why);
        let locks = behind("FLUSH TABLES WITH READ LOCK", "Waiting for global read lock");
        assert_eq!(kills(&locks), ["KILL QUERY 7", "KILL 8"]);
    }

    #[test]
    fn a_list_that_was_read_and_names_nobody_makes_no_guess() {
        let window = Build::busy("10.11.19-MariaDB")
            .sessions(|_| {
                let mut sessions = writers("Waiting for backup lock");
                sessions.push(session(7, "Sleep", "", ""));
                sessions
            })
            .window();
        assert_eq!(found(&window).root, None);
    }
}
