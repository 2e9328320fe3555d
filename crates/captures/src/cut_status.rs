//! A status that a log prints below a wait for a latch and that was cut before it came to its own list of waits: the wait of the log is
//! then the only one that is known, and the cut status must not hide it as a later reading.

use jiff::civil::DateTime;
use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::{RowOperations, Semaphores, TransactionsSection};

use crate::clock;
use crate::part::{Kind, Part, Said};

/// From the wait to the status that the server prints for it: it prints one each 20 seconds (srv_error_monitor_thread). By judgement.
const LATEST_S: f64 = 300.0;

/// True for a status whose text ends before it has said anything of its waits.
fn says_nothing_of_waits(status: &InnodbStatus) -> bool {
    status.truncated
        && status.semaphores.waiters.is_empty()
        && status.transactions == TransactionsSection::default()
        && status.row_operations == RowOperations::default()
}

/// True for a status of which the end alone was copied: what it says of its waits and its transactions stood above.
fn is_end(status: &InnodbStatus) -> bool {
    status.semaphores == Semaphores::default() && status.transactions == TransactionsSection::default()
}

/// The status of a document, with its time.
fn status(part: &Part) -> Option<(Option<DateTime>, &InnodbStatus)> {
    part.moments.iter().find_map(|moment| {
        let Said::Innodb(status) = moment.said.first()? else { return None };
        Some((moment.time.or(part.time), &**status))
    })
}

/// Gives the waits that a log prints to the statuses below it in the same text that were cut before their own, and to the end of a status
/// that was copied with the log: without a time of its own it would stand behind the log.
pub(crate) fn with_waits_of_log(parts: &mut [Part]) {
    let logged = parts.iter().enumerate().filter(|(_, part)| part.kind == Kind::ErrorLog);
    let logged = logged.filter_map(|(at, part)| Some((at, status(part)?)));
    let Some((at, (time, semaphores))) = logged
        .filter(|(_, (_, status))| !status.semaphores.waiters.is_empty())
        .map(|(at, (time, status))| (at, (time, status.semaphores.clone())))
        .next_back()
    else {
        return;
    };
    let statuses = parts.iter_mut().enumerate().filter(|(_, part)| part.kind == Kind::InnodbStatus);
    for (place, part) in statuses {
        let of_part = part.time;
        for moment in &mut part.moments {
            let at_time = moment.time.or(of_part);
            let apart = time.zip(at_time).map(|(from, to)| clock::seconds(from, to));
            let is_soon = apart.is_none_or(|s| (0.0..=LATEST_S).contains(&s));
            for said in &mut moment.said {
                let Said::Innodb(status) = said else { continue };
                let is_cut_below = place > at && is_soon && says_nothing_of_waits(status);
                if is_cut_below || at_time.is_none() && is_end(status) {
                    status.semaphores.waiters.clone_from(&semaphores.waiters);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Said, recognise, window};

    fn holder(status: &str) -> Option<u64> {
        let text = format!(
            "2023-03-04T10:11:12.123456Z 0 [Warning] [MY-012985] [InnoDB] A long semaphore wait:\n\
             --Thread 140001 has waited at log0meb.cc line 1783 for 988 seconds the semaphore:\n\
             Mutex at 0x7a5bc482f440, Mutex LOG_FILES created log0log.cc:642, locked by 140002\n\n\
             InnoDB: ###### Starts InnoDB Monitor for 30 secs to print diagnostic info:\n\n{status}"
        );
        let parts = recognise("a.txt", &text);
        assert!(
            parts
                .iter()
                .flat_map(|part| &part.moments)
                .flat_map(|moment| &moment.said)
                .any(|said| matches!(said, Said::Innodb(_)))
        );
        let window = window(&parts);
        let status = window.latest(|sample| &sample.server.innodb_status)?;
        status.semaphores.waiters.first()?.holder_pthread_id
    }

    #[test]
    fn the_end_of_a_status_above_a_log_does_not_hide_the_log_s_waits() {
        let text = "Process ID=1, Main thread ID=140009, state: flushing log\nNumber of rows inserted 301, updated 260, deleted 60, read 6085\n\
                    ----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n\
                    2023-03-04T10:11:12.123456Z 0 [Warning] InnoDB: A long semaphore wait:\n\
                    --Thread 140001 has waited at buf0flu.cc line 1209 for 241.00 seconds the semaphore:\n\
                    SX-lock on RW-latch at 0x7fb2ff5b created in file buf0buf.cc line 1460\n\
                    a writer (thread id 140002) has reserved it in mode  SX\nnumber of readers 0, waiters flag 1, lock_word: 10000000\n";
        let parts = recognise("a.txt", text);
        let window = window(&parts);
        let status = window.latest(|sample| &sample.server.innodb_status).expect("a status");
        let holders: Vec<_> = status.semaphores.waiters.iter().map(|wait| wait.holder_pthread_id).collect();
        assert_eq!(holders, [Some(140_002)], "{parts:?}");
    }

    #[test]
    fn a_status_that_was_cut_before_its_waits_does_not_hide_those_of_the_log() {
        let rule = "=====================================\n";
        let begin = |time: &str| {
            format!(
                "{rule}2023-03-04 {time} 140003 INNODB MONITOR OUTPUT\n{rule}Per second averages calculated from the last 15 seconds\n\
                 -----------------\nBACKGROUND THREAD\n-----------------\nsrv_master_thread loops: 4 srv_active, 0 srv_shutdown, 251 srv_idle\n"
            )
        };
        let semaphores = "----------\nSEMAPHORES\n----------\nOS WAIT ARRAY INFO: reservation count 456\nOS WAIT ARRAY INFO: s";
        assert_eq!(holder(""), Some(140_002));
        assert_eq!(holder(&begin("10:11:32")), Some(140_002));
        assert_eq!(holder(&format!("{}{semaphores}", begin("10:12:02"))), Some(140_002));
        // A status of an hour later, and one that goes on behind its waits, have none.
        assert_eq!(holder(&begin("11:11:32")), None);
        let whole = format!(
            "{}{semaphores}ignal count 9\n------------\nTRANSACTIONS\n------------\nTrx id counter 812\nHistory list length 3\n",
            begin("10:11:32")
        );
        assert_eq!(holder(&whole), None);
    }
}
