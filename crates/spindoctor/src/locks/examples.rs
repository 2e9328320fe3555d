//! Snapshots of servers, made by hand, for the tests of every format.

use spindoctor_model::WaitGraph;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::wait_graph::{LockKind, WaitEdge, WaitRoot, WaitTransaction, WaitingThread};

use super::waits::Locks;
use spindoctor_profile::WaitedLatch;

/// Every one of them, with its name.
pub fn all() -> Vec<(&'static str, Locks)> {
    vec![
        ("nobody", nobody()),
        ("busy", busy()),
        ("chain", chain()),
        ("row pile-up", row_pileup()),
        ("two roots", two_roots()),
        ("mutexes", mutexes()),
        ("latches", latches()),
        ("ring", ring()),
        ("many kinds", many_kinds()),
        ("deep", deep()),
        ("hostile", hostile()),
    ]
}

fn look(threads: Vec<WaitingThread>, edges: Vec<WaitEdge>) -> Locks {
    Locks {
        server: "MySQL 9.7.4 on db17".to_owned(),
        pid: Some(4310),
        at: "2026-07-01T09:30:00Z".parse().expect("a time that is written here"),
        graph: WaitGraph { threads, edges, ..WaitGraph::default() },
        threads_seen: Some(287),
        took_ms: 12.4,
        server_queries: 6,
        server_ms: 3.1,
        ..Locks::default()
    }
}

fn connection(id: u64, user: &str, statement: &str) -> WaitingThread {
    WaitingThread {
        thread_os_id: Some(4_300 + id),
        connection_id: Some(id),
        name: "connection".to_owned(),
        user: user.to_owned(),
        host: "10.0.3.7".to_owned(),
        statement: Some(statement.to_owned()),
        ..WaitingThread::default()
    }
}

fn idle_in_transaction(id: u64) -> WaitingThread {
    WaitingThread {
        is_idle_in_transaction: true,
        since_s: Some(61.0),
        transaction: Some(WaitTransaction {
            age_s: 74.0,
            rows_modified: 3,
            rows_locked: 5,
            ..WaitTransaction::default()
        }),
        state: Some(ThreadState::NetworkIdle),
        stack: ["poll", "vio_io_wait", "vio_socket_io_wait", "vio_read", "net_read_raw_loop", "my_net_read"]
            .map(str::to_owned)
            .to_vec(),
        ..connection(id, "app", "UPDATE sbtest1 SET k = k + 1 WHERE id = 5")
    }
}

fn background(tid: u64, name: &str, stack: &[&str]) -> WaitingThread {
    WaitingThread {
        thread_os_id: Some(tid),
        name: name.to_owned(),
        state: Some(ThreadState::Sync),
        since_s: Some(4.2),
        stack: stack.iter().map(|frame| (*frame).to_owned()).collect(),
        ..WaitingThread::default()
    }
}

fn edge(
    waiter: u32,
    holder: Option<u32>,
    kind: LockKind,
    object: &str,
    mode: &str,
    waited_s: f64,
) -> WaitEdge {
    WaitEdge {
        waiter,
        holder,
        kind,
        object: object.to_owned(),
        mode: mode.to_owned(),
        wanted_in: String::new(),
        waited_s: Some(waited_s),
        is_inferred: false,
    }
}

/// A server on which nobody waits.
pub fn nobody() -> Locks {
    look(Vec::new(), Vec::new())
}

/// The row pile-up of a server whose threads sleep for seven latches, too.
pub fn latches() -> Locks {
    let latch = |latch: &str, taken_in: &str, threads: f64| WaitedLatch {
        latch: latch.to_owned(),
        event: None,
        taken_in: taken_in.to_owned(),
        threads_asleep: Some(threads),
        cpus_spinning: None,
    };
    let mut locks = row_pileup();
    locks.latches = vec![
        latch("rollback segment", "trx_undo_assign_undo", 41.0),
        latch("lock_print_info_all_transactions", "lock_print_info_all_transactions", 7.0),
    ];
    locks.latches.extend((2..7).map(|at| latch(&format!("latch {at}"), &format!("latch {at}"), 3.0)));
    locks
}

