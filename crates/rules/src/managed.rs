//! Remedies as they are written where Amazon runs the server (RDS, Aurora): accounts there have no right to KILL the sessions of others,
//! nor to SET GLOBAL; procedures and the parameter group take their place.

use spindoctor_model::wait_graph::WaitRoot;
use spindoctor_model::{Finding, Flavor, Remedy, ServerSample, ServerVersion, Window};

use crate::causes::disk_full::FREES_SPACE;
use crate::killing;

/// Where Amazon's servers have their programs.
const BASEDIR: &str = "/rdsdbbin";

/// The account of Amazon's own that watches each of its servers: the list of threads always has it.
const ACCOUNT: &str = "rdsadmin";

/// The source of what its events say.
pub const EVENTS_OF_RDS: &str = "events of RDS";

/// How a statement begins that sets variables.
const SET_GLOBAL: &str = "SET GLOBAL ";

/// True for a server of Amazon RDS or Aurora, by its version, its variables or its accounts.
pub(crate) fn is_of_amazon(version: Option<ServerVersion>, server: &ServerSample) -> bool {
    let variables = server.variables.value();
    let variable = |name| variables.and_then(|variables| variables.text(name));
    let mut threads = server.threads.value().into_iter().flatten();
    version.is_some_and(|version| version.flavor == Flavor::Aurora)
        || variable("aurora_version").is_some()
        || variable("basedir").is_some_and(|folder| folder.starts_with(BASEDIR))
        || threads.any(|thread| thread.user == ACCOUNT)
}

/// The same of a window's server.
fn is_amazon(window: &Window) -> bool {
    let version = window.server.version;
    version.is_some_and(|version| version.flavor == Flavor::Aurora)
        || window.samples.iter().any(|sample| is_of_amazon(version, &sample.server))
}

/// True where Amazon itself says something of the server.
fn has_events(window: &Window) -> bool {
    window.error_log.iter().any(|trouble| trouble.source == EVENTS_OF_RDS)
}

/// Writes the remedies of findings as the window's server takes them.
pub(crate) fn adapt(window: &Window, findings: &mut [Finding]) {
    if is_amazon(window) || has_events(window) {
        findings.iter_mut().flat_map(|finding| &mut finding.remedies).for_each(adapted);
    }
}

/// Writes what ends a session or its statement as Amazon's servers take it.
pub(crate) fn adapt_roots(roots: &mut [WaitRoot]) {
    for statement in roots.iter_mut().filter_map(|root| root.free_with.as_mut()) {
        *statement = with_calls(statement);
    }
}

/// A statement that ends a session (`KILL 12`) or its statement (`KILL QUERY 12`) as the window's server takes it.
pub fn ending_for(window: &Window, statement: &str) -> String {
    match is_amazon(window) {
        true => with_calls(statement),
        false => statement.to_owned(),
    }
}

fn adapted(remedy: &mut Remedy) {
    if remedy.statement.starts_with(FREES_SPACE) {
        larger_storage(remedy);
    }
    remedy.statement = with_replication(&with_calls(&remedy.statement));
    remedy.undo = with_replication(&remedy.undo);
    match in_group(&remedy.statement) {
        Some(statement) => {
            remedy.statement = statement;
            remedy.risk = beside(&remedy.risk, "The group may be that of other servers, too.");
        }
        None if COUNTERS.iter().any(|counter| remedy.statement.contains(counter)) => {
            let note = "Amazon RDS refuses SET GLOBAL: of a channel with a name, procedures of the schema mysql skip an error, stop and \
                        start, and no parameter does.";
            remedy.risk = beside(&remedy.risk, note);
        }
        None if remedy.statement.contains(SET_GLOBAL) => {
            let note = "Amazon RDS refuses SET GLOBAL: set the variable in the DB parameter group instead.";
            remedy.risk = beside(&remedy.risk, note);
        }
        None => {}
    }
    if let Some(undo) = in_group(&remedy.undo) {
        remedy.undo = undo;
    }
    if let Some(statement) = without_option_file(&remedy.statement) {
        remedy.statement = statement;
        remedy.risk = beside(&remedy.risk, "The group may be that of other servers, too.");
    }
    for text in [&mut remedy.why, &mut remedy.undo] {
        if let Some(adapted) = without_option_file(text) {
            *text = adapted;
        }
    }
}

