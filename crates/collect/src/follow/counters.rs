//! What the probe reads from the memory of a MySQL server, instead of asking for it by SQL ten times a second.
//!
//! By SQL a handful of counters takes MySQL 9.7 1 to 1.5 ms of CPU time with 1,000 connections, and more with more: it adds
//! up all counters of all sessions, and InnoDB's. The few that the probe needs are words of the server's memory, which take
//! it nothing and the probe some microseconds.
//!
//! In: the server's process, and answers of the server, each with its memory just before and just after. Out: [`Counters`],
//! which reads the words once it is known where they are. Two of them are exported symbols: how many statements there were
//! (`Queries` is the number of the statement that asks), and `Threads_connected`. The others are within objects that
//! exported pointers lead to, at places that differ from release to release, and are found by agreement: a place at which
//! the memory held no more before an answer than the server said, and no less after it, answer after answer.
//!
//! - `Threads_running` is followed by the number of threads that were ever made (`Threads_created`) and by that of the next
//!   connection (`Connections`): `Global_THD_manager` of MySQL 5.7 to 9.7, sql/mysqld_thd_manager.h. Those two are looked for.
//! - The redo log's end is counted without the heads and tails of its blocks (`log_t::sn`, MySQL 8.0.12 to 9.7,
//!   storage/innobase/include/log0types.h), with the highest bit as a lock; its last checkpoint is counted with them.
//!
//! The server goes on to be asked now and then, and what no longer agrees is looked for again. `Handler_commit` is no word
//! in memory: each session has its own. The samples have it, once a second. Where the memory cannot be read (another host,
//! no right, MariaDB), or where the server does not say where its log ends, so that its memory would show no commit at all, the
//! server is asked for everything, each time.

use std::time::{Duration, Instant};

use spindoctor_model::{Probe, ServerVersion};
use spindoctor_stacks::process_memory;

use super::symbols::Symbols;
use crate::host;
use crate::mysql::Rows;

/// So many answers must agree with a place.
const ENOUGH_ANSWERS: u32 = 5;
/// And after so many more than one place that holds how many run is none.
const MOST_ANSWERS: u32 = 600;
/// What was found is held against the server's own answer this often;
const CHECKED_EVERY: Duration = Duration::from_secs(10);
/// and this often while more than one place agrees: on a server that writes nothing many do.
const UNSURE_CHECKED_EVERY: Duration = Duration::from_secs(2);
/// So many answers in a row with which no place agrees: the counters are elsewhere.
const MOST_MISSED: u32 = 5;
/// Where they are not known, it is looked again after this long: the symbols may be found, or another process may be the server.
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(1);
/// So often nothing agreed at all: this server's memory is not as it is known here.
const MOST_FAILURES: u32 = 3;
/// Bytes of an object that are looked through: `Global_THD_manager` has 9,196 (9.7.4), `log_t` less than that.
const OBJECT_BYTES: usize = 16 << 10;
/// A word that is a counter does not grow by more than this while a question is answered.
const MOST_GROWN: u64 = 1 << 30;
/// What a server says of its log's end is late by this much at most, bytes: 36,061 were seen of 9.7.4.
const MOST_LATE: u64 = 128 << 10;
/// The lock's bit of `log_t::sn`.
const SN_LOCKED: u64 = 1 << 63;
/// Blocks of the redo log: bytes in all, and those of the head and of both head and tail (log0constants.h).
const BLOCK: u64 = 512;
const BLOCK_HEAD: u64 = 12;
const BLOCK_FRAME: u64 = 16;
/// More threads than connections: those of the server itself that run statements, such as an event's.
const MORE_RUNNING: u32 = 1_000;

/// From this version on a server says where its redo log ends (`Innodb_redo_log_current_lsn`).
pub(super) const SAYS_LOG: (u16, u16, u16) = (8, 0, 30);

