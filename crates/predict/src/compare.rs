//! Several settings side by side: what each does at each number of connections, and which of them does most.

use serde::{Deserialize, Serialize};

use crate::answer::{NO_CONNECTIONS, Question, refuse};
use crate::fit::Fit;
use crate::ground::Ground;
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::sim::{Effort, simulate};

/// What the model says of some settings at so many connections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct At {
    /// Connections.
    pub threads: u32,
    /// What it says.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Settings beside those of the measurements, on the same machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The settings.
    pub settings: Settings,
    /// Their throughput by that of the settings as they were measured: the geometric mean over the numbers of connections.
    pub ratio: f64,
    /// In the order of the connections.
    pub rows: Vec<At>,
}

/// Answers for each of some settings on the question's machine, those that do most first; of two that do the same the one that
/// was named first. The question's own settings are not among them.
///
/// # Errors
/// That there is no ground for one of them, and what would be one.
pub fn compare(
    ground: &Ground,
    fit: &Fit,
    question: &Question,
    candidates: &[Settings],
    seed: u64,
) -> Result<Vec<Compared>, String> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    for settings in candidates {
        refuse(ground, fit, &Question { settings: settings.clone(), ..question.clone() })?;
    }
    let threads = question.connections();
    if threads.is_empty() {
        return Err(NO_CONNECTIONS.to_owned());
    }
    let rows = |settings: &Settings| -> Vec<At> {
        let then =
            Ground { hardware: question.hardware.clone(), settings: settings.clone(), ..ground.clone() };
        let world = then.world(&fit.parameters);
        let at = |&threads: &u32| At { threads, outcome: simulate(&world, threads, seed, Effort::default()) };
        threads.iter().map(at).collect()
    };
    let as_measured = rows(&ground.settings);
    let mut compared: Vec<Compared> = candidates
        .iter()
        .map(|settings| {
            let rows = rows(settings);
            let log = |(now, then): (&At, &At)| {
                let per_s = |at: &At| at.outcome.throughput_per_s.max(1e-9);
                (per_s(now) / per_s(then)).ln()
            };
            let logs: f64 = rows.iter().zip(&as_measured).map(log).sum();
            Compared { settings: settings.clone(), ratio: (logs / rows.len() as f64).exp(), rows }
        })
        .collect();
    compared.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::{Measured, Parameters, Workload};
    use crate::settings::Flavor;
    use crate::world::Hardware;

    fn ground() -> Ground {
        let measured = [(1, 10e3), (2, 19e3), (4, 30e3), (16, 31e3)];
        Ground {
            hardware: Hardware { cpus: 4, ..Hardware::default() },
            settings: Settings::for_flavor(Flavor::Mysql57),
            workload: Workload::Reads,
            flush_ns: 0.0,
            server_share: 1.0,
            measured: measured
                .map(|(threads, throughput_per_s)| Measured { threads, throughput_per_s })
                .to_vec(),
        }
    }

    fn loops(ground: &Ground, loops: &str) -> Settings {
        let mut settings = ground.settings.clone();
        settings.set("innodb_sync_spin_loops", loops).unwrap();
        settings
    }

    #[test]
    fn those_that_do_most_come_first_and_what_was_measured_is_one() {
        let ground = ground();
        let parameters = Parameters { hold_ns: 20e3, ..Parameters::assumed(&ground) };
        let fit = Fit { parameters, fitted: Vec::new(), points: Vec::new(), rms_log_error: 0.05 };
        let question = Question {
            hardware: ground.hardware.clone(),
            settings: ground.settings.clone(),
            threads: vec![16, 4, 4],
            assumptions: Vec::new(),
        };
        let candidates = ["0", "30", "200", "30"].map(|rounds| loops(&ground, rounds));
        let compared = compare(&ground, &fit, &question, &candidates, 1).unwrap();
        assert_eq!(compared.len(), 4);
        assert!(compared.is_sorted_by(|one, other| one.ratio >= other.ratio), "{compared:?}");
        let same: Vec<&Compared> = compared.iter().filter(|it| it.settings == ground.settings).collect();
        assert!(same.len() == 2 && same.iter().all(|it| it.ratio == 1.0), "{same:?}");
        let threads: Vec<u32> = compared[0].rows.iter().map(|row| row.threads).collect();
        assert_eq!(threads, [4, 16]);
        let none = compared.iter().find(|it| it.settings == candidates[0]).unwrap();
        assert!(none.rows[1].outcome.spin_share == 0.0, "{none:?}");

        let few = Ground { measured: ground.measured[..2].to_vec(), ..ground.clone() };
        let near = Question { threads: vec![2], ..question.clone() };
        let refused = compare(&few, &fit, &near, &candidates, 1).unwrap_err();
        assert!(refused.contains("at least 4 numbers"), "{refused}");
        let nothing = Question { threads: Vec::new(), ..question };
        assert_eq!(compare(&ground, &fit, &nothing, &candidates, 1).unwrap_err(), NO_CONNECTIONS);
    }
}
