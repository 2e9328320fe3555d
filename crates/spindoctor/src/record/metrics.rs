//! The exports to monitoring systems while the recorder runs: the page that `--metrics` serves, and what `--otlp`
//! pushes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use spindoctor_collect::follow::{Followed, Follower, SourceCost};
use spindoctor_collect::host::{Target, process};
use spindoctor_collect::source::Answer;
use spindoctor_model::{
    HostSample, Outcome, ProbeFailure, Reading, RecordedSample, Sample, SessionTime, TimeClass, Window,
};
use spindoctor_rules::{CAUSES, session_time};
use spindoctor_sessions::LONGEST_S;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::args::Record;
use super::gathering::Over;
use super::history::Shipped;
use crate::common::session::note;
use spindoctor_export::otlp::{Pusher, Signal};
use spindoctor_export::{metrics, otlp, prometheus, rows, serve};

/// How often metrics are pushed: the period that OpenTelemetry's own agents have for a host.
const PUSH_EVERY: Duration = Duration::from_secs(10);
/// Over how long the sessions' time is accounted for, seconds: as `doctor` watches.
const ACCOUNTED_S: f64 = 10.0;
/// Two servers that began within this are one: uptimes are whole seconds (`identity.rs` of `crates/collect/src/follow`).
const SAME_START: SignedDuration = SignedDuration::from_secs(5);

/// Exports to monitoring systems; where the user wants none, it does nothing.
pub struct Metrics {
    page: Option<Page>,
    push: Option<Push>,
    began: Timestamp,
    /// The server, and one sample: the last answer of each exported source.
    window: Window,
    known: metrics::Recorder,
    unaccounted: Unaccounted,
    /// When the last gap began.
    gap_from: Option<Timestamp>,
    /// What sources had cost when sampling started again.
    costs_before: Vec<SourceCost>,
}

/// The samples since the sessions' time was accounted for, the one before included.
#[derive(Debug, Default)]
struct Unaccounted(Vec<Sample>);

impl Unaccounted {
    /// The account of the time since the last one, with its length in seconds, where it is due. Time without a list of sessions
    /// is accounted for with the next list, as long as that stands for it.
    fn add(&mut self, sample: &Sample, server: &Window) -> Option<(SessionTime, f64)> {
        // The clock of the samples begins again with a segment.
        if self.0.last().is_some_and(|last| last.at_s >= sample.at_s) {
            self.0.clear();
        }
        self.0.push(sample.clone());
        let seconds = sample.at_s - self.0.first()?.at_s;
        let listed = self.0.iter().skip(1).any(|sample| sample.server.threads.value().is_some());
        if seconds < ACCOUNTED_S || (!listed && seconds < LONGEST_S) {
            return None;
        }
        let samples = std::mem::replace(&mut self.0, vec![sample.clone()]);
        let window = Window { samples, ..server.clone() };
        Some((session_time(&window)?, window.seconds()))
    }
}

/// The page, and the task that serves it.
struct Page {
    text: watch::Sender<Arc<str>>,
    task: JoinHandle<()>,
}

struct Push {
    pusher: Pusher,
    pushed: Option<Instant>,
}

impl Metrics {
    /// Begins to listen and to push, as the flags say.
    ///
    /// # Errors
    /// The address is taken, or not of this host.
    pub async fn start(asked: &Record) -> anyhow::Result<Self> {
        let page = match asked.metrics {
            Some(address) => Some(Page::serve(address).await?),
            None => None,
        };
        let push = match &asked.otlp {
            Some(url) => Some(Push { pusher: Pusher::start(url)?, pushed: None }),
            None => None,
        };
        let causes = CAUSES.iter().map(|cause| cause.name).chain([""]);
        let known = metrics::Recorder {
            session_s: TimeClass::ALL.iter().map(|class| (rows::word(class), 0.0)).collect(),
            stalled_s: causes.map(|cause| (cause.to_owned(), 0.0)).collect(),
            files: asked.parquet.as_ref().map(|_| metrics::Files::default()),
            ..metrics::Recorder::default()
        };
        let began = Timestamp::now();
        let window = Window::default();
        Ok(Self {
            page,
            push,
            began,
            window,
            known,
            unaccounted: Unaccounted::default(),
            gap_from: None,
            costs_before: Vec::new(),
        })
    }

