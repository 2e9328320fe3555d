//! `user-lock-pileup`: sessions wait for a lock of `GET_LOCK` that another has.

mod election;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Evidence, Remedy, SessionTime, TimeClass, Window, number};

use crate::time_model::InClasses;
use crate::wait_graph::{Ring, Verdict, lock_kind};
use crate::{Cause, Costs, Outcome, Rule, Stacks, sessions};

use election::{Election, may_be_one};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "user-lock-pileup",
    title: "sessions wait for a lock of GET_LOCK that another holds",
    what: "GET_LOCK(name, timeout) gives an application a lock with a name of its own. One session has it, and others that \
           ask for the same name wait. The server knows nothing of what the lock guards; the holder may be idle, for the \
           lock belongs to the session and not to a transaction.",
    why_it_hurts: "Each session that waits keeps a connection, and with MySQL a thread. A holder that forgets RELEASE_LOCK \
                   holds the lock until it disconnects; in a pool of connections that can be never.",
    evidence: "Sessions in the state User lock, or in Item_func_get_lock by their stacks: from 5 % of the session time and \
               half a session on, and from 1 % and two sessions on as a note. The holder is the connection behind which most of them wait, by \
               performance_schema.metadata_locks (USER LEVEL LOCK) or metadata_lock_info; where neither is there by \
               IS_USED_LOCK, for the names that stand in the statements that wait. Where that connection itself waits for another \
               lock, the root is who has that. The name of the lock is shown where it was read. It is a note where all of this was \
               read: the holder has had the lock for an hour or more and does no work, the same sessions wait through the window, 20 at \
               most, each from another host or all with one statement, none of them has locked a row, nobody waits for another lock \
               because of them, and the server answers ten statements a second for each of them. So it is where the holder has had the \
               lock for ten seconds and four at most wait, all with the holder's account.",
    looks_alike: "Sessions that wait for a table's metadata lock stand in another state: metadata-lock-pileup. Applications elect a \
                  leader by GET_LOCK: the instance that has the lock leads until it ends, and each of the others waits to be the \
                  next. An application that queues jobs with GET_LOCK on purpose has such waits all day, too. Then they cost \
                  connections and nothing else. The server cannot know what a lock is for.",
    remedies: "Ask the application whether it elects a leader by the lock: then nothing is wrong. Else end the holder if it is stuck \
               (KILL id): its locks are released. Then let the application release the lock in every path, take it for a short \
               time, and give GET_LOCK a timeout of seconds.",
    safety: "KILL ends the session and rolls back its open transaction; the client sees a lost connection. Whatever the lock \
             guarded may be half done: look at the application first.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/locking-functions.html",
        "https://mariadb.com/docs/server/reference/sql-functions/secondary-functions/miscellaneous-functions/get_lock",
    ],
    costs: Costs::Waits(&[TimeClass::UserLock]),
    explains_time: &[TimeClass::UserLock],
    stacks: Stacks::Standing(&["Item_func_get_lock::val_int"]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::behind_a_lock(time, &[TimeClass::UserLock]) else { return Outcome::Clear };
    let blocker = waits.blocker(window);
    let election = blocker.as_ref().and_then(|leader| Some((Election::from_window(window, leader)?, leader)));
    if let Some((election, leader)) = election {
        return Outcome::Fired(election.finding(&waits, leader, name_of_lock(window)));
    }
    let last = window.samples.last().filter(|_| blocker.is_none());
    let ring = last.and_then(|sample| Ring::from_window(window, sample, LockKind::User));
    let root = blocker.as_ref().map(Verdict::described);
    let is_a_guess = blocker.as_ref().is_some_and(Verdict::is_a_guess);
    Outcome::Fired(
        waits
            .draft(&CAUSE, headline(&waits, blocker.as_ref(), ring.as_ref()))
            .evidence_if(name_of_lock(window))
            .why(ring.as_ref().map_or_else(|| why(window, blocker.as_ref()), Ring::sentence))
            .remedy_if(blocker.as_ref().and_then(|blocker| {
                let direct = if is_a_guess {
                    "Most likely it has the lock: look whose it is before. Its locks of GET_LOCK are free when it ends."
                } else {
                    "Its locks of GET_LOCK are free when it ends."
                };
                blocker.remedy(&blocker.why_to_end(direct))
            }))
            .remedy_if(blocker.as_ref().and_then(Verdict::remedy_between))
            .remedy_if(ring.as_ref().and_then(|ring| ring.remedy(&last?.server)))
            .remedy_if((blocker.is_none() && ring.is_none() || is_a_guess).then(|| Remedy {
                statement: "SELECT IS_USED_LOCK('the name of the lock')".into(),
                why: "Its answer is the connection that has the lock; SHOW FULL PROCESSLIST has the name in the statements that wait. \
                      `spindoctor locks` looks for it in the last statements of idle sessions, too."
                    .into(),
                dynamic: true,
                risk: "It only reads.".into(),
                undo: String::new(),
            }))
            .remedy(Remedy {
                statement: "Release the lock in every path of the application, and give GET_LOCK a timeout of seconds".into(),
                why: "A lock that is forgotten lasts as long as its connection, and a pool keeps that open.".into(),
                dynamic: true,
                risk: "A change of the application.".into(),
                undo: String::new(),
            })
            .root(root)
            .finding(),
    )
}

