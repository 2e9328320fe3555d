//! What an exporter for Prometheus makes of a server's status, its variables and its replica's status, as the lists that it made it from.
//!
//! ```text
//! # TYPE mysql_global_status_threads_running untyped
//! mysql_global_status_threads_running 12
//! mysql_global_status_commands_total{command="select"} 9.91283e+06
//! mysql_global_variables_max_connections 500
//! ```
//!
//! The exporter gives counters of one family one name, with what they differ in as a label (collector/global_status.go).

use std::collections::HashSet;

use crate::rows::STARS;

/// Beginnings of the names.
const STATUS: &str = "mysql_global_status_";
const VARIABLES: &str = "mysql_global_variables_";
const REPLICA: &str = "mysql_slave_status_";
/// Beginnings of names that stand beside them and are of the exporter, or of lists that no cause rests on.
const BESIDE: [&str; 7] = ["mysql_", "mysqld_exporter_", "go_", "process_", "promhttp_", "scrape_", "up"];
/// Families: the exporter's name, and what stands before and behind its label in the server's name.
const FAMILIES: [(&str, &str, &str); 7] = [
    ("commands_total", "com_", ""),
    ("handlers_total", "handler_", ""),
    ("connection_errors_total", "connection_errors_", ""),
    ("buffer_pool_pages", "innodb_buffer_pool_pages_", ""),
    ("buffer_pool_page_changes_total", "innodb_buffer_pool_pages_", ""),
    ("innodb_row_ops_total", "innodb_rows_", ""),
    ("performance_schema_lost_total", "performance_schema_", "_lost"),
];
/// Names without a label that the exporter changed.
const RENAMED: [(&str, &str); 1] = [("buffer_pool_dirty_pages", "innodb_buffer_pool_pages_dirty")];
/// Labels that say which server it is, where several are in one text.
const OF_SERVER: [&str; 4] = ["instance", "service_name", "node_name", "pod"];
/// Metrics of a server that make a text one of an exporter: one alone may stand in a sentence.
const FEWEST: usize = 2;
/// Of a line, bytes.
const LONGEST: usize = 4_000;

/// A line of a metric.
#[derive(Debug)]
struct Metric<'l> {
    name: &'l str,
    labels: Vec<(&'l str, &'l str)>,
    value: f64,
}

impl<'l> Metric<'l> {
    fn from_line(line: &'l str) -> Option<Self> {
        let line = line.trim();
        let end = line.find(['{', ' ', '\t'])?;
        let name = &line[..end];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if line.len() > LONGEST || name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let (labels, rest) = match line[end..].strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), &line[end..]),
        };
        let mut words = rest.split_whitespace();
        let value: f64 = words.next()?.parse().ok()?;
        // Behind the value the time may stand.
        (value.is_finite()
            && words.next().is_none_or(|time| time.parse::<f64>().is_ok())
            && words.next().is_none())
        .then_some(Self { name, labels, value })
    }

    fn label(&self, wanted: &str) -> Option<&'l str> {
        self.labels.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    }

    fn server(&self) -> Option<&'l str> {
        OF_SERVER.iter().find_map(|name| self.label(name))
    }

    /// The label in which the counters of a family differ.
    fn of_family(&self) -> Option<&'l str> {
        const NAMES: [&str; 6] = ["command", "handler", "error", "state", "operation", "instrumentation"];
        NAMES.iter().find_map(|name| self.label(name))
    }

    /// Whole where it is whole: `9.91283e+06`.
    fn shown(&self) -> String {
        format!("{}", self.value)
    }
}

/// `command="select",instance="db1:9104"} 12` as its labels and what stands behind them.
fn labels(text: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let mut labels = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let mut is_escaped = false;
        let end = behind.find(|c: char| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        })?;
        labels.push((name.trim(), &behind[..end]));
        rest = behind[end + 1..].trim_start_matches([',', ' ']);
    }
}

/// The server's own name of a counter.
fn status_name(metric: &Metric<'_>) -> Option<String> {
    let name = metric.name.strip_prefix(STATUS)?;
    if let Some((_, before, behind)) = FAMILIES.iter().find(|(family, ..)| *family == name) {
        return metric.of_family().map(|label| format!("{before}{label}{behind}"));
    }
    let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    Some(renamed.unwrap_or(name).to_owned())
}

/// Names of one list that are kept: a server's status and variables have some 600 each.
const MOST_NAMES: usize = 20_000;
/// Channels of a replica that are kept.
const MOST_CHANNELS: usize = 256;

/// A list that is being made.
#[derive(Debug, Default)]
struct List {
    names: Vec<String>,
    values: Vec<String>,
    known: HashSet<String>,
}

