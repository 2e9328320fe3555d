//! `fleet query` against a thousand and ten thousand stub servers, beside what people use today.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use spindoctor_lab::stub::{Conduct, Stub, addresses, process_list, value};
use tempfile::TempDir;

use super::{driver, resident};
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// The deadline where some servers hang.
const DEADLINE: Duration = Duration::from_secs(1);
/// Of ten thousand servers, so many are dead, and so many hang.
const DEAD: u32 = 100;
const HANGING: u32 = 100;
/// All process lists together, and how many servers they are of.
const LISTS_BYTES: usize = 200 << 20;
const LISTS: u32 = 1000;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "fleet-query",
    of: &["crates/fleet", "crates/wire", "crates/spindoctor/src/fleet"],
    minutes: 3,
    story: "`spindoctor fleet query 'SELECT 1'` of stub servers: one thread of the benchmark that listens on all of \
            127.0.0.0/8, speaks MySQL's protocol, lets anybody in and answers everything with one row. Client and \
            stub servers share the CPUs. Each time is that of the whole command, from its start to its exit, with a \
            connection, a login, `SET SESSION transaction_read_only = 1, ...` and the statement for each server. \
            Beside it, in turn, `xargs -P 64` with MariaDB's client, without TLS and option files. *Dead and hanging*: \
            100 of 10,000 addresses refuse connections and 100 accept them and say nothing, with `--within 1s`. \
            *Process lists*: each of 1,000 servers answers with 0.2 MiB of rows, which the command prints to /dev/null; \
            *reading the bytes* is a program on one thread that opens the same connections, reads all bytes and looks \
            at none. *mysql_async* is the driver that the other commands use, in a program that connects, sets the session \
            read only, asks, and drops the rows; the start of a program is not in its time.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let ping = Stub::start(Conduct::Answer(value("1", "1")))?;
    let hang = Stub::start(Conduct::Hang)?;
    // Nobody listens where somebody just did.
    let dead = Stub::start(Conduct::Hang)?.port();
    let thousand = list(&folder, "1000", &ping.list(1000))?;
    let many = list(&folder, "10000", &ping.list(10_000))?;
    let good = 10_000 - DEAD - HANGING;
    let mut mixed: Vec<String> = ping.list(good).lines().map(str::to_owned).collect();
    // The bad ones are spread over the list.
    for (at, address) in addresses(DEAD).enumerate() {
        mixed.insert(at * 97, format!("{address}:{dead}"));
    }
    for (at, line) in hang.list(HANGING).lines().enumerate() {
        mixed.insert(at * 98, line.to_owned());
    }
    let mixed = list(&folder, "mixed", &(mixed.join("\n") + "\n"))?;
    let lists = process_list(LISTS_BYTES / LISTS as usize);
    let lists_bytes = lists.len();
    let long = Stub::start(Conduct::Answer(lists))?;
    let long_list = list(&folder, "long", &long.list(LISTS))?;

    let mut times: [Vec<f64>; 9] = Default::default();
    let mut exact = 0;
    for round in 1..=bench.runs {
        progress(&format!("fleet-query: round {round} of {}", bench.runs));
        times[0].push(query(bench, &thousand, 1000, &[])?.as_secs_f64());
        times[1].push(xargs(&ping, 1000)?.as_secs_f64());
        times[2].push(query(bench, &many, 10_000, &[])?.as_secs_f64());
        let (took, is_exact) = with_bad_ones(bench, &mixed, good, dead, hang.port())?;
        times[3].push(took.as_secs_f64());
        exact += usize::from(is_exact);
        times[4].push(print_long(bench, &long_list)?.as_secs_f64());
        times[5].push(read(&long, lists_bytes)?.as_secs_f64());
        times[6].push(resident_mib(bench, &many)?);
        for (at, port) in [(7, ping.port()), (8, long.port())] {
            let servers = addresses(1000).collect();
            let took = tokio::task::spawn_blocking(move || driver::run(servers, port)).await??;
            times[at].push(took.as_secs_f64());
        }
    }
    let [thousand, xargs, many, mixed, long, reading, resident, driver, driver_long] =
        times.map(|values| Spread::from_values(&values));
    let ms = |spread: Spread| {
        let ms = |s: f64| s * 1e3;
        Spread { median: ms(spread.median), least: ms(spread.least), most: ms(spread.most) }
    };
    let over = mixed.median - DEADLINE.as_secs_f64();
    let against = xargs.median / thousand.median;
    let slower = long.median / reading.median;
    Ok(vec![
        Row::goal("1,000 servers", ms(thousand).text("ms"), "<= 100 ms", thousand.median <= 0.1)
            .beside(format!("mysql_async: {} ms", short(ms(driver).median)), driver.median / thousand.median),
        Row::plain("1,000 servers, `xargs -P 64 mariadb`", ms(xargs).text("ms")),
        Row::plain("1,000 servers, mysql_async on one thread", ms(driver).text("ms")),
        Row::goal("xargs / spindoctor", format!("{} times", short(against)), ">= 30 times", against >= 30.0),
        Row::goal("10,000 servers", ms(many).text("ms"), "<= 750 ms", many.median <= 0.75),
        Row::goal(
            "10,000, of which 100 are dead and 100 hang: beyond the deadline of 1 s",
            format!("{} ms", short(over * 1e3)),
            "<= 100 ms",
            over <= 0.1,
        ),
        Row::goal(
            format!("runs in which exactly those {} were reported", DEAD + HANGING),
            format!("{exact} of {}", bench.runs),
            "all",
            exact == bench.runs,
        ),
        Row::goal(
            "resident memory, 10,000 servers",
            resident.text("MiB"),
            "<= 100 MiB",
            resident.median <= 100.0,
        ),
        Row::plain("200 MiB of process lists of 1,000 servers, printed", ms(long).text("ms")),
        Row::plain("reading the bytes", ms(reading).text("ms")),
        Row::plain("mysql_async on one thread, which prints nothing", ms(driver_long).text("ms")),
        Row::goal(
            "printed / reading the bytes",
            format!("{} times", short(slower)),
            "<= 1.5 times",
            slower <= 1.5,
        ),
    ])
}

