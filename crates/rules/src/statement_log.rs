//! The server's logs of statements: the general log and the slow log.

use spindoctor_model::Window;

/// A log of statements. Each has one mutex, under which a statement is written to it (sql/log.cc); where it is kept in a table, who
/// writes to it locks that table whole (Log_to_csv_event_handler).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatementLog {
    /// As a person reads it.
    pub(crate) name: &'static str,
    /// The variable that switches it.
    pub(crate) switch: &'static str,
    /// The variable that names its file.
    pub(crate) file: &'static str,
    /// The table that it is kept in, where `log_output` has TABLE.
    pub(crate) table: &'static str,
}

/// The log of every statement.
pub(crate) const GENERAL: StatementLog = StatementLog {
    name: "general log",
    switch: "general_log",
    file: "general_log_file",
    table: "mysql.general_log",
};

/// The log of statements that take longer than `long_query_time`. MariaDB 10.11 calls its switch `log_slow_query` as well.
pub(crate) const SLOW: StatementLog = StatementLog {
    name: "slow log",
    switch: "slow_query_log",
    file: "slow_query_log_file",
    table: "mysql.slow_log",
};

/// The slow log takes every statement, or nearly, below so many seconds. Chosen: the default is 10.
const ALL_ARE_SLOW_S: f64 = 0.01;

impl StatementLog {
    /// The one that takes every statement, or nearly.
    pub(crate) fn of_every_statement(window: &Window) -> Option<Self> {
        let variables = window.latest(|sample| &sample.server.variables)?;
        let is_on = |log: Self| variables.switch(log.switch) == Some(true);
        let least_s = window.variable_number("long_query_time");
        let all_are_slow = least_s.is_some_and(|least_s| least_s <= ALL_ARE_SLOW_S);
        if is_on(GENERAL) { Some(GENERAL) } else { (is_on(SLOW) && all_are_slow).then_some(SLOW) }
    }

    /// True where the logs are kept in tables.
    pub(crate) fn is_in_a_table(window: &Window) -> bool {
        window.variable("log_output").is_some_and(|output| output.to_ascii_uppercase().contains("TABLE"))
    }

    /// The one whose functions stand in what sessions were seen in.
    pub(crate) fn from_functions(seen: &str) -> Option<Self> {
        let seen = seen.to_ascii_lowercase();
        if seen.contains("general") { Some(GENERAL) } else { seen.contains("slow").then_some(SLOW) }
    }
}
