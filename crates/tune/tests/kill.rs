//! A tuner that is killed, stopped or cut off: within five seconds the server is as before, and nothing is left behind.
//!
//! The tuner is `driver/tuner.rs`, which flips values as fast as it can. Servers are real. Short checks share one
//! server of each kind, because a start takes two seconds: [`CHECKS`].

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

mod process;
mod scene;

use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use spindoctor_collect::mysql::{Endpoint, Session, Target};
use spindoctor_lab::Which;
use spindoctor_model::ServerVersion;
use spindoctor_tune::apply::{ApplyError, Persisted, Settings, TakeOptions, expect_possible, recover};
use spindoctor_tune::variables::{VARIABLES, Values, Variable, find};
use spindoctor_tune::{journal, lease};

use process::{runs, send};
use scene::{PATIENCE, Scene, line, until};

/// The promise. It is held to the middle one of many: a machine with other work to do is late now and then.
const WITHIN: Duration = Duration::from_secs(5);

/// What the variables have before: no default, so that a restart is distinguished from putting back.
const BEFORE: [(&str, &str); 2] = [("innodb_spin_wait_delay", "7"), ("innodb_sync_spin_loops", "31")];
/// What they are flipped between; the old value is among them.
const FLIPS: [&str; 2] = ["innodb_spin_wait_delay=1,7,2", "innodb_sync_spin_loops=10,20,30"];

/// A tuner that runs.
struct Tuner {
    child: Child,
    said: BufReader<ChildStdout>,
    guardian: u32,
    has_event: bool,
}

impl Scene {
    /// With values that are no defaults.
    fn with_values(which: Which, options: &[&str]) -> Self {
        let scene = Self::new(which, options);
        scene.reset();
        scene
    }

    /// The kinds of servers that differ in their dead man's switch. SPINDOCTOR_BASEDIR names the folder of another server, which
    /// stands for all three: its default, with the scheduler, without.
    fn all() -> [(Which, &'static [&'static str]); 3] {
        if let Some(folder) = std::env::var_os("SPINDOCTOR_BASEDIR") {
            let other = || Which::Basedir(folder.clone().into());
            return [
                (other(), &[]),
                (other(), &["--event-scheduler=ON"]),
                (other(), &["--event-scheduler=OFF"]),
            ];
        }
        [
            (Which::Mysql, &[]),
            (Which::Mariadb, &["--event-scheduler=ON"]),
            // Its default: off, and it is not switched on.
            (Which::Mariadb, &[]),
        ]
    }

    fn version(&self) -> ServerVersion {
        self.server.version()
    }

    fn make_weak_account(&self) {
        // It may be there; IF NOT EXISTS came with MySQL 5.7 and MariaDB 10.1.
        let _made = self.runtime.block_on(self.server.execute(["CREATE USER weak@localhost"]));
    }

    fn reset(&self) {
        for (name, value) in BEFORE {
            self.execute(&format!("SET GLOBAL {name} = {value}"));
        }
    }

    fn values(&self) -> Vec<String> {
        BEFORE.iter().map(|(name, _)| self.ask(&format!("SELECT @@GLOBAL.{name}"))).collect()
    }

    fn is_as_before(&self) -> bool {
        self.values() == BEFORE.map(|(_, value)| value)
    }

    /// MySQL 5.5 has no innodb_io_capacity_max.
    fn has_capacity_max(&self) -> bool {
        !self.ask("SHOW GLOBAL VARIABLES LIKE 'innodb_io_capacity_max'").is_empty()
    }

    fn has_event_scheduler(&self) -> bool {
        self.ask("SELECT @@GLOBAL.event_scheduler") == "ON"
    }

    fn has_event(&self) -> bool {
        self.ask("SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_NAME LIKE 'spindoctor%'") != "0"
    }

    fn is_free(&self) -> bool {
        self.ask("SELECT IS_USED_LOCK('spindoctor.lease')").is_empty()
    }

    fn journals(&self) -> usize {
        journal::list(self.state.path()).unwrap().len()
    }

    fn command(&self, what: &str, address: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor-tune-driver"));
        command.args([what, address]).arg(self.state.path()).args(FLIPS).stdout(Stdio::piped());
        command
    }

    fn start(&self, what: &str) -> Tuner {
        self.start_at(what, &self.server.socket().display().to_string())
    }

    fn start_at(&self, what: &str, address: &str) -> Tuner {
        let mut child = self.command(what, address).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let armed = line(&mut said);
        let words: Vec<&str> = armed.split(['=', ' ']).collect();
        assert!(matches!(words.as_slice(), ["armed", "event", _, "guardian", _]), "{armed}");
        assert_eq!(line(&mut said), "flipping");
        Tuner { child, said, guardian: words[4].parse().unwrap(), has_event: words[2] == "true" }
    }

    fn recover(&self) -> Vec<String> {
        self.runtime.block_on(recover(&self.target(), self.state.path())).unwrap().done
    }

    /// Waits until the values are as before; how long that took.
    fn wait_for_values(&self, since: Instant, what: &str) -> Duration {
        until(what, || self.is_as_before(), || format!("{:?}", self.values()));
        since.elapsed()
    }

    /// Waits until nothing is left of a tuner on the server, on disk and among the processes.
    fn wait_for_nothing(&self, guardian: u32, what: &str) {
        until(what, || !self.has_event(), || "an EVENT is left".to_owned());
        until(what, || self.journals() == 0, || "a journal is left".to_owned());
        until(what, || !runs(guardian), || format!("the guardian {guardian} runs"));
        until(what, || self.is_free(), || "the lock is held".to_owned());
    }
}

