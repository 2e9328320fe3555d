//! The published experiments, each repeated on this machine, whatever the result.

use anyhow::Context as _;
use serde_json::Value;

use crate::page::Row;
use crate::{Bench, Benchmark, progress};

/// Experiments of the lab.
const EXPERIMENTS: [&str; 2] = ["quota-spin", "long-pause"];
/// How long the trial of each may take.
const MOST_TIME: &str = "3m";

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "experiments",
    of: &["crates/tune", "crates/lab/src/experiment", "crates/spindoctor/src/lab"],
    minutes: 7,
    story: "`spindoctor lab run quota-spin --max-time 3m` and `lab run long-pause --max-time 3m`: two published \
            experiments as trials on this machine. Ratios are the new setting to the old one, with the \
            always-valid interval of 95 %.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in EXPERIMENTS {
        progress(&format!("experiments: {name}"));
        let ran = bench.spindoctor.run(&["lab", "run", name, "--json", "--max-time", MOST_TIME]).await?;
        let text = |key: &str| ran.json.pointer(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        rows.push(Row::plain(
            format!("{name}: {} {} -> {}", text("/variable"), text("/from"), text("/to")),
            text("/verdict"),
        ));
        for (key, what) in [("throughput", "throughput"), ("p95", "p95"), ("cpu_per_query", "CPU per query")]
        {
            if let Some(effect) =
                ran.json.pointer(&format!("/effect/{key}")).filter(|effect| !effect.is_null())
            {
                rows.push(Row::plain(
                    format!("{name}: {what}, a ratio"),
                    effect_text(effect).context("an effect has a ratio")?,
                ));
            }
        }
    }
    Ok(rows)
}

/// `1.68 (1.61 to 1.75)`
fn effect_text(effect: &Value) -> Option<String> {
    let number = |key: &str| effect.get(key).and_then(Value::as_f64);
    let ratio = number("ratio")?;
    Some(match (number("low"), number("high")) {
        (Some(low), Some(high)) => format!("{ratio:.3} ({low:.3} to {high:.3})"),
        _ => format!("{ratio:.3} (no interval yet)"),
    })
}
