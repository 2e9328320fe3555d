//! The readings of a block, once per second and at both ends: the server's counters over a session of its own, and its
//! process's CPU time.
//!
//! In: a [`Target`], and the server's process where it runs on this host. Out: [`Counters`], and of two of them
//! [`Rates`]. A reading that this server does not have is none, and [`Meter::notes`] says why. Nothing is changed here.

mod histogram;
mod segments;
mod served;
mod speed;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use spindoctor_collect::asking::{Known, ask_all};
use spindoctor_collect::gauges::read_host;
use spindoctor_collect::host;
use spindoctor_collect::host::data_directory::undo_bytes_in;
use spindoctor_collect::mysql::{
    ConnectError, QueryError, Rows, Session, SessionCost, Target, replica_status,
};
use spindoctor_model::diagnosis::DiagnosedServer;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Fairness, ServerSample, ServerVersion};
use thiserror::Error;

pub use histogram::Histogram;
pub use segments::SegmentWaits;
pub use served::Served;
pub use speed::Loops;

/// The status variables that are read.
///
/// Cost: the counters of every connection are added up under LOCK_status, 1 to 3 ms. Safe to ask every second.
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN \
     ('Questions', 'Com_commit', 'Handler_commit', 'Threads_running', 'Threads_connected', 'Uptime')";
/// Statements that ended in an error, by the server's own count.
///
/// Cost: about 220 rows, each summed over accounts and connections, 0.7 ms with few, 5 ms with 1,000. No lock.
const ERRORS: &str =
    "SELECT SUM(SUM_ERRORS) FROM performance_schema.events_statements_summary_global_by_event_name";

/// How long a server that stopped answering is asked again before the trial is given up: a restart of a server with a
/// small redo log takes some seconds, and old values are back by then in any case.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the counters said at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    /// When, half way between question and answer.
    pub at: Instant,
    /// Seconds since the server's start, whole ones.
    pub uptime_s: u64,
    /// Statements that clients sent, without the meter's own.
    pub statements: f64,
    /// Transactions that were committed by statement.
    pub commits: f64,
    /// Statements that run at the instant.
    pub threads_running: f64,
    /// Connections.
    pub connections: f64,
    /// Statements that ended in an error.
    pub errors: Option<f64>,
    /// CPU time of the server's process, microseconds.
    pub cpu_us: Option<f64>,
    /// How long statements took.
    pub histogram: Option<Histogram>,
    /// How far the slowest channel of this replica is behind, seconds; none where it is no replica or does not say.
    pub behind_s: Option<f64>,
    /// What is free on the disk of the data directory, bytes.
    pub disk_free_bytes: Option<u64>,
    /// How large that disk is, bytes.
    pub disk_bytes: Option<u64>,
    /// Bytes on disk of the undo tablespaces, where they are watched.
    pub undo_bytes: Option<u64>,
    /// Waits for rollback segments, where they are watched and counted.
    pub segments: Option<SegmentWaits>,
    /// The transactions of each thread, where they are counted.
    pub served: Option<Served>,
    /// How long loops took that are always the same, where the server is on this host.
    pub loops: Option<Loops>,
}

/// What went on between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// How long it was, seconds.
    pub seconds: f64,
    /// Statements a second.
    pub throughput_per_s: f64,
    /// 95th percentile of a statement's time, milliseconds.
    pub p95_ms: Option<f64>,
    /// CPU time of the server's process for each statement, microseconds.
    pub cpu_us_per_query: Option<f64>,
    /// Statements that ended in an error, a second.
    pub errors_per_s: Option<f64>,
    /// How long the host's CPUs took for a loop that is always the same, nanoseconds.
    pub loop_ns: Option<f64>,
    /// See [`spindoctor_model::Block::segment_waits_per_s`].
    pub segment_waits_per_s: Option<f64>,
    /// See [`spindoctor_model::Block::segment_wait_ms_per_s`].
    pub segment_wait_ms_per_s: Option<f64>,
    /// See [`spindoctor_model::Block::fairness`].
    pub fairness: Option<Fairness>,
}

