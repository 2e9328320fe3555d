//! What an accepting thread's time goes into: system calls and functions, by what they are for.
//!
//! In: a [`ThreadTime`], as the kernel counted it and samples saw it. Out: an [`AcceptTime`], whose rows add up to the
//! time in which the thread did not sleep until clients came. System calls are counted; what lies between them is divided
//! by the CPU samples there; what going to sleep and waking up took is what the kernel's count of its CPU time has beyond
//! both.

use std::collections::BTreeMap;

use spindoctor_model::connections::{AcceptPart, AcceptRow, AcceptTime, CallTime, ThreadTime};
use spindoctor_model::stack::{Observation, Profile};

use crate::spin_samples;
use crate::stack_evidence::is_name;

/// Calls in which an accepting thread waits for clients: what it sleeps in them is no work.
const WAITING: &[&str] = &[
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "accept",
    "accept4",
    "restart_syscall",
];

/// Calls that take a connection in.
const ACCEPTING: &[&str] = &["accept", "accept4"];

/// A function in a smaller share of the busy time stands with others in one row.
const WORTH_A_ROW: f64 = 0.01;

/// What functions of the C library and of the servers are for, of MySQL 5.5 to 9.7 and MariaDB 10.3 to 11.8. The innermost
/// that is listed decides: memory that a session is put together from counts as allocation.
const FUNCTIONS: &[(&str, AcceptPart)] = &[
    ("malloc", AcceptPart::Allocation),
    ("__libc_malloc", AcceptPart::Allocation),
    ("calloc", AcceptPart::Allocation),
    ("__libc_calloc", AcceptPart::Allocation),
    ("realloc", AcceptPart::Allocation),
    ("posix_memalign", AcceptPart::Allocation),
    ("aligned_alloc", AcceptPart::Allocation),
    ("free", AcceptPart::Allocation),
    ("cfree", AcceptPart::Allocation),
    ("operator new", AcceptPart::Allocation),
    ("operator delete", AcceptPart::Allocation),
    ("my_malloc", AcceptPart::Allocation),
    ("my_raw_malloc", AcceptPart::Allocation),
    ("my_free", AcceptPart::Allocation),
    ("alloc_root", AcceptPart::Allocation),
    ("pthread_mutex_lock", AcceptPart::Mutex),
    ("__pthread_mutex_lock", AcceptPart::Mutex),
    ("___pthread_mutex_lock", AcceptPart::Mutex),
    ("pthread_mutex_unlock", AcceptPart::Mutex),
    ("__pthread_mutex_unlock", AcceptPart::Mutex),
    ("__lll_lock_wait", AcceptPart::Mutex),
    ("pthread_rwlock_rdlock", AcceptPart::Mutex),
    ("pthread_rwlock_wrlock", AcceptPart::Mutex),
    ("my_mutex_lock", AcceptPart::Mutex),
    ("inline_mysql_mutex_lock", AcceptPart::Mutex),
    ("pthread_cond_signal", AcceptPart::HandOver),
    ("__pthread_cond_signal", AcceptPart::HandOver),
    ("___pthread_cond_signal", AcceptPart::HandOver),
    ("pthread_cond_broadcast", AcceptPart::HandOver),
    ("Per_thread_connection_handler::check_idle_thread_and_enqueue_connection", AcceptPart::HandOver),
    ("Thread_cache::enqueue", AcceptPart::HandOver),
    ("tp_add_connection", AcceptPart::HandOver),
    ("pthread_create", AcceptPart::ThreadCreation),
    ("__pthread_create", AcceptPart::ThreadCreation),
    ("__clone3", AcceptPart::ThreadCreation),
    ("clone3", AcceptPart::ThreadCreation),
    ("clone", AcceptPart::ThreadCreation),
    ("my_thread_create", AcceptPart::ThreadCreation),
    ("pfs_spawn_thread_vc", AcceptPart::ThreadCreation),
    ("spawn_thread_v1", AcceptPart::ThreadCreation),
    ("create_thread_to_handle_connection", AcceptPart::ThreadCreation),
    ("THD::THD", AcceptPart::SessionSetUp),
    ("THD::init", AcceptPart::SessionSetUp),
    ("Channel_info::create_thd", AcceptPart::SessionSetUp),
    ("Channel_info_tcpip_socket::create_thd", AcceptPart::SessionSetUp),
    ("Channel_info_local_socket::create_thd", AcceptPart::SessionSetUp),
    ("CONNECT::CONNECT", AcceptPart::SessionSetUp),
    ("vio_new", AcceptPart::SessionSetUp),
    ("mysql_socket_vio_new", AcceptPart::SessionSetUp),
    ("my_net_init", AcceptPart::SessionSetUp),
];

