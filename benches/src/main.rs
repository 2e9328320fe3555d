//! `make bench`: what spindoctor costs the server it looks at and how fast it is, on real servers under real load.
//!
//! Each benchmark has a file, runs the built program as a user would, with its peers in the same run, and gives rows
//! for `BENCHMARKS.md`. Nothing here is a test: a slow machine fails no build.

mod idle_threads;
mod machine;
mod page;
mod paired;
mod peer;
mod program;
mod snapshot;
mod spin_share;
mod throughput;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use anyhow::{Context as _, bail};
use clap::Parser;
use spindoctor_lab::Home;

use page::{Row, Section};
use program::Spindoctor;

/// Every benchmark, in the order of `BENCHMARKS.md`.
const BENCHMARKS: &[&Benchmark] =
    &[&snapshot::BENCHMARK, &idle_threads::BENCHMARK, &spin_share::BENCHMARK, &throughput::BENCHMARK];

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
    /// Write the page here
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let asked = Asked::parse();
    if let Some(unknown) = asked.names.iter().find(|name| BENCHMARKS.iter().all(|b| b.name != **name)) {
        let known: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        bail!("there is no benchmark {unknown}; there are {}", known.join(", "));
    }
    let bench = Bench {
        home: Home::open()?,
        spindoctor: Spindoctor::at(&asked.spindoctor)?,
        runs: usize::from(asked.runs),
    };
    let mut sections = Vec::new();
    for benchmark in
        BENCHMARKS.iter().filter(|b| asked.names.is_empty() || asked.names.iter().any(|n| n == b.name))
    {
        progress(&format!("{}:", benchmark.name));
        let rows = (benchmark.run)(&bench).await.with_context(|| format!("benchmark {}", benchmark.name))?;
        sections.push(Section { name: benchmark.name, story: benchmark.story, rows });
    }
    let page = page::render(&machine::told(&bench.spindoctor)?, &sections);
    let Some(file) = asked.markdown else {
        print(&page);
        return Ok(());
    };
    std::fs::write(&file, page).with_context(|| format!("could not write {}", file.display()))
}

#[expect(clippy::print_stdout, reason = "the page is what the program is for")]
fn print(page: &str) {
    print!("{page}");
}

#[expect(clippy::print_stderr, reason = "a benchmark takes minutes; somebody watches")]
fn progress(what: &str) {
    eprintln!("bench: {what}");
}
