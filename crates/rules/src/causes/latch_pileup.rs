//! `latch-pileup`: threads wait for seconds for a latch of InnoDB that somebody keeps.

use std::collections::BTreeMap;

use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait, Semaphores};
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{
    Evidence, Finding, InnodbStatus, Remedy, Root, TimeClass, TroubleKind, Unavailable, Window, number,
};

use super::storage_stalled::look_at_the_device;
use crate::draft::Draft;
use crate::logged;
use crate::rank::CRITICAL_FROM;
use crate::sessions::Waiting;
use crate::wait_graph::{is_free, latch_named};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

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
               wait for each other in a ring. A writer that waits for the readers to leave (wait_ex) is printed as the latch's \
               writer: it is no holder, and waits for nobody less than itself. The estimate is a judgement: all of the server from \
               60 s on, and of a ring; a quarter of it below.",
    looks_alike: "Waits of milliseconds are how a busy server works: index-lock, spin-burn, unnamed-wait. Waits for rows and tables \
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
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// No latch is kept for so long by a thread that works: InnoDB warns from 240 s on; a disk that works answers in a tenth of a
/// second. By judgement.
const LONG_S: f64 = 5.0;

/// InnoDB's latches are held for microseconds: who waits for one for two whole seconds is a note. By judgement.
const NOTE_S: f64 = 2.0;

/// From here on the server stands: a quarter of the time in which InnoDB warns. By judgement.
const STANDS_S: f64 = 60.0;

/// The estimates that go with them. By judgement: the text does not say how many sessions are at work.
const ESTIMATES: (f64, f64, f64) = (0.04, 0.25, 1.0);

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

fn stacks_first(window: &Window) -> Remedy {
    let (statement, risk) = if window.is_given() {
        (
            "gdb -p PID -batch -ex 'thread apply all bt' > stacks.txt, before anything else is tried",
            "The server is stopped while gdb reads, for seconds.",
        )
    } else {
        (
            "spindoctor stacks > stacks.txt, on the server's host and before anything else is tried",
            "It only reads; no thread of the server is stopped.",
        )
    };
    Remedy {
        statement: statement.into(),
        why: "What the last of the chain does is in its stack, and in no status.".into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    }
}

/// Who is at the end of the waits.
enum End<'w> {
    /// Threads that wait for each other.
    Ring(Vec<&'w SemaphoreWait>),
    /// The longest wait, and the waits from it to a thread that waits for nobody who is named.
    Chain(Vec<&'w SemaphoreWait>),
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let status = window.need(|sample| &sample.server.innodb_status)?;
    if window.is_given() && status.semaphores == Semaphores::default() {
        return Err(Unavailable::because(
            "the section SEMAPHORES of InnoDB's status is not in what was given",
        ));
    }
    let waits: BTreeMap<u64, &SemaphoreWait> = status
        .semaphores
        .waiters
        .iter()
        .filter(|wait| !wait.ended && !is_free(wait))
        .map(|wait| (wait.pthread_id, wait))
        .collect();
    let chain = |from: &'_ SemaphoreWait| -> (Vec<u64>, bool) {
        let mut seen = vec![from.pthread_id];
        let mut at = from.holder_pthread_id;
        while let Some(holder) = at.filter(|holder| waits.contains_key(holder)) {
            if let Some(place) = seen.iter().position(|one| *one == holder) {
                return (seen.split_off(place), true);
            }
            seen.push(holder);
            at = waits[&holder].holder_pthread_id;
        }
        (seen, false)
    };
    let of = |threads: Vec<u64>| threads.into_iter().map(|thread| waits[&thread]).collect::<Vec<_>>();
    let ring = waits.values().map(|wait| chain(wait)).find(|(_, is_ring)| *is_ring);
    let longest = waits.values().max_by(|one, other| one.waited_s.total_cmp(&other.waited_s));
    let end = match (ring, longest) {
        (Some((threads, _)), _) => End::Ring(of(threads)),
        (None, Some(longest)) if longest.waited_s >= NOTE_S => {
            // Of those that have waited so long, the longest chain says the most.
            let long = waits.values().filter(|wait| wait.waited_s >= NOTE_S);
            let chains = long.map(|wait| chain(wait).0);
            // Of chains as long, one whose end is named.
            let ends_named =
                |chain: &Vec<u64>| chain.last().is_some_and(|last| waits[last].holder_pthread_id.is_some());
            End::Chain(of(chains.max_by_key(|chain| (chain.len(), ends_named(chain))).unwrap_or_default()))
        }
        _ => return Ok(None),
    };
    let longest_s = longest.map_or(0.0, |wait| wait.waited_s);
    let (End::Ring(shown) | End::Chain(shown)) = &end;
    // Of other latches that are wanted for long, one wait each.
    let mut others: Vec<&SemaphoreWait> = Vec::new();
    for wait in waits.values().filter(|wait| wait.waited_s >= NOTE_S) {
        if !shown.iter().chain(&others).any(|one| one.address == wait.address) {
            others.push(wait);
        }
    }
    Ok(Some(finding(window, status, &end, &others, waits.len() as u64, longest_s)))
}

