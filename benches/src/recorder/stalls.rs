//! Stalls of a fifth of a second at random moments, and the recorder's events of them.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use jiff::SignedDuration;
use mysql_async::prelude::Queryable as _;
use spindoctor_lab::injection::{INJECTIONS, Injected, Injection};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};
use spindoctor_model::EventHead;
use spindoctor_record::Recording;

use super::looker::{Looker, recording};
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 1, rows: 1_000 };
/// Each transaction is of twenty statements, some of which write.
const LOAD: LoadSpec =
    LoadSpec { workload: Workload::OltpReadWrite, threads: 16, rate: Some(60), tables: TABLES };
const LASTS: Duration = Duration::from_millis(200);
/// Of each server; a try of fewer sets `STALLS`.
const STALLS: usize = 20;
/// The usual number of running threads comes from three whole minutes; what is usual in the last minute, sooner.
const LEARNS: Duration = Duration::from_secs(75);
/// From one stall to the next: an event closes five seconds after its stall, and is then diagnosed.
const REST_S: f64 = 9.0;
const REST_BY_CHANCE_S: f64 = 10.0;
/// An event begins within so much of its stall.
const WITHIN: SignedDuration = SignedDuration::from_millis(500);
/// What a disk or a group of its own is needed for is in `recorded-scenarios`.
const KINDS: [&str; 5] = ["read-lock", "table-rows", "table-lock", "ddl", "stopped"];

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorded-stalls",
    of: super::OF_ITS_EVENTS,
    minutes: 6,
    story: "Stalls of 200 ms at random moments, 9 to 19 s apart, 20 of MySQL and 20 of MariaDB, each under 1,200 \
            statements a second of sysbench's oltp_read_write: FLUSH TABLES WITH READ LOCK, a transaction that \
            holds every row of the table, LOCK TABLES, an ALTER TABLE behind a transaction, SIGSTOP of the server, \
            in turn. `spindoctor record` knows nothing of them. Caught: an event that begins within half a second \
            of the stall, and names its cause first. Stacks: it has stacks from before the stall was asked for. \
            Events that belong to no stall are false alarms; the machine's own noise may be among them.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (mysql, mariadb) =
        tokio::try_join!(stalled(bench, "MySQL", Which::Mysql), stalled(bench, "MariaDB", Which::Mariadb))?;
    let mut rows = Vec::new();
    let all: Vec<&Judged> = mysql.0.iter().chain(&mariadb.0).collect();
    let of = all.len();
    let percent = |count: usize| 100.0 * count as f64 / of as f64;
    let text = |count: usize| format!("{count} of {of} ({} %)", short(percent(count)));
    let seen = all.iter().filter(|judged| judged.late_s.is_some()).count();
    let caught = all.iter().filter(|judged| judged.is_named).count();
    let with_stacks = all.iter().filter(|judged| judged.has_stacks).count();
    rows.push(Row::goal(
        "caught, with the right cause first",
        text(caught),
        ">= 95 %",
        percent(caught) >= 95.0,
    ));
    rows.push(Row::plain("an event, whatever its cause", text(seen)));
    rows.push(Row::goal(
        "events with stacks from before",
        format!("{with_stacks} of {seen}"),
        "all",
        with_stacks == seen,
    ));
    for kind in KINDS {
        let of: Vec<_> = all.iter().filter(|judged| judged.kind == kind).collect();
        let caught = of.iter().filter(|judged| judged.is_named).count();
        let others: Vec<String> = of.iter().filter_map(|judged| judged.instead.clone()).collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        rows.push(Row::plain(format!("{kind}: caught"), format!("{caught} of {}{others}", of.len())));
    }
    let late_s: Vec<f64> = all.iter().filter_map(|judged| judged.late_s).collect();
    if !late_s.is_empty() {
        rows.push(Row::plain(
            "from its hold to the event's beginning",
            Spread::from_values(&late_s).text("s"),
        ));
    }
    rows.push(Row::plain("events that belong to no stall", format!("{} and {}", mysql.1, mariadb.1)));
    Ok(rows)
}

