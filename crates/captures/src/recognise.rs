//! A text to its documents: where each begins and ends, and what it is. By content alone.

use jiff::civil::DateTime;
use spindoctor_collect::mysql::{Rows, metadata_lock_info, perf_schema_metadata_locks, replica_status};
use spindoctor_collect::source::Answer;
use spindoctor_model::{LoggedTrouble, ServerSample, ServerVersion, TroubleKind};

use crate::part::{Kind, Moment, Part, Said};
use crate::rows::{TableKind, Tables, header_of, is_border, kind, row_number};
use crate::{
    clock, error_log, events, json, latches, locks, named, plain, sampled, stacks, status, system, threads,
    transactions,
};

/// Documents of one text that are kept.
const MOST_PARTS: usize = 1_000;
/// Characters of what was not recognised that are shown.
const SHOWN: usize = 60;
/// Lines beside a document that are no document: a prompt, an answer's foot, what a person wrote around it.
const ASIDE: usize = 3;

/// What a stretch of lines looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// From its title to its end line.
    WholeStatus,
    Status,
    Table,
    Pairs,
    Options,
    Log,
    System,
    Other,
}

/// Lines that belong together.
#[derive(Debug)]
struct Stretch {
    look: Look,
    first: usize,
    text: String,
    lines: usize,
}

/// The documents of a text, in order. What nobody knows is one, too.
pub fn recognise(name: &str, text: &str) -> Vec<Part> {
    if let Some(sets) = json::json(text) {
        let parts =
            table_parts(name, 1, text.lines().count(), sets.into_iter().map(|rows| (None, rows)).collect());
        if !parts.is_empty() {
            return parts;
        }
    }
    let ends_cut = !text.ends_with('\n');
    let log = error_log::without_json(text);
    let mut text = plain::undamaged(log.as_deref().unwrap_or(text));
    if ends_cut && text.ends_with('\n') {
        // A last line without its end may be cut in the middle of a number.
        text.pop();
    }
    let version = text.lines().find_map(error_log::version).or_else(|| error_log::built_in(&text));
    let mut parts: Vec<Part> = Vec::new();
    let stretches = stretches(&text);
    let is_all_other = stretches.iter().all(|stretch| stretch.look == Look::Other);
    for stretch in stretches {
        parts.extend(read(name, &stretch, is_all_other));
    }
    let known = parts.iter().any(|part| part.kind != Kind::Unknown);
    parts.retain(|part| part.kind != Kind::Unknown || !known || part.lines > ASIDE);
    parts.truncate(MOST_PARTS);
    for part in &mut parts {
        part.version = part.version.or(version);
    }
    parts
}

fn stretches(text: &str) -> Vec<Stretch> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let plain: Vec<&str> = lines.iter().map(|line| line.trim_end_matches([' ', '\n'])).collect();
    let mut all: Vec<Stretch> = Vec::new();
    let mut logs: Option<usize> = None;
    let mut now = Look::Other;
    let mut is_open = false;
    let mut form = None;
    for at in 0..lines.len() {
        let before = now;
        now = next_look(now, &plain, at, is_open, form);
        if now == Look::Table {
            form = table_form(plain[at]).or(form);
        }
        if now == Look::Other && before == Look::WholeStatus && logs.is_some() {
            now = Look::Log;
        }
        is_open = now == Look::Table && framed_row_is_open(plain[at], is_open);
        let begins = now != before || all.is_empty() || now == Look::WholeStatus && is_title(plain[at]);
        let place = match logs.filter(|_| now == Look::Log) {
            Some(place) => place,
            None if begins => {
                all.push(Stretch { look: now, first: at + 1, text: String::new(), lines: 0 });
                if now == Look::Log {
                    logs = Some(all.len() - 1);
                }
                all.len() - 1
            }
            None => all.len() - 1,
        };
        all[place].text.push_str(lines[at]);
        all[place].lines += 1;
        if is_end_of_status(plain[at]) && now == Look::WholeStatus {
            now = Look::Other;
        }
    }
    all
}

fn is_title(line: &str) -> bool {
    line.ends_with("INNODB MONITOR OUTPUT") && !line.starts_with("END OF")
}

fn is_end_of_status(line: &str) -> bool {
    line.starts_with("END OF INNODB MONITOR OUTPUT")
}

