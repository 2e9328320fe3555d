//! A line of a log, or an error of a client, without what may be a secret in it: a statement with its values, passwords of command lines,
//! of options and of addresses.
//!
//! ```text
//! (1205, 'Lock wait timeout exceeded; try restarting transaction') [SQL: UPDATE accounts SET code = 'x']
//! WSREP: Failed to execute: wsrep_sst_mariabackup --role 'donor' --auth 'sst:x' --address '10.0.0.7:4444'
//! ```

use std::ops::Range;

use crate::client_errors;

/// Bytes of a line that are looked at: less is shown of it.
const LOOKED_AT: usize = 4_000;

/// How statements begin, and what stands behind that, in lower case.
const STATEMENTS: [(&str, &str); 18] = [
    ("[sql: ", ""),
    ("(sql: ", ""),
    ("[parameters: ", ""),
    ("insert into ", ""),
    ("insert ignore ", ""),
    ("replace into ", ""),
    ("update ", " set "),
    ("delete from ", ""),
    ("select ", ""),
    ("load data ", ""),
    ("create user ", ""),
    ("alter user ", ""),
    ("set password ", ""),
    ("grant ", " on "),
    ("identified by", ""),
    ("identified with", ""),
    ("change master ", " to "),
    ("change replication ", " to "),
];

/// How options and keys end of which the value is a secret, in lower case.
const NAMES: [&str; 8] = ["password", "passwd", "pass", "pwd", "secret", "token", "sst_auth", "--auth"];

/// What stands for it.
pub(crate) const HIDDEN: &str = "...";

/// The beginning of a line, without statements and passwords.
pub(crate) fn without_secrets(line: &str) -> String {
    without_passwords(&without_statements(beginning(line)))
}

fn beginning(line: &str) -> &str {
    &line[..line.floor_char_boundary(LOOKED_AT)]
}

/// A line without its statements. Behind one the error may stand that it met.
fn without_statements(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = statement(&rest.to_ascii_lowercase()) {
        shown.push_str(&rest[..at]);
        shown.push_str(HIDDEN);
        rest = error_behind(&rest[at..]).unwrap_or_default();
        if !rest.is_empty() {
            shown.push(' ');
        }
    }
    shown.push_str(rest);
    shown
}

/// The error that a program prints behind a statement: `[INSERT ...] => Table './a' is marked as crashed and should be repaired`.
fn error_behind(text: &str) -> Option<&str> {
    let is_behind = |at: &usize| [": ", "=> "].iter().any(|sign| text[..*at].ends_with(sign));
    let last = |(words, then): &(&str, &str)| {
        let at = text.rmatch_indices(*words).map(|(at, _)| at).find(is_behind)?;
        text[at..].contains(*then).then_some(at)
    };
    client_errors::words().filter_map(last).max().map(|at| &text[at..])
}

/// Where the first statement begins.
fn statement(lower: &str) -> Option<usize> {
    let is_begun = |at: usize| !lower[..at].ends_with(|c: char| c.is_alphanumeric() || "_-".contains(c));
    let place = |(begin, then): &(&str, &str)| {
        let mut places = lower.match_indices(*begin).map(|(at, _)| at);
        places.find(|at| is_begun(*at)).filter(|at| lower[*at..].contains(*then))
    };
    STATEMENTS.iter().filter_map(place).min()
}

/// The beginning of a line, without passwords.
pub(crate) fn without_passwords(line: &str) -> String {
    let line = beginning(line);
    let lower = line.to_ascii_lowercase();
    let ends = |name: &'static str| lower.match_indices(name).map(move |(at, _)| (name, at + name.len()));
    let of_names = NAMES.into_iter().flat_map(ends).filter_map(|(name, end)| value(line, name, end));
    let mut hidden: Vec<Range<usize>> = of_names.collect();
    hidden.extend(line.match_indices("://").filter_map(|(at, sign)| of_address(line, at + sign.len())));
    if ["mysql", "mariadb"].iter().any(|program| lower.contains(program)) {
        hidden.extend(line.match_indices(" -p").filter_map(|(at, sign)| quoted(line, at + sign.len())));
    }
    hidden.sort_by_key(|range| range.start);
    let mut shown = String::with_capacity(line.len());
    let mut from = 0;
    for Range { start, end } in hidden {
        if start >= from {
            shown.push_str(&line[from..start]);
            shown.push_str(HIDDEN);
        }
        from = from.max(end);
    }
    shown.push_str(&line[from..]);
    shown
}

