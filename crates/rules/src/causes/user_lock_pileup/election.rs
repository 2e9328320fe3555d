//! Where an application elects a leader by GET_LOCK: one instance has the lock for as long as it lives, and the others wait for it.
//!
//! The server does not know what a lock is for. What distinguishes an election: the one that has the lock has it for long and does
//! no work, the same few sessions wait for it and do nothing else, nobody waits for another lock because of them, and the server
//! works on meanwhile.

use std::collections::BTreeSet;

use spindoctor_model::mysql::{ServerSample, ServerThread};
use spindoctor_model::wait_graph::{LockKind, WaitEdge};
use spindoctor_model::{Evidence, Finding, Remedy, Sample, Severity, TimeClass, WaitGraph, Window, number};

use super::CAUSE;
use crate::own_answers::OwnAnswers;
use crate::sessions;
use crate::time_model::{InClasses, wait_class};
use crate::wait_graph::{Verdict, graph};

/// A lock that was held for so long, seconds, is no job that was late: somebody would have come. Chosen.
const HELD_S: f64 = 3600.0;

/// One that was held for so long may be: a queue of jobs would have moved. Chosen.
const YOUNG_S: f64 = 10.0;

/// Sessions that wait for a leader that is so young at most, all with its account: a program runs in a few copies, and what queues for
/// a job often has another account than the job. Chosen.
const COPIES: usize = 4;

/// Sessions that wait for a leader at most: a program runs in so many copies. More are requests that queue. Chosen.
const CANDIDATES: usize = 20;

/// Statements a second for each of those that wait, from which on the server works on, and they are few beside its work. Chosen: a
/// server whose application stands behind the lock answers its monitors alone.
const STATEMENTS_PER_S: f64 = 10.0;

/// A wait for another lock that is as long, seconds, is more than two clients that meet. Chosen.
const WAITED_S: f64 = 1.0;

/// Locks that sessions hold by what their statements say.
const LOCKS: &[LockKind] =
    &[LockKind::Row, LockKind::Metadata, LockKind::Global, LockKind::Backup, LockKind::User];

/// A lock that an application most likely elects its leader by.
pub(super) struct Election {
    /// Those that wait to be the next.
    candidates: usize,
    /// For how long the leader has had the lock, seconds, or longer.
    held_s: f64,
    /// Statements a second that the server answers meanwhile.
    statements_per_s: f64,
    /// It has had the lock for so long that nobody else would have waited.
    is_settled: bool,
}

impl Election {
    /// None where it may be a pile-up: all that distinguishes the two must have been read.
    pub(super) fn from_window(window: &Window, leader: &Verdict<'_>) -> Option<Self> {
        if leader.is_a_guess() || leader.chain.is_some() {
            return None;
        }
        let listed: Vec<&Sample> =
            window.samples.iter().filter(|sample| sample.server.threads.value().is_some()).collect();
        let [first, .., last] = listed.as_slice() else { return None };
        let candidates = waiting(&last.server);
        if candidates.is_empty() || candidates.len() > CANDIDATES || waiting(&first.server) != candidates {
            return None;
        }
        let own_per_s = OwnAnswers::from_window(window).asked as f64 / window.seconds();
        let statements_per_s = window.status_per_s("Questions")? - own_per_s;
        let held_s = held_s(&last.server, leader.connection_id, &candidates);
        window.latest(|sample| &sample.server.transactions)?;
        let look = Look { window, leader: leader.connection_id, candidates: &candidates };
        let is_settled = held_s >= HELD_S;
        let may_be_young =
            held_s >= YOUNG_S && candidates.len() <= COPIES && look.have_one_account(&last.server);
        ((is_settled || may_be_young)
            && statements_per_s >= STATEMENTS_PER_S * candidates.len() as f64
            && listed.iter().all(|sample| look.shows_an_election(sample)))
        .then_some(Self { candidates: candidates.len(), held_s, statements_per_s, is_settled })
    }

    /// The finding: a note, as nobody waits against the application's will; or may be.
    pub(super) fn finding(
        &self,
        waits: &InClasses<'_>,
        leader: &Verdict<'_>,
        name: Option<Evidence>,
    ) -> Finding {
        let id = leader.connection_id;
        let held = number::roughly(self.held_s);
        let others = number::counted(self.candidates as u64, "session waits", "sessions wait");
        let elects = match self.is_settled {
            true => "most likely an application elects its leader so",
            false => "it may be that an application elects its leader so",
        };
        let forgotten = match self.is_settled {
            true => "A lock that was forgotten may look the same: only the application knows.",
            false => {
                "A lock that was forgotten, or one of a job that takes long, looks the same: only the application knows."
            }
        };
        waits
            .draft(
                &CAUSE,
                format!("Connection {id} has held a lock of GET_LOCK for {held} or more and {others} for it: {elects}"),
            )
            .severity(Severity::Note)
            .why(format!(
                "Applications elect a leader in this way: the instance that has the lock leads, and each of the others waits in GET_LOCK \
                 to be the next. The same sessions wait through the window and do nothing else, connection {id} does no work and has \
                 locked no row, nobody waits for another lock because of them, and the server answers {} statements a second. {forgotten}",
                number::whole(self.statements_per_s)
            ))
            .evidence(Evidence::new("the lock is held for, at least", self.held_s, "s", "thread list"))
            .evidence_if(name)
            .remedy(ask())
            .remedy_if(leader.remedy(
                "Only where the application says that the lock was forgotten: where it elects a leader, another instance becomes the \
                 leader, in the middle of what this one does.",
            ))
            .root(Some(leader.described()))
            .finding()
    }
}

