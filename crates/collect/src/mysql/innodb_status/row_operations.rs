//! Section ROW OPERATIONS: the queue at InnoDB's door and the rows so far.

use spindoctor_model::innodb_status::RowOperations;

use super::Unknown;
use super::line::{numbers, squeeze, values, whole};

/// Starts of lines that are known and say nothing that is kept.
const NOT_READ: &[&str] =
    &["Number of system rows inserted ", "---OLDEST VIEW---", "Normal read view", "Read view "];

/// Reads the section.
pub(super) fn parse(lines: &[&str], unknown: &mut Unknown) -> RowOperations {
    let mut section = RowOperations::default();
    for raw in lines {
        let line = squeeze(raw);
        // 9 queries inside InnoDB, 0 queries in queue
        if let Some([inside, queued]) = numbers(&line, "{} queries inside InnoDB, {} queries in queue") {
            section.queries_inside = Some(inside);
            section.queries_queued = Some(queued);
        // 1 read views open inside InnoDB
        } else if let Some([views]) = numbers(&line, "{} read views open inside InnoDB") {
            section.read_views = Some(views);
        // Main thread process no. 7809, id 2808687472, state: waiting for server activity     (up to 5.6)
        // Process ID=4267, Main thread ID=140272021272320, state: sleeping                    (5.7, MariaDB 10.4)
        // Process ID=1088931, Main thread ID=140536702826048 , state=sleeping                 (8.0 and later)
        } else if let Some([process, _, state]) =
            values(&line, "Main thread process no. {}, id {}, state: {}")
                .or_else(|| values(&line, "Process ID={}, Main thread ID={}, state: {}"))
                .or_else(|| values(&line, "Process ID={}, Main thread ID={}, state={}"))
        {
            section.process_id = whole(process);
            section.main_thread_state = Some(state.to_owned());
        // Main thread id 4496171008, state: purging                                           (5.1 and 5.5 off Linux)
        } else if let Some([_, state]) = values(&line, "Main thread id {}, state: {}") {
            section.main_thread_state = Some(state.to_owned());
        // state: sleeping                                                                     (MariaDB 10.11)
        } else if let Some([state]) = values(&line, "state: {}") {
            section.main_thread_state = Some(state.to_owned());
        // Number of rows inserted 5, updated 1, deleted 0, read 214062
        } else if let Some([inserted, updated, deleted, read]) =
            numbers(&line, "Number of rows inserted {}, updated {}, deleted {}, read {}")
        {
            section.inserted = Some(inserted);
            section.updated = Some(updated);
            section.deleted = Some(deleted);
            section.read = Some(read);
        } else if !is_known(&line) {
            unknown.note(raw);
        }
    }
    section
}

fn is_known(line: &str) -> bool {
    line.is_empty()
        || line.bytes().all(|byte| byte == b'-')
        // 9.28 inserts/s, 0.17 updates/s, 0.00 deletes/s, 5194.07 reads/s
        || line.ends_with("/s")
        // 0 RW transactions active inside InnoDB                  (8.0); without `RW` (XtraDB)
        || line.ends_with(" transactions active inside InnoDB")
        // 0 out of 1000 descriptors used                          (XtraDB)
        || line.ends_with(" descriptors used")
        // 3 tablespace extents now reserved for B-tree split operations: while a page is split (srv0srv.cc, all versions)
        || line.ends_with(" tablespace extents now reserved for B-tree split operations")
        || NOT_READ.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_being_split_is_no_unknown_line() {
        let mut unknown = Unknown::default();
        let lines = [
            "0 read views open inside InnoDB",
            "3 tablespace extents now reserved for B-tree split operations",
            "something else",
        ];
        assert_eq!(parse(&lines, &mut unknown).read_views, Some(0));
        assert_eq!(unknown.lines, ["something else"]);
    }
}
