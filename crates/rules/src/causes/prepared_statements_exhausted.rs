//! `prepared-statements-exhausted`: no client can prepare another statement.

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, ServerVersion, TroubleKind, Unavailable, Window};

use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "prepared-statements-exhausted",
    title: "max_prepared_stmt_count reached: no client can prepare a statement",
    what: "A prepared statement belongs to its connection, and stays in the server until the client closes it or the connection \
           ends. The server permits max_prepared_stmt_count of them, of all connections together (16,382 unless it is set). Each \
           further one is refused with error 1461.",
    why_it_hurts: "Whatever a client sends as a prepared statement fails at once, and most drivers and frameworks send everything \
                   so. Nobody waits, so no list shows it: the server looks idle while its clients fail. Which client \
                   is refused is chance; the one that holds the most notices nothing.",
    evidence: "Prepared_stmt_count at max_prepared_stmt_count in a sample: it stops there for no other reason. The estimate is the part \
               of the samples in which it stood there. Refused ones are counted nowhere but in Queries, which counts each prepare, \
               where Com_stmt_prepare counts those that succeeded: what is left of Queries without Questions, prepares that succeeded, \
               closes and resets is the most that can have been refused (statements in stored programs are in it too). \
               Where nothing is left nobody asked meanwhile, and it is a warning. Of errors that clients print: 1461.",
    looks_alike: "A max_prepared_stmt_count of 0 refuses all of them on purpose, and is not reported. Com_stmt_reprepare grows where \
                  tables change or fall out of the table cache: that takes time and refuses nothing. Errors 1040 and 1226 refuse \
                  logins: connections-exhausted, logins-refused.",
    remedies: "Raise max_prepared_stmt_count: that lets clients go on while you look. Then find who holds them \
               (performance_schema.prepared_statements_instances, by its owner). Many in each connection: the application never closes them, or \
               the cache of its driver is too large; close them, or bound the cache (Connector/J: prepStmtCacheSize). Few in each: there are \
               many connections, and the limit has to fit their number. A connection that ends gives all of its back.",
    safety: "SET GLOBAL max_prepared_stmt_count takes effect at once and is undone the same way; those that are in use stay. Each takes \
             memory in the server, from some kilobytes up, by the length of the statement: where clients leak them, a higher limit \
             is more memory until it is reached again.",
    references: &[
        "MySQL Reference Manual: max_prepared_stmt_count; Prepared_stmt_count",
        "MySQL Reference Manual: The prepared_statements_instances Table",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// The largest that every server takes (MySQL to 8.0.16: sql/sys_vars.cc).
const MOST: f64 = 1_048_576.0;

/// Part of the samples at the limit, from which on a client is refused whenever it asks and not now and then.
const MOSTLY: f64 = 0.5;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let status = window.need(|s| &s.server.status)?;
    status
        .number("Prepared_stmt_count")
        .ok_or_else(|| Unavailable::because("Prepared_stmt_count is absent"))?;
    let limit = window.need_variable("max_prepared_stmt_count")?;
    let counts = window.status_series("Prepared_stmt_count");
    let most = counts.iter().map(|&(_, count)| count).fold(0.0, f64::max);
    // Nothing is permitted on purpose.
    if limit < 1.0 || most < limit {
        return Ok(None);
    }
    let full = counts.iter().filter(|&&(_, count)| count >= limit).count() as f64 / counts.len() as f64;
    let refused_per_s = refused_at_most_per_s(window);
    let nobody_asked = refused_per_s == Some(0.0);
    let score = if nobody_asked { WARNING_FROM } else { full };
    let cannot = match full {
        _ if nobody_asked => "The next client cannot prepare a statement",
        full if full < MOSTLY => "Clients cannot prepare statements now and then",
        _ => "Clients cannot prepare statements",
    };
    let connected = status.number("Threads_connected");
    let own = f64::from(u8::from(window.server.own_connection_id.is_some()));
    let of_each = connected.map(|connected| most / (connected - own).max(1.0));
    let raised = (2.0 * limit).min(MOST);
    Ok(Some(
        Draft::new(&CAUSE, score, format!("{cannot}: {} of {} are in use", whole(most), whole(limit)))
            .why(format!(
                "Each further one is refused with error 1461 until one of them is closed or a connection ends.{}",
                of_each.map_or_else(String::new, |each| format!(" Each connection holds {each:.1} on average."))
            ))
            .evidence(
                Evidence::new("prepared statements", most, "", "SHOW GLOBAL STATUS Prepared_stmt_count")
                    .expected(format!("< {limit:.0}"))
                    .series(counts),
            )
            .evidence(Evidence::new("max_prepared_stmt_count", limit, "", "SHOW GLOBAL VARIABLES"))
            .evidence(
                Evidence::new("of the samples at the limit", full, "ratio", "SHOW GLOBAL STATUS").expected("0"),
            )
            .evidence_if(refused_per_s.map(|per_s| {
                Evidence::new("refused, at most", per_s, "1/s", "SHOW GLOBAL STATUS Queries, Questions, Com_stmt_prepare")
                    .expected("0")
            }))
            .evidence_if(of_each.map(|each| Evidence::new("for each connection", each, "", "SHOW GLOBAL STATUS")))
            .remedy_if((raised > limit).then(|| Remedy {
                statement: format!("SET GLOBAL max_prepared_stmt_count = {raised:.0}"),
                why: "Clients can prepare statements again at once. Where they never close them it buys time only.".into(),
                dynamic: true,
                risk: "Each takes memory in the server, from some kilobytes up.".into(),
                undo: format!("SET GLOBAL max_prepared_stmt_count = {limit:.0}"),
            }))
            .remedy(who_holds_them(window))
            .remedy(close_them())
            .finding(),
    ))
}

