//! Result sets to documents: what each says, by its kind, and which of them are one document with several readings.

use jiff::civil::DateTime;
use spindoctor_collect::mysql::{
    Rows, metadata_lock_info, perf_schema_metadata_locks, replica_status, xa_recover,
};
use spindoctor_collect::source::Answer;
use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_model::{ServerSample, ServerVersion};

use crate::documents::several;
use crate::part::{Kind, Moment, Part, Said};
use crate::table_kind::{TableKind, kind};
use crate::{
    appliers, counted, group_members, innodb_locks, intervals, latches, locks, named, open_tables, plan_rows,
    profile_rows, semaphore_rows, sessions, slow_rows, summaries, sys_session, thread_pool, threads,
    transactions,
};

/// What a result set says.
struct Table {
    kind: Kind,
    version: Option<ServerVersion>,
    says: Vec<String>,
    /// What it says, reading by reading; none where it is in words alone.
    readings: Vec<Vec<Said>>,
    /// True where the one of its kind before it is the same document: one reading after the other.
    joins: bool,
}

impl Table {
    /// Of a kind of which one may follow the other.
    fn reading(kind: Kind, said: Vec<Said>) -> Self {
        Self { kind, version: None, says: Vec::new(), readings: vec![said], joins: true }
    }

    /// A document of its own.
    fn apart(kind: Kind, said: Vec<Said>) -> Self {
        Self { joins: false, ..Self::reading(kind, said) }
    }

    /// A document of its own that is in words alone.
    fn in_words(kind: Kind, says: impl IntoIterator<Item = String>) -> Self {
        Self { readings: Vec::new(), ..Self::apart(kind, Vec::new()) }.with(says)
    }

    /// The same, with what is to be said of it in words.
    fn with(mut self, says: impl IntoIterator<Item = String>) -> Self {
        self.says.extend(says);
        self
    }
}

/// Result sets of the same kind that follow each other are one document with several readings.
pub(crate) fn table_parts(
    name: &str,
    first_line: usize,
    lines: usize,
    tables: Vec<(Option<DateTime>, Rows)>,
) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (time, rows) in tables {
        let Some(Table { kind, version, says, readings, joins }) = read(&rows) else { continue };
        let moments = readings.into_iter().map(|said| Moment { time, said, ..Moment::default() });
        match parts.last_mut().filter(|part| joins && part.kind == kind) {
            Some(part) => {
                part.moments.extend(moments);
                let new: Vec<String> =
                    says.into_iter().filter(|sentence| !part.says.contains(sentence)).collect();
                part.says.extend(new);
            }
            None => parts.push(Part {
                name: name.to_owned(),
                kind,
                first_line,
                lines,
                time,
                version,
                says,
                moments: moments.collect(),
                begins: String::new(),
            }),
        }
    }
    parts.iter_mut().for_each(say_how_many);
    parts
}

/// Says how many readings or sessions there are.
fn say_how_many(part: &mut Part) {
    let last = part.moments.iter().rev().find_map(|moment| match moment.said.first() {
        Some(Said::Threads(threads)) => Some(threads),
        _ => None,
    });
    let looks = part.moments.len() as u64;
    let says: Vec<String> = match (last, looks) {
        (None, 0 | 1) => Vec::new(),
        (None, looks) => vec![several(looks, "reading")],
        (Some(threads), looks) => {
            let sessions = several(threads.len() as u64, "session");
            let counted = match looks {
                1 => sessions,
                _ => format!("{}, {sessions} in the last", several(looks, "look")),
            };
            [Some(counted), threads::killed_sentence(threads)].into_iter().flatten().collect()
        }
    };
    part.says.extend(says);
}