impl Tuner {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and reaps it.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The next guardian, once it has been on the server.
    fn next_guardian(&mut self) -> u32 {
        let said = line(&mut self.said);
        said.strip_prefix("guardian=").unwrap_or_else(|| panic!("{said}")).parse().unwrap()
    }

    /// Its last word.
    fn end(mut self) -> String {
        let word = line(&mut self.said);
        self.child.wait().unwrap();
        word
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        // It has ended, unless its test failed.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Numbers without a pattern, the same ones in each run of the tests.
struct Chance(u64);

impl Chance {
    /// Marsaglia's xorshift64.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn a_hundred_tuners_killed_at_random_moments_leave_four_servers_as_they_were() {
    /// With each of the four servers.
    const KILLS: u32 = 25;
    let mut servers = Scene::all().to_vec();
    servers.push((Which::Mysql, &["--event-scheduler=OFF"]));
    let took: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1_u64..)
            .zip(&servers)
            .map(|(seed, (which, options))| {
                scope.spawn(move || {
                    let scene = Scene::with_values(which.clone(), options);
                    let mut chance = Chance(0x9E37_79B9_7F4A_7C15 ^ seed << 32);
                    (0..KILLS).map(|run| kill_once(&scene, &mut chance, run)).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (mut took, (which, options)) in took.into_iter().zip(servers) {
        took.sort();
        println!("{which:?} {options:?}: old values back after {took:.1?}");
        assert!(took[took.len() / 2] < WITHIN, "{took:?}");
    }
}

/// Kills a tuner, alone or with its guardian, at a random moment between its start and its hundredth change.
fn kill_once(scene: &Scene, chance: &mut Chance, run: u32) -> Duration {
    let has_event_scheduler = scene.has_event_scheduler();
    let how = run % 5;
    let what = format!("run {run} on {} (events: {has_event_scheduler}), kind {how}", scene.server.version());
    if how == 0 {
        // Before, while or after it arms its switch.
        let mut child = scene.command("flip", &scene.server.socket().display().to_string()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(chance.below(1_500)));
        child.kill().unwrap();
        child.wait().unwrap();
        let took = scene.wait_for_values(Instant::now(), &what);
        until(&what, || scene.journals() == 0, || "a journal is left".to_owned());
        until(&what, || !scene.has_event(), || "an EVENT is left".to_owned());
        // The server may not yet have seen that its connection is closed.
        until(&what, || scene.is_free(), || "the lease is kept".to_owned());
        return took;
    }
    let mut tuner = scene.start("flip");
    assert_eq!(tuner.has_event, has_event_scheduler, "{what}");
    std::thread::sleep(Duration::from_millis(chance.below(300)));
    let killed = Instant::now();
    let is_event_alone = how == 1 && has_event_scheduler;
    if is_event_alone {
        send(tuner.guardian, Signal::KILL);
    }
    tuner.kill();
    // The tuner may have started another guardian in between.
    let took = scene.wait_for_values(killed, &what);
    if is_event_alone {
        // Nobody is left who could take the journal away: the next one does.
        until(&what, || !scene.has_event(), || "an EVENT is left".to_owned());
        scene.recover();
        assert!(scene.is_as_before(), "{what}");
    }
    scene.wait_for_nothing(tuner.guardian, &what);
    took
}

fn a_guardian_that_is_killed_is_replaced_and_the_new_one_puts_back(scene: &Scene) {
    let mut tuner = scene.start("hold");
    send(tuner.guardian, Signal::KILL);
    until("it is gone", || !runs(tuner.guardian), String::new);
    let guardian = tuner.next_guardian();
    assert!(guardian != tuner.guardian && runs(guardian));
    let killed = Instant::now();
    tuner.kill();
    scene.wait_for_values(killed, "the second guardian");
    scene.wait_for_nothing(guardian, "the second guardian");
}

fn with_both_killed_and_no_event_the_next_recovery_puts_back(scene: &Scene) {
    // An EVENT would put back first.
    if scene.has_event_scheduler() {
        return;
    }
    let mut tuner = scene.start("hold");
    // Stopped, so that it cannot start another guardian in between.
    send(tuner.pid(), Signal::STOP);
    send(tuner.guardian, Signal::KILL);
    tuner.kill();
    assert!(!scene.is_as_before());
    let done = scene.recover();
    assert!(
        done.len() == 1 && done[0].contains("the old values are back: innodb_spin_wait_delay = 7"),
        "{done:?}"
    );
    assert!(scene.is_as_before());
    scene.wait_for_nothing(tuner.guardian, "recovered");
    assert!(scene.recover().is_empty());
}

fn the_next_tuner_puts_back_what_a_dead_one_left_before_it_looks_at_the_old_values(scene: &Scene) {
    // An EVENT would put back first.
    if scene.has_event_scheduler() {
        return;
    }
    let mut dead = scene.start("hold");
    send(dead.pid(), Signal::STOP);
    send(dead.guardian, Signal::KILL);
    dead.kill();
    let next = scene.start("hold");
    send(next.pid(), Signal::INT);
    let word = next.end();
    assert!(word.contains("the old values are back: innodb_spin_wait_delay = 7"), "{word}");
    assert!(scene.is_as_before());
}

fn a_tuner_that_is_stopped_loses_its_settings_and_changes_nothing_when_it_goes_on(scene: &Scene) {
    let tuner = scene.start("flip");
    let stopped = Instant::now();
    send(tuner.pid(), Signal::STOP);
    scene.wait_for_values(stopped, "stopped");
    until("stopped", || scene.journals() == 0, || "a journal is left".to_owned());
    send(tuner.pid(), Signal::CONT);
    let guardian = tuner.guardian;
    let word = tuner.end();
    assert!(word.contains("lease"), "{word}");
    assert!(scene.is_as_before(), "{:?}", scene.values());
    scene.wait_for_nothing(guardian, "went on");
}

fn every_signal_that_asks_for_the_end_puts_back_first(scene: &Scene) {
    for (signal, name) in [(Signal::INT, "Ctrl-C"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
        let tuner = scene.start("flip");
        let guardian = tuner.guardian;
        send(tuner.pid(), signal);
        let word = tuner.end();
        assert!(word.starts_with(name) && word.contains("the old values are back"), "{word}");
        assert!(scene.is_as_before(), "{:?}", scene.values());
        assert!(!scene.has_event() && scene.journals() == 0 && !runs(guardian));
    }
}

fn what_somebody_else_set_meanwhile_is_left_and_the_rest_is_put_back(scene: &Scene) {
    // The EVENT alone, where there is one; the guardian otherwise; and the tuner itself.
    for how in ["switch", "tuner"] {
        scene.reset();
        let mut tuner = scene.start("hold");
        scene.execute("SET GLOBAL innodb_spin_wait_delay = 55");
        let guardian = tuner.guardian;
        if how == "switch" {
            if tuner.has_event {
                send(tuner.pid(), Signal::STOP);
                send(guardian, Signal::KILL);
            }
            tuner.kill();
        } else {
            send(tuner.pid(), Signal::INT);
            let word = tuner.end();
            assert!(word.contains("left as somebody else set it: innodb_spin_wait_delay = 55"), "{word}");
        }
        let is_so = || scene.values() == ["55", "31"];
        until(how, is_so, || format!("{:?}", scene.values()));
        until(how, || !scene.has_event(), || "an EVENT is left".to_owned());
        scene.recover();
        scene.wait_for_nothing(guardian, how);
        assert!(is_so(), "{:?}", scene.values());
    }
}

fn somebody_elses_change_ends_the_tuner_which_says_what_it_saw(scene: &Scene) {
    let mut ways = vec!["SET GLOBAL innodb_spin_wait_delay = 55"];
    if scene.version().mysql_at_least(8, 0, 0) {
        ways.push("SET PERSIST innodb_spin_wait_delay = 55");
    }
    for way in ways {
        // In the middle of changes as fast as they come, and between two that are far apart.
        for what in ["flip", "check"] {
            scene.reset();
            let tuner = scene.start(what);
            let guardian = tuner.guardian;
            scene.execute(way);
            let word = tuner.end();
            assert!(
                word.contains("innodb_spin_wait_delay was set to 55 by somebody else (seen at "),
                "{way}, {what}: {word}"
            );
            assert!(
                word.contains("left as somebody else set it: innodb_spin_wait_delay = 55"),
                "{way}, {what}: {word}"
            );
            assert_eq!(scene.values(), ["55", "31"], "{way}, {what}");
            scene.wait_for_nothing(guardian, what);
        }
    }
    if scene.version().mysql_at_least(8, 0, 0) {
        scene.execute("RESET PERSIST");
    }
}

fn somebody_elses_change_after_the_tuners_death_is_respected(scene: &Scene) {
    // Killed anywhere between two changes: a DBA who is faster than the switch keeps what he set.
    for _ in 0..5 {
        scene.reset();
        let mut tuner = scene.start("flip");
        let guardian = tuner.guardian;
        tuner.kill();
        scene.execute("SET GLOBAL innodb_spin_wait_delay = 55");
        let is_so = || scene.values() == ["55", "31"];
        until("killed", is_so, || format!("{:?}", scene.values()));
        scene.wait_for_nothing(guardian, "killed");
        assert!(is_so(), "{:?}", scene.values());
    }
}

/// An account without any privilege that waits for the lock, and keeps it.
/// An account without privileges that wants the lock: to keep it, or to hand it on from connection to connection.
struct Stranger {
    go: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Stranger {
    /// With more than one connection each keeps it for a fifth of a second, and waits for it again.
    fn with_connections(scene: &Scene, connections: usize) -> Self {
        scene.make_weak_account();
        let go = Arc::new(AtomicBool::new(false));
        let connection = |_| {
            let mut target = Target::new(Endpoint::Socket(scene.server.socket().to_owned()), "weak");
            target.limits.query = 2 * PATIENCE;
            let go = Arc::clone(&go);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut session = Session::connect(&target, &target.limits).await.unwrap();
                    while !go.load(Ordering::Relaxed) {
                        session.query("SELECT GET_LOCK('spindoctor.lease', 100)").await.unwrap();
                        for _ in 0..4 {
                            session.ping().await.unwrap();
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        if connections > 1 {
                            session.query("SELECT RELEASE_LOCK('spindoctor.lease')").await.unwrap();
                        }
                    }
                    session.close().await;
                });
            })
        };
        let threads = (0..connections).map(connection).collect();
        Self { go, threads }
    }

    fn waits_or_holds(&self, scene: &Scene) {
        let question = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'weak' AND INFO LIKE '%GET_LOCK%'";
        until("it waits", || scene.ask(question) != "0" || Self::holds(scene), String::new);
    }

    fn holds(scene: &Scene) -> bool {
        let question = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'weak' AND ID = IS_USED_LOCK('spindoctor.lease')";
        scene.ask(question) != "0"
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.go.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _failed = thread.join();
        }
    }
}

fn a_lock_that_another_account_waits_for_keeps_no_setting_changed(scene: &Scene) {
    for (how, connections) in [
        ("guardian and event", 1),
        ("guardian and event, a lock that is handed on", 2),
        ("recover", 1),
        ("recover, a lock that is handed on", 2),
        ("tuner", 1),
    ] {
        scene.reset();
        let mut tuner = scene.start("hold");
        let stranger = Stranger::with_connections(scene, connections);
        stranger.waits_or_holds(scene);
        let killed = Instant::now();
        match how {
            how if how.starts_with("guardian") => tuner.kill(),
            // Nobody but recovery is left, where there is no EVENT.
            how if how.starts_with("recover") => {
                send(tuner.pid(), Signal::STOP);
                send(tuner.guardian, Signal::KILL);
                tuner.kill();
                let recovered = scene.recover();
                assert!(tuner.has_event || recovered.len() == 1, "{recovered:?}");
            }
            // The tuner itself, whose lease a DBA took away.
            _ => {
                let holder = scene.ask("SELECT IS_USED_LOCK('spindoctor.lease')");
                scene.execute(&format!("KILL {holder}"));
                let guardian = tuner.guardian;
                // Its next change would fail; here it waits for being asked.
                until(how, || Stranger::holds(scene), || "the stranger does not have the lock".to_owned());
                let word = tuner.end();
                assert!(word.starts_with("lost: "), "{word}");
                until(how, || scene.is_as_before(), || format!("{:?}", scene.values()));
                until(how, || scene.journals() == 0 && !runs(guardian), || "something is left".to_owned());
                assert!(Stranger::holds(scene));
                continue;
            }
        }
        let took = scene.wait_for_values(killed, how);
        println!("{how}: old values back after {took:.1?} beside the stranger");
        until(how, || Stranger::holds(scene), || "the stranger does not have the lock".to_owned());
        until(how, || !scene.has_event(), || "an EVENT is left".to_owned());
        until(how, || scene.journals() == 0, || "a journal is left".to_owned());
        until(how, || !runs(tuner.guardian), || "the guardian runs".to_owned());
        // No tuner beside it; the error names the lock's owner.
        let address = scene.server.socket().display().to_string();
        let output = scene.command("hold", &address).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("weak from localhost"), "{said}");
        assert!(scene.is_as_before());
    }
}

fn a_server_that_stops_for_seconds_takes_the_lease_from_nobody(scene: &Scene) {
    let tuner = scene.start("hold");
    let guardian = tuner.guardian;
    send(scene.server.pid(), Signal::STOP);
    std::thread::sleep(Duration::from_secs(7));
    send(scene.server.pid(), Signal::CONT);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(scene.values(), ["1", "10"], "the settings are still lent");
    send(tuner.pid(), Signal::INT);
    let word = tuner.end();
    assert!(word.starts_with("Ctrl-C: the old values are back"), "{word}");
    scene.wait_for_nothing(guardian, "stood still");
}

fn a_tuner_that_stops_for_two_seconds_goes_on(scene: &Scene) {
    let tuner = scene.start("hold");
    let guardian = tuner.guardian;
    send(tuner.pid(), Signal::STOP);
    std::thread::sleep(Duration::from_millis(2_500));
    send(tuner.pid(), Signal::CONT);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(scene.values(), ["1", "10"], "the settings are still lent");
    send(tuner.pid(), Signal::INT);
    let word = tuner.end();
    assert!(word.starts_with("Ctrl-C: the old values are back"), "{word}");
    scene.wait_for_nothing(guardian, "went on");
}

fn an_account_that_may_not_set_is_reported_the_grant_and_nothing_is_left(scene: &Scene) {
    scene.make_weak_account();
    let target = Target::new(Endpoint::Socket(scene.server.socket().to_owned()), "weak");
    let options = TakeOptions {
        program: env!("CARGO_BIN_EXE_spindoctor-tune-driver").into(),
        state: scene.state.path().to_owned(),
    };
    let variables = [find("innodb_spin_wait_delay").unwrap()];
    let error =
        scene.runtime.block_on(Settings::take(&target, &variables, &options)).unwrap_err().to_string();
    let privilege = if scene.version().mysql_at_least(8, 0, 0) { "SYSTEM_VARIABLES_ADMIN" } else { "SUPER" };
    let expected = format!(
        "'weak'@'localhost' lacks a privilege: GRANT {privilege} ON *.* TO 'weak'@'localhost' (the server says: error 1227"
    );
    assert!(error.starts_with(&expected) && !error.contains('\n'), "{error}");
    assert!(scene.journals() == 0 && !scene.has_event() && scene.is_as_before());
    until("refused", || scene.is_free(), || "the lock is held".to_owned());
}

fn a_value_that_cannot_be_is_refused_before_anything_is_armed(scene: &Scene) {
    let ask = |name: &str, value: &str| {
        let values = [(find(name).unwrap(), value.to_owned())];
        scene.runtime.block_on(expect_possible(&scene.target(), &values)).map_err(|error| error.to_string())
    };
    assert_eq!(ask("innodb_spin_wait_delay", "6"), Ok(()));
    assert!(ask("innodb_spin_wait_delay", "99999999999").unwrap_err().contains("a whole number from 0 to"));
    if scene.has_capacity_max() {
        let error = ask("innodb_io_capacity", "4000000").unwrap_err();
        assert!(
            error.contains("innodb_io_capacity = 4000000 is more than innodb_io_capacity_max = "),
            "{error}"
        );
    } else {
        assert_eq!(ask("innodb_io_capacity", "4000000"), Ok(()));
    }
    for variable in VARIABLES.iter().filter(|variable| !(variable.is_dynamic_on)(scene.version())) {
        let name = variable.name;
        let is_there = !scene.ask(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).is_empty();
        let reason =
            if is_there { "cannot be changed without a restart" } else { "this server has no variable" };
        let error = ask(name, "16777216").unwrap_err();
        assert!(error.contains(reason) && error.contains(name), "{error}");
    }
    assert!(scene.journals() == 0 && !scene.has_event() && scene.is_free());
}

/// Whether this takes both values depends on the file system that the server's files are on.
const NOT_EVERYWHERE: &[&str] = &["innodb_log_file_buffering"];

/// What may be put back is known by the values that were asked for: so the server must make no other of them, but where two
/// variables depend on each other.
fn a_server_makes_no_other_value_of_one_that_it_takes(scene: &Scene) {
    let version = scene.server.version();
    for variable in VARIABLES.iter().filter(|variable| (variable.is_dynamic_on)(version)) {
        if variable.name.starts_with("innodb_io_capacity") {
            continue;
        }
        let before = scene.ask(&format!("SELECT @@GLOBAL.{}", variable.name));
        let asked: Vec<String> = match variable.values_on(version) {
            Values::Switch => vec!["'ON'".to_owned(), "'OFF'".to_owned()],
            Values::Numbers { from, to } => {
                let now: u64 = before.parse().unwrap();
                [from, from + 1, now + 1, 2 * now + 3, now / 2 + 7]
                    .into_iter()
                    // Not a redo log of half a terabyte.
                    .filter(|value| {
                        (from..=to.min(now.saturating_mul(4).saturating_add(100))).contains(value)
                    })
                    .map(|value| value.to_string())
                    .collect()
            }
        };
        let name = variable.name;
        // performance_schema has it from MySQL 5.7.6 on.
        let schema =
            if version.mysql_at_least(5, 7, 6) { "performance_schema" } else { "information_schema" };
        let shown =
            format!("SELECT VARIABLE_VALUE FROM {schema}.global_variables WHERE VARIABLE_NAME = '{name}'");
        let shown_before = scene.ask(&shown);
        for value in asked {
            // As apply sets it; what is refused is no value.
            let set = format!("SET GLOBAL {name} = {value}");
            let outcome = scene
                .runtime
                .block_on(scene.server.execute(["SET SESSION sql_mode = 'STRICT_ALL_TABLES'", set.as_str()]));
            if outcome.is_ok() {
                let seen = scene.ask(&shown);
                // Where the files' system leaves no choice, the server keeps what it has, and apply says so when it reads it back.
                let is_kept = NOT_EVERYWHERE.contains(&name) && seen == shown_before;
                assert!(is_kept || lease::same(&seen, value.trim_matches('\'')), "{version}: {set}: {seen}");
            }
        }
        let before = if before.parse::<f64>().is_ok() { before } else { format!("'{before}'") };
        scene.execute(&format!("SET GLOBAL {} = {before}", variable.name));
    }
}

fn a_second_tuner_is_refused_and_shown_who_tunes_since_when(scene: &Scene) {
    let first = scene.start("hold");
    let address = scene.server.socket().display().to_string();
    let said = |state: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor-tune-driver"));
        let output = command.args(["hold", &address]).arg(state).args(FLIPS).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let here = said(scene.state.path());
    let expected = format!("is being tuned by another: process {} on this host, since 20", first.pid());
    assert!(here.contains(&expected), "{here}");
    let elsewhere = said(tempfile::tempdir().unwrap().path());
    assert!(elsewhere.contains("root from localhost, connection "), "{elsewhere}");
    assert_eq!(elsewhere.contains("since 20"), first.has_event, "{elsewhere}");
    send(first.pid(), Signal::INT);
    first.end();
    assert!(scene.is_as_before());
}

fn what_is_kept_stays_and_nothing_else_is_left(scene: &Scene) {
    let tuner = scene.start("keep");
    let guardian = tuner.guardian;
    assert_eq!(tuner.end(), "kept");
    assert!(!scene.has_event() && scene.journals() == 0 && !runs(guardian));
    // Longer than an EVENT or guardian that was overlooked would take.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(scene.values(), ["1", "10"]);
}

fn when_a_server_was_started_is_the_same_whenever_it_is_asked(scene: &Scene) {
    let question = format!("SELECT {}", lease::started(scene.server.version()));
    let first = scene.ask(&question);
    assert!(first.parse::<f64>().is_ok_and(|started| started > 1e9), "{first}");
    // Over the ends of two seconds.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2_100) {
        assert_eq!(scene.ask(&question), first);
    }
}

/// Forwards a port until it is set to hold everything back, as a network does that is gone.
struct Network {
    port: u16,
    is_gone: Arc<AtomicBool>,
}

impl Network {
    fn to(port: u16) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let is_gone = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&is_gone);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = std::net::TcpStream::connect(("127.0.0.1", port)) else { continue };
                let pairs = [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
                for (mut from, mut to) in pairs {
                    let gone = Arc::clone(&gone);
                    std::thread::spawn(move || {
                        use std::io::{Read as _, Write as _};
                        let mut bytes = [0; 4096];
                        while let Ok(read @ 1..) = from.read(&mut bytes) {
                            while gone.load(Ordering::Relaxed) {
                                std::thread::sleep(Duration::from_millis(10));
                            }
                            if to.write_all(&bytes[..read]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Self { port: own_port, is_gone }
    }
}

fn a_network_that_is_gone_is_noticed_by_the_server_itself(scene: &Scene) {
    let network = Network::to(scene.server.port());
    // No more than what it needs.
    let version = scene.version();
    let to_set = match () {
        () if version.mysql_at_least(8, 0, 0) => "SYSTEM_VARIABLES_ADMIN",
        () if version.mariadb_at_least(10, 5, 2) => "SUPER, BINLOG ADMIN",
        () => "SUPER",
    };
    let has_sys = version.mysql_at_least(5, 7, 7) || version.mariadb_at_least(10, 6, 0);
    let schema = if has_sys { "sys" } else { "mysql" };
    scene.execute(&format!("GRANT {to_set} ON *.* TO spindoctor@'127.0.0.1'"));
    scene.execute(&format!("GRANT EVENT ON {schema}.* TO spindoctor@'127.0.0.1'"));
    let is_event_wanted = scene.has_event_scheduler();
    let tuner = scene.start_at("hold", &format!("127.0.0.1:{}", network.port));
    assert_eq!(tuner.has_event, is_event_wanted);
    assert!(!scene.is_as_before());
    let guardian = tuner.guardian;
    let gone = Instant::now();
    network.is_gone.store(true, Ordering::Relaxed);
    if tuner.has_event {
        scene.wait_for_values(gone, "no network");
    } else {
        // Only somebody on the other side could help: not before the network is back.
        until("no network", || scene.is_free(), || "the lock is held".to_owned());
    }
    network.is_gone.store(false, Ordering::Relaxed);
    scene.wait_for_values(Instant::now(), "the network is back");
    let word = tuner.end();
    assert!(word.starts_with("lost: "), "{word}");
    scene.wait_for_nothing(guardian, "the network is back");
}

fn a_server_that_takes_no_event_is_guarded_by_the_process_alone(scene: &Scene) {
    if !scene.version().mysql_at_least(5, 7, 8) {
        return;
    }
    scene.execute("SET GLOBAL super_read_only = ON");
    let mut tuner = scene.start("flip");
    assert!(!tuner.has_event);
    let killed = Instant::now();
    tuner.kill();
    scene.wait_for_values(killed, "super_read_only");
    scene.wait_for_nothing(tuner.guardian, "super_read_only");
    scene.execute("SET GLOBAL read_only = OFF");
}

impl Scene {
    fn take(&self, variables: &[&'static Variable]) -> Settings {
        let options = TakeOptions {
            program: env!("CARGO_BIN_EXE_spindoctor-tune-driver").into(),
            state: self.state.path().to_owned(),
        };
        self.runtime.block_on(Settings::take(&self.target(), variables, &options)).unwrap()
    }
}

fn a_value_that_the_server_adjusts_is_an_error_and_all_have_their_values_from_before(scene: &Scene) {
    if !scene.has_capacity_max() {
        println!("skipped on {}: no variable of it bounds another", scene.version());
        return;
    }
    let (delay, capacity) = (find("innodb_spin_wait_delay").unwrap(), find("innodb_io_capacity").unwrap());
    let version = scene.server.version();
    let capacities = "SELECT CONCAT(@@GLOBAL.innodb_io_capacity, ' ', @@GLOBAL.innodb_io_capacity_max)";
    let before = scene.ask(capacities);
    let mut settings = scene.take(&[delay, capacity]);
    // More than innodb_io_capacity_max: MySQL takes that one, MariaDB raises it.
    let asked = [(delay, "1".to_owned()), (capacity, "4000000".to_owned())];
    let set = scene.runtime.block_on(settings.set(&asked));
    assert!(set.is_err(), "{version}: {}", scene.ask(capacities));
    let error = set.unwrap_err();
    assert!(matches!(error, ApplyError::Adjusted { .. }), "{error}");
    assert_eq!(scene.values(), ["7", "31"]);
    assert_eq!(scene.ask(capacities), before);
    scene.runtime.block_on(settings.set(&[(delay, "1".into())])).unwrap();
    assert_eq!(settings.current("innodb_spin_wait_delay"), Some("1"));
    let restored = scene.runtime.block_on(settings.restore()).unwrap();
    assert_eq!(restored.restored.len(), 3, "{restored}");
    assert!(scene.is_as_before() && scene.journals() == 0 && !scene.has_event());
}

fn every_variable_of_the_list_can_be_lent_and_set_on_both_servers(scene: &Scene) {
    let version = scene.server.version();
    let variables: Vec<_> = VARIABLES.iter().filter(|variable| (variable.is_dynamic_on)(version)).collect();
    let mut settings = scene.take(&variables);
    let same =
        variables.iter().map(|&variable| (variable, settings.original(variable.name).unwrap().to_owned()));
    let same: Vec<(&'static Variable, String)> = same.collect();
    scene.runtime.block_on(settings.set(&same)).unwrap();
    let restored = scene.runtime.block_on(settings.restore()).unwrap();
    assert_eq!(restored.restored.len(), variables.len(), "{restored}");
}

fn what_is_persisted_is_listed_on_mysql_and_shown_as_option_file_on_mariadb(scene: &Scene) {
    let (delay, loops) = (find("innodb_spin_wait_delay").unwrap(), find("innodb_sync_spin_loops").unwrap());
    let mut settings = scene.take(&[delay, loops]);
    let asked = [(delay, "1".to_owned()), (loops, "31".to_owned())];
    scene.runtime.block_on(settings.set(&asked)).unwrap();
    let persisted = scene.runtime.block_on(settings.persist()).unwrap();
    match scene.version().mysql_at_least(8, 0, 0) {
        false => {
            assert_eq!(persisted, Persisted::OptionFile("innodb_spin_wait_delay = 1\n".into()));
        }
        true => {
            assert_eq!(persisted, Persisted::Statement("SET PERSIST innodb_spin_wait_delay = 1".into()));
            let listed = "SELECT GROUP_CONCAT(VARIABLE_NAME, '=', VARIABLE_VALUE) FROM performance_schema.persisted_variables";
            assert_eq!(scene.ask(listed), "innodb_spin_wait_delay=1");
            scene.execute("RESET PERSIST");
        }
    }
    assert!(scene.values() == ["1", "31"] && scene.journals() == 0 && !scene.has_event());
}

/// Lists functions with their names.
macro_rules! checks {
    ($($check:ident),* $(,)?) => { &[$((stringify!($check), $check)),*] };
}
/// Something that holds of a server.
type Check = fn(&Scene);

/// What holds on every kind of server. Each leaves it as it was, but for the two values.
const CHECKS: &[(&str, Check)] = checks![
    a_guardian_that_is_killed_is_replaced_and_the_new_one_puts_back,
    with_both_killed_and_no_event_the_next_recovery_puts_back,
    the_next_tuner_puts_back_what_a_dead_one_left_before_it_looks_at_the_old_values,
    a_tuner_that_is_stopped_loses_its_settings_and_changes_nothing_when_it_goes_on,
    every_signal_that_asks_for_the_end_puts_back_first,
    what_somebody_else_set_meanwhile_is_left_and_the_rest_is_put_back,
    somebody_elses_change_ends_the_tuner_which_says_what_it_saw,
    somebody_elses_change_after_the_tuners_death_is_respected,
    a_lock_that_another_account_waits_for_keeps_no_setting_changed,
    a_server_that_stops_for_seconds_takes_the_lease_from_nobody,
    a_tuner_that_stops_for_two_seconds_goes_on,
    an_account_that_may_not_set_is_reported_the_grant_and_nothing_is_left,
    a_value_that_cannot_be_is_refused_before_anything_is_armed,
    a_server_makes_no_other_value_of_one_that_it_takes,
    a_second_tuner_is_refused_and_shown_who_tunes_since_when,
    what_is_kept_stays_and_nothing_else_is_left,
    when_a_server_was_started_is_the_same_whenever_it_is_asked,
    a_network_that_is_gone_is_noticed_by_the_server_itself,
    a_value_that_the_server_adjusts_is_an_error_and_all_have_their_values_from_before,
    every_variable_of_the_list_can_be_lent_and_set_on_both_servers,
    what_is_persisted_is_listed_on_mysql_and_shown_as_option_file_on_mariadb,
    a_server_that_takes_no_event_is_guarded_by_the_process_alone,
];

/// All of them, on one server; after one that failed, on another.
fn all_hold(which: &Which, options: &[&str]) {
    let mut failed = Vec::new();
    let mut scene = Scene::with_values(which.clone(), options);
    for (name, check) in CHECKS {
        let begun = Instant::now();
        scene.reset();
        if catch_unwind(AssertUnwindSafe(|| check(&scene))).is_err() {
            failed.push(name);
            scene = Scene::with_values(which.clone(), options);
        }
        println!("{:5.1} s {name}", begun.elapsed().as_secs_f64());
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Which hold nobody to a time: `script/test` runs several of these at once.
mod calm {
    use super::*;

    #[test]
    fn the_binary_log_and_the_gtid_set_are_as_they_were() {
        let servers: [(Which, &[&str], &str); 2] = [
            (
                Which::Mysql,
                &["--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
                "SELECT @@GLOBAL.gtid_executed",
            ),
            (
                Which::Mariadb,
                &["--event-scheduler=ON", "--log-bin=log", "--gtid-strict-mode=ON"],
                "SELECT @@GLOBAL.gtid_binlog_pos",
            ),
        ];
        // Both at once: what takes time is the putting back.
        std::thread::scope(|scope| {
            for (which, options, gtids) in servers {
                scope.spawn(move || the_log_is_as_it_was(&Scene::with_values(which, options), gtids));
            }
        });
    }

    fn the_log_is_as_it_was(scene: &Scene, gtids: &str) {
        let size = || -> u64 {
            let files = std::fs::read_dir(scene.server.data()).unwrap().flatten();
            let logs = files.filter(|file| {
                let name = file.file_name().to_string_lossy().into_owned();
                (name.starts_with("binlog.") || name.starts_with("log.")) && !name.ends_with("index")
            });
            logs.map(|file| file.metadata().unwrap().len()).sum()
        };
        let version = scene.version();
        let before = (scene.ask(gtids), size());
        assert!(before.1 > 0, "{version}: there is no binary log");
        for how in ["interrupted", "killed"] {
            let mut tuner = scene.start("flip");
            assert!(tuner.has_event, "{version}: the tuner has no EVENT");
            if how == "killed" {
                send(tuner.pid(), Signal::STOP);
                send(tuner.guardian, Signal::KILL);
                tuner.kill();
                scene.wait_for_values(Instant::now(), how);
                until(how, || !scene.has_event(), || "an EVENT is left".to_owned());
                scene.recover();
            } else {
                send(tuner.pid(), Signal::TERM);
                tuner.end();
            }
            assert_eq!((scene.ask(gtids), size()), before, "{version}, {how}: something was logged");
        }
        scene.execute("CREATE DATABASE shows_that_it_is_written");
        assert!(size() > before.1, "{version}: the binary log is not written");
    }

    #[test]
    fn a_server_that_is_restarted_has_its_own_values_and_no_event() {
        // All at once: what takes time is that the tuner notices.
        std::thread::scope(|scope| {
            for (which, options) in Scene::all() {
                scope.spawn(move || has_its_own_values_after_a_restart(&which, options));
            }
        });
    }

    fn has_its_own_values_after_a_restart(which: &Which, options: &[&str]) {
        let scene = Scene::with_values(which.clone(), options);
        let tuner = scene.start("hold");
        let guardian = tuner.guardian;
        // A server is known by the second in which it was started.
        let started = format!("SELECT {} < UNIX_TIMESTAMP()", lease::started(scene.server.version()));
        until("a second", || scene.ask(&started) == "1", String::new);
        let arguments = std::fs::read(format!("/proc/{}/cmdline", scene.server.pid())).unwrap();
        let mut arguments =
            arguments.split(|byte| *byte == 0).map(|text| String::from_utf8(text.to_vec()).unwrap());
        let program = PathBuf::from(arguments.next().unwrap());
        let arguments: Vec<String> = arguments.filter(|argument| !argument.is_empty()).collect();
        send(scene.server.pid(), Signal::KILL);
        until("killed", || !runs(scene.server.pid()), || "it runs".to_owned());
        // The lab has not waited for its process yet, so that another server takes it for one that uses the socket.
        std::fs::remove_file(scene.server.socket().with_extension("sock.lock"))
            .or_else(|absent| match which {
                Which::Mariadb => Ok(()),
                _ => Err(absent),
            })
            .unwrap();
        // It starts with a value that the tuner set, too: that is no reason to put another one there.
        let mut again = Command::new(program)
            .args(arguments)
            .args(["--innodb-spin-wait-delay=1", "--innodb-sync-spin-loops=29"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let word = tuner.end();
        assert!(word.starts_with("lost: ") && word.contains("restarted meanwhile"), "{word}");
        assert_eq!(scene.values(), ["1", "29"], "{which:?}: {word}");
        scene.wait_for_nothing(guardian, "restarted");
        assert_eq!(scene.values(), ["1", "29"], "{which:?}: the values changed when all was over");
        again.kill().unwrap();
        again.wait().unwrap();
    }

    #[test]
    fn whatever_becomes_of_a_tuner_mysql_is_as_it_was() {
        let [(which, options), ..] = Scene::all();
        all_hold(&which, options);
    }

    #[test]
    fn whatever_becomes_of_a_tuner_a_mariadb_with_events_is_as_it_was() {
        let [_, (which, options), _] = Scene::all();
        all_hold(&which, options);
    }

    #[test]
    fn whatever_becomes_of_a_tuner_a_mariadb_without_events_is_as_it_was() {
        let [.., (which, options)] = Scene::all();
        all_hold(&which, options);
    }
}
