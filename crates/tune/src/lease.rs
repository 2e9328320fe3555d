//! The lease and the EVENT that watches it, as SQL. Pure: nothing is sent from here.
//!
//! A tuner's own connection holds the user lock [`LOCK`]. The tuner sends a query on it every [`HEARTBEAT`], and the
//! server closes the connection after [`IDLE_S`] seconds of silence: so a process that is dead, stopped or cut off
//! loses the lock without doing anything. A one-second EVENT sees that the lock is not held by that connection any
//! more, gives each variable its old value where it still has one that the tuner set, and drops itself. It leaves no
//! trace in the binary log.
//!
//! Every write compares before it sets, in one statement ([`set`]): where the lock is not held by whom it must be held,
//! or a variable has another value than the writer believes, the statement fails and writes nothing, not even the same
//! value. One window remains: the server evaluates all conditions of a statement, then sets its variables one after the
//! other. A `SET GLOBAL` by somebody else between the two (microseconds; seconds where the adaptive hash index is
//! emptied by the same statement) is overwritten. A change to the very value that spindoctor has set cannot be
//! distinguished from its own.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spindoctor_model::ServerVersion;

/// The user lock. One for a server: two tuners exclude each other.
pub const LOCK: &str = "spindoctor.lease";

/// The beginning of an EVENT's name, see [`event_name`].
pub const EVENT: &str = "spindoctor_lease";

/// The name of the EVENT that watches the lease of one connection of one start of the server. No two tuners ever have
/// the same, so that a session that drops one by its name, however late, drops no other's.
pub fn event_name(holder: u64, started: i64) -> String {
    format!("{EVENT}_{holder}_{started}")
}

/// When the server was started for which an EVENT was made; none where it is not such a name.
pub fn event_started(name: &str) -> Option<i64> {
    let (holder, started) = name.strip_prefix(EVENT)?.strip_prefix('_')?.split_once('_')?;
    let _is_number: u64 = holder.parse().ok()?;
    started.parse().ok()
}

/// Where the EVENT may stand, the first that works: schemas that every server has, so that none is made for it.
/// `sys` comes with MySQL 5.7.7 and MariaDB 10.6.
pub const SCHEMAS: [&str; 2] = ["sys", "mysql"];

/// How often the lease's connection asks something.
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// After so many seconds without a question the server closes the lease's connection: eight heartbeats, so that a host which
/// runs nobody for three seconds does not end a trial. With the EVENT's one second, old values are back within the 5 s that
/// are promised of a tuner that is stopped.
pub const IDLE_S: u32 = 4;

/// The same for a connection that holds the lock to give something back: it asks all the time.
pub(crate) const GIVER_IDLE_S: u32 = 2;

/// The same for a connection that makes undo tablespaces: one takes seconds at most, and nobody can say that none will come
/// before it is closed.
pub(crate) const WRITER_IDLE_S: u32 = 30;

/// One variable that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// Its value before, as the server prints it.
    pub original: String,
    /// The values that may be the tuner's doing: each stands here before it is set.
    pub set: Vec<String>,
}

impl Held {
    /// True where a value is not the old one, and the tuner's doing.
    pub fn is_ours(&self, value: &str) -> bool {
        !same(value, &self.original) && self.set.iter().any(|ours| same(value, ours))
    }
}

/// What is written into the EVENT.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// Where it stands.
    pub schema: &'a str,
    /// The connection that holds the lock.
    pub holder: u64,
    /// The connection that sets.
    pub writer: u64,
    /// When the server was started, Unix seconds of its own clock: see [`started`].
    pub started: i64,
    /// What it puts back.
    pub variables: &'a [Held],
    /// True where the server writes a binary log.
    pub has_binary_log: bool,
    /// The server.
    pub version: ServerVersion,
}

/// True where two texts are the same value to the server: `75` and `75.000000`, `on` and `ON`.
pub fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other)
}

/// A value as it stands in SQL: numbers bare, all else quoted. ON and OFF are quoted, too: some of the switches are lists of
/// words (`innodb_log_writer_threads` from MySQL 9.5 on), which take no 0 and 1.
pub fn literal(value: &str) -> String {
    if is_number(value) { value.to_owned() } else { quoted(value) }
}

fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(f64::is_finite)
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-')
}

pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// True where a variable has one of these values. `@@GLOBAL` says 1 of a switch that is ON, and ON of one that is a list of
/// words; compared as text, because any word equals the number 0.
fn has_one_of<'a>(name: &str, values: impl Iterator<Item = &'a str> + Clone) -> String {
    if values.clone().all(is_number) {
        return format!("@@GLOBAL.{name} IN ({})", values.collect::<Vec<_>>().join(", "));
    }
    let words: Vec<String> = values
        .map(|value| match value {
            _ if value.eq_ignore_ascii_case("ON") => "'ON', '1'".to_owned(),
            _ if value.eq_ignore_ascii_case("OFF") => "'OFF', '0'".to_owned(),
            _ => quoted(value),
        })
        .collect();
    format!("CAST(@@GLOBAL.{name} AS CHAR) IN ({})", words.join(", "))
}

/// When the server was started, Unix seconds of its own clock, as an expression. The server counts `Uptime` from a time of
/// start that it keeps (`server_start_time` in mysqld.cc, of both lines) to the statement's own time, which is
/// `UNIX_TIMESTAMP()`: the difference is the same whenever it is asked, also after the clock was set.
pub fn started(version: ServerVersion) -> String {
    // The tables of information_schema are gone from MySQL 8.0; MariaDB has no global_status in performance_schema.
    let table = if version.mysql_at_least(5, 7, 6) {
        "performance_schema.global_status"
    } else {
        "information_schema.GLOBAL_STATUS"
    };
    format!("(SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE FROM {table} WHERE VARIABLE_NAME = 'Uptime')")
}

/// The statement that makes the EVENT with this body.
pub fn create(watched: &Watched<'_>, comment: &str, body: &str) -> String {
    let comment: String = comment.chars().filter(|letter| !matches!(letter, '\'' | '\\')).take(60).collect();
    let (schema, name) = (watched.schema, event_name(watched.holder, watched.started));
    format!(
        "CREATE EVENT {schema}.{name} ON SCHEDULE EVERY 1 SECOND ON COMPLETION PRESERVE ENABLE COMMENT '{comment}' DO {body}"
    )
}

/// The statement that gives the EVENT another body.
pub fn alter(watched: &Watched<'_>, body: &str) -> String {
    format!("ALTER EVENT {}.{} DO {body}", watched.schema, event_name(watched.holder, watched.started))
}

/// The statement that drops an EVENT.
pub fn drop(schema: &str, name: &str) -> String {
    format!("DROP EVENT IF EXISTS {schema}.{name}")
}

/// An expression: 1 while a connection runs a statement, else 0. The server notices that a client is gone at its statement's end.
pub fn busy(connection: u64) -> String {
    format!(
        "(SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {connection} AND COMMAND <> 'Sleep' AND ID <> CONNECTION_ID())"
    )
}

/// An expression: 1 while a connection exists, which may not have begun the statement that it was sent; else 0.
pub fn connected(connection: u64) -> String {
    format!(
        "(SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {connection} AND ID <> CONNECTION_ID())"
    )
}

/// The body of the EVENT that stands while settings are taken. It stays while something is left to put back: a variable that
/// depends on another one, set first, is put back a second later. It stays, too, while the tuner's connection is at a
/// statement: that may have begun under the lease, and set something yet. That is looked at first, because a statement that
/// begins later finds no lease.
pub fn body(watched: &Watched<'_>) -> String {
    let mut puts_back = String::new();
    for held in watched.variables {
        let ours = held.set.iter().map(String::as_str).filter(|value| !same(value, &held.original));
        if ours.clone().next().is_none() {
            continue;
        }
        let name = &held.name;
        let is_ours = has_one_of(name, ours);
        let old = either(&is_ours, &held.original);
        let _ = writeln!(puts_back, "   IF {is_ours} THEN SET GLOBAL {name} = {old}; END IF;");
        let _ = writeln!(puts_back, "   IF {is_ours} THEN SET undone = undone + 1; END IF;");
    }
    let (started, silence) = (started(watched.version), silence(watched));
    let drop = drop(watched.schema, &event_name(watched.holder, watched.started));
    let (holder, server, busy) = (watched.holder, watched.started, busy(watched.writer));
    format!(
        "BEGIN
 DECLARE undone INT DEFAULT 0;
 DECLARE started BIGINT DEFAULT NULL;
 DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET undone = undone + 1;
 IF NOT (IS_USED_LOCK('{LOCK}') <=> {holder}) THEN
  {silence}SET started = {started};
  IF started IS NULL OR started = {server} THEN
   SET undone = undone + {busy};
{puts_back}  END IF;
  IF undone = 0 THEN {drop}; END IF;
 END IF;
END"
    )
}

