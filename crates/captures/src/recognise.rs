//! A text to its documents: where each begins and ends, and what it is. By content alone.

use jiff::civil::DateTime;
use spindoctor_collect::mysql::Rows;
use spindoctor_model::{LoggedTrouble, ServerVersion, TroubleKind};

use crate::part::{Kind, Moment, Part, Said};
use crate::rows::{MOST_ROWS, Tables};
use crate::stretch::{Look, Stretch, is_title, stretches};
use crate::tables::table_parts;
use crate::{
    clock, cluster_status, cut_status, deadlock_rows, dump_slow, error_log, events, heartbeat, intervals,
    json, log_lines, logged_json, named, option_remarks, other_programs, plain, plan, plan_json, sampled,
    server_status, server_version, slow_log, stacks, statement_report, status, sysstat, system, tuner,
};

/// Documents of one text that are kept, and how many are read before those that are too many go.
const MOST_PARTS: usize = 1_000;
const MOST_READ: usize = 20_000;
/// Characters of what was not recognised that are shown.
const SHOWN: usize = 60;
/// Lines beside a document that are no document: a prompt, an answer's foot, what a person wrote around it.
const ASIDE: usize = 3;

/// The documents of a text, in order. What nobody knows is one, too.
pub fn recognise(name: &str, text: &str) -> Vec<Part> {
    if let Some(printed) = sysstat::from_json(text) {
        let stretch = Stretch { look: Look::System, first: 1, lines: text.lines().count(), text: printed };
        return read(name, &stretch, None, false);
    }
    if let Some(says) = statement_report::from_json(text) {
        return vec![Part { says, ..whole(name, Kind::StatementReport, text) }];
    }
    match cluster_status::read(text) {
        Some(cluster) => with_cluster(name, cluster),
        None => documents(name, text),
    }
}

/// A text that is one document.
fn whole(name: &str, kind: Kind, text: &str) -> Part {
    Part {
        name: name.to_owned(),
        kind,
        first_line: 1,
        lines: text.lines().count(),
        time: None,
        version: None,
        says: Vec::new(),
        moments: Vec::new(),
        begins: String::new(),
    }
}

/// The documents of a text that is none of sysstat's or pt-query-digest's in JSON and has no cluster's status in it.
fn documents(name: &str, text: &str) -> Vec<Part> {
    let collected = logged_json::as_text(text);
    let text = collected.as_deref().unwrap_or(text);
    if let Some(sets) = json::json(text) {
        let mut parts =
            table_parts(name, 1, text.lines().count(), sets.into_iter().map(|rows| (None, rows)).collect());
        if !parts.is_empty() {
            intervals::settle(&mut parts, "");
            return parts;
        }
    }
    let ends_cut = !text.ends_with('\n');
    let log = log_lines::without_json(text);
    let mut text = plain::undamaged(log.as_deref().unwrap_or(text));
    if ends_cut && text.ends_with('\n') {
        // A last line without its end may be cut in the middle of a number.
        text.pop();
    }
    let version = text.lines().find_map(server_version::version).or_else(|| server_version::built_in(&text));
    let mut parts: Vec<Part> = Vec::new();
    let stretches = stretches(&text);
    let is_all_other = stretches.iter().all(|stretch| stretch.look == Look::Other);
    for (at, stretch) in stretches.iter().enumerate() {
        if parts.len() >= MOST_READ {
            break;
        }
        parts.extend(read(name, stretch, stretches.get(at + 1), is_all_other));
        if parts.len() >= 2 * MOST_PARTS {
            without_oldest_statuses(&mut parts);
        }
    }
    let of_parts = version.or_else(|| parts.iter().find_map(|part| part.version));
    for part in parts.iter_mut().filter(|part| part.kind == Kind::OptionFile) {
        let of_part = stretches.iter().find(|stretch| stretch.first == part.first_line);
        let remarks = of_part.map(|stretch| option_remarks::read(&stretch.text, stretch.first, of_parts));
        part.says.extend(remarks.into_iter().flatten());
    }
    let known = parts.iter().any(|part| part.kind != Kind::Unknown);
    parts.retain(|part| part.kind != Kind::Unknown || !known || part.lines > ASIDE);
    without_oldest_statuses(&mut parts);
    parts.truncate(MOST_PARTS);
    cut_status::with_waits_of_log(&mut parts);
    intervals::settle(&mut parts, &text);
    for part in &mut parts {
        part.version = part.version.or(version);
    }
    parts
}

