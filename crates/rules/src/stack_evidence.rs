//! What stacks and CPU samples show of a cause: a check of what other readings found.
//!
//! Each entry of the catalogue says in which functions its victims wait or what the CPU is used for ([`Stacks`]). This
//! module counts those calls on this server, and the threads in them. Where no profile was taken, or none of the
//! functions has a name on this server (MariaDB's packages name none of InnoDB's), a finding goes without.

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, StackSource};
use spindoctor_model::{Evidence, Window};

use crate::below::is_below;
use crate::spin_samples::{self, Whose};
use crate::time_model::{self, tables};

/// Chains of calls that are named for a finding.
const NAMED: usize = 3;

/// Functions of a chain: the one that was looked for, and its callers.
const LENGTH: usize = 4;

/// A chain seen in a smaller share of what was looked at is not named.
const WORTH_NAMING: f64 = 0.02;

/// A smaller mean number of the server's own threads would be shown as 0.0.
const SHOWN_AS_SOME: f64 = 0.05;

/// Which stacks show a cause.
#[derive(Debug, Clone, Copy)]
pub enum Stacks {
    /// None: it is not a matter of what threads do.
    Nothing,
    /// Those of threads that stand in one of these functions.
    Standing(&'static [&'static str]),
    /// Those of threads that stand in one of the first functions and in none of the second, which are of another cause.
    StandingBut(&'static [&'static str], &'static [&'static str]),
    /// Those of CPU samples under one of these functions; all samples where none is given.
    Running(&'static [&'static str]),
    /// Those of CPU samples that spin.
    Spinning(Whose),
}

impl Stacks {
    /// The chains of calls that show it in a window, the most frequent first.
    pub(crate) fn evidence(self, window: &Window) -> Vec<Evidence> {
        let Some(profile) = window.profile.value() else { return Vec::new() };
        let samples = || (profile.samples(), "CPU samples");
        let (reading, (looked_at, source), functions, whose): (_, _, &[&str], _) = match self {
            Self::Nothing => return Vec::new(),
            Self::Standing(functions) if profile.source != StackSource::Cpu => {
                return standing(profile, functions, &[]);
            }
            Self::StandingBut(functions, others) if profile.source != StackSource::Cpu => {
                return standing(profile, functions, others);
            }
            Self::Standing(functions) | Self::StandingBut(functions, _) | Self::Running(functions) => {
                ("CPU goes into", samples(), functions, None)
            }
            Self::Spinning(whose) => ("who spins", samples(), &[], Some(whose)),
        };
        let shown = looked_at
            .iter()
            .filter(|&observation| whose.is_none() || spin_samples::whose(profile, observation) == whose)
            .filter_map(|observation| chain(profile, observation, functions));
        let mut counted: HashMap<String, usize> = HashMap::new();
        for chain in shown {
            *counted.entry(chain).or_default() += 1;
        }
        let mut chains: Vec<(String, f64)> = counted
            .into_iter()
            .map(|(chain, count)| (chain, count as f64 / looked_at.len() as f64))
            .filter(|(_, share)| *share >= WORTH_NAMING)
            .collect();
        largest_first(&mut chains);
        chains
            .into_iter()
            .take(NAMED)
            .map(|(chain, share)| {
                Evidence::new(reading, format!("{:.0} % {chain}", share * 100.0), "", source)
            })
            .collect()
    }
}

fn largest_first(chains: &mut [(String, f64)]) {
    chains.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
}

/// Whose stack it is: that says what it is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    /// A session at work.
    AtWork,
    /// A client's connection between statements, one that sleeps on purpose, or one that sends the binary log.
    AtRest,
    /// Any other thread.
    OfTheServer,
}

impl Group {
    fn from_observation(profile: &Profile, observation: &Observation, is_at_work: bool) -> Self {
        match is_at_work {
            true => Self::AtWork,
            false if is_below(profile, observation, tables::CONNECTION) => Self::AtRest,
            false => Self::OfTheServer,
        }
    }
}

