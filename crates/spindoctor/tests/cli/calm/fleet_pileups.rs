//! `spindoctor fleet top` and `fleet doctor` of two real servers, on each of which sessions wait for a row.

use serde_json::Value;
use spindoctor_lab::pileup::{Piled, find, pile_up};
use spindoctor_lab::{Home, Which};

use crate::fleet::{List, ran};
use crate::lab::runtime_beside;
use crate::program::spindoctor;

/// How the tests log in.
const LOGIN: [&str; 3] = ["-u", "spindoctor", "-pspindoctor"];

#[test]
fn sessions_that_wait_on_servers_of_both_kinds_are_listed_and_folded_and_judged_by_sql_alone() {
    let runtime = runtime_beside();
    // The sessions go on meanwhile, on its thread.
    let _context = runtime.enter();
    let home = Home::open().expect("the lab has a folder");
    let row = find("row").expect("a pile-up");
    let piled = |which: &Which| runtime.block_on(pile_up(&home, row, which, &|_| {})).expect("a pile-up");
    let all = [piled(&Which::Mysql), piled(&Which::Mariadb)];
    let listed = |tags: &str| {
        let lines = all.iter().map(|one| format!("127.0.0.1:{}{tags}\n", one.server.port()));
        List::from_text(&lines.collect::<String>())
    };
    are_listed_and_folded(&listed(""), &all);
    are_judged_by_sql_alone_and_their_holder_is_named(&listed(" role=source"), &all);
}

fn are_listed_and_folded(list: &List, all: &[Piled]) {
    const WAITS: &str = "UPDATE sbtest1 SET k = k + ? WHERE id = ?";
    let run = ran(spindoctor("fleet top"), list, &[&LOGIN[..], &["--once"]].concat());
    let out = run.out();
    assert_eq!((run.code(), run.err().as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("server ") && out.contains("  statement\n"), "{out}");
    for port in all.iter().map(|one| one.server.port()) {
        let is_of_server = |line: &&str| line.starts_with(&format!("127.0.0.1:{port} "));
        let waiting = out.lines().filter(is_of_server).filter(|line| line.contains(WAITS)).count();
        // A few may be between two waits.
        assert!(waiting >= 20, "{waiting} wait on {port}: {out}");
    }
    let folded = ran(spindoctor("fleet top"), list, &[&LOGIN[..], &["--group"]].concat()).out();
    let update = folded.lines().find(|line| line.contains(WAITS));
    let update = update.unwrap_or_else(|| panic!("none waits: {folded}"));
    let sessions = update.split_whitespace().next().and_then(|count| count.parse::<u32>().ok());
    assert!(sessions.is_some_and(|sessions| sessions >= 40) && update.contains("2 servers"), "{folded}");
}

fn are_judged_by_sql_alone_and_their_holder_is_named(list: &List, all: &[Piled]) {
    let run = ran(spindoctor("fleet doctor"), list, &[&LOGIN[..], &["--json"]].concat());
    let (out, line) = (run.out(), run.err());
    let diagnosis: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{line}"));
    assert_eq!((run.code(), line.as_str()), (Some(0), ""), "{diagnosis:#}");
    assert_eq!((&diagnosis["servers"], &diagnosis["answered"]), (&2.into(), &2.into()), "{diagnosis:#}");
    let trouble = &diagnosis["troubles"][0];
    assert_eq!(
        (&trouble["cause"], &trouble["severity"]),
        (&"row-lock-pileup".into(), &"critical".into()),
        "{diagnosis:#}"
    );
    for piled in all {
        let name = format!("127.0.0.1:{}", piled.server.port());
        let found =
            trouble["servers"].as_array().and_then(|all| all.iter().find(|one| one["server"] == name));
        let found = found.unwrap_or_else(|| panic!("{name}: {trouble:#}"));
        let kill = format!("KILL {}", piled.roots[0].connection_id);
        assert_eq!(found["remedies"][0]["statement"], kill, "{found:#}");
    }
    assert_eq!(diagnosis["versions"].as_array().map(Vec::len), Some(2), "{diagnosis:#}");
    let reasons = diagnosis["not_examined"].as_array().expect("a list");
    let host =
        reasons.iter().find(|missing| missing["because"].as_str().is_some_and(|b| b.contains("no host")));
    assert_eq!(
        host.map(|missing| missing["servers"].as_array().map(Vec::len)),
        Some(Some(2)),
        "{reasons:#?}"
    );
    let replica = |missing: &&Value| missing["causes"].to_string().contains("replica-lag");
    assert_eq!(reasons.iter().find(replica), None, "both say that they are not replicas");
    // Nothing is refused for want of a privilege or a table that is not there.
    let denied = |missing: &&Value| missing["because"].as_str().is_some_and(|b| b.contains("no privilege"));
    assert_eq!(reasons.iter().find(denied), None, "both accounts have all privileges that are needed");
    // Nor is a privilege named as all that is missing for what is never asked here: SHOW ENGINE INNODB STATUS.
    let granted = |missing: &&Value| missing["unlock"].as_str().is_some_and(|b| b.starts_with("GRANT"));
    assert_eq!(reasons.iter().find(granted), None, "no GRANT is missing");
}
