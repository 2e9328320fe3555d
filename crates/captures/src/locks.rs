//! Who waits for whose row lock, as `sys` lists it: the server's own list needs more than one result set.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread, Transaction};

/// What stands for the state of a session of which a list does not say what it does.
pub(crate) const NOT_KNOWN: &str = "not known";

/// The state of who runs a statement, where the list has no column for it: one that has none rests.
const RUNS: &str = "executing";

/// How people's own queries name what `sys` has: the manual's (Using InnoDB Transaction and Locking Information) has
/// `waiting_thread`, others `waiting_processlist_id`, `waiting_trx_thread`; behind `waiting_` and `blocking_`.
const OTHER_NAMES: [(&str, &str); 17] = [
    ("thread", "pid"),
    ("processlist_id", "pid"),
    ("trx_thread", "pid"),
    ("trx_mysql_thread_id", "pid"),
    ("mysql_thread_id", "pid"),
    ("process_id", "pid"),
    ("connection_id", "pid"),
    ("conn_id", "pid"),
    ("connection", "pid"),
    ("id", "pid"),
    ("trx_query", "query"),
    ("statement", "query"),
    ("sql_text", "query"),
    ("sql", "query"),
    ("info", "query"),
    ("trx", "trx_id"),
    ("transaction_id", "trx_id"),
];

/// Words of people's own queries for the two, before or behind what a column says of them: `blocked_thread`, `connection_id_owner`.
const OTHER_WORDS: [(&str, &str); 8] = [
    ("blocked", "waiting"),
    ("waiter", "waiting"),
    ("pending_owner", "waiting"),
    ("pending", "waiting"),
    ("blocker", "blocking"),
    ("holder", "blocking"),
    ("holding", "blocking"),
    ("owner", "blocking"),
];

/// The columns with the words of `sys` for who waits and who blocks, where a list has columns of both and is one of MySQL's locks: that of
/// PostgreSQL's manual has `blocked_pid`, and other tables have owners, too.
fn use_words_of_sys(names: &mut [String]) {
    const OF_MYSQL: [&str; 5] = ["trx", "thread", "processlist", "connection_id", "lock_type"];
    let other = |name: &String| {
        OTHER_WORDS.iter().find_map(|(word, of_sys)| {
            let before = name.strip_prefix(word).and_then(|rest| rest.strip_prefix('_'));
            let rest = before.or_else(|| name.strip_suffix(word).and_then(|rest| rest.strip_suffix('_')))?;
            Some((name.clone(), format!("{of_sys}_{rest}")))
        })
    };
    let others: Vec<(String, String)> = names.iter().filter_map(other).collect();
    let has_both = ["waiting_", "blocking_"]
        .iter()
        .all(|who| names.iter().chain(others.iter().map(|(_, name)| name)).any(|name| name.starts_with(who)));
    if has_both && names.iter().any(|name| OF_MYSQL.iter().any(|word| name.contains(word))) {
        for (name, of_sys) in &others {
            rename(names, name, of_sys);
        }
    }
}

/// The columns of a list of lock waits as `sys` names them, in lower case; others as they are. `waiting trx id` is a head with blanks.
pub(crate) fn names_of_sys(columns: &[String]) -> Vec<String> {
    let mut names: Vec<String> =
        columns.iter().map(|name| name.trim().to_ascii_lowercase().replace([' ', '-'], "_")).collect();
    use_words_of_sys(&mut names);
    for who in ["waiting", "blocking"] {
        for (other, of_sys) in OTHER_NAMES {
            rename(&mut names, &format!("{who}_{other}"), &format!("{who}_{of_sys}"));
        }
        // Beside ids of InnoDB's transactions people select trx_mysql_thread_id, whatever they call it.
        if names.contains(&format!("{who}_trx_id")) {
            rename(&mut names, &format!("{who}_thread_id"), &format!("{who}_pid"));
        }
    }
    names
}

/// Gives the column of one name another, where none has that.
fn rename(names: &mut [String], from: &str, to: &str) {
    if names.iter().any(|name| name == to) {
        return;
    }
    if let Some(name) = names.iter_mut().find(|name| *name == from) {
        to.clone_into(name);
    }
}

/// A list of lock waits with the columns' names of `sys`.
pub(crate) fn as_sys(rows: &Rows) -> Rows {
    let cells = |row: Row<'_>| (0..rows.columns()).map(|at| row.at(at).map(str::to_owned)).collect();
    Rows::new(names_of_sys(rows.names()), rows.iter().map(cells).collect())
}

