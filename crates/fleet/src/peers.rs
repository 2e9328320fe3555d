//! Servers with other settings than their peers. Pure.
//!
//! Peers are servers of one release series and one role: nobody expects different settings on them. A value that most
//! of them have is the norm, and a server with another value is odd. Settings that differ on every server (its name,
//! its files, its place in the replication) are skipped. Each value of a setting is kept once, however many servers
//! have it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use spindoctor_model::mysql::NamedValues;

/// With fewer peers there is no norm: of two that differ nobody can say which one is odd.
const LEAST_PEERS: usize = 3;
/// The norm is what two thirds have, at least: two of three peers. Where fewer agree there is none.
const NORM: f64 = 2.0 / 3.0;
/// A setting with more values than this is each server's own, though it is not on the list of those.
const MOST_VALUES: usize = 64;
/// Of a longer value the beginning is kept, and a hash of all of it.
const LONGEST_BYTES: usize = 1024;

/// What every server has for itself (MySQL and MariaDB Reference Manuals): who it is, where it listens, where it stands in
/// the replication.
const OWN: &[&str] = &[
    "admin_address",
    "admin_port",
    "auto_increment_offset",
    "bind_address",
    "extra_port",
    "group_replication_local_address",
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "gtid_executed",
    "gtid_owned",
    "gtid_purged",
    "gtid_slave_pos",
    "hostname",
    "innodb_buffer_pool_filename",
    "innodb_version",
    "log_bin_basename",
    "log_bin_index",
    "log_error",
    "mysqlx_bind_address",
    "mysqlx_port",
    "mysqlx_socket",
    "pid_file",
    "port",
    "relay_log",
    "relay_log_basename",
    "relay_log_index",
    "report_host",
    "report_port",
    "server_id",
    "server_uid",
    "server_uuid",
    "socket",
    "tmpdir",
    "wsrep_gtid_domain_id",
    "wsrep_provider_options",
    "wsrep_sst_receive_address",
    "wsrep_start_position",
];
/// Beginnings and ends of names of such settings. Versions are compared apart.
const OWN_PREFIXES: &[&str] = &["version", "wsrep_node_"];
const OWN_SUFFIXES: &[&str] = &["dir", "_file", "_path"];

/// Settings that decide over durability, memory and throughput, the most important first: they are listed before all others.
/// After the catalogue of causes and the variables that the tuner may change.
const WEIGHTY: &[&str] = &[
    "read_only",
    "super_read_only",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "innodb_doublewrite",
    "log_bin",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "max_connections",
    "thread_handling",
    "thread_cache_size",
    "table_open_cache",
    "innodb_log_spin_cpu_pct_hwm",
    "innodb_log_spin_cpu_abs_lwm",
    "innodb_log_writer_threads",
    "innodb_sync_spin_loops",
    "innodb_spin_wait_delay",
    "innodb_spin_wait_pause_multiplier",
    "innodb_thread_concurrency",
    "innodb_adaptive_hash_index",
    "innodb_max_purge_lag",
    "query_cache_type",
    "query_cache_size",
    "performance_schema",
    "sql_mode",
    "transaction_isolation",
    "tx_isolation",
    "binlog_format",
    "character_set_server",
    "time_zone",
    "system_time_zone",
];

/// A setting that some have otherwise than their peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// The setting's name.
    pub setting: String,
    /// The peers that are compared: `MySQL 8.0, replica`.
    pub peers: String,
    /// How many of them have the setting at all.
    pub of: usize,
    /// What most of them have.
    pub norm: String,
    /// How many have that value.
    pub norm_servers: usize,
    /// The other values, the most frequent first, each with its servers in the order of the list.
    pub others: Vec<(String, Vec<usize>)>,
}

impl Odd {
    /// Servers that are odd.
    pub fn servers(&self) -> impl Iterator<Item = usize> {
        self.others.iter().flat_map(|(_, servers)| servers.iter().copied())
    }
}

