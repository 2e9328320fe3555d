//! What a KILL does not end for good: a run of an event, which the event scheduler starts again, and a statement whose client connects
//! again and repeats it.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{ServerSample, ServerThread};
use spindoctor_model::{Finding, Remedy, Window};

use crate::managed::beside;
use crate::{killing, sessions};

/// Runs of one event begin so far apart at least, seconds: half of an event's shortest interval, which is a second (MySQL Reference
/// Manual, CREATE EVENT Statement). MariaDB counts milliseconds.
const APART_S: f64 = 0.5;

/// Where the events of a server are listed.
const EVENTS: &str = "information_schema.EVENTS";

/// True for a run of an event. The server calls its thread so (sql/event_scheduler.cc). A process list has no threads' names: there a
/// client has the command Connect only until it has logged in, before its first statement, and an applier has the server's own user.
pub(crate) fn is_run_of_event(thread: &ServerThread) -> bool {
    let has_statement = thread.statement.as_deref().is_some_and(|statement| !statement.is_empty());
    match thread.name.as_str() {
        name if name.ends_with("/event_worker") => true,
        _ if killing::is_scheduled(&thread.user) => has_statement,
        "" => {
            has_statement
                && thread.command == "Connect"
                && !thread.user.is_empty()
                && thread.user != killing::OF_THE_SERVER
                && killing::state_of_applier(thread).is_none()
        }
        _ => false,
    }
}

/// True for runs of which one began before another, and has not ended. Several events may begin at one time, each by itself.
pub(crate) fn overlap<'t>(runs: impl Iterator<Item = &'t ServerThread>) -> bool {
    let (least_s, most_s) = runs.fold((f64::INFINITY, f64::NEG_INFINITY), |(least_s, most_s), run| {
        (run.time_s.min(least_s), run.time_s.max(most_s))
    });
    most_s - least_s >= APART_S
}

/// What keeps the scheduler from starting the next run of an event that runs this statement: a KILL ends one of them alone.
pub(crate) fn disable(statement: &str) -> Remedy {
    Remedy {
        statement: format!(
            "SELECT EVENT_SCHEMA, EVENT_NAME, INTERVAL_VALUE, INTERVAL_FIELD FROM {EVENTS} WHERE STATUS = 'ENABLED'; then ALTER EVENT ... \
             DISABLE for the one that runs {}",
            sessions::shortened(statement)
        ),
        why: "The scheduler starts a run at its time, though the last one has not ended. Enable the event again when a run ends before \
              the next begins: by a longer interval, a cheaper statement, or a guard (GET_LOCK with a timeout of 0 at its beginning, \
              RELEASE_LOCK at its end)."
            .into(),
        dynamic: true,
        risk: "What the event is for is not done meanwhile. Runs that have begun go on until they end or are ended.".into(),
        undo: "ALTER EVENT ... ENABLE".into(),
    }
}

/// Says of each KILL in findings that what it ends comes back. Where runs of an event overlap, what prevents the next one stands before
/// the KILL of one.
pub(crate) fn adapt(window: &Window, findings: &mut [Finding]) {
    for finding in findings {
        let is_run = |id: &u64| last_seen(window, *id).is_some_and(|(_, thread)| is_run_of_event(thread));
        let ended = |remedy: &Remedy| killing::ended_by(&remedy.statement);
        let first = finding.remedies.iter().position(|remedy| ended(remedy).iter().any(is_run));
        let root = finding.root.as_ref().and_then(|root| root.connection_id);
        let statement =
            finding.remedies.iter().flat_map(ended).chain(root).find_map(|id| overlapping(window, id));
        for remedy in &mut finding.remedies {
            let ids = ended(remedy);
            let note = of_event(&ids.iter().copied().filter(is_run).collect::<Vec<u64>>())
                .or_else(|| ids.iter().find_map(|id| of_client(window, *id)));
            if let Some(note) = note {
                remedy.risk = beside(&remedy.risk, &note);
            }
        }
        let is_said = finding.remedies.iter().any(|remedy| remedy.statement.contains(EVENTS));
        if let Some(statement) = statement.filter(|_| !is_said) {
            finding.remedies.insert(first.unwrap_or(0), disable(&statement));
        }
    }
}

/// The last list of threads that has a connection, and how it stands there.
fn last_seen(window: &Window, connection_id: u64) -> Option<(&[ServerThread], &ServerThread)> {
    window.samples.iter().rev().find_map(|sample| {
        let thread = sessions::session(&sample.server, connection_id)?;
        Some((sample.server.threads.value()?.as_slice(), thread))
    })
}

