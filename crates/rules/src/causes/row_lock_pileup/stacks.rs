//! Who waits, and for whom most likely, by the stacks: where lists once a second meet none of many short waits.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::{Observation, Profile, StackSource, ThreadState};
use spindoctor_model::{Evidence, Remedy, Window, number};

use super::ROW_LOCK_FUNCTIONS;
use crate::time_model::tables::STATEMENT;
use crate::{sessions, spin_samples};

/// Snapshots in which sessions wait, and others in which none does, below which who else is in them is chance. Chosen.
const SNAPSHOTS: usize = 8;

/// Part of them in which somebody must sleep to be why they wait. Chosen: the first instants of a wait may be seen without it.
const TOGETHER: f64 = 0.9;

/// Part of the other snapshots in which somebody may sleep at the most: who always sleeps is in all of them. Chosen.
const APART: f64 = 0.2;

/// SLEEP() of a statement.
const SLEEPS: &str = "Item_func_sleep::val_int";

/// Jobs of the event scheduler.
const OF_EVENT: &[&str] = &["Event_job_data::execute", "Event_worker_thread::run"];

/// How the calls begin by which the server asks an engine for rows.
const INTO_ENGINE: &str = "handler::ha_";

/// What a session at work is seen to do.
enum Does {
    /// It waits for a row, or where InnoDB's functions have no names, in the engine for another thread.
    Waits,
    /// It sleeps (SLEEP) in its statement, or in an event.
    Sleeps { in_event: bool },
}

/// A session, or a job of the event scheduler, that sleeps while others wait.
enum Sleeper {
    Event,
    /// Its connection, and its user.
    Session(u64, String),
}

/// What the stacks show of waits that no list has met.
pub(super) struct ByStacks {
    /// Snapshots in which sessions wait, and all.
    waits: usize,
    all: usize,
    /// Connections that wait, by their users.
    users: BTreeMap<String, usize>,
    /// Who sleeps in nearly all of the snapshots in which sessions wait, and in few others.
    sleeper: Option<Sleeper>,
}

impl ByStacks {
    /// None where the stacks show too few.
    pub(super) fn from_window(window: &Window) -> Option<Self> {
        let profile = window.profile.value().filter(|profile| profile.source != StackSource::Cpu)?;
        let names_innodb = spin_samples::names_innodb(profile);
        let mut waiting: BTreeSet<u32> = BTreeSet::new();
        let mut sleeping: BTreeSet<u32> = BTreeSet::new();
        let (mut waiters, mut sleepers) = (BTreeSet::new(), BTreeMap::new());
        for seen in &profile.observations {
            match does(profile, seen, names_innodb) {
                Some(Does::Waits) => {
                    waiting.insert(seen.snapshot);
                    waiters.insert(seen.thread);
                }
                Some(Does::Sleeps { in_event }) => {
                    sleeping.insert(seen.snapshot);
                    sleepers.insert(seen.thread, in_event);
                }
                None => {}
            }
        }
        let (waits, all) = (waiting.len(), profile.snapshots.len());
        if waits < SNAPSHOTS {
            return None;
        }
        let together = sleeping.intersection(&waiting).count();
        let apart = sleeping.len() - together;
        let without = all.saturating_sub(waits);
        let goes_with_them = without >= SNAPSHOTS
            && together as f64 >= TOGETHER * waits as f64
            && apart as f64 <= APART * without as f64;
        let session = |thread: u32| listed(window, profile, thread);
        let mut users: BTreeMap<String, usize> = BTreeMap::new();
        for thread in waiters.into_iter().filter_map(session) {
            *users.entry(thread.user.clone()).or_default() += 1;
        }
        // Each run of an event has a thread of its own.
        let are_events = !sleepers.is_empty() && sleepers.values().all(|in_event| *in_event);
        let alone = sleepers.keys().next().copied().filter(|_| sleepers.len() == 1).and_then(session);
        let sleeper = match are_events {
            true => Some(Sleeper::Event),
            false => alone
                .and_then(|one| Some((one.connection_id?, one.user.clone())))
                .filter(|(id, _)| may_have_locks(window, *id))
                .map(|(id, user)| Sleeper::Session(id, user)),
        };
        Some(Self { waits, all, users, sleeper: sleeper.filter(|_| goes_with_them) })
    }

