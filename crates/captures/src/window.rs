//! Documents of one moment of one server to a window: the samples that they make.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Reading, Sample, Unavailable, Window};

use crate::part::{Kind, Part, Said};
use crate::{clock, lock_owners, locks, transactions};

pub use spindoctor_model::window::NOT_GIVEN;

/// Stands for the server's address: nobody connected to it.
pub const WHAT_WAS_GIVEN: &str = "what was given";

/// A reading with its time, where that is known.
type Timed<'p> = (Option<f64>, &'p Said);

/// The window of some documents. What they do not say is unavailable, with [`NOT_GIVEN`] as the reason.
pub fn window<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Window {
    let parts: Vec<&Part> = parts.into_iter().collect();
    let start = parts
        .iter()
        .flat_map(|part| part.moments.iter().map(|moment| moment.time.or(part.time)))
        .flatten()
        .min();
    let readings = readings(&parts, start);
    let mut window = Window { samples: samples(&readings), ..Window::default() };
    let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
    let ids = said.filter_map(|said| if let Said::ThreadIds(ids) = said { Some(ids) } else { None });
    let ids: BTreeMap<u64, u64> =
        ids.flatten().map(|&(internal, connection)| (connection, internal)).collect();
    for sample in &mut window.samples {
        let server = &mut sample.server;
        if let Reading::Available { value: threads, .. } = &mut server.threads {
            for thread in threads.iter_mut().filter(|thread| thread.internal_id.is_none()) {
                thread.internal_id = thread.connection_id.and_then(|id| ids.get(&id).copied());
            }
        }
        lock_owners::join(&parts, &ids, server);
        lock_owners::name_threads(&ids, server);
        if let (Reading::Available { value: waits, .. }, Some(transactions)) =
            (&mut server.row_lock_waits, server.transactions.value())
        {
            locks::with_connections(waits, transactions);
        }
        // The status prints the locks themselves: what is not said there is not known.
        if server.innodb_status.value().is_none()
            && let (Reading::NotAsked, Reading::Available { at_s, took_ms, value }) =
                (&server.row_lock_waits, &server.transactions)
        {
            let waits = transactions::waits_inferred(value);
            if !waits.is_empty() {
                server.row_lock_waits = Reading::Available { at_s: *at_s, took_ms: *took_ms, value: waits };
            }
        }
    }
    window.start = start
        .and_then(|start| start.to_zoned(TimeZone::UTC).ok())
        .map_or(Timestamp::UNIX_EPOCH, |start| start.timestamp());
    let version = |kind: Option<Kind>| {
        parts.iter().filter(|part| kind.is_none_or(|kind| part.kind == kind)).find_map(|part| part.version)
    };
    window.server.version = version(Some(Kind::GlobalVariables)).or_else(|| version(None));
    let hostname = window.variable("hostname").unwrap_or_default().to_owned();
    window.server.hostname = hostname;
    window.server.uptime_s = window.status("Uptime").map(|uptime| uptime as u64);
    window.server.address = WHAT_WAS_GIVEN.to_owned();
    window.server.no_pid = Some(Unavailable::because(NOT_GIVEN));
    let stacks = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
    let stacks = stacks.filter_map(|said| if let Said::Stacks(stacks) = said { Some(stacks) } else { None });
    window.profile = match stacks.max_by_key(|stacks| stacks.threads) {
        Some(stacks) => Reading::Available { at_s: 0.0, took_ms: 0.0, value: stacks.profile.clone() },
        None => Reading::Unavailable(Unavailable::because(NOT_GIVEN)),
    };
    let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
    window.error_log = said
        .filter_map(|said| if let Said::Troubles(troubles) = said { Some(troubles) } else { None })
        .flatten()
        .cloned()
        .collect();
    fail_the_rest(&mut window);
    window
}

/// The place of a reading in a sample.
fn place(said: &Said) -> Option<&'static str> {
    Some(match said {
        Said::Innodb(_) => "innodb_status",
        Said::Threads(_) | Said::SomeThreads(_) => "threads",
        Said::Transactions(_) => "transactions",
        Said::LockWaits(_) => "row_lock_waits",
        Said::MetadataLocks(_) => "metadata_locks",
        Said::Status(_) => "status",
        Said::Variables(_) | Said::Options(_) => "variables",
        Said::PreparedXa(_) => "prepared_xa",
        Said::Replication(_) => "replication",
        Said::ApplierErrors(_) => "applier_errors",
        Said::GroupMembers(_) => "group_members",
        Said::Stacks(_) | Said::Troubles(_) | Said::ThreadIds(_) => return None,
    })
}