/// The value behind a name: `password=x`, `"password": "x"`, `--auth 'sst:x'`. Whether one was used is none: `(using password: YES)`.
fn value(line: &str, name: &str, end: usize) -> Option<Range<usize>> {
    const QUOTES: [char; 3] = ['\'', '"', '`'];
    let rest = &line[end..];
    let marked = rest.trim_start_matches(QUOTES).trim_start_matches(' ');
    let value = marked.trim_start_matches(['=', ':']).trim_start_matches(' ');
    let is_marked = value.len() < marked.len() && marked.starts_with(['=', ':']);
    let is_option = name.starts_with('-') && marked.len() < rest.len();
    let word = value.split([' ', ',', ')']).next().unwrap_or_default();
    let is_word = ["YES", "NO", "?", HIDDEN].contains(&word);
    let value = if is_marked { value } else { marked };
    (!is_word && (is_marked || is_option)).then(|| quoted(line, line.len() - value.len())).flatten()
}

/// A word that begins there, or what stands in quotes; None where there is nothing.
fn quoted(line: &str, start: usize) -> Option<Range<usize>> {
    let rest = &line[start..];
    let end = match rest.chars().next()? {
        quote @ ('\'' | '"') => rest[1..].find(quote).map(|at| at + 2),
        _ => rest.find([' ', '\t', '\'', '"', '`', ',', ';', '&', ')', ']', '}', '|']),
    };
    let end = end.unwrap_or(rest.len());
    (end > 0).then_some(start..start + end)
}

/// The password of an address: `app:x@` of `mysql://app:x@db/shop`, of which the two slashes end at `start`.
fn of_address(line: &str, start: usize) -> Option<Range<usize>> {
    let rest = &line[start..];
    let end = rest.find([' ', '\t', '\'', '"', ')', ']', '?']).unwrap_or(rest.len());
    let account = rest[..end].rfind('@')?;
    let colon = rest[..account].find(':')?;
    Some(start + colon + 1..start + account)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recognise, window};

    #[test]
    fn no_finding_shows_a_value_of_a_statement_or_a_password() {
        for line in [
            "OperationalError: (1205, 'Lock wait timeout exceeded; try restarting transaction') [SQL: UPDATE u SET code = 'hidden7']",
            "SQLSTATE[40001]: failure: 1213 Deadlock found when trying to get lock (SQL: update `u` set `code` = hidden7 where id = 7)",
            "(1030, 'Got error 168 from storage engine') [SQL: INSERT INTO a VALUES (%s)] [parameters: ('hidden7',)]",
            "ERROR 1290 (HY000): The MySQL server is running with the --read-only option so it cannot execute this statement: \
             SET PASSWORD = 'hidden7'",
            "ERROR 1114 (HY000) at line 3: The table 'a' is full INSERT INTO a VALUES ('hidden7')",
            "OperationalError: (1040, 'Too many connections') mysql+pymysql://app:hidden7@db/shop",
            "mysqldump -uroot -phidden7 shop: Got error: 1040: Too many connections when trying to connect",
            "2024-03-04 10:11:12 0 [ERROR] WSREP: Process completed with error: wsrep_sst_mariabackup --auth 'sst:hidden7': 2",
            "2024-03-04 10:11:12 7 [ERROR] mysqld: Disk is full writing './b.1' (Errcode: 28). INSERT INTO a VALUES ('hidden7')",
            "2024-03-04 10:11:12 0 [ERROR] WSREP: something with --auth sst:hidden7 of ours",
        ] {
            let parts = recognise("a.log", &format!("{line}\n"));
            let findings = spindoctor_rules::diagnose(&window(&parts)).findings;
            let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
            assert!(!says.is_empty(), "{line}");
            assert!(!format!("{findings:?} {says:?}").contains("hidden7"), "{line}: {says:?} {findings:?}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            "Access denied for user 'app'@'db7' (using password: YES)",
            "InnoDB: Unable to lock ./ibdata1 error: 11",
            "2024-03-04 10:11:12 0 [ERROR] mysqld: Table './shop/stock' is marked as crashed and should be repaired",
            "WSREP: Failed to open backend connection: -110: gcomm://10.0.0.7:4567,10.0.0.8",
            "in select() and update of a set, the_select of it",
            "MYSQL_ROOT_PASSWORD_FILE is not set",
            "",
        ] {
            assert_eq!(without_secrets(line), line);
        }
        for (line, wanted) in [
            (
                "[INSERT INTO a VALUES ('x: y')] => Table './shop/stock' is marked as crashed and should be repaired",
                "[... Table './shop/stock' is marked as crashed and should be repaired",
            ),
            ("{\"password\": \"a b\", \"host\": \"db7\"}", "{\"password\": ..., \"host\": \"db7\"}"),
            (
                "jdbc:mysql://db7/shop?user=app&password=a&x=1",
                "jdbc:mysql://db7/shop?user=app&password=...&x=1",
            ),
            ("mysql://app:a:b@db7/é", "mysql://app:...@db7/é"),
            ("mysqldump -p'a b' shop", "mysqldump -p... shop"),
            ("password=password=a", "password=..."),
            ("password=NOBODY", "password=..."),
        ] {
            assert_eq!(without_secrets(line), wanted);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "(password|=|: |'|\"|://|@| -p|mysql|insert into |update | set |=> |Table '|é|a){0,40}") {
            without_secrets(&line);
        }
    }
}