/// A healthy busy server: three short waits, two of them over before the look was.
pub fn busy() -> Locks {
    const ROW: &str = "sbtest.sbtest3 PRIMARY record 5021";
    const QUEUE: &str = "binary log group commit";
    let mut locks = look(
        vec![
            connection(31, "sbtest", "UPDATE sbtest3 SET k=k+1 WHERE id=5021"),
            connection(64, "sbtest", "UPDATE sbtest3 SET c='01' WHERE id=5021"),
            connection(7, "sbtest", "COMMIT"),
            connection(8, "sbtest", "COMMIT"),
            connection(9, "sbtest", "COMMIT"),
        ],
        vec![
            edge(1, Some(0), LockKind::Row, ROW, "X,REC_NOT_GAP", 0.004),
            WaitEdge { waited_s: None, ..edge(3, Some(2), LockKind::CommitQueue, QUEUE, "", 0.0) },
            WaitEdge { waited_s: None, ..edge(4, Some(2), LockKind::CommitQueue, QUEUE, "", 0.0) },
        ],
    );
    for thread in &mut locks.graph.threads {
        thread.since_s = Some(0.0);
    }
    locks.graph.moved_on = 2;
    locks.roots = vec![
        WaitRoot {
            thread: Some(2),
            kind: LockKind::CommitQueue,
            object: QUEUE.to_owned(),
            doing: "syncing a file (fsync)".to_owned(),
            waiting_directly: 2,
            waiting_in_all: 2,
            ..WaitRoot::default()
        },
        WaitRoot {
            thread: Some(0),
            kind: LockKind::Row,
            object: ROW.to_owned(),
            doing: "running on a CPU".to_owned(),
            waiting_directly: 1,
            waiting_in_all: 1,
            longest_wait_s: Some(0.004),
            free_with: Some("KILL QUERY 31".to_owned()),
            rows_to_roll_back: Some(1),
            ..WaitRoot::default()
        },
    ];
    locks
}

/// Forty commits wait for the one that syncs, their statements that old.
pub fn group_commit(since_s: Option<f64>) -> Locks {
    const QUEUE: &str = "binary log group commit";
    let commit = |id| WaitingThread { since_s, ..connection(id, "app", "COMMIT") };
    let waits = (1..=40).map(|waiter| WaitEdge {
        waited_s: None,
        is_inferred: true,
        ..edge(waiter, Some(0), LockKind::CommitQueue, QUEUE, "", 0.0)
    });
    let mut locks = look((0..=40).map(commit).collect(), waits.collect());
    locks.roots = vec![WaitRoot {
        thread: Some(0),
        kind: LockKind::CommitQueue,
        object: QUEUE.to_owned(),
        doing: "syncing a file (fsync)".to_owned(),
        waiting_directly: 40,
        waiting_in_all: 40,
        is_inferred: true,
        ..WaitRoot::default()
    }];
    locks
}

/// A client that is idle in its transaction blocks an ALTER, which blocks 200 readers.
pub fn chain() -> Locks {
    const TABLE: &str = "sbtest.sbtest1";
    let mut threads = vec![
        idle_in_transaction(12),
        connection(
            44,
            "admin",
            "ALTER TABLE sbtest1 ADD COLUMN note VARCHAR(200) NOT NULL DEFAULT '', ALGORITHM=INPLACE",
        ),
    ];
    let mut edges = vec![edge(1, Some(0), LockKind::Metadata, TABLE, "EXCLUSIVE", 61.4)];
    for at in 0_u32..200 {
        let statement = format!("SELECT c FROM sbtest1 WHERE id = {}", 17 * at + 3);
        threads.push(connection(100 + u64::from(at), "app", &statement));
        edges.push(edge(
            at + 2,
            Some(1),
            LockKind::Metadata,
            TABLE,
            "SHARED_READ",
            61.2 - 0.3 * f64::from(at),
        ));
    }
    let mut locks = look(threads, edges);
    locks.roots = vec![WaitRoot {
        thread: Some(0),
        kind: LockKind::Metadata,
        object: TABLE.to_owned(),
        doing: "idle in transaction".to_owned(),
        waiting_directly: 1,
        waiting_in_all: 201,
        longest_wait_s: Some(61.4),
        free_with: Some("KILL 12".to_owned()),
        rows_to_roll_back: Some(3),
        free_note: "its connection ends; 3 changed rows are rolled back".to_owned(),
        ..WaitRoot::default()
    }];
    locks
}

