//! Control groups and hosts that are short of memory, and what logs say of a server that was killed for want of it.

use spindoctor_model::host::Pressure;
use spindoctor_model::stack::ThreadState::{DiskRead, Lock};
use spindoctor_model::{Reading, Severity};

use super::*;
use crate::testing::{Build, answer};

const FAULTS: &[&str] = &["rec_get_offsets", "row_search_mvcc", "dispatch_command", "do_command"];
const LOCK: &[&str] = &["lock_wait", "row_search_mvcc", "dispatch_command", "do_command"];

/// A group of 8 GiB that uses so much of it, with tasks that wait for memory for a share of the time.
fn at(used_bytes: u64, stalled: f64, pool_bytes: u64) -> Build {
    let build = Build::busy("8.0.36")
        .variable("innodb_buffer_pool_size", &pool_bytes.to_string())
        .variable("sort_buffer_size", "262144")
        .only_snapshots(&[(12, DiskRead, FAULTS), (3, Lock, LOCK)]);
    build.each(move |at_s, _, host| {
        if let Reading::Available { value: process, .. } = &mut host.process {
            process.resident_bytes = 7 << 30;
            process.major_faults = (at_s * 200.0) as u64;
        }
        if let Reading::Available { value: memory, .. } = &mut host.memory {
            memory.cgroup_limit_bytes = Some(8 << 30);
            memory.cgroup_used_bytes = Some(used_bytes);
            memory.cgroup_limit_hits = Some((at_s * 400.0) as u64);
        }
        let memory_some_us = Some((at_s * stalled * 1e6) as u64);
        host.cgroup_pressure = answer(at_s, Pressure { memory_some_us, ..Pressure::default() });
    })
}

pub(crate) fn fires() -> Window {
    at((8 << 30) - 4096, 0.4, 6 << 30).window()
}

/// As full, of page cache that is given up at once.
pub(crate) fn near_miss() -> Window {
    at((8 << 30) - 4096, 0.01, 6 << 30).window()
}

/// A remote server.
pub(crate) fn missing() -> Window {
    Build::busy("8.0.36").remote().window()
}

/// The finding of one line of a log, or of a tool.
fn finding_of(line: &str, source: &str) -> Finding {
    let trouble = LoggedTrouble {
        kind: TroubleKind::KilledForMemory,
        times: 1,
        line: line.into(),
        source: source.into(),
        ..Default::default()
    };
    of_log(&Window { error_log: vec![trouble], ..Window::default() }).unwrap()
}

#[test]
fn that_connections_were_lost_is_said_of_a_kill_and_the_list_of_tasks_of_a_line_of_the_kernel() {
    for (line, source, is_lost, list) in [
        (
            "mysqld invoked oom-killer: gfp_mask=0xcc0, order=0",
            "",
            false,
            Some("list of tasks below that line)"),
        ),
        ("Out of memory: Killed process 77 (mysqld)", "", true, Some("list of tasks above that line)")),
        ("orders-mysql-1   0/1   OOMKilled   5   2h", "", true, None),
        ("The kernel killed processes of this memory cgroup, 2 times", "memory.events", true, None),
    ] {
        let finding = finding_of(line, source);
        assert_eq!(finding.why.contains("connection was lost"), is_lost, "{line}: {}", finding.why);
        let statement = &finding.remedies[0].statement;
        match list {
            Some(list) => assert!(statement.ends_with(list), "{line}: {statement}"),
            None => assert!(statement.ends_with("who else has some"), "{line}: {statement}"),
        }
    }
}

#[test]
fn a_line_of_a_kill_says_whose_memory_was_at_an_end_and_whether_a_process_was_killed() {
    let headline = |line: &str| finding_of(line, "").headline;
    for line in [
        "orders-mysql-1   0/1   OOMKilled   5   2h",
        "Memory cgroup out of memory: Killed process 77 (mysqld) total-vm:9kB",
        "mysqld mem_cgroup_out_of_memory: Killed process 77 (mysqld)",
    ] {
        let wanted = "The kernel killed the server: its control group had no memory left";
        assert_eq!(headline(line), wanted, "{line}");
    }
    for line in [
        "systemd[1]: mysql.service: Failed with result 'oom-kill'.",
        "systemd[1]: mysql.service: A process of this unit has been killed by the OOM killer.",
    ] {
        let wanted = "The kernel killed the server: the host or its control group had no memory left";
        assert_eq!(headline(line), wanted, "{line}");
    }
    let of_host = headline("Out of memory: Killed process 77 (mysqld) total-vm:9kB");
    assert_eq!(of_host, "The kernel killed the server: the host had no memory left");
    let begun = headline("mysqld invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0");
    assert!(begun.starts_with("The kernel looked for a process to kill, because the host"), "{begun}");
}

