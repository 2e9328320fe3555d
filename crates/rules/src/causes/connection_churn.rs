//! `connection-churn`: clients connect for each query.

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::cpu_saturated;
use crate::below::is_below;
use crate::connections::{self, AccountRate};
use crate::draft::Draft;
use crate::run_queue::cpus_used;
use crate::since_start::{self, SinceStart};
use crate::time_model::tables::LOGIN;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "connection-churn",
    title: "clients connect for each query",
    what: "Making a connection costs far more than a small query: one thread of the server accepts it, another \
           sets up a session, exchanges three or more packets to learn who the client is, and throws it all \
           away at the end; with TLS there is a handshake besides. A client that connects for every statement \
           or two pays this each time. The thread cache saves the making of a kernel thread and nothing else: \
           a new session is made for every connection.",
    why_it_hurts: "CPU goes into logins instead of statements, all of them pass through the one accepting thread, \
                   and a short stall of the server turns into a storm of reconnecting clients. Each ended \
                   connection leaves a port in TIME_WAIT at one end, and the ports run out in the tens of \
                   thousands.",
    evidence: "Growth of Connections over the window, less spindoctor's own, and statements (Questions, less \
               spindoctor's own) for each of them. It fires from ten connections a second on when each brings \
               fewer than ten statements. The estimate is the CPU that logins take, at 200 us each (TLS not counted), or by the CPU samples \
               where these show more, of the effective CPUs (of four where the host cannot be read): an estimate, so a low rate on a \
               large host is a note. The server's counts of each account show who connects. Aborted_connects growth is shown: failed \
               logins cost as much.",
    looks_alike: "Health checks and monitoring connect once every few seconds: below the threshold. A pool that \
                  validates connections shows as statements (SELECT 1), not as connections. When a kernel thread \
                  is made for nearly every one of them, thread-cache-miss stands above this. Many open \
                  connections without new ones are connections-exhausted or nothing at all.",
    remedies: "Keep connections: a pool in the client, persistent connections, or a proxy (ProxySQL, MySQL Router, \
               MaxScale) where the client cannot. Where it must connect each time: a unix socket or plain \
               TCP within a safe network instead of a TLS handshake, skip_name_resolve, and a thread cache as \
               large as the number of clients.",
    safety: "Pools change clients, not the server: their sum must stay below max_connections, and session state \
             (variables, temporary tables, open transactions) must be reset between users. skip_name_resolve \
             needs a restart and grants by address.",
    references: &[
        "Domas Mituzas, On connections; MySQL metrics for read workloads",
        "MySQL Reference Manual: Connection Interfaces, How MySQL Handles Client Connections",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Login, TimeClass::PrivilegeCache],
    stacks: Stacks::Running(&[
        "thd_prepare_connection",
        "login_connection",
        "acl_authenticate",
        "THD::THD",
        "THD::release_resources",
        "close_connection",
        "end_connection",
    ]),
    rule: Rule::ReadingsOrCapture(evaluate, of_status),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Connections a second below which the cost is nothing: ten are 2 ms of CPU.
pub(super) const CONNECTIONS_PER_S: f64 = 10.0;

/// Statements for each connection from which on the connection was worth making.
const STATEMENTS_EACH: f64 = 10.0;

/// CPU that one login takes, seconds: accept, a session set up, authentication, and its end. Over a unix socket, one small query
/// included: 200 us on MySQL 9.7, 110 us on MariaDB 10.11, by the recorded windows (`cargo test -p spindoctor-rules --test windows
/// what_work_costs`). A TLS handshake comes on top and costs more than all of it.
const LOGIN_CPU_S: f64 = 200e-6;

/// CPU samples that are too few to give a share.
const SAMPLES: usize = 100;

/// Share of the connections that end without a goodbye, from which on that is said. Chosen: half is most.
const MOST_ABORTED: f64 = 0.5;

/// Effective CPUs assumed where the host cannot be read.
const CPUS_ASSUMED: f64 = 4.0;

/// How clients connect over a window, spindoctor's own share taken off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Connecting {
    /// New connections a second.
    pub(super) per_s: f64,
    /// Statements for each.
    pub(super) statements_each: f64,
    /// Kernel threads made a second.
    pub(super) threads_per_s: f64,
    /// Effective CPUs, or what is assumed for them.
    pub(super) cpus: f64,
    /// Seconds between the readings.
    pub(super) seconds: f64,
}

