//! `fleet query` with TLS 1.3 and caching_sha2_password, the first question and the second, beside the same without TLS.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use spindoctor_lab::stub::{Certificate, Conduct, Entrance, Login, Stub, addresses, value};

use super::{driver, resident};
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

const FEW: u32 = 1000;
const MANY: u32 = 10_000;
const PASSWORD: &str = "secret";
/// From the first question to the second, seconds: the first is over by then.
const FEW_EVERY_S: u64 = 2;
const MANY_EVERY_S: u64 = 10;
/// Fewer connections than servers: none of them stays.
const NONE_STAYS: &str = "500";

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "fleet-tls",
    of: &["crates/fleet", "crates/wire", "crates/spindoctor/src/fleet"],
    minutes: 4,
    story: "`spindoctor fleet query 'SELECT 1'` of stub servers with TLS 1.3 and `caching_sha2_password`, the account in \
            their cache: one thread of the benchmark, as in [fleet-query](#fleet-query). Client and stub servers share the \
            CPUs, so the table has the CPU time of the stub servers' thread, which in a fleet the servers' own CPUs take. Their \
            certificate has a key of Ed25519; one of RSA costs a server many times more to sign with, and a client less to verify. \
            Each time is that of the whole command, from its start to its exit, with `--ssl-mode=VERIFY_CA` where nothing else \
            is said. *Without TLS* is the same command with stub servers of its own. *The second question* is that of \
            `--repeat` with `--times 2`: from the instant at which the command would have been started to the last row, the \
            start of a program (of the first question) included. *mysql_async* connects on one thread, 1,000 at a time, sets the \
            session read only, asks, and drops the rows; it verifies the authority and a name, and the start of a program \
            is not in its time.",
    run: |bench| Box::pin(run(bench)),
};

/// A list of stub servers, and how they are asked.
struct Asked<'a> {
    bench: &'a Bench,
    stub: &'a Stub,
    list: String,
    servers: u32,
    flags: Vec<String>,
}

/// What one measurement took, of each round, milliseconds.
#[derive(Default)]
struct Times {
    whole: Vec<f64>,
    /// Of it, CPU time of the stub servers' thread.
    stub: Vec<f64>,
}

