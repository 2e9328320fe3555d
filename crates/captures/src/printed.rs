//! Rows as clients of other languages print them, in the form in which Python does, which [`crate::python`] reads.
//!
//! ```text
//! Ruby         [{"Id"=>12, "User"=>"app", "db"=>nil}, ...]
//! Java         [{ID=12, USER=app, DB=null, INFO=UPDATE t SET a = 1, b = 2}, ...]
//! Go           map[Command:Query Id:12 Info:UPDATE t State:updating User:app]
//! PHP          ["Id"]=> string(2) "12", each on a line of its own or two
//! PowerShell   Id      : 12, each on a line of its own, and an empty line behind each row
//! ```
//!
//! Java and Go write values as they are, so that only names that process lists have part them.

use std::borrow::Cow;

/// Columns of process lists, of MySQL, MariaDB and Percona Server, in lower case.
const COLUMNS: [&str; 18] = [
    "id",
    "user",
    "host",
    "db",
    "command",
    "time",
    "state",
    "info",
    "time_ms",
    "stage",
    "max_stage",
    "progress",
    "memory_used",
    "examined_rows",
    "query_id",
    "tid",
    "rows_sent",
    "rows_examined",
];
/// Of these, fewer may be anything.
const FEWEST: usize = 4;

/// The name of a column, with its value; none of a value that is none.
type Pair = (String, Option<String>);

/// A text in which such rows are rows as Python prints them, each on a line.
pub(crate) fn as_python(text: &str) -> Cow<'_, str> {
    let is_likely = ["=>", "map[", "{ID=", "{Id=", "{id="].iter().any(|mark| text.contains(mark));
    let is_list = || text.lines().any(|line| listed(line).is_some());
    if !is_likely && !is_list() {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let block: Vec<&str> = match listed(line).is_some() || dumped(line).is_some() {
            true => block(line, &mut lines),
            false => Vec::new(),
        };
        if let Some(row) = row_of_block(&block) {
            without_head(&mut whole);
            write(&row, &mut whole);
            // A row's end: an empty line, or what closes an array and opens the next.
            while lines.next_if(|line| is_between(line)).is_some() {}
        } else if block.is_empty() {
            one_line(line, &mut whole);
        } else {
            whole.extend(block);
        }
    }
    Cow::Owned(whole)
}

/// The lines of a row that is printed in a column a line, from its first on.
fn block<'t>(first: &'t str, lines: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>) -> Vec<&'t str> {
    let mut block = vec![first];
    let name = |line: &str| listed(line).or_else(|| dumped(line)).map(|(name, _)| name.to_ascii_lowercase());
    let begins = name(first);
    while let Some(line) = lines.next_if(|line| {
        let is_of_it = listed(line).is_some() || dumped(line).is_some() || typed(line).is_some();
        is_of_it && name(line).is_none_or(|name| Some(name) != begins)
    }) {
        block.push(line);
    }
    block
}

/// `Id      : 12`: a name, blanks, a colon. What `\G` prints has no blank before the colon.
fn listed(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" :")?;
    let is_column = COLUMNS.contains(&name.trim_end().to_ascii_lowercase().as_str());
    let value = value.strip_prefix(' ').unwrap_or(value);
    (is_column && !line.starts_with(' ')).then(|| (name.trim_end(), value.trim_end_matches(['\r', '\n'])))
}

/// `["Id"]=>` of var_dump, `[Id] => 12` of print_r: the name, and the value where it stands on the line.
fn dumped(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let value = rest.trim_start().strip_prefix("=>")?.trim();
    let name = name.trim_matches('"');
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && !value.starts_with("array(");
    is_name.then_some((name, value))
}

/// `string(2) "12"`, `int(12)`, `NULL`: the value that stands below its name.
fn typed(line: &str) -> Option<Option<String>> {
    let line = line.trim();
    if line == "NULL" {
        return Some(None);
    }
    let (kind, rest) = line.split_once('(')?;
    let (inside, behind) = rest.split_once(')')?;
    match kind {
        "string" => Some(Some(behind.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned())),
        "int" | "float" | "bool" => Some(Some(inside.to_owned())),
        _ => None,
    }
}

