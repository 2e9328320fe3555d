//! Session time: where the time of the sessions at work goes, split into classes without overlap.
//!
//! A session is at work from the statement that arrives to the answer that leaves. Idle connections are not at work, nor
//! are sessions that sleep on purpose (`SELECT SLEEP(10)`): these are counted beside the account. The unit is sessions at
//! work on average, which is seconds per second.

use serde::{Deserialize, Serialize};

/// The account of a window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionTime {
    /// Sessions at work, on average: seconds of session time per second.
    pub session_seconds_per_second: f64,
    /// Sessions that slept on purpose, on average; not part of the above.
    pub sleeping: f64,
    /// Each class with its share, the largest first; the shares add up to 1, or there is no class.
    pub classes: Vec<TimeShare>,
    /// Share of the classes that no cause of the catalogue explains, from 0 to 1.
    pub unnamed: f64,
    /// Half of the 95 % interval of the largest share, from 0 to 1.
    pub error: f64,
    /// How many times a session was seen at work.
    pub observations: u64,
}

/// A class with its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeShare {
    /// The class.
    pub class: TimeClass,
    /// Share of the session time, from 0 to 1.
    pub share: f64,
    /// The reading that most of it rests on.
    pub known_by: KnownBy,
    /// What the sessions in it were seen doing, the most frequent first, with its share of the session time: the state of
    /// the process list, or the functions that wait.
    pub seen: Vec<(String, f64)>,
}

/// What a class's share rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// Clocks: the kernel's of time on a CPU and in its queue, Group Replication's of its agreements.
    Counter,
    /// Functions on the stacks of the threads.
    Stack,
    /// The states of the process list.
    List,
    /// A conclusion from other readings.
    Inferred,
}

impl KnownBy {
    /// As JSON has it: `stack`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Stack => "stack",
            Self::List => "list",
            Self::Inferred => "inferred",
        }
    }
}

/// Makes the classes from one list: name in JSON and in text.
macro_rules! time_classes {
    ($($(#[$doc:meta])* $class:ident, $label:literal;)*) => {
        /// What a second of session time goes into. Each second has one class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum TimeClass {
            $($(#[$doc])* $class,)*
        }

        impl TimeClass {
            /// Every class, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$class),*];

            /// As a person reads it: `row lock`.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$class => $label,)*
                }
            }
        }
    };
}

time_classes! {
    /// On a CPU, in the server's own code.
    Cpu, "CPU";
    /// On a CPU, in a spin-wait loop.
    Spin, "spinning";
    /// On a CPU, in the kernel.
    Kernel, "kernel";
    /// Ready to run, without a CPU: the server's own threads have those that it gets.
    CpuQueue, "waiting for a CPU";
    /// Ready to run while the quota of its control group is used up.
    CpuQuota, "stopped by the CPU quota";
    /// Ready to run while other processes, or other virtual machines, have the CPUs.
    CpuTaken, "waiting for a CPU that others use";
    /// On a CPU or ready to run; the process list does not distinguish the two.
    Running, "running";
    /// A lock on a row, a gap or a page of InnoDB.
    RowLock, "row lock";
    /// The lock that a table's `AUTO_INCREMENT` counter has.
    AutoIncrementLock, "auto-increment lock";
    /// A metadata lock of a table, schema, routine, trigger or event.
    MetadataLock, "metadata lock";
    /// A lock on a whole table: `LOCK TABLES`, MyISAM and other engines without row locks.
    TableLock, "table lock";
    /// A lock of `GET_LOCK`.
    UserLock, "user lock";
    /// The global read lock, the commit lock or a backup lock; a table that is being flushed.
    GlobalLock, "global lock";
    /// A mutex or rw-lock of InnoDB.
    Latch, "latch";
    /// A mutex or rw-lock of the server.
    Mutex, "mutex";
    /// The mutex of MariaDB's and old MySQL's query cache.
    QueryCache, "query cache";
    /// Writing a statement to the general, the slow or an audit log, and the mutex before it.
    StatementLog, "log of statements";
    /// The cache of accounts and privileges.
    PrivilegeCache, "privilege cache";
    /// Opening and closing tables.
    TableCache, "opening tables";
    /// A ticket of `innodb_thread_concurrency`.
    ConcurrencyTicket, "concurrency ticket";
    /// A commit: its syncs, and its queue.
    Commit, "commit";
    /// A delay of the group commit that a variable asks for.
    CommitDelay, "commit delay";
    /// The transactions that have to commit before this one.
    CommitOrder, "commit order";
    /// The acknowledgement of a replica.
    SemiSync, "semi-sync acknowledgement";
    /// Certification or flow control of Galera.
    Galera, "Galera";
    /// The agreement of a replication group (Group Replication) on a commit, or its flow control.
    GroupReplication, "group replication";
    /// A transaction or a position of the source that this replica is to have first: `WAIT_FOR_EXECUTED_GTID_SET` and its like.
    ReplicaWait, "waiting for replication";
    /// Room in the redo log.
    LogSpace, "redo log space";
    /// A free page in the buffer pool.
    FreePage, "free page";
    /// A delay of changes because purge is behind.
    PurgeDelay, "purge delay";
    /// Reading a file.
    Read, "reading";
    /// A page of the server's own memory that is not in memory: swapped out, or of a file that is mapped.
    PageFault, "page fault";
    /// Space on a file system that is full.
    DiskFull, "space on disk";
    /// Writing or syncing a file outside of a commit.
    Write, "writing";
    /// Sending to the client or reading from it.
    Network, "network";
    /// Undoing changes.
    Rollback, "rolling back";
    /// Logging in.
    Login, "login";
    /// Halted by a debugger, a signal or the freezer.
    Stopped, "stopped";
    /// None of the above: state and functions as they are.
    Other, "other";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_class_has_a_label_of_its_own_and_a_name_in_json() {
        let labels: BTreeSet<&str> = TimeClass::ALL.iter().map(|class| class.label()).collect();
        assert_eq!(labels.len(), TimeClass::ALL.len());
        assert_eq!(serde_json::to_string(&TimeClass::AutoIncrementLock).unwrap(), r#""auto-increment-lock""#);
        assert_eq!(
            serde_json::to_string(&KnownBy::Counter).unwrap(),
            format!("\"{}\"", KnownBy::Counter.name())
        );
    }
}
