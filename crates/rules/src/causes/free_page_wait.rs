//! `free-page-wait`: sessions wait until a page of the buffer pool is free.

use spindoctor_model::number::{self, whole};
use spindoctor_model::{Evidence, Finding, Remedy, SessionTime, TimeClass, TroubleKind, Unavailable, Window};

use super::{buffer_pool_latch_contention, index_lock};
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::since_start::{self, SinceStart};
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "free-page-wait",
    title: "sessions wait until a page of the buffer pool is free",
    what: "Each page that is read needs a free page in the buffer pool. The page cleaner threads keep some free: they write the \
           least recently used pages that were changed, and drop those that were not. Where changes come faster than the \
           cleaners write, the list of free pages runs empty. The session then looks for a page that it can drop, and where all \
           are dirty it writes one itself and waits for that write.",
    why_it_hurts: "Each read of a page costs a write first, two with the doublewrite buffer. Statements that only read wait as \
                   well, for they need free pages too.",
    evidence: "Sessions in buf_LRU_get_free_block by their stacks, 5 % of the session time and half a session or more on average; \
               where InnoDB's functions have no names, one wait a second or more in Innodb_buffer_pool_wait_free while a fifth \
               of the session time is in waits without a name; or an error log that was given ends with it (Difficult to find \
               free blocks; a note where it only says that the page cleaner was late). Shown beside it: free and dirty pages of the pool, and pages \
               written a second.",
    looks_alike: "A pool that is too small for what is read, and clean, is read-io-bound. A redo log that is full makes all who \
                  change rows wait while pages are written: checkpoint-stall. Sessions that wait for a page hold the lock of \
                  its index, and others stand behind that: index-lock is then a symptom. Storage where one write takes a second is \
                  storage-stalled.",
    remedies: "A larger innodb_buffer_pool_size, where memory is left: fewer pages are read and pushed out. A disk that takes \
               more writes a second. Fewer dirty pages: changes in the order of the primary key, fewer secondary indexes, \
               batches. Where the disk has room, cleaners that write ahead further: innodb_lru_scan_depth (MySQL) or \
               innodb_lru_flush_size (MariaDB), and innodb_page_cleaners.",
    safety: "innodb_buffer_pool_size is dynamic from MySQL 5.7.5 and MariaDB 10.2.2 on, and takes memory from the host. A larger \
             innodb_lru_scan_depth is dynamic, costs CPU in each pass of the cleaners, and is set back the same way; where the \
             disk is full of writes already it changes nothing.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/server-status-variables.html (Innodb_buffer_pool_wait_free)",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-buffer-pool-flushing.html",
        "storage/innobase/buf/buf0lru.cc, buf_LRU_get_free_block",
    ],
    costs: Costs::Waits(&[TimeClass::FreePage]),
    // Pages are written because none is free: who wants one that is on its way waits for the same disk.
    explains_time: &[TimeClass::FreePage, TimeClass::Latch, TimeClass::Write],
    stacks: Stacks::Standing(&["buf_LRU_get_free_block", "buf_flush_single_page_from_LRU"]),
    rule: Rule::TimeOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// A wait now and then is what a server has that has just read a large table. Chosen, not derived: each wait lasts as long as
/// one or two writes, or 10 ms where another thread writes (buf0lru.cc).
const WAITS_PER_S: f64 = 1.0;

