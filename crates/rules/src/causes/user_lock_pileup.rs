//! `user-lock-pileup`: sessions wait for a lock of `GET_LOCK` that another has.

use spindoctor_model::{Remedy, SessionTime, TimeClass, Window};

use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks, sessions};

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
               half a session on. The holder is the connection behind which most of them wait, by \
               performance_schema.metadata_locks (USER LEVEL LOCK) or metadata_lock_info; where neither is there by \
               IS_USED_LOCK, for the names that stand in the statements that wait.",
    looks_alike: "Sessions that wait for a table's metadata lock stand in another state: metadata-lock-pileup. An application \
                  that queues jobs with GET_LOCK on purpose has such waits all day; then they cost connections and nothing \
                  else.",
    remedies: "End the holder if it is stuck (KILL id): its locks are released. Then let the application release the lock in \
               every path, take it for a short time, and give GET_LOCK a timeout of seconds.",
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
    let Some(waits) = InClasses::from_time(time, &[TimeClass::UserLock]) else { return Outcome::Clear };
    let blocker = waits.blocker(window);
    let root = blocker.as_ref().map(crate::wait_graph::Verdict::described);
    let is_a_guess = blocker.as_ref().is_some_and(crate::wait_graph::Verdict::is_a_guess);
    let headline = match (&blocker, &root) {
        (Some(blocker), Some(root)) => format!(
            "Connection {} {}holds a lock of GET_LOCK that {:.1} sessions wait for: it {}",
            blocker.connection_id,
            if is_a_guess { "most likely " } else { "" },
            waits.sessions,
            sessions::doing(root)
        ),
        _ => format!("{:.1} sessions wait for a lock of GET_LOCK", waits.sessions),
    };
    Outcome::Fired(
        waits
            .draft(&CAUSE, headline)
            .why(match &blocker {
                Some(_) if is_a_guess => {
                    "Who holds the lock could not be read. It is inferred: it is the only session that was there, and did not wait, \
                     before the first of them began to wait."
                }
                Some(_) => "The lock belongs to that session until it says RELEASE_LOCK or ends.",
                None => {
                    "Who holds the lock could not be read: its name is not written out in the statements that wait. \
                     performance_schema.metadata_locks (instrument wait/lock/metadata/sql/mdl) or MariaDB's plugin metadata_lock_info \
                     names the holder."
                }
            })
            .remedy_if(blocker.as_ref().and_then(|blocker| blocker.remedy("Its locks of GET_LOCK are free when it ends.")))
            .remedy_if((blocker.is_none() || is_a_guess).then(|| Remedy {
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
