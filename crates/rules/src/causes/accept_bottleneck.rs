//! `accept-bottleneck`: the accepting thread is the limit for new connections.

use spindoctor_model::host::{OpenFiles, ThreadStat};
use spindoctor_model::stack::{Profile, ThreadState};
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::connection_churn::{self, CONNECTIONS_PER_S, connecting};
use super::{server_stopped, thread_cache_miss};
use crate::connections::waiting;
use crate::draft::Draft;
use crate::open_files;
use crate::rank::WARNING_FROM;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "accept-bottleneck",
    title: "the accepting thread is the limit for new connections",
    what: "One thread of the server takes every new connection in: it waits for clients (poll), accepts one, sets its \
           socket up, and hands it to another thread, which it wakes or makes. What it does for one connection, the \
           next one waits for; each time it polls all sockets that the server listens on, so that thousands of addresses \
           in bind_address make it slow. It also waits where anything in it does: for a mutex, for memory, for the \
           making of a thread. And where the process has no file descriptor left, accept fails, and the thread sleeps \
           for a second after each failure, with clients in the queue before it.",
    why_it_hurts: "New clients wait in the kernel's queue, however idle the rest of the server is. When the queue is \
                   full (back_log, net.core.somaxconn) the kernel drops their SYNs without a word: they try again \
                   after one, three and seven seconds, or time out. A pool that reconnects after a stall meets \
                   exactly this.",
    evidence: "Looks at the accepting thread, which is the server's first: the share of them in which it did not wait for clients and \
               was not merely waiting for a CPU; or the share of the time in which it was on a CPU, as the kernel counts it, where that \
               is more. It fires from four in five on, where ten connections a second or more are made, or where somebody waits in a \
               listening socket's queue. And growth of Connection_errors_accept: from one in ten seconds on, as the thread sleeps a \
               second after each. And a process that has as many files open as it may have (/proc/PID/fd against /proc/PID/limits, all \
               but ten): with a server that accepts no session it is the reason; with one that still does, a warning. The score is the \
               share of the time in which nobody is let in. Queues, their overflows and dropped SYNs (/proc/PID/net) are shown where \
               they can be read; the queue of the unix socket cannot.",
    looks_alike: "Connections that the server takes in and then serves slowly: the thread waits for clients, and it is \
                  connection-churn, thread-cache-miss or cpu-saturated. A server whose threads have no CPU: the thread \
                  is ready and not on one, which is not counted here. Connections beyond max_connections are \
                  connections-exhausted: they are let in and sent away.",
    remedies: "Where accept fails for want of file descriptors: raise the process's limit, at once with prlimit, for good with \
               LimitNOFILE and open_files_limit; have fewer connections, or a smaller table_open_cache. Else take work from the thread: \
               keep connections open in the clients, make thread_cache_size fit so that no thread is made, listen on fewer addresses, \
               put a proxy in front (ProxySQL, MySQL Router, MaxScale). `spindoctor connections` shows what each connection costs it. A \
               larger back_log lets more clients wait; it lets none in sooner.",
    safety: "prlimit changes the running process's limit and nothing else, and is undone with the old value; the \
             server itself goes by the limit that it was started with. Pools and proxies change clients. back_log \
             needs a restart and is bounded by net.core.somaxconn.",
    references: &[
        "Domas Mituzas, On connections",
        "MySQL Reference Manual: How MySQL Handles Client Connections; back_log; Connection_errors_accept",
        "listen(2), accept(2): EMFILE, ENFILE",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[TimeClass::Login],
    stacks: Stacks::Running(&[
        "Mysqld_socket_listener::listen_for_connection_event",
        "Connection_handler_manager::process_new_connection",
        "handle_connections_sockets", // MariaDB, and MySQL before 5.7
        "create_new_thread",
    ]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Share of the time from which on the thread is the limit: of a queue before one server that is busy for so long, five
/// are in it in the mean when arrivals are random (M/M/1: 0.8 / 0.2 = 4, and who comes).
const BUSY_RATIO: f64 = 0.8;

/// Snapshots below which no share is given: a thread that is busy half of the time is seen busy in eight of ten looks once in
/// eighteen times. A window of five seconds has a dozen.
const ENOUGH: usize = 10;

/// Failures a second from which on they count.
const FAILURES_PER_S: f64 = 0.1;

/// After a failure for want of a file descriptor both servers sleep so long (`sleep(1)`: socket_connection.cc in MySQL,
/// mysqld.cc in MariaDB).
const SLEEP_S: f64 = 1.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    if let Some(files) = open_files::keep_logins_out(window) {
        return Ok(Some(nobody_gets_in(window, files)));
    }
    match (bottleneck(window), open_files::at_the_limit(window)) {
        (Ok(None) | Err(_), Some(files)) => Ok(Some(next_will_fail(window, files))),
        (found, _) => found,
    }
}

/// The server takes no session, and its process may open no more files.
fn nobody_gets_in(window: &Window, files: &OpenFiles) -> Finding {
    let because = window.server.no_session.as_ref().map(|refusal| refusal.because.as_str());
    let headline =
        format!("The server lets nobody in: it is at its limit of open files ({})", open_files::said(files));
    Draft::new(&CAUSE, server_stopped::SILENT_SCORE, headline)
        .why(
            "Each connection is an open file. Without a free descriptor accept fails (error 24, Too many open files), and the accepting \
             thread sleeps for a second before it tries again: clients wait in the queue before it and see no error. Who is in goes on, \
             as long as no table has to be opened.",
        )
        .evidence_all(open_files::evidence(window, files).into_iter())
        .evidence_if(because.map(|because| Evidence::new("session", because, "", "connect").expected("an answer")))
        .remedies(open_files::remedies(window))
        .finding()
}

/// The server takes sessions, and has hardly a file left for the next ones.
fn next_will_fail(window: &Window, files: &OpenFiles) -> Finding {
    let headline = format!(
        "The server is at its limit of open files: {}; the next connections wait",
        open_files::said(files)
    );
    Draft::new(&CAUSE, WARNING_FROM, headline)
        .why(
            "Connections, tables and logs are open files. Without a free descriptor accept fails and the accepting thread sleeps for a \
             second after each failure, and statements that need a table which is not open end with error 24.",
        )
        .evidence_all(open_files::evidence(window, files).into_iter())
        .remedies(open_files::remedies(window))
        .finding()
}

fn bottleneck(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let found = connecting(window)?;
    let failures_per_s = window.status_per_s("Connection_errors_accept").unwrap_or(0.0);
    let looks = window
        .profile
        .value()
        .zip(window.server.pid)
        .and_then(|(profile, pid)| Looks::of_first_thread(profile, pid));
    let waiting = waiting(window);
    let wanted = found.per_s >= CONNECTIONS_PER_S || waiting.is_some_and(|waiting| waiting > 0);
    let fails = failures_per_s >= FAILURES_PER_S;
    if !fails && !wanted {
        return Ok(None);
    }
    let ran_ratio = ran_ratio(window);
    let busy = match (&looks, ran_ratio) {
        (Some(looks), ran_ratio) => looks.busy_ratio.max(ran_ratio.unwrap_or(0.0)),
        // It may sleep, too: less is no answer.
        (None, Some(ran_ratio)) if ran_ratio >= BUSY_RATIO => ran_ratio,
        (None, _) if fails => 0.0,
        // Without looks: a thread that is the limit has a queue before it.
        (None, _) => {
            window.need(|s| &s.host.listen_queues)?;
            if waiting == Some(0) && lost(window) == 0.0 {
                return Ok(None);
            }
            return Err(match window.profile.unavailable() {
                Some(why) => why.clone(),
                None => Unavailable::because("no stacks of the accepting thread were taken"),
            });
        }
    };
    if !fails && busy < BUSY_RATIO {
        return Ok(None);
    }
    let asleep = (failures_per_s * SLEEP_S).min(1.0);
    let lost = lost(window);
    let headline = if fails {
        format!(
            "accept fails {failures_per_s:.1} times a second, and the accepting thread sleeps for a second after each"
        )
    } else {
        format!(
            "The accepting thread is busy {:.0} % of the time: it lets {:.0} connections a second in, and no more",
            busy * 100.0,
            found.per_s
        )
    };
    Ok(Some(
        Draft::new(&CAUSE, asleep.max(if busy >= BUSY_RATIO { busy } else { 0.0 }), headline)
            .why(if fails {
                "The process has no file descriptor left, or the system has none: each accept fails until somebody \
                 disconnects, and meanwhile nobody is let in."
            } else {
                "All connections pass through this one thread. A client that comes while it is busy waits in the kernel's \
                 queue, and is dropped where that is full."
            })
            .evidence_if(ran_ratio.map(|ran_ratio| {
                Evidence::new("accepting thread on a CPU", ran_ratio, "ratio", "/proc/PID/task/TID/schedstat")
            }))
            .evidence_if(looks.as_ref().map(|looks| {
                Evidence::new("accepting thread busy", looks.busy_ratio, "ratio", "stacks")
                    .expected(format!("< {BUSY_RATIO}"))
            }))
            .evidence_if(
                looks.filter(|looks| looks.asleep_ratio > 0.0).map(|looks| {
                    Evidence::new("accepting thread asleep", looks.asleep_ratio, "ratio", "stacks").expected("0")
                }),
            )
            .evidence(
                Evidence::new("accept failed", failures_per_s, "1/s", "SHOW GLOBAL STATUS Connection_errors_accept")
                    .expected("0")
                    .series(window.status_rate_series("Connection_errors_accept")),
            )
            .evidence(Evidence::new("new connections", found.per_s, "1/s", "SHOW GLOBAL STATUS Connections"))
            // Those who come through the unix socket wait in a queue whose length is shown nowhere: 0 would not be a reading of it.
            .evidence_if(waiting.filter(|&waiting| waiting > 0).map(|waiting| {
                Evidence::new("clients in the queue, at most", waiting as f64, "", "/proc/PID/net/tcp").expected("0")
            }))
            .evidence_if((lost > 0.0).then(|| {
                Evidence::new("clients dropped before a full queue", lost, "", "/proc/PID/net/netstat").expected("0")
            }))
            .evidence_all(
                open_files::at_the_limit(window)
                    .into_iter()
                    .flat_map(|files| open_files::evidence(window, files)),
            )
            .remedies(if fails { open_files::remedies(window) } else { Vec::new() })
            .remedy(Remedy {
                statement: "Keep connections open in the clients: a pool, or a proxy in front of the server".into(),
                why: "A connection that stays is accepted once.".into(),
                dynamic: true,
                risk: "The pools' sizes in sum must stay below max_connections.".into(),
                undo: "Switch the pool off.".into(),
            })
            .explains(&[connection_churn::CAUSE.name, thread_cache_miss::CAUSE.name])
            .finding(),
    ))
}

/// The accepting thread as snapshots saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Looks {
    /// Share in which it neither waited for clients nor for a CPU.
    busy_ratio: f64,
    /// Share in which it slept by itself.
    asleep_ratio: f64,
}