/// How clients connect, or why that is not known.
pub(super) fn connecting(window: &Window) -> Result<Connecting, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    // spindoctor opens one session before the window; one that it opens again within is not a client's.
    let connections = (window.need_growth("Connections")? - 1.0).max(0.0);
    let statements = (window.need_growth("Questions")? - window.cost.server_queries as f64).max(0.0);
    Ok(Connecting {
        per_s: connections / seconds,
        statements_each: statements / connections.max(1.0),
        threads_per_s: window.need_growth("Threads_created")? / seconds,
        cpus: window
            .latest(|s| &s.host.effective_cpus)
            .map_or(CPUS_ASSUMED, |effective| effective.cpus.max(0.01)),
        seconds,
    })
}

/// What one status says.
fn of_status(window: &Window) -> Option<Finding> {
    const COUNTERS: [&str; 2] = ["Connections", "Questions"];
    let since = SinceStart::from_window(window)?;
    let per_s = since.per_s(COUNTERS[0]).filter(|&per_s| per_s >= CONNECTIONS_PER_S)?;
    let each = since.count(COUNTERS[1])? / since.count(COUNTERS[0])?.max(1.0);
    let what = format!("{per_s:.0} connections a second were made, each for {each:.1} statements");
    let remedy = since_start::look(
        "SELECT user, host, total_connections FROM performance_schema.accounts ORDER BY total_connections DESC LIMIT 10",
        "It says whose clients connect again for each statement: they need a pool, or a proxy in front of the server.",
    );
    (each < STATEMENTS_EACH).then(|| since.finding(&CAUSE, &what, &COUNTERS, remedy))
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let found = connecting(window)?;
    if found.per_s < CONNECTIONS_PER_S || found.statements_each >= STATEMENTS_EACH {
        return Ok(None);
    }
    let failed = window.status_growth("Aborted_connects").unwrap_or(0.0) / found.seconds;
    let aborted = aborted(window, &found);
    let accounts = connections::accounts(window).unwrap_or_default();
    let estimated = found.per_s * LOGIN_CPU_S / found.cpus;
    let sampled = login_cpus(window).map(|cpus| cpus / found.cpus).filter(|sampled| *sampled > estimated);
    let tls_per_s = window.status_growth("Ssl_accepts").map_or(0.0, |accepts| accepts / found.seconds);
    let has_tls = tls_per_s >= found.per_s / 2.0;
    let can_resume = window.server.version.is_some_and(|version| version.mysql_at_least(8, 0, 29));
    Ok(Some(
        Draft::new(
            &CAUSE,
            sampled.unwrap_or(estimated),
            format!("{} new connections a second, {:.1} statements on each", whole(found.per_s), found.statements_each),
        )
        .why(format!(
            "Logins take {}{} The statements that follow could go over connections that are there already.{}",
            match sampled {
                Some(sampled) => format!("{:.0} % of {:.1} CPUs, by the CPU samples.", 100.0 * sampled, found.cpus),
                None => format!(
                    "about {:.0} % of {:.1} CPUs, at 0.2 ms each: an estimate, without TLS.",
                    100.0 * estimated,
                    found.cpus
                ),
            },
            if has_tls { " Most begin with a TLS handshake." } else { "" },
            aborted.map(|per_s| aborted_sentence(per_s, &found)).unwrap_or_default()
        ))
        .evidence(
            Evidence::new("new connections", found.per_s, "1/s", "SHOW GLOBAL STATUS Connections")
                .expected(format!("< {CONNECTIONS_PER_S:.0}"))
                .series(window.status_rate_series("Connections")),
        )
        .evidence(
            Evidence::new("statements for each", found.statements_each, "", "SHOW GLOBAL STATUS Questions")
                .expected(format!(">= {STATEMENTS_EACH:.0}")),
        )
        .evidence_if(has_tls.then(|| {
            Evidence::new("TLS handshakes", tls_per_s, "1/s", "SHOW GLOBAL STATUS Ssl_accepts")
        }))
        .evidence(Evidence::new("threads made", found.threads_per_s, "1/s", "SHOW GLOBAL STATUS Threads_created"))
        .evidence_if(
            (failed > 0.0)
                .then(|| Evidence::new("failed logins", failed, "1/s", "SHOW GLOBAL STATUS Aborted_connects").expected("0")),
        )
        .evidence_if(aborted.map(|per_s| {
            Evidence::new("connections that end without a goodbye", per_s, "1/s", "SHOW GLOBAL STATUS Aborted_clients")
        }))
        .evidence_if((!accounts.is_empty()).then(|| {
            Evidence::new("who connects", busiest_text(&accounts), "", "connections by account")
        }))
        .remedy(Remedy {
            statement: "Keep connections open in the clients: a pool, or a proxy in front of the server".into(),
            why: "A statement then costs what it costs, without a login before it.".into(),
            dynamic: true,
            risk: "The pools' sizes in sum must stay below max_connections.".into(),
            undo: "Switch the pool off.".into(),
        })
        .remedy_if((has_tls && can_resume).then(|| Remedy {
            statement: "Where they have to connect again: let clients resume TLS sessions, where their driver can (MySQL 8.0.29 and later \
                        servers)"
                .into(),
            why: "A session that is resumed needs no key exchange.".into(),
            dynamic: true,
            risk: "Who gets a client's session data can resume it, too, while it is valid (ssl_session_cache_timeout).".into(),
            undo: "Switch it off in the driver.".into(),
        }))
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    ))
}

