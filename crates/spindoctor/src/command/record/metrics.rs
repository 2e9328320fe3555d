//! What monitoring systems are told while the recorder runs: the page that `--metrics` serves, and what `--otlp` pushes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use spindoctor_collect::follow::{Followed, Follower};
use spindoctor_collect::host::{Target, process};
use spindoctor_collect::source::Answer;
use spindoctor_model::{EventHead, Heard, HostSample, Reading, RecordedSample, Sample, Window};
use spindoctor_rules::CAUSES;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::history::Shipped;
use crate::cli::Record;
use crate::command::live::note;
use crate::export::otlp::push::{Pusher, Signal};
use crate::export::{metrics, otlp, prometheus, serve, table};

/// How often metrics are pushed: the period that OpenTelemetry's own agents have for a host.
const PUSH_EVERY: Duration = Duration::from_secs(10);

/// Tells monitoring systems; where the user wants neither way, it does nothing.
pub(super) struct Metrics {
    page: Option<Page>,
    push: Option<Push>,
    began: Timestamp,
    /// The server, and one sample: of each source that is told, what it answered last.
    window: Window,
    known: metrics::Recorder,
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
    pub(super) async fn start(asked: &Record) -> anyhow::Result<Self> {
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
            stalled_s: causes.map(|cause| (cause.to_owned(), 0.0)).collect(),
            files: asked.parquet.as_ref().map(|_| metrics::Files::default()),
            ..metrics::Recorder::default()
        };
        Ok(Self { page, push, began: Timestamp::now(), window: Window::default(), known })
    }

    /// Takes note of what was sampled; with each sample there is a new page.
    pub(super) fn followed(&mut self, followed: &Followed, follower: &Follower, recording: &Path) {
        if self.page.is_none() && self.push.is_none() {
            return;
        }
        match followed {
            Followed::Segment(segment) => {
                self.window = Window { server: segment.server.clone(), ..Window::default() };
            }
            Followed::Probe(probe) => {
                self.known.is_up = probe.answered;
                self.known.probe.observe(probe.took_ms / 1e3);
            }
            Followed::Gap(gap) => self.known.gaps += u64::from(gap.to.is_none()),
            Followed::Sample(sample) => {
                self.sample(sample);
                self.known.costs = follower.costs();
                self.publish(recording);
            }
            Followed::Note(_) | Followed::Overdue(_) => {}
        }
    }

    /// An event has ended.
    pub(super) fn event(&mut self, head: &EventHead) {
        let of = (table::word(&head.stall.kind), head.cause.clone().unwrap_or_default());
        let stalled = head.ended.map_or(0.0, |ended| ended.duration_since(head.began).as_secs_f64());
        *self.known.stalled_s.entry(of.1.clone()).or_default() += stalled.max(0.0);
        *self.known.events.entry(of).or_default() += 1;
        if let Some(push) = &self.push {
            push.pusher.push(Signal::Logs, otlp::event(head, &self.window.server, Timestamp::now()));
        }
    }

    /// The recording was written to files, or could not be.
    pub(super) fn shipped(&mut self, shipped: &Shipped) {
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
        for (reading, heard) in sample.heard() {
            match heard {
                Heard::Nothing => {}
                Heard::Refusal(_) => drop(self.known.answers.insert(reading, false)),
                Heard::Answer { .. } => drop(self.known.answers.insert(reading, true)),
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
