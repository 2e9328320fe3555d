//! Graphs of hand-made readings: what real servers show is tested beside the lab.

use spindoctor_model::innodb_status::ListedTransaction;
use spindoctor_model::mysql::{
    LastStatement, MetadataLock, RowLockWait, ServerThread, Transaction, UserLockWait,
};
use spindoctor_model::stack::{
    Frame, Observation, ProfiledThread, SnapshotCost, Stack, StackEnd, ThreadState,
};
use spindoctor_model::wait_graph::{FutexKind, FutexWait, LockKind, WaitRoot};
use spindoctor_model::{InnodbStatus, Profile, Reading, ServerSample, ServerVersion, Unavailable, WaitGraph};

use super::{Readings, build, cycles, is_text_of_use, roots};
use crate::testing::{answer, session, transaction};

fn version(text: &str) -> Option<ServerVersion> {
    ServerVersion::parse(text, "")
}

fn graph_of(server: &ServerSample) -> WaitGraph {
    build(&Readings::of_server(version("9.7.4"), server))
}

/// The connection of each root, and how many wait directly and in all.
fn roots_of(graph: &WaitGraph) -> Vec<(Option<u64>, u32, u32)> {
    let connection = |root: &WaitRoot| root.thread.and_then(|at| graph.threads[at as usize].connection_id);
    roots(graph).iter().map(|root| (connection(root), root.waiting_directly, root.waiting_in_all)).collect()
}

fn row_wait(waiter: u64, holder: u64) -> RowLockWait {
    RowLockWait {
        waiting_connection_id: Some(waiter),
        blocking_connection_id: Some(holder),
        waiting_transaction: (waiter + 9000).to_string(),
        blocking_transaction: (holder + 9000).to_string(),
        table: "shop.stock".into(),
        index: "PRIMARY".into(),
        record: "7".into(),
        waited_s: 3.0,
        ..RowLockWait::default()
    }
}

fn table_lock(connection: u64, lock_type: &str, granted: bool) -> MetadataLock {
    MetadataLock {
        object_type: "TABLE".into(),
        schema: "shop".into(),
        name: "stock".into(),
        lock_type: lock_type.into(),
        granted,
        owner_internal_id: Some(connection + 40),
        owner_connection_id: None,
    }
}

const UPDATE: &str = "UPDATE stock SET n = 1 WHERE id = 7";
const WAITS: &str = "Waiting for table metadata lock";

fn five_for_one_row() -> ServerSample {
    let mut threads = vec![session(7, "Sleep", "", "")];
    threads.extend((20..25).map(|id| session(id, "Query", "updating", UPDATE)));
    ServerSample {
        threads: answer(0.0, threads),
        transactions: answer(0.0, vec![transaction(7, "RUNNING", 61.0)]),
        row_lock_waits: answer(0.0, (20..25).map(|waiter| row_wait(waiter, 7)).collect()),
        ..ServerSample::default()
    }
}

#[test]
fn waiters_for_a_row_wait_for_its_holder_and_not_for_each_other() {
    let mut server = five_for_one_row();
    let Reading::Available { value: waits, .. } = &mut server.row_lock_waits else { panic!() };
    waits.push(row_wait(21, 20));
    waits.push(row_wait(22, 20));
    let graph = graph_of(&server);
    assert_eq!(roots_of(&graph), [(Some(7), 5, 5)]);
    let root = &roots(&graph)[0];
    assert_eq!(
        (root.doing.as_str(), root.object.as_str()),
        ("idle in transaction", "shop.stock PRIMARY record 7")
    );
    assert_eq!((root.free_with.as_deref(), root.rows_to_roll_back), (Some("KILL 7"), Some(1)));
    assert_eq!(root.longest_wait_s, Some(3.0));
}

