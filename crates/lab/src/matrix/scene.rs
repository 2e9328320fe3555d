//! The server of a row: what is known of it, and what goes on there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use rustix::process::{Pid, Signal, kill_process};

use super::made::Made;
use super::places::Place;
use super::ran::{Ran, command};
use super::troubles::{TABLES, Trouble};
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::Which;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// How long the recorder sees a calm server first (it learns from ten seconds on what is usual), how long the trouble lasts then,
/// and how long it sees the end of it.
const CALM: Duration = Duration::from_secs(13);
const STALL: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(2);
/// How often the server's list is read until ended clients are gone from it, and how far apart.
const TURNS: u32 = 100;
const APART: Duration = Duration::from_millis(50);

/// A server, what is known of it without the program under test, and what goes on there.
#[derive(Debug)]
pub(super) struct Scene {
    server: Server,
    /// What its place has beside it.
    _beside: Option<Server>,
    folder: tempfile::TempDir,
    /// Its variables when it was started.
    at_start: BTreeMap<String, String>,
    /// Its variables after the last look.
    now: BTreeMap<String, String>,
    /// Events that are there after the last look.
    events: u64,
    /// True where its metadata locks can be listed as it is.
    lists_metadata_locks: bool,
    sessions: Sessions,
    holder: Option<u64>,
    recorded: Option<Ran>,
}

impl Scene {
    pub(super) async fn start(
        home: &Home,
        which: &Which,
        place: Option<&Place>,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let options =
            place.map_or(&[][..], |place| place.options).iter().map(|&option| option.to_owned()).collect();
        let mut spec =
            ServerSpec { which: which.clone(), tables: Some(TABLES), options, ..ServerSpec::default() };
        let made = place.map_or(Made::Alone, |place| place.made);
        made.prepare(home, which.is_mariadb(), &mut spec, progress)?;
        let server = Server::start(home, &spec, progress).await?;
        let beside = made.finish(home, &server).await?;
        server.execute(place.map_or(&[][..], |place| place.statements).iter().copied()).await?;
        let folder = tempfile::tempdir().map_err(Error::file("create a folder in", &std::env::temp_dir()))?;
        let list = folder.path().join("servers");
        std::fs::write(&list, format!("{}\n", server.socket().display()))
            .map_err(Error::file("write", &list))?;
        let at_start = variables(&server).await?;
        // MySQL from 5.7 on; MariaDB with a plugin that none of them has from the start.
        const LISTED: &str = "SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl'";
        let listed = server.ask(LISTED).await.ok().flatten();
        let lists_metadata_locks = listed.as_deref() == Some("YES") && !server.version().is_mariadb();
        Ok(Self {
            server,
            _beside: beside,
            folder,
            now: at_start.clone(),
            at_start,
            events: 0,
            lists_metadata_locks,
            sessions: Sessions::default(),
            holder: None,
            recorded: None,
        })
    }

