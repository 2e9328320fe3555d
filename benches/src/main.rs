//! `make bench`: what spindoctor costs the server it looks at and how fast it is, on real servers under real load.
//!
//! Each benchmark has a file, runs the built program as a user would, with its peers in the same run, and gives rows
//! for `BENCHMARKS.md`. Nothing here is a test: a slow machine fails no build.

mod comparisons;
mod counter;
mod cpu_time;
mod fleet;
mod halting;
mod idle_threads;
mod limits;
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
mod stale;
mod start;
mod throughput;
mod tuning;
mod wait_graph;
mod whole_runs;
mod workload;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use spindoctor_lab::Home;

use page::{Row, Section};
use program::Spindoctor;

/// Every benchmark, in the order of `BENCHMARKS.md`.
const BENCHMARKS: &[&Benchmark] = &[
    &start::BENCHMARK,
    &snapshot::BENCHMARK,
    &idle_threads::BENCHMARK,
    &spin_share::BENCHMARK,
    &wait_graph::BENCHMARK,
    &page_cache::BENCHMARK,
    &throughput::BENCHMARK,
    &whole_runs::BENCHMARK,
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
    &fleet::tls::BENCHMARK,
    &fleet::doctor::BENCHMARK,
    &tuning::mis_set_spin::BENCHMARK,
    &tuning::by_waits::BENCHMARK,
    &tuning::truth_table::BENCHMARK,
    &tuning::no_effect::BENCHMARK,
    &tuning::killed::BENCHMARK,
    &tuning::experiments::BENCHMARK,
    &tuning::spin_loops::BENCHMARK,
    &tuning::predicted::BENCHMARK,
];

/// They are run where they are named: the first two take an hour and more, the others are of a kind that few change.
const APART: [&str; 4] = ["recorded-hour", "no-effect", "by-waits", "predicted"];

/// The page.
const PAGE: &str = "BENCHMARKS.md";

/// A benchmark.
struct Benchmark {
    /// What it is called.
    name: &'static str,
    /// Files and folders of the project that its numbers come from, below which everything counts but tests and pages: the code
    /// that the measured command runs through for what is measured. Where one of them has changed, the numbers are stale.
    of: &'static [&'static str],
    /// About how many minutes it takes with twelve runs. What it took stands in its section.
    minutes: u32,
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
    /// List the sections of the page that are older than what they measure; exit with 1 where there are any
    #[arg(long, conflicts_with_all = ["names", "only", "rerun_stale"])]
    stale: bool,
    /// Measure exactly those again, those that take the shortest first
    #[arg(long, conflicts_with_all = ["names", "only"])]
    rerun_stale: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let asked = Asked::parse();
    if let Some(&[port, servers, bytes]) = asked.read.as_deref() {
        tokio::task::spawn_blocking(move || {
            fleet::reading::run(servers, u16::try_from(port)?, bytes as usize)
        })
        .await??;
        return Ok(ExitCode::SUCCESS);
    }
    if asked.stale {
        let stale = stale::sections(asked.page())?;
        for (benchmark, reason) in &stale {
            print(&format!("{} (about {} min): {reason}\n", benchmark.name, benchmark.minutes));
        }
        return Ok(if stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let chosen = asked.chosen()?;
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
    for benchmark in chosen {
        progress(&format!("{}: about {} min", benchmark.name, benchmark.minutes));
        let begun = Instant::now();
        match (benchmark.run)(&bench).await {
            Ok(rows) => {
                let took = minutes_text(begun.elapsed());
                progress(&format!("{}: took {took}", benchmark.name));
                sections.push(Section {
                    name: benchmark.name,
                    story: benchmark.story,
                    with: format!("{with}; took {took}"),
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
    Ok(ExitCode::SUCCESS)
}

impl Asked {
    /// The page whose sections may be stale.
    fn page(&self) -> &Path {
        self.markdown.as_deref().unwrap_or(Path::new(PAGE))
    }

    /// What is to be measured, in this order.
    fn chosen(&self) -> anyhow::Result<Vec<&'static Benchmark>> {
        if self.rerun_stale {
            let mut stale: Vec<_> =
                stale::sections(self.page())?.into_iter().map(|(benchmark, _)| benchmark).collect();
            stale.sort_by_key(|benchmark| benchmark.minutes);
            return Ok(stale);
        }
        if let Some(unknown) = self.names.iter().find(|name| BENCHMARKS.iter().all(|b| b.name != **name)) {
            let known: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
            bail!("there is no benchmark {unknown}; there are {}", known.join(", "));
        }
        if !self.only.is_empty() && self.names != [recorded_scenarios::BENCHMARK.name] {
            bail!(
                "--only goes with {} alone: the others have no scenarios",
                recorded_scenarios::BENCHMARK.name
            );
        }
        let is_asked = |benchmark: &&&'static Benchmark| match self.names.is_empty() {
            true => !APART.contains(&benchmark.name),
            false => self.names.iter().any(|name| name == benchmark.name),
        };
        Ok(BENCHMARKS.iter().filter(is_asked).copied().collect())
    }
}

/// `12 min`, `0.7 min`
fn minutes_text(took: Duration) -> String {
    let minutes = took.as_secs_f64() / 60.0;
    if minutes >= 9.95 { format!("{minutes:.0} min") } else { format!("{minutes:.1} min") }
}

#[expect(clippy::print_stdout, reason = "the page is what the program is for")]
fn print(page: &str) {
    print!("{page}");
}

#[expect(clippy::print_stderr, reason = "a benchmark takes minutes; somebody watches")]
fn progress(what: &str) {
    eprintln!("bench: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is run where nothing is named: two and a half hours, and something for a slower machine.
    const MOST_MINUTES: u32 = 160;

    #[test]
    fn the_benchmarks_are_done_in_one_sitting() {
        let in_one = BENCHMARKS.iter().filter(|benchmark| !APART.contains(&benchmark.name));
        let minutes: u32 = in_one.map(|benchmark| benchmark.minutes).sum();
        assert!(minutes <= MOST_MINUTES, "{minutes} min");
        assert!(APART.iter().all(|name| BENCHMARKS.iter().any(|benchmark| benchmark.name == *name)));
        assert_eq!(minutes_text(Duration::from_secs(42)), "0.7 min");
        assert_eq!(minutes_text(Duration::from_secs(735)), "12 min");
    }

    #[test]
    fn what_a_benchmark_measures_is_there() {
        let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for benchmark in BENCHMARKS {
            assert!(!benchmark.of.is_empty(), "{} measures nothing", benchmark.name);
            for path in benchmark.of {
                assert!(workspace.join(path).exists(), "{}: no {path}", benchmark.name);
            }
        }
    }
}
