//! One throw-away server: its own folder, unix socket and loopback port. All of it is removed when it is dropped.
//!
//! Order of creation, so that nothing is ever left over: the record of what will exist is written; folders and control
//! groups are made; a shell writes its own `/proc/PID/stat` beside the record, enters the groups and becomes the
//! server. The next start of a server removes what a killed lab left.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use rustix::process::Signal;
use spindoctor_collect::mysql::WHOLE_ANSWERS;
use spindoctor_model::ServerVersion;

use crate::cgroup::{Groups, Limits};
use crate::command::{Progress, is_root, last_lines, run};
use crate::cpu_choice::CpuChoice;
use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::galera::{self, GaleraNode};
use crate::home::{Home, create_private_dir};
use crate::installation::{Installation, Which, path_option};
use crate::load::Tables;
use crate::load::swap::Swap;
use crate::process::{ProcessId, signal};
use crate::record::{Record, Register};
use crate::{options, template};

/// How long a server may take to answer its first query.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to end well.
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// How long the kernel may take to swap that much out.
const SWAP_PATIENCE: Duration = Duration::from_secs(20);
/// Size of the swap space that a server gets: more than a scenario swaps out.
const SWAP_BYTES: u64 = 1 << 30;
/// Bytes of a unix socket's path, with its closing zero (unix(7)).
const SOCKET_PATH_MAX: usize = 108;

/// Writes its own stat, enters the control groups, raises the limit of open files, becomes the server.
const BIRTH: &str = r#"cat /proc/$$/stat > "$1" || exit 1; shift
while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift
files=$(ulimit -Hn); [ "$files" -lt 65536 ] 2>/dev/null || files=65536; ulimit -n "$files"
exec "$@""#;

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

/// What [`Server::launch`] starts.
pub(crate) struct Launch<'a> {
    name: Option<String>,
    place: Place<'a>,
    limits: Limits,
    /// Options of the server's own.
    pub(crate) options: Vec<String>,
    /// A folder of programs that the server runs, before PATH.
    programs: Option<PathBuf>,
    stays: bool,
}

enum Place<'a> {
    /// A data folder that is not the server's own: it stays.
    InPlace(&'a Path),
    /// A copy of a template, in a folder of the server's own.
    Copy { template: PathBuf, data: Data },
}

impl<'a> Launch<'a> {
    /// A server for a moment, on a data folder that stays.
    pub(crate) fn in_place(data: &'a Path) -> Self {
        Self {
            name: None,
            place: Place::InPlace(data),
            limits: Limits::default(),
            options: Vec::new(),
            programs: None,
            stays: false,
        }
    }
}

impl Server {
    /// Starts a server and waits until it answers.
    pub async fn start(home: &Home, spec: &ServerSpec, progress: Progress<'_>) -> Result<Self> {
        Self::begin(home, spec, false, progress).await
    }

    pub(crate) async fn begin(
        home: &Home,
        spec: &ServerSpec,
        stays: bool,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let installation = Installation::find(home, &spec.which, progress)?;
        let template = match spec.galera {
            None => template::ready(home, &installation, spec.tables, progress).await?,
            Some(_) => template::of_cluster(home, &installation, spec.tables, progress).await?,
        };
        let mut launch = Launch {
            name: spec.name.clone(),
            place: Place::Copy { template, data: spec.data.clone() },
            limits: spec.limits.clone(),
            options: options::of_version(&spec.options, installation.version)?,
            programs: None,
            stays,
        };
        if let Some(node) = spec.galera {
            launch.options.extend(galera::options(home, node, progress)?);
            launch.programs = Some(galera::programs(home)?);
        }
        let mut server = Self::launch(home, &installation, launch).await?;
        server.draw = spec.draw;
        server.which = spec.which.clone();
        Ok(server)
    }

