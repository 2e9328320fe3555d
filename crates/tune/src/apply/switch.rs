//! The dead man's switch: it puts the old values back when this process cannot.
//!
//! In: the journal's content and a guardian that may be there. Out: an EVENT that has shown in a rehearsal that it works, or
//! the reason why there is none.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::writer::Facts;
use super::{ApplyError, PAUSE, Settings};
use crate::journal::Journal;
use crate::lease::{self, Watched};

/// How long the EVENT has for its rehearsal: it is due every second.
const REHEARSAL: Duration = Duration::from_secs(4);

/// Which dead man's switch puts the old values back when this process cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Where the EVENT on the server stands: `sys.spindoctor_lease`; or why there is none.
    pub event: Result<String, String>,
    /// The process of the guardian; or why there is none.
    pub guardian: Result<u32, String>,
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Ok(name) => write!(f, "the EVENT {name} on the server")?,
            Err(why) => write!(f, "no EVENT on the server ({why})")?,
        }
        match &self.guardian {
            Ok(pid) => write!(f, ", the guardian process {pid}"),
            Err(why) => write!(f, ", no guardian process ({why})"),
        }
    }
}

impl Settings {
    /// Writes the journal and makes the EVENT, beside a guardian that may be there already.
    pub(super) async fn arm(&mut self, guardian: Result<u32, String>) -> Result<(), ApplyError> {
        self.journal.create()?;
        self.event = match self.facts.no_event.clone() {
            Some(why) => Err(why),
            None => self.arm_event().await,
        };
        self.heartbeat.has_event.store(self.event.is_ok(), Ordering::Relaxed);
        // The one that was started may have ended meanwhile.
        match (&self.event, guardian.and(self.heartbeat.guardian())) {
            (Err(event), Err(guardian)) => Err(ApplyError::NoSwitch { event: event.clone(), guardian }),
            _ => Ok(()),
        }
    }

    /// Rehearses the EVENT and makes the real one, in the first schema where that works; its full name, or why not.
    async fn arm_event(&mut self) -> Result<String, String> {
        let mut why = String::new();
        for schema in lease::SCHEMAS {
            match self.arm_event_in(schema).await {
                Ok(()) => return Ok(format!("{schema}.{}", self.journal.journal.event_name())),
                Err(error) if why.is_empty() => why = error,
                Err(_) => {}
            }
        }
        Err(why)
    }

    async fn arm_event_in(&mut self, schema: &'static str) -> Result<(), String> {
        let comment = format!("spindoctor tune, process {}", std::process::id());
        // In the journal before it is on the server, so that every reader knows what to take away.
        self.journal.journal.event_schema = Some(schema.to_owned());
        self.journal.save().map_err(|error| error.to_string())?;
        let rehearsal = lease::rehearsal(&self.watched(schema));
        let made = match self.rehearse(schema, &comment, &rehearsal).await {
            Ok(()) => {
                let watched = watched(&self.facts, &self.journal.journal, schema);
                self.writer
                    .create_event(&watched, &comment, &lease::body(&watched))
                    .await
                    .map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        if made.is_err() {
            // A rehearsal that did not work must not stand there.
            let _absent = self.writer.drop_event(schema, &self.journal.journal.event_name()).await;
            self.journal.journal.event_schema = None;
            self.journal.save().map_err(|error| error.to_string())?;
        }
        made
    }

    /// Lets an EVENT do once, with the values that stand, what the real one may have to do.
    async fn rehearse(&mut self, schema: &str, comment: &str, body: &str) -> Result<(), String> {
        let watched = watched(&self.facts, &self.journal.journal, schema);
        self.writer.create_event(&watched, comment, body).await.map_err(|error| error.to_string())?;
        let own = self.journal.journal.event_name();
        let begun = Instant::now();
        while begun.elapsed() < REHEARSAL {
            let events = self.writer.events().await.map_err(|error| error.to_string())?;
            if !events.iter().any(|(_, name, _)| *name == own) {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
        Err(format!(
            "a rehearsal did not end within {} s: the EVENT's definer may lack a privilege, see the server's error log",
            REHEARSAL.as_secs()
        ))
    }

    fn watched<'a>(&'a self, schema: &'a str) -> Watched<'a> {
        watched(&self.facts, &self.journal.journal, schema)
    }
}

pub(super) fn watched<'a>(facts: &Facts, journal: &'a Journal, schema: &'a str) -> Watched<'a> {
    Watched {
        schema,
        holder: journal.holder,
        writer: journal.writer,
        started: facts.started,
        variables: &journal.variables,
        has_binary_log: facts.has_binary_log,
        version: facts.version,
    }
}
