//! Triggers from inside: they fire when they should, cost no more than they may, and leave nothing behind.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::stack::StackSource;
use spindoctor_stacks::Error;
use spindoctor_stacks::capture::trigger::{DEFAULT_BUDGET, Fired, Trigger, When};

use crate::target::{
    PATIENCE, Program, Target, again, is_root, named, open_by_name, refusal, said_by, target_of_environment,
    until,
};

/// For what must not come.
const A_MOMENT: Duration = Duration::from_millis(300);

fn arm(target: &Target, when: When) -> Trigger {
    Trigger::arm(target.pid(), "works", when, DEFAULT_BUDGET).unwrap()
}

fn comes(trigger: &mut Trigger) -> Fired {
    trigger.wait(PATIENCE).unwrap().expect("it never fired")
}

fn does_not_come(trigger: &mut Trigger) {
    assert_eq!(trigger.wait(A_MOMENT).unwrap(), None);
}

/// As many threads as have left in all.
fn has_left(target: &mut Target, many: u64) {
    until("threads have left", || target.ask("count") == many);
}

#[test]
fn it_fires_when_one_thread_too_many_is_inside() {
    if !is_root() {
        return;
    }
    let mut target = Target::start("workers");
    let mut early = arm(&target, When::Inside(0));
    target.ask("enter");
    target.ask("leave");
    has_left(&mut target, 1);
    assert_eq!(comes(&mut early).inside, 1, "what happens before it is waited for is reported");
    drop(early);

    let mut trigger = arm(&target, When::Inside(2));
    target.ask("enter");
    target.ask("enter");
    does_not_come(&mut trigger);
    target.ask("enter");
    let fired = comes(&mut trigger);
    assert_eq!(fired.inside, 3);
    let snapshot = open_by_name(target.pid(), StackSource::Bpf).snapshot().unwrap();
    assert!(named(&snapshot, "worker").iter().any(|thread| thread.tid == fired.tid));

    for _ in 0..3 {
        target.ask("leave");
    }
    has_left(&mut target, 4);
    target.ask("enter");
    does_not_come(&mut trigger);
    assert_eq!(trigger.cost().hits, 7, "four entered, three left");
    assert!(!trigger.cost().cpu.is_zero() && trigger.cost().untracked == 0);
}

#[test]
fn it_fires_once_for_a_thread_that_is_inside_for_too_long_and_while_it_is() {
    if !is_root() {
        return;
    }
    let mut target = Target::start("workers");
    let bound = Duration::from_millis(50);
    let mut trigger = arm(&target, When::Slower(bound));
    does_not_come(&mut trigger);
    target.ask("enter");
    let fired = comes(&mut trigger);
    assert!(fired.took >= bound && fired.inside == 1, "{fired:?}");
    assert_eq!(target.ask("count"), 0, "it is still inside");
    does_not_come(&mut trigger);
    target.ask("leave");
    has_left(&mut target, 1);
    does_not_come(&mut trigger);
    // It was slow between two looks: reported when it leaves.
    target.ask("enter");
    std::thread::sleep(bound * 2);
    target.ask("leave");
    has_left(&mut target, 2);
    let fired = comes(&mut trigger);
    assert!(fired.took >= bound && fired.inside == 1, "{fired:?}");
}

#[test]
fn a_thread_that_leaves_without_returning_is_inside_no_more() {
    if !is_root() {
        return;
    }
    let mut target = Target::start("workers");
    let mut trigger = arm(&target, When::Slower(Duration::from_millis(50)));
    target.ask("enter");
    target.ask("x");
    has_left(&mut target, 1);
    does_not_come(&mut trigger);
    target.ask("enter");
    assert_eq!(comes(&mut trigger).inside, 1);
}

#[test]
fn an_exception_finds_its_way_through_a_function_with_probes() {
    if !is_root() {
        return;
    }
    let program = Program::build_from("c++", "-O1", "throws.cc");
    let mut command = Command::new(program.path());
    let mut target = Target::run(program, &mut command);
    let when = When::Slower(Duration::from_secs(60));
    let mut trigger = Trigger::arm(target.pid(), "may_throw", when, DEFAULT_BUDGET).unwrap();
    assert_eq!(target.ask("throw"), 50);
    assert_eq!(target.ask("throw"), 100);
    does_not_come(&mut trigger);
    assert_eq!(trigger.cost().hits, 300, "half of the calls return");
}