/// What a result set says; none of one that is not known, or that says nothing.
fn read(rows: &Rows) -> Option<Table> {
    let columns: Vec<String> = rows.names().iter().map(|name| name.to_ascii_lowercase()).collect();
    Some(match kind(&columns)? {
        TableKind::ProcessList => process_list(rows)?,
        TableKind::SessionCounts => session_counts(rows)?,
        TableKind::Transactions => open_transactions(rows),
        kind @ (TableKind::LockWaits | TableKind::TableLockWaits) => {
            let rows = locks::as_sys(rows);
            match kind == TableKind::TableLockWaits || locks::is_of_metadata(&rows) {
                true => table_lock_waits(&rows),
                false => lock_waits(&rows),
            }
        }
        TableKind::MetadataLockInfo => {
            Table::reading(Kind::MetadataLocks, vec![Said::MetadataLocks(metadata_lock_info::listed(rows))])
        }
        TableKind::DataLocks => data_locks(rows),
        TableKind::SemaphoreWaits => {
            let status = Box::new(semaphore_rows::status(rows));
            Table::apart(Kind::Latches, vec![Said::Innodb(status)])
        }
        TableKind::InnodbLocks => Table::in_words(Kind::LockWaits, innodb_locks::sentences(rows)),
        TableKind::MetadataLocks => metadata_locks(rows),
        TableKind::Replica => replica(rows),
        TableKind::Appliers => parts_of_replica(rows),
        TableKind::ThreadIds => thread_ids(rows),
        TableKind::PreparedXa => prepared_xa(rows),
        TableKind::Named => named_values(rows)?,
        TableKind::ThreadPool(table) => Table::in_words(Kind::ThreadPool, thread_pool::sentence(table, rows)),
        TableKind::GroupMembers => {
            let (sentence, members) = group_members::read(rows);
            Table::reading(Kind::GroupMembers, vec![Said::GroupMembers(members)]).with([sentence])
        }
        TableKind::GroupQueues => Table::in_words(Kind::GroupMembers, group_members::queues(rows)),
        TableKind::OpenTables => Table::in_words(Kind::OpenTables, [open_tables::sentence(rows)]),
        TableKind::Plan => Table::in_words(Kind::Plan, plan_rows::sentences(rows)),
        TableKind::OfProxySql => Table::in_words(Kind::OtherProgram, [NO_SERVER.to_owned()]),
        TableKind::OfOther(program) => Table::in_words(Kind::OtherProgram, [of_other(program)]),
        TableKind::StatementProfile => {
            Table::in_words(Kind::StatementProfile, [profile_rows::sentence(rows)?])
        }
        TableKind::SlowLog => Table::in_words(Kind::SlowLog, slow_rows::read(rows)?.says),
        TableKind::Summary(summary) => {
            let says = summaries::sentences(summary, rows);
            Some(Table::in_words(Kind::Summary, says)).filter(|table| !table.says.is_empty())?
        }
        TableKind::BinaryLog => {
            let place = rows.first().and_then(|row| Some((row.text("file")?, row.text("position")?)));
            let says = place.map(|(file, position)| format!("the server writes {file}, at {position}"));
            Table::in_words(Kind::BinaryLog, says)
        }
        TableKind::Status => Table::in_words(Kind::Latches, [latches::sentence(rows)?]),
    })
}

/// Sessions; none of a table of another program, whose columns have such names, too.
fn process_list(rows: &Rows) -> Option<Table> {
    if !sessions::is_list(rows) {
        return None;
    }
    let open = sys_session::transactions(rows);
    let mut said = vec![Said::Threads(threads::others(rows))];
    said.extend((!open.is_empty()).then_some(Said::Transactions(open)));
    Some(Table::reading(Kind::ProcessList, said).with(sys_session::sentences(rows)))
}

/// Sessions that a query counted: those of a list where they are counted by their state, else a sentence about one.
fn session_counts(rows: &Rows) -> Option<Table> {
    let counted = counted::read(rows)?;
    let table = match counted.threads {
        Some(threads) => Table::reading(Kind::ProcessList, vec![Said::Threads(threads)]),
        None => Table { joins: true, ..Table::in_words(Kind::ProcessList, []) },
    };
    Some(table.with([counted.says]))
}

