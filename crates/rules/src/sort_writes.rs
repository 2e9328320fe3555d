//! Sorts that write their parts to temporary files, by the stacks.

use spindoctor_model::stack::{Observation, Profile, ThreadState};

use crate::below::Below;
use crate::time_model::tables;

/// Functions below which the parts of a sort go to temporary files: sql/filesort.cc, sql/uniques.cc.
const SORTS: &[&str] =
    &["filesort", "merge_many_buff", "merge_many_buffers", "merge_buffers", "merge_index", "write_keys"];

/// A sort reads its rows, and a page that is read wants a free one first: another is written for it (buf/buf0lru.cc).
const FREE_PAGES: &[&str] = &["buf_LRU_get_free_block"];

/// The threads that write for a sort, and not for a page or a log that the sort needs on its way.
pub(crate) struct SortWrites {
    sorts: Below,
    others: Below,
}

impl SortWrites {
    pub(crate) fn new(profile: &Profile) -> Self {
        let others = [FREE_PAGES, tables::PAGE_WRITES, tables::COMMIT].concat();
        Self { sorts: Below::new(profile, SORTS), others: Below::new(profile, &others) }
    }

    /// True for a thread that writes the parts of a sort.
    pub(crate) fn has(&self, one: &Observation) -> bool {
        one.state == ThreadState::DiskWrite && self.sorts.has(one) && !self.others.has(one)
    }
}
