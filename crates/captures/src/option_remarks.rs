//! What is wrong in an option file by itself, whatever else is known of its server: remarks beside it. No cause rests on them.

use std::collections::BTreeMap;

use spindoctor_collect::mysql::option_file::Line;
use spindoctor_model::ServerVersion;
use spindoctor_model::number::bytes;

use crate::amounts::amount;
use crate::named::{is_of_server, option_lines, sized, variable};

/// Remarks that are made of one file.
const MOST: usize = 10;
/// Names that one remark lists.
const LISTED: usize = 6;

/// Names of options, the first version without them, and what is there instead.
type Removed = (&'static [&'static str], (u16, u16, u16), &'static str);

/// Options that MySQL took away: from which version on it does not start with them, and what takes their place. Of the MySQL Server
/// Version Reference, Option and Variable Changes; MariaDB knows these, or passes them over.
const REMOVED: [Removed; 11] = [
    (&["thread_concurrency"], (5, 7, 2), "it was for Solaris alone"),
    (
        &["innodb_additional_mem_pool_size", "innodb_use_sys_malloc"],
        (5, 7, 4),
        "it takes its memory from the system",
    ),
    (
        &["innodb_file_format", "innodb_file_format_check", "innodb_file_format_max", "innodb_large_prefix"],
        (8, 0, 0),
        "it has one format, with long keys",
    ),
    (&["innodb_locks_unsafe_for_binlog"], (8, 0, 0), "transaction_isolation = READ-COMMITTED is like it"),
    (&["innodb_support_xa"], (8, 0, 0), "it is always on"),
    (&["innodb_undo_logs"], (8, 0, 2), "innodb_rollback_segments takes its place"),
    (
        &[
            "query_cache_size",
            "query_cache_type",
            "query_cache_limit",
            "query_cache_min_res_unit",
            "query_cache_wlock_invalidate",
        ],
        (8, 0, 3),
        "it has no query cache",
    ),
    (&["log_warnings"], (8, 0, 3), "log_error_verbosity takes its place"),
    (&["old_passwords"], (8, 0, 11), "nothing takes its place"),
    (&["expire_logs_days"], (8, 2, 0), "binlog_expire_logs_seconds takes its place"),
    (&["default_authentication_plugin"], (8, 4, 0), "authentication_policy takes its place"),
];

/// Modes of `sql_mode` that MySQL took away with that version: it does not start with them.
const REMOVED_MODES: (&[&str], (u16, u16, u16)) = (
    &[
        "NO_AUTO_CREATE_USER",
        "DB2",
        "MAXDB",
        "MSSQL",
        "MYSQL323",
        "MYSQL40",
        "ORACLE",
        "POSTGRESQL",
        "NO_FIELD_OPTIONS",
        "NO_KEY_OPTIONS",
        "NO_TABLE_OPTIONS",
    ],
    (8, 0, 11),
);

/// Options of clients: a server does not start with them.
const OF_CLIENTS: [&str; 11] = [
    "password",
    "host",
    "database",
    "prompt",
    "pager",
    "tee",
    "auto_rehash",
    "no_auto_rehash",
    "default_character_set",
    "ssl_mode",
    "single_transaction",
];

/// Beginnings of options of a server alone: clients do not start with them.
const OF_SERVERS: [&str; 18] = [
    "innodb_",
    "binlog_",
    "sync_binlog",
    "query_cache_",
    "key_buffer_size",
    "table_open_cache",
    "performance_schema",
    "skip_name_resolve",
    "log_bin",
    "server_id",
    "datadir",
    "max_connections",
    "slow_query_log",
    "long_query_time",
    "thread_cache_size",
    "character_set_server",
    "collation_server",
    "lower_case_table_names",
];

/// Groups that clients read and servers do not.
const CLIENT_GROUPS: [&str; 4] = ["client", "client-mariadb", "mysql", "mariadb-client"];

/// Beginnings of options that are given several times, each for itself.
const REPEATED: [&str; 8] = [
    "replicate_",
    "binlog_do_db",
    "binlog_ignore_db",
    "plugin_load_add",
    "performance_schema_instrument",
    "performance_schema_consumer",
    "ignore_db_dir",
    "optimizer_switch",
];

/// One option of the file.
struct Setting {
    line: usize,
    /// In lower case; None above the first one.
    group: Option<String>,
    name: String,
    /// A server that does not know it goes on.
    is_loose: bool,
    value: Option<String>,
}

impl Setting {
    fn is_of_server(&self) -> bool {
        self.group.as_deref().is_none_or(is_of_server)
    }
}

