//! `temporary-table-spill`: statements write their temporary tables and sorts to disk.

use std::collections::HashMap;

use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::{Evidence, Finding, Profile, Remedy, SessionTime, TimeClass, Unavailable, Window};
use spindoctor_sql::{Mode, Token, lex};

use super::rows_read_waste;
use crate::below::{Below, mean_seen, threads_below};
use crate::draft::Draft;
use crate::seen_most::SeenMost;
use crate::sessions::{at_work, shortened};
use crate::since_start::{self, SinceStart};
use crate::sort_writes::SortWrites;
use crate::time_model::is_worth_a_finding;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "temporary-table-spill",
    title: "statements write their temporary tables and sorts to disk",
    what: "GROUP BY, DISTINCT, UNION and derived tables collect rows in a temporary table. One that becomes larger than \
           tmp_table_size (before MySQL 8.0 and on MariaDB also max_heap_table_size), or holds what cannot be in memory, is \
           copied to disk and goes on there. A sort that is larger than sort_buffer_size is written in parts, which are merged \
           in passes.",
    why_it_hurts: "Each row then goes through a storage engine with pages, latches and files instead of a table in memory, and a \
                   merge pass reads and writes all rows once more. The files push other things out of the page cache.",
    evidence: "Sessions below the functions that convert, write or read such a table, or merge a sort, and those that write the parts \
               of one, by their stacks: from 5 % of the session time and half a session on. Where a stripped MariaDB names none of these, those that write into a \
               temporary table count, as many of them as of the temporary tables are on disk. Beside it Created_tmp_disk_tables, Sort_merge_passes, and the \
               statement whose summary (events_statements_summary_by_digest) counts most of these tables.",
    looks_alike: "A statement that only reads too many rows is rows-read-waste. Temporary tables in memory cost CPU, and no \
                  setting helps. A tmpdir that is full is disk-full.",
    remedies: "An index in the order of GROUP BY or ORDER BY: no temporary table, no sort. Fewer and shorter columns: leave out \
               TEXT and BLOB. Else tmp_table_size (before MySQL 8.0 and on MariaDB with max_heap_table_size), or sort_buffer_size, \
               in the session that runs the statement. MySQL 8.0 and later hold all of them within temptable_max_ram.",
    safety: "Both are allocated for each session, and tmp_table_size for each temporary table: raised globally, many sessions \
             can take all memory. Set them in the session. All are dynamic.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/internal-temporary-tables.html",
        "https://dev.mysql.com/doc/refman/8.4/en/order-by-optimization.html",
        "https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables (tmp_table_size)",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::Cpu,
        TimeClass::Kernel,
        TimeClass::CpuQueue,
        TimeClass::CpuQuota,
        TimeClass::Running,
        TimeClass::Read,
        TimeClass::PageFault,
        TimeClass::Write,
        TimeClass::Mutex,
        TimeClass::Spin,
        TimeClass::Other,
    ],
    stacks: Stacks::Standing(SPILLS),
    rule: Rule::TimeOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Functions that work on a temporary table on disk, or on the parts of a sort.
const SPILLS: &[&str] = &[
    // sql/sql_tmp_table.cc, sql/sql_select.cc: the conversion
    "create_ondisk_from_heap",
    "create_myisam_from_heap",
    "create_internal_tmp_table_from_heap",
    "create_internal_tmp_table_from_heap2",
    // row/row0mysql.cc, row/row0ins.cc: the tables that InnoDB keeps for the server
    "ha_innobase::intrinsic_table_write_row",
    "row_insert_for_mysql_using_cursor",
    "row_ins_clust_index_entry_low_intrinsic",
    "row_update_for_mysql_using_cursor",
    "row_del_upd_for_mysql_using_cursor",
    "row_delete_for_mysql_using_cursor",
    "row_search_no_mvcc", // row/row0sel.cc: reads such a table, and no other
    // storage/maria: MariaDB's
    "maria_write",
    "ha_maria::write_row",
    // sql/filesort.cc, sql/uniques.cc: the parts of a sort
    "merge_many_buff",
    "merge_many_buffers",
    "merge_buffers",
    "merge_index",
    "write_keys",
];

