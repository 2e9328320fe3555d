//! `spindoctor top`: a live server or a recording, on a terminal or as one screen of text.

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow, bail};
use spindoctor_record::span::{Span, worst_event};

use super::args::Top as Asked;
use super::feed::Feed;
use super::live::Live;
use super::moment::ends;
use super::peak::peak;
use super::replay::Replay;
use super::state::State;
use super::{jump, once, terminal};
use crate::common::exit::ExitStatus;

/// Shows what was asked for.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    if asked.once {
        once::run(asked)?;
        return Ok(ExitStatus::Done);
    }
    expect_terminal()?;
    match &asked.replay {
        Some(_) => {
            let (mut feed, state) = replay(asked)?;
            terminal::show(&mut feed, state)?;
        }
        None => {
            let mut feed = Live::start(&asked.connection)?;
            let shown = terminal::show(&mut feed, State::new(asked.screen));
            feed.finish();
            shown?;
        }
    }
    Ok(ExitStatus::Done)
}

/// The recording that was asked for, at the instant that was asked for; else where its worst event shows most, and at its
/// end where there is no event.
pub fn replay(asked: &Asked) -> anyhow::Result<(Replay, State)> {
    let file = asked.replay.as_deref().context("no recording was named; give one with --replay")?;
    let mut feed = Replay::open(file)?;
    let mut state = State::new(asked.screen);
    let extent = feed.extent()?;
    let events = feed.events()?;
    let ends = ends(&mut feed, &events)?;
    if let Some(text) = &asked.at {
        let extent = extent.ok_or_else(|| anyhow!("{} holds no sample", file.display()))?;
        let at = jump::parse(text, extent.to, Some(extent)).map_err(|why| anyhow!("--at: {why}"))?;
        if !extent.holds(at) {
            bail!(
                "--at: {at} is not in {}, which goes from {} to {}",
                file.display(),
                extent.from,
                extent.to
            );
        }
        state.go_to(at, Some(extent));
    } else if let Some(id) = asked.event {
        let event = events.iter().find(|event| event.id == id).ok_or_else(|| {
            let last = events.last().map_or(0, |event| event.id);
            anyhow!("{} has no event {id}; its last one is {last}", file.display())
        })?;
        state.go_to(peak(&mut feed, event, &ends)?, extent);
    } else if let Some(event) =
        extent.and_then(|extent| worst_event(events.iter(), &ends, Span::new(extent.from, extent.to)))
    {
        state.go_to(peak(&mut feed, event, &ends)?, extent);
    }
    Ok((feed, state))
}

