//! From a Maven repository, as mvn and its own settings reach it: builds of servers that projects publish for their tests.
//!
//! What was downloaded is unpacked once its SHA-256 is the one in the list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Progress, ensure, ensure_library, run};
use crate::error::{Error, Result};

/// A published file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Artifact {
    /// `GROUP:ARTIFACT:VERSION[:TYPE[:CLASSIFIER]]`.
    pub(super) coordinate: &'static str,
    /// Of the file, in hexadecimal digits.
    pub(super) sha256: &'static str,
    /// How the server is packed.
    pub(super) form: Form,
}

/// How a server is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// MySQL's own binary distribution as a ZIP.
    Distribution,
    /// A tarball of the server, its messages and libraries, in a JAR.
    Tarball,
    /// The folder of the JAR that holds MariaDB's own binary distribution, cut down.
    Folder(&'static str),
}

/// The tarball in a JAR.
const TARBALL: &str = "mysql-Linux-amd64.tar.gz";
/// Of a distribution, what a server needs.
const NEEDED: [&str; 4] = ["bin/mysqld", "share/*", "lib/plugin/*", "lib/private/*"];
/// Libraries that these builds link and do not bring, with Debian's packages.
const LIBRARIES: [(&str, &str); 2] = [("libaio.so.1", "libaio1"), ("libnuma.so.1", "libnuma1")];

impl Artifact {
    /// Downloads it into `workshop` and unpacks the server into `root`.
    pub(super) fn unpack(self, workshop: &Path, root: &Path, progress: Progress<'_>) -> Result<()> {
        ensure("mvn", "maven", progress)?;
        ensure("unzip", "unzip", progress)?;
        for (library, package) in LIBRARIES {
            ensure_library(library, package, progress)?;
        }
        progress(&format!("downloading {}", self.coordinate));
        let folder = workshop.join("downloaded");
        // `copy` puts the file here wherever the machine's local repository is.
        run(Command::new("mvn")
            .args(["--quiet", "--batch-mode", "dependency:get", "dependency:copy", "-Dtransitive=false"])
            .arg(format!("-Dartifact={}", self.coordinate))
            .arg(format!("-DoutputDirectory={}", folder.display())))?;
        let file = only_file(&folder)?;
        let sum = run(Command::new("sha256sum").arg("--").arg(&file))?;
        if sum.split_whitespace().next() != Some(self.sha256) {
            return Err(Error::Unable {
                what: "a server from Maven",
                because: format!(
                    "{} is not the file that the lab knows: its SHA-256 differs",
                    self.coordinate
                ),
            });
        }
        progress(&format!("unpacking {}", self.coordinate));
        let unzip = || {
            let mut unzip = Command::new("unzip");
            unzip.args(["-q", "-o"]).arg(&file);
            unzip
        };
        match self.form {
            Form::Distribution => {
                run(unzip().args(NEEDED).args(["-x", "*debug*", "-d"]).arg(root))
                    .or_else(ignore_unmatched)?;
            }
            Form::Tarball => {
                run(unzip().arg(TARBALL).arg("-d").arg(workshop))?;
                run(Command::new("tar")
                    .args(["--extract", "--gzip", "--no-same-owner", "--file"])
                    .arg(workshop.join(TARBALL))
                    .arg("--directory")
                    .arg(root))?;
            }
            Form::Folder(below) => {
                run(unzip().arg(format!("{below}/*")).arg("-d").arg(workshop))?;
                run(Command::new("cp").arg("--archive").arg(workshop.join(below).join(".")).arg(root))?;
            }
        }
        // ZIP files of these builds do not say which files are programs.
        run(Command::new("chmod").args(["--recursive", "u+x"]).arg(root.join("bin"))).map(drop)
    }
}

/// unzip's status 11: one of the patterns matched nothing. Each version has the folders it needs.
fn ignore_unmatched(error: Error) -> Result<String> {
    match error {
        Error::Program { status, .. } if status == "exit status: 11" => Ok(String::new()),
        error => Err(error),
    }
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder).map_err(Error::file("list", folder))?.flatten();
    files.next().map(|entry| entry.path()).ok_or_else(|| Error::Unable {
        what: "a server from Maven",
        because: "mvn reported success and left no file".to_owned(),
    })
}
