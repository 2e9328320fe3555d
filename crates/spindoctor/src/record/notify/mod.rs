//! Events sent to others while the recorder runs: a command, a web hook, the journal of systemd.
//!
//! ```text
//! event that lasts or is over -> Message -> queue -> thread: command, web hook, journal
//! ```
//!
//! A thread of its own sends, so that what hangs delays no sample. Number and time are bounded: see [`limit`] and [`send`].

mod journal;
mod limit;
mod message;
mod send;
mod template;

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use spindoctor_model::ServerIdentity;

use self::journal::Journal;
use self::limit::Limit;
use self::message::Message;
use self::send::{Hook, Ways};
pub use self::send::{Program, hook_url, program};
pub use self::template::Template;
use super::args::Record;
use super::gathering::Over;

/// Messages that may wait: a bad day's events.
const MOST_WAITING: usize = 64;
/// How long the last messages are waited for when the recorder ends: service managers kill after 20 s.
const GOODBYE_WITHIN: Duration = Duration::from_secs(8);
/// How often is looked whether they are sent.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// Sends events to others; where the user wants none, it does nothing.
pub struct Notify {
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    server: ServerIdentity,
    limit: Limit,
}

impl Notify {
    /// Begins, as the flags say.
    ///
    /// # Errors
    /// A file with the hook's address cannot be read, or no thread could be made.
    pub fn start(asked: &Record) -> anyhow::Result<Self> {
        let hook = match &asked.webhook {
            Some(url) => Some(Hook::new(url, asked.webhook_template.clone())?),
            None => None,
        };
        let ways = Ways { program: asked.on_event.clone(), hook, journal: Journal::of_this_process() };
        let mut notify =
            Self { queue: None, thread: None, server: ServerIdentity::default(), limit: Limit::default() };
        if ways.are_none() {
            return Ok(notify);
        }
        let (queue, waiting) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new()
            .name("spindoctor-notify".to_owned())
            .spawn(move || waiting.iter().for_each(|message| ways.send(&message)))
            .context("could not start the thread that sends events")?;
        (notify.queue, notify.thread) = (Some(queue), Some(thread));
        Ok(notify)
    }

    /// The server that events are of from now on.
    pub fn of_server(&mut self, server: &ServerIdentity) {
        self.server = server.clone();
    }

    /// An event is over, or is diagnosed while it lasts.
    pub fn event(&mut self, over: &Over) {
        let Some(queue) = &self.queue else { return };
        let Some(left_out) = self.limit.take(Instant::now()) else { return };
        let message = Message::new(over, &self.server, left_out);
        if queue.try_send(message).is_err() {
            self.limit.not_sent();
        }
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        self.queue = None;
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + GOODBYE_WITHIN;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOKS_EVERY);
        }
    }
}