/// True where a list of lock waits, with the names of `sys`, says that they are for metadata locks: `locked_type: Metadata Lock`,
/// `waiting_state: Waiting for table metadata lock`.
pub(crate) fn is_of_metadata(rows: &Rows) -> bool {
    const KINDS: [&str; 4] = ["locked_type", "lock_type", "waiting_lock_type", "waiting_state"];
    let says_so = |row: &Row<'_>, column: &str| {
        row.text(column).is_some_and(|text| text.to_ascii_lowercase().contains("metadata"))
    };
    rows.iter().any(|row| KINDS.iter().any(|column| says_so(&row, column)))
}

/// How long the one who waits has waited, in seconds, as the list says it: a number or a clock.
fn waited_s(row: &Row<'_>) -> Option<f64> {
    const TIMES: [&str; 9] = [
        "wait_age_secs",
        "wait_age",
        "waiting_query_secs",
        "waiting_age",
        "waiting_time",
        "waiting_secs",
        "waiting_seconds",
        "wait_time",
        "wait_secs",
    ];
    TIMES.iter().find_map(|column| row.text(column).and_then(clock))
}

/// How the name of one begins of whom a list has performance_schema's number of its thread alone.
pub(crate) const BY_THREAD: &str = "thread ";

/// The internal id of one who waits or blocks, in words, where the list has no connection of it.
fn internal_name(row: &Row<'_>, columns: [&str; 2]) -> String {
    let id = columns.iter().find_map(|column| row.number::<u64>(column));
    id.map_or_else(String::new, |id| format!("{BY_THREAD}{id}"))
}

/// How the connection is found of one that a list names by its internal id alone: the first that blocks others and does not wait.
pub(crate) fn internal_id_sentence(rows: &Rows) -> Option<String> {
    let has = |wanted: &str| rows.names().iter().any(|name| name.eq_ignore_ascii_case(wanted));
    if has("blocking_pid") || has("processlist_id") {
        return None;
    }
    let number = |row: &Row<'_>, columns: [&str; 2]| columns.iter().find_map(|column| row.number(column));
    let (waiting, blocking): (Vec<u64>, Vec<u64>) = if has("blocking_thread_id") {
        let waiting = |row: Row<'_>| number(&row, ["requesting_thread_id", "waiting_thread_id"]);
        let blocking = |row: Row<'_>| row.number("blocking_thread_id");
        (rows.iter().filter_map(waiting).collect(), rows.iter().filter_map(blocking).collect())
    } else {
        let owners = |statuses: [&str; 2]| {
            let is = |row: &Row<'_>| row.text("lock_status").is_some_and(|status| statuses.contains(&status));
            let owner = |row: Row<'_>| number(&row, ["owner_thread_id", "thread_id"]);
            rows.iter().filter(is).filter_map(owner).collect()
        };
        (owners(["PENDING", "WAITING"]), owners(["GRANTED", "GRANTED"]))
    };
    if waiting.is_empty() {
        return None;
    }
    let id = blocking.iter().find(|id| !waiting.contains(id)).or(blocking.first())?;
    Some(format!(
        "thread {id} is an internal id: SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE THREAD_ID = {id} says its \
         connection"
    ))
}

/// `sys.innodb_lock_waits`, `information_schema.INNODB_LOCK_WAITS`, `performance_schema.data_lock_waits`
pub(crate) fn lock_waits(rows: &Rows) -> Vec<RowLockWait> {
    rows.iter()
        .map(|row| {
            let without_quotes = |columns: [&str; 4]| first(row, columns).replace('`', "");
            let table =
                without_quotes(["locked_table", "waiting_lock_table", "blocking_lock_table", "lock_table"]);
            let named = |transaction: String, columns| match transaction.is_empty() {
                true => internal_name(&row, columns),
                false => transaction,
            };
            let index =
                without_quotes(["locked_index", "waiting_lock_index", "blocking_lock_index", "lock_index"]);
            RowLockWait {
                waiting_connection_id: row.number("waiting_pid"),
                blocking_connection_id: row.number("blocking_pid"),
                waiting_transaction: named(
                    first(row, ["waiting_trx_id", "requesting_trx_id", "requesting_engine_transaction_id"]),
                    ["waiting_thread_id", "requesting_thread_id"],
                ),
                blocking_transaction: named(
                    first(row, ["blocking_trx_id", "blocking_engine_transaction_id"]),
                    ["blocking_thread_id", "blocking_thread_id"],
                ),
                table,
                index,
                record: String::new(),
                mode: row.string("waiting_lock_mode"),
                waited_s: waited_s(&row).unwrap_or(0.0),
            }
        })
        .collect()
}

