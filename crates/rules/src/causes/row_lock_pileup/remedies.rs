//! What to do about the waits.

use spindoctor_model::{Remedy, Window, number};

use super::likely::Likely;
use super::meaning::{transactions, with_user};
use super::pileup::Pileup;
use super::stacks::ByStacks;
use super::statements::{Table, Wanted};
use crate::draft::set_back;
use crate::killing::LOOK_FIRST;
use crate::wait_graph::Verdict;

impl Pileup<'_> {
    /// What to do, the best first.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        let is_one = self.holders.one().is_some();
        let may_end = is_one || !self.queue.is_queue && !self.holders.change();
        let end = self.holders.latest().filter(|_| may_end).and_then(|verdict| {
            let others = self.holders.held_up(verdict);
            end_it(verdict, &why_to_end(verdict, "It is not waiting", others))
        });
        let let_end = self.holders.latest().filter(|_| end.is_some()).and_then(let_it_end);
        let stop_applier = self.holders.one().and_then(|verdict| verdict.stop_applier(self.window));
        let end_between = self.holders.one().and_then(Verdict::remedy_between);
        let others = self.holders.others();
        let end_others = others.iter().filter_map(|(behind, verdict)| {
            end_it(verdict, &why_to_end(verdict, "It is not waiting either", *behind))
        });
        let ring = self.ring.as_ref();
        let end_ring = ring.and_then(|ring| ring.remedy(&self.queue.last()?.server));
        // A ring lasts as long as the wait may.
        let timeout = shorter_timeout(self.window)
            .filter(|_| ring.is_some() || self.queue.may_last(self.window, SHORT_TIMEOUT_S));
        let_end
            .into_iter()
            .chain(end)
            .chain(stop_applier)
            .chain(end_between)
            .chain(end_others)
            .chain(end_ring)
            .chain(ring.filter(|ring| ring.is_undetected()).map(|_| detect_deadlocks()))
            .chain(self.unattached.is_some().then(look_at_unattached))
            .chain(self.look_up())
            .chain(self.likely.as_ref().and_then(Likely::remedy))
            .chain(self.let_logins_in())
            .chain(if self.is_hot() { self.of_hot_row() } else { Vec::new() })
            .chain(timeout)
            .collect()
    }

    /// How the connection of who has the lock is found, where a list names its transaction, or its thread, alone.
    fn look_up(&self) -> Option<Remedy> {
        let is_plain = |id: &&str| !id.is_empty() && id.bytes().all(|c| c.is_ascii_alphanumeric());
        let threads = self.nameless.iter().filter_map(|holder| holder.strip_prefix("thread "));
        let threads: Vec<&str> = threads.filter(is_plain).take(LOOKED_UP).collect();
        let transactions = self.nameless.iter().map(|holder| holder.as_str());
        let transactions: Vec<&str> = transactions.filter(is_plain).take(LOOKED_UP).collect();
        let statement = match (threads.is_empty(), transactions.is_empty()) {
            (false, _) => format!(
                "SELECT THREAD_ID, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_INFO FROM performance_schema.threads WHERE THREAD_ID IN \
                 ({})",
                threads.join(", ")
            ),
            (true, false) => format!(
                "SELECT trx_id, trx_mysql_thread_id, trx_started, trx_rows_modified FROM information_schema.INNODB_TRX WHERE trx_id IN \
                 ('{}')",
                transactions.join("', '")
            ),
            (true, true) => return None,
        };
        Some(Remedy {
            statement,
            why: "It gives the connection that has the lock: KILL of it frees those that wait.".into(),
            dynamic: true,
            risk: "It only reads. KILL rolls the open transaction of that connection back.".into(),
            undo: String::new(),
        })
    }

    /// Where those who wait are logins that run `init_connect`.
    fn let_logins_in(&self) -> Option<Remedy> {
        let init_connect = self.window.variable("init_connect")?;
        self.waiters.as_ref().filter(|waiters| waiters.is_of_login(init_connect)).map(|_| Remedy {
            statement: "SET GLOBAL init_connect = ''".into(),
            why: "Most who wait run a statement of init_connect: the server runs it for each login, which hangs in it. New logins then \
                  get through at once. For good: no row in init_connect that all logins change."
                .into(),
            dynamic: true,
            risk: "What it does for each login is not done.".into(),
            undo: "SET GLOBAL init_connect to what it was".into(),
        })
    }

    /// What to do where no transaction stays, by what those run who wait.
    fn of_hot_row(&self) -> Vec<Remedy> {
        let again = self.holders.again().map(|root| self.shorten_its_transactions(root));
        let asleep = self.by_stacks.as_ref().and_then(ByStacks::remedy);
        let by_statement = match &self.wanted {
            Wanted::NextOfQueue(queue) => Some(skip_locked(self.window, queue)),
            Wanted::OfTrigger => Some(out_of_the_trigger()),
            Wanted::OfOtherTable(named) => Some(self.look_at_keys_and_triggers(named)),
            Wanted::Room { .. } => Some(lock_less()),
            Wanted::Row => None,
        };
        let index = match &self.wanted {
            Wanted::NextOfQueue(queue) => {
                self.waiters.as_ref().filter(|waiters| waiters.chooses_rows()).map(|_| index_of_queue(queue))
            }
            _ => None,
        };
        let shorten = again.is_none().then(shorten_transactions);
        again.into_iter().chain(asleep).chain(by_statement).chain(index).chain(shorten).collect()
    }

    /// Of who takes the lock again and again.
    fn shorten_its_transactions(&self, root: &Verdict<'_>) -> Remedy {
        let rows =
            self.place.as_ref().map_or_else(|| "rows".to_owned(), |place| format!("rows of {}", place.table));
        let who = with_user(root);
        Remedy {
            statement: format!(
                "Shorten the transactions of connection {who}: lock the {rows} last, and COMMIT before its client waits for anything else"
            ),
            why: "Each of them has the lock from the statement that takes it to its COMMIT, and the others wait for that.".into(),
            dynamic: true,
            risk: "A change of that client.".into(),
            undo: String::new(),
        }
    }

    /// Where the row is in a table that the statement does not name.
    fn look_at_keys_and_triggers(&self, named: &Table) -> Remedy {
        let table = self.place.as_ref().map_or("a table", |place| place.table.as_str());
        Remedy {
            statement: format!("{}; {}", named.definition(), named.triggers()),
            why: format!(
                "The first shows whether a foreign key leads to {table}, the second whether a trigger changes it. Of a foreign key: keep \
                 those transactions short that change or lock rows of {table}. Of a trigger: let it insert a row for each change, to be \
                 added up later."
            ),
            dynamic: true,
            risk: "It reads definitions.".into(),
            undo: String::new(),
        }
    }
}