fn row_of_block(block: &[&str]) -> Option<Vec<Pair>> {
    let mut row: Vec<Pair> = Vec::new();
    for line in block {
        if let Some((name, value)) = listed(line) {
            row.push((name.to_owned(), some(value)));
        } else if let Some((name, value)) = dumped(line) {
            row.push((name.to_owned(), typed(value).unwrap_or_else(|| some(value))));
        } else if let (Some(value), Some((_, last))) = (typed(line), row.last_mut()) {
            *last = value;
        }
    }
    let names = row.iter().filter(|(name, _)| COLUMNS.contains(&name.to_ascii_lowercase().as_str())).count();
    (names >= FEWEST).then_some(row)
}

/// What stands between two rows: nothing, or the end of an array and the head of the next.
fn is_between(line: &str) -> bool {
    let line = line.trim();
    let is_head = |line: &str| {
        line.strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .is_some_and(|(number, rest)| number.bytes().all(|b| b.is_ascii_digit()) && rest.trim() == "=>")
    };
    line.is_empty()
        || matches!(line, "}" | ")" | "(" | "Array")
        || is_head(line)
        || line.starts_with("array(") && line.ends_with('{')
        || line.strip_suffix("Array").is_some_and(|head| is_head(head.trim()))
}

/// Takes what opens an array off the end of a text.
fn without_head(whole: &mut String) {
    while let Some(line) = whole.trim_end_matches('\n').rsplit('\n').next()
        && !line.is_empty()
        && is_between(line)
    {
        let end = whole.trim_end_matches('\n').len() - line.len();
        whole.truncate(end);
    }
}

/// A line with all rows in it, or as it is.
fn one_line(line: &str, whole: &mut String) {
    let rows = rows_in(line, "map[", ']', ' ', ':');
    let rows = if rows.is_empty() { rows_in(line, "{", '}', ',', '=') } else { rows };
    if !rows.is_empty() {
        rows.iter().for_each(|row| write(row, whole));
    } else if line.contains("\"=>") || line.contains("\" =>") {
        ruby(line, whole);
    } else {
        whole.push_str(line);
    }
}

/// Rows whose values are written as they are, up to the next name of a process list's column, or to what closes the row.
fn rows_in(line: &str, opens: &str, closes: char, between: char, behind_name: char) -> Vec<Vec<Pair>> {
    let mut rows = Vec::new();
    let mut rest = line;
    // What is read of what is no row, bytes: a line with nothing but beginnings of rows is not read again and again.
    let mut left = line.len().saturating_mul(4).saturating_add(1 << 16);
    while let Some((_, inside)) = rest.split_once(opens).filter(|_| left > 0) {
        rest = inside;
        if !begins_with_name(inside, behind_name) {
            continue;
        }
        // The next row begins behind the end of this one; what else opens one stands in a statement.
        let is_next = |at: &usize| inside[..*at].trim_end_matches([' ', ',']).ends_with(closes);
        let end = inside.match_indices(opens).map(|(at, _)| at).find(is_next).unwrap_or(inside.len());
        let begins = names(&inside[..end], between, behind_name);
        if begins.len() < FEWEST {
            left = left.saturating_sub(end);
            continue;
        }
        let mut row = Vec::new();
        for (place, (_, name, from)) in begins.iter().enumerate() {
            let to = begins.get(place + 1).map_or(end, |(at, ..)| *at);
            let mut value = inside[*from..to].trim_end_matches([',', ' ', '\r', '\n']);
            if place + 1 == begins.len() {
                value = value.trim_end_matches([']', ' ', ',']).trim_end_matches(closes);
            }
            row.push(((*name).to_owned(), some(value.trim())));
        }
        rows.push(row);
        rest = &inside[end..];
    }
    rows
}

/// True where a column's name stands at the very beginning.
fn begins_with_name(text: &str, behind_name: char) -> bool {
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    text[length..].starts_with(behind_name) && COLUMNS.contains(&text[..length].to_ascii_lowercase().as_str())
}

