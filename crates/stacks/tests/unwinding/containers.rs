//! Files that only the process can see by their names, and files that nobody can see any more.

use std::fs;
use std::process::Command;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use spindoctor_stacks::module::Modules;

use crate::program::{Built, Running, SOURCES, Walked, wait_until_ready};
use crate::split;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: namespaces of one's own need root");
    }
    root
}

/// What opens `/proc/PID/map_files`, which an ordinary user has not. Only this thread loses it.
fn without_map_files() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_ADMIN | CapabilitySet::CHECKPOINT_RESTORE);
    set_capabilities(None, sets).unwrap();
}

/// The program as process 1 of a pid namespace, on a file system that nobody else has mounted. `prepare` is run by
/// a shell in there; `how` are the program's arguments.
fn contained(built: &Built, prepare: &str, how: &str) -> Running {
    let script = format!(
        "mount -t tmpfs tmpfs /mnt && cp program /mnt/contained && {prepare} && exec /mnt/contained {how}"
    );
    let mut running = built.start_with(Command::new("unshare").args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        &script,
    ]));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid)).unwrap();
    running.pid = children.trim().parse().unwrap();
    running.wait_until_asleep();
    assert!(!std::path::Path::new("/mnt/contained").exists());
    running
}

#[test]
fn a_program_in_a_container_is_walked_and_named() {
    if !is_root() {
        return;
    }
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let library = format!("{SOURCES}/library.c");
    built.run("cc", &["-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-o", "late.so", &library]);
    let mut running = contained(&built, "cp late.so /mnt && echo > /mnt/go", "load /mnt/late.so < /mnt/go");
    wait_until_ready(&mut running.output);
    running.wait_until_asleep();
    let expected = ["wait_here", "of_the_library", "loading", "main"];
    let stopped = running.stop();
    let mut modules = Modules::of_process(running.pid).unwrap();
    Walked::new(&mut modules, &stopped).assert_calls(&expected);
    let described = modules.described();
    for path in ["/mnt/contained", "/mnt/late.so"] {
        assert!(described.iter().any(|module| module.path == path), "{described:?}");
    }
    // The program by /proc/PID/exe, its library by its name below /proc/PID/root.
    without_map_files();
    Walked::new(&mut Modules::of_process(running.pid).unwrap(), &stopped).assert_calls(&expected);
}

#[test]
fn debug_files_of_a_container_are_found_in_it() {
    if !is_root() {
        return;
    }
    let id = "0123456789abcdef0123456789abcdef01234567";
    let below_usr_lib_debug = |folder: &str, name: &str| {
        let folder = format!("/usr/lib/debug/{folder}");
        format!("mount -t tmpfs tmpfs /usr/lib/debug && mkdir -p {folder} && cp by-link {folder}/{name}")
    };
    for place in [
        "cp by-link /mnt/by-link".to_owned(),
        "mkdir /mnt/.debug && cp by-link /mnt/.debug/by-link".to_owned(),
        below_usr_lib_debug("mnt", "by-link"),
        below_usr_lib_debug(".build-id/01", &format!("{}.debug", &id[2..])),
    ] {
        if place.starts_with("mount") && !std::path::Path::new("/usr/lib/debug").exists() {
            println!("skipped: {place}: there is no such folder to mount it on");
            continue;
        }
        let built = Built::with(&["-O2", "-g", &format!("-Wl,--build-id=0x{id}")]);
        split(&built, "by-link");
        let walked = contained(&built, &place, "visible").walk();
        let names = walked.names();
        assert!(names.contains(&"hidden"), "{place}: {names:?}");
        assert!(walked.frame("hidden").location.is_some(), "{place}: {names:?}");
    }
}

#[test]
fn a_library_that_was_replaced_is_read_from_its_mapping_or_not_at_all() {
    if !is_root() {
        return;
    }
    let built = Built::with(&["-O2", "-fomit-frame-pointer"]);
    let library = format!("{SOURCES}/library.c");
    let flags = ["-O2", "-shared", "-fPIC", "-fno-omit-frame-pointer"];
    built.run("cc", &[&flags[..], &["-o", "late.so", &library]].concat());
    let mut running = built.start(&["load", "./late.so"]);
    std::io::Write::write_all(running.child.stdin.as_mut().unwrap(), b"\n").unwrap();
    wait_until_ready(&mut running.output);
    running.wait_until_asleep();
    let stopped = running.stop();
    let late = built.folder.path().join("late.so");
    fs::remove_file(&late).unwrap();
    fs::copy(built.path(), &late).unwrap();
    let expected = ["wait_here", "of_the_library", "loading", "main"];
    Walked::new(&mut Modules::of_process(running.pid).unwrap(), &stopped).assert_calls(&expected);
    // Nothing of the file that has its name now is believed: its frame is left by the frame pointer, without a name.
    without_map_files();
    let mut modules = Modules::of_process(running.pid).unwrap();
    let walked = Walked::new(&mut modules, &stopped);
    let names = walked.names();
    let at = names.iter().position(|name| *name == "wait_here").unwrap();
    assert!(names[at + 1].starts_with("late.so+0x"), "{names:?}");
    assert!(names[at + 2..].starts_with(&["loading", "main"]), "{names:?}");
    let notes = modules.notes();
    assert!(notes.len() == 1 && notes[0].contains("late.so"), "{notes:?}");
}
