//! Servers that refuse, and what an application expects.

use spindoctor_model::host::DataDirectory;
use spindoctor_model::mysql::{ErrorCount, ReplicaChannel};
use spindoctor_model::{NoSessionKind, Reading, Severity};

use super::counted::{by_number, uncounted};
use super::*;
use crate::testing::{Build, answer};

const UPDATE: &str = "UPDATE sbtest1 SET k = k + ? WHERE id = ?";

/// A primary of 6,000 statements a second that refuses so many writes of its clients, and lets none in.
fn read_only(per_s: f64) -> Build {
    Build::busy("9.7.4")
        .counter("Com_update", 0.0)
        .variable("read_only", "ON")
        .variable("super_read_only", "OFF")
        .errors(per_s, &[(1290, "ER_OPTION_PREVENTS_STATEMENT", per_s)])
        .failing_digest(UPDATE, per_s)
}

pub(crate) fn fires() -> Window {
    read_only(4000.0).window()
}

/// An application that inserts first: 1062 at 3 % of its statements, and a monitor that asks for a table that is not there.
pub(crate) fn near_miss() -> Window {
    Build::busy("9.7.4")
        .errors(181.0, &[(1062, "ER_DUP_ENTRY", 180.0), (1146, "ER_NO_SUCH_TABLE", 1.0)])
        .window()
}

pub(crate) fn missing() -> Window {
    Build::busy("9.7.4").no_session(NoSessionKind::Silent).window()
}

fn found(build: Build) -> Option<Finding> {
    match evaluate(&build.window()) {
        Outcome::Fired(finding) => Some(finding),
        Outcome::Clear => None,
        missing => panic!("{missing:?}"),
    }
}

fn severity(build: Build) -> Option<Severity> {
    found(build).map(|finding| finding.severity)
}

/// Errors of one number, at so many a second of 6,000 statements.
fn failing(number: u32, per_s: f64) -> Build {
    Build::busy("9.7.4").errors(per_s, &[(number, "ER_SOMETHING", per_s)])
}

/// The same server without the summary.
fn without_summary(version: &str) -> Build {
    Build::busy(version).each(|_, server, _| {
        server.errors = Reading::Unavailable(Unavailable::because("performance_schema is off"));
    })
}

#[test]
fn a_read_only_primary_is_named_with_the_statement_that_fails_and_what_sets_it_back() {
    let finding = found(read_only(4000.0)).unwrap();
    assert_eq!(
        finding.headline,
        "4000 statements a second fail with error 1290, 67 % of all: the server is read-only (read_only = ON)"
    );
    assert_eq!((finding.severity, finding.score), (Severity::Critical, 1.0));
    let text = format!("{:?}", finding.evidence);
    assert!(text.contains("error 1290 ER_OPTION_PREVENTS_STATEMENT") && text.contains("(4000 /s)"), "{text}");
    assert_eq!(finding.remedies[1].statement, "SET GLOBAL read_only = OFF");
    assert_eq!(finding.remedies[1].undo, "SET GLOBAL read_only = ON");
    let strict = found(read_only(4000.0).variable("super_read_only", "ON")).unwrap();
    assert_eq!(strict.remedies[1].undo, "SET GLOBAL super_read_only = ON");
}

#[test]
fn few_writes_count_as_a_share_of_the_writes_on_a_primary_and_of_all_on_a_replica() {
    assert_eq!(severity(read_only(20.0)), Some(Severity::Critical), "every write fails");
    assert_eq!(severity(read_only(3.0)), Some(Severity::Warning), "every write fails, and few come");
    let replica = |per_s| {
        read_only(per_s).each(|at_s, server, _| {
            let channel =
                ReplicaChannel { source_host: "db1".into(), source_port: 3306, ..ReplicaChannel::default() };
            server.replication = answer(at_s, vec![channel]);
        })
    };
    assert_eq!(severity(replica(20.0)), None);
    let all = found(replica(4000.0)).unwrap();
    assert!(
        all.headline.ends_with("this replica of db1:3306 is read-only (read_only = ON)"),
        "{}",
        all.headline
    );
    assert!(all.remedies[0].statement.contains("db1:3306"));
}

