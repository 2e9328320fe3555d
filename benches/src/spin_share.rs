//! The share of CPU that is burnt in spin-wait loops, beside what perf says of the same seconds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec};

use crate::page::Row;
use crate::paired::Spread;
use crate::peer::PERF;
use crate::{Bench, Benchmark, progress};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// CPU samples a second, of both.
const HZ: &str = "999";
/// Functions with a smaller share of perf's samples are not annotated: each takes perf a second or two, and the loops
/// that are compared hold tens of percent.
const ANNOTATED: f64 = 0.005;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "spin-share",
    of: &["crates/profile", "crates/stacks", "crates/spindoctor/src/stacks"],
    minutes: 2,
    story: "64 clients of sysbench's oltp_update_index on a MySQL that spins on its latches forty times longer than it \
            should (`innodb_spin_wait_delay` and `innodb_spin_wait_pause_multiplier` at 100). `spindoctor stacks --cpu \
            --hz 999` and `perf record -F 999 -e cpu-clock` look at the same 10 s. perf's share is that of the \
            samples that `perf annotate` puts on a PAUSE or on the instruction behind it, where a timer's interrupt \
            finds it; spindoctor decodes the loop around each sampled address.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let options = [
        "--disable-log-bin",
        "--innodb-log-writer-threads=OFF",
        "--innodb-spin-wait-delay=100",
        "--innodb-spin-wait-pause-multiplier=100",
    ];
    let spec = ServerSpec {
        tables: Some(TABLES),
        options: options.map(str::to_owned).into(),
        ..ServerSpec::default()
    };
    let server = Server::start(&bench.home, &spec, &progress).await?;
    let workload = Workload::OltpUpdateIndex;
    let load = Load::start(server.socket(), LoadSpec { workload, threads: 64, rate: None, tables: TABLES })?;
    tokio::time::sleep(Duration::from_secs(3)).await;

    let folder = server.data().with_extension("bench");
    std::fs::create_dir_all(&folder)?;
    let recorded = folder.join("perf.data");
    let pid = server.pid().to_string();
    let (mut ours, mut perfs, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = bench.runs.div_ceil(3);
    for round in 1..=rounds {
        progress(&format!("spin-share: round {round} of {rounds}"));
        let mut perf = Command::new(PERF.name)
            .args(["record", "-q", "-F", HZ, "-e", "cpu-clock", "-p", &pid, "-o"])
            .arg(&recorded)
            .args(["--", "sleep", "10"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("could not run perf")?;
        let ran = bench
            .spindoctor
            .run(&["stacks", "--pid", &pid, "--cpu", "--hz", HZ, "--duration", "10s", "--json"])
            .await?;
        ensure!(perf.wait()?.success(), "perf record failed");
        let (our_share, perf_share) = (100.0 * ran.number("/spin_share")?, 100.0 * share_by_perf(&recorded)?);
        ours.push(our_share);
        perfs.push(perf_share);
        apart.push((our_share - perf_share).abs());
    }
    std::fs::remove_dir_all(&folder)?;
    load.stop().await;
    server.stop()?;

    let apart = Spread::from_values(&apart);
    Ok(vec![
        Row::plain("spin share, spindoctor", Spread::from_values(&ours).text("%")),
        Row::plain("samples on PAUSE, perf annotate", Spread::from_values(&perfs).text("%")),
        Row::goal("apart", apart.text("points"), "<= 2 points", apart.median <= 2.0),
    ])
}

/// The share of the samples that lie on a PAUSE or on the instruction behind it, from 0 to 1.
fn share_by_perf(recorded: &Path) -> anyhow::Result<f64> {
    let functions = perf(recorded, &["report", "-n", "--no-children", "-s", "sym", "-g", "none"])?;
    let functions: Vec<_> = functions.lines().filter_map(function).collect();
    let all: u64 = functions.iter().map(|(samples, ..)| samples).sum();
    let mut on_pause = 0;
    for (samples, place, name) in functions {
        if place == "[.]" && samples as f64 >= ANNOTATED * all as f64 && !name.starts_with("0x") {
            on_pause += pauses(&perf(recorded, &["annotate", "-n", "-s", name])?);
        }
    }
    ensure!(all > 0, "perf recorded no sample");
    Ok(on_pause as f64 / all as f64)
}

/// `    75.97%          7990  [.] ut_delay` (perf 6.1)
fn function(line: &str) -> Option<(u64, &str, &str)> {
    let (_, rest) = line.trim_start().split_once('%')?;
    let (samples, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    let (place, name) = rest.trim_start().split_once(' ')?;
    Some((samples.parse().ok()?, place, name.trim()))
}

/// Samples on a PAUSE and on the instruction behind it, in the annotation of a function.
fn pauses(annotation: &str) -> u64 {
    let mut behind_pause = false;
    let mut counted = 0;
    for (samples, instruction) in annotation.lines().filter_map(instruction) {
        let pause = instruction.starts_with("pause");
        if pause || behind_pause {
            counted += samples;
        }
        behind_pause = pause;
    }
    counted
}

/// `    7987 :   2a0fad5:        add    $0x1,%rax // ??:0` (perf 6.1)
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (samples, rest) = line.split_once(" : ")?;
    let (address, instruction) = rest.trim_start().split_once(':')?;
    u64::from_str_radix(address, 16).ok()?;
    Some((samples.trim().parse().ok()?, instruction.trim_start()))
}

fn perf(recorded: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(PERF.name)
        .arg(arguments[0])
        .arg("-i")
        .arg(recorded)
        .args(["--stdio", "--stdio-color", "never"])
        .args(&arguments[1..])
        .stdin(Stdio::null())
        .output()
        .context("could not run perf")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_on_pause_are_counted_as_perf_prints_them() {
        let annotation = "       0 :   2a0fad0:        add    %rax,%rdx\n       2 :   2a0fad3:        pause\n    \
                          7987 :   2a0fad5:        add    $0x1,%rax // ??:0\n       3 :   2a0fad9:        cmp    %rax,%rdi\n";
        assert_eq!(pauses(annotation), 7989);
        assert_eq!(function("    75.97%          7990  [.] ut_delay   "), Some((7990, "[.]", "ut_delay")));
        assert_eq!(function("# Samples: 10K of event 'cpu-clock'"), None);
    }
}
