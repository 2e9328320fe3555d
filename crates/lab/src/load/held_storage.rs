//! Storage that is held and let go in turns.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Result;

/// Holds it in turns until this is dropped; then it is free.
#[derive(Debug)]
pub(crate) struct HeldStorage {
    end: Option<Sender<()>>,
    turns: Option<JoinHandle<()>>,
}

impl HeldStorage {
    /// Holds it at once, for so long each time, and lets it go for so long between that. `hold` does the one and the other.
    ///
    /// # Errors
    /// It cannot be held.
    pub(crate) fn start(
        hold: impl Fn(bool) -> Result<()> + Send + 'static,
        held: Duration,
        free: Duration,
    ) -> Result<Self> {
        hold(true)?;
        let (end, ended) = mpsc::channel();
        let turns = std::thread::spawn(move || {
            let mut is_held = true;
            let lasts = |is_held: bool| if is_held { held } else { free };
            while ended.recv_timeout(lasts(is_held)) == Err(RecvTimeoutError::Timeout) {
                is_held = !is_held;
                // What cannot be set now is set at the next turn.
                let _set = hold(is_held);
            }
            let _free = hold(false);
        });
        Ok(Self { end: Some(end), turns: Some(turns) })
    }
}

impl Drop for HeldStorage {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(turns) = self.turns.take() {
            let _ended = turns.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn it_is_held_and_let_go_in_turns_and_is_free_in_the_end() {
        let (turn, turns) = mpsc::channel();
        let hold = move |is_held| {
            let _received = turn.send(is_held);
            Ok(())
        };
        let held = HeldStorage::start(hold, Duration::from_millis(1), Duration::from_millis(1)).unwrap();
        let first: Vec<bool> = turns.iter().take(5).collect();
        assert_eq!(first, [true, false, true, false, true]);
        drop(held);
        assert_eq!(turns.iter().last(), Some(false));
    }

    #[test]
    fn storage_that_cannot_be_held_is_an_error() {
        let refused = |_| Err(Error::Unable { what: "a slow disk", because: "it has no group".into() });
        assert!(HeldStorage::start(refused, Duration::ZERO, Duration::ZERO).is_err());
    }
}