#[test]
fn what_an_application_expects_is_a_note_up_to_half_of_its_statements() {
    assert_eq!(severity(failing(1062, 60.0)), None);
    assert_eq!(severity(failing(1062, 2900.0)), Some(Severity::Note));
    assert_eq!(severity(failing(1062, 5000.0)), Some(Severity::Warning));
    // A deployment that is half done is none of that.
    assert_eq!(severity(failing(1146, 600.0)), Some(Severity::Warning));
    assert_eq!(severity(failing(1054, 3000.0)), Some(Severity::Critical));
    assert_eq!(severity(failing(1142, 3000.0)), Some(Severity::Critical));
}

#[test]
fn a_monitor_of_an_idle_server_is_a_note_and_an_idle_primary_that_refuses_all_is_a_warning() {
    let idle = |number, per_s: f64| {
        failing(number, per_s).counter("Questions", 3.0).counter("Com_update", 0.0).statements(3.0)
    };
    assert_eq!(severity(idle(1146, 1.0)), Some(Severity::Note));
    assert_eq!(severity(idle(1290, 2.0)), Some(Severity::Warning));
    assert_eq!(severity(idle(1290, 0.5)), None);
}

#[test]
fn what_the_engine_returned_is_an_error_only_where_no_other_number_says_what_it_was() {
    let of = |statements_per_s: f64, failed_per_s, by_number: &[(u32, &str, f64)]| {
        let window = Build::busy("9.7.4").errors(failed_per_s, by_number).statements(statements_per_s);
        match evaluate(&window.window()) {
            Outcome::Fired(finding) => Some(finding.headline),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    };
    // Each SELECT ... NOWAIT that finds a lock raises both; the lists are read one after the other.
    let nowait = &[(1030, "ER_GET_ERRNO", 2290.0), (3572, "ER_LOCK_NOWAIT", 2270.0)];
    let found = of(6000.0, 2278.0, nowait);
    let words = "with error 3572, ";
    assert!(found.as_ref().is_some_and(|headline| headline.contains(words)), "{found:?}");
    let meaning = ": NOWAIT finds the row or table locked (ER_LOCK_NOWAIT)";
    assert!(found.as_ref().is_some_and(|headline| headline.ends_with(meaning)), "{found:?}");
    // The statements of most sessions are not counted.
    assert_eq!(of(10.0, 2278.0, nowait), None);
    let damaged = of(6000.0, 400.0, &[(1030, "ER_GET_ERRNO", 400.0), (1062, "ER_DUP_ENTRY", 9.0)]);
    assert!(damaged.as_ref().is_some_and(|headline| headline.contains("error 1030")), "{damaged:?}");
}

#[test]
fn warnings_and_errors_of_other_causes_are_no_statements_that_fail() {
    let ignored = Build::busy("9.7.4").errors(0.0, &[(1062, "ER_DUP_ENTRY", 5000.0)]);
    assert_eq!(severity(ignored), None, "INSERT IGNORE");
    for number in [1205, 1213, 1461, 1040, 1045, 1158] {
        assert_eq!(severity(failing(number, 3000.0)), None, "{number}");
    }
    // Logins at the account's limit, and statements at it.
    assert_eq!(severity(failing(1226, 3000.0).counter("Aborted_connects", 3000.0)), None);
    assert_eq!(severity(failing(1226, 3000.0)), Some(Severity::Critical));
}

#[test]
fn a_number_that_the_first_list_had_no_room_for_counts_from_zero_only_where_it_is_young() {
    let count = |number, raised, first_seen_s| ErrorCount {
        number,
        raised,
        first_seen_s: Some(first_seen_s),
        name: String::new(),
    };
    let cut: Vec<ErrorCount> = (0..100).map(|at| count(2000 + at, 5, 900.0)).collect();
    let last = [count(1146, 700, 900.0), count(1054, 600, 5.0)];
    let window = Build::busy("9.7.4").window();
    let numbers = |first: &[ErrorCount]| -> Vec<Option<u32>> {
        by_number(&window, first, &last, 10.0, Some(2000.0)).iter().map(|error| error.number).collect()
    };
    assert_eq!(numbers(&cut), [Some(1054)]);
    assert_eq!(numbers(&[]), [Some(1146), Some(1054)]);
}

#[test]
fn without_numbers_the_total_is_a_note_and_what_the_status_counts_is_named() {
    let old = |failed| Build::busy("5.7.22").failed(failed);
    assert_eq!(severity(old(100.0)), None);
    let unknown = found(old(1000.0)).unwrap();
    assert_eq!(unknown.severity, Severity::Note);
    assert!(unknown.headline.ends_with("this server does not count which errors"), "{}", unknown.headline);
    let late = found(old(1000.0).counter("Max_execution_time_exceeded", 900.0)).unwrap();
    assert_eq!(late.severity, Severity::Warning);
    assert!(late.headline.contains("error 3024"), "{}", late.headline);
    // No room to prepare is another cause.
    assert_eq!(severity(old(5000.0).gauge("Prepared_stmt_count", 16_382.0)), None);
}

#[test]
fn mariadb_without_performance_schema_shows_what_was_refused_before_it_ran() {
    let all_refused = |read_only: &str| {
        // 6,000 questions, of which 4,800 are counted as commands, 0.2 as connections.
        evaluate(
            &without_summary("10.11.19-MariaDB")
                .counter("Com_update", 0.0)
                .variable("read_only", read_only)
                .window(),
        )
    };
    let Outcome::Fired(finding) = all_refused("ON") else { panic!("it should fire") };
    assert_eq!(
        finding.headline,
        "1200 statements a second fail with error 1290, 20 % of all: the server is read-only (read_only = ON)"
    );
    assert_eq!(finding.severity, Severity::Critical);
    assert!(finding.remedies.iter().any(|remedy| remedy.statement == "INSTALL SONAME 'sql_errlog'"));
    assert!(matches!(all_refused("OFF"), Outcome::NotEnoughEvidence(_)));
    let denied = without_summary("10.11.19-MariaDB").counter("Access_denied_errors", 900.0);
    let finding = found(denied).unwrap();
    assert!(finding.headline.ends_with("15 % of all: a right is missing"), "{}", finding.headline);
    // Without it nobody knows how many of them are logins.
    let logins = without_summary("10.11.19-MariaDB").counter("Access_denied_errors", 900.0);
    let logins = evaluate(&logins.words("Aborted_connects", "").window());
    assert!(!matches!(logins, Outcome::Fired(_)), "{logins:?}");
}

#[test]
fn commands_that_are_in_no_question_or_in_two_counters_hide_and_invent_nothing() {
    let prepared = |executed: f64| {
        without_summary("10.11.19-MariaDB")
            .counter("Questions", 5000.0)
            .counter("Com_select", 4000.0)
            .counter("Com_update", 600.0)
            .counter("Com_commit", 400.0 - 0.2)
            .counter("Com_stmt_execute", executed)
            .counter("Com_stmt_prepare", executed)
            .counter("Com_stmt_close", executed)
            .window()
    };
    assert_eq!(uncounted(&prepared(4000.0)), uncounted(&prepared(0.0)));
    assert!(uncounted(&prepared(0.0)).unwrap() <= 2.0, "{:?}", uncounted(&prepared(0.0)));
}

#[test]
fn errors_that_are_in_no_list_are_counted_and_named_by_a_tmpdir_without_room() {
    // Error 3, EE_WRITE: of 6,000 statements 4,700 fail, and the list has 50 of them.
    let of_files = || Build::busy("9.7.4").errors(4700.0, &[(1064, "ER_PARSE_ERROR", 50.0)]);
    let unknown = found(of_files()).unwrap();
    assert_eq!(unknown.severity, Severity::Warning);
    assert!(unknown.headline.ends_with("this server does not count which errors"), "{}", unknown.headline);
    let free = |bytes| {
        let build = of_files().variable("tmpdir", "/tmp").each(move |at_s, _, host| {
            let data = DataDirectory { temporary_free_bytes: Some(bytes), ..DataDirectory::default() };
            host.data_directory = answer(at_s, data);
        });
        found(build).unwrap()
    };
    assert_eq!(free(1 << 30).headline, unknown.headline);
    let full = free(1 << 20);
    assert!(
        full.headline.ends_with("temporary files find no room, 1 MiB free in tmpdir"),
        "{}",
        full.headline
    );
    assert_eq!(full.severity, Severity::Critical);
    assert!(full.remedies[0].statement.contains("(/tmp)"), "{:?}", full.remedies);
    // The two lists are read one after the other: a little more or less is nothing.
    assert_eq!(found(failing(1062, 60.0)), None);
}

#[test]
fn an_insert_that_never_succeeds_is_a_warning_and_one_that_an_update_follows_is_a_note() {
    let insert = "INSERT INTO `ai` ( `b` ) VALUES (?)";
    let never = found(failing(1062, 2900.0).failing_digest(insert, 2900.0)).unwrap();
    assert_eq!(never.severity, Severity::Warning);
    assert!(never.why.starts_with("The statement that inserts into ai fails every time"), "{}", never.why);
    let first = &never.remedies[0].statement;
    assert!(first.contains("sys.schema_auto_increment_columns"), "{first}");
    let update = "UPDATE `ai` SET `b` = `b` + ? WHERE `id` = ?";
    let upsert = failing(1062, 2900.0).digest(update, 2900.0, 40.0, 1.0, 0.0).failing_digest(insert, 2900.0);
    assert_eq!(severity(upsert), Some(Severity::Note));
    let some_pass = failing(1062, 2900.0)
        .digest("INSERT INTO `ai` VALUES (...)", 5.0, 40.0, 1.0, 0.0)
        .failing_digest(insert, 2900.0);
    assert_eq!(severity(some_pass), Some(Severity::Note));
}

#[test]
fn a_server_that_was_started_to_save_its_data_says_what_refuses_the_writes() {
    // Each write raises both.
    let numbers = &[(1836, "ER_READ_ONLY_MODE", 3000.0), (1036, "ER_OPEN_AS_READONLY", 3000.0)];
    let build = || Build::busy("9.7.4").errors(3000.0, numbers);
    let refused = found(build().variable("innodb_force_recovery", "4")).unwrap();
    assert!(refused.headline.contains("with error 1836, 50 % of all"), "{}", refused.headline);
    assert!(refused.headline.ends_with(": innodb_force_recovery = 4 refuses writes"), "{}", refused.headline);
    assert!(
        refused.remedies[0].statement.starts_with("Without innodb_force_recovery"),
        "{:?}",
        refused.remedies
    );
    let text = format!("{:?}{}", refused.remedies, refused.why);
    assert!(!text.contains("primary"), "{text}");
    let option = found(failing(1836, 3000.0).variable("innodb_force_recovery", "0")).unwrap();
    assert!(option.headline.ends_with("an option or a read-only transaction prevents them"));
}

#[test]
fn a_time_limit_of_selects_is_no_kill() {
    let late = found(failing(3024, 3000.0)).unwrap();
    assert!(late.headline.ends_with(": max_execution_time ends them"), "{}", late.headline);
    assert!(!format!("{:?}", late.remedies).contains("KILL"), "{:?}", late.remedies);
    let killed = found(failing(1317, 3000.0)).unwrap();
    assert!(killed.headline.ends_with(": a time limit or a KILL ends them"), "{}", killed.headline);
}

#[test]
fn clients_that_poll_with_nowait_are_a_warning_with_the_pause_that_ends_it() {
    let poll = "SELECT `id` FROM `jobs` WHERE `id` = ? FOR UPDATE NOWAIT";
    let storm = |per_s| failing(3572, per_s).failing_digest(poll, per_s);
    let finding = found(storm(900.0)).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        finding.headline,
        "900 statements a second fail with error 3572, 15 % of all: clients poll for locked rows with NOWAIT"
    );
    assert!(finding.why.contains("in a loop without a pause"), "{}", finding.why);
    assert!(finding.remedies[0].statement.contains("a pause after each poll"), "{:?}", finding.remedies);
    assert_eq!(severity(failing(3572, 900.0)), Some(Severity::Note), "by whichever statements");
    assert_eq!(severity(storm(90.0)), None);
}