fn finding(
    window: &Window,
    status: &InnodbStatus,
    end: &End<'_>,
    others: &[&SemaphoreWait],
    waiting: u64,
    longest_s: f64,
) -> Finding {
    let is_ring = matches!(end, End::Ring(_));
    let score = match longest_s {
        _ if is_ring => ESTIMATES.2,
        s if s >= STANDS_S => ESTIMATES.2,
        s if s >= LONG_S => ESTIMATES.1.max(standing(window, waiting)),
        _ => ESTIMATES.0.max(standing(window, waiting)),
    };
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
    let mut draft = Draft::new(&CAUSE, score, headline(end, &threads, longest_s))
        .why(why(end, &threads) + &beside)
        .evidence_if(
            io.as_ref().map(|io| Evidence::new("I/O under way", io.clone(), "", "SHOW ENGINE INNODB STATUS")),
        )
        .remedy_if((reads || io.is_some()).then(look_at_the_device))
        .evidence(Evidence::new("threads that wait for a latch", waiting, "", source).expected("0"))
        .evidence(Evidence::new("longest wait", longest_s, "s", source).expected(format!("< {NOTE_S:.0}")));
    for wait in waits.iter().chain(others).take(SHOWN) {
        let at = format!(
            "{} waits at {}:{} for the {}",
            threads.named(wait.pthread_id),
            wait.at_file,
            wait.at_line,
            latch_named(wait)
        );
        let has = match wait.holder_pthread_id {
            Some(holder) => format!("{at}, which {} has", threads.named(holder)),
            None => match wait.readers.filter(|readers| *readers > 0) {
                Some(readers) => format!(
                    "{at}, which {} not named here",
                    number::counted(readers, "reader has,", "readers have,")
                ),
                None => format!("{at}, whose holder is not named"),
            },
        };
        let taken = if wait.locked_at.is_empty() {
            String::new()
        } else {
            format!("; last taken to write at {}", wait.locked_at)
        };
        draft = draft.evidence(Evidence::new("wait", format!("{has}{taken}"), "", source));
    }
    if never_ends {
        draft = draft
            .remedy(Remedy {
                statement: "gdb -p PID -batch -ex 'thread apply all bt' > stacks.txt, then restart the server".into(),
                why: "What waits so can never go on, and no KILL reaches it. Without the stacks the defect cannot be found.".into(),
                dynamic: true,
                risk: "The server recovers as after a crash; a stop in order does not come to an end.".into(),
                undo: String::new(),
            })
            .remedy(Remedy {
                statement: "Report it to those who maintain the server, with the stacks and this text".into(),
                why: "Latches are taken in a fixed order: this is a defect of the server, and a later version may have it mended."
                    .into(),
                dynamic: true,
                ..Remedy::default()
            });
    } else {
        for remedy in chain_remedies(window, waits, session) {
            draft = draft.remedy(remedy);
        }
    }
    draft
        .root(session.map(|session| Root {
            thread_os_id: session.thread_os_id,
            connection_id: session.connection_id,
            user: session.user.clone(),
            statement: session.statement.clone().unwrap_or_default(),
            stack: Vec::new(),
        }))
        .finding()
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

/// The threads of the text by `pthread_self`.
struct Threads<'w> {
    window: &'w Window,
    status: &'w InnodbStatus,
}

impl<'w> Threads<'w> {
    fn connection(&self, pthread: u64) -> Option<u64> {
        let listed = &self.status.transactions.transactions;
        listed.iter().find(|one| one.pthread_id == Some(pthread))?.connection_id
    }

