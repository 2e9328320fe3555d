//! A thread pool at its limit, and every thread of it with a session that sleeps.

use std::time::Instant;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::thread_pool_starved::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Threads that the pool may have.
const THREADS: u32 = 12;
/// Sessions that sleep: more than the pool has threads, so that each thread that is free soon has one of them again.
const SLEEPERS: u32 = 14;
/// Clients that want to read a row.
const CLIENTS: u32 = 24;
/// What a round trip takes from which on it waits for a thread and not for a CPU.
const SLOW_MS: u128 = 100;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A pool of one group may have 12 threads. 14 sessions of a poor man's scheduler sleep (SELECT SLEEP) and keep all of them, and \
            24 clients that read rows by primary key hardly get one. Seen to suffer by Threadpool_threads at its limit and by a \
            statement that does nothing and takes 100 ms or more.",
    // MySQL's thread pool is part of its Enterprise edition.
    flavors: &[Flavor::Mariadb],
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: [
            "--thread-handling=pool-of-threads".to_owned(),
            "--thread-pool-size=1".to_owned(),
            format!("--thread-pool-max-threads={THREADS}"),
        ]
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpPointSelect;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: CLIENTS, rate: None, tables: TABLES })?;
    // Of different lengths, as jobs are: sessions that sleep in step let everybody through at once every two seconds.
    for nth in 0..SLEEPERS {
        let seconds = 1.5 + f64::from(nth) / 10.0;
        suffering.sessions.repeat(server, format!("SELECT SLEEP({seconds:.1})")).await?;
    }
    Ok(suffering)
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    // First of all: a client that has just had an answer asks at a moment in which the pool has a thread to spare.
    let begun = Instant::now();
    symptom::number(server, "SELECT 1").await?;
    let took_ms = begun.elapsed().as_millis();
    let threads = symptom::status(server, "Threadpool_threads").await?;
    Ok((threads >= f64::from(THREADS) && took_ms >= SLOW_MS)
        .then(|| format!("{threads:.0} threads in the pool, and SELECT 1 takes {took_ms} ms")))
}
