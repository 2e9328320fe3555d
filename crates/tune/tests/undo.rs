//! Undo tablespaces that a tuner made: killed at any step, stopped, or cut off by a restart of the server, it leaves what was
//! there before, and nothing else is ever dropped.
//!
//! The tuner is `driver/tuner.rs`. Servers are real. All of it takes two minutes: `make test` runs what takes seconds,
//! `script/undo-tablespaces` everything.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod process;
mod scene;

use std::fs::Permissions;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use spindoctor_collect::host;
use spindoctor_lab::Which;
use spindoctor_tune::apply::{ApplyError, Recovered, Settings, TakeOptions, recover};
use spindoctor_tune::undo::{self, UndoRefused};
use spindoctor_tune::variables::find;

use process::{send, state};
use scene::{Scene, line, until};

/// So many are active in all; two are implicit, one is the user's.
const WANTED: u32 = 5;
/// What a trial toggles, with its value before.
const SEGMENTS: &str = "innodb_rollback_segments";
const OPTIONS: &[&str] = &["--innodb-max-undo-log-size=67108864", "--innodb-rollback-segments=64"];
/// A tablespace of somebody who liked our names.
const USERS: &str = "spindoctor_undo_of_mine";

/// A tuner that runs, and what it says.
struct Tuner {
    child: Child,
    said: BufReader<ChildStdout>,
    guardian: u32,
}

impl Scene {
    /// With an undo tablespace of a user's.
    fn with_users(which: Which) -> Self {
        let scene = Self::new(which, OPTIONS);
        scene.execute(&format!("CREATE UNDO TABLESPACE {USERS} ADD DATAFILE '{USERS}.ibu'"));
        scene
    }

    /// All names, with their state.
    fn tablespaces(&self) -> String {
        self.ask(
            "SELECT GROUP_CONCAT(CONCAT(NAME, ' ', STATE) ORDER BY NAME SEPARATOR ', ') FROM \
             information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'Undo'",
        )
    }

    /// Those that a tuner made.
    fn made(&self) -> usize {
        self.tablespaces().matches("spindoctor_undo_1").count()
    }

    fn is_as_before(&self) -> bool {
        self.tablespaces() == format!("innodb_undo_001 active, innodb_undo_002 active, {USERS} active")
            && self.segments() == "64"
    }

    fn segments(&self) -> String {
        self.ask("SELECT @@GLOBAL.innodb_rollback_segments")
    }