#[test]
fn an_error_with_a_clear_cure_has_it_as_its_first_remedy() {
    let first = |number| found(failing(number, 900.0)).unwrap().remedies[0].statement.clone();
    for (number, words) in [
        (1820, "IDENTIFIED BY"),
        (1526, "ADD PARTITION"),
        (1449, "CREATE USER for the definer"),
        (1356, "SHOW CREATE VIEW"),
        (1418, "log_bin_trust_function_creators"),
        (1792, "READ WRITE"),
        (1290, "which option the message names"),
        (1406, "with a greater length"),
        (1195, "REPAIR TABLE"),
        (1932, "IMPORT TABLESPACE"),
    ] {
        assert!(first(number).contains(words), "{number}: {}", first(number));
    }
    assert!(
        found(failing(1820, 900.0))
            .unwrap()
            .headline
            .ends_with("the account's password has expired (ER_SOMETHING)")
    );
    // What a variable says goes before what the number says.
    assert!(found(read_only(4000.0)).unwrap().remedies[0].statement.starts_with("Find out who"));
    assert!(first(1146).starts_with("SELECT t.PROCESSLIST_USER"), "the message says which table");
}

#[test]
fn statements_that_fail_at_the_limit_of_open_files_say_so() {
    let at = |build: Build| found(build.open_files(1_024, 1_024, Some(90))).unwrap();
    let numbered = at(failing(1016, 900.0));
    assert!(
        numbered.headline.ends_with("the server is at its limit of open files, 1024 of 1024 files are open"),
        "{}",
        numbered.headline
    );
    assert!(numbered.remedies[0].statement.starts_with("prlimit"), "{:?}", numbered.remedies);
    let uncounted = at(Build::busy("9.7.4").errors(4700.0, &[(1064, "ER_PARSE_ERROR", 50.0)]));
    assert!(uncounted.headline.contains("limit of open files"), "{}", uncounted.headline);
    assert_eq!(uncounted.severity, Severity::Critical);
    assert!(!found(failing(1016, 900.0)).unwrap().headline.contains("open files"));
}

