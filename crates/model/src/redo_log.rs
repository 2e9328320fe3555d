//! How full the redo log may become: the checkpoint age at which writers must wait.

use std::collections::BTreeMap;

use crate::mysql::{InnodbMetric, NamedValues};
use crate::server::ServerVersion;

/// The checkpoint age in bytes at which InnoDB flushes everything old at once or stops writers, whichever comes first,
/// and where that was read. None where the server reports neither the limit nor the size of its log, and for a size that no log has.
pub fn checkpoint_limit(
    version: Option<ServerVersion>,
    status: Option<&NamedValues>,
    metrics: Option<&BTreeMap<String, InnodbMetric>>,
    variables: Option<&NamedValues>,
) -> Option<(f64, &'static str)> {
    let above_zero = |value: &f64| *value > 0.0;
    let metric = metrics.and_then(|metrics| metrics.get("log_max_modified_age_sync"));
    if let Some(limit) = metric.filter(|metric| metric.enabled).map(|metric| metric.count).filter(above_zero)
    {
        return Some((limit, "INNODB_METRICS log_max_modified_age_sync"));
    }
    let status = |name: &str| status?.number(name);
    if let Some(limit) = status("Innodb_checkpoint_max_age").filter(above_zero) {
        return Some((limit, "SHOW GLOBAL STATUS Innodb_checkpoint_max_age"));
    }
    let variable = |name: &str| variables?.number(name);
    let page = variable("innodb_page_size").unwrap_or(16_384.0);
    if version.is_some_and(|version| version.mysql_at_least(8, 0, 30)) {
        let physical = status("Innodb_redo_log_capacity_resized")
            .or_else(|| variable("innodb_redo_log_capacity"))
            .filter(above_zero)?;
        let threads = variable("innodb_thread_concurrency").unwrap_or(0.0);
        let limit = Some(limit_of_capacity(physical, threads, page)).filter(above_zero)?;
        return Some((limit, "computed from innodb_redo_log_capacity"));
    }
    let file = variable("innodb_log_file_size")?;
    let files = variable("innodb_log_files_in_group").unwrap_or(1.0);
    let limit = Some(limit_of_files(file * files, page)).filter(above_zero)?;
    Some((limit, "computed from innodb_log_file_size"))
}

/// The limit of MySQL before 8.0.30 and of MariaDB (log_calc_max_ages, log_t::set_capacity): a tenth of the
/// files, the threads' reserve of 48 pages, and a tenth of the rest are kept free.
fn limit_of_files(bytes: f64, page: f64) -> f64 {
    const HEADERS: f64 = 12_288.0;
    ((bytes - HEADERS) * 0.9 - 48.0 * page) * 0.9
}

/// The limit that MySQL 8.0.30 and later derive from the capacity on disk (log0files_capacity.cc,
/// log0chkp.cc): 30 of 32 files, less headers, a safety margin and a tenth of a file, less 5 % for the
/// writer; of that either 15/16 (sync flushing) or what is left when each thread's reserve of four pages
/// and 5 % is taken off (writers stop).
pub fn limit_of_capacity(physical: f64, thread_concurrency: f64, page: f64) -> f64 {
    const HEADERS: f64 = 31.0 * 2048.0;
    const SAFETY_MARGIN: f64 = 2.0 * 65_536.0;
    const BACKGROUND_THREADS: f64 = 10.0;
    let hard = physical * 30.0 / 32.0 - HEADERS - SAFETY_MARGIN - physical / 32.0 * 0.1;
    let soft = hard * 0.95;
    let reserve = (thread_concurrency + BACKGROUND_THREADS) * 4.0 * page + 0.05 * soft;
    (soft * 15.0 / 16.0).min(soft - reserve.min(soft * 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1024.0 * 1024.0;

    #[test]
    fn the_limit_of_log_files_is_what_mariadb_says_it_is() {
        // Innodb_checkpoint_max_age of MariaDB 10.11.18 with 4 MiB, and of 10.8.4 with 96 MiB.
        assert!((limit_of_files(4.0 * MIB, 16_384.0) - 2_679_645.0).abs() < 2.0);
        assert!((limit_of_files(96.0 * MIB, 16_384.0) - 80_819_529.0).abs() < 2.0);
    }

    #[test]
    fn the_computed_limit_lies_where_the_server_puts_it() {
        // 100 MiB: 15/16 of the soft capacity. 8 MiB: the reserve of the threads comes first.
        let at = |capacity: f64| limit_of_capacity(capacity, 0.0, 16_384.0) / capacity;
        assert!((at(100.0 * MIB) - 0.83).abs() < 0.01, "{}", at(100.0 * MIB));
        assert!((at(8.0 * MIB) - 0.74).abs() < 0.02, "{}", at(8.0 * MIB));
    }

    #[test]
    fn what_the_server_says_of_the_limit_goes_before_what_is_computed() {
        let says = NamedValues::from_iter([("Innodb_checkpoint_max_age", "2679645")]);
        let size = NamedValues::from_iter([("innodb_log_file_size", "4194304")]);
        let (limit, source) = checkpoint_limit(None, Some(&says), None, Some(&size)).unwrap();
        assert_eq!((limit, source), (2_679_645.0, "SHOW GLOBAL STATUS Innodb_checkpoint_max_age"));
        assert_eq!(checkpoint_limit(None, None, None, None), None);
    }

    #[test]
    fn a_log_of_no_size_has_no_limit() {
        for bytes in ["0", "4096", "-1"] {
            let size = NamedValues::from_iter([("innodb_log_file_size", bytes)]);
            assert_eq!(checkpoint_limit(None, None, None, Some(&size)), None, "{bytes}");
            let capacity = NamedValues::from_iter([("innodb_redo_log_capacity", bytes)]);
            let version = ServerVersion::parse("8.0.36", "");
            assert_eq!(checkpoint_limit(version, None, None, Some(&capacity)), None, "{bytes}");
        }
    }
}