/// Keys come from standard input, and the screen goes to standard output.
fn expect_terminal() -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("standard output is not a terminal; `spindoctor top --once` prints one screen as text");
    }
    if !std::io::stdin().is_terminal() {
        bail!(
            "standard input is not a terminal, so no key could be pressed; `spindoctor top --once` needs none"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use jiff::{SignedDuration, Timestamp};
    use spindoctor_model::mysql::{NamedValues, ServerThread};
    use spindoctor_model::{
        Event, EventHead, Reading, RecordedSample, Sample, ServerIdentity, Stall, StallKind,
    };
    use spindoctor_record::{Writer, WriterOptions};

    use super::*;

    use crate::common::flags::Connection;
    use crate::top::moment::Moment;
    use crate::top::screen::Screen;
    use crate::top::state::Clock;

    fn at(second: f64) -> Timestamp {
        let half_past_nine: Timestamp = "2026-07-01T09:30:00Z".parse().unwrap();
        half_past_nine + SignedDuration::try_from_secs_f64(second).unwrap()
    }

    /// Sessions that wait for a lock in each second.
    fn waiting(second: u32) -> usize {
        match second {
            11 => 3,
            12 => 8,
            13 | 14 => 20,
            56 => 5,
            _ => 0,
        }
    }

    /// Sessions that run in each second: of the first event, those that waited, when it is over.
    fn running(second: u32) -> usize {
        match second {
            15 => 20,
            27 => 40,
            _ => 1,
        }
    }

    /// A minute with a sample each second but between 40 and 50, and these events.
    fn recording(folder: &Path, events: &[(f64, f64, StallKind)]) -> PathBuf {
        let file = folder.join("db.spindoctor");
        // Its samples are of a day that is long past.
        let keep_for = Duration::from_secs(100 * 365 * 86_400);
        let mut writer = Writer::open(&file, WriterOptions { keep_for, ..WriterOptions::default() }).unwrap();
        let segment = writer.begin_segment(at(0.0), ServerIdentity::default());
        for second in (0..60).filter(|second| !(41..50).contains(second)) {
            let at_s = f64::from(second);
            let mut sample = Sample { at_s, ..Sample::default() };
            let all = waiting(second) + running(second);
            let status: NamedValues = [("Threads_running", all.to_string())].into_iter().collect();
            sample.server.status = Reading::Available { at_s, took_ms: 1.0, value: status };
            let thread = |id: usize| ServerThread {
                connection_id: Some(id as u64),
                is_connection: true,
                command: "Query".to_owned(),
                state: match id > running(second) {
                    true => "Waiting for table metadata lock".to_owned(),
                    false => "executing".to_owned(),
                },
                statement: Some("SELECT 1".to_owned()),
                ..ServerThread::default()
            };
            // An expensive source: later it is not asked for.
            if second < 50 {
                let threads = (1..=all).map(thread).collect();
                sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value: threads };
            }
            writer.write_sample(RecordedSample { at: at(at_s), segment, sample }).unwrap();
        }
        for &(began_s, ended_s, kind) in events {
            let head = EventHead {
                id: writer.new_event(),
                segment,
                began: at(began_s),
                ended: Some(at(ended_s)),
                stall: Stall { kind, began_s, seen_s: began_s, ..Stall::default() },
                ..EventHead::default()
            };
            writer.write_event(Event { head, ..Event::default() }).unwrap();
        }
        file
    }

    fn asked(file: &Path, event: Option<u64>, at: Option<&str>) -> Asked {
        Asked {
            replay: Some(file.to_owned()),
            at: at.map(str::to_owned),
            event,
            screen: Screen::Overview,
            once: false,
            duration: Duration::from_secs(5),
            size: None,
            connection: Connection::default(),
        }
    }

    const EVENTS: [(f64, f64, StallKind); 4] = [
        (10.2, 15.5, StallKind::LockWaits),
        (20.0, 38.0, StallKind::Asked),
        (44.0, 44.6, StallKind::NoAnswer),
        (54.9, 57.0, StallKind::LockWaits),
    ];

    #[test]
    fn a_recording_opens_where_its_worst_event_shows_most_and_at_its_end_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = recording(folder.path(), &EVENTS);
        let (mut feed, state) = replay(&asked(&file, None, None)).unwrap();
        assert_eq!(state.clock, Clock::At(at(13.0)), "one that was asked for stopped nobody");
        let moment = Moment::from_feed(&mut feed, state.at(), 1.0).unwrap();
        assert_eq!(moment.event().map(|event| event.id), Some(1));
        let window = moment.window.unwrap();
        assert_eq!(window.latest(|s| &s.server.threads).map(Vec::len), Some(21));

        let folder = tempfile::tempdir().unwrap();
        let (_, state) = replay(&asked(&recording(folder.path(), &[]), None, None)).unwrap();
        assert_eq!(state.clock, Clock::Latest);
    }

    #[test]
    fn an_event_is_gone_to_where_it_shows_most_and_a_time_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = recording(folder.path(), &EVENTS);
        let clock = |event, at| replay(&asked(&file, event, at)).unwrap().1.clock;
        assert_eq!(clock(Some(1), None), Clock::At(at(13.0)));
        assert_eq!(clock(Some(2), None), Clock::At(at(27.0)), "nobody waits; the most sessions run");
        assert_eq!(clock(Some(3), None), Clock::At(at(44.6)), "there are no samples of it");
        assert_eq!(clock(Some(4), None), Clock::At(at(56.0)), "there are no lists of sessions");
        assert_eq!(clock(None, Some("09:30:10")), Clock::At(at(10.0)));
        assert!(replay(&asked(&file, Some(5), None)).err().unwrap().to_string().contains("has no event 5"));
    }
}
