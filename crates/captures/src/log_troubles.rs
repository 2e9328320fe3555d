//! The catalogue of troubles that an error log names: what a line of each has (its sign), and what it means.
//!
//! `catalogue` lists them in order. Each subject has a file: its signs, what they mean, and how a line is recognised where its text alone
//! does not decide. `over` says what takes a trouble back.

mod catalogue;
mod cluster;
mod files;
mod host;
mod over;
mod replication;
mod server;

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use spindoctor_model::TroubleKind;

use crate::container_stops::Stop;
use crate::kernel_log::{
    DISKS, HUNG_IN_KERNEL, HUNG_OF_SERVER, disk_entry, is_hung, is_hung_server, is_kill_for_memory,
    is_killed_for_memory, is_lockup,
};
use crate::shell_notices::Ended;
use crate::systemd_log::{Unit, unit};
use crate::{client_errors, container_stops, denials, own_checks, shell_notices, start_errors};
use catalogue::{REASONS_OF_START, SEVERAL_LINES, TROUBLES};
use cluster::{NODE_DIFFERS, OF_SILENT_PEER, TRANSFER_FAILED, transfer_failed};
use files::{
    BACKUP_FILE, OF_SYSTEM_TABLES, PAGE_CORRUPTION, is_of_backup_file, is_of_system_tables,
    is_page_corruption,
};
use host::{
    BY_SUPERVISOR, CONTAINER_LATE, CONTAINER_STOPPED, CONTAINER_UNHEALTHY, EVENTS_OF_PROBES, LOCKUP,
    OF_KILLS, OTHER_KILLED, POD_EVICTED, PROBE_FAILED, SHELL_CRASHED, SHELL_KILLED, STARTUP_FAILED,
    SUPERVISOR_GAVE_UP, UNIT_BY_SIGNAL, UNIT_CRASHED, UNIT_KILLED, UNIT_LATE, UNIT_NO_NAMESPACE,
    UNIT_NO_USER, UNIT_NOT_RUN, UNIT_NOT_STARTED, UNIT_RESTARTED, UNIT_STOP_ENDED, UNIT_STOPPED_LATE,
    UNIT_TIMED_OUT, is_given_up, is_killed_by_supervisor_s_word, is_liveness_failed, is_startup_failed,
};
use replication::{
    APPLIER_STOPPED, PACKET_LOST, PACKET_REFUSED, RECEIVER_FAILED, RECEIVER_FOLLOWS, RECEIVER_STOPPED,
    applier_stopped, is_of_packet, is_of_receiver, receiver_failed,
};
use server::{
    ASSERTION, BACKUP_CRASHED, DID_NOT_RUN, DISK_IS_FULL, ENDED_BY_PAGE, FATAL_WAIT, GAVE_UP, OF_LIBRARY,
    OF_LOGIN_PLUGIN, OF_PLUGIN, is_failed_check, is_of_login_plugin, is_of_plugin, wrote_nothing,
};

pub(crate) use cluster::{OUTSIDE, is_of_node, is_silent_peer, leaves};
pub(crate) use files::{
    NO_UNDO_LOG, REDO_UNUSABLE, SYSTEM_TABLES, TABLE_CRASHED, TABLE_FILE_MISSING, is_end_by_damage,
};
pub(crate) use host::{
    ENDED_BY_KILL, ENDED_LATE, STOP_ENDED, STOPPED_LATE, TIMED_OUT, is_event_of_probe, is_evicted,
    is_of_panel, is_of_script, is_of_supervisord, is_probe_failed,
};
pub(crate) use over::{outlasts_a_start, takes_back};
pub(crate) use server::{
    DEADLOCKS, FULL, NO_MEMORY, NO_ROOM_IN_TABLE, NO_THREAD, TOO_MANY, WAITS_FOR_ROOM, begins_start,
    duration_ms, is_refused_operation, log_not_written, still_waits,
};

/// How many entries the catalogues have together: those of logs, of the kernel's disks, of what was refused to a server, of servers that do
/// not start, of clients.
pub(crate) const ENTRIES: usize = CLIENTS + client_errors::COUNT;

