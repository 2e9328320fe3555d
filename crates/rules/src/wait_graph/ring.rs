//! A ring of sessions that wait for each other through locks of different kinds, as a finding shows it.

use spindoctor_model::mysql::ServerSample;
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Remedy, Sample, WaitGraph, Window, number};

use super::cycles;
use super::metadata::is_ddl;
use super::verdict::graph;
use crate::{killing, sessions};

/// Sessions of a ring that are named.
const NAMED: usize = 6;

/// A ring of row locks in which each has waited for so long, seconds, is not one that InnoDB is about to end: it looks for rings at each wait,
/// and from MySQL 8.0.18 on once a second and more often.
const LASTS_S: f64 = 2.0;

/// Why InnoDB does not end a ring of row locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undetected {
    /// `innodb_deadlock_detect` is OFF.
    Off,
    /// It lasts, and nobody gave the variable: it is OFF, or the list is not whole, and the ring is none.
    Likely,
}

/// Sessions that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Their connections, in the order in which each waits for the next; more than two where it is no plain ring.
    connections: Vec<u64>,
    /// `188 for 189 (row lock)`
    waits: Vec<String>,
    /// All of them wait for row locks, and InnoDB does not end such a ring.
    undetected: Option<Undetected>,
}

impl Ring {
    /// The ring of a sample in which somebody waits for such a lock, and somebody for one of another kind: of one kind the server
    /// ends it by itself, but for row locks where innodb_deadlock_detect is OFF, and may be OFF where somebody gave a list and not the
    /// variable. None where it is known of a member only that it is a thread.
    pub(crate) fn from_window(window: &Window, sample: &Sample, kind: LockKind) -> Option<Self> {
        let graph = graph(window, sample);
        let undetected = match window.variable("innodb_deadlock_detect") {
            Some(is_on) if is_on.eq_ignore_ascii_case("OFF") || is_on == "0" => Some(Undetected::Off),
            None if window.is_given() => Some(Undetected::Likely),
            _ => None,
        };
        let waits = || sample.server.row_lock_waits.value().into_iter().flatten();
        let lasts = |connection: &u64| {
            waits().any(|wait| wait.waiting_connection_id == Some(*connection) && wait.waited_s >= LASTS_S)
        };
        let ring = |members: &Vec<u32>| {
            let ring = Self::from_members(&graph, members, kind, undetected)?;
            let is_likely = ring.undetected == Some(Undetected::Likely);
            (!is_likely || ring.connections.iter().all(lasts)).then_some(ring)
        };
        cycles(&graph).iter().find_map(ring)
    }

    fn from_members(
        graph: &WaitGraph,
        members: &[u32],
        kind: LockKind,
        undetected: Option<Undetected>,
    ) -> Option<Self> {
        let within = |place: u32| {
            graph.edges.iter().find(|edge| {
                edge.waiter == place
                    && edge.holder.is_some_and(|holder| holder != place && members.contains(&holder))
            })
        };
        let mut at = *members.first()?;
        let (mut connections, mut waits, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        // From one to whom it waits for, until one comes again.
        while connections.len() < members.len() {
            let connection = graph.threads.get(at as usize)?.connection_id?;
            if connections.contains(&connection) {
                break;
            }
            let edge = within(at)?;
            at = edge.holder?;
            let holder = graph.threads.get(at as usize)?.connection_id?;
            connections.push(connection);
            waits.push(format!("{connection} for {holder} ({})", edge.kind.label()));
            kinds.push(edge.kind);
        }
        let is_mixed = kinds.contains(&kind) && kinds.iter().any(|other| *other != kind);
        let undetected = undetected.filter(|_| kinds.iter().all(|kind| *kind == LockKind::Row));
        (is_mixed || undetected.is_some() && kind == LockKind::Row).then_some(Self {
            connections,
            waits,
            undetected,
        })
    }

    /// `3 sessions wait for each other`
    pub(crate) fn headline(&self) -> String {
        format!(
            "{} wait for each other",
            number::counted(self.connections.len() as u64, "session", "sessions")
        )
    }

    /// Who waits for whom, and why nobody ends it.
    pub(crate) fn sentence(&self) -> String {
        let waits = self.waits.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = if self.waits.len() > NAMED { ", and so on" } else { "" };
        let nobody_ends_it = match self.undetected {
            Some(Undetected::Likely) => {
                "That is what the locks say that were given. InnoDB ends such a ring at once where innodb_deadlock_detect is ON: it is OFF, or \
                 what was given is cut or lacks the records of the locks, and somebody else has them."
            }
            Some(Undetected::Off) => {
                "InnoDB ends a ring of row locks at once where innodb_deadlock_detect is ON, and here it is OFF: it lasts until a wait \
                 takes too long (innodb_lock_wait_timeout) or one of them is ended."
            }
            None => {
                "InnoDB looks for rings of its row locks, the server for rings of its metadata locks, and nobody for one of both: it \
                 lasts until a wait takes too long (innodb_lock_wait_timeout, lock_wait_timeout) or one of them is ended."
            }
        };
        format!("Connection {waits}{more}: none of them can go on. {nobody_ends_it}")
    }

    /// True for a ring of row locks that InnoDB would end if innodb_deadlock_detect were ON.
    pub(crate) fn is_undetected(&self) -> bool {
        self.undetected == Some(Undetected::Off)
    }

    /// Why nobody ends it, as the end of a headline.
    pub(crate) fn because(&self) -> &'static str {
        match self.undetected {
            Some(Undetected::Off) => ": innodb_deadlock_detect is OFF",
            Some(Undetected::Likely) => ": innodb_deadlock_detect is OFF, or what was given is not whole",
            None => "",
        }
    }

    /// Ending one of them, so that the others go on: one with a DDL, which can be run again, before any other. None where no KILL
    /// ends one. Where it may be no ring, who has the locks is looked up before anybody is ended.
    pub(crate) fn remedy(&self, server: &ServerSample) -> Option<Remedy> {
        if self.undetected == Some(Undetected::Likely) {
            return Some(Remedy {
                statement: "SHOW GLOBAL VARIABLES LIKE 'innodb_deadlock_detect'; SELECT * FROM sys.innodb_lock_waits (before MySQL 5.7 and on \
                            MariaDB: information_schema.INNODB_LOCK_WAITS and INNODB_TRX). Where it is OFF: SET GLOBAL innodb_deadlock_detect = \
                            ON, and ROLLBACK or KILL one of the ring"
                    .into(),
                why: "Where it is OFF the ring lasts until a wait takes too long (innodb_lock_wait_timeout); where it is ON the list names who has \
                      the lock."
                    .into(),
                dynamic: true,
                risk: "Looking is safe. KILL rolls the transaction of that connection back.".into(),
                undo: String::new(),
            });
        }
        let members = || self.connections.iter().copied().filter(|id| killing::frees(server, *id));
        let has_ddl = |id: &u64| sessions::session(server, *id).is_some_and(is_ddl);
        let member = members().find(has_ddl).or_else(|| members().next())?;
        Some(sessions::ending(server, member, "It ends the ring: the others get what they wait for."))
    }
}