/// A setting of which there is no norm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The setting's name.
    pub setting: String,
    /// The peers that are compared.
    pub peers: String,
    /// Each value with how many have it, the most frequent first.
    pub values: Vec<(String, usize)>,
}

/// What came of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compared {
    /// Settings with odd ones, the weightiest first, then those with the fewest odd ones.
    pub odd: Vec<Odd>,
    /// Settings without a norm, by name.
    pub split: Vec<Split>,
}

/// Settings on their way into the comparison.
#[derive(Debug, Default)]
pub struct Peers {
    groups: BTreeMap<String, BTreeMap<String, Values>>,
}

/// The values of one setting, each with its servers.
type Values = HashMap<String, Vec<usize>>;

impl Peers {
    /// Adds a server's settings to those of its peers.
    pub fn add(&mut self, server: usize, peers: &str, variables: &NamedValues) {
        let group = self.groups.entry(peers.to_owned()).or_default();
        for (name, value) in variables.iter().filter(|(name, _)| !is_own(name)) {
            let values = match group.get_mut(name) {
                Some(values) => values,
                None => group.entry(name.to_owned()).or_default(),
            };
            let value = shortened(value);
            // One more than that, and it is known that nobody will ask for them.
            let is_own = values.len() > MOST_VALUES;
            match values.get_mut(&*value) {
                Some(servers) => servers.push(server),
                None if is_own => {}
                None => {
                    values.insert(value.into_owned(), vec![server]);
                }
            }
        }
    }

    /// Compares the settings of all servers added so far.
    pub fn finish(self) -> Compared {
        let mut compared = Compared::default();
        for (peers, settings) in self.groups {
            for (setting, values) in settings {
                compared.setting(&peers, setting, values);
            }
        }
        let weight =
            |name: &str| WEIGHTY.iter().position(|weighty| *weighty == name).unwrap_or(WEIGHTY.len());
        compared.odd.sort_by_cached_key(|odd| {
            (weight(&odd.setting), odd.servers().count(), odd.setting.clone(), odd.peers.clone())
        });
        compared.split.sort_by(|a, b| (&a.setting, &a.peers).cmp(&(&b.setting, &b.peers)));
        compared
    }
}

impl Compared {
    fn setting(&mut self, peers: &str, setting: String, values: Values) {
        if values.len() < 2 || values.len() > MOST_VALUES {
            return;
        }
        let mut values: Vec<(String, Vec<usize>)> = values.into_iter().collect();
        for (_, servers) in &mut values {
            servers.sort_unstable();
        }
        values.sort_by(|a, b| (b.1.len(), &a.0).cmp(&(a.1.len(), &b.0)));
        let of: usize = values.iter().map(|(_, servers)| servers.len()).sum();
        let peers = peers.to_owned();
        let most = values[0].1.len();
        if of >= LEAST_PEERS && most as f64 >= NORM * of as f64 {
            let (norm, _) = values.remove(0);
            self.odd.push(Odd { setting, peers, of, norm, norm_servers: most, others: values });
        } else {
            let values = values.into_iter().map(|(value, servers)| (value, servers.len())).collect();
            self.split.push(Split { setting, peers, values });
        }
    }

    /// Servers that are odd in at least so many settings, with how many, the oddest first.
    pub fn strangers(&self, least: usize) -> Vec<(usize, usize)> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for server in self.odd.iter().flat_map(Odd::servers) {
            *counts.entry(server).or_default() += 1;
        }
        let mut strangers: Vec<(usize, usize)> =
            counts.into_iter().filter(|(_, settings)| *settings >= least).collect();
        strangers.sort_by_key(|&(server, settings)| (std::cmp::Reverse(settings), server));
        strangers
    }
}

