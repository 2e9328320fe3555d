//! `spindoctor stacks --latch-waits` on servers whose threads wait for latches.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use tokio::runtime::{Builder, Runtime};

use crate::program::{printed, spindoctor};
use crate::stacks::may_not_profile;

/// One per cent of a CPU in the 5 s of a measurement, milliseconds; half a second's of it for the last turn, and what is hit until
/// its probes are gone.
const MAY_COST_MS: f64 = 120.0;

/// Two looks that agree come within 20 s; on a machine with other work to do some do not.
const SETS_WITHIN: Duration = Duration::from_secs(100);

/// Looks at a server whose 64 clients change rows of one small table.
fn under_load(which: Which, options: &[&str], workload: Workload, look: impl FnOnce(&Runtime, &Server)) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::open().expect("a home");
    let tables = Tables { count: 1, rows: 10_000 };
    let options = options.iter().map(ToString::to_string).collect();
    let spec = ServerSpec { which, tables: Some(tables), options, ..ServerSpec::default() };
    let server = runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server");
    let load = LoadSpec { workload, threads: 64, rate: None, tables };
    let load = runtime.block_on(async { Load::start(server.socket(), load) }).expect("clients");
    look(&runtime, &server);
    runtime.block_on(load.stop());
    server.stop().expect("it stops");
}

/// `--latch-waits` of a server, as JSON. What it cost is what it may cost.
fn latch_waits(server: &Server) -> Value {
    let socket = server.socket().display();
    let line = format!("stacks -u root -S {socket} --no-defaults --latch-waits --duration 5s --json");
    let (text, code) = printed(&line);
    assert_eq!(code, 0, "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["schema"], "spindoctor.latch-waits/1");
    assert!(number(&report["cost"]["cpu_ms"]) < MAY_COST_MS, "{}", report["cost"]);
    report
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn sum(report: &Value, what: &str) -> f64 {
    report["latches"].as_array().expect("a list").iter().map(|latch| number(&latch[what])).sum()
}

/// `tune --watch --by-waits` of a server that spins far too long: it sets a shorter spin, and gives the old one back at its end.
fn follows(runtime: &Runtime, server: &Server) {
    let state = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(spindoctor("").get_program())
        .args(["tune", "--watch", "--by-waits", "--json", "-u", "root", "--no-defaults", "-S"])
        .arg(server.socket())
        .env("XDG_STATE_HOME", state.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let (send, first) = mpsc::channel();
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let reading =
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(send.send(line))));
    let line = first.recv_timeout(SETS_WITHIN);
    let is_asked = kill_process(Pid::from_child(&child), Signal::TERM);
    let code = child.wait().expect("it ends").code();
    reading.join().expect("its output ends");
    let line: Value = serde_json::from_str(&line.expect("it sets a spin")).expect("JSON");
    assert!(line["why"].as_str().is_some_and(|why| why.contains("waits for latches each costs")), "{line}");
    let (from, to) = (&line["from"], &line["to"]);
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).expect("a number");
    assert!(number(to) < number(from), "{line}");
    assert!(is_asked.is_ok() && code == Some(0), "{is_asked:?} {code:?}");
    let now = runtime.block_on(server.ask(
        "SELECT CONCAT_WS(' ', @@innodb_spin_wait_delay, @@innodb_spin_wait_pause_multiplier, @@innodb_sync_spin_loops)",
    ));
    assert_eq!(now.expect("an answer").as_deref(), Some("100 100 30"));
}

#[test]
fn a_spin_that_is_set_far_too_long_is_shortened_to_what_waits_last_and_one_that_never_spins_is_known() {
    if may_not_profile() {
        return;
    }
    // Without writer threads commits do not spin by themselves: what spins waits for a latch.
    let options =
        ["--disable-log-bin", "--innodb-log-writer-threads=OFF", "--innodb-flush-log-at-trx-commit=2"];
    under_load(Which::Mysql, &options, Workload::OltpUpdateIndex, |runtime, server| {
        let set =
            |statements: [&str; 2]| runtime.block_on(server.execute(statements)).expect("it may be set");
        set([
            "SET GLOBAL innodb_spin_wait_delay = 100",
            "SET GLOBAL innodb_spin_wait_pause_multiplier = 100",
        ]);
        let report = latch_waits(server);
        let together = &report["together"];
        assert!(!together.is_null(), "there are waits: {report}");
        let (now, best) = (number(&together["now"]["spin_us"]), number(&together["best"]["spin_us"]));
        assert!(best < now / 4.0, "far below what is set: {best} {now}");
        assert!(best >= number(&report["at_once_us"]), "as long as can be judged: {best}");
        assert!(number(&report["sleeps_seen"]) > 0.0, "{report}");
        assert!(!report["changes"].as_array().expect("a list").is_empty(), "{report}");
        assert!(number(&together["best"]["cost_us"]) <= number(&together["now"]["cost_us"]));
        follows(runtime, server);

        set(["SET GLOBAL innodb_spin_wait_delay = 6", "SET GLOBAL innodb_sync_spin_loops = 0"]);
        let report = latch_waits(server);
        assert_eq!(report["spin_us"], 0.0);
        assert!(sum(&report, "slept") > 0.0, "who does not spin sleeps: {report}");
    });
}

#[test]
fn mariadb_is_understood_where_its_program_names_functions() {
    if may_not_profile() {
        return;
    }
    let which = Which::by_name("mariadb-11.4").expect("the lab knows it");
    under_load(which, &[], Workload::OltpWriteOnly, |runtime, server| {
        let never = ["SET GLOBAL innodb_sync_spin_loops = 0"];
        runtime.block_on(server.execute(never)).expect("it may be set");
        let report = latch_waits(server);
        assert!(report["version"].as_str().expect("a version").starts_with("MariaDB 11.4"), "{report}");
        let names: Vec<&str> = report["latches"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|latch| latch["function"].as_str())
            .collect();
        assert_eq!(
            names,
            ["srw_mutex_impl::wait_and_lock", "ssux_lock_impl::rd_wait", "ssux_lock_impl::wr_wait"]
        );
        assert!(sum(&report, "waits") > 0.0, "what does not spin waits: {report}");
        assert_eq!(report["spin_us"], 0.0);
    });
}
