//! An applier that waits for a lock of a session: that session is the root of the lag, and no applier is slow.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::wait_graph::LockKind;
use spindoctor_model::{Remedy, Root, Window};

use crate::causes::global_lock_pileup::SPOILT;
use crate::replica::{self, KeepingUp};
use crate::sessions;
use crate::wait_graph::Verdict;

/// What a session keeps to itself until its transaction, or itself, ends. A latch or a mutex it has for an instant.
const KINDS: &[LockKind] = &[LockKind::Row, LockKind::Metadata, LockKind::Global, LockKind::Backup];

/// Waits of an applier that are for a lock of somebody else, as [`replica::waits_for`] calls them.
const LOCKS: &[&str] = &["metadata lock", "global read lock", "table lock", "table flush", "backup lock"];

/// A session that blocks the applier in so many of the samples stays: a hot row has another holder in each. Chosen.
const STAYS: f64 = 0.5;

/// What a session does that has locked tables by name, and has no transaction.
const HOLDS_TABLES: &str = "idle, holding tables";

/// Why an applier waits that has work.
pub(super) enum Blocked<'w> {
    /// For a session.
    By(Box<Verdict<'w>>),
    /// For a lock; the lists do not show whose.
    Unnamed(&'static str),
}

impl<'w> Blocked<'w> {
    /// None where the appliers wait for nobody, or for an instant.
    pub(super) fn from_window(window: &'w Window, seen: &KeepingUp) -> Option<Self> {
        let by = || Some(Self::By(Box::new(session(window, seen)?)));
        by().or_else(|| Some(Self::Unnamed(lock_of_state(window)?)))
    }

    /// For a headline: `the applier waits for connection 65, which is idle in transaction`.
    pub(super) fn who(&self) -> Option<String> {
        let Self::By(verdict) = self else { return None };
        let likely = verdict.likely();
        let through = match &verdict.chain {
            Some(chain) if chain.next.is_some() => format!("{}, which waits behind ", chain.holder),
            Some(chain) => format!("{}, which waits for ", chain.holder),
            None => String::new(),
        };
        let does = sessions::doing(&verdict.described());
        Some(format!(
            "the applier {likely}waits for {through}connection {}, which {does}",
            verdict.connection_id
        ))
    }

    /// The mechanism.
    pub(super) fn why(&self) -> String {
        match self {
            Self::By(verdict) => {
                let holds = match verdict.why_of_chain() {
                    Some(chain) => format!(
                        "it waits for a lock, and all that the source sends queues behind it. {chain}"
                    ),
                    None => format!(
                        "it waits for what this session {}holds ({}), and all that the source sends queues behind it.",
                        verdict.likely(),
                        what(verdict)
                    ),
                };
                let inferred = match () {
                    () if verdict.is_a_guess() => {
                        " Who holds it could not be read. It is inferred: this session alone was there before the applier began to wait."
                    }
                    () if !verdict.likely().is_empty() => {
                        " Who holds it could not be read. It is inferred from what the sessions have open and run."
                    }
                    () => "",
                };
                format!("The applier is not slow: {holds}{inferred}")
            }
            Self::Unnamed(lock) => format!(
                "The applier is not slow: it waits for a lock that a session on this replica holds ({lock}), and all that the source sends \
                 queues behind it. Whose it is the lists that were read do not show."
            ),
        }
    }

    /// What frees the applier.
    pub(super) fn remedy(&self) -> Remedy {
        let Self::By(verdict) = self else { return look() };
        let why = verdict.why_to_end("The applier gets what it waits for, and goes on.");
        let Some(mut remedy) = verdict.remedy(&why) else {
            return look();
        };
        let locks_all =
            matches!(verdict.held.kind, LockKind::Global | LockKind::Backup) && !verdict.held.is_old_copy();
        if locks_all {
            remedy.statement = remedy.statement.replacen("KILL QUERY", "KILL", 1);
            remedy.risk = SPOILT.into();
        }
        if locks_all || (verdict.chain.is_none() && verdict.root.doing == HOLDS_TABLES) {
            remedy.why =
                "The locks go with the session (UNLOCK TABLES in it gives them back, too), and the applier goes on.".into();
        }
        if verdict.is_likely() {
            remedy.why = format!(
                "Most likely it is this session that the applier waits for: look first whose it is, and what it is for. {}",
                remedy.why
            );
        }
        remedy
    }

    /// The session.
    pub(super) fn root(&self) -> Option<Root> {
        match self {
            Self::By(verdict) => Some(verdict.described()),
            Self::Unnamed(_) => None,
        }
    }
}

/// `row lock on shop.t`
fn what(verdict: &Verdict<'_>) -> String {
    let (kind, object) = (verdict.held.kind.label(), verdict.held.object.as_str());
    if object.is_empty() || object.contains(kind) { kind.to_owned() } else { format!("{kind}, {object}") }
}

/// The session behind which an applier waits in most of the samples, or at the window's end where nothing was applied in all of it: the
/// stacks go with the last sample alone. What is inferred there must hold in half of the samples in which an applier has work, as what
/// is no longer seen at the end.
fn session<'w>(window: &'w Window, seen: &KeepingUp) -> Option<Verdict<'w>> {
    let listed: Vec<_> =
        window.samples.iter().filter(|sample| sample.server.threads.value().is_some()).collect();
    let roots: Vec<Option<Verdict<'w>>> = listed
        .iter()
        .filter(|sample| sample.server.threads.value().into_iter().flatten().any(applies))
        .map(|sample| Verdict::before(window, sample, KINDS, applies))
        .collect();
    let times = |id: u64| roots.iter().flatten().filter(|root| root.connection_id == id).count();
    let is_of_half = |root: &&Verdict<'w>| times(root.connection_id) as f64 >= STAYS * roots.len() as f64;
    let at_the_end = roots.last()?.as_ref().filter(|root| root.likely().is_empty() || is_of_half(root));
    let root = at_the_end.or_else(|| roots.iter().flatten().rev().find(is_of_half))?;
    let times = times(root.connection_id);
    let stays = times >= 2 && times as f64 >= STAYS * listed.len() as f64;
    let nothing_is_applied = seen.applied_per_s == Some(0.0) || listed.len() == 1 && window.is_given();
    (stays || nothing_is_applied).then(|| root.clone())
}