/// The remarks on an option file whose first line is that one of the text, of a server of that version where it is known.
pub(crate) fn read(text: &str, first_line: usize, version: Option<ServerVersion>) -> Vec<String> {
    let (settings, has_groups) = settings(text, first_line);
    let of_server: Vec<&Setting> = settings.iter().filter(|setting| setting.is_of_server()).collect();
    let is_mariadb = version.map_or_else(
        || settings.iter().any(|one| one.group.as_deref().is_some_and(|group| group.contains("maria"))),
        ServerVersion::is_mariadb,
    );
    let mut says: Vec<String> = Vec::new();
    says.extend(without_group(&settings).filter(|_| has_groups));
    says.extend(in_wrong_group(&settings));
    says.extend(of_server.iter().filter_map(|setting| wrong_size(setting)));
    if !is_mariadb {
        says.extend(removed(&of_server, version));
        says.extend(removed_modes(&of_server, version));
        says.extend(redo_log(&of_server, version));
    }
    let is_isolation = |setting: &&&Setting| setting.name == "tx_isolation" && !setting.is_loose;
    says.extend(of_server.iter().find(is_isolation).map(|setting| {
        let line = setting.line;
        format!("line {line}: no server starts with tx_isolation, which is a variable alone; the option is transaction_isolation")
    }));
    says.extend(set_twice(&of_server));
    says.extend(durability(&of_server));
    says.extend(query_cache(&of_server));
    says.extend(smaller_of_two(&of_server, version));
    says.extend(session_memory(&of_server));
    says.truncate(MOST);
    says
}

/// The options of a file, and whether it has groups. What is no name is what somebody wrote beside it.
fn settings(text: &str, first_line: usize) -> (Vec<Setting>, bool) {
    let (lines, has_groups) = option_lines(text);
    let mut group: Option<String> = None;
    let mut settings = Vec::new();
    for (number, what) in lines {
        match what {
            Line::Group(name) => group = Some(name.to_ascii_lowercase()),
            Line::Option { key, value } => {
                let (name, is_loose) = variable(&key);
                let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if is_name {
                    let line = first_line.saturating_sub(1) + number;
                    settings.push(Setting { line, group: group.clone(), name, is_loose, value });
                }
            }
            _ => {}
        }
    }
    (settings, has_groups)
}

/// Options above the first group: every program that reads the file ends there (mysys/my_default.cc).
fn without_group(settings: &[Setting]) -> Option<String> {
    let first = settings.first().filter(|setting| setting.group.is_none())?;
    Some(format!(
        "line {}: {} stands above the first [group], and no program starts with such a file",
        first.line, first.name
    ))
}

/// Options of clients in a group of the server, and the reverse.
fn in_wrong_group(settings: &[Setting]) -> Vec<String> {
    let group = |setting: &Setting| setting.group.clone().filter(|_| !setting.is_loose);
    let is_in_server = |one: &&Setting| {
        group(one).is_some_and(|group| is_of_server(&group)) && OF_CLIENTS.contains(&one.name.as_str())
    };
    let is_in_client = |one: &&Setting| {
        group(one).is_some_and(|group| CLIENT_GROUPS.contains(&group.as_str()))
            && OF_SERVERS.iter().any(|begins| one.name.starts_with(begins))
    };
    let of_client = listed(settings.iter().filter(is_in_server)).map(|names| {
        let instead = match names.contains("default_character_set") {
            true => " (of default_character_set the server has character_set_server)",
            false => "",
        };
        format!("options of clients stand in a group of the server, which does not start with them: {names}{instead}")
    });
    let of_server = listed(settings.iter().filter(is_in_client)).map(|names| {
        format!("options of the server stand in a group of clients, which do not start with them: {names}; they belong into [mysqld]")
    });
    of_client.into_iter().chain(of_server).collect()
}

/// `query_cache_size (line 7), query_cache_type (line 8)`; None of none.
fn listed<'s>(settings: impl Iterator<Item = &'s Setting>) -> Option<String> {
    let all: Vec<&Setting> = settings.collect();
    let names: Vec<String> =
        all.iter().take(LISTED).map(|setting| format!("{} (line {})", setting.name, setting.line)).collect();
    let more = all.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}

