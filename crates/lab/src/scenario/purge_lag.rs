//! Old row versions that pile up, and writers that are delayed for it.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::purge_lag::CAUSE;

use super::onset::{Onset, with_its_sessions};
use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that change a row each, while nothing may be purged.
const WRITERS: u64 = 8;
/// Sessions that change a hundred rows each, while one thread purges: more than it removes.
const BULK_WRITERS: u64 = 32;
/// The snapshot is of the first read.
const SNAPSHOT: &[&str] =
    &["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT k FROM sbtest1 WHERE id = 1"];
/// Length of the list from which on changes are delayed; below four times 300 the server delays nobody.
const MOST_LAG: u32 = 1_500;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "From 1500 entries of the history list on (innodb_max_purge_lag) the server delays each change, up to 300 ms. \
            MySQL: a session has opened a consistent snapshot and forgotten it, eight sessions change rows, and purge may \
            remove nothing; seen to suffer by the list's length, twice what is allowed. MariaDB delays nobody while nothing \
            is purged: there 32 sessions change more than one thread in batches of one page removes; seen to suffer by the \
            list's length, which the delay keeps at what is allowed.",
    spec: |flavor| match flavor {
        Flavor::Mariadb => spec(&["--innodb-purge-threads=1", "--innodb-purge-batch-size=1"]),
        _ => spec(&[]),
    },
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "Six clients change ten rows each, 200 times a second, and purge keeps up. MySQL: a session then opens a \
            consistent snapshot and forgets it; within a second the list is longer than innodb_max_purge_lag (40) allows, \
            and each row that a statement changes sleeps. MariaDB, which delays nobody while nothing is purged: a bulk \
            change by 32 sessions, a hundred rows each, makes more than one thread purges in batches of one page; from 400 \
            entries on each row sleeps, those of the six clients too.",
    lasts: Duration::from_secs(10),
    // In batches as small as these a short list is enough to delay changes, and what is purged leaves MySQL's list at once.
    spec: |flavor| match flavor {
        Flavor::Mariadb => {
            spec(&["--innodb-max-purge-lag=400", "--innodb-purge-threads=1", "--innodb-purge-batch-size=1"])
        }
        _ => spec(&[
            "--innodb-max-purge-lag=40",
            "--innodb-purge-batch-size=10",
            "--innodb-purge-rseg-truncate-frequency=1",
        ]),
    },
    calm: |server| {
        Box::pin(Clients::start(server, 6, 200.0, |rng| {
            let (table, first) = (rng.u32(1..=TABLES.count), rng.u32(1..=TABLES.rows));
            format!("UPDATE sbtest{table} SET k = k + 1 WHERE id BETWEEN {first} AND {first} + 9")
        }))
    },
    begin: |server| {
        Box::pin(async move {
            if server.version().flavor == Flavor::Mariadb {
                return begin(server).await;
            }
            let mut sessions = Sessions::default();
            sessions.hold(server, SNAPSHOT).await?;
            Ok(Suffering::by(sessions))
        })
    },
    end: with_its_sessions,
};

/// The later ones of equal options count.
fn spec(options: &[&str]) -> ServerSpec {
    let most_lag = format!("--innodb-max-purge-lag={MOST_LAG}");
    let usual = [
        most_lag.as_str(),
        "--innodb-max-purge-lag-delay=300000",
        "--innodb-flush-log-at-trx-commit=0",
        "--loose-disable-log-bin",
    ];
    let options = usual.iter().chain(options).map(|&option| option.to_owned()).collect();
    ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    let is_mariadb = server.version().flavor == Flavor::Mariadb;
    let (writers, rows) = if is_mariadb { (BULK_WRITERS, 100) } else { (WRITERS, 1) };
    if !is_mariadb {
        sessions.hold(server, SNAPSHOT).await?;
    }
    for writer in 1..=writers {
        let (table, first) = (1 + writer % u64::from(TABLES.count), 100 * writer);
        let last = first + rows - 1;
        let statement = format!("UPDATE sbtest{table} SET k = k + 1 WHERE id BETWEEN {first} AND {last}");
        sessions.repeat(server, statement).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let length = symptom::history_length(server).await?;
    let enough = match server.version().flavor {
        Flavor::Mariadb => u64::from(MOST_LAG) + 1,
        _ => 2 * u64::from(MOST_LAG),
    };
    Ok((length >= enough).then(|| format!("{length} entries of the history list")))
}
