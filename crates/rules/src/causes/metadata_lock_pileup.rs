//! `metadata-lock-pileup`: a DDL waits for an old transaction, and everyone waits for the DDL.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{MetadataLock, ServerSample, ServerThread};
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{
    Evidence, Finding, Remedy, SessionTime, Severity, TimeClass, Unavailable, Window, number,
};

use super::{connections_exhausted, thread_pool_starved};
use crate::draft::Draft;
use crate::killing;
use crate::rank::severity;
use crate::sessions::{self, Waiting};
use crate::time_model::InClasses;
use crate::wait_graph::{Ring, Verdict};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "metadata-lock-pileup",
    title: "a DDL waits for an old transaction and everyone waits for the DDL",
    what: "Every statement takes a metadata lock on each table it uses and keeps it until its transaction ends, \
           a plain SELECT in an open transaction included. ALTER, DROP, TRUNCATE, RENAME, CREATE TRIGGER, \
           OPTIMIZE and LOCK TABLES need the table for themselves and wait for all of these. While the DDL \
           waits, every newer statement on that table queues behind it, although it would get along with the \
           transactions before.",
    why_it_hurts: "One forgotten transaction and one quick DDL stop a table altogether: each client that touches \
                   it hangs for lock_wait_timeout (a year on MySQL, a day on MariaDB), and the connections fill \
                   up.",
    evidence: "Sessions in a state `Waiting for ... metadata lock`, in each sample; metadata_locks, pending and \
               granted (performance_schema, or MariaDB's plugin, which lists granted ones only). It fires when \
               sessions wait in about half of the samples, or where the stacks see them wait for 5 % of the session time and \
               half a session on average. The root is the owner of a granted lock on the \
               wanted table that is not waiting, in the most of the samples. Without a list of locks it is, as most likely, a DDL at \
               work on the table, a statement at work that names it, or the one open transaction that is \
               older than the wait of the DDL; where it may be one of several, none is named. The estimate is the share of the sessions' \
               working time spent waiting; a DDL that waits alone is a warning, because the pile-up is only a \
               statement away.",
    looks_alike: "Waits for rows inside InnoDB are row-lock-pileup. `Waiting for table flush`, `Waiting for \
                  global read lock` and backup locks are global-lock-pileup. `Waiting for table level lock` is \
                  MyISAM or LOCK TABLES. A DDL that runs is not a DDL that waits: look at its state.",
    remedies: "End the holder (KILL id), or end the DDL: everyone behind it goes on at once, and the DDL can be \
               tried again at a better time. Run DDL with a short lock_wait_timeout (SET SESSION \
               lock_wait_timeout = 5) and try again; MariaDB has ALTER TABLE ... NOWAIT and WAIT n. Online \
               schema change tools need the lock too, for a moment at the end.",
    safety: "KILL of an idle transaction rolls its changes back. KILL of a DDL that only waits costs nothing but \
             the DDL. A session lock_wait_timeout ends with the session.",
    references: &[
        "MySQL Reference Manual: Metadata Locking; The metadata_locks Table",
        "MySQL WL#9629: metadata lock instrumentation on by default (8.0)",
        "MariaDB Knowledge Base: METADATA_LOCK_INFO plugin; WAIT and NOWAIT",
    ],
    costs: Costs::Waits(&[TimeClass::MetadataLock]),
    explains_time: &[TimeClass::MetadataLock],
    stacks: Stacks::Standing(&["MDL_wait::timed_wait"]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Sessions waiting on average: one in half of the samples. A quick DDL on a busy table waits for an
/// instant and is seen in one sample at most.
const WAITERS: f64 = 0.5;

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    examine(window, time).into()
}

