//! Who connects, how often, for how long, and for how many statements: of a window, pure.
//!
//! Connections that come and go between two readings of the thread list are never seen in it. Their number is still
//! known from the server's counters; and connection ids are given out in order, so each listed connection shows when it
//! was made. Both together give the share of the connections of an age that are still open.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{AccountSummary, ServerThread};
use spindoctor_model::{Unavailable, Window};

/// How an account connected over a window.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountRate {
    /// The user.
    pub user: String,
    /// The client's host; empty where the server counts by user.
    pub host: String,
    /// Connections made a second.
    pub per_s: f64,
    /// Share of all connections that are listed.
    pub share: f64,
    /// Statements for each connection made; over one that stays open they add up. None where nobody counts them.
    pub statements_each: Option<f64>,
    /// How long a connection lasts in the mean, of those that were made within the window: at most half of the window
    /// can be measured, so a longer lifetime shows as about that. None where no connection of the account was made, or
    /// none was there whenever it was looked.
    pub lifetime_s: Option<f64>,
    /// Its connections now.
    pub open: u64,
}

/// Share of connections that are closed within an age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lifetime {
    /// The age, seconds.
    pub within_s: f64,
    /// Of those made, the share that is closed when they would be so old.
    pub closed_ratio: f64,
    /// Connections that this rests on.
    pub made: u64,
}

/// Ages that are looked up: what lives shorter than the first serves a statement or two, what lives longer than the last
/// comes from a pool.
const AGES_S: [f64; 3] = [0.1, 1.0, 10.0];

/// Connections below which no share of an age is given: the standard error of one half is then 10 percentage points.
const ENOUGH: f64 = 25.0;

/// Accounts that a server lists at most (`performance_schema.accounts` in `collect`).
const LISTED: usize = 50;

/// Accounts that connect less often than this are left out, connections a second: monitoring that connects every minute.
const LEAST_PER_S: f64 = 0.02;

/// The accounts that connected, the most first: by the server's own counts, which miss none.
///
/// # Errors
/// Why nobody counts them.
pub fn accounts(window: &Window) -> Result<Vec<AccountRate>, Unavailable> {
    let change = window.need_change(|s| &s.server.accounts)?;
    let key = |account: &AccountSummary| (account.user.clone(), account.host.clone());
    let before: BTreeMap<_, &AccountSummary> =
        change.first.iter().map(|account| (key(account), account)).collect();
    // One that was not among those with the most had fewer than the last of them, or none at all.
    let floor = match change.first.len() >= LISTED {
        true => change.first.iter().map(|account| account.total).min().unwrap_or(0),
        false => 0,
    };
    let statements = (floor == 0).then_some(0);
    let unlisted = AccountSummary { total: floor, statements, ..AccountSummary::default() };
    let ids = Ids::from_window(window);
    let mut rates: Vec<AccountRate> = change
        .last
        .iter()
        .filter_map(|last| {
            let first = before.get(&key(last)).copied().unwrap_or(&unlisted);
            let made = last.total.checked_sub(first.total)? as f64;
            let statements = last.statements.zip(first.statements);
            let sent = statements.map(|(last, first)| last.saturating_sub(first) as f64);
            let per_s = made / change.seconds;
            let is_own = |thread: &ServerThread| {
                thread.user == last.user && (last.host.is_empty() || thread.host == last.host)
            };
            (per_s >= LEAST_PER_S).then(|| AccountRate {
                user: last.user.clone(),
                host: last.host.clone(),
                per_s,
                share: 0.0,
                statements_each: sent.map(|sent| sent / made),
                lifetime_s: ids
                    .as_ref()
                    .and_then(|ids| ids.mean_open(window, &is_own))
                    // Nobody lasts no time: all were gone whenever it was looked.
                    .filter(|&open| open > 0.0)
                    .map(|open| open / per_s),
                open: last.current,
            })
        })
        .collect();
    let all: f64 = rates.iter().map(|rate| rate.per_s).sum();
    for rate in &mut rates {
        rate.share = rate.per_s / all;
    }
    rates.sort_by(|a, b| {
        b.per_s.total_cmp(&a.per_s).then_with(|| (&a.user, &a.host).cmp(&(&b.user, &b.host)))
    });
    Ok(rates)
}

