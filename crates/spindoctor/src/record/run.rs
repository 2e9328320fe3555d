//! `spindoctor record`: the black box. Samples each second, a probe ten times per second, and the details of each stall
//! before and during it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use spindoctor_collect::follow::{FollowOptions, Followed, Follower};
use spindoctor_collect::memory;
use spindoctor_collect::mysql::{ConnectError, Target};
use spindoctor_collect::priority::Ahead;
use spindoctor_model::{Diagnosis, Event};
use spindoctor_record::{Recording, Writer, WriterOptions};
use spindoctor_stalls::{Baseline, Stalls};
use spindoctor_tune::apply::TakeOptions;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use super::args::Record;
use super::history::{History, Shipped};
use super::looker::{Looked, Looker};
use super::metrics::Metrics;
use super::notify::Notify;
use super::recorder::{Done, Recorder, Totals};
use super::watch::Watch;
use crate::common::event_window;
use crate::common::exit::ExitStatus;
use crate::common::runtime::wait_for;
use crate::common::session;
use crate::common::session::note;
use spindoctor_page::number;

/// The recording's name where the user gives none.
const NAME: &str = "spindoctor.rec";
/// Under this name the recording has what is usual on this server.
pub const USUAL: &str = "usual";
/// How often that is saved.
const REMEMBER_EVERY: Duration = Duration::from_mins(10);
/// While the login is refused, how often option files are read: somebody may have put the new password there.
const REREAD_EVERY: Duration = Duration::from_mins(1);
/// A server that is well answers within this time, and one that is not there is named by then with the reason: else it is said what
/// is waited for. Chosen.
const SAID_AFTER: Duration = Duration::from_secs(1);
/// The last event's stacks and diagnosis may take so long when the recorder ends.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Records until it is asked to end.
pub fn run(asked: &Record) -> anyhow::Result<ExitStatus> {
    let path = path(asked)?;
    memory::keep_little();
    let _ahead = Ahead::of_others();
    let watch = Watch::new(&asked.when_inside, &asked.when_slower, asked.connection.remote)?;
    wait_for(async {
        let mut lasting = Lasting {
            signals: Signals::listen().context("could not listen for signals")?,
            metrics: Metrics::start(asked).await?,
            notify: Notify::start(asked)?,
            history: None,
            watch,
            until: asked.duration.map(|duration| Instant::now() + duration),
        };
        let mut target = session::target(&asked.connection)?;
        loop {
            let ended = record(asked, &path, target.clone(), &mut lasting).await;
            lasting.metrics.sampling_ended();
            match ended {
                Ok(Ended::Asked) => {
                    lasting.metrics.end();
                    if let Some(cost) = lasting.watch.total() {
                        note(&cost);
                    }
                    return Ok(ExitStatus::Done);
                }
                Ok(Ended::Reload) => {
                    note("SIGHUP: option files are read again");
                    // A password may have changed. A file that somebody is just writing is no reason to end.
                    match session::target_again(&asked.connection, &target) {
                        Ok(mut again) => {
                            again.notes.iter().for_each(|passed_over| note(passed_over));
                            again.logins = target.logins.clone();
                            target = again;
                        }
                        Err(error) => note(&format!("what was read before holds: {error:#}")),
                    }
                    // Who sends a signal has mended something: one more try is asked for.
                    target.logins = target.logins.renewed();
                }
                Ok(Ended::NewCredentials(again)) => {
                    note("the option files say how to log in otherwise: that is tried now");
                    target = *again;
                }
                Ok(Ended::Refused(error)) => return Err(error.into()),
                Ok(Ended::Moved) => {
                    note(&format!("{} was moved or removed: another is begun", path.display()));
                }
                Err(error) if is_damage(&error) => {
                    lasting.history = None;
                    let aside = spindoctor_record::set_aside(&path, Timestamp::now())?;
                    note(&format!("{error:#}; it is now {}, and another is begun", aside.display()));
                }
                Err(error) => return Err(error),
            }
        }
    })
}

fn path(asked: &Record) -> anyhow::Result<PathBuf> {
    match &asked.output {
        Some(path) => Ok(path.clone()),
        None => {
            let state = TakeOptions::of_process()
                .context("no folder for the recording; name a file with --output")?;
            Ok(state.state.join(NAME))
        }
    }
}

/// True where the recording's file is damaged, so that nothing can be added to it.
fn is_damage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<spindoctor_record::Error>().is_some_and(spindoctor_record::Error::is_damage)
}

