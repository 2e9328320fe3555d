//! What the threads of a server wait for in the kernel, by the list that `ps` prints with WCHAN, and whose locks in the kernel are wanted, by
//! `perf lock contention`.
//!
//! ```text
//!     PID     LWP STAT WCHAN                 COMMAND
//!    2211    2240 Dl   jbd2_log_wait_commit  mysqld
//!
//!  contended   total wait     max wait     avg wait         type   caller
//!      81211      41.12 s     12.11 ms    506.33 us     spinlock   futex_wake+0xa1
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number as shown;
use spindoctor_model::stack::Profile;

use crate::amounts::seconds;
use crate::stacks::{is_server_program, is_server_thread};
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText, tables};

/// What functions of the kernel wait for, by what their names have in them. The first that fits counts.
const WAITS: [(&str, &str); 15] = [
    ("jbd2_log_wait_commit", "a sync waits for the file system's journal"),
    ("jbd2", "the file system's journal"),
    ("xfs_log_force", "a sync waits for the file system's log"),
    ("xlog_", "the file system's log has no room"),
    (
        "balance_dirty_pages",
        "the kernel slows writers down, because too much in its page cache is not on the disk yet",
    ),
    ("wait_on_page", "a page of a file is read or written"),
    ("folio_wait", "a page of a file is read or written"),
    ("txg_wait", "ZFS writes a group of transactions"),
    ("zio_wait", "ZFS reads or writes its disks"),
    ("blkdev_issue_flush", "a disk writes out its cache"),
    ("nfs", "a server of NFS"),
    ("rpc_", "a server of NFS"),
    ("rwsem_down", "a lock of the kernel, as on a file or on the memory of the process"),
    ("io_schedule", "a disk"),
    ("dio", "a disk"),
];
/// Waits that are named.
const MOST: usize = 3;
/// Locks of the kernel that are waited for less are not named, seconds of all threads together. By judgement.
const LEAST_WAITED_S: f64 = 1.0;

/// True for the names of the columns of either.
pub(crate) fn is_head(line: &str) -> bool {
    let is_likely = line.contains("WCHAN") || line.contains("contended");
    is_likely && {
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        is_of_ps(&words) || is_of_perf(&words)
    }
}

fn name_column<'t>(words: &[&'t str]) -> Option<&'t str> {
    ["COMMAND", "CMD", "COMM", "COMMAND="]
        .iter()
        .find_map(|name| words.iter().copied().find(|word| word == name))
}

fn is_of_ps(words: &[&str]) -> bool {
    words.contains(&"WCHAN")
        && name_column(words).is_some()
        && (words.contains(&"PID") || words.contains(&"LWP"))
}

fn is_of_perf(words: &[&str]) -> bool {
    words.starts_with(&["contended", "total", "wait"]) && words.last() == Some(&"caller")
}

/// Says what is waited for.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    of_threads(text, found);
    of_locks(text, found);
}

fn of_threads(text: &str, found: &mut SystemText) {
    let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
    for row in tables(text, is_of_ps).iter().flatten() {
        let name = ["COMMAND", "CMD", "COMM", "COMMAND="].iter().find_map(|column| row.get(column));
        let name = name.map_or("", |name| name.rsplit('/').next().unwrap_or(name));
        let state = ["STAT", "S", "STATE"].iter().find_map(|column| row.get(column));
        let is_of_server = is_server_program(name) || is_server_thread(name);
        // Without its state a thread is known to wait for a disk by the function alone.
        let function = row.get("WCHAN").copied().unwrap_or_default();
        let is_stuck = state.map_or_else(|| meaning(function).is_some(), |state| state.starts_with('D'));
        if is_of_server && is_stuck {
            *functions.entry(function).or_default() += 1;
        }
    }
    let all: u64 = functions.values().sum();
    let mut functions: Vec<(&str, u64)> = functions.into_iter().collect();
    functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named: Vec<String> = functions
        .iter()
        .take(MOST)
        .map(|(function, count)| match meaning(function) {
            Some(meaning) => format!("{count} in {function} ({meaning})"),
            None => format!("{count} in {function}"),
        })
        .collect();
    if !named.is_empty() {
        let threads = shown::counted(all, "thread", "threads");
        let sentence = format!(
            "{threads} of the server cannot be interrupted in the kernel, as where a disk is waited for: {}",
            named.join(", ")
        );
        found.add("ps", None, sentence);
    }
}

/// What threads wait for whose stacks in the kernel were given, in a sentence.
pub(crate) fn of_stacks(profile: &Profile) -> Option<String> {
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    for stack in profile.observations.iter().filter_map(|seen| profile.stacks.get(seen.stack as usize)) {
        let mut frames = stack.frames.iter().filter_map(|&at| profile.frames.get(at as usize));
        if let Some(waited_for) = frames.find_map(|frame| meaning(&frame.name)) {
            *waits.entry(waited_for).or_default() += 1;
        }
    }
    let mut waits: Vec<(&str, u64)> = waits.into_iter().collect();
    waits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = waits
        .iter()
        .take(MOST)
        .map(|(waited_for, count)| format!("{waited_for} ({})", shown::counted(*count, "thread", "threads")));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("waited for in the kernel: {}", named.join(", ")))
}

