//! `read-io-bound`: sessions wait for pages that are read from disk.

use std::collections::BTreeMap;

use spindoctor_model::number::whole;
use spindoctor_model::page_cache::FileKind;
use spindoctor_model::{Evidence, Finding, Remedy, SessionTime, TimeClass, TroubleKind, Window};

use crate::disk_users::BusyDisk;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::sessions::at_work;
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "read-io-bound",
    title: "sessions wait for pages that are read from disk",
    what: "A page that is not in the buffer pool is read from its file, and the session waits for it. Where the working set is \
           larger than the pool, or a scan pushes the working set out, each statement waits for some reads, and the disk does \
           as many of them a second as it can and no more.",
    why_it_hurts: "A read from a network disk takes a millisecond, from a busy one ten or a hundred; from memory it takes a \
                   microsecond.",
    evidence: "Sessions that wait in a read by their stacks or by the kernel's state of their threads, a fifth of the session \
               time and half a session or more on average; Innodb_buffer_pool_reads a second against \
               Innodb_buffer_pool_read_requests; the size of the pool; the tables that the statements at work name.\n\n\
               And of the disk below the data directory, or where that is unknown (a volume, a loop device, an overlay) the only one \
               that is busy and does what the server asks for: how busy, how long a read takes, and how much of what it does the \
               server's process has read and written: below a half, others are named first, and the programs that read and write \
               most by /proc/*/io.",
    looks_alike: "A server that was just started reads until its pool is warm. Reads of statements that need not read so much \
                  are rows-read-waste. A disk that hardly answers at all is storage-stalled. Reads on the way to a dive into \
                  an index by the optimizer are index-dive-waste.",
    remedies: "A larger innodb_buffer_pool_size where memory is left; better indexes, so that fewer pages are touched; a disk \
               with more operations a second, or one that others use less. After a restart innodb_buffer_pool_dump_at_shutdown and \
               _load_at_startup warm the pool.",
    safety: "innodb_buffer_pool_size is dynamic from MySQL 5.7.5 and MariaDB 10.2.2 on. Raising it takes memory from the host's \
             page cache: leave room for connections and for the system, or the host swaps.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-buffer-pool-resize.html",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-preload-buffer-pool.html",
    ],
    costs: Costs::Waits(&[TimeClass::Read]),
    explains_time: &[TimeClass::Read],
    stacks: Stacks::Standing(&["buf_read_page", "buf_read_page_low", "buf_wait_for_read", "fil_io"]),
    rule: Rule::TimeOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Below this share of the session time reads are what a database does.
const SHARE: f64 = 0.2;

/// Of the sessions that wait for a read so many reads are under way on the disk at least: half, as two counts by different clocks are
/// no nearer. Chosen.
const UNDER_WAY: f64 = 0.5;

/// Tables that are named. Chosen, not derived.
const NAMED: usize = 3;

/// The tables that the statements at work name first, each with its share of these statements, the largest first.
fn tables(window: &Window) -> Vec<(String, f64)> {
    let lists = window.all(|sample| &sample.server.threads);
    let own = window.server.own_connection_id;
    let threads =
        lists.iter().flat_map(|(_, threads)| at_work(threads)).filter(|thread| thread.connection_id != own);
    let named: Vec<String> =
        threads.filter_map(|thread| spindoctor_sql::first_table(thread.statement.as_deref()?)).collect();
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for table in &named {
        *counted.entry(table).or_default() += 1;
    }
    let share = |count: usize| count as f64 / named.len() as f64;
    let mut tables: Vec<(String, f64)> =
        counted.into_iter().map(|(table, count)| (table.to_owned(), share(count))).collect();
    tables.sort_by(|a, b| b.1.total_cmp(&a.1));
    tables
}

