//! Every thread's stack of a server with 1,000 connections, beside gdb and eu-stack.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::{Server, ServerSpec};
use tokio::task::JoinSet;

use crate::page::Row;
use crate::paired::{Spread, short};
use crate::peer::{EU_STACK, GDB};
use crate::{Bench, Benchmark, progress};

/// Connections of the server.
const CONNECTIONS: usize = 1000;
/// Between two turns of the connections, each of which takes some 0.1 s.
const PAUSE: Duration = Duration::from_millis(400);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "snapshot",
    story: "A MySQL with 1,000 connections, each of which runs `DO 0` every half second, so that every thread has moved \
            since the snapshot before. `spindoctor stacks --hz 2` for 10 s: the time of one snapshot is from the first \
            thread read to the last frame named. *The first snapshot* is the whole command, from \
            its start to its exit, with one snapshot and nothing known before. gdb and eu-stack are whole commands \
            too: the server stands still while they run. The server is Debian's: stripped, 75 MiB.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec {
        options: vec![format!("--max-connections={}", CONNECTIONS + 50), "--back-log=1000".into()],
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let pid = server.pid().to_string();
    let mut clients = JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(server.connect().await?);
    }
    clients.spawn(chat(connections));

    let (mut snapshots, mut longest, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    let (mut first, mut memory, mut gdb, mut eu_stack) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut stopped, mut threads) = (0.0, 0.0);
    let rounds = bench.runs.div_ceil(2);
    for round in 1..=rounds {
        progress(&format!("snapshot: round {round} of {rounds}"));
        let once = bench.spindoctor.run(&["stacks", "--pid", &pid, "--json", "--once"]).await?;
        first.push(once.took.as_secs_f64() * 1e3);
        let ran = bench
            .spindoctor
            .run(&["stacks", "--pid", &pid, "--json", "--hz", "2", "--duration", "10s"])
            .await?;
        snapshots.push(ran.number("/snapshot_ms/p50")?);
        longest.push(ran.number("/snapshot_ms/max")?);
        moved.push(100.0 - 100.0 * ran.number("/unmoved")? / ran.number("/observations")?);
        stopped += ran.number("/threads_stopped")?;
        threads = ran.number("/threads")?;
        memory.push(ran.resident_mib);
        gdb.push(GDB.stacks_ms(server.pid(), CONNECTIONS).await?);
        eu_stack.push(EU_STACK.stacks_ms(server.pid(), CONNECTIONS).await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(clients);
    server.stop()?;

    let (snapshot, first) = (Spread::of(&snapshots), Spread::of(&first));
    let (gdb, eu_stack) = (Spread::of(&gdb), Spread::of(&eu_stack));
    let memory = Spread::of(&memory);
    let (by_gdb, by_eu) = (gdb.median / snapshot.median, eu_stack.median / snapshot.median);
    Ok(vec![
        Row::plain("threads", short(threads)),
        Row::goal("one snapshot, with names", snapshot.told("ms"), "<= 10 ms", snapshot.median <= 10.0),
        Row::plain("the longest snapshot of a run", Spread::of(&longest).told("ms")),
        Row::plain("threads that had moved since the snapshot before", Spread::of(&moved).told("%")),
        Row::goal("threads stopped", short(stopped), "0", stopped == 0.0),
        Row::goal(
            "the first snapshot, the whole command",
            first.told("ms"),
            "<= 300 ms",
            first.median <= 300.0,
        ),
        Row::goal("resident memory", memory.told("MiB"), "<= 150 MiB", memory.most <= 150.0),
        Row::plain("gdb `thread apply all bt`", gdb.told("ms")),
        Row::goal("gdb / one snapshot", format!("{} times", short(by_gdb)), ">= 300 times", by_gdb >= 300.0),
        Row::plain("gdb / the first snapshot", format!("{} times", short(gdb.median / first.median))),
        Row::plain("eu-stack", eu_stack.told("ms")),
        Row::goal("eu-stack / one snapshot", format!("{} times", short(by_eu)), ">= 20 times", by_eu >= 20.0),
    ])
}

/// Every connection asks for nothing, one after the other, twice a second.
async fn chat(mut connections: Vec<Conn>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        for connection in &mut connections {
            if connection.query_drop("DO 0").await.is_err() {
                return;
            }
        }
    }
}
