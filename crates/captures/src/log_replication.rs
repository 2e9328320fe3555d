//! What an error log says of a replica's two parts: the error with which the applier or the receiver stopped, as `SHOW REPLICA STATUS` has it.
//!
//! ```text
//! [ERROR] Slave SQL: Could not execute Update_rows event on table shop.stock; Can't find record in 'stock', Error_code: 1032; handler error
//!     HA_ERR_KEY_NOT_FOUND; the event's master log b.000004, end_log_pos 817, Error_code: 1032
//! [ERROR] [MY-010584] [Repl] Replica SQL for channel 'north': Worker 1 failed executing transaction ..., Error_code: MY-001062
//! [ERROR] Master 'north': Slave I/O: Got fatal error 1236 from master when reading data from binary log: '...', Internal MariaDB error code: 1236
//! [Note] Slave SQL thread initialized, starting replication in log 'b.000004' at position 4
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::civil::DateTime;
use spindoctor_model::mysql::ReplicaChannel;

use crate::{clock, log_lines, log_troubles};

/// Channels that are kept.
const MOST: usize = 64;
/// Characters of an error that are kept.
const LONGEST: usize = 4_000;
/// What stands before the words of a replica's part in a line: an error's number, the part of the server, a connection's name.
const FARTHEST: usize = 200;

/// A receiver that cannot connect says so at each try, by default once a minute; where it last did so longer ago than this, in seconds, it
/// has connected since, or was stopped. By judgement: as long as any trouble of a log is taken to last.
const RECENT_S: f64 = 1_200.0;

/// Workers that stopped because of another one (ER_MTS_INCONSISTENT_DATA), and a receiver that stopped because of what it says in the line
/// above (ER_SLAVE_RELAY_LOG_WRITE_FAILURE); 13124 and 13122 from MySQL 8.0 on.
const OF_OTHERS: [u32; 4] = [1756, 13_124, 1595, 13_122];

/// Lines into which an error was wrapped: a statement that it quotes may be long.
const MOST_WRAPPED: usize = 40;
/// The longest line that may be a part of one, bytes: each part is read as often as it has lines below it.
const LONGEST_WRAPPED: usize = 64 << 10;

/// How a receiver says to MySQL 5.0 that it stopped, without its name: `[ERROR] Got fatal error 1236: 'a' from master when reading data`.
const FATAL: &str = "Got fatal error ";

/// What a receiver says of an answer that is none, and where the number of the error stands in that: at its end, in brackets.
const PACKET: &str = "Error reading packet from server";
const NUMBER_OF_PACKET: &str = "server_errno=";

/// One of a replica's two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Applier,
    Receiver,
}

/// A channel, and when its receiver last failed to connect.
#[derive(Debug, Default)]
struct Channel {
    said: ReplicaChannel,
    tried: Option<DateTime>,
}

/// The channels of which a part had stopped with an error when the log ends.
pub(crate) fn channels(text: &str) -> Vec<ReplicaChannel> {
    let mut channels: BTreeMap<String, Channel> = BTreeMap::new();
    let mut end = None;
    for line in text.lines() {
        let begins_with_time = line.starts_with(|c: char| c.is_ascii_digit());
        end = clock::time(line).filter(|_| begins_with_time).or(end);
        let Some((part, name, rest)) = part(line) else { continue };
        // A node of Galera is no replica: it says in the same words what it could not apply.
        if log_troubles::is_of_node(&line.to_ascii_lowercase()) {
            continue;
        }
        match log_lines::error(line).and_then(|_| error(rest).or_else(|| cut_error(rest))) {
            Some(error) if channels.len() < MOST || channels.contains_key(name) => {
                let channel = channels.entry(name.to_owned()).or_default();
                name.clone_into(&mut channel.said.name);
                stop(channel, part, error, end);
            }
            Some(_) => {}
            None => {
                if let Some(channel) = channels.get_mut(name) {
                    go_on(channel, part, rest);
                }
            }
        }
    }
    let is_over = |tried: DateTime| end.is_some_and(|end| clock::seconds(tried, end) > RECENT_S);
    let all = channels.into_values().map(|mut channel| {
        if channel.tried.is_some_and(is_over) {
            receives(&mut channel);
        }
        channel.said
    });
    all.filter(|said| said.error().is_some()).collect()
}