    fn session(&self, pthread: u64) -> Option<&'w ServerThread> {
        let connection = self.connection(pthread)?;
        let threads = self.window.latest(|sample| &sample.server.threads)?;
        threads.iter().find(|thread| thread.connection_id == Some(connection))
    }

    /// The same at the beginning of a sentence.
    fn first_named(&self, pthread: u64) -> String {
        let named = self.named(pthread);
        match named.split_at_checked(1) {
            Some((first, rest)) => first.to_uppercase() + rest,
            None => named,
        }
    }

    /// `connection 14075`, `thread 139998697924352`
    fn named(&self, pthread: u64) -> String {
        match self.connection(pthread) {
            Some(connection) => format!("connection {connection}"),
            None => format!("thread {pthread}"),
        }
    }
}

fn headline(end: &End<'_>, threads: &Threads<'_>, longest_s: f64) -> String {
    match end {
        End::Ring(waits) => format!(
            "{} threads wait for each other's latches ({}): only a restart frees them",
            waits.len(),
            waits.iter().map(|wait| latch_named(wait)).collect::<Vec<_>>().join(" and ")
        ),
        End::Chain(waits) => {
            let (Some(first), Some(last)) = (waits.first(), waits.last()) else { return String::new() };
            let waited = number::duration(longest_s);
            let end = match (last.holder_pthread_id, waits.len()) {
                (Some(holder), _) => format!(", which {} has", threads.named(holder)),
                (None, 1) if reads_its_page(last) => {
                    format!(
                        ": {} reads that page from disk, and the read does not end",
                        threads.named(last.pthread_id)
                    )
                }
                (None, 1) if has_itself(last) => {
                    format!(
                        ", which {} wants and has itself: it never gets it",
                        threads.named(last.pthread_id)
                    )
                }
                (None, 1) => ", whose holder the text does not name".to_owned(),
                (None, _) if reads_its_page(last) => format!(
                    "; {}, behind which they wait, reads a page from disk, and the read does not end",
                    threads.named(last.pthread_id)
                ),
                (None, _) if has_itself(last) => format!(
                    "; {}, behind which they wait, wants the {} and has it itself: it never gets it",
                    threads.named(last.pthread_id),
                    latch_named(last)
                ),
                (None, _) => format!(
                    "; {}, behind which they wait, itself waits for the {}",
                    threads.named(last.pthread_id),
                    latch_named(last)
                ),
            };
            format!("{waited} of waiting for the {}{end}", latch_named(first))
        }
    }
}

/// True for a thread that waits for a latch which it has reserved itself, as the text prints it: who waits for readers has the mode
/// `wait exclusive`.
fn has_itself(wait: &SemaphoreWait) -> bool {
    wait.holder_pthread_id.is_none()
        && wait.held_mode.as_deref().is_some_and(|mode| mode.trim() == "exclusive")
        && wait.readers == Some(0)
}

/// True for one that has begun to read a page and waits for its end: the latch of a page that is read is taken for the read, in the name
/// of who began it, and given back when the read has ended (buf0buf.cc, buf_wait_for_read).
fn reads_its_page(wait: &SemaphoreWait) -> bool {
    has_itself(wait)
        && wait.kind == SemaphoreKind::Shared
        && [&wait.created_file, &wait.at_file].iter().all(|file| file.starts_with("buf0buf"))
}

/// I/O of files that the text shows under way: `18 reads, 1 write`.
fn io_under_way(status: &InnodbStatus) -> Option<String> {
    let (pool, io) = (&status.buffer_pool, &status.file_io);
    let pages = [pool.pending_flush_list_writes, pool.pending_lru_writes, pool.pending_single_page_writes];
    let kinds = [
        (pool.pending_reads.unwrap_or(0).max(io.pending_reads.unwrap_or(0)), "read", "reads"),
        (io.pending_writes.unwrap_or(0).max(pages.into_iter().flatten().sum()), "page write", "page writes"),
        (
            status.log.pending_writes.unwrap_or(0).max(io.pending_log_fsyncs.unwrap_or(0)),
            "flush of the redo log",
            "flushes of the redo log",
        ),
        (io.pending_data_fsyncs.unwrap_or(0), "sync of a data file", "syncs of data files"),
    ];
    let counted = kinds.iter().filter(|(count, ..)| *count > 0);
    let under_way: Vec<String> =
        counted.map(|&(count, one, many)| number::counted(count, one, many)).collect();
    (!under_way.is_empty()).then(|| under_way.join(", "))
}

