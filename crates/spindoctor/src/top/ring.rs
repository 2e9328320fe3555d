//! The last minutes of a live server, in memory: the live view can freeze and go back within them.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Gap, Reading, RecordedSample, Sample, Segment, Window};

use super::feed::Extent;
use super::point::Point;
use spindoctor_sessions::{AtWork, Reader};

/// Samples are kept so long: who sees a stall and presses the space bar finds what led to it.
const KEPT: SignedDuration = SignedDuration::from_mins(10);
/// And no more than so much of them, on servers with thousands of connections.
const MOST_BYTES: usize = 96 << 20;
/// The charts' counters are kept so long: 120 bytes for each second.
const POINTS_KEPT: SignedDuration = SignedDuration::from_hours(4);
/// Lists that are shown as they are now are in so many of a window's newest samples; a source that is asked every other
/// second is in one of them.
const WITH_LISTS: usize = 3;

/// The last minutes.
#[derive(Debug, Default)]
pub struct Ring {
    segments: Vec<Segment>,
    samples: VecDeque<Kept>,
    points: VecDeque<Point>,
    gaps: Vec<Gap>,
    sessions: Reader,
    /// The variables as they were read last: they do not come with every sample.
    variables: Option<NamedValues>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    recorded: RecordedSample,
    /// The sessions at work in it, where it has a list of threads.
    at_work: Option<AtWork>,
    bytes: usize,
}

impl Ring {
    /// A new stretch of samples begins.
    pub fn begin(&mut self, segment: Segment) {
        self.segments.push(segment);
    }

    /// Takes a sample; those that are too old make room. Where the clock was set back, so do those of later than now.
    pub fn push(&mut self, recorded: RecordedSample) {
        self.forget_after(recorded.at);
        if let Some(variables) = recorded.sample.server.variables.value() {
            self.variables = Some(variables.clone());
        }
        self.points.push_back(Point::from_sample(&recorded));
        let newest = recorded.at;
        let at_work = self.sessions.read(&recorded);
        let bytes = estimated_bytes(&recorded.sample) + at_work.as_ref().map_or(0, bytes_at_work);
        self.bytes += bytes;
        self.samples.push_back(Kept { recorded, at_work, bytes });
        while self.samples.front().is_some_and(|oldest| newest.duration_since(oldest.recorded.at) > KEPT)
            || (self.bytes > MOST_BYTES && self.samples.len() > 2)
        {
            self.bytes -= self.samples.pop_front().map_or(0, |kept| kept.bytes);
        }
        while self.points.front().is_some_and(|oldest| newest.duration_since(oldest.at) > POINTS_KEPT) {
            self.points.pop_front();
        }
        let oldest = self.samples.front().map(|kept| kept.recorded.segment);
        self.segments.retain(|segment| oldest.is_none_or(|oldest| segment.id >= oldest));
    }

    /// Forgets what is of later than an instant: what comes now would stand before it.
    fn forget_after(&mut self, at: Timestamp) {
        if self.samples.back().is_none_or(|newest| newest.recorded.at <= at) {
            return;
        }
        while self.samples.back().is_some_and(|newest| newest.recorded.at > at) {
            self.bytes -= self.samples.pop_back().map_or(0, |kept| kept.bytes);
        }
        while self.points.back().is_some_and(|newest| newest.at > at) {
            self.points.pop_back();
        }
        self.gaps.retain(|gap| gap.from <= at);
        for gap in &mut self.gaps {
            gap.to = gap.to.map(|to| to.min(at));
        }
    }

    /// Takes a time without samples; one that began already goes on or ends.
    pub fn note_gap(&mut self, gap: Gap) {
        match self.gaps.last_mut() {
            Some(last) if last.from == gap.from => *last = gap,
            _ => self.gaps.push(gap),
        }
    }