/// True for a line of a replica's part, whatever stands before its level.
pub(crate) fn is_of_part(line: &str) -> bool {
    part(line).is_some()
}

/// A log in which an error of a replica's part that was wrapped, at a terminal's width or where the statement that it quotes has line ends,
/// is one line again: the number of the error stands at its end.
pub(crate) fn whole(text: &str) -> Cow<'_, str> {
    let lacks_number = |line: &str| {
        let is_packet = || line.contains(PACKET) && !line.contains(NUMBER_OF_PACKET);
        let is_of_part =
            || part(line).is_some_and(|(.., rest)| rest.starts_with(": ") && error(rest).is_none());
        (is_packet() || is_of_part()) && log_lines::error(line).is_some()
    };
    if !text.lines().any(lacks_number) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut plain = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let joined = Some(*line)
            .filter(|line| lacks_number(line))
            .and_then(|line| with_number(line, &lines[at + 1..]));
        let (line, more) = joined.unwrap_or_else(|| ((*line).to_owned(), 0));
        plain.push_str(&line);
        plain.push('\n');
        at += 1 + more;
    }
    Cow::Owned(plain)
}

/// A line with those below it up to the one that has the error's number, and how many those are. None where another line of the log comes
/// first.
fn with_number(line: &str, below: &[&str]) -> Option<(String, usize)> {
    let is_part = |line: &&&str| line.len() <= LONGEST_WRAPPED && !log_lines::is_of_log(line);
    if line.len() > LONGEST_WRAPPED {
        return None;
    }
    let below: Vec<&str> = below.iter().take(MOST_WRAPPED).take_while(is_part).copied().collect();
    (1..=below.len()).find_map(|more| {
        // Wrapped at a blank, or within a word.
        [" ", ""].into_iter().find_map(|between| {
            let whole = [line].iter().chain(&below[..more]).copied().collect::<Vec<_>>().join(between);
            let has_number = match line.contains(PACKET) {
                true => whole.contains(NUMBER_OF_PACKET),
                false => part(&whole).is_some_and(|(.., rest)| error(rest).is_some()),
            };
            let is_end = below.get(more).is_none_or(|next| number(next).is_none());
            (has_number && is_end).then_some((whole, more))
        })
    })
}

/// The part that a line is of, its channel, and what follows its name: ` thread initialized, ...`, `: Could not execute ...`.
fn part(line: &str) -> Option<(Part, &str, &str)> {
    const NAMES: [(&str, Part); 6] = [
        ("Slave SQL", Part::Applier),
        ("Replica SQL", Part::Applier),
        ("Slave I/O", Part::Receiver),
        ("Replica I/O", Part::Receiver),
        ("Slave receiver", Part::Receiver),
        ("Replica receiver", Part::Receiver),
    ];
    const OF_CHANNEL: &str = " for channel '";
    // MariaDB names a connection before the part.
    const OF_CONNECTION: &str = "Master '";
    // MySQL 5.0 has no name for the applier.
    const OF_OLD_APPLIER: &str = "Slave: ";
    let words = log_lines::behind_level(line)?;
    if words.starts_with(OF_OLD_APPLIER) && words.contains(", Error_code: ") {
        return Some((Part::Applier, "", &words["Slave".len()..]));
    }
    if words.starts_with(FATAL) {
        return Some((Part::Receiver, "", words));
    }
    let found = |(name, part): &(&str, Part)| Some((words.find(name)?, name.len(), *part));
    let (at, length, part) = NAMES.iter().filter_map(found).min_by_key(|(at, ..)| *at)?;
    let before = words[..at].trim_end();
    // Elsewhere in a line they are words of a message.
    if !(before.is_empty() || before.ends_with(']') || before.ends_with("':")) || at > FARTHEST {
        return None;
    }
    let rest = &words[at + length..];
    let rest = rest.strip_prefix(" thread").unwrap_or(rest);
    let named = rest.strip_prefix(OF_CHANNEL).and_then(|rest| rest.split_once('\''));
    let (name, rest) = named.unwrap_or_else(|| {
        let connection = before.split_once(OF_CONNECTION).and_then(|(_, rest)| rest.split_once('\''));
        (connection.map_or("", |(name, _)| name), rest)
    });
    Some((part, name, rest))
}

