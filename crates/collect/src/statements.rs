//! The statements that run, many times a second, and the server's counters beside them.
//!
//! In: a target, and whose statements: the clients' or the appliers' of a replica. Out: a [`Look`] each time that the
//! caller asks, and the cost of the query for the server: where its process is on this host, the CPU time of the thread
//! that serves this session, which no queue for the CPUs distorts.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::{Duration, Instant};

use spindoctor_model::mysql::{NamedValues, ServerThread};
use spindoctor_model::{ServerSample, ServerVersion};

use crate::asking::{Known, ask_all, first_answer, has_threads};
use crate::host;
use crate::host::thread_ids::ThreadIds;
use crate::mysql::source::Source;
use crate::mysql::{ConnectError, QueryError, Rows, Session, Target, perf_schema_threads, processlist};

/// Statements whose exact time is asked for in one look.
const TIMED: usize = 20;

/// Whose statements are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Those of clients.
    Clients,
    /// Those that a replica applies.
    Appliers,
}

impl Whose {
    /// The sources, the better one first; with what each session waits for, where the server shows that too.
    fn sources(self, shows_waits: bool) -> [&'static Source; 2] {
        match (self, shows_waits) {
            (Self::Clients, true) => [&perf_schema_threads::SAMPLED_WITH_WAITS, &processlist::SAMPLED],
            (Self::Clients, false) => [&perf_schema_threads::SAMPLED, &processlist::SAMPLED],
            (Self::Appliers, _) => [&perf_schema_threads::APPLIERS, &processlist::APPLIERS],
        }
    }
}

/// Who ran what at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// The threads that ran a statement; of appliers all of them.
    pub threads: Vec<ServerThread>,
    /// By connection id, the table that an applier works on, where the server shows it.
    pub tables: HashMap<u64, String>,
    /// By connection id, the event that it waits for (`wait/io/file/innodb/innodb_log_file`), where the server shows
    /// it.
    pub waits: HashMap<u64, String>,
    /// From question to answer, milliseconds.
    pub took_ms: f64,
    /// True where the list was cut at its bound.
    pub cut: bool,
}

/// A session that looks.
#[derive(Debug)]
pub struct Statements {
    session: Session,
    whose: Whose,
    version: ServerVersion,
    variables: NamedValues,
    process: Option<host::Target>,
    ids: Option<ThreadIds>,
    /// The kernel's id, here, of the server's thread that serves this session.
    served_by: Option<u32>,
    /// What that thread ran before it served us: servers keep threads for the next client.
    ran_before: Duration,
    /// What each thread ran in the look before, as a number.
    before: HashMap<u64, u64>,
    hasher: RandomState,
    /// False where the server does not report the exact time of statements.
    has_times: bool,
    /// True where it shows what each thread waits for: somebody has switched that on.
    shows_waits: bool,
    start: Instant,
}

impl Statements {
    /// Connects. Where the server's process is given, its threads go by the ids that they have here.
    ///
    /// # Errors
    /// There is no session.
    pub async fn connect(
        target: &Target,
        process: Option<host::Target>,
        whose: Whose,
    ) -> Result<Self, ConnectError> {
        let mut session = Session::connect(target, &target.limits).await?;
        let variables = session.performance_schema().await;
        let version = session.version().unwrap_or_default();
        let has_threads = has_threads(version, &variables);
        let mut ids = process.clone().map(ThreadIds::of_process);
        let mut served_by = None;
        if let Some(ids) = &mut ids
            && let Some(theirs) = own_thread(&mut session, version, has_threads).await
        {
            ids.refresh_if_unknown([theirs]);
            served_by = ids.here(theirs);
        }
        let shows_waits = has_threads
            && version.mysql_at_least(8, 0, 0)
            && whose == Whose::Clients
            && waits_are_on(&mut session).await;
        let ran_before = process.as_ref().zip(served_by).and_then(|(process, tid)| ran(process, tid));
        Ok(Self {
            session,
            whose,
            version,
            variables,
            process,
            ids,
            served_by,
            ran_before: ran_before.unwrap_or_default(),
            before: HashMap::new(),
            hasher: RandomState::new(),
            has_times: has_threads && version.mysql_at_least(5, 7, 0) && whose == Whose::Clients,
            shows_waits,
            start: Instant::now(),
        })
    }

