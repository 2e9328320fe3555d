//! `table-cache-contention`: tables opened and closed all the time.

mod innodb_files;
mod mutex;

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::{cpu_saturated, statistics_stall};
use crate::below::is_below;
use crate::draft::Draft;
use crate::sessions::Waiting;
use crate::since_start::{self, SinceStart};
use crate::spin_samples::SpinSamples;
use crate::{Cause, Costs, Outcome, Rule, Stacks, cpus};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "table-cache-contention",
    title: "tables opened and closed all the time",
    what: "Each session that uses a table needs an open instance of it, kept in the table cache \
           (table_open_cache) between statements. When the cache is full, a statement closes some instance and \
           opens its own: the definition is looked up, the instance is built, the engine opens its part. Joins take \
           an instance for each table and session, partitioned tables are one instance with much more to open.",
    why_it_hurts: "An opening costs ten times and more what a lookup by primary key costs, and is done under the \
                   cache's mutexes and those of the dictionary, which all sessions share (LOCK_open before 5.6.6; one \
                   for each of table_open_cache_instances since). FLUSH TABLES empties the cache, and everyone opens \
                   everything at once.",
    evidence: "Growth of Opened_tables over the window, against Table_open_cache_hits and _misses (where there are \
               none: against Questions). It fires from 100 openings a second on when one in ten uses of a table opens \
               it. The estimate is the larger of two shares: CPU samples in open_table, closefrm and their like, as part \
               of the effective CPUs (without samples: the openings at 20 us each, an estimate); and sessions at work \
               in the state `Opening tables` or `closing tables`. Of captured stacks or CPU samples: a tenth that waits for a place \
               among InnoDB's open files. Of stacks, captured or live: two sessions and 5 % of those at work that wait for the mutex \
               of the open tables in open_table or close_thread_tables.",
    looks_alike: "A server that has just started opens each table once. `Opening tables` while a file is deleted or a \
                  table is dropped is dictionary-stall; `Waiting for table metadata lock` is metadata-lock-pileup; \
                  `Waiting for table flush` waits for a long statement. information_schema queries over many tables \
                  open them to look at them.",
    remedies: "SET GLOBAL table_open_cache so that Opened_tables stops growing: tables in use times sessions at work is \
               enough. Where Opened_table_definitions grows as well, table_definition_cache too. Where the cache is not \
               full, find who runs FLUSH TABLES. open_files_limit must allow for MyISAM and for innodb_open_files.",
    safety: "table_open_cache is dynamic, takes effect as tables are opened, and is undone by setting the old value. An \
             instance takes some kilobytes to tens of them (triggers more: MySQL 9.7 has table_open_cache_triggers). \
             table_open_cache_instances needs a restart.",
    references: &[
        "MySQL Reference Manual: How MySQL Opens and Closes Tables; table_open_cache",
        "MariaDB Knowledge Base: Optimizing table_open_cache",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::TableCache, TimeClass::Mutex],
    stacks: Stacks::Running(OPENS),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Opening and closing a table: sql_base.cc, table.cc; MariaDB's table_cache.cc. The outermost is what is looked for.
const OPENS: &[&str] = &[
    "get_table_share",
    "open_table_from_share",
    "intern_close_table",
    "closefrm",
    "close_thread_table",
    "tdc_acquire_share",
    "tdc_remove_table",
    "tc_add_table",
    "tc_release_table",
];

/// Openings a second from which on they can matter: a hundredth of a CPU.
const OPENED_PER_S: f64 = 100.0;

/// Share of the uses of a table that open it. A fitting cache has next to none.
const MISS_RATIO: f64 = 0.1;

/// CPU of opening and closing a table, seconds. Half of all the CPU that a server used which did little else, for each table opened:
/// 42 us on MySQL 9.7, 39 us on MariaDB 10.11, by the recorded windows (`cargo test -p spindoctor-rules --test windows
/// what_work_costs`). The half is chosen: the statements and their answers are in it too.
const OPEN_CPU_S: f64 = 20e-6;

/// The cache counts as full from this share on: it is split over instances, and not all of them are full.
const FULL_RATIO: f64 = 0.8;

/// What a capture of one moment says, a status or stacks in which threads wait for a place among InnoDB's open files; and stacks, those of
/// a live server too, in which sessions wait for the mutex of the open tables.
fn of_capture(window: &Window) -> Option<Finding> {
    of_status(window).or_else(|| innodb_files::found(window)).or_else(|| mutex::found(window))
}