/// The most clients that waited at once in the queues of the server's own ports, at the instants that were looked at; none
/// where that cannot be read, or where the server listens on no port.
pub fn waiting(window: &Window) -> Option<u64> {
    let ports: Vec<u16> = ["port", "extra_port", "admin_port", "mysqlx_port"]
        .iter()
        .filter_map(|name| window.variable(name)?.parse().ok())
        .filter(|&port| port > 0)
        .collect();
    window
        .all(|s| &s.host.listen_queues)
        .into_iter()
        .flat_map(|(_, queues)| &queues.sockets)
        .filter(|socket| ports.contains(&socket.port))
        .map(|socket| socket.waiting)
        .max()
}

/// Which share of the connections is closed within each age; ages that the window is too short for are left out, and those
/// of which too few were made.
pub fn lifetimes(window: &Window) -> Vec<Lifetime> {
    let Some(ids) = Ids::from_window(window) else { return Vec::new() };
    let looks = window.all(|s| &s.server.threads);
    let at_age = |age_s: f64| {
        let (mut made, mut open) = (0.0, 0.0);
        for &(at_s, threads) in &looks {
            // Those that are about so old: from half as much to half as much again.
            let (Some(from), Some(to)) = (ids.at(at_s - 1.5 * age_s), ids.at(at_s - 0.5 * age_s)) else {
                continue;
            };
            made += to - from;
            let range = from..to;
            open += connections(threads).filter(|(id, _)| range.contains(&(*id as f64))).count() as f64;
        }
        (made >= ENOUGH).then(|| Lifetime {
            within_s: age_s,
            closed_ratio: (1.0 - open / made).clamp(0.0, 1.0),
            made: made as u64,
        })
    };
    let mut lifetimes: Vec<Lifetime> = AGES_S.into_iter().filter_map(at_age).collect();
    // What is closed stays closed: a smaller share at a higher age is chance.
    for at in 1..lifetimes.len() {
        lifetimes[at].closed_ratio = lifetimes[at].closed_ratio.max(lifetimes[at - 1].closed_ratio);
    }
    lifetimes
}

/// Which connection id was given out when.
struct Ids {
    /// Seconds from the start of the window, and the next id.
    points: Vec<(f64, f64)>,
}

impl Ids {
    /// From the growth of `Connections`, which counts ids, and spindoctor's own id, which was the last one before the window.
    fn from_window(window: &Window) -> Option<Self> {
        let counted = window.status_series("Connections");
        let (_, first) = *counted.first()?;
        let own = window.server.own_connection_id? as f64;
        let points: Vec<(f64, f64)> =
            counted.iter().map(|(at_s, count)| (*at_s, own + 1.0 + count - first)).collect();
        // Counters that went back are of no use.
        let grows = points.windows(2).all(|pair| pair[1].0 > pair[0].0 && pair[1].1 >= pair[0].1);
        (points.len() >= 2 && grows).then_some(Self { points })
    }

    /// The next id at an instant within the readings.
    fn at(&self, at_s: f64) -> Option<f64> {
        self.points.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&at_s)).map(|pair| {
            let [(from_s, from), (to_s, to)] = [pair[0], pair[1]];
            from + (to - from) * (at_s - from_s) / (to_s - from_s)
        })
    }

    /// How many connections were open at once in the mean, of those that were made within the window: over its second half,
    /// when those that last have had time to come together.
    fn mean_open(&self, window: &Window, is_meant: &dyn Fn(&ServerThread) -> bool) -> Option<f64> {
        let ((begin_s, first), (end_s, _)) = (*self.points.first()?, *self.points.last()?);
        let middle_s = f64::midpoint(begin_s, end_s);
        let looks = window.all(|s| &s.server.threads);
        let late: Vec<f64> = looks
            .iter()
            .filter(|(at_s, _)| *at_s >= middle_s)
            .map(|(_, threads)| {
                connections(threads).filter(|(id, thread)| *id as f64 >= first && is_meant(thread)).count()
                    as f64
            })
            .collect();
        (!late.is_empty()).then(|| late.iter().sum::<f64>() / late.len() as f64)
    }
}

