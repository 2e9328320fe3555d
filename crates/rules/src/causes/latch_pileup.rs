//! `latch-pileup`: threads wait for seconds for a latch of InnoDB that somebody keeps.

mod chain;
mod meaning;
mod remedies;
#[cfg(test)]
mod tests;
mod threads;

use spindoctor_model::innodb_status::Semaphores;
use spindoctor_model::{Evidence, Finding, InnodbStatus, Root, TimeClass, TroubleKind, Unavailable, Window};

use super::storage_stalled::look_at_the_device;
use crate::draft::Draft;
use crate::logged;
use crate::pending_io::{self, PendingIo};
use crate::rank::CRITICAL_FROM;
use crate::sessions::Waiting;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use chain::{End, Waits, has_itself, reads_its_page};
use meaning::{headline, why};
use remedies::{for_a_chain, for_a_defect, stacks_first};
use threads::Threads;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "latch-pileup",
    title: "threads wait for seconds for a latch of InnoDB that somebody keeps",
    what: "Mutexes and rw-locks of InnoDB protect its structures in memory and are kept for microseconds. One that is kept for \
           seconds has a holder that waits for something else: for a disk, for another latch, for pages that nobody frees. Two \
           threads that each have what the other wants never go on: that is a defect of the server.",
    why_it_hurts: "A thread that needs the latch waits, and keeps the latches that it has already. Within seconds the whole server \
                   stands. After 600 s InnoDB ends the server on purpose.",
    evidence: "The section SEMAPHORES of SHOW ENGINE INNODB STATUS, which the error log prints, too, when a wait is long: who waits \
               for which latch for how long, and who has it. It fires where a thread has waited for 5 s or more (from 2 s on it is a note), or where threads \
               wait for each other in a ring: of a live server for 2 s or more each, because its list is written thread by thread while \
               latches change hands. A writer that waits for the readers to leave (wait_ex) is printed as the latch's \
               writer: it is no holder, and waits for nobody less than itself. The estimate is a judgement: all of the server from \
               60 s on, and of a ring; a quarter of it below.",
    looks_alike: "Waits of milliseconds are how a busy server works, and a queue where there are many: index-lock, \
                  rollback-segment-contention, transaction-system-contention, buffer-pool-latch-contention, spin-burn, unnamed-wait. \
                  Waits for rows and tables \
                  are locks of transactions and stand in another section: row-lock-pileup, metadata-lock-pileup. Where no I/O \
                  ends the holder waits for its disk: storage-stalled.",
    remedies: "Look at what the holder at the end of the chain does. A statement that can be done without (a monitor's look at \
               information_schema) is ended and not run again. Of a ring nothing but a restart frees the server: take the stacks \
               of all threads first, and send them with the text to those who maintain the server.",
    safety: "spindoctor takes stacks without stopping a thread. gdb stops the server while it reads them, which does no harm to one that \
             stands. KILL frees nobody while its thread waits for a latch. A restart recovers as after a crash.",
    references: &[
        "MySQL Reference Manual: InnoDB Standard Monitor and Lock Monitor Output (SEMAPHORES)",
        "MySQL source, storage/innobase/sync/sync0arr.cc (sync_array_print_long_waits, sync_array_detect_deadlock)",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[TimeClass::Latch, TimeClass::Mutex],
    stacks: Stacks::Standing(&["sync_array_wait_event"]),
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// No latch is kept for so long by a thread that works: InnoDB warns from 240 s on; a disk that works answers in a tenth of a
/// second. By judgement.
pub(crate) const LONG_S: f64 = 5.0;

/// InnoDB's latches are held for microseconds: who waits for one for two whole seconds is a note. By judgement.
const NOTE_S: f64 = 2.0;

/// From here on the server stands: a quarter of the time in which InnoDB warns. By judgement.
const STANDS_S: f64 = 60.0;

/// The estimates that go with them. By judgement: the text does not say how many sessions are at work.
const ESTIMATES: (f64, f64, f64) = (0.04, 0.25, 1.0);

/// True where a thread has waited for so long that its latch is kept, and does not go from hand to hand.
pub(crate) fn is_long(window: &Window) -> bool {
    let status = window.latest(|sample| &sample.server.innodb_status);
    status.is_some_and(|status| Waits::from_status(status).longest_s() >= LONG_S)
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

/// What an error log ends with, of which the waits themselves are not printed: MariaDB names the latch alone.
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::LatchWait)?;
    let latch =
        trouble.line.split_once(" for ").map(|(_, latch)| latch.split(['.', ' ']).next().unwrap_or_default());
    let latch = match latch {
        Some("dict_sys") => "InnoDB's dictionary latch",
        Some("lock_sys") => "the latch of InnoDB's locks",
        _ => "a latch of InnoDB",
    };
    Some(
        Draft::new(&CAUSE, CRITICAL_FROM, format!("Threads waited for minutes for {latch}"))
            .why("The log does not say who had it. What that thread did meanwhile, stacks of all threads would say, taken while it \
                  lasts: a disk that does not answer, or a defect of the server.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(stacks_first(window))
            .finding(),
    )
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let status = window.need(|sample| &sample.server.innodb_status)?;
    if window.is_given() && status.semaphores == Semaphores::default() {
        return Err(Unavailable::because(
            "the section SEMAPHORES of InnoDB's status is not in what was given",
        ));
    }
    let waits = Waits::from_status(status);
    Ok(waits.end(window.is_given()).map(|end| finding(window, status, &waits, &end)))
}

fn finding(window: &Window, status: &InnodbStatus, all: &Waits<'_>, end: &End<'_>) -> Finding {
    let longest_s = all.longest_s();
    let is_ring = matches!(end, End::Ring(_));
    let (End::Ring(waits) | End::Chain(waits)) = end;
    let threads = Threads { window, status };
    let source = "SHOW ENGINE INNODB STATUS, SEMAPHORES";
    let last = waits.last();
    let holder = last.and_then(|wait| wait.holder_pthread_id);
    let culprit =
        holder.filter(|_| !is_ring).or_else(|| last.map(|wait| wait.pthread_id).filter(|_| !is_ring));
    let session = culprit.and_then(|pthread| threads.session(pthread));
    let never_ends = is_ring || last.is_some_and(|wait| has_itself(wait) && !reads_its_page(wait));
    let reads = last.is_some_and(|wait| reads_its_page(wait));
    // A latch that is kept for seconds, and I/O under way meanwhile: most likely the disk.
    let io = io_under_way(status).filter(|_| longest_s >= LONG_S && !never_ends);
    let beside = io.as_ref().map_or_else(String::new, |io| {
        format!(
            " When this was printed {io} {} under way: a disk that does not answer keeps latches for so long.",
            if io.starts_with("1 ") && !io.contains(',') { "was" } else { "were" }
        )
    });
    let score = score(window, is_ring, all.count(), longest_s);
    Draft::new(&CAUSE, score, headline(end, &threads, longest_s))
        .why(why(end, &threads) + &beside)
        .evidence_if(
            io.as_ref().map(|io| Evidence::new("I/O under way", io.clone(), "", "SHOW ENGINE INNODB STATUS")),
        )
        .remedy_if((reads || io.is_some()).then(look_at_the_device))
        .evidence(Evidence::new("threads that wait for a latch", all.count(), "", source).expected("0"))
        .evidence(Evidence::new("longest wait", longest_s, "s", source).expected(format!("< {NOTE_S:.0}")))
        .evidence_all(
            waits
                .iter()
                .copied()
                .chain(all.of_other_latches(waits))
                .take(SHOWN)
                .map(|wait| Evidence::new("wait", threads.sentence(wait), "", source)),
        )
        .remedies(if never_ends { for_a_defect() } else { for_a_chain(window, waits, session) })
        .root(session.map(|session| Root {
            thread_os_id: session.thread_os_id,
            connection_id: session.connection_id,
            user: session.user.clone(),
            statement: session.statement.clone().unwrap_or_default(),
            stack: Vec::new(),
        }))
        .finding()
}

fn score(window: &Window, is_ring: bool, waiting: u64, longest_s: f64) -> f64 {
    match longest_s {
        _ if is_ring => ESTIMATES.2,
        s if s >= STANDS_S => ESTIMATES.2,
        s if s >= LONG_S => ESTIMATES.1.max(standing(window, waiting)),
        _ => ESTIMATES.0.max(standing(window, waiting)),
    }
}

/// Threads that wait for latches in a capture, from which on they are a queue. By judgement.
const QUEUE: u64 = 4;

/// Of what somebody captured: the part of the sessions at work that stand in such a queue. A live server's list is read at another
/// moment.
fn standing(window: &Window, waiting: u64) -> f64 {
    let at_work = Waiting::count(window, |_| false).map_or(0.0, |all| all.at_work_mean);
    match window.is_given() && waiting >= QUEUE && at_work >= 1.0 {
        true => (waiting as f64 / at_work).min(1.0),
        false => 0.0,
    }
}

/// Waits of a chain that are shown.
const SHOWN: usize = 6;

/// I/O of files that the text shows under way: `18 reads, 1 write`.
fn io_under_way(status: &InnodbStatus) -> Option<String> {
    let io = PendingIo::from_status(status);
    let page_writes = io.page_writes.at_least(io.file_writes);
    let under_way = pending_io::named(&[io.reads, page_writes, io.log_flushes, io.data_syncs]);
    (!under_way.is_empty()).then(|| under_way.join(", "))
}
