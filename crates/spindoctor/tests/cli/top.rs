//! `top` as people see it: in a real terminal, of a real server and of a recording of one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spindoctor_lab::injection;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};
use spindoctor_model::EventHead;
use spindoctor_record::Recording;

use crate::lab::{in_runtime, start};
use crate::program::{complained, spindoctor};
use crate::screen::{is_installed, tmux};

const TABLES: Tables = Tables { count: 2, rows: 1_000 };
/// For what is not promised, on a machine that is on its knees.
const PATIENCE: Duration = Duration::from_secs(60);
/// The detectors have to learn what is usual first: ten seconds, and some for the start.
const LEARNS: Duration = Duration::from_secs(15);
/// A stall that is seen is on the screen within a second or two.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// The program in a terminal of its own.
pub(crate) struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    pub(crate) fn running(line: &str, columns: u16, rows: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = spindoctor("").get_program().to_string_lossy().into_owned();
        let shell = format!(
            "env -i HOME=/nonexistent TERM=$TERM LC_ALL=C.UTF-8 {program} {line}; echo it ended with $?; cat"
        );
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let arguments = ["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows];
        let arguments: Vec<&str> =
            arguments.into_iter().chain(["env", "LC_ALL=C.UTF-8", "sh", "-c", &shell]).collect();
        tmux(folder.path(), &arguments);
        Self { folder }
    }

    pub(crate) fn press(&self, key: &str) {
        self.press_at_once(&[key]);
    }

    /// Keys that wait together, before the program looks at the first.
    pub(crate) fn press_at_once(&self, keys: &[&str]) {
        let arguments: Vec<&str> = ["send-keys"].into_iter().chain(keys.iter().copied()).collect();
        tmux(self.folder.path(), &arguments);
    }

    /// What this key puts into the terminal's clipboard.
    fn copies(&self, key: &str) -> String {
        tmux(self.folder.path(), &["set-option", "-s", "set-clipboard", "on"]);
        self.press(key);
        self.shows(&["copied, where the terminal takes it: "]);
        tmux(self.folder.path(), &["show-buffer"])
    }

    /// Waits until the screen holds all of this, and returns it.
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        self.shows_within(texts, PATIENCE)
            .unwrap_or_else(|screen| panic!("{texts:?} is not there:\n{screen}"))
    }

    /// Waits until the screen holds all of this, and returns it; what it holds instead after so long.
    fn shows_within(&self, texts: &[&str], patience: Duration) -> Result<String, String> {
        let begun = Instant::now();
        loop {
            let screen = tmux(self.folder.path(), &["capture-pane", "-p"]);
            if texts.iter().all(|text| screen.contains(text)) {
                return Ok(screen);
            }
            if begun.elapsed() >= patience {
                return Err(screen);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("tmux"))
            .arg("kill-server")
            .stderr(Stdio::null())
            .status();
    }
}

/// A server of the lab under a light load, for as long as something is done with it.
async fn under_load<T>(look: impl AsyncFnOnce(&Server) -> T) -> T {
    let spec = ServerSpec { which: Which::Mysql, tables: Some(TABLES), ..ServerSpec::default() };
    let server = start(&spec).await;
    let load = LoadSpec { workload: Workload::OltpReadWrite, threads: 8, rate: Some(40), tables: TABLES };
    let load = Load::start(server.socket(), load).expect("a load");
    let seen = look(&server).await;
    load.stop().await;
    server.stop().expect("it stops");
    seen
}

async fn stall(server: &Server) {
    let lock = injection::find("read-lock").expect("the lab knows it");
    lock.make(server, Duration::from_secs(3)).await.expect("the lock");
}

/// How many stalls the screen of events lists: `events  2 stalls`.
fn stalls_on(screen: &str) -> usize {
    let counted = screen.split("events  ").nth(1).and_then(|rest| rest.split_whitespace().next());
    counted.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no number of stalls:\n{screen}"))
}

#[test]
fn a_live_server_is_shown_on_every_screen_and_a_stall_is_seen() {
    if !is_installed("tmux") {
        return;
    }
    in_runtime(under_load(async |server| {
        let line = format!("top --no-defaults -u root -S {}", server.socket().display());
        let terminal = Terminal::running(&line, 80, 24);
        let mut begun = Instant::now();
        terminal.shows(&["LIVE", "read only", "UTC", "top queries over", "sbtest", " /s ", "CPUs"]);
        for (key, texts) in [
            ("2", ["threads  ", "connections"]),
            ("3", ["queries  over", "`sbtest1`"]),
            ("4", ["waits  over", "io/"]),
            ("5", ["locks", "pid"]),
            ("6", ["effective", "Memory"]),
            ("7", ["replication  0 channels", "no replica"]),
            ("8", ["events  ", "read only"]),
            ("?", ["help", "next and previous event"]),
        ] {
            terminal.press(key);
            terminal.shows(&texts);
        }
        terminal.press("2");
        terminal.shows(&["threads  "]);
        // With those that rest there is a connection in any second.
        terminal.press("i");
        assert!(terminal.copies("y").starts_with("KILL "));
        terminal.press("8");
        // How many of them are seen is the benchmarks' matter: here one of three has to be.
        for left in (0..3).rev() {
            tokio::time::sleep(LEARNS.saturating_sub(begun.elapsed())).await;
            // A machine that is busy may have made others.
            let one_more = format!("events  {} stall", stalls_on(&terminal.shows(&["events  "])) + 1);
            stall(server).await;
            begun = Instant::now();
            match terminal.shows_within(&["began (UTC)", &one_more], SEEN_WITHIN) {
                Ok(_) => return,
                Err(screen) => assert!(left > 0, "no stall is there:\n{screen}"),
            }
        }
    }));
}

/// What `--replay` makes of a recording with a stall under a global lock, without its server.
pub(crate) fn goes_to_the_stall_of(recording: &Path) {
    if !is_installed("tmux") {
        return;
    }
    let terminal = Terminal::running(&format!("top --replay {}", recording.display()), 200, 50);
    let name = recording.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    // It opens where the stall shows most: `n` and `N` go on from there.
    terminal.shows(&["PAUSED", name, "STALL since", "global-lock-pileup", "read only", "n/N event"]);
    terminal.press("End");
    terminal.shows(&["END", name]);
    // The newest event stands first; sessions that were let go may have met in a deadlock, which is an event, too.
    let events = Recording::open(recording).and_then(|recording| recording.events()).expect("events");
    let is_of_stall = |event: &EventHead| event.cause.as_deref() == Some("global-lock-pileup");
    let newer = events.iter().rev().take_while(|event| !is_of_stall(event)).count();
    // At once, as somebody types who knows the screens: Enter means what the screen of events shows.
    let keys: Vec<&str> =
        ["8"].into_iter().chain(std::iter::repeat_n("Down", newer)).chain(["Enter"]).collect();
    terminal.press_at_once(&keys);
    terminal.shows(&["PAUSED", "STALL since", "global-lock-pileup"]);
    terminal.press("5");
    terminal.shows(&["as kept with the event", "global read lock"]);
}

#[test]
fn what_cannot_be_shown_is_shown_in_one_line() {
    for (line, text) in [
        ("top --replay /nonexistent/x.rec", "standard output is not a terminal"),
        ("top --replay /nonexistent/x.rec --once", "/nonexistent/x.rec"),
        ("top --at 14:03", "--replay"),
        ("top --once --size 10x3", "200x50"),
    ] {
        let (message, code) = complained(line);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(text), "{line}: {message}");
    }
}
