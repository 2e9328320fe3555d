//! The work of a busy server in a window of time: its queries, and the speed of the CPUs meanwhile.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use spindoctor_lab::Server;

use crate::quads::Window;

/// From one loop of a CPU to the next. Of each CPU the loops take some hundredths, in all windows alike.
const LOOP_EVERY: Duration = Duration::from_millis(4);
/// Steps of a loop: some 50 us.
const LOOP_STEPS: u32 = 10_000;
/// Words that a loop changes, at random: more than a CPU's first cache holds. Of loops that need no memory, of those that
/// wait for its slowest part, and of these, these follow the throughput of sysbench's oltp_point_select most closely.
const LOOP_WORDS: usize = 1 << 15;

/// Counts with a connection of its own. Its answers, and the loops that measure the speed of the CPUs, run before all
/// others (`SCHED_FIFO`), so that what is counted is counted at the time that is written beside it: behind 256 busy
/// threads an answer comes up to 20 ms late, which is more of a window than what is looked for.
pub(crate) struct Counter {
    pub(crate) conn: Conn,
    /// The server's status that counts the queries: `Com_select`.
    counts: &'static str,
    cpus: Vec<Arc<Mutex<Vec<u32>>>>,
    ended: Arc<AtomicBool>,
}

impl Counter {
    pub(crate) async fn start(server: &Server, counts: &'static str) -> anyhow::Result<Self> {
        let mut conn = server.connect().await?;
        let asked =
            "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()";
        let answers: Option<u32> = conn.query_first(asked).await?;
        run_ahead(answers.context("the server does not say which thread answers")?)?;
        run_ahead(std::process::id())?;
        let mut counter = Self { conn, counts, cpus: Vec::new(), ended: Arc::default() };
        let all = sched_getaffinity(None)?;
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)) {
            let (took_ns, ended) = (Arc::default(), Arc::clone(&counter.ended));
            counter.cpus.push(Arc::clone(&took_ns));
            std::thread::spawn(move || {
                if let Err(error) = loop_on(cpu, &took_ns, &ended) {
                    crate::progress(&format!("the speed of CPU {cpu} cannot be measured: {error:#}"));
                }
            });
        }
        Ok(counter)
    }

    /// What the server does from now on in so long: exact to the instants of two answers, where sysbench reports whole
    /// seconds.
    pub(crate) async fn window(&mut self, length: Duration) -> anyhow::Result<Window> {
        let (begun, before) = self.queries().await?;
        self.cpus.iter().for_each(|took_ns| locked(took_ns).clear());
        tokio::time::sleep(length).await;
        let loop_ns = self.loop_ns();
        let (ended, after) = self.queries().await?;
        Ok(Window { queries_per_s: (after - before) / (ended - begun).as_secs_f64(), loop_ns: loop_ns? })
    }

    async fn queries(&mut self) -> anyhow::Result<(Instant, f64)> {
        let asked = format!("SHOW GLOBAL STATUS LIKE '{}'", self.counts);
        let row: Option<(String, String)> = self.conn.query_first(asked).await?;
        let count = row.and_then(|(_, count)| count.parse().ok()).context("the server counts no queries")?;
        Ok((Instant::now(), count))
    }

    /// How long a loop took: the mean of the CPUs' medians. A median, as what interrupts the CPUs belongs to what is measured,
    /// and must not pass for a slow CPU: it meets few of the loops.
    fn loop_ns(&self) -> anyhow::Result<f64> {
        let mut sum = 0.0;
        for took_ns in &self.cpus {
            let mut took_ns = locked(took_ns).clone();
            ensure!(!took_ns.is_empty(), "a CPU ran no loop in a window");
            took_ns.sort_unstable();
            sum += f64::from(took_ns[took_ns.len() / 2]);
        }
        Ok(sum / self.cpus.len() as f64)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Loops on a CPU until the counter is gone.
fn loop_on(cpu: usize, took_ns: &Mutex<Vec<u32>>, ended: &AtomicBool) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only)?;
    run_ahead(gettid().as_raw_nonzero().get().cast_unsigned())?;
    let mut words = vec![0_u32; LOOP_WORDS];
    let mut state = 88_172_645_463_325_252_u64;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(LOOP_EVERY);
        let begun = Instant::now();
        for _ in 0..LOOP_STEPS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = &mut words[state as usize % LOOP_WORDS];
            *word = word.wrapping_add(state as u32);
        }
        let took = begun.elapsed().as_nanos();
        std::hint::black_box(&words);
        locked(took_ns).push(u32::try_from(took).unwrap_or(u32::MAX));
    }
    Ok(())
}

/// Lets a thread run before all others. What it starts does not inherit it.
fn run_ahead(thread: u32) -> anyhow::Result<()> {
    let thread = thread.to_string();
    let ran = Command::new("chrt").args(["--reset-on-fork", "--fifo", "--pid", "1", &thread]).status()?;
    ensure!(ran.success(), "chrt could not let thread {thread} run before all others");
    Ok(())
}

fn locked(took_ns: &Mutex<Vec<u32>>) -> MutexGuard<'_, Vec<u32>> {
    took_ns.lock().unwrap_or_else(PoisonError::into_inner)
}