/// Threads that stand in these functions: sessions at work as a share of all sessions at work, connections at rest as a share of all
/// connections, and threads of the server itself by their number. A share of all threads would say little: a server has dozens of its
/// own, which rest. Who stands in one of the others' functions is counted in the whole alone.
fn standing(profile: &Profile, functions: &[&str], others: &[&str]) -> Vec<Evidence> {
    let mut all: HashMap<Group, usize> = HashMap::new();
    let mut counted: HashMap<(Group, String), usize> = HashMap::new();
    let kinds: Vec<(Group, Option<String>)> = (0_u32..)
        .zip(time_model::at_work(profile))
        .map(|(stack, is_at_work)| {
            let of_stack = Observation { stack, ..Observation::default() };
            let is_other = is_below(profile, &of_stack, others);
            let chain = chain(profile, &of_stack, functions).filter(|_| !is_other);
            (Group::from_observation(profile, &of_stack, is_at_work), chain)
        })
        .collect();
    for observation in &profile.observations {
        let Some((group, chain)) = kinds.get(observation.stack as usize) else { continue };
        *all.entry(*group).or_default() += 1;
        if let Some(chain) = chain {
            *counted.entry((*group, chain.clone())).or_default() += 1;
        }
    }
    let of = |group| all.get(&group).copied().unwrap_or_default() as f64;
    let snapshots = profile.snapshots.len().max(1) as f64;
    let mut shown = Vec::new();
    for (group, reading) in [
        (Group::AtWork, "sessions at work stand in"),
        (Group::AtRest, "connections stand in"),
        (Group::OfTheServer, "threads stand in"),
    ] {
        let (whole, least) = match group {
            Group::AtWork => (of(group), WORTH_NAMING),
            Group::AtRest => (of(group) + of(Group::AtWork), WORTH_NAMING),
            Group::OfTheServer => (snapshots, SHOWN_AS_SOME),
        };
        let of_group = counted.iter().filter(|((of, _), _)| *of == group);
        let mut chains: Vec<(String, f64)> = of_group
            .map(|((_, chain), count)| (chain.clone(), *count as f64 / whole))
            .filter(|(_, share)| *share >= least)
            .collect();
        largest_first(&mut chains);
        shown.extend(chains.into_iter().map(|(chain, share)| {
            let value = match group {
                Group::OfTheServer => format!("{share:.1} on average: {chain}"),
                _ => format!("{:.0} % {chain}", share * 100.0),
            };
            Evidence::new(reading, value, "", "stacks")
        }));
    }
    shown.truncate(NAMED);
    shown
}

/// `lock_wait_suspend_thread < row_mysql_handle_errors < row_search_mvcc`: from the outermost frame that was
/// looked for (from the innermost, where none was) outwards. Functions without a name are left out.
fn chain(profile: &Profile, observation: &Observation, functions: &[&str]) -> Option<String> {
    let names: Vec<&str> = spin_samples::names(profile, observation).filter(|name| is_name(name)).collect();
    let from =
        if functions.is_empty() { 0 } else { names.iter().rposition(|name| functions.contains(name))? };
    let chain = &names[from..names.len().min(from + LENGTH)];
    (!chain.is_empty()).then(|| chain.join(" < "))
}

