//! `cpu-saturated`: more runnable threads than effective CPUs, doing real work.

mod costly;
mod functions;

use spindoctor_model::host::CpuTimes;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::window::Change;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, TroubleKind, Unavailable, Window, number};

use super::{index_dive_waste, noisy_neighbour};
use crate::draft::Draft;
use crate::killing;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::run_queue::{self, Confined, Neighbours, QueuedFor, RunQueue};
use crate::seen_most::SeenMost;
use crate::sessions;
use crate::throttled::throttled;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use costly::Costly;
use functions::Functions;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "cpu-saturated",
    title: "more runnable threads than effective CPUs, doing real work",
    what: "The server's threads want more CPU than there is. Each waits in the kernel's run queue for its turn, \
           and a statement's time is mostly queueing. Nothing is broken; there is more work than CPU.",
    why_it_hurts: "Throughput stays at what the CPUs can do, and every statement takes longer in proportion to \
                   the queue. A thread that is put off the CPU while it holds a latch or a row lock makes others \
                   wait too, so the curve bends down under more load.",
    evidence: "schedstat of every thread at both ends of the window: time on a CPU and time runnable without \
               one. Their sum over the window is the mean number of runnable threads. Where it was read once only, as \
               in a recording, the mean of the snapshots of all threads is. It fires when that is 1.5 \
               times the effective CPUs or more, the CPUs the server may use are at least 90 % busy, and the \
               server uses at least half of the busy time. Up to four runnable threads for each CPU it is a note: CPUs that \
               are fully used are no trouble. It is a warning where one statement is at work in nine of ten lists of threads, and \
               takes a tenth of a second or more each time or stored functions take half of the CPU. Regular expressions, JSON \
               functions and hashes are named from 30 % of the CPU on. The estimate is a third of the share of those that are \
               more, among the runnable: latency is lost, work still gets done at the full rate.",
    looks_alike: "Under a quota that is used up the run queue fills as well: then it is cpu-throttled and this \
                  is clear. When other processes or the hypervisor (steal) take the CPUs, more than half of the \
                  busy time is not the server's, and this is clear. CPU burnt in spin loops is \
                  work to the kernel: see quota-blind-spin and spin-burn. rows-read-waste, connection-churn and \
                  thread-cache-miss stand above this when they are what keeps the CPUs busy.",
    remedies: "Find the work that need not be done: a statement that runs on (its plan by EXPLAIN FOR CONNECTION, SHOW EXPLAIN FOR \
               on MariaDB), an event of the scheduler that starts before its last run has ended (ALTER EVENT ... DISABLE, then end its \
               runs), the statements that read most, connections made for each query. Then fewer at once: a smaller client pool, thread_handling=pool-of-threads on MariaDB; with \
               hundreds of runnable threads innodb_thread_concurrency on MySQL, measured. Then more CPUs.",
    safety: "innodb_thread_concurrency is dynamic and undone with 0; too low a value leaves CPUs idle while \
             threads wait for locks. thread_handling needs a restart.",
    references: &[
        "Linux kernel documentation: scheduler statistics (/proc/PID/task/TID/schedstat)",
        "MySQL Reference Manual: innodb_thread_concurrency",
        "Vadim Tkachenko, kernel_mutex problem. Or double throughput with single variable (2014)",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::CpuQueue],
    stacks: Stacks::Running(&[]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Runnable threads for each effective CPU. At one, CPUs are busy and nobody waits; half as many again
/// makes a thread wait half as long as it runs.
const RUNNABLE_PER_CPU: f64 = 1.5;

/// Below this the CPUs still have room, and queues are bursts.
const CPUS_BUSY: f64 = 0.9;

/// Up to this share of the busy time the CPUs are the others': `noisy-neighbour` then says so.
const SERVERS_SHARE: f64 = noisy_neighbour::SERVERS_SHARE;

/// A lower limit on threads inside InnoDB than this leaves CPUs idle behind the first lock or disk wait.
const FEWEST_INSIDE: f64 = 16.0;

/// Runnable threads for each that the limit would let in, from which on the limit is worth trying.
const CROWD: f64 = 4.0;

/// Throughput is not lost, latency is: a third of the share counts, so that a queue is an alarm from ten runnable threads for
/// each CPU on.
const LATENCY_COUNTS: f64 = 1.0 / 3.0;

/// Runnable threads for each effective CPU up to which the CPUs are well used: a statement then waits three times as long as
/// it runs, which of work in microseconds nobody notices, and fewer clients would leave CPUs idle between their statements.
const WELL_USED: f64 = 4.0;

/// Part of the CPUs that others have, from which on they are mentioned: the share of them that the server's threads wait for.
const OTHERS_MATTER: f64 = 0.3;

/// Share of the lists of threads in which a statement is at work, from which on it is shown as the one seen most: half of them, so that
/// it was there through the window. Chosen, not derived.
const AT_WORK_RATIO: f64 = 0.5;

/// Share of the lists of threads in which one statement is at work, from which on it is what the CPUs are full of. Chosen.
const NEARLY_ALWAYS: f64 = 0.9;

/// A statement that takes less is answered at once, seconds, however long it waits for its turn (Jakob Nielsen, Usability Engineering:
/// a tenth of a second).
const FELT_S: f64 = 0.1;

/// What a stored function that takes most of the CPU explains.
const OF_FUNCTIONS: &[&str] = &[index_dive_waste::CAUSE.name];

/// What `top` shows: that the server has the CPUs and none is left.
fn of_capture(window: &Window) -> Option<Finding> {
    let why = "What comes next waits for a CPU. Whether that costs anything is not said: full CPUs with few that wait are well used.";
    let remedy = Remedy {
        statement: costliest(window).into(),
        why: "CPU that need not be used is the cheapest to win.".into(),
        dynamic: true,
        ..Remedy::default()
    };
    logged::printed(window, &CAUSE, TroubleKind::CpusFull, WARNING_FROM, why, remedy)
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let effective = window.need(|s| &s.host.effective_cpus)?;
    let queue = RunQueue::from_window(window)?;
    if throttled(window)?.is_some_and(|found| found.matters()) {
        return Ok(None);
    }
    let (runnable, used) = (queue.runnable(), queue.running);
    let cpus = effective.cpus.max(0.01);

    let host = window.need_change(|s| &s.host.cpu_times)?;
    let busy_us = grown(&host, |times| times.user_us + times.system_us + times.steal_us);
    let idle_us = grown(&host, |times| times.idle_us + times.iowait_us);
    let host_busy = busy_us / (busy_us + idle_us).max(1.0);
    let neighbours = Neighbours::from_window(window);
    let clients_cpus = neighbours.as_ref().map_or(0.0, |found| found.clients_cpus);
    // What happens on CPUs that the server may not use is no matter of its own.
    let confined = Confined::from_window(window, used);
    let (allowed_busy, busy_cpus) = match &confined {
        Some(confined) => (confined.busy(used), used + confined.others),
        None => (host_busy, busy_us / host.seconds / 1e6),
    };
    let servers_share = (used + clients_cpus) / busy_cpus.max(f64::MIN_POSITIVE);
    // Within a quota the server can fill its part while the host is mostly idle.
    let busy = allowed_busy.max(used / cpus);

    if runnable < RUNNABLE_PER_CPU * cpus || busy < CPUS_BUSY {
        return Ok(None);
    }
    if used / cpus < CPUS_BUSY && servers_share < SERVERS_SHARE {
        return Ok(None);
    }
    let queued_ratio = queue.queued / runnable.max(f64::MIN_POSITIVE);
    let behind_others = QueuedFor::from_window(window).others;
    let others_cpus = busy_cpus - used - clients_cpus;
    let stolen = run_queue::stolen(window, used);
    let is_steal = stolen > (others_cpus - stolen).max(0.0);
    let others = match is_steal {
        true => stolen_too(behind_others, stolen),
        false => others_too(behind_others, others_cpus, neighbours.as_ref()),
    };
    // What they wait for others is the neighbours', where it is known who that is.
    let own = neighbours.as_ref().map_or(1.0, |_| 1.0 - behind_others);
    let most = SeenMost::caller_from_window(window, AT_WORK_RATIO);
    let running_long = most.as_ref().and_then(|most| Some((most.longest?.connection_id?, most.longest?)));
    let too_many = (runnable - WELL_USED * cpus).max(0.0) / runnable.max(f64::MIN_POSITIVE);
    let functions = Functions::from_window(window, most.as_ref());
    // What a stored function does is the function's.
    let costly = Costly::from_window(window).filter(|_| functions.is_none());
    // One statement that could cost less, and not many that could not. While others have the CPUs it is they.
    let one = SeenMost::caller_from_window(window, NEARLY_ALWAYS).filter(|_| behind_others < OTHERS_MATTER);
    let takes_s = one.as_ref().and_then(|one| one_takes_s(window, one)).filter(|&takes_s| takes_s >= FELT_S);
    let is_one = one.is_some() && (functions.is_some() || takes_s.is_some());
    let score = LATENCY_COUNTS * too_many * own;
    let headline = format!("{} threads want to run on {}", number::plain(few(runnable)), cpus_text(cpus));
    let headline = match (&functions, &costly, &one) {
        (Some(functions), ..) => {
            let in_runs = most.as_ref().map_or("", SeenMost::in_runs_of_event);
            headline + &functions.headline() + in_runs
        }
        (None, Some(costly), _) => headline + &costly.headline() + &seen_most_text(most.as_ref()),
        (None, None, Some(one)) if takes_s.is_some() => headline + &seen_most_text(Some(one)),
        (None, None, _) => headline,
    };
    let why = format!(
        "On average {} threads ran and {} waited for a CPU: {:.0} % of their runnable time went into the queue.{}{}{}{}{}",
        number::plain(few(used)),
        number::plain(few(queue.queued)),
        queued_ratio * 100.0,
        takes_s.map_or_else(String::new, one_statement),
        most.as_ref().and_then(SeenMost::overlap).unwrap_or_default(),
        functions.as_ref().map_or("", Functions::why),
        costly.as_ref().map_or("", Costly::why),
        others.as_deref().unwrap_or_default()
    );
    Ok(Some(
        Draft::new(&CAUSE, if is_one { score.max(WARNING_FROM) } else { score }, headline)
            .why(why)
            .evidence(
                Evidence::new("runnable threads", runnable, "", queue.source)
                    .expected(format!("< {:.1}", RUNNABLE_PER_CPU * cpus)),
            )
            .evidence(Evidence::new("effective CPUs", cpus, "CPUs", "cpu.max, cpuset, affinity"))
            .evidence(Evidence::new("CPUs used by the server", used, "CPUs", queue.source))
            .evidence(
                Evidence::new("time runnable without a CPU", queued_ratio, "ratio", queue.source)
                    .expected("< 0.33"),
            )
            .evidence(Evidence::new(
                "of the time in the run queue, behind others",
                behind_others,
                "ratio",
                "computed",
            ))
            .evidence(Evidence::new("host CPUs busy", host_busy, "ratio", "/proc/stat"))
            .evidence_if((!window.status_series("Threads_running").is_empty()).then(|| {
                let series = window.status_series("Threads_running");
                let mean = sessions::mean(series.iter().map(|&(_, running)| running));
                Evidence::new("Threads_running", mean, "", "SHOW GLOBAL STATUS").series(series)
            }))
            .evidence_if(most.as_ref().map(seen_most))
            .evidence_if(most.as_ref().and_then(SeenMost::who))
            .evidence_if(most.as_ref().and_then(SeenMost::runs_at_once))
            .evidence_if(functions.as_ref().map(Functions::evidence))
            .evidence_if(costly.as_ref().map(Costly::evidence))
            .remedy_if(most.as_ref().and_then(SeenMost::disable_event))
            .remedy_if(functions.as_ref().map(Functions::remedy))
            .remedies(costly.iter().flat_map(|costly| costly.remedies(window)))
            .remedy_if(running_long.as_ref().and_then(|(id, session)| plan_of(window, *id, session)))
            .remedy_if(
                running_long.as_ref().and_then(|(id, session)| end_of(window, most.as_ref()?, *id, session)),
            )
            .remedy(Remedy {
                statement: costliest(window).into(),
                why: "CPU that need not be used is the cheapest to win.".into(),
                dynamic: true,
                ..Remedy::default()
            })
            .remedy_if(others.map(|_| match is_steal {
                true => noisy_neighbour::another_machine(),
                false => noisy_neighbour::bound(
                    &neighbours.as_ref().map(|found| found.programs.clone()).unwrap_or_default(),
                ),
            }))
            .remedy_if(concurrency_limit(window, runnable, cpus))
            // The statements within the function are planned at each call.
            .explains(if functions.is_some() { OF_FUNCTIONS } else { &[] })
            .finding(),
    ))
}

/// A mean number for a sentence: a decimal only where it counts.
fn few(mean: f64) -> f64 {
    match mean {
        hardly if hardly < 0.1 => hardly,
        few if few < 10.0 => (few * 10.0).round() / 10.0,
        many => many.round(),
    }
}

/// CPUs for a sentence: `2 CPUs`, `0.7 CPUs`.
pub(super) fn cpus_text(cpus: f64) -> String {
    number::quantity(few(cpus), "CPUs")
}

/// How long one execution of the statement seen most takes: one that runs on, so far; else by the server's summary, or at least as
/// long as the sessions at work on it say, where all statements were of its kind.
fn one_takes_s(window: &Window, most: &SeenMost<'_>) -> Option<f64> {
    let runs_on = most.longest.map(|session| session.time_s);
    runs_on.or_else(|| summary_s(window, &most.statement)).or_else(|| at_least_s(window, &most.statement))
}

/// The mean time of a statement by the server's summary, where that has it.
fn summary_s(window: &Window, statement: &str) -> Option<f64> {
    let change = window.change(|s| &s.server.digests)?;
    let wanted = spindoctor_sql::comparable(statement);
    let grown = spindoctor_statements::grown(change.first, change.last, change.seconds);
    let same = grown.iter().filter(|one| spindoctor_sql::comparable(&one.digest.text) == wanted);
    let (total_ns, executions) =
        same.fold((0.0, 0.0), |(ns, count), one| (ns + one.by.total_ns, count + one.by.executions));
    (executions > 0.0).then(|| total_ns / executions / 1e9)
}

/// What counts all statements, the best first: `Questions` leaves out those that run within routines, and a procedure may run one in a
/// loop (MySQL Reference Manual, Server Status Variables; MariaDB has both with the same meaning).
const STATEMENTS: [&str; 2] = ["Queries", "Questions"];

/// By the sessions at work on it and the number of all statements: no more than these can have been of its kind.
fn at_least_s(window: &Window, statement: &str) -> Option<f64> {
    let runs_it = |thread: &&ServerThread| {
        thread.statement.as_deref().is_some_and(|text| spindoctor_sql::digest(text) == statement)
    };
    let lists = window.all(|s| &s.server.threads);
    let at_work = sessions::mean(
        lists.iter().map(|(_, threads)| sessions::at_work(threads).filter(runs_it).count() as f64),
    );
    let per_s = STATEMENTS.iter().find_map(|name| window.status_per_s(name)).filter(|&per_s| per_s > 0.0)?;
    Some(at_work / per_s)
}

/// A sentence about the one statement that the CPUs are full of.
fn one_statement(takes_s: f64) -> String {
    format!(
        " One statement is at work in nearly every list of threads, and takes {} or more each time.",
        number::duration(takes_s)
    )
}

/// A sentence about other programs, where these have so much of the CPUs that it may be they. Where nobody could tell clients of
/// the server from others, they may be its own load.
fn others_too(behind_others: f64, others_cpus: f64, neighbours: Option<&Neighbours<'_>>) -> Option<String> {
    let whose = match neighbours {
        Some(_) => "and are no clients of this server",
        None => {
            "clients of this server on this host belong to its load, anything else is a neighbour that takes the time"
        }
    };
    let link = if neighbours.is_some() { "," } else { ":" };
    (behind_others >= OTHERS_MATTER)
        .then(|| format!(" Other programs have {others_cpus:.1} CPUs{link} {whose}."))
}

/// The same of other virtual machines, where these have most of what others have.
fn stolen_too(behind_others: f64, stolen: f64) -> Option<String> {
    (behind_others >= OTHERS_MATTER).then(|| {
        format!(" Other virtual machines have {stolen:.1} CPUs (steal): the hypervisor gives them away.")
    })
}

/// The end of a headline: the statement that is at work in the most lists.
fn seen_most_text(most: Option<&SeenMost<'_>>) -> String {
    let text = |most: &SeenMost<'_>| {
        format!("; seen most: {}{}", sessions::shortened(&most.statement), most.in_runs_of_event())
    };
    most.map(text).unwrap_or_default()
}

