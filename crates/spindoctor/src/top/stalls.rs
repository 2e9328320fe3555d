//! Stalls of a live server, found by the recorder's detectors on the probe and the samples. The recorder looks at the
//! locks and at the stacks between samples, too, and sees short waits for locks and threads that want a CPU where this
//! does not. Only the time and the reason of a stall are kept: `spindoctor record` finds its cause.

use jiff::{SignedDuration, Timestamp};
use spindoctor_collect::follow::Restart;
use spindoctor_model::{EventHead, Probe, RecordedSample, Segment, Stall, StallKind};
use spindoctor_stalls::events::{Act, Events};
use spindoctor_stalls::{Baseline, StallChange, Stalls};

/// More stalls than anybody looks through on a screen; the oldest are forgotten.
const KEPT: usize = 500;

/// The stalls since the view began.
pub struct SeenStalls {
    stalls: Stalls,
    events: Events,
    heads: Vec<EventHead>,
    segment: Segment,
    now_s: f64,
    seen: u64,
}

impl Default for SeenStalls {
    fn default() -> Self {
        Self {
            stalls: Stalls::new(Baseline::default(), Vec::new()),
            events: Events::default(),
            heads: Vec::new(),
            segment: Segment::default(),
            now_s: 0.0,
            seen: 0,
        }
    }
}

impl SeenStalls {
    /// The stalls, in order of time.
    pub fn heads(&self) -> &[EventHead] {
        &self.heads
    }

    /// From here on readings are of this segment.
    pub fn begin(&mut self, segment: &Segment) {
        let acts = self.events.end_segment(self.now_s);
        self.act(acts);
        self.stalls.begin_segment(segment);
        self.segment = segment.clone();
        self.now_s = 0.0;
    }

    /// The server was restarted: an event of its own, or what the one that lasts is.
    pub fn restarted(&mut self, restart: &Restart) {
        let acts = self.events.end_segment(self.now_s);
        let is_open = !acts.is_empty();
        self.act(acts);
        let stall = Stall { kind: StallKind::Restarted, because: restart.to_string(), ..Stall::default() };
        // The probe may have been answered, and the event closed, before it was known which process answers.
        let is_of_it = |head: &EventHead| is_open || head.ended.is_some_and(|ended| ended >= restart.gone);
        match self.heads.last_mut() {
            Some(head) if head.stall.kind == StallKind::ServerGone && is_of_it(head) => {
                (head.stall, head.ended) = (stall, head.ended.or(Some(restart.back)));
            }
            _ => {
                self.seen += 1;
                let (id, segment, began) = (self.seen, self.segment.id, restart.gone);
                let ended = Some(restart.back);
                self.heads.push(EventHead { id, segment, began, ended, stall, ..EventHead::default() });
            }
        }
    }

    /// Takes what the probe was answered.
    pub fn probe(&mut self, probe: &Probe) {
        self.now_s = self.now_s.max(probe.at_s + probe.took_ms / 1e3);
        let changes = self.stalls.probe(probe);
        self.step(&changes);
    }

    /// Takes a sample.
    pub fn sample(&mut self, sample: &RecordedSample) {
        self.now_s = self.now_s.max(sample.sample.at_s);
        let changes = self.stalls.sample(sample);
        self.step(&changes);
    }

    fn step(&mut self, changes: &[StallChange]) {
        let acts = self.events.step(self.now_s, changes, !self.stalls.lasting().is_empty());
        self.act(acts);
    }

    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Open { stall, .. } => {
                    self.seen += 1;
                    let (segment, began) = (self.segment.id, self.instant(stall.began_s));
                    self.heads.push(EventHead {
                        id: self.seen,
                        segment,
                        began,
                        stall,
                        ..EventHead::default()
                    });
                    let too_many = self.heads.len().saturating_sub(KEPT);
                    self.heads.drain(..too_many);
                }
                Act::Close { ended_s } => {
                    // A segment that breaks off in a stall ends it for all that is known.
                    let ended = self.instant(ended_s.unwrap_or(self.now_s));
                    if let Some(head) = self.heads.last_mut() {
                        head.ended = Some(ended);
                    }
                }
                Act::Becomes(stall) => {
                    if let Some(head) = self.heads.last_mut() {
                        head.stall = stall;
                    }
                }
                Act::TakeIn(_) | Act::EndDetail => {}
            }
        }
    }

    fn instant(&self, at_s: f64) -> Timestamp {
        let since = SignedDuration::try_from_secs_f64(at_s).unwrap_or_default();
        self.segment.began.checked_add(since).unwrap_or(self.segment.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answers_nothing_for_seconds_is_one_stall_with_its_beginning_and_end() {
        let began = Timestamp::from_second(1_000).unwrap();
        let mut seen = SeenStalls::default();
        seen.begin(&Segment { id: 3, began, ..Segment::default() });
        let answered = |at_s: f64, n: u64| Probe {
            at_s,
            took_ms: 1.0,
            answered: true,
            questions: Some(n * 100),
            commits: Some(n * 10),
            threads_running: Some(4),
            ..Probe::default()
        };
        for n in 0..600 {
            seen.probe(&answered(n as f64 / 10.0, n));
        }
        assert_eq!(seen.heads(), []);
        seen.probe(&Probe { at_s: 60.0, took_ms: 5_000.0, ..Probe::default() });
        assert_eq!(seen.heads().len(), 1);
        assert_eq!(seen.heads()[0].ended, None);
        for n in 600..900 {
            seen.probe(&answered(5.1 + n as f64 / 10.0, n));
        }
        let [stall] = seen.heads() else { panic!("{:?}", seen.heads()) };
        assert_eq!((stall.id, stall.segment, stall.stall.kind), (1, 3, StallKind::NoAnswer));
        let since_s = |at: Timestamp| (at - began).total(jiff::Unit::Second).unwrap();
        assert!((59.0..=61.0).contains(&since_s(stall.began)), "{stall:?}");
        assert!((64.0..=68.0).contains(&since_s(stall.ended.unwrap())), "{stall:?}");
    }
}
