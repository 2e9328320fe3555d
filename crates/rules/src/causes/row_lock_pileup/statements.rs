//! The statement that most of those run who wait, the one that those ran who have the lock, and what both say of it.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::{RowLockWait, ServerSample};
use spindoctor_model::{Evidence, Sample, number};
use spindoctor_sql::{Mode, Token, begins_with, compared_columns, kind, lex, names, qualified_table};

use super::holders::Holders;
use super::queue::is_for_a_counter;
use crate::sessions;

/// Part of the waits that must be of one statement before it says what they wait for. Chosen.
const MOST: f64 = 0.5;

/// Characters from which on a statement may have been cut: sources read 1,024.
const CUT_FROM: usize = 1000;

/// Characters of a statement in the evidence: FOR UPDATE stands at its end.
const SHOWN: usize = 200;

/// The statement that was seen the most, without its literals.
pub(super) struct Commonest {
    text: String,
    /// The database that it ran in, empty where that is not known.
    schema: String,
    /// Its part of all that were seen, 0 to 1.
    share: f64,
    /// Its end may be missing.
    is_cut: bool,
}

impl Commonest {
    /// Of these statements, each with the database that it runs in.
    fn from_all<'s>(all: impl Iterator<Item = (&'s str, &'s str)>) -> Option<Self> {
        let mut seen: BTreeMap<String, (usize, &str, bool)> = BTreeMap::new();
        let mut count = 0_u32;
        for (statement, schema) in all {
            let is_cut = statement.chars().count() >= CUT_FROM || statement.contains(spindoctor_sql::CUT);
            seen.entry(spindoctor_sql::digest(statement)).or_insert((0, schema, is_cut)).0 += 1;
            count += 1;
        }
        let (text, (times, schema, is_cut)) = seen.into_iter().max_by_key(|(_, (times, ..))| *times)?;
        Some(Self { text, schema: schema.to_owned(), share: times as f64 / f64::from(count), is_cut })
    }

    /// What those run who wait for a row in any of these samples; where the table is known that most want, for one of that table.
    pub(super) fn of_waiters(samples: &[&Sample], table: Option<&str>) -> Option<Self> {
        Self::from_all(samples.iter().flat_map(|sample| waiting(&sample.server, table)))
    }

    /// What those run, or ran last, who have the lock; a COMMIT says nothing of it.
    pub(super) fn of_holders(holders: &Holders<'_>) -> Option<Self> {
        const ENDS: [&str; 3] = ["", "COMMIT", "ROLLBACK"];
        let all = holders.samples.iter().flat_map(|named| {
            named.roots.iter().filter_map(move |(_, root)| {
                let server = &named.sample.server;
                let thread = sessions::session(server, root.connection_id)?;
                let statement = match thread.is_at_work() {
                    true => thread.statement.as_deref(),
                    false => server.last_statement(thread),
                };
                Some((statement?, thread.schema.as_str()))
            })
        });
        Self::from_all(all.filter(|(statement, _)| !ENDS.contains(&kind(statement).as_str())))
    }

    /// `97 % UPDATE totals SET n = n + ?`
    pub(super) fn evidence(&self, reading: &str, source: &str) -> Evidence {
        let text = format!("{} {}", number::whole_percent(self.share), sessions::cut(&self.text, SHOWN));
        Evidence::new(reading, text, "", source)
    }

    /// True where the server runs it for each login: most run a statement of this `init_connect`.
    pub(super) fn is_of_login(&self, init_connect: &str) -> bool {
        // A literal with a semicolon is cut, and nothing is then equal.
        let mut statements = init_connect.split(';').map(str::trim).filter(|one| !one.is_empty());
        self.share >= MOST && statements.any(|one| spindoctor_sql::digest(one) == self.text)
    }

    /// True where its conditions choose rows by more than a primary key, which most applications call id.
    pub(super) fn chooses_rows(&self) -> bool {
        let is_key = |name: &str| name.eq_ignore_ascii_case("id");
        let lexed = lex(&self.text, Mode::UNKNOWN);
        let code: Vec<&Token<'_>> = lexed.code().collect();
        let is_of_one =
            code.windows(2).any(|pair| pair[0].is_name() && is_key(&pair[0].name()) && pair[1].is_sign("="));
        !is_of_one && compared_columns(&self.text).iter().any(|column| !is_key(column))
    }

    /// Its first table with its database, as far as both are known: `shop.orders`.
    fn first_table(&self) -> Option<Table> {
        let (schema, name) = qualified_table(&self.text)?;
        let schema = schema.or_else(|| (!self.schema.is_empty()).then(|| self.schema.clone()));
        Some(Table { schema, name })
    }
}

