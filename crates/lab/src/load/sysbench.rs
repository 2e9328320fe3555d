//! sysbench: fills tables, loads a server, and says how it went.
//!
//! sysbench runs until it is stopped and reports every second; what it reported while a window was
//! watched becomes one [`LoadReport`]. A run of known length is read from its closing report.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::{Endpoint, Target};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::report::{LoadReport, parse_closing, parse_second, with_ends};
use crate::command::{Progress, ensure, last_lines, run};
use crate::error::{Error, Result};

/// sysbench's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// Number of tables: `sbtest1` and so on.
    pub count: u32,
    /// Rows of each.
    pub rows: u32,
}

/// What the clients do: sysbench's own OLTP workloads, and two of the lab's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Point and range reads, updates, a delete and an insert in each transaction.
    OltpReadWrite,
    /// Point and range reads.
    OltpReadOnly,
    /// One read by primary key at a time.
    OltpPointSelect,
    /// One update of an indexed column at a time, each its own transaction.
    OltpUpdateIndex,
    /// One update of a column without index at a time, each its own transaction.
    OltpUpdateNonIndex,
    /// The updates, deletes and inserts of `OltpReadWrite` without its reads.
    OltpWriteOnly,
    /// A new connection for each query.
    Connect,
    /// Lookups by a column without index.
    Scan,
}

/// sysbench's own OLTP workloads.
pub const OLTP: [Workload; 6] = [
    Workload::OltpReadWrite,
    Workload::OltpReadOnly,
    Workload::OltpPointSelect,
    Workload::OltpUpdateIndex,
    Workload::OltpUpdateNonIndex,
    Workload::OltpWriteOnly,
];

/// How the clients log in.
#[derive(Debug, Clone, Copy)]
pub enum Login<'a> {
    /// As `app`, through the socket of a server of the lab.
    Lab(&'a Path),
    /// As the user does, to a server that is meant to be loaded.
    Target(&'a Target),
}

/// How a server is loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadSpec {
    /// What each client does.
    pub workload: Workload,
    /// How many clients.
    pub threads: u32,
    /// Transactions per second in all; None for as fast as they can.
    pub rate: Option<u32>,
    /// The tables they work on.
    pub tables: Tables,
}

/// A load that goes on until it is stopped or dropped.
#[derive(Debug)]
pub struct Load {
    child: Child,
    seconds: Arc<Mutex<VecDeque<(Instant, LoadReport)>>>,
    folder: Folder,
}

/// The lab's own script, where there is one, and what sysbench says when it fails.
#[derive(Debug)]
struct Folder(tempfile::TempDir);

/// Seconds of reports that are kept.
const KEPT_SECONDS: usize = 3_600;

/// What each client of `counted.lua` prints at its end, before the number.
const COUNTED: &str = "spindoctor: a client did ";

/// The database of the tables, where the target names none.
const DATABASE: &str = "sbtest";

/// Creates and fills the tables in the database `sbtest`.
pub(crate) fn prepare(socket: &Path, tables: Tables, progress: Progress<'_>) -> Result<()> {
    let sysbench = ensure("sysbench", "sysbench", progress)?;
    run(std::process::Command::new(sysbench).arg("oltp_read_write").args(on(socket, tables)).arg("prepare"))?;
    Ok(())
}