/// Who stands in a list of lock waits that says what each runs, as `sys.innodb_lock_waits` does: their sessions, and their transactions.
pub(crate) fn who_waits(rows: &Rows) -> (Vec<ServerThread>, Vec<Transaction>) {
    // Without this column it is not known whether who has the lock runs anything.
    if !rows.names().iter().any(|name| name.eq_ignore_ascii_case("blocking_query")) {
        return (Vec::new(), Vec::new());
    }
    let has = |wanted: &str| rows.names().iter().any(|name| name.eq_ignore_ascii_case(wanted));
    let mut threads: BTreeMap<u64, ServerThread> = BTreeMap::new();
    let mut transactions: BTreeMap<u64, Transaction> = BTreeMap::new();
    // Who waits stands in the list as what others wait for, too: that it waits is what counts.
    for who in ["blocking", "waiting"] {
        let of = |row: &Row<'_>, what: &str| row.text(&format!("{who}_{what}")).map(str::to_owned);
        let changes_unread = !has(&format!("{who}_trx_rows_modified"));
        let number = |row: &Row<'_>, what: &str| row.number(&format!("{who}_{what}"));
        for row in rows.iter() {
            let Some(id) = number(&row, "pid") else { continue };
            let waited_s = waited_s(&row).filter(|_| who == "waiting");
            let age_s = of(&row, "trx_age").as_deref().and_then(clock).unwrap_or(0.0);
            let statement = of(&row, "query").filter(|text| !text.is_empty());
            let runs = who == "blocking" && statement.is_some();
            let thread = ServerThread {
                connection_id: Some(id),
                is_connection: true,
                // Who runs nothing has no statement in the list.
                command: if statement.is_some() || who == "waiting" { "Query" } else { "Sleep" }.to_owned(),
                state: if runs { RUNS } else { "" }.to_owned(),
                time_s: waited_s.unwrap_or(0.0),
                statement: statement.clone(),
                ..ServerThread::default()
            };
            let transaction = Transaction {
                id: of(&row, "trx_id").unwrap_or_default(),
                connection_id: Some(id),
                state: if who == "waiting" { "LOCK WAIT" } else { "RUNNING" }.to_owned(),
                age_s,
                waited_s,
                rows_locked: number(&row, "trx_rows_locked").unwrap_or(0),
                rows_modified: number(&row, "trx_rows_modified").unwrap_or(0),
                changes_unread,
                statement,
                ..Transaction::default()
            };
            threads.insert(id, thread);
            transactions.insert(id, transaction);
        }
    }
    (threads.into_values().collect(), transactions.into_values().collect())
}

/// `sys.schema_table_lock_waits`: the locks of those who wait and of those who block, and who waits for how long. People's own
/// queries leave out what they do not want of it.
pub(crate) fn table_lock_waits(rows: &Rows) -> (Vec<MetadataLock>, Vec<ServerThread>) {
    let id = |row: &Row<'_>, who: &str, what: &str| row.number::<u64>(&format!("{who}_{what}"));
    let is_known = |row: &Row<'_>, who: &str| id(row, who, "pid").or(id(row, who, "thread_id")).is_some();
    let lock = |row: &Row<'_>, who: &str, granted: bool| {
        let (schema, name) = table_of(row);
        MetadataLock {
            object_type: row.text("object_type").unwrap_or("TABLE").to_owned(),
            schema,
            name,
            lock_type: row.string(&format!("{who}_lock_type")),
            granted,
            owner_internal_id: id(row, who, "thread_id"),
            owner_connection_id: id(row, who, "pid"),
        }
    };
    let thread = |row: &Row<'_>, who: &str| {
        let account = first(*row, [&format!("{who}_account"), &format!("{who}_user")]);
        let (user, host) = account.rsplit_once('@').unwrap_or((&account, ""));
        ServerThread {
            internal_id: id(row, who, "thread_id"),
            connection_id: id(row, who, "pid"),
            user: user.to_owned(),
            host: host.to_owned(),
            is_connection: true,
            ..ServerThread::default()
        }
    };
    let mut locks: Vec<MetadataLock> = Vec::new();
    let mut threads: BTreeMap<(Option<u64>, Option<u64>), ServerThread> = BTreeMap::new();
    let key = |thread: &ServerThread| (thread.connection_id, thread.internal_id);
    for row in rows.iter().filter(|row| is_known(row, "waiting")) {
        let waiting = ServerThread {
            command: "Query".to_owned(),
            state: METADATA_WAIT.to_owned(),
            time_s: waited_s(&row).unwrap_or(0.0),
            statement: row.text("waiting_query").map(str::to_owned),
            ..thread(&row, "waiting")
        };
        if is_known(&row, "blocking") {
            let blocking = as_far_as_known(thread(&row, "blocking"), rows, &row, "blocking_query");
            keep(&mut locks, lock(&row, "blocking", true));
            threads.entry(key(&blocking)).or_insert(blocking);
        }
        keep(&mut locks, lock(&row, "waiting", false));
        threads.insert(key(&waiting), waiting);
    }
    (locks, threads.into_values().collect())
}

