//! The record on disk of a running server, so that the next start can clean up after a killed lab. It is written before
//! anything else of the server exists.
//!
//! `servers/NAME/record.json` names every folder and control group; `servers/NAME/pid` is written by the
//! server's own process before its program starts, and holds its `/proc/PID/stat`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::ServerVersion;

use crate::cgroup::Groups;
use crate::command::{find, run};
use crate::error::{Error, Result};
use crate::home::{Home, Lock, create_private_dir, remove_dir};
use crate::process::ProcessId;

/// Everything about a server that must be found again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its name in the lab.
    pub(crate) name: String,
    /// The process that started it.
    pub(crate) owner: ProcessId,
    /// True where it is meant to go on without its owner (`lab up`).
    pub(crate) stays: bool,
    /// Which server it is.
    pub(crate) version: ServerVersion,
    /// Its program.
    pub(crate) program: PathBuf,
    /// Its data folder.
    pub(crate) data: PathBuf,
    /// Its unix socket.
    pub(crate) socket: PathBuf,
    /// Its port on 127.0.0.1.
    pub(crate) port: u16,
    /// CPU quota, CPUs.
    pub(crate) quota_cpus: Option<f64>,
    /// When it was started.
    pub(crate) started: Timestamp,
    /// Folders to remove when it ends.
    pub(crate) folders: Vec<PathBuf>,
    /// Control groups to remove when it ends.
    pub(crate) groups: Groups,
}

/// The records of one lab, locked while this lives.
#[derive(Debug)]
pub(crate) struct Register {
    servers: PathBuf,
    _lock: Lock,
}

impl Register {
    /// Waits for others who change the records.
    pub(crate) fn lock(home: &Home) -> Result<Self> {
        create_private_dir(&home.servers())?;
        Ok(Self { servers: home.servers(), _lock: home.lock("servers")? })
    }

    /// Every server that is recorded and not left over, after removing what was left over.
    pub(crate) fn sweep(&self) -> Result<Vec<Record>> {
        let mut alive = Vec::new();
        let mut entries: Vec<_> = fs::read_dir(&self.servers)
            .map_err(Error::file("list", &self.servers))?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        entries.sort();
        for folder in entries {
            match Record::read(&folder) {
                Some(record) if record.is_wanted(&folder) => alive.push(record),
                Some(record) => record.remove(&folder)?,
                // What cannot be read may be another version's, and its server may be somebody's.
                None => match process_of(&folder).filter(ProcessId::runs) {
                    Some(process) => return Err(Error::ForeignRecord { folder, pid: process.pid }),
                    // The record is written in one step before anything else: there is nothing else.
                    None => remove_dir(&folder)?,
                },
            }
        }
        Ok(alive)
    }

    /// Writes a record, in one step.
    pub(crate) fn write(&self, record: &Record) -> Result<()> {
        let folder = self.servers.join(&record.name);
        create_private_dir(&folder)?;
        record.write(&folder)
    }
}

