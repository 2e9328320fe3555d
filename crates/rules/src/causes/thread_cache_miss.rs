//! `thread-cache-miss`: a thread is created for every connection.

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::connection_churn::{self, CONNECTIONS_PER_S, connecting};
use super::cpu_saturated;
use crate::draft::Draft;
use crate::since_start::{self, SinceStart};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "thread-cache-miss",
    title: "a thread is created for every connection",
    what: "Each connection is served by a thread of its own. When a client leaves, its thread is kept for the next \
           one if fewer than thread_cache_size are kept already; else it ends. A new connection that finds no \
           kept thread makes one: a stack is mapped, the kernel sets the thread up, performance_schema and the \
           session's memory are prepared, and all is torn down at the end.",
    why_it_hurts: "Making a thread costs some ten to a hundred microseconds of CPU for each connection, part of it \
                   in the one accepting thread and under the process's memory-map lock, which every other \
                   thread that maps memory wants too.",
    evidence: "Growth of Threads_created against growth of Connections over the window. It fires from ten threads \
               a second on when half or more of the connections made one. The estimate is the CPU of that, at \
               100 us each, of the effective CPUs: an estimate. Clear with a thread pool (thread_handling), \
               where connections are no threads.",
    looks_alike: "A server that has just started fills its cache once: Threads_created grows, and stops. Clients \
                  that keep their connections make no thread, whatever the cache. The connections themselves \
                  cost more than the threads: connection-churn stands below this, and stays when the cache fits.",
    remedies: "SET GLOBAL thread_cache_size to the largest number of connections that come and go at once: \
               Max_used_connections is a safe upper bound. Then keep connections in the clients, which cures \
               both. On MariaDB, thread_handling=pool-of-threads for thousands of clients.",
    safety: "thread_cache_size is dynamic, takes effect as clients leave, and is undone by setting the old value. \
             A kept thread costs its stack's touched pages, some hundred kilobytes at most. Changing \
             thread_handling needs a restart.",
    references: &[
        "Domas Mituzas, On connections",
        "MySQL Reference Manual: thread_cache_size, Threads_created",
        "MariaDB Knowledge Base: Thread Pool in MariaDB",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Login],
    stacks: Stacks::Running(&[
        "pthread_create",
        "Per_thread_connection_handler::add_connection",
        "create_thread_to_handle_connection", // MariaDB
        "clone3",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Share of connections that made a thread. With a fitting cache it is next to none; bursts beyond the
/// cache make some.
const MISS_RATIO: f64 = 0.5;

/// CPU of making and ending a thread, seconds: clone, stack, performance_schema's setup. What a login without a cached thread costs
/// more: 120 us on MySQL 9.7, 40 us on MariaDB 10.11, by the recorded windows (`cargo test -p spindoctor-rules --test windows
/// what_work_costs`).
const THREAD_CPU_S: f64 = 100e-6;

/// What one status says.
fn of_status(window: &Window) -> Option<Finding> {
    const COUNTERS: [&str; 2] = ["Threads_created", "Connections"];
    let since = SinceStart::from_window(window)?;
    let per_s = since.per_s(COUNTERS[0]).filter(|&per_s| per_s >= CONNECTIONS_PER_S)?;
    let ratio = since.count(COUNTERS[0])? / since.count(COUNTERS[1])?.max(1.0);
    let what = format!(
        "{per_s:.0} threads a second were made for connections, one for {:.0} % of them",
        ratio * 100.0
    );
    let remedy = since_start::look(
        "SHOW GLOBAL VARIABLES LIKE 'thread_cache_size'; SHOW GLOBAL STATUS LIKE 'Max_used_connections'",
        "A cache as large as the connections that come and go at once makes no thread again.",
    );
    (ratio >= MISS_RATIO).then(|| since.finding(&CAUSE, &what, &COUNTERS, remedy))
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let found = connecting(window)?;
    let pool = window
        .variable("thread_handling")
        .is_some_and(|handling| !handling.eq_ignore_ascii_case("one-thread-per-connection"));
    let miss_ratio = found.threads_per_s / found.per_s.max(found.threads_per_s).max(f64::MIN_POSITIVE);
    if pool || found.threads_per_s < CONNECTIONS_PER_S || miss_ratio < MISS_RATIO {
        return Ok(None);
    }
    // Of a captured status without the variables.
    let known = window.variable_number("thread_cache_size");
    let cache = known.unwrap_or(0.0);
    let most = window
        .status("Max_used_connections")
        .or_else(|| window.status("Threads_connected"))
        .unwrap_or(100.0)
        // The range of the variable: 0 to 16,384.
        .clamp((cache * 2.0).clamp(64.0, 16_384.0), 16_384.0);
    Ok(Some(
        Draft::new(
            &CAUSE,
            found.threads_per_s * THREAD_CPU_S / found.cpus,
            format!(
                "{} threads are made a second, one for {} of the connections{}",
                whole(found.threads_per_s),
                if miss_ratio >= 0.95 { "each".to_owned() } else { format!("{:.0} %", miss_ratio * 100.0) },
                known.map_or_else(String::new, |cache| format!("; thread_cache_size is {cache:.0}"))
            ),
        )
        .why(format!(
            "The cache keeps {} threads of clients that left; more come and go at once, so a thread ends with its client and the next \
             client needs a new one.",
            known.map_or_else(|| "thread_cache_size".to_owned(), whole)
        ))
        .evidence(
            Evidence::new("threads made", found.threads_per_s, "1/s", "SHOW GLOBAL STATUS Threads_created")
                .expected(format!("< {CONNECTIONS_PER_S:.0}"))
                .series(window.status_rate_series("Threads_created")),
        )
        .evidence(Evidence::new("new connections", found.per_s, "1/s", "SHOW GLOBAL STATUS Connections"))
        .evidence(
            Evidence::new("share of connections that made a thread", miss_ratio, "ratio", "computed").expected("< 0.5"),
        )
        .evidence_if(known.map(|cache| Evidence::new("thread_cache_size", cache, "", "SHOW GLOBAL VARIABLES")))
        .remedy(Remedy {
            statement: format!("SET GLOBAL thread_cache_size = {most:.0}"),
            why: "A client that comes finds the thread of one that left.".into(),
            dynamic: true,
            risk: crate::proposals::risks::KEEPS_THREADS.into(),
            undo: match known {
                Some(cache) => format!("SET GLOBAL thread_cache_size = {cache:.0}"),
                None => "SET GLOBAL thread_cache_size to what it was.".to_owned(),
            },
        })
        .explains(&[connection_churn::CAUSE.name, cpu_saturated::CAUSE.name])
        .finding(),
    ))
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    fn reconnecting(version: &str) -> Build {
        Build::busy(version)
            .counter("Connections", 3000.0)
            .counter("Threads_created", 2990.0)
            .counter("Questions", 3300.0)
            .gauge("Max_used_connections", 64.0)
            .variable("thread_cache_size", "0")
    }

    pub(crate) fn fires() -> Window {
        reconnecting("9.7.4").window()
    }

    /// As many connections, and the cache fits.
    pub(crate) fn near_miss() -> Window {
        reconnecting("9.7.4").counter("Threads_created", 5.0).variable("thread_cache_size", "64").window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    #[test]
    fn it_stands_before_the_churn_that_it_makes_dearer() {
        let diagnosis = crate::diagnose(&fires());
        let causes: Vec<_> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes, [CAUSE.name, connection_churn::CAUSE.name]);
        assert_eq!(diagnosis.findings[0].remedies[0].statement, "SET GLOBAL thread_cache_size = 64");
    }

    #[test]
    fn in_a_thread_pool_connections_are_no_threads() {
        let window = reconnecting("10.11.19-MariaDB").variable("thread_handling", "pool-of-threads").window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }
}
