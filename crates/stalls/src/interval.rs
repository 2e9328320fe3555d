//! From probes to intervals: what the counters gained between two answers, and the part of that time for which the
//! server is responsible.

use spindoctor_model::Probe;

use super::recent::Recent;

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 60.0;
/// The usual value is computed again this often.
const USUAL_EVERY_S: f64 = 1.0;
/// And from this many probes at least: a second.
const ENOUGH_PROBES: usize = 10;

/// Time without a query is not the server's fault; but a machine that runs no thread for half a second is a stall.
const MOST_EXCUSED_S: f64 = 0.3;
/// An answer that took half an interval and ten times as long as usual is itself a stop.
const LATE_RATIO: f64 = 10.0;
const LATE_INTERVALS: f64 = 0.5;

/// InnoDB's redo log is made of blocks of so many bytes; a transaction that writes fills about one.
const REDO_BLOCK_BYTES: f64 = 512.0;

/// Time between two answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Of it, what the server answers for.
    pub(super) counted_s: f64,
    /// How long an interval usually is.
    pub(super) every_s: f64,
    /// How many statements were counted in it, how many commits, and how many blocks of the redo log were written, where
    /// they are known.
    pub(super) questions: Option<f64>,
    pub(super) commits: Option<f64>,
    pub(super) redo_blocks: Option<f64>,
    /// Threads that run, at its beginning and at its end, where they were counted.
    pub(super) running: [Option<f64>; 2],
    /// True where the answer at its end stood still itself.
    pub(super) late: bool,
}

/// The last answer, and what is usual of questions and answers.
#[derive(Debug)]
pub(super) struct Intervals {
    /// The last question: when, and when that was over.
    asked: Option<(f64, f64)>,
    before: Option<Point>,
    excused_s: f64,
    between_questions: Recent,
    answers: Recent,
    usual: Option<Usual>,
}

/// The counters at one instant.
#[derive(Debug, Clone, Copy)]
struct Point {
    at_s: f64,
    questions: Option<u64>,
    commits: Option<u64>,
    checkpoint_age: Option<u64>,
    running: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Usual {
    computed_s: f64,
    every_s: f64,
    answer_s: f64,
}

impl Intervals {
    pub(super) fn new() -> Self {
        Self {
            asked: None,
            before: None,
            excused_s: 0.0,
            between_questions: Recent::over(USUAL_OVER_S),
            answers: Recent::over(USUAL_OVER_S),
            usual: None,
        }
    }

    /// The interval that ends with this probe's answer; none without one, and none in the first seconds.
    pub(super) fn next(&mut self, probe: &Probe) -> Option<Interval> {
        let done_s = probe.at_s + probe.took_ms / 1e3;
        self.note_question(probe.at_s, done_s);
        if !probe.answered {
            return None;
        }
        let running = probe.threads_running.map(|running| running as f64);
        // The counters are read late in a late answer.
        let (questions, commits, checkpoint_age) =
            (probe.questions, probe.commits, probe.checkpoint_age_bytes);
        let now = Point { at_s: done_s, questions, commits, checkpoint_age, running };
        let before = self.before.replace(now);
        let excused_s = std::mem::take(&mut self.excused_s).min(MOST_EXCUSED_S);
        let usual = self.usual;
        self.learn(probe.at_s, probe.took_ms / 1e3);
        let (before, usual) = (before?, usual?);
        let length_s = now.at_s - before.at_s;
        if length_s <= 0.0 {
            return None;
        }
        let grown = |before: Option<u64>, now: Option<u64>| Some(now?.checked_sub(before?)? as f64);
        Some(Interval {
            from_s: before.at_s,
            to_s: now.at_s,
            counted_s: (length_s - excused_s).max(length_s / 2.0),
            every_s: usual.every_s,
            questions: grown(before.questions, now.questions),
            commits: grown(before.commits, now.commits),
            // Since the last checkpoint; not known where there was one meanwhile.
            redo_blocks: grown(before.checkpoint_age, now.checkpoint_age)
                .map(|bytes| bytes / REDO_BLOCK_BYTES),
            running: [before.running, now.running],
            late: probe.took_ms / 1e3 >= (LATE_RATIO * usual.answer_s).max(LATE_INTERVALS * usual.every_s),
        })
    }

    /// Time in which the next question was due and nobody asked it.
    fn note_question(&mut self, at_s: f64, done_s: f64) {
        if let (Some((asked_s, done_s)), Some(usual)) = (self.asked, self.usual) {
            let due_s = (asked_s + usual.every_s).max(done_s);
            self.excused_s += (at_s - due_s).max(0.0);
        }
        if let Some((asked_s, _)) = self.asked {
            self.between_questions.push(at_s, at_s - asked_s);
        }
        self.asked = Some((at_s, done_s));
    }

    fn learn(&mut self, at_s: f64, answer_s: f64) {
        self.answers.push(at_s, answer_s);
        let is_due = self.usual.is_none_or(|usual| at_s - usual.computed_s >= USUAL_EVERY_S);
        if is_due
            && self.answers.len() >= ENOUGH_PROBES
            && let (Some(every_s), Some(answer_s)) = (self.between_questions.median(), self.answers.median())
        {
            self.usual = Some(Usual { computed_s: at_s, every_s, answer_s });
        }
    }
}
