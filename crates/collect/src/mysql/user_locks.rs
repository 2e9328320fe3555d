//! `IS_USED_LOCK()`: who has the lock of `GET_LOCK` that a statement waits for.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{ServerThread, UserLockWait};
use spindoctor_model::{ServerSample, Unavailable};

use super::perf_schema_last_statements::threads_without_locks;
use super::rows::Rows;
use super::source::{Plan, Source};
use crate::pace::Pace;
use crate::source::Cadence;

/// Names that are asked for at most, those with the most waiters. Others are not looked up.
const NAMES: usize = 8;

/// The source: a statement that waits in GET_LOCK has the name of its lock, and the server says who has a lock of that name.
/// A name that is computed, a placeholder or cut off is not known so.
///
/// Cost: nothing where nobody waits for such a lock, or where the metadata locks were read. Else one look into the server's
/// table of locks for each name, without waiting.
pub const SOURCE: Source = Source {
    name: "IS_USED_LOCK()",
    help: "who has the lock of GET_LOCK that a statement waits for",
    cost: "nothing where nobody waits so, else a look at the lock of each name, 8 at most",
    grant: |_| "",
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(1, 30),
    plan: |_, _| Plan::AskAbout(asked),
    parse: |rows, answer, sample| {
        sample.user_lock_waits = answer.reading(waits(rows, sample));
    },
    reading: ServerSample::field("user_lock_waits"),
};

/// The name that a session waits for, where it is one that is asked for as it stands: it is what a client wrote, and goes into a
/// statement of ours.
fn wanted(thread: &ServerThread) -> Option<String> {
    // sql/item_func.cc, sql/mdl.cc
    let state = thread.state.to_ascii_lowercase();
    if state != "user lock" && state != "waiting for user lock" {
        return None;
    }
    let name = spindoctor_sql::user_lock(thread.statement.as_deref()?)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-.:/#@$".contains(c);
    name.chars().all(is_plain).then_some(name)
}

fn asked(sample: &ServerSample) -> Result<Option<String>, Unavailable> {
    let mut waiters: BTreeMap<String, usize> = BTreeMap::new();
    for name in threads_without_locks(sample)?.iter().filter_map(wanted) {
        *waiters.entry(name).or_default() += 1;
    }
    let mut names: Vec<(String, usize)> = waiters.into_iter().collect();
    names.sort_by_key(|(_, waiters)| std::cmp::Reverse(*waiters));
    let rows: Vec<String> = names
        .iter()
        .take(NAMES)
        .map(|(name, _)| format!("SELECT '{name}' AS NAME, IS_USED_LOCK('{name}') AS OWNER"))
        .collect();
    Ok((!rows.is_empty()).then(|| rows.join(" UNION ALL ")))
}

/// Each session that waits for a lock of which the server named the holder.
fn waits(rows: &Rows, sample: &ServerSample) -> Vec<UserLockWait> {
    let owners: BTreeMap<&str, u64> =
        rows.iter().filter_map(|row| Some((row.text("NAME")?, row.number("OWNER")?))).collect();
    let threads = sample.threads.value().into_iter().flatten();
    let wait = |thread: &ServerThread| {
        let name = wanted(thread)?;
        let blocking_connection_id = *owners.get(name.as_str())?;
        Some(UserLockWait { waiting_connection_id: thread.connection_id?, blocking_connection_id, name })
    };
    threads.filter_map(wait).collect()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::super::fixture;
    use super::*;

    fn answer<T>(value: T) -> Reading<T> {
        Reading::Available { at_s: 0.0, took_ms: 1.0, value }
    }

    fn sample(threads: &[(u64, &str, &str)]) -> ServerSample {
        let thread = |&(id, state, statement): &(u64, &str, &str)| ServerThread {
            connection_id: Some(id),
            state: state.into(),
            statement: Some(statement.into()),
            ..ServerThread::default()
        };
        ServerSample { threads: answer(threads.iter().map(thread).collect()), ..ServerSample::default() }
    }

    #[test]
    fn each_name_that_somebody_waits_for_is_asked_for_once() {
        let waits = sample(&[
            (4, "User lock", "SELECT GET_LOCK('nightly', 600)"),
            (5, "User lock", "DO get_lock(\"job:7/a b\", -1)"),
            (6, "Waiting for user lock", "SELECT GET_LOCK('nightly', 600)"),
            (7, "executing", "SELECT GET_LOCK('mine', 600)"),
        ]);
        assert_eq!(
            asked(&waits).unwrap().unwrap(),
            "SELECT 'nightly' AS NAME, IS_USED_LOCK('nightly') AS OWNER UNION ALL \
             SELECT 'job:7/a b' AS NAME, IS_USED_LOCK('job:7/a b') AS OWNER"
        );
        let listed = ServerSample { metadata_locks: answer(Vec::new()), ..waits };
        assert_eq!(asked(&listed), Ok(None), "the list says who holds it");
        let many: Vec<String> = (0..20).map(|at| format!("SELECT GET_LOCK('n{at}', 1)")).collect();
        let many: Vec<(u64, &str, &str)> = many.iter().map(|text| (9, "User lock", text.as_str())).collect();
        assert_eq!(asked(&sample(&many)).unwrap().unwrap().matches("IS_USED_LOCK").count(), NAMES);
    }

    #[test]
    fn a_name_that_could_be_more_than_a_name_is_not_asked_for() {
        for name in [
            "'a''b'",
            r"'a\'",
            r"'\', IS_USED_LOCK(1)) -- '",
            "'ä'",
            "'a\u{0}'",
            "'a\n'",
            "CONCAT('a', 'b')",
            "?",
            "'cut",
        ] {
            let text = format!("SELECT GET_LOCK({name}, 5)");
            let found = asked(&sample(&[(4, "User lock", &text)])).unwrap();
            assert_eq!(found, None, "{name}");
        }
    }

    #[test]
    fn each_waiter_goes_with_the_holder_of_its_name() {
        let waiting = sample(&[
            (4, "User lock", "SELECT GET_LOCK('nightly', 600)"),
            (5, "User lock", "SELECT GET_LOCK('free', 600)"),
        ]);
        let rows = fixture::tabbed("NAME\tOWNER\nnightly\t12\nfree\tNULL\n");
        let wait =
            UserLockWait { waiting_connection_id: 4, blocking_connection_id: 12, name: "nightly".into() };
        assert_eq!(waits(&rows, &waiting), [wait]);
    }
}