    /// The times without samples.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Of when there are samples.
    pub fn extent(&self) -> Option<Extent> {
        Some(Extent { from: self.samples.front()?.recorded.at, to: self.samples.back()?.recorded.at })
    }

    /// The charts' counters between two instants.
    pub fn points(&self, from: Timestamp, to: Timestamp) -> Vec<Point> {
        self.points.iter().filter(|point| (from..=to).contains(&point.at)).copied().collect()
    }

    /// The sessions at work between two instants, in each list of threads.
    pub fn at_work(&self, from: Timestamp, to: Timestamp) -> Vec<AtWork> {
        let lists = self.samples.iter().filter_map(|kept| kept.at_work.as_ref());
        lists.filter(|list| (from..=to).contains(&list.at)).cloned().collect()
    }

    /// The samples of the time before an instant, of the segment of the last one.
    pub fn window(&self, until: Timestamp, span: SignedDuration) -> Option<Window> {
        let before = |kept: &&Kept| kept.recorded.at <= until;
        let last = &self.samples.iter().rev().find(before)?.recorded;
        let of_window = |kept: &&Kept| {
            let recorded = &kept.recorded;
            recorded.segment == last.segment
                && recorded.at <= last.at
                && until.duration_since(recorded.at) <= span
        };
        let kept: Vec<&RecordedSample> =
            self.samples.iter().filter(of_window).map(|kept| &kept.recorded).collect();
        let first = kept.first()?;
        let segment = self.segments.iter().find(|segment| segment.id == first.segment)?;
        let begins_s = first.sample.at_s;
        let mut samples: Vec<Sample> = Vec::with_capacity(kept.len());
        for (at, recorded) in kept.iter().enumerate() {
            let has_lists = at + WITH_LISTS >= kept.len();
            let mut sample =
                if has_lists { recorded.sample.clone() } else { without_lists(&recorded.sample) };
            sample.shift(-begins_s);
            samples.push(sample);
        }
        let variables = &mut samples.first_mut()?.server.variables;
        if variables.value().is_none()
            && let Some(known) = &self.variables
        {
            *variables = Reading::Available { at_s: 0.0, took_ms: 0.0, value: known.clone() };
        }
        Some(Window { server: segment.server.clone(), start: first.at, samples, ..Window::default() })
    }
}

/// A sample without the lists of which only the newest is shown.
fn without_lists(sample: &Sample) -> Sample {
    let server = &sample.server;
    Sample {
        at_s: sample.at_s,
        server: spindoctor_model::ServerSample {
            status: server.status.clone(),
            variables: server.variables.clone(),
            innodb_metrics: server.innodb_metrics.clone(),
            digests: server.digests.clone(),
            waits: server.waits.clone(),
            replication: server.replication.clone(),
            cut: server.cut.clone(),
            ..spindoctor_model::ServerSample::default()
        },
        host: sample.host.clone(),
    }
}

/// About how much memory a sample takes: names and values of a few dozen bytes, statements of up to a kilobyte.
fn estimated_bytes(sample: &Sample) -> usize {
    const NAMED_VALUE: usize = 100;
    const DIGEST: usize = 600;
    const THREAD: usize = 400;
    let server = &sample.server;
    let statements = |threads: &Vec<spindoctor_model::mysql::ServerThread>| {
        threads.iter().map(|thread| THREAD + thread.statement.as_ref().map_or(0, String::len)).sum()
    };
    server.status.value().map_or(0, NamedValues::len) * NAMED_VALUE
        + server.variables.value().map_or(0, NamedValues::len) * NAMED_VALUE
        + server.innodb_metrics.value().map_or(0, std::collections::BTreeMap::len) * NAMED_VALUE
        + server.digests.value().map_or(0, Vec::len) * DIGEST
        + server.threads.value().map_or(0, statements)
        + server.transactions.value().map_or(0, Vec::len) * THREAD
        + sample.host.threads.value().map_or(0, Vec::len) * NAMED_VALUE
}

