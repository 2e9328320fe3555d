//! `spindoctor fleet doctor` of a thousand stub servers on three CPUs: those whose spin settings do not fit their PAUSE are
//! named, and no others, by the tags of the list and by what recorders wrote down.

use std::collections::BTreeSet;
use std::fs::{File, create_dir_all};
use std::net::Ipv4Addr;
use std::path::Path;

use serde_json::Value;
use spindoctor_export::parquet::Parquet;
use spindoctor_export::table::by_name;
use spindoctor_export::{Cell, Sink as _};
use spindoctor_lab::stub::mysql::{Apart, answers};
use spindoctor_lab::stub::{Conduct, Stub};

use crate::fleet::{List, ran, stub};
use crate::program::spindoctor;

const SERVERS: u32 = 1_000;
/// Of these there are each CPU and planted servers, too: where it is not the number of servers that is tried.
const SOME: u32 = 200;
const MULTIPLIER: &str = "innodb_spin_wait_pause_multiplier";

/// A CPU of the fleet: its name, its PAUSE in nanoseconds, and the multiplier that its servers were given for it.
const CPUS: [(&str, f64, &str); 3] = [
    ("Intel(R) Xeon(R) CPU E5-2620 v4 @ 2.10GHz", 5.3, "100"),
    ("Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 66.0, "8"),
    ("Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz", 17.6, "50"),
];

/// The so many-th server's CPU.
fn cpu(number: u32) -> (&'static str, f64, &'static str) {
    CPUS[number as usize % CPUS.len()]
}

/// Servers whose settings are another CPU's: the defaults on Skylake (a spin six times as long as meant) and Skylake's own on the
/// oldest (a tenth and less). All others are right, or not far enough off to be named: on Skylake with 20 instead of 8.
fn multiplier(number: u32) -> &'static str {
    match (number % 3, number) {
        (1, number) if number % 50 == 1 => "50",
        (0, number) if number % 75 == 0 => "8",
        (1, number) if number % 7 == 1 => "20",
        _ => cpu(number).2,
    }
}

/// Those of the first so many servers that do not fit.
fn planted(servers: u32) -> BTreeSet<u32> {
    (1..=servers)
        .filter(|number| (number % 3 == 1 && number % 50 == 1) || (number % 3 == 0 && number % 75 == 0))
        .collect()
}

fn number(address: Ipv4Addr) -> u32 {
    u32::from(address) - 0x7f00_0000
}

fn stubs() -> Stub {
    stub(Conduct::Answers(answers(|address| Apart {
        settings: vec![
            ("hostname", format!("db{}", number(address))),
            (MULTIPLIER, multiplier(number(address)).to_owned()),
        ],
        ..Apart::default()
    })))
}

fn doctor(list: &List, flags: &[&str]) -> Value {
    let run = ran(spindoctor("fleet doctor"), list, &[&["--interval", "500ms", "--json"], flags].concat());
    assert_eq!((run.code(), run.err().as_str()), (Some(0), ""), "{}", run.out());
    serde_json::from_str(&run.out()).expect("JSON")
}

/// The servers that the misfits of a setting name.
fn named(diagnosis: &Value, setting: &str) -> BTreeSet<u32> {
    let misfits = diagnosis["misfits"].as_array().expect("a list");
    let of_setting = misfits.iter().filter(|misfit| misfit["setting"] == setting);
    let servers = of_setting.flat_map(|misfit| misfit["servers"].as_array().expect("a list"));
    servers
        .map(|server| {
            let (address, _) = server.as_str().and_then(|name| name.split_once(':')).expect("host and port");
            number(address.parse().expect("an address"))
        })
        .collect()
}

fn groups(diagnosis: &Value) -> Vec<(&str, usize, usize)> {
    let groups = diagnosis["cpus"].as_array().expect("a list").iter();
    let length = |list: &Value| list.as_array().map_or(0, Vec::len);
    groups
        .map(|group| {
            (group["cpu"].as_str().unwrap_or_default(), length(&group["servers"]), length(&group["misfits"]))
        })
        .collect()
}

