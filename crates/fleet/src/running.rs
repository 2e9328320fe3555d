//! The running statements of all servers: once, or again and again over connections that stay.
//!
//! One statement per sample and server, bounded on the server's side. A broken connection is made again after a pause
//! that grows, and less often where five questions or logins have no answer yet; the limits bound the logins at once, and
//! samples are spread over the interval, so that there are no bursts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use spindoctor_collect::asking::Known;
use spindoctor_collect::follow::Backoff;
use spindoctor_collect::mysql::logins;
use spindoctor_collect::mysql::{
    Plan, Source, Target, Unanswered, global_variables, perf_schema_threads, processlist,
};
use spindoctor_model::mysql::{NamedValues, ServerThread};
use spindoctor_model::{Reading, ServerSample, ServerVersion};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use crate::failure::{Failure, Reason};
use crate::schedule::{Limits, Pace};
use crate::session::Session;
use crate::sources::ask;
use crate::turns;
use crate::wire::tls::Connectors;

/// Whether performance_schema is on decides over who is asked, and does not change while a server runs.
const SWITCH: Source = Source {
    plan: |_, _| Plan::Ask("SHOW GLOBAL VARIABLES LIKE 'performance_schema'"),
    ..global_variables::SOURCE
};
/// The sources of what runs, the better one first.
const LISTS: [Source; 2] = [perf_schema_threads::RUNNING, processlist::RUNNING];

/// Logins at once: each may take the server and us a TLS handshake's CPU time, and none has to be quick.
const LOGINS: usize = 128;
/// How long goodbyes may take, all together.
const GOODBYES: Duration = Duration::from_millis(500);

/// What one server runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Running {
    /// Connections that run a statement, the longest first.
    pub threads: Vec<ServerThread>,
    /// True where there may be more than that.
    pub is_cut: bool,
}

/// What a server said, by its place in the list, or why it says nothing.
pub type FromServer = (usize, Result<Running, Failure>);

/// The servers that are looked at.
#[derive(Clone)]
pub struct Servers {
    targets: Arc<[Target]>,
    limits: Limits,
    connectors: Arc<Connectors>,
}

impl Servers {
    /// Looks at all of these servers.
    pub fn new(targets: Arc<[Target]>, limits: Limits) -> Self {
        Self { targets, limits, connectors: Arc::default() }
    }

    /// Number of servers.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// True where there is no server.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// One look at all, and returns those that were not begun with because `stop` became true or nobody listens any more.
    /// Those that were under way then end as interrupted.
    pub async fn once(&self, mut stop: watch::Receiver<bool>, tell: mpsc::Sender<FromServer>) -> Vec<usize> {
        let everybody: Vec<usize> = (0..self.targets.len()).collect();
        let ended = turns::over(&mut stop, tell.closed());
        let one = |server: usize| {
            let (servers, tell) = (self.clone(), tell.clone());
            async move {
                let look = async {
                    let mut looker = Looker::open(&servers, server).await?;
                    let running = looker.look().await;
                    looker.session.close().await;
                    running
                };
                // Nobody may listen any more.
                let _ = tell.send((server, look.await)).await;
            }
        };
        let left = turns::all(&self.targets, &everybody, &self.limits, ended, one).await;
        for server in left.cut_short {
            let failure = Failure::new(Reason::Interrupted, "interrupted before its answer was whole");
            let _ = tell.send((server, Err(failure))).await;
        }
        left.not_begun
    }

    /// Looks at all of them every so often until `stop` is true, over one connection each, and reports what each says. Says
    /// goodbye at the end.
    pub async fn follow(
        &self,
        every: Duration,
        mut stop: watch::Receiver<bool>,
        listener: Arc<dyn Listener>,
    ) {
        // Who is lost and comes back resumes its session.
        let servers = Self { connectors: Arc::new(Connectors::resuming()), ..self.clone() };
        let doors = Arc::new(Doors::new(&self.targets, &self.limits));
        let count = self.targets.len().max(1) as u32;
        let mut tasks = JoinSet::new();
        for server in 0..self.targets.len() {
            let phase = every * server as u32 / count;
            let standing = Standing { servers: servers.clone(), server, every, phase, doors: doors.clone() };
            tasks.spawn(standing.keep(stop.clone(), listener.clone(), Unanswered::default()));
        }
        turns::stopped(&mut stop).await;
        let goodbyes = async { while tasks.join_next().await.is_some() {} };
        // Who has not said it by then is not waited for.
        let _ = timeout(GOODBYES, goodbyes).await;
    }
}

/// Takes what servers say, as they say it.
pub trait Listener: Send + Sync {
    /// A server said this, or why it says nothing.
    fn receive(&self, answer: FromServer);
}