/// Of a run of an event: the statement, without its literals, of runs that overlap, where there are any of its account in its schema.
/// Who has the lock that they want may be at another statement of the same event.
fn overlapping(window: &Window, connection_id: u64) -> Option<String> {
    let (threads, run) = last_seen(window, connection_id).filter(|(_, thread)| is_run_of_event(thread))?;
    let digest = |thread: &ServerThread| thread.statement.as_deref().map(spindoctor_sql::digest);
    let mut by_statement: BTreeMap<String, Vec<&ServerThread>> = BTreeMap::new();
    for other in threads {
        let is_alike = is_run_of_event(other) && other.user == run.user && other.schema == run.schema;
        if let Some(statement) = digest(other).filter(|_| is_alike) {
            by_statement.entry(statement).or_default().push(other);
        }
    }
    by_statement.retain(|_, runs| overlap(runs.iter().copied()));
    let own = digest(run).filter(|own| by_statement.contains_key(own));
    own.or_else(|| Some(by_statement.into_iter().max_by_key(|(_, runs)| runs.len())?.0))
}

/// That the scheduler starts these again.
fn of_event(runs: &[u64]) -> Option<String> {
    const PREVENTED: &str = "ALTER EVENT ... DISABLE prevents that";
    let ids: Vec<String> = runs.iter().map(u64::to_string).collect();
    match ids.as_slice() {
        [] => None,
        [id] => Some(format!(
            "Connection {id} is a run of an event: the event scheduler starts it again at its next time. {PREVENTED}."
        )),
        ids => Some(format!(
            "Connections {} are runs of events: the event scheduler starts them again at their next time. {PREVENTED}.",
            ids.join(", ")
        )),
    }
}

