//! `index-lock`: page splits and merges hold the index lock.

use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use crate::draft::Draft;
use crate::stall::{HELD_UP_RATIO, LATCH_WAITS, Look, Stall};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "index-lock",
    title: "page splits and merges hold the index lock",
    what: "A change that fits its page latches that page alone (optimistic). One that does not fit splits or merges \
           pages, and may change the tree up to its root (pessimistic): for that InnoDB locks the whole index, then \
           latches the path down and the neighbours of each page, reading what is not in memory, one page at a \
           time, and keeps the lock until the change is done. From 5.7 on the lock (SX) lets readers and optimistic \
           changes pass; before, nobody. One pessimistic change at a time is all that an index ever does.",
    why_it_hurts: "However many CPUs and disks there are, such changes of one index stand in line. Wide rows make \
                   nearly every insert a split: rows of 7 kB, out of memory, were seen to go in at 50 a second with \
                   most disks idle. The larger the table and its rows, the worse.",
    evidence: "Stacks of all threads, ten times a second: sessions that wait in btr_cur_search_to_nth_level for a \
               latch that the function itself asks for (the index lock; page latches are asked for deeper), sessions \
               in btr_cur_pessimistic_*, btr_page_split_and_insert, btr_compress, and in the same snapshots those that \
               wait to read a page on their way down an index, which such a change keeps latched. It fires when two \
               or more sessions on average stand so, one or more of them, and 10 % or more of the sessions at work, at \
               the index lock itself. The estimate is the share of the sessions at work that stand so.",
    looks_alike: "Waits for a page in exclusive mode (buf_page_get_gen under rw_lock_x_lock_func) mean a hot page. When \
                  the holder of the lock extends the data file, file-extension-stall stands above this. Waits in \
                  lock_wait_suspend_thread are row locks: row-lock-pileup. btr_search_* is the adaptive hash index.",
    remedies: "Make pessimistic changes rarer: insert in order of the primary key, narrower rows, large columns in a \
               table of their own, drop indexes that nobody uses (each has such a lock). Make them shorter: a buffer \
               pool that holds the index's upper levels and the pages that grow. Make the lock smaller: partition \
               the table by hash, one index lock for each partition. innodb_fill_factor leaves room for random \
               inserts when an index is rebuilt.",
    safety: "Partitioning and rebuilding copy the table, and queries without the partition key then look into every \
             partition: try it on a copy. Dropping an index can be tried on MySQL 8.0 and later by making it invisible \
             first, which is undone in an instant; it is kept up to date meanwhile.",
    references: &[
        "Domas Mituzas, InnoDB locking makes me sad",
        "MySQL bugs #61735 and #61736; WL#6326: InnoDB: fix index->lock contention",
        "MySQL Reference Manual: Sorted Index Builds, innodb_fill_factor; Invisible Indexes",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Latch, TimeClass::Mutex, TimeClass::Read],
    stacks: Stacks::Standing(&["btr_cur_search_to_nth_level", "btr_cur_pessimistic_insert"]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What holds the index lock: btr0cur.cc, btr0btr.cc.
const DOES: &[&str] = &[
    "btr_cur_pessimistic_insert",
    "btr_cur_pessimistic_update",
    "btr_cur_pessimistic_delete",
    "btr_page_split_and_insert",
    "btr_root_raise_and_insert",
    "btr_compress",
    "btr_discard_page",
];

/// What asks for the index lock.
const ASKS: &[&str] =
    &["btr_cur_search_to_nth_level", "btr_cur_open_at_index_side", "btr_cur_open_at_rnd_pos"];

/// Beginnings of the names of the latches' own functions, between the one that waits and the one that asks.
const LATCH: &[&str] = &["rw_lock_", "pfs_rw_lock_", "mtr_t::", "mtr_"];

/// Sessions waiting on average, below which those in pessimistic changes block nobody.
const WAITING: f64 = 1.0;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let look = Look { does: DOES, waits: waits_for_index, waits_beside: waits_on_the_way_down };
    let Some(stall) = Stall::count(window, look)? else { return Ok(None) };
    let waiting = stall.waiting;
    // Where few stand at the lock itself, the pages that others wait for are latched for something else.
    if !stall.matters() || waiting < WAITING || waiting < HELD_UP_RATIO * stall.at_work {
        return Ok(None);
    }
    let [held_up, share] = stall.evidence("sessions that change an index's tree, or wait to");
    Ok(Some(
        Draft::new(
            &CAUSE,
            stall.ratio(),
            format!("{:.1} sessions on average stand at the lock of an index whose pages are split or merged", stall.held_up),
        )
        .why(format!(
            "Of {:.1} sessions at work {:.1} stand in changes that do not fit their page, or wait for one: each takes \
             the lock of the whole index.",
            stall.at_work, stall.held_up
        ))
        .evidence(held_up)
        .evidence(share)
        .evidence(
            Evidence::new("sessions that wait for an index lock", waiting, "", "stacks")
                .expected(format!("< {WAITING:.0}")),
        )
        .evidence_if(splits(window))
        .remedy(Remedy {
            statement: "Find the statement in the stacks (spindoctor stacks), and insert in order of the primary key, or \
                        move its wide columns to a table of their own"
                .into(),
            why: "A change that fits its page does not take the index lock.".into(),
            dynamic: true,
            ..Remedy::default()
        })
        .remedy(Remedy {
            statement: "ALTER TABLE ... PARTITION BY HASH (...)".into(),
            why: "Each partition has index locks of its own.".into(),
            dynamic: false,
            risk: "It copies the table. Queries without the partition key look into every partition.".into(),
            undo: "ALTER TABLE ... REMOVE PARTITIONING".into(),
        })
        .finding(),
    ))
}