/// What an error log ends with. It does not say how many sessions waited: a warning where one found no free page, a note where
/// the page cleaner alone was late.
fn of_log(window: &Window) -> Option<Finding> {
    let none = logged::at_the_end(window, TroubleKind::NoFreePage);
    let (trouble, times) = none.or_else(|| logged::at_the_end(window, TroubleKind::SlowFlush))?;
    if let Some((pages, seconds)) = written(&trouble.line).filter(|(pages, seconds)| {
        none.is_none() && *seconds >= ROUNDS_S && pages / seconds < DISK_PAGES_PER_S
    }) {
        return Some(of_slow_disk(pages, seconds, logged::evidence(trouble, times)));
    }
    let (score, headline, why) = match (none, trouble.longest_s) {
        (Some(_), _) => (
            WARNING_FROM,
            "A session found no free page in the buffer pool, again and again".to_owned(),
            "The server says so after twenty rounds without a free page: all pages were dirty or in use, and the page cleaner \
             did not write them quickly enough.",
        ),
        (None, longest_s) => {
            let longest = longest_s.map_or_else(String::new, |s| format!(" {}", number::duration(s)));
            (
                NOTE,
                format!(
                    "The page cleaner took{longest} for a round that has one second: pages are written slowly"
                ),
                "Dirty pages are written later than planned: where changes go on, sessions then wait for a free page \
                 (free-page-wait) or for room in the redo log (checkpoint-stall).",
            )
        }
    };
    Some(
        Draft::new(&CAUSE, score, headline)
            .why(why)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: "SHOW GLOBAL VARIABLES LIKE 'innodb_io_capacity%', and iostat -x 1 beside it: set them to what the disk \
                            writes a second"
                    .into(),
                why: "A cleaner that asks for more writes than the disk ends takes longer than its second; one that asks for \
                      fewer falls behind."
                    .into(),
                dynamic: true,
                risk: "Looking is safe; both variables are dynamic.".into(),
                undo: "SET GLOBAL innodb_io_capacity to what it was".into(),
            })
            .remedy(Remedy {
                statement: "Raise innodb_buffer_pool_size, where the host has memory left".into(),
                why: "Pages stay in a larger pool for longer, so fewer have to be written and read again.".into(),
                dynamic: true,
                risk: "Memory for the pool is taken from the host's page cache and from other programs.".into(),
                undo: "SET GLOBAL innodb_buffer_pool_size to what it was".into(),
            })
            .finding(),
    )
}

/// Pages that a disk which turns writes a second: below that it is not the settings that are slow.
const DISK_PAGES_PER_S: f64 = 100.0;

/// Rounds of the page cleaner, each planned for a second, from which on that counts: where it takes less, there was little to write.
/// InnoDB warns from four on (buf0flu.cc).
const ROUNDS_S: f64 = 4.0;

/// How many pages the line says were written, and in how many seconds.
///
/// ```text
/// InnoDB: page_cleaner: 1000ms intended loop took 14233ms. The settings might not be optimal. (flushed=200 and evicted=0, during the time.)
/// Page cleaner took 14233ms to flush 200 pages                                                          (MySQL 8.0.22)
/// ```
fn written(line: &str) -> Option<(f64, f64)> {
    let number = |text: &str| -> Option<f64> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let ms = number(line.split_once(" took ")?.1)?;
    let pages = line.split_once("flushed=").or_else(|| line.split_once("ms to flush "))?.1;
    Some((number(pages)?, ms / 1e3)).filter(|(_, seconds)| *seconds > 0.0)
}

/// A disk that took far longer for a few pages than any setting explains.
fn of_slow_disk(pages: f64, seconds: f64, evidence: [Evidence; 2]) -> Finding {
    Draft::new(
        &CAUSE,
        WARNING_FROM,
        format!("The page cleaner wrote {} pages in {}: the disk hardly answers", whole(pages), number::duration(seconds)),
    )
    .why("Any disk writes a hundred pages a second. A session that needs a page, or a sync, waits for the same disk: no setting of the server \
          mends that.")
    .evidence_all(evidence.into_iter())
    .remedy(Remedy {
        statement: "iostat -x 1; dmesg -T | tail -50; for a volume of a cloud its throttling (burst credits, IOPS limit)".into(),
        why: "They show whether the disk is full of requests of somebody else, fails, or is held back.".into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        undo: String::new(),
    })
    .finding()
}

/// The estimate of what cost nobody anything yet. By judgement.
const NOTE: f64 = 0.04;