/// The exported symbols with their sizes: MySQL 8.0 to 9.7.
const SYMBOLS: [(&str, u64); 4] = [
    ("atomic_global_query_id", 8),
    ("_ZN26Connection_handler_manager16connection_countE", 4),
    ("_ZN18Global_THD_manager11thd_managerE", 8),
    ("log_sys", 8),
];

/// A server's counters, as they are in its memory now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    /// `Queries`.
    queries: u64,
    /// `Threads_connected`.
    connected: u64,
    /// `Threads_running`, and nobody who asks is among them.
    running: u64,
    /// Bytes of redo between the last checkpoint and now.
    checkpoint_age_bytes: u64,
}

/// Where the symbols of the server are that the probe asks, in one session after the other.
pub(super) type CounterSymbols = Symbols<{ SYMBOLS.len() }>;

/// Those of no server yet.
pub(super) fn symbols() -> CounterSymbols {
    Symbols::new(SYMBOLS)
}

/// The counters of the server that one session of the probe asks, where they are to be read in its memory.
#[derive(Debug)]
pub(super) struct Memory {
    counters: Option<Counters>,
    /// When they are looked for; none where that is of no use.
    again: Option<Instant>,
}

impl Memory {
    /// Of a server of this version. Nothing is looked for yet.
    pub(super) fn of_version(version: ServerVersion) -> Self {
        let (major, minor, patch) = SAYS_LOG;
        let again = version.mysql_at_least(major, minor, patch).then(Instant::now);
        Self { counters: None, again }
    }

    /// True where the counters are read in memory now, so that the server need not be asked for them.
    pub(super) fn is_enough(&self, now: Instant) -> bool {
        self.counters.as_ref().is_some_and(|counters| !counters.is_due(now))
    }

    /// True where the server is asked for the counters now and then only.
    pub(super) fn is_known(&self) -> bool {
        self.counters.as_ref().is_some_and(Counters::are_known)
    }

    /// The memory before the server is asked; none where it is not to be looked at. `process`: the server's.
    pub(super) fn before(
        &mut self,
        symbols: &mut CounterSymbols,
        process: impl FnOnce() -> Option<host::Target>,
    ) -> Option<Image> {
        let now = Instant::now();
        if self.counters.is_none() && self.again.is_some_and(|again| again <= now) {
            self.again = Some(now + LOOKED_FOR_EVERY);
            self.counters = process().and_then(|process| Counters::of_process(&process, symbols));
        }
        let image = self.counters.as_ref()?.image();
        if image.is_none() {
            self.forget();
        }
        image
    }

    /// The server was asked, and has answered: what its memory was before is held against it. The probe is as it was read
    /// from the answer.
    pub(super) fn answered(
        &mut self,
        symbols: &mut CounterSymbols,
        rows: &Rows,
        before: &Image,
        probe: &mut Probe,
    ) {
        let Some(counters) = &mut self.counters else { return };
        let Some(said) = Said::in_rows(rows) else { return self.give_up(symbols) };
        let Some(after) = counters.image() else { return self.forget() };
        counters.agree(&said, before, &after, Instant::now());
        if counters.are_given_up() {
            self.give_up(symbols);
        } else if counters.are_known() {
            // There are none in the probes that read memory.
            probe.commits = None;
        }
    }

    /// What the counters are now; `own` of the threads that run are spindoctor's. They stay unread where the memory cannot be
    /// read any more: the next probe asks the server.
    pub(super) fn read(&mut self, own: u64, probe: &mut Probe) {
        let Some(counted) = self.counters.as_ref().and_then(Counters::read) else { return self.forget() };
        probe.threads_running = Some(counted.running.saturating_sub(own));
        probe.threads_connected = Some(counted.connected);
        probe.questions = Some(counted.queries);
        probe.checkpoint_age_bytes = Some(counted.checkpoint_age_bytes);
    }

