//! A replica's applier that reads tables whole to find the rows that changed: by which functions stacks and CPU samples show it.

use spindoctor_model::stack::{Observation, Profile};

use crate::below::is_below;
use crate::spin_samples::names;

/// The function in which an applier of rows is (sql/log_event.cc, MariaDB: sql/log_event_server.cc).
pub(crate) const APPLIES: &str = "Rows_log_event::do_apply_event";

/// How the functions of events of rows begin, where a stack was cut before the one above.
const OF_ROWS: &str = "Rows_log_event::";

/// Where it looks for a row that no key finds, by one scan for each row.
const SCANS: &str = "Rows_log_event::do_table_scan_and_update";

/// Which reads the next row of a table, by no index: below an applier one scan for all rows of the event
/// (`Rows_log_event::do_hash_scan_and_update`), and how MariaDB looks for each row (`Rows_log_event::find_row`). The same two read an
/// index where the table has one.
pub(crate) const READS_NEXT: &str = "handler::ha_rnd_next";

/// True for a stack of an applier of rows.
pub(crate) fn applies(profile: &Profile, seen: &Observation) -> bool {
    is_below(profile, seen, &[APPLIES])
}

/// True for a stack of an applier that reads a table whole.
pub(crate) fn scans(profile: &Profile, seen: &Observation) -> bool {
    is_below(profile, seen, &[SCANS])
        || is_below(profile, seen, &[READS_NEXT])
            && names(profile, seen).any(|name| name.starts_with(OF_ROWS))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState;

    use super::*;
    use crate::testing::Build;

    #[test]
    fn a_scan_of_an_applier_is_seen_by_one_function_or_by_two() {
        let of = |frames: &[&'static str]| {
            let window = Build::busy("8.0.36").only_snapshots(&[(1, ThreadState::Running, frames)]).window();
            let profile = window.profile.value().unwrap();
            let seen = &profile.observations[0];
            (applies(profile, seen), scans(profile, seen))
        };
        assert_eq!(of(&["ha_innobase::rnd_next", SCANS, APPLIES]), (true, true));
        let hashes = "Rows_log_event::do_hash_scan_and_update";
        assert_eq!(of(&[READS_NEXT, hashes, APPLIES]), (true, true));
        assert_eq!(of(&["handler::ha_index_next", hashes, APPLIES]), (true, false));
        assert_eq!(of(&[READS_NEXT, "Rows_log_event::find_row"]), (false, true), "a stack that was cut");
        assert_eq!(of(&[READS_NEXT, "sub_select", "dispatch_command"]), (false, false));
    }
}
