//! What a statement's time goes into, from the stack of the thread that executes it: parsing, optimizing, executing,
//! reading, locks, commit, network.
//!
//! In: a profile and an observation of it. Out: its [`Phase`], or none where the thread executes no statement. Waits count
//! before the step that they are in: a thread that waits for a lock while it optimizes is in locks.

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, StackEnd, ThreadState};

/// What a statement's time goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The text becomes a tree.
    Parsing,
    /// Tables are opened, names resolved, privileges checked, the plan is made, index dives included.
    Optimizing,
    /// Rows are found, changed, sorted, summed up.
    Executing,
    /// A page is read from a file.
    Reading,
    /// A lock of any kind is waited for.
    Locks,
    /// The transaction is made durable: redo log, binary log, their syncs.
    Commit,
    /// Rows are sent to the client, or it is read from.
    Network,
}

impl Phase {
    /// Every phase, in the order of a statement's life.
    pub const ALL: [Self; 7] = [
        Self::Parsing,
        Self::Optimizing,
        Self::Executing,
        Self::Reading,
        Self::Locks,
        Self::Commit,
        Self::Network,
    ];

    /// `optimizing`
    pub fn name(self) -> &'static str {
        match self {
            Self::Parsing => "parsing",
            Self::Optimizing => "optimizing",
            Self::Executing => "executing",
            Self::Reading => "reading",
            Self::Locks => "locks",
            Self::Commit => "commit",
            Self::Network => "network",
        }
    }
}

/// Functions of MySQL 5.5 to 9.7 and MariaDB 10.3 to 11.8 below which a thread executes a statement of a client, or of a
/// replica's source.
const STATEMENT: &[&str] = &[
    "dispatch_command",
    // appliers: what is called for each event, and not what waits for the next one (sql/log_event.cc, sql/rpl_replica.cc,
    // sql/rpl_rli_pdb.cc; sql/slave.cc, sql/rpl_parallel.cc in MariaDB)
    "Query_log_event::do_apply_event",
    "Rows_log_event::do_apply_event",
    "Slave_worker::slave_worker_exec_event",
    "Xid_apply_log_event::do_apply_event",
    "Xid_log_event::do_apply_event",
    "apply_event_and_update_pos",
    "rpt_handle_event",
];

/// Functions, and the phase of a thread below them. The outermost that is known decides between the steps of a statement's
/// life; a read, a commit or the network below it decides before those.
const FUNCTIONS: &[(&str, Phase)] = &[
    // sql/sql_parse.cc, sql/sql_class.cc, sql/sql_yacc.yy
    ("parse_sql", Phase::Parsing),
    ("THD::sql_parser", Phase::Parsing),
    ("MYSQLparse", Phase::Parsing),
    ("my_sql_parser_parse", Phase::Parsing),
    ("ORAparse", Phase::Parsing),
    ("compute_digest_hash", Phase::Parsing),
    // sql/sql_base.cc, sql/sql_resolver.cc, sql/sql_optimizer.cc, sql/opt_range.cc, sql/sql_select.cc
    ("open_tables", Phase::Optimizing),
    ("open_tables_for_query", Phase::Optimizing),
    ("open_and_lock_tables", Phase::Optimizing),
    ("lock_tables", Phase::Optimizing),
    ("check_table_access", Phase::Optimizing),
    ("Sql_cmd_dml::prepare", Phase::Optimizing),
    ("Sql_cmd_select::prepare_inner", Phase::Optimizing),
    ("JOIN::prepare", Phase::Optimizing),
    ("JOIN::optimize", Phase::Optimizing),
    ("JOIN::optimize_inner", Phase::Optimizing),
    ("Query_block::prepare", Phase::Optimizing),
    ("Query_expression::prepare", Phase::Optimizing),
    ("Query_expression::optimize", Phase::Optimizing),
    ("SELECT_LEX::prepare", Phase::Optimizing),
    ("SELECT_LEX::optimize", Phase::Optimizing),
    ("SELECT_LEX_UNIT::prepare", Phase::Optimizing),
    ("SELECT_LEX_UNIT::optimize", Phase::Optimizing),
    ("st_select_lex_unit::prepare", Phase::Optimizing),
    ("test_quick_select", Phase::Optimizing),
    ("SQL_SELECT::test_quick_select", Phase::Optimizing),
    // sql/handler.cc, sql/transaction.cc, sql/binlog.cc, log0write.cc
    ("trans_commit", Phase::Commit),
    ("trans_commit_stmt", Phase::Commit),
    ("trans_commit_implicit", Phase::Commit),
    ("ha_commit_trans", Phase::Commit),
    ("ha_commit_low", Phase::Commit),
    ("MYSQL_BIN_LOG::commit", Phase::Commit),
    ("MYSQL_BIN_LOG::ordered_commit", Phase::Commit),
    ("Xid_apply_log_event::do_apply_event", Phase::Commit),
    ("Xid_log_event::do_apply_event", Phase::Commit),
    ("log_write_up_to", Phase::Commit),
    // buf0rea.cc, buf0buf.cc, fil0fil.cc, os0file.cc
    ("buf_read_page", Phase::Reading),
    ("buf_read_page_low", Phase::Reading),
    ("buf_wait_for_read", Phase::Reading),
    ("buf_read_ahead_linear", Phase::Reading),
    ("os_file_read_func", Phase::Reading),
    ("os_file_read_page", Phase::Reading),
    // sql-common/net_serv.cc, vio/viosocket.c
    ("net_write_packet", Phase::Network),
    ("net_real_write", Phase::Network),
    ("net_flush", Phase::Network),
    ("vio_write", Phase::Network),
    ("vio_read", Phase::Network),
    ("vio_io_wait", Phase::Network),
    ("my_net_read", Phase::Network),
];

