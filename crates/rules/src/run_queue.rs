//! How long the server's threads ran and how long they waited for a CPU, from schedstat.

use std::collections::HashMap;

use spindoctor_model::host::ThreadStat;
use spindoctor_model::window::Change;

/// Seconds on a CPU and seconds runnable without one, over all threads. A thread that came within the
/// window counts from its birth; one that went is not seen.
pub(crate) fn ran_and_queued(threads: &Change<'_, Vec<ThreadStat>>) -> (f64, f64) {
    let before: HashMap<u32, &ThreadStat> = threads.first.iter().map(|thread| (thread.tid, thread)).collect();
    threads.last.iter().fold((0.0, 0.0), |(ran, queued), thread| {
        let (ran_before, queued_before) =
            before.get(&thread.tid).map_or((0, 0), |before| (before.ran_ns, before.run_queue_ns));
        (
            ran + thread.ran_ns.saturating_sub(ran_before) as f64 / 1e9,
            queued + thread.run_queue_ns.saturating_sub(queued_before) as f64 / 1e9,
        )
    })
}
