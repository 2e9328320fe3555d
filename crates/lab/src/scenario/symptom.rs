//! Readings by which a scenario checks that its server has the problem, taken without spindoctor's own sources: a
//! diagnosis is scored against these readings.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;

use crate::error::{Error, Result};
use crate::server::Server;

/// How long counters are watched for a rate.
const SPAN: Duration = Duration::from_millis(500);

/// How many of so many sessions must be seen to wait: one or the other comes back for the next wait.
pub(super) fn most_of(sessions: u32) -> u64 {
    (u64::from(sessions) * 5 / 6).max(1)
}

/// How many sessions are in a state (`LIKE` pattern).
pub(crate) async fn sessions_in_state(server: &Server, pattern: &str) -> Result<u64> {
    number(
        server,
        &format!("SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '{pattern}'"),
    )
    .await
}

/// The first cell of an answer as a number.
pub(crate) async fn number(server: &Server, question: &str) -> Result<u64> {
    let cell = server.ask(question).await?.unwrap_or_default();
    // Some counts come as decimals.
    Ok(cell.parse::<f64>().unwrap_or_default() as u64)
}

/// How much a status counter grows per second.
pub(super) async fn status_per_s(server: &Server, names: &[&str]) -> Result<Vec<f64>> {
    let read = async || -> Result<Vec<f64>> {
        let mut values = Vec::new();
        for name in names {
            values.push(status(server, name).await?);
        }
        Ok(values)
    };
    let (start, first) = (Instant::now(), read().await?);
    tokio::time::sleep(SPAN).await;
    let last = read().await?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(first.iter().zip(last).map(|(first, last)| (last - first) / seconds).collect())
}

/// A status variable now.
pub(crate) async fn status(server: &Server, name: &str) -> Result<f64> {
    let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
    let statement = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let row: Option<(String, String)> =
        conn.query_first(statement.as_str()).await.map_err(Error::statement(&statement))?;
    let _closed = conn.disconnect().await;
    Ok(row.and_then(|(_, value)| value.parse().ok()).unwrap_or_default())
}

/// Share of the periods in which the kernel stopped the server for its quota.
pub(super) async fn throttled_share(server: &Server) -> Result<f64> {
    let path = server.group().unwrap_or(Path::new("/")).join("cpu.stat");
    let read = || -> Result<(f64, f64)> {
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or_default()
        };
        Ok((value("nr_periods "), value("nr_throttled ")))
    };
    let (periods, throttled) = read()?;
    tokio::time::sleep(SPAN).await;
    let (periods_after, throttled_after) = read()?;
    Ok((throttled_after - throttled) / (periods_after - periods).max(1.0))
}

/// User CPU of the server's process so far, seconds.
pub(super) fn user_cpu_s(server: &Server) -> Result<f64> {
    let path = format!("/proc/{}/stat", server.pid());
    let stat = fs::read_to_string(&path).map_err(Error::file("read", path.as_ref()))?;
    let ticks =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(14 - 3)?.parse::<f64>().ok());
    Ok(ticks.unwrap_or_default() / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU time of a thread at an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    /// When it was read.
    pub(super) at: Instant,
    /// Seconds on a CPU so far.
    pub(super) ran_s: f64,
}

/// CPU time of the thread that accepts: on MySQL and MariaDB the one that the process began with.
pub(super) fn accepting_thread(server: &Server) -> Result<Ran> {
    let path = format!("/proc/{0}/task/{0}/schedstat", server.pid());
    // 2157643289 88121 4711: ran, waited, turns; nanoseconds.
    let text = fs::read_to_string(&path).map_err(Error::file("read", path.as_ref()))?;
    let ran_ns = text.split_ascii_whitespace().next().and_then(|ran| ran.parse::<f64>().ok());
    Ok(Ran { at: Instant::now(), ran_s: ran_ns.unwrap_or_default() / 1e9 })
}

