//! `SHOW GLOBAL STATUS`, `SHOW GLOBAL VARIABLES` and option files: names with values.

use spindoctor_collect::mysql::option_file::{Line, parse};
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerVersion, number};

/// Beginnings of names that `SHOW STATUS` has and `SHOW VARIABLES` has not, in lower case.
const STATUS: [&str; 45] = [
    "wsrep_cluster_",
    "wsrep_flow_control_",
    "wsrep_local_",
    "wsrep_ready",
    "aborted_",
    "acl_",
    "binlog_cache_disk",
    "binlog_cache_use",
    "bytes_",
    "com_",
    "connection_errors_",
    "created_tmp",
    "handler_",
    "innodb_buffer_pool_pages",
    "innodb_buffer_pool_read",
    "innodb_buffer_pool_wait",
    "innodb_buffer_pool_write",
    "innodb_checkpoint_",
    "innodb_data_read",
    "innodb_data_writ",
    "innodb_data_fsyncs",
    "innodb_data_pending",
    "innodb_history_list",
    "innodb_log_waits",
    "innodb_log_writes",
    "innodb_lsn_",
    "innodb_os_log_",
    "innodb_page",
    "innodb_redo_log_checkpoint",
    "innodb_redo_log_current",
    "innodb_redo_log_logical",
    "innodb_row_lock",
    "innodb_rows_",
    "key_read",
    "max_used_connections",
    "opened_",
    "open_files",
    "qcache_",
    "queries",
    "questions",
    "select_",
    "slow_queries",
    "threadpool_",
    "threads_",
    "uptime",
];

/// Beginnings of names that `SHOW VARIABLES` has and `SHOW STATUS` has not.
const VARIABLES: [&str; 38] = [
    "admin_",
    "auto_increment_",
    "autocommit",
    "back_log",
    "basedir",
    "big_tables",
    "binlog_cache_size",
    "binlog_format",
    "character_set",
    "collation_",
    "datadir",
    "default_",
    "disabled_storage_engines",
    "foreign_key_checks",
    "hostname",
    "innodb_adaptive",
    "innodb_autoinc_lock_mode",
    "innodb_buffer_pool_instances",
    "innodb_buffer_pool_size",
    "innodb_flush_log",
    "innodb_io_capacity",
    "innodb_lock_wait_timeout",
    "innodb_log_file",
    "innodb_thread_",
    "join_buffer_size",
    "key_buffer_size",
    "lock_wait_timeout",
    "log_bin",
    "max_allowed_packet",
    "max_connections",
    "performance_schema",
    "server_id",
    "sql_mode",
    "sync_binlog",
    "table_open_cache",
    "thread_pool_",
    "tx_isolation",
    "version",
];

/// What a list of names with values is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedKind {
    /// `SHOW GLOBAL STATUS`
    Status,
    /// `SHOW GLOBAL VARIABLES`
    Variables,
}

/// True for a name that one of the lists has.
pub(crate) fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    STATUS.iter().chain(&VARIABLES).any(|begins| name.starts_with(begins))
}

/// Which list it is, by the most of its names.
pub(crate) fn kind(values: &NamedValues) -> NamedKind {
    let count = |known: &[&str]| {
        values.iter().filter(|(name, _)| known.iter().any(|begins| name.starts_with(begins))).count()
    };
    // `Threads_running` and `Uptime` are no variables; `version` and `hostname` no status.
    match count(&STATUS) >= count(&VARIABLES)
        && !values.iter().any(|(name, _)| name == "datadir" || name == "version")
    {
        true => NamedKind::Status,
        false => NamedKind::Variables,
    }
}

/// How long statements have waited for row locks since the server's start, where each did for long. Whether one waits now, another counter
/// says.
pub(crate) fn row_lock_sentence(values: &NamedValues) -> Option<String> {
    /// A wait of so many seconds is felt by who waits for the answer. By judgement.
    const LONG_S: f64 = 1.0;
    let seconds = |name: &str| values.number(name).map(|ms| ms / 1e3);
    let waits = values.number("innodb_row_lock_waits").filter(|waits| *waits >= 1.0)?;
    let mean_s = seconds("innodb_row_lock_time_avg").filter(|mean_s| *mean_s >= LONG_S)?;
    let longest = seconds("innodb_row_lock_time_max").filter(|longest_s| *longest_s > mean_s);
    let longest = longest.map_or_else(String::new, |s| format!(", the longest {}", number::duration(s)));
    Some(format!(
        "{} for row locks since the server's start took {} on average{longest}",
        number::counted(waits as u64, "wait", "waits"),
        number::duration(mean_s)
    ))
}

