//! What the waits mean: the headline, and the reason.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::number;

use super::pileup::Pileup;
use super::waits;
use crate::killing::FLUSH_STAYS;
use crate::sessions;
use crate::wait_graph::Verdict;

impl Pileup<'_> {
    /// Who waits, and behind whom.
    pub(super) fn headline(&self) -> String {
        match (&self.culprit, self.alone) {
            (Some(culprit), _) => self.behind(culprit),
            (None, Some(flush)) => self.of_one(flush),
            (None, None) => self.of_several(),
        }
    }

    fn behind(&self, culprit: &Verdict<'_>) -> String {
        let root = culprit.described();
        let (id, blocked) = (culprit.connection_id, number::counted(self.waiters, "session", "sessions"));
        let chained = culprit.chained(true).filter(|_| !self.through_flush);
        if let Some(chained) = chained {
            let (likely, wanted) = (culprit.likely(), culprit.wanted().words());
            return format!("Connection {id} {likely}blocks {blocked} that wait for {wanted}: {chained}");
        }
        let does = match root.statement.as_str() {
            idle if idle.starts_with("idle") && self.is_a_guess => {
                "alone was there before they began to wait".to_owned()
            }
            _ if self.is_a_guess => format!("is a dump at work, {}", sessions::doing(&root)),
            idle if idle.starts_with("idle") && self.keeps_out_ddl_alone() => {
                "holds the backup lock and is idle".to_owned()
            }
            idle if idle.starts_with("idle") && !self.is_in_the_way => {
                "holds a global lock and is idle".to_owned()
            }
            _ => sessions::doing(&root),
        };
        match self.wants_all.and_then(|flush| flush.connection_id) {
            // What made the table's copies old is over: an ANALYZE, or a FLUSH that was ended.
            None if self.through_flush => {
                format!(
                    "Connection {id} keeps an old copy of a table open, which blocks {blocked}: it {does}"
                )
            }
            _ if self.through_flush => {
                format!("Connection {id} makes FLUSH wait, which blocks {blocked}: it {does}")
            }
            Some(flush) if self.is_in_the_way => format!(
                "Connection {id} makes connection {flush} wait for a lock of the whole server, which blocks {blocked}: connection \
                 {id} {does}"
            ),
            _ if self.is_a_guess => format!("Connection {id} most likely blocks {blocked}: it {does}"),
            _ => format!("Connection {id} blocks {blocked}: it {does}"),
        }
    }

    fn of_one(&self, flush: &ServerThread) -> String {
        format!(
            "Connection {} has waited{} to lock the whole server, {}",
            flush.connection_id.map_or_else(|| "(unknown)".to_owned(), |id| id.to_string()),
            // A list may have no times.
            if flush.time_s > 0.0 { format!(" {}", number::duration(flush.time_s)) } else { String::new() },
            match self.kept_by {
                Some(writer) => format!(
                    "most likely for connection {}, which runs {}",
                    writer.connection_id.unwrap_or_default(),
                    shortened(writer)
                ),
                None => "for a statement that the list does not show".to_owned(),
            }
        )
    }

    fn of_several(&self) -> String {
        let wait = number::counted(self.waiters, "session waits", "sessions wait");
        if !self.is_locked {
            let longest = self.longest_at_work();
            return format!("{wait} until nobody uses the old copy of a table any more{longest}");
        }
        match (self.has_half, self.kept_by) {
            (_, Some(writer)) => format!(
                "{wait} for a lock of the whole server; most likely connection {} keeps a FLUSH from it: it runs {}",
                writer.connection_id.unwrap_or_default(),
                shortened(writer)
            ),
            (Some(flush), None) => format!(
                "{wait} for a lock of the whole server: connection {} has half of it and waits for commits ({})",
                flush.connection_id.unwrap_or_default(),
                shortened(flush)
            ),
            (None, None) => format!("{wait} for a lock of the whole server{}", self.longest_at_work()),
        }
    }

    /// `; the longest statement at work is that of connection 9, for 600 s: SELECT ...`
    fn longest_at_work(&self) -> String {
        let Some((longest, id)) = self.longest.and_then(|longest| Some((longest, longest.connection_id?)))
        else {
            return String::new();
        };
        format!(
            "; the longest statement at work is that of connection {id}, for {}: {}",
            number::duration(longest.time_s),
            shortened(longest)
        )
    }

    /// Why they wait, with who was there before them where nobody is named.
    pub(super) fn why(&self) -> String {
        match (&self.culprit, self.alone) {
            (Some(culprit), _) => self.why_behind(culprit),
            (None, Some(_)) => self.why_unnamed().to_owned(),
            (None, None) => {
                let before = sessions::there_before(&self.sample.server, waits, false);
                self.why_unnamed().to_owned() + self.why_longest() + &before
            }
        }
    }

    /// What the longest statement at work may have to do with it.
    fn why_longest(&self) -> &'static str {
        match self.longest {
            None => "",
            Some(_) if self.is_locked => {
                " The longest statement at work began before they waited: its session may have locked the server for it, or a FLUSH \
                 waits until it ends."
            }
            Some(_) => {
                " Most likely it is the longest statement at work: it began before they waited. Its text may name the table, or a view \
                 of it."
            }
        }
    }

    fn why_behind(&self, culprit: &Verdict<'_>) -> String {
        if let Some(chain) = culprit.why_of_chain().filter(|_| !self.through_flush) {
            return chain;
        }
        match () {
            () if self.through_flush && !self.is_locked => format!(
                "A FLUSH or an ANALYZE has made the copies of its tables old that statements use: a session that opens one of them waits \
                 until this statement gives its copy back. {FLUSH_STAYS}"
            ),
            // What KILL of the FLUSH leaves is said where it is proposed.
            () if self.through_flush => {
                "A FLUSH TABLES WITH READ LOCK holds its lock already and waits for this statement to give its table back; each \
                 session that wants what the FLUSH locks queues behind it."
                    .to_owned()
            }
            () => self.why_directly(culprit).to_owned(),
        }
    }

    fn why_directly(&self, culprit: &Verdict<'_>) -> &'static str {
        match () {
            () if self.is_in_the_way => {
                "It locks nothing of the whole server. What wants to do so waits until its statement or transaction has ended, and each \
                 session that changes something queues behind that."
            }
            () if self.is_a_guess && culprit.described().statement.starts_with("idle") => {
                "Who holds the lock could not be read. It is inferred: this session alone was there before the first of them began to \
                 wait, and rests."
            }
            () if self.is_a_guess => {
                "Who holds the lock could not be read. It is inferred: this session alone dumps tables, and a dump without \
                 --single-transaction locks the whole server from its beginning to its end. It reads table by table, so that the time \
                 of its statement is that of one table."
            }
            () if self.keeps_out_ddl_alone() => {
                "Its lock is that of LOCK INSTANCE FOR BACKUP: statements that create, change, empty or drop a table, or another object, \
                 wait until it is given back. Those that read and change rows go on."
            }
            () => {
                "Its lock is of the whole server: each statement or commit that it keeps out has to wait until it is given back."
            }
        }
    }

    fn why_unnamed(&self) -> &'static str {
        match () {
            () if self.kept_by.is_some() => {
                "A FLUSH waits until no statement changes anything and no commit is under way; a SELECT ... FOR UPDATE counts as a \
                 change. Of those that are at work this one has run longest. Once the FLUSH has a part of its locks, every write \
                 waits behind it."
            }
            () if self.has_half.is_some() => {
                "A statement that locks the whole server takes two locks: it has the first, the global read lock, and waits for the \
                 second until each commit under way has ended. A commit that itself waits for the first, or for its turn behind such a \
                 one as the workers of a replica do, never ends: only the end of that statement opens the ring."
            }
            () if self.alone.is_some() => {
                "It waits until no statement changes anything and no commit is under way. The session that it waits for is not among \
                 the sessions that were read: the whole list, and metadata_locks, would show it. Once it has a part of its \
                 locks, every write waits behind it."
            }
            () if !self.is_locked => {
                "After a FLUSH TABLE or an ANALYZE a session that opens the table waits until all who use its old copy are done: a long \
                 statement, or a session that has the table by LOCK TABLES ... WRITE. Which one it is the list does not show."
            }
            () => {
                "The thread list does not show who holds the lock; the list of metadata locks would. `spindoctor locks` looks \
                 for it in the last statements of idle sessions, where performance_schema keeps them."
            }
        }
    }
}

/// What it runs, for a headline.
fn shortened(thread: &ServerThread) -> String {
    sessions::shortened(thread.statement.as_deref().unwrap_or_default())
}