/// What the line at a place belongs to, where those above it belong to `now`.
fn next_look(now: Look, lines: &[&str], at: usize, is_open: bool, form: Option<char>) -> Look {
    let line = lines[at];
    let begins_table = || {
        row_number(line).is_some()
            || is_border(line) && lines.get(at + 1).is_some_and(|next| header_of(next).is_some())
    };
    if is_title(line) {
        return Look::WholeStatus;
    }
    let is_prompt = || ["mysql> ", "MariaDB ["].iter().any(|prompt| line.starts_with(prompt));
    match now {
        Look::WholeStatus if begins_table() => Look::Table,
        Look::WholeStatus => now,
        Look::Table => {
            if is_table_line(lines, at, is_open, form) {
                now
            } else {
                beginning(lines, at).unwrap_or(Look::Other)
            }
        }
        Look::Log => match () {
            () if begins_table() => Look::Table,
            () if named::is_group(line) => Look::Options,
            () => now,
        },
        Look::Status => match () {
            () if begins_table() => Look::Table,
            () if error_log::is_of_log(line) && clock::time(line).is_some() => Look::Log,
            () if is_prompt() => Look::Other,
            () => now,
        },
        Look::Options => match beginning(lines, at) {
            Some(Look::Pairs | Look::Options | Look::System) | None => now,
            Some(other) => other,
        },
        Look::Pairs => match named::pair(line) {
            Some(_) => now,
            None if line.is_empty() || goes_on(lines, at) => now,
            None => beginning(lines, at).unwrap_or(Look::Other),
        },
        Look::System | Look::Other => match beginning(lines, at) {
            Some(look) => look,
            None => now,
        },
    }
}

/// What begins at a place, whatever stands above it.
fn beginning(lines: &[&str], at: usize) -> Option<Look> {
    let line = lines[at];
    if line.is_empty() {
        return None;
    }
    let next = lines.get(at + 1);
    if row_number(line).is_some()
        || header_of(line).is_some()
        || is_border(line) && next.is_some_and(|next| header_of(next).is_some())
    {
        return Some(Look::Table);
    }
    if error_log::is_of_log(line) {
        return Some(Look::Log);
    }
    let is_rule = line.len() >= 3 && line.bytes().all(|byte| byte == b'-');
    if status::is_of_status(line) || is_rule && next.is_some_and(|next| status::is_heading(next)) {
        return Some(Look::Status);
    }
    if named::is_group(line)
        || is_printed_option(line)
            && lines[at..].iter().take(3).filter(|line| is_printed_option(line)).count() == 3
    {
        return Some(Look::Options);
    }
    if is_of_system(line) {
        return Some(Look::System);
    }
    let pairs = || lines[at..].iter().take(8).filter_map(|line| named::pair(line));
    let is_list = named::pair(line).is_some_and(|(name, values)| named::is_known(name) && !values.is_empty())
        && pairs().count() >= 3.min(lines.len() - at)
        && pairs().filter(|(name, _)| named::is_known(name)).count() >= 2;
    is_list.then_some(Look::Pairs)
}

/// `--key_buffer_size=16M`, as my_print_defaults prints it.
fn is_printed_option(line: &str) -> bool {
    line.strip_prefix("--").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_lowercase())
            && !rest.split('=').next().unwrap_or_default().contains(' ')
    })
}

/// Heads of what tools of the system print.
fn is_of_system(line: &str) -> bool {
    const HEADS: [&str; 26] = [
        "Filesystem ",
        "some avg10=",
        "full avg10=",
        "nr_periods ",
        "%Cpu(s):",
        "procs -----------memory",
        "procs ---",
        "avg-cpu:",
        "Device:",
        "Device  ",
        "top - ",
        "MemTotal:",
        "Active Internet connections",
        "Active UNIX domain",
        "COMMAND  ",
        "COMMAND ",
        "USER       PID",
        "F S UID",
        "Netid ",
        "kernel.",
        "vm.",
        "fs.",
        "nr_free_pages",
        "slabinfo",
        "cpu  ",
        "processor\t",
    ];
    HEADS.iter().any(|head| line.trim_start().starts_with(head))
        || line.starts_with("Linux ") && line.contains("_64")
}

fn framed_row_is_open(line: &str, was_open: bool) -> bool {
    let starts = line.trim_start().starts_with('|');
    (starts || was_open) && !line.ends_with('|') && !is_border(line)
}

/// How the table is written that a line begins: `*` for rows one below the other, `|` for a frame, or what parts the cells.
fn table_form(line: &str) -> Option<char> {
    if row_number(line).is_some() {
        Some('*')
    } else if is_border(line) {
        Some('|')
    } else {
        header_of(line)?;
        let marks = if line.trim_start().starts_with('|') { ['|'; 4] } else { ['\t', ',', ';', '|'] };
        Some(marks.into_iter().find(|mark| line.contains(*mark)).unwrap_or(' '))
    }
}

