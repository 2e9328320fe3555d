//! `prepared-xa-left`: a transaction that XA prepared, and nobody ends, keeps its locks.

use spindoctor_model::innodb_status::ListedTransaction;
use spindoctor_model::mysql::{PreparedXa, Transaction};
use spindoctor_model::number::{self, whole};
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Evidence, Finding, InnodbStatus, Remedy, Sample, TimeClass, Unavailable, Window};

use super::metadata_lock_pileup::{self, queue};
use super::row_lock_pileup;
use crate::draft::Draft;
use crate::rank::WARNING_FROM;
use crate::sessions::Waiting;
use crate::wait_graph::{ROLLING_BACK, without_connection};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "prepared-xa-left",
    title: "a prepared XA transaction without a connection keeps locks that others want",
    what: "XA PREPARE makes a transaction durable and leaves the decision to a coordinator: XA COMMIT or XA ROLLBACK. Where the \
           client or the coordinator is lost in between, the transaction stays prepared, without a connection, over restarts \
           of the server, and keeps its row locks.",
    why_it_hurts: "Everybody who wants one of its rows waits until innodb_lock_wait_timeout, again and again; a DDL of a table that it \
                   used waits, and everybody who comes to that table behind it. It is in no process \
                   list, and no KILL ends it.",
    evidence: "Row lock waits whose root is a transaction without a connection (INNODB_TRX, data_lock_waits), and XA RECOVER, \
               which lists what is prepared; or a metadata lock that was granted to no connection, of an object that others want. The server does not say which transaction has which name: where several are \
               prepared, each is shown. Where XA RECOVER may not be asked (MySQL 8.0 and later want XA_RECOVER_ADMIN) the \
               finding rests on the missing connection and on InnoDB's text, which prints ACTIVE (PREPARED); without both it says that the \
               transaction may have been recovered after a crash. Of a captured XA RECOVER: what it lists.",
    looks_alike: "A transaction whose connection was lost and that InnoDB rolls back has no connection either: it ends by itself, \
                  and its state says ROLLING BACK: rollback-running. An idle transaction has a connection: row-lock-pileup. \
                  InnoDB prints ACTIVE (PREPARED) for a commit under way too, as of Galera's certification.",
    remedies: "XA COMMIT or XA ROLLBACK of the transaction whose coordinator is gone frees its locks; XA RECOVER CONVERT XID \
               (MariaDB: XA RECOVER FORMAT='SQL') lists the names. Then let the coordinator resolve what it left after a crash.",
    safety: "The other branches of the distributed transaction must end in the same way, or data differ between the systems: ask \
             the coordinator, or the people who run it, first. There is no undo.",
    references: &[
        "https://dev.mysql.com/doc/refman/8.4/en/xa-statements.html",
        "https://mariadb.com/docs/server/reference/sql-statements/transactions/xa-transactions",
    ],
    costs: Costs::Waits(&[TimeClass::RowLock]),
    explains_time: &[TimeClass::RowLock, TimeClass::MetadataLock],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_list),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    window.need(|sample| &sample.server.row_lock_waits)?;
    window.need(|sample| &sample.server.transactions)?;
    let Some(kept) = rows(window).or_else(|| table(window)) else { return Ok(None) };
    Ok(finding(window, &kept))
}

/// What a transaction without a connection keeps from others.
struct Kept<'w> {
    /// The last sample that shows it.
    sample: &'w Sample,
    /// `rows`, `the metadata lock of shop.t`
    what: String,
    /// Sessions that wait, those behind others that wait among them.
    waiting: f64,
    /// The longest wait, seconds, where it is known.
    longest_s: Option<f64>,
    /// Share of the session time, 0 to 1.
    estimate: f64,
    /// Where the waits were read.
    source: &'static str,
    /// The causes that are seen of it.
    explains: &'static [&'static str],
}

