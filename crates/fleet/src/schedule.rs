//! Which server is asked next, and how many at once. Pure.
//!
//! Servers are begun in the order of the list. A server whose host has its maximum of connections is skipped until one
//! of them is done; other servers do not wait for it.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// What bounds the asking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// From the first packet to the end of the login, tries included.
    pub connect: Duration,
    /// How long we wait for the server's answer, from question to last row. What we need to write it does not count.
    pub query: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Connections at once to one host.
    pub per_host: usize,
    /// New connections a second; None without a bound.
    pub per_second: Option<f64>,
    /// How often a connection that did not come about is tried again.
    pub retries: u32,
}

/// Who is asked next.
#[derive(Debug)]
pub struct Schedule {
    /// Servers that may begin, in order.
    ready: VecDeque<usize>,
    /// The host of each server, by its place in the list.
    hosts: HashMap<usize, usize>,
    /// Of each host: how many are asked now, and who waits for one of them.
    busy: Vec<(usize, VecDeque<usize>)>,
    per_host: usize,
}

impl Schedule {
    /// A schedule of these servers, each with its host.
    pub fn new<'a>(servers: impl IntoIterator<Item = (usize, &'a str)>, per_host: usize) -> Self {
        let mut names: HashMap<&str, usize> = HashMap::new();
        let (mut ready, mut hosts, mut busy) = (VecDeque::new(), HashMap::new(), Vec::new());
        for (server, host) in servers {
            let host = *names.entry(host).or_insert_with(|| {
                busy.push((0, VecDeque::new()));
                busy.len() - 1
            });
            ready.push_back(server);
            hosts.insert(server, host);
        }
        Self { ready, hosts, busy, per_host: per_host.max(1) }
    }

    /// The next server that may be asked now.
    pub fn begin(&mut self) -> Option<usize> {
        while let Some(server) = self.ready.pop_front() {
            let (now, waiting) = &mut self.busy[self.hosts[&server]];
            if *now < self.per_host {
                *now += 1;
                return Some(server);
            }
            waiting.push_back(server);
        }
        None
    }

    /// True where [`Self::begin`] may find one.
    pub fn may_begin(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Notes that a server is done with, which lets the next of its host begin.
    pub fn end(&mut self, server: usize) {
        let (now, waiting) = &mut self.busy[self.hosts[&server]];
        *now -= 1;
        if let Some(next) = waiting.pop_front() {
            self.ready.push_front(next);
        }
    }

    /// Those that were never begun, in the order of the list.
    pub fn left(self) -> Vec<usize> {
        let waiting = self.busy.into_iter().flat_map(|(_, waiting)| waiting);
        let mut left: Vec<usize> = self.ready.into_iter().chain(waiting).collect();
        left.sort_unstable();
        left
    }
}

/// When the next connection may begin.
#[derive(Debug)]
pub struct Pace {
    every: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// A pace of at most so many connections a second.
    pub fn new(per_second: Option<f64>) -> Self {
        let every = per_second
            .filter(|rate| *rate > 0.0)
            .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        Self { every, next: None }
    }

    /// When the next one may begin; None at once.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Notes that a connection begins.
    pub fn begun(&mut self, now: Instant) {
        if !self.every.is_zero() {
            // Time that was lost is not made up for: that would be a burst.
            self.next = Some(self.next.map_or(now, |next| next.max(now)) + self.every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_enough_connections_does_not_hold_up_the_others() {
        let servers = [(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "c")];
        let mut schedule = Schedule::new(servers, 2);
        let begun: Vec<usize> = std::iter::from_fn(|| schedule.begin()).collect();
        assert_eq!(begun, [0, 1, 3, 5]);
        assert!(!schedule.may_begin());
        schedule.end(3);
        assert_eq!(schedule.begin(), None);
        schedule.end(1);
        assert_eq!(schedule.begin(), Some(2));
        assert_eq!(schedule.left(), [4]);
    }

    #[test]
    fn a_pace_is_kept_and_no_burst_makes_up_for_a_pause() {
        let mut pace = Pace::new(Some(10.0));
        let start = Instant::now();
        assert_eq!(pace.due(), None);
        pace.begun(start);
        assert_eq!(pace.due(), Some(start + Duration::from_millis(100)));
        let late = start + Duration::from_secs(5);
        pace.begun(late);
        assert_eq!(pace.due(), Some(late + Duration::from_millis(100)));
        let mut unbounded = Pace::new(None);
        unbounded.begun(start);
        assert_eq!(unbounded.due(), None);
    }
}