/// A value may have several lines, such as a public key: true where the list of names goes on soon.
fn goes_on(lines: &[&str], at: usize) -> bool {
    const LONGEST_VALUE: usize = 24;
    let below = || lines[at + 1..].iter().take(LONGEST_VALUE).take_while(|line| !is_of_another(line));
    let is_named = |line: &&str| named::pair(line).is_some_and(|(name, _)| named::is_known(name));
    let is_pair = |line: &&&str| named::pair(line).is_some_and(|(name, _)| name.contains('_'));
    beginning(lines, at).is_none() && (below().any(is_named) || below().take(6).filter(is_pair).count() >= 4)
}

fn is_of_another(line: &str) -> bool {
    error_log::is_of_log(line) || row_number(line).is_some() || is_title(line)
}

/// True for a line that belongs to the table above it.
fn is_table_line(lines: &[&str], at: usize, is_open: bool, form: Option<char>) -> bool {
    let line = lines[at];
    if row_number(line).is_some()
        || is_border(line)
        || header_of(line).is_some()
        || line.starts_with("TS ") && clock::time(line).is_some()
    {
        return true;
    }
    let is_foot = |line: &str| {
        (line.ends_with(" sec)") && (line.contains(" rows in set") || line.contains(" row in set")))
            || line.starts_with("(END)")
    };
    match form {
        Some('*') => {
            !(is_foot(line)
                || ["mysql> ", "MariaDB [", "Thread ", "#0 "].iter().any(|begins| line.starts_with(begins))
                || error_log::is_of_log(line) && clock::time(line).is_some()
                || named::is_group(line)
                || status::is_of_status(line))
        }
        Some('|') => {
            is_open
                || line.trim_start().starts_with('|')
                || line.is_empty()
                    && lines.get(at + 1).is_some_and(|next| next.trim_start().starts_with(['|', '+']))
        }
        Some('\t') => line.contains('\t') || goes_on(lines, at),
        Some(mark @ (',' | ';')) => line.contains(mark),
        _ => !line.is_empty() && !is_foot(line),
    }
}

/// The documents of a stretch.
fn read(name: &str, stretch: &Stretch, is_alone: bool) -> Vec<Part> {
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
                        Some(Said::Innodb(status)) => events::sentences(status),
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
            let parts = table_parts(name, stretch.first, stretch.lines, all);
            match parts.is_empty() && !stretch.text.contains("InnoDB") {
                true => unknown(part(Kind::Unknown), &stretch.text),
                false => parts,
            }
        }
        Look::Pairs => named_part(part(Kind::GlobalStatus), named::of_pairs(&stretch.text)),
        Look::Options => {
            let options = named::options(&stretch.text);
            let mut says = Vec::new();
            if !options.includes.is_empty() {
                says.push(format!("it includes what was not given: {}", options.includes.join(", ")));
            }
            let moment = Moment { time: None, said: vec![Said::Options(options.values)] };
            vec![Part { says, moments: vec![moment], ..part(Kind::OptionFile) }]
        }
        Look::Log => {
            let log = error_log::read(&stretch.text);
            let mut says = log.says;
            let printed: String = log.waits.into_iter().chain(log.deadlock).collect();
            let waits = (!printed.is_empty()).then(|| status_moment(&printed, log.time)).flatten();
            if let Some(Said::Innodb(status)) = waits.as_ref().and_then(|moment| moment.said.first()) {
                says.extend(events::sentences(status));
            }
            let troubles = (!log.troubles.is_empty())
                .then(|| Moment { time: None, said: vec![Said::Troubles(log.troubles)] });
            let moments = waits.into_iter().chain(troubles).collect();
            vec![Part { time: log.time, version: log.version, says, moments, ..part(Kind::ErrorLog) }]
        }
        Look::System => {
            let system::SystemText { says, troubles } = system::read(&stretch.text);
            let moment =
                (!troubles.is_empty()).then(|| Moment { time: None, said: vec![Said::Troubles(troubles)] });
            vec![Part { says, moments: moment.into_iter().collect(), ..part(Kind::System) }]
        }
        Look::Other => {
            if let Some(stacks) = stacks::read(&stretch.text) {
                let mut says =
                    vec![format!("written by {}: {}", stacks.form, counted(stacks.threads as u64, "thread"))];
                says.extend(sampled::sentence(&stacks.profile));
                if stacks.is_of_proxy() {
                    says.push("they are of ProxySQL, not of a server: nothing is diagnosed by them".into());
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
                        moments: vec![Moment { time: None, said }],
                        ..part(Kind::Stacks)
                    }];
                }
                let moment = Moment { time: None, said: vec![Said::Stacks(Box::new(stacks))] };
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

