//! What the sources see: the same, each in its own way.

use std::collections::BTreeMap;
use std::process::Command;

use spindoctor_model::stack::{StackEnd, StackSource};
use spindoctor_stacks::capture::{Capture, RawSnapshot, RawStack, RawThread};
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::unwind::{Copied, Unwinder};

use crate::target::{Program, Target, is_root, named, open_by_name, snapshot_where, sources, tasks, until};

/// A source, and its first snapshot: taken again by a new one until no thread was just on its way.
fn first_view(pid: u32, source: StackSource) -> (Box<dyn Capture>, RawSnapshot) {
    let mut view = None;
    until("all threads are blocked", || {
        let mut capture = open_by_name(pid, source);
        let snapshot = capture.snapshot().unwrap();
        let blocked = snapshot.threads.iter().all(|thread| matches!(thread.stack, RawStack::Copied { .. }));
        view = Some((capture, snapshot));
        blocked
    });
    view.unwrap()
}

#[test]
fn every_source_sees_the_same_blocked_threads_and_the_same_bytes() {
    for (compiler, option) in [("cc", "-pthread"), ("cc", "-static"), ("musl-gcc", "-static")] {
        let program = Program::build(compiler, option);
        let mut command = Command::new(program.path());
        sources_agree_on(&Target::run(program, command.arg("readers")));
    }
}

/// How far below the thread pointer glibc's control block begins, at most: on x86-64 it begins there.
const CONTROL_BLOCK: u64 = if cfg!(target_arch = "x86_64") { 0 } else { 4096 };

fn sources_agree_on(target: &Target) {
    let views: Vec<_> = sources()
        .into_iter()
        .map(|source| {
            let (_, snapshot) = first_view(target.pid(), source);
            assert_eq!((snapshot.threads.len(), snapshot.looked.dropped), (9, 0), "{source:?}");
            let view: BTreeMap<_, _> = snapshot
                .threads
                .into_iter()
                .map(|thread| {
                    let registers = thread.registers.unwrap();
                    let RawStack::Copied { start, bytes, whole } = thread.stack else { unreachable!() };
                    assert!(start == registers.sp && bytes.len() > 64);
                    // The others cannot distinguish a stack's end from what the process has mapped right behind it.
                    assert!(whole || source != StackSource::Bpf);
                    let known = (thread.name, thread.state, thread.syscall, thread.arguments[0]);
                    // At its end the kernel notes on which CPU the thread runs (rseq), and a stop may move it.
                    let noted = thread.thread_pointer.and_then(|pointer| pointer.checked_sub(CONTROL_BLOCK));
                    let length = noted
                        .and_then(|noted| noted.checked_sub(start)?.try_into().ok())
                        .map_or(bytes.len(), |length: usize| length.min(bytes.len()));
                    let bytes = &snapshot.stacks[bytes][..length];
                    (thread.tid, (known, registers.pc, start, bytes.to_vec()))
                })
                .collect();
            (source, view)
        })
        .collect();
    let (first, first_view) = &views[0];
    for (source, view) in &views {
        assert!(view.keys().eq(first_view.keys()));
        for (tid, (known, pc, start, bytes)) in view {
            let (first_known, first_pc, first_start, first_bytes) = &first_view[tid];
            assert_eq!((known, pc, start), (first_known, first_pc, first_start), "{source:?}, {first:?}");
            // They may end at different places beyond the thread's first frame.
            let length = bytes.len().min(first_bytes.len());
            assert!(bytes[..length] == first_bytes[..length], "{source:?} and {first:?} differ on {tid}");
            assert_eq!((known.1, known.2), ('S', Some(libc::SYS_read as u64)), "{source:?}");
        }
        let readers = view.values().filter(|(known, ..)| known.0.starts_with("reader-")).count();
        assert_eq!(readers, 8);
    }
}

#[test]
fn frame_pointers_are_shown_where_the_source_has_them() {
    let target = Target::start("readers");
    for source in sources() {
        let snapshot = open_by_name(target.pid(), source).snapshot().unwrap();
        let has_fp = snapshot.threads.iter().all(|thread| thread.registers.unwrap().fp.is_some());
        assert_eq!(has_fp, source != StackSource::Procfs, "{source:?}");
    }
}

