//! `spindoctor stacks` on real servers and on bad days.

use std::process::Command;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::lab::{in_runtime, on_both, runtime, start, with_server};
use crate::program::{complained, printed};
use crate::running::{Running, process};

/// True, with the reason printed, where stacks of other processes may not be read.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
pub(crate) fn may_not_profile() -> bool {
    let skipped = !geteuid().is_root();
    if skipped {
        println!("skipped: reading the stacks of another process needs root");
    }
    skipped
}

/// Does something while a client waits in `SLEEP()`, with a text of a customer in its statement.
fn while_a_client_sleeps(server: &Server, look: impl FnOnce()) {
    const SLEEPERS: &str = "FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
    let wait = |work: &mut dyn FnMut() -> bool| {
        for _ in 0..3000 {
            if work() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the client does not sleep");
    };
    let runtime = runtime();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It is killed in the end, which is an error to it.
            drop(in_runtime(server.execute(["SELECT SLEEP(600), 'hunter2' FROM DUAL"])));
        });
        wait(&mut || {
            let count =
                runtime.block_on(server.ask(&format!("SELECT COUNT(*) {SLEEPERS}"))).expect("an answer");
            count.as_deref() == Some("1")
        });
        look();
        let id = runtime
            .block_on(server.ask(&format!("SELECT id {SLEEPERS}")))
            .expect("an answer")
            .expect("an id");
        runtime.block_on(server.execute([format!("KILL {id}")])).expect("it may be killed");
    });
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn the_stacks_of_both_servers_are_distinguished_by_statement_and_saved_without_its_literals() {
    if may_not_profile() {
        return;
    }
    on_both(|which| {
        with_server(which, |server| {
            while_a_client_sleeps(server, || {
                let folder = tempfile::tempdir().expect("a folder");
                let saved = folder.path().join("seen.spinprof");
                let saved = saved.to_str().expect("UTF-8");
                let socket = server.socket().display();
                let line = format!(
                    "stacks -u root -S {socket} --no-defaults --duration 2s --by digest --json --save {saved}"
                );
                let (text, code) = printed(&line);
                assert_eq!(code, 0, "{text}");
                let profile = json(&text);
                assert_eq!(profile["schema"], "spindoctor.profile/1", "{text}");
                assert_eq!(profile["process"]["pid"], server.pid(), "{text}");
                assert_eq!(profile["threads_stopped"], 0, "{text}");
                let stacks = profile["stacks"].as_array().expect("a list");
                let sleeps =
                    |stack: &&Value| stack["group"].as_str().is_some_and(|group| group.contains("(?)"));
                let sleeping = stacks.iter().find(|stack| {
                    let frames = stack["frames"].as_array().expect("a list");
                    frames
                        .iter()
                        .any(|frame| frame.as_str().is_some_and(|name| name.contains("Item_func_sleep")))
                });
                let sleeping = sleeping.unwrap_or_else(|| panic!("nobody sleeps: {text}"));
                assert!(sleeps(&sleeping), "{sleeping}");
                assert!(!text.contains("hunter2"), "{text}");

                for format in ["text", "folded", "svg", "speedscope", "firefox", "dot", "gdb"] {
                    let (shown, code) =
                        printed(&format!("stacks --load {saved} --by digest --format {format}"));
                    assert_eq!(code, 0, "{format}: {shown}");
                    assert!(shown.contains("Item_func_sleep"), "{format}: {shown}");
                    assert!(!shown.contains("hunter2"), "{format}: {shown}");
                }
                let (again, _) = printed(&format!("stacks --load {saved} --by digest --json"));
                assert_eq!(json(&again), profile, "what was saved is what was seen");
                let (same, code) = printed(&format!("stacks --diff {saved} {saved} --json"));
                assert_eq!((json(&same)["schema"].as_str(), code), (Some("spindoctor.profile-diff/1"), 0));
                let (one, _) = printed(&format!("stacks --load {saved} --grep Item_func_sleep --json"));
                assert_eq!(json(&one)["threads"], 1, "{one}");
            });
        });
    });
}

