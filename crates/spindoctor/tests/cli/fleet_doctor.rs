//! `spindoctor fleet doctor` of hundreds of stub servers, of which a few are odd, in trouble or not there.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use spindoctor_lab::stub::mysql::{Apart, answers};
use spindoctor_lab::stub::{Conduct, Stub, addresses};

use crate::fleet::{List, Run, ran, stub};
use crate::program::{printed, spindoctor};

fn doctor(list: &List, flags: &[&str]) -> Run {
    ran(spindoctor("fleet doctor"), list, flags)
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out()).unwrap_or_else(|error| panic!("{error}: {}{}", run.out(), run.err()))
}

/// Whether it is the so many-th stub server.
fn is(address: Ipv4Addr, number: u32) -> bool {
    addresses(number).last() == Some(address)
}

/// Healthy servers, of which the 17th does not sync its binary log and the 42nd is nearly full.
fn healthy() -> Stub {
    stub(Conduct::Answers(answers(|address| Apart {
        settings: if is(address, 17) { vec![("sync_binlog", "0".to_owned())] } else { Vec::new() },
        connected: if is(address, 42) { 130 } else { 0 },
        ..Apart::default()
    })))
}

#[test]
fn the_help_of_fleet_doctor_is_this() {
    let (help, code) = printed("fleet doctor --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}

#[test]
fn of_hundreds_the_odd_ones_and_those_in_trouble_are_named() {
    let stubs = healthy();
    let list = List::from_text(&stubs.list(300));
    let run = doctor(&list, &["--interval", "500ms"]);
    let out = run.out();
    assert_eq!((run.code(), run.err().as_str()), (Some(0), ""), "{out}");
    let name = |number| format!("127.0.0.{number}:{}", stubs.port());
    assert!(out.starts_with("300 of 300 servers sampled twice, 500 ms apart, in "), "{out}");
    // On a busy machine some answers may be late besides, which is a note.
    assert!(out.lines().next().is_some_and(|head| head.contains(" 1 in trouble")), "{out}");
    assert!(out.contains("1 server loses 5 %") && out.contains("connections-exhausted"), "{out}");
    assert!(out.contains(&name(42)), "{out}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("sync_binlog 299 of 300 MySQL 8.0: 1; {}: 0", name(17))), "{out}");
    // What differs on each server by nature is not odd.
    assert!(!out.contains("server_uuid"), "{out}");
    assert!(out.lines().count() <= 40, "one screen: {out}");
    let json = json(&doctor(&list, &["--interval", "500ms", "--json"]));
    assert_eq!(json["odd"].as_array().map(Vec::len), Some(1), "{:#}", json["odd"]);
    let troubles = json["troubles"].as_array().expect("a list");
    let (late, others): (Vec<_>, Vec<_>) = troubles
        .iter()
        .partition(|trouble| trouble["cause"] == "unnamed-wait" && trouble["severity"] == "note");
    assert!(late.len() <= 1, "{late:#?}");
    assert_eq!(others.len(), 1, "{others:#?}");
}

#[test]
fn servers_of_other_roles_are_no_peers_and_tags_show_the_cpus() {
    let stubs = stub(Conduct::Answers(answers(|address| Apart {
        settings: if address.octets()[3] % 2 == 0 {
            vec![("read_only", "ON".to_owned())]
        } else {
            Vec::new()
        },
        behind_s: is(address, 4).then_some(70),
        stops_replica: is(address, 6),
        ..Apart::default()
    })));
    let lines = stubs.list(20);
    let tagged: String = lines
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let role = if at % 2 == 0 { "source" } else { "replica" };
            format!("{line} role={role}{}\n", if at == 4 { " cpus=2" } else { "" })
        })
        .collect();
    let with_roles = json(&doctor(&List::from_text(&tagged), &["--interval", "500ms", "--json"]));
    assert_eq!((&with_roles["odd"], &with_roles["split"]), (&serde_json::json!([]), &serde_json::json!([])));
    let misfits = with_roles["misfits"].as_array().expect("a list");
    assert_eq!(
        (misfits.len(), &misfits[0]["setting"]),
        (1, &"innodb_log_writer_threads".into()),
        "{misfits:#?}"
    );
    assert_eq!(misfits[0]["servers"], serde_json::json!([format!("127.0.0.5:{}", stubs.port())]));
    let lags = &with_roles["troubles"][0];
    assert_eq!((&lags["cause"], &lags["severity"]), (&"replica-lag".into(), &"warning".into()), "{lags:#}");
    assert_eq!(lags["servers"][0]["server"], format!("127.0.0.4:{}", stubs.port()), "{lags:#}");
    assert_eq!(lags["servers"][0]["headline"], "The replica is 70 s behind db1:3306", "{lags:#}");
    // The test does not wait for sessions that wait for the end of a transaction there.
    assert_eq!(with_roles["answered"], 20, "{with_roles:#}");
    let stops = with_roles["not_examined"].as_array().and_then(|all| {
        all.iter().find(|missing| missing["because"].as_str().is_some_and(|b| b.contains("stops or starts")))
    });
    let stops = stops.unwrap_or_else(|| panic!("{with_roles:#}"));
    assert_eq!(stops["servers"], serde_json::json!([format!("127.0.0.6:{}", stubs.port())]));
    assert_eq!(stops["causes"], serde_json::json!(["replica-lag"]));
    let without = json(&doctor(&List::from_text(&lines), &["--interval", "500ms", "--json"]));
    assert_eq!(without["split"][0]["setting"], "read_only", "half and half is no norm");
}

#[test]
fn servers_that_are_full_or_silent_are_in_trouble_and_those_that_are_not_there_are_shown() {
    let stubs = healthy();
    let (full, silent, hang) = (stub(Conduct::Full), stub(Conduct::HangWhenAsked), stub(Conduct::Hang));
    // Nobody listens where somebody just did.
    let dead = stub(Conduct::Hang).port();
    let text =
        stubs.list(10) + &full.list(1) + &silent.list(1) + &hang.list(1) + &format!("127.0.0.1:{dead}\n");
    let list = List::from_text(&text);
    let run = doctor(&list, &["--interval", "200ms", "--connect-timeout", "1s", "--query-timeout", "1s"]);
    let (out, line) = (run.out(), run.err());
    assert_eq!(run.code(), Some(1), "{out}{line}");
    assert!(run.took < Duration::from_secs(5), "{:?}", run.took);
    assert!(out.starts_with("10 of 14 servers") && out.contains("2 in trouble"), "{out}");
    for (cause, stub) in [("connections-exhausted", &full), ("server-stopped", &silent)] {
        let begin = out.find(cause).unwrap_or_else(|| panic!("{cause}: {out}"));
        assert!(out[begin..].contains(&format!("127.0.0.1:{}", stub.port())), "{cause}: {out}");
    }
    assert!(
        line.contains("10 of 14 servers answered in ") && line.contains("; connect 2, timeout 2\n"),
        "{line}"
    );
    assert!(line.contains(&format!("nothing listens there\n    127.0.0.1:{dead}\n")), "{line}");
    assert!(!out.contains(&format!(":{}", hang.port())), "it may be a firewall: {out}");
}

#[test]
fn nobody_answering_is_exit_2_and_so_is_a_tag_that_is_no_number() {
    let dead = stub(Conduct::Hang).port();
    let run = doctor(&List::from_text(&format!("127.0.0.1:{dead}\n")), &[]);
    assert_eq!(run.code(), Some(2), "{}", run.out());
    assert!(run.out().starts_with("0 of 1 server ") && !run.out().contains("Nothing found"), "{}", run.out());
    let run = doctor(&List::from_text("db1 cpus=many\n"), &[]);
    assert_eq!((run.code(), run.out().as_str()), (Some(2), ""));
    assert!(run.err().contains("db1:3306: the tag cpus=many is not a number of CPUs"), "{}", run.err());
}