/// Nobody but Amazon reaches the files there: the storage is made larger, which needs no restart and cannot be undone (Amazon RDS User
/// Guide, Increasing DB instance storage capacity). That of Aurora grows by itself.
fn larger_storage(remedy: &mut Remedy) {
    remedy.statement = "aws rds modify-db-instance --db-instance-identifier NAME --allocated-storage GIBIBYTES --apply-immediately, with at \
                        least a tenth more than it has; --max-allocated-storage lets it grow by itself"
        .into();
    remedy.risk = "It costs more, cannot be made smaller, and cannot be changed again for some hours. Of Aurora, whose volume grows by itself, \
                   temporary files fill the local storage: a larger instance class has more."
        .into();
}

/// The variables that leave out what an applier has next: no parameter group has them.
const COUNTERS: [&str; 2] = ["sql_replica_skip_counter", "sql_slave_skip_counter"];

/// What starts and stops replication, and leaves out one error, as calls of Amazon's procedures (Amazon RDS User Guide,
/// `mysql-stored-proc-replicating`). A text with a channel's name is left as it is: these are of the one without.
fn with_replication(text: &str) -> String {
    const START: &str = "CALL mysql.rds_start_replication";
    const STOP: &str = "CALL mysql.rds_stop_replication";
    /// What stands behind a START where the version is not known.
    const OLDER: &str = " (START SLAVE before MySQL 8.0.22 and on MariaDB)";
    if text.contains(" FOR CHANNEL ") || text.contains("SLAVE '") {
        return text.to_owned();
    }
    let mut written = text.replace(OLDER, "");
    for noun in ["REPLICA", "SLAVE"] {
        // The procedures know no threads apart.
        for thread in [" SQL_THREAD", " IO_THREAD", ""] {
            written = written.replace(&format!("START {noun}{thread}"), START);
            written = written.replace(&format!("STOP {noun}{thread}"), STOP);
        }
    }
    for counter in COUNTERS {
        let skips = format!("{SET_GLOBAL}{counter} = 1; {START}");
        written = written.replace(&skips, "CALL mysql.rds_skip_repl_error");
    }
    written
}

/// The parameter group takes the place of the option file, which nobody but Amazon reaches. None where a text names no option file.
fn without_option_file(text: &str) -> Option<String> {
    const FILES: [&str; 3] = ["the option files", "the option file", "its option file"];
    let adapted =
        FILES.iter().fold(text.to_owned(), |text, file| text.replace(file, "the DB parameter group"));
    (adapted != text).then(|| adapted.replace(", and a restart", ", and a reboot of the DB instance"))
}

/// A text with another behind it.
pub(crate) fn beside(text: &str, more: &str) -> String {
    if text.is_empty() { more.to_owned() } else { format!("{text} {more}") }
}

/// Of `SET GLOBAL a = 1, b = 2` the same for the parameter group. None where that is not all of a text.
fn in_group(text: &str) -> Option<String> {
    let assignments: Vec<&str> = text
        .strip_prefix(SET_GLOBAL)?
        .split(", ")
        .map(|each| each.trim_start_matches(SET_GLOBAL).trim_start_matches("GLOBAL "))
        .collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let is_plain = |assignment: &&str| {
        assignment.split_once(" = ").is_some_and(|(name, value)| {
            name.chars().all(is_name) && !value.is_empty() && !value.contains(char::is_whitespace)
        })
    };
    assignments.iter().all(is_plain).then(|| {
        format!("{} in the DB parameter group (Amazon RDS refuses SET GLOBAL)", assignments.join(", "))
    })
}

