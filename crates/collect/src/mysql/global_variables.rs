//! `SHOW GLOBAL VARIABLES`: what the server is set to. Asked first: other sources depend on it.

use super::source::{Plan, Source};
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
    plan: |_, _| Plan::Ask("SHOW GLOBAL VARIABLES"),
    parse: |rows, answer, sample| {
        sample.variables = answer.reading(super::global_status::named_values(rows));
    },
    fail: |why, sample| sample.variables.fail(why),
    answered: |sample| sample.variables.value().is_some(),
};

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::source::Answer;
    use spindoctor_model::{ServerSample, mysql::NamedValues};

    fn variables(file: &str) -> NamedValues {
        let mut sample = ServerSample::default();
        (SOURCE.parse)(&fixture::rows(&format!("variables/{file}")), Answer::default(), &mut sample);
        sample.variables.value().unwrap().clone()
    }

    #[test]
    fn reads_variables_from_5_1_to_8_0_in_any_layout() {
        let percona_8_0 = variables("pt-temp_enc008.txt");
        assert_eq!(percona_8_0.number("innodb_spin_wait_delay"), Some(6.0));
        assert_eq!(percona_8_0.text("admin_address"), Some(""));
        assert_eq!(percona_8_0.switch("performance_schema"), Some(true));
        assert_eq!(
            variables("netdata-mysql-v8.0.30-global_variables.txt").number("max_connections"),
            Some(151.0)
        );
        assert_eq!(variables("pt-vars004.txt").number("AUTO_INCREMENT_INCREMENT"), Some(1.0));
        assert_eq!(variables("pt-vars-baron-002.txt").number("auto_increment_offset"), Some(2.0));
    }
}
