//! A stretch to its documents: one reader for each look, and what nobody knows.

use jiff::civil::DateTime;
use spindoctor_collect::mysql::Rows;
use spindoctor_model::{LoggedTrouble, ServerVersion, TroubleKind};

use crate::part::{Kind, Moment, Part, Said};
use crate::rows::{MOST_ROWS, Tables};
use crate::stretch::{Look, Stretch, is_title};
use crate::tables::{name_sources, table_parts};
use crate::{
    advisors, clock, deadlock_rows, dump_slow, error_log, events, heartbeat, instruments, intervals,
    kernel_waits, log_lines, logged_waits, named, other_programs, plan, plan_json, proxy_log, sampled,
    secrets, server_status, server_version, slow_log, stacks, statement_report, status, system, topology,
    tuner,
};

/// Characters of what was not recognised that are shown.
const SHOWN: usize = 60;
/// Lines of a table of one column and one row, with what stands around it.
const SHORT: usize = 20;

/// The documents of a stretch of a file. What stands below a table counts its rows. `is_alone` where nothing else is known in the file.
pub(crate) fn read(name: &str, stretch: &Stretch, below: Option<&Stretch>, is_alone: bool) -> Vec<Part> {
    let source = Source { name, stretch };
    let text = stretch.text.as_str();
    match stretch.look {
        Look::WholeStatus | Look::Status => source.or_unknown(source.status()),
        Look::Table => source.tables(below),
        Look::Pairs => named_part(source.part(Kind::GlobalStatus), intervals::of_pairs(text)),
        Look::Options if named::is_of_other_program(text) => source.unknown(),
        Look::Options => vec![source.options()],
        Look::Log if !log_lines::is_of_a_server(text) => source.unknown(),
        Look::Log => vec![source.error_log()],
        Look::SlowLog => {
            source.or_unknown(slow_log::read(text).map(|slow_log::SlowLog { says, version }| Part {
                version,
                says,
                ..source.part(Kind::SlowLog)
            }))
        }
        Look::Report => source
            .or_unknown(statement_report::read(text).map(|says| source.says(Kind::StatementReport, says))),
        Look::Plan => vec![source.says(Kind::Plan, plan::read(text))],
        Look::JsonPlan => vec![source.says(Kind::Plan, plan_json::read(text))],
        Look::DumpSlow => {
            source.or_unknown(dump_slow::read(text).map(|says| source.says(Kind::DumpSlow, says)))
        }
        Look::Heartbeat => source.or_unknown(heartbeat::read(text).map(|lag| source.heartbeat(lag))),
        Look::Topology => {
            source.or_unknown(topology::read(text).map(|topology::Topology { says, channels }| {
                let said = (!channels.is_empty()).then_some(Said::Replication(channels));
                source.at_once(Kind::ReplicaStatus, says, said)
            }))
        }
        Look::ServerStatus => vec![source.server_status()],
        Look::OtherProgram if text.lines().any(proxy_log::is_line) => {
            let proxy_log::ProxyLog { says, troubles } = proxy_log::read(text);
            let said = (!troubles.is_empty()).then_some(Said::Troubles(troubles));
            vec![source.at_once(Kind::OtherProgram, says, said)]
        }
        Look::OtherProgram => vec![source.says(Kind::OtherProgram, vec![other_programs::read(text)])],
        Look::Tuner => {
            let says = advisors::read(text).unwrap_or_else(|| tuner::read(text));
            vec![source.says(Kind::Tuner, says)]
        }
        Look::Deadlocks => {
            source.or_unknown(deadlock_rows::read(text).map(|deadlock_rows::Deadlocks { says, trouble }| {
                source.at_once(Kind::Deadlocks, vec![says], Some(Said::Troubles(vec![trouble])))
            }))
        }
        Look::System => {
            let system::SystemText { says, troubles } = system::read(text);
            let said = (!troubles.is_empty()).then_some(Said::Troubles(troubles));
            vec![source.at_once(Kind::System, says, said)]
        }
        Look::Other => match stacks::read(text) {
            Some(stacks) => vec![source.stacks(stacks)],
            None if !is_alone && text.lines().all(is_aside) => Vec::new(),
            None => source.unknown(),
        },
    }
}

/// True for a line that stands around documents and is none.
fn is_aside(line: &str) -> bool {
    line.is_empty()
        || line.starts_with(['#', '=', ';'])
        || line.contains("mysql> ")
        || line.ends_with(" sec)")
        || ["Type: InnoDB", "Name:", "Status:"].contains(&line.trim())
        || line.contains(". row ****")
        || server_version::is_of_selected(line)
}