/// What one status says.
fn of_status(window: &Window) -> Option<Finding> {
    const COUNTER: &str = "Opened_tables";
    let since = SinceStart::from_window(window)?;
    let per_s = since.per_s(COUNTER).filter(|&per_s| per_s >= OPENED_PER_S)?;
    let hits = since.count("Table_open_cache_hits").zip(since.count("Table_open_cache_misses"));
    let uses = hits.map(|(hits, misses)| hits + misses).or_else(|| since.count("Questions"))?;
    let ratio = (since.count(COUNTER)? / uses.max(1.0)).min(1.0);
    let what = format!("{per_s:.0} tables were opened a second, {:.0} in 100 uses of a table", ratio * 100.0);
    let remedy = since_start::look(
        "SHOW GLOBAL VARIABLES LIKE 'table_open_cache%'; SHOW GLOBAL STATUS LIKE 'Open_tables'",
        "A cache that is full is too small; where it is not, somebody flushes it.",
    );
    (ratio >= MISS_RATIO).then(|| since.finding(&CAUSE, &what, &[COUNTER, "Open_tables"], remedy))
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let opened_per_s = window.need_growth("Opened_tables")? / seconds;
    let hits =
        window.status_per_s("Table_open_cache_hits").zip(window.status_per_s("Table_open_cache_misses"));
    let uses_per_s = match hits {
        Some((hits, misses)) => hits + misses,
        None => window.need_growth("Questions")? / seconds,
    };
    let miss_ratio = (opened_per_s / uses_per_s.max(opened_per_s).max(f64::MIN_POSITIVE)).min(1.0);
    if opened_per_s < OPENED_PER_S || miss_ratio < MISS_RATIO {
        return Ok(None);
    }
    // Of a captured status without the variables: tables that are opened all the time are what a cache that is too small does.
    let cache = window.variable_number("table_open_cache");
    let open = window.status("Open_tables");
    let is_full = open.zip(cache).is_none_or(|(open, cache)| open >= FULL_RATIO * cache);
    let cpu_ratio = cpu_ratio(window, opened_per_s);
    let waiting = Waiting::count(window, |thread| {
        let state = thread.state.to_ascii_lowercase();
        state == "opening tables" || state == "closing tables" || state == "opening table"
    });
    let waiting = waiting.ok().filter(|waiting| waiting.mean > 0.0);
    let in_states = waiting.as_ref().map_or(0.0, Waiting::lost_ratio);
    let for_mutex = mutex::waits(window);
    let made_per_s = made_per_s(window).filter(|&made_per_s| made_per_s * OPENED_BY_MAKING >= opened_per_s);
    let fills = match made_per_s {
        _ if is_full => match (cache, open) {
            (Some(cache), _) => format!("table_open_cache holds {}, and is full", whole(cache)),
            (None, Some(open)) => format!("{} are open, as many as fit most likely", whole(open)),
            (None, None) => "the cache is full most likely".to_owned(),
        },
        Some(made_per_s) => {
            format!(
                "the cache is not full: {} tables are made a second, temporary ones among them",
                whole(made_per_s)
            )
        }
        None => "the cache is not full: something flushes it".to_owned(),
    };
    Ok(Some(
        Draft::new(
            &CAUSE,
            cpu_ratio.max(in_states).max(for_mutex.map_or(0.0, |time| time.share())),
            format!(
                "{} tables are opened a second, {:.0} in 100 uses of a table open it; {fills}",
                whole(opened_per_s),
                miss_ratio * 100.0
            ),
        )
        .why(format!(
            "Opening and closing takes {:.0} % of the effective CPUs, or {:.0} % of the sessions' time by their states.{}",
            cpu_ratio * 100.0,
            in_states * 100.0,
            for_mutex.as_ref().map_or_else(String::new, mutex::sentence)
        ))
        .evidence(
            Evidence::new("tables opened", opened_per_s, "1/s", "SHOW GLOBAL STATUS Opened_tables")
                .expected(format!("< {OPENED_PER_S:.0}"))
                .series(window.status_rate_series("Opened_tables")),
        )
        .evidence(
            Evidence::new("share of the uses that open it", miss_ratio, "ratio", "computed")
                .expected(format!("< {MISS_RATIO}")),
        )
        .evidence_if(cache.map(|cache| Evidence::new("table_open_cache", cache, "tables", "SHOW GLOBAL VARIABLES")))
        .evidence_if(open.map(|open| Evidence::new("Open_tables", open, "tables", "SHOW GLOBAL STATUS")))
        .evidence_if(waiting.map(|waiting| {
            Evidence::new("sessions opening or closing tables", waiting.mean, "", "thread list, state")
                .series(waiting.series)
        }))
        .evidence(Evidence::new("effective CPUs spent on it", cpu_ratio, "ratio", "CPU samples, or 20 us each"))
        .remedy_if(is_full.then(|| Remedy {
            statement: match cache {
                Some(cache) => format!("SET GLOBAL table_open_cache = {:.0}", wanted(window, cache)),
                None => "SET GLOBAL table_open_cache = twice of what SELECT @@table_open_cache says".to_owned(),
            },
            why: "An instance of a table then stays open from one statement to the next.".into(),
            dynamic: true,
            risk: crate::proposals::risks::KEEPS_TABLES.into(),
            undo: match cache {
                Some(cache) => format!("SET GLOBAL table_open_cache = {cache:.0}"),
                None => "SET GLOBAL table_open_cache to what it was.".to_owned(),
            },
        }))
        .remedy_if((!is_full && made_per_s.is_some()).then(|| Remedy {
            statement: "Find who makes tables so often (Com_create_table, Com_create_temporary_table), and keep them: TRUNCATE or \
                        DELETE in place of DROP and CREATE, or a subquery in place of a temporary table"
                .into(),
            why: "A table that was made has to be opened, and one that is dropped leaves the cache.".into(),
            dynamic: true,
            ..Remedy::default()
        }))
        .remedy_if((!is_full && made_per_s.is_none()).then(|| Remedy {
            statement: "Find who runs FLUSH TABLES, ANALYZE TABLE or DDL so often (Com_flush, Com_analyze, Com_alter_table, Com_truncate)"
                .into(),
            why: "Each makes all sessions open their tables again.".into(),
            dynamic: true,
            ..Remedy::default()
        }))
        .explains(&[cpu_saturated::CAUSE.name, statistics_stall::CAUSE.name])
        .finding(),
    ))
}