#[test]
fn what_a_query_costs_is_saved_with_the_machine_and_compared() {
    if may_not_profile() {
        return;
    }
    const RATE: u32 = 200;
    let runtime = runtime();
    let tables = Tables { count: 1, rows: 1_000 };
    let spec = ServerSpec { tables: Some(tables), ..ServerSpec::default() };
    let server = runtime.block_on(start(&spec));
    let load = LoadSpec { workload: Workload::OltpPointSelect, threads: 2, rate: Some(RATE), tables };
    let load = runtime.block_on(async { Load::start(server.socket(), load) }).expect("clients");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let socket = server.socket().display();
    let taken = |name: &str| {
        let line =
            format!("stacks -u root -S {socket} --no-defaults --duration 4s --json --save {}", file(name));
        let (text, code) = printed(&line);
        assert_eq!(code, 0, "{text}");
        json(&text)
    };
    // The first one may meet the clients before they are all there.
    taken("before.spinprof");
    let after = taken("after.spinprof");
    runtime.block_on(load.stop());
    let queries_per_s = after["queries_per_s"].as_f64().expect("a number");
    let expected = f64::from(RATE);
    assert!((0.7 * expected..1.3 * expected).contains(&queries_per_s), "{queries_per_s} of {expected}");
    let cpu_us = after["cpu_us_per_query"].as_f64().expect("a number");
    assert!((1.0..100_000.0).contains(&cpu_us), "{cpu_us}");
    assert!(after["machine"]["cpu"]["name"].is_string() && after["machine"]["kernel"].is_string(), "{after}");
    assert!(after["machine"]["pause"]["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{after}");
    // Counted, or the reason why not.
    assert_ne!(after["cycles_per_query"].is_number(), after["not_counted"].is_string(), "{after}");

    let (text, code) =
        printed(&format!("stacks --diff {} {}", file("before.spinprof"), file("after.spinprof")));
    assert_eq!(code, 0, "{text}");
    for name in ["CPU ", "PAUSE ", "kernel ", "queries ", "CPU per query ", "cycles"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
    }
}

/// Starts `stacks --json`, waits for a line of its notes, does something, and gives back what it printed.
fn profiled_while(arguments: &[&str], received: &str, disturb: impl FnOnce()) -> (Value, i32) {
    let mut running = Running::start(process("stacks --no-defaults --json").args(arguments));
    running.until_it_notes(received);
    disturb();
    let ended = running.ended();
    (json(&ended.out), ended.code.expect("no signal ended it"))
}

fn notes(profile: &Value) -> String {
    profile["notes"].to_string()
}

#[test]
fn a_trigger_is_waited_for_and_shown_and_a_server_that_ends_leaves_what_was_seen() {
    if may_not_profile() {
        return;
    }
    with_server(Which::Mysql, |server| {
        let socket = server.socket().to_str().expect("UTF-8");
        let flags = ["-u", "root", "-S", socket, "--duration", "1s", "--when", "Threads_running >= 3"];
        let (profile, code) = profiled_while(&flags, "waiting for Threads_running >= 3", || {
            // The one who asks, and two who sleep.
            while_a_client_sleeps(server, || {
                in_runtime(server.execute(["DO SLEEP(2)"])).expect("it sleeps");
            });
        });
        assert_eq!(code, 0, "{profile}");
        assert!(notes(&profile).contains("triggered by Threads_running >= 3: it is "), "{profile}");

        let watched = ["--when-inside", "Item_func_sleep::val_int:0", "--before", "500ms"];
        let flags = [&["-u", "root", "-S", socket, "--duration", "500ms"][..], &watched].concat();
        let (profile, code) = profiled_while(&flags, "waiting for more than 0 threads", || {
            while_a_client_sleeps(server, || ());
        });
        assert_eq!(code, 0, "{profile}");
        assert!(notes(&profile).contains("triggered by 1 thread in Item_func_sleep::val_int"), "{profile}");
        assert!(notes(&profile).contains("the watchpoints were hit"), "{profile}");

        let misspelt = format!("stacks -u root -S {socket} --no-defaults --when Thread_running>3");
        let (message, code) = complained(&misspelt);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains("has no status variable Thread_running"), "{message}");

        let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        let id = server.pid().to_string();
        kill_process(pid, Signal::STOP).expect("the server runs");
        let (text, code) =
            printed(&format!("stacks --pid {id} -S {socket} --no-defaults --duration 1s --json"));
        kill_process(pid, Signal::CONT).expect("the server stands");
        assert_eq!(code, 0, "{text}");
        assert!(json(&text)["states"]["stopped"].as_f64().is_some_and(|share| share > 0.9), "{text}");

        let flags = ["--pid", id.as_str(), "-S", socket, "--duration", "60s"];
        let (profile, code) = profiled_while(&flags, "1 snapshot", || {
            kill_process(pid, Signal::KILL).expect("the server runs");
        });
        assert_eq!(code, 0, "{profile}");
        assert!(notes(&profile).contains("ended after"), "{profile}");
    });
}