/// Why there is no reading.
#[derive(Debug, Error, Clone)]
pub enum MeasureError {
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A statement that measuring needs was refused.
    #[error("the server's counters could not be read: {0}")]
    Query(#[from] QueryError),
    /// No known server.
    #[error("the server says that its version is {0:?}; spindoctor knows MySQL, MariaDB and Percona Server")]
    UnknownServer(String),
}

/// Reads a server's counters.
#[derive(Debug)]
pub struct Meter {
    target: Target,
    session: Session,
    host: Option<host::Target>,
    server: DiagnosedServer,
    version: ServerVersion,
    has: Has,
    datadir: Option<PathBuf>,
    /// The server's undo directory, where undo tablespaces are tried.
    undo_folder: Option<String>,
    speed: Option<speed::Speed>,
    /// Statements that the meter sent over sessions that are gone.
    earlier: SessionCost,
    /// True where a question was given up: its answer must not be taken for that of the next one.
    is_given_up: bool,
    notes: Vec<String>,
}

/// What this server has.
#[derive(Debug, Clone, Copy, Default)]
struct Has {
    histogram: bool,
    errors: bool,
    channels: bool,
    segments: bool,
    served: bool,
}

impl Meter {
    /// Connects, and finds out which sources this server has.
    ///
    /// # Errors
    /// That there is no session, that it is no known server, or that its status cannot be read.
    pub async fn connect(target: &Target, host: Option<host::Target>) -> Result<Self, MeasureError> {
        let session = Session::connect(target, &target.limits).await?;
        let version = session
            .version()
            .ok_or_else(|| MeasureError::UnknownServer(session.version_text().to_owned()))?;
        let server = DiagnosedServer {
            flavor: Some(version.flavor),
            version: Some(session.version_text().to_owned()),
            hostname: session.hostname().to_owned(),
            address: target.address(),
            pid: host.as_ref().map(|host| host.pid),
            ..DiagnosedServer::default()
        };
        let notes = session.notes().to_vec();
        let mut meter = Self {
            target: target.clone(),
            session,
            host,
            server,
            version,
            has: Has::default(),
            datadir: None,
            undo_folder: None,
            speed: None,
            earlier: SessionCost::default(),
            is_given_up: false,
            notes,
        };
        meter.find_out().await?;
        meter.speed = meter.host.as_ref().and_then(|_| speed::Speed::start());
        Ok(meter)
    }

    /// Asks once for everything that may be missing, and notes what is.
    async fn find_out(&mut self) -> Result<(), MeasureError> {
        let status = self.status().await?;
        self.server.uptime_s = status.number("Uptime").map(|seconds| seconds as u64);
        self.server.threads = status.number("Threads_connected").map(|threads| threads as u64);
        match self.optional(histogram::STATEMENT).await? {
            Ok(_) => self.has.histogram = true,
            Err(why) => self.notes.push(format!("the 95th percentile is not compared: {why}")),
        }
        match self.optional(ERRORS).await? {
            Ok(rows) if rows.first().and_then(|row| row.at(0)).is_some() => self.has.errors = true,
            Ok(_) => self.notes.push("errors are not watched: performance_schema is off".to_owned()),
            Err(why) => self.notes.push(format!("errors are not watched: {why}")),
        }
        let asked = self.optional(served::IS_ON).await?;
        match served::why_off(asked.as_ref().map_err(String::as_str)) {
            None => self.has.served = true,
            Some(why) => self.notes.push(why),
        }
        match self.channels().await? {
            Ok(channels) => self.has.channels = channels > 0,
            Err(why) => self.notes.push(format!("replication lag is not watched: {why}")),
        }
        let datadir = self.optional("SELECT @@datadir").await?;
        let datadir = datadir.ok().and_then(|rows| Some(rows.first()?.at(0)?.to_owned()));
        match (&self.host, datadir) {
            // As the server sees it: in a container its root is another.
            (Some(host), Some(datadir)) => {
                self.datadir = Some(host.process("root").join(datadir.trim_start_matches('/')));
            }
            (None, _) => self.notes.push(
                "CPU per statement is not compared and the disk is not watched: the server's process is not on this host"
                    .to_owned(),
            ),
            _ => {}
        }
        Ok(())
    }

    /// Undo tablespaces are tried: their bytes in the server's undo directory are read from now on, and the waits for rollback
    /// segments where this server counts them. There are `segments_there` of them in all.
    ///
    /// # Errors
    /// The session broke.
    pub async fn watch_undo(&mut self, folder: &str, segments_there: u32) -> Result<(), MeasureError> {
        self.undo_folder = Some(folder.to_owned());
        let asked = self.optional(segments::IS_ON).await?;
        match segments::why_off(asked.as_ref().map_err(String::as_str)) {
            None => {
                self.has.segments = true;
                let instances = self.optional(segments::INSTANCES).await?;
                self.notes.extend(segments::partly(instances.as_ref().ok(), segments_there));
            }
            Some(why) => self.notes.push(format!("waits for rollback segments are not known: {why}")),
        }
        Ok(())
    }

