//! The reports of pt-mysql-summary and pt-summary as the lists that they were made from, as far as the reports have them.
//!
//! ```text
//! # Processlist ################################################
//!
//!   State                          COUNT(*) Working SUM(Time) MAX(Time)
//!   ------------------------------ -------- ------- --------- ---------
//!   Waiting for table metadata loc       30      30     27000       900
//!
//! # Status Counters (Wait 10 Seconds) ##########################
//! Variable                                Per day  Per second     10 secs
//! Com_select                              4000000          45         700
//! ```
//!
//! Counters are rounded to one or two digits: of each there are a mean since the server started, and a rate over some seconds. Both
//! make two readings of the status. What a report says of a section that is not read here goes.

use std::borrow::Cow;

use crate::amounts::bytes;
use crate::heads::is_number;
use crate::rows::is_name;

/// Sections that are read, by their beginnings.
const READ: [&str; 11] = [
    "Report On Port",
    "Processlist",
    "Status Counters",
    "Table cache",
    "Percona XtraDB Cluster",
    "Query cache",
    "InnoDB",
    "MyISAM",
    "Binary Logging",
    "Noteworthy Variables",
    "Configuration File",
];
/// And those of pt-summary, whose tables are written otherwise than the tools do that it asks.
const OF_HOST: [&str; 4] =
    ["Mounted Filesystems", "Top Processes", "Notable Processes", "Simplified and fuzzy rounded vmstat"];
/// Sections that say nothing here.
const LEFT_OUT: [&str; 36] = [
    "Percona Toolkit",
    "Instances",
    "MySQL Executable",
    "Slave Hosts",
    "MySQL Files",
    "Key Percona Server features",
    "Plugins",
    "Semisynchronous Replication",
    "Schema",
    "Noteworthy Technologies",
    "RocksDB",
    "NDB",
    "Security",
    "Roles",
    "Encryption",
    "Memory management library",
    "The End",
    "Processor",
    "Memory",
    "Disk Schedulers",
    "Disk Partitioning",
    "Disk Partioning",
    "Kernel Inode State",
    "LVM",
    "RAID Controller",
    "Adaptec RAID",
    "HP RAID",
    "MegaRAID",
    "Network Config",
    "Interface Statistics",
    "Network Devices",
    "Network Connections",
    "Transparent Huge Pages",
    "System Memory",
    "Numa",
    "Hugepages",
];

/// What a counter of a report's process list stands below.
const COUNTS: [&str; 4] = ["COUNT(*)", "Working", "SUM(Time)", "MAX(Time)"];

