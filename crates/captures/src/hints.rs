//! What a process list or a status alone only hints at, in sentences beside it: no cause rests on them.

use spindoctor_model::mysql::{NamedValues, ServerThread};
use spindoctor_model::number;

use crate::part::{Kind, Part, Said};
use crate::system::CPUS_FULL;

/// States of a statement that changes rows which it keeps while it waits for the lock of one: the list has no word for that wait.
const MAY_WAIT: [&str; 5] = [
    "updating",
    "update",
    "searching rows for update",
    "updating reference tables",
    "deleting from main table",
];
/// A statement that changes rows by a key is over in less. By judgement.
const LONG_S: f64 = 10.0;

/// So many sessions at work are more than most hosts have CPUs for. By judgement.
const MANY_RUN: f64 = 64.0;

/// Says beside process lists and statuses what they hint at, where nothing else that was given says it.
pub fn say_hints(parts: &mut [Part]) {
    let has = |kinds: &[Kind]| parts.iter().any(|part| kinds.contains(&part.kind));
    let has_locks = has(&[Kind::InnodbStatus, Kind::Transactions, Kind::LockWaits]);
    let has_replica = has(&[Kind::ReplicaStatus]);
    let mut of_system = parts.iter().filter(|part| part.kind == Kind::System).flat_map(|part| &part.says);
    let are_cpus_full = of_system.any(|said| said.starts_with(CPUS_FULL));
    for part in parts.iter_mut().filter(|part| part.kind == Kind::ProcessList) {
        let last = part.moments.iter().rev().flat_map(|moment| &moment.said);
        let Some(threads) = last
            .filter_map(|said| if let Said::Threads(threads) = said { Some(threads) } else { None })
            .next()
        else {
            continue;
        };
        part.says.extend(row_lock(threads).filter(|_| !has_locks));
        part.says.extend(alone(threads));
        part.says.extend(behind(threads).filter(|_| !has_replica));
        part.says.extend(works(threads).filter(|_| are_cpus_full));
    }
    let has_list = parts.iter().any(|part| part.kind == Kind::ProcessList);
    for part in parts.iter_mut().filter(|part| part.kind == Kind::GlobalStatus) {
        let last = part.moments.iter().rev().flat_map(|moment| &moment.said);
        let last =
            last.filter_map(|said| if let Said::Status(values) = said { Some(values) } else { None }).next();
        let Some(values) = last else { continue };
        let at_work = many_run(values).filter(|_| !has_list);
        part.says.extend(outside_of_cluster(values).into_iter().chain(at_work));
    }
}

/// A node of a Galera cluster that executes nothing: the words are those of wsrep_cluster_status and wsrep_ready.
fn outside_of_cluster(values: &NamedValues) -> Option<String> {
    let text = |wanted: &str| values.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    let status = text("wsrep_cluster_status").filter(|status| !status.is_empty())?;
    let is_out = !status.eq_ignore_ascii_case("Primary");
    let is_unready = text("wsrep_ready").is_some_and(|ready| ready.eq_ignore_ascii_case("OFF"));
    (is_out || is_unready).then(|| {
        format!(
            "the node answers its clients with error 1047 and executes nothing: wsrep_cluster_status is {status}{}. Where no node is in \
             a primary part, the one with the largest wsrep_last_committed makes it: SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'",
            if is_unready { ", wsrep_ready OFF" } else { "" }
        )
    })
}

fn many_run(values: &NamedValues) -> Option<String> {
    let running = values.number("threads_running").filter(|&running| running >= MANY_RUN)?;
    Some(format!(
        "{running:.0} sessions were at work at once: SHOW FULL PROCESSLIST says what they waited for"
    ))
}

fn row_lock(threads: &[ServerThread]) -> Option<String> {
    let may_wait = |thread: &&ServerThread| {
        thread.is_at_work()
            && thread.time_s >= LONG_S
            && MAY_WAIT.contains(&thread.state.to_ascii_lowercase().as_str())
    };
    let longest_s = threads.iter().filter(may_wait).map(|thread| thread.time_s).fold(0.0, f64::max);
    let count = threads.iter().filter(may_wait).count() as u64;
    (count > 0).then(|| {
        format!(
            "{} for up to {} in a state that a wait for a row's lock has, too: SHOW ENGINE INNODB STATUS\\G says whether it is one",
            number::counted(count, "statement changes rows", "statements change rows"),
            number::duration(longest_s)
        )
    })
}