impl Looks {
    /// The first thread of the process accepts, on MySQL and MariaDB alike.
    fn of_first_thread(profile: &Profile, pid: u32) -> Option<Self> {
        let thread = profile.threads.iter().position(|thread| thread.tid == pid)?;
        let states: Vec<ThreadState> = profile
            .observations
            .iter()
            .filter(|observation| observation.thread as usize == thread)
            .map(|observation| observation.state)
            .collect();
        if states.len() < ENOUGH {
            return None;
        }
        let idle =
            [ThreadState::Epoll, ThreadState::NetworkIdle, ThreadState::Stopped, ThreadState::Runnable];
        let share = |of: &dyn Fn(&ThreadState) -> bool| {
            states.iter().filter(|state| of(state)).count() as f64 / states.len() as f64
        };
        Some(Self {
            busy_ratio: share(&|state| !idle.contains(state)),
            asleep_ratio: share(&|state| *state == ThreadState::Sleep),
        })
    }
}

/// Share of the time in which the accepting thread, the first of the process, was on a CPU, as the kernel counts it.
fn ran_ratio(window: &Window) -> Option<f64> {
    let change = window.change(|s| &s.host.threads)?;
    let of = |threads: &[ThreadStat]| {
        threads.iter().find(|thread| Some(thread.tid) == window.server.pid).map(|thread| thread.ran_ns)
    };
    let ran_ns = of(change.last)?.checked_sub(of(change.first)?)?;
    Some((ran_ns as f64 / 1e9 / change.seconds).min(1.0))
}