fn examine(window: &Window, time: &SessionTime) -> Result<Option<Finding>, Unavailable> {
    let waiting = Waiting::count(window, waits)?;
    let account = InClasses::from_time(time, &[TimeClass::MetadataLock]);
    if waiting.mean < WAITERS && account.is_none() {
        return Ok(None);
    }
    let (waiters, lost_ratio) = waiting.with_account(account.as_ref());
    let is_passing = waiting.mean < WAITERS;
    let (sample, culprit) = Verdict::from_most_samples(window, &[LockKind::Metadata], waits);
    let ddl = first_in_queue(&sample.server);
    let ground = culprit.as_ref().map(|culprit| Ground::of_holder(&sample.server, culprit, ddl.is_some()));
    let certain = ground.is_some_and(Ground::is_certain);
    let alone = waiters < 2.0;
    // One client is blocked, not the server.
    let most = if alone { Severity::Warning } else { Severity::Critical };
    let root = culprit.as_ref().map(Verdict::described);
    let table = wanted_object(&sample.server).or_else(|| {
        let held = culprit.as_ref().filter(|culprit| certain && culprit.root.kind == LockKind::Metadata);
        held.map(|culprit| culprit.root.object.clone())
    });
    let on = table.as_ref().map_or_else(String::new, |table| format!(" of {table}"));
    let ring = match &culprit {
        Some(_) => None,
        None => Ring::from_window(window, sample, LockKind::Metadata),
    };
    let headline = match (&culprit, &root, &ring) {
        (Some(culprit), Some(root), _) => format!(
            "Connection {} {}blocks {} the metadata lock{on}: it {}",
            culprit.connection_id,
            if certain { "" } else { "most likely " },
            number::counted(waiters as u64, "session that wants", "sessions that want"),
            sessions::doing(root)
        ),
        (_, _, Some(ring)) => format!(
            "{}, and hold up {} the metadata lock{on}",
            ring.headline(),
            number::counted(waiters as u64, "session that wants", "sessions that want")
        ),
        _ => format!(
            "{} for the metadata lock{on}",
            number::counted(waiters as u64, "session waits", "sessions wait")
        ),
    };
    let unlock = window.missing(|s| &s.server.metadata_locks).and_then(|missing| missing.unlock);
    let longest_s = sample
        .server
        .threads
        .value()
        .and_then(|threads| {
            threads.iter().filter(|thread| waits(thread)).map(|thread| thread.time_s).max_by(f64::total_cmp)
        })
        .filter(|s| *s > 0.0);
    // A statement that began before the first DDL, and waits, waits for something else: the table was locked already.
    let was_locked =
        culprit.is_none() && window.is_given() && ddl.is_some_and(|ddl| waits_before(&sample.server, ddl));
    let kill_ddl = kill_of_ddls(&sample.server).filter(|_| !was_locked);
    // A list of locks may show that one waits, and not whose connection it is.
    let ddl_waits =
        ddl.is_some() || locks(&sample.server).any(|lock| !lock.granted && is_strong(&lock.lock_type));
    let ddl_works = sample.server.threads.value().into_iter().flatten().any(|thread| {
        thread.is_at_work()
            && !waits(thread)
            && thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table)
    });
    Ok(Some(
        Draft::new(&CAUSE, lost_ratio, headline)
            .severity(severity(lost_ratio).min(most))
            .why(match ground {
                Some(ground) => ground.sentence().to_owned(),
                None if ring.is_some() => ring.as_ref().map_or_else(String::new, Ring::sentence),
                None if is_passing => "Each wait is short, and the lists rarely show one: DDL that runs again and again has the table \
                                       for an instant each time, and everyone who uses it waits until that is over."
                    .to_owned(),
                None if was_locked => format!(
                    "Statements that only read or write rows waited before the DDL came: somebody has the table by LOCK TABLES or HANDLER, and \
                     the end of the DDL frees nobody. Who it is the list does not say.{}",
                    sessions::there_before(&sample.server, waits, true)
                ),
                None => format!(
                    "It is not known who holds the table{}.{}",
                    unlock.map_or_else(String::new, |unlock| format!("; {unlock} would show it")),
                    sessions::there_before(&sample.server, waits, true)
                ),
            })
            .evidence(
                Evidence::new("sessions waiting for a metadata lock", waiting.mean, "", "thread list, state")
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
            .evidence_if(longest_s.filter(|_| window.is_given()).map(|s| Evidence::new("longest wait", s, "s", "thread list")))
            .evidence_if(commonest_ddl(window).map(|(counter, per_s)| {
                Evidence::new("DDL", per_s, "1/s", &format!("SHOW GLOBAL STATUS {counter}"))
            }))
            .evidence_if(table.map(|table| Evidence::new("wanted", table, "", "metadata locks")))
            .evidence_if(ddl.and_then(|ddl| {
                let statement = ddl.statement.as_deref()?;
                Some(Evidence::new("first in the queue", sessions::shortened(statement), "", "thread list"))
            }))
            .evidence_if(culprit.as_ref().and_then(|culprit| {
                let open = sessions::transaction(&sample.server, culprit.connection_id)?;
                Some(Evidence::new("the holder's transaction is open for", open.age_s, "s", "INNODB_TRX"))
            }))
            .remedy_if(culprit.as_ref().zip(ground).and_then(|(culprit, ground)| culprit.remedy(ground.why_to_end_it())))
            .remedy_if(sessions::listing_locks(window).filter(|_| culprit.is_none() && ring.is_none()))
            .remedy_if((culprit.is_none() && ring.is_none() && (was_locked || !ddl_waits && !ddl_works) && !is_passing).then(|| Remedy {
                statement: "UNLOCK TABLES (or HANDLER ... CLOSE) in the session that locked the table".into(),
                why: if was_locked {
                    "Nothing else keeps out statements that began to wait before the DDL.".into()
                } else {
                    "No DDL waits, and nothing else keeps out statements that read and write rows.".into()
                },
                dynamic: true,
                risk: "What it locked the table for is no longer protected.".into(),
                undo: String::new(),
            }))
            .remedy_if(kill_ddl.is_none().then(|| kill_of_ring(&sample.server, ring.as_ref()?)).flatten())
            .remedy_if(kill_ddl)
            .remedy_if((ddl.is_some() || is_passing).then(|| Remedy {
                statement: "SET SESSION lock_wait_timeout = 5, before each DDL".into(),
                why: "A DDL that cannot get the table gives up before everyone queues behind it.".into(),
                dynamic: true,
                risk: "The DDL fails with error 1205 and has to be tried again.".into(),
                undo: "It ends with the session.".into(),
            }))
            .root(root)
            .explains(&[connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name])
            .finding(),
    ))
}

