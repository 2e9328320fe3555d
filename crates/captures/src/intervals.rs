//! Readings of the status one after the other, of which those behind the first may say what was added since the one before.
//!
//! ```text
//! $ mysqladmin extended-status -r -i 10 | grep -E 'Questions|Threads_running'
//! | Questions                       | 91823012 |
//! | Threads_running                 | 12       |
//! | Questions                       | 51233    |
//! | Threads_running                 | 3        |
//! ```
//!
//! The first table has totals since the server started. With `-r` those behind it are differences, and otherwise totals again.

use spindoctor_collect::mysql::Rows;
use spindoctor_model::mysql::NamedValues;

use crate::named;
use crate::part::{Kind, Moment, Part, Said};

/// The most seconds between two readings that somebody has printed as differences. By judgement.
const LONGEST_INTERVAL_S: f64 = 600.0;

/// How counters begin that never get smaller while a server runs, in lower case.
const COUNTERS: [&str; 32] = [
    "aborted_",
    "binlog_cache_",
    "bytes_",
    "com_",
    "connections",
    "created_tmp",
    "handler_",
    "innodb_buffer_pool_read",
    "innodb_buffer_pool_wait_free",
    "innodb_buffer_pool_write",
    "innodb_data_fsyncs",
    "innodb_data_read",
    "innodb_data_writes",
    "innodb_data_written",
    "innodb_log_waits",
    "innodb_log_write",
    "innodb_os_log_fsyncs",
    "innodb_os_log_written",
    "innodb_pages_",
    "innodb_row_lock_time",
    "innodb_row_lock_waits",
    "innodb_rows_",
    "key_read",
    "opened_",
    "queries",
    "questions",
    "select_",
    "slow_queries",
    "sort_",
    "table_locks_",
    "table_open_cache_",
    "threads_created",
];

/// Of these a server that answers has one at least: its own session.
const NEVER_NONE: [&str; 3] = ["max_used_connections", "threads_connected", "threads_running"];

/// The readings of a result set: names that come again begin another one, as where several tables lost their heads.
pub(crate) fn of_rows(rows: &Rows) -> Vec<NamedValues> {
    let pairs: Vec<(&str, &str)> = rows
        .iter()
        .filter_map(|row| {
            let value = row.text("value").or_else(|| row.text("variable_value")).unwrap_or_default();
            Some((row.text("variable_name")?, value))
        })
        .collect();
    let whole: NamedValues = pairs.iter().copied().collect();
    // Of one list a name may stand there twice.
    if pairs.len() * 2 < whole.len() * 3 {
        return vec![whole];
    }
    let mut readings = vec![NamedValues::default()];
    for (name, value) in pairs {
        if readings.last().is_some_and(|last| last.text(name).is_some()) {
            readings.push(NamedValues::default());
        }
        if let Some(last) = readings.last_mut() {
            last.insert(name, value);
        }
    }
    readings
}

/// Lists of one or more readings, of lines without a head: a name that comes again begins another reading, and further
/// columns are further readings.
pub(crate) fn of_pairs(text: &str) -> Vec<NamedValues> {
    let mut readings: Vec<Vec<NamedValues>> = vec![Vec::new()];
    for line in text.lines() {
        let Some((name, values)) = named::pair(line) else { continue };
        let again = readings
            .last()
            .and_then(|columns| columns.first())
            .is_some_and(|first| first.text(name).is_some());
        if again {
            readings.push(Vec::new());
        }
        let Some(columns) = readings.last_mut() else { continue };
        let is_number = |value: &&str| value.parse::<f64>().is_ok();
        // A value of several words is one value, or the same in each of two readings.
        let halves = values.split_at(values.len() / 2);
        let values: Vec<String> = match values.len() {
            0 | 1 => values.iter().map(|value| (*value).to_owned()).collect(),
            _ if values.iter().all(is_number) => values.iter().map(|value| (*value).to_owned()).collect(),
            count if count % 2 == 0 && halves.0 == halves.1 => vec![halves.0.join(" "); 2],
            _ => vec![values.join(" ")],
        };
        for (at, value) in values.iter().enumerate() {
            if columns.len() <= at {
                columns.push(NamedValues::default());
            }
            columns[at].insert(name, value.as_str());
        }
        if values.is_empty() {
            if columns.is_empty() {
                columns.push(NamedValues::default());
            }
            columns[0].insert(name, "");
        }
    }
    let mut all: Vec<NamedValues> = readings.into_iter().flat_map(absolute).collect();
    all.retain(|values| values.len() > 1);
    all
}