/// Kernel functions through which every system call goes: a sample below them is in time that was counted.
const SYSTEM_CALL: &[&str] = &[
    "do_syscall_64",
    "x64_sys_call",
    "entry_SYSCALL_64_after_hwframe",
    "entry_SYSCALL_64",
    "syscall_exit_to_user_mode",
    "el0_svc",
    "do_el0_svc",
    "invoke_syscall",
];

/// The account.
pub fn account(time: &ThreadTime) -> AcceptTime {
    let total_ns = time.seconds * 1e9;
    let calls_ns: u64 = time.calls.iter().map(|call| call.ns).sum();
    let seen_ns = (calls_ns + time.outside_ns) as f64;
    let idle_ns = if seen_ns == 0.0 {
        // It slept in one call from beginning to end.
        total_ns
    } else {
        time.calls.iter().filter(|call| is_waiting(call)).map(|call| call.slept_ns).sum::<u64>() as f64
    };
    let back_ns = back_ns(time).min(idle_ns);
    let busy_ns = (total_ns - idle_ns + back_ns).max(0.0);
    let share = |ns: f64| if busy_ns > 0.0 { ns / busy_ns } else { 0.0 };
    let row = |part, name: &str, calls: Option<(u64, u64)>, ns: f64| AcceptRow {
        part,
        name: name.to_owned(),
        calls: calls.map(|(calls, _)| calls),
        failed: calls.map(|(_, failed)| failed),
        ms: ns / 1e6,
        share: share(ns),
    };

    let mut rows = Vec::new();
    for call in &time.calls {
        let worked_ns = if is_waiting(call) { call.ns.saturating_sub(call.slept_ns) } else { call.ns };
        rows.push(row(part_of(call), &call.name, Some((call.calls, call.failed)), worked_ns as f64));
    }
    if back_ns > 0.0
        && let Some(call) = time.calls.iter().filter(|call| is_waiting(call)).max_by_key(|call| call.slept)
    {
        let name = format!("{}, to sleep and back", call.name);
        rows.push(row(AcceptPart::SystemCall, &name, Some((call.slept, 0)), back_ns));
    }
    let outside = outside(time.profile.as_ref());
    let samples: u64 = outside.values().sum();
    let mut small: BTreeMap<AcceptPart, f64> = BTreeMap::new();
    for ((part, name), count) in &outside {
        let ns = time.outside_ns as f64 * *count as f64 / samples as f64;
        match share(ns) < WORTH_A_ROW && *part != AcceptPart::Unknown {
            true => *small.entry(*part).or_default() += ns,
            false => rows.push(row(*part, name, None, ns)),
        }
    }
    for (part, ns) in small {
        rows.push(row(part, "other functions", None, ns));
    }
    if samples == 0 && time.outside_ns > 0 {
        rows.push(row(AcceptPart::Unknown, "outside of system calls", None, time.outside_ns as f64));
    }
    // Of a thread that was seen: what lies between its borders and ours.
    let missed_ns = if seen_ns > 0.0 { total_ns - seen_ns } else { 0.0 };
    if share(missed_ns) >= WORTH_A_ROW {
        rows.push(row(AcceptPart::Unknown, "not seen", None, missed_ns));
    }
    // A call that did nothing but wait has its row: on a machine that is busy the thread sleeps in every one.
    rows.retain(|row| row.ms > 0.0 || row.calls.is_some_and(|calls| calls > 0));
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms).then_with(|| a.name.cmp(&b.name)));

    let accepts = || time.calls.iter().filter(|call| ACCEPTING.contains(&call.name.as_str()));
    let accepts_failed: u64 = accepts().map(|call| call.failed).sum();
    let accepted = accepts().map(|call| call.calls).sum::<u64>().saturating_sub(accepts_failed);
    let unknown: f64 = rows.iter().filter(|row| row.part == AcceptPart::Unknown).map(|row| row.share).sum();
    let of_total = |ns: u64| ns as f64 / total_ns.max(1.0);
    AcceptTime {
        tid: time.tid,
        seconds: time.seconds,
        accepted,
        accepts_failed,
        busy_ratio: busy_ns / total_ns.max(1.0),
        cpu_ratio: time.cpu_ns.map(of_total),
        run_queue_ratio: time.run_queue_ns.map(of_total),
        us_each: (accepted > 0).then(|| busy_ns / 1e3 / accepted as f64),
        accounted_ratio: if busy_ns > 0.0 { 1.0 - unknown } else { 1.0 },
        samples,
        rows,
        passes: time.passes,
        passes_cpu_ms: time.passes_cpu_ms,
        notes: time.notes.clone(),
    }
}

