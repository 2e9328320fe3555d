//! Makes captures: a server for each, its trouble, the readings, and the note of origin.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use spindoctor_corpus::PROVENANCE;
use tokio::task::JoinSet;

use super::scrub::Scrub;
use super::{CAPTURES, Capture, Read, SessionName, Step, folder_of, host, read};
use crate::cgroup::Limits;
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::replica;
use crate::server::{Server, ServerSpec};

/// How long a trouble lasts before it is read: long enough for whole seconds to be seen.
const SETTLE: Duration = Duration::from_millis(2_200);
/// How long a trouble may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);
const A_MOMENT: Duration = Duration::from_millis(50);

/// What is made, and into which folder.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The corpus's folder.
    pub into: PathBuf,
    /// The servers.
    pub servers: Vec<Which>,
    /// Names of captures; none means all.
    pub only: Vec<String>,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Made {
    /// Files that were written, below the corpus's folder.
    pub files: Vec<String>,
    /// Captures that could not be made, with why.
    pub failed: Vec<String>,
}

/// Makes captures, one after the other.
pub async fn run(home: &Home, options: &Options, progress: Progress<'_>) -> Result<Made> {
    let mut made = Made::default();
    let mut notes = Notes::read(&options.into)?;
    for which in &options.servers {
        let installation = Installation::find(home, which, progress)?;
        let wanted = CAPTURES.iter().filter(|capture| {
            (capture.on)(installation.version)
                && (options.only.is_empty() || options.only.iter().any(|name| name == capture.name))
        });
        for capture in wanted {
            let name = format!("{}/{}", folder_of(installation.version), capture.name);
            progress(&name);
            let mut outcome = one(home, which, &installation, capture).await;
            if outcome.is_err() {
                // A machine with other work to do may be too slow once.
                outcome = one(home, which, &installation, capture).await;
            }
            let document = match outcome {
                Ok(document) => document,
                Err(error) => {
                    progress(&format!("{name}: {error}"));
                    made.failed.push(format!("{name}: {error}"));
                    continue;
                }
            };
            let path = document.write(&options.into, &name).map_err(|error| unwritten(&error))?;
            let file = path.strip_prefix(&options.into).unwrap_or(&path).display().to_string();
            notes.add(&file, &installation, capture);
            notes.write(&options.into)?;
            made.files.push(file);
        }
    }
    Ok(made)
}

fn unwritten(error: &spindoctor_corpus::Error) -> Error {
    Error::Unable { what: "a capture", because: error.to_string() }
}

/// One capture: the server is gone when it is made.
async fn one(
    home: &Home,
    which: &Which,
    installation: &Installation,
    capture: &Capture,
) -> Result<spindoctor_corpus::Document> {
    let spec = ServerSpec {
        which: which.clone(),
        options: capture.options.iter().map(|&option| option.to_owned()).collect(),
        limits: Limits { quota_cpus: capture.quota_cpus, ..Limits::default() },
        ..ServerSpec::default()
    };
    let server = Server::start(home, &spec, &|_| {}).await?;
    let mut trouble = Trouble {
        home,
        which,
        server: &server,
        open: BTreeMap::new(),
        busy: JoinSet::new(),
        sources: BTreeMap::new(),
    };
    trouble.users().await?;
    for step in capture.steps {
        trouble.step(step).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let mut document = match capture.read {
        Read::Host => host::read(server.pid()).await,
        _ => read::read(&server, capture).await?,
    };

    let mut scrub = Scrub::of_machine(home.root());
    let prefix = match installation.basedir.file_name().is_some_and(|name| name == "usr") {
        // A prefix that holds a whole system: its paths are those of the system.
        true => (installation.basedir.parent().unwrap_or(Path::new("/")).to_owned(), ""),
        false => (installation.basedir.clone(), "/usr/local/mysql"),
    };
    scrub.add(prefix.0.display().to_string(), prefix.1);
    for name in host::groups(server.pid()) {
        scrub.add(name, "system.slice");
    }
    for server in trouble.sources.values().chain([&server]) {
        scrub.add(server.name().to_owned(), "lab");
        for folder in [server.log(), server.socket().to_owned()] {
            scrub.add(folder.parent().unwrap_or(Path::new("/run")).display().to_string(), "/run/mysqld");
        }
        let place = server.data().parent().unwrap_or(server.data());
        scrub.add(place.file_name().unwrap_or_default().to_string_lossy().into_owned(), "lab");
        scrub.add(server.data().display().to_string(), "/var/lib/mysql");
        if let Some(group) = server.group().and_then(Path::file_name) {
            scrub.add(group.to_string_lossy().into_owned(), "db");
        }
    }
    for part in &mut document.parts {
        for text in [&mut part.name, &mut part.asked, &mut part.text] {
            *text = scrub.scrub(text)?;
        }
    }
    drop(trouble);
    server.stop()?;
    Ok(document)
}

/// The sessions of a trouble, open until this is dropped.
struct Trouble<'a> {
    home: &'a Home,
    which: &'a Which,
    server: &'a Server,
    open: BTreeMap<SessionName, Conn>,
    busy: JoinSet<()>,
    /// The servers that this one follows, by channel.
    sources: BTreeMap<&'static str, Server>,
}