#[test]
fn a_root_of_amazon_s_server_is_ended_by_its_procedure() {
    let free_with = |server: &ServerSample| roots(&graph_of(server))[0].free_with.clone();
    let own = five_for_one_row();
    let mut amazons = own.clone();
    let Reading::Available { value: threads, .. } = &mut amazons.threads else { panic!() };
    threads.push(ServerThread { user: "rdsadmin".into(), ..session(3, "Sleep", "", "") });
    assert_eq!(free_with(&own).as_deref(), Some("KILL 7"));
    assert_eq!(free_with(&amazons).as_deref(), Some("CALL mysql.rds_kill(7)"));
    // A graph in which nobody waits is like any other such graph.
    amazons.row_lock_waits = answer(0.0, Vec::new());
    assert!(!graph_of(&amazons).is_amazons);
}

#[test]
fn a_waiter_that_moved_on_before_the_reading_ended_is_left_out() {
    let server = five_for_one_row();
    let mut again = server.clone();
    let Reading::Available { value: threads, .. } = &mut again.threads else { panic!() };
    // One is gone, one rests, one runs its next statement with the same text, one goes on.
    threads.retain(|thread| thread.connection_id != Some(20));
    threads[1].command = "Sleep".into();
    threads[2].statement_number = Some(12);
    threads[3].state = "waiting for handler commit".into();
    let mut numbered = server.clone();
    let Reading::Available { value: threads, .. } = &mut numbered.threads else { panic!() };
    threads[3].statement_number = Some(11);
    let graph = build(&Readings { again: Some(&again), ..Readings::of_server(None, &numbered) });
    assert_eq!((roots_of(&graph), graph.moved_on), (vec![(Some(7), 1, 1)], 4));
    assert_eq!(graph.threads.len(), 2, "{:?}", graph.threads);
}

#[test]
fn waits_that_a_bound_left_out_are_counted() {
    let mut server = five_for_one_row();
    let waiting = |id| Transaction { state: "LOCK WAIT".into(), ..transaction(id, "", 3.0) };
    server.transactions = answer(0.0, (20..30).map(waiting).collect());
    server.cut = vec!["performance_schema.data_lock_waits".into()];
    let graph = graph_of(&server);
    assert_eq!(graph.left_out, 5);
    assert!(graph.notes[0].contains("data_lock_waits"), "{:?}", graph.notes);
}

#[test]
fn where_the_lock_tables_were_not_read_the_only_transaction_old_enough_is_the_holder() {
    let printed = |id: u64, active_s, lock_waited_s: Option<f64>| ListedTransaction {
        connection_id: Some(id),
        active: true,
        active_s: Some(active_s),
        row_locks: Some(1),
        undo_entries: Some(4),
        lock_wait: lock_waited_s.is_some(),
        lock_waited_s,
        waits_for: lock_waited_s.map(|_| "shop.stock PRIMARY".to_owned()),
        ..ListedTransaction::default()
    };
    let of_listed = |mut transactions: Vec<ListedTransaction>| {
        transactions.extend((20..25).map(|id| printed(id, 9.0, Some(9.0))));
        let mut status = InnodbStatus::default();
        status.transactions.transactions = transactions;
        let missing = || Unavailable::because("900 transactions wait for row locks");
        let server = ServerSample {
            innodb_status: answer(0.0, status),
            transactions: Reading::Unavailable(missing()),
            row_lock_waits: Reading::Unavailable(missing()),
            ..five_for_one_row()
        };
        graph_of(&server)
    };
    let graph = of_listed(vec![printed(7, 61.0, None), printed(8, 1.0, None)]);
    assert_eq!(roots_of(&graph), [(Some(7), 5, 5)]);
    let root = &roots(&graph)[0];
    assert!(root.is_inferred && root.doing == "idle in transaction", "{root:?}");
    assert_eq!((root.object.as_str(), root.rows_to_roll_back), ("shop.stock PRIMARY", Some(4)));
    assert!(graph.notes[0].contains("900 transactions"), "{:?}", graph.notes);
    assert_eq!(roots_of(&of_listed(vec![printed(7, 61.0, None), printed(8, 60.0, None)])), [(None, 5, 5)]);
}