#[test]
fn a_thread_that_has_not_moved_is_not_copied_again_and_one_that_has_is() {
    let mut target = Target::start("readers");
    for source in sources() {
        if source == StackSource::Ptrace {
            continue; // stopping a thread moves it
        }
        let (mut capture, first) = first_view(target.pid(), source);
        let reader = |number: u32| named(&first, &format!("reader-{number}"))[0].tid;
        let stack = |snapshot: &RawSnapshot, number| {
            let tid = reader(number);
            snapshot.threads.iter().find(|thread| thread.tid == tid).unwrap().stack.clone()
        };
        let second = capture.snapshot().unwrap();
        assert_eq!(second.threads.len(), first.threads.len());
        for thread in &second.threads {
            assert!(
                matches!(thread.stack, RawStack::Unmoved) && thread.state == 'S',
                "{source:?} {thread:?}"
            );
        }

        target.ask("poke");
        let copied = |snapshot: &RawSnapshot| matches!(stack(snapshot, 0), RawStack::Copied { .. });
        let third = snapshot_where(&mut *capture, copied);
        assert!((1..8).all(|number| matches!(stack(&third, number), RawStack::Unmoved)), "{source:?}");
    }
}

#[test]
fn the_bytes_of_a_thread_that_keeps_moving_are_those_of_one_instant() {
    let target = Target::start("writers");
    for source in sources() {
        let mut capture = open_by_name(target.pid(), source);
        let mut looked_at = 0;
        until("enough stacks were read", || {
            let snapshot = capture.snapshot().unwrap();
            for thread in named(&snapshot, "writer") {
                let RawStack::Copied { bytes, .. } = &thread.stack else { continue };
                let words = snapshot.stacks[bytes.clone()]
                    .chunks_exact(8)
                    .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
                let words: Vec<u64> = words.collect();
                let runs = words.chunk_by(|a, b| a >> 32 == 1 && b >> 32 == 1);
                let numbers = runs.max_by_key(|run| run.len()).unwrap();
                assert_eq!(numbers.len(), 8192);
                // It may have been on its way: the new number in front, the one before behind it.
                let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
                assert!(
                    numbers.is_sorted_by(|a, b| a >= b) && first - last <= 1,
                    "{source:?}: {first} to {last}"
                );
                looked_at += 1;
            }
            looked_at > 300
        });
    }
}

#[test]
fn a_deep_stack_is_cut_and_a_shallow_one_is_whole() {
    let target = Target::start("deep");
    for source in sources() {
        let (_, snapshot) = first_view(target.pid(), source);
        let length = |name: &str| match &named(&snapshot, name)[0].stack {
            RawStack::Copied { bytes, whole, .. } => (bytes.len(), *whole),
            other => panic!("{other:?}"),
        };
        assert_eq!(length("deep"), (128 << 10, false), "{source:?}");
        let (bytes, whole) = length("shallow");
        assert!(bytes > 16 << 10, "{source:?}: {bytes}");
        // The others cannot distinguish a stack's end from what the process has mapped right behind it.
        assert!(whole && bytes < 64 << 10 || source != StackSource::Bpf, "{source:?}: {bytes}");
    }
}

