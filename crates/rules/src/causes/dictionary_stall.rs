//! `dictionary-stall`: DROP or TRUNCATE holds dictionary and cache locks while a file is deleted.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Finding, Remedy, Root, TimeClass, Unavailable, Window};

use super::{metadata_lock_pileup, storage_stalled, table_cache_contention};
use crate::draft::Draft;
use crate::replica;
use crate::sessions::{at_work, mean, shortened};
use crate::stall::{HELD_UP, HELD_UP_RATIO, LATCH_WAITS, Look, Stall, nobody, stack_of};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "dictionary-stall",
    title: "DROP or TRUNCATE holds dictionary and cache locks while a file is deleted",
    what: "DROP TABLE, DROP DATABASE and TRUNCATE TABLE look instant. They write the dictionary and sync the log, \
           take the table's pages and hash entries out of the buffer pool, delete its file and, for TRUNCATE, make a \
           new one; all under the table's metadata lock. Up to 5.7 the dictionary's one mutex is held as well, MariaDB \
           holds the dictionary latch; on old servers others then waited for it with LOCK_open held.",
    why_it_hurts: "Deleting a large file takes seconds on many file systems, and a sync on a busy disk takes long \
                   too. Until then everyone who wants the table waits; where the dictionary is locked, so does \
                   everyone who opens any table, and soon the whole server. A large buffer pool is scanned for the \
                   table's pages (until 8.0.23), and its adaptive hash index cleared of them.",
    evidence: "The thread list in each sample: a session, or a replica's applier, that runs DROP or TRUNCATE and does not itself wait for a \
               lock, and sessions that have waited no longer than it has run, in `Waiting for table (schema, \
               tablespace) metadata lock`, `Opening tables`, `closing tables`, `checking permissions` or `System lock`. \
               It fires when two or more sessions on average are blocked this way, and they are 10 % or more of the sessions \
               at work. The estimate is that share. The stacks show what takes the time. Tables that are created and dropped all \
               the time give no single statement that lasts: there the stacks count, of sessions that create, drop or rename a table \
               under the dictionary's lock (up to 5.7, and MariaDB), and of those that wait for it.",
    looks_alike: "A DROP or TRUNCATE that itself waits for a metadata lock blocks others because of an old \
                  transaction: metadata-lock-pileup. Opening tables without any DDL is a small cache: \
                  table-cache-contention. Commits that wait for the same slow disk are commit-sync-bound.",
    remedies: "Take the table out of use first: RENAME TABLE t TO t_old (TRUNCATE: CREATE TABLE t_new LIKE t, then \
               RENAME TABLE t TO t_old, t_new TO t), and DROP TABLE t_old when it is quiet: nobody waits for a table \
               that nobody uses. For a very large file: a hard link to it before the DROP, so that the server only \
               takes the name away; then shrink the link step by step, and delete it. Partitions instead of mass \
               TRUNCATE. DELETE in small parts where the table is small.",
    safety: "RENAME TABLE is atomic and undone by renaming back; it needs the metadata lock for an instant. Foreign keys \
             follow the renamed table, and views and triggers want looking at. The hard link is made by the operating \
             system's user of the server, and must not be made for a file that stays in use. A running DROP cannot \
             sensibly be interrupted: KILL waits for the file too.",
    references: &[
        "Domas Mituzas, on stalls: TRUNCATE stalls the server (MySQL bugs #41158, #51325)",
        "MySQL Reference Manual: DROP TABLE, TRUNCATE TABLE, RENAME TABLE; WL#14100 (8.0.23)",
        "MariaDB: MDEV-8069 (DROP or rebuild of a large table may lock up InnoDB)",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::MetadataLock,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::TableCache,
        TimeClass::Write,
    ],
    stacks: Stacks::Standing(&[
        "row_drop_table_for_mysql",
        "row_drop_tablespace",
        "fil_delete_tablespace",
        "btr_drop_ahi_for_table",
        "buf_LRU_flush_or_remove_pages",
        "row_truncate_table_for_mysql",
        "row_mysql_lock_data_dictionary",
        "row_mysql_lock_data_dictionary_func",
        "Sql_cmd_truncate_table::execute",
        "mysql_rm_table",
        "mysql_rm_db",
    ]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What a session that is blocked says it does. All are short, or absent, on a healthy server.
const STATES: &[&str] = &[
    "waiting for table metadata lock",
    "waiting for schema metadata lock",
    "waiting for tablespace metadata lock",
    "opening tables",
    "closing tables",
    "checking permissions",
    "system lock",
];

/// What takes the lock of the whole dictionary: row0mysql.cc, up to 5.7, and MariaDB.
const LOCKS_DICTIONARY: &[&str] = &["row_mysql_lock_data_dictionary", "row_mysql_lock_data_dictionary_func"];

/// What has it meanwhile: row0mysql.cc, ha_innodb.cc.
const HAS_DICTIONARY: &[&str] = &[
    "row_drop_table_for_mysql",
    "row_truncate_table_for_mysql",
    "row_rename_table_for_mysql",
    "row_create_table_for_mysql",
    "create_table_info_t::create_table",
    "create_table_info_t::create_table_def",
];

/// Sessions of which each has the dictionary locked, or waits for who has.
const TAKE_TURNS: Look = Look { does: HAS_DICTIONARY, waits: waits_for_dictionary, waits_beside: nobody };

/// The process list has whole seconds.
const CLOCK_S: f64 = 1.0;

/// One sample's view of it.
struct Moment<'a> {
    /// The session, or the replica's applier, that drops or truncates.
    doer: &'a ServerThread,
    held_up: usize,
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    window.need(|s| &s.server.threads)?;
    let lists = window.all(|s| &s.server.threads);
    let moments: Vec<(f64, Option<Moment<'_>>)> =
        lists.iter().map(|&(at_s, threads)| (at_s, moment(threads))).collect();
    let series: Series = moments
        .iter()
        .map(|(at_s, moment)| (*at_s, moment.as_ref().map_or(0.0, |moment| moment.held_up as f64)))
        .collect();
    let held_up = mean(series.iter().map(|&(_, held_up)| held_up));
    let working = mean(lists.iter().map(|(_, threads)| at_work(threads).count() as f64));
    let ratio = (held_up / working.max(1.0)).min(1.0);
    if held_up < HELD_UP || ratio < HELD_UP_RATIO {
        // The list has answered: stacks that are missing hide no statement that lasts.
        return Ok(Stall::count(window, TAKE_TURNS)
            .ok()
            .flatten()
            .and_then(|stall| take_turns(window, &stall)));
    }
    let worst = moments.iter().filter_map(|(_, moment)| moment.as_ref()).max_by_key(|moment| moment.held_up);
    let Some(worst) = worst else { return Ok(None) };
    let doing = mean(moments.iter().map(|(_, moment)| f64::from(u8::from(moment.is_some()))));
    let statement = worst.doer.statement.as_deref().unwrap_or_default();
    let doer = worst.doer;
    let whose = if applies(doer) { " of the replica's applier" } else { "" };
    let root = Root {
        thread_os_id: doer.thread_os_id,
        connection_id: doer.connection_id,
        user: doer.user.clone(),
        statement: statement.to_owned(),
        stack: doer.thread_os_id.map(|tid| stack_of(window, tid)).unwrap_or_default(),
    };
    Ok(Some(
        Draft::new(
            &CAUSE,
            ratio,
            format!("{held_up:.1} sessions on average are blocked while {}{whose} is at work", shortened(statement)),
        )
        .why(format!(
            "DROP or TRUNCATE was at work in {:.0} % of the samples, and blocked {} sessions at the worst: it keeps its \
             locks until the files are deleted, made and synced.",
            doing * 100.0,
            worst.held_up
        ))
        .evidence(
            Evidence::new("sessions held up", held_up, "", "thread list, state")
                .expected(format!("< {HELD_UP:.0}"))
                .series(series),
        )
        .evidence(
            Evidence::new("share of the sessions at work", ratio, "ratio", "thread list")
                .expected(format!("< {HELD_UP_RATIO}")),
        )
        .evidence(Evidence::new("DROP or TRUNCATE at work", doing, "ratio", "thread list"))
        .evidence(Evidence::new("its state", worst.doer.state.clone(), "", "thread list"))
        .remedy(Remedy {
            statement: "RENAME TABLE t TO t_old, and DROP TABLE t_old when it is quiet (TRUNCATE: CREATE TABLE t_new LIKE t; \
                        RENAME TABLE t TO t_old, t_new TO t)"
                .into(),
            why: "The file of a table that nobody uses is deleted without anybody waiting.".into(),
            dynamic: true,
            risk: "RENAME TABLE needs the metadata lock for an instant. Foreign keys follow the renamed table.".into(),
            undo: "RENAME TABLE t_old TO t, as long as t_old is there".into(),
        })
        .remedy(Remedy {
            statement: "Run it off the peak, or empty the table by DELETE in small parts".into(),
            why: "What it does takes as long; fewer wait for it.".into(),
            dynamic: true,
            ..Remedy::default()
        })
        .root(Some(root))
        .explains(&[metadata_lock_pileup::CAUSE.name, table_cache_contention::CAUSE.name])
        // What is written and synced for the file that goes may be all that storage is busy with.
        .explains(if storage_stalled::hangs(window) { &[] } else { &[storage_stalled::CAUSE.name] })
        .finding(),
    ))
}

/// Sessions that make and drop tables, one after the other.
fn take_turns(window: &Window, stall: &Stall) -> Option<Finding> {
    if !stall.matters() || stall.waiting == 0.0 {
        return None;
    }
    let [held_up, share] = stall.evidence("sessions that change the dictionary, or wait for it");
    Some(
        Draft::new(
            &CAUSE,
            stall.ratio(),
            format!("{:.1} sessions on average create, drop or rename a table, or wait for their turn", stall.held_up),
        )
        .why(format!(
            "InnoDB's dictionary has one lock: of {:.1} sessions at work {:.1} waited for it, and in {:.0} % of the snapshots \
             somebody had it to make, drop or rename a table, with its file and a sync.",
            stall.at_work,
            stall.waiting,
            stall.seen_ratio * 100.0
        ))
        .evidence(held_up)
        .evidence(share)
        .remedy(Remedy {
            statement: "Make and drop fewer tables: one table that stays, with a key for who uses it, in place of a table for each job; \
                        CREATE TEMPORARY TABLE where nobody else reads it"
                .into(),
            why: "Rows are inserted and deleted by many at once, tables one at a time.".into(),
            dynamic: true,
            risk: "It is a change of the application.".into(),
            undo: String::new(),
        })
        .root(stall.root(window))
        .explains(&[metadata_lock_pileup::CAUSE.name, table_cache_contention::CAUSE.name])
        .finding(),
    )
}

/// True for a stack that waits for the dictionary's lock.
fn waits_for_dictionary(names: &[&str]) -> bool {
    let asks = names.iter().position(|name| LOCKS_DICTIONARY.contains(name));
    asks.is_some_and(|asks| names[..asks].iter().any(|name| LATCH_WAITS.contains(name)))
}

/// Who drops or truncates in this sample, and how many are blocked; none where nobody does.
fn moment(threads: &[ServerThread]) -> Option<Moment<'_>> {
    let doer = threads
        .iter()
        .filter(|thread| thread.is_at_work() || applies(thread))
        .filter(|thread| drops(thread) && !thread.state.to_ascii_lowercase().starts_with("waiting for"))
        .max_by(|a, b| a.time_s.total_cmp(&b.time_s))?;
    let held_up = at_work(threads)
        .filter(|thread| thread.connection_id != doer.connection_id)
        .filter(|thread| thread.time_s <= doer.time_s + CLOCK_S)
        .filter(|thread| STATES.contains(&thread.state.to_ascii_lowercase().as_str()))
        .count();
    Some(Moment { doer, held_up })
}