/// The state of a session that waits for a table's metadata lock.
const METADATA_WAIT: &str = "Waiting for table metadata lock";

fn keep(locks: &mut Vec<MetadataLock>, new: MetadataLock) {
    if !locks.contains(&new) {
        locks.push(new);
    }
}

/// The schema and the name of the table that a row is about.
fn table_of(row: &Row<'_>) -> (String, String) {
    let plain = |text: String| text.replace('`', "");
    let schema =
        plain(first(*row, ["object_schema", "locked_schema", "locked_table_schema", "table_schema"]));
    let name =
        plain(first(*row, ["object_name", "locked_table_name", "locked_table", "table_name", "object"]));
    match name.split_once('.').filter(|_| schema.is_empty()) {
        Some((schema, name)) => (schema.to_owned(), name.to_owned()),
        None if name.is_empty() && schema.is_empty() => (schema, "a table".to_owned()),
        None => (schema, name),
    }
}

/// The session that has a lock, with what the list says of what it does: without a column for its statement, nothing. Several
/// statements in one cell are those that it ended (events_statements_history).
fn as_far_as_known(thread: ServerThread, rows: &Rows, row: &Row<'_>, column: &str) -> ServerThread {
    let has_column = rows.names().iter().any(|name| name.eq_ignore_ascii_case(column));
    let not_known = ServerThread { state: NOT_KNOWN.to_owned(), ..thread.clone() };
    match row.text(column).map(str::trim).filter(|text| !text.is_empty()) {
        _ if !has_column => not_known,
        None => ServerThread { command: "Sleep".to_owned(), ..thread },
        Some(several) if several.trim_end_matches(';').contains(';') => {
            ServerThread { last_statement: Some(several.to_owned()), ..not_known }
        }
        Some(one) => ServerThread {
            command: "Query".to_owned(),
            state: RUNS.to_owned(),
            statement: Some(one.to_owned()),
            ..thread
        },
    }
}

/// The owners of a list of `performance_schema.metadata_locks`, of those who wait and of those who have what they wait for.
pub(crate) fn metadata_lock_owners(rows: &Rows) -> Vec<ServerThread> {
    let object = |row: &Row<'_>| ["object_type", "object_schema", "object_name"].map(|name| row.string(name));
    let is = |row: &Row<'_>, status: &str| row.text("lock_status") == Some(status);
    let wanted: BTreeSet<_> = rows.iter().filter(|row| is(row, "PENDING")).map(|row| object(&row)).collect();
    let mut threads: BTreeMap<(Option<u64>, Option<u64>), ServerThread> = BTreeMap::new();
    for row in rows.iter().filter(|row| wanted.contains(&object(row))) {
        let thread = ServerThread {
            internal_id: row.number("owner_thread_id").or_else(|| row.number("thread_id")),
            connection_id: row.number("processlist_id"),
            user: row.string("processlist_user"),
            host: row.string("processlist_host"),
            schema: row.string("processlist_db"),
            time_s: row.text("processlist_time").and_then(clock).unwrap_or(0.0),
            is_connection: true,
            ..ServerThread::default()
        };
        let key = (thread.connection_id, thread.internal_id);
        if key == (None, None) {
            continue;
        }
        if is(&row, "PENDING") {
            let waiting = ServerThread {
                command: "Query".to_owned(),
                state: wait_for(&row.string("object_type")).to_owned(),
                statement: row.text("processlist_info").map(str::to_owned),
                ..thread
            };
            threads.insert(key, waiting);
        } else if is(&row, "GRANTED") {
            let known = as_far_as_known(thread, rows, &row, "processlist_info");
            let holder = match row.text("processlist_command") {
                Some(command) => {
                    let state = row.text("processlist_state").filter(|state| !state.is_empty());
                    let runs = command != "Sleep" && known.statement.is_some();
                    let state = state.unwrap_or(if runs { RUNS } else { "" }).to_owned();
                    ServerThread { command: command.to_owned(), state, ..known }
                }
                None => known,
            };
            threads.entry(key).or_insert(holder);
        }
    }
    threads.into_values().collect()
}

