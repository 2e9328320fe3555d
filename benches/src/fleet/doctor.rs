//! `fleet doctor` of a thousand stub servers.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::Value;
use spindoctor_lab::stub::mysql::{Apart, answers};
use spindoctor_lab::stub::{Conduct, Stub, addresses};

use super::resident;
use crate::page::Row;
use crate::paired::Spread;
use crate::{Bench, Benchmark, progress};

const SERVERS: u32 = 1000;
/// Of these, every fiftieth is nearly full, and one has a setting of its own.
const FULL_EVERY: u32 = 50;
const ODD: u32 = 17;
/// `--interval` where none is given.
const INTERVAL: Duration = Duration::from_secs(2);

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "fleet-doctor",
    of: &["crates/collect", "crates/fleet", "crates/rules", "crates/wire", "crates/spindoctor/src/fleet"],
    minutes: 2,
    story: "`spindoctor fleet doctor --json` of 1,000 stub servers: one thread of the benchmark that answers as a healthy \
            MySQL 8.0 would: 620 variables, 490 status variables and 314 metrics, each as rows, twice but for the \
            variables. Client and stub servers share the CPUs. Each time is that of the whole command, from its start \
            to its exit, with the 2 s between the two looks at each server. Every fiftieth server is nearly full, \
            and one has a setting of its own: the answer must name exactly these.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let stubs = Stub::start(Conduct::Answers(answers(|address| {
        let number = u32::from(address) - 0x7f00_0000;
        Apart {
            settings: if number == ODD { vec![("sync_binlog", "0".to_owned())] } else { Vec::new() },
            connected: if number.is_multiple_of(FULL_EVERY) { 130 } else { 0 },
            ..Apart::default()
        }
    })))?;
    let path = folder.path().join("servers");
    fs::write(&path, stubs.list(SERVERS))?;
    let list = path.display().to_string();
    let (mut times, mut queries, mut resident) = (Vec::new(), 0, Vec::new());
    for round in 1..=bench.runs {
        progress(&format!("fleet-doctor: round {round} of {}", bench.runs));
        let begun = Instant::now();
        let output = command(bench, &list).stdout(Stdio::piped()).output()?;
        times.push(begun.elapsed().as_secs_f64());
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        queries = checked(&serde_json::from_slice(&output.stdout)?, &stubs)?;
        resident.push(resident::most_mib(command(bench, &list).stdout(Stdio::null()))?);
    }
    let (times, resident) = (Spread::from_values(&times), Spread::from_values(&resident));
    Ok(vec![
        Row::goal("1,000 servers", times.text("s"), "<= 15 s", times.median <= 15.0),
        Row::plain("of which between the two looks", format!("{} s", INTERVAL.as_secs())),
        Row::plain("statements sent", queries.to_string()),
        Row::plain("servers named as in trouble and as odd", "exactly those"),
        Row::plain("resident memory", resident.text("MiB")),
    ])
}

fn command(bench: &Bench, list: &str) -> Command {
    let mut command = bench.spindoctor.command();
    command.args(["fleet", "doctor", "--json", "--no-defaults", "-u", "app", "--servers", list]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Whether exactly the right ones are named; how many statements were sent.
fn checked(diagnosis: &Value, stubs: &Stub) -> anyhow::Result<u64> {
    let named = |number: u32| {
        let address = addresses(number).last().unwrap_or(std::net::Ipv4Addr::LOCALHOST);
        format!("{address}:{}", stubs.port())
    };
    ensure!(diagnosis["answered"] == SERVERS, "{} answered", diagnosis["answered"]);
    let troubles = diagnosis["troubles"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    ensure!(troubles.len() == 1 && troubles[0]["cause"] == "connections-exhausted", "{troubles:#?}");
    let full = troubles[0]["servers"].as_array().map_or(0, Vec::len);
    ensure!(full == (SERVERS / FULL_EVERY) as usize, "{full} are full");
    let odd = &diagnosis["odd"];
    ensure!(
        odd.as_array().map(Vec::len) == Some(1)
            && odd[0]["others"][0]["servers"] == Value::from(vec![named(ODD)]),
        "{odd:#}"
    );
    Ok(diagnosis["cost"]["server_queries"].as_u64().unwrap_or_default())
}
