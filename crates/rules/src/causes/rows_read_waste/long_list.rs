//! A list of values behind IN that is too long for the range optimizer: the table is read whole, whatever index it has.

use spindoctor_model::{Remedy, Window, number};

use crate::below::Below;

/// The most memory that the ranges of one statement may take (MySQL 5.7.9 and later); 0 is no limit.
const MOST_MEMORY: &str = "range_optimizer_max_mem_size";

/// Functions that make ranges of such a list (sql/opt_range.cc, sql/range_optimizer), and those that look for a row's value in it
/// (sql/item_cmpfunc.cc). Each is short where the list is.
const RANGES: [&str; 3] = ["SEL_ROOT::find_range", "SEL_ARG::find_range", "key_or"];
const SEARCHES: [&str; 3] = ["in_longlong::find_item", "in_vector::find_item", "in_vector::find"];

/// Share of the CPU samples in either, from which on lists are long. Chosen: one of a hundred values costs far less than its statement.
const LONG_SHARE: f64 = 0.05;

/// What to do about a statement with such a list: its ranges are made, do not fit, and each row is then compared with the list.
pub(super) fn remedy(window: &Window, statement: &str) -> Option<Remedy> {
    let bytes = window.variable_number(MOST_MEMORY).filter(|&bytes| bytes > 0.0)?;
    let has_list = spindoctor_sql::names(statement).any(|name| name == "in");
    let profile = window.profile.value()?;
    let samples = profile.samples();
    let share = |functions: &[&str]| {
        let below = Below::new(profile, functions);
        samples.iter().filter(|one| below.has(one)).count() as f64 / samples.len().max(1) as f64
    };
    let is_long = has_list && share(&RANGES) >= LONG_SHARE && share(&SEARCHES) >= LONG_SHARE;
    is_long.then(|| Remedy {
        statement: format!(
            "SET SESSION {MOST_MEMORY} = {:.0} before the statement; or join with a temporary table of the values, or ask with shorter \
             lists",
            bytes * MORE
        ),
        why: format!(
            "The values of IN most likely need more memory for their ranges than {} ({MOST_MEMORY}): then the server makes the ranges, \
             gives them up and reads the table whole, though its column may have an index (warning 3170, SHOW WARNINGS).",
            number::bytes(bytes)
        ),
        dynamic: true,
        risk: "Each session that does so may take that much memory for a statement. Of a list that is most of the table no index helps."
            .into(),
        undo: format!("SET SESSION {MOST_MEMORY} = {bytes:.0}"),
    })
}

/// How much more memory is proposed: enough for four times the values. Chosen.
const MORE: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, Rows};

    const LISTED: &str = "SELECT SUM ( `n` ) FROM `articles` WHERE `id` IN (...)";

    fn remedies_for(most_bytes: &str, statement: &str, frames: &[&str]) -> Vec<String> {
        let window = Build::busy("8.0.31")
            .variable(MOST_MEMORY, most_bytes)
            .digest_scans(statement, 12.0, 150_000.0, Rows { examined: 400_000.0, sent: 1.0 }, 1.0)
            .running(100, 0.4, frames)
            .window();
        let findings = crate::diagnose(&window).findings;
        let finding = findings.into_iter().find(|finding| finding.cause == super::super::CAUSE.name);
        finding.unwrap().remedies.into_iter().map(|remedy| remedy.statement).collect()
    }

    #[test]
    fn a_list_whose_ranges_do_not_fit_is_given_the_memory_or_made_shorter() {
        let both = ["in_longlong::find_item", "SEL_ROOT::find_range", "key_or"];
        let remedies = remedies_for("8388608", LISTED, &both);
        assert!(
            remedies[0].starts_with("SET SESSION range_optimizer_max_mem_size = 33554432 "),
            "{remedies:?}"
        );
        assert!(remedies[1].starts_with("EXPLAIN SELECT SUM"), "{remedies:?}");
        let without_list = "SELECT SUM ( `n` ) FROM `articles` WHERE `note` = ?";
        for (most_bytes, statement, frames) in [
            ("0", LISTED, &both[..]),
            ("8388608", without_list, &both[..]),
            ("8388608", LISTED, &both[..1]),
            ("8388608", LISTED, &both[1..]),
        ] {
            let remedies = remedies_for(most_bytes, statement, frames);
            assert!(remedies[0].starts_with("EXPLAIN"), "{most_bytes} {statement} {frames:?}: {remedies:?}");
        }
    }
}
