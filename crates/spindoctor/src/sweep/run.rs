//! `spindoctor sweep`: a grid of settings and numbers of clients, measured with sysbench.
//!
//! Each run: set the setting (through `tune::apply`, also where it does not change), load for the warm-up, measure,
//! keep the result in a file. A failed run ends the sweep; the finished runs are reported, and the sweep can be
//! resumed. With `--compare` nothing is measured: [`comparison`].

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use spindoctor_lab::load::{LoadSpec, Mark, measure};
use spindoctor_model::stack::CycleCount;
use spindoctor_safefile::Folder;
use spindoctor_stacks::capture::counts::CycleCounter;
use spindoctor_tune::apply::{Settings, TakeOptions};
use spindoctor_tune::interrupt::Interrupts;
use spindoctor_tune::sweep::{Axis, Cell, Grid, Measured, Sweep};
use spindoctor_tune::variables::{Variable, find};

use super::args::Sweep as Asked;
use super::cells::Cells;
use super::server::Swept;
use super::{comparison, csv, html, limits, png, svg, text, view as sweep_view};
use crate::common::exit::ExitStatus;
use crate::common::runtime::wait_for;
use crate::common::{output, terminal};
use spindoctor_page::safe::safe;
use spindoctor_page::{json, number};

/// Runs that a grid may have: more is a mistake in writing it.
const MOST_RUNS: usize = 100_000;
/// Longer than a run lasts by this much, sysbench or the server hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures the grid.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    let outputs: [(&Option<PathBuf>, &[&str]); 4] = [
        (&asked.svg, &["svg"]),
        (&asked.png, &["png"]),
        (&asked.html, output::HTML),
        (&asked.resume, &["jsonl", "json"]),
    ];
    for (file, endings) in outputs {
        if let Some(file) = file {
            output::expect_writable(file, endings)?;
        }
    }
    if let Some([a, b]) = asked.compare.as_deref() {
        comparison::run(asked, a, b)?;
        return Ok(ExitStatus::Done);
    }
    let axes = axes(&asked.set)?;
    let mut grid = Grid { axes: Vec::new(), threads: asked.threads.clone(), runs: asked.runs };
    grid.threads.sort_unstable();
    grid.threads.dedup();
    let others = limits::axes(asked)?;
    let (sweep, ended) = wait_for(sweep(asked, &axes, others, grid))?;
    write(asked, &sweep)?;
    match ended {
        None => Ok(ExitStatus::Done),
        Some(why) => Err(why),
    }
}