    /// Takes note of what was sampled; with each sample there is a new page.
    pub fn followed(&mut self, followed: &Followed, follower: &Follower, recording: &Path) {
        if self.page.is_none() && self.push.is_none() {
            return;
        }
        match followed {
            Followed::Segment(segment) => {
                let mut window =
                    Window { server: segment.server.clone(), start: segment.began, ..Window::default() };
                // A beginning that moves by a second would look like a restart.
                if let (Some(before), Some(now)) = (started(&self.window), started(&window))
                    && now.duration_since(before).abs() <= SAME_START
                {
                    window.start = self.window.start;
                    window.server.uptime_s = self.window.server.uptime_s;
                }
                self.window = window;
                self.unaccounted = Unaccounted::default();
            }
            Followed::Probe(probe) => {
                self.known.is_up = probe.answered;
                // A connection that is refused at once shows nothing of how long answers take.
                if probe.answered || probe.failure == Some(ProbeFailure::NoAnswer) {
                    self.known.probe.observe(probe.took_ms / 1e3);
                }
            }
            // One that ends is exported again, with the same beginning.
            Followed::Gap(gap) => {
                self.known.gaps += u64::from(self.gap_from.replace(gap.from) != Some(gap.from));
            }
            Followed::Sample(sample) => {
                self.sample(sample);
                self.account(&sample.sample);
                self.known.costs = sum_of(&self.costs_before, follower.costs());
                self.publish(recording);
            }
            Followed::Note(_) | Followed::Overdue(_) | Followed::Refused(_) | Followed::Restart(_) => {}
        }
    }

    /// Sampling starts again, with counts of its own.
    pub fn sampling_ended(&mut self) {
        self.costs_before.clone_from(&self.known.costs);
    }

    /// The recorder ends: what waits for the collector is sent, if that takes no longer than a moment, and what was lost is
    /// said.
    pub fn end(&mut self) {
        let Some(push) = self.push.take() else { return };
        let counts = Arc::clone(push.pusher.counts());
        drop(push);
        if let Some(losses) = counts.losses() {
            note(&losses);
        }
    }

    /// An event has ended.
    pub fn event(&mut self, Over { head, seen_until, .. }: &Over) {
        let of = (rows::word(&head.stall.kind), head.cause.clone().unwrap_or_default());
        let stalled = seen_until.duration_since(head.began).as_secs_f64();
        *self.known.stalled_s.entry(of.1.clone()).or_default() += stalled.max(0.0);
        *self.known.events.entry(of).or_default() += 1;
        if let Some(push) = &self.push {
            push.pusher.push(Signal::Logs, otlp::event(head, &self.window.server, Timestamp::now()));
        }
    }

    /// The recording was written to files, or could not be.
    pub fn shipped(&mut self, shipped: &Shipped) {
        let known = self.known.files.get_or_insert_default();
        match shipped {
            Shipped::Written { position, files, bytes } => {
                known.written += files;
                known.bytes += bytes;
                known.until_s = position.until().map(|until| until.as_millisecond() as f64 / 1e3);
            }
            Shipped::Failed => known.failures += 1,
        }
    }

    fn sample(&mut self, RecordedSample { sample, .. }: &RecordedSample) {
        for (about, reading) in sample.readings() {
            match reading.outcome() {
                Outcome::NotAsked => {}
                Outcome::Unavailable(_) => drop(self.known.answers.insert(about.exported, false)),
                Outcome::Answered { .. } => drop(self.known.answers.insert(about.exported, true)),
            }
        }
        if self.window.samples.is_empty() {
            self.window.samples.push(Sample::default());
        }
        let Some(kept) = self.window.samples.last_mut() else { return };
        keep(&mut kept.server.status, &sample.server.status);
        keep(&mut kept.server.innodb_metrics, &sample.server.innodb_metrics);
        keep(&mut kept.host.effective_cpus, &sample.host.effective_cpus);
        keep(&mut kept.host.srv_cpu_usage, &sample.host.srv_cpu_usage);
        keep(&mut kept.host.throttling, &sample.host.throttling);
        keep(&mut kept.host.process, &sample.host.process);
        keep(&mut kept.host.pressure, &sample.host.pressure);
    }