/// The number and the words of an error, as a status has them: without the number that the log adds at the end.
fn error(rest: &str) -> Option<(Option<u32>, &str)> {
    const ADDED: [&str; 2] = [", Internal MariaDB error code: ", ", Error_code: "];
    let words = if rest.starts_with(FATAL) { rest } else { rest.strip_prefix(": ")? };
    let number = number(words);
    if number.is_none() && !is_connecting(words) {
        return None;
    }
    let end = ADDED.iter().filter_map(|sign| words.rfind(sign)).max();
    Some((number, end.map_or(words, |end| &words[..end])))
}

/// The same of a statement's error of which the end was cut, and the number with it: `Error 'Duplicate entry '7' for key 'PRIMARY'' on`.
fn cut_error(rest: &str) -> Option<(Option<u32>, &str)> {
    const DUPLICATE: &str = "Error 'Duplicate entry '";
    let words = rest.strip_prefix(": ").filter(|words| words.starts_with("Error '"))?;
    Some((words.starts_with(DUPLICATE).then_some(1062), words))
}

/// The last number of an error in its words: `Error_code: 1032`, `Error_code: MY-001062`, `Got fatal error 1236 from master`.
fn number(words: &str) -> Option<u32> {
    const SIGNS: [&str; 3] = ["Error_code: ", "Internal MariaDB error code: ", "Got fatal error "];
    SIGNS.iter().find_map(|sign| {
        let rest = words.rsplit_once(sign)?.1;
        let rest = rest.strip_prefix("MY-").unwrap_or(rest);
        let digits = &rest[..rest.bytes().take(6).take_while(u8::is_ascii_digit).count()];
        digits.parse().ok()
    })
}

fn is_connecting(words: &str) -> bool {
    ["error connecting to ", "error reconnecting to "].iter().any(|sign| words.starts_with(sign))
}

/// Notes that a part stopped, or did not connect.
fn stop(channel: &mut Channel, part: Part, (number, words): (Option<u32>, &str), at: Option<DateTime>) {
    let said = &mut channel.said;
    let text = || words.chars().take(LONGEST).collect::<String>();
    // The others stop behind the one that says why.
    let is_of_others = number.is_some_and(|number| OF_OTHERS.contains(&number));
    match part {
        Part::Applier if is_of_others && !said.applier_error.is_empty() => {}
        Part::Applier => {
            "No".clone_into(&mut said.applier_running);
            (said.applier_errno, said.applier_error) = (number, text());
        }
        Part::Receiver if is_of_others && !said.receiver_error.is_empty() => {}
        Part::Receiver => {
            let is_trying = is_connecting(words);
            let running = if is_trying { "Connecting" } else { "No" };
            running.clone_into(&mut said.receiver_running);
            (said.receiver_errno, said.receiver_error) = (number, text());
            channel.tried = at.filter(|_| is_trying);
        }
    }
}

/// Notes that a part was started, or has connected.
fn go_on(channel: &mut Channel, part: Part, rest: &str) {
    match part {
        Part::Applier if rest.contains("initialized, starting replication") => {
            let said = &mut channel.said;
            said.applier_running.clear();
            said.applier_error.clear();
            said.applier_errno = None;
        }
        Part::Receiver
            if rest.contains("connected to master '") || rest.contains("connected to source '") =>
        {
            receives(channel);
        }
        Part::Applier | Part::Receiver => {}
    }
}