/// What the threads of a profile do, phase by phase.
#[derive(Debug)]
pub struct Phases<'a> {
    profile: &'a Profile,
    /// By place in [`Profile::stacks`], what a stack was found to mean.
    stacks: HashMap<u32, OfStack>,
}

/// What a stack says for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OfStack {
    executes: bool,
    /// A read, a commit or the network.
    waits: Option<Phase>,
    step: Option<Phase>,
    is_empty: bool,
}

impl<'a> Phases<'a> {
    /// Of this profile.
    pub fn from_profile(profile: &'a Profile) -> Self {
        Self { profile, stacks: HashMap::new() }
    }

    /// What the statement's time goes into at this observation; None where the thread executes none.
    ///
    /// A thread that runs, and whose stack is not known, executes a statement where its client asked for something: the
    /// process list said so. Then it is executing.
    pub fn phase(&mut self, seen: &Observation) -> Option<Phase> {
        let profile = self.profile;
        let stack = *self.stacks.entry(seen.stack).or_insert_with(|| of_stack(profile, seen.stack));
        if !stack.executes {
            let asked = seen.activity.and_then(|place| profile.activities.get(place as usize));
            let is_asked = asked.is_some_and(|activity| activity.command.as_deref() == Some("Query"));
            let runs = matches!(seen.state, ThreadState::Running | ThreadState::Runnable);
            return (stack.is_empty && is_asked && runs).then_some(Phase::Executing);
        }
        Some(match (seen.state, stack.waits) {
            (ThreadState::Lock, Some(Phase::Commit)) => Phase::Commit,
            (ThreadState::Lock, _) => Phase::Locks,
            (ThreadState::DiskRead, _) => Phase::Reading,
            (ThreadState::NetworkIdle | ThreadState::Epoll, _) => Phase::Network,
            (ThreadState::Sync, _) => Phase::Commit,
            // MariaDB 10.6 on: the answer waits until another thread has made the transaction durable
            // (net_real_write, thd->async_state.wait_for_pending_ops). A socket is waited for by poll.
            (ThreadState::Condition, Some(Phase::Network)) => Phase::Commit,
            (_, Some(waits)) => waits,
            (_, None) => stack.step.unwrap_or(Phase::Executing),
        })
    }
}

