//! What to do about the waits, and what that costs.

use spindoctor_model::Remedy;
use spindoctor_model::mysql::ServerSample;

use super::pileup::{Pileup, locks_all};
use super::waits;
use crate::killing;
use crate::sessions;
use crate::wait_graph::Verdict;

/// What the end of a session costs that holds a lock of the whole server.
pub(in crate::causes) const SPOILT: &str =
    "The backup or whatever it locked for is spoilt; an open transaction is rolled back.";

/// What the end of a statement costs that locks nothing itself.
const STATEMENT_LOST: &str = "That statement is lost; what it changed is rolled back.";

impl Pileup<'_> {
    /// What to do, the best first.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        let server = &self.sample.server;
        let end_culprit = self.culprit.as_ref().and_then(|culprit| self.end(culprit));
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
            .chain(end_writer)
            .chain(end_flushers(server).filter(|_| self.is_locked))
            .chain(of_backups.into_iter().flatten())
            .chain(list)
            .chain(unlock)
            .collect()
    }

    /// Ending who blocks the others.
    fn end(&self, culprit: &Verdict<'_>) -> Option<Remedy> {
        let why = match () {
            () if self.through_flush => "The FLUSH gets its tables, does its work, and everyone goes on.",
            () if self.is_a_guess => {
                "The locks go with the session, if it is this one that has them: look whose it is before."
            }
            () => "The locks go with the session.",
        };
        // Whose statement locks the server itself, or has ended and left the locks, spoils what it locked for.
        let locks_itself = sessions::session(&self.sample.server, culprit.connection_id)
            .and_then(|thread| thread.statement.as_deref())
            .is_none_or(spindoctor_sql::locks_the_server);
        let is_statement = culprit.root.free_with.as_deref().is_some_and(|end| end.starts_with("KILL QUERY"));
        let risk =
            if self.through_flush || (is_statement && !locks_itself) { STATEMENT_LOST } else { SPOILT };
        let remedy = culprit.remedy(why)?;
        // A dump keeps its lock from one statement to the next.
        let (statement, risk) = match self.is_a_guess {
            true => (remedy.statement.replacen("KILL QUERY", "KILL", 1), SPOILT),
            false => (remedy.statement, risk),
        };
        Some(Remedy { statement, risk: risk.into(), ..remedy })
    }
}

/// Ending the statement that keeps a FLUSH from its lock.
fn end_writer(id: u64) -> Remedy {
    Remedy {
        statement: format!("KILL QUERY {id}"),
        why: "The FLUSH gets its lock, and everyone goes on when it gives it back.".into(),
        dynamic: true,
        risk: STATEMENT_LOST.into(),
        undo: String::new(),
    }
}

/// Statements whose end is proposed at most.
const ENDED: usize = 8;

/// Ending all statements that want to lock the whole server and wait: of each that stays the next statements wait.
fn end_flushers(server: &ServerSample) -> Option<Remedy> {
    let waiting = server.threads.value()?.iter().filter(|thread| waits(thread) && locks_all(thread));
    let ids = waiting.filter_map(|thread| thread.connection_id).filter(|id| killing::frees(server, *id));
    let kills: Vec<String> = ids.take(ENDED).map(|id| format!("KILL {id}")).collect();
    (!kills.is_empty()).then(|| Remedy {
        statement: kills.join("; "),
        why: "It ends what locks the server while it waits.".into(),
        dynamic: true,
        risk: "The backup, or the program that switches the server to read-only, fails.".into(),
        undo: "Run it again at a quieter time.".into(),
    })
}

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
            "It gives the locks back at once.",
            "The backup that it was taking is spoilt.",
        )
    } else {
        (
            "End the statement that has used the table longest (KILL QUERY), or UNLOCK TABLES in the session that has it locked",
            "Who waits then opens the table again.",
            "That statement is lost; what the table was locked for is no longer protected.",
        )
    };
    Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    }
}
