//! Programs that lie about themselves: nothing that they name makes the profiler open what they choose, wait, or die.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use spindoctor_stacks::module::Modules;
use spindoctor_stacks::names::Names;

use crate::program::{Built, Running, SOURCES, Walked};
use crate::split;

/// A walk that has not ended by now waits for something that the program chose.
const PATIENCE: Duration = Duration::from_secs(60);

/// Walks on a thread of its own, and fails where that does not end.
fn walk_in_time(running: Running) -> Walked {
    let (send, receive) = mpsc::channel();
    let walker = std::thread::spawn(move || {
        let walked = running.walk();
        let _ = send.send(());
        walked
    });
    receive
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("the walk waits for a file that the program chose"));
    walker.join().unwrap()
}

/// Puts a `.gnu_debuglink` into a program that names something, with a checksum of zero.
fn link_to(built: &Built, name: &str) {
    let mut section = name.as_bytes().to_vec();
    section.push(0);
    section.resize(section.len().next_multiple_of(4), 0);
    section.extend_from_slice(&[0; 4]);
    fs::write(built.folder.path().join("link"), section).unwrap();
    built.run("objcopy", &["--add-section", ".gnu_debuglink=link", "program"]);
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
}

#[test]
fn a_debug_link_to_a_fifo_or_a_device_is_not_opened() {
    let built = Built::with(&["-O2", "-Wl,--build-id=none"]);
    fifo(&built.folder.path().join("waits"));
    fs::create_dir(built.folder.path().join(".debug")).unwrap();
    fifo(&built.folder.path().join(".debug/waits"));
    link_to(&built, "waits");
    walk_in_time(built.start(&["visible"])).assert_calls(&["wait_here", "hidden", "visible", "main"]);

    let up = "../".repeat(built.folder.path().components().count());
    for hostile in [format!("{up}dev/zero"), "/dev/zero".to_owned(), "..".to_owned(), "a".repeat(3_000)] {
        let built = Built::with(&["-O2", "-Wl,--build-id=none"]);
        link_to(&built, &hostile);
        walk_in_time(built.start(&["visible"])).assert_calls(&["wait_here", "hidden", "visible", "main"]);
    }
}

#[test]
fn a_debug_link_that_leaves_its_folder_is_not_followed() {
    // The right file, by its checksum too: only where it lies is wrong.
    let built = Built::with(&["-O2", "-g", "-Wl,--build-id=none"]);
    split(&built, "program.debug");
    assert!(built.start(&["outer"]).walk().names().contains(&"outer"), "it counts in its place");
    fs::create_dir(built.folder.path().join("below")).unwrap();
    let mut program = fs::read(built.path()).unwrap();
    let debug = fs::read(built.folder.path().join("program.debug")).unwrap();
    let place = program.windows(14).position(|bytes| bytes == b"program.debug\0").unwrap();
    // The same length, so that the section stays as it is.
    program[place..place + 13].copy_from_slice(b"below/a.debug");
    fs::write(built.path(), program).unwrap();
    fs::write(built.folder.path().join("below/a.debug"), debug).unwrap();
    let names = built.start(&["outer"]).walk();
    assert!(!names.names().contains(&"outer"), "{:?}", names.names());
}

#[test]
fn a_debug_link_to_a_huge_file_or_through_a_loop_of_links_ends() {
    for make in [
        // 16 TiB, of which nothing is on the disk.
        |place: &Path| fs::File::create(place).unwrap().set_len(1 << 33 | 1).unwrap(),
        |place: &Path| symlink("program.debug", place).unwrap(),
        |place: &Path| symlink("/dev/zero", place).unwrap(),
        |place: &Path| fs::create_dir(place).unwrap(),
    ] {
        let built = Built::with(&["-O2", "-Wl,--build-id=none"]);
        link_to(&built, "program.debug");
        make(&built.folder.path().join("program.debug"));
        walk_in_time(built.start(&["visible"])).assert_calls(&["wait_here", "hidden", "visible", "main"]);
    }
}