    fn journals(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.state.path()).unwrap().flatten();
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn start(&self, settings: &[(&str, u32)]) -> Tuner {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor-tune-driver"));
        command.arg("undo").arg(self.server.socket()).arg(self.state.path()).arg(format!("{SEGMENTS}=20"));
        command.env("UNDO", WANTED.to_string()).env("SERVER", self.server.pid().to_string());
        for (name, value) in settings {
            command.env(name, value.to_string());
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let armed = line(&mut said);
        let guardian = armed.rsplit('=').next().and_then(|pid| pid.parse().ok());
        Tuner { child, said, guardian: guardian.unwrap_or_else(|| panic!("{armed}")) }
    }

    fn recover(&self) -> Recovered {
        self.runtime.block_on(recover(&self.target(), self.state.path())).unwrap()
    }

    fn wait_for_nothing(&self, what: &str) {
        until(what, || self.is_as_before(), || format!("{}, {}", self.tablespaces(), self.segments()));
        until(what, || self.journals().is_empty(), || format!("{:?}", self.journals()));
    }
}

impl Tuner {
    /// All that it says until it ends or is killed.
    fn words(mut self) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            match line(&mut self.said) {
                end if end.is_empty() => break,
                word => words.push(word),
            }
        }
        self.child.wait().unwrap();
        words
    }

    fn until_it_says(&mut self, wanted: &str) {
        while !line(&mut self.said).starts_with(wanted) {}
    }

    fn until_stopped(&self) {
        until("stopped", || state(self.child.id()) == Some('T'), String::new);
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        // It has ended, unless its test failed.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Kills a tuner at each of its steps, until one gets to its end: with its guardian alone, and with `tune --recover` alone.
fn killed_at_each_step(which: Which) {
    let scene = Scene::with_users(which);
    let mut seen = Vec::new();
    for keep in [0, 1] {
        for at in 1.. {
            let has_guardian = at % 2 == keep;
            let what = format!("killed at step {at}, keep {keep}, guardian {has_guardian}");
            let tuner = scene.start(&[("KILL_AT", at), ("KEEP", keep)]);
            let guardian = tuner.guardian;
            if !has_guardian {
                // Stopped: one that is gone would be replaced.
                send(guardian, Signal::STOP);
            }
            let words = tuner.words();
            let last = words.last().cloned().unwrap_or_default();
            if !has_guardian {
                send(guardian, Signal::KILL);
            }
            if !last.starts_with("step ") {
                seen.push(last);
                break;
            }
            if !has_guardian {
                let recovered = scene.recover();
                assert!(recovered.left.is_empty() && recovered.refused.is_empty(), "{what}: {recovered:?}");
                assert!(scene.is_as_before(), "{what}: {recovered:?}: {}", scene.tablespaces());
            }
            scene.wait_for_nothing(&what);
        }
        if keep == 0 {
            scene.wait_for_nothing("restored");
        }
    }
    println!("{seen:?}");
    assert!(
        seen[0].starts_with("restored: ") && seen[0].ends_with("2 undo tablespaces were dropped"),
        "{seen:?}"
    );
    assert_eq!(seen[1], "kept");
    // What was kept stays, after any recovery.
    assert_eq!((scene.made(), scene.segments().as_str(), scene.journals()), (2, "20", Vec::new()));
    assert_eq!(scene.recover(), Recovered::default());
    assert_eq!(scene.made(), 2);
}

#[test]
#[ignore = "takes long: script/undo-tablespaces runs it"]
fn undo_tuner_killed_at_each_step_leaves_what_was_there_before() {
    killed_at_each_step(Which::Mysql);
}

#[test]
#[ignore = "takes long: script/undo-tablespaces runs it"]
fn undo_tuner_killed_at_each_step_leaves_mysql_8_0_33_as_it_was() {
    killed_at_each_step(Which::by_name("mysql-8.0.33").unwrap());
}

#[test]
#[ignore = "takes long: script/undo-tablespaces runs it"]
fn undo_tuner_killed_at_random_moments_leaves_what_was_there_before() {
    let scene = Scene::with_users(Which::Mysql);
    // Over a whole run, which takes some three seconds: in the middle of a CREATE, too.
    for turn in 0_u64..24 {
        let mut tuner = scene.start(&[]);
        std::thread::sleep(Duration::from_millis(turn * 37 % 900));
        tuner.child.kill().unwrap();
        tuner.child.wait().unwrap();
        scene.wait_for_nothing(&format!("turn {turn}"));
    }
}

#[test]
#[ignore = "takes long: script/undo-tablespaces runs it"]
fn undo_tuner_that_is_stopped_before_a_statement_leaves_nothing_when_it_goes_on_or_is_killed() {
    let scene = Scene::with_users(Which::Mysql);
    // The second step is the first name in the journal, the fourth the second; the CREATE comes after it.
    for (stop, kill) in [(2, 0), (4, 0), (2, 3), (4, 5)] {
        let what = format!("stopped at {stop}, killed at {kill}");
        let tuner = scene.start(&[("STOP_AT", stop), ("KILL_AT", kill)]);
        tuner.until_stopped();
        // The guardian gives back what is there; it cannot know what is to come.
        until(&what, || scene.is_as_before(), || scene.tablespaces());
        until(
            &what,
            || scene.journals().iter().all(|name| name.ends_with(".undo")),
            || format!("{:?}", scene.journals()),
        );
        assert_eq!(scene.journals().len(), 1, "{what}: the names stay on disk while the tuner lives");
        send(tuner.child.id(), Signal::CONT);
        let words = tuner.words();
        if kill == 0 {
            assert!(words.last().is_some_and(|word| word.contains("lease")), "{what}: {words:?}");
        }
        scene.wait_for_nothing(&what);
    }
}

#[test]
#[ignore = "takes long: script/undo-tablespaces runs it"]
fn undo_that_a_long_transaction_needs_is_said_and_the_next_recovery_goes_on() {
    let scene = Scene::with_users(Which::Mysql);
    scene.execute("CREATE DATABASE u");
    scene.execute("CREATE TABLE u.t (id INT PRIMARY KEY, x INT)");
    scene.execute("INSERT INTO u.t VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)");
    let mut tuner = scene.start(&[("HOLD", 1)]);
    tuner.until_it_says("holding");
    // Segments are handed out in turn: of as many transactions as there are tablespaces, some have ours.
    let sessions: Vec<_> = (1..=8)
        .map(|row| {
            scene.runtime.block_on(async {
                use mysql_async::prelude::Queryable as _;
                let mut conn = scene.server.connect().await.unwrap();
                conn.query_drop("BEGIN").await.unwrap();
                conn.query_drop(format!("UPDATE u.t SET x = 1 WHERE id = {row}")).await.unwrap();
                conn
            })
        })
        .collect();
    send(tuner.guardian, Signal::STOP);
    tuner.child.kill().unwrap();
    tuner.child.wait().unwrap();
    send(tuner.guardian, Signal::KILL);
    let recovered = scene.recover();
    assert_eq!(scene.segments(), "64", "variables do not wait for purge: {recovered:?}");
    assert_eq!(recovered.left.len(), 1, "{recovered:?}");
    let left = &recovered.left[0];
    assert!(
        left.contains("KILL ") && left.contains("tune --recover") && left.contains("spindoctor_undo_"),
        "{left}"
    );
    assert!(
        scene.made() > 0 && !scene.tablespaces().contains("001 active, spindoctor"),
        "{}",
        scene.tablespaces()
    );
    assert_eq!(scene.journals().len(), 1);
    // A restart meanwhile is no end of them: they are files.
    drop(sessions);
    let recovered = scene.recover();
    assert!(recovered.left.is_empty() && recovered.done.len() == 1, "{recovered:?}");
    scene.wait_for_nothing("recovered");
    assert_eq!(scene.recover(), Recovered::default());
}

#[test]
fn undo_tablespaces_are_dropped_after_a_restart_of_the_server_too() {
    let mut scene = Scene::with_users(Which::Mysql);
    let mut tuner = scene.start(&[("HOLD", 1)]);
    tuner.until_it_says("holding");
    send(tuner.guardian, Signal::STOP);
    tuner.child.kill().unwrap();
    tuner.child.wait().unwrap();
    send(tuner.guardian, Signal::KILL);
    let Scene { runtime, server, .. } = &mut scene;
    runtime.block_on(server.restart()).unwrap();
    assert_eq!(scene.made(), 2, "{}", scene.tablespaces());
    let recovered = scene.recover();
    assert!(
        recovered.done.iter().any(|done| done.contains("2 undo tablespaces were dropped")),
        "{recovered:?}"
    );
    scene.wait_for_nothing("restarted");
}

#[test]
fn undo_journal_that_is_forged_drops_nothing() {
    let scene = Scene::with_users(Which::Mysql);
    let mut tuner = scene.start(&[("HOLD", 1)]);
    tuner.until_it_says("holding");
    let before = scene.tablespaces();
    let name = scene.journals().into_iter().find(|name| name.ends_with(".undo")).unwrap();
    let path = scene.state.path().join(&name);
    let text = std::fs::read_to_string(&path).unwrap();
    let own = text.split('"').find(|word| word.starts_with("spindoctor_undo_1")).unwrap().to_owned();
    let forged = scene.state.path().join("tune-1-1.undo");
    for name in [USERS, "innodb_undo_002", "x; DROP UNDO TABLESPACE y"] {
        let other = text.replace(&own, name);
        std::fs::write(&forged, other).unwrap();
        std::fs::set_permissions(&forged, Permissions::from_mode(0o600)).unwrap();
        let listed = undo::journal::list(scene.state.path()).unwrap();
        let error =
            listed.into_iter().find_map(|(path, read)| (path == forged).then(|| read.unwrap_err())).unwrap();
        assert!(error.to_string().contains("is no undo tablespace of that tuner"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    send(tuner.guardian, Signal::STOP);
    tuner.child.kill().unwrap();
    tuner.child.wait().unwrap();
    send(tuner.guardian, Signal::KILL);
    let recovered = scene.recover();
    assert_eq!(recovered.refused.len(), 1, "{recovered:?}");
    assert_eq!(scene.tablespaces(), before, "nothing is dropped by what somebody else may have written");
}

/// Takes the server and asks for undo tablespaces; why there are none.
fn refused(scene: &Scene, wanted: u32, limit_bytes: Option<u64>, pid: Option<u32>) -> ApplyError {
    let options = TakeOptions {
        state: scene.state.path().into(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_spindoctor-tune-driver")),
    };
    let loops = find("innodb_sync_spin_loops").unwrap();
    scene.runtime.block_on(async {
        let mut settings = Settings::take(&scene.target(), &[loops], &options).await.unwrap();
        let host = pid.map(host::Target::live);
        let error = settings.make_undo(wanted, limit_bytes, host.as_ref(), &|| false).await.unwrap_err();
        settings.restore().await.unwrap();
        error
    })
}

#[test]
fn undo_that_would_not_fit_or_has_no_bound_is_refused_before_anything_is_made() {
    let scene = Scene::with_users(Which::Mysql);
    let pid = Some(scene.server.pid());
    let words = |error: ApplyError| error.to_string();
    assert!(matches!(refused(&scene, 3, None, pid), ApplyError::Undo(UndoRefused::Enough { active: 3 })));
    // Ten exbibytes each are on no disk.
    let error = words(refused(&scene, 8, Some(10 << 60), pid));
    assert!(error.contains("a quarter of the") && error.contains("innodb_max_undo_log_size"), "{error}");
    let error = words(refused(&scene, 8, None, None));
    assert!(error.contains("innodb_undo_directory (./) could not be read"), "{error}");
    scene.execute("SET GLOBAL innodb_undo_log_truncate = OFF");
    assert!(words(refused(&scene, 8, None, pid)).contains("innodb_undo_log_truncate is OFF"));
    scene.execute("SET GLOBAL innodb_undo_log_truncate = ON");
    scene.wait_for_nothing("refused");
    let mariadb = Scene::new(Which::Mariadb, &[]);
    let error = words(refused(&mariadb, 8, None, Some(mariadb.server.pid())));
    assert!(error.contains("has no CREATE UNDO TABLESPACE"), "{error}");
}