/// A stretch, and the file that it is of.
#[derive(Clone, Copy)]
struct Source<'a> {
    name: &'a str,
    stretch: &'a Stretch,
}

impl Source<'_> {
    /// The stretch as one document, of which nothing is read yet.
    fn part(&self, kind: Kind) -> Part {
        Part {
            name: self.name.to_owned(),
            kind,
            first_line: self.stretch.first,
            lines: self.stretch.lines,
            time: None,
            version: None,
            says: Vec::new(),
            moments: Vec::new(),
            begins: String::new(),
        }
    }

    /// A document of sentences alone.
    fn says(&self, kind: Kind, says: Vec<String>) -> Part {
        Part { says, ..self.part(kind) }
    }

    /// A document of one moment; of none where nothing is known of it but sentences.
    fn at_once(&self, kind: Kind, says: Vec<String>, said: Option<Said>) -> Part {
        let moments = said.map(moment).into_iter().collect();
        Part { says, moments, ..self.part(kind) }
    }

    /// The document that a reader made of it; where the reader made none, it is not recognised.
    fn or_unknown(&self, read: Option<Part>) -> Vec<Part> {
        read.map_or_else(|| self.unknown(), |part| vec![part])
    }

    fn unknown(&self) -> Vec<Part> {
        let lines: Vec<&str> = self.stretch.text.lines().take(SHORT).collect();
        if let Some(total) = instruments::total(&lines) {
            return vec![self.says(Kind::Summary, vec![total])];
        }
        unknown(self.part(Kind::Unknown), &self.stretch.text)
    }

    fn status(&self) -> Option<Part> {
        let text = &self.stretch.text;
        let time = text.lines().find(|line| is_title(line)).and_then(clock::time);
        let moment = status_moment(text, time)?;
        let open = moment.said.iter().find_map(|said| match said {
            Said::Transactions(open) => Some(open),
            _ => None,
        });
        let says = match moment.said.first() {
            Some(Said::Innodb(status)) => events::sentences(status)
                .into_iter()
                .chain(open.and_then(|open| events::rollback(open)))
                .chain(events::old_transaction(status))
                .chain(events::long_history(status))
                .collect(),
            _ => Vec::new(),
        };
        Some(Part { time, says, moments: vec![moment], ..self.part(Kind::InnodbStatus) })
    }

    fn tables(&self, below: Option<&Stretch>) -> Vec<Part> {
        let mut tables = Tables::default();
        let mut all: Vec<(Option<DateTime>, Rows)> = Vec::new();
        let mut time = None;
        for line in self.stretch.text.lines() {
            if let Some(next) = clock::time(line).filter(|_| line.starts_with("TS ")) {
                all.extend(tables.finish().map(|rows| (time, rows)));
                time = Some(next);
                continue;
            }
            all.extend(tables.take(line).map(|rows| (time, rows)));
        }
        all.extend(tables.finish().map(|rows| (time, rows)));
        let rows = all.last().map(|(_, rows)| rows.len());
        let mut parts = table_parts(self.name, self.stretch.first, self.stretch.lines, all);
        if parts.is_empty() && !self.stretch.text.contains("InnoDB") {
            parts = self.unknown();
        }
        if let (Some(part), Some(rows), Some(below)) = (parts.last_mut(), rows, below) {
            part.says.extend(missing_rows(rows, &below.text));
        }
        parts
    }

    fn options(&self) -> Part {
        let options = named::options(&self.stretch.text);
        let mut says = Vec::new();
        if !options.includes.is_empty() {
            says.push(format!("it includes what was not given: {}", options.includes.join(", ")));
        }
        self.at_once(Kind::OptionFile, says, Some(Said::Options(options.values)))
    }

    fn error_log(&self) -> Part {
        let log = error_log::read(&self.stretch.text);
        let mut says = log.says;
        says.extend(logged_waits::sentence(&self.stretch.text));
        let printed: String = log.waits.into_iter().chain(log.deadlock).collect();
        let waits = (!printed.is_empty()).then(|| status_moment(&printed, log.time)).flatten();
        if let Some(Said::Innodb(status)) = waits.as_ref().and_then(|moment| moment.said.first()) {
            says.extend(events::sentences(status));
        }
        let troubles = (!log.troubles.is_empty()).then_some(Said::Troubles(log.troubles));
        let mut channels = log.channels;
        name_sources(&mut channels);
        let replication = (!channels.is_empty()).then_some(Said::Replication(channels));
        let moments = waits.into_iter().chain(troubles.map(moment)).chain(replication.map(moment)).collect();
        Part { time: log.time, version: log.version, says, moments, ..self.part(Kind::ErrorLog) }
    }

    fn heartbeat(&self, lag: heartbeat::Heartbeat) -> Part {
        let moments = (0_u32..).zip(lag.channels).map(|(at, channel)| Moment {
            after_s: Some(f64::from(at)),
            said: vec![Said::Replication(vec![channel])],
            ..Moment::default()
        });
        Part { says: vec![lag.says], moments: moments.collect(), ..self.part(Kind::ReplicaLag) }
    }

    fn server_status(&self) -> Part {
        let server_status::ServerStatus { says, locks, threads } = server_status::read(&self.stretch.text);
        let moment = (!locks.is_empty()).then(|| Moment {
            said: vec![Said::MetadataLocks(locks), Said::SomeThreads(threads)],
            ..Moment::default()
        });
        Part { says, moments: moment.into_iter().collect(), ..self.part(Kind::ServerStatus) }
    }

    fn stacks(&self, stacks: stacks::CapturedStacks) -> Part {
        let written = match stacks.form {
            stacks::COUNTED_STACKS => {
                "counted stacks: what was counted, events or time, is no threads, so they stand for parts of 100".to_owned()
            }
            form => format!("written by {form}: {}", several(stacks.threads as u64, "thread")),
        };
        let mut says = vec![written];
        says.extend(sampled::sentence(&stacks.profile));
        says.extend(sampled::memory_of_kernel(&stacks.profile));
        says.extend(sampled::scan(&stacks.profile));
        let notes = stacks.profile.notes.iter();
        says.extend(notes.filter(|note| note.contains(stacks::WITHOUT_INNERMOST)).cloned());
        if stacks.form == "gdb backtrace"
            && stacks.threads > 1
            && stacks.profile.stacks.iter().all(|stack| stack.frames.len() <= 1)
        {
            says.push(
                "it has the innermost function of each thread alone: `thread apply all bt` has them all"
                    .into(),
            );
        }
        if let Some(program) = stacks.other_program() {
            says.push(format!("they are of {program}, not of a server: nothing is diagnosed by them"));
            return self.says(Kind::Stacks, says);
        }
        says.extend(sampled::places(&stacks.profile));
        says.extend(sampled::nameless(&stacks.profile));
        says.extend(sampled::deletion(&stacks.profile));
        if stacks.form == "kernel stacks" {
            says.extend(kernel_waits::of_stacks(&stacks.profile));
        }
        let died = error_log::death_in(&self.stretch.text);
        says.extend(died.clone());
        let trouble = died.map(|sentence| {
            Said::Troubles(vec![LoggedTrouble {
                kind: TroubleKind::Crashed,
                times: 1,
                line: sentence,
                detail: error_log::function_of_death(&self.stretch.text).unwrap_or_default(),
                source: "backtrace".into(),
                ..LoggedTrouble::default()
            }])
        });
        let said = trouble.into_iter().chain([Said::Stacks(Box::new(stacks))]).collect();
        Part { says, moments: vec![Moment { said, ..Moment::default() }], ..self.part(Kind::Stacks) }
    }
}

