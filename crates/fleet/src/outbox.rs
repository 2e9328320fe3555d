//! From the tasks that ask to the thread that writes: pieces in batches, so that the writer is not woken for each, and
//! in bounded memory: when the writer falls behind, nothing is read from servers until it has caught up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::piece::Piece;

/// A batch goes out when it holds this much,
const BATCH_BYTES: usize = 256 << 10;
/// or this many pieces,
const BATCH_PIECES: usize = 512;
/// or after this time: somebody may watch.
const LATEST: Duration = Duration::from_millis(20);
/// Where a batch has grown to this, the writer is behind.
const CONGESTED_BYTES: usize = 512 << 10;
/// Batches that may wait for the writer.
pub(crate) const BATCHES: usize = 3;

/// Where pieces go.
#[derive(Default)]
pub(crate) struct Outbox {
    shared: Mutex<Shared>,
    /// There is enough to send, or no more will come.
    due: Notify,
    /// The writer has caught up, or went away.
    clear: Notify,
    /// The writer went away.
    closed: Notify,
}

#[derive(Default)]
struct Shared {
    batch: Vec<Piece>,
    bytes: usize,
    is_last: bool,
    is_closed: bool,
}

impl Shared {
    fn take(&mut self) -> Vec<Piece> {
        self.bytes = 0;
        std::mem::take(&mut self.batch)
    }
}

impl Outbox {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece.
    pub(crate) fn put(&self, piece: Piece) {
        let mut shared = self.shared();
        if shared.is_closed {
            return;
        }
        shared.bytes += piece.bytes();
        shared.batch.push(piece);
        if shared.bytes >= BATCH_BYTES || shared.batch.len() >= BATCH_PIECES {
            self.due.notify_one();
        }
    }

    /// True while there is room.
    pub(crate) fn has_room(&self) -> bool {
        let shared = self.shared();
        shared.bytes < CONGESTED_BYTES || shared.is_closed
    }

    /// Waits for room.
    pub(crate) async fn room(&self) {
        loop {
            let clear = self.clear.notified();
            if self.has_room() {
                return;
            }
            clear.await;
        }
    }

    /// Waits until the writer goes away.
    pub(crate) async fn closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.shared().is_closed {
                return;
            }
            closed.await;
        }
    }

    /// No more pieces will come.
    pub(crate) fn last(&self) {
        self.shared().is_last = true;
        self.due.notify_one();
    }

    /// All that was put there and not sent.
    pub(crate) fn take(&self) -> Vec<Piece> {
        self.shared().take()
    }

    /// Sends batches until the last one.
    pub(crate) async fn forward(self: Arc<Self>, sender: mpsc::Sender<Vec<Piece>>) {
        loop {
            // A batch that is due is reported at once, others after a while: either is right.
            let _ = tokio::time::timeout(LATEST, self.due.notified()).await;
            loop {
                let (is_empty, is_last) = {
                    let shared = self.shared();
                    (shared.batch.is_empty(), shared.is_last)
                };
                if is_empty && is_last {
                    return;
                }
                if is_empty {
                    break;
                }
                // The batch is taken when there is a place for it: a task that is stopped meanwhile loses nothing.
                let Ok(place) = sender.reserve().await else {
                    let mut shared = self.shared();
                    shared.is_closed = true;
                    shared.take();
                    drop(shared);
                    self.clear.notify_waiters();
                    self.closed.notify_waiters();
                    return;
                };
                place.send(self.take());
                self.clear.notify_waiters();
            }
        }
    }
}