    /// `; most likely a job of the event scheduler has the lock: it sleeps (SLEEP) meanwhile`
    pub(super) fn headline(&self) -> String {
        let who = self.sleeper.as_ref().map(Sleeper::words);
        who.map_or_else(String::new, |who| {
            format!("; most likely {who} has the lock: it sleeps (SLEEP) meanwhile")
        })
    }

    pub(super) fn why(&self) -> Option<String> {
        let who = self.sleeper.as_ref()?.words();
        Some(format!(
            "No list met a session that waits: the waits are shorter than the time between two lists. In nearly all of the {} snapshots \
             of stacks in which sessions wait {who} sleeps (SLEEP), and in few of the others. What it has locked stays locked until \
             its transaction ends.",
            self.waits
        ))
    }

    pub(super) fn evidence(&self) -> Evidence {
        let many = |count: usize| number::counted(count as u64, "connection", "connections");
        let each = self.users.iter().map(|(user, count)| match user.is_empty() {
            true => many(*count),
            false => format!("{} of {user}", many(*count)),
        });
        let who: Vec<String> = each.collect();
        let who = if who.is_empty() { "sessions".to_owned() } else { who.join(", ") };
        Evidence::new("wait", format!("{who}, in {} of {} snapshots", self.waits, self.all), "", "stacks")
    }

    pub(super) fn remedy(&self) -> Option<Remedy> {
        let (statement, why) = match self.sleeper.as_ref()? {
            Sleeper::Event => (
                "SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER FROM information_schema.EVENTS WHERE STATUS = 'ENABLED' AND \
                 EVENT_DEFINITION LIKE '%SLEEP%'"
                    .to_owned(),
                "It lists the events that sleep themselves; others call a procedure that does. Take SLEEP out of the event, or COMMIT \
                 before it.",
            ),
            session @ Sleeper::Session(..) => (
                format!("Take SLEEP out of the transactions of {}, or COMMIT before it", session.words()),
                "A transaction keeps its locks while it sleeps.",
            ),
        };
        Some(Remedy {
            statement,
            why: why.to_owned(),
            dynamic: true,
            risk: "A change of what sleeps.".to_owned(),
            undo: String::new(),
        })
    }
}

impl Sleeper {
    fn words(&self) -> String {
        match self {
            Self::Event => "a job of the event scheduler".to_owned(),
            Self::Session(id, user) if user.is_empty() => format!("connection {id}"),
            Self::Session(id, user) => format!("connection {id} ({user})"),
        }
    }
}

fn does(profile: &Profile, seen: &Observation, names_innodb: bool) -> Option<Does> {
    let names = || spin_samples::names(profile, seen);
    let is_in = |functions: &[&str]| names().any(|name| functions.contains(&name));
    match () {
        () if !is_in(STATEMENT) => None,
        () if is_in(&[SLEEPS]) => Some(Does::Sleeps { in_event: is_in(OF_EVENT) }),
        () if is_in(ROW_LOCK_FUNCTIONS) => Some(Does::Waits),
        () if names_innodb || seen.state != ThreadState::Condition => None,
        () => names().any(|name| name.starts_with(INTO_ENGINE)).then_some(Does::Waits),
    }
}

/// False where transactions were listed, and that connection had none open in any of the lists.
fn may_have_locks(window: &Window, connection_id: u64) -> bool {
    let listed = || window.samples.iter().filter(|sample| sample.server.transactions.value().is_some());
    listed().next().is_none()
        || listed().any(|sample| sessions::transaction(&sample.server, connection_id).is_some())
}

