//! `thread-pool-starved`: all threads of the pool are taken by sessions that wait, and nobody else gets one.

use std::collections::BTreeSet;

use spindoctor_model::number::{self, whole};
use spindoctor_model::stack::Observation;
use spindoctor_model::{
    Evidence, Finding, NoSessionKind, Profile, Reading, Remedy, Sample, SessionTime, TimeClass, TroubleKind,
    Unavailable, Window,
};

use super::{connections_exhausted, server_stopped};
use crate::below::{Below, threads_below};
use crate::draft::Draft;
use crate::logged;
use crate::own_answers::OwnAnswers;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::run_queue::allowed_busy;
use crate::sessions::{Waiting, at_work};
use crate::{Cause, Costs, Outcome, Rule, Stacks};
use crate::{since_start, tcp_queues};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "thread-pool-starved",
    title: "all threads of the pool are taken by sessions that wait",
    what: "With thread_handling=pool-of-threads (MariaDB, Percona Server) a statement needs a thread of the pool. A session that waits \
           for a lock, or sleeps, keeps its thread; the pool makes another one for the next statement, up to thread_pool_max_threads. \
           When that many wait, statements of everybody else stay unread in their sockets, also the one that would let the others \
           go on, and a login is not answered.",
    why_it_hurts: "Clients hang without an error, on an idle server. The process list shows only those that have a thread: the others \
                   seem to sleep. Who wants to look at it cannot log in.",
    evidence: "It fires where thread_handling is pool-of-threads; Threadpool_threads is at thread_pool_max_threads in half of the \
               samples or more; as many sessions are at work as there are threads, one for each of the thread_pool_size groups left \
               out, which listens; and half of them or more wait. Where it is there in fewer samples, those alone count in which so many \
               are at work, two of them or more, and the estimate is their part of it.\n\n\
               Sessions at work are counted in the list and in the stacks, and the larger number counts: a pool that is full by \
               turns lets spindoctor's own questions through in its good moments, and the list shows no others. Without stacks what \
               the questions took says it: a second and more, for a fifth of the time.\n\n\
               Of a captured error log: its line that the number of allowed threads was reached. Of a captured status without a \
               list: as many threads as there may be, and none idle. Without a session: by the stacks no thread of the pool is free, \
               two or more are at a statement, and more of them wait than run.\n\n\
               Fewer groups than CPUs (thread_pool_size) make statements queue for up to thread_pool_stall_limit while the pool is \
               below its limit: it fires too where a statement runs in most groups, half a CPU and more is idle, and even \
               the quickest kind of spindoctor's own questions took 50 ms or longer half of the time. Fewer groups without a queue are \
               no finding. The estimate is then the idle part of the CPUs.\n\n\
               The estimate is else the share of the connections that have no thread, at most (those of them that have nothing to ask are \
               not distinguished), or the share of the time in which spindoctor's own questions waited, where that is more.",
    looks_alike: "What the sessions wait for is the cause where it has a name: row-lock-pileup, metadata-lock-pileup and \
                  global-lock-pileup then stand above this. Threads of a pool that all run are cpu-saturated. A server that refuses \
                  logins with error 1040 is connections-exhausted. information_schema.THREAD_POOL_GROUPS (MariaDB 10.5) shows in \
                  QUEUE_LENGTH how many statements of each group are unread.",
    remedies: "SET GLOBAL thread_pool_max_threads to more than sessions can wait at once; then end, or cure, what they wait for. Set \
               extra_port and extra_max_connections in the option file: logins there get a thread of their own, and you can look.",
    safety: "thread_pool_max_threads is dynamic and acts at once; each thread takes its stack and what its session allocates. extra_port \
             needs a restart.",
    references: &[
        "https://mariadb.com/kb/en/thread-pool-in-mariadb/",
        "https://mariadb.com/kb/en/thread-pool-system-status-variables/",
        "MariaDB 10.11 source, sql/threadpool_generic.cc (wake_or_create_thread, check_stall)",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Standing(AT_A_STATEMENT),
    rule: Rule::TimeOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Functions below which a thread of the pool is at a statement (sql/threadpool_common.cc). The program of MariaDB's packages has a
/// name for the first alone: the compiler puts the second into it.
const AT_A_STATEMENT: &[&str] = &["tp_callback", "threadpool_process_request"];

/// Share of the window in which spindoctor's own questions must have waited, where they alone say that nobody gets a thread. Chosen:
/// one late answer in ten seconds has other reasons.
const LATE: f64 = 0.2;

/// Share of the samples from which on a pool at its limit is judged by the whole window. Chosen: of less the other samples say nothing.
const MOSTLY: f64 = 0.5;

/// Samples that must show a pool full, where it is at its limit in fewer. Chosen: one may be an instant.
const SEVERAL: usize = 2;

/// Share of the sessions at work that must wait: a pool whose threads run is as large as somebody wanted it. Chosen.
const WAITING: f64 = 0.5;

/// Threads of a pool at statements, by their stacks, from which on it is one. Chosen.
const AT_STATEMENTS: f64 = 2.0;

/// What a session does that runs, or is ready to.
const RUNS: &[TimeClass] = &[
    TimeClass::Cpu,
    TimeClass::Spin,
    TimeClass::Kernel,
    TimeClass::Running,
    TimeClass::CpuQueue,
    TimeClass::CpuQuota,
    TimeClass::CpuTaken,
];

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let is_silent = window.server.no_session.as_ref().is_some_and(|no| no.kind == NoSessionKind::Silent);
    match window.profile.value() {
        Some(profile) if is_silent => by_stacks(profile, time).map_or(Outcome::Clear, Outcome::Fired),
        _ => examine(window, time).into(),
    }
}