/// What the recording has of one stall.
struct Judged {
    kind: &'static str,
    /// How long after the stall's beginning its event begins, seconds; none where there is none.
    late_s: Option<f64>,
    is_named: bool,
    has_stacks: bool,
    /// What was named instead.
    instead: Option<String>,
}

/// One server's stalls, and how many events belong to none.
async fn stalled(bench: &Bench, name: &str, which: Which) -> anyhow::Result<(Vec<Judged>, usize)> {
    let spec = ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let mut load = Load::start(server.socket(), LOAD)?;
    let folder = tempfile::Builder::new().prefix("spindoctor-recorded-").tempdir()?;
    let mut asked = server.connect().await?;
    asked.query_drop("CREATE USER recorder@localhost").await?;
    asked.query_drop("GRANT ALL ON *.* TO recorder@localhost").await?;
    let recorder = Looker::Record.start(bench, server.socket(), folder.path())?;
    tokio::time::sleep(LEARNS).await;
    let kinds: Vec<&'static Injection> = KINDS
        .iter()
        .filter_map(|kind| INJECTIONS.iter().find(|known| known.name == *kind).copied())
        .collect();
    let mut made: Vec<(&'static Injection, Injected)> = Vec::new();
    let stalls = match std::env::var("STALLS") {
        Ok(stalls) => stalls.parse().context("STALLS is no number")?,
        Err(_) => STALLS,
    };
    for turn in 0..stalls {
        progress(&format!("recorded-stalls: {name}, {} of {stalls}", turn + 1));
        load.check()?;
        let die: Option<f64> = asked.query_first("SELECT RAND()").await?;
        tokio::time::sleep(Duration::from_secs_f64(REST_S + REST_BY_CHANCE_S * die.unwrap_or(0.5))).await;
        let kind = kinds[turn % kinds.len()];
        made.push((kind, kind.make(&server, LASTS).await?));
    }
    tokio::time::sleep(Duration::from_secs_f64(REST_S)).await;
    let file = recording(&recorder.folder);
    recorder.end()?;
    drop(asked);
    load.stop().await;
    server.stop()?;

    let judged = judge(&file, &made)?;
    let heads = super::stall_heads(&Recording::open(&file)?)?;
    let others = heads.iter().filter(|head| !made.iter().any(|(_, stall)| belongs(head, stall))).count();
    if others > 0 || judged.iter().any(|judged| !judged.is_named || !judged.has_stacks) {
        progress(&format!("recorded-stalls: {name}: kept in {}", folder.keep().display()));
    }
    Ok((judged, others))
}

fn judge(file: &Path, made: &[(&'static Injection, Injected)]) -> anyhow::Result<Vec<Judged>> {
    let recording = Recording::open(file)?;
    let heads = super::stall_heads(&recording)?;
    let of = |(kind, stall): &(&'static Injection, Injected)| {
        let Some(head) = heads.iter().find(|head| belongs(head, stall)) else {
            let instead = Some("no event".to_owned());
            return Ok(Judged { kind: kind.name, late_s: None, is_named: false, has_stacks: false, instead });
        };
        let event = recording.event(head.id)?.context("an event without its parts")?;
        let has_stacks =
            event.before.is_some_and(|before| !before.snapshots.is_empty() && before.start < stall.asked);
        let is_named = head.cause.as_deref() == Some(kind.label);
        let instead = (!is_named).then(|| head.cause.clone().unwrap_or_else(|| "no cause".to_owned()));
        let late_s = Some(head.began.duration_since(stall.held).as_secs_f64());
        Ok(Judged { kind: kind.name, late_s, is_named, has_stacks, instead })
    };
    made.iter().map(of).collect()
}

/// True for the event that a stall opened.
fn belongs(head: &EventHead, stall: &Injected) -> bool {
    (stall.asked - WITHIN..=stall.ended + WITHIN).contains(&head.began)
}