/// A name and its values, parted by tabs or blanks: `Uptime  4711`, and with `--defer` of pt-summary `Uptime 4711 4721`.
pub(crate) fn pair(line: &str) -> Option<(&str, Vec<&str>)> {
    let name_end = line.find(['\t', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(name_end);
    // What pt-summary writes below the variables.
    let is_internal = ["pt-summary-internal", "internal::"].iter().any(|begins| name.starts_with(begins));
    if is_internal {
        return Some((name, vec![rest.trim()]));
    }
    let is_name = (2..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    // `SHOW PLUGINS`: a name, a state, a kind, a library, a licence.
    const PLUGIN_STATES: [&str; 4] = ["ACTIVE", "DISABLED", "DELETED", "FREED"];
    let is_plugin = rest.split_whitespace().next().is_some_and(|word| PLUGIN_STATES.contains(&word))
        && rest.split_whitespace().count() >= 4;
    if !is_name || is_plugin || line.starts_with(char::is_whitespace) {
        return None;
    }
    // A row of a frame whose first bar was taken for the mark of a quotation.
    if let Some(cell) = rest.trim().strip_prefix("| ").and_then(|cell| cell.strip_suffix('|')) {
        return (!cell.contains(" | ")).then(|| (name, vec![cell.trim()]));
    }
    match rest.strip_prefix('\t') {
        Some(value) => Some((name, vec![value])),
        None => {
            /// Values in one line, readings of one pt-summary.
            const MOST_VALUES: usize = 40;
            let values: Vec<&str> = rest.split_whitespace().take(MOST_VALUES + 1).collect();
            // A sentence begins with a word, too.
            let is_value = |value: &&str| value.len() <= 80 && !value.ends_with([',', '.', ':']);
            (values.len() <= MOST_VALUES && values.iter().all(is_value)).then_some((name, values))
        }
    }
}

/// The version that variables say.
pub(crate) fn version(values: &NamedValues) -> Option<ServerVersion> {
    ServerVersion::parse(values.text("version")?, values.text("version_comment").unwrap_or_default())
}

/// What an option file sets for a server, and what else is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Options {
    /// The settings as variables.
    pub(crate) values: NamedValues,
    /// Groups and settings that were understood.
    pub(crate) lines: usize,
    /// What it includes and is not given here.
    pub(crate) includes: Vec<String>,
}

/// The groups that a server reads.
pub(crate) fn is_of_server(group: &str) -> bool {
    let group = group.to_ascii_lowercase();
    let is_digit = |c: char| c.is_ascii_digit();
    // `[mariadb-10.11]` is a server's, `[mariadb-dump]` and its like are of other programs.
    let is_program = ["mysqld_safe", "mysqld_multi"].iter().any(|program| group.starts_with(program))
        || group.strip_prefix("mariadb-").is_some_and(|rest| !rest.starts_with(is_digit));
    let is_named = |name: &&str| {
        group.strip_prefix(*name).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(['-', '.', '_', '@']) || rest.parse::<u32>().is_ok()
        })
    };
    ["server", "embedded", "galera"].contains(&group.as_str())
        || !is_program && ["mysqld", "mariadbd", "mariadb"].iter().any(is_named)
}

/// Groups of programs that read option files.
pub(crate) fn is_group(line: &str) -> bool {
    const PROGRAMS: [&str; 16] = [
        "client",
        "mysql",
        "mysqld",
        "mariadb",
        "server",
        "galera",
        "embedded",
        "xtrabackup",
        "isamchk",
        "myisamchk",
        "ndb",
        "sst",
        "instance",
        "manager",
        "safe_mysqld",
        "replication",
    ];
    let Some(group) = line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let rest = group.1.trim();
    let name = group.0.trim().to_ascii_lowercase();
    (rest.is_empty() || rest.starts_with(['#', ';']))
        && PROGRAMS.iter().any(|program| name.starts_with(program))
}

/// True for a file of another program: all its groups have names that such files have too (`[server]` of a web application), and none of
/// its options is of a server or a client.
pub(crate) fn is_of_other_program(text: &str) -> bool {
    const COMMON: [&str; 5] = ["server", "instance", "manager", "replication", "embedded"];
    const OF_CLIENTS: [&str; 6] =
        ["user", "password", "socket", "port", "default_character_set", "plugin_dir"];
    let groups = || text.lines().filter(|line| is_group(line));
    let is_common = |line: &str| {
        let name = line.trim().trim_start_matches('[').split(']').next().unwrap_or_default().trim();
        COMMON.iter().any(|common| name.eq_ignore_ascii_case(common))
    };
    let is_own =
        |line: &str| option(line).is_some_and(|name| is_known(&name) || OF_CLIENTS.contains(&name.as_str()));
    groups().next().is_some() && groups().all(is_common) && !text.lines().any(is_own)
}

