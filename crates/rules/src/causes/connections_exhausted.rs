//! `connections-exhausted`: every permitted connection is taken, or nearly.

use std::collections::BTreeMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::number::{self, whole};
use spindoctor_model::{Evidence, Finding, NoSessionKind, Remedy, TroubleKind, Unavailable, Window};

use crate::draft::{Draft, set_back};
use crate::killing;
use crate::logged;
use crate::rank::WARNING_FROM;
use crate::since_start::{self, SinceStart};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "connections-exhausted",
    title: "max_connections reached, or nearly",
    what: "The server permits max_connections sessions. Each further client is refused with error 1040 \
           (Too many connections) before it is even asked who it is. One session more is kept for a user \
           with CONNECTION_ADMIN (MySQL 8.0), SUPER (5.x) or CONNECTION ADMIN (MariaDB); MySQL 8.0.14 and \
           later can also listen on admin_address, MariaDB and Percona Server on extra_port.",
    why_it_hurts: "Refused clients get no work done, and most of them try again at once, which costs the \
                   accepting thread more. Monitoring that logs in as an ordinary user goes blind at the same \
                   moment.",
    evidence: "Error 1040 for spindoctor's own login; an error log that was given and ends with it; growth of Connection_errors_max_connections over the \
               window; Threads_connected without spindoctor's own session against max_connections, in any \
               sample. It is a warning from 90 % on, because one retry storm fills the rest. The estimate is \
               the share of login attempts that were refused.",
    looks_alike: "A pile-up behind a lock fills the connections too: each client whose statement hangs is \
                  joined by another. Then row-lock-pileup, metadata-lock-pileup or global-lock-pileup stands \
                  above this one, and more connections would only lengthen the queue. Aborted_connects \
                  counts wrong passwords and broken handshakes, not this. Error 1203 is a user's own limit \
                  (max_user_connections), error 1129 a blocked host.",
    remedies: "Look at who holds the connections. Mostly asleep: the clients' pools are too large in sum, or \
               they leak; end the oldest sleepers without a transaction, shorten the pools, lower wait_timeout for \
               sessions to come. Mostly at work or waiting: something blocks them; cure that. Raising max_connections buys time only.",
    safety: "SET GLOBAL max_connections takes effect at once and is undone the same way. Each connection may \
             take sort, join and network buffers, and needs a file descriptor: watch memory and \
             open_files_limit. KILL of a sleeping connection rolls its open transaction back.",
    references: &[
        "MySQL Reference Manual, Too many connections; Connection_errors_max_connections",
        "Domas Mituzas, On connections",
    ],
    costs: Costs::Elsewhere,
    explains_time: &[],
    stacks: Stacks::Standing(&["my_net_read"]),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From this share of max_connections on, the next retry storm fills the rest: a pool of clients that
/// reconnects holds its old and its new connections at once for a moment.
const NEARLY_FULL: f64 = 0.9;

/// What a capture of one moment says: an error log's end, or a status since the start.
fn of_capture(window: &Window) -> Option<Finding> {
    of_log(window).or_else(|| of_status(window))
}

/// Refused logins a second since the start from which on it was no single evening: one a minute. Chosen, not derived.
const REFUSED_PER_S: f64 = 1.0 / 60.0;

/// A session that has slept for as long is hardly between two statements of one client. Chosen, as the wait_timeout that is advised.
const LONG_S: f64 = 300.0;

/// Logins that were refused because all connections were taken, since the server started.
const COUNTER: &str = "Connection_errors_max_connections";