fn why(end: &End<'_>, threads: &Threads<'_>) -> String {
    match end {
        End::Ring(_) => "Each has the latch that the next one wants. InnoDB takes latches in a fixed order, so that this cannot \
                         happen: it is a defect of the server."
            .to_owned(),
        End::Chain(waits) => match waits.last() {
            Some(last) => match (last.holder_pthread_id, last.readers.filter(|readers| *readers > 0)) {
                (Some(holder), _) => format!(
                    "{} keeps the latch and waits for no other latch: what it does meanwhile, its stack says.",
                    threads.first_named(holder)
                ),
                (None, Some(readers)) => format!(
                    "{} wants the latch alone and waits until {} it. The text does not name readers, so who keeps all \
                     others is not known: stacks of all threads would show it.",
                    threads.first_named(last.pthread_id),
                    number::counted(readers, "reader leaves", "readers leave")
                ),
                (None, None) if reads_its_page(last) => "Who reads a page has its latch until the read has ended, and everyone who wants \
                                                         that page, or a latch that the reader has, waits with it: the disk does not \
                                                         answer, or its driver has lost the request."
                    .to_owned(),
                (None, None) if has_itself(last) => "A thread that waits for a latch which it has never goes on, and no KILL reaches it: a \
                                                     defect of the server. InnoDB ends the server after 600 s."
                    .to_owned(),
                (None, None) => "The text does not name who has it; stacks of all threads would.".to_owned(),
            },
            None => String::new(),
        },
    }
}

fn chain_remedies(window: &Window, waits: &[&SemaphoreWait], session: Option<&ServerThread>) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let statement =
        session.and_then(|session| session.statement.as_deref()).unwrap_or_default().to_ascii_lowercase();
    let is_old = window.server.version.is_none_or(|version| !version.mysql_at_least(8, 0, 0));
    let reads_statistics =
        ["information_schema.tables", "information_schema.statistics", "show table status", "show index"];
    if is_old && reads_statistics.iter().any(|table| statement.contains(table)) {
        remedies.push(Remedy {
            statement: "SET GLOBAL innodb_stats_on_metadata = OFF".into(),
            why: "The statement at the end of the chain asks information_schema for the sizes of all tables: with ON InnoDB opens each \
                  and counts its statistics again, under its dictionary's latch. Ask rarely, and not from a monitor."
                .into(),
            dynamic: true,
            risk: "Statistics are as old as the last ANALYZE TABLE or the server's own update.".into(),
            undo: "SET GLOBAL innodb_stats_on_metadata = ON".into(),
        });
    }
    if waits.iter().any(|wait| wait.created_file.starts_with("btr0sea")) {
        remedies.push(Remedy {
            statement: "SET GLOBAL innodb_adaptive_hash_index = OFF".into(),
            why: "The latch at the end of the chain is that of the adaptive hash index: without the index nobody wants it. It helps \
                  after a restart: now the statement would wait for the same latch."
                .into(),
            dynamic: true,
            risk: "Lookups by equal keys become slower where the index served them well.".into(),
            undo: "SET GLOBAL innodb_adaptive_hash_index = ON".into(),
        });
    }
    remedies.push(stacks_first(window));
    remedies
}

#[cfg(test)]
pub(crate) mod examples {

    use super::*;
    use crate::testing::{Build, answer};

    fn wait(pthread_id: u64, holder: Option<u64>, waited_s: f64) -> SemaphoreWait {
        SemaphoreWait {
            pthread_id,
            holder_pthread_id: holder,
            waited_s,
            kind: SemaphoreKind::Exclusive,
            readers: Some(u64::from(holder.is_none())),
            held_mode: Some("exclusive".into()),
            created_file: "dict0dict.cc".into(),
            created_line: Some(1183),
            ..SemaphoreWait::default()
        }
    }

    fn waits(waiters: &[SemaphoreWait]) -> Window {
        let waiters = waiters.to_vec();
        Build::busy("5.7.40")
            .each(move |at_s, server, _| {
                let semaphores = Semaphores { waiters: waiters.clone(), ..Semaphores::default() };
                server.innodb_status = answer(at_s, InnodbStatus { semaphores, ..InnodbStatus::default() });
            })
            .window()
    }

    pub(crate) fn fires() -> Window {
        waits(&[wait(1, Some(2), 934.0), wait(2, None, 934.0)])
    }

    /// A busy server.
    pub(crate) fn near_miss() -> Window {
        waits(&[wait(1, Some(2), 1.0), wait(3, Some(2), 0.0)])
    }

    pub(crate) fn missing() -> Window {
        Build::busy("5.7.40")
            .each(|_, server, _| server.innodb_status = spindoctor_model::Reading::NotAsked)
            .window()
    }

