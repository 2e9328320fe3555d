//! Trials on real servers under real load: what the bench measures, what ends a block, and what a trial says.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use spindoctor_collect::host;
use spindoctor_collect::mysql::{Endpoint, SslMode, Target};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::{Change, Verdict};
use spindoctor_tune::bench::{Bench, Ended, Event, Writer};
use spindoctor_tune::guard::Rail;
use spindoctor_tune::measure::Meter;
use spindoctor_tune::statistics::timing::Pace;
use spindoctor_tune::statistics::verdict::Terms;
use spindoctor_tune::trial::{Candidate, Times, Tried, run};
use spindoctor_tune::variables::Variable;
use tokio::sync::watch;
use tokio::time::Instant;

const TABLES: Tables = Tables { count: 4, rows: 10_000 };

async fn server(which: Which) -> Server {
    let spec = ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() };
    let home = Home::open().unwrap();
    Server::start(&home, &spec, &|_| {}).await.unwrap()
}

fn load(server: &Server, workload: Workload, threads: u32) -> Load {
    Load::start(server.socket(), LoadSpec { workload, threads, rate: None, tables: TABLES }).unwrap()
}

async fn meter(server: &Server) -> Meter {
    let target = Target::new(Endpoint::Socket(server.socket().into()), "root");
    Meter::connect(&target, Some(host::Target::live(server.pid()))).await.unwrap()
}

/// What a test's writer does beside setting the values.
enum Also {
    Nothing,
    /// The new setting stops all writes of the server, by a lock of its own.
    LockWrites,
    /// While the new setting stands, nothing is answered that goes through the test's own port.
    Hang(watch::Sender<bool>),
}

/// Sets over a connection of its own; what happens to settings when it dies is tested where they are taken.
struct TestWriter {
    conn: Conn,
    also: Also,
    sets: usize,
}