/// False for `mysqld+0x2a68b1d` and `[unknown]`.
pub(crate) fn is_name(name: &str) -> bool {
    !name.contains("+0x") && !name.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    const FRAMES: &[&str] = &[
        "__futex_wait",
        "os_event::wait_low",
        "lock_wait_suspend_thread",
        "mysqld+0x12ab",
        "row_search_mvcc",
    ];

    #[test]
    fn threads_are_counted_by_the_calls_from_the_function_outwards() {
        let window = Build::busy("8.0.36").standing(8, 24, FRAMES).window();
        let shown = Stacks::Standing(&["lock_wait_suspend_thread"]).evidence(&window);
        assert_eq!(
            shown,
            [Evidence::new(
                "sessions at work stand in",
                "75 % lock_wait_suspend_thread < row_search_mvcc < dispatch_command",
                "",
                "stacks"
            )]
        );
        assert_eq!(Stacks::Standing(&["MDL_wait::timed_wait"]).evidence(&window), []);
    }

    #[test]
    fn who_stands_in_the_functions_of_another_cause_is_shown_with_that_one() {
        use spindoctor_model::stack::ThreadState::Lock;
        const TABLE: &[&str] = &["MDL_wait::timed_wait", "open_tables", "dispatch_command"];
        const NAMED: &[&str] = &["MDL_wait::timed_wait", "Item_func_get_lock::val_int", "dispatch_command"];
        let window = Build::busy("8.0.36").only_snapshots(&[(6, Lock, TABLE), (2, Lock, NAMED)]).window();
        let shown = Stacks::StandingBut(&["MDL_wait::timed_wait"], &["Item_func_get_lock::val_int"]);
        let values: Vec<_> = shown.evidence(&window).into_iter().map(|evidence| evidence.value).collect();
        let of_table = "75 % MDL_wait::timed_wait < open_tables < dispatch_command";
        assert_eq!(values, [spindoctor_model::Value::Text(of_table.into())]);
        assert_eq!(Stacks::Standing(&["MDL_wait::timed_wait"]).evidence(&window).len(), 2);
    }

    #[test]
    fn a_share_is_of_those_who_could_stand_there_and_the_servers_own_threads_are_counted() {
        use spindoctor_model::stack::ThreadState::{Condition, Lock, NetworkIdle};
        const LOCKED: &[&str] =
            &["lock_wait_suspend_thread", "row_search_mvcc", "dispatch_command", "do_command"];
        const RESTS: &[&str] = &["vio_read", "my_net_read", "do_command"];
        const OWN: &[&str] = &["os_event::wait_low", "log_flusher"];
        let window = Build::busy("8.0.36")
            .only_snapshots(&[(9, Lock, LOCKED), (11, NetworkIdle, RESTS), (40, Condition, OWN)])
            .window();
        let value = |functions: &'static [&'static str]| {
            let shown = Stacks::Standing(functions).evidence(&window);
            let spindoctor_model::Value::Text(text) = &shown[0].value else { panic!("{shown:?}") };
            format!("{}: {text}", shown[0].reading)
        };
        assert_eq!(
            value(&["lock_wait_suspend_thread"]),
            "sessions at work stand in: 100 % lock_wait_suspend_thread < row_search_mvcc < dispatch_command < do_command"
        );
        assert_eq!(value(&["my_net_read"]), "connections stand in: 55 % my_net_read < do_command");
        assert_eq!(value(&["log_flusher"]), "threads stand in: 40.0 on average: log_flusher");
    }

    #[test]
    fn who_sleeps_on_purpose_or_sends_the_binary_log_is_in_no_share_of_those_at_work() {
        use spindoctor_model::stack::ThreadState::{Condition, Lock};
        const LOCKED: &[&str] = &["lock_wait_suspend_thread", "dispatch_command", "do_command"];
        const SLEEPS: &[&str] = &["Item_func_sleep::val_int", "dispatch_command", "do_command"];
        const SENDS: &[&str] = &["pthread_cond_wait", "mysql_binlog_send", "dispatch_command", "do_command"];
        let window = Build::busy("8.0.36")
            .only_snapshots(&[(3, Lock, LOCKED), (9, Condition, SLEEPS), (9, Condition, SENDS)])
            .window();
        let shown = Stacks::Standing(&["lock_wait_suspend_thread"]).evidence(&window);
        let wanted = "100 % lock_wait_suspend_thread < dispatch_command < do_command";
        assert_eq!(shown[0].value, spindoctor_model::Value::Text(wanted.into()));
    }

    /// One of the server's threads, once in forty snapshots: "0.0 on average" says nothing.
    #[test]
    fn a_thread_that_was_hardly_seen_there_is_left_out() {
        use spindoctor_model::stack::ThreadState::Condition;
        let mut window = Build::busy("8.0.36")
            .only_snapshots(&[(1, Condition, &["log_flusher", "start_thread"])])
            .window();
        let seen = |window: &Window| Stacks::Standing(&["log_flusher"]).evidence(window).len();
        assert_eq!(seen(&window), 1);
        let spindoctor_model::Reading::Available { value: profile, .. } = &mut window.profile else {
            panic!()
        };
        profile.observations.truncate(1);
        profile.snapshots = vec![profile.snapshots[0]; 40];
        assert_eq!(seen(&window), 0);
    }

    #[test]
    fn spinners_are_distinguished_by_whose_loop_it_is() {
        let window =
            Build::busy("8.0.36").cpu_samples(1000, 0.4, &["log_write_up_to", "trx_commit"]).window();
        assert_eq!(Stacks::Spinning(Whose::Latch).evidence(&window), []);
        let spinners = Stacks::Spinning(Whose::Commit).evidence(&window);
        let chain = "40 % log_write_up_to < trx_commit < dispatch_command";
        assert_eq!(spinners[0].value, spindoctor_model::Value::Text(chain.into()));
        assert_eq!(Stacks::Running(&[]).evidence(&window).len(), 2);
    }

    #[test]
    fn without_a_profile_there_is_nothing_to_show() {
        let window = Build::busy("8.0.36").without_profile().window();
        assert_eq!(Stacks::Running(&[]).evidence(&window), []);
    }
}
