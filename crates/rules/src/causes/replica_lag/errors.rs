//! The error that stopped the applier or the receiver: its number, the part of its text that says why, and what mends it.

mod cures;
#[cfg(test)]
mod tests;

use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_model::{Evidence, Remedy, ServerVersion, Window};

use super::Failure;
use crate::replica::Words;

use cures::{CURES, IN_CLUSTER, OF_APPLIER, OF_RECEIVER, OF_RELAY_LOG};

/// Where a worker's own error is read.
const OF_WORKER: &str = "replication_applier_status_by_worker";

/// An error as the server has it, without values of rows.
pub(super) struct Said<'w> {
    channel: &'w ReplicaChannel,
    failure: Failure,
    number: Option<u32>,
    /// Why it stopped.
    text: String,
    /// The transaction, and its place in the source's binary log.
    place: Option<String>,
    /// What performance_schema says of the worker that failed, and not the replica's status.
    is_of_worker: bool,
}

impl<'w> Said<'w> {
    pub(super) fn new(window: &'w Window, channel: &'w ReplicaChannel, failure: Failure) -> Self {
        let of_worker = || {
            let errors = window.latest(|sample| &sample.server.applier_errors)?;
            errors.iter().find(|error| error.channel == channel.name)
        };
        let (number, raw) = match failure {
            Failure::Receiver => (channel.receiver_errno, channel.receiver_error.as_str()),
            Failure::Applier => match of_worker() {
                Some(error) => (Some(error.number), error.message.as_str()),
                None => (channel.applier_errno, channel.applier_error.as_str()),
            },
        };
        let (place, text) = parts(&spindoctor_sql::error_without_values(raw));
        let is_of_worker = failure == Failure::Applier && of_worker().is_some();
        Self { channel, failure, number: number.or_else(|| number_in(raw)), text, place, is_of_worker }
    }

    /// The headline: which part stopped, with which error, and what of it is known in a few words.
    pub(super) fn headline(&self, source: &str) -> String {
        let error = self.number.map_or_else(|| "an error".to_owned(), |number| format!("error {number}"));
        let about = self.about().map_or_else(String::new, |about| format!(" ({about})"));
        match self.failure {
            Failure::Applier => {
                format!(
                    "The applier has stopped with {error}{about}: the replica of {source} applies nothing"
                )
            }
            Failure::Receiver => format!(
                "The receiver does not run because of {error}{about}: the replica gets nothing from {source}"
            ),
        }
    }

    /// Table and key, or the source's reason.
    fn about(&self) -> Option<String> {
        if self.failure == Failure::Receiver {
            return self.reason().map(shortened);
        }
        let table = between(&self.text, "event on table ", &[';', ',']);
        let table = table.or_else(|| between(&self.text, "Table '", &['\'']));
        let key = between(&self.text, "for key '", &['\'']);
        match (table, key) {
            (Some(table), Some(key)) => Some(format!("table {table}, key {key}")),
            (Some(table), None) => Some(format!("table {table}")),
            (None, Some(key)) => Some(format!("key {key}")),
            (None, None) => None,
        }
    }

    /// `Could not find first log file name in binary log index file` of an error 1236; the message of a login that failed.
    fn reason(&self) -> Option<&str> {
        let quoted = self.text.split_once("binary log: '").map(|(_, reason)| reason);
        let reason = quoted.or_else(|| self.text.split_once("Message: ").map(|(_, message)| message))?;
        // `... which is not in the master's binlog', Internal MariaDB error code: 1236`
        let reason = reason.split("', ").next()?.split(';').next()?.split(". ").next()?;
        let reason = reason.trim_end_matches(['\'', '.', ',', ' ']);
        (!reason.is_empty()).then_some(reason)
    }

    /// The error, and where it is.
    pub(super) fn evidence(&self, status: &str) -> Vec<Evidence> {
        let status = if self.is_of_worker { OF_WORKER } else { status };
        let number = self.number.map_or_else(String::new, |number| format!("{number}: "));
        let error = format!("{number}{}", self.text);
        let error = Evidence::new("error", error.trim_end_matches(": "), "", status);
        let place = self.place.as_ref().map(|place| Evidence::new("transaction", place.clone(), "", status));
        [error].into_iter().chain(place).collect()
    }

    /// What mends it, in the words of the version.
    pub(super) fn remedies(&self, window: &Window) -> Vec<Remedy> {
        let words = Words::new(window, &self.channel.name);
        let in_cluster = is_of_cluster(window)
            .then_some(&IN_CLUSTER)
            .filter(|cure| cure.of == self.failure && self.is_number_of(cure.numbers));
        let cure = in_cluster.or_else(|| {
            CURES.iter().find(|cure| {
                cure.of == self.failure
                    && self.number.is_some_and(|number| cure.numbers.contains(&number))
                    && (cure.says.is_empty() || cure.says.iter().any(|words| self.text.contains(words)))
            })
        });
        let cure = cure.unwrap_or(match self.failure {
            Failure::Applier => &OF_APPLIER,
            Failure::Receiver => &OF_RECEIVER,
        });
        let goes_on = match self.failure {
            Failure::Applier => words.start("SQL_THREAD"),
            // It tries again each minute.
            Failure::Receiver if self.channel.receiver_running.eq_ignore_ascii_case("Connecting") => {
                "wait for its next try".to_owned()
            }
            Failure::Receiver => words.start("IO_THREAD"),
        };
        let mend = Remedy {
            statement: format!("{}, then {goes_on}", words.filled(cure.statement)),
            why: cure.why.into(),
            dynamic: true,
            risk: cure.risk.into(),
            undo: String::new(),
        };
        let again = (self.failure == Failure::Applier && self.is_number_of(&OF_RELAY_LOG))
            .then(|| self.read_again(window, &words))
            .flatten();
        let may_skip = self.is_number_of(&[1032, 1062]) && in_cluster.is_none();
        let skip = may_skip.then(|| self.skip(window, &words));
        again.into_iter().chain([mend]).chain(skip).collect()
    }

