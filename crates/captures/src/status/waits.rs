//! Who waits for whose lock among the transactions that a status prints.

use spindoctor_model::InnodbStatus;
use spindoctor_model::mysql::RowLockWait;

use super::{Entry, Lock};

/// Transactions that wait of which the holder is looked for.
const MOST_WAITERS: usize = 2_000;

impl Lock {
    /// True where who has this lock stands in the way of who wants the other.
    fn blocks(&self, wanted: &Self) -> bool {
        let is_gap_only = self.printed.mode.contains("locks gap before rec");
        let fits = match wanted.printed.mode.contains("insert intention") {
            true => {
                !self.printed.mode.contains("insert intention")
                    && !self.printed.mode.contains("rec but not gap")
            }
            false => !is_gap_only,
        };
        // Of a page with many records the text prints those that are locked; older servers print none.
        let is_same_record = self.records.is_empty()
            || wanted.records.is_empty()
            || self.records.iter().any(|record| wanted.records.contains(record));
        let is_shared = |lock: &Self| lock.printed.mode.split(' ').next() == Some("S");
        fits && is_same_record
            && !(is_shared(self) && is_shared(wanted))
            && (&self.printed.table, &self.printed.page, &self.printed.index)
                == (&wanted.printed.table, &wanted.printed.page, &wanted.printed.index)
    }
}

/// Who waits for whose lock. A holder is named where the text prints the lock that it has, or where only one transaction can
/// have it; of the other waits it is known for what they are.
pub(super) fn between(entries: &[Entry], status: &InnodbStatus) -> Vec<RowLockWait> {
    let is_waiting = |entry: &&Entry| entry.is_active && entry.transaction.state == "LOCK WAIT";
    let others: Vec<&Entry> = entries.iter().filter(|entry| entry.is_active && !is_waiting(entry)).collect();
    let mut waits = Vec::new();
    for waiter in entries.iter().filter(is_waiting).take(MOST_WAITERS) {
        let Some(wanted) = &waiter.wanted else { continue };
        let is_counter = wanted.printed.mode.starts_with("AUTO-INC");
        let waited_s = waiter.transaction.waited_s.unwrap_or(0.0);
        let printed = entries.iter().find(|other| {
            other.transaction.id != waiter.transaction.id && other.held.iter().any(|held| held.blocks(wanted))
        });
        // Ages are printed in whole seconds.
        let mut old = others.iter().filter(|other| other.transaction.age_s + 1.0 >= waited_s);
        let mut can = old.clone().filter(|other| match is_counter {
            true => inserts_into(other, &wanted.printed.table),
            // MySQL 5.0 does not count the rows that it has locked.
            false => other.transaction.rows_locked > 0 || other.transaction.rows_modified > 0,
        });
        let inferred = match (can.next(), can.next()) {
            (Some(only), None) => Some(*only),
            _ => None,
        };
        let is_whole = !status.truncated || old.all(|other| !other.is_cut);
        let holder =
            printed.or(inferred).filter(|holder| holder.transaction.connection_id.is_some() || is_whole);
        waits.push(RowLockWait {
            waiting_connection_id: waiter.transaction.connection_id,
            blocking_connection_id: holder.and_then(|holder| holder.transaction.connection_id),
            waiting_transaction: waiter.transaction.id.clone(),
            blocking_transaction: holder.map(|holder| holder.transaction.id.clone()).unwrap_or_default(),
            table: wanted.printed.table.clone(),
            index: wanted.printed.index.clone(),
            record: String::new(),
            mode: wanted.printed.mode.replace("AUTO-INC", "AUTO_INC"),
            waited_s,
        });
    }
    waits
}

/// True where the statement inserts into that table.
fn inserts_into(entry: &Entry, table: &str) -> bool {
    let statement = entry.transaction.statement.as_deref().unwrap_or_default();
    let name = table.rsplit('.').next().unwrap_or(table);
    let first = spindoctor_sql::first_table(statement).map(|first| first.to_ascii_lowercase());
    let name = name.to_ascii_lowercase();
    ["INSERT", "REPLACE", "LOAD", "CREATE"].iter().any(|word| spindoctor_sql::begins_with(statement, &[word]))
        && first.is_some_and(|first| {
            first.rsplit('.').next().is_some_and(|first| first.trim_matches('`') == name)
        })
}
