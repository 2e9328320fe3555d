//! A recording cut into slices, in order, each of which becomes a file of every table. Pure.
//!
//! A slice lies in one segment and in one day, and ends where the clock strikes: each five minutes, say. The cuts
//! depend on the recording alone and not on the time of the export, so a slice that is written twice is written to the
//! same files. How far it came is a [`Position`].
//!
//! Events are cut in another way: an event is in the slice in which it has ended and is diagnosed, and in no other.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::{EventHead, Gap, RecordedSetting, Segment};
use spindoctor_record::Stretch;

use super::part::Part;
use spindoctor_record::span::{ONE_MORE, Span, after};

const DAY_MS: i64 = 86_400_000;
/// A day before the last that a clock can show, 9999-12-29: a recording that claims to have later samples is damaged, and
/// behind each slice there is an instant for the next.
const LATEST: Timestamp = Timestamp::constant(253_402_041_600, 0);
const MINUTE_MS: i64 = 60_000;
/// A slice is cut when there are samples of so long after it, of its segment or of those that followed. By then the
/// recorder has written what it writes late: what it saw of locks up to 12 s before a stall was known, and that an event
/// has ended, which it knows after 5 s.
pub const SETTLES: Duration = Duration::from_secs(15);
/// An event without a finding is waited for so long after its end: on a machine that is on its knees its diagnosis may be
/// on the way.
const DIAGNOSED_WITHIN: Duration = Duration::from_secs(60);

/// How far a recording has been cut.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The segment of the last slice; 0 where there was none.
    segment: u64,
    /// The first instant that was in no slice of it.
    until: Timestamp,
    /// Events before this one were in a slice,
    event: u64,
    /// and these of those after it.
    events: BTreeSet<u64>,
}

/// Whether more may come into a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// It may: what is not over is left for later.
    Comes,
    /// Nothing does: all of it is cut.
    Ended,
}

/// One slice of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    segment: u64,
    span: Span,
    /// What belongs to no segment is in it from here on: from the slice before.
    since: Timestamp,
    /// When the clock has it begin, which may be before its segment does; or where the slice before broke off.
    begins: Timestamp,
    is_first: bool,
    is_last: bool,
    /// No slice follows it, now or later.
    is_final: bool,
    /// The last sample of its segment so far.
    seen: Timestamp,
    events: BTreeSet<u64>,
}

/// The slice after a position, without its events; none where none is due.
///
/// `stretches` are those of the position's segment and of all later ones; `sampled_within` gives the first instant of a
/// span at which there may be a sample. Time without a sample makes no slices, be it the years between two settings of a
/// clock: what there is of it is in the slice after it.
///
/// # Errors
/// That of `sampled_within`.
pub fn next<E>(
    position: &Position,
    stretches: &[Stretch],
    every: Duration,
    more: More,
    sampled_within: impl Fn(Span) -> Result<Option<Timestamp>, E>,
) -> Result<Option<Slice>, E> {
    for (place, stretch) in stretches.iter().enumerate() {
        if stretch.segment < position.segment {
            continue;
        }
        let later = &stretches[place + 1..];
        let is_first = stretch.segment != position.segment;
        let last = stretch.last.min(LATEST);
        let next = if is_first { stretch.first } else { position.until.max(stretch.first) };
        if next > last {
            continue;
        }
        let from = match is_first {
            true => next,
            false => sampled_within(Span::new(next, last))?.unwrap_or(last),
        };
        let (strikes, end) = struck(from, every);
        let is_last = end > last;
        let is_due = more == More::Ended
            || match later {
                [] => !is_last && last >= after(end, SETTLES),
                _ => sampled(later) >= SETTLES,
            };
        let last_ms = end.as_millisecond() - 1;
        let to = last.min(Timestamp::from_millisecond(last_ms).unwrap_or(last));
        return Ok(is_due.then(|| Slice {
            segment: stretch.segment,
            span: Span::new(from, to),
            since: position.until.min(from),
            begins: if is_first { strikes } else { strikes.max(position.until) },
            is_first,
            is_last,
            is_final: is_last && later.is_empty() && more == More::Ended,
            seen: last,
            events: BTreeSet::new(),
        }));
    }
    Ok(None)
}

