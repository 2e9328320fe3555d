//! The effect of the server's settings on its files in the page cache, by version, and its descriptors as evidence.
//! Pure.

use serde::Serialize;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::page_cache::{CachedFile, FileKind};
use spindoctor_model::{Flavor, ServerVersion};

/// How the server opened its files of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Opened {
    /// All through the page cache.
    Buffered,
    /// All with O_DIRECT.
    Direct,
    /// Some so, some so.
    Both,
}

impl Opened {
    /// The word for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "O_DIRECT",
            Self::Both => "both",
        }
    }
}

/// How the server opened its files of a kind; None where it has none open, or none was looked at.
pub fn opened(files: &[CachedFile], kind: FileKind) -> Option<Opened> {
    let of_kind = files.iter().filter(|file| file.kind == kind).flat_map(|file| &file.open);
    of_kind.fold(None, |so_far, descriptor| {
        let this = if descriptor.direct { Opened::Direct } else { Opened::Buffered };
        match so_far {
            None => Some(this),
            Some(same) if same == this => Some(this),
            Some(_) => Some(Opened::Both),
        }
    })
}

/// A setting with what it means here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// `innodb_flush_method = O_DIRECT`
    pub setting: String,
    /// What it means for the page cache.
    pub means: String,
}

/// A sentence for each setting that decides what is cached.
pub fn explain(
    version: Option<ServerVersion>,
    variables: &NamedValues,
    files: &[CachedFile],
) -> Vec<Setting> {
    let Some(version) = version else { return Vec::new() };
    [data(version, variables, files), redo(version, variables, files), binlog(files)]
        .into_iter()
        .flatten()
        .collect()
}

/// Data, undo and doublewrite files.
fn data(version: ServerVersion, variables: &NamedValues, files: &[CachedFile]) -> Option<Setting> {
    let method = variables.text("innodb_flush_method").unwrap_or_default();
    // MariaDB 11.0 says it with a switch.
    let is_buffered = variables.switch("innodb_data_file_buffering");
    let setting = match is_buffered {
        Some(on) => format!("innodb_data_file_buffering = {}", if on { "ON" } else { "OFF" }),
        None if method.is_empty() => "innodb_flush_method is not set".to_owned(),
        None => format!("innodb_flush_method = {method}"),
    };
    let is_direct = match is_buffered {
        Some(on) => !on,
        None => method.to_ascii_uppercase().contains("O_DIRECT"),
    };
    let seen = opened(files, FileKind::Data);
    let means = match (is_direct, seen) {
        (true, Some(Opened::Buffered)) => "the server asks for O_DIRECT and its data files are open without: their file \
                                           system does not have it, or they were opened before it was set"
            .to_owned(),
        (true, _) => "data, undo and doublewrite files go around the page cache: the buffer pool is their only copy in \
                      memory. Tables of other engines than InnoDB stay buffered"
            .to_owned(),
        (false, _) => format!(
            "data files go through the page cache: a page may be in memory twice, there and in the buffer pool. O_DIRECT \
             ends that{}",
            match version.flavor {
                Flavor::Mariadb => " (the default since 10.6; a restart)",
                _ => " (the default since 8.4; a restart)",
            }
        ),
    };
    Some(Setting { setting, means })
}

/// The redo log.
fn redo(version: ServerVersion, variables: &NamedValues, files: &[CachedFile]) -> Option<Setting> {
    let seen = opened(files, FileKind::Redo);
    if version.is_mariadb() {
        let Some(is_buffered) = variables.switch("innodb_log_file_buffering") else {
            return Some(Setting {
                setting: format!("{version} has no innodb_log_file_buffering"),
                means: "the redo log goes through the page cache; from 10.8.4 on it can go around it"
                    .to_owned(),
            });
        };
        let means = match (is_buffered, seen) {
            (true, _) => {
                "the redo log goes through the page cache, and nobody reads it there. SET GLOBAL \
                          innodb_log_file_buffering = OFF takes it out while the server runs"
            }
            (false, Some(Opened::Buffered)) => {
                "the redo log is to go around the page cache and does not: its file system \
                                                does not say how large its blocks are, or the log is in memory"
            }
            (false, _) => "the redo log goes around the page cache where its file system lets it",
        };
        let setting = format!("innodb_log_file_buffering = {}", if is_buffered { "ON" } else { "OFF" });
        return Some(Setting { setting, means: means.to_owned() });
    }
    let is_all_direct = variables
        .text("innodb_flush_method")
        .is_some_and(|method| method.eq_ignore_ascii_case("ALL_O_DIRECT"));
    let (setting, means) = match (version.flavor, is_all_direct) {
        (_, true) => ("innodb_flush_method = ALL_O_DIRECT", "the redo log goes around the page cache, too"),
        (Flavor::Percona, false) => (
            "the redo log",
            "goes through the page cache whatever innodb_flush_method says, but ALL_O_DIRECT (a restart)",
        ),
        _ => (
            "the redo log",
            "goes through the page cache whatever innodb_flush_method says; --evict logs takes out what lies behind the \
             checkpoint",
        ),
    };
    Some(Setting { setting: setting.to_owned(), means: means.to_owned() })
}

