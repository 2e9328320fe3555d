//! Sessions that a query or a shell counted: so many are in each state, of each command, user or host.
//!
//! ```text
//! | state                           | COUNT(*) |
//! | Waiting for table metadata lock |      312 |
//! | Sending data                    |       14 |
//! ```
//!
//! Sessions that are counted by their state are so many sessions in that state; what else is
//! counted is said in a sentence.

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::mysql::ServerThread;

use crate::heads::{COMMANDS, is_number};
use crate::rows::{MOST_ROWS, is_name};
use crate::threads;

/// Groups that are named in a sentence, and the characters of each that are shown.
const NAMED: usize = 5;
const SHOWN: usize = 60;

/// States that are whole, in lower case: longer texts that begin so are statements or sentences.
const WHOLE_STATES: [&str; 19] = [
    "init",
    "starting",
    "executing",
    "statistics",
    "preparing",
    "optimizing",
    "updating",
    "update",
    "end",
    "login",
    "locked",
    "killed",
    "commit",
    "rollback",
    "rolling back",
    "cleaning up",
    "altering table",
    "user sleep",
    "user lock",
];

/// How the others begin ("Thread states" of the manuals of MySQL and MariaDB; sql/mysqld.cc, stage_...).
const STATES: [&str; 56] = [
    "waiting for table",
    "waiting for global read lock",
    "waiting for commit lock",
    "waiting for backup lock",
    "waiting for user lock",
    "waiting for schema",
    "waiting for stored",
    "waiting for trigger",
    "waiting for event metadata",
    "waiting for acl",
    "waiting for query cache lock",
    "waiting for handler commit",
    "waiting for binlog",
    "waiting for semi-sync",
    "waiting for prior transaction",
    "waiting for preceding transaction",
    "waiting for dependent transaction",
    "waiting for certification",
    "waiting for flow control",
    "waiting for toi ddl",
    "waiting for master",
    "waiting for source",
    "waiting for slave",
    "waiting for replica",
    "waiting for work from",
    "waiting for an event",
    "waiting for next activation",
    "waiting on empty queue",
    "waiting to execute in isolation",
    "waiting in innodb queue",
    "sleeping before ",
    "sending data",
    "sending to client",
    "writing to net",
    "reading from net",
    "receiving from client",
    "query end",
    "freeing items",
    "closing tables",
    "opening table",
    "creating sort index",
    "creating tmp table",
    "copying to ",
    "copy to tmp table",
    "converting heap",
    "system lock",
    "checking permissions",
    "checking query cache",
    "sorting result",
    "removing tmp table",
    "filling schema table",
    "wsrep",
    "searching rows",
    "deleting from ",
    "storing result in query cache",
    "has sent all",
];

pub(crate) fn is_state(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    WHOLE_STATES.contains(&text.as_str())
        || STATES.iter().any(|begins| text.starts_with(begins))
        || ["has read all", "master has sent", "source has sent", "slave has read", "replica has read"]
            .iter()
            .any(|begins| text.starts_with(begins))
}

/// What a column of such a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    /// How many sessions there are.
    Count,
    /// How many of them are at work.
    Working,
    /// The longest of their times, the mean, and the sum.
    Longest,
    Mean,
    Sum,
    /// What they have in common.
    Group(&'static str),
    /// A further number.
    Other,
}

/// What sessions are grouped by, as a process list and performance_schema name it.
const GROUPS: [(&str, &str); 14] = [
    ("state", "state"),
    ("processlist_state", "state"),
    ("command", "command"),
    ("processlist_command", "command"),
    ("user", "user"),
    ("processlist_user", "user"),
    ("host", "host"),
    ("processlist_host", "host"),
    ("client", "host"),
    ("ip", "host"),
    ("db", "db"),
    ("processlist_db", "db"),
    ("info", "info"),
    ("processlist_info", "info"),
];

/// How people call the number, the first of them where nothing but sessions can be meant.
const COUNTS: [&str; 18] = [
    "sessions",
    "connections",
    "conns",
    "processes",
    "threads",
    "count",
    "counts",
    "cnt",
    "num",
    "total",
    "qty",
    "n",
    "c",
    // German, Spanish, Portuguese, French, Indonesian.
    "anzahl",
    "cantidad",
    "quantidade",
    "nombre",
    "jumlah",
];
const OF_SESSIONS: usize = 5;