#[test]
fn a_process_that_is_no_server_is_profiled_by_its_id_alone() {
    if may_not_profile() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("600").spawn().expect("sleep is everywhere");
    let line = format!("stacks --pid {} -S /nonexistent --no-defaults --duration 1s --json", sleeper.id());
    let (text, code) = printed(&line);
    sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
    assert_eq!(code, 0, "{text}");
    let profile = json(&text);
    assert_eq!((&profile["threads"], &profile["states"]["sleep"]), (&1.into(), &1.0.into()), "{text}");
    assert!(notes(&profile).contains("no connections"), "{text}");
}

#[test]
fn what_cannot_be_done_is_one_line_and_exit_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let hostile = folder.path().join("hostile.spinprof");
    std::fs::write(&hostile, b"spindoctor profile 1\n\x1f\x8b\x08garbage")
        .expect("a test may write to its own folder");
    let hostile = hostile.to_str().expect("UTF-8");
    for (line, text) in [
        (format!("stacks --load {hostile}"), "is cut short or damaged"),
        (format!("stacks --diff {hostile} /dev/null"), "is cut short or damaged"),
        ("stacks --load /dev/null".to_owned(), "is not a profile; `spindoctor stacks --save"),
        ("stacks --load /nonexistent/x".to_owned(), "cannot read /nonexistent/x"),
        ("stacks --pid 4194999 -S /nonexistent --no-defaults".to_owned(), "there is no process 4194999"),
        ("stacks -S /nonexistent --no-defaults".to_owned(), "the server's process was not found"),
        ("stacks --remote --no-defaults".to_owned(), "run spindoctor there, without --remote"),
        ("stacks --load /dev/null -o /nonexistent/x.svg".to_owned(), "/nonexistent/x.svg cannot be written"),
    ] {
        let (message, code) = complained(&line);
        assert_eq!(code, 2, "{line}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{line}: {message}");
        assert!(message.contains(text), "{line}: {message}");
    }
}

#[test]
fn flags_that_make_no_sense_together_are_refused() {
    for (line, text) in [
        ("stacks --load x --duration 3s", "cannot be used with"),
        ("stacks --load x --when a>1", "cannot be used with"),
        ("stacks --diff x y --load z", "cannot be used with"),
        ("stacks --json --format svg", "cannot be used with"),
        ("stacks --when Threads_running", "there is no >"),
        ("stacks --hz 0", "a rate from 0.1 to 1000"),
        ("stacks --grep (", "unclosed group"),
    ] {
        let (message, code) = complained(line);
        assert_eq!(code, 2, "{line}: {message}");
        assert!(message.contains(text), "{line}: {message}");
    }
}

#[test]
fn a_server_without_performance_schema_gets_a_note_that_it_lacks_that() {
    if may_not_profile() {
        return;
    }
    let options = vec!["--performance-schema=OFF".to_owned()];
    let spec = ServerSpec { which: Which::Mysql, options, ..ServerSpec::default() };
    let server = in_runtime(start(&spec));
    let socket = server.socket().display();
    let (message, code) =
        complained(&format!("stacks -u root -S {socket} --no-defaults --duration 1s --by digest"));
    assert_eq!(code, 2, "{message}");
    let plain = message.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("MySQL from 5.7 on with performance_schema on"), "{message}");
}

#[test]
fn latches_of_a_server_without_names_are_said_in_one_line() {
    if may_not_profile() {
        return;
    }
    with_server(Which::Mariadb, |server| {
        let socket = server.socket().display();
        let line = format!("stacks -u root -S {socket} --no-defaults --latch-waits --duration 1s");
        let (message, _) = complained(&line);
        assert!(message.contains("names none of the functions"), "{message}");
    });
}
