//! One list of sessions: who is at work in it, by class and statement, and how long it stands for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use spindoctor_model::mysql::{ServerThread, THREADS_LISTED_WITHIN_S};
use spindoctor_model::{KnownBy, Reading, RecordedSample, Sample, TimeClass, Window};
use spindoctor_rules::session_time;
use spindoctor_sql::{comparable, digest};

/// A list stands for no longer than this, seconds: so rarely is it read where it has become expensive, and later by what the
/// recorder's own clock is late. After a longer time nobody knows what was in between.
pub const LONGEST_S: f64 = THREADS_LISTED_WITHIN_S as f64 + LATE_S;

/// A list comes later than it is due by less than this, seconds: a recorder that had no CPU when a second of its grid began has
/// its turn in the next one, and each sample is late by some milliseconds more or less than the one before.
const LATE_S: f64 = 2.0;

/// What a list stands for that has none before it, seconds: lists are read once a second.
const ALONE_S: f64 = 1.0;

/// The sessions at work in one list.
#[derive(Debug, Clone, PartialEq)]
pub struct AtWork {
    /// When the sample with the list was begun.
    pub at: Timestamp,
    /// The segment of the sample.
    pub segment: u64,
    /// How long the list stands for, seconds: since the one before it.
    pub seconds: f64,
    /// Sessions by class and statement, the most first.
    pub sightings: Vec<Sightings>,
    /// Sessions in `SLEEP()`: they are not at work.
    pub sleeping: f64,
    /// CPUs that the server used since the list before, by the kernel's count; none where that was not read.
    pub cpus_used: Option<f64>,
    /// CPUs that the server may use, as last read.
    pub cpus_granted: Option<f64>,
    /// True where the list of InnoDB's transactions was read with it: without that, who waits for a row lock counts as running.
    pub has_lock_waits: bool,
}

/// Sessions of one list in the same class and statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Sightings {
    /// What their time goes into.
    pub class: TimeClass,
    /// What the class rests on.
    pub known_by: KnownBy,
    /// The statement without its literals; empty where the server shows none.
    pub statement: String,
    /// How many there are.
    pub sessions: f64,
    /// The state that most of them are in, as the server says it; empty where it says none.
    pub state: String,
}

impl AtWork {
    /// Sessions at work.
    pub fn sessions(&self) -> f64 {
        self.sightings.iter().map(|seen| seen.sessions).sum()
    }
}

/// Reads samples in order of time, of one segment after the other. The first list of a part of a recording stands for the time
/// since the list before it: the samples of [`LONGEST_S`] before the part are read, too, and their lists left out.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    segment: Option<u64>,
    /// Until when it is known what sessions did, or known that nobody knows.
    until: Option<Timestamp>,
    /// CPU time of the server at the list before: seconds from the segment's beginning, seconds of CPU.
    cpu: Option<(f64, f64)>,
    cpus_granted: Option<f64>,
}

impl Reader {
    /// The next sample; none where it has no list of threads.
    pub fn read(&mut self, recorded: &RecordedSample) -> Option<AtWork> {
        if self.segment.replace(recorded.segment).is_some_and(|before| before != recorded.segment) {
            *self = Self { segment: Some(recorded.segment), ..Self::default() };
        }
        let (server, host) = (&recorded.sample.server, &recorded.sample.host);
        if let Some(granted) = host.effective_cpus.value() {
            self.cpus_granted = Some(granted.cpus);
        }
        let threads = match &server.threads {
            Reading::NotAsked => return None,
            Reading::Unavailable(_) => {
                self.until = Some(recorded.at);
                return None;
            }
            Reading::Available { value, .. } => value,
        };
        let has_lock_waits = server.transactions.value().is_some();
        // Between two samples of the grid a recorder looks at locks. One that could not afford the list of transactions would
        // take those who wait for rows for sessions that run, and the grid's next sample has that list.
        let is_look = matches!((&server.status, &host.process), (Reading::NotAsked, Reading::NotAsked));
        if is_look && !has_lock_waits {
            return None;
        }
        let since =
            self.until.replace(recorded.at).map(|until| recorded.at.duration_since(until).as_secs_f64());
        let seconds = since.filter(|since| *since > 0.0 && *since <= LONGEST_S).unwrap_or(ALONE_S);
        let (sightings, sleeping) = sightings(&recorded.sample, threads);
        Some(AtWork {
            at: recorded.at,
            segment: recorded.segment,
            seconds,
            sightings,
            sleeping,
            cpus_used: self.cpus_used(&recorded.sample),
            cpus_granted: self.cpus_granted,
            has_lock_waits,
        })
    }

