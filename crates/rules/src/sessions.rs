//! Client sessions: who is at work, who waits, and how a root of waits is described.
//!
//! Sources leave spindoctor's own session out of every list of threads, so nothing here needs to.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{ServerSample, ServerThread, Transaction};
use spindoctor_model::window::Series;
use spindoctor_model::{InnodbStatus, Remedy, Root, Unavailable, Window, number};

use crate::time_model::InClasses;

/// How many sessions waited over a window, and for what share of the work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    /// Sessions waiting in each sample.
    pub(crate) series: Series,
    /// Their mean number.
    pub(crate) mean: f64,
    /// The mean number of sessions at work, the waiting ones among them.
    pub(crate) at_work_mean: f64,
}

impl Waiting {
    /// Counts the sessions at work that wait as `waits` says, in every sample with a thread list.
    pub(crate) fn count(window: &Window, waits: impl Fn(&ServerThread) -> bool) -> Result<Self, Unavailable> {
        window.need(|s| &s.server.threads)?;
        let lists = window.all(|s| &s.server.threads);
        let count = |threads: &[ServerThread]| at_work(threads).filter(|thread| waits(thread)).count() as f64;
        let series: Series = lists.iter().map(|&(at_s, threads)| (at_s, count(threads))).collect();
        let at_work_mean = mean(lists.iter().map(|(_, threads)| at_work(threads).count() as f64));
        Ok(Self { mean: mean(series.iter().map(|&(_, waiting)| waiting)), series, at_work_mean })
    }

    /// Share of the sessions' working time that goes into the waits.
    pub(crate) fn lost_ratio(&self) -> f64 {
        self.mean / self.at_work_mean.max(self.mean).max(1.0)
    }

    /// The most that waited in one sample.
    pub(crate) fn most(&self) -> f64 {
        self.series.iter().map(|&(_, waiting)| waiting).fold(0.0, f64::max)
    }

    /// How many wait, one at least, and the share of the working time that they lose: as the lists or the account say, whichever sees
    /// more. Of a lock that is taken again and again for an instant the stacks see more than a list once a second.
    pub(crate) fn with_account(&self, account: Option<&InClasses<'_>>) -> (f64, f64) {
        let (sessions, share) = account.map_or((0.0, 0.0), |account| (account.sessions, account.share));
        (self.most().max(sessions).round().max(1.0), self.lost_ratio().max(share))
    }
}

/// The mean; 0 of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

/// Client sessions that run or wait for something: not asleep, not sending a binary log to a replica.
pub(crate) fn at_work(threads: &[ServerThread]) -> impl Iterator<Item = &ServerThread> {
    threads.iter().filter(|thread| thread.is_at_work())
}

/// Candidates that are named: of more, none is likelier than the others.
const CANDIDATES: usize = 3;

/// Accounts that are named of more candidates, those with the fewest.
const USERS: usize = 4;

