//! `spindoctor report`: an incident of a recording, as a page, in words, as JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use spindoctor_model::Event;
use spindoctor_record::Recording;

use super::args::Report as Asked;
use super::loads::Loads;
use super::point::Point;
use super::scope::Scope;
use super::view::{Incident, Recorded};
use super::{changes, html, json, text};
use crate::common::exit::ExitStatus;
use crate::common::moment::Moment;
use crate::common::recorded::{self, window};
use crate::common::stalls::{day_and_time, event_lasted};
use crate::common::{output, terminal};
use spindoctor_page::safe::safe;
use spindoctor_page::text::Look;
use spindoctor_record::span::{Ends, ONE_MORE, Span, before, segment_span, worst_event};
use spindoctor_sessions::LONGEST_S;

/// A window reaches this far beyond a stall, so that there is a sample before and one after it.
const ONE_SAMPLE: Duration = Duration::from_millis(1_500);
/// The slowest lists are read once a minute: this far around a stall there is one of each on both sides.
const SLOW_SOURCES: Duration = Duration::from_secs(70);

/// Longer than any recording.
const SINCE_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Reads the recording and writes the report.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    let recording = recorded::open(&asked.file)?;
    let incident = incident(asked, &recording)?;
    let page = match &asked.html {
        Some(file) => Some(file.clone()),
        None if asked.json => None,
        None => Some(default_name(&incident)),
    };
    if let Some(file) = &page {
        if asked.html.is_none() {
            output::expect_writable(file, output::HTML)?;
        }
        output::write_file(file, html::render(&incident), "the page")?;
    }
    output::print(&match asked.json {
        true => json::render(&incident).context("could not write the incident as JSON")?,
        false => text::render(&incident, terminal::look_of_stdout()),
    })?;
    if let Some(file) = page {
        output::note(&format!("page: {}", safe(&file.display().to_string())));
    }
    Ok(ExitStatus::Done)
}

/// The report of an event of a recording, or without one of its whole length: as text, and as a page.
pub fn pages(recording: &Recording, file: &Path, event: Option<u64>) -> anyhow::Result<(String, String)> {
    let from = event.is_none().then_some(Moment::BeforeEnd(SINCE_EVER));
    let asked = Asked { file: file.to_owned(), event, from, to: None, html: None, json: false };
    let incident = incident(&asked, recording)?;
    Ok((text::render(&incident, Look::of_file()), html::render(&incident)))
}

/// A recording's worst event and its whole length, in each form; how many of both there were. For the fuzz target.
pub fn in_every_form(recording: &Recording, file: &Path) -> usize {
    let asked = |from| Asked { file: file.to_owned(), event: None, from, to: None, html: None, json: true };
    let incidents = [None, Some(Moment::BeforeEnd(SINCE_EVER))]
        .into_iter()
        .flat_map(|from| incident(&asked(from), recording));
    incidents
        .inspect(|incident| {
            let _ = html::render(incident);
            let _ = json::render(incident);
            let _ = text::render(incident, terminal::look_of_stdout());
        })
        .count()
}

/// `incident-db17-20260701T093000Z.html`
fn default_name(incident: &Incident) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let host: String = incident.server.hostname.chars().filter(|c| is_plain(*c)).take(40).collect();
    let host = if host.is_empty() { "server".to_owned() } else { host };
    PathBuf::from(format!("incident-{host}-{}.html", incident.scope.stall.from.strftime("%Y%m%dT%H%M%SZ")))
}

fn incident(asked: &Asked, recording: &Recording) -> anyhow::Result<Incident> {
    let name = asked.file.display();
    let Some((first, last)) = recording.extent()? else {
        bail!("{name} has no sample yet; the recorder writes one a second");
    };
    let extent = Span::new(first, last);
    let (segments, events) = (recording.segments()?, recording.events()?);
    let ends = Ends::of_segments(&segments, &recording.stretches(0)?);
    let is_stretch = asked.from.is_some() || asked.to.is_some();
    let (scope, text) = if is_stretch {
        let from = asked.from.map_or(extent.from, |from| from.resolved(extent.to));
        let to = asked.to.map_or(extent.to, |to| to.resolved(extent.to));
        if from > to {
            bail!("--from {} is after --to {}", day_and_time(from), day_and_time(to));
        }
        let Some(scope) = Scope::of_stretch(Span::new(from, to), extent) else {
            bail!(
                "{name} has nothing from {} to {}: it reaches from {} to {}",
                day_and_time(from),
                day_and_time(to),
                day_and_time(first),
                day_and_time(last)
            );
        };
        let within = events.iter().filter(|head| scope.shown.meets_event(head, &ends));
        (scope, worst_event(within, &ends, extent))
    } else {
        let head = match asked.event {
            Some(id) => events.iter().find(|head| head.id == id),
            None => worst_event(events.iter(), &ends, extent),
        };
        let Some(head) = head else {
            match asked.event {
                Some(id) => bail!("{name} has no event {id}; {}", events_text(&events)),
                None => bail!(
                    "{name} has no event from {} to {}; say which time with --from and --to",
                    day_and_time(first),
                    day_and_time(last)
                ),
            }
        };
        (Scope::of_event(head, &events, &segments, &ends, extent), Some(head))
    };
    let event: Option<Event> = match text {
        Some(head) => recording.event(head.id)?,
        None => None,
    };
    let segment = event.as_ref().map(|event| event.head.segment);
    let home = segment.map_or(extent, |segment| segment_span(&segments, segment, extent));
    let within = |span: Span| span.within(home).unwrap_or(span);
    let calm = scope.calm.map(|calm| window(recording, calm)).transpose()?.flatten();
    let (points, loads) = over_time(recording, scope)?;
    let recorded = Recorded {
        calm,
        stall: window(recording, within(scope.stall.widened(ONE_SAMPLE)))?,
        around: window(recording, within(scope.stall.widened(SLOW_SOURCES)))?,
        points,
        loads,
        settings: recording.settings(scope.stall.to)?,
        changes: changes::read(recording, &name.to_string(), scope, extent)?,
        // After the samples: what is damaged is found when it is read.
        gaps: recording.gaps()?,
        segments,
        events: events.clone(),
        ends,
        event,
    };
    Ok(Incident::new(scope, recorded))
}

fn events_text(events: &[spindoctor_model::EventHead]) -> String {
    match events {
        [] => "it has none".to_owned(),
        [.., last] => {
            format!("the last is {}, {}, {}", last.id, day_and_time(last.began), event_lasted(last))
        }
    }
}

/// What is drawn over time, and what the numbers are counted from: of all that is shown, and of the calm.
fn over_time(recording: &Recording, scope: Scope) -> anyhow::Result<(Vec<Point>, Loads)> {
    let from = scope.calm.map_or(scope.shown.from, |calm| calm.from.min(scope.shown.from));
    let (mut points, mut loads) = (Vec::new(), Loads::default());
    // The first list stands for the time since the one before it.
    let lead = before(from, Duration::from_secs_f64(LONGEST_S));
    recording.samples(lead, before(from, ONE_MORE))?.iter().for_each(|sample| loads.add(scope, sample));
    for piece in recording.pieces(Span::new(from, scope.shown.to)) {
        let piece = piece?;
        let samples = recording.samples(piece.from, piece.to)?;
        points.extend(samples.iter().map(Point::of_sample));
        samples.iter().for_each(|sample| loads.add(scope, sample));
    }
    points.sort_by_key(|point| point.at);
    Ok((points, loads))
}