/// What a capture of one moment says: an error log's end, or a status.
fn of_capture(window: &Window) -> Option<Finding> {
    of_log(window).or_else(|| of_status(window))
}

/// What a status alone says, without a list of the sessions: as many threads as there may be, and none of them idle.
fn of_status(window: &Window) -> Option<Finding> {
    if !window.is_given() || window.missing(|sample| &sample.server.threads).is_none() {
        return None;
    }
    if window.variable("thread_handling").is_some_and(|handling| handling != "pool-of-threads") {
        return None;
    }
    let limit = window.variable_number("thread_pool_max_threads").filter(|&limit| limit > 0.0)?;
    let threads = window.status("Threadpool_threads").filter(|&threads| threads >= limit)?;
    let idle = window.status("Threadpool_idle_threads").filter(|&idle| idle < 1.0)?;
    let connected = window.status("Threads_connected");
    let status = "SHOW GLOBAL STATUS";
    Some(
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!(
                "All {} threads of the pool are taken, and none is idle: further statements stay unread",
                whole(threads)
            ),
        )
        .why("The pool makes no more than thread_pool_max_threads, and a statement that comes now is read when a thread is free. Whether \
              those that have one wait or run, and for what, the status does not say: the process list does.")
        .evidence(
            Evidence::new("threads of the pool", threads, "", "SHOW GLOBAL STATUS Threadpool_threads")
                .expected(format!("< {limit:.0}")),
        )
        .evidence(Evidence::new("idle threads of the pool", idle, "", status).expected("> 0"))
        .evidence_if(connected.map(|connected| Evidence::new("connections", connected, "", status)))
        .remedy(look_at_the_list())
        .remedy(more_threads((2.0 * limit).ceil(), limit))
        .remedy(extra_port())
        .explains(&[connections_exhausted::CAUSE.name])
        .finding(),
    )
}

/// What an error log ends with: the pool says when it would have made a thread and may not (sql/threadpool_generic.cc).
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::PoolFull)?;
    Some(
        Draft::new(
            &CAUSE,
            CRITICAL_FROM,
            "All threads of the pool are taken: statements stay unread, and logins are not answered",
        )
        .why("The pool makes no more than thread_pool_max_threads. Threads that wait for a lock, or sleep, keep their place, so that also \
              the statement that would let them go on may stay unread.")
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedy(as_many_as_there_may_be())
        .remedy(look_at_the_list())
        .remedy(extra_port())
        .explains(&[connections_exhausted::CAUSE.name])
        .finding(),
    )
}

/// Sessions that run or are ready to, on average.
fn running(time: &SessionTime) -> f64 {
    let runs: f64 = time.classes.iter().filter(|one| RUNS.contains(&one.class)).map(|one| one.share).sum();
    time.session_seconds_per_second * runs
}

/// Sessions that wait or sleep on purpose, on average.
fn waiting(time: &SessionTime) -> f64 {
    (time.session_seconds_per_second - running(time)).max(0.0) + time.sleeping
}

/// What most of those that wait do.
fn doing(time: &SessionTime) -> &'static str {
    let largest = time.classes.iter().find(|one| !RUNS.contains(&one.class));
    match largest.filter(|one| one.share * time.session_seconds_per_second >= time.sleeping) {
        Some(one) => one.class.label(),
        None => "SLEEP()",
    }
}

