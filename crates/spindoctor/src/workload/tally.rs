//! Samples of the running statements, counted: the share of time by digest, table, user, host, schema, type, state,
//! wait and tag, and the slowest single statements.
//!
//! In: one sample after the other. Out: a [`Counted`]. Pure. Its memory is bounded, however many different statements
//! there are.

use std::collections::HashMap;
use std::rc::Rc;

use regex::Regex;
use spindoctor_model::mysql::{ServerThread, StatementDigest};
use spindoctor_rules::replica;
use spindoctor_statements::{Span, Tally as Parts};

use super::keys::{Group, Keys};
use super::statement::Statement;
use crate::common::wait_states::wait_of_state;

/// What the time is split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum By {
    /// The statement without its literals
    Digest,
    /// The first table that the statement names, or that the applier works on
    Table,
    /// The connection's user
    User,
    /// The client's host
    Host,
    /// The connection's default database
    Schema,
    /// The statement's first word: SELECT, UPDATE; of an applier the kind of event
    Type,
    /// The state, as the process list has it
    State,
    /// What is waited for, as far as the server reports it
    Wait,
    /// key=value in comments, those of sqlcommenter among them
    Tag,
}

impl By {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 9] = [
        Self::Digest,
        Self::Table,
        Self::Type,
        Self::User,
        Self::Host,
        Self::Schema,
        Self::Tag,
        Self::State,
        Self::Wait,
    ];

    /// `digest`
    pub fn name(self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::Table => "table",
            Self::User => "user",
            Self::Host => "host",
            Self::Schema => "schema",
            Self::Type => "type",
            Self::State => "state",
            Self::Wait => "wait",
            Self::Tag => "tag",
        }
    }
}

/// A statement that has run for less is no candidate for the slowest, seconds: it is seen in one look.
const SLOW_FROM_S: f64 = 0.05;
/// The slowest statements that are kept.
const SLOWEST: usize = 50;
/// Two looks at one statement agree about when it began within this, seconds: the server may count whole ones.
const SAME_BEGIN_S: f64 = 1.5;

/// What was seen at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sighting {
    /// Seconds from the first look.
    pub at_s: f64,
    /// Those that run a statement; of a replica its appliers.
    pub threads: Vec<ServerThread>,
    /// By connection id, the table that an applier works on.
    pub tables: HashMap<u64, String>,
    /// By connection id, the event that it waits for, where the server reports it.
    pub waits: HashMap<u64, String>,
}

/// What is counted.
#[derive(Debug, Clone, Default)]
pub struct What {
    /// Appliers instead of clients.
    pub appliers: bool,
    /// Only statements whose text, with literals and comments, matches.
    pub grep: Option<Regex>,
}

/// A statement that ran for long.
#[derive(Debug, Clone, PartialEq)]
pub struct Slow {
    /// For how long, as far as it was seen, seconds.
    pub seconds: f64,
    /// Its connection.
    pub connection_id: Option<u64>,
    /// Its user.
    pub user: String,
    /// Its database.
    pub schema: String,
    /// The last state that it was seen in.
    pub state: String,
    /// As the server showed it, literals included.
    pub text: String,
    /// Without literals.
    pub digest: String,
    /// When it was seen last, seconds from the first look.
    pub at_s: f64,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    /// Looks.
    pub looks: u64,
    /// Statements seen in all looks: what shares are of. Of appliers those at work.
    pub seen: u64,
    /// Those of them that match.
    pub matching: u64,
    /// Appliers that rested, in all looks.
    pub resting: u64,
    /// Most statements seen at once.
    pub most_at_once: u64,
    /// From the first look to the last, seconds.
    pub seconds: f64,
    /// Groups by kind, the most seen first.
    pub groups: Vec<(By, Vec<Group>)>,
    /// The slowest statements, the slowest first.
    pub slowest: Vec<Slow>,
    /// By statement, in parts of the time: what another time is compared with.
    pub span: Span,
}

