//! The answer: today's hardware and settings beside the proposed ones, what it hangs on, and what there is no ground for.

use serde::{Deserialize, Serialize};

use crate::assumption::{Assumption, needed};
use crate::fit::Fit;
use crate::ground::{Ground, PARAMETERS, Parameters};
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::sim::{Effort, simulate};
use crate::world::Hardware;

/// A fit whose points are off by more than a quarter describes another server.
const MOST_FIT_ERROR: f64 = 0.25;
/// How many times more connections, or CPUs, than were measured are still answered for.
const MOST_BEYOND: f64 = 4.0;
/// Measurements without which nothing is known of the contended latch.
const LEAST_FOR_LATCHES: usize = 4;
/// By how much each parameter is moved to see what the answer hangs on.
const MOVED: f64 = 1.25;

pub(crate) const NO_CONNECTIONS: &str = "no number of connections is asked for";

/// What the model does not have.
pub const LEFT_OUT: [&str; 10] = [
    "reads of data and writes of pages: a working set that does not fit into memory is another server",
    "row locks, metadata locks and other waits of transactions for each other",
    "latches beside the most contended one and the rollback segments: another one may be the next limit",
    "the network and the clients, beside the time between two requests",
    "the balancing of run queues, beside that a CPU that idles takes a thread of the longest one",
    "the placement of memory on NUMA nodes: only the lines of latches move",
    "CPU frequency that falls while more cores work, beside what the fitted crowding has of it",
    "the log's own threads, beside that they spin or sleep: each hand-over costs what one between other threads does",
    "how long a server that can be in either of two states, fast or crowded, stays in each: it is shown in the one that it \
     is in after a thread has lost its CPU while it held the latch",
    "the clients' CPU time where they run on the same machine, beside that a quota does not count it",
];

/// So many connections, now and then.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Connections.
    pub threads: u32,
    /// By the model with the hardware and the settings of the measurements.
    pub today: Outcome,
    /// With the proposed ones.
    pub proposed: Outcome,
    /// More connections than were measured.
    pub beyond_measured: bool,
}

/// What the answer hangs on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The parameter.
    pub parameter: String,
    /// False where it is assumed, not fitted.
    pub fitted: bool,
    /// Throughput proposed by today's at the most connections, as predicted.
    pub ratio: f64,
    /// The same with a smaller and a greater parameter: the lower and the higher one.
    pub ratio_low: f64,
    /// The higher one.
    pub ratio_high: f64,
}

/// A prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// In the order of the connections.
    pub rows: Vec<Row>,
    /// The one that it hangs on most first.
    pub sensitivity: Vec<Sensitivity>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The machine.
    pub hardware: Hardware,
    /// The settings.
    pub settings: Settings,
    /// Numbers of connections.
    pub threads: Vec<u32>,
    /// What is taken for granted about a machine that was not measured.
    pub assumptions: Vec<Assumption>,
}

impl Question {
    /// The numbers of connections, in order and once each.
    pub(crate) fn connections(&self) -> Vec<u32> {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        threads
    }
}

