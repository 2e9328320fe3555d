//! The connection against real servers: every way in, every refusal, and a server that hangs.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::time::Duration;

use spindoctor_collect::host::find_server;
use spindoctor_collect::mysql::{
    ConnectError, Endpoint, Limits, QueryError, Session, SslMode, Target, connect_writer,
};
use spindoctor_lab::storm::{StormOptions, storm};
use spindoctor_lab::{Home, Server, Which};

use super::set_up::server;

fn by_socket(server: &Server, user: &str) -> Target {
    Target::new(Endpoint::Socket(server.socket().to_owned()), user)
}

fn by_tcp(server: &Server, user: &str, password: &str, mode: SslMode) -> Target {
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".into(), port: server.port() };
    let mut target = Target::new(endpoint, user).with_password(password.into());
    target.tls.mode = mode;
    target
}

/// Generous: these tests share two cores with builds.
const LIMITS: Limits = Limits { connect: Duration::from_secs(30), query: Duration::from_secs(20) };

async fn connect(target: &Target) -> Session {
    Session::connect(target, &LIMITS).await.unwrap()
}

async fn refused(target: &Target) -> ConnectError {
    let error = Session::connect(target, &LIMITS).await.unwrap_err();
    assert!(!error.to_string().contains('\n'), "one line: {error}");
    error
}

async fn cell(session: &mut Session, sql: &str) -> String {
    let rows = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.first().and_then(|row| row.at(0)).unwrap_or_default().to_owned()
}

/// What both flavors promise of a session.
async fn is_harmless_and_tagged(which: Which) {
    let server = server(
        which,
        &["--slow-query-log=ON", "--long-query-time=0", "--log-output=TABLE", "--general-log=ON"],
    )
    .await;
    let mut session = connect(&by_socket(&server, "root")).await;
    assert_eq!(session.notes(), [""; 0], "no setting was refused");
    assert_eq!(session.version(), Some(server.version()));
    assert_eq!(session.cost().queries, 2, "connecting asks no more than the two setup statements");

    let id = session.connection_id();
    assert_eq!(cell(&mut session, "SELECT CONNECTION_ID()").await, id.to_string());
    let sql = format!("SELECT info FROM information_schema.processlist WHERE id = {id}");
    assert!(cell(&mut session, &sql).await.starts_with("/* spindoctor */ SELECT info"));
    let said = server
        .ask(&format!("SELECT COUNT(*) FROM mysql.general_log WHERE thread_id = {id} AND command_type = 'Query' AND argument NOT LIKE '/* spindoctor */%'"))
        .await
        .unwrap();
    assert_eq!(said.as_deref(), Some("0"), "every statement is tagged");
    let said = server
        .ask(&format!(
            "SELECT COUNT(*) FROM mysql.general_log WHERE thread_id = {id} AND command_type = 'Query'"
        ))
        .await
        .unwrap();
    assert_eq!(said.as_deref(), Some("4"));
    // With long_query_time = 0 the question that comes before the settings is logged, and no other.
    let slow = format!(
        "SELECT COUNT(*) FROM mysql.slow_log WHERE thread_id = {id} AND sql_text NOT LIKE '%@@version%'"
    );
    assert_eq!(server.ask(&slow).await.unwrap().as_deref(), Some("0"), "the slow log is left alone");

    let error = session.query("CREATE TABLE sbtest.x (i INT)").await.unwrap_err();
    assert!(matches!(error, QueryError::Server { code: 1792, .. }), "read only: {error:?}");
    let error = session.query("SELECT * FROM mysql.no_such_table").await.unwrap_err();
    assert!(matches!(error, QueryError::Unsupported { code: 1146, .. }), "{error:?}");
    assert_eq!(cell(&mut session, "SELECT X'61ff62'").await, "a\u{fffd}b");
    assert_eq!(session.query("SELECT NULL").await.unwrap().first().unwrap().at(0), None);

    server.execute(["CREATE TABLE sbtest.held (i INT) ENGINE=InnoDB"]).await.unwrap();
    let mut holder = server.connect().await.unwrap();
    mysql_async::prelude::Queryable::query_drop(&mut holder, "LOCK TABLES sbtest.held WRITE").await.unwrap();
    let error = session.query("SELECT * FROM sbtest.held").await.unwrap_err();
    assert!(matches!(error, QueryError::LockWait { .. }), "{error:?}");
    drop(holder);

    let mut app = connect(&by_socket(&server, "app")).await;
    assert_eq!(app.notes(), [""; 0], "an ordinary account may set all of it");
    let error = app.query("SHOW ENGINE INNODB STATUS").await.unwrap_err();
    assert!(matches!(error, QueryError::Denied { code: 1227, .. }), "{error:?}");
    app.close().await;
    session.close().await;
}

