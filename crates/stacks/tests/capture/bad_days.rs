//! Targets that end, stop, or must not be examined; a profiler that is killed.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use spindoctor_model::stack::StackSource;
use spindoctor_stacks::Error;
use spindoctor_stacks::capture::tracee::Tracee;
use spindoctor_stacks::capture::{RawStack, open};

use crate::target::{
    Program, TARGET, Target, again, is_root, is_traced, named, open_by_name, refusal, said_by, signal,
    snapshot_where, sources, state_of, target_of_environment, tasks, until, wrap,
};

const NOBODY: u32 = 65534;

#[test]
fn threads_that_come_and_go_are_no_reason_to_lose_those_that_stay() {
    let mut target = Target::start("churn");
    for source in sources() {
        let before = target.ask("count");
        let mut capture = open_by_name(target.pid(), source);
        // Names are read of threads that have moved.
        let mut readers = BTreeSet::new();
        for _ in 0..50 {
            let snapshot = capture.snapshot().unwrap();
            let mut tids: Vec<u32> = snapshot.threads.iter().map(|thread| thread.tid).collect();
            tids.sort_unstable();
            tids.dedup();
            assert_eq!(tids.len(), snapshot.threads.len(), "{source:?} saw a thread twice");
            readers.extend(named(&snapshot, "reader-").iter().map(|thread| thread.tid));
            let seen = tids.iter().filter(|tid| readers.contains(tid)).count();
            assert!(seen + snapshot.looked.dropped as usize >= 8, "{source:?} lost threads without a word");
        }
        assert!(target.ask("count") > before, "{source:?} stopped it");
    }
}

#[test]
fn a_process_that_ends_is_reported_as_gone() {
    for source in sources() {
        let mut target = Target::start("readers");
        let mut capture = open_by_name(target.pid(), source);
        capture.snapshot().unwrap();
        target.kill();
        assert!(
            matches!(capture.snapshot(), Err(Error::NoProcess(pid)) if pid == target.pid()),
            "{source:?}"
        );
        assert!(matches!(open(target.pid(), Some(source)).map(drop), Err(Error::NoProcess(_))));
    }
}

#[test]
fn a_zombie_a_thread_and_a_32_bit_program_are_refused_in_one_line() {
    let mut zombie = Command::new("true").spawn().unwrap();
    until("the child has ended", || state_of(zombie.id(), zombie.id()) == 'Z');
    let said = refusal(open(zombie.id(), None));
    assert!(said.ends_with("it has ended, and waits for its parent to notice"), "{said}");
    zombie.wait().unwrap();

    let target = Target::start("readers");
    let snapshot = open_by_name(target.pid(), StackSource::Procfs).snapshot().unwrap();
    let said = refusal(open(snapshot.threads[1].tid, None));
    assert!(said.ends_with(&format!("it is a thread of {}: give that id", target.pid())), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("i386");
    std::fs::write(&program, PROGRAM_OF_32_BITS).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    match Command::new(&program).spawn() {
        Ok(mut child) => {
            let said = refusal(open(child.id(), None));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(said.ends_with("it runs 32-bit code, and only 64-bit code can be profiled"), "{said}");
        }
        Err(error) => println!("skipped: this kernel runs no 32-bit code: {error}"),
    }
}

/// An ELF file for i386 that waits for a signal: header, one segment, and `mov $29,%eax; int $0x80; jmp .-7`.
const PROGRAM_OF_32_BITS: &[u8; 93] =
    b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0\x54\x80\x04\x08\x34\0\0\0\0\0\0\0\0\0\0\0\x34\0\x20\0\x01\0\0\0\0\0\0\0\
\x01\0\0\0\0\0\0\0\0\x80\x04\x08\0\x80\x04\x08\x5d\0\0\0\x5d\0\0\0\x05\0\0\0\0\x10\0\0\
\xb8\x1d\0\0\0\xcd\x80\xeb\xf7";

#[test]
fn a_stopped_process_is_seen_and_stays_stopped_until_it_is_continued() {
    let mut target = Target::start("readers");
    let pid = target.pid();
    for source in sources() {
        signal(pid, Signal::STOP);
        let mut capture = open_by_name(pid, source);
        let snapshot = snapshot_where(&mut *capture, |snapshot| {
            snapshot
                .threads
                .iter()
                .all(|thread| thread.state == 'T' && !matches!(thread.stack, RawStack::Unreadable(_)))
        });
        assert_eq!(snapshot.threads.len(), 9, "{source:?}");
        for thread in &snapshot.threads {
            until("it is stopped again", || state_of(pid, thread.tid) == 'T');
        }
        signal(pid, Signal::CONT);
        target.ask("count");
    }
}

#[test]
fn threads_of_a_frozen_control_group_are_seen_and_say_so() {
    if !is_root() {
        return;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let Some(root) = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then(|| place.to_owned())
    }) else {
        println!("skipped: no cgroup2 is mounted");
        return;
    };
    let group = format!("{root}/spindoctor-capture-{}", std::process::id());
    std::fs::create_dir(&group).unwrap();
    let mut target = Target::start("readers");
    std::fs::write(format!("{group}/cgroup.procs"), target.pid().to_string()).unwrap();
    std::fs::write(format!("{group}/cgroup.freeze"), "1").unwrap();
    until("the group is frozen", || {
        std::fs::read_to_string(format!("{group}/cgroup.events")).unwrap().contains("frozen 1")
    });
    for source in [StackSource::Bpf, StackSource::Procfs] {
        let snapshot = open_by_name(target.pid(), source).snapshot().unwrap();
        assert_eq!(snapshot.threads.len(), 9);
        for thread in &snapshot.threads {
            // The kernel's compiler may have put the one function into the other.
            let channel = thread.wait_channel.as_deref().unwrap_or_default();
            assert!(["do_freezer_trap", "get_signal"].contains(&channel), "{source:?}: {channel}");
            assert!(matches!(thread.stack, RawStack::Copied { .. }), "{source:?}: {:?}", thread.stack);
        }
    }
    std::fs::write(format!("{group}/cgroup.freeze"), "0").unwrap();
    target.ask("count");
    target.kill();
    until("the group is empty", || std::fs::remove_dir(&group).is_ok());
}

