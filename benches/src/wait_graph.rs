//! The time of one snapshot of who blocks whom where many threads wait.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use serde_json::Value;
use spindoctor_lab::load::Tables;
use spindoctor_lab::{Server, ServerSpec};

use crate::page::Row;
use crate::paired::Spread;
use crate::{Bench, Benchmark, progress};

/// Sessions that want the row.
const WAITERS: u64 = 500;
const TABLES: Tables = Tables { count: 1, rows: 1000 };
/// How long they may take until all of them wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// As long as anybody may wait for the peer's answer.
const PEER_MS: u64 = 20_000;
/// Between two looks. InnoDB renews its list of transactions for who asks at most every 0.1 s.
const REST: Duration = Duration::from_millis(500);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "wait-graph",
    of: &[
        "crates/collect/src/locks.rs",
        "crates/collect/src/mysql",
        "crates/rules/src/wait_graph",
        "crates/stacks",
        "crates/spindoctor/src/locks",
    ],
    minutes: 1,
    story: "A session of a MySQL changed a row and idles; 500 others want to change it. `spindoctor locks --json` as a \
            user of its own: until the graph is read and built, stacks included; what its statements took on the \
            server, as the server's own performance_schema counts for that user, and as their client sees it. Beside \
            it, `SELECT * FROM sys.innodb_lock_waits` to its end, or until it was stopped after 20 s.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec {
        tables: Some(TABLES),
        options: vec![
            "--max-connections=600".into(),
            "--back-log=600".into(),
            "--innodb-lock-wait-timeout=3600".into(),
        ],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let mut asked = server.connect().await?;
    for statement in [
        "CREATE USER looker@localhost",
        "GRANT PROCESS ON *.* TO looker@localhost",
        "GRANT SELECT ON performance_schema.* TO looker@localhost",
    ] {
        asked.query_drop(statement).await?;
    }
    let _sessions = pile_up(&server, &mut asked, WAITERS).await?;

    let socket = server.socket().display().to_string();
    let arguments = ["locks", "--json", "--no-defaults", "-u", "looker", "-S", &socket];
    let (mut graph, mut command, mut on_server, mut seen, mut queries, mut peer) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=bench.runs {
        progress(&format!("wait-graph: round {round} of {}", bench.runs));
        tokio::time::sleep(REST).await;
        let before = statements_ms(&mut asked).await?;
        let ran = bench.spindoctor.run(&arguments).await?;
        on_server.push(statements_ms(&mut asked).await? - before);
        let waiting = ran.json.pointer("/roots/0/waiting_in_all").and_then(Value::as_u64);
        ensure!(waiting == Some(WAITERS), "it saw {waiting:?} waiters of {WAITERS}");
        graph.push(ran.number("/took_ms")?);
        seen.push(ran.number("/server_ms")?);
        queries.push(ran.number("/server_queries")?);
        command.push(ran.took.as_secs_f64() * 1e3);
        if peer.len() < bench.runs.div_ceil(4) {
            peer.push(sys_view_ms(&mut asked).await?);
        }
    }
    drop(asked);
    server.stop()?;

    let (graph, on_server) = (Spread::from_values(&graph), Spread::from_values(&on_server));
    let peer = Spread::from_values(&peer);
    let view = format!("`sys.innodb_lock_waits`: {} ms", crate::paired::short(peer.median));
    Ok(vec![
        Row::plain("sessions that wait", WAITERS.to_string()),
        Row::goal("the graph", graph.text("ms"), "<= 100 ms", graph.median <= 100.0)
            .beside(view, peer.median / graph.median),
        Row::goal(
            "its statements, on the server",
            on_server.text("ms"),
            "<= 20 ms",
            on_server.median <= 20.0,
        ),
        Row::plain("its statements, as their client sees them", Spread::from_values(&seen).text("ms")),
        Row::plain("its statements", Spread::from_values(&queries).text("in number")),
        Row::plain("the whole command", Spread::from_values(&command).text("ms")),
        Row::plain("`sys.innodb_lock_waits`", peer.text("ms")),
    ])
}

/// A transaction that holds a row, and so many who want it; all wait as long as these live.
pub(crate) async fn pile_up(
    server: &Server,
    asked: &mut Conn,
    waiters: u64,
) -> anyhow::Result<Vec<tokio::task::JoinHandle<()>>> {
    const CHANGE: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
    let mut holder = server.connect().await?;
    for statement in ["USE sbtest", "BEGIN", CHANGE] {
        holder.query_drop(statement).await?;
    }
    let idle = |holder: Conn| async move {
        std::future::pending::<()>().await;
        drop(holder);
    };
    let mut sessions = vec![tokio::spawn(idle(holder))];
    for _ in 0..waiters {
        let mut waiter = server.connect().await?;
        waiter.query_drop("USE sbtest").await?;
        sessions.push(tokio::spawn(async move {
            // It ends with the server.
            let _ended = waiter.query_drop(CHANGE).await;
        }));
    }
    let begun = Instant::now();
    loop {
        const WAITING: &str =
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
        let waiting: Option<u64> = asked.query_first(WAITING).await?;
        if waiting == Some(waiters) {
            return Ok(sessions);
        }
        ensure!(begun.elapsed() < PATIENCE, "{waiting:?} of {waiters} sessions wait");
        tokio::time::sleep(REST).await;
    }
}

/// What all statements of the looker took so far.
async fn statements_ms(asked: &mut Conn) -> anyhow::Result<f64> {
    const TOOK: &str = "SELECT IFNULL(SUM(sum_timer_wait), 0) / 1e9 \
                        FROM performance_schema.events_statements_summary_by_user_by_event_name WHERE user = 'looker'";
    asked.query_first(TOOK).await?.context("the server counts no statements")
}

/// What a DBA asks today.
async fn sys_view_ms(asked: &mut Conn) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let asking = format!("SELECT /*+ MAX_EXECUTION_TIME({PEER_MS}) */ * FROM sys.innodb_lock_waits");
    match asked.query_drop(asking).await {
        // ER_QUERY_TIMEOUT
        Err(mysql_async::Error::Server(error)) if error.code == 3024 => {}
        other => other?,
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
