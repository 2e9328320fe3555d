//! The server's view of its files: where they are, who still reads which log, the checkpoint, and the traffic to and
//! from each kind of file.
//!
//! In: a session. Out: [`FileFacts`] and [`Traffic`], each part with the reason where it could not be had.

use std::collections::BTreeMap;

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::page_cache::FileKind;
use spindoctor_model::{ServerVersion, Unavailable};

use crate::host::page_cache::VARIABLES;
use crate::mysql::{QueryError, Rows, Session};

/// What the server says of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct FileFacts {
    /// The variables of [`VARIABLES`], and the buffer pool's size.
    pub variables: NamedValues,
    /// Replicas that are connected and read the binary log.
    pub dump_threads: Option<u64>,
    /// How far each channel has applied its relay log.
    pub relay: Result<Vec<RelayPosition>, Unavailable>,
    /// The redo log's files, where the server lists them (MySQL 8.0.30).
    pub redo: Result<Vec<RedoFile>, Unavailable>,
    /// Up to where all pages are written: what lies before is not needed after a crash.
    pub checkpoint_lsn: Option<u64>,
}

/// Where a channel's applier stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelayPosition {
    /// The channel; empty for the only one.
    pub channel: String,
    /// The relay log that it applies, without folder.
    pub file: String,
}

/// One file of the redo log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedoFile {
    /// `#ib_redo12`, without folder.
    pub name: String,
    /// The first LSN in it.
    pub start_lsn: u64,
    /// The LSN behind the last that it has room for.
    pub end_lsn: u64,
}

/// Asks.
///
/// Cost: four or five statements: variables and status counters from memory, about 1 ms each, a row for each thread
/// (performance_schema, without a lock; MariaDB's process list takes a short lock for each), a row for each channel.
///
/// # Errors
/// The session broke.
pub async fn ask(session: &mut Session) -> Result<FileFacts, QueryError> {
    let version = session.version();
    let names: Vec<String> =
        VARIABLES.iter().chain(&["innodb_buffer_pool_size"]).map(|name| format!("'{name}'")).collect();
    let rows = session
        .query(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", ")))
        .await?;
    let variables = named(&rows);
    let dump_threads = dump_threads(session, version).await?;
    let relay = tolerant(session.query(replica_status(version)).await)?
        .map(|rows| relay_positions(&rows))
        .map_err(|why| why.unlock(replica_grant(version)));
    let (mut redo, mut checkpoint_lsn) = (
        Err(Unavailable::because("this server does not say which part of the redo log is in which file")),
        None,
    );
    if version.is_some_and(|version| version.mysql_at_least(8, 0, 30)) {
        let status = session.query("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_checkpoint_lsn'").await?;
        checkpoint_lsn =
            named(&status).text("innodb_redo_log_checkpoint_lsn").and_then(|lsn| lsn.parse().ok());
        redo = tolerant(session.query(REDO_FILES).await)?.map(|rows| redo_files(&rows));
    }
    Ok(FileFacts { variables, dump_threads, relay, redo, checkpoint_lsn })
}

const REDO_FILES: &str = "SELECT FILE_NAME, START_LSN, END_LSN FROM performance_schema.innodb_redo_log_files";

fn named(rows: &Rows) -> NamedValues {
    rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1)?))).collect()
}

/// A refusal is an answer; a broken session is none.
fn tolerant(answer: Result<Rows, QueryError>) -> Result<Result<Rows, Unavailable>, QueryError> {
    match answer {
        Ok(rows) => Ok(Ok(rows)),
        Err(error) if error.breaks_session() => Err(error),
        Err(error) => Ok(Err(error.into_unavailable(""))),
    }
}

/// How many replicas are fed; None where the server does not say.
async fn dump_threads(
    session: &mut Session,
    version: Option<ServerVersion>,
) -> Result<Option<u64>, QueryError> {
    let mut places = vec![("information_schema.PROCESSLIST", "COMMAND")];
    if version.is_some_and(|version| version.mysql_at_least(5, 6, 0)) {
        places.insert(0, ("performance_schema.threads", "PROCESSLIST_COMMAND"));
    }
    for (table, column) in places {
        let question = format!("SELECT COUNT(*) FROM {table} WHERE {column} LIKE 'Binlog Dump%'");
        if let Ok(rows) = tolerant(session.query(&question).await)? {
            return Ok(rows.first().and_then(|row| row.at(0)?.parse().ok()));
        }
    }
    Ok(None)
}