/// Looks while they are counted.
#[derive(Debug)]
pub struct Tally {
    what: What,
    keys: Vec<(By, Keys)>,
    counted: Counted,
    first_s: Option<f64>,
    /// What each connection was last seen at.
    running: HashMap<u64, Slow>,
    slowest: Vec<Slow>,
    /// Texts are taken apart once, as long as they come again.
    known: HashMap<String, Rc<Statement>>,
    parts: Parts,
}

/// A statement that was seen to run, and what it waits for.
type AtWork<'a> = (Rc<Statement>, &'a str);

/// Texts that are remembered; more are forgotten all at once.
const MOST_KNOWN: usize = 10_000;

impl Tally {
    /// Nothing counted yet.
    pub fn new(what: What) -> Self {
        Self {
            what,
            keys: By::ALL.iter().map(|by| (*by, Keys::default())).collect(),
            counted: Counted::default(),
            first_s: None,
            running: HashMap::new(),
            slowest: Vec::new(),
            known: HashMap::new(),
            parts: Parts::new(""),
        }
    }

    /// Looks so far.
    pub fn looks(&self) -> u64 {
        self.counted.looks
    }

    /// One look more.
    pub fn look(&mut self, seen: &Sighting) {
        let first_s = *self.first_s.get_or_insert(seen.at_s);
        self.counted.seconds = seen.at_s - first_s;
        self.counted.looks += 1;
        let before = self.counted.seen;
        let mut running = HashMap::new();
        let at_work: Vec<AtWork<'_>> =
            seen.threads.iter().filter_map(|thread| self.thread(seen, thread, &mut running)).collect();
        self.parts.look(at_work.iter().map(|(statement, wait)| (statement.digest.as_str(), *wait)));
        self.counted.most_at_once = self.counted.most_at_once.max(self.counted.seen - before);
        // What does not run any more is over.
        let ended = std::mem::replace(&mut self.running, running);
        ended.into_values().for_each(|slow| self.keep(slow));
    }

    /// A reading of the server's summary of statements, at seconds from any one instant; `is_cut` where the server has more of
    /// them than are read. Of appliers and of a pattern it says nothing.
    pub fn reading(&mut self, at_s: f64, digests: &[StatementDigest], is_cut: bool) {
        if !self.what.appliers && self.what.grep.is_none() {
            self.parts.reading(at_s, digests, is_cut);
        }
    }

    /// The server's counters began from zero.
    pub fn restarted(&mut self) {
        self.parts.restarted();
    }