    pub(crate) async fn launch(home: &Home, installation: &Installation, launch: Launch<'_>) -> Result<Self> {
        let mut server = Self::announce(home, installation, &launch)?;
        for folder in &server.record.folders {
            create_private_dir(folder)?;
        }
        create_private_dir(&server.temporary())?;
        if let (Place::Copy { data: Data::OwnTmpfs, .. }, Some(folder)) =
            (&launch.place, server.record.data.parent())
        {
            run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=700", "spindoctor-lab"]).arg(folder))?;
        }
        if let Place::Copy { template, .. } = &launch.place {
            create_private_dir(&server.record.data)?;
            template::copy(template, &server.record.data)?;
        }
        server.record.groups.create(&launch.limits)?;
        server.birth.0 = server.arguments(installation);
        server.birth.0.extend(launch.options.iter().map(OsString::from));
        server.spawn()?;
        server.wait_until_it_answers().await?;
        Ok(server)
    }

    /// Writes the record of everything that is about to exist.
    fn announce(home: &Home, installation: &Installation, launch: &Launch<'_>) -> Result<Self> {
        let register = Register::lock(home)?;
        let others = register.sweep()?;
        let token = token()?;
        let name = launch.name.clone().unwrap_or_else(|| format!("{}-{token}", std::process::id()));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(Error::BadName(name));
        }
        if others.iter().any(|other| other.name == name) {
            return Err(Error::Taken(name));
        }
        let folder = home.servers().join(&name);
        let tag = format!("spindoctor-lab-{token}");
        let mut folders = Vec::new();
        let data = match &launch.place {
            Place::InPlace(data) => data.to_path_buf(),
            Place::Copy { data: Data::Disk, .. } => folder.join("data"),
            Place::Copy { data, .. } => {
                let parent = if let Data::In(parent) = data { parent.as_path() } else { tmpfs()? };
                let parent = parent.canonicalize().map_err(Error::file("open", parent))?;
                folders.push(parent.join(&tag));
                parent.join(&tag).join("data")
            }
        };
        let mut socket = folder.join("mysqld.sock");
        if socket.as_os_str().len() >= SOCKET_PATH_MAX {
            let short = std::env::temp_dir().join(&tag);
            socket = short.join("s");
            folders.push(short);
        }
        let record = Record {
            name,
            owner: ProcessId::own()?,
            stays: false,
            version: installation.version,
            program: installation.server.clone(),
            data,
            socket,
            port: free_port()?,
            quota_cpus: launch.limits.quota_cpus,
            started: Timestamp::now(),
            folders,
            groups: Groups::plan(&tag, &launch.limits)?,
        };
        register.write(&record)?;
        let birth = (Vec::new(), launch.stays);
        Ok(Self {
            record,
            folder,
            home: home.clone(),
            child: None,
            begun: Instant::now(),
            birth,
            programs: launch.programs.clone(),
            draw: Draw::default(),
            which: Which::default(),
        })
    }

    fn spawn(&mut self) -> Result<()> {
        let (arguments, stays) = &self.birth;
        let log = self.log();
        let log_file = fs::File::create(&log).map_err(Error::file("create", &log))?;
        let log_again = log_file.try_clone().map_err(Error::file("open", &log))?;
        let mut command = if *stays {
            Command::new("sh")
        } else {
            // The kernel ends the server with this thread, whatever ends that.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "sh"]);
            command
        };
        command
            .args(["-c", BIRTH, "sh"])
            .arg(self.folder.join("pid"))
            .args(self.record.groups.doors())
            .arg("--")
            .arg(&self.record.program)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log_file)
            .stderr(log_again)
            // Ctrl-C in the terminal is for the lab, which then ends the server itself.
            .process_group(0);
        if let Some(programs) = &self.programs {
            let mut path = programs.clone().into_os_string();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            command.env("PATH", path);
        }
        let program = command.get_program().to_owned();
        self.child = Some(command.spawn().map_err(Error::file("run", program.as_ref()))?);
        Ok(())
    }

    fn arguments(&self, installation: &Installation) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--no-defaults".into()];
        arguments.extend(installation.folders());
        arguments.push(path_option("datadir", &self.record.data));
        arguments.push(path_option("socket", &self.record.socket));
        arguments.push(path_option("pid-file", &self.folder.join("mysqld.pid")));
        // A server that starts removes every `#sql` file of its tmpdir, those of others, too (mysql_rm_tmp_tables).
        arguments.push(path_option("tmpdir", &self.temporary()));
        arguments.push(format!("--port={}", self.record.port).into());
        let fixed = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--server-id=1"];
        arguments.extend(fixed.map(OsString::from));
        if !installation.version.is_mariadb() {
            arguments.push("--loose-mysqlx=OFF".into());
        }
        // It makes a key for TLS at each start, which takes a busy machine a minute (MDEV-31856).
        if installation.version.mariadb_at_least(11, 4, 0) {
            arguments.push("--skip-ssl".into());
        }
        // Before, NULL is a folder's name (5.7.6 release notes).
        if installation.version.mysql_at_least(5, 7, 6) {
            arguments.push("--secure-file-priv=NULL".into());
        }
        if is_root() {
            arguments.push("--user=root".into());
        }
        arguments
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let not_yet = match tokio::time::timeout(START_PATIENCE, self.connect()).await {
                Ok(Ok(conn)) => {
                    let _closed = conn.disconnect().await;
                    return Ok(());
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it does not answer".into(),
            };
            let child = self.child.as_mut().expect("spawn has set it");
            let ended = child.try_wait().map_err(Error::file("wait for", &self.record.program))?;
            let because = match ended {
                Some(status) => format!("it ended with {status}"),
                None if start.elapsed() > START_PATIENCE => not_yet,
                None => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let log = why_it_ended(&fs::read_to_string(self.log()).unwrap_or_default());
            return Err(Error::NotStarted { name: self.record.name.clone(), because, log });
        }
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
        self.record.groups.limit_writes(&self.record.data, Some(1), Some(8192))
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

/// Of an error log, its last errors: a server that ends says them before all that it shuts down. Its last lines where it says none.
fn why_it_ended(log: &str) -> String {
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("[ERROR]")).collect();
    match errors.as_slice() {
        [] => last_lines(log, 12),
        errors => errors[errors.len().saturating_sub(6)..].join("\n"),
    }
}