#[test]
fn without_lock_tables_and_status_the_only_old_transaction_with_rows_is_who_blocks() {
    let waits_for = |requested: &str, others: &[(u64, u64)]| {
        let waiting = (20..25).map(|id| Transaction {
            waited_s: Some(9.0),
            requested_lock: Some(requested.to_owned()),
            ..transaction(id, "LOCK WAIT", 9.0)
        });
        let others = others
            .iter()
            .map(|&(id, rows_locked)| Transaction { rows_locked, ..transaction(id, "RUNNING", 61.0) });
        let server = ServerSample {
            transactions: answer(0.0, waiting.chain(others).collect()),
            row_lock_waits: Reading::NotAsked,
            ..five_for_one_row()
        };
        roots_of(&graph_of(&server))
    };
    assert_eq!(waits_for("1407:4:5:9:1408", &[(7, 1003), (8, 0)]), [(Some(7), 5, 5)]);
    assert_eq!(waits_for("1407:4:5:9:1408", &[(7, 1003), (8, 1)]), [(None, 5, 5)]);
    assert_eq!(waits_for("1407:1045:1408", &[(7, 1003)]), [], "they wait for a table");
}

#[test]
fn a_lock_that_its_ddl_has_upgraded_is_what_is_in_the_way_where_nothing_else_is() {
    let waiters = (20..26).map(|id| session(id, "Query", WAITS, UPDATE));
    let alter =
        session(7, "Query", "copy to tmp table", "ALTER TABLE stock ENGINE = InnoDB, ALGORITHM = COPY");
    let mut locks = vec![table_lock(7, "SHARED_UPGRADABLE", true)];
    locks.extend((20..26).map(|id| table_lock(id, "SHARED_WRITE", false)));
    let server = ServerSample {
        threads: answer(0.0, waiters.chain([alter, session(8, "Sleep", "", "")]).collect()),
        metadata_locks: answer(0.0, locks.clone()),
        ..ServerSample::default()
    };
    let graph = graph_of(&server);
    assert_eq!(roots_of(&graph), [(Some(7), 6, 6)]);
    assert!(roots(&graph)[0].is_inferred);
    // A lock that is in the way by its own type is the one.
    locks.push(table_lock(8, "SHARED_NO_READ_WRITE", true));
    let server = ServerSample { metadata_locks: answer(0.0, locks), ..server };
    assert_eq!(roots_of(&graph_of(&server)), [(Some(8), 6, 6)]);
}

#[test]
fn of_old_transactions_the_one_whose_last_statement_names_the_table_is_the_holder() {
    let rests = |id, last: &str| ServerThread {
        time_s: 30.0,
        last_statement: Some(last.into()),
        ..session(id, "Sleep", "", "")
    };
    let waiter = ServerThread { time_s: 10.0, ..session(20, "Query", WAITS, "ALTER TABLE stock ADD d INT") };
    let server = ServerSample {
        threads: answer(0.0, vec![rests(6, "SELECT 1 FROM orders"), rests(7, "SELECT n FROM stock"), waiter]),
        transactions: answer(0.0, vec![transaction(6, "RUNNING", 90.0), transaction(7, "RUNNING", 30.0)]),
        metadata_locks: Reading::Unavailable(Unavailable::because("the instrument is off")),
        ..ServerSample::default()
    };
    assert_eq!(roots_of(&graph_of(&server)), [(Some(7), 1, 1)]);
}

#[test]
fn an_idle_client_is_the_root_of_the_readers_behind_the_ddl_that_waits_for_it() {
    let mut threads =
        vec![session(7, "Sleep", "", ""), session(8, "Query", WAITS, "ALTER TABLE stock ADD m INT")];
    threads.extend((20..220).map(|id| session(id, "Query", WAITS, "SELECT * FROM stock")));
    let mut locks = vec![
        table_lock(7, "SHARED_READ", true),
        table_lock(8, "SHARED_UPGRADABLE", true),
        table_lock(8, "EXCLUSIVE", false),
    ];
    locks.extend((20..220).map(|id| table_lock(id, "SHARED_READ", false)));
    let server = ServerSample {
        threads: answer(0.0, threads),
        transactions: answer(0.0, vec![transaction(7, "RUNNING", 61.0)]),
        metadata_locks: answer(0.0, locks),
        ..ServerSample::default()
    };
    let graph = graph_of(&server);
    assert_eq!(roots_of(&graph), [(Some(7), 1, 201)]);
    assert!(graph.edges.iter().all(|edge| !edge.is_inferred && edge.kind == LockKind::Metadata));
}

