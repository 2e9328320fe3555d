//! One throw-away server: its own folder, unix socket and loopback port. All of it is removed when it is dropped.

mod launch;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use rustix::process::Signal;
use spindoctor_collect::mysql::WHOLE_ANSWERS;
use spindoctor_model::ServerVersion;

use crate::cgroup::{Groups, Limits};
use crate::command::{Progress, last_lines, run};
use crate::cpu_choice::CpuChoice;
use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::galera::GaleraNode;
use crate::home::Home;
use crate::installation::Which;
use crate::load::Tables;
use crate::load::held_storage::HeldStorage;
use crate::load::swap::Swap;
use crate::process::{ProcessId, signal};
use crate::record::{Record, Register};

pub(crate) use launch::{Launch, free_port};

/// How long a server may take to end well.
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// How long the kernel may take to swap that much out.
const SWAP_PATIENCE: Duration = Duration::from_secs(20);
/// Size of the swap space that a server gets: more than a scenario swaps out.
const SWAP_BYTES: u64 = 1 << 30;

/// A server that is wanted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerSpec {
    /// Which server.
    pub which: Which,
    /// Its name in the lab; None for one that nobody will ask for.
    pub name: Option<String>,
    /// Where its data goes.
    pub data: Data,
    /// CPU limits.
    pub limits: Limits,
    /// sysbench's tables, already filled.
    pub tables: Option<Tables>,
    /// Options of the server's own: `--innodb-redo-log-capacity=8M`.
    pub options: Vec<String>,
    /// What is drawn for the run that it is started for.
    pub draw: Draw,
    /// Its place in a Galera cluster, where it is to be a node of one.
    pub galera: Option<GaleraNode>,
}

/// Where a server's data goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Data {
    /// Memory: `/dev/shm`.
    #[default]
    Tmpfs,
    /// Memory, on a file system of its own: it can be filled up.
    OwnTmpfs,
    /// The disk that holds the lab's folder.
    Disk,
    /// Below this folder.
    In(PathBuf),
}

/// A server as `lab list` shows it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Listed {
    /// Its name in the lab.
    pub name: String,
    /// Which server it is.
    pub version: ServerVersion,
    /// Its process.
    pub pid: Option<u32>,
    /// Its unix socket; `root` and `app` need no password there.
    pub socket: PathBuf,
    /// Its port on 127.0.0.1, for `spindoctor` with the password `spindoctor`.
    pub port: u16,
    /// Its data folder.
    pub data: PathBuf,
    /// CPU quota, CPUs.
    pub quota_cpus: Option<f64>,
    /// When it was started.
    pub started: Timestamp,
    /// True where it goes on without the process that started it.
    pub stays: bool,
}

/// A running server, owned: dropping it ends it and removes everything of it.
#[derive(Debug)]
pub struct Server {
    record: Record,
    folder: PathBuf,
    home: Home,
    child: Option<Child>,
    begun: Instant,
    /// What it is started with: its arguments, and whether it stays up without this process.
    birth: (Vec<OsString>, bool),
    programs: Option<PathBuf>,
    draw: Draw,
    which: Which,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub async fn start(home: &Home, spec: &ServerSpec, progress: Progress<'_>) -> Result<Self> {
        Self::begin(home, spec, false, progress).await
    }

    /// Which server was wanted: another one of the same program is started by it.
    pub(crate) fn which(&self) -> &Which {
        &self.which
    }

    /// What is drawn for the run that it was started for.
    pub(crate) fn draw(&self) -> &Draw {
        &self.draw
    }

    /// A new session as `root`, through the unix socket.
    pub async fn connect(&self) -> std::result::Result<Conn, mysql_async::Error> {
        self.connect_as("root").await
    }

    /// A new session as `root` or `app`, in the database `sbtest` for the latter.
    pub async fn connect_as(&self, user: &str) -> std::result::Result<Conn, mysql_async::Error> {
        Conn::new(self.options(user)).await
    }