/// Threads of the pool by their stacks.
struct Pool {
    /// On average.
    at_statements: f64,
    /// On average.
    free: f64,
    /// Share of the snapshots in which none was free, 0 to 1.
    full: f64,
}

impl Pool {
    fn from_profile(profile: &Profile) -> Self {
        // Who listens for all of its group is below get_event, too.
        let (for_work, listens) =
            (Below::new(profile, &["get_event"]), Below::new(profile, &["io_poll_wait"]));
        let is_free = |one: &&Observation| for_work.has(one) && !listens.has(one);
        let with_free: BTreeSet<u32> =
            profile.observations.iter().filter(is_free).map(|one| one.snapshot).collect();
        let free = threads_below(profile, &["get_event"]) - threads_below(profile, &["io_poll_wait"]);
        Self {
            at_statements: threads_below(profile, AT_A_STATEMENT),
            free: free.max(0.0),
            full: 1.0 - with_free.len() as f64 / profile.snapshots.len().max(1) as f64,
        }
    }
}

/// The threads that the pool has in a sample.
fn pool_threads(sample: &Sample) -> Option<f64> {
    sample.server.status.value()?.number("Threadpool_threads")
}

/// The moments in which the pool is full, where it is at its limit in a part of the samples: as many sessions are at work as it has
/// threads. It keeps these for a while after such a moment, so that the limit alone does not say it.
struct Moments {
    window: Window,
    time: SessionTime,
    /// Their part of the samples, 0 to 1.
    part: f64,
}

impl Moments {
    /// None of too few. No stacks are theirs alone.
    fn from_window(window: &Window, limit: f64, all: f64) -> Option<Self> {
        let is_full = |sample: &&Sample| {
            let threads = sample.server.threads.value().map(Vec::as_slice).unwrap_or_default();
            pool_threads(sample).is_some_and(|threads| threads >= limit)
                && at_work(threads).count() as f64 >= all
        };
        let samples: Vec<Sample> = window.samples.iter().filter(is_full).cloned().collect();
        if samples.len() < SEVERAL {
            return None;
        }
        let counted = window.samples.iter().filter_map(pool_threads).count();
        let part = samples.len() as f64 / counted.max(1) as f64;
        let window = Window { samples, profile: Reading::default(), ..window.clone() };
        let time = crate::session_time(&window)?;
        Some(Self { window, time, part })
    }
}

