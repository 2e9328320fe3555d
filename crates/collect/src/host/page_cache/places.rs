//! Where the server keeps its files, and the kind of each, by its name and place. Pure but for [`Places::seen`].

use std::path::Path;

use spindoctor_model::Unavailable;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::page_cache::FileKind;

use super::super::Target;
use super::super::kernel_file;
use super::descriptors;

/// The variables that say where.
pub const VARIABLES: [&str; 19] = [
    "datadir",
    "log_bin_basename",
    "relay_log_basename",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "innodb_temp_data_file_path",
    "innodb_temp_tablespaces_dir",
    "innodb_doublewrite_dir",
    "innodb_directories",
    "aria_log_dir_path",
    "log_error",
    "slow_query_log_file",
    "general_log_file",
    "innodb_flush_method",
    "innodb_log_file_buffering",
    "innodb_data_file_buffering",
    "innodb_log_write_ahead_size",
];

/// Extensions of files with rows and indexes: InnoDB, MyISAM, Aria, Archive, CSV, MyRocks.
const OF_DATA: [&str; 13] =
    ["ibd", "ibz", "myd", "myi", "mad", "mai", "arz", "arm", "csv", "csm", "sst", "blob", "mrg"];

/// Where the server keeps its files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// The data directory.
    pub(super) data: String,
    /// Binary and relay logs: the kind, and the path without number.
    pub(super) logs: Vec<(FileKind, String)>,
    /// Other folders with files of the server's among those of others.
    pub(super) folders: Vec<String>,
    /// Error log, slow log, general log.
    texts: Vec<String>,
    /// Files of the system tablespace under names of the user's.
    system: Vec<String>,
}

impl Places {
    /// As the server's variables say; None where they name no data directory.
    pub fn from_variables(variables: &NamedValues) -> Option<Self> {
        let data = joined("", variables.text("datadir").filter(|data| !data.is_empty())?);
        let text = |name: &str| variables.text(name).filter(|text| !text.is_empty());
        let path = |name: &str| text(name).map(|path| joined(&data, path));
        let mut places = Self { data: data.clone(), ..Self::default() };
        for (kind, name) in [(FileKind::Binlog, "log_bin_basename"), (FileKind::Relay, "relay_log_basename")]
        {
            places.logs.extend(path(name).map(|base| (kind, base)));
        }
        let folders = [
            "innodb_log_group_home_dir",
            "innodb_undo_directory",
            "innodb_data_home_dir",
            "innodb_temp_tablespaces_dir",
            "innodb_doublewrite_dir",
            "aria_log_dir_path",
        ];
        places.folders.extend(folders.iter().filter_map(|name| path(name)));
        let more =
            text("innodb_directories").unwrap_or_default().split(';').filter(|folder| !folder.is_empty());
        places.folders.extend(more.map(|folder| joined(&data, folder)));
        places.folders.extend(places.logs.iter().map(|(_, base)| folder_of(base).to_owned()));
        // Since 8.0.30 the redo log has a folder of its own below the one that is named.
        places.folders.push(joined(&path("innodb_log_group_home_dir").unwrap_or(data.clone()), REDO_FOLDER));
        places.folders.retain(|folder| *folder != data);
        places.folders.sort();
        places.folders.dedup();
        places
            .texts
            .extend(["log_error", "slow_query_log_file", "general_log_file"].into_iter().filter_map(path));
        let home = path("innodb_data_home_dir").unwrap_or(data);
        // ibdata1:12M;/disk2/ibdata2:50M:autoextend
        let system = text("innodb_data_file_path").unwrap_or_default().split(';');
        let system =
            system.filter_map(|file| file.split(':').next().map(str::trim).filter(|name| !name.is_empty()));
        places.system.extend(system.map(|file| joined(&home, file)));
        Some(places)
    }

    /// As the process shows without being asked: its working directory, which is its data directory, and the descriptors
    /// of its logs and their indexes.
    ///
    /// # Errors
    /// The process is gone, or another user's.
    pub fn seen(target: &Target) -> Result<Self, Unavailable> {
        let link = target.process("cwd");
        let data = std::fs::read_link(&link).map_err(|error| kernel_file::because(&link, &error))?;
        let mut places = Self { data: joined("", &data.to_string_lossy()), ..Self::default() };
        for link in descriptors::links(target)? {
            places.notice(&link.path);
        }
        Ok(places)
    }

    /// Adds the places that an open file shows.
    fn notice(&mut self, path: &str) {
        if let Some(base) = path.strip_suffix(".index") {
            let is_relay = name_of(base).contains("relay");
            let log = (if is_relay { FileKind::Relay } else { FileKind::Binlog }, base.to_owned());
            if !self.logs.contains(&log) {
                self.add_folder(folder_of(base));
                self.logs.push(log);
            }
        } else if by_name(path) == FileKind::Redo {
            self.add_folder(folder_of(path));
        }
    }