/// True where a statement that wants no table for itself waits for longer than any DDL has.
fn waits_before(server: &ServerSample, ddl: &ServerThread) -> bool {
    let is_other = |thread: &&ServerThread| {
        waits(thread)
            && thread.statement.as_deref().is_some_and(|statement| !spindoctor_sql::wants_a_table(statement))
    };
    server.threads.value().into_iter().flatten().filter(is_other).any(|thread| thread.time_s > ddl.time_s)
}

/// DDLs that wait whose end is proposed: of more the first ones.
const ENDED: usize = 8;

/// Ending the DDLs that wait, the first in the queue first. Of several each keeps out those behind it, so that all have to go.
fn kill_of_ddls(server: &ServerSample) -> Option<Remedy> {
    // By its lock, where a prepared statement has no text.
    let first = first_in_queue(server)?.connection_id;
    let is_ddl = |thread: &ServerThread| {
        thread.connection_id == first
            || thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table)
    };
    let waiting = server.threads.value()?.iter().filter(|thread| thread.is_at_work() && waits(thread));
    let (mut ddls, others): (Vec<&ServerThread>, Vec<&ServerThread>) =
        waiting.partition(|thread| is_ddl(thread));
    ddls.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    let of = |ddl: &&ServerThread| ddl.connection_id.filter(|id| killing::frees(server, *id));
    let ids: Vec<u64> = ddls.iter().filter_map(of).collect();
    let kills: Vec<String> = ids.iter().take(ENDED).map(|id| format!("KILL {id}")).collect();
    let why = match (ids.len(), others.len()) {
        (0, _) => return None,
        (1, 0) => "It ends the DDL that waits.".to_owned(),
        (1, _) => "It ends the DDL that waits; everyone queued behind it goes on at once.".to_owned(),
        (2..=ENDED, 0) => "They end the DDLs that wait: of each that stays, the next statements wait.".to_owned(),
        (2..=ENDED, _) => {
            "They end the DDLs that wait, one behind the other; everyone queued behind them goes on when the last is gone.".to_owned()
        }
        (all, _) => format!("They end the first of {all} DDLs that wait: who is queued goes on when the last is gone."),
    };
    let is_one = ids.len() == 1;
    Some(Remedy {
        statement: kills.join("; "),
        why,
        dynamic: true,
        risk: if is_one { "The DDL has to be run again." } else { "The DDLs have to be run again." }.into(),
        undo: format!(
            "Run the DDL{} again, with SET SESSION lock_wait_timeout = 5.",
            if is_one { "" } else { "s" }
        ),
    })
}

/// DDL a second from which on it may be what others wait for again and again: one in ten seconds. Chosen.
const DDL_PER_S: f64 = 0.1;

/// The statement that wants tables for itself of which the server counts most, by its counter, and how many a second.
fn commonest_ddl(window: &Window) -> Option<(&'static str, f64)> {
    const COUNTERS: [&str; 11] = [
        "Com_alter_table",
        "Com_create_index",
        "Com_create_table",
        "Com_create_trigger",
        "Com_drop_index",
        "Com_drop_table",
        "Com_drop_trigger",
        "Com_lock_tables",
        "Com_optimize",
        "Com_rename_table",
        "Com_truncate",
    ];
    let counted = COUNTERS.iter().filter_map(|&counter| Some((counter, window.status_per_s(counter)?)));
    counted.filter(|&(_, per_s)| per_s >= DDL_PER_S).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// True for a session that waits for a metadata lock of a table or another object.
fn waits(thread: &ServerThread) -> bool {
    let state = thread.state.to_ascii_lowercase();
    state.starts_with("waiting for") && state.ends_with("metadata lock")
}

/// Ending one session of a ring, so that the others go on.
fn kill_of_ring(server: &ServerSample, ring: &Ring) -> Option<Remedy> {
    let member = ring.first().filter(|id| killing::frees(server, *id))?;
    Some(sessions::ending(server, member, "It ends the ring: the others get what they wait for."))
}

/// What speaks for the session that is named as the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// A list of locks has its transaction's.
    Listed,
    /// A list of locks has those that a session took itself, by LOCK TABLES or HANDLER.
    ListedByName,
    /// A list of locks has the one with which its DDL began, which keeps nobody out, and others wait all the same.
    ListedAsItBegan,
    /// It is a DDL at work on the table.
    DdlAtWork,
    /// Its statement at work uses the table.
    StatementAtWork,
    /// Its transaction is the only one that is older than the wait of the DDL, or that names the table.
    OlderTransaction,
    /// It alone was there before the first began to wait, and rests.
    Rests,
}