fn examine(window: &Window, time: &SessionTime) -> Result<Option<Finding>, Unavailable> {
    window.need(|s| &s.server.variables)?;
    if window.variable("thread_handling") != Some("pool-of-threads") {
        return Ok(None);
    }
    window.need(|s| &s.server.status)?;
    let limit = window.need_variable("thread_pool_max_threads")?;
    let threads = window.status_series("Threadpool_threads");
    let at_limit = threads.iter().filter(|(_, threads)| *threads >= limit).count();
    if threads.is_empty() {
        return Ok(None);
    }
    let own = OwnAnswers::from_window(window);
    if at_limit == 0 {
        return Ok(too_few_groups(window, time, own));
    }
    let is_mostly = at_limit as f64 >= MOSTLY * threads.len() as f64;
    let groups = window.variable_number("thread_pool_size").unwrap_or(1.0);
    // One thread of each group listens, and one reads the list of threads for spindoctor.
    let all = (limit - groups - 1.0).max(1.0);
    let moments = if is_mostly { None } else { Moments::from_window(window, limit, all) };
    let (then, time_then, part) = match &moments {
        Some(moments) => (&moments.window, &moments.time, moments.part),
        None => (window, time, 1.0),
    };
    let listed = Waiting::count(then, |_| true)?;
    let stood = window.profile.value().map(Pool::from_profile);
    let by_stacks = stood.as_ref().filter(|_| is_mostly).map_or(0.0, |pool| pool.at_statements);
    let (taken, source) = match listed.at_work_mean {
        listed if listed >= by_stacks => (listed, "thread list"),
        _ => (by_stacks, "stacks"),
    };
    let is_taken = (is_mostly || moments.is_some()) && taken >= all && waiting(time_then) >= WAITING * taken;
    // Threads that run let nobody through either, and are another matter; so is a pool of which threads are seen to be free.
    let has_room = stood.is_some_and(|pool| pool.full < LATE);
    let is_seen = is_mostly || at_limit >= SEVERAL;
    let is_late = is_seen && own.late_share >= LATE && running(time) < WAITING * all && !has_room;
    if !is_taken && !is_late {
        // What the questions took while it was at its limit is of that.
        let is_below = |sample: &&Sample| pool_threads(sample).is_some_and(|threads| threads < limit);
        let below = OwnAnswers::from_samples(window.samples.iter().filter(is_below), window.seconds());
        return Ok(if is_mostly { None } else { too_few_groups(window, time, below) });
    }
    let connected = then.status("Threads_connected").unwrap_or(taken).max(taken);
    let without = if is_taken { connected - taken } else { 0.0 };
    let more = (2.0 * limit).max(connected + groups).ceil();
    let headline = if is_taken {
        let (when, at_that_time) = match &moments {
            Some(moments) => (format!(" in {} of the samples", number::whole_percent(moments.part)), " then"),
            None => (String::new(), ""),
        };
        format!(
            "All {} threads of the pool are taken{when}, most by sessions that wait ({}): {} of {} connections have none{at_that_time}",
            whole(limit),
            doing(time_then),
            whole(without),
            whole(connected)
        )
    } else {
        format!(
            "All {} threads of the pool are taken again and again: {} of spindoctor's own {} questions waited, up to {:.1} s",
            whole(limit),
            own.late,
            own.asked,
            own.longest_s
        )
    };
    Ok(Some(
        Draft::new(&CAUSE, (part * without / connected.max(1.0)).max(own.late_share), headline)
        .why("The pool makes no more than thread_pool_max_threads, and a statement that comes now is read when a thread is free. Who has \
              none seems to sleep in the process list.")
        .evidence(
            Evidence::new("threads of the pool", limit, "", "SHOW GLOBAL STATUS Threadpool_threads")
                .expected(format!("< {limit:.0}"))
                .series(threads),
        )
        .evidence_if(moments.as_ref().map(|moments| {
            Evidence::new("samples in which all of them are taken", moments.part, "ratio", "thread list").expected("0")
        }))
        .evidence(
            Evidence::new("sessions at work", taken, "", source)
                .series(if source == "stacks" { Vec::new() } else { listed.series }),
        )
        .evidence(Evidence::new("of them wait or sleep", waiting(time_then), "", "session time"))
        .evidence(Evidence::new("groups of the pool", groups, "", "thread_pool_size"))
        .evidence(Evidence::new("connections", connected, "", "SHOW GLOBAL STATUS Threads_connected"))
        .evidence_if(tcp_queues::unread(window))
        .evidence_if((own.late > 0).then(|| {
            Evidence::new("spindoctor's own questions that took a second or more", own.late as f64, "", "answers").expected("0")
        }))
        .evidence_if(
            (own.late > 0).then(|| Evidence::new("time in which one of them waited", own.late_share, "ratio", "answers")),
        )
        .remedy(more_threads(more, limit))
        .remedy(extra_port())
        .explains(&[connections_exhausted::CAUSE.name])
        .finding(),
    ))
}

/// The quickest of spindoctor's own questions takes a millisecond where nobody waits; so long is a wait for its turn, seconds. Chosen.
const SLOW_S: f64 = 0.05;

/// Part of the groups that must have a statement that runs. Chosen.
const BUSY: f64 = 0.8;

/// CPUs that must be left over, of those that the server may use. Chosen.
const SPARE_CPUS: f64 = 0.5;

