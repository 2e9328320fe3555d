//! Who holds a metadata lock where no list says it: held against the servers that can list them. Each sample is read with its list,
//! and its wait graph is built twice, once as if there were none. The holder is known from the beginning.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use spindoctor_collect::locks::Locks;
use spindoctor_lab::{Server, Which};
use spindoctor_model::{Reading, ServerSample, Unavailable, WaitGraph};
use spindoctor_rules::wait_graph::{Readings, build, roots};

use super::set_up::{holder, run, server, shop};
use super::wait_graph::{COPY_RESTS, locks, settled};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the holder of a lock must be seen to rest before it is taken for one.
const HELD_FOR: Duration = Duration::from_millis(1_500);
/// It waits for everybody who uses the table, and everybody who comes later waits for it.
const DDL: &str = "ALTER TABLE shop.stock COMMENT = 'changed'";
const READ: &str = "SELECT * FROM shop.stock WHERE id = 2";
const WRITE: &str = "UPDATE shop.stock SET n = n + 1 WHERE id = 2";

/// Sessions that wait for a metadata lock in a known shape.
struct Situation {
    name: &'static str,
    /// What the holder has sent; the last of these runs on where it sleeps.
    holds: &'static [&'static str],
    /// What another session, which holds nothing that anybody waits for, has sent before.
    beside: &'static [&'static str],
    waits: &'static [&'static str],
    /// True where the other readings leave no doubt who the holder is.
    is_named: bool,
}

const SITUATIONS: [Situation; 6] = [
    Situation {
        name: "an idle transaction that has read the table, a DDL behind it, and readers behind that",
        holds: &["BEGIN", READ],
        beside: &[],
        waits: &[DDL, READ, READ, READ],
        is_named: true,
    },
    Situation {
        name: "a statement that reads the table for long, and a DDL behind it",
        holds: &["SELECT SLEEP(600) FROM shop.stock"],
        beside: &[],
        waits: &[DDL, READ, READ],
        is_named: true,
    },
    Situation {
        name: "two idle transactions, of which one has read the table",
        holds: &["BEGIN", READ],
        beside: &["BEGIN", "SELECT * FROM shop.other"],
        waits: &[DDL, READ, READ],
        is_named: false,
    },
    Situation {
        name: "LOCK TABLES of a session that idles",
        holds: &["LOCK TABLES shop.stock WRITE"],
        beside: &[],
        waits: &[READ, READ, READ],
        is_named: false,
    },
    Situation {
        name: "LOCK TABLES of a session that idles, beside one that idles for as long",
        holds: &["LOCK TABLES shop.stock WRITE"],
        beside: &["SELECT * FROM shop.other"],
        waits: &[READ, READ],
        is_named: false,
    },
    Situation {
        name: "FLUSH TABLES WITH READ LOCK of a session that idles, beside one that idles in its transaction",
        holds: &["FLUSH TABLES WITH READ LOCK"],
        beside: &["BEGIN", "SELECT * FROM shop.other"],
        waits: &[WRITE, WRITE, WRITE],
        is_named: false,
    },
];

/// Who blocks others, by connection; none for an owner that nobody sees.
fn owners(graph: &WaitGraph) -> BTreeSet<Option<u64>> {
    let connection = |thread: Option<u32>| graph.threads[thread? as usize].connection_id;
    roots(graph).iter().map(|root| connection(root.thread)).collect()
}

fn waiters(graph: &WaitGraph) -> BTreeSet<Option<u64>> {
    graph.edges.iter().map(|edge| graph.threads[edge.waiter as usize].connection_id).collect()
}

/// What the server says once so many wait.
async fn sample(locks: &mut Locks, waiting: usize, what: &str) -> ServerSample {
    let begun = Instant::now();
    loop {
        let sample = locks.read().await.unwrap();
        let graph = build(&Readings::of_server(Some(locks.version()), &sample));
        if waiters(&graph).len() >= waiting {
            return sample;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {graph:#?}");
        tokio::time::sleep(COPY_RESTS).await;
    }
}

/// Returns when a statement of this beginning is at work.
async fn at_work(server: &Server, begins: &str) {
    let there = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '{begins}%'");
    let begun = Instant::now();
    while server.ask(&there).await.unwrap().as_deref() == Some("0") {
        assert!(begun.elapsed() < PATIENCE, "{begins} is not at work");
        tokio::time::sleep(COPY_RESTS).await;
    }
}

async fn is_inferred_as_it_is_listed(which: Which, options: &[&str]) {
    let server = server(which.clone(), options).await;
    shop(&server).await;
    server.execute(["CREATE TABLE shop.other (id INT PRIMARY KEY) ENGINE = InnoDB"]).await.unwrap();
    let mut locks = locks(&server).await;
    for situation in &SITUATIONS {
        let what = format!("{which:?}: {}", situation.name);
        let (_beside, _) = holder(&server, situation.beside).await;
        let (sleeps, rests): (Vec<&str>, Vec<&str>) =
            situation.holds.iter().copied().partition(|statement| statement.contains("SLEEP"));
        let (_holder, mut id) = holder(&server, &rests).await;
        for statement in sleeps {
            id = run(&server, statement).await;
            at_work(&server, statement).await;
        }
        tokio::time::sleep(HELD_FOR).await;
        let mut waiting = Vec::new();
        for (at, statement) in situation.waits.iter().enumerate() {
            waiting.push(run(&server, *statement).await);
            // Those behind a DDL come to it, and not before it.
            sample(&mut locks, at + 1, &what).await;
        }
        tokio::time::sleep(HELD_FOR).await;
        let listed = sample(&mut locks, waiting.len(), &what).await;
        assert!(listed.metadata_locks.value().is_some(), "{what}: this server lists them");
        let why = Unavailable::because("taken out by a test");
        let unlisted = ServerSample { metadata_locks: Reading::Unavailable(why), ..listed.clone() };
        let graph = |sample: &ServerSample| build(&Readings::of_server(Some(locks.version()), sample));
        let (listed, unlisted) = (graph(&listed), graph(&unlisted));
        assert_eq!(owners(&listed), BTreeSet::from([Some(id)]), "{what}, by the list: {listed:#?}");
        assert_eq!(waiters(&unlisted), waiters(&listed), "{what}: who waits is seen without a list");
        let inferred = owners(&unlisted);
        let mut allowed = BTreeSet::from([Some(id)]);
        if !situation.is_named {
            allowed.insert(None);
        }
        assert!(inferred.is_subset(&allowed) && !inferred.is_empty(), "{what}: {inferred:?}, not {id}");
        // Those who wait before the one that they wait for: no DDL runs at last.
        for id in waiting.into_iter().chain([id]) {
            // One that has ended meanwhile is unknown.
            drop(server.execute([format!("KILL {id}")]).await);
        }
        settled(&mut locks).await;
    }
}

const INSTRUMENT: &str = "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON";

#[tokio::test]
async fn mysql_9_7() {
    is_inferred_as_it_is_listed(Which::Mysql, &[INSTRUMENT]).await;
}

#[tokio::test]
async fn mysql_8_0_31() {
    is_inferred_as_it_is_listed(Which::by_name("mysql-8.0.31").unwrap(), &[INSTRUMENT]).await;
}

#[tokio::test]
async fn mysql_5_7() {
    is_inferred_as_it_is_listed(Which::by_name("mysql-5.7").unwrap(), &[INSTRUMENT]).await;
}

#[tokio::test]
async fn mariadb_10_11() {
    is_inferred_as_it_is_listed(Which::Mariadb, &["--performance-schema=ON", INSTRUMENT]).await;
}