#[tokio::test]
async fn a_session_on_mysql_is_harmless_and_tagged() {
    is_harmless_and_tagged(Which::Mysql).await;
}

#[tokio::test]
async fn a_session_on_mariadb_is_harmless_and_tagged() {
    is_harmless_and_tagged(Which::Mariadb).await;
}

/// The signal is sent when `pause` returns; each thread stops when it next leaves the kernel.
fn wait_until_stopped(pid: u32) {
    let stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // Format is like `4310 (mysqld) T 1 ...`
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    while !tasks().all(|task| stopped(task.unwrap())) {
        std::thread::yield_now();
    }
}

/// A server that is stopped, a statement that runs too long, a server that goes away.
async fn never_hangs(which: Which) {
    let server = server(which, &[]).await;
    let target = by_socket(&server, "root");
    let short = Limits { connect: Duration::from_secs(30), query: Duration::from_secs(2) };
    let mut session = Session::connect(&target, &short).await.unwrap();
    let all = "information_schema.collations";
    let endless = format!("SELECT COUNT(*) FROM {all} a, {all} b, {all} c, {all} d, {all} e");
    let error = session.query(&endless).await.unwrap_err();
    assert_eq!(error, QueryError::TooLong { after: short.query });
    assert_eq!(cell(&mut session, "SELECT 1").await, "1", "the session lives on");

    server.pause(true);
    wait_until_stopped(server.pid());
    let error = session.query("SELECT 1").await.unwrap_err();
    assert_eq!(error, QueryError::NoAnswer { after: short.query });
    assert!(session.is_broken(), "a session goes on whose server did not answer");
    assert_eq!(session.query("SELECT 1").await.unwrap_err(), QueryError::Broken);
    let impatient = Limits { connect: Duration::from_millis(200), ..short };
    for target in [target.clone(), by_tcp(&server, "spindoctor", "spindoctor", SslMode::Preferred)] {
        let error = Session::connect(&target, &impatient).await.unwrap_err();
        assert!(matches!(error, ConnectError::Silent { .. }), "{error:?}");
        assert_eq!(find_server::find(&target), Ok(server.pid()), "a stopped server is found");
    }
    server.pause(false);
    let mut session = connect(&target).await;
    assert_eq!(cell(&mut session, "SELECT 1").await, "1");

    server.stop().unwrap();
    let error = session.query("SELECT 1").await.unwrap_err();
    assert!(matches!(error, QueryError::Gone { .. }), "{error:?}");
    assert!(session.is_broken(), "a session goes on whose server is gone");
    session.close().await;
}

#[tokio::test]
async fn a_session_on_mysql_never_hangs() {
    never_hangs(Which::Mysql).await;
}

#[tokio::test]
async fn a_session_on_mariadb_never_hangs() {
    never_hangs(Which::Mariadb).await;
}

/// Questions that hang keep their connections on the server: no more than five of ours do, however often it is tried again.
#[tokio::test]
async fn a_server_that_hangs_is_not_filled_with_connections() {
    let server = server(Which::Mysql, &[]).await;
    let target = by_socket(&server, "root");
    let short = Limits { connect: Duration::from_secs(30), query: Duration::from_millis(300) };
    let patient = Limits { query: Duration::from_secs(5), ..short };
    let sleepers = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%DO SLEEP%' AND ID <> CONNECTION_ID()";
    let mut other = Session::connect(&by_socket(&server, "root"), &patient).await.unwrap();
    for _ in 0..5 {
        let mut session = Session::connect(&target, &short).await.unwrap();
        // No SELECT, which the server ends by itself.
        let error = session.query("DO SLEEP(6)").await.unwrap_err();
        assert_eq!(error, QueryError::NoAnswer { after: short.query });
    }
    for _ in 0..5 {
        let impatient = Limits { connect: Duration::from_millis(100), ..short };
        let error = Session::connect(&target, &impatient).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unanswered { questions: 5, .. }), "{error:?}");
        assert_eq!(cell(&mut other, sleepers).await, "5");
    }
    // They end, and it goes on by itself.
    let mut session = Session::connect(&target, &patient).await.unwrap();
    assert_eq!(cell(&mut session, "SELECT 1").await, "1");
}