/// For how long there are samples, whatever the clock was set to between them.
fn sampled(stretches: &[Stretch]) -> Duration {
    stretches.iter().map(|stretch| Span::new(stretch.first, stretch.last).length()).sum()
}

/// When the clock struck last at or before an instant, and when it strikes next: at midnight (UTC), and each so often
/// from then on.
fn struck(at: Timestamp, every: Duration) -> (Timestamp, Timestamp) {
    let at_ms = at.as_millisecond();
    let every_ms = i64::try_from(every.as_millis()).unwrap_or(DAY_MS).clamp(1, DAY_MS);
    let day_ms = at_ms.div_euclid(DAY_MS) * DAY_MS;
    let strike_ms = day_ms + (at_ms - day_ms) / every_ms * every_ms;
    let next_ms = (strike_ms + every_ms).min(day_ms + DAY_MS);
    let instant = |ms| Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    (instant(strike_ms), instant(next_ms))
}

impl Slice {
    /// Its segment's number.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// What distinguishes it from the other slices of its segment, whatever retention deleted of it since: when the
    /// clock struck, or when its segment began.
    pub fn named_after(&self, segment: &Segment) -> Timestamp {
        self.begins.max(segment.began)
    }

    /// With the events that are due in it, of all of the recording.
    pub fn with_events(self, position: &Position, heads: &[EventHead]) -> Self {
        let events = heads
            .iter()
            .filter(|head| !position.has_event(head.id) && self.settles(head))
            .map(|head| head.id)
            .collect();
        Self { events, ..self }
    }

    /// True for an event of which nothing more comes.
    fn settles(&self, head: &EventHead) -> bool {
        if head.segment != self.segment {
            return head.segment < self.segment;
        }
        let is_diagnosed = |ended| !head.headline.is_empty() || self.seen >= after(ended, DIAGNOSED_WITHIN);
        self.is_last || head.ended.is_some_and(|ended| ended <= self.span.to && is_diagnosed(ended))
    }
}

impl Position {
    /// Behind a slice, in a recording with these events.
    pub fn behind(&self, slice: &Slice, heads: &[EventHead]) -> Self {
        let is_written = |id: u64| self.has_event(id) || slice.events.contains(&id);
        let written = heads.iter().map(|head| head.id).filter(|id| is_written(*id));
        let past = written.clone().max().map_or(self.event, |last| self.event.max(last + 1));
        let open = heads.iter().map(|head| head.id).filter(|id| !is_written(*id)).min();
        let event = open.map_or(past, |open| open.min(past));
        Self {
            segment: slice.segment,
            until: after(slice.span.to, ONE_MORE),
            event,
            events: written.filter(|id| *id > event).collect(),
        }
    }

    /// The segment of the last slice; 0 where there was none.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// Up to when the recording was cut; none where nothing was.
    pub fn until(&self) -> Option<Timestamp> {
        (self.segment > 0).then_some(self.until)
    }

    fn has_event(&self, id: u64) -> bool {
        id < self.event || self.events.contains(&id)
    }
}

/// What names no segment (settings and gaps) is in the slice of its time. Where the clock was set back there are two such
/// slices, and it may stand in both.
impl Part for Slice {
    fn span(&self) -> Span {
        self.span
    }

    /// Those that end in it: the exported values of a minute grow until then.
    fn minutes(&self) -> Option<Span> {
        let minute_ms = |at: Timestamp| at.as_millisecond().div_euclid(MINUTE_MS) * MINUTE_MS;
        let instant = |ms| Timestamp::from_millisecond(ms).unwrap_or(self.span.from);
        // Of the time before it that had no slice, too: the minute that the slice before broke off in may have ended there.
        let from = if self.is_first { self.span.from } else { instant(minute_ms(self.since)) };
        let to = match self.is_last {
            true => self.span.to,
            false => instant(minute_ms(after(self.span.to, ONE_MORE)) - 1),
        };
        (from <= to).then(|| Span::new(from, to))
    }

    fn segment(&self) -> Option<u64> {
        Some(self.segment)
    }

    fn has_event(&self, head: &EventHead) -> bool {
        self.events.contains(&head.id)
    }

    fn has_setting(&self, setting: &RecordedSetting) -> bool {
        Span::new(self.since, self.span.to).contains(setting.at)
    }

