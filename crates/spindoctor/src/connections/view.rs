//! The cost of accepting connections for a server: everything that the formats of `spindoctor connections` show,
//! computed once. Pure.
//!
//! In: a window, and the account of the accepting thread where it could be taken. Out: [`Connections`].

use jiff::Timestamp;
use spindoctor_model::connections::AcceptTime;
use spindoctor_model::host::ListenQueues;
use spindoctor_model::{Cost, Finding, Unavailable, Window};
use spindoctor_rules::causes;
use spindoctor_rules::connections::{self, AccountRate, Lifetime};

/// Causes of the catalogue that are about connections.
const CAUSES: [&str; 4] = [
    causes::accept_bottleneck::CAUSE.name,
    causes::thread_cache_miss::CAUSE.name,
    causes::connection_churn::CAUSE.name,
    causes::connections_exhausted::CAUSE.name,
];

/// A look at how a server takes connections in.
#[derive(Debug, Clone, PartialEq)]
pub struct Connections {
    /// `MySQL 9.7.4 on db17`.
    pub server: String,
    pub pid: Option<u32>,
    /// When it began.
    pub at: Timestamp,
    pub seconds: f64,
    /// Connections made a second, and logins that failed.
    pub made_per_s: Option<f64>,
    pub failed_per_s: Option<f64>,
    /// Connections at the end, and how many there may be.
    pub connected: Option<f64>,
    pub max_connections: Option<f64>,
    pub threads: Threads,
    /// What the accepting thread does, or why that is not known.
    pub accept: Result<AcceptTime, Unavailable>,
    /// Who waits before the listening sockets, or why that is not known.
    pub queue: Result<Queue, Unavailable>,
    pub lifetimes: Vec<Lifetime>,
    /// Who connects, or why that is not known.
    pub accounts: Result<Vec<AccountRate>, Unavailable>,
    /// Findings about connections alone.
    pub findings: Vec<Finding>,
    pub cost: Cost,
}

/// Threads that serve connections.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Threads {
    /// Threads that were made, a second.
    pub created_per_s: Option<f64>,
    /// Share of the connections that found a thread in the cache.
    pub hit_ratio: Option<f64>,
    pub cache_size: Option<f64>,
    /// Threads in the cache at the end.
    pub cached: Option<f64>,
    /// True where connections share the threads of a pool.
    pub is_pool: bool,
}

/// Who waited before the server's listening sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Clients that waited at once, at most; none where the server listens on no port.
    pub waiting: Option<u64>,
    /// Connections that were dropped because a queue was full, SYNs that were dropped for any reason, and those that were
    /// dropped because too many were half open: of all sockets of the network namespace.
    pub overflows: Option<u64>,
    pub drops: Option<u64>,
    pub syn_queue_drops: Option<u64>,
    pub back_log: Option<u64>,
}

impl Connections {
    pub fn from_window(window: &Window, accept: Result<AcceptTime, Unavailable>) -> Self {
        let seconds = window.change(|s| &s.server.status).map_or(0.0, |change| change.seconds);
        // spindoctor's own connection was made before the window, except one that it had to make again.
        let made_per_s = window.status_per_s("Connections");
        let diagnosis = spindoctor_rules::diagnose(window);
        Self {
            server: window.server.version.map_or_else(
                || window.server.version_text.clone(),
                |version| format!("{version} on {}", window.server.hostname),
            ),
            pid: window.server.pid,
            at: window.start,
            seconds,
            made_per_s,
            failed_per_s: window.status_per_s("Aborted_connects"),
            connected: window.status("Threads_connected"),
            max_connections: window.variable_number("max_connections"),
            threads: threads(window, made_per_s),
            accept,
            queue: queue(window),
            lifetimes: connections::lifetimes(window),
            accounts: connections::accounts(window),
            findings: diagnosis
                .findings
                .into_iter()
                .filter(|finding| CAUSES.contains(&finding.cause.as_str()))
                .collect(),
            cost: window.cost,
        }
    }
}