/// Loads a server for a known time and returns the closing report.
pub async fn run_for(socket: &Path, spec: LoadSpec, time: Duration) -> Result<LoadReport> {
    let folder = Folder::new(spec.workload)?;
    let mut command = command(socket, spec, &folder)?;
    command.arg(format!("--time={}", time.as_secs().max(1))).arg("run");
    let output = command.output().await.map_err(Error::file("run", "sysbench".as_ref()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(failed(&output.status.to_string(), &format!("{printed}{}", folder.errors())));
    }
    parse_closing(&printed)
}

/// Creates and fills the tables on a server that is meant for it. Ends when dropped.
pub async fn fill(target: &Target, tables: Tables) -> Result<()> {
    let spec = LoadSpec { workload: Workload::OltpReadWrite, threads: 1, rate: None, tables };
    let folder = Folder::new(spec.workload)?;
    let output = command_as(Login::Target(target), spec, &folder)?.arg("prepare").output().await;
    let output = output.map_err(Error::file("run", "sysbench".as_ref()))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    Err(failed(&output.status.to_string(), &format!("{printed}{}", folder.errors())))
}

/// How often a measurement is repeated in which sysbench never got to its checkpoint: on a machine with far more runnable
/// threads than CPUs, its timer's thread may wait for seconds.
const ATTEMPTS: u32 = 3;

/// Loads a server, measures it after a warm-up, and returns the closing report of the measured part. Both times count
/// in whole seconds, one at least. `mark` is called when the measured part begins, and when it ends; a second
/// beginning takes the place of the first.
pub async fn measure(
    login: Login<'_>,
    spec: LoadSpec,
    warmup: Duration,
    time: Duration,
    mark: &mut dyn FnMut(Mark),
) -> Result<LoadReport> {
    let (warmup, time) = (warmup.as_secs().max(1), time.as_secs().max(1));
    for _ in 0..ATTEMPTS {
        if let Some(report) = measure_once(login, spec, warmup, time, mark).await? {
            return Ok(report);
        }
    }
    Err(Error::Unable {
        what: "a measurement",
        because: format!(
            "sysbench got no CPU when its warm-up was over, in {ATTEMPTS} attempts; try fewer clients, or a longer \
             warm-up"
        ),
    })
}

/// An end of the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It begins.
    Begin,
    /// It ended.
    End,
}

/// One attempt; none where the warm-up never ended.
async fn measure_once(
    login: Login<'_>,
    spec: LoadSpec,
    warmup: u64,
    time: u64,
    mark: &mut dyn FnMut(Mark),
) -> Result<Option<LoadReport>> {
    let folder = Folder::counting(spec.workload, warmup)?;
    let mut command = command_as(login, spec, &folder)?;
    command.args([format!("--time={}", warmup + time), format!("--report-checkpoints={warmup}")]).arg("run");
    let mut child = command.spawn().map_err(Error::file("run", "sysbench".as_ref()))?;
    let mut lines = BufReader::new(child.stdout.take().expect("stdout was asked for")).lines();
    // A report is what follows the last of these lines; the one at the checkpoint sets all counts back.
    let (mut reports, mut printed) = (0, String::new());
    let mut events = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(count) = line.strip_prefix(COUNTED) {
            events.extend(count.split_whitespace().next().and_then(|count| count.parse::<u64>().ok()));
            continue;
        }
        if line.trim() == "SQL statistics:" {
            reports += 1;
            mark(if reports == 1 { Mark::Begin } else { Mark::End });
            printed.clear();
        }
        printed.push_str(&line);
        printed.push('\n');
    }
    let status = child.wait().await.map_err(Error::file("wait for", "sysbench".as_ref()))?;
    if status.success() && reports == 1 {
        return Ok(None);
    }
    if !status.success() || reports != 2 {
        return Err(failed(&status.to_string(), &format!("{printed}{}", folder.errors())));
    }
    let report = parse_closing(&printed)?;
    // Its total time has the warm-up in it.
    Ok(Some(LoadReport {
        seconds: time as f64,
        fairness: report.fairness.map(|fairness| with_ends(fairness, &events, spec.threads)),
        ..report
    }))
}

impl Load {
    /// Starts the clients, which prepare their statements, as is sysbench's way.
    pub fn start(socket: &Path, spec: LoadSpec) -> Result<Self> {
        Self::start_with(socket, spec, &[])
    }

    /// Starts clients that send their statements as text.
    pub(crate) fn start_in_text(socket: &Path, spec: LoadSpec) -> Result<Self> {
        Self::start_with(socket, spec, &["--db-ps-mode=disable"])
    }