/// Rows: the root of the waits for them is a transaction without a connection.
fn rows(window: &Window) -> Option<Kept<'_>> {
    let left = |sample: &Sample| {
        without_connection(window, sample, &[LockKind::Row]).filter(|root| root.doing != ROLLING_BACK)
    };
    let samples = || window.samples.iter().filter(|sample| sample.server.row_lock_waits.value().is_some());
    let sample = samples().next_back()?;
    let root = left(sample)?;
    let looked = samples().count() as f64;
    let with_root = samples().filter(|sample| left(sample).is_some()).count() as f64;
    let at_work = Waiting::count(window, |_| false).map_or(0.0, |all| all.at_work_mean);
    let waiting = f64::from(root.waiting_in_all);
    // A DDL that waits for one of its rows has the table, and others wait for that.
    let tables =
        sample.server.threads.value().into_iter().flatten().filter(|thread| queue::waits(thread)).count();
    let explains: &[&str] = match tables > 0 && tables < root.waiting_in_all as usize {
        true => &[row_lock_pileup::CAUSE.name, metadata_lock_pileup::CAUSE.name],
        false => &[row_lock_pileup::CAUSE.name],
    };
    Some(Kept {
        sample,
        what: "rows".into(),
        waiting,
        longest_s: root.longest_wait_s,
        estimate: with_root / looked * (waiting / at_work.max(waiting).max(1.0)),
        source: "lock waits, INNODB_TRX",
        explains,
    })
}

/// A table: the list of metadata locks has one of it that was granted to no connection, and others want it.
fn table(window: &Window) -> Option<Kept<'_>> {
    let waiting = Waiting::count(window, queue::waits).ok().filter(|waiting| waiting.mean > 0.0)?;
    let has_locks =
        |sample: &&Sample| sample.server.metadata_locks.value().is_some_and(|locks| !locks.is_empty());
    let sample = window.samples.iter().rfind(has_locks)?;
    let server = &sample.server;
    let is_left = |transaction: &Transaction| {
        transaction.connection_id.is_none() && transaction.state != "ROLLING BACK"
    };
    server.transactions.value()?.iter().find(|transaction| is_left(transaction))?;
    let object = queue::wanted_object(server)?;
    let is_kept = queue::locks(server)
        .any(|lock| lock.granted && queue::qualified(lock) == object && queue::owner(server, lock).is_none());
    is_kept.then(|| Kept {
        sample,
        what: format!("the metadata lock of {object}"),
        waiting: waiting.mean.round().max(1.0),
        longest_s: queue::longest_s(server),
        estimate: waiting.lost_ratio(),
        source: "metadata locks, INNODB_TRX",
        explains: &[metadata_lock_pileup::CAUSE.name],
    })
}

/// None where what has no connection was not prepared.
fn finding(window: &Window, kept: &Kept<'_>) -> Option<Finding> {
    let server = &kept.sample.server;
    let prepared = server.prepared_xa.value();
    // Without a connection, and not prepared: of InnoDB's own.
    if prepared.is_some_and(Vec::is_empty) {
        return None;
    }
    // Where XA RECOVER was refused, or nothing could be asked, InnoDB's text marks those that are prepared.
    let is_asked = window.is_given() && prepared.is_none() || server.prepared_xa.unavailable().is_some();
    let text = window.latest(|sample| &sample.server.innodb_status).filter(|_| is_asked);
    if text.is_some_and(|text| is_printed_otherwise(text, window.is_given())) {
        return None;
    }
    let is_marked = |text: &InnodbStatus| window.is_given() || printed(text).any(|one| one.is_prepared);
    let is_sure = prepared.is_some() || text.is_some_and(is_marked);
    let names: Vec<String> = prepared.into_iter().flatten().filter_map(PreparedXa::literal).collect();
    let is_plural = if kept.waiting == 1.0 { " waits" } else { "s wait" };
    let holder = match names.as_slice() {
        [name] => format!("the prepared XA transaction {name}"),
        _ if !is_sure => {
            "a transaction without a connection, prepared by XA or recovered after a crash".to_owned()
        }
        _ => "a prepared XA transaction without a connection".to_owned(),
    };
    let not_read = server.prepared_xa.unavailable();
    let why = if is_sure { WHY } else { WHY_LIKELY };
    Some(
        Draft::new(
            &CAUSE,
            kept.estimate,
            format!("{} transaction{is_plural} for {} of {holder}", whole(kept.waiting), kept.what),
        )
        .why(match (not_read.and_then(|missing| missing.unlock.as_ref()), names.len()) {
            (Some(unlock), _) => format!("{why} Its name was not read; to read it: {unlock}"),
            (None, 2..) => format!(
                "{why} {} are prepared, and the server does not say which of them has the {}.",
                names.len(),
                if kept.what == "rows" { "rows" } else { "table" }
            ),
            _ => why.to_owned(),
        })
        .evidence(Evidence::new("transactions that wait for it", kept.waiting, "", kept.source))
        .evidence_if(
            kept.longest_s.map(|waited_s| Evidence::new("longest wait", waited_s, "s", "lock waits")),
        )
        .evidence_all(
            names.iter().take(NAMED).map(|name| Evidence::new("prepared", name.clone(), "", "XA RECOVER")),
        )
        .remedies(remedies(window, &names))
        .explains(kept.explains)
        .finding(),
    )
}

