//! The error that stopped the applier or the receiver: its number, the part of its text that says why, and what mends it.

use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_model::{Evidence, Remedy, ServerVersion, Window};

use super::Failure;
use crate::replica;

/// An error as the server has it, without values of rows.
pub(super) struct Said<'w> {
    channel: &'w ReplicaChannel,
    failure: Failure,
    number: Option<u32>,
    /// Why it stopped.
    text: String,
    /// The transaction, and its place in the source's binary log.
    place: Option<String>,
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
        Self { channel, failure, number: number.or_else(|| number_in(raw)), text, place }
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
        let number = self.number.map_or_else(String::new, |number| format!("{number}: "));
        let error = Evidence::new("error", format!("{number}{}", self.text), "", status);
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
        let stop = start.replacen("START", "STOP", 1);
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

/// The relay log could not be read (ER_SLAVE_RELAY_LOG_READ_FAILURE; 13121 from MySQL 8.0 on).
const OF_RELAY_LOG: [u32; 2] = [1594, 13_121];

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

/// The words of a version for the same statements.
struct Words {
    /// `REPLICA`, `SLAVE`.
    replica: &'static str,
    /// `SOURCE`, `MASTER`.
    source: &'static str,
    /// `CHANGE REPLICATION SOURCE TO`, `CHANGE MASTER TO`.
    change: &'static str,
    /// Where the version is not known.
    older: &'static str,
    /// Empty for the default channel.
    channel: String,
    is_mariadb: bool,
}

impl Words {
    fn new(window: &Window, channel: &str) -> Self {
        let version = window.server.version;
        // SHOW REPLICA STATUS and START REPLICA came together.
        let is_new = replica::asked(version).contains("REPLICA");
        // MySQL 8.0.23; MariaDB has the old words.
        let changes = version.is_none_or(|version| version.mysql_at_least(8, 0, 23));
        Self {
            replica: if is_new { "REPLICA" } else { "SLAVE" },
            source: if changes { "SOURCE" } else { "MASTER" },
            change: if changes { "CHANGE REPLICATION SOURCE TO" } else { "CHANGE MASTER TO" },
            older: if version.is_none() { " (START SLAVE before MySQL 8.0.22 and on MariaDB)" } else { "" },
            channel: channel.to_owned(),
            is_mariadb: version.is_some_and(ServerVersion::is_mariadb),
        }
    }

    /// `START REPLICA SQL_THREAD FOR CHANNEL 'sales'`; MariaDB: `START SLAVE 'sales' SQL_THREAD`
    fn start(&self, thread: &str) -> String {
        let connection = match self.is_mariadb && !self.channel.is_empty() {
            true => format!(" {}", spindoctor_sql::quoted(&self.channel)),
            false => String::new(),
        };
        let started = format!("START {}{connection} {thread}", self.replica);
        format!("{}{}{}", started.trim_end(), self.for_channel(), self.older)
    }

    /// What MySQL's statements end with for a channel that has a name.
    fn for_channel(&self) -> String {
        match self.is_mariadb || self.channel.is_empty() {
            true => String::new(),
            false => format!(" FOR CHANNEL {}", spindoctor_sql::quoted(&self.channel)),
        }
    }

    fn filled(&self, statement: &str) -> String {
        statement
            .replace("{CHANGE}", self.change)
            .replace("{SOURCE}", self.source)
            .replace("{replica}", &self.replica.to_ascii_lowercase())
    }
}

/// What mends an error of one of the two parts.
struct Cure {
    of: Failure,
    /// Last_SQL_Errno or Last_IO_Errno: of share/messages_to_clients.txt, from 10,000 on of messages_to_error_log.txt.
    numbers: &'static [u32],
    /// One of these words is in the text; any text will do where there are none.
    says: &'static [&'static str],
    statement: &'static str,
    why: &'static str,
    risk: &'static str,
}

/// Where the number is not known, or is none of the well-known ones.
const OF_APPLIER: Cure = Cure {
    of: Failure::Applier,
    numbers: &[],
    says: &[],
    statement: "Mend on this replica what the error names (a row that is there already: 1062, one that is missing: 1032, a table or \
                column that is not the source's)",
    why: "The data of the replica is not what the event was made for: somebody wrote here, or an event was lost.",
    risk: "To skip the event instead (an empty transaction with its GTID, sql_slave_skip_counter) leaves the data different. Set \
           super_read_only (MariaDB: read_only), so that it does not happen again.",
};