    /// How `root` or `app` connect.
    pub(crate) fn options(&self, user: &str) -> Opts {
        OptsBuilder::default()
            .socket(Some(self.record.socket.display().to_string()))
            .user(Some(user))
            .db_name((user == "app").then_some("sbtest"))
            // Whatever the server has as default: the lab's own questions are short.
            .init(if user == "root" { vec![format!("SET SESSION {WHOLE_ANSWERS}")] } else { Vec::new() })
            // Known, so that the driver need not ask for them on each connect.
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(28_800))
            .into()
    }

    /// Runs statements in a session of `root`.
    pub async fn execute(&self, statements: impl IntoIterator<Item = impl Into<String>>) -> Result<()> {
        let mut conn = self.connect().await.map_err(Error::statement("connect"))?;
        for statement in statements {
            let statement = statement.into();
            conn.query_drop(statement.as_str()).await.map_err(Error::statement(&statement))?;
        }
        let _closed = conn.disconnect().await;
        Ok(())
    }

    /// The first cell of an answer, as `root`; None where there is none.
    pub async fn ask(&self, question: &str) -> Result<Option<String>> {
        let mut conn = self.connect().await.map_err(Error::statement("connect"))?;
        let row: Option<mysql_async::Row> =
            conn.query_first(question).await.map_err(Error::statement(question))?;
        let _closed = conn.disconnect().await;
        Ok(row.and_then(|row| row.get_opt::<Option<String>, _>(0)?.ok().flatten()))
    }

    /// Its name in the lab.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Which server it is.
    pub fn version(&self) -> ServerVersion {
        self.record.version
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a server that was launched has a process").id()
    }

    /// Its unix socket.
    pub fn socket(&self) -> &Path {
        &self.record.socket
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.record.port
    }

    /// Its data folder.
    pub fn data(&self) -> &Path {
        &self.record.data
    }

    /// Its error log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("mysqld.log")
    }

    /// The folder of its first control group, where it has limits.
    pub fn group(&self) -> Option<&Path> {
        self.record.groups.first()
    }

    /// Its folder for temporary files.
    fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Stops every thread of the server where it is (SIGSTOP), or lets them go on.
    pub fn pause(&self, paused: bool) {
        signal(self.pid(), if paused { Signal::STOP } else { Signal::CONT });
    }

    /// Kills the server as a crash does, and starts it again on the same data, socket and port; waits until it answers.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _status = child.wait();
        }
        self.begun = Instant::now();
        self.spawn()?;
        self.wait_until_it_answers().await
    }

    /// Freezes the server's control group, or thaws it; needs [`Limits::freezer`].
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        self.record.groups.freeze(frozen)
    }

    /// Lets the server write this often per second to the disk that holds its data, or as often as it
    /// likes; needs [`Limits::writes`].
    pub fn limit_writes(&self, per_second: Option<u32>) -> Result<()> {
        self.record.groups.limit_writes(&self.record.data, per_second, None)
    }

    /// Lets the server read this often per second from the disk that holds its data, or as often as it likes; needs
    /// [`Limits::writes`].
    pub fn limit_reads(&self, per_second: Option<u32>) -> Result<()> {
        self.record.groups.limit_reads(&self.record.data, per_second)
    }

    /// Lets the server use so much CPU time from now on, CPUs, or as much as there is; needs [`Limits::quota_cpus`].
    pub fn limit_quota(&self, cpus: Option<f64>) -> Result<()> {
        self.record.groups.limit_quota(cpus)
    }

    /// Lets the server use these CPUs from now on; needs [`Limits::cpuset`]. It has counted those of its start.
    pub fn limit_cpus(&self, choice: &CpuChoice) -> Result<()> {
        self.record.groups.limit_cpus(choice)
    }

    /// Makes the file system of the server's data so small that this much is free on it; needs [`Data::OwnTmpfs`].
    pub(crate) fn leave_room(&self, bytes: u64) -> Result<()> {
        let folder = self.record.data.parent().unwrap_or(&self.record.data);
        let room =
            rustix::fs::statvfs(folder).map_err(|error| Error::file("look at", folder)(error.into()))?;
        let size = (room.f_blocks - room.f_bfree) * room.f_frsize + bytes;
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(folder)).map(drop)
    }

    /// Swaps the server's memory out until it uses so many bytes, to a file of the lab's; needs [`Limits::memory_bytes`].
    pub(crate) fn swap_out(&self, bytes: u64) -> Result<Swap> {
        let swap = Swap::start(&self.home, self.record.groups.clone(), SWAP_BYTES)?;
        let start = Instant::now();
        loop {
            match self.record.groups.limit_memory(Some(bytes)) {
                // The kernel gives up where pages come back as fast as it swaps them out.
                Err(_) if start.elapsed() < SWAP_PATIENCE => std::thread::sleep(Duration::from_millis(50)),
                other => return other.map(|()| swap),
            }
        }
    }

    /// Makes the disk that holds the server's data hang: it takes one write a second and 8 KiB, so that a sync, which
    /// writes a log and the file system's journal, takes seconds. [`Self::limit_writes`] ends it; needs
    /// [`Limits::writes`].
    pub fn hang_writes(&self) -> Result<()> {
        hang_writes(&self.record.groups, &self.record.data)
    }

    /// The same again and again, for so long each time and so long not, until what this returns is dropped.
    pub(crate) fn hang_writes_in_turns(&self, held: Duration, free: Duration) -> Result<HeldStorage> {
        let (groups, data) = (self.record.groups.clone(), self.record.data.clone());
        let hold = move |is_held| match is_held {
            true => hang_writes(&groups, &data),
            false => groups.limit_writes(&data, None, None),
        };
        HeldStorage::start(hold, held, free)
    }

    /// Asks the server to end well, and waits until it has: its data folder is then whole.
    pub(crate) async fn shut_down(mut self) -> Result<()> {
        let start = Instant::now();
        let pid = self.pid();
        signal(pid, Signal::TERM);
        let child = self.child.as_mut().expect("a server that was launched has a process");
        loop {
            match child.try_wait().map_err(Error::file("wait for", &self.record.program))? {
                Some(status) if status.success() => return self.end(),
                Some(status) => {
                    return Err(Error::Program {
                        program: self.record.program.display().to_string(),
                        status: status.to_string(),
                        said: last_lines(&fs::read_to_string(self.log()).unwrap_or_default(), 12),
                    });
                }
                None if start.elapsed() > STOP_PATIENCE => {
                    return Err(Error::Unable {
                        what: "an orderly end",
                        because: format!("process {pid} still runs after {} s", STOP_PATIENCE.as_secs()),
                    });
                }
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Ends the server at once and removes everything of it; what dropping does, with the outcome.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        // A process that is its own parent's zombie is gone for us once it is waited for.
        let _not_frozen = self.record.groups.freeze(false);
        let _not_slow = self.record.groups.limit_writes(&self.record.data, None, None);
        let _not_slow = self.record.groups.limit_reads(&self.record.data, None);
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _status = child.wait();
        }
        let _register = Register::lock(&self.home)?;
        if Record::read(&self.folder).as_ref() == Some(&self.record) {
            self.record.remove(&self.folder)?;
        }
        Ok(())
    }

    /// Lets it go on after this process; [`down`] ends it.
    fn leave(mut self) -> Result<Listed> {
        {
            let register = Register::lock(&self.home)?;
            let stays = Record { stays: true, ..self.record.clone() };
            register.write(&stays)?;
            self.record = stays;
        }
        self.child = None;
        let listed = self.record.listed(&self.folder);
        std::mem::forget(self);
        Ok(listed)
    }
}

