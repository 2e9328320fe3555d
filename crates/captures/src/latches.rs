//! `SHOW ENGINE INNODB MUTEX`: which latches were waited for most, in a sentence. The counters are those since the server's start:
//! no cause rests on them.

use std::collections::BTreeMap;

use spindoctor_collect::mysql::Rows;
use spindoctor_model::number;

/// Latches that are named.
const MOST: usize = 5;

/// The latches that were waited for most, those of one name together; None for rows that are no such list.
pub(crate) fn sentence(rows: &Rows) -> Option<String> {
    let mut waits: BTreeMap<String, u64> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let name = row.text("name")?;
        match row.text("status").and_then(count) {
            Some(waited) => {
                let latch = waits.entry(place(name).to_owned()).or_default();
                *latch = latch.saturating_add(waited);
            }
            // A text that was cut in its last row.
            None if at > 0 && at + 1 == rows.len() => {}
            None => return None,
        }
    }
    let mut ranked: Vec<(String, u64)> = waits.into_iter().filter(|(_, waits)| *waits > 0).collect();
    ranked.sort_by_key(|(_, waits)| std::cmp::Reverse(*waits));
    let all = ranked.iter().fold(0_u64, |sum, (_, waits)| sum.saturating_add(*waits));
    let share = |waits: u64| number::percent(waits as f64 / all as f64);
    let listed: Vec<String> = ranked
        .iter()
        .take(MOST)
        .map(|(name, waits)| format!("{name} {} ({})", number::whole(*waits as f64), share(*waits)))
        .collect();
    // Of what latches guard, a server can do without this alone.
    let is_of_index = ranked.first().is_some_and(|(name, _)| name.starts_with("btr0sea"));
    let index = match is_of_index {
        true => "; btr0sea is the adaptive hash index: innodb_adaptive_hash_index = OFF does without it",
        false => "",
    };
    Some(match listed.is_empty() {
        true => "no latch was waited for".to_owned(),
        false => format!("waits since the server's start: {}{index}", listed.join(", ")),
    })
}

/// `spins=4979875,waits=146435,calls=450950` to MySQL 8.0; `os_waits=7` to 5.6 and in MariaDB; `waits=7`.
fn count(status: &str) -> Option<u64> {
    let of = |part: &str| {
        part.trim().strip_prefix("waits=").or_else(|| part.trim().strip_prefix("os_waits="))?.parse().ok()
    };
    status.split(',').find_map(of)
}

/// True for what the list has in its last column.
pub(crate) fn is_count(status: &str) -> bool {
    count(status).is_some()
}

/// `&buf_pool->mutex`, and of `rwlock: buf0buf.cc:1460` the place.
fn place(name: &str) -> &str {
    name.rsplit(": ").next().unwrap_or(name).trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    #[test]
    fn latches_of_one_name_are_one_and_the_costliest_stands_first() {
        let list = "| Type | Name | Status |\n| InnoDB | FLUSH_LIST | spins=50,waits=50000,calls=9 |\n\
                    | InnoDB | REDO_RSEG | spins=5,waits=150000,calls=4 |\n| InnoDB | REDO_RSEG | spins=4,waits=1400,calls=4 |\n";
        assert_eq!(
            sentence(&tables(list)[0]).as_deref(),
            Some("waits since the server's start: REDO_RSEG 151,400 (75 %), FLUSH_LIST 50,000 (25 %)")
        );
        let old = "| Type | Name | Status |\n| InnoDB | rwlock: buf0buf.cc:1460 | waits=3 |\n| InnoDB | log0log.c:775 | os_waits=1 |\n";
        assert_eq!(
            sentence(&tables(old)[0]).as_deref(),
            Some("waits since the server's start: buf0buf.cc:1460 3 (75 %), log0log.c:775 1 (25 %)")
        );
    }

    #[test]
    fn most_waits_for_the_adaptive_hash_index_are_said_to_be_for_it() {
        let list = "| Type | Name | Status |\n| InnoDB | rwlock: btr0sea.cc:191 | waits=9 |\n| InnoDB | rwlock: hash0hash.cc:353 | waits=1 |\n";
        let said = sentence(&tables(list)[0]).unwrap_or_default();
        assert!(
            said.contains("btr0sea.cc:191 9 (90 %)") && said.contains("innodb_adaptive_hash_index"),
            "{said}"
        );
        let other = list.replace("waits=1 ", "waits=10 ");
        assert!(!sentence(&tables(&other)[0]).unwrap_or_default().contains("adaptive"));
    }

    #[test]
    fn a_list_that_was_cut_at_its_head_or_in_its_last_row_is_read() {
        let says = |text: &str| {
            crate::recognise("x", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>()
        };
        let wanted = ["waits since the server's start: log0log.c:771 30 (91 %), dict0mem.c:92 3 (9.1 %)"];
        let cut = "Type\tName\tStatus\nInnoDB\tdict0mem.c:92\tos_waits=3\nInnoDB\tlog0log.c:771\tos_waits=30\nInnoDB\tdict0di";
        assert_eq!(says(cut), wanted);
        let headless = "| InnoDB | dict0mem.c:92 | os_waits=3  |\n| InnoDB | log0log.c:771 | os_waits=30 |\n";
        assert_eq!(says(headless), wanted);
    }

    #[test]
    fn the_status_itself_is_no_such_list() {
        let status = "| Type | Name | Status |\n| InnoDB |  | a text |\n";
        assert_eq!(tables(status).first().and_then(sentence), None);
    }
}