fn expect_the_planted_ones(diagnosis: &Value, servers: u32) {
    let planted = planted(servers);
    assert!(planted.len() >= 4, "{planted:?}");
    assert_eq!(named(diagnosis, MULTIPLIER), planted);
    assert_eq!(named(diagnosis, "innodb_spin_wait_delay"), BTreeSet::new());
    assert_eq!(diagnosis["answered"], servers, "{:#}", diagnosis["failures"]);
    let groups = groups(diagnosis);
    assert_eq!(groups.iter().map(|(_, servers, _)| servers).sum::<usize>(), servers as usize);
    for (name, _, _) in CPUS {
        let found =
            groups.iter().find(|(cpu, ..)| *cpu == name).unwrap_or_else(|| panic!("{name}: {groups:?}"));
        let of_cpu = |number: &&u32| cpu(**number).0 == name;
        assert_eq!(found.2, planted.iter().filter(of_cpu).count(), "{name}");
    }
}

#[test]
fn of_a_thousand_servers_exactly_those_whose_settings_do_not_fit_their_pause_are_named_by_tags() {
    let stubs = stubs();
    let line = |(line, number): (&str, u32)| {
        let (name, pause_ns, _) = cpu(number);
        let name = name.replace(' ', "_");
        format!("{line} cpu={name} pause_ns={pause_ns}\n")
    };
    let tagged = |servers| stubs.list(servers).lines().zip(1..).map(line).collect::<String>();
    let mut diagnosis = doctor(&List::from_text(&tagged(SERVERS)), &[]);
    for group in diagnosis["cpus"].as_array_mut().expect("a list") {
        group["cpu"] = group["cpu"].as_str().unwrap_or_default().replace('_', " ").into();
    }
    expect_the_planted_ones(&diagnosis, SERVERS);
    let text =
        ran(spindoctor("fleet doctor"), &List::from_text(&tagged(SOME)), &["--interval", "500ms"]).out();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("PAUSE 66 ns: 67 servers, "), "{text}");
    assert!(words.contains(&format!("{MULTIPLIER} = 50, 8 fits: 127.0.0.1:")), "{text}");
    let without = doctor(&List::from_text(&stubs.list(SOME)), &[]);
    assert_eq!(
        (groups(&without), named(&without, MULTIPLIER)),
        (vec![], BTreeSet::new()),
        "no PAUSE is known"
    );
}

/// A file of the table `hosts`, as a recorder of that server writes it.
fn write_host(history: &Path, number: u32) {
    let (name, pause_ns, _) = cpu(number);
    let folder = history.join(format!("hosts/date=2026-11-22/server=db{number}"));
    create_dir_all(&folder).expect("a folder");
    let table = by_name("hosts").expect("a table");
    let file = File::create(folder.join("09-30-00.000-5d2f9a31.parquet")).expect("a file");
    let mut sink = Box::new(Parquet::begin(file, table).expect("a file"));
    let server = format!("db{number}");
    // Measured on each host, a little off each time.
    let measured = pause_ns * (1.0 + f64::from(number % 5) / 100.0);
    let cells = table.columns.iter().map(|column| match column.name {
        "server" => Cell::Text(&server),
        "cpu" => Cell::Text(name),
        "instruction" => Cell::Text("pause"),
        "pause_ns" => Cell::Real(measured),
        _ => Cell::Nothing,
    });
    sink.row(&cells.collect::<Vec<_>>()).expect("a row");
    sink.finish().expect("a file");
}

#[test]
fn the_same_are_named_by_what_recorders_wrote_down() {
    let stubs = stubs();
    let list = List::from_text(&stubs.list(SOME));
    let history = list.folder.path().join("history");
    (1..=SOME).for_each(|number| write_host(&history, number));
    let history = history.display().to_string();
    expect_the_planted_ones(&doctor(&list, &["--history", &history]), SOME);
    let nowhere = list.folder.path().display().to_string();
    let run = ran(spindoctor("fleet doctor"), &list, &["--history", &nowhere]);
    assert_eq!(run.code(), Some(2));
    assert!(run.err().contains("there is no folder hosts in it"), "{}", run.err());
}

#[test]
fn a_tag_that_is_no_length_of_a_pause_is_refused() {
    let run = ran(spindoctor("fleet doctor"), &List::from_text("db1 pause_ns=long\n"), &[]);
    assert_eq!((run.code(), run.out().as_str()), (Some(2), ""));
    assert!(
        run.err().contains("db1:3306: the tag pause_ns=long is not a number of nanoseconds"),
        "{}",
        run.err()
    );
}