/// What clients printed last: error 1461, with the limit in its message.
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::PreparedFull)?;
    let limit: Option<f64> = trouble
        .line
        .split_once("current value: ")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    let raised = limit
        .map_or_else(|| "twice what it is".to_owned(), |limit| format!("{:.0}", (2.0 * limit).min(MOST)));
    let before = limit.map_or_else(|| "what it was".to_owned(), |limit| format!("{limit:.0}"));
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "Clients cannot prepare statements: max_prepared_stmt_count is reached")
            .why("Each further one is refused with error 1461 until one of them is closed or a connection ends. Applications that never close \
                  theirs, and pools with a cache of them for each connection, fill it.")
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedy(Remedy {
                statement: format!("SET GLOBAL max_prepared_stmt_count = {raised}"),
                why: "Clients can prepare statements again at once. Where they never close them it buys time only.".into(),
                dynamic: true,
                risk: "Each takes memory in the server, from some kilobytes up.".into(),
                undo: format!("SET GLOBAL max_prepared_stmt_count = {before}"),
            })
            .remedy(who_holds_them(window))
            .remedy(close_them())
            .finding(),
    )
}

/// What ends a leak of them.
fn close_them() -> Remedy {
    Remedy {
        statement: "Close prepared statements in the application, and bound the cache of them that its driver keeps for each connection".into(),
        why: "One that is never closed stays until its connection ends, and a pool keeps that open.".into(),
        dynamic: true,
        risk: "A change of the application; a smaller cache prepares the same statement more often.".into(),
        undo: String::new(),
    }
}

/// Attempts to prepare a statement that were refused, each second at most: `Queries` counts what `Questions` leaves out, which is
/// each PREPARE, close and reset of the protocol, and what stored programs run (sql/sql_parse.cc); a PREPARE in SQL that was refused
/// is in both. None where a counter is missing.
fn refused_at_most_per_s(window: &Window) -> Option<f64> {
    let seconds = window.change(|s| &s.server.status)?.seconds;
    let [queries, questions, prepared, in_sql, closed, reset] =
        ["Queries", "Questions", "Com_stmt_prepare", "Com_prepare_sql", "Com_stmt_close", "Com_stmt_reset"]
            .map(|counter| window.status_growth(counter));
    let refused = queries? - questions? + in_sql? - prepared? - closed? - reset?;
    Some(refused.max(0.0) / seconds)
}