impl Trouble<'_> {
    async fn users(&self) -> Result<()> {
        for user in [
            "shop@localhost",
            "report@localhost",
            "batch@localhost",
            "dba@localhost",
            "backup@localhost",
            "transfer@localhost",
            "tcp@'127.0.0.1'",
        ] {
            let statements = [format!("CREATE USER {user}"), format!("GRANT ALL ON *.* TO {user}")];
            self.server.execute(statements).await?;
        }
        Ok(())
    }

    async fn connect(&self, name: SessionName) -> Result<Conn> {
        let user = name.split(':').next().unwrap_or(name);
        let options = match user {
            "tcp" => OptsBuilder::default()
                .ip_or_hostname("127.0.0.1")
                .tcp_port(self.server.port())
                .user(Some(user))
                .prefer_socket(false)
                .max_allowed_packet(Some(16 << 20))
                .wait_timeout(Some(28_800))
                .into(),
            user => self.server.options(user),
        };
        Conn::new(options).await.map_err(Error::statement("connect"))
    }

    /// The open session of this name; a new one where there is none.
    async fn session(&mut self, name: SessionName) -> Result<Conn> {
        match self.open.remove(name) {
            Some(conn) => Ok(conn),
            None => self.connect(name).await,
        }
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::In(name, statements) => {
                let mut conn = self.session(name).await?;
                for statement in statements {
                    conn.query_drop(*statement).await.map_err(Error::statement(statement))?;
                }
                self.open.insert(name, conn);
            }
            Step::Try(name, statements) => {
                let mut conn = self.session(name).await?;
                for statement in statements {
                    let _refused = conn.query_drop(*statement).await;
                }
                self.open.insert(name, conn);
            }
            Step::Send(name, statement) => {
                let mut conn = self.session(name).await?;
                self.busy.spawn(async move {
                    let _answer = conn.query_drop(statement).await;
                    std::future::pending::<()>().await;
                });
            }
            Step::Many(name, sessions, statement) => {
                for number in 1..=sessions {
                    let mut conn = self.connect(name).await?;
                    let statement = statement.replace("{n}", &number.to_string());
                    self.busy.spawn(async move {
                        let _answer = conn.query_drop(statement).await;
                        std::future::pending::<()>().await;
                    });
                }
            }
            Step::Repeat(name, sessions, statement) => {
                for _ in 0..sessions {
                    let mut conn = self.connect(name).await?;
                    self.busy.spawn(async move { while conn.query_drop(statement).await.is_ok() {} });
                }
            }
            Step::Prepared(name, sessions, statement) => {
                for number in 1..=sessions {
                    let mut conn = self.connect(name).await?;
                    let prepared = conn.prep(statement).await.map_err(Error::statement(statement))?;
                    self.busy
                        .spawn(async move { while conn.exec_drop(&prepared, (number,)).await.is_ok() {} });
                }
            }
            Step::Leave(name) => {
                if let Some(conn) = self.open.remove(name) {
                    let _closed = conn.disconnect().await;
                }
            }
            Step::Running(sessions, beginning) => {
                // The list of what runs: `TIME` is none where a session is being made.
                let count = format!(
                    "SELECT COUNT(*) >= {sessions} FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' \
                     AND INFO LIKE '{beginning}%'"
                );
                self.until(&count, "1").await?;
            }
            Step::Until(question, answer) => self.until(question, answer).await?,
            Step::Follow(channel) => self.follow(channel).await?,
            Step::AtSource(channel, statements) => {
                let source = self.sources.get(channel).expect("a capture follows the channel first");
                source.execute(statements.iter().copied()).await?;
            }
        }
        Ok(())
    }

    async fn until(&self, question: &str, answer: &str) -> Result<()> {
        let begun = Instant::now();
        // A table that is not there yet is an error for a while.
        while self.server.ask(question).await.ok().flatten().as_deref() != Some(answer) {
            if begun.elapsed() > PATIENCE {
                return Err(Error::NotWatched {
                    scenario: "capture",
                    because: format!("`{question}` was not {answer} within {} s", PATIENCE.as_secs()),
                });
            }
            tokio::time::sleep(A_MOMENT).await;
        }
        Ok(())
    }

    /// Starts a server of the same version and follows it from its first event on.
    async fn follow(&mut self, channel: &'static str) -> Result<()> {
        let number = self.sources.len() + 2;
        let options = [format!("--server-id={number}"), "--log-bin=source".to_owned()];
        let spec = ServerSpec { which: self.which.clone(), options: options.into(), ..ServerSpec::default() };
        let source = Server::start(self.home, &spec, &|_| {}).await?;
        let version = source.version();
        source.execute(replica::to_be_followed(version)).await?;
        let (_, word, _) = replica::words(version);
        let from = format!(", {word}_LOG_FILE = 'source.000001', {word}_LOG_POS = 4");
        let statements = replica::follow_from(version, source.port(), channel, &from);
        self.server.execute(statements).await?;
        self.sources.insert(channel, source);
        Ok(())
    }
}