    /// In which it ends, which may be many slices after its beginning. One that goes on when nothing more comes is in the
    /// last of all slices, and so is one that ended after the last sample.
    fn has_gap(&self, gap: &Gap) -> bool {
        let to = if self.is_final { Timestamp::MAX } else { self.span.to };
        Span::new(self.since, to).contains(gap.to.unwrap_or(Timestamp::MAX))
    }

    fn has_segment(&self, segment: &Segment) -> bool {
        self.is_first && segment.id == self.segment
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const EVERY: Duration = Duration::from_mins(5);

    fn at(text: &str) -> Timestamp {
        format!("2026-11-22T{text}Z").parse().unwrap()
    }

    fn stretch(segment: u64, first: &str, last: &str) -> Stretch {
        Stretch { segment, first: at(first), last: at(last) }
    }

    fn head(id: u64, segment: u64, ended: Option<&str>, headline: &str) -> EventHead {
        EventHead { id, segment, ended: ended.map(at), headline: headline.to_owned(), ..EventHead::default() }
    }

    /// The slice after a position, of a recording that has samples all the time.
    fn next(position: &Position, stretches: &[Stretch], every: Duration, more: More) -> Option<Slice> {
        let always = |span: Span| Ok::<_, Infallible>(Some(span.from));
        super::next(position, stretches, every, more, always).unwrap()
    }

    /// All slices that are due, as `segment from..to` with their events.
    fn cut(position: &mut Position, stretches: &[Stretch], heads: &[EventHead], more: More) -> Vec<String> {
        let mut text = Vec::new();
        while let Some(slice) = next(position, stretches, EVERY, more) {
            let slice = slice.with_events(position, heads);
            let time = |at: Timestamp| at.strftime("%H:%M:%S").to_string();
            let ids: Vec<String> = slice.events.iter().map(u64::to_string).collect();
            text.push(
                format!(
                    "{} {}..{} {}",
                    slice.segment,
                    time(slice.span.from),
                    time(slice.span.to),
                    ids.join(",")
                )
                .trim_end()
                .to_owned(),
            );
            *position = position.behind(&slice, heads);
        }
        text
    }

    #[test]
    fn a_slice_is_due_when_nothing_more_comes_into_it() {
        let mut position = Position::default();
        let goes_on = |last| [stretch(1, "09:32:10", last)];
        assert!(cut(&mut position, &goes_on("09:35:14"), &[], More::Comes).is_empty());
        assert_eq!(cut(&mut position, &goes_on("09:35:15"), &[], More::Comes), ["1 09:32:10..09:34:59"]);
        assert!(cut(&mut position, &goes_on("09:40:10"), &[], More::Comes).is_empty());
        let late = cut(&mut position, &goes_on("09:51:00"), &[], More::Comes);
        assert_eq!(late, ["1 09:35:00..09:39:59", "1 09:40:00..09:44:59", "1 09:45:00..09:49:59"]);
        let rest = cut(&mut position, &goes_on("09:51:00"), &[], More::Ended);
        assert_eq!(rest, ["1 09:50:00..09:51:00"]);
        assert!(cut(&mut position, &goes_on("09:51:00"), &[], More::Ended).is_empty());
    }

    #[test]
    fn time_without_a_sample_makes_no_slice_and_what_it_has_is_in_the_slice_after_it() {
        // The clock said 1970 at first; and a sample claims to be from after all time.
        let samples = [Timestamp::UNIX_EPOCH, at("09:32:10"), at("09:33:50"), Timestamp::MAX];
        let all = [Stretch { segment: 1, first: samples[0], last: samples[3] }];
        let within =
            |span: Span| Ok::<_, Infallible>(samples.into_iter().find(|sample| span.contains(*sample)));
        let mut position = Position::default();
        let mut spans = Vec::new();
        while let Some(slice) =
            super::next(&position, &all, Duration::from_mins(1), More::Ended, within).unwrap()
        {
            position = position.behind(&slice, &[]);
            spans.push((slice.span.from, slice.span.to));
            assert!(slice.since <= slice.span.from && spans.len() <= 4, "{spans:?}");
            let minutes = slice.minutes().unwrap();
            assert!(minutes.from <= slice.since, "the minutes since the slice before are in it");
        }
        let minute = |from: Timestamp| (from, struck(from, Duration::from_mins(1)).1 - ONE_MORE);
        let [first, second, third, _] = samples.map(minute);
        assert_eq!(spans, [first, second, third, (LATEST, LATEST)]);
    }

    #[test]
    fn a_segment_is_over_when_the_next_one_has_begun_whatever_its_clock_says() {
        let mut position = Position::default();
        let first = stretch(1, "09:32:10", "09:36:00");
        let text = cut(&mut position, &[first, stretch(3, "08:00:00", "08:00:10")], &[], More::Comes);
        assert!(text.is_empty(), "the last words of the first may come yet: {text:?}");
        let text = cut(&mut position, &[first, stretch(3, "08:00:00", "08:05:20")], &[], More::Comes);
        assert_eq!(text, ["1 09:32:10..09:34:59", "1 09:35:00..09:36:00", "3 08:00:00..08:04:59"]);
    }

    #[test]
    fn segments_that_are_shorter_than_that_hold_nothing_up() {
        let mut position = Position::default();
        let long = stretch(1, "09:32:10", "09:36:00");
        let short = stretch(2, "09:36:10", "09:36:15");
        let cut = |position: &mut Position, running| {
            cut(position, &[long, short, stretch(3, "09:36:20", running)], &[], More::Comes)
        };
        assert!(cut(&mut position, "09:36:29").is_empty());
        let text = cut(&mut position, "09:36:30");
        assert_eq!(text, ["1 09:32:10..09:34:59", "1 09:35:00..09:36:00"], "5 s and 10 s followed");
        assert_eq!(cut(&mut position, "09:36:35"), ["2 09:36:10..09:36:15"]);
        assert!(cut(&mut position, "09:40:14").is_empty());
        assert_eq!(cut(&mut position, "09:40:15"), ["3 09:36:20..09:39:59"]);
    }

    #[test]
    fn midnight_ends_a_slice() {
        let every = Duration::from_secs(7 * 3_600);
        let (_, end) = struck(at("23:00:00"), every);
        assert_eq!(end, "2026-11-23T00:00:00Z".parse::<Timestamp>().unwrap());
        assert_eq!(struck(at("07:30:00"), every), (at("07:00:00"), at("14:00:00")));
        assert_eq!(struck(at("07:30:00"), Duration::from_secs(90_000)).0, at("00:00:00"));
    }

    #[test]
    fn each_event_is_in_the_slice_in_which_it_is_whole_and_in_no_other() {
        let mut position = Position::default();
        let mut heads = vec![
            head(1, 1, Some("09:33:00"), "commits wait"),
            // Its diagnosis is on the way.
            head(2, 1, Some("09:34:50"), ""),
            // It lasts.
            head(3, 1, None, "the redo log is full"),
            head(4, 1, Some("09:34:58"), "a lock"),
        ];
        let text = cut(&mut position, &[stretch(1, "09:32:10", "09:35:20")], &heads, More::Comes);
        assert_eq!(text, ["1 09:32:10..09:34:59 1,4"]);
        assert_eq!((position.event, &position.events), (2, &BTreeSet::from([4])));

        heads[1].headline = "a disk".to_owned();
        heads.push(head(6, 2, None, ""));
        let text = cut(&mut position, &[stretch(1, "09:32:10", "09:40:20")], &heads, More::Comes);
        assert_eq!(text, ["1 09:35:00..09:39:59 2"]);

        // The recorder was killed in the third: the next one has begun.
        let stretches = [stretch(1, "09:32:10", "09:40:20"), stretch(2, "09:41:00", "09:41:30")];
        assert_eq!(cut(&mut position, &stretches, &heads, More::Comes), ["1 09:40:00..09:40:20 3"]);
        assert_eq!(cut(&mut position, &stretches, &heads, More::Ended), ["2 09:41:00..09:41:30 6"]);
        assert_eq!((position.event, position.events.len()), (7, 0));
    }

    #[test]
    fn an_event_without_a_finding_is_not_waited_for_for_ever() {
        let heads = [head(1, 1, Some("09:33:00"), "")];
        let text = cut(&mut Position::default(), &[stretch(1, "09:32:10", "09:35:20")], &heads, More::Comes);
        assert_eq!(text, ["1 09:32:10..09:34:59 1"]);
    }

    #[test]
    fn settings_gaps_and_segments_are_in_one_slice() {
        let stretches = [stretch(1, "09:32:10", "09:36:00"), stretch(2, "09:50:00", "09:52:00")];
        let mut position = Position::default();
        let gap = |to: Option<&str>| Gap { from: at("09:36:00"), to: to.map(at), ..Gap::default() };
        let setting = |time| RecordedSetting { at: at(time), ..RecordedSetting::default() };
        let mut text = Vec::new();
        while let Some(slice) = next(&position, &stretches, EVERY, More::Ended) {
            let segment = |id| Segment { id, ..Segment::default() };
            text.push([
                slice.has_gap(&gap(Some("09:49:59"))),
                slice.has_gap(&gap(None)),
                // It was read in an older sample, which retention took away.
                slice.has_setting(&setting("08:00:00")),
                slice.has_setting(&setting("09:35:00")),
                slice.has_segment(&segment(1)),
                slice.has_segment(&segment(2)),
            ]);
            position = position.behind(&slice, &[]);
        }
        assert_eq!(
            text,
            [
                [false, false, true, false, true, false],
                [false, false, false, true, false, false],
                [true, true, false, false, false, true],
            ]
        );
    }

    #[test]
    fn a_gap_is_in_the_slice_in_which_it_ends_or_in_the_last_of_all() {
        // The server was away for some slices. The samples are of its host.
        let mut position = Position::default();
        let gap = |to: Option<&str>| Gap { from: at("09:33:00"), to: to.map(at), ..Gap::default() };
        let mut text = |last, more| {
            let mut text = Vec::new();
            while let Some(slice) = next(&position, &[stretch(1, "09:32:10", last)], EVERY, more) {
                text.push([
                    slice.has_gap(&gap(Some("09:42:00"))),
                    slice.has_gap(&gap(None)),
                    slice.has_gap(&gap(Some("09:51:01"))),
                ]);
                position = position.behind(&slice, &[]);
            }
            text
        };
        let (none, ends) = ([false, false, false], [true, false, false]);
        assert_eq!(text("09:46:00", More::Comes), [none, none, ends]);
        assert_eq!(text("09:51:00", More::Ended), [none, [false, true, true]]);
    }

    #[test]
    fn a_minute_is_in_the_slice_in_which_it_ends() {
        let stretches = [stretch(1, "09:32:10", "09:34:05")];
        let mut position = Position::default();
        let mut text = Vec::new();
        while let Some(slice) = next(&position, &stretches, Duration::from_secs(20), More::Ended) {
            let time = |at: Timestamp| at.strftime("%M:%S%.3f").to_string();
            text.extend(slice.minutes().map(|span| format!("{}..{}", time(span.from), time(span.to))));
            position = position.behind(&slice, &[]);
        }
        assert_eq!(text, ["32:00.000..32:59.999", "33:00.000..33:59.999", "34:00.000..34:05.000"]);
    }

    #[test]
    fn a_slice_has_the_same_name_whatever_retention_took_of_it() {
        let segment = Segment { id: 1, began: at("09:32:09"), ..Segment::default() };
        let name = |first| {
            let slice = next(&Position::default(), &[stretch(1, first, "09:41:00")], EVERY, More::Ended);
            slice.unwrap().named_after(&segment)
        };
        assert_eq!((name("09:32:10"), name("09:33:30")), (at("09:32:09"), at("09:32:09")));
        assert_eq!((name("09:35:00"), name("09:37:00")), (at("09:35:00"), at("09:35:00")));
    }

    #[test]
    fn what_comes_after_all_was_cut_has_a_name_of_its_own() {
        let mut position = Position::default();
        cut(&mut position, &[stretch(1, "09:32:10", "09:36:00")], &[], More::Ended);
        let slice = next(&position, &[stretch(1, "09:32:10", "09:37:00")], EVERY, More::Ended).unwrap();
        let begins = at("09:36:00") + ONE_MORE;
        assert_eq!((slice.span.from, slice.named_after(&Segment::default())), (begins, begins));
    }

    #[test]
    fn a_position_is_kept_as_text() {
        let mut position = Position::default();
        assert_eq!(position.until(), None);
        cut(&mut position, &[stretch(1, "09:32:10", "09:51:00")], &[], More::Comes);
        let text = serde_json::to_string(&position).unwrap();
        assert_eq!(serde_json::from_str::<Position>(&text).unwrap(), position);
        assert_eq!(position.until(), Some(at("09:50:00")));
    }
}
