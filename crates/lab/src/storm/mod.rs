//! Connection storms: how many connections a second a server takes, and what breaks first beyond that.
//!
//! Clients come at a steady rate, whether those before them were served or not: connect, one statement, disconnect. The
//! highest rate at which nearly all of them are served in time is searched for, on a fresh server for each setting.
//! They run on the server's own machine and take CPU there, so a rate is for comparing settings.

mod clients;
mod search;

use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use spindoctor_model::Flavor;

use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};
use search::Search;
pub use search::{Breaks, Failure, Round, breaks_first};

/// What it is called, beside the scenarios and experiments.
pub const NAME: &str = "connection-storm";

/// What is done, in a paragraph.
pub const STORY: &str = "Clients connect, send one statement and disconnect, at a steady rate, whether those before them were \
                         served or not. The highest rate at which 99 % are served within 0.25 s is searched for, as the \
                         server is installed and with other settings of thread cache, back_log and thread pool; beyond it, \
                         what broke first is told.";

/// Rate with which a search begins, connections a second: every server on any machine takes it.
const FIRST_RATE: f64 = 250.0;
/// Between two rounds: who is late leaves, threads come back to the cache.
const REST: Duration = Duration::from_millis(500);
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
        is_on: |flavor| flavor == Flavor::Mariadb,
    },
];

/// How a storm is run.
#[derive(Debug, Clone, PartialEq)]
pub struct StormOptions {
    /// On which server.
    pub which: Which,
    /// This rate alone, connections a second; else the highest is searched for.
    pub rate: Option<f64>,
    /// How long each rate is tried.
    pub round: Duration,
}

/// What came of a storm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storm {
    /// `MySQL 9.7.4`.
    pub server: String,
    /// One for each setting.
    pub settings: Vec<StormSetting>,
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
    /// Every rate that was tried, in order.
    pub rounds: Vec<Round>,
}

/// Runs storms on every setting. Ctrl-C ends them, and the server.
pub async fn storm(home: &Home, options: &StormOptions, progress: Progress<'_>) -> Result<Storm> {
    tokio::select! {
        storm = uninterrupted(home, options, progress) => storm,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

async fn uninterrupted(home: &Home, options: &StormOptions, progress: Progress<'_>) -> Result<Storm> {
    let version = Installation::find(home, &options.which, progress)?.version;
    let mut settings = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| (setting.is_on)(version.flavor)) {
        settings.push(on(home, options, setting, progress).await?);
    }
    Ok(Storm { server: version.to_string(), settings })
}

async fn on(
    home: &Home,
    options: &StormOptions,
    setting: &Setting,
    progress: Progress<'_>,
) -> Result<StormSetting> {
    let spec = ServerSpec {
        which: options.which.clone(),
        options: setting.options.iter().map(|&option| option.to_owned()).collect(),
        ..ServerSpec::default()
    };
    let server = Server::start(home, &spec, progress).await?;
    // The first connections fill caches.
    round(&server, FIRST_RATE, REST).await?;
    let mut search = match options.rate {
        Some(rate) => Search::of_one(rate),
        None => Search::from(FIRST_RATE),
    };
    let mut rounds = Vec::new();
    while let Some(rate) = search.next_rate() {
        tokio::time::sleep(REST).await;
        let round = round(&server, rate, options.round).await?;
        progress(&format!(
            "{NAME}: {}: {rate:.0} connections a second {}",
            setting.name,
            if round.is_sustained() { "are served" } else { "are too many" }
        ));
        search.tell(rate, round.is_sustained());
        rounds.push(round);
    }
    server.stop()?;
    let first_broken =
        rounds.iter().filter(|round| !round.is_sustained()).min_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok(StormSetting {
        setting: setting.name,
        options: setting.options,
        sustained_per_s: search.sustained(),
        broken_per_s: search.broken(),
        breaks: first_broken.map(breaks_first),
        rounds,
    })
}

/// Clients at one rate, and the server's own numbers meanwhile.
async fn round(server: &Server, rate: f64, time: Duration) -> Result<Round> {
    let before = Readings::take(server).await?;
    let served = clients::come(&server.options("app"), rate, time).await;
    let after = Readings::take(server).await?;
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let per_s = |of: fn(&Readings) -> f64| (of(&after) - of(&before)).max(0.0) / seconds;
    let cpus = per_s(|readings| readings.busy_cpu_s) + per_s(|readings| readings.idle_cpu_s);
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
        idle_cpu_ratio: if cpus > 0.0 { per_s(|readings| readings.idle_cpu_s) / cpus } else { 1.0 },
    })
}

/// What is read of the server and its machine at both ends of a round.
struct Readings {
    at: Instant,
    threads_created: f64,
    /// The accepting thread on a CPU or waiting for one.
    accept_s: f64,
    busy_cpu_s: f64,
    idle_cpu_s: f64,
}

impl Readings {
    async fn take(server: &Server) -> Result<Self> {
        let threads_created = symptom::status(server, "Threads_created").await?;
        let read = |path: String| fs::read_to_string(&path).map_err(Error::file("read", path.as_ref()));
        let schedstat = read(format!("/proc/{0}/task/{0}/schedstat", server.pid()))?;
        let (busy_cpu_s, idle_cpu_s) = cpu_seconds(&read("/proc/stat".to_owned())?);
        Ok(Self {
            at: Instant::now(),
            threads_created,
            accept_s: ran_or_ready_s(&schedstat),
            busy_cpu_s,
            idle_cpu_s,
        })
    }
}

/// `1518325843 93724612 5120`: nanoseconds on a CPU, and waiting for one (sched-stats.rst).
fn ran_or_ready_s(schedstat: &str) -> f64 {
    schedstat.split_ascii_whitespace().take(2).filter_map(|number| number.parse::<f64>().ok()).sum::<f64>()
        / 1e9
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
        assert_eq!(ran_or_ready_s("1500000000 500000000 12\n"), 2.0);
    }

    #[test]
    fn each_setting_has_a_name_of_its_own_and_a_pool_is_mariadbs() {
        let on = |flavor| SETTINGS.iter().filter(|setting| (setting.is_on)(flavor)).count();
        assert_eq!((on(Flavor::Mysql), on(Flavor::Mariadb)), (SETTINGS.len() - 1, SETTINGS.len()));
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS[..at].iter().all(|other| other.name != setting.name), "{}", setting.name);
        }
    }
}
