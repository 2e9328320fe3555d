//! `write-io-bound`: sessions wait for writes to disk.

use spindoctor_model::number::whole;
use spindoctor_model::page_cache::FileKind;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Evidence, KnownBy, Remedy, SessionTime, TimeClass, Window};

use crate::disk_users::BusyDisk;
use crate::rank::WARNING_FROM;
use crate::sort_writes::SortWrites;
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "write-io-bound",
    title: "sessions wait for writes to disk",
    what: "A page that was changed is written by a background thread, and for as long as that write takes nobody else may change \
           it: a session that wants to waits for the disk. The more often the same pages are written, and the slower the disk, \
           the more sessions meet a page on its way. Other sessions write files themselves: tables of MyISAM and Aria, the \
           result of SELECT INTO OUTFILE, logs of statements.",
    why_it_hurts: "A write to a network disk takes milliseconds, to one whose queue is full seconds: the pages that are changed \
                   most are those that are wanted most. Who waits keeps its row locks.",
    evidence: "Sessions that wait for the latch of a page while pages are written, from one snapshot of the stacks to the next: 5 % \
               of the session time and half a session or more on average. Or sessions that write a file themselves, by the \
               kernel's state of their threads: a fifth of the session time. Where InnoDB's functions have no names: a fifth of the \
               session time in waits without one, while ten pages a second and more are written because \
               innodb_max_dirty_pages_pct is below 10. Shown beside it: pages written a second, dirty pages, \
               and the variables that say when pages are written; of sorts, by the functions that write, tmpdir and the passes that \
               merge their parts; and the disk below that folder where it is busy, with the part of it that the server's process has and \
               the other programs that read and write most.",
    looks_alike: "Commits that wait for a sync are commit-sync-bound. A page that has to be written before another can be read is \
                  free-page-wait. A redo log that is full makes everybody wait for page writes: checkpoint-stall. Temporary tables \
                  are temporary-table-spill, a file that grows is file-extension-stall, a disk that hardly answers at all is \
                  storage-stalled. Each of these stands first where it is found.",
    remedies: "Fewer writes of the same page: innodb_max_dirty_pages_pct at its default of 90, with the low-water mark below it, and \
               a redo log that holds an hour of changes, so that a page is changed many times before it is written once. \
               innodb_io_capacity no higher than what the disk does. A disk with more writes a second, or one that others do not \
               fill: backups, logs, another server.",
    safety: "innodb_max_dirty_pages_pct and innodb_io_capacity are dynamic, and set back the same way. More dirty pages make a \
             shutdown longer; how long a crash recovery takes depends on the size of the redo log.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-buffer-pool-flushing.html",
        "https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-page-flushing",
        "storage/innobase/buf/buf0flu.cc, buf_flush_page: the page's latch is held until the write has ended",
    ],
    costs: Costs::Waits(&[TimeClass::Write]),
    // Who waits for the page keeps the latches that it has, and others queue behind its wish for the next.
    explains_time: &[TimeClass::Write, TimeClass::Latch],
    stacks: Stacks::Nothing,
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Below this share of the session time who writes does what a database does: as of reads (read-io-bound).
const SHARE: f64 = 0.2;

/// A server that writes fewer pages a second than this has no waits for them that anybody notices. Chosen, not derived: the
/// slowest disks that servers are run on do some tens of writes a second.
const PAGES_PER_S: f64 = 10.0;

/// Below this bound pages are written soon after they were changed, again and again. Chosen: the defaults are 75 and 90.
const LOW_BOUND_PCT: f64 = 10.0;

/// An I/O is under way on the disk half of the time at least where sessions wait for writes. Chosen: most of what they write may lie in
/// the page cache before.
const UNDER_WAY: f64 = 0.5;

