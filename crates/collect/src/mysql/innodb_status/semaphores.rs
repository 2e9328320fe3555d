//! Section SEMAPHORES: the waits so far, and who waits now.

use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait, Semaphores, SpinCounts};

use super::Unknown;
use super::line::{file_name, numbers, squeeze, values, whole};

/// Lines that are known and say nothing that is kept.
const NOT_READ: &[&str] = &[
    "Last time write locked in file ",
    "Last time read locked in file ",
    "Last time reserved in file ",
    "Last time reserved by thread ",
    "Holder thread ",
    "waiters flag ",
    "Spin rounds per wait:",
];

/// Reads the section.
pub(super) fn parse(lines: &[&str], unknown: &mut Unknown) -> Semaphores {
    let mut section = Semaphores::default();
    let mut reservations = 0_u64;
    let mut mutex_line = false;
    for raw in lines {
        let line = squeeze(raw);
        if let Some(wait) = waiter(&line) {
            section.waiters.push(wait);
        } else if let Some([reserved, signals]) =
            // OS WAIT ARRAY INFO: reservation count 4, signal count 4                       (up to 5.5)
            numbers(&line, "OS WAIT ARRAY INFO: reservation count {}, signal count {}")
        {
            section.reservations = Some(reserved);
            section.signals = Some(signals);
        } else if let Some([reserved]) =
            // OS WAIT ARRAY INFO: reservation count 674                                     (5.6 and later)
            // One line for each of innodb_sync_array_size arrays, then one for the signals of all.
            numbers(&line, "OS WAIT ARRAY INFO: reservation count {}")
        {
            reservations = reservations.saturating_add(reserved);
        } else if let Some([signals]) = numbers(&line, "OS WAIT ARRAY INFO: signal count {}") {
            section.reservations = Some(reservations);
            section.signals = Some(signals);
        } else if let Some([spins, rounds, os_waits]) =
            // Mutex spin waits 994672655, rounds 1869427362, OS waits 14115318              (up to 5.6)
            numbers(&line, "Mutex spin waits {}, rounds {}, OS waits {}")
        {
            mutex_line = true;
            section.mutex = spin_counts(spins, Some(rounds), os_waits);
        } else if !rw_spins(&line, &mut section) {
            let is_detail = section.waiters.last_mut().is_some_and(|wait| detail(&line, wait));
            if !is_detail && !line.is_empty() && !NOT_READ.iter().any(|start| line.starts_with(start)) {
                unknown.note(raw);
            }
        }
    }
    forget_dead_counters(mutex_line, &mut section);
    section
}

/// MySQL 8.0.28 to 9.7 print the RW lines from string literals: always zero. Their text is that of 5.7,
/// which counts. Both lack the mutex line of earlier versions, so without it a section in which every
/// RW counter is zero says nothing: either the counters are dead, or 5.7 has just started.
fn forget_dead_counters(mutex_line: bool, section: &mut Semaphores) {
    let lines = [section.rw_shared, section.rw_excl, section.rw_sx];
    let counted = |line: &SpinCounts| {
        [line.spins, line.rounds, line.os_waits].iter().any(|count| count.unwrap_or(0) > 0)
    };
    if !mutex_line && !lines.iter().any(counted) {
        section.rw_shared = SpinCounts::default();
        section.rw_excl = SpinCounts::default();
        section.rw_sx = SpinCounts::default();
    }
}

fn spin_counts(spins: u64, rounds: Option<u64>, os_waits: u64) -> SpinCounts {
    SpinCounts { spins: Some(spins), rounds, os_waits: Some(os_waits) }
}

/// The RW lines; true where the line is one.
fn rw_spins(line: &str, section: &mut Semaphores) -> bool {
    // RW-shared spins 4, OS waits 4; RW-excl spins 0, OS waits 0                            (up to 5.1)
    if let Some([shared, shared_waits, excl, excl_waits]) =
        numbers(line, "RW-shared spins {}, OS waits {}; RW-excl spins {}, OS waits {}")
    {
        section.rw_shared = spin_counts(shared, None, shared_waits);
        section.rw_excl = spin_counts(excl, None, excl_waits);
        return true;
    }
    // RW-shared spins 93199886, rounds 685475806, OS waits 14831919                         (5.5 and later)
    // RW-sx spins 0, rounds 0, OS waits 0                                                   (5.7 and later)
    for (name, counts) in [
        ("RW-shared", &mut section.rw_shared),
        ("RW-excl", &mut section.rw_excl),
        ("RW-sx", &mut section.rw_sx),
    ] {
        if let Some([spins, rounds, os_waits]) =
            line.strip_prefix(name).and_then(|rest| numbers(rest, " spins {}, rounds {}, OS waits {}"))
        {
            *counts = spin_counts(spins, Some(rounds), os_waits);
            return true;
        }
    }
    false
}

