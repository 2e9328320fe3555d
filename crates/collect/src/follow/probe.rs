//! The probe: a few readings ten times a second, over a connection of its own, on a thread of its own.
//!
//! In: the door. Out: [`Probe`]s. How long the answer takes is a reading itself, so nothing else runs on this thread. A
//! question that has no answer after [`DEADLINE`] is a probe without an answer; a new connection is made then.

use std::time::{Duration, Instant};

use spindoctor_model::{Probe, ProbeFailure, ServerVersion};

use super::backoff::Reconnect;
use super::costs::PROBE;
use super::counters::{self, CounterSymbols, Memory, SAYS_LOG};
use super::shared::{Shared, Stopped};
use super::{CONNECTIONS, OWN_CONNECTIONS};
use crate::mysql::logins::{self, Again, Limit};
use crate::mysql::{ConnectError, Limits, QueryError, Rows, Session};

/// From one probe to the next.
pub(super) const EVERY: Duration = Duration::from_millis(100);

/// How long an answer is waited for, of a question and of a new connection: far beyond what a server that answers needs.
const DEADLINE: Duration = Duration::from_secs(1);

/// An answer that takes longer is reported before it arrives: so a server that stops for 200 ms is examined meanwhile.
/// None of the 7,194 answers in the recordings of steady load (`crates/stalls/tests/stalls/real`) took that long.
const OVERDUE: Duration = Duration::from_millis(60);

/// And longer than so many times the mean of late: a server whose CPUs are all busy may take that long for each answer.
const OVERDUE_TIMES: u32 = 5;

/// One answer's part of the mean of late.
const MEAN_PART: i32 = 16;

/// Answers that come later than the fastest one by more than this part of the time wait for a CPU: a server that has no time is
/// asked half as often. With 256 clients that never rest on two CPUs an answer, which needs 1 ms of a CPU, took 50 ms; with
/// 1,200 statements a second, 1 ms. What a distant server's network takes is in the fastest one, too.
const BUSY_PART: u32 = 5;
/// It is asked as often as before again where they are late by less than this part of what then were the time.
const CALM_PART: u32 = 10;
/// So many times the usual time lies between two probes at most.
const MOST_TIMES: u32 = 4;
/// Where the server adds up the counters of all sessions for each probe, it is asked half as often for each doubling beyond so many
/// sessions: MariaDB 10.11 takes 2.6 ms of its CPU for one with 1,000 connections, and 6.5 ms with 5,000.
const SESSIONS_AT_USUAL: u64 = 3_000;
/// And that is known after so many probes: before, the counters may be found in the server's memory.
const ENOUGH_BY_SQL: u32 = 100;
/// An answer that comes sooner shows how many threads ran when it was asked for.
const SOON: Duration = Duration::from_millis(10);
/// To the mean of late no answer counts more than this: a stall alone makes no probe rare.
const MOST_COUNTED: Duration = Duration::from_millis(100);

/// Woken so much later than it asked for, this program did not run itself: it was stopped, or its machine was. The answer may
/// have been there for long.
const HELD: Duration = Duration::from_millis(500);

/// The probe, before it runs.
pub(super) struct Prober {
    shared: Shared,
    every: Duration,
}

impl Prober {
    pub(super) fn new(shared: Shared, every: Duration) -> Self {
        Self { shared, every: every.max(Duration::from_millis(10)) }
    }

    /// Probes on a thread of its own, until the caller is gone.
    pub(super) fn start(self) {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("probe".to_owned());
        let started = thread.spawn(move || {
            let _reports = ReportsItsPanic(self.shared.clone());
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(self.run()),
                Err(error) => self.shared.no_probe(error.to_string()),
            }
        });
        // Where the system has no room for another thread, sampling goes on without probes.
        if let Err(error) = started {
            shared.no_probe(error.to_string());
        }
    }

    async fn run(self) {
        let Self { shared, every } = self;
        let _running = shared.running();
        // The sampler logs in first: it learns whether the account is let in, and how many connections it may have.
        let limit = tokio::select! {
            () = shared.stopped() => return,
            limit = shared.door.target().logins.limited() => limit,
        };
        if let Limit::Connections(most) = limit
            && limit.room(CONNECTIONS) < OWN_CONNECTIONS
        {
            return shared.no_room(most);
        }
        let mut connection = Connection::None { again: Instant::now(), reconnect: Reconnect::default() };
        tokio::select! {
            () = shared.stopped() => {}
            Stopped = connection.probe_for_ever(&shared, every) => {}
        }
        if let Connection::Open { session, .. } = connection {
            session.close().await;
        }
    }
}