/// A table that a statement names.
pub(super) struct Table {
    schema: Option<String>,
    name: String,
}

impl Table {
    /// `shop.orders`
    pub(super) fn qualified(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }

    /// What shows the triggers of the table.
    pub(super) fn triggers(&self) -> String {
        let from = self.schema.as_ref().map_or_else(String::new, |schema| format!(" FROM {}", name(schema)));
        format!("SHOW TRIGGERS{from} LIKE {}", spindoctor_sql::quoted(&self.name))
    }

    /// What shows its foreign keys.
    pub(super) fn definition(&self) -> String {
        let schema = self.schema.as_ref().map_or_else(String::new, |schema| format!("{}.", name(schema)));
        format!("SHOW CREATE TABLE {schema}{}", name(&self.name))
    }
}

/// A name as a statement takes it: in quotes where it needs them.
fn name(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().any(|c| !c.is_ascii_digit());
    if is_plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

/// Each session that waits for a row in a sample, of this table where one is given: its statement, and its database.
fn waiting<'s>(server: &'s ServerSample, table: Option<&str>) -> Vec<(&'s str, &'s str)> {
    let waits = server
        .row_lock_waits
        .value()
        .into_iter()
        .flatten()
        .filter(|wait| !is_for_a_counter(wait) && table.is_none_or(|table| wait.table == table));
    let counters = server.row_lock_waits.value().into_iter().flatten().filter(|wait| is_for_a_counter(wait));
    let counters: BTreeSet<&String> = counters.map(|wait| &wait.waiting_transaction).collect();
    let open = server.transactions.value().into_iter().flatten();
    let in_lock_wait = open
        .filter(|one| one.state == "LOCK WAIT" && !one.wants_a_table() && !counters.contains(&one.id))
        .filter_map(|one| one.connection_id)
        // It does not say of which table.
        .filter(|_| table.is_none());
    let ids: BTreeSet<u64> =
        waits.filter_map(|wait| wait.waiting_connection_id).chain(in_lock_wait).collect();
    let statement = |id: u64| {
        let thread = sessions::session(server, id);
        // It was read with who waits; the list of threads some milliseconds before.
        let of_transaction = sessions::transaction(server, id).and_then(|open| open.statement.as_deref());
        let statement = of_transaction.or_else(|| thread?.statement.as_deref())?;
        Some((statement, thread.map_or("", |thread| thread.schema.as_str())))
    };
    ids.into_iter().filter_map(statement).filter(|(statement, _)| !statement.is_empty()).collect()
}

/// What the statement of those that wait says of the lock.
pub(super) enum Wanted {
    /// The first row that fits, as a worker takes it from a queue: SELECT ... LIMIT ... FOR UPDATE of this table.
    NextOfQueue(String),
    /// A row that a trigger changes.
    OfTrigger,
    /// A row of another table than the statement names, by an INSERT, UPDATE or DELETE of this one.
    OfOtherTable(Table),
    /// Room for a new row: the gap at the end of an index, where that is known, else a gap or a row with the same key.
    Room { is_at_the_end: bool },
    /// Nothing more than a row.
    Row,
}

