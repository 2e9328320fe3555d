//! Statements about replication in the words of the server's version.

use spindoctor_model::{ServerVersion, Window};

use super::asked;

/// The words of a version for the same statements.
pub(crate) struct Words {
    /// `REPLICA`, `SLAVE`.
    pub(crate) replica: &'static str,
    /// `SOURCE`, `MASTER`.
    pub(crate) source: &'static str,
    /// `CHANGE REPLICATION SOURCE TO`, `CHANGE MASTER TO`.
    pub(crate) change: &'static str,
    /// Where the version is not known.
    older: &'static str,
    /// Empty for the default channel.
    channel: String,
    is_mariadb: bool,
}

impl Words {
    pub(crate) fn new(window: &Window, channel: &str) -> Self {
        let version = window.server.version;
        // SHOW REPLICA STATUS and START REPLICA came together.
        let is_new = asked(version).contains("REPLICA");
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
    pub(crate) fn start(&self, thread: &str) -> String {
        let connection = match self.is_mariadb && !self.channel.is_empty() {
            true => format!(" {}", spindoctor_sql::quoted(&self.channel)),
            false => String::new(),
        };
        let started = format!("START {}{connection} {thread}", self.replica);
        format!("{}{}{}", started.trim_end(), self.for_channel(), self.older)
    }

    /// `STOP REPLICA SQL_THREAD FOR CHANNEL 'sales'`
    pub(crate) fn stop(&self, thread: &str) -> String {
        self.start(thread).replacen("START", "STOP", 1)
    }

    /// What MySQL's statements end with for a channel that has a name.
    pub(crate) fn for_channel(&self) -> String {
        match self.is_mariadb || self.channel.is_empty() {
            true => String::new(),
            false => format!(" FOR CHANNEL {}", spindoctor_sql::quoted(&self.channel)),
        }
    }

    pub(crate) fn filled(&self, statement: &str) -> String {
        statement
            .replace("{CHANGE}", self.change)
            .replace("{SOURCE}", self.source)
            .replace("{replica}", &self.replica.to_ascii_lowercase())
    }
}