/// Where names of columns begin, the names, and where their values begin.
fn names(text: &str, between: char, behind_name: char) -> Vec<(usize, &str, usize)> {
    let mut found: Vec<(usize, &str, usize)> = Vec::new();
    for (mark, _) in text.match_indices(behind_name) {
        let before = &text[..mark];
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let at = before.len() - before.bytes().rev().take_while(|byte| is_of_name(char::from(*byte))).count();
        let name = &text[at..mark];
        let is_parted = at == 0
            || text[..at].trim_end_matches(' ').ends_with(between)
            || between == ' ' && text[..at].ends_with(' ');
        let is_new = !found.iter().any(|(_, known, _)| known.eq_ignore_ascii_case(name));
        // Of one case, as the first: `, time=` in a statement is no column of a list whose names are in capitals.
        let is_alike = found.first().is_none_or(|(_, first, _)| is_capital(first) == is_capital(name));
        if is_parted && is_new && is_alike && COLUMNS.contains(&name.to_ascii_lowercase().as_str()) {
            found.push((at, name, mark + 1));
        }
    }
    found
}

fn is_capital(name: &str) -> bool {
    name.bytes().all(|byte| !byte.is_ascii_lowercase())
}

/// A line of Ruby's: `=>` and `nil` outside of strings are `:` and `None`.
fn ruby(line: &str, whole: &mut String) {
    let mut in_string = false;
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let taken = match letter {
            '"' => {
                in_string = !in_string;
                1
            }
            '\\' if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '=' if !in_string && rest.starts_with("=>") => {
                whole.push(':');
                rest = &rest[2..];
                continue;
            }
            'n' if !in_string && rest.starts_with("nil") => {
                whole.push_str("None");
                rest = &rest[3..];
                continue;
            }
            other => other.len_utf8(),
        };
        whole.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
}

fn some(value: &str) -> Option<String> {
    (!matches!(value, "" | "null" | "NULL" | "nil" | "<nil>")).then(|| value.to_owned())
}