    /// How many threads run now, `own` of which are spindoctor's; none where that is not known.
    pub(super) fn running(&self, own: u64) -> Option<u64> {
        let counted = self.counters.as_ref().and_then(Counters::read)?;
        Some(counted.running.saturating_sub(own))
    }

    /// They are looked for again after a while.
    fn forget(&mut self) {
        (self.counters, self.again) = (None, Some(Instant::now() + LOOKED_FOR_EVERY));
    }

    /// They are not looked for in this process again, in no later session either.
    fn give_up(&mut self, symbols: &mut CounterSymbols) {
        symbols.give_up();
        (self.counters, self.again) = (None, None);
    }
}

/// Where the counters of one server process are.
#[derive(Debug)]
struct Counters {
    pid: u32,
    query_id: u64,
    connections: u64,
    manager: u64,
    log: u64,
    /// Places in `manager` at which the three numbers begin.
    running: Candidates,
    /// Places in `log`.
    sn: Candidates,
    checkpoint: Candidates,
    failures: u32,
    /// When an answer agreed last.
    checked: Option<Instant>,
}

impl Counters {
    /// Those of a server's process; none where it is not known (yet) where its symbols are, or where its memory cannot be read.
    fn of_process(target: &host::Target, symbols: &mut CounterSymbols) -> Option<Self> {
        let [query_id, connections, manager, log] = symbols.addresses(target)?;
        let pid = target.pid;
        let object = |pointer| word(pid, pointer).filter(|object| *object != 0);
        Some(Self::at(pid, [query_id, connections, object(manager)?, object(log)?]))
    }

    fn at(pid: u32, [query_id, connections, manager, log]: [u64; 4]) -> Self {
        Self {
            pid,
            query_id,
            connections,
            manager,
            log,
            running: Candidates::default(),
            sn: Candidates::default(),
            checkpoint: Candidates::default(),
            failures: 0,
            checked: None,
        }
    }

    /// True where it is known where all of them are.
    fn are_known(&self) -> bool {
        self.checked.is_some()
            && self.running.only().is_some()
            && self.sn.first().is_some()
            && self.checkpoint.first().is_some()
    }

    /// True where they are not on this server as they are known here.
    fn are_given_up(&self) -> bool {
        self.failures >= MOST_FAILURES
    }

    /// True where the server is to be asked again, too.
    fn is_due(&self, now: Instant) -> bool {
        let is_sure = self.sn.only().is_some() && self.checkpoint.only().is_some();
        let every = if is_sure { CHECKED_EVERY } else { UNSURE_CHECKED_EVERY };
        !self.are_known() || self.checked.is_none_or(|checked| now.duration_since(checked) >= every)
    }

    /// What they are now; none where the memory cannot be read any more, or holds what cannot be.
    fn read(&self) -> Option<Counted> {
        let running: [u8; 4] = process_memory::read_array(self.pid, self.manager + self.running.only()?)?;
        let running = u32::from_ne_bytes(running);
        let connected = u32::from_ne_bytes(process_memory::read_array(self.pid, self.connections)?);
        let queries = word(self.pid, self.query_id)?;
        // The older one first: the age is not below zero.
        let checkpoint = word(self.pid, self.log + self.checkpoint.first()?)?;
        let sn = word(self.pid, self.log + self.sn.first()?)? & !SN_LOCKED;
        let checkpoint_age_bytes = lsn_of(sn).checked_sub(checkpoint)?;
        (running <= connected.saturating_add(MORE_RUNNING)).then_some(Counted {
            queries,
            connected: connected.into(),
            running: running.into(),
            checkpoint_age_bytes,
        })
    }

    /// The memory in which they are, before or after a question; none where it cannot be read.
    fn image(&self) -> Option<Image> {
        let object = |address| {
            let mut bytes = vec![0; OBJECT_BYTES];
            let read = process_memory::read(self.pid, address, &mut bytes).ok()?;
            bytes.truncate(read);
            Some(bytes)
        };
        Some(Image {
            query_id: word(self.pid, self.query_id)?,
            manager: object(self.manager)?,
            log: object(self.log)?,
        })
    }

