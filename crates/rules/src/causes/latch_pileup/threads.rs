//! The threads of InnoDB's text, and how they are named.

use spindoctor_model::innodb_status::SemaphoreWait;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{InnodbStatus, Window, number};

use crate::wait_graph::latch_named;

/// The threads of the text by `pthread_self`.
pub(super) struct Threads<'w> {
    pub(super) window: &'w Window,
    pub(super) status: &'w InnodbStatus,
}

impl<'w> Threads<'w> {
    fn connection(&self, pthread: u64) -> Option<u64> {
        let listed = &self.status.transactions.transactions;
        listed.iter().find(|one| one.pthread_id == Some(pthread))?.connection_id
    }

    pub(super) fn session(&self, pthread: u64) -> Option<&'w ServerThread> {
        let connection = self.connection(pthread)?;
        let threads = self.window.latest(|sample| &sample.server.threads)?;
        threads.iter().find(|thread| thread.connection_id == Some(connection))
    }

    /// The same at the beginning of a sentence.
    pub(super) fn first_named(&self, pthread: u64) -> String {
        let named = self.named(pthread);
        match named.split_at_checked(1) {
            Some((first, rest)) => first.to_uppercase() + rest,
            None => named,
        }
    }

    /// `connection 14075`, `thread 139998697924352`
    pub(super) fn named(&self, pthread: u64) -> String {
        match self.connection(pthread) {
            Some(connection) => format!("connection {connection}"),
            None => format!("thread {pthread}"),
        }
    }

    /// Where a thread waits for which latch, and who has that.
    pub(super) fn sentence(&self, wait: &SemaphoreWait) -> String {
        let at = format!(
            "{} waits at {}:{} for the {}",
            self.named(wait.pthread_id),
            wait.at_file,
            wait.at_line,
            latch_named(wait)
        );
        let has = match wait.holder_pthread_id {
            Some(holder) => format!("{at}, which {} has", self.named(holder)),
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
        format!("{has}{taken}")
    }
}
