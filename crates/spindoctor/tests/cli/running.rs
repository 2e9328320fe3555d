//! The program while it runs: a test reads what it says, sends it signals, and leaves none of it behind.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::spindoctor;

/// How often a test looks whether something has happened.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// The program with these words, for a test that starts and ends it: in as clean an environment as [`spindoctor`], without input.
pub(crate) fn process(line: &str) -> Command {
    let asked = spindoctor(line);
    let mut command = Command::new(asked.get_program());
    let variables = asked.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(asked.get_args()).env_clear().envs(variables).stdin(Stdio::null());
    command
}

/// A process of the program. It ends with the test.
pub(crate) struct Running {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
    notes: Option<BufReader<ChildStderr>>,
}

/// How a process ended, and what of its outputs had not been read before.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Running {
    /// Starts it, with both outputs for the test to read.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts it where its output is of no interest; its notes are among those of the test.
    pub(crate) fn start_unread(command: &mut Command) -> Self {
        Self::spawn(command.stdout(Stdio::null()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the program runs");
        let out = child.stdout.take().map(BufReader::new);
        let notes = child.stderr.take().map(BufReader::new);
        Self { child, out, notes }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output; none at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        next_line(self.out.as_mut()?)
    }

    /// Waits for a line of standard error that has this text.
    pub(crate) fn until_it_notes(&mut self, text: &str) {
        let mut before = Vec::new();
        while let Some(line) = self.notes.as_mut().and_then(next_line) {
            if line.contains(text) {
                return;
            }
            before.push(line);
        }
        panic!("it ended without a word of {text:?}: {before:#?}");
    }

    /// Reads no more of standard output, as `head` does that has enough.
    pub(crate) fn close_output(&mut self) {
        self.out = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits for the end.
    pub(crate) fn ended(mut self) -> Ended {
        let (out, notes) = (self.out.take(), self.notes.take());
        // Both at once: a pipe that nobody reads becomes full, and stops the program.
        let notes = std::thread::spawn(move || rest(notes));
        let out = rest(out);
        let err = notes.join().expect("the rest of its notes is text");
        Ended { out, err, code: self.child.wait().expect("it ends").code() }
    }

    /// Presses Ctrl-C, and waits for the end.
    pub(crate) fn interrupted(self) -> Ended {
        self.signal(Signal::INT);
        self.ended()
    }

    /// Asks for the end, as a service manager does, and waits for it: it is a success.
    pub(crate) fn end(self) {
        self.signal(Signal::TERM);
        let ended = self.ended();
        assert_eq!(ended.code, Some(0), "SIGTERM was not the end of a success: {ended:?}");
    }

    /// Ends it without a word, as a crash does.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _has_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Waits until something is so, as long as a busy machine may take.
pub(crate) fn wait_until(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience, "{what}: not within {patience:?}");
        std::thread::sleep(LOOKS_EVERY);
    }
}

fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = from.read_line(&mut line).expect("UTF-8");
    (read > 0).then(|| line.trim_end_matches('\n').to_owned())
}

fn rest(from: Option<impl Read>) -> String {
    let mut text = String::new();
    if let Some(mut from) = from {
        from.read_to_string(&mut text).expect("UTF-8");
    }
    text
}
