//! Servers that look as if they suffered, and whose clients are well served: nothing above a note may be found.
//!
//! Each has what a cause of the catalogue would be known by at first sight. That it does not suffer is seen by its clients:
//! they reach their rate, and their transactions end in milliseconds.

use std::time::{Duration, Instant};

use super::{Scenario, Suffering, TABLES, with_tables};
use crate::error::Result;
use crate::load::neighbour::Neighbour;
use crate::load::sessions::Sessions;
use crate::load::{LoadSpec, Workload};
use crate::server::Server;

/// Transactions a second of the clients: a few percent of what two CPUs manage.
const RATE: u32 = 40;
/// A transaction takes some milliseconds of an idle machine.
const WELL_SERVED_MS: f64 = 200.0;
/// The clients' last seconds.
const LATELY: Duration = Duration::from_secs(3);

/// In the order of the story that each is.
pub(super) const NEAR_MISSES: &[&Scenario] = &[
    &Scenario {
        name: "idle-connections",
        story: "Hundreds of connections idle, as a pool that is far too large keeps them.",
        begin: |server| Box::pin(idle_connections(server)),
        ..FINE
    },
    &Scenario {
        name: "long-select",
        story: "An analyst's SELECT counts pairs of rows for minutes.",
        begin: |server| Box::pin(long_select(server)),
        ..FINE
    },
    &Scenario {
        name: "dump",
        story: "A backup reads one table after the other within a snapshot.",
        begin: |server| Box::pin(dump(server)),
        ..FINE
    },
    &Scenario {
        name: "sleeps",
        story: "Sessions sleep on purpose (SELECT SLEEP), as a poor man's scheduler does.",
        begin: |server| Box::pin(sleeps(server)),
        ..FINE
    },
    &Scenario {
        name: "idle-history",
        story: "A session idles within a snapshot, and the history of changes grows; nobody reads through it.",
        begin: |server| Box::pin(idle_history(server)),
        ..FINE
    },
    &Scenario {
        name: "storm-that-is-over",
        story: "Forty sessions waited for a row for some seconds; they are gone, and the counters of their waits stay.",
        begin: |server| Box::pin(past_storm(server)),
        ..FINE
    },
    &Scenario {
        name: "polite-neighbour",
        story: "Another program uses every CPU that is idle, at the lowest priority (nice 19).",
        begin: |server| Box::pin(polite_neighbour(server)),
        ..FINE
    },
    &Scenario {
        name: "online-ddl",
        story: "An index is built online, again and again, on a table that nobody else writes to.",
        begin: |server| Box::pin(online_ddl(server)),
        ..FINE
    },
];

/// What all of them have.
const FINE: Scenario = Scenario {
    spec: with_tables,
    begin: |server| Box::pin(async { clients(server) }),
    symptom: |_, fine| Box::pin(async { Ok(well_served(fine)) }),
    ..Scenario::USUAL
};

/// Eight clients, far below what the server can do.
fn clients(server: &Server) -> Result<Suffering> {
    let spec = LoadSpec { workload: Workload::OltpReadWrite, threads: 8, rate: Some(RATE), tables: TABLES };
    Suffering::by_load(server, spec)
}

fn well_served(fine: &Suffering) -> Option<String> {
    let load = fine.load_since(Instant::now() - LATELY)?;
    let p95 = load.latency_p95_ms?;
    (load.transactions_per_s > 0.5 * f64::from(RATE) && p95 < WELL_SERVED_MS)
        .then(|| format!("{:.0} transactions/s, p95 {p95:.1} ms", load.transactions_per_s))
}

async fn idle_connections(server: &Server) -> Result<Suffering> {
    let mut fine = clients(server)?;
    for _ in 0..server.draw().count("idle", 120, 40..=130) {
        fine.sessions.hold(server, &["SELECT 1"]).await?;
    }
    Ok(fine)
}

async fn long_select(server: &Server) -> Result<Suffering> {
    let mut fine = clients(server)?;
    let select = "SELECT COUNT(*) FROM sbtest3 a JOIN sbtest4 b ON a.k < b.k AND a.pad < b.pad";
    fine.sessions.repeat(server, select.to_owned()).await?;
    Ok(fine)
}

async fn dump(server: &Server) -> Result<Suffering> {
    let mut fine = clients(server)?;
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT".to_owned();
    let mut transaction = vec![(begin, Duration::ZERO)];
    for table in 1..=TABLES.count {
        transaction.push((format!("SELECT SQL_NO_CACHE * FROM sbtest{table}"), Duration::from_millis(20)));
    }
    transaction.push(("COMMIT".to_owned(), Duration::from_millis(200)));
    fine.sessions.transact(server, transaction).await?;
    Ok(fine)
}

async fn sleeps(server: &Server) -> Result<Suffering> {
    let mut fine = clients(server)?;
    for _ in 0..server.draw().count("sleepers", 20, 4..=60) {
        fine.sessions.repeat(server, "SELECT SLEEP(30)".to_owned()).await?;
    }
    Ok(fine)
}

async fn idle_history(server: &Server) -> Result<Suffering> {
    let mut fine = clients(server)?;
    let snapshot = ["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM sbtest1"];
    fine.sessions.hold(server, &snapshot).await?;
    Ok(fine)
}

async fn past_storm(server: &Server) -> Result<Suffering> {
    const WAITED: Duration = Duration::from_secs(4);
    let mut storm = Sessions::default();
    storm.hold(server, &["BEGIN", "UPDATE sbtest1 SET k = k + 1 WHERE id = 1"]).await?;
    for _ in 0..server.draw().count("waited", 40, 10..=90) {
        storm.once(server, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1").await?;
    }
    tokio::time::sleep(WAITED).await;
    storm.kill(server).await?;
    clients(server)
}

async fn polite_neighbour(server: &Server) -> Result<Suffering> {
    let mut fine = clients(server)?;
    fine.neighbour = Some(Neighbour::polite(std::thread::available_parallelism().map_or(1, usize::from))?);
    Ok(fine)
}

async fn online_ddl(server: &Server) -> Result<Suffering> {
    server
        .execute([
            "CREATE TABLE sbtest.journal LIKE sbtest.sbtest1",
            "INSERT INTO sbtest.journal SELECT * FROM sbtest.sbtest1",
        ])
        .await?;
    let mut fine = clients(server)?;
    let pause = Duration::from_millis(300);
    let build = [
        ("ALTER TABLE journal ADD INDEX by_c (c), ALGORITHM=INPLACE, LOCK=NONE".to_owned(), pause),
        ("ALTER TABLE journal DROP INDEX by_c".to_owned(), pause),
    ];
    fine.sessions.transact(server, build.into()).await?;
    Ok(fine)
}
