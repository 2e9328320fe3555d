//! The signals that ask a process to end: while settings are taken, the settings are put back first.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for Ctrl-C, SIGTERM and SIGHUP from its making on; none of them ends the process any more.
#[derive(Debug)]
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    /// Begins to listen. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one, and names it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
