//! `acl-cache-contention`: logins and statements wait while privileges are changed again and again.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Evidence, Remedy, Root, SessionTime, TimeClass, Window};

use super::{connection_churn, connections_exhausted};
use crate::killing;
use crate::sessions::{at_work, shortened};
use crate::time_model::InClasses;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "acl-cache-contention",
    title: "logins and statements wait while privileges are changed again and again",
    what: "Accounts and privileges are in a cache in memory with one lock. A login, USE and the check of many statements read it; \
           GRANT, REVOKE, CREATE USER, ALTER USER and FLUSH PRIVILEGES take the lock for themselves, FLUSH PRIVILEGES while it \
           reads all tables of privileges again.",
    why_it_hurts: "While one session changes privileges no other can log in. A job that does so in a loop, beside clients that \
                   connect for each request, makes them wait in the state Waiting for acl cache lock; they come faster than they \
                   go, until max_connections refuses everybody.",
    evidence: "Sessions that wait for the privilege cache, by the state Waiting for acl cache lock or in Acl_cache_lock_guard::lock \
               by their stacks: from 5 % of the session time and half a session on, while privileges are changed (Com_grant, \
               Com_flush and the like, or a session that is seen at it). The session that is seen at it most often is named.",
    looks_alike: "Logins that take CPU alone are connection-churn. Connections that are used up by sessions that sleep are \
                  connections-exhausted; here that is only what follows.",
    remedies: "Stop the loop. GRANT, REVOKE and CREATE USER work at once: FLUSH PRIVILEGES after them does nothing but hold the lock, \
               and is for tables of privileges that were changed by hand. Grant roles once instead of privileges to each account, \
               and let clients keep their connections.",
    safety: "Ending the session that changes privileges ends it between two statements, or after the one that it is at; what it has \
             changed stays. A change that is half done may leave an account without a right that it should have.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/privilege-changes.html",
        "https://jira.percona.com/browse/PS-7143",
    ],
    costs: Costs::Waits(&[TimeClass::PrivilegeCache]),
    explains_time: &[TimeClass::PrivilegeCache, TimeClass::Login],
    stacks: Stacks::Standing(&["Acl_cache_lock_guard::lock"]),
    rule: Rule::Time(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Counters of statements that change privileges, or read them again.
const CHANGES: &[&str] = &[
    "Com_grant",
    "Com_grant_roles",
    "Com_revoke",
    "Com_revoke_all",
    "Com_revoke_roles",
    "Com_create_user",
    "Com_alter_user",
    "Com_drop_user",
    "Com_rename_user",
    "Com_set_password",
];

/// Changes a second from which on they are a loop and not an administrator's. Chosen, not derived.
const LOOP_PER_S: f64 = 1.0;

/// The name of the lock in the states of MySQL 8.0 and later.
const STATE: &str = "acl cache lock";

fn evaluate(window: &Window, time: &SessionTime) -> Outcome {
    let Some(waits) = InClasses::from_time(time, &[TimeClass::PrivilegeCache]) else { return Outcome::Clear };
    let changer = changer(window);
    let changes_per_s: f64 = CHANGES.iter().filter_map(|name| window.status_per_s(name)).sum();
    let flushes_per_s = window.status_per_s("Com_flush").unwrap_or(0.0);
    let is_seen = window
        .all(|sample| &sample.server.threads)
        .iter()
        .any(|(_, threads)| at_work(threads).any(|thread| thread.state.to_ascii_lowercase().contains(STATE)));
    if changer.is_none() && !is_seen && changes_per_s + flushes_per_s < LOOP_PER_S {
        return Outcome::Clear;
    }
    let who = match &changer {
        Some(thread) => format!(
            ": connection {} changes privileges ({})",
            thread.connection_id.unwrap_or(0),
            shortened(thread.statement.as_deref().unwrap_or_default())
        ),
        None => ", which is changed".to_owned(),
    };
    let frees = |id: &u64| killing::frees_at_the_end(window, *id);
    let status = "SHOW GLOBAL STATUS";
    let per_s = |name: &str, per_s: f64| {
        (per_s > 0.0)
            .then(|| Evidence::new(name, per_s, "1/s", status).expected(format!("< {LOOP_PER_S:.0}")))
    };
    Outcome::Fired(
        waits
            .draft(&CAUSE, format!("{:.1} sessions wait for the privilege cache{who}", waits.sessions))
            .why("Who changes privileges has the cache alone, and logins wait for it meanwhile.")
            .evidence_if(per_s("changes of privileges", changes_per_s))
            .evidence_if(per_s("FLUSH statements", flushes_per_s))
            .evidence_if(window.status_per_s("Connections").map(|per_s| Evidence::new("new connections", per_s, "1/s", status)))
            .remedy(Remedy {
                statement: "Stop the job that changes privileges in a loop; leave out FLUSH PRIVILEGES after GRANT".into(),
                why: "GRANT works at once; FLUSH PRIVILEGES only holds the lock while it reads all privileges again.".into(),
                dynamic: true,
                risk: "Accounts that the job has not come to yet do not have their rights.".into(),
                undo: String::new(),
            })
            .remedy_if(changer.and_then(|thread| thread.connection_id).filter(frees).map(|id| Remedy {
                statement: format!("KILL {id}"),
                why: "It was seen changing privileges most often; another one may take its place where the job goes on.".into(),
                dynamic: true,
                risk: "What it has changed stays; what is left of its job is not done.".into(),
                undo: String::new(),
            }))
            .remedy(Remedy {
                statement: "Keep connections open in the clients: a pool, or a proxy in front of the server".into(),
                why: "A client that is logged in does not read the cache for it again.".into(),
                dynamic: true,
                risk: "The pools' sizes in sum must stay below max_connections.".into(),
                undo: "Switch the pool off.".into(),
            })
            .root(changer.map(|thread| Root {
                thread_os_id: thread.thread_os_id,
                connection_id: thread.connection_id,
                user: thread.user.clone(),
                statement: thread.statement.clone().unwrap_or_default(),
                stack: Vec::new(),
            }))
            .explains(&[connections_exhausted::CAUSE.name, connection_churn::CAUSE.name])
            .finding(),
    )
}

/// True for a statement that takes the lock for itself.
fn changes_privileges(statement: &str) -> bool {
    const BEGINNINGS: &[&[&str]] = &[
        &["grant"],
        &["revoke"],
        &["flush", "privileges"],
        &["flush", "local", "privileges"],
        &["flush", "no_write_to_binlog", "privileges"],
        &["create", "user"],
        &["alter", "user"],
        &["drop", "user"],
        &["rename", "user"],
        &["create", "role"],
        &["drop", "role"],
        &["set", "password"],
    ];
    BEGINNINGS.iter().any(|beginning| spindoctor_sql::begins_with(statement, beginning))
}

/// The session that was seen changing privileges in most of the lists.
fn changer(window: &Window) -> Option<&ServerThread> {
    let lists = window.all(|sample| &sample.server.threads);
    let mut seen: BTreeMap<u64, (usize, &ServerThread)> = BTreeMap::new();
    let changes = |thread: &&ServerThread| thread.statement.as_deref().is_some_and(changes_privileges);
    for thread in lists.iter().flat_map(|(_, threads)| at_work(threads)).filter(changes) {
        if let Some(id) = thread.connection_id {
            seen.entry(id).or_insert((0, thread)).0 += 1;
        }
    }
    seen.into_iter().max_by_key(|(_, (times, _))| *times).map(|(_, (_, thread))| thread)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    fn waiting(state: &'static str, job: &'static str) -> Build {
        let sessions = move |_| {
            let mut all: Vec<ServerThread> = (20..60)
                .map(|id| ServerThread { command: "Connect".into(), ..session(id, "Query", state, "") })
                .collect();
            all.push(session(7, "Query", "executing", job));
            all
        };
        Build::busy("8.0.36").sessions(sessions).remote().without_profile()
    }

    pub(crate) fn fires() -> Window {
        waiting("Waiting for acl cache lock", "FLUSH PRIVILEGES").counter("Com_flush", 40.0).window()
    }

    /// They check privileges that nobody changes.
    pub(crate) fn near_miss() -> Window {
        waiting("checking permissions", "SELECT 1").window()
    }

    /// The server's threads could not be listed, and no stack was taken.
    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .remote()
            .without_profile()
            .each(|_, server, _| server.threads = spindoctor_model::Reading::NotAsked)
            .window()
    }

    #[test]
    fn who_changes_privileges_is_named_and_stands_before_the_connections_that_are_used_up() {
        let used_up = waiting("Waiting for acl cache lock", "GRANT SELECT ON a.* TO b@c")
            .gauge("Threads_connected", 151.0)
            .counter("Connection_errors_max_connections", 50.0)
            .window();
        let diagnosis = crate::diagnose(&used_up);
        let causes: Vec<_> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes[0], CAUSE.name, "{causes:?}");
        assert!(causes.contains(&"connections-exhausted"), "{causes:?}");
        let finding = &diagnosis.findings[0];
        assert!(finding.headline.contains("connection 7 changes privileges (GRANT"), "{}", finding.headline);
        assert!(finding.remedies.iter().any(|remedy| remedy.statement == "KILL 7"));
    }
}