#[test]
fn a_holder_at_a_statement_in_no_state_is_not_idle_and_its_commit_or_rollback_is_left_alone() {
    let of = |holder: ServerThread| {
        let alter = session(20, "Query", WAITS, "ALTER TABLE stock ADD m INT");
        let locks = vec![table_lock(7, "SHARED_WRITE", true), table_lock(20, "EXCLUSIVE", false)];
        let server = ServerSample {
            threads: answer(0.0, vec![holder, alter]),
            metadata_locks: answer(0.0, locks),
            ..ServerSample::default()
        };
        let root = roots(&graph_of(&server)).remove(0);
        (root.doing, root.free_with)
    };
    let at_work = || "running its statement".to_owned();
    for ends_by_itself in
        ["COMMIT", "ROLLBACK", "XA COMMIT 'a'", "OPTIMIZE TABLE stock", "REPAIR TABLE stock"]
    {
        assert_eq!(of(session(7, "Query", "", ends_by_itself)), (at_work(), None), "{ends_by_itself}");
    }
    assert_eq!(of(session(7, "Execute", "", UPDATE)), (at_work(), Some("KILL QUERY 7".to_owned())));
    let idle = ("idle, holding tables".to_owned(), Some("KILL 7".to_owned()));
    assert_eq!(of(session(7, "Sleep", "", "")), idle);
}

#[test]
fn a_holder_that_waits_for_a_row_leads_on_to_that_rows_holder() {
    let mut server = five_for_one_row();
    let Reading::Available { value: threads, .. } = &mut server.threads else { panic!() };
    threads.push(session(30, "Query", WAITS, "DROP TABLE stock"));
    server.metadata_locks =
        answer(0.0, vec![table_lock(20, "SHARED_WRITE", true), table_lock(30, "EXCLUSIVE", false)]);
    assert_eq!(roots_of(&graph_of(&server)), [(Some(7), 5, 6)]);
}

#[test]
fn a_list_that_cannot_be_read_leaves_a_note_that_says_what_would_unlock_it() {
    let server = ServerSample {
        threads: answer(0.0, vec![session(8, "Query", WAITS, "ALTER TABLE stock ADD m INT")]),
        metadata_locks: Reading::Unavailable(
            Unavailable::because("no plugin").unlock("INSTALL SONAME 'metadata_lock_info'"),
        ),
        ..ServerSample::default()
    };
    let graph = graph_of(&server);
    assert_eq!(roots_of(&graph), [(None, 1, 1)]);
    assert!(graph.notes[0].ends_with("INSTALL SONAME 'metadata_lock_info'"), "{:?}", graph.notes);
}

#[test]
fn a_user_lock_that_only_its_holder_is_listed_for_is_found_by_its_name() {
    let lock = |connection, name: &str| MetadataLock {
        object_type: "USER LEVEL LOCK".into(),
        schema: name.into(),
        granted: true,
        owner_connection_id: Some(connection),
        ..MetadataLock::default()
    };
    let server = ServerSample {
        threads: answer(
            0.0,
            vec![
                session(7, "Sleep", "", ""),
                session(8, "Sleep", "", ""),
                session(20, "Query", "User lock", "SELECT GET_LOCK('nightly', 600)"),
            ],
        ),
        metadata_locks: answer(0.0, vec![lock(7, "nightly"), lock(8, "hourly")]),
        ..ServerSample::default()
    };
    let graph = graph_of(&server);
    assert_eq!(roots_of(&graph), [(Some(7), 1, 1)]);
    let root = &roots(&graph)[0];
    assert_eq!((root.kind, root.object.as_str()), (LockKind::User, "user lock 'nightly'"));
    assert_eq!((root.doing.as_str(), root.is_inferred), ("idle, holding a user lock", true));
}