    /// Counts a thread; what it is at, where it is counted.
    fn thread<'a>(
        &mut self,
        seen: &'a Sighting,
        thread: &'a ServerThread,
        running: &mut HashMap<u64, Slow>,
    ) -> Option<AtWork<'a>> {
        if self.what.appliers {
            if !replica::is_applier(thread) {
                return None;
            }
            if replica::rests(thread) {
                self.counted.resting += 1;
                return None;
            }
        } else if !is_counted(thread) {
            return None;
        }
        self.counted.seen += 1;
        let text = thread.statement.as_deref().unwrap_or_default();
        let digest = thread.digest_text.as_deref().unwrap_or_default();
        if let Some(grep) = &self.what.grep
            && !grep.is_match(text)
            && !grep.is_match(digest)
        {
            return None;
        }
        self.counted.matching += 1;
        let statement = self.statement(text, digest);
        let applier = self.what.appliers;
        let (table, kind) = match applier {
            true => applied(seen, thread, &statement),
            false => (statement.table.clone(), statement.kind.clone()),
        };
        let (wait, shape) = match applier {
            true => (
                replica::waits_for(thread),
                if statement.digest.is_empty() { &kind } else { &statement.digest },
            ),
            false => (wait(seen, thread), &statement.digest),
        };
        // The time that the list gives of an applier is not its statement's.
        let seconds = if applier { 0.0 } else { thread.time_s };
        for (by, keys) in &mut self.keys {
            let key = match by {
                By::Digest => shape.as_str(),
                By::Table => table.as_str(),
                By::User => thread.user.as_str(),
                By::Host => thread.host.as_str(),
                By::Schema => thread.schema.as_str(),
                By::Type => kind.as_str(),
                By::State => thread.state.as_str(),
                By::Wait => wait,
                By::Tag => {
                    for (key, value) in &statement.tags {
                        keys.count(&format!("{key}={value}"), &thread.state, seconds);
                    }
                    continue;
                }
            };
            keys.count(key, &thread.state, seconds);
        }
        if !text.is_empty() || !applier {
            self.slow(seen.at_s, thread, text, &statement.digest, running);
        }
        Some((statement, wait))
    }

    fn statement(&mut self, text: &str, digest: &str) -> Rc<Statement> {
        let source = if text.is_empty() { digest } else { text };
        if let Some(known) = self.known.get(source) {
            return Rc::clone(known);
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        // The server's own digest is better than ours, but has no comments.
        let statement = Rc::new(match (text, digest) {
            ("", digest) => Statement::of_digest(digest),
            (text, "") => Statement::parse(text),
            (text, digest) => Statement { tags: Statement::parse(text).tags, ..Statement::of_digest(digest) },
        });
        self.known.insert(source.to_owned(), Rc::clone(&statement));
        statement
    }

    fn slow(
        &mut self,
        at_s: f64,
        thread: &ServerThread,
        text: &str,
        digest: &str,
        running: &mut HashMap<u64, Slow>,
    ) {
        let text = if text.is_empty() { digest } else { text };
        // Of an applier, how long it was seen has to do.
        let applier = self.what.appliers;
        // Of most statements there is nothing to remember.
        if !applier && thread.time_s < SLOW_FROM_S {
            return;
        }
        let slow = Slow {
            seconds: if applier { 0.0 } else { thread.time_s },
            connection_id: thread.connection_id,
            user: thread.user.clone(),
            schema: thread.schema.clone(),
            state: thread.state.clone(),
            text: text.to_owned(),
            digest: digest.to_owned(),
            at_s,
        };
        let Some(id) = thread.connection_id else { return self.keep(slow) };
        if let Some(before) = self.running.remove(&id) {
            let began = |slow: &Slow| slow.at_s - slow.seconds;
            let is_same = before.text == slow.text
                && (applier || (began(&before) - began(&slow)).abs() <= SAME_BEGIN_S);
            if is_same {
                // The server counts whole seconds; those it was seen for may be more.
                let seconds = match applier {
                    true => before.seconds + at_s - before.at_s,
                    false => before.seconds.max(slow.seconds),
                };
                running.insert(id, Slow { seconds, ..slow });
                return;
            }
            self.keep(before);
        }
        running.insert(id, slow);
    }

    fn keep(&mut self, slow: Slow) {
        if slow.seconds <= 0.0 {
            return;
        }
        self.slowest.push(slow);
        if self.slowest.len() >= 2 * SLOWEST {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.at_s.total_cmp(&b.at_s)));
        self.slowest.truncate(SLOWEST);
    }

    /// What was counted.
    pub fn finish(mut self) -> Counted {
        let running = std::mem::take(&mut self.running);
        running.into_values().for_each(|slow| self.keep(slow));
        self.cut();
        let groups = self.keys.into_iter().map(|(by, keys)| (by, keys.finish()));
        Counted {
            groups: groups.filter(|(_, groups)| !groups.is_empty()).collect(),
            slowest: self.slowest,
            span: self.parts.finish(None, self.counted.seconds),
            ..self.counted
        }
    }
}

/// True for a session that runs a statement: not for one that rests, sends a binary log, or applies.
fn is_counted(thread: &ServerThread) -> bool {
    let rests =
        ["Sleep", "Daemon", "Binlog Dump", "Binlog Dump GTID", "Slave_IO", "Slave_SQL", "Slave_worker"];
    let has_text =
        thread.statement.as_deref().or(thread.digest_text.as_deref()).is_some_and(|text| !text.is_empty());
    has_text && thread.user != "system user" && !rests.contains(&thread.command.as_str())
}

/// What a client's thread waits for: the server's own event where it keeps that, which names the very file or mutex, else
/// the word for its state.
fn wait<'a>(seen: &'a Sighting, thread: &ServerThread) -> &'a str {
    let event = thread.connection_id.and_then(|id| seen.waits.get(&id));
    match event {
        // wait/io/file/innodb/innodb_log_file
        Some(event) => event.strip_prefix("wait/").unwrap_or(event),
        None => wait_of_state(&thread.state).unwrap_or_default(),
    }
}

