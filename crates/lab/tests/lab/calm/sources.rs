//! Every source against real servers: it answers root, and gives everybody else the GRANT that enables it.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use spindoctor_collect::host::HostChoice;
use spindoctor_collect::mysql::{ConnectError, Endpoint, Limits, Plan, SOURCES, Source, Target};
use spindoctor_collect::source::Cadence;
use spindoctor_collect::watch::{Progress, WatchError, WatchOptions, watch};
use spindoctor_lab::{Server, Which};
use spindoctor_model::{NoSessionKind, Outcome, ServerSample, Unavailable, Window};

use super::set_up::{holder, server, shop};

/// Longer than a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

fn target(server: &Server, user: &str) -> Target {
    let mut target = Target::new(Endpoint::Socket(server.socket().to_owned()), user);
    target.limits = Limits { connect: PATIENCE, query: PATIENCE };
    target
}

fn without_host(seconds: f64) -> WatchOptions {
    let host = HostChoice::None { because: Unavailable::because("this test reads the server only") };
    WatchOptions { host, ..WatchOptions::lasting(Duration::from_secs_f64(seconds)) }
}

async fn window(server: &Server, user: &str, seconds: f64) -> Window {
    watch(&target(server, user), &without_host(seconds), &mut |_| ()).await.unwrap()
}

/// Each source's own field: whether it has the answer, and why not.
fn answered(source: &Source, window: &Window) -> bool {
    window.samples.iter().any(|sample| source.is_answered(&sample.server))
}

/// Why the readings without an answer have none.
fn refusals(sample: &ServerSample) -> Vec<(&'static str, Unavailable)> {
    let readings = sample.readings();
    let refused = readings.filter_map(|(about, reading)| match reading.outcome() {
        Outcome::Unavailable(why) => Some((about.name, why.clone())),
        _ => None,
    });
    refused.collect()
}

fn assert_every_source_answered(window: &Window) {
    let refused: Vec<_> = SOURCES.iter().filter(|source| !answered(source, window)).map(|s| s.name).collect();
    assert!(refused.is_empty(), "{refused:?}: {:?}", refusals(&window.samples[0].server));
    let last = &window.samples.last().unwrap().server;
    assert!(refusals(last).is_empty(), "{:?}", refusals(last));
    assert!(last.variables.value().is_none(), "variables are read once");
    assert!(
        window.server.own_connection_id.is_some() && window.server.uptime_s.is_some(),
        "{:?}",
        window.server
    );
    let cost = window.cost;
    assert!(cost.server_queries > 0 && cost.server_busy_ms > 0.0 && cost.own_cpu_ms > 0.0, "{cost:?}");
}

/// The advice that a user without any right gets, and that the advised GRANTs enable all of it.
async fn grants_unlock(server: &Server, open_to_all: &[&str]) {
    server.execute(["CREATE USER nobody@localhost"]).await.unwrap();
    let before = window(server, "nobody", 0.1).await;
    let refused = refusals(&before.samples[0].server);
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    for name in
        ["innodb_status", "innodb_metrics", "threads", "transactions", "row_lock_waits", "replication"]
    {
        assert!(names.contains(&name), "{name} was open to all: {names:?}");
    }
    for name in open_to_all {
        assert!(!names.contains(name), "{refused:?}");
    }
    let unlock: Vec<String> = refused
        .iter()
        .map(|(name, why)| why.unlock.clone().unwrap_or_else(|| panic!("{name}: {why:?}")))
        .filter(|unlock| unlock.starts_with("GRANT"))
        .collect();
    for grant in &unlock {
        assert!(grant.ends_with("TO 'nobody'@'localhost'"), "{grant}");
    }
    server.execute(unlock).await.unwrap();
    let after = window(server, "nobody", 0.1).await;
    let denied: Vec<_> = refusals(&after.samples[0].server)
        .into_iter()
        .filter(|(_, why)| why.unlock.as_deref().is_some_and(|unlock| unlock.starts_with("GRANT")))
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
}