fn counted(number: u64, one: &str) -> String {
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
    Some(Moment { time, said })
}

/// Result sets of the same kind that follow each other are one document with several readings.
fn table_parts(
    name: &str,
    first_line: usize,
    lines: usize,
    tables: Vec<(Option<DateTime>, Rows)>,
) -> Vec<Part> {
    let part = |kind: Kind, time: Option<DateTime>| Part {
        name: name.to_owned(),
        kind,
        first_line,
        lines,
        time,
        version: None,
        says: Vec::new(),
        moments: Vec::new(),
        begins: String::new(),
    };
    let mut parts: Vec<Part> = Vec::new();
    for (time, rows) in tables {
        let columns: Vec<String> = rows.names().iter().map(|name| name.to_ascii_lowercase()).collect();
        let Some(kind) = kind(&columns) else { continue };
        let mut version = None;
        let (kind, said) = match kind {
            TableKind::ProcessList => (Kind::ProcessList, Said::Threads(threads::others(&rows))),
            TableKind::Transactions => {
                (Kind::Transactions, Said::Transactions(transactions::transactions(&rows)))
            }
            TableKind::LockWaits => (Kind::LockWaits, Said::LockWaits(locks::lock_waits(&rows))),
            TableKind::MetadataLockInfo => {
                (Kind::MetadataLocks, Said::MetadataLocks(metadata_lock_info::listed(&rows)))
            }
            TableKind::DataLocks => {
                let (waits, transactions) = locks::data_locks(&rows);
                let said = vec![Said::LockWaits(waits), Said::Transactions(transactions)];
                parts.push(Part { moments: vec![Moment { time, said }], ..part(Kind::LockWaits, time) });
                continue;
            }
            TableKind::TableLockWaits => {
                let (locks, threads) = locks::table_lock_waits(&rows);
                let said = vec![Said::MetadataLocks(locks), Said::SomeThreads(threads)];
                parts.push(Part { moments: vec![Moment { time, said }], ..part(Kind::MetadataLocks, time) });
                continue;
            }
            TableKind::MetadataLocks => {
                (Kind::MetadataLocks, Said::MetadataLocks(perf_schema_metadata_locks::listed(&rows)))
            }
            TableKind::Replica => {
                let mut sample = ServerSample::default();
                (replica_status::SOURCE.parse)(&rows, Answer::default(), &mut sample);
                (
                    Kind::ReplicaStatus,
                    Said::Replication(sample.replication.value().cloned().unwrap_or_default()),
                )
            }
            TableKind::Named => {
                let values = named::of_rows(&rows);
                version = named::version(&values);
                match named::kind(&values) {
                    named::NamedKind::Status => (Kind::GlobalStatus, Said::Status(values)),
                    named::NamedKind::Variables => (Kind::GlobalVariables, Said::Variables(values)),
                }
            }
            TableKind::Status => match latches::sentence(&rows) {
                Some(sentence) => {
                    parts.push(Part { says: vec![sentence], ..part(Kind::Latches, time) });
                    continue;
                }
                None => continue,
            },
        };
        let moment = Moment { time, said: vec![said] };
        match parts.last_mut().filter(|part| part.kind == kind) {
            Some(part) => part.moments.push(moment),
            None => parts.push(Part { version, moments: vec![moment], ..part(kind, time) }),
        }
    }
    for part in &mut parts {
        let sessions = part.moments.iter().rev().find_map(|moment| match moment.said.first() {
            Some(Said::Threads(threads)) => Some(threads.len() as u64),
            _ => None,
        });
        let looks = part.moments.len() as u64;
        if sessions.is_none() && looks > 1 {
            part.says.push(counted(looks, "reading"));
        }
        part.says.extend(sessions.map(|sessions| match looks {
            1 => counted(sessions, "session"),
            _ => format!("{}, {} in the last", counted(looks, "look"), counted(sessions, "session")),
        }));
    }
    parts
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
            Moment { time: None, said: vec![said] }
        })
        .collect();
    match moments.is_empty() {
        true => Vec::new(),
        false => {
            let says =
                (moments.len() > 1).then(|| counted(moments.len() as u64, "reading")).into_iter().collect();
            vec![Part { kind, version, moments, says, ..part }]
        }
    }
}