fn of_status(window: &Window) -> Option<Finding> {
    let since = SinceStart::from_window(window)?;
    since.per_s(COUNTER).filter(|&per_s| per_s >= REFUSED_PER_S)?;
    let what =
        format!("{} logins were refused because max_connections were in use", whole(since.count(COUNTER)?));
    let remedy = since_start::look(
        "SHOW GLOBAL VARIABLES LIKE 'max_connections'; SHOW GLOBAL STATUS LIKE 'Max_used_connections%'; SHOW FULL PROCESSLIST",
        "The list says who holds the connections, and whether they sleep or stand behind something.",
    );
    Some(since.finding(&CAUSE, &what, &[COUNTER, "Max_used_connections", "Threads_connected"], remedy))
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    if let Some(refusal) = &window.server.no_session
        && refusal.kind == NoSessionKind::TooManyConnections
    {
        return Ok(Some(own_login_refused(&refusal.because)));
    }
    let status = window.need(|s| &s.server.status)?;
    let limit = window.need_variable("max_connections");
    status.number("Threads_connected").ok_or_else(|| Unavailable::because("Threads_connected is absent"))?;

    // spindoctor's own session is not one of the clients'.
    let own = f64::from(u8::from(window.server.own_connection_id.is_some()));
    let connected: Vec<(f64, f64)> = window
        .status_series("Threads_connected")
        .into_iter()
        .map(|(at_s, connected)| (at_s, (connected - own).max(0.0)))
        .collect();
    let most = connected.iter().map(|&(_, connected)| connected).fold(0.0, f64::max);
    let growth = window.status_growth(COUNTER);
    let refused = growth.unwrap_or(0.0);
    // Where logins are refused, so many as are connected are permitted.
    let is_known = limit.is_ok();
    let limit = limit.or_else(|missing| if refused > 0.0 { Ok(most) } else { Err(missing) })?;
    let used = most / limit.max(1.0);

    let accepted = window.status_growth("Connections");
    if refused == 0.0 && used < NEARLY_FULL {
        return Ok(None);
    }

    let taken = match is_known {
        true => format!("{} of {} connections are taken", whole(most), whole(limit)),
        false => format!("all {} connections are taken", whole(most)),
    };
    let headline = if refused > 0.0 {
        format!("{} logins were refused: {taken}", whole(refused))
    } else {
        format!("{taken}: the next burst of logins is refused")
    };
    let refused_share = accepted.map(|accepted| refused / (refused + accepted).max(1.0));
    // That it is nearly full is a forecast, and a warning; what few refusals cost is little, and no more than their share. Where nobody counts
    // the logins that were accepted, refusals are a warning.
    let score = match refused_share {
        Some(share) if used < NEARLY_FULL => share,
        share => share.unwrap_or(WARNING_FROM).max(WARNING_FROM),
    };
    let holders = window.latest(|s| &s.server.threads).map(|threads| holders(threads));
    let asleep = holders.as_ref().map(|holders| holders.asleep_ratio);
    let sleep_long = holders.as_ref().is_some_and(|holders| holders.sleep_long > 0);
    let mostly_asleep = asleep.is_some_and(|ratio| ratio > 0.5);
    let raised = (limit * 1.5).ceil();
    Ok(Some(
        Draft::new(&CAUSE, score, headline)
            .why(match asleep {
                Some(_) if mostly_asleep => {
                    "Most of the connections are asleep: the clients' pools are too large in sum, or they leak."
                }
                Some(_) => "Most of the connections are at work or waiting: something blocks them.",
                None => "Who holds the connections could not be read.",
            })
            .evidence(
                Evidence::new("connections taken", most, "connections", "SHOW GLOBAL STATUS Threads_connected")
                    .expected(format!("< {:.0}", limit * NEARLY_FULL))
                    .series(connected),
            )
            .evidence_if(
                is_known.then(|| Evidence::new("max_connections", limit, "connections", "SHOW GLOBAL VARIABLES")),
            )
            .evidence_if(logins_refused(window, growth))
            .evidence_if(asleep.map(|ratio| Evidence::new("connections asleep", ratio, "ratio", "thread list")))
            .evidence_if(
                holders.map(|holders| Evidence::new("held by", holders.by_user, "", "thread list")),
            )
            .remedy_if((mostly_asleep && sleep_long).then(|| list_of_sleepers(window)))
            .remedy_if(mostly_asleep.then(|| Remedy {
                statement: "Shrink or share the clients' connection pools; SET GLOBAL wait_timeout = 300".into(),
                why: "Sleeping connections take the places of clients with work to do. A session takes wait_timeout when it connects: it \
                      ends those that connect from now on, and none that is there."
                    .into(),
                dynamic: true,
                risk: "Clients that do not reconnect by themselves see a lost connection after 300 s of silence."
                    .into(),
                undo: set_back(window, "wait_timeout"),
            }))
            .remedy(Remedy {
                statement: format!("SET GLOBAL max_connections = {raised:.0}"),
                why: "Lets the refused clients in. It buys time; it cures nothing where connections pile up."
                    .into(),
                dynamic: true,
                risk: "Each connection takes memory and a file descriptor; more of them at work share the same \
                       CPUs."
                    .into(),
                undo: format!("SET GLOBAL max_connections = {limit:.0}"),
            })
            .finding(),
    ))
}

