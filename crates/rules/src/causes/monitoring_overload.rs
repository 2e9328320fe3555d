//! `monitoring-overload`: monitoring statements are a large part of the server's work.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Finding, Remedy, Root, TimeClass, Unavailable, Window};

use super::cpu_saturated;
use crate::draft::Draft;
use crate::killing;
use crate::sessions::{Waiting, at_work, shortened};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "monitoring-overload",
    title: "monitoring statements are a large part of the server's work",
    what: "Agents, exporters, health checks and dashboards ask the server about itself: SHOW STATUS, SHOW ENGINE INNODB STATUS, \
           information_schema, performance_schema, sys. Many of these are expensive: information_schema opens tables, SHOW GLOBAL \
           STATUS adds up every session under a lock, InnoDB's lists are copied under its latches.",
    why_it_hurts: "What they cost grows with the server: with its sessions, its tables, its waiters. In trouble they take longest, \
                   and an agent that asks again before the last answer came piles up sessions: the observers become the load, and \
                   take the connections that clients need.",
    evidence: "Sessions at work on a statement about the server and not about its data, spindoctor's own left out: two or more on \
               average, and a tenth of the sessions at work or more. The user with most of them and the longest of them are named.",
    looks_alike: "One slow report on information_schema beside a busy server is below the bound. Where the first of a pile waits for \
                  a lock inside the server, what blocks it is the cause, and it stands before this.",
    remedies: "Ask less often, with one connection for each tool and a time limit (max_execution_time, MariaDB's \
               max_statement_time), and let an agent skip a round while the last one has not ended. Leave out what is expensive: \
               sizes of all tables, SHOW ENGINE INNODB STATUS each second, sys views. End a pile of statements that only \
               read with KILL QUERY.",
    safety: "KILL QUERY of a statement that only reads loses nothing; of one that also writes, as INSERT ... SELECT does, what it wrote is \
             undone: let it end. A health check that gets no answer may make a load balancer take the \
             server out: change its time limit first.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/information-schema-optimization.html",
        "https://github.com/mariadb-corporation/galera/issues/458",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::Running,
        TimeClass::Cpu,
        TimeClass::Kernel,
        TimeClass::CpuQueue,
        TimeClass::CpuQuota,
        TimeClass::Spin,
        TimeClass::Mutex,
        TimeClass::Latch,
        TimeClass::TableCache,
        TimeClass::Other,
    ],
    stacks: Stacks::Nothing,
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Sessions at it on average: one agent's statement at a time is what monitoring is. Chosen, not derived.
const SESSIONS: f64 = 2.0;

/// Their share of the sessions at work: twice that from which on a cause is a warning, for some monitoring there must be.
const RATIO: f64 = 2.0 * crate::rank::WARNING_FROM;

/// A statement of a monitor that has run for so long is stuck: agents ask again every 10 to 60 s. Chosen, not derived.
const STUCK_S: f64 = 30.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let asking = Waiting::count(window, monitors)?;
    let ratio = asking.lost_ratio();
    if asking.mean < SESSIONS || ratio < RATIO {
        return Ok(None);
    }
    let lists = window.all(|sample| &sample.server.threads);
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    let seen = || lists.iter().flat_map(|(_, threads)| at_work(threads)).filter(|thread| monitors(thread));
    for thread in seen() {
        *users.entry(thread.user.as_str()).or_default() += 1;
    }
    let user = users.into_iter().max_by_key(|(_, times)| *times).map_or("", |(user, _)| user);
    let last = lists.last().map(|(_, threads)| at_work(threads).filter(|thread| monitors(thread)));
    let longest = last.and_then(|threads| threads.max_by(|a, b| a.time_s.total_cmp(&b.time_s)));
    let what =
        longest.or_else(|| seen().next()).and_then(|thread| thread.statement.as_deref()).unwrap_or_default();
    let stuck = longest.filter(|thread| thread.time_s >= STUCK_S);
    // One that writes what it read, into a table or a file, is a job of somebody's.
    let ended = stuck.filter(|thread| thread.statement.as_deref().is_some_and(only_reads));
    let frees = |id: &u64| killing::frees_at_the_end(window, *id);
    let why = match stuck {
        Some(thread) => format!(
            "The oldest has had no answer for {:.0} s: each round of the monitor adds another one behind it.",
            thread.time_s
        ),
        None => "What the monitors ask for takes the time of the clients' statements.".to_owned(),
    };
    Ok(Some(
        Draft::new(
            &CAUSE,
            ratio,
            format!("{:.1} sessions on average run statements of monitors, most as {user}: {}", asking.mean, shortened(what)),
        )
        .why(why)
        .evidence(
            Evidence::new("sessions that run statements about the server", asking.mean, "", "thread list")
                .expected(format!("< {SESSIONS:.0}"))
                .series(asking.series.clone()),
        )
        .evidence(
            Evidence::new("share of the sessions at work", ratio, "ratio", "thread list").expected(format!("< {RATIO}")),
        )
        .evidence_if(longest.map(|thread| Evidence::new("the longest has run for", thread.time_s, "s", "thread list")))
        .remedy(Remedy {
            statement: format!("Let the monitor of {user} ask less often: one connection, a time limit, no round before the last ended"),
            why: "The same numbers each ten seconds or each minute cost a tenth and less.".into(),
            dynamic: true,
            risk: "What happens between two rounds is not seen by it.".into(),
            undo: String::new(),
        })
        .remedy_if(ended.and_then(|thread| thread.connection_id).filter(frees).map(|id| Remedy {
            statement: format!("KILL QUERY {id}"),
            why: "It only reads. Where it waits for a lock inside the server, what holds that lock must end first.".into(),
            dynamic: true,
            risk: "The monitor gets error 1317 in place of its answer.".into(),
            undo: String::new(),
        }))
        .root(longest.map(|thread| Root {
            thread_os_id: thread.thread_os_id,
            connection_id: thread.connection_id,
            user: thread.user.clone(),
            statement: thread.statement.clone().unwrap_or_default(),
            stack: Vec::new(),
        }))
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    ))
}