impl List {
    fn add(&mut self, name: String, value: String, done: &mut Vec<Self>) {
        // A name that comes again is of the next scrape.
        if self.names.first() == Some(&name) {
            done.push(std::mem::take(self));
        }
        self.keep(name, value);
    }

    /// Keeps a value of a name that is new.
    fn keep(&mut self, name: String, value: String) {
        if self.names.len() < MOST_NAMES && self.known.insert(name.clone()) {
            self.names.push(name);
            self.values.push(value);
        }
    }

    fn print(&self, lines: &mut Vec<String>) {
        lines.push("Variable_name\tValue".to_owned());
        lines.extend(self.names.iter().zip(&self.values).map(|(name, value)| format!("{name}\t{value}")));
        lines.push(String::new());
    }
}

/// The version of a server, of `mysql_version_info{innodb_version="8.0.36",version="8.0.36",version_comment="..."} 1`.
fn version(metric: &Metric<'_>) -> Vec<(String, String)> {
    if metric.name != "mysql_version_info" {
        return Vec::new();
    }
    let of = |name: &str| metric.label(name).map(|value| (name.to_owned(), value.to_owned()));
    [of("version"), of("version_comment")].into_iter().flatten().collect()
}

/// How `SHOW REPLICA STATUS` has what the exporter gives as 1 and 0.
fn replica_value(name: &str, metric: &Metric<'_>) -> String {
    match (name.ends_with("_running"), metric.value == 1.0) {
        (true, true) => "Yes".to_owned(),
        (true, false) => "No".to_owned(),
        _ => metric.shown(),
    }
}

/// Adds a field of a replica's channel.
fn add_of_replica<'l>(name: &str, metric: &Metric<'l>, channels: &mut Vec<(&'l str, List)>) {
    let channel =
        metric.label("channel_name").or_else(|| metric.label("connection_name")).unwrap_or_default();
    let known = channels.iter().position(|(other, _)| *other == channel);
    if known.is_none() && channels.len() >= MOST_CHANNELS {
        return;
    }
    let at = known.unwrap_or_else(|| {
        let mut list = List::default();
        let given = [("Channel_Name", Some(channel)), ("Master_Host", metric.label("master_host"))];
        for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            list.keep(name.to_owned(), value.to_owned());
        }
        channels.push((channel, list));
        channels.len() - 1
    });
    channels[at].1.keep(name.to_owned(), replica_value(name, metric));
}