/// Holders that are looked up by one statement.
const LOOKED_UP: usize = 5;

/// Why somebody is ended who blocks so many; of whom it is inferred, that it has to be looked at first.
fn why_to_end(root: &Verdict<'_>, rests: &str, behind: usize) -> String {
    let (likely, blocked) = (root.likely(), transactions(behind));
    let first = if root.is_likely() { LOOK_FIRST } else { "" };
    format!("{first}{rests}, and {likely}blocks {blocked}.")
}

/// Changed rows from which on a rollback is no matter of an instant: InnoDB undoes them one at a time. Chosen.
const MANY_CHANGES: u64 = 10_000;

/// What it has changed so far, and about how long the undo of that takes, where its statement is at work and has changed many rows.
fn large_undo(root: &Verdict<'_>) -> Option<(String, String)> {
    let open = root.works_in().filter(|open| open.rows_modified >= MANY_CHANGES)?;
    let changed = number::counted(open.rows_modified, "changed row", "changed rows");
    Some((changed, number::roughly(open.age_s.max(1.0))))
}

/// Ending it, with what its undo takes.
fn end_it(root: &Verdict<'_>, why: &str) -> Option<Remedy> {
    let remedy = root.remedy(why)?;
    let Some((changed, takes)) = large_undo(root) else { return Some(remedy) };
    let risk = format!(
        "{} The undo of {changed} takes about {takes}, or longer; those that wait do so until it ends.",
        remedy.risk
    );
    Some(Remedy { risk, ..remedy })
}