/// The table that an applier works on, and the kind of event.
fn applied(seen: &Sighting, thread: &ServerThread, statement: &Statement) -> (String, String) {
    let text = thread.connection_id.and_then(|id| seen.tables.get(&id)).map(String::as_str);
    let table = text
        .or_else(|| replica::table_of_state(&thread.state))
        .or((!statement.table.is_empty()).then_some(statement.table.as_str()));
    let kind = match replica::event_type(thread) {
        "statement" if !statement.kind.is_empty() => format!("statement: {}", statement.kind),
        kind => kind.to_owned(),
    };
    (table.unwrap_or_default().to_owned(), kind)
}

#[cfg(test)]
mod tests {
    use super::super::keys::{MOST_KEYS, MOST_STATES, OTHERS};
    use super::*;

    fn thread(id: u64, time_s: f64, state: &str, statement: &str) -> ServerThread {
        ServerThread {
            connection_id: Some(id),
            is_connection: true,
            user: "app".into(),
            host: "web1".into(),
            schema: "shop".into(),
            command: "Query".into(),
            state: state.into(),
            time_s,
            statement: Some(statement.into()),
            ..ServerThread::default()
        }
    }

    fn look(at_s: f64, threads: Vec<ServerThread>) -> Sighting {
        Sighting { at_s, threads, ..Sighting::default() }
    }

    fn counted(what: What, looks: &[Sighting]) -> Counted {
        let mut tally = Tally::new(what);
        looks.iter().for_each(|seen| tally.look(seen));
        tally.finish()
    }

    fn counts(counted: &Counted, by: By) -> Vec<(String, u64)> {
        let groups = counted.groups.iter().find(|(known, _)| *known == by).map(|(_, groups)| groups);
        groups.into_iter().flatten().map(|group| (group.key.clone(), group.seen)).collect()
    }

    #[test]
    fn time_is_distinguished_by_everything_that_the_list_says() {
        let sleeping = ServerThread { command: "Sleep".into(), ..thread(9, 5.0, "", "SELECT 1") };
        let applier = ServerThread { user: "system user".into(), ..thread(8, 5.0, "", "UPDATE t SET a = 1") };
        let counted = counted(
            What::default(),
            &[
                look(
                    0.0,
                    vec![thread(1, 0.0, "executing", "SELECT c FROM t WHERE id = 1 /*app='a'*/"), sleeping],
                ),
                look(
                    0.1,
                    vec![
                        thread(1, 0.0, "executing", "SELECT c FROM t WHERE id = 2 /*app='a'*/"),
                        thread(2, 0.0, "waiting for handler commit", "COMMIT /*app='b'*/"),
                        applier,
                    ],
                ),
            ],
        );
        assert_eq!((counted.looks, counted.seen, counted.most_at_once), (2, 3, 2));
        let pair = |key: &str, seen| (key.to_owned(), seen);
        assert_eq!(
            counts(&counted, By::Digest),
            [pair("SELECT c FROM t WHERE id = ?", 2), pair("COMMIT", 1)]
        );
        assert_eq!(counts(&counted, By::Table), [pair("t", 2), pair("(none)", 1)]);
        assert_eq!(counts(&counted, By::Type), [pair("SELECT", 2), pair("COMMIT", 1)]);
        assert_eq!(counts(&counted, By::Tag), [pair("app=a", 2), pair("app=b", 1)]);
        assert_eq!(counts(&counted, By::User), [pair("app", 3)]);
        assert_eq!(counts(&counted, By::Wait), [pair("(none)", 2), pair("commit", 1)]);
        assert_eq!(counted.groups[0].1[0].states, [("executing".to_owned(), 2)]);
    }

