//! A server that still starts, by stacks of its threads that somebody captured: what its main thread is at.

use spindoctor_model::stack::{Observation, StackSource};
use spindoctor_model::{Evidence, Finding, Remedy, Window};

use super::CAUSE;
use crate::below::is_below;
use crate::draft::Draft;
use crate::rank::WARNING_FROM;
use crate::spin_samples;
use crate::time_model::tables;

/// Functions below which InnoDB starts (srv/srv0start.cc, handler/ha_innodb.cc, sql/mysqld.cc).
const START: &[&str] = &[
    "srv_start",
    "innobase_start_or_create_for_mysql",
    "innobase_init",
    "innodb_init",
    "innobase_ddse_dict_init",
    "init_server_components",
];

/// What takes long at a start.
struct Step {
    /// How its functions begin.
    begins: &'static [&'static str],
    /// True where a server that serves clients is in these functions, too: one of [`START`] must then stand below.
    is_common: bool,
    doing: &'static str,
    why: &'static str,
    statement: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        begins: &[
            "recv_recovery_",
            "recv_scan_log_recs",
            "recv_group_scan_log_recs",
            "recv_apply_hashed_log_recs",
            "recv_sys_t::apply",
        ],
        is_common: false,
        doing: "it recovers from a crash: it reads the redo log and applies it",
        why: "It was not shut down cleanly. What the redo log has and the data files have not is read page by page, and takes as long as the \
              log is large and the disk is slow.",
        statement: "Wait, and follow the error log, which says how far it is (Applying a batch, To recover, percents); iostat -x 5 shows whether \
                    the disk is the limit",
    },
    Step {
        begins: &[
            "dict_check_tablespaces_and_store_max_id",
            "dict_check_sys_tables",
            "Validate_files::",
            "Tablespace_dirs::",
        ],
        is_common: false,
        doing: "it opens the file of each table to check it",
        why: "At a start InnoDB compares its dictionary with the files: each is opened and its first page is read. Hundreds of thousands of \
              tables, or a file system where opening a file is slow, take minutes.",
        statement: "Wait; strace -c -f -p PID for ten seconds shows how long an open takes, and ls in the data folder how many files there are. \
                    For the next start: fewer tables and partitions, a clean shutdown (to 5.7 the check is that of a crash), and \
                    innodb_validate_tablespace_paths = OFF (MySQL 8.0.21 and later)",
    },
    Step {
        begins: &["fil_ibd_open", "fil_open_single_table_tablespace"],
        is_common: true,
        doing: "it opens the files of tables",
        why: "A start that opens many files takes as long as the file system needs for each.",
        statement: "Wait; strace -c -f -p PID for ten seconds shows how long an open takes",
    },
];

/// None where a thread serves a client, and of CPU samples.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let profile = window.profile.value().filter(|profile| window.is_given() && profile.is_of_a_text())?;
    let is_in = |seen: &Observation, functions: &[&str]| is_below(profile, seen, functions);
    let serves = |seen: &Observation| is_in(seen, tables::CONNECTION) || is_in(seen, tables::STATEMENT);
    if profile.source == StackSource::Cpu || profile.observations.iter().any(serves) {
        return None;
    }
    let at = |step: &'static Step| {
        let function = |seen: &Observation| {
            let is_start = !step.is_common || is_in(seen, START);
            spin_samples::names(profile, seen)
                .find(|name| is_start && step.begins.iter().any(|begin| name.starts_with(begin)))
        };
        Some((step, profile.observations.iter().find_map(function)?))
    };
    let (step, function) = STEPS.iter().find_map(at)?;
    Some(
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!("The server is starting, and lets nobody in yet: {}", step.doing),
        )
        .why(step.why)
        .evidence(Evidence::new("its main thread is in", function, "", "stacks"))
        .remedy(Remedy {
            statement: step.statement.into(),
            why: "Who ends it now begins again with the next start.".into(),
            dynamic: true,
            risk: "Looking is safe; strace slows the server while it looks.".into(),
            undo: String::new(),
        })
        .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState::{Condition, DiskRead, NetworkIdle};

    use super::*;
    use crate::testing::Build;

    fn said(threads: &[(u32, spindoctor_model::stack::ThreadState, &[&str])]) -> Option<String> {
        let window = Build::busy("5.7.44").only_snapshots(threads).captured().window();
        let found = crate::diagnose(&window).findings;
        found.into_iter().find(|finding| finding.cause == CAUSE.name).map(|finding| finding.headline)
    }

    #[test]
    fn the_main_thread_of_a_server_that_starts_says_what_it_is_at() {
        let checks: &[&str] = &[
            "open64",
            "os_file_create_simple_func",
            "fil_ibd_open",
            "dict_check_tablespaces_and_store_max_id",
            "mysqld_main",
        ];
        let recovers: &[&str] =
            &["os_event::wait_low", "recv_recovery_from_checkpoint_start_func", "mysqld_main"];
        let own: &[&str] = &["io_getevents", "io_handler_thread"];
        let headline = said(&[(1, DiskRead, checks), (8, Condition, own)]).unwrap();
        assert!(headline.ends_with("it opens the file of each table to check it"), "{headline}");
        let headline = said(&[(1, Condition, recovers)]).unwrap();
        assert!(headline.contains("recovers from a crash"), "{headline}");
    }

    #[test]
    fn a_server_that_serves_clients_does_not_start() {
        let opens: &[&str] = &["open64", "fil_ibd_open", "dict_load_table"];
        let rests: &[&str] = &["poll", "handle_connections_sockets", "mysqld_main"];
        assert_eq!(said(&[(1, DiskRead, opens), (1, NetworkIdle, rests)]), None);
        let serves: &[&str] = &["vio_read", "do_command"];
        let checks: &[&str] = &["Validate_files::check"];
        assert_eq!(said(&[(1, Condition, checks), (1, NetworkIdle, serves)]), None);
    }
}