    fn start_with(socket: &Path, spec: LoadSpec, options: &[&str]) -> Result<Self> {
        let folder = Folder::new(spec.workload)?;
        let mut command = command(socket, spec, &folder)?;
        command.args(options);
        command.args(["--time=0", "--report-interval=1", "run"]);
        let mut child = command.spawn().map_err(Error::file("run", "sysbench".as_ref()))?;
        let stdout = child.stdout.take().expect("stdout was asked for");
        let seconds = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&seconds);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let (Some(second), Ok(mut kept)) = (parse_second(&line), kept.lock()) {
                    kept.push_back((Instant::now(), second));
                    if kept.len() > KEPT_SECONDS {
                        kept.pop_front();
                    }
                }
            }
        });
        Ok(Self { child, seconds, folder })
    }

    /// Fails where the clients have given up, with what they said.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(failed(&status.to_string(), &self.folder.errors())),
            _ => Ok(()),
        }
    }

    /// What was reported since an instant; None before the first whole second of it.
    pub fn since(&self, start: Instant) -> Option<LoadReport> {
        let seconds = self.seconds.lock().ok()?;
        // A report covers the second before it.
        let from = start + Duration::from_millis(900);
        let reports: Vec<_> =
            seconds.iter().filter(|(at, _)| *at >= from).map(|(_, report)| *report).collect();
        LoadReport::of_seconds(&reports)
    }

    /// Ends the clients.
    pub async fn stop(mut self) {
        let _gone = self.child.kill().await;
    }
}

impl Workload {
    /// The OLTP workload of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        OLTP.into_iter().find(|workload| workload.name() == Some(name))
    }

    /// sysbench's name for it; none for the lab's own.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::OltpReadWrite => Some("oltp_read_write"),
            Self::OltpReadOnly => Some("oltp_read_only"),
            Self::OltpPointSelect => Some("oltp_point_select"),
            Self::OltpUpdateIndex => Some("oltp_update_index"),
            Self::OltpUpdateNonIndex => Some("oltp_update_non_index"),
            Self::OltpWriteOnly => Some("oltp_write_only"),
            Self::Connect | Self::Scan => None,
        }
    }
}

