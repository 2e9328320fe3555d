//! What the rules say of a stall: of the samples around it, with the stacks of the stall itself.

use std::path::Path;

use anyhow::Context as _;
use jiff::SignedDuration;
use spindoctor_model::{Diagnosis, Event, Reading};
use spindoctor_record::Recording;
use spindoctor_rules::diagnose;

/// So much around the stall is looked at: rates need a sample before it and one after it.
const AROUND: SignedDuration = SignedDuration::from_secs(2);
/// And no more than this of a long stall.
const MOST: SignedDuration = SignedDuration::from_secs(20);

/// Reads the samples from the recording and looks at them. None where there are not two.
pub(super) fn of_event(recording: &Path, event: &Event) -> anyhow::Result<Option<Diagnosis>> {
    let file = Recording::open(recording)?;
    let began = event.head.began;
    let ended = event.head.ended.unwrap_or(began + MOST).min(began + MOST);
    let Some(mut window) = file.window(began - AROUND, ended + AROUND).context("the samples of the event")?
    else {
        return Ok(None);
    };
    if window.samples.len() < 2 {
        return Ok(None);
    }
    if let Some(during) = &event.during {
        let at_s = began.duration_since(window.start).as_secs_f64();
        window.profile = Reading::Available { at_s, took_ms: 0.0, value: during.clone() };
    }
    Ok(Some(diagnose(&window)))
}
