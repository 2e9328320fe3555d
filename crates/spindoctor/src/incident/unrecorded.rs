//! The readings that were not recorded, and why: a missing source must not look like a source without trouble.

use spindoctor_model::{Event, Outcome, Sample, Window};

/// Sources that were not recorded for one and the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    /// The sources: `waits`, `host pressure`, `stacks`.
    pub sources: Vec<String>,
    /// Why.
    pub because: String,
    /// What would unlock them; empty where nothing would.
    pub unlock: String,
}

/// Every source that says nothing in all of these windows, and what of the event was not kept.
pub fn listed(windows: &[Option<&Window>], event: Option<&Event>) -> Vec<Unrecorded> {
    let mut unrecorded: Vec<Unrecorded> = Vec::new();
    let mut add = |source: String, because: &str, unlock: &str| {
        let same = |known: &&mut Unrecorded| known.because == because && known.unlock == unlock;
        match unrecorded.iter_mut().find(same) {
            Some(known) => known.sources.push(source),
            None => unrecorded.push(Unrecorded {
                sources: vec![source],
                because: because.to_owned(),
                unlock: unlock.to_owned(),
            }),
        }
    };
    let mut outcomes: Vec<Outcome<'_>> = vec![Outcome::NotAsked; Sample::about_readings().count()];
    for sample in windows.iter().flatten().flat_map(|window| &window.samples) {
        for (known, (_, reading)) in outcomes.iter_mut().zip(sample.readings()) {
            let outcome = reading.outcome();
            let says_more = matches!(known, Outcome::NotAsked) || matches!(outcome, Outcome::Answered { .. });
            if says_more && !matches!(outcome, Outcome::NotAsked) {
                *known = outcome;
            }
        }
    }
    let is_empty = windows.iter().flatten().all(|window| window.samples.is_empty());
    for (about, outcome) in Sample::about_readings().zip(outcomes).filter(|_| !is_empty) {
        let name = about.exported.replace('_', " ");
        match outcome {
            Outcome::Unavailable(why) => add(name, &why.because, why.unlock.as_deref().unwrap_or_default()),
            Outcome::NotAsked => add(name, "not asked for in this stretch", ""),
            Outcome::Answered { .. } => {}
        }
    }
    if let Some(event) = event {
        let kept = [
            ("stacks of the stall", event.during.is_some()),
            ("stacks from before it", event.before.is_some()),
            ("wait graphs", !event.graphs.is_empty()),
            ("the probe's answers", !event.probes.is_empty()),
        ];
        for (what, _) in kept.iter().filter(|(_, is_kept)| !is_kept) {
            add((*what).to_owned(), "not kept with the event", "");
        }
    }
    unrecorded
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{HostSample, Reading, Unavailable};

    use super::*;

    #[test]
    fn sources_stand_together_by_their_reason_and_those_that_answered_once_do_not_stand_there() {
        let refused = Unavailable::because("the server runs on another host").unlock("run it there");
        let host = HostSample::unavailable(&refused);
        let mut first = Sample { host, ..Sample::default() };
        first.server.status = Reading::Available { at_s: 0.0, took_ms: 1.0, value: Default::default() };
        let mut second = first.clone();
        second.server.status = Reading::Unavailable(Unavailable::because("no answer in 2.0 s"));
        let window = Window { samples: vec![first, second], ..Window::default() };
        let unrecorded = listed(&[None, Some(&window)], Some(&Event::default()));
        let of = |because: &str| unrecorded.iter().find(|one| one.because == because).unwrap();
        assert!(of("the server runs on another host").sources.contains(&"host disks".to_owned()));
        assert_eq!(of("the server runs on another host").unlock, "run it there");
        assert!(of("not asked for in this stretch").sources.contains(&"waits".to_owned()));
        assert_eq!(of("not kept with the event").sources.len(), 4);
        assert!(unrecorded.iter().all(|one| !one.sources.contains(&"status".to_owned())));
    }
}
