//! What mysqldumpslow prints of a slow query log (scripts/mysqldumpslow.sh; MariaDB: mariadb-dumpslow): the statements that took the time,
//! in sentences.
//!
//! ```text
//! Reading mysql slow query log from /var/log/mysql/slow.log
//! Count: 1213  Time=0.10s (120s)  Lock=0.00s (0s)  Rows=101.4 (123054), app[app]@web3
//!   SELECT a FROM visits WHERE tenant = N AND day = 'S'
//!
//! Count: 9  Time=2.00s (18s)  Lock=1.00s (9s)  Rows_sent=1.0 (9), Rows_examined=98123.0 (883107), Rows_affected=0.0 (0), app[app]@web3
//! ```
//!
//! Each number is the mean of one statement, and the sum of all of them behind it. The time has no waits for locks in it, unless `-l` was
//! given. The second form is MariaDB's.

use spindoctor_model::number;

use crate::amounts::amount;
use crate::statement_report::{NAMED, Ranked, SHOWN};

/// Statements of which something is read.
const MOST: usize = 10_000;
/// Bytes of a statement that are read.
const LONGEST: usize = 1_280;

/// True for the first line, and for the line above a statement.
pub(crate) fn is_head(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Reading mysql slow query log from ") || numbers(line).is_some()
}

/// The numbers of the line above a statement.
fn numbers(line: &str) -> Option<Ranked> {
    let rest = line.trim_start().strip_prefix("Count: ")?;
    let (calls, rest) = rest.split_once(' ')?;
    let calls: u64 = calls.parse().ok()?;
    let mean = |name: &str| {
        let (_, rest) = rest.split_once(name)?;
        amount(rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?)
    };
    let (time_s, locked_s) = (mean(" Time=")?, mean(" Lock=")?);
    let whole_s = (time_s + locked_s) * calls as f64;
    let wanted = mean("Rows_sent=").zip(mean("Rows_affected=")).map(|(sent, affected)| sent + affected);
    Some(Ranked {
        calls,
        time_s: whole_s,
        exec_s: whole_s,
        locked_s: locked_s * calls as f64,
        rows: mean("Rows_examined=").zip(wanted),
        ..Ranked::default()
    })
}

/// The sentences of such a report; None where it names no statement.
pub(crate) fn read(text: &str) -> Option<Vec<String>> {
    let mut all: Vec<Ranked> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(one) = numbers(line) {
            is_open = all.len() < MOST;
            all.extend(Some(one).filter(|_| is_open));
        } else if line.trim().is_empty() {
            is_open = false;
        } else if let Some(one) = all.last_mut().filter(|one| is_open && one.name.len() < LONGEST) {
            one.name.push_str(&line[..line.floor_char_boundary(LONGEST)]);
            one.name.push('\n');
        }
    }
    if all.is_empty() {
        return None;
    }
    let whole_s: f64 = all.iter().map(|one| one.time_s).sum();
    let count = number::counted(all.len() as u64, "statement is", "statements are");
    let mut says = vec![format!("{count} listed, which took {} in all", number::duration(whole_s))];
    all.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    says.extend(all.into_iter().take(NAMED).map(|one| {
        // With -a values stand there as they are.
        let shape = spindoctor_sql::digest(one.name.trim().trim_end_matches(';'));
        let name = match shape.as_str() {
            "" => "a statement that was left out".to_owned(),
            shape => shape.chars().take(SHOWN).collect(),
        };
        let percent = if whole_s > 0.0 { one.time_s / whole_s * 100.0 } else { 0.0 };
        Ranked { name, percent, ..one }.sentence()
    }));
    Some(says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    const REPORT: &str = "\nReading mysql slow query log from /var/log/mysql/slow.log\n\
                          Count: 30  Time=1.00s (30s)  Lock=0.00s (0s)  Rows=1.0 (30), app[app]@localhost\n  \
                          select count(*) from salaries where emp like \"S\" and n = 42\n\n\
                          Count: 11  Time=2.00s (22s)  Lock=4.00s (44s)  Rows=0.0 (0), 2users@3hosts\n  \
                          UPDATE stock SET n = n - N\n  WHERE id = N\n\n\
                          Died at /usr/bin/mysqldumpslow line 162, <> chunk 51.\n";

    #[test]
    fn the_statements_that_took_the_time_are_named_without_a_value() {
        for text in [REPORT.to_owned(), format!("Hello,\n\n```\n{}```\n", REPORT.trim_start())] {
            let parts = recognise("x", &text);
            let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
            assert_eq!(kinds, [Kind::DumpSlow], "{text}: {parts:#?}");
            let says = &parts[0].says;
            assert_eq!(says.len(), 3, "{says:?}");
            assert_eq!(says[0], "2 statements are listed, which took 96 s in all");
            assert!(says[1].starts_with("69 % of the time: UPDATE stock"), "{says:?}");
            assert!(says[1].ends_with("11 times, 6 s each; it waited for locks in 67 % of that"), "{says:?}");
            assert!(says[2].starts_with("31 % of the time: "), "{says:?}");
            assert!(!says.concat().contains("42"), "{says:?}");
        }
    }

    #[test]
    fn rows_that_are_read_for_few_are_said_as_mariadb_has_them() {
        let text = "Count: 9  Time=2.00s (18s)  Lock=0.00s (0s)  Rows_sent=1.0 (9), Rows_examined=98123.0 (883107), \
                    Rows_affected=0.0 (0), app[app]@web3\n  SELECT a FROM b WHERE c = N\n";
        let says = read(text).unwrap();
        assert!(says[1].contains("it reads 98,123 rows each time for 1: EXPLAIN"), "{says:?}");
    }

    #[test]
    fn an_option_file_below_it_is_a_document_of_its_own() {
        let parts = recognise("x", &format!("{REPORT}[mysqld]\nmax_connections = 500\nport = 3306\n"));
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::DumpSlow, Kind::OptionFile], "{parts:#?}");
    }

    #[test]
    fn numbers_beyond_all_time_are_no_head_and_sums_of_large_ones_are_numbers() {
        let head = |time: &str| {
            format!("Count: 18446744073709551615  Time={time}s (1s)  Lock=0.00s (0s)\n  DO 1\n\n")
        };
        assert_eq!(read(&head(&"9".repeat(300))), None);
        let says = read(&head(&"9".repeat(29)).repeat(9)).unwrap().concat();
        assert!(
            says.contains("11 % of the time: ") && !says.contains("NaN") && !says.contains("inf"),
            "{says}"
        );
    }

    #[test]
    fn another_count_is_no_head() {
        for line in
            ["Count: 3", "Count: many Time=1s Lock=2s", "Account: 1  Time=1.00s (1s)  Lock=0.00s (0s)"]
        {
            assert!(!is_head(line), "{line}");
        }
        assert_eq!(read("Reading mysql slow query log from /a\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(Count: | Time=| Lock=|Rows_sent=|Rows_examined=|[0-9.]{1,8}|s |\n|.){0,60}") {
            let _read = read(&text);
        }
    }
}
