//! The server's side of a profile, on a thread of its own: what its threads do for their clients, whether the trigger
//! holds, and Ctrl-C. A server that hangs blocks only this thread.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use spindoctor_collect::activities::Activities;
use spindoctor_collect::gauges::{StatusGauge, load_average, read_host};
use spindoctor_collect::host;
use spindoctor_collect::mysql::{SessionCost, Target};
use spindoctor_model::stack::{Activity, Work};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::trigger::{Reading, Trigger};
use crate::common::runtime::wait_for;

/// The trigger is looked at ten times a second.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);
/// A server that refused or broke the session is asked again after this long.
const RECONNECT_AFTER: Duration = Duration::from_secs(2);

/// How long the last reading of the server's counters may take.
const COUNTED_WITHIN: Duration = Duration::from_millis(500);

/// What the server is asked.
enum Question {
    /// What its threads do now.
    Activities,
    /// Its counters, from which on its work is counted.
    Count,
}

/// What is wanted of the server.
pub struct Wanted {
    /// Whom to ask; nobody where the connection leads elsewhere.
    pub target: Option<Target>,
    /// The process that is profiled.
    pub process: host::Target,
    /// What is waited for.
    pub trigger: Trigger,
}

/// What happened meanwhile.
#[derive(Debug)]
pub enum Event {
    /// Ctrl-C.
    Interrupted,
    /// The trigger holds, and why.
    Fired(String),
    /// The trigger cannot hold, ever.
    NeverFires(String),
    /// For the user to know.
    Note(String),
}

/// All answers of the server.
#[derive(Debug, Default)]
pub struct SessionSummary {
    /// `MySQL 9.7.4 on db17`; empty where there was no session.
    pub server: String,
    /// What asking cost it.
    pub cost: SessionCost,
    /// What it did for its clients since it was asked to count.
    pub work: Option<Work>,
}

/// What threads do, by their kernel ids.
type ByThread = HashMap<u32, Activity>;

/// The server's thread.
pub struct Server {
    questions: UnboundedSender<Question>,
    stop: oneshot::Sender<()>,
    answers: Receiver<Option<ByThread>>,
    tell: Sender<Event>,
    events: Receiver<Event>,
    thread: JoinHandle<anyhow::Result<SessionSummary>>,
    /// Questions without an answer yet.
    open: usize,
    has_target: bool,
}

impl Server {
    /// Starts it.
    pub fn start(wanted: Wanted) -> anyhow::Result<Self> {
        let (questions, asked) = unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let (answer, answers) = mpsc::channel();
        let (tell, events) = mpsc::channel();
        let teller = tell.clone();
        let has_target = wanted.target.is_some();
        let thread = std::thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || wait_for(async { Ok(serve(wanted, asked, stopped, &answer, &tell).await) }))
            .context("could not start a thread")?;
        Ok(Self { questions, stop, answers, tell: teller, events, thread, open: 0, has_target })
    }

    /// True where a question would be answered soon: none is open.
    pub fn answers(&mut self) -> bool {
        while self.open > 0 && self.answers.try_recv().is_ok() {
            self.open -= 1;
        }
        self.has_target && self.open == 0
    }

    /// Asks what the threads do now.
    pub fn ask(&mut self) {
        if self.questions.send(Question::Activities).is_ok() {
            self.open += 1;
        }
    }

    /// From now on its work counts. There is no answer: [`Server::end`] says what it was.
    pub fn count_from_now(&self) {
        // Its thread may have ended.
        drop(self.questions.send(Question::Count));
    }

    /// The answer, where it comes in time and the server knew one.
    pub fn answer(&mut self, until: Instant) -> Option<ByThread> {
        match self.answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(activities) => {
                self.open -= 1;
                activities
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// For other tasks that have notes.
    pub fn teller(&self) -> &Sender<Event> {
        &self.tell
    }

    /// Waits until something happens, but no longer than this.
    pub fn event(&self, patience: Duration) -> Option<Event> {
        self.events.recv_timeout(patience).ok()
    }

    /// What happened since the last time.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.events.try_iter()
    }

    /// Ends it.
    pub fn end(self) -> SessionSummary {
        let Self { stop, thread, .. } = self;
        // A question that has no answer yet is not waited for.
        drop(stop);
        // A thread that panicked has already printed why.
        thread.join().ok().and_then(Result::ok).unwrap_or_default()
    }
}

