//! A STOP REPLICA that waits for the applier, in a list that somebody captured.

use spindoctor_model::{Evidence, Finding, Remedy, Window, number};

use super::CAUSE;
use crate::draft::Draft;
use crate::rank::{NOTE, WARNING_FROM};

/// States of a session whose STOP REPLICA waits until the applier or the receiver has ended (sql/rpl_replica.cc; MariaDB: sql/slave.cc).
const STATES: [&str; 2] = ["killing slave", "killing replica"];

/// An applier that ends its transaction at once needs less, seconds. Chosen.
const LONG_S: f64 = 10.0;

/// The finding: a warning where it waits for long.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let threads = window.latest(|sample| &sample.server.threads).filter(|_| window.is_given())?;
    let stops = threads.iter().find(|thread| {
        let state = thread.state.to_ascii_lowercase();
        STATES.iter().any(|begin| state.starts_with(begin))
    })?;
    let who = stops.connection_id.map_or_else(String::new, |id| format!(" of connection {id}"));
    let is_long = stops.time_s >= LONG_S;
    let since = if is_long { format!(", for {} now", number::duration(stops.time_s)) } else { String::new() };
    let headline = format!("STOP REPLICA{who} waits until the applier has ended{since}");
    Some(
        Draft::new(&CAUSE, if is_long { WARNING_FROM } else { NOTE }, headline)
            .why(
                "The applier ends behind the transaction that it applies, and not within it where that has changed a table without \
                 transactions: a large change or a wait for a lock holds it up. Other statements about replication wait meanwhile.",
            )
            .evidence(Evidence::new("state", stops.state.clone(), "", "thread list"))
            .evidence(Evidence::new("it waits for", stops.time_s, "s", "thread list").expected(format!("< {LONG_S:.0}")))
            .remedy(Remedy {
                statement: "SELECT * FROM information_schema.PROCESSLIST WHERE USER = 'system user', and information_schema.INNODB_TRX: \
                            what the applier is at, and for whom it waits"
                    .into(),
                why: "Where a session has a lock that the applier wants, ending that session lets both go on; a large transaction needs its \
                      time."
                    .into(),
                dynamic: true,
                risk: "Looking is safe. KILL of the session with STOP REPLICA ends its wait alone; kill -9 of the server costs a recovery."
                    .into(),
                undo: String::new(),
            })
            .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;
    use spindoctor_model::mysql::ServerThread;

    use super::*;
    use crate::testing::{Build, answer, session};

    #[test]
    fn a_stop_that_waits_for_the_applier_is_said_with_its_connection() {
        let of = |state: &'static str, time_s: f64| {
            let thread = ServerThread { time_s, ..session(57, "Query", state, "STOP SLAVE") };
            let build = Build::busy("5.7.44").without_profile().captured();
            found(
                &build
                    .each(move |at_s, server, _| server.threads = answer(at_s, vec![thread.clone()]))
                    .window(),
            )
        };
        let finding = of("Killing slave", 600.0).unwrap();
        assert!(finding.headline.starts_with("STOP REPLICA of connection 57 waits"), "{}", finding.headline);
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(of("Killing replica", 1.0).unwrap().severity, Severity::Note);
        assert_eq!(of("updating", 600.0), None);
    }
}
