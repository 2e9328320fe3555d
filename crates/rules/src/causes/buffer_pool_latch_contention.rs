//! `buffer-pool-latch-contention`: sessions wait for the mutexes of the buffer pool's lists, or for the latches of its page hash.

use spindoctor_model::latches::{BUFFER_POOL_LISTS, PAGE, PAGE_HASH};
use spindoctor_model::number::bytes;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Window};

use crate::latch_time::{self, Contention, Latches};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "buffer-pool-latch-contention",
    title: "sessions wait for the latches of the buffer pool's lists and page hash",
    what: "The buffer pool finds a page by a hash, and keeps its pages in lists: the least recently used ones (LRU), the free ones, those \
           that were changed. Each read of a page looks it up under a latch of the hash; a page that is read from disk, moved to the \
           head of the list, changed for the first time or written is moved in a list under the list's mutex. From MySQL 8.0 on each \
           list has its own; before, and in MariaDB, one buf_pool_mutex has all but the list of changed pages. Each of \
           innodb_buffer_pool_instances has its own of all of these; MariaDB 10.5 and later have one instance.",
    why_it_hurts: "They are held for a moment, but for each page. With many sessions that read and push out pages, or that scan, they \
                   queue on a list's mutex while the page cleaners walk the same list: more CPUs and quicker disks then bring no \
                   more pages.",
    evidence: "Stacks of statements that wait for a latch below buf_LRU_*, buf_flush_*, buf_page_make_young, buf_page_init_for_read, \
               Buf_fetch::lookup or buf_page_hash_*, and up to MySQL 5.5 for a mutex in buf_page_get_gen; CPU samples that spin there; and \
               the waits that performance_schema counted in the window for buf_pool_LRU_list_mutex, buf_pool_free_list_mutex, \
               flush_list_mutex, buf_pool_mutex and hash_table_locks. It fires where two sessions or more on average, and 5 % of those \
               at work, wait so, or where 5 % of the CPU samples spin so. An instrument that is off counts nothing: it is unknown then, \
               and not nothing. Of a status that somebody captured, and of a server of which there is nothing else, three threads are \
               enough that wait for such a latch in the section SEMAPHORES, each for less than 5 s. Shown beside it, where the version \
               counts them: rounds of spinning for each wait that slept. Few machines have the cores to reproduce it: the rule is \
               proved on windows that were made by hand.",
    looks_alike: "A latch of one page (rw_lock_s_lock_spin below Buf_fetch::single_page or buf_page_get_gen) is a hot page: everybody \
                  wants the same row, or the same end of an index; index-lock is its neighbour. Sessions that wait until a page is free \
                  are free-page-wait, which stands before this where both are there. Sessions that wait for the disk itself are \
                  read-io-bound. A mutex that is kept for seconds has a holder that waits for something else: latch-pileup.",
    remedies: "Fewer pages that come and go: a larger innodb_buffer_pool_size, and indexes for statements that scan. More instances \
               (innodb_buffer_pool_instances) where the server has them and each keeps a GiB or more: MySQL, and MariaDB up to 10.4. \
               innodb_old_blocks_time at its default of 1000, so that a page that is read twice in a moment is not moved to the head \
               of the list each time. A smaller innodb_lru_scan_depth where many instances are scanned each second under their mutex.",
    safety: "innodb_buffer_pool_instances needs a restart, after which the pool is cold unless it was dumped. A larger pool takes \
             memory from the host. innodb_old_blocks_time and innodb_lru_scan_depth are dynamic; with too small a scan depth statements \
             find no free page and look for one themselves.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-multiple-buffer-pools.html",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-performance-midpoint_insertion.html",
        "MySQL 8.0 source, buf0lru.cc, buf0flu.cc; buf0buf.cc: Buf_fetch::lookup, buf_page_make_young",
        "MDEV-15058: Remove multiple InnoDB buffer pool instances",
    ],
    costs: Costs::Waits(&[]),
    // MariaDB's are mutexes of the C library from 10.5 on.
    explains_time: &[
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::Spin,
        TimeClass::CpuQueue,
        TimeClass::CpuQuota,
    ],
    stacks: Stacks::Standing(&[
        "buf_LRU_get_free_block",
        "buf_LRU_get_free_only",
        "buf_LRU_add_block",
        "buf_LRU_make_block_young",
        "buf_LRU_scan_and_free_block",
        "buf_page_make_young",
        "buf_page_init_for_read",
        "buf_flush_insert_into_flush_list",
        "Buf_fetch::lookup",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// The mutexes of the lists, and the latches of the hash.
const POOL: Latches = Latches {
    named: "the buffer pool's lists and page hash",
    latches: &[&BUFFER_POOL_LISTS, &PAGE_HASH],
    // Who fetches a page takes the pool's one mutex for it; from 5.6 on such a mutex is the page's (buf0buf.c, buf_page_get_gen).
    before_5_6: |wait| wait.is_mutex && wait.is_for(&PAGE),
};

const INSTANCES: &str = "innodb_buffer_pool_instances";

/// The most instances there are (MySQL Reference Manual).
const MOST_INSTANCES: f64 = 64.0;

/// What each instance is to have at least, bytes (MySQL Reference Manual, Configuring Multiple Buffer Pool Instances).
const LEAST_EACH: f64 = 1024.0 * 1024.0 * 1024.0;

/// How long a page stays among the old ones of the list before a second access moves it, milliseconds: the default from MySQL 5.6 on.
const OLD_BLOCKS_MS: f64 = 1_000.0;

fn evaluate(window: &Window) -> Outcome {
    let found = latch_time::contention(window, &POOL);
    found.map(|found| found.map(|found| finding(window, found))).into()
}

fn of_status(window: &Window) -> Option<Finding> {
    latch_time::printed(window, &POOL).map(|found| finding(window, found))
}

fn finding(window: &Window, found: Contention) -> Finding {
    let setting = |name: &str, unit: &str| {
        window.variable_number(name).map(|value| Evidence::new(name, value, unit, "SHOW GLOBAL VARIABLES"))
    };
    let per_s = |name: &str| {
        let source = format!("SHOW GLOBAL STATUS {name}");
        window.status_per_s(name).map(|pages| Evidence::new("pages read from disk", pages, "1/s", &source))
    };
    found
        .draft(&CAUSE, window)
        .why(
            "Each page that is read, moved in a list, changed or written takes one of these latches, and the page cleaners walk the \
             same lists.",
        )
        .evidence_if(setting(INSTANCES, ""))
        .evidence_if(setting("innodb_buffer_pool_size", "bytes"))
        .evidence_if(per_s("Innodb_buffer_pool_reads"))
        .remedies(remedies(window))
        .finding()
}

fn remedies(window: &Window) -> Vec<Remedy> {
    let pool_bytes = window.variable_number("innodb_buffer_pool_size");
    let mut remedies = Vec::new();
    if let Some(now_ms) = window.variable_number("innodb_old_blocks_time").filter(|now| *now < OLD_BLOCKS_MS)
    {
        remedies.push(Remedy {
            statement: format!("SET GLOBAL innodb_old_blocks_time = {OLD_BLOCKS_MS:.0}"),
            why: "A page that a scan reads is then not moved to the head of the list by its second access in a moment.".into(),
            dynamic: true,
            risk: "Pages that are used again within a second are not counted as used.".into(),
            undo: format!("SET GLOBAL innodb_old_blocks_time = {now_ms:.0}"),
        });
    }
    remedies.extend(more_instances(window, pool_bytes));
    remedies.push(Remedy {
        statement: pool_bytes.map_or_else(
            || "Raise innodb_buffer_pool_size, where the host has memory left".into(),
            |now| {
                format!(
                    "SET GLOBAL innodb_buffer_pool_size = {:.0}, where the host has that memory left",
                    now * 2.0
                )
            },
        ),
        why: "Fewer pages come and go, and each that does takes these latches several times.".into(),
        dynamic: true,
        risk: "Memory for the pool is taken from the host's page cache and from other programs.".into(),
        undo: pool_bytes
            .map_or_else(String::new, |now| format!("SET GLOBAL innodb_buffer_pool_size = {now:.0}")),
    });
    remedies.push(Remedy {
        statement: "Find the statements that read most pages (`spindoctor workload`), and give those that scan an index".into(),
        why: "A page that is not looked at takes no latch.".into(),
        dynamic: false,
        risk: "An index takes disk, and is kept up to date by each change.".into(),
        undo: "DROP INDEX".into(),
    });
    remedies
}

/// Twice the instances, where the server has them, each of a GiB or more.
fn more_instances(window: &Window, pool_bytes: Option<f64>) -> Option<Remedy> {
    let version = window.server.version?;
    // MariaDB 10.5 takes the variable and has one instance; 10.6 has no such variable.
    let has_them = !version.mariadb_at_least(10, 5, 0);
    let now = window.variable_number(INSTANCES).filter(|_| has_them)?;
    let pool_bytes = pool_bytes?;
    let most = (pool_bytes / LEAST_EACH).floor().min(MOST_INSTANCES);
    let to = (now * 2.0).min(most);
    (to > now).then(|| Remedy {
        statement: format!("{INSTANCES} = {to:.0} in the option file, and a restart"),
        why: format!(
            "Each instance has lists and latches of its own; {to:.0} of {} have {} each.",
            bytes(pool_bytes),
            bytes(pool_bytes / to)
        ),
        dynamic: false,
        risk: "The pool is cold after the restart, unless innodb_buffer_pool_dump_at_shutdown is ON.".into(),
        undo: format!("{INSTANCES} = {now:.0} in the option file, and a restart"),
    })
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait, Semaphores};
    use spindoctor_model::stack::ThreadState::{Lock, Running};
    use spindoctor_model::{InnodbStatus, Severity};

    use super::*;
    use crate::testing::{Build, answer};

    const LRU: &[&str] = &[
        "sync_array_wait_event",
        "TTASEventMutex::wait",
        "TTASEventMutex::spin_and_try_lock",
        "buf_page_make_young",
        "Buf_fetch::single_page",
        "row_search_mvcc",
        "dispatch_command",
    ];
    const WORKS: &[&str] = &["row_search_mvcc", "ha_innobase::index_read", "dispatch_command"];

    fn waiting(version: &str, sessions: u32, frames: &[&str]) -> Build {
        Build::busy(version).only_snapshots(&[(sessions, Lock, frames), (40 - sessions, Running, WORKS)])
    }

    pub(crate) fn fires() -> Window {
        waiting("8.0.36", 16, LRU)
            .variable(INSTANCES, "8")
            .variable("innodb_buffer_pool_size", "68719476736")
            .window()
    }

    /// As many sessions wait for the latch of one page.
    pub(crate) fn near_miss() -> Window {
        let frames = &[
            "sync_array_wait_event",
            "rw_lock_s_lock_spin",
            "Buf_fetch::single_page",
            "buf_page_get_gen",
            "dispatch_command",
        ];
        waiting("8.0.36", 16, frames).window()
    }

    pub(crate) fn missing() -> Window {
        waiting("8.0.36", 16, LRU).without_profile().window()
    }

    fn found(window: &Window) -> Finding {
        match CAUSE.evaluate(window, None) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_hash_counts_and_to_5_5_the_mutex_of_who_fetches_a_page() {
        let hash: &[&str] = &[
            "sync_array_wait_event",
            "rw_lock_s_lock_spin",
            "Buf_fetch::lookup",
            "Buf_fetch_normal::get",
            "dispatch_command",
        ];
        let fetch: &[&str] = &[
            "sync_array_wait_event",
            "mutex_spin_wait",
            "buf_page_get_gen",
            "row_search_for_mysql",
            "dispatch_command",
        ];
        let mariadb: &[&str] = &[
            "__lll_lock_wait",
            "___pthread_mutex_lock",
            "buf_LRU_get_free_block",
            "buf_read_page",
            "dispatch_command",
        ];
        let fires = |version: &str, frames: &[&str]| {
            matches!(evaluate(&waiting(version, 16, frames).window()), Outcome::Fired(_))
        };
        assert!(fires("8.0.36", hash) && fires("5.5.40", fetch) && fires("10.11.19-MariaDB", mariadb));
        assert!(!fires("5.6.51", fetch), "there it is a page's own");
    }

    #[test]
    fn instances_are_advised_where_the_server_has_them_and_the_pool_has_room() {
        let instances = |version: &str, now: &str, gib: u64| {
            let size = (gib << 30).to_string();
            let build = waiting(version, 16, LRU).variable(INSTANCES, now);
            let remedies = found(&build.variable("innodb_buffer_pool_size", &size).window()).remedies;
            let of_instances = remedies.into_iter().find(|one| one.statement.starts_with(INSTANCES));
            of_instances.map(|one| one.statement)
        };
        let to = |number: u32| Some(format!("{INSTANCES} = {number} in the option file, and a restart"));
        assert_eq!(instances("8.0.36", "8", 64), to(16));
        assert_eq!(instances("5.7.40", "8", 12), to(12));
        assert_eq!(instances("8.0.36", "8", 8), None, "a GiB each already");
        assert_eq!(instances("10.4.34-MariaDB", "8", 64), to(16));
        assert_eq!(instances("10.5.23-MariaDB", "8", 64), None);
        assert_eq!(instances("8.0.36", "64", 512), None);
    }

    #[test]
    fn few_samples_a_page_that_all_want_and_two_waiters_are_no_finding() {
        let spins = |samples: u32, frames: &[&str]| {
            evaluate(&Build::busy("8.0.36").cpu_samples(samples, 0.3, frames).window())
        };
        let list = &["ut_delay", "TTASEventMutex::spin_and_try_lock", "buf_LRU_add_block", "row_search_mvcc"];
        let page = &["ut_delay", "rw_lock_s_lock_spin", "Buf_fetch::single_page", "row_search_mvcc"];
        assert!(matches!(spins(1000, list), Outcome::Fired(_)));
        assert!(matches!(spins(50, list), Outcome::NotEnoughEvidence(_)));
        assert!(!matches!(spins(1000, page), Outcome::Fired(_)));
        let printed = |threads: u64| {
            Build::busy("8.0.36").without_profile().each(move |at_s, server, _| {
                let wait = |pthread_id| SemaphoreWait {
                    pthread_id,
                    kind: SemaphoreKind::Mutex,
                    name: "BUF_POOL_LRU_LIST".into(),
                    created_file: "buf0buf.cc".into(),
                    ..SemaphoreWait::default()
                };
                let semaphores =
                    Semaphores { waiters: (1..=threads).map(wait).collect(), ..Semaphores::default() };
                server.innodb_status = answer(at_s, InnodbStatus { semaphores, ..InnodbStatus::default() });
            })
        };
        assert_eq!(found(&printed(8).window()).severity, Severity::Critical);
        assert!(!matches!(CAUSE.evaluate(&printed(2).window(), None), Outcome::Fired(_)));
    }
}
