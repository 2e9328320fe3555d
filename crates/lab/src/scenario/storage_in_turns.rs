//! A disk that hangs for two seconds of each four.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::storage_stalled::CAUSE;

use super::{Scenario, Suffering, TABLES, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that commit.
const WRITERS: u32 = 16;
/// For how long the disk hangs each time, and does not between that, milliseconds. Of two seconds one is whole on the grid of samples.
const HELD_MS: u32 = 2_000;
const FREE_MS: u32 = 2_000;
/// Commits a second of the times in which it hangs, at most, and of the others, at least.
const HELD_PER_S: f64 = 3.0;
const FREE_PER_S: f64 = 30.0;
/// Looks of half a second each: more than one turn.
const LOOKS: usize = 10;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "storage-in-turns",
    label: Some(CAUSE.name),
    story: "Sixteen sessions update single rows, each commit durable. For two seconds of each four the control group lets one write and \
            8 KiB a second through to the disk, which is at rest meanwhile; between that the disk is as quick as it is. Seen to suffer by \
            Handler_commit: in some half seconds fewer than three commits a second, in others more than thirty.",
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: ["--innodb-flush-log-at-trx-commit=1", "--loose-disable-log-bin"].map(str::to_owned).into(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let draw = server.draw();
    let mut sessions = Sessions::default();
    for writer in 1..=draw.count("writers", WRITERS, 8..=32) {
        sessions.repeat(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", 100 * writer)).await?;
    }
    let lasts = |name, usual, range| Duration::from_millis(u64::from(draw.count(name, usual, range)));
    let (held, free) = (lasts("held", HELD_MS, 2_000..=2_500), lasts("free", FREE_MS, 1_500..=2_500));
    let mut suffering = Suffering::by(sessions);
    suffering.storage = Some(server.hang_writes_in_turns(held, free)?);
    Ok(suffering)
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let mut commits = Vec::new();
    for _ in 0..LOOKS {
        commits.extend(symptom::status_per_s(server, &["Handler_commit"]).await?);
    }
    let least = commits.iter().copied().fold(f64::INFINITY, f64::min);
    let most = commits.iter().copied().fold(0.0, f64::max);
    Ok((least < HELD_PER_S && most > FREE_PER_S)
        .then(|| format!("{least:.0} to {most:.0} commits/s, by the half second")))
}