    /// Takes an answer with the memory before and after it into account.
    fn agree(&mut self, said: &Said, before: &Image, after: &Image, now: Instant) {
        let counts = |before: u64, said: u64, after: u64| {
            before <= said && said <= after && after - before <= MOST_GROWN
        };
        if before.query_id >= said.queries || !counts(before.query_id, said.queries, after.query_id) {
            return self.disagree();
        }
        let was_known = self.are_known();
        let mut has_agreed = self.running.keep(before.manager.len().min(after.manager.len()), |at| {
            let u64_at = |image: &Image, at| u64_at(&image.manager, at);
            let u32_at = |image: &Image, at| u32_at(&image.manager, at);
            let created = u64_at(before, at + 8).zip(u64_at(after, at + 8));
            let next = u32_at(before, at + 16).zip(u32_at(after, at + 16));
            let running = u32_at(before, at).zip(u32_at(after, at));
            let most = said.connected.saturating_add(MORE_RUNNING.into());
            created.is_some_and(|(before, after)| counts(before, said.created, after))
                // `Connections` is the number of the next one, less one in some releases.
                && next.is_some_and(|(before, after)| {
                    let (before, after) = (u64::from(before), u64::from(after));
                    counts(before, said.connections, after) || counts(before, said.connections + 1, after)
                })
                && running.is_some_and(|(a, b)| u64::from(a.max(b)) <= most)
        });
        let (lsn, checkpoint) = said.log;
        let bytes = before.log.len().min(after.log.len());
        let at_both = |at| u64_at(&before.log, at).zip(u64_at(&after.log, at));
        has_agreed &= self.sn.keep(bytes, |at| {
            at_both(at).is_some_and(|(a, b)| {
                counts((a & !SN_LOCKED).saturating_sub(MOST_LATE), sn_of(lsn), b & !SN_LOCKED)
            })
        });
        has_agreed &=
            self.checkpoint.keep(bytes, |at| at_both(at).is_some_and(|(a, b)| counts(a, checkpoint, b)));
        if [&self.running, &self.sn, &self.checkpoint].iter().any(|places| places.missed >= MOST_MISSED) {
            return self.disagree();
        }
        if !has_agreed {
            return;
        }
        self.checked = Some(now);
        match self.are_known() {
            true if was_known => self.failures = 0,
            false if self.running.answers >= MOST_ANSWERS => self.failures = MOST_FAILURES,
            _ => {}
        }
    }

    fn disagree(&mut self) {
        self.failures += 1;
        (self.running, self.sn, self.checkpoint) = Default::default();
        self.checked = None;
    }
}

/// The server's own answer, by the names of its status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Said {
    queries: u64,
    connected: u64,
    created: u64,
    connections: u64,
    /// The log's end and its last checkpoint.
    log: (u64, u64),
}

impl Said {
    /// Of rows of names and values; none where one that is needed is not among them.
    fn in_rows(rows: &Rows) -> Option<Self> {
        let value = |wanted: &str| {
            let row = rows.iter().find(|row| row.at(0).is_some_and(|name| name.eq_ignore_ascii_case(wanted)));
            row?.at(1)?.parse::<u64>().ok()
        };
        Some(Self {
            queries: value("Queries")?,
            connected: value("Threads_connected")?,
            created: value("Threads_created")?,
            connections: value("Connections")?,
            log: (value("Innodb_redo_log_current_lsn")?, value("Innodb_redo_log_checkpoint_lsn")?),
        })
    }
}

/// The memory in which the counters are, at one instant.
#[derive(Debug)]
pub(super) struct Image {
    query_id: u64,
    manager: Vec<u8>,
    log: Vec<u8>,
}