#[test]
fn without_a_list_of_locks_the_last_statement_of_who_rests_names_the_holder() {
    let rests = |id, time_s, last: &str| ServerThread {
        time_s,
        last_statement: Some(last.into()),
        ..session(id, "Sleep", "", "")
    };
    let of = |resting: Vec<ServerThread>, state: &str, statement: &str, locks| {
        let waiter = ServerThread { time_s: 10.0, ..session(20, "Query", state, statement) };
        let threads = resting.into_iter().chain([waiter]).collect();
        let server =
            ServerSample { threads: answer(0.0, threads), metadata_locks: locks, ..ServerSample::default() };
        roots_of(&graph_of(&server))
    };
    let unread = || Reading::Unavailable(Unavailable::because("the instrument is off"));
    let flushed = || vec![rests(6, 99.0, "UNLOCK TABLES"), rests(7, 10.0, "flush tables with read lock")];
    const GLOBAL: &str = "Waiting for global read lock";
    const UPDATE: &str = "UPDATE stock SET n = 1";
    assert_eq!(of(flushed(), GLOBAL, UPDATE, unread()), [(Some(7), 1, 1)]);
    // `doctor` reads the last statements apart from the threads, where somebody waits so.
    let apart = |last: &str| {
        let threads = vec![
            ServerThread { time_s: 90.0, ..session(6, "Sleep", "", "") },
            ServerThread { time_s: 20.0, ..session(7, "Sleep", "", "") },
            ServerThread { time_s: 10.0, ..session(20, "Query", GLOBAL, UPDATE) },
        ];
        let of = |id, statement: &str| LastStatement {
            connection_id: Some(id),
            statement: statement.into(),
            ..LastStatement::default()
        };
        let server = ServerSample {
            threads: answer(0.0, threads),
            metadata_locks: unread(),
            last_statements: answer(0.0, vec![of(6, "COMMIT"), of(7, last)]),
            ..ServerSample::default()
        };
        roots_of(&graph_of(&server))
    };
    assert_eq!(apart("FLUSH TABLES WITH READ LOCK"), [(Some(7), 1, 1)]);
    assert_eq!(apart("SELECT 1"), [(None, 1, 1)]);
    // A list that was read decides; and who rests for less than the waiter waits has not taken it.
    assert_eq!(of(flushed(), GLOBAL, UPDATE, answer(0.0, Vec::new())), [(None, 1, 1)]);
    assert_eq!(of(vec![rests(7, 2.0, "FLUSH TABLES")], GLOBAL, UPDATE, unread()), [(None, 1, 1)]);
    let locked = || {
        vec![
            rests(6, 90.0, "SELECT GET_LOCK('hourly', 9)"),
            rests(7, 20.0, "SELECT GET_LOCK('nightly', 600)"),
        ]
    };
    assert_eq!(of(locked(), "User lock", "DO GET_LOCK(\"nightly\", 5)", unread()), [(Some(7), 1, 1)]);
    assert_eq!(of(locked(), "User lock", "DO GET_LOCK(?, 5)", unread()), [(None, 1, 1)]);
    // Who locked the table by LOCK TABLES has it until it says UNLOCK TABLES or ends.
    let table =
        || vec![rests(6, 90.0, "LOCK TABLES orders WRITE"), rests(7, 20.0, "LOCK TABLES stock WRITE")];
    assert_eq!(of(table(), WAITS, UPDATE, unread()), [(Some(7), 1, 1)]);
    assert_eq!(of(vec![rests(7, 20.0, "UNLOCK TABLES")], WAITS, UPDATE, unread()), [(None, 1, 1)]);
}

