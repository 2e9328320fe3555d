//! `workload --diff` of two recordings: what it says of a planted change of plan, and of two calm times.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use mysql_async::prelude::Queryable as _;
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};
use tempfile::TempDir;

use crate::page::Row;
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 2, rows: 10_000 };
/// Pairs of each kind.
const PAIRS: usize = 2;
/// The recorder reads the server's summary every half minute: three spans and more in each recording.
const RECORDED: Duration = Duration::from_secs(100);
/// After the plan changed, before somebody records what is usual then.
const SETTLES: Duration = Duration::from_secs(5);
/// Between two lookups.
const PAUSE: Duration = Duration::from_millis(10);
/// Where sysbench's values of the indexed column lie.
const VALUE: u32 = TABLES.rows / 2;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "comparisons",
    of: &[
        "crates/record",
        "crates/statements",
        "crates/spindoctor/src/record",
        "crates/spindoctor/src/workload",
    ],
    minutes: 9,
    story: "`spindoctor workload --diff` of two recordings of 100 s each. A MySQL and a MariaDB at once, both with \
            the statement summary, under sysbench's oltp_read_only (30 transactions a second) and \
            oltp_update_non_index (60 a second) and a session that looks up rows by an index, a hundred times a \
            second at most. Twice on each a calm time is recorded, the index is made invisible (MariaDB: ignored), \
            another time is recorded, and the index is given back. Of the calm time and the one after the change \
            the statement must stand first, as changed in the rows that it reads; of two calm times, one after the \
            other, no statement may be called changed, new or gone.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (mysql, mariadb) = tokio::join!(
        on(bench, Which::Mysql, "INVISIBLE", "VISIBLE"),
        on(bench, Which::Mariadb, "IGNORED", "NOT IGNORED")
    );
    Ok(mysql?.into_iter().chain(mariadb?).collect())
}

/// What the comparisons said on one server.
async fn on(bench: &Bench, which: Which, hidden: &str, given_back: &str) -> anyhow::Result<Vec<Row>> {
    let options = vec!["--performance-schema=ON".to_owned()];
    let spec = ServerSpec { which, tables: Some(TABLES), options, ..ServerSpec::default() };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let load = |workload, rate| LoadSpec { workload, threads: 4, rate: Some(rate), tables: TABLES };
    let reads = Load::start(server.socket(), load(Workload::OltpReadOnly, 30))?;
    let writes = Load::start(server.socket(), load(Workload::OltpUpdateNonIndex, 60))?;
    let mut session = server.connect().await?;
    let looking_up = tokio::spawn(async move {
        loop {
            let question = format!("SELECT c FROM sbtest.sbtest1 WHERE k = {VALUE}");
            if session.query_drop(question).await.is_err() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    tokio::time::sleep(SETTLES).await;
    let folder = tempfile::Builder::new().prefix("spindoctor-comparisons-").tempdir()?;
    let recordings = Recordings { bench, server: &server, folder: &folder };
    let index = async |state: &str| {
        server.execute([format!("ALTER TABLE sbtest.sbtest1 ALTER INDEX k_1 {state}")]).await?;
        tokio::time::sleep(SETTLES).await;
        anyhow::Ok(())
    };
    let (mut first, mut calm) = (0, 0);
    let mut wrong = Vec::new();
    let mut before = recordings.make("calm-0").await?;
    for pair in 1..=PAIRS {
        progress(&format!("comparisons: pair {pair} of {PAIRS} on {}", server.version()));
        index(hidden).await?;
        let changed = recordings.make(&format!("changed-{pair}")).await?;
        index(given_back).await?;
        let after = recordings.make(&format!("calm-{pair}")).await?;
        let of_change = recordings.compare(&before, &changed).await?;
        match is_found(&of_change) {
            true => first += 1,
            false => wrong.push(format!("{pair}: {}", of_change["statements"][0])),
        }
        let of_calm = recordings.compare(&before, &after).await?;
        match of_calm["changed"].as_u64() {
            Some(0) => calm += 1,
            _ => wrong.push(format!("calm {pair}: {}", of_calm["statements"][0])),
        }
        before = after;
    }
    looking_up.abort();
    reads.stop().await;
    writes.stop().await;
    let version = server.version().to_string();
    server.stop()?;
    for what in &wrong {
        progress(&format!("comparisons: {version}: {what}"));
    }
    let row = |what: &str, right: usize| {
        Row::goal(
            format!("{version}: {what}, of {PAIRS}"),
            right.to_string(),
            PAIRS.to_string(),
            right == PAIRS,
        )
    };
    Ok(vec![
        row("the planted change of plan stands first", first),
        row("nothing changed between two calm times", calm),
    ])
}

/// True where the statement whose index is gone stands first, with what happened to it.
fn is_found(compared: &Value) -> bool {
    let first = &compared["statements"][0];
    let is_lookup = first["statement"]
        .as_str()
        .is_some_and(|text| text.contains("sbtest1") && text.replace('`', "").contains("k = ?"));
    is_lookup && first["verdict"] == "changed" && first["reads_other_rows"] == true
}

struct Recordings<'a> {
    bench: &'a Bench,
    server: &'a Server,
    folder: &'a TempDir,
}

impl Recordings<'_> {
    async fn make(&self, name: &str) -> anyhow::Result<PathBuf> {
        let file = self.folder.path().join(format!("{name}.rec"));
        let duration = format!("{}s", RECORDED.as_secs());
        let (socket, output) = (text(self.server.socket())?, text(&file)?);
        let arguments =
            ["record", "--no-defaults", "-u", "root", "-S", socket, "-o", output, "--duration", &duration];
        let mut recorder = self.bench.spindoctor.start(&arguments)?;
        let ended = loop {
            if let Some(ended) = recorder.try_wait()? {
                break ended;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        ensure!(ended.success(), "the recorder of {name} failed");
        Ok(file)
    }

    async fn compare(&self, before: &Path, after: &Path) -> anyhow::Result<Value> {
        let arguments = ["workload", "--diff", text(before)?, text(after)?, "--json"];
        Ok(self.bench.spindoctor.run(&arguments).await?.json)
    }
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path that is no text")
}