/// The body of a rehearsal: everything that the other one may have to do, once, with the values that stand. Where it is
/// gone a moment later, the scheduler runs, and its definer has the privileges. A variable that somebody else set
/// meanwhile is left alone.
pub fn rehearsal(watched: &Watched<'_>) -> String {
    let sets: String = watched
        .variables
        .iter()
        .map(|held| {
            let (name, old) = (&held.name, held.original.as_str());
            let stands = has_one_of(name, std::iter::once(old));
            format!("  IF {stands} THEN SET GLOBAL {name} = {}; END IF;\n", either(&stands, old))
        })
        .collect();
    let (started, silence) = (started(watched.version), silence(watched));
    let drop = drop(watched.schema, &event_name(watched.holder, watched.started));
    let (holder, busy) = (watched.holder, busy(watched.writer));
    format!(
        "BEGIN\n DECLARE started BIGINT DEFAULT NULL;\n {silence}SET started = {started};\n SET started = {busy};\n IF IS_USED_LOCK('{LOCK}') <=> {holder} THEN\n{sets} END IF;\n {drop};\nEND"
    )
}

fn silence(watched: &Watched<'_>) -> &'static str {
    if watched.has_binary_log { "SET SESSION sql_log_bin = 0; " } else { "" }
}

/// Who must hold the lock for a value to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockedBy {
    /// This connection.
    Connection(u64),
    /// The connection that sets.
    Own,
    /// A connection of which nothing is known; the value is set only before `until`, by the server's clock.
    Foreign {
        /// The connection.
        connection: u64,
        /// A time as the server prints it.
        until: String,
    },
}

impl LockedBy {
    fn condition(&self) -> String {
        let by = |holder: &dyn std::fmt::Display| format!("IS_USED_LOCK('{LOCK}') <=> {holder}");
        match self {
            Self::Connection(id) => by(id),
            Self::Own => by(&"CONNECTION_ID()"),
            Self::Foreign { connection, until } => {
                format!("{} AND SYSDATE() < {}", by(connection), quoted(until))
            }
        }
    }
}

/// One variable in a statement that sets.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Its name.
    pub name: &'a str,
    /// The values of which it must have one.
    pub expected: &'a [String],
    /// The value that it gets.
    pub wanted: &'a str,
}