/// Characters of a statement's shape that are shown.
const SHOWN: usize = 160;

/// The one session at work, where it has been so for long and waits for nobody: of one alone no cause says anything.
fn alone(threads: &[ServerThread]) -> Option<String> {
    /// States of who waits for another, or sleeps on purpose, in lower case.
    const WAITS: [&str; 4] = ["waiting", "user lock", "user sleep", "locked"];
    let mut at_work = threads.iter().filter(|thread| thread.is_at_work());
    let (thread, None) = (at_work.next()?, at_work.next()) else { return None };
    let state = thread.state.to_ascii_lowercase();
    let statement = thread.statement.as_deref().filter(|statement| !statement.trim().is_empty())?;
    if thread.time_s < LONG_S
        || thread.user == "system user"
        || WAITS.iter().any(|begins| state.starts_with(begins))
        || statement.trim_start().to_ascii_lowercase().starts_with("show ")
    {
        return None;
    }
    let connection = thread.connection_id.map_or_else(String::new, |id| format!("connection {id}, "));
    let state = if state.is_empty() { String::new() } else { format!(" in the state {}", thread.state) };
    let shape: String = spindoctor_sql::shape(statement).chars().take(SHOWN).collect();
    Some(format!(
        "one session alone is at work: {connection}for {}{state}, with {shape}",
        number::duration(thread.time_s)
    ))
}

/// Whether sessions that seem to run work or wait, which a list does not say, where the CPUs beside it are full.
fn works(threads: &[ServerThread]) -> Option<String> {
    let runs = |thread: &&ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        thread.is_at_work()
            && thread.user != "system user"
            && !["wait", "lock"].iter().any(|word| state.contains(word))
    };
    let longest = threads.iter().filter(runs).max_by(|one, other| one.time_s.total_cmp(&other.time_s))?;
    let count = threads.iter().filter(runs).count() as u64;
    let explain = longest
        .connection_id
        .map_or_else(String::new, |id| format!(": EXPLAIN FOR CONNECTION {id} begins with the longest"));
    (longest.time_s >= LONG_S).then(|| {
        format!(
            "the host's CPUs are full beside it, so that most of the time here is work and no wait: {}, and what they read is where time can \
             be won{explain}",
            number::counted(count, "session runs", "sessions run")
        )
    })
}