/// What comes before a KILL that has much to undo.
fn let_it_end(root: &Verdict<'_>) -> Option<Remedy> {
    let (changed, takes) = large_undo(root)?;
    Some(Remedy {
        statement: format!(
            "Let it end: connection {} is at work, with {changed} in {takes}",
            root.connection_id
        ),
        why: "Its locks go with the end of its transaction. A KILL would undo these changes first, which takes about as long again, or \
              longer, and frees nobody sooner where it is nearly done."
            .into(),
        dynamic: true,
        risk: "How much it has still to do is not known: those that wait do so until then.".into(),
        undo: String::new(),
    })
}

/// For a table that is a queue, as this server takes it: SKIP LOCKED is there from MySQL 8.0.1 and MariaDB 10.6 on.
fn skip_locked(window: &Window, queue: &str) -> Remedy {
    let version = window.server.version;
    let knows_it =
        version.is_none_or(|version| version.mysql_at_least(8, 0, 1) || version.mariadb_at_least(10, 6, 0));
    let (statement, why, risk) = match knows_it {
        true => (
            format!(
                "Where any free row of {queue} will do: SELECT ... LIMIT ... FOR UPDATE SKIP LOCKED (MySQL 8.0.1, MariaDB 10.6 and later)"
            ),
            "Each session then takes the next row that is free, and none waits.",
            "A change of the application; rows are no longer taken in their strict order. Without an index for WHERE and ORDER BY it locks \
             all rows that it reads on its way.",
        ),
        false => (
            format!(
                "Claim a row of {queue} by a short transaction of its own: UPDATE ... SET owner = CONNECTION_ID() WHERE owner IS NULL \
                 ORDER BY ... LIMIT 1, COMMIT, and then work on the row with that owner; or GET_LOCK with a name for each row"
            ),
            "The row is then locked for an instant, and not for the work on it. This server has no SKIP LOCKED (MySQL 8.0.1, MariaDB 10.6 \
             and later).",
            "A change of the application: rows whose owner went away have to be found and freed.",
        ),
    };
    Remedy { statement, why: why.into(), dynamic: true, risk: risk.into(), undo: String::new() }
}

/// For a table that is a queue whose rows are chosen by a condition: whether a claim reads more than it takes only its plan shows.
fn index_of_queue(queue: &str) -> Remedy {
    Remedy {
        statement: format!(
            "Where EXPLAIN of the SELECT ... FOR UPDATE shows that it reads more rows of {queue} than it takes: CREATE INDEX on the \
             columns of WHERE, then those of ORDER BY"
        ),
        why: "At REPEATABLE READ a claim locks each row that it reads, until its transaction ends; with such an index it reads and locks \
              the rows that it takes."
            .into(),
        dynamic: true,
        risk: "EXPLAIN reads statistics only. The index costs disk and write time.".into(),
        undo: "Make the index INVISIBLE (MySQL 8.0) or IGNORED (MariaDB 10.6) first, then drop it.".into(),
    }
}

/// Where a trigger changes the hot row.
fn out_of_the_trigger() -> Remedy {
    Remedy {
        statement: "Take the change of that row out of the trigger: let it insert a row for each change, to be added up later, or spread \
                    the row over several; SHOW TRIGGERS lists it"
            .into(),
        why: "Every transaction that fires the trigger has the row from then to its COMMIT, so they run one at a time.".into(),
        dynamic: true,
        risk: "A change of the schema.".into(),
        undo: String::new(),
    }
}

/// Where INSERT statements wait for a gap.
fn lock_less() -> Remedy {
    Remedy {
        statement: "Lock less: SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED in the session that reads a range with a lock, or \
                    FOR UPDATE by an equality on a unique key that is there"
            .into(),
        why: "READ COMMITTED locks no gaps, and an equality on a unique key locks the row that it finds alone.".into(),
        dynamic: true,
        risk: "Under READ COMMITTED rows may appear in a range that was read before; binlog_format = STATEMENT does not go with it.".into(),
        undo: "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ".into(),
    }
}