fn write(row: &[Pair], whole: &mut String) {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('\'', "\\'");
    let pairs = row.iter().map(|(name, value)| match value {
        Some(value) => format!("'{}': '{}'", quoted(name), quoted(value)),
        None => format!("'{}': None", quoted(name)),
    });
    whole.push_str(&format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(", ")));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::part::Said;
    use crate::recognise;

    /// The sessions of a text that is one list: connection, state, statement.
    fn sessions(text: &str) -> Vec<(u64, String, String)> {
        let parts = recognise("x", text);
        let moments = parts.iter().flat_map(|part| &part.moments);
        let threads = moments.flat_map(|moment| &moment.said).filter_map(|said| match said {
            Said::Threads(threads) => Some(threads),
            _ => None,
        });
        threads
            .flatten()
            .map(|thread| {
                let statement = thread.statement.clone().unwrap_or_default();
                (thread.connection_id.unwrap_or_default(), thread.state.clone(), statement)
            })
            .collect()
    }

    fn expected() -> Vec<(u64, String, String)> {
        vec![
            (12, "User lock".into(), "SELECT GET_LOCK('nightly', 60), a=1, time=2".into()),
            (13, "updating".into(), "UPDATE t SET a = \"x\", b = 2".into()),
        ]
    }

    #[test]
    fn each_language_gives_the_same_sessions() {
        let ruby = r#"irb> pp rows
[{"Id"=>12, "User"=>"app", "Host"=>"web:4100", "db"=>nil, "Command"=>"Query", "Time"=>5, "State"=>"User lock", "Info"=>"SELECT GET_LOCK('nightly', 60), a=1, time=2"},
 {"Id"=>13, "User"=>"app", "Host"=>"web:4101", "db"=>"shop", "Command"=>"Query", "Time"=>4, "State"=>"updating", "Info"=>"UPDATE t SET a = \"x\", b = 2"}]
"#;
        let java = "[{ID=12, USER=app, HOST=web:4100, DB=null, COMMAND=Query, TIME=5, STATE=User lock, INFO=SELECT \
                    GET_LOCK('nightly', 60), a=1, time=2}, {ID=13, USER=app, HOST=web:4101, DB=shop, COMMAND=Query, TIME=4, \
                    STATE=updating, INFO=UPDATE t SET a = \"x\", b = 2}]\n";
        let go = "2024/11/03 03:12:44 map[Command:Query Host:web:4100 Id:12 Info:SELECT GET_LOCK('nightly', 60), a=1, time=2 State:User \
                  lock Time:5 User:app db:<nil>]\n2024/11/03 03:12:44 map[Command:Query Host:web:4101 Id:13 Info:UPDATE t SET a = \"x\", \
                  b = 2 State:updating Time:4 User:app db:shop]\n";
        let php = "array(2) {\n  [0]=>\n  array(8) {\n    [\"Id\"]=>\n    string(2) \"12\"\n    [\"User\"]=>\n    string(3) \"app\"\n    \
                   [\"Host\"]=>\n    string(8) \"web:4100\"\n    [\"db\"]=>\n    NULL\n    [\"Command\"]=>\n    string(5) \"Query\"\n    \
                   [\"Time\"]=>\n    int(5)\n    [\"State\"]=>\n    string(9) \"User lock\"\n    [\"Info\"]=>\n    string(43) \"SELECT \
                   GET_LOCK('nightly', 60), a=1, time=2\"\n  }\n  [1]=>\n  array(8) {\n    [\"Id\"]=>\n    string(2) \"13\"\n    \
                   [\"User\"]=>\n    string(3) \"app\"\n    [\"Host\"]=>\n    string(8) \"web:4101\"\n    [\"db\"]=>\n    string(4) \
                   \"shop\"\n    [\"Command\"]=>\n    string(5) \"Query\"\n    [\"Time\"]=>\n    int(4)\n    [\"State\"]=>\n    \
                   string(8) \"updating\"\n    [\"Info\"]=>\n    string(27) \"UPDATE t SET a = \"x\", b = 2\"\n  }\n}\n";
        let print_r = "Array\n(\n    [0] => Array\n        (\n            [Id] => 12\n            [User] => app\n            [Host] => web:4100\n            \
                       [db] => \n            [Command] => Query\n            [Time] => 5\n            [State] => User lock\n            [Info] => \
                       SELECT GET_LOCK('nightly', 60), a=1, time=2\n        )\n\n    [1] => Array\n        (\n            [Id] => 13\n            \
                       [User] => app\n            [Host] => web:4101\n            [db] => shop\n            [Command] => Query\n            [Time] => \
                       4\n            [State] => updating\n            [Info] => UPDATE t SET a = \"x\", b = 2\n        )\n\n)\n";
        let shell = "\r\nId      : 12\r\nUser    : app\r\nHost    : web:4100\r\ndb      : \r\nCommand : Query\r\nTime    : 5\r\nState   : User \
                     lock\r\nInfo    : SELECT GET_LOCK('nightly', 60), a=1, time=2\r\n\r\nId      : 13\r\nUser    : app\r\nHost    : \
                     web:4101\r\ndb      : shop\r\nCommand : Query\r\nTime    : 4\r\nState   : updating\r\nInfo    : UPDATE t SET a = \"x\", b \
                     = 2\r\n\r\n";
        for (name, text) in [
            ("Ruby", ruby),
            ("Java", java),
            ("Go", go),
            ("PHP", php),
            ("print_r", print_r),
            ("PowerShell", shell),
        ] {
            assert_eq!(sessions(text), expected(), "{name}: {}", as_python(text));
            assert_eq!(
                recognise("x", text).iter().filter(|part| !part.moments.is_empty()).count(),
                1,
                "{name}"
            );
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "*************************** 1. row ***************************\n     Id: 12\n   User: app\n",
            "2024/11/03 03:12:44 map[a:1 b:2]\n",
            "{\"a\": 1, \"id\": 2}\n",
            "Id      : 12\nsomething else\n",
            "x => y\n",
        ] {
            assert_eq!(as_python(text), text);
        }
    }

    #[test]
    fn a_line_of_beginnings_is_not_read_from_each_to_its_end() {
        let row = "{ID=12, USER=app, HOST=h, COMMAND=Query, TIME=5, STATE=init, INFO=DO 1}";
        let rows = |beginnings: usize| {
            rows_in(&format!("{}{row}", "{id=".repeat(beginnings)), "{", '}', ',', '=').len()
        };
        assert_eq!((rows(0), rows(3), rows(2_000)), (1, 1, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "(map\\[|\\{ID=|\\{Id=|, USER=| User:|\\]|\\}|\\[\"Id\"\\]=>|\n|\"|=>|nil|Id : |Info:|é|[a-z ]{0,4}){0,60}") {
            let once = as_python(&text);
            let _read = recognise("x", &once);
        }
    }
}
