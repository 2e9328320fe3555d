//! Every command against a proxy before two real servers: refused in one line, and nothing is changed.

use spindoctor_lab::stub::proxy::{Proxy, Shares};
use spindoctor_lab::{Server, Which};

use crate::fleet::{List, ran};
use crate::lab::{in_runtime, on_both, with_server};
use crate::program::{complained, spindoctor};

/// Does something with a proxy that sends each statement to another of two servers.
fn with_proxy(which: &Which, look: impl FnOnce(&Proxy, [&Server; 2])) {
    with_server(which.clone(), |first| {
        with_server(which.clone(), |second| {
            let folder = tempfile::tempdir().expect("a folder");
            let sockets = [first.socket(), second.socket()];
            let proxy = Proxy::start(&folder.path().join("proxy.sock"), sockets, Shares::Statements);
            look(&proxy.expect("a proxy"), [first, second]);
        });
    });
}

#[test]
fn every_command_that_makes_a_window_refuses_a_proxy_and_a_list_with_one_has_no_window_of_it() {
    on_both(|which| {
        with_proxy(&which, |proxy, servers| {
            is_refused_in_one_line(&which, proxy, servers);
            has_no_window_where_it_is_one_of_a_list(&which, proxy, servers[0]);
        });
    });
}

fn is_refused_in_one_line(which: &Which, proxy: &Proxy, servers: [&Server; 2]) {
    const ALONE: [&str; 3] =
        ["doctor --remote --duration 1s", "locks --remote", "top --remote --once --duration 1s"];
    const WITH_THEIR_NOTES: [&str; 4] = [
        "tune --plan --remote --duration 1s",
        "workload --remote --duration 1s",
        "indexes --duration 1s",
        "tune --apply --remote --only innodb_sync_spin_loops=25 --put-back --max-time 5s",
    ];
    let socket = proxy.socket().display();
    for line in ALONE.iter().chain(&WITH_THEIR_NOTES) {
        let (why, code) = complained(&format!("{line} -u root -S {socket} --no-defaults"));
        assert_eq!(code, 2, "{which:?}: {line}: {why}");
        let named = format!("{socket} is a proxy (it greets as connection ");
        assert_eq!(why.matches(&named).count(), 1, "{which:?}: {line}: {why}");
        assert!(!ALONE.contains(line) || why.lines().count() == 1, "{which:?}: {line}: {why}");
    }
    for server in servers {
        let loops = in_runtime(server.ask("SELECT @@GLOBAL.innodb_sync_spin_loops")).expect("an answer");
        assert_eq!(loops.as_deref(), Some("30"), "{which:?}: a server behind the proxy was changed");
    }
}

fn has_no_window_where_it_is_one_of_a_list(which: &Which, proxy: &Proxy, first: &Server) {
    let list = List::from_text(&format!("{}\n{}\n", first.socket().display(), proxy.socket().display()));
    let run = ran(spindoctor("fleet doctor"), &list, &["-u", "root", "--interval", "200ms"]);
    let (out, line) = (run.out(), run.err());
    assert!(out.starts_with("1 of 2 servers"), "{which:?}: {out}{line}");
    assert!(line.contains("not asked: a proxy (it greets as connection "), "{which:?}: {line}");
    assert!(line.contains(&format!("\n    {}", proxy.socket().display())), "{which:?}: {line}");
}
