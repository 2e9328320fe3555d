//! The errors of the lab, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use spindoctor_model::{Flavor, ServerVersion};

/// A failure of the lab. Nothing is left running when one is returned. Each says all there is to say: none
/// has a source of its own, which would be printed a second time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read, written, created or removed.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// What was tried: `write`, `create the folder`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// A program that the lab rests on is not installed, and the lab may not install it.
    #[error("{program} is needed and not installed. Install it: {how}")]
    Missing {
        /// `sysbench`.
        program: String,
        /// `apt-get install sysbench`.
        how: String,
    },
    /// A program ran and failed.
    #[error("{program} failed ({status}){}{said}", if said.is_empty() { "" } else { ":\n" })]
    Program {
        /// What was run.
        program: String,
        /// `exit status: 100`.
        status: String,
        /// The last lines of what it printed.
        said: String,
    },
    /// The archive could not be derived from the machine's apt sources.
    #[error("{0}. Give the lab another server with --basedir DIR")]
    NoArchive(String),
    /// No server could be found where the user said there is one.
    #[error("no MySQL or MariaDB server in {}: looked for {looked_for}. Check --basedir", place.display())]
    NoServer {
        /// Where it was looked for.
        place: PathBuf,
        /// Which files.
        looked_for: String,
    },
    /// `--version` of a server printed something unknown.
    #[error("{} does not say which server it is: {said}", server.display())]
    UnknownServer {
        /// The program.
        server: PathBuf,
        /// What it said.
        said: String,
    },
    /// The server did not come up.
    #[error("the server {name} did not start: {because}\n{log}")]
    NotStarted {
        /// Its name in the lab.
        name: String,
        /// The reason, in one clause.
        because: String,
        /// The end of its error log.
        log: String,
    },
    /// A name that is in use.
    #[error("{0} is up already. Stop it with: spindoctor lab down {0}")]
    Taken(String),
    /// A name that is not in use.
    #[error("no lab server has the name {0}. See: spindoctor lab list")]
    NotUp(String),
    /// A record that this version of the lab did not write, of a server that runs.
    #[error(
        "{} is not of this version of the lab, and its server runs: end process {pid}, then try again",
        folder.display()
    )]
    ForeignRecord {
        /// The server's folder.
        folder: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// A name that cannot be a folder.
    #[error("{0} cannot be a lab server's name: use letters, digits, - and _")]
    BadName(String),
    /// This machine cannot do what was asked for.
    #[error("{what} cannot be set here: {because}")]
    Unable {
        /// `a CPU quota`.
        what: &'static str,
        /// Why, and what would change that.
        because: String,
    },
    /// A statement of the lab failed on the server.
    #[error("the server refused `{statement}`: {error}")]
    Statement {
        /// What was sent.
        statement: String,
        /// What came back.
        error: mysql_async::Error,
    },
    /// A statement of the lab was not answered.
    #[error(
        "the server did not answer `{statement}` within {seconds} s; is the machine busy with other work?"
    )]
    Silent {
        /// What was sent.
        statement: &'static str,
        /// For how long it was waited for.
        seconds: u64,
    },
    /// The scenario does not begin with a calm server.
    #[error("{scenario} does not begin with a calm server: `spindoctor lab list` shows which scenarios do")]
    NoOnset {
        /// The scenario's name.
        scenario: &'static str,
    },
    /// A scenario that cannot be made on this server.
    #[error("{scenario} cannot be made on {flavor}. See: spindoctor lab list")]
    NotOn {
        /// The scenario.
        scenario: &'static str,
        /// The server's flavor.
        flavor: Flavor,
    },
    /// An option that the server's version does not have, nor anything that comes to the same.
    #[error("{version} cannot be started with {option}: {because}")]
    NoOption {
        /// `--innodb-log-writer-threads=ON`.
        option: String,
        /// The server's.
        version: ServerVersion,
        /// The reason, in one clause.
        because: String,
    },
    /// The suffering of a scenario did not show in time.
    #[error("{scenario}: the server did not suffer within {seconds} s; is the machine busy with other work?")]
    NoSymptom {
        /// The scenario.
        scenario: &'static str,
        /// For how long it was waited for.
        seconds: u64,
    },
    /// An experiment whose trial could not begin, or whose settings could not be put back.
    #[error("{experiment}: no trial: {because}")]
    NotTried {
        /// The experiment.
        experiment: &'static str,
        /// What the tuner said.
        because: String,
    },
    /// There is no window to diagnose.
    #[error("{scenario}: the server could not be watched: {because}")]
    NotWatched {
        /// The scenario.
        scenario: &'static str,
        /// What the collector said.
        because: String,
    },
    /// The load generator printed a report that cannot be read.
    #[error("sysbench's report cannot be read: {0}")]
    Report(String),
    /// Ctrl-C.
    #[error("interrupted; everything that was started is stopped")]
    Interrupted,
}

/// The lab's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { doing, path, error }
    }

    /// For `map_err` on what is sent to a server.
    pub(crate) fn statement(statement: &str) -> impl FnOnce(mysql_async::Error) -> Self {
        let statement = statement.to_owned();
        move |error| Self::Statement { statement, error }
    }
}