    /// CPUs that the server used since this was asked last.
    fn cpus_used(&mut self, sample: &Sample) -> Option<f64> {
        let (at_s, process) = sample.host.process.timed()?;
        let used_s = process.user_us.saturating_add(process.system_us) as f64 / 1e6;
        let (before_s, used_before_s) = self.cpu.replace((at_s, used_s))?;
        (at_s > before_s && used_s >= used_before_s).then(|| (used_s - used_before_s) / (at_s - before_s))
    }
}

/// The statement of a thread without its literals; empty where it has none.
fn statement(thread: &ServerThread) -> String {
    let of_server = thread.digest_text.as_deref().filter(|text| !text.is_empty());
    of_server.map_or_else(|| thread.statement.as_deref().map(digest).unwrap_or_default(), str::to_owned)
}

/// The sessions at work in a list, and how many sleep on purpose.
fn sightings(sample: &Sample, threads: &[ServerThread]) -> (Vec<Sightings>, f64) {
    // By what its texts have in common: the first text, and the sessions.
    let mut by_statement: BTreeMap<String, (String, Vec<ServerThread>)> = BTreeMap::new();
    for thread in threads.iter().filter(|thread| thread.is_at_work()) {
        let text = statement(thread);
        by_statement.entry(comparable(&text)).or_insert_with(|| (text, Vec::new())).1.push(thread.clone());
    }
    // The account of a window of one list: its lists of locks with it, and none of the clocks, which go on between lists.
    let mut alone = Sample::default();
    alone.server.transactions = sample.server.transactions.clone();
    alone.server.row_lock_waits = sample.server.row_lock_waits.clone();
    let mut window = Window { samples: vec![alone], ..Window::default() };
    let (mut all, mut sleeping) = (Vec::new(), 0.0);
    for (text, sessions) in by_statement.into_values() {
        if let Some(alone) = window.samples.first_mut() {
            alone.server.threads = Reading::Available { at_s: 0.0, took_ms: 0.0, value: sessions };
        }
        let Some(time) = session_time(&window) else { continue };
        sleeping += time.sleeping;
        all.extend(time.classes.into_iter().map(|share| Sightings {
            class: share.class,
            known_by: share.known_by,
            statement: text.clone(),
            // A share of how many there are: sessions are whole.
            sessions: (share.share * time.session_seconds_per_second).round(),
            state: share.seen.into_iter().next().map(|(state, _)| state).unwrap_or_default(),
        }));
    }
    all.sort_by(|a, b| {
        b.sessions
            .total_cmp(&a.sessions)
            .then(a.class.cmp(&b.class))
            .then_with(|| a.statement.cmp(&b.statement))
    });
    (all, sleeping)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spindoctor_model::Unavailable;
    use spindoctor_model::host::{EffectiveCpus, ProcessStat};
    use spindoctor_model::mysql::Transaction;

    use super::*;

    pub(crate) fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_782_898_200_000 + ms).unwrap()
    }

    fn read<T>(at_s: f64, value: T) -> Reading<T> {
        Reading::Available { at_s, took_ms: 1.0, value }
    }

    fn session(id: u64, state: &str, statement: &str) -> ServerThread {
        ServerThread {
            connection_id: Some(id),
            is_connection: true,
            command: if statement.is_empty() { "Sleep" } else { "Query" }.to_owned(),
            state: state.to_owned(),
            statement: (!statement.is_empty()).then(|| statement.to_owned()),
            ..ServerThread::default()
        }
    }

    fn sample(ms: i64, segment: u64, threads: Vec<ServerThread>) -> RecordedSample {
        let at_s = ms as f64 / 1e3;
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.threads = read(at_s, threads);
        sample.server.transactions = read(at_s, Vec::new());
        RecordedSample { at: at(ms), segment, sample }
    }

    #[test]
    fn each_session_counts_once_by_its_class_and_statement() {
        let mut recorded = sample(
            0,
            1,
            vec![
                session(1, "updating", "UPDATE t SET k = k + 1 WHERE id = 7"),
                session(2, "updating", "UPDATE t SET k = k + 1 WHERE id = 8"),
                session(3, "executing", "UPDATE `t` SET `k` = `k` + 1 WHERE `id` = 9"),
                session(4, "waiting for handler commit", "COMMIT"),
                session(5, "Waiting for something unheard of", "SELECT 1"),
                session(6, "User sleep", "SELECT SLEEP(9)"),
                session(7, "", ""),
            ],
        );
        let waits = |id| Transaction {
            connection_id: Some(id),
            state: "LOCK WAIT".to_owned(),
            ..Transaction::default()
        };
        recorded.sample.server.transactions = read(0.0, vec![waits(1), waits(2)]);
        let list = Reader::default().read(&recorded).unwrap();
        let text: Vec<_> = list
            .sightings
            .iter()
            .map(|seen| (seen.class, seen.statement.as_str(), seen.sessions, seen.state.as_str()))
            .collect();
        let update = "UPDATE t SET k = k + ? WHERE id = ?";
        assert_eq!(
            text,
            [
                (TimeClass::RowLock, update, 2.0, "updating"),
                (TimeClass::Running, update, 1.0, "executing"),
                (TimeClass::Commit, "COMMIT", 1.0, "waiting for handler commit"),
                (TimeClass::Other, "SELECT ?", 1.0, "Waiting for something unheard of"),
            ]
        );
        assert_eq!((list.sessions(), list.sleeping, list.has_lock_waits), (5.0, 1.0, true));
        assert!(list.sightings.iter().all(|seen| seen.known_by == KnownBy::List));
        // Who waits for the rows is in the list of transactions alone.
        recorded.sample.server.transactions = Reading::NotAsked;
        assert_eq!(Reader::default().read(&recorded), None, "a look between two samples");
        recorded.sample.server.status = Reading::Unavailable(Unavailable::because("no answer in 1 s"));
        let list = Reader::default().read(&recorded).unwrap();
        assert!(!list.has_lock_waits && list.sightings.iter().all(|seen| seen.class != TimeClass::RowLock));
    }

    #[test]
    fn a_list_stands_for_the_time_since_the_one_before_it() {
        let mut reader = Reader::default();
        let mut seconds = |recorded: &RecordedSample| reader.read(recorded).map(|list| list.seconds);
        let of = |ms, segment| sample(ms, segment, Vec::new());
        assert_eq!(seconds(&of(0, 1)), Some(1.0));
        // The list was not due in this sample: the next one stands for its second, too.
        let mut without = of(1_000, 1);
        without.sample.server.threads = Reading::NotAsked;
        assert_eq!(seconds(&without), None);
        assert_eq!(seconds(&of(2_000, 1)), Some(2.0));
        // No answer: of that second nobody knows.
        without.at = at(3_000);
        without.sample.server.threads = Reading::Unavailable(Unavailable::because("no answer in 1 s"));
        assert_eq!(seconds(&without), None);
        assert_eq!(seconds(&of(4_000, 1)), Some(1.0));
        assert_eq!(seconds(&of(60_000, 1)), Some(1.0), "after a minute without samples");
        assert_eq!(seconds(&of(63_000, 2)), Some(1.0), "the first of a segment");
        assert_eq!(seconds(&of(62_000, 2)), Some(1.0), "the clock was set back");
    }

    proptest! {
        /// Lists at each pace that a source of them may have, some of them turns late, some lost for minutes.
        #[test]
        fn whatever_the_jitter_lists_stand_for_all_of_the_time_but_the_gaps(
            pace_s in 1..=i64::from(THREADS_LISTED_WITHIN_S),
            steps in prop::collection::vec((-400_i64..1_500, prop::option::weighted(0.1, 18_000_i64..300_000)), 1..80),
        ) {
            let (mut reader, mut ms, mut gaps_ms) = (Reader::default(), 0, 0);
            let mut seconds = reader.read(&sample(0, 1, Vec::new())).unwrap().seconds;
            prop_assert_eq!(seconds, ALONE_S);
            for (jitter_ms, gap_ms) in steps {
                let step_ms = gap_ms.unwrap_or((pace_s * 1_000 + jitter_ms).max(1));
                ms += step_ms;
                // The list after a gap stands for itself.
                gaps_ms += gap_ms.map_or(0, |gap_ms| gap_ms - 1_000);
                seconds += reader.read(&sample(ms, 1, Vec::new())).unwrap().seconds;
            }
            prop_assert!((seconds - ALONE_S - (ms - gaps_ms) as f64 / 1e3).abs() < 1e-6, "{} {}", seconds, ms);
        }
    }

    #[test]
    fn the_cpus_that_the_server_used_are_counted_from_list_to_list() {
        let with_cpu = |ms: i64, segment, used_ms: u64| {
            let mut recorded = sample(ms, segment, Vec::new());
            let process =
                ProcessStat { user_us: used_ms * 600, system_us: used_ms * 400, ..ProcessStat::default() };
            recorded.sample.host.process = read(ms as f64 / 1e3, process);
            recorded
        };
        let mut reader = Reader::default();
        let mut first = with_cpu(0, 1, 5_000);
        first.sample.host.effective_cpus = read(0.0, EffectiveCpus { cpus: 4.0, ..EffectiveCpus::default() });
        let first = reader.read(&first).unwrap();
        assert_eq!((first.cpus_used, first.cpus_granted), (None, Some(4.0)));
        let second = reader.read(&with_cpu(2_000, 1, 8_000)).unwrap();
        assert_eq!((second.cpus_used, second.cpus_granted), (Some(1.5), Some(4.0)));
        let other = reader.read(&with_cpu(3_000, 2, 100)).unwrap();
        assert_eq!((other.cpus_used, other.cpus_granted), (None, None), "another process of the server");
    }
}