/// The session of a thread of the profile, by the kernel's id of it.
fn listed<'w>(window: &'w Window, profile: &Profile, thread: u32) -> Option<&'w ServerThread> {
    let tid = u64::from(profile.threads.get(thread as usize)?.tid);
    let lists = window.samples.iter().rev().filter_map(|sample| sample.server.threads.value());
    lists.flatten().find(|one| one.is_connection && one.thread_os_id == Some(tid))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{Finding, Reading};

    use super::super::CAUSE;
    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    const IN_STATEMENT: &[&str] = &["pthread_cond_wait", "handler::ha_index_read_map", "dispatch_command"];
    const ASLEEP: &[&str] =
        &["pthread_cond_timedwait", "Item_func_sleep::val_int", "Event_job_data::execute"];

    /// In twelve of twenty snapshots two sessions wait in the engine, and one sleeps in these of them.
    fn found(sleeps: impl Fn(u32) -> bool, frames: &[&str]) -> Finding {
        found_among(sleeps, frames, |snapshot| snapshot < 12, &[9])
    }

    /// The same where they wait in these snapshots, and these connections have transactions open.
    fn found_among(
        sleeps: impl Fn(u32) -> bool,
        frames: &[&str],
        waits: impl Fn(u32) -> bool,
        open: &[u64],
    ) -> Finding {
        let threads = [(2, ThreadState::Condition, IN_STATEMENT), (1, ThreadState::Sleep, frames)];
        let mut window = Build::busy("10.5.23-MariaDB")
            .counter("Innodb_row_lock_waits", 5.0)
            .counter("Innodb_row_lock_time", 900.0)
            .sessions(|_| {
                // The kernel's ids are those of the profile's threads.
                let of = |thread_os_id, id| ServerThread {
                    thread_os_id: Some(thread_os_id),
                    ..session(id, "Sleep", "", "")
                };
                vec![of(4400, 7), of(4401, 8), of(4402, 9)]
            })
            .each(|at_s, server, _| {
                let open = open.iter().map(|&id| transaction(id, "RUNNING", 1.0)).collect();
                server.transactions = answer(at_s, open);
            })
            .only_snapshots(&threads)
            .window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!("it has stacks") };
        profile.observations.retain(|seen| match seen.thread {
            2 => sleeps(seen.snapshot),
            _ => waits(seen.snapshot),
        });
        crate::diagnose(&window).findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
    }

    #[test]
    fn who_sleeps_whenever_sessions_wait_is_named_as_likely_where_no_list_meets_them() {
        let finding = found(|snapshot| snapshot < 13, ASLEEP);
        assert!(
            finding.headline.ends_with(
                "; most likely a job of the event scheduler has the lock: it sleeps (SLEEP) meanwhile"
            ),
            "{}",
            finding.headline
        );
        assert!(
            finding.remedies[0].statement.contains("information_schema.EVENTS"),
            "{:?}",
            finding.remedies
        );
        let waits = finding.evidence.iter().find(|evidence| evidence.reading == "wait").unwrap();
        let value = spindoctor_model::Value::Text("2 connections of app, in 12 of 20 snapshots".into());
        assert_eq!((&waits.value, waits.source.as_str()), (&value, "stacks"));
        let client = &["Item_func_sleep::val_int", "dispatch_command"];
        let finding = found(|snapshot| snapshot < 12, client);
        assert!(
            finding.headline.contains("; most likely connection 9 (app) has the lock"),
            "{}",
            finding.headline
        );
        assert_eq!(finding.root, None);
    }

    #[test]
    fn who_always_sleeps_or_does_so_at_other_times_is_not_named() {
        let times: [fn(u32) -> bool; 3] = [|_| true, |snapshot| snapshot >= 12, |snapshot| snapshot < 6];
        for sleeps in times {
            let finding = found(sleeps, ASLEEP);
            assert!(!finding.headline.contains("likely"), "{}", finding.headline);
        }
    }

    #[test]
    fn who_sleeps_is_not_named_where_sessions_always_wait_or_it_has_no_transaction() {
        let client = &["Item_func_sleep::val_int", "dispatch_command"];
        let headline = |least: u32, open: u64| {
            let waits = move |snapshot: u32| snapshot >= least;
            found_among(waits, client, waits, &[open]).headline
        };
        assert!(headline(8, 9).contains("; most likely connection 9 (app) has the lock"));
        // In all snapshots, in all but seven, and where another connection has a transaction.
        for (least, open) in [(0, 9), (7, 9), (8, 8)] {
            let headline = headline(least, open);
            assert!(!headline.contains("likely"), "{least}, {open}: {headline}");
        }
    }
}