#[test]
fn a_server_that_was_killed_and_did_not_start_again_is_one_critical_finding() {
    let found = |troubles: &[(TroubleKind, &str)]| {
        let logged = |(kind, line): &(TroubleKind, &str)| LoggedTrouble {
            kind: *kind,
            times: 1,
            line: (*line).to_owned(),
            ..LoggedTrouble::default()
        };
        let window = Window { error_log: troubles.iter().map(logged).collect(), ..Window::default() };
        crate::diagnose(&window).findings
    };
    let kill = (TroubleKind::KilledForMemory, "Out of memory: Killed process 77 (mysqld) total-vm:9kB");
    let ended = (TroubleKind::NotStarted, "systemd[1]: Failed to start MySQL Server.");
    let signal = (TroubleKind::EndedBySignal, "systemd[1]: mysqld.service: Failed with result 'signal'.");
    for all in [found(&[kill, ended]), found(&[signal, kill, ended])] {
        assert_eq!(all.len(), 1, "{all:#?}");
        assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Critical));
        assert_eq!(
            all[0].headline,
            "The kernel killed the server, because the host had no memory left, and it did not start again"
        );
        assert!(all[0].remedies[0].statement.contains("in the option file"), "{:?}", all[0].remedies);
        assert!(all[0].remedies[1].statement.contains("first [ERROR]"), "{:?}", all[0].remedies);
    }
    let no_memory = (TroubleKind::NoMemory, "Cannot allocate memory for the buffer pool");
    // A server without memory for its start serves nobody.
    let start = found(&[no_memory, ended]);
    assert_eq!((start.len(), start[0].severity), (1, Severity::Critical), "{start:#?}");
    assert_eq!(found(&[no_memory])[0].severity, Severity::Warning);
    let refused = found(&[kill, no_memory, ended]);
    assert_eq!((refused.len(), refused[0].remedies.len()), (1, 1), "{refused:#?}");
    // Its start has a reason of its own: an option is not memory.
    let option = (TroubleKind::OptionRefused, "unknown variable 'innodb_foo=1'");
    let both = found(&[kill, option, ended]);
    assert_eq!(both.len(), 2, "{both:#?}");
    assert_eq!(both[0].cause, "server-stopped");
    assert_eq!(both[1].headline, "The kernel killed the server: the host had no memory left");
    // Who asked for memory need not be who was killed.
    let asked = (TroubleKind::KilledForMemory, "mysqld invoked oom-killer: gfp_mask=0xcc0, order=0");
    assert_eq!(found(&[asked, ended]).len(), 2);
}

#[test]
fn what_the_server_and_others_have_is_said_and_a_pool_that_fits() {
    let finding = crate::diagnose(&fires()).findings.remove(0);
    assert_eq!(
        finding.headline,
        "The control group uses 8 GiB of the 8 GiB that it may, and some task waits for memory 40 % of the time"
    );
    assert!(
        finding.why.contains("7 GiB resident") && finding.why.contains("1 GiB are others'"),
        "{}",
        finding.why
    );
    assert_eq!(finding.remedies[0].statement, "SET GLOBAL innodb_buffer_pool_size = 5583457485");
    let hits = finding.evidence.iter().find(|one| one.reading == "it met its limit").unwrap();
    assert_eq!(hits.value, spindoctor_model::Value::Number(400.0));
}

#[test]
fn pages_that_come_back_from_swap_are_another_cause() {
    let build = at((8 << 30) - 4096, 0.4, 6 << 30).each(|_, _, host| {
        if let Reading::Available { value: process, .. } = &mut host.process {
            process.swapped_bytes = 1 << 30;
        }
    });
    let window = build.window();
    assert_eq!(evaluate(&window), Outcome::Clear);
    assert_eq!(crate::diagnose(&window).findings[0].cause, "swapping");
}

#[test]
fn a_pool_that_will_not_fit_is_a_note_before_anybody_waits() {
    let Outcome::Fired(finding) = evaluate(&at(3 << 30, 0.0, 10 << 30).window()) else { panic!() };
    assert_eq!(finding.severity, spindoctor_model::Severity::Note);
    assert!(finding.headline.contains("reserve 10 GiB"), "{}", finding.headline);
    assert_eq!(finding.remedies[0].statement, "SET GLOBAL innodb_buffer_pool_size = 6442450944");
    assert_eq!(evaluate(&at(3 << 30, 0.0, 6 << 30).window()), Outcome::Clear);
}

#[test]
fn the_host_is_short_too_and_memory_high_bounds_before_the_limit() {
    let host = at(3 << 30, 0.3, 6 << 30).each(|_, _, host| {
        if let Reading::Available { value: memory, .. } = &mut host.memory {
            memory.available_bytes = 1 << 30;
        }
    });
    let Outcome::Fired(finding) = evaluate(&host.window()) else { panic!() };
    assert!(finding.headline.starts_with("1 GiB of the host's 64 GiB"), "{}", finding.headline);
    let throttled = at(6 << 30, 0.3, 5 << 30).each(|_, _, host| {
        if let Reading::Available { value: memory, .. } = &mut host.memory {
            memory.cgroup_high_bytes = Some(6 << 30);
        }
    });
    let Outcome::Fired(finding) = evaluate(&throttled.window()) else { panic!() };
    assert!(finding.headline.contains("6 GiB of the 6 GiB"), "{}", finding.headline);
}