/// Says so where the probe's thread panics.
struct ReportsItsPanic(Shared);

impl Drop for ReportsItsPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.no_probe("the probe failed; please report it".to_owned());
        }
    }
}

/// The probe's connection.
enum Connection {
    /// There is none; it is tried again then.
    None { again: Instant, reconnect: Reconnect },
    Open {
        session: Box<Session>,
        statement: &'static str,
        memory: Box<Memory>,
        lately: Lately,
        reconnect: Reconnect,
    },
}

impl Connection {
    async fn probe_for_ever(&mut self, shared: &Shared, every: Duration) -> Stopped {
        let mut due = Instant::now();
        let mut symbols = counters::symbols();
        loop {
            let asked = Instant::now();
            if let Some(probe) = self.probe(shared, &mut symbols).await
                && let Err(stopped) = shared.send_probe(asked, probe)
            {
                return stopped;
            }
            let every = self.every(shared, every);
            due += every;
            // Those that a late answer has made impossible are not made up for.
            let now = Instant::now();
            while due < now {
                due += every;
            }
            tokio::time::sleep_until(due.into()).await;
        }
    }

    /// From one probe to the next: longer where each answer takes long, but for a stall that is looked at.
    fn every(&mut self, shared: &Shared, usual: Duration) -> Duration {
        let Self::Open { lately, memory, .. } = self else { return usual };
        if lately.paced(usual, memory.is_known()) {
            let because_takes = (lately.times > 1).then(|| lately.mean());
            shared.probe_asks(usual * lately.times, because_takes);
        }
        if shared.is_hurry() { usual } else { usual * lately.times }
    }

    /// Probes; none where there is nothing to be asked yet.
    async fn probe(&mut self, shared: &Shared, symbols: &mut CounterSymbols) -> Option<Probe> {
        match self {
            Self::None { again, .. } if Instant::now() < *again => None,
            Self::None { reconnect, .. } => {
                let mut reconnect = *reconnect;
                let asked = Instant::now();
                let limits = Limits { connect: DEADLINE, query: DEADLINE };
                let failure = match shared.door.connect(&limits).await {
                    Ok(session) => {
                        shared.leave_out(session.connection_id());
                        let version = session.version().unwrap_or_default();
                        *self = Self::Open {
                            session: Box::new(session),
                            statement: statement(version),
                            memory: Box::new(Memory::of_version(version)),
                            lately: Lately::default(),
                            reconnect,
                        };
                        return None;
                    }
                    // The sampler is with another one of the servers behind the address: that says nothing of its server.
                    Err(ConnectError::OtherServer { .. }) => {
                        let again = Instant::now() + reconnect.failed();
                        *self = Self::None { again, reconnect };
                        return None;
                    }
                    Err(error) => failure_to_connect(&error),
                };
                let wait = match shared.door.target().logins.again() {
                    Some(Again::In(wait)) => wait,
                    // What was refused for good may be mended by a person, who restarts this.
                    Some(Again::Never) => logins::WAIT,
                    None => again_in(failure, &mut reconnect),
                };
                let again = Instant::now() + wait;
                *self = Self::None { again, reconnect };
                Some(without_answer(asked.elapsed(), failure))
            }
            Self::Open { session, statement, memory, lately, reconnect } => {
                let is_enough = memory.is_enough(Instant::now());
                let before = if is_enough { None } else { memory.before(symbols, || shared.process()) };
                let asking = || shared.asking.load(std::sync::atomic::Ordering::Relaxed);
                let ran = if is_enough { memory.running(asking()) } else { None };
                let asked = Instant::now();
                let statement = if is_enough { QUESTION } else { *statement };
                let overdue = lately.overdue();
                let (answer, was_held) = {
                    let mut answer = std::pin::pin!(session.query(statement));
                    match tokio::time::timeout(overdue, &mut answer).await {
                        Ok(answer) => (answer, asked.elapsed() > overdue + HELD),
                        Err(_) if asked.elapsed() > overdue + HELD => (answer.await, true),
                        Err(_) => {
                            shared.send_overdue(asked);
                            let answer = answer.await;
                            (answer, asked.elapsed() > DEADLINE + HELD)
                        }
                    }
                };
                let took = asked.elapsed();
                if !session.is_broken() {
                    reconnect.answered();
                }
                if was_held {
                    // Nobody knows how long the server took. The next probe shows what a session that broke meanwhile
                    // means.
                    self.let_go_of_broken(shared);
                    return None;
                }
                lately.took(took);
                shared.costs.count(PROBE, took, answer.as_ref().map_or(0, Rows::len));
                match answer {
                    Ok(rows) => {
                        // Whose question the rows answer is one of those that run.
                        let mut probe = read(&rows, took, 1 + asking());
                        if is_enough {
                            memory.read(asking(), &mut probe);
                            // The server may count the probe's own thread for a moment after its answer.
                            if took < SOON && probe.threads_running.is_some() {
                                probe.threads_running = ran;
                            }
                        } else {
                            lately.added_up(probe.threads_connected.unwrap_or(0));
                            if let Some(before) = before {
                                memory.answered(symbols, &rows, &before, &mut probe);
                            }
                        }
                        Some(probe)
                    }
                    // The sampler went on to another server, and so does the probe.
                    Err(QueryError::OtherServer { .. }) => {
                        self.let_go_of_broken(shared);
                        None
                    }
                    Err(error) => {
                        self.let_go_of_broken(shared);
                        Some(without_answer(took, failure(&error)))
                    }
                }
            }
        }
    }

