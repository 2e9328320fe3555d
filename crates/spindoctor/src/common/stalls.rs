//! Times and stalls in words.

use jiff::Timestamp;
use spindoctor_model::EventHead;
use spindoctor_page::number;
use spindoctor_record::span::Span;

/// `2026-07-01 09:30:12.4 UTC`
pub fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S%.1f UTC").to_string().replace(".0 UTC", " UTC")
}

/// `09:30:12.4 UTC`
pub fn time(at: Timestamp) -> String {
    at.strftime("%H:%M:%S%.1f UTC").to_string().replace(".0 UTC", " UTC")
}

/// How long an event lasted, where its end was seen.
pub fn event_lasted(head: &EventHead) -> String {
    match head.ended {
        Some(_) if head.stall.kind.is_of_an_instant() => "at an instant".to_owned(),
        Some(ended) => number::duration(Span::new(head.began, ended).seconds()),
        None => "its end was not seen".to_owned(),
    }
}