/// A size that a server does not take for a number: `16 M`, `1.5G` (mysys/my_getopt.cc, eval_num_suffix). What stands behind the first
/// letter of a unit counts for nothing, so that `1GB` is none.
fn wrong_size(setting: &Setting) -> Option<String> {
    let value = setting.value.as_deref()?.trim();
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (_, rest) = value.split_at(digits);
    let is_unit = |unit: &str| {
        let mut letters = unit.chars();
        letters.next().is_some_and(|first| "kKmMgGtT".contains(first))
            && matches!(letters.as_str(), "" | "b" | "B" | "iB")
    };
    let fraction = rest.strip_prefix('.').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let is_wrong = digits > 0
        && (rest.starts_with(' ') && is_unit(rest.trim_start())
            || fraction.is_some_and(|unit| is_unit(unit.trim_start())));
    is_wrong.then(|| {
        let (line, name) = (setting.line, &setting.name);
        format!("line {line}: no server starts with {name} = {value}: a size is a whole number with K, M, G or T right behind it")
    })
}

/// `from 8.0.3 on`, where a server has that version or nobody knows which it has; None where it is older.
fn since(version: Option<ServerVersion>, (major, minor, patch): (u16, u16, u16)) -> Option<String> {
    match version {
        Some(version) if version.mysql_at_least(major, minor, patch) => Some(version.to_string()),
        Some(_) => None,
        None => Some(format!("MySQL from {major}.{minor}.{patch} on")),
    }
}

/// Options that the server does not know any more.
fn removed(of_server: &[&Setting], version: Option<ServerVersion>) -> Vec<String> {
    let one = |(names, from, instead): &(&[&str], (u16, u16, u16), &str)| {
        let is_removed = |setting: &&Setting| names.contains(&setting.name.as_str()) && !setting.is_loose;
        let names = listed(of_server.iter().copied().filter(is_removed))?;
        Some(format!("{} does not start with {names}: {instead}", since(version, *from)?))
    };
    REMOVED.iter().filter_map(one).collect()
}

/// Modes of `sql_mode` that the server does not know any more.
fn removed_modes(of_server: &[&Setting], version: Option<ServerVersion>) -> Option<String> {
    let (modes, from) = REMOVED_MODES;
    let setting = of_server.iter().rfind(|setting| setting.name == "sql_mode")?;
    let is_removed = |mode: &&str| modes.iter().any(|removed| removed.eq_ignore_ascii_case(mode));
    let mode = setting.value.as_deref()?.split(',').map(str::trim).find(is_removed)?;
    let (line, mode) = (setting.line, mode.to_ascii_uppercase());
    Some(format!("{} does not start with {mode} in sql_mode (line {line})", since(version, from)?))
}

/// The sizes of the redo log before MySQL 8.0.30, which count for nothing beside the one that came then.
fn redo_log(of_server: &[&Setting], version: Option<ServerVersion>) -> Option<String> {
    const OLD: [&str; 2] = ["innodb_log_file_size", "innodb_log_files_in_group"];
    let old = listed(of_server.iter().copied().filter(|setting| OLD.contains(&setting.name.as_str())))?;
    let has_new = of_server.iter().any(|setting| setting.name == "innodb_redo_log_capacity");
    let is_new = version.is_some_and(|version| version.mysql_at_least(8, 0, 30));
    match has_new {
        true => Some(format!("{old}: counts for nothing beside innodb_redo_log_capacity")),
        false if is_new => Some(format!(
            "{old}: old names from MySQL 8.0.30 on; innodb_redo_log_capacity is the size of all files together"
        )),
        false => None,
    }
}

/// Options that one group sets to different values: the last one counts.
fn set_twice(of_server: &[&Setting]) -> Vec<String> {
    let mut all: BTreeMap<(Option<&str>, &str), Vec<&Setting>> = BTreeMap::new();
    for setting in of_server {
        all.entry((setting.group.as_deref(), setting.name.as_str())).or_default().push(setting);
    }
    let value = |setting: &Setting| sized(setting.value.as_deref().unwrap_or("ON"));
    // A number or a switch; any other value may be a secret.
    let shown = |setting: &Setting| {
        let value = setting.value.as_deref().unwrap_or("ON").trim();
        let is_plain = value.starts_with(|c: char| c.is_ascii_digit()) || ["ON", "OFF"].contains(&value);
        let is_short =
            value.len() <= 20 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
        (is_plain && is_short).then(|| format!("{value} in line {}", setting.line))
    };
    let differ = |settings: &&Vec<&Setting>| settings.iter().any(|one| value(one) != value(settings[0]));
    let is_once = |name: &str| !REPEATED.iter().any(|begins| name.starts_with(begins));
    let twice = all.values().filter(|settings| is_once(&settings[0].name)).filter(differ);
    twice
        .map(|settings| {
            let values: Option<Vec<String>> = settings.iter().map(|setting| shown(setting)).collect();
            let lines = || {
                let lines: Vec<String> = settings.iter().map(|setting| setting.line.to_string()).collect();
                format!("other values in the lines {}", lines.join(", "))
            };
            let values = values.map_or_else(lines, |values| values.join(", "));
            format!("{} is set more than once: {values}; the last one counts", settings[0].name)
        })
        .collect()
}