/// Why a recording ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Asked,
    Reload,
    /// The login is refused, and option files say now how to log in otherwise.
    NewCredentials(Box<Target>),
    /// The login was refused, and none has ever worked.
    Refused(ConnectError),
    /// Its file is no longer at its path: as log rotation does it, or by mistake.
    Moved,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Ended {
        tokio::select! {
            _ = self.terminate.recv() => Ended::Asked,
            _ = self.interrupt.recv() => Ended::Asked,
            _ = self.hang_up.recv() => Ended::Reload,
        }
    }
}

/// What outlasts the file that is recorded into.
struct Lasting {
    metrics: Metrics,
    notify: Notify,
    history: Option<History>,
    watch: Watch,
    signals: Signals,
    /// When the time is over, where it is limited.
    until: Option<Instant>,
}

/// Records into the file until a signal comes or the time is over.
async fn record(
    asked: &Record,
    path: &std::path::Path,
    target: Target,
    Lasting { metrics, notify, history, watch, signals, until }: &mut Lasting,
) -> anyhow::Result<Ended> {
    let options = WriterOptions {
        keep_for: asked.keep,
        max_bytes: asked.max_size,
        literals: asked.literals,
        ..WriterOptions::default()
    };
    let writer = Writer::open(path, options)?;
    if history.is_none() {
        *history = History::start(asked, writer.path(), |place| Ok(writer.remembered(place)?))?;
    }
    let usual = writer.remembered(USUAL)?.and_then(|usual| serde_json::from_str::<Baseline>(&usual).ok());
    let stalls = Stalls::new(usual.unwrap_or_default(), asked.when.clone());
    let (order, mut done) = unbounded_channel();
    let mut recorder = Recorder::new(writer, stalls, !asked.no_stacks, target.clone(), order.clone());
    let host = session::host(&asked.connection);
    let mut looker = Looker::start(target.clone(), host.clone());
    let mut follower = Follower::start(target.clone(), FollowOptions { host, ..FollowOptions::default() });
    note(&format!("recording into {} from {}", recorder.path().display(), target.address()));

    let mut remember = interval_at(Instant::now() + REMEMBER_EVERY, REMEMBER_EVERY);
    remember.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reread = interval_at(Instant::now() + REREAD_EVERY, REREAD_EVERY);
    reread.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_answered = false;
    let mut waiting = Some(Instant::now() + SAID_AFTER);
    let ended = loop {
        hand_over(&mut recorder, metrics, notify);
        tokio::select! {
            biased;
            ended = signals.next() => break ended,
            () = at(*until) => break Ended::Asked,
            () = at(waiting) => {
                waiting = None;
                note(&format!("waiting for {} to answer", target.address()));
            }
            seen = watch.next() => if let Some(reason) = recorder.watched(seen?, &follower)? {
                looker.look(reason);
            },
            followed = follower.next() => {
                let followed = followed.context("sampling ended by itself; please report it")?;
                if let Followed::Refused(error) = followed {
                    break Ended::Refused(error);
                }
                let followed = named(followed, asked.name.as_deref());
                if matches!(followed, Followed::Sample(_)) && recorder.is_elsewhere() {
                    break Ended::Moved;
                }
                metrics.followed(&followed, &follower, recorder.path());
                if let Followed::Segment(segment) = &followed {
                    is_answered |= segment.server.version.is_some();
                    notify.of_server(&segment.server);
                    watch.follow(&segment.server)?;
                }
                if is_answered || matches!(followed, Followed::Note(_)) {
                    waiting = None;
                }
                if matches!(followed, Followed::Sample(_))
                    && let Some((hits, took_ms)) = watch.cost()
                {
                    recorder.add_cost("functions", hits, took_ms);
                }
                if let Some(reason) = recorder.take(followed, &follower)? {
                    looker.look(reason);
                }
            }
            looked = looker.next() => match looked {
                Looked::Connected(id) => follower.leave_out(id),
                Looked::Lost(id) => follower.no_longer_leave_out(id),
                Looked::Saw(look) => recorder.looked(*look, &follower)?,
            },
            Some(what) = done.recv() => finish(&mut recorder, what, &order)?,
            (place, shipped) = shipped(history) => {
                metrics.shipped(&shipped);
                recorder.shipped(&place, &shipped)?;
            }
            _ = remember.tick() => recorder.remember()?,
            _ = reread.tick() => if let Some(again) = new_credentials(asked, &target) {
                break Ended::NewCredentials(Box::new(again));
            },
        }
    };
    recorder.end()?;
    drop(looker);
    // Where it takes longer, the event stays without a diagnosis.
    let _in_time = timeout(LAST_WORDS, last_words(&mut recorder, &mut done, &order)).await;
    hand_over(&mut recorder, metrics, notify);
    recorder.remember()?;
    // Another file has numbers of its own: what was made of this one ends with it.
    if !matches!(ended, Ended::Reload | Ended::NewCredentials(_))
        && let Some(history) = history.take()
    {
        let place = history.place.clone();
        for shipped in history.end().await {
            recorder.shipped(&place, &shipped)?;
        }
    }
    follower.finish().await;
    let totals = recorder.totals();
    note(&format!(
        "{} in {}{}",
        recorded_text(totals),
        recorder.path().display(),
        if is_answered { "" } else { "; the server has not answered in all this time" }
    ));
    Ok(ended)
}