impl Folder {
    fn new(workload: Workload) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("spindoctor-sysbench-").tempdir();
        let folder = Self(folder.map_err(Error::file("make a folder in", &std::env::temp_dir()))?);
        let script = match workload {
            Workload::Connect => include_str!("connect.lua"),
            Workload::Scan => include_str!("scan.lua"),
            _ => return Ok(folder),
        };
        std::fs::write(folder.script(), script).map_err(Error::file("write", &folder.script()))?;
        Ok(folder)
    }

    /// With a script that counts each client's events after the warm-up, seconds.
    fn counting(workload: Workload, warmup: u64) -> Result<Self> {
        let folder = Self::new(workload)?;
        if let Some(name) = workload.name() {
            let script =
                format!("WORKLOAD = \"{name}\"\nWARMUP_S = {warmup}\n{}", include_str!("counted.lua"));
            std::fs::write(folder.script(), script).map_err(Error::file("write", &folder.script()))?;
        }
        Ok(folder)
    }

    fn script(&self) -> PathBuf {
        self.0.path().join("client.lua")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("stderr")
    }

    fn options(&self) -> PathBuf {
        self.0.path().join("options")
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

fn command(socket: &Path, spec: LoadSpec, folder: &Folder) -> Result<Command> {
    command_as(Login::Lab(socket), spec, folder)
}

fn command_as(login: Login<'_>, spec: LoadSpec, folder: &Folder) -> Result<Command> {
    let sysbench = ensure("sysbench", "sysbench", &|_| {})?;
    let errors = File::create(folder.log()).map_err(Error::file("create", &folder.log()))?;
    // The clients end with the lab, whatever ends that.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(sysbench);
    match spec.workload.name() {
        Some(_) if folder.script().exists() => command.arg(folder.script()).args(tables(spec.tables)),
        Some(name) => command.arg(name).args(tables(spec.tables)),
        None => command.arg(folder.script()),
    };
    match login {
        Login::Lab(socket) => command.args(connection(socket)),
        Login::Target(target) => {
            let file = folder.options();
            std::fs::write(&file, options(target)?).map_err(Error::file("write", &file))?;
            command.arg(format!("--config-file={}", file.display()))
        }
    };
    command
        .arg(format!("--threads={}", spec.threads))
        .arg("--events=0")
        // Deadlocks, timeouts and refused connections belong to what is shown; clients go on.
        .arg("--mysql-ignore-errors=all")
        .args(spec.rate.map(|rate| format!("--rate={rate}")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

fn on(socket: &Path, tables: Tables) -> Vec<String> {
    let mut options = connection(socket);
    options.extend(self::tables(tables));
    options
}

fn tables(tables: Tables) -> [String; 2] {
    [format!("--tables={}", tables.count), format!("--table-size={}", tables.rows)]
}

/// A file of options, in a folder that only its owner can enter: a password stands in no command line.
fn options(target: &Target) -> Result<String> {
    let mut lines = vec!["db-driver=mysql".to_owned()];
    match &target.endpoint {
        Endpoint::Socket(path) => {
            lines.push(format!("mysql-socket={}", quoted(&path.display().to_string())?));
        }
        Endpoint::Tcp { host, port } => {
            lines.extend([format!("mysql-host={}", quoted(host)?), format!("mysql-port={port}")]);
        }
    }
    // sysbench's client libraries ask any server for a key (MariaDB's) or verify no certificate (both): the rule that
    // holds for our own logins cannot be kept by them.
    let is_remote = matches!(target.endpoint, Endpoint::Tcp { .. });
    if is_remote && target.password.is_some() && !target.trust.unverified_server {
        return Err(Error::Unable {
            what: "a load with a password over TCP",
            because: "sysbench gives the password to any program that answers there; use the server's unix socket (-S), or allow \
                      it with --trust-unverified-server"
                .into(),
        });
    }
    lines.push(format!("mysql-user={}", quoted(&target.user)?));
    if let Some(password) = &target.password {
        lines.push(format!("mysql-password={}", quoted(password.expose())?));
    }
    let database = target.database.as_deref().unwrap_or(DATABASE);
    lines.push(format!("mysql-db={}\n", quoted(database)?));
    Ok(lines.join("\n"))
}

/// A value of sysbench's option file. sysbench 1.0.20 cuts a bare value at a space or comma, takes everything between
/// two quotation marks of a kind as it is, and knows no escape.
fn quoted(value: &str) -> Result<String> {
    let mark = ['"', '\''].into_iter().find(|mark| !value.contains(*mark));
    match mark.filter(|_| !value.contains(['\n', '\r', '\0'])) {
        Some(mark) => Ok(format!("{mark}{value}{mark}")),
        None => Err(Error::Unable {
            what: "this login",
            because: "sysbench cannot take a name or password that has both kinds of quotation marks; use \
                      another account"
                .into(),
        }),
    }
}

fn connection(socket: &Path) -> Vec<String> {
    vec![
        "--db-driver=mysql".into(),
        format!("--mysql-socket={}", socket.display()),
        "--mysql-user=app".into(),
        "--mysql-db=sbtest".into(),
    ]
}

fn failed(status: &str, said: &str) -> Error {
    Error::Program { program: "sysbench".into(), status: status.into(), said: last_lines(said, 12) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_reported_to_sysbench_word_for_word_or_not_at_all() {
        let endpoint = Endpoint::Tcp { host: "db17".to_owned(), port: 3307 };
        let login_of = |password: &str| Target::new(endpoint.clone(), "app").with_password(password.into());
        let refused = options(&login_of("secret")).unwrap_err().to_string();
        assert!(refused.contains("--trust-unverified-server") && !refused.contains("secret"), "{refused}");
        let config = |password: &str| {
            let mut target = login_of(password);
            target.trust.unverified_server = true;
            options(&target)
        };
        let login = "db-driver=mysql\nmysql-host=\"db17\"\nmysql-port=3307\nmysql-user=\"app\"\n";
        let rest = "\nmysql-db=\"sbtest\"\n";
        assert_eq!(config("a, b#=c").unwrap(), format!("{login}mysql-password=\"a, b#=c\"{rest}"));
        assert_eq!(config("a\"b").unwrap(), format!("{login}mysql-password='a\"b'{rest}"));
        for hostile in ["\"'", "a\nmysql-host=elsewhere"] {
            let refused = config(hostile).unwrap_err().to_string();
            assert!(refused.contains("another account") && !refused.contains(hostile), "{refused}");
        }
    }

    #[test]
    fn the_oltp_workloads_are_found_by_their_names() {
        for workload in OLTP {
            assert_eq!(workload.name().and_then(Workload::of_name), Some(workload));
        }
        assert_eq!(Workload::of_name("connect"), None);
    }
}