/// The storage engine's interface, through which rows go into every temporary table (sql/handler.cc): where a server is stripped
/// it is what names the engine's own functions.
const WRITES: &[&str] = &["handler::ha_write_tmp_row"];

/// A buffer in which a sort of some ten thousand rows fits: the server's own default is a quarter of a megabyte, for short sorts. Chosen.
const SORT_BYTES: f64 = 8_388_608.0;

/// Snapshots below which a share means nothing.
const ENOUGH: usize = 10;

/// Tables and passes a second below which nobody need look. Chosen, not derived.
const EACH_PER_S: f64 = 0.1;

/// Tables on disk a second since the start or between two readings, and their part of all temporary tables, from which on they are worth a look: what is
/// rarer costs less than a CPU's hundredth. Chosen, not derived.
const ON_DISK_PER_S: f64 = 10.0;
const ON_DISK_RATIO: f64 = 0.25;

/// What one status says, or two.
fn of_status(window: &Window) -> Option<Finding> {
    const COUNTERS: [&str; 2] = ["Created_tmp_disk_tables", "Created_tmp_tables"];
    let since = SinceStart::or_between(window)?;
    let per_s = since.per_s(COUNTERS[0]).filter(|&per_s| per_s >= ON_DISK_PER_S)?;
    let ratio = since.count(COUNTERS[0])? / since.count(COUNTERS[1])?.max(1.0);
    let what =
        format!("{per_s:.0} temporary tables a second were made on disk, {:.0} % of all", ratio * 100.0);
    let remedy = since_start::look(
        "SELECT * FROM sys.statements_with_temp_tables LIMIT 10",
        "Few statements make most of them: an index in the order of their GROUP BY or ORDER BY needs none.",
    );
    (ratio >= ON_DISK_RATIO).then(|| since.finding(&CAUSE, &what, &COUNTERS, remedy))
}

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    examine(window, time).into()
}