    fn found(window: &Window) -> Finding {
        match CAUSE.evaluate(window, None) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_latch_that_the_waiter_has_itself_is_a_read_that_does_not_end_or_a_defect() {
        let itself = |kind, at_file: &str| SemaphoreWait {
            kind,
            at_file: at_file.into(),
            created_file: "buf0buf.cc".into(),
            readers: Some(0),
            ..wait(1, None, 412.0)
        };
        let defect = found(&waits(&[itself(SemaphoreKind::Exclusive, "ibuf0ibuf.cc")]));
        assert!(
            defect.headline.ends_with("thread 1 wants and has itself: it never gets it"),
            "{}",
            defect.headline
        );
        assert!(defect.remedies[0].statement.ends_with("then restart the server"), "{:?}", defect.remedies);
        let read = found(&waits(&[itself(SemaphoreKind::Shared, "buf0buf.cc")]));
        assert!(
            read.headline.ends_with("reads that page from disk, and the read does not end"),
            "{}",
            read.headline
        );
        assert_eq!(read.remedies[0].statement, look_at_the_device().statement);
        // A writer that waits until readers leave is printed as the latch's writer, too.
        let waits_for_readers = SemaphoreWait {
            held_mode: Some("wait exclusive".into()),
            ..itself(SemaphoreKind::WaitExclusive, "x.cc")
        };
        assert!(!found(&waits(&[waits_for_readers])).headline.contains("itself"));
    }

    #[test]
    fn io_under_way_beside_a_latch_that_is_kept_for_long_is_said() {
        let with_io = |waited_s| {
            let window = waits(&[wait(1, None, waited_s)]);
            let mut window = window;
            for sample in &mut window.samples {
                if let spindoctor_model::Reading::Available { value, .. } = &mut sample.server.innodb_status {
                    value.file_io.pending_reads = Some(18);
                }
            }
            found(&window)
        };
        let long = with_io(14.0);
        assert!(long.why.contains("18 reads were under way"), "{}", long.why);
        assert_eq!(long.remedies[0].statement, look_at_the_device().statement);
        assert!(!with_io(3.0).why.contains("under way"));
    }

    #[test]
    fn a_log_that_ends_with_a_long_wait_is_enough() {
        let mut window = missing();
        let line = "[ERROR] [FATAL] InnoDB: innodb_fatal_semaphore_wait_threshold was exceeded for dict_sys.latch. Please";
        let kind = TroubleKind::LatchWait;
        window.error_log = vec![spindoctor_model::LoggedTrouble {
            kind,
            times: 1,
            before_end_s: Some(0.0),
            line: line.into(),
            ..Default::default()
        }];
        assert_eq!(found(&window).headline, "Threads waited for minutes for InnoDB's dictionary latch");
        window.error_log[0].before_end_s = Some(90_000.0);
        assert!(matches!(CAUSE.evaluate(&window, None), Outcome::NotEnoughEvidence(_)), "it is long over");
    }

    #[test]
    fn a_chain_ends_at_the_latch_whose_readers_nobody_names() {
        let finding = found(&fires());
        assert!(
            finding.headline.contains("thread 2, behind which they wait, itself waits"),
            "{}",
            finding.headline
        );
        assert!(finding.why.contains("1 reader leaves"), "{}", finding.why);
    }

    /// gdb stops a server; where spindoctor can look itself, nobody is sent to it.
    #[test]
    fn a_server_that_runs_is_not_stopped_for_its_stacks() {
        let last = |window: &Window| found(window).remedies.pop().unwrap();
        let mut window = fires();
        assert!(!window.is_given());
        assert!(last(&window).statement.starts_with("spindoctor stacks"), "{:?}", last(&window));
        assert!(last(&window).risk.contains("no thread"));
        window.server.no_pid = Some(Unavailable::because(spindoctor_model::window::NOT_GIVEN));
        assert!(last(&window).statement.starts_with("gdb"), "{:?}", last(&window));
    }

    #[test]
    fn a_ring_needs_a_restart_whatever_the_waits_take() {
        let finding = found(&waits(&[wait(1, Some(2), 0.0), wait(2, Some(1), 0.0)]));
        assert!(
            finding.headline.contains("2 threads wait for each other") && finding.score >= 1.0,
            "{}",
            finding.headline
        );
        assert!(finding.remedies[0].statement.contains("restart"), "{:?}", finding.remedies);
        // A third that waits for one of them is in no ring, and does not hide it.
        let finding = found(&waits(&[wait(3, Some(1), 9.0), wait(1, Some(2), 0.0), wait(2, Some(1), 0.0)]));
        assert!(finding.headline.starts_with("2 threads"), "{}", finding.headline);
    }
}