/// The state that a session shows while it waits for a lock on such an object (sql/mdl.cc, `m_namespace_to_wait_state_name`).
fn wait_for(object_type: &str) -> &'static str {
    match object_type {
        "GLOBAL" => "Waiting for global read lock",
        "COMMIT" => "Waiting for commit lock",
        "SCHEMA" => "Waiting for schema metadata lock",
        "BACKUP LOCK" => "Waiting for backup lock",
        "USER LEVEL LOCK" => "User lock",
        _ => METADATA_WAIT,
    }
}

/// `performance_schema.data_locks`: who waits for a record that another has, by table, index and record.
/// The transactions of both stand beside it; the list has no connections.
pub(crate) fn data_locks(rows: &Rows) -> (Vec<RowLockWait>, Vec<Transaction>) {
    let place = |row: &Row<'_>| {
        ["object_schema", "object_name", "index_name", "lock_data"].map(|column| row.string(column))
    };
    let is = |row: &Row<'_>, status: &str| row.text("lock_status") == Some(status);
    // The first by its own name, and as people call it.
    let of = |row: &Row<'_>| match first(*row, ["engine_transaction_id", "trx_id", "trx", "transaction_id"]) {
        id if id.is_empty() => internal_name(row, ["thread_id", "owner_thread_id"]),
        id => id,
    };
    let granted: Vec<Row<'_>> =
        rows.iter().filter(|row| is(row, "GRANTED") && row.text("lock_type") == Some("RECORD")).collect();
    let mut waits: Vec<RowLockWait> = Vec::new();
    for row in rows.iter().filter(|row| is(row, "WAITING")).take(MOST_WAITS) {
        let holders = granted.iter().filter(|holder| place(holder) == place(&row) && of(holder) != of(&row));
        let [schema, name, index, record] = place(&row);
        let table = if schema.is_empty() { name } else { format!("{schema}.{name}") };
        waits.extend(holders.take(MOST_HOLDERS).map(|holder| RowLockWait {
            waiting_transaction: of(&row),
            blocking_transaction: of(holder),
            waiting_connection_id: row.number("processlist_id"),
            blocking_connection_id: holder.number("processlist_id"),
            table: table.clone(),
            index: index.clone(),
            record: record.clone(),
            mode: row.string("lock_mode"),
            ..RowLockWait::default()
        }));
    }
    let mut states: BTreeMap<&str, (&str, Option<u64>)> = BTreeMap::new();
    for wait in &waits {
        states.entry(&wait.blocking_transaction).or_insert(("RUNNING", wait.blocking_connection_id));
        states.insert(&wait.waiting_transaction, ("LOCK WAIT", wait.waiting_connection_id));
    }
    let transaction = |(id, (state, connection_id)): (&str, (&str, Option<u64>))| Transaction {
        id: id.to_owned(),
        connection_id,
        state: state.to_owned(),
        changes_unread: true,
        ..Transaction::default()
    };
    let transactions = states.into_iter().map(transaction).collect();
    (waits, transactions)
}

/// Waits of one list, and holders of one record, that are kept.
const MOST_WAITS: usize = 2_000;
const MOST_HOLDERS: usize = 20;

/// The first of these columns that the row has.
fn first<const N: usize>(row: Row<'_>, columns: [&str; N]) -> String {
    columns.iter().find_map(|column| row.text(column)).unwrap_or_default().to_owned()
}

/// Fills in the connections of those who wait and block, where a list of transactions has them.
pub(crate) fn with_connections(waits: &mut [RowLockWait], transactions: &[Transaction]) {
    let of = |id: &str| transactions.iter().find(|transaction| !id.is_empty() && transaction.id == id);
    for wait in waits {
        let (waiting, blocking) = (of(&wait.waiting_transaction), of(&wait.blocking_transaction));
        wait.waiting_connection_id = wait.waiting_connection_id.or(waiting.and_then(|one| one.connection_id));
        wait.blocking_connection_id =
            wait.blocking_connection_id.or(blocking.and_then(|one| one.connection_id));
    }
}

/// `00:00:19`
pub(crate) fn clock(text: &str) -> Option<f64> {
    let mut seconds = 0.0_f64;
    for part in text.split(':') {
        seconds = seconds * 60.0 + part.trim().parse::<f64>().ok().filter(|part| part.is_finite())?;
    }
    seconds.is_finite().then_some(seconds)
}

#[cfg(test)]
mod tests;