    fn add_folder(&mut self, folder: &str) {
        if folder != self.data && !self.folders.iter().any(|known| known == folder) {
            self.folders.push(folder.to_owned());
        }
    }

    /// The data directory.
    pub fn data_directory(&self) -> &str {
        &self.data
    }

    /// What a file is for.
    pub fn kind(&self, path: &str) -> FileKind {
        let is_of = |(kind, base): &&(FileKind, String)| is_log_of(*kind, base, path);
        if let Some((kind, _)) = self.logs.iter().find(is_of) {
            return *kind;
        }
        if self.texts.iter().any(|text| text == path) {
            return FileKind::TextLog;
        }
        if self.system.iter().any(|file| file == path) {
            return FileKind::Data;
        }
        by_name(path)
    }
}

/// The folder of MySQL's redo log since 8.0.30.
pub(super) const REDO_FOLDER: &str = "#innodb_redo";

/// `binlog.000012`, `db17-relay-bin.000003`, and with a channel's name `db17-relay-bin-east.000003`.
fn is_log_of(kind: FileKind, base: &str, path: &str) -> bool {
    let Some((before, number)) = path.strip_prefix(base).and_then(|rest| rest.rsplit_once('.')) else {
        return false;
    };
    is_log_number(number)
        && (before.is_empty() || kind == FileKind::Relay && before.starts_with('-') && !before.contains('/'))
}

/// True for names that a log may have: all that is known of a file whose folder goes by another name.
pub(super) fn may_be_log(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, number)| is_log_number(number)) || by_name(path) == FileKind::Redo
}

