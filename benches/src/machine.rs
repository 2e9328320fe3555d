//! The origin of the numbers: the machine, and the versions of the measured programs.

use crate::peer;
use crate::program::Spindoctor;

/// In a sentence.
pub(crate) fn description(spindoctor: &Spindoctor) -> anyhow::Result<String> {
    let peers: Vec<String> = peer::PEERS.iter().filter_map(peer::Peer::version).collect();
    Ok(format!(
        "{}, {}, on {}; peers: {}",
        spindoctor.version()?,
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        spindoctor_lab::machine(),
        peers.join(", ")
    ))
}