    #[test]
    fn an_event_that_the_server_keeps_says_more_than_the_state() {
        let seen = Sighting {
            threads: vec![
                thread(1, 0.0, "waiting for handler commit", "COMMIT"),
                thread(2, 0.0, "waiting for handler commit", "COMMIT"),
                thread(3, 0.0, "executing", "SELECT 1"),
            ],
            waits: HashMap::from([(1, "wait/io/file/sql/binlog".to_owned())]),
            ..Sighting::default()
        };
        let pair = |key: &str| (key.to_owned(), 1);
        let counted = counted(What::default(), &[seen]);
        assert_eq!(counts(&counted, By::Wait), [pair("(none)"), pair("commit"), pair("io/file/sql/binlog")]);
    }

    #[test]
    fn what_matches_is_a_share_of_all() {
        let grep = Some(Regex::new("checkout").unwrap());
        let counted = counted(
            What { grep, ..What::default() },
            &[look(
                0.0,
                vec![
                    thread(1, 0.0, "", "SELECT 1 /* checkout */"),
                    thread(2, 0.0, "", "SELECT 2"),
                    thread(3, 0.0, "", "SELECT 3"),
                ],
            )],
        );
        assert_eq!((counted.seen, counted.matching), (3, 1));
        assert_eq!(counts(&counted, By::Digest), [("SELECT ?".to_owned(), 1)]);
    }

    #[test]
    fn a_statement_that_is_seen_again_and_again_is_one_slow_statement() {
        let slow = |at_s: f64, time_s| look(at_s, vec![thread(1, time_s, "executing", "SELECT SLEEP(3)")]);
        let counted = counted(
            What::default(),
            &[
                slow(0.0, 0.4),
                slow(1.0, 1.4),
                slow(2.0, 2.4),
                // The same text, but another statement: it began later.
                slow(9.0, 0.2),
                look(10.0, vec![thread(2, 7.0, "sending data", "SELECT * FROM big")]),
            ],
        );
        let text: Vec<(f64, &str)> =
            counted.slowest.iter().map(|slow| (slow.seconds, slow.digest.as_str())).collect();
        assert_eq!(text, [(7.0, "SELECT * FROM big"), (2.4, "SELECT SLEEP(?)"), (0.2, "SELECT SLEEP(?)")]);
    }

    #[test]
    fn appliers_are_shown_by_event_table_and_wait() {
        let applier = |id, state: &str, statement: Option<&str>| ServerThread {
            name: "thread/sql/replica_worker".into(),
            user: "system user".into(),
            connection_id: Some(id),
            command: "Query".into(),
            state: state.into(),
            statement: statement.map(str::to_owned),
            ..ServerThread::default()
        };
        let seen = Sighting {
            at_s: 0.0,
            threads: vec![
                applier(1, "Applying batch of row changes (update)", None),
                applier(2, "Waiting for preceding transaction to commit", None),
                applier(3, "Waiting for an event from Coordinator", None),
                applier(4, "altering table", Some("ALTER TABLE stock ADD x INT")),
                thread(5, 0.0, "executing", "SELECT 1"),
            ],
            tables: HashMap::from([(1, "shop.stock".to_owned())]),
            ..Sighting::default()
        };
        let counted = counted(What { appliers: true, ..What::default() }, &[seen]);
        assert_eq!((counted.seen, counted.resting), (3, 1));
        let pair = |key: &str| (key.to_owned(), 1);
        assert_eq!(
            counts(&counted, By::Type),
            [pair("commit"), pair("row update"), pair("statement: ALTER")]
        );
        assert_eq!(counts(&counted, By::Table), [pair("(none)"), pair("shop.stock"), pair("stock")]);
        assert_eq!(counts(&counted, By::Wait), [("(none)".to_owned(), 2), pair("commit order")]);
        assert_eq!(counted.slowest, []);
    }

    #[test]
    fn keys_and_states_without_end_are_bounded() {
        let mut keys = Keys::default();
        for at in 0..MOST_KEYS + 10 {
            keys.count(&at.to_string(), "", 0.0);
        }
        for at in 0..MOST_STATES + 10 {
            keys.count("0", &at.to_string(), 0.0);
        }
        let groups = keys.finish();
        assert_eq!(groups.len(), MOST_KEYS + 1);
        assert!(groups.iter().any(|group| group.key == OTHERS && group.seen == 10));
        assert!(groups.iter().all(|group| group.states.len() <= MOST_STATES + 1));
    }
}