impl Writer for TestWriter {
    async fn set(&mut self, values: &[(&'static Variable, String)]) -> Result<(), String> {
        self.sets += 1;
        for (variable, value) in values {
            let statement = format!("SET GLOBAL {} = {value}", variable.name);
            self.conn.query_drop(statement).await.map_err(|error| error.to_string())?;
        }
        let is_new = values.iter().any(|(_, value)| value == "31");
        if let Also::Hang(hang) = &self.also {
            hang.send_replace(is_new);
        }
        if let Also::LockWrites = self.also {
            let statement = if is_new { "FLUSH TABLES WITH READ LOCK" } else { "UNLOCK TABLES" };
            self.conn.query_drop(statement).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn lost(&self) -> Option<String> {
        None
    }
}

async fn writer(server: &Server, also: Also) -> TestWriter {
    TestWriter { conn: server.connect().await.unwrap(), also, sets: 0 }
}

fn spin(changes: &[(&str, &str, &str)], server: &Server) -> Candidate {
    let change = |(variable, from, to): &(&str, &str, &str)| Change {
        variable: (*variable).to_owned(),
        from: (*from).to_owned(),
        to: (*to).to_owned(),
    };
    Candidate::checked(&changes.iter().map(change).collect::<Vec<_>>(), server.version()).unwrap()
}

fn times(settle_ms: u64, measure_ms: u64) -> Times {
    Times {
        settle: Some(Duration::from_millis(settle_ms)),
        measure: Some(Duration::from_millis(measure_ms)),
        pace: Pace::ThrowAway,
    }
}

/// Runs a trial of so many seconds at most; the notes from meanwhile come with it.
async fn trial(
    server: &Server,
    writer: &mut TestWriter,
    candidate: &Candidate,
    times: Times,
    seconds: u64,
) -> (Tried, Vec<String>) {
    let mut random = fastrand::Rng::with_seed(7);
    tossed(server, writer, candidate, times, seconds, &mut |below| random.usize(..below.max(1))).await
}

/// The same with a coin of one's own.
async fn tossed(
    server: &Server,
    writer: &mut TestWriter,
    candidate: &Candidate,
    times: Times,
    seconds: u64,
    coin: &mut dyn FnMut(usize) -> usize,
) -> (Tried, Vec<String>) {
    let mut meter = meter(server).await;
    let mut notes = Vec::new();
    let mut report = |event: Event<'_>| {
        if let Event::Note(what) = event {
            notes.push(what.to_owned());
        }
    };
    let (_stop, stopped) = watch::channel(false);
    let mut bench =
        Bench::open(&mut meter, writer, Duration::from_secs(3), stopped, &mut report).await.unwrap();
    let until = Instant::now() + Duration::from_secs(seconds);
    let tried = run(&mut bench, candidate, &times, &Terms::default(), until, coin).await;
    (tried, notes)
}

#[tokio::test]
async fn the_same_setting_on_both_sides_shows_no_effect_worth_the_name() {
    let server = server(Which::Mysql).await;
    let _load = load(&server, Workload::OltpPointSelect, 16);
    let mut writer = writer(&server, Also::Nothing).await;
    let candidate = spin(&[("innodb_spin_wait_delay", "6", "6")], &server);
    let (Tried { trial, ended }, _) = trial(&server, &mut writer, &candidate, times(100, 500), 17).await;
    assert!(ended.is_none(), "{ended:?}");
    assert!(trial.quads >= 4, "{}", trial.quads);
    // Set at every block, also where the value stays, and once at the end.
    assert_eq!(writer.sets, trial.blocks.len() + 1);
    assert!(trial.effect.p95.is_some() && trial.effect.cpu_per_query.is_some(), "{:?}", trial.effect);
    assert!(!trial.kept && trial.blocks.iter().any(|block| block.is_new));
    // One in twenty such trials may claim an effect; none may claim a large one, however much the machine's other work
    // moves the numbers.
    let throughput = trial.effect.throughput.unwrap();
    let (low, high) = (throughput.low.unwrap(), throughput.high.unwrap());
    assert!(low < 1.05 && high > 0.95, "{throughput:?} {}", trial.why);
}

#[tokio::test]
async fn a_guard_rail_ends_the_block_at_once_and_the_old_setting_comes_back() {
    let server = server(Which::Mysql).await;
    let _load = load(&server, Workload::OltpUpdateNonIndex, 8);
    let mut writer = writer(&server, Also::LockWrites).await;
    let candidate = spin(&[("innodb_sync_spin_loops", "30", "31")], &server);
    let begun = Instant::now();
    const BLOCK_S: u64 = 60;
    // Tails: the new setting comes first.
    let (Tried { trial, ended }, notes) =
        tossed(&server, &mut writer, &candidate, times(1_000, BLOCK_S * 1_000), 5 * BLOCK_S, &mut |_| 0)
            .await;
    match &ended {
        Some(Ended::Tripped(trip)) => assert_eq!(trip.rail, Rail::Collapse),
        other => panic!("{other:?} {notes:?}"),
    }
    assert_eq!(trial.verdict, Verdict::Inconclusive);
    assert!(trial.why.contains("guard rail") && !trial.kept, "{}", trial.why);
    assert!(notes.iter().any(|note| note.contains("the old setting is back")), "{notes:?}");
    // Some seconds to look, some to see it, some to see that it is over.
    assert!(begun.elapsed() < Duration::from_secs(BLOCK_S), "the block went on");
    let loops = server.ask("SELECT @@GLOBAL.innodb_sync_spin_loops").await.unwrap();
    assert_eq!(loops.as_deref(), Some("30"));
}

#[tokio::test]
async fn a_block_that_is_not_over_when_the_time_is_up_is_broken_off_and_the_old_setting_comes_back() {
    let server = server(Which::Mariadb).await;
    let _load = load(&server, Workload::OltpPointSelect, 8);
    let mut writer = writer(&server, Also::Nothing).await;
    let candidate = spin(&[("innodb_sync_spin_loops", "30", "31")], &server);
    let mut meter = meter(&server).await;
    let (_stop, stopped) = watch::channel(false);
    let mut report = |_: Event<'_>| {};
    let look = Duration::from_secs(3);
    let mut bench = Bench::open(&mut meter, &mut writer, look, stopped, &mut report).await.unwrap();
    let begun = Instant::now();
    // The trial has more time than its bench.
    bench.end_at(begun + Duration::from_secs(4));
    let until = begun + Duration::from_secs(600);
    let Tried { trial, ended } =
        run(&mut bench, &candidate, &times(500, 60_000), &Terms::default(), until, &mut |_| 0).await;
    assert!(matches!(ended, Some(Ended::TimeUp)), "{ended:?}");
    assert!(trial.verdict == Verdict::Inconclusive && trial.why.contains("--max-time"), "{}", trial.why);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let loops = server.ask("SELECT @@GLOBAL.innodb_sync_spin_loops").await.unwrap();
    assert_eq!(loops.as_deref(), Some("30"));
}

#[tokio::test]
async fn a_server_that_answers_nothing_gets_its_old_setting_back_within_the_block() {
    let server = server(Which::Mysql).await;
    let _load = load(&server, Workload::OltpPointSelect, 8);
    // What the meter asks goes through here, and stays here once the new setting is there.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut target = Target::new(
        Endpoint::Tcp { host: "127.0.0.1".into(), port: listener.local_addr().unwrap().port() },
        "spindoctor",
    )
    .with_password("spindoctor".into());
    target.tls.mode = SslMode::Disabled;
    // The server is the test's own.
    target.trust.get_server_public_key = true;
    let port = server.port();
    let (hang, hangs) = watch::channel(false);
    let _passes = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut hangs = hangs.clone();
            tokio::spawn(async move {
                let mut client = client;
                let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let is_cut = async { while !*hangs.borrow() && hangs.changed().await.is_ok() {} };
                let passed = tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => true,
                    () = is_cut => false,
                };
                if !passed {
                    // Both ends stay open, and nobody hears anything.
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
            });
        }
    });
    let mut meter = Meter::connect(&target, None).await.unwrap();
    let mut writer = writer(&server, Also::Hang(hang)).await;
    let candidate = spin(&[("innodb_sync_spin_loops", "30", "31")], &server);
    let (_stop, stopped) = watch::channel(false);
    let mut notes = Vec::new();
    let mut report = |event: Event<'_>| {
        if let Event::Note(what) = event {
            notes.push(what.to_owned());
        }
    };
    let look = Duration::from_secs(3);
    let mut bench = Bench::open(&mut meter, &mut writer, look, stopped, &mut report).await.unwrap();
    let begun = Instant::now();
    let until = begun + Duration::from_secs(600);
    let Tried { ended, .. } =
        run(&mut bench, &candidate, &times(500, 60_000), &Terms::default(), until, &mut |_| 0).await;
    match &ended {
        Some(Ended::Tripped(trip)) => assert_eq!(trip.rail, Rail::Silence),
        other => panic!("{other:?} {notes:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let loops = server.ask("SELECT @@GLOBAL.innodb_sync_spin_loops").await.unwrap();
    assert_eq!(loops.as_deref(), Some("30"));
}

#[tokio::test]
async fn a_load_that_pauses_spoils_one_quad_and_no_trial() {
    let server = server(Which::Mariadb).await;
    let first = load(&server, Workload::OltpPointSelect, 8);
    let mut writer = writer(&server, Also::Nothing).await;
    let candidate = spin(&[("innodb_sync_spin_loops", "30", "30")], &server);
    let pausing = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        first.stop().await;
        // Longer than a setting would be blamed for after the old one is back.
        tokio::time::sleep(Duration::from_secs(18)).await;
        load(&server, Workload::OltpPointSelect, 8)
    };
    let ((Tried { trial, ended }, notes), _load) =
        tokio::join!(trial(&server, &mut writer, &candidate, times(100, 500), 37), pausing);
    assert!(ended.is_none(), "{ended:?}");
    assert!(trial.quads >= 2, "{}", trial.why);
    // It goes on after the pause, in which nothing is measured.
    let went_on = trial.blocks.iter().any(|block| block.at_s > 20.0 && block.left_out.is_none());
    assert!(went_on, "{:#?}", trial.blocks);
    assert!(trial.notes.iter().any(|note| note.contains("was left out")), "{:?} {notes:?}", trial.notes);
    // MariaDB has no histogram of all statements: said, not made up.
    assert_eq!(trial.effect.p95, None);
    assert!(
        trial.notes.iter().any(|note| note.contains("95th percentile is not compared")),
        "{:?}",
        trial.notes
    );
}

/// Of a server that has nothing to do.
mod calm {
    use super::*;

    #[tokio::test]
    async fn a_server_without_load_is_reported_to_have_none() {
        let server = server(Which::Mysql).await;
        let mut meter = meter(&server).await;
        let mut writer = writer(&server, Also::Nothing).await;
        let (_stop, stopped) = watch::channel(false);
        let mut report = |_: Event<'_>| {};
        let opened = Bench::open(&mut meter, &mut writer, Duration::from_secs(2), stopped, &mut report).await;
        assert!(matches!(opened.unwrap_err(), Ended::LoadGone { .. }));
    }
}