fn replica_status(version: Option<ServerVersion>) -> &'static str {
    match version {
        Some(version) if version.mariadb_at_least(10, 0, 0) => "SHOW ALL SLAVES STATUS",
        Some(version) if version.mysql_at_least(8, 0, 22) => "SHOW REPLICA STATUS",
        _ => "SHOW SLAVE STATUS",
    }
}

fn replica_grant(version: Option<ServerVersion>) -> &'static str {
    match version {
        Some(version) if version.mariadb_at_least(10, 5, 9) => "GRANT SLAVE MONITOR ON *.*",
        _ => "GRANT REPLICATION CLIENT ON *.*",
    }
}

/// `Relay_Log_File` is called so by all: up to where each transaction is applied, also by appliers with many workers.
fn relay_positions(rows: &Rows) -> Vec<RelayPosition> {
    rows.iter()
        .map(|row| RelayPosition {
            channel: row
                .text("Channel_Name")
                .or_else(|| row.text("Connection_name"))
                .unwrap_or_default()
                .to_owned(),
            file: row.string("Relay_Log_File"),
        })
        .collect()
}

/// `./#innodb_redo/#ib_redo12 | 24576 | 3301376`
fn redo_files(rows: &Rows) -> Vec<RedoFile> {
    rows.iter()
        .filter_map(|row| {
            let name = row.text("FILE_NAME")?;
            Some(RedoFile {
                name: name.rsplit_once('/').map_or(name, |(_, name)| name).to_owned(),
                start_lsn: row.number("START_LSN")?,
                end_lsn: row.number("END_LSN")?,
            })
        })
        .collect()
}

/// What went to and from files so far, bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Read and written, by kind.
    pub of: BTreeMap<FileKind, (Option<u64>, Option<u64>)>,
    /// The source of the counters: `performance_schema.file_summary_by_event_name`.
    pub source: &'static str,
}

/// Reads the counters of what goes to and from files.
///
/// Cost: MySQL adds up some 60 kinds of files without a lock; MariaDB, where performance_schema is off, some 600 status
/// counters, about 1 ms.
///
/// # Errors
/// The session broke.
pub async fn traffic(session: &mut Session) -> Result<Traffic, QueryError> {
    const FILES: &str = "SELECT EVENT_NAME, SUM_NUMBER_OF_BYTES_READ, SUM_NUMBER_OF_BYTES_WRITE \
                         FROM performance_schema.file_summary_by_event_name WHERE COUNT_STAR > 0";
    const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_data_read', 'Innodb_page_size', \
                          'Innodb_pages_written', 'Innodb_dblwr_pages_written', 'Innodb_os_log_written')";
    if let Ok(rows) = tolerant(session.query(FILES).await)?
        && !rows.is_empty()
    {
        return Ok(of_files(&rows));
    }
    Ok(match tolerant(session.query(STATUS).await)? {
        Ok(rows) => of_status(&named(&rows)),
        Err(_) => Traffic::default(),
    })
}

fn of_files(rows: &Rows) -> Traffic {
    let mut traffic =
        Traffic { source: "performance_schema.file_summary_by_event_name", ..Traffic::default() };
    for row in rows.iter() {
        let Some(kind) = row.text("EVENT_NAME").and_then(kind_of_event) else { continue };
        let (read, written) = traffic.of.entry(kind).or_insert((Some(0), Some(0)));
        for (sum, column) in [(read, "SUM_NUMBER_OF_BYTES_READ"), (written, "SUM_NUMBER_OF_BYTES_WRITE")] {
            *sum = sum.zip(row.number::<u64>(column)).map(|(sum, bytes)| sum.saturating_add(bytes));
        }
    }
    traffic
}