/// The statement that is at work in the most lists, and how long one of its executions has gone on.
fn seen_most(most: &SeenMost<'_>) -> Evidence {
    let since = most.longest.and_then(|session| {
        Some(format!(", in connection {} for {}", session.connection_id?, number::duration(session.time_s)))
    });
    let text = format!("{}{}", sessions::shortened(&most.statement), since.unwrap_or_default());
    Evidence::new("statement seen most at work", text, "", "thread list")
}

/// The plan of a statement that runs on, asked of the server while it runs: its summaries have it only when it ends.
fn plan_of(window: &Window, connection_id: u64, session: &ServerThread) -> Option<Remedy> {
    let version = window.server.version?;
    let ask = match () {
        () if version.mysql_at_least(5, 7, 2) => "EXPLAIN FOR CONNECTION",
        () if version.mariadb_at_least(10, 0, 0) => "SHOW EXPLAIN FOR",
        () => return None,
    };
    const EXPLAINED: [&str; 5] = ["SELECT", "UPDATE", "DELETE", "INSERT", "REPLACE"];
    let kind = spindoctor_sql::kind(session.statement.as_deref()?);
    EXPLAINED.contains(&kind.as_str()).then(|| Remedy {
        statement: format!("{ask} {connection_id}"),
        why: format!(
            "Its statement has run for {}, and no summary has it before it ends: the plan says whether it joins or scans without an \
             index.",
            number::duration(session.time_s)
        ),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    })
}

