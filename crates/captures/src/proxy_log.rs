//! What programs between clients and servers write into logs of their own: ProxySQL, MaxScale, MySQL Router, and orchestrator, which promotes
//! replicas. They are no server's logs, and say of a server what a client sees of it.
//!
//! ```text
//! 2024-03-04 10:11:12 MySQL_Monitor.cpp:3158:monitor_ping(): [ERROR] Server 10.1.0.4:3306 missed 3 heartbeats, shunning it and killing all
//!   the connections. Disabling other checks until the node comes back online.
//! 2024-03-04 10:11:12 mysql_connection.cpp:1203:handler(): [ERROR] Failed to mysql_real_connect() on 20:10.1.0.4:3306 , FD (Conn:0 ,
//!   MyDS:43) , 1040: Too many connections.
//! 2024-03-04 10:11:12 [INFO] ProxySQL version 2.6.3-percona-1.1
//! 2024-03-04 10:11:12   notice : Server changed state: db1[10.1.0.4:3306]: master_down. [Master, Running] -> [Down]
//! 2024-03-04 10:11:12 routing WARNING [7f1a2bffd640] [routing:rw] No available servers found for PRIMARY
//! 2024-03-04 10:11:12 INFO topology_recovery: detected DeadMaster failure on db1:3306
//! ```

mod signs;

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use spindoctor_model::{LoggedTrouble, number};

use crate::{client_errors, clock, log_lines, secrets};
use signs::{NULL_LAG, OVER_LAG, Program, SIGNS};

/// Sentences that are shown, the most frequent first, and characters of a server's address.
const MOST: usize = 6;
const LONGEST: usize = 64;
/// Servers and hostgroups that are counted.
const MOST_COUNTED: usize = 500;
/// Characters of a line that are shown.
const SHOWN: usize = 300;

/// What such a log says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ProxyLog {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// What causes rest on: the errors that the servers answered with.
    pub(crate) troubles: Vec<LoggedTrouble>,
}

/// What a line says: its sign, by its place in the list, of whom, and the error of a client that stands behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Said<'l> {
    sign: Option<usize>,
    name: &'l str,
    error: Option<usize>,
}