    /// Where its session is broken there is none; a new one is tried at once where this one had answered.
    fn let_go_of_broken(&mut self, shared: &Shared) {
        if let Self::Open { session, reconnect, .. } = self
            && session.is_broken()
        {
            shared.no_longer_leave_out(session.connection_id());
            let mut reconnect = *reconnect;
            let again = Instant::now() + reconnect.failed();
            *self = Self::None { again, reconnect };
        }
    }
}

/// How long the answers of late took.
#[derive(Debug)]
struct Lately {
    mean_us: i32,
    /// Of the fastest answer.
    least_us: i32,
    /// So many times the usual time lies between two probes.
    times: u32,
    /// Probes for which the server added up its sessions, and how many sessions those were last.
    by_sql: u32,
    sessions: u64,
}

impl Default for Lately {
    fn default() -> Self {
        Self { mean_us: 0, least_us: i32::MAX, times: 1, by_sql: 0, sessions: 0 }
    }
}

impl Lately {
    fn took(&mut self, took: Duration) {
        let took_us = i32::try_from(took.min(MOST_COUNTED).as_micros()).unwrap_or(i32::MAX);
        self.mean_us += (took_us - self.mean_us) / MEAN_PART;
        self.least_us = self.least_us.min(took_us);
    }

    /// For a probe the server added up the counters of so many sessions.
    fn added_up(&mut self, sessions: u64) {
        self.by_sql = self.by_sql.saturating_add(1);
        self.sessions = sessions;
    }

    /// So many times the usual time lies between two probes at least, for what they take of the server.
    fn least_times(&self) -> u32 {
        let mut times = 1;
        while self.by_sql >= ENOUGH_BY_SQL
            && times < MOST_TIMES
            && self.sessions > SESSIONS_AT_USUAL * u64::from(times)
        {
            times *= 2;
        }
        times
    }