/// What ends each later ring at once.
fn detect_deadlocks() -> Remedy {
    Remedy {
        statement: "SET GLOBAL innodb_deadlock_detect = ON".into(),
        why: "InnoDB then rolls back one transaction of each ring at once, with error 1213.".into(),
        dynamic: true,
        risk: "With hundreds of sessions that want one row, looking for rings takes CPU time.".into(),
        undo: "SET GLOBAL innodb_deadlock_detect = OFF".into(),
    }
}

/// What helps where the row is hot.
pub(super) fn shorten_transactions() -> Remedy {
    Remedy {
        statement: "Shorten the transactions that change the hot row; change it last, or spread it over \
                    several rows"
            .into(),
        why: "Each has the row from its change to its commit, and only one can have it at a time.".into(),
        dynamic: true,
        risk: "A change of the application.".into(),
        undo: String::new(),
    }
}

/// How to learn what a transaction without a connection is.
fn look_at_unattached() -> Remedy {
    Remedy {
        statement: "SELECT trx_id, trx_state, trx_started, trx_rows_modified FROM information_schema.INNODB_TRX WHERE \
                    trx_mysql_thread_id = 0; again after some seconds"
            .into(),
        why: "Where trx_rows_modified falls it is being rolled back, and that number by its pace is the time to go. Where it stays, \
              look at the error log: InnoDB writes there which transactions it recovers at its start."
            .into(),
        dynamic: true,
        risk: "It reads a list.".into(),
        undo: String::new(),
    }
}

/// How long a wait for a row may take, in MySQL and MariaDB.
const TIMEOUT: &str = "innodb_lock_wait_timeout";

/// What a shorter wait for a row may be, seconds: most statements of an application are given up by their clients by then. Chosen.
pub(in crate::causes) const SHORT_TIMEOUT_S: f64 = 5.0;

/// To let who waits for a row give up sooner, where it is not soon enough already.
pub(in crate::causes) fn shorter_timeout(window: &Window) -> Option<Remedy> {
    let timeout_s = window.variable_number(TIMEOUT);
    let is_short = timeout_s.is_some_and(|timeout_s| timeout_s <= SHORT_TIMEOUT_S);
    let risk = match undoes_transactions(window) {
        true => {
            "Clients must handle error 1205, with which a statement's whole transaction is rolled back (innodb_rollback_on_timeout); holds \
             for sessions that start later."
        }
        false => "Clients must handle error 1205; holds for sessions that start later.",
    };
    (takes_timeout(window) && !is_short).then(|| Remedy {
        statement: format!("SET GLOBAL {TIMEOUT} = {SHORT_TIMEOUT_S}"),
        why: format!("Waiters fail after {SHORT_TIMEOUT_S} s instead of filling the connections."),
        dynamic: true,
        risk: risk.into(),
        undo: set_back(window, TIMEOUT),
    })
}

/// True where a wait that takes too long ends its whole transaction, and not its statement alone.
pub(in crate::causes) fn undoes_transactions(window: &Window) -> bool {
    let variables = window.latest(|sample| &sample.server.variables);
    variables.and_then(|variables| variables.switch("innodb_rollback_on_timeout")) == Some(true)
}

