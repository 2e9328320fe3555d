//! `spindoctor fleet query` of stub servers that speak TLS 1.3 and `caching_sha2_password`, once and again.

use spindoctor_lab::stub::{Certificate, Conduct, Entrance, Handshakes, Login, Stub, value};

use crate::fleet::{List, Run, answering, ran};
use crate::program::spindoctor;

/// Stub servers that answer with one row, and their certificate.
fn with_tls(login: Login) -> (Stub, Certificate) {
    let certificate = Certificate::new().expect("a certificate");
    let entrance = Entrance { certificate: Some(certificate.clone()), login };
    let stubs = Stub::start_behind(&entrance, Conduct::Answer(value("v", "1"))).expect("stub servers");
    (stubs, certificate)
}

/// `--ssl-ca` with a certificate, in a file beside the list.
fn ca(list: &List, certificate: &Certificate) -> String {
    let path = list.folder.path().join("ca.pem");
    std::fs::write(&path, certificate.pem()).expect("a file");
    format!("--ssl-ca={}", path.display())
}

fn query(list: &List, flags: &[&str]) -> Run {
    let mut command = spindoctor("fleet query");
    command.arg("SELECT 1").args(["-psecret"]);
    ran(command, list, flags)
}

fn full(full: u64) -> Handshakes {
    Handshakes { full, ..Handshakes::default() }
}

#[test]
fn a_server_with_tls_is_asked_and_verified_as_the_mode_says() {
    let (stubs, certificate) = with_tls(Login::Cached);
    let list = List::from_text(&stubs.list(3));
    let trusted = ca(&list, &certificate);
    for flags in
        [&["--ssl-mode=PREFERRED"][..], &["--ssl-mode=REQUIRED"], &["--ssl-mode=VERIFY_CA", &trusted]]
    {
        let before = stubs.handshakes();
        let run = query(&list, flags);
        assert_eq!((run.code(), run.out().lines().count()), (Some(0), 3), "{flags:?}: {}", run.err());
        assert_eq!(stubs.handshakes(), full(before.full + 3), "{flags:?}");
    }
    // The certificate names one of them.
    let run = query(&list, &["--ssl-mode=VERIFY_IDENTITY", &trusted]);
    let port = stubs.port();
    assert_eq!((run.code(), run.out()), (Some(1), format!("127.0.0.1:{port}\t1\n")), "{}", run.err());
    assert!(
        run.err().contains("connect 2\n") && run.err().contains("connect: TLS failed: "),
        "{}",
        run.err()
    );
    // Anybody can make a certificate that looks like it.
    let other = ca(&list, &Certificate::new().expect("a certificate"));
    for mode in ["--ssl-mode=VERIFY_CA", "--ssl-mode=VERIFY_IDENTITY"] {
        let run = query(&list, &[mode, &other]);
        assert_eq!((run.code(), run.out().as_str()), (Some(2), ""), "{mode}");
        assert!(run.err().contains("connect: TLS failed: "), "{mode}: {}", run.err());
    }
}

#[test]
fn the_password_itself_goes_through_tls_and_not_beside_it() {
    let (stubs, certificate) = with_tls(Login::Uncached);
    let list = List::from_text(&stubs.list(2));
    let trusted = ca(&list, &certificate);
    let run = query(&list, &["--ssl-mode=VERIFY_CA", &trusted]);
    assert_eq!((run.code(), run.out().lines().count()), (Some(0), 2), "{}", run.err());
    let run = query(&list, &["--ssl-mode=DISABLED"]);
    assert_eq!((run.code(), run.out().as_str()), (Some(2), ""));
    assert!(run.err().contains("auth: the server wants the password itself"), "{}", run.err());
}

#[test]
fn what_is_asked_again_goes_over_the_same_connections() {
    let (stubs, _) = with_tls(Login::Cached);
    let list = List::from_text(&stubs.list(4));
    let run = query(&list, &["--repeat", "100ms", "--times", "3", "--ordered"]);
    let once: String = stubs.list(4).lines().map(|server| format!("{server}\t1\n")).collect();
    assert_eq!((run.code(), run.out()), (Some(0), once.repeat(3)), "{}", run.err());
    assert_eq!(run.err().matches("spindoctor: asked at ").count(), 3, "{}", run.err());
    assert_eq!(stubs.handshakes(), full(4));
}

#[test]
fn where_not_all_connections_can_stay_the_next_login_resumes_the_session() {
    let (stubs, certificate) = with_tls(Login::Cached);
    let list = List::from_text(&stubs.list(4));
    let trusted = ca(&list, &certificate);
    let flags = ["--repeat", "100ms", "--times", "3", "--connections", "2", "--ssl-mode=VERIFY_CA", &trusted];
    let run = query(&list, &flags);
    assert_eq!((run.code(), run.out().lines().count()), (Some(0), 12), "{}", run.err());
    assert_eq!(stubs.handshakes(), Handshakes { full: 4, retried: 0, resumed: 8 });
    // Another command has nothing of it.
    let run = query(&list, &["--ssl-mode=VERIFY_CA", &trusted]);
    assert_eq!(run.code(), Some(0), "{}", run.err());
    assert_eq!(stubs.handshakes(), Handshakes { full: 8, retried: 0, resumed: 8 });
}

#[test]
fn it_asks_again_until_ctrl_c() {
    let stubs = Stub::start(Conduct::Answer(value("v", "1"))).expect("stub servers");
    let list = List::from_text(&stubs.list(1));
    let ended = answering(&list, &["--repeat", "100ms"]).interrupted();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn discovery_asks_each_server_over_one_connection() {
    let (stubs, _) = with_tls(Login::Cached);
    let mut command = spindoctor("fleet servers --no-defaults -u app -psecret");
    command.arg("--discover").arg(format!("127.0.0.1:{}", stubs.port()));
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stubs.handshakes(), full(1));
}