#[tokio::test]
async fn every_source_of_mysql_answers_and_every_refusal_names_its_grant() {
    let server = server(Which::Mysql, &[]).await;
    let root = window(&server, "root", 1.2).await;
    // MariaDB's own, and those that MySQL 8.0 put away.
    let of_others: Vec<_> = SOURCES
        .iter()
        .filter(|source| matches!((source.plan)(server.version(), None), Plan::Elsewhere))
        .map(|source| source.name)
        .collect();
    assert_eq!(
        of_others,
        [
            "information_schema.INNODB_LOCKS",
            "information_schema.METADATA_LOCK_INFO",
            "information_schema.USER_STATISTICS",
        ]
    );
    assert_every_source_answered(&root);
    let threads = root.latest(|sample| &sample.server.threads).unwrap();
    assert!(threads.iter().any(|thread| thread.name == "thread/innodb/page_flush_coordinator_thread"));
    assert!(
        threads.iter().all(|thread| thread.thread_os_id.is_some()),
        "a thread has no id of the kernel: {threads:?}"
    );
    assert!(
        threads.iter().all(|thread| thread.connection_id != root.server.own_connection_id),
        "its own connection is listed: {threads:?}"
    );
    let queries = root.samples[1].server.status.value().unwrap().number("Queries").unwrap();
    assert!(queries > root.samples[0].server.status.value().unwrap().number("Queries").unwrap());
    grants_unlock(&server, &["status", "variables"]).await;
}

#[tokio::test]
async fn every_source_of_mariadb_answers_and_every_refusal_names_its_grant() {
    let server = server(Which::Mariadb, &["--performance-schema=ON"]).await;
    server
        .execute([
            "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'",
        ])
        .await
        .unwrap();
    assert_every_source_answered(&window(&server, "root", 1.2).await);
    grants_unlock(&server, &["status", "variables"]).await;
}

#[tokio::test]
async fn mariadb_as_it_is_installed_says_what_would_unlock_the_rest() {
    let server = server(Which::Mariadb, &["--performance-schema=OFF"]).await;
    let window = window(&server, "root", 0.1).await;
    let refused = refusals(&window.samples[0].server);
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let expected =
        ["digests", "errors", "waits", "log_files", "metadata_locks", "last_statements", "accounts"];
    assert_eq!(names, expected);
    let unlock = |at: usize| refused[at].1.unlock.as_deref().unwrap();
    assert!(unlock(0).contains("performance_schema = ON"), "{refused:?}");
    assert_eq!(unlock(4), "INSTALL SONAME 'metadata_lock_info'");
}

/// Takes windows until one shows what is waited for: statements need a moment to begin to wait.
async fn until<T>(server: &Server, sees: impl Fn(&ServerSample) -> Option<T>) -> T {
    let patience = Instant::now() + PATIENCE;
    loop {
        let window = window(server, "root", 0.1).await;
        let sample = &window.samples.last().unwrap().server;
        if let Some(seen) = sees(sample) {
            return seen;
        }
        assert!(Instant::now() < patience, "{:?} {:?}", sample.row_lock_waits, sample.metadata_locks);
    }
}

