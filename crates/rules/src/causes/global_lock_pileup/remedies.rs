//! What to do about the waits, and what that costs.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Remedy, ServerVersion};

use super::pileup::{Pileup, locks_all, takes_a_lock, waits_for_flush};
use super::waits;
use crate::killing::{self, FLUSH_STAYS};
use crate::sessions;
use crate::wait_graph::Verdict;

/// What the end of a session costs that holds a lock of the whole server.
pub(in crate::causes) const SPOILT: &str =
    "The backup or whatever it locked for is spoilt; an open transaction is rolled back.";

/// What the end of a statement costs that locks nothing itself.
const STATEMENT_LOST: &str = "That statement is lost; what it changed is rolled back.";

/// What the end of a statement brings that one waits for which wants to lock the whole server.
const GETS_ITS_LOCK: &str = "The FLUSH gets its lock, and everyone goes on when it gives it back.";

/// What the end of a statement brings behind which FLUSH TABLES WITH READ LOCK waits: its session keeps the lock when it has the tables.
const KEEPS_ITS_LOCK: &str = "The FLUSH gets its tables, and who reads goes on. Its session keeps the lock: who writes waits on until \
                              it runs UNLOCK TABLES, as a backup does at its end, and then everyone goes on. To free those that write \
                              at once, end the FLUSH.";

impl Pileup<'_> {
    /// What to do, the best first.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        let server = &self.sample.server;
        let end_culprit = self.culprit.as_ref().and_then(|culprit| self.end(culprit));
        let release = end_culprit.as_ref().and_then(|_| self.release());
        let end_writer = self
            .kept_by
            .and_then(|writer| writer.connection_id)
            .filter(|id| killing::frees(server, *id))
            .map(end_writer);
        let of_backups = self.alone.map(|_| of_backups());
        let is_unnamed = self.culprit.is_none() && self.alone.is_none();
        let list = sessions::listing_locks(self.window).filter(|_| is_unnamed);
        let unlock = (is_unnamed && self.has_half.is_none()).then(|| unlock(self.is_locked));
        end_culprit
            .into_iter()
            .chain(release)
            .chain(end_writer)
            .chain(self.end_between())
            .chain(self.end_flushers().filter(|_| self.is_locked))
            .chain(of_backups.into_iter().flatten())
            .chain(list)
            .chain(unlock)
            .collect()
    }

    /// Ending who blocks the others.
    fn end(&self, culprit: &Verdict<'_>) -> Option<Remedy> {
        let direct = match () {
            () if self.through_flush && self.wants_all.is_none() => {
                "It gives its copy of the table back, and those that wait open the table again."
            }
            () if self.through_flush && self.wants_all.is_some_and(takes_a_lock) => KEEPS_ITS_LOCK,
            () if self.through_flush => "The FLUSH gets its tables, does its work, and everyone goes on.",
            () if self.is_in_the_way => GETS_ITS_LOCK,
            () if self.is_a_guess => {
                "Most likely it is this session that has the locks, and they go with it: look whose it is before."
            }
            () => "The locks go with the session.",
        };
        let why = if self.through_flush { direct.to_owned() } else { culprit.why_to_end(direct) };
        // Whose statement locks the server itself, or has ended and left the locks, spoils what it locked for.
        let locks_itself = sessions::session(&self.sample.server, culprit.connection_id)
            .and_then(|thread| thread.statement.as_deref())
            .is_none_or(spindoctor_sql::locks_the_server);
        let is_statement = culprit.root.free_with.as_deref().is_some_and(|end| end.starts_with("KILL QUERY"));
        let remedy = culprit.remedy(&why)?;
        let locks_the_server =
            !self.is_in_the_way && matches!(culprit.held.kind, LockKind::Global | LockKind::Backup);
        let risk = match () {
            () if self.through_flush || (is_statement && !locks_itself) => STATEMENT_LOST.to_owned(),
            () if locks_the_server => SPOILT.to_owned(),
            () => remedy.risk,
        };
        // A dump keeps its lock from one statement to the next.
        let (statement, risk) = match self.is_a_guess {
            true => (remedy.statement.replacen("KILL QUERY", "KILL", 1), SPOILT.to_owned()),
            false => (remedy.statement, risk),
        };
        Some(Remedy { statement, risk, ..remedy })
    }

    /// What gives the lock back and ends nobody, in the session that has it and rests.
    fn release(&self) -> Option<Remedy> {
        let culprit = self.culprit.as_ref()?;
        let holds_it = culprit.chain.is_none()
            && !self.through_flush
            && !self.is_in_the_way
            && matches!(culprit.held.kind, LockKind::Global | LockKind::Backup)
            && culprit.described().statement.starts_with("idle");
        let version = self.window.server.version;
        let statement = match culprit.held.kind {
            LockKind::Backup if version.is_none() => "UNLOCK TABLES (or UNLOCK INSTANCE, BACKUP STAGE END)",
            // One lock of MariaDB serves both.
            LockKind::Backup if version.is_some_and(ServerVersion::is_mariadb) => {
                "BACKUP STAGE END (UNLOCK TABLES after FLUSH TABLES WITH READ LOCK)"
            }
            _ if self.keeps_out_ddl_alone() => "UNLOCK INSTANCE",
            _ => "UNLOCK TABLES",
        };
        holds_it.then(|| Remedy {
            statement: format!("{statement} in the session of connection {}", culprit.connection_id),
            why: "It gives the lock back at once, and ends nobody. Only the session that has the lock can do so."
                .into(),
            dynamic: true,
            risk: "A backup that it takes is spoilt.".into(),
            undo: String::new(),
        })
    }

    /// Of a chain, ending the one between, where it is none of those that lock the server and wait.
    fn end_between(&self) -> Option<Remedy> {
        let culprit = self.culprit.as_ref().filter(|_| !self.through_flush)?;
        let between = culprit.chain.as_ref()?.holder_id?;
        let is_flusher = sessions::session(&self.sample.server, between).is_some_and(wants_to_lock_all);
        culprit.remedy_between().filter(|_| !is_flusher)
    }

    /// Ending all statements that want to lock the whole server and wait: of each that stays the next statements wait.
    fn end_flushers(&self) -> Option<Remedy> {
        let server = &self.sample.server;
        let waiting =
            || server.threads.value().into_iter().flatten().filter(|thread| wants_to_lock_all(thread));
        let ids =
            waiting().filter_map(|thread| thread.connection_id).filter(|id| killing::frees(server, *id));
        let kills: Vec<String> = ids.take(ENDED).map(|id| format!("KILL {id}")).collect();
        // Tables are old from then on, whatever becomes of the FLUSH.
        let has_flushed = waiting().any(waits_for_flush);
        let why = "It ends what locks the server while it waits, and frees those that wait for its lock.";
        (!kills.is_empty()).then(|| Remedy {
            statement: kills.join("; "),
            why: if has_flushed { format!("{why} {FLUSH_STAYS}") } else { why.to_owned() },
            dynamic: true,
            risk: "The backup, or the program that switches the server to read-only, fails.".into(),
            undo: "Run it again at a quieter time.".into(),
        })
    }
}