/// A group lets one statement run at once, and another one beside it only where that waits or has run for thread_pool_stall_limit: with
/// fewer groups than CPUs statements stay unread while CPUs are idle. Nothing counts them; spindoctor's own questions are among them. A
/// pool at its limit of threads is another matter: it lets nobody through however many groups it has, so that `own` are the answers of the
/// samples in which it is below.
fn too_few_groups(window: &Window, time: &SessionTime, own: OwnAnswers) -> Option<Finding> {
    let groups = window.variable_number("thread_pool_size").filter(|groups| *groups >= 1.0)?;
    let cpus = window.latest(|s| &s.host.effective_cpus)?.cpus;
    let running = running(time);
    let are_idle = allowed_busy(window).is_some_and(|busy| busy < 1.0 - SPARE_CPUS / cpus.max(1.0));
    // Who is ready and has no CPU counts among those that run: others, or a quota, have what is left then.
    let has_spare = are_idle && cpus - running >= SPARE_CPUS;
    if own.quickest_s < SLOW_S || groups >= cpus || running < BUSY * groups || !has_spare {
        return None;
    }
    let idle = ((cpus - running) / cpus).clamp(0.0, 1.0);
    let to = cpus.floor().max(groups + 1.0);
    Some(
        Draft::new(
            &CAUSE,
            idle,
            format!(
                "The pool runs {} at once while {:.1} CPUs are idle: the quickest of spindoctor's own questions took {:.0} ms",
                number::counted(groups as u64, "statement", "statements"),
                cpus - running,
                own.quickest_s * 1e3
            ),
        )
        .why("Each group of the pool lets one statement run. The next one of that group is read when the first ends, waits, or has run for \
              thread_pool_stall_limit; until then its connection seems to sleep in the process list.")
        .evidence(Evidence::new("groups of the pool", groups, "", "thread_pool_size").expected(format!(">= {cpus:.0}")))
        .evidence(Evidence::new("sessions that run", running, "", "session time"))
        .evidence(Evidence::new("the quickest kind of spindoctor's own questions took", own.quickest_s, "s", "answers").expected("< 0.05"))
        .evidence_if(
            window.variable("thread_pool_stall_limit").map(|limit| Evidence::new("thread_pool_stall_limit", limit, "ms", "SHOW GLOBAL VARIABLES")),
        )
        .remedy(Remedy {
            statement: format!("SET GLOBAL thread_pool_size = {to:.0}"),
            why: "As many statements run at once as there are CPUs.".into(),
            dynamic: true,
            risk: "The statements that come in between wait for their CPU and not for their turn.".into(),
            undo: format!("SET GLOBAL thread_pool_size = {groups:.0}"),
        })
        .remedy(extra_port())
        .finding(),
    )
}

/// A pool that answers no login, by the stacks of its threads.
fn by_stacks(profile: &Profile, time: &SessionTime) -> Option<Finding> {
    let Pool { at_statements, free, .. } = Pool::from_profile(profile);
    let waits = waiting(time);
    if at_statements < AT_STATEMENTS || free >= 0.5 || waits < WAITING * at_statements {
        return None;
    }
    Some(
        Draft::new(
            &CAUSE,
            1.0,
            format!(
                "No thread of the pool is free, and no login is answered: {at_statements:.0} are at statements, most of which wait ({})",
                doing(time)
            ),
        )
        .why("A login needs a thread of the pool, and the pool makes no more.")
        .evidence(Evidence::new("threads of the pool at statements", at_statements, "", "stacks"))
        .evidence(Evidence::new("sessions that wait or sleep", waits, "", "stacks"))
        .evidence(Evidence::new("threads of the pool that are free", free, "", "stacks").expected("> 0"))
        .remedy(as_many_as_there_may_be())
        .remedy(extra_port())
        .explains(&[connections_exhausted::CAUSE.name, server_stopped::CAUSE.name])
        .finding(),
    )
}

/// What the threads wait for, in a session that is open already.
fn look_at_the_list() -> Remedy {
    since_start::look(
        "SHOW FULL PROCESSLIST; SHOW ENGINE INNODB STATUS in a session that is open already",
        "What the threads wait for has one root more often than not: end that.",
    )
}

/// What more threads take.
const RISK: &str =
    "Each thread takes its stack and the buffers of its session; more statements work at once.";

/// A larger pool, where its limit is known.
fn more_threads(to: f64, limit: f64) -> Remedy {
    Remedy {
        statement: format!("SET GLOBAL thread_pool_max_threads = {to:.0}"),
        why:
            "The statements that wait to be read get threads, also the one that ends the wait of the others."
                .into(),
        dynamic: true,
        risk: RISK.into(),
        undo: format!("SET GLOBAL thread_pool_max_threads = {limit:.0}"),
    }
}

/// The largest pool (MariaDB takes no larger number), where its limit is not known and no login is answered.
fn as_many_as_there_may_be() -> Remedy {
    Remedy {
        statement: "SET GLOBAL thread_pool_max_threads = 65536, in a session that is open already or through extra_port"
            .into(),
        why: "The pool then makes threads for those that wait to be read.".into(),
        dynamic: true,
        risk: RISK.into(),
        undo: "Set it back.".into(),
    }
}

fn extra_port() -> Remedy {
    Remedy {
        statement: "extra_port = 3307 and extra_max_connections = 5 in the option file, and a restart".into(),
        why: "Logins to that port have threads of their own: you can look, and end what blocks the others."
            .into(),
        dynamic: false,
        risk: "A restart; the port must be closed to others.".into(),
        undo: "Remove the lines, and restart.".into(),
    }
}

#[cfg(test)]
pub(crate) mod examples;