    /// Reads everything now. Where the server does not answer it is asked again for half a minute.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn read(&mut self) -> Result<Counters, MeasureError> {
        let begun = Instant::now();
        while self.is_given_up {
            match self.reconnect().await {
                Ok(()) => self.is_given_up = false,
                Err(_) if begun.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            match self.attempt().await {
                Err(_) if self.session.is_broken() && begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    // Where that fails, too, the next attempt says so again, until patience ends.
                    let _ = self.reconnect().await;
                }
                outcome => return outcome,
            }
        }
    }

    /// To be called where a reading was broken off: the next one begins on another connection.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    async fn reconnect(&mut self) -> Result<(), ConnectError> {
        let session = Session::connect(&self.target, &self.target.limits).await?;
        let old = std::mem::replace(&mut self.session, session).cost();
        self.earlier.queries += old.queries;
        self.earlier.busy_ms += old.busy_ms;
        Ok(())
    }

    async fn attempt(&mut self) -> Result<Counters, MeasureError> {
        let asked = Instant::now();
        let status = self.status().await?;
        let at = asked + asked.elapsed() / 2;
        // `Questions` counts the statement that reads it.
        let own = self.cost().queries;
        let cpu_us = self.cpu_us();
        let number = |name: &str| status.number(name).unwrap_or(0.0);
        let mut counters = Counters {
            at,
            uptime_s: number("Uptime") as u64,
            statements: number("Questions") - own as f64,
            commits: number("Com_commit").max(number("Handler_commit")),
            threads_running: number("Threads_running"),
            connections: number("Threads_connected"),
            errors: None,
            cpu_us,
            histogram: None,
            behind_s: None,
            disk_free_bytes: None,
            disk_bytes: None,
            undo_bytes: None,
            segments: None,
            served: None,
            loops: self.speed.as_ref().map(speed::Speed::so_far),
        };
        if self.has.histogram {
            counters.histogram =
                self.optional(histogram::STATEMENT).await?.ok().map(|rows| Histogram::parse(&rows));
        }
        if self.has.errors {
            let rows = self.optional(ERRORS).await?;
            counters.errors = rows.ok().and_then(|rows| rows.first()?.at(0)?.parse().ok());
        }
        if self.has.channels {
            counters.behind_s = self.behind_s().await?;
        }
        if self.has.segments {
            counters.segments =
                self.optional(segments::STATEMENT).await?.ok().and_then(|rows| SegmentWaits::parse(&rows));
        }
        if self.has.served {
            counters.served = self.optional(served::STATEMENT).await?.ok().map(|rows| Served::parse(&rows));
        }
        if let (Some(host), Some(folder)) = (&self.host, &self.undo_folder) {
            counters.undo_bytes = undo_bytes_in(host, folder);
        }
        if let Some(disk) = self.datadir.as_ref().and_then(|folder| rustix::fs::statvfs(folder).ok()) {
            counters.disk_free_bytes = Some(disk.f_bavail.saturating_mul(disk.f_frsize));
            counters.disk_bytes = Some(disk.f_blocks.saturating_mul(disk.f_frsize));
        }
        Ok(counters)
    }

    async fn status(&mut self) -> Result<NamedValues, QueryError> {
        let rows = self.session.query(STATUS).await?;
        Ok(rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1)?))).collect())
    }

    /// A statement that this server may refuse: then it says why, and the session lives on.
    async fn optional(&mut self, sql: &str) -> Result<Result<Rows, String>, QueryError> {
        match self.session.query(sql).await {
            Ok(rows) => Ok(Ok(rows)),
            Err(error) if self.session.is_broken() => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    async fn replica_sample(&mut self) -> Result<ServerSample, QueryError> {
        let known = Known { version: self.version, variables: None, origin: Instant::now() };
        let mut sample = ServerSample::default();
        ask_all(&mut self.session, &[replica_status::SOURCE], known, &mut sample).await?;
        Ok(sample)
    }

    async fn channels(&mut self) -> Result<Result<usize, String>, QueryError> {
        let sample = self.replica_sample().await?;
        Ok(match sample.replication.unavailable() {
            Some(why) => Err(why.because.clone()),
            None => Ok(sample.replication.value().map_or(0, Vec::len)),
        })
    }

    async fn behind_s(&mut self) -> Result<Option<f64>, QueryError> {
        let sample = self.replica_sample().await?;
        let channels = sample.replication.value().map(Vec::as_slice).unwrap_or_default();
        Ok(channels.iter().filter_map(|channel| channel.behind_s).reduce(f64::max))
    }

    fn cpu_us(&self) -> Option<f64> {
        let sample = read_host(self.host.as_ref()?);
        let process = sample.process.value()?;
        Some((process.user_us + process.system_us) as f64)
    }

    /// The server's process, where it is on this host.
    pub fn host(&self) -> Option<&host::Target> {
        self.host.as_ref()
    }

    /// The server that is measured.
    pub fn server(&self) -> &DiagnosedServer {
        &self.server
    }

    /// Its version.
    pub fn version(&self) -> ServerVersion {
        self.version
    }

    /// What is not compared or not watched here, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What measuring cost the server so far.
    pub fn cost(&self) -> SessionCost {
        let now = self.session.cost();
        SessionCost {
            queries: self.earlier.queries + now.queries,
            busy_ms: self.earlier.busy_ms + now.busy_ms,
        }
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        self.session.close().await;
    }
}

impl Counters {
    /// The rates since an earlier reading; None where the server restarted meanwhile or no time has gone by.
    pub fn since(&self, earlier: &Self) -> Option<Rates> {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let statements = self.statements - earlier.statements;
        if self.is_of_another_start(earlier) || seconds <= 0.0 || statements < 0.0 {
            return None;
        }
        let growth = |now: Option<f64>, then: Option<f64>| Some(now? - then?).filter(|grown| *grown >= 0.0);
        let segments = self.segments.zip(earlier.segments).and_then(|(now, then)| now.since(then));
        let served = self.served.as_ref().zip(earlier.served.as_ref());
        let between = self.histogram.as_ref().zip(earlier.histogram.as_ref());
        Some(Rates {
            seconds,
            throughput_per_s: statements / seconds,
            p95_ms: between.and_then(|(now, then)| now.since(then)?.percentile_ms(0.95)),
            cpu_us_per_query: growth(self.cpu_us, earlier.cpu_us)
                .filter(|cpu| statements >= 1.0 && *cpu > 0.0)
                .map(|cpu| cpu / statements),
            errors_per_s: growth(self.errors, earlier.errors).map(|errors| errors / seconds),
            loop_ns: self
                .loops
                .as_ref()
                .zip(earlier.loops.as_ref())
                .and_then(|(now, then)| now.mean_ns_since(then)),
            segment_waits_per_s: segments.map(|grown| grown.count / seconds),
            segment_wait_ms_per_s: segments.and_then(|grown| Some(grown.wait_ms? / seconds)),
            fairness: served.and_then(|(now, then)| now.since(then)),
        })
    }

    /// True where the server restarted in between: its uptime went back, or grew less than the time that passed. Two
    /// seconds are allowed for a value of whole seconds that is read late.
    pub fn is_of_another_start(&self, earlier: &Self) -> bool {
        let passed = self.at.saturating_duration_since(earlier.at).as_secs();
        self.uptime_s + 2 < earlier.uptime_s + passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(at: Instant, uptime_s: u64, statements: f64) -> Counters {
        Counters {
            at,
            uptime_s,
            statements,
            commits: 0.0,
            threads_running: 1.0,
            connections: 1.0,
            errors: None,
            cpu_us: None,
            histogram: None,
            behind_s: None,
            disk_free_bytes: None,
            disk_bytes: None,
            undo_bytes: None,
            segments: None,
            served: None,
            loops: None,
        }
    }

    #[test]
    fn rates_are_growth_over_the_time_between_and_nothing_is_made_up() {
        let start = Instant::now();
        let later = start + Duration::from_secs(4);
        let earlier = Counters { cpu_us: Some(1e6), ..counters(start, 100, 1_000.0) };
        let now = Counters { cpu_us: Some(3e6), ..counters(later, 104, 9_000.0) };
        let rates = now.since(&earlier).unwrap();
        assert_eq!((rates.seconds, rates.throughput_per_s), (4.0, 2_000.0));
        assert_eq!(rates.cpu_us_per_query, Some(250.0));
        assert_eq!((rates.p95_ms, rates.errors_per_s), (None, None));
    }

    #[test]
    fn a_restart_in_between_is_seen_by_the_uptime() {
        let start = Instant::now();
        let later = start + Duration::from_secs(10);
        let earlier = counters(start, 100, 1_000.0);
        // Back to the beginning; and a start so early that the new uptime is the greater one.
        assert_eq!(counters(later, 3, 50.0).since(&earlier), None);
        assert_eq!(counters(later, 103, 2_000.0).since(&earlier), None);
        assert!(counters(later, 109, 2_000.0).since(&earlier).is_some());
    }
}