/// Of too many documents the oldest statuses go: a log of days has one for each 15 seconds (`innodb_status_output`), and its end counts.
fn without_oldest_statuses(parts: &mut Vec<Part>) {
    let mut too_many = parts.len().saturating_sub(MOST_PARTS);
    parts.retain(|part| {
        let goes = too_many > 0 && part.kind == Kind::InnodbStatus;
        too_many -= usize::from(goes);
        !goes
    });
}

/// What MySQL Shell says of a cluster, and the documents that stand beside it.
fn with_cluster(name: &str, cluster: cluster_status::ClusterStatus) -> Vec<Part> {
    let mut said = vec![Said::GroupMembers(cluster.members)];
    said.extend(cluster.trouble.map(|trouble| Said::Troubles(vec![trouble])));
    let part = Part {
        name: name.to_owned(),
        kind: Kind::GroupMembers,
        first_line: cluster.first_line,
        lines: cluster.lines,
        time: None,
        version: None,
        says: cluster.says,
        moments: vec![Moment { said, ..Moment::default() }],
        begins: String::new(),
    };
    let others = match cluster.rest.trim() {
        "" => Vec::new(),
        _ => documents(name, &cluster.rest),
    };
    let is_kept = |other: &Part| other.kind != Kind::Unknown || other.lines > ASIDE;
    std::iter::once(part).chain(others.into_iter().filter(is_kept)).take(MOST_PARTS).collect()
}

/// How many of the rows that a list's foot counts are not above it, of those found: `18 rows in set (0.00 sec)` below five.
fn missing_rows(found: usize, below: &str) -> Option<String> {
    let foot = below.lines().find(|line| !line.trim().is_empty())?.trim();
    let (number, rest) = foot.split_once(' ')?;
    let is_foot = rest.starts_with("rows in set") || rest.starts_with("row in set");
    let wanted: usize = number.parse().ok().filter(|_| is_foot)?;
    let missing = wanted.checked_sub(found).filter(|missing| *missing > 0 && found < MOST_ROWS)?;
    let are = if missing == 1 { "is" } else { "are" };
    Some(format!("{missing} of the {wanted} rows {are} not in what was given"))
}