/// The column of a process list that a name stands for.
pub(crate) fn group(name: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(known, _)| *known == name).map(|(_, group)| *group)
}

impl Column {
    /// `state`, `COUNT(*)`, `MAX(time)`, `SUBSTRING_INDEX(host, ':', 1)`
    fn from_name(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        let Some((function, rest)) = name.split_once('(') else {
            return match name.as_str() {
                "working" => Some(Self::Working),
                "max_time" | "longest" => Some(Self::Longest),
                "avg_time" => Some(Self::Mean),
                "sum_time" | "total_time" => Some(Self::Sum),
                count if COUNTS.contains(&count) => Some(Self::Count),
                name => group(name).map(Self::Group),
            };
        };
        // Behind what a function takes nothing stands: `count(*) from processlist` is a part of a query.
        let inside = rest.strip_suffix(')')?;
        let mut words = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        Some(match (function.trim(), inside.trim()) {
            ("count", "*" | "0" | "1" | "id" | "processlist_id" | "thread_id") => Self::Count,
            ("max", "time" | "processlist_time") => Self::Longest,
            ("avg", "time" | "processlist_time") => Self::Mean,
            ("sum", "time" | "processlist_time") => Self::Sum,
            ("count" | "max" | "min" | "avg" | "sum" | "group_concat", _) => Self::Other,
            _ => words.find_map(group).map_or(Self::Other, Self::Group),
        })
    }
}

/// True for a name with what a function takes, which no other list has: `COUNT(*)`.
pub(crate) fn is_aggregate(name: &str) -> bool {
    name.trim_end().ends_with(')') && Column::from_name(name).is_some_and(|column| column != Column::Other)
}

/// True for the columns of such a list.
pub(crate) fn is_list(columns: &[String]) -> bool {
    /// With one of these a row is a session's.
    const OF_ONE: [&str; 5] = ["id", "time", "processlist_id", "thread_id", "conn_id"];
    let kinds: Vec<Option<Column>> = columns.iter().map(|name| Column::from_name(name)).collect();
    let counts = columns.iter().zip(&kinds).filter(|(_, kind)| **kind == Some(Column::Count));
    let counts: Vec<&String> = counts.map(|(name, _)| name).collect();
    let [count] = counts[..] else { return false };
    let has = |group: &'static str| kinds.contains(&Some(Column::Group(group)));
    let says_what = has("state") || has("command");
    let is_grouped = kinds.iter().any(|kind| matches!(kind, Some(Column::Group(_))));
    if !is_grouped || columns.iter().any(|name| OF_ONE.contains(&name.as_str())) {
        return false;
    }
    let is_function = count.contains('(');
    let is_of_sessions = is_function || COUNTS[..OF_SESSIONS].contains(&count.as_str());
    match kinds.iter().all(Option::is_some) {
        true => says_what || is_of_sessions,
        // A query may give more than that names of its own.
        false => {
            is_function
                && says_what
                && columns.iter().zip(&kinds).all(|(name, kind)| kind.is_some() || is_name(name))
        }
    }
}

/// What such a list says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    /// In a sentence.
    pub(crate) says: String,
    /// The sessions, where they are counted by their state.
    pub(crate) threads: Option<Vec<ServerThread>>,
}

/// A row: so many sessions with the same in their groups.
#[derive(Debug, Clone, Default)]
struct Counts {
    sessions: usize,
    working: Option<usize>,
    longest: Option<u64>,
    mean: Option<u64>,
    sum: Option<u64>,
    groups: Vec<(&'static str, Option<String>)>,
}

/// `1.028`, a count with the point that many languages part thousands by.
fn in_thousands(count: &str) -> Option<u64> {
    let (first, rest) = count.trim().split_once('.')?;
    let is_parted = is_number(first)
        && first.len() <= 3
        && !first.starts_with('0')
        && rest.split('.').all(|group| group.len() == 3 && is_number(group));
    is_parted.then(|| format!("{first}{}", rest.replace('.', "")).parse().ok())?
}

impl Counts {
    fn from_row(row: Row<'_>, columns: &[(usize, Column)]) -> Option<Self> {
        let mut counts = Self::default();
        let number = |at: usize| -> Option<u64> {
            let digits = row.at(at)?.replace(',', "");
            let digits = digits.split('.').next()?.trim();
            digits.parse().ok().filter(|_| is_number(digits))
        };
        for &(at, column) in columns {
            match column {
                Column::Count => {
                    let count = row.at(at).and_then(in_thousands).or_else(|| number(at))?;
                    counts.sessions = usize::try_from(count).ok()?.min(MOST_ROWS);
                }
                Column::Working => {
                    counts.working = number(at).and_then(|number| usize::try_from(number).ok());
                }
                Column::Longest => counts.longest = number(at),
                Column::Mean => counts.mean = number(at),
                Column::Sum => counts.sum = number(at),
                Column::Group(group) => {
                    let text = row.at(at).map(str::trim).filter(|text| !text.is_empty());
                    counts.groups.push((group, text.map(str::to_owned)));
                }
                Column::Other => {}
            }
        }
        (counts.sessions > 0).then_some(counts)
    }

