//! What is known of each error by its number: one table for what it says of the server, what the headline says of it, and what mends it.
//!
//! Numbers and names: share/messages_to_clients.txt of MySQL, sql/share/errmsg-utf8.txt of MariaDB.

use spindoctor_model::Remedy;

use super::kinds::Kind;

/// What is known of some errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    numbers: &'static [u32],
    kind: Kind,
    says: &'static str,
    cure: Option<Cure>,
}

/// What mends an error whatever its message names.
#[derive(Debug, Clone, Copy)]
struct Cure {
    statement: &'static str,
    why: &'static str,
    risk: &'static str,
}

impl Known {
    const fn new(kind: Kind, numbers: &'static [u32]) -> Self {
        Self { numbers, kind, says: "", cure: None }
    }

    /// For the headline; without it the kind says enough.
    const fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    const fn cure(self, statement: &'static str, why: &'static str, risk: &'static str) -> Self {
        Self { cure: Some(Cure { statement, why, risk }), ..self }
    }
}

/// A number that stands in no row is [`Kind::Other`].
const KNOWN: &[Known] = &[
    Known::new(Kind::ReadOnly, &[1290]).cure(
        "Look which option the message names: read_only can be set back, secure_file_priv is the only folder for files of LOAD DATA and \
         INTO OUTFILE, skip_grant_tables ends with FLUSH PRIVILEGES",
        "The statement runs once the option allows it.",
        "It only reads; what set the option may have had a reason.",
    ),
    Known::new(Kind::ReadOnly, &[1792]).says("their transaction is read-only").cure(
        "SELECT @@GLOBAL.transaction_read_only (tx_read_only before 8.0 and on MariaDB), and look in the application for START TRANSACTION \
         READ ONLY or setReadOnly(true): write in a transaction that is READ WRITE",
        "The session itself asked for a transaction that takes no writes; pools leave that to the next user of the connection.",
        "Looking is safe.",
    ),
    Known::new(Kind::ReadOnly, &[1836, 3989]),
    Known::new(Kind::Full, &[1021, 1026, 1028, 1030, 1034, 1037, 1041, 1114, 3675]),
    Known::new(Kind::Other, &[1194, 1195]).says("a table is marked as crashed").cure(
        "CHECK TABLE of the table that the message names; copy its files away (.MYI and .MYD; Aria: .MAI and .MAD), and then REPAIR TABLE",
        "MyISAM and Aria refuse a table that was open when the server ended, until it is repaired.",
        "The table is locked meanwhile, and rows that cannot be read are lost; the copied files bring back the state before.",
    ),
    Known::new(Kind::Other, &[1932]).says("InnoDB does not know a table").cure(
        "ls -l of the table's files in the data folder, and the error log of that time; then restore all of the folder from one backup, or \
         where the .ibd file is there make the table again and ALTER TABLE ... IMPORT TABLESPACE",
        "Its .ibd file is missing, its .frm file was copied without it, or ibdata1 is not the one of these files.",
        "Copy the files away before anything is dropped.",
    ),
    Known::new(Kind::Limit, &[1226]).says("the account has used up what it may have").cure(
        "SHOW CREATE USER of the account, and raise the limit that the message names: ALTER USER ... WITH MAX_QUERIES_PER_HOUR, \
         MAX_UPDATES_PER_HOUR or MAX_USER_CONNECTIONS",
        "An account at its limit is refused until the hour is over; FLUSH USER_RESOURCES counts all accounts from zero again.",
        "More of its statements run; ALTER USER with the number before undoes it.",
    ),
    Known::new(Kind::Limit, &[1153]).says("a statement or value is larger than max_allowed_packet").cure(
        "SET GLOBAL max_allowed_packet = 67108864, for sessions that begin then, and the same in the clients; or send less in one \
         statement",
        "A packet that is larger ends the statement, and most times the connection.",
        "A session may take as much memory for one packet.",
    ),
    Known::new(Kind::Limit, &[1390]).says("a prepared statement has too many placeholders").cure(
        "Send fewer values in one statement: a prepared one takes 65,535",
        "Larger batches are split, or sent without placeholders.",
        "A change of the application.",
    ),
    Known::new(Kind::Limit, &[1197]).says("a transaction is larger than max_binlog_cache_size").cure(
        "Commit in smaller parts, or SET GLOBAL max_binlog_cache_size to more",
        "The binary log takes a transaction whole, from its cache.",
        "A larger cache goes to a temporary file, which needs room in tmpdir.",
    ),
    Known::new(Kind::Limit, &[1206]).says("the locks of a transaction fill the buffer pool").cure(
        "Change fewer rows in one transaction, or SET GLOBAL innodb_buffer_pool_size to more",
        "InnoDB keeps locks in the buffer pool, and ends the statement where three quarters of it are in use for them.",
        "Memory that the buffer pool takes others do not have.",
    ),
    Known::new(Kind::Limit, &[1038]).says("the sort buffer is too small for a row").cure(
        "SET GLOBAL sort_buffer_size = 1048576, for sessions that begin then, or sort without the long columns",
        "A row that is sorted must fit, with the JSON, TEXT and BLOB columns that the statement selects (MySQL 8.0.20).",
        "Each session that sorts may take as much memory.",
    ),
    Known::new(Kind::Limit, &[1104]).says("max_join_size forbids the join").cure(
        "EXPLAIN: give the join an index; or SET SESSION sql_big_selects = ON where it is meant",
        "By the plan it would read more rows than max_join_size.",
        "Without the limit a join without an index may run for hours.",
    ),
    Known::new(Kind::Missing, &[1049, 1051, 1054, 1109, 1146]),
    Known::new(Kind::Missing, &[1305]).says("a function or procedure is not there").cure(
        "Create the routine that the message names in that database again, or call it with its database (db.name)",
        "A name without a database is looked for in the current one; a dump without --routines has none.",
        "A routine runs with the rights of its definer.",
    ),
    Known::new(Kind::Missing, &[1356]).says("a view names what is not there, or has no right to it").cure(
        "SHOW CREATE VIEW and CHECK TABLE of the view that the message names: bring back the table or column that it rests on, give its \
         definer the right, or CREATE OR REPLACE VIEW",
        "A view is checked when it is read, not when a table below it changes.",
        "A view that is made again may show other rows.",
    ),
    Known::new(Kind::Missing, &[1449]).says("the definer of a view, routine or trigger is not there").cure(
        "CREATE USER for the definer that the message names, with the rights that the object needs, or make the object again with a \
         DEFINER that is there",
        "A view, routine, trigger or event with SQL SECURITY DEFINER runs with the rights of that account. It is missing after a move of \
         databases without their accounts, or a DROP USER.",
        "What the object does is then done with the rights of the new definer.",
    ),
    Known::new(Kind::Missing, &[1193]).says("a variable is not there").cure(
        "Take the variable that the message names out of the session settings of the client, driver or pool",
        "This version does not have it: tx_isolation and query_cache_size went with MySQL 8.0.",
        "A change of the clients' configuration.",
    ),
    Known::new(Kind::Denied, &[1044, 1143, 1370, 1410]),
    Known::new(Kind::Denied, &[1142]).cure(
        "SHOW GRANTS FOR the account, and GRANT what the message names (SELECT, INSERT ...) ON the table",
        "The right takes effect with the next statement.",
        "The account may then do that with all data it is granted for; REVOKE undoes it.",
    ),
    Known::new(Kind::Denied, &[1227]).cure(
        "GRANT the privilege that the message names to the account, the dynamic one where it names that beside SUPER",
        "What changes the server, or looks at what is others', needs such a privilege.",
        "It holds for the whole server; REVOKE undoes it.",
    ),
    Known::new(Kind::Denied, &[1419]).says("a trigger or function needs SUPER while the binary log is on").cure(
        "SET GLOBAL log_bin_trust_function_creators = ON",
        "Accounts without SUPER may then make triggers and functions.",
        "With binlog_format = STATEMENT one that is not deterministic makes replicas differ; OFF undoes it.",
    ),
    Known::new(Kind::Time, &[1317, 1969, 3024]),
    Known::new(Kind::Expected, &[1022, 1062, 1169, 1557, 1586]).says("the key is there already").cure(
        "INSERT ... ON DUPLICATE KEY UPDATE where the row may be there already, instead of an INSERT that fails",
        "One statement then does the work of two.",
        "It also updates where another unique key is there already.",
    ),
    Known::new(Kind::Expected, &[1364]).says("a column without a default gets no value").cure(
        "Name the column in the INSERT, or ALTER TABLE ... ALTER COLUMN ... SET DEFAULT ...",
        "Strict mode refuses a row without it; before MySQL 5.7 and MariaDB 10.2.4 that was a warning.",
        "Rows then have the default where a value was forgotten; DROP DEFAULT undoes it.",
    ),
    Known::new(Kind::Expected, &[1048]).says("a column that is NOT NULL gets NULL").cure(
        "Send a value, or ALTER TABLE ... MODIFY the column without NOT NULL where NULL is meant",
        "NULL is then a value of that column.",
        "MODIFY copies the table, and what reads it has to expect NULL.",
    ),
    Known::new(Kind::Expected, &[1406]).says("a value is too long for its column").cure(
        "ALTER TABLE ... MODIFY the column with a greater length, or cut the value before it is sent",
        "Strict mode refuses what does not fit.",
        "A VARCHAR that grows beyond 255 bytes is copied with its table, and writes wait meanwhile.",
    ),
    Known::new(Kind::Expected, &[1264]).says("a number is out of its column's range").cure(
        "ALTER TABLE ... MODIFY the column with a larger type (BIGINT, DECIMAL with more digits), or mend the value",
        "Strict mode refuses what does not fit.",
        "MODIFY copies the table, and writes to it wait.",
    ),
    Known::new(Kind::Expected, &[1366]).says("a character or text is none that its column takes").cure(
        "utf8mb4 in the connection and the column (ALTER TABLE ... CONVERT TO CHARACTER SET utf8mb4), or a number where the column is one",
        "A column of another character set has no such character, as utf8mb3 has no emoji.",
        "CONVERT copies the table, and its indexes grow.",
    ),
    Known::new(Kind::Expected, &[1265, 1292]).says("a value does not fit its column"),
    Known::new(Kind::Expected, &[1365]),
    Known::new(Kind::Expected, &[1216, 1217, 1451, 1452]).says("a foreign key forbids it").cure(
        "Write the parent row before its children, and delete the children before it; LATEST FOREIGN KEY ERROR in SHOW ENGINE INNODB \
         STATUS names the key and the row",
        "The order of the statements is what the key checks.",
        "ON DELETE CASCADE instead deletes rows that nobody named.",
    ),
    Known::new(Kind::Expected, &[1644]).says("a trigger or procedure refuses them by SIGNAL"),
    Known::new(Kind::Expected, &[3572]).says("NOWAIT finds the row or table locked"),
    Known::new(Kind::Expected, &[3819, 4025]).says("a CHECK constraint forbids it").cure(
        "SHOW CREATE TABLE shows the condition that the message names: mend the values, or ALTER TABLE ... DROP CONSTRAINT and add the \
         right one",
        "MySQL checks such conditions from 8.0.16 on, MariaDB from 10.2.1 on; before they were ignored.",
        "Adding one reads the whole table.",
    ),
    Known::new(Kind::Other, &[1526]).says("no partition takes the value").cure(
        "ALTER TABLE ... ADD PARTITION for the values that come now; a job that adds partitions ahead of time, or one with VALUES LESS \
         THAN MAXVALUE (LIST: DEFAULT on MariaDB)",
        "A row for which there is no partition is refused.",
        "It waits for a metadata lock. Where there is a partition for MAXVALUE, REORGANIZE PARTITION splits it, and copies its rows.",
    ),
    Known::new(Kind::Other, &[1820]).says("the account's password has expired").cure(
        "ALTER USER USER() IDENTIFIED BY 'NEW' in a session of that account (SET PASSWORD before MySQL 5.7.6), or ALTER USER ... PASSWORD \
         EXPIRE NEVER by an administrator; default_password_lifetime is for all accounts",
        "Until its password is changed the server takes no other statement of the account.",
        "Its clients need the new password.",
    ),
    Known::new(Kind::Other, &[1418]).says("a function does not say what it does with data").cure(
        "Declare the function DETERMINISTIC, NO SQL or READS SQL DATA, or SET GLOBAL log_bin_trust_function_creators = ON",
        "With the binary log on the server wants to know whether a function does the same on a replica.",
        "With binlog_format = STATEMENT one that is not deterministic makes replicas differ; OFF undoes it.",
    ),
    Known::new(Kind::Other, &[1665]).says("the binary log cannot take the statement as text").cure(
        "SET GLOBAL binlog_format = 'ROW' (MIXED does, too), for sessions that begin then; or REPEATABLE READ in these sessions",
        "InnoDB at READ COMMITTED, and some functions and engines, are logged by rows alone.",
        "Rows take more of the binary log; replicas need no change.",
    ),
    Known::new(Kind::Other, &[1785]).says("GTID mode forbids a mix of tables with and without transactions").cure(
        "ALTER TABLE ... ENGINE=InnoDB for the tables that have no transactions",
        "A transaction with one GTID must be undone or kept whole.",
        "ALTER TABLE copies the table, and writes to it wait.",
    ),
    Known::new(Kind::Other, &[1786]).says("GTID mode forbids CREATE TABLE ... SELECT").cure(
        "CREATE TABLE first, and INSERT ... SELECT after it",
        "It is two transactions and would have one GTID; MySQL 8.0.21 and later take it as one.",
        "Others see the table before it is filled.",
    ),
    Known::new(Kind::Other, &[1787]).says("GTID mode forbids temporary tables in a transaction").cure(
        "CREATE and DROP TEMPORARY TABLE before BEGIN or after COMMIT",
        "MySQL 8.0.13 and later allow it in a transaction with binlog_format = ROW or MIXED.",
        "A change of the application.",
    ),
    Known::new(Kind::Other, &[1055]).says("ONLY_FULL_GROUP_BY forbids it").cure(
        "Name each selected column in GROUP BY, or wrap it (MAX, ANY_VALUE); until then sql_mode without ONLY_FULL_GROUP_BY",
        "The mode is on from MySQL 5.7 on.",
        "Without it the server takes the value of any row of the group.",
    ),
    Known::new(Kind::Other, &[1064]).says("the server does not understand them").cure(
        "Read the message, which quotes where the server stopped: after an upgrade a word may be reserved (RANK, GROUPS, SYSTEM, LATERAL); \
         in backticks it is a name",
        "Each version reserves more words, and drops some syntax.",
        "It only reads.",
    ),
    Known::new(Kind::Other, &[1231]).says("a variable does not take the value").cure(
        "Look which variable the message names, and mend its value in the settings of the client, driver or pool",
        "This version does not have the value: NO_AUTO_CREATE_USER in sql_mode went with MySQL 8.0.",
        "A change of the clients' configuration.",
    ),
    Known::new(Kind::Other, &[1267, 1270, 1271]).says("collations that cannot be compared").cure(
        "Give both sides one collation: COLLATE in the statement, or ALTER TABLE ... CONVERT TO the collation of the other table",
        "New tables have the default of the server, which is another one after an upgrade (utf8mb4_0900_ai_ci in MySQL 8.0).",
        "COLLATE on a column keeps its index from being used; CONVERT copies the table.",
    ),
    Known::new(Kind::Other, &[1615]).says("tables leave the cache before prepared statements that use them").cure(
        "SET GLOBAL table_definition_cache to twice what it is, and table_open_cache with it",
        "A prepared statement is made again when its table or view was closed meanwhile, and fails where that happens again and again.",
        "More tables in memory, more open files.",
    ),
    Known::new(Kind::Other, &[1148, 3948]).says("LOAD DATA LOCAL is switched off").cure(
        "SET GLOBAL local_infile = ON while the load runs, and the option of that name in the client",
        "Server and client both have to allow that the client sends a file.",
        "A hostile server may then ask that client for any file; OFF undoes it.",
    ),
    Known::new(Kind::Other, &[3098, 3750]).says("a table has no primary key").cure(
        "ALTER TABLE ... ADD PRIMARY KEY; an invisible one: sql_generate_invisible_primary_key = ON (MySQL 8.0.30)",
        "Group Replication and sql_require_primary_key = ON want one in each table.",
        "Adding it copies the table.",
    ),
];