const OF_RECEIVER: Cure = Cure {
    of: Failure::Receiver,
    numbers: &[],
    says: &[],
    statement: "Mend what the error names: the source's address, account or TLS (1045, 2003, 2061), or a log that the source no longer \
                has (1236)",
    why: "Until it runs the replica gets nothing and knows nothing of how far it is behind.",
    risk: "After 1236 the missing transactions come from nowhere: the replica has to be made again from a copy.",
};

/// True for a node of a Galera cluster.
fn is_of_cluster(window: &Window) -> bool {
    window.variable("wsrep_on").is_some_and(|on| on.eq_ignore_ascii_case("ON") || on == "1")
        || window.is_given() && window.status("wsrep_cluster_size").is_some_and(|size| size >= 1.0)
}

/// A row that is there already, or missing, on a node of a Galera cluster: what is left out, or mended with sql_log_bin = 0, makes this
/// node differ from the others, which the cluster then puts out.
const IN_CLUSTER: Cure = Cure {
    of: Failure::Applier,
    numbers: &[1032, 1062],
    says: &[],
    statement: "Compare the row on all nodes and on the source. Where the nodes agree, mend it with an ordinary statement, which the cluster \
                replicates; where this node alone differs, let it take a full copy of another one (stop it, move grastate.dat away, start it)",
    why: "The row that the event changes is missing here, or the one that it inserts is here already.",
    risk: "Do not skip the event, and do not mend the row with sql_log_bin = 0: both make the node differ from its cluster. A full copy takes \
           as long as the data are large.",
};

/// Got fatal error 1236 from source; 13114 is the same from MySQL 8.0 on.
const OF_SOURCE: &[u32] = &[1236, 13_114];

/// An event is larger than a packet may be: as the source says it, and as the receiver does (ER_NET_PACKET_TOO_LARGE; 13115 from MySQL 8.0 on).
const OF_LARGE_EVENT: &[u32] = &[1153, 1236, 13_114, 13_115];

