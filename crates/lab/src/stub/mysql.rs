//! The answers of an examined stub server: the settings, counters and threads of a healthy, busy MySQL 8.0, as many
//! rows of each as it has, and the differences between the servers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use super::{Answers, answer};

/// Variables, status variables and metrics of MySQL 8.0.36.
const VARIABLES: usize = 620;
const STATUS: usize = 490;
const METRICS: usize = 314;
/// It has run for so long when it is started, seconds.
const UP_S: f64 = 100_000.0;

const SETTINGS: &[(&str, &str)] = &[
    ("hostname", "stub"),
    ("innodb_buffer_pool_size", "134217728"),
    ("innodb_flush_log_at_trx_commit", "1"),
    ("innodb_log_spin_cpu_abs_lwm", "80"),
    ("innodb_log_spin_cpu_pct_hwm", "50"),
    ("innodb_log_writer_threads", "ON"),
    ("innodb_redo_log_capacity", "104857600"),
    ("innodb_spin_wait_delay", "6"),
    ("innodb_spin_wait_pause_multiplier", "50"),
    ("innodb_sync_spin_loops", "30"),
    ("log_bin", "ON"),
    ("max_connections", "151"),
    ("performance_schema", "ON"),
    ("read_only", "OFF"),
    ("sync_binlog", "1"),
    ("table_open_cache", "4000"),
    ("thread_cache_size", "9"),
    ("thread_handling", "one-thread-per-connection"),
    ("version_comment", "MySQL Community Server - GPL"),
    ("wait_timeout", "28800"),
];
/// Counters, by how much they grow in a second.
const COUNTERS: &[(&str, f64)] = &[
    // Each statement is counted in one of these, and in Questions.
    ("Com_begin", 400.0),
    ("Com_commit", 400.0),
    ("Com_delete", 0.0),
    ("Com_insert", 0.0),
    ("Com_select", 4400.0),
    ("Com_set_option", 400.0),
    ("Com_update", 400.0),
    ("Connection_errors_max_connections", 0.0),
    ("Connections", 0.2),
    ("Handler_read_rnd_next", 3000.0),
    ("Innodb_data_fsyncs", 330.0),
    ("Innodb_os_log_fsyncs", 300.0),
    ("Innodb_os_log_written", 700_000.0),
    ("Innodb_row_lock_time", 12.0),
    ("Innodb_row_lock_waits", 3.0),
    ("Innodb_rows_read", 50_000.0),
    ("Opened_tables", 0.1),
    ("Questions", 6000.0),
    ("Select_scan", 2.0),
    ("Table_open_cache_hits", 4900.0),
    ("Table_open_cache_misses", 0.1),
    ("Threads_created", 0.0),
    ("Uptime", 1.0),
];