    /// How much later than the fastest answer the others come.
    fn late(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.mean_us.saturating_sub(self.least_us)).unwrap_or(0))
    }

    fn mean(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.mean_us).unwrap_or(0))
    }

    /// After how long an answer is overdue.
    fn overdue(&self) -> Duration {
        OVERDUE.max(self.mean() * OVERDUE_TIMES)
    }

    /// Fits the time between two probes to how late answers are, but where each takes the server next to nothing. True where
    /// it changed.
    fn paced(&mut self, usual: Duration, costs_nothing: bool) -> bool {
        let times = match self.times {
            _ if costs_nothing => 1,
            times if times < MOST_TIMES && self.late() * BUSY_PART > usual * times => times * 2,
            times if times > 1 && self.late() * CALM_PART < usual * times / 2 => times / 2,
            times => times,
        };
        let times = if costs_nothing { times } else { times.max(self.least_times()) };
        std::mem::replace(&mut self.times, times) != times
    }
}

/// What is asked where the counters are read in the server's memory: the way of any statement through the server.
const QUESTION: &str = "DO 1";

/// What is asked, ten times a second where the counters are not read in the server's memory. Of the server's time, as medians on two CPUs that were full of other work, it takes
/// 1.5 ms of MySQL 9.7 with 1,000 connections, where `SHOW GLOBAL STATUS` takes 1.7 ms, and 2.0 ms of MariaDB 10.11 with
/// 940 idle ones, whose table of the same takes as long as its `SHOW`. Most of that does not depend on the connections:
/// `SHOW` takes MySQL 0.9 ms with 90 of them. `examples/follow_cost.rs` asks all of these.
///
/// A ping takes 0.02 ms, and shows no throughput. With counters in every second probe alone, of simulated stalls of 200
/// ms a third to three fifths are found, instead of 96 in 100, and some are found where there are none: so every probe
/// asks for them.
///
/// A server whose counters may be read in its memory is asked for `Queries`, which is what its memory has: of one server it is
/// always the same count of statements, in each session, by SQL and in memory.
fn statement(version: ServerVersion) -> &'static str {
    let (major, minor, patch) = SAYS_LOG;
    if version.is_mariadb() {
        "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Threads_connected', 'Questions', \
         'Handler_commit', 'Innodb_checkpoint_age')"
    } else if version.mysql_at_least(major, minor, patch) {
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN \
         ('Threads_running', 'Threads_connected', 'Queries', 'Handler_commit', 'Innodb_redo_log_current_lsn', \
         'Innodb_redo_log_checkpoint_lsn', 'Threads_created', 'Connections')"
    } else if version.mysql_at_least(8, 0, 0) {
        "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN \
         ('Threads_running', 'Threads_connected', 'Questions', 'Handler_commit')"
    } else {
        "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Threads_connected', 'Questions', \
         'Handler_commit')"
    }
}

/// A probe's answer; `own` of the threads that run are spindoctor's.
fn read(rows: &Rows, took: Duration, own: u64) -> Probe {
    let mut probe = Probe { took_ms: took.as_secs_f64() * 1e3, answered: true, ..Probe::default() };
    let (mut current, mut checkpoint) = (None, None);
    for row in rows.iter() {
        let Some(name) = row.at(0) else { continue };
        let value: Option<u64> = row.at(1).and_then(|value| value.parse().ok());
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("Threads_running") {
            probe.threads_running = value.map(|running| running.saturating_sub(own));
        } else if is("Threads_connected") {
            probe.threads_connected = value;
        } else if is("Questions") || is("Queries") {
            probe.questions = value;
        } else if is("Handler_commit") {
            probe.commits = value;
        } else if is("Innodb_checkpoint_age") {
            probe.checkpoint_age_bytes = value;
        } else if is("Innodb_redo_log_current_lsn") {
            current = value;
        } else if is("Innodb_redo_log_checkpoint_lsn") {
            checkpoint = value;
        }
    }
    if let (Some(current), Some(checkpoint)) = (current, checkpoint) {
        probe.checkpoint_age_bytes = Some(current.saturating_sub(checkpoint));
    }
    probe
}

fn without_answer(took: Duration, failure: ProbeFailure) -> Probe {
    Probe { took_ms: took.as_secs_f64() * 1e3, answered: false, failure: Some(failure), ..Probe::default() }
}