fn applies(thread: &ServerThread) -> bool {
    replica::is_applier(thread) && !replica::rests(thread)
}

/// The lock for which an applier waits in most of the samples, by its state.
fn lock_of_state(window: &Window) -> Option<&'static str> {
    let lists = window.all(|sample| &sample.server.threads);
    let waits: Vec<&'static str> = lists
        .iter()
        .filter_map(|(_, threads)| {
            let mut locks = threads.iter().filter(|thread| applies(thread)).map(replica::waits_for);
            locks.find(|wait| LOCKS.contains(wait))
        })
        .collect();
    let last = *waits.last()?;
    (waits.len() as f64 > STAYS * lists.len() as f64).then_some(last)
}

/// Where no statement frees it, or nobody is named.
fn look() -> Remedy {
    Remedy {
        statement: "spindoctor locks".into(),
        why: "It shows for whom the applier waits, and what would free it.".into(),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread};
    use spindoctor_model::{Finding, Reading};

    use super::super::tests::{found, replica};
    use crate::testing::{Build, answer, session, transaction};

    /// The example's replica, whose applier (connection 7) is in that state.
    fn waiting(state: &'static str, holder: ServerThread) -> Build {
        replica(|at_s| 20.0 + 0.8 * at_s).each(move |_, server, _| {
            if let Reading::Available { value: threads, .. } = &mut server.threads {
                for thread in threads.iter_mut().filter(|thread| thread.connection_id == Some(7)) {
                    thread.state = state.into();
                    thread.internal_id = Some(47);
                }
                threads.push(holder.clone());
            }
        })
    }

    fn first_statement(finding: &Finding) -> &str {
        finding.remedies.first().map_or("", |remedy| &remedy.statement)
    }

    #[test]
    fn an_idle_transaction_that_has_the_appliers_row_is_the_root() {
        let holder = session(65, "Sleep", "", "");
        let row = waiting("Applying batch of row changes (update)", holder).each(|at_s, server, _| {
            let open = vec![transaction(65, "RUNNING", 30.0), transaction(7, "LOCK WAIT", 20.0)];
            server.transactions = answer(at_s, open);
            server.row_lock_waits = answer(
                at_s,
                vec![RowLockWait {
                    waiting_connection_id: Some(7),
                    blocking_connection_id: Some(65),
                    waiting_transaction: "9007".into(),
                    blocking_transaction: "9065".into(),
                    table: "shop.t".into(),
                    waited_s: 20.0,
                    ..RowLockWait::default()
                }],
            );
        });
        let finding = found(&row.window());
        let headline = "the applier waits for connection 65, which is idle in transaction";
        assert!(finding.headline.ends_with(headline), "{}", finding.headline);
        assert_eq!(first_statement(&finding), "KILL 65");
        assert_eq!(finding.root.as_ref().and_then(|root| root.connection_id), Some(65));
        assert!(!finding.why.contains("the applier itself"), "{}", finding.why);
        assert!(finding.remedies.iter().all(|remedy| !remedy.statement.contains("workload")));
    }

    #[test]
    fn the_owner_of_the_global_read_lock_is_the_root_and_without_the_list_none_is() {
        let lock = |connection: u64, lock_type: &str, granted| MetadataLock {
            object_type: "GLOBAL".into(),
            lock_type: lock_type.into(),
            granted,
            owner_internal_id: Some(connection + 40),
            ..MetadataLock::default()
        };
        let busy = session(111, "Query", "executing", "SELECT 1");
        let unnamed = || waiting("Waiting for global read lock", busy.clone());
        let named = waiting("Waiting for global read lock", session(111, "Sleep", "", ""));
        let named = named.each(move |at_s, server, _| {
            let locks = vec![lock(111, "SHARED", true), lock(7, "INTENTION_EXCLUSIVE", false)];
            server.metadata_locks = answer(at_s, locks);
        });
        let finding = found(&named.window());
        assert!(finding.headline.contains("the applier waits for connection 111"), "{}", finding.headline);
        assert_eq!(first_statement(&finding), "KILL 111");
        assert!(finding.remedies[0].risk.contains("backup"), "{finding:?}");
        let finding = found(&unnamed().window());
        assert!(finding.why.contains("(global read lock)"), "{}", finding.why);
        assert_eq!((first_statement(&finding), &finding.root), ("spindoctor locks", &None));
    }

    #[test]
    fn of_a_chain_the_session_between_is_named_with_what_each_holds() {
        let table = |connection: u64, lock_type: &str, granted| MetadataLock {
            object_type: "TABLE".into(),
            schema: "shop".into(),
            name: "t".into(),
            lock_type: lock_type.into(),
            granted,
            owner_internal_id: Some(connection + 40),
            ..MetadataLock::default()
        };
        let between = session(66, "Query", "updating", "UPDATE s SET n = 1");
        let window = waiting("Waiting for table metadata lock", between).each(move |at_s, server, _| {
            if let Reading::Available { value: threads, .. } = &mut server.threads {
                threads.push(session(65, "Sleep", "", ""));
            }
            server.transactions =
                answer(at_s, vec![transaction(65, "RUNNING", 60.0), transaction(66, "LOCK WAIT", 30.0)]);
            server.metadata_locks =
                answer(at_s, vec![table(66, "EXCLUSIVE", true), table(7, "SHARED_WRITE", false)]);
            let row = RowLockWait {
                waiting_connection_id: Some(66),
                blocking_connection_id: Some(65),
                waiting_transaction: "9066".into(),
                blocking_transaction: "9065".into(),
                table: "shop.s".into(),
                waited_s: 30.0,
                ..RowLockWait::default()
            };
            server.row_lock_waits = answer(at_s, vec![row]);
        });
        let finding = found(&window.window());
        let headline = "the applier waits for connection 66, which waits for connection 65, which is idle in transaction";
        assert!(finding.headline.ends_with(headline), "{}", finding.headline);
        assert!(finding.why.contains("connection 65 holds a row lock on shop.s"), "{}", finding.why);
        assert!(!finding.why.contains("what this session holds"), "{}", finding.why);
        assert_eq!(first_statement(&finding), "KILL 65");
    }

    /// Of an applier that waits for a table since before the window, where nobody lists locks: cron has rested for as long, and a login
    /// of an administrator for so long in each sample.
    fn behind_a_table(login_s: fn(f64) -> f64) -> Finding {
        let cron = ServerThread { schema: "shop".into(), ..session(72, "Sleep", "", "") };
        let window = waiting("Waiting for table metadata lock", cron).each(move |at_s, server, _| {
            if let Reading::Available { value: threads, .. } = &mut server.threads {
                for thread in threads.iter_mut() {
                    match thread.connection_id {
                        Some(7) => thread.time_s = at_s + 5.0,
                        Some(72) => thread.time_s = at_s + 5.2,
                        _ => {}
                    }
                }
                threads.push(ServerThread { time_s: login_s(at_s), ..session(4, "Sleep", "", "") });
            }
            if let Reading::Available { value: channels, .. } = &mut server.replication {
                channels[0].applied_file = "binlog.000003".into();
                channels[0].applied_position = Some(1407);
            }
            server.transactions = answer(at_s, Vec::new());
            server.metadata_locks = Reading::NotAsked;
        });
        found(&window.window())
    }

    #[test]
    fn who_alone_was_there_before_the_applier_began_to_wait_is_named_as_most_likely() {
        // The login has run something since.
        let finding = behind_a_table(|at_s| if at_s < 3.0 { at_s + 60.0 } else { at_s - 3.0 });
        let headline = "the applier most likely waits for connection 72, which is idle, holding tables";
        assert!(finding.headline.ends_with(headline), "{}", finding.headline);
        assert_eq!(first_statement(&finding), "KILL 72");
        let why = &finding.remedies[0].why;
        assert!(why.starts_with("Most likely it is this session") && why.contains("UNLOCK TABLES"), "{why}");
        assert!(finding.why.contains("It is inferred"), "{}", finding.why);
    }

    #[test]
    fn of_several_that_may_have_the_appliers_table_none_is_named() {
        // In all samples, and in all but the first: the applier's schema is empty as the login's is.
        let always: fn(f64) -> f64 = |at_s| at_s + 60.0;
        let later: fn(f64) -> f64 = |at_s| if at_s < 1.0 { 0.0 } else { at_s + 60.0 };
        for login_s in [always, later] {
            let finding = behind_a_table(login_s);
            assert_eq!((first_statement(&finding), &finding.root), ("spindoctor locks", &None));
            assert!(!finding.headline.contains("connection"), "{}", finding.headline);
        }
    }

    #[test]
    fn an_applier_that_waits_once_for_a_row_is_slow_for_another_reason() {
        let row = waiting("Applying batch of row changes (update)", session(65, "Sleep", "", ""));
        let row = row.each(|at_s, server, _| {
            let once = RowLockWait {
                waiting_connection_id: Some(7),
                blocking_connection_id: Some(65),
                waiting_transaction: "9007".into(),
                blocking_transaction: "9065".into(),
                ..RowLockWait::default()
            };
            server.row_lock_waits = answer(at_s, if at_s == 4.0 { vec![once] } else { Vec::new() });
        });
        let finding = found(&row.window());
        assert!(!finding.headline.contains("waits for connection"), "{}", finding.headline);
    }
}
