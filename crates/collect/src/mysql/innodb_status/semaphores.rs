//! Section SEMAPHORES: what was waited for so far, and who waits now.

use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait, Semaphores, SpinCounts};

use super::Unknown;
use super::line::{file_name, numbers, squeeze, values, whole};

/// Lines that are known and say nothing that is kept.
const NOT_READ: &[&str] = &[
    "Last time read locked in file ",
    "Last time write locked in file ",
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
            let told = section.waiters.last_mut().is_some_and(|wait| detail(&line, wait));
            if !told && !line.is_empty() && !NOT_READ.iter().any(|start| line.starts_with(start)) {
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
fn detail(line: &str, wait: &mut SemaphoreWait) -> bool {
    // a writer (thread id 1220999488) has reserved it in mode  exclusive
    if let Some([thread, mode]) = values(line, "a writer (thread id {}) has reserved it in mode {}") {
        wait.holder_pthread_id = whole(thread);
        wait.held_mode = Some(mode.to_owned());
        return wait.holder_pthread_id.is_some();
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