/// A group that keeps so many hundredths of its limit, by memory.stat, and so many bytes more after so long.
fn full(hundredths: u64, more: impl Fn(f64) -> f64, swap_free: u64) -> Build {
    at((8 << 30) - 4096, 0.0, 6 << 30).each(|at_s, _, host| {
        if let Reading::Available { value: memory, .. } = &mut host.memory {
            memory.cgroup_kept_bytes = Some((8 << 30) / 100 * hundredths + more(at_s) as u64);
            (memory.swap_total_bytes, memory.swap_free_bytes) = (swap_free, swap_free);
        }
    })
}

/// The finding where it grows by so many bytes a second.
fn kept(hundredths: u64, grows: f64, swap_free: u64) -> Option<Finding> {
    examine(&full(hundredths, |at_s| at_s * grows, swap_free).window()).unwrap()
}

#[test]
fn a_group_full_of_memory_that_stays_is_found_before_anybody_waits() {
    let steady = kept(92, 0.0, 0).unwrap();
    assert!(steady.headline.contains("has 92 % of its limit of 8 GiB"), "{}", steady.headline);
    assert_eq!(steady.severity, Severity::Note);
    assert!(steady.remedies[0].statement.contains("memory_by_thread_by_current_bytes"));
    assert_eq!(kept(92, 5e6, 0).unwrap().severity, Severity::Warning);
    assert_eq!(kept(92, 1e6, 0).unwrap().severity, Severity::Note, "what comes and goes is no growth");
    assert_eq!(kept(96, 0.0, 0).unwrap().severity, Severity::Warning);
}

#[test]
fn memory_that_grew_once_or_fills_the_buffer_pool_is_no_growth() {
    let severity = |build: Build| examine(&build.window()).unwrap().unwrap().severity;
    let once = |at_s: f64| if at_s < 3.0 { 0.0 } else { 80e6 };
    assert_eq!(severity(full(92, once, 0)), Severity::Note);
    // Of 6 GiB so many bytes are free, and each second 16 MB of them less.
    let fills = |build: Build| {
        build.each(|at_s, server, _| {
            if let Reading::Available { value: status, .. } = &mut server.status {
                status.insert("Innodb_page_size", "16384");
                status.insert("Innodb_buffer_pool_pages_free", format!("{:.0}", 90_000.0 - at_s * 1_000.0));
            }
        })
    };
    assert_eq!(severity(fills(full(92, |at_s| at_s * 16.384e6, 0))), Severity::Note);
    assert_eq!(severity(fills(full(92, |at_s| at_s * 22e6, 0))), Severity::Warning);
}

/// As of a recording that keeps the memory of few samples.
#[test]
fn of_two_readings_that_lie_far_apart_the_growth_counts() {
    let severity = |second_s: f64| {
        let mut window = full(92, |at_s| at_s * 20e6, 0).window();
        for sample in &mut window.samples {
            if ![0.0, second_s].contains(&sample.at_s) {
                sample.host.memory = Reading::NotAsked;
            }
        }
        examine(&window).unwrap().unwrap().severity
    };
    assert_eq!(severity(7.0), Severity::Warning);
    assert_eq!(severity(3.0), Severity::Note);
}

#[test]
fn swap_that_the_group_may_not_use_is_none() {
    let of = |left: Option<u64>| {
        let build = full(92, |_| 0.0, 1 << 30).each(|_, _, host| {
            if let Reading::Available { value: memory, .. } = &mut host.memory {
                memory.cgroup_swap_left_bytes = left;
            }
        });
        examine(&build.window()).unwrap()
    };
    let finding = of(Some(0)).unwrap();
    assert!(finding.why.contains("the group may write no more of it to swap"), "{}", finding.why);
    assert_eq!((of(Some(1 << 20)), of(None)), (None, None));
}

#[test]
fn page_cache_swap_and_room_are_no_end_of_memory() {
    assert_eq!(kept(20, 0.0, 0), None);
    assert_eq!(kept(85, 0.0, 0), None);
    assert_eq!(kept(92, 0.0, 1 << 30), None);
    let no_group = at(1, 0.0, 6 << 30).each(|_, _, host| {
        if let Reading::Available { value: memory, .. } = &mut host.memory {
            memory.cgroup_limit_bytes = None;
            memory.cgroup_used_bytes = None;
        }
    });
    assert_eq!(examine(&no_group.window()), Ok(None));
}