/// Who waits for whom, as the sources see it while a transaction holds a row and a table.
async fn sees_a_row_lock_and_a_metadata_lock(server: &Server) {
    shop(server).await;
    let (mut holder, id) = holder(server, &["BEGIN", "UPDATE shop.stock SET n = 9 WHERE id = 1"]).await;
    let holder_id = Some(id);

    let mut waiter = server.connect().await.unwrap();
    let waiter_id = Some(u64::from(waiter.id()));
    let update = "UPDATE shop.stock SET n = 8 WHERE id = 1";
    let update = tokio::spawn(async move { waiter.query_drop(update).await });
    let wait = until(server, |sample| sample.row_lock_waits.value()?.first().cloned()).await;
    assert_eq!((wait.waiting_connection_id, wait.blocking_connection_id), (waiter_id, holder_id));
    assert_eq!(
        (wait.table.as_str(), wait.index.as_str(), wait.record.as_str()),
        ("shop.stock", "PRIMARY", "1")
    );
    assert!(wait.mode.starts_with('X'), "{wait:?}");

    let mut waiter = server.connect().await.unwrap();
    let waiter_id = Some(u64::from(waiter.id()));
    let alter = tokio::spawn(async move { waiter.query_drop("ALTER TABLE shop.stock ADD m INT").await });
    let (locks, transactions) = until(server, |sample| {
        let locks = sample.metadata_locks.value()?;
        locks.iter().any(|lock| !lock.granted).then(|| (locks.clone(), sample.transactions.value().cloned()))
    })
    .await;
    let pending = locks.iter().find(|lock| !lock.granted).unwrap();
    assert_eq!((pending.owner_connection_id, pending.lock_type.as_str()), (waiter_id, "EXCLUSIVE"));
    assert_eq!((pending.object_type.as_str(), pending.name.as_str()), ("TABLE", "stock"));
    assert!(locks.iter().any(|lock| {
        lock.granted && lock.owner_connection_id == holder_id && lock.lock_type == "SHARED_WRITE"
    }));
    let transactions = transactions.unwrap();
    let transaction = transactions.iter().find(|t| t.connection_id == holder_id);
    assert_eq!(transaction.map(|t| (t.rows_modified, t.statement.as_deref())), Some((1, None)));

    holder.query_drop("ROLLBACK").await.unwrap();
    update.await.unwrap().unwrap();
    alter.await.unwrap().unwrap();
}

#[tokio::test]
async fn mysql_shows_who_holds_the_row_and_the_table() {
    sees_a_row_lock_and_a_metadata_lock(&server(Which::Mysql, &[]).await).await;
}

/// MariaDB's performance_schema counts no statements unless it is set up to.
#[tokio::test]
async fn mysql_shows_what_an_idle_holder_of_a_row_ran_last() {
    let server = server(Which::Mysql, &[]).await;
    shop(&server).await;
    let (mut holder, id) = holder(&server, &["BEGIN", "UPDATE shop.stock SET n = 9 WHERE id = 1"]).await;
    let mut waiter = server.connect().await.unwrap();
    let update = "UPDATE shop.stock SET n = 8 WHERE id = 1";
    let update = tokio::spawn(async move { waiter.query_drop(update).await });
    let last = until(&server, |sample| {
        let last = sample.last_statements.value()?;
        last.iter().find(|last| last.connection_id == Some(id)).cloned()
    })
    .await;
    assert_eq!(last.statement, "UPDATE shop.stock SET n = 9 WHERE id = 1");
    holder.query_drop("ROLLBACK").await.unwrap();
    update.await.unwrap().unwrap();
}

#[tokio::test]
async fn mariadb_shows_who_holds_the_row_and_the_table() {
    let options =
        ["--performance-schema=ON", "--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON"];
    sees_a_row_lock_and_a_metadata_lock(&server(Which::Mariadb, &options).await).await;
}

#[tokio::test]
async fn both_vocabularies_of_replication_show_the_same() {
    for (which, change) in [
        (Which::Mysql, "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.9', SOURCE_PORT = 3399"),
        (Which::Mariadb, "CHANGE MASTER TO MASTER_HOST = '127.0.0.9', MASTER_PORT = 3399"),
    ] {
        let server = server(which, &[]).await;
        server.execute([change]).await.unwrap();
        let window = window(&server, "root", 0.1).await;
        let channels = window.latest(|sample| &sample.server.replication).unwrap();
        assert_eq!(channels.len(), 1, "{channels:?}");
        let channel = &channels[0];
        assert_eq!((channel.source_host.as_str(), channel.source_port), ("127.0.0.9", 3399));
        assert_eq!((channel.receiver_running.as_str(), channel.applier_running.as_str()), ("No", "No"));
        assert_eq!(channel.behind_s, None);
    }
}

