//! Who waits for a metadata lock, by the state that the server shows for the thread, where no list says what it wants.
//!
//! MariaDB's METADATA_LOCK_INFO lists what is held: a waiter's statement then names the table. Without any list the transaction that is
//! older than the wait of a DDL is the likeliest holder of a table, if there is one alone, and where none is old enough a session that
//! rests; a statement that locks the whole server says so itself; so does the last statement of a session that rests, where the server
//! keeps it. Where it does not, it is the session that goes on with the table, or the dump at work, for which LOCK TABLES keeps others out;
//! else the session that was there before the first of them began to wait, if only one was. All of this is inferred, and where it may be
//! one of several nobody is named: a session that is named gets killed.

use std::cmp::Ordering;
use std::collections::HashSet;

use spindoctor_model::mysql::{MetadataLock, ServerThread};
use spindoctor_model::wait_graph::{LockKind, WaitEdge};

use super::compatibility::keeps_statements_out;
use super::{kind, lock_name, owner};
use crate::wait_graph::builder::{Builder, Who};

/// What a FLUSH waits for until no statement uses an old copy of a table any more.
pub(crate) const TABLE_FLUSH: &str = "tables to be flushed";

/// What an engine without row locks locks for each statement.
pub(crate) const TABLE_LEVEL: &str = "table level lock";

/// What a state says of a lock of a table, of another object, and of GET_LOCK, where no list names it.
const A_TABLE: &str = "table metadata lock";
const AN_OBJECT: &str = "metadata lock";
const A_USER_LOCK: &str = "a user lock";

/// True for what only says which kind of lock it is: that may be any.
pub(crate) fn names_no_object(object: &str) -> bool {
    [A_TABLE, AN_OBJECT, A_USER_LOCK].contains(&object)
}

/// A thread that waits, and what its state says it waits for.
struct Waiter<'a> {
    who: Who,
    thread: &'a ServerThread,
    kind: LockKind,
    /// What it waits for in words, where no lock names it.
    object: &'static str,
}

/// Adds the waits that are not in the lists of locks.
pub(super) fn add(builder: &mut Builder<'_>) {
    // Everyone whose state says that it waits, those in the lists among them: none of them is a holder at work.
    let waiting: Vec<Waiter<'_>> = builder
        .listed()
        .iter()
        .enumerate()
        .filter_map(|(at, thread)| {
            let (kind, object) = what(&thread.state)?;
            Some(Waiter { who: Who::Listed(at), thread, kind, object })
        })
        .collect();
    let unlisted: Vec<&Waiter<'_>> = waiting.iter().filter(|waiter| !builder.waits(&waiter.who)).collect();
    if unlisted.is_empty() {
        return;
    }
    let held: Vec<(&MetadataLock, Who)> = builder
        .readings
        .server
        .metadata_locks
        .value()
        .into_iter()
        .flatten()
        .filter(|lock| lock.granted)
        .filter_map(|lock| Some((lock, owner(builder, lock)?)))
        .collect();
    let situation = Situation { waiting: &waiting, held: &held };
    for waiter in unlisted {
        let mut found = situation.holders(builder, waiter);
        found.dedup();
        let edge = |object: Option<&String>| WaitEdge {
            kind: waiter.kind,
            object: object.map_or_else(|| waiter.object.to_owned(), Clone::clone),
            waited_s: Some(waiter.thread.time_s),
            is_inferred: true,
            ..WaitEdge::default()
        };
        if found.is_empty() {
            builder.add(waiter.who.clone(), None, edge(None));
        }
        for (holder, object) in found.into_iter().take(super::NAMED) {
            builder.add(waiter.who.clone(), Some(holder), edge(object.as_ref()));
        }
    }
    let missing = builder.readings.server.metadata_locks.unavailable().cloned();
    if let Some(missing) = missing {
        builder.note(match missing.unlock {
            Some(unlock) => {
                format!("who holds metadata locks could not be read: {}; {unlock}", missing.because)
            }
            None => format!("who holds metadata locks could not be read: {}", missing.because),
        });
    }
}