/// One write a second and 8 KiB: a sync writes more than that.
fn hang_writes(groups: &Groups, data: &Path) -> Result<()> {
    groups.limit_writes(data, Some(1), Some(8192))
}

impl Drop for Server {
    fn drop(&mut self) {
        // What cannot be removed now is recorded: the next start tries again and says so.
        let _recorded = self.end();
    }
}

impl Record {
    fn listed(&self, folder: &Path) -> Listed {
        Listed {
            name: self.name.clone(),
            version: self.version,
            pid: self.process(folder).filter(ProcessId::runs).map(|process| process.pid),
            socket: self.socket.clone(),
            port: self.port,
            data: self.data.clone(),
            quota_cpus: self.quota_cpus,
            started: self.started,
            stays: self.stays,
        }
    }
}

/// Starts a server that stays up when this process ends.
pub async fn up(home: &Home, spec: &ServerSpec, progress: Progress<'_>) -> Result<Listed> {
    Server::begin(home, spec, true, progress).await?.leave()
}

/// Ends a server that [`up`] started, and removes everything of it.
pub fn down(home: &Home, name: &str) -> Result<()> {
    let register = Register::lock(home)?;
    let record = register.sweep()?.into_iter().find(|record| record.stays && record.name == name);
    record.ok_or_else(|| Error::NotUp(name.into()))?.remove(&home.servers().join(name))
}

/// Every server of the lab that is up; removes what killed labs left over.
pub fn list(home: &Home) -> Result<Vec<Listed>> {
    let records = Register::lock(home)?.sweep()?;
    Ok(records.iter().map(|record| record.listed(&home.servers().join(&record.name))).collect())
}
