//! The share of CPU that is burnt in spin-wait loops, beside what perf annotate says of the same seconds.

use crate::page::Row;
use crate::{Bench, Benchmark};

pub(crate) const BENCHMARK: Benchmark =
    Benchmark { name: "spin-share", story: "", run: |bench| Box::pin(run(bench)) };

async fn run(_: &Bench) -> anyhow::Result<Vec<Row>> {
    Ok(Vec::new())
}