/// The lines of a text, with the metrics of the first server in it as its lists, where the first of them stood. A text that is none of an
/// exporter is as it was.
pub(crate) fn as_lists(lines: Vec<String>) -> Vec<String> {
    let is_of_server = |metric: &Metric<'_>| {
        [STATUS, VARIABLES, REPLICA].iter().any(|begins| metric.name.starts_with(begins))
    };
    let is_wanted = |line: &str| {
        line.trim_start().starts_with("mysql_")
            && Metric::from_line(line).is_some_and(|metric| is_of_server(&metric))
    };
    let mut wanted = lines.iter().filter(|line| is_wanted(line));
    let Some(server) = wanted
        .next()
        .and_then(|line| Metric::from_line(line))
        .map(|metric| metric.server().map(str::to_owned))
    else {
        return lines;
    };
    if wanted.count() + 1 < FEWEST {
        return lines;
    }
    let (mut status, mut variables) = (List::default(), List::default());
    let mut done: Vec<List> = Vec::new();
    let mut channels: Vec<(&str, List)> = Vec::new();
    let mut kept: Vec<String> = Vec::with_capacity(lines.len());
    let mut place = None;
    for line in &lines {
        let trimmed = line.trim_start();
        if trimmed.starts_with("# HELP ") || trimmed.starts_with("# TYPE ") {
            continue;
        }
        let Some(metric) = BESIDE
            .iter()
            .any(|begins| trimmed.starts_with(begins))
            .then(|| Metric::from_line(line))
            .flatten()
        else {
            kept.push(line.clone());
            continue;
        };
        place.get_or_insert(kept.len());
        if metric.server() != server.as_deref() {
            continue;
        }
        if let Some(name) = status_name(&metric) {
            status.add(name, metric.shown(), &mut done);
        } else if let Some(name) = metric.name.strip_prefix(VARIABLES) {
            variables.add(name.to_owned(), metric.shown(), &mut done);
        } else if let Some(name) = metric.name.strip_prefix(REPLICA) {
            add_of_replica(name, &metric, &mut channels);
        } else {
            for (name, value) in version(&metric) {
                variables.add(name, value, &mut done);
            }
        }
    }
    let mut lists = Vec::new();
    for list in done.iter().chain([&status, &variables]).filter(|list| !list.names.is_empty()) {
        list.print(&mut lists);
    }
    for (at, (_, list)) in channels.iter().enumerate() {
        lists.push(format!("{STARS} {}. row {STARS}", at + 1));
        lists.extend(list.names.iter().zip(&list.values).map(|(name, value)| format!("{name}: {value}")));
    }
    if !channels.is_empty() {
        lists.push("1 row in set (0.00 sec)".to_owned());
    }
    let place = place.unwrap_or(kept.len());
    kept.splice(place..place, lists);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Kind, Said};
    use crate::recognise;

    fn lists(text: &str) -> Vec<String> {
        as_lists(text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn a_list_has_no_more_names_than_any_server() {
        let text: String = (0..MOST_NAMES + 9).map(|at| format!("mysql_global_status_x{at} 1\n")).collect();
        assert_eq!(lists(&text).iter().filter(|line| line.starts_with('x')).count(), MOST_NAMES);
        let channels: String = (0..MOST_CHANNELS + 9)
            .map(|at| format!("mysql_slave_status_last_errno{{channel_name=\"c{at}\"}} 0\n"))
            .collect();
        assert_eq!(lists(&channels).iter().filter(|line| line.starts_with(STARS)).count(), MOST_CHANNELS);
    }

    #[test]
    fn metrics_are_the_lists_that_they_were_made_from() {
        let text = "# HELP mysql_global_status_commands_total Total number of executed MySQL commands.\n\
                    # TYPE mysql_global_status_commands_total counter\n\
                    mysql_global_status_commands_total{command=\"select\"} 1.25e+06\n\
                    mysql_global_status_commands_total{command=\"update\"} 7\n\
                    mysql_global_status_buffer_pool_pages{state=\"free\"} 12 1718000000000\n\
                    mysql_global_status_threads_running 12\nmysql_global_status_uptime 4711\n\
                    mysql_global_variables_max_connections 500\nmysql_global_variables_innodb_io_capacity 200\n\
                    mysql_version_info{innodb_version=\"8.0.36\",version=\"8.0.36\",version_comment=\"Source\"} 1\n\
                    mysql_up 1\ngo_goroutines 9\n";
        let parts = recognise("a.txt", text);
        assert_eq!(
            parts.iter().map(|part| part.kind).collect::<Vec<_>>(),
            [Kind::GlobalStatus, Kind::GlobalVariables]
        );
        let Said::Status(status) = &parts[0].moments[0].said[0] else { panic!("{parts:?}") };
        let of = |name| status.number(name);
        assert_eq!(
            (of("com_select"), of("com_update"), of("threads_running")),
            (Some(1_250_000.0), Some(7.0), Some(12.0))
        );
        assert_eq!(of("innodb_buffer_pool_pages_free"), Some(12.0));
        let Said::Variables(variables) = &parts[1].moments[0].said[0] else { panic!("{parts:?}") };
        assert_eq!(variables.number("max_connections"), Some(500.0));
        assert_eq!(parts[1].version.map(|version| version.to_string()).as_deref(), Some("MySQL 8.0.36"));
    }

    #[test]
    fn a_second_scrape_is_a_second_reading_and_another_server_is_none() {
        let scrape = |uptime: u32, instance: &str| {
            format!(
                "mysql_global_status_uptime{{instance=\"{instance}\"}} {uptime}\nmysql_global_status_questions{{instance=\"{instance}\"}} 9\n\
                 mysql_global_status_threads_running{{instance=\"{instance}\"}} 3\n"
            )
        };
        let parts = recognise("a.txt", &[scrape(10, "a"), scrape(70, "b"), scrape(20, "a")].concat());
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert_eq!(parts[0].moments.len(), 2, "{parts:?}");
    }

    #[test]
    fn a_replica_s_channel_is_its_status() {
        let text = "mysql_slave_status_slave_io_running{channel_name=\"\",master_host=\"db1\"} 1\n\
                    mysql_slave_status_slave_sql_running{channel_name=\"\",master_host=\"db1\"} 0\n\
                    mysql_slave_status_seconds_behind_master{channel_name=\"\",master_host=\"db1\"} 4711\n";
        let parts = recognise("a.txt", text);
        let Said::Replication(channels) = &parts[0].moments[0].said[0] else { panic!("{parts:?}") };
        assert_eq!((channels[0].applier_running.as_str(), channels[0].behind_s), ("No", Some(4_711.0)));
        assert_eq!(channels[0].source_host, "db1");
    }

    #[test]
    fn what_is_no_exporter_s_stays_as_it_is() {
        for text in [
            "my dashboard draws mysql_global_status_threads_running 12\n",
            "mysql_global_status_threads_running 12\n",
            "mysql_global_status_threads_running{\nmysql_global_status_uptime{a=\"}\n",
            "# HELP me\nup 3\n",
        ] {
            assert_eq!(lists(text), text.lines().collect::<Vec<_>>());
        }
    }
}