/// Ending a statement that runs on.
fn end_of(
    window: &Window,
    most: &SeenMost<'_>,
    connection_id: u64,
    session: &ServerThread,
) -> Option<Remedy> {
    let last = window.samples.last()?;
    let is_there = sessions::session(&last.server, connection_id).is_some_and(ServerThread::is_at_work);
    (is_there && killing::frees_at_the_end(window, connection_id)).then(|| Remedy {
        statement: format!("KILL QUERY {connection_id}"),
        why: match most.is_of_event() {
            true => "Once the event is disabled, and the same for each other run of it: before that the scheduler starts the next."
                .to_owned(),
            false => format!(
                "Where nobody waits for its answer, the CPUs are free of it: {}",
                sessions::shortened(session.statement.as_deref().unwrap_or_default())
            ),
        },
        dynamic: true,
        risk: "That statement is lost; what it changed is rolled back.".into(),
        undo: String::new(),
    })
}

/// Where the costliest statements are found. The summaries of MySQL before 9 and of MariaDB have no execution of a prepared
/// statement.
fn costliest(window: &Window) -> &'static str {
    let is_prepared = window.status_growth("Com_stmt_execute").is_some_and(|executed| executed > 0.0);
    let version = window.server.version.unwrap_or_default();
    match is_prepared && !version.mysql_at_least(9, 7, 0) {
        true if version.mysql_at_least(5, 7, 4) => {
            "Look at the costliest statements first (performance_schema.prepared_statements_instances ordered by \
             SUM_TIMER_EXECUTE: the digests of this version have no prepared statements; then \
             events_statements_summary_by_digest ordered by SUM_TIMER_WAIT)"
        }
        true => {
            "Look at the costliest statements first: `spindoctor workload` for a minute (this version counts prepared \
             statements in no summary)"
        }
        false => {
            "Look at the costliest statements first (performance_schema.events_statements_summary_by_digest \
             ordered by SUM_TIMER_WAIT)"
        }
    }
}

