//! JSON, schema `spindoctor.profile/1`: sums for machines. Fields may be added; none is renamed or removed. Times are
//! in milliseconds unless the name says otherwise. The raw file (`--save`) has every snapshot.

use std::collections::BTreeMap;

use serde::Serialize;
use spindoctor_model::Profile;
use spindoctor_model::stack::{PROFILE_SCHEMA, SnapshotCost, StackSource};
use spindoctor_stacks::aggregate;

use super::counted::LabelKind;
use super::formats::subject;
use super::latches::{WaitedLatch, latches};
use super::measures::Measures;
use super::view::{View, state_word};
use spindoctor_page::json::to_text;

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    process: &'a spindoctor_model::stack::ProfiledProcess,
    subject: &'a str,
    source: StackSource,
    on_cpu: bool,
    start: String,
    seconds: f64,
    hz: f64,
    snapshots: usize,
    observations: usize,
    threads: usize,
    threads_stopped: u64,
    stopped_ms: f64,
    dropped: u64,
    unmoved: u64,
    capture_ms: Spread,
    snapshot_ms: Spread,
    own_cpu_ms: f64,
    process_cpu_ms: f64,
    server_queries: u64,
    server_busy_ms: f64,
    #[serde(flatten)]
    measures: Measures<'a>,
    spinners: Vec<Spinner>,
    latches: Vec<WaitedLatch>,
    states: BTreeMap<&'static str, f64>,
    stacks: Vec<Stack<'a>>,
    notes: &'a [String],
}

/// Half of the values are no larger than `p50`.
#[derive(Serialize)]
struct Spread {
    p50: f64,
    max: f64,
}

#[derive(Serialize)]
struct Spinner {
    function: String,
    share: f64,
    callers: Vec<String>,
}

#[derive(Serialize)]
struct Stack<'a> {
    count: u64,
    group: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spin: Option<spindoctor_model::stack::Spin>,
    frames: Vec<&'a str>,
}

/// The sums as indented JSON with a line break at its end.
pub fn render(view: &View<'_>) -> serde_json::Result<String> {
    let profile = view.profile;
    let spinners = aggregate::spinners(profile);
    let counted = view.counted();
    let all = view.observations.len().max(1) as f64;
    let mut states: BTreeMap<&'static str, f64> = BTreeMap::new();
    for stack in &counted {
        *states.entry(state_word(stack.state)).or_default() += stack.count as f64 / all;
    }
    to_text(&Written {
        schema: PROFILE_SCHEMA,
        process: &profile.process,
        subject: subject(profile),
        source: profile.source,
        on_cpu: view.on_cpu,
        start: profile.start.to_string(),
        seconds: profile.seconds,
        hz: profile.hz,
        snapshots: view.snapshot_count(),
        observations: view.observations.len(),
        threads: view.thread_count(),
        threads_stopped: summed(profile, |cost| u64::from(cost.stopped)),
        stopped_ms: summed(profile, |cost| cost.stopped_us) as f64 / 1e3,
        dropped: summed(profile, |cost| u64::from(cost.dropped)),
        unmoved: summed(profile, |cost| u64::from(cost.unmoved)),
        capture_ms: Spread::from_profile(profile, |cost| cost.capture_us),
        snapshot_ms: Spread::from_profile(profile, |cost| cost.snapshot_us),
        own_cpu_ms: profile.own_cpu_us as f64 / 1e3,
        process_cpu_ms: profile.process_cpu_us as f64 / 1e3,
        server_queries: profile.server_queries,
        server_busy_ms: profile.server_busy_ms,
        measures: Measures::from(profile),
        spinners: spinners
            .into_iter()
            .map(|spinner| Spinner {
                function: spinner.function,
                share: spinner.share,
                callers: spinner.callers.into_iter().map(|(chain, _)| chain).collect(),
            })
            .collect(),
        latches: latches(profile),
        states,
        stacks: counted
            .iter()
            .map(|stack| Stack {
                count: stack.count,
                group: &stack.labels[0].name,
                state: state_word(stack.state),
                spin: stack.spin,
                frames: stack.labels[1..]
                    .iter()
                    .rev()
                    .filter(|label| label.kind != LabelKind::End)
                    .map(|label| label.name.as_ref())
                    .collect(),
            })
            .collect(),
        notes: &profile.notes,
    })
}

/// A cost summed over all snapshots.
pub fn summed(profile: &Profile, cost: fn(&SnapshotCost) -> u64) -> u64 {
    profile.snapshots.iter().map(cost).sum()
}

/// The middle and the largest of a cost that is counted in microseconds, as milliseconds.
pub fn p50_and_max(profile: &Profile, cost: fn(&SnapshotCost) -> u64) -> (f64, f64) {
    let mut costs: Vec<u64> = profile.snapshots.iter().map(cost).collect();
    costs.sort_unstable();
    let middle = costs.get(costs.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    (middle as f64 / 1e3, costs.last().copied().unwrap_or(0) as f64 / 1e3)
}

impl Spread {
    fn from_profile(profile: &Profile, cost: fn(&SnapshotCost) -> u64) -> Self {
        let (p50, max) = p50_and_max(profile, cost);
        Self { p50, max }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::examples;
    use crate::view::Choice;

    /// The promise of `spindoctor.profile/1`: fields may be added, none is renamed or removed.
    #[test]
    fn every_field_of_the_public_schema_is_there() {
        let profile = examples::busy();
        let view = View::new(&profile, &Choice::default()).unwrap();
        let json: Value = serde_json::from_str(&render(&view).unwrap()).unwrap();
        for field in [
            "schema",
            "source",
            "snapshots",
            "threads",
            "threads_stopped",
            "stopped_ms",
            "dropped",
            "capture_ms",
            "snapshot_ms",
            "own_cpu_ms",
            "spin_share",
            "spinners",
            "latches",
            "states",
            "stacks",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert_eq!(json["schema"], "spindoctor.profile/1");
        assert_eq!(json["source"], "bpf");
        assert_eq!((&json["snapshots"], &json["threads"]), (&20.into(), &4.into()));
        assert_eq!(json["capture_ms"]["p50"], 1.4);
        assert_eq!(json["snapshot_ms"]["max"], 5.4);
        let shares: f64 = json["states"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        let stack = &json["stacks"][0];
        assert_eq!(stack["state"], "lock");
        assert_eq!(stack["frames"][0], "futex_wait_queue");
    }
}