/// The text with the lists that such a report was made from, in its place.
pub(crate) fn as_lists(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| heading(line).is_some() || counts_head(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut report = Report::default();
    let mut plain = String::with_capacity(text.len());
    let mut section = "";
    let mut in_counts = false;
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().rposition(|line| heading(line).is_some()).unwrap_or(0);
    for (at, &line) in lines.iter().enumerate() {
        if let Some(name) = heading(line) {
            if name.starts_with("Report On Port") || name.starts_with("The End") {
                report.write(&mut plain);
            }
            section = name;
            in_counts = false;
            report.begin(name);
            continue;
        }
        if let Some(head) = counts_head(line) {
            // Without an empty line between them all of these tables are one document.
            plain.truncate(plain.trim_end_matches('\n').len());
            plain.push_str(&format!("\n{head}\n"));
            in_counts = true;
            continue;
        }
        if in_counts && (line.trim().is_empty() || is_rule(line)) {
            continue;
        }
        if let Some(row) = counts_row(line).filter(|_| in_counts) {
            plain.push_str(&format!("{row}\n"));
            continue;
        }
        if in_counts {
            plain.push('\n');
            in_counts = false;
        }
        // The last section may end anywhere: what stands below it may be something else.
        if report.take(section, line) || is_dropped(section) && at < last {
            continue;
        }
        plain.push_str(&of_host(section, line));
        plain.push('\n');
    }
    report.write(&mut plain);
    Cow::Owned(plain)
}

/// `# InnoDB #####################################################`: the name of a section that is known.
fn heading(line: &str) -> Option<&str> {
    let inside = line.trim().strip_prefix("# ")?;
    let name = inside.trim_end_matches(['#', '_']);
    let is_known = |sections: &[&str]| sections.iter().any(|known| name.starts_with(known));
    (inside.len() - name.len() >= 3 && (is_known(&READ) || is_known(&OF_HOST) || is_known(&LEFT_OUT)))
        .then(|| name.trim_end())
}

fn is_dropped(section: &str) -> bool {
    LEFT_OUT.iter().any(|known| section.starts_with(known))
}

fn is_rule(line: &str) -> bool {
    line.contains("---") && line.trim().bytes().all(|byte| byte == b'-' || byte == b' ')
}

/// The head of a table of sessions that are counted, with tabs between its names.
fn counts_head(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [group, counts @ ..] = words.as_slice() else { return None };
    (counts == COUNTS).then(|| format!("{group}\t{}", counts.join("\t")))
}

/// A row of it: four numbers, and what is counted before them.
fn counts_row(line: &str) -> Option<String> {
    let mut rest = line.trim();
    let mut numbers: Vec<&str> = Vec::new();
    for _ in COUNTS {
        let (before, number) = rest.rsplit_once(' ').unwrap_or(("", rest));
        if !is_number(number) {
            return None;
        }
        numbers.insert(0, number);
        rest = before.trim_end();
    }
    let group = if rest.trim().is_empty() { "NULL" } else { rest.trim() };
    Some(format!("{group}\t{}", numbers.join("\t")))
}

/// A line of pt-summary as the tool has it that was asked.
fn of_host(section: &str, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        // Without the memory that is swapped out, and under other names.
        ["r", "b", "si", "so", "bi", "bo", "ir", "cs", "us", "sy", "il", "wa", ..] => {
            format!("r b swpd {}", words[2..].join(" ").replace(" ir ", " in ").replace(" il ", " id "))
        }
        ["procs", ..] if section.starts_with("Simplified") => String::new(),
        [r, b, ref others @ ..]
            if section.starts_with("Simplified") && words.iter().all(|word| is_number(word)) =>
        {
            format!("{r} {b} 0 {}", others.join(" "))
        }
        [device, size, used, _, .., mount] if section.starts_with("Mounted") && used.ends_with('%') => {
            format!("{device} {size} {used} {mount}")
        }
        _ => line.to_owned(),
    }
}

/// What a report says of one server.
#[derive(Debug, Default)]
struct Report {
    variables: Vec<(String, String)>,
    status: Vec<(String, String)>,
    /// A counter, what it came to a second since the server started, and what in the seconds of the report.
    counters: Vec<(String, f64, f64)>,
    uptime_s: Option<f64>,
    /// Where the columns of the counters end.
    ends: Vec<usize>,
    interval_s: f64,
    history: Option<u64>,
    oldest_s: u64,
    queries: String,
}

impl Report {
    /// A section begins.
    fn begin(&mut self, section: &str) {
        if let Some(port) =
            section.strip_prefix("Report On Port ").map(str::trim).filter(|port| is_number(port))
        {
            self.variables.push(("port".to_owned(), port.to_owned()));
        }
        self.ends.clear();
    }

