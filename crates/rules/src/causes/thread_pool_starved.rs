//! `thread-pool-starved`: all threads of the pool are taken by sessions that wait, and nobody else gets one.

use spindoctor_model::number::{self, whole};
use spindoctor_model::{
    Evidence, Finding, NoSessionKind, Profile, Remedy, SessionTime, TimeClass, TroubleKind, Unavailable,
    Window,
};

use super::{connections_exhausted, server_stopped};
use crate::below::threads_below;
use crate::draft::Draft;
use crate::logged;
use crate::own_answers::OwnAnswers;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};
use crate::run_queue::allowed_busy;
use crate::sessions::Waiting;
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
               out, which listens; and half of them or more wait.\n\n\
               Sessions at work are counted in the list and in the stacks, and the larger number counts: a pool that is full by \
               turns lets spindoctor's own questions through in its good moments, and the list shows no others. Without stacks what \
               the questions took says it: a second and more, for a fifth of the time.\n\n\
               Of a captured error log: its line that the number of allowed threads was reached. Of a captured status without a \
               list: as many threads as there may be, and none idle. Without a session: by the stacks no thread of the pool is free, \
               two or more are at a statement, and more of them wait than run.\n\n\
               Fewer groups than CPUs (thread_pool_size) make statements queue for up to thread_pool_stall_limit while the limit is \
               reached in no sample: it fires too where a statement runs in most groups, half a CPU and more is idle, and even \
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

/// Share of the samples in which the pool must be at its limit. Chosen, not derived: less is a burst.
const MOSTLY: f64 = 0.5;

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

/// Threads of the pool by their stacks, on average.
struct Pool {
    at_statements: f64,
    free: f64,
}

