//! Workers of a queue that poll it without a pause (`FOR UPDATE SKIP LOCKED`): rows are read and skipped to find none.

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Window};

use super::super::cpu_saturated;
use super::by_digests::{TIME_RATIO, time_s};
use super::{CAUSE, explain_it, grown};
use crate::cpus;
use crate::draft::Draft;
use crate::polling::{self, How, Poll};
use crate::sessions;

pub(super) fn by_polls(window: &Window) -> Option<Finding> {
    let polls = Poll::storm(window, How::SkipLocked)?;
    let seconds = window.change(|s| &s.server.digests)?.seconds;
    let all_s: f64 = grown(window).iter().map(|statement| time_s(&statement.by)).sum();
    let in_vain = polls.in_vain_ratio();
    let ratio = in_vain * polls.time_s / all_s.max(f64::MIN_POSITIVE);
    let score = ratio * (polls.time_s / seconds / cpus::effective(window)).min(1.0);
    if score < TIME_RATIO {
        return None;
    }
    let headline = format!(
        "{} polls with SKIP LOCKED a second find no free row, {:.0} % of all such: {}",
        whole(polls.in_vain_per_s),
        in_vain * 100.0,
        sessions::shortened(polls.statement())
    );
    let [pause, index] = polling::remedies();
    Some(
        Draft::new(&CAUSE, score, headline)
            .why(polls.why())
            .evidence_all(polls.evidence().into_iter())
            .evidence(
                Evidence::new(
                    "share of statement time",
                    ratio,
                    "ratio",
                    "events_statements_summary_by_digest",
                )
                .expected(format!("< {TIME_RATIO}")),
            )
            .remedies([pause, index, explain_it(polls.statement())])
            .explains(&[cpu_saturated::CAUSE.name])
            .finding(),
    )
}
