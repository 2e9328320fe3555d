//! Files of a server and of a backup that are damaged, missing or do not belong together: what their lines mean, and how they are
//! recognised.

use super::goes_on;

/// What lines about damaged pages mean.
pub(super) const DAMAGED: &str = "a page of a data file is damaged";

/// How InnoDB ends where it found its files damaged, in lower case, and what that means: lines above it may say that the redo log is what it
/// could not use.
pub(super) const FILES_DAMAGED: &str = "error data structure corruption";
pub(super) const DAMAGED_FILES: &str =
    "InnoDB ended because it found a file damaged: the lines above that say which";

/// Stands for what InnoDB says of a damaged page. While it recovers it says `page corruption or a failed file read of page ... Trying to recover
/// it from the doublewrite buffer`: where that fails another line says so.
pub(super) const PAGE_CORRUPTION: &str = "database page corruption";

pub(super) fn is_page_corruption(lower: &str) -> bool {
    const ATTEMPT: &str = " or a failed";
    let rest = lower.split_once(PAGE_CORRUPTION).map(|(_, rest)| rest);
    rest.is_some_and(|rest| !rest.starts_with(ATTEMPT))
}

pub(super) const FILE_EXISTS: &str = "a file is there already where one was to be made (error 17): the folder is not empty, as after a \
                                      transfer or a restore that was broken off";

pub(super) const KEYS_MISSING: &str = "the keys of encrypted data are not there: the keyring (its component and file, or the key file of \
                                       file_key_management) has to be the one with which they were written, and the server has to be able to \
                                       read it. Without its keys nobody can read the data";

pub(crate) const TABLE_FILE_MISSING: &str =
    "a table's file is missing or cannot be opened: what uses the table fails (error 1812)";

/// What lines about InnoDB's files mean that do not belong together.
pub(super) const NEWER_PAGES: &str = "pages are newer than the redo log: it was deleted, or data files were copied without it. What else \
                                      they lack nobody knows: load a dump or a backup into a new data folder";
pub(crate) const REDO_UNUSABLE: &str = "the server does not start: its redo log is damaged, or is not the one of its data files. Bring \
                                        back the files of one backup; where there is none, innodb_force_recovery = 6 starts it for a dump, \
                                        without what that log has";
pub(super) const REDO_SIZE: &str = "innodb_log_file_size is not the size of the redo log's files: give it their size, shut the server \
                                    down in order, and then change it";
pub(super) const DATA_SIZE: &str = "innodb_data_file_path does not have the size of InnoDB's data file (ibdata1): correct it; \
                                    the line names both sizes";
pub(super) const SAME_NUMBER: &str = "two files of tables have one tablespace number: one was copied from elsewhere. Move that one away, \
                                      and take its rows from a dump, or by ALTER TABLE ... IMPORT TABLESPACE";
pub(super) const OVERTAKEN: &str = "a backup read the redo log too slowly: the server had written over what it needed. A larger redo log, \
                                    or a faster place for the backup";

/// Stands for what xtrabackup says of a file that is not there.
pub(super) const BACKUP_FILE: &str = "a backup misses a file";
pub(super) const BACKUP_MISSES: &str = "a backup did not find a file that the server names: it was removed meanwhile, as a binary log \
                                        that is purged, or this host or container has no such path";

/// What InnoDB says where the system refused it a file operation.
pub(super) const FOLDER_FOR_FILE: &str = "InnoDB found a folder where a file should be, or opened one (error 21 of the system): folders \
                                          that do not belong into the data folder have to go out of it";
pub(super) const NO_SUCH_FILE: &str =
    "InnoDB did not find a file or a folder (error 2 of the system); the lines beside that name it";
pub(super) const NOT_EXTENDED: &str = "InnoDB could not make a data file larger: the line names the file and the error of the system (2: \
                                       it was removed meanwhile; 27: too large for the file system; 95: the file system cannot reserve \
                                       room)";