/// Statements that end those who have slept for long, for somebody to choose from. Appliers of a Galera cluster sleep, too, while nothing comes,
/// under the server's own user.
fn list_of_sleepers(window: &Window) -> Remedy {
    // information_schema's locks all sessions meanwhile; the other has no rows where performance_schema is off.
    let is_off = window.variable("performance_schema").is_some_and(|is_on| is_on.eq_ignore_ascii_case("OFF"));
    let list = match window.server.version {
        Some(version) if version.mysql_at_least(8, 0, 22) && !is_off => "performance_schema.processlist",
        _ => "information_schema.PROCESSLIST",
    };
    let of_server = killing::OF_THE_SERVER;
    Remedy {
        statement: format!(
            "SELECT {} FROM {list} WHERE COMMAND = 'Sleep' AND TIME > {LONG_S:.0} AND USER <> '{of_server}' AND ID \
             NOT IN (SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX); then those of them that no client misses",
            killing::KILL_EACH
        ),
        why: "It lists who has slept for five minutes and has no open transaction; ending them makes room at once.".into(),
        dynamic: true,
        risk: "The SELECT only lists. A session that is ended loses its temporary tables and its locks of LOCK TABLES and GET_LOCK, and \
               a pool that does not test its connections gives an error to its next client."
            .into(),
        undo: String::new(),
    }
}

/// How many logins were refused meanwhile; of a single reading, since the server started.
fn logins_refused(window: &Window, growth: Option<f64>) -> Option<Evidence> {
    let source = format!("SHOW GLOBAL STATUS {COUNTER}");
    let (reading, refused) = match growth {
        Some(growth) => ("logins refused", growth),
        None => ("logins refused since the server started", window.status(COUNTER)?),
    };
    Some(Evidence::new(reading, refused, "", &source).expected("0"))
}

/// What an error log ends with; it does not say how many of the logins were refused.
fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::TooManyConnections)?;
    let holders = window.latest(|s| &s.server.threads).map(|threads| holders(threads));
    let holders = holders.filter(|holders| !holders.by_user.is_empty());
    let why = match &holders {
        Some(holders) => format!(
            "Who held the connections is not in the log. In the process list beside it {} of them are asleep.",
            number::percent(holders.asleep_ratio)
        ),
        None => {
            "Who held the connections is not in the log: a process list of that moment would say.".to_owned()
        }
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, "The server refused logins: every permitted connection was taken")
            .why(why + &taken_now(window).unwrap_or_default())
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .evidence_if(holders.map(|holders| Evidence::new("held by", holders.by_user, "", "thread list")))
            .remedy(through_the_kept_session())
            .remedy(half_as_many_again())
            .finding(),
    )
}

/// What a status beside the log has of the connections, where they are no longer taken.
fn taken_now(window: &Window) -> Option<String> {
    let connected = window.status("Threads_connected")?;
    let limit = window.variable_number("max_connections").filter(|limit| connected < limit * NEARLY_FULL)?;
    Some(format!(" Now {} of {} are taken: see Max_used_connections.", whole(connected), whole(limit)))
}

fn own_login_refused(because: &str) -> Finding {
    Draft::new(&CAUSE, 0.9, "The server refuses logins: every permitted connection is taken")
        .why(
            "spindoctor's own login was refused, so every ordinary client's is. Who holds the connections can \
             only be read through the session kept for administrators.",
        )
        .evidence(Evidence::new("spindoctor's own login", because, "", "connect").expected("accepted"))
        .remedy(through_the_kept_session())
        .remedy(half_as_many_again())
        .finding()
}

fn through_the_kept_session() -> Remedy {
    Remedy {
        statement: "Log in as a user with CONNECTION_ADMIN (or SUPER), or through admin_address or \
                    extra_port, and end idle connections: KILL id"
            .into(),
        why: "One session is kept for an administrator; from there the holders can be seen and ended.".into(),
        dynamic: true,
        risk: "KILL rolls the connection's open transaction back.".into(),
        undo: String::new(),
    }
}

fn half_as_many_again() -> Remedy {
    Remedy {
        statement: "SET GLOBAL max_connections = the present value and half as much again".into(),
        why: "Lets clients in while the reason is looked for.".into(),
        dynamic: true,
        risk: "Each connection takes memory and a file descriptor.".into(),
        undo: "SET GLOBAL max_connections = the value before".into(),
    }
}