/// The transactions of InnoDB's text without a connection.
fn printed(text: &InnodbStatus) -> impl Iterator<Item = &ListedTransaction> {
    text.transactions.transactions.iter().filter(|one| one.connection_id.is_none())
}

/// True where InnoDB's text shows that what has no connection was not prepared: one that was recovered after a crash has an entry there, too,
/// while InnoDB rolls it back. Of a text that somebody gave it is enough that none is prepared; a commit under way is, too, for a moment.
fn is_printed_otherwise(text: &InnodbStatus, is_given: bool) -> bool {
    if is_given {
        return !text.transactions.transactions.iter().any(|one| one.is_prepared);
    }
    printed(text).any(|one| one.active) && !printed(text).any(|one| one.is_prepared)
}

/// What XA RECOVER that somebody gave lists: whether somebody waits for what they lock it does not say.
fn of_list(window: &Window) -> Option<Finding> {
    let prepared = window.latest(|sample| &sample.server.prepared_xa).filter(|_| window.is_given())?;
    let names: Vec<String> = prepared.iter().filter_map(PreparedXa::literal).collect();
    let count = number::counted(prepared.len() as u64, "transaction is", "transactions are");
    (!prepared.is_empty()).then(|| {
        Draft::new(&CAUSE, WARNING_FROM, format!("{count} prepared by XA and not ended"))
            .why(
                "A prepared transaction keeps its locks, over restarts too, until XA COMMIT or XA ROLLBACK names it with all three parts: \
                 with the first alone the server answers XAER_NOTA, Unknown XID. One that a coordinator ends within a second is normal: \
                 ask a second time whether the same are there.",
            )
            .evidence_all(
                names.iter().take(NAMED).map(|name| Evidence::new("prepared", name.clone(), "", "XA RECOVER")),
            )
            .remedies(remedies(window, &names))
            .finding()
    })
}

const WHY: &str = "It was prepared by XA and waits for XA COMMIT or XA ROLLBACK; its client is gone, and its locks stay until then.";

/// Where neither XA RECOVER nor InnoDB's text was read.
const WHY_LIKELY: &str = "It was prepared by XA and waits for XA COMMIT or XA ROLLBACK, or it was recovered after a crash and InnoDB has not rolled \
                          it back yet. Its client is gone, and its locks stay until then.";

/// Prepared transactions that are named: more are a matter for the coordinator.
const NAMED: usize = 5;