/// The sessions that were there before the first began to wait, in a sentence: the holder is most likely one of them. Of a table's
/// lock they are in the same schema; a waiter without a schema may want a table of any.
pub(crate) fn there_before(
    server: &ServerSample,
    waits: impl Fn(&ServerThread) -> bool,
    in_same_schema: bool,
) -> String {
    let Some(threads) = server.threads.value() else { return String::new() };
    let waiters = || at_work(threads).filter(|thread| waits(thread));
    let longest_s = waiters().map(|thread| thread.time_s).fold(0.0, f64::max);
    let may_use = |waiter: &ServerThread, thread: &ServerThread| {
        waiter.schema.is_empty() || waiter.schema == thread.schema
    };
    let is_there = |thread: &&ServerThread| {
        thread.is_connection
            && !waits(thread)
            && thread.time_s >= longest_s
            && (!in_same_schema || waiters().any(|waiter| may_use(waiter, thread)))
    };
    let mut all: Vec<&ServerThread> = threads.iter().filter(is_there).collect();
    // Who waits for a table waits for somebody who was there, too.
    if all.iter().any(|thread| !waits_for_a_table(thread)) {
        all.retain(|thread| !waits_for_a_table(thread));
    }
    let named = |thread: &&ServerThread| Some(format!("{} ({})", thread.connection_id?, described(thread)));
    let named: Vec<String> = all.iter().filter_map(named).collect();
    // A list without times does not say who came first.
    let is_timed = threads.iter().any(|thread| thread.time_s > 0.0);
    match named.len() {
        1 if is_timed => {
            format!(" Connection {} was there before: it is most likely the holder.", named[0])
        }
        1 => format!(" Connection {} is not waiting: it is most likely the holder.", named[0]),
        2..=CANDIDATES => {
            let there = if is_timed { "was there before" } else { "is not waiting" };
            format!(" One of these {there}, and is most likely the holder: {}.", named.join(", "))
        }
        0 => String::new(),
        many => {
            let there = if is_timed { "were there before" } else { "are not waiting" };
            if let Some(same) = same_statement(&all) {
                return format!(" The holder is most likely one of the {many} that {there}: {same}.");
            }
            // A tool that locks the server often has an account of its own: the rarest stands first.
            let mut users: BTreeMap<&str, usize> = BTreeMap::new();
            for thread in &all {
                *users.entry(&thread.user).or_default() += 1;
            }
            let mut users: Vec<(&str, usize)> = users.into_iter().collect();
            users.sort_by_key(|&(_, sessions)| sessions);
            let left: usize = users.iter().skip(USERS).map(|(_, sessions)| sessions).sum();
            let rest = (left > 0).then(|| format!("{left} of others"));
            let users = users.iter().take(USERS).map(|(user, sessions)| match user.is_empty() {
                true => format!("{sessions} without a user"),
                false => format!("{sessions} of {user}"),
            });
            let users: Vec<String> = users.chain(rest).collect();
            format!(" The holder is most likely one of the {many} that {there}: {}.", users.join(", "))
        }
    }
}

/// True for a session that reads or writes rows and waits until another one has done with its table: who keeps it waiting has the
/// metadata lock of that table as well. Who waits for a row, or for a lock of GET_LOCK, may well have a table that others want; the same
/// for LOCK TABLES, which takes one table after the other.
fn waits_for_a_table(thread: &ServerThread) -> bool {
    const STATES: [&str; 2] = ["waiting for table level lock", "waiting for table flush"];
    STATES.contains(&thread.state.to_ascii_lowercase().as_str())
        && thread.statement.as_deref().is_none_or(|statement| !spindoctor_sql::wants_a_table(statement))
}

/// The only session that rests, in a sentence, where no transactions were read: it may hold the lock in one that is open, though it
/// has run a statement since the others began to wait.
pub(crate) fn rests_alone(server: &ServerSample) -> Option<String> {
    let threads = server.threads.value().filter(|_| server.transactions.value().is_none())?;
    let mut resting = threads.iter().filter(|thread| thread.is_connection && thread.command == "Sleep");
    let one = resting.next().filter(|_| resting.next().is_none())?;
    let id = one.connection_id?;
    Some(format!(
        " Connection {id} ({}) is the only one that rests, and may be the holder: what it has locked stays locked.",
        described(one)
    ))
}

/// `app, idle for 12 s`: a list may have no users, and no times.
fn described(thread: &ServerThread) -> String {
    let user = if thread.user.is_empty() { String::new() } else { format!("{}, ", thread.user) };
    let does = if thread.is_at_work() { "at work" } else { "idle" };
    let since =
        if thread.time_s > 0.0 { format!(" for {}", number::duration(thread.time_s)) } else { String::new() };
    format!("{user}{does}{since}")
}

/// Connections of one statement that are named.
const OF_A_STATEMENT: usize = 8;

/// Of sessions that all run one statement: the statement, for how long, and the connections. None where they run several, or rest.
fn same_statement(threads: &[&ServerThread]) -> Option<String> {
    let statements: Vec<String> = threads
        .iter()
        .map(|thread| Some(shortened(thread.statement.as_deref().filter(|_| thread.is_at_work())?)))
        .collect::<Option<_>>()?;
    let first = statements.first()?;
    if statements.iter().any(|statement| statement != first) {
        return None;
    }
    let longest_s = threads.iter().map(|thread| thread.time_s).fold(0.0, f64::max);
    let ids: Vec<String> = threads
        .iter()
        .filter_map(|thread| thread.connection_id)
        .take(OF_A_STATEMENT)
        .map(|id| id.to_string())
        .collect();
    let more = if threads.len() > ids.len() { " and more" } else { "" };
    let lasts =
        if longest_s > 0.0 { format!(", for up to {}", number::duration(longest_s)) } else { String::new() };
    Some(format!("all run {first}{lasts}: connections {}{more}", ids.join(", ")))
}

