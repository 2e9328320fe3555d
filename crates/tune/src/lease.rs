//! The lease and the EVENT that watches it, as SQL. Pure: nothing is sent from here.
//!
//! A tuner's own connection holds the user lock [`LOCK`]. It asks something every [`HEARTBEAT`] and the server closes it
//! after [`IDLE_S`] seconds of silence, so that a process that is dead, stopped or cut off loses the lock by the server's own
//! doing. A one-second EVENT sees that the lock is not held by that connection any more, gives each variable its old value
//! where it still has one that the tuner set, and drops itself. It leaves no trace in the binary log.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spindoctor_model::ServerVersion;

/// The user lock. One for a server: two tuners exclude each other.
pub const LOCK: &str = "spindoctor.lease";

/// The EVENT's name.
pub const EVENT: &str = "spindoctor_lease";

/// Where the EVENT may stand, the first that works: schemas that every server has, so that none is made for it.
/// `sys` comes with MySQL 5.7.7 and MariaDB 10.6.
pub const SCHEMAS: [&str; 2] = ["sys", "mysql"];

/// How often the lease's connection asks something.
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// After so many seconds without a question the server closes the lease's connection: four heartbeats. With the EVENT's one
/// second, old values are back within 3.5 s.
pub const IDLE_S: u32 = 2;

/// One variable that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// Its value before, as the server prints it.
    pub original: String,
    /// The values that the tuner set, as the server printed them afterwards.
    pub set: Vec<String>,
    /// True while a value is being set that was never set before: the server may make another of it, so that whatever the
    /// variable has then is the tuner's doing.
    pub is_changing: bool,
}

impl Held {
    /// True where a value is not the old one, and the tuner's doing.
    pub fn is_ours(&self, value: &str) -> bool {
        !same(value, &self.original) && (self.is_changing || self.set.iter().any(|ours| same(value, ours)))
    }
}

/// What the EVENT must know.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// Where it stands.
    pub schema: &'a str,
    /// The connection that holds the lock.
    pub holder: u64,
    /// When the server was started, Unix seconds of its own clock: see [`started`].
    pub started: i64,
    /// What it puts back.
    pub variables: &'a [Held],
    /// True where the server writes a binary log.
    pub has_binary_log: bool,
    /// The server.
    pub version: ServerVersion,
}

/// True where the server prints the same value: `75` and `75.000000`, `on` and `ON`.
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