/// Answers for other hardware and settings.
///
/// # Errors
/// That there is no ground for it, and what would be one.
pub fn predict(ground: &Ground, fit: &Fit, question: &Question, seed: u64) -> Result<Answer, String> {
    let most = refuse(ground, fit, question)?;
    let Question { hardware, settings, .. } = question;
    let then = Ground { hardware: hardware.clone(), settings: settings.clone(), ..ground.clone() };
    let effort = Effort::default();
    let both = |parameters: &Parameters, threads: u32| {
        let [today, proposed] =
            [ground, &then].map(|ground| simulate(&ground.world(parameters), threads, seed, effort));
        (today, proposed)
    };
    let rows: Vec<Row> = question
        .connections()
        .into_iter()
        .map(|threads| {
            let (today, proposed) = both(&fit.parameters, threads);
            Row { threads, today, proposed, beyond_measured: threads > most }
        })
        .collect();
    let Some(last) = rows.last() else { return Err("no number of connections is asked for".to_owned()) };
    let ratio =
        |today: &Outcome, proposed: &Outcome| proposed.throughput_per_s / today.throughput_per_s.max(1e-9);
    let predicted = ratio(&last.today, &last.proposed);
    let mut sensitivity: Vec<Sensitivity> = PARAMETERS
        .iter()
        .map(|parameter| {
            let moved = [1.0 / MOVED, MOVED].map(|by| {
                let mut parameters = fit.parameters;
                (parameter.set)(&mut parameters, (parameter.get)(&fit.parameters) * by);
                let (today, proposed) = both(&parameters, last.threads);
                ratio(&today, &proposed)
            });
            Sensitivity {
                parameter: parameter.name.to_owned(),
                fitted: fit.fitted.iter().any(|name| name == parameter.name),
                ratio: predicted,
                ratio_low: moved[0].min(moved[1]).min(predicted),
                ratio_high: moved[0].max(moved[1]).max(predicted),
            }
        })
        .collect();
    let span = |it: &Sensitivity| (it.ratio_high.max(1e-9) / it.ratio_low.max(1e-9)).ln();
    sensitivity.sort_by(|a, b| span(b).total_cmp(&span(a)));
    Ok(Answer { rows, sensitivity })
}

