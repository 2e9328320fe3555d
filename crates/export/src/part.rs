//! The rows of a part of a recording: one pass over the samples, however many tables want them.

use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::{EventHead, Gap, RecordedSetting, Segment};
use spindoctor_record::Recording;

use super::file::Writing;
use super::table::{Account, Rows, Whose};
use spindoctor_record::span::{Ends, ONE_MORE, Span, after, before};
use spindoctor_sessions::{LONGEST_S, Reader};

/// So many milliseconds of a recording are held in memory at once: one of its chunks, so that each is decoded once.
const AT_ONCE_MS: i64 = 60_000;

/// Which part of a recording is wanted.
pub trait Part {
    /// Samples of these times, both ends included.
    fn span(&self) -> Span;

    /// The same for minutes, which are exported with their first sample; none where none is wanted.
    fn minutes(&self) -> Option<Span> {
        Some(self.span())
    }

    /// The one segment that is wanted, to whose server belongs what names no segment; none where all are wanted.
    fn segment(&self) -> Option<u64>;

    /// True for an event that is wanted.
    fn has_event(&self, head: &EventHead) -> bool;

    /// True for a setting that is wanted.
    fn has_setting(&self, setting: &RecordedSetting) -> bool;

    /// True for a gap that is wanted.
    fn has_gap(&self, gap: &Gap) -> bool;

    /// True where the segment itself is to be exported.
    fn has_segment(&self, segment: &Segment) -> bool;
}

/// All that touches a stretch of time, and the settings as they were in it.
#[derive(Debug)]
pub struct Touching {
    /// The stretch.
    pub span: Span,
    /// Where segments broke off: an event that nobody saw the end of touches nothing after that.
    pub ends: Ends,
}

impl Part for Touching {
    fn span(&self) -> Span {
        self.span
    }

    fn segment(&self) -> Option<u64> {
        None
    }

    fn has_event(&self, head: &EventHead) -> bool {
        self.span.meets_event(head, &self.ends)
    }

    fn has_setting(&self, setting: &RecordedSetting) -> bool {
        setting.at <= self.span.to
    }

    fn has_gap(&self, gap: &Gap) -> bool {
        self.span.meets_gap(gap)
    }

    fn has_segment(&self, _: &Segment) -> bool {
        true
    }
}