/// User CPU for each commit, microseconds, the mean of some seconds.
pub(super) async fn user_us_per_commit(server: &Server) -> Result<f64> {
    const SPAN: Duration = Duration::from_secs(2);
    let commits = async || status(server, "Handler_commit").await;
    let (user, before) = (user_cpu_s(server)?, commits().await?);
    tokio::time::sleep(SPAN).await;
    let (user, commits) = (user_cpu_s(server)? - user, commits().await? - before);
    Ok(1e6 * user / commits.max(1.0))
}

/// Threads of the server that run or wait for a CPU, the mean of some looks.
pub(super) async fn runnable_threads(server: &Server) -> Result<f64> {
    const LOOKS: u32 = 10;
    let path = format!("/proc/{}/task", server.pid());
    let mut runnable = 0u32;
    for _ in 0..LOOKS {
        for task in fs::read_dir(&path).map_err(Error::file("list", path.as_ref()))?.flatten() {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            runnable += u32::from(stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" R")));
        }
        tokio::time::sleep(SPAN / LOOKS).await;
    }
    Ok(f64::from(runnable) / f64::from(LOOKS))
}

/// Major page faults of the server so far.
pub(super) fn major_faults(server: &Server) -> Result<u64> {
    let path = format!("/proc/{}/stat", server.pid());
    let stat = fs::read_to_string(&path).map_err(Error::file("read", path.as_ref()))?;
    let faults =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(12 - 3)?.parse().ok());
    Ok(faults.unwrap_or_default())
}

/// State letter of the server's process.
pub(super) fn process_state(server: &Server) -> Result<char> {
    let path = format!("/proc/{}/stat", server.pid());
    let stat = fs::read_to_string(&path).map_err(Error::file("read", path.as_ref()))?;
    Ok(stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next()).unwrap_or('?'))
}

/// Waits a second for latches that a file of InnoDB's creates, by `SHOW ENGINE INNODB MUTEX`.
///
/// The row is like `InnoDB | sum rwlock: dict0dict.cc:2677 | waits=10` (MySQL 9.7).
pub(super) async fn latch_waits_per_s(server: &Server, file: &str) -> Result<f64> {
    let read = async || -> Result<f64> {
        let rows = show(server, "SHOW ENGINE INNODB MUTEX").await?;
        let waits = |(_, name, status): &(String, String, String)| {
            let waits = status.split_once("waits=")?.1.split(',').next()?.parse::<f64>().ok()?;
            name.contains(file).then_some(waits)
        };
        Ok(rows.iter().filter_map(waits).sum())
    };
    let (start, first) = (Instant::now(), read().await?);
    tokio::time::sleep(SPAN).await;
    Ok((read().await? - first) / start.elapsed().as_secs_f64())
}

/// Threads that wait for a latch now, by the SEMAPHORES of `SHOW ENGINE INNODB STATUS`.
///
/// A line is like `--Thread 140 has waited at fsp0fsp.cc line 2677 for 1 seconds the semaphore:`.
pub(super) async fn semaphore_waiters(server: &Server) -> Result<usize> {
    let rows = show(server, "SHOW ENGINE INNODB STATUS").await?;
    Ok(rows.iter().map(|(_, _, text)| text.matches(" has waited at ").count()).sum())
}

/// Transactions that wait for a table's auto-increment lock, by the TRANSACTIONS of `SHOW ENGINE INNODB STATUS`.
///
/// A line is like ``TABLE LOCK table `sbtest`.`archive` trx id 4711 lock mode AUTO-INC waiting``.
pub(super) async fn auto_increment_waiters(server: &Server) -> Result<usize> {
    let rows = show(server, "SHOW ENGINE INNODB STATUS").await?;
    Ok(rows.iter().map(|(_, _, text)| text.matches("lock mode AUTO-INC waiting").count()).sum())
}