fn list(folder: &TempDir, name: &str, text: &str) -> anyhow::Result<String> {
    let path = folder.path().join(name);
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}

fn command(bench: &Bench, list: &str, flags: &[&str]) -> Command {
    let mut command = bench.spindoctor.command();
    command.args(["fleet", "query", "SELECT 1", "--no-defaults", "-u", "app", "--servers", list]).args(flags);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Asks, and looks whether everybody answered.
fn query(bench: &Bench, list: &str, servers: usize, flags: &[&str]) -> anyhow::Result<Duration> {
    let mut command = command(bench, list, flags);
    let begun = Instant::now();
    let output = command.output()?;
    let took = begun.elapsed();
    let rows = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    ensure!(
        output.status.success() && rows == servers,
        "{rows} rows of {servers} servers: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(took)
}

/// Asks. True where exactly the bad ones are reported, and nobody who was only too slow.
fn with_bad_ones(
    bench: &Bench,
    list: &str,
    good: u32,
    dead: u16,
    hanging: u16,
) -> anyhow::Result<(Duration, bool)> {
    let seconds = format!("{}s", DEADLINE.as_secs());
    let mut command = command(bench, list, &["--json", "--within", &seconds]);
    let begun = Instant::now();
    let output = command.output()?;
    let took = begun.elapsed();
    let (mut answered, mut refused, mut silent) = (0, 0, 0);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let object: Value = serde_json::from_str(line)?;
        let port =
            object["server"].as_str().and_then(|server| server.rsplit_once(':')?.1.parse::<u16>().ok());
        match object["reason"].as_str() {
            None => answered += 1,
            Some("connect") if port == Some(dead) => refused += 1,
            Some("timeout") if port == Some(hanging) => silent += 1,
            // Too late on a machine that had other work.
            Some("timeout") => {}
            Some(other) => anyhow::bail!("{other}: {line}"),
        }
    }
    ensure!(output.status.code() == Some(1), "it ended with {}", output.status);
    Ok((took, (answered, refused, silent) == (good, DEAD, HANGING)))
}

/// Prints long answers into nothing.
fn print_long(bench: &Bench, list: &str) -> anyhow::Result<Duration> {
    let mut command = command(bench, list, &[]);
    let begun = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "it ended with {status}");
    Ok(begun.elapsed())
}

/// Only reads the bytes of them, in a program of its own.
fn read(stub: &Stub, bytes: usize) -> anyhow::Result<Duration> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--read", &stub.port().to_string(), &LISTS.to_string(), &bytes.to_string()]);
    let begun = Instant::now();
    let status = command.status()?;
    ensure!(status.success(), "reading the bytes ended with {status}");
    Ok(begun.elapsed())
}

/// What people do: a client for each server, 64 at a time.
fn xargs(stub: &Stub, servers: u32) -> anyhow::Result<Duration> {
    let hosts: String = addresses(servers).map(|address| format!("{address}\n")).collect();
    let port = stub.port().to_string();
    let mut xargs = Command::new("xargs");
    xargs.args([
        "-P",
        "64",
        "-I",
        "{}",
        "mariadb",
        "--no-defaults",
        "--skip-ssl",
        "--protocol=tcp",
        "-h",
        "{}",
    ]);
    xargs.args(["-P", &port, "-u", "app", "-NB", "-e", "SELECT 1"]);
    xargs.stdin(Stdio::piped()).stdout(Stdio::piped());
    let begun = Instant::now();
    let mut child = xargs.spawn().context("could not run xargs")?;
    let mut input = child.stdin.take().context("it is piped")?;
    let fed = std::thread::spawn(move || std::io::Write::write_all(&mut input, hosts.as_bytes()));
    let output = child.wait_with_output()?;
    let took = begun.elapsed();
    fed.join().map_err(|_| anyhow::anyhow!("the list was not written"))??;
    let rows = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    ensure!(rows == servers as usize, "the peer gave {rows} rows of {servers} servers");
    Ok(took)
}

/// The most that is resident while it asks: of a run that is not timed.
fn resident_mib(bench: &Bench, list: &str) -> anyhow::Result<f64> {
    resident::most_mib(command(bench, list, &[]).stdout(Stdio::null()))
}
