//! What the waits mean: the headline, and the reason.

use spindoctor_model::number;

use super::ground::Ground;
use super::pileup::Pileup;
use super::queue::waits;
use crate::sessions;
use crate::wait_graph::{Ring, Verdict};

impl Pileup<'_> {
    /// Who waits, and behind whom.
    pub(super) fn headline(&self) -> String {
        let on = match (&self.table, &self.named) {
            (Some(table), _) => format!(" of {table}"),
            // Who holds it is said to be likely: the same is true of what.
            (None, Some(named)) if self.culprit.is_some() => format!(" of {named}"),
            (None, Some(named)) => format!(", most likely of {named}"),
            (None, None) => String::new(),
        };
        let that_want = number::counted(self.waiters, "session that wants", "sessions that want");
        let is_certain = self.is_certain();
        match (&self.culprit, &self.ring) {
            (Some(culprit), _) => match culprit.chained(is_certain) {
                Some(chain) => format!(
                    "Connection {} {}blocks {that_want} the metadata lock{on}: {chain}",
                    culprit.connection_id,
                    culprit.likely()
                ),
                None => format!(
                    "Connection {} {}blocks {that_want} the metadata lock{on}: it {}",
                    culprit.connection_id,
                    if is_certain { "" } else { "most likely " },
                    sessions::doing(&culprit.described())
                ),
            },
            (None, Some(ring)) => {
                format!("{}, and hold up {that_want} the metadata lock{on}", ring.headline())
            }
            (None, None) => format!(
                "{} for the metadata lock{on}",
                number::counted(self.waiters, "session waits", "sessions wait")
            ),
        }
    }

    /// Who has the table is known, and not only likely.
    fn is_certain(&self) -> bool {
        self.ground.is_some_and(Ground::is_certain)
    }

    /// Why they wait.
    pub(super) fn why(&self) -> String {
        if let Some(chain) = self.culprit.as_ref().and_then(Verdict::why_of_chain) {
            return match self.is_certain() {
                true => chain,
                false => format!("{chain} Who holds the table could not be read, and is inferred."),
            };
        }
        match (self.ground, &self.ring) {
            (Some(ground), _) => ground.sentence().to_owned() + &self.resting_elsewhere(),
            (None, Some(ring)) => Ring::sentence(ring),
            (None, None) => self.why_unnamed(),
        }
    }

    /// Where the holder is named for its schema and its rest: who else rested then, in another schema or without one.
    fn resting_elsewhere(&self) -> String {
        let threads = self.server.threads.value().map(Vec::as_slice).unwrap_or_default();
        let waiters = || threads.iter().filter(|thread| waits(thread));
        let longest_s = waiters().map(|thread| thread.time_s).fold(0.0, f64::max);
        let holder = self.culprit.as_ref().map(|culprit| culprit.connection_id);
        let elsewhere = threads.iter().filter(|thread| {
            thread.is_connection
                && thread.command == "Sleep"
                && thread.time_s >= longest_s
                && thread.connection_id != holder
                && waiters().all(|waiter| !waiter.schema.is_empty() && waiter.schema != thread.schema)
        });
        let others = elsewhere.filter(|_| self.ground == Some(Ground::Rests)).count();
        if others == 0 {
            return String::new();
        }
        format!(
            " {} then in another schema or without one, and may have locked the table by its full name.",
            number::counted(others as u64, "other session rested", "other sessions rested")
        )
    }

    fn why_unnamed(&self) -> String {
        if self.is_passing {
            return "Each wait is short, and the lists rarely show one: DDL that runs again and again has the table \
                    for an instant each time, and everyone who uses it waits until that is over."
                .to_owned();
        }
        let before = sessions::there_before(self.server, waits, true);
        let before = match before.is_empty() {
            true => sessions::rests_alone(self.server).unwrap_or_default(),
            false => before,
        };
        if self.was_locked {
            return format!(
                "Statements that only read or write rows waited before the DDL came: somebody has the table by LOCK TABLES or HANDLER, and \
                 the end of the DDL frees nobody. Who it is the list does not say.{before}"
            );
        }
        if let Some(number) = self.by_number {
            return format!(
                "Thread {number} of performance_schema.threads holds the table. Which connection that is, SELECT PROCESSLIST_ID FROM \
                 performance_schema.threads WHERE THREAD_ID = {number} says."
            );
        }
        let unlock = self.window.missing(|s| &s.server.metadata_locks).and_then(|missing| missing.unlock);
        format!(
            "It is not known who holds the table{}.{before}",
            unlock.map_or_else(String::new, |unlock| format!("; {unlock} would show it"))
        )
    }
}
