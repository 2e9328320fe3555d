//! What is known of a thread from one snapshot to the next.

use std::time::Duration;

use spindoctor_model::stack::{Observation, ProfiledThread, ThreadState};

use super::in_order::InOrder;
use super::tables::Tables;
use crate::capture::RawThread;
use crate::classify::is_in_futex;

/// A thread that was seen lately.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: String,
    /// In the table of threads.
    pub(super) place: u32,
    /// When its name was read.
    pub(super) named_ns: u64,
    /// In which turn it was seen last.
    pub(super) turn: u64,
    /// In which turn it was observed last, and where it stands in that snapshot.
    pub(super) observed: Option<(u64, usize)>,
    pub(super) thread_pointer: Option<u64>,
    pub(super) off_cpu: Option<Duration>,
    pub(super) last: Option<Last>,
    /// When it was last sampled on a CPU, in nanoseconds of CLOCK_MONOTONIC, and where.
    pub(super) ran: Option<(u64, Observation)>,
}

/// What a thread did in the snapshot before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) stack: u32,
    pub(super) state: ThreadState,
    pub(super) futex: Option<u64>,
    /// The kernel's letter: a thread that did not move may be stopped all the same.
    pub(super) letter: char,
    pub(super) syscall: Option<u64>,
    pub(super) arguments: [u64; 3],
}

impl Thread {
    /// The thread of an id, which was seen just now.
    pub(super) fn seen<'a>(
        threads: &'a mut InOrder<Self>,
        tables: &mut Tables,
        tid: u32,
        name: &str,
        turn: u64,
    ) -> &'a mut Self {
        let mut place = |name: &str| {
            tables.threads.place(ProfiledThread { tid, name: name.to_owned(), ..ProfiledThread::default() })
        };
        let thread = threads.get_or_insert_with(tid, || Self {
            name: name.to_owned(),
            place: place(name),
            named_ns: 0,
            turn,
            observed: None,
            thread_pointer: None,
            off_cpu: None,
            last: None,
            ran: None,
        });
        // It ended before its name was read: what it was called before is better.
        if thread.name != name && !name.is_empty() {
            name.clone_into(&mut thread.name);
            thread.place = place(name);
        }
        thread.turn = turn;
        thread
    }
}

/// The futex that a thread waits on.
pub(super) fn futex_of(raw: &RawThread) -> Option<u64> {
    let waits = is_in_futex(raw.syscall, &raw.arguments) && !raw.on_cpu && raw.state != 'R';
    waits.then_some(raw.arguments[0]).filter(|&address| address != 0)
}