/// What there is no ground for; otherwise the most connections that were measured.
pub(crate) fn refuse(ground: &Ground, fit: &Fit, question: &Question) -> Result<u32, String> {
    let Question { hardware, settings, threads, assumptions } = question;
    let Some(most) = ground.measured.iter().map(|measured| measured.threads).max() else {
        return Err("nothing was measured: give a sweep or a table of connections and throughput".to_owned());
    };
    if fit.rms_log_error.is_nan() || fit.rms_log_error > MOST_FIT_ERROR {
        return Err(format!(
            "the model does not describe these measurements: its points are off by {:.0} % on average, and {:.0} % is \
             the most; what limits this server is not in the model",
            (fit.rms_log_error.exp() - 1.0) * 100.0,
            (MOST_FIT_ERROR.exp() - 1.0) * 100.0
        ));
    }
    if let Some(far) = threads.iter().find(|threads| f64::from(**threads) > MOST_BEYOND * f64::from(most)) {
        return Err(format!(
            "no ground for {far} connections: {most} are the most that were measured; measure at least {}",
            (f64::from(*far) / MOST_BEYOND).ceil()
        ));
    }
    let cpus = ground.hardware.cpus;
    if f64::from(hardware.cpus) > MOST_BEYOND * f64::from(cpus) {
        return Err(format!(
            "no ground for {} CPUs: the measurements were made on {cpus}; measure on at least {}",
            hardware.cpus,
            (f64::from(hardware.cpus) / MOST_BEYOND).ceil()
        ));
    }
    let contends = hardware.cpus != cpus
        || hardware.numa_nodes != ground.hardware.numa_nodes
        || hardware.pause_ns != ground.hardware.pause_ns
        || settings.touches_latches(&ground.settings);
    if contends && ground.measured.len() < LEAST_FOR_LATCHES {
        return Err(format!(
            "no ground for other latch settings, another PAUSE or other CPUs: {} measurements say nothing about the \
             contended latch; measure at least {LEAST_FOR_LATCHES} numbers of connections, to beyond the peak",
            ground.measured.len()
        ));
    }
    match needed(&ground.hardware, hardware).into_iter().find(|it| !assumptions.contains(it)) {
        Some(missing) => Err(missing.refusal()),
        None => Ok(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::{Measured, Workload};
    use crate::settings::Flavor;

    fn ground(points: &[(u32, f64)]) -> Ground {
        Ground {
            hardware: Hardware { cpus: 4, ..Hardware::default() },
            settings: Settings::for_flavor(Flavor::Mysql57),
            workload: Workload::Reads,
            flush_ns: 0.0,
            server_share: 1.0,
            measured: points
                .iter()
                .map(|&(threads, throughput_per_s)| Measured { threads, throughput_per_s })
                .collect(),
        }
    }

    fn exact(ground: &Ground) -> Fit {
        Fit {
            parameters: Parameters::assumed(ground),
            fitted: Vec::new(),
            points: Vec::new(),
            rms_log_error: 0.05,
        }
    }

    fn same(ground: &Ground, threads: &[u32]) -> Question {
        Question {
            hardware: ground.hardware.clone(),
            settings: ground.settings.clone(),
            threads: threads.to_vec(),
            assumptions: Vec::new(),
        }
    }

    const FOUR: [(u32, f64); 4] = [(1, 10e3), (2, 19e3), (4, 30e3), (16, 31e3)];

    #[test]
    fn what_has_no_ground_is_refused_with_what_would_be_one() {
        let ground = ground(&FOUR);
        let fit = exact(&ground);
        let asked = |question: &Question, fit: &Fit| predict(&ground, fit, question, 1).unwrap_err();
        let far = asked(&same(&ground, &[65]), &fit);
        assert!(far.contains("65 connections") && far.contains("at least 17"), "{far}");
        let mut large = same(&ground, &[16]);
        large.hardware.cpus = 128;
        assert!(asked(&large, &fit).contains("128 CPUs"));
        let wrong = Fit { rms_log_error: f64::NAN, ..fit.clone() };
        assert!(asked(&same(&ground, &[16]), &wrong).contains("does not describe"));
        let bad = Fit { rms_log_error: MOST_FIT_ERROR + 0.01, ..fit.clone() };
        assert!(asked(&same(&ground, &[16]), &bad).contains("off by 30 %"));
        assert!(asked(&same(&ground, &[]), &fit).contains("no number"));
    }

    #[test]
    fn a_machine_beyond_what_was_measured_is_answered_for_only_with_what_is_assumed_of_it() {
        let ground = ground(&FOUR);
        let fit = exact(&ground);
        for (assumption, beyond) in [
            (Assumption::Cpus, (|hardware| hardware.cpus = 8) as fn(&mut Hardware)),
            (Assumption::Numa, |hardware| hardware.numa_nodes = 2),
            (Assumption::Pause, |hardware| hardware.pause_ns = 47.0),
        ] {
            let mut question = same(&ground, &[4]);
            beyond(&mut question.hardware);
            let refused = predict(&ground, &fit, &question, 1).unwrap_err();
            assert!(refused.contains(assumption.name()), "{refused}");
            question.assumptions.push(assumption);
            assert!(predict(&ground, &fit, &question, 1).is_ok(), "{assumption:?}");
        }
        let mut fewer = same(&ground, &[4]);
        fewer.hardware.cpus = 2;
        fewer.hardware.quota_cpus = Some(1.0);
        assert!(predict(&ground, &fit, &fewer, 1).is_ok(), "less of what was measured needs no assumption");
    }

    #[test]
    fn few_measurements_say_nothing_about_latches_and_something_about_a_quota() {
        let ground = ground(&FOUR[..2]);
        let fit = exact(&ground);
        let mut question = same(&ground, &[2]);
        question.settings.set("innodb_sync_spin_loops", "200").unwrap();
        let refused = predict(&ground, &fit, &question, 1).unwrap_err();
        assert!(refused.contains("at least 4 numbers"), "{refused}");
        let mut halved = same(&ground, &[2]);
        halved.hardware.quota_cpus = Some(0.5);
        let answer = predict(&ground, &fit, &halved, 1).unwrap();
        let row = answer.rows[0];
        assert!(row.proposed.cpus < 0.55 && row.proposed.throttled_share > 0.5, "{row:?}");
        assert!(row.proposed.throughput_per_s < 0.5 * row.today.throughput_per_s, "{row:?}");
        assert_eq!(answer.sensitivity.len(), PARAMETERS.len());
    }
}