/// What `iostat -x` shows: that the disk has no time left, not who waits.
fn of_capture(window: &Window) -> Option<Finding> {
    let why = "A disk that is busy all the time and keeps each request for milliseconds has a queue, and each read waits in it.";
    let remedy = Remedy {
        statement: "Find the statements that read most (`spindoctor workload`), and who else reads from that disk (`pidstat -d 1`); \
                    raise innodb_buffer_pool_size where the host has memory left"
            .into(),
        why: "Reads that are not done need no disk.".into(),
        dynamic: true,
        risk: "Memory for the pool is taken from the host's page cache and from other programs.".into(),
        undo: "SET GLOBAL innodb_buffer_pool_size to what it was".into(),
    };
    logged::printed(window, &CAUSE, TroubleKind::BusyReading, WARNING_FROM, why, remedy)
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_share(time, &[TimeClass::Read], SHARE) else {
        let is_vague = time.classes.iter().any(|one| one.class == TimeClass::Running && one.share >= SHARE);
        return match window.missing(|sample| &sample.host.threads) {
            Some(missing) if is_vague => Outcome::NotEnoughEvidence(missing),
            _ => Outcome::Clear,
        };
    };
    let reads_per_s = window.status_per_s("Innodb_buffer_pool_reads");
    let requests_per_s = window.status_per_s("Innodb_buffer_pool_read_requests");
    let pool_bytes = window.variable_number("innodb_buffer_pool_size");
    let tables = tables(window);
    let disk = BusyDisk::from_window(window, UNDER_WAY * waits.sessions, &[FileKind::Data]);
    let others = disk.as_ref().map_or_else(String::new, BusyDisk::in_headline);
    let of_what = match tables.first() {
        Some((table, share)) if *share > 0.5 => format!(", most in statements on {table}"),
        _ => String::new(),
    };
    let how_many =
        reads_per_s.map_or_else(String::new, |per_s| format!(": {} pages a second are read", whole(per_s)));
    Outcome::Fired(
        waits
            .draft(&CAUSE, format!("{:.1} sessions wait for reads from disk{of_what}{how_many}{others}", waits.sessions))
            .why(format!(
                "What they need is not in the buffer pool.{}",
                disk.as_ref().map_or_else(String::new, BusyDisk::in_words)
            ))
            .evidence_if(reads_per_s.map(|per_s| {
                Evidence::new("pages read from disk", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_buffer_pool_reads")
                    .series(window.status_rate_series("Innodb_buffer_pool_reads"))
            }))
            .evidence_if(reads_per_s.zip(requests_per_s).filter(|(_, requests)| *requests > 0.0).map(
                |(reads, requests)| {
                    Evidence::new("pages found in the buffer pool", 1.0 - (reads / requests).min(1.0), "ratio", "SHOW GLOBAL STATUS")
                },
            ))
            .evidence_all(tables.iter().take(NAMED).map(|(table, share)| {
                Evidence::new(&format!("sessions at work on {table}"), *share, "ratio", "thread list")
            }))
            .evidence_if(
                pool_bytes.map(|bytes| Evidence::new("innodb_buffer_pool_size", bytes, "bytes", "SHOW GLOBAL VARIABLES")),
            )
            .evidence_all(disk.iter().flat_map(BusyDisk::evidence))
            .remedies(disk.iter().flat_map(BusyDisk::remedies))
            .remedy(Remedy {
                statement: "Raise innodb_buffer_pool_size where the host has memory left; else find the statements that read \
                            most (`spindoctor workload`)"
                    .into(),
                why: "A page in memory is a thousand times nearer.".into(),
                dynamic: true,
                risk: "Memory for the pool is taken from the host's page cache and from other programs.".into(),
                undo: pool_bytes
                    .map_or_else(String::new, |bytes| format!("SET GLOBAL innodb_buffer_pool_size = {bytes:.0}")),
            })
            .finding(),
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::Build;

    fn at(count: u32) -> Window {
        let frames: &[&str] =
            &["pread64", "buf_read_page_low", "row_search_mvcc", "dispatch_command", "do_command"];
        let runs: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];
        Build::busy("8.0.36")
            .only_snapshots(&[
                (count, ThreadState::DiskRead, frames),
                (16, ThreadState::Lock, &["lock_wait", runs[1], runs[2]]),
            ])
            .window()
    }

    pub(crate) fn fires() -> Window {
        at(40)
    }

    /// Few of them read.
    pub(crate) fn near_miss() -> Window {
        at(2)
    }

    #[test]
    fn the_table_that_most_statements_at_work_are_on_is_named() {
        let sessions = |_| {
            let on =
                |id, statement: &'static str| crate::testing::session(id, "Query", "executing", statement);
            vec![
                on(20, "SELECT c FROM orders WHERE id = 7"),
                on(21, "SELECT c FROM orders WHERE id = 9"),
                on(22, "SELECT c FROM items"),
            ]
        };
        let window = Build::busy("8.0.36").sessions(sessions).window();
        assert_eq!(tables(&window)[0].0, "orders");
        assert_eq!(
            tables(
                &Build::busy("8.0.36").remote().no_session(spindoctor_model::NoSessionKind::Silent).window()
            ),
            []
        );
    }

    #[test]
    fn who_else_reads_from_the_disk_is_looked_for_before_the_pool_is_raised() {
        let on_disks = |server, of_disk| {
            let frames: &[&str] = &["pread64", "buf_read_page_low", "dispatch_command", "do_command"];
            let build = Build::busy("8.0.36").only_snapshots(&[(6, ThreadState::DiskRead, frames)]);
            let window =
                crate::disk_users::tests::disks(build, (server, 0.0), &[("sdb", of_disk, 0.0)]).window();
            let findings = crate::diagnose(&window).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).expect("it is found")
        };
        let shared = on_disks(2.5, 6.5);
        assert!(shared.headline.ends_with("others have 62 % of what disk sdb does"), "{}", shared.headline);
        assert!(shared.remedies[0].statement.contains("iotop -oP"), "{}", shared.remedies[0].statement);
        assert!(shared.remedies.last().unwrap().statement.contains("innodb_buffer_pool_size"));
        let own = on_disks(6.0, 6.5);
        assert!(own.remedies[0].statement.contains("innodb_buffer_pool_size"));
        assert!(own.why.contains("The disk is most likely sdb"), "{}", own.why);
    }

    /// A remote server.
    pub(crate) fn missing() -> Window {
        Build::waiting(40, "executing").window()
    }
}
