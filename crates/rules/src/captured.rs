//! What stacks and CPU samples that somebody captured show of a cause: the part of them that stands in some functions. Those of a live
//! server are read beside its counters, and say nothing here.

use std::collections::BTreeMap;

use spindoctor_model::stack::{Observation, Profile, StackEnd, StackSource};
use spindoctor_model::{Evidence, Window, number};

use crate::spin_samples::{self, SpinSamples};
use crate::time_model;

/// Threads in such functions, from which on they are no chance. Chosen.
const THREADS: usize = 2;

/// Functions that are named.
const NAMED: usize = 3;

/// The part of what was captured that stands in some functions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Captured {
    /// Of the server's CPU samples, or of the sessions at work, 0 to 1.
    pub(crate) share: f64,
    /// True for CPU samples, false for stacks of all threads.
    pub(crate) is_of_cpu: bool,
    /// The functions, each with its part of the same whole, the largest first.
    functions: Vec<(String, f64)>,
}

impl Captured {
    /// None of a live server, and where there are too few samples or threads.
    pub(crate) fn from_window(window: &Window, is_such: impl Fn(&str) -> bool) -> Option<Self> {
        let profile = window.profile.value().filter(|profile| window.is_given() && profile.is_of_a_text())?;
        let function = |seen: &Observation| spin_samples::names(profile, seen).find(|name| is_such(name));
        let is_of_cpu = profile.source == StackSource::Cpu;
        let at_work = time_model::at_work(profile);
        let works = |seen: &&Observation| {
            is_of_cpu
                || at_work.get(seen.stack as usize).copied().unwrap_or_default()
                || is_cut(profile, seen.stack) && function(seen).is_some()
        };
        let whole = match is_of_cpu {
            true => SpinSamples::from_window(window).ok()?.profile().samples().len(),
            false => profile.observations.iter().filter(works).count(),
        };
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        for name in profile.observations.iter().filter(works).filter_map(function) {
            *counted.entry(name).or_default() += 1;
        }
        let standing: usize = counted.values().sum();
        let part = |count: usize| count as f64 / whole.max(1) as f64;
        let mut functions: Vec<(String, f64)> =
            counted.iter().map(|(name, count)| ((*name).to_owned(), part(*count))).collect();
        functions.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        functions.truncate(NAMED);
        (standing >= THREADS).then(|| Self { share: part(standing), is_of_cpu, functions })
    }

    /// `62 % of the server's CPU samples`, `40 % of the sessions at work`
    pub(crate) fn said(&self) -> String {
        let whole = if self.is_of_cpu { "the server's CPU samples" } else { "the sessions at work" };
        format!("{} of {whole}", number::whole_percent(self.share))
    }

    /// The part, with what is usual, and the functions.
    pub(crate) fn evidence(&self, reading: &str, usual: f64) -> Vec<Evidence> {
        let source = if self.is_of_cpu { "CPU samples" } else { "stacks" };
        let functions = self.functions.iter().map(|(name, share)| {
            Evidence::new("stands in", format!("{} {name}", number::whole_percent(*share)), "", source)
        });
        let part = Evidence::new(reading, self.share, "ratio", source);
        std::iter::once(part.expected(format!("< {}", number::whole_percent(usual))))
            .chain(functions)
            .collect()
    }
}

/// True for a stack without its outer functions: what its thread serves is not known.
pub(crate) fn is_cut(profile: &Profile, stack: u32) -> bool {
    profile.stacks.get(stack as usize).is_some_and(|stack| matches!(stack.end, StackEnd::Cut(_)))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState::{Condition, NetworkIdle, Running};

    use super::*;
    use crate::testing::Build;

    #[test]
    fn samples_count_of_all_samples_and_threads_of_those_at_work() {
        let of = |build: Build| Captured::from_window(&build.window(), |name| name == "row_vers_x");
        let samples = of(Build::busy("8.0.36").running(1_000, 0.4, &["row_vers_x"]).captured()).unwrap();
        assert_eq!(samples.said(), "40 % of the server's CPU samples");
        assert_eq!(samples.functions, [("row_vers_x".to_owned(), 0.4)]);
        let threads = |standing: u32| {
            let works: &[&str] = &["row_vers_x", "dispatch_command"];
            let others: &[&str] = &["row_search_mvcc", "dispatch_command"];
            let (rests, own): (&[&str], &[&str]) = (&["vio_read", "do_command"], &["io_getevents"]);
            let all = [
                (standing, Running, works),
                (6, Running, others),
                (9, NetworkIdle, rests),
                (9, Condition, own),
            ];
            of(Build::busy("8.0.36").only_snapshots(&all).captured())
        };
        assert_eq!(threads(2).unwrap().said(), "25 % of the sessions at work");
        assert_eq!(threads(0), None);
    }

    #[test]
    fn threads_of_the_server_and_of_replicas_are_in_no_share_of_the_sessions_at_work() {
        let works: &[&str] = &["row_vers_x", "dispatch_command", "do_command"];
        let others: &[&str] = &["row_search_mvcc", "dispatch_command", "do_command"];
        let purges: &[&str] = &["row_vers_x", "srv_worker_thread", "start_thread"];
        let dumps: &[&str] = &["pthread_cond_wait", "mysql_binlog_send", "dispatch_command", "do_command"];
        let sleeps: &[&str] = &["Item_func_sleep::val_int", "dispatch_command", "do_command"];
        let all = [
            (3, Running, works),
            (3, Running, others),
            (8, Running, purges),
            (20, Condition, dumps),
            (9, Condition, sleeps),
        ];
        let window = Build::busy("8.0.36").only_snapshots(&all).captured().window();
        let captured = Captured::from_window(&window, |name| name == "row_vers_x").unwrap();
        assert_eq!(captured.said(), "50 % of the sessions at work");
    }

    #[test]
    fn a_live_server_and_few_samples_say_nothing() {
        let of = |build: Build| Captured::from_window(&build.window(), |name| name == "row_vers_x");
        assert_eq!(of(Build::busy("8.0.36").running(1_000, 0.4, &["row_vers_x"])), None);
        assert_eq!(of(Build::busy("8.0.36").running(100, 0.4, &["row_vers_x"]).captured()), None);
    }
}