/// That the client of this connection may repeat its statement: within the window another connection of the same user was at the same
/// statement and ended, and this one came after that.
fn of_client(window: &Window, connection_id: u64) -> Option<String> {
    let (_, thread) = last_seen(window, connection_id).filter(|(_, thread)| thread.is_at_work())?;
    let statement = spindoctor_sql::digest(thread.statement.as_deref()?);
    let is_whole = |server: &&ServerSample| server.threads.value().is_some() && server.cut.is_empty();
    let lists: Vec<&ServerSample> =
        window.samples.iter().map(|sample| &sample.server).filter(is_whole).collect();
    let came = lists.iter().position(|list| sessions::session(list, connection_id).is_some())?;
    let (before, since) = lists.split_at(came);
    let is_same = |other: &ServerThread| {
        other.is_at_work()
            && other.user == thread.user
            && other.statement.as_deref().is_some_and(|text| spindoctor_sql::digest(text) == statement)
    };
    let has_ended = |other: &ServerThread| {
        other.connection_id.is_some_and(|id| since.iter().all(|list| sessions::session(list, id).is_none()))
    };
    let mut earlier = before.iter().filter_map(|list| list.threads.value()).flatten();
    earlier.any(|other| is_same(other) && has_ended(other)).then(|| {
        format!(
            "Another connection of this user ran the same statement, and ended before connection {connection_id} came: its client may \
             connect again and repeat the statement."
        )
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::*;
    use crate::causes::row_lock_pileup;
    use crate::testing::{Build, session};

    fn run(name: &str, user: &str, command: &str, statement: &str) -> ServerThread {
        let is_connection = user != "system user" && user != "event_scheduler";
        ServerThread {
            name: name.into(),
            user: user.into(),
            is_connection,
            ..session(7, command, "executing", statement)
        }
    }

    #[test]
    fn a_run_of_an_event_is_known_by_its_thread_or_by_a_statement_before_any_login() {
        const WORKER: &str = "thread/sql/event_worker";
        for (name, user, command) in [
            (WORKER, "jobs", "Connect"),
            (WORKER, "", "Connect"),
            ("", "jobs", "Connect"),
            ("", "event_scheduler", "Connect"),
            // As performance_schema.threads has it, of whichever definer (MySQL 9.7.4).
            (WORKER, "event_scheduler", "Connect"),
        ] {
            assert!(is_run_of_event(&run(name, user, command, "DO SLEEP(60)")), "{name} {user} {command}");
        }
        assert!(is_run_of_event(&run(WORKER, "event_scheduler", "Connect", "")), "between two statements");
        for (name, user, command, statement) in [
            ("thread/sql/one_connection", "jobs", "Connect", "DO SLEEP(60)"),
            ("thread/sql/event_scheduler", "event_scheduler", "Connect", ""),
            ("thread/sql/replica_worker", "", "Query", "UPDATE stock SET n = 1"),
            ("", "jobs", "Query", "DO SLEEP(60)"),
            ("", "unauthenticated user", "Connect", ""),
            ("", "system user", "Connect", "UPDATE stock SET n = 1"),
            // A list without users.
            ("", "", "Connect", "UPDATE stock SET n = 1"),
            ("", "event_scheduler", "Daemon", ""),
        ] {
            assert!(!is_run_of_event(&run(name, user, command, statement)), "{name} {user} {command}");
        }
        let applies = "Applying batch of row changes (update)";
        let applier =
            ServerThread { state: applies.into(), ..run("", "jobs", "Connect", "UPDATE t SET n = 1") };
        assert!(!is_run_of_event(&applier));
    }

    /// Connection 7 sleeps with a row locked, 20 to 29 want it, and came so many seconds apart; `is_event` says which are runs of an event.
    fn queue(version: &str, is_event: impl Fn(u64) -> bool, apart_s: f64) -> Window {
        let of_event = |thread: ServerThread| {
            let id = thread.connection_id.unwrap_or(0);
            let name = if version.contains("MariaDB") { "" } else { "thread/sql/event_worker" };
            match is_event(id) {
                true => ServerThread { name: name.into(), command: "Connect".into(), ..thread },
                false => thread,
            }
        };
        Build::busy(version)
            .sessions(|_| {
                let holder =
                    ServerThread { time_s: 30.0, ..session(7, "Query", "User sleep", "DO SLEEP(60)") };
                let waiter = |id: u64| ServerThread {
                    time_s: 3.0 + apart_s * (29 - id) as f64,
                    ..session(id, "Query", "updating", "UPDATE stock SET n = n - 1")
                };
                [holder].into_iter().chain((20..30).map(waiter)).map(&of_event).collect()
            })
            .row_locked()
            .window()
    }

    fn remedies(window: &Window) -> Vec<Remedy> {
        let finding = crate::diagnose(window).findings.remove(0);
        assert_eq!(finding.cause, row_lock_pileup::CAUSE.name);
        finding.remedies
    }

    #[test]
    fn of_a_run_of_an_event_the_kill_says_that_the_scheduler_starts_it_again() {
        for version in ["8.0.36", "10.11.8-MariaDB"] {
            let one = remedies(&queue(version, |id| id == 7, 1.0));
            assert_eq!(one[0].statement, "KILL 7", "{version}: it runs by itself");
            assert!(one[0].risk.contains("Connection 7 is a run of an event"), "{}", one[0].risk);
            assert!(one[0].risk.contains("ALTER EVENT ... DISABLE"), "{}", one[0].risk);

            let overlapping = remedies(&queue(version, |_| true, 1.0));
            assert!(overlapping[0].statement.contains("FROM information_schema.EVENTS"), "{overlapping:#?}");
            assert!(overlapping[0].statement.contains("runs UPDATE stock"), "{overlapping:#?}");
            assert_eq!(overlapping[1].statement, "KILL 7", "{version}");

            let at_one_time = remedies(&queue(version, |_| true, 0.0));
            assert_eq!(at_one_time[0].statement, "KILL 7", "{version}: each by itself");

            for remedy in remedies(&queue(version, |id| id != 7, 1.0)) {
                let said = format!("{} {}", remedy.statement, remedy.risk);
                assert!(!said.contains("ALTER EVENT"), "the victim is a client's: {said}");
            }
        }
    }

    #[test]
    fn a_statement_whose_client_came_back_within_the_window_may_come_back_again() {
        let risk = |renamed_in: usize, user: &str| {
            let mut window = queue("8.0.36", |_| false, 1.0);
            for sample in window.samples.iter_mut().take(renamed_in) {
                let Reading::Available { value: threads, .. } = &mut sample.server.threads else { continue };
                threads[0].connection_id = Some(5);
                threads[0].user = user.into();
            }
            let ended = remedies(&window);
            let kill = ended.into_iter().find(|remedy| remedy.statement == "KILL 7");
            kill.map(|kill| kill.risk).unwrap_or_default()
        };
        assert!(risk(2, "app").contains("its client may connect again"), "{}", risk(2, "app"));
        assert!(!risk(2, "web").contains("connect again"), "of another user");
        assert!(!risk(0, "app").contains("connect again"), "it was there from the beginning");
    }

    #[test]
    fn what_ends_a_connection_or_its_statement_is_read_out_of_a_remedy() {
        assert_eq!(killing::ended_by("KILL 7; KILL QUERY 8"), [7, 8]);
        assert_eq!(killing::ended_by("KILL 77, and stop the job that runs FLUSH QUERY CACHE"), [77]);
        assert!(killing::ended_by("KILL QUERY of these, or KILL of the holder; SKILL 7").is_empty());
    }
}