#[test]
fn probes_that_cost_too_much_are_taken_away() {
    if !is_root() {
        return;
    }
    let mut target = Target::start("flood");
    let mut trigger = Trigger::arm(target.pid(), "is_quick", When::Inside(1), DEFAULT_BUDGET).unwrap();
    let said = refusal(trigger.wait(PATIENCE));
    assert!(said.contains("is_quick") && said.contains("times a second"), "{said}");
    let (cost, before) = (trigger.cost(), target.ask("count"));
    until("it runs on", || target.ask("count") > before + 100_000);
    assert_eq!(trigger.cost(), cost, "no probe is hit any more");
}

#[test]
fn a_profiler_that_is_killed_leaves_no_probe() {
    if !is_root() {
        return;
    }
    let mut target = Target::start("workers");
    let address = target.ask("where");
    let code = || {
        let memory = std::fs::File::open(format!("/proc/{}/mem", target.pid())).unwrap();
        let mut code = [0; 8];
        std::os::unix::fs::FileExt::read_exact_at(&memory, &mut code, address).unwrap();
        code
    };
    let before = code();
    let mut profiler = again("trigger::waits_for_ever", &target).stdout(Stdio::null()).spawn().unwrap();
    until("a probe is there", || code() != before);
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    until("no probe is there", || code() == before);
    target.ask("enter");
    target.ask("leave");
    has_left(&mut target, 1);
}

#[test]
#[ignore = "started by a test"]
fn waits_for_ever() {
    let when = When::Inside(1000);
    let mut trigger = Trigger::arm(target_of_environment(), "works", when, DEFAULT_BUDGET).unwrap();
    while trigger.wait(PATIENCE).unwrap().is_none() {}
}

#[tokio::test]
async fn it_fires_in_stripped_servers() {
    if !is_root() {
        return;
    }
    let home = Home::open().unwrap();
    for which in [Which::Mysql, Which::Mariadb] {
        let spec = ServerSpec { which, ..ServerSpec::default() };
        let server = Server::start(&home, &spec, &|line| println!("{line}")).await.unwrap();
        let when = When::Inside(2);
        let mut trigger =
            Trigger::arm(server.pid(), "Item_func_sleep::val_int", when, DEFAULT_BUDGET).unwrap();
        let waits = tokio::task::spawn_blocking(move || comes(&mut trigger));
        let sleep = || server.ask("SELECT SLEEP(600)");
        let fired = tokio::select! {
            fired = waits => fired,
            slept = async { tokio::join!(sleep(), sleep(), sleep()) } => panic!("{slept:?}"),
        };
        assert_eq!(fired.unwrap().inside, 3);

        let bound = Duration::from_millis(200);
        let mut trigger =
            Trigger::arm(server.pid(), "dispatch_command", When::Slower(bound), DEFAULT_BUDGET).unwrap();
        let waits = tokio::task::spawn_blocking(move || comes(&mut trigger));
        let fired = tokio::select! {
            fired = waits => fired,
            slept = sleep() => panic!("{slept:?}"),
        };
        assert!(fired.unwrap().took >= bound);
        server.stop().unwrap();
    }
}

#[test]
fn what_cannot_be_probed_is_said_in_one_line() {
    let mut target = Target::start("workers");
    let when = When::Inside(1);
    let said = refusal(Trigger::arm(target.pid(), "no_such_function", when, DEFAULT_BUDGET));
    assert!(said.contains("it has no function named no_such_function"), "{said}");
    if !is_root() {
        return;
    }
    let mut trigger = arm(&target, when);
    target.kill();
    assert!(matches!(trigger.wait(PATIENCE), Err(Error::NoProcess(pid)) if pid == target.pid()));
    assert!(matches!(Trigger::arm(target.pid(), "works", when, DEFAULT_BUDGET), Err(Error::NoProcess(_))));
}

#[test]
fn another_user_learns_which_capability_a_probe_needs() {
    if !is_root() {
        return;
    }
    let program = Program::build("cc", "-pthread");
    let mut command = Command::new(program.path());
    let target = Target::run(program, command.arg("workers").uid(65534).gid(65534));
    let said = said_by(again("trigger::shows_what_arming_says", &target).uid(65534).gid(65534));
    assert!(said[0].contains("CAP_BPF and CAP_PERFMON"), "{said:?}");
}

#[test]
#[ignore = "started by a test"]
fn shows_what_arming_says() {
    println!();
    println!("said {:?}", Trigger::arm(target_of_environment(), "works", When::Inside(1), DEFAULT_BUDGET));
}
