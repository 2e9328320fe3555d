//! What to do about the waits, and what that costs.

use spindoctor_model::Remedy;
use spindoctor_model::mysql::{MetadataLock, ServerSample, ServerThread};

use super::ground::Ground;
use super::pileup::Pileup;
use super::queue::{first_in_queue, is_strong, locks, owner, waits};
use crate::killing;
use crate::sessions;
use crate::wait_graph::Verdict;

impl Pileup<'_> {
    /// What to do, the best first.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        let end_holder = self.culprit.as_ref().and_then(|culprit| {
            culprit.remedy(&culprit.why_to_end(self.ground.map_or("", Ground::why_to_end_it)))
        });
        let stop_applier = self.culprit.as_ref().and_then(|culprit| culprit.stop_applier(self.window));
        let list = sessions::listing_locks(self.window).filter(|_| self.is_unnamed());
        let is_kept_without_ddl =
            || self.knows_wishes() && !self.has_ddl_that_waits() && !self.has_ddl_at_work();
        let unlock = (self.is_unnamed() && (self.was_locked || is_kept_without_ddl()) && !self.is_passing)
            .then(|| unlock_tables(self.was_locked, self.window.is_given()));
        let kill_ddl = kill_of_ddls(self.server).filter(|_| !self.was_locked);
        let is_ended_as_ddl = |kill: &Remedy| {
            kill_ddl.as_ref().is_some_and(|ddls| ddls.statement.split("; ").any(|one| one == kill.statement))
        };
        let end_between =
            self.culprit.as_ref().and_then(Verdict::remedy_between).filter(|kill| !is_ended_as_ddl(kill));
        let ring = self.ring.as_ref().filter(|_| kill_ddl.is_none());
        end_holder
            .into_iter()
            .chain(stop_applier)
            .chain(self.connections_of_numbers())
            .chain(end_between)
            .chain(list)
            .chain(unlock)
            .chain(ring.and_then(|ring| ring.remedy(self.server)))
            .chain(kill_ddl)
            .chain((self.ddl.is_some() || self.is_passing).then(shorter_wait_of_ddl))
            .collect()
    }
}

/// Threads whose connections are asked for at most.
const ASKED: usize = 8;

impl Pileup<'_> {
    /// What finds the connections of who holds the table and of who waits for it, where a list of locks has the numbers alone that
    /// performance_schema.threads gives them: KILL wants a connection.
    fn connections_of_numbers(&self) -> Option<Remedy> {
        // On a live server a session that has just ended is in no list either.
        if self.culprit.is_some() || !self.window.is_given() && self.by_number.is_none() {
            return None;
        }
        let is_nameless = |lock: &&MetadataLock| !lock.granted && owner(self.server, lock).is_none();
        let pending = || locks(self.server).filter(is_nameless);
        // Who wants the table for itself comes before those that queue behind it.
        let strong = pending().filter(|lock| is_strong(&lock.lock_type));
        let others = pending().filter(|lock| !is_strong(&lock.lock_type));
        let waiting = strong.chain(others).filter_map(|lock| lock.owner_internal_id);
        let mut numbers: Vec<u64> = Vec::new();
        for number in self.by_number.into_iter().chain(waiting) {
            if !numbers.contains(&number) && numbers.len() < ASKED {
                numbers.push(number);
            }
        }
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let (why, risk) = match self.by_number {
            _ if numbers.is_empty() => return None,
            Some(_) => (
                "The first holds the table: KILL with its PROCESSLIST_ID frees those that wait.",
                "It only reads. KILL rolls the open transaction of that connection back.",
            ),
            None => (
                "They wait for the table: KILL with the PROCESSLIST_ID of the DDL among them ends what the others queue behind.",
                "It only reads. A DDL that is ended has to be run again.",
            ),
        };
        Some(Remedy {
            statement: format!(
                "SELECT THREAD_ID, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_INFO FROM performance_schema.threads WHERE THREAD_ID IN \
                 ({})",
                numbers.join(", ")
            ),
            why: why.into(),
            dynamic: true,
            risk: risk.into(),
            undo: String::new(),
        })
    }
}

/// What frees the others, for who knows which session it is: no list names it.
fn unlock_tables(was_locked: bool, is_given: bool) -> Remedy {
    let why = match () {
        () if was_locked => "Nothing else keeps out statements that began to wait before the DDL.",
        // What was given may be a part of the list.
        () if is_given => {
            "No DDL that waits is in what was given: most likely a session has locked the table."
        }
        () => "No DDL waits, and nothing else keeps out statements that read and write rows.",
    };
    Remedy {
        statement: "UNLOCK TABLES (or HANDLER ... CLOSE) in the session that locked the table".into(),
        why: why.into(),
        dynamic: true,
        risk: "What it locked the table for is no longer protected.".into(),
        undo: String::new(),
    }
}

/// What keeps a DDL from stopping everybody the next time.
fn shorter_wait_of_ddl() -> Remedy {
    Remedy {
        statement: "SET SESSION lock_wait_timeout = 5, before each DDL".into(),
        why: "A DDL that cannot get the table gives up before everyone queues behind it.".into(),
        dynamic: true,
        risk: "The DDL fails with error 1205 and has to be tried again.".into(),
        undo: "It ends with the session.".into(),
    }
}

/// DDLs that wait whose end is proposed: of more the first ones.
pub(super) const ENDED: usize = 8;

/// Ending the DDLs that wait, the first in the queue first. Of several each keeps out those behind it, so that all have to go.
fn kill_of_ddls(server: &ServerSample) -> Option<Remedy> {
    // By its lock, where a prepared statement has no text.
    let first = first_in_queue(server)?.connection_id;
    let is_ddl = |thread: &ServerThread| {
        thread.connection_id == first
            || thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table)
    };
    let waiting = server.threads.value()?.iter().filter(|thread| thread.is_at_work() && waits(thread));
    let (mut ddls, others): (Vec<&ServerThread>, Vec<&ServerThread>) =
        waiting.partition(|thread| is_ddl(thread));
    ddls.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    let of = |ddl: &&ServerThread| ddl.connection_id.filter(|id| killing::frees(server, *id));
    let ids: Vec<u64> = ddls.iter().filter_map(of).collect();
    let kills: Vec<String> = ids.iter().take(ENDED).map(|id| format!("KILL {id}")).collect();
    let why = match (ids.len(), others.len()) {
        (0, _) => return None,
        (1, 0) => "It ends the DDL that waits.".to_owned(),
        (1, _) => "It ends the DDL that waits; everyone queued behind it goes on at once.".to_owned(),
        (2..=ENDED, 0) => "They end the DDLs that wait: of each that stays, the next statements wait.".to_owned(),
        (2..=ENDED, _) => {
            "They end the DDLs that wait, one behind the other; everyone queued behind them goes on when the last is gone.".to_owned()
        }
        (all, _) => format!("They end the first of {all} DDLs that wait: who is queued goes on when the last is gone."),
    };
    let is_one = ids.len() == 1;
    Some(Remedy {
        statement: kills.join("; "),
        why,
        dynamic: true,
        risk: if is_one { "The DDL has to be run again." } else { "The DDLs have to be run again." }.into(),
        undo: format!(
            "Run the DDL{} again, with SET SESSION lock_wait_timeout = 5.",
            if is_one { "" } else { "s" }
        ),
    })
}