/// How far behind its source a replica is, by what its appliers are at: the time of each is that since the source made the change.
fn behind(threads: &[ServerThread]) -> Option<String> {
    /// How the states of appliers begin that none but they have, in lower case.
    const APPLIES: [&str; 5] = [
        "applying batch of row changes",
        "update_rows_log_event",
        "delete_rows_log_event",
        "write_rows_log_event",
        "executing event",
    ];
    let applies = |thread: &&ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        thread.time_s >= LONG_S && APPLIES.iter().any(|begins| state.starts_with(begins))
    };
    let oldest = threads.iter().filter(applies).max_by(|one, other| one.time_s.total_cmp(&other.time_s))?;
    let state = oldest.state.to_ascii_lowercase();
    let searches =
        ["(update)", "(delete)", "update_rows", "delete_rows"].iter().any(|what| state.contains(what));
    let searches = match searches {
        true => ". Where its table has no primary key, each changed row is a search through the table",
        false => "",
    };
    Some(format!(
        "the replica is {} behind its source: its applier is in the state {}{searches}",
        number::duration(oldest.time_s),
        oldest.state
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    fn says(text: &str) -> Vec<String> {
        let mut parts = recognise("list", text);
        say_hints(&mut parts);
        parts.into_iter().filter(|part| part.kind == Kind::ProcessList).flat_map(|part| part.says).collect()
    }

    const HEAD: &str = "Id\tUser\tCommand\tTime\tState\tInfo\n";

    #[test]
    fn a_change_of_rows_that_goes_on_may_wait_for_a_lock() {
        let list = format!(
            "{HEAD}7\tapp\tQuery\t70\tupdating\tUPDATE a SET b = 1\n8\tapp\tQuery\t2\tupdating\tUPDATE a SET b = 1\n"
        );
        let said = says(&list);
        assert!(said[1].starts_with("1 statement changes rows for up to 70 s"), "{said:?}");
        let status = "------------\nTRANSACTIONS\n------------\nTrx id counter 5\nHistory list length 7\n";
        assert_eq!(says(&format!("{list}\n{status}")).len(), 1, "the status says it");
        let reads = format!("{HEAD}7\tapp\tQuery\t70\tSending data\tSELECT 1\n");
        assert!(says(&reads).iter().all(|said| !said.contains("changes rows")), "{:?}", says(&reads));
    }

    #[test]
    fn full_cpus_beside_a_list_say_that_its_sessions_work() {
        let list = format!(
            "{HEAD}7\tapp\tQuery\t70\tSending data\tSELECT a FROM b\n8\tapp\tQuery\t62\tSending data\tSELECT a FROM b\n"
        );
        let of = |idle: &str| {
            says(&format!("{list}\n%Cpu(s): 97.1 us,  2.0 sy,  0.0 ni, {idle} id,  0.0 wa\n")).join("; ")
        };
        assert!(of("0.9").contains("EXPLAIN FOR CONNECTION 7 begins with the longest"), "{}", of("0.9"));
        assert!(!of("50.9").contains("CPUs"), "{}", of("50.9"));
    }

    #[test]
    fn how_far_behind_a_replica_is_its_appliers_say() {
        let list = |state: &str| {
            says(&format!(
                "{HEAD}35\tsystem user\tQuery\t0\tWaiting for dependent transaction to commit\tNULL\n\
                           36\tsystem user\tQuery\t5400\t{state}\tNULL\n"
            ))
            .join("; ")
        };
        let said = list("Applying batch of row changes (update)");
        assert!(said.contains("the replica is 90 min 0 s behind its source"), "{said}");
        assert!(said.contains("no primary key"), "{said}");
        assert!(!list("Applying batch of row changes (write)").contains("no primary key"));
        for state in ["Waiting for an event from Coordinator", "update", "Sending data"] {
            assert!(!list(state).contains("behind"), "{state}: {}", list(state));
        }
    }

    #[test]
    fn the_only_session_that_has_been_at_work_for_long_is_named_and_no_value_is() {
        let list = |row: &str| says(&format!("{HEAD}{row}8\tapp\tSleep\t900\t\tNULL\n"));
        assert_eq!(
            list("7\tapp\tQuery\t1770\tSending data\tSELECT a FROM b WHERE c = 'secret'\n")[1..],
            [
                "one session alone is at work: connection 7, for 29 min 30 s in the state Sending data, with SELECT a FROM b WHERE c = ?"
            ]
        );
        for row in [
            "7\tapp\tQuery\t9\tSending data\tSELECT a FROM b\n",
            "7\tapp\tQuery\t90\tUser sleep\tSELECT SLEEP(900)\n",
            "7\tapp\tQuery\t90\tWaiting for table metadata lock\tDROP TABLE a\n",
            "7\tsystem user\tQuery\t90\tupdating\tDELETE FROM a\n",
            "6\tapp\tQuery\t90\tSending data\tSELECT a FROM b\n7\tapp\tQuery\t90\tSending data\tSELECT a FROM b\n",
        ] {
            assert!(list(row).iter().all(|said| !said.contains("alone")), "{:?}", list(row));
        }
    }

    #[test]
    fn a_status_says_that_a_node_executes_nothing_and_that_many_are_at_work() {
        let says = |pairs: &[(&str, &str)]| {
            let rows: String = pairs.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
            let mut parts = recognise("status", &format!("Variable_name\tValue\nUptime\t4711\n{rows}"));
            say_hints(&mut parts);
            parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
        };
        assert!(
            says(&[("wsrep_cluster_status", "non-Primary"), ("wsrep_ready", "OFF")]).contains("error 1047")
        );
        assert!(says(&[("wsrep_cluster_status", "Primary"), ("wsrep_ready", "OFF")]).contains("error 1047"));
        assert!(!says(&[("wsrep_cluster_status", "Primary"), ("wsrep_ready", "ON")]).contains("1047"));
        assert!(says(&[("Threads_running", "480"), ("Threads_connected", "512")]).contains("480 sessions"));
        assert!(!says(&[("Threads_running", "8"), ("Threads_connected", "512")]).contains("sessions"));
    }
}