/// Places in an object that have agreed with every answer with which any did.
#[derive(Debug, Default)]
struct Candidates {
    places: Vec<usize>,
    answers: u32,
    /// Answers in a row with which none agreed.
    missed: u32,
}

impl Candidates {
    /// Keeps those for which it holds, of all places of an object of so many bytes at first. False where it holds for none:
    /// then all stay.
    fn keep(&mut self, bytes: usize, holds: impl Fn(usize) -> bool) -> bool {
        let left: Vec<usize> = match self.answers {
            0 => (0..bytes).step_by(8).filter(|at| holds(*at)).collect(),
            _ => self.places.iter().copied().filter(|at| holds(*at)).collect(),
        };
        if left.is_empty() {
            self.missed += 1;
            return false;
        }
        *self = Self { places: left, answers: self.answers.saturating_add(1), missed: 0 };
        true
    }

    /// The first that is left, once enough answers agreed. All of them held the same value in each.
    fn first(&self) -> Option<u64> {
        let place = self.places.first().filter(|_| self.answers >= ENOUGH_ANSWERS)?;
        u64::try_from(*place).ok()
    }

    /// The one that is left, once enough answers agreed.
    fn only(&self) -> Option<u64> {
        self.first().filter(|_| self.places.len() == 1)
    }
}

/// What is counted without the heads and tails of blocks, of what is counted with them: `log_translate_lsn_to_sn`.
fn sn_of(lsn: u64) -> u64 {
    (lsn / BLOCK) * (BLOCK - BLOCK_FRAME) + (lsn % BLOCK).saturating_sub(BLOCK_HEAD)
}

/// The other way round: `log_translate_sn_to_lsn`.
fn lsn_of(sn: u64) -> u64 {
    (sn / (BLOCK - BLOCK_FRAME)) * BLOCK + sn % (BLOCK - BLOCK_FRAME) + BLOCK_HEAD
}