    /// Adds where the sessions' time went, once there are samples of long enough.
    fn account(&mut self, sample: &Sample) {
        let Some((time, seconds)) = self.unaccounted.add(sample, &self.window) else { return };
        for part in &time.classes {
            let sessions = part.share * time.session_seconds_per_second;
            *self.known.session_s.entry(rows::word(&part.class)).or_default() += sessions * seconds;
        }
    }

    fn publish(&mut self, recording: &Path) {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        self.known.own_cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        self.known.own_resident_bytes = own_resident_bytes();
        self.known.recording_bytes = fs::metadata(recording).ok().map(|file| file.len());
        self.known.pushed = self.push.as_ref().map(|push| {
            let counts = push.pusher.counts();
            (counts.sent.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed))
        });
        let families = metrics::families(Some(&self.window), &self.known);
        if let Some(page) = &self.page {
            page.text.send_replace(prometheus::render(&families).into());
        }
        if let Some(news) = self.push.as_ref().and_then(|push| push.pusher.counts().news()) {
            note(&news);
        }
        if let Some(push) = &mut self.push
            && push.pushed.is_none_or(|pushed| pushed.elapsed() >= PUSH_EVERY)
        {
            push.pushed = Some(Instant::now());
            let request = otlp::metrics(&families, &self.window.server, self.began, Timestamp::now());
            push.pusher.push(Signal::Metrics, request);
        }
    }
}

impl Page {
    async fn serve(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("could not listen on {address}; name another address with --metrics"))?;
        let address = listener.local_addr().unwrap_or(address);
        note(&format!("metrics at http://{address}/metrics"));
        let empty = metrics::families(None, &metrics::Recorder::default());
        let (text, page) = watch::channel(prometheus::render(&empty).into());
        Ok(Self { text, task: tokio::spawn(serve::serve(listener, page)) })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// When the server of a window began, by its uptime.
fn started(window: &Window) -> Option<Timestamp> {
    let uptime = SignedDuration::try_from_secs_f64(window.server.uptime_s? as f64).ok()?;
    window.start.checked_sub(uptime).ok()
}

/// What sources cost so far: before sampling started again, and since.
fn sum_of(before: &[SourceCost], mut since: Vec<SourceCost>) -> Vec<SourceCost> {
    for cost in &mut since {
        if let Some(before) = before.iter().find(|before| before.source == cost.source) {
            cost.asked += before.asked;
            cost.took_ms += before.took_ms;
            cost.rows += before.rows;
        }
    }
    since
}

/// What a source that was not due said last still holds.
fn keep<T: Clone>(kept: &mut Reading<T>, read: &Reading<T>) {
    if !matches!(read, Reading::NotAsked) {
        kept.clone_from(read);
    }
}

fn own_resident_bytes() -> Option<u64> {
    let mut own = HostSample::default();
    (process::SOURCE.read)(&Target::live(std::process::id()), &mut own, &Answer::default);
    own.process.value().map(|process| process.resident_bytes)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::{ServerThread, THREADS_LISTED_WITHIN_S};

    use super::*;

    #[test]
    fn all_of_the_time_is_accounted_for_however_rarely_sessions_are_listed() {
        let thread = |id| ServerThread {
            connection_id: Some(id),
            is_connection: true,
            command: "Query".to_owned(),
            state: "updating".to_owned(),
            statement: Some("UPDATE t SET k = 1".to_owned()),
            ..ServerThread::default()
        };
        for every_s in [1, 2, 7, THREADS_LISTED_WITHIN_S] {
            let (mut unaccounted, mut accounted_s, mut session_s) = (Unaccounted::default(), 0.0, 0.0);
            for second in 0..=600 {
                // Each sample some milliseconds late.
                let at_s = f64::from(second) + f64::from(second * 7 % 11) / 1e3;
                let mut sample = Sample { at_s, ..Sample::default() };
                if second % every_s == 0 {
                    let value = (1..=4).map(thread).collect();
                    sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value };
                }
                if let Some((time, seconds)) = unaccounted.add(&sample, &Window::default()) {
                    accounted_s += seconds;
                    session_s += time.session_seconds_per_second * seconds;
                }
            }
            assert!((583.0..=601.0).contains(&accounted_s), "{every_s}: {accounted_s}");
            assert!((session_s / accounted_s - 4.0).abs() < 0.1, "{every_s}: {session_s} {accounted_s}");
        }
    }
}