/// The instruments of MySQL 5.6 to 9.7 and MariaDB 10 whose files are of a kind.
fn kind_of_event(event: &str) -> Option<FileKind> {
    Some(match event.strip_prefix("wait/io/file/")? {
        "innodb/innodb_data_file"
        | "myisam/dfile"
        | "myisam/kfile"
        | "aria/MAI"
        | "aria/MAD"
        | "csv/data" => FileKind::Data,
        "innodb/innodb_log_file" | "aria/translog" => FileKind::Redo,
        "innodb/innodb_dblwr_file" => FileKind::Doublewrite,
        "innodb/innodb_temp_file" | "sql/io_cache" | "mysys/io_cache" | "sql/hash_join" => {
            FileKind::Temporary
        }
        "sql/binlog" => FileKind::Binlog,
        "sql/relaylog" => FileKind::Relay,
        "sql/ERRMSG" | "sql/slow_log" | "sql/query_log" | "sql/file_parser" => FileKind::TextLog,
        _ => return None,
    })
}

fn of_status(status: &NamedValues) -> Traffic {
    let number = |name| status.text(name).and_then(|text| text.parse::<u64>().ok());
    let pages = |name| Some(number(name)?.saturating_mul(number("innodb_page_size")?));
    let of = [
        (FileKind::Data, (number("innodb_data_read"), pages("innodb_pages_written"))),
        (FileKind::Doublewrite, (None, pages("innodb_dblwr_pages_written"))),
        (FileKind::Redo, (None, number("innodb_os_log_written"))),
    ];
    Traffic { of: of.into(), source: "SHOW GLOBAL STATUS" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Rows {
        let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
        let columns = lines.next().unwrap();
        Rows::new(columns, lines.map(|cells| cells.into_iter().map(Some).collect()).collect())
    }

    #[test]
    fn files_of_the_redo_log_lose_their_folder() {
        let files = redo_files(&rows(
            "FILE_NAME\tSTART_LSN\tEND_LSN\n./#innodb_redo/#ib_redo12\t24576\t3301376\n./#innodb_redo/#ib_redo13\tx\t1\n",
        ));
        assert_eq!(files, [RedoFile { name: "#ib_redo12".into(), start_lsn: 24_576, end_lsn: 3_301_376 }]);
    }

    #[test]
    fn each_channel_shows_its_relay_log_in_both_vocabularies() {
        let mysql =
            relay_positions(&rows("Channel_Name\tRelay_Log_File\neast\tdb17-relay-bin-east.000003\n"));
        assert_eq!(
            (mysql[0].channel.as_str(), mysql[0].file.as_str()),
            ("east", "db17-relay-bin-east.000003")
        );
        let mariadb = relay_positions(&rows("Connection_name\tRelay_Log_File\n\tdb17-relay-bin.000001\n"));
        assert_eq!((mariadb[0].channel.as_str(), mariadb[0].file.as_str()), ("", "db17-relay-bin.000001"));
    }

    #[test]
    fn events_are_added_up_by_the_kind_of_their_files() {
        let traffic = of_files(&rows(
            "EVENT_NAME\tSUM_NUMBER_OF_BYTES_READ\tSUM_NUMBER_OF_BYTES_WRITE\n\
             wait/io/file/innodb/innodb_data_file\t100\t200\nwait/io/file/myisam/dfile\t1\t2\n\
             wait/io/file/sql/binlog\t0\t30\nwait/io/file/sql/pid\t9\t9\n",
        ));
        assert_eq!(traffic.of[&FileKind::Data], (Some(101), Some(202)));
        assert_eq!(traffic.of[&FileKind::Binlog], (Some(0), Some(30)));
        assert_eq!(traffic.of.len(), 2);
    }

    #[test]
    fn without_performance_schema_innodb_counts_its_own() {
        let status = [
            ("Innodb_data_read", "4096"),
            ("Innodb_page_size", "16384"),
            ("Innodb_pages_written", "2"),
            ("Innodb_os_log_written", "512"),
        ];
        let traffic = of_status(&status.into_iter().collect());
        assert_eq!(traffic.of[&FileKind::Data], (Some(4_096), Some(32_768)));
        assert_eq!(traffic.of[&FileKind::Doublewrite], (None, None));
        assert_eq!(traffic.of[&FileKind::Redo], (None, Some(512)));
    }
}
