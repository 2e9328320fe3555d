//! Sends metrics and events to a collector, on a thread of its own: a collector that hangs blocks nobody.
//!
//! The queue is bounded; data without room in it is dropped and counted. A collector that cannot be reached is tried
//! again less and less often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// Requests that may wait: a minute of metrics each ten seconds, and a bad day's events.
const MOST_WAITING: usize = 64;
/// How long a request may take.
const WITHIN: Duration = Duration::from_secs(10);
/// Between two tries: doubled each time.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// After so many tries a request is given up: newer ones are worth more.
const TRIES: u32 = 6;
/// After so many tries the user is shown why: one failure alone is a collector that is restarted.
const SAID_AFTER: u32 = 2;
/// How long the last requests are waited for at the end.
const GOODBYE_WITHIN: Duration = Duration::from_secs(3);

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `/v1/metrics`.
    Metrics,
    /// `/v1/logs`.
    Logs,
}

impl Signal {
    fn path(self) -> &'static str {
        match self {
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }
}

/// What became of the requests so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Taken by the collector.
    pub sent: AtomicU64,
    /// Lost: no room, refused, or given up.
    pub dropped: AtomicU64,
    /// Handed over: what is not among the sent ones at the end is lost.
    pushed: AtomicU64,
    /// What the user was not shown yet, and why the collector took nothing last.
    news: Mutex<News>,
}

/// What there is to say about the collector.
#[derive(Debug, Default)]
struct News {
    unsaid: Option<String>,
    last_trouble: Option<String>,
}

impl Counts {
    /// What the user should read now: once when the collector stops taking requests, once when it takes them again.
    pub fn news(&self) -> Option<String> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).unsaid.take()
    }

    /// At the end: how many requests were not taken, of how many, and why; none where all were taken.
    pub fn losses(&self) -> Option<String> {
        let pushed = self.pushed.load(Ordering::Relaxed);
        let lost = pushed.saturating_sub(self.sent.load(Ordering::Relaxed));
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let why = news.last_trouble.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        (lost > 0)
            .then(|| format!("{lost} of {pushed} requests to the OpenTelemetry collector were lost{why}"))
    }

    fn say(&self, text: String, trouble: Option<String>) {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.unsaid = Some(text);
        if trouble.is_some() {
            news.last_trouble = trouble;
        }
    }
}

/// The thread that sends, and the way to it.
#[derive(Debug)]
pub struct Pusher {
    queue: Option<SyncSender<(Signal, Vec<u8>)>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

impl Pusher {
    /// Sends to this collector: `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// No thread could be made.
    pub fn start(url: &str) -> anyhow::Result<Self> {
        let (queue, waiting) = sync_channel(MOST_WAITING);
        let counts = Arc::new(Counts::default());
        let sender = Sender::new(url, Arc::clone(&counts));
        let thread = std::thread::Builder::new()
            .name("spindoctor-otlp".to_owned())
            .spawn(move || sender.run(&waiting))
            .context("could not start the thread that sends to the collector")?;
        Ok(Self { queue: Some(queue), thread: Some(thread), counts })
    }

    /// Hands over a request; never waits.
    pub fn push(&self, signal: Signal, request: Vec<u8>) {
        self.counts.pushed.fetch_add(1, Ordering::Relaxed);
        let taken = self.queue.as_ref().is_some_and(|queue| queue.try_send((signal, request)).is_ok());
        if !taken {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of the requests so far; it can be read when this is gone, too.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }
}

impl Drop for Pusher {
    /// What waits is sent, if that takes no longer than a moment.
    fn drop(&mut self) {
        drop(self.queue.take());
        let begun = Instant::now();
        while let Some(thread) = &self.thread
            && !thread.is_finished()
            && begun.elapsed() < GOODBYE_WITHIN
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            drop(thread.join());
        }
    }
}

struct Sender {
    agent: ureq::Agent,
    url: String,
    counts: Arc<Counts>,
}

/// What a collector said.
enum Said {
    /// Taken.
    Yes,
    /// Try again: it is busy, or cannot be reached, for this reason.
    Later(String),
    /// Never: it refuses the request, for this reason.
    No(String),
}

impl Sender {
    fn new(url: &str, counts: Arc<Counts>) -> Self {
        let config =
            ureq::Agent::config_builder().timeout_global(Some(WITHIN)).http_status_as_error(false).build();
        Self { agent: config.into(), url: url.trim_end_matches('/').to_owned(), counts }
    }