fn examine(window: &Window, time: &SessionTime) -> Result<Option<Finding>, Unavailable> {
    let seconds = window.need_change(|sample| &sample.server.status)?.seconds;
    // A list that somebody gave may leave it out, which is not that there were none.
    if window.is_given() {
        window.need_growth("Created_tmp_disk_tables")?;
    }
    let per_s = |name| window.status_growth(name).map_or(0.0, |growth| growth / seconds);
    let (tables_per_s, passes_per_s) = (per_s("Created_tmp_disk_tables"), per_s("Sort_merge_passes"));
    let profile = window.profile.value().filter(|profile| profile.snapshots.len() >= ENOUGH);
    // A long sort writes its parts first, and is counted when it merges them.
    let writing = profile.map_or(0.0, written_by_sorts);
    if tables_per_s < EACH_PER_S && passes_per_s < EACH_PER_S && writing == 0.0 {
        return Ok(None);
    }
    let Some(profile) = profile else {
        return Err(window.profile.unavailable().cloned().unwrap_or_else(|| {
            Unavailable::because("no stacks were taken, so it is open what the temporary tables on disk cost")
        }));
    };
    let at_work = time.session_seconds_per_second.max(f64::MIN_POSITIVE);
    // Without a name it is not known which of the tables a row went to: as many as are on disk.
    let on_disk = tables_per_s / per_s("Created_tmp_tables").max(tables_per_s).max(f64::MIN_POSITIVE);
    let named = at_disk(profile);
    let share = (named.max(on_disk * threads_below(profile, WRITES)) / at_work).min(1.0);
    if !is_worth_a_finding(time, share) {
        return Ok(None);
    }
    let sessions = share * time.session_seconds_per_second;
    let worst = worst(window);
    let sorts = passes_per_s > tables_per_s || writing > named / 2.0;
    // No summary counts the merge passes of a statement, and where there is none, no tables: the list says which one is at work, and may
    // well be one that sorts or groups.
    let sorted = SeenMost::from_window(window, SeenMost::NAMED_RATIO)
        .filter(|seen| (sorts || worst.is_none()) && may_sort(window, &seen.statement));
    let statement = match (&sorted, worst) {
        (Some(seen), _) => Some(seen.statement.as_str()),
        (None, Some((statement, _))) if !sorts => Some(spindoctor_sql::server_digest(&statement.text)),
        (None, _) => None,
    };
    let in_runs = sorted.as_ref().map_or("", SeenMost::in_runs_of_event);
    let before = if sorts || worst.is_some() { ":" } else { "; seen most:" };
    let which =
        statement.map_or_else(String::new, |statement| format!("{before} {}{in_runs}", shortened(statement)));
    let (what, variable, purpose) = match sorts {
        true => (
            if passes_per_s < EACH_PER_S { "write sorts to disk" } else { "merge sorts on disk" },
            "sort_buffer_size",
            "A sort that fits into its buffer is written nowhere.",
        ),
        false => (
            "work on temporary tables on disk",
            "tmp_table_size",
            "A temporary table that fits is kept in memory.",
        ),
    };
    let bytes = window.variable_number(variable);
    Ok(Some(
        Draft::new(&CAUSE, share, format!("{sessions:.1} sessions {what}{which}"))
            .why(format!(
                "{tables_per_s:.1} temporary tables a second go to disk, with {passes_per_s:.1} merge passes of sorts: {:.0} % of the \
                 session time is spent there.",
                share * 100.0
            ))
            .evidence(Evidence::new("share of the session time", share, "ratio", "stacks").expected("< 0.05"))
            .evidence(
                Evidence::new("temporary tables on disk", tables_per_s, "1/s", "SHOW GLOBAL STATUS Created_tmp_disk_tables")
                    .series(window.status_rate_series("Created_tmp_disk_tables")),
            )
            .evidence(
                Evidence::new("merge passes of sorts", passes_per_s, "1/s", "SHOW GLOBAL STATUS Sort_merge_passes")
                    .series(window.status_rate_series("Sort_merge_passes")),
            )
            .evidence_if(bytes.map(|bytes| Evidence::new(variable, bytes, "bytes", "SHOW GLOBAL VARIABLES")))
            .evidence_if(worst.map(|(statement, tables)| {
                Evidence::new(
                    &format!("temporary tables on disk of {}", shortened(&statement.text)),
                    tables / seconds,
                    "1/s",
                    "events_statements_summary_by_digest",
                )
            }))
            .remedy_if(sorted.as_ref().and_then(SeenMost::disable_event))
            .remedy(Remedy {
                statement: match statement {
                    Some(statement) => format!(
                        "EXPLAIN {}: Using temporary or Using filesort there asks for an index in the order of GROUP BY or ORDER BY",
                        shortened(statement)
                    ),
                    None => "Find the statement (`spindoctor workload`), and give it an index in the order of its GROUP BY or \
                             ORDER BY"
                        .into(),
                },
                why: "Rows that come in order need no temporary table and no sort.".into(),
                dynamic: true,
                risk: "An index takes space, and each change of its columns costs more.".into(),
                undo: "ALTER TABLE ... DROP INDEX ...".into(),
            })
            .remedy_if(bytes.map(|bytes| Remedy {
                statement: match sorts {
                    true => format!(
                        "SET SESSION {variable} = {:.0} before the statement; more, until Sort_merge_passes grows no more",
                        (bytes * 4.0).max(SORT_BYTES)
                    ),
                    false => format!("SET SESSION {variable} = {:.0} before the statement", bytes * 4.0),
                },
                why: purpose.into(),
                dynamic: true,
                risk: format!(
                    "Memory for each session that does so; not globally, where many do at once.{}",
                    if !sorts && has_texts_on_disk(window) { ON_DISK_AT_ANY_SIZE } else { "" }
                ),
                undo: format!("SET SESSION {variable} = {bytes:.0}"),
            }))
            .explains(&[rows_read_waste::CAUSE.name])
            .finding(),
    ))
}