impl Pool {
    fn from_profile(profile: &Profile) -> Self {
        // Who listens for all of its group is below get_event, too.
        let free = threads_below(profile, &["get_event"]) - threads_below(profile, &["io_poll_wait"]);
        Self { at_statements: threads_below(profile, AT_A_STATEMENT), free: free.max(0.0) }
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
    if !threads.is_empty() && at_limit == 0 {
        return Ok(too_few_groups(window, time));
    }
    if threads.is_empty() || (at_limit as f64) < MOSTLY * threads.len() as f64 {
        return Ok(None);
    }
    let groups = window.variable_number("thread_pool_size").unwrap_or(1.0);
    let at_work = Waiting::count(window, |_| true)?;
    let stood = window.profile.value().map(Pool::from_profile);
    let by_stacks = stood.as_ref().map_or(0.0, |pool| pool.at_statements);
    let (taken, source) = match at_work.at_work_mean {
        listed if listed >= by_stacks => (listed, "thread list"),
        _ => (by_stacks, "stacks"),
    };
    // One thread of each group listens, and one reads the list of threads for spindoctor.
    let all = (limit - groups - 1.0).max(1.0);
    let is_taken = taken >= all && waiting(time) >= WAITING * taken;
    let own = OwnAnswers::from_window(window);
    // Threads that run let nobody through either, and are another matter; so is a pool of which many threads are seen to be free.
    let has_room = stood.is_some_and(|pool| pool.free >= 1.0);
    let is_late = own.late_share >= LATE && running(time) < WAITING * all && !has_room;
    if !is_taken && !is_late {
        return Ok(None);
    }
    let connected = window.status("Threads_connected").unwrap_or(taken).max(taken);
    let without = if is_taken { connected - taken } else { 0.0 };
    let more = (2.0 * limit).max(connected + groups).ceil();
    let headline = if is_taken {
        format!(
            "All {} threads of the pool are taken, most by sessions that wait ({}): {} of {} connections have none",
            whole(limit),
            doing(time),
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
        Draft::new(&CAUSE, (without / connected.max(1.0)).max(own.late_share), headline)
        .why("The pool makes no more than thread_pool_max_threads, and a statement that comes now is read when a thread is free. Who has \
              none seems to sleep in the process list.")
        .evidence(
            Evidence::new("threads of the pool", limit, "", "SHOW GLOBAL STATUS Threadpool_threads")
                .expected(format!("< {limit:.0}"))
                .series(threads),
        )
        .evidence(
            Evidence::new("sessions at work", taken, "", source)
                .series(if source == "stacks" { Vec::new() } else { at_work.series }),
        )
        .evidence(Evidence::new("of them wait or sleep", waiting(time), "", "session time"))
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
/// pool at its limit of threads is another matter: it lets nobody through however many groups it has.
fn too_few_groups(window: &Window, time: &SessionTime) -> Option<Finding> {
    let groups = window.variable_number("thread_pool_size").filter(|groups| *groups >= 1.0)?;
    let cpus = window.latest(|s| &s.host.effective_cpus)?.cpus;
    let own = OwnAnswers::from_window(window);
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
    let Pool { at_statements, free } = Pool::from_profile(profile);
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
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::ServerThread;
    use spindoctor_model::stack::ThreadState::{Condition, Epoll, Lock, Running};

    use super::*;
    use crate::tcp_queues::tests::{queue, with};
    use crate::testing::{Build, session};

    /// A pool of sixteen threads in two groups: so many sessions in that state, and others that seem to sleep.
    fn pool(at_work: u64, state: &'static str) -> Build {
        let sessions = move |_| -> Vec<ServerThread> {
            let works = (0..at_work).map(|at| session(20 + at, "Query", state, "SELECT SLEEP(60)"));
            works.chain((100..130).map(|id| session(id, "Sleep", "", ""))).collect()
        };
        Build::busy("10.11.19-MariaDB")
            .remote()
            .without_profile()
            .variable("thread_handling", "pool-of-threads")
            .variable("thread_pool_max_threads", "16")
            .variable("thread_pool_size", "2")
            .gauge("Threadpool_threads", 16.0)
            .gauge("Threads_connected", at_work as f64 + 30.0)
            .sessions(sessions)
    }

    pub(crate) fn fires() -> Window {
        pool(15, "User sleep").window()
    }

    /// As many threads, and six of them are free.
    pub(crate) fn near_miss() -> Window {
        pool(8, "User sleep").window()
    }

    /// Variables were not read.
    pub(crate) fn missing() -> Window {
        let not_read = |build: Build| build.each(|_, server, _| server.variables = Reading::NotAsked);
        not_read(pool(15, "User sleep")).window()
    }

    fn found(window: &Window) -> Option<Finding> {
        match CAUSE.evaluate(window, crate::session_time(window).as_ref()) {
            Outcome::Fired(finding) => Some(finding),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    }

    #[test]
    fn the_limit_and_those_without_a_thread_are_named() {
        let finding = found(&fires()).unwrap();
        assert_eq!(
            finding.headline,
            "All 16 threads of the pool are taken, most by sessions that wait (SLEEP()): 30 of 45 connections have none"
        );
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL thread_pool_max_threads = 47");
    }

    #[test]
    fn requests_that_nobody_reads_are_its_evidence() {
        let unread = || (1..=30).map(|at| queue(at, 0, 40, 0)).collect();
        let finding = found(&with(pool(15, "User sleep"), unread(), unread()).window()).unwrap();
        let unread =
            finding.evidence.iter().find(|one| one.reading.starts_with("connections with a request unread"));
        assert_eq!(unread.unwrap().value, 30.0_f64.into());
    }

    #[test]
    fn threads_that_run_and_servers_without_a_pool_are_clear() {
        assert_eq!(found(&pool(15, "Sending data").window()), None);
        let none = pool(15, "User sleep").variable("thread_handling", "one-thread-per-connection");
        assert_eq!(found(&none.window()), None);
    }

    /// One group, whose statements run for 137 ms each, on four CPUs.
    #[test]
    fn a_pool_with_one_group_lets_one_statement_run_while_cpus_are_idle() {
        let of = |groups: &str, took_ms: f64, busy: f64| {
            let build = Build::busy("10.11.18-MariaDB")
                .variable("thread_handling", "pool-of-threads")
                .variable("thread_pool_max_threads", "200")
                .variable("thread_pool_size", groups)
                .gauge("Threadpool_threads", 8.0)
                .quota(4.0, 4)
                .host_cpu(busy, 4.0 - busy)
                .only_snapshots(&[(
                    1,
                    Running,
                    &["Item_func_benchmark::val_int", "dispatch_command", "do_command", "tp_callback"],
                )]);
            found(&build.answered_in(took_ms).window())
        };
        let finding = of("1", 137.0, 1.2).unwrap();
        assert!(
            finding.headline.starts_with("The pool runs 1 statement at once while 3.0 CPUs are idle"),
            "{}",
            finding.headline
        );
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL thread_pool_size = 4");
        assert_eq!(of("1", 2.0, 1.2), None);
        assert_eq!(of("4", 137.0, 1.2), None);
        assert_eq!(of("1", 137.0, 3.9), None);
    }

    /// A pool of one group on four CPUs, whose questions all took 137 ms.
    fn one_group(running: u32) -> Build {
        Build::busy("10.11.18-MariaDB")
            .variable("thread_handling", "pool-of-threads")
            .variable("thread_pool_max_threads", "200")
            .variable("thread_pool_size", "1")
            .gauge("Threadpool_threads", 8.0)
            .quota(4.0, 4)
            .host_cpu(1.2, 2.8)
            .only_snapshots(&[(
                running,
                Running,
                &["Item_func_benchmark::val_int", "dispatch_command", "do_command", "tp_callback"],
            )])
            .answered_in(137.0)
    }

    #[test]
    fn slow_questions_are_no_waiting_ones_while_another_kind_is_quick() {
        assert!(found(&one_group(1).window()).is_some());
        let quick = one_group(1).each(|_, server, _| {
            if let Reading::Available { took_ms, .. } = &mut server.variables {
                *took_ms = 1.5;
            }
        });
        assert_eq!(found(&quick.window()), None);
    }

    #[test]
    fn a_pool_at_its_limit_has_no_finding_of_its_groups() {
        let at_limit = one_group(1).variable("thread_pool_max_threads", "8");
        assert_eq!(found(&at_limit.window()), None);
        // Once is enough: the questions that waited may be those of that moment.
        let once = one_group(1).each(|at_s, server, _| {
            if let Reading::Available { value, .. } = &mut server.status
                && at_s == 4.0
            {
                value.insert("Threadpool_threads", "200");
            }
        });
        assert_eq!(found(&once.window()), None);
        // And one that is full of sessions that wait has the other finding, though its questions are slow.
        let full = pool(15, "User sleep").quota(4.0, 4).host_cpu(1.2, 2.8).answered_in(137.0);
        let finding = found(&full.window()).unwrap();
        assert!(finding.headline.starts_with("All 16 threads of the pool"), "{}", finding.headline);
    }

    #[test]
    fn cpus_that_others_or_a_quota_have_are_not_left_over() {
        // The two CPUs that it may use are full, the other six are idle.
        let on_two = |busy| one_group(1).host_cpu(2.5, 5.5).runs(0.9, 0.1).confined(2, 8, Some(busy));
        assert!(found(&on_two(0.9).window()).is_some());
        assert_eq!(found(&on_two(1.95).window()), None);
        // Four statements run on four CPUs, of which the host's count is lower.
        assert_eq!(found(&one_group(4).window()), None);
    }

    #[test]
    fn the_lock_that_they_wait_for_stands_before_it() {
        let window = pool(15, "Waiting for table metadata lock").window();
        let causes: Vec<String> =
            crate::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
        assert_eq!(causes[..2], ["metadata-lock-pileup", CAUSE.name]);
    }

    /// A thread of the pool in a session that sleeps, one that listens for its group, and one that is free, as MariaDB 10.11's
    /// packages name them.
    const SLEEPS: &[&str] = &[
        "___pthread_cond_timedwait64",
        "Interruptible_wait::wait",
        "Item_func_sleep::val_int",
        "mysql_execute_command",
        "dispatch_command",
        "do_command",
        "tp_callback",
        "mariadbd+0xbe257d",
    ];
    const LISTENS: &[&str] = &["epoll_wait", "io_poll_wait", "get_event", "mariadbd+0xbe25cd"];
    const FREE: &[&str] = &["___pthread_cond_timedwait64", "get_event", "mariadbd+0xbe25cd"];

    #[test]
    fn sessions_that_sleep_in_step_are_seen_by_their_stacks_where_the_list_is_of_the_good_moments() {
        let in_step = |sleeping: u32, free: u32| {
            let build = pool(0, "").only_snapshots(&[
                (sleeping, Condition, SLEEPS),
                (2, Epoll, LISTENS),
                (free, Condition, FREE),
            ]);
            found(&build.window())
        };
        let finding = in_step(14, 0).unwrap();
        assert!(
            finding.headline.contains("(SLEEP()): 16 of 30 connections have none"),
            "{}",
            finding.headline
        );
        assert_eq!(in_step(4, 10), None);
    }

    #[test]
    fn what_its_own_questions_took_says_it_where_no_stacks_were_taken() {
        let of = |late: usize| found(&pool(0, "").late(late, 1_800.0).window());
        let finding = of(4).unwrap();
        assert!(finding.headline.contains("4 of spindoctor's own"), "{}", finding.headline);
        assert!((finding.score - 0.72).abs() < 0.01, "{}", finding.score);
        assert_eq!(of(1), None);
        // Threads that run are another matter.
        assert_eq!(found(&pool(13, "Sending data").late(4, 1_800.0).window()), None);
    }

    #[test]
    fn a_status_alone_says_that_the_limit_is_reached_and_no_thread_is_idle() {
        use spindoctor_model::window::NOT_GIVEN;
        let of = |threads: f64, idle: f64, is_given: bool| {
            let build =
                pool(0, "").gauge("Threadpool_threads", threads).gauge("Threadpool_idle_threads", idle);
            let mut window = build.window();
            window.samples.truncate(1);
            window.samples[0].server.threads = Reading::NotAsked;
            if is_given {
                window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
            }
            found(&window)
        };
        let finding = of(16.0, 0.0, true).unwrap();
        assert!(
            finding.headline.starts_with("All 16 threads of the pool are taken, and none is idle"),
            "{}",
            finding.headline
        );
        assert_eq!(finding.severity, spindoctor_model::Severity::Warning);
        assert!(finding.remedies[0].statement.starts_with("SHOW FULL PROCESSLIST"));
        for (threads, idle, is_given) in [(16.0, 2.0, true), (15.0, 0.0, true), (16.0, 0.0, false)] {
            assert_eq!(of(threads, idle, is_given), None, "{threads} {idle} {is_given}");
        }
    }

    #[test]
    fn a_pool_that_answers_no_login_is_seen_by_its_stacks() {
        const WAITS: &[&str] = &[
            "lock_wait",
            "row_search_mvcc",
            "dispatch_command",
            "do_command",
            "threadpool_process_request",
            "worker_main",
        ];
        let silent = |waits: &[&str], free: u32| {
            let build = Build::busy("10.11.19-MariaDB").no_session(NoSessionKind::Silent);
            build.only_snapshots(&[(8, Lock, waits), (1, Epoll, LISTENS), (free, Condition, FREE)]).window()
        };
        for waits in [WAITS, SLEEPS] {
            let finding = found(&silent(waits, 0)).unwrap();
            assert!(finding.headline.starts_with("No thread of the pool is free"), "{}", finding.headline);
            let larger = &finding.remedies[0];
            assert!(larger.statement.contains("through extra_port"), "{larger:?}");
            assert_eq!(larger.risk, RISK);
            assert_eq!(found(&silent(waits, 3)), None);
        }
    }
}