impl Wanted {
    pub(super) fn from_waits(waiters: Option<&Commonest>, place: Option<&RowLockWait>) -> Self {
        let is_at_the_end = place.is_some_and(|place| place.record.starts_with(SUPREMUM));
        let Some(waiters) = waiters.filter(|waiters| waiters.share >= MOST) else {
            return if is_at_the_end { Self::Room { is_at_the_end } } else { Self::Row };
        };
        let text = waiters.text.as_str();
        let named: Vec<String> = names(text).collect();
        let has = |words: &[&str]| named.windows(words.len()).any(|some| some == words);
        let is = |verbs: &[&str]| verbs.iter().any(|verb| begins_with(text, &[verb]));
        let other = place.map(|place| bare(&place.table)).filter(|table| !table.is_empty());
        let is_named = other.as_ref().is_none_or(|table| named.contains(table));
        let first = waiters.first_table();
        let is_into_it = first.as_ref().map(|table| table.name.to_lowercase()) == other;
        let locks_the_next = has(&["limit"]) && has(&["for", "update"]) && !has(&["skip", "locked"]);
        // A program that looks for one row by its id asks for one at most.
        let is_of_one = || compared_columns(text).iter().any(|column| column.eq_ignore_ascii_case("id"));
        match first {
            _ if is_at_the_end => Self::Room { is_at_the_end },
            Some(table) if is(&["select", "with"]) && locks_the_next && is_named => {
                match has(&["order", "by"]) || !is_of_one() {
                    true => Self::NextOfQueue(table.qualified()),
                    false => Self::Row,
                }
            }
            _ if is_of_trigger(text) => Self::OfTrigger,
            Some(table) if is(&["insert", "replace", "update", "delete"]) && !is_named && !waiters.is_cut => {
                Self::OfOtherTable(table)
            }
            Some(_) if is(&["insert"]) && is_into_it && !has(&["duplicate", "key"]) => {
                Self::Room { is_at_the_end }
            }
            _ => Self::Row,
        }
    }
}

/// How InnoDB calls what stands behind the last row of an index (storage/innobase/lock/lock0lock.cc).
const SUPREMUM: &str = "supremum";

/// `orders` of `shop.orders` and of `shop.orders#P#p0`, in lower case and without quotes.
fn bare(table: &str) -> String {
    let name = table.rsplit_once('.').map_or(table, |(_, name)| name);
    name.split('#').next().unwrap_or(name).trim_matches('`').to_lowercase()
}