#[test]
fn a_link_to_what_debug_files_share_leads_to_its_folder_alone() {
    let built = Built::with(&["-O2", "-g"]);
    fifo(&built.folder.path().join("waits"));
    let mut section = b"waits\0".to_vec();
    section.extend_from_slice(&[0xab; 20]);
    fs::write(built.folder.path().join("link"), section).unwrap();
    built.run("objcopy", &["--add-section", ".gnu_debugaltlink=link", "program"]);
    walk_in_time(built.start(&["outer"])).assert_calls(&[
        "wait_here",
        "innermost",
        "middle",
        "outer",
        "main",
    ]);
}

#[test]
fn a_file_that_split_debug_information_names_is_not_opened() {
    // The unit names its `.dwo`, which is a FIFO by now.
    let built = Built::with(&["-O2", "-g", "-gsplit-dwarf"]);
    let mut named = 0;
    for entry in fs::read_dir(built.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "dwo") {
            fs::remove_file(&path).unwrap();
            fifo(&path);
            named += 1;
        }
    }
    assert!(named > 0, "the compiler wrote no .dwo");
    fifo(&built.folder.path().join("program.dwp"));
    walk_in_time(built.start(&["visible"])).assert_calls(&["wait_here", "hidden", "visible", "main"]);
}

/// Every function of a process's library that can be named, by addresses 16 bytes apart.
fn names_in(modules: &mut Modules, addresses: &[u64]) -> usize {
    let mut names = Names::new();
    let mut named = 0;
    for &address in addresses {
        let _ = modules.code(address, 64);
        let frames = names.frames(modules, address, false);
        assert!(!frames.is_empty());
        named += usize::from(!frames[0].name.contains('+') && !frames[0].name.starts_with('['));
    }
    named
}

#[test]
fn a_library_that_is_cut_short_while_it_is_looked_at_kills_nobody() {
    let built = Built::with(&["-O2"]);
    let source = Path::new(SOURCES).join("library.c");
    built.run(
        "cc",
        &["-O2", "-g", "-shared", "-fPIC", "-nostdlib", "-o", "library.so", source.to_str().unwrap()],
    );
    let library = built.folder.path().join("library.so");
    let running = built.start_with(Command::new(built.path()).arg("visible").env("LD_PRELOAD", &library));
    running.wait_until_asleep();
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.pid)).unwrap();
    let mapped = maps.lines().find(|line| line.contains("r-xp") && line.ends_with("library.so")).unwrap();
    let (start, end) = mapped.split_once(' ').unwrap().0.split_once('-').unwrap();
    let address = |text| u64::from_str_radix(text, 16).unwrap();
    let addresses: Vec<u64> = (address(start)..address(end)).step_by(16).collect();
    let whole = names_in(&mut Modules::of_process(running.pid).unwrap(), &addresses);
    assert!(whole > 0);
    // Opened when it was whole, read when it is not.
    let mut before = Modules::of_process(running.pid).unwrap();
    assert!(before.place(addresses[0]).is_some());
    fs::File::options().write(true).open(&library).unwrap().set_len(100).unwrap();
    let mut after = Modules::of_process(running.pid).unwrap();
    for modules in [&mut before, &mut after] {
        assert!(names_in(modules, &addresses) < whole);
    }
}

#[test]
fn a_file_that_is_replaced_by_another_is_not_taken_for_it() {
    // Not by what `/proc/PID/exe` leads to: by the file that the debug link names, which is now a link to a device.
    let built = Built::with(&["-O2", "-g", "-Wl,--build-id=sha1"]);
    split(&built, "program.debug");
    let running = built.start(&["outer"]);
    let debug = built.folder.path().join("program.debug");
    fs::remove_file(&debug).unwrap();
    symlink("/dev/zero", &debug).unwrap();
    let walked = walk_in_time(running);
    assert!(!walked.names().contains(&"outer"), "{:?}", walked.names());
}
