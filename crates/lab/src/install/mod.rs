//! Installs a server from Debian's archive into the lab's folder, without touching the system.
//!
//! apt's own resolver works on a private state, cache and an empty list of installed packages: what it
//! names is the server and every library it needs, libc included. apt checks the archive's signature.
//! The packages are unpacked with `dpkg -x`; patchelf makes the server use the prefix's own libc.
//! Work goes on in a folder beside; it becomes the prefix by a rename and counts as installed once
//! [`MARK`] is in it, so that an interrupted installation is never taken for one.

mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Progress, ensure, find, is_root, run};
use crate::error::{Error, Result};
use crate::home::{Home, create_private_dir, remove_dir};

/// Its presence says that the installation is whole.
const MARK: &str = "installed";

/// A server that Debian packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// Name of the prefix's folder.
    name: &'static str,
    /// Package of the server.
    package: &'static str,
    /// Suite that holds the wanted version.
    suite: &'static str,
    /// The server's program below the prefix.
    server: &'static str,
}

/// MySQL 9.7: Debian keeps MySQL in unstable only.
pub(crate) const MYSQL: Recipe =
    Recipe { name: "mysql", package: "mysql-server-core", suite: "unstable", server: "usr/sbin/mysqld" };

/// MariaDB 10.11: the version of Debian 12.
pub(crate) const MARIADB: Recipe = Recipe {
    name: "mariadb",
    package: "mariadb-server-core",
    suite: "bookworm",
    server: "usr/sbin/mariadbd",
};

/// The server's program; installs it first where it is not there yet.
pub(crate) fn installed(home: &Home, recipe: Recipe, progress: Progress<'_>) -> Result<PathBuf> {
    let prefix = home.root().join(recipe.name);
    let server = prefix.join(recipe.server);
    if prefix.join(MARK).exists() {
        return Ok(server);
    }
    let _lock = home.lock(&format!("install-{}", recipe.name))?;
    if prefix.join(MARK).exists() {
        return Ok(server);
    }
    install(home, recipe, &prefix, progress)?;
    Ok(server)
}

fn install(home: &Home, recipe: Recipe, prefix: &Path, progress: Progress<'_>) -> Result<()> {
    for (program, package) in [("apt-get", "apt"), ("dpkg", "dpkg")] {
        if find(program).is_none() {
            let because = format!("{program} (Debian package {package}) is not on this machine");
            return Err(Error::NoArchive(because));
        }
    }
    if !Path::new(sources::KEYRING).exists() {
        return Err(Error::Missing {
            program: sources::KEYRING.into(),
            how: "apt-get install debian-archive-keyring (as root)".into(),
        });
    }
    ensure("patchelf", progress)?;
    let archive = sources::debian_archive(Path::new("/etc/apt"))?;
    let workshop = home.workshop(&format!("install-{}", recipe.name))?;
    let apt = Apt::new(workshop.path(), &archive, recipe.suite)?;
    progress(&format!("reading the package lists of Debian {}", recipe.suite));
    run(apt.get().arg("update"))?;
    progress(&format!("downloading {} and its libraries", recipe.package));
    run(apt.get().args(["install", "--yes", "--no-install-recommends", "--download-only", recipe.package]))?;

    progress(&format!("unpacking {}", recipe.package));
    let root = workshop.path().join("root");
    create_private_dir(&root)?;
    for package in apt.packages()? {
        run(Command::new("dpkg").arg("-x").arg(&package).arg(&root))?;
    }
    use_own_libraries(&root, prefix, recipe.server)?;
    remove_dir(prefix)?;
    fs::rename(&root, prefix).map_err(Error::file("move the server to", prefix))?;
    run(Command::new(prefix.join(recipe.server)).args(["--no-defaults", "--version"]))?;
    fs::write(prefix.join(MARK), "").map_err(Error::file("write", &prefix.join(MARK)))
}

/// Sets the program interpreter and the run path to the prefix's own libc and libraries.
///
/// As DT_RPATH, not DT_RUNPATH: it must hold for the libraries' own needs too.
fn use_own_libraries(root: &Path, prefix: &Path, server: &str) -> Result<()> {
    let server = root.join(server);
    let now = run(Command::new("patchelf").arg("--print-interpreter").arg(&server))?;
    let interpreter = now.trim().trim_start_matches('/');
    let interpreter = [interpreter.to_owned(), format!("usr/{interpreter}")]
        .into_iter()
        .find(|below| root.join(below).exists())
        .ok_or_else(|| Error::NoArchive(format!("the packages hold no {}", now.trim())))?;
    // Debian's name of the architecture's library folder, the same on x86-64 and aarch64 but for the CPU.
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let run_path = ["usr/lib", "lib"].map(|folder| prefix.join(folder).join(&triplet).display().to_string());
    run(Command::new("patchelf")
        .arg("--set-interpreter")
        .arg(prefix.join(interpreter))
        .args(["--force-rpath", "--set-rpath", &run_path.join(":")])
        .arg(&server))?;
    Ok(())
}

/// apt with nothing of the system's state: own lists, cache, sources, and no package installed.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path, archive: &str, suite: &str) -> Result<Self> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::file("write", &path))
        };
        for name in ["lists/partial", "cache/archives/partial", "empty", "sources"] {
            create_private_dir(&folder.join(name))?;
        }
        write("status", "")?;
        let keyring = sources::KEYRING;
        write(
            "sources/debian.sources",
            &format!(
                "Types: deb\nURIs: {archive}\nSuites: {suite}\nComponents: main\nSigned-By: {keyring}\nTargets: Packages\n"
            ),
        )?;
        // The machine's own way to the archive (proxy, time-outs) holds here as well; its hooks do not.
        let machine = run(Command::new("apt-config").arg("dump"))?;
        let own_way = way_to_archives(&machine);
        let here = folder.display();
        write(
            "apt.conf",
            &format!(
                "{own_way}Dir::State \"{here}\";\nDir::State::status \"{here}/status\";\nDir::Cache \"{here}/cache\";\n\
                 Dir::Etc::parts \"{here}/empty\";\nDir::Etc::main \"/dev/null\";\n\
                 Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{here}/sources\";\n\
                 Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"{here}/empty\";\n\
                 Acquire::Languages \"none\";\n{}",
                // The folder is its owner's alone: apt's own user could not write to it.
                if is_root() { "APT::Sandbox::User \"root\";\n" } else { "" }
            ),
        )?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", self.folder.join("apt.conf")).env("LC_ALL", "C").arg("--quiet");
        command
    }

    fn packages(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("cache/archives");
        let files = fs::read_dir(&folder).map_err(Error::file("list", &folder))?;
        let packages = files.flatten().map(|entry| entry.path());
        Ok(packages.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect())
    }
}

/// Of `apt-config dump`, the settings of how archives are reached; nothing that weakens the check of their
/// signatures, and no indexes but those that apt needs itself.
fn way_to_archives(dump: &str) -> String {
    dump.lines()
        .filter(|line| line.starts_with("Acquire::"))
        .filter(|line| !line.starts_with("Acquire::Allow") && !line.starts_with("Acquire::IndexTargets"))
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_trusts_unsigned_archives_does_not_make_the_lab_trust_them() {
        let dump = "APT \"\";\nAPT::Get::AllowUnauthenticated \"true\";\n\
                    Acquire::AllowInsecureRepositories \"1\";\nAcquire::http::Proxy \"http://proxy.example:3128\";\n";
        assert_eq!(way_to_archives(dump), "Acquire::http::Proxy \"http://proxy.example:3128\";\n");
    }
}
