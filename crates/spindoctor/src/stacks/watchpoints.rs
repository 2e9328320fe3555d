//! Watchpoints inside the server: too many threads in a function at once, or one in it for too long. Each waits on a
//! thread of its own, so that the snapshot is taken at that instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use spindoctor_stacks::capture::trigger::{DEFAULT_BUDGET, Fired, Trigger, TriggerCost, When};

use super::server::Event;
use crate::common::watchpoint::{self, Watchpoint, milliseconds};
use spindoctor_page::number;

/// How often a watchpoint looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);

/// Those that are armed.
pub struct Watchpoints {
    threads: Vec<JoinHandle<TriggerCost>>,
    unwanted: Arc<AtomicBool>,
}

impl Watchpoints {
    /// Arms them all.
    ///
    /// # Errors
    /// There is no such function, or the kernel refuses.
    pub fn arm(pid: u32, wanted: &[Watchpoint], tell: &Sender<Event>) -> anyhow::Result<Self> {
        let mut armed = Self { threads: Vec::new(), unwanted: Arc::default() };
        for watchpoint in wanted {
            let (ready, is_ready) = channel();
            let (watchpoint, tell, unwanted) =
                (watchpoint.clone(), tell.clone(), Arc::clone(&armed.unwanted));
            let thread = std::thread::Builder::new()
                .name("watchpoint".to_owned())
                .spawn(move || watch(pid, &watchpoint, &ready, &tell, &unwanted))
                .context("could not start a thread")?;
            armed.threads.push(thread);
            expect_armed(&is_ready)?;
        }
        Ok(armed)
    }

    /// Takes them away; what they cost the server, where there were any.
    pub fn end(self) -> Option<String> {
        self.unwanted.store(true, Ordering::Relaxed);
        let costs: Vec<TriggerCost> =
            self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        if costs.is_empty() {
            return None;
        }
        let hits: u64 = costs.iter().map(|cost| cost.hits).sum();
        let cpu: Duration = costs.iter().map(|cost| cost.cpu).sum();
        let untracked: u64 = costs.iter().map(|cost| cost.untracked).sum();
        Some(watchpoint::cost(hits, cpu, untracked))
    }
}

fn expect_armed(is_ready: &Receiver<Result<(), spindoctor_stacks::Error>>) -> anyhow::Result<()> {
    Ok(is_ready.recv().context("the watchpoint failed")??)
}

/// Arms one and waits for it; what it cost.
fn watch(
    pid: u32,
    watchpoint: &Watchpoint,
    ready: &Sender<Result<(), spindoctor_stacks::Error>>,
    tell: &Sender<Event>,
    unwanted: &AtomicBool,
) -> TriggerCost {
    // The thread that armed it may have gone meanwhile.
    let text = |event| drop(tell.send(event));
    let mut trigger = match Trigger::arm(pid, &watchpoint.function, watchpoint.when, DEFAULT_BUDGET) {
        Ok(trigger) => trigger,
        Err(error) => {
            drop(ready.send(Err(error)));
            return TriggerCost::default();
        }
    };
    drop(ready.send(Ok(())));
    while !unwanted.load(Ordering::Relaxed) {
        match trigger.wait(PATIENCE) {
            Ok(None) => {}
            Ok(Some(fired)) => {
                text(Event::Fired(words(watchpoint, fired)));
                break;
            }
            // The snapshots show that, too.
            Err(spindoctor_stacks::Error::NoProcess(_)) => break,
            Err(error) => {
                text(Event::NeverFires(error.to_string()));
                break;
            }
        }
    }
    trigger.cost()
}

fn words(watchpoint: &Watchpoint, fired: Fired) -> String {
    match watchpoint.when {
        When::Inside(_) => {
            let threads = number::counted(fired.inside.into(), "thread", "threads");
            format!("{threads} in {} at once", watchpoint.function)
        }
        When::Slower(_) => {
            format!("thread {} in {} for {}", fired.tid, watchpoint.function, milliseconds(fired.took))
        }
    }
}
