//! Samples every server twice, by SQL alone, and makes a window of each for the rules.
//!
//! In: the servers, and the time between the two samples. Out: a [`Window`] for each server, or why there is none, as
//! they come, through a channel that holds few: the receiver keeps what it needs and drops the rest. The queries are
//! those of `collect`'s sources, within a session that is read only; the host is not read, and every reading of it says
//! so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use spindoctor_collect::asking::Known;
use spindoctor_collect::mysql::{
    Source, Target, global_status, global_variables, innodb_locks, innodb_metrics, innodb_trx,
    metadata_lock_info, perf_schema_data_lock_waits, perf_schema_file_summary, perf_schema_group_members,
    perf_schema_metadata_locks, perf_schema_threads, perf_schema_waits, processlist, replica_status,
    xa_recover,
};
use spindoctor_collect::source::Cadence;
use spindoctor_model::host::{CpuModel, EffectiveCpus, PauseLatency, Quota};
use spindoctor_model::{
    Cost, HostSample, NoSession, NoSessionKind, Reading, Sample, ServerIdentity, ServerSample, ServerVersion,
    Unavailable, Window,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;

use crate::failure::{Failure, Reason};
use crate::schedule::Limits;
use crate::session::Session;
use crate::sources::{SourceAnswer, ask};
use crate::turns;
use crate::wire::tls::Connectors;

/// What is asked, in order: what the rest depends on first, as in `collect`'s own list; then the [`REPLICA`]. Not asked: the
/// summary of statements (200 texts of each server) and the text of `SHOW ENGINE INNODB STATUS`, neither of which a rule
/// needs that can do without the host.
const SOURCES: &[Source] = &[
    global_variables::SOURCE,
    global_status::SOURCE,
    perf_schema_threads::SOURCE,
    processlist::SOURCE,
    innodb_trx::SOURCE,
    xa_recover::SOURCE,
    perf_schema_data_lock_waits::SOURCE,
    innodb_locks::SOURCE,
    perf_schema_metadata_locks::SOURCE,
    metadata_lock_info::SOURCE,
    innodb_metrics::SOURCE,
    perf_schema_waits::SOURCE,
    perf_schema_file_summary::SOURCE,
    perf_schema_group_members::SOURCE,
];

/// How a replica keeps up. It is asked last, and apart from all others: it waits while somebody stops the replica, which
/// may take as long as a transaction does.
const REPLICA: Source = replica_status::SOURCE;
/// A session that has not answered by then waits for somebody: the answer takes 0.2 ms.
const REPLICA_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Servers that are being looked at at once: of each, whole lists are in memory, and an answer that waits for ours to be
/// parsed comes later than it was given, which falsifies rates. Parsing takes a fifth of a millisecond an answer, so 256
/// are late by 50 ms at most; at 100 ms to each server, a thousand still take five seconds.
const LOOKS: usize = 256;

/// An answer of the first look that is not larger is kept until the second, KiB: variables, counters, and a process list of
/// three hundred connections.
const SMALL_KIB: u32 = 64;
/// Larger ones of all servers share this much memory, KiB. One that finds no room is not kept: that list is then read in the
/// second look alone.
const ROOM_KIB: usize = 256 << 10;

/// Windows that may wait for who takes them.
const WAITING: usize = 16;

/// ER_CON_COUNT_ERROR: too many connections.
const TOO_MANY_CONNECTIONS: u16 = 1040;

/// Where the CPUs that a list grants a server stand in its window, in the words of the evidence.
pub const GRANTED_BY: &str = "the tag cpus";

/// What is known of a server's host without looking at it: the list says so, or a recorder there wrote it down.
#[derive(Debug, Clone, Default)]
pub struct KnownHost {
    /// CPUs that the server is granted.
    pub granted_cpus: Option<f64>,
    /// The length of its PAUSE.
    pub pause: Option<PauseLatency>,
    /// Its CPU.
    pub cpu: Option<CpuModel>,
}

impl KnownHost {
    /// This, and where it says nothing what another one says.
    fn or(&self, other: Option<&Self>) -> Self {
        let Some(other) = other else { return self.clone() };
        Self {
            granted_cpus: self.granted_cpus.or(other.granted_cpus),
            pause: self.pause.clone().or_else(|| other.pause.clone()),
            cpu: self.cpu.clone().or_else(|| other.cpu.clone()),
        }
    }
}

/// A window of a server, by its place in the list, or why there is none.
pub type Examined = (usize, Result<Box<Window>, Failure>);

/// A channel for windows, bounded.
pub fn channel() -> (mpsc::Sender<Examined>, mpsc::Receiver<Examined>) {
    mpsc::channel(WAITING)
}

/// The servers that are looked at, and how.
#[derive(Clone)]
pub struct Examination {
    targets: Arc<[Target]>,
    /// What the list says of each one's host.
    listed: Arc<[KnownHost]>,
    /// What recorders wrote down, by the host names of their servers.
    recorded: Arc<BTreeMap<String, KnownHost>>,
    limits: Limits,
    /// From one look to the next.
    interval: Duration,
    connectors: Arc<Connectors>,
    looks: Arc<Semaphore>,
    /// Room for long answers, KiB.
    room: Arc<Semaphore>,
}

impl Examination {
    /// All of these servers. `listed` has a place for each: what the list says of its host.
    pub fn new(targets: Arc<[Target]>, listed: Arc<[KnownHost]>, limits: Limits, interval: Duration) -> Self {
        let looks = Arc::new(Semaphore::new(LOOKS));
        let room = Arc::new(Semaphore::new(ROOM_KIB));
        let recorded = Arc::default();
        Self { targets, listed, recorded, limits, interval, connectors: Arc::default(), looks, room }
    }

    /// The same with what recorders wrote down of hosts, by the names that their servers give themselves (`hostname`). What the
    /// list says counts before it.
    #[must_use]
    pub fn with_recorded(self, recorded: BTreeMap<String, KnownHost>) -> Self {
        Self { recorded: Arc::new(recorded), ..self }
    }

    /// Looks at all, and returns those that were not begun with because `stop` became true or nobody listens any more.
    /// Those that were under way then end as interrupted.
    pub async fn all(&self, mut stop: watch::Receiver<bool>, sender: mpsc::Sender<Examined>) -> Vec<usize> {
        let everybody: Vec<usize> = (0..self.targets.len()).collect();
        let ended = turns::over(&mut stop, sender.closed());
        let one = |server: usize| {
            let (examination, sender) = (self.clone(), sender.clone());
            async move {
                let (window, _permit) = match examination.one(server).await {
                    Ok((window, permit)) => (Ok(window), Some(permit)),
                    Err(failure) => (Err(failure), None),
                };
                // Nobody may listen any more.
                let _ = sender.send((server, window)).await;
            }
        };
        let left = turns::all(&self.targets, &everybody, &self.limits, ended, one).await;
        for server in left.cut_short {
            let failure = Failure::new(Reason::Interrupted, "interrupted before the second look");
            let _ = sender.send((server, Err(failure))).await;
        }
        left.not_begun
    }

    /// Looks at one server. No other is looked at in its place until what is returned with the window is dropped.
    async fn one(&self, server: usize) -> Result<(Box<Window>, OwnedSemaphorePermit), Failure> {
        let target = &self.targets[server];
        let mut session = Session::open(target, &self.limits, &self.connectors).await?;
        let version_text = session.version().to_owned();
        let version = ServerVersion::parse(&version_text, "").ok_or_else(|| {
            let line = format!("not asked: spindoctor knows no server of version {version_text}");
            Failure::new(Reason::Query, line)
        })?;
        let permit = self.look().await?;
        let (start, at) = (Instant::now(), Timestamp::now());
        let mut first = ServerSample::default();
        let known = Known { version, variables: None, origin: start };
        let mut answers = ask(&mut session, SOURCES, known, &mut first).await?;
        let no_replica = match ask_replica(&mut session, known, &mut first).await {
            Ok(channels) => {
                answers.extend(channels);
                None
            }
            Err(why) => {
                // The session still waits for it.
                session = session.again(target, &self.limits, &self.connectors).await?;
                Some(why)
            }
        };
        let room = self.keep(&mut answers);
        drop((first, permit));
        tokio::time::sleep_until((start + self.interval).into()).await;
        let permit = self.look().await?;
        let mut first = ServerSample::default();
        answers.iter().for_each(|answer| answer.put_into(&mut first));
        drop((answers, room));
        let mut last = ServerSample::default();
        let again: Vec<Source> =
            SOURCES.iter().filter(|source| source.cadence != Cadence::Once).copied().collect();
        let at_s = start.elapsed().as_secs_f64();
        let variables = first.variables.value();
        ask(&mut session, &again, Known { variables, ..known }, &mut last).await?;
        let (no_replica, is_open) = match no_replica {
            Some(why) => (Some(why), true),
            None => {
                let why = ask_replica(&mut session, known, &mut last).await.err();
                let is_open = why.is_none();
                (why, is_open)
            }
        };
        if let Some(why) = no_replica {
            REPLICA.fail(why, &mut last);
        }
        let cost = Cost {
            server_queries: session.asked,
            server_busy_ms: session.busy.as_secs_f64() * 1e3,
            ..Cost::default()
        };
        if is_open {
            session.close().await;
        }
        let text = |name: &str| variables.and_then(|variables| variables.text(name)).unwrap_or_default();
        let uptime = last.status.value().and_then(|status| status.number("Uptime"));
        let identity = ServerIdentity {
            version: ServerVersion::parse(&version_text, text("version_comment")),
            hostname: text("hostname").to_owned(),
            address: target.address(),
            no_pid: Some(no_host()),
            uptime_s: uptime.map(|uptime_s| (uptime_s - at_s).max(0.0) as u64),
            // Its number is not known; that there is one counts.
            own_connection_id: Some(0),
            version_text,
            ..ServerIdentity::default()
        };
        let known = self.listed[server].or(self.recorded.get(text("hostname")));
        let host = host_sample(known);
        let samples = vec![
            Sample { at_s: 0.0, server: first, host },
            Sample { at_s, server: last, host: HostSample::default() },
        ];
        let profile = Reading::Unavailable(no_host());
        let window = Window { server: identity, start: at, samples, profile, cost, ..Window::default() };
        Ok((Box::new(window), permit))
    }

    /// Keeps those answers that there is room for; they have it until what is returned is dropped.
    fn keep(&self, answers: &mut Vec<SourceAnswer>) -> Vec<OwnedSemaphorePermit> {
        let mut taken = Vec::new();
        answers.retain_mut(|answer| {
            answer.shrink();
            let kib = u32::try_from(answer.bytes() >> 10).unwrap_or(u32::MAX);
            if kib <= SMALL_KIB {
                return true;
            }
            let room = self.room.clone().try_acquire_many_owned(kib);
            room.map(|room| taken.push(room)).is_ok()
        });
        taken
    }

    /// Waits for a turn to look.
    async fn look(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let permit = self.looks.clone().acquire_owned().await;
        permit.map_err(|_| Failure::new(Reason::Interrupted, "interrupted before the second look"))
    }
}

/// Asks a replica how it keeps up.
///
/// # Errors
/// Why there is no answer; the session is of no more use then. A refusal of the server to answer is not such an error.
async fn ask_replica(
    session: &mut Session,
    known: Known<'_>,
    sample: &mut ServerSample,
) -> Result<Vec<SourceAnswer>, Unavailable> {
    let asked = ask(session, &[REPLICA], known, sample);
    match timeout(REPLICA_ANSWERS_WITHIN, asked).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(failure)) => Err(Unavailable::because(failure.error)),
        Err(_) => Err(Unavailable::because(format!(
            "{} was not answered within {} s: somebody stops or starts the replica",
            REPLICA.name,
            REPLICA_ANSWERS_WITHIN.as_secs()
        ))),
    }
}

