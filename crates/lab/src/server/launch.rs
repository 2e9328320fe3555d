//! Starts a server: its record, folders, control groups and options, its process, and its first answer.
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
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{Data, Server, ServerSpec};
use crate::cgroup::{Groups, Limits};
use crate::command::{Progress, is_root, last_lines, run};
use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::galera;
use crate::home::{Home, create_private_dir};
use crate::installation::{Installation, Which, path_option};
use crate::process::ProcessId;
use crate::record::{Record, Register};
use crate::{options, template};

/// How long a server may take to answer its first query.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a unix socket's path, with its closing zero (unix(7)).
const SOCKET_PATH_MAX: usize = 108;

/// Writes its own stat, enters the control groups, raises the limit of open files, becomes the server.
const BIRTH: &str = r#"cat /proc/$$/stat > "$1" || exit 1; shift
while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift
files=$(ulimit -Hn); [ "$files" -lt 65536 ] 2>/dev/null || files=65536; ulimit -n "$files"
exec "$@""#;

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

    pub(super) fn spawn(&mut self) -> Result<()> {
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

    pub(super) async fn wait_until_it_answers(&mut self) -> Result<()> {
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