/// True for a replica's applier that has something to apply.
fn applies(thread: &ServerThread) -> bool {
    replica::is_applier(thread) && !replica::rests(thread)
}

/// True for a thread that runs a statement which deletes a table's file.
fn drops(thread: &ServerThread) -> bool {
    thread.statement.as_deref().is_some_and(spindoctor_sql::deletes_a_table)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    const WAITS: &str = "Waiting for table metadata lock";

    fn truncating(doer: &'static str, waits: &'static str) -> Build {
        Build::busy("9.7.4").sessions(move |_| {
            let mut sessions = vec![session(8, "Query", doer, "TRUNCATE TABLE sbtest1")];
            sessions
                .extend((20..40).map(|id| session(id, "Query", waits, "SELECT c FROM sbtest1 WHERE id = 1")));
            sessions.extend((40..44).map(|id| session(id, "Query", "executing", "SELECT c FROM sbtest2")));
            sessions
        })
    }

    pub(crate) fn fires() -> Window {
        truncating("checking permissions", WAITS).window()
    }

    /// The TRUNCATE itself waits for an old transaction.
    pub(crate) fn near_miss() -> Window {
        truncating(WAITS, WAITS).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    /// Each has a short statement, and none lasts: 5.7.
    #[test]
    fn tables_that_are_made_and_dropped_all_the_time_wait_for_the_dictionary() {
        use spindoctor_model::stack::ThreadState::{DiskWrite, Lock};
        let waits: &[&str] = &[
            "pthread_cond_wait",
            "os_event::wait_low",
            "sync_array_wait_event",
            "rw_lock_x_lock_func",
            "row_mysql_lock_data_dictionary_func",
            "ha_innobase::delete_table",
            "dispatch_command",
        ];
        let has: &[&str] =
            &["fsync", "fil_delete_tablespace", "row_drop_table_for_mysql", "dispatch_command"];
        let found = |waiting| {
            let sessions = |_| {
                (20..30)
                    .map(|id| session(id, "Query", "creating table", "CREATE TABLE t1 (id INT)"))
                    .collect()
            };
            let window = Build::busy("5.7.22").sessions(sessions);
            evaluate(&window.snapshots(&[(waiting, Lock, waits), (1, DiskWrite, has)]).window())
        };
        let Outcome::Fired(finding) = found(9) else { panic!() };
        assert!(finding.headline.contains("wait for their turn"), "{}", finding.headline);
        assert_eq!(found(0), Outcome::Clear);
    }

    #[test]
    fn the_session_that_truncates_is_the_root_and_explains_those_that_wait_for_the_table() {
        let diagnosis = crate::diagnose(&fires());
        let causes: Vec<_> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes, [CAUSE.name, metadata_lock_pileup::CAUSE.name]);
        assert_eq!(diagnosis.findings[0].root.as_ref().unwrap().connection_id, Some(8));
    }

    #[test]
    fn an_applier_that_drops_a_table_is_the_root_for_sessions_that_read_from_the_replica() {
        let by_applier = |state: &'static str| {
            truncating("checking permissions", WAITS).each(move |_, server, _| {
                let spindoctor_model::Reading::Available { value, .. } = &mut server.threads else { return };
                value[0] = ServerThread {
                    name: "thread/sql/replica_worker".into(),
                    user: String::new(),
                    is_connection: false,
                    state: state.into(),
                    ..value[0].clone()
                };
            })
        };
        let Outcome::Fired(finding) = evaluate(&by_applier("checking permissions").window()) else {
            panic!()
        };
        assert!(
            finding.headline.ends_with("while TRUNCATE TABLE sbtest1 of the replica's applier is at work"),
            "{}",
            finding.headline
        );
        assert_eq!(finding.root.unwrap().connection_id, Some(8));
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("KILL")));
        for rests in [WAITS, "Waiting for an event from Coordinator"] {
            assert_eq!(evaluate(&by_applier(rests).window()), Outcome::Clear, "{rests}");
        }
    }

    #[test]
    fn sessions_that_open_any_table_are_held_up_too() {
        let finding = match evaluate(&truncating("closing tables", "Opening tables").window()) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        };
        assert!(finding.headline.starts_with("20 sessions"), "{}", finding.headline);
    }

    #[test]
    fn those_who_waited_before_it_began_wait_for_somebody_else() {
        let window = truncating("checking permissions", WAITS)
            .each(|_, server, _| {
                let spindoctor_model::Reading::Available { value, .. } = &mut server.threads else { return };
                value
                    .iter_mut()
                    .filter(|thread| thread.state == WAITS)
                    .for_each(|thread| thread.time_s = 60.0);
            })
            .window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }

    #[test]
    fn an_index_that_is_dropped_deletes_no_file() {
        let thread = |statement| session(8, "Query", "", statement);
        assert!(drops(&thread("/* app */ DROP TABLE IF EXISTS t")));
        assert!(drops(&thread("truncate t")));
        assert!(!drops(&thread("DROP INDEX k ON t")));
    }
}