/// What a state waits for: `Waiting for table metadata lock`, `Waiting for global read lock`, `User lock`.
fn what(state: &str) -> Option<(LockKind, &'static str)> {
    let state = state.to_ascii_lowercase();
    match state.as_str() {
        "user lock" => return Some((LockKind::User, A_USER_LOCK)),
        "waiting for table flush" => return Some((LockKind::Global, TABLE_FLUSH)),
        "waiting for table level lock" | "locked" => return Some((LockKind::Metadata, TABLE_LEVEL)),
        _ => {}
    }
    let wanted = state.strip_prefix("waiting for ")?;
    match wanted {
        "global read lock" | "global metadata lock" | "release of readlock" => {
            Some((LockKind::Global, "global read lock"))
        }
        "commit lock" => Some((LockKind::Global, "commit lock")),
        "backup lock" | "binlog lock" => Some((LockKind::Backup, "backup lock")),
        A_TABLE => Some((LockKind::Metadata, A_TABLE)),
        _ if wanted.ends_with(AN_OBJECT) => Some((LockKind::Metadata, AN_OBJECT)),
        _ => None,
    }
}

/// By so much a time may be too short, seconds, where it is counted in whole ones, as MySQL's lists do; and in a list that is made
/// line by line.
const WHOLE_S: f64 = 1.0;
const LINE_S: f64 = 0.1;

/// True where one session has been as it is for as long as another, as far as their times say.
fn has_lasted(time_s: f64, as_long_as_s: f64) -> bool {
    let is_whole = time_s.fract() == 0.0 && as_long_as_s.fract() == 0.0;
    time_s + if is_whole { WHOLE_S } else { LINE_S } >= as_long_as_s
}

/// And so long the first of them must have waited, seconds: who has a lock for less has come to rest many times since.
const HELD_S: f64 = 1.0;

struct Situation<'a> {
    waiting: &'a [Waiter<'a>],
    held: &'a [(&'a MetadataLock, Who)],
}

