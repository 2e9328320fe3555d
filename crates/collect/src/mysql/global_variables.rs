//! `SHOW GLOBAL VARIABLES`: what the server is set to. Asked first: other sources depend on it.

use spindoctor_model::ServerSample;

use super::source::{Plan, Source};
use crate::pace::Pace;
use crate::source::Cadence;

/// The source.
///
/// Cost: some 300 (5.1) to 700 (9.x) variables, each read under its own short lock, no table. About 1 ms.
/// Safe to ask every second; nothing is gained by it.
pub const SOURCE: Source = Source {
    name: "SHOW GLOBAL VARIABLES",
    help: "what the server is set to, and which sources it can offer",
    cost: "reads some 700 variables from memory, about 1 ms",
    grant: |_| "",
    install: "",
    cadence: Cadence::Once,
    pace: Pace::server(60, 600),
    plan: |_, _| Plan::Ask("SHOW GLOBAL VARIABLES"),
    parse: |rows, answer, sample| {
        sample.variables = answer.reading(super::global_status::named_values(rows));
    },
    reading: ServerSample::field("variables"),
};

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::source::Answer;
    use spindoctor_model::{ServerSample, mysql::NamedValues};

    #[test]
    fn reads_the_variables_of_every_captured_server() {
        let all = fixture::captures("calm", &SOURCE);
        assert!(all.len() >= 10, "only {} servers", all.len());
        for (server, rows) in all {
            let mut sample = ServerSample::default();
            (SOURCE.parse)(&rows, Answer::default(), &mut sample);
            let variables: &NamedValues = sample.variables.value().unwrap();
            assert_eq!(variables.number("max_connections"), Some(151.0), "{server}");
            assert_eq!(variables.number("AUTO_INCREMENT_INCREMENT"), Some(1.0), "{server}");
            assert_eq!(variables.text("init_connect"), Some(""), "{server}");
            // On where servers are installed since MySQL 5.6.6, off in 5.5 and in MariaDB.
            let on = server.starts_with("mysql") && !server.starts_with("mysql-5.5");
            assert_eq!(variables.switch("performance_schema"), Some(on), "{server}");
        }
    }
}