/// A variable that is swept, and its values as the user wrote them.
type Swings = (&'static Variable, Vec<String>);

fn axes(set: &[(String, Vec<String>)]) -> anyhow::Result<Vec<Swings>> {
    let mut axes: Vec<Swings> = Vec::new();
    for (name, values) in set {
        let variable = find(name)?;
        if axes.iter().any(|(other, _)| other.name == variable.name) {
            bail!("--set {} is given twice: write all of its values in one list", variable.name);
        }
        axes.push((variable, values.clone()));
    }
    Ok(axes)
}

/// The sweep, and why it ended early where it did.
async fn sweep(
    asked: &Asked,
    axes: &[Swings],
    others: Vec<Axis>,
    mut grid: Grid,
) -> anyhow::Result<(Sweep, Option<anyhow::Error>)> {
    let mut interrupts = Interrupts::listen().context("could not listen for Ctrl-C")?;
    let mut swept = tokio::select! {
        begun = Swept::begin(asked) => begun?,
        signal = interrupts.next() => bail!("{signal}: interrupted before the first run"),
    };
    for (variable, values) in axes {
        let mut checked = Vec::new();
        for value in values {
            let value = variable.value(swept.version, value)?;
            if !checked.contains(&value) {
                checked.push(value);
            }
        }
        // Its value before is none that anything is measured with, and after a kill it is one of the sweep's.
        swept.conditions.settings.remove(variable.name);
        grid.axes.push(Axis { variable: variable.name.to_owned(), values: checked });
    }
    grid.axes.extend(others);
    if grid.size() > MOST_RUNS {
        bail!("{} runs are too many: {MOST_RUNS} is the most", grid.size());
    }
    let mut cells = Cells::open(&kept_in(asked)?, &swept.conditions)?;
    let mut settings = match axes {
        [] => None,
        _ => {
            let variables: Vec<&'static Variable> = axes.iter().map(|(variable, _)| *variable).collect();
            Some(Settings::take(&swept.target, &variables, &TakeOptions::of_process()?).await?)
        }
    };
    let mut not_counted = None;
    let ended = tokio::select! {
        ended = runs(asked, &swept, &grid, settings.as_mut(), &mut cells, &mut not_counted) => ended.err(),
        signal = interrupts.next() => Some(anyhow::anyhow!("{signal}: interrupted")),
    };
    let ended = match settings {
        None => ended,
        Some(settings) => ended.or(settings.restore().await.err().map(Into::into)),
    };
    let done = std::mem::take(&mut cells.done);
    let no_cycles = not_counted.map(|why| format!("CPU cycles were not counted: {why}"));
    let notes = limits::note(asked).into_iter().chain(no_cycles).collect();
    let sweep = Sweep::from_measured(swept.conditions.clone(), grid, done, notes);
    let ended = ended.or(swept.end().err());
    if sweep.missing() == 0 && asked.resume.is_none() {
        cells.remove();
    }
    let go_on = |why: anyhow::Error| {
        why.context(format!(
            "the sweep ended after {} of {} runs; go on with the same command and --resume {}",
            sweep.cells.len(),
            sweep.grid.size(),
            cells.path().display()
        ))
    };
    let ended = ended.map(go_on);
    Ok((sweep, ended))
}

/// Makes the runs that are missing, one after the other.
async fn runs(
    asked: &Asked,
    swept: &Swept,
    grid: &Grid,
    mut settings: Option<&mut Settings>,
    cells: &mut Cells,
    not_counted: &mut Option<String>,
) -> anyhow::Result<()> {
    let left = grid.left(&cells.done, &mut |bound| fastrand::usize(..bound.max(1)));
    let each = asked.warmup + asked.seconds;
    output::note(&format!(
        "sweep: {} of {} runs to make, about {}; finished ones are kept in {}",
        left.len(),
        grid.size(),
        number::duration((each * left.len() as u32).as_secs_f64()),
        safe(&cells.path().display().to_string())
    ));
    let begun = Instant::now();
    for (at, cell) in left.iter().enumerate() {
        if let Some(settings) = settings.as_deref_mut() {
            let values = cell.setting.variables().map(|it| Ok((find(&it.variable)?, it.value.clone())));
            settings.set(&values.collect::<anyhow::Result<Vec<_>>>()?).await?;
        }
        swept.limit(&cell.setting)?;
        let one = one(asked, swept, cell.clone(), not_counted);
        let measured = match tokio::time::timeout(3 * each + PATIENCE, one).await {
            Ok(measured) => measured?,
            Err(_) => bail!("a run of {} s did not end", each.as_secs()),
        };
        let ahead = begun.elapsed().as_secs_f64() / (at + 1) as f64 * (left.len() - at - 1) as f64;
        output::note(&format!(
            "sweep: {} of {}, {} to go: {}",
            at + 1,
            left.len(),
            number::duration(ahead.round()),
            safe(&sweep_view::run_text(&measured))
        ));
        cells.push(measured)?;
    }
    Ok(())
}

/// One run.
async fn one(
    asked: &Asked,
    swept: &Swept,
    cell: Cell,
    not_counted: &mut Option<String>,
) -> anyhow::Result<Measured> {
    let workload = limits::workload(asked, &cell.setting)?;
    let spec = LoadSpec { workload, threads: cell.threads, rate: None, tables: swept.tables() };
    let (mut counter, mut counted) = (None, None);
    let mut marks: Vec<(Instant, Timestamp, Option<f64>)> = Vec::new();
    let mut mark = |mark: Mark| {
        if mark == Mark::Begin {
            marks.clear();
        }
        marks.push((Instant::now(), Timestamp::now(), swept.cpu_us()));
        match mark {
            Mark::Begin => counter = swept.pid().map(CycleCounter::start),
            Mark::End => counted = counter.take().map(|counter| counter.and_then(|counter| counter.read())),
        }
    };
    let load = measure(swept.login(), spec, asked.warmup, asked.seconds, &mut mark).await?;
    let cpu_us_per_s =
        |from: Option<f64>, to: Option<f64>, time: Duration| Some((to? - from?) / time.as_secs_f64());
    let (at, cpu_us_per_s) = match marks.as_slice() {
        [(begun, at, before), (ended, _, after)] => (*at, cpu_us_per_s(*before, *after, *ended - *begun)),
        _ => (Timestamp::now(), None),
    };
    let cycles = match counted {
        Some(Ok(cycles)) => Some(cycles),
        Some(Err(why)) => {
            not_counted.get_or_insert(why.to_string());
            None
        }
        None => None,
    };
    let per_query = |cycles: CycleCount| cycles.cycles as f64 / cycles.seconds / load.queries_per_s;
    Ok(Measured {
        cell,
        at,
        seconds: load.seconds,
        transactions_per_s: load.transactions_per_s,
        queries_per_s: load.queries_per_s,
        p95_ms: load.latency_p95_ms,
        cpu_us_per_query: cpu_us_per_s.map(|cpu| cpu / load.queries_per_s).filter(|cpu| cpu.is_finite()),
        errors_per_s: load.errors_per_s,
        fairness: load.fairness,
        cycles_per_query: cycles.map(per_query).filter(|cycles| cycles.is_finite()),
        cycles_per_instruction: cycles.and_then(|cycles| cycles.per_instruction()),
    })
}

/// The file that the user names, or one of our own that is gone when the sweep is whole.
fn kept_in(asked: &Asked) -> anyhow::Result<PathBuf> {
    if let Some(file) = &asked.resume {
        return Ok(file.clone());
    }
    let folder = TakeOptions::of_process()?.state.join("sweeps");
    Folder::private(&folder)
        .with_context(|| format!("could not make {}; name a file with --resume", folder.display()))?;
    Ok(folder.join(format!("{}-{}.jsonl", Timestamp::now().strftime("%Y%m%d-%H%M%S"), std::process::id())))
}

fn write(asked: &Asked, sweep: &Sweep) -> anyhow::Result<()> {
    let svg = svg::render(&sweep.into());
    if let Some(file) = &asked.svg {
        output::write_file(file, &svg, "the charts")?;
    }
    if let Some(file) = &asked.png {
        let png = png::render(&svg).context("could not draw the charts")?;
        output::write_file(file, png, "the charts")?;
    }
    if let Some(file) = &asked.html {
        output::write_file(file, html::render(sweep), "the page")?;
    }
    match (asked.json, asked.csv) {
        (true, _) => output::print(&json::to_text(sweep).context("could not write the sweep as JSON")?),
        (_, true) => output::print_format("csv", csv::render(sweep).as_bytes()),
        _ => output::print(&text::render(sweep, terminal::look_of_stdout())),
    }
}
