//! Which server program a lab server runs, and where its share files are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use spindoctor_model::{Flavor, ServerVersion};

use crate::command::{Progress, find, run};
use crate::error::{Error, Result};
use crate::home::Home;
use crate::install::{self, KNOWN, Known};

/// Which server is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Which {
    /// MySQL as Debian unstable packages it, installed into the lab's folder when first used.
    #[default]
    Mysql,
    /// MariaDB as Debian 12 packages it, installed into the lab's folder when first used.
    Mariadb,
    /// Another one that the lab knows by name, installed when first used.
    Named(&'static Known),
    /// Any other server: the folder that has `bin/mysqld`, `sbin/mysqld` or MariaDB's `mariadbd`.
    Basedir(PathBuf),
    /// The `mysqld` or `mariadbd` on PATH.
    OnPath,
}

impl Which {
    /// The name of the server on PATH.
    const PATH: &str = "path";

    /// Every name that [`Self::by_name`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let usual = KNOWN.iter().filter_map(|known| known.also);
        usual.chain(KNOWN.iter().map(|known| known.name)).chain([Self::PATH])
    }

    /// True for a server that is known by its name to be MariaDB.
    pub(crate) fn is_mariadb(&self) -> bool {
        match self {
            Self::Mariadb => true,
            Self::Named(known) => known.flavor == Flavor::Mariadb,
            Self::Mysql | Self::Basedir(_) | Self::OnPath => false,
        }
    }

    /// The server of a name: `mysql`, `mysql-5.7`, `path`.
    pub fn by_name(name: &str) -> Option<Self> {
        if name == Self::PATH {
            return Some(Self::OnPath);
        }
        let known = KNOWN.iter().find(|known| known.name == name || known.also == Some(name))?;
        Some(match known {
            known if known == install::MYSQL => Self::Mysql,
            known if known == install::MARIADB => Self::Mariadb,
            known => Self::Named(known),
        })
    }
}

/// A server program that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Which server it is.
    pub version: ServerVersion,
    /// The version as it prints it: `10.11.18-MariaDB-0+deb12u1`.
    pub version_text: String,
    /// The program.
    pub server: PathBuf,
    /// `--basedir`: the folder above the program's own.
    pub basedir: PathBuf,
    /// The folder that holds `charsets` and the languages' messages.
    pub share: PathBuf,
    /// The folder of plugins, where there is one.
    pub plugins: Option<PathBuf>,
}

impl Installation {
    /// Finds the server that is wanted, and installs it where the lab does that.
    pub fn find(home: &Home, which: &Which, progress: Progress<'_>) -> Result<Self> {
        match which {
            Which::Mysql => install::installed(home, install::MYSQL, progress),
            Which::Mariadb => install::installed(home, install::MARIADB, progress),
            Which::Named(known) => install::installed(home, known, progress),
            Which::Basedir(folder) => Self::of_basedir(folder),
            Which::OnPath => {
                let server = find("mysqld").or_else(|| find("mariadbd")).ok_or_else(|| Error::NoServer {
                    place: "PATH".into(),
                    looked_for: "mysqld, mariadbd".into(),
                })?;
                Self::of_server(&server)
            }
        }
    }

    pub(crate) fn of_basedir(folder: &Path) -> Result<Self> {
        const PROGRAMS: [&str; 8] = [
            "bin/mysqld",
            "sbin/mysqld",
            "libexec/mysqld",
            "usr/sbin/mysqld",
            "bin/mariadbd",
            "sbin/mariadbd",
            "libexec/mariadbd",
            "usr/sbin/mariadbd",
        ];
        let server = PROGRAMS.iter().map(|below| folder.join(below)).find(|file| file.is_file());
        let server = server
            .ok_or_else(|| Error::NoServer { place: folder.to_owned(), looked_for: PROGRAMS.join(", ") })?;
        Self::of_server(&server)
    }

    fn of_server(server: &Path) -> Result<Self> {
        let server = server.canonicalize().map_err(Error::file("open", server))?;
        let said = run(Command::new(&server).args(["--no-defaults", "--version"]))?;
        let (version_text, version) = parse_version(&said)
            .ok_or_else(|| Error::UnknownServer { server: server.clone(), said: said.trim().into() })?;
        let basedir = server.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
        let first = |folders: &[&str], holds: &str| {
            folders.iter().map(|below| basedir.join(below)).find(|folder| folder.join(holds).exists())
        };
        let share =
            first(&["share/mysql", "share/mariadb", "share"], "english/errmsg.sys").ok_or_else(|| {
                Error::NoServer {
                    place: basedir.clone(),
                    looked_for: "share/mysql/english/errmsg.sys".into(),
                }
            })?;
        let plugins = first(&["lib/mysql/plugin", "lib64/mysql/plugin", "lib/plugin"], "");
        Ok(Self { version, version_text, server, basedir, share, plugins })
    }

    /// The options that set where the server's own files are.
    pub(crate) fn folders(&self) -> Vec<OsString> {
        let mut options = vec![
            path_option("basedir", &self.basedir),
            path_option("lc-messages-dir", &self.share),
            path_option("character-sets-dir", &self.share.join("charsets")),
        ];
        options.extend(self.plugins.as_deref().map(|plugins| path_option("plugin-dir", plugins)));
        options
    }

    /// Distinguishes this build of a server from others: the name of its template.
    pub(crate) fn key(&self) -> String {
        let text: String = self
            .version_text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
            .collect();
        format!("{}-{text}", self.version.flavor.to_string().to_lowercase().replace(' ', "-"))
    }
}

/// `--NAME=PATH`, whatever bytes the path has.
pub(crate) fn path_option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(path);
    option
}

/// Format is like `/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))`.
fn parse_version(said: &str) -> Option<(String, ServerVersion)> {
    let (_, rest) = said.trim().split_once("Ver ")?;
    let (version, comment) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((version.to_owned(), ServerVersion::parse(version, comment)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_name_and_no_two_have_the_same() {
        let mut all: Vec<Which> = Vec::new();
        for name in Which::names() {
            let which = Which::by_name(name).unwrap();
            let is_usual = matches!(which, Which::Mysql | Which::Mariadb);
            // The usual ones have two names.
            assert!(is_usual || !all.contains(&which), "{name}");
            all.push(which);
        }
        assert_eq!(Which::by_name("mysql"), Which::by_name("mysql-9.7"));
        assert_eq!(Which::by_name("mysql-5"), None);
    }

    #[test]
    fn shows_the_servers_apart_by_what_they_print() {
        let parse = |said| parse_version(said).map(|(text, version)| (text, version.to_string()));
        assert_eq!(
            parse("/x/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n"),
            Some(("9.7.4-2".into(), "MySQL 9.7.4".into()))
        );
        assert_eq!(
            parse("mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"),
            Some(("10.11.18-MariaDB-0+deb12u1".into(), "MariaDB 10.11.18".into()))
        );
        assert_eq!(
            parse(
                "mysqld  Ver 8.0.29-21 for Linux on x86_64 (Percona Server (GPL), Release 21, Revision c59f87d2854)"
            ),
            Some(("8.0.29-21".into(), "Percona Server 8.0.29".into()))
        );
        assert_eq!(parse("usage: cat"), None);
    }
}