/// True for a stack that waits for the lock of an index: the function that looks for a row asked for the latch itself.
fn waits_for_index(names: &[&str]) -> bool {
    let Some(waits) = names.iter().rposition(|name| LATCH_WAITS.contains(name)) else { return false };
    names[waits + 1..]
        .iter()
        .find(|name| !LATCH.iter().any(|begin| name.starts_with(begin)))
        .is_some_and(|asks| ASKS.contains(asks))
}

/// True for a stack that waits to read a page on its way down an index: from 5.7 on a change of the tree latches the
/// pages above the leaves that it may change, for as long as it holds the index lock.
fn waits_on_the_way_down(names: &[&str]) -> bool {
    names.contains(&"rw_lock_s_lock_spin") && names.iter().any(|name| ASKS.contains(name))
}

/// Page splits a second, where that metric is on.
fn splits(window: &Window) -> Option<Evidence> {
    let grown = window.metric_growth("index_page_splits")?;
    let seconds = window.change(|s| &s.server.innodb_metrics)?.seconds;
    Some(Evidence::new("page splits", grown / seconds, "1/s", "INNODB_METRICS index_page_splits"))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState::{DiskRead, Lock};

    use super::*;
    use crate::testing::Build;

    /// MySQL 9.7.
    const WAITS: &[&str] = &[
        "pthread_cond_wait",
        "os_event::wait_low",
        "sync_array_wait_event",
        "rw_lock_sx_lock_func",
        "btr_cur_search_to_nth_level",
        "row_ins_clust_index_entry_low",
        "dispatch_command",
    ];
    const SPLITS: &[&str] = &[
        "pread64",
        "buf_page_get_gen",
        "btr_page_split_and_insert",
        "btr_cur_pessimistic_insert",
        "dispatch_command",
    ];
    const PAGE: &[&str] = &[
        "sync_array_wait_event",
        "rw_lock_x_lock_func",
        "buf_page_get_gen",
        "btr_cur_search_to_nth_level",
        "dispatch_command",
    ];

    pub(crate) fn fires() -> Window {
        Build::busy("9.7.4").snapshots(&[(9, Lock, WAITS), (1, DiskRead, SPLITS)]).window()
    }

    /// The same crowd before one page.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4").snapshots(&[(9, Lock, PAGE), (1, DiskRead, SPLITS)]).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").without_profile().window()
    }

    #[test]
    fn a_server_whose_innodb_has_no_names_is_not_cleared() {
        let nameless = &["mariadbd+0xe931d2", "handler::ha_write_row", "dispatch_command"];
        let window = Build::busy("10.11.19-MariaDB").only_snapshots(&[(9, Lock, nameless)]).window();
        assert!(matches!(evaluate(&window), Outcome::NotEnoughEvidence(_)), "{:?}", evaluate(&window));
    }

    /// 64 clients that update an indexed column: pages above the leaves are latched now and then, and many wait.
    #[test]
    fn many_who_wait_for_pages_beside_few_at_the_lock_wait_for_something_else() {
        let down =
            &["rw_lock_s_lock_spin", "buf_page_get_gen", "btr_cur_search_to_nth_level", "dispatch_command"];
        let window = Build::busy("9.7.4").snapshots(&[(30, Lock, down), (2, Lock, WAITS)]).window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }

    #[test]
    fn splits_for_which_nobody_waits_are_work() {
        let window = Build::busy("9.7.4").snapshots(&[(9, DiskRead, SPLITS)]).window();
        assert_eq!(evaluate(&window), Outcome::Clear);
    }
}