/// So it is with those who write; what readers wait for does not keep them from it.
#[tokio::test]
async fn a_server_that_hangs_is_not_filled_by_writers_and_their_room_is_their_own() {
    let server = server(Which::Mysql, &[]).await;
    let target = by_socket(&server, "root");
    let impatient = Limits { connect: Duration::from_millis(500), query: Duration::from_millis(300) };
    for _ in 0..5 {
        let mut session = Session::connect(&target, &impatient).await.unwrap();
        session.query("DO SLEEP(6)").await.unwrap_err();
    }
    let is_full = |error: ConnectError| matches!(error, ConnectError::Unanswered { questions: 5, .. });
    assert!(
        is_full(Session::connect(&target, &impatient).await.unwrap_err()),
        "a sixth reader is let in beside five questions that hang"
    );
    for _ in 0..5 {
        let mut writing = connect_writer(&target, &impatient).await.unwrap();
        assert!(tokio::time::timeout(impatient.query, writing.query("DO SLEEP(6)")).await.is_err());
        writing.give_up();
    }
    assert!(
        is_full(connect_writer(&target, &impatient).await.err().unwrap()),
        "a sixth writer is let in beside five questions that hang"
    );
    // They end, and it goes on by itself.
    let patient = Limits { connect: Duration::from_secs(30), ..impatient };
    let mut writing = connect_writer(&target, &patient).await.unwrap();
    assert_eq!(writing.query("SELECT 1").await.unwrap(), [[Some("1".to_owned())]]);
}

/// Wrong passwords and a full server.
async fn distinguishes_refusals(which: Which) {
    let server = server(which, &["--max-connections=10"]).await;
    let error = refused(&by_tcp(&server, "spindoctor", "topsecret", SslMode::Preferred)).await;
    assert!(matches!(error, ConnectError::Denied { code: 1045, .. }), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("topsecret"));
    let error = refused(&by_socket(&server, "nobody")).await;
    // MySQL pretends a plugin, drawn by lot, for an account that does not exist.
    let denied = matches!(error, ConnectError::Denied { .. });
    assert!(denied || error.to_string().contains("does not exist"), "{error:?}");

    let target = by_socket(&server, "app");
    let mut sessions = Vec::new();
    let error = loop {
        match Session::connect(&target, &LIMITS).await {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ConnectError::TooManyConnections { .. }), "{error:?}");
    assert!((8..=10).contains(&sessions.len()), "{}", sessions.len());
}

#[tokio::test]
async fn mysqls_refusals_are_distinguished() {
    distinguishes_refusals(Which::Mysql).await;
}

#[tokio::test]
async fn mariadbs_refusals_are_distinguished() {
    distinguishes_refusals(Which::Mariadb).await;
}

#[tokio::test]
async fn every_tls_mode_means_what_mysql_means_by_it() {
    let server = server(Which::Mysql, &[]).await;
    let with = |mode| by_tcp(&server, "spindoctor", "spindoctor", mode);
    // The first login cannot be answered from the server's cache: without TLS nobody has proved who he is. Each target is a
    // new one: those that share a refusal do not try again.
    let open = || with(SslMode::Disabled);
    let error = refused(&open()).await;
    assert!(error.to_string().contains("--server-public-key-path"), "{error}");
    let pinned = |file| {
        let mut target = open();
        target.trust.server_public_key = Some(server.data().join(file));
        target
    };
    // The key of a certificate is none of the server's own.
    let error = refused(&pinned("client-key.pem")).await;
    assert!(error.to_string().contains("client-key.pem"), "{error}");
    let mut session = connect(&pinned("public_key.pem")).await;
    assert!(!session.is_encrypted(), "it is encrypted without TLS");
    // From here on the cache answers, with or without TLS.
    assert!(!connect(&open()).await.is_encrypted(), "it is encrypted without TLS");
    let flush = "GRANT RELOAD ON *.* TO spindoctor@'127.0.0.1'";
    server.execute([flush, "FLUSH PRIVILEGES"]).await.unwrap();
    session.query("SELECT 1").await.unwrap();
    assert!(
        matches!(refused(&open()).await, ConnectError::PasswordWithheld { .. }),
        "the cache is empty again"
    );
    let mut any = open();
    any.trust.get_server_public_key = true;
    assert!(!connect(&any).await.is_encrypted(), "it is encrypted without TLS");
    server.execute(["FLUSH PRIVILEGES"]).await.unwrap();
    for mode in [SslMode::Preferred, SslMode::Required] {
        let mut session = connect(&with(mode)).await;
        assert!(session.is_encrypted() && session.notes().is_empty(), "{mode:?}: {:?}", session.notes());
        let cipher = session.query("SHOW STATUS LIKE 'Ssl_cipher'").await.unwrap();
        assert!(!cipher.first().unwrap().string("Value").is_empty());
    }
    let error = refused(&with(SslMode::VerifyCa)).await;
    assert!(matches!(error, ConnectError::Tls { .. }), "its authority is not public: {error:?}");
    let mut verified = with(SslMode::VerifyCa);
    verified.tls.ca = Some(server.data().join("ca.pem"));
    assert!(connect(&verified).await.is_encrypted(), "it is in clear beside a verified certificate");
    verified.tls.mode = SslMode::VerifyIdentity;
    let error = refused(&verified).await;
    assert!(error.to_string().contains("subjectAltName"), "{error}");
    let mut mutual = with(SslMode::VerifyCa);
    mutual.tls.ca = Some(server.data().join("ca.pem"));
    mutual.tls.cert = Some(server.data().join("client-cert.pem"));
    mutual.tls.key = Some(server.data().join("client-key.pem"));
    assert!(connect(&mutual).await.is_encrypted(), "it is in clear beside certificates of both sides");
}