/// The first entry of what was refused to a server, and of servers that do not start.
const DENIALS: usize = TROUBLES.len() + DISKS.len();
const STARTS: usize = DENIALS + denials::COUNT;

/// The first entry of clients.
const CLIENTS: usize = STARTS + start_errors::COUNT;

/// True for the entry of a check of the server's own that failed, and of a crash that systemd or a shell saw: the server's own line of its
/// signal says the same, where it is given.
pub(crate) fn is_sign_of_crash(entry: usize) -> bool {
    const SIGNS: [&str; 6] = [ASSERTION, OF_LIBRARY, UNIT_CRASHED, SHELL_CRASHED, GAVE_UP, ENDED_BY_PAGE];
    TROUBLES.get(entry).is_some_and(|(sign, ..)| SIGNS.contains(sign))
}

/// The entry of a backup's program that crashed, for that of a server; any other entry as it is.
pub(crate) fn as_of_backup(entry: usize) -> usize {
    let is_crash = |(.., kind): &(&str, &str, Option<TroubleKind>)| *kind == Some(TroubleKind::Crashed);
    let of_backup = || TROUBLES.iter().position(|(sign, ..)| *sign == BACKUP_CRASHED);
    match is_sign_of_crash(entry) || TROUBLES.get(entry).is_some_and(is_crash) {
        true => of_backup().unwrap_or(entry),
        false => entry,
    }
}

/// True for an entry of a server that was killed: the kernel, systemd and Kubernetes each say a kill in words of their own, once.
pub(crate) fn is_of_kills(entry: usize) -> bool {
    TROUBLES.get(entry).is_some_and(|(sign, ..)| OF_KILLS.contains(sign))
}

/// True for an entry of which lines that differ, and mean the same, are of one failure: a start prints each of its lines once.
pub(crate) fn is_of_several_lines(entry: usize) -> bool {
    (STARTS..CLIENTS).contains(&entry)
        || TROUBLES.get(entry).is_some_and(|(_, meaning, _)| SEVERAL_LINES.contains(meaning))
}

/// Why a start ended, where an entry says it by itself, and the place of that among such reasons: the smallest says most.
pub(crate) fn reason_of_start(entry: usize) -> Option<(usize, &'static str)> {
    let meaning = TROUBLES.get(entry).map(|(_, meaning, _)| *meaning)?;
    REASONS_OF_START.iter().position(|reason| *reason == meaning).map(|place| (place, meaning))
}

/// True for an entry that a client prints, and no server.
pub(crate) fn is_of_clients(entry: usize) -> bool {
    entry >= CLIENTS
}

/// What each entry means, and the trouble that causes rest on, in order.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, Option<TroubleKind>)> {
    let of_log = TROUBLES.into_iter().map(|(_, meaning, kind)| (meaning, kind));
    let of_disks = DISKS.into_iter().map(|(_, meaning, kind)| (meaning, Some(kind)));
    let of_system = of_log.chain(of_disks).chain(denials::meanings());
    of_system.chain(start_errors::meanings()).chain(client_errors::meanings())
}

/// Which entry a line is, of which `lower` is the beginning in lower case.
pub(crate) fn entry(line: &str, lower: &str) -> Option<usize> {
    let of_log = entry_of_log(line, lower);
    let of_disks = || disk_entry(line).map(|at| TROUBLES.len() + at);
    let of_denials = || denials::entry(line).map(|at| DENIALS + at);
    let of_start = || start_errors::entry(line).map(|at| STARTS + at);
    let of_client = || client_errors::entry(line).map(|at| CLIENTS + at);
    of_log.or_else(of_disks).or_else(of_denials).or_else(of_start).or_else(of_client)
}

/// True for the entry of a node that has lost the majority of its cluster.
pub(crate) fn is_of_majority(entry: usize) -> bool {
    TROUBLES.get(entry).is_some_and(|(.., kind)| *kind == Some(TroubleKind::NoMajority))
}