fn receives(channel: &mut Channel) {
    let said = &mut channel.said;
    said.receiver_running.clear();
    said.receiver_error.clear();
    (said.receiver_errno, channel.tried) = (None, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recognise, window};

    const DUPLICATE: &str = "Could not execute Write_rows event on table shop.stock; Duplicate entry '7' for key 'PRIMARY', Error_code: 1062; handler \
                             error HA_ERR_FOUND_DUPP_KEY; the event's master log b.000004, end_log_pos 817";

    /// The headlines about replication that a text gets.
    fn headlines(text: &str) -> Vec<String> {
        let findings = spindoctor_rules::diagnose(&window(&recognise("error.log", text))).findings;
        findings.into_iter().filter(|one| one.cause == "replica-lag").map(|one| one.headline).collect()
    }

    #[test]
    fn a_line_that_is_longer_than_an_error_is_not_put_together_again_and_again() {
        let line = |length: usize| {
            format!(
                "2024-03-04 10:11:12 7 [ERROR] Slave SQL: Error 'a' on query. Query: '{}",
                "b".repeat(length)
            )
        };
        let below = ["c', Error_code: 1062"];
        assert!(with_number(&line(9), &below).is_some());
        assert!(with_number(&line(LONGEST_WRAPPED), &below).is_none());
    }

    #[test]
    fn an_applier_that_stopped_is_one_in_the_log_of_each_server() {
        for line in [
            format!("240304 10:11:12 [ERROR] Slave SQL: {DUPLICATE}, Error_code: 1062"),
            format!("240304 10:11:12 [ERROR] Slave: {DUPLICATE}, Error_code: 1062"),
            format!(
                "2024-03-04T10:11:12.1Z 7 [ERROR] Slave SQL for channel '': {DUPLICATE}, Error_code: 1062"
            ),
            format!(
                "2024-03-04T10:11:12.1Z 7 [ERROR] [MY-010584] [Repl] Replica SQL for channel '': {DUPLICATE}, Error_code: MY-001062"
            ),
            format!(
                "2024-03-04 10:11:12 7 [ERROR] Slave SQL: {DUPLICATE}, Gtid 0-1-5, Internal MariaDB error code: 1062"
            ),
        ] {
            let channels = channels(&line);
            assert_eq!(channels.len(), 1, "{line}");
            assert_eq!(channels[0].applier_errno, Some(1062), "{line}");
            assert!(channels[0].applier_error.starts_with("Could not execute"), "{line}");
            let found = headlines(&format!("{line}\n"));
            assert_eq!(
                found,
                [
                    "The applier has stopped with error 1062 (table shop.stock, key PRIMARY): the replica of its source applies nothing"
                ],
                "{line}"
            );
        }
    }

    #[test]
    fn an_error_that_was_wrapped_is_one_line_again() {
        let wrapped = "2024-03-04 10:11:12 7 [ERROR] Slave SQL: Error 'Duplicate entry '7' for key 'PRIMARY'' on query. Default data\n\
                       base: 'shop'. Query: 'INSERT INTO stock (id,\n  n) VALUES (7, 1)', Gtid 0-1-5, Internal MariaDB error co\n\
                       de: 1062\n2024-03-04 10:11:13 7 [Note] something\n";
        let found = channels(&whole(wrapped));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].applier_errno, Some(1062));
        assert_eq!(whole(wrapped).lines().count(), 2, "{}", whole(wrapped));
        assert_eq!(headlines(wrapped).len(), 1);
        let cut =
            "2024-03-04 10:11:12 7 [ERROR] Slave SQL: Error 'Dupli\n2024-03-04 10:11:13 7 [Note] something\n";
        assert_eq!(whole(cut), cut);
        assert!(matches!(whole("no log\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_applier_s_error_of_which_the_end_was_cut_is_one() {
        let cut = "2024-03-04 10:11:12 7 [ERROR] Slave SQL: Error 'Duplicate entry '7' for key 'PRIMARY'' on query. Default\n \
                   database: 'shop'. Query: 'INSERT INTO stock (id, n\n";
        assert_eq!(channels(cut)[0].applier_errno, Some(1062));
        let found = headlines(cut);
        assert!(found.len() == 1 && found[0].contains("error 1062"), "{found:?}");
        let says = crate::error_log::read(cut).says;
        assert!(says.len() == 1 && says[0].starts_with("replication stopped: the applier"), "{says:?}");
        let warning = cut.replace("[ERROR]", "[Warning]");
        assert_eq!((channels(&warning), crate::error_log::read(&warning).says), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_receiver_of_5_0_has_stopped_however_its_lines_were_wrapped() {
        let log = "071006  8:29:33 [ERROR] Error reading packet from server: binlog truncated in the middle\nof event (server_errno=1236)\n\
                   071006  8:29:33 [ERROR] Got fatal error 1236: 'binlog truncated in the middle of event'\nfrom master when reading data\n";
        assert_eq!(whole(log).lines().count(), 3, "{}", whole(log));
        let found = channels(log);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].receiver_errno, found[0].receiver_running.as_str()), (Some(1236), "No"));
        assert!(found[0].receiver_error.contains("binlog truncated"), "{found:?}");
        assert_eq!(headlines(log).len(), 1);
        let says = crate::error_log::read(log).says;
        assert_eq!(says.len(), 1, "{says:?}");
        assert!(says[0].starts_with("replication stopped: the receiver met an error"), "{says:?}");
        let connected = "071006  8:30:33 [Note] Slave I/O thread: connected to master 'repl@10.0.0.1:3306', replication started\n";
        assert_eq!(channels(&format!("{log}{connected}")), []);
    }

    #[test]
    fn a_node_of_galera_that_could_not_apply_is_no_replica() {
        let of_node = DUPLICATE.replace("b.000004, end_log_pos 817", "FIRST, end_log_pos 0");
        for line in [
            format!(
                "2024-03-04T10:11:12.1Z 11 [ERROR] [MY-010584] [Repl] Slave SQL: {of_node}, Error_code: MY-001062\n"
            ),
            format!(
                "2024-03-04 10:11:12 11 [ERROR] Slave SQL: {of_node}, Internal MariaDB error code: 1062\n"
            ),
        ] {
            assert_eq!(channels(&line), [], "{line}");
            let says = crate::error_log::read(&line).says;
            assert!(says[0].starts_with("a node of the Galera cluster could not apply"), "{says:?}");
            assert_eq!(says.len(), 1, "{says:?}");
        }
        let worker = format!(
            "2024-03-04T10:11:12.1Z 7 [ERROR] [MY-010584] [Repl] Slave SQL for channel '': Worker 1 failed executing transaction 'a:7' at \
             master log b.000004, end_log_pos 817; {of_node}, Error_code: MY-001062\n"
        );
        assert_eq!(channels(&worker)[0].applier_errno, Some(1062));
    }

    #[test]
    fn of_two_errors_of_a_receiver_that_which_the_other_follows_from_is_kept() {
        let line = |number: u32, words: &str| {
            format!(
                "2024-03-04T10:11:12.1Z 8 [ERROR] [MY-0{number}] [Repl] Replica I/O for channel 'north': {words}, Error_code: MY-0{number}\n"
            )
        };
        let found = channels(&format!(
            "{}{}",
            line(13_115, "event checksum verification failed"),
            line(13_122, "could not queue event")
        ));
        assert_eq!(found[0].receiver_errno, Some(13_115), "{found:?}");
        assert_eq!(channels(&line(13_122, "could not queue event"))[0].receiver_errno, Some(13_122));
    }

    #[test]
    fn what_runs_again_has_not_stopped() {
        let stopped = format!("2024-03-04 10:11:12 7 [ERROR] Slave SQL: {DUPLICATE}, Error_code: 1062\n");
        for started in [
            "2024-03-04 10:12:12 8 [Note] Slave SQL thread initialized, starting replication in log 'b.000004' at position 4\n",
            "2024-03-04 10:12:12 8 [Note] Slave SQL thread for channel '' initialized, starting replication in log 'b.000004'\n",
        ] {
            assert_eq!(channels(&format!("{stopped}{started}")), [], "{started}");
            assert_eq!(channels(&format!("{stopped}{started}{stopped}")).len(), 1, "{started}");
        }
        let warning =
            "2024-03-04 10:11:12 7 [Warning] Slave SQL: Lock wait timeout exceeded, Error_code: 1205\n";
        assert_eq!(channels(warning), []);
    }

    #[test]
    fn a_receiver_has_stopped_or_tries_to_connect() {
        let refused = "2024-03-04 10:11:12 8 [ERROR] Master 'north': Slave I/O: Got fatal error 1236 from master when reading data from binary log: \
                       'Could not find first log file name in binary log index file', Internal MariaDB error code: 1236\n";
        let found = channels(refused);
        assert_eq!((found[0].name.as_str(), found[0].receiver_running.as_str()), ("north", "No"));
        assert_eq!(found[0].receiver_errno, Some(1236));
        let said = headlines(refused);
        assert!(said[0].contains("Could not find first log file name"), "{said:?}");
        let tries = "2024-03-04T10:11:12.1Z 8 [ERROR] [MY-010584] [Repl] Replica I/O for channel '': error connecting to source \
                     'repl@10.0.0.1:3306' - retry-time: 60 retries: 1, Error_code: MY-002003\n";
        let found = channels(tries);
        assert_eq!((found[0].receiver_running.as_str(), found[0].receiver_errno), ("Connecting", Some(2003)));
        let connected = "2024-03-04T10:12:12.1Z 8 [System] [MY-014001] [Repl] Replica receiver thread for channel '': connected to source \
                         'repl@10.0.0.1:3306' with server_uuid=a\n";
        assert_eq!(channels(&format!("{tries}{connected}")), []);
        let later = "2024-03-04T11:12:12.1Z 0 [Note] something\n";
        assert_eq!(channels(&format!("{tries}{later}")), []);
    }

    #[test]
    fn the_worker_that_says_why_counts_and_a_status_has_more() {
        let log = format!(
            "2024-03-04T10:11:12.1Z 7 [ERROR] Slave SQL for channel '': {DUPLICATE}, Error_code: 1062\n\
             2024-03-04T10:11:12.1Z 6 [ERROR] Slave SQL for channel '': ... The slave coordinator and worker threads are stopped, Error_code: 1756\n"
        );
        assert_eq!(channels(&log)[0].applier_errno, Some(1062));
        let status = "*************************** 1. row ***************************\n     Slave_IO_Running: Yes\n    Slave_SQL_Running: Yes\n\
                      Seconds_Behind_Master: 0\n1 row in set (0.00 sec)\n\n";
        assert_eq!(headlines(&format!("{status}{log}")), [""; 0]);
    }

    #[test]
    fn words_of_a_message_are_no_part_of_a_replica() {
        for line in [
            "2024-03-04 10:11:12 7 [ERROR] the plugin said Slave SQL: no, Error_code: 1",
            "2024-03-04 10:11:12 7 [ERROR] Slave SQL",
            "240304 10:11:12 [Note] Slave: received end packet from server, apparent master shutdown: ",
            "Slave SQL: Error_code: 1062",
        ] {
            assert_eq!(channels(line), [], "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(1 \\[ERROR\\] |\\[Note\\] |Slave SQL|Replica I/O| thread| for channel '|'|: |Error_code: |MY-|Master '|é|9|\n){0,40}") {
            channels(&text);
        }
    }
}