/// CPUs that logins took, by the part of the CPU samples that are below them; None where too few were taken.
fn login_cpus(window: &Window) -> Option<f64> {
    let profile = window.profile.value()?;
    let samples = profile.samples();
    let logins = samples.iter().filter(|sample| is_below(profile, sample, LOGIN)).count();
    let share = logins as f64 / samples.len().max(1) as f64;
    (samples.len() >= SAMPLES).then_some(share * cpus_used(window)?)
}

/// Connections a second that ended without a goodbye, where half of those that are made and more did.
fn aborted(window: &Window, found: &Connecting) -> Option<f64> {
    let per_s = window.status_growth("Aborted_clients")? / found.seconds;
    (per_s > 0.0 && per_s >= MOST_ABORTED * found.per_s).then_some(per_s)
}

/// A sentence about them.
fn aborted_sentence(per_s: f64, found: &Connecting) -> String {
    format!(
        " {} connections a second end without a goodbye (Aborted_clients), of {} made: the client goes away without one, or the server ends \
         them, as after a packet that is larger than max_allowed_packet.",
        whole(per_s),
        whole(found.per_s)
    )
}

/// Accounts that are named.
const NAMED: usize = 3;

/// `web@10.0.0.7 190 /s with 1.1 statements each, cron@localhost 2.0 /s`.
pub(super) fn busiest_text(accounts: &[AccountRate]) -> String {
    let one = |account: &AccountRate| {
        let AccountRate { user, host, per_s, .. } = account;
        let at = if host.is_empty() { "" } else { "@" };
        let statements = account.statements_each.map(|each| format!(" with {each:.1} statements each"));
        let digits = usize::from(*per_s < CONNECTIONS_PER_S);
        format!("{user}{at}{host} {per_s:.digits$} /s{}", statements.unwrap_or_default())
    };
    let mut named: Vec<String> = accounts.iter().take(NAMED).map(one).collect();
    if accounts.len() > NAMED {
        named.push(format!("{} more", accounts.len() - NAMED));
    }
    named.join(", ")
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    /// 1,200 connections a second with a statement each, the thread cache large enough.
    pub(crate) fn fires() -> Window {
        Build::busy("9.7.4").counter("Connections", 1200.0).counter("Questions", 1300.0).window()
    }

    /// Short-lived workers: each connection brings fifty statements.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4").counter("Connections", 120.0).counter("Questions", 6000.0).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    #[test]
    fn our_own_queries_do_not_make_connections_worth_their_making() {
        let mut window =
            Build::busy("9.7.4").counter("Connections", 30.0).counter("Questions", 60.0).window();
        window.cost.server_queries = 400;
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        assert_eq!(finding.headline, "30 new connections a second, 0.7 statements on each");
        assert_eq!(finding.severity, spindoctor_model::Severity::Note);
    }

    #[test]
    fn handshakes_are_counted_by_what_the_cpu_samples_show_of_them() {
        let on = |version: &str, share: f64| {
            let frames = &["SSL_do_handshake", "acl_authenticate", "thd_prepare_connection"];
            let window = Build::busy(version)
                .counter("Connections", 370.0)
                .counter("Questions", 800.0)
                .counter("Ssl_accepts", 370.0)
                .quota(2.0, 2)
                .running(400, share, frames)
                .each(|at_s, _, host| {
                    let spindoctor_model::Reading::Available { value: process, .. } = &mut host.process
                    else {
                        panic!()
                    };
                    (process.user_us, process.system_us) = ((at_s * 0.8e6) as u64, 0);
                });
            let Outcome::Fired(finding) = evaluate(&window.window()) else { panic!() };
            finding
        };
        let of = |share: f64| on("8.0.31", share);
        let finding = of(0.75);
        assert!((finding.score - 0.3).abs() < 0.02, "{}", finding.score);
        assert!(finding.why.contains("30 % of 2.0 CPUs, by the CPU samples"), "{}", finding.why);
        assert!(finding.why.contains("Most begin with a TLS handshake."), "{}", finding.why);
        assert!(finding.remedies[1].statement.contains("resume TLS"), "{:?}", finding.remedies);
        // Older servers and MariaDB keep no sessions for that.
        for version in ["5.7.44", "10.11.8-MariaDB"] {
            let older = on(version, 0.75);
            assert!(older.why.contains("TLS handshake"), "{}", older.why);
            assert_eq!(older.remedies.len(), 1, "{version}: {:?}", older.remedies);
        }
        assert!(of(0.0).why.contains("an estimate"), "{}", of(0.0).why);
    }

    /// What the account of time counts as a login is a login's CPU, too.
    #[test]
    fn whatever_the_time_model_knows_as_a_login_counts() {
        for &login in LOGIN {
            let window = Build::busy("8.0.31")
                .counter("Connections", 370.0)
                .counter("Questions", 800.0)
                .quota(2.0, 2)
                .running(400, 0.75, &["SSL_do_handshake", login])
                .each(|at_s, _, host| {
                    let spindoctor_model::Reading::Available { value: process, .. } = &mut host.process
                    else {
                        panic!()
                    };
                    (process.user_us, process.system_us) = ((at_s * 0.8e6) as u64, 0);
                });
            let Outcome::Fired(finding) = evaluate(&window.window()) else { panic!("{login}") };
            assert!(finding.why.contains("by the CPU samples"), "{login}: {}", finding.why);
        }
    }

    #[test]
    fn who_connects_is_named_by_the_servers_own_counts() {
        let mut window = fires();
        for sample in &mut window.samples {
            let made = (1200.0 * sample.at_s) as u64;
            let account = spindoctor_model::mysql::AccountSummary {
                user: "web".into(),
                host: "10.0.0.7".into(),
                total: 7 + made,
                statements: Some(made + made / 10),
                ..Default::default()
            };
            sample.server.accounts = crate::testing::answer(sample.at_s, vec![account]);
        }
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        let who = finding.evidence.iter().find(|evidence| evidence.reading == "who connects").unwrap();
        assert_eq!(who.value, "web@10.0.0.7 1200 /s with 1.1 statements each".into());
    }

    #[test]
    fn connections_that_end_without_a_goodbye_are_counted_where_they_are_half_and_more() {
        let of = |aborted: f64| {
            let build = Build::busy("9.7.4").counter("Connections", 20.0).counter("Questions", 60.0);
            let Outcome::Fired(finding) = evaluate(&build.counter("Aborted_clients", aborted).window())
            else {
                panic!("it fires")
            };
            finding.why
        };
        let most = of(15.0);
        assert!(
            most.contains("15 connections a second end without a goodbye (Aborted_clients), of 20 made"),
            "{most}"
        );
        let few = of(3.0);
        assert!(!few.contains("goodbye"), "{few}");
    }

    /// Who stays connected is not who comes and goes, and refused logins are in no list.
    #[test]
    fn who_is_at_work_is_not_said_to_connect() {
        let mut window = fires();
        let shown = |window: &Window| {
            let Outcome::Fired(finding) = evaluate(window) else { panic!() };
            serde_json::to_string(&finding.evidence).unwrap()
        };
        assert!(!shown(&window).contains("app"), "{}", shown(&window));
        // Nor where its account made no connection meanwhile.
        for sample in &mut window.samples {
            let account = spindoctor_model::mysql::AccountSummary {
                user: "app".into(),
                host: "localhost".into(),
                total: 34,
                ..Default::default()
            };
            sample.server.accounts = crate::testing::answer(sample.at_s, vec![account]);
        }
        assert!(!shown(&window).contains("app@localhost"), "{}", shown(&window));
    }

    #[test]
    fn a_fitting_thread_cache_leaves_churn_alone() {
        let diagnosis = crate::diagnose(&fires());
        assert_eq!(diagnosis.findings.iter().map(|f| f.cause.as_str()).collect::<Vec<_>>(), [CAUSE.name]);
    }
}
