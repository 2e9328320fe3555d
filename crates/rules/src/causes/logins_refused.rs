//! `logins-refused`: the server refuses logins for another reason than max_connections.

mod error_log;
mod named;

use std::collections::BTreeMap;

use spindoctor_model::mysql::AccountSummary;
use spindoctor_model::number::{counted, whole};
use spindoctor_model::{Evidence, Finding, Remedy, ServerVersion, Unavailable, Window};

use super::connection_churn;
use crate::connections::{self, AccountRate};
use crate::draft::Draft;
use crate::rank::{CRITICAL_FROM, NOTE};
use crate::sessions::{Waiting, mean};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use named::Named;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "logins-refused",
    title: "the server refuses logins for another reason than max_connections",
    what: "A login ends with an error before the client can send a statement: the account has as many connections as it may have \
           (max_user_connections, error 1226 or 1203), the password or the account is wrong (1045), the database is not there or \
           not for this account (1049, 1044), the server blocks the client's host after max_connect_errors broken handshakes (1129), or \
           takes no logins of that kind: offline_mode (3032), require_secure_transport (3159), a locked account (3118, 4151) or one that \
           is blocked after wrong passwords (3955, 4150). The server has room, and does well; for these clients it is down.",
    why_it_hurts: "Clients get no work done and try again, most of them at once. Pools that are open already go on, so that half of an \
                   application works and half does not. Each refused login costs what a login costs.",
    evidence: "Growth of Aborted_connects (less Connection_errors_max_connections, which counts in it: all of them on MariaDB, some on MySQL) against growth of \
               Connections. It fires from one a second and ten in the window on. Below ten a second it is a note, unless \
               it is known that they were logins: a load balancer's check that opens the port and closes it counts, too. Known by: \
               an account that connects at that rate without statements (performance_schema.accounts, MySQL 8.0), growth of \
               Access_denied_errors, or Aborted_connects_preauth that does not grow (MariaDB 10.4). An account at its limit is one \
               that connects so and has connections open, or has as many as max_user_connections in the list of threads. The \
               estimate is the share of logins that were refused; where it is not known that clients of this server are \
               kept out, and it has others at work, it is a warning at most. Of errors that clients print: 1129, 1135, 1203 and \
               1226; of an error log that no thread could be made.",
    looks_alike: "Every permitted connection taken (error 1040) is connections-exhausted. Logins that nobody accepts hang: \
                  accept-bottleneck. A scanner that tries passwords looks like an application with a wrong one: look from where it \
                  comes.",
    remedies: "At its limit: find what holds the account's connections, shrink the pools, or raise the limit (ALTER USER ... WITH \
               MAX_USER_CONNECTIONS, SET GLOBAL max_user_connections). Wrong password or account: the error log names them from \
               log_error_verbosity = 3 (MySQL) or log_warnings = 2 (MariaDB) on. Blocked host: FLUSH HOSTS, or TRUNCATE TABLE \
               performance_schema.host_cache, and a larger max_connect_errors.",
    safety: "The limits are dynamic and take effect for the next login; more connections take memory and may reach max_connections. \
             FLUSH HOSTS forgets the names of all hosts, which are looked up again. The two settings of the log make it longer: one \
             line for each refused login.",
    references: &[
        "MySQL Reference Manual: Communication Errors and Aborted Connections; Setting Account Resource Limits; Host Cache",
        "MariaDB Knowledge Base: Aborted_connects, Access_denied_errors, max_user_connections",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Nothing,
    rule: Rule::ReadingsOrCapture(evaluate, error_log::of_log),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Refused logins a second: below that it is somebody who mistypes, or a job that is forgotten.
const LEAST_PER_S: f64 = 1.0;

/// And in the window: fewer are chance.
const LEAST: f64 = 10.0;

/// Of which it is not known whether they were logins. Health checks of load balancers open the port and close it, each every second
/// or two, and a server has a handful of them.
const SURE_PER_S: f64 = connection_churn::CONNECTIONS_PER_S;

/// Part of them that must show a reason, before all are said to have it. Chosen.
const MOST_OF_THEM: f64 = 0.5;

/// Statements for each connection, below which an account's connections were refused, or left without a word.
const SILENT_EACH: f64 = 0.5;

/// Sessions at work on average, from which on the server serves others.
const SERVES: f64 = 0.5;

/// An account has reached its limit, or the one for all accounts (ER_USER_LIMIT_REACHED, ER_TOO_MANY_USER_CONNECTIONS).
const LIMIT_NUMBERS: [u32; 2] = [1226, 1203];

/// A wrong password, account or database (ER_ACCESS_DENIED_ERROR, its variant without a password, ER_DBACCESS_DENIED_ERROR).
const DENIED_NUMBERS: [u32; 3] = [1045, 1698, 1044];

/// Why they were refused, as far as it shows.
enum Reason {
    /// An error's number or a variable says it.
    Named(Named),
    /// This account has so many connections open, and gets no more.
    AtLimit(String, u64),
    /// The numbers say that an account has as many as it may have; this one most likely, with so many: it is inferred.
    Limit(Option<(String, u64)>),
    /// The server denied access.
    Denied,
    /// They came as far as a login, and no further.
    Login,
    Unknown,
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let aborted = window.need_growth("Aborted_connects")?;
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let is_mariadb = window.server.version.is_some_and(ServerVersion::is_mariadb);
    // A list that somebody gave may leave it out; MySQL 5.5 has none.
    let full = match window.need_growth("Connection_errors_max_connections") {
        Err(missing) if is_mariadb && window.is_given() => return Err(missing),
        full => full.unwrap_or(0.0),
    };
    // MariaDB counts whom a full server refuses here, too; MySQL those of them that got the place that is kept for administrators
    // (valid_connection_count in sql/conn_handler/connection_handler_manager.cc).
    let refused = (aborted - full).max(0.0);
    let per_s = refused / seconds;
    if per_s < LEAST_PER_S || refused < LEAST {
        return Ok(None);
    }
    // spindoctor's own login, and each that ended before it had a session of its own, counts as an attempt.
    let attempts = (window.need_growth("Connections")? - 1.0).max(refused);
    let share = refused / attempts.max(1.0);
    let reason = reason(window, per_s, refused);
    let is_sure = per_s >= SURE_PER_S || !matches!(reason, Reason::Unknown);
    let serves_others = Waiting::count(window, |_| true).is_ok_and(|all| all.at_work_mean >= SERVES);
    let score = match reason {
        _ if !is_sure => NOTE.min(share),
        Reason::AtLimit(..) | Reason::Limit(_) => share,
        _ if serves_others => share.min(CRITICAL_FROM - 0.01),
        _ => share,
    };
    let why = match &reason {
        Reason::AtLimit(account, open) => format!(
            "{account} has {} open, and each further login ends with error 1226 or 1203: its limit (max_user_connections) is reached. \
             The server has room for others.",
            counted(*open, "connection", "connections")
        ),
        Reason::Limit(likely) => {
            let who = likely.as_ref().map_or_else(String::new, |(account, open)| {
                format!(
                    " {account} has {} open, and is the only one with more than one of which no login was let in meanwhile: it is most \
                     likely the one.",
                    counted(*open, "connection", "connections")
                )
            });
            format!(
                "Clients see error 1226 or 1203: the limit of an account is reached (MAX_USER_CONNECTIONS, or one of those by the hour).{who} \
                 The server has room for others."
            )
        }
        Reason::Denied => {
            "The server denied access: a wrong password or account (error 1045), or a database that is not for this account (1044)."
                .to_owned()
        }
        Reason::Named(named) => named.why().to_owned(),
        Reason::Login => format!(
            "They came as far as a login, and no further: clients see the reason as error {}.",
            numbers(window, &["1226", "1203", "1045", "1044", "1049", "1129"])
        ),
        Reason::Unknown => format!(
            "The server does not count the reasons: clients see it as error {}. What opens the port and closes it counts, too, as load \
             balancers do to see whether the server is there.",
            numbers(window, &["1226", "1203", "1045", "1129"])
        ),
    };
    let headline = format!(
        "{per_s:.1} logins a second are refused, {:.0} % of all{}",
        share * 100.0,
        match &reason {
            Reason::AtLimit(account, _) => format!(": {account} has as many connections as it may have"),
            Reason::Limit(Some((account, _))) => {
                format!(": {account} has, most likely, as many connections as it may have")
            }
            Reason::Limit(None) => ": an account has as many connections as it may have".to_owned(),
            Reason::Named(named) => format!(": {}", named.headline()),
            Reason::Denied => ": access denied".to_owned(),
            Reason::Login | Reason::Unknown => String::new(),
        }
    );
    Ok(Some(
        Draft::new(&CAUSE, score, headline)
            .why(why)
            .evidence(
                Evidence::new("refused logins", per_s, "1/s", "SHOW GLOBAL STATUS Aborted_connects")
                    .expected(format!("< {LEAST_PER_S:.0}"))
                    .series(window.status_rate_series("Aborted_connects")),
            )
            .evidence(
                Evidence::new("share of all logins", share, "ratio", "SHOW GLOBAL STATUS Connections")
                    .expected("0"),
            )
            .evidence_if(
                who_connects(window)
                    .map(|who| Evidence::new("who connects", who, "", "connections by account")),
            )
            .evidence_if(window.variable_number("max_user_connections").filter(|most| *most > 0.0).map(
                |most| Evidence::new("max_user_connections", most, "connections", "SHOW GLOBAL VARIABLES"),
            ))
            .remedies(remedies(window, &reason, is_mariadb))
            .explains(&[connection_churn::CAUSE.name])
            .finding(),
    ))
}

/// The accounts that connect and send next to nothing, each with its rate.
fn silent(window: &Window) -> Vec<AccountRate> {
    let all = connections::accounts(window).unwrap_or_default();
    all.into_iter().filter(|one| one.statements_each.is_some_and(|each| each < SILENT_EACH)).collect()
}

fn who_connects(window: &Window) -> Option<String> {
    let most = connections::accounts(window).ok()?.into_iter().next()?;
    Some(format!("{} {:.1} /s", name(&most.user, &most.host), most.per_s))
}

fn name(user: &str, host: &str) -> String {
    if host.is_empty() { user.to_owned() } else { format!("{user}@{host}") }
}

/// `1226, 1203 or 1045`: what clients may see, with what this server's variables add.
fn numbers(window: &Window, always: &[&'static str]) -> String {
    let mut all = always.to_vec();
    all.extend(named::others(window));
    let last = all.pop().unwrap_or_default();
    format!("{} or {last}", all.join(", "))
}

fn reason(window: &Window, per_s: f64, refused: f64) -> Reason {
    let by_number = Named::by_number(window, MOST_OF_THEM * refused);
    if let Some(named) = by_number.or_else(|| Named::by_variable(window)) {
        return Reason::Named(named);
    }
    let of_accounts = silent(window).into_iter().find(|one| one.per_s >= MOST_OF_THEM * per_s);
    if let Some(one) = of_accounts.as_ref().filter(|one| one.open > 0) {
        return Reason::AtLimit(name(&one.user, &one.host), one.open);
    }
    // The limit that holds for every account without one of its own.
    let limit = window.variable_number("max_user_connections").filter(|most| *most > 0.0);
    if let Some((user, open)) = limit.and_then(|limit| busiest(window).filter(|(_, open)| *open >= limit)) {
        return Reason::AtLimit(user, open.round() as u64);
    }
    let least = MOST_OF_THEM * refused;
    if named::is_raised(window, &LIMIT_NUMBERS, least) {
        return Reason::Limit(kept_out(window));
    }
    let denied = window.status_growth("Access_denied_errors").unwrap_or(0.0);
    if denied >= least || named::is_raised(window, &DENIED_NUMBERS, least) {
        return Reason::Denied;
    }
    let before_login = window.status_growth("Aborted_connects_preauth");
    if of_accounts.is_some() || before_login.is_some_and(|before| refused - before >= MOST_OF_THEM * refused)
    {
        return Reason::Login;
    }
    Reason::Unknown
}

/// The account of which no login was let in, and how many connections it has, where it alone of those that have several, as pools
/// have, got no more: a pool that is well stays as it is, too.
fn kept_out(window: &Window) -> Option<(String, u64)> {
    let change = window.change(|s| &s.server.accounts)?;
    let is_kept_out = |now: &&AccountSummary| {
        let before = change.first.iter().find(|one| (&one.user, &one.host) == (&now.user, &now.host));
        now.current > 1 && before.is_some_and(|before| before.total == now.total)
    };
    let mut all = change.last.iter().filter(is_kept_out);
    let one = all.next().filter(|_| all.next().is_none())?;
    Some((name(&one.user, &one.host), one.current))
}

/// The user with the most connections, and how many it has on average.
fn busiest(window: &Window) -> Option<(String, f64)> {
    let lists = window.all(|s| &s.server.threads);
    let mut counts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (at, (_, threads)) in lists.iter().enumerate() {
        for thread in threads.iter().filter(|thread| thread.is_connection && !thread.user.is_empty()) {
            counts.entry(&thread.user).or_insert_with(|| vec![0.0; lists.len()])[at] += 1.0;
        }
    }
    let means = counts.into_iter().map(|(user, counts)| (user.to_owned(), mean(counts.into_iter())));
    means.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn remedies(window: &Window, reason: &Reason, is_mariadb: bool) -> Vec<Remedy> {
    let verbose = if is_mariadb { ("log_warnings", 2) } else { ("log_error_verbosity", 3) };
    let is_verbose = window.variable_number(verbose.0).is_some_and(|now| now >= f64::from(verbose.1));
    let look = Remedy {
        statement: match is_verbose {
            true => format!("Read the error log: {} is high enough for refused logins", verbose.0),
            false => format!("SET GLOBAL {} = {}, and read the error log", verbose.0, verbose.1),
        },
        why: "It has a line for each refused login, with the account and the client's host; clients see the error's number.".into(),
        dynamic: true,
        risk: "The log grows by a line for each of them.".into(),
        undo: match is_verbose {
            true => String::new(),
            false => format!("SET GLOBAL {} = {}", verbose.0, window.variable_word(verbose.0).unwrap_or("the value before")),
        },
    };
    let limit = |account: &str, open: u64| {
        let more = (2 * open).max(1);
        let is_global = window.variable_number("max_user_connections").is_some_and(|most| most > 0.0);
        let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
        let [user, host] = [user, host].map(spindoctor_sql::quoted);
        Remedy {
            statement: match is_global {
                true => format!("SET GLOBAL max_user_connections = {more}"),
                false => format!("ALTER USER {user}@{host} WITH MAX_USER_CONNECTIONS {more}"),
            },
            why: format!("The account may then have twice its {} connections: the next login is let in.", whole(open as f64)),
            dynamic: true,
            risk: "More of its statements may run at once, and all accounts together may reach max_connections. The account's host may be \
                   written otherwise where it has wildcards: SHOW GRANTS."
                .into(),
            undo: match is_global {
                true => format!(
                    "SET GLOBAL max_user_connections = {}",
                    window.variable_word("max_user_connections").unwrap_or("0")
                ),
                false => format!("ALTER USER {user}@{host} WITH MAX_USER_CONNECTIONS and the number before"),
            },
        }
    };
    match reason {
        Reason::AtLimit(account, open) => vec![limit(account, *open), shrink()],
        Reason::Limit(Some((account, open))) => {
            let raise = limit(account, *open);
            let statement = format!("If it is that one: {}", raise.statement);
            let risk = format!("A limit by the hour needs another statement. {}", raise.risk);
            vec![look_at_limits(), Remedy { statement, risk, ..raise }, shrink()]
        }
        Reason::Limit(None) => vec![look_at_limits(), shrink_of_busiest(window), look],
        Reason::Named(Named::HostBlocked) => vec![forget_hosts(window)],
        Reason::Named(named) => named.remedies(is_mariadb).into_iter().chain([look]).collect(),
        Reason::Denied => vec![look],
        Reason::Login | Reason::Unknown => vec![look, forget_hosts(window)],
    }
}

/// What shows which accounts have a limit: error 1226 is raised for those by the hour, too.
fn look_at_limits() -> Remedy {
    Remedy {
        statement: "SELECT user, host, max_user_connections, max_connections FROM mysql.user WHERE max_user_connections + \
                    max_connections > 0"
            .into(),
        why: "It lists the accounts that have a limit of their own: of connections at once, and of those made in an hour \
              (max_connections)."
            .into(),
        dynamic: true,
        risk: "It only reads.".into(),
        undo: String::new(),
    }
}

/// What gives an account's connections back.
fn shrink() -> Remedy {
    Remedy {
        statement: "Look at what holds the account's connections (SHOW PROCESSLIST); shrink its pools, or lower wait_timeout".into(),
        why: "Connections that sleep take the places of those that are refused.".into(),
        dynamic: true,
        risk: "Clients that do not connect again by themselves see a lost connection after wait_timeout.".into(),
        undo: String::new(),
    }
}

/// The same where it is not known which account is at its limit: who has the most connections is most likely one.
fn shrink_of_busiest(window: &Window) -> Remedy {
    let shrink = shrink();
    match busiest(window) {
        Some((user, open)) if open >= 1.0 => {
            let most = format!("(SHOW PROCESSLIST: {user} has the most, {})", whole(open));
            Remedy { statement: shrink.statement.replace("(SHOW PROCESSLIST)", &most), ..shrink }
        }
        _ => shrink,
    }
}

/// What lets blocked hosts in again.
fn forget_hosts(window: &Window) -> Remedy {
    let statement = match window.server.version.map(|version| version.mysql_at_least(5, 6, 0)) {
        Some(true) => "TRUNCATE TABLE performance_schema.host_cache, where clients see error 1129",
        Some(false) => "FLUSH HOSTS, where clients see error 1129",
        None => {
            "TRUNCATE TABLE performance_schema.host_cache (MariaDB, and MySQL before 5.6: FLUSH HOSTS), where clients see error 1129"
        }
    };
    Remedy {
        statement: statement.into(),
        why: "The server then forgets which hosts it had blocked for their broken handshakes.".into(),
        dynamic: true,
        risk: "A host that breaks off again and again is blocked again: raise max_connect_errors.".into(),
        undo: String::new(),
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Severity;
    use spindoctor_model::mysql::AccountSummary;

    use super::*;
    use crate::testing::{Build, answer, session};

    /// So many logins a second, all refused.
    pub(crate) fn refusing(version: &str, per_s: f64) -> Build {
        Build::busy(version)
            .counter("Aborted_connects", per_s)
            .counter("Connections", per_s + 0.2)
            .counter("Questions", 5.0)
            .sessions(|_| vec![session(20, "Sleep", "", "")])
    }

    /// The account of these, by the server's counts: so many connections open, and no statement.
    fn of_account(build: Build, per_s: f64, current: u64) -> Build {
        build.each(move |at_s, server, _| {
            let account = AccountSummary {
                user: "shop".into(),
                host: "10.0.0.7".into(),
                current,
                total: 40 + (per_s * at_s) as u64,
                statements: Some(7),
            };
            server.accounts = answer(at_s, vec![account]);
        })
    }

    pub(crate) fn fires() -> Window {
        of_account(refusing("9.7.4", 21.0), 21.0, 4).window()
    }

    /// A login in two seconds is refused.
    pub(crate) fn near_miss() -> Window {
        refusing("9.7.4", 0.5).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    pub(crate) fn found(window: &Window) -> Option<Finding> {
        match evaluate(window) {
            Outcome::Fired(finding) => Some(finding),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        }
    }

    #[test]
    fn whom_a_full_server_refused_is_known_where_somebody_gave_the_counter_of_them() {
        let given = |counted: bool| {
            let build = refusing("10.11.19-MariaDB", 21.0);
            let build = if counted { build } else { build.words("Connection_errors_max_connections", "") };
            let mut window = build.window();
            window.server.no_pid =
                Some(spindoctor_model::Unavailable::because(spindoctor_model::window::NOT_GIVEN));
            evaluate(&window)
        };
        assert!(matches!(given(true), Outcome::Fired(_)), "{:?}", given(true));
        assert!(matches!(given(false), Outcome::NotEnoughEvidence(_)), "{:?}", given(false));
    }

    #[test]
    fn an_account_at_its_limit_is_named_with_what_raises_it_and_stands_before_the_churn_that_it_is() {
        let diagnosis = crate::diagnose(&fires());
        let causes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes, [CAUSE.name, connection_churn::CAUSE.name]);
        let finding = &diagnosis.findings[0];
        assert_eq!(
            finding.headline,
            "21.0 logins a second are refused, 100 % of all: shop@10.0.0.7 has as many connections as it may have"
        );
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.remedies[0].statement, "ALTER USER 'shop'@'10.0.0.7' WITH MAX_USER_CONNECTIONS 8");
        // Also at a rate at which it might be health checks, for it is known that it is none.
        assert_eq!(
            found(&of_account(refusing("9.7.4", 4.0), 4.0, 4).window()).unwrap().severity,
            Severity::Critical
        );
    }

    #[test]
    fn the_limit_of_all_accounts_is_seen_in_the_list_where_nobody_counts_by_account() {
        let sessions = |_| (0..10).map(|id| session(20 + id, "Sleep", "", "")).collect();
        let at = |limit: &str| {
            let build =
                refusing("10.11.19-MariaDB", 21.0).variable("max_user_connections", limit).sessions(sessions);
            found(&build.window()).unwrap()
        };
        assert!(
            at("10").headline.ends_with("app has as many connections as it may have"),
            "{}",
            at("10").headline
        );
        assert_eq!(at("10").remedies[0].statement, "SET GLOBAL max_user_connections = 20");
        assert!(at("0").headline.ends_with("% of all"), "{}", at("0").headline);
    }

    #[test]
    fn wrong_passwords_are_a_warning_where_the_server_serves_others_and_more_where_it_serves_nobody() {
        let denied = |build: Build| {
            let finding = found(&build.counter("Access_denied_errors", 20.0).window()).unwrap();
            assert!(finding.headline.ends_with(": access denied"), "{}", finding.headline);
            assert!(finding.remedies[0].statement.contains("log_warnings"), "{:?}", finding.remedies);
            finding.severity
        };
        let busy =
            Build::busy("10.11.19-MariaDB").counter("Aborted_connects", 21.0).counter("Connections", 21.2);
        assert_eq!(denied(busy), Severity::Warning);
        assert_eq!(denied(refusing("10.11.19-MariaDB", 21.0)), Severity::Critical);
    }

    #[test]
    fn few_that_may_be_health_checks_are_a_note_and_what_a_full_server_refuses_is_another_cause() {
        assert_eq!(found(&refusing("9.7.4", 3.0).window()).unwrap().severity, Severity::Note);
        // MariaDB counts those that never came to a login apart.
        let before_login = |per_s| {
            let build = refusing("10.11.19-MariaDB", 3.0).counter("Aborted_connects_preauth", per_s);
            found(&build.window()).unwrap().severity
        };
        assert_eq!((before_login(3.0), before_login(0.0)), (Severity::Note, Severity::Critical));
        let full =
            |version| refusing(version, 21.0).counter("Connection_errors_max_connections", 21.0).window();
        for version in ["10.11.19-MariaDB", "9.7.4"] {
            assert_eq!(found(&full(version)), None, "{version}");
        }
        let few_of_them = refusing("9.7.4", 21.0).counter("Connection_errors_max_connections", 2.0);
        assert!(found(&few_of_them.window()).is_some());
    }
}