/// Answers until it is stopped.
async fn serve(
    wanted: Wanted,
    mut asked: UnboundedReceiver<Question>,
    stopped: oneshot::Receiver<()>,
    answer: &Sender<Option<ByThread>>,
    tell: &Sender<Event>,
) -> SessionSummary {
    // The receiver may have gone meanwhile: then the queries end, too.
    let text = |event| drop(tell.send(event));
    let gauge =
        wanted.target.clone().map(|target| StatusGauge::new(target, &wanted.trigger.status_variables()));
    let mut asker = Asker {
        target: wanted.target,
        process: wanted.process.clone(),
        session: None,
        counters: None,
        begun: None,
        retry: None,
        summary: SessionSummary::default(),
    };
    let mut checking = Checking {
        gauge,
        process: wanted.process,
        trigger: wanted.trigger,
        began: Instant::now(),
        silent: false,
    };
    let is_waiting = !checking.trigger.is_empty();
    let answering = async {
        while let Some(question) = asked.recv().await {
            match question {
                Question::Activities => {
                    let activities = asker.read(&text).await;
                    drop(answer.send(activities));
                }
                Question::Count => asker.begin_counting(&text).await,
            }
        }
    };
    let aside = async {
        let checks = async {
            if is_waiting {
                checking.run(&text).await;
            }
            std::future::pending::<()>().await;
        };
        let interrupts = async {
            while tokio::signal::ctrl_c().await.is_ok() {
                text(Event::Interrupted);
            }
            std::future::pending::<()>().await;
        };
        tokio::join!(checks, interrupts);
    };
    tokio::select! {
        () = answering => {}
        () = aside => {}
        _ = stopped => {}
    }
    let mut sum = asker.end().await;
    if let Some(gauge) = checking.gauge {
        sum.cost.queries += gauge.cost().queries;
        sum.cost.busy_ms += gauge.cost().busy_ms;
    }
    sum
}

/// A server's counters at an instant.
struct Counted {
    at: Instant,
    /// Statements, spindoctor's among them.
    statements: f64,
    /// Those of spindoctor.
    own: u64,
    cpu_us: Option<u64>,
}

impl Counted {
    /// What was done from one reading to the other. A server that was restarted between them has counted from zero.
    fn work_until(&self, now: &Self) -> Option<Work> {
        let queries = now.statements - self.statements;
        let own = now.own.saturating_sub(self.own) as f64;
        (queries >= 0.0).then(|| Work {
            seconds: now.at.duration_since(self.at).as_secs_f64(),
            queries: (queries - own).max(0.0) as u64,
            cpu_us: now.cpu_us.zip(self.cpu_us).and_then(|(now, before)| now.checked_sub(before)),
        })
    }
}

/// The session that is asked what the threads do.
struct Asker {
    target: Option<Target>,
    process: host::Target,
    session: Option<Activities>,
    /// A session of its own, for its counters.
    counters: Option<StatusGauge>,
    /// The counters when they began to count.
    begun: Option<Counted>,
    /// A lost session is not made again before this instant.
    retry: Option<Instant>,
    summary: SessionSummary,
}

impl Asker {
    async fn read(&mut self, tell: &impl Fn(Event)) -> Option<ByThread> {
        if self.session.is_none() {
            let target = self.target.as_ref()?;
            if self.retry.is_some_and(|at| Instant::now() < at) {
                return None;
            }
            let first = self.retry.is_none();
            self.retry = Some(Instant::now() + RECONNECT_AFTER);
            match Activities::connect(target, self.process.clone()).await {
                Ok(session) => {
                    if first {
                        session.notes().iter().for_each(|what| tell(Event::Note(what.clone())));
                    }
                    self.summary.server = session.server();
                    self.session = Some(session);
                }
                Err(error) => {
                    if first {
                        tell(Event::Note(format!("no connections: {error}")));
                    }
                    return None;
                }
            }
        }
        let session = self.session.as_mut()?;
        match session.read().await {
            Ok(threads) => {
                Some(threads.into_iter().map(|(tid, activity)| (tid, without_literals(activity))).collect())
            }
            Err(error) => {
                tell(Event::Note(format!("no connections for now: {error}")));
                self.drop_session();
                None
            }
        }
    }

    /// Reads the counters; a server that does not answer is no reason to end anything.
    async fn begin_counting(&mut self, tell: &impl Fn(Event)) {
        match self.count().await {
            Some(Ok(counted)) => self.begun = Some(counted),
            Some(Err(why)) => tell(Event::Note(format!("the server's statements are not counted: {why}"))),
            // There is nobody to ask.
            None => {}
        }
    }

