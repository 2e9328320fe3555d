//! Programs that cc compiles here, which wait in known places: walked and named.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

mod containers;
mod hostile;
mod program;
mod stepping;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use program::{Built, SOURCES, Stopped, Walked, wait_until_ready};
use spindoctor_model::stack::{Frame, StackEnd};
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::names::Names;
use spindoctor_stacks::process_memory;
use spindoctor_stacks::registers::Registers;
use spindoctor_stacks::unwind::{Copied, MAX_FRAMES, Unwinder};

#[test]
fn without_frame_pointers_a_stack_is_walked_to_its_root() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let walked = built.start(&["visible"]).walk();
    walked.assert_calls(&["wait_here", "hidden", "visible", "main"]);
    assert!(walked.names()[0].contains("pause"), "{walked:#?}");
}

#[test]
fn without_unwind_tables_the_frame_pointers_are_followed() {
    let built = Built::with(&[
        "-O1",
        "-fno-omit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ]);
    built.start(&["visible"]).walk().assert_calls(&["wait_here", "hidden", "visible", "main"]);
}

#[test]
fn a_signal_leads_to_what_it_interrupted() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let walked = built.start(&["signalled"]).walk();
    let names = walked.names();
    let at = |wanted| names.iter().position(|name| *name == wanted).unwrap_or_else(|| panic!("{names:?}"));
    assert_eq!(walked.end, StackEnd::Root, "{names:?}");
    assert_eq!(at("on_signal") + 1, at("wait_here") + 2);
    // The signal's trampoline stands between the handler and raise.
    assert_eq!(walked.interrupted, [at("on_signal") + 2], "{names:?}");
    assert!(at("on_signal") < at("signalled") && at("signalled") + 1 == at("main"), "{names:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_signal_at_the_first_instruction_of_code_made_at_run_time_is_placed_there() {
    let built = Built::with(&["-O1", "-fno-omit-frame-pointer"]);
    let running = built.start(&["interrupted"]);
    let walked = running.walk();
    let names = walked.names();
    let at = walked.interrupted[0];
    assert_eq!(names[at], "[unknown]", "{names:?}");
    assert_eq!(walked.addresses[at] % 4096, 0, "{names:?}");
    // That code has no frame of its own: by the frame pointer its caller's caller is the next.
    assert_eq!(names[at + 1], "main", "{names:?}");
    assert_eq!(walked.end, StackEnd::Root);
}

#[test]
fn a_function_that_aligns_its_stack_is_left_by_its_expression() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    built.start(&["aligned", "300"]).walk().assert_calls(&["wait_here", "aligned", "main"]);
}

#[test]
fn deep_recursion_is_followed_up_to_a_limit() {
    let built = Built::with(&["-O1"]);
    let walked = built.start(&["deep", "300"]).walk();
    assert_eq!(walked.names().iter().filter(|name| **name == "deep").count(), 301);
    assert_eq!(walked.end, StackEnd::Root);
    let walked = built.start(&["deep", "5000"]).walk();
    assert_eq!(walked.addresses.len(), MAX_FRAMES);
    assert_eq!(walked.end, StackEnd::Cut(format!("it is deeper than {MAX_FRAMES} frames")));
}

#[test]
fn inlined_calls_are_frames_with_file_and_line() {
    let built = Built::with(&["-O2", "-g"]);
    let walked = built.start(&["outer"]).walk();
    walked.assert_calls(&["wait_here", "innermost", "middle", "outer", "main"]);
    let line = |name| walked.frame(name).location.clone().unwrap();
    assert!(walked.frame("middle").inlined && walked.frame("innermost").inlined);
    assert!(!walked.frame("outer").inlined);
    assert_eq!(walked.frame("middle").address, walked.frame("outer").address);
    let (file, of_innermost) = line("innermost");
    assert!(file.ends_with("program.c"), "{file}");
    let source = fs::read_to_string(Path::new(SOURCES).join("program.c")).unwrap();
    let declared =
        |what: &str| 1 + u32::try_from(source.lines().position(|line| line.contains(what)).unwrap()).unwrap();
    assert_eq!(of_innermost, declared("void innermost(void)"));
    assert_eq!(line("middle").1, declared("void middle(void)"));
    assert_eq!(line("outer").1, declared("outer(void)"));
}

/// Splits the debug information off, as Debian does.
pub(crate) fn split(built: &Built, debug: &str) {
    built.run("objcopy", &["--only-keep-debug", "program", debug]);
    built.run("strip", &["program"]);
    built.run("objcopy", &[&format!("--add-gnu-debuglink={debug}"), "program"]);
}

#[test]
fn split_debug_information_is_found_by_its_link_and_only_the_right_one() {
    for build_id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        let built = Built::with(&["-O2", "-g", build_id]);
        split(&built, "program.debug");
        let running = built.start(&["outer"]);
        let walked = running.walk();
        walked.assert_calls(&["wait_here", "innermost", "middle", "outer", "main"]);
        // One of another build does not count.
        fs::remove_file(built.folder.path().join("program.debug")).unwrap();
        let other = Built::with(&["-O1", "-g", build_id]);
        fs::copy(other.path(), built.folder.path().join("program.debug")).unwrap();
        let names = running.walk();
        assert!(!names.names().contains(&"outer"), "{:?}", names.names());
    }
}