/// Transactions, and the sessions that have them where somebody joined a process list.
fn open_transactions(rows: &Rows) -> Table {
    let sessions = transactions::sessions(rows);
    let open = transactions::as_old_as(&sessions, transactions::transactions(rows));
    let mut says: Vec<String> =
        [transactions::old_sentence(rows, &open), transactions::large_sentence(rows, &open)]
            .into_iter()
            .flatten()
            .collect();
    if says.is_empty() {
        says.extend(transactions::resting_sentence(rows, &open));
    }
    let mut said = vec![Said::Transactions(open)];
    said.extend((!sessions.is_empty()).then_some(Said::SomeThreads(sessions)));
    Table::reading(Kind::Transactions, said).with(says)
}

fn lock_waits(rows: &Rows) -> Table {
    let (threads, transactions) = locks::who_waits(rows);
    let mut said = vec![Said::LockWaits(locks::lock_waits(rows))];
    if !threads.is_empty() {
        said.extend([Said::SomeThreads(threads), Said::Transactions(transactions)]);
    }
    Table::reading(Kind::LockWaits, said).with(locks::internal_id_sentence(rows))
}

fn data_locks(rows: &Rows) -> Table {
    let (waits, transactions) = locks::data_locks(rows);
    Table::apart(Kind::LockWaits, vec![Said::LockWaits(waits), Said::Transactions(transactions)])
        .with(locks::internal_id_sentence(rows))
}

fn table_lock_waits(rows: &Rows) -> Table {
    let (locks, threads) = locks::table_lock_waits(rows);
    Table::apart(Kind::MetadataLocks, vec![Said::MetadataLocks(locks), Said::SomeThreads(threads)])
}

fn metadata_locks(rows: &Rows) -> Table {
    let owners = locks::metadata_lock_owners(rows);
    let mut said = vec![Said::MetadataLocks(perf_schema_metadata_locks::listed(rows))];
    said.extend((!owners.is_empty()).then_some(Said::SomeThreads(owners)));
    Table::reading(Kind::MetadataLocks, said).with(locks::internal_id_sentence(rows))
}

fn replica(rows: &Rows) -> Table {
    let mut sample = ServerSample::default();
    (replica_status::SOURCE.parse)(rows, Answer::default(), &mut sample);
    let listed = sample.replication.value().cloned().unwrap_or_default();
    let (mut replication, looks) = last_looks(listed);
    name_sources(&mut replication);
    replication.iter_mut().for_each(stop_with_errors);
    let mut says: Vec<String> = replication.iter().filter_map(stopped_receiver).collect();
    says.extend(looks);
    Table::reading(Kind::ReplicaStatus, vec![Said::Replication(replication)]).with(says)
}

/// Each channel as it was last, and what is said of those before: a server lists a channel once, so that what lists it again is another
/// look, as of `watch` or a loop of which somebody kept a few fields.
fn last_looks(listed: Vec<ReplicaChannel>) -> (Vec<ReplicaChannel>, Option<String>) {
    let mut last: Vec<ReplicaChannel> = Vec::new();
    let mut before: Vec<ReplicaChannel> = Vec::new();
    for channel in listed {
        let is_same = |known: &&mut ReplicaChannel| {
            (&known.name, &known.source_host, known.source_port)
                == (&channel.name, &channel.source_host, channel.source_port)
        };
        match last.iter_mut().find(is_same) {
            Some(known) => before.push(std::mem::replace(known, channel)),
            None => last.push(channel),
        }
    }
    let says = before.first().map(|first| {
        let is_named =
            before.iter().any(|channel| !channel.name.is_empty() || !channel.source_host.is_empty());
        let again = if is_named { "" } else { ", and no row names its channel" };
        let behind = match first.behind_s {
            Some(seconds) => format!(" (the first: {seconds:.0} s behind)"),
            None => String::new(),
        };
        format!(
            "{} at the replica before this one{behind}{again}: the last counts",
            several(before.len() as u64, "look")
        )
    });
    (last, says)
}