/// The name of a line of an option file that gives it a value: `key_buffer_size` of `key-buffer-size = 16M`.
fn option(line: &str) -> Option<String> {
    let name = line.split_once('=')?.0.trim();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    (is_name && (2..=64).contains(&name.len())).then(|| name.replace('-', "_").to_ascii_lowercase())
}

/// True where lines begin with options of a server and no group stands above them: what somebody copied out of an option file, or what
/// stands before its first group.
pub(crate) fn begin_without_group(lines: &[&str]) -> bool {
    /// Beginnings of names that no other program's file has.
    const OWN: [&str; 13] = [
        "innodb_",
        "binlog_",
        "sync_binlog",
        "query_cache_",
        "key_buffer",
        "table_open_cache",
        "max_allowed_packet",
        "performance_schema",
        "skip_name_resolve",
        "log_bin",
        "server_id",
        "sql_mode",
        "lower_case_table_names",
    ];
    /// Lines that are looked at, and how many of them must be options, and of a server: fewer may be anything.
    const LOOKED_AT: usize = 8;
    const FEW: usize = 3;
    const FEW_OWN: usize = 2;
    /// Lines before the first group. By judgement: who writes there has forgotten it, or put a few lines in front.
    const BEFORE_GROUP: usize = 30;
    if lines.first().and_then(|line| option(line)).is_none() {
        return false;
    }
    let names: Vec<String> = lines.iter().take(LOOKED_AT).filter_map(|line| option(line)).collect();
    // Some tools write a status so.
    let begins = |name: &str, known: &[&str]| known.iter().any(|begins| name.starts_with(begins));
    let own = names.iter().filter(|name| begins(name, &OWN) && !begins(name, &STATUS)).count();
    let is_before_group = || {
        let is_more =
            |line: &&&str| option(line).is_some() || line.is_empty() || line.starts_with(['#', ';']);
        let group = lines.iter().take(BEFORE_GROUP).find(|line| !is_more(line));
        group.is_some_and(|line| is_group(line))
    };
    names.len() >= FEW.min(lines.len()) && own >= FEW_OWN || is_before_group()
}

/// The lines of an option file, or of what my_print_defaults prints, with their numbers; and whether it has groups.
pub(crate) fn option_lines(text: &str) -> (Vec<(usize, Line)>, bool) {
    let has_groups = text.lines().any(is_group);
    if has_groups || !text.lines().any(|line| line.starts_with("--")) {
        return (parse(text.as_bytes()), has_groups);
    }
    let plain: String = text.lines().map(|line| line.trim_start_matches("--").to_owned() + "\n").collect();
    (parse(plain.as_bytes()), false)
}

/// The variable that an option sets, and whether a server that does not know it goes on.
pub(crate) fn variable(key: &str) -> (String, bool) {
    let name = key.replace('-', "_").to_ascii_lowercase();
    match name.strip_prefix("loose_") {
        Some(name) => (name.to_owned(), true),
        None => (name, false),
    }
}

/// Reads an option file, or what my_print_defaults prints.
pub(crate) fn options(text: &str) -> Options {
    let mut options = Options::default();
    let (lines, has_groups) = option_lines(text);
    // A part of a file without its group is a server's, by its names.
    let mut of_server = !has_groups;
    for (_, line) in lines {
        match line {
            Line::Group(group) => {
                of_server = is_of_server(&group);
                options.lines += 1;
            }
            Line::Option { key, value } => {
                options.lines += 1;
                if of_server {
                    options.values.insert(&variable(&key).0, sized(value.as_deref().unwrap_or("ON")));
                }
            }
            Line::Include(path)
            | Line::IncludeDir(path)
            | Line::MayInclude(path)
            | Line::MayIncludeDir(path) => {
                options.lines += 1;
                options.includes.push(path.display().to_string());
            }
            Line::Wrong(_) => {}
        }
    }
    options
}

/// `2G` as the number that the variable has. As a server reads it: of a unit the first letter counts, so that `2GB` is the same
/// (mysys/my_getopt.cc, eval_num_suffix).
pub(crate) fn sized(value: &str) -> String {
    let trimmed = value.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = trimmed.split_at(digits);
    let is_unit = unit.len() <= LONGEST_UNIT && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    let shift = match unit.bytes().next().filter(|_| is_unit).map(|first| first.to_ascii_lowercase()) {
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        Some(b't') => 40,
        _ => return value.to_owned(),
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)) {
        Some(number) => number.to_string(),
        None => value.to_owned(),
    }
}