impl Situation<'_> {
    /// Whom a waiter waits for, most likely; with what that one holds, where a lock names it.
    fn holders(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        let found = match (waiter.kind, waiter.object) {
            (LockKind::User, _) => self.of_user_lock(builder, waiter),
            (_, TABLE_FLUSH) => self.of_a_flush(builder, waiter),
            (_, TABLE_LEVEL) => self.of_a_table_s_engine(builder, waiter),
            (LockKind::Global | LockKind::Backup, _) => self.of_the_server(builder, waiter),
            _ => self.of_a_table(builder, waiter),
        };
        found.into_iter().filter(|(holder, _)| *holder != waiter.who).collect()
    }

    fn is_waiting(&self, who: &Who) -> bool {
        self.waiting.iter().any(|waiter| waiter.who == *who)
    }

    /// Where no list of locks was read: who rests since before that, and took what the waiter wants by the last statement.
    fn rests_after(
        &self,
        builder: &Builder<'_>,
        waiter: &Waiter<'_>,
        took: impl Fn(&str) -> bool,
    ) -> Option<Who> {
        if builder.readings.server.metadata_locks.value().is_some() {
            return None;
        }
        let resting = builder.listed().iter().enumerate().filter(|(_, thread)| {
            thread.command == "Sleep"
                && has_lasted(thread.time_s, waiter.thread.time_s)
                && builder.readings.server.last_statement(thread).is_some_and(&took)
        });
        resting.max_by(|(_, a), (_, b)| by_time(a, b)).map(|(at, _)| Who::Listed(at))
    }

    /// Where neither a list of locks nor a last statement was read: who was there, and did not itself wait, before the first of
    /// those began that wait as this one does. None where that may be several: that one came to rest just before they began says
    /// nothing, for a session that reads goes on until then, too.
    fn was_there_before(&self, builder: &Builder<'_>, kinds: &[LockKind]) -> Option<Who> {
        // Of one at work it is not known whether it waits for what nobody lists.
        let (at, _) = only(self.there_before(builder, kinds).into_iter())
            .filter(|(_, thread)| thread.command == "Sleep")?;
        Some(Who::Listed(at))
    }

    /// All that may be who was there before, with their places.
    fn there_before<'b>(
        &self,
        builder: &'b Builder<'_>,
        kinds: &[LockKind],
    ) -> Vec<(usize, &'b ServerThread)> {
        if builder.readings.server.metadata_locks.value().is_some() {
            return Vec::new();
        }
        let of_kind = || self.waiting.iter().filter(|other| kinds.contains(&other.kind));
        // Who holds a table most likely uses the schema of those that want it. One without a schema, as an applier of rows, may want a
        // table of any.
        let is_near = |thread: &ServerThread| {
            let wants_of_it = |wanted: &str| wanted.is_empty() || thread.schema == wanted;
            !kinds.contains(&LockKind::Metadata) || of_kind().any(|other| wants_of_it(&other.thread.schema))
        };
        // Who has locked tables by name, or has a lock of GET_LOCK, may well wait for a row of somebody else. Who has locked the whole
        // server copies it: who waits for a row waits with the others.
        let is_of_the_server = !kinds.iter().any(|kind| matches!(kind, LockKind::Metadata | LockKind::User));
        let waits = |who: &Who| self.is_waiting(who) || (is_of_the_server && builder.waits(who));
        let first_s = of_kind().map(|other| other.thread.time_s).fold(0.0, f64::max);
        if first_s < HELD_S {
            return Vec::new();
        }
        let there = builder.listed().iter().enumerate().filter(|(at, thread)| {
            thread.is_connection
                && is_near(thread)
                && builder.readings.server.last_statement(thread).is_none()
                && has_lasted(thread.time_s, first_s)
                && !waits(&Who::Listed(*at))
                && matches!(thread.command.as_str(), "Sleep" | "Query" | "Execute")
        });
        there.collect()
    }

    fn of_user_lock(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        let wanted = waiter.thread.statement.as_deref().and_then(spindoctor_sql::user_lock);
        let took = |statement: &str| wanted.is_some() && spindoctor_sql::user_lock(statement) == wanted;
        if let Some(holder) = self.rests_after(builder, waiter, took) {
            return vec![(holder, None)];
        }
        let locks: Vec<_> = self.held.iter().filter(|(lock, _)| kind(lock) == LockKind::User).collect();
        let asked = waiter.thread.statement.as_deref().unwrap_or_default();
        let named = |lock: &MetadataLock| {
            let name = if lock.name.is_empty() { &lock.schema } else { &lock.name };
            spindoctor_sql::has_text(asked, name)
        };
        let by_name: Vec<_> = locks.iter().filter(|(lock, _)| named(lock)).collect();
        match (by_name.as_slice(), locks.as_slice()) {
            ([], []) => {
                let holder = self.was_there_before(builder, &[LockKind::User]);
                holder.map(|holder| (holder, None)).into_iter().collect()
            }
            ([], [(lock, owner)]) => vec![(owner.clone(), Some(lock_name(lock)))],
            (named, _) => named.iter().map(|(lock, owner)| (owner.clone(), Some(lock_name(lock)))).collect(),
        }
    }

    /// A lock of the whole server: its listed owner, else the session that runs a statement that takes one.
    fn of_the_server(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        let global: Vec<_> = self
            .held
            .iter()
            .filter(|(lock, _)| matches!(kind(lock), LockKind::Global | LockKind::Backup))
            .collect();
        // What locks the server waits for those that have begun to change something; they for it.
        let wants_all = locks_all(waiter.thread);
        let listed: Vec<_> = global
            .iter()
            .filter(|(lock, _)| keeps_statements_out(lock) != wants_all)
            .map(|(lock, owner)| (owner.clone(), Some(lock_name(lock))))
            .collect();
        if !listed.is_empty() || wants_all {
            return listed;
        }
        let running = builder.listed().iter().enumerate().filter(|(_, thread)| locks_all(thread));
        let first = running.map(|(at, _)| Who::Listed(at)).next();
        const OF_ALL: &[LockKind] = &[LockKind::Global, LockKind::Backup];
        let holder = first
            .or_else(|| self.rests_after(builder, waiter, spindoctor_sql::locks_the_server))
            .or_else(|| self.dumps(builder))
            .or_else(|| self.was_there_before(builder, OF_ALL));
        holder.map(|holder| (holder, None)).into_iter().collect()
    }

    /// The dump that is at work, where no list of locks was read and it is the only one: it locks the server at its beginning, and then
    /// reads table by table, so that its time says nothing.
    fn dumps(&self, builder: &Builder<'_>) -> Option<Who> {
        if builder.readings.server.metadata_locks.value().is_some() {
            return None;
        }
        let dumps = builder.listed().iter().enumerate().filter(|(at, thread)| {
            thread.is_at_work()
                && !self.is_waiting(&Who::Listed(*at))
                && thread.statement.as_deref().is_some_and(spindoctor_sql::is_of_dump)
        });
        only(dumps).map(|(at, _)| Who::Listed(at))
    }

    /// Tables whose copies are old: the statement that has run longest of those that name one of them. A FLUSH or ANALYZE names its
    /// tables, another statement waits for those that it opens. Where all tables were flushed, or the statement is not known, the
    /// one that has run longest of all that may have one; who names none of the tables has one by a view at most, and is not named.
    fn of_a_flush(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        let has_lasted = |thread: &ServerThread| has_lasted(thread.time_s, waiter.thread.time_s);
        let holder = |tables: &HashSet<String>| {
            self.at_work_on(builder, tables, has_lasted).map(|holder| (holder, None)).into_iter().collect()
        };
        if waiter.thread.statement.is_none() {
            return self.longest_statement(builder, waiter);
        }
        if let Some(flushed) = flushed(waiter.thread) {
            return if flushed.is_empty() {
                self.longest_statement(builder, waiter)
            } else {
                holder(&flushed)
            };
        }
        let found: Vec<_> = holder(&wanted(waiter.thread));
        let is_of_all =
            || self.waiting.iter().any(|other| flushed(other.thread).is_some_and(|tables| tables.is_empty()));
        if found.is_empty() && is_of_all() { self.longest_statement(builder, waiter) } else { found }
    }

    /// The statement that has run longest, of those that may have a table.
    fn longest_statement(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        let running = builder.listed().iter().enumerate().filter(|(at, thread)| {
            thread.is_at_work()
                && !self.is_waiting(&Who::Listed(*at))
                && thread.statement.as_deref().is_none_or(spindoctor_sql::may_use_a_table)
                && has_lasted(thread.time_s, waiter.thread.time_s)
        });
        let longest = running.max_by(|(_, a), (_, b)| a.time_s.total_cmp(&b.time_s));
        longest.map(|(at, _)| (Who::Listed(at), None)).into_iter().collect()
    }

    /// A table of an engine without row locks: the statement that has run longest of those that name a table of the waiter's, or one
    /// that checks or repairs it. One that names none of them has it by a view or a trigger at most: nobody is named then, but where the
    /// waiter's statement is not known.
    fn of_a_table_s_engine(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        if waiter.thread.statement.is_none() {
            return self.longest_statement(builder, waiter);
        }
        let has_lasted = |thread: &ServerThread| has_lasted(thread.time_s, waiter.thread.time_s);
        let wanted = wanted(waiter.thread);
        let locks_it = |statement: &str| {
            spindoctor_sql::kind(statement) == "LOCK"
                && spindoctor_sql::names(statement).any(|name| wanted.contains(&name))
        };
        let holder = self
            .at_work_on(builder, &wanted, |thread| has_lasted(thread) && is_about(thread, &wanted))
            .or_else(|| {
                let named = names(waiter.thread);
                self.at_work_on(builder, &named, |thread| has_lasted(thread) && is_about(thread, &named))
            })
            .or_else(|| self.rests_after(builder, waiter, locks_it))
            .or_else(|| {
                self.at_work_on(builder, &wanted, |thread| maintains(thread) && is_about(thread, &wanted))
            });
        holder.map(|holder| (holder, None)).into_iter().collect()
    }

    /// The session that has been at work for longest on a table of one of these names, of those that are such.
    fn at_work_on(
        &self,
        builder: &Builder<'_>,
        tables: &HashSet<String>,
        is_such: impl Fn(&ServerThread) -> bool,
    ) -> Option<Who> {
        let at_work = builder.listed().iter().enumerate().filter(|(at, thread)| {
            thread.is_connection
                && thread.is_at_work()
                && !self.is_waiting(&Who::Listed(*at))
                && is_such(thread)
                && !tables.is_disjoint(&names(thread))
        });
        at_work.max_by(|(_, a), (_, b)| by_time(a, b)).map(|(at, _)| Who::Listed(at))
    }

    /// A table: a DDL waits for those that use it, everyone else for the DDL.
    fn of_a_table(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<(Who, Option<String>)> {
        let words = words(waiter.thread);
        let of_table: Vec<&(&MetadataLock, Who)> = self
            .held
            .iter()
            .filter(|(lock, owner)| {
                lock.object_type == "TABLE"
                    && words.contains(&lock.name.to_ascii_lowercase())
                    && *owner != waiter.who
            })
            .collect();
        let named = |locks: Vec<&&(&MetadataLock, Who)>| -> Vec<(Who, Option<String>)> {
            locks.into_iter().map(|(lock, owner)| (owner.clone(), Some(lock_name(lock)))).collect()
        };
        let strong: Vec<_> = of_table.iter().filter(|(lock, _)| keeps_statements_out(lock)).collect();
        if !strong.is_empty() {
            return named(strong);
        }
        if !is_ddl(waiter.thread) {
            // In front of it stands the DDL that waits for the same table, the one that has waited longest.
            let ddl = self.waiting.iter().filter(|other| {
                is_ddl(other.thread)
                    && other.who != waiter.who
                    && (words.is_empty() || !words.is_disjoint(&names(other.thread)))
            });
            let first = ddl.max_by(|a, b| by_time(a.thread, b.thread));
            if let Some(first) = first {
                return vec![(first.who.clone(), None)];
            }
        }
        let users: Vec<_> = of_table.iter().filter(|(_, owner)| !self.is_waiting(owner)).collect();
        if !users.is_empty() {
            return named(users);
        }
        let list_was_read = !self.held.is_empty();
        if list_was_read {
            // No holder in it has what the statement names.
            return Vec::new();
        }
        self.without_list(builder, waiter, &words).map(|holder| (holder, None)).into_iter().collect()
    }

    /// Who holds a table most likely, where nobody lists locks; `words` are those of the waiter's statement.
    fn without_list(
        &self,
        builder: &Builder<'_>,
        waiter: &Waiter<'_>,
        words: &HashSet<String>,
    ) -> Option<Who> {
        let wanted = wanted(waiter.thread);
        let names_it = |statement: &str| spindoctor_sql::names(statement).any(|name| wanted.contains(&name));
        let locks_it = |statement: &str| {
            ["LOCK", "HANDLER"].contains(&spindoctor_sql::kind(statement).as_str()) && names_it(statement)
        };
        // A DDL waits for each statement that uses the table.
        let of_statement = |is_such: &dyn Fn(&ServerThread) -> bool| {
            is_ddl(waiter.thread).then(|| self.at_work_on(builder, &wanted, is_such)).flatten()
        };
        // A DDL that is at work has the table: had somebody else kept it, it would wait, too.
        self.at_work_on(builder, words, is_ddl)
            .or_else(|| self.rests_after(builder, waiter, locks_it))
            .or_else(|| of_statement(&|thread| has_lasted(thread.time_s, waiter.thread.time_s)))
            .or_else(|| self.older_transaction(builder, waiter, names_it))
            // A statement that tries again, as OPTIMIZE does, has lasted for longer than its wait.
            .or_else(|| of_statement(&|_| true))
            // LOCK TABLES and HANDLER hold a table without a transaction, and who has run them may be at work.
            .or_else(|| match self.go_on(builder, waiter).as_slice() {
                // Else it may wait for a table that its trigger or foreign key uses, and the other's statement does not.
                [(at, thread)] => uses_the_same(waiter.thread, thread).then_some(Who::Listed(*at)),
                _ => self.there_with_tables(builder, waiter),
            })
    }

    /// The dump at work that has its tables, or who was there before the waits.
    fn there_with_tables(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Option<Who> {
        let dumps = self.dumps_with_tables(builder, waiter);
        match dumps.as_slice() {
            [] => self.was_there_before(builder, &[LockKind::Metadata]),
            [dump] => self.has_its_tables(builder, dump).then(|| dump.clone()),
            _ => None,
        }
    }

    /// The sessions at work that do not wait for a metadata lock or the like, with their places.
    fn at_work<'b>(&'b self, builder: &'b Builder<'_>) -> impl Iterator<Item = (usize, &'b ServerThread)> {
        builder.listed().iter().enumerate().filter(move |(at, thread)| self.is_at_work(*at, thread))
    }

    fn is_at_work(&self, at: usize, thread: &ServerThread) -> bool {
        thread.is_connection && thread.is_at_work() && !self.is_waiting(&Who::Listed(at))
    }

    /// Statements that wait for metadata locks.
    fn wants_tables(&self) -> impl Iterator<Item = &ServerThread> {
        self.waiting.iter().filter(|other| other.kind == LockKind::Metadata).map(|other| other.thread)
    }

    /// The sessions that go on with the table of a waiter where no DDL waits, with their places. Where it is one alone, the table is locked
    /// by name, and another's statement would wait, too. LOCK TABLES ... READ lets others read.
    fn go_on<'b>(&self, builder: &'b Builder<'_>, waiter: &Waiter<'_>) -> Vec<(usize, &'b ServerThread)> {
        // Which of several tables it waits for is not known; and a statement that is not known may be a DDL.
        let Some(wanted) = qualified(waiter.thread).filter(|_| names_one_table(waiter.thread)) else {
            return Vec::new();
        };
        if self.wants_tables().any(|thread| thread.statement.is_none() || is_ddl(thread)) {
            return Vec::new();
        }
        let go_on = builder.listed().iter().enumerate().filter(|(at, thread)| {
            self.is_at_work(*at, thread)
                // One that has just begun has not come to its tables.
                && thread.time_s >= HELD_S
                && qualified(thread).as_ref() == Some(&wanted)
                && (reads(waiter.thread) || !reads(thread))
        });
        go_on.collect()
    }

    /// Dumps at work in the schema of a waiter, that may have their tables by LOCK TABLES ... READ: it keeps out who writes. One that reads
    /// a snapshot has a transaction that is older than its statement, and no such lock.
    fn dumps_with_tables(&self, builder: &Builder<'_>, waiter: &Waiter<'_>) -> Vec<Who> {
        if !is_ddl(waiter.thread) && self.wants_tables().any(reads) {
            return Vec::new();
        }
        let has_snapshot = |thread: &ServerThread| {
            builder.transaction(thread).is_some_and(|open| open.age_s > thread.time_s + WHOLE_S)
        };
        let dumps = self.at_work(builder).filter(|(_, thread)| {
            spindoctor_sql::is_of_dump(statement(thread))
                && (waiter.thread.schema.is_empty() || thread.schema == waiter.thread.schema)
                && !has_snapshot(thread)
        });
        dumps.map(|(at, _)| Who::Listed(at)).collect()
    }

    /// True for the only dump, where nobody but it may have the tables of those that wait. One with --single-transaction has no lock of
    /// a table by name, but in its first table it looks the same: its transaction is then as old as its statement. One without a
    /// transaction is none of these.
    fn has_its_tables(&self, builder: &Builder<'_>, dump: &Who) -> bool {
        let has_transaction = || {
            self.at_work(builder)
                .any(|(at, thread)| Who::Listed(at) == *dump && builder.transaction(thread).is_some())
        };
        let before = || self.there_before(builder, &[LockKind::Metadata]);
        builder.readings.server.transactions.value().is_some()
            && (!has_transaction() || before().iter().all(|(at, _)| Who::Listed(*at) == *dump))
    }

    /// The transaction that was open before the wait of a DDL began, if it is the only one, or the only one whose statement names the
    /// table. What a transaction has of a table keeps out nobody but a DDL.
    fn older_transaction(
        &self,
        builder: &Builder<'_>,
        waiter: &Waiter<'_>,
        names_it: impl Fn(&str) -> bool,
    ) -> Option<Who> {
        if !is_ddl(waiter.thread) {
            return None;
        }
        // A transaction of another schema holds the table only where its statement names that schema.
        let mut schemas = words(waiter.thread);
        match waiter.thread.schema.is_empty() {
            true => schemas.clear(),
            false => _ = schemas.insert(waiter.thread.schema.to_ascii_lowercase()),
        }
        let older = builder.listed().iter().enumerate().filter_map(|(at, thread)| {
            let transaction = builder.transaction(thread)?;
            let is_elsewhere = !thread.schema.is_empty()
                && !schemas.is_empty()
                && !schemas.contains(&thread.schema.to_ascii_lowercase());
            let older = transaction.age_s + WHOLE_S >= waiter.thread.time_s;
            let last = builder.readings.server.last_statement(thread).or(thread.statement.as_deref());
            let uses_it = last.is_some_and(&names_it);
            (older && (uses_it || !is_elsewhere) && !self.is_waiting(&Who::Listed(at)))
                .then_some((at, uses_it))
        });
        let older: Vec<(usize, bool)> = older.collect();
        let users = || older.iter().filter(|(_, uses_it)| *uses_it);
        let holder = if users().next().is_some() { only(users()) } else { only(older.iter()) };
        holder.map(|&(at, _)| Who::Listed(at))
    }
}