/// 500 transactions want one row; each waits for all those before it.
pub fn row_pileup() -> Locks {
    const ROW: &str = "sbtest.sbtest1 PRIMARY record 5";
    let mut threads = vec![idle_in_transaction(12)];
    let mut edges = Vec::new();
    for at in 1_u32..=500 {
        threads.push(connection(
            100 + u64::from(at),
            "app",
            &format!("UPDATE sbtest1 SET k = k + {at} WHERE id = 5"),
        ));
        let waited_s = 50.0 - 0.1 * f64::from(at);
        edges.push(edge(at, Some(0), LockKind::Row, ROW, "X,REC_NOT_GAP", waited_s));
        if at > 1 {
            edges.push(edge(at, Some(at - 1), LockKind::Row, ROW, "X,REC_NOT_GAP", waited_s));
        }
    }
    let mut locks = look(threads, edges);
    locks.graph.left_out = 124_750;
    locks.roots = vec![WaitRoot {
        thread: Some(0),
        kind: LockKind::Row,
        object: ROW.to_owned(),
        doing: "idle in transaction".to_owned(),
        waiting_directly: 500,
        waiting_in_all: 500,
        longest_wait_s: Some(49.9),
        free_with: Some("KILL 12".to_owned()),
        rows_to_roll_back: Some(3),
        free_note: "its connection ends; 3 changed rows are rolled back".to_owned(),
        ..WaitRoot::default()
    }];
    locks
}

/// Two readers hold a row that a writer wants.
pub fn two_roots() -> Locks {
    const ROW: &str = "shop.stock PRIMARY record 'A-17'";
    let mut second = idle_in_transaction(13);
    second.user = "report".to_owned();
    second.statement = Some("SELECT amount FROM stock WHERE id = 'A-17' FOR SHARE".to_owned());
    second.transaction = Some(WaitTransaction { age_s: 12.0, rows_locked: 1, ..WaitTransaction::default() });
    let mut locks = look(
        vec![
            idle_in_transaction(12),
            second,
            connection(40, "app", "UPDATE stock SET amount = amount - 1 WHERE id = 'A-17'"),
            connection(41, "app", "SELECT amount FROM stock WHERE id = 'A-17' FOR SHARE"),
        ],
        vec![
            edge(2, Some(0), LockKind::Row, ROW, "X,REC_NOT_GAP", 9.1),
            edge(2, Some(1), LockKind::Row, ROW, "X,REC_NOT_GAP", 9.1),
            edge(3, Some(2), LockKind::Row, ROW, "S,REC_NOT_GAP", 4.0),
        ],
    );
    let root = |thread, rows| WaitRoot {
        thread: Some(thread),
        kind: LockKind::Row,
        object: ROW.to_owned(),
        doing: "idle in transaction".to_owned(),
        waiting_directly: 1,
        waiting_in_all: 2,
        longest_wait_s: Some(9.1),
        free_with: Some(format!("KILL {}", 12 + thread)),
        rows_to_roll_back: Some(rows),
        free_note: format!("its connection ends; {rows} changed rows are rolled back"),
        ..WaitRoot::default()
    };
    locks.roots = vec![root(0, 3), root(1, 0)];
    locks
}

