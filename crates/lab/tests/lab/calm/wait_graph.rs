//! Who blocks whom, on captured texts and on real servers: the right root with the right number of waiters.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use spindoctor_collect::locks::Locks;
use spindoctor_collect::mysql::{Endpoint, Limits, Target, innodb_status};
use spindoctor_collect::source::Answer;
use spindoctor_lab::{Server, Which};
use spindoctor_model::wait_graph::{LockKind, WaitRoot};
use spindoctor_model::{ServerSample, WaitGraph};
use spindoctor_rules::wait_graph::{Readings, build, cycles, is_text_of_use, roots};

use super::set_up::{holder, run, server, shop};

/// InnoDB copies its transactions for INNODB_TRX only where nobody has read that for 0.1 s: who asks again and again
/// without a pause sees the first copy for ever (trx0i_s.cc, CACHE_MIN_IDLE_TIME).
pub(super) const COPY_RESTS: Duration = Duration::from_millis(150);

fn of_text(text: &str) -> WaitGraph {
    let status = innodb_status::parse(text);
    let server = ServerSample { innodb_status: Answer::default().reading(status), ..ServerSample::default() };
    build(&Readings::of_server(None, &server))
}

/// The graph of an InnoDB status of the corpus.
fn of_document(name: &str) -> WaitGraph {
    let document = spindoctor_corpus::document(name).unwrap();
    of_text(&document.part(innodb_status::SOURCE.name).unwrap().text)
}

/// Whether the owner is visible, who waits directly, who in all, and the latch.
fn roots_of(graph: &WaitGraph) -> Vec<(bool, u32, u32, String)> {
    let described = |root: &WaitRoot| {
        (root.thread.is_some(), root.waiting_directly, root.waiting_in_all, root.object.clone())
    };
    roots(graph).iter().map(described).collect()
}

#[test]
fn one_writer_of_5_1_holds_up_four() {
    let graph = of_document("written/innodb-status-5.1");
    assert_eq!(roots_of(&graph)[0].1, 4, "{graph:#?}");
    let root = &roots(&graph)[0];
    // `a writer (thread id 1310900)`: the list of transactions says whose thread that is.
    assert_eq!(graph.threads[root.thread.unwrap() as usize].connection_id, Some(500));
}

#[test]
fn the_root_of_a_chain_of_latches_is_who_waits_for_none() {
    let graph = of_document("written/innodb-status-5.5-latch-chain");
    let roots = roots(&graph);
    assert_eq!(roots.len(), 1, "{roots:#?}");
    assert_eq!((roots[0].waiting_directly, roots[0].waiting_in_all), (1, 4));
    assert_eq!(graph.threads[roots[0].thread.unwrap() as usize].connection_id, Some(71));
    assert!(roots[0].object.contains("0x7f10aa00 (dict0dict.c:622)"), "{}", roots[0].object);
    assert!(cycles(&graph).is_empty(), "there is a ring: {graph:#?}");
}

#[test]
fn nobody_of_a_captured_text_waits_for_a_latch_without_being_counted() {
    for (server, _) in spindoctor_corpus::captures("semaphore-waits").unwrap() {
        let graph = of_document(&format!("{server}/semaphore-waits"));
        let roots = roots_of(&graph);
        assert!(!roots.is_empty(), "{server}: {graph:#?}");
        let waiters: std::collections::BTreeSet<u32> = graph.edges.iter().map(|edge| edge.waiter).collect();
        let in_all: u32 = roots.iter().map(|(_, _, in_all, _)| in_all).sum();
        assert!(in_all as usize >= waiters.len(), "{server}: {} wait, {roots:?}", waiters.len());
    }
}

/// Texts of other projects.
mod shared_fixtures {
    use super::*;

    fn of_file(file: &str) -> Option<WaitGraph> {
        let bytes = std::fs::read(spindoctor_corpus::shared("fixtures/innodb_status")?.join(file)).unwrap();
        Some(of_text(&String::from_utf8_lossy(&bytes)))
    }

    #[test]
    fn six_hundred_threads_of_5_5_wait_behind_the_readers_of_six_latches() {
        // Counted with a script of its own from `--Thread`, `writer (thread id` and `RW-latch at`.
        let Some(graph) = of_file("pmp-015.txt") else { return };
        let roots = roots_of(&graph);
        let counts: Vec<_> =
            roots.iter().map(|(visible, directly, in_all, _)| (*visible, *directly, *in_all)).collect();
        println!("{roots:#?} {}", graph.moved_on);
        assert_eq!(counts[0], (false, 1, 350));
        assert_eq!(roots[0].3, "index or dictionary rw-lock 0xfffffd7ffebff200 (dict0dict.c:622)");
        assert!(counts.contains(&(true, 7, 7)), "the writer 907813");
        assert!(cycles(&graph).is_empty(), "there is a ring: {graph:#?}");
    }

    #[test]
    fn one_writer_of_5_1_holds_up_seven() {
        let Some(graph) = of_file("pt-summary-004.txt") else { return };
        assert_eq!(roots_of(&graph)[0].1, 7);
        let root = &roots(&graph)[0];
        // `a writer (thread id 1220999488)`: the list of transactions says whose thread that is.
        assert_eq!(graph.threads[root.thread.unwrap() as usize].connection_id, Some(822_913));
    }
}