/// True where most of the threads that write do so for a sort.
fn sorts_write(window: &Window) -> bool {
    let Some(profile) = window.profile.value() else { return false };
    let of_sorts = SortWrites::new(profile);
    let writes = || profile.observations.iter().filter(|one| one.state == ThreadState::DiskWrite);
    2 * writes().filter(|one| of_sorts.has(one)).count() > writes().count()
}

/// What sorts write: readings, and where else they could write it.
fn of_sorts(window: &Window) -> (Vec<Evidence>, Remedy) {
    let passes = window.status_per_s("Sort_merge_passes").map(|per_s| {
        Evidence::new("merge passes of sorts", per_s, "1/s", "SHOW GLOBAL STATUS Sort_merge_passes")
    });
    let folder = window
        .variable("tmpdir")
        .map(|folder| Evidence::new("tmpdir", folder.to_owned(), "", "SHOW GLOBAL VARIABLES"));
    let buffer = window
        .variable_number("sort_buffer_size")
        .map(|bytes| Evidence::new("sort_buffer_size", bytes, "bytes", "SHOW GLOBAL VARIABLES"));
    let remedy = Remedy {
        statement: "Set tmpdir to a folder on a faster disk in the option file, and restart; before that, an index in the order of \
                    the ORDER BY, or SET SESSION sort_buffer_size in the session that sorts"
            .into(),
        why: "The parts of a sort are then written somewhere quick, or nowhere.".into(),
        dynamic: false,
        risk: "A larger buffer is memory for each session that sorts: not globally.".into(),
        undo: window.variable("tmpdir").map_or_else(String::new, |folder| format!("tmpdir = {folder}")),
    };
    (passes.into_iter().chain(folder).chain(buffer).collect(), remedy)
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    // Who writes does what a database does; who waits for a page that another writes does not.
    let behind_another =
        time.classes.iter().any(|one| one.class == TimeClass::Write && one.known_by == KnownBy::Inferred);
    let least = if behind_another { WARNING_FROM } else { SHARE };
    let written_per_s = window.status_per_s("Innodb_buffer_pool_pages_flushed");
    let bound_pct = window.variable_number("innodb_max_dirty_pages_pct");
    let is_flushing = written_per_s.is_some_and(|per_s| per_s >= PAGES_PER_S);
    // Where InnoDB's functions have no names, a bound that has pages written all the time says what the waits are.
    let is_kept_clean = is_flushing && bound_pct.is_some_and(|pct| pct < LOW_BOUND_PCT);
    let named = InClasses::from_share(time, &[TimeClass::Write], least);
    let nameless = InClasses::without_a_name(time).filter(|_| is_kept_clean);
    let is_nameless = named.is_none();
    let Some(waits) = named.or(nameless) else {
        let unread = match InClasses::without_a_name(time) {
            // What says what they are was not read.
            Some(_) if written_per_s.is_none() => window.missing(|sample| &sample.server.status),
            Some(_) if bound_pct.is_none() => window.missing(|sample| &sample.server.variables),
            _ => window
                .missing(|sample| &sample.host.threads)
                .filter(|_| InClasses::are_vague(time) && is_flushing),
        };
        return unread.map_or(Outcome::Clear, Outcome::NotEnoughEvidence);
    };
    let are_sorts = !behind_another && !is_nameless && sorts_write(window);
    // Of sessions that write files of their own the pages say nothing, where next to none are written.
    let are_pages = !are_sorts && (behind_another || is_nameless || is_flushing);
    let pages_per_s = written_per_s.filter(|_| are_pages);
    let how_many = pages_per_s
        .map_or_else(String::new, |per_s| format!(": {} pages a second are written", whole(per_s)));
    let writes_to = if are_sorts { FileKind::Temporary } else { FileKind::Data };
    let disk = BusyDisk::from_window(window, UNDER_WAY, &[writes_to]);
    let others = disk.as_ref().map_or_else(String::new, BusyDisk::in_headline);
    let of_sorts = are_sorts.then(|| of_sorts(window));
    let status = |name| window.status(name);
    let dirty = (|| {
        Some(
            status("Innodb_buffer_pool_pages_dirty")?
                / status("Innodb_buffer_pool_pages_total").filter(|&all| all > 0.0)?,
        )
    })();
    let capacity = window.variable_number("innodb_io_capacity");
    let (what, why) = match behind_another {
        _ if is_nameless => (
            "most likely for pages that are being written to disk",
            "It is inferred: the functions in which they wait have no names, and a low innodb_max_dirty_pages_pct has pages written \
             all the time. A page that is written cannot be changed until the write has ended.",
        ),
        true => (
            "for pages that are being written to disk",
            "A page that is written cannot be changed until the write has ended.",
        ),
        false if are_sorts => (
            "for their own writes of sorts to temporary files",
            "A sort that is larger than its buffer is written to files in tmpdir in parts, which are merged in passes, and the disk \
             takes its time. Pages of InnoDB are no part of that.",
        ),
        false => {
            ("for their own writes to disk", "They write files themselves, and the disk takes its time.")
        }
    };
    Outcome::Fired(
        waits
            .draft(&CAUSE, format!("{:.1} sessions wait {what}{how_many}{others}", waits.sessions))
            .why(format!("{why}{}", disk.as_ref().map_or_else(String::new, BusyDisk::in_words)))
            .evidence_all(of_sorts.iter().flat_map(|(readings, _)| readings.clone()))
            .evidence_if(pages_per_s.map(|per_s| {
                Evidence::new("pages written", per_s, "1/s", "SHOW GLOBAL STATUS Innodb_buffer_pool_pages_flushed")
                    .series(window.status_rate_series("Innodb_buffer_pool_pages_flushed"))
            }))
            .evidence_if(dirty.filter(|_| are_pages).map(|dirty| {
                Evidence::new("dirty pages of the pool", dirty, "ratio", "SHOW GLOBAL STATUS Innodb_buffer_pool_pages_dirty")
            }))
            .evidence_if(
                bound_pct.filter(|_| are_pages).map(|pct| Evidence::new("innodb_max_dirty_pages_pct", pct, "%", "SHOW GLOBAL VARIABLES")),
            )
            .evidence_if(
                capacity.filter(|_| are_pages).map(|pages| Evidence::new("innodb_io_capacity", pages, "1/s", "SHOW GLOBAL VARIABLES")),
            )
            .evidence_all(disk.iter().flat_map(BusyDisk::evidence))
            .remedies(disk.iter().flat_map(BusyDisk::remedies))
            .remedy_if(of_sorts.map(|(_, remedy)| remedy))
            .remedy_if(bound_pct.filter(|&pct| are_pages && pct < LOW_BOUND_PCT).map(|pct| Remedy {
                statement: "SET GLOBAL innodb_max_dirty_pages_pct = 90".into(),
                why: "Pages that are changed often are then written once for many changes.".into(),
                dynamic: true,
                risk: "A shutdown writes all pages that are dirty then, and takes longer.".into(),
                undo: format!("SET GLOBAL innodb_max_dirty_pages_pct = {pct}"),
            }))
            .remedy(Remedy {
                statement: "iostat -x 1 and `pidstat -d 1` on the server's host: who writes to that disk, and how long a write \
                            takes; `spindoctor workload` shows which statements change most"
                    .into(),
                why: "Backups, logs and other programs can be moved to another disk; the rest wants fewer writes or a faster one."
                    .into(),
                dynamic: true,
                risk: "Looking is safe.".into(),
                undo: String::new(),
            })
            .finding(),
    )
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState::{DiskWrite, Lock};

    use super::*;
    use crate::testing::Build;

    const RUNS_OUT: &[&str] =
        &["write", "my_write", "select_export::send_data", "dispatch_command", "do_command"];
    const LOCKED: &[&str] = &["lock_wait", "row_search_mvcc", "dispatch_command", "do_command"];
    const WANTS: &[&str] = &[
        "os_event::wait_low",
        "rw_lock_x_lock_func",
        "Buf_fetch::single_page",
        "btr_cur_search_to_nth_level",
        "row_upd_step",
        "dispatch_command",
        "do_command",
    ];
    const WRITES: &[&str] = &[
        "pwrite64",
        "os_file_write_func",
        "buf_flush_page",
        "buf_flush_page_coordinator_thread",
        "start_thread",
    ];

    fn at(count: u32) -> Window {
        Build::busy("8.0.36").only_snapshots(&[(count, DiskWrite, RUNS_OUT), (16, Lock, LOCKED)]).window()
    }

    pub(crate) fn fires() -> Window {
        at(40)
    }

    /// Few of them write.
    pub(crate) fn near_miss() -> Window {
        at(2)
    }

    /// A remote server that writes many pages: its list has no word for this wait.
    pub(crate) fn missing() -> Window {
        Build::waiting(40, "executing").counter("Innodb_buffer_pool_pages_flushed", 400.0).window()
    }

    #[test]
    fn who_waits_for_a_page_that_another_writes_is_found_from_a_twentieth_on_with_the_bound_that_is_to_blame()
    {
        let window = Build::busy("8.0.36")
            .variable("innodb_max_dirty_pages_pct", "0")
            .counter("Innodb_buffer_pool_pages_flushed", 40.0)
            .only_snapshots(&[(4, Lock, WANTS), (16, Lock, LOCKED), (1, DiskWrite, WRITES)])
            .window();
        let findings = crate::diagnose(&window).findings;
        let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).expect("it is found");
        assert!(
            finding.headline.contains("that are being written to disk: 40 pages a second"),
            "{}",
            finding.headline
        );
        let first = &finding.remedies[0];
        assert_eq!(first.statement, "SET GLOBAL innodb_max_dirty_pages_pct = 90");
        assert_eq!(first.undo, "SET GLOBAL innodb_max_dirty_pages_pct = 0");
    }

    #[test]
    fn sorts_that_write_are_named_with_their_folder_and_no_word_is_said_of_pages() {
        const MERGES: &[&str] = &[
            "write",
            "my_write",
            "my_b_flush_io_cache",
            "merge_many_buff",
            "filesort",
            "dispatch_command",
            "do_command",
        ];
        let of = |frames: &[&str]| {
            let build = Build::busy("8.0.36")
                .variable("tmpdir", "/srv/tmp")
                .variable("innodb_max_dirty_pages_pct", "90")
                .counter("Sort_merge_passes", 8.0)
                .counter("Innodb_buffer_pool_pages_flushed", 0.0)
                .only_snapshots(&[(6, DiskWrite, frames)]);
            let build = crate::disk_users::tests::beside_a_copy(build);
            let window = crate::disk_users::tests::disks(build, (0.0, 1.0), &[("sdb", 0.0, 25.0)]).window();
            let findings = crate::diagnose(&window).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).expect("it is found")
        };
        let sorts = of(MERGES);
        assert!(
            sorts.headline.contains("their own writes of sorts to temporary files"),
            "{}",
            sorts.headline
        );
        assert!(sorts.evidence.iter().any(|one| one.reading == "tmpdir"));
        assert!(sorts.why.contains("most likely sdb (below /srv/tmp)"), "{}", sorts.why);
        let others = of(RUNS_OUT);
        assert!(others.headline.contains("wait for their own writes to disk"), "{}", others.headline);
        for finding in [sorts, others] {
            assert!(finding.headline.ends_with("of what disk sdb does"), "{}", finding.headline);
            assert!(finding.remedies[0].statement.contains("iotop -oP"));
            let of_pages = |one: &Evidence| one.reading.contains("pages") || one.reading.contains("dirty");
            assert!(!finding.evidence.iter().any(of_pages), "{:?}", finding.evidence);
        }
    }
}