    fn is_number_of(&self, numbers: &[u32]) -> bool {
        self.number.is_some_and(|number| numbers.contains(&number))
    }

    /// From where the applier stands the source's log is fetched once more.
    fn read_again(&self, window: &Window, words: &Words) -> Option<Remedy> {
        let start = words.start("");
        let stop = words.stop("");
        let has_gtids = window.variable("gtid_mode").is_some_and(|mode| mode.eq_ignore_ascii_case("ON"));
        let is_mariadb = window.server.version.is_some_and(ServerVersion::is_mariadb);
        let statement = match (has_gtids, self.channel.applied_position) {
            (true, _) => format!("{stop}; RESET {}{}; {start}", words.replica, words.for_channel()),
            (false, Some(position)) if !self.channel.applied_file.is_empty() => format!(
                "{stop}; {} {}_LOG_FILE = {}, {}_LOG_POS = {position}{}; {start}",
                words.change,
                words.source,
                spindoctor_sql::quoted(&self.channel.applied_file),
                words.source,
                words.for_channel()
            ),
            (false, _) => return None,
        };
        // MariaDB throws the relay logs away where both threads start with GTIDs.
        let by_gtid =
            if is_mariadb { format!("With Using_Gtid {stop}; {start}; without it ") } else { String::new() };
        Some(Remedy {
            statement: by_gtid + &statement,
            why: "The relay logs go, and the receiver fetches what is not applied yet once more from the source.".into(),
            dynamic: true,
            risk: "The source must still have these logs (SHOW BINARY LOGS there). Where its own log is damaged, the applier stops again \
                   at the same place."
                .into(),
            undo: String::new(),
        })
    }

    /// To leave the event out, which leaves the data different.
    fn skip(&self, window: &Window, words: &Words) -> Remedy {
        let gtid = self.place.as_deref().and_then(|place| between(place, "transaction '", &['\'']));
        let gtid = gtid.filter(|gtid| gtid.contains(':'));
        let counter = ["sql_replica_skip_counter", "sql_slave_skip_counter"]
            .into_iter()
            .find(|name| window.variable(name).is_some())
            .unwrap_or("sql_slave_skip_counter");
        Remedy {
            statement: match gtid {
                Some(gtid) => format!(
                    "Only where the row is as it should be: SET GTID_NEXT = '{gtid}'; BEGIN; COMMIT; SET GTID_NEXT = 'AUTOMATIC'; {}",
                    words.start("SQL_THREAD")
                ),
                None => format!(
                    "Only where the row is as it should be: SET GLOBAL {counter} = 1; {}",
                    words.start("SQL_THREAD")
                ),
            },
            why: "The whole transaction is left out, and the applier goes on with the next one.".into(),
            dynamic: true,
            risk: "All other changes of that transaction are lost here, too, and the data stay different from the source's.".into(),
            undo: String::new(),
        }
    }
}

/// Characters of a reason in a headline.
const LONGEST_REASON: usize = 100;

/// A reason that is too long, cut behind a word.
fn shortened(reason: &str) -> String {
    let Some((end, _)) = reason.char_indices().nth(LONGEST_REASON) else { return reason.to_owned() };
    let cut = &reason[..end];
    // What ends where a word does is whole.
    let words = match reason[end..].starts_with(' ') {
        true => cut,
        false => cut.rsplit_once(' ').map_or(cut, |(words, _)| words),
    };
    format!("{}...", words.trim_end_matches([',', ' ']))
}

/// The place of the transaction, and what went wrong with it.
///
/// ```text
/// Worker 1 failed executing transaction 'ANONYMOUS' at source log b.000001, end_log_pos 816; Could not execute Write_rows event ...
/// Coordinator stopped because there were error(s) in the worker(s). The most recent failure being: Worker 1 failed executing
/// transaction '3d179476-...:3' at source log b.000001, end_log_pos 817. See error log and/or performance_schema....
/// ```
fn parts(shown: &str) -> (Option<String>, String) {
    const FAILED: &str = " failed executing ";
    let said = shown.split_once("The most recent failure being: ").map_or(shown, |(_, rest)| rest);
    let Some((_, failed)) = said.split_once(FAILED).filter(|(worker, _)| worker.starts_with("Worker "))
    else {
        return (None, shown.to_owned());
    };
    match failed.split_once("; ") {
        Some((place, text)) => (Some(place.to_owned()), text.to_owned()),
        None => {
            let place = failed.split_once(". See error log").map_or(failed, |(place, _)| place);
            (Some(place.to_owned()), "a worker failed; its message was not read".to_owned())
        }
    }
}

/// The number that the text itself has: `Error_code: 1062`, `Got fatal error 1236 from source`.
fn number_in(text: &str) -> Option<u32> {
    ["Error_code: ", "Got fatal error "].iter().find_map(|before| {
        let digits: String =
            text.rsplit_once(before)?.1.chars().take_while(char::is_ascii_digit).take(6).collect();
        digits.parse().ok()
    })
}

fn between<'a>(text: &'a str, before: &str, ends: &[char]) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    let found = rest.split(ends).next()?.trim();
    (!found.is_empty()).then_some(found)
}

/// True for a node of a Galera cluster.
fn is_of_cluster(window: &Window) -> bool {
    window.variable("wsrep_on").is_some_and(|on| on.eq_ignore_ascii_case("ON") || on == "1")
        || window.is_given() && window.status("wsrep_cluster_size").is_some_and(|size| size >= 1.0)
}