/// True where the server takes a new value while it runs: from 5.5 on, where it has InnoDB. A list that somebody captured may be a
/// part of it: what is missing there says nothing.
fn takes_timeout(window: &Window) -> bool {
    let is_old = window
        .server
        .version
        .is_some_and(|version| !version.mysql_at_least(5, 5, 0) && !version.mariadb_at_least(5, 5, 0));
    let is_read = !window.is_given() && window.latest(|sample| &sample.server.variables).is_some();
    !is_old && (!is_read || window.variable(TIMEOUT).is_some())
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;
    use spindoctor_model::mysql::RowLockWait;

    use super::super::CAUSE;
    use super::shorter_timeout;
    use crate::testing::{Build, answer, session, transaction};

    /// Ten run this statement and wait for a row of that table, behind another one of them in each sample.
    fn hot(version: &str, statement: &'static str, table: &'static str) -> Finding {
        let window =
            Build::busy(version).variable("innodb_lock_wait_timeout", "50").each(move |at_s, server, _| {
                let holder = 20 + at_s as u64;
                let wait = |waiting: u64| RowLockWait {
                    waiting_connection_id: Some(waiting),
                    blocking_connection_id: Some(holder),
                    waiting_transaction: (waiting * 100 + holder).to_string(),
                    blocking_transaction: (holder * 100 + holder).to_string(),
                    table: table.into(),
                    index: "PRIMARY".into(),
                    record: "1".into(),
                    waited_s: 2.0,
                    ..RowLockWait::default()
                };
                let at_work = |id: u64| match id == holder {
                    true => session(id, "Sleep", "", ""),
                    false => session(id, "Query", "updating", statement),
                };
                let mut threads: Vec<_> = (20..31).map(at_work).collect();
                threads.iter_mut().for_each(|thread| thread.schema = "shop".into());
                server.threads = answer(at_s, threads);
                server.row_lock_waits = answer(at_s, (20..31).filter(|id| *id != holder).map(wait).collect());
                server.transactions = answer(at_s, vec![transaction(holder, "RUNNING", 0.0)]);
            });
        let findings = crate::diagnose(&window.window()).findings;
        findings.into_iter().find(|finding| finding.cause == CAUSE.name).unwrap()
    }

    fn first(finding: &Finding) -> &str {
        &finding.remedies[0].statement
    }

    #[test]
    fn logins_that_wait_in_init_connect_get_in_without_it() {
        let is_offered = |init_connect: &str| {
            let build = Build::busy("10.11.18-MariaDB").variable("init_connect", init_connect);
            let build = build.sessions(|_| vec![session(7, "Sleep", "", "")]).each(|at_s, server, _| {
                let waits = |id| spindoctor_model::mysql::Transaction {
                    statement: Some("UPDATE audit.logins SET n = n + ? WHERE day = ?".into()),
                    waited_s: Some(6.0),
                    ..transaction(id, "LOCK WAIT", 6.0)
                };
                server.transactions = answer(at_s, (30..42).map(waits).collect());
            });
            let crate::Outcome::Fired(finding) = super::super::evaluate(&build.window()) else {
                panic!("it fires")
            };
            finding.remedies.iter().any(|one| one.statement == "SET GLOBAL init_connect = ''")
        };
        assert!(is_offered("SET NAMES utf8mb4; UPDATE audit.logins SET n = n + 1 WHERE day = 1"));
        assert!(!is_offered("SET NAMES utf8mb4"));
        assert!(!is_offered(""));
    }

    #[test]
    fn what_stood_in_a_variable_is_given_back_only_where_it_is_a_word() {
        let undo = |before: &str| {
            let window = Build::busy("8.0.36").variable("innodb_lock_wait_timeout", before).window();
            shorter_timeout(&window).unwrap().undo
        };
        assert_eq!(undo("120"), "SET GLOBAL innodb_lock_wait_timeout = 120");
        for text in ["50; DROP DATABASE shop; -- ", "50 /* */", "(SELECT 1)", "5'0", ""] {
            assert_eq!(undo(text), "SET GLOBAL innodb_lock_wait_timeout to what it was", "{text}");
        }
    }

    #[test]
    fn a_queue_of_work_is_taken_with_skip_locked_where_the_server_has_it() {
        const NEXT: &str = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE";
        for version in ["10.11.8-MariaDB", "8.0.36"] {
            let finding = hot(version, NEXT, "shop.jobs");
            assert_eq!(finding.headline, "10 sessions on average wait for row locks on shop.jobs");
            assert!(first(&finding).contains("any free row of shop.jobs"), "{finding:#?}");
            assert!(first(&finding).contains("SKIP LOCKED"), "{finding:#?}");
            assert_eq!(finding.root, None);
            let shown = |reading: &str| {
                let found = finding.evidence.iter().find(|evidence| evidence.reading == reading);
                spindoctor_model::number::value(&found.unwrap().value, "")
            };
            let statement = "SELECT id FROM jobs WHERE state = ? ORDER BY id LIMIT ? FOR UPDATE";
            assert_eq!(shown("most who wait run"), format!("100 % {statement}"));
            assert_eq!(shown("had the lock in turn"), "11 connections in 11 samples, idle in 11 of them");
        }
        for version in ["10.5.23-MariaDB", "5.7.44"] {
            let finding = hot(version, NEXT, "shop.jobs");
            assert!(first(&finding).starts_with("Claim a row of shop.jobs"), "{finding:#?}");
        }
    }

    /// Without an index each claim locks the rows that it reads on its way to the one that it takes.
    #[test]
    fn a_queue_whose_rows_are_chosen_by_a_condition_may_want_an_index() {
        let is_index = |one: &spindoctor_model::Remedy| one.statement.contains("CREATE INDEX");
        for statement in [
            "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE",
            "SELECT id FROM jobs WHERE state = 'new' AND id > 7 ORDER BY id LIMIT 5 FOR UPDATE",
        ] {
            for version in ["5.7.44", "8.0.36"] {
                let finding = hot(version, statement, "shop.jobs");
                assert!(is_index(&finding.remedies[1]), "{statement}: {finding:#?}");
                assert!(finding.remedies[1].statement.contains("shop.jobs"), "{finding:#?}");
            }
        }
        for statement in [
            "SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE",
            "SELECT id FROM jobs WHERE id > 7 ORDER BY id LIMIT 1 FOR UPDATE",
            "SELECT id FROM jobs WHERE state = 'new' AND `id` = 7 ORDER BY id LIMIT 1 FOR UPDATE",
            "UPDATE jobs SET state = 'done' WHERE owner = 7",
        ] {
            let finding = hot("8.0.36", statement, "shop.jobs");
            assert!(!finding.remedies.iter().any(is_index), "{statement}: {finding:#?}");
        }
    }

    #[test]
    fn a_row_of_another_table_is_that_of_a_foreign_key_or_of_a_trigger() {
        let finding = hot("9.7.4", "INSERT INTO orders (customer_id) VALUES (7)", "shop.customers");
        assert_eq!(first(&finding), "SHOW CREATE TABLE shop.orders; SHOW TRIGGERS FROM shop LIKE 'orders'");
        assert!(
            finding.why.contains("They change shop.orders, and wait for a row of shop.customers"),
            "{}",
            finding.why
        );
        let finding =
            hot("8.0.36", "UPDATE totals SET n = n + NEW.amount WHERE name = 'orders'", "shop.totals");
        assert!(first(&finding).contains("out of the trigger"), "{finding:#?}");
        assert!(finding.why.contains("a statement of a trigger"), "{}", finding.why);
        let finding = hot("8.0.36", "UPDATE counters SET n = n + 1 WHERE id = 1", "shop.counters");
        assert!(
            first(&finding).starts_with("Shorten the transactions that change the hot row"),
            "{finding:#?}"
        );
    }

    #[test]
    fn nobody_is_to_give_up_sooner_than_the_longest_wait() {
        let finding = hot("8.0.36", "UPDATE counters SET n = n + 1 WHERE id = 1", "shop.counters");
        let shortens = |one: &spindoctor_model::Remedy| one.statement.contains("innodb_lock_wait_timeout");
        assert!(!finding.remedies.iter().any(shortens), "{:?}", finding.remedies);
    }

    #[test]
    fn the_timeout_is_offered_where_the_server_takes_one() {
        let of = |version: &str, variables: &[(&'static str, &'static str)]| {
            let build = Build::busy(version);
            let build = variables.iter().fold(build, |build, (name, value)| build.variable(name, value));
            super::shorter_timeout(&build.window())
        };
        let offered = of("8.0.36", &[("innodb_lock_wait_timeout", "50")]).unwrap();
        assert_eq!(offered.undo, "SET GLOBAL innodb_lock_wait_timeout = 50");
        assert!(!offered.risk.contains("whole transaction"), "{}", offered.risk);
        let undoes = [("innodb_lock_wait_timeout", "50"), ("innodb_rollback_on_timeout", "ON")];
        assert!(of("8.0.36", &undoes).unwrap().risk.contains("whole transaction"));
        assert_eq!(of("8.0.36", &[("innodb_lock_wait_timeout", "5")]), None, "it is short already");
        assert_eq!(of("10.11.8-MariaDB", &[("skip_innodb", "ON")]), None, "a server without InnoDB");
        assert_eq!(of("5.1.73", &[("innodb_lock_wait_timeout", "50")]), None, "only in the option file");
    }
}