#[test]
fn a_chain_of_user_locks_leads_to_the_first_holder_where_the_server_names_who_has_each() {
    let waits = |waiting_connection_id, blocking_connection_id, name: &str| UserLockWait {
        waiting_connection_id,
        blocking_connection_id,
        name: name.into(),
    };
    let rests = |id| ServerThread { time_s: 90.0, ..session(id, "Sleep", "", "") };
    let wants = |id| session(id, "Query", "User lock", "SELECT GET_LOCK('a', 600)");
    let server = ServerSample {
        threads: answer(0.0, vec![rests(5), rests(6), rests(7), wants(20), wants(21), wants(22)]),
        metadata_locks: Reading::Unavailable(Unavailable::because("the plugin is not there")),
        user_lock_waits: answer(0.0, vec![waits(20, 6, "outer"), waits(21, 20, "inner")]),
        ..ServerSample::default()
    };
    let graph = graph_of(&server);
    // The third asks for a name that is not known: whom it waits for stays open.
    assert_eq!(roots_of(&graph), [(Some(6), 1, 2), (None, 1, 1)]);
    let named: Vec<(&str, bool)> =
        graph.edges.iter().map(|edge| (edge.object.as_str(), edge.is_inferred)).collect();
    assert_eq!(named, [("user lock 'outer'", false), ("user lock 'inner'", false), ("a user lock", true)]);
}

/// A snapshot of threads, each with its state and frames, innermost first.
fn profile(threads: &[(u32, ThreadState, &[&str])]) -> Profile {
    let mut profile = Profile { snapshots: vec![SnapshotCost::default()], ..Profile::default() };
    for (at, (tid, state, frames)) in (0..).zip(threads) {
        let first = u32::try_from(profile.frames.len()).unwrap();
        profile.threads.push(ProfiledThread {
            tid: *tid,
            name: "connection".into(),
            ..ProfiledThread::default()
        });
        profile.frames.extend(frames.iter().map(|name| Frame { name: (*name).into(), ..Frame::default() }));
        let last = u32::try_from(profile.frames.len()).unwrap();
        profile.stacks.push(Stack { frames: (first..last).collect(), end: StackEnd::Root });
        profile.observations.push(Observation {
            thread: at,
            stack: at,
            state: *state,
            ..Observation::default()
        });
    }
    profile
}

fn of_stacks(profile: &Profile, futex_waits: &[FutexWait]) -> WaitGraph {
    let server = ServerSample {
        threads: answer(
            0.0,
            (20..23).map(|id| session(id, "Query", "waiting for handler commit", "COMMIT")).collect(),
        ),
        ..ServerSample::default()
    };
    let profile = Profile { futex_waits: futex_waits.to_vec(), ..profile.clone() };
    build(&Readings { profile: Some(&profile), ..Readings::of_server(None, &server) })
}

#[test]
fn commits_wait_for_the_thread_of_the_log_that_syncs() {
    let waiting: &[&str] = &["futex", "os_event::wait_low", "log_write_up_to", "innobase_commit"];
    let mut stacks = profile(&[
        (4020, ThreadState::Condition, waiting),
        (4021, ThreadState::Condition, waiting),
        (4310, ThreadState::Sync, &["fsync", "os_file_flush_func", "log_flusher"]),
        (4311, ThreadState::Condition, &["futex", "log_writer"]),
    ]);
    stacks.threads[1].off_cpu_us = Some(80_000);
    let graph = of_stacks(&stacks, &[]);
    assert_eq!(roots(&graph)[0].longest_wait_s, Some(0.08));
    let root = &roots(&graph)[0];
    assert_eq!((root.kind, root.waiting_in_all, root.is_inferred), (LockKind::CommitQueue, 2, true));
    assert_eq!((root.doing.as_str(), root.free_with.as_ref()), ("syncing a file (fsync)", None));
    assert_eq!(graph.threads[root.thread.unwrap() as usize].thread_os_id, Some(4310));
}

#[test]
fn threads_of_a_log_that_wait_for_work_hold_nobody_up() {
    let waiting: &[&str] = &["futex", "os_event::wait_low", "log_write_up_to"];
    let graph = of_stacks(
        &profile(&[
            (4020, ThreadState::Condition, waiting),
            (4310, ThreadState::Condition, &["futex", "log_flusher"]),
        ]),
        &[],
    );
    assert!(graph.edges.is_empty(), "{graph:?}");
}

#[test]
fn a_ticket_is_held_by_nobody_in_particular() {
    let graph = of_stacks(&profile(&[(4020, ThreadState::Lock, &["futex", "srv_conc_enter_innodb"])]), &[]);
    assert_eq!(roots(&graph)[0].kind, LockKind::Ticket);
    assert_eq!(roots_of(&graph), [(None, 1, 1)]);
}