/// True where nothing that was read of the holder contradicts an election: it does no work of its own.
pub(super) fn may_be_one(server: &ServerSample, holder: u64) -> bool {
    sessions::session(server, holder).is_some_and(|thread| does_no_work(server, thread))
        && !has_rows(server, holder)
}

/// Who knows what the lock is for.
fn ask() -> Remedy {
    Remedy {
        statement: "Ask the application whose account it is whether it elects a leader by this lock".into(),
        why: "Then nothing is wrong, and nothing is to be done: each that waits costs a connection.".into(),
        dynamic: true,
        risk: "It changes nothing.".into(),
        undo: String::new(),
    }
}

/// The connections that wait for a lock of GET_LOCK.
fn waiting(server: &ServerSample) -> BTreeSet<u64> {
    asking(server).filter_map(|thread| thread.connection_id).collect()
}

/// The sessions that wait for one.
pub(super) fn asking(server: &ServerSample) -> impl Iterator<Item = &ServerThread> {
    let threads = server.threads.value().map(Vec::as_slice).unwrap_or_default();
    sessions::at_work(threads).filter(|thread| wait_class(&thread.state, &[]) == Some(TimeClass::UserLock))
}

/// For how long the leader has had the lock, at least: it has taken none while it rests, and who waits waits for it.
fn held_s(server: &ServerSample, leader: u64, candidates: &BTreeSet<u64>) -> f64 {
    let ids = candidates.iter().copied().chain([leader]);
    let threads = ids.filter_map(|id| sessions::session(server, id));
    threads.map(|thread| thread.time_s).fold(0.0, f64::max)
}

/// What each sample must show.
struct Look<'l> {
    window: &'l Window,
    leader: u64,
    candidates: &'l BTreeSet<u64>,
}

impl Look<'_> {
    fn shows_an_election(&self, sample: &Sample) -> bool {
        let server = &sample.server;
        let asking = || self.candidates.iter().filter_map(|id| sessions::session(server, *id));
        let leads = sessions::session(server, self.leader).is_some_and(|leader| does_no_work(server, leader));
        leads
            && server.cut.is_empty()
            && waiting(server).is_subset(self.candidates)
            && asking().all(|thread| thread.statement.as_deref().is_none_or(touches_nothing))
            && are_candidates(&asking().collect::<Vec<_>>())
            && self.candidates.iter().chain([&self.leader]).all(|id| !has_rows(server, *id))
            && self.nobody_else_waits(&graph(self.window, sample))
    }

    /// True where all of them have the leader's account.
    fn have_one_account(&self, server: &ServerSample) -> bool {
        let ids = self.candidates.iter().copied().chain([self.leader]);
        let sessions = ids.filter_map(|id| sessions::session(server, id));
        let users: BTreeSet<&str> = sessions.map(|thread| thread.user.as_str()).collect();
        users.len() == 1 && !users.contains("")
    }

    /// The candidates wait for the leader alone, nobody waits for one of them, and nobody else waits for long.
    fn nobody_else_waits(&self, graph: &WaitGraph) -> bool {
        let id = |place: u32| graph.threads.get(place as usize).and_then(|thread| thread.connection_id);
        let is_of_it = |id: u64| id == self.leader || self.candidates.contains(&id);
        let is_right = |edge: &WaitEdge| {
            let holder = edge.holder.and_then(id);
            match id(edge.waiter).is_some_and(is_of_it) {
                // In a sample without a list of locks the holder is inferred, or nobody.
                true => edge.kind == LockKind::User && (edge.is_inferred || holder == Some(self.leader)),
                false => !holder.is_some_and(is_of_it) && edge.waited_s.is_some_and(|s| s < WAITED_S),
            }
        };
        graph.edges.iter().filter(|edge| LOCKS.contains(&edge.kind)).all(is_right)
    }
}

/// Copies of one program: each from another host, or all with one statement.
fn are_candidates(asking: &[&ServerThread]) -> bool {
    let digests: BTreeSet<String> =
        asking.iter().filter_map(|thread| thread.statement.as_deref()).map(spindoctor_sql::digest).collect();
    let hosts: BTreeSet<&str> = asking.iter().map(|thread| thread.host.as_str()).collect();
    let names: BTreeSet<String> = asking
        .iter()
        .filter_map(|thread| thread.statement.as_deref().and_then(spindoctor_sql::user_lock))
        .collect();
    let has_hosts = hosts.len() == asking.len() && !hosts.contains("");
    names.len() <= 1 && (digests.len() <= 1 || has_hosts)
}

/// True for a session that rests, or runs a statement that keeps its connection alive.
fn does_no_work(server: &ServerSample, thread: &ServerThread) -> bool {
    match thread.command.as_str() {
        "Sleep" => server.last_statement(thread).is_none_or(touches_nothing),
        "Ping" => true,
        "Query" | "Execute" => thread.statement.as_deref().is_some_and(touches_nothing),
        _ => false,
    }
}

/// True for a statement that reads and changes no table: `SELECT 1`, `SELECT GET_LOCK('leader', 60)`.
fn touches_nothing(statement: &str) -> bool {
    const WORDS: [&str; 3] = ["SELECT", "DO", "SET"];
    WORDS.contains(&spindoctor_sql::kind(statement).as_str())
        && spindoctor_sql::first_table(statement).is_none()
}

/// True for who has changed or locked rows in its open transaction, as far as it was read.
fn has_rows(server: &ServerSample, connection_id: u64) -> bool {
    sessions::transaction(server, connection_id)
        .is_some_and(|open| open.rows_modified > 0 || open.rows_locked > 0)
}