/// What going to sleep and waking up took of a CPU: what the kernel counted beyond the calls that did not sleep and
/// what lies between calls. Where the thread lost its CPU in those, that time is in them, and this number is too small.
fn back_ns(time: &ThreadTime) -> f64 {
    let awake_ns: u64 = time.calls.iter().map(|call| call.ns.saturating_sub(call.slept_ns)).sum();
    let cpu_ns = time.cpu_ns.unwrap_or(0);
    cpu_ns.saturating_sub(awake_ns + time.outside_ns) as f64
}

fn is_waiting(call: &CallTime) -> bool {
    WAITING.contains(&call.name.as_str())
}

fn part_of(call: &CallTime) -> AcceptPart {
    match call.name.as_str() {
        "futex wait" => AcceptPart::Mutex,
        "futex wake" => AcceptPart::HandOver,
        "clone" | "clone3" => AcceptPart::ThreadCreation,
        _ => AcceptPart::SystemCall,
    }
}

/// Samples outside of system calls, by part and function.
fn outside(profile: Option<&Profile>) -> BTreeMap<(AcceptPart, String), u64> {
    let mut counted = BTreeMap::new();
    let Some(profile) = profile else { return counted };
    for sample in profile.samples() {
        if is_in_a_call(profile, sample) {
            continue;
        }
        let (part, name) = meaning(profile, sample);
        *counted.entry((part, name.to_owned())).or_default() += 1;
    }
    counted
}

/// True where a sample is in time that is counted as that of a system call.
fn is_in_a_call(profile: &Profile, sample: &Observation) -> bool {
    let frames = profile.stacks.get(sample.stack as usize).map(|stack| stack.frames.as_slice());
    let frames = frames.unwrap_or_default().iter().filter_map(|&frame| profile.frames.get(frame as usize));
    let mut kernel = frames.take_while(|frame| frame.kernel);
    kernel.any(|frame| SYSTEM_CALL.contains(&frame.name.as_str()))
}

fn meaning<'p>(profile: &'p Profile, sample: &Observation) -> (AcceptPart, &'p str) {
    let names = || spin_samples::names(profile, sample).filter(|name| is_name(name));
    let listed = names().find_map(|name| FUNCTIONS.iter().find(|(listed, _)| is_called(name, listed)));
    match (listed, names().next()) {
        (Some((name, part)), _) => (*part, *name),
        (None, Some(name)) => (AcceptPart::Loop, name),
        (None, None) => (AcceptPart::Unknown, "code without a name"),
    }
}