/// The same of the sessions at work: a statement without its literals is a line of text.
fn bytes_at_work(list: &AtWork) -> usize {
    const SIGHTINGS: usize = 120;
    list.sightings.iter().map(|seen| SIGHTINGS + seen.statement.len() + seen.state.len()).sum()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::ServerThread;

    use super::*;

    fn recorded(second: i64, segment: u64) -> RecordedSample {
        let at_s = second as f64;
        let mut sample = Sample { at_s, ..Sample::default() };
        let value = NamedValues::from_iter([("Questions", (second * 10).to_string())]);
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        sample.server.threads =
            Reading::Available { at_s, took_ms: 1.0, value: vec![ServerThread::default()] };
        RecordedSample { at: Timestamp::from_second(1_000 + second).unwrap(), segment, sample }
    }

    fn ring(seconds: i64) -> Ring {
        let mut ring = Ring::default();
        ring.begin(Segment { id: 1, ..Segment::default() });
        (0..=seconds).for_each(|second| ring.push(recorded(second, 1)));
        ring
    }

    #[test]
    fn a_window_ends_with_the_last_sample_before_the_instant_and_counts_from_its_first() {
        let ring = ring(30);
        let until = Timestamp::from_millisecond(1_020_700).unwrap();
        let window = ring.window(until, SignedDuration::from_secs(10)).unwrap();
        assert_eq!(window.samples.len(), 10);
        // Of the sessions at work every list counts, and not only the newest.
        assert_eq!(ring.at_work(Timestamp::from_second(1_011).unwrap(), until).len(), 10);
        assert_eq!((window.samples[0].at_s, window.seconds()), (0.0, 9.0));
        assert_eq!(window.status_per_s("Questions"), Some(10.0));
        let with_threads = window.samples.iter().filter(|s| s.server.threads.value().is_some()).count();
        assert_eq!(with_threads, WITH_LISTS);
        assert!(ring.window(Timestamp::from_second(900).unwrap(), SignedDuration::from_secs(10)).is_none());
    }

    #[test]
    fn samples_of_two_segments_are_in_no_window_together() {
        let mut ring = ring(10);
        ring.begin(Segment { id: 2, ..Segment::default() });
        ring.push(recorded(12, 2));
        let window =
            ring.window(Timestamp::from_second(1_012).unwrap(), SignedDuration::from_secs(60)).unwrap();
        assert_eq!(window.samples.len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_nothing_that_is_later_than_now() {
        let mut ring = ring(30);
        let at = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let gap = |from, to| Gap { from: at(from), to: Some(at(to)), because: "it was set".to_owned() };
        ring.note_gap(gap(5, 3_600));
        ring.note_gap(gap(20, 25));
        ring.begin(Segment { id: 2, ..Segment::default() });
        let bytes = ring.bytes;
        ring.push(recorded(10, 2));
        let extent = ring.extent().unwrap();
        assert_eq!((extent.from, extent.to), (at(0), at(10)));
        assert_eq!(ring.points(at(0), at(100)).len(), 12);
        assert_eq!(ring.gaps(), [gap(5, 10)]);
        assert!(ring.bytes < bytes);
        let window = ring.window(at(10), SignedDuration::from_secs(60)).unwrap();
        assert_eq!(window.samples.len(), 1, "of the new segment");
        (11..=40).for_each(|second| ring.push(recorded(second, 2)));
        assert_eq!(ring.extent().unwrap().to, at(40));
        assert_eq!(ring.points(at(0), at(100)).len(), 42);
    }

    #[test]
    fn what_is_old_makes_room_and_the_charts_go_further_back() {
        let ring = ring(KEPT.as_secs() + 100);
        let extent = ring.extent().unwrap();
        assert_eq!(extent.to.duration_since(extent.from), KEPT);
        assert_eq!(ring.points(Timestamp::UNIX_EPOCH, extent.to).len() as i64, KEPT.as_secs() + 101);
    }
}