/// The documents of a stretch. What stands below a table counts its rows.
fn read(name: &str, stretch: &Stretch, below: Option<&Stretch>, is_alone: bool) -> Vec<Part> {
    let part = |kind: Kind| Part {
        name: name.to_owned(),
        kind,
        first_line: stretch.first,
        lines: stretch.lines,
        time: None,
        version: None,
        says: Vec::new(),
        moments: Vec::new(),
        begins: String::new(),
    };
    match stretch.look {
        Look::WholeStatus | Look::Status => {
            let time = stretch.text.lines().find(|line| is_title(line)).and_then(clock::time);
            match status_moment(&stretch.text, time) {
                Some(moment) => {
                    let says = match moment.said.first() {
                        Some(Said::Innodb(status)) => events::sentences(status)
                            .into_iter()
                            .chain(events::old_transaction(status))
                            .collect(),
                        _ => Vec::new(),
                    };
                    vec![Part { time, says, moments: vec![moment], ..part(Kind::InnodbStatus) }]
                }
                None => unknown(part(Kind::Unknown), &stretch.text),
            }
        }
        Look::Table => {
            let mut tables = Tables::default();
            let mut all: Vec<(Option<DateTime>, Rows)> = Vec::new();
            let mut time = None;
            for line in stretch.text.lines() {
                if let Some(next) = clock::time(line).filter(|_| line.starts_with("TS ")) {
                    all.extend(tables.finish().map(|rows| (time, rows)));
                    time = Some(next);
                    continue;
                }
                all.extend(tables.take(line).map(|rows| (time, rows)));
            }
            all.extend(tables.finish().map(|rows| (time, rows)));
            let rows = all.last().map(|(_, rows)| rows.len());
            let mut parts = table_parts(name, stretch.first, stretch.lines, all);
            if parts.is_empty() && !stretch.text.contains("InnoDB") {
                parts = unknown(part(Kind::Unknown), &stretch.text);
            }
            if let (Some(part), Some(rows), Some(below)) = (parts.last_mut(), rows, below) {
                part.says.extend(missing_rows(rows, &below.text));
            }
            parts
        }
        Look::Pairs => named_part(part(Kind::GlobalStatus), intervals::of_pairs(&stretch.text)),
        Look::Options if named::is_of_other_program(&stretch.text) => {
            unknown(part(Kind::Unknown), &stretch.text)
        }
        Look::Options => {
            let options = named::options(&stretch.text);
            let mut says = Vec::new();
            if !options.includes.is_empty() {
                says.push(format!("it includes what was not given: {}", options.includes.join(", ")));
            }
            let moment = Moment { said: vec![Said::Options(options.values)], ..Moment::default() };
            vec![Part { says, moments: vec![moment], ..part(Kind::OptionFile) }]
        }
        Look::Log if !log_lines::is_of_a_server(&stretch.text) => unknown(part(Kind::Unknown), &stretch.text),
        Look::Log => {
            let log = error_log::read(&stretch.text);
            let mut says = log.says;
            let printed: String = log.waits.into_iter().chain(log.deadlock).collect();
            let waits = (!printed.is_empty()).then(|| status_moment(&printed, log.time)).flatten();
            if let Some(Said::Innodb(status)) = waits.as_ref().and_then(|moment| moment.said.first()) {
                says.extend(events::sentences(status));
            }
            let troubles = (!log.troubles.is_empty())
                .then(|| Moment { said: vec![Said::Troubles(log.troubles)], ..Moment::default() });
            let moments = waits.into_iter().chain(troubles).collect();
            vec![Part { time: log.time, version: log.version, says, moments, ..part(Kind::ErrorLog) }]
        }
        Look::SlowLog => match slow_log::read(&stretch.text) {
            Some(slow_log::SlowLog { says, version }) => {
                vec![Part { version, says, ..part(Kind::SlowLog) }]
            }
            None => unknown(part(Kind::Unknown), &stretch.text),
        },
        Look::Report => match statement_report::read(&stretch.text) {
            Some(says) => vec![Part { says, ..part(Kind::StatementReport) }],
            None => unknown(part(Kind::Unknown), &stretch.text),
        },
        Look::Plan => vec![Part { says: plan::read(&stretch.text), ..part(Kind::Plan) }],
        Look::JsonPlan => vec![Part { says: plan_json::read(&stretch.text), ..part(Kind::Plan) }],
        Look::DumpSlow => match dump_slow::read(&stretch.text) {
            Some(says) => vec![Part { says, ..part(Kind::DumpSlow) }],
            None => unknown(part(Kind::Unknown), &stretch.text),
        },
        Look::Heartbeat => match heartbeat::read(&stretch.text) {
            Some(heartbeat::Heartbeat { says, channels }) => {
                let moments = (0_u32..).zip(channels).map(|(at, channel)| Moment {
                    after_s: Some(f64::from(at)),
                    said: vec![Said::Replication(vec![channel])],
                    ..Moment::default()
                });
                vec![Part { says: vec![says], moments: moments.collect(), ..part(Kind::ReplicaLag) }]
            }
            None => unknown(part(Kind::Unknown), &stretch.text),
        },
        Look::ServerStatus => {
            let server_status::ServerStatus { says, locks, threads } = server_status::read(&stretch.text);
            let moment = (!locks.is_empty()).then(|| Moment {
                said: vec![Said::MetadataLocks(locks), Said::SomeThreads(threads)],
                ..Moment::default()
            });
            vec![Part { says, moments: moment.into_iter().collect(), ..part(Kind::ServerStatus) }]
        }
        Look::OtherProgram => {
            vec![Part { says: vec![other_programs::read(&stretch.text)], ..part(Kind::OtherProgram) }]
        }
        Look::Tuner => vec![Part { says: tuner::read(&stretch.text), ..part(Kind::Tuner) }],
        Look::Deadlocks => match deadlock_rows::read(&stretch.text) {
            Some(deadlock_rows::Deadlocks { says, trouble }) => {
                let moment = Moment { said: vec![Said::Troubles(vec![trouble])], ..Moment::default() };
                vec![Part { says: vec![says], moments: vec![moment], ..part(Kind::Deadlocks) }]
            }
            None => unknown(part(Kind::Unknown), &stretch.text),
        },
        Look::System => {
            let system::SystemText { says, troubles } = system::read(&stretch.text);
            let moment = (!troubles.is_empty())
                .then(|| Moment { said: vec![Said::Troubles(troubles)], ..Moment::default() });
            vec![Part { says, moments: moment.into_iter().collect(), ..part(Kind::System) }]
        }
        Look::Other => {
            if let Some(stacks) = stacks::read(&stretch.text) {
                let mut says =
                    vec![format!("written by {}: {}", stacks.form, several(stacks.threads as u64, "thread"))];
                says.extend(sampled::sentence(&stacks.profile));
                if stacks.form == "gdb backtrace"
                    && stacks.threads > 1
                    && stacks.profile.stacks.iter().all(|stack| stack.frames.len() <= 1)
                {
                    says.push("it has the innermost function of each thread alone: `thread apply all bt` has them all".into());
                }
                if let Some(program) = stacks.other_program() {
                    says.push(format!(
                        "they are of {program}, not of a server: nothing is diagnosed by them"
                    ));
                    return vec![Part { says, ..part(Kind::Stacks) }];
                }
                let died = error_log::death_in(&stretch.text).filter(|_| stacks.form == "crash backtrace");
                if let Some(sentence) = died {
                    says.push(sentence.clone());
                    let trouble = LoggedTrouble {
                        kind: TroubleKind::Crashed,
                        times: 1,
                        line: sentence,
                        source: "backtrace".into(),
                        ..LoggedTrouble::default()
                    };
                    let said = vec![Said::Troubles(vec![trouble]), Said::Stacks(Box::new(stacks))];
                    return vec![Part {
                        says,
                        moments: vec![Moment { said, ..Moment::default() }],
                        ..part(Kind::Stacks)
                    }];
                }
                let moment = Moment { said: vec![Said::Stacks(Box::new(stacks))], ..Moment::default() };
                return vec![Part { says, moments: vec![moment], ..part(Kind::Stacks) }];
            }
            let is_aside = |line: &str| {
                line.is_empty()
                    || line.starts_with(['#', '=', ';'])
                    || line.contains("mysql> ")
                    || line.ends_with(" sec)")
                    || ["Type: InnoDB", "Name:", "Status:"].contains(&line.trim())
                    || line.contains(". row ****")
            };
            match !is_alone && stretch.text.lines().all(is_aside) {
                true => Vec::new(),
                false => unknown(part(Kind::Unknown), &stretch.text),
            }
        }
    }
}

