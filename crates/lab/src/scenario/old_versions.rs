//! Reads through old versions of rows, which nobody is delayed for.

use std::time::Duration;

use spindoctor_rules::causes::purge_lag::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that read in a snapshot of their own.
const READERS: u32 = 12;
/// How long a reader does other things after its snapshot, and how often it reads then.
const AWAY: Duration = Duration::from_secs(12);
const READS: usize = 3_000;
/// Sessions that change rows, and how many rows each.
const WRITERS: u32 = 4;
const ROWS: u32 = 12;
/// A read of these rows as they are takes a thousandth of a second, with eleven others beside it on two CPUs.
const SUFFERS_FROM: Duration = Duration::from_millis(20);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "old-versions",
    label: Some(CAUSE.name),
    story: "Four sessions change twelve rows each, over and over, and twelve others read these 48 rows, each in the snapshot that it \
            opened some twelve seconds before: for every row it goes back through the versions made since. Nobody is delayed. Seen to \
            suffer by how long a read takes: 20 ms where one of the rows as they are takes one. On MySQL, whose program names the \
            functions that build versions.",
    flavors: MYSQL,
    spec: |_| ServerSpec {
        tables: Some(TABLES),
        options: vec!["--innodb-flush-log-at-trx-commit=0".to_owned(), "--loose-disable-log-bin".to_owned()],
        ..ServerSpec::default()
    },
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    let read = format!("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 1 AND {}", WRITERS * ROWS);
    for _ in 0..READERS {
        let mut transaction = vec![
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT".to_owned(), Duration::ZERO),
            (read.clone(), AWAY),
        ];
        transaction.extend(std::iter::repeat_n((read.clone(), Duration::ZERO), READS));
        sessions.transact(server, transaction).await?;
    }
    for writer in 0..WRITERS {
        let (first, last) = (writer * ROWS + 1, (writer + 1) * ROWS);
        let change = format!("UPDATE sbtest1 SET k = k + 1 WHERE id BETWEEN {first} AND {last}");
        sessions.repeat(server, change).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let length = symptom::history_length(server).await?;
    let [reads_per_s] = symptom::status_per_s(server, &["Com_select"]).await?[..] else { return Ok(None) };
    let read_s = f64::from(READERS) / reads_per_s.max(1.0);
    // Most of them are still away where few reads end and the list is short.
    Ok((length >= 1_000 && reads_per_s > f64::from(READERS) && read_s >= SUFFERS_FROM.as_secs_f64())
        .then(|| format!("a read takes {:.0} ms, with {length} entries of the history list", 1e3 * read_s)))
}
