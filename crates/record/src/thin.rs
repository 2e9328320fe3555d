//! A sample without the lists of the server's threads and transactions: on a server with a thousand connections,
//! reading these lists takes ten times as long as all the rest.

use spindoctor_model::Reading;

use crate::codec::{Raw, ReadSecond, Undecodable};

/// Where the lists stand in a [`ReadSecond`].
const LISTS: [[&str; 5]; 2] = [
    ["sample", "server", "threads", "available", "value"],
    ["sample", "server", "transactions", "available", "value"],
];

/// The value, with lists that are empty where there was an answer: when it came and how long it took is kept.
pub(crate) fn with_empty_lists(raw: &Raw<'_>) -> Result<ReadSecond, Undecodable> {
    raw.raise_without(LISTS.iter().map(<[&str; 5]>::as_slice))
}

/// The value without the lists: they are not asked for.
pub(crate) fn without_lists(raw: &Raw<'_>) -> Result<ReadSecond, Undecodable> {
    let mut second = with_empty_lists(raw)?;
    second.sample.server.threads = Reading::NotAsked;
    second.sample.server.transactions = Reading::NotAsked;
    Ok(second)
}