fn is_own(name: &str) -> bool {
    OWN.contains(&name)
        || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || OWN_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// A value as it is kept: one that is too long with a hash, so that two of them stay different.
fn shortened(value: &str) -> std::borrow::Cow<'_, str> {
    if value.len() <= LONGEST_BYTES {
        return value.into();
    }
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let head = &value[..value.floor_char_boundary(LONGEST_BYTES)];
    format!("{head}... ({} bytes, {:016x})", value.len(), hasher.finish()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Settings = [(&'static str, &'static str)];

    fn compared(servers: &[(&str, &Settings)]) -> Compared {
        let mut peers = Peers::default();
        for (at, (group, settings)) in servers.iter().enumerate() {
            peers.add(at, group, &settings.iter().copied().collect());
        }
        peers.finish()
    }

    #[test]
    fn the_odd_ones_are_named_and_the_weighty_settings_come_first() {
        let common: &Settings = &[("a", "1"), ("sync_binlog", "1"), ("b", "x"), ("server_id", "1")];
        let found = compared(&[
            ("m", common),
            ("m", &[("a", "1"), ("sync_binlog", "0"), ("b", "z"), ("server_id", "2")]),
            ("m", common),
            ("m", &[("a", "2"), ("sync_binlog", "1"), ("b", "y"), ("server_id", "3")]),
            ("m", common),
            ("m", &[("a", "1"), ("sync_binlog", "0"), ("b", "x"), ("server_id", "4"), ("c", "alone")]),
        ]);
        let listed: Vec<(&str, usize, usize)> =
            found.odd.iter().map(|odd| (odd.setting.as_str(), odd.norm_servers, odd.of)).collect();
        assert_eq!(listed, [("sync_binlog", 4, 6), ("a", 5, 6), ("b", 4, 6)]);
        assert_eq!(found.odd[0].others, [("0".to_owned(), vec![1, 5])]);
        assert_eq!(found.odd[2].others, [("y".to_owned(), vec![3]), ("z".to_owned(), vec![1])]);
        assert_eq!(found.split, []);
        assert_eq!(found.strangers(2), [(1, 2), (3, 2)]);
        assert_eq!(found.strangers(3), []);
    }

    #[test]
    fn peers_are_compared_with_each_other_only() {
        let found = compared(&[
            ("old", &[("a", "1")]),
            ("old", &[("a", "1")]),
            ("old", &[("a", "1")]),
            ("new", &[("a", "2")]),
            ("new", &[("a", "2")]),
            ("new", &[("a", "2")]),
        ]);
        assert_eq!(found, Compared::default());
    }

    #[test]
    fn two_peers_or_a_divided_house_have_no_norm() {
        let two = compared(&[("m", &[("a", "1")]), ("m", &[("a", "2")])]);
        assert_eq!((two.odd.len(), two.split.len()), (0, 1));
        let of = |value| ("m", value);
        let (one, other): (&Settings, &Settings) = (&[("a", "1")], &[("a", "2")]);
        let divided = compared(&[of(one), of(one), of(one), of(other), of(other)]);
        assert_eq!(divided.odd, []);
        assert_eq!(divided.split[0].values, [("1".to_owned(), 3), ("2".to_owned(), 2)]);
        let two_thirds = compared(&[of(one), of(one), of(other)]);
        assert_eq!(two_thirds.odd.len(), 1);
    }

    #[test]
    fn what_differs_on_every_server_is_its_own() {
        let mut peers = Peers::default();
        for at in 0..500 {
            let values = NamedValues::from_iter([
                ("some_id", format!("{at}")),
                ("ssl_dir", format!("/db{at}")),
                ("a", if at == 7 { "2".to_owned() } else { "1".to_owned() }),
            ]);
            peers.add(at, "m", &values);
        }
        let found = peers.finish();
        assert_eq!(found.split, []);
        assert_eq!(found.odd.len(), 1);
        assert_eq!((found.odd[0].norm_servers, found.odd[0].servers().collect::<Vec<_>>()), (499, vec![7]));
    }

    #[test]
    fn long_values_are_distinguished_by_what_is_not_kept() {
        let long = |end: &str| format!("{}{end}", "ä".repeat(LONGEST_BYTES));
        assert!(shortened(&long("x")).len() < 1100);
        assert_ne!(shortened(&long("x")), shortened(&long("y")));
        assert_eq!(shortened("x"), "x");
    }
}