fn meaning(function: &str) -> Option<&'static str> {
    WAITS.iter().find(|(sign, _)| function.contains(sign)).map(|(_, meaning)| *meaning)
}

/// Of functions of the kernel, as a stack of one thread has them, the one that says most of what is waited for, and what that is.
pub(crate) fn clearest<'f>(functions: &[&'f str]) -> Option<(&'f str, &'static str)> {
    WAITS.iter().find_map(|(sign, meaning)| {
        let function = functions.iter().find(|function| function.contains(sign))?;
        Some((*function, *meaning))
    })
}

/// The lock that was waited for longest.
fn of_locks(text: &str, found: &mut SystemText) {
    let mut is_below = false;
    let mut longest: Option<(f64, u64, &str)> = None;
    for line in text.lines().take(MOST_ROWS) {
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        if is_of_perf(&words) {
            is_below = true;
            continue;
        }
        let [count, total, unit, .., caller] = words.as_slice() else { continue };
        let waited = count.parse::<u64>().ok().zip(seconds(&format!("{total} {unit}"), 1.0));
        let Some((count, waited_s)) = waited.filter(|_| is_below) else { continue };
        if longest.is_none_or(|(most_s, ..)| waited_s > most_s) {
            longest = Some((waited_s, count, *caller));
        }
    }
    if let Some((waited_s, count, caller)) = longest.filter(|(waited_s, ..)| *waited_s >= LEAST_WAITED_S) {
        let sentence = format!(
            "Of the kernel's locks that in {caller} was waited for longest: {}, {waited_s:.1} s together",
            shown::counted(count, "time", "times")
        );
        found.add("perf lock", None, sentence);
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    fn says(text: &str) -> Vec<String> {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn threads_that_wait_for_a_disk_in_the_kernel_are_counted_by_what_they_wait_for() {
        let text = "$ ps -eLo pid,lwp,stat,wchan:30,comm\n    PID     LWP STAT WCHAN                 COMMAND\n   \
                    2211    2211 Ssl  poll_schedule_timeout mysqld\n   2211    2240 Dsl  jbd2_log_wait_commit  mysqld\n   \
                    2211    2241 Dsl  jbd2_log_wait_commit  connection\n   2211    2242 Dsl  io_schedule           ib_io_wr-1\n   \
                    811     811 D    io_schedule           rsync\n";
        let wanted = "3 threads of the server cannot be interrupted in the kernel, as where a disk is waited for: 2 in \
                      jbd2_log_wait_commit (a sync waits for the file system's journal), 1 in io_schedule (a disk)";
        assert_eq!(says(text), [wanted]);
        let idle = "PID WCHAN COMMAND\n2211 futex_wait_queue_me mysqld\n2212 poll_schedule_timeout mysqld\n";
        assert_eq!(system::read(idle).says, Vec::<String>::new());
        let stuck = idle.replace("futex_wait_queue_me", "jbd2_log_wait_commit");
        assert_eq!(system::read(&stuck).says.len(), 1);
    }

    #[test]
    fn what_stacks_of_the_kernel_wait_for_is_said() {
        let text = "==> /proc/71/task/72/stack <==\n[<0>] rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]\n[<0>] nfs_file_fsync+0xa4/0x1e0 [nfs]\n\
                    [<0>] do_fsync+0x3d/0x70\n==> /proc/71/task/73/stack <==\n[<0>] futex_wait_queue+0x6a/0x90\n[<0>] do_futex+0x10a/0x4a0\n";
        let wanted = "waited for in the kernel: a server of NFS (1 thread)";
        assert!(says(text).iter().any(|sentence| sentence == wanted), "{:?}", says(text));
        let idle = text.replace("rpc_wait_bit_killable", "do_wait").replace("nfs_file_fsync", "do_sys");
        assert!(!says(&idle).iter().any(|sentence| sentence.contains("in the kernel")), "{:?}", says(&idle));
    }

    #[test]
    fn the_lock_of_the_kernel_that_was_waited_for_longest_is_named() {
        let text = " contended   total wait     max wait     avg wait         type   caller\n\n     \
                    81211      41.12 s     12.11 ms    506.33 us     spinlock   futex_wake+0xa1\n       \
                    311    121.00 ms      9.11 ms      3.89 ms      rwsem:R   do_user_addr_fault+0x1a1\n";
        let wanted = "Of the kernel's locks that in futex_wake+0xa1 was waited for longest: 81,211 times, 41.1 s together";
        assert_eq!(says(text), [wanted]);
        let quiet = text.replace("41.12 s", "41.12 ms");
        assert_eq!(says(&quiet), Vec::<String>::new());
    }
}
