//! What is on disk about a server that is up, so that the next start can clean up after a lab that was
//! killed: written before anything else of the server exists.
//!
//! `servers/NAME/record.json` names every folder and control group; `servers/NAME/pid` is written by the
//! server's own process before its program starts, and holds its `/proc/PID/stat`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::ServerVersion;

use crate::cgroup::Groups;
use crate::command::find;
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
    /// CPU quota.
    pub(crate) quota: Option<f64>,
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
                // The record is written in one step before anything else: there is nothing else.
                None => remove_dir(&folder)?,
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
        let process = ProcessId::parse(&fs::read_to_string(folder.join("pid")).ok()?)?;
        process.same_boot(&self.owner).then_some(process)
    }

    fn is_wanted(&self, folder: &Path) -> bool {
        let runs = || self.process(folder).is_some_and(|process| process.runs());
        self.owner.runs() || (self.stays && runs())
    }

    /// Ends the server and removes everything of it, its record last.
    pub(crate) fn remove(&self, folder: &Path) -> Result<()> {
        if let Some(process) = self.process(folder) {
            // A frozen process does not die.
            let _not_frozen = self.groups.freeze(false);
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
            remove_dir(folder)?;
        }
        remove_dir(folder)
    }
}