#[test]
fn a_thread_that_runs_has_no_stack_but_for_ptrace_which_stops_it() {
    let target = Target::start("spin");
    for source in sources() {
        let mut capture = open_by_name(target.pid(), source);
        // On a busy machine it may wait for a CPU just then, or for its first turn, until which it has another name.
        let snapshot = snapshot_where(&mut *capture, |snapshot| {
            let thread = named(snapshot, "spin").first().copied();
            thread.is_some_and(|thread| source != StackSource::Bpf || thread.on_cpu)
        });
        let thread = named(&snapshot, "spin")[0];
        assert_eq!(thread.state, 'R', "{source:?}");
        match source {
            StackSource::Ptrace => {
                assert!(matches!(thread.stack, RawStack::Copied { .. }) && thread.syscall.is_none());
                assert!(thread.stopped.as_nanos() > 0);
            }
            StackSource::Bpf => assert!(matches!(thread.stack, RawStack::None)),
            _ => assert!(matches!(&thread.stack, RawStack::Unreadable(why) if why.contains("ran"))),
        }
        if source != StackSource::Ptrace {
            assert!(snapshot.threads.iter().all(|thread| thread.stopped.is_zero()));
        }
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_seen_by_its_others() {
    let target = Target::start("without-first");
    for source in sources() {
        let mut capture = open_by_name(target.pid(), source);
        snapshot_where(&mut *capture, |snapshot| {
            let others = [named(snapshot, "reader-"), named(snapshot, "answers")].concat();
            let first = &snapshot.threads[0];
            (first.state, others.len()) == ('Z', 3)
                && matches!(first.stack, RawStack::Unreadable(_))
                && others.iter().all(|thread| !matches!(thread.stack, RawStack::Unreadable(_)))
        });
    }
}

#[test]
fn threads_of_another_pid_namespace_have_the_ids_of_ours() {
    if !is_root() {
        return;
    }
    let program = Program::build("cc", "-pthread");
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child"]).arg(program.path()).arg("readers");
    let unshare = Target::run(program, &mut unshare);
    let outer = unshare.pid();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let pid: u32 = children.trim().parse().unwrap();
    let mut expected = tasks(pid);
    expected.sort_unstable();
    for source in sources() {
        let (_, snapshot) = first_view(pid, source);
        let mut seen: Vec<u32> = snapshot.threads.iter().map(|thread| thread.tid).collect();
        seen.sort_unstable();
        assert_eq!(seen, expected, "{source:?}");
    }
}

#[test]
fn what_lies_beyond_the_outermost_frame_is_not_copied_where_it_is_not_needed() {
    if !is_root() {
        println!("skipped: the source needs root");
        return;
    }
    let program = Program::build("cc", "-pthread");
    let mut command = Command::new(program.path());
    let target = Target::run(program, command.arg("readers"));
    let (_, all) = first_view(target.pid(), StackSource::Bpf);
    let walked = walks(&target, &all);
    // The first thread's stack lies elsewhere.
    let below = walked.values().filter_map(|walk| walk.pointer.checked_sub(walk.outermost?)).min().unwrap();
    assert!(below > 64, "{walked:?}");

    let mut capture = open_by_name(target.pid(), StackSource::Bpf);
    capture.stacks_end_below_thread_pointer(below);
    let less = capture.snapshot().unwrap();
    assert!(less.stacks.len() < all.stacks.len(), "{} of {}", less.stacks.len(), all.stacks.len());
    assert_eq!(walks(&target, &less), walked);

    // Where too little was asked for, a walk shows it; and what was left out is copied when it is asked for again.
    let mut capture = open_by_name(target.pid(), StackSource::Bpf);
    capture.stacks_end_below_thread_pointer(below + 64);
    let too_little = walks(&target, &capture.snapshot().unwrap());
    let longer = |walk: &Walk| matches!(&walk.end, StackEnd::Cut(why) if why.contains("it is longer"));
    assert!(too_little.values().any(longer), "{too_little:?}");
    capture.stacks_end_below_thread_pointer(0);
    assert_eq!(walks(&target, &capture.snapshot().unwrap()), walked);
}

#[derive(Debug, PartialEq)]
struct Walk {
    addresses: Vec<u64>,
    end: StackEnd,
    outermost: Option<u64>,
    pointer: u64,
}

fn walks(target: &Target, snapshot: &RawSnapshot) -> BTreeMap<u32, Walk> {
    let mut modules = Modules::of_process(target.pid()).unwrap();
    let mut unwinder = Unwinder::new();
    let mut walk = |thread: &RawThread| {
        let RawStack::Copied { start, bytes, whole } = &thread.stack else { panic!("{thread:?}") };
        let stack = Copied { start: *start, bytes: &snapshot.stacks[bytes.clone()], whole: *whole };
        let mut addresses = Vec::new();
        let registers = thread.registers.as_ref().unwrap();
        let end = unwinder.walk(&mut modules, registers, stack, &mut addresses);
        Walk { addresses, end, outermost: unwinder.outermost(), pointer: thread.thread_pointer.unwrap() }
    };
    snapshot.threads.iter().map(|thread| (thread.tid, walk(thread))).collect()
}