/// What shows who holds a metadata lock that is held already: MariaDB's plugin does. performance_schema of MySQL lists the locks that are
/// taken after it was asked to.
pub(crate) fn listing_locks(window: &Window) -> Option<Remedy> {
    let install = window.missing(|sample| &sample.server.metadata_locks)?.unlock?;
    // The statement is this one, whatever a window that somebody saved says beside it.
    install.contains("metadata_lock_info").then(|| Remedy {
        statement: "INSTALL SONAME 'metadata_lock_info'".into(),
        why: "The plugin lists the locks that are held now: run spindoctor again, and it names the holder."
            .into(),
        dynamic: true,
        risk: "It loads a library that comes with the server.".into(),
        undo: "UNINSTALL SONAME 'metadata_lock_info'".into(),
    })
}

/// The session of that connection.
pub(crate) fn session(sample: &ServerSample, connection_id: u64) -> Option<&ServerThread> {
    sample.threads.value()?.iter().find(|thread| thread.connection_id == Some(connection_id))
}

/// The open transaction of that connection.
pub(crate) fn transaction(sample: &ServerSample, connection_id: u64) -> Option<&Transaction> {
    sample.transactions.value()?.iter().find(|t| t.connection_id == Some(connection_id))
}

/// Who says how old the transactions are: of what somebody captured it may be the status that lists them.
pub(crate) fn transactions_source(window: &Window) -> &'static str {
    let lists = |status: &InnodbStatus| status.transactions.transactions.iter().any(|one| one.active);
    match window.is_given() && window.latest(|s| &s.server.innodb_status).is_some_and(lists) {
        true => "SHOW ENGINE INNODB STATUS",
        false => "INNODB_TRX",
    }
}

/// Ending that connection, with what rolling its transaction back means; whether that frees anybody [`crate::killing`] says.
pub(crate) fn ending(sample: &ServerSample, connection_id: u64, why: &str) -> Remedy {
    let open = transaction(sample, connection_id);
    // performance_schema has neither the id of a transaction nor what it has changed, and a list that somebody took may lack it.
    let is_counted =
        |open: &&Transaction| open.rows_modified > 0 || !open.id.is_empty() && !open.changes_unread;
    let modified = open.filter(is_counted).map(|open| open.rows_modified);
    let risk: String = match modified {
        Some(0) => {
            "The connection ends; its transaction has changed no row, so nothing is lost but its reads."
                .into()
        }
        Some(rows) => format!(
            "Its transaction is rolled back: {}. That takes about as long as the changes did; its locks are kept until it ends.",
            number::counted(rows, "changed row", "changed rows")
        ),
        None if open.is_none() && sample.transactions.value().is_some() => {
            "Nothing is rolled back: it has no open transaction in InnoDB.".into()
        }
        None => "Its open transaction is rolled back, which takes about as long as its changes took.".into(),
    };
    Remedy {
        statement: format!("KILL {connection_id}"),
        why: why.to_owned(),
        dynamic: true,
        risk,
        undo: String::new(),
    }
}

/// A statement cut for a headline, without its literals.
pub(crate) fn shortened(statement: &str) -> String {
    const LONGEST: usize = 60;
    cut(&spindoctor_sql::digest(statement), LONGEST)
}

/// At most so many characters of a text.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let cut: String = text.chars().take(longest).collect();
    format!("{cut}...")
}

/// A mean number of sessions as a report writes it wherever it stands: a list once a second says no more than tenths.
pub(crate) fn tenth(sessions: f64) -> f64 {
    (sessions * 10.0).round() / 10.0
}

/// `17.1 sessions on average wait`, `2 sessions on average wait`, `One session on average waits`
pub(crate) fn wait_on_average(sessions: f64) -> String {
    match number::plain(tenth(sessions)).as_str() {
        "1" => "One session on average waits".to_owned(),
        many => format!("{many} sessions on average wait"),
    }
}

