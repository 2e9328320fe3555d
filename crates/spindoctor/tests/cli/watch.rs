//! `tune --watch` on a real server whose quota is resized in place.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::{Home, Limits, Server, ServerSpec, Which};

use crate::program::spindoctor;

const HWM: &str = "innodb_log_spin_cpu_pct_hwm";

/// What is promised after a change of the quota. It is held to the middle one of five, and a machine with other work to do
/// is given more chances.
const FOLLOWS: Duration = Duration::from_secs(2);
/// How often five changes are made at most.
const ROUNDS: usize = 3;
/// For what is not promised, on a machine that is on its knees.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(options: &[&str]) -> Server {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::open().expect("the lab has a folder");
    let spec = ServerSpec {
        which: Which::Mysql,
        limits: Limits { quota_cpus: Some(1.0), ..Limits::default() },
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..ServerSpec::default()
    };
    runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server")
}

fn ask(server: &Server, question: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(server.ask(question)).expect("it answers").unwrap_or_default()
}

fn mark(server: &Server) -> String {
    ask(server, &format!("SELECT @@GLOBAL.{HWM}"))
}

/// How long it takes until the server has the mark.
fn until_mark_is(server: &Server, wanted: &str) -> Duration {
    let begun = Instant::now();
    while mark(server) != wanted {
        assert!(begun.elapsed() < PATIENCE, "{HWM} is {}, not {wanted}", mark(server));
    }
    begun.elapsed()
}

/// Writes a quota into the server's group, in either version's file.
fn resize(server: &Server, cpus: f64) {
    let group = server.group().expect("it has a quota");
    let quota_us = (cpus * 1e5).round();
    if group.join("cpu.max").exists() {
        fs::write(group.join("cpu.max"), format!("{quota_us} 100000")).expect("the quota is written");
    } else {
        fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string()).expect("the quota is written");
    }
}

/// The mark that means half of a quota: max(1, floor(50 * Q / N)).
fn half_of(quota_cpus: f64, counted: f64) -> String {
    format!("{:.0}", (50.0 * quota_cpus / counted).floor().clamp(1.0, 50.0))
}

fn watch(server: &Server, state: &Path) -> Child {
    Command::new(spindoctor("").get_program())
        .args(["tune", "--watch", "--json", "--only", HWM, "-u", "root", "--no-defaults", "-S"])
        .arg(server.socket())
        .env("XDG_STATE_HOME", state)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

fn leaves_nothing(server: &Server, state: &Path) {
    let begun = Instant::now();
    let journals = || fs::read_dir(state.join("spindoctor")).into_iter().flatten().flatten().count();
    let events = "SELECT COUNT(*) FROM information_schema.EVENTS";
    while ask(server, events) != "0" || journals() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} events, {} files", ask(server, events), journals());
    }
}

#[test]
fn the_mark_follows_a_resized_quota_and_the_old_one_comes_back_however_it_ends() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may make cgroups and read another user's memory");
        return;
    }
    let server = start(&["--innodb-log-writer-threads=ON", "--innodb-monitor-enable=cpu_n"]);
    let state = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let counted = loop {
        let counted =
            ask(&server, "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'cpu_n'");
        match counted.parse::<f64>() {
            Ok(counted) if counted >= 1.0 => break counted,
            _ => assert!(begun.elapsed() < PATIENCE, "the server counts its CPUs"),
        }
    };
    if counted < 2.0 {
        println!("skipped: a quota of one CPU is all that this machine has");
        return;
    }

    let mut child = watch(&server, state.path());
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    until_mark_is(&server, &half_of(1.0, counted));
    let first: Value = serde_json::from_str(&lines.next().expect("a line").expect("UTF-8")).expect("JSON");
    assert_eq!((first["variable"].as_str(), first["from"].as_str()), (Some(HWM), Some("50")));
    assert!(first["why"].as_str().is_some_and(|why| why.contains("grants 1.00 CPUs")), "{first}");

    let follows = (0..ROUNDS).any(|_| {
        let mut took: Vec<Duration> = [0.5, counted, 1.5, 0.25, 1.0]
            .into_iter()
            .map(|quota_cpus| {
                resize(&server, quota_cpus);
                until_mark_is(&server, &half_of(quota_cpus, counted))
            })
            .collect();
        took.sort();
        println!("the mark followed after {took:?}");
        took[took.len() / 2] <= FOLLOWS
    });
    assert!(follows, "it takes longer than {FOLLOWS:?}");

    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(mark(&server), "50");
    leaves_nothing(&server, state.path());

    let mut child = watch(&server, state.path());
    until_mark_is(&server, &half_of(1.0, counted));
    child.kill().expect("it runs");
    // Within five seconds: that is held to the middle one of a hundred where settings are lent, in crates/tune/tests/kill.rs.
    until_mark_is(&server, "50");
    child.wait().expect("it ends");
    leaves_nothing(&server, state.path());
}

#[test]
fn what_has_nothing_to_govern_or_names_a_value_says_so() {
    let (text, code) =
        crate::program::complained("tune --watch --only innodb_spin_wait_delay=5 --no-defaults");
    assert_eq!(code, 2);
    assert!(text.contains("give the name alone"), "{text}");
}
