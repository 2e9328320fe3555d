//! `NSpid` of `/proc/PID/task/TID/status`: a thread's id inside its own pid namespace.
//!
//! A server in a container names its threads by the ids of its namespace (`THREAD_OS_ID`, `TID`); a profiler outside of
//! it sees other ids. In: a process. Out: a map from the first to the second.

use std::collections::HashMap;

use spindoctor_model::mysql::ServerThread;

use super::kernel_file;
use super::source::Target;

/// The thread ids of one process as it knows them itself, and as they are here.
#[derive(Debug, Clone)]
pub struct ThreadIds {
    target: Target,
    /// None where both are the same.
    here: Option<HashMap<u64, u32>>,
}

impl ThreadIds {
    /// Looks whether the process is in another pid namespace than this one.
    pub fn of_process(target: Target) -> Self {
        let status = kernel_file::read(&target.process("status")).unwrap_or_default();
        let here = (namespaces(&status) > 1).then(HashMap::new);
        Self { target, here }
    }

    /// The id here of a thread that the process knows by another. The files of all threads are read again where one
    /// is not known: at most once for each call of [`Self::refresh_if_unknown`].
    pub fn here(&self, theirs: u64) -> Option<u32> {
        match &self.here {
            None => u32::try_from(theirs).ok(),
            Some(known) => known.get(&theirs).copied(),
        }
    }

    /// Reads the files of all threads again where one of these is not known.
    pub fn refresh_if_unknown(&mut self, theirs: impl IntoIterator<Item = u64>) {
        let Some(known) = &mut self.here else { return };
        if theirs.into_iter().all(|theirs| known.contains_key(&theirs)) {
            return;
        }
        let entries = std::fs::read_dir(self.target.process("task")).into_iter().flatten().flatten();
        *known = entries
            .filter_map(|entry| {
                let here = entry.file_name().to_str()?.parse().ok()?;
                let status = kernel_file::read(&entry.path().join("status")).ok()?;
                Some((innermost(&status)?, here))
            })
            .collect();
    }

    /// Gives the server's threads the ids that they have here; none to those that are gone.
    pub fn rename(&mut self, threads: &mut [ServerThread]) {
        self.refresh_if_unknown(threads.iter().filter_map(|thread| thread.thread_os_id));
        for thread in threads {
            thread.thread_os_id = thread.thread_os_id.and_then(|id| self.here(id)).map(u64::from);
        }
    }
}

/// In how many pid namespaces a task has an id, from the reader's inwards.
fn namespaces(status: &str) -> usize {
    nspid(status).count()
}

/// The id in the innermost namespace: the task's own.
fn innermost(status: &str) -> Option<u64> {
    nspid(status).last()
}

// NSpid:	4351	17        (Linux 4.1 and later)
fn nspid(status: &str) -> impl Iterator<Item = u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|id| id.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::super::testing::put;
    use super::*;

    #[test]
    fn a_thread_of_a_container_is_found_by_the_name_it_has_there() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "4310/status", "Name:\tmysqld\nNSpid:\t4310\t1\n");
        put(root.path(), "4310/task/4310/status", "Name:\tmysqld\nNSpid:\t4310\t1\n");
        put(root.path(), "4310/task/4351/status", "Name:\tconnection\nNSpid:\t4351\t17\n");
        let target = Target::under(4310, root.path(), "/sys");
        let mut ids = ThreadIds::of_process(target);
        assert_eq!(ids.here(17), None, "nothing was read yet");
        ids.refresh_if_unknown([17]);
        assert_eq!((ids.here(17), ids.here(1), ids.here(4351)), (Some(4351), Some(4310), None));
        let thread = |id| ServerThread { thread_os_id: Some(id), ..ServerThread::default() };
        let mut threads = [thread(17), thread(18)];
        ids.rename(&mut threads);
        assert_eq!(threads.map(|thread| thread.thread_os_id), [Some(4351), None], "18 is gone");
    }

    #[test]
    fn in_the_same_namespace_every_thread_has_one_name() {
        let mut ids = ThreadIds::of_process(Target::live(std::process::id()));
        ids.refresh_if_unknown([99]);
        assert_eq!(ids.here(99), Some(99));
        assert_eq!(ids.here(u64::MAX), None);
    }
}