/// What sets a server apart.
#[derive(Debug, Clone, Default)]
pub struct Apart {
    /// Variables with values of their own.
    pub settings: Vec<(&'static str, String)>,
    /// Connections beyond the usual ones.
    pub connected: u32,
    /// Statements that run, with their time in seconds.
    pub running: Vec<(u32, String)>,
    /// Seconds that it is behind its source, where it is a replica.
    pub behind_s: Option<u32>,
    /// True where somebody stops its replica: who asks how that keeps up gets no answer.
    pub stops_replica: bool,
}

/// Stub servers that are looked at; `apart` says what is special about one.
pub fn answers(apart: impl Fn(Ipv4Addr) -> Apart + Send + Sync + 'static) -> Answers {
    let start = Instant::now();
    Answers::new(move |address, sql| {
        let up_s = UP_S + start.elapsed().as_secs_f64();
        match sql {
            _ if sql.contains("LIKE 'performance_schema'") => {
                named(&[("performance_schema", "ON".to_owned())])
            }
            _ if sql.contains("SHOW GLOBAL VARIABLES") => variables(address, &apart(address)),
            _ if sql.contains("SHOW GLOBAL STATUS") => status(up_s, &apart(address)),
            _ if sql.contains("performance_schema.threads") && !sql.contains("metadata_locks") => {
                threads(&apart(address))
            }
            _ if sql.contains("performance_schema.metadata_locks") => {
                answer(&[("ENABLED", 253)], [vec!["YES"]])
            }
            _ if sql.contains("INNODB_METRICS") => metrics(up_s),
            _ if sql.contains("SHOW REPLICA STATUS") => replica(&apart(address)),
            _ if sql.contains("events_waits_summary") => waits(up_s),
            _ if sql.contains("file_summary") => files(up_s),
            // Nobody waits for anybody.
            _ => answer(&[("nothing", 253)], []),
        }
    })
}

type Bytes = std::sync::Arc<[u8]>;

fn named(pairs: &[(&str, String)]) -> Bytes {
    let rows = pairs.iter().map(|(name, value)| vec![*name, value.as_str()]);
    answer(&[("Variable_name", 253), ("Value", 253)], rows)
}

fn variables(address: Ipv4Addr, apart: &Apart) -> Bytes {
    let mut values: BTreeMap<&str, String> =
        SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    values.insert("server_uuid", format!("3e11fa47-71ca-11e1-9e33-{:012x}", u32::from(address)));
    values.extend(apart.settings.iter().map(|(name, value)| (*name, value.clone())));
    let others: Vec<String> =
        (values.len()..VARIABLES).map(|at| format!("a_variable_that_nobody_reads_{at}")).collect();
    values.extend(others.iter().map(|name| (name.as_str(), "DEFAULT".to_owned())));
    named(&values.into_iter().collect::<Vec<_>>())
}

fn status(up_s: f64, apart: &Apart) -> Bytes {
    let counter = |(name, per_s): &(&'static str, f64)| (*name, format!("{:.0}", (per_s * up_s).floor()));
    let mut values: Vec<(&str, String)> = COUNTERS.iter().map(counter).collect();
    values.push(("Threads_connected", (18 + apart.connected).to_string()));
    values.push(("Threads_running", "3".to_owned()));
    let others: Vec<String> =
        (values.len()..STATUS).map(|at| format!("A_counter_that_nobody_reads_{at}")).collect();
    values.extend(others.iter().map(|name| (name.as_str(), "0".to_owned())));
    named(&values)
}

fn replica(apart: &Apart) -> Bytes {
    const COLUMNS: [(&str, u8); 6] = [
        ("Source_Host", 253),
        ("Source_Port", 8),
        ("Replica_IO_Running", 253),
        ("Replica_SQL_Running", 253),
        ("Seconds_Behind_Source", 8),
        ("Channel_Name", 253),
    ];
    if apart.stops_replica {
        return Bytes::from([0_u8; 0]);
    }
    let behind_s = apart.behind_s.map(|behind_s| behind_s.to_string());
    let channel = behind_s.as_deref().map(|behind_s| vec!["db1", "3306", "Yes", "Yes", behind_s, ""]);
    answer(&COLUMNS, channel)
}

fn metrics(up_s: f64) -> Bytes {
    let mut rows = vec![
        ("trx_rseg_history_len".to_owned(), "40".to_owned(), "enabled"),
        ("log_lsn_current".to_owned(), format!("{:.0}", 1e9 + up_s * 7e5), "enabled"),
        ("log_lsn_checkpoint_age".to_owned(), "20000000".to_owned(), "enabled"),
    ];
    let others = rows.len()..METRICS;
    rows.extend(others.map(|at| (format!("a_metric_that_is_off_{at}"), "0".to_owned(), "disabled")));
    let rows = rows.iter().map(|(name, count, status)| vec![name.as_str(), count.as_str(), *status]);
    answer(&[("NAME", 253), ("COUNT", 8), ("STATUS", 253)], rows)
}

/// Sixteen connections, of which one runs something, and what sets the server apart.
fn threads(apart: &Apart) -> Bytes {
    const COLUMNS: [(&str, u8); 11] = [
        ("THREAD_ID", 8),
        ("NAME", 253),
        ("TYPE", 253),
        ("PROCESSLIST_ID", 8),
        ("PROCESSLIST_USER", 253),
        ("PROCESSLIST_HOST", 253),
        ("PROCESSLIST_DB", 253),
        ("PROCESSLIST_COMMAND", 253),
        ("PROCESSLIST_TIME", 8),
        ("PROCESSLIST_STATE", 253),
        ("PROCESSLIST_INFO", 253),
    ];
    let usual = [(0, "SELECT c FROM sbtest1 WHERE id = 7".to_owned())];
    let running = usual.iter().chain(&apart.running).enumerate();
    let numbers: Vec<[String; 3]> = running
        .clone()
        .map(|(at, (time_s, _))| [(at + 50).to_string(), (at + 10).to_string(), time_s.to_string()])
        .collect();
    let rows = running.zip(&numbers).map(|((_, (_, statement)), [thread, id, time_s])| {
        let name = "thread/sql/one_connection";
        let mut row =
            vec![thread.as_str(), name, "FOREGROUND", id.as_str(), "app", "10.0.0.7", "shop", "Query"];
        row.extend([time_s.as_str(), "executing", statement.as_str()]);
        row
    });
    answer(&COLUMNS, rows)
}

fn waits(up_s: f64) -> Bytes {
    let (count, ps) = (format!("{:.0}", 300.0 * up_s), format!("{:.0}", 300.0 * 50e6 * up_s));
    let rows = ["wait/io/file/innodb/innodb_log_file", "wait/io/file/sql/binlog"];
    let rows = rows.map(|event| vec![event, count.as_str(), ps.as_str()]);
    answer(&[("EVENT_NAME", 253), ("COUNT_STAR", 8), ("SUM_TIMER_WAIT", 8)], rows)
}

fn files(up_s: f64) -> Bytes {
    let (count, ps) = (format!("{:.0}", 300.0 * up_s), format!("{:.0}", 300.0 * 40e6 * up_s));
    let rows = ["wait/io/file/innodb/innodb_log_file", "wait/io/file/sql/binlog"];
    let rows = rows.map(|event| vec![event, count.as_str(), ps.as_str()]);
    answer(&[("EVENT_NAME", 253), ("COUNT_MISC", 8), ("SUM_TIMER_MISC", 8)], rows)
}