/// A key of the user's is used before TLS that nobody verified, and no other; the session is encrypted all the same.
#[tokio::test]
async fn with_tls_that_proves_nothing_the_password_goes_by_the_users_key() {
    let server = server(Which::Mysql, &[]).await;
    let mut target = by_tcp(&server, "spindoctor", "spindoctor", SslMode::Preferred);
    target.trust.server_public_key = Some(server.data().join("public_key.pem"));
    assert!(connect(&target).await.is_encrypted(), "it is in clear with a key of the user's");
}

/// MariaDB's way of login by a signature.
#[tokio::test]
async fn an_account_of_mariadbs_ed25519_logs_in() {
    let server = server(Which::Mariadb, &[]).await;
    let account = [
        "INSTALL SONAME 'auth_ed25519'",
        "CREATE USER signer@'127.0.0.1' IDENTIFIED VIA ed25519 USING PASSWORD('secret')",
    ];
    if let Err(error) = server.execute(account).await {
        eprintln!("not run: this MariaDB has no auth_ed25519: {error}");
        return;
    }
    connect(&by_tcp(&server, "signer", "secret", SslMode::Preferred)).await;
    let error = refused(&by_tcp(&server, "signer", "wrong", SslMode::Preferred)).await;
    assert!(matches!(error, ConnectError::Denied { code: 1045, .. }), "{error:?}");
}

/// The files were made by `openssl req -new` and `openssl x509 -req -signkey`, for a hundred years.
#[tokio::test]
async fn a_certificate_of_version_1_encrypts_and_keeps_out_who_wants_it_verified() {
    let file = |name| format!("{}/tests/x509v1/{name}", env!("CARGO_MANIFEST_DIR"));
    let options = [format!("--ssl-cert={}", file("cert.pem")), format!("--ssl-key={}", file("key.pem"))];
    let server = server(Which::Mysql, &options.each_ref().map(String::as_str)).await;
    let session = connect(&by_tcp(&server, "spindoctor", "spindoctor", SslMode::Preferred)).await;
    assert!(session.is_encrypted() && session.notes().is_empty(), "{:?}", session.notes());
    let mut verified = by_tcp(&server, "spindoctor", "spindoctor", SslMode::VerifyCa);
    verified.tls.ca = Some(file("cert.pem").into());
    let error = refused(&verified).await;
    assert!(error.to_string().contains("X.509 v3"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_reached_in_clear_unless_tls_is_demanded() {
    let server = server(Which::Mariadb, &[]).await;
    let with = |mode| by_tcp(&server, "spindoctor", "spindoctor", mode);
    assert!(
        !connect(&with(SslMode::Preferred)).await.is_encrypted(),
        "it is encrypted where the server has no TLS"
    );
    for mode in [SslMode::Required, SslMode::VerifyCa] {
        let error = refused(&with(mode)).await;
        assert!(matches!(error, ConnectError::TlsNotOffered { .. }), "{error:?}");
    }
    assert_eq!(find_server::find(&with(SslMode::Disabled)), Ok(server.pid()));
    assert_eq!(find_server::find(&by_socket(&server, "root")), Ok(server.pid()));
}

#[tokio::test]
async fn a_storm_that_a_server_sustains_is_reported_with_what_there_was_no_time_for() {
    let options = StormOptions {
        which: Which::Mariadb,
        rate: Some(40.0),
        round: Duration::from_millis(500),
        // The first setting is tried whatever it takes.
        max_time: Duration::from_millis(1),
    };
    let came = storm(&Home::open().unwrap(), &options, &|_| ()).await.unwrap();
    assert!(came.server.starts_with("MariaDB"), "{came:?}");
    assert_eq!((came.settings.len(), came.not_tried.last()), (1, Some(&"pool-of-threads")), "{came:?}");
    let tried = &came.settings[0];
    assert_eq!((tried.rounds.len(), tried.is_complete), (1, true), "{tried:?}");
    let round = &tried.rounds[0];
    assert!((10..=20).contains(&round.due) && round.in_time > 0, "{round:?}");
    assert!(round.idle_cpu_ratio <= 1.0 && round.clients_cpu_ratio < 1.0, "{round:?}");
}