/// The value of a size, the last one of those that a file has.
fn size(of_server: &[&Setting], name: &str) -> Option<f64> {
    let setting = of_server.iter().rfind(|setting| setting.name == name)?;
    amount(&sized(setting.value.as_deref()?.trim()))
}

/// A query cache that is so large that what it takes to keep it is more than it saves.
fn query_cache(of_server: &[&Setting]) -> Option<String> {
    /// MySQL 5.7 Reference Manual, "The MySQL Query Cache": tens of megabytes are usually beneficial, hundreds might not be.
    const LARGE_BYTES: f64 = 100.0 * 1_048_576.0;
    let cache_bytes = size(of_server, "query_cache_size").filter(|bytes| *bytes >= LARGE_BYTES)?;
    let switch = of_server.iter().rfind(|setting| setting.name == "query_cache_type");
    let switch = switch.and_then(|setting| setting.value.as_deref()).map(str::trim).unwrap_or_default();
    (!switch.eq_ignore_ascii_case("OFF") && switch != "0").then(|| {
        format!(
            "query_cache_size is {}: one lock guards the whole cache, and each change of a table searches it for the results of that table; \
             with hundreds of megabytes sessions queue for that lock. query_cache_size = 0 and query_cache_type = 0 switch it off",
            bytes(cache_bytes)
        )
    })
}

/// A limit of temporary tables in memory that the other one makes smaller (both manuals, tmp_table_size). From MySQL 8.0 on they have an
/// engine of their own.
fn smaller_of_two(of_server: &[&Setting], version: Option<ServerVersion>) -> Option<String> {
    const DEFAULT_BYTES: f64 = 16.0 * 1_048_576.0;
    if version.is_some_and(|version| version.mysql_at_least(8, 0, 0)) {
        return None;
    }
    let wanted = size(of_server, "tmp_table_size")?;
    let other = size(of_server, "max_heap_table_size").unwrap_or(DEFAULT_BYTES);
    (wanted > other).then(|| {
        format!(
            "tmp_table_size is {}, and max_heap_table_size {}: on MariaDB and MySQL to 5.7 temporary tables in memory end at the smaller of the \
             two",
            bytes(wanted),
            bytes(other)
        )
    })
}

/// Commits that are not on disk when the client sees them end, by two settings.
fn durability(of_server: &[&Setting]) -> Option<String> {
    let last = |name: &str| {
        let setting = of_server.iter().rfind(|setting| setting.name == name)?;
        setting.value.as_deref().map(str::trim)
    };
    let flush = last("innodb_flush_log_at_trx_commit").filter(|value| ["0", "2"].contains(value))?;
    last("sync_binlog").filter(|value| *value == "0")?;
    Some(format!(
        "innodb_flush_log_at_trx_commit = {flush} with sync_binlog = 0: where the host ends without a shutdown the commits of the last second \
         or more are lost, and replicas may have some that this server has not"
    ))
}

