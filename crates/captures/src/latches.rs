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
    for row in rows.iter() {
        let (name, status) = (row.text("name")?, row.text("status")?);
        let latch = waits.entry(place(name).to_owned()).or_default();
        *latch = latch.saturating_add(count(status)?);
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
    Some(match listed.is_empty() {
        true => "no latch was waited for".to_owned(),
        false => format!("waits since the server's start: {}", listed.join(", ")),
    })
}

/// `spins=4979875,waits=146435,calls=450950` to MySQL 8.0; `os_waits=7` to 5.6 and in MariaDB; `waits=7`.
fn count(status: &str) -> Option<u64> {
    let of = |part: &str| {
        part.trim().strip_prefix("waits=").or_else(|| part.trim().strip_prefix("os_waits="))?.parse().ok()
    };
    status.split(',').find_map(of)
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
    fn the_status_itself_is_no_such_list() {
        let status = "| Type | Name | Status |\n| InnoDB |  | a text |\n";
        assert_eq!(tables(status).first().and_then(sentence), None);
    }
}