/// `KILL 7` and `KILL QUERY 7`, wherever they stand in a text, and what prints such for each session of a list, as calls of Amazon's
/// procedures.
fn with_calls(text: &str) -> String {
    const CALL_EACH: &str = "CONCAT('CALL mysql.rds_kill(', ID, ');')";
    let mut written = String::with_capacity(text.len());
    let mut done = 0;
    for kill in killing::kills(text) {
        let procedure = if kill.is_of_query { "rds_kill_query" } else { "rds_kill" };
        written.push_str(&text[done..kill.at.start]);
        written.push_str(&format!("CALL mysql.{procedure}({})", kill.connection_id));
        done = kill.at.end;
    }
    written.push_str(&text[done..]);
    written.replace(killing::KILL_EACH, CALL_EACH)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::ServerThread;
    use spindoctor_model::{LoggedTrouble, Reading, TroubleKind};

    use super::*;
    use crate::causes::{purge_lag, row_lock_pileup};
    use crate::testing::{Build, session};

    #[test]
    fn a_kill_with_its_number_is_a_call_and_the_word_alone_is_not() {
        for (text, wanted) in [
            ("KILL 7", "CALL mysql.rds_kill(7)"),
            ("KILL QUERY 7", "CALL mysql.rds_kill_query(7)"),
            ("KILL 7; KILL 8, and stop", "CALL mysql.rds_kill(7); CALL mysql.rds_kill(8), and stop"),
            (
                "KILL of the holder; KILL QUERY NUMBER; SKILL 7",
                "KILL of the holder; KILL QUERY NUMBER; SKILL 7",
            ),
            ("kill -CONT 7; KILL ", "kill -CONT 7; KILL "),
            (
                "SELECT CONCAT('KILL ', ID, ';') FROM information_schema.PROCESSLIST",
                "SELECT CONCAT('CALL mysql.rds_kill(', ID, ');') FROM information_schema.PROCESSLIST",
            ),
        ] {
            assert_eq!(with_calls(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_sets_variables_and_nothing_else_is_of_the_parameter_group() {
        let of = "in the DB parameter group (Amazon RDS refuses SET GLOBAL)";
        for (text, wanted) in [
            ("SET GLOBAL a = 1", Some(format!("a = 1 {of}"))),
            ("SET GLOBAL a = 1, GLOBAL b = 2", Some(format!("a = 1, b = 2 {of}"))),
            ("SET GLOBAL a = 1, SET GLOBAL b = OFF", Some(format!("a = 1, b = OFF {of}"))),
            ("SET GLOBAL a = 1, in a session that is open already", None),
            ("SET GLOBAL a to what it was", None),
            ("SET SESSION a = 1", None),
        ] {
            assert_eq!(in_group(text), wanted, "{text}");
        }
    }

    #[test]
    fn replication_is_started_and_stopped_and_skips_by_calls() {
        let adapted = |statement: &str| {
            let mut remedy = Remedy { statement: statement.into(), ..Remedy::default() };
            super::adapted(&mut remedy);
            (remedy.statement, remedy.risk)
        };
        for (text, wanted) in [
            (
                "Only where it is so: SET GLOBAL sql_slave_skip_counter = 1; START REPLICA SQL_THREAD",
                "Only where it is so: CALL mysql.rds_skip_repl_error",
            ),
            (
                "SET GLOBAL sql_slave_skip_counter = 1; START SLAVE SQL_THREAD (START SLAVE before MySQL 8.0.22 and on MariaDB)",
                "CALL mysql.rds_skip_repl_error",
            ),
            ("Mend it, then START REPLICA SQL_THREAD", "Mend it, then CALL mysql.rds_start_replication"),
            ("STOP SLAVE; START SLAVE", "CALL mysql.rds_stop_replication; CALL mysql.rds_start_replication"),
            ("SHOW REPLICA STATUS", "SHOW REPLICA STATUS"),
        ] {
            assert_eq!(adapted(text), (wanted.to_owned(), String::new()), "{text}");
        }
        let of_channel =
            "SET GLOBAL sql_replica_skip_counter = 1; START REPLICA SQL_THREAD FOR CHANNEL 'sales'";
        let (statement, risk) = adapted(of_channel);
        assert_eq!(statement, of_channel);
        let mut stopped = Remedy {
            statement: "STOP REPLICA SQL_THREAD".into(),
            undo: "START REPLICA SQL_THREAD".into(),
            ..Remedy::default()
        };
        super::adapted(&mut stopped);
        assert_eq!(stopped.undo, "CALL mysql.rds_start_replication");
        assert!(risk.contains("no parameter does"), "{risk}");
    }

    #[test]
    fn the_storage_of_an_instance_is_made_larger_and_no_file_is_moved() {
        let window = |source: &str| Window {
            error_log: vec![LoggedTrouble {
                kind: TroubleKind::DiskFull,
                times: 1,
                line: "The storage of the RDS instance is used up".to_owned(),
                source: source.to_owned(),
                ..LoggedTrouble::default()
            }],
            ..Window::default()
        };
        let statement = |source: &str| {
            let finding = crate::diagnose(&window(source)).findings.remove(0);
            assert_eq!(finding.cause, "disk-full");
            finding.remedies[0].statement.clone()
        };
        let larger = statement(EVENTS_OF_RDS);
        assert!(larger.contains("modify-db-instance") && larger.contains("--allocated-storage"), "{larger}");
        assert!(!larger.contains("backups"), "{larger}");
        assert!(statement("df").starts_with(FREES_SPACE));
    }

    #[test]
    fn the_parameter_group_takes_the_place_of_the_option_file() {
        let remedy = |statement: &str, undo: &str| {
            let mut remedy = Remedy { statement: statement.into(), undo: undo.into(), ..Remedy::default() };
            adapted(&mut remedy);
            remedy
        };
        let setting =
            remedy("a = 1 in the option file, and a restart", "a = 0 in the option file, and a restart");
        assert_eq!(setting.statement, "a = 1 in the DB parameter group, and a reboot of the DB instance");
        assert_eq!(setting.undo, "a = 0 in the DB parameter group, and a reboot of the DB instance");
        assert_eq!(setting.risk, "The group may be that of other servers, too.");
        let other = remedy("Look at df, and a restart", "");
        assert_eq!((other.statement.as_str(), other.risk.as_str()), ("Look at df, and a restart", ""));
    }

    #[test]
    fn a_server_is_amazon_s_by_its_account_in_the_list_of_threads_alone() {
        let with = |user: &str| {
            let user = user.to_owned();
            let sessions = move |_| vec![ServerThread { user: user.clone(), ..session(3, "Sleep", "", "") }];
            ending_for(&Build::busy("8.0.36").sessions(sessions).window(), "KILL QUERY 7")
        };
        assert_eq!(with("rdsadmin"), "CALL mysql.rds_kill_query(7)");
        assert_eq!(with("rdsadmins"), "KILL QUERY 7");
    }

    #[test]
    fn amazons_servers_get_remedies_that_they_take_and_others_their_own() {
        let statements = |mut window: Window, name: &str, value: &str| -> Vec<String> {
            for sample in &mut window.samples {
                if let Reading::Available { value: variables, .. } = &mut sample.server.variables {
                    variables.insert(name, value);
                }
            }
            let findings = crate::diagnose(&window).findings;
            findings.into_iter().flat_map(|found| found.remedies).map(|remedy| remedy.statement).collect()
        };
        let queue = row_lock_pileup::CAUSE.examples.fires;
        let begins = |all: &[String], with: &str| all.iter().any(|one| one.starts_with(with));
        for (name, value) in [("basedir", "/rdsdbbin/mysql-8.0.36.R1/"), ("aurora_version", "3.05.2")] {
            let all = statements(queue(), name, value);
            assert!(!begins(&all, "KILL ") && begins(&all, "CALL mysql.rds_kill("), "{name}: {all:#?}");
        }
        let all = statements(queue(), "basedir", "/usr/");
        assert!(begins(&all, "KILL "), "{all:#?}");
        let delayed = purge_lag::CAUSE.examples.fires;
        let all = statements(delayed(), "basedir", "/rdsdbbin/mysql-8.0.36.R1/");
        assert!(begins(&all, "innodb_max_purge_lag = 0 in the DB parameter group"), "{all:#?}");
    }
}