    /// Takes a line of a section; false for one that is none of it.
    fn take(&mut self, section: &str, line: &str) -> bool {
        if section.starts_with("Status Counters") {
            return self.counter(line);
        }
        if !READ.iter().any(|known| section.starts_with(known)) || section.starts_with("Processlist") {
            return false;
        }
        let Some((name, value)) = line.split_once(" | ").or_else(|| line.split_once(" |")) else {
            return false;
        };
        let (name, value) = (name.trim(), value.trim());
        // A row of a table in a frame is none of a report.
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return false;
        }
        match section {
            _ if section.starts_with("Report On Port") => self.server(name, value),
            "InnoDB" => self.innodb(name, value),
            "Table cache" if name == "Size" => self.variable("table_open_cache", sized(value)),
            "Query cache" if name == "Size" => self.variable("query_cache_size", sized(value)),
            "MyISAM" if name == "Key Cache" => self.variable("key_buffer_size", sized(value)),
            "Percona XtraDB Cluster" => self.cluster(name, value),
            _ if is_name(name) && name.bytes().all(|byte| !byte.is_ascii_uppercase()) => {
                let is_size = ["_size", "_packet", "_stack"].iter().any(|ends| name.ends_with(ends));
                self.variable(name, if is_size { sized(value) } else { Some(value.to_owned()) });
            }
            _ => {}
        }
        true
    }

    fn variable(&mut self, name: &str, value: Option<String>) {
        self.variables.extend(value.filter(|value| !value.is_empty()).map(|value| (name.to_owned(), value)));
    }

    fn number(&mut self, name: &str, value: &str) {
        let digits = value.split(' ').next().unwrap_or_default();
        if is_number(digits) {
            self.status.push((name.to_owned(), digits.to_owned()));
        }
    }

    fn server(&mut self, name: &str, value: &str) {
        match name {
            "Version" => {
                let (version, comment) = value.split_once(' ').unwrap_or((value, ""));
                self.variable("version", Some(version.to_owned()));
                self.variable("version_comment", Some(comment.to_owned()));
            }
            "Hostname" => self.variable("hostname", Some(value.to_owned())),
            "Datadir" => self.variable("datadir", Some(value.to_owned())),
            "Started" => self.uptime_s = up(value),
            "Processes" => {
                let (connected, running) = value.split_once(", ").unwrap_or((value, ""));
                self.number("Threads_connected", connected);
                self.number("Threads_running", running);
            }
            _ => {}
        }
    }

    fn cluster(&mut self, name: &str, value: &str) {
        match name {
            "Cluster Size" => self.number("wsrep_cluster_size", value),
            "Node Status" => self.status.push(("wsrep_cluster_status".to_owned(), value.to_owned())),
            "Slave Threads" => self.variable("wsrep_slave_threads", Some(value.to_owned())),
            "wsrep_on" => self.variable(name, Some(value.to_owned())),
            _ => {}
        }
    }

    fn innodb(&mut self, name: &str, value: &str) {
        const VARIABLES: [(&str, &str); 13] = [
            ("File Per Table", "innodb_file_per_table"),
            ("Flush Method", "innodb_flush_method"),
            ("Flush Log At Commit", "innodb_flush_log_at_trx_commit"),
            ("XA Support", "innodb_support_xa"),
            ("Doublewrite", "innodb_doublewrite"),
            ("I/O Capacity", "innodb_io_capacity"),
            ("Thread Concurrency", "innodb_thread_concurrency"),
            ("Concurrency Tickets", "innodb_concurrency_tickets"),
            ("Commit Concurrency", "innodb_commit_concurrency"),
            ("Txn Isolation Level", "transaction_isolation"),
            ("Adaptive Flushing", "innodb_adaptive_flushing"),
            ("Buffer Pool Size", "innodb_buffer_pool_size"),
            ("Log Buffer Size", "innodb_log_buffer_size"),
        ];
        let first = || value.split(' ').next().unwrap_or_default();
        match name {
            // `2 * 5.0M = 10.0M`
            "Log File Size" => {
                if let Some((files, size)) = value.split_once(" * ") {
                    self.variable("innodb_log_files_in_group", Some(files.to_owned()));
                    self.variable("innodb_log_file_size", size.split(' ').next().and_then(sized));
                }
            }
            "History List Len" => self.history = first().parse().ok(),
            "Oldest Transaction" => self.oldest_s = first().parse().unwrap_or(0),
            "InnoDB Queue" if value.contains("queries inside InnoDB") => value.clone_into(&mut self.queries),
            _ => {
                let known = VARIABLES.iter().find(|(theirs, _)| *theirs == name);
                if let Some((_, ours)) = known {
                    let is_size = name.ends_with(" Size");
                    self.variable(ours, if is_size { sized(value) } else { Some(value.to_owned()) });
                }
            }
        }
    }

    /// A line of the counters: where a number ends says which of the three it is.
    fn counter(&mut self, line: &str) -> bool {
        /// A longer name moves the numbers behind it (pt-mysql-summary, format_status_variables).
        const WIDTH: usize = 35;
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Variable") && words.last() == Some(&"secs") {
            let end = |title: &str| line.find(title).map(|at| at + title.len());
            self.ends = ["Per day", "Per second", "secs"].iter().filter_map(|title| end(title)).collect();
            self.interval_s = words.iter().rev().nth(1).and_then(|s| s.parse().ok()).unwrap_or(0.0);
            return self.ends.len() == 3;
        }
        let (Some(name), true) = (words.first().filter(|name| is_name(name)), self.ends.len() == 3) else {
            return line.trim().is_empty();
        };
        if words.len() < 2 || words[1..].iter().any(|word| !is_number(word)) {
            return false;
        }
        let shift = name.len().saturating_sub(WIDTH);
        let mut values = [0.0; 3];
        let mut at = line.find(name).unwrap_or(0) + name.len();
        for word in &words[1..] {
            at += line[at..].find(word).unwrap_or(0) + word.len();
            let column = self.ends.iter().position(|end| end + shift == at);
            if let Some(value) = column.and_then(|column| values.get_mut(column)) {
                *value = word.parse().unwrap_or(0.0);
            }
        }
        let mean = if values[1] > 0.0 { values[1] } else { values[0] / 86_400.0 };
        if *name != "Uptime" {
            self.counters.push(((*name).to_owned(), mean, values[2]));
        }
        true
    }

    /// Writes what was read as lists, and forgets it.
    fn write(&mut self, plain: &mut String) {
        let report = std::mem::take(self);
        let mut list = |pairs: &mut dyn Iterator<Item = (String, String)>| {
            plain.push_str("\nVariable_name\tValue\n");
            pairs.for_each(|(name, value)| plain.push_str(&format!("{name}\t{value}\n")));
            plain.push('\n');
        };
        if !report.variables.is_empty() {
            list(&mut report.variables.iter().cloned());
        }
        let has_counters = !report.counters.is_empty() && report.interval_s > 0.0;
        match report.uptime_s.filter(|_| has_counters) {
            Some(uptime_s) => {
                for after_s in [0.0, report.interval_s] {
                    let counted = report.counters.iter().map(|(name, mean, now)| {
                        (name.clone(), format!("{:.0}", mean * uptime_s + now * after_s))
                    });
                    let uptime = ("Uptime".to_owned(), format!("{:.0}", uptime_s + after_s));
                    list(&mut report.status.iter().cloned().chain(counted).chain([uptime]));
                }
            }
            None if !report.status.is_empty() => list(&mut report.status.iter().cloned()),
            None => {}
        }
        plain.push_str(&report.printed());
    }

    /// What InnoDB's status said, as far as it is known.
    fn printed(&self) -> String {
        let mut printed = String::new();
        if let Some(history) = self.history {
            printed.push_str("\n------------\nTRANSACTIONS\n------------\n");
            printed.push_str(&format!("History list length {history}\n"));
            if self.oldest_s > 0 {
                printed.push_str(&format!("---TRANSACTION 0, ACTIVE {} sec\n", self.oldest_s));
            }
        }
        if !self.queries.is_empty() {
            printed.push_str(&format!("--------------\nROW OPERATIONS\n--------------\n{}\n", self.queries));
        }
        if !printed.is_empty() {
            printed.push_str(
                "----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n",
            );
        }
        printed
    }
}