fn of_stack(profile: &Profile, place: u32) -> OfStack {
    let mut meaning = OfStack { executes: false, waits: None, step: None, is_empty: true };
    let Some(stack) = profile.stacks.get(place as usize) else { return meaning };
    meaning.is_empty = stack.frames.is_empty() || matches!(stack.end, StackEnd::None(_));
    // From the root inwards: the first step that is known is the statement's own.
    for frame in stack.frames.iter().rev().filter_map(|&frame| profile.frames.get(frame as usize)) {
        let name = frame.name.as_str();
        if STATEMENT.contains(&name) {
            meaning.executes = true;
        }
        if !meaning.executes {
            continue;
        }
        match FUNCTIONS.iter().find(|(function, _)| *function == name) {
            // A commit that reads or sends is still a commit.
            Some((_, Phase::Reading | Phase::Network)) if meaning.waits == Some(Phase::Commit) => {}
            Some((_, phase @ (Phase::Reading | Phase::Network | Phase::Commit))) => {
                meaning.waits = Some(*phase);
            }
            Some((_, phase)) => meaning.step = meaning.step.or(Some(*phase)),
            None => {}
        }
    }
    meaning
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{Activity, Frame, Stack};

    use super::*;

    /// A profile of one stack, innermost first.
    fn profile(names: &[&str]) -> Profile {
        let frame = |name: &&str| Frame { name: (*name).to_owned(), ..Frame::default() };
        Profile {
            frames: names.iter().map(frame).collect(),
            stacks: vec![Stack { frames: (0..names.len() as u32).collect(), end: StackEnd::Root }],
            activities: vec![Activity { command: Some("Query".into()), ..Activity::default() }],
            ..Profile::default()
        }
    }

    fn phase(state: ThreadState, names: &[&str]) -> Option<Phase> {
        let profile = profile(names);
        Phases::from_profile(&profile).phase(&Observation { state, ..Observation::default() })
    }

    #[test]
    fn each_part_of_a_statements_life_is_distinguished_from_its_calls() {
        use ThreadState::{Condition, DiskRead, Lock, NetworkIdle, Running, Sync};
        let inside = |innermost: &[&'static str]| [innermost, &["dispatch_command", "do_command"]].concat();
        for (state, frames, expected) in [
            (Running, inside(&["MYSQLparse", "THD::sql_parser", "parse_sql"]), Phase::Parsing),
            (
                Running,
                inside(&["btr_estimate_n_rows_in_range", "test_quick_select", "JOIN::optimize"]),
                Phase::Optimizing,
            ),
            (Running, inside(&["row_search_mvcc", "Query_expression::execute"]), Phase::Executing),
            (DiskRead, inside(&["pread64", "row_search_mvcc", "test_quick_select"]), Phase::Reading),
            (Condition, inside(&["buf_wait_for_read", "row_search_mvcc"]), Phase::Reading),
            (Lock, inside(&["lock_wait_suspend_thread", "row_search_mvcc"]), Phase::Locks),
            (Lock, inside(&["MDL_wait::timed_wait", "open_tables"]), Phase::Locks),
            (Sync, inside(&["fsync", "MYSQL_BIN_LOG::ordered_commit", "trans_commit_stmt"]), Phase::Commit),
            (Condition, inside(&["log_write_up_to", "ha_commit_low", "ha_commit_trans"]), Phase::Commit),
            (Lock, inside(&["Commit_order_manager::wait", "ha_commit_trans"]), Phase::Commit),
            (NetworkIdle, inside(&["poll", "vio_io_wait", "net_write_packet"]), Phase::Network),
            (Condition, inside(&["___pthread_cond_wait", "net_real_write", "net_flush"]), Phase::Commit),
        ] {
            assert_eq!(phase(state, &frames), Some(expected), "{frames:?}");
        }
    }

    #[test]
    fn a_thread_that_waits_for_its_client_executes_nothing() {
        assert_eq!(
            phase(ThreadState::NetworkIdle, &["poll", "vio_io_wait", "my_net_read", "do_command"]),
            None
        );
        assert_eq!(phase(ThreadState::Sleep, &["nanosleep", "srv_master_thread"]), None);
    }

    #[test]
    fn a_thread_that_runs_without_a_stack_executes_where_its_client_asked() {
        let mut profile = profile(&[]);
        profile.stacks[0].end = StackEnd::None("it ran".into());
        let seen = Observation { state: ThreadState::Running, activity: Some(0), ..Observation::default() };
        assert_eq!(Phases::from_profile(&profile).phase(&seen), Some(Phase::Executing));
        let nobody = Observation { activity: None, ..seen };
        assert_eq!(Phases::from_profile(&profile).phase(&nobody), None);
    }

    #[test]
    fn no_function_is_named_twice() {
        let mut names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FUNCTIONS.len());
    }
}
