//! The first line: whether the server is slow now, since when, and what blocks it. Facts alone; where nothing is wrong,
//! it says what was checked.

use jiff::Timestamp;
use spindoctor_model::{Finding, ServerIdentity, Severity, Window};

use super::events::{END_NOT_SEEN, because, duration, lasted_s};
use crate::common::words::finding_in_a_line;
use crate::locks::waits::Locks;
use crate::locks::{Forest, Top};
use crate::top::moment::Moment;
use crate::top::view::{Mood, MoodText};
use spindoctor_page::number;

/// Queries below this share of their median count as a drop worth the first line. Stalls halve throughput and more;
/// normal minutes swing by a quarter.
const DROP: f64 = 0.5;
/// Of so few queries a second nothing is concluded.
const FEW_QUERIES_PER_S: f64 = 20.0;

/// What was computed already.
pub struct Facts<'a> {
    pub locks: Option<&'a Locks>,
    pub queries_now: Option<f64>,
    pub queries_median: Option<f64>,
    pub at_work: Option<usize>,
    /// Lines of the host that are worth a look.
    pub host: Vec<&'static str>,
    /// What the rules find first in the last seconds, from a warning on.
    pub finding: Option<&'a Finding>,
}

/// The line.
pub fn line(moment: &Moment, window: &Window, seen: &Facts<'_>) -> MoodText {
    if let Some(gap) = &moment.gap {
        let to = gap.to.map_or_else(|| "the end".to_owned(), clock);
        return MoodText::new(
            format!("NO SAMPLES from {} to {to}: {}", clock(gap.from), gap.because),
            Mood::Alarm,
        );
    }
    if let Some(why) = no_answer(window) {
        return MoodText::new(format!("NO ANSWER from the server: {why}"), Mood::Alarm);
    }
    if let (Some(event), Some(at)) = (moment.event(), moment.at) {
        let for_s = (at - event.began).total(jiff::Unit::Second).unwrap_or(0.0);
        let cause = event.cause.as_ref().map_or_else(String::new, |cause| format!("{cause}; "));
        return MoodText::new(
            format!("STALL since {} ({}): {cause}{}", clock(event.began), duration(for_s), because(event)),
            Mood::Alarm,
        );
    }
    if let Some(text) = seen.locks.and_then(held_up) {
        return MoodText::new(text, Mood::Alarm);
    }
    if let Some(finding) = seen.finding {
        let mood = if finding.severity == Severity::Critical { Mood::Alarm } else { Mood::Warn };
        return MoodText::new(finding_in_a_line(finding), mood);
    }
    if let (Some(now), Some(median)) = (seen.queries_now, seen.queries_median)
        && median >= FEW_QUERIES_PER_S
        && now < median * DROP
    {
        let drop = number::percent(1.0 - now / median);
        let nobody = if seen.locks.is_some() { "; no session waits long for a lock" } else { "" };
        let text = format!("SLOW: {drop} fewer queries than the median of the last minutes{nobody}");
        return MoodText::new(text, Mood::Warn);
    }
    let before = moment.event_before().map(|event| {
        let lasted = lasted_s(event).map_or_else(|| END_NOT_SEEN.to_owned(), duration);
        format!("; last stall {}, {lasted}: {}", clock(event.began), because(event))
    });
    let before = before.unwrap_or_default();
    if !seen.host.is_empty() {
        return MoodText::new(
            format!("no stall, but look at the host: {}{before}", seen.host.join(", ")),
            Mood::Warn,
        );
    }
    let is_idle = seen.at_work == Some(0) && seen.queries_now.is_some_and(|now| now < FEW_QUERIES_PER_S);
    let text = match (is_idle, seen.locks) {
        (true, _) => "calm: no connection is at work",
        (false, Some(_)) => "normal: no session waits long for another, throughput as before",
        (false, None) => "throughput as before; who waits for whom is not known",
    };
    MoodText::new(format!("{text}{before}"), Mood::Good)
}

/// The root that blocks the most, where it blocks more than traffic does.
fn held_up(locks: &Locks) -> Option<String> {
    let forest = Forest::from_locks(locks);
    let tree = forest.trees.iter().find(|tree| !forest.is_brief(locks, tree))?;
    let behind = number::counted(tree.behind.into(), "thread", "threads");
    let waited = forest
        .longest_wait_s(tree)
        .map_or_else(String::new, |s| format!(" for up to {}", number::duration(s)));
    Some(match &tree.top {
        Top::Root(root) => {
            let who = match root.thread.and_then(|place| locks.thread(place)).and_then(|t| t.connection_id) {
                Some(id) => format!("connection {id}"),
                None => "a thread of the server".to_owned(),
            };
            let doing = if root.doing.is_empty() { String::new() } else { format!(" ({})", root.doing) };
            let free =
                root.free_with.as_ref().map_or_else(String::new, |free| format!("; {free} frees them"));
            format!("BLOCKED: {who}{doing} blocks {behind}{waited}{free}")
        }
        Top::Unseen { object, .. } => format!("BLOCKED: {behind} wait{waited} for {object}"),
        Top::Ring(_) => format!("DEADLOCK: {behind} behind a ring of threads that wait for each other"),
    })
}

/// Why the server's status could not be read, where that was tried last and failed.
fn no_answer(window: &Window) -> Option<String> {
    if let Some(no_session) = &window.server.no_session {
        return Some(no_session.because.clone());
    }
    let tried = |sample: &&spindoctor_model::Sample| {
        sample.server.status.value().is_some() || sample.server.status.unavailable().is_some()
    };
    let last = window.samples.iter().rev().find(tried)?;
    last.server.status.unavailable().map(|why| why.because.clone())
}

/// `14:03:20`
pub fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

/// `MySQL 9.7.4 on db17`
pub fn server_text(server: &ServerIdentity) -> String {
    let version = server.version.map_or_else(|| server.version_text.clone(), |version| version.to_string());
    let place = if server.hostname.is_empty() { &server.address } else { &server.hostname };
    match version.as_str() {
        "" => place.clone(),
        version => format!("{version} on {place}"),
    }
}
