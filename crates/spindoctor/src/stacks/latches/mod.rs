//! `spindoctor stacks --latch-waits`: how long threads wait for InnoDB's latches, and for how long to spin on them.

mod change;
mod text;
mod view;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use spindoctor_model::Window;
use spindoctor_page::json;
use spindoctor_stacks::capture::trigger::DEFAULT_BUDGET;
use spindoctor_stacks::capture::waits::{LatchWaits, WaitFunction, WaitProbes, WaitsCost};

use self::view::{LatchReport, Measured};
use super::args::Stacks;
use crate::common::progress::Progress;
use crate::common::runtime::wait_for;
use crate::common::session::{WithoutSession, note, process, target, window_of};
use crate::common::{output, terminal};

/// Where InnoDB spins before it sleeps. MySQL, and MariaDB before 10.6 (sync0rw.cc, ib0mutex.h; sync0sync.cc before 5.7): the
/// slow paths of its rw-locks and mutexes. `rw_lock_x_lock_func` and its sister are called where there is nothing to wait
/// for, too. MariaDB 10.6 and later (srw_lock.cc): the variants that spin, which only mangled names tell from the others.
const LATCHES: &[WaitFunction] = &[
    latch("rw_lock_s_lock_spin", "rw_lock_s_lock_spin"),
    latch("rw_lock_x_lock_func", "rw_lock_x_lock_func"),
    latch("rw_lock_sx_lock_func", "rw_lock_sx_lock_func"),
    latch("TTASEventMutex::spin_and_try_lock", "TTASEventMutex::spin_and_try_lock"),
    latch("mutex_spin_wait", "mutex_spin_wait"),
    latch("srw_mutex_impl::wait_and_lock", "_ZN14srw_mutex_implILb1EE13wait_and_lockEv"),
    latch("ssux_lock_impl::rd_wait", "_ZN14ssux_lock_implILb1EE7rd_waitEv"),
    latch("ssux_lock_impl::wr_wait", "_ZN14ssux_lock_implILb1EE7wr_waitEj"),
];

/// What those call to sleep: the first that a server has. MariaDB 10.6 and later ask the kernel for a futex themselves.
const SLEEPS: &[&str] = &["sync_array_wait_event", "syscall"];

/// The window that the server's settings are read in: the shortest with two samples.
const SETTINGS: Duration = Duration::from_secs(1);

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(150);

const fn latch(name: &'static str, symbol: &'static str) -> WaitFunction {
    WaitFunction { name, symbol }
}

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
    let mut probes = WaitProbes::new(pid, LATCHES, SLEEPS)?;
    let window = match &wrong_server {
        // Its settings are another server's.
        Some(wrong) => {
            note(wrong);
            Window::default()
        }
        None => window_of(&target, connection, SETTINGS, WithoutSession::WatchHost, None)?,
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