#[test]
fn a_mutex_is_held_by_its_owner_even_where_that_one_has_ended() {
    let wait = |thread_os_id, owner_os_id, owner_has_ended| FutexWait {
        thread_os_id,
        futex: 0x7f00,
        lock: 0x7f00,
        kind: FutexKind::Mutex,
        owner_os_id: Some(owner_os_id),
        owner_has_ended,
        asked_by: "Fil_shard::open_file".into(),
        ..FutexWait::default()
    };
    let stacks = profile(&[(4022, ThreadState::DiskRead, &["pread64", "os_file_pread"])]);
    let graph = of_stacks(&stacks, &[wait(4020, 4022, false), wait(4021, 5000, true)]);
    let roots = roots(&graph);
    assert_eq!(roots_of(&graph), [(Some(22), 1, 1), (None, 1, 1)]);
    assert_eq!(roots[0].doing, "reading a file");
    assert_eq!(
        (roots[0].object.as_str(), graph.edges[0].wanted_in.as_str()),
        ("mutex 0x7f00", "Fil_shard::open_file")
    );
    assert_eq!(roots[1].doing, "ended while it held the lock");
    let passed_on = FutexWait { asked_by: "psi_mutex_lock".into(), ..wait(4022, 4020, false) };
    let frames: &[&str] = &["futex_wait", "psi_mutex_lock", "mariadbd+0x694787", "MYSQL_BIN_LOG::rotate"];
    let waiting = profile(&[(4022, ThreadState::Lock, frames)]);
    assert_eq!(of_stacks(&waiting, &[passed_on]).edges[0].wanted_in, "MYSQL_BIN_LOG::rotate");
    let condition = FutexWait { kind: FutexKind::Condition, owner_os_id: None, ..wait(4020, 0, false) };
    assert!(of_stacks(&stacks, &[condition]).edges.is_empty(), "nobody holds a condition variable");
}

#[test]
fn those_who_wait_for_one_lock_that_nobody_is_seen_to_hold_wait_for_the_same_owner() {
    let wait = |thread_os_id, futex, asked_by: &str| FutexWait {
        thread_os_id,
        futex,
        lock: 0x7f00,
        kind: FutexKind::RwLock,
        readers: 3,
        asked_by: asked_by.into(),
        ..FutexWait::default()
    };
    let graph =
        of_stacks(&profile(&[]), &[wait(4020, 0x7f08, "acl_check"), wait(4021, 0x7f0c, "acl_reload")]);
    assert_eq!(roots_of(&graph), [(None, 2, 2)]);
    assert_eq!(roots(&graph)[0].object, "rw-lock 0x7f00, held by 3 readers");
}

#[test]
fn a_thread_that_takes_a_mutex_again_which_it_holds_waits_for_itself() {
    let wait = FutexWait {
        thread_os_id: 4020,
        futex: 0x7f00,
        lock: 0x7f00,
        kind: FutexKind::Mutex,
        owner_os_id: Some(4020),
        ..FutexWait::default()
    };
    let graph = of_stacks(&profile(&[]), &[wait]);
    assert_eq!(cycles(&graph), [vec![0]]);
    assert_eq!(roots_of(&graph), []);
}

#[test]
fn appliers_that_wait_for_their_turn_wait_for_the_one_at_work() {
    let worker = |id, state: &str| ServerThread {
        name: "thread/sql/replica_worker".into(),
        user: "system user".into(),
        is_connection: false,
        ..session(id, "Query", state, "")
    };
    let server = ServerSample {
        threads: answer(
            0.0,
            vec![
                worker(5, "Applying batch of row changes (update)"),
                worker(6, "Waiting for preceding transaction to commit"),
                worker(7, "Waiting for preceding transaction to commit"),
                worker(8, "Waiting for an event from Coordinator"),
            ],
        ),
        ..ServerSample::default()
    };
    let graph = graph_of(&server);
    assert_eq!(roots_of(&graph), [(Some(5), 2, 2)]);
    let root = &roots(&graph)[0];
    assert_eq!((root.kind, root.free_with.as_ref()), (LockKind::CommitOrder, None));
}

