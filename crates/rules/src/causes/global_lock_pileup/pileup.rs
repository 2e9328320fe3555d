//! Who blocks the others, as far as the lists show it.

use spindoctor_model::mysql::{ServerSample, ServerThread};
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Sample, Window};

use super::waits;
use crate::causes::metadata_lock_pileup::queue::owner;
use crate::sessions;
use crate::wait_graph::{Verdict, keeps_statements_out, lock_kind};

/// The sessions that wait, and behind whom.
pub(super) struct Pileup<'w> {
    pub(super) window: &'w Window,
    /// The sample that shows it.
    pub(super) sample: &'w Sample,
    /// How many wait.
    pub(super) waiters: u64,
    /// Who blocks them.
    pub(super) culprit: Option<Verdict<'w>>,
    /// The culprit holds nothing global: a FLUSH that waits for it does, or those who wait open a table whose copies are old.
    pub(super) through_flush: bool,
    /// Nor does this one: its statement or transaction is what the one waits for that wants the lock of the whole server.
    pub(super) is_in_the_way: bool,
    /// Who that is.
    pub(super) wants_all: Option<&'w ServerThread>,
    /// Nothing shows what the culprit holds.
    pub(super) is_a_guess: bool,
    /// They wait for a lock of the whole server, and not for tables to be flushed alone.
    pub(super) is_locked: bool,
    /// Where nobody is the culprit: nobody waits but this one, which wants the lock; what it waits for is elsewhere.
    pub(super) alone: Option<&'w ServerThread>,
    /// It has the first of its two locks: who waits for that waits for it, and it for commits.
    pub(super) has_half: Option<&'w ServerThread>,
    /// The statement for which the one that wants the lock most likely waits.
    pub(super) kept_by: Option<&'w ServerThread>,
    /// Where nobody is named at all: the statement at work that has run longest, and began before the first of them waited.
    pub(super) longest: Option<&'w ServerThread>,
}

impl<'w> Pileup<'w> {
    pub(super) fn from_window(window: &'w Window, waiters: u64) -> Self {
        let (sample, culprit) =
            Verdict::from_most_samples(window, &[LockKind::Global, LockKind::Backup], waits);
        let server = &sample.server;
        let flusher = flusher(server);
        let waiting = || server.threads.value().into_iter().flatten().filter(|thread| waits(thread));
        let is_locked = flusher.is_some_and(takes_a_lock) || waiting().any(waits_for_the_server);
        let alone = flusher.filter(|_| culprit.is_none() && waiting().count() == 1);
        // Of several that wait, one may want the whole server, and the others wait behind it.
        let wanting = flusher.filter(|_| culprit.is_none() && is_locked);
        let has_half =
            wanting.filter(|flush| flush.state.to_ascii_lowercase().starts_with("waiting for commit lock"));
        let began_before = |writer: &ServerThread| wanting.is_some_and(|flush| writer.time_s >= flush.time_s);
        let kept_by = wanting
            .and_then(|_| oldest_writer(server))
            .filter(|writer| alone.is_some() || began_before(writer));
        let is_unnamed = culprit.is_none() && alone.is_none() && has_half.is_none() && kept_by.is_none();
        // Who sleeps may have locked the server before; for a table that it has not, nobody waits.
        let is_for_tables = waiting().all(waits_for_flush);
        let may_be_it = |thread: &ServerThread| {
            !is_for_tables || thread.statement.as_deref().is_none_or(spindoctor_sql::may_use_a_table)
        };
        let longest = longest_at_work(server).filter(|thread| is_unnamed && may_be_it(thread));
        let through_flush = culprit.as_ref().is_some_and(|culprit| culprit.held.is_old_copy());
        let is_in_the_way = culprit.as_ref().is_some_and(|culprit| {
            !through_flush && culprit.chain.is_none() && keeps_nobody_out(server, culprit.connection_id)
        });
        Self {
            window,
            sample,
            waiters,
            through_flush,
            is_in_the_way,
            wants_all: flusher,
            is_a_guess: culprit.as_ref().is_some_and(Verdict::is_a_guess),
            culprit,
            is_locked,
            alone,
            has_half,
            kept_by,
            longest,
        }
    }

