//! Recordings as commands read them: alone or in a bundle, and as windows that are longer than what is held in memory at once.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use spindoctor_model::Window;
use spindoctor_record::Recording;
use spindoctor_record::span::{AT_ONCE, Span, after, before};

use super::bundle::{self, Manifest};
use super::event_window;

/// Of a longer time only this much of its beginning and its end become a window: all sources were read in it.
const EDGE: Duration = Duration::from_secs(70);

/// A recording that is read.
pub struct Opened {
    recording: Recording,
    /// The manifest of the bundle that it was in; None for a recording alone.
    pub bundle: Option<Manifest>,
}

impl Deref for Opened {
    type Target = Recording;

    fn deref(&self) -> &Recording {
        &self.recording
    }
}

/// Opens a recording, or that of a bundle.
///
/// # Errors
/// There is none, it is something else, or it is damaged.
pub fn open(file: &Path) -> anyhow::Result<Opened> {
    if !bundle::is_one(file) {
        return Ok(Opened { recording: Recording::open(file)?, bundle: None });
    }
    let unpacked = bundle::unpack(file)?;
    // All of it is one file, which lasts as long as it is open: so its folder is gone however this process ends.
    let recording = Recording::open_called(&unpacked.folder.recording, file)?;
    Ok(Opened { recording, bundle: Some(unpacked.manifest) })
}

impl Opened {
    /// What a bundle is about: the stall of its event with its stacks, else all of its recording. None where it has no
    /// sample.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn window_of_bundle(&self) -> anyhow::Result<Option<Window>> {
        let event = self.bundle.as_ref().and_then(|manifest| manifest.event);
        let event = event.map(|id| self.event(id)).transpose()?.flatten();
        if let Some(event) = &event
            && let Some(window) = event_window::of_event(self, event)?
        {
            return Ok(Some(window));
        }
        match self.extent()? {
            Some((from, to)) => window(self, Span::new(from, to)),
            None => Ok(None),
        }
    }
}

/// The samples of a span; of a long one those at both of its ends.
pub fn window(recording: &Recording, span: Span) -> anyhow::Result<Option<Window>> {
    if span.length() <= AT_ONCE {
        return Ok(recording.window(span.from, span.to)?);
    }
    let (head, tail) = (
        recording.window(span.from, after(span.from, EDGE))?,
        recording.window(before(span.to, EDGE), span.to)?,
    );
    Ok(match (head, tail) {
        // Counters of one process only make rates.
        (Some(mut head), Some(mut tail)) if head.server == tail.server => {
            let by_s = tail.start.duration_since(head.start).as_secs_f64();
            tail.samples.iter_mut().for_each(|sample| sample.shift(by_s));
            head.samples.append(&mut tail.samples);
            Some(head)
        }
        (head, tail) => tail.or(head),
    })
}