/// A moment of which one thing is known.
fn moment(said: Said) -> Moment {
    Moment { said: vec![said], ..Moment::default() }
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

pub(crate) fn several(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

fn unknown(part: Part, text: &str) -> Vec<Part> {
    let is_foot = |line: &str| line.ends_with(" sec)");
    let mut shown = text.lines().filter(|line| !line.trim().is_empty());
    let Some(first) = shown.clone().find(|line| !is_foot(line)).or_else(|| shown.next()) else {
        return Vec::new();
    };
    let begins = beginning(first.trim());
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    vec![Part { begins, lines, ..part }]
}

/// The beginning of a text that nobody knows, without what may be a secret; of a statement its verb.
fn beginning(line: &str) -> String {
    let shown = secrets::without_secrets(line);
    let verb = line.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_statement = shown.starts_with(secrets::HIDDEN) && !verb.is_empty();
    let shown = if is_statement { format!("{verb} {shown}") } else { shown };
    shown.chars().take(SHOWN).collect()
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
    let waited = readings.last().and_then(named::row_lock_sentence);
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
            let counted = (moments.len() > 1).then(|| several(moments.len() as u64, "reading"));
            let says = counted.into_iter().chain(waited).collect();
            vec![Part { kind, version, moments, says, ..part }]
        }
    }
}