/// True for a statement that wants to lock the whole server, and waits.
fn wants_to_lock_all(thread: &ServerThread) -> bool {
    waits(thread) && locks_all(thread)
}

/// Ending the statement that keeps a FLUSH from its lock.
fn end_writer(id: u64) -> Remedy {
    Remedy {
        statement: format!("KILL QUERY {id}"),
        why: GETS_ITS_LOCK.into(),
        dynamic: true,
        risk: STATEMENT_LOST.into(),
        undo: String::new(),
    }
}

/// Statements whose end is proposed at most.
const ENDED: usize = 8;

/// For who takes the backup, while nobody else waits yet.
fn of_backups() -> [Remedy; 2] {
    [
        Remedy {
            statement: "SET SESSION lock_wait_timeout = 60 in the session of the backup".into(),
            why: "It gives up after a minute, and lets go of what it holds, where the default is a year.".into(),
            dynamic: true,
            risk: "The backup fails when somebody works for longer than that.".into(),
            undo: String::new(),
        },
        Remedy {
            statement: "Backup locks in place of FLUSH TABLES WITH READ LOCK: LOCK INSTANCE FOR BACKUP (MySQL 8.0), BACKUP \
                        STAGE (MariaDB 10.4), LOCK TABLES FOR BACKUP (Percona Server 5.6 to 8.0)"
                .into(),
            why: "They do not wait for statements that read or change rows of InnoDB.".into(),
            dynamic: true,
            risk: "The backup tool must know them.".into(),
            undo: String::new(),
        },
    ]
}

/// What frees the others, for who knows which session it is: no list names it.
fn unlock(is_locked: bool) -> Remedy {
    let (statement, why, risk) = if is_locked {
        (
            "UNLOCK TABLES (or UNLOCK INSTANCE, BACKUP STAGE END) in the session that locked",
            "It gives the locks back at once.".to_owned(),
            "A backup that it takes is spoilt.",
        )
    } else {
        (
            "End the statement that has used the table longest (KILL QUERY), or UNLOCK TABLES in the session that has it locked",
            format!("Who waits then opens the table again. {FLUSH_STAYS}"),
            "That statement is lost; what the table was locked for is no longer protected.",
        )
    };
    Remedy { statement: statement.into(), why, dynamic: true, risk: risk.into(), undo: String::new() }
}
