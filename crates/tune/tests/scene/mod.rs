//! What tests of tuners that die share: a server, a folder for journals, and patience.

use std::io::BufRead;
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::{Endpoint, Target};
use spindoctor_lab::{Home, Server, ServerSpec, Which};

/// How long a busy machine may take for what takes seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server, and where its tuners keep their journals.
pub(crate) struct Scene {
    /// Drives the sessions.
    pub(crate) runtime: tokio::runtime::Runtime,
    /// The server.
    pub(crate) server: Server,
    /// The journals' folder.
    pub(crate) state: tempfile::TempDir,
}

impl Scene {
    /// Starts the server.
    pub(crate) fn new(which: Which, options: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let spec = ServerSpec { which, options, ..ServerSpec::default() };
        let server = runtime.block_on(Server::start(&Home::open().unwrap(), &spec, &|_| {})).unwrap();
        Self { runtime, server, state: tempfile::tempdir().unwrap() }
    }

    /// Runs a statement as `root`.
    pub(crate) fn execute(&self, statement: &str) {
        self.runtime.block_on(self.server.execute([statement])).unwrap();
    }

    /// The first cell of an answer, empty where there is none.
    pub(crate) fn ask(&self, question: &str) -> String {
        self.runtime.block_on(self.server.ask(question)).unwrap().unwrap_or_default()
    }

    /// How a tuner connects.
    pub(crate) fn target(&self) -> Target {
        Target::new(Endpoint::Socket(self.server.socket().to_owned()), "root")
    }
}

/// The next line of a tuner, empty at its end.
pub(crate) fn line(said: &mut impl BufRead) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Waits until it is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}: after {:?}: {}", since.elapsed(), otherwise());
        std::thread::sleep(Duration::from_millis(10));
    }
}