/// What a capture of one moment says: an error log's end, or a status since the start.
fn of_capture(window: &Window) -> Option<Finding> {
    of_log(window).or_else(|| of_status(window)).or_else(|| of_two(window))
}

/// What two readings of the status say that somebody gave: how often sessions waited, and not how many at once.
fn of_two(window: &Window) -> Option<Finding> {
    /// Of the pages that are read, the part whose readers first wait for a free one, from which on it matters. By judgement.
    const SHARE: f64 = 0.01;
    let per_s = window.status_per_s("Innodb_buffer_pool_wait_free").filter(|&per_s| per_s >= WAITS_PER_S)?;
    let reads_per_s = window.status_per_s("Innodb_buffer_pool_reads");
    let is_given = window.is_given() && window.missing(|sample| &sample.server.threads).is_some();
    if !is_given || reads_per_s.is_some_and(|reads_per_s| per_s < SHARE * reads_per_s) {
        return None;
    }
    let part = |name| {
        Some(
            window.status(name)?
                / window.status("Innodb_buffer_pool_pages_total").filter(|&all| all > 0.0)?,
        )
    };
    let dirty = part("Innodb_buffer_pool_pages_dirty");
    let source = "SHOW GLOBAL STATUS";
    Some(
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!("Sessions wait {per_s:.0} times a second until a page of the buffer pool is free"),
        )
        .why("A session that reads a page from disk needs a free one: there is none, and it waits until a page was written and given up. A process \
              list beside it would say how many sessions wait at once.")
        .evidence(
            Evidence::new("waits for a free page", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_buffer_pool_wait_free")
                .expected(format!("< {WAITS_PER_S:.0}"))
                .series(window.status_rate_series("Innodb_buffer_pool_wait_free")),
        )
        .evidence_if(reads_per_s.map(|reads_per_s| Evidence::new("pages read from disk", reads_per_s, "1/s", source)))
        .evidence_if(dirty.map(|dirty| Evidence::new("dirty pages", dirty, "ratio", source)))
        .remedy(since_start::look(
            "SHOW GLOBAL VARIABLES LIKE 'innodb_io_capacity%'; LIKE 'innodb_lru_scan_depth'; LIKE 'innodb_buffer_pool_size'; iostat -x 1",
            "The page cleaner writes no more than innodb_io_capacity allows: raise it to what the disk writes a second; a larger pool has \
             more pages to give.",
        ))
        .finding(),
    )
}

