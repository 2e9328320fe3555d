//! The readings that a trigger checks ten times per second: a few status variables, and a few readings of the host.
//!
//! In: names. Out: their values, or why there are none. The session is its own and has a short deadline, so that a
//! server that hangs cannot block the caller; after a missed deadline a new session is made.

use std::time::{Duration, Instant};

use spindoctor_model::HostSample;
use spindoctor_model::mysql::NamedValues;

use crate::host;
use crate::mysql::{Limits, Session, SessionCost, Target};

/// How long a check may take: far beyond what a server that answers needs, short enough to notice one that hangs.
pub const DEADLINE: Duration = Duration::from_secs(1);

/// A session for status variables.
#[derive(Debug)]
pub struct StatusGauge {
    target: Target,
    session: Option<Session>,
    /// `SHOW GLOBAL STATUS`, of those that are wanted.
    statement: String,
    cost: SessionCost,
}

impl StatusGauge {
    /// For these status variables. Nothing is asked yet.
    pub fn new(target: Target, names: &[String]) -> Self {
        let mut statement = "SHOW GLOBAL STATUS".to_owned();
        if !names.is_empty() {
            let quoted: Vec<String> = names
                .iter()
                // A status variable's name has no other characters: nothing else reaches the server.
                .map(|name| {
                    name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.')).collect()
                })
                .map(|name: String| format!("'{name}'"))
                .collect();
            statement = format!("{statement} WHERE Variable_name IN ({})", quoted.join(", "));
        }
        Self { target, session: None, statement, cost: SessionCost::default() }
    }

    /// Asks now; connects first where there is no session.
    ///
    /// Cost: about 1 ms of the server's time; performance_schema sums the counters of all sessions.
    ///
    /// # Errors
    /// Why there is no answer, in one clause.
    pub async fn read(&mut self) -> Result<NamedValues, String> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let limits = Limits { connect: DEADLINE, query: DEADLINE };
                Session::connect(&self.target, &limits).await.map_err(|error| error.to_string())?
            }
        };
        let before = session.cost();
        let answer = session.query(&self.statement).await;
        let after = session.cost();
        self.cost.queries += after.queries - before.queries;
        self.cost.busy_ms += after.busy_ms - before.busy_ms;
        if !session.is_broken() {
            self.session = Some(session);
        }
        let rows = answer.map_err(|error| error.to_string())?;
        Ok(rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1)?))).collect())
    }

    /// What the checks cost the server so far.
    pub fn cost(&self) -> SessionCost {
        self.cost
    }
}

/// The readings of the host that [`read_host`] takes: small files, some microseconds each.
const HOST_SOURCES: [&host::HostSource; 5] = [
    &host::process::SOURCE,
    &host::throttling::SOURCE,
    &host::cpu_times::SOURCE,
    &host::pressure::SOURCE,
    &host::cgroup_pressure::SOURCE,
];

/// Reads the host now.
pub fn read_host(target: &host::Target) -> HostSample {
    let (mut sample, begun) = (HostSample::default(), Instant::now());
    for source in HOST_SOURCES {
        source.read_into(&mut sample, target, begun);
    }
    sample
}

/// The load average of the last minute, as `/proc/loadavg` begins: `0.52 0.58 0.59 1/1021 12345`.
pub fn load_average(target: &host::Target) -> Option<f64> {
    let text = std::fs::read_to_string(target.proc.join("loadavg")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Endpoint;

    fn gauge(names: &[&str]) -> StatusGauge {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        StatusGauge::new(Target::new(Endpoint::Socket("/nonexistent/mysqld.sock".into()), "app"), &names)
    }

    #[test]
    fn only_the_wanted_variables_are_asked_for_and_no_name_leaves_its_quotes() {
        assert_eq!(gauge(&[]).statement, "SHOW GLOBAL STATUS");
        assert_eq!(
            gauge(&["Threads_running", "x' OR 1 -- "]).statement,
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'xOR1')"
        );
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_reason_and_no_panic() {
        let error = gauge(&["Uptime"]).read().await.unwrap_err();
        assert!(error.contains("/nonexistent/mysqld.sock"), "{error}");
    }

    #[test]
    fn the_live_host_is_read() {
        let target = host::Target::live(std::process::id());
        assert!(read_host(&target).process.value().is_some());
        assert!(load_average(&target).is_some_and(|load| load >= 0.0));
    }
}