/// What is said of a receiver that does not run beside an applier that does: what the replica is behind by is of what it has, and the
/// source's further changes are not in it.
fn stopped_receiver(channel: &ReplicaChannel) -> Option<String> {
    let is_stopped = channel.receiver_running.eq_ignore_ascii_case("No")
        && channel.receiver_error.is_empty()
        && channel.receiver_errno.is_none();
    (is_stopped && channel.applier_running.eq_ignore_ascii_case("Yes")).then(|| {
        format!(
            "its receiver (I/O thread) does not run, and no error stopped it: nothing more comes from {}. START REPLICA IO_THREAD (before \
             MySQL 8.0.22 and on MariaDB START SLAVE IO_THREAD) starts it",
            channel.source_host
        )
    })
}

/// Gives channels of which the source's host was left out words that stand for it.
pub(crate) fn name_sources(channels: &mut [ReplicaChannel]) {
    for channel in channels.iter_mut().filter(|channel| channel.source_host.is_empty()) {
        "its source".clone_into(&mut channel.source_host);
    }
}

/// Where whether a part runs was left out, its error says it: a server forgets the error when the part is started again, or has connected
/// (sql/rpl_slave.cc, handle_slave_sql: "Reset errors for a clean start").
fn stop_with_errors(channel: &mut ReplicaChannel) {
    let has_applier_error = !channel.applier_error.is_empty() || channel.applier_errno.is_some();
    if channel.applier_running.is_empty() && has_applier_error {
        "No".clone_into(&mut channel.applier_running);
    }
    if channel.receiver_running.is_empty() && !channel.receiver_error.is_empty() {
        let is_trying = channel.receiver_error.contains("connecting to ");
        let running = if is_trying { "Connecting" } else { "No" };
        running.clone_into(&mut channel.receiver_running);
    }
}

fn parts_of_replica(rows: &Rows) -> Table {
    let appliers::Parts { says, mut channels, errors } = appliers::read(rows);
    name_sources(&mut channels);
    let mut said = Vec::new();
    said.extend((!channels.is_empty()).then_some(Said::Replication(channels)));
    said.extend((!errors.is_empty()).then_some(Said::ApplierErrors(errors)));
    match said.is_empty() {
        true => Table::in_words(Kind::Appliers, says),
        false => Table::apart(Kind::Appliers, said).with(says),
    }
}

fn thread_ids(rows: &Rows) -> Table {
    let ids = rows.iter().filter_map(|row| Some((row.number("thread_id")?, row.number("processlist_id")?)));
    Table::reading(Kind::ThreadIds, vec![Said::ThreadIds(ids.collect())])
}

fn prepared_xa(rows: &Rows) -> Table {
    let mut sample = ServerSample::default();
    (xa_recover::SOURCE.parse)(rows, Answer::default(), &mut sample);
    let prepared = sample.prepared_xa.value().cloned().unwrap_or_default();
    Table::reading(Kind::PreparedXa, vec![Said::PreparedXa(prepared)])
        .with([several(rows.len() as u64, "prepared transaction")])
}

/// What is said of what a server of another kind gives.
pub(crate) fn of_other(program: &str) -> String {
    format!("it is of {program}, not of a MySQL or MariaDB server: nothing is diagnosed by it")
}

/// What is said of a list that ProxySQL gives.
const NO_SERVER: &str = "it is of ProxySQL, not of a server: nothing is diagnosed by it";

/// Names with values: a status, once or again and again, or variables.
fn named_values(rows: &Rows) -> Option<Table> {
    let readings = intervals::of_rows(rows);
    let last = readings.last()?;
    if last.number("proxysql_uptime").is_some() {
        return Some(Table::in_words(Kind::GlobalStatus, [NO_SERVER.to_owned()]));
    }
    let version = named::version(last);
    let waited = named::row_lock_sentence(last);
    let (kind, readings): (Kind, Vec<Vec<Said>>) = match named::kind(last) {
        named::NamedKind::Status => {
            (Kind::GlobalStatus, readings.into_iter().map(|values| vec![Said::Status(values)]).collect())
        }
        named::NamedKind::Variables => {
            let last = readings.into_iter().next_back();
            (Kind::GlobalVariables, last.into_iter().map(|values| vec![Said::Variables(values)]).collect())
        }
    };
    Some(Table { version, readings, ..Table::reading(kind, Vec::new()) }.with(waited))
}