/// `operator new[]` and `malloc@plt` are what they are called after; `mallocate` is not.
fn is_called(name: &str, listed: &str) -> bool {
    name.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '@', '(', '<']))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{Frame, Stack, StackSource};

    use super::*;

    fn call(name: &str, calls: u64, us: u64, slept: u64, slept_us: u64) -> CallTime {
        CallTime {
            name: name.into(),
            calls,
            ns: us * 1_000,
            slept,
            slept_ns: slept_us * 1_000,
            ..CallTime::default()
        }
    }

    /// Stacks, innermost first; a name that begins with `!` is the kernel's.
    fn profile(samples: &[(usize, &[&str])]) -> Profile {
        let mut profile = Profile { source: StackSource::Cpu, ..Profile::default() };
        for (count, names) in samples {
            let first = profile.frames.len() as u32;
            profile.frames.extend(names.iter().map(|name| Frame {
                name: name.trim_start_matches('!').into(),
                kernel: name.starts_with('!'),
                ..Frame::default()
            }));
            let stack = profile.stacks.len() as u32;
            let frames = (first..profile.frames.len() as u32).collect();
            profile.stacks.push(Stack { frames, ..Stack::default() });
            profile.observations.extend(vec![Observation { stack, ..Observation::default() }; *count]);
        }
        profile
    }

    /// One second: 0.6 s waiting for clients, 1,000 connections of 0.4 ms.
    fn busy() -> ThreadTime {
        ThreadTime {
            tid: 4310,
            seconds: 1.0,
            calls: vec![
                call("accept4", 1_000, 60_000, 0, 0),
                call("poll", 1_000, 640_000, 700, 600_000),
                call("setsockopt", 4_000, 40_000, 0, 0),
                call("futex wait", 50, 20_000, 40, 19_000),
                call("futex wake", 1_000, 60_000, 0, 0),
                call("clone3", 100, 30_000, 0, 0),
            ],
            outside_ns: 150_000_000,
            cpu_ns: Some(380_000_000),
            profile: Some(profile(&[
                (50, &["malloc", "my_malloc", "vio_new", "main"]),
                (20, &["vio_new", "main"]),
                (10, &["pthread_mutex_lock", "Thread_cache::enqueue", "main"]),
                (10, &["!clear_page_erms", "!asm_exc_page_fault", "THD::THD", "main"]),
                (200, &["!tcp_accept", "!do_syscall_64", "accept4", "main"]),
                (9, &["Mysqld_socket_listener::listen_for_connection_event", "main"]),
                (1, &["mysqld+0x12ab"]),
            ])),
            ..ThreadTime::default()
        }
    }

    fn share(account: &AcceptTime, part: AcceptPart, name: &str) -> f64 {
        let found = account.rows.iter().find(|row| row.part == part && row.name == name);
        found.map_or(-1.0, |row| (row.share * 1_000.0).round() / 1_000.0)
    }

    #[test]
    fn the_rows_add_up_to_the_time_in_which_it_did_not_wait_for_clients() {
        let account = account(&busy());
        assert!((account.busy_ratio - 0.4).abs() < 1e-9, "{account:#?}");
        let sum: f64 = account.rows.iter().map(|row| row.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        assert_eq!(account.accepted, 1_000);
        assert_eq!(account.us_each.map(f64::round), Some(400.0));
        assert_eq!(account.samples, 100);
        assert!(account.accounted_ratio > 0.99, "{}", account.accounted_ratio);
    }

    #[test]
    fn what_was_slept_for_clients_is_no_cost_and_what_was_slept_for_a_mutex_is() {
        let account = account(&busy());
        assert_eq!(share(&account, AcceptPart::SystemCall, "poll"), 0.1);
        assert_eq!(share(&account, AcceptPart::Mutex, "futex wait"), 0.05);
        assert_eq!(share(&account, AcceptPart::HandOver, "futex wake"), 0.15);
        assert_eq!(share(&account, AcceptPart::ThreadCreation, "clone3"), 0.075);
    }

    #[test]
    fn a_call_that_did_nothing_but_wait_has_its_row() {
        let calls = vec![call("accept4", 10, 60_000, 0, 0), call("poll", 10, 640_000, 10, 640_000)];
        let account = account(&ThreadTime { calls, ..busy() });
        assert_eq!(share(&account, AcceptPart::SystemCall, "poll"), 0.0);
        assert_eq!(account.rows.iter().filter(|row| row.ms == 0.0).count(), 1, "{account:#?}");
    }

    #[test]
    fn going_to_sleep_and_waking_up_is_work() {
        let account = account(&ThreadTime { cpu_ns: Some(421_000_000), ..busy() });
        assert!((account.busy_ratio - 0.44).abs() < 1e-9, "{}", account.busy_ratio);
        assert_eq!(share(&account, AcceptPart::SystemCall, "poll, to sleep and back"), 0.091);
        let sum: f64 = account.rows.iter().map(|row| row.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let unknown = self::account(&ThreadTime { cpu_ns: None, ..busy() });
        assert!((unknown.busy_ratio - 0.4).abs() < 1e-9, "a kernel that does not count adds nothing");
    }

    #[test]
    fn time_between_calls_is_divided_by_the_samples_there() {
        let account = account(&busy());
        assert_eq!(share(&account, AcceptPart::Allocation, "malloc"), 0.188);
        assert_eq!(share(&account, AcceptPart::SessionSetUp, "vio_new"), 0.075);
        assert_eq!(share(&account, AcceptPart::SessionSetUp, "THD::THD"), 0.038, "a page fault is its own");
        let parts = account.parts();
        assert_eq!(parts[0].0, AcceptPart::SystemCall);
        assert!((parts.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_samples_what_is_between_calls_is_not_known() {
        let account = account(&ThreadTime { profile: None, ..busy() });
        assert_eq!(share(&account, AcceptPart::Unknown, "outside of system calls"), 0.375);
        assert!((account.accounted_ratio - 0.625).abs() < 1e-9);
    }

    #[test]
    fn time_that_nobody_saw_is_not_made_up() {
        let account = account(&ThreadTime { seconds: 1.1, ..busy() });
        assert_eq!(share(&account, AcceptPart::Unknown, "not seen"), 0.2);
        assert!(account.accounted_ratio < 0.81);
    }

    #[test]
    fn a_thread_that_slept_all_the_time_was_not_busy() {
        let account = account(&ThreadTime { seconds: 5.0, ..ThreadTime::default() });
        assert_eq!((account.busy_ratio, account.accepted, account.us_each), (0.0, 0, None));
        assert_eq!(account.rows, []);
        assert_eq!(account.accounted_ratio, 1.0);
    }

    #[test]
    fn accepts_that_took_nobody_in_are_no_connections() {
        let mut time = busy();
        time.calls[0].failed = 400;
        let account = account(&time);
        assert_eq!((account.accepted, account.accepts_failed), (600, 400));
    }

    #[test]
    fn a_name_is_listed_as_a_whole() {
        assert!(is_called("operator new[]", "operator new") && is_called("malloc@plt", "malloc"));
        assert!(!is_called("mallocate", "malloc") && !is_called("THD::THDx", "THD::THD"));
    }
}
