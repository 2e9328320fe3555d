//! The account of the sessions' time against the clients' own clocks, by Little's law: sessions at work, on average, are
//! transactions per second times the seconds of one. Clients whose time is the server's: durable commits on a slow disk, so
//! that what they do between two statements counts for nothing.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that prints what it compares")]

use std::time::Duration;

use spindoctor_collect::mysql::{Endpoint, Target};
use spindoctor_collect::watch::{Profiling, WatchOptions, watch};
use spindoctor_lab::load::{LoadReport, LoadSpec, Login, Mark, Tables, Workload, measure};
use spindoctor_lab::{Data, Home, Limits, Server, ServerSpec, Which};
use spindoctor_model::SessionTime;
use tokio::sync::Notify;

const TABLES: Tables = Tables { count: 1, rows: 10_000 };
/// Writes per second of the disk: a spinning disk.
const DISK_WRITES_PER_S: u32 = 150;
/// Clients, as fast as they can. With a bounded rate both numbers vary by more than this from one moment to the next, and the two
/// do not see quite the same seconds.
const CLIENTS: [u32; 3] = [4, 16, 64];
/// How far the two may be apart.
const WITHIN: f64 = 0.05;

/// Both servers at once: each waits for a disk of its own, and hardly uses a CPU.
#[tokio::test]
async fn sessions_at_work_are_rate_times_time() {
    let (mysql, mariadb) = tokio::join!(disagreements(Which::Mysql), disagreements(Which::Mariadb));
    assert!(mysql.is_empty() && mariadb.is_empty(), "{mysql:#?} {mariadb:#?}");
}

/// Where the two are too far apart.
async fn disagreements(which: Which) -> Vec<String> {
    let options = ["--log-bin=binlog", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"];
    let spec = ServerSpec {
        which: which.clone(),
        data: Data::Disk,
        limits: Limits { writes: true, ..Limits::default() },
        tables: Some(TABLES),
        options: options.map(str::to_owned).into(),
        ..ServerSpec::default()
    };
    let server = Server::start(&Home::open().unwrap(), &spec, &|_| {}).await.unwrap();
    server.limit_writes(Some(DISK_WRITES_PER_S)).unwrap();
    let mut wrong = Vec::new();
    for threads in CLIENTS {
        let load = LoadSpec { workload: Workload::OltpUpdateNonIndex, threads, rate: None, tables: TABLES };
        // A transaction that outlasts the load's end is in neither its rate nor its times: after a moment in which the disk
        // stood, once more.
        let mut apart = None;
        for _ in 0..2 {
            apart = compared(&which, &server, load).await.err();
            if apart.is_none() {
                break;
            }
        }
        wrong.extend(apart);
    }
    wrong
}

/// The two beside each other; an error where they are too far apart.
async fn compared(which: &Which, server: &Server, load: LoadSpec) -> Result<(), String> {
    let (by_clients, time) = both(server, load).await;
    let clients = by_clients.transactions_per_s * by_clients.latency_avg_ms.unwrap() / 1e3;
    let ours = time.session_seconds_per_second;
    let line = format!(
        "{which:?}, {} clients: {clients:.2} by their clocks, {ours:.2} by the account",
        load.threads
    );
    println!("{line}");
    if (ours - clients).abs() > WITHIN * clients { Err(line) } else { Ok(()) }
}

/// What sysbench measured, and the account of the time in the middle of it.
async fn both(server: &Server, load: LoadSpec) -> (LoadReport, SessionTime) {
    let begun = Notify::new();
    let seconds = Duration::from_secs(8);
    let mut mark = |mark| {
        if mark == Mark::Begin {
            begun.notify_one();
        }
    };
    let measured = measure(Login::Lab(server.socket()), load, Duration::from_secs(2), seconds, &mut mark);
    let watched = async {
        begun.notified().await;
        let target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
        let profiling = Some(Profiling::with(spindoctor_rules::FRAME_STATES));
        let options = WatchOptions { profiling, ..WatchOptions::lasting(Duration::from_secs(7)) };
        watch(&target, &options, &mut |_| {}).await.unwrap()
    };
    let (measured, window) = tokio::join!(measured, watched);
    (measured.unwrap(), spindoctor_rules::diagnose(&window).time.unwrap())
}