/// Of a larger tmp_table_size, where the engine of temporary tables in memory has no long texts.
const ON_DISK_AT_ANY_SIZE: &str = " It does not help where the temporary table has TEXT or BLOB columns: this server makes such a table \
                                   on disk at any size. Leave them out, or group by a short hash of them.";

/// True where a temporary table with TEXT or BLOB columns is on disk at any size: with the engine MEMORY, which MariaDB has, and MySQL
/// had alone before TempTable took them (MySQL Reference Manual, Internal Temporary Table Use in MySQL: 8.0.13).
fn has_texts_on_disk(window: &Window) -> bool {
    let is_new = window.server.version.is_some_and(|version| version.mysql_at_least(8, 0, 13));
    let is_of_memory = window
        .variable("internal_tmp_mem_storage_engine")
        .is_some_and(|engine| engine.eq_ignore_ascii_case("memory"));
    !is_new || is_of_memory
}

/// Threads that write the parts of a sort, on average.
fn written_by_sorts(profile: &Profile) -> f64 {
    let writes = SortWrites::new(profile);
    mean_seen(profile, |one| writes.has(one))
}

/// Threads that work on a temporary table on disk, or on the parts of a sort, on average.
fn at_disk(profile: &Profile) -> f64 {
    let (spills, writes) = (Below::new(profile, SPILLS), SortWrites::new(profile));
    threads_below(profile, SPILLS) + mean_seen(profile, |one| writes.has(one) && !spills.has(one))
}

/// States of a session that sorts rows (sql/filesort.cc, sql/sql_executor.cc).
const SORTING: [&str; 2] = ["Creating sort index", "Sorting result"];