    /// Times count from then: for a caller that goes on over a new session.
    #[must_use]
    pub fn counting_from(mut self, start: Instant) -> Self {
        self.start = start;
        self
    }

    /// Which server it is.
    pub fn version(&self) -> ServerVersion {
        self.version
    }

    /// Its session: what the server says it is, what did not go as it should, what it cost.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The server's thread that serves this session, as this host numbers it; None where its process is not on this host.
    pub fn served_by(&self) -> Option<u32> {
        self.served_by
    }

    /// CPU time that the server's thread spent on this session so far; None where its process is not on this host, or the
    /// kernel does not count.
    pub fn server_cpu(&self) -> Option<Duration> {
        let so_far = ran(self.process.as_ref()?, self.served_by?)?;
        Some(so_far.saturating_sub(self.ran_before))
    }

    /// Looks once.
    ///
    /// # Errors
    /// The server did not answer in time, went away, or refused every source.
    pub async fn look(&mut self) -> Result<Look, QueryError> {
        let asked = Instant::now();
        let known = Known { version: self.version, variables: Some(&self.variables), origin: self.start };
        let sources = self.whose.sources(self.shows_waits);
        let Some((rows, sample)) = first_answer(&mut self.session, sources, known).await? else {
            return Ok(Look::default());
        };
        let mut look = look_of(&rows, sample);
        self.time(&mut look).await?;
        look.took_ms = asked.elapsed().as_secs_f64() * 1e3;
        if let Some(ids) = &mut self.ids {
            ids.rename(&mut look.threads);
        }
        Ok(look)
    }

    /// Asks for the exact time of the statements that ran in the look before, too: performance_schema.threads counts
    /// whole seconds. Most statements are over by the next look, so that these are few.
    ///
    /// Cost: a slot of memory for each, about 0.01 ms.
    async fn time(&mut self, look: &mut Look) -> Result<(), QueryError> {
        if !self.has_times {
            return Ok(());
        }
        let runs: HashMap<u64, u64> = look
            .threads
            .iter()
            .filter_map(|thread| {
                Some((thread.internal_id?, self.hasher.hash_one(thread.statement.as_deref()?)))
            })
            .collect();
        let mut still: Vec<&ServerThread> = look
            .threads
            .iter()
            .filter(|thread| {
                thread
                    .internal_id
                    .is_some_and(|id| self.before.contains_key(&id) && self.before.get(&id) == runs.get(&id))
            })
            .collect();
        still.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
        let ids: Vec<u64> = still.iter().take(TIMED).filter_map(|thread| thread.internal_id).collect();
        self.before = runs;
        let Some(sql) = times_of(&ids) else { return Ok(()) };
        match self.session.query(&sql).await {
            Ok(rows) => {
                set_times(&rows, &mut look.threads);
                Ok(())
            }
            Err(error) if error.breaks_session() => Err(error),
            Err(_) => {
                // Whole seconds have to do.
                self.has_times = false;
                Ok(())
            }
        }
    }

    /// Asks these sources. One that the server refuses is unavailable in the sample.
    ///
    /// # Errors
    /// The session broke: the server did not answer in time or went away.
    pub async fn read(&mut self, sources: &[&Source], sample: &mut ServerSample) -> Result<(), QueryError> {
        let known = Known { version: self.version, variables: Some(&self.variables), origin: self.start };
        ask_all(&mut self.session, sources.iter().copied(), known, sample).await
    }

    /// Rows that were sent to clients since the server started, where its status does not count them; None where nothing
    /// does: 5.6 counts none of prepared statements (seen on 5.6.14), so that of a server that runs some it is not known.
    ///
    /// Cost: a row for each kind of statement, some 200, in memory.
    pub async fn rows_sent(&mut self) -> Option<f64> {
        if self.version.is_mariadb() || !self.shows_statements() {
            return None;
        }
        let sql = "SELECT SUM(SUM_ROWS_SENT) AS sent, \
                   SUM(IF(EVENT_NAME = 'statement/com/Execute', COUNT_STAR, 0)) AS prepared, \
                   SUM(IF(EVENT_NAME = 'statement/com/Execute', SUM_ROWS_EXAMINED + SUM_ROWS_SENT, 0)) AS prepared_rows \
                   FROM performance_schema.events_statements_summary_global_by_event_name";
        rows_sent(&self.session.query(sql).await.ok()?)
    }

