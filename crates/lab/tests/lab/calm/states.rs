//! What threads of real servers do, by their stacks: each thread is brought into a known state first.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use spindoctor_lab::{Data, Home, Limits, Server, ServerSpec, Which};
use spindoctor_model::Profile;
use spindoctor_model::stack::{StackSource, ThreadState};
use spindoctor_stacks::aggregate::frame_names;
use spindoctor_stacks::{Error, Profiler, ProfilerOptions, Taken};

use super::set_up::{server, shop};

/// How long a busy machine may take to bring a thread into its state.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection, and the id of the thread that serves it.
async fn connection(server: &Server) -> (Conn, u32) {
    let mut connection = server.connect().await.unwrap();
    let question = if server.version().is_mariadb() {
        "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
    } else {
        "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
    };
    let thread = connection.query_first(question).await.unwrap().unwrap();
    (connection, thread)
}

/// Begins a statement that will wait.
async fn begin(server: &Server, statement: &'static str) -> u32 {
    let (mut connection, thread) = connection(server).await;
    tokio::spawn(async move { connection.query_drop(statement).await });
    thread
}

/// None, and says why, where the machine does not let us.
fn profiler(server: &Server, source: StackSource) -> Option<Profiler> {
    let options = ProfilerOptions {
        source: Some(source),
        hz: 100.0,
        frames: spindoctor_rules::FRAME_STATES,
        ..ProfilerOptions::default()
    };
    match Profiler::start(server.pid(), options) {
        Ok(profiler) => Some(profiler),
        Err(error @ Error::Unavailable { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The state of a thread in the newest snapshot, and its stack.
fn state(profile: &Profile, tid: u32) -> Option<(ThreadState, String)> {
    let newest = u32::try_from(profile.snapshots.len()).unwrap().checked_sub(1)?;
    let observation = profile
        .observations
        .iter()
        .find(|one| one.snapshot == newest && profile.threads[one.thread as usize].tid == tid)?;
    Some((observation.state, frame_names(profile, observation.stack).join(" < ")))
}

async fn shows_what_threads_wait_for(which: Which, source: StackSource) {
    let server = server(which.clone(), &[]).await;
    shop(&server).await;
    let (mut holder, holding) = connection(&server).await;
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("UPDATE shop.stock SET n = 9 WHERE id = 1").await.unwrap();
    // MariaDB exports no function of InnoDB: that it waits is seen, not what for.
    let row_lock = match which {
        Which::Mariadb => ThreadState::Condition,
        _ => ThreadState::Lock,
    };
    let expected = [
        ("idle in a transaction", holding, ThreadState::NetworkIdle),
        ("SLEEP()", begin(&server, "SELECT SLEEP(600)").await, ThreadState::Sleep),
        ("a row lock", begin(&server, "UPDATE shop.stock SET n = 8 WHERE id = 1").await, row_lock),
        ("a metadata lock", begin(&server, "ALTER TABLE shop.stock ADD m INT").await, ThreadState::Lock),
    ];
    let Some(mut profiler) = profiler(&server, source) else { return };
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)), "no snapshot was taken");
        let profile = profiler.profile();
        let found: Vec<_> =
            expected.iter().map(|(what, tid, state_)| (what, state_, state(&profile, *tid))).collect();
        if found
            .iter()
            .all(|(_, expected, found)| found.as_ref().is_some_and(|(state, _)| state == *expected))
        {
            break;
        }
        assert!(Instant::now() < deadline, "{found:#?}\n{:?}", profile.notes);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if source == StackSource::Bpf {
        server.pause(true);
        loop {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)), "no snapshot was taken");
            let profile = profiler.profile();
            let found = expected.map(|(_, tid, _)| state(&profile, tid).map(|(state, _)| state));
            if found == [Some(ThreadState::Stopped); 4] {
                break;
            }
            assert!(Instant::now() < deadline, "{found:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.pause(false);
    }
}

#[tokio::test]
async fn mysql_s_threads_show_what_they_wait_for() {
    shows_what_threads_wait_for(Which::Mysql, StackSource::Bpf).await;
}

#[tokio::test]
async fn mysql_s_threads_show_what_they_wait_for_without_bpf() {
    shows_what_threads_wait_for(Which::Mysql, StackSource::Procfs).await;
}

#[tokio::test]
async fn mariadb_s_threads_show_what_they_wait_for() {
    shows_what_threads_wait_for(Which::Mariadb, StackSource::Bpf).await;
}

/// Somebody commits all the time, on a slow disk, until a snapshot sees a thread in fsync or
/// fdatasync.
#[tokio::test]
async fn a_commit_that_waits_for_the_disk_is_a_sync() {
    let limits = Limits { writes: true, ..Limits::default() };
    let spec = ServerSpec { data: Data::Disk, limits, ..ServerSpec::default() };
    let home = Home::open().unwrap();
    let server = Server::start(&home, &spec, &|line| println!("{line}")).await.unwrap();
    server
        .execute(["CREATE DATABASE shop", "CREATE TABLE shop.stock (n INT) ENGINE = InnoDB"])
        .await
        .unwrap();
    server.limit_writes(Some(150)).unwrap();
    let (mut writer, _) = connection(&server).await;
    let writing =
        tokio::spawn(
            async move { while writer.query_drop("INSERT INTO shop.stock VALUES (1)").await.is_ok() {} },
        );
    let Some(mut profiler) = profiler(&server, StackSource::Bpf) else { return };
    let deadline = Instant::now() + PATIENCE;
    let profile = loop {
        tokio::time::sleep(profiler.interval()).await;
        assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)), "no snapshot was taken");
        let profile = profiler.profile();
        if profile.observations.iter().any(|one| one.state == ThreadState::Sync) {
            break profile;
        }
        assert!(Instant::now() < deadline, "no sync in {} snapshots", profile.snapshots.len());
    };
    writing.abort();
    let sync = profile.observations.iter().find(|one| one.state == ThreadState::Sync).unwrap();
    let names = frame_names(&profile, sync.stack);
    assert!(names.iter().any(|name| ["fsync", "fdatasync"].contains(name)), "{names:?}");
}