/// True for a statement of a trigger, which names the row as NEW or OLD. Who calls a table or the values of an INSERT so
/// (`VALUES (1) AS new ON DUPLICATE KEY UPDATE n = new.n`) writes the name alone once.
fn is_of_trigger(statement: &str) -> bool {
    let lexed = lex(statement, Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    let mut rows = code.iter().enumerate().filter(|(_, token)| token.is_one_of(&["new", "old"])).peekable();
    let is_qualifier = |at: usize| {
        code.get(at + 1).is_some_and(|next| next.is_sign("."))
            && at.checked_sub(1).is_none_or(|before| !code[before].is_sign("."))
    };
    rows.peek().is_some() && rows.all(|(at, _)| is_qualifier(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{answer, session};

    fn wanted(statement: &str, table: &str, record: &str) -> Wanted {
        let waiters = Commonest::from_all([(statement, "shop")].into_iter());
        let place = RowLockWait { table: table.into(), record: record.into(), ..RowLockWait::default() };
        Wanted::from_waits(waiters.as_ref(), Some(&place))
    }

    /// `next of shop.jobs`, in words that a test can compare.
    fn said(statement: &str, table: &str) -> String {
        match wanted(statement, table, "7") {
            Wanted::NextOfQueue(table) => format!("next of {table}"),
            Wanted::OfTrigger => "a trigger".into(),
            Wanted::OfOtherTable(table) => format!("from {}", table.qualified()),
            Wanted::Room { is_at_the_end } => format!("room, at the end: {is_at_the_end}"),
            Wanted::Row => "a row".into(),
        }
    }

    #[test]
    fn a_statement_says_what_its_session_waits_for() {
        for (statement, table, expected) in [
            (
                "SELECT id FROM jobs WHERE s = 'new' ORDER BY id LIMIT 1 FOR UPDATE",
                "shop.jobs",
                "next of shop.jobs",
            ),
            ("SELECT id FROM q.jobs LIMIT 1 FOR UPDATE", "q.jobs", "next of q.jobs"),
            ("SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED", "shop.jobs", "a row"),
            ("SELECT n FROM counters WHERE id = 1 FOR UPDATE", "shop.counters", "a row"),
            ("SELECT n FROM counters WHERE id = 1 LIMIT 1 FOR UPDATE", "shop.counters", "a row"),
            ("UPDATE counters SET n = n + 1 WHERE id = 1", "shop.counters", "a row"),
            ("UPDATE totals SET n = n + NEW.amount", "shop.totals", "a trigger"),
            ("DELETE FROM totals WHERE id = OLD.id", "shop.totals", "a trigger"),
            (
                "INSERT INTO counters VALUES (1, 1) AS new ON DUPLICATE KEY UPDATE n = n + new.n",
                "shop.counters",
                "a row",
            ),
            ("INSERT INTO orders (customer_id) VALUES (7)", "shop.customers", "from shop.orders"),
            ("UPDATE `crm`.`orders` SET n = 1", "shop.Totals", "from crm.orders"),
            ("UPDATE orders JOIN Customers c ON c.id = 1 SET n = 1", "shop.customers", "a row"),
            ("INSERT INTO orders SELECT 1 FROM customers", "shop.customers", "a row"),
            ("INSERT INTO orders VALUES (1)", "shop.orders#P#p0", "room, at the end: false"),
            ("CALL pay(17)", "shop.customers", "a row"),
            ("INSERT INTO orders VALUES (1)", "`shop`.`orders`", "room, at the end: false"),
            ("INSERT INTO orders VALUES (1)", "", "a row"),
        ] {
            assert_eq!(said(statement, table), expected, "{statement}");
        }
        let of_end = wanted("UPDATE orders SET a = 1 WHERE id > 5", "shop.orders", "supremum pseudo-record");
        assert!(matches!(of_end, Wanted::Room { is_at_the_end: true }));
        // Its last tables may be missing.
        let long = format!("UPDATE orders SET note = 1 WHERE id IN (SELECT {})", "a + ".repeat(400));
        assert_eq!(said(&long, "shop.customers"), "a row");
    }

    #[test]
    fn of_many_statements_none_says_it() {
        let all =
            ["UPDATE a SET n = 1", "INSERT INTO b VALUES (2)", "DELETE FROM c"].map(|text| (text, "shop"));
        let waiters = Commonest::from_all(all.into_iter()).unwrap();
        assert!((waiters.share - 1.0 / 3.0).abs() < 1e-9);
        let place = RowLockWait { table: "shop.customers".into(), ..RowLockWait::default() };
        assert!(matches!(Wanted::from_waits(Some(&waiters), Some(&place)), Wanted::Row));
        assert!(Commonest::from_all([].into_iter()).is_none());
    }

    /// Two want the same row of one table, and three rows of their own of another.
    #[test]
    fn the_statement_is_of_those_that_wait_for_the_table_that_is_named() {
        let wait = |id: u64, table: &str| RowLockWait {
            waiting_connection_id: Some(id),
            waiting_transaction: id.to_string(),
            table: table.into(),
            ..RowLockWait::default()
        };
        let waits = [1, 2].map(|id| wait(id, "shop.stock")).into_iter();
        let waits = waits.chain([3, 4, 5].map(|id| wait(id, "shop.orders"))).collect();
        let runs = |id: u64| match id < 3 {
            true => session(id, "Query", "updating", "UPDATE stock SET n = 1"),
            false => session(id, "Query", "updating", "UPDATE orders SET n = 1"),
        };
        let server = ServerSample {
            threads: answer(0.0, (1..6).map(runs).collect()),
            row_lock_waits: answer(0.0, waits),
            ..ServerSample::default()
        };
        let sample = Sample { server, ..Sample::default() };
        let said = |table| Commonest::of_waiters(&[&sample], table).map(|most| most.text);
        assert_eq!(said(Some("shop.stock")).as_deref(), Some("UPDATE stock SET n = ?"));
        assert_eq!(said(None).as_deref(), Some("UPDATE orders SET n = ?"));
    }

    #[test]
    fn names_are_quoted_where_a_statement_needs_that() {
        let table = Table { schema: Some("my-shop".into()), name: "o'orders".into() };
        assert_eq!(table.definition(), "SHOW CREATE TABLE `my-shop`.`o'orders`");
        assert_eq!(table.triggers(), "SHOW TRIGGERS FROM `my-shop` LIKE 'o''orders'");
    }
}