/// Who wrote a line; None for a line of others.
fn program(line: &str) -> Option<Program> {
    if !line.starts_with("20") || clock::time(line).is_none() {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().skip(2).take(5).collect();
    match words.as_slice() {
        ["[INFO]", rest @ ..] => rest.contains(&"ProxySQL").then_some(Program::ProxySql),
        [place, ..] if place.contains(".cpp:") && place.ends_with(':') => Some(Program::ProxySql),
        _ if is_of_maxscale(line) => Some(Program::MaxScale),
        [module, level, thread, ..] if is_of_router(line, module, level, thread) => Some(Program::Router),
        [level, ..] if is_level(level) && is_of_orchestrator(line) => Some(Program::Orchestrator),
        _ => None,
    }
}

/// The levels of Router and of orchestrator.
fn is_level(word: &str) -> bool {
    ["DEBUG", "INFO", "NOTE", "NOTICE", "SYSTEM", "WARNING", "ERROR", "CRITICAL", "FATAL"].contains(&word)
}

/// MaxScale's level stands in a column of its own behind the time: `2024-03-04 10:11:12   error  : `.
fn is_of_maxscale(line: &str) -> bool {
    const LEVELS: [&str; 6] =
        ["   notice : ", "   error  : ", "   warning: ", "   info   : ", "   alert  : ", "   debug  : "];
    /// Bytes of a time with its milliseconds.
    const TIME: usize = 23;
    let at = line.find("   ").filter(|at| *at <= TIME);
    at.is_some_and(|at| LEVELS.iter().any(|level| line[at..].starts_with(level)))
}

/// `metadata_cache WARNING [7f1a2c7fe640]`
fn is_of_router(line: &str, module: &str, level: &str, thread: &str) -> bool {
    const MODULES: [&str; 3] = ["routing", "metadata_cache", "destination_status"];
    /// What the module `io` says at the start: other programs have modules of that name, too.
    const IO_STARTS: &str = " io-threads, using backend ";
    let number = thread.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_thread = number
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_module = MODULES.contains(&module) || module == "io" && line.contains(IO_STARTS);
    is_module && is_level(level) && is_thread
}

fn is_of_orchestrator(line: &str) -> bool {
    /// Programs of other kinds have an orchestrator, too.
    const SIGNS: [&str; 5] = [
        "topology_recovery: ",
        "starting orchestrator, version",
        "orchestrator/raft: ",
        " DeadMaster",
        "executeCheckAndRecoverFunction",
    ];
    SIGNS.iter().any(|sign| line.contains(sign))
}

/// True for a line that such a program writes and no server.
pub(crate) fn is_line(line: &str) -> bool {
    program(line).is_some()
}

/// True for a line that may stand between those.
pub(crate) fn goes_on(line: &str) -> bool {
    let has_time = || line.starts_with("20") && clock::time(line).is_some();
    let has_level = || line.split_whitespace().nth(2).is_some_and(is_level) && !log_lines::is_of_log(line);
    line.is_empty()
        || is_line(line)
        || has_time() && (line.contains(" [INFO] ") || has_level())
        || ["HID: ", "Standard ProxySQL "].iter().any(|begin| line.starts_with(begin))
}

/// What the log says.
pub(crate) fn read(text: &str) -> ProxyLog {
    let mut counts: BTreeMap<Said<'_>, u64> = BTreeMap::new();
    let mut of_log: Option<Program> = None;
    let mut troubles: Vec<(LoggedTrouble, Option<DateTime>)> = Vec::new();
    let mut end: Option<DateTime> = None;
    for line in text.lines() {
        let Some(program) = program(line) else { continue };
        let of_log = *of_log.get_or_insert(program);
        let time = clock::time(line);
        end = time.or(end);
        let error = client_errors::entry(line);
        if let Some(kind) = error.and_then(client_errors::kind) {
            let place = troubles.iter().position(|(trouble, _)| trouble.kind == kind).unwrap_or_else(|| {
                let new =
                    LoggedTrouble { kind, source: of_log.source().to_owned(), ..LoggedTrouble::default() };
                troubles.push((new, None));
                troubles.len() - 1
            });
            let (trouble, last) = &mut troubles[place];
            trouble.times += 1;
            trouble.line = secrets::without_secrets(line).chars().take(SHOWN).collect();
            *last = time;
        }
        let sign = signs::find(program, line);
        if sign.is_none() && error.is_none() {
            continue;
        }
        let (sign, name) = sign.map_or((None, ""), |(at, name)| (Some(at), name));
        let said = Said { sign, name, error };
        if counts.len() < MOST_COUNTED || counts.contains_key(&said) {
            *counts.entry(said).or_default() += 1;
        }
    }
    let mut says: Vec<String> = of_log.into_iter().map(Program::sentence).collect();
    says.extend(sentences(counts));
    for (trouble, last) in &mut troubles {
        trouble.before_end_s = last.zip(end).map(|(last, end)| clock::seconds(last, end).max(0.0));
    }
    ProxyLog { says, troubles: troubles.into_iter().map(|(trouble, _)| trouble).collect() }
}

/// What was said most often, in sentences.
fn sentences(mut counts: BTreeMap<Said<'_>, u64>) -> Vec<String> {
    // A replica that does not replicate is too far behind by ProxySQL's own rule.
    let stopped: Vec<&str> =
        counts.keys().filter(|said| is_sign(said, NULL_LAG)).map(|said| said.name).collect();
    counts.retain(|said, _| !(is_sign(said, OVER_LAG) && stopped.contains(&said.name)));
    let mut counts: Vec<(Said<'_>, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(said, count)| (std::cmp::Reverse(*count), said.sign));
    counts.iter().take(MOST).map(|(said, count)| sentence(said, *count)).collect()
}

fn is_sign(said: &Said<'_>, begin: &str) -> bool {
    said.sign.is_some_and(|at| SIGNS[at].begin == begin)
}

fn sentence(said: &Said<'_>, count: u64) -> String {
    let times = number::counted(count, "time", "times");
    let meaning = said.error.map(client_errors::meaning);
    let Some(sign) = said.sign.map(|at| &SIGNS[at]) else {
        return format!("{} ({times})", meaning.unwrap_or_default());
    };
    let because = meaning.map_or_else(String::new, |meaning| format!("; its error says that {meaning}"));
    format!("{}{}{} ({times}){because}", sign.before, shown(said.name), sign.behind)
}

/// A server as it is shown: `20:10.1.0.4:3306` has the number of its hostgroup in front, `db1[10.1.0.4:3306]` its address behind its name.
fn shown(name: &str) -> String {
    let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
    if let Some((name, _)) = name.split_once('[').filter(|(name, _)| !name.is_empty()) {
        return short(name);
    }
    match name.split(':').collect::<Vec<_>>()[..] {
        [group, host, port] if !host.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{} (hostgroup {})", short(&format!("{host}:{port}")), short(group))
        }
        _ => short(name),
    }
}

#[cfg(test)]
mod tests;
