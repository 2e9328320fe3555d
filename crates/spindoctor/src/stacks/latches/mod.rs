//! `spindoctor stacks --latch-waits`: how long threads wait for InnoDB's latches, and for how long to spin on them.

mod text;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use spindoctor_model::Window;
use spindoctor_page::json;
use spindoctor_stacks::capture::trigger::DEFAULT_BUDGET;
use spindoctor_stacks::capture::waits::{LatchWaits, WaitProbes, WaitsCost};

use super::args::Stacks;
use crate::common::latch_waits::{LatchReport, Measured, probes};
use crate::common::progress::Progress;
use crate::common::runtime::wait_for;
use crate::common::session::{Watching, WithoutSession, note, process, target, window_of};
use crate::common::{output, terminal};

/// The window that the server's settings are read in: the shortest with two samples.
const SETTINGS: Duration = Duration::from_secs(1);

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(150);

/// Measures for as long as the flags say, or until Ctrl-C, and prints what was seen.
pub fn run(asked: &Stacks) -> anyhow::Result<()> {
    let connection = &asked.connection;
    if connection.remote {
        return Err(anyhow!(
            "latches are looked at where the server runs: run spindoctor there, without --remote"
        ));
    }
    let target = target(connection)?;
    let (pid, wrong_server) = process(connection, &target)?;
    let mut probes = probes(pid)?;
    let window = match &wrong_server {
        // Its settings are another server's.
        Some(wrong) => {
            note(wrong);
            Window::default()
        }
        None => {
            let without_session = WithoutSession::WatchHost;
            let watching = Watching { duration: SETTINGS, without_session, profiling: None, early: None };
            window_of(&target, connection, watching)?
        }
    };
    let begun = Instant::now();
    let waits = until_interrupted(asked.duration, &mut probes)?;
    let report = LatchReport::new(
        &window,
        &Measured {
            pid,
            seconds: begun.elapsed().as_secs_f64(),
            sleep: probes.sleep_cost(),
            hit: probes.hit_cost(),
            waits: &waits,
            cost: probes.cost(),
        },
    );
    output::print(&match asked.json {
        true => json::to_text(&report).context("could not write the waits as JSON")?,
        false => text::render(&report, terminal::look_of_stdout()),
    })
}

/// The waits of so much time, fewer where Ctrl-C comes before.
fn until_interrupted(duration: Duration, probes: &mut WaitProbes) -> anyhow::Result<Vec<LatchWaits>> {
    let (interrupted, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let is_over = |cost: WaitsCost| {
        hits.store(cost.hits, Ordering::Relaxed);
        interrupted.load(Ordering::Relaxed)
    };
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| probes.measure(duration, DEFAULT_BUDGET, &is_over));
        let begun = Instant::now();
        let mut bar = Progress::new(duration).counting("probe hit", "probe hits");
        wait_for(async {
            while !measuring.is_finished() {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => interrupted.store(true, Ordering::Relaxed),
                    () = tokio::time::sleep(SHOW_EVERY) => {
                        bar.show(begun.elapsed(), hits.load(Ordering::Relaxed) as usize);
                    }
                }
            }
            Ok(())
        })?;
        Ok(measuring.join().map_err(|_| anyhow!("the measurement failed"))??)
    })
}