/// The first line of a waiter.
///
/// ```text
/// --Thread 1229429056 has waited at btr/btr0cur.c line 443 for 0.00 seconds the semaphore:   (5.1)
/// --Thread 139964610234112 has waited at srv0srv.cc line 2132 for 14.00 seconds the semaphore: (5.6)
/// --Thread 140301 has waited at btr0cur.cc line 1037 for 3  seconds the semaphore:           (5.7)
/// ```
fn waiter(line: &str) -> Option<SemaphoreWait> {
    let [thread, file, at_line, seconds] =
        values(line, "--Thread {} has waited at {} line {} for {} seconds the semaphore:")?;
    Some(SemaphoreWait {
        pthread_id: whole(thread)?,
        at_file: file_name(file),
        at_line: at_line.parse().ok()?,
        waited_s: seconds.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)?,
        ..SemaphoreWait::default()
    })
}

/// The lines below a waiter's first; true where the line is one.
///
/// A writer that waits for the readers to leave is printed as the writer of the latch it waits for, and
/// so is a thread that got the latch while the text was written. Nobody waits for oneself: such a writer
/// is no holder, and where there is one reader alone, that one is.
fn detail(line: &str, wait: &mut SemaphoreWait) -> bool {
    // a writer (thread id 1220999488) has reserved it in mode  exclusive
    if let Some([thread, mode]) = values(line, "a writer (thread id {}) has reserved it in mode {}") {
        let writer = whole(thread);
        wait.holder_pthread_id = writer.filter(|&writer| writer != wait.pthread_id);
        wait.held_mode = Some(mode.to_owned());
        return writer.is_some();
    }
    // number of readers 0, waiters flag 1                                                   (5.0)
    // number of readers 0, waiters flag 1, lock_word: 0                                     (5.1 plugin and later)
    // number of readers 1 (thread id 140301), waiters flag 1, lock_word: 1fffffff           (8.0)
    if let Some([readers]) = values(line, "number of readers {}, waiters flag ") {
        let (count, reader) = match values(readers, "{} (thread id {})") {
            Some([count, thread]) => (count, whole(thread)),
            None => (readers, None),
        };
        wait.readers = whole(count);
        wait.holder_pthread_id = wait.holder_pthread_id.or(reader);
        return wait.readers.is_some();
    }
    // Last time write locked in file /build/storage/innobase/dict/dict0stats.cc line 2376
    if let Some([file, at_line]) = values(line, "Last time write locked in file {} line {}") {
        // Of a latch that nobody ever took, the text says `not yet reserved`.
        if let Some(at_line) = whole(at_line).filter(|at_line| *at_line > 0) {
            wait.locked_at = format!("{}:{at_line}", file_name(file));
        }
        return true;
    }
    if line == "wait has ended" || line == "wait is ending" {
        wait.ended = true;
        return true;
    }
    latch(line, wait)
}