/// A mutex convoy behind a thread of the server, one mutex whose owner ended, and one whose owner is not visible.
pub fn mutexes() -> Locks {
    const DICTIONARY: &str = "the data dictionary of InnoDB";
    const MUTEX: &str = "mutex 0x7f20c40012a8";
    let mut threads = vec![
        background(
            4_322,
            "ib_clone_gtid",
            &[
                "fsync",
                "os_file_fsync_posix",
                "os_file_flush_func",
                "fil_delete_tablespace",
                "row_drop_table_for_mysql",
            ],
        ),
        WaitingThread { has_ended: true, thread_os_id: Some(4_999), ..WaitingThread::default() },
    ];
    let mut edges = Vec::new();
    for at in 0_u32..40 {
        let place = u32::try_from(threads.len()).expect("few threads");
        threads.push(connection(
            200 + u64::from(at),
            "app",
            "SELECT * FROM orders, items WHERE orders.id = items.order_id",
        ));
        let (holder, kind, object) = match at {
            0..28 => (Some(0), LockKind::Dictionary, DICTIONARY),
            28..34 => (Some(1), LockKind::Mutex, MUTEX),
            _ => (None, LockKind::Latch, "fil_system rw-lock (fil0fil.cc:3301)"),
        };
        edges.push(WaitEdge {
            waited_s: (at % 2 == 0).then_some(f64::from(at) * 0.2),
            is_inferred: at < 28,
            wanted_in: if kind == LockKind::Mutex { "audit_log_notify".to_owned() } else { String::new() },
            ..edge(place, holder, kind, object, "", 0.0)
        });
    }
    let mut locks = look(threads, edges);
    locks.graph.notes = vec![
        "row locks were not read: SELECT on performance_schema.data_lock_waits is missing; \
         GRANT SELECT ON performance_schema.* TO 'spindoctor'@'localhost'"
            .to_owned(),
    ];
    locks.roots = vec![
        WaitRoot {
            thread: Some(0),
            kind: LockKind::Dictionary,
            object: DICTIONARY.to_owned(),
            doing: "deleting a file".to_owned(),
            waiting_directly: 28,
            waiting_in_all: 28,
            longest_wait_s: Some(5.2),
            free_note: "a thread of the server itself: it cannot be killed".to_owned(),
            ..WaitRoot::default()
        },
        WaitRoot {
            thread: Some(1),
            kind: LockKind::Mutex,
            object: MUTEX.to_owned(),
            doing: "ended while it held the lock".to_owned(),
            waiting_directly: 6,
            waiting_in_all: 6,
            longest_wait_s: Some(6.6),
            ..WaitRoot::default()
        },
    ];
    locks
}

/// Two transactions wait for each other, with deadlock detection off, and three others for one of them.
pub fn ring() -> Locks {
    const ROW: &str = "sbtest.sbtest1 PRIMARY record";
    let threads = (0..5)
        .map(|at| connection(12 + at, "app", &format!("UPDATE sbtest1 SET k = 0 WHERE id = {at}")))
        .collect();
    let mut locks = look(
        threads,
        vec![
            edge(0, Some(1), LockKind::Row, &format!("{ROW} 1"), "X,REC_NOT_GAP", 12.0),
            edge(1, Some(0), LockKind::Row, &format!("{ROW} 2"), "X,REC_NOT_GAP", 11.0),
            edge(2, Some(0), LockKind::Row, &format!("{ROW} 2"), "X,REC_NOT_GAP", 9.0),
            edge(3, Some(0), LockKind::Row, &format!("{ROW} 2"), "X,REC_NOT_GAP", 8.0),
            edge(4, Some(0), LockKind::Row, &format!("{ROW} 2"), "X,REC_NOT_GAP", 7.0),
        ],
    );
    locks.cycles = vec![vec![0, 1]];
    locks
}

