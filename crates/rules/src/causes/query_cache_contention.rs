//! `query-cache-contention`: sessions wait for the one lock of the query cache.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, SessionTime, TimeClass, Window};

use crate::captured::Captured;
use crate::draft::Draft;
use crate::killing;
use crate::sessions::at_work;
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "query-cache-contention",
    title: "sessions wait for the query cache's one lock",
    what: "The query cache (MySQL to 5.7, MariaDB) keeps answers of SELECT by the text of the statement. One lock guards all of \
           it: to look an answer up, to store one, and to throw away all answers of a table when one row of it changes. The \
           lock is held for the longer the more answers there are, and for longest where memory is in many small pieces.",
    why_it_hurts: "Every SELECT takes the lock, one that is not cached too, and every change takes it. However many CPUs there \
                   are, one session at a time gets on; a change of a table with 100,000 cached answers stops everybody for \
                   milliseconds.",
    evidence: "Sessions in the state Waiting for query cache lock, or in functions of Query_cache by their stacks: from 5 % of \
               the session time and half a session on. Of CPU samples that somebody captured, a tenth of the server's in these \
               functions. The numbers beside it are query_cache_size, Qcache_queries_in_cache and \
               Qcache_hits.",
    looks_alike: "Sessions in another state that begins with Waiting for wait for locks of tables: metadata-lock-pileup, \
                  table-lock-pileup. Mutexes that are not the query cache's have the class mutex.",
    remedies: "Switch it off: SET GLOBAL query_cache_size = 0 and query_cache_type = 0. Where a table is read often and changed \
               rarely, cache its answers in the application instead. A smaller cache (some MiB) is the next best.",
    safety: "Emptying a large cache takes its lock for as long as that lasts, once. Afterwards statements that were answered \
             from the cache run: where most were (Qcache_hits against Com_select), the CPUs have more to do. A cache that is \
             off since the start (query_cache_type = 0) takes no lock at all.",
    references: &[
        "https://dev.mysql.com/doc/refman/5.7/en/query-cache.html",
        "https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/buffers-caches-and-threads/query-cache",
    ],
    costs: Costs::Waits(&[TimeClass::QueryCache]),
    explains_time: &[TimeClass::QueryCache],
    stacks: Stacks::Standing(&[
        "Query_cache::send_result_to_client",
        "Query_cache::store_query",
        "Query_cache::insert",
        "Query_cache::end_of_result",
        "Query_cache::invalidate",
        "Query_cache::invalidate_table",
        "Query_cache::invalidate_by_MyISAM_filename",
    ]),
    rule: Rule::TimeOrCapture(evaluate, of_samples),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::QueryCache]) else { return Outcome::Clear };
    let size = window.variable_number("query_cache_size");
    let answers = window.status("Qcache_queries_in_cache");
    let hits_per_s = window.status_per_s("Qcache_hits");
    let flusher = flusher(window);
    let undo = size.map_or_else(String::new, |size| format!("SET GLOBAL query_cache_size = {size:.0}"));
    let draft = waits
        .draft(
            &CAUSE,
            format!(
                "{:.1} sessions wait for the query cache's one lock, {:.0} % of the session time",
                waits.sessions,
                waits.share * 100.0
            ),
        )
        .why(format!(
            "{}Each lookup takes the lock; a change of a table throws its answers away meanwhile, and FLUSH QUERY CACHE moves all \
             answers together. All sessions wait then, whatever they read.{}",
            answers.map_or_else(String::new, |answers| format!("The cache holds {} answers. ", whole(answers))),
            flusher.map_or_else(String::new, |id| format!(" Connection {id} runs FLUSH QUERY CACHE."))
        ))
        .evidence_if(size.map(|size| Evidence::new("query_cache_size", size, "bytes", "SHOW GLOBAL VARIABLES")))
        .evidence_if(answers.map(|answers| Evidence::new("answers in the cache", answers, "", "Qcache_queries_in_cache")))
        .evidence_if(hits_per_s.map(|hits| Evidence::new("answered from it", hits, "1/s", "Qcache_hits")))
        .remedy_if(flusher.filter(|&id| killing::frees_at_the_end(window, id)).map(|id| Remedy {
            statement: format!("KILL {id}, and stop the job that runs FLUSH QUERY CACHE"),
            why: "It holds the lock while it moves the answers; a cache in pieces costs less.".into(),
            dynamic: true,
            risk: "The connection ends.".into(),
            undo: String::new(),
        }))
        .remedy(switch_off(undo));
    Outcome::Fired(draft.finding())
}

fn switch_off(undo: String) -> Remedy {
    Remedy {
        statement: "SET GLOBAL query_cache_size = 0".into(),
        why: "Without the cache nobody takes its lock. With query_cache_type = 0 in the option file it stays off.".into(),
        dynamic: true,
        risk: "Emptying it holds the lock once more, for as long as that takes; what it answered is computed again, which \
               takes CPU."
            .into(),
        undo,
    }
}