/// The server refuses the packet before it is a statement: of all statements that it counts none fails.
#[test]
fn packets_that_are_too_large_are_named_with_the_limit_and_the_connections_that_end() {
    let of = |too_large_per_s: f64, limit: &str| {
        Build::busy("9.7.4")
            .variable("max_allowed_packet", limit)
            .counter("Connections", 17.0)
            .counter("Aborted_clients", 15.0)
            .counter("Questions", 100.0)
            .errors(0.0, &[(1153, "ER_NET_PACKET_TOO_LARGE", too_large_per_s)])
            .statements(100.0)
    };
    let finding = found(of(15.0, "1048576")).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(
        finding.headline,
        "15 statements a second fail with error 1153, 15 % of all: a statement or value is larger than max_allowed_packet \
         (ER_NET_PACKET_TOO_LARGE)"
    );
    let why = &finding.why;
    assert!(
        why.contains("15 connections a second end without a goodbye (Aborted_clients), of 17 made"),
        "{why}"
    );
    assert!(why.contains("1.00 MiB") || why.contains("1 MiB"), "{why}");
    assert_eq!(finding.remedies[0].statement, "SET GLOBAL max_allowed_packet = 67108864");
    assert_eq!(finding.remedies[0].undo, "SET GLOBAL max_allowed_packet = 1048576");
    assert!(finding.remedies.iter().any(|remedy| remedy.statement.contains("by_account_by_error")));
    assert_eq!(finding.explains, ["connection-churn"]);
    // All that its clients send is too large: who sends less is served.
    assert_eq!(severity(of(90.0, "1048576")), Some(Severity::Warning));
    let large = found(of(15.0, "134217728")).unwrap();
    assert_eq!(large.remedies[0].statement, "SET GLOBAL max_allowed_packet = 536870912");
    // There is no more than that.
    let most = found(of(15.0, "1073741824")).unwrap();
    assert!(!most.remedies.iter().any(|remedy| remedy.statement.starts_with("SET GLOBAL")), "{most:?}");
    assert_eq!(severity(of(0.5, "1048576")), None);
}
