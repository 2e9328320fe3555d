//! What mostly waits, for a server that hardly works, and holds nobody to a time that a machine with other work could not
//! keep: `script/test` runs several of all tests with a module `calm` in their path at once, and every other test alone.

mod bad_days;
mod bundle;
mod contained;
mod fleet_pileups;
mod fleet_reading;
mod fleet_servers;
mod instants;
mod literals;
mod live;
mod load;
mod locks;
mod logins;
mod matrix;
mod odd_names;
mod plan;
mod prepared;
mod proxies;
mod restarts;
pub(crate) mod stacks;
mod sweep;