/// What a root does, for a headline: `is idle in transaction` or `runs SELECT ...`.
pub(crate) fn doing(root: &Root) -> String {
    match root.statement.as_str() {
        idle if idle.starts_with("idle") => format!("is {idle}"),
        "rolling back" => "is rolling back".into(),
        "" => "holds its locks".into(),
        statement => format!("runs {}", shortened(statement)),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::super::testing::{Build, answer, session};
    use super::*;

    #[test]
    fn what_a_window_names_to_read_the_locks_is_no_statement_to_run() {
        let text = "INSTALL SONAME 'metadata_lock_info'; DROP DATABASE shop";
        let window = Build::busy("10.11.6-MariaDB")
            .each(move |_, server, _| {
                server.metadata_locks = Reading::Unavailable(Unavailable::because("no plugin").unlock(text));
            })
            .window();
        assert_eq!(listing_locks(&window).unwrap().statement, "INSTALL SONAME 'metadata_lock_info'");
    }

    #[test]
    fn of_a_capture_the_status_is_the_source_of_the_transactions_that_it_lists() {
        use spindoctor_model::innodb_status::{ListedTransaction, TransactionsSection};
        let of = |build: Build, active| {
            let listed = ListedTransaction { active, ..ListedTransaction::default() };
            let transactions =
                TransactionsSection { transactions: vec![listed], ..TransactionsSection::default() };
            let status = InnodbStatus { transactions, ..InnodbStatus::default() };
            let build =
                build.each(move |at_s, server, _| server.innodb_status = answer(at_s, status.clone()));
            transactions_source(&build.window())
        };
        let given = || Build::busy("8.0.36").without_profile().captured();
        assert_eq!(of(given(), true), "SHOW ENGINE INNODB STATUS");
        assert_eq!(of(given(), false), "INNODB_TRX");
        assert_eq!(of(Build::busy("8.0.36"), true), "INNODB_TRX");
    }

    #[test]
    fn a_cut_statement_is_cut_between_characters() {
        assert_eq!(shortened("SELECT\n  a /* it's */ = 'x'"), "SELECT a = ?");
        assert!(shortened(&"ä".repeat(100)).ends_with("ä..."));
    }

    #[test]
    fn an_idle_session_is_in_a_transaction_only_where_it_has_one() {
        let words = |statement: &str| doing(&Root { statement: statement.into(), ..Root::default() });
        assert_eq!(words("idle in transaction"), "is idle in transaction");
        assert_eq!(words("idle, holding tables"), "is idle, holding tables");
        assert_eq!(words("rolling back"), "is rolling back");
    }

    #[test]
    fn of_many_that_may_hold_a_lock_the_accounts_are_named_the_rarest_first() {
        let of = |users: &[&str]| {
            let rests = (1..).zip(users).map(|(id, user)| ServerThread {
                user: (*user).into(),
                time_s: 60.0,
                ..session(id, "Sleep", "", "")
            });
            let waiter = session(90, "Query", "Waiting for backup lock", "CREATE TABLE t (a INT)");
            let server = ServerSample {
                threads: answer(0.0, rests.chain([waiter]).collect()),
                ..ServerSample::default()
            };
            there_before(&server, |thread| thread.state == "Waiting for backup lock", false)
        };
        assert_eq!(
            of(&["app", "app", "app", "backup"]),
            " The holder is most likely one of the 4 that were there before: 1 of backup, 3 of app."
        );
        let many = of(&["a", "b", "c", "d", "e", "e"]);
        assert!(many.ends_with("1 of a, 1 of b, 1 of c, 1 of d, 2 of others."), "{many}");
        assert!(of(&["app", "backup"]).starts_with(" One of these was there before"));
        assert_eq!(of(&[]), "");
    }

    /// A dump that has locked its tables, its client slow to read, and a statement that waits for a table of MyISAM for as long.
    #[test]
    fn who_waits_for_another_lock_is_not_the_likely_holder_where_somebody_else_may_be() {
        let waits = "Waiting for table metadata lock";
        let timed = |id, state: &str, statement: &str, time_s| ServerThread {
            time_s,
            ..session(id, "Query", state, statement)
        };
        let of = |state: &str, statement: &str, with_dump: bool| {
            let dump = timed(29, "Writing to net", "SELECT * FROM orders", 9.3);
            let other = timed(14, state, statement, 9.3);
            let waiter = timed(7, waits, "UPDATE stock SET n = n - 1", 9.2);
            let threads = with_dump.then_some(dump).into_iter().chain([other, waiter]).collect();
            let server = ServerSample { threads: answer(0.0, threads), ..ServerSample::default() };
            there_before(&server, |thread| thread.state == waits, true)
        };
        let (of_table, of_flush) = ("Waiting for table level lock", "Waiting for table flush");
        let update = "UPDATE visits SET n = n + 1";
        for state in [of_table, of_flush] {
            let named =
                " Connection 29 (app, at work for 9.3 s) was there before: it is most likely the holder.";
            assert_eq!(of(state, update, true), named);
            assert!(of(state, update, false).starts_with(" Connection 14 "), "{}", of(state, update, false));
        }
        // Who waits for a row may have the table by its transaction, and LOCK TABLES a first table.
        for (state, statement) in [("Updating", update), (of_table, "LOCK TABLES stock READ, visits READ")] {
            let said = of(state, statement, true);
            assert!(said.starts_with(" One of these was there before"), "{said}");
        }
    }

    #[test]
    fn a_waiter_without_a_schema_may_want_a_table_of_any() {
        let of = |wants_of: &str| {
            let rests = ServerThread { schema: "shop".into(), time_s: 60.0, ..session(7, "Sleep", "", "") };
            let state = "Waiting for table metadata lock";
            let waiter = ServerThread {
                schema: wants_of.into(),
                time_s: 9.0,
                ..session(20, "Query", state, "SELECT n FROM shop.orders")
            };
            let server =
                ServerSample { threads: answer(0.0, vec![rests, waiter]), ..ServerSample::default() };
            there_before(&server, |thread| thread.state == state, true)
        };
        for schema in ["", "shop"] {
            assert!(of(schema).starts_with(" Connection 7 "), "{schema}: {}", of(schema));
        }
        assert_eq!(of("stock"), "");
    }

    #[test]
    fn who_alone_rests_may_hold_a_lock_where_no_transactions_were_read() {
        let of = |resting: u64| {
            let rests = (1..=resting).map(|id| session(id, "Sleep", "", ""));
            let waiter = session(90, "Query", "Waiting for table metadata lock", "DROP TABLE parcels");
            let server = ServerSample {
                threads: answer(0.0, rests.chain([waiter]).collect()),
                ..ServerSample::default()
            };
            (rests_alone(&server), server)
        };
        let (said, mut server) = of(1);
        let said = said.unwrap();
        let begin = " Connection 1 (app, idle for 3 s) is the only one that rests, and may be the holder";
        assert!(said.starts_with(begin), "{said}");
        assert_eq!(of(2).0, None);
        assert_eq!(of(0).0, None);
        // A transaction that is known is looked at for itself.
        server.transactions = answer(0.0, Vec::new());
        assert_eq!(rests_alone(&server), None);
    }

    #[test]
    fn what_a_list_does_not_have_of_a_session_is_left_out() {
        let of = |user: &str, time_s: f64| {
            let rests = ServerThread { user: user.into(), time_s, ..session(7, "Sleep", "", "") };
            let waiter = ServerThread {
                time_s,
                ..session(90, "Query", "Waiting for backup lock", "CREATE TABLE t (a INT)")
            };
            let server =
                ServerSample { threads: answer(0.0, vec![rests, waiter]), ..ServerSample::default() };
            there_before(&server, |thread| thread.state == "Waiting for backup lock", false)
        };
        assert_eq!(
            of("app", 60.0),
            " Connection 7 (app, idle for 60 s) was there before: it is most likely the holder."
        );
        assert_eq!(
            of("", 60.0),
            " Connection 7 (idle for 60 s) was there before: it is most likely the holder."
        );
        assert_eq!(of("", 0.0), " Connection 7 (idle) is not waiting: it is most likely the holder.");
    }

    #[test]
    fn a_mean_number_of_sessions_is_written_in_tenths() {
        let said = [0.267, 0.99, 2.0, 17.14, 123.4].map(wait_on_average);
        assert_eq!(said[0], "0.3 sessions on average wait");
        assert_eq!(said[1], "One session on average waits");
        assert_eq!(said[2], "2 sessions on average wait");
        assert_eq!(said[3], "17.1 sessions on average wait");
        assert_eq!(said[4], "123 sessions on average wait");
        assert_eq!(number::plain(tenth(0.267)), "0.3");
    }

    #[test]
    fn the_mean_of_nothing_is_nothing() {
        assert_eq!(mean([].into_iter()), 0.0);
        assert_eq!(mean([1.0, 2.0].into_iter()), 1.5);
    }
}