/// Tables that are opened for each that is made: by the statement that makes it, to fill it and to use it. Chosen.
const OPENED_BY_MAKING: f64 = 4.0;

/// Tables made a second. MySQL counts temporary ones among the others.
fn made_per_s(window: &Window) -> Option<f64> {
    let made = ["Com_create_table", "Com_create_temporary_table"].map(|counter| window.status_per_s(counter));
    made.into_iter().flatten().reduce(|all, each| all + each)
}

/// Part of the effective CPUs that goes into opening and closing.
fn cpu_ratio(window: &Window, opened_per_s: f64) -> f64 {
    let cpus = cpus::effective(window);
    let by_samples = || {
        let samples = SpinSamples::from_window(window).ok()?;
        let profile = samples.profile();
        let used = profile.process_cpu_us as f64 / 1e6 / profile.seconds.max(f64::MIN_POSITIVE);
        let share = samples.share_of(|sample| is_below(profile, sample, OPENS));
        Some(share * used / cpus)
    };
    by_samples().unwrap_or(opened_per_s * OPEN_CPU_S / cpus).min(1.0)
}

/// Room for every table in use in every session, within twice and sixteen times of what there is.
fn wanted(window: &Window, cache: f64) -> f64 {
    let tables = window.status("Open_table_definitions").unwrap_or(0.0);
    let sessions = window.status("Threads_connected").unwrap_or(1.0);
    // The largest that the variable takes is 524,288.
    (tables * sessions).clamp(2.0 * cache, (16.0 * cache).max(4000.0)).min(524_288.0)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    fn opening(version: &str) -> Build {
        Build::busy(version)
            .counter("Opened_tables", 5000.0)
            .counter("Table_open_cache_hits", 800.0)
            .counter("Table_open_cache_misses", 5000.0)
            .gauge("Open_tables", 20.0)
            .gauge("Open_table_definitions", 200.0)
            .variable("table_open_cache", "20")
            .cpu_samples(1000, 0.0, &[])
            .sessions(|_| {
                let mut sessions: Vec<_> =
                    (20..26).map(|id| session(id, "Query", "Opening tables", "SELECT 1 FROM t")).collect();
                sessions.extend((26..30).map(|id| session(id, "Query", "executing", "SELECT 1 FROM t")));
                sessions
            })
    }

    pub(crate) fn fires() -> Window {
        opening("9.7.4").window()
    }

    /// As many uses of tables, and the cache fits.
    pub(crate) fn near_miss() -> Window {
        opening("9.7.4")
            .counter("Opened_tables", 60.0)
            .counter("Table_open_cache_hits", 5800.0)
            .counter("Table_open_cache_misses", 60.0)
            .window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_full_cache_is_made_to_hold_the_tables_in_use() {
        let finding = found(&fires());
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL table_open_cache = 3400");
        assert_eq!(finding.remedies[0].undo, "SET GLOBAL table_open_cache = 20");
    }

    #[test]
    fn a_cache_that_is_not_full_is_being_flushed() {
        let finding = found(&opening("10.11.19-MariaDB").variable("table_open_cache", "2000").window());
        assert!(
            finding.headline.ends_with("the cache is not full: something flushes it"),
            "{}",
            finding.headline
        );
    }

    #[test]
    fn cpu_samples_show_what_it_costs_better_than_an_estimate() {
        let frames = &["handler::ha_open", "open_table_from_share", "open_table"];
        let window = opening("9.7.4").sessions(|_| Vec::new()).running(1000, 0.5, frames).window();
        // Half of 1.6 CPUs, of 4.
        assert!((found(&window).score - 0.2).abs() < 1e-6);
    }
}