fn failure(error: &QueryError) -> ProbeFailure {
    match error {
        QueryError::NoAnswer { .. } | QueryError::TooLong { .. } => ProbeFailure::NoAnswer,
        QueryError::Gone { .. } | QueryError::Broken => ProbeFailure::Closed,
        _ => ProbeFailure::Error,
    }
}

fn failure_to_connect(error: &ConnectError) -> ProbeFailure {
    match error {
        ConnectError::Silent { .. } | ConnectError::Unanswered { .. } => ProbeFailure::NoAnswer,
        ConnectError::Refused { .. } | ConnectError::NoSocket { .. } => ProbeFailure::Refused,
        ConnectError::Closed { .. } => ProbeFailure::Closed,
        ConnectError::TooManyConnections { .. } | ConnectError::AccountLimit { .. } => {
            ProbeFailure::TooManyConnections
        }
        _ => ProbeFailure::NotConnected,
    }
}

/// When to try again. What may be over any moment and leaves nothing behind is tried each second: that is when a restart
/// ends. What somebody has to mend is tried less and less often, as each try is a line in the server's log; and so is a
/// server that is silent, which may keep a connection of each login that it does not answer.
fn again_in(failure: ProbeFailure, reconnect: &mut Reconnect) -> Duration {
    match failure {
        ProbeFailure::NotConnected | ProbeFailure::Error | ProbeFailure::NoAnswer => reconnect.failed(),
        ProbeFailure::Refused | ProbeFailure::Closed | ProbeFailure::TooManyConnections => DEADLINE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Rows;

    fn rows(pairs: &[(&str, &str)]) -> Rows {
        let cells =
            pairs.iter().map(|(name, value)| vec![Some((*name).to_owned()), Some((*value).to_owned())]);
        Rows::new(vec!["Variable_name".to_owned(), "Value".to_owned()], cells.collect())
    }

    #[test]
    fn an_answer_is_overdue_by_what_is_usual_and_one_late_answer_changes_little() {
        let mut lately = Lately::default();
        let mut took = |ms, times| {
            for _ in 0..times {
                lately.took(Duration::from_millis(ms));
            }
            lately.overdue().as_millis()
        };
        assert_eq!(took(2, 100), 60);
        assert!(took(200, 1) < 80);
        assert_eq!(took(2, 20), 60);
        assert!((300..=350).contains(&took(70, 200)));
    }

    #[test]
    fn a_busy_server_is_asked_less_often_and_one_that_hangs_for_seconds_is_not() {
        let mut lately = Lately::default();
        let mut every_ms = |ms, times| {
            for _ in 0..times {
                lately.took(Duration::from_millis(ms));
                lately.paced(EVERY, false);
            }
            (EVERY * lately.times).as_millis()
        };
        assert_eq!(every_ms(2, 100), 100);
        assert_eq!(every_ms(1000, 3), 100);
        assert_eq!(every_ms(2, 100), 100);
        assert_eq!(every_ms(30, 100), 200);
        assert_eq!(every_ms(50, 100), 400);
        assert_eq!(every_ms(30, 100), 400);
        assert_eq!(every_ms(15, 100), 200);
        assert_eq!(every_ms(5, 100), 100);
        // Where the counters are read in memory it goes on as often, and comes back to it at once.
        every_ms(50, 100);
        assert!(lately.paced(EVERY, true) && !lately.paced(EVERY, true));
        assert_eq!(lately.times, 1);
    }

    #[test]
    fn a_server_that_adds_up_thousands_of_sessions_for_each_probe_is_asked_less_often() {
        let every_ms = |sessions, probes| {
            let mut lately = Lately::default();
            for _ in 0..probes {
                lately.took(Duration::from_millis(7));
                lately.added_up(sessions);
                lately.paced(EVERY, false);
            }
            (EVERY * lately.times).as_millis()
        };
        assert_eq!(
            [1_000, 3_000, 5_000, 7_000, 100_000].map(|sessions| every_ms(sessions, 200)),
            [100, 100, 200, 400, 400]
        );
        assert_eq!(every_ms(5_000, ENOUGH_BY_SQL - 1), 100, "its memory may be found yet");
    }

    #[test]
    fn a_distant_server_is_asked_as_often_as_a_near_one() {
        let mut lately = Lately::default();
        for _ in 0..200 {
            lately.took(Duration::from_millis(80));
            lately.paced(EVERY, false);
        }
        assert_eq!(lately.times, 1);
    }

    #[test]
    fn both_dialects_show_the_checkpoint_age_and_own_threads_are_not_counted() {
        let took = Duration::from_millis(2);
        let mysql = rows(&[
            ("Threads_running", "5"),
            ("Queries", "700"),
            ("Innodb_redo_log_checkpoint_lsn", "1000"),
            ("Innodb_redo_log_current_lsn", "1500"),
        ]);
        let probe = read(&mysql, took, 2);
        assert_eq!((probe.threads_running, probe.checkpoint_age_bytes), (Some(3), Some(500)));
        assert_eq!(
            (probe.questions, probe.commits, probe.answered, probe.took_ms),
            (Some(700), None, true, 2.0)
        );
        let maria = rows(&[("Threads_running", "1"), ("Innodb_checkpoint_age", "42")]);
        let probe = read(&maria, took, 2);
        assert_eq!((probe.threads_running, probe.checkpoint_age_bytes), (Some(0), Some(42)));
    }

    #[test]
    fn of_one_server_one_counter_of_statements_is_asked_for() {
        let version = |text, comment| ServerVersion::parse(text, comment).unwrap();
        for (text, comment, is_queries) in [
            ("5.7.44", "", false),
            ("8.0.29", "", false),
            ("8.0.30", "", true),
            ("9.7.4", "", true),
            ("10.11.6-MariaDB", "mariadb", false),
        ] {
            let statement = statement(version(text, comment));
            let has = ["'Queries'", "'Questions'"].map(|name| statement.contains(name));
            assert_eq!(has, [is_queries, !is_queries], "{text}");
            assert!(statement.contains("'Handler_commit'"), "{text}: commits are known before the memory is");
        }
    }

    #[test]
    fn a_full_server_one_that_is_down_and_one_that_hangs_are_distinguished() {
        let address = || "db17:3306".to_owned();
        let full = ConnectError::TooManyConnections { address: address(), message: String::new() };
        assert_eq!(failure_to_connect(&full), ProbeFailure::TooManyConnections);
        assert_eq!(failure_to_connect(&ConnectError::Refused { address: address() }), ProbeFailure::Refused);
        let silent = ConnectError::Silent { address: address(), after: DEADLINE };
        assert_eq!(failure_to_connect(&silent), ProbeFailure::NoAnswer);
        assert_eq!(failure(&QueryError::Gone { reason: String::new() }), ProbeFailure::Closed);
    }

    #[test]
    fn a_server_that_is_held_for_ten_seconds_is_probed_again_some_seconds_later() {
        let mut reconnect = Reconnect::default();
        reconnect.answered();
        // Held at 0, it leaves one question without an answer, and then each login.
        let mut second = DEADLINE + reconnect.failed();
        let mut logins = Vec::new();
        while second < Duration::from_secs(10) {
            logins.push(second.as_secs());
            second += DEADLINE + again_in(ProbeFailure::NoAnswer, &mut reconnect);
        }
        assert_eq!(logins, [1, 3, 6]);
        assert_eq!(second, Duration::from_secs(11));
    }

    #[test]
    fn a_server_that_is_down_is_tried_each_second_and_one_that_is_silent_less_and_less_often() {
        let mut reconnect = Reconnect::default();
        let mut waits_s = |failure, tries: usize| -> Vec<u64> {
            (0..tries).map(|_| again_in(failure, &mut reconnect).as_secs()).collect()
        };
        assert_eq!(waits_s(ProbeFailure::Refused, 3), [1, 1, 1]);
        assert_eq!(waits_s(ProbeFailure::NotConnected, 2), [1, 2]);
        assert_eq!(waits_s(ProbeFailure::NoAnswer, 4), [4, 8, 16, 30]);
        assert_eq!(waits_s(ProbeFailure::TooManyConnections, 2), [1, 1]);
    }
}