#[test]
fn a_process_that_is_traced_is_seen_by_all_but_ptrace_which_names_the_tracer() {
    let target = Target::start("readers");
    let _tracee = Tracee::seize(target.pid()).unwrap();
    for source in sources() {
        match source {
            StackSource::Ptrace => {
                let said = refusal(open(target.pid(), Some(source)));
                assert!(
                    said.contains(&format!("process {} traces it already", std::process::id())),
                    "{said}"
                );
            }
            _ => assert_eq!(open_by_name(target.pid(), source).snapshot().unwrap().threads.len(), 9),
        }
    }
    // Only a stopped thread can be let go of; the end of this thread lets go too.
}

#[test]
fn ptrace_delivers_every_signal() {
    const MANY: u64 = 2000;
    let mut target = Target::start("signals");
    let mut capture = open_by_name(target.pid(), StackSource::Ptrace);
    // Real-time signals are queued: none may be missing.
    let (number, pid) = (libc::SIGRTMIN() + 1, target.pid());
    let loop_of_kill = format!("i=0; while [ $i -lt {MANY} ]; do kill -{number} {pid}; i=$((i+1)); done");
    let mut sender = Command::new("sh").arg("-c").arg(loop_of_kill).spawn().unwrap();
    while sender.try_wait().unwrap().is_none() {
        capture.snapshot().unwrap();
    }
    until("all are counted", || target.ask("count") >= MANY);
    assert_eq!(target.ask("count"), MANY);
}

#[test]
fn a_profiler_that_is_killed_leaves_no_thread_stopped() {
    let mut target = Target::start("readers");
    for _ in 0..20 {
        let mut profiler = again("bad_days::takes_snapshots_by_ptrace_for_ever", &target);
        let mut profiler = profiler.stdout(Stdio::null()).spawn().unwrap();
        let tids: Vec<u32> = tasks(target.pid());
        until("a thread is traced", || tids.iter().any(|&tid| is_traced(target.pid(), tid)));
        profiler.kill().unwrap();
        profiler.wait().unwrap();
        for &tid in &tids {
            until("it goes on", || {
                !is_traced(target.pid(), tid) && !"tT".contains(state_of(target.pid(), tid))
            });
        }
        let before = target.ask("count");
        target.ask("poke");
        until("its threads work", || target.ask("count") > before);
    }
}

