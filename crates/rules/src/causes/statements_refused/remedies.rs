//! What to do about each kind of error.

use spindoctor_model::{Remedy, ServerVersion, Window};

use super::counted::Failing;
use super::kinds::Kind;
use super::known;
use super::meaning::{MAX_EXECUTION_TIME, is_by_innodb};
use super::writes::{force_recovery, read_only};
use crate::polling::{self, Poll};
use crate::{open_files, temporary_room};

/// What to do about the worst of them, the best first.
pub(super) fn remedies(
    window: &Window,
    worst: &Failing,
    source: Option<&str>,
    insert: Option<&str>,
    polls: Option<&Poll<'_>>,
) -> Vec<Remedy> {
    let look = look(window, worst);
    if polls.is_some() {
        return polling::remedies().into_iter().chain([look]).collect();
    }
    if insert.is_some() && worst.kind == Kind::Expected {
        return vec![next_numbers(window), look];
    }
    match worst.kind {
        Kind::ReadOnly if is_by_innodb(worst) && force_recovery(window).is_some() => {
            vec![leave_recovery(window), look]
        }
        Kind::NoTemporaryRoom => vec![temporary_room::make_room(window), look],
        Kind::NoFiles => open_files::remedies(window).into_iter().chain([look]).collect(),
        Kind::ReadOnly if read_only(window).is_some() => {
            to_write_again(window, source).into_iter().chain([look]).collect()
        }
        _ if let Some(cure) = worst.number.and_then(known::cure) => vec![cure, look],
        Kind::ReadOnly => to_write_again(window, source).into_iter().chain([look]).collect(),
        Kind::Full => vec![
            advice(
                "Look at the free space of the data folder and of tmpdir (df), and at the end of the error log",
                "It says which file could not grow or be read. innodb_data_file_path and max_heap_table_size limit tables, too.",
                "It only reads.",
            ),
            look,
        ],
        Kind::Missing => vec![
            look,
            advice(
                "Finish the deployment or roll it back: the statements name a table, column or routine that is not there",
                "Either the schema or the application is of another version.",
                "A change of the application or of the schema.",
            ),
        ],
        Kind::Denied => vec![
            look,
            advice(
                "SHOW GRANTS FOR the account, and GRANT what the statements need",
                "A right takes effect with the next statement, one of a whole database with the next USE.",
                "The account may then do that with all data it is granted for; REVOKE undoes it.",
            ),
        ],
        Kind::Time if worst.number == Some(MAX_EXECUTION_TIME) => vec![
            look,
            advice(
                "Make the statement faster (EXPLAIN), or raise its time limit (max_execution_time, or the hint MAX_EXECUTION_TIME in the \
                 statement)",
                "A statement that is ended did its work for nothing.",
                "A higher limit lets slow statements pile up.",
            ),
        ],
        Kind::Time => vec![
            look,
            advice(
                "Make the statement faster (EXPLAIN), or raise its time limit (max_execution_time, MariaDB max_statement_time), or find who \
                 sends KILL QUERY",
                "A statement that is ended did its work for nothing.",
                "A higher limit lets slow statements pile up.",
            ),
        ],
        Kind::Limit | Kind::Expected | Kind::Other | Kind::Unknown => vec![look],
    }
}

/// Which keys have no number left.
fn next_numbers(window: &Window) -> Remedy {
    let has_sys = window.server.version.is_some_and(|version| version.mysql_at_least(5, 7, 7));
    let list = match has_sys {
        true => {
            "SELECT * FROM sys.schema_auto_increment_columns ORDER BY auto_increment_ratio DESC LIMIT 10; then ALTER TABLE ... MODIFY the \
             column with a larger type"
        }
        false => {
            "SHOW CREATE TABLE: compare AUTO_INCREMENT with its column's type; then ALTER TABLE ... MODIFY it with a larger type"
        }
    };
    advice(
        list,
        "It shows whether AUTO_INCREMENT is at the end of its type: 127 of TINYINT, 2147483647 of INT. BIGINT has room.",
        "Looking is safe; MODIFY copies the table, and writes to it wait. Columns that refer to it must have the same type.",
    )
}