fn of_status(window: &Window) -> Option<Finding> {
    const COUNTER: &str = "Innodb_buffer_pool_wait_free";
    let since = SinceStart::or_between(window)?;
    let per_s = since.per_s(COUNTER).filter(|&per_s| per_s >= WAITS_PER_S)?;
    let what = format!("sessions waited {per_s:.1} times a second until a page of the buffer pool was free");
    let remedy = since_start::look(
        "SHOW GLOBAL VARIABLES LIKE 'innodb_io_capacity%'; SHOW GLOBAL VARIABLES LIKE 'innodb_buffer_pool_size'",
        "The page cleaner writes no more than innodb_io_capacity allows, and a larger pool has more pages to give.",
    );
    Some(since.finding(&CAUSE, &what, &[COUNTER], remedy))
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let waits_per_s = window.status_per_s("Innodb_buffer_pool_wait_free");
    let counted = waits_per_s.is_some_and(|per_s| per_s >= WAITS_PER_S);
    let named = InClasses::from_time(time, &[TimeClass::FreePage]);
    let Some(waits) = named.or_else(|| InClasses::without_a_name(time).filter(|_| counted)) else {
        return match counted && InClasses::are_vague(time) {
            true => Outcome::NotEnoughEvidence(window.missing(|sample| &sample.host.threads).unwrap_or_else(
                || {
                    Unavailable::because(
                        "the process list does not say who of the sessions waits for a free page",
                    )
                },
            )),
            false => Outcome::Clear,
        };
    };
    let status = |name| window.status(name);
    let part =
        |name| Some(status(name)? / status("Innodb_buffer_pool_pages_total").filter(|&all| all > 0.0)?);
    let dirty = part("Innodb_buffer_pool_pages_dirty");
    let written_per_s = window.status_per_s("Innodb_buffer_pool_pages_flushed");
    let pool_bytes = window.variable_number("innodb_buffer_pool_size");
    let how =
        dirty.map_or_else(String::new, |dirty| format!("; {:.0} % of its pages are dirty", dirty * 100.0));
    Outcome::Fired(
        waits
            .draft(
                &CAUSE,
                format!("{:.1} sessions wait until a page of the buffer pool is free{how}", waits.sessions),
            )
            .why(
                "Pages are changed faster than the page cleaners write them, so a session that needs a page has to write one \
                 itself first.",
            )
            .evidence_if(waits_per_s.map(|per_s| {
                Evidence::new("waits for a free page", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_buffer_pool_wait_free")
                    .series(window.status_rate_series("Innodb_buffer_pool_wait_free"))
            }))
            .evidence_if(dirty.map(|dirty| {
                Evidence::new("dirty pages of the pool", dirty, "ratio", "SHOW GLOBAL STATUS Innodb_buffer_pool_pages_dirty")
            }))
            .evidence_if(part("Innodb_buffer_pool_pages_free").map(|free| {
                Evidence::new("free pages of the pool", free, "ratio", "SHOW GLOBAL STATUS Innodb_buffer_pool_pages_free")
            }))
            .evidence_if(written_per_s.map(|per_s| {
                Evidence::new("pages written", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_buffer_pool_pages_flushed")
            }))
            .evidence_if(
                pool_bytes.map(|bytes| Evidence::new("innodb_buffer_pool_size", bytes, "bytes", "SHOW GLOBAL VARIABLES")),
            )
            .remedy(Remedy {
                statement: pool_bytes.map_or_else(
                    || "Raise innodb_buffer_pool_size".into(),
                    |bytes| format!("SET GLOBAL innodb_buffer_pool_size = {:.0}, where the host has that memory left", bytes * 2.0),
                ),
                why: "Pages stay in a larger pool for longer, so fewer have to be written and read again.".into(),
                dynamic: true,
                risk: "Memory for the pool is taken from the host's page cache and from other programs.".into(),
                undo: pool_bytes
                    .map_or_else(String::new, |bytes| format!("SET GLOBAL innodb_buffer_pool_size = {bytes:.0}")),
            })
            .remedy(Remedy {
                statement: "A disk that takes more writes a second, or fewer changes of pages far apart (`spindoctor workload` \
                            shows the statements)"
                    .into(),
                why: "A page is free when it is written.".into(),
                dynamic: false,
                ..Remedy::default()
            })
            // Who waits for a page holds the lock of the index that the page is of; who looks for one walks the pool's lists.
            .explains(&[index_lock::CAUSE.name, buffer_pool_latch_contention::CAUSE.name])
            .finding(),
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Severity;
    use spindoctor_model::stack::ThreadState::{DiskWrite, Lock};

    use super::*;
    use crate::testing::Build;

    const BELOW: &[&str] = &["row_upd_step", "dispatch_command", "do_command"];
    const LOCK: &[&str] = &["lock_wait", "row_upd_step", "dispatch_command", "do_command"];

    fn at(sessions: u32) -> Window {
        let writes: Vec<&str> = ["pwrite64", "buf_flush_single_page_from_LRU", "buf_LRU_get_free_block"]
            .iter()
            .chain(BELOW)
            .copied()
            .collect();
        Build::busy("8.0.36")
            .counter("Innodb_buffer_pool_wait_free", 40.0)
            .gauge("Innodb_buffer_pool_pages_total", 320.0)
            .gauge("Innodb_buffer_pool_pages_dirty", 290.0)
            .only_snapshots(&[(sessions, DiskWrite, &writes), (4, Lock, LOCK)])
            .window()
    }

    pub(crate) fn fires() -> Window {
        at(12)
    }

    /// Waits are counted, and no session is seen in one.
    pub(crate) fn near_miss() -> Window {
        at(0)
    }

    /// A remote server: its list has no word for this wait.
    pub(crate) fn missing() -> Window {
        Build::waiting(12, "updating").counter("Innodb_buffer_pool_wait_free", 40.0).window()
    }

    #[test]
    fn pages_that_nobody_counted_are_not_said_to_be_none() {
        let given = |build: Build| {
            let mut window = build.counter("Innodb_buffer_pool_wait_free", 40.0).window();
            window.server.no_pid =
                Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            for sample in &mut window.samples {
                sample.server.threads = spindoctor_model::Reading::NotAsked;
            }
            let evidence = of_two(&window).unwrap().evidence;
            evidence.iter().any(|one| one.reading == "pages read from disk")
        };
        assert!(given(Build::busy("8.0.36")));
        assert!(!given(Build::busy("8.0.36").words("Innodb_buffer_pool_reads", "")));
    }

    #[test]
    fn an_error_log_alone_is_enough_where_it_ends_with_it() {
        let found = |kind, longest_s| {
            let mut window = Window::default();
            let line = "InnoDB: Difficult to find free blocks in the buffer pool".to_owned();
            window.error_log = vec![spindoctor_model::LoggedTrouble {
                kind,
                times: 3,
                line,
                longest_s,
                ..Default::default()
            }];
            crate::diagnose(&window).findings
        };
        let none = found(TroubleKind::NoFreePage, None);
        assert_eq!((none[0].cause.as_str(), none[0].severity), (CAUSE.name, Severity::Warning));
        let late = found(TroubleKind::SlowFlush, Some(7.7));
        assert_eq!((late[0].cause.as_str(), late[0].severity), (CAUSE.name, Severity::Note));
        assert!(late[0].headline.contains("7.7 s"), "{}", late[0].headline);
        let of_line = |line: &str| {
            let trouble = spindoctor_model::LoggedTrouble {
                kind: TroubleKind::SlowFlush,
                times: 1,
                line: line.to_owned(),
                longest_s: Some(114.0),
                ..Default::default()
            };
            let window = Window { error_log: vec![trouble], ..Window::default() };
            crate::diagnose(&window).findings.remove(0)
        };
        let slow = of_line(
            "[Note] InnoDB: page_cleaner: 1000ms intended loop took 114373ms. (flushed=200 and evicted=0)",
        );
        assert_eq!(slow.headline, "The page cleaner wrote 200 pages in 114 s: the disk hardly answers");
        assert!(slow.remedies[0].statement.starts_with("iostat"), "{:?}", slow.remedies);
        let much = of_line("[Note] [InnoDB] Page cleaner took 14233ms to flush 20000 pages");
        assert!(much.headline.contains("114 s for a round"), "{}", much.headline);
        assert!(found(TroubleKind::Deadlock, None).iter().all(|finding| finding.cause != CAUSE.name));
    }

    #[test]
    fn where_the_engine_has_no_names_the_counter_says_what_the_wait_is() {
        let engine: &[&str] = &[
            "pthread_cond_wait",
            "mariadbd+0x12",
            "mariadbd+0x34",
            "handler::ha_update_row",
            "dispatch_command",
            "do_command",
        ];
        let at = |per_s| {
            Build::busy("10.11.19-MariaDB")
                .counter("Innodb_buffer_pool_wait_free", per_s)
                .only_snapshots(&[(12, spindoctor_model::stack::ThreadState::Condition, engine)])
                .window()
        };
        assert_eq!(crate::diagnose(&at(40.0)).findings[0].cause, CAUSE.name);
        assert_ne!(crate::diagnose(&at(0.0)).findings[0].cause, CAUSE.name);
    }
}