/// Writes the rows of a part into the files, each of its table.
///
/// # Errors
/// The recording cannot be read, or a file cannot be written.
pub fn write(recording: &Recording, part: &impl Part, files: &mut [Writing]) -> anyhow::Result<()> {
    let segments = recording.segments()?;
    let mut whose = Whose::from_segments(&segments);
    if let Some(home) = segments.iter().find(|segment| part.segment() == Some(segment.id)) {
        whose = whose.above_all_of(home);
    }
    samples(recording, part, &whose, files)?;
    minutes(recording, part, &whose, files)?;
    accounts(recording, part, &whose, files)?;
    events(recording, part, &whose, files)?;
    for file in &mut *files {
        let Rows::Settings(rows) = file.table.rows else { continue };
        for setting in recording.settings(part.span().to)?.iter().filter(|setting| part.has_setting(setting))
        {
            rows(&whose, setting, &mut |cells| file.row(cells))?;
        }
    }
    // What is damaged is found when it is read: the gaps come last.
    for file in files {
        match file.table.rows {
            Rows::Gaps(rows) => {
                for gap in recording.gaps()?.iter().filter(|gap| part.has_gap(gap)) {
                    rows(&whose, gap, &mut |cells| file.row(cells))?;
                }
            }
            Rows::Segments(rows) => {
                for segment in segments.iter().filter(|segment| part.has_segment(segment)) {
                    rows(&whose, segment, &mut |cells| file.row(cells))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn samples(
    recording: &Recording,
    part: &impl Part,
    whose: &Whose<'_>,
    files: &mut [Writing],
) -> anyhow::Result<()> {
    let with_threads =
        files.iter().any(|file| matches!(file.table.rows, Rows::Threads(_) | Rows::Sessions(_)));
    let with_sessions = files.iter().any(|file| matches!(file.table.rows, Rows::Sessions(_)));
    if !with_threads && !files.iter().any(|file| matches!(file.table.rows, Rows::Samples(_))) {
        return Ok(());
    }
    let span = part.span();
    let mut next = span.from;
    let mut sessions = Reader::default();
    if with_sessions {
        // The first list stands for the time since the one before it, which is a row of the slice before.
        let lead = before(span.from, Duration::from_secs_f64(LONGEST_S));
        let read = recording.samples(lead, before(span.from, ONE_MORE))?;
        for sample in read.iter().filter(|sample| is_of(part, sample.segment)) {
            sessions.read(sample);
        }
    }
    while let Some(from) = recording.first_within(next, span.to)? {
        let to = end_of_chunk(from).min(span.to);
        let read = match with_threads {
            true => recording.samples(from, to)?,
            false => recording.samples_with_emptied_lists(from, to)?,
        };
        for sample in read.iter().filter(|sample| is_of(part, sample.segment)) {
            let list = if with_sessions { sessions.read(sample) } else { None };
            for file in &mut *files {
                match (file.table.rows, &list) {
                    (Rows::Samples(rows) | Rows::Threads(rows), _) => {
                        rows(whose, sample, &mut |cells| file.row(cells))?;
                    }
                    (Rows::Sessions(rows), Some(list)) => rows(whose, list, &mut |cells| file.row(cells))?,
                    _ => {}
                }
            }
        }
        if to == span.to {
            break;
        }
        next = after(to, ONE_MORE);
    }
    Ok(())
}

fn minutes(
    recording: &Recording,
    part: &impl Part,
    whose: &Whose<'_>,
    files: &mut [Writing],
) -> anyhow::Result<()> {
    let Some(span) = part.minutes() else { return Ok(()) };
    for file in files {
        let Rows::Minutes(rows) = file.table.rows else { continue };
        // So many parts that each minute is one of its own.
        for point in recording.overview(span.from, span.to, usize::MAX)? {
            if is_of(part, point.segment) {
                rows(whose, &point, &mut |cells| file.row(cells))?;
            }
        }
    }
    Ok(())
}

fn accounts(
    recording: &Recording,
    part: &impl Part,
    whose: &Whose<'_>,
    files: &mut [Writing],
) -> anyhow::Result<()> {
    let Some(span) = part.minutes() else { return Ok(()) };
    if !files.iter().any(|file| matches!(file.table.rows, Rows::Accounts(_))) {
        return Ok(());
    }
    let mut next = span.from;
    while let Some(from) = recording.first_within(next, span.to)? {
        let to = end_of_chunk(from).min(span.to);
        for (segment, window) in recording.windows(from, to)? {
            if !is_of(part, segment) {
                continue;
            }
            let Some(time) = spindoctor_rules::session_time(&window) else { continue };
            let account = Account { segment, at: window.start, seconds: window.seconds(), time };
            for file in &mut *files {
                if let Rows::Accounts(rows) = file.table.rows {
                    rows(whose, &account, &mut |cells| file.row(cells))?;
                }
            }
        }
        if to == span.to {
            break;
        }
        next = after(to, ONE_MORE);
    }
    Ok(())
}

fn events(
    recording: &Recording,
    part: &impl Part,
    whose: &Whose<'_>,
    files: &mut [Writing],
) -> anyhow::Result<()> {
    if !files.iter().any(|file| matches!(file.table.rows, Rows::Events(_))) {
        return Ok(());
    }
    for head in recording.events()?.iter().filter(|head| part.has_event(head)) {
        let Some(event) = recording.event(head.id)? else { continue };
        for file in &mut *files {
            if let Rows::Events(rows) = file.table.rows {
                rows(whose, &event, &mut |cells| file.row(cells))?;
            }
        }
    }
    Ok(())
}

fn is_of(part: &impl Part, segment: u64) -> bool {
    part.segment().is_none_or(|wanted| wanted == segment)
}

/// The last millisecond of the chunk that an instant is in.
fn end_of_chunk(at: Timestamp) -> Timestamp {
    let end_ms = (at.as_millisecond().div_euclid(AT_ONCE_MS) + 1) * AT_ONCE_MS - 1;
    Timestamp::from_millisecond(end_ms).unwrap_or(Timestamp::MAX)
}
