//! The cost of the recorder, the stalls that it catches, and how fast a recording opens.

mod looker;
mod process;

pub(crate) mod connections;
pub(crate) mod cost;
pub(crate) mod ground;
pub(crate) mod replay;
pub(crate) mod stalls;
pub(crate) mod steady;
pub(crate) mod throughput;

/// What the recorder runs through each second, and what its statements are.
const OF: &[&str] =
    &["crates/collect", "crates/record", "crates/stacks", "crates/stalls", "crates/spindoctor/src/record"];

/// The same, and what names the cause of each event.
pub(crate) const OF_ITS_EVENTS: &[&str] = &[
    "crates/collect",
    "crates/record",
    "crates/rules",
    "crates/stacks",
    "crates/stalls",
    "crates/spindoctor/src/record",
];

/// The events of a recording that are stalls: a deadlock stops nobody, and is one of any load.
pub(crate) fn stall_heads(
    recording: &spindoctor_record::Recording,
) -> anyhow::Result<Vec<spindoctor_model::EventHead>> {
    let mut heads = recording.events()?;
    heads.retain(|head| !head.stall.kind.is_of_an_instant());
    Ok(heads)
}