/// True for a session at a statement about the server. One that waits for a lock costs nothing: it suffers.
fn monitors(thread: &ServerThread) -> bool {
    thread.is_connection
        && !thread.state.to_ascii_lowercase().starts_with("waiting for")
        && thread
            .statement
            .as_deref()
            .is_some_and(|statement| spindoctor_sql::is_about_the_server("", statement))
}

/// True for a statement that only reads: no INSERT ... SELECT, no INTO a file or a variable, no procedure.
fn only_reads(statement: &str) -> bool {
    !spindoctor_sql::locks_rows(statement) && spindoctor_sql::names(statement).all(|name| name != "into")
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    const SIZES: &str = "SELECT SUM(data_length) FROM information_schema.TABLES";

    /// So many sessions of an exporter beside eight of an application.
    fn exporters(count: u64, time_s: f64) -> Build {
        running(SIZES, count, time_s)
    }

    /// The same at a statement.
    fn running(statement: &'static str, count: u64, time_s: f64) -> Build {
        let sessions = move |_| {
            let exporter = move |id| ServerThread {
                user: "exporter".into(),
                time_s,
                ..session(id, "Query", "executing", statement)
            };
            let app =
                (60..68).map(|id| session(id, "Query", "executing", "SELECT c FROM sbtest1 WHERE id = 7"));
            (20..20 + count).map(exporter).chain(app).collect()
        };
        Build::busy("8.0.36").sessions(sessions).remote().without_profile()
    }

    pub(crate) fn fires() -> Window {
        exporters(24, 4.0).window()
    }

    /// They have had no answer for minutes.
    pub(crate) fn stuck() -> Window {
        exporters(24, 190.0).window()
    }

    /// One agent, as there should be.
    pub(crate) fn near_miss() -> Window {
        exporters(1, 4.0).window()
    }

    /// The server's threads could not be listed.
    pub(crate) fn missing() -> Window {
        exporters(24, 4.0).each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked).window()
    }

    #[test]
    fn who_waits_for_a_lock_is_no_load() {
        let sessions = |_| {
            (20..44)
                .map(|id| session(id, "Query", "Waiting for table flush", "SHOW CREATE TABLE t3"))
                .collect()
        };
        let window = Build::busy("8.0.36").sessions(sessions).remote().without_profile().window();
        assert_eq!(examine(&window), Ok(None));
    }

    #[test]
    fn whose_statements_they_are_is_said_and_kill_is_for_those_that_are_stuck() {
        let of = |time_s| examine(&exporters(24, time_s).window()).unwrap().unwrap();
        let finding = of(4.0);
        assert!(finding.headline.contains("most as exporter: SELECT SUM"), "{}", finding.headline);
        let kills =
            |finding: &Finding| finding.remedies.iter().any(|remedy| remedy.statement.starts_with("KILL"));
        assert!(!kills(&finding));
        assert!(kills(&examine(&stuck()).unwrap().unwrap()));
    }

    #[test]
    fn a_job_that_writes_what_it_read_of_the_server_is_not_ended() {
        let ends = |statement| {
            let finding = examine(&running(statement, 24, 190.0).window()).unwrap().unwrap();
            let ends = finding.remedies.into_iter().map(|remedy| remedy.statement);
            ends.filter(|statement| statement.starts_with("KILL")).collect::<Vec<_>>()
        };
        for job in [
            "INSERT INTO audit SELECT table_name FROM information_schema.TABLES",
            "CREATE TABLE audit AS SELECT * FROM performance_schema.threads",
            "SELECT * FROM information_schema.TABLES INTO OUTFILE '/tmp/tables'",
        ] {
            assert!(ends(job).is_empty(), "{job}");
        }
        // Its statement ends, and its connection stays.
        let of_reader = ends(SIZES);
        assert!(of_reader.len() == 1 && of_reader[0].starts_with("KILL QUERY "), "{of_reader:?}");
    }
}