/// A failure that is itself a reading of the server, as a window: it refuses logins because it is full, or it let us in
/// and then said nothing. None for any other: what listens nowhere or drops packets may be no server at all.
pub fn window_of(failure: &Failure, address: &str) -> Option<Window> {
    let kind = match failure {
        Failure { code: Some(TOO_MANY_CONNECTIONS), .. } => NoSessionKind::TooManyConnections,
        Failure { reason: Reason::Timeout, unknown: true, .. } => NoSessionKind::Silent,
        _ => return None,
    };
    let because = failure.error.clone();
    let why = Unavailable::because(because.clone());
    let mut server = ServerSample::default();
    SOURCES.iter().chain([&REPLICA]).for_each(|source| source.fail(why.clone(), &mut server));
    let identity = ServerIdentity {
        address: address.to_owned(),
        no_pid: Some(no_host()),
        no_session: Some(NoSession { kind, because }),
        ..ServerIdentity::default()
    };
    let host = HostSample::unavailable(&no_host());
    let profile = Reading::Unavailable(no_host());
    Some(Window {
        server: identity,
        samples: vec![Sample { at_s: 0.0, server, host }],
        profile,
        ..Window::default()
    })
}

/// Why nothing is known of any host.
pub fn no_host() -> Unavailable {
    Unavailable::because("no host data, SQL only").unlock("spindoctor doctor, on that server's host")
}