pub(super) async fn locks(server: &Server) -> Locks {
    let patience = Duration::from_secs(60);
    let mut target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
    target.limits = Limits { connect: patience, query: patience };
    Locks::connect(&target, None).await.unwrap()
}

/// Looks until so many wait: statements need a moment to begin to wait.
async fn until(locks: &mut Locks, waiting: usize) -> WaitGraph {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let mut server = locks.read().await.unwrap();
        locks.read_text(&mut server).await.unwrap();
        let again = locks.read_again().await.unwrap();
        let version = Some(locks.version());
        let graph = build(&Readings { again: Some(&again), ..Readings::of_server(version, &server) });
        let waiters: std::collections::BTreeSet<u32> = graph.edges.iter().map(|edge| edge.waiter).collect();
        if waiters.len() >= waiting {
            return graph;
        }
        assert!(Instant::now() < patience, "{graph:#?}");
        tokio::time::sleep(COPY_RESTS).await;
    }
}

/// The only root: its connection, kind, and the numbers behind it.
fn root(graph: &WaitGraph) -> (Option<u64>, WaitRoot) {
    let roots = roots(graph);
    assert_eq!(roots.len(), 1, "{roots:#?} {graph:#?}");
    let root = roots.into_iter().next().unwrap();
    (root.thread.and_then(|at| graph.threads[at as usize].connection_id), root)
}

/// Whether the server lists who holds metadata locks and their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Locks,
    Nothing,
}

/// Every pile-up of this server that needs no stacks, one after the other.
async fn pile_ups(server: &Server, lists: Lists) {
    // Who idles and holds what nobody lists is inferred where only one can be it, and then it is the right one; else the graph
    // says that nobody is visible.
    let is_named = |connection: Option<u64>, id: u64| match lists {
        Lists::Locks => connection == Some(id),
        Lists::Nothing => connection.is_none_or(|connection| connection == id),
    };
    shop(server).await;
    let mut locks = locks(server).await;

    // A row: the holder is idle, five want the row.
    let (mut conn, id) = holder(server, &["BEGIN", "UPDATE shop.stock SET n = 9 WHERE id = 1"]).await;
    for _ in 0..5 {
        run(server, "UPDATE shop.stock SET n = 8 WHERE id = 1").await;
    }
    let graph = until(&mut locks, 5).await;
    let (connection, found) = root(&graph);
    assert_eq!(
        (connection, found.kind, found.waiting_directly, found.waiting_in_all),
        (Some(id), LockKind::Row, 5, 5)
    );
    assert_eq!(
        (found.doing.as_str(), found.object.as_str()),
        ("idle in transaction", "shop.stock PRIMARY record 1")
    );
    assert_eq!((found.free_with, found.rows_to_roll_back), (Some(format!("KILL {id}")), Some(1)));

    // The same holder is in the way of a DDL, and the DDL in that of readers: all of them wait for the idle client.
    run(server, "ALTER TABLE shop.stock ADD COLUMN m INT").await;
    until(&mut locks, 6).await;
    for _ in 0..20 {
        run(server, "SELECT * FROM shop.stock WHERE id = 2").await;
    }
    let graph = until(&mut locks, 26).await;
    let (connection, found) = root(&graph);
    assert_eq!((connection, found.waiting_in_all), (Some(id), 26), "{graph:#?}");
    conn.query_drop("ROLLBACK").await.unwrap();
    drop(conn);
    settled(&mut locks).await;

    // A user lock.
    let (conn, id) = holder(server, &["DO GET_LOCK('nightly', 10)"]).await;
    for _ in 0..4 {
        run(server, "DO GET_LOCK('nightly', 600)").await;
    }
    let graph = until(&mut locks, 4).await;
    let (connection, found) = root(&graph);
    assert!(is_named(connection, id), "{connection:?} {id}: {graph:#?}");
    assert_eq!((found.kind, found.waiting_in_all), (LockKind::User, 4));
    assert!(found.free_with.is_none() || found.free_with == Some(format!("KILL {id}")), "{found:?}");
    match lists {
        Lists::Locks => assert_eq!(found.object, "user lock 'nightly'"),
        // Who holds it is asked by its name.
        Lists::Nothing => {
            assert_eq!(connection, Some(id), "{graph:#?}");
            assert!(!graph.edges.iter().any(|edge| edge.is_inferred), "{graph:#?}");
        }
    }
    conn.disconnect().await.unwrap();
    for _ in 0..4 {
        free_waiters(server, "GET_LOCK").await;
    }
    settled(&mut locks).await;

    // The whole server.
    let (mut conn, id) = holder(server, &["FLUSH TABLES WITH READ LOCK"]).await;
    for _ in 0..3 {
        run(server, "UPDATE shop.stock SET n = 7 WHERE id = 2").await;
    }
    let graph = until(&mut locks, 3).await;
    let (connection, found) = root(&graph);
    assert!(is_named(connection, id), "{connection:?} {id}: {graph:#?}");
    assert_eq!(found.waiting_in_all, 3);
    assert!(matches!(found.kind, LockKind::Global | LockKind::Backup), "{found:?}");
    conn.query_drop("UNLOCK TABLES").await.unwrap();
    drop(conn);
    settled(&mut locks).await;
}