pub(crate) fn several(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

fn unknown(part: Part, text: &str) -> Vec<Part> {
    let is_foot = |line: &str| line.ends_with(" sec)");
    let mut shown = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = shown.clone().find(|line| !is_foot(line)).or_else(|| shown.next()) else {
        return Vec::new();
    };
    let begins: String = first.trim().chars().take(SHOWN).collect();
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    vec![Part { begins, lines, ..part }]
}

fn status_moment(text: &str, time: Option<DateTime>) -> Option<Moment> {
    let read = status::read(text)?;
    let mut said = vec![Said::Innodb(Box::new(read.status))];
    if !read.threads.is_empty() {
        said.push(Said::SomeThreads(read.threads));
    }
    if !read.transactions.is_empty() {
        said.push(Said::Transactions(read.transactions));
    }
    if !read.waits.is_empty() {
        said.push(Said::LockWaits(read.waits));
    }
    Some(Moment { time, said, ..Moment::default() })
}

fn named_part(part: Part, readings: Vec<spindoctor_model::mysql::NamedValues>) -> Vec<Part> {
    let mut version: Option<ServerVersion> = None;
    let mut kind = Kind::GlobalStatus;
    let moments: Vec<Moment> = readings
        .into_iter()
        .map(|values| {
            version = version.or_else(|| named::version(&values));
            let said = match named::kind(&values) {
                named::NamedKind::Status => Said::Status(values),
                named::NamedKind::Variables => {
                    kind = Kind::GlobalVariables;
                    Said::Variables(values)
                }
            };
            Moment { said: vec![said], ..Moment::default() }
        })
        .collect();
    match moments.is_empty() {
        true => Vec::new(),
        false => {
            let says =
                (moments.len() > 1).then(|| several(moments.len() as u64, "reading")).into_iter().collect();
            vec![Part { kind, version, moments, says, ..part }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<Said> {
        recognise("a.txt", text)
            .into_iter()
            .flat_map(|part| part.moments)
            .flat_map(|moment| moment.said)
            .collect()
    }

    fn sentences(text: &str) -> String {
        recognise("a.txt", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn internal_ids_of_lock_waits_get_the_statement_that_finds_their_connection() {
        let head = "*************************** 1. row ***************************\n";
        let waits = format!(
            "{head}              ENGINE: INNODB\nREQUESTING_THREAD_ID: 81\n  BLOCKING_THREAD_ID: 80\n"
        );
        assert!(
            sentences(&waits).contains("WHERE THREAD_ID = 80 says its connection"),
            "{}",
            sentences(&waits)
        );
        let Some(Said::LockWaits(waits)) = said(&waits).into_iter().next() else { panic!("no lock waits") };
        assert_eq!(waits[0].blocking_transaction, "thread 80");
    }

    #[test]
    fn a_list_of_waits_for_metadata_locks_is_none_of_row_locks() {
        let text = "*************************** 1. row ***************************\n\
                    locked_schema: shop\nlocked_table: stock\nlocked_type: Metadata Lock\nwaiting_processlist_id: 8\n\
                    waiting_age: 40\nwaiting_query: alter table stock add n int\nblocking_processlist_id: 7\nblocking_query: NULL\n";
        let said = said(text);
        let [Said::MetadataLocks(locks), Said::SomeThreads(threads)] = &said[..] else { panic!("{said:?}") };
        assert_eq!((locks[0].owner_connection_id, locks[0].granted), (Some(7), true));
        assert_eq!((locks[1].name.as_str(), locks[1].owner_connection_id), ("stock", Some(8)));
        assert_eq!((threads[0].command.as_str(), threads[1].time_s), ("Sleep", 40.0));
    }

    #[test]
    fn of_a_log_with_statuses_of_days_the_last_ones_are_kept() {
        let status = |at: usize| {
            format!(
                "=====\n2024-05-02 {:02}:{:02}:{:02} 0x7f INNODB MONITOR OUTPUT\n=====\n------------\nTRANSACTIONS\n------------\n\
                 Trx id counter 5\nHistory list length {at}\nEND OF INNODB MONITOR OUTPUT\n=====\n",
                at / 3_600,
                at / 60 % 60,
                at % 60
            )
        };
        let log = "2024-05-02T00:00:00.1Z 0 [Warning] [MY-010055] [Server] Too many connections\n";
        let text: String =
            std::iter::once(log.to_owned()).chain((0..MOST_PARTS * 5 / 2).map(status)).collect();
        let parts = recognise("error.log", &text);
        assert_eq!((parts.len(), parts[0].kind), (MOST_PARTS, Kind::ErrorLog));
        let last = parts.last().and_then(|part| part.time).map(|time| time.to_string());
        assert_eq!(last.as_deref(), Some("2024-05-02T00:41:39"));
    }

    #[test]
    fn what_is_of_another_program_is_said_to_be() {
        let status = "| Variable_Name | Variable_Value |\n| ProxySQL_Uptime | 71 |\n| Questions | 5 |\n";
        assert!(said(status).is_empty());
        assert!(sentences(status).contains("it is of ProxySQL"), "{}", sentences(status));
        let stacks = "Thread 2 (LWP 12):\n#0  0x01 in syscall () from /lib64/libc.so.6\n\
                      #1  0x02 in bthread::TaskGroup::wait_task () from /lib/libb.so\n#2  0x03 in clone () from /lib64/libc.so.6\n";
        assert!(said(stacks).is_empty());
        assert!(sentences(stacks).contains("not of a server"), "{}", sentences(stacks));
        let of_server = stacks.replace("bthread::TaskGroup::wait_task", "do_command");
        assert!(!sentences(&of_server).contains("not of a server"));
    }
}
