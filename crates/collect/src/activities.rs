//! What the threads of a server do for their clients, by the kernel's thread ids: beside snapshots of stacks.
//!
//! In: a target and the server's process. Out: an [`Activity`] for each thread that serves a connection. The caller may
//! ask as often as it likes; the sources say what that costs.

use std::collections::HashMap;
use std::time::Instant;

use spindoctor_model::ServerVersion;
use spindoctor_model::mysql::{NamedValues, ServerThread};
use spindoctor_model::stack::Activity;

use crate::asking::{Known, first_answer};
use crate::host;
use crate::host::thread_ids::ThreadIds;
use crate::mysql::source::{Plan, Source};
use crate::mysql::{
    ConnectError, QueryError, Session, SessionCost, Target, perf_schema_threads, processlist,
};

/// The sources, the better one first.
const SOURCES: [&Source; 2] = [&perf_schema_threads::WITH_DIGESTS, &processlist::SOURCE];

/// A session that is asked what the server's threads do.
#[derive(Debug)]
pub struct Activities {
    session: Session,
    ids: ThreadIds,
    version: ServerVersion,
    variables: NamedValues,
    notes: Vec<String>,
}

impl Activities {
    /// Connects.
    ///
    /// # Errors
    /// There is no session.
    pub async fn connect(target: &Target, process: host::Target) -> Result<Self, ConnectError> {
        let mut session = Session::connect(target, &target.limits).await?;
        let variables = session.performance_schema().await;
        let version = session.version().unwrap_or_default();
        let mut notes = session.notes().to_vec();
        notes.extend(why_no_ids(version, &variables));
        Ok(Self { session, ids: ThreadIds::of_process(process), version, variables, notes })
    }

    /// What the server says it is: `MySQL 9.7.4 on db17`.
    pub fn server(&self) -> String {
        self.session.server()
    }

    /// What did not go as it should and did not stop the session.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the session cost the server so far.
    pub fn cost(&self) -> SessionCost {
        self.session.cost()
    }

    /// Asks what the threads do now.
    ///
    /// # Errors
    /// The server did not answer in time, or refused both sources.
    pub async fn read(&mut self) -> Result<HashMap<u32, Activity>, QueryError> {
        let known = Known { version: self.version, variables: Some(&self.variables), origin: Instant::now() };
        let answer = first_answer(&mut self.session, SOURCES, known).await?;
        let threads = answer.as_ref().and_then(|(_, sample)| sample.threads.value());
        Ok(threads.map_or_else(HashMap::new, |threads| self.by_thread(threads)))
    }

    /// Says goodbye to the server.
    pub async fn close(self) {
        self.session.close().await;
    }

    fn by_thread(&mut self, threads: &[ServerThread]) -> HashMap<u32, Activity> {
        let served = || threads.iter().filter(|thread| thread.connection_id.is_some());
        self.ids.refresh_if_unknown(served().filter_map(|thread| thread.thread_os_id));
        served().filter_map(|thread| Some((self.ids.here(thread.thread_os_id?)?, activity(thread)))).collect()
    }
}

/// Why this server does not say which thread of the kernel serves which connection; None where it does.
fn why_no_ids(version: ServerVersion, variables: &NamedValues) -> Option<String> {
    let why = match (perf_schema_threads::SOURCE.plan)(version, Some(variables)) {
        _ if version.mariadb_at_least(10, 2, 0) => return None,
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) => return None,
        Plan::Ask(_) => format!("{version} does not show them; MySQL 5.7 does"),
        _ if version.is_mariadb() => format!("{version} does not show them; MariaDB 10.2 does"),
        _ => "performance_schema is off; performance_schema = ON in the server's option file, and a restart, switch it on"
            .to_owned(),
    };
    Some(format!("which thread serves which connection is not known: {why}"))
}

/// What a thread does, as a profile keeps it.
fn activity(thread: &ServerThread) -> Activity {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Activity {
        connection_id: thread.connection_id,
        user: given(&thread.user),
        host: given(&thread.host),
        database: given(&thread.schema),
        command: given(&thread.command),
        state: given(&thread.state),
        statement: thread.statement.clone(),
        digest_text: thread.digest_text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_say_which_thread_serves_whom_is_named_with_the_reason() {
        let why = |version: &str, on: &str| {
            let variables = NamedValues::from_iter([("performance_schema".to_owned(), on.to_owned())]);
            why_no_ids(ServerVersion::parse(version, "").unwrap(), &variables)
        };
        assert_eq!(why("9.7.4", "ON"), None);
        assert_eq!(why("10.11.19-MariaDB", "OFF"), None);
        assert!(why("8.0.33", "OFF").unwrap().contains("performance_schema is off"));
        assert!(why("5.6.14", "ON").unwrap().contains("MySQL 5.7 does"));
        assert!(why("10.1.23-MariaDB", "OFF").unwrap().contains("MariaDB 10.2 does"));
    }
}