/// `1 sample and 2 events`
fn recorded_text(totals: Totals) -> String {
    let samples = number::counted(totals.samples, "sample", "samples");
    format!("{samples} and {}", number::counted(totals.events, "event", "events"))
}

/// Hands over the events that ended or were diagnosed. Monitoring systems get each once, when it is over.
fn hand_over(recorder: &mut Recorder, metrics: &mut Metrics, notify: &mut Notify) {
    for over in recorder.ended() {
        notify.event(&over);
        if !over.lasts {
            metrics.event(&over);
        }
    }
}

/// What option files say now, where the login is refused and they say otherwise than before.
fn new_credentials(asked: &Record, target: &Target) -> Option<Target> {
    target.logins.again()?;
    let mut again = session::target_again(&asked.connection, target).ok()?;
    let is_other =
        (&again.endpoint, &again.user, &again.password) != (&target.endpoint, &target.user, &target.password);
    again.logins = target.logins.renewed();
    is_other.then_some(again)
}

/// The server of a segment has the name that the user gave it.
fn named(mut followed: Followed, name: Option<&str>) -> Followed {
    if let (Followed::Segment(segment), Some(name)) = (&mut followed, name) {
        name.clone_into(&mut segment.server.hostname);
    }
    followed
}

/// What became of the recording in files next, and where it is to be remembered.
async fn shipped(history: &mut Option<History>) -> (String, Shipped) {
    match history {
        Some(history) => {
            let shipped = history.next().await;
            (history.place.clone(), shipped)
        }
        None => std::future::pending().await,
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

async fn last_words(
    recorder: &mut Recorder,
    done: &mut UnboundedReceiver<Done>,
    order: &UnboundedSender<Done>,
) -> anyhow::Result<()> {
    while recorder.is_closing()
        && let Some(what) = done.recv().await
    {
        finish(recorder, what, order)?;
    }
    Ok(())
}

/// Takes what was ordered, and has an event diagnosed that has its stacks.
fn finish(recorder: &mut Recorder, what: Done, order: &UnboundedSender<Done>) -> anyhow::Result<()> {
    if let Some(event) = recorder.done(what)? {
        let (path, order) = (recorder.path().to_owned(), order.clone());
        tokio::task::spawn_blocking(move || {
            let Event { head, .. } = &event;
            // A rule that fails on what it never met must not leave the event open for ever.
            let diagnosis = catch_unwind(AssertUnwindSafe(|| diagnosis(&path, &event)));
            let diagnosis =
                Box::new(diagnosis.unwrap_or_else(|_| Err(anyhow!("a rule failed; please report it"))));
            let _sent = order.send(Done::Diagnosed { event: head.id, diagnosis });
        });
    }
    Ok(())
}

/// The rules over the samples and the stacks of an event. None where there are no two samples of it.
fn diagnosis(recording: &Path, event: &Event) -> anyhow::Result<Option<Diagnosis>> {
    let window = event_window::of_event(&Recording::open(recording)?, event)?;
    Ok(window.as_ref().map(spindoctor_rules::diagnose))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_and_one_event_are_not_several() {
        let text = |samples, events| recorded_text(Totals { samples, events });
        assert_eq!(text(1, 0), "1 sample and 0 events");
        assert_eq!(text(86_400, 1), "86,400 samples and 1 event");
    }
}