/// The one thing that there is; none of several.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

fn by_time(a: &ServerThread, b: &ServerThread) -> Ordering {
    a.time_s.total_cmp(&b.time_s)
}

/// Words that no table is named by the mere use of them in a statement.
const COMMON: [&str; 24] = [
    "select", "from", "where", "update", "set", "insert", "into", "values", "delete", "and", "or", "not",
    "null", "alter", "table", "add", "column", "drop", "int", "order", "by", "limit", "count", "index",
];

/// The names in a statement, in lower case.
fn words(thread: &ServerThread) -> HashSet<String> {
    spindoctor_sql::names(statement(thread)).collect()
}

/// The table that a DDL wants for itself, in lower case.
fn wanted(thread: &ServerThread) -> HashSet<String> {
    spindoctor_sql::first_table(statement(thread))
        .map(|table| table.to_ascii_lowercase())
        .into_iter()
        .collect()
}

/// The first table that a statement names with its schema, in lower case.
fn qualified(thread: &ServerThread) -> Option<(String, String)> {
    let (schema, table) = spindoctor_sql::qualified_table(statement(thread))?;
    let schema = schema.unwrap_or_else(|| thread.schema.clone());
    Some((schema.to_ascii_lowercase(), table.to_ascii_lowercase()))
}

/// True where one word of a statement alone stands before a table.
fn names_one_table(thread: &ServerThread) -> bool {
    const BEFORE_TABLE: [&str; 5] = ["from", "into", "update", "join", "table"];
    let before =
        spindoctor_sql::names(statement(thread)).filter(|word| BEFORE_TABLE.contains(&word.as_str()));
    before.count() == 1
}