impl Ground {
    fn of_holder(server: &ServerSample, holder: &Verdict<'_>, ddl_waits: bool) -> Self {
        let session = sessions::session(server, holder.connection_id);
        let at_work = session.filter(|thread| thread.is_at_work() && !waits(thread));
        let statement = at_work.and_then(|thread| thread.statement.as_deref());
        let is_ddl = statement.is_some_and(spindoctor_sql::wants_a_table);
        let has_list = server.metadata_locks.value().is_some_and(|locks| !locks.is_empty());
        match statement {
            // Of granted locks alone the waiters' are inferred, too.
            _ if has_list && is_ddl && holder.root.is_inferred => Self::ListedAsItBegan,
            _ if has_list && holder.root.doing == "idle, holding tables" => Self::ListedByName,
            // What a transaction or a statement has of a table keeps out nobody but a DDL.
            _ if has_list && !is_ddl && !ddl_waits => Self::ListedByName,
            _ if has_list => Self::Listed,
            Some(_) if is_ddl => Self::DdlAtWork,
            Some(_) => Self::StatementAtWork,
            None if sessions::transaction(server, holder.connection_id).is_some() => Self::OlderTransaction,
            None => Self::Rests,
        }
    }

    fn is_certain(self) -> bool {
        matches!(self, Self::Listed | Self::ListedByName)
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Listed => {
                "It still holds the table, as a transaction does until it ends; what wants the table for itself waits for it, and every newer statement on \
                 the table queues behind that."
            }
            Self::ListedByName => {
                "It holds the table by no transaction and no statement, but as LOCK TABLES and HANDLER do; what wants the table waits \
                 until it gives it back, by UNLOCK TABLES, HANDLER CLOSE or the end of its session."
            }
            Self::ListedAsItBegan => {
                "It is a DDL at work on the table. The list of locks has the lock with which it began, which keeps nobody out; that \
                 others wait shows that it has a stronger one by now."
            }
            Self::DdlAtWork => {
                "It is a DDL at work on the table, and everyone who uses the table waits until it ends. That no list of locks shows it \
                 changes nothing: had somebody else kept the table, it would wait itself."
            }
            Self::StatementAtWork => {
                "Its statement uses the table, and a DDL waits until it ends; everyone else who uses the table queues behind the DDL."
            }
            Self::OlderTransaction => {
                "Who holds the table could not be read: of the open transactions this one alone is older than the wait of the DDL, or \
                 alone names the table."
            }
            Self::Rests => {
                "Who holds the table could not be read: this session alone was there before the first began to wait, and rests, as one \
                 does that holds it by LOCK TABLES or HANDLER."
            }
        }
    }

    fn why_to_end_it(self) -> &'static str {
        match self {
            Self::Listed | Self::ListedByName => "It holds the lock and is not waiting.",
            Self::ListedAsItBegan | Self::DdlAtWork => {
                "It ends the DDL, and the table is free; what it has done so far is lost."
            }
            Self::StatementAtWork => "Its statement uses the table.",
            Self::OlderTransaction => {
                "It is most likely the holder: no other open transaction is older than the wait, or names the table."
            }
            Self::Rests => {
                "It is most likely the holder: nobody else was there before the others began to wait."
            }
        }
    }
}

/// Lock types that keep readers or writers of the table out.
fn is_strong(lock_type: &str) -> bool {
    matches!(
        lock_type,
        "EXCLUSIVE"
            | "SHARED_NO_READ_WRITE"
            | "SHARED_NO_WRITE"
            | "SHARED_READ_ONLY"
            | "SHARED_WRITE_LOW_PRIO"
    )
}

/// Locks of objects that DDL locks: tables, schemas, routines; not the global ones, not user locks.
fn locks(server: &ServerSample) -> impl Iterator<Item = &MetadataLock> {
    const NOT_OBJECTS: [&str; 7] =
        ["GLOBAL", "COMMIT", "BACKUP", "BACKUP LOCK", "USER LEVEL LOCK", "LOCKING SERVICE", "ACL CACHE"];
    server.metadata_locks.value().into_iter().flatten().filter(|lock| {
        !NOT_OBJECTS.contains(&lock.object_type.as_str()) && lock.schema != "performance_schema"
    })
}

fn owner(server: &ServerSample, lock: &MetadataLock) -> Option<u64> {
    lock.owner_connection_id.or_else(|| {
        let internal_id = lock.owner_internal_id?;
        server.threads.value()?.iter().find(|thread| thread.internal_id == Some(internal_id))?.connection_id
    })
}