fn quoted(value: &str) -> String {
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

/// What stands before the EVENT's body to make it.
pub fn create(schema: &str, comment: &str, body: &str) -> String {
    let comment: String = comment.chars().filter(|letter| !matches!(letter, '\'' | '\\')).take(60).collect();
    format!(
        "CREATE EVENT {schema}.{EVENT} ON SCHEDULE EVERY 1 SECOND ON COMPLETION PRESERVE ENABLE COMMENT '{comment}' DO {body}"
    )
}

/// Gives it another body.
pub fn alter(schema: &str, body: &str) -> String {
    format!("ALTER EVENT {schema}.{EVENT} DO {body}")
}

/// Takes it away.
pub fn drop(schema: &str) -> String {
    format!("DROP EVENT IF EXISTS {schema}.{EVENT}")
}

/// The body of the EVENT that stands while settings are taken. It stays while something is left to put back: a variable that
/// depends on another one, set first, is put back a second later.
pub fn body(watched: &Watched<'_>) -> String {
    let mut puts_back = String::new();
    for held in watched.variables {
        let (name, old) = (&held.name, literal(&held.original));
        let is_ours = if held.is_changing {
            format!("NOT {}", has_one_of(name, std::iter::once(held.original.as_str())))
        } else {
            let ours = held.set.iter().map(String::as_str).filter(|value| !same(value, &held.original));
            if ours.clone().next().is_none() {
                continue;
            }
            has_one_of(name, ours)
        };
        let _ = writeln!(puts_back, "   IF {is_ours} THEN SET GLOBAL {name} = {old}; END IF;");
        let _ = writeln!(puts_back, "   IF {is_ours} THEN SET undone = undone + 1; END IF;");
    }
    let (started, silence, drop) = (started(watched.version), silence(watched), drop(watched.schema));
    let (holder, server) = (watched.holder, watched.started);
    format!(
        "BEGIN
 DECLARE undone INT DEFAULT 0;
 DECLARE started BIGINT DEFAULT NULL;
 DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET undone = undone + 1;
 IF NOT (IS_USED_LOCK('{LOCK}') <=> {holder}) THEN
  {silence}SET started = {started};
  IF started IS NULL OR started = {server} THEN
{puts_back}   SET undone = undone;
  END IF;
  IF undone = 0 THEN {drop}; END IF;
 END IF;
END"
    )
}

/// The body of a rehearsal: everything that the other one may have to do, once, with the values that stand. Where it is gone
/// a moment later, the scheduler runs, and whoever made it has the privileges.
pub fn rehearsal(watched: &Watched<'_>) -> String {
    let sets: String = watched
        .variables
        .iter()
        .map(|held| format!(" SET GLOBAL {} = {};\n", held.name, literal(&held.original)))
        .collect();
    let (started, silence, drop) = (started(watched.version), silence(watched), drop(watched.schema));
    format!(
        "BEGIN\n DECLARE started BIGINT DEFAULT NULL;\n {silence}SET started = {started};\n IF IS_USED_LOCK('{LOCK}') <=> {} THEN\n{sets} END IF;\n {drop};\nEND",
        watched.holder
    )
}

fn silence(watched: &Watched<'_>) -> &'static str {
    if watched.has_binary_log { "SET SESSION sql_log_bin = 0; " } else { "" }
}

/// Sets values, all or none, where the lease still stands at that very moment; else each keeps what it has. `CAST`, because
/// some variables are signed and others not, and of both together the server makes a decimal, which no variable takes.
pub fn set<'a>(holder: u64, values: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let assignments: Vec<String> = values
        .map(|(name, value)| {
            let (wanted, now) = match value.parse::<u64>() {
                Ok(number) => {
                    (format!("CAST({number} AS UNSIGNED)"), format!("CAST(@@GLOBAL.{name} AS UNSIGNED)"))
                }
                Err(_) => (literal(value), format!("@@GLOBAL.{name}")),
            };
            format!("GLOBAL {name} = IF(IS_USED_LOCK('{LOCK}') <=> {holder}, {wanted}, {now})")
        })
        .collect();
    format!("SET {}", assignments.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(set: &[&str], is_changing: bool) -> Held {
        let set = set.iter().map(|&value| value.to_owned()).collect();
        Held { name: "innodb_spin_wait_delay".to_owned(), original: "100".to_owned(), set, is_changing }
    }

    fn text(variables: &[Held], has_binary_log: bool, version: &str) -> String {
        let version = ServerVersion::parse(version, "").unwrap();
        body(&Watched {
            schema: "sys",
            holder: 17,
            started: 1_700_000_000,
            variables,
            has_binary_log,
            version,
        })
    }

    #[test]
    fn the_event_puts_back_what_the_tuner_set_and_nothing_else() {
        let text = text(&[held(&["100", "6", "12"], false)], true, "9.7.4");
        assert!(text.contains("IF NOT (IS_USED_LOCK('spindoctor.lease') <=> 17) THEN"), "{text}");
        let puts_back = "IF @@GLOBAL.innodb_spin_wait_delay IN (6, 12) THEN SET GLOBAL innodb_spin_wait_delay = 100; END IF;";
        assert!(text.contains(puts_back), "{text}");
        assert!(text.contains("SET SESSION sql_log_bin = 0; "), "{text}");
        assert!(text.contains("DROP EVENT IF EXISTS sys.spindoctor_lease"), "{text}");
    }

    #[test]
    fn while_a_new_value_is_being_set_whatever_stands_is_put_back() {
        let text = text(&[held(&["6"], true)], false, "10.11.6-MariaDB");
        assert!(text.contains("IF NOT @@GLOBAL.innodb_spin_wait_delay IN (100) THEN"), "{text}");
        assert!(!text.contains("sql_log_bin"), "{text}");
        assert!(text.contains("information_schema.GLOBAL_STATUS"), "{text}");
        assert!(held(&[], true).is_ours("7") && !held(&[], true).is_ours("100"));
        assert!(held(&["6"], false).is_ours("6.0") && !held(&["6"], false).is_ours("7"));
    }

    #[test]
    fn a_variable_that_was_only_taken_is_left_alone() {
        assert!(!text(&[held(&[], false)], true, "8.0.36").contains("@@GLOBAL"));
        assert!(!text(&[held(&["100"], false)], true, "8.0.36").contains("@@GLOBAL"));
    }

    #[test]
    fn a_switch_is_known_by_its_word_and_by_its_number() {
        let switch = Held { original: "OFF".into(), set: vec!["ON".into()], ..held(&[], false) };
        let text = text(&[switch], false, "9.7.4");
        let puts_back = "IF CAST(@@GLOBAL.innodb_spin_wait_delay AS CHAR) IN ('ON', '1') THEN SET GLOBAL innodb_spin_wait_delay = 'OFF'";
        assert!(text.contains(puts_back), "{text}");
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
    fn setting_asks_for_the_lease_in_the_same_statement() {
        let sql = set(17, [("a", "6"), ("b", "OFF")].into_iter());
        assert_eq!(
            sql,
            "SET GLOBAL a = IF(IS_USED_LOCK('spindoctor.lease') <=> 17, CAST(6 AS UNSIGNED), CAST(@@GLOBAL.a AS UNSIGNED)), \
             GLOBAL b = IF(IS_USED_LOCK('spindoctor.lease') <=> 17, 'OFF', @@GLOBAL.b)"
        );
    }
}
