//! Windows of a recording that are longer than what is held in memory at once.

use std::time::Duration;

use spindoctor_model::Window;
use spindoctor_record::Recording;
use spindoctor_record::span::{Span, after, before};

/// So much of a recording is held in memory at once: samples of a large server take a hundred kilobytes each.
pub const AT_ONCE: Duration = Duration::from_secs(300);
/// Of a longer time only this much of its beginning and its end become a window: all sources were read in it.
const EDGE: Duration = Duration::from_secs(70);

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
