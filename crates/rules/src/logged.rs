//! What an error log or a tool of the system says of trouble, where somebody gave it.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window};

use crate::Cause;
use crate::draft::Draft;

/// A trouble that stood in the log for the last time longer ago than this is over. A server that waits for space repeats it every
/// ten minutes (mysys/errors.cc, MY_WAIT_GIVE_USER_A_MESSAGE of 10 minutes): two of them.
const RECENT_S: f64 = 1_200.0;

/// The last trouble of that kind with which the log ends, and how often it stands there in all.
pub(crate) fn at_the_end(window: &Window, kind: TroubleKind) -> Option<(&LoggedTrouble, u64)> {
    let all = || window.error_log.iter().filter(|trouble| trouble.kind == kind);
    let is_recent = |trouble: &&LoggedTrouble| trouble.before_end_s.is_none_or(|s| s <= RECENT_S);
    let last = all().rfind(is_recent)?;
    Some((last, all().map(|trouble| trouble.times).sum()))
}

/// The line, and how often there is one.
pub(crate) fn evidence(trouble: &LoggedTrouble, times: u64) -> [Evidence; 2] {
    let source = if trouble.source.is_empty() { "error log" } else { trouble.source.as_str() };
    [
        Evidence::new("lines that say so", times as f64, "", source).expected("0"),
        Evidence::new("the last", trouble.line.clone(), "", source),
    ]
}

/// The finding of a cause whose sign a tool of the system prints. Its sentence is the headline: nothing says what sessions
/// wait for.
pub(crate) fn printed(
    window: &Window,
    cause: &Cause,
    kind: TroubleKind,
    score: f64,
    why: &str,
    remedy: Remedy,
) -> Option<Finding> {
    let (trouble, _) = at_the_end(window, kind).filter(|(trouble, _)| !trouble.source.is_empty())?;
    let evidence = Evidence::new("it says", trouble.line.clone(), "", &trouble.source);
    Some(Draft::new(cause, score, trouble.line.clone()).why(why).evidence(evidence).remedy(remedy).finding())
}