/// All that was said, by place, in order, with seconds from the start.
fn readings<'p>(parts: &[&'p Part], start: Option<DateTime>) -> BTreeMap<&'static str, Vec<Timed<'p>>> {
    let mut readings: BTreeMap<&'static str, Vec<Timed<'p>>> = BTreeMap::new();
    // In order of time, where the names give none: innodbstatus1 stands before innodbstatus2.
    let mut first_uptime = None;
    // Sessions and transactions that a list of locks names are few of those that other documents have, and of transactions that stand
    // in a list of sessions less is known. A replica's status has more than the errors of its parts.
    let is_second = |part: &Part, said: &Said| {
        matches!(part.kind, Kind::LockWaits | Kind::MetadataLocks | Kind::ProcessList | Kind::ServerStatus)
            && matches!(said, Said::SomeThreads(_) | Said::Transactions(_))
            || part.kind == Kind::Transactions && matches!(said, Said::SomeThreads(_))
            || part.kind == Kind::Appliers && matches!(said, Said::Replication(_))
    };
    let all = |part: &'p Part| part.moments.iter().flat_map(|moment| &moment.said);
    // What a log says of a replica may be over where a list says how it is.
    let is_of_replica = |said: &Said| matches!(said, Said::Replication(_));
    let has_list = parts.iter().any(|part| part.kind != Kind::ErrorLog && all(part).any(is_of_replica));
    let is_over = |part: &Part, said: &Said| has_list && part.kind == Kind::ErrorLog && is_of_replica(said);
    let first: BTreeSet<&str> = parts
        .iter()
        .flat_map(|part| all(part).filter(|said| !is_second(part, said)).filter_map(place))
        .collect();
    let cut = lock_owners::without_waits(parts);
    for part in parts {
        for moment in &part.moments {
            if cut.is_some_and(|cut| std::ptr::eq(cut, moment)) {
                continue;
            }
            let at_s = moment.time.or(part.time).zip(start).map(|(time, start)| clock::seconds(start, time));
            let at_s = at_s.or(moment.after_s);
            for said in &moment.said {
                let is_left = |place: &&str| is_second(part, said) && first.contains(place);
                let Some(place) = place(said).filter(|place| !is_left(place) && !is_over(part, said)) else {
                    continue;
                };
                // A status without a time has the server's own clock in it.
                let at_s = at_s.or_else(|| match said {
                    Said::Status(values) => {
                        let uptime = values.number("uptime")?;
                        Some(uptime - *first_uptime.get_or_insert(uptime)).filter(|since| *since >= 0.0)
                    }
                    _ => None,
                });
                readings.entry(place).or_default().push((at_s, said));
            }
        }
    }
    for (place, all) in &mut readings {
        let has = |wanted: fn(&Said) -> bool| all.iter().any(|(_, said)| wanted(said));
        match *place {
            // A process list has more than the status's list of transactions, variables more than an option file.
            "threads" if has(|said| matches!(said, Said::Threads(_))) => {
                all.retain(|(_, said)| matches!(said, Said::Threads(_)));
                // Sessions that a query counted are those of a list, without their connections.
                let are_named = |said: &Said| match said {
                    Said::Threads(threads) => {
                        threads.is_empty() || threads.iter().any(|thread| thread.connection_id.is_some())
                    }
                    _ => false,
                };
                if all.iter().any(|(_, said)| are_named(said)) {
                    all.retain(|(_, said)| are_named(said));
                }
                without_excerpts(all);
            }
            "row_lock_waits" => lock_owners::without_the_same_waits(all),
            "variables" => {
                if has(|said| matches!(said, Said::Variables(_))) {
                    all.retain(|(_, said)| matches!(said, Said::Variables(_)));
                }
                all.drain(..all.len() - 1);
            }
            _ => {}
        }
        all.sort_by(|one, other| one.0.unwrap_or(f64::MAX).total_cmp(&other.0.unwrap_or(f64::MAX)));
        // The same text twice, in two files, is one reading.
        all.dedup_by(|one, other| one.1 == other.1 && one.0.is_some() && one.0 == other.0);
    }
    readings
}

/// Takes out lists that name sessions of another one without their users: who selected a few columns of some sessions, beside a whole
/// list. One that has a time of its own is of another moment.
fn without_excerpts(lists: &mut Vec<Timed<'_>>) {
    fn sessions(said: &Said) -> &[ServerThread] {
        match said {
            Said::Threads(threads) => threads,
            _ => &[],
        }
    }
    let is_whole = |said: &Said| sessions(said).iter().any(|thread| !thread.user.is_empty());
    let ids = |said: &Said| -> BTreeSet<u64> {
        sessions(said).iter().filter_map(|thread| thread.connection_id).collect()
    };
    let known: BTreeSet<u64> =
        lists.iter().filter(|(_, said)| is_whole(said)).flat_map(|(_, said)| ids(said)).collect();
    let is_excerpt = |said: &Said| !ids(said).is_empty() && !is_whole(said) && ids(said).is_subset(&known);
    lists.retain(|(at_s, said)| at_s.is_some() || !is_excerpt(said));
}