/// `GiB`, letters.
const LONGEST_UNIT: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::of_pairs;

    #[test]
    fn rows_of_a_status_without_their_head_begin_with_the_age_of_the_checkpoint() {
        let text = "| Innodb_checkpoint_age          | 1610612736 |\n| Innodb_checkpoint_max_age      | 1739461754 |\n\
                    | Innodb_buffer_pool_pages_dirty | 711200     |\n| Innodb_buffer_pool_wait_free   | 88122      |\n";
        let parts = crate::recognise("x", text);
        assert_eq!(parts.len(), 1, "{parts:?}");
        let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert!(found[0].headline.starts_with("The redo log is full"), "{found:?}");
    }

    #[test]
    fn a_size_ends_in_any_character() {
        let sizes = ["2G", " 16k ", "2GB", "", "G", "16 M", "512M\u{fffd}", "\u{fffd}", "7\u{20ac}"];
        assert_eq!(
            sizes.map(sized),
            ["2147483648", "16384", "2147483648", "", "G", "16 M", "512M\u{fffd}", "\u{fffd}", "7\u{20ac}"]
                .map(str::to_owned)
        );
    }

    #[test]
    fn long_waits_for_row_locks_are_said_of_a_status_in_every_form() {
        let pairs =
            "Innodb_row_lock_time_avg\t33106\nInnodb_row_lock_time_max\t50240\nInnodb_row_lock_waits\t17\n";
        let rows = pairs.lines().map(|line| format!("| {} |\n", line.replace('\t', " | ")));
        let framed = format!("| Variable_name | Value |\n{}", rows.collect::<String>());
        let wanted =
            "17 waits for row locks since the server's start took 33.1 s on average, the longest 50.2 s";
        for text in [pairs, framed.as_str()] {
            let parts = crate::recognise("x", text);
            assert!(parts[0].says.contains(&wanted.to_owned()), "{text}: {parts:?}");
        }
        let short = pairs.replace("33106", "12");
        assert_eq!(row_lock_sentence(&of_pairs(&short)[0]), None);
    }

    #[test]
    fn a_status_and_variables_are_distinguished_by_their_names() {
        let status = of_pairs("Aborted_clients\t0\nCom_select\t7\nUptime\t100\n");
        assert_eq!(kind(&status[0]), NamedKind::Status);
        let variables = of_pairs("autocommit\tON\nback_log\t50\nversion\t5.5.20-log\n");
        assert_eq!(kind(&variables[0]), NamedKind::Variables);
        assert_eq!(version(&variables[0]).map(|v| v.to_string()).as_deref(), Some("MySQL 5.5.20"));
    }

    #[test]
    fn an_option_file_gives_the_servers_settings_and_what_is_not_here() {
        let options = options(
            "[client]\nuser = before\n?includedir /etc/my.cnf.d/optional\n[mariadbd]\n\
                               innodb-buffer-pool-size = 2G\nskip-name-resolve\n!includedir /etc/mysql/conf.d/\n[mysqld_safe]\nnice = 0\n",
        );
        assert_eq!(options.values.number("innodb_buffer_pool_size"), Some(2_147_483_648.0));
        assert_eq!(options.values.text("skip_name_resolve"), Some("ON"));
        assert_eq!(options.values.text("nice"), None);
        assert_eq!(options.includes, ["/etc/my.cnf.d/optional", "/etc/mysql/conf.d/"]);
    }

    #[test]
    fn a_file_of_another_program_that_has_a_group_of_that_name_is_no_option_file() {
        let kinds = |text: &str| {
            crate::recognise("x.ini", text).into_iter().map(|part| part.kind).collect::<Vec<_>>()
        };
        let other =
            "[server]\nprotocol = http\nhttp_port = 3000\ndomain = a.example\nroot_url = https://a.example\n";
        assert!(kinds(other).iter().all(|kind| *kind == crate::Kind::Unknown), "{:?}", kinds(other));
        for text in [
            "[server]\ninnodb_buffer_pool_size = 4G\n",
            "[server]\nport = 3307\n",
            "[mariadb]\nsomething = 1\n",
        ] {
            assert_eq!(kinds(text), [crate::Kind::OptionFile], "{text}");
        }
    }

    #[test]
    fn a_part_of_an_option_file_without_its_group_is_one_and_other_programs_files_are_not() {
        let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
        for text in [
            "innodb_buffer_pool_size=4G\nmax_connections = 500\nsync_binlog=1\n",
            "innodb_buffer_pool_size = 4G\ninnodb_io_capacity = 2000\n",
            "port = 3307\n\n# the server\n[mysqld]\n",
        ] {
            assert!(begin_without_group(&lines(text)), "{text}");
        }
        for text in [
            "max_connections = 100\nshared_buffers = 4GB\ndefault_statistics_target = 100\n",
            "a = 1\nb = 2\nc = 3\n",
            "innodb_buffer_pool_size = 4G\nis what I have set\n",
            "name = x\n[section]\n",
        ] {
            assert!(!begin_without_group(&lines(text)), "{text}");
        }
        assert_eq!(options("innodb_io_capacity = 2k\n").values.number("innodb_io_capacity"), Some(2048.0));
    }
}