/// Sets values, all or none, where the lock is held by whom it must be and every variable has a value that is expected, both at
/// that very moment; else it fails with the error [`NOT_AS_EXPECTED`]. The server works out all values before it sets the
/// first.
pub fn set(by: &LockedBy, writes: &[Write<'_>]) -> String {
    assign("GLOBAL", by, writes)
}

/// As [`set`], over a restart, too.
pub fn persist(by: &LockedBy, writes: &[Write<'_>]) -> String {
    assign("PERSIST", by, writes)
}

fn assign(scope: &str, by: &LockedBy, writes: &[Write<'_>]) -> String {
    let mut all = by.condition();
    for write in writes {
        let _ = write!(all, " AND {}", has_one_of(write.name, write.expected.iter().map(String::as_str)));
    }
    let assignments: Vec<String> = writes
        .iter()
        .map(|write| format!("{scope} {} = {}", write.name, either(&all, write.wanted)))
        .collect();
    format!("SET {}", assignments.join(", "))
}

/// `ER_SUBQUERY_NO_1_ROW` of both lines.
pub const NOT_AS_EXPECTED: u16 = 1242;

/// The value where the condition holds, else an error. `CAST`, because some variables are signed and others not, and of both
/// together the server makes a decimal, which no variable takes.
fn either(condition: &str, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) => format!(
            "IF({condition}, CAST({number} AS UNSIGNED), (SELECT CAST(1 AS UNSIGNED) UNION SELECT CAST(2 AS UNSIGNED)))"
        ),
        Err(_) if is_number(value) => format!("IF({condition}, {value}, (SELECT 1.5 UNION SELECT 2.5))"),
        Err(_) => format!("IF({condition}, {}, (SELECT 'a' UNION SELECT 'b'))", quoted(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(set: &[&str]) -> Held {
        let set = set.iter().map(|&value| value.to_owned()).collect();
        Held { name: "innodb_spin_wait_delay".to_owned(), original: "100".to_owned(), set }
    }

    fn text(variables: &[Held], has_binary_log: bool, version: &str) -> String {
        let version = ServerVersion::parse(version, "").unwrap();
        let (schema, holder, writer, started) = ("sys", 17, 16, 1_700_000_000);
        body(&Watched { schema, holder, writer, started, variables, has_binary_log, version })
    }

    #[test]
    fn the_event_puts_back_what_the_tuner_set_and_nothing_else() {
        let text = text(&[held(&["100", "6", "12"])], true, "9.7.4");
        assert!(text.contains("IF NOT (IS_USED_LOCK('spindoctor.lease') <=> 17) THEN"), "{text}");
        let puts_back = "IF @@GLOBAL.innodb_spin_wait_delay IN (6, 12) THEN SET GLOBAL innodb_spin_wait_delay = \
            IF(@@GLOBAL.innodb_spin_wait_delay IN (6, 12), CAST(100 AS UNSIGNED), (SELECT CAST(1 AS UNSIGNED) UNION SELECT CAST(2 AS UNSIGNED))); END IF;";
        assert!(text.contains(puts_back), "{text}");
        assert!(text.contains("SET SESSION sql_log_bin = 0; "), "{text}");
        assert!(text.contains("DROP EVENT IF EXISTS sys.spindoctor_lease_17_1700000000"), "{text}");
        let (busy, values) = (text.find("WHERE ID = 16").unwrap(), text.find("@@GLOBAL").unwrap());
        assert!(busy < values, "whether the tuner is at a statement is looked at before the values: {text}");
        assert!(held(&["6"]).is_ours("6.0") && !held(&["6"]).is_ours("7") && !held(&["100"]).is_ours("100"));
    }

    #[test]
    fn on_mariadb_the_start_is_read_elsewhere_and_without_a_binary_log_none_is_silenced() {
        let text = text(&[held(&["6"])], false, "10.11.6-MariaDB");
        assert!(!text.contains("sql_log_bin"), "{text}");
        assert!(text.contains("information_schema.GLOBAL_STATUS"), "{text}");
    }

    #[test]
    fn a_variable_that_was_only_taken_is_left_alone() {
        assert!(!text(&[held(&[])], true, "8.0.36").contains("@@GLOBAL"));
        assert!(!text(&[held(&["100"])], true, "8.0.36").contains("@@GLOBAL"));
    }

    #[test]
    fn a_switch_is_known_by_its_word_and_by_its_number() {
        let switch = Held { original: "OFF".into(), set: vec!["ON".into()], ..held(&[]) };
        let text = text(&[switch], false, "9.7.4");
        let puts_back = "IF CAST(@@GLOBAL.innodb_spin_wait_delay AS CHAR) IN ('ON', '1') THEN SET GLOBAL innodb_spin_wait_delay = IF(";
        assert!(
            text.contains(puts_back) && text.contains(", 'OFF', (SELECT 'a' UNION SELECT 'b'))"),
            "{text}"
        );
    }

    #[test]
    fn an_events_name_says_whose_it_is() {
        assert_eq!(event_name(17, 1_700_000_000), "spindoctor_lease_17_1700000000");
        assert_eq!(event_started("spindoctor_lease_17_1700000000"), Some(1_700_000_000));
        for other in ["spindoctor_lease", "spindoctor_lease_", "spindoctor_lease_17", "spindoctor_lease_x_1"]
        {
            assert_eq!(event_started(other), None);
        }
        // A server's names have 64 letters at most.
        assert!(event_name(u64::MAX, i64::MIN).len() <= 64);
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        assert_eq!(literal("7"), "7");
        assert_eq!(literal("75.000000"), "75.000000");
        assert_eq!(literal("ON"), "'ON'");
        assert_eq!(literal("a'; DROP TABLE t; \\"), "'a''; DROP TABLE t; \\\\'");
        assert_eq!(literal("1e5"), "'1e5'");
        assert_eq!(literal("infinity"), "'infinity'");
    }

    #[test]
    fn setting_asks_for_the_lease_and_for_the_values_in_the_same_statement() {
        let expected = ["7".to_owned(), "8".to_owned()];
        let switch = ["ON".to_owned()];
        let writes = [
            Write { name: "a", expected: &expected, wanted: "6" },
            Write { name: "b", expected: &switch, wanted: "OFF" },
        ];
        let all = "IS_USED_LOCK('spindoctor.lease') <=> 17 AND @@GLOBAL.a IN (7, 8) AND CAST(@@GLOBAL.b AS CHAR) IN ('ON', '1')";
        assert_eq!(
            set(&LockedBy::Connection(17), &writes),
            format!(
                "SET GLOBAL a = IF({all}, CAST(6 AS UNSIGNED), (SELECT CAST(1 AS UNSIGNED) UNION SELECT CAST(2 AS UNSIGNED))), \
                 GLOBAL b = IF({all}, 'OFF', (SELECT 'a' UNION SELECT 'b'))"
            )
        );
        assert!(set(&LockedBy::Own, &writes).contains("<=> CONNECTION_ID() AND"));
        let foreign = LockedBy::Foreign { connection: 9, until: "2026-01-01 00:00:02".to_owned() };
        let expected =
            "IF(IS_USED_LOCK('spindoctor.lease') <=> 9 AND SYSDATE() < '2026-01-01 00:00:02' AND @@GLOBAL.a";
        assert!(set(&foreign, &writes).contains(expected));
    }
}
