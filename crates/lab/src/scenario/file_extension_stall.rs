//! A data file that grows on a slow disk.

use std::time::Duration;

use spindoctor_rules::causes::file_extension_stall::CAUSE;

use super::onset::{Onset, free_disk};
use super::{MYSQL, Scenario, Suffering, TABLES, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that append rows.
const WRITERS: u32 = 16;
/// What they do.
const APPEND: &str = "INSERT INTO log (body) VALUES (REPEAT('x', 7000))";
/// Writes per second of the disk that the data is on.
const DISK_WRITES_PER_S: u32 = 20;
/// The same in [`ONSET`], where the pages of fewer rows are written beside it.
const FEW_WRITES_PER_S: u32 = 50;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen sessions append rows of 7 kB to one table on a disk that does 20 writes a second. Commits do \
            not sync the log; the file is extended by four megabytes at a time, filled with zeros, and until \
            that is written nobody can add a page. Seen to suffer by SHOW ENGINE INNODB STATUS: at least ten \
            threads wait for a semaphore.",
    // MariaDB extends files by posix_fallocate, which takes no time on ext4 and xfs.
    flavors: MYSQL,
    needs: "root, for a slow disk; a data folder on a disk",
    spec: |_| spec(&[]),
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "Sixteen clients append 250 rows of 7 kB a second to one table, and what they change stays in memory: flushed pages, \
            and a redo log that is moved on to its next file behind them, block sessions on a slow disk, too. Then the disk \
            does 50 writes a second.",
    lasts: Duration::from_secs(8),
    spec: |_| {
        spec(&[
            "--innodb-adaptive-flushing=OFF",
            "--innodb-max-dirty-pages-pct=99",
            "--innodb-max-dirty-pages-pct-lwm=0",
        ])
    },
    calm: |server| Box::pin(append(server)),
    begin: |server| {
        Box::pin(async move {
            server.limit_writes(Some(FEW_WRITES_PER_S))?;
            Ok(Suffering::by(Sessions::default()))
        })
    },
    end: free_disk,
};

fn spec(options: &[&str]) -> ServerSpec {
    let usual = [
        "--innodb-buffer-pool-size=1G",
        "--innodb-redo-log-capacity=1G",
        "--innodb-flush-log-at-trx-commit=0",
        "--disable-log-bin",
    ];
    ServerSpec {
        tables: Some(TABLES),
        options: usual.iter().chain(options).map(|&option| option.to_owned()).collect(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    make_table(server).await?;
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let mut sessions = Sessions::default();
    sessions.churn(server, WRITERS, APPEND).await?;
    Ok(Suffering::by(sessions))
}

async fn append(server: &Server) -> Result<Clients> {
    make_table(server).await?;
    Clients::start(server, WRITERS, 250.0, |_| APPEND.to_owned()).await
}

async fn make_table(server: &Server) -> Result<()> {
    server
        .execute([
            "CREATE TABLE sbtest.log (id INT AUTO_INCREMENT PRIMARY KEY, body VARBINARY(7000)) ENGINE = InnoDB",
        ])
        .await
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::semaphore_waiters(server).await?;
    Ok((waiting >= 10).then(|| format!("{waiting} threads wait for a semaphore")))
}
