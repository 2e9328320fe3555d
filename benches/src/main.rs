//! `make bench`: what spindoctor costs the server it looks at and how fast it is, on real servers under real load.
//!
//! Each benchmark has a file, runs the built program as a user would, with its peers in the same run, and gives rows
//! for `BENCHMARKS.md`. Nothing here is a test: a slow machine fails no build.

mod comparisons;
mod counter;
mod fleet;
mod halting;
mod idle_threads;
mod machine;
mod page;
mod page_cache;
mod paired;
mod peer;
mod program;
mod quads;
mod recorded_scenarios;
mod recorder;
mod snapshot;
mod spin_share;
mod throughput;
mod tuning;
mod wait_graph;
mod workload;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;
use spindoctor_lab::Home;

use page::{Row, Section};
use program::Spindoctor;

/// Every benchmark, in the order of `BENCHMARKS.md`.
const BENCHMARKS: &[&Benchmark] = &[
    &snapshot::BENCHMARK,
    &idle_threads::BENCHMARK,
    &spin_share::BENCHMARK,
    &wait_graph::BENCHMARK,
    &page_cache::BENCHMARK,
    &throughput::BENCHMARK,
    &workload::BENCHMARK,
    &comparisons::BENCHMARK,
    &recorder::cost::BENCHMARK,
    &recorder::connections::BENCHMARK,
    &recorder::throughput::BENCHMARK,
    &recorder::stalls::BENCHMARK,
    &recorded_scenarios::BENCHMARK,
    &recorder::steady::BENCHMARK,
    &recorder::replay::BENCHMARK,
    &fleet::query::BENCHMARK,
    &fleet::doctor::BENCHMARK,
    &tuning::mis_set_spin::BENCHMARK,
    &tuning::truth_table::BENCHMARK,
    &tuning::no_effect::BENCHMARK,
    &tuning::killed::BENCHMARK,
    &tuning::experiments::BENCHMARK,
    &tuning::spin_loops::BENCHMARK,
];

/// It takes an hour: it is run where it is named.
const APART: &str = "recorded-hour";

/// A benchmark.
struct Benchmark {
    /// What it is called.
    name: &'static str,
    /// What is measured and how, in a paragraph.
    story: &'static str,
    /// Measures.
    run: Run,
}

type Run = for<'a> fn(&'a Bench) -> Pin<Box<dyn Future<Output = anyhow::Result<Vec<Row>>> + 'a>>;

/// What every benchmark needs.
struct Bench {
    home: Home,
    spindoctor: Spindoctor,
    /// How often each measurement is repeated.
    runs: usize,
    /// Of a benchmark with many scenarios these only; all where it is empty.
    only: Vec<String>,
    /// How long the steady load lasts.
    steady: Duration,
}

impl Bench {
    /// True where this scenario is to be measured.
    fn wants(&self, scenario: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == scenario)
    }
}

/// What spindoctor costs and how fast it is.
#[derive(Parser)]
struct Asked {
    /// Only these benchmarks
    names: Vec<String>,
    /// The program that is measured
    #[arg(long, default_value = "target/release/spindoctor")]
    spindoctor: PathBuf,
    /// How often each measurement is repeated
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(3..))]
    runs: u16,
    /// Of a benchmark with many scenarios this one only; may be given again
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// How many minutes the steady load of recorded-hour lasts
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    steady: u64,
    /// Only read: so many bytes from each of so many stub servers at this port; a peer of fleet-query
    #[arg(long, hide = true, num_args = 3, value_names = ["PORT", "SERVERS", "BYTES"])]
    read: Option<Vec<u32>>,
    /// Write the page here; what was not measured now stays as it stands there
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let asked = Asked::parse();
    if let Some(&[port, servers, bytes]) = asked.read.as_deref() {
        return tokio::task::spawn_blocking(move || {
            fleet::reading::run(servers, u16::try_from(port)?, bytes as usize)
        })
        .await?;
    }
    if let Some(unknown) = asked.names.iter().find(|name| BENCHMARKS.iter().all(|b| b.name != **name)) {
        let known: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        bail!("there is no benchmark {unknown}; there are {}", known.join(", "));
    }
    if !asked.only.is_empty() && asked.names != [recorded_scenarios::BENCHMARK.name] {
        bail!("--only goes with {} alone: the others have no scenarios", recorded_scenarios::BENCHMARK.name);
    }
    let bench = Bench {
        home: Home::open()?,
        spindoctor: Spindoctor::at(&asked.spindoctor)?,
        runs: usize::from(asked.runs),
        only: asked.only.clone(),
        steady: Duration::from_mins(asked.steady),
    };
    let with = machine::description(&bench.spindoctor)?;
    let order: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
    let (mut sections, mut failed) = (Vec::new(), Vec::new());
    for benchmark in BENCHMARKS
        .iter()
        .filter(|b| asked.names.iter().any(|n| n == b.name) || asked.names.is_empty() && b.name != APART)
    {
        progress(&format!("{}:", benchmark.name));
        match (benchmark.run)(&bench).await {
            Ok(rows) => {
                sections.push(Section {
                    name: benchmark.name,
                    story: benchmark.story,
                    with: with.clone(),
                    only: bench.only.clone(),
                    rows,
                });
            }
            // The minutes that the others took are not thrown away.
            Err(error) => failed.push(format!("{}: {error:#}", benchmark.name)),
        }
        // Nor are they where somebody ends it before its end.
        if let Some(file) = &asked.markdown {
            let earlier = std::fs::read_to_string(file).unwrap_or_default();
            std::fs::write(file, page::render(&earlier, &sections, &order))
                .with_context(|| format!("could not write {}", file.display()))?;
        }
    }
    if asked.markdown.is_none() {
        print(&page::render("", &sections, &order));
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the page is what the program is for")]
fn print(page: &str) {
    print!("{page}");
}

#[expect(clippy::print_stderr, reason = "a benchmark takes minutes; somebody watches")]
fn progress(what: &str) {
    eprintln!("bench: {what}");
}
