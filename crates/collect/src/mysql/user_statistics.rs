//! `information_schema.USER_STATISTICS`: how often each user has connected, where MariaDB counts that (`userstat`).

use spindoctor_model::mysql::AccountSummary;

use super::perf_schema_accounts::{self, counts_by_user};
use super::rows::Rows;
use super::source::{Plan, Source, process_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source.
///
/// Cost: a hash table with an entry for each user, under one mutex that the end of each connection takes too: some ten
/// microseconds. Asked where performance_schema has no answer.
pub const SOURCE: Source = Source {
    name: "information_schema.USER_STATISTICS",
    help: "MariaDB: connections and statements of each user, where userstat is on",
    cost: "reads a table with an entry for each user, under its mutex",
    grant: process_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(30, 300).instead_of(perf_schema_accounts::SOURCE.name),
    plan: |version, variables| match version.is_mariadb() && counts_by_user(variables) {
        true => Plan::Ask(
            "SELECT USER, CONCURRENT_CONNECTIONS, TOTAL_CONNECTIONS, \
             SELECT_COMMANDS + UPDATE_COMMANDS + OTHER_COMMANDS AS STATEMENTS \
             FROM information_schema.USER_STATISTICS ORDER BY TOTAL_CONNECTIONS DESC LIMIT 50",
        ),
        false => Plan::Elsewhere,
    },
    parse: |rows, answer, sample| sample.accounts = answer.reading(users(rows)),
    ..perf_schema_accounts::SOURCE
};

fn users(rows: &Rows) -> Vec<AccountSummary> {
    rows.iter()
        .map(|row| AccountSummary {
            user: row.string("USER"),
            host: String::new(),
            current: row.number("CONCURRENT_CONNECTIONS").unwrap_or(0),
            total: row.number("TOTAL_CONNECTIONS").unwrap_or(0),
            statements: row.number("STATEMENTS"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ServerVersion;
    use spindoctor_model::mysql::NamedValues;

    use super::super::fixture;
    use super::*;

    #[test]
    fn users_are_counted_where_the_server_does() {
        let rows = fixture::tabbed(
            "USER\tCONCURRENT_CONNECTIONS\tTOTAL_CONNECTIONS\tSTATEMENTS\napp\t2\t900\t950\n",
        );
        assert_eq!(users(&rows)[0].total, 900);
        let mariadb = ServerVersion::parse("10.11.19-MariaDB", "").unwrap();
        let variables =
            |userstat| NamedValues::from_iter([("userstat", userstat), ("performance_schema", "OFF")]);
        let plan = |source: &Source, userstat| (source.plan)(mariadb, Some(&variables(userstat)));
        assert!(matches!(plan(&SOURCE, "ON"), Plan::Ask(_)));
        assert!(matches!(plan(&SOURCE, "OFF"), Plan::Elsewhere));
        // One of the two says why nobody is counted.
        assert!(matches!(plan(&perf_schema_accounts::SOURCE, "ON"), Plan::Elsewhere));
        assert!(matches!(plan(&perf_schema_accounts::SOURCE, "OFF"), Plan::Cannot(_)));
    }
}