    async fn count(&mut self) -> Option<Result<Counted, String>> {
        let target = self.target.clone()?;
        let counters =
            self.counters.get_or_insert_with(|| StatusGauge::new(target, &["Questions".to_owned()]));
        let asked = Instant::now();
        let answer = counters.read().await;
        let at = asked + asked.elapsed() / 2;
        let own = self.own_queries();
        let cpu_us =
            read_host(&self.process).process.value().map(|process| process.user_us + process.system_us);
        let counted = |statements| Counted { at, statements, own, cpu_us };
        Some(answer.and_then(|status| {
            status.number("Questions").map(counted).ok_or_else(|| "it shows no Questions".to_owned())
        }))
    }

    /// Statements that it was asked so far, here.
    fn own_queries(&self) -> u64 {
        let of_session = self.session.as_ref().map_or(0, |session| session.cost().queries);
        let of_counters = self.counters.as_ref().map_or(0, |counters| counters.cost().queries);
        self.summary.cost.queries + of_session + of_counters
    }

    fn drop_session(&mut self) {
        if let Some(session) = self.session.take() {
            self.summary.cost.queries += session.cost().queries;
            self.summary.cost.busy_ms += session.cost().busy_ms;
        }
    }

    async fn end(mut self) -> SessionSummary {
        if let Some(begun) = self.begun.take() {
            let now = tokio::time::timeout(COUNTED_WITHIN, self.count()).await;
            self.summary.work = match now {
                Ok(Some(Ok(now))) => begun.work_until(&now),
                _ => None,
            };
        }
        if let Some(counters) = self.counters.take() {
            self.summary.cost.queries += counters.cost().queries;
            self.summary.cost.busy_ms += counters.cost().busy_ms;
        }
        let session = self.session.take();
        if let Some(session) = session {
            self.summary.cost.queries += session.cost().queries;
            self.summary.cost.busy_ms += session.cost().busy_ms;
            // A server that hangs gets no goodbye.
            drop(tokio::time::timeout(GOODBYE_WITHIN, session.close()).await);
        }
        self.summary
    }
}

/// A profile is sent to others: no customer's name stays in it.
fn without_literals(activity: Activity) -> Activity {
    let shape = activity.statement.as_deref().map(spindoctor_sql::digest);
    Activity { digest_text: activity.digest_text.or(shape), statement: None, ..activity }
}

/// The trigger, ten times a second.
struct Checking {
    gauge: Option<StatusGauge>,
    process: host::Target,
    trigger: Trigger,
    began: Instant,
    silent: bool,
}

impl Checking {
    /// Until it fires, or cannot.
    async fn run(&mut self, tell: &impl Fn(Event)) {
        let mut ticks = tokio::time::interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let reading = self.read(tell).await;
            match self.trigger.check(&reading) {
                Ok(None) => {}
                Ok(Some(why)) => return tell(Event::Fired(why)),
                Err(why) => return tell(Event::NeverFires(why)),
            }
        }
    }

    async fn read(&mut self, tell: &impl Fn(Event)) -> Reading {
        let asked = Instant::now();
        let at_s = asked.duration_since(self.began).as_secs_f64();
        let mut reading = Reading { at_s, ..Reading::default() };
        if !self.trigger.status_variables().is_empty() {
            let status = match &mut self.gauge {
                Some(gauge) => gauge.read().await,
                None => Err("there is no connection to the server".to_owned()),
            };
            if let Err(why) = &status
                && !self.silent
            {
                tell(Event::Note(format!("the trigger cannot be checked for now: {why}")));
            }
            self.silent = status.is_err();
            reading.status = Some(status);
            reading.took = asked.elapsed();
        }
        if self.trigger.needs_host() {
            reading.host = read_host(&self.process);
            reading.load = load_average(&self.process);
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_clients_asked_between_two_readings() {
        let at = Instant::now();
        let before = Counted { at, statements: 1_000.0, own: 3, cpu_us: Some(5_000_000) };
        let now =
            |statements, own, cpu_us| Counted { at: at + Duration::from_secs(10), statements, own, cpu_us };
        let work = before.work_until(&now(3_007.0, 10, Some(6_000_000))).unwrap();
        assert_eq!(work, Work { seconds: 10.0, queries: 2_000, cpu_us: Some(1_000_000) });
        assert_eq!(before.work_until(&now(1_002.0, 10, None)).unwrap().queries, 0);
        assert_eq!(before.work_until(&now(20.0, 10, None)), None, "restarted");
    }
}