/// As MariaDB lists them: `system user` has them all.
#[test]
fn threads_of_innodb_and_of_a_cluster_are_no_appliers_at_work() {
    let thread = |id, command: &str, state: &str, time_s| ServerThread {
        name: String::new(),
        user: "system user".into(),
        is_connection: false,
        time_s,
        ..session(id, command, state, "")
    };
    let threads = vec![
        thread(1, "Daemon", "InnoDB purge worker", 900.0),
        thread(2, "Sleep", "wsrep applier idle", 90_000.0),
        thread(5, "Slave_worker", "Update_rows_log_event::ha_update_row(-1)", 4.0),
        thread(6, "Slave_worker", "Waiting for prior transaction to commit", 3.0),
        thread(7, "Slave_worker", "Waiting for prior transaction to commit", 3.0),
    ];
    let server = ServerSample { threads: answer(0.0, threads), ..ServerSample::default() };
    assert_eq!(roots_of(&graph_of(&server)), [(Some(5), 2, 2)]);
}

#[test]
fn where_nobody_lists_locks_who_wants_a_table_without_a_schema_may_want_it_of_any() {
    let of = |resting: &[(u64, &str)]| {
        let rests = |&(id, schema): &(u64, &str)| ServerThread {
            time_s: 9.0,
            schema: schema.into(),
            ..session(id, "Sleep", "", "")
        };
        let applier = ServerThread {
            time_s: 8.0,
            is_connection: false,
            user: "system user".into(),
            ..session(20, "Slave_SQL", WAITS, "")
        };
        let threads = resting.iter().map(rests).chain([applier]).collect();
        roots_of(&graph_of(&ServerSample { threads: answer(0.0, threads), ..ServerSample::default() }))
    };
    assert_eq!(of(&[(7, "shop")]), [(Some(7), 1, 1)]);
    // An idle login without a schema is one of two.
    assert_eq!(of(&[(4, ""), (7, "shop")]), [(None, 1, 1)]);
}

#[test]
fn nobody_waits_is_an_empty_graph() {
    let server = ServerSample {
        threads: answer(0.0, (20..40).map(|id| session(id, "Query", "executing", "SELECT 1")).collect()),
        ..ServerSample::default()
    };
    assert_eq!(graph_of(&server), WaitGraph::default());
}

#[test]
fn the_text_of_innodb_is_asked_for_unless_the_stacks_show_that_nobody_waits_for_a_latch() {
    let nothing = ServerSample::default();
    assert!(is_text_of_use(&nothing, None));

    let master: (u32, ThreadState, &[&str]) = (1, ThreadState::Sleep, &["nanosleep", "srv_master_thread"]);
    let latch: &[&str] = &["os_event_wait_low", "sync_array_wait_event", "rw_lock_s_lock_spin"];
    assert!(!is_text_of_use(&nothing, Some(&profile(&[master]))));
    assert!(is_text_of_use(&nothing, Some(&profile(&[master, (2, ThreadState::Lock, latch)]))));
    // Nothing in InnoDB has a name here.
    let nameless: &[&str] = &["mysqld+0x10"];
    assert!(is_text_of_use(&nothing, Some(&profile(&[(1, ThreadState::Sleep, nameless)]))));

    // A wait whose place was not looked up.
    let wait = RowLockWait::default();
    let server = ServerSample { row_lock_waits: answer(0.0, vec![wait]), ..ServerSample::default() };
    assert!(is_text_of_use(&server, Some(&profile(&[master]))));

    // Nobody could read who holds rows, and a transaction waits for one.
    let unread = |state| ServerSample {
        transactions: answer(0.0, vec![transaction(30, state, 5.0)]),
        row_lock_waits: Reading::Unavailable(Unavailable::because("performance_schema is off")),
        ..ServerSample::default()
    };
    assert!(is_text_of_use(&unread("LOCK WAIT"), Some(&profile(&[master]))));
    assert!(!is_text_of_use(&unread("RUNNING"), Some(&profile(&[master]))));
}
