//! `tune` killed with SIGKILL at random moments: are the old values back, and how soon?

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::{Server, ServerSpec, Which};

use super::{connection, settings};
use crate::page::Row;
use crate::paired::Spread;
use crate::{Bench, Benchmark, progress};

const VARIABLES: [&str; 2] = ["innodb_spin_wait_delay", "innodb_sync_spin_loops"];
/// Kills of each server.
const KILLS: usize = 50;
/// From the start of `tune` on, it is killed at any moment of these: connecting, journal, blocks of old and new.
const WITHIN_MS: f64 = 4_000.0;
const GOAL: Duration = Duration::from_secs(5);
/// After that nothing comes any more.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "killed",
    story: "`spindoctor tune --apply` with two variables and blocks of 0.2 s on an idle server, killed with SIGKILL at a \
            random moment of its first 4 s; how long until both variables have their old values, and stay so for a second. Where \
            nothing was changed at the time of the kill, that is at once.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, which) in [("MySQL", Which::Mysql), ("MariaDB", Which::Mariadb)] {
        let server =
            Server::start(&bench.home, &ServerSpec { which, ..ServerSpec::default() }, &progress).await?;
        let mut asked = server.connect().await?;
        let before = settings(&mut asked, &VARIABLES).await?;
        let (mut took, mut changed) = (Vec::new(), 0);
        for kill in 1..=KILLS {
            progress(&format!("killed: {name}, {kill} of {KILLS}"));
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
            ];
            let flags = connection(&server);
            arguments.extend(flags.iter().map(String::as_str));
            let mut tune = bench.spindoctor.start(&arguments)?;
            let die: Option<f64> = asked.query_first("SELECT RAND()").await?;
            tokio::time::sleep(Duration::from_secs_f64(die.unwrap_or(0.5) * WITHIN_MS / 1e3)).await;
            tune.kill().context("it ended before it could be killed")?;
            let killed = Instant::now();
            tune.wait()?;
            changed += usize::from(settings(&mut asked, &VARIABLES).await? != before);
            took.push(back_after(&mut asked, &before, killed).await?.as_secs_f64());
        }
        let back = took.iter().filter(|&&took| took <= GOAL.as_secs_f64()).count();
        rows.push(Row::goal(
            format!("{name}: old values back within 5 s, of {KILLS}"),
            back.to_string(),
            KILLS.to_string(),
            back == KILLS,
        ));
        rows.push(Row::plain(format!("{name}: changed at the moment of the kill"), changed.to_string()));
        rows.push(Row::plain(format!("{name}: until they were back"), Spread::of(&took).told("s")));
        asked.disconnect().await?;
        server.stop()?;
    }
    Ok(rows)
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