fn threads(window: &Window, made_per_s: Option<f64>) -> Threads {
    let created_per_s = window.status_per_s("Threads_created");
    let handling = window.variable("thread_handling").unwrap_or_default();
    Threads {
        created_per_s,
        hit_ratio: created_per_s
            .zip(made_per_s)
            .filter(|(_, made)| *made > 0.0)
            .map(|(created, made)| (1.0 - created / made).clamp(0.0, 1.0)),
        cache_size: window.variable_number("thread_cache_size"),
        cached: window.status("Threads_cached"),
        is_pool: handling.eq_ignore_ascii_case("pool-of-threads")
            || handling.eq_ignore_ascii_case("loaded-dynamically"),
    }
}

fn queue(window: &Window) -> Result<Queue, Unavailable> {
    let queues: &ListenQueues = window.need(|s| &s.host.listen_queues)?;
    let change = window.change(|s| &s.host.listen_queues);
    let (first, last) = change.as_ref().map_or((queues, queues), |change| (change.first, change.last));
    let grown = |of: fn(&ListenQueues) -> Option<u64>| Some(of(last)?.saturating_sub(of(first)?));
    Ok(Queue {
        waiting: connections::waiting(window),
        overflows: grown(|queues| queues.overflows),
        drops: grown(|queues| queues.drops),
        syn_queue_drops: grown(|queues| queues.syn_queue_drops),
        back_log: window.variable_number("back_log").map(|back_log| back_log as u64),
    })
}

/// Looks for tests of the formats.
#[cfg(test)]
pub mod sample {
    use spindoctor_model::connections::{AcceptPart, AcceptRow};

    use super::*;

    fn row(part: AcceptPart, name: &str, calls: Option<u64>, ms: f64) -> AcceptRow {
        AcceptRow { part, name: name.into(), calls, failed: calls.map(|_| 0), ms, share: ms / 1_000.0 }
    }

    /// A busy server: the thread works for a second of ten.
    pub fn busy() -> Connections {
        use AcceptPart::{Allocation, HandOver, Loop, Mutex, SystemCall, ThreadCreation, Unknown};
        Connections {
            server: "MySQL 9.7.4 on db17".into(),
            pid: Some(4310),
            at: "2026-07-01T09:30:00Z".parse().unwrap(),
            seconds: 10.0,
            made_per_s: Some(2_000.0),
            failed_per_s: Some(0.0),
            connected: Some(41.0),
            max_connections: Some(151.0),
            threads: Threads {
                created_per_s: Some(30.0),
                hit_ratio: Some(0.985),
                cache_size: Some(9.0),
                cached: Some(7.0),
                is_pool: false,
            },
            accept: Ok(AcceptTime {
                tid: 4310,
                seconds: 10.0,
                accepted: 20_000,
                accepts_failed: 3,
                busy_ratio: 0.1,
                cpu_ratio: Some(0.12),
                run_queue_ratio: Some(0.02),
                us_each: Some(50.0),
                accounted_ratio: 0.99,
                samples: 412,
                rows: vec![
                    row(SystemCall, "accept4", Some(20_003), 210.0),
                    row(HandOver, "futex wake", Some(19_700), 190.0),
                    row(ThreadCreation, "clone3", Some(300), 140.0),
                    row(SystemCall, "setsockopt", Some(60_000), 120.0),
                    row(Allocation, "malloc", None, 110.0),
                    row(SystemCall, "poll", Some(20_000), 90.0),
                    row(Loop, "Connection_handler_manager::process_new_connection", None, 80.0),
                    row(Mutex, "futex wait", Some(40), 50.0),
                    row(Unknown, "code without a name", None, 10.0),
                ],
                passes: 1_400_000,
                passes_cpu_ms: 84.0,
                notes: vec!["system calls were counted for 4.0 s only".into()],
            }),
            queue: Ok(Queue {
                waiting: Some(3),
                overflows: Some(0),
                drops: Some(0),
                syn_queue_drops: Some(0),
                back_log: Some(151),
            }),
            lifetimes: vec![
                Lifetime { within_s: 0.1, closed_ratio: 0.97, made: 2_000 },
                Lifetime { within_s: 1.0, closed_ratio: 0.995, made: 20_000 },
            ],
            accounts: Ok(vec![
                AccountRate {
                    user: "web".into(),
                    host: "10.0.0.7".into(),
                    per_s: 1_900.0,
                    share: 0.95,
                    statements_each: Some(1.1),
                    lifetime_s: Some(0.004),
                    open: 12,
                },
                AccountRate {
                    user: "cron".into(),
                    host: String::new(),
                    per_s: 100.0,
                    share: 0.05,
                    statements_each: None,
                    lifetime_s: None,
                    open: 0,
                },
            ]),
            findings: Vec::new(),
            cost: Cost { server_queries: 48, server_busy_ms: 31.0, own_cpu_ms: 190.0, threads_stopped: 0 },
        }
    }

