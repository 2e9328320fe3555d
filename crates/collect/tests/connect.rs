//! The error of a connection attempt where the listener is not a server, or nothing listens.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use spindoctor_collect::mysql::{ConnectError, Endpoint, Limits, Session, SslMode, Target};

/// A target at a port of this host, with a password that no error may repeat.
fn target(port: u16) -> Target {
    let target = Target::new(Endpoint::Tcp { host: "127.0.0.1".into(), port }, "someone");
    target.with_password("topsecret".into())
}

/// Connects to a listener that does one thing with the first connection.
async fn connect_to(serve: impl FnOnce(TcpListener) + Send + 'static, limit: Duration) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = tokio::task::spawn_blocking(move || serve(listener));
    let mut target = target(port);
    target.tls.mode = SslMode::Disabled;
    let limits = Limits { connect: limit, query: limit };
    let error = Session::connect(&target, &limits).await.unwrap_err();
    served.await.unwrap();
    assert!(!format!("{error} {error:?}").contains("topsecret"));
    assert!(!error.to_string().contains('\n'), "one line: {error}");
    error
}

const PATIENT: Duration = Duration::from_secs(20);

fn answering(bytes: &'static [u8]) -> impl FnOnce(TcpListener) + Send {
    move |listener| listener.accept().unwrap().0.write_all(bytes).unwrap()
}

#[tokio::test]
async fn what_speaks_another_protocol_is_named() {
    let ssh = connect_to(answering(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), PATIENT).await;
    assert!(matches!(ssh, ConnectError::NotMysql { .. } | ConnectError::Closed { .. }), "{ssh:?}");
    for odd in [
        &b"\x01\x00\x00\x00\x0a"[..],
        b"\x01\x00\x00\x00\xff",
        b"\x05\x00\x00\x00\x0a9.7\x00",
        b"\x00\x00\x00\x00",
        b"\x10\x00\x00\x00\x0anumber without end",
    ] {
        let error = connect_to(answering(odd), PATIENT).await;
        assert!(
            matches!(
                error,
                ConnectError::NotMysql { .. } | ConnectError::Closed { .. } | ConnectError::Server { .. }
            ),
            "{odd:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn what_accepts_and_says_nothing_is_silent() {
    // The accepted connection stays open for longer than the client waits, which keeps it when it has given up.
    let silent = |listener: TcpListener| {
        let mut connection = listener.accept().unwrap().0;
        connection.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let _end = std::io::Read::read(&mut connection, &mut [0; 1]);
    };
    let error = connect_to(silent, Duration::from_millis(50)).await;
    assert!(matches!(error, ConnectError::Silent { .. }), "{error:?}");
    assert!(error.as_no_session().is_some());
}

#[tokio::test]
async fn what_closes_at_once_is_closed() {
    let error = connect_to(|listener| drop(listener.accept().unwrap()), PATIENT).await;
    assert!(matches!(error, ConnectError::Closed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_full_server_says_so_before_the_handshake() {
    let full = answering(b"\x17\x00\x00\x00\xff\x10\x04Too many connections");
    let error = connect_to(full, PATIENT).await;
    assert!(matches!(error, ConnectError::TooManyConnections { .. }), "{error:?}");
}

/// A peer that closes in the middle of a packet spoke the protocol so far.
#[tokio::test]
async fn what_closes_in_the_middle_of_its_greeting_is_closed() {
    for part in [&b"\x4a\x00\x00\x00\x0a9.7.4\x00\x0c"[..], b"\x4a\x00", b"\x4a\x00\x00\x00"] {
        let error = connect_to(answering(part), PATIENT).await;
        assert!(matches!(error, ConnectError::Closed { .. }), "{part:?}: {error:?}");
        assert!(!error.to_string().contains("does not speak"), "{error}");
    }
}

/// Root may look into every folder: only another user sees this one refused.
#[tokio::test]
async fn a_socket_below_a_folder_that_cannot_be_read_is_not_called_missing() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o000)).unwrap();
    let target = Target::new(Endpoint::Socket(hidden.join("mysqld.sock")), "someone");
    let error = Session::connect(&target, &Limits::default()).await.unwrap_err();
    match std::fs::read_dir(&hidden) {
        Ok(_) => assert!(matches!(error, ConnectError::NoSocket { .. }), "{error:?}"),
        Err(_) => assert!(matches!(error, ConnectError::SocketDenied { .. }), "{error:?}"),
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let target = Target::new(Endpoint::Socket(file), "someone");
    let error = Session::connect(&target, &Limits::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "no server listens on a file: {error:?}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses_and_a_missing_socket_is_missing() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Session::connect(&target(port), &Limits::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    let missing = Target::new(Endpoint::Socket("/no/such/mysqld.sock".into()), "someone");
    let error = Session::connect(&missing, &Limits::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoSocket { .. }), "{error:?}");
    let unknown = Target::new(Endpoint::Tcp { host: "no-such-host.invalid".into(), port: 1 }, "someone");
    let error = Session::connect(&unknown, &Limits::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::UnknownHost { .. } | ConnectError::Silent { .. }), "{error:?}");
}