#[test]
fn a_static_function_of_a_stripped_program_is_never_called_by_its_neighbour() {
    // -rdynamic: .dynsym has what is not static, as in a stripped server.
    let built = Built::with(&["-O2", "-rdynamic"]);
    let symbols = Command::new("nm").arg(built.path()).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let start = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split_once(' ').unwrap().0, 16).unwrap()
    };
    built.run("strip", &["program"]);
    let walked = built.start(&["visible"]).walk();
    walked.assert_calls(&["visible", "main"]);
    let names = walked.names();
    let at = names.iter().position(|name| *name == "visible").unwrap();
    for (index, function) in [(at - 1, "hidden"), (at - 2, "wait_here")] {
        let address = walked.frames[index].address;
        assert_eq!(names[index], format!("program+{address:#x}"));
        let within = address - start(function);
        assert!((1..64).contains(&within), "{function} {within:#x} {names:?}");
    }
}

#[test]
fn a_symbol_table_packed_into_gnu_debugdata_names_static_functions() {
    let built = Built::with(&["-O2"]);
    built.run("objcopy", &["--only-keep-debug", "program", "mini"]);
    built.run("xz", &["mini"]);
    built.run("strip", &["program"]);
    built.run("objcopy", &["--add-section", ".gnu_debugdata=mini.xz", "program"]);
    built.start(&["visible"]).walk().assert_calls(&["wait_here", "hidden", "visible", "main"]);
}

#[test]
fn the_cache_of_debuginfod_gives_names_to_a_stripped_program() {
    let built = Built::with(&["-O2", "-g", "-Wl,--build-id=sha1"]);
    built.run("objcopy", &["--only-keep-debug", "program", "elsewhere"]);
    built.run("strip", &["program"]);
    let running = built.start(&["visible"]);
    let mut modules = Modules::of_process(running.pid).unwrap();
    let stopped = running.stop();
    Walked::new(&mut modules, &stopped);
    // It has the same file for everybody: what is not the asker's own debug file must not be believed.
    let cache = built.folder.path().join("cache");
    for build_id in modules.described().into_iter().filter_map(|module| module.build_id) {
        fs::create_dir_all(cache.join(&build_id)).unwrap();
        fs::copy(built.folder.path().join("elsewhere"), cache.join(&build_id).join("debuginfo")).unwrap();
    }
    // Nobody listens there.
    let mut names = Names::with_debuginfod("https://127.0.0.1:1", cache, Duration::from_secs(60));
    let walked = Walked::with(&mut modules, &stopped, &mut names);
    let known: Vec<&str> = walked.names();
    let at = known.iter().position(|name| *name == "visible").unwrap_or_else(|| panic!("{known:?}"));
    assert_eq!(known[at - 2..=at + 1], ["wait_here", "hidden", "visible", "main"]);
    assert!(walked.frame("hidden").location.is_some());
    let in_source =
        |frame: &&Frame| frame.location.as_ref().is_some_and(|(file, _)| file.ends_with("program.c"));
    let of_program = walked.frame("hidden").module;
    let stray: Vec<&Frame> =
        walked.frames.iter().filter(in_source).filter(|frame| frame.module != of_program).collect();
    assert!(stray.is_empty(), "{stray:#?}");
}

#[test]
fn a_program_that_was_deleted_or_replaced_keeps_its_names() {
    let built = Built::with(&["-O2"]);
    let running = built.start(&["visible"]);
    fs::remove_file(built.path()).unwrap();
    running.walk().assert_calls(&["wait_here", "hidden", "visible", "main"]);
    fs::write(built.path(), b"\x7fELF of the next version").unwrap();
    let mut modules = Modules::of_process(running.pid).unwrap();
    Walked::new(&mut modules, &running.stop()).assert_calls(&["wait_here", "hidden", "visible", "main"]);
    assert!(modules.described().iter().any(|module| module.path == built.path().to_str().unwrap()));
}

#[test]
fn a_library_that_is_loaded_later_is_found() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let source = Path::new(SOURCES).join("library.c");
    built.run(
        "cc",
        &["-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-o", "late.so", source.to_str().unwrap()],
    );
    let mut running = built.start(&["load", "./late.so"]);
    let mut modules = Modules::of_process(running.pid).unwrap();
    let before = modules.generation();
    Walked::new(&mut modules, &running.stop()).assert_calls(&["loading", "main"]);
    running.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_until_ready(&mut running.output);
    running.wait_until_asleep();
    assert!(modules.refresh().unwrap() && modules.generation() > before);
    assert!(!modules.refresh().unwrap(), "nothing was loaded since");
    Walked::new(&mut modules, &running.stop()).assert_calls(&[
        "wait_here",
        "of_the_library",
        "loading",
        "main",
    ]);
}