/// Both ways to end each of these; where no name is known, how to learn it.
fn remedies(window: &Window, names: &[String]) -> Vec<Remedy> {
    let is_replica =
        window.latest(|sample| &sample.server.replication).is_some_and(|channels| !channels.is_empty());
    let branches = "The other branches of the distributed transaction must end in the same way: ask its coordinator, or the \
                    people who run it, first. There is no undo.";
    let risk = match is_replica {
        true => format!(
            "{branches} This server is a replica: what its source prepared ends when the source ends it."
        ),
        false => branches.to_owned(),
    };
    let remedy = |statement: String, why: &str| Remedy {
        statement,
        why: why.to_owned(),
        dynamic: true,
        risk: risk.clone(),
        undo: String::new(),
    };
    let lists = match window.server.version {
        Some(version) if version.is_mariadb() => "XA RECOVER FORMAT='SQL'",
        _ => "XA RECOVER CONVERT XID",
    };
    if names.is_empty() {
        return vec![remedy(
            format!("{lists}; then XA ROLLBACK or XA COMMIT of the one that is listed"),
            "Its coordinator, or you, must decide; no KILL ends it.",
        )];
    }
    let both = |name: &String| {
        [
            remedy(
                format!("XA ROLLBACK {name}"),
                "Where its coordinator did not commit: its changes are undone, its locks freed.",
            ),
            remedy(
                format!("XA COMMIT {name}"),
                "Where its coordinator committed the other branches: its changes stay.",
            ),
        ]
    };
    names.iter().take(NAMED).flat_map(both).collect()
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::mysql::{MetadataLock, RowLockWait};

    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    /// Twenty-four sessions wait for a row of a transaction, which has that connection or none.
    fn held_by(connection_id: Option<u64>) -> Build {
        let wait = move |id: u64| RowLockWait {
            waiting_connection_id: Some(id),
            blocking_connection_id: connection_id,
            waiting_transaction: id.to_string(),
            blocking_transaction: "4711".into(),
            table: "shop.stock".into(),
            index: "PRIMARY".into(),
            waited_s: 12.0,
            ..RowLockWait::default()
        };
        Build::busy("8.0.36")
            .sessions(move |_| {
                let mut sessions: Vec<_> = (20..44)
                    .map(|id| session(id, "Query", "updating", "UPDATE stock SET n = n - 1"))
                    .collect();
                sessions.extend(connection_id.map(|id| session(id, "Sleep", "", "")));
                sessions
            })
            .each(move |at_s, server, _| {
                server.row_lock_waits = answer(at_s, (20..44).map(wait).collect());
                let mut transactions: Vec<_> =
                    (20..44).map(|id| transaction(id, "LOCK WAIT", 12.0)).collect();
                transactions.extend(connection_id.map(|id| transaction(id, "RUNNING", 60.0)));
                server.transactions = answer(at_s, transactions);
            })
    }

    pub(crate) fn fires() -> Window {
        held_by(None).window()
    }

    /// The holder has a connection.
    pub(crate) fn near_miss() -> Window {
        held_by(Some(7)).window()
    }

    /// The waits could not be read.
    pub(crate) fn missing() -> Window {
        held_by(None).each(|_, server, _| server.row_lock_waits = Reading::NotAsked).window()
    }

    fn statements(window: &Window) -> Vec<String> {
        match examine(window) {
            Ok(Some(finding)) => finding.remedies.into_iter().map(|remedy| remedy.statement).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn with_prepared(names: &[&str]) -> Build {
        let names: Vec<PreparedXa> = names
            .iter()
            .map(|hex| PreparedXa { format_id: 1, global_hex: (*hex).to_owned(), branch_hex: String::new() })
            .collect();
        held_by(None).each(move |at_s, server, _| server.prepared_xa = answer(at_s, names.clone()))
    }

    #[test]
    fn a_table_that_was_granted_to_no_connection_is_kept_by_what_is_prepared() {
        let window = |owner| {
            let lock = move |id: Option<u64>, lock_type: &str, granted| MetadataLock {
                object_type: "TABLE".into(),
                schema: "shop".into(),
                name: "t".into(),
                lock_type: lock_type.into(),
                granted,
                owner_connection_id: id,
                ..MetadataLock::default()
            };
            Build::waiting(9, "Waiting for table metadata lock")
                .each(move |at_s, server, _| {
                    let waiting = (20..29).map(|id| lock(Some(id), "SHARED_READ", false));
                    server.metadata_locks =
                        answer(at_s, waiting.chain([lock(owner, "SHARED_WRITE", true)]).collect());
                    server.transactions = answer(
                        at_s,
                        vec![spindoctor_model::mysql::Transaction {
                            state: "RUNNING".into(),
                            age_s: 60.0,
                            ..Default::default()
                        }],
                    );
                    server.row_lock_waits = answer(at_s, Vec::new());
                    let name =
                        PreparedXa { format_id: 1, global_hex: "6C656674".into(), branch_hex: String::new() };
                    server.prepared_xa = answer(at_s, vec![name]);
                })
                .window()
        };
        let finding = crate::diagnose(&window(None)).findings.remove(0);
        assert_eq!(
            finding.headline,
            "9 transactions wait for the metadata lock of shop.t of the prepared XA transaction 'left','',1"
        );
        assert!(finding.remedies[0].statement.starts_with("XA ROLLBACK 'left'"), "{:?}", finding.remedies);
        let first = crate::diagnose(&window(Some(7))).findings.remove(0);
        assert_ne!(first.cause, CAUSE.name, "connection 7 has it");
    }

    #[test]
    fn the_statements_that_end_it_can_be_pasted_and_a_hostile_name_stays_in_its_quotes() {
        assert_eq!(
            statements(&with_prepared(&["6F72646572"]).window()),
            ["XA ROLLBACK 'order','',1", "XA COMMIT 'order','',1"]
        );
        let hostile = statements(&with_prepared(&["273B2044524F50"]).window());
        assert_eq!(hostile[0], "XA ROLLBACK X'273B2044524F50','',1");
        // What a recording without literals, or a hostile one, says is no name.
        assert!(statements(&with_prepared(&["', DROP"]).window())[0].starts_with("XA RECOVER CONVERT XID; "));
        assert_eq!(statements(&with_prepared(&["61"; 9]).window()).len(), 2 * NAMED);
    }

    #[test]
    fn a_transaction_without_a_connection_that_xa_did_not_prepare_is_another_cause() {
        assert_eq!(examine(&with_prepared(&[]).window()), Ok(None));
    }

    #[test]
    fn what_was_recovered_after_a_crash_is_not_called_prepared_where_the_names_may_not_be_read() {
        let printing = |listed: &[(bool, Option<u64>)]| {
            let listed: Vec<_> = listed
                .iter()
                .map(|&(is_prepared, connection_id)| ListedTransaction {
                    active: true,
                    is_prepared,
                    connection_id,
                    ..ListedTransaction::default()
                })
                .collect();
            let denied = held_by(None).each(move |at_s, server, _| {
                server.prepared_xa = Reading::Unavailable(Unavailable::because("denied"));
                let mut text = InnodbStatus::default();
                text.transactions.transactions = listed.clone();
                server.innodb_status = answer(at_s, text);
            });
            examine(&denied.window()).unwrap().map(|finding| finding.headline)
        };
        // A commit under way is prepared, and has a connection.
        assert_eq!(printing(&[(false, None), (true, Some(20))]), None);
        let prepared = printing(&[(true, None), (false, Some(20))]).unwrap();
        assert!(prepared.ends_with("of a prepared XA transaction without a connection"), "{prepared}");
        let unknown = printing(&[]).unwrap();
        assert!(unknown.ends_with("prepared by XA or recovered after a crash"), "{unknown}");
    }

    #[test]
    fn where_the_names_may_not_be_read_the_right_to_do_so_is_named() {
        let denied = held_by(None).each(|_, server, _| {
            let unlock = "GRANT XA_RECOVER_ADMIN ON *.* TO 'me'@'%'";
            server.prepared_xa = Reading::Unavailable(Unavailable::because("denied").unlock(unlock));
        });
        let finding = examine(&denied.window()).unwrap().unwrap();
        assert!(finding.why.contains("GRANT XA_RECOVER_ADMIN"), "{}", finding.why);
    }
}