/// True where a statement's text asks for a sort, or its state in a list of threads is one of a sort.
fn may_sort(window: &Window, statement: &str) -> bool {
    let lexed = lex(statement, Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    let asks_for_it = code.iter().any(|token| token.is_one_of(&["distinct", "union"]))
        || code.windows(2).any(|two| two[0].is_one_of(&["order", "group"]) && two[1].is("by"));
    let is_it = |text: &str| spindoctor_sql::digest(text) == statement;
    let mut lists = window.samples.iter().filter_map(|sample| sample.server.threads.value());
    asks_for_it
        || lists.any(|threads| {
            at_work(threads).any(|thread| {
                SORTING.contains(&thread.state.as_str()) && thread.statement.as_deref().is_some_and(is_it)
            })
        })
}

/// The statement that made most temporary tables on disk within the window, and how many.
fn worst(window: &Window) -> Option<(&StatementDigest, f64)> {
    let change = window.change(|sample| &sample.server.digests)?;
    let before: HashMap<(&str, &str), u64> = change
        .first
        .iter()
        .map(|digest| ((digest.schema.as_str(), digest.digest.as_str()), digest.disk_temporary_tables))
        .collect();
    let grown = change.last.iter().filter(|one| !spindoctor_sql::is_about_the_server(&one.schema, &one.text));
    let grown = grown.filter_map(|digest| {
        let first = before.get(&(digest.schema.as_str(), digest.digest.as_str()))?;
        let grew = digest.disk_temporary_tables.checked_sub(*first).filter(|&grew| grew > 0)?;
        Some((digest, grew as f64))
    });
    grown.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::stack::ThreadState::{DiskWrite, Running};

    use super::*;
    use crate::testing::Build;

    const SPILL: &[&str] =
        &["pwrite64", "row_insert_for_mysql_using_cursor", "end_write", "dispatch_command", "do_command"];
    const READS: &[&str] = &["row_search_mvcc", "end_send", "dispatch_command", "do_command"];
    const STATEMENT: &str = "SELECT `c` , COUNT ( * ) FROM `sbtest1` GROUP BY `c`";

    fn at(spilling: u32) -> Window {
        Build::busy("8.0.36")
            .counter("Created_tmp_disk_tables", 4.0)
            .counter("Sort_merge_passes", 0.0)
            .variable("tmp_table_size", "16777216")
            .digest(STATEMENT, 4.0, 900_000.0, 1000.0, 1000.0)
            .each(|at_s, server, _| {
                if let Reading::Available { value: digests, .. } = &mut server.digests {
                    let ours = digests.iter_mut().filter(|digest| digest.text == STATEMENT);
                    ours.for_each(|digest| digest.disk_temporary_tables = (at_s * 4.0) as u64);
                }
            })
            .only_snapshots(&[(spilling, DiskWrite, SPILL), (2, Running, READS)])
            .window()
    }

    pub(crate) fn fires() -> Window {
        at(6)
    }

    /// As many temporary tables go to disk, and nobody is seen at it.
    pub(crate) fn near_miss() -> Window {
        at(0)
    }

    pub(crate) fn missing() -> Window {
        Build::waiting(6, "executing").counter("Created_tmp_disk_tables", 4.0).window()
    }

    #[test]
    fn a_status_that_somebody_gave_without_the_counter_does_not_say_that_there_are_none() {
        let mut window = Build::busy("8.0.36").words("Created_tmp_disk_tables", "").window();
        window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        let missing = examine(&window, &SessionTime::default()).unwrap_err();
        assert!(missing.because.contains("Created_tmp_disk_tables"), "{missing:?}");
    }

    #[test]
    fn the_statement_and_a_size_for_its_session_are_named() {
        let diagnosis = crate::diagnose(&fires());
        let finding = &diagnosis.findings[0];
        assert!(finding.headline.contains("GROUP BY `c`"), "{}", finding.headline);
        assert_eq!(
            finding.remedies[1].statement,
            "SET SESSION tmp_table_size = 67108864 before the statement"
        );
    }

    #[test]
    fn without_a_summary_the_statement_seen_most_is_named_and_no_size_is_said_to_hold_texts() {
        let groups = "SELECT body, COUNT(*) FROM comments GROUP BY body";
        let of = |version: &str, engine: &str| {
            let window = Build::busy(version)
                .counter("Created_tmp_disk_tables", 4.0)
                .counter("Sort_merge_passes", 0.0)
                .variable("tmp_table_size", "16777216")
                .variable("internal_tmp_mem_storage_engine", engine)
                .sessions(move |_| vec![crate::testing::session(20, "Query", "Sending data", groups)])
                .only_snapshots(&[(6, DiskWrite, SPILL), (2, Running, READS)]);
            let findings = crate::diagnose(&window.window()).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
        };
        let finding = of("10.5.23-MariaDB", "");
        assert!(finding.headline.contains("; seen most: SELECT body, COUNT(*)"), "{}", finding.headline);
        for (version, engine, is_said) in [
            ("10.5.23-MariaDB", "", true),
            ("5.7.44", "", true),
            ("8.0.12", "TempTable", true),
            ("8.0.36", "MEMORY", true),
            ("8.0.36", "TempTable", false),
        ] {
            let risk = &of(version, engine).remedies[1].risk;
            assert_eq!(risk.contains("TEXT or BLOB columns"), is_said, "{version} {engine}: {risk}");
        }
    }

    #[test]
    fn of_sorts_the_statement_that_is_at_work_is_named_and_a_buffer_that_holds_one() {
        let merges = &["pwrite64", "merge_many_buff", "filesort", "dispatch_command", "do_command"];
        let sorts = "SELECT c, pad FROM sbtest1 ORDER BY c, pad";
        let window = Build::busy("8.0.31")
            .counter("Created_tmp_disk_tables", 0.0)
            .counter("Sort_merge_passes", 8.0)
            .variable("sort_buffer_size", "32768")
            .sessions(move |_| vec![crate::testing::session(20, "Query", "Creating sort index", sorts)])
            .only_snapshots(&[(4, DiskWrite, merges), (2, Running, READS)]);
        let findings = crate::diagnose(&window.window()).findings;
        let finding = findings.iter().find(|finding| finding.cause == CAUSE.name).unwrap();
        assert!(finding.headline.ends_with("ORDER BY c, pad"), "{}", finding.headline);
        let statement = &finding.remedies[1].statement;
        assert!(statement.starts_with("SET SESSION sort_buffer_size = 8388608 "), "{statement}");
    }

    #[test]
    fn of_sorts_a_statement_that_sorts_nothing_is_not_named() {
        let of = |statement: &'static str, state: &'static str| {
            let merges = &["pwrite64", "merge_many_buff", "filesort", "dispatch_command", "do_command"];
            let window = Build::busy("8.0.31")
                .counter("Created_tmp_disk_tables", 0.0)
                .counter("Sort_merge_passes", 8.0)
                .sessions(move |_| vec![crate::testing::session(20, "Query", state, statement)])
                .only_snapshots(&[(4, DiskWrite, merges), (2, Running, READS)]);
            let findings = crate::diagnose(&window.window()).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap().headline
        };
        let changes = "UPDATE orders SET n = n + 1 WHERE id = 7";
        assert!(of(changes, "updating").ends_with("merge sorts on disk"), "{}", of(changes, "updating"));
        for (statement, state) in [
            ("SELECT a FROM t UNION SELECT b FROM u", "executing"),
            ("SELECT c, COUNT(*) FROM t GROUP BY c", "executing"),
            ("SELECT c FROM sorted_view", "Creating sort index"),
        ] {
            let headline = of(statement, state);
            assert!(headline.contains("merge sorts on disk: SELECT"), "{headline}");
        }
    }

    #[test]
    fn a_sort_that_writes_its_parts_is_counted_before_it_merges_them() {
        let of = |frames: &[&str]| {
            let sorts = "SELECT c, pad FROM sbtest1 ORDER BY c, pad";
            let window = Build::busy("8.0.31")
                .counter("Created_tmp_disk_tables", 0.0)
                .counter("Sort_merge_passes", 0.0)
                .variable("sort_buffer_size", "262144")
                .sessions(move |_| vec![crate::testing::session(20, "Query", "Creating sort index", sorts)])
                .only_snapshots(&[(4, DiskWrite, frames), (2, Running, READS)]);
            let findings = crate::diagnose(&window.window()).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name)
        };
        let parts =
            &["write", "my_write", "my_b_flush_io_cache", "filesort", "dispatch_command", "do_command"];
        let finding = of(parts).expect("it is found");
        assert!(finding.headline.contains("write sorts to disk: SELECT c, pad"), "{}", finding.headline);
        assert!(finding.remedies[1].statement.contains("sort_buffer_size"), "{:?}", finding.remedies);
        // A page that is written so that the sort can read another, and a commit.
        let page = &[
            "pwrite64",
            "os_file_write_func",
            "buf_flush_page",
            "buf_LRU_get_free_block",
            "buf_read_page",
            "row_search_mvcc",
            "filesort",
            "dispatch_command",
            "do_command",
        ];
        assert_eq!(of(page), None);
        let commit =
            &["write", "my_write", "MYSQL_BIN_LOG::ordered_commit", "trans_commit", "dispatch_command"];
        assert_eq!(of(commit), None);
    }

    #[test]
    fn a_server_without_names_counts_as_many_rows_as_there_are_tables_on_disk() {
        let of = |on_disk_per_s, all_per_s| {
            let stands = &["mariadbd+0x12", "handler::ha_write_tmp_row", "dispatch_command", "do_command"];
            let window = Build::busy("10.11.8-MariaDB")
                .counter("Created_tmp_disk_tables", on_disk_per_s)
                .counter("Created_tmp_tables", all_per_s)
                .counter("Sort_merge_passes", 0.0)
                .only_snapshots(&[(6, DiskWrite, stands), (2, Running, READS)]);
            let findings = crate::diagnose(&window.window()).findings;
            findings.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.score)
        };
        let (all, half) = (of(40.0, 40.0).unwrap(), of(20.0, 40.0).unwrap());
        assert!((all / half - 2.0).abs() < 0.01 && all > 0.5, "{all} {half}");
        assert_eq!(of(0.05, 40.0), None);
    }
}
