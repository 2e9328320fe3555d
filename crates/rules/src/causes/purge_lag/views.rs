//! Who may hold purge back: a transaction with a read view, which is what it may still see of old versions.
//!
//! InnoDB's status prints below a transaction the read view that it has (lock0lock.cc, trx0trx.cc). A transaction that has only written
//! has none, and below REPEATABLE READ a view goes with its statement.

use std::collections::HashMap;

use spindoctor_model::mysql::{ServerThread, Transaction};
use spindoctor_model::number::duration;
use spindoctor_model::{Remedy, Window};

use crate::killing::{self, LOOK_FIRST};
use crate::sessions;

/// The transaction that holds purge back, as far as it is known.
pub(crate) struct Oldest<'w> {
    pub(crate) open: &'w Transaction,
    /// Its view is the oldest that the status prints; else it is only open for longest.
    has_view: bool,
}

impl Oldest<'_> {
    /// ` (connection 12)`
    fn connection(&self) -> String {
        self.open.connection_id.map_or_else(String::new, |id| format!(" (connection {id})"))
    }

    /// What purge keeps for it.
    pub(super) fn holds(&self) -> String {
        let (open, connection) = (duration(self.open.age_s), self.connection());
        if self.has_view {
            format!(
                "A transaction is open for {open}{connection} and has the oldest read view: purge keeps what it may still see."
            )
        } else {
            format!(
                "A transaction is open for {open}{connection}, and purge most likely keeps what it may still see."
            )
        }
    }

    /// The same of versions that statements walk through.
    pub(super) fn keeps(&self) -> String {
        let likely = if self.has_view { "" } else { "most likely " };
        let (open, connection) = (duration(self.open.age_s), self.connection());
        format!(
            "The oldest transaction is open for {open}{connection}, and {likely}keeps them from being purged."
        )
    }

    /// `the read view of connection 7 keeps`
    pub(super) fn view_keeps(&self) -> String {
        let likely = if self.has_view { "" } else { "most likely " };
        let whose = self
            .open
            .connection_id
            .map_or_else(|| "an old transaction".to_owned(), |id| format!("connection {id}"));
        format!("the read view of {whose} {likely}keeps")
    }

    /// Ending it, where that ends anything.
    pub(super) fn kill(&self, window: &Window) -> Option<Remedy> {
        let mut samples = window.samples.iter().rev();
        let sample = samples.find(|sample| sample.server.transactions.value().is_some())?;
        let id = self.open.connection_id.filter(|&id| killing::frees(&sample.server, id))?;
        let why = "Purge can then remove what only it could see.";
        let why = if self.has_view {
            why.to_owned()
        } else {
            format!("{LOOK_FIRST}{why} One that has read nothing holds nothing back.")
        };
        Some(sessions::ending(&sample.server, id, &why))
    }
}

/// The transaction that holds purge back for at least so long: the one with the oldest view that is printed; where none is, or not all
/// that are old enough are printed, the one that may have had one for longest.
pub(crate) fn oldest(window: &Window, from_s: f64) -> Option<Oldest<'_>> {
    let all = window.latest(|s| &s.server.transactions)?;
    let threads = window.latest(|s| &s.server.threads).map(Vec::as_slice);
    let status = window.latest(|s| &s.server.innodb_status);
    let printed: HashMap<u64, Option<u64>> = status
        .into_iter()
        .flat_map(|status| &status.transactions.transactions)
        .filter_map(|one| Some((one.connection_id?, one.view_order)))
        .collect();
    let view = |open: &Transaction| printed.get(&open.connection_id?).copied().flatten();
    let is_old = |open: &&Transaction| may_have_kept_s(open, threads) >= from_s;
    let is_printed = |open: &Transaction| open.connection_id.is_some_and(|id| printed.contains_key(&id));
    let by_view = all.iter().filter_map(|open| Some((view(open)?, open))).min_by_key(|(order, _)| *order);
    match by_view {
        Some((_, open)) if all.iter().filter(is_old).all(is_printed) => {
            Some(open).filter(is_old).map(|open| Oldest { open, has_view: true })
        }
        _ => {
            let kept_s = |open: &Transaction| may_have_kept_s(open, threads);
            let longest = all.iter().filter(is_old).max_by(|a, b| kept_s(a).total_cmp(&kept_s(b)));
            longest.map(|open| Oldest { open, has_view: false })
        }
    }
}

/// For how long a transaction may have had its read view, seconds: since its beginning, or since that of its statement.
fn may_have_kept_s(open: &Transaction, threads: Option<&[ServerThread]>) -> f64 {
    if !open.has_view_of_statement() {
        return open.age_s;
    }
    let Some(threads) = threads else {
        return if open.statement.is_some() { open.age_s } else { 0.0 };
    };
    let session = threads
        .iter()
        .find(|thread| thread.connection_id.is_some() && thread.connection_id == open.connection_id);
    session.filter(|thread| thread.command != "Sleep").map_or(0.0, |thread| thread.time_s.min(open.age_s))
}