/// Eight hexadecimal digits that nobody else has.
fn token() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/random/uuid");
    let uuid = fs::read_to_string(path).map_err(Error::file("read", path))?;
    Ok(uuid.chars().take(8).collect())
}

fn tmpfs() -> Result<&'static Path> {
    /// `TMPFS_MAGIC` of linux/magic.h.
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    let path = Path::new("/dev/shm");
    match rustix::fs::statfs(path) {
        Ok(filesystem) if filesystem.f_type as u64 == TMPFS_MAGIC => Ok(path),
        _ => Err(Error::Unable {
            what: "a data folder in memory",
            because: "/dev/shm is no tmpfs; put the data on disk".into(),
        }),
    }
}

/// Ports below those that Linux gives to connections that go out (`net.ipv4.ip_local_port_range` begins at 32768): of these the
/// kernel may give away any between the look here and the server's start.
const PORTS: Range<u16> = 10_000..32_000;

/// How many are tried.
const TRIES: usize = 100;

/// A loopback port on which nobody listens, drawn by lot: of labs that start servers at the same time each takes another.
pub(crate) fn free_port() -> Result<u16> {
    let mut because = String::new();
    for _ in 0..TRIES {
        let port = fastrand::u16(PORTS);
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => because = error.to_string(),
        }
    }
    Err(Error::Unable { what: "a loopback port", because })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_log_are_shown_before_what_it_says_of_the_end() {
        let log = "1 [Note] begins\n2 [ERROR] Can't open shared library 'a.so'\n3 [ERROR] Aborting\n4 [Note] ends\n";
        assert_eq!(why_it_ended(log), "2 [ERROR] Can't open shared library 'a.so'\n3 [ERROR] Aborting");
        assert_eq!(why_it_ended("first\nlast\n"), "first\nlast");
    }
}