/// A connection that has not logged in yet has no user.
fn named(user: &str) -> &str {
    if user.is_empty() { "not logged in yet" } else { user }
}

/// Who holds the connections.
struct Holders {
    by_user: String,
    asleep_ratio: f64,
    /// Those who have slept for [`LONG_S`].
    sleep_long: usize,
}

fn holders(threads: &[ServerThread]) -> Holders {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut all, mut asleep, mut sleep_long) = (0_usize, 0_usize, 0_usize);
    for thread in threads.iter().filter(|thread| thread.is_connection) {
        all += 1;
        asleep += usize::from(thread.command == "Sleep");
        sleep_long += usize::from(thread.command == "Sleep" && thread.time_s > LONG_S);
        *users.entry(&thread.user).or_default() += 1;
    }
    let mut users: Vec<_> = users.into_iter().collect();
    users.sort_by_key(|&(_, connections)| std::cmp::Reverse(connections));
    let named: Vec<String> =
        users.iter().take(3).map(|(user, connections)| format!("{} {connections}", named(user))).collect();
    Holders { by_user: named.join(", "), asleep_ratio: asleep as f64 / all.max(1) as f64, sleep_long }
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Value;

    use super::*;
    use crate::testing::{Build, session};

    pub(crate) fn fires() -> Window {
        Build::busy("8.0.36")
            .gauge("Threads_connected", 152.0)
            .counter("Connections", 5.0)
            .counter("Connection_errors_max_connections", 20.0)
            .sessions(|_| (0..151).map(|id| session(id, "Sleep", "", "")).collect())
            .window()
    }

    /// Four fifths taken, one of them spindoctor's.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36").gauge("Threads_connected", 121.0).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").no_session(NoSessionKind::Silent).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn refused_logins_are_counted_as_their_share_of_all() {
        let finding = found(&fires());
        assert!((finding.score - 0.8).abs() < 0.01, "{}", finding.score);
        assert!(finding.headline.starts_with("200 logins were refused: 151 of 151"), "{}", finding.headline);
        assert!(finding.why.contains("asleep"), "{}", finding.why);
    }

    #[test]
    fn refusals_are_no_share_of_logins_that_nobody_counts() {
        let without = |growth: f64| {
            let build = Build::busy("8.0.36").counter("Connection_errors_max_connections", growth);
            found(&build.words("Connections", "").window()).severity
        };
        assert_eq!(without(20.0), spindoctor_model::Severity::Warning);
    }

    #[test]
    fn sessions_that_have_slept_for_long_are_listed_because_a_shorter_timeout_ends_none_of_them() {
        let build = |version: &str, slept_s: f64| {
            let sleeper = move |id| ServerThread { time_s: slept_s, ..session(id, "Sleep", "", "") };
            Build::busy(version)
                .gauge("Threads_connected", 152.0)
                .sessions(move |_| (0..151).map(sleeper).collect())
        };
        let finding = |version: &str, slept_s: f64| found(&build(version, slept_s).window());
        let long = finding("8.0.36", 900.0);
        let [list, timeout] = [&long.remedies[0], &long.remedies[1]];
        assert!(
            list.statement
                .contains("FROM performance_schema.processlist WHERE COMMAND = 'Sleep' AND TIME > 300")
        );
        assert!(list.statement.contains("INNODB_TRX"), "{}", list.statement);
        // Idle appliers of a cluster.
        assert!(list.statement.contains("AND USER <> 'system user'"), "{}", list.statement);
        let off = found(&build("8.0.36", 900.0).variable("performance_schema", "OFF").window());
        assert!(off.remedies[0].statement.contains("information_schema.PROCESSLIST"), "{:?}", off.remedies);
        assert!(timeout.why.contains("none that is there"), "{}", timeout.why);
        let older = finding("10.11.19-MariaDB", 900.0);
        assert!(older.remedies[0].statement.contains("information_schema.PROCESSLIST"));
        assert!(finding("8.0.36", 20.0).remedies[0].statement.starts_with("Shrink"));
    }

    #[test]
    fn a_connection_that_has_not_logged_in_is_shown_by_words() {
        let threads: Vec<_> = (0..3).map(|id| session(id, "Connect", "", "")).collect();
        let nobody = threads.into_iter().map(|thread| ServerThread { user: String::new(), ..thread });
        assert_eq!(holders(&nobody.collect::<Vec<_>>()).by_user, "not logged in yet 3");
    }

    #[test]
    fn the_refusal_of_our_own_login_is_enough() {
        let finding = found(&Build::busy("8.0.36").no_session(NoSessionKind::TooManyConnections).window());
        assert_eq!(finding.severity, spindoctor_model::Severity::Critical);
    }

    #[test]
    fn nearly_full_is_a_warning_and_our_own_session_does_not_count() {
        let nearly = |connected| Build::busy("8.0.36").gauge("Threads_connected", connected).window();
        assert_eq!(found(&nearly(137.0)).severity, spindoctor_model::Severity::Warning);
        assert_eq!(evaluate(&nearly(136.0)), Outcome::Clear);
    }

    #[test]
    fn of_a_single_status_the_logins_refused_are_those_since_the_start_and_never_none() {
        let of = |samples: usize| {
            let mut window = Build::busy("8.0.36")
                .gauge("Threads_connected", 152.0)
                .gauge("Connection_errors_max_connections", 61_402.0)
                .window();
            window.samples.truncate(samples);
            let refused = |one: &Evidence| one.reading.starts_with("logins refused");
            found(&window).evidence.into_iter().find(refused).unwrap()
        };
        let single = of(1);
        assert_eq!(single.reading, "logins refused since the server started");
        assert_eq!(single.value, Value::from(61_402.0));
        assert_eq!((of(9).reading.as_str(), of(9).value), ("logins refused", Value::from(0.0)));
    }

    #[test]
    fn a_list_beside_the_log_says_who_held_the_connections() {
        let of = |has_list: bool| {
            let mut window = Build::busy("8.0.36")
                .sessions(|_| (0..40).map(|id| session(id, "Sleep", "", "")).collect())
                .window();
            for sample in &mut window.samples {
                sample.server.status = spindoctor_model::Reading::NotAsked;
                if !has_list {
                    sample.server.threads = spindoctor_model::Reading::NotAsked;
                }
            }
            window.error_log = vec![spindoctor_model::LoggedTrouble {
                kind: TroubleKind::TooManyConnections,
                times: 1,
                line: "[Warning] Too many connections".to_owned(),
                ..Default::default()
            }];
            of_log(&window).unwrap()
        };
        let listed = of(true);
        assert!(listed.why.contains("100 % of them are asleep"), "{}", listed.why);
        let held_by = listed.evidence.iter().find(|one| one.reading == "held by").unwrap();
        assert_eq!(held_by.value, Value::from("app 40"));
        assert!(of(false).why.contains("would say"), "{}", of(false).why);
    }

    #[test]
    fn a_status_beside_the_log_says_where_few_connections_are_left() {
        let why = |connected: f64| {
            let mut window = Build::busy("8.0.36").gauge("Threads_connected", connected).window();
            window.error_log = vec![spindoctor_model::LoggedTrouble {
                kind: TroubleKind::TooManyConnections,
                times: 1,
                line: "[Warning] Too many connections".to_owned(),
                ..Default::default()
            }];
            of_log(&window).unwrap().why
        };
        assert!(why(6.0).ends_with(" Now 6 of 151 are taken: see Max_used_connections."), "{}", why(6.0));
        assert!(!why(150.0).contains("are taken"), "{}", why(150.0));
    }

    #[test]
    fn an_error_log_alone_is_enough_where_it_ends_with_it() {
        let logged = |kind, before_end_s| {
            let mut window = missing();
            let line = "[Warning] Too many connections".to_owned();
            window
                .samples
                .iter_mut()
                .for_each(|sample| sample.server.status = spindoctor_model::Reading::NotAsked);
            window.error_log = vec![spindoctor_model::LoggedTrouble {
                kind,
                times: 3,
                before_end_s: Some(before_end_s),
                line,
                ..Default::default()
            }];
            matches!(CAUSE.evaluate(&window, None), Outcome::Fired(_))
        };
        assert!(logged(TroubleKind::TooManyConnections, 60.0));
        assert!(!logged(TroubleKind::TooManyConnections, 86_400.0), "that is over");
        assert!(!logged(TroubleKind::DiskFull, 0.0));
    }
}
