//! `information_schema.INNODB_LOCKS` of MariaDB and MySQL to 5.7: which record several transactions want. It has the locks that are
//! waited for or in the way; which of the two a lock is, INNODB_LOCK_WAITS says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spindoctor_collect::mysql::Rows;
use spindoctor_model::number;

/// Records that are named, and transactions of each.
const MOST: usize = 3;
const NAMED: usize = 5;

/// True for the columns of such a list, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    ["lock_trx_id", "lock_table"].iter().all(|name| columns.iter().any(|column| column == name))
}

/// Which records several transactions want, those of most first.
pub(crate) fn sentences(rows: &Rows) -> Vec<String> {
    const PLACE: [&str; 5] = ["lock_table", "lock_index", "lock_space", "lock_page", "lock_rec"];
    let mut places: BTreeMap<[String; 5], BTreeSet<String>> = BTreeMap::new();
    for row in rows.iter() {
        let place = PLACE.map(|name| row.string(name).replace('`', ""));
        places.entry(place).or_default().insert(row.string("lock_trx_id"));
    }
    let mut wanted: Vec<_> = places.into_iter().filter(|(_, transactions)| transactions.len() > 1).collect();
    wanted.sort_by_key(|(_, transactions)| Reverse(transactions.len()));
    let sentence = |(place, transactions): &([String; 5], BTreeSet<String>)| {
        let [table, index, ..] = place;
        let what = match index.is_empty() {
            true => table.clone(),
            false => format!("one record of {table}, index {index}"),
        };
        let named: Vec<&str> = transactions.iter().take(NAMED).map(String::as_str).collect();
        let more = if transactions.len() > NAMED { " and more" } else { "" };
        let no_key = if index == "GEN_CLUST_INDEX" { "; the table has no primary key" } else { "" };
        let count = number::counted(transactions.len() as u64, "transaction", "transactions");
        format!("{count} want {what}: {}{more}{no_key}", named.join(", "))
    };
    wanted.iter().take(MOST).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use crate::part::Kind;
    use crate::recognise;

    #[test]
    fn a_record_that_two_transactions_want_is_said_with_its_table() {
        let list = "| lock_id | lock_trx_id | lock_mode | lock_type | lock_table | lock_index | lock_space | lock_page | lock_rec | lock_data |\n\
                    | 82:5:3:2 | 82 | X | RECORD | `shop`.`stock` | GEN_CLUST_INDEX | 5 | 3 | 2 | 0x0204 |\n\
                    | 81:5:3:2 | 81 | X | RECORD | `shop`.`stock` | GEN_CLUST_INDEX | 5 | 3 | 2 | 0x0204 |\n\
                    | 81:6:3:9 | 81 | S | RECORD | `shop`.`line` | PRIMARY | 6 | 3 | 9 | 7 |\n";
        let parts = recognise("x", list);
        assert_eq!(parts[0].kind, Kind::LockWaits, "{parts:?}");
        let wanted = "2 transactions want one record of shop.stock, index GEN_CLUST_INDEX: 81, 82; the table has no primary key";
        assert_eq!(parts[0].says, [wanted]);
    }
}