#[test]
fn a_static_position_independent_program_is_walked() {
    let built = Built::with(&["-O2", "-static-pie", "-fPIE", "-DNO_DLOPEN"]);
    built.start(&["visible"]).walk().assert_calls(&["wait_here", "hidden", "visible", "main"]);
    let fixed = Built::with(&["-O2", "-no-pie"]);
    fixed.start(&["visible"]).walk().assert_calls(&["wait_here", "hidden", "visible", "main"]);
}

#[test]
fn a_thread_in_the_vdso_is_walked_out_of_it() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let running = built.start_with(Command::new(built.path()).arg("time"));
    let mut modules = Modules::of_process(running.pid).unwrap();
    // Most of the time goes by in there: one stop in a thousand is more than enough.
    for _ in 0..1000 {
        let stopped = running.stop();
        let place = modules.place(stopped.registers.pc).unwrap();
        let described = modules.described();
        if place.module.is_none_or(|module| described[module as usize].path != "[vdso]") {
            continue;
        }
        let walked = Walked::new(&mut modules, &stopped);
        walked.assert_calls(&["telling_time", "main"]);
        assert!(modules.code(stopped.registers.pc, 16).is_some_and(|code| !code.is_empty()));
        return;
    }
    panic!("the thread was never seen in the vDSO");
}

#[test]
fn code_is_what_the_processor_runs() {
    let built = Built::with(&["-O2"]);
    let running = built.start(&["visible"]);
    let mut modules = Modules::of_process(running.pid).unwrap();
    let pc = running.stop().registers.pc;
    let mut memory = [0; 32];
    process_memory::read(running.pid, pc, &mut memory).unwrap();
    assert_eq!(modules.code(pc, 32).as_deref(), Some(&memory[..]));
    assert_eq!(modules.code(16, 32), None);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_program_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let built = Built { folder };
    // pause() by int 0x80, and "ready\n" before: no 32-bit library is needed.
    let source = "static const char ready[] = \"ready\\n\";\n\
        void _start(void) {\n  __asm__ volatile(\"int $0x80\" :: \"a\"(4), \"b\"(1), \"c\"(ready), \"d\"(6));\n\
        for (;;) __asm__ volatile(\"int $0x80\" :: \"a\"(29));\n}\n";
    fs::write(built.folder.path().join("small.c"), source).unwrap();
    built.run("cc", &["-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie", "-o", "program", "small.c"]);
    let running = built.start(&[]);
    let error = Modules::of_process(running.pid).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot read /proc/{}/exe: it is a 32-bit file, and only 64-bit programs can be walked",
            running.pid
        )
    );
}

#[test]
fn a_process_that_is_gone_is_said_so() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let error = Modules::of_process(child.id()).unwrap_err().to_string();
    assert_eq!(error, format!("there is no process {}: it ended, or --pid is wrong", child.id()));
}

#[test]
fn what_is_not_known_cuts_the_walk_and_says_why() {
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let running = built.start(&["visible"]);
    let stopped = running.stop();
    let mut modules = Modules::of_process(running.pid).unwrap();
    // These functions need no frame pointer.
    let without = Registers { fp: None, ..stopped.registers };
    let walked = Walked::new(&mut modules, &Stopped { registers: without, stack: stopped.stack.clone() });
    walked.assert_calls(&["wait_here", "hidden", "visible", "main"]);
    // A short copy ends where it ends.
    let mut addresses = Vec::new();
    let short = Copied { start: stopped.registers.sp, bytes: &stopped.stack[..16], whole: false };
    let end = Unwinder::new().walk(&mut modules, &stopped.registers, short, &mut addresses);
    assert_eq!(end, StackEnd::Cut("copied 1 KiB of the stack, and it is longer".to_owned()));
    assert!(!addresses.is_empty() && addresses.len() < walked.addresses.len());
    // These do.
    let kept = Built::with(&["-O1", "-fno-omit-frame-pointer"]).start(&["visible"]);
    let stopped = kept.stop();
    let without = Registers { fp: None, ..stopped.registers };
    let mut modules = Modules::of_process(kept.pid).unwrap();
    let walked = Walked::new(&mut modules, &Stopped { registers: without, stack: stopped.stack });
    let why = "the frame pointer is not known, and the way to the caller needs it";
    assert_eq!(walked.end, StackEnd::Cut(why.to_owned()));
}

#[test]
fn a_musl_program_without_unwind_tables_says_why_its_walk_is_cut() {
    let built = Built::with(&["-O2"]);
    let source = Path::new(SOURCES).join("program.c");
    built.run("musl-gcc", &["-O2", "-static", "-DNO_DLOPEN", "-o", "program", source.to_str().unwrap()]);
    let walked = built.start(&["visible"]).walk();
    // musl is built without tables, and its system calls use the frame pointer for something else.
    let StackEnd::Cut(why) = &walked.end else { panic!("{walked:#?}") };
    assert!(why.starts_with("no unwind information at 0x"), "{why}");
    assert!(walked.names()[0].contains("syscall"), "{:?}", walked.names());
}
