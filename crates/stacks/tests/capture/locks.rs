//! Who holds what threads wait for, read from the memory of real processes, `locks.c`.

use std::process::Command;
use std::time::Instant;

use spindoctor_model::Profile;
use spindoctor_model::stack::StackSource;
use spindoctor_model::wait_graph::{FutexKind, FutexWait};
use spindoctor_stacks::{Profiler, ProfilerOptions};

use crate::target::{Program, Target, again, is_root, said_by, sources, target_of_environment, until, wrap};

fn start(mode: &str) -> Target {
    start_built("cc", "-pthread", mode)
}

fn start_built(compiler: &str, option: &str, mode: &str) -> Target {
    let program = Program::build_from(compiler, option, "locks.c");
    let mut command = Command::new(program.path());
    Target::run(program, command.arg(mode))
}

/// Snapshots until as many threads wait as are wanted: they may be on their way.
fn waits_of(pid: u32, source: StackSource, wanted: usize) -> Profile {
    let options = ProfilerOptions { source: Some(source), cpu: false, ..ProfilerOptions::default() };
    let mut profiler = Profiler::start(pid, options).unwrap();
    let mut seen = Vec::new();
    until(&format!("{wanted} wait for locks by {source:?}"), || {
        profiler.snapshot().unwrap();
        seen.clone_from(&profiler.read_futex_waits().waits);
        seen.len() == wanted
    });
    let profile = profiler.finish();
    assert_eq!(profile.futex_waits, seen);
    profile
}

fn name_of(profile: &Profile, thread_os_id: u64) -> &str {
    let named = profile.threads.iter().find(|thread| u64::from(thread.tid) == thread_os_id);
    &named.unwrap_or_else(|| panic!("{thread_os_id} was not seen")).name
}