/// Clients that a full queue turned away over the window, of all sockets of the network namespace.
fn lost(window: &Window) -> f64 {
    let Some(change) = window.change(|s| &s.host.listen_queues) else { return 0.0 };
    let grown = |of: fn(&spindoctor_model::host::ListenQueues) -> Option<u64>| {
        of(change.last).zip(of(change.first)).map_or(0, |(last, first)| last.saturating_sub(first))
    };
    grown(|queues| queues.drops).max(grown(|queues| queues.overflows)) as f64
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::NoSessionKind;
    use spindoctor_model::host::{ListenQueue, ListenQueues};
    use spindoctor_model::stack::ThreadState::{Epoll, NetworkIdle, Runnable, Running, Sleep};

    use super::*;
    use crate::testing::{Build, answer};

    /// Of twenty looks at the first thread, so many in each state.
    fn first_thread_in(build: Build, states: &[(usize, ThreadState)]) -> Window {
        let mut window = build.only_snapshots(&[(1, NetworkIdle, &["poll", "main"])]).window();
        window.server.pid = Some(4400);
        let spindoctor_model::Reading::Available { value: profile, .. } = &mut window.profile else {
            panic!()
        };
        let states = states.iter().flat_map(|(count, state)| std::iter::repeat_n(*state, *count));
        for (observation, state) in profile.observations.iter_mut().zip(states) {
            observation.state = state;
        }
        window
    }

    fn storm() -> Build {
        Build::busy("9.7.4")
            .counter("Connections", 9_000.0)
            .counter("Questions", 99_000.0)
            .counter("Connection_errors_accept", 0.0)
            .variable("port", "3306")
            .each(|at_s, _, host| {
                let sockets =
                    vec![ListenQueue { port: 3306, waiting: 70 }, ListenQueue { port: 80, waiting: 0 }];
                let drops = Some((at_s * 12.0) as u64);
                let queues = ListenQueues { sockets, overflows: drops, drops, ..ListenQueues::default() };
                host.listen_queues = answer(at_s, queues);
            })
    }

    pub(crate) fn fires() -> Window {
        first_thread_in(storm(), &[(1, Epoll), (19, Running)])
    }

    /// As many connections, and the thread waits for clients half of the time and for a CPU a third of it.
    pub(crate) fn near_miss() -> Window {
        first_thread_in(storm(), &[(10, Epoll), (6, Runnable), (4, Running)])
    }

    pub(crate) fn missing() -> Window {
        storm().without_profile().window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_thread_that_never_waits_for_clients_is_the_limit() {
        let finding = found(&fires());
        assert_eq!(
            finding.headline,
            "The accepting thread is busy 95 % of the time: it lets 9000 connections a second in, and no more"
        );
        let is_shown = |reading: &str| finding.evidence.iter().any(|evidence| evidence.reading == reading);
        assert!(is_shown("clients in the queue, at most") && is_shown("clients dropped before a full queue"));
    }

    #[test]
    fn a_thread_that_sleeps_after_failures_is_found_without_stacks() {
        let starved = || {
            Build::busy("10.11.19-MariaDB")
                .counter("Connections", 3.0)
                .counter("Connection_errors_accept", 0.9)
        };
        let finding = found(&starved().without_profile().window());
        assert!(finding.score > 0.85 && finding.headline.contains("sleeps for a second"), "{finding:#?}");
        assert!(finding.remedies[0].statement.starts_with("prlimit --pid 4310"));
        let asleep = found(&first_thread_in(starved(), &[(1, Epoll), (19, Sleep)]));
        assert!(asleep.evidence.iter().any(|evidence| evidence.reading == "accepting thread asleep"));
        let rare = starved().counter("Connection_errors_accept", 0.02).window();
        assert_eq!(evaluate(&rare), Outcome::Clear);
    }

    #[test]
    fn a_server_without_a_free_descriptor_that_answers_nobody_does_not_hang_inside() {
        let silent = |open| {
            let build = Build::busy("10.11.19-MariaDB").no_session(NoSessionKind::Silent);
            crate::diagnose(&build.open_files(open, 1_024, Some(980)).window())
        };
        let diagnosis = silent(1_024);
        let causes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes, [CAUSE.name]);
        let finding = &diagnosis.findings[0];
        assert_eq!(
            finding.headline,
            "The server lets nobody in: it is at its limit of open files (1024 of 1024 files are open)"
        );
        let text = format!("{:?}", finding.remedies);
        assert!(text.contains("prlimit --pid 4310") && text.contains("LimitNOFILE=65536"), "{text}");
        assert!(text.contains("End connections that rest"), "most of them are connections: {text}");
        let causes: Vec<String> = silent(700).findings.into_iter().map(|finding| finding.cause).collect();
        assert_eq!(causes, [server_stopped::CAUSE.name], "files are left: it hangs for another reason");
    }

    #[test]
    fn a_server_near_its_limit_of_files_that_still_answers_is_a_warning() {
        let at = |open| evaluate(&Build::busy("9.7.4").open_files(open, 5_000, None).window());
        let Outcome::Fired(finding) = at(4_995) else { panic!("it should fire") };
        assert_eq!(finding.severity, spindoctor_model::Severity::Warning);
        assert!(finding.headline.contains("4995 of 5000 files are open"), "{}", finding.headline);
        assert_eq!(at(4_000), Outcome::Clear);
        let fails =
            Build::busy("9.7.4").counter("Connection_errors_accept", 0.9).open_files(5_000, 5_000, None);
        let finding = found(&fails.window());
        assert!(finding.headline.contains("sleeps for a second"), "{}", finding.headline);
        assert!(finding.evidence.iter().any(|evidence| evidence.reading == "limit of open files"));
    }

    #[test]
    fn a_thread_that_runs_all_the_time_is_found_by_the_kernels_count_of_it() {
        let runs = |ratio: f64| {
            let mut window = storm().runs(ratio * 16.0, 0.0).without_profile().window();
            window.server.pid = Some(4311);
            window
        };
        let finding = found(&runs(0.93));
        assert!(finding.headline.contains("busy 93 % of the time"), "{finding:#?}");
        // Nobody knows how long it slept.
        assert!(matches!(evaluate(&runs(0.7)), Outcome::NotEnoughEvidence(_)), "{:?}", evaluate(&runs(0.7)));
    }

    #[test]
    fn a_thread_that_is_busy_with_nobody_waiting_is_nobodys_limit() {
        let window = first_thread_in(Build::busy("9.7.4"), &[(20, Running)]);
        assert_eq!(evaluate(&window), Outcome::Clear);
    }

    #[test]
    fn an_empty_queue_clears_it_where_no_stacks_were_taken() {
        let empty = storm()
            .each(|at_s, _, host| {
                let sockets = vec![ListenQueue { port: 3306, waiting: 0 }];
                host.listen_queues = answer(at_s, ListenQueues { sockets, ..ListenQueues::default() });
            })
            .without_profile()
            .window();
        assert_eq!(evaluate(&empty), Outcome::Clear);
    }
}
