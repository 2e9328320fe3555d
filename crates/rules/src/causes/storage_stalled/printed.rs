//! InnoDB's own text, where no stacks were taken: I/O is under way, and none ended in the time of its averages.

use spindoctor_model::{Evidence, Finding, Remedy, Window};

use super::super::{checkpoint_stall, commit_sync_bound, index_lock, latch_pileup};
use super::{CAUSE, ONE_IO_S};
use crate::draft::Draft;
use crate::pending_io::{self, PendingIo};

/// What InnoDB's text prints of I/O that does not end.
struct Printed {
    /// `1 flush of the redo log`, each kind of I/O that is under way.
    under_way: Vec<String>,
    count: u64,
    over_s: u64,
    /// The longest wait for a latch.
    waited_s: f64,
}

/// I/O is under way in InnoDB's text, and none ended in the time of its averages.
pub(super) fn as_printed(window: &Window) -> Option<Finding> {
    let status = window.latest(|sample| &sample.server.innodb_status)?;
    // Of averages over an instant one cannot say that nothing ended.
    let over_s = status.averages_over_s.filter(|over_s| *over_s >= LEAST_AVERAGED_S)?;
    if status.ios_per_s? > 0.0 {
        return None;
    }
    let io = PendingIo::from_status(status);
    let kinds = [io.log_flushes, io.page_writes, io.data_syncs, io.reads];
    let under_way = pending_io::named(&kinds);
    let waits = status.semaphores.waiters.iter().filter(|wait| !wait.ended);
    let waited_s = waits.map(|wait| wait.waited_s).fold(0.0, f64::max);
    let count = kinds.iter().map(|kind| kind.count).sum();
    let main_thread = status.row_operations.main_thread_state.as_deref().unwrap_or_default();
    let is_blocked = waited_s >= ONE_IO_S
        || main_thread.contains("flushing log")
        || main_thread.contains("making checkpoint");
    // One I/O of a quiet server may have begun just now.
    if count == 0 || count == 1 && !is_blocked {
        return None;
    }
    Some(printed_finding(window, &Printed { under_way, count, over_s, waited_s }))
}

/// Averages over so many seconds say that no I/O ended: an I/O that works takes a tenth of a second at most.
const LEAST_AVERAGED_S: u64 = 3;

fn printed_finding(window: &Window, printed: &Printed) -> Finding {
    let status = window.latest(|sample| &sample.server.innodb_status);
    let source = "SHOW ENGINE INNODB STATUS";
    let waiters =
        || status.into_iter().flat_map(|status| &status.semaphores.waiters).filter(|wait| !wait.ended);
    let held = waiters().find(|wait| !wait.locked_at.is_empty() && wait.holder_pthread_id.is_some());
    let free = status.and_then(|status| Some((status.buffer_pool.free_pages?, status.buffer_pool.pages?)));
    let main_thread = status.and_then(|status| status.row_operations.main_thread_state.clone());
    let Printed { under_way, count, over_s, waited_s } = printed;
    let is_plural = if *count == 1 { "is" } else { "are" };
    Draft::new(
        &CAUSE,
        1.0,
        format!("Storage does not answer: {} {is_plural} under way, and no I/O ended in {over_s} s", under_way.join(", ")),
    )
    .why(match held {
        Some(wait) => format!(
            "The thread that has the latch for which others wait took it at {}: it keeps it because its own I/O does not end.",
            wait.locked_at
        ),
        None => "What is under way does not end, though the server does nothing else meanwhile.".to_owned(),
    })
    .evidence(Evidence::new("I/O under way", under_way.join(", "), "", source).expected("0"))
    .evidence(Evidence::new("I/Os that ended, on average", 0.0, "1/s", source))
    .evidence(Evidence::new("over", *over_s as f64, "s", source))
    .evidence_if((*waited_s > 0.0).then(|| Evidence::new("longest wait for a latch", *waited_s, "s", source).expected("< 1")))
    .evidence_if(main_thread.map(|state| Evidence::new("InnoDB's main thread", state, "", source)))
    .evidence_if(free.map(|(free, all)| Evidence::new("free pages", format!("{free} of {all}"), "", source)))
    .remedy(Remedy {
        statement: "On the server's host: look at the device, or the network file system, that holds the data (dmesg, df, \
                    iostat -x 1, the volume's own health)"
            .into(),
        why: "The I/O stands below the server: no setting of it makes a disk answer.".into(),
        dynamic: true,
        ..Remedy::default()
    })
    .remedy(Remedy {
        statement: "Let a replica on other storage take over".into(),
        why: "The server cannot be helped from inside, and a restart has to read from the same disk.".into(),
        dynamic: true,
        risk: "The old source goes on writing when its disk comes back: fence it first.".into(),
        undo: "Let the old source follow as a replica.".into(),
    })
    .explains(&[
        latch_pileup::CAUSE.name,
        commit_sync_bound::CAUSE.name,
        checkpoint_stall::CAUSE.name,
        index_lock::CAUSE.name,
    ])
    .finding()
}