/// The first that fits counts.
const CURES: &[Cure] = &[
    Cure {
        of: Failure::Applier,
        numbers: &[1032],
        says: &[],
        statement: "mysqlbinlog -vv --base64-output=decode-rows of that place in the source's log shows the row: INSERT it here as it was \
                    before the event (SET sql_log_bin = 0 in that session)",
        why: "The event changes or deletes a row that is not here: somebody deleted it on this replica, or the copy that the replica was \
              made from lacks it.",
        risk: "More rows may differ: compare the tables (pt-table-checksum). Set super_read_only (MariaDB: read_only), so that it does not \
               happen again.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1062],
        says: &[],
        statement: "Compare the row with that key on the source and here; where the source's is right, DELETE it here (SET sql_log_bin = 0 \
                    in that session)",
        why: "The event inserts a row whose key is here already: somebody wrote on this replica, or the event was applied before, as after \
              a crash without relay_log_recovery.",
        risk: "More rows may differ: compare the tables (pt-table-checksum). Set super_read_only (MariaDB: read_only), so that it does not \
               happen again.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1007, 1008, 1049, 1050, 1051, 1054, 1060, 1061, 1091, 1146, 1677, 13_146],
        says: &[],
        statement: "Make the table, column or database that the error names here what it is on the source (SHOW CREATE TABLE on both)",
        why: "The definitions differ: a statement that changes them was run on one side alone, or twice.",
        risk: "ALTER TABLE copies a large table, and the replica falls behind meanwhile. SET sql_log_bin = 0 where others replicate \
               from here.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1205, 1213],
        says: &[],
        statement: "End what holds the lock (spindoctor locks), and raise {replica}_transaction_retries",
        why: "The applier waited for a lock of a session here, tried the transaction again, and gave up.",
        risk: "A session that is ended loses its transaction.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[28, 1021, 1026, 1114],
        says: &[],
        statement: "Make room on the file system of the data, of the relay log and of tmpdir (df)",
        why: "A table, a log or a temporary file could not grow.",
        risk: "Files of the server itself are not to be removed by hand.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &[1197],
        says: &[],
        statement: "SET GLOBAL max_binlog_cache_size to the source's value or more",
        why: "The transaction is larger than this replica's own binary log takes.",
        risk: "It needs as much room in tmpdir.",
    },
    Cure {
        of: Failure::Applier,
        numbers: &OF_RELAY_LOG,
        says: &[],
        statement: "mysqlbinlog --verify-binlog-checksum of the relay log here and of the source's log shows which of them is damaged; \
                    where it is the relay log, fetch it once more",
        why: "An event in the relay log cannot be read: the host crashed while it was written, or a disk or memory changed it.",
        risk: "Where the source's log is damaged the replica has to be made again from a copy.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_LARGE_EVENT,
        says: &["max_allowed_packet", "packet bigger than"],
        statement: "SET GLOBAL {replica}_max_allowed_packet = 1073741824 here, and max_allowed_packet = 1073741824 on the source",
        why: "An event of the source is larger than one of the two takes.",
        risk: "One event may take as much memory.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &["file size", "impossible position"],
        statement: "{CHANGE} {SOURCE}_LOG_FILE to the next file of SHOW BINARY LOGS on the source, {SOURCE}_LOG_POS = 4",
        why: "The source lost the end of its log in a crash (sync_binlog is not 1 there), and this replica has read it.",
        risk: "This replica has transactions that the source lost: compare the tables (pt-table-checksum).",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &["same server_uuid", "same server_id"],
        statement: "Give each replica a server_id of its own, and a server_uuid (remove auto.cnf from the data folder of the copy), and \
                    restart it",
        why: "Two replicas call themselves the same, and the source ends the connection of one for the other: one was made as a copy of \
              the other.",
        risk: "The replica is down meanwhile.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &["bogus data", "event truncated", "checksum", "corrupt"],
        statement: "mysqlbinlog --verify-binlog-checksum of the file that the error names, on the source; where it is damaged, make the \
                    replica again from a copy",
        why: "The source cannot read its own binary log at this place.",
        risk: "To go on behind the damage leaves out transactions.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: OF_SOURCE,
        says: &[],
        statement: "Make the replica again from a copy of the source (CLONE INSTANCE, xtrabackup, mariabackup, mysqldump \
                    --single-transaction with the source's position)",
        why: "The source no longer has the binary log that this replica needs next: it was purged, or the replica was made from an \
              older copy.",
        risk: "The replica serves nothing meanwhile. A longer binlog_expire_logs_seconds (expire_logs_days) on the source keeps it from \
               happening again.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[1595, 13_122],
        says: &["Relay log write failure", "could not queue event"],
        statement: "Look at df of the folder of the relay log, at the error log for the write that failed, and at a disk or network that \
                    changes data (event checksum); make room",
        why: "An event of the source came and could not be written to the relay log: no room, a write error, or an event that was damaged \
              on its way.",
        risk: "Looking is safe. Relay logs are not to be removed by hand: those that are applied the server purges.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[1593, 13_117],
        says: &["equal MySQL server"],
        statement: "SET GLOBAL server_id to a number of its own (ids), or remove auto.cnf from the data folder and restart (UUIDs)",
        why: "Source and replica call themselves the same: one was made as a copy of the other.",
        risk: "A new server_uuid is that of later transactions here.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[1045, 1698, 1130, 1227],
        says: &[],
        statement: "On the source: SHOW GRANTS of the replica's account (REPLICATION SLAVE, and a host part that this host fits); here: \
                    {CHANGE} {SOURCE}_USER = ..., {SOURCE}_PASSWORD = ...",
        why: "The source refuses the login of the replica's account.",
        risk: "The password stands in the replica's metadata.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[2002, 2003, 2005, 2013],
        says: &[],
        statement: "From this host: mysql -h HOST -P PORT -u ACCOUNT -p with the address of the source; look whether it runs, for its \
                    bind_address, and for a firewall between",
        why: "Nothing answers at the source's address.",
        risk: "Looking is safe.",
    },
    Cure {
        of: Failure::Receiver,
        numbers: &[2026, 2061],
        says: &[],
        statement: "{CHANGE} {SOURCE}_SSL = 1; without TLS GET_{SOURCE}_PUBLIC_KEY = 1 (MySQL 8.0)",
        why: "The replica's account has caching_sha2_password, which sends its password over TLS or encrypted with the source's key \
              alone, or TLS failed.",
        risk: "Without a certificate that is verified the key may be somebody else's.",
    },
];

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;
    use spindoctor_model::mysql::ApplierError;

    use super::super::tests::{found, replica};
    use super::*;
    use crate::testing::answer;

    /// A replica whose channel is changed so.
    fn broken(change: impl Fn(&mut ReplicaChannel) + Copy) -> crate::testing::Build {
        replica(|_| 0.0).each(move |_, server, _| {
            if let spindoctor_model::Reading::Available { value: channels, .. } = &mut server.replication {
                channels[0].behind_s = None;
                change(&mut channels[0]);
            }
        })
    }

    fn receiver(number: u32, error: &'static str) -> Finding {
        let build = broken(move |channel| {
            channel.receiver_running = "No".into();
            channel.receiver_errno = Some(number);
            channel.receiver_error = error.into();
        });
        found(&build.window())
    }

    fn shown(finding: &Finding, reading: &str) -> String {
        let one = finding.evidence.iter().find(|one| one.reading == reading);
        one.map_or_else(String::new, |one| format!("{:?}", one.value))
    }

    const COORDINATOR: &str = "Coordinator stopped because there were error(s) in the worker(s). The most recent failure being: Worker 1 \
        failed executing transaction '3d179476-e888-11f1-9657-02fc00000001:3' at source log source.000001, end_log_pos 817. See error log \
        and/or performance_schema.replication_applier_status_by_worker table for more details about this failure or others, if any.";

    fn by_worker(message: Option<&'static str>) -> Finding {
        let build = broken(|channel| {
            channel.applier_running = "No".into();
            channel.applier_errno = Some(1062);
            channel.applier_error = COORDINATOR.into();
        });
        let build = build.each(move |at_s, server, _| {
            let of = |message: &str| ApplierError {
                number: 1062,
                message: message.into(),
                ..ApplierError::default()
            };
            server.applier_errors = answer(at_s, message.map(of).into_iter().collect());
        });
        found(&build.window())
    }

    #[test]
    fn what_the_worker_says_is_shown_with_its_table_its_key_and_its_place() {
        let finding = by_worker(Some(
            "Worker 1 failed executing transaction '3d179476-e888-11f1-9657-02fc00000001:3' at source log source.000001, end_log_pos 817; \
             Could not execute Write_rows event on table shop.stock; Duplicate entry 'alice' for key 'stock.PRIMARY', Error_code: 1062; \
             handler error HA_ERR_FOUND_DUPP_KEY; the event's source log source.000001, end_log_pos 817",
        ));
        assert_eq!(
            finding.headline,
            "The applier has stopped with error 1062 (table shop.stock, key stock.PRIMARY): the replica of db1:3306 applies nothing"
        );
        let error = shown(&finding, "error");
        assert!(error.contains("1062: Could not execute Write_rows event on table shop.stock"), "{error}");
        assert!(!error.contains("alice"), "{error}");
        assert!(shown(&finding, "transaction").contains("end_log_pos 817"), "{:?}", finding.evidence);
        assert!(finding.remedies[0].statement.contains("DELETE it here"), "{:?}", finding.remedies);
        assert!(
            finding.remedies[0].statement.ends_with("then START REPLICA SQL_THREAD"),
            "{:?}",
            finding.remedies
        );
        let skip = &finding.remedies[1].statement;
        assert!(skip.contains("GTID_NEXT = '3d179476-e888-11f1-9657-02fc00000001:3'"), "{skip}");
    }

    #[test]
    fn without_the_workers_message_the_place_is_shown_and_the_number_says_what_to_do() {
        let finding = by_worker(None);
        assert!(
            finding.headline.starts_with("The applier has stopped with error 1062:"),
            "{}",
            finding.headline
        );
        assert!(
            shown(&finding, "transaction").contains("source.000001, end_log_pos 817"),
            "{:?}",
            finding.evidence
        );
        assert!(finding.remedies[0].statement.contains("DELETE it here"), "{:?}", finding.remedies);
    }

    #[test]
    fn a_damaged_relay_log_is_fetched_again_from_where_the_applier_stands() {
        let build = broken(|channel| {
            channel.applier_running = "No".into();
            channel.applier_errno = Some(13_121);
            channel.applier_error = "Relay log read failure: Could not parse relay log event entry.".into();
            channel.applied_file = "binlog.000003".into();
            channel.applied_position = Some(4711);
        });
        let finding = found(&build.window());
        assert_eq!(
            finding.remedies[0].statement,
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = 'binlog.000003', SOURCE_LOG_POS = 4711; START REPLICA"
        );
        let build = broken(|channel| {
            channel.applier_running = "No".into();
            channel.applier_errno = Some(1594);
            channel.applier_error = "Relay log read failure".into();
        });
        let finding = found(&build.variable("gtid_mode", "ON").window());
        assert_eq!(finding.remedies[0].statement, "STOP REPLICA; RESET REPLICA; START REPLICA");
    }

    #[test]
    fn a_receiver_has_the_reason_of_its_source_and_a_remedy_for_it() {
        let purged = "Got fatal error 1236 from source when reading data from binary log: 'Could not find first log file name in binary \
                      log index file'";
        let finding = receiver(13_114, purged);
        assert_eq!(
            finding.headline,
            "The receiver does not run because of error 13114 (Could not find first log file name in binary log index file): the replica \
             gets nothing from db1:3306"
        );
        assert!(
            finding.remedies[0].statement.contains("from a copy of the source"),
            "{:?}",
            finding.remedies
        );
        let first = |number, error| receiver(number, error).remedies[0].statement.clone();
        for (number, error, words) in [
            (
                1236,
                "Got fatal error 1236 from master: 'log event entry exceeded max_allowed_packet'",
                "replica_max_allowed_packet",
            ),
            (
                1236,
                "Got fatal error 1236 from master when reading data from binary log: 'Client requested master to start replication from \
                 position > file size'",
                "SOURCE_LOG_POS = 4",
            ),
            (
                1236,
                "Got fatal error 1236: 'A slave with the same server_uuid/server_id as this slave'",
                "auto.cnf",
            ),
            (13_122, "Relay log write failure: could not queue event from source", "df of the folder"),
            (
                13_115,
                "Got a packet bigger than 'replica_max_allowed_packet' bytes",
                "max_allowed_packet = 1073741824",
            ),
            (13_117, "Fatal error: source and replica have equal MySQL server UUIDs", "auto.cnf"),
            (1045, "Error connecting to source 'repl@db1:3306'. Message: Access denied", "SOURCE_PASSWORD"),
            (
                2003,
                "Error connecting to source 'repl@db1:3306'. Message: Can't connect to MySQL server",
                "bind_address",
            ),
            (4711, "boom", "Mend what the error names"),
        ] {
            assert!(first(number, error).contains(words), "{number}: {}", first(number, error));
        }
    }

    #[test]
    fn a_long_reason_is_cut_behind_a_word() {
        let of = |reason: &str| {
            let error = format!(
                "Got fatal error 1236 from master when reading data from binary log: '{reason}', Internal MariaDB error code: 1236"
            );
            receiver(1236, error.leak()).headline
        };
        let short = of("the replica's place is not in the log,");
        assert!(short.contains("(the replica's place is not in the log):"), "{short}");
        // A word goes on, or ends, at the 100th character.
        let long = of(&format!("{}abcd, abcdefgh, and so on", "abcd ".repeat(18)));
        assert!(long.contains("abcd abcd...): "), "{long}");
        let whole = of(&format!("{}e and so on", "abcd ".repeat(20).trim_end()));
        assert!(whole.contains("abcd abcde...): "), "{whole}");
    }

    #[test]
    fn a_channel_with_a_name_is_named_and_its_statements_are_for_it() {
        let of = |version: &str| {
            let build = crate::testing::Build::busy(version).each(|at_s, server, _| {
                let channel = ReplicaChannel {
                    name: "sales".into(),
                    source_host: "db7".into(),
                    source_port: 3306,
                    receiver_running: "Yes".into(),
                    applier_running: "No".into(),
                    applier_errno: Some(1062),
                    applier_error: "Duplicate entry".into(),
                    ..ReplicaChannel::default()
                };
                server.replication = answer(at_s, vec![channel]);
            });
            found(&build.window())
        };
        let finding = of("8.0.36");
        assert!(finding.headline.contains("db7:3306 (channel sales)"), "{}", finding.headline);
        let statement = &finding.remedies[0].statement;
        assert!(statement.ends_with("START REPLICA SQL_THREAD FOR CHANNEL 'sales'"), "{statement}");
        let finding = of("10.11.19-MariaDB");
        let statement = &finding.remedies[0].statement;
        assert!(statement.ends_with("START SLAVE 'sales' SQL_THREAD"), "{statement}");
    }

    #[test]
    fn a_node_of_a_cluster_skips_nothing() {
        let build = broken(|channel| {
            channel.applier_running = "No".into();
            channel.applier_errno = Some(1032);
            channel.applier_error = "Could not execute Delete_rows event on table shop.stock".into();
        });
        let finding = found(&build.variable("wsrep_on", "ON").window());
        assert!(
            finding.remedies[0].statement.contains("Compare the row on all nodes"),
            "{:?}",
            finding.remedies
        );
        let skips = |remedy: &Remedy| {
            remedy.statement.contains("skip_counter") || remedy.statement.contains("GTID_NEXT")
        };
        assert!(!finding.remedies.iter().any(skips), "{:?}", finding.remedies);
    }

    #[test]
    fn a_number_is_taken_from_the_text_where_the_status_was_cut() {
        assert_eq!(
            number_in("Could not execute; Duplicate entry 'x', Error_code: 1062; handler"),
            Some(1062)
        );
        assert_eq!(number_in("Got fatal error 1236 from source"), Some(1236));
        assert_eq!(number_in("boom"), None);
    }
}