impl Record {
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join("record.json")).ok()?).ok()
    }

    /// Writes it in one step.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let (new, path) = (folder.join("record.new"), folder.join("record.json"));
        let text = serde_json::to_vec_pretty(self).expect("a record has only string keys");
        fs::write(&new, text).map_err(Error::file("write", &new))?;
        fs::rename(&new, &path).map_err(Error::file("write", &path))
    }

    /// The server's process, where it got as far as being one.
    pub(crate) fn process(&self, folder: &Path) -> Option<ProcessId> {
        // The text does not name its boot; after another boot its owner is of another one too.
        process_of(folder).filter(|process| process.same_boot(&self.owner))
    }

    fn is_wanted(&self, folder: &Path) -> bool {
        let runs = || self.process(folder).is_some_and(|process| process.runs());
        self.owner.runs() || (self.stays && runs())
    }

    /// Ends the server and removes everything of it, its record last.
    pub(crate) fn remove(&self, folder: &Path) -> Result<()> {
        if let Some(process) = self.process(folder) {
            // A frozen process does not die, and one that waits for a slow disk not before its writes are done.
            let _not_frozen = self.groups.freeze(false);
            let _not_slow = self.groups.limit_writes(&self.data, None, None);
            // Between its birth and its program the process runs these.
            let births: Vec<PathBuf> =
                ["sh", "setpriv"].iter().filter_map(|program| find(program)?.canonicalize().ok()).collect();
            let mut programs: Vec<&Path> = births.iter().map(PathBuf::as_path).collect();
            programs.push(&self.program);
            if !process.kill(&programs, Duration::from_secs(10)) {
                return Err(Error::Unable {
                    what: "an end",
                    because: format!("process {} of the server {} does not die", process.pid, self.name),
                });
            }
        }
        self.groups.remove()?;
        for folder in &self.folders {
            if is_mount_point(folder) {
                run(Command::new("umount").arg("--lazy").arg(folder))?;
            }
            remove_dir(folder)?;
        }
        remove_dir(folder)
    }
}

/// True for a folder that a file system of its own is mounted on.
fn is_mount_point(folder: &Path) -> bool {
    let device = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.dev());
    folder.parent().is_some_and(|above| device(folder).is_some_and(|own| device(above) != Some(own)))
}

/// The process that the pid file in a server's folder names.
fn process_of(folder: &Path) -> Option<ProcessId> {
    ProcessId::parse(&fs::read_to_string(folder.join("pid")).ok()?)
}