    /// The lock is that of LOCK INSTANCE FOR BACKUP (MySQL 8.0): it keeps DDL out, and no change of rows.
    pub(super) fn keeps_out_ddl_alone(&self) -> bool {
        let has_it = self.window.server.version.is_some_and(|version| version.mysql_at_least(8, 0, 0));
        let is_backup = |culprit: &Verdict<'_>| culprit.held.kind == LockKind::Backup;
        has_it && !self.is_in_the_way && self.culprit.as_ref().is_some_and(is_backup)
    }

    /// What would name the holder where no list of locks does.
    pub(super) fn unlock(&self) -> Option<String> {
        let missing = self.window.missing(|s| &s.server.metadata_locks)?;
        missing.unlock.filter(|_| self.culprit.is_none() || self.is_a_guess)
    }
}

/// True for who has locks of the whole server, each such as every write or commit takes: those keep nobody out but who wants to lock
/// it all.
fn keeps_nobody_out(server: &ServerSample, connection_id: u64) -> bool {
    let mut of_it = server.metadata_locks.value().into_iter().flatten().filter(|lock| {
        lock.granted
            && matches!(lock_kind(lock), LockKind::Global | LockKind::Backup)
            && owner(server, lock) == Some(connection_id)
    });
    let Some(first) = of_it.next() else { return false };
    !keeps_statements_out(first) && !of_it.any(keeps_statements_out)
}

/// A FLUSH without a lock makes copies of tables old: a session that opens one waits for who still uses it, and not for the FLUSH.
pub(super) fn takes_a_lock(flush: &ServerThread) -> bool {
    flush.statement.as_deref().is_none_or(|statement| statement.to_ascii_lowercase().contains("read lock"))
}

/// True for one that waits for a lock of the whole server, and not for tables to be flushed alone.
fn waits_for_the_server(thread: &ServerThread) -> bool {
    waits(thread) && !waits_for_flush(thread)
}

/// True for one that waits until nobody uses an old copy of a table.
pub(super) fn waits_for_flush(thread: &ServerThread) -> bool {
    thread.state.to_ascii_lowercase().starts_with("waiting for table flush")
}

/// The statement at work that has run longest of those that change rows or lock them to do so: a lock of the whole server waits for
/// them, and not for who reads.
fn oldest_writer(server: &ServerSample) -> Option<&ServerThread> {
    let writers = sessions::at_work(server.threads.value()?).filter(|thread| {
        !waits(thread) && thread.statement.as_deref().is_some_and(spindoctor_sql::locks_rows)
    });
    writers.max_by(|one, other| one.time_s.total_cmp(&other.time_s))
}

/// The statement of a client that has been at work longest, if that is at least as long as the longest of them waits. A list without
/// times shows none.
fn longest_at_work(server: &ServerSample) -> Option<&ServerThread> {
    let threads = server.threads.value()?;
    let longest_wait_s = threads.iter().filter(|thread| waits(thread)).map(|thread| thread.time_s);
    let longest_wait_s = longest_wait_s.fold(0.0, f64::max);
    let is_candidate = |thread: &&ServerThread| {
        thread.is_connection
            && !waits(thread)
            && thread.connection_id.is_some()
            && thread.statement.is_some()
            && thread.time_s > 0.0
            && thread.time_s >= longest_wait_s
    };
    let at_work = sessions::at_work(threads).filter(is_candidate);
    at_work.max_by(|one, other| one.time_s.total_cmp(&other.time_s))
}

/// A FLUSH, backup or lock statement that waits.
fn flusher(server: &ServerSample) -> Option<&ServerThread> {
    server.threads.value()?.iter().find(|thread| waits(thread) && locks_all(thread))
}

/// True for a statement that locks the whole server.
pub(super) fn locks_all(thread: &ServerThread) -> bool {
    thread.statement.as_deref().is_some_and(spindoctor_sql::locks_the_server)
}