/// True where what a statement waits for is a table that another's uses, too: a SELECT waits for those that it names, and one that
/// changes rows for those of triggers and foreign keys as well (sql/sql_base.cc, prelocking), which the same statement has.
fn uses_the_same(waiter: &ServerThread, other: &ServerThread) -> bool {
    spindoctor_sql::kind(statement(waiter)) == "SELECT"
        || spindoctor_sql::digest(statement(waiter)) == spindoctor_sql::digest(statement(other))
}

/// True for a statement that is known, and only reads.
fn reads(thread: &ServerThread) -> bool {
    thread.statement.as_deref().is_some_and(|statement| !spindoctor_sql::locks_rows(statement))
}

/// The names in a statement without the commonest words: two statements that share one of these share a name.
fn names(thread: &ServerThread) -> HashSet<String> {
    let mut names = words(thread);
    names.retain(|word| !COMMON.contains(&word.as_str()));
    names
}

/// The names of the tables whose copies a FLUSH or ANALYZE makes old, in lower case: none where it flushes all. None for another
/// statement.
fn flushed(thread: &ServerThread) -> Option<HashSet<String>> {
    // sql/sql_yacc.yy: flush_options, analyze_table_stmt
    const WORDS: [&str; 13] = [
        "flush",
        "analyze",
        "table",
        "tables",
        "with",
        "read",
        "lock",
        "for",
        "export",
        "local",
        "no_write_to_binlog",
        "disable",
        "checkpoint",
    ];
    let kind = spindoctor_sql::kind(statement(thread));
    (kind == "FLUSH" || kind == "ANALYZE").then(|| {
        let mut names = words(thread);
        names.retain(|name| !WORDS.contains(&name.as_str()) && *name != thread.schema.to_ascii_lowercase());
        names
    })
}