#[cfg(test)]
mod tests {
    //! What is left when a lab is killed. The lab is this test program, run again for one ignored test.

    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, ChildStdout, Stdio};

    use rustix::process::Signal;

    use super::*;
    use crate::cgroup::Limits;
    use crate::process::signal;
    use crate::scenario;
    use crate::server::{Server, ServerSpec, list};

    /// Sends the other lab its orders: see [`another_lab`].
    const TASK: &str = "SPINDOCTOR_TEST_TASK";

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// A server with everything that can be left over, where this machine allows it.
    fn spec() -> ServerSpec {
        let root = crate::command::is_root();
        let limits = Limits { quota_cpus: root.then_some(1.0), freezer: root, ..Limits::default() };
        ServerSpec { limits, ..ServerSpec::default() }
    }

    #[test]
    #[ignore = "is the lab that other tests kill"]
    fn another_lab() {
        let home = Home::open().unwrap();
        let hold = |stays| {
            runtime().block_on(async {
                let server = Server::begin(&home, &spec(), stays, &|_| {}).await.unwrap();
                println!("name {}", server.name());
                std::future::pending::<()>().await;
            });
        };
        match std::env::var(TASK).as_deref() {
            Ok("hold") => hold(false),
            // As `lab up` before the server is up: the kernel does not end it with its starter.
            Ok("hold-unbound") => hold(true),
            Ok("run") => {
                let scenario = scenario::find("row-lock-pileup").unwrap();
                let options = scenario::RunOptions { window: Duration::from_secs(600), ..Default::default() };
                let name = |_: &str| {
                    let own = ProcessId::own().unwrap();
                    let records = Register::lock(&home).unwrap().sweep().unwrap();
                    for record in records.iter().filter(|record| record.owner == own) {
                        println!("name {}", record.name);
                    }
                };
                let outcome = runtime().block_on(scenario::run(&home, scenario, &options, &name));
                println!("ended: {}", outcome.unwrap_err());
            }
            _ => {}
        }
    }

    /// Starts the other lab and waits until its server is up.
    fn start(task: &str) -> (Child, BufReader<ChildStdout>, Record) {
        let mut lab = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "record::tests::another_lab", "--ignored", "--nocapture"])
            .env(TASK, task)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(lab.stdout.take().unwrap());
        let mut line = String::new();
        let name = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the other lab ended early");
            // The test harness's own words may stand before.
            if let Some((_, name)) = line.split_once("name ") {
                break name.trim().to_owned();
            }
        };
        let record = Record::read(&Home::open().unwrap().servers().join(name)).unwrap();
        (lab, lines, record)
    }

    fn everything_is_gone(record: &Record) {
        let folder = Home::open().unwrap().servers().join(&record.name);
        assert!(!folder.exists());
        assert_eq!(record.folders.iter().find(|folder| folder.exists()), None);
        assert_eq!(record.groups.doors().find(|door| door.exists()), None);
    }

    fn kill(lab: &mut Child) {
        signal(lab.id(), Signal::KILL);
        lab.wait().unwrap();
    }

    #[test]
    fn a_server_ends_with_its_lab_and_the_next_start_removes_what_it_leaves() {
        let (mut lab, _lines, record) = start("hold");
        let process = record.process(&Home::open().unwrap().servers().join(&record.name)).unwrap();
        assert!(process.runs());
        kill(&mut lab);
        // The kernel sends the signal at once; the end itself takes the server a moment.
        let start = std::time::Instant::now();
        while process.runs() {
            assert!(start.elapsed() < Duration::from_secs(30), "the server outlives its lab");
            std::thread::sleep(Duration::from_millis(10));
        }
        list(&Home::open().unwrap()).unwrap();
        everything_is_gone(&record);
    }

    #[test]
    fn a_server_that_outlives_its_lab_is_ended_by_the_next_start() {
        let (mut lab, _lines, record) = start("hold-unbound");
        let process = record.process(&Home::open().unwrap().servers().join(&record.name)).unwrap();
        kill(&mut lab);
        // Another test may have swept between; then it is as good.
        list(&Home::open().unwrap()).unwrap();
        assert!(!process.runs());
        everything_is_gone(&record);
    }

    #[test]
    fn a_frozen_or_stopped_server_is_removed_too() {
        let (mut lab, _lines, record) = start("hold-unbound");
        let process = record.process(&Home::open().unwrap().servers().join(&record.name)).unwrap();
        if crate::command::is_root() {
            record.groups.freeze(true).unwrap();
        } else {
            println!("without root the server is stopped, not frozen");
            signal(process.pid, Signal::STOP);
        }
        kill(&mut lab);
        list(&Home::open().unwrap()).unwrap();
        assert!(!process.runs());
        everything_is_gone(&record);
    }

    #[test]
    fn ctrl_c_ends_a_run_and_leaves_nothing() {
        let (mut lab, mut lines, record) = start("run");
        signal(lab.id(), Signal::INT);
        let mut said = String::new();
        lines.read_to_string(&mut said).unwrap();
        assert!(lab.wait().unwrap().success(), "{said}");
        assert!(said.contains("ended: interrupted"), "{said}");
        everything_is_gone(&record);
    }

    #[test]
    fn the_record_of_a_server_that_never_was_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        create_private_dir(&home.servers().join("torn")).unwrap();
        fs::write(home.servers().join("torn/record.new"), "{").unwrap();
        assert_eq!(list(&home).unwrap(), []);
        assert!(!home.servers().join("torn").exists());
    }

    #[test]
    fn the_record_of_another_version_is_left_alone_while_its_server_runs() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        let other = home.servers().join("other");
        create_private_dir(&other).unwrap();
        fs::write(other.join("record.json"), r#"{"from": "another version"}"#).unwrap();
        let mut server = Command::new("sleep").arg("1000").spawn().unwrap();
        fs::copy(format!("/proc/{}/stat", server.id()), other.join("pid")).unwrap();
        let refused = list(&home).unwrap_err();
        assert!(matches!(&refused, Error::ForeignRecord { pid, .. } if *pid == server.id()), "{refused}");
        assert!(other.exists());
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(list(&home).unwrap(), []);
        assert!(!other.exists());
    }
}