/// Connections with their ids.
fn connections(threads: &[ServerThread]) -> impl Iterator<Item = (u64, &ServerThread)> {
    threads
        .iter()
        .filter(|thread| thread.is_connection)
        .filter_map(|thread| Some((thread.connection_id?, thread)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, answer, session};

    /// Ten seconds, 200 connections a second of one account, each open for so long; a pool of four beside it that stays.
    fn churn(lifetime_s: f64) -> Window {
        let mut window = Build::busy("9.7.4")
            .counter("Connections", 200.0)
            .each(|at_s, server, _| {
                let made = (200.0 * at_s) as u64;
                let first = 100 + (200.0 * (at_s - lifetime_s)).max(0.0) as u64;
                let mut threads: Vec<ServerThread> =
                    (20..24).map(|id| session(id, "Sleep", "", "")).collect();
                threads.extend((first..100 + made).map(|id| ServerThread {
                    user: "web".into(),
                    host: "10.0.0.7".into(),
                    ..session(id, "Query", "executing", "SELECT 1")
                }));
                server.threads = answer(at_s, threads);
                let account = |user: &str, host: &str, total, statements| AccountSummary {
                    user: user.into(),
                    host: host.into(),
                    current: 4,
                    total,
                    statements: Some(statements),
                };
                let all = vec![
                    account("web", "10.0.0.7", 5_000 + made, 9_000 + 2 * made),
                    account("app", "10.0.0.8", 4, (4_000.0 * at_s) as u64),
                ];
                server.accounts = answer(at_s, all);
            })
            .window();
        window.server.own_connection_id = Some(99);
        window
    }

    #[test]
    fn who_connects_is_shown_by_the_servers_own_counts() {
        let rates = accounts(&churn(0.5)).unwrap();
        assert_eq!(rates.len(), 1, "a pool makes no connection: {rates:?}");
        let web = &rates[0];
        assert_eq!(
            (web.user.as_str(), web.host.as_str(), web.per_s, web.share),
            ("web", "10.0.0.7", 200.0, 1.0)
        );
        assert_eq!(web.statements_each, Some(2.0));
        assert!((web.lifetime_s.unwrap() - 0.5).abs() < 0.02, "{web:?}");
    }

    #[test]
    fn an_age_is_distinguished_from_connections_that_nobody_saw() {
        let short = lifetimes(&churn(0.02));
        assert_eq!(short.iter().map(|age| age.within_s).collect::<Vec<_>>(), [0.1, 1.0]);
        assert!(short.iter().all(|age| age.closed_ratio > 0.99), "{short:?}");
        let half = lifetimes(&churn(0.5));
        assert!(half[0].closed_ratio < 0.01 && half[1].closed_ratio > 0.98, "{half:?}");
        let long = lifetimes(&churn(60.0));
        assert!(long.iter().all(|age| age.closed_ratio < 0.01), "{long:?}");
    }

    #[test]
    fn a_server_that_nobody_connects_to_has_no_lifetimes() {
        let calm = Build::busy("9.7.4").window();
        assert_eq!(lifetimes(&calm), []);
        assert!(accounts(&calm).is_err(), "nobody asked");
    }

    #[test]
    fn an_account_that_is_new_among_the_busiest_has_made_all_that_it_has() {
        let mut window = churn(0.1);
        let spindoctor_model::Reading::Available { value, .. } = &mut window.samples[0].server.accounts
        else {
            panic!()
        };
        value.clear();
        let rates = accounts(&window).unwrap();
        assert_eq!(rates[0].user, "web");
        assert!(rates.iter().any(|rate| rate.user == "app"));
    }
}
