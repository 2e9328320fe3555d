//! From Debian's archive: apt's own resolver works on a private state, cache and an empty list of installed packages. What it
//! names is the server and every library it needs, libc included; apt checks the archive's signature. The packages are
//! unpacked with `dpkg -x`; patchelf makes the server use the prefix's own libc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::sources;
use crate::command::{Progress, ensure, find, is_root, run};
use crate::error::{Error, Result};
use crate::home::create_private_dir;

/// A server as a suite of Debian packages it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Package {
    /// Suite that holds the wanted version.
    pub(super) suite: &'static str,
    /// Package of the server.
    pub(super) package: &'static str,
    /// The server's program below the prefix.
    pub(super) server: &'static str,
}

impl Package {
    /// Unpacks it into `root`, which will be moved to `prefix`; `workshop` is for what is needed meanwhile.
    pub(super) fn unpack(
        self,
        workshop: &Path,
        root: &Path,
        prefix: &Path,
        progress: Progress<'_>,
    ) -> Result<()> {
        ensure("patchelf", "patchelf", progress)?;
        self.unpack_files(workshop, root, progress)?;
        use_own_libraries(root, prefix, self.server)
    }

    /// The same of a package without a program: a library that a server loads.
    pub(super) fn unpack_files(self, workshop: &Path, root: &Path, progress: Progress<'_>) -> Result<()> {
        let apt = self.apt(workshop, progress)?;
        progress(&format!("downloading {} and its libraries", self.package));
        run(apt.get().args([
            "install",
            "--yes",
            "--no-install-recommends",
            "--download-only",
            self.package,
        ]))?;
        self.unpack_downloaded(&apt, root, progress)
    }

    /// The same of a package alone: plugins whose libraries the server has.
    pub(super) fn unpack_alone(self, workshop: &Path, root: &Path, progress: Progress<'_>) -> Result<()> {
        let apt = self.apt(workshop, progress)?;
        progress(&format!("downloading {}", self.package));
        run(apt.get().args(["download", self.package]).current_dir(apt.archives()))?;
        self.unpack_downloaded(&apt, root, progress)
    }

    /// apt with the suite's lists.
    fn apt(self, workshop: &Path, progress: Progress<'_>) -> Result<Apt> {
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
        let archive = sources::debian_archive(Path::new("/etc/apt"))?;
        let apt = Apt::new(workshop, &archive, self.suite)?;
        progress(&format!("reading the package lists of Debian {}", self.suite));
        run(apt.get().arg("update"))?;
        Ok(apt)
    }

    fn unpack_downloaded(self, apt: &Apt, root: &Path, progress: Progress<'_>) -> Result<()> {
        progress(&format!("unpacking {}", self.package));
        for package in apt.packages()? {
            run(Command::new("dpkg").arg("-x").arg(&package).arg(root))?;
        }
        Ok(())
    }
}

/// Sets the program interpreter and the run path to the prefix's own libc and libraries.
///
/// As DT_RPATH, not DT_RUNPATH: it must hold for the libraries' own needs too.
fn use_own_libraries(root: &Path, prefix: &Path, server: &str) -> Result<()> {
    let server = root.join(server);
    let now = run(Command::new("patchelf").arg("--print-interpreter").arg(&server))?;
    let interpreter = loader(root, now.trim())
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

/// Where below a root the program interpreter of this absolute path is.
fn loader(root: &Path, path: &str) -> Option<PathBuf> {
    let path = path.trim_start_matches('/');
    [PathBuf::from(path), Path::new("usr").join(path)].into_iter().find_map(|below| {
        // In bullseye it is an absolute link, which would lead out of the root.
        let link = fs::read_link(root.join(&below)).ok();
        let inside = link.as_deref().and_then(|link| Some(link.strip_prefix("/").ok()?.to_owned()));
        let below = inside.unwrap_or(below);
        root.join(&below).exists().then_some(below)
    })
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

    /// Where packages are downloaded to.
    fn archives(&self) -> PathBuf {
        self.folder.join("cache/archives")
    }

    fn packages(&self) -> Result<Vec<PathBuf>> {
        let folder = self.archives();
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
    fn the_loader_is_found_where_its_absolute_link_leads_inside_the_root() {
        let root = tempfile::tempdir().unwrap();
        let (lib64, lib) = (root.path().join("lib64"), root.path().join("lib"));
        fs::create_dir_all(&lib64).unwrap();
        fs::create_dir_all(&lib).unwrap();
        std::os::unix::fs::symlink("/lib/own-loader-2.31.so", lib64.join("own-loader.so.2")).unwrap();
        assert_eq!(loader(root.path(), "/lib64/own-loader.so.2"), None);
        fs::write(lib.join("own-loader-2.31.so"), "").unwrap();
        assert_eq!(loader(root.path(), "/lib64/own-loader.so.2"), Some("lib/own-loader-2.31.so".into()));
    }

    #[test]
    fn a_machine_that_trusts_unsigned_archives_does_not_make_the_lab_trust_them() {
        let dump = "APT \"\";\nAPT::Get::AllowUnauthenticated \"true\";\n\
                    Acquire::AllowInsecureRepositories \"1\";\nAcquire::http::Proxy \"http://proxy.example:3128\";\n";
        assert_eq!(way_to_archives(dump), "Acquire::http::Proxy \"http://proxy.example:3128\";\n");
    }
}
