//! What is said of an event: JSON, schema `spindoctor.event/1`. Fields may be added; none is renamed or removed.

use serde::Serialize;
use spindoctor_model::ServerIdentity;

use crate::record::gathering::Over;

/// The schema's name.
const SCHEMA: &str = "spindoctor.event/1";

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    schema: &'static str,
    server: Server,
    event: Event,
    /// Events before this one of which nothing was said: there were too many.
    events_left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Server {
    hostname: String,
    address: String,
    version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Event {
    id: u64,
    /// `lasts`, or `over`.
    phase: &'static str,
    kind: String,
    because: String,
    began: String,
    ended: Option<String>,
    seconds: f64,
    cause: Option<String>,
    headline: String,
    remedies: Vec<String>,
}

impl Message {
    /// Of an event.
    pub fn new(over: &Over, server: &ServerIdentity, events_left_out: u64) -> Self {
        let head = &over.head;
        Self {
            schema: SCHEMA,
            server: Server {
                hostname: server.hostname.clone(),
                address: server.address.clone(),
                version: server.version.as_ref().map(ToString::to_string),
            },
            event: Event {
                id: head.id,
                phase: if over.lasts { "lasts" } else { "over" },
                kind: spindoctor_export::rows::word(&head.stall.kind),
                because: head.stall.because.clone(),
                began: head.began.to_string(),
                ended: head.ended.map(|ended| ended.to_string()),
                seconds: over.seen_until.duration_since(head.began).as_secs_f64().max(0.0),
                cause: head.cause.clone(),
                headline: head.headline.clone(),
                remedies: over.remedies.clone(),
            },
            events_left_out,
        }
    }

    /// The message as JSON, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `db17: Commits stopped for 4.1 s: ...`, one line.
    pub fn line(&self) -> String {
        let event = &self.event;
        let text = [&event.headline, &event.because].into_iter().find(|text| !text.is_empty());
        format!("event {} {}: {}", event.id, event.phase, text.map_or("", String::as_str))
    }

    /// The value of a field that a template names; none where there is no such field.
    pub fn field(&self, name: &str) -> Option<String> {
        let event = &self.event;
        Some(match name {
            "hostname" => self.server.hostname.clone(),
            "address" => self.server.address.clone(),
            "version" => self.server.version.clone().unwrap_or_default(),
            "id" => event.id.to_string(),
            "phase" => event.phase.to_owned(),
            "kind" => event.kind.clone(),
            "because" => event.because.clone(),
            "began" => event.began.clone(),
            "ended" => event.ended.clone().unwrap_or_default(),
            "seconds" => format!("{:.1}", event.seconds),
            "cause" => event.cause.clone().unwrap_or_default(),
            "headline" => event.headline.clone(),
            "remedy" => event.remedies.first().cloned().unwrap_or_default(),
            "events_left_out" => self.events_left_out.to_string(),
            _ => return None,
        })
    }

    /// The fields' names.
    pub const FIELDS: [&str; 14] = [
        "hostname",
        "address",
        "version",
        "id",
        "phase",
        "kind",
        "because",
        "began",
        "ended",
        "seconds",
        "cause",
        "headline",
        "remedy",
        "events_left_out",
    ];
}

#[cfg(test)]
pub(super) mod examples {
    use spindoctor_model::{EventHead, Stall};

    use super::*;

    pub fn message() -> Message {
        let head = EventHead {
            id: 7,
            stall: Stall { because: "no commit for 1.1 s while 39 threads run".into(), ..Stall::default() },
            cause: Some("row-lock-pileup".into()),
            headline: "39 sessions wait for one row of \"shop\".\"orders\"\n".into(),
            ..EventHead::default()
        };
        let seen_until = head.began + jiff::SignedDuration::from_millis(4_100);
        let over = Over { head, seen_until, lasts: true, remedies: vec!["KILL 12".into()] };
        let server = ServerIdentity { hostname: "db17".into(), ..ServerIdentity::default() };
        Message::new(&over, &server, 0)
    }

    #[test]
    fn a_message_is_one_line_of_json_and_every_field_has_a_value() {
        let message = message();
        let json = message.json();
        assert!(!json.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (value["schema"].as_str(), value["event"]["phase"].as_str()),
            (Some(SCHEMA), Some("lasts"))
        );
        assert_eq!(value["event"]["remedies"][0], "KILL 12");
        assert!(Message::FIELDS.iter().all(|name| message.field(name).is_some()));
        assert_eq!(message.field("seconds").as_deref(), Some("4.1"));
        assert_eq!(message.field("password"), None);
    }
}
