//! Connection storms: how many connections a second a server takes, and what breaks first beyond that.
//!
//! Clients come at a steady rate, whether those before them were served or not: connect, one statement, disconnect. The
//! search finds the highest rate at which nearly all of them are served in time, on a fresh server for each setting.
//! They run on the server's own machine and take CPU there, so a rate is for comparing settings.

mod clients;
mod search;

use std::fs;
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde::Serialize;
use spindoctor_model::Flavor;
use tokio::time::timeout;

use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::server::{Server, ServerSpec};
use clients::Crowd;
use search::Search;
pub use search::{Breaks, Failure, Round, breaks_first};

/// The storm's name, beside those of scenarios and experiments.
pub const NAME: &str = "connection-storm";

/// What the storm does, in a paragraph.
pub const STORY: &str = "Clients connect, send one statement and disconnect, at a steady rate, whether those before them were \
                         served or not. The highest rate at which 99 % are served within 0.25 s is searched for, as the \
                         server is installed and with other settings of thread cache, back_log and thread pool; beyond it, \
                         the report says what broke first. It takes about four minutes.";

/// Rate with which a search begins, connections a second: every server on any machine takes it.
const FIRST_RATE: f64 = 250.0;
/// Between two rounds: threads come back to the cache.
const REST: Duration = Duration::from_millis(500);
/// A server that serves a client who comes alone within this has nobody left in its queue, those who gave up among them.
const CALM: Duration = Duration::from_millis(50);
/// The wait for it ends after this; then the next round shows it.
const CALM_PATIENCE: Duration = Duration::from_secs(5);
/// How long the server may take to answer with a counter, in the middle of a storm.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Room for connections, where it is not what is asked about.
const ROOM: &str = "--max-connections=4000";

/// How a server is set for a storm.
#[derive(Debug, Clone, Copy)]
struct Setting {
    name: &'static str,
    options: &'static [&'static str],
    is_on: fn(Flavor) -> bool,
}

/// The settings, in the order in which they are tried.
const SETTINGS: &[Setting] = &[
    Setting { name: "as installed", options: &[], is_on: |_| true },
    Setting { name: "max_connections 4000", options: &[ROOM], is_on: |_| true },
    Setting { name: "thread_cache_size 0", options: &[ROOM, "--thread-cache-size=0"], is_on: |_| true },
    Setting { name: "thread_cache_size 512", options: &[ROOM, "--thread-cache-size=512"], is_on: |_| true },
    Setting { name: "back_log 8", options: &[ROOM, "--back-log=8"], is_on: |_| true },
    Setting {
        name: "pool-of-threads",
        options: &[ROOM, "--thread-handling=pool-of-threads"],
        // MySQL's own is in its Enterprise Edition only.
        is_on: |flavor| flavor != Flavor::Mysql,
    },
];

/// How a storm is run.
#[derive(Debug, Clone, PartialEq)]
pub struct StormOptions {
    /// The server.
    pub which: Which,
    /// This rate alone, connections a second; else the highest is searched for.
    pub rate: Option<f64>,
    /// How long each rate is tried.
    pub round: Duration,
    /// No setting and no second rate of one is begun after this: what was not tried is then listed.
    pub max_time: Duration,
}

/// What came of a storm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storm {
    /// `MySQL 9.7.4`.
    pub server: String,
    /// One for each setting.
    pub settings: Vec<StormSetting>,
    /// Settings that there was no time for.
    pub not_tried: Vec<&'static str>,
}

/// A storm on one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StormSetting {
    /// `thread_cache_size 0`.
    pub setting: &'static str,
    /// The options that the server was started with.
    pub options: &'static [&'static str],
    /// The highest rate that was sustained, connections a second.
    pub sustained_per_s: Option<f64>,
    /// The lowest rate that was not.
    pub broken_per_s: Option<f64>,
    /// What broke first there.
    pub breaks: Option<Breaks>,
    /// False where the time was over before the highest rate was found.
    pub is_complete: bool,
    /// Every rate that was tried, in order.
    pub rounds: Vec<Round>,
}

