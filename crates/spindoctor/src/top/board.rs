//! The last answer of every server of a fleet: the screens of `fleet top` are computed from it.

use std::sync::Arc;
use std::time::Instant;

use spindoctor_fleet::failure::{Failure, Failures};
use spindoctor_fleet::running::Running;
use spindoctor_model::mysql::ServerThread;

/// What a server said last.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Standing {
    /// Nothing yet.
    #[default]
    Connecting,
    /// It answers.
    Answers {
        /// When it answered last.
        at: Instant,
        /// What it runs.
        running: Arc<Running>,
    },
    /// It does not answer.
    Lost {
        /// Since when.
        since: Instant,
        /// Why.
        failure: Failure,
    },
}

/// All servers, in the order of the list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Board {
    /// What each said last.
    pub servers: Vec<Standing>,
}

/// How many servers do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// They answer.
    pub answer: usize,
    /// They have said nothing yet.
    pub connecting: usize,
    /// They do not answer.
    pub lost: usize,
    /// Statements that run.
    pub running: usize,
    /// Servers that may run more than they report.
    pub cut: usize,
}

impl Board {
    /// So many servers of which nothing is known.
    pub fn with_servers(servers: usize) -> Self {
        Self { servers: vec![Standing::Connecting; servers] }
    }

    /// Notes a server's answer at an instant, or why there is none.
    pub fn note(&mut self, server: usize, received: Result<Running, Failure>, at: Instant) {
        let Some(standing) = self.servers.get_mut(server) else { return };
        *standing = match (received, &*standing) {
            (Ok(running), _) => Standing::Answers { at, running: Arc::new(running) },
            (Err(failure), Standing::Lost { since, .. }) => Standing::Lost { since: *since, failure },
            (Err(failure), _) => Standing::Lost { since: at, failure },
        };
    }

    /// How many servers do what.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for standing in &self.servers {
            match standing {
                Standing::Connecting => counts.connecting += 1,
                Standing::Lost { .. } => counts.lost += 1,
                Standing::Answers { running, .. } => {
                    counts.answer += 1;
                    counts.running += running.threads.len();
                    counts.cut += usize::from(running.is_cut);
                }
            }
        }
        counts
    }

    /// Everything that runs, with its server, in the order of the list.
    pub fn running(&self) -> impl Iterator<Item = (usize, &ServerThread)> {
        self.servers.iter().enumerate().flat_map(|(server, standing)| {
            let threads = match standing {
                Standing::Answers { running, .. } => running.threads.as_slice(),
                Standing::Connecting | Standing::Lost { .. } => [].as_slice(),
            };
            threads.iter().map(move |thread| (server, thread))
        })
    }

    /// Those that do not answer.
    pub fn failures(&self) -> Failures {
        let mut failures = Failures::default();
        for (server, standing) in self.servers.iter().enumerate() {
            if let Standing::Lost { failure, .. } = standing {
                failures.add(server, failure);
            }
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_server_that_is_lost_is_so_since_the_first_failure_until_it_answers() {
        let (mut board, start) = (Board::with_servers(2), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(board.counts(), Counts { connecting: 2, ..Counts::default() });
        board.note(0, Err(Failure::connect("a")), start);
        board.note(0, Err(Failure::connect("b")), start + second);
        assert_eq!(board.servers[0], Standing::Lost { since: start, failure: Failure::connect("b") });
        let running = Running { threads: vec![ServerThread::default(); 3], is_cut: true };
        board.note(0, Ok(running), start + 2 * second);
        let counts = Counts { answer: 1, connecting: 1, running: 3, cut: 1, ..Counts::default() };
        assert_eq!(board.counts(), counts);
        assert_eq!(board.running().map(|(server, _)| server).collect::<Vec<_>>(), [0; 3]);
        board.note(0, Err(Failure::connect("c")), start + 5 * second);
        assert_eq!(
            board.servers[0],
            Standing::Lost { since: start + 5 * second, failure: Failure::connect("c") }
        );
        assert_eq!((board.running().count(), board.failures().len()), (0, 1));
        board.note(7, Err(Failure::connect("d")), start);
        assert_eq!(board.servers.len(), 2);
    }
}
