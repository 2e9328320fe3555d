//! Statements about replication in the words of the server's version.

use spindoctor_model::{ServerVersion, Window};

use crate::replica;

/// The words of a version for the same statements.
pub(super) struct Words {
    /// `REPLICA`, `SLAVE`.
    pub(super) replica: &'static str,
    /// `SOURCE`, `MASTER`.
    pub(super) source: &'static str,
    /// `CHANGE REPLICATION SOURCE TO`, `CHANGE MASTER TO`.
    pub(super) change: &'static str,
    /// Where the version is not known.
    older: &'static str,
    /// Empty for the default channel.
    channel: String,
    is_mariadb: bool,
}

impl Words {
    pub(super) fn new(window: &Window, channel: &str) -> Self {
        let version = window.server.version;
        // SHOW REPLICA STATUS and START REPLICA came together.
        let is_new = replica::asked(version).contains("REPLICA");
        // MySQL 8.0.23; MariaDB has the old words.
        let changes = version.is_none_or(|version| version.mysql_at_least(8, 0, 23));
        Self {
            replica: if is_new { "REPLICA" } else { "SLAVE" },
            source: if changes { "SOURCE" } else { "MASTER" },
            change: if changes { "CHANGE REPLICATION SOURCE TO" } else { "CHANGE MASTER TO" },
            older: if version.is_none() { " (START SLAVE before MySQL 8.0.22 and on MariaDB)" } else { "" },
            channel: channel.to_owned(),
            is_mariadb: version.is_some_and(ServerVersion::is_mariadb),
        }
    }

    /// `START REPLICA SQL_THREAD FOR CHANNEL 'sales'`; MariaDB: `START SLAVE 'sales' SQL_THREAD`
    pub(super) fn start(&self, thread: &str) -> String {
        let connection = match self.is_mariadb && !self.channel.is_empty() {
            true => format!(" {}", spindoctor_sql::quoted(&self.channel)),
            false => String::new(),
        };
        let started = format!("START {}{connection} {thread}", self.replica);
        format!("{}{}{}", started.trim_end(), self.for_channel(), self.older)
    }

    /// What MySQL's statements end with for a channel that has a name.
    pub(super) fn for_channel(&self) -> String {
        match self.is_mariadb || self.channel.is_empty() {
            true => String::new(),
            false => format!(" FOR CHANNEL {}", spindoctor_sql::quoted(&self.channel)),
        }
    }

    pub(super) fn filled(&self, statement: &str) -> String {
        statement
            .replace("{CHANGE}", self.change)
            .replace("{SOURCE}", self.source)
            .replace("{replica}", &self.replica.to_ascii_lowercase())
    }
}