    /// Makes a trouble; of a recording, all of it.
    pub(super) async fn begin(&mut self, trouble: Trouble, program: &Path) -> Result<()> {
        if trouble != Trouble::Recorded {
            self.holder = trouble.begin(&self.server, &mut self.sessions).await?;
            return Ok(());
        }
        let words = self.words("record {on} -o {recording}");
        let recorder = command(program, &words, self.folder.path())
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::file("run", program))?;
        let pid = recorder.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let mut calm = Sessions::default();
        Trouble::Healthy.begin(&self.server, &mut calm).await?;
        tokio::time::sleep(CALM).await;
        self.holder = trouble.begin(&self.server, &mut self.sessions).await?;
        tokio::time::sleep(STALL).await;
        self.end_sessions().await?;
        tokio::time::sleep(AFTER).await;
        if let Some(pid) = pid {
            // One that has ended is shown by its code.
            let _ended = kill_process(pid, Signal::TERM);
        }
        let output = recorder.wait_with_output().await.map_err(Error::file("wait for", program))?;
        self.recorded = Some(Ran::of_output(&words, output));
        Ok(())
    }

    /// Ends what goes on.
    pub(super) async fn end(&mut self) -> Result<()> {
        self.end_sessions().await?;
        (self.holder, self.recorded) = (None, None);
        Ok(())
    }

    /// Ends the clients, those who wait before the one they wait for: no ALTER TABLE runs at last. Returns when the server's list
    /// does not have them any more.
    async fn end_sessions(&mut self) -> Result<()> {
        let there = format!(
            "SELECT id FROM information_schema.processlist WHERE user = 'app' OR id = {}",
            self.holder.unwrap_or_default()
        );
        let mut conn = self.server.connect().await.map_err(Error::statement("connect"))?;
        for _ in 0..TURNS {
            let mut there: Vec<u64> =
                conn.query(&there).await.map_err(Error::statement("list the clients"))?;
            if there.is_empty() {
                break;
            }
            there.sort_by_key(|id| Some(*id) == self.holder);
            for id in there {
                // One that has ended meanwhile is unknown.
                let _ended = conn.query_drop(format!("KILL {id}")).await;
            }
            // A client that comes and goes comes no more.
            self.sessions = Sessions::default();
            tokio::time::sleep(APART).await;
        }
        let _closed = conn.disconnect().await;
        Ok(())
    }

    /// Reads again what is known of the server.
    pub(super) async fn look_again(&mut self) -> Result<()> {
        self.now = variables(&self.server).await?;
        let events = self.server.ask("SELECT COUNT(*) FROM information_schema.EVENTS").await?;
        self.events = events.and_then(|count| count.parse().ok()).unwrap_or_default();
        Ok(())
    }

    pub(super) fn stop(self) -> Result<()> {
        drop(self.sessions);
        self.server.stop()
    }

    /// A command line's words, with what stands for the server in them.
    pub(super) fn words(&self, line: &str) -> Vec<String> {
        let socket = self.server.socket().display().to_string();
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let on = ["-u", "root", "-S", &socket, "--no-defaults"].map(str::to_owned);
        let mut words = Vec::new();
        for word in line.split_whitespace() {
            match word {
                "{on}" => words.extend(on.clone()),
                "{fleet}" => words.extend([
                    "--servers".to_owned(),
                    file("servers"),
                    "-u".to_owned(),
                    "root".to_owned(),
                    "--no-defaults".to_owned(),
                ]),
                "{recording}" => words.push(file("recording")),
                "{ask}" => words.push("SELECT @@port AS port".to_owned()),
                "{listed}" => words.push(listed()),
                word => words.push(word.to_owned()),
            }
        }
        words
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What is known of the server under a name: of a variable its value when the server was started, `null` where it has none
    /// of this name.
    pub(super) fn known(&self, name: &str) -> String {
        let none = || "null".to_owned();
        match name {
            "holder" => self.holder.map_or_else(none, |id| id.to_string()),
            "pid" => self.server.pid().to_string(),
            "port" => self.server.port().to_string(),
            // Three numbers of what it says itself.
            "version" => {
                let said = self
                    .at_start
                    .get("version")
                    .map_or("", |version| version.split('-').next().unwrap_or_default());
                said.split('.').take(3).collect::<Vec<_>>().join(".")
            }
            "changed" => self.changed().to_string(),
            "events" => self.events.to_string(),
            "dives" => self.dives().to_string(),
            variable => self.at_start.get(variable).cloned().unwrap_or_else(none),
        }
    }

    /// Variables that have another value now, those aside that the server counts up itself.
    fn changed(&self) -> usize {
        let is_counted = |name: &str| name.starts_with("gtid_");
        self.now
            .iter()
            .filter(|(name, value)| !is_counted(name) && self.at_start.get(*name) != Some(value))
            .count()
    }

    /// Dives into the index for [`listed`]: none from the limit on (manual); a server without the limit dives for each value.
    fn dives(&self) -> u64 {
        let limit = self.known("eq_range_index_dive_limit").parse::<u64>().unwrap_or_default();
        if limit == 0 || limit > LISTED { LISTED } else { 0 }
    }

    pub(super) fn recorded(&self) -> Option<&Ran> {
        self.recorded.as_ref()
    }

    /// True where performance_schema is on and has counts by digest: a variable bounds them.
    pub(super) fn counts_statements(&self) -> bool {
        self.known("performance_schema") == "ON"
            && self.at_start.contains_key("performance_schema_digests_size")
    }

    /// True where its metadata locks can be listed as it is.
    pub(super) fn lists_metadata_locks(&self) -> bool {
        self.lists_metadata_locks
    }
}

/// A statement with a list of values.
fn listed() -> String {
    let values: Vec<String> = (0..LISTED).map(|at| (5_000 + 2 * at).to_string()).collect();
    format!("SELECT id FROM sbtest1 WHERE k IN ({}) LIMIT 1", values.join(", "))
}

/// Values of the list: fewer than the 200 that are estimated from statistics.
const LISTED: u64 = 20;

async fn variables(server: &Server) -> Result<BTreeMap<String, String>> {
    const QUESTION: &str = "SHOW GLOBAL VARIABLES";
    let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
    let rows: Vec<(String, String)> = conn.query(QUESTION).await.map_err(Error::statement(QUESTION))?;
    let _closed = conn.disconnect().await;
    Ok(rows.into_iter().collect())
}