/// What all connections together may take for sorts, joins and reads, where few hosts have so much.
fn session_memory(of_server: &[&Setting]) -> Option<String> {
    /// What a statement may take of each. A server takes their names without `_size`, too.
    const BUFFERS: [&str; 4] =
        ["sort_buffer_size", "join_buffer_size", "read_buffer_size", "read_rnd_buffer_size"];
    const DEFAULT_CONNECTIONS: f64 = 151.0;
    /// By judgement.
    const MOST_BYTES: f64 = 128.0 * 1_073_741_824.0;
    let number = |name: &str| {
        let is_of = |setting: &&&Setting| {
            setting.name == name || name.strip_suffix("_size") == Some(setting.name.as_str())
        };
        amount(&sized(of_server.iter().rfind(is_of)?.value.as_deref()?))
    };
    let buffers: Vec<(&str, f64)> =
        BUFFERS.into_iter().filter_map(|name| Some((name, number(name)?))).collect();
    let each: f64 = buffers.iter().map(|(_, bytes)| bytes).sum();
    let connections = number("max_connections").unwrap_or(DEFAULT_CONNECTIONS);
    let names: Vec<&str> = buffers.iter().map(|(name, _)| *name).collect();
    (each * connections >= MOST_BYTES).then(|| {
        format!(
            "{connections:.0} connections (max_connections) may take {} each by {}, {} together: a server that all of them use at once is killed \
             for memory. Large buffers are for single sessions (SET SESSION); the defaults do for the others",
            bytes(each),
            names.join(", "),
            bytes(each * connections)
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::{Kind, recognise};

    /// What is said of an option file.
    fn says(text: &str) -> Vec<String> {
        let parts = recognise("my.cnf", text);
        let kinds: Vec<Kind> =
            parts.iter().map(|part| part.kind).filter(|kind| *kind != Kind::Unknown).collect();
        assert_eq!(kinds, [Kind::OptionFile], "{text}: {parts:#?}");
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn buffers_that_all_connections_together_have_no_memory_for_are_said() {
        let file = |sort: &str| {
            format!("[mysqld]\nmax_connections = 2000\nsort_buffer = {sort}\njoin_buffer_size = 64M\n")
        };
        let said = says(&file("64M"));
        let begins = "2000 connections (max_connections) may take 128 MiB each by sort_buffer_size, join_buffer_size, 250 GiB together";
        assert!(said.len() == 1 && said[0].starts_with(begins), "{said:?}");
        assert_eq!(says(&file("256K")), Vec::<String>::new());
        let large = "[mysqld]\nsort_buffer_size = 1G\n";
        assert!(says(large)[0].starts_with("151 connections"), "{:?}", says(large));
    }

    #[test]
    fn a_file_in_order_has_no_remark() {
        let file = "[client]\nuser = shop\npassword = s3cret\nport = 3306\n[mysqld]\ninnodb_buffer_pool_size = 4G\nmax_allowed_packet = 1GB\n\
                    innodb_flush_log_at_trx_commit = 2\nsync_binlog = 1\nreplicate-do-db = a\nreplicate-do-db = b\nlong_query_time = 1.5\n\
                    loose-query_cache_size = 0\nquery_alloc_block_size = 16k\n[mysqldump]\nquick\nmax_allowed_packet = 16M\n";
        assert_eq!(says(file), [""; 0]);
    }

    #[test]
    fn a_large_query_cache_and_the_smaller_limit_of_temporary_tables_are_said() {
        let cache = |size: &str, switch: &str| {
            let file = format!("[mariadb]\nquery_cache_size = {size}\nquery_cache_type = {switch}\n");
            says(&file)
        };
        let said = cache("512M", "1");
        assert!(said.len() == 1 && said[0].starts_with("query_cache_size is 512 MiB: "), "{said:?}");
        for (size, switch) in [("64M", "1"), ("512M", "0"), ("512M", "OFF")] {
            assert_eq!(cache(size, switch), [""; 0]);
        }
        let tables = |heap: &str| says(&format!("[mysqld]\ntmp_table_size = 128M\n{heap}"));
        let said = tables("max_heap_table_size = 64M\n");
        assert!(
            said.len() == 1
                && said[0].starts_with("tmp_table_size is 128 MiB, and max_heap_table_size 64 MiB"),
            "{said:?}"
        );
        assert!(tables("")[0].contains("max_heap_table_size 16 MiB"));
        assert_eq!(tables("max_heap_table_size = 128M\n"), [""; 0]);
        let gone = says("[mysqld]\nthread_concurrency = 8\n");
        assert!(
            gone[0].starts_with("MySQL from 5.7.2 on does not start with thread_concurrency"),
            "{gone:?}"
        );
    }

    #[test]
    fn options_that_a_version_does_not_know_are_said_for_that_version_and_where_none_is_known() {
        let file = "[mysqld]\nquery_cache_size = 64M\nquery-cache-type = 1\nexpire_logs_days = 7\ndefault_authentication_plugin = \
                    mysql_native_password\nsql_mode = STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER\n";
        let unknown = says(file);
        assert_eq!(unknown.len(), 4, "{unknown:#?}");
        assert_eq!(
            unknown[0],
            "MySQL from 8.0.3 on does not start with query_cache_size (line 2), query_cache_type (line 3): it has no query cache"
        );
        assert!(
            unknown[1].starts_with("MySQL from 8.2.0 on does not start with expire_logs_days"),
            "{unknown:#?}"
        );
        assert!(
            unknown[2].starts_with("MySQL from 8.4.0 on does not start with default_auth"),
            "{unknown:#?}"
        );
        assert_eq!(
            unknown[3],
            "MySQL from 8.0.11 on does not start with NO_AUTO_CREATE_USER in sql_mode (line 6)"
        );
        let of = |version: &str| {
            says(&format!(
                "$ mysqld --version\n/usr/sbin/mysqld  Ver {version} for Linux on x86_64 (x)\n\n{file}"
            ))
        };
        assert_eq!(of("5.7.44"), [""; 0]);
        let of_eight = of("8.0.36");
        assert_eq!(of_eight.len(), 2, "{of_eight:#?}");
        assert!(
            of_eight.iter().all(|said| said.starts_with("MySQL 8.0.36 does not start with ")),
            "{of_eight:#?}"
        );
        assert_eq!(of("8.4.2").len(), 4);
        assert_eq!(says(&file.replace("[mysqld]", "[mariadb]")), [""; 0]);
    }

    #[test]
    fn names_that_were_never_options_and_redo_log_sizes_beside_the_new_one_are_said() {
        let said = says(
            "[mysqld]\ntx_isolation = READ-COMMITTED\ninnodb_log_file_size = 1G\ninnodb_redo_log_capacity = 4G\n",
        );
        assert_eq!(
            said,
            [
                "innodb_log_file_size (line 3): counts for nothing beside innodb_redo_log_capacity",
                "line 2: no server starts with tx_isolation, which is a variable alone; the option is transaction_isolation"
            ]
        );
    }

    #[test]
    fn sizes_that_are_none_are_said() {
        for value in ["16 M", "16 MB", "1.5G", "1.5 GiB"] {
            let said = says(&format!("[mysqld]\nport = 3306\ninnodb_buffer_pool_size = {value}\n"));
            assert_eq!(said.len(), 1, "{value}: {said:#?}");
            assert!(
                said[0].starts_with(&format!(
                    "line 3: no server starts with innodb_buffer_pool_size = {value}: "
                ))
            );
        }
        for value in ["16M", "1GB", "1.5", "1 2", "ibdata1:12M:autoextend", "1G;2G"] {
            assert_eq!(says(&format!("[mysqld]\nport = 3306\ninnodb_x = {value}\n")), [""; 0], "{value}");
        }
    }

    #[test]
    fn what_is_set_twice_is_said_with_its_values_but_for_what_may_be_secret() {
        let said = says(
            "[mysqld]\ninnodb_buffer_pool_size = 1G\nmax_connections = 500\nwsrep_sst_auth = a:b\n[client]\nport = 1\n[mysqld]\n\
             innodb-buffer-pool-size = 4G\nmax_connections = 500\nwsrep_sst_auth = a:c\n",
        );
        assert_eq!(
            said,
            [
                "innodb_buffer_pool_size is set more than once: 1G in line 2, 4G in line 8; the last one counts",
                "wsrep_sst_auth is set more than once: other values in the lines 4, 10; the last one counts"
            ]
        );
        assert_eq!(says("[mysqld]\nport = 1\nkey_buffer_size = 1024K\nkey_buffer_size = 1M\n"), [""; 0]);
    }

    #[test]
    fn options_in_the_wrong_group_or_in_none_are_said_without_their_values() {
        let said = says(
            "innodb_io_capacity = 200\n\n[mysqld]\npassword = s3cret\nport = 3306\n[client]\nmax_connections = 9\n",
        );
        assert_eq!(
            said,
            [
                "line 1: innodb_io_capacity stands above the first [group], and no program starts with such a file",
                "options of clients stand in a group of the server, which does not start with them: password (line 4)",
                "options of the server stand in a group of clients, which do not start with them: max_connections (line 7); they belong into \
                 [mysqld]"
            ]
        );
        // A part of a file has no group because somebody left it out.
        assert_eq!(says("innodb_io_capacity = 200\ninnodb_buffer_pool_size = 4G\nport = 3306\n"), [""; 0]);
    }

    #[test]
    fn commits_that_are_not_on_disk_are_said_where_both_logs_are_late() {
        let said = says("[mysqld]\nport = 1\ninnodb_flush_log_at_trx_commit = 2\nsync_binlog = 0\n");
        assert!(
            said[0].starts_with("innodb_flush_log_at_trx_commit = 2 with sync_binlog = 0: "),
            "{said:#?}"
        );
        assert_eq!(
            says("[mysqld]\nport = 1\ninnodb_flush_log_at_trx_commit = 1\nsync_binlog = 0\n"),
            [""; 0]
        );
    }
}