/// Further columns are readings, or what was added since the one before (`mysqladmin --relative`, pt-mext): then `Uptime`
/// gets smaller.
fn absolute(mut columns: Vec<NamedValues>) -> Vec<NamedValues> {
    let uptime = |values: &NamedValues| values.number("uptime");
    let is_relative = match (columns.first().and_then(uptime), columns.get(1).and_then(uptime)) {
        (Some(first), Some(second)) => second < first,
        _ => columns.len() > 2,
    };
    if is_relative {
        sum_up(&mut columns.iter_mut().collect::<Vec<_>>());
    }
    columns
}

/// Each reading as the sum of those before and itself.
fn sum_up(readings: &mut [&mut NamedValues]) {
    for at in 1..readings.len() {
        let sums: NamedValues = readings[at]
            .iter()
            .filter_map(|(name, _)| {
                let sum = readings[at - 1].number(name)? + readings[at].number(name)?;
                Some((name.to_owned(), format!("{sum}")))
            })
            .collect();
        *readings[at] = sums;
    }
}

/// True for a counter that never gets smaller while a server runs.
fn is_counter(name: &str) -> bool {
    COUNTERS.iter().any(|begins| name.starts_with(begins))
        && !name.ends_with("_avg")
        && !name.ends_with("_max")
}

/// True where the readings behind the first are differences; `asked` where the command in the text asks for them.
fn are_differences(readings: &[&mut NamedValues], asked: bool) -> bool {
    let [first, behind @ ..] = readings else { return false };
    if behind.is_empty() {
        return false;
    }
    let intervals: Option<Vec<f64>> = behind.iter().map(|values| values.number("uptime")).collect();
    let has_signs = || {
        behind.iter().any(|values| {
            // Galera alone has numbers below nothing of its own.
            NEVER_NONE.iter().any(|name| values.number(name) == Some(0.0))
                || values.iter().any(|(name, value)| {
                    value.starts_with('-') && value.parse::<f64>().is_ok() && !name.starts_with("wsrep_")
                })
        })
    };
    match (first.number("uptime"), intervals) {
        (Some(first_s), Some(intervals)) => {
            let are_short = intervals.iter().all(|s| *s > 0.0 && *s <= LONGEST_INTERVAL_S && *s < first_s);
            // Of MariaDB's threads that run some have no connection, as appliers: it is a sign only where Uptime is one, too.
            let run_unconnected = || {
                behind.iter().any(|values| {
                    let both = values.number("threads_running").zip(values.number("threads_connected"));
                    both.is_some_and(|(running, connected)| running > connected)
                })
            };
            // A server that was started again counts from nothing, too: but each of its readings is older than the one before.
            let fell = intervals.windows(2).any(|two| two[1] <= two[0]);
            are_short && (asked || fell || run_unconnected() || has_signs())
        }
        (None, None) => {
            let counters = first.iter().filter(|(name, _)| is_counter(name));
            let totals: Vec<(&str, f64)> = counters
                .filter_map(|(name, _)| Some((name, first.number(name).filter(|total| *total > 0.0)?)))
                .collect();
            let later = || {
                behind
                    .iter()
                    .flat_map(|values| totals.iter().map(move |(name, total)| (values.number(name), *total)))
            };
            let smaller = later().filter(|(value, total)| value.is_some_and(|value| value < *total)).count();
            // Counters that began again, as FLUSH STATUS makes them, are as few as those that it resets.
            asked || smaller > 0 && smaller * 2 >= later().count() || has_signs()
        }
        _ => false,
    }
}

/// Readings of which those behind the first are differences, as the readings that they are differences of.
fn as_totals(readings: &mut [&mut NamedValues], asked: bool) {
    if are_differences(readings, asked) {
        sum_up(readings);
    }
}

fn statuses(part: &mut Part) -> impl Iterator<Item = &mut NamedValues> {
    let said = part.moments.iter_mut().flat_map(|moment| &mut moment.said);
    said.filter_map(|said| if let Said::Status(values) = said { Some(values) } else { None })
}