    fn shows_statements(&self) -> bool {
        has_threads(self.version, &self.variables)
    }

    /// Seconds since the session was made: what the times of [`Statements::read`] count from.
    pub fn elapsed_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        self.session.close().await;
    }
}

/// None where prepared statements ran and none of their rows is counted.
fn rows_sent(rows: &Rows) -> Option<f64> {
    let row = rows.first()?;
    let number = |column: &str| row.number::<f64>(column).unwrap_or(0.0);
    let counts_all = number("prepared") == 0.0 || number("prepared_rows") > 0.0;
    row.number("sent").filter(|_| counts_all)
}

/// CPU time of a thread since it began.
fn ran(process: &host::Target, tid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(process.process(format!("task/{tid}/schedstat"))).ok()?;
    parse_ran(&text)
}

/// The server's id of the thread that serves a session.
async fn own_thread(session: &mut Session, version: ServerVersion, has_threads: bool) -> Option<u64> {
    let sql = if version.is_mariadb() {
        "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
    } else if has_threads && version.mysql_at_least(5, 7, 0) {
        "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
    } else {
        return None;
    };
    let rows = session.query(sql).await.ok()?;
    rows.first()?.at(0)?.parse().ok().filter(|&id: &u64| id > 0)
}

/// Whether the server keeps what each thread waits for. It is never switched on here: that costs each wait of the server.
async fn waits_are_on(session: &mut Session) -> bool {
    // The other two are above it: without them it keeps nothing.
    let sql = "SELECT COUNT(*) AS switched_on FROM performance_schema.setup_consumers \
               WHERE NAME IN ('global_instrumentation', 'thread_instrumentation', 'events_waits_current') \
               AND ENABLED = 'YES'";
    let rows = session.query(sql).await.ok();
    rows.and_then(|rows| rows.first()?.number::<u64>("switched_on")) == Some(3)
}

fn look_of(rows: &Rows, sample: ServerSample) -> Look {
    let by_connection = |column: &str| -> HashMap<u64, String> {
        rows.iter()
            .filter_map(|row| Some((row.number("PROCESSLIST_ID")?, row.text(column)?.to_owned())))
            .collect()
    };
    let (tables, waits) = (by_connection("LOCKED_TABLE"), by_connection("WAIT_EVENT"));
    let cut = !sample.cut.is_empty();
    let threads = match sample.threads {
        spindoctor_model::Reading::Available { value, .. } => value,
        _ => Vec::new(),
    };
    Look { threads, tables, waits, took_ms: 0.0, cut }
}

/// What asks for the time of the statements that these threads run; None of no thread.
///
/// Each thread is looked up by itself: a walk over the table would compute the digest of every connection's statement.
fn times_of(ids: &[u64]) -> Option<String> {
    if ids.is_empty() {
        return None;
    }
    let wanted: Vec<String> = ids.iter().map(|id| format!("SELECT {id} AS id")).collect();
    Some(format!(
        "SELECT s.THREAD_ID, s.EVENT_ID, s.TIMER_WAIT FROM ({}) AS wanted \
         STRAIGHT_JOIN performance_schema.events_statements_current AS s ON s.THREAD_ID = wanted.id \
         WHERE s.NESTING_EVENT_LEVEL = 0 AND s.END_EVENT_ID IS NULL",
        wanted.join(" UNION ALL ")
    ))
}

/// Gives the threads the number and the time of their statements; the server counts picoseconds.
fn set_times(rows: &Rows, threads: &mut [ServerThread]) {
    for row in rows.iter() {
        let Some(id) = row.number::<u64>("THREAD_ID") else { continue };
        let Some(thread) = threads.iter_mut().find(|thread| thread.internal_id == Some(id)) else { continue };
        thread.statement_number = row.number("EVENT_ID");
        if let Some(picoseconds) = row.number::<f64>("TIMER_WAIT") {
            thread.time_s = picoseconds / 1e12;
        }
    }
}