/// `128k`, `16.0M`, in bytes.
fn sized(value: &str) -> Option<String> {
    bytes(value).map(|bytes| format!("{bytes:.0}"))
}

/// The seconds of `2012-03-28 23:33 (up 1+15:12:09)`.
fn up(value: &str) -> Option<f64> {
    let (_, up) = value.split_once("(up ")?;
    let (days, clock) = up.trim_end_matches(')').split_once('+')?;
    Some(days.parse::<f64>().ok().filter(|days| days.is_finite())? * 86_400.0 + crate::locks::clock(clock)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::part::{Kind, Said};
    use crate::{recognise, window};

    const REPORT: &str = "\
# Percona Toolkit MySQL Summary Report #######################
              System time | 2024-05-02 08:01:40 UTC (local TZ: UTC +0000)
# Instances ##################################################
  Port  Data Directory             Nice OOM Socket
  ===== ========================== ==== === ======
   3306 /var/lib/mysql             0    0   /run/mysqld/mysqld.sock
# Report On Port 3306 ########################################
                     User | root@localhost
                     Time | 2024-05-02 10:01:40 (CEST)
                 Hostname | db7
                  Version | 8.0.36-28 Percona Server (GPL), Release 28
                 Built On | Linux x86_64
                  Started | 2024-05-01 09:01 (up 1+01:00:00)
                Databases | 7
                  Datadir | /var/lib/mysql/
                Processes | 350 connected, 30 running
# Processlist ################################################

  Command                        COUNT(*) Working SUM(Time) MAX(Time)
  ------------------------------ -------- ------- --------- ---------
  Binlog Dump                           1       1    100000    100000
  Query                                30      30     27000       900
  Sleep                               300       0      2500      2500

  User                           COUNT(*) Working SUM(Time) MAX(Time)
  ------------------------------ -------- ------- --------- ---------
  app                                 350      30     27000       900

  State                          COUNT(*) Working SUM(Time) MAX(Time)
  ------------------------------ -------- ------- --------- ---------
                                      300       0         0         0
  Master has sent all binlog to         1       1    100000    100000
  Waiting for table metadata loc       30      30     27000       900

# Status Counters (Wait 10 Seconds) ##########################
Variable                                Per day  Per second     10 secs
Com_select                              4000000          45         700
Created_tmp_files                             5
Innodb_buffer_pool_read_ahead_evicted_pages     4000000          45           3
Slow_queries                               9000                       2
Uptime                                    90000           1           1
# Table cache ################################################
                     Size | 4000
                    Usage | 15%
# Key Percona Server features ################################
      Table & Index Stats | Disabled
# InnoDB #####################################################
                  Version | 8.0.36-28
         Buffer Pool Size | 16.0G
            Log File Size | 2 * 48.0M = 96.0M
      Flush Log At Commit | 1
             InnoDB Queue | 9 queries inside InnoDB, 40 queries in queue
       Oldest Transaction | 4000 Seconds
         History List Len | 2100000
       Transaction States | 9xACTIVE, 57xnot started
# Noteworthy Variables #######################################
         sort_buffer_size | 256k
                sql_mode | ANSI
# Configuration File #########################################
              Config File | /etc/mysql/my.cnf
[mysqld]
max_connections                     = 400
# The End ####################################################
";

    #[test]
    fn a_report_is_the_lists_that_it_was_made_from() {
        let parts = recognise("x", REPORT);
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert!(!kinds.contains(&Kind::Unknown), "{parts:#?}\n{}", as_lists(REPORT));
        for kind in [Kind::ProcessList, Kind::GlobalVariables, Kind::GlobalStatus, Kind::InnodbStatus] {
            assert!(kinds.contains(&kind), "{kind:?} is not in {kinds:?}\n{}", as_lists(REPORT));
        }
        let window = window(&parts);
        assert_eq!(
            window.server.version.map(|version| version.to_string()).as_deref(),
            Some("Percona Server 8.0.36")
        );
        assert_eq!(window.server.uptime_s, Some(90_010));
        assert_eq!(window.variable_number("innodb_buffer_pool_size"), Some(17_179_869_184.0));
        assert_eq!(window.variable_number("innodb_log_file_size"), Some(50_331_648.0));
        assert_eq!(window.variable_number("sort_buffer_size"), Some(262_144.0));
        assert_eq!(window.status_per_s("Com_select"), Some(700.0));
        assert_eq!(window.status_per_s("Slow_queries"), Some(2.0));
        assert_eq!(window.status_per_s("Innodb_buffer_pool_read_ahead_evicted_pages"), Some(3.0));
        assert_eq!(window.status("Threads_running"), Some(30.0));
        let causes: Vec<String> =
            spindoctor_rules::diagnose(&window).findings.into_iter().map(|finding| finding.cause).collect();
        assert!(causes.contains(&"metadata-lock-pileup".to_owned()), "{causes:?}");
    }

    #[test]
    fn sections_alone_are_read_as_far_as_they_go() {
        let section = |name: &str| {
            let from = REPORT.find(&format!("# {name}")).unwrap();
            let to = REPORT[from + 1..].find("\n# ").map_or(REPORT.len(), |to| from + 1 + to + 1);
            &REPORT[from..to]
        };
        let parts = recognise("x", section("Processlist"));
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::ProcessList], "{parts:#?}");
        let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
        let threads =
            said.filter_map(|said| if let Said::Threads(threads) = said { Some(threads) } else { None });
        let working = threads.flatten().filter(|thread| thread.is_at_work()).count();
        assert_eq!(working, 30);
        let innodb = recognise("x", section("InnoDB"));
        let history = window(&innodb)
            .latest(|s| &s.server.innodb_status)
            .and_then(|s| s.transactions.history_list_length);
        assert_eq!(history, Some(2_100_000));
        let indented: String = REPORT.lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(window(&recognise("x", &indented)).status_per_s("Com_select"), Some(700.0));
    }

    #[test]
    fn what_stands_below_the_last_section_is_not_lost() {
        let text = "# Security ###################################################\n   Users | 2 users\n\n[mysqld]\nmax_connections = 7\n";
        let parts = recognise("x", text);
        assert!(parts.iter().any(|part| part.kind == Kind::OptionFile), "{parts:#?}");
    }

    #[test]
    fn the_report_of_the_system_says_what_its_tools_say() {
        let text = "# Percona Toolkit System Summary Report ######################\n        Hostname | db7\n\
                    # Mounted Filesystems ########################################\n  Filesystem  Size Used Type  Opts Mountpoint\n  \
                    /dev/sda1    99G 100% ext3  rw   /var/lib/mysql\n\
                    # Simplified and fuzzy rounded vmstat (wait please) ##########\n  \
                    procs  ---swap-- -----io---- ---system---- --------cpu--------\n   r  b    si   so    bi    bo     ir     cs  us  sy  il  wa  st\n   \
                    2  0     0    0     3    15     30    125   0   0  99   0   0\n   1 17   900 1250 21456 31567   9000  22000   4   4   1  91   0\n   \
                    1 17   900 1250 21456 31567   9000  22000   4   4   1  91   0\n\
                    # The End ####################################################\n";
        let says: Vec<String> = recognise("x", text).into_iter().flat_map(|part| part.says).collect();
        assert!(says.contains(&"/var/lib/mysql is 100% full".to_owned()), "{says:?}\n{}", as_lists(text));
        assert!(
            says.iter().any(|said| said.starts_with("The host swaps: 900 KiB/s in")),
            "{says:?}\n{}",
            as_lists(text)
        );
    }

    #[test]
    fn other_headings_are_none() {
        for text in ["# Profile\n# Rank Query ID\n", "# InnoDB\nState | x\n", "### InnoDB ###\n"] {
            assert_eq!(as_lists(text), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "(# InnoDB ###|# Status Counters ###|# Report On Port 7 ###|Variable Per day Per second 10 secs|Started|History List Len|Uptime|\\| |\\(up |[0-9.]{1,6}|\\+|:|é|\n|  ){0,40}") {
            let _read = recognise("x", &text);
        }
    }
}