fn statement(thread: &ServerThread) -> &str {
    thread.statement.as_deref().unwrap_or_default()
}

/// True for a statement that wants a table for itself.
pub(in crate::wait_graph) fn is_ddl(thread: &ServerThread) -> bool {
    spindoctor_sql::wants_a_table(statement(thread))
}

/// True for a statement of an administrator on a whole table: who runs it again and again has the table for most of the time, and has
/// run the one that is seen for less than the others wait.
fn maintains(thread: &ServerThread) -> bool {
    const KINDS: [&str; 7] = ["CHECK", "REPAIR", "OPTIMIZE", "ANALYZE", "CHECKSUM", "ALTER", "LOAD"];
    KINDS.contains(&spindoctor_sql::kind(statement(thread)).as_str())
}

/// True for a statement that may be about one of these tables: what ALTER and LOAD name beside their own table are columns and keys.
fn is_about(thread: &ServerThread, tables: &HashSet<String>) -> bool {
    match spindoctor_sql::kind(statement(thread)).as_str() {
        "ALTER" | "LOAD" => !tables.is_disjoint(&wanted(thread)),
        _ => true,
    }
}

/// True for a statement that locks the whole server.
fn locks_all(thread: &ServerThread) -> bool {
    spindoctor_sql::locks_the_server(statement(thread))
}