/// What an error says of the server.
pub(super) fn kind(number: u32) -> Kind {
    find(number).map_or(Kind::Other, |known| known.kind)
}

/// What the headline says of it, where that is more than its kind.
pub(super) fn says(number: u32) -> Option<&'static str> {
    find(number).map(|known| known.says).filter(|says| !says.is_empty())
}

/// What mends it.
pub(super) fn cure(number: u32) -> Option<Remedy> {
    let Cure { statement, why, risk } = find(number)?.cure?;
    Some(super::remedies::advice(statement, why, risk))
}

fn find(number: u32) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.numbers.contains(&number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_number_stands_once_and_errors_with_a_clear_cure_have_one() {
        let mut seen = BTreeSet::new();
        for number in KNOWN.iter().flat_map(|known| known.numbers) {
            assert!(seen.insert(number), "{number} stands twice");
        }
        for number in [
            1048, 1142, 1226, 1227, 1264, 1290, 1305, 1356, 1364, 1366, 1406, 1418, 1449, 1526, 1665, 1786,
            1792, 1820, 1194, 1932, 3819, 4025,
        ] {
            let cure = cure(number).unwrap_or_else(|| panic!("{number} has no cure"));
            assert!(!cure.why.is_empty() && !cure.risk.is_empty(), "{number}");
        }
        assert_eq!((kind(4711), says(4711), cure(4711)), (Kind::Other, None, None));
    }
}
