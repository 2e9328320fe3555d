//! Deadlocks and changed plans are events of the recorder, though they stop nobody.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::{Server, ServerSpec, Which};
use spindoctor_model::{EventHead, StallKind};
use spindoctor_record::Recording;

use super::restarts::{answered, heads, record, wait_until};
use crate::lab::{in_runtime, start};
use crate::program::printed;

/// For the first of two sessions to wait, before the second closes the ring.
const WAITS_BY_THEN: Duration = Duration::from_millis(500);
/// For some hundred executions by the index before the plan changes: the rule wants a hundred.
const EXECUTED: Duration = Duration::from_secs(4);

async fn server(which: Which) -> Server {
    let server = start(&ServerSpec { which, ..ServerSpec::default() }).await;
    let doubled = "INSERT INTO shop.orders (k) SELECT k + 1000 FROM shop.orders";
    let mut statements = vec![
        "CREATE DATABASE shop",
        "CREATE TABLE shop.stock (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE=InnoDB",
        "INSERT INTO shop.stock VALUES (1, 'bolt'), (2, 'nut')",
        "CREATE TABLE shop.zones (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, k INT, KEY by_k (k)) ENGINE=InnoDB",
        "INSERT INTO shop.orders (k) VALUES (1)",
    ];
    // 4,096 rows.
    statements.extend([doubled; 12]);
    server.execute(statements).await.expect("tables");
    server
}

async fn session(server: &Server, statements: &[&str]) -> (Conn, u64) {
    let mut session = server.connect().await.expect("a session");
    for statement in statements {
        session.query_drop(*statement).await.expect(statement);
    }
    let id = session.query_first("SELECT CONNECTION_ID()").await.expect("an answer").expect("a number");
    (session, id)
}

/// Runs the first, and when it waits the second; exactly one of them ends as the victim of a deadlock.
async fn close_ring(mut first: Conn, waits: &str, mut second: Conn, closes: &str) {
    let waiting = async {
        let ended = first.query_drop(waits).await;
        let _over = first.query_drop("ROLLBACK").await;
        ended
    };
    let closing = async {
        tokio::time::sleep(WAITS_BY_THEN).await;
        let ended = second.query_drop(closes).await;
        let _over = second.query_drop("ROLLBACK").await;
        ended
    };
    let (waited, closed) = tokio::join!(waiting, closing);
    let victims = [waited, closed].into_iter().filter_map(Result::err).map(|error| error.to_string());
    let victims: Vec<String> = victims.collect();
    assert!(victims.len() == 1 && victims[0].contains("1213"), "{victims:?}");
}

async fn deadlock_of_rows(server: &Server) -> [u64; 2] {
    let lock = |id: u32| format!("UPDATE shop.stock SET name = 'secret' WHERE id = {id}");
    let (first, one) = session(server, &["BEGIN", &lock(1)]).await;
    let (second, two) = session(server, &["BEGIN", &lock(2)]).await;
    close_ring(first, &lock(2), second, &lock(1)).await;
    [one, two]
}

/// LOCK TABLES takes its locks in the order of the names: it has `stock` when it waits for `zones`.
async fn deadlock_of_tables(server: &Server) {
    let (reader, _) = session(server, &["BEGIN", "SELECT * FROM shop.zones"]).await;
    let (locker, _) = session(server, &[]).await;
    let lock = "LOCK TABLES shop.stock WRITE, shop.zones WRITE";
    close_ring(locker, lock, reader, "SELECT COUNT(*) FROM shop.stock").await;
}

/// Looks one row up, a hundred times a second at most, until the flag is set; by the index at first.
async fn look_up(server: &Server, is_over: &AtomicBool) {
    let (mut session, _) = session(server, &[]).await;
    while !is_over.load(Ordering::Relaxed) {
        session.query_drop("SELECT k FROM shop.orders WHERE k = 1").await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn of(file: &Path, kind: StallKind, words: &str) -> Option<EventHead> {
    heads(file).into_iter().find(|head| head.stall.kind == kind && head.stall.because.contains(words))
}

fn check_rows(file: &Path, connections: [u64; 2]) {
    let head = of(file, StallKind::Deadlock, "a deadlock: ").expect("it is there");
    let because = &head.stall.because;
    for connection in connections {
        assert!(
            because.contains(&format!("connection {connection} (UPDATE shop.stock SET name = ?")),
            "{because}"
        );
    }
    assert!(because.contains("waited for shop.stock, index PRIMARY and was rolled back"), "{because}");
    let event = Recording::open(file).and_then(|file| file.event(head.id)).expect("it can be read");
    let whole = serde_json::to_string(&event).expect("it can be written");
    assert!(!whole.contains("secret"), "{whole}");
    let page = file.with_extension("html");
    let (report, _) =
        printed(&format!("report {} --event {} --html {}", file.display(), head.id, page.display()));
    assert!(report.contains("A deadlock happened") && report.contains("rolled back"), "{report}");
    assert!(!report.contains("No cause"), "{report}");
}

async fn on_mysql(folder: &Path) {
    let (server, file, is_over) =
        (server(Which::Mysql).await, folder.join("mysql.rec"), AtomicBool::new(false));
    let story = async {
        tokio::time::sleep(EXECUTED).await;
        let recorder = record(&server, &file);
        wait_until("a sample", &file, || answered(&file) > 0).await;
        server
            .execute(["ALTER TABLE shop.orders ALTER INDEX by_k INVISIBLE"])
            .await
            .expect("it is invisible");
        let connections = deadlock_of_rows(&server).await;
        deadlock_of_tables(&server).await;
        for (what, kind, words) in [
            ("a deadlock of rows", StallKind::Deadlock, "a deadlock: "),
            ("a deadlock of tables", StallKind::Deadlock, "of metadata locks"),
            ("a change of plan", StallKind::PlanChanged, ""),
        ] {
            wait_until(what, &file, || of(&file, kind, words).is_some()).await;
        }
        recorder.end();
        is_over.store(true, Ordering::Relaxed);
        check_rows(&file, connections);
        let tables = of(&file, StallKind::Deadlock, "of metadata locks").expect("it is there").stall.because;
        assert!(tables.starts_with("a deadlock of metadata locks") && tables.contains("stock"), "{tables}");
        let plan = of(&file, StallKind::PlanChanged, "").expect("it is there");
        assert_eq!(plan.cause.as_deref(), Some("plan-change"), "{plan:#?}");
        assert!(plan.headline.starts_with("Index by_k is invisible: a statement reads"), "{}", plan.headline);
        assert!(plan.headline.contains("`shop` . `orders`"), "{}", plan.headline);
    };
    tokio::join!(story, look_up(&server, &is_over));
    server.stop().expect("it stops");
}

async fn on_mariadb(folder: &Path) {
    let (server, file) = (server(Which::Mariadb).await, folder.join("mariadb.rec"));
    let recorder = record(&server, &file);
    wait_until("a sample", &file, || answered(&file) > 0).await;
    let connections = deadlock_of_rows(&server).await;
    wait_until("a deadlock", &file, || of(&file, StallKind::Deadlock, "").is_some()).await;
    recorder.end();
    check_rows(&file, connections);
    server.stop().expect("it stops");
}

#[test]
fn deadlocks_of_rows_and_of_tables_and_a_changed_plan_are_events() {
    let folder = tempfile::tempdir().expect("a folder");
    in_runtime(async {
        tokio::join!(on_mysql(folder.path()), on_mariadb(folder.path()));
    });
}