/// Limiting how many threads work inside InnoDB, where the server has such a limit, it is off, and there
/// are far more threads than it would let in.
pub(super) fn concurrency_limit(window: &Window, runnable: f64, cpus: f64) -> Option<Remedy> {
    let limit = window.variable_number("innodb_thread_concurrency")?;
    // MariaDB 10.5 made the variable do nothing, 10.6 removed it.
    let works = !window.server.version.is_some_and(spindoctor_model::ServerVersion::is_mariadb);
    let wanted = (4.0 * cpus).max(FEWEST_INSIDE);
    (works && limit == 0.0 && runnable >= CROWD * wanted).then(|| Remedy {
        statement: format!("SET GLOBAL innodb_thread_concurrency = {wanted:.0}"),
        why: "Fewer threads at once inside InnoDB: less switching, fewer latches held by threads that are put off \
              the CPU. It shortens no queue; it moves it to where waiting is cheap."
            .into(),
        dynamic: true,
        risk: crate::proposals::risks::FEWER_INSIDE.into(),
        undo: "SET GLOBAL innodb_thread_concurrency = 0".into(),
    })
}

fn grown(change: &Change<'_, CpuTimes>, count: fn(&CpuTimes) -> u64) -> f64 {
    count(change.last).saturating_sub(count(change.first)) as f64
}

#[cfg(test)]
pub(crate) mod examples;