#[test]
fn another_user_learns_which_capability_is_missing_and_sees_its_own_processes_by_procfs() {
    if !is_root() {
        return;
    }
    let of_root = Target::start("readers");
    let said = said_by(again("bad_days::shows_what_can_be_opened", &of_root).uid(NOBODY).gid(NOBODY));
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].contains("the procfs source cannot be used"), "{said:?}");
    for (line, [source, missing]) in said[1..].iter().zip([
        ["the bpf source cannot be used", "CAP_BPF and CAP_PERFMON"],
        ["the procfs source cannot be used", "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"],
        ["the ptrace source cannot be used", "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"],
    ]) {
        assert!(line.contains(source) && line.contains(missing) && line.contains("run as root"), "{line}");
    }

    let program = Program::build("cc", "-pthread");
    let mut command = Command::new(program.path());
    let of_nobody = Target::run(program, command.arg("readers").uid(NOBODY).gid(NOBODY));
    let said = said_by(again("bad_days::shows_what_can_be_opened", &of_nobody).uid(NOBODY).gid(NOBODY));
    assert!(said[0].starts_with("Procfs: 9 threads, note: the bpf source cannot be used"), "{said:?}");
    assert!(said[2].starts_with("Procfs: 9 threads"), "{said:?}");
    assert!(said[3].starts_with("Ptrace: 9 threads"), "{said:?}");
}

#[test]
fn a_kernel_that_does_not_describe_its_types_is_looked_at_by_procfs_and_the_note_says_why() {
    if !is_root() {
        return;
    }
    let target = Target::start("readers");
    let opens = again("bad_days::shows_what_can_be_opened", &target);
    let mut without_btf = Command::new("unshare");
    without_btf.args(["--mount", "sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "sh"]);
    let said = said_by(wrap(&mut without_btf, &opens));
    assert!(said[0].starts_with("Procfs: 9 threads, note: the bpf source cannot be used"), "{said:?}");
    assert!(said[0].contains("CONFIG_DEBUG_INFO_BTF"), "{said:?}");
    assert!(said[1].starts_with("the bpf source cannot be used"), "{said:?}");
}

#[test]
fn three_capabilities_are_enough_for_bpf() {
    if !is_root() {
        return;
    }
    let target = Target::start("readers");
    let opens = again("bad_days::shows_what_can_be_opened", &target);
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    // By number: setpriv may be older than the kernel's capabilities 38 and 39.
    let capabilities = "+sys_ptrace,+cap_38,+cap_39";
    setpriv.arg(format!("--inh-caps={capabilities}")).arg(format!("--ambient-caps={capabilities}"));
    let said = said_by(wrap(&mut setpriv, &opens));
    assert!(said[0].starts_with("Bpf: 9 threads"), "{said:?}");
}

#[test]
fn a_profiler_in_a_pid_namespace_of_its_own_sees_the_processes_in_it() {
    if !is_root() {
        return;
    }
    let target = Target::start("readers");
    let opens = again("bad_days::shows_what_can_be_opened", &target);
    // A second target inside, where its id and its threads' are small numbers.
    let starts = format!(
        "cd $(dirname {0}) && mkfifo in out && {{ {0} readers <in >out & }} && exec 3>in <out && read ready \
         && {1}=$! exec \"$@\"",
        target.program.path().display(),
        TARGET
    );
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", &starts, "bash"]);
    let said = said_by(wrap(&mut inside, &opens));
    for (line, source) in said[1..].iter().zip(["Bpf", "Procfs", "Ptrace"]) {
        assert!(line.starts_with(&format!("{source}: 9 threads")), "{said:?}");
    }
}

// What follows runs in a process of its own, started by a test.

#[test]
#[ignore = "started by a test"]
fn takes_snapshots_by_ptrace_for_ever() {
    let mut capture = open_by_name(target_of_environment(), StackSource::Ptrace);
    loop {
        capture.snapshot().unwrap();
    }
}

#[test]
#[ignore = "started by a test"]
fn shows_what_can_be_opened() {
    let pid = target_of_environment();
    println!();
    for wanted in [None, Some(StackSource::Bpf), Some(StackSource::Procfs), Some(StackSource::Ptrace)] {
        match open(pid, wanted) {
            Err(error) => println!("said {error}"),
            Ok((mut capture, notes)) => {
                let threads = capture.snapshot().unwrap().threads;
                let read =
                    threads.iter().filter(|thread| matches!(thread.stack, RawStack::Copied { .. })).count();
                println!("said {:?}: {read} threads, note: {}", capture.source(), notes.join(", "));
            }
        }
    }
}