fn who_holds_them(window: &Window) -> Remedy {
    let version = window.server.version;
    // MySQL 5.7.4 and MariaDB 10.5.2 have the table.
    let has_table = version.is_some_and(|version: ServerVersion| {
        version.mysql_at_least(5, 7, 4) || version.mariadb_at_least(10, 5, 2)
    });
    let is_on = window.variable("performance_schema").is_some_and(|value| matches!(value, "ON" | "1"));
    let (statement, why) = if has_table && is_on {
        (
            "SELECT t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST, COUNT(*) AS held FROM \
             performance_schema.prepared_statements_instances AS p JOIN performance_schema.threads AS t ON t.THREAD_ID = \
             p.OWNER_THREAD_ID GROUP BY 1, 2, 3 ORDER BY held DESC LIMIT 10",
            "It lists the connections that hold the most. KILL of one gives all of its back.",
        )
    } else {
        (
            "SHOW PROCESSLIST, for the application with the most connections, or the oldest",
            "Which connection holds how many the server says in performance_schema.prepared_statements_instances alone, and it has no \
             such table, or it is off. KILL of a connection gives all of its back.",
        )
    };
    Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Severity;

    use super::*;
    use crate::testing::Build;

    /// So many are in use of 16,382, and so many prepares each second are refused.
    fn holding(version: &str, count: f64, refused_per_s: f64) -> Build {
        let counters = [
            ("Queries", 110.0 + refused_per_s),
            ("Questions", 100.0),
            ("Com_stmt_prepare", 5.0),
            ("Com_prepare_sql", 0.0),
            ("Com_stmt_close", 5.0),
            ("Com_stmt_reset", 0.0),
        ];
        let build = Build::busy(version)
            .gauge("Prepared_stmt_count", count)
            .variable("max_prepared_stmt_count", "16382")
            .variable("performance_schema", "ON");
        counters.into_iter().fold(build, |build, (name, per_s)| build.counter(name, per_s))
    }

    pub(crate) fn fires() -> Window {
        holding("9.7.4", 16_382.0, 40.0).window()
    }

    /// One can still be prepared.
    pub(crate) fn near_miss() -> Window {
        holding("9.7.4", 16_381.0, 0.0).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn found(build: Build) -> Finding {
        match evaluate(&build.window()) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_full_is_said_with_who_to_look_for_and_what_lets_clients_go_on() {
        let finding = found(holding("9.7.4", 16_382.0, 40.0));
        assert_eq!(finding.headline, "Clients cannot prepare statements: 16,382 of 16,382 are in use");
        assert_eq!((finding.severity, finding.score), (Severity::Critical, 1.0));
        assert_eq!(finding.remedies[0].statement, "SET GLOBAL max_prepared_stmt_count = 32764");
        assert_eq!(finding.remedies[0].undo, "SET GLOBAL max_prepared_stmt_count = 16382");
        assert!(finding.remedies[1].statement.contains("prepared_statements_instances"));
        let old = found(holding("10.4.1-MariaDB", 16_382.0, 40.0));
        assert!(old.remedies[1].statement.starts_with("SHOW PROCESSLIST"), "{:?}", old.remedies);
    }

    #[test]
    fn where_nobody_can_have_been_refused_it_is_a_warning() {
        let finding = found(holding("9.7.4", 16_382.0, 0.0));
        assert!(finding.headline.starts_with("The next client cannot"), "{}", finding.headline);
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn now_and_then_is_less_and_switched_off_on_purpose_is_nothing() {
        let now_and_then = holding("9.7.4", 16_000.0, 40.0).each(|at_s, server, _| {
            if let spindoctor_model::Reading::Available { value: status, .. } = &mut server.status
                && at_s == 3.0
            {
                status.insert("Prepared_stmt_count", "16382");
            }
        });
        let finding = found(now_and_then);
        assert!(finding.headline.contains("now and then: 16,382 of 16,382"), "{}", finding.headline);
        assert_eq!(finding.severity, Severity::Warning);
        let off = holding("9.7.4", 0.0, 40.0).variable("max_prepared_stmt_count", "0");
        assert_eq!(evaluate(&off.window()), Outcome::Clear);
    }

    #[test]
    fn the_error_that_clients_print_says_the_limit() {
        let found = |line: &str| {
            let trouble = spindoctor_model::LoggedTrouble {
                kind: TroubleKind::PreparedFull,
                times: 1,
                line: line.to_owned(),
                ..Default::default()
            };
            let window = Window { error_log: vec![trouble], ..Window::default() };
            let first = crate::diagnose(&window).findings.remove(0);
            assert_eq!((first.cause.as_str(), first.severity), (CAUSE.name, Severity::Warning));
            first.remedies[0].clone()
        };
        let known = found("Can't create more than max_prepared_stmt_count statements (current value: 16382)");
        assert_eq!(known.statement, "SET GLOBAL max_prepared_stmt_count = 32764");
        assert_eq!(known.undo, "SET GLOBAL max_prepared_stmt_count = 16382");
        assert!(found("ERROR 1461 (42000): ...").statement.ends_with("= twice what it is"));
    }

    #[test]
    fn a_limit_that_cannot_be_raised_is_not_raised() {
        let finding =
            found(holding("9.7.4", 1_048_576.0, 40.0).variable("max_prepared_stmt_count", "1048576"));
        assert!(finding.remedies[0].statement.starts_with("SELECT"), "{:?}", finding.remedies);
    }
}