/// Gives readings of the status that follow each other in a text their totals and their times: those of a list that lost its `Uptime` are
/// as far apart as the command in the text says.
pub(crate) fn settle(parts: &mut [Part], text: &str) {
    let is_status = |part: &&mut Part| part.kind == Kind::GlobalStatus;
    let asked = commands(text).any(|line| line.split_whitespace().any(is_relative));
    if asked && interval_s(text).is_some_and(|interval_s| as_two(parts, interval_s)) {
        return;
    }
    {
        let mut all: Vec<&mut NamedValues> = parts.iter_mut().filter(is_status).flat_map(statuses).collect();
        if all.iter().all(|values| values.number("uptime").is_some()) {
            as_totals(&mut all, asked);
            return;
        }
    }
    for part in parts.iter_mut().filter(is_status) {
        as_totals(&mut statuses(part).collect::<Vec<_>>(), asked);
        let has_clock = part.time.is_some()
            || part.moments.iter().any(|moment| moment.time.is_some())
            || statuses(part).any(|values| values.number("uptime").is_some());
        if has_clock || part.moments.len() < 2 {
            continue;
        }
        let range = range(part);
        part.says.extend(range);
        match interval_s(text) {
            Some(interval_s) => {
                let times = part.moments.iter_mut().zip(0_u32..);
                times.for_each(|(moment, at)| moment.after_s = Some(f64::from(at) * interval_s));
            }
            None => {
                // No rate rests on readings of which nobody knows how far apart they are.
                let last = part.moments.pop();
                part.moments = last.into_iter().collect();
                part.says.push(
                    "neither Uptime nor the command says how far apart they are: no rate is known".to_owned(),
                );
            }
        }
    }
}

/// More than the interval that was asked for may pass between two readings of a busy server. By judgement.
const LATE: f64 = 1.2;

/// Makes two readings of the only one, where its `Uptime` is the interval that its command asks for: it is the second that `mysqladmin -r`
/// printed, and of the first, which was not copied, nothing but the beginning of the interval is known. What it says of numbers that go
/// up and down is by how much they changed, which says nothing alone. False where it is another reading.
fn as_two(parts: &mut [Part], interval_s: f64) -> bool {
    let mut given: Vec<&mut Part> =
        parts.iter_mut().filter(|part| part.kind == Kind::GlobalStatus && !part.moments.is_empty()).collect();
    let [part] = &mut given[..] else { return false };
    let added = {
        let mut readings = statuses(part);
        match (readings.next(), readings.next()) {
            (Some(only), None) => added(only, interval_s),
            _ => None,
        }
    };
    let Some((uptime_s, added)) = added else { return false };
    let nothing: NamedValues = added.iter().map(|(name, _)| (name, "0")).collect();
    part.moments = [(0.0, nothing), (uptime_s, added)]
        .into_iter()
        .map(|(after_s, values)| Moment {
            after_s: Some(after_s),
            said: vec![Said::Status(values)],
            ..Moment::default()
        })
        .collect();
    part.says.push(format!("what was added within {uptime_s:.0} s, as the command says"));
    true
}

/// The seconds that a reading counted, and its counters; None where it counted for longer than the interval.
fn added(reading: &NamedValues, interval_s: f64) -> Option<(f64, NamedValues)> {
    let most_s = (interval_s * LATE).max(interval_s + 1.0);
    let uptime_s = reading.number("uptime").filter(|&s| s > 0.0 && s <= most_s)?;
    let is_such = |name: &str, value: &str| is_counter(name) && value.parse::<u64>().is_ok();
    let counters: NamedValues = reading.iter().filter(|(name, value)| is_such(name, value)).collect();
    (!counters.is_empty()).then_some((uptime_s, counters))
}

/// How many sessions were at work in the readings.
fn range(part: &mut Part) -> Option<String> {
    let running: Vec<f64> = statuses(part).filter_map(|values| values.number("threads_running")).collect();
    let [least, most] =
        [running.iter().copied().reduce(f64::min)?, running.iter().copied().reduce(f64::max)?];
    (running.len() > 1).then(|| format!("Threads_running from {least:.0} to {most:.0}"))
}