/// The corpus's note of how each file was made: those of other files stay as they are.
struct Notes {
    lines: BTreeMap<String, String>,
}

const HEAD: &str = "file\torigin\tserver\tmade\thow";

impl Notes {
    fn read(into: &Path) -> Result<Self> {
        let path = into.join(PROVENANCE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(Error::file("read", &path))?,
        };
        let lines = text
            .lines()
            .skip(1)
            .filter_map(|line| Some((line.split('\t').next()?.to_owned(), line.to_owned())));
        Ok(Self { lines: lines.collect() })
    }

    fn add(&mut self, file: &str, installation: &Installation, capture: &Capture) {
        // One of the two forms, plain and compressed, has gone.
        self.lines.retain(|other, _| other.trim_end_matches(".gz") != file.trim_end_matches(".gz"));
        let server = format!("{} ({})", installation.version, installation.version_text);
        let options = match capture.options {
            [] => String::new(),
            options => format!("; options: {}", options.join(" ")),
        };
        let day = Timestamp::now().strftime("%Y-%m-%d");
        let how = format!("spindoctor lab capture --only {}: {}{options}", capture.name, capture.trouble);
        self.lines.insert(file.to_owned(), format!("{file}\tcaptured\t{server}\t{day}\t{how}"));
    }

    fn write(&self, into: &Path) -> Result<()> {
        let path = into.join(PROVENANCE);
        let text: String = std::iter::once(HEAD)
            .chain(self.lines.values().map(String::as_str))
            .flat_map(|line| [line, "\n"])
            .collect();
        fs::create_dir_all(into).map_err(Error::file("create the folder", into))?;
        fs::write(&path, text).map_err(Error::file("write", &path))
    }
}
