//! `undo-tablespaces`: more rollback segments, where commits wait for them and the host has several NUMA nodes.

use spindoctor_model::{Change, Proposal, Remedy, Unavailable, Window};

use super::Family;
use spindoctor_model::number::{bytes, whole};

use super::advice::{Advice, Draft as _, Examined, leave};
use crate::causes::rollback_segment_contention::{CAUSE, MOST_SEGMENTS, MUTEXES, VARIABLE};
use crate::latch_time::LatchTime;
use crate::rank;

/// The family.
pub(super) const FAMILY: Family = Family {
    name: "undo-tablespaces",
    title: "how many rollback segments commits share",
    cures: &[CAUSE.name],
    propose,
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What a plan and `tune --only` call the number of active undo tablespaces: no variable, but files that `tune --apply` makes
/// where it is named.
pub const UNDO_TABLESPACES: &str = "undo_tablespaces";

const MAX_SIZE: &str = "innodb_max_undo_log_size";
const TRUNCATE: &str = "innodb_undo_log_truncate";

/// All that InnoDB takes, the two implicit ones among them (fsp0types.h, FSP_MAX_UNDO_TABLESPACES).
const MOST_TABLESPACES: f64 = 127.0;

const MIB: f64 = 1024.0 * 1024.0;

/// A tablespace may outgrow its limit by its largest step before it is truncated (fsp0fsp.cc).
const LARGEST_STEP_BYTES: f64 = 256.0 * MIB;

/// Share of the free disk that undo may take, all tablespaces at their limit: the rest is for data and logs.
const SHARE_OF_DISK: f64 = 0.25;

/// What so many undo tablespaces take at most, bytes, each truncated beyond `limit_bytes` (`innodb_max_undo_log_size`).
pub fn undo_bytes_at_most(tablespaces: f64, limit_bytes: f64) -> f64 {
    tablespaces * (limit_bytes + LARGEST_STEP_BYTES)
}

/// What undo may take of so many free bytes where it lies.
pub fn undo_budget_bytes(free_bytes: f64) -> f64 {
    free_bytes * SHARE_OF_DISK
}

/// Smaller limits truncate all the time: eight times the size that a tablespace begins with.
const LEAST_SIZE_BYTES: f64 = 128.0 * MIB;

fn propose(examined: &Examined<'_>) -> Result<Advice, Unavailable> {
    let version = examined.version()?;
    let window = examined.window;
    if version.is_mariadb() {
        return leave(
            "MariaDB makes undo tablespaces when a data directory is made, not while the server runs",
        );
    }
    if !version.mysql_at_least(8, 0, 14) {
        let segments = window.variable_number(VARIABLE).unwrap_or(MOST_SEGMENTS);
        return leave(format!("{segments:.0} rollback segments; more than 128 came with MySQL 8.0.14"));
    }
    let time = LatchTime::from_window(window, &MUTEXES).map_err(|missing| {
        missing.unlock(
            "run spindoctor as root (it takes stacks), or UPDATE performance_schema.setup_instruments SET \
             ENABLED='YES', TIMED='YES' WHERE NAME LIKE '%undo_space_rseg_mutex'",
        )
    })?;
    let Some(time) = time else { return leave("the server is nearly idle") };
    let (share, reading) = (time.share(), time.reading(&MUTEXES));
    let nodes = window.latest(|s| &s.host.numa).map(Vec::len);
    let is_lowered = window.variable_number(VARIABLE).is_some_and(|segments| segments < MOST_SEGMENTS);
    // The published gain came from two sockets and more; on one node next to nothing was gained by more segments than the server begins
    // with, so there the waits alone must be critical.
    let is_likely = is_lowered || nodes.is_some_and(|nodes| nodes > 1);
    let enough = if is_likely { rank::WARNING_FROM } else { rank::CRITICAL_FROM };
    if !time.matters() || share < enough {
        return leave(match nodes {
            Some(1) => format!("{reading}, on one NUMA node"),
            Some(nodes) => format!("{reading}, on {nodes} NUMA nodes"),
            None => reading,
        });
    }
    let segments = window.need_variable(VARIABLE)?;
    if segments < MOST_SEGMENTS
        && let Some(change) = examined.change(VARIABLE, format!("{MOST_SEGMENTS:.0}"))
    {
        let proposal = Proposal::setting(
            vec![change],
            format!("{reading}; each undo tablespace has only {segments:.0} of them."),
            "Segments that were made stay in the files; transactions stop using them when the value goes down.",
        );
        return Ok(Advice::Propose(vec![scored(proposal, examined, share)]));
    }
    more_tablespaces(examined, share, &reading, segments, nodes)
}

fn more_tablespaces(
    examined: &Examined<'_>,
    share: f64,
    reading: &str,
    segments: f64,
    nodes: Option<usize>,
) -> Result<Advice, Unavailable> {
    let window = examined.window;
    let now = window.status("Innodb_undo_tablespaces_total").unwrap_or(2.0);
    let limit = window.need_variable(MAX_SIZE)?;
    let free = free_for_undo(window)?;
    if window.variable(TRUNCATE).is_some_and(|on| matches!(on, "OFF" | "0")) {
        return leave(format!(
            "{reading}, but {TRUNCATE} is OFF: undo tablespaces grow without a bound, and more of them would fill the disk"
        ));
    }
    if now >= MOST_TABLESPACES {
        return leave(format!("{reading}, with all {now:.0} undo tablespaces there can be"));
    }
    let (wanted, size) = fit(undo_budget_bytes(free), limit);
    if wanted < 2.0 * now {
        return leave(format!(
            "{reading}, but {} of free disk has room for {wanted:.0} undo tablespaces of {}: there are {now:.0}",
            bytes(free),
            bytes(LEAST_SIZE_BYTES)
        ));
    }
    let change = examined.change(MAX_SIZE, format!("{size:.0}"));
    // A name of its own: what was made before, by anybody, keeps its name and its file.
    let name = |number: f64| format!("undo_{}_{number:03.0}", window.start.strftime("%Y%m%d%H%M%S"));
    let (first, last) = (name(now + 1.0), name(wanted));
    let smaller = change
        .as_ref()
        .map_or(String::new(), |change| format!("SET GLOBAL {MAX_SIZE} = {}; then ", change.to));
    let back = change
        .as_ref()
        .map_or(String::new(), |change| format!(", then SET GLOBAL {MAX_SIZE} = {}", change.from));
    let made = Change {
        variable: UNDO_TABLESPACES.to_owned(),
        from: format!("{now:.0}"),
        to: format!("{wanted:.0}"),
    };
    let most = undo_bytes_at_most(wanted, size);
    let proposal = Proposal {
        changes: std::iter::once(made).chain(change).collect(),
        remedy: Remedy {
            statement: format!(
                "{smaller}CREATE UNDO TABLESPACE {first} ADD DATAFILE '{first}.ibu', and so on up to {last}"
            ),
            why: format!(
                "{reading}{}. {now:.0} undo tablespaces have {} segments; {wanted:.0} have {}, and each is shared by \
                 fewer transactions.",
                nodes.map_or(String::new(), |nodes| format!(", on {nodes} NUMA nodes")),
                whole(now * segments),
                whole(wanted * segments)
            ),
            dynamic: true,
            risk: "Disk: a tablespace grows to its limit and a step beyond, and is truncated only when no transaction \
                   needs its undo; one long transaction keeps them all."
                .into(),
            undo: format!(
                "ALTER UNDO TABLESPACE {first} SET INACTIVE; when INNODB_TABLESPACES says it is empty, DROP UNDO \
                 TABLESPACE {first}; so with each{back}"
            ),
        },
        cost: format!(
            "{} of disk where undo lies, of {} free; more while one long transaction keeps them from being truncated",
            bytes(most),
            bytes(free)
        ),
        ..Proposal::default()
    };
    Ok(Advice::Propose(vec![scored(proposal, examined, share)]))
}

/// After the finding that it cures, where that was found.
fn scored(proposal: Proposal, examined: &Examined<'_>, share: f64) -> Proposal {
    match examined.finding_cured_by(&FAMILY) {
        Some(finding) => proposal.after(finding),
        None => Proposal { score: Some(share), ..proposal },
    }
}

/// Free bytes where undo tablespaces lie: `innodb_undo_directory` may be another file system than the data.
fn free_for_undo(window: &Window) -> Result<f64, Unavailable> {
    let data = window.need(|s| &s.host.data_directory)?;
    let undo = window.variable("innodb_undo_directory").unwrap_or("./");
    let is_with_data = matches!(undo, "" | "." | "./" | ".\\")
        || undo.trim_end_matches('/') == data.path.trim_end_matches('/');
    let free = if is_with_data { Some(data.free_bytes) } else { data.undo_free_bytes };
    free.map(|free| free as f64).ok_or_else(|| {
        Unavailable::because(format!("the room in innodb_undo_directory ({undo}) could not be read"))
            .unlock("run spindoctor as root on the server's host")
    })
}

/// How many tablespaces, and the size at which each is truncated, that fit a budget of disk: all of them where that
/// is possible, smaller before fewer.
fn fit(budget: f64, limit: f64) -> (f64, f64) {
    let least = LEAST_SIZE_BYTES.min(limit);
    let size = (budget / MOST_TABLESPACES - LARGEST_STEP_BYTES).min(limit);
    if size >= least {
        // A size that somebody set stays to the byte; one that is computed is whole MiB.
        return (MOST_TABLESPACES, if size == limit { limit } else { (size / MIB).floor() * MIB });
    }
    ((budget / (least + LARGEST_STEP_BYTES)).floor().min(MOST_TABLESPACES), least)
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::host::{DataDirectory, NumaNode};
    use spindoctor_model::mysql::WaitSummary;
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::{Build, answer, session};

    const GIB: u64 = 1 << 30;

    /// 64 sessions that update, this share of their time in waits for rollback segments.
    fn updating(nodes: u32, share: f64, free_bytes: u64) -> Build {
        Build::busy("8.0.24")
            .sessions(|_| {
                (20..84).map(|id| session(id, "Query", "updating", "UPDATE t SET k = k + 1")).collect()
            })
            .gauge("Innodb_undo_tablespaces_total", 2.0)
            .variable(VARIABLE, "128")
            .variable(MAX_SIZE, "1073741824")
            .each(move |at_s, server, host| {
                let wait = |event: &str, share: f64| WaitSummary {
                    event: event.into(),
                    count: (at_s * 1e5) as u64,
                    total_ns: (at_s * 64.0 * share * 1e9) as u64,
                };
                let trx_sys = "wait/synch/mutex/innodb/trx_sys_mutex";
                server.waits = answer(
                    at_s,
                    vec![wait(trx_sys, 0.3), wait("wait/synch/mutex/innodb/undo_space_rseg_mutex", share)],
                );
                let node = |id: u32| NumaNode {
                    id,
                    cpus: (id * 32..(id + 1) * 32).collect(),
                    total_bytes: 128 * GIB,
                    free_bytes: 64 * GIB,
                    server_bytes: None,
                };
                host.numa = answer(at_s, (0..nodes).map(node).collect());
                host.data_directory = answer(
                    at_s,
                    DataDirectory {
                        path: "/var/lib/mysql".into(),
                        total_bytes: 2 * free_bytes,
                        free_bytes,
                        ..DataDirectory::default()
                    },
                );
            })
    }

    /// The published host: four nodes of 32 CPUs.
    pub(in crate::proposals) fn fires() -> Window {
        updating(4, 0.25, 400 * GIB).window()
    }

    pub(in crate::proposals) fn near_miss() -> Window {
        updating(4, 0.03, 400 * GIB).window()
    }

    pub(in crate::proposals) fn missing() -> Window {
        Build::busy("8.0.24").without_profile().window()
    }

    fn proposed(window: &Window) -> Option<Proposal> {
        let plan = super::super::plan(window);
        plan.proposals.into_iter().find(|proposal| proposal.family == FAMILY.name)
    }

    #[test]
    fn the_published_host_gets_all_tablespaces_within_a_quarter_of_its_disk() {
        let proposal = proposed(&fires()).unwrap();
        let made = &proposal.changes[0];
        assert_eq!(
            (made.variable.as_str(), made.from.as_str(), made.to.as_str()),
            (UNDO_TABLESPACES, "2", "127")
        );
        assert_eq!(proposal.changes[1].variable, MAX_SIZE);
        let size: f64 = proposal.changes[1].to.parse().unwrap();
        assert!(127.0 * (size + LARGEST_STEP_BYTES) <= 100.0 * 1024.0 * MIB, "{size}");
        assert!(127.0 * (size + MIB + LARGEST_STEP_BYTES) > 100.0 * 1024.0 * MIB, "{size}");
        assert!(
            proposal.remedy.statement.ends_with("_127") && !proposal.remedy.statement.contains(" undo_127"),
            "{}",
            proposal.remedy.statement
        );
        assert!(
            proposal.remedy.why.contains("2 undo tablespaces have 256 segments; 127 have 16,256"),
            "{proposal:?}"
        );
        assert_eq!(proposal.not_tried, None);
    }

    #[test]
    fn a_large_disk_keeps_the_size_and_a_small_one_gets_fewer_or_none() {
        let large = proposed(&updating(4, 0.25, 4096 * GIB).window()).unwrap();
        assert_eq!(large.changes.len(), 1);
        let small = proposed(&updating(4, 0.25, 30 * GIB).window()).unwrap();
        assert!(small.remedy.statement.ends_with("_020"), "{}", small.remedy.statement);
        assert_eq!(proposed(&updating(4, 0.25, 4 * GIB).window()), None);
    }

    #[test]
    fn room_is_that_of_the_disk_where_undo_lies_and_without_truncation_there_is_no_bound() {
        let elsewhere = |undo_free: Option<u64>| {
            updating(4, 0.25, 4096 * GIB).variable("innodb_undo_directory", "/undo/").each(
                move |_, _, host| {
                    if let spindoctor_model::Reading::Available { value, .. } = &mut host.data_directory {
                        value.undo_free_bytes = undo_free;
                    }
                },
            )
        };
        let small = proposed(&elsewhere(Some(30 * GIB)).window()).unwrap();
        assert!(small.remedy.statement.ends_with("_020"), "{}", small.remedy.statement);
        assert!(small.cost.contains("of 30"), "{}", small.cost);
        let left = |window: &Window| {
            let left = super::super::plan(window).left;
            left.into_iter().find(|left| left.family == FAMILY.name).unwrap()
        };
        let unknown = left(&elsewhere(None).window());
        assert!(!unknown.examined && unknown.because.contains("/undo/"), "{unknown:?}");
        let endless = left(&updating(4, 0.25, 4096 * GIB).variable(TRUNCATE, "OFF").window());
        assert!(endless.examined && endless.because.contains("without a bound"), "{endless:?}");
    }

    #[test]
    fn tablespaces_get_names_that_nothing_made_before_has() {
        let statement = |start: &str| {
            let mut window = updating(4, 0.25, 4096 * GIB).window();
            window.start = start.parse().unwrap();
            proposed(&window).unwrap().remedy.statement
        };
        let first = statement("2026-07-01T10:00:00Z");
        assert!(first.contains("CREATE UNDO TABLESPACE undo_20260701100000_003 ADD"), "{first}");
        assert_ne!(first, statement("2026-07-01T10:00:01Z"));
    }

    #[test]
    fn on_one_node_only_critical_waits_count_and_stacks_show_them_too() {
        assert_eq!(proposed(&updating(1, 0.15, 400 * GIB).window()), None);
        assert!(proposed(&updating(1, 0.3, 400 * GIB).window()).is_some());
        let waiter: &[&str] =
            &["futex_wait", "TTASEventMutex::wait", "trx_undo_assign_undo", "dispatch_command"];
        let by_stacks = updating(2, 0.0, 400 * GIB)
            .each(|at_s, server, _| server.waits = answer(at_s, Vec::new()))
            .only_snapshots(&[
                (10, ThreadState::Lock, waiter),
                (30, ThreadState::Running, &["row_upd", "dispatch_command"]),
            ])
            .window();
        let proposal = proposed(&by_stacks).unwrap();
        assert!(proposal.remedy.why.starts_with("25.0 % of the sessions' time"), "{}", proposal.remedy.why);
    }

    #[test]
    fn a_mutex_whose_instrument_is_off_is_not_a_mutex_that_nobody_waits_for() {
        // Only trx_sys is instrumented; half of the threads stand in trx_undo_assign_undo.
        let trx_sys_only = || {
            updating(2, 0.0, 400 * GIB).each(|at_s, server, _| {
                let trx_sys = WaitSummary {
                    event: "wait/synch/mutex/innodb/trx_sys_mutex".into(),
                    count: (at_s * 1e5) as u64,
                    total_ns: (at_s * 19e9) as u64,
                };
                server.waits = answer(at_s, vec![trx_sys]);
            })
        };
        let waiter: &[&str] =
            &["futex_wait", "TTASEventMutex::wait", "trx_undo_assign_undo", "dispatch_command"];
        let stands = trx_sys_only()
            .only_snapshots(&[
                (20, ThreadState::Lock, waiter),
                (20, ThreadState::Running, &["row_upd", "dispatch_command"]),
            ])
            .window();
        let reading = proposed(&stands).unwrap().remedy.why;
        assert!(
            reading.starts_with("50.0 % of the sessions' time") && reading.contains("(stacks)"),
            "{reading}"
        );
        let plan = super::super::plan(&trx_sys_only().without_profile().window());
        let missing = plan.left.iter().find(|left| left.family == FAMILY.name && !left.examined).unwrap();
        assert!(missing.because.contains("none was counted"), "{}", missing.because);
    }

    #[test]
    fn segments_that_were_taken_away_come_back_before_tablespaces_are_made() {
        let proposal = proposed(&updating(4, 0.25, 400 * GIB).variable(VARIABLE, "8").window()).unwrap();
        assert_eq!(proposal.remedy.statement, "SET GLOBAL innodb_rollback_segments = 128");
        assert_eq!(proposal.not_tried, None);
    }
}