/// A backup holds the global read lock; behind it wait statements of many kinds, and more behind those.
pub fn many_kinds() -> Locks {
    let kinds = [
        (LockKind::Global, "global read lock", "INTENTION_EXCLUSIVE", "INSERT INTO events VALUES (1, 'x')"),
        (LockKind::Global, "commit lock", "INTENTION_EXCLUSIVE", "COMMIT"),
        (LockKind::Metadata, "shop.orders", "SHARED_WRITE", "UPDATE orders SET state = 'paid' WHERE id = 8"),
        (LockKind::User, "user lock 'nightly'", "EXCLUSIVE", "SELECT GET_LOCK('nightly', 60)"),
        (LockKind::Backup, "backup lock", "INTENTION_EXCLUSIVE", "CREATE TABLE t (a INT)"),
        (LockKind::CommitOrder, "commit order of the replica's appliers", "", "COMMIT"),
        (LockKind::Ticket, "a ticket of innodb_thread_concurrency", "", "SELECT 1 FROM t"),
        (LockKind::RwLock, "rw-lock 0x55d0c1f0", "read", "SELECT user FROM mysql.user"),
    ];
    let mut threads = vec![connection(90, "backup", "FLUSH TABLES WITH READ LOCK")];
    threads[0].state = Some(ThreadState::DiskRead);
    threads[0].since_s = Some(240.0);
    let mut edges = Vec::new();
    for (at, (kind, object, mode, statement)) in (0_u32..).zip(kinds) {
        for copy in 0..=at {
            let place = u32::try_from(threads.len()).expect("few threads");
            threads.push(connection(100 + u64::from(place), "app", statement));
            edges.push(WaitEdge {
                wanted_in: if kind == LockKind::RwLock { "acl_check".to_owned() } else { String::new() },
                ..edge(place, Some(0), kind, object, mode, 30.0 + f64::from(copy))
            });
        }
    }
    let direct = u32::try_from(edges.len()).expect("few edges");
    threads.push(connection(300, "app", "UPDATE stock SET amount = 0 WHERE id = 9"));
    edges.push(edge(direct + 1, Some(1), LockKind::Row, "shop.stock PRIMARY record 9", "X", 3.0));
    let mut locks = look(threads, edges);
    locks.roots = vec![WaitRoot {
        thread: Some(0),
        kind: LockKind::RwLock,
        object: "rw-lock 0x55d0c1f0".to_owned(),
        doing: "reading a page".to_owned(),
        waiting_directly: direct,
        waiting_in_all: direct + 1,
        longest_wait_s: Some(37.0),
        free_with: Some("KILL QUERY 90".to_owned()),
        rows_to_roll_back: None,
        ..WaitRoot::default()
    }];
    locks
}

/// A chain of thirty, each of which waits for the one before.
pub fn deep() -> Locks {
    const LENGTH: u32 = 30;
    let threads = (0..LENGTH)
        .map(|at| connection(10 + u64::from(at), "app", &format!("UPDATE t SET a = 1 WHERE id = {at}")))
        .collect();
    let edges = (1..LENGTH)
        .map(|at| {
            edge(
                at,
                Some(at - 1),
                LockKind::Row,
                &format!("test.t PRIMARY record {at}"),
                "X",
                30.0 - f64::from(at),
            )
        })
        .collect();
    let mut locks = look(threads, edges);
    locks.roots = vec![WaitRoot {
        thread: Some(0),
        kind: LockKind::Row,
        object: "test.t PRIMARY record 1".to_owned(),
        doing: "running on a CPU".to_owned(),
        waiting_directly: 1,
        waiting_in_all: LENGTH - 1,
        longest_wait_s: Some(29.0),
        free_with: Some("KILL QUERY 10".to_owned()),
        rows_to_roll_back: Some(12_345),
        free_note: "its statement ends, its connection stays; 12345 changed rows are rolled back".to_owned(),
        ..WaitRoot::default()
    }];
    locks
}

/// A server whose users chose their names and statements to attack the reader.
pub fn hostile() -> Locks {
    const HOSTILE: &str = "\u{1b}]2;owned\u{7}\u{202e}</text></svg><script>document.title='owned'</script>&\"\\ ]]>🐬\u{9b}2J\n";
    let long = HOSTILE.repeat(40);
    let mut locks = chain();
    locks.server = format!("MySQL 9.7.4 on {HOSTILE}");
    for thread in &mut locks.graph.threads {
        thread.user = HOSTILE.to_owned();
        thread.host = HOSTILE.to_owned();
        thread.name = HOSTILE.to_owned();
        thread.statement = Some(long.clone());
        thread.server_state = HOSTILE.to_owned();
        thread.stack = vec![HOSTILE.to_owned(); 12];
    }
    for edge in &mut locks.graph.edges {
        edge.object = HOSTILE.to_owned();
        edge.wanted_in = HOSTILE.to_owned();
        edge.mode = HOSTILE.to_owned();
        edge.waited_s = Some(f64::NAN);
    }
    locks.graph.edges.push(WaitEdge { holder: None, waiter: 5, object: long, ..WaitEdge::default() });
    locks.graph.notes = vec![HOSTILE.to_owned()];
    let root = &mut locks.roots[0];
    root.doing = HOSTILE.to_owned();
    root.kind = LockKind::User;
    root.object = HOSTILE.to_owned();
    root.free_with = Some(HOSTILE.to_owned());
    root.free_note = HOSTILE.to_owned();
    root.rows_to_roll_back = Some(u64::MAX);
    locks
}