    fn run(&self, waiting: &Receiver<(Signal, Vec<u8>)>) {
        let mut pause = AGAIN_AFTER.0;
        // What the user was shown: true where the collector took nothing last.
        let mut in_trouble = false;
        loop {
            let (signal, request) = match waiting.recv_timeout(AGAIN_AFTER.1) {
                Ok(next) => next,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut tries = 0;
            let taken = loop {
                let (why, is_last) = match self.send(signal, &request) {
                    Said::Yes => break true,
                    Said::No(why) => (why, true),
                    Said::Later(why) => (why, false),
                };
                tries += 1;
                if (is_last || tries >= SAID_AFTER) && !std::mem::replace(&mut in_trouble, true) {
                    self.counts.say(
                        format!(
                            "the OpenTelemetry collector at {} takes nothing: {why}; it is tried again",
                            self.place()
                        ),
                        Some(why),
                    );
                }
                if is_last {
                    break false;
                }
                if tries >= TRIES {
                    break false;
                }
                std::thread::sleep(pause);
                pause = (2 * pause).min(AGAIN_AFTER.1);
            };
            if taken {
                pause = AGAIN_AFTER.0;
                self.counts.sent.fetch_add(1, Ordering::Relaxed);
                if std::mem::take(&mut in_trouble) {
                    let lost = self.counts.dropped.load(Ordering::Relaxed);
                    let again =
                        format!("the OpenTelemetry collector takes requests again; {lost} were lost so far");
                    self.counts.say(again, None);
                }
            } else {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn send(&self, signal: Signal, request: &[u8]) -> Said {
        let url = format!("{}{}", self.url, signal.path());
        let answer = self.agent.post(&url).header("content-type", "application/x-protobuf").send(request);
        // OTLP 1.x, section "OTLP/HTTP Response": 429, 502, 503 and 504 may be tried again.
        match answer.map(|answer| answer.status().as_u16()) {
            Ok(200..=299) => Said::Yes,
            Ok(status @ (429 | 502 | 503 | 504)) => {
                Said::Later(format!("it answers {status} at {}", signal.path()))
            }
            Ok(status) => Said::No(format!("it answers {status} at {}", signal.path())),
            // What these say has the address in it, and that may be a secret.
            Err(ureq::Error::BadUri(_) | ureq::Error::Http(_)) => {
                Said::No("its address is not one of HTTP".to_owned())
            }
            Err(error) => Said::Later(error.to_string()),
        }
    }

    /// The collector's host and port: what else is in its address may be a secret.
    fn place(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        host.rsplit_once('@').map_or(host, |(_, host)| host)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http_body_util::{BodyExt as _, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;

    use super::*;

    /// For what is not promised, on a machine that is on its knees.
    const PATIENCE: Duration = Duration::from_secs(60);

    type Received = Arc<Mutex<Vec<(String, Bytes)>>>;

    /// A collector that refuses the first requests with this status, and takes the others.
    async fn collector(listener: TcpListener, refused: usize, status: StatusCode, received: Received) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let received = Arc::clone(&received);
            let answer = service_fn(move |request: Request<Incoming>| {
                let received = Arc::clone(&received);
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let mut received = received.lock().unwrap();
                    received.push((path, body));
                    let mut response = Response::new(Full::new(Bytes::new()));
                    if received.len() <= refused {
                        *response.status_mut() = status;
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    }

    /// Pushes to a collector and waits until so many requests are done with.
    fn pushed(refused: usize, status: StatusCode, requests: &[(Signal, &[u8])]) -> (Received, u64, u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let received = Received::default();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let takes = Arc::clone(&received);
        std::thread::spawn(move || runtime.block_on(collector(listener, refused, status, takes)));
        let pusher = Pusher::start(&url).unwrap();
        requests.iter().for_each(|(signal, request)| pusher.push(*signal, request.to_vec()));
        let counted = || {
            let counts = pusher.counts();
            (counts.sent.load(Ordering::Relaxed), counts.dropped.load(Ordering::Relaxed))
        };
        let begun = Instant::now();
        while counted().0 + counted().1 < requests.len() as u64 && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (sent, dropped) = counted();
        (received, sent, dropped)
    }

    #[test]
    fn each_signal_goes_to_its_place_as_it_is() {
        let (received, sent, dropped) =
            pushed(0, StatusCode::OK, &[(Signal::Metrics, b"metrics"), (Signal::Logs, b"logs")]);
        assert_eq!((sent, dropped), (2, 0));
        let received = received.lock().unwrap();
        assert_eq!(received[0], ("/v1/metrics".to_owned(), Bytes::from_static(b"metrics")));
        assert_eq!(received[1], ("/v1/logs".to_owned(), Bytes::from_static(b"logs")));
    }

    #[test]
    fn a_busy_collector_is_tried_again_and_one_that_refuses_is_not() {
        let (received, sent, dropped) = pushed(1, StatusCode::SERVICE_UNAVAILABLE, &[(Signal::Logs, b"x")]);
        assert_eq!((sent, dropped, received.lock().unwrap().len()), (1, 0, 2));
        let (received, sent, dropped) = pushed(1, StatusCode::BAD_REQUEST, &[(Signal::Logs, b"x")]);
        assert_eq!((sent, dropped, received.lock().unwrap().len()), (0, 1, 1));
    }

    /// What is said while a collector refuses so many requests and takes the rest, in order, and at the end.
    fn said(refused: usize, requests: usize) -> (Vec<String>, Option<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            runtime.block_on(collector(listener, refused, StatusCode::BAD_REQUEST, Received::default()));
        });
        let pusher = Pusher::start(&format!("http://me:secret@{address}/otel?key=secret")).unwrap();
        let counts = Arc::clone(pusher.counts());
        let mut said = Vec::new();
        for done in 1..=requests as u64 {
            pusher.push(Signal::Metrics, vec![0; 8]);
            let begun = Instant::now();
            while counts.sent.load(Ordering::Relaxed) + counts.dropped.load(Ordering::Relaxed) < done
                && begun.elapsed() < PATIENCE
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(pusher);
        said.extend(counts.news());
        (said, counts.losses())
    }

    #[test]
    fn a_collector_that_refuses_is_said_once_and_at_the_end_without_secrets() {
        let (said, at_the_end) = said(3, 3);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("127.0.0.1:") && said[0].contains("it answers 400 at /v1/metrics"),
            "{said:?}"
        );
        assert!(!said[0].contains("secret"), "{said:?}");
        assert_eq!(
            at_the_end.as_deref(),
            Some("3 of 3 requests to the OpenTelemetry collector were lost: it answers 400 at /v1/metrics")
        );
    }

    #[test]
    fn a_collector_that_takes_requests_again_is_said_and_one_that_takes_all_is_not() {
        let (again, at_the_end) = said(2, 3);
        assert_eq!(again, ["the OpenTelemetry collector takes requests again; 2 were lost so far"]);
        assert!(at_the_end.is_some_and(|text| text.starts_with("2 of 3 requests")));
        assert_eq!(said(0, 2), (Vec::new(), None));
    }

    /// Nobody listens there: the port was given back.
    #[test]
    fn a_port_where_nobody_listens_is_said_with_the_reason() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let pusher = Pusher::start(&format!("http://127.0.0.1:{port}")).unwrap();
        pusher.push(Signal::Metrics, vec![0; 8]);
        let begun = Instant::now();
        let said = loop {
            match pusher.counts().news() {
                Some(said) => break said,
                None => assert!(begun.elapsed() < PATIENCE, "nothing was said"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(
            said.contains(&format!("127.0.0.1:{port} takes nothing: ")) && said.contains("refused"),
            "{said}"
        );
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted_at_once() {
        // Nobody listens there: the port was given back.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let pusher = Pusher::start(&format!("http://127.0.0.1:{port}")).unwrap();
        for _ in 0..3 * MOST_WAITING {
            pusher.push(Signal::Metrics, vec![0; 8]);
        }
        assert!(pusher.counts().dropped.load(Ordering::Relaxed) >= MOST_WAITING as u64);
    }
}