/// `waiter wants_mutex of holder`, each once.
fn wait_lines(profile: &Profile) -> Vec<String> {
    let of = |id: Option<u64>, has_ended| match id {
        None => "nobody known".to_owned(),
        Some(_) if has_ended => "one that ended".to_owned(),
        Some(id) => name_of(profile, id).to_owned(),
    };
    let line = |wait: &FutexWait| {
        let behind = wait.behind.map_or(String::new(), |behind| {
            format!(", behind it a mutex of {}", of(behind.owner_os_id, behind.owner_has_ended))
        });
        let readers = match wait.readers {
            0 => String::new(),
            many => format!(" and {many} readers"),
        };
        format!(
            "{} in {}: {:?} of {}{readers}{behind}",
            name_of(profile, wait.thread_os_id),
            wait.asked_by,
            wait.kind,
            of(wait.owner_os_id, wait.owner_has_ended)
        )
    };
    let mut lines: Vec<String> = profile.futex_waits.iter().map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[test]
fn a_convoy_s_waiters_all_name_the_holder_until_it_lets_go() {
    for option in ["-pthread", "-static"] {
        for source in sources() {
            let mut target = start_built("cc", option, "convoy");
            let profile = waits_of(target.pid(), source, 20);
            assert_eq!(
                wait_lines(&profile),
                ["timed in wants_mutex_for_a_day: Mutex of holder", "waiter in wants_mutex: Mutex of holder"],
                "{source:?} {option}"
            );
            let futexes: Vec<u64> = profile.futex_waits.iter().map(|wait| wait.futex).collect();
            assert!(futexes.iter().all(|&futex| futex == futexes[0]));

            target.ask("free");
            assert_eq!(waits_of(target.pid(), source, 0).futex_waits, []);
        }
    }
}

#[test]
fn a_thread_s_pointer_is_what_pthread_self_gives() {
    for source in sources() {
        let mut target = start("convoy");
        let profile = waits_of(target.pid(), source, 20);
        let holder = profile.threads.iter().find(|thread| thread.name == "holder").unwrap();
        if cfg!(target_arch = "aarch64") && source != StackSource::Bpf {
            assert_eq!(holder.thread_pointer, None, "{source:?}");
            continue;
        }
        assert_eq!(holder.thread_pointer, Some(target.ask("count")), "{source:?}");
        let mut pointers: Vec<u64> =
            profile.threads.iter().filter_map(|thread| thread.thread_pointer).collect();
        pointers.sort_unstable();
        pointers.dedup();
        // The first thread's does not lie in its stack.
        let expected = profile.threads.len() - usize::from(source == StackSource::Procfs);
        assert_eq!(pointers.len(), expected, "{source:?}");
    }
}

#[test]
fn how_long_a_thread_waits_grows_and_is_never_more_than_since_its_start() {
    if !is_root() {
        return;
    }
    let begun = Instant::now();
    let target = start("convoy");
    let options =
        ProfilerOptions { source: Some(StackSource::Bpf), cpu: false, ..ProfilerOptions::default() };
    let mut profiler = Profiler::start(target.pid(), options).unwrap();
    until("all of them have waited for a while", || {
        profiler.snapshot().unwrap();
        let waits = &profiler.read_futex_waits().waits;
        let possible = begun.elapsed().as_secs_f64();
        let waited = waits.iter().map(|wait| wait.waited_s.expect("bpf knows it"));
        assert!(waited.clone().all(|waited| waited <= possible), "more than {possible}: {waits:?}");
        waits.len() == 20 && waited.fold(f64::MAX, f64::min) > 0.3
    });
    let profile = profiler.finish();
    let off_cpu_us =
        |name| profile.threads.iter().find(|thread| thread.name == name).unwrap().off_cpu_us.unwrap();
    assert!(off_cpu_us("waiter") > 300_000 && off_cpu_us("holder") > 300_000);
}

#[test]
fn mutexes_of_other_kinds_name_their_holder_too() {
    for (mode, waiters) in [("recursive", 20), ("inherits", 3)] {
        for source in sources() {
            let target = start(mode);
            let lines = wait_lines(&waits_of(target.pid(), source, waiters));
            assert!(
                lines.iter().all(|one| one.ends_with(": Mutex of holder")),
                "{source:?} {mode}: {lines:?}"
            );
        }
    }
}

#[test]
fn of_musl_s_mutexes_which_are_laid_out_otherwise_no_owner_is_named() {
    for source in sources() {
        for mode in ["convoy", "recursive"] {
            let target = start_built("musl-gcc", "-static", mode);
            let lines = wait_lines(&waits_of(target.pid(), source, 20));
            assert!(
                lines.iter().all(|one| one.ends_with(" of nobody known")),
                "{source:?} {mode}: {lines:?}"
            );
        }
    }
}

#[test]
fn a_chain_is_named_link_by_link() {
    for source in sources() {
        let target = start("chain");
        let expected =
            ["between in wants_mutex: Mutex of holder", "waiter in wants_second: Mutex of between"];
        assert_eq!(wait_lines(&waits_of(target.pid(), source, 4)), expected, "{source:?}");
    }
}

#[test]
fn an_owner_that_ended_with_the_mutex_is_said_to_have_ended() {
    for source in sources() {
        let mut target = start("ended");
        let profile = waits_of(target.pid(), source, 2);
        assert_eq!(wait_lines(&profile), ["waiter in wants_mutex: Mutex of one that ended"], "{source:?}");
        assert_eq!(profile.futex_waits[0].owner_os_id, Some(target.ask("count")));
    }
}

#[test]
fn a_thread_that_waits_for_itself_is_named_as_that() {
    for source in sources() {
        let target = start("twice");
        let profile = waits_of(target.pid(), source, 1);
        assert_eq!(wait_lines(&profile), ["waiter in locks_twice: Mutex of waiter"], "{source:?}");
    }
}

#[test]
fn who_waits_for_a_writer_names_it_readers_and_writers_alike() {
    for source in sources() {
        let target = start("writer");
        assert_eq!(
            wait_lines(&waits_of(target.pid(), source, 8)),
            ["reader in wants_to_read: RwLock of holder", "writer in wants_to_write: RwLock of holder"],
            "{source:?}"
        );
    }
}

#[test]
fn who_waits_for_readers_learns_how_many_they_are() {
    for (mode, expected) in [
        ("readers", &["writer in wants_to_write: RwLock of nobody known and 3 readers"][..]),
        (
            "writers-first",
            &[
                "reader in wants_to_read: RwLock of nobody known and 3 readers",
                "writer in wants_to_write: RwLock of nobody known and 3 readers",
            ],
        ),
    ] {
        for source in sources() {
            let target = start(mode);
            let profile = waits_of(target.pid(), source, if mode == "readers" { 2 } else { 5 });
            assert_eq!(wait_lines(&profile), expected, "{source:?} {mode}");
        }
    }
}

#[test]
fn a_condition_is_nobody_s_and_the_mutex_behind_it_names_its_holder() {
    for source in sources() {
        let target = start("condition");
        let behind = "Condition of nobody known, behind it a mutex of holder";
        assert_eq!(
            wait_lines(&waits_of(target.pid(), source, 6)),
            [
                format!("timed in wants_event_within_a_day: {behind}"),
                format!("waiter in wants_event: {behind}")
            ],
            "{source:?}"
        );
    }
}

#[test]
fn who_was_woken_from_a_condition_waits_for_the_mutex_behind_it() {
    for source in sources() {
        let target = start("woken");
        // Those that are on their way wait for the condition still.
        let is_there =
            |profile: &Profile| profile.futex_waits.iter().all(|wait| wait.kind == FutexKind::Mutex);
        let mut profile = Profile::default();
        until("all are woken", || {
            profile = waits_of(target.pid(), source, 6);
            is_there(&profile)
        });
        assert_eq!(
            wait_lines(&profile),
            ["timed in wants_event_within_a_day: Mutex of holder", "waiter in wants_event: Mutex of holder"],
            "{source:?}"
        );
    }
}

#[test]
fn a_lock_that_is_no_mutex_has_no_owner_whatever_lies_where_a_mutex_has_it() {
    for option in ["-pthread", "-static"] {
        for source in sources() {
            let target = start_built("cc", option, "stream");
            let profile = waits_of(target.pid(), source, 2);
            // In a static program `putc` cannot be distinguished from the program's own.
            let asked_by = if option == "-static" { "putc" } else { "wants_stream" };
            let expected = format!("waiter in {asked_by}: Unknown of nobody known");
            assert_eq!(wait_lines(&profile), [expected], "{source:?} {option}");
        }
    }
}

#[test]
fn in_a_mutex_that_changes_hands_all_the_time_nobody_waits_for_one_that_waits_or_for_itself() {
    let target = start("hot");
    for source in sources() {
        if source == StackSource::Ptrace {
            continue; // a thread that is stopped in turn has moved on
        }
        let options = ProfilerOptions { source: Some(source), cpu: false, ..ProfilerOptions::default() };
        let mut profiler = Profiler::start(target.pid(), options).unwrap();
        let mut rounds = 0;
        until("enough waits were seen", || {
            profiler.snapshot().unwrap();
            let waits = &profiler.read_futex_waits().waits;
            for wait in waits {
                // One without a stack is not known to wait for a lock, and may have gone on.
                let waits_too = |owner| {
                    let is_known = |other: &FutexWait| other.kind != FutexKind::Unknown;
                    waits.iter().any(|other| is_known(other) && other.thread_os_id == owner)
                };
                assert!(wait.owner_os_id.is_none_or(|owner| !waits_too(owner)), "{source:?}: {waits:?}");
                assert!(!wait.owner_has_ended, "{source:?}: {wait:?}");
            }
            rounds += usize::from(waits.iter().any(|wait| wait.owner_os_id.is_some()));
            rounds > 50
        });
    }
}

#[test]
fn an_owner_in_another_pid_namespace_has_the_id_of_ours() {
    if !is_root() {
        return;
    }
    let program = Program::build_from("cc", "-pthread", "locks.c");
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program.path()).arg("convoy");
    let unshare = Target::run(program, &mut unshare);
    let outer = unshare.pid();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    for source in sources() {
        let lines = wait_lines(&waits_of(children.trim().parse().unwrap(), source, 20));
        assert!(lines.iter().all(|one| one.ends_with(": Mutex of holder")), "{source:?}: {lines:?}");
    }
}

#[test]
fn where_the_kernel_hides_what_a_thread_waits_on_no_owner_is_named_and_the_note_says_why() {
    if !is_root() {
        return;
    }
    let target = start("convoy");
    let command = again("locks::reads_who_holds_what", &target);
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    // Enough for BPF. By number: setpriv may be older than the kernel's capabilities 38 and 39.
    let capabilities = "+sys_ptrace,+cap_38,+cap_39";
    setpriv.arg(format!("--inh-caps={capabilities}")).arg(format!("--ambient-caps={capabilities}"));
    let said = said_by(wrap(&mut setpriv, &command));
    assert!(said[0].starts_with("20 waits, 0 owners, note: who holds its mutexes is not known"), "{said:?}");
    assert!(said[0].ends_with("grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"), "{said:?}");
}

#[test]
#[ignore = "started by a test"]
fn reads_who_holds_what() {
    let profile = waits_of(target_of_environment(), StackSource::Bpf, 20);
    let owners = profile.futex_waits.iter().filter(|wait| wait.owner_os_id.is_some()).count();
    println!(
        "\nsaid {} waits, {owners} owners, note: {}",
        profile.futex_waits.len(),
        profile.notes.join(", ")
    );
}