/// Ends the sessions that wait with a statement that holds this word.
async fn free_waiters(server: &Server, word: &str) {
    let sql = format!(
        "SELECT MIN(ID) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{word}%' AND ID <> CONNECTION_ID()"
    );
    if let Some(id) = server.ask(&sql).await.unwrap() {
        // It may have ended by itself.
        drop(server.execute([format!("KILL {id}")]).await);
    }
}

/// Waits until nobody waits.
pub(super) async fn settled(locks: &mut Locks) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let server = locks.read().await.unwrap();
        let graph = build(&Readings::of_server(Some(locks.version()), &server));
        if graph.edges.is_empty() {
            return;
        }
        assert!(Instant::now() < patience, "{graph:#?}");
        tokio::time::sleep(COPY_RESTS).await;
    }
}

#[tokio::test]
async fn mysql_names_the_root_of_every_pile_up() {
    let server = server(Which::Mysql, &[]).await;
    pile_ups(&server, Lists::Locks).await;

    let mut locks = locks(&server).await;
    let (conn, id) = holder(&server, &["LOCK INSTANCE FOR BACKUP"]).await;
    run(&server, "CREATE TABLE shop.other (id INT PRIMARY KEY)").await;
    let graph = until(&mut locks, 1).await;
    let (connection, found) = root(&graph);
    assert_eq!((connection, found.kind, found.waiting_in_all), (Some(id), LockKind::Backup, 1));
    drop(conn);
}

#[tokio::test]
async fn mariadb_names_the_root_of_every_pile_up() {
    let options =
        ["--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"];
    pile_ups(&server(Which::Mariadb, &options).await, Lists::Locks).await;
}

#[tokio::test]
async fn mariadb_as_it_is_installed_says_which_owners_are_not_visible() {
    pile_ups(&server(Which::Mariadb, &["--performance-schema=OFF"]).await, Lists::Nothing).await;
}

#[tokio::test]
async fn mysql_without_performance_schema_has_the_root_of_its_row_locks_in_innodbs_text() {
    let server = server(Which::Mysql, &["--performance-schema=OFF"]).await;
    shop(&server).await;
    let mut locks = locks(&server).await;
    let (_conn, id) = holder(&server, &["BEGIN", "UPDATE shop.stock SET n = 1 WHERE id = 1"]).await;
    for _ in 0..3 {
        run(&server, "UPDATE shop.stock SET n = 2 WHERE id = 1").await;
    }
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let mut sample = locks.read().await.unwrap();
        assert!(is_text_of_use(&sample, None), "the text of InnoDB is of no use: {sample:?}");
        locks.read_text(&mut sample).await.unwrap();
        let graph = build(&Readings::of_server(Some(locks.version()), &sample));
        let found = roots(&graph);
        let named = found.first().and_then(|root| graph.threads[root.thread? as usize].connection_id);
        if named == Some(id) && found[0].waiting_in_all == 3 {
            assert_eq!(found[0].kind, LockKind::Row);
            return;
        }
        assert!(Instant::now() < patience, "{graph:#?}");
        tokio::time::sleep(COPY_RESTS).await;
    }
}

#[tokio::test]
async fn of_ten_thousand_locks_few_are_read_and_the_waits_left_out_are_counted() {
    // More places than are looked up: 50.
    const WAITERS: u64 = 60;
    let server = server(Which::Mysql, &[]).await;
    shop(&server).await;
    server
        .execute([
            "CREATE TABLE shop.many (id INT PRIMARY KEY, n INT)",
            "SET SESSION cte_max_recursion_depth = 10000",
            "INSERT INTO shop.many WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM r WHERE id < 10000) \
             SELECT id, 0 FROM r",
        ])
        .await
        .unwrap();
    let (conn, id) = holder(&server, &["BEGIN", "UPDATE shop.many SET n = 1"]).await;
    for row in 1..=WAITERS {
        run(&server, format!("UPDATE shop.many SET n = 2 WHERE id = {row}")).await;
    }
    let ask = async |sql: &str| server.ask(sql).await.unwrap().unwrap().parse::<u64>().unwrap();
    while ask("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").await
        < WAITERS
    {
        tokio::time::sleep(COPY_RESTS).await;
    }
    assert!(ask("SELECT COUNT(*) FROM performance_schema.data_locks").await > 10_000);

    let graph = until(&mut locks(&server).await, 50).await;
    let (connection, found) = root(&graph);
    assert_eq!((connection, found.waiting_in_all, graph.left_out), (Some(id), 50, 10));
    assert_eq!(found.rows_to_roll_back, Some(10_000));
    assert!(graph.notes.iter().any(|note| note.contains("data_lock_waits was cut")), "{:?}", graph.notes);
    drop(conn);
}