/// Statements that InnoDB has not let in, by the ROW OPERATIONS of `SHOW ENGINE INNODB STATUS`.
///
/// The line is like `2 queries inside InnoDB, 14 queries in queue`.
pub(super) async fn queries_in_queue(server: &Server) -> Result<u64> {
    let rows = show(server, "SHOW ENGINE INNODB STATUS").await?;
    let queued =
        |text: &str| text.split_once(" queries inside InnoDB, ")?.1.split_whitespace().next()?.parse().ok();
    Ok(rows.iter().find_map(|(_, _, text)| queued(text)).unwrap_or_default())
}

/// Share of the sessions at work that wait for a row lock, the mean of some looks.
pub(super) async fn lock_wait_share(server: &Server) -> Result<f64> {
    const LOOKS: u32 = 12;
    // INNODB_TRX shows the same again to those who come back within 100 ms.
    const APART: Duration = Duration::from_millis(150);
    // Of `app`: this session does not count.
    const AT_WORK: &str = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app' AND command NOT IN ('Sleep', 'Daemon')";
    const WAITING: &str = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    let (mut at_work, mut waiting) = (0, 0);
    for _ in 0..LOOKS {
        at_work += number(server, AT_WORK).await?;
        waiting += number(server, WAITING).await?;
        tokio::time::sleep(APART).await;
    }
    Ok(waiting as f64 / at_work.max(1) as f64)
}

/// For how long the server's threads ran and waited for a CPU, seconds of each second.
pub(super) async fn ran_and_waited(server: &Server) -> Result<(f64, f64)> {
    let path = format!("/proc/{}/task", server.pid());
    let read = || -> Result<(f64, f64)> {
        let mut sum = (0.0, 0.0);
        for task in fs::read_dir(&path).map_err(Error::file("list", path.as_ref()))?.flatten() {
            // 2157643289 88121 4711: ran, waited, turns; nanoseconds.
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_ascii_whitespace().filter_map(|number| number.parse::<f64>().ok());
            sum.0 += numbers.next().unwrap_or_default() / 1e9;
            sum.1 += numbers.next().unwrap_or_default() / 1e9;
        }
        Ok(sum)
    };
    let (start, first) = (Instant::now(), read()?);
    tokio::time::sleep(2 * SPAN).await;
    let (last, seconds) = (read()?, start.elapsed().as_secs_f64());
    Ok(((last.0 - first.0) / seconds, (last.1 - first.1) / seconds))
}

/// Transactions whose old row versions are not purged yet, by the TRANSACTIONS of `SHOW ENGINE INNODB STATUS`.
///
/// The line is like `History list length 3000`.
pub(super) async fn history_length(server: &Server) -> Result<u64> {
    let rows = show(server, "SHOW ENGINE INNODB STATUS").await?;
    let state =
        |text: &str| text.split_once("History list length ")?.1.split_whitespace().next()?.parse().ok();
    Ok(rows.iter().find_map(|(_, _, text)| state(text)).unwrap_or_default())
}

/// Bytes of the redo log since the last checkpoint, by the LOG of `SHOW ENGINE INNODB STATUS`.
///
/// The lines are like `Log sequence number 12545712` and `Last checkpoint at  12545703`.
pub(super) async fn checkpoint_age(server: &Server) -> Result<u64> {
    let rows = show(server, "SHOW ENGINE INNODB STATUS").await?;
    let after = |text: &str, name: &str| -> Option<u64> {
        text.split_once(name)?.1.split_whitespace().next()?.parse().ok()
    };
    let age =
        |text: &str| after(text, "Log sequence number ")?.checked_sub(after(text, "Last checkpoint at ")?);
    Ok(rows.iter().find_map(|(_, _, text)| age(text)).unwrap_or_default())
}

async fn show(server: &Server, statement: &str) -> Result<Vec<(String, String, String)>> {
    let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
    let rows = conn.query(statement).await.map_err(Error::statement(statement))?;
    let _closed = conn.disconnect().await;
    Ok(rows)
}