// 2157643289 88121 4711        (/proc/PID/task/TID/schedstat: ran, waited, turns; nanoseconds)
fn parse_ran(text: &str) -> Option<Duration> {
    let ran_ns: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    // A kernel that does not count says 0 of a thread that has run.
    (ran_ns > 0).then(|| Duration::from_nanos(ran_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::fixture::rows;
    use crate::source::Answer;

    fn parsed(source: &Source, rows: &Rows) -> Look {
        let mut sample = ServerSample::default();
        (source.parse)(rows, Answer::default(), &mut sample);
        look_of(rows, sample)
    }

    #[test]
    fn an_applier_is_shown_with_the_table_that_it_locked_last() {
        let rows = rows(
            &["THREAD_ID", "NAME", "PROCESSLIST_ID", "PROCESSLIST_STATE", "PROCESSLIST_INFO", "LOCKED_TABLE"],
            &[
                &[
                    "60",
                    "thread/sql/replica_worker",
                    "9",
                    "Applying batch of row changes (update)",
                    "NULL",
                    "shop.stock",
                ],
                &[
                    "61",
                    "thread/sql/replica_worker",
                    "10",
                    "Waiting for an event from Coordinator",
                    "NULL",
                    "NULL",
                ],
            ],
        );
        let look = parsed(&perf_schema_threads::APPLIERS, &rows);
        assert_eq!(look.threads.len(), 2);
        assert!(!look.threads[0].is_connection && !look.cut);
        assert_eq!(look.tables, HashMap::from([(9, "shop.stock".to_owned())]));
    }

    #[test]
    fn what_a_client_waits_for_is_shown_where_the_server_keeps_it() {
        let rows = rows(
            &["THREAD_ID", "NAME", "PROCESSLIST_ID", "PROCESSLIST_STATE", "PROCESSLIST_INFO", "WAIT_EVENT"],
            &[
                &[
                    "52",
                    "thread/sql/one_connection",
                    "12",
                    "waiting for handler commit",
                    "COMMIT",
                    "wait/io/file/innodb/innodb_log_file",
                ],
                &["53", "thread/sql/one_connection", "13", "executing", "SELECT 1", "NULL"],
            ],
        );
        let look = parsed(&perf_schema_threads::SAMPLED_WITH_WAITS, &rows);
        assert_eq!(look.threads.len(), 2);
        assert_eq!(look.waits, HashMap::from([(12, "wait/io/file/innodb/innodb_log_file".to_owned())]));
    }

    #[test]
    fn the_exact_time_is_asked_of_each_thread_by_itself() {
        assert_eq!(times_of(&[]), None);
        let sql = times_of(&[7, 9]).unwrap();
        assert!(sql.contains("(SELECT 7 AS id UNION ALL SELECT 9 AS id) AS wanted"), "{sql}");
        let mut threads = [7, 8].map(|id| ServerThread { internal_id: Some(id), ..ServerThread::default() });
        let answer = rows(&["THREAD_ID", "EVENT_ID", "TIMER_WAIT"], &[&["7", "31", "812000000000"]]);
        set_times(&answer, &mut threads);
        assert_eq!((threads[0].statement_number, threads[0].time_s), (Some(31), 0.812));
        assert_eq!((threads[1].statement_number, threads[1].time_s), (None, 0.0));
    }

    #[test]
    fn rows_sent_are_not_known_where_those_of_prepared_statements_are_not_counted() {
        let of = |cells: &[&str]| rows_sent(&rows(&["sent", "prepared", "prepared_rows"], &[cells]));
        assert_eq!(of(&["21", "13201", "0"]), None, "5.6.14 under sysbench");
        assert_eq!(of(&["626064", "30514", "8435273"]), Some(626_064.0), "5.7.22");
        assert_eq!(of(&["21", "0", "0"]), Some(21.0));
        assert_eq!(of(&["NULL", "NULL", "NULL"]), None);
    }

    #[test]
    fn a_kernel_that_does_not_count_says_nothing() {
        assert_eq!(parse_ran("2157643289 88121 4711\n"), Some(Duration::from_nanos(2_157_643_289)));
        assert_eq!(parse_ran("0 0 0\n"), None);
        assert_eq!(parse_ran(""), None);
    }
}