    fn group_text(&self, wanted: &str) -> Option<&str> {
        self.groups.iter().find(|(group, _)| *group == wanted)?.1.as_deref()
    }

    /// What they have in common, in words.
    fn label(&self) -> String {
        let shown = |(group, text): &(&str, Option<String>)| match text {
            // A statement is shown without its literals.
            Some(text) if *group == "info" => spindoctor_sql::digest(text),
            Some(text) => text.clone(),
            None => format!("no {group}"),
        };
        let label = self.groups.iter().map(shown).collect::<Vec<_>>().join(", ");
        label.chars().take(SHOWN).collect()
    }

    /// The seconds of one of them: the first has the longest time.
    fn time(&self, at: usize) -> Option<String> {
        let others = (self.sessions as u64).saturating_sub(1).max(1);
        let mean = self.mean.or_else(|| Some(self.sum?.saturating_sub(self.longest.unwrap_or(0)) / others));
        let time = if at == 0 { self.longest.or(mean) } else { mean };
        time.map(|time| time.to_string())
    }

    /// The rows of a process list that these sessions are.
    fn sessions(&self) -> impl Iterator<Item = Vec<Option<String>>> {
        let text = |group: &str| self.group_text(group).map(str::to_owned);
        (0..self.sessions).map(move |at| match self.working {
            // The others of them rest, whatever they did last.
            Some(working) if at >= working => {
                vec![text("user"), text("host"), text("db"), Some("Sleep".to_owned()), None, None, None]
            }
            _ => vec![
                text("user"),
                text("host"),
                text("db"),
                text("command"),
                self.time(at),
                text("state"),
                text("info"),
            ],
        })
    }
}

/// What a list says whose columns [`is_list`] knows. None where its states or commands are not a server's.
pub(crate) fn read(rows: &Rows) -> Option<Counted> {
    let columns = rows.names().iter().enumerate();
    let columns: Vec<(usize, Column)> =
        columns.filter_map(|(at, name)| Some((at, Column::from_name(name)?))).collect();
    let mut all: Vec<Counts> = rows.iter().filter_map(|row| Counts::from_row(row, &columns)).collect();
    let has = |wanted: &'static str| columns.iter().any(|(_, column)| *column == Column::Group(wanted));
    let is_of_server = match (has("state"), has("command")) {
        (true, _) => are_known(all.iter().filter_map(|counts| counts.group_text("state")), is_state),
        (_, true) => are_known(all.iter().filter_map(|counts| counts.group_text("command")), is_command),
        (false, false) => true,
    };
    if !is_of_server || all.is_empty() {
        return None;
    }
    all.sort_by_key(|counts| std::cmp::Reverse(counts.sessions));
    let threads = has("state").then(|| {
        let names = ["user", "host", "db", "command", "time", "state", "info"].map(str::to_owned).to_vec();
        let cells = all.iter().flat_map(Counts::sessions).take(MOST_ROWS).collect();
        threads::others(&Rows::new(names, cells))
    });
    Some(Counted { says: sentence(&all), threads })
}

/// True where at least half of the words for what sessions do are a server's.
fn are_known<'t>(texts: impl Iterator<Item = &'t str>, is_known: impl Fn(&str) -> bool) -> bool {
    let (all, known) =
        texts.fold((0_usize, 0_usize), |(all, known), text| (all + 1, known + usize::from(is_known(text))));
    known > 0 && known * 2 >= all
}