/// Whether a line has the sign of an entry of logs: the sign, the line, its beginning in lower case.
type IsEntry = fn(&str, &str, &str) -> bool;

/// The signs of logs, sorted by how a line is looked through for them: a log has half a million lines, and there are hundreds of signs.
struct Signs {
    /// Those that are all that a line must have, found in one pass.
    texts: AhoCorasick,
    /// The entry of each of these, and its sign.
    entries: Vec<(usize, &'static str)>,
    /// Entries that a sign alone does not decide, in order.
    own: Vec<(usize, &'static str, IsEntry)>,
}

static SIGNS: LazyLock<Signs> = LazyLock::new(|| {
    let (mut texts, mut entries, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (sign, ..)) in TROUBLES.iter().enumerate() {
        match own_test(sign) {
            Some(is_entry) => own.push((at, *sign, is_entry)),
            None => {
                texts.push(*sign);
                entries.push((at, *sign));
            }
        }
    }
    let texts = AhoCorasick::new(texts).expect("some hundred short texts are no more than it takes");
    Signs { texts, entries, own }
});

/// The first entry of logs whose sign a line has.
fn entry_of_log(line: &str, lower: &str) -> Option<usize> {
    let signs = &*SIGNS;
    let by_text = signs
        .texts
        .find_overlapping_iter(lower)
        .map(|found| (signs.entries[found.pattern().as_usize()], found.end()))
        .filter(|((_, sign), end)| is_whole(sign, &lower[*end..]))
        .map(|((entry, _), _)| entry)
        .min();
    let mut before = signs.own.iter().take_while(|(at, ..)| by_text.is_none_or(|by_text| *at < by_text));
    let by_own = before.find(|(_, sign, is_entry)| is_entry(sign, line, lower));
    by_own.map(|(at, ..)| *at).or(by_text)
}

/// How a line is known where an entry's sign alone does not decide.
fn own_test(sign: &str) -> Option<IsEntry> {
    let is_entry: IsEntry = match sign {
        DID_NOT_RUN => |_, _, lower| wrote_nothing(lower),
        HUNG_OF_SERVER => |_, line, _| is_hung_server(line),
        HUNG_IN_KERNEL => |_, line, _| is_hung(line),
        LOCKUP => |_, line, _| is_lockup(line),
        OTHER_KILLED => |_, line, _| is_killed_for_memory(line) && !is_kill_for_memory(line),
        APPLIER_STOPPED => |_, _, lower| applier_stopped(lower),
        RECEIVER_FAILED => |_, _, lower| receiver_failed(lower),
        RECEIVER_FOLLOWS => |_, _, lower| is_of_receiver(lower) && lower.contains("relay log write failure"),
        PACKET_REFUSED => |_, _, lower| is_of_packet(lower) && lower.contains("server_errno=1236"),
        PACKET_LOST => |_, _, lower| is_of_packet(lower),
        BACKUP_FILE => |_, _, lower| is_of_backup_file(lower),
        _ if EVENTS_OF_PROBES.contains(&sign) => {
            |sign, line, lower| has_sign(lower, sign) && is_event_of_probe(line)
        }
        RECEIVER_STOPPED => |_, _, lower| {
            is_of_receiver(lower)
                && (lower.contains("got fatal error 1236")
                    || lower.contains("[error]") && lower.contains("error_code:"))
                // To MySQL 5.0 it does not name itself.
                || lower.contains("[error] got fatal error 1236")
        },
        _ if OF_KILLS.contains(&sign) => |sign, _, lower| has_sign(lower, sign) && is_kill_for_memory(lower),
        PROBE_FAILED => |_, line, _| is_liveness_failed(line),
        STARTUP_FAILED => |_, line, _| is_startup_failed(line),
        POD_EVICTED => |_, line, _| is_evicted(line),
        SUPERVISOR_GAVE_UP => |_, _, lower| is_given_up(lower),
        UNIT_CRASHED => |_, line, _| unit(line) == Some(Unit::Crashed),
        UNIT_KILLED => |_, line, _| unit(line) == Some(Unit::Killed),
        UNIT_BY_SIGNAL => |_, line, _| unit(line) == Some(Unit::BySignal),
        UNIT_LATE => |_, line, _| unit(line) == Some(Unit::Late),
        UNIT_STOPPED_LATE => |_, line, _| unit(line) == Some(Unit::StoppedLate),
        UNIT_STOP_ENDED => |_, line, _| unit(line) == Some(Unit::StopEnded),
        UNIT_TIMED_OUT => |_, line, _| unit(line) == Some(Unit::TimedOut),
        CONTAINER_LATE => |_, line, _| container_stops::stop(line) == Some(Stop::Late),
        CONTAINER_UNHEALTHY => |_, line, _| container_stops::stop(line) == Some(Stop::Unhealthy),
        CONTAINER_STOPPED => |_, line, _| container_stops::is_pod_stopped(line),
        UNIT_RESTARTED => |_, line, _| unit(line) == Some(Unit::Restarted),
        UNIT_NOT_STARTED => |_, line, _| unit(line) == Some(Unit::NotStarted),
        SHELL_KILLED => |_, line, _| shell_notices::of_server(line) == Some(Ended::Killed),
        SHELL_CRASHED => |_, line, _| shell_notices::of_server(line) == Some(Ended::Crashed),
        UNIT_NOT_RUN => |_, line, _| unit(line) == Some(Unit::NotRun),
        UNIT_NO_NAMESPACE => |_, line, _| unit(line) == Some(Unit::NoNamespace),
        UNIT_NO_USER => |_, line, _| unit(line) == Some(Unit::NoUser),
        NODE_DIFFERS => |_, _, lower| is_of_node(lower),
        TRANSFER_FAILED => |_, _, lower| transfer_failed(lower),
        OF_SYSTEM_TABLES => |_, _, lower| is_of_system_tables(lower),
        OF_LIBRARY => |_, line, _| own_checks::of_library(line).is_some(),
        FATAL_WAIT => |_, _, lower| goes_on(lower, "innodb_fatal_semaphore_wait_threshold", "was exceeded"),
        OF_PLUGIN => |_, _, lower| is_of_plugin(lower),
        OF_LOGIN_PLUGIN => |_, _, lower| is_of_login_plugin(lower),
        PAGE_CORRUPTION => |_, _, lower| is_page_corruption(lower),
        OF_SILENT_PEER => |_, _, lower| is_silent_peer(lower),
        BY_SUPERVISOR => |_, _, lower| is_killed_by_supervisor_s_word(lower),
        BACKUP_CRASHED => |_, _, _| false,
        "has the wrong structure" => {
            |sign, _, lower| has_sign(lower, sign) && lower.contains("native table ")
        }
        ASSERTION => |_, _, lower| is_failed_check(lower),
        // What a server writes beside a log that it cannot read is advice.
        "out of memory" => {
            |sign, _, lower| has_sign(lower, sign) && !lower.contains("for example, out of memory")
        }
        // Not of a relay or binary log, of which a replica says that it may be corrupted, nor of an index that a client is refused.
        "is corrupted" => |sign, line, lower| {
            has_sign(lower, sign)
                && !lower.contains(" log is corrupted")
                && !client_errors::is_of_client(line)
        },
        DISK_IS_FULL => |_, _, lower| has_sign(lower, DISK_IS_FULL) || still_waits(lower),
        _ => return None,
    };
    Some(is_entry)
}

/// True where a line has a sign. A number ends where its digits do.
fn has_sign(line: &str, sign: &str) -> bool {
    line.match_indices(sign).any(|(at, _)| is_whole(sign, &line[at + sign.len()..]))
}

/// True for a sign with this behind it, unless both are of one number.
fn is_whole(sign: &str, behind: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    !(sign.ends_with(is_digit) && behind.starts_with(is_digit))
}

/// True for a line that has one text, and behind it another.
fn goes_on(lower: &str, begin: &str, then: &str) -> bool {
    lower.split_once(begin).is_some_and(|(_, rest)| rest.contains(then))
}

#[cfg(test)]
mod tests;