fn qualified(lock: &MetadataLock) -> String {
    match (lock.schema.as_str(), lock.name.as_str()) {
        ("", name) => name.to_owned(),
        (schema, "") => schema.to_owned(),
        (schema, name) => format!("{schema}.{name}"),
    }
}

/// The object that most pending locks want.
fn wanted_object(server: &ServerSample) -> Option<String> {
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    locks(server)
        .filter(|lock| !lock.granted)
        .for_each(|lock| *wanted.entry(qualified(lock)).or_default() += 1);
    wanted.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name)
}

/// The waiting session that wants the table for itself: by its pending lock, or the one that has
/// waited longest with a statement that is none of the everyday ones.
fn first_in_queue(server: &ServerSample) -> Option<&ServerThread> {
    let strong = locks(server)
        .filter(|lock| !lock.granted && is_strong(&lock.lock_type))
        .find_map(|lock| owner(server, lock));
    if let Some(session) = strong.and_then(|id| sessions::session(server, id)) {
        return Some(session);
    }
    let is_ddl =
        |thread: &&ServerThread| thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table);
    let waiting = server.threads.value()?.iter().filter(|thread| waits(thread));
    waiting.filter(is_ddl).max_by(|a, b| a.time_s.total_cmp(&b.time_s))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::mysql::Transaction;

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    const WAITS: &str = "Waiting for table metadata lock";

    fn lock(connection: u64, lock_type: &str, granted: bool) -> MetadataLock {
        MetadataLock {
            object_type: "TABLE".into(),
            schema: "sbtest".into(),
            name: "sbtest1".into(),
            lock_type: lock_type.into(),
            granted,
            owner_internal_id: Some(connection + 40),
            owner_connection_id: None,
        }
    }

    /// Connection 7 idles in a transaction, 8 wants to ALTER, 20 to 39 wait behind 8.
    fn pileup(version: &str) -> Build {
        Build::busy(version)
            .sessions(|_| {
                let mut sessions = vec![
                    session(7, "Sleep", "", ""),
                    session(8, "Query", WAITS, "ALTER TABLE sbtest1 ADD COLUMN d INT"),
                ];
                sessions.extend(
                    (20..40).map(|id| session(id, "Query", WAITS, "SELECT c FROM sbtest1 WHERE id = 1")),
                );
                sessions.push(session(50, "Query", "executing", "SELECT 1"));
                sessions
            })
            .each(|at_s, server, _| {
                server.transactions =
                    answer(at_s, vec![transaction(50, "RUNNING", 0.1), transaction(7, "RUNNING", 61.0)]);
            })
    }

    pub(crate) fn fires() -> Window {
        pileup("8.0.36")
            .each(|at_s, server, _| {
                let mut locks = vec![
                    lock(7, "SHARED_READ", true),
                    lock(8, "SHARED_UPGRADABLE", true),
                    lock(8, "EXCLUSIVE", false),
                ];
                locks.extend((20..40).map(|id| lock(id, "SHARED_READ", false)));
                server.metadata_locks = answer(at_s, locks);
            })
            .window()
    }

    /// A quick DDL, seen in one sample.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36")
            .sessions(|at| {
                let state = if at == 4 { WAITS } else { "altering table" };
                vec![session(8, "Query", state, "ALTER TABLE sbtest1 ADD COLUMN d INT")]
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
    fn a_ddl_at_work_holds_its_table_even_where_it_waits_itself_for_an_instant() {
        const ALTER: &str = "ALTER TABLE sbtest1 ENGINE = InnoDB, ALGORITHM = COPY";
        const CHANGE: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
        let unread = spindoctor_model::Unavailable::because("no plugin");
        // In the last list it has just begun again, and waits for a change that is under way.
        let sessions = |at: usize| {
            let (ddl, change) = if at == 10 { (WAITS, "updating") } else { ("copy to tmp table", WAITS) };
            let mut sessions = vec![session(8, "Query", ddl, ALTER), session(20, "Query", change, CHANGE)];
            sessions.extend((21..26).map(|id| session(id, "Query", WAITS, CHANGE)));
            sessions
        };
        let finding = found(
            &Build::busy("10.11.19-MariaDB")
                .sessions(sessions)
                .each(move |at_s, server, _| {
                    server.transactions = answer(at_s, vec![transaction(20, "RUNNING", 0.1)]);
                    server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
                })
                .window(),
        );
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(8), "{finding:#?}");
        assert_eq!(finding.remedies[0].statement, "KILL QUERY 8");
        assert!(finding.why.contains("at work"), "{}", finding.why);
    }

    #[test]
    fn a_statement_at_work_on_the_table_is_what_a_ddl_waits_for_before_a_session_that_rests() {
        let unread = spindoctor_model::Unavailable::because("no plugin");
        let of = |joins_s: f64| {
            let timed = |id, command, time_s, state: &str, statement: &str| ServerThread {
                time_s,
                schema: "sbtest".into(),
                ..session(id, command, state, statement)
            };
            // OPTIMIZE has copied the table, and waits again, to analyze it.
            let mut sessions = vec![
                timed(7, "Sleep", 9.1, "", ""),
                timed(8, "Query", 8.0, WAITS, "OPTIMIZE TABLE sbtest1"),
                timed(
                    9,
                    "Query",
                    joins_s,
                    "Sending data",
                    "SELECT COUNT(*) FROM sbtest1 a, sbtest2 b WHERE a.c < b.c",
                ),
                timed(10, "Query", 30.0, "Sending data", "SELECT c FROM sbtest3"),
            ];
            sessions.extend(
                (20..26).map(|id| timed(id, "Execute", 0.7, WAITS, "SELECT c FROM sbtest1 WHERE id = 1")),
            );
            let unread = unread.clone();
            found(
                &Build::busy("10.11.19-MariaDB")
                    .sessions(move |_| sessions.clone())
                    .each(move |at_s, server, _| {
                        let reads =
                            Transaction { rows_modified: 0, ..transaction(9, "RUNNING", joins_s.floor()) };
                        server.transactions = answer(at_s, vec![reads]);
                        server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
                    })
                    .window(),
            )
        };
        for joins_s in [0.9, 8.5] {
            let finding = of(joins_s);
            assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(9), "{finding:#?}");
            assert_eq!(finding.remedies[0].statement, "KILL QUERY 9");
            assert!(finding.why.contains("uses the table"), "{}", finding.why);
        }
    }

    #[test]
    fn sessions_that_wait_for_each_other_are_named_and_the_ddl_among_them_is_ended() {
        use spindoctor_model::mysql::RowLockWait;
        const ALTER: &str = "ALTER TABLE sbtest1 ADD COLUMN yy INT";
        let timed = |id, time_s, state: &str, statement: &str| ServerThread {
            time_s,
            ..session(id, "Query", state, statement)
        };
        // 7 has read sbtest1 and wants a row that 9 has changed; 8 alters sbtest1; 9 wants to read it.
        let mut sessions = vec![
            timed(7, 12.0, "updating", "UPDATE sbtest2 SET k = 1 WHERE id = 1"),
            timed(8, 11.0, WAITS, ALTER),
            timed(9, 10.0, WAITS, "SELECT c FROM sbtest1 WHERE id = 2"),
        ];
        sessions.extend((20..26).map(|id| timed(id, 8.0, WAITS, "SELECT c FROM sbtest1 WHERE id = 3")));
        let mut locks = vec![
            lock(7, "SHARED_READ", true),
            lock(8, "SHARED_UPGRADABLE", true),
            lock(8, "EXCLUSIVE", false),
            lock(9, "SHARED_READ", false),
        ];
        locks.extend((20..26).map(|id| lock(id, "SHARED_READ", false)));
        let row = RowLockWait {
            waiting_transaction: "77".into(),
            waiting_connection_id: Some(7),
            blocking_transaction: "99".into(),
            blocking_connection_id: Some(9),
            table: "sbtest.sbtest2".into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        let window = Build::busy("8.0.36")
            .sessions(move |_| sessions.clone())
            .each(move |at_s, server, _| {
                server.transactions =
                    answer(at_s, vec![transaction(7, "LOCK WAIT", 13.0), transaction(9, "RUNNING", 13.0)]);
                server.row_lock_waits = answer(at_s, vec![row.clone()]);
                server.metadata_locks = answer(at_s, locks.clone());
            })
            .window();
        let finding = found(&window);
        assert!(
            finding.headline.starts_with("3 sessions wait for each other, and hold up 8"),
            "{}",
            finding.headline
        );
        assert!(
            finding.why.contains("7 for 9 (row lock), 9 for 8 (metadata lock), 8 for 7"),
            "{}",
            finding.why
        );
        assert_eq!(finding.remedies[0].statement, "KILL 8");
        let rows = crate::diagnose(&window).findings;
        let rows = rows.iter().find(|finding| finding.cause == "row-lock-pileup").unwrap();
        assert!(rows.why.contains("7 for 9 (row lock)"), "{}", rows.why);
    }

    #[test]
    fn short_waits_that_the_lists_rarely_show_are_seen_by_the_stacks() {
        use spindoctor_model::stack::ThreadState;
        const STANDS: &[&str] = &["MDL_wait::timed_wait", "open_table", "dispatch_command", "do_command"];
        // In one list of ten; the session that runs TRUNCATE rests between two of them.
        let sessions = |at: usize| {
            let waiter =
                ServerThread { time_s: 0.01, ..session(20, "Query", WAITS, "INSERT INTO tt VALUES (1)") };
            let rests = ServerThread { time_s: 0.01, ..session(8, "Sleep", "", "") };
            let old = ServerThread { time_s: 900.0, ..session(9, "Sleep", "", "") };
            if at == 4 { vec![waiter, rests, old] } else { vec![rests, old] }
        };
        let unread = spindoctor_model::Unavailable::because("no plugin");
        let finding = found(
            &Build::busy("10.11.19-MariaDB")
                .counter("Com_truncate", 40.0)
                .sessions(sessions)
                .each(move |_, server, _| {
                    server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
                })
                .remote()
                .only_snapshots(&[(3, ThreadState::Condition, STANDS)])
                .window(),
        );
        assert!(
            finding.headline.starts_with("3 sessions wait for the metadata lock"),
            "{}",
            finding.headline
        );
        assert_eq!(finding.root, None);
        assert!(finding.why.contains("again and again"), "{}", finding.why);
        let ddl = finding.evidence.iter().find(|evidence| evidence.reading == "DDL").unwrap();
        assert!(ddl.source.contains("Com_truncate"), "{ddl:?}");
    }

    #[test]
    fn who_holds_a_table_without_a_transaction_is_who_alone_was_there_before_the_first_began_to_wait() {
        // Nobody lists locks, and the list of transactions has none.
        let rested = |resting: &[(u64, f64, &str)]| {
            let resting = resting.iter().map(|&(id, time_s, schema)| ServerThread {
                time_s,
                schema: schema.into(),
                ..session(id, "Sleep", "", "")
            });
            let waiters = (20..40).map(|id| ServerThread {
                time_s: 3.0,
                schema: "sbtest".into(),
                ..session(id, "Query", WAITS, "SELECT c FROM sbtest1 WHERE id = 1")
            });
            let sessions: Vec<ServerThread> = resting.chain(waiters).collect();
            let window = Build::busy("10.11.19-MariaDB").sessions(move |_| sessions.clone());
            let unread = spindoctor_model::Unavailable::because("no plugin");
            found(
                &window
                    .each(|at_s, server, _| {
                        server.transactions = answer(at_s, Vec::new());
                        server.metadata_locks = spindoctor_model::Reading::Unavailable(unread.clone());
                    })
                    .window(),
            )
        };
        // Beside sessions that rest in other schemas, and that came later.
        for resting in [&[(7, 3.2, "sbtest")][..], &[(6, 3.6, ""), (7, 3.2, "sbtest"), (8, 1.0, "sbtest")]] {
            let finding = rested(resting);
            assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(7), "{resting:?}");
            assert!(finding.headline.contains("most likely"), "{}", finding.headline);
            assert!(finding.why.contains("LOCK TABLES"), "{}", finding.why);
            assert_eq!(finding.remedies[0].statement, "KILL 7");
            // No DDL waits.
            assert_eq!(finding.remedies.len(), 1, "{:?}", finding.remedies);
        }
        // Of several nobody is named, however near to the waits one came to rest.
        for resting in [
            &[(7, 3.2, "sbtest"), (8, 4.0, "sbtest")][..],
            &[(6, 3600.0, "sbtest"), (7, 3.2, "sbtest"), (9, 3601.0, "sbtest")],
        ] {
            let several = rested(resting);
            assert_eq!(several.root, None);
            assert!(several.remedies.iter().all(|remedy| !remedy.statement.starts_with("KILL")));
            assert!(several.why.contains("One of these was there before"), "{}", several.why);
        }
    }

    /// What a transaction has of a table keeps out nobody but a DDL, and of two that may be in a DDL's way nobody knows which is.
    #[test]
    fn no_transaction_is_blamed_that_may_have_nothing_to_do_with_it() {
        let unread = |window: Build| {
            window.each(|_, server, _| {
                server.metadata_locks =
                    spindoctor_model::Reading::Unavailable(Unavailable::because("no plugin"));
            })
        };
        let without_ddl = pileup("10.11.19-MariaDB").sessions(|_| {
            let mut sessions = vec![session(7, "Sleep", "", ""), session(9, "Sleep", "", "")];
            sessions.extend((20..40).map(|id| session(id, "Query", WAITS, "UPDATE sbtest1 SET k = 1")));
            sessions
        });
        let two = pileup("10.11.19-MariaDB").each(|at_s, server, _| {
            let open = vec![transaction(50, "RUNNING", 59.0), transaction(7, "RUNNING", 61.0)];
            server.transactions = answer(at_s, open);
        });
        for (window, kills) in [(without_ddl, &[][..]), (two, &["KILL 8"])] {
            let finding = found(&unread(window).window());
            assert_eq!(finding.root, None, "{}", finding.headline);
            let killed = finding.remedies.iter().filter(|remedy| remedy.statement.starts_with("KILL"));
            assert_eq!(killed.map(|remedy| remedy.statement.as_str()).collect::<Vec<_>>(), kills);
        }
    }

    /// Who locked the table itself keeps it when its statement is ended, whatever that reads.
    #[test]
    fn who_locked_the_table_itself_and_is_at_work_is_ended_with_its_session() {
        let window = pileup("8.0.36")
            .sessions(|_| {
                let mut sessions = vec![session(7, "Query", "executing", "SELECT COUNT(*) FROM sbtest1")];
                sessions.extend((20..40).map(|id| session(id, "Query", WAITS, "UPDATE sbtest1 SET k = 1")));
                sessions
            })
            .each(|at_s, server, _| {
                let mut locks = vec![lock(7, "SHARED_NO_READ_WRITE", true)];
                locks.extend((20..40).map(|id| lock(id, "SHARED_WRITE", false)));
                server.metadata_locks = answer(at_s, locks);
                server.transactions = answer(at_s, Vec::new());
            });
        let finding = found(&window.window());
        let remedies: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(remedies, ["KILL 7"]);
        assert!(finding.why.contains("LOCK TABLES"), "{}", finding.why);
    }

    #[test]
    fn the_root_is_the_transaction_that_holds_the_table_and_not_the_ddl() {
        let finding = found(&fires());
        let root = finding.root.as_ref().unwrap();
        assert_eq!((root.connection_id, root.statement.as_str()), (Some(7), "idle in transaction"));
        assert_eq!(
            finding.headline,
            "Connection 7 blocks 21 sessions that want the metadata lock of sbtest.sbtest1: it is idle in transaction"
        );
        let statements: Vec<_> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(statements[..2], ["KILL 7", "KILL 8"]);
    }

    #[test]
    fn without_a_list_of_locks_the_one_older_transaction_is_named_as_most_likely() {
        let window = pileup("10.11.19-MariaDB")
            .each(|_, server, _| {
                server.metadata_locks = spindoctor_model::Reading::Unavailable(
                    Unavailable::because("no plugin").unlock("INSTALL SONAME 'metadata_lock_info'"),
                );
            })
            .window();
        let finding = found(&window);
        assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(7));
        assert!(finding.headline.contains("most likely"), "{}", finding.headline);
    }

    #[test]
    fn a_transaction_younger_than_the_wait_is_not_blamed() {
        let window = pileup("10.11.19-MariaDB")
            .each(|at_s, server, _| {
                server.metadata_locks = spindoctor_model::Reading::NotAsked;
                server.transactions = answer(at_s, vec![transaction(50, "RUNNING", 0.1)]);
            })
            .window();
        assert_eq!(found(&window).root, None);
    }

    #[test]
    fn granted_locks_alone_name_the_holder_of_the_table_that_the_waiters_name() {
        let window = pileup("10.11.19-MariaDB")
            .each(|at_s, server, _| {
                let other = MetadataLock { name: "other".into(), ..lock(50, "SHARED_WRITE", true) };
                server.metadata_locks = answer(
                    at_s,
                    vec![other, lock(8, "SHARED_UPGRADABLE", true), lock(7, "SHARED_READ", true)],
                );
            })
            .window();
        let finding = found(&window);
        assert_eq!(finding.root.as_ref().unwrap().connection_id, Some(7));
        assert!(!finding.headline.contains("likely"), "{}", finding.headline);
    }

    #[test]
    fn of_several_ddls_all_are_to_be_ended_and_none_is_said_to_free_who_stands_behind_another() {
        let window = |ddls: u64, others: u64| {
            let sessions = move |_| {
                let ddl = |id| ServerThread {
                    time_s: 90.0 - id as f64,
                    ..session(id, "Query", WAITS, "TRUNCATE sbtest1")
                };
                let other = |id| session(id, "Query", WAITS, "SELECT c FROM sbtest1");
                (20..20 + ddls).map(ddl).chain((60..60 + others).map(other)).collect()
            };
            Build::busy("8.0.36").sessions(sessions).window()
        };
        let kill = |ddls, others| {
            let remedies = found(&window(ddls, others)).remedies;
            remedies.into_iter().find(|remedy| remedy.statement.starts_with("KILL")).unwrap()
        };
        let several = kill(3, 4);
        assert_eq!(several.statement, "KILL 20; KILL 21; KILL 22");
        assert!(several.why.contains("when the last is gone"), "{}", several.why);
        assert!(kill(1, 4).why.contains("everyone queued behind it goes on at once"));
        assert_eq!(kill(1, 0).why, "It ends the DDL that waits.");
        assert_eq!(kill(20, 4).statement.matches("KILL").count(), ENDED);
    }

    #[test]
    fn a_ddl_that_waits_alone_is_a_warning() {
        let window = Build::busy("8.0.36")
            .sessions(|_| vec![session(7, "Sleep", "", ""), session(8, "Query", WAITS, "DROP TABLE sbtest1")])
            .window();
        assert_eq!(found(&window).severity, spindoctor_model::Severity::Warning);
    }
}