impl StormSetting {
    /// The highest rate that was sustained, as it went.
    pub fn best(&self) -> Option<&Round> {
        self.rounds.iter().filter(|round| round.is_sustained()).max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    /// The lowest rate that was not.
    pub fn first_broken(&self) -> Option<&Round> {
        self.rounds.iter().filter(|round| !round.is_sustained()).min_by(|a, b| a.rate.total_cmp(&b.rate))
    }
}

/// Runs storms on every setting, from this thread alone. Ctrl-C ends them, and the server.
pub async fn storm(home: &Home, options: &StormOptions, progress: Progress<'_>) -> Result<Storm> {
    tokio::select! {
        storm = uninterrupted(home, options, progress) => storm,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

async fn uninterrupted(home: &Home, options: &StormOptions, progress: Progress<'_>) -> Result<Storm> {
    let version = Installation::find(home, &options.which, progress)?.version;
    let until = Instant::now() + options.max_time;
    let mut storm = Storm { server: version.to_string(), settings: Vec::new(), not_tried: Vec::new() };
    for setting in SETTINGS.iter().filter(|setting| (setting.is_on)(version.flavor)) {
        if Instant::now() >= until {
            storm.not_tried.push(setting.name);
        } else {
            storm.settings.push(on(home, options, setting, until, progress).await?);
        }
    }
    Ok(storm)
}

async fn on(
    home: &Home,
    options: &StormOptions,
    setting: &Setting,
    until: Instant,
    progress: Progress<'_>,
) -> Result<StormSetting> {
    let spec = ServerSpec {
        which: options.which.clone(),
        options: setting.options.iter().map(|&option| option.to_owned()).collect(),
        ..ServerSpec::default()
    };
    let server = Server::start(home, &spec, progress).await?;
    let mut witness = Witness::connect(&server).await?;
    // The first connections fill caches.
    witness.round(FIRST_RATE, REST).await?;
    let mut search = match options.rate {
        Some(rate) => Search::of_one(rate),
        None => Search::from(FIRST_RATE),
    };
    let mut rounds: Vec<Round> = Vec::new();
    // Whatever was begun is tried once.
    while let Some(rate) = search.next_rate().filter(|_| rounds.is_empty() || Instant::now() < until) {
        let mut round = witness.round(rate, options.round).await?;
        if round.nearly_is() {
            round = witness.round(rate, options.round).await?;
        }
        progress(&format!(
            "{NAME}: {}: {rate:.0} connections a second {}",
            setting.name,
            if round.is_sustained() { "are served" } else { "are too many" }
        ));
        search.record(rate, round.is_sustained());
        rounds.push(round);
    }
    witness.leave().await;
    server.stop()?;
    let mut tried = StormSetting {
        setting: setting.name,
        options: setting.options,
        sustained_per_s: search.sustained(),
        broken_per_s: search.broken(),
        breaks: None,
        is_complete: search.next_rate().is_none(),
        rounds,
    };
    tried.breaks = tried.first_broken().map(breaks_first);
    Ok(tried)
}

/// Who lets clients come and reads the server's own numbers beside them: over a session that was there before, as in a
/// storm no other is let in.
struct Witness<'a> {
    server: &'a Server,
    session: Conn,
}

impl<'a> Witness<'a> {
    async fn connect(server: &'a Server) -> Result<Self> {
        let session = server.connect().await.map_err(Error::statement("connect"))?;
        Ok(Self { server, session })
    }

    /// Clients at one rate, once the server is calm, and what the server did while they came.
    async fn round(&mut self, rate: f64, time: Duration) -> Result<Round> {
        self.calm().await;
        let before = self.read().await?;
        let crowd = Crowd::come(&self.server.options("app"), rate, time).await;
        // Before the last of them are waited for: a server that clients gave up on rests then.
        let after = self.read().await?;
        let served = crowd.leave().await;
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let per_s = |of: fn(&Readings) -> f64| (of(&after) - of(&before)).max(0.0) / seconds;
        let cpus = per_s(|readings| readings.busy_cpu_s) + per_s(|readings| readings.idle_cpu_s);
        let of_cpus = |cpus_taken: f64, unknown| if cpus > 0.0 { cpus_taken / cpus } else { unknown };
        Ok(Round {
            rate,
            seconds: time.as_secs_f64(),
            due: served.due,
            in_time: served.in_time,
            p50_ms: served.percentile_ms(0.50),
            p99_ms: served.percentile_ms(0.99),
            failures: served.failures,
            threads_created_per_s: per_s(|readings| readings.threads_created),
            accept_busy_ratio: per_s(|readings| readings.accept_s).min(1.0),
            clients_busy_ratio: per_s(|readings| readings.clients_s).min(1.0),
            clients_cpu_ratio: of_cpus(per_s(|readings| readings.clients_cpu_s), 0.0).min(1.0),
            idle_cpu_ratio: of_cpus(per_s(|readings| readings.idle_cpu_s), 1.0),
        })
    }

    /// Waits until nobody stands in the queue any more: clients that gave up are taken in one by one before the next.
    async fn calm(&self) {
        let (options, begun) = (self.server.options("app"), Instant::now());
        while begun.elapsed() < CALM_PATIENCE {
            if clients::one(&options).await.is_some_and(|took| took <= CALM) {
                break;
            }
            // One who is refused is so at once.
            tokio::time::sleep(CALM).await;
        }
        tokio::time::sleep(REST).await;
    }

    async fn read(&mut self) -> Result<Readings> {
        let at = Instant::now();
        let read = |path: &str| fs::read_to_string(path).map_err(Error::file("read", path.as_ref()));
        let pid = self.server.pid();
        let (accept_cpu_s, accept_ready_s) =
            parse_schedstat(&read(&format!("/proc/{pid}/task/{pid}/schedstat"))?);
        let (clients_cpu_s, clients_ready_s) = parse_schedstat(&read("/proc/thread-self/schedstat")?);
        let (busy_cpu_s, idle_cpu_s) = cpu_seconds(&read("/proc/stat")?);
        Ok(Readings {
            at,
            threads_created: self.threads_created().await?,
            accept_s: accept_cpu_s + accept_ready_s,
            clients_s: clients_cpu_s + clients_ready_s,
            clients_cpu_s,
            busy_cpu_s,
            idle_cpu_s,
        })
    }

    async fn threads_created(&mut self) -> Result<f64> {
        const STATEMENT: &str = "SHOW GLOBAL STATUS LIKE 'Threads_created'";
        let answer = timeout(ANSWERS_WITHIN, self.session.query_first(STATEMENT)).await;
        let answered: Option<(String, String)> = answer
            .map_err(|_| Error::Silent { statement: STATEMENT, seconds: ANSWERS_WITHIN.as_secs() })?
            .map_err(Error::statement(STATEMENT))?;
        Ok(answered.and_then(|(_, value)| value.parse().ok()).unwrap_or_default())
    }

    async fn leave(self) {
        // The server is ended next, whatever becomes of the goodbye.
        let _closed = timeout(ANSWERS_WITHIN, self.session.disconnect()).await;
    }
}

/// What is read of the server, the clients and the machine at both ends of a round.
struct Readings {
    at: Instant,
    threads_created: f64,
    /// The accepting thread on a CPU or waiting for one.
    accept_s: f64,
    /// The clients' thread, which is this one, on a CPU or waiting for one.
    clients_s: f64,
    /// The clients' thread on a CPU.
    clients_cpu_s: f64,
    busy_cpu_s: f64,
    idle_cpu_s: f64,
}

/// `1518325843 93724612 5120`: nanoseconds on a CPU, and waiting for one (sched-stats.rst). Both as seconds; 0 of a
/// kernel that does not count.
fn parse_schedstat(schedstat: &str) -> (f64, f64) {
    let mut seconds =
        schedstat.split_ascii_whitespace().map(|number| number.parse::<f64>().unwrap_or(0.0) / 1e9);
    (seconds.next().unwrap_or(0.0), seconds.next().unwrap_or(0.0))
}

/// `cpu  74608 2520 24433 1117073 6176 0 4054 0 0 0`: user, nice, system, idle, iowait, irq, softirq, steal in ticks; guest
/// time is in user (proc_stat(5)). Busy and idle seconds.
fn cpu_seconds(stat: &str) -> (f64, f64) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).take(8).filter_map(|number| number.parse().ok()).collect();
    let per_s = rustix::param::clock_ticks_per_second() as f64;
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    let all: f64 = ticks.iter().sum();
    ((all - idle) / per_s, idle / per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_cpu_time_is_busy_or_idle() {
        let per_s = rustix::param::clock_ticks_per_second() as f64;
        let (busy, idle) = cpu_seconds("cpu  100 0 50 700 100 0 50 0 30 0\ncpu0 1 2 3\n");
        assert_eq!((busy * per_s, idle * per_s), (200.0, 800.0));
        assert_eq!(cpu_seconds(""), (0.0, 0.0));
        assert_eq!(parse_schedstat("1500000000 500000000 12\n"), (1.5, 0.5));
        assert_eq!(parse_schedstat(""), (0.0, 0.0));
    }

    #[test]
    fn each_setting_has_a_name_of_its_own_and_a_pool_is_not_mysqls() {
        let on = |flavor| SETTINGS.iter().filter(|setting| (setting.is_on)(flavor)).count();
        assert_eq!((on(Flavor::Mysql), on(Flavor::Mariadb)), (SETTINGS.len() - 1, SETTINGS.len()));
        assert_eq!(on(Flavor::Percona), SETTINGS.len());
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS[..at].iter().all(|other| other.name != setting.name), "{}", setting.name);
        }
    }

    fn round(rate: f64, in_time: u64) -> Round {
        Round { rate, due: 100, in_time, ..Round::default() }
    }

    #[test]
    fn what_is_reported_of_a_setting_is_its_best_round_and_the_first_that_broke() {
        let tried = StormSetting {
            setting: "as installed",
            options: &[],
            sustained_per_s: Some(500.0),
            broken_per_s: Some(700.0),
            breaks: None,
            is_complete: true,
            rounds: vec![round(250.0, 100), round(500.0, 99), round(1_000.0, 3), round(700.0, 90)],
        };
        assert_eq!(tried.best().map(|round| round.rate), Some(500.0));
        assert_eq!(tried.first_broken().map(|round| round.rate), Some(700.0));
    }
}