/// Out of the state in which InnoDB only reads.
fn leave_recovery(window: &Window) -> Remedy {
    let level = window.variable_word("innodb_force_recovery").unwrap_or("1");
    Remedy {
        statement: "Without innodb_force_recovery in the option file, a restart; where the server does not come up so: dump all data, make a \
                    new data folder, load the dump"
            .into(),
        why: "It is for saving data from damage, and cannot be changed while the server runs. The error log says whether there was damage.".into(),
        dynamic: false,
        risk: "With damage the server may stop at its start: dump first.".into(),
        undo: format!("innodb_force_recovery = {level} in the option file, and a restart"),
    }
}

/// What can be done on a running server, and needs no undoing.
pub(super) fn advice(statement: impl Into<String>, why: &str, risk: &str) -> Remedy {
    Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    }
}

/// Where the writes belong, and how the server takes them again.
fn to_write_again(window: &Window, source: Option<&str>) -> Vec<Remedy> {
    let variable = read_only(window);
    let place = match source {
        Some(source) => advice(
            format!("Send the writes to the source, {source}, or to whichever server is the primary now"),
            "A replica is read-only so that its data stay those of its source.",
            "A change of the clients' configuration, or of the proxy's.",
        ),
        None => advice(
            "Find out who made the server read-only, and whether another one is the primary now; then send the writes there",
            "A failover leaves the old primary read-only on purpose.",
            "Looking is safe.",
        ),
    };
    let back = variable.filter(|&variable| variable != "innodb_read_only").map(|variable| {
        let is_super = variable == "super_read_only";
        Remedy {
            // It also ends super_read_only.
            statement: "SET GLOBAL read_only = OFF".into(),
            why: "Only where this is the primary: clients can write again at once.".into(),
            dynamic: true,
            risk: "Where another server takes writes, too, the data of both differ from then on, and those of one are lost. What \
                   made it read-only may do so again."
                .into(),
            undo: format!("SET GLOBAL {} = ON", if is_super { "super_read_only" } else { "read_only" }),
        }
    });
    let restart = (variable == Some("innodb_read_only")).then(|| Remedy {
        statement: "innodb_read_only = OFF in the option file, and a restart".into(),
        why: "Only where nothing else uses its files: it cannot be changed while the server runs.".into(),
        dynamic: false,
        risk: "The server is down meanwhile; files that two servers write are destroyed.".into(),
        undo: "innodb_read_only = ON in the option file, and a restart".into(),
    });
    [place].into_iter().chain(back).chain(restart).collect()
}

/// Where the message stands, with who gets it.
fn look(window: &Window, worst: &Failing) -> Remedy {
    let version = window.server.version;
    let is_on = window.latest(|s| &s.server.errors).is_some();
    let read = |statement: String, why: &str| advice(statement, why, "It only reads.");
    if is_on && version.is_some_and(|version| version.mysql_at_least(5, 7, 0)) {
        let which = worst.number.map_or_else(|| "> 0".to_owned(), |number| format!("= {number}"));
        return read(
            format!(
                "SELECT t.PROCESSLIST_USER, t.PROCESSLIST_HOST, h.MYSQL_ERRNO, h.MESSAGE_TEXT, h.DIGEST_TEXT FROM \
                 performance_schema.events_statements_history AS h JOIN performance_schema.threads AS t USING (THREAD_ID) WHERE \
                 h.MYSQL_ERRNO {which} LIMIT 10"
            ),
            "It lists the message with the account, the client's host and the statement, of the last ten statements of each connection.",
        );
    }
    if version.is_some_and(ServerVersion::is_mariadb) {
        return Remedy {
            statement: "INSTALL SONAME 'sql_errlog'".into(),
            why: "Each error is then written to sql_errors.log in the data folder, with the account, the number and the statement.".into(),
            dynamic: true,
            risk: "A line for each error, with the literals of the statement: look for a minute, and take it away.".into(),
            undo: "UNINSTALL SONAME 'sql_errlog'".into(),
        };
    }
    if is_on {
        return read(
            "SELECT DIGEST_TEXT, SUM_ERRORS, LAST_SEEN FROM performance_schema.events_statements_summary_by_digest WHERE SUM_ERRORS > 0 \
             ORDER BY LAST_SEEN DESC LIMIT 10"
                .into(),
            "It lists the statements that failed, the latest first.",
        );
    }
    read(
        "Look into the clients' logs".into(),
        "They have the number and the message; this server keeps neither without performance_schema.",
    )
}
