//! `performance_schema.accounts`: how often each account has connected, and how many statements it sent.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::AccountSummary;

use super::rows::Rows;
use super::source::{Plan, Source, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source.
///
/// Cost: one slot of memory for each account, without a lock; on MySQL 8.0 and later besides, of the fifty accounts that
/// connected most, the counts of some 150 kinds of statements each, by an index. Below, and on MariaDB, there is no index,
/// and the statements are not asked for.
///
/// Kinds whose names begin with `statement/sql/` are what clients send as text; `statement/com/Execute` what they have
/// prepared. Pings, quits and what runs inside of routines are not counted.
pub const SOURCE: Source = Source {
    name: "performance_schema.accounts",
    help: "connections and statements of each account: who connects for each query",
    cost: "reads memory without a lock: the accounts, and the counts of the fifty that connected most",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(30, 300).adding_up_events(),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(_) if counts_by_user(variables) => Plan::Elsewhere,
        Some(why) => Plan::Cannot(why),
        None if version.mysql_at_least(8, 0, 1) => Plan::Ask(
            "SELECT a.USER, a.HOST, a.CURRENT_CONNECTIONS, a.TOTAL_CONNECTIONS, \
                 (SELECT SUM(s.COUNT_STAR) FROM performance_schema.events_statements_summary_by_account_by_event_name AS s \
                 WHERE s.USER = a.USER AND s.HOST = a.HOST \
                 AND (s.EVENT_NAME LIKE 'statement/sql/%' OR s.EVENT_NAME = 'statement/com/Execute')) AS STATEMENTS \
                 FROM (SELECT USER, HOST, CURRENT_CONNECTIONS, TOTAL_CONNECTIONS FROM performance_schema.accounts \
                 WHERE USER IS NOT NULL ORDER BY TOTAL_CONNECTIONS DESC LIMIT 50) AS a",
        ),
        None => Plan::Ask(
            "SELECT USER, HOST, CURRENT_CONNECTIONS, TOTAL_CONNECTIONS FROM performance_schema.accounts \
                 WHERE USER IS NOT NULL ORDER BY TOTAL_CONNECTIONS DESC LIMIT 50",
        ),
    },
    parse: |rows, answer, sample| sample.accounts = answer.reading(accounts(rows)),
    reading: ServerSample::field("accounts"),
};

/// True where MariaDB counts by user itself (`userstat`), which [`super::user_statistics`] reads.
pub(super) fn counts_by_user(variables: super::source::Variables<'_>) -> bool {
    variables.and_then(|variables| variables.switch("userstat")).unwrap_or(false)
}

fn accounts(rows: &Rows) -> Vec<AccountSummary> {
    rows.iter()
        .map(|row| AccountSummary {
            user: row.string("USER"),
            host: row.string("HOST"),
            current: row.number("CURRENT_CONNECTIONS").unwrap_or(0),
            total: row.number("TOTAL_CONNECTIONS").unwrap_or(0),
            statements: row.number("STATEMENTS"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_server_that_does_not_count_statements_by_account_says_nothing_of_them() {
        let counted = accounts(&fixture::tabbed(
            "USER\tHOST\tCURRENT_CONNECTIONS\tTOTAL_CONNECTIONS\tSTATEMENTS\n\
             app\t10.0.0.7\t3\t812345\t912345\nroot\tlocalhost\t1\t4\tNULL\n",
        ));
        assert_eq!((counted[0].user.as_str(), counted[0].host.as_str()), ("app", "10.0.0.7"));
        assert_eq!(
            (counted[0].current, counted[0].total, counted[0].statements),
            (3, 812_345, Some(912_345))
        );
        assert_eq!(counted[1].statements, None);
        let old =
            accounts(&fixture::tabbed("USER\tHOST\tCURRENT_CONNECTIONS\tTOTAL_CONNECTIONS\na\tb\t1\t2\n"));
        assert_eq!((old[0].total, old[0].statements), (2, None));
    }
}