/// What is waited for.
///
/// ```text
/// X-lock on RW-latch at 0x2aaab42120b8 created in file btr/btr0sea.c line 139                (5.1)
/// S-lock on RW-latch at 0x905d33d0 '&new_index->lock'                                        (XtraDB 5.1)
/// X-lock (wait_ex) on RW-latch at 0x1635a00 created in file dict0dict.cc line 900            (5.6)
/// SX-lock on RW-latch at 0x7f4b created in file dict0dict.cc line 2508                       (5.7 and later)
/// Mutex at 0x2ac0 created file srv/srv0srv.c line 1049, lock var 1                           (up to 5.6)
/// Mutex at 0xf89ab0 '&kernel_mutex', lock var 1                                              (XtraDB 5.1)
/// Mutex at 0x2ac0, Mutex DICT_SYS created dict0dict.cc:1172, lock var 1                      (5.7)
/// Mutex at 0x2ac0, Mutex TRX_SYS created trx0sys.cc:588, locked by 140301                    (8.0; or `nobody`)
/// ```
fn latch(line: &str, wait: &mut SemaphoreWait) -> bool {
    let (kind, rest) = if let Some([request, rest]) = values(line, "{} on RW-latch at {}") {
        let kind = match request {
            "S-lock" => SemaphoreKind::Shared,
            "X-lock" => SemaphoreKind::Exclusive,
            "X-lock (wait_ex)" => SemaphoreKind::WaitExclusive,
            "SX-lock" => SemaphoreKind::SharedExclusive,
            _ => return false,
        };
        (kind, rest)
    } else if let Some([rest]) = values(line, "Mutex at {}") {
        (SemaphoreKind::Mutex, rest)
    } else {
        return false;
    };
    wait.kind = kind;
    let end = rest.find([' ', ',']).unwrap_or(rest.len());
    wait.address = rest[..end].to_owned();
    let rest = rest[end..].trim_start_matches([',', ' ']);
    // What follows the identity: `, lock var 1`, `, locked by 140301`.
    let identity = rest.split(", lock").next().unwrap_or_default();
    if let Some([thread]) = values(&rest[identity.len()..], ", locked by {}") {
        wait.holder_pthread_id = whole(thread);
    }
    let created =
        identity.strip_prefix("created in file ").or_else(|| identity.strip_prefix("created file "));
    if let Some([file, created_line]) = created.and_then(|text| values(text, "{} line {}")) {
        wait.created_file = file_name(file);
        wait.created_line = created_line.parse().ok();
    } else if let Some(name) = identity.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        wait.name = name.to_owned();
    } else {
        let identity = identity.strip_prefix("Mutex ").unwrap_or(identity);
        let (name, created) = identity.split_once(" created ").unwrap_or((identity, ""));
        wait.name = name.to_owned();
        if let Some((file, created_line)) = created.rsplit_once(':') {
            wait.created_file = file_name(file);
            wait.created_line = created_line.parse().ok();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Semaphores {
        let mut unknown = Unknown::default();
        let section = parse(&text.lines().collect::<Vec<_>>(), &mut unknown);
        assert_eq!(unknown.lines, Vec::<String>::new());
        section
    }

    fn only_waiter(text: &str) -> SemaphoreWait {
        let mut waiters = read(text).waiters;
        assert_eq!(waiters.len(), 1);
        waiters.remove(0)
    }

    #[test]
    fn mysql_5_6_a_writer_waits_for_readers() {
        let wait = only_waiter(
            "--Thread 139964610234112 has waited at srv0srv.cc line 2132 for 14.00 seconds the semaphore:
X-lock (wait_ex) on RW-latch at 0x1635a00 created in file dict0dict.cc line 900
a writer (thread id 139964610234112) has reserved it in mode  wait exclusive
number of readers 1, waiters flag 0, lock_word: ffffffffffffffff
Last time read locked in file row0purge.cc line 720
Last time write locked in file /build/storage/innobase/srv/srv0srv.cc line 2132",
        );
        assert_eq!(wait.kind, SemaphoreKind::WaitExclusive);
        assert_eq!((wait.at_file.as_str(), wait.at_line), ("srv0srv.cc", 2132));
        assert_eq!((wait.created_file.as_str(), wait.created_line), ("dict0dict.cc", Some(900)));
        assert_eq!((wait.waited_s, wait.readers), (14.0, Some(1)));
        assert_eq!(wait.held_mode.as_deref(), Some("wait exclusive"));
        assert_eq!(wait.holder_pthread_id, None, "nobody waits for oneself");
    }

    #[test]
    fn mysql_5_7_pads_whole_seconds_and_names_mutexes() {
        let wait = only_waiter(
            "--Thread 140301 has waited at dict0dict.cc line 1172 for 3  seconds the semaphore:
Mutex at 0x7fba0f0, Mutex DICT_SYS created dict0dict.cc:1172, lock var 1",
        );
        assert_eq!(wait.kind, SemaphoreKind::Mutex);
        assert_eq!(wait.waited_s, 3.0);
        assert_eq!(
            (wait.name.as_str(), wait.created_file.as_str(), wait.created_line),
            ("DICT_SYS", "dict0dict.cc", Some(1172))
        );
        assert_eq!((wait.address.as_str(), wait.holder_pthread_id), ("0x7fba0f0", None));
    }

    #[test]
    fn mysql_9_7_shows_who_has_the_mutex() {
        let section = read(
            "OS WAIT ARRAY INFO: reservation count 18211
--Thread 140041028323008 has waited at log0write.cc line 971 for 0 seconds the semaphore:
Mutex at 0x555558275240, Mutex LOG_WRITER created log0log.cc:625, locked by 140040993449664

--Thread 140040954349248 has waited at lock0priv.h line 1045 for 0 seconds the semaphore:
Mutex at 0x55556a348290, Mutex LOCK_SYS_PAGE created lock0latches.cc:104, locked by nobody

OS WAIT ARRAY INFO: signal count 10894
RW-shared spins 0, rounds 0, OS waits 0
RW-excl spins 0, rounds 0, OS waits 0
RW-sx spins 0, rounds 0, OS waits 0
Spin rounds per wait: 0.00 RW-shared, 0.00 RW-excl, 0.00 RW-sx",
        );
        assert_eq!((section.reservations, section.signals), (Some(18_211), Some(10_894)));
        assert_eq!(section.rw_sx, SpinCounts::default(), "dead counters are not zeros");
        let [log, lock] = section.waiters.as_slice() else { panic!("{section:?}") };
        assert_eq!((log.name.as_str(), log.holder_pthread_id), ("LOG_WRITER", Some(140_040_993_449_664)));
        assert_eq!((lock.name.as_str(), lock.holder_pthread_id), ("LOCK_SYS_PAGE", None));
    }

    #[test]
    fn mysql_9_7_names_the_only_reader() {
        let section = read(
            "--Thread 140040955406016 has waited at row0upd.cc line 3066 for 0 seconds the semaphore:
X-lock (wait_ex) on RW-latch at 0x7f5de7182358 created in file buf0buf.cc line 853
a writer (thread id 140040955406016) has reserved it in mode wait exclusive
number of readers 1 (thread id 140040951178944), waiters flag 1, lock_word: ffffffffffffffff
Last time read locked in file row0sel.cc line 4910
Last time write locked in file ../../../storage/innobase/row/row0upd.cc line 3066
--Thread 140040933213888 has waited at row0sel.cc line 4910 for 0 seconds the semaphore:
S-lock on RW-latch at 0x7f5de7182358 created in file buf0buf.cc line 853
a writer (thread id 140040955406016) has reserved it in mode wait exclusive
number of readers 1 (thread id 140040951178944), waiters flag 1, lock_word: ffffffffffffffff
wait has ended",
        );
        let [writer, reader] = section.waiters.as_slice() else { panic!("{section:?}") };
        assert_eq!(writer.holder_pthread_id, Some(140_040_951_178_944));
        assert_eq!(reader.holder_pthread_id, Some(140_040_955_406_016));
        assert_eq!((writer.ended, reader.ended), (false, true));
        assert_eq!(writer.readers, Some(1));
    }

    #[test]
    fn reservations_of_several_arrays_are_summed() {
        let section = read(
            "OS WAIT ARRAY INFO: reservation count 30
OS WAIT ARRAY INFO: reservation count 12
OS WAIT ARRAY INFO: signal count 40
RW-shared spins 7, rounds 9, OS waits 2
RW-excl spins 0, rounds 0, OS waits 0",
        );
        assert_eq!((section.reservations, section.signals), (Some(42), Some(40)));
        assert_eq!(section.rw_shared.spins, Some(7));
        assert_eq!(section.rw_excl.spins, Some(0), "a zero beside live counters is a zero");
    }

    #[test]
    fn xtradb_5_1_names_latches_by_their_expression() {
        let wait = only_waiter(
            "--Thread 139960691804496 has waited at row/row0sel.c line 3549 for 9.0000 seconds the semaphore:
S-lock on RW-latch at 0x90075530 '&btr_search_latch'
number of readers 0, waiters flag 0, lock_word: 100000
wait has ended",
        );
        assert_eq!((wait.kind, wait.name.as_str()), (SemaphoreKind::Shared, "&btr_search_latch"));
        assert_eq!((wait.created_file.as_str(), wait.created_line), ("", None));
        assert!(wait.ended);
    }
}