pub(crate) fn is_command(text: &str) -> bool {
    COMMANDS.iter().any(|command| command.eq_ignore_ascii_case(text))
}

/// `sessions by state: Waiting for table metadata lock 312, no state 40`
fn sentence(all: &[Counts]) -> String {
    let groups: Vec<&str> =
        all.first().map(|first| first.groups.iter().map(|(group, _)| *group).collect()).unwrap_or_default();
    let named = all.iter().take(NAMED).map(|counts| format!("{} {}", counts.label(), counts.sessions));
    let left: usize = all.iter().skip(NAMED).map(|counts| counts.sessions).sum();
    let rest = (left > 0).then(|| format!("others {left}"));
    format!("sessions by {}: {}", groups.join(", "), named.chain(rest).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::part::{Kind, Part, Said};
    use crate::{recognise, window};

    /// The sessions of a text by command and state, with their number.
    fn sessions(text: &str) -> Vec<(String, String, usize)> {
        let mut all = std::collections::BTreeMap::new();
        let parts = recognise("x", text);
        let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
        let threads =
            said.filter_map(|said| if let Said::Threads(threads) = said { Some(threads) } else { None });
        for thread in threads.flatten() {
            *all.entry((thread.command.clone(), thread.state.clone())).or_insert(0) += 1;
        }
        all.into_iter().map(|((command, state), count)| (command, state, count)).collect()
    }

    fn causes(text: &str) -> Vec<String> {
        let findings = spindoctor_rules::diagnose(&window(&recognise("x", text))).findings;
        findings.into_iter().map(|finding| finding.cause).collect()
    }

    fn says(text: &str) -> Vec<String> {
        recognise("x", text).into_iter().flat_map(|part: Part| part.says).collect()
    }

    fn wanted() -> Vec<(String, String, usize)> {
        [("Query", "Sending data", 14), ("Query", "Waiting for table metadata lock", 312), ("Sleep", "", 40)]
            .map(|(command, state, count)| (command.to_owned(), state.to_owned(), count))
            .to_vec()
    }

    const FRAMED: &str = "+---------------------------------+----------+\n\
                          | state                           | COUNT(*) |\n\
                          +---------------------------------+----------+\n\
                          | Waiting for table metadata lock |      312 |\n\
                          |                                 |       40 |\n\
                          | Sending data                    |       14 |\n\
                          +---------------------------------+----------+\n3 rows in set (0.00 sec)\n";

    #[test]
    fn sessions_that_are_counted_by_their_state_are_so_many_in_that_state_in_every_form() {
        let row = |number: u32, state: &str, count: u32| {
            format!(
                "{} {number}. row {}\n   state: {state}\nCOUNT(*): {count}\n",
                crate::rows::STARS,
                crate::rows::STARS
            )
        };
        let vertical =
            [row(1, "Waiting for table metadata lock", 312), row(2, "", 40), row(3, "Sending data", 14)];
        let json = r#"[{"state": "Waiting for table metadata lock", "COUNT(*)": 312}, {"state": "", "COUNT(*)": 40},
                      {"state": "Sending data", "COUNT(*)": 14}]"#;
        let query = "mysql> SELECT state, COUNT(*) FROM information_schema.processlist GROUP BY state ORDER BY 2 DESC;\n";
        for list in [
            FRAMED.to_owned(),
            format!("{query}{FRAMED}"),
            FRAMED.replace("COUNT(*)", "cnt     "),
            vertical.concat(),
            "state\tCOUNT(*)\nWaiting for table metadata lock\t312\n\t40\nSending data\t14\n".to_owned(),
            "\"STATE\",\"COUNT(*)\"\n\"Waiting for table metadata lock\",\"312\"\n\"\",\"40\"\n\"Sending data\",\"14\"\n".to_owned(),
            "state COUNT(*)\nWaiting for table metadata lock 312\n 40\nSending data 14\n".to_owned(),
            "    312 Waiting for table metadata lock\n     40 \n     14 Sending data\n      1 State\n".to_owned(),
            "    312         State: Waiting for table metadata lock\n     40         State: \n     14         State: Sending data\n"
                .to_owned(),
            json.to_owned(),
        ] {
            assert_eq!(sessions(&list), wanted(), "{list}");
            assert_eq!(causes(&list).first().map(String::as_str), Some("metadata-lock-pileup"), "{list}");
        }
        assert!(
            says(FRAMED).contains(
                &"sessions by state: Waiting for table metadata lock 312, no state 40, Sending data 14"
                    .to_owned()
            ),
            "{:?}",
            says(FRAMED)
        );
    }

    #[test]
    fn times_and_commands_of_a_group_are_those_of_its_sessions() {
        let list = "command\tstate\tCOUNT(*)\tMAX(time)\tAVG(time)\nQuery\tWaiting for global read lock\t3\t900\t400.5\nSleep\t\t2\t7000\t3000\n";
        let parts = recognise("x", list);
        let Some(Said::Threads(threads)) = parts[0].moments[0].said.first() else { panic!("{parts:?}") };
        let times: Vec<f64> = threads.iter().map(|thread| thread.time_s).collect();
        assert_eq!(times, [900.0, 400.0, 400.0, 7000.0, 3000.0]);
        assert_eq!(threads.iter().filter(|thread| thread.is_at_work()).count(), 3);
        assert_eq!(causes(list)[0], "global-lock-pileup");
    }

    #[test]
    fn what_is_counted_by_users_hosts_or_commands_is_said() {
        for (list, wanted) in [
            ("| user | COUNT(*) |\n| app | 412 |\n| report | 3 |\n", "sessions by user: app 412, report 3"),
            (
                "| substring_index(host, ':', 1) | count(*) |\n| 10.0.0.7 | 412 |\n",
                "sessions by host: 10.0.0.7 412",
            ),
            (
                "| command | COUNT(1) |\n| Sleep | 412 |\n| Query | 9 |\n",
                "sessions by command: Sleep 412, Query 9",
            ),
            ("    412 Sleep\n      9 Query\n      1 Command\n", "sessions by command: Sleep 412, Query 9"),
        ] {
            let parts = recognise("x", list);
            assert_eq!((parts[0].kind, says(list)), (Kind::ProcessList, vec![wanted.to_owned()]), "{list}");
            assert!(sessions(list).is_empty(), "{list}");
        }
        let statements = "| info | state | COUNT(*) |\n| UPDATE a SET b = 'secret' | updating | 9 |\n";
        assert!(!says(statements).concat().contains("secret"), "{:?}", says(statements));
    }

    #[test]
    fn a_list_of_the_sessions_themselves_is_more_than_their_counts() {
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tapp\th\tshop\tQuery\t3\tWaiting for global read lock\tDO 1\n";
        let window = window(&recognise("x", &format!("{FRAMED}\n{list}")));
        let lists = window.all(|sample| &sample.server.threads);
        assert_eq!(lists.iter().map(|(_, threads)| threads.len()).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn other_counts_are_no_sessions() {
        for text in [
            "| state | COUNT(*) |\n| shipped | 312 |\n| paid | 14 |\n",
            "| status | count(*) |\n| locked | 3 |\n",
            "    312 ESTABLISHED\n     14 TIME_WAIT\n",
            "      5 UPDATE a SET b = 1\n      2 update the list\n",
            "  507 pthread_cond_wait,one_thread_per_connection_end\n   12 select,handle_connections_sockets\n",
            "SELECT command, state, COUNT(*)\nFROM information_schema.processlist\n",
            "12 apples\n7 pears\n",
        ] {
            assert!(sessions(text).is_empty(), "{text}");
            assert!(recognise("x", text).iter().all(|part| part.kind != Kind::ProcessList), "{text}");
        }
    }

    #[test]
    fn points_part_the_thousands_of_a_count_in_many_languages() {
        let list = "| State | Anzahl |\n|---|---|\n| Sending data | 1.203 |\n| Locked | 17 |\n";
        let wanted = [("Query", "Locked", 17), ("Query", "Sending data", 1_203)];
        let wanted: Vec<(String, String, usize)> =
            wanted.map(|(command, state, count)| (command.to_owned(), state.to_owned(), count)).to_vec();
        assert_eq!(sessions(list), wanted);
        assert_eq!(super::in_thousands("1.2034"), None);
        assert_eq!(super::in_thousands("12.0"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "( |[0-9]{1,9}|state|State:|COUNT\\(\\*\\)|Sending data|\t|\\||,|\n|é|count\\(|\\)){0,40}") {
            let _read = recognise("x", &text);
        }
    }
}
