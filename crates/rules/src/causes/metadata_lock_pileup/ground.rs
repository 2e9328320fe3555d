//! What speaks for the session that is named as the holder.

use spindoctor_model::mysql::{ServerSample, ServerThread};

use super::queue::{first_in_queue, locks, owner, waits};
use crate::sessions;
use crate::wait_graph::Verdict;

/// What speaks for the session that is named as the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    /// A list of locks has its transaction's.
    Listed,
    /// A list of locks has those that a session took itself, by LOCK TABLES or HANDLER.
    ListedByName,
    /// A list of locks has the one with which its DDL began, which keeps nobody out, and others wait all the same.
    ListedAsItBegan,
    /// It is a DDL at work on the table.
    DdlAtWork,
    /// Its statement at work uses the table.
    StatementAtWork,
    /// It is at work where others wait for a table that is locked by name: on that table, or it dumps the schema.
    GoesOn,
    /// Its transaction is the only one that is older than the wait of the DDL.
    OlderTransaction,
    /// Of those it is the only one whose last statement names the table.
    NamingTransaction,
    /// Of the sessions in the schemas of those that wait (of all, where one of these has none)
    /// it alone was there before the first began to wait, and rests.
    Rests,
}

impl Ground {
    /// Of a chain it is the one between that has the table. None where that has no connection.
    pub(super) fn of_holder(server: &ServerSample, root: &Verdict<'_>, ddl_waits: bool) -> Option<Self> {
        let (holder, is_inferred, rests_with_tables) = match &root.chain {
            Some(chain) => (chain.holder_id?, chain.is_inferred, false),
            None => (root.connection_id, root.root.is_inferred, root.root.doing == "idle, holding tables"),
        };
        let session = sessions::session(server, holder);
        let at_work = session.filter(|thread| thread.is_at_work() && !waits(thread));
        let statement = at_work.and_then(|thread| thread.statement.as_deref());
        let is_ddl = statement.is_some_and(spindoctor_sql::wants_a_table);
        let has_list = server.metadata_locks.value().is_some_and(|locks| !locks.is_empty());
        let is_of_other_table = |statement: &str| {
            spindoctor_sql::is_of_dump(statement)
                && !session.is_some_and(|thread| names_the_table(server, thread))
        };
        Some(match statement {
            // Of granted locks alone the waiters' are inferred, too.
            _ if has_list && is_ddl && is_inferred => Self::ListedAsItBegan,
            // Nobody listed transactions, and LOCK TABLES and HANDLER take locks of other types.
            _ if has_list
                && ddl_waits
                && server.transactions.value().is_none()
                && has_of_statements_alone(server, holder) =>
            {
                Self::Listed
            }
            _ if has_list && rests_with_tables => Self::ListedByName,
            // What a transaction or a statement has of a table keeps out nobody but a DDL.
            _ if has_list && !is_ddl && !ddl_waits => Self::ListedByName,
            _ if has_list => Self::Listed,
            Some(_) if is_ddl => Self::DdlAtWork,
            Some(statement) if !ddl_waits || is_of_other_table(statement) => Self::GoesOn,
            Some(_) => Self::StatementAtWork,
            None if sessions::transaction(server, holder).is_some() => {
                match session.is_some_and(|thread| names_the_table(server, thread)) {
                    true => Self::NamingTransaction,
                    false => Self::OlderTransaction,
                }
            }
            None => Self::Rests,
        })
    }

    pub(super) fn is_certain(self) -> bool {
        matches!(self, Self::Listed | Self::ListedByName)
    }

    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Listed => {
                "It still holds the table, as a transaction does until it ends; what wants the table for itself waits for it, and every newer statement on \
                 the table queues behind that."
            }
            Self::ListedByName => {
                "It holds the table by no transaction and no statement, but as LOCK TABLES and HANDLER do; what wants the table waits \
                 until it gives it back, by UNLOCK TABLES, HANDLER CLOSE or the end of its session."
            }
            Self::ListedAsItBegan => {
                "It is a DDL at work on the table. The list of locks has the lock with which it began, which keeps nobody out; that \
                 others wait shows that it has a stronger one by now."
            }
            Self::DdlAtWork => {
                "It is a DDL at work on the table, and everyone who uses the table waits until it ends. That no list of locks shows it \
                 changes nothing: had somebody else kept the table, it would wait itself."
            }
            Self::StatementAtWork => {
                "Its statement uses the table, and a DDL waits until it ends; everyone else who uses the table queues behind the DDL."
            }
            Self::GoesOn => {
                "Who holds the table could not be read. It is most likely locked by name, as LOCK TABLES does: this session is at work on \
                 it, or dumps its schema, and goes on where the others wait."
            }
            Self::OlderTransaction => {
                "Who holds the table could not be read: of the open transactions of sessions in the same schema this one alone is older \
                 than the wait of the DDL."
            }
            Self::NamingTransaction => {
                "Who holds the table could not be read: of the open transactions that are older than the wait of the DDL this one alone \
                 names the table, by its last statement."
            }
            Self::Rests => {
                "Who holds the table could not be read: of the sessions in the schema of those that wait (of all, where one of \
                 these has no schema) this one alone was there before the first began to wait, and rests, as one does that holds it by \
                 LOCK TABLES or HANDLER."
            }
        }
    }

    pub(super) fn why_to_end_it(self) -> &'static str {
        match self {
            Self::Listed | Self::ListedByName => "It holds the lock and is not waiting.",
            Self::ListedAsItBegan | Self::DdlAtWork => {
                "It ends the DDL, and the table is free; what it has done so far is lost."
            }
            Self::StatementAtWork => "Its statement uses the table.",
            Self::GoesOn => {
                "Look first what it is for: it is most likely the holder, for it goes on where the others wait."
            }
            Self::OlderTransaction => {
                "It is most likely the holder: no other open transaction in the same schema is older than the wait."
            }
            Self::NamingTransaction => {
                "It is most likely the holder: the last statement of no other open transaction that is older than the wait names the table."
            }
            Self::Rests => {
                "It is most likely the holder: no other session that may use their tables was there before the others began to wait."
            }
        }
    }
}

/// True where the last statement of a session names the table of the DDL that waits.
fn names_the_table(server: &ServerSample, thread: &ServerThread) -> bool {
    let wanted = first_in_queue(server)
        .and_then(|ddl| spindoctor_sql::first_table(ddl.statement.as_deref()?))
        .map(|table| table.to_ascii_lowercase());
    let last = server.last_statement(thread).or(thread.statement.as_deref());
    last.zip(wanted).is_some_and(|(last, wanted)| spindoctor_sql::names(last).any(|name| name == wanted))
}

/// True where a list of locks has those of a session, and all are of types that statements take which read and write rows.
fn has_of_statements_alone(server: &ServerSample, connection: u64) -> bool {
    let mut of_it =
        locks(server).filter(|lock| lock.granted && owner(server, lock) == Some(connection)).peekable();
    of_it.peek().is_some()
        && of_it.all(|lock| matches!(lock.lock_type.as_str(), "SHARED_READ" | "SHARED_WRITE"))
}
