//! Where the symbols of a server's binary are in the memory of its process. Its tables of symbols have some hundred thousand
//! entries: they are looked through on a thread of their own, once for each process, whatever comes of it.
//!
//! In: the server's process, each time that somebody wants to know. Out: the addresses, once they are found.

use std::thread::JoinHandle;

use crate::host;
use crate::host::srv_cpu_usage::{Process, addresses_of, process_of};

/// Symbols, each of a name and a size, of the process that is the server.
#[derive(Debug)]
pub(super) struct Symbols<const COUNT: usize> {
    wanted: [(&'static str, u64); COUNT],
    /// The process in which they were looked for last.
    process: Option<Process>,
    search: Search<COUNT>,
}

#[derive(Debug)]
enum Search<const COUNT: usize> {
    Runs(JoinHandle<Option<[u64; COUNT]>>),
    Found([u64; COUNT]),
    /// They are not there, or cannot be read: that stays so for as long as the process lives.
    Ended,
}

impl<const COUNT: usize> Symbols<COUNT> {
    /// Nothing is looked for yet.
    pub(super) fn new(wanted: [(&'static str, u64); COUNT]) -> Self {
        Self { wanted, process: None, search: Search::Ended }
    }

    /// Where they are in this process; none where that is not known yet, or where one of them is missing. Cost: one file of
    /// `/proc`; where it is another process than before a thread is begun.
    pub(super) fn addresses(&mut self, target: &host::Target) -> Option<[u64; COUNT]> {
        if !target.is_live() {
            return None;
        }
        // One that is gone is the server no more, and its number may be somebody else's.
        let process = process_of(target).ok()?;
        if self.process.replace(process) != Some(process) {
            self.search = Search::begin(target.clone(), self.wanted);
        }
        if matches!(&self.search, Search::Runs(thread) if thread.is_finished())
            && let Search::Runs(thread) = std::mem::replace(&mut self.search, Search::Ended)
            && let Ok(Some(addresses)) = thread.join()
        {
            self.search = Search::Found(addresses);
        }
        match self.search {
            Search::Found(addresses) => Some(addresses),
            Search::Runs(_) | Search::Ended => None,
        }
    }

    /// They are of no use in this process.
    pub(super) fn give_up(&mut self) {
        self.search = Search::Ended;
    }
}

impl<const COUNT: usize> Search<COUNT> {
    /// Where the system has no room for a thread they are not found.
    fn begin(target: host::Target, wanted: [(&'static str, u64); COUNT]) -> Self {
        let search = move || {
            let mut addresses = [0; COUNT];
            for (address, found) in addresses.iter_mut().zip(addresses_of(&target, wanted).ok()?) {
                *address = found?;
            }
            Some(addresses)
        };
        std::thread::Builder::new().name("symbols".to_owned()).spawn(search).map_or(Self::Ended, Self::Runs)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::host::srv_cpu_usage::tests::{SPINDOCTOR_TEST_COUNTS, SPINDOCTOR_TEST_USAGE};

    /// Asks until the search has ended.
    pub(crate) fn settled<const COUNT: usize>(
        symbols: &mut Symbols<COUNT>,
        target: &host::Target,
    ) -> Option<[u64; COUNT]> {
        let begun = Instant::now();
        loop {
            let addresses = symbols.addresses(target);
            if !matches!(symbols.search, Search::Runs(_)) {
                return addresses;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "the search does not end");
            std::thread::yield_now();
        }
    }

    #[test]
    fn globals_are_found_beside_the_one_who_asks_and_once() {
        let target = host::Target::live(std::process::id());
        let mut symbols = Symbols::new([("SPINDOCTOR_TEST_USAGE", 40), ("SPINDOCTOR_TEST_COUNTS", 24)]);
        assert_eq!(symbols.addresses(&target), None, "it is not waited for");
        let places = [SPINDOCTOR_TEST_USAGE.as_ptr() as u64, SPINDOCTOR_TEST_COUNTS.as_ptr() as u64];
        assert_eq!(settled(&mut symbols, &target), Some(places));
        assert_eq!(symbols.addresses(&target), Some(places));
        symbols.give_up();
        assert_eq!(symbols.addresses(&target), None, "nor are they looked for again");
        assert!(matches!(symbols.search, Search::Ended));
    }

    #[test]
    fn what_is_not_in_a_process_is_not_looked_for_in_it_again() {
        let target = host::Target::live(std::process::id());
        let mut symbols = Symbols::new([("SPINDOCTOR_TEST_COUNTS", 24), ("no_such_global", 8)]);
        assert_eq!(settled(&mut symbols, &target), None);
        assert_eq!(symbols.addresses(&target), None);
        assert!(matches!(symbols.search, Search::Ended));
    }

    #[test]
    fn another_process_is_another_search_and_one_that_is_gone_or_elsewhere_is_none() {
        let mut symbols = Symbols::new([("no_such_global", 8)]);
        assert_eq!(symbols.addresses(&host::Target::live(u32::MAX)), None);
        assert_eq!(symbols.addresses(&host::Target::under(std::process::id(), "/elsewhere", "/sys")), None);
        assert!(matches!(symbols.search, Search::Ended) && symbols.process.is_none());
        settled(&mut symbols, &host::Target::live(std::process::id()));
        symbols.process = symbols.process.map(|(pid, started)| (pid, started + 1));
        symbols.addresses(&host::Target::live(std::process::id()));
        assert_eq!(symbols.process, process_of(&host::Target::live(std::process::id())).ok());
    }
}
