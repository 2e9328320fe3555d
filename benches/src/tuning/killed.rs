//! `tune` killed with SIGKILL at random moments: are the old values back, and how soon?

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};

use super::{connection, settings};
use crate::page::Row;
use crate::paired::Spread;
use crate::{Bench, Benchmark, progress};

const VARIABLES: [&str; 2] = ["innodb_spin_wait_delay", "innodb_sync_spin_loops"];
const TABLES: Tables = Tables { count: 1, rows: 1_000 };
/// Kills of each server.
const KILLS: usize = 20;
/// From the start of `tune` on, it is killed at any moment of these: connecting, journal, the first look, blocks.
const WITHIN_S: f64 = 15.0;
const GOAL: Duration = Duration::from_secs(5);
/// After that nothing comes any more.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "killed",
    of: &["crates/tune", "crates/spindoctor/src/tune"],
    minutes: 3,
    story: "`spindoctor tune --apply` with two variables and blocks of 0.2 s under a small load, killed with SIGKILL at a \
            random moment of its first 15 s; how long until both variables have their old values, and stay so for a \
            second. Where nothing was changed at the moment of the kill, that is at once. MySQL has the EVENT and the \
            guardian; MariaDB, whose event scheduler is off, the guardian alone.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (mysql, mariadb) =
        tokio::try_join!(kill(bench, "MySQL", Which::Mysql), kill(bench, "MariaDB", Which::Mariadb))?;
    Ok(mysql.into_iter().chain(mariadb).collect())
}

async fn kill(bench: &Bench, name: &str, which: Which) -> anyhow::Result<Vec<Row>> {
    let spec = ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let workload = Workload::OltpPointSelect;
    let mut load =
        Load::start(server.socket(), LoadSpec { workload, threads: 4, rate: Some(200), tables: TABLES })?;
    let mut asked = server.connect().await?;
    let before = settings(&mut asked, &VARIABLES).await?;
    let flags = connection(&server);
    let mut arguments = vec![
        "tune",
        "--apply",
        "--json",
        "--only",
        "innodb_spin_wait_delay=7",
        "--only",
        "innodb_sync_spin_loops=31",
        "--settle",
        "100ms",
        "--measure",
        "100ms",
        "--put-back",
    ];
    arguments.extend(flags.iter().map(String::as_str));
    let (mut took, mut changed) = (Vec::new(), 0);
    for kill in 1..=KILLS {
        progress(&format!("killed: {name}, {kill} of {KILLS}"));
        load.check()?;
        let mut tune = bench.spindoctor.start(&arguments)?;
        let die: Option<f64> = asked.query_first("SELECT RAND()").await?;
        tokio::time::sleep(Duration::from_secs_f64(die.unwrap_or(0.5) * WITHIN_S)).await;
        tune.kill().context("it ended before it could be killed")?;
        let killed = Instant::now();
        tune.wait()?;
        changed += usize::from(settings(&mut asked, &VARIABLES).await? != before);
        took.push(back_after(&mut asked, &before, killed).await?.as_secs_f64());
    }
    asked.disconnect().await?;
    load.stop().await;
    server.stop()?;
    let back = took.iter().filter(|&&took| took <= GOAL.as_secs_f64()).count();
    Ok(vec![
        Row::goal(
            format!("{name}: old values back within 5 s, of {KILLS}"),
            back.to_string(),
            KILLS.to_string(),
            back == KILLS,
        ),
        Row::plain(format!("{name}: changed at the moment of the kill"), changed.to_string()),
        Row::plain(format!("{name}: until they were back"), Spread::from_values(&took).text("s")),
    ])
}

/// How long after the kill the old values were there for good.
async fn back_after(asked: &mut Conn, before: &[String], killed: Instant) -> anyhow::Result<Duration> {
    let mut since = None;
    while killed.elapsed() < PATIENCE {
        let now = Instant::now();
        if settings(asked, &VARIABLES).await? == before {
            let since = *since.get_or_insert(now);
            if now - since >= Duration::from_secs(1) {
                return Ok(since - killed);
            }
        } else {
            since = None;
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("the old values did not come back within {} s", PATIENCE.as_secs())
}