pub(crate) const NO_UNDO_LOG: &str = "InnoDB could not give a transaction its undo log: no slot was free, or (DB Error 14) \
                                      the undo tablespace had no room";

pub(crate) const SYSTEM_TABLES: &str = "system tables (schema mysql) are damaged, or those of another version: mysql_upgrade or \
                                        mariadb-upgrade (MySQL from 8.0.16 on: a start with --upgrade=FORCE) mends those of another \
                                        version, myisamchk or aria_chk while the server is stopped damaged ones";

/// Stands for what a server says of them.
pub(super) const OF_SYSTEM_TABLES: &str = "system tables are damaged";

pub(crate) const TABLE_CRASHED: &str = "a table is marked as crashed";
pub(super) const EMPTY_DATA: &str = "InnoDB's data file (ibdata1) is empty: the system did not let it grow (a share or a folder of \
                                     another host that is mounted into a container, a full disk), or an earlier start was ended while it \
                                     made it. Where there were never data: empty the data folder, and begin again in one that can be \
                                     written";
pub(super) const LOG_NOT_MADE: &str = "InnoDB could not give a file of its redo log its size: the disk is full, or the folder is a share \
                                       or one of another host that is mounted into a container";
pub(super) const NOT_OWNED: &str = "the server may not change the owner or the rights of its files, as on a share or a folder of another \
                                    host that is mounted";
pub(super) const REDO_BLOCK: &str = "a block of the redo log is not what was written: what reads it there, as a recovery, a backup or \
                                     the tracking of changed pages, ends";
pub(super) const REDO_GONE: &str = "a backup could not read the redo log to its end: a line above names the file. Where that is gone, \
                                    the server had removed it before the backup came to it: a larger redo log, or a faster place for the \
                                    backup";
pub(super) const SHORT_FILE: &str =
    "a data file ends before a page that is read from it: it was cut, or copied while a server wrote it";
pub(super) const NOT_IN_DICTIONARY: &str = "InnoDB does not know tables of which the folders have files (.frm): ibdata1 is not the one \
                                            of these folders, as where the folders alone were copied, or a DROP was broken off. The data \
                                            come back with the ibdata1 and the redo log of that server, or from a dump";

/// True for the last line of an InnoDB that found its files damaged: of a redo log that it cannot use it says so, too.
pub(crate) fn is_end_by_damage(line: &str) -> bool {
    line.to_ascii_lowercase().contains(FILES_DAMAGED)
}

/// How lines about system tables begin and go on, in lower case (sql/mysqld.cc, sql_acl.cc, table.cc and the messages of the storage
/// engines). That they are not there is another matter.
const SYSTEM_TABLE_ERRORS: [(&str, &str); 13] = [
    ("can't open and lock privilege tables: ", "is corrupt"),
    ("can't open and lock privilege tables: ", "incorrect file format"),
    ("can't open and lock privilege tables: ", "marked as crashed"),
    ("can't open and lock privilege tables: ", "incorrect information in file"),
    ("can't open and lock privilege tables: ", "incorrect key file"),
    ("can't open and lock privilege tables: ", "tablespace is missing"),
    ("cannot load from mysql.", "is probably corrupted"),
    ("missing system table mysql.", ""),
    ("column count of mysql.", " is wrong"),
    ("'./mysql/", "is marked as crashed"),
    ("'.\\mysql\\", "is marked as crashed"),
    ("incorrect information in file: './mysql/", ""),
    ("incorrect file format './mysql/", ""),
];

pub(super) fn is_of_system_tables(lower: &str) -> bool {
    SYSTEM_TABLE_ERRORS.iter().any(|(begin, then)| goes_on(lower, begin, then))
}

/// `[Xtrabackup] File '/data/b.000002' not found (OS errno 2 - No such file or directory)`, and the line below that.
pub(super) fn is_of_backup_file(lower: &str) -> bool {
    goes_on(lower, "[xtrabackup] file '", "not found (os errno 2 ")
        || goes_on(lower, "[xtrabackup] ", "failed to open the source file")
}