fn samples(readings: &BTreeMap<&'static str, Vec<Timed<'_>>>) -> Vec<Sample> {
    let Some(most) = readings.values().max_by_key(|all| all.len()) else { return vec![Sample::default()] };
    let mut samples: Vec<Sample> = Vec::new();
    let mut before = -1.0_f64;
    for (at_s, _) in most {
        // Looks without a clock are a second apart, which no rate rests on: counters without a clock are one reading.
        let at_s = if most.len() == 1 { 0.0 } else { at_s.unwrap_or(before + 1.0).max(before) };
        before = at_s;
        samples.push(Sample { at_s, ..Sample::default() });
    }
    let last = samples.len() - 1;
    for all in readings.values() {
        let of = all.len();
        for (index, (at_s, said)) in all.iter().enumerate() {
            let at = match at_s {
                _ if of == samples.len() => index,
                Some(at_s) => {
                    let apart = |sample: &Sample| (sample.at_s - at_s).abs();
                    (0..=last)
                        .min_by(|one, other| apart(&samples[*one]).total_cmp(&apart(&samples[*other])))
                        .unwrap_or(last)
                }
                None if of == 1 => last,
                None => index * last / (of - 1).max(1),
            };
            let at_s = if last == 0 { 0.0 } else { at_s.unwrap_or(samples[at].at_s) };
            put(&mut samples[at], at_s, said);
        }
    }
    samples
}

fn put(sample: &mut Sample, at_s: f64, said: &Said) {
    fn available<T: Clone>(at_s: f64, value: &T) -> Reading<T> {
        Reading::Available { at_s, took_ms: 0.0, value: value.clone() }
    }
    let server = &mut sample.server;
    match said {
        Said::Innodb(status) => server.innodb_status = available(at_s, &**status),
        Said::Threads(threads) | Said::SomeThreads(threads) => server.threads = available(at_s, threads),
        Said::Transactions(list) => server.transactions = available(at_s, list),
        Said::LockWaits(list) => server.row_lock_waits = available(at_s, list),
        Said::MetadataLocks(list) => server.metadata_locks = available(at_s, list),
        Said::Status(values) => server.status = available(at_s, values),
        Said::Variables(values) | Said::Options(values) => server.variables = available(at_s, values),
        Said::PreparedXa(list) => server.prepared_xa = available(at_s, list),
        Said::Replication(channels) => server.replication = available(at_s, channels),
        Said::ApplierErrors(list) => server.applier_errors = available(at_s, list),
        Said::GroupMembers(members) => server.group_members = available(at_s, members),
        Said::Stacks(_) | Said::Troubles(_) | Said::ThreadIds(_) => {}
    }
}

/// Says of each reading that no sample has why it is missing.
fn fail_the_rest(window: &mut Window) {
    let held: Vec<&'static str> = window
        .samples
        .iter()
        .flat_map(|sample| {
            sample.readings().filter(|(_, reading)| reading.value().is_some()).map(|(about, _)| about.kept)
        })
        .collect();
    if let Some(last) = window.samples.last_mut() {
        last.change_readings(|about, reading| {
            if !held.contains(&about.kept) {
                reading.fail(Unavailable::because(NOT_GIVEN));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, window};

    #[test]
    fn some_columns_of_sessions_beside_the_whole_list_are_no_second_list() {
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tapp\th\tshop\tSleep\t31\t\tNULL\n\
                    8\tapp\th\tshop\tQuery\t9\tWaiting for table metadata lock\talter table a add b int\n";
        let some =
            "id\tState\tcommand\tinfo\n8\tWaiting for table metadata lock\tQuery\talter table a add b int\n";
        let lengths = |text: &str| -> Vec<usize> {
            let window = window(&recognise("x", text));
            let lists = window.all(|sample| &sample.server.threads);
            lists.iter().map(|(_, threads)| threads.len()).collect()
        };
        assert_eq!(lengths(&format!("{list}who waits:\n{some}")), [2]);
        // Sessions that are not in the list are of another moment.
        assert_eq!(lengths(&format!("{list}later:\n{}", some.replace("8\t", "9\t"))), [2, 1]);
    }
}