/// Binary and relay logs.
fn binlog(files: &[CachedFile]) -> Option<Setting> {
    let has_logs = files.iter().any(|file| matches!(file.kind, FileKind::Binlog | FileKind::Relay));
    has_logs.then(|| Setting {
        setting: "binary and relay logs".to_owned(),
        means: "go through the page cache on every server, from which replicas and appliers read them while they are new. No \
                setting takes them out when they are old"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::page_cache::Descriptor;

    use super::*;

    fn open(kind: FileKind, direct: bool) -> CachedFile {
        let descriptor = Descriptor { direct, ..Descriptor::default() };
        CachedFile { kind, open: vec![descriptor], ..CachedFile::default() }
    }

    fn sentences(
        version: &str,
        comment: &str,
        variables: &[(&str, &str)],
        files: &[CachedFile],
    ) -> Vec<String> {
        let variables = variables.iter().copied().collect();
        explain(ServerVersion::parse(version, comment), &variables, files)
            .into_iter()
            .map(|setting| format!("{}: {}", setting.setting, setting.means))
            .collect()
    }

    #[test]
    fn how_files_were_opened_is_seen_in_their_descriptors() {
        let files = [open(FileKind::Data, true), open(FileKind::Redo, false), open(FileKind::Data, true)];
        assert_eq!(opened(&files, FileKind::Data), Some(Opened::Direct));
        assert_eq!(opened(&files, FileKind::Redo), Some(Opened::Buffered));
        assert_eq!(opened(&files, FileKind::Undo), None);
        assert_eq!(
            opened(&[open(FileKind::Data, true), open(FileKind::Data, false)], FileKind::Data),
            Some(Opened::Both)
        );
    }

    #[test]
    fn mysql_8_0_buffers_its_data_and_9_7_its_redo_log() {
        let old = sentences("8.0.36", "", &[("innodb_flush_method", "fsync")], &[]);
        assert!(old[0].contains("in memory twice") && old[0].contains("since 8.4"), "{old:?}");
        let direct = [open(FileKind::Data, true), open(FileKind::Redo, false)];
        let new = sentences("9.7.4", "", &[("innodb_flush_method", "O_DIRECT")], &direct);
        assert!(new[0].contains("go around") && new[1].contains("--evict logs"), "{new:?}");
        let refused =
            sentences("9.7.4", "", &[("innodb_flush_method", "O_DIRECT")], &[open(FileKind::Data, false)]);
        assert!(refused[0].contains("open without"), "{refused:?}");
    }

    #[test]
    fn percona_can_take_its_redo_log_out() {
        let all = sentences("8.0.36-28", "Percona Server", &[("innodb_flush_method", "ALL_O_DIRECT")], &[]);
        assert!(all[1].contains("ALL_O_DIRECT: the redo log goes around"), "{all:?}");
        let some = sentences("8.0.36-28", "Percona Server", &[("innodb_flush_method", "O_DIRECT")], &[]);
        assert!(some[1].contains("but ALL_O_DIRECT"), "{some:?}");
    }

    #[test]
    fn mariadb_has_switches_of_its_own() {
        let ten = sentences(
            "10.11.19-MariaDB",
            "",
            &[("innodb_flush_method", "O_DIRECT"), ("innodb_log_file_buffering", "ON")],
            &[],
        );
        assert!(ten[1].contains("SET GLOBAL innodb_log_file_buffering = OFF"), "{ten:?}");
        let eleven = sentences(
            "11.4.2-MariaDB",
            "",
            &[("innodb_data_file_buffering", "ON"), ("innodb_log_file_buffering", "OFF")],
            &[],
        );
        assert!(
            eleven[0].starts_with("innodb_data_file_buffering = ON: data files go through"),
            "{eleven:?}"
        );
        let old = sentences(
            "10.5.8-MariaDB",
            "",
            &[("innodb_flush_method", "fsync")],
            &[open(FileKind::Binlog, false)],
        );
        assert!(old[1].contains("from 10.8.4 on") && old[2].contains("binary and relay logs"), "{old:?}");
    }
}