impl Times {
    fn measure(&mut self, asked: &Asked<'_>) -> anyhow::Result<()> {
        let before = asked.stub.cpu_time()?;
        self.whole.push(ms(asked.once()?));
        self.stub.push(ms(asked.stub.cpu_time()?.saturating_sub(before)));
        Ok(())
    }
}

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        anyhow::Ok(path.display().to_string())
    };
    let certificate = Certificate::new()?;
    let ca = file("ca.pem", &certificate.pem())?;
    let entrance = Entrance { certificate: Some(certificate), login: Login::Cached };
    let with_tls = Stub::start_behind(&entrance, Conduct::Answer(value("1", "1")))?;
    let plain = Stub::start(Conduct::Answer(value("1", "1")))?;
    let asked = |stub, servers: u32, flags: &[&str]| {
        let list = file(&format!("{servers}-{}", Stub::port(stub)), &Stub::list(stub, servers))?;
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        anyhow::Ok(Asked { bench, stub, list, servers, flags })
    };
    let trusted = format!("--ssl-ca={ca}");
    let verified = ["--ssl-mode=VERIFY_CA", trusted.as_str()];
    let few = asked(&with_tls, FEW, &verified)?;
    let few_unverified = asked(&with_tls, FEW, &["--ssl-mode=REQUIRED"])?;
    let few_plain = asked(&plain, FEW, &[])?;
    let few_resumed = asked(&with_tls, FEW, &[verified[0], verified[1], "--connections", NONE_STAYS])?;
    let many = asked(&with_tls, MANY, &verified)?;
    let many_plain = asked(&plain, MANY, &[])?;

    let mut times: [Times; 5] = Default::default();
    let mut others: [Vec<f64>; 6] = Default::default();
    for round in 1..=bench.runs {
        progress(&format!("fleet-tls: round {round} of {}", bench.runs));
        for (times, asked) in times.iter_mut().zip([&few, &few_plain, &few_unverified, &many, &many_plain]) {
            times.measure(asked)?;
        }
        for (times, servers) in others.iter_mut().zip([FEW, MANY]) {
            let (servers, port) = (addresses(servers).collect(), with_tls.port());
            let authority = PathBuf::from(&ca);
            let took =
                tokio::task::spawn_blocking(move || driver::run_with_tls(servers, port, PASSWORD, authority))
                    .await??;
            times.push(ms(took));
        }
        others[2].push(ms(few.second(FEW_EVERY_S, false)?));
        others[3].push(ms(few_resumed.second(FEW_EVERY_S, true)?));
        others[4].push(ms(many.second(MANY_EVERY_S, true)?));
        others[5].push(resident::most_mib(many.command().stdout(Stdio::null()))?);
    }
    let [few, few_plain, few_unverified, many, many_plain] =
        times.map(|times| (Spread::from_values(&times.whole), Spread::from_values(&times.stub)));
    let [few_driver, many_driver, kept, few_resumed, many_resumed, resident] =
        others.map(|values| Spread::from_values(&values));
    let measured = |(whole, stub): (Spread, Spread)| {
        format!("{}; stub servers {} ms", whole.text("ms"), short(stub.median))
    };
    let peer = |driver: Spread| format!("mysql_async: {} ms", short(driver.median));
    let against = |driver: Spread, ours: Spread| {
        let times = driver.median / ours.median;
        (format!("{} times", short(times)), times >= 1.0)
    };
    let (few_against, few_is_faster) = against(few_driver, few.0);
    let (many_against, many_is_faster) = against(many_driver, many.0);
    Ok(vec![
        Row::goal("1,000 servers", measured(few), "<= 500 ms", few.0.median <= 500.0)
            .beside(peer(few_driver), few_driver.median / few.0.median),
        Row::plain("1,000 servers, `--ssl-mode=REQUIRED`: nothing verified", measured(few_unverified)),
        Row::plain("1,000 servers, without TLS", measured(few_plain)),
        Row::plain("1,000 servers, mysql_async on one thread", few_driver.text("ms")),
        Row::goal("mysql_async / spindoctor, 1,000 servers", few_against, ">= 1 times", few_is_faster),
        Row::goal("10,000 servers", measured(many), "<= 5000 ms", many.0.median <= 5000.0)
            .beside(peer(many_driver), many_driver.median / many.0.median),
        Row::plain("10,000 servers, without TLS", measured(many_plain)),
        Row::plain("10,000 servers, mysql_async on one thread", many_driver.text("ms")),
        Row::goal("mysql_async / spindoctor, 10,000 servers", many_against, ">= 1 times", many_is_faster),
        Row::goal(
            "1,000 servers, the second question, over connections that stayed",
            kept.text("ms"),
            "<= without TLS",
            kept.median <= few_plain.0.median,
        ),
        Row::plain("1,000 servers, the second question, with session tickets", few_resumed.text("ms")),
        Row::plain("10,000 servers, the second question, with session tickets", many_resumed.text("ms")),
        Row::plain("resident memory, 10,000 servers", resident.text("MiB")),
    ])
}

impl Asked<'_> {
    fn command(&self) -> Command {
        let mut command = self.bench.spindoctor.command();
        command.args(["fleet", "query", "SELECT 1", "--no-defaults", "-u", "app"]);
        command.arg(format!("-p{PASSWORD}")).args(["--servers", &self.list]).args(&self.flags);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Asks once, and looks whether everybody answered.
    fn once(&self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let output = self.command().output()?;
        let took = begun.elapsed();
        let rows = rows(&output.stdout);
        ensure!(
            output.status.success() && rows == self.servers as usize,
            "{rows} rows of {} servers: {}",
            self.servers,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(took)
    }

    /// Asks twice. The time of the second question, and whether the sessions of the first were resumed for it as they should be.
    fn second(&self, every_s: u64, is_resumed: bool) -> anyhow::Result<Duration> {
        let before = self.stub.handshakes();
        let mut command = self.command();
        command.args(["--times", "2", "--repeat", &format!("{every_s}s")]).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let mut out = child.stdout.take().context("it is piped")?;
        let (mut came, mut buffer, wanted) = (0, vec![0; 64 << 10], 2 * self.servers as usize);
        while came < wanted {
            let read = out.read(&mut buffer)?;
            ensure!(read > 0, "{came} rows of {wanted}");
            came += rows(&buffer[..read]);
        }
        let took = begun.elapsed();
        let status = child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        let after = self.stub.handshakes();
        let (full, resumed) = (after.full - before.full, after.resumed - before.resumed);
        let servers = u64::from(self.servers);
        ensure!(
            (full, resumed) == (servers, if is_resumed { servers } else { 0 }),
            "{full} full handshakes and {resumed} resumed ones of {servers} servers"
        );
        took.checked_sub(Duration::from_secs(every_s)).context("it was asked again too early")
    }
}

fn rows(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
