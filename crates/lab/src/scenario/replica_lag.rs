//! A replica whose applier reads a whole table for each row that its source finds by an index.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use spindoctor_model::Flavor;
use spindoctor_rules::causes::replica_lag::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::{Error, Result};
use crate::load::sessions::Sessions;
use crate::replica::{follow, source, words};
use crate::server::{Server, ServerSpec};

/// Clients of the source, and how often each of them changes a row: 800 changes a second in all, where the replica's
/// applier manages some hundred.
const CLIENTS: u32 = 4;
const EVERY: Duration = Duration::from_millis(5);
/// How long the replica may take to make the table.
const TABLE_WITHIN: Duration = Duration::from_secs(20);
/// So far behind it suffers, seconds.
const BEHIND_S: f64 = 4.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A replica follows a second server. A table of 40,000 rows has no primary key, and the index that it has on the \
            source was forgotten on the replica: four clients of the source change 800 rows a second, and the replica's one \
            applier reads the whole table for each. Seen to suffer by Seconds_Behind_Source, four seconds and more.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let options: &[&str] = match flavor {
        Flavor::Mariadb => &["--slave-parallel-threads=0"],
        _ => &["--replica-parallel-workers=1"],
    };
    let options = options.iter().map(|&option| option.to_owned()).collect();
    ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let source = source(server, TABLES, &["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"]).await?;
    server.execute(follow(server, source.port())).await?;
    let make = "CREATE TABLE sbtest.plain (k INT NOT NULL, n INT NOT NULL, filler CHAR(120) NOT NULL)";
    let fill = (1..=TABLES.count).map(|table| {
        let after = (table - 1) * TABLES.rows;
        format!("INSERT INTO sbtest.plain SELECT id + {after}, 0, c FROM sbtest.sbtest{table}")
    });
    source.execute(std::iter::once(make.to_owned()).chain(fill)).await?;
    wait_for_table(server).await?;
    // One session: what is not logged must not be.
    let mut conn = source.connect().await.map_err(Error::statement("connect"))?;
    for statement in ["SET sql_log_bin = 0", "ALTER TABLE sbtest.plain ADD INDEX (k)"] {
        conn.query_drop(statement).await.map_err(Error::statement(statement))?;
    }
    let _closed = conn.disconnect().await;
    let mut sessions = Sessions::default();
    for client in 1..=CLIENTS {
        let row = client * TABLES.rows / (CLIENTS + 1);
        let change = format!("UPDATE plain SET n = n + 1 WHERE k = {row}");
        sessions.repeat_every(&source, change, EVERY).await?;
    }
    sessions.keep(source);
    Ok(Suffering::by(sessions))
}

/// Until the replica has applied what makes and fills the table.
async fn wait_for_table(server: &Server) -> Result<()> {
    let begun = std::time::Instant::now();
    loop {
        // Until it is there, the question is an error.
        let rows = symptom::number(server, "SELECT COUNT(*) FROM sbtest.plain").await.unwrap_or(0);
        if rows >= u64::from(TABLES.count * TABLES.rows) {
            return Ok(());
        }
        if begun.elapsed() > TABLE_WITHIN {
            return Err(Error::Unable {
                what: "a replica",
                because: format!("it has {rows} rows after {} s", TABLE_WITHIN.as_secs()),
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let (_, source, replica) = words(server.version());
    let question = format!("SHOW {replica} STATUS");
    let column = match source {
        "SOURCE" => "Seconds_Behind_Source",
        _ => "Seconds_Behind_Master",
    };
    let mut conn = server.connect().await.map_err(Error::statement("connect"))?;
    let row: Option<mysql_async::Row> =
        conn.query_first(question.as_str()).await.map_err(Error::statement(&question))?;
    let _closed = conn.disconnect().await;
    let behind_s = row.and_then(|row| row.get_opt::<Option<f64>, _>(column)?.ok().flatten());
    Ok(behind_s
        .filter(|&seconds| seconds >= BEHIND_S)
        .map(|seconds| format!("{seconds:.0} s behind its source")))
}