    /// A server elsewhere: nothing of its host can be read, and nobody counts.
    pub fn remote() -> Connections {
        let elsewhere = || {
            Unavailable::because("--remote was given")
                .unlock("run spindoctor on the server's host, without --remote")
        };
        Connections {
            pid: None,
            accept: Err(elsewhere()),
            queue: Err(elsewhere()),
            accounts: Err(Unavailable::because("performance_schema is off")),
            lifetimes: Vec::new(),
            ..busy()
        }
    }

    /// Names that try to leave their place.
    pub fn hostile() -> Connections {
        let mut look = busy();
        let evil = "q\"uo\\te\u{1b}[31m\u{202e}\n<script>";
        look.server = evil.into();
        if let Ok(accounts) = &mut look.accounts {
            accounts[0].user = evil.into();
            accounts[0].host = evil.into();
        }
        if let Ok(accept) = &mut look.accept {
            accept.rows[0].name = evil.into();
            accept.notes.push(evil.into());
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::host::ListenQueue;
    use spindoctor_model::mysql::NamedValues;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    fn answer<T>(at_s: f64, value: T) -> Reading<T> {
        Reading::Available { at_s, took_ms: 1.0, value }
    }

    fn window() -> Window {
        let sample = |at_s: f64| {
            let mut sample = Sample { at_s, ..Sample::default() };
            let status = [
                ("Connections", 1_000.0 + 200.0 * at_s),
                ("Threads_created", 50.0 + 20.0 * at_s),
                ("Threads_cached", 6.0),
            ];
            let status = status.into_iter().map(|(name, value)| (name, value.to_string()));
            sample.server.status = answer(at_s, NamedValues::from_iter(status));
            let variables = [("port", "3306"), ("back_log", "80"), ("thread_cache_size", "8")];
            sample.server.variables = answer(at_s, NamedValues::from_iter(variables));
            let queues = ListenQueues {
                sockets: vec![
                    ListenQueue { port: 3306, waiting: at_s as u64 },
                    ListenQueue { port: 22, waiting: 99 },
                ],
                overflows: Some(7 + at_s as u64),
                ..ListenQueues::default()
            };
            sample.host.listen_queues = answer(at_s, queues);
            sample
        };
        Window { samples: vec![sample(0.0), sample(2.0), sample(1.0 + 3.0)], ..Window::default() }
    }

    #[test]
    fn rates_are_of_the_window_and_the_queue_is_that_of_the_servers_own_port() {
        let look = Connections::from_window(&window(), Err(Unavailable::because("no")));
        assert_eq!((look.made_per_s, look.threads.created_per_s), (Some(200.0), Some(20.0)));
        assert_eq!(look.threads.hit_ratio, Some(0.9));
        let queue = look.queue.unwrap();
        assert_eq!((queue.waiting, queue.overflows, queue.drops), (Some(4), Some(4), None));
        assert_eq!(queue.back_log, Some(80));
    }

    #[test]
    fn a_window_without_answers_says_why() {
        let look = Connections::from_window(&Window::default(), Err(Unavailable::because("no")));
        assert!(look.queue.is_err() && look.accounts.is_err());
        assert_eq!((look.made_per_s, look.findings.len()), (None, 0));
    }
}