/// The lines with a command that prints the status.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let is_command =
        |line: &&str| ["mysqladmin", "mariadb-admin"].iter().any(|command| line.contains(command));
    text.lines().filter(is_command)
}

/// True for the option that asks for differences: `-r`, `-ri10`, `--relative`.
fn is_relative(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit());
    word == "--relative" || letters.contains('r') && letters.chars().all(|c| "rvsi".contains(c))
}

/// The seconds between two readings, of the command that somebody pasted: `mysqladmin -uroot extended-status -ri 10`.
fn interval_s(text: &str) -> Option<f64> {
    commands(text).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().enumerate().find_map(|(at, word)| {
            let value = match word.strip_prefix("--sleep") {
                Some(value) => value.strip_prefix('=').unwrap_or(value),
                // Letters without a value may stand before it.
                None => word.strip_prefix('-')?.trim_start_matches(['r', 'v', 's']).strip_prefix('i')?,
            };
            let value = if value.is_empty() { words.get(at + 1).copied().unwrap_or_default() } else { value };
            value.parse().ok().filter(|s: &f64| *s > 0.0 && *s <= LONGEST_INTERVAL_S)
        })
    })
}

/// The lines of a text, with what `mysqladmin status` prints in one of them as a list of names and values.
///
/// ```text
/// Uptime: 81234  Threads: 512  Questions: 9182301  Slow queries: 12  Opens: 91  Flush tables: 1  Open tables: 64  Queries per second avg: 113.035
/// ```
pub(crate) fn with_lists(lines: Vec<String>) -> Vec<String> {
    if !lines.iter().any(|line| of_line(line).is_some()) {
        return lines;
    }
    let list = |line: String| of_line(&line).unwrap_or_else(|| vec![line]);
    lines.into_iter().flat_map(list).collect()
}