fn word(pid: u32, address: u64) -> Option<u64> {
    process_memory::read_array(pid, address).map(u64::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::*;
    use crate::follow::symbols::tests::settled;

    /// What stands in the test program for a server's memory: words that change, among others that do not.
    struct Server {
        query_id: AtomicU64,
        connections: AtomicU32,
        manager: [AtomicU64; 4096],
        log: [AtomicU64; 4096],
    }

    /// Where the test's server keeps them, in words.
    const RUNNING: usize = 1147;
    const SN: usize = 8;
    const CHECKPOINT: usize = 70;

    impl Server {
        fn new() -> Box<Self> {
            let words = || std::array::from_fn(|at| AtomicU64::new(at as u64 * 7));
            let server = Self {
                query_id: AtomicU64::new(100),
                connections: AtomicU32::new(9),
                manager: words(),
                log: words(),
            };
            server.manager[RUNNING].store(3, Ordering::Relaxed);
            server.manager[RUNNING + 1].store(12, Ordering::Relaxed);
            server.manager[RUNNING + 2].store(41, Ordering::Relaxed);
            server.write(5_000_000);
            server.checkpoint(4_000_000);
            Box::new(server)
        }

        fn write(&self, lsn: u64) {
            self.log[SN].store(sn_of(lsn) | SN_LOCKED, Ordering::Relaxed);
        }

        /// A copy of it lies elsewhere until the next one.
        fn checkpoint(&self, lsn: u64) {
            let before = self.log[CHECKPOINT].swap(lsn, Ordering::Relaxed);
            self.log[CHECKPOINT - 4].store(if before < 1_000 { lsn } else { before }, Ordering::Relaxed);
        }

        fn counters(&self) -> Counters {
            let manager = self.manager.as_ptr() as u64;
            let log = self.log.as_ptr() as u64;
            let places = [self.query_id.as_ptr() as u64, self.connections.as_ptr() as u64, manager, log];
            Counters::at(std::process::id(), places)
        }

        /// A question, and what the server says.
        fn asked(&self, counters: &mut Counters, change: impl FnOnce(&mut Said), now: Instant) {
            let before = counters.image().unwrap();
            let queries = self.query_id.fetch_add(1, Ordering::Relaxed) + 1;
            let lsn = lsn_of(self.log[SN].load(Ordering::Relaxed) & !SN_LOCKED);
            let mut said = Said {
                queries,
                connected: 9,
                created: 12,
                connections: 41,
                log: (lsn, self.log[CHECKPOINT].load(Ordering::Relaxed)),
            };
            change(&mut said);
            let after = counters.image().unwrap();
            counters.agree(&said, &before, &after, now);
        }

        /// The probe of a question by SQL, whose answer has so many of the names.
        fn probed(&self, memory: &mut Memory, names: usize) -> Probe {
            let mut symbols = symbols();
            let before = memory.before(&mut symbols, || None).unwrap();
            let queries = self.query_id.fetch_add(1, Ordering::Relaxed) + 1;
            let pairs: [(&str, u64); MOST_NAMES] = [
                ("Queries", queries),
                ("Threads_connected", 9),
                ("Threads_created", 12),
                ("Connections", 41),
                ("Innodb_redo_log_current_lsn", 5_000_000),
                ("Innodb_redo_log_checkpoint_lsn", 4_000_000),
            ];
            let cell = |(name, value): &(&str, u64)| vec![Some((*name).to_owned()), Some(value.to_string())];
            let cells = pairs.iter().take(names).map(cell).collect();
            let rows = Rows::new(vec!["Variable_name".to_owned(), "Value".to_owned()], cells);
            let mut probe = Probe { questions: Some(queries), commits: Some(3), ..Probe::default() };
            memory.answered(&mut symbols, &rows, &before, &mut probe);
            probe
        }
    }

    /// Names that are asked for the memory's sake.
    const MOST_NAMES: usize = 6;

    #[test]
    fn a_place_is_known_once_five_answers_agreed_and_is_read_from_then_on() {
        let server = Server::new();
        let (mut counters, now) = (server.counters(), Instant::now());
        for answer in 1..=5_u64 {
            assert!(!counters.are_known() && counters.is_due(now), "{answer}");
            server.write(5_000_000 + answer * 600);
            server.asked(&mut counters, |_| (), now);
        }
        assert!(counters.are_known() && !counters.are_given_up());
        server.query_id.store(900, Ordering::Relaxed);
        server.connections.store(11, Ordering::Relaxed);
        server.manager[RUNNING].store(7, Ordering::Relaxed);
        server.write(5_010_000);
        let age = 1_010_000;
        let counted = Counted { queries: 900, connected: 11, running: 7, checkpoint_age_bytes: age };
        assert_eq!(counters.read(), Some(counted));
        // Two places held the checkpoint: it is asked again soon, until one of them is known to be another thing.
        assert!(!counters.is_due(now) && counters.is_due(now + UNSURE_CHECKED_EVERY));
        server.checkpoint(4_500_000);
        server.asked(&mut counters, |_| (), now);
        assert!(!counters.is_due(now + UNSURE_CHECKED_EVERY) && counters.is_due(now + CHECKED_EVERY));
        assert_eq!(counters.read().unwrap().checkpoint_age_bytes, 510_000);
    }

    #[test]
    fn what_no_longer_agrees_is_not_read_and_a_server_of_another_form_is_given_up() {
        let server = Server::new();
        let (mut counters, now) = (server.counters(), Instant::now());
        for _ in 0..5 {
            server.asked(&mut counters, |_| (), now);
        }
        assert!(counters.are_known());
        for failed in 1..=MOST_FAILURES {
            for _ in 1..MOST_MISSED {
                server.asked(&mut counters, |said| said.created = 13, now);
                assert_eq!(counters.are_known(), failed == 1, "one may be late");
            }
            server.asked(&mut counters, |said| said.created = 13, now);
            assert!(!counters.are_known() && counters.read().is_none());
            assert_eq!(counters.are_given_up(), failed == MOST_FAILURES);
        }
        let mut counters = server.counters();
        for _ in 0..MOST_FAILURES {
            server.asked(&mut counters, |said| said.queries = 7, now);
        }
        assert!(counters.are_given_up());
    }

    #[test]
    fn memory_that_is_gone_and_numbers_that_cannot_be_are_no_counters() {
        let server = Server::new();
        let (mut counters, now) = (server.counters(), Instant::now());
        for _ in 0..5 {
            server.asked(&mut counters, |_| (), now);
        }
        assert!(counters.read().is_some());
        server.manager[RUNNING].store(1 << 20, Ordering::Relaxed);
        assert_eq!(counters.read(), None);
        server.manager[RUNNING].store(1, Ordering::Relaxed);
        server.write(3_000_000);
        assert_eq!(counters.read(), None, "a log's end before its checkpoint");
        counters.connections = 8;
        assert_eq!(counters.read(), None);
        assert!(Counters::at(std::process::id(), [8; 4]).image().is_none());
    }

    #[test]
    fn what_is_read_in_memory_is_what_the_server_says() {
        let server = Server::new();
        let mut memory = Memory { counters: Some(server.counters()), again: None };
        for answer in 1..5 {
            let probe = server.probed(&mut memory, MOST_NAMES);
            assert_eq!((probe.questions, probe.commits), (Some(100 + answer), Some(3)));
        }
        assert!(!memory.is_enough(Instant::now()));
        assert_eq!(server.probed(&mut memory, MOST_NAMES).commits, None, "no later probe has them");
        assert!(memory.is_enough(Instant::now()));
        server.query_id.fetch_add(1_000, Ordering::Relaxed);
        let mut probe = Probe::default();
        memory.read(1, &mut probe);
        assert_eq!((probe.questions, probe.commits), (Some(1_105), None), "one count, wherever it is from");
        assert_eq!((probe.threads_running, probe.threads_connected), (Some(2), Some(9)));
        assert_eq!(probe.checkpoint_age_bytes, Some(1_000_000));
        server.manager[RUNNING].store(1 << 20, Ordering::Relaxed);
        memory.read(1, &mut probe);
        assert!(!memory.is_enough(Instant::now()), "the server is asked again");
    }

    /// Without the log's end no probe would show that commits stop.
    #[test]
    fn a_server_that_does_not_say_where_its_log_ends_is_asked_for_everything() {
        let server = Server::new();
        let mut memory = Memory { counters: Some(server.counters()), again: Some(Instant::now()) };
        assert_eq!(server.probed(&mut memory, MOST_NAMES - 1).commits, Some(3));
        assert!(memory.counters.is_none() && memory.again.is_none(), "its memory is not looked at again");
        let version = |text| ServerVersion::parse(text, "").unwrap();
        for (text, is_looked_at) in
            [("8.0.12", false), ("8.0.29", false), ("8.0.30", true), ("9.7.4", true), ("5.7.44", false)]
        {
            assert_eq!(Memory::of_version(version(text)).again.is_some(), is_looked_at, "{text}");
        }
    }

    #[test]
    fn this_program_is_no_mysql() {
        let (mut symbols, target) = (symbols(), host::Target::live(std::process::id()));
        settled(&mut symbols, &target);
        assert!(Counters::of_process(&target, &mut symbols).is_none());
    }

    #[test]
    fn an_end_of_the_log_is_the_same_with_and_without_heads_and_tails() {
        // From MySQL 9.7.4: log_get_lsn divides by 496, multiplies by 512, and adds 12.
        for lsn in [8204 + 12, 5_000_000, 5_000_204, 1 << 40] {
            let lsn = lsn / BLOCK * BLOCK + (lsn % BLOCK).clamp(BLOCK_HEAD, BLOCK - 5);
            assert_eq!(lsn_of(sn_of(lsn)), lsn);
        }
    }
}