/// One server and its connection.
struct Standing {
    servers: Servers,
    server: usize,
    every: Duration,
    /// After the full interval, so that not all are asked at the same instant.
    phase: Duration,
    doors: Arc<Doors>,
}

impl Standing {
    /// Keeps a connection to the server, and looks, until it is stopped.
    async fn keep(
        self,
        mut stop: watch::Receiver<bool>,
        listener: Arc<dyn Listener>,
        unanswered: Unanswered,
    ) {
        let mut backoff = Backoff::default();
        let mut wrong_passwords = 0;
        let start = Instant::now();
        loop {
            tokio::select! {
                () = turns::stopped(&mut stop) => return,
                () = unanswered.room() => {}
            }
            let mut looker = None;
            let failure = tokio::select! {
                () = turns::stopped(&mut stop) => None,
                failure = self.look(&mut looker, &mut backoff, start, listener.as_ref()) => Some(failure),
            };
            let Some(failure) = failure else {
                if let Some(looker) = looker {
                    looker.session.close().await;
                }
                return;
            };
            // A login that worked sets the server's count back, and this one.
            if looker.is_some() {
                wrong_passwords = 0;
            }
            // A deadline that the server itself kept has a number.
            if failure.reason == Reason::Timeout && failure.code.is_none() {
                match looker {
                    Some(looker) => unanswered.keep(Box::new(looker.session.into_connection())),
                    None => unanswered.given_up(),
                }
            }
            let wait = wait_after(&failure, &mut backoff, &mut wrong_passwords);
            listener.receive((self.server, Err(failure)));
            let Some(wait) = wait else { return turns::stopped(&mut stop).await };
            tokio::select! {
                () = turns::stopped(&mut stop) => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Connects, and looks again and again until something breaks: what.
    async fn look(
        &self,
        looker: &mut Option<Looker>,
        backoff: &mut Backoff,
        start: Instant,
        listener: &dyn Listener,
    ) -> Failure {
        let opened = {
            let _inside = self.doors.enter(turns::host(&self.servers.targets[self.server])).await;
            Looker::open(&self.servers, self.server).await
        };
        let looker = match opened {
            Ok(opened) => looker.insert(opened),
            Err(failure) => return failure,
        };
        let mut ticks = interval_at((start + self.phase).into(), self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // The first look is at once: who has just connected wants to see something.
        loop {
            match looker.look().await {
                Ok(running) => listener.receive((self.server, Ok(running))),
                Err(failure) => return failure,
            }
            *backoff = Backoff::default();
            ticks.tick().await;
        }
    }
}

/// How long to wait after a failure: long after a login that was refused, and for ever after the second refusal of a password,
/// so that no account is locked (`FAILED_LOGIN_ATTEMPTS`). The server sets its count back with a login that works.
fn wait_after(failure: &Failure, backoff: &mut Backoff, wrong_passwords: &mut u32) -> Option<Duration> {
    if failure.reason != Reason::Auth {
        return Some(backoff.failed());
    }
    // 1045 access denied, 1698 denied without a password.
    *wrong_passwords += u32::from(matches!(failure.code, Some(1045 | 1698)));
    (*wrong_passwords < logins::PASSWORD_TRIES).then_some(logins::WAIT)
}

/// A session, and what it was found to be good for.
struct Looker {
    session: Session,
    version: ServerVersion,
    variables: NamedValues,
    /// The first of [`LISTS`] that this account may read.
    from: usize,
}

impl Looker {
    async fn open(servers: &Servers, server: usize) -> Result<Self, Failure> {
        let target = &servers.targets[server];
        let mut session = Session::open(target, &servers.limits, &servers.connectors).await?;
        let version = ServerVersion::parse(session.version(), "").ok_or_else(|| {
            let message = format!("not asked: spindoctor knows no server of version {}", session.version());
            Failure::new(Reason::Query, message)
        })?;
        let mut sample = ServerSample::default();
        let known = Known { version, variables: None, origin: Instant::now() };
        ask(&mut session, &[SWITCH], known, &mut sample).await?;
        let variables = sample.variables.value().cloned().unwrap_or_default();
        Ok(Self { session, version, variables, from: 0 })
    }

    /// What runs now.
    async fn look(&mut self) -> Result<Running, Failure> {
        let known = Known { version: self.version, variables: Some(&self.variables), origin: Instant::now() };
        for (at, source) in LISTS.iter().enumerate().skip(self.from) {
            let mut sample = ServerSample::default();
            ask(&mut self.session, &[*source], known, &mut sample).await?;
            match sample.threads {
                Reading::Available { value, .. } => {
                    self.from = at;
                    let mut threads = value;
                    threads.retain(|thread| thread.is_connection);
                    return Ok(Running { threads, is_cut: !sample.cut.is_empty() });
                }
                Reading::Unavailable(why) if at + 1 == LISTS.len() => {
                    let unlock =
                        why.unlock.map_or_else(String::new, |unlock| format!("; to enable: {unlock}"));
                    return Err(Failure::new(Reason::Query, format!("{}{unlock}", why.because)));
                }
                Reading::Unavailable(_) | Reading::NotAsked => {}
            }
        }
        Err(Failure::new(Reason::Query, "no source of this server says what it runs"))
    }
}

/// Bounds the logins: all together, to one host, and a second.
struct Doors {
    all: Semaphore,
    hosts: HashMap<String, Semaphore>,
    pace: Mutex<Pace>,
}

impl Doors {
    fn new(targets: &[Target], limits: &Limits) -> Self {
        let hosts = targets.iter().map(|target| turns::host(target).to_owned());
        Self {
            all: Semaphore::new(LOGINS.min(limits.connections.max(1))),
            hosts: hosts.map(|host| (host, Semaphore::new(limits.per_host.max(1)))).collect(),
            pace: Mutex::new(Pace::new(limits.per_second)),
        }
    }

    /// Waits for a turn; it lasts until what is returned is dropped.
    async fn enter(&self, host: &str) -> [Option<SemaphorePermit<'_>>; 2] {
        let of_host = match self.hosts.get(host) {
            Some(host) => host.acquire().await.ok(),
            None => None,
        };
        let of_all = self.all.acquire().await.ok();
        let due = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            let due = pace.due();
            pace.begun(Instant::now());
            due
        };
        if let Some(due) = due {
            tokio::time::sleep_until(due.into()).await;
        }
        [of_host, of_all]
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_collect::mysql::Endpoint;

    use super::*;

    #[test]
    fn a_refused_login_is_tried_again_after_minutes_and_a_refused_password_once_more() {
        let refused = |code: u16| Failure { code: Some(code), ..Failure::new(Reason::Auth, "no") };
        let (mut backoff, mut wrong) = (Backoff::default(), 0);
        assert_eq!(
            wait_after(&Failure::connect("down"), &mut backoff, &mut wrong),
            Some(Duration::from_secs(1))
        );
        for _ in 0..9 {
            assert_eq!(wait_after(&refused(3955), &mut backoff, &mut wrong), Some(logins::WAIT));
        }
        assert_eq!(wait_after(&refused(1045), &mut backoff, &mut wrong), Some(logins::WAIT));
        assert_eq!(wait_after(&refused(1045), &mut backoff, &mut wrong), None);
    }

    /// Counts what a server says.
    #[derive(Default)]
    struct Counting(std::sync::atomic::AtomicU32);

    impl Listener for Counting {
        fn receive(&self, _: FromServer) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// It lets everybody in and says nothing: each login that is given up may stay in it.
    #[tokio::test]
    async fn a_server_that_hangs_is_not_filled_with_connections() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("its address").port();
        let target = Target::new(Endpoint::Tcp { host: "127.0.0.1".to_owned(), port }, "app");
        let soon = Duration::from_millis(50);
        let limits =
            Limits { connect: soon, query: soon, connections: 9, per_host: 1, per_second: None, retries: 0 };
        let servers = Servers::new([target].into(), limits);
        let tries = async |before: u32| {
            let unanswered = Unanswered::default();
            (0..before).for_each(|_| unanswered.given_up());
            let doors = Arc::new(Doors::new(&servers.targets, &limits));
            let phase = Duration::ZERO;
            let standing = Standing { servers: servers.clone(), server: 0, every: soon, phase, doors };
            let (stop, stopped) = watch::channel(false);
            let counting = Arc::new(Counting::default());
            let ending = async {
                tokio::time::sleep(10 * soon).await;
                stop.send_replace(true);
            };
            tokio::join!(standing.keep(stopped, counting.clone(), unanswered.clone()), ending);
            (counting.0.load(std::sync::atomic::Ordering::Relaxed), unanswered.count())
        };
        assert_eq!(tries(4).await, (1, 5), "one more, which is counted with the others");
        assert_eq!(tries(5).await, (0, 5), "no more until one of them is answered");
    }

    #[tokio::test]
    async fn one_host_is_entered_by_few_at_once_and_the_others_are_not_held_up() {
        let of = |host: &str| Target::new(Endpoint::Tcp { host: host.to_owned(), port: 3306 }, "app");
        let second = Duration::from_secs(1);
        let limits = Limits {
            connect: second,
            query: second,
            connections: 9,
            per_host: 1,
            per_second: None,
            retries: 0,
        };
        let doors = Doors::new(&[of("a"), of("b")], &limits);
        let soon = Duration::from_millis(50);
        let inside = doors.enter("a").await;
        assert!(timeout(soon, doors.enter("a")).await.is_err());
        assert!(timeout(soon, doors.enter("b")).await.is_ok());
        drop(inside);
        assert!(timeout(soon, doors.enter("a")).await.is_ok());
    }
}