fn of_line(line: &str) -> Option<Vec<String>> {
    const NAMES: [(&str, &str); 6] = [
        ("Uptime: ", "Uptime"),
        ("Threads: ", "Threads_connected"),
        ("Questions: ", "Questions"),
        ("Slow queries: ", "Slow_queries"),
        ("Opens: ", "Opened_tables"),
        ("Open tables: ", "Open_tables"),
    ];
    if !["Threads: ", "Questions: ", "Queries per second avg:"].iter().all(|name| line.contains(name)) {
        return None;
    }
    let value = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split_whitespace().next().filter(|value| value.parse::<u64>().is_ok())
    };
    let pair = |(theirs, ours): &(&str, &str)| Some(format!("{ours}\t{}", value(theirs)?));
    let head = std::iter::once("Variable_name\tValue".to_owned());
    Some(head.chain(NAMES.iter().filter_map(pair)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recognise, window};

    #[test]
    fn readings_that_follow_each_other_are_several() {
        let two = of_pairs("Com_select 7 9\nUptime 100 110\n");
        assert_eq!(two.len(), 2);
        assert_eq!(two[1].number("uptime"), Some(110.0));
        let relative = of_pairs("Com_select 7 2 1\nUptime 100 10 10\n");
        assert_eq!(
            (relative[2].number("com_select"), relative[2].number("uptime")),
            (Some(10.0), Some(120.0))
        );
        let again = of_pairs("Com_select\t7\nUptime\t100\nCom_select\t8\nUptime\t101\n");
        assert_eq!(again.len(), 2);
    }

    /// Tables one after the other, with their heads or without.
    fn tables(readings: &[&[(&str, i64)]], has_heads: bool) -> String {
        let border = format!("+{}+{}+\n", "-".repeat(33), "-".repeat(12));
        let rows = |reading: &[(&str, i64)]| -> String {
            reading.iter().map(|(name, value)| format!("| {name:<31} | {value:<10} |\n")).collect()
        };
        let head = format!("{border}| {:<31} | {:<10} |\n{border}", "Variable_name", "Value");
        let table = |reading: &&[(&str, i64)]| match has_heads {
            true => format!("{head}{}{border}\n", rows(reading)),
            false => rows(reading),
        };
        readings.iter().map(table).collect()
    }

    const DIFFERENCES: [&[(&str, i64)]; 4] = [
        &[
            ("Com_select", 90_000),
            ("Handler_read_rnd_next", 700_000),
            ("Threads_running", 12),
            ("Uptime", 4_000),
        ],
        &[("Com_select", 500), ("Handler_read_rnd_next", 9_000), ("Threads_running", 3), ("Uptime", 10)],
        &[("Com_select", 700), ("Handler_read_rnd_next", 7_000), ("Threads_running", -5), ("Uptime", 11)],
        &[("Com_select", 300), ("Handler_read_rnd_next", 8_000), ("Threads_running", 2), ("Uptime", 10)],
    ];
    const TOTALS: [&[(&str, i64)]; 3] = [
        &[("Com_select", 90_000), ("Threads_running", 12), ("Uptime", 4_000)],
        &[("Com_select", 90_500), ("Threads_running", 15), ("Uptime", 4_010)],
        &[("Com_select", 91_500), ("Threads_running", 9), ("Uptime", 4_020)],
    ];

    #[test]
    fn tables_behind_the_first_are_differences_with_their_heads_and_without() {
        for has_heads in [true, false] {
            let text = tables(&DIFFERENCES, has_heads);
            let window = window(&recognise("x", &text));
            assert_eq!(window.all(|sample| &sample.server.status).len(), 4, "{text}");
            assert_eq!(window.status("Com_select"), Some(91_500.0), "{text}");
            assert_eq!(window.status("Threads_running"), Some(12.0), "{text}");
            let per_s = window.status_per_s("Com_select").unwrap();
            assert!((per_s - 1_500.0 / 31.0).abs() < 1e-9, "{per_s}: {text}");
        }
    }

    #[test]
    fn tables_without_differences_are_readings_with_their_heads_and_without() {
        for has_heads in [true, false] {
            let text = tables(&TOTALS, has_heads);
            let window = window(&recognise("x", &text));
            assert_eq!(window.status_per_s("Com_select"), Some(75.0), "{text}");
            assert_eq!(window.status("Threads_running"), Some(9.0), "{text}");
        }
    }

    /// The same without `Uptime`.
    fn without_uptime(readings: &[&[(&'static str, i64)]]) -> String {
        let without = |reading: &&[(&'static str, i64)]| -> Vec<(&'static str, i64)> {
            reading.iter().copied().filter(|(name, _)| *name != "Uptime").collect()
        };
        let readings: Vec<Vec<(&str, i64)>> = readings.iter().map(without).collect();
        tables(&readings.iter().map(Vec::as_slice).collect::<Vec<_>>(), false)
    }

    #[test]
    fn readings_without_uptime_are_as_far_apart_as_the_command_says() {
        for (options, interval_s) in
            [("-r -i 10", 10.0), ("-ri10 -c 4", 10.0), ("-pmi9 --relative --sleep=5", 5.0)]
        {
            let text = format!(
                "$ mysqladmin -uroot ext {options} | grep -v Uptime\n{}",
                without_uptime(&DIFFERENCES)
            );
            let window = window(&recognise("x", &text));
            assert_eq!(window.status("Com_select"), Some(91_500.0), "{text}");
            assert_eq!(window.status_per_s("Com_select"), Some(1_500.0 / (3.0 * interval_s)), "{text}");
        }
        let totals =
            format!("$ mysqladmin ext -i1 | grep -E 'Com_select|running'\n{}", without_uptime(&TOTALS));
        assert_eq!(window(&recognise("x", &totals)).status_per_s("Com_select"), Some(750.0));
    }

    #[test]
    fn without_a_clock_and_a_command_no_rate_is_known() {
        let parts = recognise("x", &without_uptime(&DIFFERENCES));
        let window = window(&parts);
        assert_eq!(window.status_per_s("Com_select"), None);
        assert_eq!(window.status("Threads_running"), Some(12.0));
        let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
        assert!(says.iter().any(|said| said.as_str() == "Threads_running from 10 to 15"), "{says:?}");
        assert!(says.iter().any(|said| said.contains("no rate is known")), "{says:?}");
    }

    #[test]
    fn a_name_that_stands_twice_in_a_list_begins_no_reading() {
        let text =
            "Variable_name\tValue\nCom_select\t7\nQuestions\t9\nQueries\t9\nCom_select\t8\nUptime\t4000\n";
        let window = window(&recognise("x", text));
        assert_eq!((window.status("Com_select"), window.status("Questions")), (Some(8.0), Some(9.0)));
    }

    #[test]
    fn a_server_that_was_started_again_has_no_differences() {
        let again: [&[(&str, i64)]; 2] = [
            &[("Com_select", 90_000), ("Questions", 91_000), ("Threads_running", 12), ("Uptime", 4_000)],
            &[("Com_select", 40), ("Questions", 50), ("Threads_running", 2), ("Uptime", 30)],
        ];
        let parts = recognise("x", &tables(&again, true));
        let Some(Said::Status(last)) = parts[0].moments.last().and_then(|moment| moment.said.first()) else {
            panic!("{parts:?}")
        };
        assert_eq!(last.number("com_select"), Some(40.0));
    }

    #[test]
    fn one_reading_is_a_difference_where_more_run_than_are_connected_or_the_command_asks_for_it() {
        let of = |connected: i64, command: &str| {
            let two: [&[(&str, i64)]; 2] = [
                &[
                    ("Com_select", 90_000),
                    ("Threads_connected", 80),
                    ("Threads_running", 12),
                    ("Uptime", 4_000),
                ],
                &[
                    ("Com_select", 40),
                    ("Threads_connected", connected),
                    ("Threads_running", 5),
                    ("Uptime", 10),
                ],
            ];
            let parts = recognise("x", &format!("{command}{}", tables(&two, true)));
            let Some(Said::Status(last)) = parts[0].moments.last().and_then(|moment| moment.said.first())
            else {
                panic!("{parts:?}")
            };
            last.number("com_select")
        };
        assert_eq!(of(2, ""), Some(90_040.0));
        assert_eq!(of(6, "$ mysqladmin ext -ri10\n"), Some(90_040.0));
        assert_eq!(of(6, "$ mysqladmin -uroot ext -i 10\n"), Some(40.0));
        for (word, wanted) in
            [("-r", true), ("-ri10", true), ("--relative", true), ("-root", false), ("-i10", false)]
        {
            assert_eq!(is_relative(word), wanted, "{word}");
        }
    }

    #[test]
    fn the_second_reading_alone_is_what_was_added_in_the_interval() {
        let of = |command: &str, uptime_s: i64| {
            let second: [&[(&str, i64)]; 1] = [&[
                ("Handler_read_rnd_next", 52_000_000),
                ("Innodb_rows_read", 52_000_000),
                ("Questions", 900),
                ("Select_full_join", 40),
                ("Select_scan", 210),
                ("Threads_running", 4),
                ("Uptime", uptime_s),
            ]];
            window(&recognise("x", &format!("{command}{}", tables(&second, true))))
        };
        let asked = "# mysqladmin ext -r -i 20 | grep -v ' 0 '\n";
        let two = of(asked, 20);
        assert_eq!(two.status_per_s("Handler_read_rnd_next"), Some(2.6e6));
        assert_eq!(two.status("Threads_running"), None, "by how much it changed");
        let findings = spindoctor_rules::diagnose(&two).findings;
        assert_eq!(findings.first().map(|one| one.cause.as_str()), Some("rows-read-waste"), "{findings:?}");
        // The first reading of the same command, and one that is no difference.
        assert_eq!(of(asked, 812_000).status_per_s("Questions"), None);
        assert_eq!(of("# mysqladmin ext -i 20\n", 20).status_per_s("Questions"), None);
    }

    #[test]
    fn a_line_of_mysqladmin_is_a_reading() {
        let line = |uptime: u32, questions: u32| {
            format!(
                "Uptime: {uptime}  Threads: 512  Questions: {questions}  Slow queries: 12  Opens: 91  Flush tables: 1  Open tables: 64  \
                 Queries per second avg: 113.035\n"
            )
        };
        let parts = recognise("x", &format!("{}{}", line(4_000, 9_000), line(4_010, 9_500)));
        let window = window(&parts);
        assert_eq!(window.status_per_s("Questions"), Some(50.0), "{parts:?}");
        assert_eq!(window.status("Threads_connected"), Some(512.0));
        let client = "Threads: 7  Questions: 31  Slow queries: 0  Opens: 1  Open tables: 4  Queries per second avg: 0.1\n";
        assert_eq!(recognise("x", client)[0].kind, Kind::GlobalStatus);
    }
}