/// `000012`
fn is_log_number(text: &str) -> bool {
    text.len() >= 6 && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// What a file is for, by its own name and that of its folder.
fn by_name(path: &str) -> FileKind {
    let (folder, name) = (name_of(folder_of(path)), name_of(path));
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_one_of = |all: &[&str]| all.iter().any(|one| extension.eq_ignore_ascii_case(one));
    if folder == REDO_FOLDER && name.starts_with("#ib_redo")
        || is_numbered(name, "ib_logfile")
        || is_numbered(name, "aria_log.")
    {
        FileKind::Redo
    } else if is_numbered(name, "undo_") || is_numbered(name, "undo") || is_one_of(&["ibu"]) {
        FileKind::Undo
    } else if is_one_of(&["dblwr", "bdblwr"]) || name == "xb_doublewrite" {
        FileKind::Doublewrite
    } else if folder == "#innodb_temp" || is_numbered(name, "ibtmp") || name.starts_with("#sql") {
        FileKind::Temporary
    } else if is_numbered(name, "ibdata") || is_one_of(&OF_DATA) {
        FileKind::Data
    } else if is_one_of(&["err"]) {
        FileKind::TextLog
    } else {
        FileKind::Other
    }
}

/// `undo_001`, `ib_logfile0`
fn is_numbered(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The part of a path before its last slash.
pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The part of a path behind its last slash.
pub(super) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// A path as the server means it, relative ones below a folder, without `.`, double and closing slashes.
pub(super) fn joined(folder: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let parts = whole.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.fold(String::new(), |path, part| format!("{path}/{part}"))
}

/// True where a path lies in a folder or below it.
pub(super) fn is_below(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Places {
        Places::from_variables(&NamedValues::from_iter(variables.iter().copied())).unwrap()
    }

    /// MySQL 9.7 as Debian has it.
    fn mysql() -> Places {
        places(&[
            ("datadir", "/var/lib/mysql/"),
            ("log_bin_basename", "/logs/binlog"),
            ("relay_log_basename", "/var/lib/mysql/db17-relay-bin"),
            ("innodb_log_group_home_dir", "./"),
            ("innodb_undo_directory", "./"),
            ("innodb_data_home_dir", ""),
            ("innodb_data_file_path", "ibdata1:12M;/disk2/system:50M:autoextend"),
            ("innodb_temp_tablespaces_dir", "./#innodb_temp/"),
            ("log_error", "./db17.err"),
            ("slow_query_log_file", "/var/log/mysql/slow.log"),
        ])
    }

    #[test]
    fn every_file_of_a_mysql_9_7_is_shown_by_its_place_and_name() {
        let places = mysql();
        for (path, kind) in [
            ("/var/lib/mysql/ibdata1", FileKind::Data),
            ("/disk2/system", FileKind::Data),
            ("/var/lib/mysql/mysql.ibd", FileKind::Data),
            ("/var/lib/mysql/shop/orders#p#p0.ibd", FileKind::Data),
            ("/var/lib/mysql/shop/old.MYD", FileKind::Data),
            ("/var/lib/mysql/undo_001", FileKind::Undo),
            ("/var/lib/mysql/more.ibu", FileKind::Undo),
            ("/var/lib/mysql/#innodb_redo/#ib_redo12", FileKind::Redo),
            ("/var/lib/mysql/#innodb_redo/#ib_redo13_tmp", FileKind::Redo),
            ("/var/lib/mysql/#ib_16384_0.dblwr", FileKind::Doublewrite),
            ("/var/lib/mysql/#ib_16384_1.bdblwr", FileKind::Doublewrite),
            ("/var/lib/mysql/#innodb_temp/temp_3.ibt", FileKind::Temporary),
            ("/var/lib/mysql/ibtmp1", FileKind::Temporary),
            ("/var/lib/mysql/shop/#sql-1a2b_c.ibd", FileKind::Temporary),
            ("/logs/binlog.000012", FileKind::Binlog),
            ("/logs/binlog.1000012", FileKind::Binlog),
            ("/logs/binlog.index", FileKind::Other),
            ("/logs/binlog-other.000012", FileKind::Other),
            ("/var/lib/mysql/db17-relay-bin.000003", FileKind::Relay),
            ("/var/lib/mysql/db17-relay-bin-east.000003", FileKind::Relay),
            ("/var/lib/mysql/db17.err", FileKind::TextLog),
            ("/var/log/mysql/slow.log", FileKind::TextLog),
            ("/var/lib/mysql/auto.cnf", FileKind::Other),
            ("/var/lib/mysql/ib_buffer_pool", FileKind::Other),
        ] {
            assert_eq!(places.kind(path), kind, "{path}");
        }
        assert_eq!(places.data_directory(), "/var/lib/mysql");
        assert_eq!(places.folders, ["/logs", "/var/lib/mysql/#innodb_redo", "/var/lib/mysql/#innodb_temp"]);
    }

    #[test]
    fn every_file_of_a_mariadb_10_11_is_shown_by_its_place_and_name() {
        let places = places(&[
            ("datadir", "/data/"),
            ("log_bin_basename", "/data/mysql-bin"),
            ("relay_log_basename", ""),
            ("innodb_log_group_home_dir", "/redo/"),
            ("innodb_undo_directory", "./"),
            ("aria_log_dir_path", "/data/"),
        ]);
        for (path, kind) in [
            ("/redo/ib_logfile0", FileKind::Redo),
            ("/data/aria_log.00000001", FileKind::Redo),
            ("/data/aria_log_control", FileKind::Other),
            ("/data/undo001", FileKind::Undo),
            ("/data/mysql/user.MAD", FileKind::Data),
            ("/data/mysql-bin.000001", FileKind::Binlog),
            ("/data/mysql-bin.state", FileKind::Other),
            ("/data/ibtmp1", FileKind::Temporary),
        ] {
            assert_eq!(places.kind(path), kind, "{path}");
        }
    }

    #[test]
    fn a_server_without_a_data_directory_has_no_places() {
        assert_eq!(Places::from_variables(&NamedValues::default()), None);
    }

    #[test]
    fn what_a_process_has_open_shows_where_its_logs_are() {
        let mut places = Places { data: "/data".into(), ..Places::default() };
        for path in [
            "/data/binlog.index",
            "/logs/db17-relay-bin.index",
            "/redo/#innodb_redo/#ib_redo3",
            "/data/x.ibd",
        ] {
            places.notice(path);
        }
        assert_eq!(places.folders, ["/logs", "/redo/#innodb_redo"]);
        assert_eq!(places.kind("/data/binlog.000001"), FileKind::Binlog);
        assert_eq!(places.kind("/logs/db17-relay-bin.000001"), FileKind::Relay);
    }

    #[test]
    fn a_log_may_be_one_whatever_its_folder_is_called() {
        for path in ["/disk2/mysql/binlog.000012", "/x/#innodb_redo/#ib_redo3", "/x/ib_logfile0"] {
            assert!(may_be_log(path), "{path}");
        }
        for path in ["/x/binlog.index", "/x/orders.ibd", "/x/notes.12"] {
            assert!(!may_be_log(path), "{path}");
        }
    }

    #[test]
    fn paths_are_joined_as_the_server_means_them() {
        assert_eq!(joined("/data", "./"), "/data");
        assert_eq!(joined("/data", "./#innodb_temp/"), "/data/#innodb_temp");
        assert_eq!(joined("/data", "//other///x/"), "/other/x");
        assert_eq!(joined("", "/"), "");
    }
}