/// Names of locks that are shown.
const NAMES: usize = 5;

/// The names of the locks that they wait for, where a list has them or their statements. A window that was saved has none.
fn name_of_lock(window: &Window) -> Option<Evidence> {
    let server = &window.samples.last()?.server;
    let asked = server.user_lock_waits.value().into_iter().flatten().map(|wait| wait.name.clone());
    let wanted = server.metadata_locks.value().into_iter().flatten();
    let wanted = wanted.filter(|lock| !lock.granted && lock_kind(lock) == LockKind::User);
    let said =
        election::asking(server).filter_map(|thread| spindoctor_sql::user_lock(thread.statement.as_deref()?));
    let sources: [(BTreeSet<String>, &str); 3] = [
        (asked.collect(), "IS_USED_LOCK"),
        (wanted.map(|lock| lock.name.clone()).collect(), "metadata locks"),
        (said.collect(), "thread list"),
    ];
    sources.into_iter().find_map(|(names, source)| {
        let names: Vec<String> =
            names.iter().filter(|name| is_plain(name)).map(|name| format!("'{name}'")).collect();
        let more = if names.len() > NAMES { ", and more" } else { "" };
        let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
        (!shown.is_empty())
            .then(|| Evidence::new("the lock's name", format!("{}{more}", shown.join(", ")), "", source))
    })
}

/// False for none, and for what stands in place of a name in a window that was saved: `#4dbed19e`.
fn is_plain(name: &str) -> bool {
    let is_code = |code: &str| code.len() == 8 && code.bytes().all(|byte| byte.is_ascii_hexdigit());
    !name.is_empty() && !name.strip_prefix('#').is_some_and(is_code)
}

/// Who waits, and behind whom.
fn headline(waits: &InClasses<'_>, blocker: Option<&Verdict<'_>>, ring: Option<&Ring>) -> String {
    let Some(blocker) = blocker else {
        let before = ring.map_or_else(String::new, |ring| format!("{}: ", ring.headline()));
        return format!("{before}{:.1} sessions wait for a lock of GET_LOCK", waits.sessions);
    };
    let id = blocker.connection_id;
    match (&blocker.chain, blocker.chained(true)) {
        (Some(chain), Some(chained)) => format!(
            "Connection {id} {}blocks {} that wait for a lock of GET_LOCK: {chained}",
            blocker.likely(),
            number::counted(chain.behind as u64, "session", "sessions")
        ),
        _ => format!(
            "Connection {id} {}holds a lock of GET_LOCK that {:.1} sessions wait for: it {}",
            if blocker.is_a_guess() { "most likely " } else { "" },
            waits.sessions,
            sessions::doing(&blocker.described())
        ),
    }
}

/// Why they wait.
fn why(window: &Window, blocker: Option<&Verdict<'_>>) -> String {
    /// Until when a holder has the lock.
    const HOLDS: &str = "The lock belongs to that session until it says RELEASE_LOCK or ends.";
    let Some(blocker) = blocker else {
        return "Who holds the lock could not be read: its name is not written out in the statements that wait. \
                performance_schema.metadata_locks (instrument wait/lock/metadata/sql/mdl) or MariaDB's plugin metadata_lock_info \
                names the holder."
            .to_owned();
    };
    if let Some(chain) = blocker.why_of_chain() {
        return chain;
    }
    if blocker.is_a_guess() {
        return "Who holds the lock could not be read. It is inferred: it is the only session that was there, and did not wait, \
                before the first of them began to wait."
            .to_owned();
    }
    let is_open = window.samples.last().is_some_and(|last| may_be_one(&last.server, blocker.connection_id));
    match is_open {
        true => format!(
            "{HOLDS} Applications elect a leader in this way, too, and then its candidates wait by design: ask the application before \
             KILL."
        ),
        false => HOLDS.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    pub(crate) fn fires() -> Window {
        Build::waiting(40, "User lock").window()
    }

    /// They sleep on purpose.
    pub(crate) fn near_miss() -> Window {
        Build::waiting(40, "User sleep").window()
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .remote()
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }
}