/// The readings of a host that nobody looked at now.
fn host_sample(known: KnownHost) -> HostSample {
    fn reading<T>(value: T) -> Reading<T> {
        Reading::Available { at_s: 0.0, took_ms: 0.0, value }
    }
    let mut host = HostSample::unavailable(&no_host());
    if let Some(cpus) = known.granted_cpus {
        host.effective_cpus = reading(granted(cpus));
    }
    if let Some(pause) = known.pause {
        host.pause = reading(pause);
    }
    if let Some(cpu) = known.cpu {
        host.cpu = reading(cpu);
    }
    host
}

/// CPUs that a list or a recorder grants, as a quota: the server may count more.
fn granted(cpus: f64) -> EffectiveCpus {
    const PERIOD_US: u64 = 100_000;
    let quota_us = (cpus * PERIOD_US as f64).round() as u64;
    let quota = Quota { cpus, quota_us, period_us: PERIOD_US, cgroup: GRANTED_BY.to_owned() };
    EffectiveCpus { cpus, online: cpus.ceil() as u32, quota: Some(quota), ..EffectiveCpus::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_is_known_to_be_there_is_judged_by_its_silence() {
        let kind =
            |failure: &Failure| window_of(failure, "db1:3306")?.server.no_session.map(|none| none.kind);
        let full = Failure { code: Some(1040), ..Failure::connect("error 1040: Too many connections") };
        assert_eq!(kind(&full), Some(NoSessionKind::TooManyConnections));
        let silent = Failure::new(Reason::Timeout, "no answer within 10 s");
        assert_eq!(kind(&silent.clone().outcome_unknown()), Some(NoSessionKind::Silent));
        assert_eq!(kind(&silent), None, "it may be a firewall");
        assert_eq!(kind(&Failure::connect("connection refused")), None);
    }

    #[test]
    fn a_server_that_lets_nobody_in_is_not_known_to_be_a_replica() {
        let full = Failure { code: Some(1040), ..Failure::connect("error 1040: Too many connections") };
        let window = window_of(&full, "db1:3306").unwrap();
        assert!(window.samples[0].server.replication.unavailable().is_some());
    }

    #[test]
    fn what_the_list_says_of_a_host_counts_before_what_was_recorded() {
        let pause = |ns| Some(PauseLatency { ns, ..PauseLatency::default() });
        let listed = KnownHost { pause: pause(66.0), ..KnownHost::default() };
        let recorded = KnownHost { granted_cpus: Some(4.0), pause: pause(10.9), ..KnownHost::default() };
        let host = host_sample(listed.or(Some(&recorded)));
        assert_eq!(host.pause.value().map(|pause| pause.ns), Some(66.0));
        assert_eq!(host.effective_cpus.value().map(|cpus| cpus.cpus), Some(4.0));
        assert_eq!(host.cpu.unavailable(), Some(&no_host()));
    }

    #[test]
    fn variables_are_read_once_and_whatever_changes_twice() {
        let once = SOURCES.iter().filter(|source| source.cadence == Cadence::Once).count();
        assert_eq!((once, SOURCES[0].name), (1, global_variables::SOURCE.name));
    }

    #[test]
    fn long_answers_are_kept_as_long_as_there_is_room() {
        let nothing = Arc::from(Vec::new());
        let second = Duration::from_secs(1);
        let limits = Limits {
            connect: second,
            query: second,
            connections: 1,
            per_host: 1,
            per_second: None,
            retries: 0,
        };
        let examination = Examination {
            room: Arc::new(Semaphore::new(300)),
            ..Examination::new(nothing, Arc::from(Vec::new()), limits, second)
        };
        let answers =
            |kib: &[usize]| kib.iter().map(|kib| SourceAnswer::of_bytes(kib << 10)).collect::<Vec<_>>();
        let kib = |text: &[SourceAnswer]| text.iter().map(|text| text.bytes() >> 10).collect::<Vec<_>>();
        let mut first = answers(&[10, 200, 60]);
        let room = examination.keep(&mut first);
        assert_eq!(kib(&first), [10, 200, 60]);
        let mut second = answers(&[10, 200, 60]);
        let _none = examination.keep(&mut second);
        assert_eq!(kib(&second), [10, 60]);
        drop(room);
        let mut third = answers(&[10, 200, 60]);
        let _room = examination.keep(&mut third);
        assert_eq!(kib(&third), [10, 200, 60]);
    }
}