/// How its functions begin (sql/sql_cache.cc).
const FUNCTIONS: &str = "Query_cache::";

/// From this part of captured CPU samples on, 0 to 1. By judgement: a lookup that is answered takes some hundredths of a statement.
const OF_SAMPLES: f64 = 0.10;

/// What CPU samples say that somebody captured: who keeps the lock works in these functions, and the others wait for it.
fn of_samples(window: &Window) -> Option<Finding> {
    let captured = Captured::from_window(window, |name| name.starts_with(FUNCTIONS))?;
    if !captured.is_of_cpu || captured.share < OF_SAMPLES {
        return None;
    }
    Some(
        Draft::new(&CAUSE, captured.share, format!("The query cache takes {}", captured.said()))
            .why(
                "One session at a time is in the cache, under its one lock. The work there is longest where many answers are in it, or \
                 its memory is in many small pieces: all other sessions, whatever they read, wait meanwhile.",
            )
            .evidence_all(captured.evidence("CPU in the query cache", OF_SAMPLES).into_iter())
            .remedy(switch_off("SET GLOBAL query_cache_size to what SELECT @@query_cache_size says before".into()))
            .elsewhere()
            .finding(),
    )
}

/// Samples in which FLUSH QUERY CACHE is seen, from which on it runs again and again. Chosen: one may be somebody's only one.
const FLUSHES: usize = 3;

/// The connection that was seen last at FLUSH QUERY CACHE, where it runs again and again.
fn flusher(window: &Window) -> Option<u64> {
    let lists = window.all(|sample| &sample.server.threads);
    let seen = lists.iter().filter_map(|(_, threads)| {
        let flushes = |thread: &&ServerThread| {
            let digest = spindoctor_sql::digest(thread.statement.as_deref().unwrap_or_default());
            digest.to_ascii_uppercase().starts_with("FLUSH QUERY CACHE")
        };
        at_work(threads).find(flushes)?.connection_id
    });
    let seen: Vec<u64> = seen.collect();
    seen.last().copied().filter(|_| seen.len() >= FLUSHES)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    fn waiting(sessions: u64) -> Build {
        Build::busy("10.11.19-MariaDB")
            .remote()
            .without_profile()
            .gauge("Qcache_queries_in_cache", 80_000.0)
            .counter("Qcache_hits", 900.0)
            .variable("query_cache_size", "536870912")
            .sessions(move |_| {
                let state = |at| if at < sessions { "Waiting for query cache lock" } else { "Sending data" };
                (0..40).map(|at| session(20 + at, "Query", state(at), "SELECT 1")).collect()
            })
    }

    pub(crate) fn fires() -> Window {
        waiting(30).window()
    }

    /// One session in forty.
    pub(crate) fn near_miss() -> Window {
        waiting(1).window()
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        waiting(30).each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked).window()
    }

    #[test]
    fn it_is_switched_off_and_its_size_is_the_way_back() {
        let finding = crate::diagnose(&fires()).findings.remove(0);
        assert_eq!(
            finding.headline,
            "30 sessions wait for the query cache's one lock, 75 % of the session time"
        );
        assert_eq!(finding.remedies[0].undo, "SET GLOBAL query_cache_size = 536870912");
        assert!(finding.why.contains("80,000 answers"), "{}", finding.why);
    }

    #[test]
    fn captured_samples_in_the_cache_are_found_from_a_tenth_on() {
        let of = |share: f64| {
            let frames = &["Query_cache::insert_into_free_memory_list", "Query_cache::free_memory_block"];
            let window = Build::busy("5.6.14").running(1_000, share, frames).captured().window();
            crate::diagnose(&window).findings.into_iter().find(|finding| finding.cause == CAUSE.name)
        };
        let finding = of(0.42).unwrap();
        assert_eq!(finding.headline, "The query cache takes 42 % of the server's CPU samples");
        assert!(finding.evidence.iter().any(|one| format!("{:?}", one.value).contains("insert_into_free")));
        assert_eq!(of(0.04), None);
    }

    /// Connection 77 tidies the cache up all the time.
    pub(crate) fn tidied() -> Window {
        let sessions = |_| {
            let waits =
                (0..30).map(|at| session(20 + at, "Query", "Waiting for query cache lock", "SELECT 1"));
            waits.chain([session(77, "Query", "", "FLUSH  QUERY CACHE")]).collect()
        };
        waiting(30).sessions(sessions).window()
    }

    #[test]
    fn a_job_that_tidies_the_cache_up_is_named() {
        let finding = crate::diagnose(&tidied()).findings.remove(0);
        assert!(finding.why.ends_with("Connection 77 runs FLUSH QUERY CACHE."), "{}", finding.why);
        assert!(finding.remedies[0].statement.starts_with("KILL 77"), "{finding:?}");
    }
}