#[tokio::test]
async fn a_server_that_stops_in_the_window_loses_its_own_readings_and_no_others() {
    let server = server(Which::Mysql, &[]).await;
    let mut target = target(&server, "root");
    target.limits = Limits { query: Duration::from_millis(1500), ..target.limits };
    let options = WatchOptions {
        host: HostChoice::Pid(server.pid()),
        every: Duration::from_millis(500),
        ..WatchOptions::lasting(Duration::from_secs(4))
    };
    let mut lost = Vec::new();
    let window = watch(&target, &options, &mut |progress| match progress {
        Progress::Sampled { number: 3, .. } => server.pause(true),
        Progress::ServerLost { because } => lost.push(because),
        _ => (),
    })
    .await
    .unwrap();
    server.pause(false);
    assert_eq!(window.samples.len(), 10);
    assert!(
        window.samples[0].server.status.value().is_some(),
        "the first sample has no answer: {:?}",
        window.samples[0].server.status
    );
    let last = &window.samples[9];
    assert!(
        last.server.status.unavailable().is_some_and(|why| why.because.contains("did not answer")),
        "{last:?}"
    );
    assert!(last.server.digests.unavailable().is_some(), "{last:?}");
    assert!(window.samples.iter().all(|sample| sample.host.process.value().is_some()), "the host goes on");
    assert_eq!(lost.len(), 1, "{lost:?}");
}

#[tokio::test]
async fn a_window_that_is_given_up_leaves_no_connection_behind() {
    let server = server(Which::Mariadb, &[]).await;
    let (target, options) = (target(&server, "app"), WatchOptions::lasting(Duration::from_secs(60)));
    let (begun, first_sample) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let mut progress = |progress| {
        if let (Progress::Connected { server }, Some(begun)) = (progress, begun.take()) {
            begun.send(server).unwrap();
        }
    };
    let found = tokio::select! {
        window = watch(&target, &options, &mut progress) => panic!("it ended: {window:?}"),
        identity = first_sample => identity.unwrap(),
    };
    assert_eq!(found.pid, Some(server.pid()), "found from its socket");
    let patience = Instant::now() + PATIENCE;
    let own = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    while server.ask(own).await.unwrap().as_deref() != Some("0") {
        assert!(Instant::now() < patience, "the connection is still there");
    }
}

#[tokio::test]
async fn a_server_that_was_stopped_before_is_read_from_the_host_alone() {
    let server = server(Which::Mariadb, &[]).await;
    server.pause(true);
    let mut target = target(&server, "root");
    target.limits.connect = Duration::from_millis(300);
    let options = WatchOptions {
        host: HostChoice::Pid(server.pid()),
        ..WatchOptions::lasting(Duration::from_millis(100))
    };
    let window = watch(&target, &options, &mut |_| ()).await.unwrap();
    let nothing = watch(&target, &without_host(0.1), &mut |_| ()).await;
    server.pause(false);
    assert_eq!(window.server.no_session.unwrap().kind, NoSessionKind::Silent);
    assert!(
        window.samples[0].host.process.value().is_some(),
        "the host is not read: {:?}",
        window.samples[0].host.process
    );
    assert!(window.samples[0].server.threads.unavailable().is_some(), "a stopped server has an answer");
    // With the host not to be read, the advice is about the connection alone.
    assert!(matches!(nothing, Err(WatchError::Connect(ConnectError::Silent { .. }))), "{nothing:?}");
}

#[tokio::test]
async fn a_full_server_is_a_reading_and_a_wrong_password_is_not() {
    let server = server(Which::Mariadb, &["--max-connections=10"]).await;
    let options = WatchOptions {
        host: HostChoice::Pid(server.pid()),
        ..WatchOptions::lasting(Duration::from_millis(100))
    };
    let stranger = watch(&target(&server, "stranger"), &options, &mut |_| ()).await;
    assert!(matches!(stranger, Err(WatchError::Connect(_))), "{stranger:?}");
    // root has one connection more than the others.
    let mut taken = Vec::new();
    while let Ok(conn) = server.connect().await {
        taken.push(conn);
    }
    let full = watch(&target(&server, "root"), &options, &mut |_| ()).await.unwrap();
    assert_eq!(full.server.no_session.unwrap().kind, NoSessionKind::TooManyConnections);
}

#[test]
fn every_source_says_what_it_costs_and_what_it_needs() {
    for source in SOURCES {
        assert!(!source.help.is_empty() && !source.cost.is_empty(), "{}", source.name);
    }
    let every_sample = SOURCES.iter().filter(|source| source.cadence == Cadence::EverySample);
    let every_sample = every_sample.count();
    assert!(every_sample >= 8, "only {every_sample} sources are read in every sample");
}
