//! A live server as a feed: continuous sampling on a thread of its own fills a ring of the last minutes, and finds
//! stalls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use spindoctor_collect::follow::{self, FollowOptions, Followed, Follower, Pace, Period};
use spindoctor_collect::mysql::{Session, Target};
use spindoctor_model::{Event, EventHead, Gap, Window};
use tokio::sync::watch::{Receiver, Sender, channel};

use super::feed::{Extent, Feed};
use super::point::Point;
use super::ring::Ring;
use super::stalls::SeenStalls;
use crate::common::flags::Connection;
use crate::common::runtime::wait_for;
use crate::common::session::{host, note, target};
use spindoctor_record::span::Ends;
use spindoctor_sessions::AtWork;

/// What a recorder asks for less often than that is asked for that often while somebody looks, seconds: an answer takes
/// some milliseconds.
const EXPENSIVE_EVERY_S: u32 = 10;

/// Sources that sum up statements and waits.
const SUMMARIES: &str = "performance_schema.events_";

/// A live server.
pub struct Live {
    name: String,
    kept: Arc<Mutex<Kept>>,
    end: Sender<bool>,
    sampling: JoinHandle<()>,
}

/// What sampling has brought so far.
#[derive(Default)]
struct Kept {
    ring: Ring,
    stalls: SeenStalls,
    trouble: Option<String>,
}

impl Live {
    /// Logs in, to report errors at once, and begins to sample.
    pub fn start(connection: &Connection) -> anyhow::Result<Self> {
        let target = target(connection)?;
        wait_for(log_in(&target))?;
        let options = FollowOptions { host: host(connection), paces: paces(), ..FollowOptions::default() };
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (end, ended) = channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("could not start the asynchronous runtime")?;
        let name = target.address();
        let filled = Arc::clone(&kept);
        let sampling = std::thread::spawn(move || runtime.block_on(sample(target, options, &filled, ended)));
        Ok(Self { name, kept, end, sampling })
    }

    /// Says goodbye to the server.
    pub fn finish(self) {
        self.end.send_replace(true);
        // It does not panic; if it did, there is nobody to say goodbye.
        let _ended = self.sampling.join();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        locked(&self.kept)
    }
}

/// What a thread that panicked left is still the last minutes.
fn locked(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder's, but for statements and waits: who looks wants to see what runs now.
fn paces() -> Vec<(&'static str, Pace)> {
    let faster = |(source, pace): (&'static str, Pace)| match pace.period {
        Period::Every(every_s) if every_s > EXPENSIVE_EVERY_S && source.starts_with(SUMMARIES) => {
            (source, Pace { period: Period::Every(EXPENSIVE_EVERY_S), ..pace })
        }
        _ => (source, pace),
    };
    follow::paces().map(faster).collect()
}

/// One login: what is wrong with the password or the address is reported before the screen is taken over. A server that
/// is silent or full is worth looking at.
async fn log_in(target: &Target) -> anyhow::Result<()> {
    match Session::connect(target, &target.limits).await {
        Ok(session) => {
            session.notes().iter().for_each(|what| note(what));
            session.close().await;
            Ok(())
        }
        Err(why) if why.as_no_session().is_some() => Ok(()),
        Err(why) => Err(why.into()),
    }
}

async fn sample(target: Target, options: FollowOptions, kept: &Mutex<Kept>, mut ended: Receiver<bool>) {
    let mut follower = Follower::start(target, options);
    loop {
        let followed = tokio::select! {
            followed = follower.next() => followed,
            _ = ended.wait_for(|ended| *ended) => break,
        };
        let mut kept = locked(kept);
        match followed {
            Some(Followed::Segment(segment)) => {
                kept.stalls.begin(&segment);
                kept.ring.begin(segment);
            }
            Some(Followed::Restart(restart)) => kept.stalls.restarted(&restart),
            Some(Followed::Sample(recorded)) => {
                kept.stalls.sample(&recorded);
                kept.ring.push(*recorded);
            }
            Some(Followed::Probe(probe)) => kept.stalls.probe(&probe),
            Some(Followed::Gap(gap)) => {
                kept.trouble = gap.to.is_none().then(|| {
                    format!("no answer since {} UTC: {}", gap.from.strftime("%H:%M:%S"), gap.because)
                });
                kept.ring.note_gap(gap);
            }
            Some(Followed::Note(_) | Followed::Overdue(_)) => {}
            Some(Followed::Refused(error)) => {
                kept.trouble = Some(error.to_string());
                break;
            }
            None => {
                kept.trouble = Some("sampling ended; please report it".to_owned());
                break;
            }
        }
    }
    follower.finish().await;
}

impl Feed for Live {
    fn is_live(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn extent(&mut self) -> anyhow::Result<Option<Extent>> {
        Ok(self.kept().ring.extent())
    }

    fn window(&mut self, until: Timestamp, span: SignedDuration) -> anyhow::Result<Option<Window>> {
        Ok(self.kept().ring.window(until, span))
    }

    fn points(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<Point>> {
        Ok(self.kept().ring.points(from, to))
    }

    fn at_work(&mut self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<AtWork>> {
        Ok(self.kept().ring.at_work(from, to))
    }

    fn overview(&mut self) -> anyhow::Result<Vec<(Timestamp, f64)>> {
        Ok(Vec::new())
    }

    fn events(&mut self) -> anyhow::Result<Vec<EventHead>> {
        Ok(self.kept().stalls.heads().to_vec())
    }

    /// Here a stall that its segment broke off in has an end.
    fn ends(&mut self) -> anyhow::Result<Ends> {
        Ok(Ends::default())
    }

    fn event(&mut self, _: u64) -> anyhow::Result<Option<Event>> {
        Ok(None)
    }

    fn gaps(&mut self) -> anyhow::Result<Vec<Gap>> {
        Ok(self.kept().ring.gaps().to_vec())
    }

    fn trouble(&self) -> Option<String> {
        self.kept().trouble.clone()
    }
}
